"""Memories from a file of JSON lines into a store: all of the file, or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.core.arrays import Float32Array
from ctxbench.core.errors import Fault, ParameterError, UnknownNameError, raise_faults
from ctxbench.core.items import Item, ItemKey
from ctxbench.embedding.embedder_names import open_embedder
from ctxbench.embedding.vectors import VectorStore
from ctxbench.index.dense import chunks_of
from ctxbench.io.rows import Row, jsonl_rows, read_text_value
from ctxbench.stores.memories import Memory, Relationship, checked, time_named
from ctxbench.stores.sqlite import SqliteStore

_NAMES = {  # in a row: the memory document's name first, and that in a dataset's corpus.jsonl
    "id": ("id", "_id"),
    "content": ("content", "text"),
    "kind": ("type", "kind"),
    "confidence": ("confidence",),
    "created": ("created_at", "created"),
    "conversation": ("conversation_id", "conversation"),
    "user": ("user_id", "user"),
    "workspace": ("workspace_id", "workspace"),
    "metadata": ("metadata",),
    "relationships": ("relationships", "links"),
    "vector": ("vector",),
    "until": ("until",),
    "version": ("version",),  # not read: versions are counted by their times
}
_FIELDS = {name: field for field, names in _NAMES.items() for name in names}
_SAID = ("content", "kind", "confidence", "conversation", "user", "metadata")  # what a version can change
_LINK = '{"type": ..., "target": the id of a memory}'
_SAME_MODEL = 0.99  # cosine of two vectors of one text by one model on two machines, and more


@dataclass(frozen=True, kw_only=True)
class ImportedMemories:
    """What an import did.

    Attributes:
        new: memories that were not there.
        versions: later versions of memories that were there, or stand in the file, too.
        same: rows that say what is there already.
        relationships: that the rows name.
        elsewhere: rows of other workspaces, which were left out.
        vectors: that were given and are kept.
        in_parts: vectors that are not, since their contents are searched in parts.
    """

    new: int
    versions: int
    same: int
    relationships: int
    elsewhere: int
    vectors: int
    in_parts: int


@dataclass(frozen=True)
class _MemoryRow:
    """A row: the memory as it is kept, and what is said beside; `dated` where it says when it was created."""

    row: Row
    memory: Memory
    dated: bool
    until: str | None
    links: tuple[tuple[str, str], ...]
    vector: Any


def import_memories(
    store: SqliteStore,
    path: Path,
    workspace: str,
    *,
    embedder: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ImportedMemories:
    """Import a file into a workspace, which is made where there is none of the name.

    Rows are taken in order of time. One whose id is there is a later version of that memory, unless a version says the
    same already: a file that is imported again changes nothing. Relationships are added, and none is taken out.

    Args:
        store: takes the memories.
        path: JSON lines; rows that name another workspace are left out.
        workspace: whose the others are.
        embedder: the name of what made the vectors that rows give.
        progress: called with (memories stored, memories to store).

    Raises:
        InputError: rows are faulty; what can be told at once is listed, and nothing was stored.
        ParameterError: there is no row.
        UnknownNameError: none is of the workspace.
    """
    faults: list[Fault] = []
    rows, others = _read(path, workspace, faults)
    vectors, in_parts = _vectors(rows, embedder, faults)
    subject = f"{path}: nothing was imported"
    raise_faults(faults, subject=subject)
    if not rows and others:
        raise UnknownNameError("workspace", workspace, others, where=f": no row of {path} is of it")
    if not rows:
        raise ParameterError(f"{path} holds no memory; expected one a line, such as {{'id': ..., 'content': ...}}")
    with store.together():
        store.create_workspace(workspace)
        known = _known(store, workspace)
        there = len(known)
        later = [one for one in rows if _is_later(one, known)]
        store.insert_many([versions[0] for versions in [*known.values()][there:]], progress=progress)
        for one in later:
            _change(store, one)
        _check_ends(rows, known)
        links = {(one.memory.id, *link): one.row for one in rows for link in one.links}
        for (source, kind, target), row in links.items():
            try:
                store.relate(Relationship(workspace=workspace, source=source, target=target, type=kind))
            except ParameterError as error:
                row.fault(str(error))
        raise_faults(sorted(faults, key=attrgetter("line")), subject=subject)
        if vectors:
            model = open_embedder(str(embedder))
            kept = getattr(model, "store", None) or VectorStore(model.identity)
            kept.add([*vectors], np.stack([vector for _, vector in vectors.values()]))
    new = len(known) - there
    counts = {"new": new, "versions": len(later), "same": len(rows) - new - len(later), "relationships": len(links)}
    return ImportedMemories(**counts, elsewhere=sum(others.values()), vectors=len(vectors), in_parts=in_parts)


def _read(path: Path, workspace: str, faults: list[Fault]) -> tuple[list[_MemoryRow], Counter[str]]:
    """The rows of a workspace, in order of time, and how many there are of each other one."""
    rows: list[_MemoryRow] = []
    others: Counter[str] = Counter()
    for row in jsonl_rows(path, faults):
        before = len(faults)
        row.refuse_unknown(tuple(_FIELDS))
        given = {_FIELDS[name]: value for name, value in row.data.items() if name in _FIELDS and value is not None}
        if (whose := given.get("workspace", workspace)) != workspace:
            others[str(whose)] += 1
        elif len(faults) == before and (one := _memory_row(row, given, workspace)) and len(faults) == before:
            rows.append(one)
    return sorted(rows, key=attrgetter("memory.created")), others


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
    if until and not found and until <= str(memory.created):
        found.append(f"until ({until}) must be after created ({memory.created})")
    for message in found:
        row.fault(message)
    links = row.each("relationships", _link, expected=_LINK)
    links += tuple(link for link in row.each("links", _link, expected=_LINK) if link[1] != id_)  # to another version
    return _MemoryRow(row, memory, "created" in given, until, links, given.get("vector"))


def _memory_id(text: str) -> str:
    """The id of a memory from that of an item, `memory:<id>@<version>`."""
    key = ItemKey.parse(text)
    if key.type != "memory":
        raise ParameterError(f"{text!r} is no memory, and only memories can be imported")
    return key.name.partition("@")[0]


def _link(entry: Any) -> tuple[str, str]:
    target = entry["target"] if "target" in entry else _memory_id(read_text_value(entry["item"]))
    return read_text_value(entry["type"]), read_text_value(target)


def _vectors(
    rows: Sequence[_MemoryRow], embedder: str | None, faults: list[Fault]
) -> tuple[dict[str, tuple[Row, Float32Array]], int]:
    """The vectors of rows by text, each of unit length, and how many are of contents that are searched in parts."""
    given = [one for one in rows if one.vector is not None]
    vectors: dict[str, tuple[Row, Float32Array]] = {}
    if not given:
        return vectors, 0
    if embedder is None:
        given[0].row.fault("a vector needs the name of the embedder that made it; name it, or leave vectors out")
        return vectors, 0
    model = open_embedder(embedder)
    in_parts = 0
    for one in given:
        vector = _unit(one, model.identity.dimensions, embedder)
        parts = chunks_of(Item(type="memory", name=one.memory.id, text=one.memory.content))
        in_parts += len(parts) > 1
        if vector is not None and len(parts) == 1:
            vectors.setdefault(parts[0], (one.row, vector))
    if vectors and not faults:  # a vector of another model would stand for the text wherever it is searched
        text, (row, vector) = next(iter(vectors.items()))
        if (cosine := float(model.embed([text])[0] @ vector)) < _SAME_MODEL:
            row.fault(
                f"the vector is not what {embedder} makes of the content (cosine {cosine:.2f}); name its embedder"
            )
    return vectors, in_parts


def _unit(one: _MemoryRow, size: int, embedder: str) -> Float32Array | None:
    """The vector of a row at unit length; None, and a fault, where it is none."""
    try:
        vector = np.array(one.vector, dtype=np.float64)
    except (TypeError, ValueError):
        vector = np.array(np.nan)
    if vector.shape != (size,):
        got = f"{len(one.vector):,} entries" if isinstance(one.vector, list) else f"{one.vector!r:.60}"
        one.row.fault(f"vector must be {size:,} numbers, as {embedder} makes them, got {got}")
        return None
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or not length:
        one.row.fault("vector must be of finite numbers that are not all zero")
        return None
    unit: Float32Array = (vector / length).astype(np.float32)
    return unit


def _known(store: SqliteStore, workspace: str) -> dict[str, list[Memory]]:
    """The versions of all memories by id, the first ones first."""
    known: dict[str, list[Memory]] = {}
    for item in store.catalog(workspace):
        same = {name: getattr(item, name) for name in _SAID if name not in ("content", "metadata")}
        made = Memory(
            id=item.name.rpartition("@")[0],
            workspace=workspace,
            content=item.text,
            created=item.created,
            metadata=dict(item.metadata),
            **same,
        )
        known.setdefault(made.id, []).append(made)
    return known


def _is_later(one: _MemoryRow, known: dict[str, list[Memory]]) -> bool:
    """Whether a row is a later version of a memory; it is added to what is known where that does not say it yet."""
    versions = known.setdefault(one.memory.id, [])
    names = (*_SAID, "created") if one.dated else _SAID
    others = versions if one.dated else versions[-1:]  # without a time it is about what is so now
    if any(all(getattr(one.memory, name) == getattr(old, name) for name in names) for old in others):
        return False
    versions.append(one.memory)
    return len(versions) > 1


def _change(store: SqliteStore, one: _MemoryRow) -> None:
    """Store a later version."""
    changes = {name: getattr(one.memory, name) for name in _SAID}
    try:
        store.update(one.memory.workspace, one.memory.id, at=one.memory.created if one.dated else None, **changes)
    except ParameterError as error:
        one.row.fault(str(error))


def _check_ends(rows: Sequence[_MemoryRow], known: Mapping[str, Sequence[Memory]]) -> None:
    """Refuse an end at which nothing begins: a version ends when the next one takes its place."""
    for one in rows:
        if one.until and all(version.created != one.until for version in known[one.memory.id]):
            row = f"no row of {one.memory.id!r} begins then"
            one.row.fault(f"until ({one.until}) ends a version when the next one begins, and {row}; leave it out")
