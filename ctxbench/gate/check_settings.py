"""The settings of a check: tolerances, pins, how much may be lost, and how sure a verdict must be."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ctxbench.bench.metrics import FORBIDDEN_OFFERED, Metric, parse_metric
from ctxbench.core.errors import ParameterError

PRICES = ("tokens", "total_tokens")  # judged always: what is no longer searched may still be sent, and paid for
METRICS = ("completeness", "recall", *PRICES)  # judged where nothing else is asked
ALLOWED = 0.0025  # share of the queries in need that may lose one required item net; see reports/gate.md


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The largest difference of two means that counts as the same.

    Attributes:
        amount: in the unit of the metric, or a share of the base's mean; >= 0.
        relative: whether it is a share of the base's mean.
    """

    amount: float
    relative: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.amount) and self.amount >= 0):
            raise ParameterError(f"a tolerance must be 0 or more, got {self.amount}")

    @classmethod
    def default(cls, metric: Metric) -> Tolerance:
        """The default of a metric: 0.01 for yes/no and shares, 5% of the base's mean for amounts."""
        return cls(0.05, relative=True) if metric.declaration.scale == "amount" else cls(0.01)

    def of(self, base: float) -> float:
        """The tolerance in the unit of the metric, given the mean of the base."""
        return self.amount * abs(base) if self.relative else self.amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What must hold for a query, or for every query with a tag, whatever the metrics say.

    Attributes:
        query, tag: one of them is given, the other is empty.
        must_include, must_not_include: item ids.
        at_most_items, at_most_tokens: of what is offered, session items not counted; None = any number.
        dataset, selector: where it holds; empty = wherever the query or the tag is, for every selector.
        line: where it stands in the gate file; 0 = in none.
    """

    query: str = ""
    tag: str = ""
    must_include: tuple[str, ...] = ()
    must_not_include: tuple[str, ...] = ()
    at_most_items: int | None = None
    at_most_tokens: int | None = None
    dataset: str = ""
    selector: str = ""
    line: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class CheckSettings:
    """The settings of a check.

    Attributes:
        metrics: judged, in order; see `judged`.
        tolerances: by metric; `Tolerance.default` for those that are missing.
        confidence: 1 - alpha of tests and the level of intervals, above 0.5 and below 1.
        max_lost_required: how many more required items a selector may lose on a dataset than it gains; None = one for
            every 400 queries that need something, at least 1.
        repeats: how often every query is asked of a selector outside, 1 to 100.
        latency_tolerance: how much longer than at the base a request may take and still count as the same, as a share
            of the time at the base, >= 0; read only where latency is asked for.
        pins: in the order of the file.
        allow_removed: leave out queries that are gone, changed or relabelled instead of refusing to judge, and let
            required items be gone (`unmet`).
        seed: of resampling.
    """

    metrics: tuple[Metric, ...] = field(default_factory=lambda: tuple(map(parse_metric, METRICS)))
    tolerances: Mapping[Metric, Tolerance] = field(default_factory=dict)
    confidence: float = 0.95
    max_lost_required: int | None = None
    repeats: int = 1
    latency_tolerance: float = 0.25
    pins: tuple[Pin, ...] = ()
    allow_removed: bool = False
    seed: int = 0

    def judged(self, measured: Collection[Metric]) -> tuple[Metric, ...]:
        """The metrics to judge: those named, and `forbidden_offered` where it is among the `measured`."""
        added = [FORBIDDEN_OFFERED] * (FORBIDDEN_OFFERED in measured)
        return tuple(dict.fromkeys([*self.metrics, *added]))

    def tolerance(self, metric: Metric) -> Tolerance:
        """The tolerance of a metric; `total_tokens` has that of `tokens` where it has none of its own."""
        own = self.tolerances.get(metric)
        if own is None and str(metric) in PRICES:
            own = self.tolerances.get(parse_metric(PRICES[0]))
        return own or Tolerance.default(metric)

    def allowed(self, in_need: int) -> int:
        """How many more required items may be lost than gained, given how many queries need something."""
        return max(1, math.floor(ALLOWED * in_need)) if self.max_lost_required is None else self.max_lost_required
