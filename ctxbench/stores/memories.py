"""Memories, files and messages: the model, the checks that all stores share, and the catalog made of them."""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, product
from operator import attrgetter
from typing import Any, TypeAlias

from ctxbench.core.errors import Fault, ParameterError, check_choice, number_within, raise_faults, suggest
from ctxbench.core.items import Catalog, Item, ItemKey, Link
from ctxbench.core.times import in_utc

TYPES = ("memory", "file", "message")
LONGEST = 1_000_000  # characters of a content
DEEPEST = 64  # levels of metadata, itself the first
_log = logging.getLogger(__name__)

Forget: TypeAlias = Callable[[Sequence[str]], None]
Progress: TypeAlias = Callable[[int, int], None]
Taken: TypeAlias = Callable[[str, Sequence[str]], Collection[str]]
"""Which of some ids are taken in a workspace; a `ParameterError` where that is unknown."""

_FACTS = ("workspace", "user", "kind", "conversation", "created", "until", "confidence", "metadata")  # of items, too
_SUGGESTED = 1_000  # ids that are looked through for one that was misspelt
_CHANGEABLE = ("content", "kind", "confidence", "conversation", "user", "metadata")
# What SQLite, a prompt or a terminal would not give back as it came: control characters and half characters.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_UNFIT_NAME = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A stored memory, file or message.

    A store checks it when it is given, so that many can be refused at once.

    Attributes:
        id: unique in its workspace, and not blank: of a file its path. Of what is no file it holds no "@".
        workspace: whose it is; no other one sees it.
        content: not blank, at most 1,000,000 characters, no control characters but tabs and line ends.
        type: `memory`, `file` or `message`; stays what it is.
        kind: what sort of memory, such as "fact" or "decision"; of a file its content type, of a message its role.
        confidence: how sure it is, 0 to 1.
        created: when this version began, ISO 8601; without an offset UTC. None = when it is inserted.
        conversation: where it was said.
        user: whose it is within the workspace; None = everybody's there.
        metadata: anything else, as JSON; never searched.
        version: counted from 1; set by the store.
        until: when a later version took its place, None = it did not; set by the store.
    """

    id: str
    workspace: str
    content: str
    type: str = "memory"
    kind: str = "note"
    confidence: float = 1.0
    created: str | None = None
    conversation: str | None = None
    user: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    until: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relationship:
    """A typed relationship of one memory to another of its workspace, both by id."""

    workspace: str
    source: str
    target: str
    type: str


def checked_name(noun: str, name: object) -> str:
    """Check that a text can be a name, and return it.

    Raises:
        ParameterError: it is blank, no text, or holds what a line or a database would not give back as it came.
    """
    if not isinstance(name, str) or not name.strip():
        raise ParameterError(f"{noun} must be a text that is not blank, got {name!r:.60}")
    if match := _UNFIT_NAME.search(name):
        kind = "half" if _is_half(match[0]) else "control"
        raise ParameterError(f"{noun} must hold no {kind} characters, got {match[0]!r} in {name!r:.60}")
    return name


def _is_half(character: str) -> bool:
    """Whether it is a lone surrogate, half of a character."""
    return "\ud800" <= character <= "\udfff"


def checked(memory: Memory, faults: list[str]) -> Memory:
    """Check a memory, and return it in its stored form: `created` in UTC, `metadata` as JSON has it.

    Args:
        memory: as it was given.
        faults: where everything goes that is wrong with it; then what is returned is not to be used.
    """
    fields: dict[str, Any] = {}
    values = _values(memory)
    for (name, read), value in zip(_READ.items(), values, strict=True):
        try:
            fields[name] = read(name, value)
        except ParameterError as error:
            faults.append(str(error))
    if memory.type != "file" and "@" in str(memory.id):
        faults.append("id must hold no '@', which stands before the version in names of items")
    if (memory.version, memory.until) != (1, None):
        faults.append("version and until are set by the store; leave them out, and add a later version by `update`")
    as_kept = (*fields.values(),) == values and (type(memory.confidence), type(memory.metadata)) == (float, dict)
    return memory if faults or as_kept else Memory(**fields)


def name_if_any(name: str, value: object) -> str | None:
    """As `checked_name`, for a value that may be None."""
    return None if value is None else checked_name(name, value)


def _content(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ParameterError(f"{name} must be a text that is not blank, got {value!r:.60}")
    if len(value) > LONGEST:
        raise ParameterError(f"{name} must have at most {LONGEST:,} characters, got {len(value):,}; store it in parts")
    if match := _UNFIT.search(value):
        kind = "half characters" if _is_half(match[0]) else "control characters but tabs and line ends"
        expected = f"no {kind}, got {match[0]!r} at character {match.start() + 1:,}"
        raise ParameterError(f"{name} must hold {expected}; take it out, or leave out what is no text")
    return value


def _type(name: str, value: Any) -> str:
    check_choice(name, value, TYPES)
    return str(value)


def time_named(name: str, text: object) -> str:
    """As `in_utc`, for a value of any type; the `ParameterError` has its name."""
    if text is not None and not isinstance(text, str):
        raise ParameterError(f"{name} must be ISO 8601 as a text, got {text!r:.60}")
    try:
        return in_utc(text)
    except ParameterError as error:
        raise ParameterError(f"{name} {error}") from None


def checked_metadata(name: str, value: object) -> dict[str, Any]:
    """A copy of a mapping in JSON's types; a `ParameterError` if JSON cannot hold it, or it nests too deep."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ParameterError(f"{name} must be a mapping from texts, got {value!r:.60}")
    if not value or all(map(_is_plain, value.values())):
        return dict(value)
    if _too_deep(value):  # what reads or writes JSON goes as deep as it does
        raise ParameterError(f"{name} must nest at most {DEEPEST} deep; put what is deeper into a text")
    try:
        return dict(json.loads(_JSON.encode(dict(value))))
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(f"{name} must be JSON: {error}") from None


def stored_metadata(text: str, id_: str) -> dict[str, Any]:
    """Metadata of a stored memory; empty, with a warning, if it nests deeper than is accepted today."""
    if text.count("[") + text.count("{") > DEEPEST:
        with suppress(RecursionError):
            value: dict[str, Any] = json.loads(text)
            if not _too_deep(value):
                return value
        _log.warning("memory %r: its metadata nests over %d deep and is left out; update it", id_, DEEPEST)
        return {}
    return dict(json.loads(text))


def _too_deep(value: object) -> bool:
    """Whether mappings and lists nest more than `DEEPEST` deep, as one that contains itself does."""
    level: list[object] = [value]
    for _ in range(DEEPEST):
        level = list({id(inner): inner for outer in level for inner in _inside(outer)}.values())
        if not level:
            return False
    return any(isinstance(value, Mapping | list | tuple) for value in level)


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _is_plain(value: object) -> bool:
    """Whether JSON can hold a value: no number that is too long to be written."""
    return type(value) in (str, bool, type(None)) or (type(value) is int and -_LONG < value < _LONG)


_JSON = json.JSONEncoder(allow_nan=False)  # `json.dumps` would make one for each memory
_LONG = 2**63
_READ: Mapping[str, Callable[[str, Any], Any]] = (  # what is kept of each field, given its name and value
    {"id": checked_name, "workspace": checked_name, "type": _type, "kind": checked_name}
    | {"conversation": name_if_any, "user": name_if_any}
    | {"content": _content, "confidence": lambda name, value: number_within(name, value, 0, 1)}
    | {"created": time_named, "metadata": checked_metadata}
)
_values = attrgetter(*_READ)


def accepted(memories: Iterable[Memory], existing: Taken) -> list[Memory]:
    """Check memories, and return them in their stored form.

    Raises:
        InputError: some are refused; all faults are listed, each with the number of its memory, counted from 1.
    """
    rows, faults = _looked_at(memories, existing)
    named = [Fault(f"memory {number}, {rows[number - 1].id!r:.60}: {message}") for number, message in faults]
    raise_faults(named, subject="memories to insert, of which none was stored")
    return rows


def accepted_one(memory: Memory, existing: Taken) -> Memory:
    """As `accepted`, for one memory; the `ParameterError` names all its faults."""
    rows, faults = _looked_at([memory], existing)
    if faults:
        raise ParameterError(f"memory {memory.id!r:.60}: {'; '.join(message for _, message in faults)}")
    return rows[0]


def _looked_at(memories: Iterable[Memory], existing: Taken) -> tuple[list[Memory], list[tuple[int, str]]]:
    """The memories in their stored form, and their faults as (number from 1, fault), in order."""
    rows, faults = [], []
    first: dict[str, dict[str, int]] = {}  # by workspace, by id: the number of the first such memory
    for number, memory in enumerate(memories, start=1):
        problems: list[str] = []
        rows.append(checked(memory, problems))
        if not problems:
            before = first.setdefault(memory.workspace, {}).setdefault(memory.id, number)
            if before != number:
                problems.append(f"memory {before} has the same id; ids must differ within a workspace")
        faults += [(number, fault) for fault in problems]
    for workspace, numbers in first.items():
        try:
            for id_ in existing(workspace, list(numbers)):
                problem = f"workspace {workspace!r} has a memory of this id; change it by `update`, or give another id"
                faults.append((numbers[id_], problem))
        except ParameterError as error:
            faults.append((min(numbers.values()), str(error)))
    return rows, sorted(faults)


def successor(current: Memory, at: str | None, changes: Mapping[str, Any]) -> tuple[Memory, Memory]:
    """The current version of a memory with its end, and the version that replaces it.

    Raises:
        ParameterError: nothing is to be changed, or not to this, or before the current version began.
    """
    where = f"memory {current.id!r}: "
    for name in changes:
        if name not in _CHANGEABLE:
            raise ParameterError(f"{where}a version cannot change {name!r}{suggest(name, _CHANGEABLE)}")
    if not changes:
        raise ParameterError(f"{where}an update must change something: {', '.join(_CHANGEABLE)}")
    moment = time_named(f"{where}at", at)
    begun = str(current.created)
    if moment < begun:
        problem = f"at ({moment}) is before its version {current.version} was created ({begun})"
        raise ParameterError(f"{where}{problem}; a later version begins after the one before")
    faults: list[str] = []
    new = checked(replace(current, **changes, created=moment, version=1, until=None), faults)
    if faults:
        raise ParameterError(where + "; ".join(faults))
    return replace(current, until=moment), replace(new, version=current.version + 1)


def version_at(versions: Sequence[Memory], at: str | None) -> Memory:
    """The version that is current, or was at a time, of a memory's versions, which are in order.

    Raises:
        ParameterError: it is no time, or before the first version began.
    """
    if at is None:
        return versions[-1]
    first = versions[0]
    moment = time_named("at", at)
    created = [version for version in versions if str(version.created) <= moment]
    if not created:
        raise ParameterError(f"memory {first.id!r} was not there at {moment}; it was created at {first.created}")
    return created[-1]


def check_relationship(relationship: Relationship) -> None:
    """Raise a `ParameterError` for a relationship of a memory to itself, or without a type."""
    checked_name("the type of a relationship", relationship.type)
    if relationship.source == relationship.target:
        ends = f"got {relationship.source!r} twice"
        raise ParameterError(f"a relationship leads from one memory to another one, {ends} ({relationship.type!r})")


def unknown(noun: str, name: object, candidates: Iterable[str] = ()) -> ParameterError:
    """The error for an unknown name; suggests one of the first 1,000 names of `known`."""
    names = tuple(islice(candidates, _SUGGESTED))
    return ParameterError(f"{noun} {name!r:.60}{suggest(str(name), names) if names else ''}")


def item_key(memory: Memory) -> ItemKey:
    """The key of a version's item, `<type>:<id>@<version>`; the version follows the last "@"."""
    return ItemKey(memory.type, None, f"{memory.id}@{memory.version}")


def memory_catalog(
    memories: Iterable[Memory], relationships: Iterable[Relationship] = (), *, before: Catalog | None = None
) -> Catalog:
    """The catalog of a workspace: every version an item `<type>:<id>@<version>`, with links to those of its time.

    Two related memories are linked in every two versions that were there together, so that as of any time those are
    that were there then.

    Args:
        memories: versions in the order in which they were added.
        relationships: between them.
        before: a catalog to extend; nothing but the ends of succeeded versions may have changed since.
    """
    rows = tuple(memories)
    versions: dict[str, list[Memory]] = defaultdict(list)
    for row in rows:
        versions[row.id].append(row)
    links: dict[tuple[str, int], list[Link]] = defaultdict(list)
    for link in relationships:
        for source, target in product(versions[link.source], versions[link.target]):
            if max(str(source.created), str(target.created)) < min(
                source.until or "~", target.until or "~"
            ):  # "~": no end
                links[source.id, source.version].append(Link(link.type, item_key(target)))
    items = [
        Item(
            type=row.type,
            name=item_key(row).name,
            title=row.id if row.type == "file" else "",
            text=row.content,
            links=tuple(links[row.id, row.version]),
            **{name: getattr(row, name) for name in _FACTS},
        )
        for row in rows
    ]
    if before is None:
        return Catalog(items)
    succeeded = (row for row in rows if row.version > 1)
    ends = ((before.find(item_key(replace(row, version=row.version - 1))), str(row.created)) for row in succeeded)
    return before.extended(items, ends={position: end for position, end in ends if position is not None})
