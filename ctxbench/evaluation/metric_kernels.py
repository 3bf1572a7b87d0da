"""Labels joined to offered and ranked items, and the metric functions over them.

One function per metric, over all queries at once, from joined tables to an array, shape (n_queries,). NaN means that
the metric does not apply to the query.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from ctxbench.model.arrays import (
    SESSION,
    BoolArray,
    Evidence,
    FloatArray,
    Grade,
    IntArray,
    Judgments,
    OfferedItems,
    Rankings,
    Via,
    firsts,
    owners,
)

NEVER = np.inf  # the rank of what is not in a ranking


class Joined:
    """Labels joined to offered and ranked items; every part is computed once, on demand.

    A group is one alternatives group of one query; groups are numbered over all queries. A group is *open* unless the
    session holds one of its items (`session_met`).

    Attributes:
        evidence, labels: what is joined; `n` queries.
        labelled: True for each query that has labels.
        label_query, label_group: the query of each label, and its group, -1 if none.
        group_query: the query of each group.
        need: how many groups each query has.
        offered_query: the query of each row of the prompts.
        in_session, added: True where a row of the prompts was held by the session, or was added by the selector: found
            or expanded to.
        n_added: how many items the selector added to each query.
        trec: whether labels are judged as trec_eval does: every relevant item is a group of its own, the session meets
            none, and ranking metrics are 0 for a query whose labels have no relevant item.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.labels, offered = evidence, evidence.judgments, evidence.offered
        self.n = self.labels.n_queries
        self.trec = self.labels.gain is not None
        self.labelled = np.diff(self.labels.start) > 0
        self.label_gain = self.labels.grade if self.labels.gain is None else self.labels.gain
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
        """The grade of each label row, -1 without a label; items of which not enough is shown do not count."""
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
        """True for each item that the selector added although it is labelled irrelevant."""
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
        """True for each group with an item in the session; trec_eval knows no session."""
        return self._touched(self.in_session & (not self.trec))

    @cached_property
    def open_need(self) -> FloatArray:
        """How many groups of each query the session leaves open."""
        return self.total(self.group_query[~self.session_met])

    # rankings

    @cached_property
    def _ranked(self) -> tuple[IntArray, IntArray, IntArray, BoolArray | None]:
        """Query, 1-based rank, label (-1 = none) and `enough` of each row without the session's."""
        if (rankings := self.evidence.rankings) is None:
            raise RuntimeError("a ranking metric was computed without rankings")
        query = owners(rankings.start)
        item, enough = rankings.item, rankings.enough
        if self.in_session.any():
            session = self.offered_query[self.in_session] * self._width + self.evidence.offered.item[self.in_session]
            free = ~np.isin(query * self._width + item, session)
            query, item, enough = query[free], item[free], None if enough is None else enough[free]
        first = np.searchsorted(query, np.arange(self.n))
        rank = np.arange(1, len(query) + 1, dtype=np.int64) - first[query]
        return query, rank, self.label_of(query, item), enough

    @cached_property
    def has_ranking(self) -> BoolArray:
        """True for each query with a ranking."""
        if (rankings := self.evidence.rankings) is None or rankings.given is None:
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
    def rank_gain(self) -> IntArray:
        """The gain of each ranked row in nDCG, 0 or less if it has none."""
        return _take(self.label_gain, self._ranked[2]) if self.trec else self.rank_grade

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
        if self.trec:
            return free
        enough = self.evidence.offered.enough
        label = self._offered_label[self.in_session if enough is None else self.in_session & enough]
        free[label[label >= 0]] = False
        return free

    def ideal_gain(self, k: int) -> FloatArray:
        """Sum of gain / log2(rank + 1) in the first k ranks of the best ranking of each query's labels."""
        useful = self.label_free & (self.labels.grade >= Grade.HELPFUL)
        query, grade = self.label_query[useful], self.label_gain[useful]
        by_grade = np.lexsort((-grade, query))
        query, grade = query[by_grade], grade[by_grade]
        rank = np.arange(1, len(query) + 1) - np.searchsorted(query, query)
        top = rank <= k
        return self.total(query[top], grade[top] / np.log2(rank[top] + 1.0))


class RolledUp(Joined):
    """Labels joined to rankings of groups of items, such as the sessions that messages are from; for ranking metrics.

    * A group has the grade and the rank of its best item. It is held by the session if one of its items is. How much is
      shown of an item does not count.
    * An alternatives group of items is met by any of the groups that hold one of the alternatives. Those that are met
      by the very same groups count once. Of `[[a, b], [c]]`, "(a or b) and c", with a and c in group 1 and b in group
      2, group 1 meets both alternatives groups and group 2 meets the first.

    Where there are no alternatives, metrics equal those of ir-measures on qrels and runs of groups.

    Args:
        joined: labels and rankings of items; there must be rankings.
        group_of: the number of each item's group, shape (n_items,).
    """

    def __init__(self, joined: Joined, group_of: IntArray) -> None:
        labels, offered, rankings = joined.labels, joined.evidence.offered, joined.evidence.rankings
        if rankings is None:
            raise RuntimeError("groups were ranked without rankings")
        label_start, label = _best_rows(labels.start, group_of[labels.item], -joined.label_gain)
        offered_start, row = _best_rows(offered.start, group_of[offered.item], offered.origin)
        ranked_start, ranked = _best_rows(rankings.start, group_of[rankings.item], np.arange(len(rankings.item)))
        grade, item = labels.grade[label], group_of[labels.item[label]]
        group = np.where(grade == Grade.REQUIRED, np.arange(len(label)), -1)
        super().__init__(
            Evidence(
                judgments=Judgments(
                    start=label_start,
                    item=item,
                    grade=grade,
                    group=group,
                    gain=joined.label_gain[label] if joined.trec else None,
                ),
                offered=OfferedItems(start=offered_start, item=group_of[offered.item[row]], origin=offered.origin[row]),
                rankings=Rankings(start=ranked_start, item=group_of[rankings.item[ranked]], given=rankings.given),
            )
        )
        required = np.flatnonzero(joined.label_group >= 0)
        alternative = self.label_group[self.label_of(joined.label_query[required], group_of[labels.item[required]])]
        meets: dict[int, set[int]] = {}
        for need, position in zip(joined.label_group[required].tolist(), alternative.tolist(), strict=True):
            meets.setdefault(need, set()).add(position)
        needs = [sorted(positions) for positions in dict.fromkeys(map(frozenset, meets.values()))]
        query, rank, in_session = self.group_query, self.first_rank, self.session_met  # of each required group of items
        self.group_query = np.array([query[need[0]] for need in needs], dtype=np.int64)
        self.first_rank = np.array([rank[need].min() for need in needs], dtype=np.float64)
        self.session_met = np.array([in_session[need].any() for need in needs], dtype=np.bool_)
        self.need = self.total(self.group_query)


def _best_rows(start: IntArray, group: IntArray, order: IntArray) -> tuple[IntArray, IntArray]:
    """The row of each group of each query that comes first by `order`: CSR starts, and rows, rising."""
    key = owners(start) * (int(group.max(initial=0)) + 1) + group
    by_key = np.lexsort((order, key))
    rows = np.sort(by_key[firsts(key[by_key])])
    return np.searchsorted(rows, start), rows


def _take(values: IntArray, row: IntArray) -> IntArray:
    """`values[row]`, -1 where row is -1."""
    return np.where(row >= 0, values[row], -1) if len(values) else np.full(len(row), -1, dtype=np.int64)


def _mask(value: FloatArray, applies: BoolArray) -> FloatArray:
    """NaN where the metric does not apply."""
    return np.where(applies, value, np.nan)


def _ratio(part: FloatArray, total: FloatArray) -> FloatArray:
    """Divide part by total; NaN where total is 0."""
    out = np.full(len(total), np.nan)
    np.divide(part, total, out=out, where=total > 0)
    return out


# Set metrics


def completeness(j: Joined) -> FloatArray:
    """1 where every required group is met by the session or the selector; NaN where nothing is required."""
    return _mask((j.total(j.group_query[j.met]) == j.need).astype(np.float64), j.need > 0)


def recall(j: Joined) -> FloatArray:
    """Groups met / groups required."""
    return _ratio(j.total(j.group_query[j.met]), j.need)


def recall_via(j: Joined, via: Via) -> FloatArray:
    """Recall over the groups needed in one way, NaN where there are none; one with a direct item is needed directly."""
    direct = np.zeros(len(j.group_query), dtype=np.bool_)
    label_via = j.labels.via if j.labels.via is not None else np.zeros_like(j.labels.item)
    group = j.label_group[label_via == Via.DIRECT]
    direct[group[group >= 0]] = True
    chosen = direct if via == Via.DIRECT else ~direct
    return _ratio(j.total(j.group_query[chosen & j.met]), j.total(j.group_query[chosen]))


def precision(j: Joined, lowest: int = Grade.HELPFUL) -> FloatArray:
    """Items of grade >= 1 / items added, an unlabelled item counting as irrelevant: the lower bound.

    With -1, the grade of an unlabelled item, as `lowest` it counts as relevant: the upper bound.
    """
    relevant = j.total(j.offered_query[j.added & ((j.offered_grade >= Grade.HELPFUL) | (j.offered_grade == lowest))])
    return _mask(np.where((j.n_added == 0) & (j.open_need > 0), 0.0, _ratio(relevant, j.n_added)), j.need > 0)


def unlabelled(j: Joined) -> FloatArray:
    """How many of the items added have no label."""
    return j.total(j.offered_query[j.added & (j.offered_grade < 0)])


def tokens(j: Joined, rows: BoolArray | None = None) -> FloatArray:
    """Prompt tokens of the shown text of some rows of the prompts, by default of the items that the selector added."""
    rows, offered = j.added if rows is None else rows, j.evidence.offered
    if offered.tokens is not None:
        return j.total(j.offered_query[rows], offered.tokens[rows])
    return j.total(j.offered_query[rows], np.asarray(j.evidence.item_tokens, dtype=np.float64)[offered.item[rows]])


def loaded_tokens(j: Joined) -> FloatArray:
    """Prompt tokens of the added items, and of the bodies that the model loads: those of required items."""
    rows = j.added & (j.offered_grade == Grade.REQUIRED)
    bodies = np.asarray(j.evidence.body_tokens, dtype=np.float64)[j.evidence.offered.item[rows]]
    return tokens(j) + j.total(j.offered_query[rows], bodies)


def model_use(j: Joined, row: int) -> FloatArray:
    """The selector's use of a language model: tokens sent and received (row 0), or seconds waited (row 1)."""
    return np.asarray(np.asarray(j.evidence.model_use, dtype=np.float64)[row])


def same_server_confusions(j: Joined) -> FloatArray:
    """How many items added are not relevant but siblings of a required item of the query."""
    if j.evidence.kinship is None:
        raise RuntimeError("same-server confusions were counted without kinship")
    wrong = j.added & (j.offered_grade < Grade.HELPFUL)
    required = j.label_group >= 0
    sibling = np.zeros(len(wrong), dtype=np.bool_)
    for code in j.evidence.kinship.codes:
        base = int(code.max(initial=0)) + 1
        ours, theirs = code[j.evidence.offered.item], code[j.labels.item]
        comparable = required & (theirs >= 0)
        keys = j.label_query[comparable] * base + theirs[comparable]
        sibling |= (ours >= 0) & np.isin(j.offered_query * base + ours, keys)
    return _mask(j.total(j.offered_query[wrong & sibling]), j.need > 0)


def false_items(j: Joined) -> FloatArray:
    """How many items of no use were added where nothing is needed (a helpful one is of use)."""
    return _mask(j.total(j.offered_query[j.added & (j.offered_grade < Grade.HELPFUL)]), j.need == 0)


def false_inclusion(j: Joined) -> FloatArray:
    """1 where nothing is needed and an item of no use was added."""
    return _mask((false_items(j) > 0).astype(np.float64), j.need == 0)


def forbidden_offered(j: Joined) -> FloatArray:
    """1 where the selector added an item that is labelled irrelevant; NaN where no item is labelled so.

    Counted is what the selector added, as a part or whole: what the session held, or shows always, is not its choice.
    An item without a label is not forbidden.
    """
    some = j.total(j.label_query[j.labels.grade == Grade.IRRELEVANT]) > 0
    return _mask((j.total(j.offered_query[j.forbidden]) > 0).astype(np.float64), some)


def abstention(j: Joined) -> FloatArray:
    """1 where nothing is needed and nothing was added."""
    return _mask((j.n_added == 0).astype(np.float64), j.need == 0)


# Ranking metrics


def _mask_ranking(j: Joined, value: FloatArray, applies: BoolArray) -> FloatArray:
    """NaN where a ranking metric does not apply; trec_eval measures every query that has labels."""
    if not j.trec:
        return _mask(value, j.has_ranking & applies)
    return _mask(np.where(applies, value, 0.0), j.has_ranking & j.labelled)


def _groups_met(j: Joined, k: int) -> FloatArray:
    """How many groups of each query are met by the session or in the first k ranks."""
    return j.total(j.group_query[j.session_met | (j.first_rank <= k)])


def comp_at(j: Joined, k: int) -> FloatArray:
    """1 where every required group is held by the session or met in the first k ranks."""
    return _mask_ranking(j, (_groups_met(j, k) == j.need).astype(np.float64), j.need > 0)


def recall_at(j: Joined, k: int) -> FloatArray:
    """Groups held by the session or met in the first k ranks / groups required."""
    return _mask_ranking(j, _ratio(_groups_met(j, k), j.need), j.need > 0)


def _first_open(j: Joined) -> FloatArray:
    """The first rank of each query at which an open group is met, infinite if never."""
    first = np.full(j.n, NEVER)
    np.minimum.at(first, j.group_query[~j.session_met], j.first_rank[~j.session_met])
    return first


def success_at(j: Joined, k: int) -> FloatArray:
    """1 where an open group is met in the first k ranks."""
    return _mask_ranking(j, (_first_open(j) <= k).astype(np.float64), j.open_need > 0)


def reciprocal_rank(j: Joined, k: int) -> FloatArray:
    """1 / the first rank at which an open group is met, 0 if that is beyond k."""
    first = _first_open(j)
    return _mask_ranking(j, np.where(first <= k, 1.0 / first, 0.0), j.open_need > 0)


def average_precision(j: Joined, k: int) -> FloatArray:
    """Sum over open groups of (groups met by the rank that first meets it / that rank) / open groups.

    With one item a group this is average precision as trec_eval has it. Of two alternatives the second one
    ranked is neither met nor forgiven: it takes up a rank. What meets several groups at one rank counts there once.
    """
    rows = ~j.session_met & (j.first_rank <= k)
    query, rank = j.group_query[rows], j.first_rank[rows]
    by_rank = np.lexsort((rank, query))
    query, rank = query[by_rank], rank[by_rank]
    number = np.cumsum(firsts(query, rank))
    n_met = number - number[np.searchsorted(query, query)] + 1
    return _mask_ranking(j, _ratio(j.total(query, n_met / rank), j.open_need), j.open_need > 0)


def precision_at(j: Joined, k: int) -> FloatArray:
    """Items of grade >= 1 in the first k ranks / k."""
    relevant = (j.rank <= k) & (j.rank_grade >= Grade.HELPFUL)
    return _mask_ranking(j, j.total(j.rank_query[relevant]) / k, j.open_need > 0)


def ndcg(j: Joined, k: int) -> FloatArray:
    """Sum of gain / log2(rank + 1) in the first k ranks / the same of the best ranking of the labels."""
    relevant = (j.rank <= k) & (j.rank_gain > 0)
    dcg = j.total(j.rank_query[relevant], j.rank_gain[relevant] / np.log2(j.rank[relevant] + 1.0))
    ideal = j.ideal_gain(k)
    return _mask_ranking(j, _ratio(dcg, ideal), ideal > 0)


def chance_at(j: Joined, k: int) -> FloatArray:
    """The chance that k items drawn from the pool without replacement hold a required one of an open group.

    1 - C(N - R, k) / C(N, k) = 1 - product over i < R of (N - k - i) / (N - i), with N the pool and R the
    required items, which are taken to be in the pool (R <= N). 1 where k >= N.
    """
    group = j.label_group
    is_open = np.zeros(len(group), dtype=np.bool_)
    is_open[group >= 0] = ~j.session_met[group[group >= 0]]
    required = j.total(j.label_query[is_open])
    pool = np.maximum(np.asarray(j.evidence.pool, dtype=np.float64), np.maximum(required, 1.0))
    miss = np.ones(j.n)
    for i in range(int(required.max(initial=0))):
        left = np.maximum(pool - k - i, 0.0)
        miss = np.where(i < required, miss * left / np.maximum(pool - i, 1.0), miss)
    return _mask_ranking(j, 1.0 - miss, j.open_need > 0)
