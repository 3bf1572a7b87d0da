"""Where scores lie beside thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ctxbench.report import wording
from ctxbench.report.charts.axes import COLOURS, ink, paper, size
from ctxbench.report.charts.svg import TOLD
from ctxbench.report.scores import ScoreGroup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_REQUIRED, _OTHER, _IDLE = COLOURS[0], COLOURS[4], COLOURS[3]


def scores(ax: Axes, group: ScoreGroup) -> None:
    """Draw histograms of scores: what is needed stands up, the best of the rest hangs down; thresholds are lines.

    Args:
        ax: where.
        group: counts by bin, and thresholds.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    required, other, idle = (np.array(counts) for counts in (group.required, group.other, group.idle))
    _bars(ax, group, (required, 0 * other), _REQUIRED, ("required items", "required items"))
    said = "best item that is not required (downward)", "queries by their best item that is not required"
    _bars(ax, group, (-other, 0 * other), _OTHER, said)
    if idle.any():
        said = "best item of a query that needs nothing", "queries that need nothing, by their best item"
        _bars(ax, group, (-idle, -other), _IDLE, said)
    ax.axhline(0.0, color=ink(ax), linewidth=0.8)
    ax.set_xlim(float(group.edges[0]), float(group.edges[-1]))
    ax.set_xlabel(wording.named(group.title) or "score", parse_math=False)
    ax.set_ylabel("how many")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(_count))
    _thresholds(ax, group)


def _bars(ax: Axes, group: ScoreGroup, bars: tuple[Any, Any], colour: str, said: tuple[str, str]) -> None:
    """Bars of one kind, by heights and feet: how the legend calls them, and what a pointer is told of them."""
    heights, bottom = bars
    here = np.flatnonzero(heights)
    low, high = group.edges[here], group.edges[here + 1]
    style: dict[str, Any] = {"color": colour, "edgecolor": paper(ax), "linewidth": 0.3, "label": said[0]}
    drawn = ax.bar(low, heights[here], width=high - low, bottom=bottom[here], align="edge", **style)
    for bar, start, end, n in zip(drawn, low, high, heights[here], strict=True):
        bar.set_gid(f"{TOLD}{start:.4g} to {end:.4g}: {abs(n):,} of the {said[1]}")


def _count(value: float, _place: int | None = None) -> str:
    return f"{abs(value):,.0f}"


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
        loc="upper right" if right else "upper left",
        fontsize="small",
        frameon=False,
        borderpad=0.2,
        labelspacing=0.2,
        labelcolor=ink(ax),
    )
    row = float(legend.get_texts()[0].get_fontsize()) * 1.35 / size(ax)[1]
    for place, (value, text) in enumerate(labels):
        ax.axvline(value, color=ink(ax), linewidth=1.0, linestyle="--", label=f"_{text}")
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
            color=ink(ax),
        )
        label.set(parse_math=False, in_layout=False)
    rows = len(labels) + len(legend.get_texts()) if len(labels) > 1 else max(len(labels), len(legend.get_texts()))
    up = max(group.required, default=0)
    down = max((a + b for a, b in zip(group.other, group.idle, strict=True)), default=0)
    head = min(row * (rows + 0.5), 0.6)
    ax.set_ylim(-1.04 * down, up + (up + down) * head / (1.0 - head))
