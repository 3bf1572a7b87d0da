"""An ablation at a glance: strategies by datasets as SVG, a cell the difference in completeness at equal tokens."""

from __future__ import annotations

from typing import Any

from ablation import Ablation, verdict

from ctxbench.evaluation.comparisons import AtTokens
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.report import wording
from ctxbench.report.charts import COLOURS
from ctxbench.report.pages import axes_at, svg

_ROW, _CELL, _HEAD, _LETTER = 20.0, 62.0, 110.0, 7.0
_FAINT, _PALE, _BETTER, _WORSE = "#5c656e", "#f4f6f8", COLOURS[0], COLOURS[1]
_STRONG = 0.15  # a difference from which on a cell has its full colour
_COMPLETE = parse_metric("completeness")


def overview(ablation: Ablation) -> str:
    """Draw the strategies, the best first, against the datasets in the order of the experiment.

    A cell is coloured where the two differ significantly, the stronger the larger the difference. A dash: the
    strategy spends more than the base's whole curve. The same run gives the same bytes.
    """
    standings = ablation.standings()
    names = [wording.named(dataset.summary.dataset) for dataset in ablation.datasets]
    left = 14.0 + _LETTER * max((len(one.strategy) for one in standings), default=0)
    wide, high = _CELL * len(names), _ROW * max(len(standings), 1)
    width, height = max(left + wide + 60.0, left + 540.0), _HEAD + high + 40.0

    def draw(figure: Any) -> None:
        ax = axes_at(figure, left, _HEAD, wide, high)
        ax.set(xlim=(0, len(names)), ylim=(max(len(standings), 1), 0))
        ax.set_axis_off()
        for column, name in enumerate(names):
            ax.text(column + 0.4, -0.3, name, rotation=40, rotation_mode="anchor", fontsize=11.0)
        for row, one in enumerate(standings):
            said = wording.named(one.strategy)
            ax.text(-0.1, row + 0.5, said, ha="right", va="center", fontsize=11.0)
            for column, dataset in enumerate(ablation.datasets):
                _cell(ax, dataset.at_tokens[one.strategy], row, column)
        at = left / width
        for name, colour in (("better", _BETTER), ("worse", _WORSE), ("not significant", _PALE)):
            figure.text(at, 14.0 / height, name, fontsize=11.0, backgroundcolor=colour, color=_ink(colour))
            at += (30.0 + _LETTER * len(name)) / width
        figure.text(at, 14.0 / height, "points of completeness at equal tokens", fontsize=11.0)

    label = "Difference in completeness from the base at equal tokens, by strategy and dataset"
    return svg(draw, width=width, height=height, name="overview", label=label)


def _ink(colour: str) -> str:
    return _FAINT if colour == _PALE else "#f7f7f7"


def _cell(ax: Any, found: AtTokens, row: int, column: int) -> None:
    told = verdict(found)
    text, fill, ink, opacity = wording.NONE, _PALE, _FAINT, 1.0
    if found.comparison is not None:
        text = wording.signed(_COMPLETE, found.comparison.difference)
        if told != "untold":
            fill = _BETTER if told == "better" else _WORSE
            opacity = 0.25 + 0.75 * min(abs(found.comparison.difference) / _STRONG, 1.0)
            ink = _ink(fill) if opacity > 0.8 else "#000000"
    ax.bar(column + 0.5, 0.9, width=0.96, bottom=row + 0.05, color=fill, alpha=opacity)
    ax.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=11.0, color=ink)
