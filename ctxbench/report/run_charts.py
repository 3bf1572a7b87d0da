"""Charts of runs: scores, comparisons, and accepted baselines over commits with their tables."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from ctxbench.datasets.queries import group_pairs
from ctxbench.evaluation.latency import Growth
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.run_folder import DatasetSummary, finite
from ctxbench.evaluation.statistics import Comparison, Estimate, Interval
from ctxbench.gate.baseline import AcceptedFigures
from ctxbench.gate.history import FIGURES, GONE, BaselineHistory, PastBaseline
from ctxbench.io.console import is_plain
from ctxbench.io.errors import ParameterError, first_few
from ctxbench.report import document
from ctxbench.report.charts import (
    COLOURS,
    LOG_FROM,
    PointLabel,
    ink,
    mark_numbers,
    marks_of,
    paper,
    place_labels,
    points_of_percent,
    signed,
    size,
)
from ctxbench.report.document import printable
from ctxbench.report.pages import TOOLTIP, axes_at, png, svg
from ctxbench.report.run_text import cost_title, csv_number, dim_notes, empty_table
from ctxbench.report.scores import ScoreGroup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console, RenderableType


_LABEL_LETTERS = 42  # of a threshold: half of the axis has room for them
_REQUIRED, _OTHER, _IDLE = COLOURS[0], COLOURS[4], COLOURS[3]


def scores(ax: Axes, group: ScoreGroup) -> None:
    """Draw histograms of scores: required items upwards, the best of the rest downwards; thresholds are lines.

    Args:
        ax: where.
        group: counts by bin, and thresholds.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    required, not_required, idle = (np.array(counts) for counts in (group.required, group.not_required, group.idle))
    _bars(ax, group, (required, 0 * not_required), _REQUIRED, ("required items", "required items"))
    labels = "best item that is not required (downward)", "queries by their best item that is not required"
    _bars(ax, group, (-not_required, 0 * not_required), _OTHER, labels)
    if idle.any():
        labels = "best item of a query that needs nothing", "queries that need nothing, by their best item"
        _bars(ax, group, (-idle, -not_required), _IDLE, labels)
    ax.axhline(0.0, color=ink(ax), linewidth=0.8)
    ax.set_xlim(float(group.edges[0]), float(group.edges[-1]))
    ax.set_xlabel(document.named(group.title) or "score", parse_math=False)
    ax.set_ylabel("how many")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(_count))
    _thresholds(ax, group)


def _bars(ax: Axes, group: ScoreGroup, bars: tuple[Any, Any], colour: str, labels: tuple[str, str]) -> None:
    """Draw bars of one kind, given as heights and feet; `labels` are for the legend and for tooltips."""
    heights, bottom = bars
    bins = np.flatnonzero(heights)
    low, high = group.edges[bins], group.edges[bins + 1]
    drawn = ax.bar(
        low,
        heights[bins],
        width=high - low,
        bottom=bottom[bins],
        align="edge",
        color=colour,
        edgecolor=paper(ax),
        linewidth=0.3,
        label=labels[0],
    )
    for bar, start, end, n in zip(drawn, low, high, heights[bins], strict=True):
        bar.set_gid(f"{TOOLTIP}{start:.4g} to {end:.4g}: {abs(n):,} of the {labels[1]}")


def _count(value: float, _position: int | None = None) -> str:
    return f"{abs(value):,.0f}"


def _thresholds(ax: Axes, group: ScoreGroup) -> None:
    """Draw thresholds as lines with labels, and the legend of the bars."""
    by_value = group_pairs(((t.value, t.text), document.named(t.selector)) for t in group.thresholds)
    labels = [
        (value, text if len(group.selectors) == 1 else f"{text} {first_few(names, 1)}"[:_LABEL_LETTERS])
        for (value, text), names in sorted(by_value.items())
    ]
    low, high = ax.get_xlim()
    right = not labels or sum(value for value, _ in labels) / len(labels) < (low + high) / 2
    legend = ax.legend(
        loc="upper right" if right else "upper left",
        fontsize="small",
        frameon=False,
        borderpad=0.2,
        labelspacing=0.2,
        labelcolor=ink(ax),
    )
    row = float(legend.get_texts()[0].get_fontsize()) * 1.35 / size(ax)[1]
    legend_rows = len(legend.get_texts())
    for index, (value, text) in enumerate(labels, start=legend_rows):  # below the legend, however long they are
        ax.axvline(value, color=ink(ax), linewidth=1.0, linestyle="--", label=f"_{text}")
        before = value >= (low + high) / 2
        label = ax.annotate(
            text,
            (value, 1.0 - row * index),
            xytext=(-4 if before else 4, -2),
            xycoords=ax.get_xaxis_transform(),
            textcoords="offset points",
            ha="right" if before else "left",
            va="top",
            fontsize="small",
            color=ink(ax),
        )
        label.set(parse_math=False, in_layout=False)
    rows = len(labels) + legend_rows
    up = max(group.required, default=0)
    down = max((a + b for a, b in zip(group.not_required, group.idle, strict=True)), default=0)
    head = min(row * (rows + 0.5), 0.6)
    ax.set_ylim(-1.04 * down, up + (up + down) * head / (1.0 - head))


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
    metrics: tuple[Metric, Metric],
    base: str,
    colours: Mapping[str, str],
    numbered: bool = False,
) -> None:
    """Draw one mark per selector, with its intervals and its name, and the Pareto front.

    At most a quarter of the selectors are drawn at the end of an axis, as triangles with their values as text, so that
    the others get the room: those with less than half of the best share, and those with more than 20 times the amount.

    Args:
        ax: where.
        points: by selector, its means on both metrics; one without a mean is left out.
        metrics: those across and up.
        base: the selector whose mark is a square.
        colours: by selector.
        numbered: whether a name without room gives way to the selector's number, its position in `colours` from 1.
    """
    x, y = metrics
    drawn = {name: pair for name, pair in points.items() if all(math.isfinite(estimate.value) for estimate in pair)}
    (foot, above), (end, within) = _foot(drawn, y), _end(drawn, x)
    near = [name for name in drawn if name in above and name in within]
    named: list[tuple[tuple[float, float], str, str, Any]] = []
    marks, numbers = marks_of(colours), {name: str(number) for number, name in enumerate(colours, start=1)}
    for name, (across, up) in drawn.items():
        text = document.named(name) + " (baseline)" * (name == base and len(drawn) > 1)
        at = (across.value if name in within else end, up.value if name in above else foot)
        marker, reach = "s" if name == base else marks[name], at * 2
        if name in near:
            _whisker(ax, across.interval, up.value, colours[name], f"_{x} of {name}", upright=False)
            _whisker(ax, up.interval, across.value, colours[name], f"_{y} of {name}", upright=True)
            (left, right), (low, high) = _ends(across), _ends(up)
            reach = (left, low, right, high)
        elif name in within:
            marker, text = "v", f"{text}, {document.with_unit(y, up.value)} (below the axis)"
        else:
            marker, text = ">", f"{text}, {document.with_unit(x, across.value)} (beyond the axis)"
        ax.plot(
            *at,
            label=name,
            gid=f"{TOOLTIP}{document.named(name)}: {_mean_text(y, up)}, {_mean_text(x, across)}",
            marker=marker,
            color=colours[name],
            markeredgecolor=paper(ax),
            **_MARK,
        )
        named.append((at, text, numbers[name], reach))
    ax.margins(0.15, 0.1)  # room for names
    logs = [_scale_metric(ax.xaxis, x, [drawn[name][0].value for name in within])]
    logs.append(_scale_metric(ax.yaxis, y, [drawn[name][1].value for name in above]))
    front = _front([(drawn[name][0].value, drawn[name][1].value) for name in near], x, y)
    obstacles = _draw_front(ax, front, lower=x.declaration.better == "lower")
    place_labels(ax, _joint(named, numbered=numbered), obstacles=obstacles)
    loose = any(_is_dotted(estimate.interval) for name in near for estimate in drawn[name])
    titles = [document.axis_title(metric) + ", logarithmic" * log for metric, log in zip(metrics, logs, strict=True)]
    ax.set(xlabel=titles[0] + _LOOSE * loose, ylabel=titles[1])


def _joint(named: Sequence[tuple[tuple[float, float], str, str, Any]], *, numbered: bool) -> list[PointLabel]:
    """The labels, those of the same point joined into one."""
    by_point = group_pairs((at, (text, number, reach)) for at, text, number, reach in named)
    joined = []
    for at, labels in by_point.items():
        names, numbers = [text for text, _, _ in labels], [number for _, number, _ in labels]
        names = names if len(names) <= _NAMED else [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more"]
        joined.append(PointLabel(at, document.listed(names), labels[0][2], ", ".join(numbers) if numbered else ""))
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
        ax.plot(
            [comparison.difference],
            [row],
            color=colours[name],
            label=name,
            marker="o",
            markerfacecolor=colours[name] if comparison.significant else paper(ax),
            markeredgewidth=1.5,
            **_MARK,
        )
        counts = f"{comparison.higher:,} higher\n{comparison.lower:,} lower"
        ax.text(1.02, row, counts, transform=ax.get_yaxis_transform(), va="center", fontsize="small", color=ink(ax))
    ax.set_ylim(len(comparisons) - 0.5, -0.5)
    ax.set_yticks(range(len(comparisons)), [document.named(name) for name in comparisons], parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_formatter(FuncFormatter(points_of_percent if document.unit(metric) == "%" else signed))
    ax.margins(x=0.1)
    unit = document.points(metric)
    of = "" if not unit or unit == str(metric) else f", {unit}"
    hollow = any(not comparison.significant for comparison in comparisons.values())
    notes = f"difference in {metric}{of}\nfrom {document.named(base)}"
    notes += "\nhollow: not significant" * hollow
    notes += _LOOSE * any(_is_dotted(comparison.interval) for comparison in comparisons.values())
    ax.set_xlabel(notes, parse_math=False)


def _foot(points: Mapping[str, tuple[Estimate, Estimate]], y: Metric) -> tuple[float, list[str]]:
    """The start of the y axis, and the selectors that are not drawn at its foot."""
    ups = {name: up for name, (_, up) in points.items()}
    if ups and document.unit(y) == "%" and y.declaration.better == "higher":
        best = max(up.value for up in ups.values())
        better = {name: up for name, up in ups.items() if up.value >= best / 2}
        ups = better if len(better) >= _MOST * len(ups) else ups
    foot = min((_ends(up)[0] for up in ups.values()), default=0.0)
    return foot, [name for name, (_, up) in points.items() if up.value >= foot]


def _end(points: Mapping[str, tuple[Estimate, Estimate]], x: Metric) -> tuple[float, list[str]]:
    """The end of the x axis, and the selectors that are not drawn at it."""
    values = sorted(across.value for across, _ in points.values())
    usual = values[math.ceil(_MOST * len(values)) - 1] if values else 0.0
    limit = LOG_FROM * usual if usual > 0 and document.unit(x) != "%" else math.inf
    within = [name for name, (across, _) in points.items() if across.value <= limit]
    return max((_ends(points[name][0])[1] for name in within), default=0.0), within


def _ends(estimate: Estimate) -> tuple[float, float]:
    """The ends of the interval; the mean in place of an infinite end."""
    low, high = (
        end if math.isfinite(end) else estimate.value for end in (estimate.interval.low, estimate.interval.high)
    )
    return low, high


def _mean_text(metric: Metric, estimate: Estimate) -> str:
    """A mean with its interval, as text."""
    interval = document.estimate_interval(metric, estimate)
    unit = document.unit(metric)
    text = f"{document.number(metric, estimate.value)}{unit if unit == '%' else ''} {metric}"
    return f"{text} ({interval})" if interval else text


def _scale_metric(axis: Any, metric: Metric, values: Sequence[float]) -> bool:
    """Set the scale and numbers of an axis; returns whether it is logarithmic."""
    percent = document.unit(metric) == "%"
    log = not percent and bool(values) and min(values) > 0 and max(values) / min(values) > LOG_FROM
    mark_numbers(axis, percent=percent, log=log)
    return log


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
        ax.plot(
            *((level, ends) if upright else (ends, level)),
            color=colour,
            linestyle="-" if interval.holds else ":",
            linewidth=1.4,
            label=label,
            solid_capstyle="butt",
            zorder=2,
        )


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
        ax.plot(
            *zip(*front, strict=True),
            label=FRONT,
            drawstyle="steps-post" if lower else "steps-pre",
            color=ink(ax),
            alpha=0.45,
            linewidth=0.8,
            zorder=1,
        )
    corners = [(b[0], a[1]) if lower else (a[0], b[1]) for a, b in pairwise(front)]
    return [(*a, *b) for a, b in [*zip(front, corners, strict=False), *zip(corners, front[1:], strict=True)]]


FORMS = ("png", "svg")
BROKEN = "no baseline that can be read"  # of the legend
_WIDTH, _PANEL = 760.0, 220.0  # pixels
_LEFT, _RIGHT, _TOP, _BOTTOM, _ROW, _LETTER = 76.0, 42.0, 16.0, 46.0, 20.0, 7.2
_MANY = 30  # commits; the marks of more are small
_LABEL = 78.0  # pixels that the label of a commit takes
_SHAPES = ("o", "s", "^", "D", "v", "P")
_DASHES: tuple[Any, ...] = ("-", (0, (3.2, 1.2)), (0, (1.0, 1.0)), (0, (3.2, 1.0, 1.0, 1.0)))


@dataclass(frozen=True, slots=True)
class CommitMark:
    """A commit on the axis.

    Attributes:
        label: below the axis, in short lines.
        title: for a pointer that rests on a mark.
        broken: whether there is nothing to show of it.
    """

    label: str
    title: str
    broken: bool = False


@dataclass(frozen=True, slots=True)
class CommitSeries:
    """The line of a selector on a dataset: by metric one value per commit, NaN = none."""

    name: str
    values: Mapping[Metric, Sequence[float]]


def over_commits(
    ax: Axes, commits: Sequence[CommitMark], lines: Sequence[CommitSeries], metric: Metric
) -> dict[str, Any]:
    """Draw a metric over commits: one mark per commit, joined where commits follow each other.

    Args:
        ax: where.
        commits: oldest first.
        lines: what is drawn.
        metric: which of their values.

    Returns:
        What a legend shows, by name.
    """
    drawn: dict[str, Any] = {}
    for x in (x for x, commit in enumerate(commits) if commit.broken):
        drawn[BROKEN] = ax.axvline(x, color=ink(ax), alpha=0.45, linestyle=":", linewidth=1.4, zorder=1)
    percent = document.unit(metric) == "%"
    for number, line in enumerate(lines):
        look: dict[str, Any] = {
            "color": COLOURS[number % len(COLOURS)],
            "marker": _SHAPES[number % len(_SHAPES)],
            "linestyle": _DASHES[number % len(_DASHES)],
            "markersize": 7.0 if len(commits) <= _MANY else 5.0,
            "markeredgecolor": paper(ax),
        }
        values = line.values[metric]
        ax.plot(range(len(commits)), values, **look | {"marker": ""}, linewidth=1.6, label=f"_{line.name}", zorder=2)
        for x, value in enumerate(values):
            if math.isfinite(value):
                tooltip = f"{line.name}: {document.number(metric, value)}{'%' * percent} {metric}, {commits[x].title}"
                ax.plot(
                    [x],
                    [value],
                    **look | {"linestyle": "none"},
                    gid=TOOLTIP + document.named(tooltip),
                    zorder=3,
                    clip_on=False,
                )
        (drawn[line.name],) = ax.plot([], [], **look, linewidth=1.6, label=line.name)
    _scaled(ax, commits, metric, [v for line in lines for v in line.values[metric] if math.isfinite(v)])
    return drawn


def history_picture(
    commits: Sequence[CommitMark], lines: Sequence[CommitSeries], metrics: Sequence[Metric], *, form: str
) -> bytes:
    """Draw metrics over commits, one above the other with one legend below, as a file of the form `png` or `svg`.

    Raises:
        ParameterError: it is another form, or there is no commit.
    """
    if form not in FORMS or not commits:
        raise ParameterError(f"a chart over commits needs a commit and is one of {', '.join(FORMS)}, got {form!r}")
    names = [line.name for line in lines] + [BROKEN] * any(commit.broken for commit in commits)
    abreast = max(int((_WIDTH - _LEFT) / (_LETTER * max(map(len, names), default=1) + 60.0)), 1)
    foot = _PANEL * len(metrics)
    height = foot + 16.0 + _ROW * -(-len(names) // abreast)

    def draw(figure: Figure) -> None:
        handles: dict[str, Any] = {}
        for row, metric in enumerate(metrics):
            ax = axes_at(figure, _LEFT, _PANEL * row + _TOP, _WIDTH - _LEFT - _RIGHT, _PANEL - _TOP - _BOTTOM)
            handles |= over_commits(ax, commits, lines, metric)
        figure.legend(
            [handles[name] for name in names],
            [document.named(name) for name in names],
            loc="upper left",
            bbox_to_anchor=(14.0 / _WIDTH, 1.0 - foot / height),
            ncols=abreast,
            frameon=False,
            fontsize=11.5,
        )

    if form == "png":
        return png(draw, width=_WIDTH, height=height)
    label = f"{document.listed([metric.declaration.title for metric in metrics])} over commits"
    return svg(draw, width=_WIDTH, height=height, name="history", label=label).encode()


_GROWTH = 320.0  # pixels of the panels, above the legends


def growth_chart(growth: Mapping[str, Sequence[Growth]], form: str) -> bytes:
    """Seconds against items, and against queries of a batch, with the fits, as a picture, `png` or `svg`."""
    wide, high = (_WIDTH - _RIGHT) / 2 - _LEFT, _GROWTH + 3 * _ROW * len(growth) + 20.0

    def draw(figure: Figure) -> None:
        for panel, over in enumerate(("items", "queries")):
            ax = axes_at(figure, _LEFT + panel * (wide + _LEFT), _TOP, wide, _GROWTH - _TOP - _BOTTOM - 10.0)
            for number, (name, costs) in enumerate(growth.items()):
                for shape, cost in zip(_SHAPES, (cost for cost in costs if cost.over == over), strict=False):
                    look = {"color": COLOURS[number % len(COLOURS)], "marker": shape, "markeredgecolor": paper(ax)}
                    title = f"{name}: {cost_title(cost).partition(',')[0]} (exponent {cost.fit.exponent:z.2f})"
                    ax.plot(
                        cost.sizes, cost.seconds, **look, markersize=7.0, linestyle="none", label=document.named(title)
                    )
                    ax.plot(
                        cost.sizes, cost.fit.factor * np.power(cost.sizes, cost.fit.exponent), "--", color=look["color"]
                    )
                    ax.set_xlabel(f"queries in a batch, over {cost.n_items:,} items" if panel else "items")
            ax.set(xscale="log", yscale="log", ylabel="" if panel else "seconds (median)")
            for axis in (ax.xaxis, ax.yaxis):
                mark_numbers(axis, log=True)
            figure.legend(
                *ax.get_legend_handles_labels(),
                loc="upper left",
                bbox_to_anchor=((14.0 + panel * (wide + _LEFT)) / _WIDTH, 1.0 - _GROWTH / high),
                frameon=False,
                fontsize=11.5,
            )

    if form == "png":
        return png(draw, width=_WIDTH, height=high)
    label = "Seconds against items and queries, on logarithmic axes"
    return svg(draw, width=_WIDTH, height=high, name="growth", label=label).encode()


def _scaled(ax: Axes, commits: Sequence[CommitMark], metric: Metric, values: Sequence[float]) -> None:
    """Give the axes their ends and marks: upwards around the values, across as many commits as there is room for."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    percent = document.unit(metric) == "%"
    margin = max((high - low) * 0.15, 0.02 if percent else max(0.05 * high, 1.0))
    top = min(high + margin, 1.0) if percent else high + margin
    ax.set(xlim=(-0.5, len(commits) - 0.5), ylim=(max(low - margin, 0.0), top))
    mark_numbers(ax.yaxis, percent=percent)
    step = max(math.ceil(len(commits) * _LABEL / size(ax)[0]), 1)
    marked = range((len(commits) - 1) % step, len(commits), step)  # the newest among them
    ax.set_xticks(marked, [commits[x].label for x in marked], parse_math=False)
    title = metric.declaration.title.lower()
    ax.set_ylabel(f"{title}, %" if percent else f"{title} per query", parse_math=False)


HEADINGS = ("date", "commit", "message", "dataset", "selector", "queries", *map(str, FIGURES), "note")
_DAY = 10  # characters of a date


def history_json(history: BaselineHistory) -> dict[str, Any]:
    """All of it as JSON: figures that a baseline does not have are null."""
    return {
        "baseline": str(history.folder),
        "older_left_out": history.older,
        "shallow": history.shallow,
        "commits": [_commit_json(at) for at in history.accepted],
    }


def history_csv(history: BaselineHistory) -> str:
    """One row per commit, dataset and selector; of a baseline that cannot be read one row, with the reason in `note`.

    Completeness is a share, 0 to 1; figures have ten digits, and those that are not there are empty.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, HEADINGS, restval="", lineterminator="\n")
    writer.writeheader()
    for at in history.accepted:
        about = {"date": at.commit.date, "commit": at.commit.hash, "message": at.commit.message, "note": at.fault}
        for accepted in at.worth:
            writer.writerow(
                {
                    **about,
                    "dataset": accepted.dataset,
                    "selector": accepted.selector,
                    "queries": accepted.queries,
                    **{str(metric): csv_number(_value(accepted, metric)) for metric in FIGURES},
                }
            )
        if at.fault:
            writer.writerow(about)
    return out.getvalue()


def history_chart(history: BaselineHistory, form: str) -> bytes:
    """Completeness and prompt tokens over commits as a picture, `png` or `svg`."""
    commits = [
        CommitMark(
            label=f"{at.commit.short}\n{at.commit.date[:_DAY]}",
            title=f"{at.commit.date[:_DAY]} {at.commit.short} {at.commit.message}",
            broken=bool(at.fault),
        )
        for at in history.accepted
    ]
    lines = [
        CommitSeries(
            name=_history_title(history, pair),
            values={metric: [_value(_find(at, pair), metric) for at in history.accepted] for metric in FIGURES},
        )
        for pair in history.pairs
    ]
    return history_picture(commits, lines, FIGURES, form=form)


def _commit_json(at: PastBaseline) -> dict[str, Any]:
    return {
        "commit": at.commit.hash,
        "short": at.commit.short,
        "date": at.commit.date,
        "message": at.commit.message,
        "error": at.fault or None,
        "figures": [
            {
                "dataset": accepted.dataset,
                "selector": accepted.selector,
                "queries": accepted.queries,
                **{str(metric): finite(_value(accepted, metric)) for metric in FIGURES},
            }
            for accepted in at.worth
        ],
    }


def history_tables(history: BaselineHistory, console: Console) -> Iterator[RenderableType]:
    """A table for each selector on each dataset, a commit a line, and notes."""
    plain = is_plain(console.encoding)
    for pair in history.pairs or (None,):
        title = f"accepted in {history.folder}" if pair is None else _history_title(history, pair)
        yield Text(printable(title, plain), style="bold")
        yield _table(history, pair, plain)
        yield Text()
    yield from dim_notes(_notes(history), plain=plain)


def _table(history: BaselineHistory, pair: tuple[str, str] | None, plain: bool) -> Table:
    table = empty_table()
    for heading in ("date", "commit"):
        table.add_column(heading, no_wrap=True)
    for heading in ("queries", "completeness %", "prompt tokens"):
        table.add_column(heading, justify="right", min_width=max(map(len, heading.split())))
    table.add_column("message", min_width=8)  # which gives way where the terminal is narrow
    for at in history.accepted:
        accepted = None if pair is None else _find(at, pair)
        state = document.NONE if not at.fault else "removed" if at.fault == GONE else "unreadable"
        figures = (
            [state, document.NONE] if accepted is None else [document.number(m, _value(accepted, m)) for m in FIGURES]
        )
        queries = document.NONE if accepted is None else f"{accepted.queries:,}"
        cells = [Text(printable(cell, plain)) for cell in (at.commit.date[:_DAY], at.commit.short, queries, *figures)]
        message = Text(printable(at.commit.message, plain), no_wrap=True, overflow="crop" if plain else "ellipsis")
        table.add_row(*cells, message)
    return table


def _notes(history: BaselineHistory) -> Iterator[str]:
    yield from (
        f"{at.commit.short} cannot be read: {at.fault}" for at in history.accepted if at.fault and at.fault != GONE
    )
    if history.older:
        yield "Older commits are left out (--limit)."
    if history.shallow:
        yield "This clone is shallow, so older commits may be missing: `git fetch --unshallow` brings them."


def _find(at: PastBaseline, pair: tuple[str, str]) -> AcceptedFigures | None:
    return next((accepted for accepted in at.worth if (accepted.dataset, accepted.selector) == pair), None)


def _value(accepted: AcceptedFigures | None, metric: Metric) -> float:
    """A figure; NaN where there is none."""
    return math.nan if accepted is None else accepted.metrics.get(metric, math.nan)


def _history_title(history: BaselineHistory, pair: tuple[str, str]) -> str:
    """A selector with its dataset, named as it was accepted last."""
    dataset, selector = pair
    accepted = next(accepted for at in reversed(history.accepted) if (accepted := _find(at, pair)) is not None)
    return f"{document.selector_title(selector, accepted.shipped)} on {dataset}"
