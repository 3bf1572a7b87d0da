"""Correct guesses by fully labelled queries: a small logistic regression with a prior at the guesses.

A fully labelled query does not look like one whose needs are open: all that it needs was called. So each is put back
into the state of the open ones: what the log's selector would have offered is drawn as it offered elsewhere, by the
place in the ranking of the pool's selector that follows the log most closely, and what is required beyond that counts
as not called. What the guesses say of such a query is then compared with what is known to be true of it.

The regression has one set of coefficients for all selectors and pairs of selectors. Its prior is the guess as it is
(coefficient 1 on its log odds, 0 on all else), so that few labelled queries change little, and none nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ctxbench.core.arrays import FloatArray
from ctxbench.data.labelling.pool import Pool

_SPREAD = 0.3  # of the prior, for a feature of unit spread
_SPREAD_LEVEL = 1.0  # for the constant
_SPREAD_GUESS = 0.3  # around 1, for the guess's log odds
_ENDS = (0.003, 0.997)  # chances beyond are taken for these
_STANDS_IN = 0.5  # that an item like a needed one would do as well
_LOOKED_AT = 600  # turns from which it is learned what the log's selector offers
_REACH = 3.0  # features further than this many spreads from the mean count as this far
_PARTS = re.compile(r"[^.!?;\n]*\w[^.!?;\n]*")


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """The data of a query before any answer.

    Attributes:
        row: of the query in the pool.
        called: catalog positions of what was called or is labelled as required.
        offered: of what was offered; None where no log says.
        signals: the log shows signs of a miss.
        required: positions of what the model named without being offered it.
        groups: of a query that is fully labelled, what it requires.
        weight: how much it counts.
    """

    row: int
    called: tuple[int, ...]
    offered: frozenset[int] | None
    signals: bool = False
    required: tuple[int, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    weight: float = 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Cases:
    """Cases with their guesses.

    Attributes:
        pool: that they are of.
        cases: in any order.
        sets: of selectors, by number: each alone, then pairs.
        chances: guessed, that all of a set are complete, shape (n_cases, n_sets).
    """

    pool: Pool
    cases: tuple[Case, ...]
    sets: tuple[tuple[int, ...], ...]
    chances: FloatArray

    @cached_property
    def features(self) -> FloatArray:
        """The features of the chances other than the guess, shape (n_cases, n_sets, n_features)."""
        table = [[_features(self.pool, case, chosen) for chosen in self.sets] for case in self.cases]
        return np.array(table, dtype=np.float64).reshape(len(self.cases), len(self.sets), _N_FEATURES)

    @cached_property
    def outcomes(self) -> FloatArray:
        """Of fully labelled cases, whether all of a set are complete, shape (n_cases, n_sets)."""
        table = [[_outcome(self.pool, case, chosen) for chosen in self.sets] for case in self.cases]
        return np.array(table, dtype=np.float64).reshape(len(self.cases), len(self.sets))


class Emulator:
    """Fully labelled queries as cases, as if the log had offered for them what it offered elsewhere."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        unlabelled = set(pool.dataset.unlabelled)
        open_ = [query for query in pool.dataset.queries if query.id in unlabelled]
        logged = [query for query in open_ if query.id in pool.exposures]
        self._logged = len(logged) / len(open_) if open_ else 0.0
        part = [
            (pool.row[query.id], exposure.offered)
            for query in logged
            if not (exposure := pool.exposures[query.id]).full and exposure.offered
        ]
        self._shown = [(row, frozenset(pool.positions(keys))) for row, keys in part[:: max(len(part) // _LOOKED_AT, 1)]]

    def cases(self, *, seed: int = 0) -> list[Case]:
        """One case per fully labelled query and kind of open query (logged, not logged); none if no query is open."""
        result = []
        rng = np.random.default_rng(seed)
        pool = self.pool
        for query in pool.dataset.judged().queries:
            row = pool.row[query.id]
            groups = tuple(pool.groups(pool.dataset.labels_of(query.id)))
            if self._shown and self._logged > 0:
                offered = self._offered(row, rng)
                called = tuple(item for group in groups for item in group if item in offered)
                result.append(Case(row=row, called=called, offered=offered, groups=groups, weight=self._logged))
            if self._logged < 1:
                result.append(Case(row=row, called=(), offered=None, groups=groups, weight=1.0 - self._logged))
        return result

    def _offered(self, row: int, rng: np.random.Generator) -> frozenset[int]:
        selector, inside, outside = self._selector
        chance = np.full(len(self.pool.dataset.catalog), outside)
        ranking = list(self.pool.offers[selector].ranking[row][: len(inside)])  # of further places nothing is known
        chance[ranking] = inside[: len(ranking)]
        return frozenset(np.flatnonzero(rng.random(len(chance)) < chance).tolist())

    @cached_property
    def _selector(self) -> tuple[int, FloatArray, float]:
        """The selector whose ranks predict best what was offered, the share offered by rank, and beyond all ranks."""
        fits = []
        for number, offers in enumerate(self.pool.offers):
            depth = max((len(offers.ranking[row]) for row, _ in self._shown), default=0)
            n_seen, hits, beyond = np.zeros(depth), np.zeros(depth), 0
            for row, offered in self._shown:
                ranking = offers.ranking[row]
                n_seen[: len(ranking)] += 1
                hits[: len(ranking)] += [item in offered for item in ranking]
                beyond += len(offered.difference(ranking))
            share = hits / np.maximum(n_seen, 1.0)
            n_outside = max(len(self._shown) * len(self.pool.dataset.catalog) - float(n_seen.sum()), 1.0)
            unsure = float((n_seen * share * (1.0 - share)).sum()) + beyond * (1.0 - beyond / n_outside)
            fits.append((unsure, number, share, beyond / n_outside))
        _, number, share, outside = min(fits, key=lambda fit: fit[:2])
        return number, share, outside


@dataclass(frozen=True, eq=False)
class LogOddsCorrection:
    """Coefficients: of the guess's log odds, a constant, and the features less their mean, by `_SCALE`."""

    coefficients: FloatArray
    mean: FloatArray

    @classmethod
    def of(cls, cases: Cases) -> LogOddsCorrection:
        """Fit to fully labelled cases of single selectors; none of them leave the guesses as they are."""
        flat = cases.features.reshape(-1, _N_FEATURES)
        empty = cls(
            np.array([1.0] + [0.0] * (1 + _N_FEATURES)), flat.mean(axis=0) if len(flat) else np.zeros(_N_FEATURES)
        )
        if not len(flat):
            return empty
        n_sets = len(cases.sets)
        # the selectors' outcomes for one query hang together: n of them count as the root of n
        weight = np.repeat([case.weight for case in cases.cases], n_sets) / np.sqrt(n_sets)
        prior = 1.0 / np.array([_SPREAD_GUESS, _SPREAD_LEVEL, *[_SPREAD] * _N_FEATURES]) ** 2
        fitted = _fit(empty.columns(cases), cases.outcomes.ravel(), weight, (empty.coefficients, prior))
        return cls(fitted, empty.mean)

    def columns(self, cases: Cases) -> FloatArray:
        """The columns of the regression, shape (n_cases * n_sets, 2 + n_features)."""
        chance = np.clip(cases.chances.ravel(), *_ENDS)
        scaled = (cases.features.reshape(-1, _N_FEATURES) - self.mean) / _SCALE
        columns = [np.log(chance / (1.0 - chance)), np.ones(len(chance)), *np.clip(scaled, -_REACH, _REACH).T]
        return np.column_stack(columns)


def corrected(correction: LogOddsCorrection, cases: Cases) -> FloatArray:
    """The guessed chances, corrected, shape (n_cases, n_sets); a pair's is never above its selectors'."""
    chances = _sigmoid(correction.columns(cases) @ correction.coefficients).reshape(cases.chances.shape)
    for number, chosen in enumerate(cases.sets):
        for index in chosen:
            chances[:, number] = np.minimum(chances[:, number], chances[:, index])
    return np.asarray(chances)


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(x, -30.0, 30.0))))


def _fit(x: FloatArray, y: FloatArray, weight: FloatArray, prior: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Logistic regression by Newton's method under a normal prior (its mean, its precision)."""
    mean, precision = prior
    fitted = mean.copy()
    for _ in range(50):
        p = _sigmoid(x @ fitted)
        gradient = x.T @ (weight * (y - p)) - precision * (fitted - mean)
        curvature = (x.T * (weight * p * (1.0 - p))) @ x + np.diag(precision)
        step = np.clip(np.linalg.solve(curvature, gradient), -1.0, 1.0)
        fitted = fitted + step
        if float(np.abs(step).max()) < 1e-8:
            break
    return np.asarray(fitted)


_SCALE = np.array([1.0, 0.6, 0.45, 0.45, 0.45, 0.45])  # a usual spread of each feature
_N_FEATURES = len(_SCALE)


def _features(pool: Pool, case: Case, chosen: Sequence[int]) -> list[float]:
    """The ranks of the called items, their number, and the number that the request's length suggests."""
    text = pool.dataset.queries[case.row].request.text
    parts, called = max(len(_PARTS.findall(text)), 1), len(case.called)
    deepest = 0.0
    for selector in chosen:
        ranking = pool.offers[selector].ranking[case.row]
        for item in case.called:
            deepest = max(deepest, np.log1p(ranking.index(item) if item in ranking else len(ranking) + 8))
    return [
        deepest,
        float(called),
        float(called == 0),
        float(called >= parts),
        float(np.log(parts)),
        float(np.log1p(len(text.split()))),
    ]


def _outcome(pool: Pool, case: Case, chosen: Sequence[int]) -> float:
    """The chance that all of these selectors offer all required items of a query, or similar ones."""
    chance = 1.0
    for group in case.groups:
        offered = [pool.offers[selector].offered[case.row] for selector in chosen]
        if all(any(item in offered_items for item in group) for offered_items in offered):
            continue
        like = {alike for item in group for alike in (item, *pool.likenesses.of(item))}
        chance *= _STANDS_IN if all(like & offered_items for offered_items in offered) else 0.0
    return chance
