"""Labels of points, positioned when the axes are drawn, so that they overlap neither each other nor the drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ctxbench.report.charts.axes import ink, paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

Box: TypeAlias = tuple[float, float, float, float]
"""Left, bottom, right, top."""
_Position: TypeAlias = tuple[Any, float, bool]
"""A label's box, which part of its width lies left of its mark, and whether a line leads there."""
_MARK = 4.2  # points from the middle of a mark to its edge
_GAP = 8.0  # between two names on one line
_PIECES = 16  # of a line from a mark to its name
_FONT = 12.0  # the size of letters that distances are for


@dataclass
class _Met:
    """What labels should not overlap, as boxes on the canvas.

    Attributes:
        drawn: marks, intervals and what else is drawn.
        names: labels that have their position.
        lines: from these labels to their marks, in pieces.
    """

    drawn: list[Any]
    names: list[Any] = field(default_factory=list)
    lines: list[Any] = field(default_factory=list)


def place_labels(
    ax: Axes, points: Sequence[tuple[tuple[float, float], str, Box]], *, obstacles: Sequence[Box] = ()
) -> None:
    """Name points; names are placed whenever the axes are drawn, when all sizes are known, and stay inside.

    Args:
        ax: where.
        points: each with its name and how far its intervals reach, in the order in which names choose.
        obstacles: what labels avoid apart from points and their intervals.
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
    placing.draw = partial(_position_labels, ax, named, obstacles)
    ax.add_artist(placing)


def _position_labels(
    ax: Axes, named: Sequence[tuple[Annotation, Box]], obstacles: Sequence[Box], renderer: Any
) -> None:
    """Give each label the position where it, and the line from there to its mark, overlap least."""
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    def drawn(box: Box, margin: float) -> Any:
        return Bbox.from_extents(*box).transformed(ax.transData).padded(margin)

    point, area = renderer.points_to_pixels(1.0), ax.bbox
    met = _Met([drawn(box, 1.0) for box in obstacles])
    for label, (left, low, right, high) in named:
        x, y = label.xy
        met.drawn += [
            drawn((x, y, x, y), _MARK * point),
            drawn((x, low, x, high), 1.5),
            drawn((left, y, right, y), 1.5),
        ]
    for label, reach in named:
        x, y = ax.transData.transform(label.xy)
        unit, width = label.get_fontsize() * point / _FONT, Text.get_window_extent(label, renderer).width
        positions = [
            (Bbox.from_bounds(at - part * width, base - 4 * unit, width, 15 * unit), part, led)
            for at, base, part, led in _positions((x, y), drawn(reach, 0.0).extents, unit)
        ]
        fitting = [
            position
            for position in positions
            if np.all(position[0].min >= area.min) and np.all(position[0].max <= area.max)
        ]
        box, part, led = _best_place((x, y), fitting or positions[:1], met, gap=_GAP * unit)
        left, base = min(max(box.x0, area.x0), max(area.x1 - width, area.x0)), box.y0 + 4 * unit
        # Where no place lets a long name stay inside, it is pushed there, over its mark.
        base = base if left == box.x0 else y + 9 * unit
        met.names.append(Bbox.from_bounds(left, base - 4 * unit, width, 15 * unit))
        met.lines += _line((x, y), met.names[-1]) if led else []
        moved = ((left + part * width - x) / point, (base - y) / point)
        label.set(position=moved, ha=("left", "center", "right")[round(2 * part)], va="baseline")
        if label.arrow_patch is not None:
            label.arrow_patch.set_visible(led)


def _best_place(mark: tuple[float, float], positions: Sequence[_Position], met: _Met, *, gap: float) -> _Position:
    """The position where a label overlaps least, the first of equals: names, other marks; then names near, and lines.

    Names first: of two that lie on each other neither can be read, and an interval is seen on both sides of a name.
    What is near is counted last, and up to the first place with nothing near, as it takes longest.
    """
    covered = [(box.count_overlaps(met.names), box.count_overlaps(met.drawn)) for box, _, _ in positions]
    fewest = min(covered)
    equals = [position for position, count in zip(positions, covered, strict=True) if count == fewest]
    near = []
    for position in equals:
        near.append(_near(mark, position, met=met, gap=gap))
        if near[-1] == 0:
            break
    return equals[near.index(min(near))]


def _near(mark: tuple[float, float], position: _Position, *, met: _Met, gap: float) -> int:
    """How crowded a position is: 2 per name near it, 1 for a line under it, 1 where the label's line crosses names."""
    from matplotlib.transforms import Bbox

    box, _, led = position
    wide = Bbox.from_extents(box.x0 - gap, box.y0, box.x1 + gap, box.y1)
    crossed = led and any(piece.count_overlaps(met.names) for piece in _line(mark, box))
    return int(2 * wide.count_overlaps(met.names) + (box.count_overlaps(met.lines) > 0) + crossed)


def _line(mark: tuple[float, float], box: Any) -> list[Any]:
    """The line from a mark to a label, as small boxes along it."""
    from matplotlib.transforms import Bbox

    (x, y), (to_x, to_y) = mark, ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
    points = [(x + part * (to_x - x), y + part * (to_y - y)) for part in np.linspace(0.0, 1.0, _PIECES)]
    return [Bbox.from_extents(*point, *point).padded(0.5) for point in points[1:] if not box.contains(*point)]


def _positions(at: tuple[float, float], reach: Box, unit: float) -> Iterator[tuple[float, float, float, bool]]:
    """Positions for a label, the best first: x, base line, which part of its width is left of x, whether it is far."""
    x, y = at
    right, left = max(x + 11 * unit, reach[2] + 5 * unit), min(x - 11 * unit, reach[0] - 5 * unit)
    over, under = max(reach[3], y + 5 * unit) + 5 * unit, min(reach[1], y - 5 * unit) - 13 * unit
    for far in (0.0, 16 * unit, 32 * unit, 48 * unit):
        level, corners = (y - 4.5 * unit + far, y - 4.5 * unit - far), (y + 9 * unit + far, y - 18 * unit - far)
        ends = [(right, 0.0, level), (left, 1.0, level), (x + 9 * unit, 0.0, corners), (x - 9 * unit, 1.0, corners)]
        ends += [(x, 0.5, (over + far, under - far)), (x - 5 * unit, 0.0, (over + far, under - far))]
        yield from ((end, base, part, far > 0) for end, part, bases in ends for base in bases)
