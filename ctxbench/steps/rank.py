"""Rank: a new score for what was found, such as one score of several sources."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray, firsts
from ctxbench.core.candidates import MARGIN, SEARCHED, Candidates, rescored
from ctxbench.core.errors import ParameterError, check_choice, check_range, number_within
from ctxbench.core.items import Catalog
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy
from ctxbench.features.stored_fits import WEIGHTS, FittedWeights


@dataclass(frozen=True)
class Rrf(Strategy):
    """Reciprocal rank fusion: an item scores the sum over sources of 1 / (k + its rank there).

    Attributes:
        k: how little the first ranks stand out, >= 0.

    Sources are those of a `merge`; behind a single retriever the order stays. Ranks are counted from 1; items that a
    source scores equal have the same rank, the best of theirs, so that no catalog order enters; a source that did
    not find an item adds nothing. Session items stay as they are. Empty in, empty out. Cost: a sort a source.
    Source: Cormack, Clarke and Buettcher, SIGIR 2009 (k = 60).
    """

    k: int = 60

    def __post_init__(self) -> None:
        check_range("k", self.k, 0)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Score by the ranks in every source; `chunk_rank` becomes the place in the new order."""
        searched = candidates.tier > 0
        score = np.zeros(len(candidates), dtype=np.float64)
        for source in sources_of(candidates).values():
            rows = np.flatnonzero(searched & ~np.isnan(source))
            score[rows] += 1.0 / (self.k + _ranks(candidates.request[rows], source[rows]))
        return rescored(candidates, score)


def sources_of(candidates: Candidates) -> dict[str, FloatArray]:
    """The scores of each source of a `merge`, NaN where it did not find the item; of one retriever its own, unnamed."""
    columns = candidates.columns.items()
    merged = {name: column for name, column in columns if "." not in name and name != SEARCHED}
    return merged or {"": candidates.score}


def _ranks(request: IntArray, score: FloatArray) -> IntArray:
    """The 1-based rank of every row among those of its request, best score first, ties all at the best of theirs.

    Args:
        request, score: shape (n,).
    """
    by_score = np.lexsort((-score, request))
    row, value = request[by_score], score[by_score]
    index = np.arange(len(row), dtype=np.int64)
    first = np.maximum.accumulate(np.where(firsts(row), index, 0))
    tied = np.maximum.accumulate(np.where(firsts(row, value), index, 0))
    ranks = np.empty(len(row), dtype=np.int64)
    ranks[by_score] = tied - first + 1
    return ranks


NORMALISE = ("min_max", "z", "theoretical")


@dataclass(frozen=True)
class Weighted(FittedWeights):
    """Weighted fusion: an item scores the weighted mean of its normalised scores in every source.

    Attributes:
        weights: by source of the `merge`, >= 0 and not all 0; all sources must be named. Without any, all
            count the same.
        normalise: `min_max`, the lowest that the source found for the request is 0 and its best 1; `z`, its mean is
            0 and its standard deviation 1; `theoretical`, the lowest that it can give is 0 and its best 1 (TM2C2).
        lowest: with `theoretical`, the lowest score that each source can give (-1 for a cosine, 0 for BM25).
        calibration: a file made by `ctxbench calibrate weights`, in place of `weights`; the fit for the catalog counts,
            which must have been made with the same `normalise` and `lowest`.

    What a source did not find counts as its lowest for the request: 0, with `z` its smallest value; so let sources
    find deep (`depth`). Where a source scores all that it found equal, those have 1 and the others 0 (with `z`, 0
    and -1). Behind a single retriever nothing changes. Items that come out equal are in catalog order. Empty in,
    empty out. Cost: linear in the rows, and a sort. Source: Bruch, Gai and Ingber, An Analysis of Fusion Functions
    for Hybrid Retrieval, TOIS 2023.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    normalise: str = NORMALISE[0]
    lowest: Mapping[str, float] = field(default_factory=dict)
    calibration: str | None = None
    fitted: ClassVar[str] = WEIGHTS

    def __post_init__(self) -> None:
        for name, low in (("weights", 0.0), ("lowest", -math.inf)):
            values = getattr(self, name)
            object.__setattr__(
                self, name, {str(key): number_within(f"{name}: {key}", values[key], low) for key in values}
            )
        if self.weights and not any(self.weights.values()):
            raise ParameterError("weights must not all be 0")
        check_choice("normalise", self.normalise, NORMALISE)
        if self.lowest and self.normalise != "theoretical":
            raise ParameterError(f"lowest is for normalise: theoretical, got it with {self.normalise}")
        self.check_source()

    @property
    def uses(self) -> tuple[str, ...]:
        """A fit belongs to one embedder; weights that are given do not."""
        return () if self.calibration is None else ("embedder",)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that must come before it, by name; none where all count the same."""
        return tuple(dict.fromkeys([*self.weights, *self.lowest]))

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Check that the file has a fit for the catalog, the embedder and the normalisation.

        Raises:
            ParameterError: it has none.
        """
        if self.calibration is not None:
            self._fitted(catalog, resources)

    def _fitted(self, catalog: Catalog, resources: Resources) -> dict[str, float]:
        """The weights for a catalog, from the file."""
        fit = self.calibrations.exact_fit(WEIGHTS, catalog, resources)
        fitted = {name: fit.values.get(name) for name in ("normalise", "lowest")}
        declared = {"normalise": self.normalise, "lowest": self.lowest}
        if fitted != declared:
            raise ParameterError(
                f"the {fit} were fitted with {fitted}, and this step has {declared}; they must be equal"
            )
        weights = fit.values.get("weights")
        if not isinstance(weights, Mapping) or not any(weights.values()):
            raise ParameterError(f"the fit {fit} holds no weights; fit again with {self.calibrations.command(WEIGHTS)}")
        return {str(name): number_within(f"weights: {name}", value, 0.0) for name, value in weights.items()}

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Score by the weighted mean; `chunk_rank` becomes the place in the new order.

        Raises:
            ParameterError: the sources are not those that weights or lowest name.
        """
        sources = sources_of(candidates)
        if set(sources) == {""}:
            return candidates
        if self.calibration is not None:
            weights = self._fitted(query.batch.catalog, resources)
        else:
            weights = dict(self.weights) or dict.fromkeys(sources, 1.0)
        if set(weights) != set(sources):
            raise ParameterError(f"weights name {_list(weights)}; the sources are {_list(sources)}")
        if self.lowest and set(self.lowest) - set(sources):
            raise ParameterError(f"lowest names {_list(self.lowest)}; the sources are {_list(sources)}")
        values = normalised(candidates, self.normalise, lowest=self.lowest)
        return rescored(candidates, fused(values, weights))


def fused(values: Mapping[str, FloatArray], weights: Mapping[str, float]) -> FloatArray:
    """The weighted mean of the sources' values, shape (n,); added in the order of the values, to the same bits."""
    total = math.fsum(weights.values())
    parts = [weights[name] / total * value for name, value in values.items()]
    return np.asarray(np.add.reduce(parts, axis=0))


def normalised(
    candidates: Candidates, normalise: str, *, lowest: Mapping[str, float] | None = None
) -> dict[str, FloatArray]:
    """The scores of every source on one scale, by request; see `Weighted`.

    Args:
        candidates: behind a `merge`.
        normalise: one of `NORMALISE`.
        lowest: by source, where `normalise` is `theoretical`.

    Returns:
        By source, shape (n,), without NaN; 0 for rows that no search found.

    Raises:
        ParameterError: a bound is missing, or a score lies below it.
    """
    searched = candidates.tier > 0
    out = {}
    for name, scores in sources_of(candidates).items():
        mask = searched & ~np.isnan(scores)
        request, score = candidates.request[mask], scores[mask]
        ends = _Ends.of(request, score, candidates.n_requests)
        if normalise == "z":
            scaled, missing = _z_scores(request, score, ends)
        else:
            bound = None if normalise == "min_max" else _bound(name, score, lowest or {})
            scaled, missing = _shares(request, score, ends, bound), np.zeros(candidates.n_requests)
        values = np.where(searched, missing[candidates.request], 0.0)
        values[mask] = scaled
        out[name] = values
    return out


@dataclass(frozen=True, eq=False)
class _Ends:
    """The lowest and the best score of each request, shape (n_requests,); infinite where there is none."""

    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, request: IntArray, score: FloatArray, n_requests: int) -> _Ends:
        low, high = np.full(n_requests, np.inf), np.full(n_requests, -np.inf)
        np.minimum.at(low, request, score)
        np.maximum.at(high, request, score)
        return cls(low, high)


def _shares(request: IntArray, score: FloatArray, ends: _Ends, bound: float | None) -> FloatArray:
    """The scores scaled between the lowest, 0, and the best of their request, 1; all 1 where those are equal."""
    low = ends.low[request] if bound is None else np.full(len(score), bound)
    spread = ends.high[request] - low
    return np.divide(score - low, spread, out=np.ones(len(score)), where=spread > 0)


def _z_scores(request: IntArray, score: FloatArray, ends: _Ends) -> tuple[FloatArray, FloatArray]:
    """Each score in standard deviations from the mean of its request, and the lowest of these by request.

    Where all of a request are equal they are 0 and their lowest is -1; with none the lowest is 0.
    """
    n_requests = len(ends.low)
    count = np.bincount(request, minlength=n_requests)
    mean = np.bincount(request, score, n_requests) / np.maximum(count, 1)
    away = score - mean[request]
    deviation = np.sqrt(np.bincount(request, away**2, n_requests) / np.maximum(count, 1))
    spread = (ends.high > ends.low) & (deviation > 0)
    out = np.divide(away, deviation[request], out=np.zeros(len(score)), where=spread[request])
    missing = np.where(count > 0, -1.0, 0.0)
    return out, np.where(spread, _Ends.of(request, out, n_requests).low, missing)


def _bound(source: str, score: FloatArray, lowest: Mapping[str, float]) -> float:
    """The lowest score that a source can give."""
    if source not in lowest:
        raise ParameterError(
            f"normalise: theoretical needs the lowest score that {source} can give, in lowest: {{{source}: ...}}"
        )
    if len(score) and float(score.min()) < lowest[source] - MARGIN:
        raise ParameterError(f"lowest says that {source} gives at least {lowest[source]:g}, got {score.min():g}")
    return lowest[source]


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
