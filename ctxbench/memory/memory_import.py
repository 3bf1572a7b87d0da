"""Memories from a file of JSON lines into a store: all of the file, or nothing."""

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
    """What an import did.

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
    """A row: the memory as it is kept, and what is said beside; `dated` where it says when it was created."""

    row: Row
    memory: Memory
    dated: bool
    until: str | None
    links: tuple[tuple[str, str], ...]

    def is_among(self, versions: Sequence[tuple[Any, ...]], *, last: bool) -> bool:
        """Whether one says the same since then; of a row about what is so now, whether the current one does.

        About now is a row without a time, and the last one of a memory in its file, unless it says when that ended.
        """
        own = _version(self.memory)
        if self.dated and (self.until or not last):
            return own in versions
        return own[1:] in [version[1:] for version in versions[-1:] if not self.dated or own[0] <= version[0]]

    def begins(self, versions: Sequence[tuple[Any, ...]]) -> str | None:
        """Since when it is the current version, behind others; None = now: what was so before an edit is so again."""
        own = _version(self.memory)
        return None if not self.dated or (own in versions and own[0] <= versions[-1][0]) else own[0]


@dataclass(frozen=True)
class MemoryFile:
    """The rows of a file that are of a workspace, in order of time, and how many others there are."""

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
    others: Counter[str] = Counter()
    found = list(jsonl_rows(path, faults))
    if not any("content" in row.data for row in found) and (kind := other_kind(path)):
        raise InputError([Fault(f"nothing was imported: {kind}; memories have an id and content", path)])
    for row in found:
        row, before = replace(row, data=_of_memory(row.data)), len(faults)
        row.refuse_unknown(tuple(_FIELDS))
        named = [name for name, value in row.data.items() if name in _FIELDS and value is not None]
        given = {_FIELDS[name]: row.data[name] for name in named}
        twice = [name for name in named if [_FIELDS[one] for one in named].count(_FIELDS[name]) > 1]
        if twice:
            row.fault(f"{' and '.join(map(repr, twice))} say the same of a memory; leave all but one out")
        if (whose := given.get("workspace", workspace)) != workspace:
            others[str(whose)] += 1
        elif len(faults) == before:
            one = _memory_row(row, given, workspace)
            if len(faults) == before and one.until != one.memory.created:
                rows.append(one)
    rows.sort(key=attrgetter("memory.created"))
    _refuse_unordered(rows)
    raise_faults(merge_equal_faults(faults), subject=_subject(path))
    if not rows and others:
        raise UnknownNameError("workspace", workspace, others, where=f": no row of {path} is of it")
    if not rows:
        raise ParameterError(f"{path} holds no memory; expected one a line, such as {{'id': ..., 'content': ...}}")
    return MemoryFile(path, workspace, rows, sum(others.values()))


def import_memories(
    store: SqliteStore, file: MemoryFile, *, progress: Callable[[int, int], None] | None = None
) -> ImportedMemories:
    """Import what was read into its workspace, which is made where there is none of the name.

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
        known: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)  # versions by id, the first one first
        for item in store.catalog(workspace):
            known[item.name.rpartition("@")[0]].append(_version_of_item(item))
        new: list[Memory] = []
        later: list[tuple[_MemoryRow, str | None]] = []  # and since when
        last = {one.memory.id: one for one in rows}
        for one in rows:
            versions = known[one.memory.id]
            if not one.is_among(versions, last=last[one.memory.id] is one):
                later += [(one, one.begins(versions))] if versions else []
                new += [] if versions else [one.memory]
                versions.append(_version(one.memory))
        store.insert_many(new, progress=progress)
        for one, begin in later:
            with _faults_of(one.row):
                store.update(workspace, one.memory.id, at=begin, **{name: getattr(one.memory, name) for name in _SAID})
        _check_ends(rows, known)
        links = {(one.memory.id, *link): one.row for one in rows for link in one.links}
        for (source, kind, target), row in links.items():
            with _faults_of(row):
                store.relate(Relationship(workspace=workspace, source=source, target=target, type=kind))
        raise_faults(sorted(rows[0].row.faults, key=attrgetter("line")), subject=_subject(file.path))
    same = len(rows) - len(new) - len(later)
    return ImportedMemories(len(new), len(later), same, len(links), file.elsewhere)


def _subject(path: Path) -> str:
    return f"{path}: nothing was imported"


def _refuse_unordered(rows: Sequence[_MemoryRow]) -> None:
    """Refuse several contents of one memory without times, or of one time: nobody knows which is the later one."""
    first: dict[tuple[str, str | None], _MemoryRow] = {}
    for one in rows:
        before = first.setdefault((one.memory.id, one.memory.created if one.dated else None), one)
        if _version(before.memory)[1:] != _version(one.memory)[1:]:
            said = f"line {before.row.line} says otherwise of {one.memory.id!r}{' at the same time' * one.dated}"
            one.row.fault(f"{said}; say with created_at which came later")


def _memory_row(row: Row, given: Mapping[str, Any], workspace: str) -> _MemoryRow:
    """Look at one row; what is wrong with it goes to its faults."""
    said = {name: given[name] for name in (*_SAID, "created") if name in given}
    found: list[str] = []
    id_, until = given.get("id"), given.get("until")
    try:
        id_ = _memory_id(id_) if "_id" in row.data and isinstance(id_, str) else id_
        until = until and time_named("until", str(until))
    except ParameterError as error:
        found.append(str(error))
    memory = checked(Memory(**{"content": None, **said, "id": id_, "workspace": workspace}), found)
    if until and not found and until < str(memory.created):
        found.append(f"until ({until}) must not be before created ({memory.created})")
    if given.get("enabled", True) is not True:
        found.append("enabled: a memory cannot be there and kept out of everything; leave the row out")
    own = {_FIELDS[name]: name for name in row.data if name in _FIELDS}
    for message in found:
        name, blank, rest = message.partition(" ")
        row.fault(f"{own.get(name, name)}{blank}{rest}")  # by the name that the row has
    links = row.read_list("relationships", _link, expected=_LINK)
    links += tuple(
        link for link in row.read_list("links", _link, expected=_LINK) if link[1] != id_
    )  # to another version
    return _MemoryRow(row, memory, "created" in given, until, links)


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
    """What a store refuses inside is a fault of the row."""
    try:
        yield
    except ParameterError as error:
        row.fault(str(error))


def _check_ends(rows: Sequence[_MemoryRow], known: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
    """Refuse an end at which nothing begins: a version ends when the next one takes its place."""
    for one in rows:
        if one.until and all(created != one.until for created, *_ in known[one.memory.id]):
            row = f"no row of {one.memory.id!r} begins then"
            one.row.fault(f"until ({one.until}) ends a version when the next one begins, and {row}; leave it out")
