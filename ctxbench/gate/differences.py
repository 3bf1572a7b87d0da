"""Compares what two snapshots of a selector offer: items in and out, swaps, required items lost and gained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from ctxbench.core.candidates import MARGIN
from ctxbench.core.rules import NOT_CHOSEN
from ctxbench.core.selection import Offered
from ctxbench.gate.baseline_rows import DECIMALS, rounded
from ctxbench.gate.comparability import Comparability
from ctxbench.gate.model import Cause, CauseKind, Change
from ctxbench.gate.snapshots import AnswerFact, SelectorSnapshot, has_all_candidates, offered_ids

UNKNOWN = Cause(kind=CauseKind.UNKNOWN)


@dataclass(frozen=True, eq=False, kw_only=True)
class Differences:
    """The differences of two snapshots in what they offer.

    Attributes:
        changes: of items that went out (in the order of the base's offer) or came in (in that of the head's), in the
            order of the queries; causes unknown. Neither swaps nor what an unsteady selector offers now and then.
        swaps: ids of queries that differ by swaps and noise alone, and so are in none of the changes.
        lost, gained: requirements of queries that were met and are not, and the other way round, over `changes`.
    """

    changes: tuple[Change, ...] = ()
    swaps: tuple[str, ...] = ()
    lost: int = 0
    gained: int = 0


def differences(base: SelectorSnapshot, head: SelectorSnapshot, comparability: Comparability) -> Differences:
    """Compare what two snapshots offer, query by query; the order within an offer makes no difference.

    What a session holds is part of the offer: with queries alike, it differs only where the catalog does. An item that
    was renamed is the same item. Of a requirement (an item, or a set of alternatives) that was met and no longer is,
    the best of the items lost is marked as required, and the same for one that is met now: marks and counts agree.

    What machines may differ in is no change (`noise_margin` says how far scores are then apart):

    * Swaps: of the same selector, with the same model and counter of tokens, an item that went out and one that came
      in, if both say what they said, neither's score moved, and they are tied on each side where both scores are known.
    * Noise: of the same selector, code and version, over the same catalog, anything, if no score of the query moved
      further than the margin, and some did move or the offer ends among ties.

    Args:
        base, head: the two.
        comparability: the queries to compare, and renamed items.
    """
    unsteady = {*base.unsteady, *head.unsteady}
    snapshots = _Snapshots(base, head, comparability.renamed)
    changes: list[Change] = []
    swaps: list[str] = []
    for query in comparability.queries:
        before, now = offered_ids(base.answers, query), offered_ids(head.answers, query)
        if before == now or query in unsteady:
            continue
        if {comparability.renamed.get(one, one) for one in before} != set(now):
            differ = _QueryComparison(snapshots, query).changes()
            changes += differ
            if not differ:
                swaps.append(query)
    return Differences(
        changes=tuple(changes),
        swaps=tuple(swaps),
        lost=sum(one.required for one in changes if one.lost),
        gained=sum(one.required for one in changes if not one.lost),
    )


class _Snapshots:
    """Both snapshots, with what is needed for every query."""

    def __init__(self, base: SelectorSnapshot, head: SelectorSnapshot, renamed: Mapping[str, str]) -> None:
        self.base = base
        self.head = head
        self.renamed = renamed
        self.old = {new: old for old, new in renamed.items()}

    @cached_property
    def same_selector(self) -> bool:
        """Whether selector, model and token counter are the same."""
        return self.base.identity.same_as(self.head.identity, ())

    @cached_property
    def same_inputs(self) -> bool:
        """Whether selector, code and catalog are the same, so that only noise can have moved scores."""
        base, head = self.base.identity, self.head.identity
        if base.outside or head.outside or not base.same_as(head, ("code", "ctxbench")):
            return False
        return self.base.contents == self.head.contents

    @cached_property
    def places(self) -> tuple[dict[str, int], dict[str, int]]:
        """The place of every item in the catalog, at the base and at the head."""
        base, head = ({name: place for place, name in enumerate(side.items)} for side in (self.base, self.head))
        return base, head

    def has_same_content(self, item: str) -> bool:
        """Whether an item, by its id at the head, is the same on both sides, word for word."""
        before, now = self.base.items.get(item), self.head.items.get(item)
        return before is not None and now is not None and before.hash == now.hash


class _QueryComparison:
    """Compares the answers to one query; items of the base go by their ids at the head."""

    def __init__(self, snapshots: _Snapshots, query: str) -> None:
        self.snapshots = snapshots
        self.query = query
        self.base = _QueryAnswer(snapshots.base, query, snapshots.renamed)
        self.head = _QueryAnswer(snapshots.head, query, {})
        self.lost = [one for one in self.base.offered if one not in self.head.offered]
        self.gained = [one for one in self.head.offered if one not in self.base.offered]
        self.margin = noise_margin([*self.base.score.values(), *self.head.score.values()])

    def _swapped_pairs(self) -> tuple[tuple[str, str], ...]:
        """Pairs of items that were exchanged by a tie: the one that went out, and the one that came in."""
        if not self.snapshots.same_selector:
            return ()
        lost, gained = (
            [one for one in items if self.snapshots.has_same_content(one) and self._is_unmoved(one)]
            for items in (self.lost, self.gained)
        )
        return _tied_pairs(self.base.by_score(lost), self.head.by_score(gained), self._is_tied)

    def _is_unmoved(self, item: str) -> bool:
        before, now = self.base.score.get(item), self.head.score.get(item)
        return is_unmoved(before, now, margin=self.margin)

    def _is_tied(self, lost: str, gained: str) -> bool:
        """Whether two items are tied on every side where both have a score, and on one at least."""
        ties = (self.base.is_tied(lost, gained, self.margin), self.head.is_tied(gained, lost, self.margin))
        return True in ties and False not in ties

    def _is_noise(self) -> bool:
        """Whether noise alone can have made the difference: all inputs are the same, and no score moved further."""
        both = self.base.score.keys() & self.head.score.keys()
        if not self.snapshots.same_inputs or not all(map(self._is_unmoved, both)):
            return False
        if any(rounded(self.base.score[one]) != rounded(self.head.score[one]) for one in both):
            return True
        changed = self.lost + self.gained  # with equal scores, only ties may have come in another order
        return self.base.cut_in_ties(changed, self.margin) or self.head.cut_in_ties(changed, self.margin)

    def changes(self) -> list[Change]:
        """The changes: items that went out, then items that came in, without swaps and noise."""
        if self._is_noise():
            return []
        groups = self.snapshots.head.queries[self.query].required
        pairs = self._swapped_pairs()
        out, into = {one for one, _ in pairs}, {one for _, one in pairs}
        left_lost = [one for one in self.lost if one not in out]
        left_gained = [one for one in self.gained if one not in into]
        now = (self.head.offered.keys() - into) | out  # the head's offer with its swaps undone
        lost = _best_required(self.base.by_score(left_lost), groups, unless=now)
        gained = _best_required(self.head.by_score(left_gained), groups, unless=self.base.offered.keys())
        found = [self._change(one, lost=True, required=one in lost) for one in left_lost]
        return found + [self._change(one, lost=False, required=one in gained) for one in left_gained]

    def _change(self, item: str, *, lost: bool, required: bool) -> Change:
        side = self.head if lost else self.base  # the one where it is out
        out = side.near.get(item)
        base_place, head_place = self.snapshots.places
        return Change(
            query=self.query,
            item=self.snapshots.old.get(item, item) if lost else item,
            lost=lost,
            required=required,
            cause=UNKNOWN,
            base_score=self.base.score.get(item),
            head_score=self.head.score.get(item),
            base_rank=self.base.rank(item, base_place, self.snapshots.old),
            head_rank=self.head.rank(item, head_place, {}),
            rule=None if out is None else out.rule,
            missed_by=side.missed_by(item),
        )


def _best_required(items: Sequence[str], groups: Iterable[Sequence[str]], *, unless: AbstractSet[str]) -> set[str]:
    """Ids of the best item for each requirement that the items in `unless` do not meet; `items` is best first."""
    met = (
        next((one for one in items if one in group), None)
        for group in groups
        if not any(one in unless for one in group)
    )
    return {one for one in met if one is not None}


class _QueryAnswer:
    """The answer to one query on one side; items go by their ids at the head.

    Attributes:
        offered, near: candidates by id, in the one order; what was offered, and what stayed out.
        score: of candidates that have one, by id.
        complete: whether all candidates are known, and not only the nearest of those that stayed out.
    """

    def __init__(self, snapshot: SelectorSnapshot, query: str, renamed: Mapping[str, str]) -> None:
        fact: AnswerFact = snapshot.answers[query]
        self.offered: dict[str, Offered] = {renamed.get(one.id, one.id): one for one in fact.offered}
        self.near: dict[str, Offered] = {renamed.get(one.id, one.id): one for one in fact.near}
        self.score = {renamed.get(name, name): score for name, score in fact.score_of.items()}
        self.complete = has_all_candidates(snapshot.answers, query)

    def by_score(self, items: Iterable[str]) -> list[str]:
        """Items best first, those without a score behind; ties in the order given."""
        return sorted(items, key=lambda one: -self.score.get(one, float("-inf")))

    def is_tied(self, known: str, other: str, margin: float) -> bool | None:
        """Whether two items are within the margin; None where that cannot be known.

        Args:
            known: one that is offered here.
            other: one that stayed out, or is no candidate.
        """
        score = self.score.get(known)
        if score is None:
            return False  # the session's are no matter of scores
        if other in self.score:
            return abs(score - self.score[other]) <= margin
        if other in self.near or self.complete:
            return False
        lowest = min((self.score[one] for one in self.near if one in self.score), default=None)
        return None if lowest is not None and score - lowest <= margin else False  # it may stand behind those noted

    def cut_in_ties(self, changed: Iterable[str], margin: float) -> bool:
        """Whether one of some items is tied with a candidate on the other side of the cut."""
        return any(
            (other in self.offered) is not (one in self.offered) and abs(score - self.score[one]) <= margin
            for one in changed
            if one in self.score
            for other, score in self.score.items()
        )

    def missed_by(self, item: str) -> float | None:
        """How far the score of an item that is out lies below the lowest offered score of the search.

        None where a selector of the user's chose otherwise: it has a cut of its own, which need not go by scores.
        """
        out = self.near.get(item)
        if out is not None and out.rule is not None and out.rule.code == NOT_CHOSEN:
            return None
        found = [
            self.score[name] for name, one in self.offered.items() if one.origin == "search" and name in self.score
        ]
        if item not in self.score or not found:
            return None
        return max(0.0, min(found) - self.score[item])

    def rank(self, item: str, place: Mapping[str, int], old: Mapping[str, str]) -> int | None:
        """1-based place among what the search found, by score and then by place in the catalog.

        Of a selector that gives an order and no scores, the place in that order, what it chose first. None where it
        did not find the item, or where better ones may have stayed out unnoted.
        """
        found = {name: one for name, one in {**self.offered, **self.near}.items() if one.origin == "search"}
        if item in found and self.score.keys().isdisjoint(found):
            return 1 + list(found).index(item)
        if item not in found or item not in self.score:
            return None
        noted = [self.score[name] for name, one in self.near.items() if one.origin == "search" and name in self.score]
        if not self.complete and noted and self.score[item] < min(noted):
            return None

        def key(name: str) -> tuple[float, int]:
            return -self.score[name], place.get(old.get(name, name), len(place))

        own = key(item)
        return 1 + sum(key(name) < own for name in found if name in self.score and name != item)


def noise_margin(scores: Iterable[float]) -> float:
    """The largest distance of two scores of a query that noise may exchange.

    Args:
        scores: all that are known of the query, on either side.

    Returns:
        `MARGIN`, times the largest of them where that is below 1, since noise is relative; 0 where none is known.
    """
    return MARGIN * min(1.0, max(map(abs, scores), default=0.0))


def is_unmoved(before: float | None, now: float | None, *, margin: float) -> bool:
    """Whether a score moved by no more than the margin and the rounding; true where it is unknown on a side."""
    return before is None or now is None or abs(before - now) <= max(margin, 10.0**-DECIMALS)


def _tied_pairs(
    lost: Sequence[str], gained: Sequence[str], tied: Callable[[str, str], bool]
) -> tuple[tuple[str, str], ...]:
    """Pair items that went out with items that came in and are tied with them, each item at most once.

    Args:
        lost, gained: ids, best first: each is given the best partner that is left.
        tied: of one that went out and one that came in, whether noise may have exchanged them.
    """
    found = []
    left = list(gained)
    for one in lost:
        other = next((name for name in left if tied(one, name)), None)
        if other is not None:
            left.remove(other)
            found.append((one, other))
    return tuple(found)
