"""Several writers at once, and writers that are killed: nothing that was committed is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from ctxbench.io.errors import ParameterError, StorageError
from ctxbench.memory.sqlite_store import SqliteStore
from tests.children import child
from tests.draws import draws
from tests.memory.store_cases import OPEN, changed, memory

_WRITE = (
    OPEN
    + """
print("open", flush=True)
sys.stdin.readline()
for number in range(100):
    store.insert(Memory(id=f"{sys.argv[2]}-{number}", workspace="w", content="text"))
    store.update("w", f"{sys.argv[2]}-{number}", content="new text")
"""
)


def test_two_processes_that_make_and_write_a_store_at_once(tmp_path):
    path = tmp_path / "memories.sqlite"
    with ExitStack() as running:
        others = [
            running.enter_context(
                child([sys.executable, "-c", _WRITE, path, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            for name in ("one", "other", "third")
        ]
        for process in others:
            assert process.stdout.readline() == b"open\n"
        for process in others:
            process.stdin.write(b"go\n")
            process.stdin.flush()
    assert [process.returncode for process in others] == [0, 0, 0]
    with SqliteStore(path) as store:
        assert len(store.catalog("w")) == 600
        assert store.revision("w") == 600
    assert changed(path, "PRAGMA integrity_check", "PRAGMA foreign_key_check") == [[("ok",)], []]


@pytest.mark.parametrize("shared", [True, False], ids=["one store", "a store each"])
def test_threads_that_write_at_once(tmp_path, shared):
    path = tmp_path / "memories.sqlite"
    with SqliteStore(path) as first, ExitStack() as closing:
        first.create_workspace("w")
        stores = [first if shared else closing.enter_context(SqliteStore(path)) for _ in range(4)]

        def write(number):
            for place in range(50):
                stores[number].insert(memory(f"{number}-{place}"))
                stores[number].catalog("w")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        assert {len(store.catalog("w")) for store in stores} == {200}


def test_of_two_that_insert_the_same_id_one_is_refused(tmp_path):
    path = tmp_path / "memories.sqlite"
    start = threading.Barrier(4)
    with SqliteStore(path) as first:
        first.create_workspace("w")

    def write(number):
        with SqliteStore(path) as store:
            start.wait(timeout=60)
            try:
                return store.insert(memory("a", content=f"text {number}")).content
            except ParameterError as error:
                return str(error)

    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(write, range(4)))
    with SqliteStore(path) as store:
        assert [one for one in said if one.startswith("text")] == [store.get("w", "a").content]
    assert sum("has a memory with this id" in one for one in said) == 3


def test_an_import_that_another_gets_in_the_way_of_is_one_clear_error(tmp_path):
    path = tmp_path / "memories.sqlite"
    with SqliteStore(path) as store, SqliteStore(path) as other:
        store.create_workspace("w")

        def meanwhile(done, total):
            if done == 1000:
                other.insert(memory("m1500"))

        with pytest.raises(StorageError, match="another process or thread wrote the same row at the same time"):
            store.insert_many([memory(f"m{number}") for number in range(2500)], progress=meanwhile)
        assert len(store.catalog("w")) == 1001  # whole transactions


_KILLED = (
    OPEN
    + """
import itertools, random
dice = random.Random()
print("open", flush=True)
start = len(store.catalog("w"))
for turn in itertools.count():
    name = f"{start}-{turn}"
    store.insert_many([Memory(id=f"{name}-{n}", workspace="w", content=f"text {n} " * 20) for n in range(9)])
    print("in", name, flush=True)
    store.update("w", f"{name}-0", content="new")
    print("new", f"{name}-0", flush=True)
    if dice.random() < 0.3:
        store.delete("w", f"{name}-1")
        print("out", f"{name}-1", flush=True)
"""
)


def _written_until_killed(path, seconds):
    """What a process said it had written before it was killed."""
    with child([sys.executable, "-c", _KILLED, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "open\n"
        time.sleep(seconds)
        process.kill()
        return [line.split() for line in process.stdout if line.endswith("\n")]


def test_kills_lose_nothing_that_was_committed(tmp_path):
    path, kills = tmp_path / "memories.sqlite", draws(50, 12)
    moments = random.Random(kills)
    names, newer, gone = set(), set(), set()
    for _ in range(kills):
        for what, name in _written_until_killed(path, moments.uniform(0.0, 0.2)):
            {"in": names, "new": newer, "out": gone}[what].add(name)
        assert changed(path, "PRAGMA integrity_check", "PRAGMA foreign_key_check") == [[("ok",)], []]
        with SqliteStore(path) as store:
            items = {item.name: item for item in store.catalog("w")}
        missing = [f"{name}-{n}@1" for name in names for n in range(9) if f"{name}-{n}@1" not in items]
        # what was being deleted when the kill came may be gone without having been said
        assert {name for name in missing if not name.endswith("-1@1")} == set()
        assert {f"{name}@1" for name in gone} <= set(missing)
        assert all(items[f"{name}@2"].text == "new" and items[f"{name}@1"].until for name in newer)
        batches = {}
        for name in items:
            batches.setdefault(name.split("@")[0].rpartition("-")[0], set()).add(name.split("@")[0])
        assert all(len(batch) >= 8 for batch in batches.values())  # nine, less the deleted one: none half-written
    assert len(names) > kills
