"""Fits calibrations with scikit-learn, and says what fits would have said of queries that they have not seen."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ctxbench.arrays import FloatArray, IntArray
from ctxbench.calibrations import PROBABILITY, WEIGHTS, Fit, behind
from ctxbench.errors import ParameterError
from ctxbench.evaluation.calibrating.examples import Examples, examples, folds_of, labelled
from ctxbench.evaluation.datasets.dataset import Dataset
from ctxbench.index.features import VERSION
from ctxbench.pipeline import Pipeline
from ctxbench.stages import Resources
from ctxbench.steps.calibrated import Logistic

Progress = Callable[[int, int], None]

STRENGTH = 0.3  # scikit-learn's C for probabilities, on features in units of their standard deviation
STRENGTHS = (0.03, 0.3)
VECTOR_SCALES = (0.0, 2.0, 8.0)  # what a coordinate of a unit vector is worth beside a standardised feature
INNER_FOLDS = 5
DIGITS = 6  # significant ones that are kept: the last ones of a fit depend on the machine


@dataclass(frozen=True)
class _Settings:
    """How strongly a fit may follow its rows: C, and the scale of vectors (0 leaves them out)."""

    strength: float
    vector_scale: float


def fit(what: str, dataset: Dataset, pipeline: Pipeline, resources: Resources, *, split: str = "tuning") -> Fit:
    """Fit one calibration on the queries of a split.

    Args:
        what: `probability`, `abstention` or `weights`.
        dataset: whole.
        pipeline: what the fitted step is to stand behind; see `ctxbench.calibrations.behind`.
        resources: as for the pipeline.
        split: whose queries are used; `all` = those of every split.

    Raises:
        UnknownNameError: there is no such split.
        ParameterError: no query is labelled, or all rows have the same label.
    """
    part = labelled(dataset, split)
    if what == WEIGHTS:
        values = _weights(part, pipeline, resources)
    else:
        made = examples(what, part, pipeline, resources)
        values = fit_values(made)
    return Fit(
        what=what,
        dataset=dataset.name,
        dataset_hash=part.hash,
        catalog=dataset.catalog.hash,
        embedder=resources.identity("embedder"),
        behind=behind(pipeline, 0 if what == WEIGHTS else None),
        split=split,
        queries=len(part),
        values=values,
    )


def _weights(part: Dataset, pipeline: Pipeline, resources: Resources) -> dict[str, Any]:
    """Fit the weights of a fusion, normalised as the pipeline's fusion does it, if it has one."""
    from ctxbench.evaluation.fusion_weights import fit_weights

    fusions: list[Any] = [step.call for step in pipeline.refine if hasattr(step.call, "normalise")]
    how = {"normalise": fusions[0].normalise, "lowest": fusions[0].lowest} if fusions else {}
    found = replace(pipeline, refine=()).run(part.batch(), resources).candidates
    return asdict(fit_weights(part, found, **how))


def fit_values(made: Examples) -> dict[str, Any]:
    """Fit a logistic regression.

    Features are standardised and weights held small by their squares. How small is fixed for probabilities; for
    abstention, it is chosen by the loss out of fold, together with what the vector counts beside the features.

    Returns:
        `features` (their version), `intercept`, `weights` by feature and, where it pays, `vector`: plain numbers
        that `ctxbench.steps.calibrated.Logistic` reads.

    Raises:
        ParameterError: all rows have the same label.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):  # matrices so narrow are slower with more, and rounded otherwise
        model = _fitted(made, _settings(made))
    weights = dict(zip(made.names, _rounded(model.weights), strict=True))
    values = {"features": VERSION, "intercept": _rounded(np.array([model.intercept]))[0], "weights": weights}
    return values | ({"vector": _rounded(model.vector)} if len(model.vector) else {})


def out_of_fold(made: Examples, fold: IntArray, *, progress: Progress | None = None) -> FloatArray:
    """The probability of every row by a fit on the queries of the other folds, shape (n,).

    Args:
        made: all rows.
        fold: of each query, shape (n_queries,); see `folds_of`.
        progress: called with (folds done, folds).

    Raises:
        ParameterError: without one of the folds, all rows have the same label.
    """
    probability = np.zeros(len(made.label), dtype=np.float64)
    folds = np.unique(fold)
    for done, one in enumerate(folds):
        model = Logistic.read(fit_values(made.part(fold != one)), made.names)
        rows = fold[made.query] == one
        probability[rows] = model.probabilities(made.features[rows], made.vectors[rows])
        if progress is not None:
            progress(done + 1, len(folds))
    return probability


@dataclass(frozen=True, eq=False)
class _Model:
    """A fitted regression over features and vector as they are."""

    intercept: float
    weights: FloatArray
    vector: FloatArray

    def log_loss(self, made: Examples) -> float:
        """The sum over rows of -log(probability of what is the case)."""
        odds = self.intercept + made.features @ self.weights
        if len(self.vector):
            odds = odds + made.vectors @ self.vector
        return float(np.logaddexp(0.0, np.where(made.label, -odds, odds)).sum())


def _settings(made: Examples) -> _Settings:
    """The settings with the least loss out of fold."""
    if made.what == PROBABILITY:
        return _Settings(STRENGTH, 0.0)
    choices = [_Settings(*one) for one in itertools.product(STRENGTHS, VECTOR_SCALES)]
    n_groups = len(set(made.groups))
    if n_groups < 2:
        return choices[0]
    fold = folds_of(made.groups, min(INNER_FOLDS, n_groups))
    losses = np.zeros(len(choices))
    for one in range(int(fold.max()) + 1):
        seen, unseen = made.part(fold != one), made.part(fold == one)
        if seen.label.any() and not seen.label.all():
            losses += [_fitted(seen, choice).log_loss(unseen) for choice in choices]
    return choices[int(np.argmin(losses))]


def _fitted(made: Examples, settings: _Settings) -> _Model:
    """Fit with given settings.

    Raises:
        ParameterError: all rows have the same label.
    """
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    label = made.label
    if not label.any() or label.all():
        which = "required" if made.what == PROBABILITY else "of requests that need something"
        raise ParameterError(
            f"a fit would see {len(label)} rows that are {'all' if label.any() else 'never'} {which}; "
            "use another number of folds, or label more queries"
        )
    mean, scale = made.features.mean(axis=0), made.features.std(axis=0)
    varies = scale > 1e-9
    scale = np.where(varies, scale, 1.0)
    parts = [(made.features - mean) / scale * varies]
    if settings.vector_scale > 0:
        parts.append(made.vectors * settings.vector_scale)
    found = LogisticRegression(C=settings.strength, max_iter=5000, tol=1e-6).fit(np.concatenate(parts, axis=1), label)
    weights = found.coef_[0][: len(mean)] * varies / scale
    vector = found.coef_[0][len(mean) :] * settings.vector_scale
    return _Model(float(found.intercept_[0]) - float(weights @ mean), weights, vector)


def _rounded(values: FloatArray) -> list[float]:
    """Values to `DIGITS` significant digits."""
    return [float(f"{value:.{DIGITS}g}") + 0.0 for value in values.tolist()]
