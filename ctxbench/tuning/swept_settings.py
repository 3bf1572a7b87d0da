"""Settings along a threshold, as an optimum compares them: means, and intervals of some of these."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ctxbench.bench.stats import LEVEL, moment_bounds, share_bounds, wilson_bounds
from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.selectors.parameters import Value
from ctxbench.tuning.sweep.measures import Measure
from ctxbench.tuning.sweep.threshold_lines import ThresholdLine

SAME = 1e-12
"""Relative difference up to which two means are the same: they may differ by the order in which they were added up."""


def rounding_error(value: float) -> float:
    """How far two values may be apart that are the same up to rounding."""
    return SAME * max(1.0, abs(value))


def precedes(key: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether a key is less than another, parts that are the same up to rounding, or NaN, passed over."""
    for mine, theirs in zip(key, other, strict=True):
        if abs(mine - theirs) > rounding_error(theirs):
            return mine < theirs
    return False


def distance(values: Mapping[str, Value], defaults: Mapping[str, Value]) -> float:
    """The distance of values from defaults, over the parameters that have one."""
    total = 0.0
    for name, default in defaults.items():
        value = values.get(name, default)
        if isinstance(value, str) or isinstance(default, str):
            total += value != default
        else:
            total += abs(value - default) / max(abs(default), 1)
    return total


def most_stable(thresholds: FloatArray, places: IntArray) -> int:
    """Of places with the same means the one with its threshold furthest from those of others; the first of equals."""
    if len(places) == 1:
        return int(places[0])
    others = np.sort(np.delete(thresholds, places))
    if not len(others):
        return int(places[0])
    own = thresholds[places]
    right = np.searchsorted(others, own)
    above = np.where(right < len(others), others[np.minimum(right, len(others) - 1)] - own, math.inf)
    below = np.where(right > 0, own - others[np.maximum(right - 1, 0)], math.inf)
    return int(places[np.minimum(above, below).argmax()])


POWERS: Mapping[str, int] = {"yes/no": 1, "share": 2, "amount": 3}
"""Up to which power values must be summed for an interval, by scale."""
_FLAT = 1e-14  # variance in squared means that is taken for rounding


def bounds(
    measure: Measure, powers: Sequence[FloatArray], n: npt.ArrayLike, *, level: float = LEVEL, times: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Intervals of many means at once, equal to those of `stats.estimate` for the values by query.

    Equal to the bit for yes/no, within 1e-9 else; within 1e-5 for amounts that vary by less than 1/10,000 of their
    mean, whose powers have lost what they differ in.

    Args:
        measure: yes/no: Wilson's interval; share: Wilson's at the effective sample size; amount: Hall's t.
        powers: the sums of the values, of their squares and of their cubes, as far as the scale needs them (see
            `POWERS`), each of one shape.
        n: how many values were summed, >= 0; a shape that broadcasts.
        level: nominal coverage.
        times: the intervals are those for so many times as many values with the same moments.

    Returns:
        Low and high ends, in that shape.
    """
    scale = measure.metric.declaration.scale
    counted = np.broadcast_to(np.asarray(n, dtype=np.float64), powers[0].shape)
    moments = [power / np.maximum(counted, 1.0) for power in powers]
    mean, size = moments[0], counted * times
    if scale == "yes/no":
        return wilson_bounds(mean, size, level=level)
    variance = moments[1] - mean * mean
    variance = np.where(variance > _FLAT * mean * mean, variance, 0.0)
    if scale == "share":
        return share_bounds(np.clip(mean, 0.0, 1.0), variance, size, level=level)
    third = moments[2] - 3.0 * mean * moments[1] + 2.0 * mean**3
    low, high = moment_bounds(mean, variance, third, np.maximum(size, 2.0), level=level)
    return np.where(size < 2.0, 0.0, np.maximum(low, 0.0)), np.where(size < 2.0, math.inf, high)


class SweptSettings(ABC):
    """Settings along one threshold: their values, their means, and intervals of some of these.

    Attributes:
        thresholds: from what offers fewest to what offers most, shape (n_settings,).
    """

    thresholds: FloatArray

    def __len__(self) -> int:
        return len(self.thresholds)

    @abstractmethod
    def line_at(self, place: int) -> ThresholdLine:
        """A line of one setting alone."""

    @abstractmethod
    def select_place(self, place: int) -> SweptSettings:
        """One of them alone, in arrays of its own."""

    @abstractmethod
    def n(self, measure: Measure) -> int:
        """How many queries a measure applies to; where settings differ in this, the most."""

    @abstractmethod
    def means(self, measure: Measure, places: IntArray | None = None) -> FloatArray:
        """The means of a measure at some places or all; NaN where it applies to no query."""

    @abstractmethod
    def bounds(
        self, measure: Measure, places: IntArray, *, level: float, times: float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """Ends of the intervals of some means, if there were `times` as many queries of the same kinds."""

    @abstractmethod
    def differences(self, measure: Measure, places: IntArray, *, times: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Means of paired differences to the base with their standard errors, if there were `times` as many queries."""

    def values_at(self, place: int) -> dict[str, Value]:
        """The values of one setting."""
        return self.line_at(place).values_at(0)

    def rounded_values(self, place: int) -> dict[str, Value]:
        """The same with a threshold of few digits that selects the same (see `ThresholdLine.rounded_threshold`)."""
        return self.line_at(place).rounded_values(0)

    def objective_means(self, measure: Measure, places: IntArray | None = None) -> FloatArray:
        """What an objective is compared by, at some places or all: as a rule its means."""
        return self.means(measure, places)

    def mean_reaches(self, measure: Measure, sign: int, end: float) -> BoolArray:
        """Where sign x mean >= sign x end, shape (n_settings,); nowhere if the measure applies to no query."""
        return sign * self.means(measure) >= sign * end

    def objective_reaches(self, measure: Measure, sign: int, end: float) -> BoolArray:
        """The same of what an objective is compared by."""
        return sign * self.objective_means(measure) >= sign * end

    def best_place(self, measure: Measure, sign: int, among: BoolArray | None = None) -> int | None:
        """The first place with the highest (sign 1) or lowest mean, among some; None if there is no mean."""
        return best_place(self.means(measure), sign, among)


class LineSettings(SweptSettings):
    """The settings of one line over one dataset.

    Attributes:
        line: which.
    """

    def __init__(self, line: ThresholdLine) -> None:
        self.line, self.thresholds = line, line.thresholds

    def line_at(self, place: int) -> ThresholdLine:
        """The line with one of its thresholds; its sums are those of all."""
        one = self.line.thresholds[place : place + 1].copy()
        return replace(self.line, thresholds=one, beyond=self.line.ends(place))

    def select_place(self, place: int) -> LineSettings:
        """One setting alone, in arrays of its own."""
        line, one = self.line, slice(place, place + 1)
        sums, squares, cubes = (
            {measure: np.array(each[one], dtype=np.float64) for measure, each in power.items()}
            for power in (line.sums, line.squares, line.cubes)
        )
        applies = {measure: int(each[place]) for measure, each in line.applies.items()}
        selected = replace(
            self.line_at(place),
            sums=sums,
            squares=squares,
            cubes=cubes,
            n={**line.n, **applies},
            applies={},
            differences={measure: each.select(np.array([place])) for measure, each in line.differences.items()},
        )
        return LineSettings(selected)

    def n(self, measure: Measure) -> int:
        """How many queries a measure applies to; where settings differ in this, the most."""
        return self.line.n[measure]

    def means(self, measure: Measure, places: IntArray | None = None) -> FloatArray:
        """Sums over n; NaN where n is 0."""
        return self.line.means(measure, places)

    def mean_reaches(self, measure: Measure, sign: int, end: float) -> BoolArray:
        """Compares sums, which is faster by half than to divide them all."""
        sums, ends = self.line.sums[measure], end * self.line.counts(measure)
        return sums >= ends if sign > 0 else sums <= ends

    def objective_reaches(self, measure: Measure, sign: int, end: float) -> BoolArray:
        """The same, as an objective is compared by its means."""
        return self.mean_reaches(measure, sign, end)

    def best_place(self, measure: Measure, sign: int, among: BoolArray | None = None) -> int | None:
        """Looks at sums where all are over as many queries."""
        even = measure not in self.line.applies and self.line.n[measure] > 0
        return best_place(self.line.sums[measure] if even else self.means(measure), sign, among)

    def bounds(
        self, measure: Measure, places: IntArray, *, level: float, times: float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """See `bounds`."""
        line, needed = self.line, POWERS[measure.metric.declaration.scale]
        powers = [
            np.asarray(of[measure][places], dtype=np.float64) for of in (line.sums, line.squares, line.cubes)[:needed]
        ]
        each = line.applies.get(measure)
        n = np.array(line.n[measure]) if each is None else each[places]
        return bounds(measure, powers, n, level=level, times=times)

    def differences(self, measure: Measure, places: IntArray, *, times: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """See `Differences.errors`."""
        return self.line.differences[measure].select(places).errors(times=times)


def best_place(means: FloatArray, sign: int, among: BoolArray | None = None) -> int | None:
    """The first place of the highest (sign 1) or lowest (-1) of some values, NaN passed over; None if there is none."""
    if among is not None:
        means = np.where(among, means, math.nan)
    place = int(means.argmax() if sign > 0 else means.argmin())  # of a NaN, if there is one
    if not math.isnan(means[place]):
        return place
    if np.isnan(means).all():
        return None
    return int(np.nanargmax(means) if sign > 0 else np.nanargmin(means))
