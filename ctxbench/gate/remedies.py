"""Finds the remedy for a loss: one phrase for each required item that went out, from facts alone.

Undoing the cause, or widening the cut to the values in the phrase, brings the item back unless something else also
keeps it out.
What a text should say is a hint, since no scores are computed for it; it is given only where the item would be in again
if the request found it as before, at the price that it has now.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctxbench.core.errors import UserError
from ctxbench.core.items import ItemKey
from ctxbench.gate.cause_finder import is_steady, item_change
from ctxbench.gate.comparability import item_of, items_of
from ctxbench.gate.flat_steps import FlatStep
from ctxbench.gate.input_differences import server_of
from ctxbench.gate.item_prices import grown_price, is_found_again
from ctxbench.gate.model import Cause, CauseKind, Change, Remedy
from ctxbench.gate.replay import Candidate, ReplayCase, can_replay, replay_cuts, with_values
from ctxbench.gate.setting_differences import with_value_of
from ctxbench.gate.snapshot_pair import ChangeContext, QueryCandidates, SnapshotPair
from ctxbench.gate.value_texts import NONE, shortened
from ctxbench.io.json_files import dump_json
from ctxbench.text.chunking.item_chunks import ItemChunking, searched
from ctxbench.text.original_rules import query_chunks

_CLOSE = 0.05  # similarities to the same request this close are of items that a request does not tell apart
_SHORT = 3  # letters
_MAX_QUOTED = 90  # characters of a lost sentence that are shown
_MAX_NAMED = 3  # items of which each is named
_UNDO_TEXTS = {
    "new": "take {} out",
    "enabled": "disable {} again",
    "edited": "take the edit of {} back",
    "renamed": "give {} its old name back",
    "gone": "put {} back",
    "disabled": "enable {} again",
}


def find_remedy(loss: Change, cause: Cause, pair: SnapshotPair) -> Remedy:
    """Find the remedy for a lost required item; an empty one for other changes, and where nothing can be said."""
    if not (loss.lost and loss.required):
        return Remedy()
    change = pair.context(loss)
    item = change.item
    match cause.kind:
        case CauseKind.GONE:
            return Remedy(f"{_put_back(item, pair)}{_follow_successor(item, pair)}")
        case CauseKind.RENAMED:
            hint = "or say in its description what that said: names are searched"
            return Remedy(f"give {item} its old name back, {hint}")
        case CauseKind.EDITED if cause.subjects == (item,):
            back = f"take the edit of {item} back"
            back += " and give it its old name" if item in pair.base_ids else ""
            if price := grown_price(change, pair):
                grew = f"its price keeps it out, {price.before:,} -> {price.after:,} prompt tokens"
                return Remedy(f"{back}, or shorten it: {grew}" if price.enough else f"{back}: {grew}")
            if is_found_again(change, pair) and (lost := lost_words(change, pair)):
                return Remedy(back, quoted=f"say again what it may have been found by: {lost}")
            return _with_alternative(f"{back}, or", _widen_cut(change, pair)) or Remedy(back)
        case CauseKind.CROWDED:
            wider = _widen_cut(change, pair)
            separated, undone = _separate_items(change, cause, pair, wider), Remedy(_undo_items(cause, pair))
            return separated or (wider if wider.possible else undone) or undone or wider
        case CauseKind.PARAMETER:
            return Remedy(_undo_settings(cause, pair), changed=_settings_of_base(cause, pair))
        case CauseKind.MODEL:
            return Remedy("tune the cut for the new model (`ctxbench tune`), or keep the old one")
        case CauseKind.UNKNOWN if not pair.inputs:
            advice = "ask more than once (`repeats` in the gate file), which tells whether it answers alike"
            return Remedy("look at what it reads beside its source files" if is_steady(pair) else advice)
        case CauseKind.UNKNOWN if pair.changed_items == {*cause.subjects} and not _differs_beside_items(pair):
            return Remedy(_undo_items(cause, pair))
        case _:
            return _widen_cut(change, pair)


def agreeing_remedies(changes: Sequence[Change], pair: SnapshotPair) -> tuple[Change, ...]:
    """The changes with remedies that do not contradict each other: no parameter is set to two values.

    Where one is to be set back for some losses, and a wider cut would mend others, setting it back is the remedy of
    those as well, if it is enough for them; else it is said that more is needed than to set it back.
    """
    remedies = [
        change.remedy for change in changes if change.cause.kind is CauseKind.PARAMETER and change.remedy.changed
    ]
    backs = {dump_json(remedy.changed): remedy for remedy in remedies}

    def agreeing(change: Change) -> Change:
        set_to = {(path, name) for path, name, _ in change.remedy.changed}
        alike = (back for back in backs.values() if set_to & {(path, name) for path, name, _ in back.changed})
        back = next(alike, None)
        if back is None or change.cause.kind is CauseKind.PARAMETER:
            return change
        if _brings_back(pair.context(change), back, pair):
            return replace(change, remedy=back)
        return replace(change, remedy=replace(change.remedy, share="as to set it back is not enough"))

    return tuple(map(agreeing, changes))


def _brings_back(change: ChangeContext, remedy: Remedy, pair: SnapshotPair) -> bool:
    """Whether the cuts of the head with the parameters of a remedy offer an item."""
    steps, side = pair.steps[1] or (), change.head
    candidate = side.rows.get(change.item)
    values = {path: {name: value for at, name, value in remedy.changed if at == path} for path, _, _ in remedy.changed}
    widened = [with_values(step, {**step.values, **values.get(step.path, {})}) for step in steps]
    rivals = [row for name, row in side.rows.items() if name != change.item]
    return can_replay(steps) and replay_cuts(widened, [ReplayCase(candidate=candidate, rivals=rivals, bar=side.bar)])[0]


def _differs_beside_items(pair: SnapshotPair) -> bool:
    """Whether more than items differs, so that taking their changes back need not give the answers of the base."""
    differences = [difference for difference in pair.inputs.outside if not difference.adjacent]
    return any((pair.inputs.settings, differences, pair.inputs.embedder, pair.inputs.tokens))


def undo_inclusion(cause: Cause, pair: SnapshotPair) -> Remedy:
    """Advise to include an item as before, where that is what changed; it costs tokens, and nothing need be lost."""
    (item, *rest) = cause.subjects or ("",)
    before, after = pair.base.items.get(pair.base_ids.get(item, item)), pair.head.items.get(item)
    if rest or cause.kind is not CauseKind.EDITED or before is None or after is None:
        return Remedy()
    old_mode, new_mode = ((fact.row or {}).get("include", "agent") for fact in (before, after))
    if before.row is None or after.row is None or old_mode == new_mode:
        return Remedy()
    if restore := _restore_command(item, pair):
        return Remedy(
            f"include {item} by {old_mode} again, not by {new_mode}: take the edit of its file back (`{restore}`)"
        )
    return Remedy(f"include {item} by {old_mode} again, not by {new_mode}")


def _restore_command(item: str, pair: SnapshotPair) -> str:
    """The command that gives the file of an agent's item back as it was accepted; empty where git does not have it."""
    if pair.accepted_files is None or item.startswith("tool:"):
        return ""
    from ctxbench.sources.former_places import former_place  # most checks find nothing to restore

    agent, root, commit, files = pair.accepted_files
    fact = pair.base.items.get(pair.base_ids.get(item, item))
    row = (None if fact is None else fact.row) or {}
    file = Path(os.path.realpath(former_place(agent, item, str(row.get("metadata", {}).get("path", "")))[0]))
    if not file.is_relative_to(root) or file.relative_to(root).as_posix() not in files:
        return ""
    return shlex.join(["git", "restore", f"--source={commit}", "--", os.path.relpath(file, os.path.realpath("."))])


def _follow_successor(item: str, pair: SnapshotPair) -> str:
    """How labels follow an item that took the place of one that is gone, as a clause; empty where none is new."""
    kind = ItemKey.parse(item).type
    new = [name for name in pair.inputs.new if ItemKey.parse(name).type == kind]
    if not new or item in pair.head.items or item in pair.head.disabled:
        return ""
    from ctxbench.data.curation.successors import likely_successors  # most checks find no item gone

    gone, added = items_of([pair.base.items[item]]), items_of(pair.head.items[name] for name in new)
    likely = [successor.new.id for successor in likely_successors(gone, added)]
    line = f"{item}: {(likely or ['ID'])[0]}"
    dataset = shlex.quote(pair.head.reference or "DATASET")
    who = likely[0] if likely else "a new item"
    command = f"ctxbench data rebase {dataset} --renames renames.yaml --in-place"
    return f", or if {who} took its place, give it the labels: `{command}`; renames.yaml has the line `{line}`"


def _put_back(item: str, pair: SnapshotPair) -> str:
    """Advise to make an item that is gone one that can be offered again."""
    head = pair.head
    if item in head.items:
        return f"put {item} back into a scope"
    if item in head.disabled:
        return f"enable {item} again"
    absent = head.absent_servers.get(server_of(item))
    if absent is not None:
        return absent.fix
    restore = _restore_command(item, pair)
    return f"put {item} back (`{restore}`)" if restore else f"put {item} back"


def _with_alternative(text: str, remedy: Remedy) -> Remedy:
    """A remedy with a text before it; empty where no remedy helps."""
    return replace(remedy, phrase=f"{text} {remedy.phrase}") if remedy and remedy.possible else Remedy()


def lost_words(change: ChangeContext, pair: SnapshotPair) -> str:
    """The sentence that an edited item was found by and that its text has lost, in quotes.

    Where the pair of chunks is not known, as in a baseline, it is the lost sentence that has most of the words of the
    request, of equals the longest. Empty without texts, or where nothing is lost.
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


def _separate_items(change: ChangeContext, cause: Cause, pair: SnapshotPair, wider: Remedy) -> Remedy:
    """Advise to distinguish an item from those ranked above with nearly the same score (similarities only)."""
    if pair.weighs_the_catalog:
        return Remedy()
    after, item = change.head, change.item
    alike = [name for name in cause.subjects if abs(after.score(name) - after.score(item)) <= _CLOSE]
    if not alike:
        return Remedy()
    alike.sort(key=lambda name: (abs(after.score(name) - after.score(item)), name))
    suffix = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
    text = f"say in its text what tells {item} from {alike[0]}{suffix}, or merge them"
    return _with_alternative(f"{text}; or", wider) or Remedy(text)


def _undo_items(cause: Cause, pair: SnapshotPair) -> str:
    """Advise to undo the changes of the items in the way, where those are few."""
    if len(cause.subjects) > _MAX_NAMED:
        return ""
    return " and ".join(_UNDO_TEXTS[item_change(item, pair)].format(item) for item in cause.subjects)


def _undo_settings(cause: Cause, pair: SnapshotPair) -> str:
    """Advise to set parameters back to their values at the base."""
    inputs = pair.inputs
    counter = () if inputs.tokens is None else (inputs.tokens,)
    differences = [difference for difference in (*inputs.settings, *counter) if difference.name in cause.subjects]
    files = dict.fromkeys(difference.step for difference in differences if difference.words)
    differences = [difference for difference in differences if not difference.words]
    back = dict.fromkeys(
        f"{difference.name} back to {difference.before}" for difference in differences if difference.before != NONE
    )
    out = dict.fromkeys(difference.name for difference in differences if difference.before == NONE)
    phrases = [f"put the file back that {name} reads" for name in files]
    phrases += [
        f"{verb} {', '.join(names)}{end}" for verb, names, end in (("set", back, ""), ("take", out, " out")) if names
    ]
    return " and ".join(phrases)


def _settings_of_base(cause: Cause, pair: SnapshotPair) -> tuple[tuple[str, str, Any], ...]:
    """What sets the parameters of cuts back that a cause names; empty where it names another setting, too."""
    settings = [setting for setting in pair.inputs.settings if setting.name in cause.subjects]
    base, head = ({step.path: step.values for step in side or ()} for side in pair.steps)
    # how many chunks stand before an item is not kept, so that another topK cannot be tried
    cuts = [setting for setting in settings if not setting.scoring and setting.parameter != "topK"]
    restorable = [setting for setting in cuts if setting.parameter in base.get(setting.step, {})]
    if not settings or len(restorable) < len(settings) or pair.inputs.tokens is not None:
        return ()
    back: dict[tuple[str, str], Any] = {}
    for setting in restorable:
        at, was = (setting.step, setting.parameter), base[setting.step][setting.parameter]
        back[at] = with_value_of(back.get(at, head.get(setting.step, {}).get(setting.parameter)), was, setting.keys)
    return tuple((path, name, value) for (path, name), value in back.items())


def _widen_cut(change: ChangeContext, pair: SnapshotPair) -> Remedy:
    """Advise to change the parameters of the cuts that keep the item out, to values that let it in.

    Empty where that would not bring it back: cuts that can be replayed are tried with these values. Where a parameter
    may not have its value, it says so and nothing else.
    """
    after, item = change.head, change.item
    row, steps = after.rows.get(item), pair.steps[1] or ()
    step = None if row is None else deciding_cut(pair, row)
    if row is None or row.score is None or step is None or row.beyond_chunks:
        return Remedy()
    later_cuts = [cut for cut in steps[steps.index(step) :] if cut.kind == "cut" and row.type in cut.types]
    wider = {cut.path: values for cut in later_cuts if (values := _wider_values(item, after, cut, pair, later_cuts))}
    rivals = [rival for name, rival in after.rows.items() if name != item]
    widened = [with_values(step, {**step.values, **wider.get(step.path, {})}) for step in steps]
    excluded = (
        can_replay(steps) and not replay_cuts(widened, [ReplayCase(candidate=row, rivals=rivals, bar=after.bar)])[0]
    )
    if step.path not in wider or excluded:
        return Remedy()
    widenings = [(cut, name, value) for cut in later_cuts for name, value in wider.get(cut.path, {}).items()]
    for cut, name, value in widenings:
        label = user_name(name, cut, pair)
        parameter = pair.head.identity.parameters.get(label)
        if parameter is not None and not parameter.low <= value <= parameter.high:
            return Remedy(
                f"no value that {label} may have ({parameter.low:g} to {parameter.high:g}) is enough", possible=False
            )
    phrase, verb, amount = "", "", 0.0
    for index, (cut, name, value) in enumerate(widenings):
        last, verb = verb, "lower" if name == "threshold" else "raise"
        text = user_name(name, cut, pair) if verb == last else f"{verb} {user_name(name, cut, pair)}"
        phrase, amount = f"{phrase} {amount:g} and {text} to" if index else f"{text} to", value
    changed = tuple((cut.path, name, value) for cut, name, value in widenings)
    return Remedy(phrase, amount, lower=verb == "lower", changed=changed)


def _wider_values(
    item: str, side: QueryCandidates, step: FlatStep, pair: SnapshotPair, later_cuts: Sequence[FlatStep]
) -> dict[str, float]:
    """The parameters of a cut that are too narrow for an item, with values that are wide enough; empty if none is."""
    rank, score = place_among_rivals(item, side, step, pair, later_cuts), side.score(item)
    best = max((side.score(name) for name, row in side.searched.items() if row.type in step.types), default=score)
    values, wider = step.values, dict[str, float]()
    match step.name:
        case "standard" if score < values["includeScore"]:
            wider["topN"] = rank
        case "first":
            wider["n"] = rank
        case "margin" if rank > values["at_least"] and (values["of"] != "ratio" or best > 0):
            unit = best if values["of"] == "ratio" else 1.0
            if best - score > values["margin"] * unit:
                wider["margin"] = _round_up((best - score) / unit)
        case "at_least" if score < values["threshold"] and rank > values["at_least"]:
            wider["threshold"] = _round_down(score)
        case _:
            pass
    if values.get("at_most") is not None:
        wider["at_most"] = rank
    return {name: value for name, value in wider.items() if value > values[name] or name == "threshold"}


def place_among_rivals(
    item: str, side: QueryCandidates, step: FlatStep, pair: SnapshotPair, later_cuts: Sequence[FlatStep]
) -> int:
    """The rank of an item among its rivals: how many items the cut would have to offer until it is among them.

    What is kept out by cuts that are not among `later_cuts` does not count.
    """
    rows = [
        row
        for name, row in side.searched.items()
        if name != item and row.type in step.types and (row.rule is None or deciding_cut(pair, row) in later_cuts)
    ]
    key = (-side.score(item), side.rows[item].position)
    return 1 + sum((-side.score(row.id), row.position) < key for row in rows)


def deciding_cut(pair: SnapshotPair, row: Candidate) -> FlatStep | None:
    """The step of the head that keeps an item out: one for its type, with a parameter that its rule names."""
    values = () if row.rule is None else row.rule.values
    suited = (step for step in pair.steps[1] or () if step.kind in ("cut", "fit") and row.type in step.types)
    return next((step for step in suited if any((name, value) in step.values.items() for name, value in values)), None)


def user_name(name: str, step: FlatStep, pair: SnapshotPair) -> str:
    """The name by which the user knows a parameter of a step: the shortest that ends like it and has its value."""
    values = pair.head.identity.values
    alike = [
        parameter
        for parameter, value in values.items()
        if parameter.lower().endswith(name.lower()) and value == step.values[name]
    ]
    return min(alike, key=lambda parameter: (len(parameter), parameter), default=f"{step.path}.{name}")


def _round_up(value: float) -> float:
    return round(int(value * 1000) / 1000 + 0.001, 3)


def _round_down(value: float) -> float:
    return round(int(value * 1000) / 1000 - (0.001 if value < 0 else 0), 3)
