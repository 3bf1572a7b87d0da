"""Threads that share a dense index, or the index that theirs extend, get the vectors of their own items."""

from __future__ import annotations

import numpy as np

from ctxbench.model.items import Catalog, Item
from ctxbench.search import dense
from ctxbench.search.dense import DenseIndex
from ctxbench.search.embedders import HashingEmbedder
from tests.interrupt import Interrupted


def rules(*names):
    return [Item(type="rule", name=name, text=f"{name} says") for name in names]


def whole(catalog):
    return np.ones(len(catalog), dtype=np.bool_)


def expected(catalog):
    return DenseIndex(catalog).matrix(whole(catalog), HashingEmbedder().embed)


def same(matrix, other):
    for name in ("vectors", "item", "ordinal", "first"):
        assert np.array_equal(getattr(matrix, name), getattr(other, name)), name


def test_two_threads_that_need_the_same_items_embed_them_once():
    catalog = Catalog(rules("a", "b", "c"))
    index = DenseIndex(catalog)
    texts_embedded = []

    def embed(texts, *, kind):
        assert kind == "item"
        texts_embedded.extend(texts)
        return HashingEmbedder().embed(texts)

    first = Interrupted(embed, lambda: index.matrix(whole(catalog), embed))
    matrix = index.matrix(whole(catalog), first)
    same(matrix, expected(catalog))
    same(first.result(), matrix)
    assert sorted(texts_embedded) == sorted(chunk for item in catalog for chunk in dense.chunks_of(item))


def test_two_indexes_that_extend_one_at_the_same_time_hold_their_own_items(monkeypatch):
    public = Catalog(rules("public"))
    ana, ben = (public.extended(rules(*names), shares=True) for names in (("a", "b"), ("c", "d", "e")))
    index, embed = DenseIndex(public), HashingEmbedder().embed
    index.matrix(whole(public), embed)
    of_ana, of_ben = index.extended(ana), index.extended(ben)
    interrupted = Interrupted(dense.Room.add, lambda: of_ben.matrix(whole(ben), embed))
    monkeypatch.setattr(dense.Room, "add", interrupted)
    matrix = of_ana.matrix(whole(ana), embed)
    same(interrupted.result(), expected(ben))
    same(matrix, expected(ana))
    same(index.matrix(whole(public), embed), expected(public))


def test_what_is_computed_while_items_are_added_is_not_kept_for_the_larger_matrix():
    catalog, embed = Catalog(rules("a", "b")), HashingEmbedder().embed
    index = DenseIndex(catalog)
    index.matrix(np.array([True, False]), embed)

    def items(matrix):
        index.matrix(whole(catalog), embed)
        return matrix.first.tolist()

    assert index.get_or_compute("items", items) == [0]
    assert index.get_or_compute("items", items) == [0, 2]
