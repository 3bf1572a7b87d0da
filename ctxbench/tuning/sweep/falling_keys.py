"""The primitive of every sweep: along each ladder rungs have a key that never rises, and a threshold on it is turned.

Rungs with a key of at least the threshold are offered, but no fewer than `low` and no more than `high` a query. So the
sum of a measure at every threshold is its sum at `low`, plus one cumulative sum, in order of falling key, over the
rungs between `low` and `high`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.selectors.parameters import Value
from ctxbench.tuning.sweep.lines import Line
from ctxbench.tuning.sweep.measures import Measure
from ctxbench.tuning.sweep.paired_sums import Differences
from ctxbench.tuning.sweep.rankings import Ladders


@dataclass(frozen=True, eq=False, kw_only=True)
class Axis:
    """The parameter that a line runs along.

    Attributes:
        name: as users know it.
        span: the ends of its range.
        rises: whether more is offered as it rises, as with a margin; what is compared with keys is then its negative.
        whole: it takes whole numbers only.
    """

    name: str
    span: tuple[float, float]
    rises: bool = False
    whole: bool = False


@dataclass(frozen=True, eq=False)
class Rows:
    """Rungs in order of falling key.

    Attributes:
        key: shape (n,), falling.
        owner, place: ladder and place of each rung.
        among: where each stands among all that were sorted.
    """

    key: FloatArray
    owner: npt.NDArray[np.int32]
    place: npt.NDArray[np.int32]
    among: IntArray

    def from_low(self, low: IntArray) -> Rows:
        """The rungs at places from `low` on, shape (n_queries,)."""
        return self._at(self.place >= low.astype(np.int32)[self.owner])

    def below(self, high: IntArray) -> Rows:
        """The rungs at places below `high`, shape (n_queries,)."""
        return self._at(self.place < high.astype(np.int32)[self.owner])

    def _at(self, keep: BoolArray) -> Rows:
        rows = np.flatnonzero(keep)
        if len(rows) == len(keep):
            return self
        return Rows(self.key[rows], self.owner[rows], self.place[rows], self.among[rows])


class Falling:
    """The rungs of ladders, sorted once by a key that never rises along a ladder; then any number of lines."""

    def __init__(self, ladders: Ladders, key: FloatArray, high: IntArray) -> None:
        """Sort.

        Args:
            ladders: of which the first rungs are offered.
            key: shape (n_rungs,).
            high: the most that any line offers, shape (n_queries,); the rest is left out.
        """
        self.ladders = ladders
        rungs = ladders.rungs
        rows = np.flatnonzero(rungs.place < high[rungs.owner])
        rows = rows[np.argsort(-key[rows], kind="stable")]
        owner, place = rungs.owner[rows].astype(np.int32), rungs.place[rows].astype(np.int32)
        self._all = Rows(key[rows], owner, place, np.arange(len(rows)))
        self._gains = {name: track.gains[rows] for name, track in ladders.tracks.items()}
        self._last = (np.zeros(ladders.n_queries, dtype=np.int64), high, self._all)
        self._kept: dict[int, tuple[IntArray, IntArray, _Sums]] = {}

    def line(
        self, axis: Axis, values: Mapping[str, Value], *, low: IntArray, high: IntArray, slot: int | None = None
    ) -> Line:
        """All settings of a threshold.

        Args:
            axis: what is turned.
            values: of all other parameters.
            low, high: the fewest and the most that are offered, shape (n_queries,), low <= high <= sizes.
            slot: where the sums are kept: the next line of the same slot, `low` and `high` shares them.
        """
        kept = None if slot is None else self._kept.get(slot)
        if kept is not None and np.array_equal(kept[0], low) and np.array_equal(kept[1], high):
            found = kept[2]
        else:
            found = self._summed(axis, low, self._between(low, high))
            if slot is not None:
                self._kept[slot] = (low, high, found)
        applies, sums, squares, cubes = found.by_power
        return Line(
            values=values,
            axis=axis.name,
            thresholds=found.thresholds,
            sums=sums,
            n=self.ladders.applies,
            squares=squares,
            cubes=cubes,
            applies=applies,
            differences=found.differences,
            span=axis.span,
            whole=axis.whole,
            beyond=found.beyond,
        )

    def _between(self, low: IntArray, high: IntArray) -> Rows:
        """Rungs between `low` and `high`; from those of the line before, where it had all of them."""
        before_low, before_high, rows = self._last
        nested = (low >= before_low).all() and (high <= before_high).all()
        if not nested:
            rows = self._all
        if not nested or (high < before_high).any():
            rows = rows.below(high)
        rows = rows.from_low(low)
        self._last = (low, high, rows)
        return rows

    def _summed(self, axis: Axis, low: IntArray, rows: Rows) -> _Sums:
        """Thresholds, and the sums of every track at them."""
        first, last = (-end for end in axis.span) if axis.rises else axis.span[::-1]
        reached, inside = _at_least(rows.key, first), _at_least(rows.key, last)
        inner = rows.key[reached:inside]
        changes = inner[1:] != inner[:-1]
        ends = None if changes.all() else np.append(np.flatnonzero(changes), len(inner) - 1)
        keys = np.concatenate([[first], inner if ends is None else inner[ends]])
        beyond = (
            float(rows.key[reached - 1]) if reached else np.inf,
            float(rows.key[inside]) if inside < len(rows.key) else -np.inf,
        )
        at = self.ladders.rungs.length_start[:-1] + low

        def summed(measure: Measure, power: int) -> FloatArray:
            track, gains = self.ladders.tracks[measure, power], self._gains[measure, power][rows.among[:inside]]
            base = int(track.levels[at].sum()) + int(gains[:reached].sum())
            total = np.cumsum(gains[reached:])
            out = np.empty(len(keys))
            out[0] = base
            np.add(total if ends is None else total[ends], base, out=out[1:])
            return out if track.scale == 1 else np.divide(out, track.scale, out=out)

        def paired(measure: Measure) -> Differences:
            scale, gains = self.ladders.tracks[measure, 1].scale, self._gains[measure, 1][rows.among[:inside]]
            before = np.bincount(rows.owner[:reached], gains[:reached], minlength=len(low)) / scale
            stops = np.arange(1, inside - reached + 1) if ends is None else ends + 1
            return _differences(
                self.ladders,
                measure,
                self.ladders.values(measure, low) + before,
                owner=rows.owner[reached:inside].astype(np.int64),
                gain=gains[reached:] / scale,
                stops=stops,
            )

        by_power = _by_power(self.ladders, summed)
        differences = _WhenAsked(_paired_measures(self.ladders), paired)
        if axis.rises:
            return _Sums(-keys, (-beyond[0], -beyond[1]), by_power, differences)
        return _Sums(keys, beyond, by_power, differences)


S = TypeVar("S")


class _WhenAsked(Mapping[Measure, S]):
    """Sums by measure, each made when it is first asked for: no keeper needs all of them of every line."""

    def __init__(self, measures: Sequence[Measure], make: Callable[[Measure], S]) -> None:
        self._measures = measures
        self._make = make
        self._made: dict[Measure, S] = {}

    def __getitem__(self, measure: Measure) -> S:
        found = self._made.get(measure)
        if found is None:
            if measure not in self._measures:
                raise KeyError(measure)
            found = self._made[measure] = self._make(measure)
        return found

    def __contains__(self, measure: object) -> bool:
        return measure in self._measures

    def __iter__(self) -> Iterator[Measure]:
        return iter(self._measures)

    def __len__(self) -> int:
        return len(self._measures)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Thresholds of a line, those next to them, sums by measure for powers 0 to 3, and paired differences."""

    thresholds: FloatArray
    beyond: tuple[float, float]
    by_power: Sequence[Mapping[Measure, FloatArray]]
    differences: Mapping[Measure, Differences]


def single(ladders: Ladders, values: Mapping[str, Value], lengths: IntArray) -> Line:
    """The line of one setting that offers the first `lengths` items, shape (n_queries,)."""
    at = ladders.rungs.length_start[:-1] + lengths

    def summed(measure: Measure, power: int) -> FloatArray:
        track = ladders.tracks[measure, power]
        return np.full(1, int(track.levels[at].sum()) / track.scale)

    def paired(measure: Measure) -> Differences:
        nothing = np.empty(0, dtype=np.int64)
        first = ladders.values(measure, lengths)
        return _differences(ladders, measure, first, owner=nothing, gain=np.empty(0), stops=nothing)

    applies, sums, squares, cubes = _by_power(ladders, summed)
    return Line(
        values=values,
        axis="",
        thresholds=np.array([np.nan]),
        sums=sums,
        n=ladders.applies,
        squares=squares,
        cubes=cubes,
        applies=applies,
        differences=_WhenAsked(_paired_measures(ladders), paired),
    )


def _paired_measures(ladders: Ladders) -> list[Measure]:
    return [] if ladders.pairing is None else [one for one in ladders.measures if one in ladders.pairing.base]


def _differences(
    ladders: Ladders, measure: Measure, first: FloatArray, *, owner: IntArray, gain: FloatArray, stops: IntArray
) -> Differences:
    if ladders.pairing is None:
        raise KeyError(measure)
    return ladders.pairing.along(measure, first, owner=owner, gain=gain, stops=stops)


def _by_power(ladders: Ladders, summed: Callable[[Measure, int], FloatArray]) -> list[Mapping[Measure, FloatArray]]:
    """Sums by measure, for powers 0 to 3."""

    def of(power: int) -> Mapping[Measure, FloatArray]:
        names = [name for name, n in ladders.tracks if n == power]
        return _WhenAsked(names, lambda measure: summed(measure, power)) if names else {}

    return [of(power) for power in range(4)]


def _at_least(key: FloatArray, threshold: float) -> int:
    """How many keys, in falling order, are at least a threshold."""
    return len(key) - int(np.searchsorted(key[::-1], threshold, side="left"))
