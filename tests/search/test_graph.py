from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.search import graph as graph_module
from ctxbench.search.dense import ChunkMatrix
from ctxbench.search.graph import SIMILARITIES, Graph, GraphSpec, build_graph, update_graph

# Item 0 has the chunks (1, 0) and (0, 1); item 1 has (0.6, 0.8); item 2 has (1, 0).
UNITS = [[(1.0, 0.0), (0.0, 1.0)], [(0.6, 0.8)], [(1.0, 0.0)]]
SETTINGS = settings(max_examples=60, deadline=None)


def matrix(chunks: list[list[tuple[float, ...]]]) -> ChunkMatrix:
    item = np.repeat(np.arange(len(chunks)), [len(one) for one in chunks])
    ordinal = np.array([place for one in chunks for place in range(len(one))], dtype=np.int64)
    return ChunkMatrix.of(np.array([v for one in chunks for v in one], dtype=np.float32), item, ordinal)


def catalog(texts: list[str]) -> Catalog:
    return Catalog([Item(type="rule", name=text.split("=")[0], text=text) for text in texts])


def built(chunks: list[list[tuple[float, ...]]], spec: GraphSpec, texts: list[str] | None = None) -> Graph:
    items = catalog(texts or [f"i{place}" for place in range(len(chunks))])
    return build_graph(items, matrix(chunks) if chunks else None, spec, embedder="e", chunking="c")


def entries(graph: Graph) -> list[tuple[int, int, float, int, int]]:
    return list(zip(*(column.tolist() for column in graph.edges), strict=True))


def same(one: Graph, other: Graph) -> bool:
    names = ("start", "item", "score", "own_chunk", "other_chunk", "prints")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_max_is_the_best_pair_of_chunks():
    held = entries(built(UNITS, GraphSpec(threshold=0.0)))
    assert [row[:2] for row in held] == [(0, 2), (0, 1), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert [row[2] for row in held] == pytest.approx([1.0, 0.8, 0.8, 0.6, 1.0, 0.6])
    assert [row[3:] for row in held] == [(0, 0), (1, 0), (0, 1), (0, 0), (0, 0), (0, 0)]


def test_mean_is_over_all_pairs_and_names_the_best_pair():
    held = entries(built(UNITS, GraphSpec(similarity="mean", threshold=0.0)))
    assert held[0][:2] == (0, 1)
    assert held[0][2] == pytest.approx((0.6 + 0.8) / 2)
    assert held[0][3:] == (1, 0)
    assert held[1][2] == pytest.approx((1.0 + 0.0) / 2)


def test_centroid_is_the_cosine_of_the_mean_vectors():
    held = entries(built(UNITS, GraphSpec(similarity="centroid", threshold=0.0)))
    # the mean of item 0 is (0.5, 0.5); its cosine with (0.6, 0.8) is 0.7 / 0.7071
    assert held[0][:2] == (0, 1)
    assert held[0][2] == pytest.approx(0.7 / 0.5**0.5)
    assert held[1][2] == pytest.approx(0.5 / 0.5**0.5)


def test_chunks_that_cancel_out_have_no_centroid_and_score_nothing():
    graph = built([[(1.0, 0.0), (-1.0, 0.0)], [(1.0, 0.0)]], GraphSpec(similarity="centroid", threshold=0.0))
    assert graph.score.tolist() == [0.0, 0.0]


def test_the_threshold_is_kept_and_a_pair_at_it_is_held():
    at = float(np.float32(0.6))
    assert [row[:2] for row in entries(built(UNITS, GraphSpec(threshold=at)))][3] == (1, 2)
    assert len(entries(built(UNITS, GraphSpec(threshold=0.61)))) == 4


def test_only_the_most_similar_neighbours_are_held_and_ties_go_to_the_first():
    graph = built([[(1.0, 0.0)]] * 4, GraphSpec(threshold=0.0, neighbours=2))
    assert [row[:2] for row in entries(graph)] == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (3, 0), (3, 1)]


def test_heads_are_the_first_chunks_alone():
    graph = built(UNITS, GraphSpec(threshold=0.0, heads=True))
    assert [(row[:2], round(row[2], 6)) for row in entries(graph)][1] == ((0, 1), 0.6)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_no_item_and_one_item_have_no_neighbours(similarity):
    spec = GraphSpec(similarity=similarity, threshold=0.0)
    assert len(built([], spec)) == 0
    assert entries(built([[(1.0, 0.0)]], spec)) == []


def test_entries_of_some_items_come_in_the_order_asked():
    owner, item, *_ = built(UNITS, GraphSpec(threshold=0.0)).of(np.array([2, 0]), first=1)
    assert (owner.tolist(), item.tolist()) == ([2, 0], [0, 2])


@pytest.mark.parametrize("wrong", [{"similarity": "min"}, {"threshold": 1.5}, {"threshold": -0.1}, {"neighbours": 0}])
def test_what_is_out_of_range_is_refused(wrong):
    with pytest.raises(ParameterError, match=f"{next(iter(wrong))} must be"):
        GraphSpec(**wrong)


def shapes(low: int = 1) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, 3), min_size=low, max_size=9)


def random_chunks(shape: list[int], seed: int) -> list[list[tuple[float, ...]]]:
    """Unit vectors of few directions, so that ties are many."""
    rng = np.random.default_rng(seed)
    pool = rng.standard_normal((5, 4))
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    return [[tuple(pool[rng.integers(5)]) for _ in range(n)] for n in shape]


def by_hand(chunks: list[list[tuple[float, ...]]], spec: GraphSpec) -> list[tuple[int, int]]:
    """Owners and neighbours by the definition of `max`, one pair at a time."""
    rows = [np.array(one[:1] if spec.heads else one, dtype=np.float32).astype(np.float64) for one in chunks]
    out = []
    for i, own in enumerate(rows):
        scores = {j: max((a * b).sum() for a in own for b in other) for j, other in enumerate(rows) if i != j}
        kept = sorted((j for j in scores if scores[j] >= spec.threshold), key=lambda j: (-scores[j], j))
        out += [(i, j) for j in kept[: spec.neighbours]]
    return out


@SETTINGS
@given(shapes(), st.integers(0, 9), st.sampled_from([0.0, 0.3, 0.9]), st.integers(1, 4), st.booleans())
def test_the_graph_is_what_one_pair_at_a_time_gives(shape, seed, threshold, neighbours, heads):
    spec = GraphSpec(threshold=threshold, neighbours=neighbours, heads=heads)
    chunks = random_chunks(shape, seed)
    assert [row[:2] for row in entries(built(chunks, spec))] == by_hand(chunks, spec)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_blocks_change_nothing(similarity, monkeypatch):
    chunks = random_chunks([1, 2, 3] * 8, 3)
    spec = GraphSpec(similarity=similarity, threshold=0.2, neighbours=5)
    whole = built(chunks, spec)
    for block in (1, 50, 400):
        monkeypatch.setattr(graph_module, "BLOCK", block)
        assert same(built(chunks, spec), whole)


@SETTINGS
@given(
    shape=shapes(4),
    seed=st.integers(0, 99),
    similarity=st.sampled_from(SIMILARITIES),
    neighbours=st.integers(1, 5),
    change=st.sampled_from(["edit", "remove", "insert", "append", "swap", "nothing", "all"]),
    data=st.data(),
)
def test_an_updated_graph_is_the_one_built_anew(shape, seed, similarity, neighbours, change, data):
    chunks = random_chunks(shape, seed)
    texts = [f"i{place}=" for place in range(len(chunks))]
    at = data.draw(st.integers(0, len(chunks) - 1))
    [other] = random_chunks([data.draw(st.integers(1, 3))], seed + 1000)
    after, named = list(chunks), list(texts)
    if change == "edit":
        after[at], named[at] = other, f"i{at}=changed"
    elif change == "remove":
        del after[at], named[at]
    elif change in ("insert", "append"):
        place = at if change == "insert" else len(after)
        after.insert(place, other)
        named.insert(place, "new=")
    elif change == "swap":
        after[0], after[at], named[0], named[at] = after[at], after[0], named[at], named[0]
    elif change == "all":
        after, named = random_chunks(shape, seed + 7), [f"{text}changed" for text in texts]
    spec = GraphSpec(similarity=similarity, threshold=0.2, neighbours=neighbours)
    old = built(chunks, spec, texts)
    updated = update_graph(old, catalog(named), matrix(after))
    assert same(updated, built(after, spec, named))
    assert updated.catalog == catalog(named).hash


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_of_equal_pairs_of_chunks_an_update_names_the_one_that_building_anew_does(similarity):
    right, up = (1.0, 0.0), (0.0, 1.0)
    chunks = [[right, up], [(0.6, 0.8)], [(0.6, 0.8)], [up, right]]  # items 0 and 3 have two pairs of similarity 1
    spec, texts = GraphSpec(similarity=similarity, threshold=0.0), ["0=", "1=", "2=", "3="]
    old, named = built([*chunks[:3], [right]], spec, texts), [*texts[:3], "3=changed"]
    updated = update_graph(old, catalog(named), matrix(chunks))
    assert same(updated, built(chunks, spec, named))
    assert [row[3:] for row in entries(updated) if row[:2] in ((0, 3), (3, 0))] == [(0, 1), (0, 1)]


def test_an_update_computes_only_the_rows_of_what_changed(monkeypatch):
    chunks = random_chunks([1] * 40, 1)
    texts = [f"i{place}=" for place in range(40)]
    old = built(chunks, GraphSpec(threshold=0.9), texts)
    rows = []
    block = graph_module._ChunkView._block
    monkeypatch.setattr(
        graph_module._ChunkView,
        "_block",
        lambda self, at, limit: rows.extend(at.tolist()) or block(self, at, limit),
    )
    changed = [*texts[:7], "i7=changed", *texts[8:]]
    update_graph(old, catalog(changed), matrix([*chunks[:7], [(1.0, 0.0, 0.0, 0.0)], *chunks[8:]]))
    assert rows == [7]


def test_arrays_cannot_be_written():
    graph = built(UNITS, GraphSpec())
    with pytest.raises(ValueError, match="read-only"):
        graph.score[:] = 0
    assert replace(graph, embedder="other").embedder == "other"
