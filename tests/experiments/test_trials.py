"""Trials of cuts and abstention, and what their tables count: values worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from trials import (
    AbstentionData,
    abstention_trial,
    cut_trial,
    joined_groups,
    ratio_interval,
    recall_of_first,
    reliability,
    roc_area_by_stratum,
    similarity,
)

from ctxbench import testing
from ctxbench.datasets.dataset import Dataset
from ctxbench.tuning.fit_examples import folds_of, make_examples
from ctxbench.tuning.query_fits import roc_area
from tests.tuning.fits.fit_cases import EXAMPLES, PIPELINE, SCORES, made, words_dataset


@pytest.fixture(scope="module")
def data() -> Dataset:
    return words_dataset()


@pytest.fixture(scope="module")
def resources():
    return testing.mock_resources()


class TestTrials:
    def test_a_trial_takes_the_threshold_of_the_other_fold(self):
        two = made([0, 1], [True, True], needed=[(0, [0]), (1, [1])], n=2)
        scores = {2: np.array([0.9, 0.3])}
        point = cut_trial(two, lambda some: scores.get(some.n_queries, np.array([0.5])), items=1.0, folds=2)
        assert (point.recall.value, point.items.value) == (0.5, 0.5)  # 0.9 reaches 0.5, 0.3 does not

    def test_the_recall_of_the_first_is_a_mean_over_queries(self):
        assert recall_of_first(EXAMPLES, SCORES, 3).tolist() == [0.25, 0.75, 0.75]  # 1 and 2 of 2; 0 and 1 of 2

    def test_what_ties_counts_as_the_last(self):
        assert recall_of_first(EXAMPLES, np.ones(5), 3).tolist() == [0.0, 0.25, 0.75]

    def test_recall_lost_and_false_inclusions_gone(self):
        some = made([0, 1, 2, 3], [True, True, False, False], needed=[(0, [0]), (1, [1])], n=4)
        silence = AbstentionData(
            examples=some,
            recall=np.array([1.0, 0.5, 0.0, 0.0]),
            falsely_offered=np.array([False, False, True, True]),
            items=np.array([0.0, 0.0, 3.0, 1.0]),
            signal=np.array([0.9, 0.4, 0.3, 0.6]),
        )
        assert silence.thresholds.tolist() == [0.3, 0.4, 0.6, 0.9]
        assert silence.lost.tolist() == [0.0, 0.0, 0.25, 0.25]
        assert silence.removed_share.tolist() == [0.0, 0.5, 0.5, 1.0]
        assert [silence.threshold(lost) for lost in (0.0, 0.2, 0.25)] == [0.4, 0.4, 0.9]
        left = silence.without(silence.signal < 0.6)
        assert (left.recall.tolist(), left.falsely_offered.tolist()) == ([1, 0, 0, 0], [False, False, False, True])
        assert left.items.tolist() == [0, 0, 0, 1]
        part = silence.select_queries(np.array([False, True, True, False]))
        assert (part.examples.ids, part.signal.tolist(), part.examples.needs.tolist()) == (
            ("1", "2"),
            [0.4, 0.3],
            [True, False],
        )

    def test_a_trial_takes_fit_and_threshold_of_the_other_folds(self):
        """The score of a part says which queries it saw; the threshold of a fold is that of all but its own."""
        needs = np.array([True, False] * 4)
        some = made(list(range(8)), needs.tolist(), needed=[(n, [n]) for n in range(0, 8, 2)], n=8)
        whole = AbstentionData(some, needs.astype(float), ~needs, (~needs).astype(float), np.zeros(8))
        asked = []

        def score(part):
            asked.append(part.ids)
            return np.where(part.label, 0.9, 0.2) if part.n_queries == 8 else np.where(part.label, 0.5, 0.1)

        trial = abstention_trial(whole, score, lost=(0.0, 1.0), folds=2)
        fold = folds_of(some.groups, 2)
        assert asked == [some.ids, *(tuple(np.array(some.ids)[fold != one]) for one in (0, 1))]
        assert trial.before.signal.tolist() == [0.9, 0.2] * 4
        assert {loss: limit.tolist() for loss, limit in trial.thresholds.items()} == {0.0: [0.5, 0.5], 1.0: [0.5, 0.5]}
        assert trial.after[0.0].falsely_offered.tolist() == [False] * 8
        assert trial.after[0.0].recall.tolist() == needs.astype(float).tolist()

    @pytest.mark.parametrize("what", ["probability", "abstention"])
    def test_the_similarity_of_every_row_is_among_its_features(self, data, resources, what):
        found = PIPELINE.run(data.batch(), resources).candidates
        best = [found.score[found.request == one].max() for one in range(len(data))]
        said = similarity(make_examples(what, data, PIPELINE, resources))
        assert said == pytest.approx(found.score if what == "probability" else best, abs=1e-6)


class TestTables:
    def test_within_strata_only_their_own_pairs_count(self):
        label = np.array([True, False, True, False])
        score = np.array([0.1, 0.2, 0.9, 0.3])
        assert roc_area(label, score) == 0.5
        assert roc_area_by_stratum(label, score, np.array([1, 1, 2, 2])) == 0.5
        assert roc_area_by_stratum(label, score, np.array([1, 2, 3, 2])) != roc_area_by_stratum(
            label, score, np.array([1, 2, 2, 1])
        )
        assert math.isnan(roc_area_by_stratum(label, score, np.array([1, 2, 3, 4])))

    def test_a_ratio_of_sums_by_group(self):
        top, bottom = np.array([1.0, 0.0, 2.0]), np.array([2.0, 2.0, 4.0])
        same = ratio_interval(top, bottom, ["a", "a", "a"])
        assert (same.low, same.high, same.holds) == (0.375, 0.375, False)
        several = ratio_interval(top, bottom, ["a", "b", "c"])
        assert (several.low, several.high) == (0.0, 0.5)

    def test_groups_that_share_an_item_are_joined_through_others_too(self):
        eligible = np.zeros((5, 6), dtype=bool)
        for query, item in ((0, 0), (1, 0), (1, 1), (2, 2), (3, 1), (4, 5)):
            eligible[query, item] = True
        assert joined_groups(("c", "b", "a", "d", "d"), eligible) == ("b", "b", "a", "b", "b")
        assert joined_groups(("a", "b"), np.zeros((2, 3), dtype=bool)) == ("a", "b")


class TestReliability:
    def test_what_was_said_and_what_was(self):
        low, high = reliability(np.array([True, False, True]), np.array([0.2, 0.4, 1.0]), (0.0, 0.5, 0.9, 1.0))
        assert (low.low, low.high, low.n, low.observed) == (0.0, 0.5, 2, 0.5)
        assert low.predicted == pytest.approx(0.3)
        assert (high.low, high.high, high.n, high.predicted, high.observed) == (0.9, 1.0, 1, 1.0, 1.0)
