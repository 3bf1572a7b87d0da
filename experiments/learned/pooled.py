"""One fit of a probability on several datasets together: how the fit that ships with ctxbench is made."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ctxbench.datasets.dataset import Dataset
from ctxbench.model.resources import Resources
from ctxbench.pipelines.features import TEXT
from ctxbench.pipelines.fits import PROBABILITY, Fit, describe_context, in_front
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.tuning.fit_examples import Examples, Prior, fit_regression, labelled_queries, make_examples
from ctxbench.tuning.query_fits import plain_values, row_weights

POOL_PRECISION = 10.0  # of weights of nothing, where several datasets are fitted together
ROWS_PER_QUERY = 20.0  # what a query of a pooled fit counts, in rows


def fit_pooled(datasets: Sequence[Dataset], pipeline: Pipeline, resources: Resources, *, split: str = "tuning") -> Fit:
    """Fit one probability on the queries of a split of several datasets, for catalogs that none of them has.

    Every dataset weighs the same, and every query of a dataset.

    Args:
        datasets: whole; at least one.
        pipeline, resources, split: as of `fit`.

    Raises:
        UnknownNameError: a dataset has no such split.
        ParameterError: no query of a dataset is labelled, or all rows have the same label.
    """
    front, parts = in_front(pipeline, PROBABILITY), [labelled_queries(one, split) for one in datasets]
    values = fit_examples([make_examples(PROBABILITY, part, front, resources, columns=TEXT) for part in parts])
    names = [one.name for one in datasets]
    return Fit(
        kind=PROBABILITY,
        dataset=" + ".join(names),
        dataset_hash=hashlib.sha256("".join(part.hash for part in parts).encode()).hexdigest(),
        catalog="",
        embedder=resources.identity("embedder"),
        behind=describe_context(pipeline, len(front.refine)),
        split=split,
        queries=sum(map(len, parts)),
        values={**values, "datasets": names},
    )


def fit_examples(pool: Sequence[Examples]) -> dict[str, Any]:
    """The values of a fit on examples of several datasets with the same columns, each dataset weighing the same."""
    rows = ROWS_PER_QUERY * (sum(one.n_queries for one in pool) / len(pool))
    weight = np.concatenate([row_weights(one, rows) for one in pool])
    features = np.concatenate([one.features for one in pool])
    prior = Prior.zero(pool[0].names, features, weight, precision=POOL_PRECISION)
    return plain_values(fit_regression(prior, features, np.concatenate([one.label for one in pool]), weight))
