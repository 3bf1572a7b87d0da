"""Which points of a line are drawn, and round ends for axes of shares and amounts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.report.charts.axes import LOG_FROM, nice_step
from ctxbench.report.charts.line_chart import Scale

_POINTS = 240  # of a line at most: more than its panel has room for


def order(xs: FloatArray) -> IntArray:
    """Positions from left to right, ties in their order, no more than a panel has room for; NaN is left out."""
    found = np.argsort(xs, kind="stable")[: int((~np.isnan(xs)).sum())]
    if len(found) <= _POINTS:
        return found
    return found[np.unique(np.linspace(0, len(found) - 1, _POINTS).round().astype(np.int64))]


def shares(title: str, values: Sequence[float]) -> Scale:
    """An axis of per cent with some room below the lowest of at least one share and above the highest, in 0 to 1."""
    low, high = min(values), max(values)
    step = nice_step(max(high - low, 0.02) / 4)
    floor, top = math.floor(low / step - 0.2) * step, math.ceil(high / step + 0.2) * step
    return Scale(title, max(floor, 0.0), min(top, 1.0), percent=True)


def upper(values: Sequence[float]) -> list[float]:
    """Those that are at least half of the highest: what an axis must show."""
    return [value for value in values if value >= max(values) / 2]


def amounts(title: str, values: Sequence[float]) -> Scale:
    """An axis of an amount: from 0, or logarithmic where the values spread widely; what is not finite is left out."""
    above = [value for value in values if math.isfinite(value) and value > 0]
    if above and max(above) / min(above) > LOG_FROM:
        low = max(min(above), max(above) / 1e5)
        return Scale(f"{title}, logarithmic", 0.85 * low, 1.15 * max(above), log=True)
    return Scale(title, 0.0, 1.06 * max(above) if above else 1.0)
