"""What two ladders must offer together: the lengths at which requirements are met, as steps of a staircase.

A requirement that items of both domains can meet is met by either. So the pairs of lengths that make a query complete
are all those beyond a staircase: beyond any one of its corners. Counted once, they are the quadrants of the corners
less the overlap of each two neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ctxbench.bench.metrics import Grade, Via
from ctxbench.core.arrays import BoolArray, IntArray, owners
from ctxbench.core.errors import ParameterError
from ctxbench.tuning.sweep.measures import Measure
from ctxbench.tuning.sweep.metric_values import Rungs, taken
from ctxbench.tuning.sweep.rankings import Ladders

NEVER = 2**40  # a length that no ladder has
TOGETHER = {"completeness", "recall", "direct_recall", "dependency_recall", "abstention", "false_inclusion"}
_LARGEST = 2**20  # parts that a share is counted in, over all queries at most

Corner = tuple[int, int]


def corners(firsts: Sequence[Corner]) -> list[Corner]:
    """The least pairs of lengths that meet all requirements, by rising first and falling second length.

    Args:
        firsts: for each requirement the length that meets it in the one domain and in the other, `NEVER` where none
            does. No requirement: (0, 0).
    """
    out: list[Corner] = []
    for one in sorted({0, *(first for first, _ in firsts if first < NEVER)}):
        other = max((second for first, second in firsts if first > one), default=0)
        if other < NEVER and (not out or other < out[-1][1]):
            out.append((one, other))
    return out


@dataclass(frozen=True, eq=False)
class Gain:
    """A measure that does not add up over domains, as weighted quadrants of pairs of lengths.

    Attributes:
        query: the ladder of each quadrant, shape (n,).
        lengths: from which lengths on in either domain it counts, shape (2, n).
        weight: whole numbers, shape (n,); at any pair of lengths the sum of those that count is the measure's sum
            over queries x `scale`.
        scale: by which sums were multiplied.
        constant: a sum that is there before anything is offered, likewise multiplied; less than 0 where the quadrants
            count what is lost.
        applies: to how many queries the measure applies.
    """

    query: IntArray
    lengths: IntArray
    weight: IntArray
    scale: int
    constant: int
    applies: int

    @property
    def most(self) -> int:
        """The largest sum x `scale`: every query that the measure applies to has 1."""
        return self.applies * self.scale


@dataclass(frozen=True, eq=False)
class Requirements:
    """The alternatives groups of ladders' queries.

    Attributes:
        rungs: of both domains.
        query: the ladder of each group, shape (n_groups,), rising.
        direct: whether a group has an item that is needed for itself, shape (n_groups,).
    """

    rungs: Rungs
    query: IntArray
    direct: BoolArray
    _keys: IntArray
    _groups: IntArray

    @classmethod
    def of(cls, rungs: Rungs) -> Requirements:
        """Read them off the labels."""
        judgments = rungs.labels.dataset.judgments
        start, label = taken(judgments.start, rungs.query)
        query = owners(start)
        required = judgments.grade[label] == Grade.REQUIRED
        query, label = query[required], label[required]
        base = int(judgments.group.max(initial=0)) + 1
        groups, number = np.unique(query * base + judgments.group[label], return_inverse=True)
        direct = np.zeros(len(groups), dtype=np.bool_)
        via = judgments.via[label] if judgments.via is not None else np.full(len(label), Via.DIRECT)
        direct[number[via == Via.DIRECT]] = True
        keys = query * _width(rungs) + judgments.item[label]
        by_key = np.argsort(keys)
        return cls(rungs, (groups // base).astype(np.int64), direct, keys[by_key], number[by_key].astype(np.int64))

    def _group_of(self, query: IntArray, item: IntArray) -> IntArray:
        """The group of each (query, item), -1 if it is not required."""
        if not len(self._keys):
            return np.full(len(item), -1, dtype=np.int64)
        key = query * _width(self.rungs) + item
        at = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        return np.where(self._keys[at] == key, self._groups[at], -1)

    def first(self, rungs: Rungs) -> IntArray:
        """The length at which each group is met by one domain, shape (n_groups,); `NEVER` where none does."""
        group = np.where(rungs.enough, self._group_of(rungs.owner, rungs.item), -1)
        first = np.full(len(self.query), NEVER, dtype=np.int64)
        np.minimum.at(first, group[group >= 0], rungs.place[group >= 0] + 1)
        return first

    @cached_property
    def held(self) -> BoolArray:
        """True for groups that the session meets, shape (n_groups,)."""
        group = np.where(self.rungs.held_enough, self._group_of(owners(self.rungs.held_start), self.rungs.held), -1)
        held = np.zeros(len(self.query), dtype=np.bool_)
        held[group[group >= 0]] = True
        return held

    @cached_property
    def need(self) -> IntArray:
        """How many groups each query has, shape (n_queries,)."""
        return np.bincount(self.query, minlength=self.rungs.n).astype(np.int64)

    def gain(self, measure: Measure, both: Sequence[Ladders]) -> Gain:
        """A measure in `TOGETHER` as quadrants.

        Args:
            measure: over all queries that it applies to, or those within reach.
            both: the ladders of the two domains.

        Raises:
            ParameterError: the measure has no such form, or shares of too many different parts.
        """
        among = both[0].reachable if measure.reachable else np.ones(self.rungs.n, dtype=np.bool_)
        if measure.needed:
            among = among & both[0].needing[measure.needed]
        name = measure.metric.name
        if name == "completeness":
            return self._complete(among, both)
        if name in ("abstention", "false_inclusion"):
            return self._offered(among, both, useless=name == "false_inclusion")
        if name in TOGETHER:
            wanted = {"recall": np.ones_like(self.direct), "direct_recall": self.direct}.get(name, ~self.direct)
            return self._recall(measure, among, wanted, both)
        raise ParameterError(
            f"{measure} cannot be swept over two domains at once: it neither adds up over them nor counts requirements "
            f"that are met; those that do are {', '.join(sorted(TOGETHER))}"
        )

    def _firsts(self, both: Sequence[Ladders]) -> IntArray:
        """Lengths by domain that meet each group, shape (2, n_groups); 0 where the session does."""
        return np.stack([np.where(self.held, 0, self.first(one.rungs)) for one in both])

    def _complete(self, among: BoolArray, both: Sequence[Ladders]) -> Gain:
        firsts = self._firsts(both).T.tolist()
        bounds = np.searchsorted(self.query, np.arange(self.rungs.n + 1)).tolist()
        applies = among & (self.need > 0)
        rows = [
            (query, one, other, weight)
            for query in np.flatnonzero(applies).tolist()
            for one, other, weight in _quadrants(
                corners([(a, b) for a, b in firsts[bounds[query] : bounds[query + 1]]])
            )
        ]
        return _gain(rows, scale=1, applies=int(applies.sum()))

    def _recall(self, measure: Measure, among: BoolArray, wanted: BoolArray, both: Sequence[Ladders]) -> Gain:
        wanted = wanted & among[self.query]
        need = np.bincount(self.query[wanted], minlength=self.rungs.n)
        scale = math.lcm(*np.unique(need[need > 0]).tolist())
        if scale * int((need > 0).sum()) > _LARGEST:
            raise ParameterError(f"{measure} has too many different shares to be swept over two domains at once")
        firsts = self._firsts(both).T.tolist()
        rows = [
            (int(self.query[group]), one, other, weight * scale // int(need[self.query[group]]))
            for group in np.flatnonzero(wanted).tolist()
            for one, other, weight in _quadrants(corners([(firsts[group][0], firsts[group][1])]))
        ]
        return _gain(rows, scale=scale, applies=int((need > 0).sum()))

    def _offered(self, among: BoolArray, both: Sequence[Ladders], *, useless: bool) -> Gain:
        """Queries that need nothing and get something; for abstention those that get nothing."""
        applies = among & (self.need == 0)
        firsts = np.stack([self._first_useless(one.rungs) if useless else _first_of_all(one.rungs) for one in both])
        rows = [
            (query, one, other, weight if useless else -weight)
            for query in np.flatnonzero(applies).tolist()
            for one, other, weight in _quadrants(corners([(int(firsts[0, query]), int(firsts[1, query]))]))
        ]
        n = int(applies.sum())
        return _gain(rows, scale=1, applies=n, constant=0 if useless else n)

    def _first_useless(self, rungs: Rungs) -> IntArray:
        """The length from which on an item that is not even helpful is offered, shape (n_queries,)."""
        judgments = rungs.labels.dataset.judgments
        start, label = taken(judgments.start, rungs.query)
        helpful = judgments.grade[label] >= Grade.HELPFUL
        keys = (owners(start) * _width(rungs) + judgments.item[label])[helpful]
        wrong = ~(np.isin(rungs.owner * _width(rungs) + rungs.item, keys) & rungs.enough)
        first = np.full(rungs.n, NEVER, dtype=np.int64)
        np.minimum.at(first, rungs.owner[wrong], rungs.place[wrong] + 1)
        return first


def _first_of_all(rungs: Rungs) -> IntArray:
    return np.where(np.diff(rungs.start) > 0, 1, NEVER).astype(np.int64)


def _width(rungs: Rungs) -> int:
    return len(rungs.labels.dataset.catalog)


def _quadrants(found: Sequence[Corner]) -> Iterator[tuple[int, int, int]]:
    """The quadrants of corners, and less each overlap of two neighbours."""
    for place, (one, other) in enumerate(found):
        yield one, other, 1
        if place + 1 < len(found):
            yield found[place + 1][0], other, -1


def _gain(rows: Sequence[tuple[int, int, int, int]], *, scale: int, applies: int, constant: int = 0) -> Gain:
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Gain(table[:, 0], table[:, 1:3].T, table[:, 3], scale, constant, applies)
