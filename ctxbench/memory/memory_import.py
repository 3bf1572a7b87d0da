"""Import memories from a file of JSON lines into a store: all of the file, or nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError, ParameterError, UnknownNameError, merge_equal_faults, raise_faults
from ctxbench.core.items import ITEM_TYPES, Item, ItemKey
from ctxbench.io.rows import Row, jsonl_rows, read_text_value
from ctxbench.sources.other_kinds import other_kind
from ctxbench.stores.memories import Memory, Relationship, checked, time_named
from ctxbench.stores.sqlite import SqliteStore

_SAID = ("content", "kind", "confidence", "conversation", "user", "metadata")  # what a version can change
_version = attrgetter("created", *_SAID)  # what a row says, and since when
_version_of_item = attrgetter("created", "text", *_SAID[1:])
_FIELDS = (
    {name: name for name in ("id", *_SAID, "created", "until", "workspace", "relationships", "links", "enabled")}
    | {f"{name}_id": name for name in ("conversation", "user", "workspace")}  # as in the memory document, and `type`
    | {"_id": "id", "text": "content", "type": "kind", "created_at": "created"}  # the first two of a corpus.jsonl
    | {"version": "version"}  # not read: versions are counted by their times
)
_OF_ITEMS = {spec.name for spec in fields(Item)} - _FIELDS.keys()  # of a corpus.jsonl, and of no memory
_LINK = '{"type": ..., "target": the id of a memory}'


@dataclass(frozen=True)
class ImportedMemories:
    """The counts of an import.

    Attributes:
        new: memories that were not there.
        versions: later versions of memories that were there, or stand in the file, too.
        same: rows that say what is there already.
        relationships: that the rows name.
        elsewhere: rows of other workspaces, which were left out.
    """

    new: int
    versions: int
    same: int
    relationships: int
    elsewhere: int


@dataclass(frozen=True)
class _MemoryRow:
    """A row: the memory in its stored form, its end and links; `dated` if the row has a time of creation."""

    row: Row
    memory: Memory
    dated: bool
    until: str | None
    links: tuple[tuple[str, str], ...]

    def is_among(self, versions: Sequence[tuple[Any, ...]], *, last: bool) -> bool:
        """Whether a version equals the row; for a row about the present, whether the current version does.

        About now is a row without a time, and the last one of a memory in its file, unless it says when that ended.
        """
        own_version = _version(self.memory)
        if self.dated and (self.until or not last):
            return own_version in versions
        return own_version[1:] in [
            version[1:] for version in versions[-1:] if not self.dated or own_version[0] <= version[0]
        ]

    def begins(self, versions: Sequence[tuple[Any, ...]]) -> str | None:
        """The time from which it is the current version, after the others; None = now, as when an edit is undone."""
        version = _version(self.memory)
        return None if not self.dated or (version in versions and version[0] <= versions[-1][0]) else version[0]


@dataclass(frozen=True)
class MemoryFile:
    """The rows of a workspace in a file, in order of time, and how many others there are."""

    path: Path
    workspace: str
    rows: Sequence[_MemoryRow]
    elsewhere: int


def read_memories(path: Path, workspace: str) -> MemoryFile:
    """Read JSON lines; rows that name another workspace are left out, and those that ended when they began.

    Raises:
        InputError: rows are faulty: all faults that can be told without the store.
        ParameterError: there is no row.
        UnknownNameError: none is of the workspace.
    """
    faults: list[Fault] = []
    rows: list[_MemoryRow] = []
    elsewhere: Counter[str] = Counter()
    read_rows = list(jsonl_rows(path, faults))
    if not any("content" in row.data for row in read_rows) and (kind := other_kind(path)):
        raise InputError([Fault(f"nothing was imported: {kind}; memories have an id and content", path)])
    for row in read_rows:
        row, before = replace(row, data=_of_memory(row.data)), len(faults)
        row.refuse_unknown(tuple(_FIELDS))
        named = [name for name, value in row.data.items() if name in _FIELDS and value is not None]
        values = {_FIELDS[name]: row.data[name] for name in named}
        twice = [name for name in named if [_FIELDS[field_name] for field_name in named].count(_FIELDS[name]) > 1]
        if twice:
            row.fault(f"{' and '.join(map(repr, twice))} say the same of a memory; leave all but one out")
        if (row_workspace := values.get("workspace", workspace)) != workspace:
            elsewhere[str(row_workspace)] += 1
        elif len(faults) == before:
            memory_row = _memory_row(row, values, workspace)
            if len(faults) == before and memory_row.until != memory_row.memory.created:
                rows.append(memory_row)
    rows.sort(key=attrgetter("memory.created"))
    _refuse_unordered(rows)
    raise_faults(merge_equal_faults(faults), subject=_subject(path))
    if not rows and elsewhere:
        raise UnknownNameError("workspace", workspace, elsewhere, where=f": no row of {path} is of it")
    if not rows:
        raise ParameterError(f"{path} holds no memory; expected one a line, such as {{'id': ..., 'content': ...}}")
    return MemoryFile(path, workspace, rows, sum(elsewhere.values()))


def import_memories(
    store: SqliteStore, file: MemoryFile, *, progress: Callable[[int, int], None] | None = None
) -> ImportedMemories:
    """Import a file into its workspace, which is created if it does not exist.

    Rows are taken in order of time. One whose id is there is a later version of that memory, unless a version says the
    same already: a file that is imported again changes nothing. A memory's last row is what is so now: where it says
    what an earlier version did, and another one is current, it is a version from now on. A later version has all that
    its row says, and the defaults of what it leaves out. Relationships are added, and nothing is taken out.

    Args:
        store: takes the memories.
        file: as `read_memories` gives it.
        progress: called with (memories stored, memories to store).

    Raises:
        InputError: rows do not fit what is there; nothing was stored.
    """
    rows, workspace = file.rows, file.workspace
    with store.together():
        store.create_workspace(workspace)
        stored: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)  # versions by id, the first one first
        for item in store.catalog(workspace):
            stored[item.name.rpartition("@")[0]].append(_version_of_item(item))
        new: list[Memory] = []
        later: list[tuple[_MemoryRow, str | None]] = []  # and since when
        last = {row.memory.id: row for row in rows}
        for memory_row in rows:
            versions = stored[memory_row.memory.id]
            if not memory_row.is_among(versions, last=last[memory_row.memory.id] is memory_row):
                later += [(memory_row, memory_row.begins(versions))] if versions else []
                new += [] if versions else [memory_row.memory]
                versions.append(_version(memory_row.memory))
        store.insert_many(new, progress=progress)
        for memory_row, begin in later:
            with _faults_of(memory_row.row):
                store.update(
                    workspace,
                    memory_row.memory.id,
                    at=begin,
                    **{name: getattr(memory_row.memory, name) for name in _SAID},
                )
        _check_ends(rows, stored)
        links = {(row.memory.id, *link): row.row for row in rows for link in row.links}
        for (source, kind, target), row in links.items():
            with _faults_of(row):
                store.relate(Relationship(workspace=workspace, source=source, target=target, type=kind))
        raise_faults(sorted(rows[0].row.faults, key=attrgetter("line")), subject=_subject(file.path))
    n_unchanged = len(rows) - len(new) - len(later)
    return ImportedMemories(len(new), len(later), n_unchanged, len(links), file.elsewhere)


def _subject(path: Path) -> str:
    return f"{path}: nothing was imported"


def _refuse_unordered(rows: Sequence[_MemoryRow]) -> None:
    """Add a fault for different contents of one memory without a time, or of one time: their order is unknown."""
    first: dict[tuple[str, str | None], _MemoryRow] = {}
    for row in rows:
        before = first.setdefault((row.memory.id, row.memory.created if row.dated else None), row)
        if _version(before.memory)[1:] != _version(row.memory)[1:]:
            problem = f"line {before.row.line} says otherwise of {row.memory.id!r}{' at the same time' * row.dated}"
            row.row.fault(f"{problem}; say with created_at which came later")


def _memory_row(row: Row, values: Mapping[str, Any], workspace: str) -> _MemoryRow:
    """Read one row; adds to its faults."""
    stated = {name: values[name] for name in (*_SAID, "created") if name in values}
    problems: list[str] = []
    id_, until = values.get("id"), values.get("until")
    try:
        id_ = _memory_id(id_) if "_id" in row.data and isinstance(id_, str) else id_
        until = until and time_named("until", str(until))
    except ParameterError as error:
        problems.append(str(error))
    memory = checked(Memory(**{"content": None, **stated, "id": id_, "workspace": workspace}), problems)
    if until and not problems and until < str(memory.created):
        problems.append(f"until ({until}) must not be before created ({memory.created})")
    if values.get("enabled", True) is not True:
        problems.append("enabled: a memory cannot be there and kept out of everything; leave the row out")
    field_names = {_FIELDS[name]: name for name in row.data if name in _FIELDS}
    for message in problems:
        name, blank, rest = message.partition(" ")
        row.fault(f"{field_names.get(name, name)}{blank}{rest}")  # by the name that the row has
    links = row.read_list("relationships", _link, expected=_LINK)
    links += tuple(
        link for link in row.read_list("links", _link, expected=_LINK) if link[1] != id_
    )  # to another version
    return _MemoryRow(row, memory, "created" in values, until, links)


def _of_memory(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a row says, of an item's without what only other items have: its type is no memory's kind."""
    if "_id" not in data:
        return data
    item = _OF_ITEMS | {"type"} if data.get("type") in ITEM_TYPES else _OF_ITEMS
    return {name: value for name, value in data.items() if name not in item}


def _memory_id(text: str) -> str:
    """The id of a memory from that of an item, `memory:<id>@<version>`."""
    key = ItemKey.parse(text)
    if key.type != "memory":
        raise ParameterError(f"{text!r} is no memory, and only memories can be imported")
    return key.name.partition("@")[0]


def _link(entry: Any) -> tuple[str, str]:
    target = entry["target"] if "target" in entry else _memory_id(read_text_value(entry["item"]))
    return read_text_value(entry["type"]), read_text_value(target)


@contextmanager
def _faults_of(row: Row) -> Iterator[None]:
    """Turn errors of the store inside it into faults of the row."""
    try:
        yield
    except ParameterError as error:
        row.fault(str(error))


def _check_ends(rows: Sequence[_MemoryRow], stored: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
    """Add a fault for an end at which no version begins: a version ends when the next one replaces it."""
    for memory_row in rows:
        if memory_row.until and all(created != memory_row.until for created, *_ in stored[memory_row.memory.id]):
            row = f"no row of {memory_row.memory.id!r} begins then"
            memory_row.row.fault(
                f"until ({memory_row.until}) ends a version when the next one begins, and {row}; leave it out"
            )
