"""Calibrated strategies: probabilities fitted on labelled queries, cuts by them, and offering nothing at all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ctxbench.arrays import FloatArray
from ctxbench.calibrations import ABSTENTION, PROBABILITY, Calibrations, Fit, read_calibrations
from ctxbench.candidates import Candidates, Origin, place_among
from ctxbench.errors import ParameterError
from ctxbench.index.features import (
    REQUEST,
    RETRIEVED,
    ROW,
    VERSION,
    found_rows,
    request_features,
    request_vectors,
    row_features,
)
from ctxbench.items import Catalog
from ctxbench.query import Query
from ctxbench.stages import Resources


@dataclass(frozen=True)
class _FromFile:
    """A step that reads a fit of its kind for the catalog."""

    calibration: str
    uses: ClassVar[tuple[str, ...]] = ("embedder",)
    calibrated: ClassVar[str]
    features: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        _check_holds(self.calibrations, self.calibrated)

    @cached_property
    def calibrations(self) -> Calibrations:
        """The fits of the file, read once."""
        return read_calibrations(Path(self.calibration))

    @property
    def content(self) -> str:
        """SHA-256 of the file."""
        return self.calibrations.content

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Refuse a catalog or an embedder that the file has no fit for.

        Raises:
            ParameterError: it has none.
        """
        self._model(catalog, resources)

    def _model(self, catalog: Catalog, resources: Resources) -> Logistic:
        return Logistic.of(self.calibrations.fit(self.calibrated, catalog, resources), self.features)


@dataclass(frozen=True)
class Probability(_FromFile):
    """Score by the probability that an item is required, calibrated on labelled queries.

    Attributes:
        calibration: a file made by `ctxbench calibrate probability`, with a fit for the catalog.

    A logistic regression over features of candidate and request (score, margin, BM25, shared words, slots of a tool;
    `ctxbench.index.features`); `chunk_rank` becomes the place in the new order. The score of retrieval stays in the
    column `retrieved.score`, which is what a fitted step behind this one reads. Session items and what an expansion
    brought in stay as they are. Empty in, empty out. Cost: one look-up in an index of words a word of the request,
    and a sum over some 30 features a candidate. Source: Platt, Probabilistic outputs for support vector machines,
    1999 (the idea); features of our own.
    """

    calibrated: ClassVar[str] = PROBABILITY
    features: ClassVar[tuple[str, ...]] = ROW
    keeps_score: ClassVar[bool] = True

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Put the probability in the place of the score."""
        probability, retrieved = np.full((2, len(candidates)), np.nan)
        rows, score = found_rows(candidates)
        retrieved[rows] = score
        table = candidates.with_columns(**{RETRIEVED: retrieved})
        if not len(rows):
            return table
        model = self._model(query.batch.catalog, resources)
        rows, features = row_features(query, candidates, resources)
        probability[rows] = model.probabilities(features)
        table = table.reordered(score=np.where(table.origin == Origin.SEARCH, probability, table.score))
        among = place_among(table, table.origin == Origin.SEARCH)
        return table.reordered(chunk_rank=np.where(among >= 0, among, table.chunk_rank))


@dataclass(frozen=True)
class AtLeast:
    """Offer the items whose score, or probability behind `probability`, is at least a threshold.

    Attributes:
        threshold: smallest score that is offered, 0 to 1.
        at_least: that many of the best items are offered even below the threshold, >= 0.
        at_most: no more than that many are offered, >= `at_least`; None = no limit.

    What is offered is a prefix of the ranking. Empty in, empty out. Cost: one comparison a candidate. Source: the
    probability ranking principle (Robertson, 1977): with a calibrated probability, the threshold is the price of an
    item that is not needed relative to one that is missed.
    """

    threshold: float = 0.5
    at_least: int = 0
    at_most: int | None = None

    def __post_init__(self) -> None:
        _check_share("threshold", self.threshold)
        if self.at_least < 0:
            raise ParameterError(f"at_least must be 0 or more, got {self.at_least}")
        if self.at_most is not None and self.at_most < self.at_least:
            raise ParameterError(f"at_most must be at_least or more, which is {self.at_least}, got {self.at_most}")

    @property
    def reach(self) -> int:
        """How many of the best items decide; 0 = all that there are."""
        return self.at_most or 0

    @property
    def thresholds(self) -> dict[str, dict[str, float]]:
        """The lowest score that is offered."""
        return {"score": {"threshold": self.threshold}}

    @property
    def floor(self) -> int:
        """How many items are offered whatever they score."""
        return self.at_least

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark what is below the threshold, and what is beyond `at_most`."""
        alive = candidates.chosen & (candidates.origin == Origin.SEARCH)
        place = place_among(candidates, alive)
        low = alive & (candidates.score < self.threshold) & (place >= self.at_least)
        table = candidates.marked(low, f"its score is below threshold={self.threshold:g}")
        if self.at_most is None:
            return table
        return table.marked(alive & ~low & (place >= self.at_most), f"beyond the first at_most={self.at_most}")


@dataclass(frozen=True)
class Abstain(_FromFile):
    """Offer nothing where the probability that anything is needed, calibrated on labelled queries, is too low.

    Attributes:
        calibration: a file made by `ctxbench calibrate abstention`, with a fit for the catalog.
        threshold: probability below which nothing that was found is offered, 0 to 1; 0 never abstains.

    A logistic regression over the features of the best candidate, the largest of some over all candidates, and the
    request's mean vector. It looks at everything that the search found, whatever earlier cuts left of it, and never
    at how many items a request may get. What the session holds stays, and so does what an expansion brings in behind
    this step. A request for which nothing was found is left as it is. Empty in, empty out. Cost: as `probability`,
    and the vectors of the request's chunks. Source: query performance prediction (Carmel and Yom-Tov, Estimating the
    Query Difficulty for Information Retrieval, 2010); features of our own.
    """

    threshold: float = 0.5
    calibrated: ClassVar[str] = ABSTENTION
    features: ClassVar[tuple[str, ...]] = REQUEST

    def __post_init__(self) -> None:
        _check_share("threshold", self.threshold)
        super().__post_init__()

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark all that was found for the requests that seem to need nothing."""
        requests, features = request_features(query, candidates, resources)
        if not len(requests):
            return candidates
        model = self._model(query.batch.catalog, resources)
        needed = np.ones(candidates.n_requests, dtype=np.float64)
        needed[requests] = model.probabilities(features, request_vectors(query, requests, resources))
        silent = needed < self.threshold
        shown = np.round(needed, 2)  # a rule for every two digits, not for every request
        table = candidates
        for value in np.unique(shown[silent]).tolist():
            rows = (silent & (shown == value))[candidates.request]
            rule = f"that anything is needed has a probability of {value:.2f}, below threshold={self.threshold:g}"
            table = table.marked(rows, rule)
        return table


@dataclass(frozen=True, eq=False)
class Logistic:
    """A logistic regression, as plain numbers.

    Attributes:
        intercept: log odds where all features are 0.
        weights: shape (n_features,).
        vector: weights of a vector, shape (n_dimensions,); empty = takes none.
    """

    intercept: float
    weights: FloatArray
    vector: FloatArray

    @classmethod
    def of(cls, fit: Fit, features: Sequence[str]) -> Logistic:
        """Read the values of a fit.

        Raises:
            ParameterError: they are no such values, or those of features that are defined otherwise here.
        """
        try:
            return cls.read(fit.values, features)
        except ParameterError as error:
            raise ParameterError(f"fit of {fit}: {error}; fit again with `ctxbench calibrate {fit.what}`") from error

    @classmethod
    def read(cls, values: Mapping[str, Any], features: Sequence[str]) -> Logistic:
        """Read `features` (their version), `intercept`, `weights` by feature, and `vector`, which may be missing.

        Raises:
            ParameterError: they are no such values, or those of features that are defined otherwise here.
        """
        if values.get("features") != VERSION:
            raise ParameterError(f"its features are of version {values.get('features')!r}, and this is {VERSION}")
        weights, vector = values.get("weights"), values.get("vector", [])
        if not isinstance(weights, Mapping) or not set(weights) <= set(features) or not isinstance(vector, list):
            raise ParameterError(f"expected `vector` as a list, and `weights` by feature, of {', '.join(features)}")
        numbers = [values.get("intercept"), *weights.values(), *vector]
        if not all(type(number) in (int, float) and math.isfinite(number) for number in numbers):
            raise ParameterError("a weight or the intercept is no finite number")
        own = np.array([weights.get(name, 0.0) for name in features], dtype=np.float64)
        return cls(float(values["intercept"]), own, np.array(vector, dtype=np.float64))

    def probabilities(self, features: FloatArray, vectors: FloatArray | None = None) -> FloatArray:
        """The probability of each row, shape (n,); the same bits whatever stands around it.

        Args:
            features: shape (n, n_features).
            vectors: shape (n, n_dimensions), where there are weights for them.
        """
        odds = self.intercept + np.add.reduce(features * self.weights, axis=1)
        if len(self.vector) and vectors is not None and vectors.shape[1]:
            odds = odds + np.add.reduce(vectors * self.vector, axis=1)
        return np.array([_logistic(value) for value in odds.tolist()], dtype=np.float64)


def _logistic(value: float) -> float:
    """1 / (1 + exp(-value)), without overflow."""
    return 1.0 / (1.0 + math.exp(-value)) if value >= 0 else math.exp(value) / (1.0 + math.exp(value))


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ParameterError(f"{name} must be 0 to 1, got {value}")


def _check_holds(calibrations: Calibrations, what: str) -> None:
    """Refuse a file without any fit of a kind."""
    if what not in calibrations.kinds():
        held = " and ".join(calibrations.kinds()) or "nothing"
        raise ParameterError(
            f"{calibrations.path} holds fits of {held}, none of {what}; make one with `ctxbench calibrate {what}`"
        )
