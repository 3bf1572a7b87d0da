"""Histograms of scores, with thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ctxbench.report import wording
from ctxbench.report.charts.axes import COLOURS, ink, paper, size
from ctxbench.report.charts.svg import TOOLTIP
from ctxbench.report.scores import ScoreGroup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    ax.set_xlabel(wording.named(group.title) or "score", parse_math=False)
    ax.set_ylabel("how many")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(_count))
    _thresholds(ax, group)


def _bars(ax: Axes, group: ScoreGroup, bars: tuple[Any, Any], colour: str, labels: tuple[str, str]) -> None:
    """Draw bars of one kind, given as heights and feet; `labels` are for the legend and for tooltips."""
    heights, bottom = bars
    bins = np.flatnonzero(heights)
    low, high = group.edges[bins], group.edges[bins + 1]
    style: dict[str, Any] = {"color": colour, "edgecolor": paper(ax), "linewidth": 0.3, "label": labels[0]}
    drawn = ax.bar(low, heights[bins], width=high - low, bottom=bottom[bins], align="edge", **style)
    for bar, start, end, n in zip(drawn, low, high, heights[bins], strict=True):
        bar.set_gid(f"{TOOLTIP}{start:.4g} to {end:.4g}: {abs(n):,} of the {labels[1]}")


def _count(value: float, _position: int | None = None) -> str:
    return f"{abs(value):,.0f}"


def _thresholds(ax: Axes, group: ScoreGroup) -> None:
    """Draw thresholds as lines with labels, and the legend of the bars."""
    by_value: dict[tuple[float, str], list[str]] = {}
    for threshold in group.thresholds:
        by_value.setdefault((threshold.value, threshold.text), []).append(wording.named(threshold.selector))
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
    for index, (value, text) in enumerate(labels):
        ax.axvline(value, color=ink(ax), linewidth=1.0, linestyle="--", label=f"_{text}")
        before = value >= low + 0.55 * (high - low)
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
    rows = len(labels) + len(legend.get_texts()) if len(labels) > 1 else max(len(labels), len(legend.get_texts()))
    up = max(group.required, default=0)
    down = max((a + b for a, b in zip(group.not_required, group.idle, strict=True)), default=0)
    head = min(row * (rows + 0.5), 0.6)
    ax.set_ylim(-1.04 * down, up + (up + down) * head / (1.0 - head))
