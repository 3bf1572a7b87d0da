"""Fits of probabilities, abstention and weights on labelled queries, and their predictions out of fold."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.errors import ParameterError
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.stages import Resources
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.features.columns import TEXT, VERSION, Logistic
from ctxbench.features.found import LABELLED
from ctxbench.features.stored_fits import (
    PROBABILITY,
    SHIPPED,
    WEIGHTS,
    Fit,
    describe_context,
    in_front,
    open_calibrations,
)
from ctxbench.tuning.fits.examples import Examples, folds_of, labelled_queries, make_examples
from ctxbench.tuning.fits.fitted_weights import Prior, fit_regression, fit_weights, levelled

Progress = Callable[[int, int], None]

STRENGTHS = (0.03, 0.3)  # scikit-learn's C for abstention, on features in units of their standard deviation
PRIOR_PRECISION = (
    100.0  # precision of the shipped weights as a prior of a team's own; of 1 to 300 the least to lose at any n
)
VECTOR_SCALES = (0.0, 2.0, 8.0)  # weight of a coordinate of a unit vector relative to a standardised feature
INNER_FOLDS = 5
DIGITS = 6  # significant ones that are kept: the last ones of a fit depend on the machine


def fit(
    kind: str,
    dataset: Dataset,
    pipeline: Pipeline,
    resources: Resources,
    *,
    split: str = "tuning",
    requests: bool = True,
) -> Fit:
    """Fit one calibration on the queries of a split. A probability is fitted around the shipped one.

    Args:
        kind: `probability`, `abstention` or `weights`.
        dataset: whole.
        pipeline: the pipeline that the fitted step follows, or is part of: the steps before it count.
        resources: as for the pipeline.
        split: whose queries are used; `all` = those of every split.
        requests: whether a fit of a probability keeps the labelled requests, with their texts, and reads what similar
            ones needed.

    Raises:
        UnknownNameError: there is no such split.
        ParameterError: no query is labelled, or all rows have the same label.
    """
    part = labelled_queries(dataset, split)
    front = in_front(pipeline, kind)
    if kind == WEIGHTS:
        values = _weights(part, pipeline, resources)
    else:
        values = fit_values(make_examples(kind, part, front, resources, columns=columns_of(requests=requests)))
    return Fit(
        what=kind,
        dataset=dataset.name,
        dataset_hash=part.hash,
        catalog=dataset.catalog.hash,
        embedder=resources.identity("embedder"),
        behind=describe_context(pipeline, 0 if kind == WEIGHTS else len(front.refine)),
        split=split,
        queries=len(part),
        values=values,
    )


def columns_of(*, requests: bool) -> tuple[str, ...]:
    """The features of a fit of a probability to one's own labels, with or without those of labelled requests."""
    return (*TEXT, *(LABELLED if requests else ()))


def shipped_fit() -> Fit:
    """The fit that comes with ctxbench."""
    return next(fit for fit in open_calibrations(SHIPPED).fits if fit.what == PROBABILITY)


def fit_with_prior(examples: Examples, earlier: Logistic) -> dict[str, Any]:
    """The values of a fit on examples that starts from an earlier fit; columns that it lacks start from 0.

    Every query weighs the same. The fewer the labels, the closer the weights stay to the earlier ones. That a similar
    request needed an item never counts against it: where hardly two labelled requests need the same item, it would seem
    to; a column of labelled requests with a weight below 0 is left out, the worst first.

    Raises:
        ParameterError: all rows have the same label.
    """
    weight = row_weights(examples, len(examples.query))
    columns = examples.names
    while True:
        features = examples.columns(columns)
        prior = Prior.from_fit(earlier, columns, features, weight, precision=PRIOR_PRECISION)
        model = fit_regression(prior, features, examples.label, weight)
        scaled = dict(zip(columns, (model.weights * model.scale).tolist(), strict=True))
        worst = min((name for name in columns if name in LABELLED), key=scaled.__getitem__, default="")
        if not worst or scaled[worst] >= 0:
            break
        columns = tuple(name for name in columns if name != worst)
    return plain_values(levelled(model, features, examples.label), examples)


def fit_without_prior(examples: Examples, *, precision: float = 1.0) -> dict[str, Any]:
    """The values of a fit on examples that starts from weights of 0: what `fit_with_prior` is compared with."""
    weight = row_weights(examples, len(examples.query))
    prior = Prior.zero(examples.names, examples.features, weight, precision=precision)
    return plain_values(fit_regression(prior, examples.features, examples.label, weight), examples)


def row_weights(examples: Examples, total: float) -> FloatArray:
    """Weights of rows, shape (n,): they add up to a total, and the rows of each query to the same part of it."""
    counts = np.bincount(examples.query, minlength=examples.n_queries)
    return 1.0 / counts[examples.query] * (total / max(len(np.unique(examples.query)), 1))


def plain_values(model: Logistic, examples: Examples | None = None) -> dict[str, Any]:
    """A regression as plain numbers, which `Logistic.read` takes, with the labelled requests that its columns need."""
    table = np.stack([model.weights, model.low, model.high, model.scale], axis=1)
    columns = {name: _rounded(row) for name, row in zip(model.columns, table, strict=True)}
    values = {"features": VERSION, "intercept": _rounded(np.array([model.intercept]))[0], "columns": columns}
    if examples is not None and examples.neighbours is not None and set(model.columns) & set(LABELLED):
        values["requests"] = examples.neighbours.requests.as_rows()
    return values | ({"vector": _rounded(model.vector)} if len(model.vector) else {})


def _weights(part: Dataset, pipeline: Pipeline, resources: Resources) -> dict[str, Any]:
    """Fit the weights of a fusion, normalised as the pipeline's fusion does it, if it has one."""
    fusions: list[Any] = [step.call for step in pipeline.refine if hasattr(step.call, "normalise")]
    how = {"normalise": fusions[0].normalise, "lowest": fusions[0].lowest} if fusions else {}
    return asdict(fit_weights(part, replace(pipeline, refine=()).run(part.batch(), resources).candidates, **how))


def fit_values(examples: Examples, *, earlier: Logistic | None = None) -> dict[str, Any]:
    """Fit the logistic regression of abstention, or that of a probability from an earlier one.

    Features are standardised and weights held small by their squares; how small is chosen by the loss out of fold,
    together with the weight of the vector relative to the features.

    Args:
        examples: all rows.
        earlier: the earlier probability; None = the shipped one. No part of abstention.

    Returns:
        `features` (their version), `intercept`, `columns` and, where it pays, `vector`: plain numbers that `Logistic`
        reads.

    Raises:
        ParameterError: all rows have the same label.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):  # matrices so narrow are slower with more, and rounded otherwise
        if examples.what == PROBABILITY:
            earlier = earlier or Logistic.read(shipped_fit().values)
            covers = set(earlier.columns) <= set(examples.names)
            return fit_with_prior(examples, earlier) if covers else fit_without_prior(examples)
        return plain_values(_fit_abstention(examples, *_best_settings(examples)))


def out_of_fold(
    examples: Examples, fold: IntArray, *, earlier: Logistic | None = None, progress: Progress | None = None
) -> FloatArray:
    """The probability of every row by a fit on the queries of the other folds, shape (n,).

    Args:
        examples: all rows.
        fold: of each query, shape (n_queries,); see `folds_of`. No fit is on queries of a fold below 0.
        earlier: what the fits start from; see `fit_values`.
        progress: called with (folds done, folds).

    Raises:
        ParameterError: without one of the folds, all rows have the same label.
    """
    probability = np.zeros(len(examples.label), dtype=np.float64)
    folds = np.unique(fold)
    for done, number in enumerate(folds):
        training = (fold != number) & (fold >= 0)
        model = Logistic.read(fit_values(examples.select_queries(training), earlier=earlier))
        rows = fold[examples.query] == number
        features = examples.columns(model.columns, labelled=training)
        probability[rows] = model.probabilities(features[rows], examples.vectors[rows])
        if progress is not None:
            progress(done + 1, len(folds))
    return probability


def _log_loss(model: Logistic, examples: Examples) -> float:
    """The sum over rows of -log(probability of what is the case)."""
    odds = model.intercept + np.clip(examples.features, model.low, model.high) @ model.weights
    if len(model.vector):
        odds = odds + examples.vectors @ model.vector
    return float(np.logaddexp(0.0, np.where(examples.label, -odds, odds)).sum())


def _best_settings(examples: Examples) -> tuple[float, float]:
    """The strength and the scale of vectors with the least loss out of fold."""
    choices = list(itertools.product(STRENGTHS, VECTOR_SCALES))
    n_groups = len(set(examples.groups))
    if n_groups < 2:
        return choices[0]
    fold = folds_of(examples.groups, min(INNER_FOLDS, n_groups))
    losses = np.zeros(len(choices))
    for number in range(int(fold.max()) + 1):
        training, unseen = examples.select_queries(fold != number), examples.select_queries(fold == number)
        if training.label.any() and not training.label.all():
            losses += [_log_loss(_fit_abstention(training, *choice), unseen) for choice in choices]
    return choices[int(np.argmin(losses))]


def _fit_abstention(examples: Examples, strength: float, vector_scale: float) -> Logistic:
    """Fit abstention.

    Args:
        examples: requests.
        strength: how closely the fit may follow its rows, scikit-learn's C.
        vector_scale: the weight of vectors relative to the features; 0 leaves them out.

    Raises:
        ParameterError: all rows have the same label.
    """
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    label = examples.label
    if not label.any() or label.all():
        raise ParameterError(
            f"a fit would see {len(label)} rows that are {'all' if label.any() else 'never'} of requests "
            f"that need something; use another number of folds, or label more queries"
        )
    mean, scale = examples.features.mean(axis=0), examples.features.std(axis=0)
    varies = scale > 1e-9
    scale = np.where(varies, scale, 1.0)
    parts = [(examples.features - mean) / scale * varies]
    if vector_scale > 0:
        parts.append(examples.vectors * vector_scale)
    fitted = LogisticRegression(C=strength, max_iter=5000, tol=1e-6).fit(np.concatenate(parts, axis=1), label)
    weights = fitted.coef_[0][: len(mean)] * varies / scale
    return Logistic(
        columns=examples.names,
        intercept=float(fitted.intercept_[0]) - float(weights @ mean),
        weights=weights,
        low=examples.features.min(axis=0),
        high=examples.features.max(axis=0),
        scale=scale,
        vector=fitted.coef_[0][len(mean) :] * vector_scale,
    )


def _rounded(values: FloatArray) -> list[float]:
    """Values to `DIGITS` significant digits."""
    return [float(f"{value:.{DIGITS}g}") + 0.0 for value in values.tolist()]
