"""The labels of a dataset as codes, so that tables of answers are joined with them by one look-up."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ctxbench.bench.metrics import Grade
from ctxbench.core.arrays import BoolArray, IntArray
from ctxbench.data.datasets.dataset import Dataset

MOST_CHOSEN = 60  # chosen items of one query that the page lists
NEAREST = 10  # items that stayed out, of one query


@dataclass(frozen=True, eq=False)
class LabelCodes:
    """The labels of a dataset as codes `query * n_items + item`, so that tables are joined by one look-up.

    Attributes:
        n_items: of the catalog.
        code: shape (n_labels,), rising.
        grade: shape (n_labels,).
        group: shape (n_labels,); alternatives of one query share it, -1 = not required.
        complete: whether all required items of a query are known, shape (n_queries,).
    """

    n_items: int
    code: IntArray
    grade: IntArray
    group: IntArray
    complete: BoolArray

    @classmethod
    def of(cls, dataset: Dataset) -> LabelCodes:
        """Read the labels of a dataset."""
        judgments, n_items = dataset.judgments, len(dataset.catalog)
        request = np.repeat(np.arange(judgments.n_queries), np.diff(judgments.start))
        code = request * max(n_items, 1) + judgments.item
        order = np.argsort(code)
        complete = np.ones(judgments.n_queries, dtype=np.bool_) if judgments.complete is None else judgments.complete
        return cls(max(n_items, 1), code[order], judgments.grade[order], judgments.group[order], complete)

    def of_complete(self) -> LabelCodes:
        """The labels of queries whose required items are all known."""
        rows = self.complete[self.request]
        return replace(self, code=self.code[rows], grade=self.grade[rows], group=self.group[rows])

    def between(self, first: int, n_queries: int) -> LabelCodes:
        """The labels of some queries that follow each other, the first of them as query 0."""
        ends = np.searchsorted(self.code, np.array([first, first + n_queries]) * self.n_items)
        rows = slice(int(ends[0]), int(ends[1]))
        complete = self.complete[first : first + n_queries]
        code = self.code[rows] - first * self.n_items
        return LabelCodes(self.n_items, code, self.grade[rows], self.group[rows], complete)

    @property
    def request(self) -> IntArray:
        """The query of each label, shape (n_labels,)."""
        return self.code // self.n_items

    def with_grade(self, *grades: int) -> IntArray:
        """The codes of these grades."""
        return self.code[np.isin(self.grade, grades)]

    def met(self, chosen: IntArray, n_queries: int) -> tuple[IntArray, IntArray]:
        """Of each query's requirements (alternatives are one) how many there are, and how many are met.

        Args:
            chosen: codes of what stood in the prompts.
            n_queries: length of both results.
        """
        required = self.grade == Grade.REQUIRED
        groups = np.stack([self.request[required], self.group[required]], axis=1)
        distinct, inverse = np.unique(groups, axis=0, return_inverse=True)
        hit = np.zeros(len(distinct), dtype=np.bool_)
        np.logical_or.at(hit, inverse.reshape(-1), np.isin(self.code[required], chosen))
        return (
            np.bincount(distinct[:, 0], minlength=n_queries).astype(np.int64),
            np.bincount(distinct[hit, 0], minlength=n_queries).astype(np.int64),
        )
