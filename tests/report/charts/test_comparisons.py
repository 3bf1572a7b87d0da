"""A trade-off as a reader sees it: what is drawn is read back from the artists."""

from __future__ import annotations

import itertools
import math

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.statistics import Estimate, Interval
from ctxbench.report.charts import colours, marks_of
from ctxbench.report.run_charts import FRONT, _joint, trade_off

TOKENS, COMPLETE = parse_metric("tokens"), parse_metric("completeness")


def line(ax, label):
    (found,) = [one for one in ax.lines if one.get_label() == label]
    return found


def texts(labels):
    return [label.get_text() for label in labels]


def estimate(value, low=None, high=None, holds=True):
    found = interval(value if low is None else low, value if high is None else high, holds)
    return Estimate(value=value, interval=found, n=9, left_out=0)


def interval(low, high, holds=True):
    return Interval(low=low, high=high, level=0.95, method="", holds=holds)


@pytest.fixture
def ax():
    return Figure(layout="constrained").subplots()


def drawn(ax, points, **given):
    given = {"metrics": (TOKENS, COMPLETE), "base": "a", "colours": dict.fromkeys(points, "#0072B2"), **given}
    trade_off(ax, points, **given)
    ax.figure.draw_without_rendering()
    return ax


def boxes(ax):
    renderer = ax.figure.canvas.get_renderer() if hasattr(ax.figure.canvas, "get_renderer") else None
    return [Text.get_window_extent(label, renderer) for label in ax.texts]


def test_names_of_a_crowd_do_not_read_as_one():
    """As bfcl-live-listed has it: nearly all are complete, and their prices lie close together."""
    crowd = {
        "a": (536, 0.997),
        "learned/aggressive": (360, 0.992),
        "learned/normal": (442, 0.999),
        "learned/conservative": (506, 1.0),
        "hybrid": (569, 1.0),
        "bm25": (306, 0.93),
        "everything": (613, 1.0),
        "random": (450, 0.694),
        "oracle": (109, 1.0),
    }
    points = {
        name: (estimate(x, x - 17, x + 17), estimate(y, y - 0.004, min(y + 0.004, 1.0)))
        for name, (x, y) in crowd.items()
    }
    ax = drawn(Figure(figsize=(6.0, 3.4), layout="constrained").subplots(), points)
    for one, other in itertools.combinations(boxes(ax), 2):
        beside = min(one.y1, other.y1) - max(one.y0, other.y0) > 3
        assert not beside or max(one.x0, other.x0) - min(one.x1, other.x1) >= 5


@pytest.mark.parametrize("n", [2, 4, 10])
@pytest.mark.parametrize("spread", [1.0, 0.03])
def test_labels_stay_inside_and_meet_neither_each_other_nor_marks(ax, n, spread):
    points = {}
    for i in range(n):
        x, y = 500 + spread * 400 * math.sin(7 * i), 0.6 + spread * 0.3 * math.cos(5 * i)
        points[f"selector number {i}" if i else "a"] = (estimate(x, x - 5, x + 5), estimate(y, y - 0.01, y + 0.01))
    drawn(ax, points)
    found = boxes(ax)
    assert len(found) == n
    for one, other in itertools.combinations(found, 2):
        assert not one.overlaps(other)
    marks = ax.transData.transform([(x.value, y.value) for x, y in points.values()])
    for box in found:
        assert ax.bbox.x0 <= box.x0 < box.x1 <= ax.bbox.x1
        assert ax.bbox.y0 <= box.y0 < box.y1 <= ax.bbox.y1
        assert not any(box.contains(*mark) for mark in marks)


def test_labels_follow_a_figure_that_changes_its_size(ax):
    drawn(ax, {name: (estimate(100 + i), estimate(0.5 + i / 1000)) for i, name in enumerate("abc")})
    before = [label.get_position() for label in ax.texts]
    ax.set_xlim(0, 100_000)
    ax.figure.set_size_inches(3, 2)
    ax.figure.draw_without_rendering()
    assert [label.get_position() for label in ax.texts] != before
    for one, other in itertools.combinations(boxes(ax), 2):
        assert not one.overlaps(other)


def test_a_name_that_is_nearly_as_long_as_the_axes_stays_inside():
    ax = Figure(figsize=(4.4, 3.0), layout="constrained").subplots()
    name = "a selector whose name is as long as these axes are wide"
    places = {"a": 10, name: 13, "b": 30}
    drawn(ax, {one: (estimate(x), estimate(x / 100)) for one, x in places.items()})
    long = boxes(ax)[1]
    assert ax.bbox.x0 <= long.x0 < long.x1 <= ax.bbox.x1
    assert not long.contains(*ax.transData.transform((13, 0.13)))


def test_the_front_is_what_no_other_beats_on_both(ax):
    points = {
        "a": (30, 0.9),
        "b": (10, 0.5),
        "c": (20, 0.5),
        "d": (40, 0.8),
        "e": (20, 0.7),
        "f": (30, 0.9),
        "g": (10, 0.4),
    }
    drawn(ax, {name: (estimate(x), estimate(y)) for name, (x, y) in points.items()})
    front = line(ax, FRONT)
    assert list(zip(*front.get_data(), strict=True)) == [(10, 0.5), (20, 0.7), (30, 0.9)]
    assert (front.get_drawstyle(), front.get_linewidth()) == ("steps-post", 0.8)
    other = drawn(
        Figure().subplots(),
        {name: (estimate(y), estimate(x)) for name, (x, y) in points.items()},
        metrics=(COMPLETE, TOKENS),
    )
    front = line(other, FRONT)
    assert list(zip(*front.get_data(), strict=True)) == [(0.5, 10), (0.7, 20), (0.9, 30)]
    assert front.get_drawstyle() == "steps-pre"
    alone = drawn(Figure().subplots(), {"a": (estimate(1), estimate(0.9)), "b": (estimate(2), estimate(0.8))})
    assert FRONT not in [one.get_label() for one in alone.lines]


def test_tokens_that_spread_widely_stand_on_a_logarithmic_axis(ax):
    drawn(ax, {"a": (estimate(10), estimate(0.5)), "b": (estimate(201), estimate(0.9))})
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")
    assert ax.get_xlabel() == "tokens per query, logarithmic"
    assert {"10", "20", "50", "100"} <= set(texts(ax.get_xticklabels()))
    linear = drawn(Figure().subplots(), {"a": (estimate(10), estimate(0.5)), "b": (estimate(200), estimate(0.9))})
    assert linear.get_xscale() == "linear"
    nothing = drawn(Figure().subplots(), {"a": (estimate(0), estimate(0.01)), "b": (estimate(200), estimate(0.9))})
    assert nothing.get_xscale() == nothing.get_yscale() == "linear"


def test_an_interval_that_says_nothing_or_does_not_hold_is_told_apart(ax):
    drawn(
        ax,
        {
            "a": (estimate(10, -math.inf, math.inf), estimate(0.5, 0.4, 0.6)),
            "b": (estimate(20, 15, 25, holds=False), estimate(0.6)),
            "none": (estimate(math.nan), estimate(0.6)),
        },
    )
    labels = [one.get_label() for one in ax.lines]
    assert "_tokens of a" not in labels
    assert "none" not in labels
    assert line(ax, "_tokens of b").get_linestyle() == ":"
    assert line(ax, "_completeness of a").get_linestyle() == "-"
    assert ax.get_xlabel().endswith("dotted: too few queries to rely on the interval")


def test_shares_are_in_per_cent_and_names_are_no_formulas(ax):
    name = "$a_b$ \u202e"
    drawn(ax, {name: (estimate(10), estimate(0.25)), "b": (estimate(20), estimate(0.5))}, base="b")
    assert "30" in texts(ax.get_yticklabels())
    assert ax.texts[0].get_text() == "$a_b$ \ufffd"
    assert not ax.texts[0].get_parse_math()


def test_a_few_far_below_stand_at_the_foot_and_say_their_figure(ax):
    points = {"a": (500, 0.96), "b": (300, 0.92), "c": (400, 0.9), "random": (450, 0.05)}
    drawn(ax, {name: (estimate(x), estimate(y, y - 0.02, y + 0.02)) for name, (x, y) in points.items()})
    assert texts(ax.texts)[-1] == "random, 5.0% (below the axis)"
    assert line(ax, "random").get_marker() == "v"
    assert line(ax, "random").get_ydata()[0] == pytest.approx(0.88)
    assert 0.8 < ax.get_ylim()[0] < 0.88
    most = {"a": (500, 0.96), "b": (300, 0.3), "c": (400, 0.2)}
    whole = drawn(Figure().subplots(), {name: (estimate(x), estimate(y)) for name, (x, y) in most.items()})
    assert texts(whole.texts) == ["a (baseline)", "b", "c"]
    assert whole.get_ylim()[0] < 0.2


def test_a_mark_tells_a_pointer_its_figures(ax):
    drawn(ax, {"a": (estimate(275, 261, 289), estimate(0.91, 0.88, 0.94)), "b": (estimate(300), estimate(0.9))})
    assert line(ax, "a").get_gid() == "told:a: 91.0% completeness (88.0\u201394.0), 275 tokens (261\u2013289)"
    assert line(ax, "b").get_gid() == "told:b: 90.0% completeness, 300 tokens"


def test_where_a_colour_comes_again_the_mark_is_another():
    names = colours([f"s{n}" for n in range(8)])
    marks = marks_of(names)
    assert names["s0"] == names["s6"]
    assert marks["s0"] != marks["s6"]
    assert len({(names[one], marks[one]) for one in names}) == 8


def test_selectors_at_one_point_share_a_label():
    at = (1.0, 0.5)
    named = [(at, name, str(number), at * 2) for number, name in enumerate("abcde", start=1)]
    named.append(((2.0, 0.5), "f", "6", (2.0, 0.5) * 2))
    assert [label.text for label in _joint(named, numbered=False)] == ["a, b, c and 2 more", "f"]
    assert [label.short for label in _joint(named, numbered=True)] == ["1, 2, 3, 4, 5", "6"]


def test_a_few_that_need_many_times_the_tokens_stand_at_the_end_and_say_their_figure(ax):
    points = {"a": (500, 0.96), "b": (300, 0.92), "c": (400, 0.9), "everything": (40_000, 1.0)}
    drawn(ax, {name: (estimate(x, x - 10, x + 10), estimate(y)) for name, (x, y) in points.items()})
    assert texts(ax.texts)[-1] == "everything, 40,000 (beyond the axis)"
    assert line(ax, "everything").get_marker() == ">"
    assert line(ax, "everything").get_xdata()[0] == 510
    assert ax.get_xscale() == "linear"
    assert ax.get_xlim()[1] < 600


@pytest.mark.parametrize("numbered", [True, False])
def test_a_name_without_room_gives_way_to_its_number(numbered):
    ax = Figure(figsize=(4.4, 3.0), layout="constrained").subplots()
    names = ["a", *(f"selector {number} with quite a long name" for number in range(2, 13))]
    points = {name: (estimate(500 + 2 * i), estimate(0.9 + i / 1000)) for i, name in enumerate(names)}
    drawn(ax, points, numbered=numbered)
    shown = [label for label in ax.texts if label.get_visible()]
    before = [(label.get_text(), label.get_position()) for label in shown]
    ax.figure.draw_without_rendering()
    assert [(label.get_text(), label.get_position()) for label in ax.texts if label.get_visible()] == before
    assert any(label.get_text().isdigit() for label in shown) is numbered
    if numbered:
        numbers = {f"{number}": name for number, name in enumerate(names, start=1)}
        assert all(
            label.xy == tuple(e.value for e in points[numbers.get(label.get_text(), "a")]) or label.get_text() in points
            for label in shown
        )
        found = [Text.get_window_extent(label) for label in shown]
        assert not any(one.overlaps(other) for one, other in itertools.combinations(found, 2))


def test_nothing_is_said_of_dotted_lines_where_none_is_to_be_seen(ax):
    drawn(ax, {"a": (estimate(10, 10, 10, holds=False), estimate(0.5, 0.4, 0.6)), "b": (estimate(20), estimate(0.6))})
    assert "dotted" not in ax.get_xlabel()
