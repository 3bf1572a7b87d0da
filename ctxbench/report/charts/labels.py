"""Names beside points, placed when the axes are drawn, so that they meet neither each other nor what is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ctxbench.report.charts.axes import ink, paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

Box: TypeAlias = tuple[float, float, float, float]
"""Left, bottom, right, top."""
_MARK = 4.2  # points from the middle of a mark to its edge
_FONT = 12.0  # the size of letters that distances are for


def place_labels(
    ax: Axes, points: Sequence[tuple[tuple[float, float], str, Box]], *, beside: Sequence[Box] = ()
) -> None:
    """Name points; names are placed whenever the axes are drawn, when all sizes are known, and stay inside.

    Args:
        ax: where.
        points: each with its name and how far its intervals reach, in the order in which names choose.
        beside: what names avoid beside points and their intervals.
    """
    from matplotlib.artist import Artist
    from matplotlib.patheffects import withStroke

    placing: Any = Artist()
    line: dict[str, Any] = {"arrowstyle": "-", "linewidth": 0.6, "color": ink(ax), "alpha": 0.6, "shrinkB": 4.0}
    named = []
    for at, text, reach in points:
        style: dict[str, Any] = {"textcoords": "offset points", "fontsize": "small", "color": ink(ax)}
        label = ax.annotate(text, at, xytext=(8.0, 0.0), arrowprops={**line, "shrinkA": 1.0}, **style)
        label.set(parse_math=False, zorder=5, in_layout=False)
        label.set_path_effects([withStroke(linewidth=2.0, foreground=paper(ax))])
        named.append((label, reach))
    placing.set(zorder=0.0, in_layout=False)
    placing.draw = partial(_place, ax, named, beside)
    ax.add_artist(placing)


def _place(ax: Axes, named: Sequence[tuple[Annotation, Box]], beside: Sequence[Box], renderer: Any) -> None:
    """Give each label the place where it meets least."""
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    def drawn(box: Box, margin: float) -> Any:
        return Bbox.from_extents(*box).transformed(ax.transData).padded(margin)

    point, whole = renderer.points_to_pixels(1.0), ax.bbox
    taken = [drawn(box, 1.0) for box in beside]
    for label, (left, low, right, high) in named:
        x, y = label.xy
        taken += [drawn((x, y, x, y), _MARK * point), drawn((x, low, x, high), 1.5), drawn((left, y, right, y), 1.5)]
    for label, reach in named:
        x, y = ax.transData.transform(label.xy)
        unit, width = label.get_fontsize() * point / _FONT, Text.get_window_extent(label, renderer).width
        places = [
            (Bbox.from_bounds(at - part * width, base - 4 * unit, width, 15 * unit), part, led)
            for at, base, part, led in _places((x, y), drawn(reach, 0.0).extents, unit)
        ]
        fitting = [one for one in places if np.all(one[0].min >= whole.min) and np.all(one[0].max <= whole.max)]
        box, part, led = min(fitting or places[:1], key=lambda one: one[0].count_overlaps(taken))
        left, base = min(max(box.x0, whole.x0), max(whole.x1 - width, whole.x0)), box.y0 + 4 * unit
        # Where no place lets a long name stay inside, it is pushed there, over its mark.
        base = base if left == box.x0 else y + 9 * unit
        taken.append(Bbox.from_bounds(left, base - 4 * unit, width, 15 * unit))
        moved = ((left + part * width - x) / point, (base - y) / point)
        label.set(position=moved, ha=("left", "center", "right")[round(2 * part)], va="baseline")
        if label.arrow_patch is not None:
            label.arrow_patch.set_visible(led)


def _places(at: tuple[float, float], reach: Box, unit: float) -> Iterator[tuple[float, float, float, bool]]:
    """Places for a label, the best first: x, base line, which part of its width lies left of x, whether it is far."""
    x, y = at
    right, left = max(x + 11 * unit, reach[2] + 5 * unit), min(x - 11 * unit, reach[0] - 5 * unit)
    over, under = max(reach[3], y + 5 * unit) + 5 * unit, min(reach[1], y - 5 * unit) - 13 * unit
    for far in (0.0, 16 * unit, 32 * unit, 48 * unit):
        beside, corners = (y - 4.5 * unit + far, y - 4.5 * unit - far), (y + 9 * unit + far, y - 18 * unit - far)
        ends = [(right, 0.0, beside), (left, 1.0, beside), (x + 9 * unit, 0.0, corners), (x - 9 * unit, 1.0, corners)]
        ends += [(x, 0.5, (over + far, under - far)), (x - 5 * unit, 0.0, (over + far, under - far))]
        yield from ((end, base, part, far > 0) for end, part, bases in ends for base in bases)
