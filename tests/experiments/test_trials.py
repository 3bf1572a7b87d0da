"""Trials of abstention, and what their table counts: values worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from abstention import effect
from trials import AbstentionData, abstention_trial, joined_groups, ratio_interval, similarity

from ctxbench import testing
from ctxbench.datasets.dataset import Dataset
from ctxbench.tuning.fit_examples import folds_of, make_examples
from tests.tuning.fits.fit_cases import PIPELINE, made, words_dataset


@pytest.fixture(scope="module")
def data() -> Dataset:
    return words_dataset()


@pytest.fixture(scope="module")
def resources():
    return testing.mock_resources()


class TestTrials:
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

    def test_what_is_gone_and_lost_with_queries_of_one_group_as_one(self):
        needs = np.array([True, True, False, False])
        some = made([0, 1, 2, 3], needs.tolist(), needed=[(0, [0]), (1, [1])], n=4)
        before = AbstentionData(
            examples=some,
            recall=np.array([1.0, 0.5, 0.0, 0.0]),
            falsely_offered=~needs,
            items=np.array([0.0, 0.0, 4.0, 1.0]),
            signal=np.array([0.9, 0.4, 0.3, 0.6]),
        )
        row = effect(before, before.without(before.signal < 0.5))
        assert (row["queries"], row["items"], row["lost"]) == (0.5, 0.8, 0.25)
        assert (row["n_idle"], row["n_needing"], row["p"]) == (2, 2, 1.0)
