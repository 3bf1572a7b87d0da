"""Lines over two axes as one SVG file: trade-offs in reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from ctxbench.arrays import FloatArray
from ctxbench.reporting.axes import Axis, nice_step

_COLOURS = ("#1f5fa8", "#c2571a", "#3d7f3a", "#7a4a9c", "#666666")
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 58.0, 622.0, 16.0, 316.0
_LINE = 19.0


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


def line_chart(
    lines: Mapping[str, tuple[FloatArray, FloatArray]], *, x: Scale, y: Scale, rings: Sequence[Ring] = ()
) -> str:
    """Draw lines by name, each as (xs, ys) in the order in which they are joined, with a legend below.

    Points outside the axes are left out; points that fall on each other are drawn once.
    """
    across, up = Axis(x.low, x.high, _LEFT, _RIGHT), Axis(y.low, y.high, _BOTTOM, _TOP)
    height = _BOTTOM + 52.0 + _LINE * len(lines)
    box = f'viewBox="0 0 {_WIDTH} {height:g}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="12" role="img">',
        f'<rect width="{_WIDTH}" height="{height:g}" fill="#fff"/>',
    ]
    for value in _marks(x):
        out.append(f'<path d="M{across(value)} {_BOTTOM}V{_TOP}" stroke="#e4e4e4"/>')
        out.append(f'<text x="{across(value)}" y="{_BOTTOM + 17}" text-anchor="middle">{value:g}</text>')
    for value in _marks(y):
        out.append(f'<path d="M{_LEFT} {up(value)}H{_RIGHT}" stroke="#e4e4e4"/>')
        out.append(f'<text x="{_LEFT - 6}" y="{up(value) + 4}" text-anchor="end">{value:g}</text>')
    middle = (_TOP + _BOTTOM) / 2
    out.append(f'<path d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}" fill="none" stroke="#444"/>')
    out.append(f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_BOTTOM + 36}" text-anchor="middle">{escape(x.title)}</text>')
    turned = f'transform="rotate(-90 14 {middle})"'
    out.append(f'<text x="14" y="{middle}" text-anchor="middle" {turned}>{escape(y.title)}</text>')
    for place, (name, (xs, ys)) in enumerate(lines.items()):
        stroke = f'stroke="{_COLOURS[place % len(_COLOURS)]}" stroke-width="2"'
        inside = (x.low <= xs) & (xs <= x.high) & (y.low <= ys) & (ys <= y.high)
        pairs = zip(xs[inside].tolist(), ys[inside].tolist(), strict=True)
        points = dict.fromkeys(f"{across(a)} {up(b)}" for a, b in pairs)
        if points:
            out.append(f'<path d="M{"L".join(points)}" fill="none" {stroke}/>')
        level = _BOTTOM + 56.0 + _LINE * place
        out.append(f'<path d="M{_LEFT} {level - 4}h28" {stroke}/>')
        out.append(f'<text x="{_LEFT + 36}" y="{level}">{escape(name)}</text>')
    for ring in rings:
        title = f"<title>{escape(ring.title)}</title>"
        shape = 'r="5" fill="none" stroke="#222" stroke-width="1.5"'
        out.append(f'<circle cx="{across(ring.x)}" cy="{up(ring.y)}" {shape}>{title}</circle>')
    return "\n".join([*out, "</svg>", ""])


def _marks(scale: Scale) -> list[float]:
    """Round values along an axis."""
    step = nice_step((scale.high - scale.low) / 8)
    first = round(scale.low / step + 0.499999)
    count = int((scale.high - first * step) / step + 1e-9) + 1
    return [round((first + k) * step, 10) for k in range(count)]
