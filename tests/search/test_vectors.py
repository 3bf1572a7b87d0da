"""Vectors of texts: each made once, stored while they are made, and failures that name the text."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sqlite3

import numpy as np
import pytest

from ctxbench.io.errors import EmbeddingError, StorageError
from ctxbench.search import embedders as vectors_module
from ctxbench.search.embedders import EmbedderIdentity, HashingEmbedder, ModelError, Vectors, VectorStats, VectorStore
from ctxbench.search.minilm import MiniLM


class Recorder(HashingEmbedder):
    """A hashing embedder that keeps what it was asked and fails, or answers NaN, for chosen texts."""

    def __init__(self, *, fails_on=(), nan_for=(), reports=True):
        super().__init__(16)
        self.asked = []
        self.fails_on, self.nan_for, self.reports = fails_on, nan_for, reports

    def embed(self, texts, *, on_done=None):
        self.asked.append(list(texts))
        made = np.empty((len(texts), 16), dtype=np.float32)
        for position, text in enumerate(texts):
            if text in self.fails_on:
                raise RuntimeError("the model is confused")
            made[position] = np.nan if text in self.nan_for else super().embed([text])[0]
            if on_done is not None and self.reports:
                on_done(position, made[position])
        return made


class Miscounter(HashingEmbedder):
    """A hashing embedder that returns `more` rows than texts, after reporting as many as are said."""

    def __init__(self, more, *, reports=0):
        super().__init__(16)
        self.more, self.reports = more, reports

    def embed(self, texts, *, on_done=None):
        made = super().embed([*texts, "one more"])
        for position in range(min(self.reports, len(texts)) if on_done else 0):
            on_done(position, made[position])
        return made[: len(texts) + self.more]


@pytest.fixture
def store(tmp_path):
    store = VectorStore(Recorder().identity, tmp_path)
    yield store
    store.close()


def _numbered(count):
    return [f"text {number}" for number in range(count)]


def test_vectors_stand_in_the_order_of_the_texts(store):
    texts = ["b", "a", "b", "c", "a"]
    expected = HashingEmbedder(16).embed(texts)
    np.testing.assert_array_equal(Vectors(Recorder(), store).get(texts), expected)
    np.testing.assert_array_equal(Vectors(Recorder(), store).get(texts[::-1]), expected[::-1])


def test_a_text_is_embedded_once(store):
    embedder = Recorder()
    vectors = Vectors(embedder, store)
    vectors.get(["a", "b", "a"])
    vectors.get(["b", "c"])
    assert embedder.asked == [["a", "b"], ["c"]]
    assert vectors.stats == VectorStats(embedded=3, loaded=1)


@pytest.mark.parametrize("more", [-3, -1, 1])
def test_an_embedder_that_returns_another_number_of_vectors_is_refused(store, more):
    message = f"the embedder hashing returned {3 + more} vectors for 3 texts; it must return one for each"
    vectors = Vectors(Miscounter(more), store)
    with pytest.raises(ModelError, match=message):
        vectors.get(["a", "b", "c"])
    assert vectors.stats == VectorStats()
    assert len(store) == 0


def test_vectors_that_were_reported_before_a_wrong_number_is_returned_are_kept(store):
    with pytest.raises(ModelError, match="returned 2 vectors for 3 texts"):
        Vectors(Miscounter(-1, reports=2), store).get(["a", "b", "c"])
    assert store.look_up(["a", "b", "c"])[0].tolist() == [True, True, False]
    expected = HashingEmbedder(16).embed(["c", "d"])
    np.testing.assert_array_equal(Vectors(Miscounter(-2, reports=2), store).get(["c", "d"]), expected)


def test_the_next_run_embeds_nothing_and_asks_no_embedder(store):
    Vectors(Recorder(), store).get(["a", "b"])
    embedder = Recorder()
    again = Vectors(embedder, store)
    again.get(["b", "a", "a"])
    assert embedder.asked == []
    assert again.stats == VectorStats(embedded=0, loaded=2)
    assert again.stats.embedded == 0


def test_no_texts():
    vectors = Vectors(Recorder(), None)
    assert vectors.get([]).shape == (0, 16)
    assert vectors.stats.embedded == 0


def test_without_a_store_vectors_are_kept_in_memory():
    embedder = Recorder()
    vectors = Vectors(embedder, None)
    np.testing.assert_array_equal(vectors.get(["a"]), vectors.get(["a"]))
    assert embedder.asked == [["a"]]
    assert vectors.stats == VectorStats(embedded=1, loaded=1)


def test_the_caller_may_change_what_it_got():
    vectors = Vectors(Recorder(), None)
    vectors.get(["a"])[:] = 0
    np.testing.assert_array_equal(vectors.get(["a"]), HashingEmbedder(16).embed(["a"]))


def test_a_store_of_another_embedder_is_refused(store):
    with pytest.raises(ValueError, match="cannot hold vectors of"):
        Vectors(HashingEmbedder(32), store)


def test_the_identity_is_the_embedders(store):
    assert Vectors(Recorder(), store).identity == Recorder().identity


# ---- storing while it goes


def test_vectors_are_stored_every_64_texts(store):
    stored = []
    vectors = Vectors(Recorder(), store, progress=lambda done, total: stored.append((done, total, len(store))))
    vectors.get(_numbered(150))
    assert stored == [(64, 150, 64), (128, 150, 128), (150, 150, 150)]


def test_vectors_are_stored_every_second(store, monkeypatch):
    clock = iter(np.arange(0, 100, 0.4))  # each look at the clock is 0.4 s later
    monkeypatch.setattr(vectors_module.time, "monotonic", lambda: float(next(clock)))
    stored = []
    Vectors(Recorder(), store, progress=lambda done, total: stored.append(len(store))).get(_numbered(7))
    assert stored == [3, 6, 7]


def test_an_interrupted_call_keeps_what_was_made(store):
    class Interrupted(Recorder):
        def embed(self, texts, *, on_done=None):
            super().embed(texts[:10], on_done=on_done)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Vectors(Interrupted(), store).get(_numbered(20))
    assert len(store) == 10


def test_an_embedder_that_reports_nothing_is_stored_all_the_same(store):
    Vectors(Recorder(reports=False), store).get(_numbered(5))
    assert len(store) == 5


# ---- failures


def test_a_text_that_fails_is_named_and_the_others_are_kept(store):
    texts = [*_numbered(3), "bad " * 30, "after"]
    embedder = Recorder(fails_on={texts[3]})
    with pytest.raises(EmbeddingError) as caught:
        Vectors(embedder, store).get(texts)
    message = str(caught.value)
    assert message.startswith("text 'bad bad bad")
    assert "..., number 4 of 5 to embed, could not be embedded by hashing" in message
    assert message.endswith("RuntimeError: the model is confused")
    assert len(store) == 3
    fixed = Recorder()
    Vectors(fixed, store).get(texts)
    assert fixed.asked == [texts[3:]]


def test_a_failure_that_does_not_come_again_is_none(store):
    class Once(Recorder):
        def embed(self, texts, *, on_done=None):
            if len(texts) > 1:
                raise RuntimeError("too many at a time")
            return super().embed(texts, on_done=on_done)

    np.testing.assert_array_equal(Vectors(Once(), store).get(["a", "b"]), HashingEmbedder(16).embed(["a", "b"]))


@pytest.mark.parametrize("reports", [True, False])
def test_a_vector_with_nan_is_an_error_and_never_stored(store, reports):
    embedder = Recorder(nan_for={"text 1"}, reports=reports)
    with pytest.raises(EmbeddingError, match=r"text 'text 1', number 2 of 3.*not finite and of unit length"):
        Vectors(embedder, store).get(_numbered(3))
    assert store.look_up(_numbered(3))[0].tolist() == [True, False, True]


def test_a_missing_model_is_not_blamed_on_a_text(store, tmp_path):
    vectors = Vectors(MiniLM(tmp_path), VectorStore(MiniLM().identity, tmp_path / "store"))
    with pytest.raises(ModelError, match=r"no model\.safetensors"):
        vectors.get(["a"])
    assert vectors.stats.embedded == 0


def test_vectors_of_another_length_than_the_identity_says(store):
    class Shorter(Recorder):
        @property
        def identity(self):
            return EmbedderIdentity("hashing", "1", "ctxbench", "float32", 24)

    with pytest.raises(EmbeddingError, match=r"text 'a', number 1 of 1"):
        Vectors(Shorter(), None).get(["a"])


def test_a_full_disk_is_a_storage_error(store):
    assert store.writable
    connection = store._rows._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageError, match=r"no room in .*vectors-2\.sqlite"):
        Vectors(Recorder(), store).get(_numbered(1000))
    assert len(store) % 64 == 0  # whole batches


# ---- places that cannot be written


@pytest.fixture
def frozen(store, monkeypatch):
    """The store after "a" was put in and its place made read-only."""
    Vectors(Recorder(), store).get(["a"])
    store.close()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda place, mode: mode != os.W_OK and allowed(place, mode))
    return store


def test_a_read_only_store_that_holds_all_is_enough(frozen, caplog):
    embedder = Recorder()
    vectors = Vectors(embedder, frozen)
    np.testing.assert_array_equal(vectors.get(["a"]), HashingEmbedder(16).embed(["a"]))
    assert embedder.asked == []
    assert caplog.records == []


def test_what_a_read_only_store_lacks_is_kept_in_memory_and_said_once(frozen, caplog):
    caplog.set_level(logging.WARNING)
    embedder = Recorder()
    vectors = Vectors(embedder, frozen)
    for texts in (["a", "b"], ["b", "c"]):
        np.testing.assert_array_equal(vectors.get(texts), HashingEmbedder(16).embed(texts))
    assert embedder.asked == [["b"], ["c"]]
    assert vectors.stats == VectorStats(embedded=2, loaded=2, unsaved=2)
    assert [record.getMessage() for record in caplog.records] == [
        f"{frozen.path} cannot be written: new vectors are kept in memory only"
    ]


# ---- several processes


def _get(root, texts, answers):
    embedder = MiniLM(threads=1)
    answers.put(Vectors(embedder, VectorStore(embedder.identity, root)).get(texts).tobytes())


def test_two_processes_that_embed_the_same_texts_at_once(minilm, desk_texts, tmp_path):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    texts = desk_texts[:80]
    workers = [context.Process(target=_get, args=(tmp_path, order, answers)) for order in (texts, texts)]
    for worker in workers:
        worker.start()
    got = [answers.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
    expected = minilm.embed(texts).tobytes()
    assert got == [expected, expected]
    file = VectorStore(minilm.identity, tmp_path).path
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (80,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_with_a_limit_the_last_vectors_are_in_memory_and_nothing_is_stored(store, caplog):
    embedder = Recorder()
    vectors = Vectors(embedder, store)
    vectors.get(["of an item"])
    vectors.limit = 2
    expected = HashingEmbedder(16).embed(["a", "b", "c"])
    for text, row in zip("abc", expected, strict=True):
        np.testing.assert_array_equal(vectors.get([text, "of an item"])[0], row)
    np.testing.assert_array_equal(vectors.get(["c", "b"]), expected[[2, 1]])
    assert embedder.asked == [["of an item"], ["a"], ["b"], ["c"]]
    np.testing.assert_array_equal(vectors.get(["a"]), expected[:1])
    assert embedder.asked[-1] == ["a"]
    assert store.look_up(["of an item", "a", "b", "c"])[0].tolist() == [True, False, False, False]
    assert (vectors.stats.unsaved, caplog.records) == (0, [])
