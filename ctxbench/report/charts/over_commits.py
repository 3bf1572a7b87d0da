"""Metrics over commits, one line per selector and dataset."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctxbench.bench.metrics import Metric
from ctxbench.core.errors import ParameterError
from ctxbench.report import wording
from ctxbench.report.charts.axes import COLOURS, ink, mark_numbers, paper, size
from ctxbench.report.charts.svg import TOOLTIP, axes_at, png, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    percent = wording.unit(metric) == "%"
    for number, line in enumerate(lines):
        look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "marker": _SHAPES[number % len(_SHAPES)]}
        look |= {
            "linestyle": _DASHES[number % len(_DASHES)],
            "markersize": 7.0 if len(commits) <= _MANY else 5.0,
            "markeredgecolor": paper(ax),
        }
        values = line.values[metric]
        ax.plot(range(len(commits)), values, **look | {"marker": ""}, linewidth=1.6, label=f"_{line.name}", zorder=2)
        for x, value in enumerate(values):
            if math.isfinite(value):
                tooltip = f"{line.name}: {wording.number(metric, value)}{'%' * percent} {metric}, {commits[x].title}"
                ax.plot(
                    [x],
                    [value],
                    **look | {"linestyle": "none"},
                    gid=TOOLTIP + wording.named(tooltip),
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
            top = _PANEL * row + _TOP
            ax = axes_at(figure, _LEFT, top, _WIDTH - _LEFT - _RIGHT, _PANEL - _TOP - _BOTTOM)
            handles |= over_commits(ax, commits, lines, metric)
        placed: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (14.0 / _WIDTH, 1.0 - foot / height)}
        texts = [wording.named(name) for name in names]
        figure.legend([handles[n] for n in names], texts, ncols=abreast, frameon=False, fontsize=11.5, **placed)

    if form == "png":
        return png(draw, width=_WIDTH, height=height)
    label = f"{wording.listed([metric.declaration.title for metric in metrics])} over commits"
    return svg(draw, width=_WIDTH, height=height, name="history", label=label).encode()


def _scaled(ax: Axes, commits: Sequence[CommitMark], metric: Metric, values: Sequence[float]) -> None:
    """Give the axes their ends and marks: upwards around the values, across as many commits as there is room for."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    percent = wording.unit(metric) == "%"
    margin = max((high - low) * 0.15, 0.02 if percent else max(0.05 * high, 1.0))
    top = min(high + margin, 1.0) if percent else high + margin
    ax.set(xlim=(-0.5, len(commits) - 0.5), ylim=(max(low - margin, 0.0), top))
    mark_numbers(ax.yaxis, percent=percent)
    step = max(math.ceil(len(commits) * _LABEL / size(ax)[0]), 1)
    marked = range((len(commits) - 1) % step, len(commits), step)  # the newest among them
    ax.set_xticks(marked, [commits[x].label for x in marked], parse_math=False)
    title = metric.declaration.title.lower()
    ax.set_ylabel(f"{title}, %" if percent else f"{title} a query", parse_math=False)
