"""Read catalogs from files, and take and merge snapshots of them.

Keys of a known form (`ghp_...`, a JWT, a private key) in captured items are reported with their location, or hidden.
Names are stored as they are, so a key in a name can only be reported.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, Required, TypeAlias

from annotated_types import MinLen
from typing_extensions import TypedDict

from ctxbench.io.cache import altered
from ctxbench.io.documents import dump_jsonl, dump_yaml, iter_jsonl, load_yaml
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, StorageError, raise_first
from ctxbench.io.files import atomic_folder, cache_dir, folder_fault, recover_folder, suggest_file
from ctxbench.io.redaction import KNOWN_KEYS, Redactor, known_keys, masked, shortened
from ctxbench.io.rows import Row, read_text_value
from ctxbench.model.items import Catalog, Item, ItemKey, ItemsByKey, Link, read_key

CORPUS = "corpus.jsonl"


class LinkRow(TypedDict):
    """A link of an item to another item."""

    type: Annotated[str, MinLen(1)]
    """The type of the link."""
    item: str
    """The id of the other item."""


class ItemRow(TypedDict, total=False):
    """A row of `corpus.jsonl`: an item that can be put in a prompt."""

    _id: Required[Annotated[str, MinLen(1)]]
    """The item id, `type:name` or `type:server:name`, each part percent-encoded."""
    type: str | None
    """The type, as in `_id`."""
    server: str | None
    """The server of a tool, as in `_id`."""
    name: str | None
    """The name, as in `_id`."""
    title: str | None
    """Shown instead of the name where a person reads."""
    text: str | None
    """The body of a rule, reference or file; that of a skill is loaded on demand."""
    description: str | None
    """One or more sentences; may be empty."""
    include: Literal["always", "manual", "agent"] | None
    """`always`: in every new session; `manual`: only by hand; `agent`: found by search (the default)."""
    enabled: bool | None
    """False keeps the item out of everything."""
    priority: int | None
    """The level of rules and references; lower is shown first."""
    schema: dict[str, Any] | None
    """The input schema of a tool."""
    metadata: dict[str, Any] | None
    """Anything else; never searched, never sent."""
    workspace: str | None
    """The workspace that sees the item; none = all."""
    user: str | None
    """The user who sees the item; none = all."""
    conversation: str | None
    """The conversation in which it was said."""
    kind: str | None
    """The kind of a memory, in words of your own, such as `fact` or `decision`."""
    created: str | None
    """When it was created, ISO 8601; none = always there."""
    until: str | None
    """When it ended, ISO 8601; none = not yet."""
    confidence: float | None
    """How certain it is, 0 to 1."""
    links: list[LinkRow] | None
    """Links to other items of the catalog."""


def read_catalog(name_or_path: str | Path) -> Catalog:
    """Read a catalog.

    Args:
        name_or_path: a file of items, a folder that holds `corpus.jsonl`, or the name of a dataset in the cache.

    Raises:
        StorageError: nothing is there, or the dataset in the cache is damaged.
        InputError: lines are malformed, or identities occur twice; all faults, with their lines.
    """
    path = corpus_path(Path(name_or_path))
    faults: list[Fault] = []
    items, _ = read_items(path, faults)
    if faults:
        raise InputError(faults)
    return Catalog(items)


def corpus_path(path_or_folder: Path) -> Path:
    """The file of items that `read_catalog` reads.

    Raises:
        StorageError: nothing is there, or the dataset in the cache is damaged.
    """
    cached = cache_dir() / "datasets" / path_or_folder
    recover_folder(path_or_folder)
    recover_folder(cached)
    for path in (path_or_folder, path_or_folder / CORPUS, cached / CORPUS):
        if os.path.isfile(path):  # noqa: PTH113 - unlike Path's, False where it can be no path
            if path.name == CORPUS and _is_cached(path.parent) and altered(path.parent, [CORPUS]):
                folder = path.parent.resolve()
                raise StorageError(
                    f"{path} is damaged; import it again: `ctxbench data import {folder.name}`, or, if no "
                    f"importer provides it any more, delete the folder {folder}"
                )
            return path
    if os.path.lexists(path_or_folder) and (fault := folder_fault(path_or_folder)):
        raise StorageError(f"cannot read the catalog {path_or_folder}: {fault}")
    raise StorageError(
        f"no catalog {str(path_or_folder)!r}: expected a file of items, a folder with {CORPUS}, a git "
        f"repository (a folder inside of one as FOLDER:files), or an imported dataset (`ctxbench data list` "
        f"names those that there are){suggest_file(path_or_folder)}"
    )


def _is_cached(folder: Path) -> bool:
    """Whether a folder is in the cache of datasets, by its path or by what its links lead to."""
    cache_folder = cache_dir() / "datasets"
    return any(Path(real(folder)).is_relative_to(real(cache_folder)) for real in (os.path.abspath, os.path.realpath))


def read_items(path: Path, faults: list[Fault]) -> tuple[list[Item], bool]:
    """Read the items of a corpus file, in order, and whether the item of every line could be read.

    An empty file, a malformed line, a wrong field and an identity that occurs twice are added to `faults`, in order
    of lines.

    Raises:
        StorageError: the file is missing or cannot be read.
    """
    wrong: list[Fault] = []
    unreadable: list[Fault] = []
    items: list[Item] = []
    lines = array("q")  # of the items; a catalog may have millions
    n_rows = 0
    for line, data in iter_jsonl(path, unreadable):
        n_rows += 1
        if (item := read_item(Row(data, wrong, path, line))) is not None:
            items.append(item)
            lines.append(line)
    by_key, complete = ItemsByKey(items), len(items) == n_rows and not unreadable
    for first, second in by_key.repeats:
        message = Message("catalogs.item-repeated", item=items[second].id, line=lines[first])
        wrong.append(Fault(message, path, lines[second]))
    if complete:  # else the target of a link may be in the unreadable row
        for line, item in zip(lines, items, strict=True):
            for link in item.links:
                if link.item not in by_key:
                    message = Message("catalogs.link-missing", item=item.id, type=link.type, target=link.item.id)
                    wrong.append(Fault(message, path, line))
    if not n_rows and not unreadable:
        wrong.append(Fault(Message("catalogs.corpus-empty"), path))
    faults += sorted([*wrong, *unreadable], key=lambda fault: fault.line)
    return items, complete and bool(items)


def corpus_rows(catalog: Iterable[Item]) -> Iterator[dict[str, Any]]:
    """The items as rows of `corpus.jsonl`.

    The text of a tool, which has none, is its description: other readers of BEIR's layout search title and text.
    `read_item` passes over it.
    """
    for item in catalog:
        row = item.as_row()
        yield {**row, "text": item.description} if item.type == "tool" else row


def _link(value: Any) -> Link:
    if set(value) != {"type", "item"} or not value["type"]:
        raise TypeError
    return Link(read_text_value(value["type"]), read_key(value["item"]))


def read_item(row: Row) -> Item | None:
    """Turn a row of `corpus.jsonl` into an item; None if its `_id` cannot be read.

    `_id` alone is the identity; `type`, `server` and `name` are for readers of other tools and must agree with it.
    """
    row.check(ItemRow)
    data = row.data
    try:
        key = ItemKey.parse(data["_id"])
    except KeyError:
        return None
    except ParameterError as error:
        row.fault(f"field '_id': {error}")
        return None
    if key.id != data["_id"]:
        row.fault(Message("catalogs.item-id", got=data["_id"], expected=key.id))
    identity = key._asdict()
    for name, expected in identity.items():
        if data.get(name, expected or "") != (expected or ""):
            about = {"field": name, "got": data[name], "id": data["_id"], "expected": expected}
            row.fault(Message("catalogs.item-field", **about))
    fields = {name: value for name, value in data.items() if name not in ("_id", "links", *identity)}
    if fields.get("title") == key.name:
        fields["title"] = ""
    if key.type == "tool":
        fields["text"] = ""  # a copy of its description, which may be out of date
    try:
        links = row.read_list("links", _link, expected='{"type": text, "item": item id}') if "links" in data else ()
        return Item(**identity, **fields, links=links)
    except ParameterError as error:
        row.fault(str(error))
        return None


SHOWN = 20  # places that a note lists


def key_places(item: Item, *, line: int = 0) -> Iterator[str]:
    """The locations of the keys of an item, each once, with the part that may be shown.

    Args:
        item: an item as it was captured.
        line: of its file, in which its text begins; 0 = it was read from no file.

    Returns:
        Such as `AGENTS.md, line 12 (ghp_…, 40 characters)` or `tool:git:log, its description (...)`, texts first.
    """
    masked_texts: set[str] = set()
    for part, text in _texts(item):
        for start, key in sorted(known_keys(text)):
            if key not in masked_texts:
                masked_texts.add(key)
                at = text.count("\n", 0, start)
                where = f"{item.name}, line {line + at}" if line and part == "text" else f"{item.id}, its {part}"
                yield Message("catalogs.key-location", where=where, key=shortened(key), n=len(key))


def hidden(item: Item, redactor: Redactor) -> Item:
    """The item with a placeholder for each key that the redactor finds in its texts; names stay."""
    return replace(
        item,
        text=redactor.text(item.text),
        description=redactor.text(item.description),
        title=redactor.text(item.title),
        schema=_hidden(item.schema, redactor),
        metadata=_hidden(item.metadata, redactor),
    )


def _texts(item: Item) -> Iterator[tuple[str, str]]:
    """Every text of an item with its kind; names last."""
    yield from (("text", item.text), ("description", item.description), ("title", item.title))
    parts = (("schema", item.schema), ("metadata", item.metadata))
    yield from ((part, text) for part, value in parts for is_name, text in _strings(value) if not is_name)
    yield from (("name", item.name), ("server's name", item.server or ""))
    yield from (("names of fields", name) for _, value in parts for is_name, name in _strings(value) if is_name)


def _strings(value: Any) -> Iterator[tuple[bool, str]]:
    """The texts in a JSON value, and the names of fields: (whether it is a name, text)."""
    if isinstance(value, str):
        yield False, value
    elif isinstance(value, Mapping):
        yield from ((True, name) for name in value)
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from _strings(part)


def _hidden(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, list | tuple):
        return [_hidden(entry, redactor) for entry in value]
    return {name: _hidden(entry, redactor) for name, entry in value.items()} if isinstance(value, Mapping) else value


CAPTURE = "capture.yaml"
FORMAT = 1
SERVER = "server"  # the kind of a part
STATES = ("captured", "failed", "disabled")
_HOLDS_KEYS = "it seems to hold keys"
_OF_A_PART = ("name", "kind", "state", "items", "without_description", "without_schema", "captured", "notes", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPart:
    """The items of one source: a server, a tool list, a folder of rules.

    Attributes:
        name: as the user knows it: the key of a configuration, a file's name.
        kind: `server`, `tool list`, `rules` ...
        state: `captured`, `failed` (no items; `error` says why) or `disabled` (not asked).
        items: in their order in the catalog.
        details: anything else that is worth keeping, as JSON.
        notes: oddities that did not prevent the capture.
        error: what went wrong; holds no secret.
        origin: the folder that it was read from, to distinguish parts of the same name in messages; not kept.
        lines: by name of an item that was read from a file, the line in which its text begins; not kept.
        captured: of a part that was not asked anew, when it last was, as ISO 8601; else empty.
    """

    name: str
    kind: str
    state: str = "captured"
    items: tuple[Item, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    error: str = ""
    origin: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)
    captured: str = ""

    def __post_init__(self) -> None:
        raise_first(
            (self.state not in STATES, f"a part's state must be one of {', '.join(STATES)}, got {self.state!r}"),
            (
                (self.state == "failed") != bool(self.error) or (self.items and self.state != "captured"),
                f"part {self.name!r} is {self.state}: expected an error exactly if it failed, and items only if not",
            ),
        )

    def as_row(self) -> dict[str, Any]:
        """The part as JSON, without its items: name, kind, state, counts, details, notes, error."""
        row: dict[str, Any] = {"name": self.name, "kind": self.kind, "state": self.state}
        if self.state == "captured":
            row |= {"items": len(self.items), **missing_fields(self.items)}
        row |= self.details
        if self.captured:
            row["captured"] = self.captured
        if self.notes:
            row["notes"] = list(self.notes)
        if self.error:
            row["error"] = self.error
        return row


Source: TypeAlias = Callable[[], Sequence[SnapshotPart]]


@dataclass(frozen=True)
class CatalogSnapshot:
    """Parts merged into one catalog, in the order of the sources.

    Attributes:
        parts: what each source gave.
        catalog: all their items.
    """

    parts: tuple[SnapshotPart, ...]
    catalog: Catalog

    @cached_property
    def failed(self) -> tuple[SnapshotPart, ...]:
        """The parts that failed."""
        return tuple(part for part in self.parts if part.state == "failed")

    def counts(self) -> dict[str, int]:
        """How many items there are, in all and of each type, and how many lack a description or a schema."""
        types = [item.type for item in self.catalog]
        return {
            "items": len(types),
            **{f"{kind}s": types.count(kind) for kind in dict.fromkeys(types)},
            **missing_fields(tuple(self.catalog)),
        }

    def card(self, *, when: datetime) -> dict[str, Any]:
        """What `capture.yaml` holds.

        Args:
            when: of the capture; with a time zone.
        """
        return {
            "format": FORMAT,
            "captured": when.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "catalog": self.catalog.hash,
            "counts": self.counts(),
            "parts": [part.as_row() for part in self.parts],
        }


def capture(*sources: Source, hide_keys: bool = False) -> CatalogSnapshot:
    """Read every source and merge the items into one catalog.

    A text in an item that looks like a key gets a note of its part, which does not show it.

    Args:
        sources: asked one after the other; their parts keep this order.
        hide_keys: put placeholders in place of keys, the same for the same in all parts.

    Raises:
        InputError: two parts hold an item of the same identity, a key that is to be hidden is in a name, or
            nothing was captured at all (with every error).
    """
    parts = tuple(part for source in sources for part in source())
    parts = (
        _without_keys(parts)
        if hide_keys
        else tuple(_with_note(part, Message("catalogs.holds-keys")) for part in parts)  # without the keys themselves
    )
    owner: dict[ItemKey, int] = {}
    faults = []
    for position, part in enumerate(parts):
        for item in part.items:
            if (first := owner.setdefault(item.key, position)) != position:
                origins = {"first": _whence(parts[first]), "second": _whence(part)}
                faults.append(Fault(Message("catalogs.item-in-two-sources", item=item.id, **origins)))
    if faults:
        raise InputError(faults, subject="capture")
    if not any(part.items for part in parts):
        raise InputError(_nothing(parts), subject="nothing was captured")
    return CatalogSnapshot(parts, Catalog(item for part in parts for item in part.items))


def _without_keys(parts: Sequence[SnapshotPart]) -> tuple[SnapshotPart, ...]:
    """The parts with placeholders for keys, and notes of what was hidden.

    Raises:
        InputError: names contain keys.
    """
    redactor = Redactor(KNOWN_KEYS)
    masked_parts = [replace(part, items=tuple(hidden(item, redactor) for item in part.items)) for part in parts]
    if faults := [
        Fault(Message("catalogs.key-in-name", location=location))
        for part in masked_parts
        for location in _key_locations(part)
    ]:
        raise InputError(faults, subject="capture")
    return tuple(
        replace(_with_note(part, "keys in it were hidden"), items=new.items)
        for part, new in zip(parts, masked_parts, strict=True)
    )


def _with_note(part: SnapshotPart, text: str) -> SnapshotPart:
    """The part with a note on the locations of its keys, if there are any."""
    locations = _key_locations(part)
    ending = f" and {len(locations) - SHOWN:,} more" if len(locations) > SHOWN else ""
    notes = [*part.notes, *([f"{text}: {'; '.join(locations[:SHOWN])}{ending}"] if locations else [])]
    return replace(part, notes=tuple(map(masked, notes)), error=masked(part.error))


def _key_locations(part: SnapshotPart) -> list[str]:
    return [masked(location) for item in part.items for location in key_places(item, line=part.lines.get(item.name, 0))]


def odd_in(parts: Sequence[SnapshotPart]) -> list[str]:
    """The notes and errors of parts, one line each, without keys."""
    return [masked(f"{part.name}: {note}") for part in parts for note in (*part.notes, part.error) if note]


def write_snapshot(snapshot: CatalogSnapshot, folder: Path | str, *, when: datetime | None = None) -> dict[str, Any]:
    """Write `corpus.jsonl` and `capture.yaml`, both or neither, replacing an existing snapshot.

    The same items give the same bytes of `corpus.jsonl`; only `capture.yaml` holds the time.

    Args:
        snapshot: what to write.
        folder: made if need be; afterwards it can be named wherever a catalog is asked for.
        when: of the capture; None = now.

    Returns:
        What `capture.yaml` holds.

    Raises:
        ParameterError: the folder holds something else, which would be lost.
        StorageError: it cannot be written.
    """
    refuse_other(folder)
    card = snapshot.card(when=when or datetime.now(UTC))
    with atomic_folder(folder) as temporary:
        (temporary / CORPUS).write_bytes(dump_jsonl(corpus_rows(snapshot.catalog)).encode("utf-8"))
        (temporary / CAPTURE).write_bytes(dump_yaml(card).encode("utf-8"))
    return card


def items_kept(folder: Path | str) -> dict[tuple[str, str], int]:
    """The number of items of each source of a snapshot in a folder, by kind and name; 0 for a failed source.

    Raises:
        UserError: `capture.yaml` cannot be read, or is none.
    """
    path = Path(folder) / CAPTURE
    card, _ = load_yaml(path)
    parts = card.get("parts") if isinstance(card, Mapping) else None
    try:
        return {(str(part["kind"]), str(part["name"])): int(part.get("items", 0)) for part in parts or ()}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError([Fault("parts must be a list of mappings with kind, name and items", path)]) from None


def beside_earlier(sources: Sequence[Source], folder: Path | str) -> Source:
    """A source that adds the other parts of a snapshot in a folder to the parts of sources.

    A part takes the place of the earlier one of its kind and name; new parts come last. An earlier part that failed is
    left out, since it holds nothing. Where the folder holds no snapshot there is nothing beside.

    Raises:
        UserError: the snapshot cannot be read, or its two files do not belong together.
    """
    earlier = earlier_parts(Path(folder)) if (Path(folder) / CAPTURE).is_file() else []

    def parts() -> list[SnapshotPart]:
        by_name = {(part.kind, part.name): part for source in sources for part in source()}
        return list({**{(part.kind, part.name): part for part in earlier}, **by_name}.values())

    return parts


def earlier_parts(folder: Path) -> list[SnapshotPart]:
    """The parts of a snapshot that did not fail, each with its items."""
    counts = items_kept(folder)
    card, _ = load_yaml(folder / CAPTURE)
    items = iter(read_catalog(folder / CORPUS))
    items_by_part = {key: tuple(islice(items, count)) for key, count in counts.items()}
    if next(items, None) is not None or any(len(items_by_part[key]) != count for key, count in counts.items()):
        raise InputError([Fault(Message("catalogs.snapshot-incomplete"), folder / CAPTURE)])
    return [
        SnapshotPart(
            name=str(row["name"]),
            kind=str(row["kind"]),
            state=str(row["state"]),
            items=items_by_part[str(row["kind"]), str(row["name"])],
            details={key: value for key, value in row.items() if key not in _OF_A_PART},
            notes=tuple(note for note in row.get("notes", ()) if not note.startswith(_HOLDS_KEYS)),  # noted again
            captured=str(row.get("captured") or card.get("captured", "")),
        )
        for row in card["parts"]
        if row.get("state") in ("captured", "disabled")
    ]


def refuse_other(folder: Path | str) -> None:
    """Check that a snapshot may be written to `folder`: it is missing, empty, or holds a snapshot and nothing else.

    Raises:
        ParameterError: it is a file, or holds something else.
    """
    path = Path(folder)
    if path.is_dir():
        names = {entry.name for entry in path.iterdir()}
        unexpected = sorted(names - {CORPUS, CAPTURE})
        if not names or (CAPTURE in names and not unexpected):
            return
        problem = f"it holds {unexpected[0]}" if unexpected else f"its {CORPUS} is no snapshot"
    elif path.exists():
        problem = "it is a file"
    else:
        return
    raise ParameterError(f"{folder} would be replaced, but {problem}; name another folder, or delete it")


def missing_fields(items: Sequence[Item]) -> dict[str, int]:
    """How many tools have no description (`without_description`) or no schema (`without_schema`); 0 is left out."""
    tools = [item for item in items if item.type == "tool"]
    counts = {
        "without_description": sum(not tool.description.strip() for tool in tools),
        "without_schema": sum(tool.schema is None for tool in tools),
    }
    return {name: count for name, count in counts.items() if count}


def _whence(part: SnapshotPart) -> str:
    return f"{part.name!r} in {part.origin}" if part.origin else repr(part.name)


def _nothing(parts: Sequence[SnapshotPart]) -> list[Fault]:
    """Why there is no item at all."""
    states = {"captured": "it holds no items", "disabled": "it is disabled"}
    reasons = [part.error or "; ".join((states[part.state], *part.notes)) for part in parts]
    return [  # a fault is one line
        Fault(f"{part.kind} {part.name!r}: {reason.replace(chr(10), '')}")
        for part, reason in zip(parts, reasons, strict=True)
    ] or [Fault(Message("catalogs.nothing-to-capture"))]


def read_card(path: Path) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """The card of a snapshot, and those of its parts; empty if the file holds no mapping."""
    data, _ = load_yaml(path)
    card = data if isinstance(data, Mapping) else {}
    parts = card.get("parts")
    return card, [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
