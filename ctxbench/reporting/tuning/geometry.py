"""Lines and bands cut to what their axes show, and round ends for axes of shares and amounts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.reporting.axes import nice_step
from ctxbench.reporting.line_chart import Scale

LOG_FROM = 20.0  # a larger spread needs a logarithmic axis
_POINTS = 240  # of a line at most: more than its panel has room for
Line: TypeAlias = tuple[FloatArray, FloatArray]
Band: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]


def order(xs: FloatArray) -> IntArray:
    """Positions from left to right, ties in their order, no more than a panel has room for; NaN is left out."""
    found = np.argsort(xs, kind="stable")[: int((~np.isnan(xs)).sum())]
    if len(found) <= _POINTS:
        return found
    return found[np.unique(np.linspace(0, len(found) - 1, _POINTS).round().astype(np.int64))]


def line_inside(line: Line, x: Scale, y: Scale) -> Line:
    """A line with the points at which it passes the ends of its axes, so that it is drawn up to them.

    Args:
        line: xs, not falling, and ys, each of shape (n,); n may be 0.
        x, y: its axes.
    """
    xs, ys = line
    passed = [end for end in (x.low, x.high) if len(xs) and xs[0] < end < xs[-1]]
    at = np.searchsorted(xs, passed)
    xs, ys = np.insert(xs, at, passed), np.insert(ys, at, np.interp(passed, xs, ys) if passed else [])
    for level in (y.low, y.high):
        at = np.flatnonzero((ys[:-1] - level) * (ys[1:] - level) < 0)
        crossed = xs[at] + (level - ys[at]) / (ys[at + 1] - ys[at]) * (xs[at + 1] - xs[at])
        xs, ys = np.insert(xs, at + 1, crossed), np.insert(ys, at + 1, level)
    return xs, ys


def band_inside(band: Band, x: Scale, y: Scale) -> Band:
    """A band cut where it passes the ends of its axes; the parts that lie wholly above or below are left out.

    Args:
        band: xs, not falling, lows and highs, each of shape (n,); n may be 0. Lows and highs may be infinite.
        x, y: its axes.
    """
    xs = band[0]
    if not len(xs):
        return band
    far = 10 * (y.high - y.low)
    lows, highs = (np.nan_to_num(edge, nan=np.nan, posinf=y.high + far, neginf=y.low - far) for edge in band[1:])
    wanted = np.unique(np.concatenate([xs, *(line_inside((xs, edge), x, y)[0] for edge in (lows, highs))]))
    low, high = np.interp(wanted, xs, lows), np.interp(wanted, xs, highs)
    seen = (high >= y.low - 1e-9) & (low <= y.high + 1e-9)
    return wanted[seen], low[seen], high[seen]


def shares(title: str, values: Sequence[float]) -> Scale:
    """An axis of per cent with some room below the lowest of at least one value and above the highest, in 0 to 100."""
    low, high = min(values), max(values)
    step = nice_step(max(high - low, 2.0) / 4)
    floor, top = math.floor(low / step - 0.2) * step, math.ceil(high / step + 0.2) * step
    return Scale(title, max(floor, 0.0), min(top, 100.0))


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
