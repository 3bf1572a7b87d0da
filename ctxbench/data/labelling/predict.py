"""Guesses at the required items of a query before any answer. They order the questions, and change no estimate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray
from ctxbench.data.labelling.calibration import Case, Cases, Emulator, LogOddsCorrection, corrected
from ctxbench.data.labelling.pool import Pool
from ctxbench.data.labelling.query_files import Exposure

# Chance that the item at a rank of the fused ranking is needed: in addition to a known requirement, and
# where nothing is known. First guesses, corrected by the dataset's fully labelled queries where it has any.
_ENDS = (1, 2, 3, 5, 10, 20, 40)  # last place of each bucket
_BESIDE = (0.30, 0.12, 0.08, 0.05, 0.025, 0.01, 0.004)
_ALONE = (0.50, 0.18, 0.10, 0.06, 0.03, 0.012, 0.005)
_WORTH = 40.0  # how many observations a first guess is worth
_CALLED = 0.93  # that what was called was needed
_STANDS_IN = 0.5  # that an item like a needed one would do as well
_PASSED_OVER = 0.15  # factor for an item that the model was offered and did not call
_SIGNAL = 3.0  # factor on the odds of anything that was not offered where the log shows signs of a miss
_WANTED = 0.8  # that what the model named without being offered it was needed
_NEEDS = 1.3  # items that a request needs, before anything is known
_LACKING = 0.15  # required items that were not called, at the least
_OUTSIDE = 0.01  # that something is needed which no selector ranks


@dataclass(frozen=True, eq=False, kw_only=True)
class Guess:
    """The guess for one query.

    Attributes:
        probabilities: of items that may be needed, by catalog position; those that were called are left out.
        called: what was called.
        outside: chance that something else is needed.
    """

    probabilities: Mapping[int, float]
    called: tuple[int, ...]
    outside: float

    def ranked(self) -> list[int]:
        """The items that may be needed, the likeliest first."""
        return sorted(self.probabilities, key=lambda item: (-self.probabilities[item], item))


@dataclass(frozen=True, eq=False, kw_only=True)
class Guesses:
    """The guesses for some queries.

    Attributes:
        queries: their ids.
        complete: chance that each selector is complete, shape (n_queries, n_selectors).
        first, second: by pair of selectors, chance that only the first, only the second is complete, each of shape
            (n_queries, n_pairs).
        differ: where the two of a pair offer different items, shape (n_queries, n_pairs).
        answers: how many answers a query will take, shape (n_queries,).
    """

    queries: tuple[str, ...]
    complete: FloatArray
    first: FloatArray
    second: FloatArray
    differ: BoolArray
    answers: FloatArray


def pairs(n: int) -> list[tuple[int, int]]:
    """All pairs of n selectors, in order."""
    return list(combinations(range(n), 2))


class Predictor:
    """Guesses for the queries of a pool.

    Attributes:
        guess: gives what a query may need, by its id.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._beside, self._alone = _calibrated(pool)
        self.guess = cache(self._guess)
        self._learn_needs()

    def _guess(self, query_id: str) -> Guess:
        """The guess for a query."""
        case = self._case(query_id)
        labels = self.pool.dataset.labels_of(query_id)
        if any(label.grade == 2 for label in labels) and not self.pool.dataset.queries[case.row].partly_labelled:
            return Guess(
                probabilities={}, called=case.called, outside=1e-6
            )  # only what might stand for the needed is open
        return self._guess_of(case)

    def _case(self, query_id: str) -> Case:
        """The case of a query, from its labels and exposure."""
        positions = self.pool.positions
        exposure = self.pool.exposures.get(query_id, Exposure(query=query_id))
        labelled = (label.item for label in self.pool.dataset.labels_of(query_id) if label.grade == 2)
        return Case(
            row=self.pool.row[query_id],
            called=tuple(dict.fromkeys(positions([*labelled, *exposure.called]))),
            offered=frozenset(positions(exposure.offered)) if query_id in self.pool.exposures else None,
            signals=bool(exposure.signals),
            required=positions(exposure.wanted),
        )

    def _guess_of(self, case: Case) -> Guess:
        called, offered = case.called, case.offered or frozenset()
        table = self._beside if called else self._alone
        like_called = {alike for item in called for alike in self.pool.likenesses.of(item)}
        probabilities = {}
        for position, item in enumerate(candidates(self.pool, case.row), start=1):
            if item in called:
                continue
            chance = table[_bucket(position)]
            if item in offered:
                chance *= _PASSED_OVER if called else 0.5
            elif case.signals:
                odds = _SIGNAL * chance / (1.0 - chance)
                chance = odds / (1.0 + odds)
            if item in like_called:
                chance *= 0.3  # one of the two is enough
            probabilities[item] = min(chance, 0.9)
        outside = _OUTSIDE * (_SIGNAL if case.signals else 1.0)
        mass = sum(probabilities.values()) + outside
        n_missing = max(self._needs(case.row) - len(called), _LACKING if called else 0.5)
        scale = min(max(n_missing / mass, 0.2), 5.0)
        probabilities = {item: min(chance * scale, 0.9) for item, chance in probabilities.items()}
        probabilities |= {item: _WANTED for item in case.required if item not in called}
        return Guess(probabilities=probabilities, called=called, outside=min(outside * scale, 0.5))

    def _needs(self, row: int) -> float:
        """The number of items that a request of this length needs, by the fully labelled queries."""
        words = len(self.pool.dataset.queries[row].request.text.split())
        return max(self._mean_needs + self._needs_a_word * (words - self._mean_words), 0.3)

    def _learn_needs(self) -> None:
        judged = self.pool.dataset.judged()
        words = np.array([len(query.request.text.split()) for query in judged.queries], dtype=np.float64)
        needs = np.array([self._needed_groups(query.id) for query in judged.queries], dtype=np.float64)
        self._mean_words = float(words.mean()) if len(words) else 0.0
        self._mean_needs = float((needs.sum() + _WORTH * _NEEDS) / (len(needs) + _WORTH))
        away = words - self._mean_words
        square = float((away**2).sum()) + _WORTH * self._mean_words
        self._needs_a_word = max(float((away * needs).sum()) / square, 0.0) if square > 0 else 0.0

    def _needed_groups(self, query_id: str) -> int:
        """The number of required groups of a query, without those that are always offered."""
        always_offered = self.pool.always_offered(self.pool.row[query_id])
        return sum(
            always_offered.isdisjoint(group) for group in self.pool.groups(self.pool.dataset.labels_of(query_id))
        )

    def guesses(self, queries: Iterable[str]) -> Guesses:
        """The chances that selectors are complete, for several queries."""
        ids = tuple(queries)
        n, selector_pairs = len(self.pool.offers), pairs(len(self.pool.offers))
        sets = [(i,) for i in range(n)] + selector_pairs
        found_guesses = [self.guess(query_id) for query_id in ids]
        cases = self._cases([self._case(query_id) for query_id in ids], found_guesses, sets)
        chances = corrected(self._correction, cases)
        complete, together = chances[:, :n], chances[:, n:]
        first = np.maximum(complete[:, [i for i, _ in selector_pairs]] - together, 0.0)
        second = np.maximum(complete[:, [j for _, j in selector_pairs]] - together, 0.0)
        rows = [[offers.offered[case.row] for offers in self.pool.offers] for case in cases.cases]
        differ = np.array([[row[i] != row[j] for i, j in selector_pairs] for row in rows], dtype=np.bool_)
        differ = differ.reshape(len(ids), len(selector_pairs))
        wrong = np.array([1.0 - _CALLED if case.called else 0.0 for case in cases.cases])
        n_missing = np.array([sum(guess.probabilities.values()) for guess in found_guesses])
        return Guesses(
            queries=ids,
            complete=complete,
            first=first * differ,
            second=second * differ,
            differ=differ,
            answers=1.0 + n_missing + wrong,
        )

    def _cases(self, cases: Sequence[Case], guesses: Sequence[Guess], sets: Sequence[tuple[int, ...]]) -> Cases:
        """Cases with the chances that all selectors of each set are complete, as guessed item by item."""
        chances = np.array(
            [
                [self._chance(guess, [self.pool.offers[i].offered[case.row] for i in chosen]) for chosen in sets]
                for case, guess in zip(cases, guesses, strict=True)
            ],
            dtype=np.float64,
        ).reshape(len(cases), len(sets))
        return Cases(pool=self.pool, cases=tuple(cases), sets=tuple(sets), chances=chances)

    @cached_property
    def _correction(self) -> LogOddsCorrection:
        """The correction of guesses by the fully labelled queries, as if the log had offered a part of each."""
        cases = Emulator(self.pool).cases()
        alone = [(i,) for i in range(len(self.pool.offers))]
        return LogOddsCorrection.of(self._cases(cases, [self._guess_of(case) for case in cases], alone))

    def _chance(self, guess: Guess, offered: list[frozenset[int]]) -> float:
        """The chance that all of these offers hold all required items, which count as independent."""
        log, by_all = math.log1p(-guess.outside), frozenset.intersection(*offered)
        for item in guess.called:
            missing = 0.0
            for items in offered:
                if item not in items:
                    stand_in = any(alike in items for alike in self.pool.likenesses.of(item))
                    missing = max(missing, _CALLED * (1.0 - _STANDS_IN) if stand_in else _CALLED)
            log += math.log1p(-missing)
        for item, chance in guess.probabilities.items():
            if item not in by_all:
                log += math.log1p(-chance)
        return math.exp(log)


def candidates(pool: Pool, row: int) -> list[int]:
    """Items that some selector ranks or offers for a query, by reciprocal rank fusion; ties in catalog order.

    Without those that it gets anyway (`Pool.always_offered`).
    """
    score: dict[int, float] = {}
    for offers in pool.offers:
        for position, item in enumerate(offers.ranking[row]):
            score[item] = score.get(item, 0.0) + 1.0 / (60.0 + position)
        for item in offers.offered[row]:
            score.setdefault(item, 0.0)
    return sorted(score.keys() - pool.always_offered(row), key=lambda item: (-score[item], item))


def _bucket(position: int) -> int:
    return next((number for number, end in enumerate(_ENDS) if position <= end), len(_ENDS) - 1)


def _calibrated(pool: Pool) -> tuple[list[float], list[float]]:
    """Chances by bucket of the fused ranking: in addition to a known requirement, and without one.

    Every requirement of a fully labelled query takes a turn as the one that is known.
    """
    hits = np.array([_BESIDE, _ALONE]) * _WORTH
    counts = np.full((2, len(_ENDS)), _WORTH)
    for query in pool.dataset.judged().queries:
        groups = pool.groups(pool.dataset.labels_of(query.id))
        ranked = candidates(pool, pool.row[query.id])
        buckets = [_bucket(position) for position in range(1, len(ranked) + 1)]
        for group_number in [None, *range(len(groups))]:
            required = {item for number, group in enumerate(groups) if number != group_number for item in group}
            labelled = set(groups[group_number]) if group_number is not None else set()
            kind, weight = (1, 1.0) if group_number is None else (0, 1.0 / len(groups))
            for bucket, item in zip(buckets, ranked, strict=True):
                if item not in labelled:
                    counts[kind, bucket] += weight
                    hits[kind, bucket] += weight * (item in required)
    table = np.clip(hits / counts, 0.001, 0.9).tolist()
    return table[0], table[1]
