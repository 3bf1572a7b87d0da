"""Lines: settings, means, and the short decimals that are recommended."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.evaluation.metrics import Metric
from ctxbench.tuning.measures import Measure
from ctxbench.tuning.setting_lines import ThresholdLine

TOKENS = Measure(Metric("tokens"))


def line(*thresholds: float, **given) -> ThresholdLine:
    given = {"span": (0.0, 1.0), **given}
    return ThresholdLine(values={"N": 3}, axis="s", thresholds=np.array(thresholds), sums={}, n={}, **given)


def rising(*thresholds: float, **given) -> ThresholdLine:
    return line(*thresholds, **{"beyond": (-math.inf, math.inf), **given})


def test_a_setting_has_all_its_values():
    assert line(1.0, 0.7321).values_at(1) == {"N": 3, "s": 0.7321}
    assert line(100.0, 2000.0, span=(0, 1e6), is_integer=True).values_at(1) == {"N": 3, "s": 2000}
    alone = ThresholdLine(values={"N": 3}, axis="", thresholds=np.array([np.nan]), sums={}, n={})
    assert (alone.values_at(0), alone.rounded_values(0), len(alone)) == ({"N": 3}, {"N": 3}, 1)
    assert math.isnan(alone.rounded_threshold(0))


def test_means_are_sums_over_those_it_applies_to():
    one = ThresholdLine(
        values={}, axis="s", thresholds=np.array([1.0, 0.5]), sums={TOKENS: np.array([0.0, 6.0])}, n={TOKENS: 4}
    )
    assert one.means(TOKENS).tolist() == [0.0, 1.5]
    assert one.means(TOKENS, np.array([1])).tolist() == [1.5]
    varying = ThresholdLine(
        values={},
        axis="s",
        thresholds=np.array([1.0, 0.5]),
        sums={TOKENS: np.array([0.0, 6.0])},
        n={TOKENS: 3},
        applies={TOKENS: np.array([0.0, 3.0])},
    )
    np.testing.assert_array_equal(varying.means(TOKENS), [np.nan, 2.0])
    np.testing.assert_array_equal(
        ThresholdLine(values={}, axis="", thresholds=np.ones(1), sums=one.sums, n={TOKENS: 0}).means(TOKENS),
        [np.nan] * 2,
    )


@pytest.mark.parametrize(
    ("settings", "place", "short"),
    [
        (line(1.0, 0.73214, 0.69871), 1, 0.7),  # above 0.69871 and up to 0.73214: 0.7 is 0.0013 away
        (line(1.0, 0.73214, 0.72871), 1, 0.73),
        (line(1.0, 0.73214, 0.7321), 1, 0.73212),  # 0.00004 apart: no closer than a quarter of that
        (line(1.0, 0.73214, 0.72871), 0, 1.0),  # nothing changes up to the end of the range
        (line(1.0, 0.73214, 0.72871, beyond=(1.0, -math.inf)), 0, 0.9),  # what scores 1 may score a little less
        (line(1.0, 0.73214, 0.72871), 2, 0.0),  # nor from here to its other end
        (line(1.0, 0.73214, 0.32871, beyond=(math.inf, -0.2)), 2, 0.0),  # as far as possible from both
        (line(1.0, 0.73214, 0.32871, beyond=(math.inf, -0.6)), 2, 0.0),  # the middle is out of the range
        (line(0.7, 0.31, span=(0.3, 0.7), beyond=(math.inf, 0.1)), 1, 0.3),  # of the range what is nearest to it
        (line(0.7, 0.27, span=(0.25, 0.7), beyond=(math.inf, 0.1)), 1, 0.25),
        (line(1.0), 0, 1.0),  # nothing changes at all
        (rising(0.0), 0, 1.0),
        (rising(0.0, 0.21, 0.42), 1, 0.3),  # a margin of 0.21 or more, but less than 0.42
        (rising(0.0, 0.21, 0.42), 2, 1.0),
        (rising(0.0, 0.21, 0.42, beyond=(0.0, math.inf)), 0, 0.1),  # ties with the best may fall apart a little
        (rising(0.0, 0.21, 0.42, beyond=(-math.inf, 1.3)), 2, 1.0),
        (rising(0.1, 0.59132, span=(0.1, 0.6), beyond=(-math.inf, 0.9)), 1, 0.6),
        (rising(0.0, 1987.0, 2040.0, span=(0, 5000), is_integer=True), 1, 2000.0),
        (rising(0.0, 1987.0, 1989.0, span=(0, 5000), is_integer=True), 1, 1988.0),
        (rising(0.0, 1987.0, 1988.0, span=(0, 5000), is_integer=True), 1, 1987.0),
    ],
)  # fmt: skip
def test_short_is_the_decimal_with_few_digits_that_selects_the_same(settings, place, short):
    assert settings.rounded_threshold(place) == short


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=6, unique=True), st.booleans(), st.data())
def test_short_lies_between_the_neighbours_and_in_the_range(values, rises, data):
    ordered = sorted(values, reverse=not rises)
    made = (rising if rises else line)(*ordered)
    place = data.draw(st.integers(0, len(ordered) - 1))
    short, behind = made.rounded_threshold(place), ordered[place + 1] if place + 1 < len(ordered) else None
    assert 0 <= short <= 1
    if place:
        assert short >= ordered[place] if rises else short <= ordered[place]
    if behind is not None:
        assert short < behind if rises else short > behind
