"""Rankings before any cut, and sums of measures at every threshold.

Items of a ranking have a key that does not rise along it. Items with a key of at least the threshold are offered, but
at least `low` and at most `high` per query. So the sum of a measure at every threshold is its sum at `low` plus a
cumulative sum over the items between `low` and `high`, by falling key.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.runner import NOT_OF_FAILED
from ctxbench.io.workers import OptionalPool, Pool, content
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.model.candidates import Candidates
from ctxbench.selectors.selector import Value
from ctxbench.tuning.measures import (
    ADDITIVE,
    AVERAGES,
    COMPLETENESS,
    REACH,
    DifferenceSums,
    Measure,
    Pairing,
    RankedItems,
    count_by_length,
    queries_by_type,
    select_lists,
)
from ctxbench.tuning.setting_lines import Mergeable, ThresholdLine

_MAX_SUM = 2.0**62  # sums of levels are smaller


@dataclass(frozen=True, eq=False)
class ExactValues:
    """A measure, or a power of it, in whole numbers, so sums are exact in any order.

    Attributes:
        levels: value x scale by length, 0 if the measure does not apply; shape (n_ranked + n_queries,).
        gains: the change by each ranked item, shape (n_ranked,).
        scale: 1 for whole numbers; else a power of two with a rounding error of each value of at most 2^-62 of the sum
            of the largest values of all queries.
    """

    levels: IntArray
    gains: IntArray
    scale: float

    @classmethod
    def of(cls, values: FloatArray, items: RankedItems) -> ExactValues:
        """Turn values by length into whole numbers."""
        finite = np.nan_to_num(values)
        largest = np.maximum.reduceat(np.abs(finite), items.length_start[:-1]).sum() if items.n else 0.0
        scale = 1.0
        if largest > _MAX_SUM or not np.array_equal(finite, np.rint(finite)):
            scale = 2.0 ** np.floor(np.log2(_MAX_SUM / largest))
        levels = np.rint(finite * scale).astype(np.int64)
        return cls(levels, np.delete(np.diff(levels, prepend=0), items.length_start[:-1]), float(scale))


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredRankings:
    """Rankings before any cut. Number i is that of query `query[i]` of the dataset.

    Attributes:
        items: ranked items, and items of the sessions.
        score, chunk_rank: of each ranked item, shape (n_ranked,).
        measures: measured at every length.
        powers: by measure, the highest power of its sums, 1 to 3; by default 1.
        tables: values by length of every metric, shape (n_ranked + n_queries,); NaN if it does not apply.
        reachable: whether the first `REACH` items of the ranking, with the session, contain all required items; False
            if nothing is required. Shape (n_queries,).
        failed: whether the selector failed, shape (n_queries,).
        queries_by_type: by item type of a measure, the queries that require it, shape (n_queries,).
        required_counts: by item type of a count, the number of offered required items by length, like `tables`.
        pairing: the base of paired differences; None = no differences.
    """

    items: RankedItems
    score: FloatArray
    chunk_rank: IntArray
    measures: tuple[Measure, ...]
    powers: Mapping[Measure, int]
    tables: Mapping[Metric, FloatArray]
    reachable: BoolArray
    failed: BoolArray
    queries_by_type: Mapping[str, BoolArray] = field(default_factory=dict)
    required_counts: Mapping[str, FloatArray] = field(default_factory=dict)
    pairing: Pairing | None = None
    _item_values: Mapping[Metric, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        table: Candidates,
        labels: Labels,
        measures: Sequence[Measure],
        *,
        powers: Mapping[Measure, int] | None = None,
        failed: BoolArray | None = None,
    ) -> MeasuredRankings:
        """Read rankings from candidates without cuts, and measure them at every length.

        Args:
            table: its chosen and ranked rows are the ranked items; those of the session are in every length; excluded
                rows are ignored.
            labels: of the same queries, in the same order.
            measures: of set metrics.
            powers: for measures that need sums of squares (2), or of squares and cubes (3).
            failed: whether the selector failed, shape (n_queries,); then amounts do not apply, as in a run.

        Raises:
            ParameterError: an expansion has added items.
        """
        items = RankedItems.of(table, labels)
        ranked = table.chosen & table.ranked
        broken = np.zeros(items.n, dtype=np.bool_) if failed is None else np.asarray(failed, dtype=np.bool_)
        metrics = list(dict.fromkeys([COMPLETENESS.metric, *(measure.metric for measure in measures)]))
        item_values = items.single_item_values([metric for metric in metrics if metric.name in ADDITIVE | AVERAGES])
        tables = _tables(items, metrics, item_values, broken)
        within = items.length_start[:-1] + np.minimum(REACH, np.diff(items.start))
        types = queries_by_type(labels) if any(measure.required_type for measure in measures) else {}
        nowhere = np.zeros(items.n, dtype=np.bool_)
        return cls(
            items=items,
            score=table.score[ranked],
            chunk_rank=table.chunk_rank[ranked],
            measures=tuple(dict.fromkeys(measures)),
            powers=dict(powers or {}),
            tables=tables,
            reachable=tables[COMPLETENESS.metric][within] == 1,
            failed=broken,
            queries_by_type={
                measure.required_type: types.get(measure.required_type, nowhere)
                for measure in measures
                if measure.required_type
            },
            required_counts={
                measure.required_type: count_by_length(items, measure.required_type)
                for measure in measures
                if measure.counts
            },
            _item_values=item_values,
        )

    @property
    def n_queries(self) -> int:
        """The number of rankings."""
        return self.items.n

    @property
    def sizes(self) -> IntArray:
        """The number of items of each ranking, shape (n_queries,)."""
        return np.diff(self.items.start)

    @cached_property
    def cumulative_tokens(self) -> IntArray:
        """The prompt tokens of each ranked item and all before it in its ranking, shape (n_ranked,)."""
        total = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.items.tokens)])
        return np.asarray(total[1:] - total[self.items.start[:-1]][self.items.owner])

    def values(self, measure: Measure, lengths: IntArray) -> FloatArray:
        """The values of a measure at one length per query.

        Args:
            measure: one of `measures`.
            lengths: the number of offered items, shape (n_queries,); larger numbers mean all items.

        Returns:
            Shape (n_queries,); NaN if the measure does not apply.
        """
        values = self._table(measure)[self.items.length_start[:-1] + np.minimum(lengths, self.sizes)]
        queries = self._queries_of(measure)
        return values if queries is None else np.where(queries, values, np.nan)

    def with_base(self, pairing: Pairing) -> MeasuredRankings:
        """The same rankings, with the base of paired differences."""
        return replace(self, pairing=pairing)

    def _table(self, measure: Measure) -> FloatArray:
        """The values of a measure by length, for all queries."""
        return self.required_counts[measure.required_type] if measure.counts else self.tables[measure.metric]

    def _queries_of(self, measure: Measure) -> BoolArray | None:
        """The queries of a measure, shape (n_queries,); None = all."""
        if not measure.required_type:
            return self.reachable if measure.reachable else None
        queries = self.queries_by_type[measure.required_type]
        return queries & self.reachable if measure.reachable else queries

    def select_queries(self, queries: BoolArray) -> MeasuredRankings:
        """The rankings of the queries where `queries`, shape (n_queries,), is True."""
        indices = np.flatnonzero(queries)
        rows = np.asarray(queries, dtype=np.bool_)[self.items.owner]
        lengths = select_lists(self.items.length_start, indices)[1]
        return replace(
            self,
            items=self.items.select_queries(queries),
            score=self.score[rows],
            chunk_rank=self.chunk_rank[rows],
            tables={metric: table[lengths] for metric, table in self.tables.items()},
            reachable=self.reachable[indices],
            failed=self.failed[indices],
            queries_by_type={name: queries_by_type[indices] for name, queries_by_type in self.queries_by_type.items()},
            required_counts={name: table[lengths] for name, table in self.required_counts.items()},
            pairing=None if self.pairing is None else self.pairing.select_queries(np.asarray(queries, dtype=np.bool_)),
            _item_values={
                metric: (bare[indices], single[rows]) for metric, (bare, single) in self._item_values.items()
            },
        )

    def select_items(self, rows: BoolArray) -> MeasuredRankings:
        """The rankings with the items where `rows`, shape (n_ranked,), is True; `reachable` is not changed."""
        items = self.items.select_items(rows)
        item_values = {metric: (bare, single[rows]) for metric, (bare, single) in self._item_values.items()}
        return replace(
            self,
            items=items,
            score=self.score[rows],
            chunk_rank=self.chunk_rank[rows],
            tables=_tables(items, list(self.tables), item_values, self.failed),
            required_counts={name: count_by_length(items, name) for name in self.required_counts},
            _item_values=item_values,
        )

    @cached_property
    def exact(self) -> dict[tuple[Measure, int], ExactValues]:
        """Exact values by measure and power; power 0 counts where a measure applies, if that differs by length."""
        out = {}
        for measure in self.measures:
            values, queries = self._table(measure), self._queries_of(measure)
            if queries is not None:
                values = np.where(np.repeat(queries, self.sizes + 1), values, np.nan)
            for power in range(1, self.powers.get(measure, 1) + 1):
                out[measure, power] = ExactValues.of(values**power, self.items)
            applies = ExactValues.of((~np.isnan(values)).astype(np.float64), self.items)
            if applies.gains.any():
                out[measure, 0] = applies
        return out

    @cached_property
    def applies(self) -> dict[Measure, int]:
        """By measure, the number of queries to which it applies, at the length with the most."""
        out = {}
        for measure in self.measures:
            has_value, queries = ~np.isnan(self._table(measure)), self._queries_of(measure)
            some = (
                np.logical_or.reduceat(has_value, self.items.length_start[:-1]) if self.n_queries else np.empty(0, bool)
            )
            out[measure] = int((some if queries is None else some & queries).sum())
        return out


def _tables(
    items: RankedItems,
    metrics: Sequence[Metric],
    item_values: Mapping[Metric, tuple[FloatArray, FloatArray]],
    failed: BoolArray,
) -> dict[Metric, FloatArray]:
    """Values by length of every metric."""
    tables = items.values_by_length([metric for metric in metrics if metric not in item_values])
    for metric, (bare, single) in item_values.items():
        tables[metric] = (items.sum_by_length if metric.name in ADDITIVE else items.mean_by_length)(bare, single)
    failed_rows = np.repeat(failed, np.diff(items.length_start))
    return {
        m: np.where(failed_rows, np.nan, table) if m.name in NOT_OF_FAILED else table for m, table in tables.items()
    }


S = TypeVar("S")
_KEPT = 10_000  # lines with more settings take too much memory to be stored


@dataclass(frozen=True, eq=False, kw_only=True)
class Axis:
    """The parameter that differs between the settings of a line.

    Attributes:
        name: of the selector's parameter.
        span: the ends of its range.
        rises: whether more is offered as it rises, as with a margin; then its negative is compared with keys.
        is_integer: whether it takes whole numbers only.
    """

    name: str
    span: tuple[float, float]
    rises: bool = False
    is_integer: bool = False


@dataclass(frozen=True, eq=False)
class SortedItems:
    """Ranked items by falling key.

    Attributes:
        key: shape (n,), from high to low.
        owner, position: ranking and position of each item.
        index: of each item among all sorted items.
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
            rankings: their first items are offered.
            key: of each item, not rising along a ranking, shape (n_ranked,).
            high: the most items of any line, shape (n_queries,); other items are left out.
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
            low, high: the fewest and the most offered items, shape (n_queries,), low <= high <= sizes.
            slot: stores the line, if it is not long; the next line of the same slot, `low` and `high` shares its sums.
        """
        stored = self._lines.get(slot)
        if stored is not None and np.array_equal(stored[0], low) and np.array_equal(stored[1], high):
            return replace(stored[2], values=values)
        line = self._line(axis, values, low, self._between(low, high))
        if slot is not None and len(line) <= _KEPT:
            self._lines[slot] = (low, high, line)
        return line

    def _between(self, low: IntArray, high: IntArray) -> SortedItems:
        """The items between `low` and `high`, from those of the previous line if it had all of them."""
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
        """The line of the settings that offer the first `low` items, and items of `rows` by falling key."""
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
    """Sums by measure, each computed when it is first read, since no collector needs all sums of every line."""

    __slots__ = ("_compute", "_measures", "_values")

    def __init__(self, measures: Sequence[Measure], compute: Callable[[Measure], S]) -> None:
        self._measures, self._compute = measures, compute
        self._values: dict[Measure, S] = {}

    def __getitem__(self, measure: Measure) -> S:
        value = self._values.get(measure)  # read millions of times in a sweep
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
    """Paired differences by measure, if the rankings have a base."""
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
    """The number of keys, from high to low, of at least each threshold, in the shape of the thresholds."""
    return np.asarray(len(key) - np.searchsorted(key[::-1], thresholds, side="left"))


_SECONDS = 4e-8  # that a line takes for each item of the rankings, about
_PARTS = 3  # of each sweep for each process, since parts take different times
Part: TypeAlias = Callable[..., int]
"""Called as `part(source, collectors, progress=...)`, it passes lines to collectors and returns how many settings."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Sweep:
    """Settings whose values follow from rankings alone, so that another process can sweep them.

    Attributes:
        source: rankings, or what is made of them; it is pickled for other processes.
        parts: divides the settings into about so many parts, in order.
        collectors: get all lines; empty before the sweep.
        seconds: about how long one process takes.
        progress: called with the number of settings so far.
    """

    source: Any
    parts: Callable[[int], Sequence[Part]]
    collectors: Sequence[Mergeable]
    seconds: float
    progress: Callable[[int], None]


def seconds_of(n_lines: int, *rankings: MeasuredRankings) -> float:
    """About how long it takes one process to sweep so many lines."""
    return _SECONDS * n_lines * sum(len(of_dataset.score) for of_dataset in rankings)


def run_sweeps(sweeps: Sequence[Sweep], pool: OptionalPool) -> list[list[int]]:
    """Fill the collectors of sweeps, in this process or in those of a pool, with the same result.

    Returns:
        By sweep and part, the number of settings.

    Raises:
        UserError: the items of a ranking do not suit the settings, or workers are lost.
    """
    opened = pool.for_work(sum(sweep.seconds for sweep in sweeps))
    if opened is None:
        return [
            [part(sweep.source, sweep.collectors, progress=sweep.progress) for part in sweep.parts(1)]
            for sweep in sweeps
        ]
    units = [
        (index, (key, part, sweep.collectors))
        for index, sweep in enumerate(sweeps)
        for key in [publish(sweep.source, opened)]
        for part in sweep.parts(_PARTS * opened.size)
    ]
    filled: dict[int, tuple[Sequence[Mergeable], int]] = {}
    settings = [0] * len(sweeps)
    for unit, result in opened.run(_run_part, [arguments for _, arguments in units]):
        index = units[unit][0]
        filled[unit] = result
        settings[index] += result[1]
        sweeps[index].progress(settings[index])
    counts: list[list[int]] = [[] for _ in sweeps]
    for unit, (index, _) in enumerate(units):  # in order: of equal settings, the first is kept
        for collector, later in zip(sweeps[index].collectors, filled[unit][0], strict=True):
            collector.merge(later)
        counts[index].append(filled[unit][1])
    return counts


def _run_part(unit: tuple[str, Part, Sequence[Mergeable]]) -> tuple[Sequence[Mergeable], int]:
    """In a worker: fill empty collectors."""
    key, part, collectors = unit
    return collectors, part(published(key), collectors, progress=lambda _: None)


def publish(source: Any, pool: Pool) -> str:
    """The key of a source for `published`."""
    return pool.publish(pickle.dumps(source))


@lru_cache(maxsize=2)
def published(key: str) -> Any:
    """In a worker: a source, read once for the units that need it."""
    return pickle.loads(content(key).read_bytes())  # noqa: S301 - `publish` wrote it
