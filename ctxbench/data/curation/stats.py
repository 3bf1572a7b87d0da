"""Statistics of a dataset: labels, lengths, token counts, near-duplicates, leakage and tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.arrays import Float32Array, IntArray
from ctxbench.data.curation.name_leaks import RULE, Leak, find_leaks
from ctxbench.data.curation.similar import (
    VECTORS,
    VECTORS_THRESHOLD,
    WORDS,
    WORDS_THRESHOLD,
    SimilarPair,
    connected_groups,
    similar_by_vectors,
    similar_by_words,
)
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.index.dense import chunks_of
from ctxbench.index.words import words
from ctxbench.text.original_rules import query_chunks
from ctxbench.text.tokens import CharsCounter, TokenCounter

AS_CARD = "as the card says"  # the source of a label that names none
LARGEST = 10  # items listed by price
MOST_COMPARED = 10_000  # items; above, near-duplicates are not looked for: it would take minutes


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of some whole numbers; all 0 where there are none.

    Attributes:
        n: how many numbers.
        total, mean, least, median, p95, most: of them.
    """

    n: int
    total: int
    mean: float
    least: int
    median: float
    p95: float
    most: int

    @classmethod
    def of(cls, values: Iterable[int] | IntArray) -> Spread:
        """The distribution of the numbers."""
        numbers = np.array(list(values), dtype=np.int64)
        if not len(numbers):
            return cls(0, 0, 0.0, 0, 0.0, 0.0, 0)
        median, p95 = np.percentile(numbers, [50, 95]).tolist()
        mean = float(numbers.mean())
        return cls(len(numbers), int(numbers.sum()), mean, int(numbers.min()), median, p95, int(numbers.max()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityStats:
    """Near-duplicate items.

    Attributes:
        method: how similarity is computed; empty if it was not.
        threshold: least similarity of a pair.
        pairs: (id, id, similarity, whether the servers differ), most similar first.
        groups: how many sets of items the pairs connect.
        items: how many items are in one.
        across: pairs whose servers differ.
        skipped: why nothing was computed; empty if it was.
    """

    method: str = ""
    threshold: float = 0.0
    pairs: tuple[tuple[str, str, float, bool], ...] = ()
    groups: int = 0
    items: int = 0
    across: int = 0
    skipped: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRow:
    """Queries of one tag: by split, unlabelled, needing nothing, and required items a judged query that has any."""

    tag: str
    queries: int
    splits: Mapping[str, int]
    unlabelled: int
    needs_nothing: int
    required: float


@dataclass(frozen=True, eq=False, kw_only=True)
class DatasetStats:
    """Statistics of a dataset.

    Attributes:
        name, version, hash: which dataset.
        counts: as the card's.
        labels: how many by `grade`, `via` and `source`.
        spreads: by what is counted; `labels a query` and `required a query` (alternatives once) leave queries
            without any out.
        counter: of tokens.
        tokens_by: prompt tokens of items by `type` and by `server` (empty = none), each with the number of items.
        largest: (id, tokens) of the items that cost most.
        near: near-duplicate items.
        leaks: queries that name an item they require, or its server.
        leak_queries: queries with a required item; what leaks are a share of.
        never_required: ids of items that no query requires, in catalog order.
        unlabelled: ids of queries whose required items are not all known.
        tags: by tag, sorted.
    """

    name: str
    version: str
    hash: str
    counts: Mapping[str, Any]
    labels: Mapping[str, Mapping[str, int]]
    spreads: Mapping[str, Spread]
    counter: str
    tokens_by: Mapping[str, Mapping[str, tuple[int, int]]]
    largest: tuple[tuple[str, int], ...]
    near: SimilarityStats
    leaks: tuple[Leak, ...]
    leak_queries: int
    never_required: tuple[str, ...]
    unlabelled: tuple[str, ...]
    tags: tuple[TagRow, ...] = field(default=())

    @property
    def named(self) -> int:
        """How many queries name an item that they require; naming its server alone does not count."""
        return len({leak.query for leak in self.leaks if leak.how != "server"})

    def as_dict(self) -> dict[str, Any]:
        """The statistics as JSON."""
        tokens_by = {
            kind: [{"name": name, "items": n, "tokens": tokens} for name, (n, tokens) in rows.items()]
            for kind, rows in self.tokens_by.items()
        }
        near = asdict(self.near)
        near["pairs"] = [
            {"items": [first, second], "similarity": similarity, "across_servers": across}
            for first, second, similarity, across in self.near.pairs
        ]
        return {
            "name": self.name,
            "version": self.version,
            "hash": self.hash,
            "counts": dict(self.counts),
            "labels": {kind: dict(rows) for kind, rows in self.labels.items()},
            "spreads": {kind: asdict(spread) for kind, spread in self.spreads.items()},
            "tokens": {
                "counter": self.counter,
                **{f"by_{kind}": rows for kind, rows in tokens_by.items()},
                "largest": [{"id": item, "tokens": tokens} for item, tokens in self.largest],
            },
            "near_duplicates": near,
            "leakage": {
                "rule": RULE,
                "queries": self.leak_queries,
                "naming_an_item": self.named,
                "list": [asdict(leak) for leak in self.leaks],
            },
            "never_required": list(self.never_required),
            "unlabelled": list(self.unlabelled),
            "tags": [asdict(row) for row in self.tags],
        }


def dataset_stats(
    dataset: Dataset,
    counter: TokenCounter,
    *,
    threshold: float | None = None,
    embed: Callable[[Sequence[str]], Float32Array] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> DatasetStats:
    """Describe a dataset. Without `embed` no model is needed.

    Args:
        dataset: any.
        counter: of prompt tokens. A file of counts knows items only; queries are then counted by `chars/4`.
        threshold: least similarity of near-duplicates; None = 0.7 by words, 0.85 by vectors.
        embed: makes unit vectors of texts; given, near-duplicates are looked for by vectors.
        progress: called with (items compared, items to compare), by words.

    Raises:
        ParameterError: the threshold is out of range.
        InputError: the counter has no count for an item.
        EmbeddingError: there is no model.
    """
    catalog = dataset.catalog
    item_tokens = counter.count(catalog.ids, [item.prompt_text for item in catalog])
    by_price = sorted(range(len(catalog)), key=lambda i: (-int(item_tokens[i]), i))[:LARGEST]
    required = {label.item for label in dataset.labels if label.grade == Grade.REQUIRED}
    return DatasetStats(
        name=dataset.name,
        version=dataset.version,
        hash=dataset.hash,
        counts=dataset.counts,
        labels=_labels(dataset),
        spreads=_spreads(dataset, counter, item_tokens),
        counter=counter.name,
        tokens_by={
            "type": _tokens_by([item.type for item in catalog], item_tokens),
            "server": _tokens_by([item.server or "" for item in catalog], item_tokens),
        },
        largest=tuple((catalog.ids[i], int(item_tokens[i])) for i in by_price),
        near=_near(dataset, threshold, embed, progress),
        leaks=find_leaks(dataset),
        leak_queries=len({label.query for label in dataset.labels if label.grade == Grade.REQUIRED}),
        never_required=tuple(item.id for item in catalog if item.key not in required),
        unlabelled=dataset.unlabelled,
        tags=_tags(dataset),
    )


def _labels(dataset: Dataset) -> dict[str, dict[str, int]]:
    grades = Counter(label.grade for label in dataset.labels)
    names = {Grade.REQUIRED: "required", Grade.HELPFUL: "helpful", Grade.IRRELEVANT: "irrelevant"}
    return {
        "grade": {name: grades[grade] for grade, name in names.items()},
        "via": dict(sorted(Counter(label.via for label in dataset.labels).items(), reverse=True)),
        "source": dict(sorted(Counter(label.source or AS_CARD for label in dataset.labels).items())),
        "alternatives": {"labels": sum(bool(label.alternatives) for label in dataset.labels)},
    }


def required_counts(dataset: Dataset) -> dict[str, int]:
    """How many items each query requires, alternatives counted once; queries that require none are left out."""
    return {query: len(groups) for query, groups in dataset.required.items() if groups}


def _spreads(dataset: Dataset, counter: TokenCounter, item_tokens: IntArray) -> dict[str, Spread]:
    texts = [query.request.text for query in dataset.queries]
    of_queries = CharsCounter() if counter.name.startswith("file:") else counter
    search = [item.search_text for item in dataset.catalog]
    return {
        "labels a query": Spread.of(Counter(label.query for label in dataset.labels).values()),
        "required a query": Spread.of(required_counts(dataset).values()),
        "words a query": Spread.of(len(words(text)) for text in texts),
        f"tokens a query ({of_queries.name})": Spread.of(of_queries.count([q.id for q in dataset.queries], texts)),
        "chunks a query": Spread.of(len(query_chunks(text)) for text in texts),
        "words an item": Spread.of(len(words(text)) for text in search),
        f"prompt tokens an item ({counter.name})": Spread.of(item_tokens),
        "chunks an item": Spread.of(len(chunks_of(item)) for item in dataset.catalog),
    }


def _tokens_by(names: Sequence[str], tokens: IntArray) -> dict[str, tuple[int, int]]:
    """Items and tokens by name, most tokens first."""
    counts = group_pairs(zip(names, tokens.tolist(), strict=True))
    return {name: (len(counts[name]), sum(counts[name])) for name in sorted(counts, key=lambda n: (-sum(counts[n]), n))}


def _near(
    dataset: Dataset,
    threshold: float | None,
    embed: Callable[[Sequence[str]], Float32Array] | None,
    progress: Callable[[int, int], None] | None,
) -> SimilarityStats:
    catalog = dataset.catalog
    if len(catalog) > MOST_COMPARED:
        return SimilarityStats(
            skipped=f"{len(catalog):,} items; near-duplicates are looked for among at most {MOST_COMPARED:,}"
        )
    pairs: tuple[SimilarPair, ...]
    if embed is None:
        method, minimum = WORDS, WORDS_THRESHOLD if threshold is None else threshold
        pairs = similar_by_words([item.search_text for item in catalog], threshold=minimum, progress=progress)
    else:
        method, minimum = VECTORS, VECTORS_THRESHOLD if threshold is None else threshold
        pairs = similar_by_vectors(catalog, embed, threshold=minimum)
    groups = connected_groups(pairs)
    rows = tuple(
        (
            catalog.ids[pair.first],
            catalog.ids[pair.second],
            pair.similarity,
            catalog[pair.first].server != catalog[pair.second].server,
        )
        for pair in pairs
    )
    return SimilarityStats(
        method=method,
        threshold=minimum,
        pairs=rows,
        groups=len(groups),
        items=sum(len(group) for group in groups),
        across=sum(across for *_, across in rows),
    )


def _tags(dataset: Dataset) -> tuple[TagRow, ...]:
    required = required_counts(dataset)
    left_out = set(dataset.unlabelled)
    rows = []
    for tag in sorted({tag for query in dataset.queries for tag in query.tags}):
        queries = [query for query in dataset.queries if tag in query.tags]
        splits = Counter(query.split for query in queries)
        counts = [required[q.id] for q in queries if q.id in required and q.id not in left_out]
        rows.append(
            TagRow(
                tag=tag,
                queries=len(queries),
                splits={name: splits[name] for name in dataset.split_names},
                unlabelled=sum(query.id in left_out for query in queries),
                needs_nothing=sum(query.needs_nothing for query in queries),
                required=sum(counts) / len(counts) if counts else 0.0,
            )
        )
    return tuple(rows)
