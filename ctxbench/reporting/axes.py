"""Axes of the page's charts: frames, ticks, and the way from values to coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass

LETTER = 6.9  # width of a letter of a label, in units of the drawing
LINE = 15.0  # height of a line of labels


@dataclass(frozen=True, slots=True)
class Frame:
    """A drawing: its size and the box of its axes."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """Turns values into coordinates; values outside come out at the ends.

    Attributes:
        low, high: the values at its ends, low < high.
        first, last: their coordinates.
        log: logarithmic; then low > 0.
        ticks: values to mark.
    """

    low: float
    high: float
    first: float
    last: float
    log: bool = False
    ticks: tuple[float, ...] = ()

    def __call__(self, value: float) -> float:
        """The coordinate of a value, to two decimals."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.first + share * (self.last - self.first), 2)


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `least` (> 0)."""
    power: float = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= least * (1 - 1e-9))


def log_ticks(low: float, high: float, *, room: int) -> tuple[float, float, tuple[float, ...]]:
    """Round ends of a logarithmic axis around two values, and what to mark: 1, 2, 5 times powers of ten.

    Args:
        low, high: 0 < low <= high.
        room: for how many marks; if there were more, the powers of ten alone, and of them every second or so.
    """
    ticks = [m * 10.0**p for p in range(-4, 16) for m in (1, 2, 5)]
    first = max((t for t in ticks if t <= low), default=low)
    last = min((t for t in ticks if t >= high), default=high)
    inside = [t for t in ticks if first <= t <= last]
    if len(inside) > room:
        inside = [t for t in inside if math.isclose(math.log10(t), round(math.log10(t)), abs_tol=1e-9)]
        inside = inside[:: -(-len(inside) // max(room, 1))] if inside else []
    return first, last, tuple(inside)
