"""Selectors beside each other: one metric against another, and differences from a baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ctxbench.bench.metrics import Metric
from ctxbench.bench.stats import Comparison, Estimate, Interval
from ctxbench.bench.summary import DatasetSummary
from ctxbench.report import wording
from ctxbench.report.charts.axes import LOG_FROM, ink, mark_numbers, marks_of, paper, points_of_percent, signed
from ctxbench.report.charts.point_names import place_labels
from ctxbench.report.charts.svg import TOLD

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FRONT = "Pareto front"  # the label of its line
_MARK: dict[str, Any] = {"linestyle": "none", "markersize": 7.0, "zorder": 3}
_NAMED = 4  # selectors that a label of one point names
_MOST = 0.75  # of selectors must be well above others for these to stand at the foot
_LOOSE = "\ndotted: too few queries to rely on the interval"


def points_of(dataset: DatasetSummary, x: Metric, y: Metric) -> dict[str, tuple[Estimate, Estimate]]:
    """The means of every selector that has both metrics."""
    known = {
        one.selector: [one.estimates[str(metric)] for metric in (x, y) if str(metric) in one.estimates]
        for one in dataset.selectors
    }
    return {name: (has[0], has[1]) for name, has in known.items() if len(has) == 2 and all(one.n for one in has)}


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

    The axis upwards parts the better ones: where at most a quarter of the selectors have less than half of the best
    share, these stand at its foot, as triangles that say their figures.

    Args:
        ax: where.
        points: by selector, its means on both metrics; one without a mean is left out.
        x, y: the metrics.
        base: the selector whose mark is a square.
        colours: by selector.
    """
    drawn = {name: pair for name, pair in points.items() if all(math.isfinite(one.value) for one in pair)}
    foot, shown = _foot(drawn, y)
    named: list[tuple[tuple[float, float], str, Any]] = []
    marks = marks_of(colours)
    for name, (across, up) in drawn.items():
        at, text = (across.value, up.value), wording.named(name)
        marker = "s" if name == base else marks[name]
        text += " (baseline)" if name == base and len(drawn) > 1 else ""
        if name in shown:
            _whisker(ax, across.interval, up.value, colours[name], f"_{x} of {name}", upright=False)
            _whisker(ax, up.interval, across.value, colours[name], f"_{y} of {name}", upright=True)
            (left, right), (low, high) = _ends(across), _ends(up)
            reach = (left, low, right, high)
        else:
            at, marker, reach = (across.value, foot), "v", (across.value, foot) * 2
            text += f", {wording.number(y, up.value)}% (below the axis)"
        style = {"marker": marker, "color": colours[name], "markeredgecolor": paper(ax), **_MARK}
        ax.plot(*at, label=name, gid=f"{TOLD}{wording.named(name)}: {_told(y, up)}, {_told(x, across)}", **style)
        named.append((at, text, reach))
    ax.margins(0.15, 0.1)  # room for names
    logs = [_scaled(ax.xaxis, x, [across.value for across, _ in drawn.values()])]
    logs.append(_scaled(ax.yaxis, y, [drawn[name][1].value for name in shown]))
    front = _front([(drawn[name][0].value, drawn[name][1].value) for name in shown], x, y)
    place_labels(ax, _joint(named), beside=_draw_front(ax, front, lower=x.declaration.better == "lower"))
    loose = any(_is_dotted(one.interval) for name in shown for one in drawn[name])
    ax.set_xlabel(_title(x, log=logs[0]) + _LOOSE * loose)
    ax.set_ylabel(_title(y, log=logs[1]))


def _joint(named: Sequence[tuple[tuple[float, float], str, Any]]) -> list[tuple[tuple[float, float], str, Any]]:
    """The names with those of one point joined: no place is left beside it for each."""
    same: dict[tuple[float, float], list[tuple[str, Any]]] = {}
    for at, text, reach in named:
        same.setdefault(at, []).append((text, reach))
    joined = []
    for at, those in same.items():
        names = [text for text, _ in those]
        names = names if len(names) <= _NAMED else [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more"]
        joined.append((at, wording.listed(names), those[0][1]))
    return joined


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

    ax.axvline(0.0, color=ink(ax), linewidth=0.8, zorder=1)
    for place, (name, one) in enumerate(found.items()):
        _whisker(ax, one.interval, place, colours[name], f"_{metric} of {name}", upright=False)
        fill = colours[name] if one.distinguishable else paper(ax)
        style = {"marker": "o", "markerfacecolor": fill, "markeredgewidth": 1.5, **_MARK}
        ax.plot([one.difference], [place], color=colours[name], label=name, **style)
        counts = f"{one.higher:,} higher\n{one.lower:,} lower"
        ax.text(1.02, place, counts, transform=ax.get_yaxis_transform(), va="center", fontsize="small", color=ink(ax))
    ax.set_ylim(len(found) - 0.5, -0.5)
    ax.set_yticks(range(len(found)), [wording.named(name) for name in found], parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_formatter(FuncFormatter(points_of_percent if wording.unit(metric) == "%" else signed))
    ax.margins(x=0.1)
    unit = wording.points(metric)
    of = "" if not unit or unit == str(metric) else f", {unit}"
    hollow = any(not one.distinguishable for one in found.values())
    notes = f"difference in {metric}{of}\nfrom {wording.named(base)}"
    notes += "\nhollow: cannot be told apart from 0" * hollow
    notes += _LOOSE * any(_is_dotted(one.interval) for one in found.values())
    ax.set_xlabel(notes, parse_math=False)


def _foot(points: Mapping[str, tuple[Estimate, Estimate]], y: Metric) -> tuple[float, list[str]]:
    """Where the axis upwards begins, and the selectors that do not stand at its foot."""
    ups = {name: up for name, (_, up) in points.items()}
    if ups and wording.unit(y) == "%" and y.declaration.better == "higher":
        best = max(up.value for up in ups.values())
        better = {name: up for name, up in ups.items() if up.value >= best / 2}
        ups = better if len(better) >= _MOST * len(ups) else ups
    foot = min((_ends(up)[0] for up in ups.values()), default=0.0)
    return foot, [name for name, (_, up) in points.items() if up.value >= foot]


def _ends(one: Estimate) -> tuple[float, float]:
    """Those of the interval; the mean where one is infinite."""
    low, high = (end if math.isfinite(end) else one.value for end in (one.interval.low, one.interval.high))
    return low, high


def _told(metric: Metric, one: Estimate) -> str:
    """A mean with its interval, in words."""
    interval = wording.estimate_interval(metric, one)
    unit = wording.unit(metric)
    said = f"{wording.number(metric, one.value)}{unit if unit == '%' else ''} {metric}"
    return f"{said} ({interval})" if interval else said


def _scaled(axis: Any, metric: Metric, values: Sequence[float]) -> bool:
    """Give an axis its scale and numbers; whether it is logarithmic."""
    percent = wording.unit(metric) == "%"
    log = not percent and bool(values) and min(values) > 0 and max(values) / min(values) > LOG_FROM
    mark_numbers(axis, percent=percent, log=log)
    return log


def _title(metric: Metric, *, log: bool) -> str:
    unit = wording.unit(metric)
    named = f"{metric}, %" if unit == "%" else f"{metric} a query" if unit else str(metric)
    return f"{named}, logarithmic" if log else named


def _is_dotted(interval: Interval) -> bool:
    """Whether an interval is drawn as a dotted line that can be seen."""
    return (
        not interval.holds
        and math.isfinite(interval.low)
        and math.isfinite(interval.high)
        and interval.low < interval.high
    )


def _whisker(ax: Axes, interval: Interval, at: float, colour: str, label: str, *, upright: bool) -> None:
    """An interval as a line; none where an end is infinite, and dotted where it does not hold."""
    if math.isfinite(interval.low) and math.isfinite(interval.high):
        ends, place = [interval.low, interval.high], [at, at]
        style: dict[str, Any] = {"linestyle": "-" if interval.holds else ":", "color": colour, "linewidth": 1.4}
        ax.plot(*((place, ends) if upright else (ends, place)), label=label, solid_capstyle="butt", zorder=2, **style)


def _front(points: Sequence[tuple[float, float]], x: Metric, y: Metric) -> list[tuple[float, float]]:
    """The points that no other one is at least as good as on both, and better on one; from left to right."""
    sign = [1.0 if metric.declaration.better == "higher" else -1.0 for metric in (x, y)]
    worth = [(sign[0] * one, sign[1] * other) for one, other in points]
    beaten = [any(b != a and b[0] >= a[0] and b[1] >= a[1] for b in worth) for a in worth]
    return sorted({point for point, out in zip(points, beaten, strict=True) if not out})


def _draw_front(
    ax: Axes, front: Sequence[tuple[float, float]], *, lower: bool
) -> list[tuple[float, float, float, float]]:
    """The front as steps, which are given back: between two marks nothing better is known than the cheaper one."""
    if len(front) > 1:
        steps: Any = "steps-post" if lower else "steps-pre"
        style: dict[str, Any] = {"drawstyle": steps, "color": ink(ax), "alpha": 0.45, "linewidth": 0.8, "zorder": 1}
        ax.plot(*zip(*front, strict=True), label=FRONT, **style)
    corners = [(b[0], a[1]) if lower else (a[0], b[1]) for a, b in pairwise(front)]
    return [(*a, *b) for a, b in [*zip(front, corners, strict=False), *zip(corners, front[1:], strict=True)]]
