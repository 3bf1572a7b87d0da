"""Logistic regression with a prior: the most likely weights, given labels and what is believed before any is seen.

Source: Gelman et al., A weakly informative default prior distribution for logistic regression, 2008 (the idea of
scaled features with a prior each); Newton's method with halved steps, Boyd and Vandenberghe, Convex Optimization, 9.5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray
from ctxbench.core.errors import ParameterError
from ctxbench.features.labelled_requests import LABELLED
from ctxbench.features.logistic import Logistic

_STEPS = 100  # of Newton's method; it takes about ten
_ENOUGH = 1e-9  # a step that promises less is the last
_SMALLEST = 0.02  # scale of a feature that hardly varies: a rare value must not weigh hundreds


@dataclass(frozen=True, eq=False, kw_only=True)
class Prior:
    """What is believed of the weights before any label is seen.

    Attributes:
        columns: the features, in order.
        intercept: log odds where all features are 0; hardly held to.
        weights: shape (n_columns,).
        precision: how firmly the weights are believed, in units of `scale`: 1 / variance, >= 0.
        low, high: the range of each feature, beyond which a value counts as its end; shape (n_columns,).
        scale: of each feature, shape (n_columns,), > 0.
    """

    columns: tuple[str, ...]
    intercept: float
    weights: FloatArray
    precision: float
    low: FloatArray
    high: FloatArray
    scale: FloatArray

    @classmethod
    def zero(cls, columns: tuple[str, ...], features: FloatArray, weight: FloatArray, *, precision: float) -> Prior:
        """A prior of weights of 0, on the scale of the features at hand."""
        mean = np.average(features, axis=0, weights=weight)
        deviation = np.sqrt(np.average((features - mean) ** 2, axis=0, weights=weight))
        return cls(
            columns=columns,
            intercept=0.0,
            weights=np.zeros(len(columns)),
            precision=precision,
            low=features.min(axis=0),
            high=features.max(axis=0),
            scale=np.maximum(deviation, _SMALLEST),
        )

    @classmethod
    def from_fit(
        cls, earlier: Logistic, columns: tuple[str, ...], features: FloatArray, weight: FloatArray, *, precision: float
    ) -> Prior:
        """A prior of the weights of an earlier fit, and of 0 for columns that it lacks.

        Ranges are widened to the features at hand; those of shares of labelled requests are 0 to 1.
        """
        new = cls.zero(columns, features, weight, precision=precision)
        place = {name: at for at, name in enumerate(earlier.columns)}
        old = np.array([place.get(name, -1) for name in columns], dtype=np.int64)
        share = np.array([name in LABELLED for name in columns], dtype=np.bool_)
        there = old >= 0
        return replace(
            new,
            intercept=earlier.intercept,
            weights=np.where(there, earlier.weights[old], 0.0),
            low=np.where(share, 0.0, np.where(there, np.minimum(earlier.low[old], new.low), new.low)),
            high=np.where(share, 1.0, np.where(there, np.maximum(earlier.high[old], new.high), new.high)),
            scale=np.where(there, earlier.scale[old], new.scale),
        )


def fit_regression(prior: Prior, features: FloatArray, label: BoolArray, weight: FloatArray) -> Logistic:
    """The most likely weights.

    Args:
        prior: see there.
        features: shape (n, n_columns), finite.
        label: shape (n,).
        weight: how often each row counts, shape (n,), > 0.

    Raises:
        ParameterError: all rows have the same label.
    """
    if not label.any() or label.all():
        kinds = "required" if label.any() else "never required"
        raise ParameterError(
            f"a fit would see {len(label)} rows that are all {kinds}; use another number of folds, or label more "
            "queries"
        )
    rows = np.concatenate([np.ones((len(label), 1)), np.clip(features, prior.low, prior.high) / prior.scale], axis=1)
    centre = np.concatenate([[prior.intercept], prior.weights * prior.scale])
    precision = np.concatenate([[1e-3], np.full(len(prior.weights), max(prior.precision, 1e-6))])
    wanted = label.astype(np.float64)

    def loss(at: FloatArray) -> float:
        odds = rows @ at
        return float(weight @ np.logaddexp(0.0, np.where(label, -odds, odds)) + precision @ (at - centre) ** 2 / 2)

    at, now = centre, loss(centre)
    for _ in range(_STEPS):
        odds = rows @ at
        p = np.exp(-np.logaddexp(0.0, -odds))
        slope = rows.T @ (weight * (p - wanted)) + precision * (at - centre)
        curve = (rows * (weight * p * (1 - p))[:, None]).T @ rows + np.diag(precision)
        step = np.linalg.solve(curve, slope)
        if step @ slope < _ENOUGH * max(1.0, abs(now)):
            break
        share = 1.0
        while loss(at - share * step) > now - 1e-4 * share * float(step @ slope) and share > 1e-6:
            share /= 2
        at = at - share * step
        now = loss(at)
    return Logistic(
        columns=prior.columns,
        intercept=float(at[0]),
        weights=at[1:] / prior.scale,
        low=prior.low,
        high=prior.high,
        scale=prior.scale,
        vector=np.empty(0),
    )


def levelled(model: Logistic, features: FloatArray, label: BoolArray) -> Logistic:
    """The regression with the intercept at which its probabilities add up to the labels; the order of rows stays.

    A fit in which every query weighs the same is calibrated for queries with few candidates and many alike; what is
    asked of it is how many items are needed, and there every row counts once.

    Args:
        model: reads no vector.
        features: shape (n, n_columns).
        label: shape (n,), of both kinds.
    """
    odds = np.clip(features, model.low, model.high) @ model.weights + model.intercept
    low, high = -50.0, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        if np.exp(-np.logaddexp(0.0, -(odds + middle))).sum() > label.sum():
            high = middle
        else:
            low = middle
    return replace(model, intercept=model.intercept + low)
