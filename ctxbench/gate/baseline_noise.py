"""Undoes in a new baseline what differs from the old one only by the arithmetic of another machine.

A score within the margin (`noise_margin`) of the old one keeps the old value. So do the order of such items, and
an offer of the same selector that differs by a swap among them. Accepting on another machine therefore gives no
difference to review. A score that creeps by less than the margin each time is still noticed, since it is compared with
the value that was reviewed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ctxbench.bench.metrics import Metric
from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import ParameterError
from ctxbench.core.selection import Offered
from ctxbench.gate.baseline_rows import rounded
from ctxbench.gate.comparability import Comparability
from ctxbench.gate.differences import differences, is_unmoved, noise_margin
from ctxbench.gate.snapshots import NEAR, AnswerFact, SelectorSnapshot

_NEAR_COMPARED = 4 * NEAR  # candidates that stayed out among which an order by noise is put right
_ROUNDING = 1e-9  # of a metric's value, as a share of it: sums in another order


def undo_noise(new: SelectorSnapshot, old: SelectorSnapshot | None) -> SelectorSnapshot:
    """The snapshot to write: `NEAR` candidates, rounded scores, and old values where noise alone moved them.

    Args:
        new: of a run; every query answered.
        old: of the same selector and dataset in the baseline so far; None = there is none.

    Raises:
        ParameterError: a query has no answer, or one with a score that is no finite number, or an unknown item.
    """
    if lacking := [query for query in new.queries if query not in new.answers]:
        what = f"{new.selector} on {new.dataset} has no answer to {len(lacking)} queries ({', '.join(lacking[:3])})"
        raise ParameterError(f"{what}; a baseline needs all of them: run again")
    for query in new.queries:
        _refuse_unfit_answer(new, new.answers[query])
    rounded_answers = {
        query: replace(one, offered=_as_stored(one.offered), near=_as_stored(one.near[:_NEAR_COMPARED]))
        for query, one in ((query, new.answers[query]) for query in new.queries)
    }
    values = {metric: column.copy() for metric, column in new.metrics.items()}
    answers = {query: replace(one, near=one.near[:NEAR]) for query, one in rounded_answers.items()}
    if old is not None:
        noise_filter = _NoiseFilter(new, old)
        for query in noise_filter.same_queries:
            answers[query] = noise_filter.filter_answer(rounded_answers[query])
            undone = _answer_ids(answers[query]) != _answer_ids(rounded_answers[query])
            noise_filter.restore_values(
                values, query, undone=undone and _answer_ids(answers[query])[0] == _answer_ids(old.answers[query])[0]
            )
    return replace(new, answers=answers, metrics=values)


def _refuse_unfit_answer(new: SelectorSnapshot, answer: AnswerFact) -> None:
    """Refuse an answer that cannot be written and compared with."""
    for one in (*answer.offered, *answer.near):
        what = "" if one.id in new.items else "is no item of the catalog"
        if one.score is not None and not math.isfinite(one.score):
            what = f"has a score of {one.score}; a score is a finite number"
        if what:
            raise ParameterError(f"{new.selector} on {new.dataset}, query {answer.query}: {one.id} {what}")


def _as_stored(candidates: Sequence[Offered]) -> tuple[Offered, ...]:
    """What a baseline says of candidates: rounded scores, and no pairs of chunks."""
    return tuple(
        [
            replace(one, score=rounded(one.score), pair=None, span=None, tokens=None if one.rule else one.tokens)
            for one in candidates
        ]
    )


def _answer_ids(answer: AnswerFact) -> tuple[list[str], list[str]]:
    return [one.id for one in answer.offered], [one.id for one in answer.near[:NEAR]]


class _NoiseFilter:
    """Undoes the noise between an old and a new snapshot of one selector on one dataset.

    Attributes:
        same_queries: queries that are asked and labelled as they were.
    """

    def __init__(self, new: SelectorSnapshot, old: SelectorSnapshot) -> None:
        self.new = new
        self.old = old
        self.same_queries = tuple(
            query
            for query, fact in new.queries.items()
            if query in old.queries
            and fact.asked == old.queries[query].asked
            and fact.labelled == old.queries[query].labelled
        )
        self._swaps = frozenset(differences(old, new, Comparability(queries=self.same_queries)).swaps)
        self._same_selector = new.identity.same_as(old.identity, ["code"])
        self._rows = [{query: row for row, query in enumerate(side.queries)} for side in (new, old)]

    def filter_answer(self, answer: AnswerFact) -> AnswerFact:
        """The answer with old values where noise alone moved them; `near` cut to `NEAR`.

        Args:
            answer: to one of `same_queries`.
        """
        before = self.old.answers[answer.query]
        margin = noise_margin([*before.score_of.values(), *answer.score_of.values()])
        swapped = answer.query in self._swaps and self._same_selector and self._has_same_items(answer.query)
        if swapped and _scores_unmoved(before, answer, margin):
            return before
        known = {one.id: one for one in (*before.offered, *before.near)}
        candidates = [self._with_old_score(one, known, margin) for one in answer.offered]
        offered = _in_old_order(candidates, before.offered, math.inf, margin)
        last = len(before.near) if len(before.near) == NEAR else math.inf  # what a full list left out came behind it
        near = _in_old_order(
            [self._with_old_score(one, known, margin) for one in answer.near], before.near, last, margin
        )
        return replace(answer, offered=tuple(offered), near=tuple(near[:NEAR]))

    def restore_values(self, values: Mapping[Metric, FloatArray], query: str, *, undone: bool) -> None:
        """Restore metric values of a query that moved by rounding only, or by a swap that was `undone`."""
        row, before = (rows[query] for rows in self._rows)
        all_back = undone and self._has_same_items(query)
        for metric, column in values.items():
            if metric in self.old.metrics:
                value, old = float(column[row]), float(self.old.metrics[metric][before])
                if all_back or math.isclose(value, old, rel_tol=_ROUNDING, abs_tol=0.0):
                    column[row] = old

    def _with_old_score(self, one: Offered, known: Mapping[str, Offered], margin: float) -> Offered:
        """The candidate with its old score, if the score moved by no more than the margin.

        And with the old rule, where the same selector keeps the same item out: a rule may change with a threshold that
        the score is on the edge of.
        """
        old = known.get(one.id)
        if old is None or one.score is None or old.score is None or abs(one.score - old.score) > margin:
            return one
        old_rule = one.rule and old.rule and self._same_selector and self._is_same_item(one.id)
        return replace(one, score=old.score, rule=old.rule if old_rule else one.rule)

    def _has_same_items(self, query: str) -> bool:
        """Whether all items that a query is or was offered are unchanged."""
        offers = (*self.new.answers[query].offered, *self.old.answers[query].offered)
        return all(self._is_same_item(one.id) for one in offers)

    def _is_same_item(self, name: str) -> bool:
        now, before = self.new.items.get(name), self.old.items.get(name)
        return now is not None and before is not None and (now.hash, now.tokens) == (before.hash, before.tokens)


def _scores_unmoved(before: AnswerFact, now: AnswerFact, margin: float) -> bool:
    """Whether no known candidate moved by more than the margin, and no new one came among them."""
    scores = now.score_of
    if not all(is_unmoved(score, scores.get(name), margin=margin) for name, score in before.score_of.items()):
        return False
    lowest = min([one.score for one in before.near if one.score is not None], default=-math.inf)
    limit = lowest + margin if len(before.near) == NEAR else -math.inf
    known = {one.id for one in (*before.offered, *before.near)}
    return all(one.id in known or one.score is None or one.score <= limit for one in now.near[:NEAR])


def _in_old_order(candidates: list[Offered], before: Sequence[Offered], last: float, margin: float) -> list[Offered]:
    """Sort candidates as before, where the scores of neighbours are no further apart than noise.

    Args:
        candidates: in the one order, scores as they stood where they did not move.
        before: as they stood.
        last: the place of an item that is not in `before`; infinite = it is left where it is.
        margin: how far scores move by noise.
    """
    place = {one.id: number for number, one in enumerate(before)}
    places = [place.get(one.id, last) for one in candidates]
    if all(x <= y for x, y in pairwise(places)):
        return candidates
    moved = True
    while moved:  # every exchange brings one pair into its old order, so this ends
        moved = False
        for at in range(len(candidates) - 1):
            one, other = candidates[at], candidates[at + 1]
            if places[at + 1] < places[at] < math.inf and _tied(one, other, margin):
                candidates[at : at + 2] = other, one
                places[at : at + 2] = places[at + 1], places[at]
                moved = True
    return candidates


def _tied(one: Offered, other: Offered, margin: float) -> bool:
    """Whether noise on two scores may have changed the order of two candidates; never without scores."""
    return one.score is not None and other.score is not None and abs(one.score - other.score) <= 2 * margin
