"""Values over two parameters as a table of tinted cells, each with its number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import ParameterError
from ctxbench.report import wording
from ctxbench.report.charts.axes import COLOURS, paper, size
from ctxbench.report.charts.svg import TOOLTIP, axes_at, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW, _HEAD, _FOOT, _GAP = 24.0, 34.0, 52.0, 26.0  # pixels
_LETTER = 7.2
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
    cell = max(30.0, 10.0 + _LETTER * max(letters))
    margin = 36.0 + _LETTER * max(len(text) for chart in maps for text in chart.ys)
    wide = (
        max(margin + max(cell * len(chart.xs), _LETTER * max(len(chart.title), len(chart.x)), 200.0) for chart in maps)
        + _GAP
    )
    high = max(_HEAD + max(_ROW * len(chart.ys), _LETTER * len(chart.y)) + _FOOT for chart in maps)

    def draw(figure: Figure) -> None:
        for index, chart in enumerate(maps):
            row, column = divmod(index, columns)
            left, top = wide * column + margin, high * row + _HEAD
            heat_map(axes_at(figure, left, top, cell * len(chart.xs), _ROW * len(chart.ys)), chart)

    shape = {"width": wide * min(columns, len(maps)), "height": high * -(-len(maps) // columns)}
    return svg(
        draw,
        name=name,
        label=", ".join(dict.fromkeys(f"{chart.title}: {chart.y} over {chart.x}" for chart in maps)),
        **shape,
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
    ends: dict[str, Any] = {
        "vmin": min(values, default=0.0) if chart.pale is None else chart.pale,
        "vmax": max(values, default=1.0),
    }
    mesh = ax.pcolormesh(np.ma.masked_invalid(chart.values), cmap="Blues", edgecolors=paper(ax), linewidth=0.8, **ends)
    wide, high = size(ax)[0] / columns, size(ax)[1] / rows
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    turned = turned if max(map(len, chart.xs), default=0) * 6.0 > wide else {}
    ax.set_xticks(np.arange(columns) + 0.5, list(map(wording.named, chart.xs)), parse_math=False, **turned)
    ax.set_yticks(np.arange(rows) + 0.5, list(map(wording.named, chart.ys)), parse_math=False)
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.set_xlabel(wording.named(chart.x), parse_math=False)
    ax.set_ylabel(wording.named(chart.y), parse_math=False)
    ax.set_title(wording.named(chart.title), loc="left", fontweight="bold", parse_math=False)
    font = min(0.5 * high, wide / (0.65 * max(map(len, map(chart.format_value, values)), default=1)), 11.0)
    for row, column in np.argwhere(~np.isnan(chart.values)).tolist() if font >= _LEAST else ():
        _number(ax, chart, (column, row), font, mesh.to_rgba(chart.values[row, column]))
    style: dict[str, Any] = {"fill": False, "zorder": 3, "clip_on": False}
    for colour, width in ((COLOURS[1], 3.0), (_LIGHT, 1.0)) if chart.chosen else ():
        ax.add_patch(Rectangle(chart.chosen or (0, 0), 1, 1, edgecolor=colour, linewidth=width, **style))
    return mesh


def _number(ax: Axes, chart: HeatMap, at: tuple[int, int], font: float, tint: Any) -> None:
    """The number of a cell, in whichever of dark and light letters has more contrast with its tint."""
    column, row = at
    text = chart.format_value(float(chart.values[row, column]))
    if not text:
        return
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in tint[:3]]
    light = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]  # relative luminance, as in WCAG 2
    style: dict[str, Any] = {
        "color": _DARK if light > _EQUAL else _LIGHT,
        "fontweight": "bold" if chart.chosen == at else "normal",
    }
    tooltip = wording.named(f"{chart.x} {chart.xs[column]}, {chart.y} {chart.ys[row]}: {text}")
    ax.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=font, gid=TOOLTIP + tooltip, **style)
