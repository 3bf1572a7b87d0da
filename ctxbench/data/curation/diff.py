"""Compare two datasets: items, queries, splits, labels and cards, by identity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.query_labels import Label
from ctxbench.io.json_files import dump_json

GRADES = {2: "required", 1: "helpful", 0: "irrelevant"}


@dataclass(frozen=True, slots=True)
class FieldChanges:
    """An item, query or field of the card that both datasets have, and its fields that differ."""

    id: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SplitChange:
    """A query with its splits in the two datasets."""

    query: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A label that only one dataset has, or that differs between the two.

    Attributes:
        query, item: ids.
        before, after: its fields (`grade`, `via`, `alternatives`, `source`, and `quote` if it has one), None where
            there is no label.
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
    """Ids that only one dataset has, and changes of fields, in the order of the dataset that has them."""

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
        reordered: items of both datasets have another order, which decides ties.
        queries: by id; the fields are those of `queries.jsonl` without the split.
        splits: queries of another split.
        labels: by query and item.
        card: fields of the card that differ; counts follow from the rest and are left out.
        scopes: named sets of items that differ: (name, added ids, removed ids).
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
        """Whether nothing differs; the order of queries and labels in the files does not count."""
        parts = (self.items, self.queries, self.splits, self.labels, self.card, self.scopes)
        return not self.reordered and not any(parts)

    @property
    def label_counts(self) -> dict[str, dict[str, int]]:
        """How many labels were added and removed, by grade, and changed, as `required -> helpful` or by field."""
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
    """Compare two datasets, whatever their names."""
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
    """The fields that are in one only or differ, in order of appearance.

    Values are compared as the JSON that is hashed and sent: the order of keys counts, and 1 is not `true`.
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
    """The name under which a change of a label is counted."""
    if change.before is not None and change.after is not None:
        if change.before["grade"] != change.after["grade"]:
            return f"{GRADES[change.before['grade']]} -> {GRADES[change.after['grade']]}"
        return ", ".join(differing(change.before, change.after))
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
