"""Links: breadth-first along stored links, held against a plain walk over one request after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import SEARCHED, Candidates, Mode, Origin, reranked
from ctxbench.model.items import Catalog, Item, ItemKey, Link
from ctxbench.model.requests import Batch, Filter, Query, Request, SessionItem
from ctxbench.model.selection import concatenated, session_rows
from ctxbench.pipelines.strategies.expand import DEPTH, TYPE, Links
from ctxbench.testing import mock_resources

PROPERTY = settings(max_examples=200, deadline=None, database=None, derandomize=True)


def key(name: object) -> ItemKey:
    return ItemKey("memory", None, str(name))


def memories(n: int, *links: str, **changes: dict) -> Catalog:
    """Items 0, 1, ...; a link is `0 about 1`; `i2={"include": "manual"}` changes the third."""
    ends = [link.split() for link in links]
    items = []
    for i in range(n):
        own = tuple(Link(kind, key(end)) for start, kind, end in ends if start == str(i))
        items.append(Item(type="memory", name=str(i), text=f"text {i}", links=own, **changes.get(f"i{i}", {})))
    return Catalog(items)


def table_of(batch: Batch, chosen: Sequence[int], others: Sequence[int] = ()) -> Candidates:
    """Rows of every request: `chosen` with scores 0.9, 0.8, ... and `others`, which a rule keeps out, below them."""
    found = [*chosen, *others]
    request = np.repeat(np.arange(len(batch), dtype=np.int64), len(found))
    score = np.tile(0.9 - np.arange(len(found)) / 10, len(batch))
    table = Candidates.build(len(batch), request, np.tile(np.array(found, dtype=np.int64), len(batch)), score=score)
    return concatenated([session_rows(batch), table.exclude(np.isin(table.item, others), "not this one")])


def linked(catalog: Catalog, step: Links, chosen=(0,), others=(), **request) -> Candidates:
    batch = Batch.of(catalog, [Request(**{"id": "q", "text": "x", **request})])
    return step(Query.of_chunks(batch, [["x"]]), table_of(batch, chosen, others), mock_resources())


def added(catalog: Catalog, table: Candidates) -> list[tuple[int, int, int, str]]:
    """Item, item before, depth and link type of what was brought in, in order."""
    rows = np.flatnonzero((table.mode == Mode.EXPANSION) & table.chosen)
    kinds = [catalog.facts.link_types[int(table.columns[TYPE][row])] for row in rows]
    depths = table.columns[DEPTH][rows].astype(int).tolist()
    assert depths == (table.origin[rows] - Origin.EXPANSION + 1).tolist()
    return list(zip(table.item[rows].tolist(), table.via_item[rows].tolist(), depths, kinds, strict=True))


class TestPasses:
    CHAIN = memories(5, "0 about 1", "1 after 2", "2 about 3", "3 about 0")

    def test_each_pass_goes_one_link_further(self):
        out = [added(self.CHAIN, linked(self.CHAIN, Links(depth=n, direction="out"))) for n in (1, 2, 3, 5)]
        whole = [(1, 0, 1, "about"), (2, 1, 2, "after"), (3, 2, 3, "about")]
        assert out == [whole[:1], whole[:2], whole, whole]  # the circle is closed, and nothing comes twice

    def test_links_to_an_item_count_too_where_both_ways_do(self):
        table = linked(self.CHAIN, Links())
        assert added(self.CHAIN, table) == [(1, 0, 1, "about"), (3, 0, 1, "about")]
        assert added(self.CHAIN, linked(self.CHAIN, Links(depth=2)))[2:] == [(2, 1, 2, "after")]

    def test_only_links_of_the_types_named_are_followed(self):
        assert added(self.CHAIN, linked(self.CHAIN, Links(depth=5, types=("about",)))) == [
            (1, 0, 1, "about"),
            (3, 0, 1, "about"),
            (2, 3, 2, "about"),
        ]
        assert added(self.CHAIN, linked(self.CHAIN, Links(types=("other",)))) == []

    def test_what_was_found_has_no_depth(self):
        table = linked(self.CHAIN, Links(), chosen=(0, 4))
        np.testing.assert_equal(table.columns[DEPTH], [np.nan, np.nan, 1, 1])
        np.testing.assert_equal(table.columns[TYPE], [np.nan, np.nan, 0, 0])

    def test_a_second_step_leaves_what_the_first_brought_in(self):
        batch = Batch.of(self.CHAIN, [Request(id="q", text="x")])
        query, table = Query.of_chunks(batch, [["x"]]), table_of(batch, (0,))
        for step in (Links(direction="out", types=("about",)), Links(direction="out")):
            table = step(query, table, mock_resources())
        assert table.item.tolist() == [0, 1, 2]
        np.testing.assert_equal(table.columns[TYPE], [np.nan, 0, 1])

    def test_an_item_linked_with_itself_brings_in_nothing(self):
        catalog = memories(1, "0 about 0")
        assert added(catalog, linked(catalog, Links(depth=5))) == []

    @pytest.mark.parametrize("depth", [-1, 6])
    def test_depth_has_a_range(self, depth):
        with pytest.raises(ParameterError, match="depth must be 0 to 5"):
            Links(depth=depth)

    def test_depth_zero_is_off(self):
        batch = Batch.of(self.CHAIN, [Request(id="q", text="x")])
        table = table_of(batch, (0,))
        assert Links(depth=0)(Query.of_chunks(batch, [["x"]]), table, mock_resources()) is table
        assert (Links(depth=0).off, Links().off) == (True, False)


class TestOrder:
    def test_what_the_best_leads_to_comes_first_with_its_score(self):
        catalog = memories(6, "0 a 4", "1 a 3", "1 a 5")
        table = linked(catalog, Links(direction="out"), chosen=(1, 0, 2))
        assert table.item.tolist() == [1, 0, 2, 3, 5, 4]
        np.testing.assert_allclose(table.score, [0.9, 0.8, 0.7, 0.9, 0.9, 0.8])

    def test_the_score_goes_on_along_the_way(self):
        catalog = memories(4, "0 a 1", "1 a 2")
        np.testing.assert_allclose(linked(catalog, Links(depth=2)).score, [0.9] * 3)

    def test_of_several_ways_the_shortest_counts_then_that_from_the_best(self):
        catalog = memories(4, "0 long 1", "1 long 2", "3 short 2", "0 low 3")
        assert added(catalog, linked(catalog, Links(depth=2, direction="out"), chosen=(3, 0)))[0] == (2, 3, 1, "short")
        catalog = memories(3, "0 low 2", "1 best 2")
        assert added(catalog, linked(catalog, Links(), chosen=(1, 0))) == [(2, 1, 1, "best")]

    def test_of_two_links_between_the_same_items_the_first_one_out_is_told(self):
        catalog = memories(2, "1 back 0", "0 first 1", "0 second 1")
        assert added(catalog, linked(catalog, Links())) == [(1, 0, 1, "first")]

    def test_a_rank_step_behind_orders_all_anew(self):
        catalog = memories(3, "2 a 0")
        table = linked(catalog, Links(), chosen=(2, 1))
        assert (table.item.tolist(), table.tier.tolist()) == ([2, 1, 0], [1, 1, 2])
        after = reranked(table, np.array([0.1, 0.2, 0.3]))
        assert (after.item.tolist(), after.tier.tolist()) == ([0, 1, 2], [1, 1, 1])
        np.testing.assert_equal(after.columns[DEPTH], [1, np.nan, np.nan])


class TestWhoIsLedTo:
    def test_what_a_search_may_not_offer_neither_comes_nor_leads(self):
        hidden = {"i1": {"include": "manual"}, "i2": {"enabled": False}, "i3": {"workspace": "other"}}
        catalog = memories(9, *(f"0 a {n}" for n in range(1, 5)), *(f"{n} a {n + 4}" for n in range(1, 5)), **hidden)
        found = [row[0] for row in added(catalog, linked(catalog, Links(depth=5)))]
        assert found == [4, 8]

    def test_removed_unavailable_and_filtered_items_do_not_come(self):
        catalog = memories(4, "0 a 1", "0 a 2", "0 a 3", i3={"confidence": 0.9}, i2={"confidence": 0.1})
        assert [row[0] for row in added(catalog, linked(catalog, Links(), removed=(key(1),)))] == [2, 3]
        assert [row[0] for row in added(catalog, linked(catalog, Links(), available=(key(0), key(2))))] == [2]
        assert [row[0] for row in added(catalog, linked(catalog, Links(), only=Filter(confidence=0.5)))] == [3]

    def test_the_session_does_not_lead(self):
        catalog = memories(4, "0 a 1", "2 a 3")
        table = linked(catalog, Links(), chosen=(0,), session=(SessionItem(key(2)),))
        assert added(catalog, table) == [(1, 0, 1, "a")]

    def test_what_a_rule_kept_out_does_not_lead_and_may_be_taken_over(self):
        catalog = memories(4, "0 a 1", "2 a 3")
        table = linked(catalog, Links(), chosen=(0,), others=(1, 2))
        assert added(catalog, table) == [(1, 0, 1, "a")]
        row = int(np.flatnonzero(table.item == 1)[0])
        assert table.columns[SEARCHED][row] == pytest.approx(0.8)

    def test_nothing_chosen_or_no_links_bring_nothing_in(self):
        for catalog, chosen in ((memories(2, "0 a 1"), ()), (memories(2), (0,)), (memories(0), ())):
            table = linked(catalog, Links(depth=5), chosen=chosen)
            assert table.item.tolist() == list(chosen)
            assert {SEARCHED, DEPTH, TYPE} <= table.columns.keys()
        empty = Batch.of(memories(2, "0 a 1"), [])
        assert Links()(Query.of_chunks(empty, []), Candidates.empty(0), mock_resources()).n_requests == 0


def walked(batch: Batch, request: int, chosen: Mapping[int, float], step: Links) -> dict[int, tuple[float, int, int]]:
    """What a plain walk reaches from chosen items with their scores: item to (score, item before, depth)."""
    facts, allowed = batch.catalog.facts, batch.eligible[request]
    ways = [(i, kind, end) for i in range(len(batch.catalog)) for kind, end in facts.linked(i)]
    ways += [(end, kind, i) for i, kind, end in ways] if step.direction == "both" else []
    front, seen, out = chosen, set(chosen), {}
    for depth in range(1, step.depth + 1):
        found = {}
        for start, kind, end in ways:
            if start in front and end not in seen and allowed[end] and (not step.types or kind in step.types):
                found[end] = min(found.get(end, (np.inf, 0)), (-front[start], start))
        out |= {item: (-score, via, depth) for item, (score, via) in found.items()}
        front = {item: -score for item, (score, _) in found.items()}
        seen |= set(front)
    return out


@PROPERTY
@given(
    n=st.integers(1, 9),
    links=st.lists(st.tuples(st.integers(0, 8), st.sampled_from("ab"), st.integers(0, 8)), max_size=25),
    step=st.builds(
        Links, st.integers(1, 5), st.sampled_from([(), ("a",), ("a", "b")]), st.sampled_from(["both", "out"])
    ),
    chosen=st.lists(st.integers(0, 8), max_size=4, unique=True),
    spaces=st.lists(st.sampled_from([None, "one", "two"]), min_size=9, max_size=9),
)
def test_it_reaches_what_a_plain_walk_reaches_and_a_batch_equals_its_requests(n, links, step, chosen, spaces):
    names = [f"{i} {kind} {end}" for i, kind, end in links if i < n and end < n]
    changes = {f"i{i}": {"workspace": spaces[i]} for i in range(n)}
    requests = [Request(id=str(space), text="x", workspace=space) for space in (None, "one", "two")]
    batch = Batch.of(memories(n, *names, **changes), requests)
    rows = [(r, i) for r in range(3) for i in chosen if i < n and batch.eligible[r, i]]
    where = np.array(rows, dtype=np.int64).reshape(-1, 2)
    score = np.array([0.9 - chosen.index(i) / 10 for _, i in rows])
    table = Candidates.build(3, where[:, 0], where[:, 1], score=score)
    after = step(Query.of_chunks(batch, [["x"]] * 3), table, mock_resources())
    for r in range(3):
        own = {i: 0.9 - chosen.index(i) / 10 for i in chosen if (r, i) in rows}
        span = after.rows(r)
        new = after.via_item[span] >= 0
        got = {
            int(item): (float(s), int(via), int(depth))
            for item, s, via, depth in zip(
                after.item[span][new],
                after.score[span][new],
                after.via_item[span][new],
                after.columns[DEPTH][span][new],
                strict=True,
            )
        }
        assert got == walked(batch, r, own, step)
        assert set(after.item[span][~new].tolist()) == set(own)
        alone = batch.take([r])
        mine = Candidates.build(
            1, np.zeros(len(own), np.int64), np.array([*own], np.int64), score=np.array([*own.values()])
        )
        one = step(Query.of_chunks(alone, [["x"]]), mine, mock_resources())
        for name in ("item", "score", "via_item", "origin"):
            np.testing.assert_array_equal(getattr(one, name), getattr(after, name)[span])
        for name in (DEPTH, TYPE):
            np.testing.assert_array_equal(one.columns[name], after.columns[name][span])
