"""Values over two parameters as one SVG file: tables of tinted cells, each with its number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import ParameterError
from ctxbench.reporting.axes import LETTER

_ROW, _NARROW = 24.0, 30.0  # of cells
_HEAD, _FOOT, _GAP = 34.0, 74.0, 26.0
_SMALL = 0.92  # the letters of cells, as a share of all others
_INK, _PAPER = "#1c1f23", "#fff"
_PALE, _DEEP = (239, 245, 251), (11, 61, 110)  # ends of the scale: one hue, from light to dark
_SWATCHES = 5
_EQUAL = 0.2086  # the luminance at which ink and paper have the same contrast


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """One table of cells.

    Attributes:
        title: above it: what the numbers are, with their unit.
        x, y: what goes along it and up it.
        xs, ys: the values of both, as they are shown.
        values: shape (len(ys), len(xs)); NaN = none, and the cell stays empty.
        told: how a value is shown.
        chosen: column and row of the cell that stands out, or None.
        pale: from which value on tints part; lower ones are as pale. None = the lowest.
    """

    title: str
    x: str
    y: str
    xs: Sequence[str]
    ys: Sequence[str]
    values: FloatArray
    told: Callable[[float], str]
    chosen: tuple[int, int] | None = None
    pale: float | None = None


def heat_maps(maps: Sequence[HeatMap], *, columns: int) -> str:
    """Draw tables of cells in rows of `columns`. The first y stands at the foot, as on an axis.

    Each cell has its number; its tint goes from the lowest (pale) to the highest value (dark) of its table, by
    lightness, so that it says the same without colours. The cell that is chosen has a frame and a bold number.

    Raises:
        ParameterError: there is no table, or one whose values have another shape than its axes.
    """
    if not maps or any(one.values.shape != (len(one.ys), len(one.xs)) for one in maps):
        raise ParameterError("heat maps need at least one table, with as many rows as ys and as many columns as xs")
    cell = max(map(_cell, maps))
    wide = max(_width(one, cell) for one in maps)
    high = max(max(_HEAD + _ROW * len(one.ys) + _FOOT, LETTER * len(one.y) + 12.0) for one in maps)
    width = wide * min(columns, len(maps)) + _GAP * (min(columns, len(maps)) - 1)
    height = high * -(-len(maps) // columns)
    box = f'viewBox="0 0 {width:g} {height:g}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="12" role="img">',
        f'<rect width="{width:g}" height="{height:g}" fill="{_PAPER}"/>',
    ]
    for place, one in enumerate(maps):
        row, column = divmod(place, columns)
        out += _drawn(one, cell, (wide + _GAP) * column, high * row)
    return "\n".join([*out, "</svg>", ""])


def _margin(one: HeatMap) -> float:
    """What the labels of the rows take, and the title beside them."""
    return 30.0 + LETTER * max((len(label) for label in one.ys), default=0)


def _cell(one: HeatMap) -> float:
    """The width of a cell: what its numbers and the labels below it need."""
    numbers = max((len(one.told(value)) for value in one.values.flat if not math.isnan(value)), default=0) * _SMALL
    return max(_NARROW, 8.0 + LETTER * max(numbers, max((len(label) for label in one.xs), default=0)))


def _width(one: HeatMap, cell: float) -> float:
    cells = max(cell * len(one.xs), LETTER * max(len(one.title), len(one.x)), 260.0)
    return _margin(one) + cells + 4.0


def _drawn(one: HeatMap, cell: float, left: float, top: float) -> Iterator[str]:
    """A table whose cells are `cell` wide and whose upper left corner stands at `left` and `top`."""
    margin = left + _margin(one)
    foot = top + _HEAD + _ROW * len(one.ys)
    yield f'<text x="{margin:g}" y="{top + 20:g}" font-weight="bold">{escape(one.title)}</text>'
    known = [float(value) for value in one.values.flat if not math.isnan(value)]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    low = low if one.pale is None else max(low, one.pale)
    for row, label in enumerate(one.ys):
        yield f'<text x="{margin - 6:g}" y="{foot - _ROW * row - 8:g}" text-anchor="end">{escape(label)}</text>'
    yield from _cells(one, margin, foot, (cell, low, high))
    yield from _frame(one, margin, foot, cell)
    for column, label in enumerate(one.xs):
        x = margin + cell * (column + 0.5)
        yield f'<text x="{x:g}" y="{foot + 16:g}" text-anchor="middle">{escape(label)}</text>'
    centre = margin + cell * len(one.xs) / 2
    middle = max(foot - _ROW * len(one.ys) / 2, top + LETTER * len(one.y) / 2 + 6.0)
    yield f'<text x="{centre:g}" y="{foot + 34:g}" text-anchor="middle">{escape(one.x)}</text>'
    turned = f'transform="rotate(-90 {left + 14:g} {middle:g})"'
    yield f'<text x="{left + 14:g}" y="{middle:g}" text-anchor="middle" {turned}>{escape(one.y)}</text>'
    if known:
        yield from _scale(one, margin, foot + 46.0, (low, high), below=min(known) < low)


def _cells(one: HeatMap, margin: float, foot: float, scale: tuple[float, float, float]) -> Iterator[str]:
    """All cells, those of one tint as one shape, which keeps the file small; and their numbers."""
    cell, low, high = scale
    shapes: dict[str, list[str]] = {}
    numbers: dict[str, list[str]] = {_INK: [], _PAPER: []}
    for row, column in np.argwhere(~np.isnan(one.values)).tolist():
        value, x, y = float(one.values[row, column]), margin + cell * column, foot - _ROW * (row + 1)
        fill, ink = _tint(_share(value, low, high))
        shapes.setdefault(fill, []).append(f"M{x:g} {y:g}h{cell - 1:g}v{_ROW - 1:g}h{1 - cell:g}z")
        bold = ' font-weight="bold"' if one.chosen == (column, row) else ""
        at = f'x="{x + cell / 2:g}" y="{y + 16:g}"'
        numbers[ink].append(f"<text {at}{bold}>{escape(one.told(value))}</text>")
    for fill, parts in shapes.items():
        yield f'<path fill="{fill}" d="{"".join(parts)}"/>'
    for ink, parts in numbers.items():
        if parts:
            yield f'<g text-anchor="middle" font-size="11" fill="{ink}">{"".join(parts)}</g>'


def _frame(one: HeatMap, margin: float, foot: float, cell: float) -> Iterator[str]:
    """Around the cell that is chosen: dark outside, light inside, so that it stands out on every tint."""
    if one.chosen is None:
        return
    column, row = one.chosen
    x, y = margin + cell * column, foot - _ROW * (row + 1)
    for far, colour, stroke in ((0.0, "#c2571a", 3.0), (2.0, "#fff", 1.0)):
        size = f'width="{cell - 1 - 2 * far:g}" height="{_ROW - 1 - 2 * far:g}"'
        yield f'<rect x="{x + far:g}" y="{y + far:g}" {size} fill="none" stroke="{colour}" stroke-width="{stroke:g}"/>'


def _scale(one: HeatMap, x: float, y: float, ends: tuple[float, float], *, below: bool) -> Iterator[str]:
    """The tints with the values at both ends, whether there are lower ones, and what the frame means."""
    low, high = ends
    first = f"up to {one.told(low)}" if below else one.told(low)
    yield f'<text x="{x:g}" y="{y + 11:g}">{escape(first)}</text>'
    x += LETTER * len(first) + 6.0
    for place in range(_SWATCHES):
        fill, _ = _tint(_share(low + (high - low) * place / (_SWATCHES - 1), low, high))
        yield f'<rect x="{x:g}" y="{y:g}" width="18" height="13" fill="{fill}"/>'
        x += 18.0
    yield f'<text x="{x + 6:g}" y="{y + 11:g}">{escape(one.told(high))}</text>'
    if one.chosen is not None:
        x += LETTER * len(one.told(high)) + 24.0
        size = 'width="18" height="13" fill="none" stroke="#c2571a" stroke-width="3"'
        yield f'<rect x="{x:g}" y="{y:g}" {size}/>'
        yield f'<text x="{x + 26:g}" y="{y + 11:g}">chosen</text>'


def _share(value: float, low: float, high: float) -> float:
    return min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.5


def _tint(share: float) -> tuple[str, str]:
    """The colour of a cell, and that of the letters in it: whichever of dark and light has more contrast."""
    colour = [round(a + (b - a) * share) for a, b in zip(_PALE, _DEEP, strict=True)]
    parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    light = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]  # relative luminance, as in WCAG 2
    return f"#{colour[0]:02x}{colour[1]:02x}{colour[2]:02x}", _INK if light > _EQUAL else _PAPER
