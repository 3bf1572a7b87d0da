"""What would mend a loss: one phrase for each required item that went out, from facts alone.

To undo the cause, or to widen the cut as far as is said, brings the item back where nothing else keeps it out as well.
What a text should say is a hint: no scores are computed for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctxbench.core.errors import UserError
from ctxbench.core.items import Item
from ctxbench.gate.cause_of import done_to
from ctxbench.gate.flat_steps import FlatStep
from ctxbench.gate.model import Cause, CauseKind, Change, Mend
from ctxbench.gate.query_sides import Compared, Side
from ctxbench.gate.replay import Row
from ctxbench.gate.snapshot_changes import NONE
from ctxbench.io import rows
from ctxbench.sources.catalogs import read_item
from ctxbench.text.chunking.items import ItemChunking, searched
from ctxbench.text.original_rules import query_chunks

_ALIKE = 0.05  # similarities to the same request this close are of items that a request does not tell apart
_SHORT = 3  # letters
_WORDS = 90  # characters of a lost sentence that are shown
_FEW = 3  # items of which each is named
_UNDONE = {
    "new": "take {} out",
    "enabled": "disable {} again",
    "edited": "take the edit of {} back",
    "renamed": "give {} its old name back",
    "gone": "put {} back",
    "disabled": "enable {} again",
}
_SIZES = {"standard": "topN", "first": "n"}  # by cut, the parameter that counts items


def mended(change: Change, cause: Cause, compared: Compared) -> Mend:
    """Of a lost required item; nothing for every other change, and where nothing can be said."""
    if not (change.lost and change.required):
        return Mend()
    item = compared.name(change.item)
    if cause.kind == CauseKind.GONE:
        back = f"enable {item} again" if item in compared.head.disabled else f"put {item} back"
        back += " into a scope" if item in compared.head.items else ""
        return Mend(f"{back}, or if another item took its place, label that with `ctxbench data rebase`")
    if cause.kind == CauseKind.RENAMED:
        return Mend(f"give {item} its old name back, or say in its description what that said: names are searched")
    if cause.kind == CauseKind.EDITED and cause.subjects == (item,):
        back = f"take the edit of {item} back"
        lost = lost_words(change, compared)
        if lost:
            return Mend(back, quoted=f"say again what it may have been found by: {lost}")
        return _or(f"{back}, or", _wider(change, compared)) or Mend(back)
    if cause.kind == CauseKind.CROWDED:
        return _apart(change, cause, compared) or _wider(change, compared) or Mend(_undone(cause, compared))
    if cause.kind == CauseKind.PARAMETER:
        return Mend(_back(cause, compared))
    if cause.kind == CauseKind.MODEL:
        return Mend("tune the cut for the new model (`ctxbench tune`), or keep the old one")
    if cause.kind == CauseKind.UNKNOWN and not compared.altered:
        return Mend("ask more than once (`repeats` in the gate file)")
    return _wider(change, compared)


def _or(said: str, other: Mend) -> Mend:
    """Another way behind what is said; nothing where there is no other."""
    return replace(other, phrase=f"{said} {other.phrase}") if other else other


def lost_words(change: Change, compared: Compared) -> str:
    """The sentence of the old text that the request found an edited item by, if it is no longer there; quoted.

    Where the pair of chunks is not known, as in a baseline, it is the lost sentence that has most of the words of the
    request, of equals the longest. Empty without texts, or where nothing is lost.
    """
    name = compared.name(change.item)
    before = compared.base.items.get(compared.old_name.get(name, name))
    after = compared.head.items.get(name)
    held = {compared.name(one.id): one for one in compared.base.answers[change.query].offered}.get(name)
    if before is None or after is None or before.row is None or after.row is None or held is None:
        return ""
    retriever = next((one for one in compared.steps[0] or () if "chunks" in one.values), None)
    bodies = any(one.values.get("bodies") for one in compared.steps[0] or ())
    try:
        chunking = ItemChunking(bodies=bodies) if retriever is None else ItemChunking.described(retriever.values)
    except UserError:  # a plugin's rule that is not installed here
        return ""
    old, new = _item(before.row), _item(after.row)
    chunks = () if old is None or chunking is None else chunking(old)
    if new is None or (held.pair is not None and held.pair.item_chunk >= len(chunks)):
        return ""
    now = " ".join(searched(new, bodies=bodies).split())
    looked_at = chunks if held.pair is None else chunks[held.pair.item_chunk : held.pair.item_chunk + 1]
    gone = [one for chunk in looked_at for one in query_chunks(chunk) if " ".join(one.split()) not in now]
    asked = _words(compared.head.queries[change.query].text)
    best = max(gone, key=lambda one: (len(asked & _words(one)), len(one)), default="")
    found = " ".join(best.split())
    return f'"{found if len(found) <= _WORDS else found[: _WORDS - 3] + "..."}"' if found else ""


def _words(text: str) -> frozenset[str]:
    """Its words in small letters, but for short ones, which stand everywhere."""
    return frozenset(word for word in re.findall(r"\w+", text.lower()) if len(word) > _SHORT)


def _item(fields: Mapping[str, Any]) -> Item | None:
    return read_item(rows.Row(fields, [], Path(), 0))


def _apart(change: Change, cause: Cause, compared: Compared) -> Mend:
    """Names the items in front that the request scores nearly as this one, where scores are similarities."""
    if compared.weighs_the_catalog:
        return Mend()
    _, after = compared.sides(change.query)
    item = compared.name(change.item)
    alike = [name for name in cause.subjects if abs(after.score(name) - after.score(item)) <= _ALIKE]
    if not alike:
        return Mend()
    alike.sort(key=lambda name: (abs(after.score(name) - after.score(item)), name))
    more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
    said = f"say in its text what tells {item} from {alike[0]}{more}, or merge them"
    return _or(f"{said}; or", _wider(change, compared)) or Mend(said)


def _undone(cause: Cause, compared: Compared) -> str:
    """Takes back what was done to the items that are in the way, where those are few."""
    if len(cause.subjects) > _FEW:
        return ""
    return " and ".join(_UNDONE[done_to(one, compared)].format(one) for one in cause.subjects)


def _back(cause: Cause, compared: Compared) -> str:
    """Sets parameters back."""
    altered = compared.altered
    counter = () if altered.tokens is None else (altered.tokens,)
    told = [one for one in (*altered.settings, *counter) if one.name in cause.subjects]
    back = dict.fromkeys(f"{one.name} back to {one.was}" for one in told if one.was != NONE)
    out = dict.fromkeys(one.name for one in told if one.was == NONE)
    said = [
        f"{verb} {', '.join(names)}{end}" for verb, names, end in (("set", back, ""), ("take", out, " out")) if names
    ]
    return " and ".join(said)


def _wider(change: Change, compared: Compared) -> Mend:
    """The parameter of the cut that keeps it out, with the value at which it would not."""
    _, after = compared.sides(change.query)
    item = compared.name(change.item)
    row = after.rows.get(item)
    step = None if row is None else cut_of(compared, row)
    if row is None or row.score is None or step is None or row.beyond_chunks:
        return Mend()
    if (size := _SIZES.get(step.name)) is not None:
        return Mend(f"raise {called(size, step, compared)} to", place_of(item, after, step))
    best = max((after.score(one) for one in after.found), default=0.0)
    if step.name == "margin" and step.values.get("of") == "ratio" and best > 0:
        return Mend(f"raise {called('margin', step, compared)} to", _up((best - row.score) / best))
    if step.name == "margin" and step.values.get("of") == "difference":
        return Mend(f"raise {called('margin', step, compared)} to", _up(best - row.score))
    if step.name == "at_least":
        return Mend(f"lower {called('threshold', step, compared)} to", _down(row.score), lower=True)
    return Mend()


def place_of(item: str, side: Side, step: FlatStep) -> int:
    """How many items the cut would have to offer until an item is among them: its place among its rivals.

    What earlier rules keep out does not count.
    """
    score = side.score(item)
    rule = side.rows[item].rule
    rows = [
        row
        for name, row in side.found.items()
        if name != item and row.type in step.types and (row.rule is None or row.rule == rule)
    ]
    own = (-score, side.rows[item].place)
    return 1 + sum((-side.score(row.id), row.place) < own for row in rows)


def cut_of(compared: Compared, row: Row) -> FlatStep | None:
    """The step of the head that keeps an item out: the one that weighs its type and has what the rule was held to."""
    held = () if row.rule is None else row.rule.values
    for step in compared.steps[1] or ():
        suits = step.kind in ("cut", "fit") and row.type in step.types
        if suits and any(name in step.values and step.values[name] == value for name, value in held):
            return step
    return None


def called(name: str, step: FlatStep, compared: Compared) -> str:
    """A step's parameter by the name that the user knows: the shortest that ends so and has the value."""
    values = compared.head.identity.values
    alike = [own for own, value in values.items() if own.lower().endswith(name.lower()) and value == step.values[name]]
    return min(alike, key=lambda own: (len(own), own), default=f"{step.path}.{name}")


def _up(value: float) -> float:
    return round(int(value * 1000) / 1000 + 0.001, 3)


def _down(value: float) -> float:
    return round(int(value * 1000) / 1000 - (0.001 if value < 0 else 0), 3)
