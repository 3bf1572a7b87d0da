"""Families: which settings they draw, in which order, and what they offer; equality with the steps is proved apart."""

from __future__ import annotations

import numpy as np
import pytest

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.metrics import Metric
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from ctxbench.tuning import rankings as threshold_sums
from ctxbench.tuning.cut_families import BudgetFamily, FixedK, StandardMargin, ThresholdFamily
from ctxbench.tuning.measures import Measure
from ctxbench.tuning.rankings import MeasuredRankings
from ctxbench.tuning.setting_lines import Counts, ThresholdSpan

CATALOG = Catalog([Item(type="tool", name=f"t{i}") for i in range(6)])
ITEMS, COMPLETE = Measure(Metric("items")), Measure(Metric("completeness"))
TOKENS = Measure(Metric("tokens"))


def measured_rankings(*scores: list[float], ranks: list[list[int]] | None = None) -> MeasuredRankings:
    """Items 0, 1, ... of each query with these scores, which fall; 10 tokens each; item 1 is what is needed."""
    n = len(scores)
    queries = tuple(DatasetQuery(request=Request(id=f"q{i}", text="?"), split="tuning") for i in range(n))
    labels = tuple(Label(f"q{i}", CATALOG[1].key, 2) for i in range(n))
    dataset = Dataset(name="small", version="1", catalog=CATALOG, queries=queries, labels=labels)
    sizes = [len(row) for row in scores]
    table = Candidates.build(
        n,
        np.repeat(np.arange(n), sizes),
        np.concatenate([np.arange(size) for size in sizes]).astype(np.int64),
        score=np.concatenate(scores).astype(np.float64),
        chunk_rank=np.concatenate([np.arange(size) for size in sizes] if ranks is None else ranks).astype(np.int64),
    )
    return MeasuredRankings.of(table, Labels.of(dataset, np.full(6, 10)), [ITEMS, COMPLETE, TOKENS])


TWO = measured_rankings([0.9, 0.8, 0.5, 0.2], [0.6, 0.5, 0.3])


def drawn(family, rankings=TWO):
    """Every line: its values, thresholds, and how many items are offered in all."""
    return [
        (dict(line.values), [round(t, 12) for t in line.thresholds.tolist() if line.axis], line.sums[ITEMS].tolist())
        for line in family.lines(rankings)
    ]


def test_the_first_n_are_settings_of_their_own():
    assert drawn(FixedK("n", [3, 0, 5])) == [({"n": 0}, [], [0]), ({"n": 3}, [], [6]), ({"n": 5}, [], [7])]


def test_every_include_score_at_which_something_changes():
    family = StandardMargin(Counts("K", (3,)), Counts("N", (0, 2)), ThresholdSpan("s", 0.25, 0.85))
    assert drawn(family) == [
        # 0.85: one item; 0.8, 0.6, 0.5 (both queries at once), 0.3; 0.2 is no longer among the best 3 chunks
        ({"K": 3, "N": 0}, [0.85, 0.8, 0.6, 0.5, 0.3], [1, 2, 3, 5, 6]),
        # the first two of each are there anyway
        ({"K": 3, "N": 2}, [0.85, 0.5, 0.3], [4, 5, 6]),
    ]


def test_every_margin_behind_the_floor():
    family = StandardMargin(
        Counts("K", (4,)), Counts("N", (3,)), ThresholdSpan.fixed("s", 0.7), ThresholdSpan("m", 0.0, 1.0)
    )
    # fallen: 0, 1/9, 4/9 of 0.9 (0.2 is beyond the floor) and 0, 1/6, 1/2 of 0.6
    expected = [0.0, *(round(fallen, 12) for fallen in (1 / 9, 1 / 6, 4 / 9, 1 / 2))]
    assert drawn(family) == [({"K": 4, "N": 3, "s": 0.7}, expected, [2, 3, 4, 5, 6])]


def test_both_ranges_are_swept_with_the_other_at_its_top():
    family = StandardMargin(
        Counts("K", (2, 4)), Counts("N", (1,)), ThresholdSpan("s", 0.0, 1.0), ThresholdSpan("m", 0.0, 1.0)
    )
    fixed = [(line.axis, dict(line.values)) for line in family.lines(TWO)]
    assert fixed == [
        ("s", {"K": 2, "N": 1, "m": 1.0}),
        ("s", {"K": 4, "N": 1, "m": 1.0}),
        ("m", {"K": 2, "N": 1, "s": 1.0}),
        ("m", {"K": 4, "N": 1, "s": 1.0}),
    ]


def test_without_a_range_each_pair_is_one_setting():
    family = StandardMargin(
        Counts("K", (2, 4)), Counts("N", (1,)), ThresholdSpan.fixed("s", 0.7), ThresholdSpan.fixed("m", 0.1)
    )
    # 0.9 and 0.8 score 0.7, but 0.8 has fallen by a ninth
    assert drawn(family) == [
        ({"K": 2, "N": 1, "s": 0.7, "m": 0.1}, [], [2]),
        ({"K": 4, "N": 1, "s": 0.7, "m": 0.1}, [], [2]),
    ]


def test_the_step_margin_offers_at_most_so_many_even_where_it_is_off():
    family = StandardMargin(
        Counts("K", (4,)), Counts("N", (4,)), ThresholdSpan("s", 0.0, 1.0), ThresholdSpan.fixed("m", 1.0), at_most=2
    )
    assert drawn(family) == [({"K": 4, "N": 4, "m": 1.0}, [1.0], [4])]


def test_a_parameter_that_users_do_not_have_is_in_no_setting():
    family = StandardMargin(Counts("", (3,)), Counts("N", (1,)), ThresholdSpan.fixed("", 0.7))
    assert drawn(family) == [({"N": 1}, [], [3])]
    assert family.offered_prefix(TWO, {"N": 1})[1].tolist() == [2, 1]


def test_at_least_a_probability():
    family = ThresholdFamily(ThresholdSpan("p", 0.0, 1.0), Counts("low", (0, 3)), Counts("high", (2, 4)))
    assert drawn(family) == [
        ({"low": 0, "high": 2}, [1.0, 0.9, 0.8, 0.6, 0.5], [0, 1, 2, 3, 4]),
        ({"low": 0, "high": 4}, [1.0, 0.9, 0.8, 0.6, 0.5, 0.3, 0.2], [0, 1, 2, 3, 5, 6, 7]),
        ({"low": 3, "high": 4}, [1.0, 0.2], [6, 7]),
    ]


def test_a_margin_alone_of_differences():
    # fallen: 0, 0.1, 0.4, 0.7 and 0, 0.1, 0.3
    assert drawn(ThresholdFamily(ThresholdSpan("m", 0.0, 1.0), of="difference")) == [
        ({}, [0.0, 0.1, 0.3, 0.4, 0.7], [2, 4, 5, 6, 7]),
    ]
    family = ThresholdFamily(ThresholdSpan("m", 0.0, 1.0), Counts("low", (0, 2)), Counts("high", (1, 3)), "difference")
    assert drawn(family) == [
        ({"low": 0, "high": 1}, [0.0], [2]),
        ({"low": 0, "high": 3}, [0.0, 0.1, 0.3, 0.4], [2, 4, 5, 6]),
        ({"low": 2, "high": 3}, [0.0, 0.3, 0.4], [4, 5, 6]),  # at least 2 and at most 1 is nothing to try
    ]
    assert family.offered_prefix(TWO, {"m": 0.35, "low": 0, "high": 3})[1].tolist() == [2, 3]


def test_a_margin_alone_of_shares_of_the_best():
    family = ThresholdFamily(ThresholdSpan("m", 0.0, 0.6), of="ratio")
    expected = [0.0, *(round(fallen, 12) for fallen in (1 / 9, 1 / 6, 4 / 9, 1 / 2))]  # 7/9 is beyond the range
    assert drawn(family) == [({}, expected, [2, 3, 4, 5, 6])]
    below = measured_rankings([-0.1, -0.1, -0.2])  # of a best that is not above 0 there is no share
    assert drawn(ThresholdFamily(ThresholdSpan("m", 0.0, 1.0), of="ratio"), below) == [({}, [0.0], [2])]
    assert drawn(ThresholdFamily(ThresholdSpan("m", 0.0, 1.0), of="difference"), below) == [({}, [0.0, 0.1], [2, 3])]


def test_a_margin_that_is_fixed_is_one_setting():
    family = ThresholdFamily(ThresholdSpan.fixed("m", 0.35), Counts("", (1,)), Counts("high", (2, 3)), "difference")
    assert drawn(family) == [({"high": 2, "m": 0.35}, [], [4]), ({"high": 3, "m": 0.35}, [], [5])]


def test_budgets_cap_what_is_offered():
    family = BudgetFamily(
        StandardMargin(Counts("K", (4,)), Counts("N", (1,)), ThresholdSpan("s", 0.0, 1.0)), Counts("B", (9, 20))
    )
    assert drawn(family) == [
        ({"K": 4, "N": 1, "B": 9}, [1.0], [0]),
        ({"K": 4, "N": 1, "B": 20}, [1.0, 0.8, 0.5], [2, 3, 4]),
    ]


def test_every_budget_of_a_fixed_cut():
    family = BudgetFamily(FixedK("n", [1, 3]), ThresholdSpan("B", 5, 35))
    assert drawn(family) == [({"n": 1}, [5, 10], [0, 2]), ({"n": 3}, [5, 10, 20, 30], [0, 2, 4, 6])]
    assert next(iter(family.lines(TWO))).values_at(1) == {"n": 1, "B": 10}


def test_what_topk_leaves_out_above_others_is_left_out():
    # pooled scores: item 0 is best, but its best chunk is only the sixth
    rankings = measured_rankings([0.9, 0.8, 0.5], [0.9, 0.8], ranks=[[5, 0, 1], [0, 1]])
    family = StandardMargin(Counts("K", (2, 6)), Counts("N", (1,)), ThresholdSpan("s", 0.0, 1.0))
    first, second = family.lines(rankings)
    assert first.sums[COMPLETE].tolist() == [1, 2, 2], "item 1 is the first that stands: then 0.8 of the other, 0.5"
    assert second.sums[COMPLETE].tolist() == [0, 2, 2]
    assert family.offered_prefix(rankings, {"K": 2, "N": 1, "s": 1.0})[1].tolist() == [1, 1]
    assert family.by_query(rankings, {"K": 2, "N": 1, "s": 1.0})[COMPLETE].tolist() == [1, 0]


def test_scores_of_zero_and_less_do_not_stand():
    rankings = measured_rankings([0.5, 0.0, -0.5], [-0.1])
    family = StandardMargin(Counts("K", (4,)), Counts("N", (5,)), ThresholdSpan("s", 0.0, 1.0))
    assert drawn(family, rankings) == [({"K": 4, "N": 5}, [1.0], [1])]


def test_no_query_and_no_candidate():
    for rankings in (measured_rankings([]), measured_rankings([], [])):
        assert drawn(StandardMargin(Counts("K", (4,)), Counts("N", (5,)), ThresholdSpan("s", 0.0, 1.0)), rankings)[0][
            1:
        ] == (
            [1.0],
            [0],
        )
        assert drawn(FixedK("n", [2]), rankings) == [({"n": 2}, [], [0])]
        for of in ("score", "difference", "ratio"):
            assert drawn(ThresholdFamily(ThresholdSpan("m", 0.0, 1.0), of=of), rankings)[0][2] == [0]


def test_the_fixed_values_do_not_depend_on_the_data():
    family = StandardMargin(
        Counts("K", range(1, 4)), Counts("N", (0, 2)), ThresholdSpan("s", 0.0, 1.0), ThresholdSpan("m", 0.0, 1.0)
    )
    one, other = ([line.values for line in family.lines(rankings)] for rankings in (TWO, measured_rankings([0.3])))
    assert one == other
    assert len(one) == 2 * 3 * 2


def test_a_setting_needs_every_value():
    with pytest.raises(ParameterError, match="n is missing; a setting needs a value of each swept parameter"):
        FixedK("n", [2]).offered_prefix(TWO, {})


def test_values_are_tried_in_rising_order_once():
    assert Counts("K", (3, 1, 3)).values == (1, 3)


@pytest.mark.parametrize(
    "family",
    [
        StandardMargin(Counts("K", (3, 4, 9)), Counts("N", (0,)), ThresholdSpan("s", 0.0, 1.0)),
        ThresholdFamily(ThresholdSpan("s", 0.0, 1.0), at_most=Counts("most", (3, 4, 9))),
    ],
)
def test_lines_that_offer_the_same_share_their_sums_unless_they_are_long(family, monkeypatch):
    three, four, nine = family.lines(TWO)  # the longer ranking has four items
    assert three.sums is not four.sums
    assert four.sums is nine.sums
    assert four.values != nine.values
    monkeypatch.setattr(threshold_sums, "_KEPT", 1)
    _, again, other = family.lines(TWO)
    assert again.sums is not other.sums
    assert again.sums[ITEMS].tolist() == other.sums[ITEMS].tolist() == nine.sums[ITEMS].tolist()


def test_a_line_has_the_sums_of_what_was_measured_only():
    (line,) = ThresholdFamily(ThresholdSpan("s", 0.0, 1.0)).lines(TWO)
    recall = Measure(Metric("recall"))
    assert recall not in line.sums
    assert set(line.sums) == {ITEMS, COMPLETE, TOKENS}
    with pytest.raises(KeyError):
        line.sums[recall]
