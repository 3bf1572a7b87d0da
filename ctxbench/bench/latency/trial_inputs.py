"""What a trial is given: a catalog of any size, made from another one the same each time, requests, and the job."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, ParameterError, check_range, raise_faults
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.requests import Message, Request, SessionItem
from ctxbench.io.files import write_atomic
from ctxbench.io.json_files import dump_json, dump_jsonl, iter_jsonl, read_json

_PARTS = re.compile(r"(\s+)")


def grown(catalog: Catalog, size: int) -> Catalog:
    """Return a catalog of `size` items.

    The first items are the catalog's own, in order. Past its size come variations: position p is made from item
    p mod n and, in round k = p div n, the item k places further. The name gets the suffix `_v<k>` (with more
    underscores where that name is taken), and every second word of description and text is one of the other item's.
    So identities are unique, search texts differ, lengths and word statistics stay close to the real ones, and the
    vectors spread. Nothing is random.

    Args:
        catalog: at least one item.
        size: items wanted, >= 1.

    Raises:
        ParameterError: the catalog is empty, or `size` is below 1.
    """
    if not len(catalog):
        raise ParameterError("the catalog is empty; latency needs at least one item")
    check_range("a catalog's size", size, 1)
    items = list(catalog[:size])
    taken = {item.key for item in catalog}
    n = len(catalog)
    for position in range(n, size):
        turn = position // n
        item = _variation(catalog[position % n], catalog[(position + turn) % n], turn, taken)
        taken.add(item.key)
        items.append(item)
    return Catalog(items)


def requests_like(catalog: Catalog, n: int = 101) -> tuple[Request, ...]:
    """Make requests for a catalog that comes without any: descriptions of its items, spread over the catalog.

    Their lengths and words are a catalog's and not a user's, so times are good for a first look. Texts differ; there
    are at most as many as there are different descriptions (an item without one lends its name).

    Args:
        catalog: may be empty, which gives none.
        n: requests wanted at most, >= 0.
    """
    texts = list(dict.fromkeys(item.description or item.name for item in catalog))
    n = min(n, len(texts))
    return tuple(Request(id=f"like-{place}", text=texts[place * len(texts) // n]) for place in range(n))


def _variation(item: Item, other: Item, turn: int, taken: set[ItemKey]) -> Item:
    name = f"{item.name}_v{turn}"
    while item.key._replace(name=name) in taken:
        name = name.replace(f"_v{turn}", f"__v{turn}")
    words = f"{other.description} {other.text}".split()
    return replace(
        item, name=name, title="", description=_mixed(item.description, words), text=_mixed(item.text, words)
    )


def _mixed(text: str, words: Sequence[str]) -> str:
    """Put `words`, over and over, in the place of every second word of `text`; what parts the words stays."""
    if not words:
        return text
    parts = _PARTS.split(text)
    for number, place in enumerate(range(2, len(parts), 4)):
        if parts[place]:
            parts[place] = words[number % len(words)]
    return "".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One trial.

    Attributes:
        job: `cold` (the first request on an empty store), `restart` (the first request, items stored) or `warm`
            (the first request, then all others twice).
        pipeline: specification, as `Pipeline.of` reads it.
        embedder, tokens: names, as `open_embedder` and `open_counter` read them.
        items: file of items, one a line.
        store: folder of the vector store.
        first: the request that is asked first.
        others: the requests of the warm passes; empty for the other jobs.
    """

    job: str
    pipeline: Mapping[str, Any]
    embedder: str
    tokens: str
    items: str
    store: str
    first: Mapping[str, Any]
    others: Sequence[Mapping[str, Any]] = ()

    def write(self, path: Path) -> None:
        """Write the job as JSON."""
        write_atomic(path, dump_json(dataclasses.asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Job:
        """Read it back.

        Raises:
            StorageError, InputError: the file is missing or not JSON.
        """
        return cls(**read_json(path))


def write_items(catalog: Catalog, path: Path) -> None:
    """Write a catalog as JSON lines, every field that is not its default."""
    rows = ({**item.as_row(), "title": item.title} for item in catalog)
    write_atomic(path, dump_jsonl({key: value for key, value in row.items() if key != "_id"} for row in rows))


def read_items(path: Path) -> Catalog:
    """Read it back, with the same hash.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: a line is no JSON.
    """
    faults: list[Fault] = []
    items = [Item(**row) for _, row in iter_jsonl(path, faults)]
    raise_faults(faults)
    return Catalog(items)


def read_request(row: Mapping[str, Any]) -> Request:
    """Make the request that `Request.as_dict` wrote, but for its `available` items: a job's requests have none."""
    session = row.get("session")
    return Request(
        id=row["id"],
        text=row["text"],
        history=tuple(Message(**message) for message in row.get("history", ())),
        session=None if session is None else tuple(SessionItem(ItemKey.parse(s["id"]), s["mode"]) for s in session),
        removed=tuple(ItemKey.parse(key) for key in row.get("removed", ())),
        explicit=tuple(ItemKey.parse(key) for key in row.get("explicit", ())),
        recent=tuple(ItemKey.parse(key) for key in row.get("recent", ())),
        uses=tuple((ItemKey.parse(key), count) for key, count in row.get("uses", {}).items()),
        tool_results=tuple((result["tool"], result["text"]) for result in row.get("tool_results", ())),
        **{name: row.get(name) for name in ("user", "workspace", "conversation", "turn", "time")},
    )
