"""Vectors on disk: found by text, one embedder's only, and only what was stored."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
import subprocess

import numpy as np
import pytest

from ctxbench.search.embedders import EmbedderIdentity, VectorStore, text_hash
from tests.children import LIMIT

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
    assert store._rows._connection is None
    assert store.look_up(["a"])[0].all()


def test_nothing_asked_nothing_found(store):
    found, vectors = store.look_up([])
    assert (found.shape, vectors.shape) == ((0,), (0, 4))


def test_the_default_place_is_the_cache(cache):
    assert VectorStore(IDENTITY).path == cache / "vectors" / IDENTITY.key / "vectors-2.sqlite"


def test_nothing_is_opened_before_it_is_used(tmp_path):
    VectorStore(IDENTITY, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_text_that_is_there_stays(store):
    store.add(["a"], _axes(0))
    store.add(["a", "b"], _axes(1, 2))
    np.testing.assert_array_equal(store.look_up(["a", "b"])[1], _axes(0, 2))


def test_a_text_that_is_forgotten_has_no_vector_any_more(store):
    store.add(["a", "b"], _axes(0, 1))
    store.forget(["a", "never there"])
    assert store.look_up(["a", "b"])[0].tolist() == [False, True]


@pytest.mark.parametrize("text", ["", "\x00", "\ud800", "\U0001f600", "x" * 100_000])
def test_any_string_is_a_key(store, text):
    store.add([text], _axes(3))
    assert store.look_up([text])[0].tolist() == [True]


def test_hashes_are_sha256_of_utf8():
    # coreutils: printf 'é' | sha256sum, and the same for the bytes ed a0 80
    assert text_hash("é").hex() == "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"
    assert (
        text_hash("\ud800").hex()
        == subprocess.run(["sha256sum"], input=b"\xed\xa0\x80", capture_output=True, check=True, timeout=LIMIT)
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


def test_vectors_of_another_embedder_are_not_given_out(store, tmp_path, caplog):
    store.add(["a"], _axes(0))
    store.close()
    other = VectorStore(dataclasses.replace(IDENTITY, revision="2"), tmp_path)
    other.path.parent.mkdir(parents=True)
    store.path.rename(other.path)
    assert not other.look_up(["a"])[0].any()
    assert "does not match its checksum" in caplog.text
    other.close()


# ---- damage


@pytest.mark.parametrize("value", [b"", b"\0" * 12, b"\0" * 16, b"\xff" * 16, _axes(1).tobytes(), "text", 3, 2.5])
def test_a_vector_that_is_not_what_was_stored_is_not_there(store, value, caplog):
    store.add(["a", "b"], _axes(0, 1))
    store.close()
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        connection.execute("UPDATE vectors SET value = ? WHERE key = ?", (value, text_hash("a")))
    found, vectors = store.look_up(["a", "b"])
    assert found.tolist() == [False, True]
    np.testing.assert_array_equal(vectors, [[0, 0, 0, 0], [0, 1, 0, 0]])
    assert [record.getMessage() for record in caplog.records] == [
        f"{store.path} does not match its checksum; its content is computed again"
    ]
    store.add(["a"], _axes(2))
    np.testing.assert_array_equal(store.look_up(["a", "b"])[1], _axes(2, 1))
    assert len(caplog.records) == 1


@pytest.mark.parametrize("columns", ["value", "value, checksum"])
def test_vectors_that_stand_under_other_texts_are_not_there(store, columns, caplog):
    texts = [f"text {number}" for number in range(8)]
    store.add(texts, _axes(*(number % 4 for number in range(8))))
    store.close()
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        rows = connection.execute(f"SELECT {columns} FROM vectors ORDER BY rowid").fetchall()
        put = ", ".join(f"{name} = ?" for name in columns.split(", "))
        for place, row in enumerate(rows):
            connection.execute(f"UPDATE vectors SET {put} WHERE rowid = ?", (*row, (place + 1) % 8 + 1))
    assert not store.look_up(texts)[0].any()
    assert "does not match its checksum" in caplog.text
    assert len(store) == 0
