"""A labelled dataset: catalog, queries, labels, splits and card, under a content hash."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.datasets.queries import Contents, DatasetQuery, Label, check_contents, group_pairs
from ctxbench.io.documents import dump_json
from ctxbench.io.errors import Fault, Message, ParameterError, check_known, raise_faults
from ctxbench.model.arrays import Grade, Judgments, Via, starts
from ctxbench.model.items import Catalog, ItemKey
from ctxbench.model.requests import Batch, Request

SPLITS = ("tuning", "test")
FORMAT = 1
TREC = "trec"  # as what labels are judged


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """A labelled dataset. Its labels are sorted by query, then by the position of the item in the catalog.

    Attributes:
        name: letters, digits, `.`, `-` and `_`.
        version: free text.
        catalog: the items.
        queries: in the order of the file.
        labels: every label, in the order of the queries, then of the catalog.
        about: licence, source, labelling (how it was labelled) and, if there are any, notes; `frozen` is the hash
            that the card says the content has; `agent` is the agent file whose items the catalog are, as an absolute
            path.
        scopes: named sets of items that queries may get.
        former_ids: where the catalog was edited by hand, ids of the items that it had: labels may name them although
            they are gone or can no longer be offered. None = it was not edited.
        gone: how many of them are at the end of the catalog, disabled, only because labels, scopes or lists of
            available items name them; see `current_catalog`.
        judged_as: `trec` = labels are judged as trec_eval does: every item of grade 1 or 2 is required for itself, and
            an item without a label is irrelevant, so that every query with a label is measured. Empty = as ctxbench
            does. No part of the hash.

    Raises:
        InputError: ids twice, a name that is unknown, a label that contradicts another, and so on: all at once.
    """

    name: str
    version: str
    catalog: Catalog
    queries: tuple[DatasetQuery, ...]
    labels: tuple[Label, ...]
    about: Mapping[str, Any] = field(default_factory=dict)
    scopes: Mapping[str, tuple[ItemKey, ...]] = field(default_factory=dict)
    former_ids: frozenset[str] | None = None
    gone: int = 0
    judged_as: str = ""

    def __post_init__(self) -> None:
        faults = check_contents(
            Contents(
                items=self.catalog.by_key,
                scopes=self.scopes,
                queries=self.queries,
                labels=self.labels,
                former_ids=self.former_ids,
                gone=self._gone,
            )
        )
        if wrong_name := name_fault(self.name):
            faults.insert(0, Fault(wrong_name))
        raise_faults(faults, subject=f"dataset {self.name}")
        row = {query.id: i for i, query in enumerate(self.queries)}
        ordered = sorted(self.labels, key=lambda label: (row[label.query], self.catalog.position(label.item)))
        object.__setattr__(self, "labels", tuple(ordered))

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {self.version!r}, queries={len(self)}, items={len(self.catalog)})"

    def of_agent(self, path: Path | None) -> Dataset:
        """The dataset over the items of an agent file, which are read anew each time; None = over its own again."""
        about = {name: value for name, value in self.about.items() if name != "agent"}
        return replace(self, about=about if path is None else {**about, "agent": os.path.normpath(path.absolute())})

    def judged_by(self, judged_as: str) -> Dataset:
        """The dataset with its labels judged in another way, see `judged_as`; itself if they are."""
        return self if judged_as == self.judged_as else replace(self, judged_as=judged_as)

    @cached_property
    def hash(self) -> str:
        """SHA-256 over the catalog and `labels_hash`; name, version and card are not in it.

        The order of the items counts, since it breaks ties; that of queries and labels does not.
        """
        return hashlib.sha256(f"{self.catalog.hash} {self.labels_hash}".encode("ascii")).hexdigest()

    @cached_property
    def labels_hash(self) -> str:
        """SHA-256 over queries, splits, scopes and labels, without the items: runs with the same are comparable."""
        rows = sorted(dump_json(query.as_row()) for query in self.queries)
        labels = ([i.query, i.item.id, i.grade, i.via, i.alternatives, *filter(None, [i.quote])] for i in self.labels)
        rows += sorted(map(dump_json, labels))
        names = {query.scope for query in self.queries}
        rows += [
            dump_json([name, [key.id for key in self.scopes[name]]]) for name in sorted(self.scopes) if name in names
        ]
        return hashlib.sha256("\n".join(rows).encode("utf-8")).hexdigest()

    @cached_property
    def renames(self) -> dict[ItemKey, ItemKey]:
        """Items with another id when labels were made, old to new: the card's `renames`."""
        return {ItemKey.parse(old): ItemKey.parse(new) for old, new in (self.about.get("renames") or {}).items()}

    @cached_property
    def current_catalog(self) -> Catalog:
        """The items that a selector chooses from: `catalog` without the items that are gone, which come last."""
        return self.catalog if not self.gone else Catalog(self.catalog[: -self.gone])

    @cached_property
    def _gone(self) -> frozenset[ItemKey]:
        return frozenset(item.key for item in self.catalog[len(self.catalog) - self.gone :])

    def requests(self) -> tuple[Request, ...]:
        """The requests of the queries, in their order; items that are gone are available to none."""
        return self._requests

    @cached_property
    def _requests(self) -> tuple[Request, ...]:
        requests = tuple(query.request for query in self.queries)
        if not self.gone:
            return requests
        current = {
            available: None if available is None else tuple(key for key in available if key not in self._gone)
            for available in {request.available for request in requests}
        }
        return tuple(replace(request, available=current[request.available]) for request in requests)

    def batch(self) -> Batch:
        """All requests over the current catalog."""
        return self._batch

    @cached_property
    def _batch(self) -> Batch:
        return Batch.of(self.current_catalog, self.requests())

    def labels_of(self, query_id: str) -> tuple[Label, ...]:
        """The labels of one query, in the order of the catalog; none for one without labels.

        Raises:
            UnknownNameError: there is no such query.
        """
        check_known("query", query_id, self._labels_by_query, where=f" in dataset {self.name}")
        return self._labels_by_query[query_id]

    @cached_property
    def _labels_by_query(self) -> dict[str, tuple[Label, ...]]:
        labels = group_pairs((label.query, label) for label in self.labels)
        return {query.id: tuple(labels.get(query.id, ())) for query in self.queries}

    @cached_property
    def unlabelled(self) -> tuple[str, ...]:
        """Ids of queries whose required items are not all known.

        They are partly labelled, or have no required item and are not said to need nothing. Judged as trec_eval does,
        they have no label at all.
        """
        trec = self.judged_as == TREC
        labelled = {label.query for label in self.labels if trec or label.grade == Grade.REQUIRED}
        labelled |= {query.id for query in self.queries if query.needs_nothing}
        return tuple(
            query.id for query in self.queries if (query.partly_labelled and not trec) or query.id not in labelled
        )

    @cached_property
    def only_negatives(self) -> tuple[str, ...]:
        """Ids of the unlabelled queries that have a forbidden item: metrics of forbidden items apply to them."""
        negative = self.forbidden
        return tuple(query for query in self.unlabelled if query in negative)

    @cached_property
    def forbidden(self) -> dict[str, tuple[ItemKey, ...]]:
        """The items labelled irrelevant by query id, of the queries that have any."""
        pairs = group_pairs((label.query, label.item) for label in self.labels if label.grade == Grade.IRRELEVANT)
        return {query: tuple(items) for query, items in pairs.items()}

    @cached_property
    def judgments(self) -> Judgments:
        """The labels as arrays: row i is query i, items are catalog positions.

        Required items of one query that share `alternatives` share a group; each other one is a group alone. Queries
        that are `unlabelled` are not `complete`. Judged as trec_eval does, every relevant item is required, alone.
        """
        unlabelled, trec = set(self.unlabelled), self.judged_as == TREC
        groups: list[int] = []
        for query in self.queries:
            first: dict[str, int] = {}
            for i, label in enumerate(self._labels_by_query[query.id]):
                group = i if trec or not label.alternatives else first.setdefault(label.alternatives, i)
                groups.append(group if label.grade >= self._least_required else -1)
        gain = np.array([label.grade for label in self.labels], dtype=np.int64)
        return Judgments(
            start=starts([len(self._labels_by_query[query.id]) for query in self.queries]),
            item=np.array([self.catalog.position(label.item) for label in self.labels], dtype=np.int64),
            grade=np.where(gain >= self._least_required, Grade.REQUIRED, gain),
            group=np.array(groups, dtype=np.int64),
            via=np.array([Via[label.via.upper()] for label in self.labels], dtype=np.int64),
            complete=np.array([query.id not in unlabelled for query in self.queries]) if unlabelled else None,
            gain=gain if trec else None,
        )

    @property
    def _least_required(self) -> Grade:
        """The lowest grade of an item that counts as required."""
        return Grade.HELPFUL if self.judged_as == TREC else Grade.REQUIRED

    @cached_property
    def required(self) -> dict[str, tuple[tuple[ItemKey, ...], ...]]:
        """Groups of required items by query id; of each group one item is needed. () where nothing is required."""
        required = group_pairs(
            ((label.query, (self.judged_as != TREC and label.alternatives) or label.item), label.item)
            for label in self.labels
            if label.grade >= self._least_required
        )
        groups = group_pairs((query, tuple(items)) for (query, _), items in required.items())
        return {query.id: tuple(groups.get(query.id, ())) for query in self.queries}

    @property
    def split_names(self) -> tuple[str, ...]:
        """The splits that have queries: `tuning` and `test` first, others by name."""
        present = {query.split for query in self.queries}
        return (*(s for s in SPLITS if s in present), *sorted(present - set(SPLITS)))

    def split(self, name: str) -> Dataset:
        """The queries of one split and their labels, over the whole catalog.

        Raises:
            UnknownNameError: no query is of that split.
        """
        check_known("split", name, self.split_names, where=f" of dataset {self.name}")
        return self.take(query.id for query in self.queries if query.split == name)

    def with_labels(self, labels: Iterable[Label]) -> Dataset:
        """The same dataset with other labels; a query that requires something with them does not need nothing."""
        labels = tuple(labels)
        required = {label.query for label in labels if label.grade == Grade.REQUIRED}
        queries = tuple(
            replace(query, needs_nothing=False) if query.needs_nothing and query.id in required else query
            for query in self.queries
        )
        return replace(self, queries=queries, labels=labels)

    def judged(self) -> Dataset:
        """The queries whose required items are all known: all but the unlabelled; itself if none is unlabelled."""
        return self._without(self.unlabelled)

    def measured(self, also: Iterable[str] = ()) -> Dataset:
        """The queries that some metric applies to: those `judged`, and those with `only_negatives`.

        Args:
            also: ids of further queries to keep, such as those of pins.
        """
        query_ids = {*self.only_negatives, *also}
        return self._without(query for query in self.unlabelled if query not in query_ids)

    def _without(self, query_ids: Iterable[str]) -> Dataset:
        """All queries but these; the dataset itself if there are none."""
        left_out = set(query_ids)
        return self if not left_out else self.take(query.id for query in self.queries if query.id not in left_out)

    def take(self, query_ids: Iterable[str]) -> Dataset:
        """Some of the queries, in the order of this dataset, with their labels; catalog and card stay.

        Raises:
            UnknownNameError: there is no such query.
        """
        labels = {query_id: self.labels_of(query_id) for query_id in query_ids}
        queries = tuple(query for query in self.queries if query.id in labels)
        return replace(self, queries=queries, labels=tuple(label for query in queries for label in labels[query.id]))

    @cached_property
    def counts(self) -> dict[str, Any]:
        """Counts for the card: items by type, queries by split and state of their labels, labels by grade."""
        grade = Counter(label.grade for label in self.labels)
        split = Counter(query.split for query in self.queries)
        return {
            "items": len(self.catalog),
            "types": dict(sorted(Counter(item.type for item in self.catalog).items())),
            "queries": len(self.queries),
            "splits": {name: split[name] for name in self.split_names},
            "needs_nothing": sum(query.needs_nothing for query in self.queries),
            "unlabelled": len(self.unlabelled),
            "partly_labelled": sum(query.partly_labelled for query in self.queries),
            "labels": len(self.labels),
            "required": grade[Grade.REQUIRED],
            "helpful": grade[Grade.HELPFUL],
            "irrelevant": grade[Grade.IRRELEVANT],
            "dependency": sum(label.via == "dependency" for label in self.labels),
        }

    @property
    def card(self) -> dict[str, Any]:
        """The card, as `dataset.yaml` holds it: name, version, licence, source, labelling, counts, scopes ..."""
        card: dict[str, Any] = {"format": FORMAT, "name": self.name, "version": self.version, **self.about}
        if card.get("frozen") != self.hash:
            card.pop("frozen", None)  # other content was frozen
        card["counts"] = self.counts
        if self.scopes:
            card["scopes"] = {name: [key.id for key in keys] for name, keys in self.scopes.items()}
        return card


def split_of(key: str) -> str:
    """`tuning` or `test` for a group (or the id of a query that has none): half and half, by SHA-256.

    Even first 64 bits are `tuning`. The same key is in the same split in every dataset.
    """
    digest = hashlib.sha256(key.encode("utf-8", errors="surrogatepass")).digest()
    return SPLITS[int.from_bytes(digest[:8], "big") % 2]


def name_fault(name: str) -> str | None:
    """The fault of a dataset's name, or None."""
    return None if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) else Message("datasets.name", got=name)


def name_of_path(path: Path, default: str) -> str:
    """A name for a dataset: the last part of a path with `-` for what a name cannot hold; `default` if nothing is left.

    Of a file the name ends at the first dot.
    """
    stem = path.resolve().name
    stem = stem.split(".")[0] if path.is_file() else stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or default


def select_queries(dataset: Dataset, *, split: str = "", sample: int = 0, seed: int = 0) -> Dataset:
    """Keep the queries of a split, or a sample of them, over the whole catalog and in the order of the dataset.

    Args:
        dataset: any.
        split: whose queries; empty = those of all splits.
        sample: as `n` of `draw_sample`; 0 = all of them.
        seed: of the draw.

    Raises:
        UnknownNameError: no query is of that split.
        ParameterError: the sample is too small, see `draw_sample`.
    """
    queries = dataset.split(split) if split else dataset
    return draw_sample(queries, sample, seed=seed) if sample else queries


def draw_sample(dataset: Dataset, n: int, *, seed: int) -> Dataset:
    """Draw at most `n` of the queries that metrics can be computed for, in whole groups.

    Groups (a query without one is a group alone) are put in the order of a hash of seed and name, and drawn as long
    as they fit; the first that does not fit ends the draw, so that small groups are no likelier than large ones, and
    a smaller sample is part of a larger one. Neither the order of the queries nor what other groups there are
    decides whether one group comes before another. Of the queries that have `only_negatives`, which most metrics
    leave out, as many are drawn beside them; the other unlabelled ones are neither drawn nor counted, and stay. With no
    more than `n` queries of either kind the dataset is returned unchanged.

    Args:
        dataset: whose queries are drawn from.
        n: how many at most, >= 1.
        seed: another seed draws other groups.

    Raises:
        ParameterError: `n` is below 1, or the first group alone has more queries.
    """
    if n < 1:
        raise ParameterError(f"sample must be 1 or more, got {n}")
    of_negatives = set(dataset.only_negatives)
    kinds = dataset.judged().queries, [query for query in dataset.queries if query.id in of_negatives]
    if all(len(queries) <= n for queries in kinds):
        return dataset
    drawn = [query for queries in kinds for query in _drawn(dataset.name, queries, n, seed)]
    return dataset.take([*drawn, *(query for query in dataset.unlabelled if query not in of_negatives)])


def _drawn(name: str, queries: Sequence[DatasetQuery], n: int, seed: int) -> list[str]:
    """Ids of the queries of `draw_sample` among some of one kind."""
    if len(queries) <= n:
        return [query.id for query in queries]
    groups = group_pairs((query.id if query.group is None else query.group, query.id) for query in queries)
    drawn: list[str] = []
    for group in sorted(groups, key=lambda group: (_digest(seed, group), group)):
        if len(drawn) + len(groups[group]) > n:
            break
        drawn += groups[group]
    if not drawn:
        largest = max(map(len, groups.values()))
        raise ParameterError(
            f"sample must leave room for whole groups: those of dataset {name} have up to {largest} queries, got {n}"
        )
    return drawn


def _digest(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogatepass")).digest()
