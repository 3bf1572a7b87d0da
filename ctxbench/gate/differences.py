"""Items that two snapshots offer differently, and these changes grouped by cause."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ctxbench.datasets.queries import connected_rows, group_pairs
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.baseline_rows import DECIMALS, rounded
from ctxbench.gate.cause_finder import SnapshotPair, item_changes_text
from ctxbench.gate.causes import undo_inclusion
from ctxbench.gate.comparability import Comparability
from ctxbench.gate.inputs import absence_text, edit_text
from ctxbench.gate.results import (
    Cause,
    CauseGroup,
    CauseKind,
    Change,
    Fix,
    ItemChange,
    ItemChangeKind,
    TokenChange,
    UnmetRequirement,
)
from ctxbench.gate.settings import PRICES
from ctxbench.gate.snapshots import (
    AnswerFact,
    SelectorSnapshot,
    answer_tokens,
    has_all_candidates,
    offered_ids,
    shown_tokens,
)
from ctxbench.io.errors import Message
from ctxbench.model.candidates import MARGIN, NOT_CHOSEN
from ctxbench.model.selection import Offered

UNKNOWN = Cause(kind=CauseKind.UNKNOWN)


@dataclass(frozen=True, eq=False, kw_only=True)
class Differences:
    """The differences of two snapshots in what they offer.

    Attributes:
        changes: of items that went out (in the order of the base's offer) or came in (in that of the head's), in the
            order of the queries; causes unknown. Neither swaps nor what a nondeterministic selector offers at times.
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

    Noise between machines is no change (see `noise_margin`):

    * Swaps: of the same selector, with the same model and counter of tokens, an item that went out and one that came
      in, if both have the same content, neither's score moved, and they are tied on each side with both scores.
    * Noise: of the same selector, code and version, over the same catalog, anything, if no score of the query moved
      further than the margin, and some did move or the offer ends among ties.

    Args:
        base, head: the two.
        comparability: the queries to compare, and renamed items.
    """
    nondeterministic = {*base.nondeterministic, *head.nondeterministic}
    snapshots = _Snapshots(base, head, comparability.renamed)
    changes: list[Change] = []
    swaps: list[str] = []
    for query in comparability.queries:
        before, after = offered_ids(base.answers, query), offered_ids(head.answers, query)
        if before == after or query in nondeterministic:
            continue
        if {comparability.renamed.get(item, item) for item in before} != set(after):
            differ = _QueryComparison(snapshots, query).changes()
            changes += differ
            if not differ:
                swaps.append(query)
    return Differences(
        changes=tuple(changes),
        swaps=tuple(swaps),
        lost=sum(change.required for change in changes if change.lost),
        gained=sum(change.required for change in changes if not change.lost),
    )


class _Snapshots:
    """Both snapshots, with values that all queries share."""

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
        is_ours = not (base.external or head.external)
        return is_ours and base.same_as(head, ("code", "ctxbench")) and self.base.contents == self.head.contents

    @cached_property
    def positions(self) -> tuple[dict[str, int], dict[str, int]]:
        """The position of every item in the catalog, at the base and at the head."""
        base, head = ({name: position for position, name in enumerate(side.items)} for side in (self.base, self.head))
        return base, head

    def has_same_content(self, item: str) -> bool:
        """Whether an item, by its id at the head, is the same on both sides, word for word."""
        before, after = self.base.items.get(item), self.head.items.get(item)
        return before is not None and after is not None and before.hash == after.hash


class _QueryComparison:
    """Compares the answers to one query; items of the base have their ids at the head."""

    def __init__(self, snapshots: _Snapshots, query: str) -> None:
        self.snapshots = snapshots
        self.query = query
        self.base = _QueryAnswer(snapshots.base, query, snapshots.renamed)
        self.head = _QueryAnswer(snapshots.head, query, {})
        self.lost = [item for item in self.base.offered if item not in self.head.offered]
        self.gained = [item for item in self.head.offered if item not in self.base.offered]
        self.margin = noise_margin([*self.base.score.values(), *self.head.score.values()])

    def _swapped_pairs(self) -> tuple[tuple[str, str], ...]:
        """Pairs of items that were exchanged by a tie: the one that went out, and the one that came in."""
        if not self.snapshots.same_selector:
            return ()
        lost, gained = (
            [item for item in items if self.snapshots.has_same_content(item) and self._is_unmoved(item)]
            for items in (self.lost, self.gained)
        )
        return _tied_pairs(self.base.by_score(lost), self.head.by_score(gained), self._is_tied)

    def _is_unmoved(self, item: str) -> bool:
        before, after = self.base.score.get(item), self.head.score.get(item)
        return is_unmoved(before, after, margin=self.margin)

    def _is_tied(self, lost: str, gained: str) -> bool:
        """Whether two items are tied on every side where both have a score, and on one at least."""
        ties = (self.base.is_tied(lost, gained, self.margin), self.head.is_tied(gained, lost, self.margin))
        return True in ties and False not in ties

    def _is_noise(self) -> bool:
        """Whether noise alone can have made the difference: all inputs are the same, and no score moved further."""
        shared = self.base.score.keys() & self.head.score.keys()
        if not self.snapshots.same_inputs or not all(map(self._is_unmoved, shared)):
            return False
        if any(rounded(self.base.score[item]) != rounded(self.head.score[item]) for item in shared):
            return True
        changed = self.lost + self.gained  # with equal scores, only ties may have come in another order
        return self.base.cut_in_ties(changed, self.margin) or self.head.cut_in_ties(changed, self.margin)

    def changes(self) -> list[Change]:
        """The changes: items that went out, then items that came in, without swaps and noise."""
        if self._is_noise():
            return []
        groups = self.snapshots.head.queries[self.query].required
        pairs = self._swapped_pairs()
        out, into = {item for item, _ in pairs}, {item for _, item in pairs}
        left_lost = [item for item in self.lost if item not in out]
        left_gained = [item for item in self.gained if item not in into]
        offered = (self.head.offered.keys() - into) | out  # the head's offer with its swaps undone
        lost = _best_required(self.base.by_score(left_lost), groups, unless=offered)
        gained = _best_required(self.head.by_score(left_gained), groups, unless=self.base.offered.keys())
        changes = [self._change(item, lost=True, required=item in lost) for item in left_lost]
        return changes + [self._change(item, lost=False, required=item in gained) for item in left_gained]

    def _change(self, item: str, *, lost: bool, required: bool) -> Change:
        side = self.head if lost else self.base  # the one where it is out
        out = side.near.get(item)
        base_place, head_place = self.snapshots.positions
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
        next((item for item in items if item in group), None)
        for group in groups
        if not any(item in unless for item in group)
    )
    return {item for item in met if item is not None}


class _QueryAnswer:
    """The answer to one query on one side; items have their ids at the head.

    Attributes:
        offered, near: candidates by id, in the one order; what was offered, and what stayed out.
        score: of candidates that have one, by id.
        complete: whether all candidates are known, and not only the nearest of those that stayed out.
    """

    def __init__(self, snapshot: SelectorSnapshot, query: str, renamed: Mapping[str, str]) -> None:
        fact: AnswerFact = snapshot.answers[query]
        self.offered: dict[str, Offered] = {
            renamed.get(candidate.id, candidate.id): candidate for candidate in fact.offered
        }
        self.near: dict[str, Offered] = {renamed.get(candidate.id, candidate.id): candidate for candidate in fact.near}
        self.score = {renamed.get(name, name): score for name, score in fact.score_of.items()}
        self.complete = has_all_candidates(snapshot.answers, query)

    def by_score(self, items: Iterable[str]) -> list[str]:
        """Items best first, those without a score last; ties in the order of `items`."""
        return sorted(items, key=lambda item: -self.score.get(item, float("-inf")))

    def is_tied(self, offered_item: str, excluded_item: str, margin: float) -> bool | None:
        """Whether two items are within the margin; None where that cannot be known.

        Args:
            offered_item: one that is offered here.
            excluded_item: one that stayed out, or is no candidate.
        """
        if (score := self.score.get(offered_item)) is None:
            return False  # the session's are no matter of scores
        if excluded_item in self.score:
            return abs(score - self.score[excluded_item]) <= margin
        if excluded_item in self.near or self.complete:
            return False
        lowest = min((self.score[item] for item in self.near if item in self.score), default=None)
        return None if lowest is not None and score - lowest <= margin else False  # it may rank below the stored ones

    def cut_in_ties(self, changed: Iterable[str], margin: float) -> bool:
        """Whether one of some items is tied with a candidate on the other side of the cut."""
        return any(
            (rival in self.offered) is not (item in self.offered) and abs(score - self.score[item]) <= margin
            for item in changed
            if item in self.score
            for rival, score in self.score.items()
        )

    def missed_by(self, item: str) -> float | None:
        """How far the score of an item that is out lies below the lowest offered score of the search.

        None if an external selector did not choose it: its cut need not depend on scores.
        """
        if (out := self.near.get(item)) is not None and out.rule is not None and out.rule.code == NOT_CHOSEN:
            return None
        scores = [
            self.score[name]
            for name, candidate in self.offered.items()
            if candidate.origin == "search" and name in self.score
        ]
        return None if item not in self.score or not scores else max(0.0, min(scores) - self.score[item])

    def rank(self, item: str, positions: Mapping[str, int], old: Mapping[str, str]) -> int | None:
        """1-based rank among what the search found, by score and then by position in the catalog.

        Of a selector that gives an order and no scores, the rank in that order, chosen items first. None where it
        did not find the item, or where better ones may have stayed out unnoted.
        """
        candidates = {
            name: candidate for name, candidate in {**self.offered, **self.near}.items() if candidate.origin == "search"
        }
        if item in candidates and self.score.keys().isdisjoint(candidates):
            return 1 + list(candidates).index(item)
        if item not in candidates or item not in self.score:
            return None
        noted = [
            self.score[name]
            for name, candidate in self.near.items()
            if candidate.origin == "search" and name in self.score
        ]
        if not self.complete and noted and self.score[item] < min(noted):
            return None

        def key(name: str) -> tuple[float, int]:
            return -self.score[name], positions.get(old.get(name, name), len(positions))

        item_key = key(item)
        return 1 + sum(key(name) < item_key for name in candidates if name in self.score and name != item)


def noise_margin(scores: Iterable[float]) -> float:
    """The largest distance of two scores of a query that noise may exchange.

    Args:
        scores: all that are known of the query, on either side.

    Returns:
        `MARGIN`, times the largest of them where that is below 1, since noise is relative; 0 where none is known.
    """
    return MARGIN * min(1.0, max(map(abs, scores), default=0.0))


def is_unmoved(before: float | None, after: float | None, *, margin: float) -> bool:
    """Whether a score moved by no more than the margin and the rounding; true where it is unknown on a side."""
    return before is None or after is None or abs(before - after) <= max(margin, 10.0**-DECIMALS)


def _tied_pairs(
    lost: Sequence[str], gained: Sequence[str], tied: Callable[[str, str], bool]
) -> tuple[tuple[str, str], ...]:
    """Pair items that went out with items that came in and are tied with them, each item at most once.

    Args:
        lost, gained: ids, best first: each is given the best partner that is left.
        tied: of one that went out and one that came in, whether noise may have exchanged them.
    """
    pairs = []
    left = list(gained)
    for lost_item in lost:
        if (partner := next((name for name in left if tied(lost_item, name)), None)) is not None:
            left.remove(partner)
            pairs.append((lost_item, partner))
    return tuple(pairs)


_MERGED_KINDS = (CauseKind.CROWDED, CauseKind.FREED)


def group_changes(pair: SnapshotPair, changes: Sequence[Change]) -> tuple[CauseGroup, ...]:
    """Put changes of one cause together, over all queries.

    Where items crowd others out, each query has its own few of them in front; causes that share one of them, in the
    same way, are one, of them all. All items that are new and offered are one, too, and all that are gone.

    Args:
        pair: base and head.
        changes: explained, in the order of the queries.

    Returns:
        The costliest first: by required items lost net, none where as many or more are gained; then by required items
        lost, so that what both loses and gains is before what gains alone; then what gains less; then most changes of
        others; then by kind, detail and subjects.
    """
    merged = _merged_causes({change.cause for change in changes}, pair)
    groups = group_pairs((merged[change.cause], change) for change in changes)
    return tuple(sorted((_group(cause, members, pair) for cause, members in groups.items()), key=cost_key))


def cost_key(group: CauseGroup) -> tuple[int, int, int, int, str, str, tuple[str, ...]]:
    """The key that sorts groups, the costliest first; see `group_changes`."""
    cause, net = group.cause, max(0, group.lost - group.gained)
    return -net, -group.lost, group.gained, -group.others, cause.kind, cause.detail, cause.subjects


def _group(cause: Cause, changes: Sequence[Change], pair: SnapshotPair) -> CauseGroup:
    added = [-_price(change, pair.base) if change.lost else _price(change, pair.head) for change in changes]
    lost = {change.query for change in changes if change.lost and change.required}
    queries = sorted(
        {change.query for change in changes}, key=lambda query: (query not in lost, pair.query_places[query])
    )
    return CauseGroup(
        cause=cause,
        lost=sum(change.lost and change.required for change in changes),
        gained=sum(not change.lost and change.required for change in changes),
        others=sum(not change.required for change in changes),
        tokens=sum(added),
        queries=tuple(queries),
        fix=_group_fix([change.fix for change in changes if change.lost and change.required])
        or undo_inclusion(cause, pair),
    )


def _price(change: Change, side: SelectorSnapshot) -> int:
    """The token count of the item of a change, on the side that offers it."""
    offered = (candidate for candidate in side.answers[change.query].offered if candidate.id == change.item)
    return next((shown_tokens(candidate, side) for candidate in offered), side.items[change.item].tokens)


def _group_fix(all_fixes: Sequence[Fix]) -> Fix:
    """The fix for most of the losses; of amounts for one setting, the one that is enough for all of them.

    A phrase that no fix is known is used only if that holds for all losses. If a setting fixes only some of the
    losses, the text has their number.

    Args:
        all_fixes: of each required item that was lost; empty where there is none.
    """
    if not (fixes := [fix for fix in all_fixes if fix]):
        return Fix()
    fixes = [fix for fix in fixes if fix.possible] or fixes
    numbers = group_pairs((replace(fix, amount=None), fix) for fix in fixes if fix.amount is not None)
    best, count = min(Counter(fixes).items(), key=lambda pair: (-pair[1], str(pair[0])))
    for stem, variants in sorted(numbers.items(), key=lambda pair: str(pair[0])):
        if len(variants) > count or (len(variants) == count and best in variants):
            widest = min if stem.lower else max
            best, count = widest(variants, key=lambda fix: fix.amount or 0.0), len(variants)
    fixed = sum(_covers(best, fix) for fix in all_fixes)
    if fixed < len(all_fixes) and best.amount is not None and best.phrase.startswith(("raise", "lower")):
        return replace(best, share=", ".join(filter(None, (f"which fixes {fixed} of {len(all_fixes)}", best.share))))
    return best


def _covers(wide: Fix, narrow: Fix) -> bool:
    """Whether a fix includes another one: the same, or wider values of the same parameters."""
    if wide == narrow:
        return True
    ours, theirs = ({(path, name): value for path, name, value in fix.changed} for fix in (wide, narrow))
    if not ours or ours.keys() != theirs.keys() or not all(isinstance(value, int | float) for value in theirs.values()):
        return False
    return all((theirs[key] - value) * (-1 if wide.lower else 1) <= 0 for key, value in ours.items())


def _merged_causes(causes: Collection[Cause], pair: SnapshotPair) -> dict[Cause, Cause]:
    """The cause of the group that each cause is in."""
    out = {cause: cause for cause in causes}
    for kind in (CauseKind.NEW, CauseKind.GONE):
        members = [cause for cause in causes if cause.kind == kind]
        items = sorted({item for cause in members for item in cause.subjects})
        if len(items) > 1:
            states = " or ".join(sorted({cause.detail for cause in members}, reverse=True))
            key = "causes.items-new" if kind is CauseKind.NEW else "causes.items-gone"
            joint = Cause(kind=kind, subjects=tuple(items), detail=Message(key, n=len(items), states=states))
            out |= dict.fromkeys(members, joint)
    crowded = (
        ((cause.kind, cause.detail.key), cause)
        for cause in causes
        if cause.kind in _MERGED_KINDS and cause.subjects and isinstance(cause.detail, Message)
    )
    for (_, key), members in group_pairs(pair for pair in crowded if pair[0][1] != "causes.only-together").items():
        for rows in connected_rows([cause.subjects for cause in members]):
            connected = [members[row] for row in rows]
            names = tuple(sorted({item for cause in connected for item in cause.subjects}))
            joint = replace(connected[0], subjects=names, detail=Message(key, items=item_changes_text(names, pair)))
            out |= dict.fromkeys(connected, joint)
    return out


def with_prices(side: SelectorSnapshot) -> SelectorSnapshot:
    """Add the token metrics to a snapshot that lacks them: an older baseline, or a run of other metrics.

    A snapshot with repeats is not changed: its values are means, and its answers those of one repeat.
    """
    missing = [metric for metric in map(parse_metric, PRICES) if metric not in side.metrics]
    if not missing or side.repeats > 1:
        return side
    answers = [side.answers.get(query) for query in side.queries]
    added = {
        metric: np.array(
            [
                math.nan
                if answer is None or answer.error
                else answer_tokens(answer, side, session=metric.name == "total_tokens")
                for answer in answers
            ],
            dtype=np.float64,
        )
        for metric in missing
    }
    return replace(side, metrics={**side.metrics, **added})


def token_changes(
    base: SelectorSnapshot, head: SelectorSnapshot, comparability: Comparability, *, passed_over: Collection[str] = ()
) -> tuple[TokenChange, ...]:
    """Find items whose token count changed, among those that are offered on both sides or in the session.

    Args:
        base, head: the two.
        comparability: the queries to compare, and renamed items.
        passed_over: ids of queries that count as equal on both sides.

    Returns:
        What adds most tokens first, what saves most last, ties by id. Empty if the token counters differ.
    """
    if head.items is base.items or base.identity.tokens != head.identity.tokens:
        return ()
    new = comparability.renamed
    base_items = {new.get(name, name): fact for name, fact in base.items.items()}
    changed = {
        name for name, fact in head.items.items() if name in base_items and base_items[name].tokens != fact.tokens
    }
    if not changed:
        return ()

    def offered_twice(query: str) -> set[str]:
        before = {new.get(name, name) for name in offered_ids(base.answers, query)}
        return changed.intersection(before, offered_ids(head.answers, query))

    queries = [query for query in comparability.queries if query not in passed_over]
    queries_by_item = group_pairs((item, query) for query in queries for item in offered_twice(query))
    changes = [
        TokenChange(
            item=item,
            base=base_items[item].tokens,
            head=head.items[item].tokens,
            queries=tuple(queries),
            why=edit_text(base_items[item], head.items[item])
            if base_items[item].hash != head.items[item].hash
            else "counted differently",
        )
        for item, queries in queries_by_item.items()
    ]
    return tuple(sorted(changes, key=lambda change: (-change.tokens, change.item)))


def item_changes(
    base: SelectorSnapshot, head: SelectorSnapshot, comparability: Comparability, unmet: Sequence[UnmetRequirement]
) -> tuple[ItemChange, ...]:
    """Find always-on items that are gone, no longer always-on or edited, and other removed items that none requires.

    Args:
        base, head: the two.
        comparability: the queries to compare, and renamed items.
        unmet: requirements that no item can meet any more; their items are left out.

    Returns:
        In the order of the base's catalog.
    """
    if head.items is base.items:
        return ()  # nothing has changed
    required = {item for query in base.queries.values() for group in query.required for item in group}
    reported = {item for requirement in unmet for item in requirement.items}
    before, after = _always_on(base), _always_on(head)
    changes = []
    for item, fact in base.items.items():
        name = comparability.renamed.get(item, item)
        now, always = head.items.get(name), item in before
        if item in reported or (now is None and not always and item in required):
            continue
        values: dict[str, Any] = {"item": item, "base": fact.tokens}
        if now is None:
            kind = ItemChangeKind.GONE
            text = Message("gate.item-gone", why=absence_text(item, head), **values)
        elif always and name not in after:
            kind = ItemChangeKind.NOT_ALWAYS
            text = Message("gate.item-not-always", mode=(now.row or {}).get("include", "agent"), **values)
        elif always and fact.hash != now.hash and fact.prompt != now.prompt:
            kind = ItemChangeKind.EDITED
            why = edit_text(fact, now)
            text = Message("gate.item-edited", item=name, why=why, base=fact.tokens, head=now.tokens)
        else:
            continue
        if item not in required:
            text = Message("gate.item-unlabelled", change=text)
        head_tokens = 0 if now is None else now.tokens
        changes.append(ItemChange(item=item, kind=kind, always=always, base=fact.tokens, head=head_tokens, text=text))
    return tuple(changes)


def _always_on(side: SelectorSnapshot) -> set[str]:
    """Ids of the items that every request gets; without texts, those that every session holds."""
    if all(fact.row is not None for fact in side.items.values()):
        return {name for name, fact in side.items.items() if fact.row and fact.row.get("include") == "always"}
    answers = [answer.offered for answer in side.answers.values() if not answer.error]
    sessions = [{candidate.id for candidate in offered if candidate.mode == "always"} for offered in answers]
    return set.intersection(*sessions) if sessions else set()


def price_causes(prices: Sequence[TokenChange], head: SelectorSnapshot) -> tuple[CauseGroup, ...]:
    """Group changed token counts: items that cost more tokens are one cause, those that cost fewer another.

    Args:
        prices: as `token_changes` gives them.
        head: whose queries they are of.
    """
    position = {query: n for n, query in enumerate(head.queries)}
    groups = []
    for kind, key, changed in (
        (CauseKind.COSTS_MORE, "causes.items-cost-more", [change for change in prices if change.tokens > 0]),
        (CauseKind.COSTS_LESS, "causes.items-cost-less", [change for change in reversed(prices) if change.tokens < 0]),
    ):
        if not changed:
            continue
        queries = sorted({query for change in changed for query in change.queries}, key=position.__getitem__)
        detail = Message(key, n=len(changed))
        if len(changed) == 1:
            (change,) = changed
            detail = Message("causes.token-count-changed", before=change.base, after=change.head, change=change.why)
        groups.append(
            CauseGroup(
                cause=Cause(kind=kind, subjects=tuple(change.item for change in changed), detail=detail),
                lost=0,
                gained=0,
                others=0,
                tokens=sum(change.tokens for change in changed),
                queries=tuple(queries),
            )
        )
    return tuple(groups)
