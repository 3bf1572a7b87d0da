"""What pages on gains share: a gain as text, the mean over datasets, and a picture of dots with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pages import Picture

from ctxbench.report.charts import colours, marks_of
from ctxbench.report.pages import axes_at
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import TokenCounter, open_counter

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 600.0  # of a picture in pixels, so that its letters can be read on a small screen
_LETTER, _ROW = 7.0, 12.0


def local(tokens: str = "o200k") -> tuple[LocalResources, TokenCounter]:
    """The default embedder with its stored vectors, and a token counter."""
    embedder, counter = open_embedder("minilm"), open_counter(tokens)
    return LocalResources(Vectors(embedder, VectorStore(embedder.identity)), counter), counter


def points(difference: float) -> str:
    """A difference of shares in points, with its sign."""
    rounded = round(100 * difference, 1)
    return f"{rounded:+.1f}".replace("-", "−") if rounded else "0.0"


def gain_cell(row: Mapping[str, Any]) -> str:
    """A gain with its interval, bold if `significant`; a dash where nothing was compared."""
    if math.isnan(row["difference"]):
        return "–"
    text = f"{points(row['difference'])} ({points(row['low'])} to {points(row['high'])})"
    return f"**{text}**" if row.get("significant") else text


def mean_gain(gains: pd.DataFrame) -> dict[str, float]:
    """The mean over datasets of independent gains, each counting once; rows without a gain are left out.

    Returns:
        `difference`, `low` and `high`, from the widths of the intervals. NaN without any gain.
    """
    compared = gains.dropna(subset=["difference"])
    mean = float(compared["difference"].mean())
    half = math.sqrt(float((((compared["high"] - compared["low"]) / 2.0) ** 2).sum())) / max(len(compared), 1)
    return {"difference": mean, "low": mean - half, "high": mean + half}


def dot_picture(
    rows: Mapping[str, Mapping[str, Mapping[str, float]]],
    *,
    x: str,
    alt: str,
    value: str = "difference",
    limits: tuple[float, float] | None = None,
) -> Picture:
    """A picture with a dot and its interval for each series of each row, from top to bottom; shares in percent.

    Args:
        rows: by label and series, the row of a table with `low`, `high` and the column `value`.
        x: title of the axis.
        alt: what the picture shows.
        value: the column of the dots.
        limits: of the axis in percent; beyond them an interval is cut.
    """
    series = colours(dict.fromkeys(name for row in rows.values() for name in row))
    marks = marks_of(series)
    step = _ROW * max(len(series), 1) + 8.0
    left = 16.0 + _LETTER * max(map(len, rows))
    head = 28.0 * (len(series) > 1)
    high = step * len(rows)

    def draw(figure: Any) -> None:
        ax = axes_at(figure, left, head + 6.0, WIDTH - left - 16.0, high)
        for index, (name, colour) in enumerate(series.items()):
            shift = (index - (len(series) - 1) / 2.0) * _ROW / step
            dots = [(position + shift, row[name]) for position, row in enumerate(rows.values()) if name in row]
            for y, dot in dots:
                ax.plot([100 * dot["low"], 100 * dot["high"]], [y, y], color=colour, linewidth=1.6)
            values = [100 * dot[value] for _, dot in dots]
            ax.plot(values, [y for y, _ in dots], marks[name], color=colour, markersize=6.5, label=name, clip_on=False)
        ax.set_yticks(range(len(rows)), list(rows), fontsize=12.5)
        ax.set(ylim=(len(rows) - 0.5, -0.5))
        ax.set_xlabel(x, loc="right")
        ax.grid(visible=False, axis="y")
        if limits:
            ax.set_xlim(*limits)
        if ax.get_xlim()[0] < 0:
            ax.axvline(0, color="#777777", linewidth=1.0, zorder=1)
        if head:
            figure.legend(loc="upper left", ncols=len(series), frameon=False, fontsize=12.0, handletextpad=0.2)

    return Picture(draw=draw, alt=alt, width=WIDTH, height=head + high + 56.0)
