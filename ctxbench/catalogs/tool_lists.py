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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ctxbench.catalogs.snapshots import SnapshotPart, Source
from ctxbench.io.documents import (
    YamlPath,
    dump_json,
    entry_lines,
    is_lines,
    iter_jsonl,
    line_of,
    read_jsonc,
)
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, merge_equal_faults, raise_faults, suggest
from ctxbench.model.items import Catalog, Item, ItemKey

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
    text: str,
    *,
    allowed: Collection[str] = tuple(OTHER_NAMES),
    of: str = "a tool",
    example: str = _EXAMPLE,
    joined: Collection[str] = (),
) -> dict[str, str]:
    """Read a mapping such as `name=tool_name,schema=spec.args`: field to what the list calls it, dots inwards.

    Args:
        text: the mapping.
        allowed: the fields that may be mapped.
        of: what they are the fields of, and
        example: a mapping of them, for messages.
        joined: the fields that may be mapped to several, which are joined with `+`.

    Raises:
        ParameterError: it is none, a field is not known, or another one is mapped twice.
    """
    names: dict[str, str] = {}
    for part in text.split(","):
        field, sign, file_field = (piece.strip() for piece in part.partition("="))
        if not sign or not field or not file_field:
            raise ParameterError(f"fields are mapped as field=theirs, with commas between ({example}); got {text!r}")
        if field not in allowed:
            hint = (
                f"; did you mean {file_field}={field}?"
                if file_field in allowed and not get_close_matches(field, allowed, cutoff=0.75)
                else suggest(field, allowed, most=len(allowed))
            )
            raise ParameterError(f"{field!r} is no field of {of}{hint}")
        if field in names and field in joined:
            file_field = "+".join(dict.fromkeys(f"{names[field]}+{file_field}".split("+")))
        elif field in names:
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
        plain = ("inputschema", "parameters") if name == "schema" else (name,)
        alike = [key for tool in listed for key in tool if re.sub(r"[\W_]", "", key.lower()) in plain]  # such as `Name`
        counts = {
            theirs: sum(_fits(name, tool.get(theirs)) for tool in listed) for theirs in (*alike, *OTHER_NAMES[name])
        }
        likely = [theirs for theirs, n in counts.items() if 2 * n > len(listed) and theirs not in names.values()]
        names |= dict.fromkeys([name], likely[0]) if likely else {}
    return names


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
    return isinstance(value, dict) and (
        isinstance(value.get("function"), dict) or ("name" in value and any(key in value for key in SCHEMA_KEYS))
    )


def describes_item(value: object) -> bool:
    """Whether an entry of a list describes an item (a description or a schema) rather than names or calls one.

    `parameters` may be the arguments of a call, too: then it is no schema.
    """
    if not isinstance(value, dict):
        return False
    function = value.get("function")
    if isinstance(function, dict):
        return describes_item(function) or not ("arguments" in function or value.get("id") is not None)
    schemas = (value.get(key) for key in ("schema", *SCHEMA_KEYS) if key != "parameters")
    return (
        value.get("description") is not None
        or any(schema is not None for schema in schemas)
        or (value.get("parameters") is not None and "arguments" not in value and _is_schema(value["parameters"]))
    )


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
    key_names = " and ".join(map(repr, schema_keys))
    checks: list[tuple[str, dict[str, Any], bool]] = [
        ("catalogs.tool-name", {"got": name}, not isinstance(name, str) or not name),
        ("catalogs.tool-description", {"got": description}, not isinstance(description, str | None)),
        ("catalogs.tool-schemas", {"keys": key_names}, len(schema_keys) > 1),
        ("catalogs.tool-schema", {"field": key_names[1:-1], "got": schema}, not isinstance(schema, dict | None)),
    ]
    wrong += [Message(key, **values) for key, values, applies in checks if applies] + unusable(data)
    if wrong:
        raise ParameterError("; ".join(wrong))
    read_keys = {"name", "description", "title", "enabled", "type", "function", *SCHEMA_KEYS, *SERVER_KEYS}
    return ToolDefinition(
        name=str(name),
        description=str(description or ""),
        schema=schema,
        form="openai" if body is not data else SCHEMA_KEYS[schema_keys[0]] if schema_keys else "plain",
        server=next((_server_name(data.get(key)) for key in SERVER_KEYS if data.get(key)), None),
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
    data, lines = _read(Path(path))
    return tools_part(data, Path(path), lines, server=server, names=names)


def tools_part(
    data: Any,
    path: Path,
    lines: Callable[[], Mapping[YamlPath, int]] = dict,
    *,
    server: str | None = None,
    names: Mapping[str, str] | None = None,
) -> SnapshotPart:
    """The tools of a JSON value, as `read_tool_list` reads that of a file.

    Args:
        data: the value.
        path: of the file that it is from.
        lines: gives the lines of the file by path.
        server, names: as for `read_tool_list`.

    Raises:
        InputError: as of `read_tool_list`.
    """
    reader = _ToolListReader(path, names or {}, lines)
    for entry in reader.entries(data, (), _Server(server)):
        reader.read(*entry)
    reader.raise_faults()
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


def listed_tools(values: Iterable[Any]) -> Catalog:
    """The tools that requests in logs list under `tools` or `functions`: the first definition of each name."""
    items: dict[ItemKey, Item] = {}
    read: set[str] = set()  # logs repeat the same lists
    for document in values:
        left = [document] if isinstance(document, dict | list) else []
        for value in left:
            for name, entry in value.items() if isinstance(value, dict) else (("", entry) for entry in value):
                tools = entry if name in ("tools", "functions") and isinstance(entry, list) else []
                text = str(tools)
                for tool in filter(describes_item, tools if text not in read else ()):
                    with suppress(ParameterError):  # a tool of the provider, or not right
                        item = read_definition(tool).item(None)
                        items.setdefault(item.key, item)
                read.add(text)
                left += [entry] if isinstance(entry, dict | list) and not tools else []
    return Catalog(items.values())


def is_tool_list(values: Sequence[Any]) -> bool:
    """Whether the first values of a file are definitions of tools, or hold them and nothing of a log or an eval."""
    if any(not isinstance(value, dict) or not _IN_LOGS.isdisjoint(value) for value in values):
        return False
    reader = _ToolListReader(Path(), {}, dict)
    tools = [tool for tool, _, _ in reader.entries(values[0] if len(values) == 1 else list(values), (), _Server())]
    return (
        not reader.faults
        and any(map(describes_item, tools))
        and all(describes_item(tool) or tool.keys() <= _NAMING for tool in tools)
        and not any("text" in tool for tool in tools)
    )


def _read(path: Path) -> tuple[Any, Callable[[], Mapping[YamlPath, int]]]:
    """The data, and a function that gives its lines; JSON lines are a list.

    The fault of a file that is no JSON by name or content says what is expected.
    """
    suffix, faults = path.suffix.lower(), list[Fault]()
    if suffix not in _LINES:
        try:
            data, text = read_jsonc(path)
        except InputError as error:
            if not is_lines(path):
                expected = [
                    replace(f, message=Message("catalogs.tool-list-format", why=f.message)) for f in error.faults
                ]
                raise error if suffix.startswith(".json") else InputError(expected) from error
        else:
            return data, partial(entry_lines, text)
    rows = list(iter_jsonl(path, faults))
    raise_faults(merge_equal_faults(faults))
    return [row for _, row in rows], lambda: {(index,): line for index, (line, _) in enumerate(rows)}


class _Server(NamedTuple):
    """The server that a list of tools belongs to."""

    name: str | None = None
    version: str = ""


_Entry: TypeAlias = tuple[Mapping[str, Any], YamlPath, _Server]  # a definition, its path in the file, and its server


@dataclass
class _ToolListReader:
    """The definitions read so far, and their faults.

    Attributes:
        path: the file.
        names: what the list calls fields.
        read_lines: gives the lines of the file by path.
        items: the tools.
        forms: numbers of tools by form.
        hosted: numbers of tools that the provider runs, by type.
        definitions: the other definitions, as in the file.
        paths: where each tool is, by server and name.
        faults: the entry (a text that begins a message), the message and the path of each fault.
        has_next: whether the list names a next page.
        n_without_schema: tools whose schema was left out.
    """

    path: Path
    names: Mapping[str, str]
    read_lines: Callable[[], Mapping[YamlPath, int]]
    items: list[Item] = field(default_factory=list)
    forms: Counter[str] = field(default_factory=Counter)
    hosted: Counter[str] = field(default_factory=Counter)
    definitions: list[Mapping[str, Any]] = field(default_factory=list)
    paths: dict[tuple[str | None, str], YamlPath] = field(default_factory=dict)
    faults: list[tuple[str, str, YamlPath]] = field(default_factory=list)
    has_next: bool = False
    n_without_schema: int = 0

    @cached_property
    def lines(self) -> Mapping[YamlPath, int]:
        """The lines of the file by path, which only faults need."""
        return self.read_lines()

    def entries(self, value: Any, path: YamlPath, server: _Server) -> Iterator[_Entry]:
        """The definitions in a JSON value, also nested ones; anything else is a fault."""
        if isinstance(value, list):
            for index, entry in enumerate(value):
                if not isinstance(entry, dict):
                    self.faults.append((f"{entry!r:.40}", Message("catalogs.not-a-tool"), (*path, index)))
                elif _holds_tools(entry) and not is_definition(entry):
                    yield from self._members(entry, (*path, index), _server_of(entry, server))
                else:
                    yield entry, (*path, index), server
        elif is_definition(value):
            yield value, path, server
        elif isinstance(value, dict):
            yield from self._members(value, path, server)
        else:
            self.faults.append((f"{value!r:.40}", _no_tools(), path))

    def _members(self, value: dict[str, Any], path: YamlPath, server: _Server) -> Iterator[_Entry]:
        """The definitions in an object that is none itself."""
        is_envelope = "jsonrpc" in value and "result" in value
        keys = ("result",) if is_envelope else (*_LISTS, *_SERVERS)
        members = {key: value[key] for key in keys if is_envelope or isinstance(value.get(key), list | dict)}
        self.has_next = self.has_next or bool(members and value.get("nextCursor"))
        for key, inner in members.items():
            read = self._by_name if isinstance(inner, dict) and not is_envelope else self.entries
            yield from read(inner, (*path, key), server)
        if not members:
            yield from self._by_name(value, path, server)

    def _by_name(self, named: dict[str, Any], path: YamlPath, server: _Server) -> Iterator[_Entry]:
        """The definitions of servers by name, or of tools by name, which are of `server`."""
        for name, value in named.items():
            where, fields = (*path, name), value if isinstance(value, dict) else {}
            if isinstance(value, list) or _holds_tools(fields):
                yield from self.entries(value, where, _Server(name, _version(fields)))
            elif is_keyed_tool(renamed(fields, self.names)):
                yield keyed_tool(name, fields), where, server
            elif "command" in fields or "url" in fields:
                problem = Message("catalogs.configured-server", path=shlex.quote(str(self.path)))
                self.faults.append((f"server {name!r}", problem, where))
            else:
                self.faults.append((f"field {name!r}", _no_tools(), where))

    def read(self, definition: Mapping[str, Any], path: YamlPath, server: _Server) -> None:
        """Add the tool of a definition, or its fault."""
        data, has_schema = with_plain_schema(renamed(definition, self.names))
        self.n_without_schema += not has_schema
        try:
            tool = read_definition(data)
        except HostedToolError:
            self.hosted[str(data["type"])] += 1
            return
        except ParameterError as error:
            self.definitions.append(definition)
            self.faults.append((f"tool {data.get('name', '')!r:.60}:", str(error), path))
            return
        self.definitions.append(definition)
        name = tool.server or server.name
        if (first := self.paths.setdefault((name, tool.name), path)) != path:
            where, line = f" on server {name!r}" if name else "", line_of(self.lines, first)
            self.faults.append(("", Message("catalogs.tool-repeated", tool=tool.name, where=where, line=line), path))
            return
        self.forms[tool.form] += 1
        self.items.append(tool.item(name, {"server_version": server.version} if server.version else {}))

    def raise_faults(self) -> None:
        """Raise all faults, with lines; those that say the same of several entries are one.

        Raises:
            InputError: there are faults.
        """
        tools, fields = [renamed(tool, self.names) for tool in self.definitions], self._shown_fields()
        used = {name for tool in self.definitions for name in mapped(tool, self.names)}
        useless = [(field, name) for field, name in self.names.items() if tools and field not in used]
        messages = [Message("catalogs.mapped-field", field=field, name=name, fields=fields) for field, name in useless]
        raise_faults([Fault(message, self.path) for message in messages])
        if not self.items and not self.faults:
            self.faults.append(("the file", _no_tools(), ()))
        if self.faults and tools and not any("name" in tool or "function" in tool for tool in tools):
            option = as_option({**self.names, "name": "FIELD", **self._mapping()})
            raise InputError([Fault(Message("catalogs.tools-without-name", fields=fields, option=option), self.path)])
        groups: dict[str, list[tuple[str, YamlPath]]] = {}
        for subject, message, path in self.faults:
            groups.setdefault(message, []).append((subject, path))
        faults = [
            Fault(f"{alike[0][0]} {message}{_further(alike)}".lstrip(), self.path, line_of(self.lines, alike[0][1]))
            for message, alike in groups.items()
        ]
        raise_faults(sorted(faults, key=lambda fault: fault.line))

    def _mapping(self) -> dict[str, str]:
        """What the tools seem to call the fields that none of them has."""
        tools = [renamed(tool, self.names) for tool in self.definitions]
        names = {"name": ("name",), "description": ("description",), "schema": (*SCHEMA_KEYS,)}
        missing = [name for name, keys in names.items() if not any({*keys, "function"} & tool.keys() for tool in tools)]
        return suggested(tools, missing)

    def _shown_fields(self) -> str:
        """The fields that the tools of the file have."""
        fields = list(dict.fromkeys(name for tool in self.definitions for name in tool))
        return ", ".join(map(repr, fields[:12])) + (", ..." if len(fields) > 12 else "") or "no field at all"

    def notes(self) -> Iterator[str]:
        """Oddities that are no faults."""
        if self.hosted:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.hosted.items()))
            yield Message("catalogs.hosted-tools", kinds=kinds)
        if mapping := self._mapping():
            fields = " and ".join(f"{file_field!r} as the {field}" for field, file_field in mapping.items())
            yield Message("catalogs.unread-fields", fields=fields, option=as_option({**self.names, **mapping}))
        if self.n_without_schema:
            yield Message("catalogs.zod-schemas", n=self.n_without_schema)
        if self.has_next:
            yield Message("catalogs.next-page")


def _no_tools() -> str:
    return Message("catalogs.no-tools", expected=Message("catalogs.tool-forms"))


def _further(alike: Sequence[tuple[str, YamlPath]]) -> str:
    """The words for the entries after the first with the same fault."""
    subjects = [subject.removesuffix(":") for subject, _ in alike[1:]]
    listed = ", ".join(filter(None, subjects[:_NAMED])) + (", ..." if len(subjects) > _NAMED else "")
    return f"; and {len(subjects):,} more{f': {listed}' if listed else ''}" if subjects else ""


def _holds_tools(value: Mapping[str, Any]) -> bool:
    """Whether an object has a list of tools, or tools by name."""
    return any(isinstance(value.get(key), list | dict) for key in _LISTS)


def _server_of(entry: Mapping[str, Any], outer: _Server) -> _Server:
    """The server of an object with `tools`."""
    names = [entry.get(key) for key in (*SERVER_KEYS, "name", "id")]
    name = next((name for name in names if isinstance(name, str) and name), outer.name)
    return _Server(name, _version(entry))


def _version(value: Mapping[str, Any]) -> str:
    info = value.get("serverInfo")
    version = value.get("version") or (info.get("version") if isinstance(info, dict) else None)
    return version if isinstance(version, str) else ""
