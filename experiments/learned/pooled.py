"""One fit of a probability on several datasets together: how the fit that ships with ctxbench is made."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ctxbench.datasets.dataset import Dataset
from ctxbench.model.resources import Resources
from ctxbench.pipelines.features import Logistic
from ctxbench.pipelines.fits import PROBABILITY, Fit, describe_context, in_front
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.tuning.fit_examples import Examples, Prior, fit_regression, labelled_queries, make_examples
from ctxbench.tuning.query_fits import plain_values, row_weights

COLUMNS = (
    *("fusion.score", "fusion.margin", "fusion.rank", "words.query_in_item"),
    *("words.name_in_query", "words.description_in_query", "words.body_in_query"),
)
"""The features of the shipped fit: those that pay on families of datasets that a fit has not seen."""

POOL_PRECISION = 100.0  # of weights of 0, where several datasets are fitted together
ROWS_PER_QUERY = 20.0  # what a query of a pooled fit counts, in rows


def fit_pooled(
    datasets: Mapping[str, Sequence[Dataset]], pipeline: Pipeline, resources: Resources, *, split: str = "tuning"
) -> Fit:
    """Fit one probability on the queries of a split of several datasets, for catalogs that none of them has.

    Every family of datasets weighs the same, every dataset of a family, and every query of a dataset.

    Args:
        datasets: whole, by family; at least one.
        pipeline, resources, split: as of `fit`.

    Raises:
        UnknownNameError: a dataset has no such split.
        ParameterError: no query of a dataset is labelled, or all rows have the same label.
    """
    front, families = in_front(pipeline, PROBABILITY), [family for family, members in datasets.items() for _ in members]
    parts = [labelled_queries(dataset, split) for members in datasets.values() for dataset in members]
    pool = [make_examples(PROBABILITY, part, front, resources, columns=COLUMNS) for part in parts]
    values = {**fit_examples(pool, families), "sure": sure_lead(pool, families)}
    names = [part.name for part in parts]
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


def fit_examples(pool: Sequence[Examples], families: Sequence[str]) -> dict[str, Any]:
    """The values of a fit on examples of several datasets, each family weighing the same.

    Args:
        pool: with the features `COLUMNS`; others are not read.
        families: of each of them.
    """
    members = Counter(families)
    rows = ROWS_PER_QUERY * (sum(examples.n_queries for examples in pool) / len(pool))
    weight = np.concatenate(
        [row_weights(examples, rows / members[family]) for examples, family in zip(pool, families, strict=True)]
    )
    features = np.concatenate([examples.columns(COLUMNS) for examples in pool])
    label = np.concatenate([examples.label for examples in pool])
    prior = Prior.zero(COLUMNS, features, weight, precision=POOL_PRECISION)
    return plain_values(fit_regression(prior, features, label, weight))


STEP, OFTEN = 0.25, 0.6


def sure_lead(pool: Sequence[Examples], families: Sequence[str]) -> float:
    """How far the likeliest item must lead, in log odds, to be required more often than not.

    Of items that lead by so much, to `STEP` more, at least `OFTEN` are required, by fits that have not seen the family
    of the dataset, over all queries that need something. It is the smallest multiple of `STEP` with this property, and
    one above the largest lead if there is none.
    """
    leads, labels = [], []
    for family in dict.fromkeys(families):
        rest = [index for index, name in enumerate(families) if name != family]
        model = Logistic.read(fit_examples([pool[index] for index in rest], [families[index] for index in rest]))
        for examples in (examples for examples, name in zip(pool, families, strict=True) if name == family):
            probability = model.probabilities(examples.columns(model.columns))
            odds = np.log(probability) - np.log1p(-probability)
            order = np.lexsort((-odds, examples.query))
            first = np.flatnonzero(np.diff(examples.query[order], prepend=-1))
            first = first[(np.append(first[1:], len(order)) - first > 1) & examples.needs[examples.query[order[first]]]]
            leads.append(odds[order[first]] - odds[order[first + 1]])
            labels.append(examples.label[order[first]])
    lead, label = np.concatenate(leads), np.concatenate(labels)
    steps = np.floor(lead / STEP).astype(np.int64)
    often = [step for step in np.unique(steps).tolist() if label[steps == step].mean() >= OFTEN]
    return STEP * min(often, default=int(steps.max(initial=0)) + 1)
