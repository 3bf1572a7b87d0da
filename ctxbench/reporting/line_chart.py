"""Lines over two axes as one SVG file, alone or as small multiples: trade-offs in reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import ParameterError
from ctxbench.reporting.axes import LETTER, Axis, Frame, log_ticks, nice_step
from ctxbench.reporting.placing import Box, Spot, placed

COLOURS = ("#1f5fa8", "#c2571a", "#3d7f3a", "#7a4a9c", "#666666")
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 18.0, 16.0, 40.0  # margins around the box of the axes, at least
_HEAD = 18.0  # a title above the box
_LINE = 19.0  # of the legend
_MARK = 7.0  # from the middle of a ring to where another thing may begin
SHAPES = {
    "ring": '<circle cx="{x}" cy="{y}" r="5" fill="none" stroke="#222" stroke-width="1.5">{title}</circle>',
    "square": '<path d="M{x} {y}m-4.5 -4.5h9v9h-9z" fill="#fff" stroke="#222" stroke-width="1.5">{title}</path>',
    "triangle": '<path d="M{x} {y}m0 -6l5.5 10h-11z" fill="#fff" stroke="#222" stroke-width="1.5">{title}</path>',
    "cross": '<path d="M{x} {y}m-4.5 -4.5l9 9m0 -9l-9 9" fill="none" stroke="#222" stroke-width="2.5">{title}</path>',
    "diamond": '<path d="M{x} {y}m0 -7l7 7l-7 7l-7 -7z" fill="#222" stroke="#fff" stroke-width="1">{title}</path>',
}
"""How a point that stands out is drawn."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What an axis shows, and from where to where.

    Attributes:
        title: with its unit.
        low, high: its ends, low < high.
        log: logarithmic; then low > 0.
        names: what the values 0, 1, 2 ... stand for, where they are no numbers.
    """

    title: str
    low: float
    high: float
    log: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ring:
    """A point that stands out, and what it is.

    Attributes:
        title: for a pointer that rests on it.
        x, y: its values.
        tag: a few letters that stand beside it; points at one place share a label.
        name: what the legend says of the tag; a tag has one name.
        shape: one of `SHAPES`.
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
        bands: what is tinted around lines, by their names, each as (xs, lows, highs).
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
        dash: as SVG has it; empty = none.
        width: of the line.
        tint: how opaque its band is.
    """

    colour: int
    dash: str = ""
    width: float = 2.0
    tint: float = 0.13

    def __str__(self) -> str:
        dash = f' stroke-dasharray="{self.dash}"' if self.dash else ""
        return f'stroke="{COLOURS[self.colour % len(COLOURS)]}" stroke-width="{self.width:g}"{dash}'


@dataclass(frozen=True, slots=True)
class Size:
    """Of a panel, without the legend, and how many steps its axes are divided into at most."""

    width: float
    height: float
    steps: int


ALONE, SMALL, MEDIUM = Size(640.0, 356.0, 8), Size(330.0, 250.0, 4), Size(380.0, 310.0, 5)


def line_chart(
    lines: Mapping[str, tuple[FloatArray, FloatArray]], *, x: Scale, y: Scale, rings: Sequence[Ring] = ()
) -> str:
    """Draw lines by name, each as (xs, ys) in the order in which they are joined, with a legend below.

    Points outside the axes are left out; points that fall on each other are drawn once.
    """
    return line_charts([Panel("", lines, x, y, rings)], columns=1, size=ALONE)


def line_charts(panels: Sequence[Panel], *, columns: int, size: Size = SMALL, strokes: Sequence[Stroke] = ()) -> str:
    """Draw charts as `line_chart` does, in rows of `columns`, with one legend for all below.

    Args:
        panels: the charts.
        columns: how many stand beside each other.
        size: of each.
        strokes: of the lines in their order; a colour each where none are given.

    Raises:
        ParameterError: there is no panel, or the lines of two have other names or another order.
    """
    if not panels or any(list(panel.lines) != list(panels[0].lines) for panel in panels):
        raise ParameterError("line charts beside each other must be at least one, with lines of the same names in all")
    names = list(panels[0].lines)
    drawn = dict(zip(names, strokes or map(Stroke, range(len(names))), strict=True))
    foot, width = size.height * -(-len(panels) // columns), size.width * min(columns, len(panels))
    legend, height = _legend(panels, drawn, foot, width)
    box = f'viewBox="0 0 {width:g} {height:g}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="12" role="img">',
        f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
    ]
    for place, panel in enumerate(panels):
        row, column = divmod(place, columns)
        out += _drawn(panel, drawn, size, (size.width * column, size.height * row))
    return "\n".join([*out, *legend, "</svg>", ""])


def _legend(
    panels: Sequence[Panel], strokes: Mapping[str, Stroke], foot: float, width: float
) -> tuple[list[str], float]:
    """The legend below `foot`, and where it ends: a line a row, or with tags all in as many columns as fit."""
    tagged = {ring.tag: ring for panel in panels for ring in panel.rings if ring.tag}
    room = width - _LEFT if tagged else 0.0
    level, out = foot + 16.0, []
    entry = max((len(name) for name in strokes), default=0) * LETTER + 50.0
    rows = _rows(len(strokes), entry, room)
    for place, (name, stroke) in enumerate(strokes.items()):
        x, y = _LEFT + entry * (place // rows), level + _LINE * (place % rows)
        out.append(f'<path d="M{x} {y - 4}h28" {stroke}/>')
        out.append(f'<text x="{x + 36}" y="{y}">{escape(name)}</text>')
    level += _LINE * rows
    entry = max((len(f"{ring.tag} {ring.name}") for ring in tagged.values()), default=0) * LETTER + 40.0
    rows = _rows(len(tagged), entry, room)
    for place, ring in enumerate(tagged.values()):
        x, y = _LEFT + 14.0 + entry * (place // rows), level + _LINE * (place % rows)
        out.append(SHAPES[ring.shape].format(x=f"{x:g}", y=f"{y - 4:g}", title=""))
        tag = f'<tspan font-weight="bold">{escape(ring.tag)}</tspan>'
        out.append(f'<text x="{x + 14:g}" y="{y:g}">{tag} {escape(ring.name)}</text>')
    return out, level + _LINE * rows - 4.0


def _rows(n: int, entry: float, room: float) -> int:
    """In how many rows entries stand that are `entry` wide."""
    return -(-n // max(int(room / entry), 1))


def _drawn(panel: Panel, strokes: Mapping[str, Stroke], size: Size, corner: tuple[float, float]) -> Iterator[str]:
    """A panel whose upper left corner is given."""
    left, top = corner
    x, y = panel.x, panel.y
    marks = _marks(x, size.steps, size.width - 80.0), _marks(y, size.steps, size.height)
    box = Frame(
        width=left + size.width,
        height=top + size.height,
        left=left + max(_LEFT, 28.0 + _widest(marks[1])),
        right=left + size.width - max(_RIGHT, 2.0 + _widest(marks[0]) / 2),
        top=top + _TOP + (_HEAD if panel.title else 0.0),
        bottom=top + size.height - _BOTTOM,
    )
    across = Axis(x.low, x.high, box.left, box.right, x.log)
    up = Axis(y.low, y.high, box.bottom, box.top, y.log)
    if panel.title:
        yield f'<text x="{box.left}" y="{box.top - 8}" font-weight="bold">{escape(panel.title)}</text>'
    yield from _axes(panel, marks, (across, up), box, left)
    for name, (xs, lows, highs) in panel.bands.items():
        yield from _band(panel, (across, up), (xs, lows, highs), strokes[name])
    for name, (xs, ys) in panel.lines.items():
        inside = (x.low <= xs) & (xs <= x.high) & (y.low <= ys) & (ys <= y.high)
        pairs = zip(xs[inside].tolist(), ys[inside].tolist(), strict=True)
        points = dict.fromkeys(f"{across(a)} {up(b)}" for a, b in pairs)
        if points:
            yield f'<path d="M{"L".join(points)}" fill="none" {strokes[name]}/>'
    yield from _rings(panel, (across, up), box)


def _axes(
    panel: Panel,
    marks: tuple[Mapping[float, str], Mapping[float, str]],
    axes: tuple[Axis, Axis],
    box: Frame,
    left: float,
) -> Iterator[str]:
    """The box, its grid and its titles."""
    across, up = axes
    for value, label in marks[0].items():
        yield f'<path d="M{across(value)} {box.bottom}V{box.top}" stroke="#e4e4e4"/>'
        yield f'<text x="{across(value)}" y="{box.bottom + 17}" text-anchor="middle">{escape(label)}</text>'
    for value, label in marks[1].items():
        yield f'<path d="M{box.left} {up(value)}H{box.right}" stroke="#e4e4e4"/>'
        yield f'<text x="{box.left - 6}" y="{up(value) + 4}" text-anchor="end">{escape(label)}</text>'
    middle, beside = (box.top + box.bottom) / 2, left + 14
    yield f'<path d="M{box.left} {box.top}V{box.bottom}H{box.right}" fill="none" stroke="#444"/>'
    centre = (box.left + box.right) / 2
    yield f'<text x="{centre}" y="{box.bottom + 36}" text-anchor="middle">{escape(panel.x.title)}</text>'
    turned = f'transform="rotate(-90 {beside:g} {middle})"'
    yield f'<text x="{beside:g}" y="{middle}" text-anchor="middle" {turned}>{escape(panel.y.title)}</text>'


def _band(
    panel: Panel, axes: tuple[Axis, Axis], band: tuple[FloatArray, FloatArray, FloatArray], stroke: Stroke
) -> Iterator[str]:
    """What is tinted between two lines; what is above or below the axes ends at them."""
    across, up = axes
    xs, lows, highs = (part[(panel.x.low <= band[0]) & (band[0] <= panel.x.high)].tolist() for part in band)
    if xs:
        there = [f"{across(a)} {up(b)}" for a, b in zip(xs, highs, strict=True)]
        back = [f"{across(a)} {up(b)}" for a, b in zip(reversed(xs), reversed(lows), strict=True)]
        colour = COLOURS[stroke.colour % len(COLOURS)]
        yield f'<path d="M{"L".join([*there, *back])}z" fill="{colour}" fill-opacity="{stroke.tint:g}"/>'


def _rings(panel: Panel, axes: tuple[Axis, Axis], box: Frame) -> Iterator[str]:
    """Points that stand out, and their tags: one label where several stand at one place."""
    across, up = axes
    tags: dict[Box, list[str]] = {}
    for ring in panel.rings:
        x, y = across(ring.x), up(ring.y)
        yield SHAPES[ring.shape].format(x=x, y=y, title=f"<title>{escape(ring.title)}</title>")
        at = tags.setdefault((x, y, x, y), [])
        if ring.tag:
            at.append(ring.tag + ring.arrow)
    spots = [
        Spot(
            x=at[0],
            y=at[1],
            text=",".join(names),
            reach=at,
            boxes=[(at[0] - _MARK, at[1] - _MARK, at[0] + _MARK, at[1] + _MARK)],
        )
        for at, names in tags.items()
    ]
    title = (box.left, box.top - 20.0, box.left + LETTER * len(panel.title), box.top - 6.0)
    for spot, label in zip(spots, placed(spots, box, beside=[title]), strict=True):
        if spot.text:
            if label.led:
                end = f"{label.x:g} {label.y - (11 if label.y > spot.y else -3):g}"
                yield f'<path d="M{spot.x:g} {spot.y:g}L{end}" stroke="#888" stroke-width="0.8"/>'
            yield (
                f'<text x="{label.x:g}" y="{label.y:g}" text-anchor="{label.anchor}" font-weight="bold" stroke="#fff" '
                f'stroke-width="3" stroke-linejoin="round" paint-order="stroke">{escape(spot.text)}</text>'
            )


def _label(value: float) -> str:
    return f"{value:,.10g}"


def _widest(marks: Mapping[float, str]) -> float:
    """The width of the widest label of an axis."""
    return max((LETTER * len(label) for label in marks.values()), default=0.0)


def _marks(scale: Scale, steps: int, room: float) -> dict[float, str]:
    """Round values along an axis with their labels, or names where the values stand for some."""
    if scale.names:
        most = max(int(room / len(scale.names) / LETTER) - 1, 3)
        cut = (name if len(name) <= most else f"{name[: most - 1]}\u2026" for name in scale.names)
        return {float(place): name for place, name in enumerate(cut)}
    if scale.log:
        widest = LETTER * len(_label(round(scale.high, 1 if scale.high < 10 else 0))) + 14.0
        values = log_ticks(scale.low, scale.high, room=max(int(room / widest), 2))[2]
        return {value: _label(value) for value in values if scale.low <= value <= scale.high}
    step = nice_step((scale.high - scale.low) / steps)
    first = round(scale.low / step + 0.499999)
    count = int((scale.high - first * step) / step + 1e-9) + 1
    return {value: _label(value) for value in (round((first + k) * step, 10) for k in range(count))}
