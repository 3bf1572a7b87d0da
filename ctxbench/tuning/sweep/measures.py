"""Measures: means over queries, their paired differences to a base, and the requirements that some are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ctxbench.bench.labels import Labels
from ctxbench.bench.metrics import Evidence, Grade, Metric, Via
from ctxbench.bench.metrics.joined import Joined
from ctxbench.core.arrays import BoolArray, FloatArray, IntArray, owners
from ctxbench.core.items import Catalog
from ctxbench.tuning.sweep.metric_values import RankedItems, select_lists

REACH = 20  # completeness within reach is that of the first 20 items of the ranking


@dataclass(frozen=True, slots=True, order=True)
class Measure:
    """A mean over queries: of a set metric, over those that it applies to or those of them within reach.

    Attributes:
        metric: a set metric, such as `completeness` or `tokens`.
        reachable: True: only over queries that the first `REACH` items of the ranking make complete. Completeness
            among these is completeness as a share of what is reachable.
        required_type: an item type: only over queries that require an item of it. With `items` it is how many of the
            required items of this type are offered; with any other metric that metric.
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
        return (
            f"required {self.required_type} items"
            if self.counts
            else f"{name} where a {self.required_type} is required"
        )

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
        """The differences of some settings, in arrays that they do not share."""
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

        As many gains and losses as a group has queries on average, each on its own, are added to what was seen, so
        that there is an error where nothing differs: one of each where every query is alone. Without queries the mean
        is NaN; with one group the error is infinite.

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
        added = 2.0 * self.unit**2 * self.n / self.groups
        return mean, np.sqrt(times * spread + added) / (times * self.n)


@dataclass(frozen=True, eq=False, kw_only=True)
class Pairing:
    """The baseline that differences are to.

    Attributes:
        base: values by query of the base, by measure, shape (n_queries,); NaN where a measure does not apply.
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
            by_query: values of it, by measure, shape (n_queries,).
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
            first: values by query at the first setting, shape (n_queries,); NaN where the measure does not apply.
            owner: the query of each change, in the order of the line, shape (n_changes,).
            gain: what the value of that query changes by, shape (n_changes,).
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
        """The groups of the known queries, numbered from 0 on; 0 for the others. And how many groups there are."""
        distinct, number = np.unique(self.group[paired], return_inverse=True)
        group = np.zeros(len(paired), dtype=np.int64)
        group[paired] = number
        return group, len(distinct)


NEVER = 2**40  # a length that no ranking has


@dataclass(frozen=True, eq=False)
class Requirements:
    """What the queries of rankings require: items, or groups of alternatives of which one is enough.

    Attributes:
        items: the rankings.
        query: the ranking of each requirement, shape (n_requirements,), rising.
        direct: whether an item that meets it is needed for itself, shape (n_requirements,).
    """

    items: RankedItems
    query: IntArray
    direct: BoolArray
    _keys: IntArray
    _groups: IntArray

    @classmethod
    def of(cls, items: RankedItems) -> Requirements:
        """Take them from the labels; a query without complete labels has none."""
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

        0 where the session does, `NEVER` where nothing does.

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
        """The requirement that each item meets for its query, -1 if none."""
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
    """How many of the required items of a type a prompt holds, shape (n_queries,); alternatives count once."""
    joined = Joined(evidence)
    group = joined.label_group
    rows = (group >= 0) & (item_types(catalog)[evidence.judgments.item] == name)
    typed = np.isin(np.arange(len(joined.group_query)), group[rows])
    return joined.total(joined.group_query[typed & joined.met])


def values_of_measures(
    measures: Sequence[Measure],
    values: Mapping[Metric, FloatArray],
    evidence: Evidence,
    catalog: Catalog,
    *,
    by_type: Mapping[str, BoolArray],
    reachable: BoolArray,
) -> dict[Measure, FloatArray]:
    """Measures by query from metrics by query, NaN at queries that a measure is not over.

    Args:
        measures: which.
        values: by metric, shape (n_queries,).
        evidence: what was offered.
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
    """How many of the required items of a type are offered at every length, shape (n_ranked + n_queries,)."""
    required = Requirements.of(items)
    length = required.met_from(items)
    met = required.of_type(name) & (length <= np.diff(items.start)[required.query])
    gains = np.bincount(items.length_start[required.query[met]] + length[met], minlength=int(items.length_start[-1]))
    total = np.concatenate([np.zeros(1), np.cumsum(gains)])
    return np.asarray(total[1:] - np.repeat(total[items.length_start[:-1]], np.diff(items.length_start)))


def item_types(catalog: Catalog) -> np.ndarray:
    """The type of every item, shape (n_items,)."""
    return np.array([item.type for item in catalog], dtype=object)
