"""Read tool definitions in the formats of MCP, OpenAI, Anthropic, the AI SDK and gateways.

Tools by name are those of the AI SDK for TypeScript: `{"search": {"description", "inputSchema"}}`. Source:
https://ai-sdk.dev/docs/ai-sdk-core/tools-and-tool-calling (`inputSchema`, and `parameters` before version 5) and
https://ai-sdk.dev/docs/reference/ai-sdk-core/json-schema: `jsonSchema()` and `zodSchema()` are written as
`{"jsonSchema": {...}}`.
"""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ctxbench.catalogs.snapshots import SnapshotPart, Source
from ctxbench.io.documents import (
    YamlPath,
    dump_json,
    entry_lines,
    is_lines,
    iter_jsonl,
    iter_records,
    line_of,
    plain_json,
    read_jsonc,
)
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, merge_equal_faults, raise_faults, suggest
from ctxbench.model.items import Item

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
    """A tool with its fields renamed by the mapping; mapped fields that it lacks are unchanged."""
    out = dict(data)
    for name in mapped(data, names):
        out.pop(names[name], None)
        out["inputSchema" if name == "schema" else name] = value_at(data, names[name])
    return out


def mapped(data: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """The fields that a mapping finds in a tool."""
    return [field for field, theirs in names.items() if value_at(data, theirs) is not None]


def value_at(data: Any, name: str) -> Any:
    """The value of a field, with dots inwards; None if there is none."""
    if isinstance(data, Mapping) and name in data:
        return data[name]
    for part in name.split("."):
        data = data.get(part) if isinstance(data, Mapping) else None
    return data


def suggested(tools: Iterable[Mapping[str, Any]], missing: Iterable[str]) -> dict[str, str]:
    """Which of the tools' fields, each in most of the tools, the missing ones may be; empty if none looks like it."""
    listed = list(tools)
    names: dict[str, str] = {}
    for name in missing:
        candidates = [*_otherwise_written(name, listed), *OTHER_NAMES[name]]
        counts = {theirs: sum(_fits(name, tool.get(theirs)) for tool in listed) for theirs in candidates}
        likely = [theirs for theirs, n in counts.items() if 2 * n > len(listed) and theirs not in names.values()]
        names |= dict.fromkeys([name], likely[0]) if likely else {}
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
        form: `mcp`, `anthropic`, `openai`, or `plain` (no schema, so the form is unknown).
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
    is_object = parameters.get("type") in ("object", "dict") or isinstance(parameters.get("properties"), dict)
    return is_object or all(isinstance(value, dict) and "type" in value for value in parameters.values())


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
    schema_keys = [key for key in SCHEMA_KEYS if key in body]
    schema = body.get(schema_keys[0]) if schema_keys else None
    shown = " and ".join(map(repr, schema_keys))
    checks: list[tuple[str, dict[str, Any], bool]] = [
        ("catalogs.tool-name", {"got": name}, not isinstance(name, str) or not name),
        ("catalogs.tool-description", {"got": description}, not isinstance(description, str | None)),
        ("catalogs.tool-schemas", {"keys": shown}, len(schema_keys) > 1),
        ("catalogs.tool-schema", {"field": shown[1:-1], "got": schema}, not isinstance(schema, dict | None)),
    ]
    wrong += [Message(key, **values) for key, values, applies in checks if applies] + unusable(data)
    if wrong:
        raise ParameterError("; ".join(wrong))
    server = next((_server_name(data.get(key)) for key in SERVER_KEYS if data.get(key)), None)
    read_keys = {"name", "description", "title", "enabled", "type", "function", *SCHEMA_KEYS, *SERVER_KEYS}
    return ToolDefinition(
        name=str(name),
        description=str(description or ""),
        schema=schema,
        form="openai" if body is not data else SCHEMA_KEYS[schema_keys[0]] if schema_keys else "plain",
        server=server,
        title=_title(body),
        enabled=data.get("enabled") is not False,
        unread={key: value for key, value in {**data, **body}.items() if key not in read_keys and value is not None},
        sha256=hashlib.sha256(dump_json(data).encode("utf-8")).hexdigest(),
    )


def _body(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """The object that holds name, description and schema, and the faults of the object around it."""
    kind, inner = data.get("type"), data.get("function")
    if isinstance(inner, dict):
        twice = [key for key in ("name", "description", *SCHEMA_KEYS) if key in data]
        wrong: list[str] = [Message("catalogs.tool-two-forms", key=key) for key in twice]
        return inner, wrong + ([] if kind in (None, "function") else [Message("catalogs.tool-function-type", got=kind)])
    if kind in _OWN_TYPES or any(key in data for key in SCHEMA_KEYS):
        return data, []
    if isinstance(kind, str):
        raise HostedToolError(f"{kind!r} is a tool of the model's provider and has no definition")
    return data, [Message("catalogs.tool-type", got=kind)]


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
            faults[Message("catalogs.infinite-number")] = None
        elif isinstance(part, str) and _SURROGATE.search(part):
            faults[Message("catalogs.lone-surrogate")] = None
    return list(faults)


_OWN = {"description", "title", "name", "strict", "type"}  # of a tool without a schema
_TYPES = ("dynamic", "function")  # the SDK's words for a tool that the agent runs
_HOSTED = ("provider", "provider-defined")  # and for one that the model's provider runs


def is_keyed_tool(value: Mapping[str, Any]) -> bool:
    """Whether an object under a name is a tool: it has a schema, or only a description."""
    return (
        any(isinstance(value.get(key), dict) for key in ("function", *SCHEMA_KEYS))
        or value.get("type") in _HOSTED
        or (isinstance(value.get("description"), str) and set(value) <= _OWN)
    )


def keyed_tool(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """The definition of the tool under a name, which is the name for the model."""
    tool = {key: part for key, part in value.items() if key != "type" or part not in _TYPES}
    function = tool.get("function")
    if tool.get("type") in _HOSTED:
        return {"type": tool["type"], "name": name}
    return {**tool, "function": {"name": name, **function}} if isinstance(function, dict) else {**tool, "name": name}


def with_plain_schema(tool: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """A tool with its schema without the SDK's wrapping; False if the schema is zod's own object and was left out."""
    inner = tool.get("function")
    if isinstance(inner, dict):
        body, is_known = with_plain_schema(inner)
        return (tool if body is inner else {**tool, "function": body}), is_known
    for key in SCHEMA_KEYS:
        schema = tool.get(key)
        if not isinstance(schema, dict):
            continue
        if isinstance(schema.get("jsonSchema"), dict) and "properties" not in schema:
            return {**tool, key: schema["jsonSchema"]}, True
        if isinstance(schema.get("_def"), dict) or (isinstance(schema.get("def"), dict) and "~standard" in schema):
            return {name: value for name, value in tool.items() if name != key}, False
    return tool, True


_NAMED = 5  # entries that a message names after the first
_LINES = (".jsonl", ".ndjson")
_LISTS = ("tools", "functions", "functionDeclarations", "function_declarations")  # fields that hold a list of tools
_IN_LOGS = frozenset(("messages", "input", "query", "question", "prompt", "expected", "text", "content", "called"))
_NAMING = frozenset(("type", "name", "function", "server"))  # fields that do not describe a tool
_SERVERS = ("servers", "mcpServers")  # fields that hold servers by name


def tool_list(path: Path | str, *, server: str | None = None, names: Mapping[str, str] | None = None) -> Source:
    """A source for `capture`: the tools of one file; arguments as of `read_tool_list`."""
    return lambda: (read_tool_list(path, server=server, names=names),)


def read_tool_list(
    path: Path | str, *, server: str | None = None, names: Mapping[str, str] | None = None
) -> SnapshotPart:
    """Read a file of tool definitions; no server is started.

    The file is JSON lines (`.jsonl`), each a tool or anything else that follows, or JSON (comments and trailing commas
    are passed over): a list of tools, an object with `tools` or `functions` (MCP's `tools/list` result, its JSON-RPC
    envelope, the body of a request to OpenAI or Anthropic), tools by name (the AI SDK's `tools`), or tools by server:
    an object by name, or a list of objects with `tools`. A tool may name its server itself (`server`, `serverName`,
    `server_name`). The form is determined for each tool, see `read_definition`; a file of several forms is read, and
    the part says how many there are of each. Tools that the model's provider runs, and that have no definition, are
    left out and counted.

    Args:
        path: the file; named by its file name in the part.
        server: the server of the tools that name none; None leaves them without.
        names: what the list calls a tool's fields where it calls them otherwise, see `read_field_names`.

    Returns:
        One part; items in the order of the file.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is not UTF-8 or not JSON, no list of tools, a definition is wrong, or a name occurs twice on
            one server (with both lines); all faults at once.
    """
    path = Path(path)
    data, text = _read(path)
    reader = _ToolListReader(path, text, names or {})
    for entry in _entries(data, (), _Server(server), reader):
        reader.read(entry)
    reader.finish()
    details: dict[str, Any] = {"forms": dict(sorted(reader.forms.items()))} if reader.forms else {}
    if servers := list(dict.fromkeys(item.server for item in reader.items if item.server is not None)):
        details["servers"] = servers
    return SnapshotPart(
        name=path.name,
        kind="tool list",
        items=tuple(reader.items),
        details=details,
        notes=tuple(reader.notes()),
        origin=str(path.parent),
    )


def is_tool_list(values: Sequence[Any]) -> bool:
    """Whether the first values of a file are definitions of tools, or hold them and nothing of a log or an eval."""
    reader = _ToolListReader(Path(), "", {})
    if any(not isinstance(value, dict) or not _IN_LOGS.isdisjoint(value) for value in values):
        return False
    data = values[0] if len(values) == 1 else list(values)
    entries = [entry.data for entry in _entries(data, (), _Server(), reader)]
    return (
        bool(entries)
        and not reader.wrong
        and any(map(describes_item, entries))
        and all(describes_item(entry) or entry.keys() <= _NAMING for entry in entries)
        and not any("text" in e for e in entries)
    )


def _read(path: Path) -> tuple[Any, str]:
    """The data and its text; JSON lines are a list, with every object in its line of the file.

    The fault of a file that is no JSON by name or content says what is expected.
    """
    suffix, faults = path.suffix.lower(), list[Fault]()
    if suffix not in _LINES:
        try:
            return read_jsonc(path)
        except InputError as error:
            faults += error.faults
        if not is_lines(path):
            whys = (Message("catalogs.tool-list-format", why=fault.message) for fault in faults)
            changed = [replace(fault, message=why) for fault, why in zip(faults, whys, strict=True)]
            raise InputError(faults if suffix.startswith(".json") else changed)
    faults = []
    data = [row for _, row in iter_jsonl(path, faults)]
    raise_faults(merge_equal_faults(faults))
    text, at = "[", 1
    for line, record in iter_records(path, []):
        text += "\n" * (line - at) + f"{record},"
        at = line + record.count("\n")
    return data, plain_json(text + "]")


@dataclass(frozen=True, slots=True)
class _Server:
    """The server that a list of tools belongs to."""

    name: str | None = None
    version: str = ""


@dataclass(frozen=True, slots=True)
class _ToolEntry:
    """One tool definition in the file."""

    data: Mapping[str, Any]
    path: YamlPath
    server: _Server


@dataclass(frozen=True, slots=True)
class _Wrong:
    """The fault of one entry.

    Attributes:
        subject: the entry, such as `tool 'search'`; what is wrong in the same way with several is said once.
        message: what is wrong with it; `{line}` is replaced by the line of `related`.
    """

    subject: str
    message: str
    path: YamlPath
    related: YamlPath | None = None


@dataclass
class _ToolListReader:
    """The definitions read so far, and their faults."""

    path: Path
    text: str
    names: Mapping[str, str]
    items: list[Item] = field(default_factory=list)
    forms: Counter[str] = field(default_factory=Counter)
    hosted: Counter[str] = field(default_factory=Counter)
    wrong: list[_Wrong] = field(default_factory=list)
    first: dict[tuple[str | None, str], YamlPath] = field(default_factory=dict)
    pages: bool = False
    schemaless: int = 0
    mapped: set[str] = field(default_factory=set)
    fields: dict[str, None] = field(default_factory=dict)
    tools: list[Mapping[str, Any]] = field(default_factory=list)

    def fault(self, message: str, path: YamlPath, *, subject: str = "", related: YamlPath | None = None) -> None:
        """Add a fault, see `_Wrong`."""
        self.wrong.append(_Wrong(subject, message, path, related))

    def read(self, entry: _ToolEntry) -> None:
        data, has_schema = with_plain_schema(renamed(entry.data, self.names))
        self.schemaless += not has_schema
        self.mapped.update(mapped(entry.data, self.names))
        self.fields |= dict.fromkeys(entry.data)
        try:
            tool = read_definition(data)
        except HostedToolError:
            self.hosted[str(data["type"])] += 1
            return
        except ParameterError as error:
            self.tools.append(data)
            self.fault(str(error), entry.path, subject=f"tool {data.get('name', '')!r:.60}:")
            return
        self.tools.append(data)
        server = tool.server or entry.server.name
        before = self.first.setdefault((server, tool.name), entry.path)
        if before != entry.path:
            where = f" on server {server!r}" if server else ""
            message = Message("catalogs.tool-repeated", tool=tool.name, where=where, line="{line}")
            self.fault(message, entry.path, related=before)
            return
        self.forms[tool.form] += 1
        self.items.append(tool.item(server, {"server_version": entry.server.version} if entry.server.version else {}))

    def finish(self) -> None:
        """Raise all faults, with lines.

        Raises:
            InputError: anything is.
        """
        if self.tools and (useless := [field for field in self.names if field not in self.mapped]):
            fields = self._shown_fields()
            raise InputError(
                [
                    Fault(
                        Message("catalogs.mapped-field", field=field, name=self.names[field], fields=fields), self.path
                    )
                    for field in useless
                ]
            )
        if not self.items and not self.wrong:
            self.fault(_no_tools(), (), subject="the file")
        if not self.wrong:
            return
        if self.tools and not any("name" in tool or "function" in tool for tool in self.tools):
            raise InputError([self._nameless()])
        lines = entry_lines(self.text)
        groups: dict[tuple[str, YamlPath | None], list[_Wrong]] = {}
        for fault in self.wrong:
            groups.setdefault((fault.message, fault.related), []).append(fault)
        faults = []
        for (message, related), alike in groups.items():
            text = f"{alike[0].subject} {message}{_also(alike)}".lstrip()
            text = text if related is None else text.replace("{line}", str(line_of(lines, related)))
            faults.append(Fault(text, self.path, line_of(lines, alike[0].path)))
        raise InputError(sorted(faults, key=lambda fault: fault.line))

    def _mapping(self) -> dict[str, str]:
        """What the tools seem to call the fields that none of them has."""
        keys = {"name": ("name",), "description": ("description",), "schema": (*SCHEMA_KEYS,)}
        missing = [
            name for name, theirs in keys.items() if not any({*theirs, "function"} & tool.keys() for tool in self.tools)
        ]
        return suggested(self.tools, missing)

    def _shown_fields(self) -> str:
        """The fields that the tools of the file have."""
        fields = list(self.fields)
        return ", ".join(map(repr, fields[:12])) + (", ..." if len(fields) > 12 else "") or "no field at all"

    def _nameless(self) -> Fault:
        names = {**self.names, "name": "FIELD", **self._mapping()}
        fields = self._shown_fields()
        return Fault(Message("catalogs.tools-without-name", fields=fields, option=as_option(names)), self.path)

    def notes(self) -> Iterator[str]:
        """Oddities that are no faults."""
        if self.hosted:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.hosted.items()))
            yield Message("catalogs.hosted-tools", kinds=kinds)
        if mapping := self._mapping():
            fields = " and ".join(f"{file_field!r} as the {field}" for field, file_field in mapping.items())
            yield Message("catalogs.unread-fields", fields=fields, option=as_option({**self.names, **mapping}))
        if self.schemaless:
            yield Message("catalogs.zod-schemas", n=self.schemaless)
        if self.pages:
            yield Message("catalogs.next-page")


def _entries(value: Any, path: YamlPath, server: _Server, reader: _ToolListReader) -> Iterator[_ToolEntry]:
    """The definitions in a JSON value, also nested ones; anything else is a fault."""
    if isinstance(value, list):
        for index, entry in enumerate(value):
            if not isinstance(entry, dict):
                reader.fault(Message("catalogs.not-a-tool"), (*path, index), subject=f"{entry!r:.40}")
            elif any(isinstance(entry.get(key), list | dict) for key in _LISTS) and not is_definition(entry):
                yield from _entries(entry, (*path, index), _server_of(entry, server), reader)
            else:
                yield _ToolEntry(entry, (*path, index), server)
    elif is_definition(value):
        yield _ToolEntry(value, path, server)
    elif isinstance(value, dict):
        yield from _object(value, path, server, reader)
    else:
        reader.fault(_no_tools(), path, subject=f"{value!r:.40}")


def _object(value: dict[str, Any], path: YamlPath, server: _Server, reader: _ToolListReader) -> Iterator[_ToolEntry]:
    """The definitions in an object that is none itself."""
    is_envelope = "jsonrpc" in value and "result" in value
    keys = ("result",) if is_envelope else (*_LISTS, *_SERVERS)
    members = {key: value[key] for key in keys if is_envelope or isinstance(value.get(key), list | dict)}
    reader.pages = reader.pages or bool(members and value.get("nextCursor"))
    for key, inner in members.items():
        read = _by_name if isinstance(inner, dict) and not is_envelope else _entries
        yield from read(inner, (*path, key), server, reader)
    if not members:
        yield from _by_name(value, path, server, reader)


def _by_name(named: dict[str, Any], path: YamlPath, server: _Server, reader: _ToolListReader) -> Iterator[_ToolEntry]:
    """The definitions of servers by name, or of tools by name, which are of `server`."""
    for name, value in named.items():
        where, fields = (*path, name), value if isinstance(value, dict) else {}
        if isinstance(value, list):
            yield from _entries(value, where, _Server(name), reader)
        elif any(isinstance(fields.get(key), list | dict) for key in _LISTS):
            yield from _object(fields, where, _Server(name, _version(fields)), reader)
        elif is_keyed_tool(renamed(fields, reader.names)):
            yield _ToolEntry(keyed_tool(name, fields), where, server)
        elif "command" in fields or "url" in fields:
            problem = Message("catalogs.configured-server", path=shlex.quote(str(reader.path)))
            reader.fault(problem, where, subject=f"server {name!r}")
        else:
            reader.fault(_no_tools(), where, subject=f"field {name!r}")


def _no_tools() -> str:
    return Message("catalogs.no-tools", expected=Message("catalogs.tool-forms"))


def _also(alike: Sequence[_Wrong]) -> str:
    """The words for the entries after the first with which the same is wrong."""
    subjects = [fault.subject.removesuffix(":") for fault in alike[1:]]
    listed = ", ".join(filter(None, subjects[:_NAMED])) + (", ..." if len(subjects) > _NAMED else "")
    return f"; and {len(subjects):,} more{f': {listed}' if listed else ''}" if subjects else ""


def _server_of(entry: Mapping[str, Any], outer: _Server) -> _Server:
    """The server of an object with `tools`."""
    names = [entry.get(key) for key in (*SERVER_KEYS, "name", "id")]
    name = next((name for name in names if isinstance(name, str) and name), outer.name)
    return _Server(name, _version(entry))


def _version(value: Mapping[str, Any]) -> str:
    info = value.get("serverInfo")
    version = value.get("version") or (info.get("version") if isinstance(info, dict) else None)
    return version if isinstance(version, str) else ""
