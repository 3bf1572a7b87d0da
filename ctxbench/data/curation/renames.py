"""Renames of items: pairs of an item that is gone and its successor, from a file or proposed by content."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError, ParameterError, raise_faults
from ctxbench.core.item_suggestions import suggest_items
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.io.json_files import dump_json
from ctxbench.io.yaml_files import line_of, load_yaml

_DROPPED = (
    " any more: an earlier `ctxbench data rebase` dropped its labels with it; bring the dataset's folder back as it "
    "was before (`git restore`, or delete it and import again), and rebase that with --renames"
)


@dataclass(frozen=True, slots=True)
class Rename:
    """An item with its old and its new identity.

    Attributes:
        old, new: keys.
        how: `given`, `same content on another server`, `same content under another name`, or what makes it likely.
    """

    old: ItemKey
    new: ItemKey
    how: str

    def as_dict(self) -> dict[str, str]:
        """The rename as JSON."""
        return {"old": self.old.id, "new": self.new.id, "how": self.how}


@dataclass(frozen=True, slots=True)
class AmbiguousRename:
    """An item that is gone, and several new ones with the same content: a person must say which is its successor."""

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
    renames: dict[ItemKey, ItemKey] = {}
    for old, new in data.items():
        line = line_of(lines, (old,))
        keys = []
        for value in (old, new):
            try:
                keys.append(ItemKey.parse(value if isinstance(value, str) else ""))
            except ParameterError as error:
                faults.append(Fault(str(error), path, line))
        if len(keys) == 2:
            renames[keys[0]] = keys[1]
    raise_faults(faults, subject="renames")
    return renames


def check_renames(
    renames: Mapping[ItemKey, ItemKey],
    old: Catalog,
    new: Catalog,
    *,
    dropped: Collection[str] = (),
    file: Path | None = None,
) -> None:
    """Check that the old and the new items of renames exist.

    Args:
        renames: old to new identity.
        old, new: the catalogs.
        dropped: ids of items that are not in the old one because an earlier rebase dropped their labels.
        file: that the renames were read from, for the lines of faults.

    Raises:
        InputError: all such renames.
    """
    faults: list[Fault] = []
    lines = {} if file is None else load_yaml(file)[1]
    for before, after in renames.items():
        known_faults = len(faults)
        for key, catalog, noun in ((before, old, "the dataset"), (after, new, "the new catalog")):
            if catalog.find(key) is None:
                suggestion = suggest_items(key.id, catalog.ids)
                if catalog is old and key.id in dropped:
                    suggestion = _DROPPED
                faults.append(
                    Fault(
                        f"rename {before.id} to {after.id}: {noun} holds no {key.id!r}{suggestion}",
                        file,
                        line_of(lines, (before.id,)),
                    )
                )
        if old.find(after) is not None and after not in renames and len(faults) == known_faults:
            problem = (
                f"rename {before.id} to {after.id}: the dataset holds {after.id!r} as well, so that two items would "
            )
            faults.append(
                Fault(
                    f"{problem}become one; rename that one, too, or leave this one out",
                    file,
                    line_of(lines, (before.id,)),
                )
            )
    first: dict[ItemKey, ItemKey] = {}
    for before, after in renames.items():
        previous = first.setdefault(after, before)
        if previous != before:
            problem = f"{previous.id} and {before.id} are both renamed to {after.id}; two cannot become one"
            faults.append(Fault(problem, file, line_of(lines, (before.id,))))
    raise_faults(faults, subject="renames")


def propose_renames(
    gone: Iterable[Item], added: Iterable[Item]
) -> tuple[tuple[Rename, ...], tuple[AmbiguousRename, ...]]:
    """Pair items that are gone with new ones of the same type and the same description, text and schema.

    An item without any of the three is never paired. Among several new ones with the same content, the one of the
    same name is taken if there is just one; else the rename is ambiguous. So it is where several that are gone have the
    same content and the names do not tell them apart.

    Returns:
        The pairs and the ambiguous renames, in the order of `gone`.
    """
    added_by_content = group_pairs((item_content(item), item) for item in added)
    gone_by_content = group_pairs((item_content(item), item) for item in gone)
    renames, ambiguous = [], []
    for content, olds in gone_by_content.items():
        news = list(added_by_content.get(content, ())) if content else []
        unpaired = []
        for old in olds:
            same_name = [new for new in news if new.name == old.name]
            rivals = sum(item.name == old.name for item in olds)
            if len(same_name) == 1 and rivals == 1:
                renames.append(Rename(old.key, same_name[0].key, "same content on another server"))
                news.remove(same_name[0])
            else:
                unpaired.append(old)
        if len(unpaired) == 1 and len(news) == 1:
            renames.append(Rename(unpaired[0].key, news[0].key, "same content under another name"))
        elif news:
            ambiguous += [AmbiguousRename(old.key, tuple(new.key for new in news)) for old in unpaired]
    positions = {item.key: i for i, item in enumerate(item for olds in gone_by_content.values() for item in olds)}
    return tuple(sorted(renames, key=lambda r: positions[r.old])), tuple(
        sorted(ambiguous, key=lambda a: positions[a.old])
    )


def item_content(item: Item) -> str:
    """Type, description, text and schema as text; empty if the item has only a name."""
    parts: list[Any] = [item.description, item.text, item.schema]
    return dump_json([item.type, *parts]) if any(parts) else ""
