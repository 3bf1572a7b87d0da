"""The front of a sweep: its settings that no other beats."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ctxbench.bench.metrics import Metric
from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.selectors.parameters import Value
from ctxbench.tuning.sweep.measures import Measure
from ctxbench.tuning.sweep.threshold_lines import ThresholdLine

_TOKENS = Measure(Metric("tokens"))


class Front:
    """The settings that no other beats: none has a higher mean gain at a mean cost that is no higher.

    Of settings equal in both means the one with fewer prompt tokens is kept, where the lines know tokens; then that of
    the line that came first, and on a line the one that offers less. One setting is held for each distinct mean gain
    at most, which are no more than the queries if the gain is completeness.

    Attributes:
        cost, gain: what less and what more of is better.
        settings: how many were looked at.
    """

    def __init__(self, *, cost: Measure, gain: Measure) -> None:
        self.cost = cost
        self.gain = gain
        self.settings = 0
        self._points = np.empty((3, 0))  # cost, gain, tokens; costs and gains both rise
        self._values: list[Mapping[str, Value]] = []

    def __len__(self) -> int:
        return len(self._values)

    def add(self, line: ThresholdLine) -> None:
        """See the settings of a line; those with a mean that applies to no query are passed over."""
        self.settings += len(line)
        if not (line.n[self.cost] and line.n[self.gain]):
            return
        places = _unbeaten(_in_order(line, self.cost), _in_order(line, self.gain))
        cost, gain = line.means(self.cost, places), line.means(self.gain, places)
        news = self._is_news(cost, gain)
        if not news.any():
            return
        places, cost, gain = places[news], cost[news], gain[news]
        tokens = line.means(_TOKENS, places) if _TOKENS in line.sums else np.zeros(len(places))
        points = np.concatenate([self._points, np.stack([cost, gain, tokens])], axis=1)
        values = [*self._values, *(line.values_at(place) for place in places.tolist())]
        by_cost = np.lexsort((np.arange(len(values)), points[2], -points[1], points[0]))
        kept = by_cost[_rises(points[1, by_cost])]
        self._points, self._values = points[:, kept], [values[place] for place in kept.tolist()]

    def _is_news(self, cost: FloatArray, gain: FloatArray) -> BoolArray:
        """False for settings that one on the front beats."""
        best = np.concatenate([[-np.inf], self._points[1]])
        below = best[np.searchsorted(self._points[0], cost, side="left")]  # of those that cost less
        upto = best[np.searchsorted(self._points[0], cost, side="right")]  # and of those that cost as much
        news: BoolArray = (gain > below) & (gain >= upto)
        return news

    @property
    def means(self) -> tuple[FloatArray, FloatArray]:
        """Mean cost and mean gain of each setting, both rising, each of shape (n,)."""
        return self._points[0], self._points[1]

    @property
    def values(self) -> tuple[Mapping[str, Value], ...]:
        """The parameters of each setting, in the same order."""
        return tuple(self._values)

    def thinned(self, most: int) -> list[Mapping[str, Value]]:
        """The parameters of at most that many settings, evenly from the first to the last; `most` >= 1."""
        places = np.unique(np.rint(np.linspace(0, len(self) - 1, min(most, len(self)))).astype(np.int64))
        return [self._values[place] for place in places.tolist()]


def _in_order(line: ThresholdLine, measure: Measure) -> FloatArray:
    """Numbers in the order of the means: the sums, which cost no division, where all are over the same queries."""
    return line.means(measure) if measure in line.applies else line.sums[measure]


def _unbeaten(cost: FloatArray, gain: FloatArray) -> IntArray:
    """Places on a line that none of the others beats, of equals the first; rising cost. NaN is passed over."""
    if np.isnan(cost).any() or np.isnan(gain).any():
        known = np.flatnonzero(~(np.isnan(cost) | np.isnan(gain)))
        return known[_unbeaten(cost[known], gain[known])]
    if (cost[1:] < cost[:-1]).any():
        by_cost: IntArray = np.lexsort((-gain, cost)).astype(np.int64)
        return by_cost[_rises(gain[by_cost])]
    rising = _rises(gain)
    # of several that cost the same the last one has the highest gain
    dearer = cost[rising][1:] > cost[rising][:-1]
    unbeaten: IntArray = rising[np.append(dearer, np.ones(min(len(rising), 1), dtype=np.bool_))]
    return unbeaten


def _rises(values: FloatArray) -> IntArray:
    """Places at which a value is above all before it."""
    steps = np.flatnonzero(values[1:] > values[:-1]) + 1  # few of many, as a rule
    steps = np.append(np.zeros(min(len(values), 1), dtype=np.int64), steps)
    highest = np.maximum.accumulate(values[steps])
    rises: IntArray = steps[np.append(np.ones(min(len(steps), 1), dtype=np.bool_), highest[1:] > highest[:-1])]
    return rises
