"""What axes are marked with."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from ctxbench.report.charts import colours, compact, mark_numbers, nice_step


@pytest.mark.parametrize(("least", "step"), [(0.021, 0.025), (0.02, 0.02), (3, 5), (6, 10), (0.1, 0.1), (1.1, 2)])
def test_steps_are_round(least, step):
    assert nice_step(least) == pytest.approx(step)


@pytest.mark.parametrize(("value", "told"), [(0, "0"), (812, "812"), (1240, "1.24k"), (3.1e6, "3.1M")])
def test_large_amounts_are_short(value, told):
    assert compact(value) == told


def marks(low, high, **given):
    ax = Figure(figsize=(6, 4)).subplots()
    ax.set_xlim(low, high)
    mark_numbers(ax.xaxis, **given)
    ax.figure.draw_without_rendering()
    seen = ax.get_xlim()
    return [text.get_text() for text in ax.get_xticklabels() if seen[0] <= text.get_position()[0] <= seen[1]]


def test_marks_are_round_and_in_the_unit_of_the_axis():
    assert marks(0, 30_000)[:2] == ["0", "5,000"]
    assert marks(0.5, 1.0, percent=True) == ["50", "60", "70", "80", "90", "100"]


def test_a_logarithmic_axis_marks_1_2_5_where_there_is_room_and_powers_of_ten_else():
    assert marks(1, 100, log=True) == ["1", "2", "5", "10", "20", "50", "100"]
    assert marks(1, 10_000_000, log=True)[:3] == ["1", "10", "100"]


def test_more_names_than_colours_begin_again():
    found = colours(f"s{i}" for i in range(7))
    assert found["s0"] == found["s6"] != found["s1"]
