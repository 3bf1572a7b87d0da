"""Which points of a line are drawn, and round ends for axes of shares and amounts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.report.charts.axes import LOG_FROM, nice_step
from ctxbench.report.charts.line_chart import Scale

STEP = 1 / 40  # of an axis: points of a line that lie nearer to each other look like one


def order(xs: FloatArray) -> IntArray:
    """Positions from left to right, ties in their order; NaN is left out."""
    return np.argsort(xs, kind="stable")[: int((~np.isnan(xs)).sum())]


def spread_out(across: FloatArray, up: FloatArray, keep: Iterable[int] = ()) -> IntArray:
    """Positions of the points of a line that are drawn: both ends, those to keep, and others evenly over its length.

    Neighbours are at most `STEP` apart along the two axes together, unless no point lies between them.

    Args:
        across, up: positions along the axes, in the order in which the points are joined; 0 to 1 is what is shown.
        keep: positions that are drawn in any case.
    """
    if not len(across):
        return np.zeros(0, dtype=np.int64)
    steps = np.nan_to_num(np.abs(np.diff(across)) + np.abs(np.diff(up)), nan=0.0, posinf=math.inf)
    required, drawn, gone = {0, len(across) - 1, *keep}, [0], 0.0
    for index, step in enumerate(steps.tolist(), start=1):
        if gone + step > STEP and drawn[-1] != index - 1:
            drawn.append(index - 1)
            gone = 0.0
        gone += step
        if index in required:
            drawn.append(index)
            gone = 0.0
    return np.array(drawn, dtype=np.int64)


def along(scale: Scale, values: FloatArray) -> FloatArray:
    """Positions of values along an axis: 0 at its low end, 1 at its high end; values beyond an end are at the end."""
    low, high, at = scale.low, scale.high, np.clip(values, scale.low, scale.high)
    if scale.log:
        low, high, at = math.log(low), math.log(high), np.log(at)
    return np.asarray((at - low) / (high - low))


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
