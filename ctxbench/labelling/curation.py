"""Compare datasets, make new splits, find leaked names, and compute statistics.

A query leaks a required item if it has the name of the item (ignoring case; at least three characters, without
letters or digits around it), or the words of a name of several words in sequence: "please create issue 7" names
`create_issue`, `createIssue` and `create-issue`. Names of one ordinary word, such as `search`, count as well.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ctxbench.datasets.dataset import SPLITS, Dataset, split_of
from ctxbench.datasets.queries import DatasetQuery, Label, connected_rows, group_pairs
from ctxbench.io.documents import dump_json
from ctxbench.io.errors import Message, ParameterError, raise_first
from ctxbench.labelling.overlap import (
    VECTORS,
    VECTORS_THRESHOLD,
    WORDS,
    WORDS_THRESHOLD,
    SimilarPair,
    connected_groups,
    similar_by_vectors,
    similar_by_words,
)
from ctxbench.model.arrays import Grade, IntArray
from ctxbench.model.resources import Embed
from ctxbench.search.chunking import query_chunks
from ctxbench.search.dense import chunks_of
from ctxbench.search.tokens import CharsCounter, TokenCounter
from ctxbench.search.words import words

GRADES = {2: "required", 1: "helpful", 0: "irrelevant"}


@dataclass(frozen=True, slots=True)
class FieldChanges:
    """A common item, query or field of the card, and its changed fields."""

    id: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SplitChange:
    """A query with its splits in both datasets."""

    query: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A label that only one dataset has, or that differs between the two.

    Attributes:
        query, item: ids.
        before, after: its fields (`grade`, `via`, `alternatives`, `source` and perhaps `quote`), None = no label.
    """

    query: str
    item: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def kind(self) -> str:
        """`added`, `removed` or `changed`."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartChanges:
    """Ids that only one dataset has, and changed fields, in the order of the dataset."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[FieldChanges, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True, eq=False, kw_only=True)
class DatasetDifference:
    """How dataset `b` differs from dataset `a`.

    Attributes:
        a, b: "name version hash" of each.
        items: by id; the fields are those of `corpus.jsonl`.
        reordered: common items have another order, which decides ties.
        queries: by id; the fields are those of `queries.jsonl` without the split.
        splits: queries with another split.
        labels: by query and item.
        card: changed fields of the card, without counts.
        scopes: changed named sets of items: (name, added ids, removed ids).
    """

    a: str
    b: str
    items: PartChanges
    reordered: bool
    queries: PartChanges
    splits: tuple[SplitChange, ...]
    labels: tuple[LabelChange, ...]
    card: tuple[FieldChanges, ...]
    scopes: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = field(default=())

    @property
    def equal(self) -> bool:
        """Whether the datasets are equal, ignoring the order of queries and labels."""
        parts = (self.items, self.queries, self.splits, self.labels, self.card, self.scopes)
        return not self.reordered and not any(parts)

    @property
    def label_counts(self) -> dict[str, dict[str, int]]:
        """Counts of labels: added and removed ones by grade, changed ones as `required -> helpful` or by field."""
        counts: dict[str, Counter[str]] = {"added": Counter(), "removed": Counter(), "changed": Counter()}
        for change in self.labels:
            counts[change.kind][_count_name(change)] += 1
        return {kind: dict(sorted(changes.items())) for kind, changes in counts.items()}

    def as_dict(self) -> dict[str, Any]:
        """The statistics as JSON."""
        return {
            "equal": self.equal,
            "a": self.a,
            "b": self.b,
            "items": asdict(self.items) | {"reordered": self.reordered},
            "queries": asdict(self.queries),
            "splits": [asdict(moved) for moved in self.splits],
            "labels": {
                "counts": self.label_counts,
                "list": [{"kind": change.kind, **asdict(change)} for change in self.labels],
            },
            "card": [asdict(changed) for changed in self.card],
            "scopes": [{"name": n, "added": list(plus), "removed": list(minus)} for n, plus, minus in self.scopes],
        }


def diff_datasets(a: Dataset, b: Dataset) -> DatasetDifference:
    """Compare two datasets, ignoring their names."""
    queries_a = {query.id: query for query in a.queries}
    queries_b = {query.id: query for query in b.queries}
    common = [query for query in queries_a if query in queries_b]
    return DatasetDifference(
        a=f"{a.name} {a.version} {a.hash[:12]}",
        b=f"{b.name} {b.version} {b.hash[:12]}",
        items=_parts({i.id: i.as_row() for i in a.catalog}, {i.id: i.as_row() for i in b.catalog}),
        reordered=_common_order(a.catalog.ids, b.catalog.ids) != _common_order(b.catalog.ids, a.catalog.ids),
        queries=_parts(
            {name: _without_split(query.as_row()) for name, query in queries_a.items()},
            {name: _without_split(query.as_row()) for name, query in queries_b.items()},
        ),
        splits=tuple(
            SplitChange(name, queries_a[name].split, queries_b[name].split)
            for name in common
            if queries_a[name].split != queries_b[name].split
        ),
        labels=_label_changes(a.labels, b.labels),
        card=_card(a, b),
        scopes=_scopes(a, b),
    )


def _parts(before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]) -> PartChanges:
    common = {name: differing(row, after[name]) for name, row in before.items() if name in after}
    return PartChanges(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=tuple(FieldChanges(name, fields) for name, fields in common.items() if fields),
    )


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that differ or exist in one only, in order of appearance.

    Values are compared as JSON: the order of keys counts, and 1 is not `true`.
    """
    texts = [{name: dump_json(value) for name, value in row.items()} for row in (before, after)]
    return tuple(name for name in {**before, **after} if texts[0].get(name) != texts[1].get(name))


def _without_split(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "split"}


def _common_order(ids: Sequence[str], second_ids: Sequence[str]) -> list[str]:
    common = set(second_ids)
    return [name for name in ids if name in common]


def _label_changes(before: Sequence[Label], after: Sequence[Label]) -> tuple[LabelChange, ...]:
    rows_a = {(label.query, label.item.id): _row(label) for label in before}
    rows_b = {(label.query, label.item.id): _row(label) for label in after}
    return tuple(
        LabelChange(query, item, rows_a.get((query, item)), rows_b.get((query, item)))
        for query, item in {**rows_a, **rows_b}
        if rows_a.get((query, item)) != rows_b.get((query, item))
    )


def _row(label: Label) -> dict[str, Any]:
    row = {"grade": label.grade, "via": label.via, "alternatives": label.alternatives, "source": label.source}
    return {**row, "quote": label.quote} if label.quote else row


def _count_name(change: LabelChange) -> str:
    """The name of the count of a changed label."""
    if change.before is not None and change.after is not None:
        return (
            f"{GRADES[change.before['grade']]} -> {GRADES[change.after['grade']]}"
            if change.before["grade"] != change.after["grade"]
            else ", ".join(differing(change.before, change.after))
        )
    label = change.after if change.before is None else change.before
    return GRADES[label["grade"]] if label is not None else ""


def _card(a: Dataset, b: Dataset) -> tuple[FieldChanges, ...]:
    derived = ("counts", "scopes")
    before = {name: value for name, value in a.card.items() if name not in derived}
    after = {name: value for name, value in b.card.items() if name not in derived}
    return tuple(FieldChanges(name, ()) for name in differing(before, after))


def _scopes(a: Dataset, b: Dataset) -> tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]:
    changes = []
    for name in {**a.scopes, **b.scopes}:
        before, after = a.scopes.get(name, ()), b.scopes.get(name, ())
        if a.scopes.get(name) != b.scopes.get(name):
            old, new = set(before), set(after)
            added = tuple(key.id for key in after if key not in old)
            changes.append((name, added, tuple(key.id for key in before if key not in new)))
    return tuple(changes)


WAYS = ("hash", "time")


@dataclass(frozen=True, eq=False, kw_only=True)
class Resplit:
    """A dataset with new splits, and the changes.

    Attributes:
        dataset: the dataset with the new splits.
        before, after: numbers of queries by split.
        judged: numbers of queries that metrics use, by new split.
        bundles: numbers of sets of queries that stay together, by new split.
        moved: the number of queries with another split.
        cut: the latest time of a tuning query, for a split by time; else empty.
        late: the number of test queries that are not after `cut`.
    """

    dataset: Dataset
    before: Mapping[str, int]
    after: Mapping[str, int]
    judged: Mapping[str, int]
    bundles: Mapping[str, int]
    moved: int
    cut: str = ""
    late: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The changes as JSON, without the dataset."""
        return {
            "dataset": self.dataset.name,
            "version": self.dataset.version,
            "hash": self.dataset.hash,
            "before": dict(self.before),
            "after": {
                name: {"queries": count, "judged": self.judged[name], "bundles": self.bundles[name]}
                for name, count in self.after.items()
            },
            "moved": self.moved,
            "cut": self.cut,
            "late": self.late,
        }


def split_dataset(
    dataset: Dataset, *, by: str = "hash", share: float | None = None, folds: int = 0, version: str | None = None
) -> Resplit:
    """Make new splits. Queries of one group or conversation stay in one split.

    By hash, the split of a query depends on its group only (else its conversation, else its id); with `share` 0.5 it
    is the split of `split_of`. By time, `tuning` has the earlier queries. Queries that stay together are placed by the
    last of them, so that no tuning query is later than `cut`; some test queries may be earlier.

    Args:
        dataset: any.
        by: `hash` or `time` (by default in UTC).
        share: the share of queries in `tuning`, above 0 and below 1; None = 0.5. By time, as close as possible, with at
            least one set of queries in each split; by hash, the chance of each set.
        folds: with 2 or more, splits `fold-1`, `fold-2` ... by hash instead of tuning and test; at most as many as
            sets of queries that stay together. Some may be empty.
        version: the version of the result; None = unchanged.

    Raises:
        ParameterError: a parameter is out of range, share and folds are both set, queries have no time for a split by
            time, or all queries stay together.
    """
    if folds and share is not None:
        raise ParameterError("share and folds exclude each other; remove one of them")
    share = 0.5 if share is None else share
    raise_first(
        (by not in WAYS, f"a dataset is split by {' or '.join(WAYS)}, got {by!r}"),
        (not 0 < share < 1, f"the share of tuning must be above 0 and below 1, got {share}"),
        (folds and (folds < 2 or by != "hash"), f"folds must be 2 or more, by hash; got {folds} by {by}"),
    )
    bundles = bundles_of(dataset.queries)
    if folds > len(bundles):
        raise ParameterError(
            f"dataset {dataset.name} has {len(bundles):,} {'query' if len(bundles) == 1 else 'queries'} or groups "
            f"that stay together, too few for {folds:,} folds"
        )
    splits, cut = (
        _time_splits(dataset, bundles, share)
        if by == "time"
        else ([_hash_split(name, folds=folds, share=share) for name, _ in bundles], "")
    )
    split = {dataset.queries[row].id: name for (_, rows), name in zip(bundles, splits, strict=True) for row in rows}
    queries = tuple(replace(query, split=split[query.id]) for query in dataset.queries)
    result = replace(dataset, queries=queries, version=version or dataset.version)
    judged = Counter(query.split for query in result.judged().queries)
    return Resplit(
        dataset=result,
        before=dataset.counts["splits"],
        after={**{f"fold-{n}": 0 for n in range(1, folds + 1)}, **result.counts["splits"]},
        judged={name: judged[name] for name in result.split_names},
        bundles={name: splits.count(name) for name in result.split_names},
        moved=sum(old.split != new.split for old, new in zip(dataset.queries, queries, strict=True)),
        cut=cut,
        late=sum(q.split == "test" and bool(cut) and _time(q) <= datetime.fromisoformat(cut) for q in queries),
    )


def bundles_of(queries: Sequence[DatasetQuery]) -> list[tuple[str, list[int]]]:
    """The sets of queries that stay together, with their names for hashing, in order of their first query.

    Queries of a group or conversation, and connected ones, stay together. The name is the first group by name, else
    the first conversation, else the id.
    """
    names = ((("group", query.group), ("conversation", query.request.conversation)) for query in queries)
    keys = ([key for key in pair if key[1] is not None] for pair in names)
    return [(_name([queries[row] for row in rows]), rows) for rows in connected_rows(keys)]


def _name(queries: Sequence[DatasetQuery]) -> str:
    groups = {query.group for query in queries if query.group is not None}
    conversations = {q.request.conversation for q in queries if q.request.conversation is not None}
    return min(groups or conversations or {queries[0].id})


def _hash_split(name: str, *, folds: int, share: float) -> str:
    if not folds and share == 0.5:
        return split_of(name)
    bits = int.from_bytes(hashlib.sha256(name.encode("utf-8", errors="surrogatepass")).digest()[:8], "big")
    if folds:
        return f"fold-{bits % folds + 1}"
    return SPLITS[0] if bits < share * 2**64 else SPLITS[1]


def _time_splits(dataset: Dataset, bundles: Sequence[tuple[str, list[int]]], share: float) -> tuple[list[str], str]:
    """The split of each bundle, and the latest time of a tuning query."""
    if without := [query.id for query in dataset.queries if query.request.time is None]:
        names = ", ".join(without[:3]) + (", ..." if len(without) > 3 else "")
        raise ParameterError(
            f"dataset {dataset.name}: {len(without)} of {len(dataset)} queries have no time ({names}); a split by time "
            "needs one for each: add field 'time' to queries.jsonl, or split by hash"
        )
    last = [max(_time(dataset.queries[i]) for i in rows) for _, rows in bundles]
    order = sorted(range(len(bundles)), key=lambda b: (last[b], bundles[b][0]))
    sizes = [len(bundles[b][1]) for b in order]
    if len(order) < 2:
        raise ParameterError(f"dataset {dataset.name}: all queries stay together; there is nothing to split")
    n_tuning = min(range(1, len(order)), key=lambda n: abs(sum(sizes[:n]) - share * len(dataset)))
    tuning = set(order[:n_tuning])
    return [SPLITS[0] if b in tuning else SPLITS[1] for b in range(len(bundles))], last[order[n_tuning - 1]].isoformat()


def _time(query: DatasetQuery) -> datetime:
    if query.request.time is None:
        raise RuntimeError(f"query {query.id} has no time")
    time = datetime.fromisoformat(query.request.time)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


RULE = Message("labelling.name-leak-rule")
_SHORTEST = 3
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class Leak:
    """A query that names a required item.

    Attributes:
        query: the query id.
        item: the item's id.
        how: `as written`, `by its words`, or `server` (only the server is named).
    """

    query: str
    item: str
    how: str


def find_leaks(dataset: Dataset) -> tuple[Leak, ...]:
    """The required items that queries name (without their history), in order of the labels."""
    leaks: list[Leak] = []
    for query in dataset.queries:
        if required := [label.item for label in dataset.labels_of(query.id) if label.grade == Grade.REQUIRED]:
            text = _Text(query.request.text)
            leaks += [
                Leak(query.id, key.id, how)
                for key in required
                if (how := text.names(key.name) or ("server" if key.server and text.names(key.server) else ""))
            ]
    return tuple(leaks)


class _Text:
    """The text of a query, prepared for the search for names."""

    def __init__(self, text: str) -> None:
        self._folded = text.casefold()
        self._words = f" {' '.join(words(text))} "
        self._split_words = f" {' '.join(words(_HUMP.sub(' ', text)))} "

    def names(self, name: str) -> str:
        """How the text has a name (see `Leak.how`); empty if it does not."""
        if len(name) >= _SHORTEST and any(self._stands_alone(name.casefold())):
            return "as written"
        parts = words(_HUMP.sub(" ", name))
        run = f" {' '.join(parts)} "
        return "by its words" if len(parts) > 1 and (run in self._words or run in self._split_words) else ""

    def _stands_alone(self, name: str) -> Iterator[bool]:
        start = self._folded.find(name)
        while start >= 0:
            end = start + len(name)
            before, after = self._folded[start - 1 : start], self._folded[end : end + 1]
            if not (before.isalnum() and name[0].isalnum()) and not (after.isalnum() and name[-1].isalnum()):
                yield True
            start = self._folded.find(name, start + 1)


AS_CARD = "as the card says"  # for labels without a source
LARGEST = 10  # listed items with most tokens
MOST_COMPARED = 10_000  # items that are compared; more would take minutes


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of whole numbers; all 0 if there are none.

    Attributes:
        n: the count.
        total, mean, least, median, p95, most: statistics of the numbers.
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
        method: the kind of similarity; empty if it was not computed.
        threshold: the least similarity of a pair.
        pairs: (id, id, similarity, whether the servers differ), most similar first.
        groups: the number of connected sets of items.
        items: the number of items in these sets.
        across: the number of pairs with different servers.
        skipped: why nothing was computed; else empty.
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
    """Queries of one tag: by split, unlabelled, without needs; `required` is the mean of required items per query."""

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
        name, version, hash: of the dataset.
        counts: the counts of the card.
        labels: counts of labels by `grade`, `via` and `source`.
        spreads: distributions by name; `labels per query` and `required per query` (alternatives once) are without
            queries that have none.
        counter: the token counter.
        tokens_by: (items, prompt tokens) by `type` and by `server` (empty = none).
        largest: (id, tokens) of the items with most tokens.
        near: near-duplicate items.
        leaks: queries that name a required item, or its server.
        leak_queries: the number of queries with a required item.
        never_required: ids of items that no query requires, in catalog order.
        unlabelled: ids of queries that are not labelled in full.
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
        """The number of queries that name a required item, not only its server."""
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
    embed: Embed | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> DatasetStats:
    """Compute statistics of a dataset. Without `embed` no model is needed.

    Args:
        dataset: any.
        counter: counts prompt tokens. With a file of counts of items, tokens of queries are counted by `chars/4`.
        threshold: the least similarity of near-duplicates; None = 0.7 by words, 0.85 by vectors.
        embed: makes unit vectors of texts, to find near-duplicates by vectors instead of words.
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
    return {
        "grade": {name: grades[grade] for grade, name in GRADES.items()},
        "via": dict(sorted(Counter(label.via for label in dataset.labels).items(), reverse=True)),
        "source": dict(sorted(Counter(label.source or AS_CARD for label in dataset.labels).items())),
        "alternatives": {"labels": sum(bool(label.alternatives) for label in dataset.labels)},
    }


def required_counts(dataset: Dataset) -> dict[str, int]:
    """The number of required items per query (alternatives once), for queries with any."""
    return {query: len(groups) for query, groups in dataset.required.items() if groups}


def _spreads(dataset: Dataset, counter: TokenCounter, item_tokens: IntArray) -> dict[str, Spread]:
    texts = [query.request.text for query in dataset.queries]
    of_queries = CharsCounter() if counter.name.startswith("file:") else counter
    return {
        "labels per query": Spread.of(Counter(label.query for label in dataset.labels).values()),
        "required per query": Spread.of(required_counts(dataset).values()),
        "words per query": Spread.of(len(words(text)) for text in texts),
        f"tokens per query ({of_queries.name})": Spread.of(of_queries.count([q.id for q in dataset.queries], texts)),
        "chunks per query": Spread.of(len(query_chunks(text)) for text in texts),
        "words per item": Spread.of(len(words(item.search_text)) for item in dataset.catalog),
        f"tokens per item ({counter.name})": Spread.of(item_tokens),
        "chunks per item": Spread.of(len(chunks_of(item)) for item in dataset.catalog),
    }


def _tokens_by(names: Sequence[str], tokens: IntArray) -> dict[str, tuple[int, int]]:
    """Items and tokens by name, most tokens first."""
    counts = group_pairs(zip(names, tokens.tolist(), strict=True))
    return {name: (len(counts[name]), sum(counts[name])) for name in sorted(counts, key=lambda n: (-sum(counts[n]), n))}


def _near(
    dataset: Dataset,
    threshold: float | None,
    embed: Embed | None,
    progress: Callable[[int, int], None] | None,
) -> SimilarityStats:
    catalog = dataset.catalog
    if len(catalog) > MOST_COMPARED:
        return SimilarityStats(skipped=Message("labelling.too-many-items", n=len(catalog), most=MOST_COMPARED))
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
