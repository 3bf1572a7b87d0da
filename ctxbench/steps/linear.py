"""Rank by a weighted sum of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ctxbench.core.arrays import FloatArray
from ctxbench.core.candidates import Candidates, rescored
from ctxbench.core.errors import ParameterError, number_within
from ctxbench.core.items import Catalog
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.features.columns import VERSION, column_values, families_of, resources_of, with_features
from ctxbench.features.found import LABELLED, RETRIEVED, FeatureInput
from ctxbench.features.stored_fits import LINEAR, FittedWeights

PLAIN = {"similarity.score": 1.0}
MOST = 1e100
"""No weight is larger than this, either way, so that no sum overflows."""


@dataclass(frozen=True)
class Linear(FittedWeights):
    """Score by a weighted sum of columns: of how well a text fits, how old an item is, how sure, and others.

    Attributes:
        weights: by column, `family.name` (`ctxbench/features`); any finite number, not all 0. Without any,
            `similarity.score` alone.
        calibration: a file made by `ctxbench calibrate weights`, in place of `weights`. Of several fits in it that for
            the catalog counts; the only fit of another catalog is used too, with a notice, since a catalog may grow.

    Columns that no step before has made are made here, but for those of weight 0. They are added up as they are: a
    weight says what a column's unit is worth. `chunk_rank` becomes the place in the new order, and the score of
    retrieval stays in the column `retrieved.score`. Session items stay as they are. Empty in, empty out. Cost: that of
    the columns, a sum and a sort. Source: linear feature-based models (Metzler and Croft, Information Retrieval, 2007).
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    calibration: str | None = None
    fitted: ClassVar[str] = LINEAR
    keeps_score: ClassVar[bool] = True
    orders: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_source()
        if self.calibration is None:
            object.__setattr__(self, "weights", checked_weights(self.weights or PLAIN))

    @property
    def uses(self) -> tuple[str, ...]:
        """The resources whose identity decides the columns; a fit also belongs to an embedder."""
        if self.calibration is None:
            return resources_of([name for name, weight in self.weights.items() if weight])
        fits = [fit.values.get("weights", {}) for fit in self.calibrations.fits if fit.what == LINEAR]
        return tuple(dict.fromkeys(["embedder", *resources_of([name for weights in fits for name in weights])]))

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Check that the file has a fit for the catalog, with weights.

        Raises:
            ParameterError: it is such.
        """
        self.weights_for(catalog)

    def notices(self, catalog: Catalog, resources: Resources) -> Iterator[str]:
        """What a user should know of using the fit here."""
        if self.calibration is None:
            return
        fit, embedder = self.calibrations.fit(LINEAR, catalog), resources.identity("embedder")
        if fit.embedder != embedder:
            yield f"the fit of {fit.dataset} was made with the embedder {fit.embedder}, and this is {embedder}"
        if fit.catalog and fit.catalog != catalog.hash:
            yield f"the fit of {fit.dataset} was made over another catalog ({fit.catalog[:12]}); fit again to be sure"

    def weights_for(self, catalog: Catalog) -> dict[str, float]:
        """The weights by column: those given, or those of the file's fit for a catalog.

        Raises:
            ParameterError: there is no such fit, or it holds no weights of columns as they are defined here.
        """
        if self.calibration is None:
            return dict(self.weights)
        fit = self.calibrations.fit(LINEAR, catalog)
        try:
            return read_weights(fit.values)
        except ParameterError as error:
            command = self.calibrations.command(LINEAR)
            raise ParameterError(f"{self.calibration}: fit of {fit}: {error}; fit again with {command}") from error

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Put the sum in the place of the score."""
        weights = {name: weight for name, weight in self.weights_for(query.batch.catalog).items() if weight}
        columns = tuple(weights)
        table = with_features(candidates, columns, query, resources)
        hits = FeatureInput.of(query, table, resources)
        score, retrieved = np.full((2, len(table)), np.nan)
        retrieved[hits.rows] = hits.score
        score[hits.rows] = linear_scores(column_values(table, columns, hits), np.array(list(weights.values())))
        return rescored(table.with_columns(**{RETRIEVED: retrieved}), score)


def read_weights(values: Mapping[str, Any]) -> dict[str, float]:
    """The weights by column in the values of a fit: `features`, their version, and `weights`.

    Raises:
        ParameterError, UnknownNameError: they are none, or of features that are defined otherwise here.
    """
    if values.get("features") != VERSION:
        raise ParameterError(f"its features are of version {values.get('features')!r}, and this is {VERSION}")
    return checked_weights(values.get("weights"))


def checked_weights(weights: Any) -> dict[str, float]:
    """Weights by column, as numbers.

    Raises:
        ParameterError: there are none, all are 0, one is no finite number, or a column is made of labelled requests.
        UnknownNameError: a column is unknown; names the closest.
    """
    if not isinstance(weights, Mapping) or not weights:
        raise ParameterError("weights must name one or more columns, such as similarity.score: 1")
    numbers = {str(name): number_within(f"weights: {name}", value, -MOST, MOST) for name, value in weights.items()}
    if not any(numbers.values()):
        raise ParameterError("weights must not all be 0")
    families_of(tuple(numbers))
    if labelled := sorted(set(LABELLED) & set(numbers)):
        named = f"weights name {' and '.join(labelled)}, which say what labelled requests needed"
        raise ParameterError(f"{named}; only the step `probability` has such requests")
    return numbers


def linear_scores(values: FloatArray, weights: FloatArray) -> FloatArray:
    """The weighted sum of every row, added in the order of the columns: the same bits whatever the other rows are.

    Args:
        values: shape (n, n_columns).
        weights: shape (n_columns,).

    Returns:
        Shape (n,); zeros without columns.
    """
    total = np.zeros(len(values), dtype=np.float64)
    for column, weight in zip(values.T, weights.tolist(), strict=True):
        total += column * weight
    return total
