"""Tool definitions in the forms of MCP, OpenAI and Anthropic, one by one, as items."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Item
from ctxbench.io.json_files import dump_json

SCHEMA_KEYS = {"inputSchema": "mcp", "input_schema": "anthropic", "parameters": "openai"}
SERVER_KEYS = ("server", "serverName", "server_name", "mcp_server")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_OWN_TYPES = (None, "function", "custom")  # of a definition; any other names a tool that the provider runs


class HostedToolError(ParameterError):
    """A tool that the model's provider runs and that has no definition to send: web search, a code runner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """One tool of a list.

    Attributes:
        name: as the model gets it.
        description: empty if the list has none.
        schema: the input schema; None if the list has none.
        form: `mcp`, `anthropic`, `openai`, or `plain` (no schema, so that the form cannot be told).
        server: the server that the definition names itself, if any.
        title: for people; empty if the list has none.
        enabled: False if the list says so.
        unread: every other field that is not null (annotations, outputSchema, ...).
        sha256: of the definition as the list has it, as compact JSON with its order of keys.
    """

    name: str
    description: str
    schema: Mapping[str, Any] | None
    form: str
    server: str | None
    title: str
    enabled: bool
    unread: Mapping[str, Any]
    sha256: str

    def item(self, server: str | None, metadata: Mapping[str, Any] | None = None) -> Item:
        """The tool as an item of a catalog.

        Args:
            server: its server's name in the catalog; None if it has none.
            metadata: about the server; added to the definition's.
        """
        return Item(
            type="tool",
            server=server,
            name=self.name,
            description=self.description,
            schema=self.schema,
            title="" if self.title == self.name else self.title,
            enabled=self.enabled,
            metadata={**self.unread, **(metadata or {}), "definition_sha256": self.sha256},
        )


def is_definition(value: object) -> bool:
    """Whether a JSON value looks like the definition of one tool, right or wrong."""
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("function"), dict) or ("name" in value and any(key in value for key in SCHEMA_KEYS))


def describes_item(value: object) -> bool:
    """Whether an entry of a list describes an item (a description or a schema) rather than names or calls one.

    `parameters` may be the arguments of a call, too: then it is no schema.
    """
    if not isinstance(value, dict):
        return False
    function = value.get("function")
    if isinstance(function, dict):
        is_call = "arguments" in function or value.get("id") is not None
        return describes_item(function) or not is_call
    schemas = (value.get(key) for key in ("schema", *SCHEMA_KEYS) if key != "parameters")
    if value.get("description") is not None or any(schema is not None for schema in schemas):
        return True
    return value.get("parameters") is not None and "arguments" not in value and _is_schema(value["parameters"])


def _is_schema(parameters: object) -> bool:
    if not isinstance(parameters, dict):
        return isinstance(parameters, list)
    if parameters.get("type") in ("object", "dict") or isinstance(parameters.get("properties"), dict):
        return True
    return all(isinstance(value, dict) and "type" in value for value in parameters.values())


def read_definition(data: Mapping[str, Any]) -> ToolDefinition:
    """Read one definition; its form follows from the field that holds the input schema.

    `inputSchema` is MCP's, `input_schema` Anthropic's, `parameters` OpenAI's, in a `function` (chat completions) or
    beside the name (responses).

    Args:
        data: JSON types only.

    Raises:
        HostedToolError: the provider runs it, so that there is nothing to send.
        ParameterError: everything that is wrong with it, in one message.
    """
    body, wrong = _body(data)
    name, description = body.get("name"), body.get("description")
    if not isinstance(name, str) or not name:
        wrong.append(f"field 'name' must be a text that is not empty, got {name!r:.40}")
    if description is not None and not isinstance(description, str):
        wrong.append(f"field 'description' must be a text, got {description!r:.40}")
    schema_keys = [key for key in SCHEMA_KEYS if key in body]
    if len(schema_keys) > 1:
        wrong.append(f"it has {' and '.join(repr(key) for key in schema_keys)}; expected the schema of one form")
    schema = body.get(schema_keys[0]) if schema_keys else None
    if schema is not None and not isinstance(schema, dict):
        wrong.append(f"field {schema_keys[0]!r} must be an object (a JSON schema), got {schema!r:.40}")
    wrong += unusable(data)
    if wrong:
        raise ParameterError("; ".join(wrong))
    server = next((_server_name(data.get(key)) for key in SERVER_KEYS if data.get(key)), None)
    read_keys = {"name", "description", "title", "enabled", "type", "function", *SCHEMA_KEYS, *SERVER_KEYS}
    unread = {key: value for key, value in {**data, **body}.items() if key not in read_keys and value is not None}
    return ToolDefinition(
        name=str(name),
        description=str(description or ""),
        schema=schema,
        form="openai" if body is not data else SCHEMA_KEYS[schema_keys[0]] if schema_keys else "plain",
        server=server,
        title=_title(body),
        enabled=data.get("enabled") is not False,
        unread=unread,
        sha256=hashlib.sha256(dump_json(data).encode("utf-8")).hexdigest(),
    )


def _body(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """The object that holds name, description and schema, and the faults of the object around it."""
    kind = data.get("type")
    inner = data.get("function")
    if isinstance(inner, dict):
        outside = [key for key in ("name", "description", *SCHEMA_KEYS) if key in data]
        wrong = [f"it has a 'function' and {key!r} beside it; expected one form" for key in outside]
        if kind not in (None, "function"):
            wrong.append(f"it has a 'function' but its type is {kind!r:.40}; expected 'function'")
        return inner, wrong
    if kind not in _OWN_TYPES and not any(key in data for key in SCHEMA_KEYS):
        if not isinstance(kind, str):
            return data, [f"field 'type' must be a text, got {kind!r:.40}"]
        raise HostedToolError(f"{kind!r} is a tool of the model's provider and has no definition")
    return data, []


def _server_name(value: object) -> str | None:
    """The name in a field that names a server: a text, or an object with a name."""
    name = value.get("name") if isinstance(value, dict) else value
    return name if isinstance(name, str) and name else None


def _title(body: Mapping[str, Any]) -> str:
    """MCP's order of precedence: the tool's title, that of its annotations."""
    annotations = body.get("annotations")
    candidates = (body.get("title"), annotations.get("title") if isinstance(annotations, dict) else None)
    return next((title for title in candidates if isinstance(title, str) and title), "")


def unusable(value: object) -> list[str]:
    """The faults of a value that no file and no prompt can hold, but some readers of JSON accept."""
    stack, faults = [value], dict[str, None]()
    while stack:
        part = stack.pop()
        if isinstance(part, Mapping):
            stack.extend([*part, *part.values()])
        elif isinstance(part, list):
            stack.extend(part)
        elif isinstance(part, float) and not math.isfinite(part):
            faults["it holds NaN or an infinite number, which JSON has not"] = None
        elif isinstance(part, str) and _SURROGATE.search(part):
            faults["it holds half a character (a lone surrogate such as \\ud800), which UTF-8 has not"] = None
    return list(faults)
