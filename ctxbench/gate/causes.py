"""Why an item went in or out: a cause for every change, by what two snapshots know.

Three things decide whether an item is offered: its own score, its rivals (who else is there, with which scores and how
many tokens), and the cut. Where the cuts are ours (`replay`), each of the three is set back to the other side, alone
and together, and the change is shared among them as Shapley values: the marginal part of each, averaged over the six
orders. The largest part is the cause; of equal parts the item's own comes before the rivals', and those before the
cut's. The first row that fits holds:

============================================  ==========================================================================
lost X                                        cause
============================================  ==========================================================================
X is not in the catalog any more, disabled,   GONE
or in no scope
X was brought in by V (expansion)             the cause of V's loss, if V is lost; else PARAMETER where the settings of
                                              expansion keep X out; else EDITED if X or V was; else CROWDED by what is
                                              new there
the selector is outside                       OUTSIDE if it describes itself otherwise (unless scores stand still); else
                                              EDITED if X was; CROWDED; UNKNOWN
scores moved of items that nobody has
touched, and the model, a step that scores,
or code differs:
- X was edited and fell further than all of   EDITED
those
- without what is new or edited X would be    CROWDED
in
- under the old cut X would be in             PARAMETER
- else                                        MODEL, PARAMETER or CODE, the first of them that differs
largest part: own score or tokens             EDITED or RENAMED (a name is searched, too); of an X that nobody has
                                              touched CROWDED by all that was touched, together (BM25 and fusion:
                                              scores depend on the whole catalog)
largest part: rivals                          CROWDED by those new, edited or renamed that came in front of X; where a
                                              margin keeps X out, by the one that raised the best score; where none
                                              came in front and topK keeps X out, by those in front, whose texts are
                                              others
largest part: cut                             PARAMETER: the one that alone brings X back and alone keeps it out before,
                                              else one that does either, else all of the cut's that differ
cannot be replayed                            EDITED if X was and its score fell; what moved all scores; PARAMETER if
                                              the rule names one that differs; CROWDED; PARAMETER; CODE; UNKNOWN
nothing under test differs                    UNKNOWN: the selector is not deterministic
============================================  ==========================================================================

A gained X likewise: NEW if it was not in the catalog, or disabled; EDITED if its score rose; FREED by what is gone or
fell that was in front of it; PARAMETER, MODEL, CODE, OUTSIDE as above. Labels are no cause: they are equal on both
sides.

What this cannot tell: which of two edits did it where a model or chunker changed as well and moved all scores as far,
or where scores depend on the whole catalog; cuts that compare texts or fitted probabilities (`mmr`, `abstain`); how
many chunks of one item stand before another.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ctxbench.core.candidates import MARGIN
from ctxbench.gate.cause_finder import CauseFinder
from ctxbench.gate.input_differences import absence_text, input_differences
from ctxbench.gate.model import Cause, CauseKind, Change
from ctxbench.gate.remedies import find_remedy
from ctxbench.gate.replay import Candidate, ReplayCase, can_replay, replay_cuts, with_setting
from ctxbench.gate.snapshot_pair import QueryCandidates, SnapshotPair
from ctxbench.gate.snapshots import Snapshot

_FACTORS = ("own", "rivals", "cut")
_STATES = tuple(itertools.product((False, True), repeat=3))  # which factors are as at the head
_ORDERS = tuple(itertools.permutations(range(3)))


def explain(
    base: Snapshot, head: Snapshot, changes: Sequence[Change], renamed: Mapping[str, str]
) -> tuple[Change, ...]:
    """Give each change its cause, and what would mend it where something required was lost.

    Args:
        base, head: before and after; every query of `changes` has an answer in both.
        changes: of items that went in or out, in any order; their causes are not looked at.
        renamed: the id at the head by the id at the base.

    Returns:
        The changes in the order given, whole but for `cause` and `mend`.
    """
    compared = SnapshotPair(base, head, input_differences(base, head, renamed))
    found = _ChangeExplainer(compared, changes).causes()
    return tuple(
        replace(change, cause=cause, mend=find_remedy(change, cause, compared))
        for change, cause in zip(changes, found, strict=True)
    )


@dataclass(frozen=True, eq=False)
class _ChangeCase:
    """A change with both sides of its query."""

    change: Change
    item: str  # by its id at the head
    before: QueryCandidates
    after: QueryCandidates


class _ChangeExplainer:
    """The changes of one selector on one dataset, taken together so that cuts are replayed for all at once."""

    def __init__(self, compared: SnapshotPair, changes: Sequence[Change]) -> None:
        self.compared = compared
        self.looks = [_ChangeCase(one, compared.name(one.item), *compared.sides(one.query)) for one in changes]
        self.make = CauseFinder(compared)
        self.found: dict[int, Cause] = {}

    def causes(self) -> list[Cause]:
        """In the order of the changes."""
        numbers = range(len(self.looks))
        for n in numbers:
            if (cause := self._plain(self.looks[n])) is not None:
                self.found[n] = cause
        brought = [n for n in numbers if n not in self.found and self._brought(self.looks[n])]
        rest = sorted(set(numbers) - set(self.found) - set(brought))
        if self.compared.base.identity.outside or self.compared.head.identity.outside:
            self.found |= {n: self.make.outside(self._moved(n), self.looks[n].change) for n in rest}
        else:
            self._scored(rest)
        self._expanded(brought)
        return [self.found[n] for n in numbers]

    def _plain(self, look: _ChangeCase) -> Cause | None:
        """What the catalog alone tells."""
        altered, head = self.compared.altered, self.compared.head
        out = look.item not in head.items or bool(
            head.queries[look.change.query].scope
        )  # what has none may still get it
        if look.change.lost and look.item in altered.gone and out:
            return Cause(kind=CauseKind.GONE, subjects=(look.item,), detail=absence_text(look.item, head))
        if not look.change.lost and look.item in altered.new:
            detail = "no longer disabled" if look.item in self.compared.base.disabled else "new in the catalog"
            return Cause(kind=CauseKind.NEW, subjects=(look.item,), detail=detail)
        return None

    def _brought(self, look: _ChangeCase) -> bool:
        """Whether an expansion had it on the side where it is in."""
        return self._held(look).origin == "expansion"

    def _held(self, look: _ChangeCase) -> Candidate:
        side = look.before if look.change.lost else look.after
        return side.rows.get(look.item) or Candidate(id=look.item, place=0, score=None)

    def _moved(self, n: int) -> bool:
        return self.compared.moved(self.looks[n].change.query)

    def _scored(self, numbers: Sequence[int]) -> None:
        """What the search found, or what a session held, on the side where it is in."""
        altered, steps = self.compared.altered, self.compared.steps
        rest = []
        for n in numbers:
            if not altered:
                self.found[n] = self.make.nothing_differs()
            else:
                rest.append(n)
        able = can_replay(steps[0]) and can_replay(steps[1])
        shifted = {n for n in rest if self.make.mover is not None and self._moved(n)}
        if able:
            self._replay_shifted([n for n in rest if n in shifted])
            self._replay([n for n in rest if n not in shifted])
        for n in rest:
            if n not in self.found:
                look = self.looks[n]
                self.found[n] = self.make.by_evidence(look.change, moved=n in shifted)

    # Scores that stand still, but for what was edited.

    def _replay(self, numbers: Sequence[int]) -> None:
        """Share each change among own score, rivals and cut, where a replay gives what both sides have."""
        if not self.compared.altered.catalog and not self.compared.altered.tokens:
            self._by_parameter(numbers)
            return
        recut = bool(self.compared.altered.cutting)  # else the cut's share is nothing, whatever is tried
        kept_in = {}
        for state in _STATES:
            if state[2] or recut:
                kept_in[state] = self._kept(numbers, partial(self._case, state=state), cut=state[2])
        kept_in |= {(*state, False): kept_in[(*state, True)] for state in itertools.product((False, True), repeat=2)
                    if not recut}  # fmt: skip
        by_cut = []
        for place, n in enumerate(numbers):
            change = self.looks[n].change
            goes = {state: kept_in[state][place] is not change.lost for state in _STATES}
            if goes[False, False, False] or not goes[True, True, True]:
                continue
            parts = shapley(goes)
            factor = _FACTORS[max(range(3), key=lambda i: (round(parts[i], 9), -i))]
            if factor == "cut":
                by_cut.append(n)
            elif factor == "own":
                self.found[n] = self.make.own(change)
            else:
                self.found[n] = self.make.rivals(change)
        self._by_parameter(by_cut)

    def _case(self, n: int, state: tuple[bool, ...]) -> ReplayCase:
        own, rivals, cut = state
        look = self.looks[n]
        differ = any(one.parameter == "topK" for one in self.compared.altered.cutting)
        side = look.after if (cut if differ else rivals) else look.before  # how many chunks count, or who has them
        row = look.after.rows.get(look.item) if own else self._row_before(look)
        there = side.rows.get(look.item)
        return ReplayCase(
            own=row
            if row is None or there is None
            else replace(row, rule=there.rule),  # a tie at the bar is that side's
            rivals=self._rivals_after(look) if rivals else self._rivals_before(look),
            bar=side.bar,
        )

    def _row_before(self, look: _ChangeCase) -> Candidate | None:
        """The item at the base; where it stayed out too far to be kept, with the score that it has, or just too low."""
        known = look.before.rows.get(look.item)
        if known is not None or look.before.whole:
            return known
        row = look.after.rows.get(look.item)
        if row is None or row.score is None:
            return None
        low = math.nextafter(look.before.floor, -math.inf)
        touched = look.item in self.compared.changed or row.score > look.before.floor
        return replace(row, score=low) if touched else row

    def _rivals_before(self, look: _ChangeCase) -> list[Candidate]:
        """Those known at the base, and where it keeps the nearest only, what has lower scores still."""
        rows = [row for name, row in look.before.rows.items() if name != look.item]
        if look.before.whole:
            return rows
        changed = self.compared.changed
        further = [
            row
            for name, row in look.after.found.items()
            if name not in look.before.rows and name not in changed and look.after.score(name) <= look.before.floor
        ]
        return [*rows, *(row for row in further if row.id != look.item)]

    def _rivals_after(self, look: _ChangeCase) -> list[Candidate]:
        return [row for name, row in look.after.rows.items() if name != look.item]

    def _kept(self, numbers: Sequence[int], case: Callable[[int], ReplayCase], *, cut: bool) -> list[bool]:
        steps = self.compared.steps[1 if cut else 0]
        return replay_cuts(steps or (), [case(n) for n in numbers])

    def _by_parameter(self, numbers: Sequence[int]) -> None:
        """Which setting of the cut it was."""
        before, after = self.compared.steps
        settings = self.compared.altered.cutting
        if before is None or after is None or not numbers or not settings:
            return
        if len(settings) == 1:
            self.found |= dict.fromkeys(numbers, self.make.parameter(settings))
            return
        here = [self._case(n, (True, True, True)) for n in numbers]
        there = [self._case(n, (False, False, False)) for n in numbers]
        old_bars = [replace(case, bar=old.bar) for case, old in zip(here, there, strict=True)]
        new_bars = [replace(case, bar=new.bar) for case, new in zip(there, here, strict=True)]
        likely: dict[int, tuple[int, int]] = {}
        for place, one in enumerate(settings):
            topk = one.parameter == "topK"
            back = replay_cuts(with_setting(after, before, one), old_bars if topk else here)
            forth = replay_cuts(with_setting(before, after, one), new_bars if topk else there)
            for n, restored, done in zip(numbers, back, forth, strict=True):
                lost = self.looks[n].change.lost
                points = (restored is lost) * 2 + (done is not lost)
                if points > likely.get(n, (0, 0))[0]:
                    likely[n] = (points, place)
        for n in numbers:
            chosen = settings if n not in likely else (settings[likely[n][1]],)
            self.found[n] = self.make.parameter(chosen)

    # Scores that moved for all: another model, another chunker, other code.

    def _replay_shifted(self, numbers: Sequence[int]) -> None:
        altered, mover = self.compared.altered, self.make.mover
        if mover is not None and not altered.catalog and not altered.cutting:
            self.found |= dict.fromkeys(numbers, mover)
            return

        def as_is(n: int) -> ReplayCase:
            look = self.looks[n]
            return ReplayCase(own=look.after.rows.get(look.item), rivals=self._rivals_after(look), bar=look.after.bar)

        now = self._kept(numbers, as_is, cut=True)
        unmoved = self._kept(numbers, self._carried, cut=True)
        rivals = self._kept(numbers, self._without_changed, cut=True)
        cut = self._kept(numbers, as_is, cut=False) if altered.cutting else now
        by_cut = []
        for place, n in enumerate(numbers):
            change = self.looks[n].change
            if now[place] is change.lost or mover is None:
                continue  # the replay does not give what is there
            if self._stands_out(n) and unmoved[place] is change.lost:
                self.found[n] = self.make.own(change)
            elif rivals[place] is change.lost and self.make.in_the_way(change):
                self.found[n] = self.make.rivals(change)
            elif cut[place] is change.lost:
                by_cut.append(n)
            else:
                self.found[n] = mover
        self._by_parameter(by_cut)

    def _stands_out(self, n: int) -> bool:
        """Whether an edited item moved further, for its change, than any that nobody has touched."""
        look = self.looks[n]
        if look.item not in self.compared.changed or look.item not in look.before.found:
            return False
        query = look.change.query
        beyond = look.after.score(look.item) - self.compared.carried(query, look.before.score(look.item))
        return (-beyond if look.change.lost else beyond) > self.compared.furthest(query) + MARGIN

    def _carried(self, n: int) -> ReplayCase:
        """With its score moved as the others' did."""
        look = self.looks[n]
        row = look.before.rows.get(look.item)
        if row is not None and row.score is not None:
            row = replace(row, score=self.compared.carried(look.change.query, row.score))
        return ReplayCase(own=row, rivals=self._rivals_after(look), bar=look.after.bar)

    def _without_changed(self, n: int) -> ReplayCase:
        """Without what is new, with what is gone and what was edited as if its score had moved as the others' did."""
        look = self.looks[n]
        query, changed = look.change.query, self.compared.changed
        rows = [row for row in self._rivals_after(look) if row.id not in changed or row.score is None]
        touched = [row for name, row in look.before.found.items() if name in changed and name != look.item]
        rows += [replace(row, score=self.compared.carried(query, look.before.score(row.id))) for row in touched]
        return ReplayCase(own=look.after.rows.get(look.item), rivals=rows, bar=look.after.bar)

    # What an expansion brought in.

    def _expanded(self, numbers: Sequence[int]) -> None:
        """By what led there, as far as that changed itself; it may have been brought in, too."""
        known = {(one.change.query, one.item, one.change.lost): n for n, one in enumerate(self.looks)}
        waiting = list(numbers)
        while waiting:
            later = []
            for n in waiting:
                look = self.looks[n]
                side = look.before if look.change.lost else look.after
                via = side.offered[look.item].via
                leader = known.get((look.change.query, self.compared.name(via or ""), look.change.lost))
                if leader is not None and leader not in self.found:
                    later.append(n)
                elif leader is not None:
                    self.found[n] = self.found[leader]
                else:
                    self.found[n] = self.make.expansion(look.change, via)
            if len(later) == len(waiting):  # each leads to the other; none has led from outside
                self.found |= {n: self.make.by_evidence(self.looks[n].change) for n in later}
                return
            waiting = later


def shapley(goes: Mapping[tuple[bool, ...], bool]) -> tuple[float, float, float]:
    """The part of each of three factors in a change.

    Args:
        goes: whether the change is there, by which factors are as at the head.

    Returns:
        The marginal part of each, averaged over all orders; they add up to 1 where the change is there with all of
        them and not with none. Source: Shapley, A Value for n-Person Games, 1953.
    """
    parts = [0.0, 0.0, 0.0]
    for order in _ORDERS:
        state = [False, False, False]
        for factor in order:
            was = goes[tuple(state)]
            state[factor] = True
            parts[factor] += (goes[tuple(state)] - was) / len(_ORDERS)
    return parts[0], parts[1], parts[2]
