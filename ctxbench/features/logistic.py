"""A logistic regression over named columns, as plain numbers: what a fit holds, and what it says of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import ParameterError
from ctxbench.features.columns import VERSION
from ctxbench.features.labelled_requests import LABELLED, LabelledRequests


@dataclass(frozen=True, eq=False, kw_only=True)
class Logistic:
    """A logistic regression.

    Attributes:
        columns: the features that it reads, in order.
        intercept: log odds where all features are 0.
        weights: shape (n_columns,).
        low, high: the range that each feature had in the fit, shape (n_columns,); values beyond count as its end.
        scale: what a step of each feature was in the fit, shape (n_columns,), > 0.
        vector: weights of a vector, shape (n_dimensions,); empty = takes none.
        labelled: the labelled requests that the columns `labelled.*` are about; None = it reads no such column.
    """

    columns: tuple[str, ...]
    intercept: float
    weights: FloatArray
    low: FloatArray
    high: FloatArray
    scale: FloatArray
    vector: FloatArray
    labelled: LabelledRequests | None = None

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Logistic:
        """Read the values of a fit.

        Args:
            values: `features` (their version), `intercept`, `columns` (by name: weight, low, high, scale), and, which
                may be missing, `vector` and `requests` (the labelled ones).

        Raises:
            ParameterError: they are no such values, or those of features that are defined otherwise here.
        """
        if values.get("features") != VERSION:
            raise ParameterError(f"its features are of version {values.get('features')!r}, and this is {VERSION}")
        columns, vector = values.get("columns"), values.get("vector", [])
        if not isinstance(columns, Mapping) or not columns or not isinstance(vector, list):
            raise ParameterError("expected `columns`, by name [weight, low, high, scale], and `vector` as a list")
        for name, row in columns.items():
            good = isinstance(row, list) and len(row) == 4 and all(map(_finite, row))
            if not (good and row[1] <= row[2] and row[3] > 0):
                raise ParameterError(
                    f"column {name}: expected four finite numbers, weight, low <= high, and a scale > 0"
                )
        if not all(map(_finite, [values.get("intercept"), *vector])):
            raise ParameterError("the intercept or a weight of the vector is no finite number")
        labelled = LabelledRequests.read(values["requests"]) if "requests" in values else None
        if labelled is None and set(LABELLED) & set(columns):
            raise ParameterError("it reads what labelled requests needed, and holds no `requests`")
        weights, low, high, scale = np.array(list(columns.values()), dtype=np.float64).T
        return cls(
            columns=tuple(columns),
            intercept=float(values["intercept"]),
            weights=weights,
            low=low,
            high=high,
            scale=scale,
            vector=np.array(vector, dtype=np.float64),
            labelled=labelled,
        )

    def outside(self, features: FloatArray) -> np.ndarray:
        """Whether a row has a feature more than a tenth of the fitted range beyond it, shape (n,)."""
        slack = np.maximum((self.high - self.low) * 0.1, 1e-9)
        beyond = (features < self.low - slack) | (features > self.high + slack)
        return np.asarray(beyond.any(axis=1))

    def probabilities(self, features: FloatArray, vectors: FloatArray | None = None) -> FloatArray:
        """The probability of each row, shape (n,); the same bits whatever stands around it.

        Args:
            features: shape (n, n_columns).
            vectors: shape (n, n_dimensions), where there are weights for them.
        """
        odds = self.intercept + _row_sums(np.clip(features, self.low, self.high) * self.weights)
        if len(self.vector) and vectors is not None and vectors.shape[1]:
            odds = odds + _row_sums(vectors * self.vector)
        return np.array([_logistic(value) for value in odds.tolist()], dtype=np.float64)


def _row_sums(products: FloatArray) -> FloatArray:
    """The sum of every row, shape (n,): by rows in memory, since the order of additions follows the layout."""
    return np.asarray(np.add.reduce(np.ascontiguousarray(products), axis=1))


def _finite(number: object) -> bool:
    return type(number) in (int, float) and math.isfinite(number)  # type: ignore[arg-type]


def _logistic(value: float) -> float:
    """1 / (1 + exp(-value)), without overflow."""
    return 1.0 / (1.0 + math.exp(-value)) if value >= 0 else math.exp(value) / (1.0 + math.exp(value))
