"""Lines over two axes as one SVG file, alone or as small multiples: trade-offs in reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from ctxbench.arrays import FloatArray
from ctxbench.errors import ParameterError
from ctxbench.reporting.axes import LETTER, Axis, Frame, nice_step

_COLOURS = ("#1f5fa8", "#c2571a", "#3d7f3a", "#7a4a9c", "#666666")
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 18.0, 16.0, 40.0  # margins around the box of the axes, at least
_HEAD = 18.0  # a title above the box
_LINE = 19.0  # of the legend


@dataclass(frozen=True, slots=True)
class Scale:
    """What an axis shows, and from where to where."""

    title: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Ring:
    """A point that stands out, and what it is."""

    title: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of several: lines by name, each as (xs, ys) in the order in which they are joined."""

    title: str
    lines: Mapping[str, tuple[FloatArray, FloatArray]]
    x: Scale
    y: Scale
    rings: Sequence[Ring] = ()


@dataclass(frozen=True, slots=True)
class _Size:
    """Of a panel, without the legend, and how many steps its axes are divided into at most."""

    width: float
    height: float
    steps: int


_ALONE, _SMALL = _Size(640.0, 356.0, 8), _Size(330.0, 250.0, 4)


def line_chart(
    lines: Mapping[str, tuple[FloatArray, FloatArray]], *, x: Scale, y: Scale, rings: Sequence[Ring] = ()
) -> str:
    """Draw lines by name, each as (xs, ys) in the order in which they are joined, with a legend below.

    Points outside the axes are left out; points that fall on each other are drawn once.
    """
    return _svg([Panel("", lines, x, y, rings)], 1, _ALONE)


def line_charts(panels: Sequence[Panel], *, columns: int) -> str:
    """Draw charts as `line_chart` does, smaller, in rows of `columns`, with one legend for all below.

    Raises:
        ParameterError: there is no panel, or the lines of two have other names or another order.
    """
    if not panels or any(list(panel.lines) != list(panels[0].lines) for panel in panels):
        raise ParameterError("line charts beside each other must be at least one, with lines of the same names in all")
    return _svg(panels, columns, _SMALL)


def _svg(panels: Sequence[Panel], columns: int, size: _Size) -> str:
    """Panels in rows, and the legend."""
    foot, names = size.height * -(-len(panels) // columns), list(panels[0].lines)
    width, height = size.width * min(columns, len(panels)), foot + 12.0 + _LINE * len(names)
    box = f'viewBox="0 0 {width:g} {height:g}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="12" role="img">',
        f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
    ]
    for place, panel in enumerate(panels):
        row, column = divmod(place, columns)
        out += _drawn(panel, size, left=size.width * column, top=size.height * row)
    for place, name in enumerate(names):
        level = foot + 16.0 + _LINE * place
        out.append(f'<path d="M{_LEFT} {level - 4}h28" {_stroke(place)}/>')
        out.append(f'<text x="{_LEFT + 36}" y="{level}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>", ""])


def _drawn(panel: Panel, size: _Size, *, left: float, top: float) -> Iterator[str]:
    """A panel whose upper left corner stands at `left` and `top`."""
    x, y = panel.x, panel.y
    x_marks, y_marks = _marks(x, size.steps), _marks(y, size.steps)
    box = Frame(
        width=size.width,
        height=size.height,
        left=left + max(_LEFT, 28.0 + _widest(y_marks)),
        right=left + size.width - max(_RIGHT, 2.0 + _widest(x_marks) / 2),
        top=top + _TOP + (_HEAD if panel.title else 0.0),
        bottom=top + size.height - _BOTTOM,
    )
    across, up = Axis(x.low, x.high, box.left, box.right), Axis(y.low, y.high, box.bottom, box.top)
    if panel.title:
        yield f'<text x="{box.left}" y="{box.top - 8}" font-weight="bold">{escape(panel.title)}</text>'
    for value in x_marks:
        yield f'<path d="M{across(value)} {box.bottom}V{box.top}" stroke="#e4e4e4"/>'
        yield f'<text x="{across(value)}" y="{box.bottom + 17}" text-anchor="middle">{_label(value)}</text>'
    for value in y_marks:
        yield f'<path d="M{box.left} {up(value)}H{box.right}" stroke="#e4e4e4"/>'
        yield f'<text x="{box.left - 6}" y="{up(value) + 4}" text-anchor="end">{_label(value)}</text>'
    middle, beside = (box.top + box.bottom) / 2, left + 14
    yield f'<path d="M{box.left} {box.top}V{box.bottom}H{box.right}" fill="none" stroke="#444"/>'
    centre = (box.left + box.right) / 2
    yield f'<text x="{centre}" y="{box.bottom + 36}" text-anchor="middle">{escape(x.title)}</text>'
    turned = f'transform="rotate(-90 {beside:g} {middle})"'
    yield f'<text x="{beside:g}" y="{middle}" text-anchor="middle" {turned}>{escape(y.title)}</text>'
    for place, (xs, ys) in enumerate(panel.lines.values()):
        inside = (x.low <= xs) & (xs <= x.high) & (y.low <= ys) & (ys <= y.high)
        pairs = zip(xs[inside].tolist(), ys[inside].tolist(), strict=True)
        points = dict.fromkeys(f"{across(a)} {up(b)}" for a, b in pairs)
        if points:
            yield f'<path d="M{"L".join(points)}" fill="none" {_stroke(place)}/>'
    for ring in panel.rings:
        title = f"<title>{escape(ring.title)}</title>"
        shape = 'r="5" fill="none" stroke="#222" stroke-width="1.5"'
        yield f'<circle cx="{across(ring.x)}" cy="{up(ring.y)}" {shape}>{title}</circle>'


def _stroke(place: int) -> str:
    """How the line at a place is drawn."""
    return f'stroke="{_COLOURS[place % len(_COLOURS)]}" stroke-width="2"'


def _label(value: float) -> str:
    return f"{value:,.10g}"


def _widest(marks: Sequence[float]) -> float:
    """The width of the widest label of an axis."""
    return max((LETTER * len(_label(value)) for value in marks), default=0.0)


def _marks(scale: Scale, steps: int) -> list[float]:
    """Round values along an axis."""
    step = nice_step((scale.high - scale.low) / steps)
    first = round(scale.low / step + 0.499999)
    count = int((scale.high - first * step) / step + 1e-9) + 1
    return [round((first + k) * step, 10) for k in range(count)]
