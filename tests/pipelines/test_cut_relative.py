from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates, Origin
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch, Query
from ctxbench.pipelines.pipeline import Pipeline, PipelineError
from ctxbench.pipelines.strategies.cut import Gap, Margin, fallen

QUERY = Query.of_chunks(Batch.of(Catalog([]), []), [])  # no cut looks at the query
PROPERTY = settings(max_examples=150, deadline=None, database=None, derandomize=True)
SCORES = st.lists(st.sampled_from([-0.25, 0.0, 0.125, 0.25, 0.5, 0.75, 1.0]), max_size=9).map(
    lambda scores: sorted(scores, reverse=True)
)
REQUESTS = st.lists(SCORES, min_size=1, max_size=4)


def table(*requests: list[float]) -> Candidates:
    """Items 0, 1, ... of each request with these scores, which fall."""
    request = np.repeat(np.arange(len(requests)), [len(scores) for scores in requests])
    item = np.concatenate([np.arange(len(scores)) for scores in requests]).astype(np.int64)
    return Candidates.build(len(requests), request, item, score=np.concatenate(requests))


def cut(step, candidates: Candidates) -> Candidates:
    return step(QUERY, candidates, testing.mock_resources())


def offered(step, candidates: Candidates) -> list[list[int]]:
    after = cut(step, candidates)
    rows = [after.rows(request) for request in range(after.n_requests)]
    return [after.item[row][after.chosen[row]].tolist() for row in rows]


def mixed() -> Candidates:
    """A session item, three found, of which the first is out already, and one that an expansion brought in."""
    candidates = Candidates.build(
        1,
        np.zeros(5, dtype=np.int64),
        np.arange(5),
        score=np.array([np.nan, 0.9, 0.5, 0.125, 0.0625]),
        origin=np.array([Origin.SESSION, Origin.SEARCH, Origin.SEARCH, Origin.SEARCH, Origin.EXPANSION]),
    )
    return candidates.exclude(candidates.item == 1, "not this one")


class TestMargin:
    @pytest.mark.parametrize(
        ("scores", "given", "kept"),
        [
            ([0.75, 0.625, 0.5, 0.25], {"margin": 0.25}, 3),  # 0.75 - 0.25 = 0.5 is still within
            ([0.75, 0.625, 0.5, 0.25], {"margin": 0.2}, 2),
            ([0.5, 0.5, 0.25], {"margin": 0.0}, 2),  # the best and its ties
            ([0.25], {"margin": 0.0}, 1),
            ([], {"margin": 0.5}, 0),
            ([1.0, 0.75, 0.5], {"margin": 0.25, "of": "ratio"}, 2),  # 0.75 of the best
            ([0.5, 0.375, 0.25], {"margin": 0.25, "of": "ratio"}, 2),  # 0.375 = 0.75 x 0.5
            ([0.5, 0.375, 0.25], {"margin": 1.0, "of": "ratio"}, 3),  # from 0 on
            ([0.5, -0.25], {"margin": 1.0, "of": "ratio"}, 1),
            ([-0.5, -0.5, -0.75], {"margin": 1.0, "of": "ratio"}, 2),  # no share of what is not above 0: ties only
            ([-0.5, -0.75], {"margin": 0.25}, 2),
            ([0.75, 0.25, 0.125], {"margin": 0.1, "at_least": 2}, 2),
            ([0.75], {"margin": 0.1, "at_least": 2}, 1),  # no more than there is
            ([0.75, 0.75, 0.75], {"margin": 0.5, "at_most": 2}, 2),  # of ties the first in the catalog
            ([0.75, 0.5], {"margin": 0.5, "at_most": 0}, 0),
        ],
    )
    def test_what_is_within_the_margin_of_the_best_is_offered(self, scores, given, kept):
        assert offered(Margin(**given), table(scores)) == [list(range(kept))]

    def test_each_request_has_its_own_best(self):
        assert offered(Margin(margin=0.25), table([1.0, 0.5], [], [0.5, 0.25], [0.25])) == [[0], [], [0, 1], [0]]

    def test_only_what_was_found_and_is_not_out_is_looked_at(self):
        assert offered(Margin(margin=0.375), mixed()) == [[0, 2, 3, 4]]  # 0.5 is the best that is left
        assert offered(Margin(margin=0.25), mixed()) == [[0, 2, 4]]
        assert offered(Margin(at_most=0), mixed()) == [[0, 4]]

    def test_what_is_out_names_the_rule_that_met_it_first(self):
        after = cut(Margin(margin=0.25, at_most=5), mixed())
        assert [str(after.rules[out] or "") for out in after.out] == [
            *("", "not this one", ""),
            "more than margin=0.25 below the best",
            "",
        ]
        after = cut(Margin(margin=0.375, at_most=1), mixed())
        assert str(after.rules[after.out[3]] or "") == "beyond at_most=1"
        after = cut(Margin(margin=0.25, of="ratio", at_most=5), mixed())
        assert str(after.rules[after.out[3]] or "") == "more than margin=0.25 of its score below the best"

    def test_no_request_and_no_row(self):
        assert offered(Margin(), Candidates.empty(0)) == []
        assert offered(Margin(), Candidates.empty(2)) == [[], []]

    def test_each_domain_has_a_best_of_its_own(self):
        spec = {
            "retrieve": "everything",
            "refine": [{"by_domain": {"tool": [{"margin": {"at_most": 2}}], "*": [{"margin": {"at_most": 1}}]}}],
        }
        batch = Batch.of(testing.mock_catalog(), testing.mock_requests()[:1])
        after = Pipeline.of(spec).run(batch, testing.mock_resources()).candidates
        found = after.item[after.chosen & (after.origin == Origin.SEARCH)]
        types = [batch.catalog[int(item)].type for item in found]
        assert types == ["tool", "tool", "rule"]

    def test_the_threshold_is_how_a_score_stands_to_the_best(self):
        assert Margin(margin=0.25).thresholds == {"difference": {"margin": -0.25}}
        assert Margin(margin=0.25, of="ratio").thresholds == {"ratio": {"margin": 0.75}}

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"margin": -0.1}, "margin must be a finite number, 0 or more, got -0.1"),
            ({"margin": math.inf}, "margin must be a finite number, 0 or more, got inf"),
            ({"margin": math.nan}, "margin must be a finite number, 0 or more, got nan"),
            ({"margin": 1.5, "of": "ratio"}, "margin must be 0 to 1 with of: ratio, a share of the best, got 1.5"),
            ({"of": "share"}, "of must be difference or ratio, got 'share'"),
            ({"at_least": -1}, "at_least must be 0 or more, got -1"),
            ({"at_least": 3, "at_most": 2}, "at_most must not be below at_least, got at_most 2 and at_least 3"),
        ],
    )
    def test_options_out_of_range_are_errors(self, given, message):
        with pytest.raises(ParameterError, match=message):
            Margin(**given)

    @PROPERTY
    @given(REQUESTS, st.sampled_from(["difference", "ratio"]), st.floats(0, 1), st.floats(0, 1), st.integers(0, 3))
    def test_a_larger_margin_never_offers_less_and_what_is_offered_is_a_prefix(self, requests, of, one, other, least):
        small, large = sorted([one, other])
        before = offered(Margin(margin=small, of=of, at_least=least, at_most=6), table(*requests))
        after = offered(Margin(margin=large, of=of, at_least=least, at_most=6), table(*requests))
        for scores, few, more in zip(requests, before, after, strict=True):
            assert few == list(range(len(few)))
            assert more == list(range(len(more)))
            assert min(least, len(scores)) <= len(few) <= len(more) <= 6

    @PROPERTY
    @given(REQUESTS, st.sampled_from([0.0, 0.125, 0.25, 0.5]))
    def test_it_equals_the_definition(self, requests, margin):
        expected = [[i for i, score in enumerate(scores) if score >= scores[0] - margin] for scores in requests]
        assert offered(Margin(margin=margin), table(*requests)) == expected


class TestFallen:
    @pytest.mark.parametrize(
        ("scores", "of", "expected"),
        [
            ([0.5, 0.375, 0.25, 0.0, -0.5], "difference", [0.0, 0.125, 0.25, 0.5, 1.0]),
            ([0.5, 0.375, 0.25, 0.0, -0.5], "ratio", [0.0, 0.25, 0.5, 1.0, 2.0]),
            ([0.0, 0.0, -0.5], "ratio", [0.0, 0.0, math.inf]),  # of a best that is not above 0 there is no share
            ([-0.5, -0.5, -0.75], "ratio", [0.0, 0.0, math.inf]),
            ([-0.5, -0.75], "difference", [0.0, 0.25]),
            ([5e-324, -1e308], "ratio", [0.0, math.inf]),
            ([1e308, -1e308], "difference", [0.0, math.inf]),
        ],
    )
    def test_it_is_the_distance_to_the_best(self, scores, of, expected):
        row = np.array([scores])
        assert fallen(row, row[:, :1], of).tolist() == [expected]
        assert fallen(row[0], row[0, :1], of).tolist() == expected

    def test_nothing_has_not_fallen(self):
        assert fallen(np.empty((0, 3)), np.empty((0, 1)), "ratio").shape == (0, 3)

    @PROPERTY
    @given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), st.sampled_from(["difference", "ratio"]))
    def test_along_a_ranking_it_never_falls(self, scores, of):
        row = np.array(sorted(scores, reverse=True))
        found = fallen(row, row[:1], of)
        assert found[0] == 0
        assert (found[1:] >= found[:-1]).all()

    @PROPERTY
    @given(st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=6), st.sampled_from(["difference", "ratio"]), st.data())
    def test_the_step_keeps_what_has_fallen_by_at_most_the_margin(self, scores, of, data):
        row = np.array(sorted(scores, reverse=True))
        found = fallen(row, row[:1], of).tolist()
        for margin in (data.draw(st.sampled_from(found)), data.draw(st.floats(0, 1))):
            expected = [list(range(sum(one <= margin for one in found)))]
            assert offered(Margin(margin=margin, of=of), table(row.tolist())) == expected


class TestGap:
    @pytest.mark.parametrize(
        ("scores", "given", "kept"),
        [
            ([0.75, 0.625, 0.25, 0.125], {}, 2),  # gaps 0.125, 0.375, 0.125
            ([0.75, 0.5, 0.25], {}, 1),  # of equal gaps the first
            ([0.75, 0.5, 0.25], {"at_least": 2}, 2),
            ([0.75, 0.625, 0.5, 0.0], {"at_most": 2}, 1),  # gaps behind 1 and 2: equal, the first
            ([0.75, 0.7, 0.5, 0.0], {"at_most": 2}, 2),  # the gap behind the last that may be offered counts
            ([0.75, 0.5, 0.0], {"at_most": 3}, 2),  # nothing stands behind the third: no gap there
            ([0.5, 0.5, 0.5], {}, 3),  # all equal: no gap at all
            ([0.5, 0.5, 0.5], {"at_most": 2}, 2),
            ([0.5, 0.5, 0.25, 0.25], {}, 2),
            ([0.75, 0.25], {"at_least": 2}, 2),  # no gap to choose from
            ([0.75, 0.25], {"at_least": 4}, 2),
            ([0.75], {}, 1),
            ([], {}, 0),
            ([-0.25, -0.75], {}, 1),
        ],
    )
    def test_the_ranking_ends_at_its_largest_gap(self, scores, given, kept):
        assert offered(Gap(**given), table(scores)) == [list(range(kept))]

    def test_each_request_has_its_own_gap(self):
        requests = ([0.75, 0.7, 0.25], [], [0.5], [0.5, 0.25, 0.2])
        assert offered(Gap(), table(*requests)) == [[0, 1], [], [0], [0]]

    def test_only_what_was_found_and_is_not_out_is_looked_at(self):
        after = cut(Gap(), mixed())  # 0.5 and 0.125 are left
        assert after.item[after.chosen].tolist() == [0, 2, 4]
        assert str(after.rules[after.out[3]] or "") == "below the largest gap of scores"

    def test_no_request_and_no_row(self):
        assert offered(Gap(), Candidates.empty(0)) == []
        assert offered(Gap(), Candidates.empty(2)) == [[], []]

    def test_the_one_behind_the_last_that_may_be_offered_decides_too(self):
        with pytest.raises(PipelineError, match="reads the best 6"):
            Pipeline.of({"retrieve": {"bm25": {"depth": 5}}, "refine": [{"gap": {"at_most": 5}}]})

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"at_least": 0}, "at_least must be 1 or more, got 0"),
            ({"at_least": 3, "at_most": 2}, "at_most must not be below at_least, got at_most 2 and at_least 3"),
        ],
    )
    def test_options_out_of_range_are_errors(self, given, message):
        with pytest.raises(ParameterError, match=message):
            Gap(**given)

    @PROPERTY
    @given(REQUESTS, st.integers(1, 4), st.integers(0, 5))
    def test_it_equals_the_definition(self, requests, at_least, more):
        step = Gap(at_least=at_least, at_most=at_least + more)
        assert offered(step, table(*requests)) == [list(range(naive_gap(scores, step))) for scores in requests]


def naive_gap(scores: list[float], step: Gap) -> int:
    """The length with the largest gap behind it, the first of equals; with no gap above 0, all that may be."""
    gaps = {
        n: scores[n - 1] - scores[n]
        for n in range(step.at_least, step.at_most + 1)
        if n < len(scores) and scores[n - 1] > scores[n]
    }
    return max(gaps, key=lambda n: (gaps[n], -n)) if gaps else min(len(scores), step.at_most)
