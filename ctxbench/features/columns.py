"""Columns by name: what there is, how they come into a table of candidates, and a logistic regression over them.

A feature is a column `family.name`. Families are registered strategies of the kind `feature`; a package outside adds
its own by an entry point, and a fit reads them by name like ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from ctxbench.core import registry
from ctxbench.core.arrays import FloatArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import ParameterError, UnknownNameError
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.features.found import LABELLED, FeatureInput, LabelledRequests

VERSION = 4
"""Of the definitions of all shipped features; a fit of another one is refused."""

TEXT = (
    *("similarity.score", "similarity.margin", "similarity.rank"),
    *("words.bm25", "words.bm25_share"),
    *("words.query_in_name", "words.query_in_description", "words.query_in_body", "words.query_in_item"),
    *("words.name_in_query", "words.description_in_query", "words.body_in_query"),
    *("sentence.margin", "sentence.rank", "sentence.bm25_share", "sentence.bm25_rank", "sentence.fusion"),
)
"""How an item's text matches a request; these carry over to catalogs that a fit has not seen."""


class FeatureFamily(Protocol):
    """Features that are made together.

    Attributes:
        columns: their names, without that of the family.
        uses: the resources whose identity decides them.
    """

    columns: ClassVar[tuple[str, ...]]
    uses: ClassVar[tuple[str, ...]]

    def __call__(self, inputs: FeatureInput) -> FloatArray:
        """The columns of the rows found, shape (n_found, n_columns), finite; the same whatever else is in the batch."""
        ...


def family(name: str) -> FeatureFamily:
    """A family by its name.

    Raises:
        UnknownNameError: there is none.
    """
    built: FeatureFamily = registry.build("feature", name, {})
    return built


def column_names() -> tuple[str, ...]:
    """The names of all columns that there are, those of plugins included."""
    return tuple(f"{name}.{column}" for name in registry.names("feature") for column in family(name).columns)


def families_of(columns: Sequence[str]) -> dict[str, FeatureFamily]:
    """The families of some columns, by name.

    Raises:
        UnknownNameError: a column is unknown; names the closest.
    """
    families: dict[str, FeatureFamily] = {}
    for column in columns:
        name, _, feature = column.partition(".")
        if name not in families:
            try:
                families[name] = family(name)
            except UnknownNameError as error:
                raise UnknownNameError("feature", column, column_names()) from error
        if feature not in families[name].columns:
            raise UnknownNameError("feature", column, column_names())
    return families


def resources_of(columns: Sequence[str]) -> tuple[str, ...]:
    """The resources whose identity decides some columns."""
    return tuple(dict.fromkeys(use for family_ in families_of(columns).values() for use in family_.uses))


def with_features(
    table: Candidates,
    columns: Sequence[str],
    query: Query,
    resources: Resources,
    *,
    expanded: bool = True,
    labelled: LabelledRequests | None = None,
) -> Candidates:
    """Add the columns that the table lacks, and their values where it lacks those; NaN for rows of the session.

    Columns of what labelled requests needed are always made anew: those of another fit would be of other requests.

    Raises:
        UnknownNameError: a column is unknown.
        ParameterError: a column says what labelled requests needed, and none are given.
    """
    inputs = FeatureInput.of(query, table, resources, expanded=expanded, labelled=labelled)
    present = {
        column: table.columns[column] for column in columns if column in table.columns and column not in LABELLED
    }
    missing = [column for column in columns if column not in present or np.isnan(present[column][inputs.rows]).any()]
    added: dict[str, FloatArray] = {}
    for name, made_family in families_of(missing).items():
        for feature, values in zip(made_family.columns, made_family(inputs).T, strict=True):
            if f"{name}.{feature}" in missing:
                column = np.full(len(table), np.nan)
                column[inputs.rows] = values
                before = present.get(f"{name}.{feature}", column)
                added[f"{name}.{feature}"] = np.where(np.isnan(before), column, before)
    return table.with_columns(**added) if added else table


def feature_rows(
    table: Candidates,
    columns: Sequence[str],
    query: Query,
    resources: Resources,
    *,
    expanded: bool = True,
    labelled: LabelledRequests | None = None,
) -> tuple[FeatureInput, FloatArray]:
    """The rows that features are made of, and the values of some columns there, shape (n_found, n_columns).

    With `expanded` false, what an expansion brought in and no rank step has ordered since is left out. `labelled` are
    the labelled requests of the fit that reads the columns.
    """
    table = with_features(table, columns, query, resources, expanded=expanded, labelled=labelled)
    inputs = FeatureInput.of(query, table, resources, expanded=expanded)
    return inputs, column_values(table, columns, inputs)


def column_values(table: Candidates, columns: Sequence[str], inputs: FeatureInput) -> FloatArray:
    """The values of some columns of a table in the rows found, shape (n_found, n_columns)."""
    if not columns:
        return np.zeros((len(inputs), 0))
    return np.stack([table.columns[column][inputs.rows] for column in columns], axis=1)


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
            numbers = isinstance(row, list) and len(row) == 4 and all(map(_finite, row))
            if not (numbers and row[1] <= row[2] and row[3] > 0):
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
