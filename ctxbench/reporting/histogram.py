"""Histograms of scores beside thresholds: coordinates and texts that the template draws as inline SVG."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ctxbench.reporting import wording
from ctxbench.reporting.axes import LETTER, LINE, Axis, Frame, Tick, nice_step
from ctxbench.reporting.scores import ScoreGroup

_HEIGHT = 170.0  # of the bars, up and down together


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a histogram, with the words for it."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Line:
    """A threshold."""

    x: float
    label: str
    label_x: float
    label_y: float
    anchor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Scores: what is needed stands up, what is not hangs down."""

    frame: Frame
    middle: float
    bars: tuple[Bar, ...]
    lines: tuple[Line, ...]
    ticks: tuple[Tick, ...]
    counts: tuple[Tick, ...]


def histogram(group: ScoreGroup, *, width: float) -> Histogram:
    """Place the bars of a group of selectors.

    Args:
        group: counts by bin.
        width: of the drawing, in its own units.
    """
    head = 8.0 + LINE * len({one.text for one in group.thresholds})
    frame = Frame(width, head + _HEIGHT + 26.0, 40.0, width - 14.0, head, head + _HEIGHT)
    down = [a + b for a, b in zip(group.other, group.idle, strict=True)]
    up_most, down_most = max(group.required, default=0), max(down, default=0)
    per = (frame.bottom - frame.top) / max(up_most + down_most, 1)
    middle = round(frame.top + up_most * per, 2)
    low, high = float(group.edges[0]), float(group.edges[-1])
    x = Axis(low, high, frame.left, frame.right)
    bars = []
    for i, required in enumerate(group.required):
        left, right = float(group.edges[i]), float(group.edges[i + 1])
        at, wide, span = x(left), max(x(right) - x(left) - 1, 0.5), f"{left:.4g} to {right:.4g}"
        hanging = middle
        if required:
            title = f"{span}: {wording.count(required, 'required item')}"
            bars.append(Bar(at, round(middle - required * per, 2), wide, round(required * per, 2), "required", title))
        for kind, n, words in (
            ("other", group.other[i], "of queries whose best other item scores so"),
            ("idle", group.idle[i], "of queries that need nothing have their best item here"),
        ):
            if n:
                title = f"{span}: {n:,} {words}"
                bars.append(Bar(at, round(hanging, 2), wide, round(n * per, 2), kind, title))
                hanging += n * per
    return Histogram(
        frame=frame,
        middle=middle,
        bars=tuple(bars),
        lines=tuple(_lines(group, x, frame)),
        ticks=_score_ticks(low, high, x, frame),
        counts=_count_ticks(up_most, down_most, per, middle),
    )


def _lines(group: ScoreGroup, x: Axis, frame: Frame) -> list[Line]:
    """One line a value; selectors that share it share the label. Labels stand one below the other."""
    by_value: dict[tuple[float, str], list[str]] = {}
    for threshold in group.thresholds:
        names = by_value.setdefault((threshold.value, threshold.text), [])
        names.append(wording.named(threshold.selector))
    lines = []
    for place, ((value, text), names) in enumerate(sorted(by_value.items())):
        label, at = f"{text} {wording.listed(names)}", x(value)
        fits = at + 6 + len(label) * LETTER < frame.width
        side = (at + 5, "start") if fits else (at - 5, "end")
        lines.append(Line(at, label, round(side[0], 2), 12.0 + LINE * place, side[1]))
    return lines


def _score_ticks(low: float, high: float, x: Axis, frame: Frame) -> tuple[Tick, ...]:
    step = nice_step((high - low) / max(int((frame.right - frame.left) / 62), 2))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(Tick(x(i * step), f"{i * step:.6g}".replace("-", wording.MINUS)) for i in range(first, last + 1))


def _count_ticks(up: int, down: int, per: float, middle: float) -> tuple[Tick, ...]:
    step = max(nice_step(max(up + down, 1) / 5), 1.0)
    ticks = [Tick(round(middle - i * step * per, 2), f"{i * step:,.0f}") for i in range(int(up / step) + 1)]
    return tuple(
        ticks + [Tick(round(middle + i * step * per, 2), f"{i * step:,.0f}") for i in range(1, int(down / step) + 1)]
    )
