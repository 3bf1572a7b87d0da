from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates, Origin
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.cut import PerChunk

QUERY = Query.of_chunks(Batch.of(Catalog([]), []), [])  # the step looks at the candidates only
PROPERTY = settings(max_examples=300, deadline=None, database=None, derandomize=True)


def table(*requests: list[tuple[float, int]], first: int) -> Candidates:
    """Items 0, 1, ... of each request with (score, query chunk), of which the `first` are chosen."""
    request = np.repeat(np.arange(len(requests)), [len(rows) for rows in requests])
    item = np.concatenate([np.arange(len(rows)) for rows in requests]).astype(np.int64)
    rows = [row for rows in requests for row in rows]
    candidates = Candidates.build(
        len(requests),
        request,
        item,
        score=np.array([score for score, _ in rows], dtype=np.float64),
        query_chunk=np.array([chunk for _, chunk in rows], dtype=np.int64),
    )
    return candidates.exclude(candidates.item >= first, f"beyond the first n={first}")


def run(step: PerChunk, candidates: Candidates) -> Candidates:
    return step(QUERY, candidates, testing.mock_resources())


def offered(step: PerChunk, candidates: Candidates) -> list[list[int]]:
    after = run(step, candidates)
    rows = [after.rows(request) for request in range(after.n_requests)]
    return [after.item[row][after.chosen[row]].tolist() for row in rows]


# The documents' example: chunk 0 matches with 0.9, 0.85, 0.8; chunk 1 with 0.75, 0.7, 0.65. The first three are chosen.
EXAMPLE = [(0.9, 0), (0.85, 0), (0.8, 0), (0.75, 1), (0.7, 1), (0.65, 1)]


class TestPromotion:
    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            ({"minimum": 0}, [0, 1, 2]),
            ({"minimum": 1}, [0, 1, 2, 3]),
            ({"minimum": 2}, [0, 1, 2, 3, 4]),
            ({"minimum": 9}, [0, 1, 2, 3, 4, 5]),  # no more than there is
            ({"minimum": 1, "displace": True}, [0, 1, 3]),
            ({"minimum": 2, "displace": True}, [0, 1, 3]),  # chunk 0 keeps its two
            ({"minimum": 3, "displace": True}, [0, 1, 2]),
            ({"minimum": 2, "above": 0.7}, [0, 1, 2, 3]),  # above, not at least
            ({"minimum": 2, "above": 0.7, "displace": True}, [0, 1, 3]),
        ],
    )
    def test_the_documents_example(self, given, kept):
        assert offered(PerChunk(**given), table(EXAMPLE, first=3)) == [kept]

    def test_an_item_counts_for_the_chunk_that_gave_its_best_score(self):
        assert offered(PerChunk(minimum=1), table([(0.9, 0), (0.8, 1), (0.7, 0)], first=2)) == [[0, 1]]

    def test_what_scores_0_or_less_is_not_promoted_unless_said(self):
        rows = [(0.9, 0), (0.0, 1), (-0.5, 2)]
        assert offered(PerChunk(), table(rows, first=1)) == [[0]]
        assert offered(PerChunk(above=-0.1), table(rows, first=1)) == [[0, 1]]

    def test_each_request_is_looked_at_on_its_own(self):
        requests = ([(0.9, 0), (0.8, 1)], [], [(0.9, 1), (0.8, 1), (0.7, 0)], [(0.9, 0)])
        assert offered(PerChunk(), table(*requests, first=1)) == [[0, 1], [], [0, 2], [0]]

    def test_items_without_a_query_chunk_are_never_promoted(self):
        assert offered(PerChunk(), table([(0.9, 0), (0.8, -1), (0.7, 1)], first=1)) == [[0, 2]]

    def test_the_session_and_expansions_do_not_count_and_stay(self):
        candidates = Candidates.build(
            1,
            np.zeros(5, dtype=np.int64),
            np.arange(5),
            score=np.array([np.nan, 0.9, 0.8, 0.7, 0.6]),
            origin=np.array([0, 1, 1, 1, 2]),
            query_chunk=np.array([-1, 0, 0, 1, 1]),  # that of the last is a chunk of the item that led to it
            via_item=np.array([-1, -1, -1, -1, 1]),
        )
        candidates = candidates.exclude((candidates.item == 3) | (candidates.item == 4), "not this one")
        assert offered(PerChunk(), candidates) == [[0, 1, 2, 3]]
        assert offered(PerChunk(displace=True), candidates) == [[0, 1, 3]]

    def test_no_request_and_no_row(self):
        assert offered(PerChunk(), Candidates.empty(0)) == []
        assert offered(PerChunk(displace=True), Candidates.empty(2)) == [[], []]


class TestDisplacement:
    def test_the_last_of_the_ranking_go_first_whatever_their_chunk(self):
        rows = [(0.9, 0), (0.8, 1), (0.7, 0), (0.6, 1), (0.5, 2)]
        assert offered(PerChunk(displace=True), table(rows, first=4)) == [[0, 1, 2, 4]]

    def test_no_chunk_falls_below_its_minimum(self):
        rows = [(0.9, 0), (0.8, 0), (0.7, 1), (0.6, 2)]
        assert offered(PerChunk(displace=True), table(rows, first=3)) == [[0, 2, 3]]

    def test_the_chunks_with_the_fewest_items_come_first(self):
        # two places are free: chunk 1 (0.6) and chunk 2 (0.3) get their first item before chunk 1 its second (0.5)
        rows = [(0.9, 0), (0.8, 0), (0.75, 0), (0.7, 0), (0.6, 1), (0.5, 1), (0.3, 2)]
        assert offered(PerChunk(minimum=2, displace=True), table(rows, first=4)) == [[0, 1, 4, 6]]

    def test_items_without_a_query_chunk_are_displaced_like_any_other(self):
        rows = [(0.9, 0), (0.8, -1), (0.7, 0), (0.6, 1)]
        assert offered(PerChunk(displace=True), table(rows, first=3)) == [[0, 1, 3]]
        assert offered(PerChunk(displace=True), table([(0.9, 0), (0.8, -1), (0.7, 1)], first=2)) == [[0, 2]]

    def test_where_nothing_can_be_displaced_nothing_is_promoted(self):
        assert offered(PerChunk(displace=True), table([(0.9, 0), (0.8, 1)], first=1)) == [[0]]
        assert offered(PerChunk(displace=True), table([(0.9, 0)], first=0)) == [[]]

    def test_the_rules_say_what_happened(self):
        after = run(PerChunk(displace=True), table(EXAMPLE, first=3))
        assert [str(after.rules[out] or "") for out in after.out] == [
            *("", "", "displaced by items that bring each query chunk to minimum=1", ""),
            *("beyond the first n=3", "beyond the first n=3"),
        ]


def test_in_a_pipeline_each_sentence_gets_its_item():
    catalog = Catalog(
        [
            Item(type="rule", name=name, text=text)
            for name, text in (
                ("a", "Open the issue"),
                ("b", "Open the issue now."),
                ("c", "Pay that invoice."),
            )
        ]
    )
    batch = Batch.of(catalog, [Request(id="q", text="Open the issue. Pay that invoice soon.")])
    sizes = {}
    for name, refine in {
        "first": [{"first": {"n": 2}}],
        "more": [{"first": {"n": 2}}, "per_chunk"],
        "instead": [{"first": {"n": 2}}, {"per_chunk": {"displace": True}}],
        "cut again": [{"first": {"n": 2}}, "per_chunk", {"first": {"n": 1}}],
    }.items():
        table = Pipeline.of({"retrieve": "dense", "refine": refine}).run(batch, testing.mock_resources()).candidates
        sizes[name] = [catalog[int(item)].name for item in table.item[table.chosen]]
    assert sizes == {"first": ["a", "b"], "more": ["a", "b", "c"], "instead": ["a", "c"], "cut again": ["a"]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"minimum": -1}, "minimum must be 0 or more, got -1"),
        ({"above": math.inf}, "above must be a finite number, got inf"),
    ],
)
def test_options_out_of_range_are_errors(given, message):
    with pytest.raises(ParameterError, match=message):
        PerChunk(**given)


ROWS = st.lists(
    st.tuples(st.sampled_from([-0.2, 0.0, 0.2, 0.5, 0.5, 0.9]), st.integers(-1, 3)), max_size=10
).map(lambda rows: sorted(rows, key=lambda row: -row[0]))  # fmt: skip


@PROPERTY
@given(st.lists(ROWS, min_size=1, max_size=3), st.integers(0, 6), st.integers(0, 3))
def test_no_chunk_is_left_with_less_than_the_minimum_or_what_it_has(requests, first, minimum):
    after = offered(PerChunk(minimum=minimum), table(*requests, first=first))
    for rows, kept in zip(requests, after, strict=True):
        assert set(range(min(first, len(rows)))) <= set(kept)  # what was chosen stays
        for chunk in range(4):
            of_chunk = [item for item, (_, own) in enumerate(rows) if own == chunk]
            may = [item for item in of_chunk if item < first or rows[item][0] > 0]
            assert len(set(kept) & set(of_chunk)) >= min(minimum, len(may))
            # and never more than were chosen before, or the minimum
            assert len(set(kept) & set(of_chunk)) <= max(minimum, sum(item < first for item in of_chunk))
        assert all(rows[item][1] >= 0 for item in set(kept) if item >= first)


@PROPERTY
@given(st.lists(ROWS, min_size=1, max_size=3), st.integers(0, 6), st.integers(0, 3))
def test_displacing_never_changes_the_size_nor_brings_a_chunk_below_its_minimum(requests, first, minimum):
    after = offered(PerChunk(minimum=minimum, displace=True), table(*requests, first=first))
    for rows, kept in zip(requests, after, strict=True):
        assert len(kept) == min(first, len(rows))
        short, spare = 0, 0
        for chunk in range(4):
            of_chunk = [item for item, (_, own) in enumerate(rows) if own == chunk]
            had, has = sum(item < first for item in of_chunk), len(set(kept) & set(of_chunk))
            assert has >= min(minimum, had)
            may = [item for item in of_chunk if item < first or rows[item][0] > 0]
            short += max(min(minimum, len(may)) - has, 0)
            spare += max(has - minimum, 0)
        spare += sum(rows[item][1] < 0 for item in kept)
        assert not (short and spare)  # it falls short only where there is nothing left to displace


@PROPERTY
@given(st.lists(ROWS, min_size=1, max_size=3), st.integers(0, 6), st.integers(0, 3))
def test_a_larger_minimum_never_offers_less(requests, first, minimum):
    few = offered(PerChunk(minimum=minimum), table(*requests, first=first))
    more = offered(PerChunk(minimum=minimum + 1), table(*requests, first=first))
    assert all(set(a) <= set(b) for a, b in zip(few, more, strict=True))


def test_session_rows_are_of_no_chunk():
    candidates = Candidates.build(
        1, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), origin=np.array([Origin.SESSION])
    )
    assert offered(PerChunk(minimum=5, displace=True), candidates) == [[0]]


def test_what_an_expansion_brought_in_serves_no_chunk_of_the_request():
    found = Candidates.build(
        1,
        np.zeros(3, dtype=np.int64),
        np.arange(3),
        score=np.array([0.9, 0.5, 0.8]),
        query_chunk=np.array([0, 1, 1]),
        origin=np.array([Origin.SEARCH, Origin.SEARCH, Origin.EXPANSION]),
        tier=np.ones(3, dtype=np.int64),
        via_item=np.array([-1, -1, 0]),
    )
    cut = found.exclude(found.item == 1, "first")
    assert offered(PerChunk(minimum=1), cut) == [[0, 2, 1]]
