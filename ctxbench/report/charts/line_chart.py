"""Line charts with bands and highlighted points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import ParameterError
from ctxbench.report import wording
from ctxbench.report.charts.axes import COLOURS, ink, mark_numbers, paper, size
from ctxbench.report.charts.point_names import place_labels
from ctxbench.report.charts.svg import TOOLTIP, axes_at, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ALONE, SMALL, MEDIUM = (640.0, 356.0), (330.0, 250.0), (380.0, 310.0)
"""Sizes of a panel in pixels, without the legend."""
_DASHES: tuple[tuple[float, ...], ...] = ((), (3.2, 1.2), (1.0, 1.0), (3.2, 1.0, 1.0, 1.0), (6.0, 2.0))
_LEFT, _RIGHT, _TOP, _HEAD, _BOTTOM = 68.0, 18.0, 12.0, 20.0, 44.0  # margins of a panel; a title takes the head
_EDGE = 14.0  # left of titles and of the legend
_ROW, _LETTER, _BOLD = 18.0, 7.2, 7.9
_ARROWS = dict(
    zip(
        ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1)),
        "\u2192\u2197\u2191\u2196\u2190\u2199\u2193\u2198",
        strict=True,
    )
)
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
    """A highlighted point.

    Attributes:
        title: for a pointer that rests on it.
        x, y: its values; beyond the axes it stands at their end, with an arrow that says which way it lies.
        tag: a few letters that stand beside it; points at one place share a label.
        name: what the legend says of the tag; a tag has one name.
        shape: `ring`, `square`, `triangle`, `cross` or `diamond`.
    """

    title: str
    x: float
    y: float
    tag: str = ""
    name: str = ""
    shape: str = "ring"


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of several.

    Attributes:
        title: above it.
        lines: by name, each as (xs, ys) in the order in which they are joined, or as (xs, ys, lows, highs) with a band
            around it, whose ends may be infinite. Those with names that differ only behind a colon share a colour and
            dashes, and the first of them is thick.
        x, y: its axes.
        rings: points that stand out.
    """

    title: str
    lines: Mapping[str, tuple[FloatArray, ...]]
    x: Scale
    y: Scale
    rings: Sequence[Ring] = ()


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
    name: str = "lines",
) -> str:
    """Draw charts as `line_chart` does, in rows of `columns`, with one legend for all below.

    Args:
        panels: the charts.
        columns: how many charts in a row.
        size: of each, in pixels.
        name: unlike those of other drawings on the same page.

    Raises:
        ParameterError: there is no panel, or the lines of two have other names or another order.
    """
    if not panels or any(list(panel.lines) != list(panels[0].lines) for panel in panels):
        raise ParameterError("line charts beside each other must be at least one, with lines of the same names in all")
    width, foot = size[0] * min(columns, len(panels)), size[1] * -(-len(panels) // columns)
    tagged = {ring.tag: ring.name for panel in panels for ring in panel.rings if ring.tag}
    legend = [*panels[0].lines, *(f"{tag} {label}" for tag, label in tagged.items())]
    abreast = max(int((width - _LEFT) / (_LETTER * max(map(len, legend), default=1) + 50.0)), 1)
    height = foot + 12.0 + _ROW * -(-len(legend) // abreast)

    def draw(figure: Figure) -> None:
        handles: dict[str, Any] = {}
        for index, panel in enumerate(panels):
            row, column = divmod(index, columns)
            head, left, top = _TOP + _HEAD * bool(panel.title), size[0] * column, size[1] * row
            title = _cut(panel.title, int((size[0] - _EDGE) / _BOLD))
            figure.text((left + _EDGE) / width, 1.0 - (top + 20.0) / height, title, fontweight="bold", fontsize=11.5)
            ax = axes_at(figure, left + _LEFT, top + head, size[0] - _LEFT - _RIGHT, size[1] - head - _BOTTOM)
            handles = lines(ax, panel) | handles
        placed: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (_EDGE / width, 1.0 - foot / height)}
        texts = [wording.named(entry) for entry in legend]
        figure.legend(
            [handles[entry] for entry in legend], texts, ncols=abreast, frameon=False, fontsize=11.5, **placed
        )

    titles = [panel.title or f"{panel.y.title} against {panel.x.title}" for panel in panels]
    return svg(draw, width=width, height=height, name=name, label=", ".join(dict.fromkeys(titles)))


def lines(ax: Axes, panel: Panel) -> dict[str, Any]:
    """Draw a panel; what goes beyond its scales ends there.

    Returns:
        What a legend shows: lines by their names, and points by `TAG NAME`.
    """
    _scaled(ax.xaxis, panel.x)
    _scaled(ax.yaxis, panel.y)
    drawn: dict[str, Any] = {}
    stems: dict[str, int] = {}
    for name, (xs, ys, *band) in panel.lines.items():
        stem = name.rpartition(": ")[0] or name
        thick, index = stem not in stems, stems.setdefault(stem, len(stems))
        colour = COLOURS[index % len(COLOURS)]
        if band:
            far = 10.0 * (panel.y.high - panel.y.low)
            low, high = (np.clip(end, panel.y.low - far, panel.y.high + far) for end in band)
            ax.fill_between(xs, low, high, color=colour, alpha=0.13 if thick else 0.07, linewidth=0, zorder=1)
        style: dict[str, Any] = {"color": colour, "linewidth": 2.4 if thick else 1.1, "zorder": 2}
        dash = _DASHES[index % len(_DASHES)]
        (drawn[name],) = ax.plot(xs, ys, linestyle=(0, dash) if dash else "-", label=name, **style)
    return drawn | _rings(ax, panel)


def _rings(ax: Axes, panel: Panel) -> dict[str, Any]:
    """Draw highlighted points and their tags; points at one position share a label."""
    drawn: dict[str, Any] = {}
    tags: dict[tuple[float, float], list[str]] = {}
    for ring in panel.rings:
        x, y = (float(np.clip(v, scale.low, scale.high)) for v, scale in ((ring.x, panel.x), (ring.y, panel.y)))
        arrow = _ARROWS.get(((ring.x > x) - (ring.x < x), (ring.y > y) - (ring.y < y)), "")
        tooltip = wording.named(ring.title) + " (beyond the axes)" * bool(arrow)
        full = ring.shape == "diamond"
        edge, face = (paper(ax), ink(ax)) if full else (ink(ax), "none" if ring.shape == "ring" else paper(ax))
        style: dict[str, Any] = {"markeredgecolor": edge, "markerfacecolor": face, "markersize": 9.0 if full else 8.0}
        style |= {"markeredgewidth": 1.0 if full else 1.5, "linestyle": "none", "zorder": 4, "clip_on": False}
        (mark,) = ax.plot(x, y, _SHAPES[ring.shape], label=ring.name, gid=TOOLTIP + tooltip, **style)
        tags.setdefault((x, y), []).extend([ring.tag + arrow] if ring.tag else [])
        drawn[f"{ring.tag} {ring.name}"] = mark
    place_labels(ax, [(at, ",".join(names), at * 2) for at, names in tags.items() if names])
    return drawn


def _scaled(axis: Any, scale: Scale) -> None:
    """Give an axis its ends, its title and its marks."""
    axis.axes.set(**{f"{axis.axis_name}lim": (scale.low, scale.high)})
    mark_numbers(axis, percent=scale.percent, log=scale.log)
    if scale.names:
        limit = max(int(size(axis.axes)[0] / len(scale.names) / _LETTER) - 1, 3)
        axis.set_ticks(range(len(scale.names)), [_cut(name, limit) for name in scale.names], parse_math=False)
    title = wording.named(scale.title)
    if axis.axis_name == "y" and len(title) * _LETTER > size(axis.axes)[1]:  # it would run through what is above
        title = title.replace(", ", ",\n", 1)
    axis.set_label_text(title, parse_math=False)


def _cut(text: str, limit: int) -> str:
    """A text on one line, of at most `limit` characters."""
    line = wording.named(text)
    return line if len(line) <= limit else f"{line[: limit - 1]}\u2026"
