"""Agent files: the selector, sources, include modes and servers of an agent.

`read_agent` reads the file, `AgentFile.catalog` its sources. Rules, references and tool lists are read anew each time.
Servers are asked by `ctxbench data capture --agent`, and their answers are stored in a folder, the snapshot.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypeAlias

from annotated_types import MinLen
from typing_extensions import TypedDict

from ctxbench.catalogs.snapshots import (
    CAPTURE,
    CORPUS,
    SERVER,
    CatalogSnapshot,
    SnapshotPart,
    Source,
    capture,
    odd_in,
    read_card,
    read_catalog,
)
from ctxbench.catalogs.tool_lists import read_field_names, read_tool_list
from ctxbench.io.documents import YamlPath, iter_jsonl, line_of, load_yaml, refuse_other_kind
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    StorageError,
    UserError,
    raise_faults,
    suggest,
)
from ctxbench.io.files import note_odd, read_text
from ctxbench.io.redaction import masked
from ctxbench.io.rows import YamlForm
from ctxbench.model.items import INCLUDE_MODES, Catalog, ItemKey, suggest_items

if TYPE_CHECKING:
    from ctxbench.catalogs.mcp_config import CapturedServer


_EXPECTING = re.compile(r"expect|forbid|include|exclude|avoid|relevant|(must|should|not)_?use|tools$", re.IGNORECASE)


def other_kind(path: Path | str) -> str:
    """The kind of a file that is neither a catalog nor memories, and what to do with it; empty if unknown.

    Lists of tools, evals, answers of a selector and logs are recognised. Files with ids of items (`_id`) are not.

    Raises:
        StorageError: the file is missing or cannot be read.
    """
    unreadable: list[Fault] = []
    rows = [row for _, row in iter_jsonl(path, unreadable)]
    return _kind_of_tools(Path(path), rows) or _kind_of_rows(rows, path)


def _kind_of_tools(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    with suppress(UserError):
        if path.name != CORPUS and not any("_id" in row for row in rows) and read_tool_list(path).items:
            return Message("catalogs.is-tool-list", path=shlex.quote(str(path)))
    return ""


def _kind_of_rows(rows: Sequence[Mapping[str, Any]], path: Path | str) -> str:
    names = {str(name) for row in rows for name in row}
    if "_id" in names or not rows:
        return ""
    quoted_path = shlex.quote(str(path))
    if names & {"messages", "called", "offered", "resourceSpans"}:
        return Message("catalogs.is-log", path=quoted_path)
    if "query" in names and names & {"items", "ranking"}:
        return Message("catalogs.is-answers", path=quoted_path)
    return (
        Message("catalogs.is-evals", path=quoted_path)
        if expects(rows) and any(isinstance(value, str) for row in rows for value in row.values())
        else ""
    )


def expects(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a row has a field for the items that a request should be offered."""
    return any(_EXPECTING.search(str(name)) for row in rows for name in row)


LEARNED = "learned"  # where an agent file names none
PRESET_FORM = "{presets: FILE, preset: NAME}"  # how a tuned preset is named
OWN_FORM = "such as {command: [node, my-selector.mjs]}"  # and one of the user's own
_RUNNERS = {".py": "python", ".rb": "ruby", ".sh": "bash"} | dict.fromkeys((".js", ".mjs", ".cjs"), "node")
_KINDS = ("command", "url", "callable", "answers")  # keys that name a selector outside ctxbench


def program_form(name: str) -> str:
    """The selector block for a program in a source file; empty for another name."""
    runner = _RUNNERS.get(Path(name).suffix)
    return f"{{command: [{runner}, {name}]}}" if runner else ""


def own_selector_advice(value: Any) -> str:
    """Advice on where to write an external selector, with its line; empty for any other value."""
    import yaml

    kind = next((name for name in _KINDS if isinstance(value, dict) and value.get(name)), None)
    if kind is None:
        return ""
    name = value.get("name")
    entry = {kind: value[kind], "name": name if isinstance(name, str) and name else "ours"}
    line = yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000).strip()
    return Message("catalogs.external-selector-advice", line=line)


def named_selector(form: YamlForm, data: Mapping[str, Any]) -> tuple[str, Path | None, Mapping[str, Any]]:
    """The selector of an agent file, as `AgentFile` has it: `selector`, `presets`, `own`; a path with its folder."""
    value = data.get("selector", LEARNED)
    if isinstance(value, Mapping) and value.get("presets"):
        form.refuse_unknown(value, tuple(PresetForm.__annotations__), "a tuned preset", "selector")
        if all(isinstance(value.get(key), str) and value[key] for key in PresetForm.__annotations__):
            return value["preset"], form.base / value["presets"], {}
        form.fault(Message("catalogs.selector-preset", form=PRESET_FORM, got=value), "selector")
    elif isinstance(value, Mapping) and any(value.get(kind) for kind in _KINDS):
        if value.get("answers"):
            form.fault(Message("catalogs.selector-answers", advice=own_selector_advice(value)), "selector")
        elif data.get("settings"):
            form.fault(Message("catalogs.external-settings"), "settings")
        return LEARNED, None, value
    elif isinstance(value, Mapping) and (empty := [kind for kind in _KINDS if kind in value]):
        form.fault(Message("catalogs.selector-empty", key=empty[0], example=OWN_FORM), "selector")
    elif not isinstance(value, str):
        allowed = (*_KINDS, *PresetForm.__annotations__)
        keys = value if isinstance(value, Mapping) else ()
        hint = next(filter(None, (suggest(str(key), allowed, listed=False) for key in keys)), "")
        values = {"preset": PRESET_FORM, "external": OWN_FORM, "got": value, "hint": hint}
        form.fault(Message("catalogs.selector-type", **values), "selector")
    else:
        return str(form.base / value) if value.endswith((".yaml", ".yml")) else value, None, {}
    return LEARNED, None, {}


def own_kind(definition: Mapping[str, Any]) -> str:
    """The kind of an external selector by its block: `command`, `url` ...; empty if there is none."""
    return next((kind for kind in _KINDS if definition.get(kind)), "")


def unknown_modes(
    catalog: Catalog, *, tools: Mapping[str, str], servers: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """The tools and servers with a mode that do not exist: `tools` or `servers`, the name, and a message."""
    tool_items = [item for item in catalog if item.type == "tool"]
    ids, names = {item.id for item in tool_items}, {item.server for item in tool_items if item.server is not None}
    wrong = [("tools", tool, f"no tool {tool!r}{suggest_items(tool, ids)}") for tool in tools if tool not in ids]
    of = "no tool is of server"
    return wrong + [
        ("servers", server, f"{of} {server!r}{suggest(server, names)}") for server in servers if server not in names
    ]


def tool_modes(
    catalog: Catalog, *, tools: Mapping[str, str], servers: Mapping[str, str], otherwise: str = "always"
) -> Catalog:
    """Set the effective include mode of every tool: the tool's, else its server's, else `otherwise`.

    Args:
        catalog: items; the `include` of the tools among them is replaced; other types are unchanged.
        tools: modes by item id, `tool:tracker:create_issue`.
        servers: modes by server.
        otherwise: the mode of all other tools; `always` in the specification.

    Raises:
        ParameterError: a mode, a tool or a server is unknown; all of them.

    Source: the specification, "For Tools".
    """
    wrong = [message for _, _, message in unknown_modes(catalog, tools=tools, servers=servers)]
    wrong += [
        Message("catalogs.include-mode", where=where, modes=INCLUDE_MODES, got=mode)
        for where, mode in (*tools.items(), *servers.items(), ("all other tools", otherwise))
        if mode not in INCLUDE_MODES
    ]
    if wrong:
        raise ParameterError("; ".join(wrong))
    return Catalog(
        replace(item, include=tools.get(item.id, servers.get(item.server or "", otherwise)))
        if item.type == "tool"
        else item
        for item in catalog
    )


def mode_path(item: str, *, tools: Mapping[str, str], servers: Mapping[str, str]) -> tuple[str, ...]:
    """The path of the mode that applies to a tool: the tool's, its server's, or `otherwise`.

    Args:
        item: its id.
        tools, servers: as for `tool_modes`.
    """
    if item in tools:
        return "tools", item
    server = ItemKey.parse(item).server or ""
    return ("servers", server) if server in servers else ("otherwise",)


@dataclass(frozen=True, slots=True)
class AbsentServer:
    """A server whose tools cannot be offered to any request.

    Attributes:
        why: what became of its tools, such as `disabled with server crew in .mcp.json`.
        fix: what brings them back, as an instruction.
    """

    why: str
    fix: str


def uncaptured_servers(names: Iterable[str], card: Path) -> dict[str, str]:
    """Those of some servers that a snapshot has no tools of, with the reason: never captured, or disabled then.

    Args:
        names: of servers that the configuration has and does not disable.
        card: the snapshot's, which says what became of each server that was to be asked.

    Raises:
        UserError: the card cannot be read.
    """
    states = {part.get("name"): part.get("state") for part in read_card(card)[1]}
    why = {"failed": "never captured", "disabled": "disabled during the capture"}
    return {name: why[state] for name in names if (state := states.get(name, "failed")) in why}


class ToolListEntry(TypedDict, total=False):
    """A file of tool definitions."""

    file: Required[Annotated[str, MinLen(1)]]
    """The path of the file."""
    server: str
    """The server of the tools that name none."""
    map: str
    """What the file calls the fields of a tool, such as `name=tool_name,schema=args`."""


ToolLists: TypeAlias = str | ToolListEntry


class AgentSources(TypedDict, total=False):
    """The sources of the items of an agent; paths are relative to the agent file."""

    mcp: Annotated[str, MinLen(1)]
    """The configuration of MCP servers, such as `.mcp.json`."""
    tools: ToolLists | list[ToolLists]
    """Files of tool definitions."""
    rules: str | list[str]
    """Folders with rules and skills: AGENTS.md, CLAUDE.md, Cursor, Copilot and SKILL.md files."""
    references: str | list[str]
    """Folders of Markdown files that the agent can find."""


Mode: TypeAlias = Literal["always", "manual", "agent"]


class AgentModes(TypedDict, total=False):
    """Include modes of tools: `always` in every session, `manual` by hand, `agent` found by search."""

    servers: dict[str, Mode] | None
    """Modes by server."""
    tools: dict[str, Mode] | None
    """Modes by item id, such as `tool:tracker:create_issue`."""
    otherwise: Mode
    """The mode of all other tools; `always` by default."""


class PresetForm(TypedDict):
    """A tuned preset."""

    presets: Annotated[str, MinLen(1)]
    """The path of a presets file."""
    preset: Annotated[str, MinLen(1)]
    """The name of a preset in it."""


class SystemForm(TypedDict):
    """A system prompt in a file."""

    file: str
    """The path of the file."""


class AgentDefinition(TypedDict, total=False):
    """An agent file: what an agent has, and the selector that chooses from it."""

    name: Annotated[str, MinLen(1)]
    """The name of the agent; by default that of the file. Results name its selector by the file in any case."""
    sources: Required[AgentSources]
    """Where its items come from."""
    snapshot: str
    """The folder of the captured tools of its servers; by default `NAME.snapshot`."""
    include: AgentModes | None
    """Include modes of tools; by default as the sources say."""
    selector: str | PresetForm | dict[str, Any]
    """A selector by name, `name/preset`, the path of a YAML file, a tuned preset, or an external selector such as
    `{command: [node, my-selector.mjs]}`; `learned` by default."""
    settings: dict[str, Any] | None
    """Settings of the selector, over those of the preset."""
    system: str | SystemForm
    """The system prompt."""


KEYS, SOURCES = tuple(AgentDefinition.__annotations__), tuple(AgentSources.__annotations__)
_ENDINGS = (".yaml", ".yml")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ToolFile:
    """A list of tools.

    Attributes:
        file: its path.
        server: of the tools that name none, or None.
        map: what it calls a tool's fields, see `read_field_names`; None = what ctxbench calls them.
    """

    file: Path
    server: str | None = None
    map: str | None = None


@cache
def _warn_once(_: Path, line: str) -> None:
    """Log a warning on an agent file."""
    _log.warning("%s", line)


_FEW_NOTES = 3  # notes on the sources that are shown one by one


@dataclass(frozen=True, eq=False, kw_only=True)
class AgentFile:
    """The content of an agent file. Paths are relative to the working directory, as the path of the file is.

    Attributes:
        path: of the file.
        name: what the agent is called.
        mcp: the configuration of its servers, or None.
        tools: lists of tools.
        rules: folders of rules and skills.
        references: folders of Markdown files.
        snapshot: the folder that keeps what the servers said.
        include: modes of tools by id, of tools by their server, and of all others; None = as the sources say.
        selector: how agent-mode items are found: a shipped selector, `name/preset`, or a YAML file; with `presets` the
            name of a preset.
        presets: the presets file with the preset, or None.
        external: the block of an external selector, instead of `selector`, as in experiments; empty = none.
        settings: of the selector, over the preset's.
        system: the system prompt; empty: that of the selector.
        lines: of the file, by path; for faults.
    """

    path: Path
    name: str
    mcp: Path | None = None
    tools: tuple[ToolFile, ...] = ()
    rules: tuple[Path, ...] = ()
    references: tuple[Path, ...] = ()
    snapshot: Path
    include: Mapping[str, Mapping[str, str]] | None = None
    otherwise: str = "always"
    selector: str = LEARNED
    presets: Path | None = None
    external: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    system: str = ""
    lines: Mapping[YamlPath, int] = field(default_factory=dict, repr=False)

    def parts(self) -> tuple[SnapshotPart, ...]:
        """The parts of every source now, and of the servers as captured; see `catalog`."""
        return self._captured.parts

    def catalog(self) -> Catalog:
        """The items that the agent has now: of the snapshot, of its lists of tools, its rules and its references.

        That sources are odd is noted in `FilesRead`, or logged once a process; `odd_in` has all of it.

        Raises:
            InputError: a source is missing or faulty, the servers were never captured, two sources give an item of one
                identity, there is no item at all, or a mode is of what is not there; all faults, with their lines.
        """
        catalog = (capture := self._captured).catalog
        if (notes := odd_in(capture.parts)) and not note_odd(*notes):
            words = ["data", "capture", "--agent", str(self.path)] if self.mcp else ["init", str(self.path.parent)]
            summary = Message("catalogs.agent-notes", n=len(notes), command=shlex.join(["ctxbench", *words]))
            for note in notes if len(notes) <= _FEW_NOTES else [summary]:
                self._warn(note)
        if self.include is None:
            return catalog
        raise_faults(
            [
                self._fault(f"include: {message}", "include", key, name)
                for key, name, message in unknown_modes(catalog, **self.include)
            ]
        )
        return tool_modes(catalog, **self.include, otherwise=self.otherwise)

    def locations(self) -> dict[str, tuple[Path, int]]:
        """The file and line of each item, by id; line 0 if only the file is known."""
        locations: dict[str, tuple[Path, int]] = {}
        for part in self.parts():
            for item in part.items:
                file = item.metadata.get("path", item.name) if part.kind == "rules" else part.name
                folder = Path(part.origin) if part.origin else self.path.parent
                locations[item.id] = (folder / str(file), part.lines.get(item.name, 0))
        return locations

    @property
    def _captured(self) -> CatalogSnapshot:
        parts: list[SnapshotPart] = []
        faults: list[Fault] = []
        for source, where in self._sources():
            try:
                parts += source()
            except InputError as error:
                faults += error.faults
            except UserError as error:
                faults.append(self._fault(str(error), *where))
        raise_faults(faults, subject=f"agent {self.path}")
        try:
            return capture(lambda: parts)
        except InputError as error:
            raise InputError(error.faults, subject=f"agent {self.path}") from error

    def _fault(self, message: str, *where: str | int) -> Fault:
        return Fault(message, self.path, line_of(self.lines, where))

    def _warn(self, text: str) -> None:
        """Log a warning, once per process, however often the sources are read."""
        _warn_once(self.path.resolve(), masked(f"{self.path}: {text}"))

    def _sources(self) -> Iterator[tuple[Source, YamlPath]]:
        """The sources, each with its path in the file."""
        from ctxbench.catalogs.instructions import references_folder, rules_folder
        from ctxbench.catalogs.tool_lists import tool_list

        if self.mcp is not None:
            yield self._servers, ("sources", "mcp")
        for index, tool_file in enumerate(self.tools):
            names = None if tool_file.map is None else read_field_names(tool_file.map)
            yield tool_list(tool_file.file, server=tool_file.server, names=names), ("sources", "tools", index)
        yield from (
            (source(folder), ("sources", key, index))
            for key, folders, source in (
                ("rules", self.rules, rules_folder),
                ("references", self.references, references_folder),
            )
            for index, folder in enumerate(folders)
        )

    def _servers(self) -> Sequence[SnapshotPart]:
        """The tools of the servers as captured, without servers that the configuration no longer has.

        Raises:
            StorageError: they never were, or the configuration is missing.
            InputError: the configuration is none.
        """
        from ctxbench.catalogs.mcp_config import server_names

        names = [] if self.mcp is None else server_names(self.mcp)
        if not (self.snapshot / CAPTURE).is_file():
            raise StorageError(
                f"what the servers of {self.mcp} have was never captured ({self.snapshot} is missing); ask them once: "
                f"{self.ask}"
            )
        missing = uncaptured_servers(names, self.snapshot / CAPTURE)
        for why in dict.fromkeys(missing.values()):
            names_listed = ", ".join(name for name in missing if missing[name] == why)
            self._warn(Message("catalogs.servers-missing", why=why, servers=names_listed, command=self.ask))
        items = tuple(item for item in read_catalog(self.snapshot / CORPUS) if item.server in names)
        return [SnapshotPart(name=CORPUS, kind=SERVER, items=items, origin=str(self.snapshot))]

    def absent_servers(self) -> dict[str, AbsentServer]:
        """The servers that the catalog has no tools of, by name; none for an agent without servers.

        Raises:
            UserError: the configuration is missing or faulty.
        """
        from ctxbench.catalogs.mcp_config import disabled_servers, server_names

        if self.mcp is None:
            return {}
        about = {"config": Path(os.path.relpath(self.mcp, self.path.parent)).as_posix()}
        servers = {
            name: AbsentServer(
                Message("catalogs.server-disabled", server=name, **about),
                Message("catalogs.enable-server", server=name, **about),
            )
            for name in disabled_servers(self.mcp)
        }
        card = self.snapshot / CAPTURE
        return servers | {
            name: AbsentServer(
                Message("catalogs.server-not-captured", snapshot=self.snapshot.name, server=name, why=why),
                Message("catalogs.capture-server", server=name, command=self.ask),
            )
            for name, why in (uncaptured_servers(server_names(self.mcp), card) if card.is_file() else {}).items()
        }

    def captured_servers(self) -> list[CapturedServer]:
        """The servers of which the snapshot holds tools, with what of their files changed since; see there.

        Raises:
            UserError: the configuration is missing or faulty, or the snapshot cannot be read.
        """
        from ctxbench.catalogs.mcp_config import captured_servers

        return [] if self.mcp is None else captured_servers(self.mcp, self.snapshot)

    def server_files(self) -> list[Path]:
        """The files in the repository that the commands of its servers name, and those that they import.

        Raises:
            UserError: the configuration is missing or faulty.
        """
        from ctxbench.catalogs.mcp_config import server_entries, server_files

        entries = {} if self.mcp is None else server_entries(self.mcp)
        return sorted({path for entry in entries.values() for path in server_files(entry)})

    @property
    def ask(self) -> str:
        """The command that asks the servers again, in backquotes; run from here, where the file lies below."""
        folder = Path.cwd()
        path = self.path.relative_to(folder) if self.path.is_relative_to(folder) else self.path
        return f"`{shlex.join(['ctxbench', 'data', 'capture', '--agent', str(path)])}`"

    @property
    def captured(self) -> str:
        """When the servers were captured, as ISO 8601, the first of them; empty where there are none or never were."""
        if self.mcp is None or not (self.snapshot / CAPTURE).is_file():
            return ""
        card, parts = read_card(self.snapshot / CAPTURE)
        return min(str(part["captured"]) for part in (card, *parts) if "captured" in part) if "captured" in card else ""


def is_agent_file(path: Path | str) -> bool:
    """Whether a path is a YAML file with `sources`; False for a file that cannot be read."""
    if not str(path).endswith(_ENDINGS) or not Path(path).is_file():
        return False
    try:
        data, _ = load_yaml(path)
    except UserError:
        return False
    return isinstance(data, Mapping) and "sources" in data


def open_catalog(name_or_path: str | Path) -> Catalog:
    """A catalog as users name it: an agent file, what `read_catalog` takes, or a tree as `TreeName.read` takes it.

    Raises:
        StorageError, InputError, ParameterError: as of `AgentFile.catalog`, `read_catalog` and `open_tree`.
    """
    text = str(name_or_path)
    if text.endswith(_ENDINGS) and Path(text).is_file():
        return read_agent(Path(text)).catalog()
    try:
        return read_catalog(name_or_path)
    except InputError as error:
        if not Path(text).is_file() or not (kind := other_kind(text)):
            raise
        raise InputError(
            [Fault(f"expected a catalog, an agent file, a file of items or a folder with {CORPUS}; {kind}", text)]
        ) from error
    except StorageError:
        from ctxbench.catalogs.git_trees import TreeName, open_tree

        if (tree := TreeName.read(text)) is None:
            raise
        return open_tree(tree)


def read_agent(path: Path) -> AgentFile:
    """Read an agent file and check it whole; its sources are not read yet.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: anything in it is wrong: all faults, with their lines.
    """
    data, lines = load_yaml(path)
    if not isinstance(data, Mapping) or "sources" not in data:
        refuse_other_kind(data, path, expected="an agent file")
        raise InputError([_no_agent(data, lines, path)])
    reader = _AgentReader(path, lines, [])
    reader.refuse_unknown(data, KEYS, "an agent file")
    agent = reader.agent(data)
    if reader.faults:
        raise InputError(sorted(reader.faults, key=lambda fault: fault.line))
    return agent


def _no_agent(data: Any, lines: Mapping[YamlPath, int], path: Path) -> Fault:
    """Why a file is no agent file: another type, or a key that is nearly `sources`."""
    for key in data if isinstance(data, Mapping) else ():
        if suggestion := suggest(key, ["sources"], listed=False):
            message = Message("io.unknown-key", what="an agent file", key=key, hint=suggestion)
            return Fault(message, path, line_of(lines, (key,)))
    return Fault(Message("catalogs.agent-without-sources", keys=KEYS, got=type(data).__name__), path, 1)


class _AgentReader(YamlForm):
    """Reads the parts of an agent file and collects their faults."""

    def agent(self, data: Mapping[str, Any]) -> AgentFile:
        stem = Path(self.path or "agent").stem
        if not (sources := self._mapping(data, "sources", SOURCES)):
            self.fault(Message("catalogs.sources-empty", keys=SOURCES), "sources")
        include = self._mapping(data, "include", tuple(AgentModes.__annotations__)) if "include" in data else None
        selector, presets, external = named_selector(self, data)
        return AgentFile(
            path=self.path or Path(),
            name=self.name(data, stem),
            mcp=self._file(sources, "mcp") if "mcp" in sources else None,
            tools=tuple(self._tools(sources)),
            rules=tuple(self._folders(sources, "rules")),
            references=tuple(self._folders(sources, "references")),
            snapshot=self.base / (self.text(data, "snapshot", "") or f"{stem}.snapshot"),
            include=None if include is None else {name: self._modes(include, name) for name in ("tools", "servers")},
            otherwise=self._mode((include or {}).get("otherwise", "always"), "include", "otherwise"),
            selector=selector,
            presets=presets,
            external=external,
            settings=self._mapping(data, "settings", None),
            system=self._system(data),
            lines=self.lines,
        )

    def _mapping(self, data: Mapping[str, Any], key: str, keys: Sequence[str] | None) -> Mapping[str, Any]:
        value = data.get(key) or {}
        if not isinstance(value, Mapping):
            self.fault(Message("catalogs.mapping", key=key, keys=keys or ["names"], got=value), key)
            return {}
        if keys is not None:
            self.refuse_unknown(value, keys, key, key)
        return value

    def _file(self, sources: Mapping[str, Any], key: str) -> Path | None:
        value = sources[key]
        if not isinstance(value, str) or not value.strip():
            self.fault(Message("catalogs.source-file", key=key, got=value), "sources", key)
            return None
        return self.base / value

    def _entries(self, sources: Mapping[str, Any], key: str) -> Iterator[tuple[Any, YamlPath]]:
        """The entries under a key, one or a list, each with its path."""
        value = sources.get(key, [])
        if isinstance(value, list):
            yield from ((entry, ("sources", key, index)) for index, entry in enumerate(value))
        else:
            yield value, ("sources", key)

    def _folders(self, sources: Mapping[str, Any], key: str) -> Iterator[Path]:
        for value, where in self._entries(sources, key):
            if isinstance(value, str) and value.strip():
                yield self.base / value
            else:
                self.fault(Message("catalogs.source-folders", key=key, got=value), *where)

    def _tools(self, sources: Mapping[str, Any]) -> Iterator[ToolFile]:
        for value, where in self._entries(sources, "tools"):
            about = {"file": value} if isinstance(value, str) else value
            if not isinstance(about, Mapping) or not isinstance(about.get("file"), str) or not about["file"].strip():
                self.fault(Message("catalogs.source-tools", got=value), *where)
                continue
            self.refuse_unknown(about, tuple(ToolListEntry.__annotations__), "a list of tools", *where)
            wrong = [key for key in ("server", "map") if not isinstance(about.get(key, ""), str)]
            for key in wrong:
                self.fault(Message("io.text", name=key, got=about[key]), *where, key)
            if "map" in about and "map" not in wrong:
                self.attempt(lambda names=about["map"]: read_field_names(names), *where, "map")  # type: ignore[misc]
            if not wrong:
                yield ToolFile(file=self.base / about["file"], server=about.get("server"), map=about.get("map"))

    def _modes(self, include: Mapping[str, Any], key: str) -> dict[str, str]:
        modes = include.get(key) or {}
        if not isinstance(modes, Mapping):
            self.fault(Message("catalogs.modes-mapping", key=key, modes=INCLUDE_MODES, got=modes), "include", key)
            return {}
        mode_keys = {}
        for name, mode in modes.items():
            mode_keys[str(name)] = self._mode(mode, "include", key, name)
            if key == "tools":
                self.attempt(lambda name=name: ItemKey.parse(str(name)), "include", key, name)  # type: ignore[misc]
        return mode_keys

    def _mode(self, mode: Any, *where: str | int) -> str:
        if mode in INCLUDE_MODES:
            return str(mode)
        self.fault(Message("catalogs.mode", modes=INCLUDE_MODES, got=mode), *where)
        return "always"

    def _system(self, data: Mapping[str, Any]) -> str:
        """The system prompt, or the text of the file that it names."""
        value = data.get("system", "")
        if isinstance(value, str):
            return value
        if not isinstance(value, Mapping) or set(value) != {"file"} or not isinstance(value["file"], str):
            self.fault(Message("catalogs.system", got=value), "system")
            return ""
        return self.attempt(lambda: read_text(self.base / value["file"]), "system", "file") or ""
