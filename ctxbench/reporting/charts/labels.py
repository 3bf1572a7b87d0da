"""Names beside points, placed when the axes are drawn, so that they meet neither each other nor what is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ctxbench.reporting.charts.axes import ink, paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

Box: TypeAlias = tuple[float, float, float, float]
"""Left, bottom, right, top."""
_MARK = 4.2  # points from the middle of a mark to its edge
_FONT = 12.0  # the size of letters that distances are for


@dataclass(frozen=True, slots=True)
class Label:
    """A name, not yet in its place, and in values how far the intervals of its point reach."""

    text: Annotation
    reach: Box


def label(ax: Axes, at: tuple[float, float], text: str, reach: Box | None = None) -> Label:
    """Name a point: a text with a halo, and a thin line to where it belongs."""
    from matplotlib.patheffects import withStroke

    line: dict[str, Any] = {
        "arrowstyle": "-",
        "linewidth": 0.6,
        "color": ink(ax),
        "alpha": 0.6,
        "shrinkA": 1.0,
        "shrinkB": 4.0,
    }
    made = ax.annotate(
        text, at, xytext=(8.0, 0.0), textcoords="offset points", fontsize="small", color=ink(ax), arrowprops=line
    )
    made.set(parse_math=False, zorder=5, in_layout=False)
    made.set_path_effects([withStroke(linewidth=2.0, foreground=paper(ax))])
    return Label(made, reach or (*at, *at))


def place_labels(ax: Axes, labels: Sequence[Label], *, beside: Sequence[Box] = ()) -> None:
    """Have labels placed whenever the axes are drawn, when all sizes are known; they stay inside.

    Args:
        ax: where.
        labels: in the order in which they choose.
        beside: in values, what labels avoid beside points and their intervals.
    """
    from matplotlib.artist import Artist

    placing: Any = Artist()
    placing.set(zorder=0.0, in_layout=False)
    placing.draw = partial(_place, ax, tuple(labels), tuple(beside))
    ax.add_artist(placing)


def _place(ax: Axes, labels: Sequence[Label], beside: Sequence[Box], renderer: Any) -> None:
    """Give each label the place where it meets least."""
    from matplotlib.text import Text

    point = renderer.points_to_pixels(1.0)
    taken = [_grown(_drawn(ax, box), 1.0) for box in beside]
    for one in labels:
        (x, y), reach = ax.transData.transform(one.text.xy), _drawn(ax, one.reach)
        taken += [_grown((x, y, x, y), _MARK * point), _grown((x, reach[1], x, reach[3]), 1.5)]
        taken.append(_grown((reach[0], y, reach[2], y), 1.5))
    for one in labels:
        (x, y), reach = ax.transData.transform(one.text.xy), _drawn(ax, one.reach)
        unit, width = one.text.get_fontsize() * point / _FONT, Text.get_window_extent(one.text, renderer).width
        places = [
            ((left - part * width, base - 4 * unit, left + (1 - part) * width, base + 11 * unit), part, led)
            for left, base, part, led in _places((x, y), reach, unit)
        ]
        fitting = [place for place in places if _inside(place[0], ax.bbox.extents)] or places[:1]
        box, part, led = min(fitting, key=lambda place: sum(_meet(place[0], other) for other in taken))
        taken.append(box)
        left, base = min(max(box[0], ax.bbox.x0), max(ax.bbox.x1 - width, ax.bbox.x0)), box[1] + 4 * unit
        # Where no place lets a long name stay inside, it is pushed there, over its mark.
        base = base if left == box[0] else y + 9 * unit
        moved = ((left + part * width - x) / point, (base - y) / point)
        one.text.set(position=moved, ha=("left", "center", "right")[round(2 * part)], va="baseline")
        if one.text.arrow_patch is not None:
            one.text.arrow_patch.set_visible(led)


def _places(at: tuple[float, float], reach: Box, unit: float) -> Iterator[tuple[float, float, float, bool]]:
    """Places for a label, the best first: x, base line, which part of its width lies left of x, whether it is far."""
    x, y = at
    right, left = max(x + 11 * unit, reach[2] + 5 * unit), min(x - 11 * unit, reach[0] - 5 * unit)
    over, under = max(reach[3], y + 5 * unit) + 5 * unit, min(reach[1], y - 5 * unit) - 13 * unit
    for far in (0.0, 16 * unit, 32 * unit, 48 * unit):
        for end, part in ((right, 0.0), (left, 1.0)):
            for base in {y - 4.5 * unit + far: 0, y - 4.5 * unit - far: 0}:
                yield end, base, part, far > 0
        for end, part in ((x + 9 * unit, 0.0), (x - 9 * unit, 1.0)):
            for base in (y + 9 * unit + far, y - 18 * unit - far):
                yield end, base, part, far > 0
        for base in (over + far, under - far):
            yield x, base, 0.5, far > 0
            yield x - 5 * unit, base, 0.0, far > 0


def _drawn(ax: Axes, box: Box) -> Box:
    """Where a box of values is drawn."""
    left, bottom, right, top = ax.transData.transform([box[:2], box[2:]]).ravel().tolist()
    return left, bottom, right, top


def _grown(box: Box, by: float) -> Box:
    """A box with a margin, whichever corners it was given by."""
    return min(box[0], box[2]) - by, min(box[1], box[3]) - by, max(box[0], box[2]) + by, max(box[1], box[3]) + by


def _inside(box: Box, whole: Sequence[float]) -> bool:
    return bool(box[0] >= whole[0] and box[1] >= whole[1] and box[2] <= whole[2] - 2 and box[3] <= whole[3])


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
