"""Charts that compare selectors: one metric against another, and differences from a baseline."""

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
from ctxbench.report.charts.svg import TOOLTIP

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FRONT = "Pareto front"  # the label of its line
_MARK: dict[str, Any] = {"linestyle": "none", "markersize": 7.0, "zorder": 3}
_NAMED = 4  # selectors that a label of one point names
_MOST = 0.75  # of selectors must be well above others for these to stand at the foot
_LOOSE = "\ndotted: too few queries to rely on the interval"


def points_of(dataset: DatasetSummary, x: Metric, y: Metric) -> dict[str, tuple[Estimate, Estimate]]:
    """The estimates of every selector that has both metrics."""
    estimates = {
        selector.selector: [selector.estimates[str(metric)] for metric in (x, y) if str(metric) in selector.estimates]
        for selector in dataset.selectors
    }
    return {
        name: (has[0], has[1])
        for name, has in estimates.items()
        if len(has) == 2 and all(estimate.n for estimate in has)
    }


def trade_off(
    ax: Axes,
    points: Mapping[str, tuple[Estimate, Estimate]],
    *,
    x: Metric,
    y: Metric,
    base: str,
    colours: Mapping[str, str],
) -> None:
    """Draw one mark per selector, with its intervals and its name, and the Pareto front.

    Where at most a quarter of the selectors have less than half of the best share, these are drawn as triangles at the
    foot of the axis, with their values as text, so that the others get the room.

    Args:
        ax: where.
        points: by selector, its means on both metrics; one without a mean is left out.
        x, y: the metrics.
        base: the selector whose mark is a square.
        colours: by selector.
    """
    drawn = {name: pair for name, pair in points.items() if all(math.isfinite(estimate.value) for estimate in pair)}
    foot, above = _foot(drawn, y)
    named: list[tuple[tuple[float, float], str, Any]] = []
    marks = marks_of(colours)
    for name, (across, up) in drawn.items():
        at, text = (across.value, up.value), wording.named(name)
        marker = "s" if name == base else marks[name]
        text += " (baseline)" if name == base and len(drawn) > 1 else ""
        if name in above:
            _whisker(ax, across.interval, up.value, colours[name], f"_{x} of {name}", upright=False)
            _whisker(ax, up.interval, across.value, colours[name], f"_{y} of {name}", upright=True)
            (left, right), (low, high) = _ends(across), _ends(up)
            reach = (left, low, right, high)
        else:
            at, marker, reach = (across.value, foot), "v", (across.value, foot) * 2
            text += f", {wording.number(y, up.value)}% (below the axis)"
        style = {"marker": marker, "color": colours[name], "markeredgecolor": paper(ax), **_MARK}
        ax.plot(
            *at,
            label=name,
            gid=f"{TOOLTIP}{wording.named(name)}: {_mean_text(y, up)}, {_mean_text(x, across)}",
            **style,
        )
        named.append((at, text, reach))
    ax.margins(0.15, 0.1)  # room for names
    logs = [_scaled(ax.xaxis, x, [across.value for across, _ in drawn.values()])]
    logs.append(_scaled(ax.yaxis, y, [drawn[name][1].value for name in above]))
    front = _front([(drawn[name][0].value, drawn[name][1].value) for name in above], x, y)
    place_labels(ax, _joint(named), obstacles=_draw_front(ax, front, lower=x.declaration.better == "lower"))
    loose = any(_is_dotted(estimate.interval) for name in above for estimate in drawn[name])
    ax.set_xlabel(_title(x, log=logs[0]) + _LOOSE * loose)
    ax.set_ylabel(_title(y, log=logs[1]))


def _joint(named: Sequence[tuple[tuple[float, float], str, Any]]) -> list[tuple[tuple[float, float], str, Any]]:
    """The labels, those of the same point joined into one."""
    by_point: dict[tuple[float, float], list[tuple[str, Any]]] = {}
    for at, text, reach in named:
        by_point.setdefault(at, []).append((text, reach))
    joined = []
    for at, labels in by_point.items():
        names = [text for text, _ in labels]
        names = names if len(names) <= _NAMED else [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more"]
        joined.append((at, wording.listed(names), labels[0][1]))
    return joined


def differences(
    ax: Axes, comparisons: Mapping[str, Comparison], *, metric: Metric, base: str, colours: Mapping[str, str]
) -> None:
    """Draw the difference of each selector from the baseline with its interval, the first on top.

    Args:
        ax: where.
        comparisons: by selector, corrected for multiple comparisons.
        metric: which.
        base: the baseline.
        colours: by selector.
    """
    from matplotlib.ticker import FuncFormatter

    ax.axvline(0.0, color=ink(ax), linewidth=0.8, zorder=1)
    for row, (name, comparison) in enumerate(comparisons.items()):
        _whisker(ax, comparison.interval, row, colours[name], f"_{metric} of {name}", upright=False)
        fill = colours[name] if comparison.distinguishable else paper(ax)
        style = {"marker": "o", "markerfacecolor": fill, "markeredgewidth": 1.5, **_MARK}
        ax.plot([comparison.difference], [row], color=colours[name], label=name, **style)
        counts = f"{comparison.higher:,} higher\n{comparison.lower:,} lower"
        ax.text(1.02, row, counts, transform=ax.get_yaxis_transform(), va="center", fontsize="small", color=ink(ax))
    ax.set_ylim(len(comparisons) - 0.5, -0.5)
    ax.set_yticks(range(len(comparisons)), [wording.named(name) for name in comparisons], parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_formatter(FuncFormatter(points_of_percent if wording.unit(metric) == "%" else signed))
    ax.margins(x=0.1)
    unit = wording.points(metric)
    of = "" if not unit or unit == str(metric) else f", {unit}"
    hollow = any(not comparison.distinguishable for comparison in comparisons.values())
    notes = f"difference in {metric}{of}\nfrom {wording.named(base)}"
    notes += "\nhollow: cannot be told apart from 0" * hollow
    notes += _LOOSE * any(_is_dotted(comparison.interval) for comparison in comparisons.values())
    ax.set_xlabel(notes, parse_math=False)


def _foot(points: Mapping[str, tuple[Estimate, Estimate]], y: Metric) -> tuple[float, list[str]]:
    """The start of the y axis, and the selectors that are not drawn at its foot."""
    ups = {name: up for name, (_, up) in points.items()}
    if ups and wording.unit(y) == "%" and y.declaration.better == "higher":
        best = max(up.value for up in ups.values())
        better = {name: up for name, up in ups.items() if up.value >= best / 2}
        ups = better if len(better) >= _MOST * len(ups) else ups
    foot = min((_ends(up)[0] for up in ups.values()), default=0.0)
    return foot, [name for name, (_, up) in points.items() if up.value >= foot]


def _ends(estimate: Estimate) -> tuple[float, float]:
    """The ends of the interval; the mean in place of an infinite end."""
    low, high = (
        end if math.isfinite(end) else estimate.value for end in (estimate.interval.low, estimate.interval.high)
    )
    return low, high


def _mean_text(metric: Metric, estimate: Estimate) -> str:
    """A mean with its interval, as text."""
    interval = wording.estimate_interval(metric, estimate)
    unit = wording.unit(metric)
    text = f"{wording.number(metric, estimate.value)}{unit if unit == '%' else ''} {metric}"
    return f"{text} ({interval})" if interval else text


def _scaled(axis: Any, metric: Metric, values: Sequence[float]) -> bool:
    """Set the scale and numbers of an axis; returns whether it is logarithmic."""
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
    """Draw an interval as a line: none where an end is infinite, dotted where it does not hold."""
    if math.isfinite(interval.low) and math.isfinite(interval.high):
        ends, level = [interval.low, interval.high], [at, at]
        style: dict[str, Any] = {"linestyle": "-" if interval.holds else ":", "color": colour, "linewidth": 1.4}
        ax.plot(*((level, ends) if upright else (ends, level)), label=label, solid_capstyle="butt", zorder=2, **style)


def _front(points: Sequence[tuple[float, float]], x: Metric, y: Metric) -> list[tuple[float, float]]:
    """The Pareto-optimal points, from left to right."""
    sign = [1.0 if metric.declaration.better == "higher" else -1.0 for metric in (x, y)]
    worth = [(sign[0] * across, sign[1] * up) for across, up in points]
    beaten = [any(b != a and b[0] >= a[0] and b[1] >= a[1] for b in worth) for a in worth]
    return sorted({point for point, out in zip(points, beaten, strict=True) if not out})


def _draw_front(
    ax: Axes, front: Sequence[tuple[float, float]], *, lower: bool
) -> list[tuple[float, float, float, float]]:
    """Draw the front as steps and return them: between two marks the cheaper one is the best known."""
    if len(front) > 1:
        steps: Any = "steps-post" if lower else "steps-pre"
        style: dict[str, Any] = {"drawstyle": steps, "color": ink(ax), "alpha": 0.45, "linewidth": 0.8, "zorder": 1}
        ax.plot(*zip(*front, strict=True), label=FRONT, **style)
    corners = [(b[0], a[1]) if lower else (a[0], b[1]) for a, b in pairwise(front)]
    return [(*a, *b) for a, b in [*zip(front, corners, strict=False), *zip(corners, front[1:], strict=True)]]
