"""Metric values at every length of a ranking, and measures: their means and paired differences.

Values come from the metric kernels. Each query is passed to a kernel many times: with single items, or with the first
items up to each one at which the value can change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ctxbench.evaluation.answers import Labels, enough_shown
from ctxbench.evaluation.metric_kernels import Joined
from ctxbench.evaluation.metrics import Metric, evaluate
from ctxbench.io.errors import Message, ParameterError
from ctxbench.model.arrays import (
    SESSION,
    BoolArray,
    Evidence,
    FloatArray,
    Grade,
    IntArray,
    Judgments,
    OfferedItems,
    Via,
    owners,
    starts,
)
from ctxbench.model.candidates import Candidates, Origin
from ctxbench.model.items import Catalog

T = TypeVar("T", bound=np.generic)

# How values depend on the offered items. Metrics in none of these sets are computed at every length.
ADDITIVE = {
    "items",
    "tokens",
    "total_tokens",
    "loaded_tokens",
    "unlabelled",
    "same_server_confusions",
    "false_items",
}  # a sum over items
AVERAGES = {"precision", "precision_upper"}  # a mean over the added items; those of the session do not count
STEPWISE = {  # changes only at required items, the first item, and the first irrelevant or forbidden item
    *("completeness", "recall", "direct_recall", "dependency_recall"),
    *("abstention", "false_inclusion", "forbidden_offered"),
}
_WITHOUT_LABELS = {"items", "tokens", "total_tokens"}
_BATCH_ROWS = 200_000  # rows that are passed to a kernel at once


@dataclass(frozen=True, eq=False, kw_only=True)
class RankedItems:
    """The ranked items of queries, what their sessions hold, and the labels.

    Attributes:
        labels: of a dataset.
        query: the dataset's query of each ranking, shape (n_queries,).
        start: shape (n_queries + 1,); ranking i is `[start[i], start[i + 1])`.
        item: catalog positions, best first, shape (n_ranked,).
        session_start, session_item: the same for the items of the sessions.
        tokens, session_tokens: prompt tokens of the shown part of each item, shapes of `item` and `session_item`.
        enough, session_enough: False if the shown part is not enough for the query; the same shapes.
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
        """Read them from the chosen rows of candidates.

        Raises:
            ParameterError: an expansion has added items.
        """
        if (table.chosen & ~table.ranked & (table.origin != Origin.SESSION)).any():
            raise ParameterError("expanded items are not part of a ranking; sweep the steps before the expansion")
        session_item, ranked = table.chosen & (table.origin == Origin.SESSION), table.chosen & table.ranked
        tokens, enough = table.prices(labels.item_tokens), enough_shown(labels.dataset, table)
        return cls(
            labels=labels,
            query=np.arange(table.n_requests, dtype=np.int64),
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
        """The number of rankings."""
        return len(self.query)

    @property
    def n_catalog(self) -> int:
        """The number of items of the catalog."""
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
        """Values of metrics if only the session is offered, and if one item of the ranking is offered as well.

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
        """Values by length of a sum over items, from `single_item_values`; shape (n_ranked + n_queries,)."""
        return self._repeat(bare) + self._cumulative(np.nan_to_num(single - bare[self.owner]))

    def mean_by_length(self, bare: FloatArray, single: FloatArray) -> FloatArray:
        """Values by length of a mean over the added items, from `single_item_values`."""
        length = self._cumulative(np.ones(len(self.item)))
        out = self._repeat(bare)
        some = (length > 0) & self._repeat(~np.isin(np.arange(self.n), self.owner[np.isnan(single)]))
        np.divide(self._cumulative(np.nan_to_num(single)), length, out=out, where=some)
        return out

    def values_by_length(self, metrics: Sequence[Metric]) -> dict[Metric, FloatArray]:
        """Values by length of any metrics of the offered items, shape (n_ranked + n_queries,) each."""
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
        """Values by length of metrics that depend only on the items where `step_items` is True."""
        step_rankings = self.select_items(step_items)
        stops = np.diff(step_rankings.start) + 1  # lengths to evaluate: 0, up to the first such item, ...
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
        """Bounds of slices of selections of at most `_BATCH_ROWS` rows."""
        judged = np.diff(self.labels.dataset.judgments.start)[self.query[owner]]
        rows = np.cumsum(1 + judged + np.diff(self.session_start)[owner] + np.diff(start))
        first = 0
        while first < len(owner):
            before = int(rows[first - 1]) if first else 0
            last = max(int(np.searchsorted(rows, before + _BATCH_ROWS)), first + 1)
            yield first, last
            first = last

    def evidence(self) -> Evidence:
        """The labels of every query; offered are the session's items and all items of its ranking."""
        return self._evidence(np.arange(self.n), self.start, np.arange(len(self.item)), labelled=True)

    def _evidence(self, owner: IntArray, start: IntArray, rows: IntArray, *, labelled: bool) -> Evidence:
        """The labels of the query of each selection; offered are the session's items and those of the selection."""
        judgments = self.labels.dataset.judgments
        label_start, label = select_lists(judgments.start, self.query[owner])
        if not labelled:
            label_start, label = np.zeros_like(label_start), label[:0]
        session_start, session_item = select_lists(self.session_start, owner)
        in_turn = np.argsort(np.concatenate([owners(session_start), owners(start)]), kind="stable")
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
            offered=OfferedItems(
                start=session_start + start,
                item=np.concatenate([self.session_item[session_item], self.item[rows]])[in_turn],
                origin=np.repeat([SESSION, SESSION + 1], [len(session_item), len(rows)])[in_turn],
                tokens=np.concatenate([self.session_tokens[session_item], self.tokens[rows]])[in_turn],
                enough=np.concatenate([self.session_enough[session_item], self.enough[rows]])[in_turn],
            ),
            item_tokens=self.labels.item_tokens,
            body_tokens=self.labels.body_tokens,
            kinship=self.labels.kinship,
        )


def select_lists(start: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """CSR starts of some rows of a table in CSR form, and the indices of their entries in it."""
    lengths = np.diff(start)[rows]
    new = starts(lengths)
    return new, np.arange(int(new[-1]), dtype=np.int64) + np.repeat(start[:-1][rows] - new[:-1], lengths)


REACH = 20  # completeness within reach is that of the first 20 items of the ranking


@dataclass(frozen=True, slots=True, order=True)
class Measure:
    """A mean of a set metric over the queries to which it applies, or over those of them within reach.

    Attributes:
        metric: a set metric, such as `completeness` or `tokens`.
        reachable: whether it is only over queries that the first `REACH` items of the ranking make complete. Their
            completeness is completeness as a share of what is reachable.
        required_type: an item type; then it is only over queries that require an item of it. The metric `items` then
            counts the required items of this type that are offered.
    """

    metric: Metric
    reachable: bool = False
    required_type: str = ""

    def __hash__(self) -> int:
        return hash((self.metric.name, self.required_type))  # a sweep looks measures up millions of times

    def __str__(self) -> str:
        name = f"{self.metric} of reachable" if self.reachable else str(self.metric)
        if not self.required_type:
            return name
        if self.counts:
            return f"required {self.required_type} items"
        return Message("tuning.measure-of-type", metric=name, type=self.required_type)

    @property
    def counts(self) -> bool:
        """Whether it counts the required items of one type that are offered."""
        return bool(self.required_type) and self.metric.name == "items"


COMPLETENESS, TOKENS = Measure(Metric("completeness")), Measure(Metric("tokens"))


@dataclass(frozen=True, eq=False, kw_only=True)
class DifferenceSums:
    """Sums of paired differences at settings.

    Attributes:
        total: the sum over queries, shape (n_settings,).
        squares: the sum over groups of the squared sum of a group's differences, shape (n_settings,).
        weighted: the sum over groups of that sum times the group's size, shape (n_settings,).
        n: how many queries there are with a difference.
        groups: in how many groups these come.
        sizes: the sum of the groups' squared sizes.
        unit: how much one gain or loss is: 1 for shares, the base's mean for amounts.
    """

    total: FloatArray
    squares: FloatArray
    weighted: FloatArray
    n: int
    groups: int
    sizes: float
    unit: float = 1.0

    def select(self, indices: IntArray) -> DifferenceSums:
        """The differences of some settings, in new arrays."""
        return DifferenceSums(
            total=self.total[indices],
            squares=self.squares[indices],
            weighted=self.weighted[indices],
            n=self.n,
            groups=self.groups,
            sizes=self.sizes,
            unit=self.unit,
        )

    def errors(self, *, times: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Means and standard errors, as if there were `times` as many groups of the same kinds.

        Gains and losses are added, as many of each as a group has queries on average, so the error is above 0 even if
        there is no difference. If every query is a group, one gain and one loss are added. Without queries the mean is
        NaN; with one group the error is infinite.

        Source: Bonett and Price, Adjusted Wald confidence interval for a difference of binomial proportions based on
            paired data, Journal of Educational and Behavioral Statistics 37, 2012, for what is added; Cochran, Sampling
            Techniques, 1977, chapter 9A, for the error of a mean over groups of unequal size.
        """
        if not self.n:
            return np.full(len(self.total), np.nan), np.full(len(self.total), np.inf)
        mean: FloatArray = self.total / self.n
        if self.groups < 2:
            return mean, np.full(len(mean), np.inf)
        spread = np.maximum(self.squares - 2.0 * mean * self.weighted + mean * mean * self.sizes, 0.0)
        spread = spread * self.groups / (self.groups - 1)
        return mean, np.sqrt(times * spread + (2.0 * self.unit**2 * self.n / self.groups)) / (times * self.n)


@dataclass(frozen=True, eq=False, kw_only=True)
class Pairing:
    """The base of paired differences.

    Attributes:
        base: values by query of the base, by measure, shape (n_queries,); NaN if a measure does not apply.
        group: the group of each query, numbers from 0 on, shape (n_queries,).
    """

    base: Mapping[Measure, FloatArray]
    group: IntArray

    def select_queries(self, queries: BoolArray) -> Pairing:
        """Some of the queries, shape (n_queries,)."""
        return Pairing(
            base={measure: values[queries] for measure, values in self.base.items()}, group=self.group[queries]
        )

    def differences(self, by_query: Mapping[Measure, FloatArray]) -> dict[Measure, DifferenceSums]:
        """The differences of one setting.

        Args:
            by_query: its values by measure, shape (n_queries,).
        """
        nothing = np.empty(0, dtype=np.int64)
        return {
            measure: self.line_differences(measure, by_query[measure], owner=nothing, gain=np.empty(0), stops=nothing)
            for measure in self.base
            if measure in by_query
        }

    def line_differences(
        self, measure: Measure, first: FloatArray, *, owner: IntArray, gain: FloatArray, stops: IntArray
    ) -> DifferenceSums:
        """The differences of the settings along a line.

        Args:
            measure: one that the base has.
            first: values by query at the first setting, shape (n_queries,); NaN if the measure does not apply.
            owner: the query of each change, in the order of the line, shape (n_changes,).
            gain: the change of the value of that query, shape (n_changes,).
            stops: for each further setting, how many changes there are up to it, rising, shape (n_settings - 1,).
        """
        base = self.base[measure]
        paired = ~np.isnan(first - base)
        group, n_groups = self._numbers(paired)
        sizes = np.bincount(group[paired], minlength=n_groups).astype(np.float64)
        sums = np.bincount(group[paired], (first - base)[paired], minlength=n_groups)
        changed = np.flatnonzero((gain != 0) & paired[owner])
        owner, gain = group[owner[changed]], gain[changed]
        by_group = np.argsort(owner, kind="stable")
        changed_group, added = owner[by_group], gain[by_group]
        within = np.cumsum(added) - added
        head = (
            np.flatnonzero(np.append(True, changed_group[1:] != changed_group[:-1]))
            if len(changed_group)
            else np.empty(0, np.int64)
        )
        within -= np.repeat(within[head], np.diff(np.append(head, len(changed_group))))
        square_changes = np.empty(len(gain))
        square_changes[by_group] = added * (2.0 * (sums[changed_group] + within) + added)
        amount = measure.metric.declaration.scale == "amount" and paired.any()
        upto = np.append(0, np.searchsorted(changed, stops, side="left"))

        def total(start: float, changes: FloatArray) -> FloatArray:
            return np.asarray(start + np.concatenate([[0.0], np.cumsum(changes)])[upto])

        return DifferenceSums(
            total=total(float(sums.sum()), gain),
            squares=total(float((sums**2).sum()), square_changes),
            weighted=total(float((sums * sizes).sum()), gain * sizes[owner]),
            n=int(paired.sum()),
            groups=n_groups,
            sizes=float((sizes**2).sum()),
            unit=float(np.abs(base[paired]).mean()) if amount else 1.0,
        )

    def _numbers(self, paired: BoolArray) -> tuple[IntArray, int]:
        """The groups of the queries where `paired`, numbered from 0 on (0 for the others), and the number of groups."""
        distinct, number = np.unique(self.group[paired], return_inverse=True)
        group = np.zeros(len(paired), dtype=np.int64)
        group[paired] = number
        return group, len(distinct)


NEVER = 2**40  # a length that no ranking has


@dataclass(frozen=True, eq=False)
class Requirements:
    """The requirements of queries: items, or groups of alternatives of which one is enough.

    Attributes:
        items: the rankings.
        query: the ranking of each requirement, shape (n_requirements,), rising.
        direct: whether it is required directly, not as a dependency, shape (n_requirements,).
    """

    items: RankedItems
    query: IntArray
    direct: BoolArray
    _keys: IntArray
    _groups: IntArray

    @classmethod
    def of(cls, items: RankedItems) -> Requirements:
        """Read them from the labels; a query without complete labels has none."""
        judgments = items.labels.dataset.judgments
        start, label = select_lists(judgments.start, items.query)
        query = owners(start)
        required = (judgments.grade[label] == Grade.REQUIRED) & items.complete[query]
        query, label = query[required], label[required]
        base = int(judgments.group.max(initial=0)) + 1
        groups, number = np.unique(query * base + judgments.group[label], return_inverse=True)
        via = judgments.via[label] if judgments.via is not None else np.full(len(label), Via.DIRECT)
        direct = np.isin(np.arange(len(groups)), number[via == Via.DIRECT])
        keys = query * items.n_catalog + judgments.item[label]
        by_key = np.argsort(keys)
        return cls(items, (groups // base).astype(np.int64), direct, keys[by_key], number[by_key].astype(np.int64))

    def of_type(self, name: str) -> BoolArray:
        """True for requirements that an item of a type meets, shape (n_requirements,)."""
        types = item_types(self.items.labels.dataset.catalog)[self._keys % self.items.n_catalog]
        return np.isin(np.arange(len(self.query)), self._groups[types == name])

    def met_from(self, items: RankedItems) -> IntArray:
        """The length from which on rankings meet each requirement, shape (n_requirements,).

        0 if the session meets it, `NEVER` if nothing does.

        Args:
            items: rankings of the same queries, such as those of one domain.
        """
        group = np.where(items.enough, self._group_of(items.owner, items.item), -1)
        length = np.full(len(self.query), NEVER, dtype=np.int64)
        np.minimum.at(length, group[group >= 0], items.position[group >= 0] + 1)
        group = np.where(items.session_enough, self._group_of(owners(items.session_start), items.session_item), -1)
        length[group[group >= 0]] = 0
        return length

    @cached_property
    def counts(self) -> IntArray:
        """How many requirements each query has, shape (n_queries,)."""
        return np.bincount(self.query, minlength=self.items.n).astype(np.int64)

    def _group_of(self, query: IntArray, item: IntArray) -> IntArray:
        """The requirement that each item meets for its query; -1 if none."""
        if not len(self._keys):
            return np.full(len(item), -1, dtype=np.int64)
        key = query * self.items.n_catalog + item
        at = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        return np.where(self._keys[at] == key, self._groups[at], -1)


def queries_by_type(labels: Labels) -> dict[str, BoolArray]:
    """By item type, in order of the name, the queries that require an item of it, shape (n_queries,)."""
    judgments, types = labels.dataset.judgments, item_types(labels.dataset.catalog)
    required = judgments.grade == Grade.REQUIRED
    if judgments.complete is not None:
        required &= judgments.complete[owners(judgments.start)]
    query, of_label = owners(judgments.start)[required], types[judgments.item[required]]
    queries = np.arange(judgments.n_queries)
    return {str(name): np.isin(queries, query[of_label == name]) for name in sorted(set(of_label.tolist()))}


def count_offered(evidence: Evidence, catalog: Catalog, name: str) -> FloatArray:
    """The number of required items of a type in each prompt, shape (n_queries,); alternatives count once."""
    joined = Joined(evidence)
    group = joined.label_group
    rows = (group >= 0) & (item_types(catalog)[evidence.judgments.item] == name)
    return joined.total(joined.group_query[np.isin(np.arange(len(joined.group_query)), group[rows]) & joined.met])


def values_of_measures(
    measures: Sequence[Measure],
    values: Mapping[Metric, FloatArray],
    evidence: Evidence,
    catalog: Catalog,
    *,
    by_type: Mapping[str, BoolArray],
    reachable: BoolArray,
) -> dict[Measure, FloatArray]:
    """Measures by query from metrics by query; NaN for queries that a measure does not include.

    Args:
        measures: to compute.
        values: by metric, shape (n_queries,).
        evidence: labels and offered items.
        catalog: of the items.
        by_type: by item type, the queries that require an item of it, shape (n_queries,).
        reachable: the queries within reach, shape (n_queries,).

    Returns:
        By measure, shape (n_queries,).
    """
    out = {}
    for measure in measures:
        value = count_offered(evidence, catalog, measure.required_type) if measure.counts else values[measure.metric]
        if measure.required_type:
            value = np.where(by_type.get(measure.required_type, False), value, np.nan)
        out[measure] = np.where(reachable, value, np.nan) if measure.reachable else value
    return out


def count_by_length(items: RankedItems, name: str) -> FloatArray:
    """The number of offered required items of a type at every length, shape (n_ranked + n_queries,)."""
    required = Requirements.of(items)
    length = required.met_from(items)
    met = required.of_type(name) & (length <= np.diff(items.start)[required.query])
    gains = np.bincount(items.length_start[required.query[met]] + length[met], minlength=int(items.length_start[-1]))
    total = np.concatenate([np.zeros(1), np.cumsum(gains)])
    return np.asarray(total[1:] - np.repeat(total[items.length_start[:-1]], np.diff(items.length_start)))


def item_types(catalog: Catalog) -> np.ndarray:
    """The type of every item, shape (n_items,)."""
    return np.array([item.type for item in catalog], dtype=object)
