"""Both stores hold what stores must, and the suite finds a store that does not."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

import pytest

from ctxbench.io.errors import InputError, ParameterError
from ctxbench.memory.memories import Event
from ctxbench.memory.sqlite_store import SqliteStore
from ctxbench.testing import ConformanceError, check_store
from tests.memory.dict_store import DictStore
from tests.memory.store_cases import memory

ROOT = Path(__file__).parents[2]


def test_the_lines_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "experiments" / "guide" / "memory.md").read_text("utf-8").split("\n## Stores\n")[1]
    (lines,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(lines, {})
    with SqliteStore("acme.db") as store:
        request = store.request("acme", "who?", user="ann", conversation="t1")
    assert [key.name for key in (*request.explicit, *request.recent)] == ["src/pay.py@1"] * 2


@pytest.mark.parametrize("make", [DictStore, lambda: SqliteStore(":memory:")])
def test_a_store_in_a_process_conforms(make):
    check_store(make)


def test_a_store_in_memory_is_no_file_and_is_whole_in_a_fork(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(":memory:")
    store.create_workspace("w")
    assert not list(tmp_path.iterdir())
    child = os.fork()
    if not child:
        os._exit(store.workspaces() != ("w",))
    assert os.waitpid(child, 0)[1] == 0


def test_the_store_in_a_file_conforms(tmp_path):
    number = itertools.count()
    check_store(lambda: SqliteStore(tmp_path / f"{next(number)}.sqlite"))


class Forgetful(DictStore):
    def get(self, workspace, id, *, at=None):  # noqa: A002
        return super().get(workspace, id)


class Open(DictStore):
    def relationships(self, workspace, id):  # noqa: A002
        return ()


class Failing(DictStore):
    def revision(self, workspace):
        raise OSError("away")


@pytest.mark.parametrize(
    ("store", "found"),
    [
        (Forgetful, "the old version's end: expected '2026-03-02"),
        (Open, "relationships: expected (Relationship("),
        (Failing, "grown: OSError: away"),
    ],
)
def test_a_store_that_does_not_conform_is_told(store, found):
    with pytest.raises(ConformanceError) as caught:
        check_store(store)
    assert any(fault.startswith(found) for fault in caught.value.faults), caught.value


@pytest.mark.parametrize("kind", [list, dict])
def test_metadata_that_nests_over_64_deep_is_refused_wherever_it_is_written(tmp_path, kind):
    def nested(depth):
        value = "text"
        for _ in range(depth - 1):
            value = [value] if kind is list else {"k": value}
        return {"k": value}

    circle = {}
    circle["k"] = [circle, circle]
    for store in (DictStore(), SqliteStore(tmp_path / "memories.sqlite")):
        store.create_workspace("w")
        store.insert(memory("a", metadata=nested(64)))
        assert store.get("w", "a").metadata == nested(64)
        for metadata in (nested(65), nested(900), nested(100_000), circle):
            for write in (
                lambda metadata: store.insert(memory("b", metadata=metadata)),  # noqa: B023
                lambda metadata: store.insert_many([memory("b", metadata=metadata)]),  # noqa: B023
                lambda metadata: store.update("w", "a", metadata=metadata),  # noqa: B023
                lambda metadata: store.record(Event(kind="access", workspace="w", id="a", metadata=metadata)),  # noqa: B023
            ):
                with pytest.raises((ParameterError, InputError), match="must have at most 64 levels"):
                    write(metadata)
        store.close()
