"""Replay the threads of datasets/threads against the service and its cache, by a clock of its own.

Each turn is previewed and built, one in ten is built again, and between a preview and its build one in three sees a
write that the request depends on: a message, a file, a reference or feedback. What the cache answers is compared with
what a service without one builds, and beside it stands the cache of document 002, whose key is the thread alone.

    python experiments/assembly/replay.py
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ctxbench.cli.common import run_script
from ctxbench.datasets.files import read_dataset
from ctxbench.io.console import say
from ctxbench.io.rows import instant
from ctxbench.memory.engine import ContextCache
from ctxbench.memory.memories import Event, Memory
from ctxbench.memory.service import ContextService, ServedContext
from ctxbench.memory.sqlite_store import SqliteStore
from ctxbench.model.items import Item
from ctxbench.model.requests import Request

THREADS = Path(__file__).parents[2] / "datasets" / "threads"
SLIDING = 30.0  # seconds from the last use, of both caches
RETRIED, WRITTEN = 0.1, 1 / 3
WRITES = ("message", "file", "reference", "feedback")
WORKSPACE = "threads"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a replay counted.

    Attributes:
        asked: previews, builds and builds again.
        unchanged, unchanged_hits: builds since whose preview or build nothing was written, and those from the cache.
        written, written_misses: builds before which something was written, and those made anew.
        hits: answers from the cache, of `asked`.
        wrong: answers from the cache that are not what is built without one.
        document_hits, document_wrong: the same of a cache by thread alone.
    """

    asked: int
    unchanged: int
    unchanged_hits: int
    written: int
    written_misses: int
    hits: int
    wrong: int
    document_hits: int
    document_wrong: int


class _Replay:
    """The store, the two services, and the document's cache, at one moment."""

    def __init__(self, seed: int) -> None:
        self.dice, self.now, self.counts = random.Random(seed), 0.0, Counter[str]()  # noqa: S311 - no secret
        self.store = SqliteStore(":memory:")
        self.store.create_workspace(WORKSPACE)
        self.document: dict[str | None, tuple[float, dict[str, Any]]] = {}  # by thread: last use, answer
        self.said = 0

    def open(self) -> None:
        """Make the services over what is stored; the first request indexes it, without a limit of time."""
        given: dict[str, Any] = {"selector": "assembly", "embedder": "hashing", "counter": "chars/4"}
        cached = ContextCache(seconds=SLIDING, clock=lambda: self.now)
        self.service = ContextService(self.store, WORKSPACE, cache=cached, **given)
        self.uncached = ContextService(self.store, WORKSPACE, cache=ContextCache(0), **given)
        for one in (self.service, self.uncached):
            one.build("Which file is it?", time="2026-01-01")

    @property
    def time(self) -> str:
        """Now, as a text."""
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now)).isoformat()

    def turn(self, request: Request) -> None:
        """Preview, perhaps write, build, and perhaps build again."""
        self.now = max(self.now + 1, instant(str(request.time)) / 1e6)
        self.happened(request)
        self.ask(request, preview=True)
        written = self.dice.random() < WRITTEN
        self.now += self.dice.uniform(1, 20)
        if written:
            self.write(request)
        self.told(self.ask(request), written=written)
        if self.dice.random() < RETRIED:
            self.now += self.dice.uniform(1, 20)
            self.told(self.ask(request), written=False)

    def told(self, context: ServedContext, *, written: bool) -> None:
        """Count a build by what came before it."""
        if written:
            self.counts.update(written=1, written_misses=not context.kept)
        else:
            self.counts.update(unchanged=1, unchanged_hits=context.kept)

    def ask(self, request: Request, *, preview: bool = False) -> ServedContext:
        """One answer, compared with one that is made anew."""
        call = self.service.preview if preview else self.service.build
        given: dict[str, Any] = {"thread": request.conversation, "user": request.user}
        context = call(request.text, time=self.time, **given)
        anew = self.uncached.build(request.text, time=context.request.time, **given).as_dict()["data"]
        self.counts.update(asked=1, hits=context.kept, wrong=context.as_dict()["data"] != anew)
        used, answer = self.document.get(request.conversation, (-SLIDING, anew))
        if self.now - used < SLIDING:
            self.counts.update(document_hits=1, document_wrong={**answer, "id": ""} != {**anew, "id": ""})
        else:
            answer = anew
        self.document[request.conversation] = self.now, answer
        return context

    def happened(self, request: Request) -> None:
        """Note what the thread refers to by now, and which file was opened last."""
        told: dict[str, Any] = {"workspace": WORKSPACE, "user": request.user, "conversation": request.conversation}
        for key in request.explicit:
            self.store.record(Event(kind="reference", id=key.name, at=self.time, **told))
        for key in request.recent[:1]:
            self.store.record(Event(kind="access", id=key.name, at=self.time, **told))

    def write(self, request: Request) -> None:
        """Write something that the request depends on."""
        self.said += 1
        kind = self.dice.choice(WRITES)
        given: dict[str, Any] = {"workspace": WORKSPACE, "user": request.user, "conversation": request.conversation}
        if kind in ("message", "file"):
            said = f"{request.text} (said again)"
            new = Memory(id=f"said-{self.said}", content=said, type=kind, kind="user", created=self.time, **given)
            self.store.insert(new)
            return
        names = [item.name.rpartition("@")[0] for item in self.store.catalog(WORKSPACE) if item.user is None]
        useful = True if kind == "feedback" else None
        self.store.record(Event(kind=kind, id=self.dice.choice(names), at=self.time, useful=useful, **given))


def kept_memory(item: Item) -> Memory:
    """A file or message of the dataset as a store keeps it."""
    given: dict[str, Any] = {name: getattr(item, name) for name in ("type", "user", "conversation", "created")}
    return Memory(id=item.name, workspace=WORKSPACE, content=item.text, kind=item.kind or "file", **given)


def replayed(threads: int | None = None, *, seed: int = 21) -> Figures:
    """Replay the requests of the first threads, or of all, in the order of their times.

    Args:
        threads: how many; None = all.
        seed: of what is drawn: writes, retries, and seconds between.
    """
    dataset, replay = read_dataset(THREADS), _Replay(seed)
    names = sorted({str(query.request.conversation) for query in dataset.queries})[:threads]
    replay.store.insert_many(kept_memory(item) for item in dataset.catalog if item.type == "file")
    replay.open()
    asked = [query.request for query in dataset.queries if query.request.conversation in names]
    to_come = sorted(
        (item for item in dataset.catalog if item.type == "message" and item.conversation in names),
        key=lambda item: instant(str(item.created)),
        reverse=True,
    )
    for request in sorted(asked, key=lambda one: instant(str(one.time))):
        while to_come and instant(str(to_come[-1].created)) <= instant(str(request.time)):
            replay.store.insert(kept_memory(to_come.pop()))
        replay.turn(request)
    return Figures(**{one.name: replay.counts[one.name] for one in fields(Figures)})


def main() -> None:
    """Print the figures."""
    found = replayed()
    for one in fields(found):
        say(f"{one.name}: {getattr(found, one.name)}")
    say(f"hit rate {found.hits / found.asked:.0%}, by thread alone {found.document_hits / found.asked:.0%}")
    say("document 002 says 30%")


if __name__ == "__main__":
    run_script(main)
