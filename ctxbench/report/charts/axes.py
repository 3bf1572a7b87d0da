"""Colours, tick marks and number formats of axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ctxbench.report import wording

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    return f"{100 * value:.6g}".replace("-", wording.MINUS)


def points_of_percent(value: float, _position: int | None = None) -> str:
    """A difference of shares in points."""
    return signed(100 * value)


def signed(value: float, _position: int | None = None) -> str:
    """A difference with its sign; 0 has none."""
    text = f"{value:+,.6g}"
    return "0" if not any(digit in text for digit in "123456789") else text.replace("-", wording.MINUS)


def compact(value: float) -> str:
    """An amount in at most five letters: `812`, `1.24k`, `12.4k`, `3.1M`."""
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor * 0.9995:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"
