"""Labels that selectors contradict, and agreement between two labellings.

A patch is a file of JSON lines, one per changed label: `{"query", "item", "was": {"grade", "via", "alternatives"} or
null, "now": the same or null, "why"}`; null means no label. A patch is applied as a whole or not at all: labels that
differ from `was` are conflicts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import read_labels
from ctxbench.datasets.queries import Label, graded, group_pairs, standing_in
from ctxbench.io.documents import dump_jsonl, iter_jsonl
from ctxbench.io.errors import Fault, Message, ParameterError, raise_faults
from ctxbench.io.files import write_atomic
from ctxbench.labelling.pools import DEPTH, Offers, Pool
from ctxbench.model.arrays import FloatArray, IntArray
from ctxbench.model.items import Catalog, ItemKey
from ctxbench.model.requests import Batch

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class PooledPair:
    """A pair of query and item to be judged.

    Attributes:
        query: the query id.
        item: the item.
        sources: the selectors that rank it high enough, then perhaps `labelled` and `random`.
    """

    query: str
    item: ItemKey
    sources: tuple[str, ...]


def sample_queries(query_ids: Sequence[str], *, share: float, seed: int = 0) -> tuple[str, ...]:
    """Draw a share of the queries, rounded up, in their order; it depends on ids and seed only.

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
    """The pairs to judge for some queries: the best items of each ranking, labelled items, and random ones.

    Random items are drawn among the other items available to the query. Within a query, pairs are in random order.

    Args:
        pool: the pool.
        queries: ids.
        depth: the number of ranks of each ranking, at most those of the pool.
        random: the number of random items.
        seed: the seed of the draws.
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
        question: the decision about each pair.
        observed: the share of pairs with equal decisions.
        expected: the share by chance, from the frequencies of decisions.
        value: (observed - expected) / (1 - expected); NaN if all decisions are equal.
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
        queries, pairs: the numbers judged in both.
        only_first, only_second: the numbers of pairs judged in one only; they are ignored.
        table: counts by grade of the first (rows) and the second (columns), shape (3, 3).
        kappas: for required; for required or helpful; for the grade (linear weights).
        disagreements: pairs with both grades, in the order of the first labelling.
    """

    queries: int
    pairs: int
    only_first: int
    only_second: int
    table: IntArray
    kappas: tuple[Kappa, ...]
    disagreements: tuple[tuple[str, ItemKey, int, int], ...]


def agreement(first: Sequence[Label], second: Sequence[Label], *, seed: int = 0) -> Agreement:
    """Compare two labellings on the pairs judged in both, with grade 0.

    Raises:
        ParameterError: no pair is judged in both.
    """
    first_grades = {(label.query, label.item): label.grade for label in first}
    second_grades = {(label.query, label.item): label.grade for label in second}
    if not (shared := [pair for pair in first_grades if pair in second_grades]):
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
        All NaN for an empty table; only kappa is NaN if the expected agreement is 1.

    Source: Cohen, Educational and Psychological Measurement 20 (1960); weights: Psychological Bulletin 70 (1968).
    """
    if (n := float(table.sum())) == 0:
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
    """The kappa of one question; `table` by query, shape (n_queries, 3, 3)."""
    observed, expected, value = kappa(table.sum(axis=0), weights)
    drawn = np.random.default_rng(seed).multinomial(len(table), np.full(len(table), 1 / len(table)), size=RESAMPLES)
    values = np.array([kappa(np.tensordot(times, table, axes=1), weights)[2] for times in drawn])
    values = values[~np.isnan(values)]
    low, high = np.percentile(values, [2.5, 97.5]).tolist() if len(values) else (float("nan"),) * 2
    return Kappa(question=question, observed=observed, expected=expected, value=value, low=low, high=high)


def read_labelling(path: Path) -> tuple[Label, ...]:
    """Read a file of labels as qrels; each pair once.

    Raises:
        StorageError: it cannot be read.
        InputError: it is not a qrels file; all faults with their lines.
    """
    faults: list[Fault] = []
    first: dict[tuple[str, ItemKey], int] = {}
    labels = []
    for line, label in read_labels(path, faults):
        if (first_line := first.setdefault((label.query, label.item), line)) != line:
            message = Message("labelling.pair-twice", item=label.item.id, query=label.query, line=first_line)
            faults.append(Fault(message, path, line))
        labels.append(label)
    raise_faults(sorted(faults, key=lambda fault: fault.line), subject=str(path))
    return tuple(labels)


REVIEW = "review"  # the source of corrected labels
FAR = 5  # a required item is contradicted if no selector ranks it, or an alternative, this high


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A label, or a missing label, that all selectors contradict.

    Attributes:
        query: the id of the query.
        item: the item.
        kind: `required but far down` or `first but not required`.
        label: the label, or None.
        ranks: by selector, the rank from 1; None if it is not among the best 20.
        scores: by selector; None without a rank.
        severity: in (0, 1]; findings are in falling order of it.
    """

    query: str
    item: ItemKey
    kind: str
    label: Label | None
    ranks: Mapping[str, int | None]
    scores: Mapping[str, float | None]
    severity: float

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON."""
        return {
            "query": self.query,
            "item": self.item.id,
            "kind": self.kind,
            "label": _values(self.label),
            "ranks": dict(self.ranks),
            "scores": dict(self.scores),
            "severity": self.severity,
        }


@dataclass(frozen=True, kw_only=True)
class Correction:
    """One changed label.

    Attributes:
        query, item: the query and the item of the label.
        was, now: the label before and after, None = no label.
        why: a reason for readers of the patch.
    """

    query: str
    item: ItemKey
    was: Label | None
    now: Label | None
    why: str = ""

    def as_row(self) -> dict[str, Any]:
        """The correction as a line of a patch."""
        row = {"query": self.query, "item": self.item.id, "was": _values(self.was), "now": _values(self.now)}
        return row | ({"why": self.why} if self.why else {})


def _values(label: Label | None) -> dict[str, Any] | None:
    return None if label is None else {"grade": label.grade, "via": label.via, "alternatives": label.alternatives}


def findings(pool: Pool) -> list[Finding]:
    """Contradicted labels, worst first; ties in the order of queries and catalog.

    Args:
        pool: a pool of two or more selectors with rankings.

    Raises:
        ParameterError: there is only one selector.
    """
    if len(pool.offers) < 2:
        raise ParameterError(f"review needs two or more selectors, got {', '.join(pool.names)}")
    result: list[Finding] = []
    for row, query in enumerate(pool.dataset.queries):
        if any(not offers.ranking[row] for offers in pool.offers):
            continue  # no evidence
        labels = pool.dataset.labels_of(query.id)
        session_keys = {item.key for item in query.request.session or ()}
        result += _far_down(pool, row, [label for label in labels if label.item not in session_keys])
        if not query.partly_labelled and (query.needs_nothing or any(label.grade == 2 for label in labels)):
            result += _first(pool, row, labels)
    return sorted(result, key=lambda finding: -finding.severity)


def _far_down(pool: Pool, row: int, labels: Sequence[Label]) -> Iterable[Finding]:
    for label in labels:
        item = pool.dataset.catalog[pool.dataset.catalog.position(label.item)]
        if label.grade != 2 or item.include != "agent":
            continue
        group = [i for i in labels if i == label or (label.alternatives and i.alternatives == label.alternatives)]
        best = min((_rank(pool, offers, row, i.item) or DEPTH + 1) for i in group for offers in pool.offers)
        if best > FAR:
            depth = [(_rank(pool, offers, row, label.item) or DEPTH + 1) - 1 for offers in pool.offers]
            yield _finding(pool, row, label.item, "required but far down", label, sum(depth) / (DEPTH * len(depth)))


def _rank(pool: Pool, offers: Offers, row: int, key: ItemKey) -> int | None:
    ranking, position = offers.ranking[row], pool.dataset.catalog.position(key)
    return ranking.index(position) + 1 if position in ranking else None


def _first(pool: Pool, row: int, labels: Sequence[Label]) -> Iterable[Finding]:
    top = {offers.ranking[row][0] for offers in pool.offers}
    if len(top) > 1:
        return
    key = pool.dataset.catalog[top.pop()].key
    label = next((label for label in labels if label.item == key), None)
    if label is None or label.grade < 2:
        yield _finding(
            pool, row, key, "first but not required", label, 1.0 if label is None else 0.5 + 0.25 * (1 - label.grade)
        )


def _finding(pool: Pool, row: int, key: ItemKey, kind: str, label: Label | None, severity: float) -> Finding:
    ranks = {offers.name: _rank(pool, offers, row, key) for offers in pool.offers}
    return Finding(
        query=pool.dataset.queries[row].id,
        item=key,
        kind=kind,
        label=label,
        ranks=ranks,
        scores={
            offers.name: offers.scores[row][rank - 1] if (rank := ranks[offers.name]) else None
            for offers in pool.offers
        },
        severity=severity,
    )


def regraded(dataset: Dataset, query: str, item: ItemKey, grade: int, *, why: str = "") -> list[Correction]:
    """The corrections that change the grade of an item; a group with one remaining alternative is dissolved."""
    labels = {label.item: label for label in dataset.labels_of(query)}
    return _changes(query, labels, graded(labels, query, item, grade, source=REVIEW), why)


def alternative(dataset: Dataset, query: str, item: ItemKey, of: ItemKey, *, why: str = "") -> list[Correction]:
    """The corrections that make an item an alternative of a required one.

    Raises:
        ParameterError: the other item is not required.
    """
    labels = {label.item: label for label in dataset.labels_of(query)}
    if (label := labels.get(of)) is None or label.grade != 2 or of == item:
        raise ParameterError(f"query {query!r}: {of.id!r} is not another required item; name one that is")
    return _changes(query, labels, standing_in(labels, query, item, of, source=REVIEW), why)


def _changes(query: str, old: Mapping[ItemKey, Label], new: Mapping[ItemKey, Label], why: str) -> list[Correction]:
    return [
        Correction(query=query, item=key, was=old.get(key), now=new.get(key), why=why)
        for key in dict.fromkeys([*old, *new])
        if _values(old.get(key)) != _values(new.get(key))
    ]


class Corrections:
    """Corrections of a dataset's labels, by decision; each applies to the result of those before it."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._corrections: dict[Hashable, list[Correction]] = {}

    @property
    def corrections(self) -> list[Correction]:
        """All corrections, in the order of the decisions."""
        return [correction for several in self._corrections.values() for correction in several]

    @property
    def dataset(self) -> Dataset:
        """The dataset with all corrections."""
        changes = {(correction.query, correction.item): correction.now for correction in self.corrections}
        unchanged = [label for label in self._dataset.labels if (label.query, label.item) not in changes]
        return self._dataset.with_labels([*unchanged, *(label for label in changes.values() if label is not None)])

    def regrade(self, decision: Hashable, key: ItemKey, grade: int, *, query: str, why: str = "") -> None:
        """Give an item another grade.

        Args:
            decision: identifies the decision; its earlier correction is replaced.
            key: the item.
            grade: 0 to 2.
            query: the id of the query.
            why: a reason for readers.

        Raises:
            InputError: the query cannot have this label; nothing is changed.
        """
        self._decide(decision, lambda dataset: regraded(dataset, query, key, grade, why=why))

    def alternative(self, decision: Hashable, key: ItemKey, of: ItemKey, *, query: str, why: str = "") -> None:
        """Make an item an alternative of a required one; see `alternative`."""
        self._decide(decision, lambda dataset: alternative(dataset, query, key, of, why=why))

    def take_back(self, decision: Hashable) -> bool:
        """Withdraw a decision; returns whether there was one."""
        return self._corrections.pop(decision, None) is not None

    def _decide(self, decision: Hashable, correct: Callable[[Dataset], list[Correction]]) -> None:
        """Replace a decision; nothing changes if the new one is invalid."""
        before = dict(self._corrections)
        try:
            self.take_back(decision)
            if correction := correct(self.dataset):
                self._corrections[decision] = correction
                _ = self.dataset  # checks the labels
        except BaseException:
            self._corrections = before
            raise


def write_patch(corrections: Iterable[Correction], path: Path) -> None:
    """Write corrections as a patch."""
    write_atomic(path, dump_jsonl(correction.as_row() for correction in corrections))


def patched(dataset: Dataset, path: Path) -> tuple[Dataset, int]:
    """The dataset with a patch applied, and the number of changed labels.

    Raises:
        InputError: lines are not corrections, or labels differ from `was`: all faults, with their lines.
        StorageError: the file cannot be read.
    """
    faults: list[Fault] = []
    labels = {(label.query, label.item): label for label in dataset.labels}
    query_ids = {query.id for query in dataset.queries}
    changed = 0
    for line, row in iter_jsonl(path, faults):
        try:
            key, was, new = _read_row(row, query_ids, dataset.catalog)
        except ParameterError as error:
            faults.append(Fault(str(error), path, line))
            continue
        if (current := _values(labels.get(key))) != was:
            values = {"item": key[1].id, "query": key[0], "got": _describe(current), "expected": _describe(was)}
            faults.append(Fault(Message("labelling.patch-outdated", **values), path, line))
            continue
        changed += 1
        if new is None:
            labels.pop(key, None)
        else:
            quote = labels[key].quote if key in labels and new["grade"] else ""
            labels[key] = Label(key[0], key[1], new["grade"], new["via"], new["alternatives"], REVIEW, quote)
    raise_faults(faults, subject=f"patch {path} not applied")
    return dataset.with_labels(labels.values()), changed


def _describe(values: Mapping[str, Any] | None) -> str:
    if values is None:
        return "missing"
    group = f" one of {values['alternatives']!r}" if values["alternatives"] else ""
    return f"{values['grade']} {values['via']}{group}"


def _read_row(
    row: Mapping[str, Any], query_ids: Container[str], catalog: Catalog
) -> tuple[tuple[str, ItemKey], dict[str, Any] | None, dict[str, Any] | None]:
    """Query and item of a line of a patch, and the label before and after.

    Raises:
        ParameterError: it is not a line of a patch, or its query or item is not in the dataset.
    """
    unknown = set(row) - {"query", "item", "was", "now", "why"}
    if unknown or "now" not in row or not isinstance(row.get("query"), str) or not isinstance(row.get("item"), str):
        raise ParameterError('expected {"query", "item", "was", "now"} and optionally "why"; null means no label')
    for name in ("was", "now"):
        if (value := row.get(name)) is not None and not _is_label(value):
            raise ParameterError(f'{name!r} must be null or {{"grade": 0 to 2, "via", "alternatives"}}, got {value!r}')
    key = ItemKey.parse(row["item"])
    if row["query"] not in query_ids or catalog.find(key) is None:
        raise ParameterError(f"query {row['query']!r} or item {key.id!r} is not in the dataset; correct its id")
    return (row["query"], key), row.get("was"), row["now"]


def _is_label(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"grade", "via", "alternatives"}
        and type(value["grade"]) is int
        and all(isinstance(value[name], str) for name in ("via", "alternatives"))
    )
