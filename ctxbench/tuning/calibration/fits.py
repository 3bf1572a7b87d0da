"""Fits calibrations with scikit-learn, and says what fits would have said of queries that they have not seen."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.errors import ParameterError
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.stages import Resources
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.features.columns import TEXT, VERSION
from ctxbench.features.labelled_requests import LABELLED
from ctxbench.features.logistic import Logistic
from ctxbench.features.stored_fits import PROBABILITY, SHIPPED, WEIGHTS, Fit, behind, in_front, open_calibrations
from ctxbench.tuning.calibration.examples import Examples, examples, folds_of, labelled
from ctxbench.tuning.calibration.regression import Prior, fit_regression, levelled

Progress = Callable[[int, int], None]

STRENGTHS = (0.03, 0.3)  # scikit-learn's C for abstention, on features in units of their standard deviation
FIRMNESS = 100.0  # precision of the shipped weights as a prior of a team's own; of 1 to 300 the least to lose at any n
POOLED = 10.0  # of weights of nothing, where several datasets are fitted together
ROWS = 20.0  # what a query of a pooled fit counts, in rows
VECTOR_SCALES = (0.0, 2.0, 8.0)  # what a coordinate of a unit vector is worth beside a standardised feature
INNER_FOLDS = 5
DIGITS = 6  # significant ones that are kept: the last ones of a fit depend on the machine


@dataclass(frozen=True)
class _Settings:
    """How strongly a fit may follow its rows: C, and the scale of vectors (0 leaves them out)."""

    strength: float
    vector_scale: float


def fit(
    what: str,
    dataset: Dataset,
    pipeline: Pipeline,
    resources: Resources,
    *,
    split: str = "tuning",
    requests: bool = True,
) -> Fit:
    """Fit one calibration on the queries of a split. A probability is fitted around the shipped one.

    Args:
        what: `probability`, `abstention` or `weights`.
        dataset: whole.
        pipeline: what the fitted step is to stand behind, or stands in: what is in front of it counts.
        resources: as for the pipeline.
        split: whose queries are used; `all` = those of every split.
        requests: whether a fit of a probability keeps the labelled requests, with their texts, and reads what similar
            ones needed.

    Raises:
        UnknownNameError: there is no such split.
        ParameterError: no query is labelled, or all rows have the same label.
    """
    part = labelled(dataset, split)
    front = in_front(pipeline, what)
    if what == WEIGHTS:
        values = _weights(part, pipeline, resources)
    else:
        values = fit_values(examples(what, part, front, resources, columns=columns_of(requests=requests)))
    return Fit(
        what=what,
        dataset=dataset.name,
        dataset_hash=part.hash,
        catalog=dataset.catalog.hash,
        embedder=resources.identity("embedder"),
        behind=behind(pipeline, 0 if what == WEIGHTS else len(front.refine)),
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
    front, parts = in_front(pipeline, PROBABILITY), [labelled(one, split) for one in datasets]
    values = fit_pool([examples(PROBABILITY, part, front, resources, columns=TEXT) for part in parts])
    names = [one.name for one in datasets]
    return Fit(
        what=PROBABILITY,
        dataset=" + ".join(names),
        dataset_hash=hashlib.sha256("".join(part.hash for part in parts).encode()).hexdigest(),
        catalog="",
        embedder=resources.identity("embedder"),
        behind=behind(pipeline, len(front.refine)),
        split=split,
        queries=sum(map(len, parts)),
        values={**values, "datasets": names},
    )


def fit_pool(pool: Sequence[Examples]) -> dict[str, Any]:
    """The values of a fit on examples of several datasets with the same columns, each dataset weighing the same."""
    total = sum(one.n_queries for one in pool) / len(pool)
    weight = np.concatenate([_by_query(one) * (ROWS * total / max(len(np.unique(one.query)), 1)) for one in pool])
    features = np.concatenate([one.features for one in pool])
    prior = Prior.nothing(pool[0].names, features, weight, precision=POOLED)
    return _values(fit_regression(prior, features, np.concatenate([one.label for one in pool]), weight))


def fit_around(made: Examples, known: Logistic) -> dict[str, Any]:
    """The values of a fit on examples, around the weights of an earlier fit; columns that it lacks start at nothing.

    Every query weighs the same. The fewer the labels, the closer the weights stay to the earlier ones. That a similar
    request needed an item never counts against it: where hardly two labelled requests need the same item, it would seem
    to; a column of labelled requests with a weight below 0 is left out, the worst first.

    Raises:
        ParameterError: all rows have the same label.
    """
    weight = _by_query(made) * (len(made.query) / max(len(np.unique(made.query)), 1))
    columns = made.names
    while True:
        features = made.columns(columns)
        prior = Prior.around(known, columns, features, weight, precision=FIRMNESS)
        model = fit_regression(prior, features, made.label, weight)
        worth = dict(zip(columns, (model.weights * model.scale).tolist(), strict=True))
        against = min((name for name in columns if name in LABELLED), key=worth.__getitem__, default="")
        if not against or worth[against] >= 0:
            break
        columns = tuple(name for name in columns if name != against)
    model = levelled(model, features, made.label)
    if made.neighbours is None or not set(columns) & set(LABELLED):
        return _values(model)
    return {**_values(model), "requests": made.neighbours.requests.as_rows()}


def fit_alone(made: Examples, *, precision: float = 1.0) -> dict[str, Any]:
    """The values of a fit on examples with no earlier one to go by: what `fit_around` is measured against."""
    weight = _by_query(made) * (len(made.query) / max(len(np.unique(made.query)), 1))
    prior = Prior.nothing(made.names, made.features, weight, precision=precision)
    return _values(fit_regression(prior, made.features, made.label, weight))


def _by_query(made: Examples) -> FloatArray:
    """One over the number of rows of the query of each row, shape (n,)."""
    counts = np.bincount(made.query, minlength=made.n_queries)
    return 1.0 / counts[made.query]


def _values(model: Logistic) -> dict[str, Any]:
    """A regression as plain numbers, which `Logistic.read` takes."""
    table = np.stack([model.weights, model.low, model.high, model.scale], axis=1)
    columns = {name: _rounded(row) for name, row in zip(model.columns, table, strict=True)}
    values = {"features": VERSION, "intercept": _rounded(np.array([model.intercept]))[0], "columns": columns}
    return values | ({"vector": _rounded(model.vector)} if len(model.vector) else {})


def _weights(part: Dataset, pipeline: Pipeline, resources: Resources) -> dict[str, Any]:
    """Fit the weights of a fusion, normalised as the pipeline's fusion does it, if it has one."""
    from ctxbench.tuning.fusion_weights import fit_weights

    fusions: list[Any] = [step.call for step in pipeline.refine if hasattr(step.call, "normalise")]
    how = {"normalise": fusions[0].normalise, "lowest": fusions[0].lowest} if fusions else {}
    found = replace(pipeline, refine=()).run(part.batch(), resources).candidates
    return asdict(fit_weights(part, found, **how))


def fit_values(made: Examples, *, known: Logistic | None = None) -> dict[str, Any]:
    """Fit the logistic regression of abstention, or that of a probability around an earlier one.

    Features are standardised and weights held small by their squares; how small is chosen by the loss out of fold,
    together with what the vector counts beside the features.

    Args:
        made: all rows.
        known: the earlier probability; None = the shipped one. No part of abstention.

    Returns:
        `features` (their version), `intercept`, `columns` and, where it pays, `vector`: plain numbers that `Logistic`
        reads.

    Raises:
        ParameterError: all rows have the same label.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):  # matrices so narrow are slower with more, and rounded otherwise
        if made.what == PROBABILITY:
            known = known or Logistic.read(shipped_fit().values)
            return fit_around(made, known) if set(known.columns) <= set(made.names) else fit_alone(made)
        return _values(_fitted(made, _settings(made)))


def out_of_fold(
    made: Examples, fold: IntArray, *, known: Logistic | None = None, progress: Progress | None = None
) -> FloatArray:
    """The probability of every row by a fit on the queries of the other folds, shape (n,).

    Args:
        made: all rows.
        fold: of each query, shape (n_queries,); see `folds_of`.
        known: what the fits are made around; see `fit_values`.
        progress: called with (folds done, folds).

    Raises:
        ParameterError: without one of the folds, all rows have the same label.
    """
    probability = np.zeros(len(made.label), dtype=np.float64)
    folds = np.unique(fold)
    for done, one in enumerate(folds):
        model = Logistic.read(fit_values(made.part(fold != one), known=known))
        rows = fold[made.query] == one
        features = made.columns(model.columns, known=fold != one)
        probability[rows] = model.probabilities(features[rows], made.vectors[rows])
        if progress is not None:
            progress(done + 1, len(folds))
    return probability


def _log_loss(model: Logistic, made: Examples) -> float:
    """The sum over rows of -log(probability of what is the case)."""
    odds = model.intercept + np.clip(made.features, model.low, model.high) @ model.weights
    if len(model.vector):
        odds = odds + made.vectors @ model.vector
    return float(np.logaddexp(0.0, np.where(made.label, -odds, odds)).sum())


def _settings(made: Examples) -> _Settings:
    """The settings with the least loss out of fold."""
    choices = [_Settings(*one) for one in itertools.product(STRENGTHS, VECTOR_SCALES)]
    n_groups = len(set(made.groups))
    if n_groups < 2:
        return choices[0]
    fold = folds_of(made.groups, min(INNER_FOLDS, n_groups))
    losses = np.zeros(len(choices))
    for one in range(int(fold.max()) + 1):
        seen, unseen = made.part(fold != one), made.part(fold == one)
        if seen.label.any() and not seen.label.all():
            losses += [_log_loss(_fitted(seen, choice), unseen) for choice in choices]
    return choices[int(np.argmin(losses))]


def _fitted(made: Examples, settings: _Settings) -> Logistic:
    """Fit abstention with given settings.

    Raises:
        ParameterError: all rows have the same label.
    """
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    label = made.label
    if not label.any() or label.all():
        raise ParameterError(
            f"a fit would see {len(label)} rows that are {'all' if label.any() else 'never'} of requests that need "
            "something; use another number of folds, or label more queries"
        )
    mean, scale = made.features.mean(axis=0), made.features.std(axis=0)
    varies = scale > 1e-9
    scale = np.where(varies, scale, 1.0)
    parts = [(made.features - mean) / scale * varies]
    if settings.vector_scale > 0:
        parts.append(made.vectors * settings.vector_scale)
    found = LogisticRegression(C=settings.strength, max_iter=5000, tol=1e-6).fit(np.concatenate(parts, axis=1), label)
    weights = found.coef_[0][: len(mean)] * varies / scale
    return Logistic(
        columns=made.names,
        intercept=float(found.intercept_[0]) - float(weights @ mean),
        weights=weights,
        low=made.features.min(axis=0),
        high=made.features.max(axis=0),
        scale=scale,
        vector=found.coef_[0][len(mean) :] * settings.vector_scale,
    )


def _rounded(values: FloatArray) -> list[float]:
    """Values to `DIGITS` significant digits."""
    return [float(f"{value:.{DIGITS}g}") + 0.0 for value in values.tolist()]
