"""Query vectors: what is kept, for how long, and what goes first."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ctxbench.io.errors import EmbeddingError, ParameterError
from ctxbench.memory.engine import QueryVectors
from ctxbench.search.embedders import HashingEmbedder


class Counting(HashingEmbedder):
    """Counts the texts that it embeds."""

    asked: int = 0

    def embed(self, texts, on_done=None):
        self.asked += len(texts)
        return super().embed(texts, on_done=on_done)


@pytest.fixture
def clock():
    return [0.0]


def vectors(clock, **given):
    return QueryVectors(Counting(), clock=lambda: clock[0], **given)


def test_a_text_asked_again_is_not_embedded_again(clock):
    kept = vectors(clock)
    first = kept.get(["flat tyre"])
    assert kept.get(["flat tyre"]) == first
    assert kept.embedder.asked == 1


def test_vectors_are_those_of_the_embedder_in_the_order_asked(clock):
    kept = vectors(clock)
    found = kept.get(["a b", "c", "a b"])
    np.testing.assert_allclose(found, HashingEmbedder().embed(["a b", "c", "a b"]), atol=1e-7)
    assert kept.embedder.asked == 2


def test_one_goes_after_its_time(clock):
    kept = vectors(clock, seconds=10)
    kept.get(["a"])
    clock[0] = 9.9
    kept.get(["a"])
    assert kept.embedder.asked == 1
    clock[0] = 10.0
    kept.get(["a"])
    assert kept.embedder.asked == 2


def test_the_one_used_longest_ago_goes_first(clock):
    kept = vectors(clock, size=2)
    kept.get(["a"])
    kept.get(["b"])
    kept.get(["a"])
    kept.get(["c"])  # b goes
    asked = kept.embedder.asked
    kept.get(["a"])
    assert kept.embedder.asked == asked
    kept.get(["b"])
    assert kept.embedder.asked == asked + 1


def test_without_room_nothing_is_kept_and_all_is_answered(clock):
    kept = vectors(clock, size=0)
    assert len(kept.get(["a", "b"])) == 2
    kept.get(["a"])
    assert kept.embedder.asked == 3


def test_what_fails_is_told_and_not_kept(clock):
    kept = vectors(clock)

    def fails(texts, on_done=None):
        raise RuntimeError("no power")

    works, kept.embedder.embed = kept.embedder.embed, fails
    with pytest.raises(EmbeddingError, match="no power"):
        kept.get(["a"])
    kept.embedder.embed = works
    assert kept.get(["a"])


@pytest.mark.parametrize("given", [{"size": -1}, {"seconds": -0.5}, {"seconds": float("nan")}])
def test_sizes_and_times_out_of_range_are_refused(clock, given):
    with pytest.raises(ParameterError, match=next(iter(given))):
        vectors(clock, **given)


def test_threads_may_share_them(clock):
    """More texts than are kept, so that all threads take out what was used longest ago."""

    def ask(thread):
        return [kept.get([f"text {thread} {number % 9}"]) for number in range(400)]

    kept, interval = vectors(clock, size=2), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(6) as threads:
            assert sum(map(len, threads.map(ask, range(6)))) == 2400
    finally:
        sys.setswitchinterval(interval)
