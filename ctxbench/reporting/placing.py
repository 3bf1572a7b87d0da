"""Where the labels of points stand, so that they meet neither each other nor the points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ctxbench.reporting.axes import LETTER, LINE, Frame

Box: TypeAlias = tuple[float, float, float, float]
"""What something takes of a drawing: left, top, right, bottom."""


@dataclass(frozen=True, slots=True)
class Label:
    """Where a name stands: its base line, which end of it `x` is, and whether a line must lead to it."""

    x: float
    y: float
    anchor: str = "start"
    led: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A point that gets a label.

    Attributes:
        x, y: where it stands.
        text: its label.
        reach: how far its whiskers reach; the point itself where it has none.
        boxes: what it takes.
        width: of its label; 0 = of as many letters as it has.
    """

    x: float
    y: float
    text: str
    reach: Box
    boxes: Sequence[Box]
    width: float = 0.0


def placed(spots: Sequence[Spot], frame: Frame, *, beside: Sequence[Box] = ()) -> list[Label]:
    """Give each spot the place for its label that meets least: beside it, above or below it, then further off.

    Args:
        spots: what gets labels, in the order in which they choose.
        frame: what labels stay in.
        beside: what else takes room.
    """
    taken = [*beside, *(box for spot in spots for box in spot.boxes)]
    out = []
    for spot in spots:
        size = spot.width or len(spot.text) * LETTER
        fitting = [label for label in _labels(spot) if _inside(_box(label, size), frame)] or _labels(spot)[:1]
        met = [sum(_meet(_box(label, size), other) for other in taken) for label in fitting]
        label = fitting[met.index(min(met))]
        taken.append(_box(label, size))
        out.append(label)
    return out


def _labels(spot: Spot) -> list[Label]:
    """Places for a label, the best first."""
    left_end, top, right_end, bottom = spot.reach
    right, left = max(spot.x + 11.0, right_end + 5.0), min(spot.x - 11.0, left_end - 5.0)
    over, under, middle = min(top, spot.y - 5) - 5.0, max(bottom, spot.y + 5) + 13.0, spot.y + 4.5
    out = []
    for far in (0.0, 16.0, 32.0, 48.0):
        levels = (middle - far, middle + far) if far else (middle,)
        out += [Label(x, y, anchor, far > 0) for x, anchor in ((right, "start"), (left, "end")) for y in levels]
        corners = ((spot.x + 9.0, "start"), (spot.x - 9.0, "end"))
        out += [Label(x, y, anchor, far > 0) for x, anchor in corners for y in (spot.y - 9 - far, spot.y + 18 + far)]
        for y in (over - far, under + far):
            out += [Label(spot.x, y, "middle", far > 0), Label(spot.x - 5.0, y, "start", far > 0)]
    return out


def _box(label: Label, size: float) -> Box:
    left = {"start": label.x, "end": label.x - size, "middle": label.x - size / 2}[label.anchor]
    return left, label.y - LINE + 4, left + size, label.y + 4


def _inside(box: Box, frame: Frame) -> bool:
    return box[0] >= frame.left and box[2] <= frame.width - 2 and box[1] >= frame.top - 14 and box[3] <= frame.bottom


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
