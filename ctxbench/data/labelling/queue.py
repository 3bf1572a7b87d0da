"""The order of the questions: a stratified random sample of queries, drawn before the first answer.

The queries whose needs are not known are put into strata by what the selectors' answers and the log let guess
(`predict`). Inside a stratum the order is random; how the strata take turns is fixed by the guesses alone, so that
the expected intervals narrow fastest (Neyman's allocation, by cost). Whatever
the answers are and whenever one stops, the queries answered so far are a random sample of each stratum, and a
stratum's share of its queries is known. Strata where the selectors disagree have the widest guesses, and so come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.errors import StorageError, UnknownNameError
from ctxbench.data.labelling.predict import Guesses, Predictor, pairs
from ctxbench.io.files import write_atomic
from ctxbench.io.json_files import dump_json, read_json

PLAN = 100.0  # answers that the strata are made for
MOST = 16  # strata
SMALLEST = 20  # queries of a stratum, at least; and a share of
SMALLEST_SHARE = 0.025
_CUTS = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875)  # quantiles at which a stratum may be cut
_WORTH_IT = 0.985  # a split must bring the expected variance down to this


@dataclass(frozen=True, kw_only=True)
class Stratum:
    """Queries that are drawn from together.

    Attributes:
        queries: all of them, in the random order in which they are asked.
        complete: by selector, the guessed share of them for which it is complete.
        first, second: by pair of selectors, the guessed shares for which only the first, only the second is.
        differ: by pair, the share for which the two offer different items.
        answers: guessed answers a query.
    """

    queries: tuple[str, ...]
    complete: tuple[float, ...]
    first: tuple[float, ...]
    second: tuple[float, ...]
    differ: tuple[float, ...]
    answers: float


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A drawn sample.

    Attributes:
        selectors: whose figures it narrows.
        focus: the figures that it narrows, as `figure_names` has them; empty for all alike.
        seed: of the random orders.
        strata: in the order in which they were made; later ones hold queries that came to the dataset later.
    """

    selectors: tuple[str, ...]
    seed: int
    strata: tuple[Stratum, ...]
    focus: tuple[str, ...] = ()

    def stratum_of(self) -> dict[str, int]:
        """The stratum of every query."""
        return {query: number for number, stratum in enumerate(self.strata) for query in stratum.queries}

    def turns(self) -> list[int]:
        """The strata in the order in which they take turns, one entry a query."""
        return turns(self.strata, _weights(self.selectors, self.focus))

    def as_dict(self) -> dict[str, Any]:
        """The queue as JSON."""
        return {
            "format": 1,
            "selectors": list(self.selectors),
            "focus": list(self.focus),
            "seed": self.seed,
            "strata": [asdict(stratum) for stratum in self.strata],
        }

    @classmethod
    def read(cls, path: Path) -> Queue | None:
        """Read the queue; None if there is none yet.

        Raises:
            StorageError: the file is not what `write` wrote.
        """
        if not path.exists():
            return None
        data = read_json(path)
        try:
            if data["format"] != 1:
                raise StorageError(f"{path} has format {data['format']}; expected 1, another release wrote this")
            strata = tuple(_read_stratum(row) for row in data["strata"])
            return cls(
                selectors=tuple(data["selectors"]),
                seed=int(data["seed"]),
                strata=strata,
                focus=tuple(data.get("focus", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"{path} is damaged ({error}); bring it back from a copy: without it answers have no weights"
            raise StorageError(message) from error

    def write(self, path: Path) -> None:
        """Write the queue, whole or not at all."""
        write_atomic(path, dump_json(self.as_dict()) + "\n")


def _read_stratum(row: Mapping[str, Any]) -> Stratum:
    shares = {name: tuple(map(float, row[name])) for name in ("complete", "first", "second", "differ")}
    return Stratum(queries=tuple(map(str, row["queries"])), answers=float(row["answers"]), **shares)


def figure_names(selectors: Sequence[str]) -> tuple[str, ...]:
    """The names of the figures: every selector, then "A - B" for every pair."""
    return (*selectors, *(f"{selectors[i]} - {selectors[j]}" for i, j in pairs(len(selectors))))


def _weights(selectors: Sequence[str], focus: Sequence[str]) -> FloatArray:
    """The weight of each figure, shape (n_selectors + n_pairs,); in sum 1."""
    names = figure_names(selectors)
    chosen = np.array([name in focus or not focus for name in names], dtype=np.float64)
    if not focus:
        n, k = len(selectors), len(names) - len(selectors)
        chosen = np.array([_ALONE / n] * n + [(1.0 - _ALONE) / max(k, 1)] * k)
    return np.asarray(chosen / chosen.sum())


def make_queue(
    predictor: Predictor, queries: Iterable[str], *, seed: int, focus: Sequence[str] = (), split: bool = True
) -> Queue:
    """Draw the sample for the queries whose needs are not known.

    Args:
        predictor: guesses over the pool.
        queries: their ids, in any order; none give a queue without strata.
        seed: of the random orders.
        focus: the figures to be narrowed, as `figure_names` has them; none for all.
        split: False puts all queries into one stratum, which is plain random order.

    Raises:
        UnknownNameError: no figure has that name.
    """
    selectors = predictor.pool.names
    for name in focus:
        if name not in figure_names(selectors):
            raise UnknownNameError("figure", name, figure_names(selectors))
    ids = sorted(queries)
    guesses = predictor.guesses(ids)
    rng = np.random.default_rng(seed)
    weights = _weights(selectors, focus)
    cells = _split(guesses, weights) if split and ids else [np.arange(len(ids))] * bool(ids)
    strata = tuple(_stratum(guesses, cell, tuple(ids[i] for i in rng.permutation(cell))) for cell in cells)
    return Queue(selectors=selectors, seed=seed, strata=strata, focus=tuple(focus))


def extended(queue: Queue, predictor: Predictor, queries: Iterable[str]) -> Queue:
    """The queue with strata for queries that it does not hold yet; itself if it holds all."""
    new = set(queries) - set(queue.stratum_of())
    if not new:
        return queue
    n_selectors = len(queue.selectors)
    added = make_queue(predictor, new, seed=queue.seed + len(queue.strata)).strata
    if predictor.pool.names != queue.selectors:  # guesses for other selectors say nothing about those of the queue
        halves = (0.5,) * n_selectors
        quarter = (0.25,) * len(pairs(n_selectors))
        unit_shares = (1.0,) * len(quarter)
        added = tuple(
            replace(stratum, complete=halves, first=quarter, second=quarter, differ=unit_shares) for stratum in added
        )
    return replace(queue, strata=(*queue.strata, *added))


def _stratum(guesses: Guesses, cell: IntArray, queries: tuple[str, ...]) -> Stratum:
    def mean(table: Any) -> tuple[float, ...]:
        return tuple(round(float(value), 6) for value in np.asarray(table[cell], dtype=np.float64).mean(axis=0))

    return Stratum(
        queries=queries,
        complete=mean(guesses.complete),
        first=mean(guesses.first),
        second=mean(guesses.second),
        differ=mean(guesses.differ),
        answers=round(float(guesses.answers[cell].mean()), 6),
    )


def turns(strata: Sequence[Stratum], weights: FloatArray) -> list[int]:
    """The strata in the order in which they take turns: the one first whose next answer narrows the figures most."""
    total = sum(len(stratum.queries) for stratum in strata)
    rows: list[tuple[float, int, int]] = []
    for number, stratum in enumerate(strata):
        gains = -np.diff(_left(stratum, total, len(stratum.queries), weights)) / stratum.answers
        gains = np.minimum.accumulate(gains)  # a stratum's own turns stay in order
        rows += [(-float(gain), position, number) for position, gain in enumerate(gains)]
    return [number for _, _, number in sorted(rows)]


def _left(stratum: Stratum, total: int, upto: int, weights: FloatArray) -> FloatArray:
    """The contribution of a stratum to the mean variance after 0, 1 ... answered queries, shape (upto + 1,)."""
    size = len(stratum.queries)
    p = _BELIEF * np.array(stratum.complete) + (1.0 - _BELIEF) * 0.5
    spreads = (p * (1.0 - p)).tolist()
    for first, second, differ in zip(stratum.first, stratum.second, stratum.differ, strict=True):
        either = _BELIEF * (first + second) + (1.0 - _BELIEF) * differ * 0.5
        spreads.append(max(either - (first - second) ** 2, 0.0))
    n = np.arange(upto + 1, dtype=np.float64)
    spread = float(weights @ np.array(spreads))
    return np.asarray(spread * (size / total) ** 2 * np.maximum(1.0 / (n + _HALF) - 1.0 / size, 0.0))


_ALONE = 0.7  # how much the selectors' own figures count together, against their differences
_HALF = 0.5  # answers that no answer counts as, so that the first one is worth something finite
_BELIEF = 0.85  # how far the guesses are believed, against even chances


def _split(guesses: Guesses, weights: FloatArray) -> list[IntArray]:
    """Cut the queries at guessed chances, each time where it narrows the figures most, until no cut is worth it."""
    features = np.concatenate([guesses.complete, guesses.first + guesses.second, guesses.differ], axis=1)
    features = np.unique(np.round(features, 9), axis=1)
    n = len(features)
    smallest = max(SMALLEST, int(SMALLEST_SHARE * n))
    cells = [np.arange(n)]
    tables = [_plan(guesses, cells[0], n, weights)]
    best = _objective(tables)
    while len(cells) < MOST:
        best_split = None
        for position, cell in enumerate(cells):
            for cut in _cuts(features, cell, smallest):
                inside, outside = cell[cut], cell[~cut]
                parts = [_plan(guesses, cell_part, n, weights) for cell_part in (inside, outside)]
                value = _objective([*tables[:position], *tables[position + 1 :], *parts])
                if value < best * _WORTH_IT and (best_split is None or value < best_split[0]):
                    best_split = (value, position, [inside, outside], parts)
        if best_split is None:
            break
        best, position, new, parts = best_split
        cells[position : position + 1] = new
        tables[position : position + 1] = parts
    return cells


def _cuts(features: FloatArray, cell: IntArray, smallest: int) -> Iterator[Any]:
    if len(cell) < 2 * smallest:
        return
    for column in features.T:
        values = column[cell]
        for end in np.unique(np.quantile(values, _CUTS, method="lower")):
            cut = values <= end
            if smallest <= int(cut.sum()) <= len(cell) - smallest:
                yield cut


def _plan(guesses: Guesses, cell: IntArray, total: int, weights: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """The contribution of a stratum: its variance without answers, then the gains and costs of answers."""
    stratum = _stratum(guesses, cell, ("",) * len(cell))
    left = _left(stratum, total, min(len(cell), int(PLAN)), weights)
    return float(left[0]), np.asarray(-np.diff(left)), np.full(len(left) - 1, stratum.answers)


def _objective(tables: Sequence[tuple[float, FloatArray, FloatArray]]) -> float:
    """The mean variance after `PLAN` answers, distributed as `turns` does."""
    gains = np.concatenate([table[1] for table in tables])
    costs = np.concatenate([table[2] for table in tables])
    order = np.argsort(-gains / costs, kind="stable")
    paid = np.cumsum(costs[order]) <= PLAN
    return sum(table[0] for table in tables) - float(gains[order][paid].sum())
