"""Which item of a changed catalog is the successor of one that is gone: as given, or proposed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError, ParameterError, suggest
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.io.json_files import dump_json
from ctxbench.io.yaml_files import line_of, load_yaml


@dataclass(frozen=True, slots=True)
class Rename:
    """One item that goes on under another identity.

    Attributes:
        old, new: keys.
        how: `given`, `same content on another server`, or `same content under another name`.
    """

    old: ItemKey
    new: ItemKey
    how: str

    def as_dict(self) -> dict[str, str]:
        """The rename as JSON."""
        return {"old": self.old.id, "new": self.new.id, "how": self.how}


@dataclass(frozen=True, slots=True)
class Doubt:
    """An item that is gone, and several new ones with its very content: a person must say which it is."""

    old: ItemKey
    candidates: tuple[ItemKey, ...]


def read_renames(path: Path | str) -> dict[ItemKey, ItemKey]:
    """Read a mapping from old to new item ids, in YAML or JSON.

    Raises:
        StorageError: the file cannot be read.
        InputError: it is no mapping of item ids; all faults, with their lines.
    """
    data, lines = load_yaml(path)
    if not isinstance(data, dict):
        raise InputError([Fault("expected a mapping from old to new item ids, such as tool:a:x: tool:b:x", path, 1)])
    faults: list[Fault] = []
    found: dict[ItemKey, ItemKey] = {}
    for old, new in data.items():
        line = line_of(lines, (old,))
        keys = []
        for value in (old, new):
            try:
                keys.append(ItemKey.parse(value if isinstance(value, str) else ""))
            except ParameterError as error:
                faults.append(Fault(str(error), path, line))
        if len(keys) == 2:
            found[keys[0]] = keys[1]
    if faults:
        raise InputError(faults, subject="renames")
    return found


def check_renames(renames: Mapping[ItemKey, ItemKey], old: Catalog, new: Catalog) -> None:
    """Refuse renames of items that are not there, or to items that are not there.

    Raises:
        InputError: all such renames.
    """
    faults = []
    for before, after in renames.items():
        for key, catalog, which in ((before, old, "the dataset"), (after, new, "the new catalog")):
            if catalog.find(key) is None:
                known = suggest(key.id, catalog.ids)
                faults.append(Fault(f"rename {before.id} to {after.id}: {which} holds no {key.id!r}{known}"))
        if old.find(after) is not None and after not in renames:
            what = f"rename {before.id} to {after.id}: the dataset holds {after.id!r} as well, so that two items would "
            faults.append(Fault(f"{what}become one; rename that one, too, or leave this one out"))
    taken: dict[ItemKey, ItemKey] = {}
    for before, after in renames.items():
        other = taken.setdefault(after, before)
        if other != before:
            faults.append(Fault(f"{other.id} and {before.id} are both renamed to {after.id}; two cannot become one"))
    if faults:
        raise InputError(faults, subject="renames")


def propose_renames(gone: Iterable[Item], added: Iterable[Item]) -> tuple[tuple[Rename, ...], tuple[Doubt, ...]]:
    """Pair items that are gone with new ones of the same type and the same description, text and schema.

    An item without any of the three is never paired. Among several new ones with the same content, the one of the
    same name is taken if there is just one; else the pair is a doubt. So it is where several that are gone have the
    same content and the names do not tell them apart.

    Returns:
        The pairs and the doubts, in the order of `gone`.
    """
    by_content: dict[str, list[Item]] = {}
    for item in added:
        by_content.setdefault(_content(item), []).append(item)
    lost: dict[str, list[Item]] = {}
    for item in gone:
        lost.setdefault(_content(item), []).append(item)
    renames, doubts = [], []
    for content, olds in lost.items():
        left = list(by_content.get(content, ()))
        if not content or not left:
            continue
        waiting = []
        for old in olds:
            same = [new for new in left if new.name == old.name]
            rivals = sum(other.name == old.name for other in olds)
            if len(same) == 1 and rivals == 1:
                renames.append(Rename(old.key, same[0].key, "same content on another server"))
                left.remove(same[0])
            else:
                waiting.append(old)
        if len(waiting) == 1 and len(left) == 1:
            renames.append(Rename(waiting[0].key, left[0].key, "same content under another name"))
        elif left:
            doubts += [Doubt(old.key, tuple(new.key for new in left)) for old in waiting]
    place = {item.key: i for i, item in enumerate(item for olds in lost.values() for item in olds)}
    return tuple(sorted(renames, key=lambda r: place[r.old])), tuple(sorted(doubts, key=lambda d: place[d.old]))


def _content(item: Item) -> str:
    """Type, description, text and schema as text; empty if the item has only a name."""
    parts: list[Any] = [item.description, item.text, item.schema]
    return dump_json([item.type, *parts]) if any(parts) else ""
