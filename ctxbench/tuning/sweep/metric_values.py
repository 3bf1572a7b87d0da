"""The value of every metric at every length of a ranking, from the metrics' own kernels: no second definition.

A kernel takes queries. So a query is handed to it many times, with as much of its ranking as has to be known: with one
item alone, or with the first items up to one at which a value can change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ctxbench.bench.labels import Labels, enough_shown
from ctxbench.bench.metrics import SESSION, Evidence, Grade, Judgments, Metric, OfferedItems, evaluate
from ctxbench.bench.metrics.joined import Joined
from ctxbench.core.arrays import BoolArray, FloatArray, IntArray, owners, starts
from ctxbench.core.candidates import Candidates, Origin
from ctxbench.core.errors import ParameterError

T = TypeVar("T", bound=np.generic)

# How values follow from what is offered. A metric that is in none of these is computed at every length.
ADDITIVE = {
    "items",
    "tokens",
    "total_tokens",
    "loaded_tokens",
    "unlabelled",
    "wrong_siblings",
    "false_items",
}  # a sum over items
AVERAGES = {"precision", "precision_upper"}  # a mean over the items added, which the session's do not touch
STEPWISE = {  # changes only at a required item, at the first one, and at the first one of no use or forbidden
    *("completeness", "recall", "direct_recall", "dependency_recall"),
    *("abstention", "false_inclusion", "forbidden_offered"),
}
_WITHOUT_LABELS = {"items", "tokens", "total_tokens"}
_BATCH_ROWS = 200_000  # rows that a kernel is handed in one go


@dataclass(frozen=True, eq=False, kw_only=True)
class RankedItems:
    """The ranked items of queries, what their sessions hold, and the labels.

    Attributes:
        labels: of a dataset.
        query: the dataset's query of each ranking, shape (n_queries,).
        start: shape (n_queries + 1,); ranking i is `[start[i], start[i + 1])`.
        item: catalog positions, best first, shape (n_ranked,).
        session_start, session_item: what the sessions hold, likewise.
        tokens, session_tokens: of what is shown of each item, shape (n_ranked,) and that of `session_item`.
        enough, session_enough: False where what is shown is worth nothing to the query, likewise.
    """

    labels: Labels
    query: IntArray
    start: IntArray
    item: IntArray
    session_start: IntArray
    session_item: IntArray
    tokens: IntArray
    session_tokens: IntArray
    enough: BoolArray
    session_enough: BoolArray

    @classmethod
    def of(cls, table: Candidates, labels: Labels) -> RankedItems:
        """Take them from the chosen rows of a search.

        Raises:
            ParameterError: the table is of other queries, or an expansion has brought items in.
        """
        n = len(labels.dataset.queries)
        if table.n_requests != n:
            raise ParameterError(f"rankings of {table.n_requests} queries and labels of {n}; expected the same ones")
        if (table.chosen & ~table.ranked & (table.origin != Origin.SESSION)).any():
            raise ParameterError("what an expansion brought in is no part of a ranking; sweep what stands before it")
        session_item, ranked = table.chosen & (table.origin == Origin.SESSION), table.chosen & table.ranked
        tokens, enough = table.prices(labels.item_tokens), enough_shown(labels.dataset, table)
        return cls(
            labels=labels,
            query=np.arange(n, dtype=np.int64),
            start=table.starts_of(ranked),
            item=table.item[ranked],
            session_start=table.starts_of(session_item),
            session_item=table.item[session_item],
            tokens=tokens[ranked],
            session_tokens=tokens[session_item],
            enough=enough[ranked],
            session_enough=enough[session_item],
        )

    @property
    def n(self) -> int:
        """How many rankings there are."""
        return len(self.query)

    @property
    def n_catalog(self) -> int:
        """How many items the catalog has."""
        return len(self.labels.dataset.catalog)

    @cached_property
    def complete(self) -> BoolArray:
        """Whether all required items of each query are known, shape (n_queries,)."""
        complete = self.labels.dataset.judgments.complete
        return np.ones(self.n, dtype=np.bool_) if complete is None else complete[self.query]

    @cached_property
    def owner(self) -> IntArray:
        """The ranking of each ranked item."""
        return owners(self.start)

    @cached_property
    def position(self) -> IntArray:
        """The 0-based position of each ranked item in its ranking."""
        return np.arange(len(self.item), dtype=np.int64) - self.start[self.owner]

    @cached_property
    def length_start(self) -> IntArray:
        """CSR starts of values by length: ranking i has one for 0, 1, ... all of its items."""
        return self.start + np.arange(self.n + 1)

    def count(self, rows: BoolArray) -> IntArray:
        """How many items each ranking has where `rows`, shape (n_ranked,), is True, shape (n_queries,)."""
        return np.bincount(self.owner[rows], minlength=self.n).astype(np.int64)

    def select_queries(self, queries: BoolArray) -> RankedItems:
        """The rankings of the queries where `queries`, shape (n_queries,), is True."""
        indices = np.flatnonzero(queries)
        start, rows = select_lists(self.start, indices)
        session_start, session_item = select_lists(self.session_start, indices)
        return replace(
            self,
            query=self.query[indices],
            start=start,
            item=self.item[rows],
            session_start=session_start,
            session_item=self.session_item[session_item],
            tokens=self.tokens[rows],
            session_tokens=self.session_tokens[session_item],
            enough=self.enough[rows],
            session_enough=self.session_enough[session_item],
        )

    def select_items(self, rows: BoolArray) -> RankedItems:
        """The same rankings with the items where `rows`, shape (n_ranked,), is True."""
        return replace(
            self,
            start=starts(self.count(rows)),
            item=self.item[rows],
            tokens=self.tokens[rows],
            enough=self.enough[rows],
        )

    def single_item_values(self, metrics: Sequence[Metric]) -> dict[Metric, tuple[FloatArray, FloatArray]]:
        """Values of metrics where only the session is offered, and where one item of the ranking is offered as well.

        Returns:
            By metric, two arrays of shape (n_queries,) and (n_ranked,).
        """
        out: dict[Metric, tuple[FloatArray, FloatArray]] = {}
        for labelled in (False, True):
            group = [metric for metric in metrics if (metric.name not in _WITHOUT_LABELS) == labelled]
            if group:
                positions = np.arange(len(self.item), dtype=np.int64)
                bare = self._values(
                    group, np.arange(self.n), np.zeros(self.n + 1, dtype=np.int64), positions[:0], labelled=labelled
                )
                single = self._values(
                    group, self.owner, np.append(positions, len(positions)), positions, labelled=labelled
                )
                out |= {metric: (bare[metric], single[metric]) for metric in group}
        return out

    def sum_by_length(self, bare: FloatArray, single: FloatArray) -> FloatArray:
        """Values by length of a sum over items, from what `single_item_values` gave; shape (n_ranked + n_queries,)."""
        return self._repeat(bare) + self._cumulative(np.nan_to_num(single - bare[self.owner]))

    def mean_by_length(self, bare: FloatArray, single: FloatArray) -> FloatArray:
        """Values by length of a mean over the items added, from what `single_item_values` gave."""
        length = self._cumulative(np.ones(len(self.item)))
        out = self._repeat(bare)
        some = (length > 0) & self._repeat(~np.isin(np.arange(self.n), self.owner[np.isnan(single)]))
        np.divide(self._cumulative(np.nan_to_num(single)), length, out=out, where=some)
        return out

    def values_by_length(self, metrics: Sequence[Metric]) -> dict[Metric, FloatArray]:
        """Values by length of any metrics of what is offered, shape (n_ranked + n_queries,) each."""
        out: dict[Metric, FloatArray] = {}
        for step_items, group in (
            (self._step_items, [metric for metric in metrics if metric.name in STEPWISE]),
            (np.ones(len(self.item), dtype=np.bool_), [metric for metric in metrics if metric.name not in STEPWISE]),
        ):
            if group:
                out |= self._step_values(group, step_items)
        return out

    @cached_property
    def _step_items(self) -> BoolArray:
        """True for the ranked items at which a metric in `STEPWISE` may change."""
        joined = Joined(self.evidence())
        grade = joined.offered_grade[joined.added]
        firsts = self._first_of(grade < Grade.HELPFUL) | self._first_of(joined.forbidden[joined.added])
        return np.asarray((grade == Grade.REQUIRED) | (self.position == 0) | firsts)

    def _first_of(self, rows: BoolArray) -> BoolArray:
        """True for the first ranked item of each ranking where `rows`, shape (n_ranked,), is True."""
        before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(rows)])[:-1]
        return np.asarray(rows & (before == before[self.start[self.owner]]))

    def _step_values(self, metrics: Sequence[Metric], step_items: BoolArray) -> dict[Metric, FloatArray]:
        """Values by length of metrics that change only at the items where `step_items`, and depend on no others."""
        step_rankings = self.select_items(step_items)
        stops = np.diff(step_rankings.start) + 1  # how many lengths are looked at: none, up to the first such item, ...
        owner = np.repeat(np.arange(self.n), stops)
        count = np.arange(len(owner)) - starts(stops)[owner]
        start = starts(count)
        rows = np.arange(int(start[-1])) - np.repeat(start[:-1], count) + np.repeat(step_rankings.start[owner], count)
        values = step_rankings._values(metrics, owner, start, rows, labelled=True)  # noqa: SLF001 - of this class
        reached = self._cumulative(step_items.astype(np.float64)).astype(np.int64) + self._repeat(starts(stops)[:-1])
        return {metric: value[reached] for metric, value in values.items()}

    def _repeat(self, by_query: npt.NDArray[T]) -> npt.NDArray[T]:
        """Repeat the value of each query for each of its lengths."""
        return np.repeat(by_query, np.diff(self.length_start))

    def _cumulative(self, gains: FloatArray) -> FloatArray:
        """Cumulative sums of whole numbers along each ranking, from 0 on."""
        padded = np.zeros(len(gains) + self.n)
        padded[np.arange(len(gains)) + self.owner + 1] = gains
        total = np.cumsum(padded)
        return np.asarray(total - self._repeat(total[self.length_start[:-1]]))

    def _values(
        self, metrics: Sequence[Metric], owner: IntArray, start: IntArray, rows: IntArray, *, labelled: bool
    ) -> dict[Metric, FloatArray]:
        """Evaluate many selections: number i offers query `owner[i]` the ranked items `rows[start[i]:start[i + 1]]`."""
        parts: dict[Metric, list[FloatArray]] = {metric: [] for metric in metrics}
        for first, last in self._batches(owner, start):
            span = slice(int(start[first]), int(start[last]))
            evidence = self._evidence(
                owner[first:last], start[first : last + 1] - start[first], rows[span], labelled=labelled
            )
            for metric, value in evaluate(metrics, evidence).items():
                parts[metric].append(value)
        return {metric: np.concatenate([np.empty(0), *values]) for metric, values in parts.items()}

    def _batches(self, owner: IntArray, start: IntArray) -> Iterator[tuple[int, int]]:
        """Bounds of slices of selections that are small enough for one go."""
        judged = np.diff(self.labels.dataset.judgments.start)[self.query[owner]]
        rows = np.cumsum(1 + judged + np.diff(self.session_start)[owner] + np.diff(start))
        first = 0
        while first < len(owner):
            before = int(rows[first - 1]) if first else 0
            last = max(int(np.searchsorted(rows, before + _BATCH_ROWS)), first + 1)
            yield first, last
            first = last

    def evidence(self) -> Evidence:
        """The labels of every query, and all items of its ranking, offered behind what the session holds."""
        return self._evidence(np.arange(self.n), self.start, np.arange(len(self.item)), labelled=True)

    def _evidence(self, owner: IntArray, start: IntArray, rows: IntArray, *, labelled: bool) -> Evidence:
        """The labels of each selection's query, and what it offers behind what the session holds."""
        judgments = self.labels.dataset.judgments
        label_start, label = select_lists(judgments.start, self.query[owner])
        if not labelled:
            label_start, label = np.zeros_like(label_start), label[:0]
        session_start, session_item = select_lists(self.session_start, owner)
        selection = np.concatenate([owners(session_start), owners(start)])
        in_turn = np.argsort(selection, kind="stable")
        item = np.concatenate([self.session_item[session_item], self.item[rows]])[in_turn]
        tokens = np.concatenate([self.session_tokens[session_item], self.tokens[rows]])[in_turn]
        enough = np.concatenate([self.session_enough[session_item], self.enough[rows]])[in_turn]
        origin = np.repeat([SESSION, SESSION + 1], [len(session_item), len(rows)])[in_turn]
        via = judgments.via
        return Evidence(
            judgments=Judgments(
                start=label_start,
                item=judgments.item[label],
                grade=judgments.grade[label],
                group=judgments.group[label],
                via=None if via is None else via[label],
                complete=None if judgments.complete is None else self.complete[owner],
            ),
            offered=OfferedItems(start=session_start + start, item=item, origin=origin, tokens=tokens, enough=enough),
            item_tokens=self.labels.item_tokens,
            body_tokens=self.labels.body_tokens,
            kinship=self.labels.kinship,
        )


def select_lists(start: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """CSR starts of some rows of a table in CSR form, and the indices of their entries in it."""
    lengths = np.diff(start)[rows]
    new = starts(lengths)
    return new, np.arange(int(new[-1]), dtype=np.int64) + np.repeat(start[:-1][rows] - new[:-1], lengths)
