"""Other names of a tool's fields: a mapping to the names that are read, and the one that a list seems to need."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ctxbench.core.errors import ParameterError, suggest

OTHER_NAMES = {
    "name": ("tool_name", "toolName", "function_name", "functionName", "operationId", "slug", "key", "id", "title"),
    "description": ("desc", "summary", "doc", "docstring", "about", "help", "text", "content"),
    "schema": (
        "args_schema",
        "argsSchema",
        "json_schema",
        "jsonSchema",
        "schema",
        "args",
        "arguments",
        "params",
        "input",
    ),
    "server": ("server_id", "mcp", "namespace", "provider", "toolkit", "app"),
    "title": ("display_name", "displayName", "label"),
}
"""The fields of a tool that can be mapped, and what others call them, likeliest first."""
_EXAMPLE = "name=tool_name,schema=args"


def read_field_names(
    text: str, *, allowed: Collection[str] = tuple(OTHER_NAMES), of: str = "a tool", example: str = _EXAMPLE
) -> dict[str, str]:
    """Read a mapping such as `name=tool_name,schema=spec.args`: field to what the list calls it, dots inwards.

    Args:
        text: the mapping.
        allowed: the fields that may be mapped.
        of: what they are the fields of, and
        example: a mapping of them, for messages.

    Raises:
        ParameterError: it is none, a field is not known, or one is mapped twice.
    """
    names: dict[str, str] = {}
    for part in text.split(","):
        field, sign, file_field = (piece.strip() for piece in part.partition("="))
        if not sign or not field or not file_field:
            raise ParameterError(f"fields are mapped as field=theirs, with commas between ({example}); got {text!r}")
        if field not in allowed:
            raise ParameterError(f"{field!r} is no field of {of}{suggest(field, allowed)}")
        if field in names:
            raise ParameterError(f"field {field!r} is mapped twice: {names[field]} and {file_field}")
        names[field] = file_field
    return names


def renamed(data: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    """A tool with its fields renamed by the mapping; mapped fields that it lacks stay as they are."""
    out = dict(data)
    for name, theirs in names.items():
        value = _inner(data, theirs.split("."))
        if value is not None:
            out.pop(theirs, None)
            out["inputSchema" if name == "schema" else name] = value
    return out


def mapped(data: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """The fields that a mapping finds in a tool."""
    return [field for field, theirs in names.items() if _inner(data, theirs.split(".")) is not None]


def _inner(data: Any, path: list[str]) -> Any:
    for part in path:
        data = data.get(part) if isinstance(data, Mapping) else None
    return data


def suggested(tools: Iterable[Mapping[str, Any]], missing: Iterable[str]) -> dict[str, str]:
    """Which of the tools' fields, each in most of the tools, the missing ones may be; empty if none looks like it."""
    listed = list(tools)
    names: dict[str, str] = {}
    for name in missing:
        for candidate in (*_otherwise_written(name, listed), *OTHER_NAMES[name]):
            has = sum(_fits(name, tool.get(candidate)) for tool in listed)
            if 2 * has > len(listed) and candidate not in names.values():
                names[name] = candidate
                break
    return names


def _otherwise_written(field: str, tools: Iterable[Mapping[str, Any]]) -> list[str]:
    """The tools' fields that differ from a field's own names by case and marks alone, such as `Name`."""
    lowercase_names = ("inputschema", "parameters") if field == "schema" else (field,)
    return list(
        dict.fromkeys(key for tool in tools for key in tool if re.sub(r"[\W_]", "", key.lower()) in lowercase_names)
    )


def _fits(field: str, value: Any) -> bool:
    return isinstance(value, Mapping) if field == "schema" else isinstance(value, str) and bool(value)


def as_option(names: Mapping[str, str]) -> str:
    """A mapping as it is written on the command line."""
    return "--map " + ",".join(f"{field}={file_field}" for field, file_field in names.items())
