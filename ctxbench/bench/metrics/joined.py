"""Labels joined to what was offered and ranked: what every metric is computed from."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from ctxbench.bench.metrics.inputs import DEPTH, SESSION, Evidence, Grade
from ctxbench.core.arrays import BoolArray, FloatArray, IntArray, owners

NEVER = np.inf  # the rank of what is not in a ranking


class Joined:
    """Labels joined to what was offered and ranked; every part is computed once, when a metric first asks.

    A group is one alternatives group of one query; groups are numbered over all queries. A group is *open* unless the
    session holds one of its items (`session_met`).

    Attributes:
        evidence, labels: what is joined; `n` queries.
        label_query, label_group: the query of each label, and its group, -1 if none.
        group_query: the query of each group.
        need: how many groups each query has.
        offered_query: the query of each row of the prompts.
        in_session, added: True where a row of the prompts was held by the session, or was added by the selector: found
            or expanded to.
        n_added: how many items the selector added to each query.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.labels, offered = evidence, evidence.judgments, evidence.offered
        self.n = self.labels.n_queries
        tables = [self.labels.item, offered.item]
        if evidence.rankings is not None:
            tables.append(evidence.rankings.item)
        self._width = 1 + max((int(table.max()) for table in tables if len(table)), default=0)
        self.label_query = owners(self.labels.start)
        required = self.labels.grade == Grade.REQUIRED
        base = int(self.labels.group.max(initial=0)) + 1
        keys = self.label_query[required] * base + self.labels.group[required]
        groups, number = np.unique(keys, return_inverse=True)
        self.label_group = np.full(len(required), -1, dtype=np.int64)
        self.label_group[required] = number
        self.group_query: IntArray = groups // base
        self.need = self.total(self.group_query)
        self.offered_query = owners(offered.start)
        self.in_session = np.equal(offered.origin, SESSION)
        self.added = ~self.in_session
        self.n_added = self.total(self.offered_query[self.added])

    def total(self, query: IntArray, weight: npt.NDArray[np.generic] | None = None) -> FloatArray:
        """Sum `weight` (1 if none) of rows by their query, shape (n_queries,)."""
        return np.bincount(query, weights=weight, minlength=self.n).astype(np.float64)

    # labels

    @cached_property
    def _by_key(self) -> tuple[IntArray, IntArray]:
        key = self.label_query * self._width + self.labels.item
        by_key = np.argsort(key, kind="stable")
        return key[by_key], by_key

    def label_of(self, query: IntArray, item: IntArray) -> IntArray:
        """The row of the label of each (query, item), -1 if there is none."""
        keys, rows = self._by_key
        if not len(keys):
            return np.full(len(item), -1, dtype=np.int64)
        key = query * self._width + item
        at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        return np.where(keys[at] == key, rows[at], -1)

    def _grade_of(self, label: IntArray, enough: BoolArray | None) -> IntArray:
        """The grade of each label row, -1 if it is not labelled; what is not shown enough of is of no use."""
        grade = _take(self.labels.grade, label)
        return grade if enough is None else np.where(enough, grade, np.minimum(grade, Grade.IRRELEVANT))

    def _group_of(self, label: IntArray, enough: BoolArray | None) -> IntArray:
        """The group of each label row that it meets, -1 if none."""
        group = _take(self.label_group, label)
        return group if enough is None else np.where(enough, group, -1)

    # what was offered

    @cached_property
    def _offered_label(self) -> IntArray:
        return self.label_of(self.offered_query, self.evidence.offered.item)

    @cached_property
    def offered_grade(self) -> IntArray:
        """The grade of each row of the prompts, -1 if it is not labelled."""
        return self._grade_of(self._offered_label, self.evidence.offered.enough)

    @cached_property
    def forbidden(self) -> BoolArray:
        """True for each row of the prompts that the selector added although its label says irrelevant."""
        return self.added & np.equal(_take(self.labels.grade, self._offered_label), Grade.IRRELEVANT)

    def _touched(self, rows: BoolArray) -> BoolArray:
        """True for each group that one of these rows of the prompts belongs to."""
        group = self._group_of(self._offered_label, self.evidence.offered.enough)[rows]
        touched = np.zeros(len(self.group_query), dtype=np.bool_)
        touched[group[group >= 0]] = True
        return touched

    @cached_property
    def met(self) -> BoolArray:
        """True for each group with an item in the prompt."""
        return self._touched(np.ones(len(self.offered_query), dtype=np.bool_))

    @cached_property
    def session_met(self) -> BoolArray:
        """True for each group with an item in the session."""
        return self._touched(self.in_session)

    @cached_property
    def open_need(self) -> FloatArray:
        """How many groups of each query the session leaves open."""
        return self.total(self.group_query[~self.session_met])

    # rankings

    @cached_property
    def _ranked(self) -> tuple[IntArray, IntArray, IntArray, BoolArray | None]:
        """Query, 1-based rank, label (-1 = none) and `enough` of each row down to `DEPTH`, without the session's."""
        rankings = self.evidence.rankings
        if rankings is None:
            raise RuntimeError("a ranking metric was computed without rankings")
        query = owners(rankings.start)
        position = np.arange(len(query), dtype=np.int64) - rankings.start[query]
        session = self.offered_query[self.in_session]
        near = position < DEPTH + int(np.bincount(session, minlength=1).max())
        query, item, rows = query[near], rankings.item[near], np.flatnonzero(near)
        if len(session):
            session_keys = session * self._width + self.evidence.offered.item[self.in_session]
            free = ~np.isin(query * self._width + item, session_keys)
            query, item, rows = query[free], item[free], rows[free]
        first = np.searchsorted(query, np.arange(self.n))
        rank = np.arange(1, len(query) + 1, dtype=np.int64) - first[query]
        keep = rank <= DEPTH
        query, rank, item = query[keep], rank[keep], item[keep]
        enough = None if rankings.enough is None else rankings.enough[rows[keep]]
        return query, rank, self.label_of(query, item), enough

    @cached_property
    def has_ranking(self) -> BoolArray:
        """True for each query with a ranking."""
        rankings = self.evidence.rankings
        if rankings is None or rankings.given is None:
            return np.full(self.n, rankings is not None)
        return rankings.given

    @property
    def rank_query(self) -> IntArray:
        """The query of each ranked row."""
        return self._ranked[0]

    @property
    def rank(self) -> IntArray:
        """The 1-based rank of each ranked row."""
        return self._ranked[1]

    @cached_property
    def rank_grade(self) -> IntArray:
        """The grade of each ranked row, -1 if it is not labelled."""
        return self._grade_of(*self._ranked[2:])

    @cached_property
    def first_rank(self) -> FloatArray:
        """The rank at which each group is first met, infinite if never."""
        group = self._group_of(*self._ranked[2:])
        first = np.full(len(self.group_query), NEVER)
        ranked = group >= 0
        np.minimum.at(first, group[ranked], self.rank[ranked].astype(np.float64))
        return first

    @cached_property
    def label_free(self) -> BoolArray:
        """True for each label whose item the session does not hold, or not enough of it."""
        free = np.ones(len(self.label_query), dtype=np.bool_)
        enough = self.evidence.offered.enough
        label = self._offered_label[self.in_session if enough is None else self.in_session & enough]
        free[label[label >= 0]] = False
        return free

    def ideal_gain(self, k: int) -> FloatArray:
        """Sum of grade / log2(rank + 1) in the first k ranks of the best ranking of each query's labels."""
        useful = self.label_free & (self.labels.grade >= Grade.HELPFUL)
        query, grade = self.label_query[useful], self.labels.grade[useful]
        by_grade = np.lexsort((-grade, query))
        query, grade = query[by_grade], grade[by_grade]
        rank = np.arange(1, len(query) + 1) - np.searchsorted(query, query)
        top = rank <= k
        return self.total(query[top], grade[top] / np.log2(rank[top] + 1.0))


def _take(values: IntArray, row: IntArray) -> IntArray:
    """`values[row]`, -1 where row is -1."""
    if not len(values):
        return np.full(len(row), -1, dtype=np.int64)
    return np.where(row >= 0, values[row], -1)
