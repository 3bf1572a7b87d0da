"""Query sets: the judged queries of a split, with answers to them and the metrics of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ctxbench.bench.dataset_run import NOT_OF_FAILED, answered
from ctxbench.bench.labels import Labels
from ctxbench.bench.metrics import Grade, GroupMean, Metric, evaluate, group_means, parse_metric, worst_group
from ctxbench.bench.metrics.joined import Joined
from ctxbench.bench.slices import Slice
from ctxbench.bench.stats import Estimate, estimates
from ctxbench.bench.summary import SCOPE_QUERIES
from ctxbench.core.arrays import FloatArray, IntArray, owners
from ctxbench.core.requests import Batch
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.index.resources import LocalResources
from ctxbench.selectors.selector import Selector
from ctxbench.tuning.fits.examples import ALL, groups_of
from ctxbench.tuning.tuning_results import WorseRequest

__all__ = ["ALL", "COMPLETE", "TEST", "TUNING", "Progress", "QuerySet"]

COMPLETE = parse_metric("completeness")
TUNING, TEST = "tuning", "test"
_SHOWN = 100  # characters of a request in a report
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class QuerySet:
    """The judged queries of one split, or of all labels, whole or a sample.

    Attributes:
        dataset: those queries.
        split: which one; `all`: every label decides.
        item_tokens: prompt tokens of every item, shape (n_items,).
        resources: what steps use.
        memo: outputs of steps that settings share; one a split, since a step's key holds the batch.
    """

    dataset: Dataset
    split: str
    item_tokens: IntArray
    resources: LocalResources
    memo: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def labels(self) -> Labels:
        """The labels of the queries."""
        return Labels.of(self.dataset, self.item_tokens, self.resources.text_tokens)

    @cached_property
    def batch(self) -> Batch:
        """All requests."""
        return self.dataset.batch()

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def title(self) -> str:
        """What messages call it."""
        which = "all labels" if self.split == ALL else f"{self.split} split"
        return f"{which} of dataset {self.dataset.name}"

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The name of each query's group, see `groups_of`."""
        return groups_of(self.dataset.queries)

    @cached_property
    def group(self) -> IntArray:
        """The same as numbers from 0 on, shape (n_queries,)."""
        return np.unique(np.array(self.groups, dtype=object), return_inverse=True)[1].astype(np.int64)

    @property
    def fit_splits(self) -> tuple[str, ...]:
        """The splits that a fit may name if it has seen some of these queries."""
        return (self.split, TUNING, TEST, *self.dataset.split_names) if self.split == ALL else (self.split, ALL)

    def answers(self, selector: Selector) -> Slice:
        """Ask a selector all requests.

        Raises:
            UserError: it fails as a whole; queries that fail on their own are `Slice.errors`.
        """
        return answered(selector, self.batch)

    def values(self, answers: Slice, metrics: Sequence[Metric]) -> dict[Metric, FloatArray]:
        """Metrics by query, each of shape (n_queries,); what cannot be told of a query that failed is NaN."""
        found = evaluate(metrics, self.labels.evidence(answers))
        if not answers.errors:
            return found
        failed = np.array([query in answers.errors for query in answers.queries], dtype=np.bool_)
        return {m: np.where(failed, np.nan, v) if str(m) in NOT_OF_FAILED else v for m, v in found.items()}

    def estimates(self, values: Mapping[Metric, FloatArray], *, level: float) -> dict[str, Estimate]:
        """Means with intervals by groups of queries, by metric name; one that applies to no query is left out."""
        found = estimates(list(values), values, level=level, groups=self.group)
        return {str(metric): one for metric, one in found.items() if one.n}

    def worst_scope(self, values: Mapping[Metric, FloatArray]) -> GroupMean | None:
        """The named scope of least completeness; None where fewer than two have enough queries."""
        groups: dict[str, list[int]] = {}
        for place, query in enumerate(self.dataset.queries):
            if query.scope is not None:
                groups.setdefault(query.scope, []).append(place)
        return _worst(values[COMPLETE], groups)

    def worst_server(self, values: Mapping[Metric, FloatArray]) -> GroupMean | None:
        """The server of least completeness among the queries that require an item of it; None as for scopes."""
        judgments, catalog = self.dataset.judgments, self.dataset.catalog
        required = judgments.grade == Grade.REQUIRED
        pairs = zip(owners(judgments.start)[required].tolist(), judgments.item[required].tolist(), strict=True)
        groups: dict[str, list[int]] = {}
        for query, server in sorted({(query, catalog[item].server or "") for query, item in pairs}):
            if server:
                groups.setdefault(server, []).append(query)
        return _worst(values[COMPLETE], groups)

    def made_worse(self, before: FloatArray, after: FloatArray, answers: Slice) -> tuple[WorseRequest, ...]:
        """The queries that were complete before and are not after, with what is missing from the answers after.

        Of several alternatives that are all missing the first in the order of the catalog is named.
        """
        joined = Joined(self.labels.evidence(answers))
        items: dict[int, dict[int, str]] = {}
        missing = np.flatnonzero(joined.label_group >= 0)
        for label in missing[~joined.met[joined.label_group[missing]]].tolist():
            query, group = int(joined.label_query[label]), int(joined.label_group[label])
            items.setdefault(query, {}).setdefault(group, self.dataset.catalog[int(joined.labels.item[label])].id)
        return tuple(
            WorseRequest(
                query=self.dataset.queries[place].id, text=_shown(self.batch.requests[place].text), missing=found
            )
            for place in np.flatnonzero((before == 1) & (after == 0)).tolist()
            for found in [tuple(items.get(place, {}).values())]
        )


def _worst(complete: FloatArray, groups: Mapping[str, Sequence[int]]) -> GroupMean | None:
    """The group of least completeness, of those with enough queries in need."""
    placed = {name: np.array(places, dtype=np.int64) for name, places in groups.items()}
    large = [one for one in group_means(complete, placed) if one.mean.n >= SCOPE_QUERIES]
    return worst_group(COMPLETE, complete, placed, min_n=SCOPE_QUERIES) if len(large) > 1 else None


def _shown(text: str) -> str:
    """The text on one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1].rstrip() + "…"
