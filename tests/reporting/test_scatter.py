"""Where the scatter puts selectors: coordinates worked by hand from the frame (left 46, right width - 14, top 14)."""

from __future__ import annotations

import itertools

import pytest

from ctxbench.bench.stats import Estimate, Interval
from ctxbench.bench.summary import DatasetSummary, SelectorSummary
from ctxbench.reporting.axes import LETTER, Axis, nice_step
from ctxbench.reporting.scatter import Scatter, scatter


def estimate(value: float, low: float, high: float) -> Estimate:
    interval = Interval(low=low, high=high, level=0.95, method="Wilson", holds=True)
    return Estimate(value=value, interval=interval, n=100, left_out=0)


def drawn(*figures: tuple[str, float, float], width: float = 760.0) -> Scatter | None:
    """The scatter of selectors given by name, completeness and tokens."""
    selectors = tuple(
        SelectorSummary(
            selector=name,
            estimates={"completeness": estimate(c, max(c - 0.02, 0), min(c + 0.02, 1)), "tokens": estimate(t, t, t)},
            unavailable={},
            errors=0,
            queries=100,
            against={},
            notes={},
        )
        for name, c, t in figures
    )
    return scatter(
        DatasetSummary(dataset="d", queries=100, unlabelled=0, items=9, selectors=selectors), base="a", width=width
    )


def test_fewer_than_two_selectors_give_no_drawing() -> None:
    assert drawn() is None
    assert drawn(("a", 0.9, 100.0)) is None


def test_the_axis_of_tokens_is_linear_up_to_a_spread_of_twenty_and_then_logarithmic() -> None:
    linear, log = drawn(("a", 0.9, 100.0), ("b", 0.8, 2000.0)), drawn(("a", 0.9, 100.0), ("b", 0.8, 2001.0))
    assert linear is not None
    assert log is not None
    assert linear.x_title == "prompt tokens a query"
    assert log.x_title == "prompt tokens a query, logarithmic"
    assert [tick.label for tick in log.x_ticks] == ["100", "200", "500", "1,000", "2,000", "5,000"]
    # 1,000 lies at log(10) / log(50) = 0.58859 of the way from 56 to 736
    assert log.x_ticks[3].at == pytest.approx(56 + 0.58859 * 680, abs=0.01)


def test_more_tokens_stand_further_right_and_more_completeness_higher() -> None:
    made = drawn(("a", 0.9, 500.0), ("b", 0.95, 900.0), ("c", 0.99, 1500.0))
    assert made is not None
    a, b, c = made.points
    assert a.x < b.x < c.x
    assert a.y > b.y > c.y
    assert a.low > a.y > a.high


def test_a_selector_below_half_of_the_best_stands_at_the_foot_and_says_its_figure() -> None:
    made = drawn(("a", 0.96, 500.0), ("b", 0.92, 300.0), ("random", 0.05, 500.0))
    assert made is not None
    (random,) = [point for point in made.points if point.below]
    assert random.name == "random, 5.0% (below the axis)"
    assert random.y == max(tick.at for tick in made.y_ticks)


@pytest.mark.parametrize("width", [760.0, 340.0])
def test_labels_meet_neither_each_other_nor_the_edge(width: float) -> None:
    figures = [("a", 0.96, 541.0), ("bm25", 0.915, 540.0), ("semantic/two", 0.92, 326.0), ("all", 1.0, 40013.0)]
    made = drawn(*figures, width=width)
    assert made is not None
    boxes = []
    for point in made.points:
        size = len(point.name) * LETTER
        left = {"start": 0, "middle": size / 2, "end": size}[point.label.anchor]
        boxes.append((point.label.x - left, point.label.y - 11, point.label.x - left + size, point.label.y + 4))
    assert all(left >= 0 and right <= width for left, _, right, _ in boxes)
    for a, b in itertools.combinations(boxes, 2):
        assert not (a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])


def test_equal_points_have_labels_of_their_own() -> None:
    made = drawn(("a", 1.0, 18.0), ("b", 1.0, 18.0), ("c", 1.0, 18.0))
    assert made is not None
    assert len({(point.label.x, point.label.y, point.label.anchor) for point in made.points}) == 3


def test_all_complete_and_no_tokens_at_all_can_be_drawn() -> None:
    made = drawn(("a", 1.0, 0.0), ("b", 1.0, 0.0))
    assert made is not None
    assert {point.x for point in made.points} == {46.0}


def test_values_outside_an_axis_come_out_at_its_ends() -> None:
    axis = Axis(0.0, 10.0, 100.0, 200.0)
    assert [axis(value) for value in (-5, 0, 5, 10, 99)] == [100.0, 100.0, 150.0, 200.0, 200.0]


@pytest.mark.parametrize(("least", "step"), [(0.021, 0.025), (0.02, 0.02), (3, 5), (6, 10), (0.1, 0.1), (1.1, 2)])
def test_steps_are_round(least: float, step: float) -> None:
    assert nice_step(least) == pytest.approx(step)
