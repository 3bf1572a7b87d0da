"""Snapshots of catalogs: the items of servers, tool lists and folders at one time, merged and stored in a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from ctxbench.core.errors import Fault, InputError, ParameterError
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.io.files import atomic_folder
from ctxbench.io.json_files import dump_jsonl
from ctxbench.io.yaml_files import dump_yaml, load_yaml
from ctxbench.sources.captured_keys import SHOWN, hidden, key_places
from ctxbench.sources.catalogs import CORPUS, corpus_rows, read_catalog
from ctxbench.text.redaction import Redactor, masked
from ctxbench.text.redaction_rules import KNOWN_KEYS

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
        notes: what was odd but did not stand in the way.
        error: what went wrong; holds no secret.
        origin: the folder that it was read from, to tell parts of one name apart in messages; not kept.
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
        if self.state not in STATES:
            raise ParameterError(f"a part's state must be one of {', '.join(STATES)}, got {self.state!r}")
        if (self.state == "failed") != bool(self.error) or (self.items and self.state != "captured"):
            raise ParameterError(
                f"part {self.name!r} is {self.state}: expected an error exactly if it failed, and items only if not"
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
        InputError: two parts hold an item of the same identity, a key that is to be hidden stands in a name, or
            nothing was captured at all (with every error).
    """
    parts = tuple(part for source in sources for part in source())
    parts = _without_keys(parts) if hide_keys else tuple(map(_warned, parts))
    owner: dict[ItemKey, int] = {}
    faults = []
    for position, part in enumerate(parts):
        for item in part.items:
            first = owner.setdefault(item.key, position)
            if first != position:
                message = f"item {item.id!r} comes from {_whence(parts[first])} and from {_whence(part)}"
                faults.append(Fault(f"{message}; give one of them another name, or capture them apart (--out)"))
    if faults:
        raise InputError(faults, subject="capture")
    if not any(part.items for part in parts):
        raise InputError(_nothing(parts), subject="nothing was captured")
    return CatalogSnapshot(parts, Catalog(item for part in parts for item in part.items))


def _warned(part: SnapshotPart) -> SnapshotPart:
    """The part, with a note of the keys in it; neither notes nor error hold one."""
    return _with_note(part, f"{_HOLDS_KEYS}; take them out where they come from, or hide them with --hide-keys")


def _without_keys(parts: Sequence[SnapshotPart]) -> tuple[SnapshotPart, ...]:
    """The parts with placeholders for keys, and notes of what was hidden.

    Raises:
        InputError: keys stand in names.
    """
    redactor = Redactor(KNOWN_KEYS)
    masked_parts = [replace(part, items=tuple(hidden(item, redactor) for item in part.items)) for part in parts]
    faults = [
        Fault(f"a key stands in a name, which is kept as it is: {location}; rename it, or leave it out")
        for part in masked_parts
        for location in _key_locations(part)
    ]
    if faults:
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
    """Write `corpus.jsonl` and `capture.yaml`, both or neither, in place of a snapshot that stands there.

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
        earlier_by_name = {(part.kind, part.name): part for part in earlier}
        return list((earlier_by_name | by_name).values())

    return parts


def earlier_parts(folder: Path) -> list[SnapshotPart]:
    """The parts of a snapshot that did not fail, each with its items."""
    counts = items_kept(folder)
    card, _ = load_yaml(folder / CAPTURE)
    items = iter(read_catalog(folder / CORPUS))
    items_by_part = {key: tuple(islice(items, count)) for key, count in counts.items()}
    if next(items, None) is not None or any(len(items_by_part[key]) != count for key, count in counts.items()):
        message = f"it does not name all items of {CORPUS}; capture all anew, without --only and --skip"
        raise InputError([Fault(message, folder / CAPTURE)])
    return [
        SnapshotPart(
            name=str(row["name"]),
            kind=str(row["kind"]),
            state=str(row["state"]),
            items=items_by_part[str(row["kind"]), str(row["name"])],
            details={key: value for key, value in row.items() if key not in _OF_A_PART},
            notes=tuple(note for note in row.get("notes", ()) if not note.startswith(_HOLDS_KEYS)),  # told anew
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
    faults = [
        Fault(f"{part.kind} {part.name!r}: {part.error or '; '.join((states[part.state], *part.notes))}")
        for part in parts
    ]
    return faults or [Fault("no server, tool list or folder was named")]
