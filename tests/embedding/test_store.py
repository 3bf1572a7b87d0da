"""Vectors on disk: whole batches or none, one embedder's only, several processes, places that cannot be written."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading

import numpy as np
import pytest

from ctxbench.embedding import store as store_module
from ctxbench.embedding.base import EmbedderIdentity
from ctxbench.embedding.store import VectorStore, text_hash
from ctxbench.errors import StorageError
from tests.children import child

IDENTITY = EmbedderIdentity("model", "1", "test", "float32", 4)


def _axes(*numbers):
    return np.eye(4, dtype=np.float32)[list(numbers)]


@pytest.fixture
def store(tmp_path):
    store = VectorStore(IDENTITY, tmp_path)
    yield store
    store.close()


def test_what_was_added_is_found_by_text(store):
    store.add(["a", "b"], _axes(0, 1))
    found, vectors = store.look_up(["b", "?", "a", "b"])
    assert found.tolist() == [True, False, True, True]
    np.testing.assert_array_equal(vectors, [[0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
    assert len(store) == 2


def test_it_is_there_for_the_next_process(store, tmp_path):
    row = np.array([[0.1, 0.2, 0.3, 0]], dtype=np.float32)
    row /= np.linalg.norm(row)
    store.add(["a"], row)
    assert VectorStore(IDENTITY, tmp_path).look_up(["a"])[1].tobytes() == row.tobytes()


def test_leaving_a_with_block_closes_the_file_and_the_next_use_opens_it(tmp_path):
    with VectorStore(IDENTITY, tmp_path) as store:
        store.add(["a"], _axes(0))
    assert store._connection is None
    assert store.look_up(["a"])[0].all()


def test_nothing_asked_nothing_found(store):
    found, vectors = store.look_up([])
    assert (found.shape, vectors.shape) == ((0,), (0, 4))


def test_the_default_place_is_the_cache(cache):
    assert VectorStore(IDENTITY).path == cache / "vectors" / IDENTITY.key / "vectors.sqlite"


def test_nothing_is_opened_before_it_is_used(tmp_path):
    VectorStore(IDENTITY, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_text_that_is_there_stays(store):
    store.add(["a"], _axes(0))
    store.add(["a", "b"], _axes(1, 2))
    np.testing.assert_array_equal(store.look_up(["a", "b"])[1], _axes(0, 2))


@pytest.mark.parametrize("text", ["", "\x00", "\ud800", "\U0001f600", "x" * 100_000])
def test_any_string_is_a_key(store, text):
    store.add([text], _axes(3))
    assert store.look_up([text])[0].tolist() == [True]


def test_hashes_are_sha256_of_utf8():
    # coreutils: printf 'é' | sha256sum, and the same for the bytes ed a0 80
    assert text_hash("é").hex() == "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"
    assert (
        text_hash("\ud800").hex()
        == subprocess.run(["sha256sum"], input=b"\xed\xa0\x80", capture_output=True, check=True, timeout=120)
        .stdout.decode()
        .split()[0]
    )


def test_ten_thousand_texts_in_one_call(store):
    texts = [f"text {number}" for number in range(10_000)]
    store.add(texts, _axes(*(number % 4 for number in range(10_000))))
    found, vectors = store.look_up(texts[::-1])
    assert found.all()
    np.testing.assert_array_equal(vectors, _axes(*(number % 4 for number in range(9_999, -1, -1))))


@pytest.mark.parametrize(
    "vectors", [_axes(0, 1), np.ones((1, 3)), np.full((1, 4), np.nan), np.full((1, 4), np.inf), np.ones((1, 4))]
)
def test_vectors_that_are_none_are_never_stored(store, vectors):
    with pytest.raises(ValueError, match=r"expected shape|finite and of unit length"):
        store.add(["a"], vectors.astype(np.float32))
    assert len(store) == 0


# ---- whose vectors


@pytest.mark.parametrize(
    "change", [{"model": "m2"}, {"revision": "2"}, {"backend": "b"}, {"quantisation": "int8"}, {"dimensions": 5}]
)
def test_another_embedder_has_another_file(store, tmp_path, change):
    store.add(["a"], _axes(0))
    assert not VectorStore(dataclasses.replace(IDENTITY, **change), tmp_path).look_up(["a"])[0].any()


def test_a_file_of_another_embedder_is_refused(store, tmp_path):
    store.add(["a"], _axes(0))
    store.close()
    other = VectorStore(dataclasses.replace(IDENTITY, revision="2"), tmp_path)
    other.path.parent.mkdir(parents=True)
    store.path.rename(other.path)
    with pytest.raises(StorageError, match="holds other vectors than expected") as caught:
        other.look_up(["a"])
    assert str(other.path) in str(caught.value)
    assert "delete it" in str(caught.value)


# ---- damage


def test_a_file_that_is_no_database(store):
    store.path.parent.mkdir(parents=True)
    store.path.write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(StorageError, match=r"is damaged.*Delete it") as caught:
        store.look_up(["a"])
    assert str(store.path) in str(caught.value)


def test_a_file_that_lost_its_end(store):
    store.add([f"text {number}" for number in range(3000)], _axes(*[0] * 3000))
    store.close()
    with store.path.open("r+b") as file:
        file.truncate(store.path.stat().st_size // 2)
    with pytest.raises(StorageError, match=r"is damaged.*Delete it"):
        store.look_up([f"text {number}" for number in range(3000)])


@pytest.mark.parametrize(
    ("blob", "why"),
    [(b"", "wrong length"), (b"\0" * 12, "wrong length"), (b"\0" * 16, "unit length"), (b"\xff" * 16, "not finite")],
)
def test_a_vector_that_cannot_be_one(store, blob, why):
    store.add(["a"], _axes(0))
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE vectors SET vector = ?", (blob,))
    connection.close()
    with pytest.raises(StorageError, match=f"is damaged.*{why}.*Delete it"):
        store.look_up(["a"])


# ---- places


def test_a_read_only_place_can_be_read(store, tmp_path, monkeypatch):
    store.add(["a"], _axes(0))
    store.close()
    before = store.path.read_bytes()
    monkeypatch.setattr(store_module.os, "access", lambda place, mode: False)
    reader = VectorStore(IDENTITY, tmp_path)
    assert reader.look_up(["a", "b"])[0].tolist() == [True, False]
    assert not reader.writable
    with pytest.raises(StorageError, match="cannot be written"):
        reader.add(["b"], _axes(1))
    assert sorted(path.name for path in store.path.parent.iterdir()) == ["vectors.sqlite"]
    assert store.path.read_bytes() == before
    reader.close()


def test_a_read_only_place_without_a_file_is_empty(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module.os, "access", lambda place, mode: False)
    reader = VectorStore(IDENTITY, tmp_path)
    assert reader.look_up(["a"])[0].tolist() == [False]
    assert not reader.writable
    assert not reader.path.exists()
    reader.close()


_AS_NOBODY = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[2].split(os.pathsep)
import numpy, sqlite3, hashlib  # before the rights are given up: this interpreter may stand in a private folder
from ctxbench.embedding.base import EmbedderIdentity
from ctxbench.embedding.store import VectorStore
os.setuid(65534)
store = VectorStore(EmbedderIdentity("model", "1", "test", "float32", 4), Path(sys.argv[1]))
print(store.look_up(["a", "b"])[0].tolist(), store.writable)
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("file_mode", [0o444, 0o666])
def test_another_user_can_read_where_he_may_not_write(store, tmp_path, file_mode):
    store.add(["a"], _axes(0))
    store.close()
    store.path.chmod(file_mode)
    store.path.parent.chmod(0o555)
    for folder in (tmp_path, *list(tmp_path.parents)[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    shown = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, str(tmp_path), os.pathsep.join(sys.path)],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert shown.stdout.split("\n")[0] == "[True, False] False"


@pytest.mark.parametrize("tables", ["", "CREATE TABLE other (name TEXT)"])
def test_a_read_only_file_without_tables_is_empty(tmp_path, monkeypatch, tables):
    path = VectorStore(IDENTITY, tmp_path).path
    path.parent.mkdir(parents=True)
    path.touch()  # as left by a process that was killed while it made the store
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(tables)
    monkeypatch.setattr(store_module.os, "access", lambda place, mode: False)
    with VectorStore(IDENTITY, tmp_path) as reader:
        assert reader.look_up(["a"])[0].tolist() == [False]
        assert (len(reader), reader.writable) == (0, False)


def test_a_read_only_file_that_a_killed_process_left_half_changed_says_what_to_do(store, tmp_path, monkeypatch):
    with child(
        [sys.executable, "-c", _HALF_A_BATCH, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"now\n"
        process.kill()
    with monkeypatch.context() as read_only, VectorStore(IDENTITY, tmp_path) as reader:
        read_only.setattr(store_module.os, "access", lambda place, mode: False)
        with pytest.raises(StorageError, match=r"half a batch.*Open it once where it can be written") as caught:
            reader.look_up(["whole"])
        assert str(store.path) in str(caught.value)
    assert len(store) == 1  # opened where it can be written
    monkeypatch.setattr(store_module.os, "access", lambda place, mode: False)
    with VectorStore(IDENTITY, tmp_path) as reader:
        assert reader.look_up(["whole"])[0].all()


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"the folder .* for vectors cannot be made"):
        VectorStore(IDENTITY, tmp_path / "file").look_up(["a"])


def test_a_folder_in_place_of_the_file(store):
    store.path.mkdir(parents=True)
    with pytest.raises(StorageError, match=r"could not be opened.*CTXBENCH_CACHE"):
        store.look_up(["a"])


def test_a_full_disk_stores_nothing_of_the_batch(store):
    store.add(["a"], _axes(0))
    connection = store._open()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    texts = [f"text {number}" for number in range(5000)]
    with pytest.raises(StorageError, match=r"no room for vectors in .*Free some and run again"):
        store.add(texts, _axes(*[1] * 5000))
    assert len(store) == 1
    connection.execute("PRAGMA max_page_count = 1000000")
    store.add(texts, _axes(*[1] * 5000))
    assert len(store) == 5001


def test_another_process_that_does_not_let_go_is_named(store, monkeypatch):
    monkeypatch.setattr(store_module, "_BUSY_SECONDS", 0.05)
    store.add(["a"], _axes(0))
    blocker = sqlite3.connect(store.path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(StorageError, match="kept locked by another process"):
            store.add(["b"], _axes(1))
        assert store.look_up(["a"])[0].tolist() == [True]  # reading goes on
    finally:
        blocker.execute("ROLLBACK")
        blocker.close()


# ---- several processes


def _write(root, first):
    store = VectorStore(IDENTITY, root)
    for number in range(first, first + 20):
        store.add([f"text {number}"], _axes(number % 4))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # forking, from 3.12
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_take_turns(store, tmp_path, method):
    if method == "fork":
        store.add(["before"], _axes(0))  # the children inherit an open connection and must not use it
    context = multiprocessing.get_context(method)
    workers = [context.Process(target=_write, args=(tmp_path, first)) for first in (0, 10, 20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    texts = [f"text {number}" for number in range(40)]
    found, vectors = store.look_up(texts)
    assert found.all()
    np.testing.assert_array_equal(vectors, _axes(*(number % 4 for number in range(40))))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # forking, from 3.12
def test_a_store_inherited_by_a_fork_opens_its_own_connection(store):
    store.add(["a"], _axes(0))
    child = os.fork()
    if child == 0:
        try:
            ok = store.look_up(["a"])[0].all()
            store.add(["b"], _axes(1))
        finally:
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.add(["c"], _axes(2))
    assert store.look_up(["a", "b", "c"])[0].all()


_HALF_A_BATCH = """
import os, sys
from pathlib import Path
import numpy as np
from ctxbench.embedding import store as module
from ctxbench.embedding.base import EmbedderIdentity
store = module.VectorStore(EmbedderIdentity("model", "1", "test", "float32", 4), Path(sys.argv[1]))
store.add(["whole"], np.eye(4, dtype=np.float32)[:1])
connection = store._open()
connection.execute("PRAGMA cache_size = 1")  # changed pages reach the file before the end
connection.execute("BEGIN IMMEDIATE")
rows = [(bytes([number % 256, number // 256]), b"x" * 16) for number in range(5000)]
connection.executemany("INSERT INTO vectors VALUES (?, ?)", rows)
print("now", flush=True)
sys.stdin.read()
"""


def test_a_process_killed_inside_a_transaction_leaves_the_one_before(store, tmp_path):
    with child(
        [sys.executable, "-c", _HALF_A_BATCH, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"now\n"
        process.kill()
    assert (store.path.parent / "vectors.sqlite-journal").stat().st_size > 0  # the file is half changed
    assert len(store) == 1
    assert store.look_up(["whole"])[0].all()


def test_a_store_serves_other_threads_than_the_one_that_opened_it(store):
    store.add(["a"], _axes(0))
    seen = []
    thread = threading.Thread(target=lambda: seen.append(store.look_up(["a"])[0].all()))
    thread.start()
    thread.join(timeout=60)
    assert seen == [True]
