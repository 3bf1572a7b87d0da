"""Pools of offered items, and predictions of required items.

Predictions are calibrated on fully labelled queries by a small logistic regression. Its prior is the prediction itself
(coefficient 1 for its log odds, 0 for the rest), so that few labelled queries change little. In a fully labelled query
all required items were called, unlike in an open one. So each is converted into the state of an open one: the offers of
the selector of the log are drawn at random, with the rates by rank of the selector of the pool that is closest to the
log, and required items outside of these offers count as not called. All selectors and pairs share the coefficients.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import combinations
from pathlib import Path

import numpy as np

from ctxbench.catalogs.agent_file import is_agent_file
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.layout import Exposure
from ctxbench.datasets.queries import Label, group_pairs
from ctxbench.evaluation.answers import Slice
from ctxbench.evaluation.experiment import code_hash, examine, versions
from ctxbench.evaluation.run_folder import content_key
from ctxbench.evaluation.runner import answered
from ctxbench.io.cache import read_sealed, write_sealed
from ctxbench.io.errors import InputError, ParameterError, SelectorError
from ctxbench.io.files import cache_dir
from ctxbench.model.arrays import BoolArray, FloatArray
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, ItemKey
from ctxbench.model.requests import Batch
from ctxbench.model.resources import Resources
from ctxbench.selectors.definitions import agent_own_spec, find_definition, selector_name
from ctxbench.selectors.selector import PipelineSelector, Selector

SELECTORS = ("bm25", "dense", "semantic/spec")
DEPTH = 20  # considered ranks
ALIKE = 0.7  # least weighted share of common words of similar items
ALIKE_NAMED = 0.5  # the same if their names start with the same word
_WORD, _NAME_WORD = re.compile(r"[^\W_]+"), re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+")
BLOCK = 256  # queries per cache file


@dataclass(frozen=True, eq=False, kw_only=True)
class Offers:
    """The offers and rankings of one selector, by query of the dataset, as catalog positions.

    Attributes:
        name: the name of the selector.
        offered: the items of the prompt, with the session.
        ranking: the best `DEPTH` items of the search, best first, chosen or not.
        scores: the scores of the ranking.
        failed: the number of failed queries, which offer the session only.
        failure: the first failure; empty if there is none.
    """

    name: str
    offered: tuple[frozenset[int], ...]
    ranking: tuple[tuple[int, ...], ...]
    scores: tuple[tuple[float, ...], ...]
    failed: int = 0
    failure: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Pool:
    """A dataset with the offers of selectors for its queries, and its exposures.

    Attributes:
        dataset: the dataset.
        offers: one per selector.
        exposures: offered and called items of the log, by query id; only for queries of a log.
    """

    dataset: Dataset
    offers: tuple[Offers, ...]
    exposures: Mapping[str, Exposure] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the selectors."""
        return tuple(offers.name for offers in self.offers)

    @cached_property
    def row(self) -> dict[str, int]:
        """The rows of queries by id."""
        return {query.id: row for row, query in enumerate(self.dataset.queries)}

    @cached_property
    def likenesses(self) -> Likenesses:
        """The similar items of the catalog."""
        return Likenesses(self.dataset.catalog)

    @cached_property
    def always_items(self) -> frozenset[int]:
        """The enabled items of mode `always`, which are in every prompt of a new session."""
        return frozenset(np.flatnonzero(self.dataset.catalog.facts.always_offered).tolist())

    def always_offered(self, row: int) -> frozenset[int]:
        """The items of mode `always` that every selector offers for the query in `row`."""
        return self.always_items.intersection(*(offers.offered[row] for offers in self.offers))

    def positions(self, keys: Iterable[ItemKey]) -> tuple[int, ...]:
        """The catalog positions of items, without items that are not in the catalog."""
        return tuple(position for position in map(self.dataset.catalog.find, keys) if position is not None)

    def groups(self, labels: Sequence[Label]) -> list[tuple[int, ...]]:
        """The groups of required items of labels, as catalog positions."""
        position = self.dataset.catalog.position
        required = (label for label in labels if label.grade == 2)
        groups = group_pairs((label.alternatives or label.item, position(label.item)) for label in required)
        return [tuple(members) for members in groups.values()]

    def complete(self, row: int, groups: Sequence[tuple[int, ...]]) -> tuple[bool, ...]:
        """Whether each selector offers the required items of the query in `row`."""
        return tuple(all(any(i in offers.offered[row] for i in group) for group in groups) for offers in self.offers)


class Likenesses:
    """Similar items of one type, which may be alternatives: by name, or by words.

    Attributes:
        of: returns the positions of the items similar to the item at a position.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._words = [frozenset(word.lower() for word in _WORD.findall(item.search_text)) for item in catalog]
        self._names = [tuple(map(str.lower, _NAME_WORD.findall(item.name))) or (item.name,) for item in catalog]
        self._holding = group_pairs((word, position) for position, words in enumerate(self._words) for word in words)
        self._worth = {word: math.log(1.0 + len(catalog) / len(positions)) for word, positions in self._holding.items()}
        self._sums = [math.fsum(self._worth[word] for word in words) for words in self._words]
        self.of = cache(self._find)

    def _find(self, position: int) -> tuple[int, ...]:
        """Positions of the items similar to the item at `position`, most similar first."""
        mine, item = self._words[position], self._catalog[position]
        common: dict[int, float] = {}
        for word in mine:
            worth = self._worth[word]
            for holder in self._holding[word]:
                common[holder] = common.get(holder, 0.0) + worth
        scored = []
        for candidate, shared in common.items():
            if candidate == position or self._catalog[candidate].type != item.type:
                continue
            share = shared / (self._sums[position] + self._sums[candidate] - shared)
            is_same_name = self._names[candidate] == self._names[position]
            if is_same_name or share >= (
                ALIKE_NAMED if self._names[candidate][0] == self._names[position][0] else ALIKE
            ):
                scored.append((-share, candidate))
        return tuple(candidate for _, candidate in sorted(scored))


def usual_selectors(dataset: Dataset) -> tuple[str, ...]:
    """The default selectors for labelling: three shipped ones, and the selector of the agent of a dataset."""
    agent = dataset.about.get("agent")
    return SELECTORS if agent is None else (str(agent), *SELECTORS)


def open_selectors(names: Sequence[str], resources: Resources) -> dict[str, Selector]:
    """Open selectors: shipped ones as `name` or `name/preset`, of an agent file, or all of an experiment.

    Raises:
        UserError: a selector is unknown or wrong, or two have the same name.
    """
    selectors: dict[str, Selector] = {}
    for text in names:
        if text.endswith((".yaml", ".yml")) and not is_agent_file(text):
            experiment, faults = examine(Path(text))
            if faults:
                raise InputError(faults)
            from_experiment = experiment.make_selectors(resources, {})
        elif (agent_spec := agent_own_spec(text)) is not None:
            from_experiment = {agent_spec.name: agent_spec.make(resources, {})}
        else:
            made_of, preset = find_definition(text)
            name = selector_name(text)
            from_experiment = {name: PipelineSelector(name, made_of.pipeline(made_of.values(preset)), resources)}
        for name, selector in from_experiment.items():
            if name in selectors:
                raise ParameterError(f"two selectors are called {name!r}; name each once")
            selectors[name] = selector
    if not selectors:
        raise ParameterError("no selector; expected one or more, such as bm25")
    return selectors


def make_pool(
    dataset: Dataset,
    selectors: Mapping[str, Selector],
    *,
    exposures: Mapping[str, Exposure],
    progress: Callable[[str, int, int], None] = lambda _text, _done, _total: None,
) -> Pool:
    """Run each selector on each query; answers of earlier calls come from the cache.

    Raises:
        SelectorError: an external selector fails on all queries.
        UserError: another selector fails.
    """
    offers = []
    for name, selector in selectors.items():
        parts = []
        for first in range(0, len(dataset), BLOCK):
            parts.append(_block(dataset, selector, first))
            progress(f"asking {name}", min(first + BLOCK, len(dataset)), len(dataset))
        offers.append(_offers(name, parts))
        if len(dataset) and offers[-1].failed == len(dataset):
            raise SelectorError(f"{name} failed on all {len(dataset):,} queries; first {offers[-1].failure}")
    return Pool(dataset=dataset, offers=tuple(offers), exposures=exposures)


def _block(dataset: Dataset, selector: Selector, first: int) -> Slice:
    """The answers for some queries, in the order of the dataset, from the cache if possible.

    Answers with failures are not cached.
    """
    batch = Batch.of(dataset.catalog, [query.request for query in dataset.queries[first : first + BLOCK]])
    path = cache_dir() / "labelling" / content_key(2, batch.key, selector.describe(), code_hash(), versions())
    if (cached := read_sealed(path)) is not None:
        return Slice.from_bytes(cached, path)
    answers = answered(selector, batch)
    if not answers.errors:
        write_sealed(path, answers.to_bytes(timed=False))
    return answers


def _offers(name: str, parts: Sequence[Slice]) -> Offers:
    answers = [_answer(part.candidates, row) for part in parts for row in range(len(part.queries))]
    return Offers(
        name=name,
        offered=tuple(offered for offered, _, _ in answers),
        ranking=tuple(ranking for _, ranking, _ in answers),
        scores=tuple(scores for _, _, scores in answers),
        failed=sum(len(part.errors) for part in parts),
        failure=next((_failure(*error) for part in parts for error in part.errors.items()), ""),
    )


def _failure(query: str, error: str) -> str:
    """A failure with its query."""
    named = f"query {query!r}: "
    return error if error.startswith(named) else f"{named}{error}"


def _answer(table: Candidates, query: int) -> tuple[frozenset[int], tuple[int, ...], tuple[float, ...]]:
    """The items offered for one query, the best `DEPTH` of its search, and their scores."""
    rows = table.rows(query)
    items, offered = table.item[rows], (table.tier[rows] > 0).nonzero()[0][:DEPTH]
    scores = table.score[rows][offered]
    return frozenset(items[table.chosen[rows]].tolist()), tuple(items[offered].tolist()), tuple(scores.tolist())


_SPREAD = 0.3  # of the prior of a feature with unit spread
_SPREAD_LEVEL = 1.0  # for the constant
_SPREAD_GUESS = 0.3  # around 1, for the guess's log odds
_CHANCE_LIMITS = (0.003, 0.997)  # chances are clipped to these
_STANDS_IN = 0.5  # chance that a similar item is an alternative
_LOOKED_AT = 600  # turns to learn the offers of the selector of the log
_REACH = 3.0  # features are clipped to this many spreads from the mean
_PARTS = re.compile(r"[^.!?;\n]*\w[^.!?;\n]*")


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """The data of a query before any answer.

    Attributes:
        row: the row of the query in the pool.
        called: catalog positions of called or required items.
        offered: catalog positions of offered items; None without a log.
        signals: the log has signals of a miss.
        required: positions of items that the model named although they were not offered.
        groups: for a fully labelled query, the required groups.
        weight: the weight of the case.
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
        pool: the pool of the queries.
        cases: in any order.
        sets: sets of selectors: single ones, then pairs.
        chances: guessed chances that all selectors of a set are complete, shape (n_cases, n_sets).
    """

    pool: Pool
    cases: tuple[Case, ...]
    sets: tuple[tuple[int, ...], ...]
    chances: FloatArray

    @cached_property
    def features(self) -> FloatArray:
        """The features besides the guess, shape (n_cases, n_sets, n_features)."""
        table = [[_features(self.pool, case, chosen) for chosen in self.sets] for case in self.cases]
        return np.array(table, dtype=np.float64).reshape(len(self.cases), len(self.sets), _N_FEATURES)

    @cached_property
    def outcomes(self) -> FloatArray:
        """For fully labelled cases, whether all selectors of a set are complete, shape (n_cases, n_sets)."""
        table = [[_outcome(self.pool, case, chosen) for chosen in self.sets] for case in self.cases]
        return np.array(table, dtype=np.float64).reshape(len(self.cases), len(self.sets))


class Emulator:
    """Converts fully labelled queries into cases with simulated offers of the log."""

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
        self._logged_offers = [
            (row, frozenset(pool.positions(keys))) for row, keys in part[:: max(len(part) // _LOOKED_AT, 1)]
        ]

    def cases(self, *, seed: int = 0) -> list[Case]:
        """One case per fully labelled query and kind of open query (logged, not logged); none without open queries."""
        result = []
        rng = np.random.default_rng(seed)
        pool = self.pool
        for query in pool.dataset.judged().queries:
            row = pool.row[query.id]
            groups = tuple(pool.groups(pool.dataset.labels_of(query.id)))
            if self._logged_offers and self._logged > 0:
                offered = self._offered(row, rng)
                called = tuple(item for group in groups for item in group if item in offered)
                result.append(Case(row=row, called=called, offered=offered, groups=groups, weight=self._logged))
            if self._logged < 1:
                result.append(Case(row=row, called=(), offered=None, groups=groups, weight=1.0 - self._logged))
        return result

    def _offered(self, row: int, rng: np.random.Generator) -> frozenset[int]:
        selector, inside, outside = self._selector
        chance = np.full(len(self.pool.dataset.catalog), outside)
        ranking = list(self.pool.offers[selector].ranking[row][: len(inside)])  # later ranks are unknown
        chance[ranking] = inside[: len(ranking)]
        return frozenset(np.flatnonzero(rng.random(len(chance)) < chance).tolist())

    @cached_property
    def _selector(self) -> tuple[int, FloatArray, float]:
        """The selector whose ranks predict the offers best, the share offered by rank, and beyond all ranks."""
        fits = []
        for number, offers in enumerate(self.pool.offers):
            depth = max((len(offers.ranking[row]) for row, _ in self._logged_offers), default=0)
            n_seen, hits, beyond = np.zeros(depth), np.zeros(depth), 0
            for row, offered in self._logged_offers:
                ranking = offers.ranking[row]
                n_seen[: len(ranking)] += 1
                hits[: len(ranking)] += [item in offered for item in ranking]
                beyond += len(offered.difference(ranking))
            share = hits / np.maximum(n_seen, 1.0)
            n_outside = max(len(self._logged_offers) * len(self.pool.dataset.catalog) - float(n_seen.sum()), 1.0)
            unsure = float((n_seen * share * (1.0 - share)).sum()) + beyond * (1.0 - beyond / n_outside)
            fits.append((unsure, number, share, beyond / n_outside))
        _, number, share, outside = min(fits, key=lambda fit: fit[:2])
        return number, share, outside


@dataclass(frozen=True, eq=False)
class LogOddsCorrection:
    """Coefficients: of the log odds of the guess, a constant, and the centred features, scaled by `_SCALE`."""

    coefficients: FloatArray
    mean: FloatArray

    @classmethod
    def of(cls, cases: Cases) -> LogOddsCorrection:
        """Fit to fully labelled cases of single selectors; without cases the guesses are unchanged."""
        flat = cases.features.reshape(-1, _N_FEATURES)
        empty = cls(
            np.array([1.0] + [0.0] * (1 + _N_FEATURES)), flat.mean(axis=0) if len(flat) else np.zeros(_N_FEATURES)
        )
        if not len(flat):
            return empty
        n_sets = len(cases.sets)
        # outcomes of selectors for one query are correlated: n of them count as the root of n
        weight = np.repeat([case.weight for case in cases.cases], n_sets) / np.sqrt(n_sets)
        prior = 1.0 / np.array([_SPREAD_GUESS, _SPREAD_LEVEL, *[_SPREAD] * _N_FEATURES]) ** 2
        return cls(_fit(empty.columns(cases), cases.outcomes.ravel(), weight, (empty.coefficients, prior)), empty.mean)

    def columns(self, cases: Cases) -> FloatArray:
        """The columns of the regression, shape (n_cases * n_sets, 2 + n_features)."""
        chance = np.clip(cases.chances.ravel(), *_CHANCE_LIMITS)
        scaled = (cases.features.reshape(-1, _N_FEATURES) - self.mean) / _SCALE
        columns = [np.log(chance / (1.0 - chance)), np.ones(len(chance)), *np.clip(scaled, -_REACH, _REACH).T]
        return np.column_stack(columns)


def corrected(correction: LogOddsCorrection, cases: Cases) -> FloatArray:
    """The corrected chances, shape (n_cases, n_sets); the chance of a pair is at most that of its selectors."""
    chances = _sigmoid(correction.columns(cases) @ correction.coefficients).reshape(cases.chances.shape)
    for number, chosen in enumerate(cases.sets):
        for index in chosen:
            chances[:, number] = np.minimum(chances[:, number], chances[:, index])
    return np.asarray(chances)


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(x, -30.0, 30.0))))


def _fit(x: FloatArray, y: FloatArray, weight: FloatArray, prior: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Logistic regression by Newton's method with a normal prior (mean, precision)."""
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
    """The ranks and number of called items, and the length of the request."""
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
    """The chance that all these selectors offer all required items of a query, or alternatives."""
    chance = 1.0
    for group in case.groups:
        offered = [pool.offers[selector].offered[case.row] for selector in chosen]
        if all(any(item in offered_items for item in group) for offered_items in offered):
            continue
        like = {alike for item in group for alike in (item, *pool.likenesses.of(item))}
        chance *= _STANDS_IN if all(like & offered_items for offered_items in offered) else 0.0
    return chance


# Chance that the item at a rank of the fused ranking is required: in addition to a known required item, and without
# one. These first guesses are corrected by fully labelled queries.
_BUCKET_ENDS = (1, 2, 3, 5, 10, 20, 40)  # last rank of each bucket
_BESIDE = (0.30, 0.12, 0.08, 0.05, 0.025, 0.01, 0.004)
_ALONE = (0.50, 0.18, 0.10, 0.06, 0.03, 0.012, 0.005)
_WORTH = 40.0  # weight of a first guess, in observations
_CALLED = 0.93  # chance that a called item is required


_PASSED_OVER = 0.15  # factor for offered items that were not called
_SIGNAL = 3.0  # factor on the odds of items that were not offered, with signals of a miss
_WANTED = 0.8  # chance that a named item that was not offered is required
_NEEDS = 1.3  # first guess of required items per request
_LACKING = 0.15  # least number of required items that were not called
_OUTSIDE = 0.01  # chance of a required item that no selector ranks


@dataclass(frozen=True, eq=False, kw_only=True)
class Guess:
    """The guess for one query.

    Attributes:
        probabilities: chances that items are required, by catalog position, without called items.
        called: called items.
        outside: the chance that another item is required.
    """

    probabilities: Mapping[int, float]
    called: tuple[int, ...]
    outside: float

    def ranked(self) -> list[int]:
        """The items that may be required, likeliest first."""
        return sorted(self.probabilities, key=lambda item: (-self.probabilities[item], item))


@dataclass(frozen=True, eq=False, kw_only=True)
class Guesses:
    """The guesses for some queries.

    Attributes:
        queries: their ids.
        complete: chances that selectors are complete, shape (n_queries, n_selectors).
        first, second: chances that only the first, or only the second selector of a pair is complete, shape
            (n_queries, n_pairs).
        differ: whether the selectors of a pair offer different items, shape (n_queries, n_pairs).
        answers: expected answers per query, shape (n_queries,).
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
    """Makes guesses for the queries of a pool.

    Attributes:
        guess: returns the guess for a query, by its id.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._with_calls, self._without_calls = _calibrated(pool)
        self.guess = cache(self._guess)
        judged = self.pool.dataset.judged()
        words = np.array([len(query.request.text.split()) for query in judged.queries], dtype=np.float64)
        needs = np.array([self._needed_groups(query.id) for query in judged.queries], dtype=np.float64)
        self._mean_words = float(words.mean()) if len(words) else 0.0
        self._mean_needs = float((needs.sum() + _WORTH * _NEEDS) / (len(needs) + _WORTH))
        away = words - self._mean_words
        square = float((away**2).sum()) + _WORTH * self._mean_words
        self._needs_a_word = max(float((away * needs).sum()) / square, 0.0) if square > 0 else 0.0

    def _guess(self, query_id: str) -> Guess:
        """The guess for a query."""
        case = self._case(query_id)
        labels = self.pool.dataset.labels_of(query_id)
        return (
            Guess(probabilities={}, called=case.called, outside=1e-6)  # only alternatives are open
            if any(label.grade == 2 for label in labels) and not self.pool.dataset.queries[case.row].partly_labelled
            else self._guess_of(case)
        )

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
        table = self._with_calls if called else self._without_calls
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
                chance *= 0.3  # likely an alternative
            probabilities[item] = min(chance, 0.9)
        outside = _OUTSIDE * (_SIGNAL if case.signals else 1.0)
        mass = sum(probabilities.values()) + outside
        n_missing = max(self._needs(case.row) - len(called), _LACKING if called else 0.5)
        scale = min(max(n_missing / mass, 0.2), 5.0)
        probabilities = {
            **{item: min(chance * scale, 0.9) for item, chance in probabilities.items()},
            **{item: _WANTED for item in case.required if item not in called},
        }
        return Guess(probabilities=probabilities, called=called, outside=min(outside * scale, 0.5))

    def _needs(self, row: int) -> float:
        """The expected number of required items of a request, from its length."""
        words = len(self.pool.dataset.queries[row].request.text.split())
        return max(self._mean_needs + self._needs_a_word * (words - self._mean_words), 0.3)

    def _needed_groups(self, query_id: str) -> int:
        """The number of required groups of a query that are not always offered."""
        always_offered = self.pool.always_offered(self.pool.row[query_id])
        return sum(
            always_offered.isdisjoint(group) for group in self.pool.groups(self.pool.dataset.labels_of(query_id))
        )

    def guesses(self, queries: Iterable[str]) -> Guesses:
        """The chances that selectors are complete, for several queries."""
        ids = tuple(queries)
        n, selector_pairs = len(self.pool.offers), pairs(len(self.pool.offers))
        sets = [(i,) for i in range(n)] + selector_pairs
        query_guesses = [self.guess(query_id) for query_id in ids]
        cases = self._cases([self._case(query_id) for query_id in ids], query_guesses, sets)
        chances = corrected(self._correction, cases)
        complete, together = chances[:, :n], chances[:, n:]
        first = np.maximum(complete[:, [i for i, _ in selector_pairs]] - together, 0.0)
        second = np.maximum(complete[:, [j for _, j in selector_pairs]] - together, 0.0)
        rows = [[offers.offered[case.row] for offers in self.pool.offers] for case in cases.cases]
        differ = np.array([[row[i] != row[j] for i, j in selector_pairs] for row in rows], dtype=np.bool_)
        differ = differ.reshape(len(ids), len(selector_pairs))
        wrong = np.array([1.0 - _CALLED if case.called else 0.0 for case in cases.cases])
        return Guesses(
            queries=ids,
            complete=complete,
            first=first * differ,
            second=second * differ,
            differ=differ,
            answers=1.0 + np.array([sum(guess.probabilities.values()) for guess in query_guesses]) + wrong,
        )

    def _cases(self, cases: Sequence[Case], guesses: Sequence[Guess], sets: Sequence[tuple[int, ...]]) -> Cases:
        """Cases with the guessed chances that all selectors of each set are complete."""
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
        """The correction of guesses by fully labelled queries with simulated offers."""
        cases = Emulator(self.pool).cases()
        alone = [(i,) for i in range(len(self.pool.offers))]
        return LogOddsCorrection.of(self._cases(cases, [self._guess_of(case) for case in cases], alone))

    def _chance(self, guess: Guess, offered: list[frozenset[int]]) -> float:
        """The chance that all these offers have all required items, taken as independent."""
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
    """Items that a selector ranks or offers for a query, by reciprocal rank fusion; ties in catalog order.

    Without items that are always offered (`Pool.always_offered`).
    """
    score: dict[int, float] = {}
    for offers in pool.offers:
        for position, item in enumerate(offers.ranking[row]):
            score[item] = score.get(item, 0.0) + 1.0 / (60.0 + position)
        for item in offers.offered[row]:
            score.setdefault(item, 0.0)
    return sorted(score.keys() - pool.always_offered(row), key=lambda item: (-score[item], item))


def _bucket(position: int) -> int:
    return next((number for number, end in enumerate(_BUCKET_ENDS) if position <= end), len(_BUCKET_ENDS) - 1)


def _calibrated(pool: Pool) -> tuple[list[float], list[float]]:
    """Chances by bucket of the fused ranking: in addition to a known required item, and without one.

    Each required item of a fully labelled query is used as the known one in turn.
    """
    hits = np.array([_BESIDE, _ALONE]) * _WORTH
    counts = np.full((2, len(_BUCKET_ENDS)), _WORTH)
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
