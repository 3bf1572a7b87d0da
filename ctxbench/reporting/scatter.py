"""Completeness against prompt tokens: coordinates and texts that the template draws as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctxbench.bench.metrics import Metric, parse_metric
from ctxbench.bench.stats import Estimate
from ctxbench.bench.summary import DatasetSummary, SelectorSummary
from ctxbench.reporting import wording
from ctxbench.reporting.axes import Axis, Frame, Tick, log_ticks, nice_step
from ctxbench.reporting.placing import Box, Label, Spot, placed

_LOG_FROM = 20.0  # a larger spread of tokens needs a logarithmic axis


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A selector in the scatter; `below` says that its completeness is below the axis.

    `title` is for a pointer that rests on it and for those who do not see it.
    """

    name: str
    title: str
    x: float
    y: float
    low: float
    high: float
    left: float
    right: float
    is_base: bool
    below: bool
    label: Label


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """Completeness against prompt tokens."""

    frame: Frame
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    points: tuple[Point, ...]
    x_title: str
    y_title: str


def scatter(dataset: DatasetSummary, *, base: str, width: float) -> Scatter | None:
    """Place the selectors of a dataset; None if fewer than two have both figures.

    The axis of tokens is logarithmic where they spread more than 20 times. That of completeness starts where it
    parts the better ones: selectors below half of the best stand at its foot.

    Args:
        dataset: its summary.
        base: the selector that stands out.
        width: of the drawing, in its own units.
    """
    known = [one for one in dataset.selectors if _has(one, "completeness") and _has(one, "tokens")]
    if len(known) < 2:
        return None
    frame = Frame(width, 300.0 if width > 500 else 320.0, 46.0, width - 14.0, 14.0, 300.0 - 42.0)
    best = max(one.estimates["completeness"].value for one in known)
    shown = [one for one in known if one.estimates["completeness"].value >= best / 2]
    low = min(one.estimates["completeness"].interval.low for one in shown)
    step = nice_step(max(1.0 - low, 0.01) / 4)
    floor = max(math.floor(low / step + 1e-9) * step, 0.0)
    if floor == 1.0:
        floor -= step
    x = _token_axis([one.estimates["tokens"].value for one in known], frame)
    y = Axis(floor, 1.0, frame.bottom - 8, frame.top + 8)
    steps = round((1.0 - floor) / step)
    y_ticks = tuple(Tick(y(1.0 - i * step), f"{100 * (1.0 - i * step):.4g}") for i in range(steps + 1))
    placed = [_point(one, x, y, floor, base) for one in known]
    log = ", logarithmic" if x.log else ""
    return Scatter(
        frame=frame,
        x_ticks=tuple(Tick(x(value), f"{value:,.4g}" if value < 1 else f"{value:,.0f}") for value in x.ticks),
        y_ticks=y_ticks,
        points=tuple(_labelled(placed, frame)),
        x_title=f"prompt tokens a query{log}",
        y_title="completeness, %",
    )


def _token_axis(values: Sequence[float], frame: Frame) -> Axis:
    low, high = min(values), max(values)
    if low > 0 and high / low > _LOG_FROM:
        first, last, ticks = log_ticks(low, high, room=int((frame.right - frame.left) / 62))
        return Axis(first, last, frame.left + 10, frame.right - 10, True, ticks)
    step = nice_step((high or 1.0) / max(int((frame.right - frame.left) / 90), 3))
    last = math.ceil(high / step + 0.05) * step if high > 0 else 1.0
    return Axis(0.0, last, frame.left, frame.right - 10, False, tuple(i * step for i in range(round(last / step) + 1)))


def _has(one: SelectorSummary, name: str) -> bool:
    return name in one.estimates and one.estimates[name].n > 0


def _interval(metric: Metric, found: Estimate) -> str:
    text = wording.estimate_interval(metric, found)
    return f" ({text})" if text else ""


def _point(one: SelectorSummary, x: Axis, y: Axis, floor: float, base: str) -> Point:
    share, spent = one.estimates["completeness"], one.estimates["tokens"]
    as_share, as_tokens = parse_metric("completeness"), parse_metric("tokens")
    below = share.value < floor
    shown = wording.number(as_share, share.value)
    name = wording.named(one.selector)
    return Point(
        name=f"{name}, {shown}% (below the axis)" if below else name,
        title=f"{name}: complete {shown}%{_interval(as_share, share)}, "
        f"{wording.number(as_tokens, spent.value)} prompt tokens{_interval(as_tokens, spent)}",
        x=x(spent.value),
        y=y(share.value),
        low=y(share.interval.low),
        high=y(share.interval.high),
        left=x(spent.interval.low),
        right=x(spent.interval.high),
        is_base=one.selector == base,
        below=below,
        label=Label(0.0, 0.0),
    )


def _labelled(points: Sequence[Point], frame: Frame) -> list[Point]:
    """Give each point the place of its label."""
    spots = [
        Spot(x=one.x, y=one.y, text=one.name, reach=(one.left, one.high, one.right, one.low), boxes=_drawn(one))
        for one in points
    ]
    return [replace(one, label=label) for one, label in zip(points, placed(spots, frame), strict=True)]


def _drawn(point: Point) -> list[Box]:
    """The boxes that a point and its whiskers take."""
    marker = (point.x - 7, point.y - 7, point.x + 7, point.y + 7)
    if point.below:
        return [marker]
    upright = (point.x - 2, point.high - 1, point.x + 2, point.low + 1)
    return [marker, upright, (point.left - 1, point.y - 2, point.right + 1, point.y + 2)]
