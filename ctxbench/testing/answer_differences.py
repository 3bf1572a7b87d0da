"""Finds answers that differ but should not: repeated, in other batches, or over items in another order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ctxbench.core.candidates import MARGIN, Origin

_SAME_SCORE = 1e-9  # sums over a catalog in another order may differ in the last bits


def differences(label: str, left: Sequence[dict[str, Any]], right: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The first difference between two lists of answers that should be equal to the bit."""
    if len(left) != len(right):
        yield f"{label}: {len(left)} answers, and then {len(right)}"
        return
    for a, b in zip(left, right, strict=True):
        if a != b:
            part = next(key for key in a if a[key] != b[key])
            yield f"{label}: request {a['request']!r} has another answer ({part}): {_first(a[part], b[part])}"
            return


def _first(left: Any, right: Any) -> str:
    """The first entries of two lists that differ, or the two values."""
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        left, right = next((a, b) for a, b in zip(left, right, strict=True) if a != b)
    return f"{left!s:.300} and {right!s:.300}"


def shuffled_faults(label: str, answer: dict[str, Any], shuffled: dict[str, Any]) -> Iterator[str]:
    """Another order of the catalog may change the order of ties, and which of them a limit keeps; nothing else."""
    left, right = _tied(answer["rows"]), _tied(shuffled["rows"])
    if answer["chunks"] != shuffled["chunks"]:
        yield f"{label}: request {answer['request']!r} is analysed otherwise"
    if _led_by_ties(answer["rows"], shuffled["rows"]):
        return
    sizes = [[(len(group), group[0]["rule"] if len(group) == 1 else None) for group in side] for side in (left, right)]
    if sizes[0] != sizes[1]:
        yield f"{label}: request {answer['request']!r} has other items in or out, beyond ties"
        return
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        last = index == len(left) - 1  # a depth may keep others of the last ones, where those are tied
        if not last and {row["item"] for row in a} != {row["item"] for row in b}:
            yield f"{label}: request {answer['request']!r} has other items, beyond ties"
            return
        worst = max(abs(_score(x) - _score(y)) for x, y in zip(a, b, strict=True))
        if worst > _SAME_SCORE:
            yield f"{label}: request {answer['request']!r} has other scores, by up to {worst:.2g}"
            return


def _led_by_ties(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> bool:
    """Whether an expansion found other items only because a limit before it kept others of some that are tied.

    Pass by pass, what was chosen up to there: if the items differ though their scores do not, a limit split a tie. An
    item that stands on both sides up to there must have the same score on both.
    """
    expanded = [row["origin"] for row in (*before, *after) if row["origin"] >= Origin.EXPANSION]
    for origin in range(Origin.SEARCH, max(expanded, default=Origin.SESSION) + 1):
        left, right = ({row["item"]: row for row in rows if row["origin"] == origin} for rows in (before, after))
        shared = left.keys() & right.keys()
        if any(abs(_score(left[item]) - _score(right[item])) > _SAME_SCORE for item in shared):
            return False
        sides = [{item: _score(row) for item, row in side.items() if not row["rule"]} for side in (left, right)]
        if sides[0].keys() != sides[1].keys():
            shared = sides[0].keys() & sides[1].keys()
            alone, other_alone = (sorted(side[item] for item in side.keys() - shared) for side in sides)
            return len(alone) == len(other_alone) and bool(np.allclose(alone, other_alone, rtol=0.0, atol=MARGIN))
    return False


def _score(row: Mapping[str, Any]) -> float:
    score = float.fromhex(row["score"])
    return 0.0 if np.isnan(score) else score


def _tied(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Rows in groups of one tier whose neighbours score within `MARGIN` of each other."""
    groups: list[list[dict[str, Any]]] = []
    for row in rows:
        last = groups[-1][-1] if groups else None
        if last and last["tier"] == row["tier"] and abs(_score(last) - _score(row)) <= MARGIN:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups
