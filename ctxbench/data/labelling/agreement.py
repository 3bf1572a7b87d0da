"""Agreement: which pairs a second person judges, and how far two independent labellings agree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.errors import Fault, ParameterError, raise_faults
from ctxbench.core.items import ItemKey
from ctxbench.core.requests import Batch
from ctxbench.data.datasets.query_labels import Label
from ctxbench.data.datasets.reader import read_labels
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.labelling.pool import Pool

GRADES = (0, 1, 2)
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class PooledPair:
    """A pair of query and item to be judged.

    Attributes:
        query: the query id.
        item: the item.
        sources: the selectors that rank it high enough, then `labelled` and `random` where they apply.
    """

    query: str
    item: ItemKey
    sources: tuple[str, ...]


def sample_queries(query_ids: Sequence[str], *, share: float, seed: int = 0) -> tuple[str, ...]:
    """Draw a share of the queries, rounded up, in their own order; the same ids and seed give the same draw.

    Raises:
        ParameterError: `share` is not in (0, 1].
    """
    if not 0.0 < share <= 1.0:
        raise ParameterError(f"share must be above 0 and at most 1, got {share}")
    size = int(np.ceil(round(share * len(query_ids), 9)))
    drawn = set(sorted(query_ids, key=lambda query: _draw(seed, query))[:size])
    return tuple(query for query in query_ids if query in drawn)


def pooled_pairs(
    pool: Pool, queries: Iterable[str], *, depth: int = 20, random: int = 10, seed: int = 0
) -> tuple[PooledPair, ...]:
    """The pairs to judge for some queries: the best of every ranking, the labelled ones, and some drawn at random.

    What a session holds is not asked about; random items are drawn among those that the query may get and nobody
    pooled. Within a query, pairs stand in a random order, so that their place says nothing.

    Args:
        pool: what selectors offer.
        queries: ids.
        depth: places of each ranking, 1 to as many as the pool holds.
        random: how many at most are drawn.
        seed: another seed draws others.
    """
    dataset = pool.dataset
    rows = [pool.row[query] for query in queries]
    batch = Batch.of(dataset.catalog, [dataset.queries[row].request for row in rows])
    pairs = []
    for index, row in enumerate(rows):
        query = dataset.queries[row].id
        ranked = [(item, offers.name) for offers in pool.offers for item in offers.ranking[row][:depth]]
        labelled = [(dataset.catalog.position(label.item), "labelled") for label in dataset.labels_of(query)]
        sources = group_pairs([*ranked, *labelled])
        rest = [int(item) for item in np.flatnonzero(batch.eligible[index]) if int(item) not in sources]
        rest.sort(key=lambda item: _draw(seed, query, dataset.catalog.ids[item]))
        sources |= {item: ["random"] for item in rest[:random]}
        shuffled = sorted(sources, key=lambda item: _draw(seed, "order", query, dataset.catalog.ids[item]))
        pairs += [PooledPair(query, dataset.catalog[item].key, tuple(sources[item])) for item in shuffled]
    return tuple(pairs)


def _draw(*parts: object) -> str:
    return hashlib.sha256("\t".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kappa:
    """Chance-corrected agreement of two labellings.

    Attributes:
        question: what was decided of each pair.
        observed: share of pairs on which both agree.
        expected: the share by chance, from how often each says what.
        value: (observed - expected) / (1 - expected); NaN if both always say one and the same.
        low, high: 95% interval, percentile bootstrap over queries.
    """

    question: str
    observed: float
    expected: float
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Two labellings of the same pairs.

    Attributes:
        queries, pairs: how many both have judged.
        only_first, only_second: pairs that one alone has judged; they count for nothing.
        table: how often the first says the row's grade and the second the column's, shape (3, 3).
        kappas: is it required; is it required or helpful; which grade (linear weights).
        disagreements: pairs with the two grades, in the order of the first labelling.
    """

    queries: int
    pairs: int
    only_first: int
    only_second: int
    table: IntArray
    kappas: tuple[Kappa, ...]
    disagreements: tuple[tuple[str, ItemKey, int, int], ...]


def agreement(first: Sequence[Label], second: Sequence[Label], *, seed: int = 0) -> Agreement:
    """Compare two labellings on the pairs that both have judged, grade 0 included.

    Raises:
        ParameterError: there is no pair that both have judged.
    """
    first_grades = {(label.query, label.item): label.grade for label in first}
    second_grades = {(label.query, label.item): label.grade for label in second}
    shared = [pair for pair in first_grades if pair in second_grades]
    if not shared:
        raise ParameterError("the two labellings have no pair of query and item in common; expected the same pairs")
    a = np.array([first_grades[pair] for pair in shared], dtype=np.int64)
    b = np.array([second_grades[pair] for pair in shared], dtype=np.int64)
    names = list(dict.fromkeys(query for query, _ in shared))
    owner = np.array([names.index(query) for query, _ in shared], dtype=np.int64)
    table = np.zeros((len(names), 3, 3), dtype=np.int64)
    np.add.at(table, (owner, a, b), 1)
    return Agreement(
        queries=len(names),
        pairs=len(shared),
        only_first=len(first_grades) - len(shared),
        only_second=len(second_grades) - len(shared),
        table=table.sum(axis=0),
        kappas=tuple(_kappa(question, table, weights, seed=seed) for question, weights in _WEIGHTS.items()),
        disagreements=tuple(
            (query, item, first_grades[query, item], second_grades[query, item])
            for query, item in shared
            if first_grades[query, item] != second_grades[query, item]
        ),
    )


def kappa(table: IntArray | FloatArray, weights: FloatArray) -> tuple[float, float, float]:
    """Observed agreement, agreement by chance, and weighted kappa of a square table of counts.

    Args:
        table: shape (n, n); rows are the first labelling's grades.
        weights: shape (n, n), 1 for full agreement to 0 for none.

    Returns:
        All NaN for an empty table; kappa alone is NaN where chance explains everything.

    Source: Cohen, Educational and Psychological Measurement 20 (1960); weights: Psychological Bulletin 70 (1968).
    """
    n = float(table.sum())
    if n == 0:
        return (float("nan"),) * 3
    observed = float((table * weights).sum() / n)
    chance = np.outer(table.sum(axis=1), table.sum(axis=0)) / n**2
    expected = float((chance * weights).sum())
    return observed, expected, (observed - expected) / (1 - expected) if expected < 1 - 1e-12 else float("nan")


_WEIGHTS: Mapping[str, FloatArray] = {
    "required": np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=np.float64),
    "required or helpful": np.array([[1, 0, 0], [0, 1, 1], [0, 1, 1]], dtype=np.float64),
    "grade, linear weights": 1 - np.abs(np.subtract.outer(np.arange(3), np.arange(3))) / 2,
}


def _kappa(question: str, table: IntArray, weights: FloatArray, *, seed: int) -> Kappa:
    """One question; `table` by query, shape (n_queries, 3, 3)."""
    observed, expected, value = kappa(table.sum(axis=0), weights)
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(len(table), np.full(len(table), 1 / len(table)), size=RESAMPLES)
    values = np.array([kappa(np.tensordot(times, table, axes=1), weights)[2] for times in drawn])
    values = values[~np.isnan(values)]
    low, high = np.percentile(values, [2.5, 97.5]).tolist() if len(values) else (float("nan"),) * 2
    return Kappa(question=question, observed=observed, expected=expected, value=value, low=low, high=high)


def read_labelling(path: Path) -> tuple[Label, ...]:
    """Read a file of labels as qrels; each pair once.

    Raises:
        StorageError: it cannot be read.
        InputError: it is no qrels file; all faults with their lines.
    """
    faults: list[Fault] = []
    first: dict[tuple[str, ItemKey], int] = {}
    labels = []
    for line, label in read_labels(path, faults):
        first_line = first.setdefault((label.query, label.item), line)
        if first_line != line:
            message = f"{label.item.id!r} is labelled for query {label.query!r} in line {first_line} already"
            faults.append(Fault(f"{message}; name a pair once", path, line))
        labels.append(label)
    raise_faults(sorted(faults, key=lambda fault: fault.line), subject=str(path))
    return tuple(labels)
