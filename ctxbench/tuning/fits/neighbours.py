"""What the labelled queries of a dataset say of one another: the columns `labelled.*`, without a query's own labels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.items import Catalog
from ctxbench.core.stages import Resources
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.features.labelled_requests import LABELLED, LabelledRequests, needed_columns

MOST = 2000
"""How many labelled requests a fit keeps, or a few more: whole groups, those with the lowest hashes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Neighbours:
    """How much each labelled query is like those that a fit keeps, and what these need.

    Attributes:
        requests: those that a fit keeps.
        kept: their places among all queries, rising, shape (n_kept,).
        similarity: of every query to every kept one, shape (n_queries, n_kept).
        catalog: whose items they need.
        query, item: of each row of the examples, shape (n,).
    """

    requests: LabelledRequests
    kept: IntArray
    similarity: FloatArray
    catalog: Catalog
    query: IntArray
    item: IntArray

    @classmethod
    def of(
        cls, dataset: Dataset, groups: Sequence[str], resources: Resources, *, query: IntArray, item: IntArray
    ) -> Neighbours:
        """Compare the queries of a dataset with one another.

        Args:
            dataset: labelled queries only.
            groups: of each query, shape (n_queries,); queries of one group know nothing of one another.
            resources: give the vectors of the requests' texts.
            query, item: of each row of the examples.
        """
        kept = _kept(groups)
        requests = _requests(dataset, groups, kept)
        vectors = resources.vectors([one.request.text for one in dataset.queries])
        of_kept = vectors[kept]
        similarity = np.zeros((len(dataset), len(kept)))
        for place, (one, vector) in enumerate(zip(dataset.queries, vectors, strict=True)):
            if one.request.text.strip():
                similarity[place] = requests.similarity(one.id, vector, of_kept)
        return cls(requests=requests, kept=kept, similarity=similarity, catalog=dataset.catalog, query=query, item=item)

    def columns(self, known: BoolArray) -> FloatArray:
        """The columns of all rows where only the labels of some queries are known, shape (n, 2).

        Args:
            known: whether the labels of a query are, shape (n_queries,).
        """
        there = known[self.kept]
        needed = _taken(self.requests, there).needed_by(self.catalog)
        if not needed:
            return np.zeros((len(self.item), len(LABELLED)))
        return needed_columns(self.similarity[:, there], self.query, self.item, needed)

    def part(self, queries: BoolArray) -> Neighbours:
        """Those of some queries, shape (n_queries,), as if there were no others."""
        there, new, rows = queries[self.kept], np.cumsum(queries) - 1, queries[self.query]
        return replace(
            self,
            requests=_taken(self.requests, there),
            kept=new[self.kept[there]],
            similarity=self.similarity[queries][:, there],
            query=new[self.query[rows]],
            item=self.item[rows],
        )


def _kept(groups: Sequence[str]) -> IntArray:
    """The places of whole groups until there are `MOST` queries, rising."""
    names, group, size = np.unique(np.array(groups, dtype=object), return_inverse=True, return_counts=True)
    hashes = [hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest() for name in names]
    by_hash = np.array(sorted(range(len(names)), key=hashes.__getitem__), dtype=np.int64)
    before = np.cumsum(size[by_hash]) - size[by_hash]
    return np.flatnonzero(np.isin(group, by_hash[before < MOST])).astype(np.int64)


def _requests(dataset: Dataset, groups: Sequence[str], kept: IntArray) -> LabelledRequests:
    """Some queries of a dataset, with what they need."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(groups[place] for place in kept.tolist()))}
    judgments, ids, queries = dataset.judgments, dataset.catalog.ids, [dataset.queries[one] for one in kept.tolist()]
    spans = [slice(int(judgments.start[one]), int(judgments.start[one + 1])) for one in kept.tolist()]
    return LabelledRequests(
        ids=tuple(one.id for one in queries),
        groups=tuple(numbers[groups[place]] for place in kept.tolist()),
        texts=tuple(one.request.text for one in queries),
        items=tuple(
            tuple(ids[item] for item in judgments.item[span][judgments.grade[span] == 2].tolist()) for span in spans
        ),
    )


def _taken(requests: LabelledRequests, there: BoolArray) -> LabelledRequests:
    """Some of the requests, shape (n,)."""
    return LabelledRequests.read([row for row, held in zip(requests.as_rows(), there.tolist(), strict=True) if held])
