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
    if unanswered := [query for query in new.queries if query not in new.answers]:
        message = (
            f"{new.selector} on {new.dataset} has no answer to {len(unanswered)} queries ({', '.join(unanswered[:3])})"
        )
        raise ParameterError(f"{message}; a baseline needs all of them: run again")
    for query in new.queries:
        _check_answer(new, new.answers[query])
    rounded_answers = {
        query: replace(answer, offered=_as_stored(answer.offered), near=_as_stored(answer.near[:_NEAR_COMPARED]))
        for query, answer in ((query, new.answers[query]) for query in new.queries)
    }
    values = {metric: column.copy() for metric, column in new.metrics.items()}
    answers = {query: replace(answer, near=answer.near[:NEAR]) for query, answer in rounded_answers.items()}
    if old is not None:
        noise_filter = _NoiseFilter(new, old)
        for query in noise_filter.same_queries:
            answers[query] = noise_filter.filter_answer(rounded_answers[query])
            undone = _answer_ids(answers[query]) != _answer_ids(rounded_answers[query])
            noise_filter.restore_values(
                values, query, undone=undone and _answer_ids(answers[query])[0] == _answer_ids(old.answers[query])[0]
            )
    return replace(new, answers=answers, metrics=values)


def _check_answer(new: SelectorSnapshot, answer: AnswerFact) -> None:
    """Raise an error for an answer that cannot be written or compared."""
    for candidate in (*answer.offered, *answer.near):
        fault = "" if candidate.id in new.items else "is no item of the catalog"
        if candidate.score is not None and not math.isfinite(candidate.score):
            fault = f"has a score of {candidate.score}; a score is a finite number"
        if fault:
            raise ParameterError(f"{new.selector} on {new.dataset}, query {answer.query}: {candidate.id} {fault}")


def _as_stored(candidates: Sequence[Offered]) -> tuple[Offered, ...]:
    """Candidates as a baseline has them: rounded scores, no pairs of chunks."""
    return tuple(
        [
            replace(
                candidate,
                score=rounded(candidate.score),
                pair=None,
                span=None,
                tokens=None if candidate.rule else candidate.tokens,
            )
            for candidate in candidates
        ]
    )


def _answer_ids(answer: AnswerFact) -> tuple[list[str], list[str]]:
    return [candidate.id for candidate in answer.offered], [candidate.id for candidate in answer.near[:NEAR]]


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
            and fact.request_hash == old.queries[query].request_hash
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
        old_candidates = {candidate.id: candidate for candidate in (*before.offered, *before.near)}
        candidates = [self._with_old_score(candidate, old_candidates, margin) for candidate in answer.offered]
        offered = _in_old_order(candidates, before.offered, math.inf, margin)
        last = len(before.near) if len(before.near) == NEAR else math.inf  # what a full list left out came behind it
        near = _in_old_order(
            [self._with_old_score(candidate, old_candidates, margin) for candidate in answer.near],
            before.near,
            last,
            margin,
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

    def _with_old_score(self, candidate: Offered, old_candidates: Mapping[str, Offered], margin: float) -> Offered:
        """The candidate with its old score, if the score moved by no more than the margin.

        And with the old rule, where the same selector keeps the same item out: a rule may change with a threshold that
        the score is on the edge of.
        """
        old = old_candidates.get(candidate.id)
        if old is None or candidate.score is None or old.score is None or abs(candidate.score - old.score) > margin:
            return candidate
        old_rule = candidate.rule and old.rule and self._same_selector and self._is_same_item(candidate.id)
        return replace(candidate, score=old.score, rule=old.rule if old_rule else candidate.rule)

    def _has_same_items(self, query: str) -> bool:
        """Whether all items that a query is or was offered are unchanged."""
        offers = (*self.new.answers[query].offered, *self.old.answers[query].offered)
        return all(self._is_same_item(candidate.id) for candidate in offers)

    def _is_same_item(self, name: str) -> bool:
        after, before = self.new.items.get(name), self.old.items.get(name)
        return after is not None and before is not None and (after.hash, after.tokens) == (before.hash, before.tokens)


def _scores_unmoved(before: AnswerFact, after: AnswerFact, margin: float) -> bool:
    """Whether no old candidate moved by more than the margin, and no new one is among them."""
    scores = after.score_of
    if not all(is_unmoved(score, scores.get(name), margin=margin) for name, score in before.score_of.items()):
        return False
    lowest = min([candidate.score for candidate in before.near if candidate.score is not None], default=-math.inf)
    limit = lowest + margin if len(before.near) == NEAR else -math.inf
    old_ids = {candidate.id for candidate in (*before.offered, *before.near)}
    return all(
        candidate.id in old_ids or candidate.score is None or candidate.score <= limit
        for candidate in after.near[:NEAR]
    )


def _in_old_order(candidates: list[Offered], before: Sequence[Offered], last: float, margin: float) -> list[Offered]:
    """Sort candidates as before, where the scores of neighbours are no further apart than noise.

    Args:
        candidates: in the one order, with their old scores where these did not move.
        before: the candidates of the old answer.
        last: the position of an item that is not in `before`; infinite = it stays where it is.
        margin: how far scores move by noise.
    """
    position = {candidate.id: number for number, candidate in enumerate(before)}
    positions = [position.get(candidate.id, last) for candidate in candidates]
    if all(x <= y for x, y in pairwise(positions)):
        return candidates
    moved = True
    while moved:  # every exchange brings one pair into its old order, so this ends
        moved = False
        for at in range(len(candidates) - 1):
            upper, lower = candidates[at], candidates[at + 1]
            if positions[at + 1] < positions[at] < math.inf and _tied(upper, lower, margin):
                candidates[at : at + 2] = lower, upper
                positions[at : at + 2] = positions[at + 1], positions[at]
                moved = True
    return candidates


def _tied(first: Offered, second: Offered, margin: float) -> bool:
    """Whether noise on two scores may have changed the order of two candidates; never without scores."""
    return first.score is not None and second.score is not None and abs(first.score - second.score) <= 2 * margin
