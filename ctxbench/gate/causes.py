"""The cause of every change, suggested fixes for lost items, and their token change.

How a cause is found: `experiments/guide/causes.md`. A fix undoes the cause, or widens the cut.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ctxbench.datasets.layout import former_place
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.cause_finder import (
    CauseFinder,
    ChangeContext,
    QueryCandidates,
    SnapshotPair,
    grown_price,
    is_found_again,
    is_kept,
    is_steady,
    item_change,
    setting_cause,
    unseen_cause,
)
from ctxbench.gate.comparability import item_of
from ctxbench.gate.inputs import (
    Candidate,
    ReplayCase,
    absence_text,
    can_replay,
    deciding_cut,
    replay_cuts,
    replay_offers,
    server_of,
    with_changes,
    with_setting,
    with_value_of,
)
from ctxbench.gate.results import Cause, CauseGroup, CauseKind, Change, Fix, MetricVerdict
from ctxbench.gate.settings import PRICES
from ctxbench.gate.snapshots import NONE, FlatStep, first_few, has_all_candidates, level, levels, shortened, size
from ctxbench.io.documents import dump_json
from ctxbench.io.errors import Message, UserError
from ctxbench.model.candidates import MARGIN
from ctxbench.model.items import ItemKey
from ctxbench.search.chunking import ItemChunking, query_chunks, searched

_CLOSE = 0.05  # items whose similarities to a request differ by at most this are nearly tied
_SHORT = 3  # letters
_MAX_QUOTED = 90  # characters of a lost sentence that are shown
_MAX_NAMED_ITEMS = 3  # items of which each is named
_UNDO_TEXTS = {
    "new": "remove {}",
    "enabled": "disable {} again",
    "edited": "undo the edit of {}",
    "renamed": "undo the renaming of {}",
    "gone": "restore {}",
    "disabled": "enable {} again",
}


def find_fix(loss: Change, cause: Cause, pair: SnapshotPair) -> Fix:
    """Find the fix for a lost required item; an empty one for other changes, and if no fix is known."""
    if not (loss.lost and loss.required):
        return Fix()
    change = pair.context(loss)
    item = change.item
    match cause.kind:
        case CauseKind.GONE:
            return Fix(_with_successor(_restore_item(item, pair), item, pair))
        case CauseKind.RENAMED:
            return Fix(Message("causes.fix-old-name", item=item))
        case CauseKind.EDITED if cause.subjects == (item,):
            undo = Message("causes.fix-undo-renaming" if item in pair.base_ids else "causes.fix-undo-edit", item=item)
            if price := grown_price(change, pair):
                key = "causes.fix-shorten" if price.enough else "causes.fix-undo-longer-text"
                return Fix(Message(key, undo=undo, before=price.before, after=price.after))
            if is_found_again(change, pair) and (lost := lost_words(change, pair)):
                return Fix(undo, quoted=Message("causes.fix-restore-words", words=lost))
            return _with_alternative(undo, _widen_cut(change, pair))
        case CauseKind.CROWDED:
            wider = _widen_cut(change, pair)
            separated, undone = _separate_items(change, cause, pair, wider), _undo_items(cause, pair)
            return separated or (wider if wider.possible else undone) or undone or wider
        case CauseKind.PARAMETER:
            return _undo_settings(cause, pair)
        case CauseKind.MODEL:
            return Fix(Message("causes.fix-tune"))
        case CauseKind.UNKNOWN if not pair.inputs:
            return Fix(Message("causes.fix-check-inputs" if is_steady(pair) else "causes.fix-repeat"))
        case CauseKind.UNKNOWN if pair.changed_items == {*cause.subjects} and not _differs_beside_items(pair):
            return _undo_items(cause, pair)
        case _:
            return _widen_cut(change, pair)


def agreeing_fixes(changes: Sequence[Change], pair: SnapshotPair) -> tuple[Change, ...]:
    """The changes with fixes that do not contradict each other: no parameter is set to two values.

    If a parameter is set back for some losses, and a wider cut would fix others, setting it back is the fix of
    those as well if that is enough for them; else the fix says that setting it back is not enough.
    """
    fixes = [change.fix for change in changes if change.cause.kind is CauseKind.PARAMETER and change.fix.changed]
    backs = {dump_json(fix.changed): fix for fix in fixes}

    def agreeing(change: Change) -> Change:
        set_to = {(path, name) for path, name, _ in change.fix.changed}
        back = next(
            (back for back in backs.values() if set_to & {(path, name) for path, name, _ in back.changed}), None
        )
        if back is None or change.cause.kind is CauseKind.PARAMETER:
            return change
        context = pair.context(change)
        if is_kept(context.head.rows.get(context.item), context, pair.steps[1] or (), back.changed):
            return replace(change, fix=back)
        return replace(change, fix=replace(change.fix, share=Message("causes.fix-set-back-not-enough")))

    return tuple(map(agreeing, changes))


def _differs_beside_items(pair: SnapshotPair) -> bool:
    """Whether more than items differs: undoing the changes of items may then not restore the answers."""
    differences = [difference for difference in pair.inputs.external if not difference.adjacent]
    return any((pair.inputs.settings, differences, pair.inputs.embedder, pair.inputs.tokens))


def undo_inclusion(cause: Cause, pair: SnapshotPair) -> Fix:
    """Find the fix for an item whose include mode changed; it costs tokens even if nothing is lost."""
    (item, *rest) = cause.subjects or ("",)
    before, after = pair.base.items.get(pair.base_ids.get(item, item)), pair.head.items.get(item)
    if rest or cause.kind is not CauseKind.EDITED or before is None or after is None:
        return Fix()
    old_mode, new_mode = ((fact.row or {}).get("include", "agent") for fact in (before, after))
    if before.row is None or after.row is None or old_mode == new_mode:
        return Fix()
    restore = _in_brackets(_restore_command(item, pair))
    return Fix(Message("causes.fix-include-mode", item=item, old=old_mode, new=new_mode, command=restore))


def _in_brackets(command: str) -> str:
    return f" (`{command}`)" if command else ""


def _restore_command(item: str, pair: SnapshotPair) -> str:
    """The command that restores the file of an agent's item from the accepted commit; empty if git lacks it."""
    if pair.accepted_files is None or item.startswith("tool:"):
        return ""
    agent, root, commit, files = pair.accepted_files
    fact = pair.base.items.get(pair.base_ids.get(item, item))
    row = (None if fact is None else fact.row) or {}
    file = Path(os.path.realpath(former_place(agent, item, str(row.get("metadata", {}).get("path", "")))[0]))
    if not file.is_relative_to(root) or file.relative_to(root).as_posix() not in files:
        return ""
    return shlex.join(["git", "restore", f"--source={commit}", "--", os.path.relpath(file, os.path.realpath("."))])


def _with_successor(fix: Message, item: str, pair: SnapshotPair) -> Message:
    """The fix with a second one: move the labels of an item that is gone to the new item that replaces it."""
    kind = ItemKey.parse(item).type
    if (
        not any(ItemKey.parse(name).type == kind for name in pair.inputs.new)
        or item in pair.head.items
        or item in pair.head.disabled
    ):
        return fix
    likely = pair.successors.get(item)
    return Message(
        "causes.fix-move-labels",
        fix=fix,
        successor=likely or "a new item",
        dataset=shlex.quote(pair.head.reference or "DATASET"),
        line=f"{item}: {likely or 'ID'}",
    )


def _restore_item(item: str, pair: SnapshotPair) -> Message:
    """The fix that makes an item available again."""
    head = pair.head
    if item in head.items:
        return Message("causes.fix-scope", item=item)
    if item in head.disabled:
        return Message("causes.fix-enable", item=item)
    if (absent := head.absent_servers.get(server_of(item))) is not None:
        return Message("causes.fix-server", advice=absent.fix)
    return Message("causes.fix-restore", item=item, command=_in_brackets(_restore_command(item, pair)))


def _with_alternative(phrase: Message, fix: Fix) -> Fix:
    """The fix of a phrase, with another fix as an alternative if that one helps."""
    if not (fix and fix.possible):
        return Fix(phrase)
    return replace(fix, phrase=Message("causes.fix-either", first=phrase, second=fix.phrase))


def lost_words(change: ChangeContext, pair: SnapshotPair) -> str:
    """The sentence that an edited item was found by and that its text has lost, in quotes.

    Where the pair of chunks is not known, as in a baseline, it is the lost sentence that has most of the words of the
    request, of equals the longest. Empty without texts, or if no sentence is lost.
    """
    before = pair.base.items.get(pair.base_ids.get(change.item, change.item))
    after, candidate = pair.head.items.get(change.item), change.base.offered.get(change.item)
    if before is None or after is None or candidate is None:
        return ""
    retriever = next((step for step in pair.steps[0] or () if "chunks" in step.values), None)
    bodies = any(step.values.get("bodies") for step in pair.steps[0] or ())
    try:
        chunking = ItemChunking(bodies=bodies) if retriever is None else ItemChunking.described(retriever.values)
    except UserError:  # a plugin's rule that is not installed here
        return ""
    old, new = item_of(before), item_of(after)
    chunks = () if old is None or chunking is None else chunking(old)
    if new is None or (candidate.pair is not None and candidate.pair.item_chunk >= len(chunks)):
        return ""
    text = " ".join(searched(new, bodies=bodies).split())
    looked_at = chunks if candidate.pair is None else chunks[candidate.pair.item_chunk : candidate.pair.item_chunk + 1]
    gone = [
        sentence for chunk in looked_at for sentence in query_chunks(chunk) if " ".join(sentence.split()) not in text
    ]
    words = _words(pair.head.queries[change.query].text)
    best = " ".join(max(gone, key=lambda sentence: (len(words & _words(sentence)), len(sentence)), default="").split())
    return f'"{shortened(best, _MAX_QUOTED)}"' if best else ""


def _words(text: str) -> frozenset[str]:
    """The words of a text in lower case, without short ones, which occur everywhere."""
    return frozenset(word for word in re.findall(r"\w+", text.lower()) if len(word) > _SHORT)


def _separate_items(change: ChangeContext, cause: Cause, pair: SnapshotPair, wider: Fix) -> Fix:
    """The fix that distinguishes an item from those ranked above with nearly the same score (similarities only)."""
    if pair.weighs_the_catalog:
        return Fix()
    after, item = change.head, change.item
    distance = {name: abs(after.score(name) - after.score(item)) for name in cause.subjects}
    alike = sorted((name for name in distance if distance[name] <= _CLOSE), key=lambda name: (distance[name], name))
    if not alike:
        return Fix()
    return _with_alternative(Message("causes.fix-distinguish", item=item, others=first_few(alike, 1)), wider)


def _undo_items(cause: Cause, pair: SnapshotPair) -> Fix:
    """The fix that undoes the changes of the items in the way, if those are few."""
    if not cause.subjects or len(cause.subjects) > _MAX_NAMED_ITEMS:
        return Fix()
    steps = [_UNDO_TEXTS[item_change(item, pair)].format(item) for item in cause.subjects]
    return Fix(Message("causes.fix-undo-items", steps=" and ".join(steps)))


def _undo_settings(cause: Cause, pair: SnapshotPair) -> Fix:
    """The fix that sets parameters back to their values at the base."""
    counter = () if pair.inputs.tokens is None else (pair.inputs.tokens,)
    settings = [setting for setting in (*pair.inputs.settings, *counter) if setting.name in cause.subjects]
    steps = [*dict.fromkeys(f"restore the file of {setting.step}" for setting in settings if setting.words)]
    values = [(setting.name, setting.before) for setting in settings if not setting.words]
    back = dict.fromkeys(f"{name} back to {before}" for name, before in values if before != NONE)
    added = dict.fromkeys(name for name, before in values if before == NONE)
    steps += [f"set {', '.join(back)}"] * bool(back) + [f"remove {', '.join(added)}"] * bool(added)
    phrase = Message("causes.fix-undo-settings", steps=" and ".join(steps)) if steps else ""
    return Fix(phrase, changed=_settings_of_base(cause, pair))


def _settings_of_base(cause: Cause, pair: SnapshotPair) -> tuple[tuple[str, str, Any], ...]:
    """The old values of the parameters of cuts that a cause names; empty if it also names another setting."""
    settings = [setting for setting in pair.inputs.settings if setting.name in cause.subjects]
    base, head = ({step.path: step.values for step in side or ()} for side in pair.steps)
    # the number of chunks before an item is not stored, so another limit of chunks cannot be tried
    cuts = [setting for setting in settings if not setting.scoring and not setting.chunk_limit]
    restorable = [setting for setting in cuts if setting.parameter in base.get(setting.step, {})]
    if not settings or len(restorable) < len(settings) or pair.inputs.tokens is not None:
        return ()
    back: dict[tuple[str, str], Any] = {}
    for setting in restorable:
        at, was = (setting.step, setting.parameter), base[setting.step][setting.parameter]
        back[at] = with_value_of(back.get(at, head.get(setting.step, {}).get(setting.parameter)), was, setting.keys)
    return tuple((path, name, value) for (path, name), value in back.items())


def _widen_cut(change: ChangeContext, pair: SnapshotPair) -> Fix:
    """The fix that changes the parameters of the cuts that exclude the item, to values that include it.

    Empty if that would not restore the item: cuts that can be replayed are tried with these values. If a value is
    out of the range of its parameter, the phrase says only that.
    """
    after, item = change.head, change.item
    row, steps = after.rows.get(item), pair.steps[1] or ()
    step = None if row is None else deciding_cut(steps, row)
    if row is None or row.score is None or step is None or row.beyond_chunks:
        return Fix()
    later_cuts = [cut for cut in steps[steps.index(step) :] if cut.kind == "cut" and row.type in cut.types]
    widenings = [
        (cut, name, value)
        for cut in later_cuts
        for name, value in _wider_values(item, after, cut, pair, later_cuts).items()
    ]
    changed = tuple((cut.path, name, value) for cut, name, value in widenings)
    is_widened = any(cut.path == step.path for cut, _, _ in widenings)
    if not is_widened or (can_replay(steps) and not is_kept(row, change, steps, changed)):
        return Fix()
    for cut, name, value in widenings:
        label = user_name(name, cut, pair)
        parameter = pair.head.identity.parameters.get(label)
        if parameter is not None and not parameter.low <= value <= parameter.high:
            limits = {"low": parameter.low, "high": parameter.high}
            return Fix(Message("causes.fix-out-of-range", parameter=label, **limits), possible=False)
    phrase, verb, amount = "", "", 0.0
    for index, (cut, name, value) in enumerate(widenings):
        last, verb = verb, "lower" if value < cut.values[name] else "raise"
        text = user_name(name, cut, pair) if verb == last else f"{verb} {user_name(name, cut, pair)}"
        phrase, amount = f"{phrase} {amount:g} and {text} to" if index else f"{text} to", value
    return Fix(Message("causes.fix-widen", parameters=phrase), amount, lower=verb == "lower", changed=changed)


def _wider_values(
    item: str, side: QueryCandidates, step: FlatStep, pair: SnapshotPair, later_cuts: Sequence[FlatStep]
) -> Mapping[str, float]:
    """The parameters of a cut that are too narrow for an item, with values that are wide enough; empty if none is."""
    rank, score = place_among_rivals(item, side, step, pair, later_cuts), side.score(item)
    best = max((side.score(name) for name, row in side.searched.items() if row.type in step.types), default=score)
    wider: Mapping[str, float] = step.built.declared("wider")(rank=rank, score=score, best=best)
    return wider


def place_among_rivals(
    item: str, side: QueryCandidates, step: FlatStep, pair: SnapshotPair, later_cuts: Sequence[FlatStep]
) -> int:
    """The rank of an item among its rivals: how many items the cut would have to offer until it is among them.

    What is kept out by cuts that are not among `later_cuts` does not count.
    """
    steps = pair.steps[1] or ()
    rows = [
        row
        for name, row in side.searched.items()
        if name != item and row.type in step.types and (row.rule is None or deciding_cut(steps, row) in later_cuts)
    ]
    key = (-side.score(item), side.rows[item].position)
    return 1 + sum((-side.score(row.id), row.position) < key for row in rows)


def user_name(name: str, step: FlatStep, pair: SnapshotPair) -> str:
    """The name by which the user knows a parameter of a step: the shortest that ends like it and has its value."""
    alike = [
        parameter
        for parameter, value in pair.head.identity.values.items()
        if parameter.lower().endswith(name.lower()) and value == step.values[name]
    ]
    return min(alike, key=lambda parameter: (len(parameter), parameter), default=f"{step.path}.{name}")


_FACTORS = ("own", "rivals", "cut")
_STATES = tuple(itertools.product((False, True), repeat=3))  # which factors are as at the head
_ORDERS = tuple(itertools.permutations(range(3)))


def explain(pair: SnapshotPair, changes: Sequence[Change]) -> tuple[Change, ...]:
    """Give each change its cause, and a fix where a required item was lost.

    Args:
        pair: base and head; every query of `changes` has an answer in both.
        changes: items that went in or out, in any order; their causes are not looked at.

    Returns:
        The changes in the order given, with `cause` and `fix` filled in.
    """
    causes = _ChangeExplainer(pair, changes).causes()
    explained = [replace(change, cause=cause) for change, cause in zip(changes, causes, strict=True)]
    return agreeing_fixes([replace(change, fix=find_fix(change, change.cause, pair)) for change in explained], pair)


class _ChangeExplainer:
    """Finds the causes of all changes of a selector on a dataset together, so that cuts are replayed only once."""

    def __init__(self, pair: SnapshotPair, changes: Sequence[Change]) -> None:
        self.pair = pair
        self.contexts = [pair.context(change) for change in changes]
        self.finder = CauseFinder(pair)
        self.explained: dict[ChangeContext, Cause] = {}

    def causes(self) -> list[Cause]:
        """The cause of every change, in the order of the changes."""
        self.explained |= {
            context: cause for context in self.contexts if (cause := self._catalog_cause(context)) is not None
        }
        left = [context for context in self.contexts if context not in self.explained]
        expanded = [context for context in left if context.offering.rows[context.item].origin == "expansion"]
        rest = [context for context in left if context not in expanded]
        if self.pair.base.identity.external or self.pair.head.identity.external:
            self.explained |= {
                context: self.finder.external_cause(self.pair.scores_moved(context.query), context) for context in rest
            }
        else:
            self._explain_scored(rest)
        self._explain_expansions(expanded)
        return [self.explained[context] for context in self.contexts]

    def _catalog_cause(self, context: ChangeContext) -> Cause | None:
        """The cause of a change that the catalog alone explains: the item is gone or new. None for any other change."""
        inputs, head = self.pair.inputs, self.pair.head
        scoped = bool(head.queries[context.query].scope)  # a query without a scope may still get the item
        if context.lost and context.item in inputs.gone and (context.item not in head.items or scoped):
            return Cause(kind=CauseKind.GONE, subjects=(context.item,), detail=absence_text(context.item, head))
        if not context.lost and context.item in inputs.new:
            detail = Message("causes.item-enabled" if context.item in self.pair.base.disabled else "causes.item-new")
            return Cause(kind=CauseKind.NEW, subjects=(context.item,), detail=detail)
        return None

    def _explain_scored(self, contexts: Sequence[ChangeContext]) -> None:
        """Explain changes of items from a search or a session."""
        if not self.pair.inputs:
            self.explained |= dict.fromkeys(contexts, unseen_cause(self.pair))
            return
        shifted = {
            context
            for context in contexts
            if self.finder.common_cause is not None and self.pair.scores_moved(context.query)
        }
        if all(map(can_replay, self.pair.steps)):
            self._replay_shifted([context for context in contexts if context in shifted])
            self._replay([context for context in contexts if context not in shifted])
        self.explained |= {
            context: self.finder.cause_by_evidence(context, moved=context in shifted)
            for context in contexts
            if context not in self.explained
        }

    # Only the scores of changed items moved.

    def _replay(self, contexts: Sequence[ChangeContext]) -> None:
        """Divide each change among own score, rivals and cut, where a replay gives the offers of both sides."""
        if not self.pair.inputs.catalog and not self.pair.inputs.tokens:
            self._explain_by_settings(contexts)
            return
        recut = bool(self.pair.inputs.cutting)  # else the cut has no share
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
        self.explained |= {context: self._joint_cause(self.explained[context], context) for context in joint}

    def _joint_cause(self, cause: Cause, context: ChangeContext) -> Cause:
        """The cause of a change that needs both the catalog and the cut; it is another cause than either alone."""
        if cause.kind is not CauseKind.PARAMETER:
            second = ", ".join(dict.fromkeys(map(str, self.pair.inputs.cutting)))
        else:
            is_edit = context.item in self.pair.changed_items
            second = "the edit of the item" if is_edit else self.finder.rival_cause(context).detail
        return replace(cause, detail=Message("causes.only-together", first=cause.detail, second=second))

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
        differ = any(difference.chunk_limit for difference in self.pair.inputs.cutting)
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
        if (candidate := context.base.rows.get(context.item)) is not None or context.base.complete:
            return candidate
        if (row := context.head.rows.get(context.item)) is None or row.score is None:
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
            limit = setting.chunk_limit
            undone = replay_cuts(with_setting(head_steps, base_steps, setting), old_bars if limit else head_cases)
            applied = replay_cuts(with_setting(base_steps, head_steps, setting), new_bars if limit else base_cases)
            for context, kept_if_undone, kept_if_made in zip(contexts, undone, applied, strict=True):
                lost = context.lost
                if (points := (kept_if_undone is lost) * 2 + (kept_if_made is not lost)) > best[context]:
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
                continue  # the replay does not give the current offer
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
        if (row := context.base.rows.get(context.item)) is not None and row.score is not None:
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


_MOST_ROWS = 500_000  # candidates of all queries that are replayed; with more, token counts of fixes are left out


def with_fix_prices(
    groups: Sequence[CauseGroup], pair: SnapshotPair, queries: Sequence[str], metrics: Sequence[MetricVerdict]
) -> tuple[CauseGroup, ...]:
    """Add the token count to the fixes of causes.

    It is the mean of `tokens` over the queries, now and with the fix, and whether the check would find that worse.
    It is left out for a fix that changes no parameter of a cut, and if a replay does not give the current offers:
    a step needs more than scores, or not all candidates are known.

    Args:
        groups: causes with their fixes.
        pair: base and head.
        queries: ids of the queries compared.
        metrics: the verdicts; without `tokens` among them nothing is added.
    """
    judged = next((verdict for verdict in metrics if verdict.metric == PRICES[0]), None)
    if judged is None or not any(group.fix.changed for group in groups):
        return tuple(groups)
    steps = pair.steps[1] or ()
    if not (cases := _priced_cases(pair, queries, steps)):
        return tuple(groups)
    metric, comparison = parse_metric(judged.metric), judged.comparison

    def with_price(fix: Fix) -> Fix:
        offers = replay_offers(with_changes(steps, fix.changed), cases)
        added = sum(row.tokens for rows in offers for row in rows if row.origin != "session")  # no session counts
        tokens = added / len(cases)
        price = Message("gate.fix-tokens", change=levels(metric, comparison.other, tokens))
        if tokens - comparison.base > judged.tolerance:
            base, tolerance = level(metric, comparison.base), size(metric, judged.tolerance)
            price = Message("gate.fix-too-many-tokens", tokens=price, base=base, tolerance=tolerance)
        return replace(fix, price=price)

    return tuple(replace(group, fix=with_price(group.fix)) if group.fix.changed else group for group in groups)


def _priced_cases(pair: SnapshotPair, queries: Sequence[str], steps: Sequence[FlatStep]) -> list[ReplayCase]:
    """The candidates of every query; none if a replay does not give the current offers."""
    expands = any(step.kind == "expand" and step.values.get("enabled", True) for step in steps)
    if pair.head.repeats > 1 or expands or not can_replay(steps):
        return []
    cases, n = [], 0
    for query in queries:
        side = pair.candidates(query)[1]
        n += len(side.rows)
        if n > _MOST_ROWS or not has_all_candidates(pair.head.answers, query):
            return []
        cases.append(ReplayCase(candidate=None, rivals=[*side.rows.values()], bar=side.bar))
    is_exact = all(
        {row.id for row in rows} == set(pair.candidates(query)[1].offered)
        for query, rows in zip(queries, replay_offers(steps, cases), strict=True)
    )
    return cases if is_exact else []
