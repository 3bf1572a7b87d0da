"""Why an item went in or out: a cause for every change, by what two snapshots know.

Three things decide whether an item is offered: its own score, its rivals (who else is there, with which scores and how
many tokens), and the cut. Where the cuts are ours (`replay`), each of the three is set back to the other side, alone
and together, and the change is shared among them as Shapley values: the marginal part of each, averaged over the six
orders. The largest part is the cause; of equal parts the item's own comes before the rivals', and those before the
cut's. Where what was done to the catalog makes the change by itself and the cut's settings do not, or the other way
round, the other has no part in it: scores that depend on the whole catalog cannot be set back one by one, and say
nothing of that. The first row that fits holds:

============================================  ==========================================================================
lost X                                        cause
============================================  ==========================================================================
X is not in the catalog any more, disabled,   GONE
or in no scope
X was brought in by V (expansion)             the cause of V's loss, if V is lost; else PARAMETER where the settings of
                                              expansion keep X out; else EDITED if X or V was; else CROWDED by what is
                                              new there
the selector is outside                       EDITED if X was; OUTSIDE if it describes itself otherwise (unless scores
                                              stand still); else CROWDED; UNKNOWN. What was done both to it and to
                                              items is told as "either, or"; files beside its own only as "may also"
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
nothing under test differs                    UNKNOWN: not deterministic, or changed unseen
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
from dataclasses import replace
from functools import partial

from ctxbench.core.candidates import MARGIN
from ctxbench.gate.cause_finder import CauseFinder, setting_cause, unseen_cause
from ctxbench.gate.input_differences import absence_text
from ctxbench.gate.model import Cause, CauseKind, Change
from ctxbench.gate.remedies import agreeing_remedies, find_remedy
from ctxbench.gate.replay import Candidate, ReplayCase, can_replay, replay_cuts, with_setting
from ctxbench.gate.snapshot_pair import ChangeContext, SnapshotPair

_FACTORS = ("own", "rivals", "cut")
_STATES = tuple(itertools.product((False, True), repeat=3))  # which factors are as at the head
_ORDERS = tuple(itertools.permutations(range(3)))


def explain(pair: SnapshotPair, changes: Sequence[Change]) -> tuple[Change, ...]:
    """Give each change its cause, and a remedy where a required item was lost.

    Args:
        pair: base and head; every query of `changes` has an answer in both.
        changes: items that went in or out, in any order; their causes are not looked at.

    Returns:
        The changes in the order given, with `cause` and `remedy` filled in.
    """
    causes = _ChangeExplainer(pair, changes).causes()
    explained = [replace(change, cause=cause) for change, cause in zip(changes, causes, strict=True)]
    return agreeing_remedies(
        [replace(change, remedy=find_remedy(change, change.cause, pair)) for change in explained], pair
    )


class _ChangeExplainer:
    """Finds the causes of all changes of a selector on a dataset together, so that cuts are replayed only once."""

    def __init__(self, pair: SnapshotPair, changes: Sequence[Change]) -> None:
        self.pair = pair
        self.contexts = [pair.context(change) for change in changes]
        self.finder = CauseFinder(pair)
        self.explained: dict[ChangeContext, Cause] = {}

    def causes(self) -> list[Cause]:
        """The cause of every change, in the order of the changes."""
        for context in self.contexts:
            if (cause := self._catalog_cause(context)) is not None:
                self.explained[context] = cause
        left = [context for context in self.contexts if context not in self.explained]
        expanded = [context for context in left if self._is_expansion(context)]
        rest = [context for context in left if context not in expanded]
        if self.pair.base.identity.outside or self.pair.head.identity.outside:
            self.explained |= {
                context: self.finder.outside_cause(self._scores_moved(context), context) for context in rest
            }
        else:
            self._explain_scored(rest)
        self._explain_expansions(expanded)
        return [self.explained[context] for context in self.contexts]

    def _catalog_cause(self, context: ChangeContext) -> Cause | None:
        """The cause of a change that the catalog alone explains: the item is gone or new. None for any other change."""
        inputs, head = self.pair.inputs, self.pair.head
        scoped = bool(head.queries[context.query].scope)  # a query without a scope may still get the item
        out = context.item not in head.items or scoped
        if context.lost and context.item in inputs.gone and out:
            return Cause(kind=CauseKind.GONE, subjects=(context.item,), detail=absence_text(context.item, head))
        if not context.lost and context.item in inputs.new:
            detail = "no longer disabled" if context.item in self.pair.base.disabled else "new in the catalog"
            return Cause(kind=CauseKind.NEW, subjects=(context.item,), detail=detail)
        return None

    def _is_expansion(self, context: ChangeContext) -> bool:
        """Whether an expansion brought the item in, on the side where it is offered."""
        candidate = context.offering.rows.get(context.item)
        return candidate is not None and candidate.origin == "expansion"

    def _scores_moved(self, context: ChangeContext) -> bool:
        return self.pair.scores_moved(context.query)

    def _explain_scored(self, contexts: Sequence[ChangeContext]) -> None:
        """Explain changes of items that the search found, or that a session held, where they are offered."""
        if not self.pair.inputs:
            self.explained |= dict.fromkeys(contexts, unseen_cause(self.pair))
            return
        shifted = {
            context for context in contexts if self.finder.common_cause is not None and self._scores_moved(context)
        }
        if all(map(can_replay, self.pair.steps)):
            self._replay_shifted([context for context in contexts if context in shifted])
            self._replay([context for context in contexts if context not in shifted])
        for context in contexts:
            if context not in self.explained:
                self.explained[context] = self.finder.cause_by_evidence(context, moved=context in shifted)

    # Only the scores of changed items moved.

    def _replay(self, contexts: Sequence[ChangeContext]) -> None:
        """Divide each change among own score, rivals and cut, where a replay gives the offers of both sides."""
        if not self.pair.inputs.catalog and not self.pair.inputs.tokens:
            self._explain_by_settings(contexts)
            return
        recut = bool(self.pair.inputs.cutting)  # else the cut's share is nothing, whatever is tried
        kept_in = {
            state: self._replay_side(contexts, partial(self._replay_case, state=state), cut=state[2])
            for state in _STATES
            if state[2] or recut
        }
        by_cut, joint = [], []
        for index, context in enumerate(contexts):
            occurs: dict[tuple[bool, ...], bool] = {
                (item, rivals, cut): kept_in[item, rivals, cut or not recut][index] is not context.lost
                for item, rivals, cut in _STATES
            }
            if occurs[False, False, False] or not occurs[True, True, True]:
                continue
            factor = self._largest_part(occurs, context)
            by_catalog = self.finder.own_cause if factor == "own" else self.finder.rival_cause
            if factor == "cut":
                by_cut.append(context)
            else:
                self.explained[context] = by_catalog(context)
            alone = occurs[True, True, False] or occurs[False, False, True]
            if recut and not alone and not (factor == "cut" and self.pair.weighs_the_catalog):
                joint.append(context)
        self._explain_by_settings(by_cut)
        for context in joint:
            self.explained[context] = self._joint_cause(self.explained[context], context)

    def _joint_cause(self, cause: Cause, context: ChangeContext) -> Cause:
        """The cause of a change that needs both the catalog and the cut; it is another cause than either alone."""
        if cause.kind is not CauseKind.PARAMETER:
            second = ", ".join(dict.fromkeys(map(str, self.pair.inputs.cutting)))
        elif context.item in self.pair.changed_items:
            second = "the edit of the item"
        else:
            second = self.finder.rival_cause(context).detail
        return replace(cause, detail=f"{cause.detail}, only together with this: {second}", mechanism="")

    def _largest_part(self, occurs: Mapping[tuple[bool, ...], bool], context: ChangeContext) -> str:
        """The factor that made most of a change; `occurs` as for `shapley`."""
        by_catalog, by_cut = occurs[True, True, False], occurs[False, False, True]
        if by_cut and not by_catalog:
            return "cut"
        cut_counts = by_catalog == by_cut  # either would do, or both are needed
        untouched = context.item not in self.pair.changed_items and not self.finder.blockers(context)[0]
        if cut_counts and self.pair.inputs.cutting and self.pair.weighs_the_catalog and untouched:
            return "cut"  # a setting is plainer than that scores moved everywhere
        parts = shapley(occurs)
        return _FACTORS[max(range(3 if cut_counts else 2), key=lambda i: (round(parts[i], 9), -i))]

    def _replay_case(self, context: ChangeContext, state: tuple[bool, ...]) -> ReplayCase:
        item, rivals, cut = state
        differ = any(difference.parameter == "topK" for difference in self.pair.inputs.cutting)
        side = context.head if (cut if differ else rivals) else context.base  # how many chunks count, or who has them
        row = context.head.rows.get(context.item) if item else self._base_candidate(context)
        on_side = side.rows.get(context.item)
        if row is not None and on_side is not None:
            row = replace(row, rule=on_side.rule)  # a tie at the bar is decided as on that side
        return ReplayCase(
            candidate=row,
            rivals=self._head_rivals(context) if rivals else self._base_rivals(context),
            bar=side.bar,
        )

    def _base_candidate(self, context: ChangeContext) -> Candidate | None:
        """The item at the base; if it is not stored there, with its score at the head or one just too low."""
        candidate = context.base.rows.get(context.item)
        if candidate is not None or context.base.complete:
            return candidate
        row = context.head.rows.get(context.item)
        if row is None or row.score is None:
            return None
        low = math.nextafter(context.base.lowest_score, -math.inf)
        touched = context.item in self.pair.changed_items or row.score > context.base.lowest_score
        return replace(row, score=low) if touched else row

    def _base_rivals(self, context: ChangeContext) -> list[Candidate]:
        """The rivals known at the base, and where only the nearest are kept, unchanged ones with lower scores."""
        rows = [row for name, row in context.base.rows.items() if name != context.item]
        if context.base.complete:
            return rows
        changed = self.pair.changed_items
        further = [
            row
            for name, row in context.head.searched.items()
            if name not in context.base.rows
            and name not in changed
            and context.head.score(name) <= context.base.lowest_score
        ]
        return [*rows, *(row for row in further if row.id != context.item)]

    def _head_rivals(self, context: ChangeContext) -> list[Candidate]:
        return [row for name, row in context.head.rows.items() if name != context.item]

    def _replay_side(
        self, contexts: Sequence[ChangeContext], case: Callable[[ChangeContext], ReplayCase], *, cut: bool
    ) -> list[bool]:
        return replay_cuts(self.pair.steps[1 if cut else 0] or (), [case(context) for context in contexts])

    def _explain_by_settings(self, contexts: Sequence[ChangeContext]) -> None:
        """Explain changes by the setting of the cut that made them.

        A setting is likely that undoes the change where it alone is set back, less so one that alone makes it at the
        base; where neither is found, all settings together are the cause.
        """
        base_steps, head_steps = self.pair.steps
        settings = self.pair.inputs.cutting
        if base_steps is None or head_steps is None or not contexts or not settings:
            return
        self.explained |= dict.fromkeys(contexts, setting_cause(settings))
        if len(settings) == 1:
            return
        head_cases = [self._replay_case(context, (True, True, True)) for context in contexts]
        base_cases = [self._replay_case(context, (False, False, False)) for context in contexts]
        old_bars = [replace(case, bar=old.bar) for case, old in zip(head_cases, base_cases, strict=True)]
        new_bars = [replace(case, bar=new.bar) for case, new in zip(base_cases, head_cases, strict=True)]
        best = dict.fromkeys(contexts, 0)
        for setting in settings:
            topk = setting.parameter == "topK"
            undone = replay_cuts(with_setting(head_steps, base_steps, setting), old_bars if topk else head_cases)
            applied = replay_cuts(with_setting(base_steps, head_steps, setting), new_bars if topk else base_cases)
            for context, kept_if_undone, kept_if_made in zip(contexts, undone, applied, strict=True):
                lost = context.lost
                points = (kept_if_undone is lost) * 2 + (kept_if_made is not lost)
                if points > best[context]:
                    best[context], self.explained[context] = points, setting_cause([setting])

    # The scores of all items moved: another model, another chunker, other code.

    def _replay_shifted(self, contexts: Sequence[ChangeContext]) -> None:
        inputs, mover = self.pair.inputs, self.finder.common_cause
        if mover is not None and not inputs.catalog and not inputs.cutting:
            self.explained |= dict.fromkeys(contexts, mover)
            return

        def as_is(context: ChangeContext) -> ReplayCase:
            return ReplayCase(
                candidate=context.head.rows.get(context.item), rivals=self._head_rivals(context), bar=context.head.bar
            )

        current = self._replay_side(contexts, as_is, cut=True)
        unmoved = self._replay_side(contexts, self._expected_case, cut=True)
        rivals = self._replay_side(contexts, self._case_without_changes, cut=True)
        cut = self._replay_side(contexts, as_is, cut=False) if inputs.cutting else current
        by_cut = []
        for index, context in enumerate(contexts):
            if current[index] is context.lost or mover is None:
                continue  # the replay does not give what is there
            if self._moved_most(context) and unmoved[index] is context.lost:
                self.explained[context] = self.finder.own_cause(context)
            elif rivals[index] is context.lost and self.finder.blockers(context)[0]:
                self.explained[context] = self.finder.rival_cause(context)
            elif cut[index] is context.lost:
                by_cut.append(context)
            else:
                self.explained[context] = mover
        self._explain_by_settings(by_cut)

    def _moved_most(self, context: ChangeContext) -> bool:
        """Whether the score of an edited item moved further, in the direction of its change, than any other."""
        if context.item not in self.pair.changed_items or context.item not in context.base.searched:
            return False
        query = context.query
        beyond = context.head.score(context.item) - self.pair.expected_score(query, context.base.score(context.item))
        return (-beyond if context.lost else beyond) > self.pair.largest_deviation(query) + MARGIN

    def _expected_case(self, context: ChangeContext) -> ReplayCase:
        """The item with the score that it would have if it had moved as those of unchanged items did."""
        row = context.base.rows.get(context.item)
        if row is not None and row.score is not None:
            row = replace(row, score=self.pair.expected_score(context.query, row.score))
        return ReplayCase(candidate=row, rivals=self._head_rivals(context), bar=context.head.bar)

    def _case_without_changes(self, context: ChangeContext) -> ReplayCase:
        """Rivals without new items, and with items that are gone or edited at their `expected_score`."""
        query, changed = context.query, self.pair.changed_items
        rows = [row for row in self._head_rivals(context) if row.id not in changed or row.score is None]
        touched = [row for name, row in context.base.searched.items() if name in changed and name != context.item]
        rows += [replace(row, score=self.pair.expected_score(query, context.base.score(row.id))) for row in touched]
        return ReplayCase(candidate=context.head.rows.get(context.item), rivals=rows, bar=context.head.bar)

    # Items that an expansion brought in.

    def _explain_expansions(self, contexts: Sequence[ChangeContext]) -> None:
        """Explain expanded items by the item that led to them, where that one changed as well."""
        contexts_by_change = {(context.query, context.item, context.lost): context for context in self.contexts}
        waiting = contexts
        while waiting:
            later = []
            for context in waiting:
                via = context.offering.offered[context.item].via
                leader = contexts_by_change.get((context.query, self.pair.head_id(via or ""), context.lost))
                if leader is None:
                    self.explained[context] = self.finder.expansion_cause(context, via)
                elif leader in self.explained:
                    self.explained[context] = self.explained[leader]
                else:
                    later.append(context)
            if len(later) == len(waiting):  # each leads to the other; none has led from outside
                self.explained |= {context: self.finder.cause_by_evidence(context) for context in later}
                return
            waiting = later


def shapley(occurs: Mapping[tuple[bool, ...], bool]) -> tuple[float, float, float]:
    """The part of each of three factors in a change.

    Args:
        occurs: whether the change is there, by which factors are as at the head.

    Returns:
        The marginal part of each, averaged over all orders; they add up to 1 where the change is there with all of
        them and not with none. Source: Shapley, A Value for n-Person Games, 1953.
    """
    parts = [0.0, 0.0, 0.0]
    for order in _ORDERS:
        state = [False, False, False]
        for factor in order:
            was = occurs[tuple(state)]
            state[factor] = True
            parts[factor] += (occurs[tuple(state)] - was) / len(_ORDERS)
    return parts[0], parts[1], parts[2]
