"""Catalogs from files: `corpus.jsonl`, one item a line, alone or in the folder of a dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError, ParameterError, StorageError
from ctxbench.core.items import INCLUDE_MODES, Catalog, Item, ItemKey, Link
from ctxbench.io.cache import altered, cache_dir
from ctxbench.io.files import folder_fault, recover_folder
from ctxbench.io.json_files import iter_jsonl
from ctxbench.io.near_files import suggest_file
from ctxbench.io.rows import Row, read_key, read_text_value

CORPUS = "corpus.jsonl"
ITEM_FIELDS = (
    *("_id", "title", "text", "description", "type", "server", "name"),
    *("include", "enabled", "priority", "schema", "metadata"),
    *("workspace", "user", "conversation", "kind", "created", "until", "confidence", "links"),
)


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
    items = [item for _, item in read_items(path, faults) if item is not None]
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


def read_items(path: Path, faults: list[Fault]) -> list[tuple[int, Item | None]]:
    """Read the items of a corpus file with their 1-based lines; None where a line's item cannot be read.

    An empty file, a malformed line, a wrong field and an identity that occurs twice are added to `faults`, in order
    of lines.

    Raises:
        StorageError: the file is missing or cannot be read.
    """
    wrong: list[Fault] = []
    unreadable: list[Fault] = []
    first: dict[ItemKey, int] = {}
    items: list[tuple[int, Item | None]] = []
    for line, data in iter_jsonl(path, unreadable):
        item = read_item(Row(data, wrong, path, line))
        items.append((line, item))
        if item is not None and item.key in first:
            message = f"item {item.id!r} occurs twice, first in line {first[item.key]}; identities must differ"
            wrong.append(Fault(message, path, line))
        elif item is not None:
            first[item.key] = line
    items += [(fault.line, None) for fault in unreadable]
    if all(item is not None for _, item in items):  # else what a link leads to may stand in the row that is not read
        for line, item in items:
            for link in item.links if item is not None else ():
                if item is not None and link.item not in first:
                    message = f"item {item.id!r}: its link {link.type!r} leads to {link.item.id!r}, which is not there"
                    wrong.append(Fault(f"{message}; add that item, or drop the link", path, line))
    if not items:
        wrong.append(Fault("the file is empty; expected one item a line", path))
    faults += sorted([*wrong, *unreadable], key=lambda fault: fault.line)
    return items


def corpus_rows(catalog: Iterable[Item]) -> Iterator[dict[str, Any]]:
    """The items as rows of `corpus.jsonl`.

    As the text of a tool, which has none, stands its description: other readers of BEIR's layout search title and text.
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
    row.refuse_unknown(ITEM_FIELDS)
    item_id = row.take("_id", str, "", required=True)
    try:
        key = ItemKey.parse(item_id) if item_id else None
    except ParameterError as error:
        row.fault(f"field '_id': {error}")
        key = None
    if key is None:
        return None
    if key.id != item_id:
        row.fault(f"field '_id' is {item_id!r}; percent-encoded it must be {key.id!r}")
    for name, expected in key._asdict().items():
        value = row.optional(name, str)
        if value is not None and value != (expected or ""):
            row.fault(f"field {name!r} is {value!r}, but _id {item_id!r} says {expected!r}; they must agree")
    include = row.take("include", str, "agent")
    if include not in INCLUDE_MODES:
        row.fault(f"field 'include' must be one of {', '.join(INCLUDE_MODES)}, got {include!r}")
        include = "agent"
    title, text, description = (row.take(name, str, "") for name in ("title", "text", "description"))
    try:
        return Item(
            **key._asdict(),
            title="" if title == key.name else title,
            text="" if key.type == "tool" else text,  # its description once more, which an edit may have left behind
            description=description,
            include=include,
            enabled=row.take("enabled", bool, True),
            priority=row.optional("priority", int),
            schema=row.optional("schema", dict),
            metadata=row.take("metadata", dict, {}),
            workspace=row.optional("workspace", str),
            user=row.optional("user", str),
            conversation=row.optional("conversation", str),
            kind=row.optional("kind", str),
            created=row.optional("created", str),
            until=row.optional("until", str),
            confidence=row.number("confidence"),
            links=row.read_list("links", _link, expected='{"type", "item"}, a text and an item id'),
        )
    except ParameterError as error:
        row.fault(str(error))
        return None
