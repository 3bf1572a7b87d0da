"""Rank and cut by fitted probabilities and token counts, and abstain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ctxbench.io.errors import ParameterError, check_range
from ctxbench.model.candidates import Candidates, Rule, place_among, reranked
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Query
from ctxbench.model.resources import Resources
from ctxbench.model.strategies import Strategy
from ctxbench.pipelines.feature_families import REQUEST, request_features, request_vectors
from ctxbench.pipelines.features import (
    LABELLED,
    RETRIEVED,
    TEXT,
    FeatureInput,
    Logistic,
    column_values,
    families_of,
    resources_of,
    with_features,
)
from ctxbench.pipelines.fits import ABSTENTION, PROBABILITY, SHIPPED, Calibrations, Fit, FittedStep, fit_differences


@dataclass(frozen=True)
class Probability(FittedStep):
    """Score by the probability that an item is required, as a fit on labelled queries has it.

    Attributes:
        calibration: `shipped`, the fit that comes with ctxbench and needs no labels of yours; or a file made by
            `ctxbench calibrate probability`. Of several fits in it that for the catalog counts.

    A logistic regression over the columns that the fit names (`ctxbench/pipelines`); those that no step before has made
    are made here, such as what similar labelled requests needed, which a fit to your labels holds. Values beyond what
    the fit has seen count as its ends. `chunk_rank` becomes the place in the new order, and the score of retrieval
    stays in the column `retrieved.score`. A catalog or an embedder that the fit has not seen is no error: `notices`
    says so. Session items and what an expansion added stay unchanged. Empty in, empty out. Cost: a sum over some
    20 columns a candidate, and a product of the request's vector with those of the labelled ones. Source: Platt,
    Probabilistic outputs for support vector machines, 1999 (the idea); the features are ours.
    """

    calibration: str = SHIPPED
    calibrated: ClassVar[str] = PROBABILITY
    keeps_score: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_holds(self.calibrations, self.calibrated)

    @property
    def uses(self) -> tuple[str, ...]:
        """The resources whose identity decides the columns of the file's fits."""
        columns = [name for fit in self.calibrations.fits for name in fit.values.get("columns", {})]
        plain_columns = [name for name in columns if not name.startswith(("best.", "most.", "least."))]
        return tuple(dict.fromkeys(["embedder", *resources_of(plain_columns)]))

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Check that the file has a fit for the catalog, with known columns.

        Raises:
            ParameterError: it is such.
        """
        families_of(self.model(catalog, resources).columns)

    def notices(self, catalog: Catalog, resources: Resources) -> Iterator[str]:
        """What a user should know of using the fit here."""
        fit = self.calibrations.fit(self.calibrated, catalog)
        embedder = resources.identity("embedder")
        yield from fit_differences(fit, self.calibrations.command(self.calibrated), catalog, embedder)

    def model(self, catalog: Catalog, resources: Resources) -> Logistic:
        """The regression for a catalog."""
        return _model(self.calibrations, self.calibrations.fit(self.calibrated, catalog))

    def outside(self, table: Candidates, catalog: Catalog, resources: Resources) -> float:
        """The share of the chosen items with a feature far beyond the values that the fit has seen; 0 without any.

        Only features that are columns of the table count.
        """
        model = self.model(catalog, resources)
        chosen = np.flatnonzero(table.chosen & table.ranked)
        if not len(chosen):
            return 0.0
        unknown = np.full(len(table), np.nan)
        features = np.stack([table.columns.get(name, unknown)[chosen] for name in model.columns], axis=1)
        return float(model.outside(features).mean())

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Put the probability in the place of the score."""
        model = self.model(query.batch.catalog, resources)
        table = with_features(candidates, model.columns, query, resources, labelled=model.labelled)
        hits = FeatureInput.of(query, table, resources)
        probability, retrieved = np.full((2, len(table)), np.nan)
        retrieved[hits.rows] = hits.score
        probability[hits.rows] = model.probabilities(column_values(table, model.columns, hits))
        columns = {name: table.columns[name] for name in LABELLED if name in model.columns}
        return reranked(candidates.with_columns(**columns, **{RETRIEVED: retrieved}), probability)


def _model(calibrations: Calibrations, fit: Fit) -> Logistic:
    """The regression of a fit in a file.

    Raises:
        ParameterError: its values are none, or of features that are defined otherwise here.
    """
    try:
        return Logistic.read(fit.values)
    except ParameterError as error:
        raise ParameterError(
            f"{calibrations.path}: fit of {fit}: {error}; fit again with {calibrations.command(fit.kind)}"
        ) from error


@dataclass(frozen=True)
class AtLeast(Strategy):
    """Offer the items whose score, or probability behind `probability`, is at least a threshold.

    Attributes:
        threshold: smallest score that is offered, 0 to 1.
        at_least: that many of the best items are offered even below the threshold, >= 0.
        at_most: no more than that many are offered, >= `at_least`; None = no limit.

    What is offered is a prefix of the ranking. Empty in, empty out. Cost: one comparison per candidate. Source: the
    probability ranking principle (Robertson, 1977): with a calibrated probability, the threshold is the price of an
    item that is not needed relative to one that is missed.
    """

    threshold: float = 0.5
    at_least: int = 0
    at_most: int | None = None
    replay: ClassVar[str] = "rank"
    rule_words: ClassVar[Mapping[str, str]] = {
        "threshold": "its score is below threshold={threshold:g}",
        "first_at_most": "beyond the first at_most={at_most}",
    }

    def __post_init__(self) -> None:
        check_range("threshold", self.threshold, 0, 1)
        check_range("at_least", self.at_least, 0)
        if self.at_most is not None and self.at_most < self.at_least:
            raise ParameterError(f"at_most must be at_least or more, which is {self.at_least}, got {self.at_most}")

    @property
    def reach(self) -> int:
        """How many of the best items decide; 0 = all that exist."""
        return self.at_most or 0

    @property
    def thresholds(self) -> dict[str, dict[str, float]]:
        """The lowest score that is offered."""
        return {"score": {"threshold": self.threshold}}

    @property
    def floor(self) -> int:
        """How many items are offered whatever they score."""
        return self.at_least

    @classmethod
    def family(cls, written: Mapping[str, Any], reader: Any) -> Any:
        """Every threshold, with each at_least and at_most."""
        return reader.threshold(
            written.get("threshold", cls.threshold),
            at_least=written.get("at_least", cls.at_least),
            at_most=written.get("at_most"),
        )

    def wider(self, *, rank: int, score: float, best: float) -> Mapping[str, float]:
        """A lower threshold, and a larger at_most."""
        values = {"at_most": rank} if self.at_most is not None and rank > self.at_most else {}
        if score < self.threshold and rank > self.at_least:
            return {"threshold": round(int(score * 1000) / 1000 - (0.001 if score < 0 else 0), 3), **values}
        return values

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude what is below the threshold, and what is beyond `at_most`."""
        alive = candidates.chosen & candidates.ranked
        rank = place_among(candidates, alive)
        low = alive & (candidates.score < self.threshold) & (rank >= self.at_least)
        table = candidates.exclude(low, Rule.of("threshold", threshold=self.threshold))
        if self.at_most is None:
            return table
        return table.exclude(alive & ~low & (rank >= self.at_most), Rule.of("first_at_most", at_most=self.at_most))


@dataclass(frozen=True)
class Abstain(FittedStep):
    """Offer nothing where the probability that anything is needed, calibrated on labelled queries, is too low.

    Attributes:
        calibration: a file made by `ctxbench calibrate abstention`, with a fit for the catalog.
        threshold: probability below which nothing that was found is offered, 0 to 1; 0 never abstains.

    A logistic regression over the features of the best candidate, the largest of some over all candidates, and the
    request's mean vector. It looks at everything that the search found, whatever earlier cuts left of it, and never
    at how many items a request may get. What the session holds stays, and so does what an expansion adds behind
    this step. A request for which nothing was found is unchanged. Empty in, empty out. Cost: as `probability`,
    and the vectors of the request's chunks. Source: query performance prediction (Carmel and Yom-Tov, Estimating the
    Query Difficulty for Information Retrieval, 2010); the features are ours.
    """

    calibration: str
    threshold: float = 0.5
    calibrated: ClassVar[str] = ABSTENTION
    itemwise: ClassVar[bool] = True
    rule_words: ClassVar[Mapping[str, str]] = {
        "abstain": "that anything is needed has a probability of {probability:.2f}, below threshold={threshold:g}"
    }
    uses: ClassVar[tuple[str, ...]] = ("embedder",)

    def __post_init__(self) -> None:
        check_range("threshold", self.threshold, 0, 1)
        _check_holds(self.calibrations, self.calibrated)

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Check that the file has a fit for the catalog and the embedder.

        Raises:
            ParameterError: it has none.
        """
        self.model(catalog, resources)

    def model(self, catalog: Catalog, resources: Resources) -> Logistic:
        """The regression for a catalog."""
        model = _model(self.calibrations, self.calibrations.exact_fit(self.calibrated, catalog, resources))
        if unknown := sorted(set(model.columns) - set(REQUEST)):
            raise ParameterError(f"{self.calibrations.path}: abstention knows no feature {', '.join(unknown)}")
        return model

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude all that was found for the requests that seem to need nothing."""
        requests, features = request_features(query, candidates, resources)
        if not len(requests):
            return candidates
        model = self.model(query.batch.catalog, resources)
        features = features[:, [REQUEST.index(name) for name in model.columns]]
        probability = np.ones(candidates.n_requests, dtype=np.float64)
        probability[requests] = model.probabilities(features, request_vectors(query, requests, resources))
        silent = probability < self.threshold
        rounded = np.round(probability, 2)  # a rule for every two digits, not for every request
        table = candidates
        for value in np.unique(rounded[silent]).tolist():
            rows = (silent & (rounded == value))[candidates.request]
            table = table.exclude(rows, Rule.of("abstain", probability=value, threshold=self.threshold))
        return table


def _check_holds(calibrations: Calibrations, kind: str) -> None:
    """Check that the file has a fit of a kind."""
    if kind not in calibrations.kinds():
        kinds = " and ".join(calibrations.kinds()) or "nothing"
        raise ParameterError(
            f"{calibrations.path} holds fits of {kinds}, none of {kind}; make one with {calibrations.command(kind)}"
        )


PROBABILITY_COLUMN = "probability.score"
"""Column: the probability that the price was made of."""

_LEAST = 1e-15  # probabilities nearer to 0 or 1 count as this near


@dataclass(frozen=True)
class Price(Strategy):
    """Order by log odds of being required minus log tokens: log(p / (1 - p)) - log(tokens + overhead).

    Attributes:
        overhead: tokens that any item costs beside its own, >= 1.

    Comes behind `probability`, whose score stays in the column `probability.score`; a score outside 0 to 1 is an
    error. `chunk_rank` becomes the place in the new order. Session items stay unchanged. Empty in, empty out. Cost:
    one logarithm a candidate. Source: ours; the density order of the greedy knapsack (Dantzig, 1957) on the log scale.
    """

    overhead: int = 50
    uses: ClassVar[tuple[str, ...]] = ("tokens",)
    includes_tokens: ClassVar[bool] = True
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"overhead": (1, math.inf)}

    def score_at(self, score: float, before: int, after: int) -> float:
        """The score with the logarithm of the new tokens."""
        return score - (math.log(after + self.overhead) - math.log(before + self.overhead))

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Replace the score by this value.

        Raises:
            ParameterError: a score is no probability.
        """
        searched = candidates.tier > 0
        probability = np.where(searched, candidates.score, np.nan)
        wrong = np.flatnonzero(searched & ~((probability >= 0) & (probability <= 1)))
        if len(wrong):
            raise ParameterError(
                f"price needs a probability as score, got {probability[wrong[0]]:g}; put `probability` in front of it"
            )
        table = candidates.with_columns(**{PROBABILITY_COLUMN: probability})
        cost = candidates.prices(resources.tokens(query.batch.catalog, candidates.item[searched]))
        score = np.zeros(len(candidates), dtype=np.float64)
        for row in np.flatnonzero(searched).tolist():  # one by one: vectorised logarithms differ in the last bit
            p = min(max(float(probability[row]), _LEAST), 1.0 - _LEAST)
            score[row] = math.log(p) - math.log1p(-p) - math.log(int(cost[row]) + self.overhead)
        return reranked(table, score)


@dataclass(frozen=True)
class Features(Strategy):
    """Add columns of features to what was found or added; scores and order stay.

    Attributes:
        columns: their names, `family.name`; by default those that carry over to unseen catalogs.

    A value that is there already is kept. Rows of the session have none. Empty in, empty out. Cost: some 0.4
    ms per request with 100 candidates: a product of sentences and item chunks, and a look-up per word. Source: ours
    (`ctxbench/pipelines`), after the features of learning to rank (Qin et al., LETOR, 2010).
    """

    columns: tuple[str, ...] = TEXT
    keeps_score: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.columns:
            raise ParameterError("columns must name one or more features, got none")
        families_of(self.columns)
        if names := sorted(set(LABELLED) & set(self.columns)):
            raise ParameterError(
                f"columns name {' and '.join(names)}, which say what labelled requests needed; only a fit "
                f"holds such requests, and the step `probability` makes these columns itself"
            )

    @property
    def uses(self) -> tuple[str, ...]:
        """The resources whose identity decides the columns."""
        return resources_of(self.columns)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Add the columns."""
        return with_features(candidates, self.columns, query, resources)
