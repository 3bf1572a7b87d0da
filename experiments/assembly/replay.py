"""Replays threads of messages against the cache of contexts, and prints what it hit and what was right.

In each turn the user's message is previewed and built, and one in ten is built again; between preview and build
somebody writes in one turn of three, and after each turn message and reply are stored. Every context is held against
one that is made without any cache. The same requests are put to the cache of document 002, whose key is the thread
alone.

    python experiments/assembly/replay.py --files 300 --threads 30 --turns 300
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import numpy as np

from ctxbench.core.requests import batch_key
from ctxbench.server.context_cache import ContextCache
from ctxbench.server.context_service import ContextService
from ctxbench.stores.events import Event
from ctxbench.stores.in_memory import DictStore
from ctxbench.stores.memories import Memory

PLACE, BEGIN, SECONDS = "replay", datetime(2026, 3, 1, 9, tzinfo=UTC), 30.0
WORDS = ["".join(parts) for parts in product(("ba", "ke", "lo", "mi", "su"), ("dor", "lin", "mar"), ("a", "en", "is"))]
USERS = ("ana", "ben", "eve")


@dataclass
class World:
    """A store that is written to, and the time, which nothing but the replay moves on."""

    draw: random.Random
    files: int
    length: int
    now: float = 0.0
    store: DictStore = field(default_factory=DictStore)
    made: int = 0

    def __post_init__(self) -> None:
        self.store.create_workspace(PLACE)
        self.store.insert_many([self.file() for _ in range(self.files)])

    def time(self) -> str:
        """Now, ISO 8601."""
        return (BEGIN + timedelta(seconds=self.now)).isoformat()

    def words(self, n: int) -> str:
        """A text of so many words."""
        return " ".join(self.draw.choices(WORDS, k=n))

    def file(self) -> Memory:
        """A new file of somebody, or of everybody; not stored yet."""
        self.made += 1
        name = f"docs/{self.words(1)}-{self.made}.md"
        content = self.words(max(self.length // 6, 1))
        user = self.draw.choice((*USERS, None, None))
        return Memory(id=name, workspace=PLACE, content=content, type="file", user=user, created=self.time())

    def message(self, thread: int, user: str, kind: str, text: str) -> None:
        """Store what was said in a thread."""
        self.made += 1
        given = {"user": user, "conversation": f"t{thread}", "created": self.time(), "type": "message", "kind": kind}
        self.store.insert(Memory(id=f"m{self.made}", workspace=PLACE, content=text, **given))

    def current_file(self) -> str:
        """A file that everybody sees."""
        files = (one for one in self.store.catalog(PLACE) if one.type == "file")
        return next(one.title for one in files if one.user is None and not one.until)

    def write(self, thread: int, user: str) -> None:
        """Somebody adds or changes a file that everybody sees, or this user opens or judges one, or says something."""
        what = self.draw.choice(("add", "change", "access", "feedback", "say"))
        row = self.file()
        if what in ("access", "feedback", "add"):
            self.store.insert(Memory(**{**_fields(row), "user": None}))
        if what == "change":
            self.store.update(PLACE, self.current_file(), content=row.content, at=self.time())
        elif what == "say":
            self.message(thread, user, "user", self.words(5))
        elif what != "add":
            useful = True if what == "feedback" else None
            self.store.record(Event(kind=what, workspace=PLACE, id=row.id, user=user, at=self.time(), useful=useful))


def _fields(row: Memory) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("id", "workspace", "content", "type", "created")}


class ThreadCache:
    """Document 002's cache: a thread's context, for half a minute from its last use."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[float, Any]] = {}

    def ask(self, thread: int, now: float, right: Any) -> tuple[bool, bool]:
        """Whether it has a context, and whether what it then answers is wrong; `right` is what it would make."""
        used, answer = self._kept.get(thread, (-SECONDS, None))
        hit = now - used < SECONDS
        self._kept[thread] = (now, answer if hit else right)
        return hit, hit and answer != right


def turns(args: argparse.Namespace, draw: random.Random) -> Iterator[tuple[int, str, bool, bool]]:
    """A thread, its user, whether somebody writes before the build, and whether it is built again."""
    for _ in range(args.turns):
        thread = draw.randrange(args.threads)
        yield thread, USERS[thread % len(USERS)], draw.random() < 1 / 3, draw.random() < 1 / 10


def replay(args: argparse.Namespace) -> Counter[str]:
    """Replay and print; returns what was counted."""
    draw = random.Random(args.seed)  # noqa: S311 - a drawn world
    world = World(draw, args.files, args.length)
    given: dict[str, Any] = {"selector": args.selector, "embedder": "hashing"}
    service = ContextService(world.store, PLACE, cache=ContextCache(clock=lambda: world.now), **given)
    fresh = ContextService(world.store, PLACE, cache=ContextCache(0), **given)
    documents, n = ThreadCache(), Counter[str]()
    seconds: dict[bool, list[float]] = {True: [], False: []}

    def ask(kind: str, thread: int, user: str, message: str) -> None:
        call = service.preview if kind == "preview" else service.build
        asked = {"thread": f"t{thread}", "user": user}
        begin = time.perf_counter()
        context = call(message, **asked, time=world.time())
        answer = context.as_dict()
        seconds[context.kept].append(time.perf_counter() - begin)
        made = fresh.build(message, **asked, time=f"{context.request.time}Z")
        right = made.as_dict()
        late = bool(context.outcome.trace or made.outcome.trace)  # on a busy machine; it says so
        n["late"] += late
        n[f"{kind}, asked"] += 1
        n[f"{kind}, hit"] += context.kept
        n["wrong"] += answer != right and not late
        hit, wrong = documents.ask(thread, world.now, right["data"]["items"])
        n["document, hit"] += hit
        n["document, wrong"] += wrong

    for one in (service, fresh):
        one.prepare()
    for thread, user, writes, again in turns(args, draw):
        message = world.words(6)
        ask("preview", thread, user, message)
        world.now += draw.uniform(1, 25)
        if writes:
            world.write(thread, user)
        world.now += draw.uniform(0, 4)
        ask("build after a write" if writes else "build after an unchanged preview", thread, user, message)
        if again:
            world.now += draw.uniform(1, 25)
            ask("retry", thread, user, message)
        world.message(thread, user, "user", message)
        world.message(thread, user, "assistant", world.words(20))
        world.now += draw.uniform(1, 60)
    _show(args, n, seconds)
    _hashes(world)
    return n


def _show(args: argparse.Namespace, n: Counter[str], seconds: dict[bool, list[float]]) -> None:
    kinds = ("preview", "build after an unchanged preview", "build after a write", "retry")
    asked = sum(n[f"{kind}, asked"] for kind in kinds)
    hits = sum(n[f"{kind}, hit"] for kind in kinds)
    lines = [
        f"{args.threads} threads, {args.turns} turns, {args.files:,} files, selector {args.selector}, seed {args.seed}"
    ]
    lines += ["", "| request | asked | hit |", "| --- | ---: | ---: |"]
    lines += [f"| {kind} | {n[f'{kind}, asked']} | {n[f'{kind}, hit']} |" for kind in kinds]
    lines += ["", "| cache | hit rate | wrong contexts |", "| --- | ---: | ---: |"]
    lines.append(f"| ours | {hits / asked:.1%} | {n['wrong']} of {asked} |")
    lines.append(
        f"| document 002's, by thread | {n['document, hit'] / asked:.1%} | {n['document, wrong']} of {asked} |"
    )
    lines.append("| document 002's aim | above 30% | |")
    lines += ["", "| answer | median ms | p95 ms |", "| --- | ---: | ---: |"]
    for name, kept in (("kept", True), ("made", False)):
        low, high = np.percentile(seconds[kept], [50, 95]) * 1000 if seconds[kept] else (np.nan, np.nan)
        lines.append(f"| {name} | {low:.1f} | {high:.1f} |")
    lines += ["", f"not compared, as a source was late: {n['late']} of {asked}"]
    sys.stdout.write("\n".join(lines) + "\n")


def _hashes(world: World) -> None:
    """What the key of a request costs after each sort of write."""
    for what in ("message", "change of a file"):
        taken = []
        for _ in range(5):
            world.now += 1
            if what == "message":
                world.message(0, "ana", "user", world.words(20))
            else:
                world.store.update(PLACE, world.current_file(), content=world.words(20), at=world.time())
            begin = time.perf_counter()
            catalog = world.store.catalog(PLACE)
            request = world.store.request(PLACE, "x", user="ana", conversation="t0", time=world.time())
            batch_key(catalog, [request])
            taken.append(time.perf_counter() - begin)
        sys.stdout.write(f"catalog and key after a {what}: {np.median(taken) * 1000:.1f} ms\n")


def arguments(*given: str) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"files": 300, "length": 1_500, "threads": 30, "turns": 300, "seed": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--selector", default="assembly")
    return parser.parse_args(given)


if __name__ == "__main__":
    replay(arguments(*sys.argv[1:]))
