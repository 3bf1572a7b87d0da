"""Fits of the step `linear`: weights of columns for a dataset's labels, and what they are worth on queries unseen."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ctxbench.bench.metrics import Metric, OfferedItems
from ctxbench.bench.stats import Comparison, grouped_compare
from ctxbench.core.arrays import FloatArray
from ctxbench.core.candidates import Origin
from ctxbench.core.errors import ParameterError
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.stages import Resources, Step
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.features.columns import VERSION, feature_rows
from ctxbench.features.stored_fits import LINEAR, Fit, describe_context
from ctxbench.steps.linear import Linear
from ctxbench.tuning.fits.examples import folds_of, groups_of, labelled_queries
from ctxbench.tuning.fits.line_search import LineSearch, fit_linear
from ctxbench.tuning.fits.rank_states import LinearCases, check_objective


@dataclass(frozen=True)
class WeightFigures:
    """Figures of fitted weights on queries that they were not fitted on, compared with the selector's own weights.

    Attributes:
        metric: that was fitted and measured.
        folds, groups: how many; queries of one group are in one fold.
        compared: the selector's own weights (base), with those of the fits.
    """

    metric: Metric
    folds: int
    groups: int
    compared: Comparison

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        comparison = self.compared
        gain = {"value": comparison.difference, "low": comparison.interval.low, "high": comparison.interval.high}
        counts = {"folds": self.folds, "queries": comparison.n, "groups": self.groups}
        return {
            **counts,
            "metric": str(self.metric),
            "before": comparison.base,
            "after": comparison.other,
            "gain": gain,
        }


def linear_index(pipeline: Pipeline) -> int | None:
    """The index among the refining steps of the last `linear` outside of domains; None = there is none."""
    steps = [isinstance(step, Step) and isinstance(step.call, Linear) for step in pipeline.refine]
    return len(steps) - 1 - steps[::-1].index(True) if any(steps) else None


@dataclass(frozen=True, eq=False)
class LinearExamples:
    """What the weights of a pipeline's step `linear` are fitted on.

    Attributes:
        dataset: labelled queries only.
        columns, weights: those that the step has.
        cases: candidates with their columns, as the step is given them.
    """

    dataset: Dataset
    columns: tuple[str, ...]
    weights: FloatArray
    cases: LinearCases

    @classmethod
    def of(cls, dataset: Dataset, pipeline: Pipeline, resources: Resources) -> LinearExamples:
        """Run the steps before it, on labelled queries.

        Raises:
            ParameterError: the pipeline has no such step, or its file holds no weights to begin with.
        """
        index = linear_index(pipeline)
        if index is None:
            raise ParameterError("weights of columns are fitted for a selector with a step `linear`")
        step: Linear = pipeline.refine[index].call  # type: ignore[assignment]
        weights = step.weights_for(dataset.catalog)
        outcome = replace(pipeline, refine=pipeline.refine[:index]).run(dataset.batch(), resources)
        table, columns = outcome.candidates, tuple(weights)
        searched, values = feature_rows(table, columns, outcome.query, resources)
        session = table.origin == Origin.SESSION
        cases = LinearCases(
            values=values,
            query=table.request[searched.rows],
            item=searched.item,
            judgments=dataset.judgments,
            session=OfferedItems(
                start=table.starts_of(session), item=table.item[session], origin=table.origin[session]
            ),
        )
        return cls(dataset, columns, np.array(list(weights.values())), cases)

    def fit(self, metric: Metric) -> dict[str, Any]:
        """The values of a fit: weights by column, and the mean of the metric with those of the step and with these."""
        fitted = fit_linear(self.cases, metric, start=self.weights)
        weights = dict(zip(self.columns, (fitted.weights + 0.0).tolist(), strict=True))  # no -0.0
        figures = {"metric": str(metric), "before": fitted.before, "value": fitted.mean}
        return {"features": VERSION, "weights": weights, **figures}

    def measure(self, metric: Metric, folds: int) -> WeightFigures:
        """Fit without each fold in turn, and measure on the fold left out.

        The fits do not begin with the step's own weights, which may have been fitted on these very queries.

        Raises:
            ParameterError: there are fewer groups than folds, or no query outside of one that the metric applies to.
        """
        groups = groups_of(self.dataset.queries)
        fold, search = folds_of(groups, folds), LineSearch(self.cases, metric)
        after = np.full(len(fold), math.nan)
        for index in range(folds):
            weights = fit_linear(self.cases, metric, queries=fold != index).weights
            after[fold == index] = search.by_query(weights)[fold == index]
        before, scale = search.by_query(self.weights), metric.declaration.scale
        compared = grouped_compare(before, after, groups, scale="yes/no" if scale == "yes/no" else "share")
        return WeightFigures(metric, folds, len(set(groups)), compared)


def fit_columns(
    dataset: Dataset, pipeline: Pipeline, resources: Resources, metric: Metric, *, split: str = "tuning", folds: int = 0
) -> tuple[Fit, WeightFigures | None]:
    """Fit the weights of a pipeline's step `linear` on the queries of a split, and with folds measure such fits.

    Raises:
        UnknownNameError: there is no such split.
        ParameterError: as of `LinearExamples` and `fit_linear`.
    """
    check_objective(metric)
    part = labelled_queries(dataset, split)
    examples = LinearExamples.of(part, pipeline, resources)
    fit = Fit(
        what=LINEAR,
        dataset=dataset.name,
        dataset_hash=part.hash,
        catalog=dataset.catalog.hash,
        embedder=resources.identity("embedder"),
        behind=describe_context(pipeline, linear_index(pipeline)),
        split=split,
        queries=len(part),
        values=examples.fit(metric),
    )
    return fit, examples.measure(metric, folds) if folds else None
