"""Charts by matplotlib: each function draws plain data on the axes that it is given. Nothing is computed here.

What is drawn takes its ink from the axes, so that a dark one stays readable, and its colours from a cycle that the
colour-blind tell apart. No style is changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ctxbench.bench.metrics import Metric
from ctxbench.bench.stats import Comparison, Estimate, Interval
from ctxbench.library.confusion import Confusion
from ctxbench.reporting import wording
from ctxbench.reporting.axes import Frame
from ctxbench.reporting.placing import Box, Spot, placed
from ctxbench.reporting.scores import ScoreGroup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

    _Named: TypeAlias = tuple[Annotation, tuple[Estimate, Estimate]]

_Point: TypeAlias = tuple[float, float]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Of Okabe and Ito, those that can be read on white and on black."""
FRONT = "Pareto front"  # the label of its line
_REQUIRED, _OTHER, _IDLE = COLOURS[0], COLOURS[4], COLOURS[3]
_LOG_FROM = 20.0  # a larger spread of an amount needs a logarithmic axis
_MARK = 7.0  # points
_FONT = 12.0  # the size of letters in the units that labels are placed in
_LOOSE = "dotted: too few queries to rely on the interval"


def trade_off(
    ax: Axes,
    points: Mapping[str, tuple[Estimate, Estimate]],
    *,
    x: Metric,
    y: Metric,
    base: str,
    colours: Mapping[str, str],
) -> None:
    """Draw a mark a selector, with its intervals, its name beside it, and the Pareto front behind.

    Args:
        ax: where.
        points: by selector, its means on both metrics; one without a mean is left out.
        x, y: the metrics.
        base: the selector whose mark is a square.
        colours: by selector.
    """
    drawn = {name: pair for name, pair in points.items() if all(math.isfinite(one.value) for one in pair)}
    ink = _ink(ax)
    log = [_log(axis, metric, values) for axis, metric, values in _sides(ax, drawn, x, y)]
    front = _front([(one.value, other.value) for one, other in drawn.values()], x, y)
    lower = x.declaration.better == "lower"
    if len(front) > 1:
        # A step says what a budget buys: between two marks nothing better is known than the cheaper one.
        steps: Any = "steps-post" if lower else "steps-pre"
        ax.plot(*zip(*front, strict=True), drawstyle=steps, color=ink, alpha=0.45, linewidth=0.8, zorder=1, label=FRONT)
    named = []
    for name, (across, up) in drawn.items():
        colour = colours[name]
        _whisker(ax, across.interval, up.value, colour, f"_{x} of {name}", upright=False)
        _whisker(ax, up.interval, across.value, colour, f"_{y} of {name}", upright=True)
        marker = "s" if name == base else "o"
        style: dict[str, Any] = {
            "linestyle": "none",
            "markersize": _MARK,
            "markeredgecolor": ax.get_facecolor(),
            "zorder": 3,
        }
        ax.plot([across.value], [up.value], marker=marker, color=colour, label=name, **style)
        text = wording.named(name) + (" (baseline)" if name == base and len(drawn) > 1 else "")
        named.append((_named(ax, (across.value, up.value), text), (across, up)))
    ax.margins(0.15, 0.1)  # room for names
    corners = [(b[0], a[1]) if lower else (a[0], b[1]) for a, b in pairwise(front)]
    _place_when_drawn(ax, named, [*zip(front, corners, strict=False), *zip(corners, front[1:], strict=True)])
    loose = any(not one.interval.holds for pair in drawn.values() for one in pair)
    ax.set_xlabel(_axis_title(x) + (", logarithmic" if log[0] else "") + (f"\n{_LOOSE}" if loose else ""))
    ax.set_ylabel(_axis_title(y) + (", logarithmic" if log[1] else ""))


def differences(
    ax: Axes, found: Mapping[str, Comparison], *, metric: Metric, base: str, colours: Mapping[str, str]
) -> None:
    """Draw the difference of each selector from one with its interval, the first on top.

    Args:
        ax: where.
        found: by selector, corrected for each other.
        metric: which.
        base: from what they differ.
        colours: by selector.
    """
    from matplotlib.ticker import FuncFormatter

    ax.axvline(0.0, color=_ink(ax), linewidth=0.8, zorder=1)
    for place, (name, one) in enumerate(found.items()):
        _whisker(ax, one.interval, place, colours[name], f"_{metric} of {name}", upright=False)
        fill = colours[name] if one.distinguishable else _paper(ax)
        style: dict[str, Any] = {
            "linestyle": "none",
            "markersize": _MARK,
            "markerfacecolor": fill,
            "markeredgewidth": 1.5,
            "zorder": 3,
        }
        ax.plot([one.difference], [place], marker="o", color=colours[name], label=name, **style)
    ax.set_ylim(len(found) - 0.5, -0.5)
    ax.set_yticks(range(len(found)), [wording.named(name) for name in found])
    ax.tick_params(axis="y", length=0)
    for place, one in enumerate(found.values()):
        counts = f"{one.higher:,} higher\n{one.lower:,} lower"
        beside = ax.get_yaxis_transform()
        ax.text(1.02, place, counts, transform=beside, va="center", fontsize="small", color=_ink(ax))
    for text in ax.get_yticklabels():
        text.set_parse_math(False)
    percent = wording.unit(metric) == "%"
    ax.xaxis.set_major_formatter(FuncFormatter(_points if percent else _signed))
    ax.margins(x=0.1)
    unit = wording.points(metric)
    of = "" if not unit or unit == str(metric) else f", {unit}"
    told = {one.distinguishable for one in found.values()}
    notes = [f"difference in {metric}{of}", f"from {wording.named(base)}"]
    notes += ["hollow: cannot be told apart from 0"] if False in told else []
    notes += [_LOOSE] if any(not one.interval.holds for one in found.values()) else []
    ax.set_xlabel("\n".join(notes), parse_math=False)


def scores(ax: Axes, group: ScoreGroup) -> None:
    """Draw histograms of scores: what is needed stands up, the best of the rest hangs down; thresholds are lines.

    Args:
        ax: where.
        group: counts by bin, and thresholds.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    left, wide = group.edges[:-1], np.diff(group.edges)
    style: dict[str, Any] = {"width": wide, "align": "edge", "edgecolor": ax.get_facecolor(), "linewidth": 0.3}
    other, idle = np.array(group.other), np.array(group.idle)
    ax.bar(left, group.required, color=_REQUIRED, label="required items", **style)
    ax.bar(left, -other, color=_OTHER, label="best other item of a query", **style)
    if idle.any():
        label = "best item of a query that needs nothing"
        ax.bar(left, -idle, bottom=-other, color=_IDLE, label=label, **style)
    ax.axhline(0.0, color=_ink(ax), linewidth=0.8)
    ax.set_xlim(float(group.edges[0]), float(group.edges[-1]))
    ax.set_xlabel(group.title or "score")
    ax.set_ylabel("how many")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(_size))
    _thresholds(ax, group)


def shares(ax: Axes, table: Confusion) -> None:
    """Draw a heat map of shares, each row of which is 100 %; a row without any stays empty.

    Args:
        ax: where.
        table: what is drawn.
    """
    values = table.shares
    rows, columns = values.shape
    top = float(np.nanmax(values, initial=0.0)) or 1.0
    mesh = ax.pcolormesh(
        np.arange(columns + 1), np.arange(rows + 1), np.ma.masked_invalid(values), cmap="Blues", vmin=0.0, vmax=top
    )
    ax.set_ylim(rows, 0)
    ax.set_xticks(np.arange(columns) + 0.5, [wording.named(name) for name in table.extras])
    ax.set_yticks(
        np.arange(rows) + 0.5,
        [f"{wording.named(name)} ({n:,})" for name, n in zip(table.needed, table.queries, strict=True)],
    )
    ax.tick_params(length=0)
    for text in ax.get_xticklabels():
        text.set(rotation=45, ha="right", rotation_mode="anchor", parse_math=False)
    for text in ax.get_yticklabels():
        text.set_parse_math(False)
    ax.set_xlabel(f"{table.by} of what else was offered, % of the row")
    ax.set_ylabel(f"{table.by} of what is needed (queries)")
    size = _cell_font(ax, rows, columns)
    for row, column in np.argwhere(values > 0).tolist():
        share = float(values[row, column])
        red, green, blue, _ = mesh.cmap(share / top)
        colour = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
        number = f"{100 * share:.0f}" if share >= 0.005 else "<1"
        ax.text(column + 0.5, row + 0.5, number, ha="center", va="center", color=colour, fontsize=size)


def _sides(
    ax: Axes, points: Mapping[str, tuple[Estimate, Estimate]], x: Metric, y: Metric
) -> tuple[tuple[Any, Metric, list[float]], ...]:
    """Both axes, with the metric of each and its means."""
    across, up = ([pair[side].value for pair in points.values()] for side in (0, 1))
    return (ax.xaxis, x, across), (ax.yaxis, y, up)


def _log(axis: Any, metric: Metric, values: Sequence[float]) -> bool:
    """Give an axis its scale and numbers; whether it is logarithmic."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if wording.unit(metric) == "%":
        axis.set_major_formatter(FuncFormatter(_percent))
        return False
    log = bool(values) and min(values) > 0 and max(values) / min(values) > _LOG_FROM
    if log:
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        few = max(values) / min(values) < 1000
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(_amount))
    return log


def _axis_title(metric: Metric) -> str:
    unit = wording.unit(metric)
    return f"{metric}, %" if unit == "%" else f"{metric} a query" if unit else str(metric)


def _percent(value: float, _place: int | None = None) -> str:
    return f"{100 * value:.6g}".replace("-", wording.MINUS)


def _points(value: float, _place: int | None = None) -> str:
    return _signed(100 * value)


def _signed(value: float, _place: int | None = None) -> str:
    text = f"{value:+,.6g}"
    return "0" if not any(digit in text for digit in "123456789") else text.replace("-", wording.MINUS)


def _amount(value: float, _place: int | None = None) -> str:
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}").replace("-", wording.MINUS)


def _size(value: float, _place: int | None = None) -> str:
    return f"{abs(value):,.0f}"


def _ink(ax: Axes) -> Any:
    """What letters of the axes are drawn with."""
    return ax.xaxis.label.get_color()


def _paper(ax: Axes) -> Any:
    """What the axes are drawn on: their own colour, or the figure's where they have none."""
    own: Any = ax.get_facecolor()
    return own if own[3] else _figure(ax).get_facecolor()


def _figure(ax: Axes) -> Any:
    return ax.get_figure(root=True)


def _whisker(ax: Axes, interval: Interval, at: float, colour: str, label: str, *, upright: bool) -> None:
    """An interval as a line; none where an end is infinite, and dotted where it does not hold."""
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        return
    ends, place = [interval.low, interval.high], [at, at]
    style: dict[str, Any] = {
        "color": colour,
        "linewidth": 1.4,
        "linestyle": "-" if interval.holds else ":",
        "zorder": 2,
    }
    ax.plot(*((place, ends) if upright else (ends, place)), label=label, solid_capstyle="butt", **style)


def _front(points: Sequence[tuple[float, float]], x: Metric, y: Metric) -> list[tuple[float, float]]:
    """The points that no other one is at least as good as on both, and better on one; from left to right."""
    sign = [1.0 if metric.declaration.better == "higher" else -1.0 for metric in (x, y)]
    worth = [(sign[0] * one, sign[1] * other) for one, other in points]
    beaten = [any(b != a and b[0] >= a[0] and b[1] >= a[1] for b in worth) for a in worth]
    return sorted({point for point, out in zip(points, beaten, strict=True) if not out})


def _named(ax: Axes, at: tuple[float, float], text: str) -> Annotation:
    """A label, not yet in its place, with a thin line to what it labels."""
    from matplotlib.patheffects import withStroke

    line: dict[str, Any] = {
        "arrowstyle": "-",
        "linewidth": 0.6,
        "color": _ink(ax),
        "alpha": 0.6,
        "shrinkA": 1.0,
        "shrinkB": 4.0,
    }
    label = ax.annotate(
        text, at, xytext=(8.0, 0.0), textcoords="offset points", fontsize="small", color=_ink(ax), arrowprops=line
    )
    label.set(parse_math=False, zorder=4, in_layout=False)
    label.set_path_effects([withStroke(linewidth=2.0, foreground=_paper(ax))])
    return label


def _place_when_drawn(ax: Axes, named: Sequence[_Named], lines: Sequence[tuple[_Point, _Point]]) -> None:
    """Have labels placed whenever the axes are drawn, when all sizes are known; they stay inside.

    Args:
        ax: where.
        named: labels, each with the means and intervals of its point.
        lines: what labels avoid beside marks and intervals: ends of lines that go up or across.
    """
    from matplotlib.artist import Artist

    placing: Any = Artist()
    placing.set(zorder=0.0, in_layout=False)
    placing.draw = partial(_place, ax, tuple(named), tuple(lines))
    ax.add_artist(placing)


def _place(ax: Axes, named: Sequence[_Named], lines: Sequence[tuple[_Point, _Point]], renderer: Any) -> None:
    """Give labels the places where they meet least, in the order of selectors."""
    from matplotlib.text import Text

    unit = renderer.points_to_pixels(named[0][0].get_fontsize()) / _FONT if named else 1.0
    point = renderer.points_to_pixels(1.0)
    box = ax.bbox
    frame = Frame(
        width=box.x1 / unit,
        height=0.0,
        left=box.x0 / unit,
        right=box.x1 / unit,
        top=-box.y1 / unit + 16,
        bottom=-box.y0 / unit,
    )
    spots, widths = [], []
    for label, (across, up) in named:
        x, y = _at(ax, label.xy, unit)
        left, low = _at(ax, (_end(across.interval.low, across.value), _end(up.interval.low, up.value)), unit)
        right, high = _at(ax, (_end(across.interval.high, across.value), _end(up.interval.high, up.value)), unit)
        mark = 0.6 * _MARK * point / unit
        boxes: list[Box] = [
            (x - mark, y - mark, x + mark, y + mark),
            (x - 1.5, high, x + 1.5, low),
            (left, y - 1.5, right, y + 1.5),
        ]
        widths.append(Text.get_window_extent(label, renderer).width / unit)
        spots.append(
            Spot(x=x, y=y, text=label.get_text(), reach=(left, high, right, low), boxes=boxes, width=widths[-1])
        )
    beside = [_around(_at(ax, one, unit), _at(ax, other, unit)) for one, other in lines]
    for (label, _), spot, width, place in zip(named, spots, widths, placed(spots, frame, beside=beside), strict=True):
        before = {"start": 0.0, "middle": 0.5, "end": 1.0}[place.anchor] * width
        x = min(max(place.x - before, frame.left), max(frame.right - width, frame.left))
        # Where no place lets a long name stay inside, it is pushed there, over its mark.
        y = place.y if x == place.x - before else spot.y - 9.0
        moved = ((x - spot.x) * unit / point, (spot.y - y) * unit / point)
        if moved != label.get_position():
            label.set(position=moved, ha="left", va="baseline")
        if label.arrow_patch is not None:
            label.arrow_patch.set_visible(place.led)


def _around(one: _Point, other: _Point) -> Box:
    """What a line takes that goes up or across."""
    (left, right), (top, bottom) = (sorted(pair) for pair in zip(one, other, strict=True))
    return left - 1.0, top - 1.0, right + 1.0, bottom + 1.0


def _at(ax: Axes, point: _Point, unit: float) -> _Point:
    """Where a point is drawn, y downwards; an infinity stands for what a logarithm cannot show."""
    x, y = ax.transData.transform(point)
    return float(x) / unit, -float(y) / unit


def _end(value: float, mean: float) -> float:
    return value if math.isfinite(value) else mean


def _thresholds(ax: Axes, group: ScoreGroup) -> None:
    """Thresholds as lines with their labels, and what the bars are, all above them."""
    by_value: dict[tuple[float, str], list[str]] = {}
    for one in group.thresholds:
        by_value.setdefault((one.value, one.text), []).append(wording.named(one.selector))
    labels = [
        (value, text if len(group.selectors) == 1 else f"{text} {wording.listed(names)}")
        for (value, text), names in sorted(by_value.items())
    ]
    low, high = ax.get_xlim()
    right = not labels or sum(value for value, _ in labels) / len(labels) < (low + high) / 2
    legend = ax.legend(
        loc="upper right" if right else "upper left", fontsize="small", frameon=False, borderpad=0.2, labelspacing=0.2
    )
    for told in legend.get_texts():
        told.set_color(_ink(ax))
    size = float(legend.get_texts()[0].get_fontsize())
    row = size * 1.35 * _figure(ax).dpi / 72.0 / ax.bbox.height
    for place, (value, text) in enumerate(labels):
        ax.axvline(value, color=_ink(ax), linewidth=1.0, linestyle="--", label=f"_{text}")
        before = value >= low + 0.55 * (high - low)
        label = ax.annotate(
            text,
            (value, 1.0 - row * place),
            xytext=(-4 if before else 4, -2),
            xycoords=ax.get_xaxis_transform(),
            textcoords="offset points",
            ha="right" if before else "left",
            va="top",
            fontsize="small",
            color=_ink(ax),
        )
        label.set(parse_math=False, in_layout=False)
    rows = len(labels) + len(legend.get_texts()) if len(labels) > 1 else max(len(labels), len(legend.get_texts()))
    up = max(group.required, default=0)
    down = max((a + b for a, b in zip(group.other, group.idle, strict=True)), default=0)
    head = min(row * (rows + 0.5), 0.6)
    ax.set_ylim(-1.04 * down, up + (up + down) * head / (1.0 - head))


def _cell_font(ax: Axes, rows: int, columns: int) -> float:
    """The size of numbers that three of them fit a cell, in points."""
    box = ax.bbox
    points = 72.0 / float(_figure(ax).dpi)
    return max(min(0.55 * box.height * points / rows, 0.5 * box.width * points / columns, 9.0), 4.0)
