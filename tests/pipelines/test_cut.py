from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates, Origin, Rule, place_among
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch, Query
from ctxbench.pipelines.strategies.cut import (
    AtLeast,
    First,
    Gap,
    Margin,
    Matched,
    PerChunk,
    Standard,
    TopChunks,
    offered_length,
)

QUERY = Query.of_chunks(Batch.of(Catalog([]), []), [])  # no cut looks at the query
PROPERTY = settings(max_examples=150, deadline=None, database=None, derandomize=True)


def table(*requests: list[float], ranks: list[int] | None = None) -> Candidates:
    """Items 0, 1, ... of each request with these scores; each is one chunk unless `ranks` says otherwise."""
    request = np.repeat(np.arange(len(requests)), [len(scores) for scores in requests])
    item = np.concatenate([np.arange(len(scores)) for scores in requests]).astype(np.int64)
    chunk_rank = np.concatenate([np.arange(len(scores)) for scores in requests]) if ranks is None else np.array(ranks)
    return Candidates.build(len(requests), request, item, score=np.concatenate(requests), chunk_rank=chunk_rank)


def cut(step, candidates: Candidates) -> Candidates:
    return step(QUERY, candidates, testing.mock_resources())


def offered(step, candidates: Candidates) -> list[list[int]]:
    after = cut(step, candidates)
    rows = [after.rows(request) for request in range(after.n_requests)]
    return [after.item[row][after.chosen[row]].tolist() for row in rows]


class TestMatched:
    MERGED = table([0.9, 0.8, 0.7]).with_columns(
        words=np.array([np.nan, 0.8, np.nan]), paths=np.array([np.nan, np.nan, 1.0]), changes=np.array([0.9, 0.1, 0.2])
    )

    def test_what_no_named_source_found_is_excluded_with_its_rule(self):
        after = cut(Matched(by=("words", "paths")), self.MERGED)
        assert after.chosen.tolist() == [False, True, True]
        assert after.rules[after.out[0]] == Rule.of("unmatched", by="words, paths")
        assert offered(Matched(by=("words",)), self.MERGED) == [[1]]

    def test_without_sources_nothing_changes(self):
        assert Matched().off
        assert offered(Matched(by=("words",)), table([0.9])) == [[0]]  # one retriever has no sources

    def test_a_source_that_is_not_there_is_refused(self):
        with pytest.raises(ParameterError, match="by names word; the sources are words, paths, changes"):
            cut(Matched(by=("word",)), self.MERGED)


class TestStandard:
    @pytest.mark.parametrize(
        ("scores", "topN", "includeScore", "kept"),
        [
            ([0.9, 0.8, 0.75, 0.6], 2, 0.7, 3),  # three reach the threshold: topN is a floor, not a cap
            ([0.9, 0.6, 0.5, 0.4], 2, 0.7, 2),  # one reaches it: the floor offers two
            ([0.6, 0.5], 5, 0.7, 2),  # no more than there is
            ([0.9, 0.6], 0, 0.7, 1),
            ([0.6, 0.5], 0, 0.7, 0),
            ([0.7, 0.5], 0, 0.7, 1),  # at least, not above
            ([0.5, 0.0, -0.1], 5, -1.0, 1),  # 0 and less are out, whatever the threshold
            ([0.9], 1, 0.7, 1),
            ([], 5, 0.7, 0),
        ],
    )  # fmt: skip
    def test_what_is_offered_is_max_of_high_and_floor(self, scores, topN, includeScore, kept):
        step = Standard(topK=20, topN=topN, includeScore=includeScore)
        assert offered(step, table(scores)) == [list(range(kept))]

    def test_topk_limits_chunk_matches_not_items(self):
        # the third item's best chunk is fourth among all chunks: the first item had two before it
        candidates = table([0.9, 0.8, 0.75], ranks=[0, 2, 3])
        assert offered(Standard(topK=3, topN=0, includeScore=0.5), candidates) == [[0, 1]]
        assert offered(Standard(topK=4, topN=0, includeScore=0.5), candidates) == [[0, 1, 2]]
        assert offered(Standard(topK=0, topN=5, includeScore=0.5), candidates) == [[]]

    def test_every_item_out_names_the_rule_that_met_it_first(self):
        after = cut(Standard(topK=3, topN=1, includeScore=0.7), table([0.9, 0.5, -0.2, -0.3]))
        assert [str(after.rules[out] or "") for out in after.out] == [
            "",
            "beyond the first topN=1 and its score is below includeScore=0.7",
            "its score is not above 0",
            "its best chunk is not among the best topK=3 chunks",
        ]

    def test_of_ties_the_first_in_the_catalog_are_offered(self):
        assert offered(Standard(topK=20, topN=2, includeScore=0.7), table([0.5, 0.5, 0.5])) == [[0, 1]]

    def test_what_an_earlier_step_kept_out_is_not_counted(self):
        candidates = table([0.9, 0.8, 0.6, 0.5])
        before = candidates.exclude(candidates.item == 0, "not this one")
        assert offered(Standard(topK=20, topN=2, includeScore=0.7), before) == [[1, 2]]
        assert before.rules == (None, Rule("not this one"))

    def test_the_session_and_expansions_are_not_its_to_cut(self):
        candidates = Candidates.build(
            1,
            np.zeros(3, dtype=np.int64),
            np.arange(3),
            score=np.array([np.nan, 0.1, 0.1]),
            origin=np.array([Origin.SESSION, Origin.SEARCH, Origin.EXPANSION]),
        )
        assert offered(Standard(topN=0), candidates) == [[0, 2]]

    def test_each_request_is_cut_on_its_own(self):
        step = Standard(topK=20, topN=1, includeScore=0.7)
        assert offered(step, table([0.9, 0.8], [], [0.3, 0.2], [0.9])) == [[0, 1], [], [0], [0]]

    def test_no_request_is_no_request(self):
        assert cut(Standard(), Candidates.empty(0)).n_requests == 0

    def test_the_defaults_are_the_documents(self):
        assert Standard() == Standard(topK=20, topN=5, includeScore=0.7)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"topK": -1}, "topK must be 0 or more, got -1"),
            ({"topN": -1}, "topN must be 0 or more, got -1"),
            ({"includeScore": math.inf}, "includeScore must be a finite number, got inf"),
        ],
    )
    def test_options_out_of_range_are_errors(self, given, message):
        with pytest.raises(ParameterError, match=message):
            Standard(**given)

    @PROPERTY
    @given(
        st.lists(
            st.lists(st.tuples(st.sampled_from([-0.2, 0.0, 0.3, 0.5, 0.7, 0.9]), st.integers(1, 3)), max_size=8),
            min_size=1,
            max_size=4,
        ),
        st.integers(0, 12),
        st.integers(0, 6),
        st.sampled_from([-0.5, 0.0, 0.3, 0.6, 0.7, 1.0]),
    )
    def test_it_equals_the_documents_in_ten_lines(self, requests, topK, topN, includeScore):
        scores, ranks = [], []
        for items in requests:
            best = sorted((score for score, _ in items), reverse=True)
            # the other chunks of an item stand right behind its best one
            counts = [n for _, n in sorted(items, key=lambda one: -one[0])]
            scores.append(best)
            ranks += np.cumsum([0, *counts])[: len(counts)].tolist()
        step = Standard(topK=topK, topN=topN, includeScore=includeScore)
        flat = iter(ranks)
        expected = [naive(row, [next(flat) for _ in row], topK, topN, includeScore) for row in scores]
        assert offered(step, table(*scores, ranks=ranks)) == expected


def naive(scores: list[float], ranks: list[int], topK: int, topN: int, includeScore: float) -> list[int]:
    """Design 4.1: the topK best item chunks, scores <= 0 dropped, best per item; the first
    max(topN, number of items >= includeScore) of them."""
    found = []
    for item, (score, rank) in enumerate(zip(scores, ranks, strict=True)):
        if rank < topK and score > 0:
            found.append((item, score))
    high = sum(score >= includeScore for _, score in found)
    return [item for item, _ in found][: max(topN, high)]


class TestFirst:
    def test_the_first_n_of_each_request(self):
        assert offered(First(n=2), table([0.9, 0.8, -0.7], [0.1], [])) == [[0, 1], [0], []]
        assert offered(First(n=0), table([0.9], [0.1])) == [[], []]

    def test_of_ties_the_first_in_the_catalog(self):
        assert offered(First(n=2), table([0.0, 0.0, 0.0])) == [[0, 1]]

    def test_what_is_out_already_does_not_count_and_keeps_its_rule(self):
        candidates = table([0.9, 0.8, 0.7])
        after = cut(First(n=1), candidates.exclude(candidates.item == 0, "not this one"))
        assert [str(after.rules[out] or "") for out in after.out] == ["not this one", "", "beyond the first n=1"]

    def test_the_session_stays(self):
        candidates = Candidates.build(
            1, np.zeros(2, dtype=np.int64), np.arange(2), score=np.array([np.nan, 0.4]), origin=np.array([0, 1])
        )
        assert offered(First(n=0), candidates) == [[0]]

    def test_no_request_and_no_row(self):
        assert offered(First(), Candidates.empty(0)) == []
        assert offered(First(), Candidates.empty(2)) == [[], []]

    def test_a_negative_n_is_an_error(self):
        with pytest.raises(ParameterError, match="n must be 0 or more, got -1"):
            First(n=-1)


def test_the_length_is_max_of_high_and_min_of_floor_and_found():
    found, high = np.array([0, 1, 9, 9]), np.array([0, 0, 2, 7])
    assert offered_length(found, high, 5).tolist() == [0, 1, 5, 7]
    assert offered_length(found, high, 0).tolist() == [0, 0, 2, 7]


def test_places_are_counted_among_the_rows_asked_for():
    candidates = table([0.9, 0.8, 0.7], [], [0.6, 0.5])
    rows = np.array([True, False, True, False, True])
    assert place_among(candidates, rows).tolist() == [0, -1, 1, -1, 0]
    assert place_among(Candidates.empty(0), np.empty(0, dtype=bool)).tolist() == []


class TestTopChunks:
    def test_an_item_stays_if_its_best_chunk_is_among_the_best(self):
        candidates = table([0.9, 0.8, -0.2], ranks=[0, 2, 3])  # the first item has two chunks before the second one's
        for topK, kept in ((0, []), (1, [0]), (2, [0]), (3, [0, 1]), (4, [0, 1, 2])):
            assert offered(TopChunks(topK=topK), candidates) == [kept]

    def test_the_cut_behind_it_counts_what_is_left(self):
        after = cut(TopChunks(topK=2), table([0.9, 0.8, 0.75, 0.6]))
        assert offered(Standard(topK=20, topN=3, includeScore=1.0), after) == [[0, 1]]

    def test_an_item_out_names_its_rule_and_nothing_is_dropped(self):
        after = cut(TopChunks(topK=1), table([0.9, 0.5], [0.4]))
        assert [str(after.rules[out] or "") for out in after.out] == [
            "",
            "its best chunk is not among the best topK=1 chunks",
            "",
        ]
        assert len(cut(TopChunks(topK=1), table([]))) == 0

    def test_it_looks_as_far_as_it_counts(self):
        assert TopChunks(topK=7).reach == 7
        with pytest.raises(ParameterError, match="topK must be 0 or more, got -1"):
            TopChunks(topK=-1)


@pytest.mark.parametrize(
    ("cut", "wider"),
    [
        (Standard(topN=3, includeScore=0.5), {"topN": 6}),
        (Standard(topN=3, includeScore=0.4), {}),  # it is another rule that excludes the item
        (First(n=5), {"n": 6}),
        (First(n=6), {}),
        (Margin(margin=0.1, at_most=5), {"margin": 0.401, "at_most": 6}),
        (Margin(margin=0.1, at_least=6), {}),
        (Margin(margin=0.1, of="ratio"), {"margin": 0.501}),
        (Margin(margin=0.5), {}),
        (Gap(at_most=4), {"at_most": 6}),
        (AtLeast(threshold=0.5), {"threshold": 0.4}),
        (AtLeast(threshold=0.5, at_most=5), {"threshold": 0.4, "at_most": 6}),
        (PerChunk(), {}),
    ],
    ids=str,
)
def test_a_cut_names_the_values_that_let_an_item_in(cut, wider):
    assert cut.wider(rank=6, score=0.4, best=0.8) == wider


def test_a_margin_behind_the_standard_cut_that_excludes_nothing_is_known():
    margin = Margin(margin=1, of="ratio", at_most=20)
    assert margin.leaves_all(Standard(topK=20))
    assert not margin.leaves_all(Standard(topK=21))
    assert not margin.leaves_all(First())
    assert not Margin(margin=1, at_most=20).leaves_all(Standard(topK=20))
