"""What a child process is asked to measure, as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, raise_faults
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.requests import Message, Request, SessionItem
from ctxbench.io.files import write_atomic
from ctxbench.io.json_files import dump_json, dump_jsonl, iter_jsonl, read_json


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
        tool_results=tuple((result["tool"], result["text"]) for result in row.get("tool_results", ())),
        **{name: row.get(name) for name in ("user", "workspace", "conversation", "turn", "time")},
    )
