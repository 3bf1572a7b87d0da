"""Lines: settings that differ in one threshold, with the means of all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.candidates import MARGIN
from ctxbench.selectors.parameters import Value
from ctxbench.tuning.sweep.measures import REACH, Measure
from ctxbench.tuning.sweep.paired_sums import DifferenceSums

__all__ = ["REACH", "Collector", "Measure", "ThresholdLine"]

_DIGITS = 17  # as many tell any two floats apart


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
        whole: the parameter takes whole numbers only.
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
    whole: bool = False
    beyond: tuple[float, float] = (math.inf, -math.inf)

    def __len__(self) -> int:
        return len(self.thresholds)

    def values_at(self, place: int) -> dict[str, Value]:
        """The values of one setting."""
        return self._with(float(self.thresholds[place]))

    def rounded_values(self, place: int) -> dict[str, Value]:
        """The values of one setting, with `rounded_threshold` in place of the exact threshold."""
        return self._with(self.rounded_threshold(place))

    def _with(self, threshold: float) -> dict[str, Value]:
        if not self.axis:
            return dict(self.values)
        return {**self.values, self.axis: int(threshold) if self.whole else threshold}

    def means(self, measure: Measure, places: IntArray | None = None) -> FloatArray:
        """The mean at some settings, shape (n_places,), or at every one; NaN where it applies to no query."""
        chosen = slice(None) if places is None else places
        sums = self.sums[measure][chosen]
        n = self.applies[measure][chosen] if measure in self.applies else np.full(1, float(self.n[measure]))
        means: FloatArray = sums / np.where(n > 0, n, np.nan)
        return means

    def rounded_threshold(self, place: int) -> float:
        """A decimal with few digits that gives the same selections on this line, for people and presets.

        Scores differ by up to 1e-5 from machine to machine. So it keeps that far from the two values between which
        nothing changes, or a quarter of the space between them where that is less; of the decimals with as many
        digits it is the one nearest to the middle, or to the end of the range where nothing changes up to there or
        the middle lies outside. Where nothing changes at all it is the top of the range. NaN without an axis.
        """
        if not self.axis:
            return float("nan")
        keep = float(self.thresholds[place])
        reached = keep if place else float(self.beyond[0])
        change = float(self.thresholds[place + 1] if place + 1 < len(self) else self.beyond[1])
        rises = reached < change
        keys = [key for key in (reached, change) if math.isfinite(key)]
        if len(keys) == 2:
            middle = sum(keys) / 2
        else:
            end = keep if math.isfinite(change) else self.span[1 if rises or not keys else 0]
            middle = end if math.isfinite(end) else keep
        middle = min(max(middle, self.span[0]), self.span[1])  # what changes next may lie outside
        wanted = 0.0 if self.whole else min([MARGIN, *(abs(middle - key) / 2 for key in keys)])
        for digits in range(-_DIGITS, 1) if self.whole else range(_DIGITS + 1):
            short = round(middle, digits)
            same = reached <= short < change if rises else change < short <= reached
            far = all(abs(short - key) >= wanted for key in keys)
            if same and far and self.span[0] <= short <= self.span[1]:
                return short
        return keep


class Collector(Protocol):
    """Sees every line of a sweep, and keeps what it needs: the best setting, or a front."""

    def add(self, line: ThresholdLine) -> None:
        """See the settings of a line."""
        ...
