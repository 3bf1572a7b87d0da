"""What cuts and abstention give on queries that neither the fit nor the choice of the threshold has seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ctxbench.datasets.dataset import Dataset
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.evaluation.runner import answered
from ctxbench.evaluation.statistics import LEVEL, Interval
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.pipelines.features import Logistic
from ctxbench.pipelines.fits import ABSTENTION, PROBABILITY
from ctxbench.selectors.selector import Selector
from ctxbench.tuning.fit_examples import Examples, folds_of
from ctxbench.tuning.query_fits import (
    out_of_fold,
    percentile_interval,
    request_probability,
    resample_groups,
)

RECALL, NOTHING, FALSE_ITEMS = (parse_metric(name) for name in ("recall", "abstention", "false_items"))
Score = Callable[[Examples], FloatArray]
_SIMILARITY = {PROBABILITY: "similarity.score", ABSTENTION: "best.retrieved.score"}


def similarity(examples: Examples) -> FloatArray:
    """The similarity of each row, shape (n_rows,): of a candidate, or the score of the best one of a request."""
    return examples.features[:, examples.names.index(_SIMILARITY[examples.what])]


def fitted_probability(examples: Examples, folds: int = 5, *, earlier: Logistic | None = None) -> FloatArray:
    """The probability of each row by a fit on the other folds, from `earlier` or what ships, shape (n_rows,)."""
    return out_of_fold(examples, folds_of(examples.groups, folds), earlier=earlier)


@dataclass(frozen=True, eq=False)
class AbstentionData:
    """What a selector offers the queries of a split, and a signal below which nothing would be offered.

    Attributes:
        examples: the requests; `needs` says which of them need anything.
        recall: by query, 0 for those that need nothing, shape (n_queries,).
        falsely_offered: whether a query that needs nothing is offered anything, shape (n_queries,).
        items: how many items that are not even helpful it is offered, 0 for queries in need, shape (n_queries,).
        signal: by query, shape (n_queries,).
    """

    examples: Examples
    recall: FloatArray
    falsely_offered: BoolArray
    items: FloatArray
    signal: FloatArray

    @classmethod
    def of(cls, examples: Examples, selector: Selector, dataset: Dataset, score: FloatArray) -> AbstentionData:
        """Ask a selector; `score` is the signal by row of `examples`, a query without candidates has a signal of 0."""
        labels = Labels.of(dataset, np.zeros(len(dataset.catalog), dtype=np.int64))
        values = evaluate((RECALL, NOTHING, FALSE_ITEMS), labels.evidence(answered(selector, dataset.batch())))
        return cls(
            examples=examples,
            recall=np.nan_to_num(values[RECALL]) * examples.needs,
            falsely_offered=(values[NOTHING] == 0) & ~examples.needs,
            items=np.nan_to_num(values[FALSE_ITEMS]),
            signal=request_probability(examples, score),
        )

    @cached_property
    def thresholds(self) -> FloatArray:
        """The values of the signal, rising: below each of them other queries are offered nothing."""
        return np.unique(self.signal)

    @cached_property
    def lost(self) -> FloatArray:
        """Mean recall lost below each threshold, over the queries in need, shape (n_thresholds,), rising."""
        return self._below(self.recall) / max(int(self.examples.needs.sum()), 1)

    @cached_property
    def removed_share(self) -> FloatArray:
        """Share of the queries falsely offered something that are offered nothing below each threshold, rising."""
        return self._below(self.falsely_offered.astype(np.float64)) / max(int(self.falsely_offered.sum()), 1)

    def effect_of(self, threshold: float) -> tuple[float, float, float]:
        """Recall lost, and the shares of falsely offered queries and of false items gone, below a threshold."""
        below = self.signal < threshold
        lost = float(self.recall[below].sum()) / max(int(self.examples.needs.sum()), 1)
        queries, items = (
            float(values[below].sum()) / max(float(values.sum()), 1.0) for values in (self.falsely_offered, self.items)
        )
        return lost, queries, items

    def select_queries(self, queries: BoolArray) -> AbstentionData:
        """The data of the queries where `queries`, shape (n_queries,), is True."""
        return AbstentionData(
            examples=self.examples.select_queries(queries),
            recall=self.recall[queries],
            falsely_offered=self.falsely_offered[queries],
            items=self.items[queries],
            signal=self.signal[queries],
        )

    def without(self, silent: BoolArray) -> AbstentionData:
        """What is left where nothing is offered to the queries where `silent`, shape (n_queries,), is True."""
        return replace(
            self,
            recall=self.recall * ~silent,
            falsely_offered=self.falsely_offered & ~silent,
            items=self.items * ~silent,
        )

    def threshold(self, lost: float) -> float:
        """The highest threshold that loses at most this much recall."""
        return float(self.thresholds[self.lost <= lost + 1e-12].max())

    def _below(self, values: FloatArray) -> FloatArray:
        """The sum of `values` over the queries below each threshold."""
        by_signal = np.argsort(self.signal, kind="stable")
        sums = np.concatenate([np.zeros(1), np.cumsum(values[by_signal])])
        below: IntArray = np.searchsorted(self.signal[by_signal], self.thresholds, side="left")
        return sums[below]


@dataclass(frozen=True, eq=False)
class AbstentionTrial:
    """What abstaining gives when fit and threshold come from the other folds.

    Attributes:
        before: all queries, the signal of each out of fold.
        thresholds: by the recall that may be lost on the other folds, the threshold of each fold, shape (n_folds,).
        after: by the same, what is left.
    """

    before: AbstentionData
    thresholds: Mapping[float, FloatArray]
    after: Mapping[float, AbstentionData]


def abstention_trial(whole: AbstentionData, score: Score, *, lost: Sequence[float], folds: int = 5) -> AbstentionTrial:
    """Abstain in each fold below the highest threshold that loses so much on the other folds, out of fold there too.

    Args:
        whole: all queries; its signal is not used.
        score: gives the scores of examples, such as `similarity` or `fitted_probability`.
        lost: recall that may be lost on the other folds.
        folds: >= 2.
    """

    def scored(data: AbstentionData) -> AbstentionData:
        return replace(data, signal=request_probability(data.examples, score(data.examples)))

    fold, before = folds_of(whole.examples.groups, folds), scored(whole)
    thresholds = {loss: np.zeros(folds) for loss in lost}
    for number in range(folds):
        seen = scored(whole.select_queries(fold != number))
        for loss in lost:
            thresholds[loss][number] = seen.threshold(loss)
    return AbstentionTrial(
        before, thresholds, {loss: before.without(before.signal < thresholds[loss][fold]) for loss in lost}
    )


def ratio_interval(
    top: FloatArray, bottom: FloatArray, groups: Sequence[str], *, level: float = LEVEL, seed: int = 0
) -> Interval:
    """Percentile bootstrap over groups for sum of `top` / sum of `bottom`: queries of one group are drawn together.

    Args:
        top, bottom: by query, shape (n,); with `bottom` all 1 the ratio is a mean.
        groups, level, seed: as of `roc_area_interval`.

    Coverage at level 0.95, by simulation with the groups of `bfcl-live-listed`, of which two hold a third of the
    queries in no need: a ratio of 0.45 85 to 96%, with correlations within groups of 0 to 0.3. A ratio of 0.01 81 to
    95%, and the misses lie above: groups that lose much are seldom drawn, so that the upper end is too low.
    """
    counts, group = resample_groups(groups, seed)
    above, below = (counts @ np.bincount(group, weights=values, minlength=counts.shape[1]) for values in (top, bottom))
    draws = np.divide(above, below, out=np.full(len(counts), np.nan), where=below != 0)
    return percentile_interval(draws, counts.shape[1], level)


def joined_groups(groups: Sequence[str], eligible: Iterable[BoolArray]) -> tuple[str, ...]:
    """Join groups whose queries may get the same item, directly or through others.

    For queries that come with short lists of their own: what a fit has seen of an item then says nothing of a fold.

    Args:
        groups: of each query, shape (n_queries,).
        eligible: what each query may get, shape (n_items,) each.

    Returns:
        Of each query, the first name of what its group is joined to, shape (n_queries,).
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    names, group = np.unique(np.array(groups, dtype=object), return_inverse=True)
    listed = [np.flatnonzero(row) for row in eligible]
    query = np.repeat(np.arange(len(listed)), [len(items) for items in listed])
    item = np.concatenate([np.empty(0, dtype=np.int64), *listed])
    nodes = len(names) + 1 + int(item.max(initial=-1))
    edges = csr_array((np.ones(len(query)), (group[query], len(names) + item)), shape=(nodes, nodes))
    part = connected_components(edges, directed=False)[1][: len(names)]
    first = np.unique(part, return_index=True)[1]
    return tuple(str(names[first[number]]) for number in np.unique(part, return_inverse=True)[1][group])
