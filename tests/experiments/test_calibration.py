"""Tables of calibrations: small ones read by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from abstention_tables import (
    area_table,
    figure,
    gone,
    held,
    nested_table,
    said_and_was,
    silence_comparisons,
    silence_table,
    trade_table,
)
from trials import AbstentionData, AbstentionTrial

from ctxbench.evaluation.statistics import Interval
from ctxbench.tuning.fit_examples import Examples

NEEDS = np.array([True, True, False, False])
MADE = Examples(
    what="abstention",
    names=("best.score",),
    features=np.zeros((4, 1)),
    vectors=np.zeros((4, 0)),
    label=NEEDS,
    query=np.arange(4),
    ids=("a", "b", "c", "d"),
    groups=("a", "b", "c", "d"),
    needed=np.array([0, 1]),
    required_rows=(),
    needs=NEEDS,
)


def silence(recall, shown, items) -> AbstentionData:
    signal = np.array([0.9, 0.4, 0.3, 0.6])
    return AbstentionData(MADE, np.array(recall, float), np.array(shown, bool), np.array(items, float), signal)


BEFORE = silence([1.0, 0.5, 0.0, 0.0], [0, 0, 1, 1], [0, 0, 4, 1])
AFTER = silence([1.0, 0.5, 0.0, 0.0], [0, 0, 0, 1], [0, 0, 0, 1])


def test_what_is_gone_and_what_it_cost_is_held_against_the_bars():
    compared = silence_comparisons(BEFORE, AFTER)
    rows = [row.split(" | ") for row in silence_table(BEFORE, AFTER, compared, fewer=0.6, loss=0.02)][2:]
    assert [row[1:3] for row in rows] == [["2", "1"], ["5", "1"], ["0.750", "0.750"]]
    assert [row[3].split(" ")[0] for row in rows] == ["0.500", "0.800", "0.0000"]
    assert [row[4] for row in rows] == ["0.6: **does not hold**", "0.6: holds", "at most 0.02: holds"]
    assert rows[0][5] == "1.000 |"  # one query of two differs


def test_queries_of_one_group_are_one_witness():
    groups = tuple("x" if place < 8 else str(place) for place in range(9))
    made = replace(MADE, needs=np.ones(9, bool), groups=groups, ids=tuple("abcdefghi"), label=np.ones(9, bool))
    before = AbstentionData(made, np.ones(9), np.zeros(9, bool), np.zeros(9), np.zeros(9))
    after = before.without(np.arange(9) < 8)
    assert silence_comparisons(before, after)["recall"].p == 1.0  # by query, 2 / 2 ** 8


def test_all_queries_in_folds():
    trial = AbstentionTrial(BEFORE, {0.01: np.array([0.2, 0.4])}, {0.01: AFTER})
    *_, row = nested_table({"signal": trial})
    assert row == "| signal | 0.01 | 0.200 to 0.400 | 0.0000 | 0.500 | 0.800 |"
    assert gone(BEFORE, AFTER) == (0.0, 0.5, 0.8)


def test_the_verdict_is_that_of_the_figures_and_of_their_intervals():
    said = held(BEFORE, AFTER, 0.5, 0.02)
    assert said.startswith("50% of the false inclusions are gone by query and 80% by item, at 0.0000 recall lost")
    assert "holds by these figures and **does not hold** by the worse ends" in said
    assert "**does not hold** by these figures" in held(BEFORE, AFTER, 0.6, 0.02)


def test_thresholds_of_one_split_are_tried_on_the_other():
    *_, row = trade_table({"signal": BEFORE}, {"signal": BEFORE}, (0.0,))
    assert row == "| signal | 0 | 0.400 | 0.0000 | 0.500 | 0.800 |"


def test_areas_stand_beside_that_of_the_list_s_size():
    rows = list(area_table({"signal": BEFORE}, {"signal": BEFORE}, np.array([1, 1, 1, 2])))
    assert rows[2].startswith("| signal | 0.750 [")
    assert rows[2].endswith("| 1.000 |")  # of the pairs with lists of one size, all are right
    assert rows[3].endswith("| | 0.250 | |")


def test_what_was_said_and_what_was():
    rows = list(said_and_was(np.array([True, False]), np.array([0.95, 0.01])))
    assert rows[2:] == ["| 0 to 0.02 | 1 | 0.010 | 0.000 |", "| 0.9 to 1 | 1 | 0.950 | 1.000 |"]


def test_an_interval_that_does_not_hold_says_so():
    assert figure(0.5, Interval(low=0.25, high=0.75, level=0.95, method="", holds=True)) == "0.500 [0.250, 0.750]"
    assert "too few" in figure(0.5, Interval(low=0.0, high=1.0, level=0.95, method="", holds=False))
