"""Candidates with columns and labels, and metrics of rankings of them that are known by ranks alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctxbench.bench.metrics import Evidence, Metric, OfferedItems, Rankings
from ctxbench.bench.metrics.inputs import Judgments
from ctxbench.bench.metrics.joined import NEVER, Joined
from ctxbench.core.arrays import FloatArray, IntArray, owners, ranges, starts
from ctxbench.core.candidates import starts_by_request
from ctxbench.core.errors import ParameterError

METRICS = ("nDCG", "R", "Comp", "Success", "RR", "AP", "P")


def check_objective(metric: Metric) -> None:
    """Refuse a metric that reads more than the ranks of labelled items.

    Raises:
        ParameterError: it is none of `METRICS`.
    """
    if metric.name not in METRICS:
        raise ParameterError(f"weights are fitted by {', '.join(METRICS)}, with a rank, got {metric}")


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearCases:
    """What weights of columns are fitted on: candidates with their columns, and what their queries need.

    Attributes:
        values: of every candidate in every column, shape (n, n_columns), finite.
        query: of each candidate, rising, shape (n,).
        item: its catalog position, shape (n,); at most once in a query.
        judgments: the labels of the queries.
        session: what their sessions hold, none of it among the candidates; None = nothing.
    """

    values: FloatArray
    query: IntArray
    item: IntArray
    judgments: Judgments
    session: OfferedItems | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or not len(self.values) == len(self.query) == len(self.item):
            raise ParameterError("values must be of shape (n, n_columns), query and item of shape (n,)")
        if not np.isfinite(self.values).all() or np.any(np.diff(self.query) < 0):
            raise ParameterError("values must be finite, and the candidates of a query together, queries in order")

    def joined(self) -> Joined:
        """The labels, joined to what the sessions hold and to the candidates."""
        start, none = np.zeros(self.judgments.n_queries + 1, dtype=np.int64), np.empty(0, dtype=np.int64)
        offered = self.session or OfferedItems(start=start, item=none, origin=none)
        rankings = Rankings(start=starts_by_request(self.query, self.judgments.n_queries), item=self.item)
        return Joined(Evidence(judgments=self.judgments, offered=offered, rankings=rankings))


class RankStates(Joined):
    """States of rankings: a query each, and the ranks of labelled items in it. Metrics of ranks read it like a run."""

    def __init__(self, base: Joined, query: IntArray, state: IntArray, label: IntArray, rank: FloatArray) -> None:
        """Join ranks to labels.

        Args:
            base: labels, and what the sessions hold.
            query: of each state, shape (n_states,).
            state, label, rank: the labelled items of each state (the row of the label) and their 1-based ranks, shape
                (n,) each.
        """
        self.n, self.labels, self._base, self._query = len(query), base.labels, base, query
        size = np.bincount(base.group_query, minlength=base.n)
        start, first = starts(size[query]), starts(size)[query]
        groups = ranges(first, size[query])
        self.group_query, self.session_met = owners(start), base.session_met[groups]
        self.need, self.open_need, self.has_ranking = base.need[query], base.open_need[query], base.has_ranking[query]
        self._ranked = (state, rank, label, None)  # type: ignore[assignment]  # ranks may be infinite
        self.first_rank = np.full(len(groups), NEVER)
        group = base.label_group[label]
        np.minimum.at(self.first_rank, (start[state] + group - first[state])[group >= 0], rank[group >= 0])

    def ideal_gain(self, k: int) -> FloatArray:
        """That of each state's query."""
        return np.asarray(self._base.ideal_gain(k)[self._query])
