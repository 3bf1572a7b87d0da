"""Snapshots: all that the gate needs to know of one selector on one dataset at one time, whatever it was read from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ctxbench.arrays import FloatArray
from ctxbench.evaluation.datasets.dataset import Dataset
from ctxbench.evaluation.datasets.labels import DatasetQuery, Label
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.metrics.inputs import Grade
from ctxbench.items import Item
from ctxbench.jsonio import dump_json
from ctxbench.selection import Offered

NEAR = 5  # candidates that stayed out which a snapshot keeps of each query: what may come in next
SHORT = 16  # hex digits of a content hash


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFact:
    """An item of the catalog.

    Attributes:
        id: percent-encoded.
        hash: of all its fields, `SHORT` hex digits.
        tokens: prompt tokens.
        row: its fields as in `corpus.jsonl`; None where texts are kept out.
        prompt: hash of its prompt text, which `tokens` counts; `SHORT` hex digits, empty = not known.
    """

    id: str
    hash: str
    tokens: int
    row: Mapping[str, Any] | None = None
    prompt: str = ""

    @classmethod
    def of(cls, item: Item, tokens: int) -> ItemFact:
        """Note an item, texts and all."""
        row = item.as_row()
        return cls(id=item.id, hash=content_hash(row), tokens=tokens, row=row, prompt=content_hash(item.prompt_text))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFact:
    """A query with its labels.

    Attributes:
        id: of the query.
        asked: hash of what the selector is asked, its tags, group and split left out; `SHORT` hex digits.
        labelled: hash of its labels; `SHORT` hex digits.
        required: item ids that must be offered; each inner tuple is a set of alternatives, any one of which is enough.
        needs_nothing: someone has judged that no item is required.
        group: paraphrases share it; its id where it has none.
        tags: for pins.
        text: what the user asks; empty where texts are kept out.
    """

    id: str
    asked: str
    labelled: str
    required: tuple[tuple[str, ...], ...] = ()
    needs_nothing: bool = False
    group: str = ""
    tags: tuple[str, ...] = ()
    text: str = ""

    @classmethod
    def of(cls, query: DatasetQuery, labels: Iterable[Label]) -> QueryFact:
        """Note a query, text and all."""
        own = {"split", "group", "tags", "needs", "labelled"}
        labels = list(labels)
        asked = {name: value for name, value in query.as_row().items() if name not in own}
        labelled = sorted([one.item.id, one.grade, one.via, one.alternatives] for one in labels)
        needs: dict[str, list[str]] = {}
        for place, label in enumerate(labels):
            if label.grade == Grade.REQUIRED:
                needs.setdefault(label.alternatives or f"\0{place}", []).append(label.item.id)
        return cls(
            id=query.id,
            asked=content_hash(asked),
            labelled=content_hash([query.needs_nothing, labelled]),
            required=tuple(sorted(tuple(sorted(one)) for one in needs.values())),
            needs_nothing=query.needs_nothing,
            group=query.group or query.id,
            tags=query.tags,
            text=query.request.text,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class AnswerFact:
    """What one query was offered.

    Attributes:
        query: its id.
        offered: in the one order.
        near: candidates that stayed out, best first, each with the rule that kept it out; at most `NEAR` in a baseline,
            all of them in a snapshot of a run.
        error: what went wrong; empty = nothing.
    """

    query: str
    offered: tuple[Offered, ...]
    near: tuple[Offered, ...] = ()
    error: str = ""

    @cached_property
    def score_of(self) -> Mapping[str, float]:
        """Scores of the candidates that have one, by item id, those that stayed out among them."""
        return {one.id: one.score for one in (*self.offered, *self.near) if one.score is not None}


@dataclass(frozen=True, eq=False, kw_only=True)
class Identity:
    """What decides an answer, beside catalog and queries.

    Attributes:
        selector: what the selector says of itself: steps with all their parameters, or a command with its hash.
        values: its parameters by the names that users know; empty for outside selectors.
        embedder: key of the model; empty = the selector uses none.
        tokens: the counter.
        versions: of Python, ctxbench, its code, and libraries.
        git: commit, or None.
        outside: True for a selector of the user's.
    """

    selector: Mapping[str, Any]
    embedder: str
    tokens: str
    values: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    git: str | None = None
    outside: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Snapshot:
    """One selector on one dataset.

    Attributes:
        dataset, selector: names.
        items: by id, in catalog order.
        queries: by id, in the order of the dataset; judged ones only.
        answers: by query id; a query may be missing where the run lacks it.
        metrics: values by query in the order of `queries`, shape (n_queries,); NaN = does not apply.
        identity: what decided the answers.
        repeats: how many times every query was asked; more than once for a selector that may answer differently.
        spread: by metric name, the standard deviation of its mean over repeats; empty without repeats.
        unsteady: ids of queries whose offer differed between repeats.
        source: where it comes from, for messages: a file, a folder, or `this run`.
        judged: the dataset that the queries are of, which a snapshot of a run has at hand and a baseline has not. It
            tells whether queries and labels that name renamed items are otherwise the same.
    """

    dataset: str
    selector: str
    items: Mapping[str, ItemFact]
    queries: Mapping[str, QueryFact]
    answers: Mapping[str, AnswerFact]
    metrics: Mapping[Metric, FloatArray]
    identity: Identity
    repeats: int = 1
    spread: Mapping[str, float] = field(default_factory=dict)
    unsteady: tuple[str, ...] = ()
    source: str = "this run"
    judged: Dataset | None = None


def content_hash(value: Any) -> str:
    """The first `SHORT` hex digits of SHA-256 over a JSON value; the order of keys counts."""
    return hashlib.sha256(dump_json(value).encode("utf-8", "surrogatepass")).hexdigest()[:SHORT]


def facts_of(dataset: Dataset, tokens: Iterable[int]) -> tuple[dict[str, ItemFact], dict[str, QueryFact]]:
    """Items and queries of a judged dataset, by id, in its order.

    Args:
        dataset: every query labelled, or said to need nothing.
        tokens: prompt tokens of every item, in catalog order.
    """
    items = {item.id: ItemFact.of(item, int(n)) for item, n in zip(dataset.catalog, tokens, strict=True)}
    queries = {query.id: QueryFact.of(query, dataset.labels_of(query.id)) for query in dataset.queries}
    return items, queries


def without_texts(snapshot: Snapshot) -> Snapshot:
    """The snapshot with nothing in it that someone wrote, but ids."""
    return replace(
        snapshot,
        items={name: replace(item, row=None) for name, item in snapshot.items.items()},
        queries={name: replace(query, text="") for name, query in snapshot.queries.items()},
        judged=None,
    )
