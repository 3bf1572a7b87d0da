"""What queries require: by item type, and by the length of a ranking at which each requirement is met."""

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
from ctxbench.tuning.sweep.measures import Measure
from ctxbench.tuning.sweep.metric_values import RankedItems, select_lists

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
        """Read them off the labels."""
        judgments = items.labels.dataset.judgments
        start, label = select_lists(judgments.start, items.query)
        query = owners(start)
        required = judgments.grade[label] == Grade.REQUIRED
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
        np.minimum.at(length, group[group >= 0], items.place[group >= 0] + 1)
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
    query, of_label = owners(judgments.start)[required], types[judgments.item[required]]
    every = np.arange(judgments.n_queries)
    return {str(name): np.isin(every, query[of_label == name]) for name in sorted(set(of_label.tolist()))}


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
        queries_by_type: by item type, the queries that require an item of it, shape (n_queries,).
        reachable: the queries within reach, shape (n_queries,).

    Returns:
        By measure, shape (n_queries,).
    """
    out = {}
    for one in measures:
        found = count_offered(evidence, catalog, one.required_type) if one.counts else values[one.metric]
        if one.required_type:
            found = np.where(by_type.get(one.required_type, False), found, np.nan)
        out[one] = np.where(reachable, found, np.nan) if one.reachable else found
    return out


def count_by_length(items: RankedItems, name: str) -> FloatArray:
    """How many of the required items of a type are offered at every length, shape (n_ranked + n_queries,)."""
    required = Requirements.of(items)
    length = required.met_from(items)
    met = required.of_type(name) & (length <= np.diff(items.start)[required.query])
    at = items.length_start[required.query[met]] + length[met]
    gains = np.bincount(at, minlength=int(items.length_start[-1]))
    total = np.concatenate([np.zeros(1), np.cumsum(gains)])
    return np.asarray(total[1:] - np.repeat(total[items.length_start[:-1]], np.diff(items.length_start)))


def item_types(catalog: Catalog) -> np.ndarray:
    """The type of every item, shape (n_items,)."""
    return np.array([item.type for item in catalog], dtype=object)
