"""Sums of measures at every value of a threshold: the computation that every sweep rests on.

The items of each ranking have a key that never rises from one place to the next. Items with a key of at least the
threshold are offered, but no fewer than `low` and no more than `high` a query. So the sum of a measure at every
threshold is its sum at `low`, plus one cumulative sum over the items between `low` and `high`, highest key first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.selectors.parameters import Value
from ctxbench.tuning.sweep.measures import DifferenceSums, Measure, Pairing
from ctxbench.tuning.sweep.rankings import MeasuredRankings
from ctxbench.tuning.sweep.threshold_lines import ThresholdLine

S = TypeVar("S")
_KEPT = 10_000  # settings of a line, above which it takes too much memory to be kept until it comes again


@dataclass(frozen=True, eq=False, kw_only=True)
class Axis:
    """The parameter that differs between the settings of a line.

    Attributes:
        name: as users know it.
        span: the ends of its range.
        rises: whether more is offered as it rises, as with a margin; what is compared with keys is then its negative.
        is_integer: whether it takes whole numbers only.
    """

    name: str
    span: tuple[float, float]
    rises: bool = False
    is_integer: bool = False


@dataclass(frozen=True, eq=False)
class SortedItems:
    """Ranked items, the highest key first.

    Attributes:
        key: shape (n,), from high to low.
        owner, position: ranking and position of each item.
        index: of each among all that were sorted.
    """

    key: FloatArray
    owner: npt.NDArray[np.int32]
    position: npt.NDArray[np.int32]
    index: IntArray

    def select(self, keep: BoolArray) -> SortedItems:
        """The items where `keep` is True."""
        rows = np.flatnonzero(keep)
        if len(rows) == len(keep):
            return self
        return SortedItems(self.key[rows], self.owner[rows], self.position[rows], self.index[rows])


class ThresholdSums:
    """Computes lines of settings over rankings whose items are sorted once by their key."""

    def __init__(self, rankings: MeasuredRankings, key: FloatArray, high: IntArray) -> None:
        """Sort the items.

        Args:
            rankings: of which the first items are offered.
            key: of each item, never rising along a ranking, shape (n_ranked,).
            high: the most that any line offers, shape (n_queries,); the rest is left out.
        """
        self.rankings = rankings
        items = rankings.items
        rows = np.flatnonzero(items.position < high[items.owner])
        rows = rows[np.argsort(-key[rows], kind="stable")]
        owner, position = items.owner[rows].astype(np.int32), items.position[rows].astype(np.int32)
        self._all = SortedItems(key[rows], owner, position, np.arange(len(rows)))
        self._gains = {name: exact.gains[rows] for name, exact in rankings.exact.items()}
        self._last = (np.zeros(rankings.n_queries, dtype=np.int64), high, self._all)
        self._lines: dict[int | None, tuple[IntArray, IntArray, ThresholdLine]] = {}

    def line(
        self, axis: Axis, values: Mapping[str, Value], *, low: IntArray, high: IntArray, slot: int | None = None
    ) -> ThresholdLine:
        """All settings of a threshold.

        Args:
            axis: the parameter that differs.
            values: of all other parameters.
            low, high: the fewest and the most that are offered, shape (n_queries,), low <= high <= sizes.
            slot: where the line is kept, if it is not long: the next one of the same slot, `low` and `high` shares its
                sums.
        """
        stored = self._lines.get(slot)
        if stored is not None and np.array_equal(stored[0], low) and np.array_equal(stored[1], high):
            return replace(stored[2], values=values)
        line = self._line(axis, values, low, self._between(low, high))
        if slot is not None and len(line) <= _KEPT:
            self._lines[slot] = (low, high, line)
        return line

    def _between(self, low: IntArray, high: IntArray) -> SortedItems:
        """Items between `low` and `high`; from those of the line before, where it had all of them."""
        last_low, last_high, rows = self._last
        nested = (low >= last_low).all() and (high <= last_high).all()
        if not nested:
            rows = self._all
        if not nested or (high < last_high).any():
            rows = rows.select(rows.position < high.astype(np.int32)[rows.owner])
        rows = rows.select(rows.position >= low.astype(np.int32)[rows.owner])
        self._last = (low, high, rows)
        return rows

    def _line(self, axis: Axis, values: Mapping[str, Value], low: IntArray, rows: SortedItems) -> ThresholdLine:
        """The line of the settings that offer the first `low` items and those of `rows` with a key high enough."""
        first, last = (-end for end in axis.span) if axis.rises else axis.span[::-1]
        start, stop = count_at_least(rows.key, [first, last]).tolist()
        inner = rows.key[start:stop]
        changes = inner[1:] != inner[:-1]
        ends = None if changes.all() else np.append(np.flatnonzero(changes), len(inner) - 1)
        keys = np.concatenate([[first], inner if ends is None else inner[ends]])
        beyond = (
            float(rows.key[start - 1]) if start else np.inf,
            float(rows.key[stop]) if stop < len(rows.key) else -np.inf,
        )
        at = self.rankings.items.length_start[:-1] + low

        def summed(power: int, measure: Measure) -> FloatArray:
            exact, gains = self.rankings.exact[measure, power], self._gains[measure, power][rows.index[:stop]]
            base = int(exact.levels[at].sum()) + int(gains[:start].sum())
            total = np.cumsum(gains[start:])
            out = np.empty(len(keys))
            out[0] = base
            np.add(total if ends is None else total[ends], base, out=out[1:])
            return out if exact.scale == 1 else np.divide(out, exact.scale, out=out)

        def paired(pairing: Pairing, measure: Measure) -> DifferenceSums:
            scale, gains = self.rankings.exact[measure, 1].scale, self._gains[measure, 1][rows.index[:stop]]
            before = np.bincount(rows.owner[:start], gains[:start], minlength=len(low)) / scale
            return pairing.line_differences(
                measure,
                self.rankings.values(measure, low) + before,
                owner=rows.owner[start:stop].astype(np.int64),
                gain=gains[start:] / scale,
                stops=np.arange(1, stop - start + 1) if ends is None else ends + 1,
            )

        applies, sums, squares, cubes = _sums_by_power(self.rankings, summed)
        return ThresholdLine(
            values=values,
            axis=axis.name,
            thresholds=-keys if axis.rises else keys,
            sums=sums,
            n=self.rankings.applies,
            squares=squares,
            cubes=cubes,
            applies=applies,
            differences=_paired_sums(self.rankings, paired),
            span=axis.span,
            is_integer=axis.is_integer,
            beyond=(-beyond[0], -beyond[1]) if axis.rises else beyond,
        )


class _LazySums(Mapping[Measure, S]):
    """Sums by measure, each computed when it is first asked for: no collector needs all of them of every line."""

    __slots__ = ("_compute", "_measures", "_values")

    def __init__(self, measures: Sequence[Measure], compute: Callable[[Measure], S]) -> None:
        self._measures, self._compute = measures, compute
        self._values: dict[Measure, S] = {}

    def __getitem__(self, measure: Measure) -> S:
        value = self._values.get(measure)  # a sweep asks millions of times: one look each
        if value is None:
            if measure not in self._measures:
                raise KeyError(measure)
            value = self._values[measure] = self._compute(measure)
        return value

    def __contains__(self, measure: object) -> bool:
        return measure in self._values or measure in self._measures

    def __iter__(self) -> Iterator[Measure]:
        return iter(self._measures)

    def __len__(self) -> int:
        return len(self._measures)


def prefix_line(rankings: MeasuredRankings, values: Mapping[str, Value], lengths: IntArray) -> ThresholdLine:
    """The line of one setting that offers the first `lengths` items, shape (n_queries,)."""
    at = rankings.items.length_start[:-1] + lengths

    def summed(power: int, measure: Measure) -> FloatArray:
        exact = rankings.exact[measure, power]
        return np.full(1, int(exact.levels[at].sum()) / exact.scale)

    def paired(pairing: Pairing, measure: Measure) -> DifferenceSums:
        return pairing.differences({measure: rankings.values(measure, lengths)})[measure]

    applies, sums, squares, cubes = _sums_by_power(rankings, summed)
    return ThresholdLine(
        values=values,
        axis="",
        thresholds=np.array([np.nan]),
        sums=sums,
        n=rankings.applies,
        squares=squares,
        cubes=cubes,
        applies=applies,
        differences=_paired_sums(rankings, paired),
    )


def _paired_sums(
    rankings: MeasuredRankings, paired: Callable[[Pairing, Measure], DifferenceSums]
) -> Mapping[Measure, DifferenceSums]:
    """Differences to the base by measure, where the rankings have one."""
    pairing = rankings.pairing
    if pairing is None:
        return {}
    return _LazySums([measure for measure in rankings.measures if measure in pairing.base], partial(paired, pairing))


def _sums_by_power(
    rankings: MeasuredRankings, summed: Callable[[int, Measure], FloatArray]
) -> list[Mapping[Measure, FloatArray]]:
    """Sums by measure, for powers 0 to 3."""
    by_power = [[measure for measure, n in rankings.exact if n == power] for power in range(4)]
    return [_LazySums(some, partial(summed, power)) if some else {} for power, some in enumerate(by_power)]


def count_at_least(key: FloatArray, thresholds: npt.ArrayLike) -> IntArray:
    """How many keys, from high to low, are at least each threshold, in the shape of these."""
    return np.asarray(len(key) - np.searchsorted(key[::-1], thresholds, side="left"))
