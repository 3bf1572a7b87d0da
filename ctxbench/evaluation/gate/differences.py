"""What two snapshots of a selector offer differently: items in and out, swaps, required items lost and gained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ctxbench.candidates import MARGIN
from ctxbench.evaluation.gate.comparability import Comparable
from ctxbench.evaluation.gate.model import Cause, CauseKind, Change
from ctxbench.evaluation.gate.snapshots import NEAR, AnswerFact, Snapshot
from ctxbench.evaluation.gate.table_answers import TableAnswers, offered_ids
from ctxbench.selection import Offered

UNKNOWN = Cause(kind=CauseKind.UNKNOWN)


@dataclass(frozen=True, eq=False, kw_only=True)
class Differences:
    """What is offered differently.

    Attributes:
        changes: of items that went out (in the order of the base's offer) or came in (in that of the head's), in the
            order of the queries; causes unknown. Neither swaps nor what an unsteady selector offers now and then.
        swaps: ids of queries that differ only among scores within `MARGIN`.
        lost, gained: requirements of queries that were met and are not, and the other way round, over `changes`.
    """

    changes: tuple[Change, ...] = ()
    swaps: tuple[str, ...] = ()
    lost: int = 0
    gained: int = 0


def differences(base: Snapshot, head: Snapshot, comparable: Comparable) -> Differences:
    """Compare what two snapshots offer, query by query; the order within an offer makes no difference.

    What a session holds is part of the offer: with queries alike, it differs only where the catalog does. An item that
    was renamed is the same item. Of a requirement (an item, or a set of alternatives) that was met and no longer is,
    the best of the items lost is marked as required, and the same for one that is met now: marks and counts agree.

    Args:
        base, head: the two.
        comparable: what they can be compared on.
    """
    unsteady = {*base.unsteady, *head.unsteady}
    sides = _Sides(base, head, comparable.renamed)
    changes: list[Change] = []
    swaps: list[str] = []
    for query in comparable.queries:
        before, now = offered_ids(base.answers, query), offered_ids(head.answers, query)
        if before == now or query in unsteady:
            continue
        if {comparable.renamed.get(one, one) for one in before} != set(now):
            found = _Query(sides, query)
            if found.swapped:
                swaps.append(query)
            else:
                changes += found.changes()
    lost = sum(one.required for one in changes if one.lost)
    gained = sum(one.required for one in changes if not one.lost)
    return Differences(changes=tuple(changes), swaps=tuple(swaps), lost=lost, gained=gained)


class _Sides:
    """Both snapshots, with what is the same for all queries."""

    def __init__(self, base: Snapshot, head: Snapshot, renamed: Mapping[str, str]) -> None:
        self.base = base
        self.head = head
        self.renamed = renamed
        self.old = {new: old for old, new in renamed.items()}

    @cached_property
    def same_identity(self) -> bool:
        """Whether selector, model and code are the same, and scores alone decide what is offered."""
        base, head = self.base.identity, self.head.identity
        if base.outside or head.outside:
            return False
        same = (base.selector, base.embedder) == (head.selector, head.embedder)
        return same and base.versions.get("code") == head.versions.get("code")

    @cached_property
    def places(self) -> tuple[dict[str, int], dict[str, int]]:
        """The place of every item in the catalog, at the base and at the head."""
        base, head = ({name: place for place, name in enumerate(side.items)} for side in (self.base, self.head))
        return base, head

    def same_content(self, item: str) -> bool:
        """Whether an item, by its id at the head, is there on both sides, word for word."""
        before, now = self.base.items.get(item), self.head.items.get(item)
        return before is not None and now is not None and before.hash == now.hash


class _Query:
    """One query that is offered other items; those of the base go by their ids at the head."""

    def __init__(self, sides: _Sides, query: str) -> None:
        self.sides = sides
        self.query = query
        self.base = _Side(sides.base, query, sides.renamed)
        self.head = _Side(sides.head, query, {})
        self.lost = [one for one in self.base.offered if one not in self.head.offered]
        self.gained = [one for one in self.head.offered if one not in self.base.offered]

    @property
    def swapped(self) -> bool:
        """Whether noise alone may have made the difference."""
        return self._by_ties() or self._by_noise()

    def _by_ties(self) -> bool:
        """As many out as in, and each pair tied on every side where both have a score, and on one at least."""
        if not self.lost or len(self.lost) != len(self.gained):
            return False
        out, into = self.base.by_score(self.lost), self.head.by_score(self.gained)
        return all(self._tied(one, other) for one, other in zip(out, into, strict=True))

    def _tied(self, lost: str, gained: str) -> bool:
        if lost not in self.sides.head.items or self.sides.old.get(gained, gained) not in self.sides.base.items:
            return False  # what is new or gone is no noise
        ties = (self.base.tied(lost, gained), self.head.tied(gained, lost))
        return True in ties and False not in ties

    def _by_noise(self) -> bool:
        """The same selector over the same items, and no score has moved further than noise does."""
        changed = self.lost + self.gained
        if not self.sides.same_identity or not self._followed():
            return False
        items = {*self.base.offered, *self.head.offered, *self.base.not_below(changed), *self.head.not_below(changed)}
        if not all(map(self.sides.same_content, items)):
            return False
        both = self.base.score.keys() & self.head.score.keys()
        moved = [abs(self.base.score[one] - self.head.score[one]) for one in both if self.sides.same_content(one)]
        if any(far > MARGIN for far in moved):
            return False
        return any(moved) or self.base.cut_in_ties(changed) or self.head.cut_in_ties(changed)

    def _followed(self) -> bool:
        """Whether what went out is still a candidate, and what came in was one.

        What an expansion brings in comes and goes with the item that leads to it.
        """
        found = [
            other.may_have(one, side.score.get(one))
            for items, side, other in ((self.lost, self.base, self.head), (self.gained, self.head, self.base))
            for one in items
            if side.offered[one].origin != "expansion"
        ]
        return bool(found) and all(found)

    def changes(self) -> list[Change]:
        """What went out, then what came in."""
        groups = self.sides.head.queries[self.query].required
        lost = self._marked(self.lost, groups, was=self.base, now=self.head)
        gained = self._marked(self.gained, groups, was=self.head, now=self.base)
        out = [self._change(one, lost=True, required=one in lost) for one in self.lost]
        return out + [self._change(one, lost=False, required=one in gained) for one in self.gained]

    def _marked(self, items: Sequence[str], groups: Iterable[Sequence[str]], *, was: _Side, now: _Side) -> set[str]:
        """The best item of each requirement that `was` met and `now` is not."""
        marked = set()
        for group in groups:
            if now.offered.keys().isdisjoint(group):
                met = [one for one in items if one in group]
                marked |= set(was.by_score(met)[:1])
        return marked

    def _change(self, item: str, *, lost: bool, required: bool) -> Change:
        side = self.head if lost else self.base  # the one where it is out
        out = side.near.get(item)
        base_place, head_place = self.sides.places
        return Change(
            query=self.query,
            item=self.sides.old.get(item, item) if lost else item,
            lost=lost,
            required=required,
            cause=UNKNOWN,
            base_score=self.base.score.get(item),
            head_score=self.head.score.get(item),
            base_rank=self.base.rank(item, base_place, self.sides.old),
            head_rank=self.head.rank(item, head_place, {}),
            rule="" if out is None else out.rule,
            missed_by=side.missed_by(item),
        )


class _Side:
    """The answer to one query on one side; items go by their ids at the head.

    Attributes:
        offered, near: candidates by id, in the one order; what was offered, and what stayed out.
        score: of candidates that have one, by id.
        whole: whether all candidates are known, and not only the nearest of those that stayed out.
    """

    def __init__(self, snapshot: Snapshot, query: str, renamed: Mapping[str, str]) -> None:
        fact: AnswerFact = snapshot.answers[query]
        self.offered: dict[str, Offered] = {renamed.get(one.id, one.id): one for one in fact.offered}
        self.near: dict[str, Offered] = {renamed.get(one.id, one.id): one for one in fact.near}
        self.score = {renamed.get(name, name): score for name, score in fact.score_of.items()}
        self.whole = isinstance(snapshot.answers, TableAnswers) or len(fact.near) < NEAR

    def by_score(self, items: Iterable[str]) -> list[str]:
        """Items best first, those without a score behind; ties in the order given."""
        return sorted(items, key=lambda one: -self.score.get(one, float("-inf")))

    def tied(self, known: str, other: str) -> bool | None:
        """Whether two items are within `MARGIN`; None where that cannot be known.

        Args:
            known: one that is offered here.
            other: one that stayed out, or is no candidate.
        """
        score = self.score.get(known)
        if score is None:
            return False  # the session's are no matter of scores
        if other in self.score:
            return abs(score - self.score[other]) <= MARGIN
        if other in self.near or self.whole:
            return False
        lowest = self._lowest_noted
        return None if lowest is not None and score - lowest <= MARGIN else False

    def not_below(self, changed: Iterable[str]) -> list[str]:
        """What stayed out although it is as good as the worst of some items, or better."""
        scores = [self.score[one] for one in changed if one in self.score]
        return [one for one in self.near if scores and self.score.get(one, -float("inf")) >= min(scores) - MARGIN]

    def may_have(self, item: str, score: float | None) -> bool:
        """Whether an item with some score on the other side is a candidate here, or may be one that was not noted."""
        if item in self.score:
            return True
        lowest = self._lowest_noted
        return score is not None and lowest is not None and not self.whole and score <= lowest + MARGIN

    @property
    def _lowest_noted(self) -> float | None:
        """The least score of what stayed out and is known; others that stayed out may have less."""
        return min((self.score[one] for one in self.near if one in self.score), default=None)

    def cut_in_ties(self, changed: Iterable[str]) -> bool:
        """Whether one of some items has, to within `MARGIN`, the score of a candidate on the other side of the cut."""
        return any(
            (other in self.offered) is not (one in self.offered) and abs(score - self.score[one]) <= MARGIN
            for one in changed
            if one in self.score
            for other, score in self.score.items()
        )

    def missed_by(self, item: str) -> float | None:
        """By how much an item that is out here misses the lowest score that the search offers."""
        found = [
            self.score[name] for name, one in self.offered.items() if one.origin == "search" and name in self.score
        ]
        if item not in self.score or not found:
            return None
        return max(0.0, min(found) - self.score[item])

    def rank(self, item: str, place: Mapping[str, int], old: Mapping[str, str]) -> int | None:
        """1-based place among what the search found, by score and then by place in the catalog.

        None where it did not find the item, or where better ones may have stayed out unnoted.
        """
        found = {name: one for name, one in {**self.offered, **self.near}.items() if one.origin == "search"}
        if item not in found or item not in self.score:
            return None
        noted = [self.score[name] for name, one in self.near.items() if one.origin == "search" and name in self.score]
        if not self.whole and noted and self.score[item] < min(noted):
            return None

        def key(name: str) -> tuple[float, int]:
            return -self.score[name], place.get(old.get(name, name), len(place))

        own = key(item)
        return 1 + sum(key(name) < own for name in found if name in self.score and name != item)
