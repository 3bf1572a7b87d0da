"""Lines: settings that differ in one threshold, with the means of all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.candidates import MARGIN
from ctxbench.core.errors import ParameterError
from ctxbench.selectors.parameters import Value
from ctxbench.tuning.sweep.measures import TOKENS, DifferenceSums, Measure

L = TypeVar("L", bound=Sized)
L_contra = TypeVar("L_contra", contravariant=True)
_DIGITS = 17  # enough to distinguish any two floats


@dataclass(frozen=True, slots=True)
class Counts:
    """A parameter that takes whole numbers.

    Attributes:
        name: as users know it; empty = the selector has no parameter for it, and it is fixed.
        values: all that are tried, in rising order, >= 0; a single one is fixed.
    """

    name: str
    values: tuple[int, ...]

    def __post_init__(self) -> None:
        ordered = tuple(sorted({int(value) for value in self.values}))
        if not ordered or ordered[0] < 0 or (not self.name and len(ordered) > 1):
            raise ParameterError(
                f"{self.name or 'a parameter without a name'} needs values of 0 or more to try, and without a name "
                f"exactly one, got {list(self.values)}"
            )
        object.__setattr__(self, "values", ordered)

    def of(self, values: Mapping[str, Value]) -> int:
        """Its value in a setting."""
        return int(value_of(self.name, values, self.values[0]))


@dataclass(frozen=True, slots=True)
class ThresholdSpan:
    """A parameter that is a threshold, tried at every value that matters.

    Attributes:
        name: as users know it; empty = the selector has no parameter for it, and it is fixed.
        low, high: the ends of its range; equal = it is fixed.
    """

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (np.isfinite([self.low, self.high]).all() and self.low <= self.high):
            raise ParameterError(f"{self.name} needs a range from low to high, got {self.low} to {self.high}")
        if not self.name and self.low < self.high:
            raise ParameterError("a parameter without a name must be fixed")

    @classmethod
    def fixed(cls, name: str, value: float) -> ThresholdSpan:
        """A threshold that stays as it is."""
        return cls(name, value, value)

    @property
    def swept(self) -> bool:
        """Whether it has more than one value."""
        return self.low < self.high

    def of(self, values: Mapping[str, Value]) -> float:
        """Its value in a setting."""
        return float(value_of(self.name, values, self.high))


def value_of(name: str, values: Mapping[str, Value], fixed: float) -> Value:
    """The value of a parameter in a setting; `fixed` where it has no name."""
    if not name:
        return fixed
    if name not in values:
        raise ParameterError(f"{name} is missing; a setting has a value for each parameter that is swept")
    return values[name]


@dataclass(frozen=True, eq=False, kw_only=True)
class ThresholdLine:
    """Settings that differ in one threshold, with the means of all of them.

    Attributes:
        values: the parameters that are the same in all, by the names that users know.
        axis: the parameter that differs; empty = none does, and the line is one setting.
        thresholds: its values, from what offers fewest to what offers most, shape (n_settings,): every one at which
            the selections change within the parameter's range, no other. A selector run with exactly this value
            selects what the line says. Shape (1,), NaN, without an axis.
        sums: by measure, the sum over the queries that it applies to, shape (n_settings,).
        squares, cubes: the sums of second and third powers, for the measures whose interval needs them.
        n: by measure, how many queries it applies to; of a measure in `applies`, the most.
        applies: by measure, to how many queries it applies at each setting, shape (n_settings,), only for measures
            for which that differs: precision of a query whose session holds all that it requires.
        differences: paired ones to a base, by measure, where the rankings have one.
        span: the ends of the parameter's range.
        is_integer: whether the parameter takes whole numbers only.
        beyond: the values of the parameter at which selections change next: at or before the first threshold, and
            behind the last, be they outside the range; infinite = there is none. Of an axis that offers more as it
            rises the first is the lower one.
    """

    values: Mapping[str, Value]
    axis: str
    thresholds: FloatArray
    sums: Mapping[Measure, FloatArray]
    n: Mapping[Measure, int]
    squares: Mapping[Measure, FloatArray] = field(default_factory=dict)
    cubes: Mapping[Measure, FloatArray] = field(default_factory=dict)
    applies: Mapping[Measure, FloatArray] = field(default_factory=dict)
    differences: Mapping[Measure, DifferenceSums] = field(default_factory=dict)
    span: tuple[float, float] = (-math.inf, math.inf)
    is_integer: bool = False
    beyond: tuple[float, float] = (math.inf, -math.inf)

    def __len__(self) -> int:
        return len(self.thresholds)

    def values_at(self, index: int) -> dict[str, Value]:
        """The values of one setting."""
        return self._with(float(self.thresholds[index]))

    def rounded_values(self, index: int) -> dict[str, Value]:
        """The values of one setting, with `rounded_threshold` in place of the exact threshold."""
        return self._with(self.rounded_threshold(index))

    def _with(self, threshold: float) -> dict[str, Value]:
        if not self.axis:
            return dict(self.values)
        return {**self.values, self.axis: int(threshold) if self.is_integer else threshold}

    def means(self, measure: Measure, indices: IntArray | None = None) -> FloatArray:
        """The mean at some indices, or at every setting; NaN where it applies to no query."""
        sums = self.sums[measure]
        return np.asarray((sums if indices is None else sums[indices]) / self.counts(measure, indices))

    def counts(self, measure: Measure, indices: IntArray | None = None) -> FloatArray | float:
        """How many queries a measure applies to, at some indices or at all where that differs; NaN for none."""
        applies = self.applies.get(measure) if self.applies else None
        if applies is None:
            return float(self.n[measure] or math.nan)
        some = applies if indices is None else applies[indices]
        return np.where(some > 0, some, math.nan)

    def ends(self, index: int) -> tuple[float, float]:
        """The thresholds between which selections are those of one setting: its own end, and that of the next."""
        end = float(self.thresholds[index + 1] if index + 1 < len(self) else self.beyond[1])
        return float(self.thresholds[index] if index else self.beyond[0]), end

    def rounded_threshold(self, index: int) -> float:
        """A decimal with few digits that gives the same selections on this line, for people and presets.

        Scores differ by up to 1e-5 from machine to machine. So it keeps that far from the two values between which
        nothing changes, or a quarter of the space between them where that is less; of the decimals with as many
        digits it is the one nearest to the middle, or to the end of the range where nothing changes up to there or
        the middle lies outside. Where nothing changes at all it is the top of the range. NaN without an axis.
        """
        if not self.axis:
            return float("nan")
        keep = float(self.thresholds[index])
        reached, change = self.ends(index)
        rises = reached < change
        keys = [key for key in (reached, change) if math.isfinite(key)]
        if len(keys) == 2:
            middle = sum(keys) / 2
        else:
            end = keep if math.isfinite(change) else self.span[1 if rises or not keys else 0]
            middle = end if math.isfinite(end) else keep
        middle = min(max(middle, self.span[0]), self.span[1])  # what changes next may lie outside
        distance = 0.0 if self.is_integer else min([MARGIN, *(abs(middle - key) / 2 for key in keys)])
        for digits in range(-_DIGITS, 1) if self.is_integer else range(_DIGITS + 1):
            short = round(middle, digits)
            selects_same = reached <= short < change if rises else change < short <= reached
            far = all(abs(short - key) >= distance for key in keys)
            if selects_same and far and self.span[0] <= short <= self.span[1]:
                return short
        return keep


class Collector(Protocol[L_contra]):
    """Sees every line of a sweep, and keeps what it needs: the best setting, or a front."""

    def add(self, line: L_contra) -> None:
        """Take the settings of a line into account."""
        ...


def show_lines(
    lines: Iterable[L], collectors: Sequence[Collector[L]], *, progress: Callable[[int], None] | None = None
) -> int:
    """Show each line to all collectors, in order, and forget it; how many settings there were.

    Args:
        lines: settings, one line at a time.
        collectors: those that keep something.
        progress: told after each line how many settings there have been.
    """
    settings = 0
    for line in lines:
        settings += len(line)
        for collector in collectors:
            collector.add(line)
        if progress is not None:
            progress(settings)
    return settings


class Front:
    """The settings that no other beats: none has a higher mean gain at a mean cost that is no higher.

    Of settings equal in both means the one with fewer prompt tokens is kept, where the lines know tokens; then that of
    the line that came first, and on a line the one that offers less. One setting is held for each distinct mean gain
    at most, which are no more than the queries if the gain is completeness.

    Attributes:
        cost, gain: what less and what more of is better.
        settings: how many were looked at.
        values: the parameters of each setting, in the order of `means`.
    """

    def __init__(self, *, cost: Measure, gain: Measure) -> None:
        self.cost = cost
        self.gain = gain
        self.settings = 0
        self._points = np.empty((3, 0))  # cost, gain, tokens; costs and gains both rise
        self.values: tuple[Mapping[str, Value], ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def add(self, line: ThresholdLine) -> None:
        """Take the settings of a line into account; those with a mean that applies to no query are ignored."""
        self.settings += len(line)
        if not (line.n[self.cost] and line.n[self.gain]):
            return
        indices = _unbeaten(_in_order(line, self.cost), _in_order(line, self.gain))
        cost, gain = line.means(self.cost, indices), line.means(self.gain, indices)
        news = self._is_news(cost, gain)
        if not news.any():
            return
        indices, cost, gain = indices[news], cost[news], gain[news]
        tokens = line.means(TOKENS, indices) if TOKENS in line.sums else np.zeros(len(indices))
        points = np.concatenate([self._points, np.stack([cost, gain, tokens])], axis=1)
        values = [*self.values, *(line.values_at(index) for index in indices.tolist())]
        by_cost = np.lexsort((np.arange(len(values)), points[2], -points[1], points[0]))
        unbeaten = by_cost[_rises(points[1, by_cost])]
        self._points, self.values = points[:, unbeaten], tuple(values[index] for index in unbeaten.tolist())

    def _is_news(self, cost: FloatArray, gain: FloatArray) -> BoolArray:
        """False for settings that one on the front beats."""
        best = np.concatenate([[-np.inf], self._points[1]])
        below = best[np.searchsorted(self._points[0], cost, side="left")]  # of those that cost less
        upto = best[np.searchsorted(self._points[0], cost, side="right")]  # and of those that cost as much
        return np.asarray((gain > below) & (gain >= upto))

    @property
    def means(self) -> tuple[FloatArray, FloatArray]:
        """Mean cost and mean gain of each setting, both rising, each of shape (n,)."""
        return self._points[0], self._points[1]

    def thinned(self, max_settings: int) -> list[Mapping[str, Value]]:
        """The parameters of at most so many settings (>= 1), evenly from the first to the last."""
        indices = np.unique(np.rint(np.linspace(0, len(self) - 1, min(max_settings, len(self)))).astype(np.int64))
        return [self.values[index] for index in indices.tolist()]


def _in_order(line: ThresholdLine, measure: Measure) -> FloatArray:
    """Numbers in the order of the means: the sums, which cost no division, where all are over the same queries."""
    return line.means(measure) if measure in line.applies else line.sums[measure]


def _unbeaten(cost: FloatArray, gain: FloatArray) -> IntArray:
    """Indices on a line that no other beats, of equals the first; rising cost. NaN is ignored."""
    if np.isnan(cost).any() or np.isnan(gain).any():
        finite = np.flatnonzero(~(np.isnan(cost) | np.isnan(gain)))
        return finite[_unbeaten(cost[finite], gain[finite])]
    if (cost[1:] < cost[:-1]).any():
        by_cost: IntArray = np.lexsort((-gain, cost)).astype(np.int64)
        return by_cost[_rises(gain[by_cost])]
    rising = _rises(gain)
    # of several that cost the same the last one has the highest gain
    costs_more = cost[rising][1:] > cost[rising][:-1]
    return np.asarray(rising[np.append(costs_more, np.ones(min(len(rising), 1), dtype=np.bool_))])


def _rises(values: FloatArray) -> IntArray:
    """Indices at which a value is above all before it."""
    steps = np.flatnonzero(values[1:] > values[:-1]) + 1  # few of many, as a rule
    steps = np.append(np.zeros(min(len(values), 1), dtype=np.int64), steps)
    highest = np.maximum.accumulate(values[steps])
    return np.asarray(steps[np.append(np.ones(min(len(steps), 1), dtype=np.bool_), highest[1:] > highest[:-1])])
