"""Lists of tools from files: MCP's `tools/list`, what OpenAI and Anthropic are sent, gateways' lists by server."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError, ParameterError, merge_equal_faults
from ctxbench.core.items import Item
from ctxbench.io.json_files import is_lines, iter_jsonl, iter_records
from ctxbench.io.jsonc import entry_lines, plain_json, read_jsonc
from ctxbench.io.yaml_files import YamlPath, line_of
from ctxbench.sources.catalog_snapshots import SnapshotPart, Source
from ctxbench.sources.field_names import as_option, mapped, renamed, suggested
from ctxbench.sources.keyed_tools import is_keyed_tool, keyed_tool, with_plain_schema
from ctxbench.sources.tools import SCHEMA_KEYS, SERVER_KEYS, HostedToolError, is_definition, read_definition

_NAMED = 5  # entries that a message names after the first
_LINES = (".jsonl", ".ndjson")
_LISTS = ("tools", "functions")  # fields that hold a list of tools
_SERVERS = ("servers", "mcpServers")  # fields that hold servers by name
_EXPECTED = (
    'expected a list of tools, {"tools": [...]}, tools by name: {"search": {"description", "inputSchema"}}, or tools '
    'by server: {"git": [...]}, [{"name": "git", "tools": [...]}]'
)


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
    data, text = _lines_as_list(path) if path.suffix.lower() in _LINES else _as_json(path)
    reader = _ToolListReader(path, text, names or {})
    for entry in _entries(data, (), _Server(server), reader):
        reader.read(entry)
    reader.finish()
    details: dict[str, Any] = {"forms": dict(sorted(reader.forms.items()))} if reader.forms else {}
    servers = list(dict.fromkeys(item.server for item in reader.items if item.server is not None))
    if servers:
        details["servers"] = servers
    return SnapshotPart(
        name=path.name,
        kind="tool list",
        items=tuple(reader.items),
        details=details,
        notes=tuple(reader.notes()),
        origin=str(path.parent),
    )


def _as_json(path: Path) -> tuple[Any, str]:
    """The data and its text; the fault of a file that is no JSON by name or content says what is expected."""
    try:
        return read_jsonc(path)
    except InputError as error:
        if is_lines(path):
            return _lines_as_list(path)
        if path.suffix.lower().startswith(".json"):
            raise
        form = "a list of tools is JSON, or JSON lines in a file that ends in .jsonl"
        raise InputError([replace(fault, message=f"{form}: {fault.message}") for fault in error.faults]) from error


def _lines_as_list(path: Path) -> tuple[list[Any], str]:
    """The objects of JSON lines as one list, and its text with every object in the line of the file."""
    faults: list[Fault] = []
    data = [row for _, row in iter_jsonl(path, faults)]
    if faults:
        raise InputError(merge_equal_faults(faults))
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
        message: what is wrong with it; `{line}` stands for the line of `related`.
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
            where = f"on server {server!r}" if server else "in a list without servers"
            message = f"tool {tool.name!r} occurs twice {where}, first in line {{line}}; names must differ"
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
            rest = f"which no tool has; they have {self._shown_fields()}"
            raise InputError(
                [Fault(f"{field!r} is mapped to {self.names[field]!r}, {rest}", self.path) for field in useless]
            )
        if not self.items and not self.wrong:
            self.fault(f"the file holds no tool with a definition; {_EXPECTED}", ())
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
        missing = [
            field
            for field, keys in (("name", ("name", "function")), ("description", ("description", "function")))
            if not any(key in tool for tool in self.tools for key in keys)
        ]
        if not any(key in tool for tool in self.tools for key in (*SCHEMA_KEYS, "function")):
            missing.append("schema")
        return suggested(self.tools, missing)

    def _shown_fields(self) -> str:
        """The fields that the tools of the file have."""
        fields = list(self.fields)
        return ", ".join(map(repr, fields[:12])) + (", ..." if len(fields) > 12 else "") or "no field at all"

    def _nameless(self) -> Fault:
        names = {**self.names, "name": "FIELD", **self._mapping()}
        problem = f"no tool has a field 'name'; they have {self._shown_fields()}"
        return Fault(f"{problem}; say which of them it is: {as_option(names)}", self.path)

    def notes(self) -> Iterator[str]:
        """Oddities that are no faults."""
        if self.hosted:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.hosted.items()))
            yield f"left out, because the model's provider runs them and they have no definition: {kinds}"
        if mapping := self._mapping():
            fields = " and ".join(f"{file_field!r} is not read as the {field}" for field, file_field in mapping.items())
            yield f"{fields}; to read it: {as_option({**self.names, **mapping})}"
        if self.schemaless:
            problem = "read without their schema, which is zod's own object and no JSON schema"
            yield f"{problem}: {self.schemaless:,}; write z.toJSONSchema(schema), or asSchema(schema).jsonSchema"
        if self.pages:
            yield "the list names a next page (nextCursor), so tools are missing; capture the server itself"


def _entries(value: Any, path: YamlPath, server: _Server, reader: _ToolListReader) -> Iterator[_ToolEntry]:
    """The definitions in a JSON value, whatever stands around them; what cannot be one is a fault."""
    if isinstance(value, list):
        for index, entry in enumerate(value):
            if not isinstance(entry, dict):
                problem = "is no tool; expected an object with its name, description and schema"
                reader.fault(problem, (*path, index), subject=f"{entry!r:.40}")
            elif any(isinstance(entry.get(key), list | dict) for key in _LISTS) and not is_definition(entry):
                yield from _entries(entry, (*path, index), _server_of(entry, server), reader)
            else:
                yield _ToolEntry(entry, (*path, index), server)
    elif is_definition(value):
        yield _ToolEntry(value, path, server)
    elif isinstance(value, dict):
        yield from _object(value, path, server, reader)
    else:
        reader.fault(f"{value!r:.40} is no list of tools; {_EXPECTED}", path)


def _object(value: dict[str, Any], path: YamlPath, server: _Server, reader: _ToolListReader) -> Iterator[_ToolEntry]:
    """The definitions in an object that is none itself."""
    if "jsonrpc" in value and "result" in value:
        yield from _entries(value["result"], (*path, "result"), server, reader)
        return
    lists = [key for key in _LISTS if isinstance(value.get(key), list)]
    servers = [key for key in (*_LISTS, *_SERVERS) if isinstance(value.get(key), dict)]
    if lists or servers:
        reader.pages = reader.pages or bool(value.get("nextCursor"))
        for key in lists:
            yield from _entries(value[key], (*path, key), server, reader)
        for key in servers:
            yield from _by_name(value[key], (*path, key), server, reader)
    elif isinstance(value.get("servers"), list):
        yield from _entries(value["servers"], (*path, "servers"), server, reader)
    else:
        yield from _by_name(value, path, server, reader)


def _by_name(named: dict[str, Any], path: YamlPath, server: _Server, reader: _ToolListReader) -> Iterator[_ToolEntry]:
    """The definitions of servers by name, or of tools by name, which are of `server`."""
    for name, value in named.items():
        where = (*path, name)
        if isinstance(value, list):
            yield from _entries(value, where, _Server(name), reader)
        elif isinstance(value, dict) and any(isinstance(value.get(key), list | dict) for key in _LISTS):
            yield from _object(value, where, _Server(name, _version(value)), reader)
        elif isinstance(value, dict) and is_keyed_tool(renamed(value, reader.names)):
            yield _ToolEntry(keyed_tool(name, value), where, server)
        elif isinstance(value, dict) and ("command" in value or "url" in value):
            ask = shlex.join(["ctxbench", "data", "capture", "--mcp-config", str(reader.path)])
            problem = f"is configured here, its tools are not listed; `{ask}` starts it and asks"
            reader.fault(problem, where, subject=f"server {name!r}")
        else:
            reader.fault(f"holds no tools; {_EXPECTED}", where, subject=f"field {name!r}")


def _also(alike: Sequence[_Wrong]) -> str:
    """The words for the entries after the first with which the same is wrong."""
    subjects = [fault.subject.removesuffix(":") for fault in alike[1:]]
    listed = ", ".join(filter(None, subjects[:_NAMED])) + (", ..." if len(subjects) > _NAMED else "")
    return f"; so it is with {len(subjects):,} more{f': {listed}' if listed else ''}" if subjects else ""


def _server_of(entry: Mapping[str, Any], outer: _Server) -> _Server:
    """The server of an object with `tools`."""
    names = [entry.get(key) for key in (*SERVER_KEYS, "name", "id")]
    name = next((name for name in names if isinstance(name, str) and name), outer.name)
    return _Server(name, _version(entry))


def _version(value: Mapping[str, Any]) -> str:
    info = value.get("serverInfo")
    version = value.get("version") or (info.get("version") if isinstance(info, dict) else None)
    return version if isinstance(version, str) else ""
