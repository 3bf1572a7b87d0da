"""Finds the remedy for a loss: one phrase for each required item that went out, from facts alone.

To undo the cause, or to widen the cut as far as is said, brings the item back where nothing else keeps it out as well.
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


def find_remedy(given: Change, cause: Cause, pair: SnapshotPair) -> Remedy:
    """Find the remedy for a lost required item; an empty one for other changes, and where nothing can be said."""
    if not (given.lost and given.required):
        return Remedy()
    change = pair.context(given)
    item = change.item
    match cause.kind:
        case CauseKind.GONE:
            return Remedy(f"{_put_back(item, pair)}{_follow_successor(item, pair)}")
        case CauseKind.RENAMED:
            said = "or say in its description what that said: names are searched"
            return Remedy(f"give {item} its old name back, {said}")
        case CauseKind.EDITED if cause.subjects == (item,):
            back = f"take the edit of {item} back"
            back += " and give it its old name" if item in pair.base_ids else ""
            if price := grown_price(change, pair):
                grew = f"its price keeps it out, {price.was:,} -> {price.now:,} prompt tokens"
                return Remedy(f"{back}, or shorten it: {grew}" if price.enough else f"{back}: {grew}")
            if is_found_again(change, pair) and (lost := lost_words(change, pair)):
                return Remedy(back, quoted=f"say again what it may have been found by: {lost}")
            return _with_alternative(f"{back}, or", _widen_cut(change, pair)) or Remedy(back)
        case CauseKind.CROWDED:
            wider = _widen_cut(change, pair)
            apart, undone = _separate_items(change, cause, pair, wider), Remedy(_undo_items(cause, pair))
            return apart or (wider if wider.possible else undone) or undone or wider
        case CauseKind.PARAMETER:
            return Remedy(_undo_settings(cause, pair), changed=_settings_of_base(cause, pair))
        case CauseKind.MODEL:
            return Remedy("tune the cut for the new model (`ctxbench tune`), or keep the old one")
        case CauseKind.UNKNOWN if not pair.inputs:
            once = "ask more than once (`repeats` in the gate file), which tells whether it answers alike"
            return Remedy("look at what it reads beside its source files" if is_steady(pair) else once)
        case CauseKind.UNKNOWN if pair.changed_items == {*cause.subjects} and not _differs_beside_items(pair):
            return Remedy(_undo_items(cause, pair))
        case _:
            return _widen_cut(change, pair)


def agreeing_remedies(changes: Sequence[Change], pair: SnapshotPair) -> tuple[Change, ...]:
    """The changes with remedies that do not contradict each other: no parameter is set to two values.

    Where one is to be set back for some losses, and a wider cut would mend others, setting it back is the remedy of
    those as well, if it is enough for them; else it is said that more is needed than to set it back.
    """
    told = [one.remedy for one in changes if one.cause.kind is CauseKind.PARAMETER and one.remedy.changed]
    backs = {dump_json(one.changed): one for one in told}

    def agreeing(one: Change) -> Change:
        set_to = {(path, name) for path, name, _ in one.remedy.changed}
        alike = (back for back in backs.values() if set_to & {(path, name) for path, name, _ in back.changed})
        back = next(alike, None)
        if back is None or one.cause.kind is CauseKind.PARAMETER:
            return one
        if _brings_back(pair.context(one), back, pair):
            return replace(one, remedy=back)
        return replace(one, remedy=replace(one.remedy, share="as to set it back is not enough"))

    return tuple(map(agreeing, changes))


def _brings_back(change: ChangeContext, remedy: Remedy, pair: SnapshotPair) -> bool:
    """Whether the cuts of the head with the parameters of a remedy offer an item."""
    steps, side = pair.steps[1] or (), change.head
    own = side.rows.get(change.item)
    values = {path: {name: value for at, name, value in remedy.changed if at == path} for path, _, _ in remedy.changed}
    widened = [with_values(one, {**one.values, **values.get(one.path, {})}) for one in steps]
    rivals = [row for name, row in side.rows.items() if name != change.item]
    return can_replay(steps) and replay_cuts(widened, [ReplayCase(own=own, rivals=rivals, bar=side.bar)])[0]


def _differs_beside_items(pair: SnapshotPair) -> bool:
    """Whether more than items differs, so that taking their changes back need not give the answers of the base."""
    own = [one for one in pair.inputs.outside if not one.beside]
    return any((pair.inputs.settings, own, pair.inputs.embedder, pair.inputs.tokens))


def undo_inclusion(cause: Cause, pair: SnapshotPair) -> Remedy:
    """Advise to include an item as before, where that is what changed; it costs tokens, and nothing need be lost."""
    (item, *others) = cause.subjects or ("",)
    before, after = pair.base.items.get(pair.base_ids.get(item, item)), pair.head.items.get(item)
    if others or cause.kind is not CauseKind.EDITED or before is None or after is None:
        return Remedy()
    was, now = ((one.row or {}).get("include", "agent") for one in (before, after))
    if before.row is None or after.row is None or was == now:
        return Remedy()
    if restore := _restore_command(item, pair):
        return Remedy(f"include {item} by {was} again, not by {now}: take the edit of its file back (`{restore}`)")
    return Remedy(f"include {item} by {was} again, not by {now}")


def _restore_command(item: str, pair: SnapshotPair) -> str:
    """The command that gives the file of an agent's item back as it was accepted; empty where git does not have it."""
    if pair.accepted_files is None or item.startswith("tool:"):
        return ""
    from ctxbench.sources.former_places import former_place  # most checks find nothing to restore

    agent, root, commit, files = pair.accepted_files
    known = pair.base.items.get(pair.base_ids.get(item, item))
    row = (None if known is None else known.row) or {}
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

    gone, others = items_of([pair.base.items[item]]), items_of(pair.head.items[name] for name in new)
    likely = [one.new.id for one in likely_successors(gone, others)]
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


def _with_alternative(said: str, other: Remedy) -> Remedy:
    """A remedy with a text in front of it; empty where there is none that helps."""
    return replace(other, phrase=f"{said} {other.phrase}") if other and other.possible else Remedy()


def lost_words(change: ChangeContext, pair: SnapshotPair) -> str:
    """The sentence that an edited item was found by and that its text has lost, in quotes.

    Where the pair of chunks is not known, as in a baseline, it is the lost sentence that has most of the words of the
    request, of equals the longest. Empty without texts, or where nothing is lost.
    """
    before = pair.base.items.get(pair.base_ids.get(change.item, change.item))
    after, held = pair.head.items.get(change.item), change.base.offered.get(change.item)
    if before is None or after is None or held is None:
        return ""
    retriever = next((one for one in pair.steps[0] or () if "chunks" in one.values), None)
    bodies = any(one.values.get("bodies") for one in pair.steps[0] or ())
    try:
        chunking = ItemChunking(bodies=bodies) if retriever is None else ItemChunking.described(retriever.values)
    except UserError:  # a plugin's rule that is not installed here
        return ""
    old, new = item_of(before), item_of(after)
    chunks = () if old is None or chunking is None else chunking(old)
    if new is None or (held.pair is not None and held.pair.item_chunk >= len(chunks)):
        return ""
    now = " ".join(searched(new, bodies=bodies).split())
    looked_at = chunks if held.pair is None else chunks[held.pair.item_chunk : held.pair.item_chunk + 1]
    gone = [one for chunk in looked_at for one in query_chunks(chunk) if " ".join(one.split()) not in now]
    asked = _words(pair.head.queries[change.query].text)
    found = " ".join(max(gone, key=lambda one: (len(asked & _words(one)), len(one)), default="").split())
    return f'"{shortened(found, _MAX_QUOTED)}"' if found else ""


def _words(text: str) -> frozenset[str]:
    """The words of a text in lower case, without short ones, which occur everywhere."""
    return frozenset(word for word in re.findall(r"\w+", text.lower()) if len(word) > _SHORT)


def _separate_items(change: ChangeContext, cause: Cause, pair: SnapshotPair, wider: Remedy) -> Remedy:
    """Advise to tell an item apart from those in front with nearly the same score, where scores are similarities."""
    if pair.weighs_the_catalog:
        return Remedy()
    after, item = change.head, change.item
    alike = [name for name in cause.subjects if abs(after.score(name) - after.score(item)) <= _CLOSE]
    if not alike:
        return Remedy()
    alike.sort(key=lambda name: (abs(after.score(name) - after.score(item)), name))
    more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
    said = f"say in its text what tells {item} from {alike[0]}{more}, or merge them"
    return _with_alternative(f"{said}; or", wider) or Remedy(said)


def _undo_items(cause: Cause, pair: SnapshotPair) -> str:
    """Advise to undo the changes of the items in the way, where those are few."""
    if len(cause.subjects) > _MAX_NAMED:
        return ""
    return " and ".join(_UNDO_TEXTS[item_change(one, pair)].format(one) for one in cause.subjects)


def _undo_settings(cause: Cause, pair: SnapshotPair) -> str:
    """Advise to set parameters back to their values at the base."""
    inputs = pair.inputs
    counter = () if inputs.tokens is None else (inputs.tokens,)
    told = [one for one in (*inputs.settings, *counter) if one.name in cause.subjects]
    files = dict.fromkeys(one.step for one in told if one.words)
    told = [one for one in told if not one.words]
    back = dict.fromkeys(f"{one.name} back to {one.was}" for one in told if one.was != NONE)
    out = dict.fromkeys(one.name for one in told if one.was == NONE)
    said = [f"put the file back that {name} reads" for name in files]
    said += [
        f"{verb} {', '.join(names)}{end}" for verb, names, end in (("set", back, ""), ("take", out, " out")) if names
    ]
    return " and ".join(said)


def _settings_of_base(cause: Cause, pair: SnapshotPair) -> tuple[tuple[str, str, Any], ...]:
    """What sets the parameters of cuts back that a cause names; empty where it names another setting, too."""
    own = [one for one in pair.inputs.settings if one.name in cause.subjects]
    base, head = ({one.path: one.values for one in side or ()} for side in pair.steps)
    # how many chunks stand before an item is not kept, so that another topK cannot be tried
    cuts = [one for one in own if not one.scoring and one.parameter != "topK"]
    known = [one for one in cuts if one.parameter in base.get(one.step, {})]
    if not own or len(known) < len(own) or pair.inputs.tokens is not None:
        return ()
    back: dict[tuple[str, str], Any] = {}
    for one in known:
        at, was = (one.step, one.parameter), base[one.step][one.parameter]
        back[at] = with_value_of(back.get(at, head.get(one.step, {}).get(one.parameter)), was, one.keys)
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
    behind = [one for one in steps[steps.index(step) :] if one.kind == "cut" and row.type in one.types]
    wider = {one.path: values for one in behind if (values := _wider_values(item, after, one, pair, behind))}
    rivals = [other for name, other in after.rows.items() if name != item]
    widened = [with_values(one, {**one.values, **wider.get(one.path, {})}) for one in steps]
    kept = can_replay(steps) and not replay_cuts(widened, [ReplayCase(own=row, rivals=rivals, bar=after.bar)])[0]
    if step.path not in wider or kept:
        return Remedy()
    told = [(one, name, value) for one in behind for name, value in wider.get(one.path, {}).items()]
    for one, name, value in told:
        own = user_name(name, one, pair)
        held = pair.head.identity.parameters.get(own)
        if held is not None and not held.low <= value <= held.high:
            return Remedy(f"no value that {own} may have ({held.low:g} to {held.high:g}) is enough", possible=False)
    phrase, verb, amount = "", "", 0.0
    for place, (one, name, value) in enumerate(told):
        last, verb = verb, "lower" if name == "threshold" else "raise"
        said = user_name(name, one, pair) if verb == last else f"{verb} {user_name(name, one, pair)}"
        phrase, amount = f"{phrase} {amount:g} and {said} to" if place else f"{said} to", value
    changed = tuple((one.path, name, value) for one, name, value in told)
    return Remedy(phrase, amount, lower=verb == "lower", changed=changed)


def _wider_values(
    item: str, side: QueryCandidates, step: FlatStep, pair: SnapshotPair, behind: Sequence[FlatStep]
) -> dict[str, float]:
    """The parameters of a cut that are too narrow for an item, with values that are wide enough; empty if none is."""
    place, score = place_among_rivals(item, side, step, pair, behind), side.score(item)
    best = max((side.score(name) for name, row in side.found.items() if row.type in step.types), default=score)
    values, found = step.values, dict[str, float]()
    match step.name:
        case "standard" if score < values["includeScore"]:
            found["topN"] = place
        case "first":
            found["n"] = place
        case "margin" if place > values["at_least"] and (values["of"] != "ratio" or best > 0):
            unit = best if values["of"] == "ratio" else 1.0
            if best - score > values["margin"] * unit:
                found["margin"] = _round_up((best - score) / unit)
        case "at_least" if score < values["threshold"] and place > values["at_least"]:
            found["threshold"] = _round_down(score)
        case _:
            pass
    if values.get("at_most") is not None:
        found["at_most"] = place
    return {name: value for name, value in found.items() if value > values[name] or name == "threshold"}


def place_among_rivals(
    item: str, side: QueryCandidates, step: FlatStep, pair: SnapshotPair, behind: Sequence[FlatStep]
) -> int:
    """The place of an item among its rivals: how many items the cut would have to offer until it is among them.

    What the cuts before those `behind`, from the one that keeps the item out, keep out does not count.
    """
    rows = [
        row
        for name, row in side.found.items()
        if name != item and row.type in step.types and (row.rule is None or deciding_cut(pair, row) in behind)
    ]
    own = (-side.score(item), side.rows[item].place)
    return 1 + sum((-side.score(row.id), row.place) < own for row in rows)


def deciding_cut(pair: SnapshotPair, row: Candidate) -> FlatStep | None:
    """The step of the head that keeps an item out: one for its type, with a parameter that its rule names."""
    held = () if row.rule is None else row.rule.values
    suited = (step for step in pair.steps[1] or () if step.kind in ("cut", "fit") and row.type in step.types)
    return next((step for step in suited if any((name, value) in step.values.items() for name, value in held)), None)


def user_name(name: str, step: FlatStep, pair: SnapshotPair) -> str:
    """The name by which the user knows a parameter of a step: the shortest that ends like it and has its value."""
    values = pair.head.identity.values
    alike = [own for own, value in values.items() if own.lower().endswith(name.lower()) and value == step.values[name]]
    return min(alike, key=lambda own: (len(own), own), default=f"{step.path}.{name}")


def _round_up(value: float) -> float:
    return round(int(value * 1000) / 1000 + 0.001, 3)


def _round_down(value: float) -> float:
    return round(int(value * 1000) / 1000 - (0.001 if value < 0 else 0), 3)
