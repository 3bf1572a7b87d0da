"""One setting for several datasets, each weighing the same: their lines, at common thresholds.

A measure's mean is the mean of the datasets' means, over the datasets in which it applies to any query; its interval is
put together from theirs by MOVER. An objective that counts (tokens, items) is the geometric mean over datasets, so
that a dataset with large items decides no more than others; 1 is added to each mean and taken off again, so that
offering nothing on one dataset does not decide alone. Other objectives are means of means.

Source of MOVER: Zou and Donner, Construction of confidence limits about effect measures: a general approach, Statistics
in Medicine 27, 2008.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.tuning.optima import Optimum
from ctxbench.tuning.sweep.families import CutFamily
from ctxbench.tuning.sweep.measures import Measure
from ctxbench.tuning.sweep.rankings import MeasuredRankings
from ctxbench.tuning.sweep.threshold_lines import ThresholdLine, show_lines
from ctxbench.tuning.sweep.threshold_sums import count_at_least
from ctxbench.tuning.swept_settings import LineSettings, SweptSettings

GRID = 2000
"""Common thresholds that are tried a line, at most: all of all datasets, or of each dataset as many, evenly by rank."""


class CommonLine(SweptSettings):
    """Settings of lines that differ in the dataset only, at common thresholds."""

    def __init__(
        self,
        lines: Sequence[ThresholdLine],
        thresholds: FloatArray,
        places: Sequence[IntArray],
        worth: Sequence[float] | None = None,
    ) -> None:
        """Use thresholds that are known; `of` finds them.

        Args:
            lines: one a dataset, of equal values and axis.
            thresholds: from what offers fewest to what offers most, shape (n_settings,).
            places: for each line, its place at each threshold, shape (n_settings,).
            worth: for each line, how many independent queries a query is worth (see `Optimum`); 1 if not given.
        """
        self._lines = [LineSettings(line) for line in lines]
        self._first = lines[0]
        self._places = places
        self.thresholds = thresholds
        self._worth = [1.0] * len(lines) if worth is None else worth

    @classmethod
    def of(
        cls, lines: Sequence[ThresholdLine], *, worth: Sequence[float] | None = None, most: int = GRID
    ) -> CommonLine:
        """Find the common thresholds of the lines of several datasets.

        Args:
            lines: one a dataset, in the same order of datasets each time.
            worth: for each line, how many independent queries a query is worth (see `Optimum`); 1 if not given.
            most: how many thresholds are tried; of longer lines every dataset gives as many, evenly by rank.
        """
        first = lines[0]
        if any(line.axis != first.axis or line.values != first.values for line in lines):
            raise RuntimeError("lines of different settings cannot share thresholds")
        if not first.axis:
            return cls(lines, first.thresholds, [np.zeros(1, dtype=np.int64) for _ in lines], worth)
        sign = -1.0 if _rises(first) else 1.0
        by_line = [sign * line.thresholds for line in lines]
        if sum(map(len, by_line)) > most:
            share = max(most // len(lines), 2)
            tried = [keys[np.unique(np.linspace(0, len(keys) - 1, share).round().astype(np.int64))] for keys in by_line]
        else:
            tried = by_line
        common = np.unique(np.concatenate(tried))[::-1]
        places = [np.maximum(count_at_least(keys, common) - 1, 0) for keys in by_line]
        return cls(lines, sign * common, places, worth)

    def select_place(self, place: int) -> CommonLine:
        """One of them alone, in arrays of its own."""
        alone, here = self.line_at(place), np.zeros(1, dtype=np.int64)
        selected = [
            replace(line.select_place(int(places[place])).line, thresholds=alone.thresholds, beyond=alone.beyond)
            for line, places in zip(self._lines, self._places, strict=True)
        ]
        return CommonLine(selected, alone.thresholds, [here for _ in selected], self._worth)

    def n(self, measure: Measure) -> int:
        """How many queries of all datasets a measure applies to."""
        return sum(line.n(measure) for line in self._lines)

    def means(self, measure: Measure, places: IntArray | None = None) -> FloatArray:
        """The means of the datasets' means; NaN where a measure applies to no query of any."""
        return _mean(self._each(measure, places))

    def objective_means(self, measure: Measure, places: IntArray | None = None) -> FloatArray:
        """The geometric means of what counts, else `means`."""
        each = self._each(measure, places)
        if measure.metric.declaration.scale != "amount":
            return _mean(each)
        return np.asarray(np.expm1(_mean(np.log1p(each))))

    def bounds(
        self, measure: Measure, places: IntArray, *, level: float, times: float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """Intervals by MOVER: the squared distances of the datasets' ends from their means add up."""
        each = self._each(measure, places)
        ends = [
            line.bounds(measure, own[places], level=level, times=times * worth)
            for line, own, worth in zip(self._lines, self._places, self._worth, strict=True)
        ]
        mean, some = _mean(each), (~np.isnan(each)).sum(axis=0)
        distance = [np.sqrt(np.nansum((each - np.stack(end)) ** 2, axis=0)) for end in zip(*ends, strict=True)]
        low, high = (np.where(some > 0, one / np.maximum(some, 1), math.inf) for one in distance)
        return mean - low, mean + high

    def differences(self, measure: Measure, places: IntArray, *, times: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """The means of the datasets' mean differences, and the errors of these means of independent ones."""
        each = [
            line.differences(measure, own[places], times=times)
            for line, own in zip(self._lines, self._places, strict=True)
        ]
        mean, error = (np.stack(part) for part in zip(*each, strict=True))
        some = (~np.isnan(mean)).sum(axis=0)
        variance = np.where(np.isnan(mean), 0.0, error**2).sum(axis=0)
        return _mean(mean), np.where(some > 0, np.sqrt(variance) / np.maximum(some, 1), math.inf)

    def _each(self, measure: Measure, places: IntArray | None) -> FloatArray:
        """The datasets' means, shape (n_datasets, n_settings)."""
        return np.stack(
            [
                line.means(measure, own if places is None else own[places])
                for line, own in zip(self._lines, self._places, strict=True)
            ]
        )

    def line_at(self, place: int) -> ThresholdLine:
        """The first dataset's line with one threshold, and the ends between which nothing changes on any dataset."""
        line = self._first
        if not line.axis:
            return line
        ends = [one.line.ends(int(own[place])) for one, own in zip(self._lines, self._places, strict=True)]
        nearer, further = (max, min) if _rises(line) else (min, max)
        beyond = (nearer(own for own, _ in ends), further(behind for _, behind in ends))
        return replace(line, thresholds=self.thresholds[place : place + 1], beyond=beyond)


def sweep_common(
    family: CutFamily,
    rankings: Sequence[MeasuredRankings],
    optima: Sequence[Optimum],
    *,
    worth: Sequence[float] | None = None,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Show optima every setting of a family, with the same values on several datasets.

    Args:
        family: which settings there are; its lines have the same fixed values, in the same order, on every dataset.
        rankings: one a dataset, at least one.
        optima: of policies whose targets `of: base` are multiples of the mean of the datasets' means.
        worth: for each dataset, how many independent queries a query is worth (see `Optimum`); 1 if not given.
        progress: told after each line how many settings have been evaluated.

    Returns:
        How many settings there were.
    """
    by_dataset = zip(*(family.lines(one) for one in rankings), strict=True)
    return show_lines((CommonLine.of(lines, worth=worth) for lines in by_dataset), optima, progress=progress)


def _rises(line: ThresholdLine) -> bool:
    """Whether more is offered as the threshold rises."""
    return line.beyond[0] < line.beyond[1]


def _mean(each: FloatArray) -> FloatArray:
    """Means over datasets, shape (n_settings,), NaN left out; NaN where all are."""
    some = (~np.isnan(each)).sum(axis=0)
    return np.asarray(np.nansum(each, axis=0) / np.where(some > 0, some, math.nan))
