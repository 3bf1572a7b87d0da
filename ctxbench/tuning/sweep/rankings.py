"""Ladders: the ranking of every query before any cut, with the value of every measure at every length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ctxbench.bench.dataset_run import NOT_OF_FAILED
from ctxbench.bench.labels import Labels
from ctxbench.bench.metrics import Metric
from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import ParameterError
from ctxbench.tuning.sweep.measures import REACH, Measure
from ctxbench.tuning.sweep.metric_values import ADDED_UP, AVERAGED, Rungs, taken
from ctxbench.tuning.sweep.needs import needed_types, offered_by_length
from ctxbench.tuning.sweep.paired_sums import Pairing

_COMPLETENESS = Metric("completeness")
_LARGEST = 2.0**62  # sums of levels stay below it


@dataclass(frozen=True, eq=False)
class Track:
    """A measure, or a power of it, in whole numbers: so sums are exact, in whatever order they are made.

    Attributes:
        levels: value x scale by length, 0 where the measure does not apply; shape (n_rungs + n_queries,).
        gains: what each rung adds, shape (n_rungs,).
        scale: 1 for values that are whole numbers; else a power of two that leaves each value an error of at most
            2^-62 of the sum of the largest values of all queries.
    """

    levels: IntArray
    gains: IntArray
    scale: float

    @classmethod
    def of(cls, values: FloatArray, rungs: Rungs) -> Track:
        """Turn values by length into whole numbers."""
        known = np.nan_to_num(values)
        largest = np.maximum.reduceat(np.abs(known), rungs.length_start[:-1]).sum() if rungs.n else 0.0
        scale = 1.0
        if largest > _LARGEST or not np.array_equal(known, np.rint(known)):
            scale = 2.0 ** np.floor(np.log2(_LARGEST / largest))
        levels = np.rint(known * scale).astype(np.int64)
        last = np.zeros(len(levels), dtype=np.bool_)
        last[rungs.length_start[:-1]] = True
        gains = np.diff(levels, prepend=0)[~last]
        return cls(levels, gains, float(scale))


@dataclass(frozen=True, eq=False, kw_only=True)
class Ladders:
    """Rankings before any cut. Number i is that of query `query[i]` of the dataset.

    Attributes:
        rungs: items by ranking, and what the sessions hold.
        score, chunk_rank: of each rung as a search gave them, shape (n_rungs,).
        measures: what is known at every length.
        powers: by measure, up to which power sums are wanted, 1 to 3; 1 where not given.
        tables: values by length of every metric, shape (n_rungs + n_queries,); NaN = does not apply.
        reachable: True where the first `REACH` items of the ranking, and what the session holds, are all that is
            required; False where nothing is. Shape (n_queries,).
        failed: True where the selector failed, shape (n_queries,).
        needing: by item type that a measure is about, the queries that require it, shape (n_queries,).
        counted: by item type whose required items are counted, how many are offered by length, like `tables`.
        pairing: what differences are taken to; None = none are.
    """

    rungs: Rungs
    score: FloatArray
    chunk_rank: IntArray
    measures: tuple[Measure, ...]
    powers: Mapping[Measure, int]
    tables: Mapping[Metric, FloatArray]
    reachable: BoolArray
    failed: BoolArray
    needing: Mapping[str, BoolArray] = field(default_factory=dict)
    counted: Mapping[str, FloatArray] = field(default_factory=dict)
    pairing: Pairing | None = None
    _alone: Mapping[Metric, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        table: Candidates,
        labels: Labels,
        measures: Sequence[Measure],
        *,
        powers: Mapping[Measure, int] | None = None,
        failed: BoolArray | None = None,
    ) -> Ladders:
        """Read the rankings off what an uncut search found, and measure them at every length.

        Args:
            table: rows that are chosen and ranked are the rungs, those of the session are in every length;
                rows that are marked out are no part of it.
            labels: of the same queries, in the same order.
            measures: of set metrics.
            powers: for measures whose squares (2), or squares and cubes (3), are summed, too.
            failed: shape (n_queries,), True where the selector failed: amounts do not apply there, as in a run.

        Raises:
            ParameterError: a metric is one of rankings, or the table is of other queries.
        """
        for measure in measures:
            declaration = measure.metric.declaration
            if declaration.compute is None or "rankings" in declaration.needs:
                raise ParameterError(
                    f"{measure.metric} says how items are ranked, which no cut changes; a sweep takes metrics of what "
                    "is offered, such as completeness or tokens"
                )
        rungs = Rungs.of(table, labels)
        found = table.chosen & table.ranked
        broken = np.zeros(rungs.n, dtype=np.bool_) if failed is None else np.asarray(failed, dtype=np.bool_)
        metrics = list(dict.fromkeys([_COMPLETENESS, *(measure.metric for measure in measures)]))
        alone = rungs.alone([metric for metric in metrics if metric.name in ADDED_UP | AVERAGED])
        tables = _tables(rungs, metrics, alone, broken)
        within = rungs.length_start[:-1] + np.minimum(REACH, np.diff(rungs.start))
        types = needed_types(labels) if any(measure.needed for measure in measures) else {}
        nowhere = np.zeros(rungs.n, dtype=np.bool_)
        return cls(
            rungs=rungs,
            score=table.score[found],
            chunk_rank=table.chunk_rank[found],
            measures=tuple(dict.fromkeys(measures)),
            powers=dict(powers or {}),
            tables=tables,
            reachable=tables[_COMPLETENESS][within] == 1,
            failed=broken,
            needing={one.needed: types.get(one.needed, nowhere) for one in measures if one.needed},
            counted={one.needed: offered_by_length(rungs, one.needed) for one in measures if one.counts},
            _alone=alone,
        )

    @property
    def start(self) -> IntArray:
        """CSR starts of the rungs, shape (n_queries + 1,)."""
        return self.rungs.start

    @property
    def item(self) -> IntArray:
        """The catalog position of each rung, shape (n_rungs,)."""
        return self.rungs.item

    @property
    def query(self) -> IntArray:
        """The dataset's query of each ranking, shape (n_queries,)."""
        return self.rungs.query

    @property
    def n_queries(self) -> int:
        """How many rankings there are."""
        return self.rungs.n

    @property
    def sizes(self) -> IntArray:
        """How many items each ranking has, shape (n_queries,)."""
        return np.diff(self.rungs.start)

    @cached_property
    def spent(self) -> IntArray:
        """The prompt tokens of each rung and all before it in its ranking, shape (n_rungs,)."""
        total = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.rungs.tokens)])
        spent: IntArray = total[1:] - total[self.start[:-1]][self.rungs.owner]
        return spent

    def values(self, measure: Measure, lengths: IntArray) -> FloatArray:
        """The values of a measure at one length a query.

        Args:
            measure: one of `measures`.
            lengths: how many items are offered, shape (n_queries,); more than there are count as all.

        Returns:
            Shape (n_queries,); NaN where the measure does not apply.

        Raises:
            ParameterError: the measure is not known.
        """
        if measure not in self.measures:
            known = ", ".join(map(str, self.measures))
            raise ParameterError(f"the ladders were not measured by {measure}; they know {known}")
        at = self.rungs.length_start[:-1] + np.minimum(lengths, self.sizes)
        values = self._table(measure)[at]
        among = self._among(measure)
        return values if among is None else np.where(among, values, np.nan)

    def against(self, pairing: Pairing) -> Ladders:
        """The same, with what differences are taken to."""
        return replace(self, pairing=pairing)

    def _table(self, measure: Measure) -> FloatArray:
        """The values by length of what a measure is a mean of."""
        return self.counted[measure.needed] if measure.counts else self.tables[measure.metric]

    def _among(self, measure: Measure) -> BoolArray | None:
        """The queries that a measure is over, shape (n_queries,); None = all."""
        if not measure.needed:
            return self.reachable if measure.reachable else None
        return self.needing[measure.needed] & self.reachable if measure.reachable else self.needing[measure.needed]

    def only(self, queries: BoolArray) -> Ladders:
        """The ladders of some queries, for folds; `queries` has shape (n_queries,)."""
        which = np.flatnonzero(queries)
        rows = np.asarray(queries, dtype=np.bool_)[self.rungs.owner]
        lengths = taken(self.rungs.length_start, which)[1]
        return replace(
            self,
            rungs=self.rungs.only(queries),
            score=self.score[rows],
            chunk_rank=self.chunk_rank[rows],
            tables={metric: table[lengths] for metric, table in self.tables.items()},
            reachable=self.reachable[which],
            failed=self.failed[which],
            needing={name: needing[which] for name, needing in self.needing.items()},
            counted={name: table[lengths] for name, table in self.counted.items()},
            pairing=None if self.pairing is None else self.pairing.only(np.asarray(queries, dtype=np.bool_)),
            _alone={metric: (bare[which], alone[rows]) for metric, (bare, alone) in self._alone.items()},
        )

    def among(self, rows: BoolArray) -> Ladders:
        """The ladders without the rungs where `rows` is False; what was reachable stays what the whole ones say."""
        rungs = self.rungs.among(rows)
        alone = {metric: (bare, single[rows]) for metric, (bare, single) in self._alone.items()}
        return replace(
            self,
            rungs=rungs,
            score=self.score[rows],
            chunk_rank=self.chunk_rank[rows],
            tables=_tables(rungs, list(self.tables), alone, self.failed),
            counted={name: offered_by_length(rungs, name) for name in self.counted},
            _alone=alone,
        )

    @cached_property
    def tracks(self) -> dict[tuple[Measure, int], Track]:
        """Whole numbers by measure and power; power 0 counts where a measure applies, if that differs by length."""
        out = {}
        for measure in self.measures:
            values, among = self._table(measure), self._among(measure)
            if among is not None:
                values = np.where(np.repeat(among, self.sizes + 1), values, np.nan)
            for power in range(1, self.powers.get(measure, 1) + 1):
                out[measure, power] = Track.of(values**power, self.rungs)
            applies = Track.of((~np.isnan(values)).astype(np.float64), self.rungs)
            if applies.gains.any():
                out[measure, 0] = applies
        return out

    @cached_property
    def applies(self) -> dict[Measure, int]:
        """To how many queries each measure applies, at the length at which it applies to most."""
        out = {}
        for measure in self.measures:
            known, among = ~np.isnan(self._table(measure)), self._among(measure)
            some = np.logical_or.reduceat(known, self.rungs.length_start[:-1]) if self.n_queries else np.empty(0, bool)
            out[measure] = int((some if among is None else some & among).sum())
        return out


def _tables(
    rungs: Rungs, metrics: Sequence[Metric], alone: Mapping[Metric, tuple[FloatArray, FloatArray]], failed: BoolArray
) -> dict[Metric, FloatArray]:
    """Values by length of every metric."""
    tables = rungs.by_length([metric for metric in metrics if metric not in alone])
    for metric, (bare, single) in alone.items():
        tables[metric] = (rungs.added_up if metric.name in ADDED_UP else rungs.averaged)(bare, single)
    gone = np.repeat(failed, np.diff(rungs.length_start))
    return {m: np.where(gone, np.nan, table) if m.name in NOT_OF_FAILED else table for m, table in tables.items()}
