"""Axes, colours and point labels; line charts and heat maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ctxbench.io.errors import ParameterError
from ctxbench.model.arrays import FloatArray
from ctxbench.report import document
from ctxbench.report.pages import TOOLTIP, axes_at, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Colours of Okabe and Ito that can be read on white and on black."""
_MARKS = ("o", "D", "^", "P", "X")
LOG_FROM = 20.0  # a larger spread of an amount needs a logarithmic axis


def nice_step(minimum: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `minimum` (> 0)."""
    power: float = 10.0 ** math.floor(math.log10(minimum))
    return next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= minimum * (1 - 1e-9))


def colours(names: Iterable[str]) -> dict[str, str]:
    """One colour per name, the same in all charts."""
    return {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(names)}


def marks_of(colours: Mapping[str, str]) -> dict[str, str]:
    """One marker per name; names that share a colour get different markers."""
    counts: dict[str, int] = {}
    marks = {}
    for name, colour in colours.items():
        marks[name] = _MARKS[counts.get(colour, 0) % len(_MARKS)]
        counts[colour] = counts.get(colour, 0) + 1
    return marks


def ink(ax: Axes) -> Any:
    """The text colour of the axes."""
    return ax.xaxis.label.get_color()


def paper(ax: Axes) -> Any:
    """The background colour of the axes, or of the figure where the axes are transparent."""
    face: Any = ax.get_facecolor()
    return face if face[3] else figure_of(ax).get_facecolor()


def figure_of(ax: Axes) -> Any:
    """The figure that the axes are part of."""
    return ax.get_figure(root=True)


def size(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes, in points."""
    point = figure_of(ax).dpi / 72.0
    return ax.bbox.width / point, ax.bbox.height / point


def mark_numbers(axis: Any, *, percent: bool = False, log: bool = False) -> None:
    """Mark an axis with as many round numbers as it has room for.

    Args:
        axis: of the x or the y values.
        percent: values are shares, shown as per cent.
        log: logarithmic.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    across = axis.axis_name == "x"
    room = max(int(size(axis.axes)[not across] / (55.0 if across else 36.0)), 2)
    if log:
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        low, high = axis.get_view_interval()
        subs = (1.0, 2.0, 5.0) if 2 * math.log10(high / low) <= room else (1.0,)
        axis.set_major_locator(LogLocator(subs=subs, numticks=room + 2))
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(room, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(percentage) if percent else StrMethodFormatter("{x:,.10g}"))


def percentage(value: float, _position: int | None = None) -> str:
    """A share in per cent, without the sign."""
    return f"{100 * value:.6g}".replace("-", document.MINUS)


def points_of_percent(value: float, _position: int | None = None) -> str:
    """A difference of shares in points."""
    return signed(100 * value)


def signed(value: float, _position: int | None = None) -> str:
    """A difference with its sign; 0 has none."""
    text = f"{value:+,.6g}"
    return "0" if not any(digit in text for digit in "123456789") else text.replace("-", document.MINUS)


def compact(value: float) -> str:
    """An amount in at most five letters: `812`, `1.24k`, `12.4k`, `3.1M`."""
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor * 0.9995:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"


Box: TypeAlias = tuple[float, float, float, float]
"""Left, bottom, right, top."""
_Position: TypeAlias = tuple[Any, float, bool]
"""A label's box, which part of its width lies left of its mark, and whether a line leads there."""
_MARK = 4.2  # points from the middle of a mark to its edge
_NAME_GAP = 8.0  # between two names on one line
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


@dataclass(frozen=True, slots=True)
class PointLabel:
    """The name of a point.

    Attributes:
        at: the point.
        text: its name.
        reach: how far its intervals reach.
        short: stands in place of a name without room, left out if it would cover another; empty = the name stays.
    """

    at: tuple[float, float]
    text: str
    reach: Box
    short: str = ""


def place_labels(ax: Axes, points: Sequence[PointLabel], *, obstacles: Sequence[Box] = ()) -> None:
    """Name points; names are placed whenever the axes are drawn, when all sizes are known, and stay inside.

    Args:
        ax: where.
        points: in the order in which names choose.
        obstacles: what labels avoid apart from points and their intervals.
    """
    from matplotlib.artist import Artist
    from matplotlib.patheffects import withStroke

    placing: Any = Artist()
    line: dict[str, Any] = {"arrowstyle": "-", "linewidth": 0.6, "color": ink(ax), "alpha": 0.6, "shrinkB": 4.0}
    named = []
    for point in points:
        label = ax.annotate(
            point.text,
            point.at,
            xytext=(8.0, 0.0),
            textcoords="offset points",
            fontsize="small",
            color=ink(ax),
            arrowprops={**line, "shrinkA": 1.0},
        )
        label.set(parse_math=False, zorder=5, in_layout=False)
        label.set_path_effects([withStroke(linewidth=2.0, foreground=paper(ax))])
        named.append((label, point))
    placing.set(zorder=0.0, in_layout=False)
    placing.draw = partial(_position_labels, ax, named, obstacles)
    ax.add_artist(placing)


def _position_labels(
    ax: Axes, named: Sequence[tuple[Annotation, PointLabel]], obstacles: Sequence[Box], renderer: Any
) -> None:
    """Give each label the position where it, and the line from there to its mark, overlap least."""
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    def drawn(box: Box, margin: float) -> Any:
        return Bbox.from_extents(*box).transformed(ax.transData).padded(margin)

    point, area = renderer.points_to_pixels(1.0), ax.bbox
    met = _Met([drawn(box, 1.0) for box in obstacles])
    for label, (left, low, right, high) in ((label, point_label.reach) for label, point_label in named):
        x, y = label.xy
        met.drawn += [
            drawn((x, y, x, y), _MARK * point),
            drawn((x, low, x, high), 1.5),
            drawn((left, y, right, y), 1.5),
        ]
    for label, point_label in named:
        x, y = ax.transData.transform(label.xy)
        unit = label.get_fontsize() * point / _FONT
        choices = []
        for text in filter(None, (point_label.text, point_label.short)):
            label.set(text=text, visible=True)  # what is hidden has no size
            width = Text.get_window_extent(label, renderer).width
            positions = [
                (Bbox.from_bounds(at - part * width, base - 4 * unit, width, 15 * unit), part, led)
                for at, base, part, led in _positions((x, y), drawn(point_label.reach, 0.0).extents, unit)
            ]
            fitting = [
                position
                for position in positions
                if np.all(position[0].min >= area.min) and np.all(position[0].max <= area.max)
            ]
            position, overlaps = _best_place((x, y), fitting or positions[:1], met, gap=_NAME_GAP * unit)
            choices.append(((not fitting, *overlaps, position[2]), text, position))  # a name that needs a line is worse
        crowded, text, (box, part, led) = min(choices, key=lambda choice: choice[0])
        label.set(text=text, visible=not (point_label.short and crowded[1]))
        if not label.get_visible():
            continue
        width = box.width
        left, base = min(max(box.x0, area.x0), max(area.x1 - width, area.x0)), box.y0 + 4 * unit
        # Where no place lets a long name stay inside, it is pushed there, over its mark.
        base = base if left == box.x0 else y + 9 * unit
        met.names.append(Bbox.from_bounds(left, base - 4 * unit, width, 15 * unit))
        met.lines += _line((x, y), met.names[-1]) if led else []
        moved = ((left + part * width - x) / point, (base - y) / point)
        label.set(position=moved, ha=("left", "center", "right")[round(2 * part)], va="baseline")
        if label.arrow_patch is not None:
            label.arrow_patch.set_visible(led)


def _best_place(
    mark: tuple[float, float], positions: Sequence[_Position], met: _Met, *, gap: float
) -> tuple[_Position, tuple[int, int, int]]:
    """The position where a label overlaps least, the first of equals: names, other marks; then names near, and lines.

    Names first: of two that lie on each other neither can be read, and an interval is seen on both sides of a name.
    What is near is counted last, and up to the first place with nothing near, as it takes longest. The numbers of
    these overlaps are returned, too.
    """
    covered = [(box.count_overlaps(met.names), box.count_overlaps(met.drawn)) for box, _, _ in positions]
    fewest = min(covered)
    equals = [position for position, count in zip(positions, covered, strict=True) if count == fewest]
    near = []
    for position in equals:
        near.append(_near(mark, position, met=met, gap=gap))
        if near[-1] == 0:
            break
    return equals[near.index(min(near))], (*fewest, min(near))


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


ALONE, NARROW, SMALL, MEDIUM = (760.0, 400.0), (356.0, 310.0), (330.0, 250.0), (380.0, 310.0)
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
        tag: a few letters, drawn beside it; points at one place share a label.
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
            dashes; the first of them is thick, and only its band is drawn.
        x, y: its axes.
        rings: points that stand out.
    """

    title: str
    lines: Mapping[str, tuple[FloatArray, ...]]
    x: Scale
    y: Scale
    rings: Sequence[Ring] = ()


def line_charts(
    panels: Sequence[Panel],
    *,
    columns: int,
    size: tuple[float, float] = SMALL,
    name: str = "lines",
) -> str:
    """Draw charts of lines as SVG text, in rows of `columns`, with one legend for all below.

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
        figure.legend(
            [handles[entry] for entry in legend],
            [document.named(entry) for entry in legend],
            loc="upper left",
            bbox_to_anchor=(_EDGE / width, 1.0 - foot / height),
            ncols=abreast,
            frameon=False,
            fontsize=11.5,
        )

    titles = [panel.title or f"{panel.y.title} against {panel.x.title}" for panel in panels]
    return svg(draw, width=width, height=height, name=name, label=", ".join(dict.fromkeys(titles)))


def lines(ax: Axes, panel: Panel) -> dict[str, Any]:
    """Draw a panel; what goes beyond its scales ends there.

    Returns:
        What a legend shows: lines by their names, and points by `TAG NAME`.
    """
    _set_scale(ax.xaxis, panel.x)
    _set_scale(ax.yaxis, panel.y)
    drawn: dict[str, Any] = {}
    stems: dict[str, int] = {}
    for name, (xs, ys, *band) in panel.lines.items():
        stem = name.rpartition(": ")[0] or name
        thick, index = stem not in stems, stems.setdefault(stem, len(stems))
        colour = COLOURS[index % len(COLOURS)]
        if band and thick:
            far = 10.0 * (panel.y.high - panel.y.low)
            low, high = (np.clip(end, panel.y.low - far, panel.y.high + far) for end in band)
            ax.fill_between(xs, low, high, color=colour, alpha=0.13, linewidth=0, zorder=1)
        dash = _DASHES[index % len(_DASHES)]
        (drawn[name],) = ax.plot(
            xs,
            ys,
            color=colour,
            linestyle=(0, dash) if dash else "-",
            linewidth=2.4 if thick else 1.1,
            zorder=2,
            label=name,
        )
    return drawn | _rings(ax, panel)


def _rings(ax: Axes, panel: Panel) -> dict[str, Any]:
    """Draw highlighted points and their tags; points at one position share a label."""
    drawn: dict[str, Any] = {}
    tags: dict[tuple[float, float], list[str]] = {}
    for ring in panel.rings:
        x, y = (float(np.clip(v, scale.low, scale.high)) for v, scale in ((ring.x, panel.x), (ring.y, panel.y)))
        arrow = _ARROWS.get(((ring.x > x) - (ring.x < x), (ring.y > y) - (ring.y < y)), "")
        tooltip = document.named(ring.title) + " (beyond the axes)" * bool(arrow)
        full = ring.shape == "diamond"
        edge, face = (paper(ax), ink(ax)) if full else (ink(ax), "none" if ring.shape == "ring" else paper(ax))
        (drawn[f"{ring.tag} {ring.name}"],) = ax.plot(
            x,
            y,
            _SHAPES[ring.shape],
            label=ring.name,
            gid=TOOLTIP + tooltip,
            markeredgecolor=edge,
            markerfacecolor=face,
            markersize=9.0 if full else 8.0,
            markeredgewidth=1.0 if full else 1.5,
            linestyle="none",
            zorder=4,
            clip_on=False,
        )
        tags.setdefault((x, y), []).extend([ring.tag + arrow] if ring.tag else [])
    place_labels(ax, [PointLabel(at, ",".join(names), at * 2) for at, names in tags.items() if names])
    return drawn


def _set_scale(axis: Any, scale: Scale) -> None:
    """Give an axis its ends, its title and its marks."""
    axis.axes.set(**{f"{axis.axis_name}lim": (scale.low, scale.high)})
    mark_numbers(axis, percent=scale.percent, log=scale.log)
    if scale.names:
        limit = max(int(size(axis.axes)[0] / len(scale.names) / _LETTER) - 1, 3)
        axis.set_ticks(range(len(scale.names)), [_cut(name, limit) for name in scale.names], parse_math=False)
    title = document.named(scale.title)
    if axis.axis_name == "y" and len(title) * _LETTER > size(axis.axes)[1]:  # it would run through what is above
        title = title.replace(", ", ",\n", 1)
    axis.set_label_text(title, parse_math=False)


def _cut(text: str, limit: int) -> str:
    """A text on one line, of at most `limit` characters."""
    line = document.named(text)
    return line if len(line) <= limit else f"{line[: limit - 1]}\u2026"


_CELL_HEIGHT, _MAP_HEAD, _FOOT, _CELL_GAP = 24.0, 34.0, 52.0, 26.0  # pixels
_CELL_LETTER = 7.2
_LEAST = 3.5  # points, of letters in cells
_DARK, _LIGHT = "#000000", "#f7f7f7"  # not the ink and the paper, which a page exchanges
_EQUAL = 0.17  # the luminance at which dark and light letters have the same contrast


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """One table of cells.

    Attributes:
        title: above it: what the numbers are, with their unit.
        x, y: what goes along it and up it.
        xs, ys: the values of both, as they are shown.
        values: shape (len(ys), len(xs)); NaN = none, and the cell stays empty.
        format_value: writes a value as text.
        chosen: column and row of the cell that stands out, or None.
        pale: up to which value tints are the palest. None = the lowest.
    """

    title: str
    x: str
    y: str
    xs: Sequence[str]
    ys: Sequence[str]
    values: FloatArray
    format_value: Callable[[float], str]
    chosen: tuple[int, int] | None = None
    pale: float | None = None


def heat_maps(maps: Sequence[HeatMap], *, columns: int, name: str = "cells") -> str:
    """Draw tables of cells in rows of `columns` tables, as SVG text; all cells have one size.

    Args:
        maps: the tables.
        columns: how many tables in a row.
        name: unlike those of other drawings on the same page.

    Raises:
        ParameterError: there is no table, or one whose values have another shape than its axes.
    """
    if not maps or any(chart.values.shape != (len(chart.ys), len(chart.xs)) for chart in maps):
        raise ParameterError("heat maps need at least one table, with as many rows as ys and as many columns as xs")
    letters = [
        max(map(len, (*chart.xs, *map(chart.format_value, chart.values[~np.isnan(chart.values)])))) for chart in maps
    ]
    cell = max(30.0, 10.0 + _CELL_LETTER * max(letters))
    margin = 36.0 + _CELL_LETTER * max(len(text) for chart in maps for text in chart.ys)
    wide = (
        max(
            margin + max(cell * len(chart.xs), _CELL_LETTER * max(len(chart.title), len(chart.x)), 200.0)
            for chart in maps
        )
        + _CELL_GAP
    )
    high = max(_MAP_HEAD + max(_CELL_HEIGHT * len(chart.ys), _CELL_LETTER * len(chart.y)) + _FOOT for chart in maps)

    def draw(figure: Figure) -> None:
        for index, chart in enumerate(maps):
            row, column = divmod(index, columns)
            left, top = wide * column + margin, high * row + _MAP_HEAD
            heat_map(axes_at(figure, left, top, cell * len(chart.xs), _CELL_HEIGHT * len(chart.ys)), chart)

    return svg(
        draw,
        width=wide * min(columns, len(maps)),
        height=high * -(-len(maps) // columns),
        name=name,
        label=", ".join(dict.fromkeys(f"{chart.title}: {chart.y} over {chart.x}" for chart in maps)),
    )


def heat_map(ax: Axes, chart: HeatMap) -> Any:
    """Draw a table of cells, the first y at the foot; tints go from the lowest to the highest value.

    They differ by lightness, so that they say the same without colours. The cell that is chosen has a frame and a bold
    number.

    Returns:
        The cells, for a scale of colours beside them.
    """
    from matplotlib.patches import Rectangle

    rows, columns = chart.values.shape
    values = chart.values[~np.isnan(chart.values)]
    mesh = ax.pcolormesh(
        np.ma.masked_invalid(chart.values),
        cmap="Blues",
        edgecolors=paper(ax),
        linewidth=0.8,
        vmin=min(values, default=0.0) if chart.pale is None else chart.pale,
        vmax=max(values, default=1.0),
    )
    wide, high = size(ax)[0] / columns, size(ax)[1] / rows
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    turned = turned if max(map(len, chart.xs), default=0) * 6.0 > wide else {}
    ax.set_xticks(np.arange(columns) + 0.5, list(map(document.named, chart.xs)), parse_math=False, **turned)
    ax.set_yticks(np.arange(rows) + 0.5, list(map(document.named, chart.ys)), parse_math=False)
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.set_xlabel(document.named(chart.x), parse_math=False)
    ax.set_ylabel(document.named(chart.y), parse_math=False)
    ax.set_title(document.named(chart.title), loc="left", fontweight="bold", parse_math=False)
    font = min(0.5 * high, wide / (0.65 * max(map(len, map(chart.format_value, values)), default=1)), 11.0)
    for row, column in np.argwhere(~np.isnan(chart.values)).tolist() if font >= _LEAST else ():
        _number(ax, chart, (column, row), font, mesh.to_rgba(chart.values[row, column]))
    if chart.chosen:
        for colour, width in ((COLOURS[1], 3.0), (_LIGHT, 1.0)):
            ax.add_patch(
                Rectangle(chart.chosen, 1, 1, edgecolor=colour, linewidth=width, fill=False, zorder=3, clip_on=False)
            )
    return mesh


def _number(ax: Axes, chart: HeatMap, at: tuple[int, int], font: float, tint: Any) -> None:
    """The number of a cell, in whichever of dark and light letters has more contrast with its tint."""
    column, row = at
    if not (text := chart.format_value(float(chart.values[row, column]))):
        return
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in tint[:3]]
    light = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]  # relative luminance, as in WCAG 2
    ax.text(
        column + 0.5,
        row + 0.5,
        text,
        ha="center",
        va="center",
        color=_DARK if light > _EQUAL else _LIGHT,
        fontsize=font,
        fontweight="bold" if chart.chosen == at else "normal",
        gid=TOOLTIP + document.named(f"{chart.x} {chart.xs[column]}, {chart.y} {chart.ys[row]}: {text}"),
    )
