"""Lines over two axes, with bands around them and points that stand out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import ParameterError
from ctxbench.reporting import wording
from ctxbench.reporting.charts.axes import COLOURS, ink, mark_numbers, paper, size
from ctxbench.reporting.charts.labels import label, place_labels
from ctxbench.reporting.charts.svg import TOLD, axes_at, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ALONE, SMALL, MEDIUM = (640.0, 356.0), (330.0, 250.0), (380.0, 310.0)
"""Sizes of a panel in pixels, without the legend."""
DASHES: tuple[tuple[float, ...], ...] = ((), (3.2, 1.2), (1.0, 1.0), (3.2, 1.0, 1.0, 1.0), (6.0, 2.0))
_LEFT, _RIGHT, _TOP, _HEAD, _BOTTOM = 68.0, 18.0, 12.0, 20.0, 44.0  # margins of a panel; a title takes the head
_EDGE = 14.0  # left of titles and of the legend
_ROW, _LETTER, _BOLD = 18.0, 7.2, 7.9
_SHAPES = {"ring": "o", "square": "s", "triangle": "^", "cross": "x", "diamond": "D"}


@dataclass(frozen=True, slots=True)
class Scale:
    """What an axis shows, and from where to where.

    Attributes:
        title: with its unit.
        low, high: its ends, low < high.
        log: logarithmic; then low > 0.
        names: what the values 0, 1, 2 ... stand for, where they are no numbers.
        percent: values are shares, shown as per cent.
    """

    title: str
    low: float
    high: float
    log: bool = False
    names: tuple[str, ...] = ()
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Ring:
    """A point that stands out, and what it is.

    Attributes:
        title: for a pointer that rests on it.
        x, y: its values; beyond the axes it stands at their end.
        tag: a few letters that stand beside it; points at one place share a label.
        name: what the legend says of the tag; a tag has one name.
        shape: `ring`, `square`, `triangle`, `cross` or `diamond`.
        arrow: stands behind the tag: which way the point lies beyond the axes.
    """

    title: str
    x: float
    y: float
    tag: str = ""
    name: str = ""
    shape: str = "ring"
    arrow: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of several.

    Attributes:
        title: above it.
        lines: by name, each as (xs, ys) in the order in which they are joined.
        x, y: its axes.
        rings: points that stand out.
        bands: what is tinted around lines, by their names, each as (xs, lows, highs); ends may be infinite.
    """

    title: str
    lines: Mapping[str, tuple[FloatArray, FloatArray]]
    x: Scale
    y: Scale
    rings: Sequence[Ring] = ()
    bands: Mapping[str, tuple[FloatArray, FloatArray, FloatArray]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stroke:
    """How a line is drawn.

    Attributes:
        colour: a place among `COLOURS`.
        dash: lengths drawn and left out, as multiples of the width; empty = none.
        width: of the line.
        tint: how opaque its band is.
    """

    colour: int
    dash: tuple[float, ...] = ()
    width: float = 2.0
    tint: float = 0.13


def line_chart(
    lines: Mapping[str, tuple[FloatArray, FloatArray]], *, x: Scale, y: Scale, rings: Sequence[Ring] = ()
) -> str:
    """Draw lines by name, each as (xs, ys) in the order in which they are joined, with a legend below, as SVG text."""
    return line_charts([Panel("", lines, x, y, rings)], columns=1, size=ALONE)


def line_charts(
    panels: Sequence[Panel],
    *,
    columns: int,
    size: tuple[float, float] = SMALL,
    strokes: Sequence[Stroke] = (),
    name: str = "lines",
) -> str:
    """Draw charts as `line_chart` does, in rows of `columns`, with one legend for all below.

    Args:
        panels: the charts.
        columns: how many stand beside each other.
        size: of each, in pixels.
        strokes: of the lines in their order; where none are given, a colour and dashes each.
        name: unlike those of other drawings on the same page.

    Raises:
        ParameterError: there is no panel, or the lines of two have other names or another order.
    """
    if not panels or any(list(panel.lines) != list(panels[0].lines) for panel in panels):
        raise ParameterError("line charts beside each other must be at least one, with lines of the same names in all")
    width, foot = size[0] * min(columns, len(panels)), size[1] * -(-len(panels) // columns)
    tagged = {ring.tag: ring.name for panel in panels for ring in panel.rings if ring.tag}
    legend = [*panels[0].lines, *(f"{tag} {said}" for tag, said in tagged.items())]
    abreast = max(int((width - _LEFT) / (_LETTER * max(map(len, legend), default=1) + 50.0)), 1)
    height = foot + 12.0 + _ROW * -(-len(legend) // abreast)

    def draw(figure: Figure) -> None:
        shown: dict[str, Any] = {}
        for place, panel in enumerate(panels):
            row, column = divmod(place, columns)
            head, left, top = _TOP + _HEAD * bool(panel.title), size[0] * column, size[1] * row
            title = _cut(panel.title, int((size[0] - _EDGE) / _BOLD))
            figure.text((left + _EDGE) / width, 1.0 - (top + 20.0) / height, title, fontweight="bold", fontsize=11.5)
            ax = axes_at(figure, left + _LEFT, top + head, size[0] - _LEFT - _RIGHT, size[1] - head - _BOTTOM)
            shown = lines(ax, panel, strokes) | shown
        placed: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (_EDGE / width, 1.0 - foot / height)}
        texts = [wording.named(one) for one in legend]
        figure.legend([shown[one] for one in legend], texts, ncols=abreast, frameon=False, fontsize=11.5, **placed)

    said = [panel.title or f"{panel.y.title} against {panel.x.title}" for panel in panels]
    return svg(draw, width=width, height=height, name=name, label=", ".join(dict.fromkeys(said)))


def lines(ax: Axes, panel: Panel, strokes: Sequence[Stroke] = ()) -> dict[str, Any]:
    """Draw a panel; what goes beyond its scales ends there.

    Returns:
        What a legend shows: lines by their names, and points by `TAG NAME`.
    """
    _scaled(ax.xaxis, panel.x)
    _scaled(ax.yaxis, panel.y)
    drawn: dict[str, Any] = {}
    strokes = strokes or [Stroke(place, DASHES[place % len(DASHES)]) for place in range(len(panel.lines))]
    for (name, (xs, ys)), stroke in zip(panel.lines.items(), strokes, strict=True):
        colour = COLOURS[stroke.colour % len(COLOURS)]
        if name in panel.bands:
            far = 10.0 * (panel.y.high - panel.y.low)
            at, *ends = panel.bands[name]
            low, high = (np.clip(end, panel.y.low - far, panel.y.high + far) for end in ends)
            ax.fill_between(at, low, high, color=colour, alpha=stroke.tint, linewidth=0, zorder=1)
        style: dict[str, Any] = {"color": colour, "linewidth": stroke.width, "zorder": 2}
        (drawn[name],) = ax.plot(xs, ys, linestyle=(0, stroke.dash) if stroke.dash else "-", label=name, **style)
    return drawn | _rings(ax, panel)


def _rings(ax: Axes, panel: Panel) -> dict[str, Any]:
    """Points that stand out, and their tags: one label where several stand at one place."""
    drawn: dict[str, Any] = {}
    tags: dict[tuple[float, float], list[str]] = {}
    for ring in panel.rings:
        x, y = (float(np.clip(v, scale.low, scale.high)) for v, scale in ((ring.x, panel.x), (ring.y, panel.y)))
        full = ring.shape == "diamond"
        edge, face = (paper(ax), ink(ax)) if full else (ink(ax), "none" if ring.shape == "ring" else paper(ax))
        style: dict[str, Any] = {"markeredgecolor": edge, "markerfacecolor": face, "markersize": 9.0 if full else 8.0}
        style |= {"markeredgewidth": 1.0 if full else 1.5, "linestyle": "none", "zorder": 4, "clip_on": False}
        (mark,) = ax.plot(x, y, _SHAPES[ring.shape], label=ring.name, gid=TOLD + wording.named(ring.title), **style)
        tags.setdefault((x, y), []).extend([ring.tag + ring.arrow] if ring.tag else [])
        drawn[f"{ring.tag} {ring.name}"] = mark
    place_labels(ax, [label(ax, at, ",".join(names)) for at, names in tags.items() if names])
    return drawn


def _scaled(axis: Any, scale: Scale) -> None:
    """Give an axis its ends, its title and its marks."""
    axis.axes.set(**{f"{axis.axis_name}lim": (scale.low, scale.high)})
    mark_numbers(axis, percent=scale.percent, log=scale.log)
    if scale.names:
        most = max(int(size(axis.axes)[0] / len(scale.names) / _LETTER) - 1, 3)
        axis.set_ticks(range(len(scale.names)), [_cut(name, most) for name in scale.names], parse_math=False)
    axis.set_label_text(wording.named(scale.title), parse_math=False)


def _cut(text: str, most: int) -> str:
    """A text on one line, of at most so many letters."""
    line = wording.named(text)
    return line if len(line) <= most else f"{line[: most - 1]}\u2026"
