"""The settings of a check: tolerances, pins, how much may be lost, and how sure a verdict must be."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ctxbench.bench.metrics import FORBIDDEN_OFFERED, Metric, parse_metric
from ctxbench.core.errors import ParameterError

PRICES = ("tokens", "total_tokens")  # judged always: what is no longer searched may still be sent, and paid for
METRICS = ("completeness", "recall", *PRICES)  # judged where nothing else is asked
DEMANDS = ("must_include", "must_not_include", "at_most_items", "at_most_tokens")
PIN_KEYS = ("query", "tag", "dataset", "selector", *DEMANDS)
LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.5, 0.999  # beyond it nearly nothing is ever judged worse
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

    def __str__(self) -> str:
        return f"{self.amount * 100:g}%" if self.relative else f"{self.amount:g}"

    @classmethod
    def default(cls, metric: Metric) -> Tolerance:
        """The default of a metric: 0.01 for yes/no and shares, 5% of the base's mean for amounts."""
        return cls(0.05, relative=True) if metric.declaration.scale == "amount" else cls(0.01)

    @property
    def as_json(self) -> float | dict[str, float]:
        """The amount, or the share as `{"share": 0.05}`."""
        return {"share": self.amount} if self.relative else self.amount

    @classmethod
    def from_json(cls, value: Any) -> Tolerance:
        """The tolerance that `as_json` wrote."""
        return cls(value["share"], relative=True) if isinstance(value, Mapping) else cls(value)

    def of(self, base: float) -> float:
        """The tolerance in the unit of the metric, given the mean of the base."""
        return self.amount * abs(base) if self.relative else self.amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A demand on the offer of a query, or of every query with a tag, independent of metrics.

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

    def as_dict(self) -> dict[str, Any]:
        """As a gate file has it, without what it does not say."""
        values = {name: getattr(self, name) for name in PIN_KEYS}
        lists = {name: [*value] for name, value in values.items() if isinstance(value, tuple) and value}
        return {name: lists.get(name, value) for name, value in values.items() if value not in ("", (), None)}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Pin:
        """The pin that `as_dict` wrote; see `CheckSettings.from_dict`."""
        query, tag, dataset, selector = (str(row.get(name, "")) for name in PIN_KEYS[:4])
        include, exclude = (tuple(map(str, row.get(name, ()))) for name in DEMANDS[:2])
        items, tokens = (None if row.get(name) is None else int(row[name]) for name in DEMANDS[2:])
        return cls(
            query=query,
            tag=tag,
            dataset=dataset,
            selector=selector,
            must_include=include,
            must_not_include=exclude,
            at_most_items=items,
            at_most_tokens=tokens,
        )

    def covers(self, pin: Pin, renamed: Mapping[str, str]) -> bool:
        """Whether this pin demands all that another one does, wherever that one holds.

        Args:
            pin: the pin that must not be weakened.
            renamed: ids of items that go on under another id, old to new.
        """
        same_queries = (self.query, self.tag) == (pin.query, pin.tag)
        as_wide = self.dataset in ("", pin.dataset) and self.selector in ("", pin.selector)
        item_sets = {*self.must_include}, {*self.must_not_include}
        pin_items = pin.must_include, pin.must_not_include
        named = all(
            item in item_set or renamed.get(item) in item_set
            for item_set, items in zip(item_sets, pin_items, strict=True)
            for item in items
        )
        limits = (
            (self.at_most_items, pin.at_most_items),
            (self.at_most_tokens, pin.at_most_tokens),
        )
        limited = all(before is None or (limit is not None and limit <= before) for limit, before in limits)
        return same_queries and as_wide and named and limited

    def demands(self) -> Iterator[Pin]:
        """This pin as pins of one demand each."""
        bare = replace(self, must_include=(), must_not_include=(), at_most_items=None, at_most_tokens=None)
        yield from (replace(bare, must_include=(item,)) for item in self.must_include)
        yield from (replace(bare, must_not_include=(item,)) for item in self.must_not_include)
        if self.at_most_items is not None:
            yield replace(bare, at_most_items=self.at_most_items)
        if self.at_most_tokens is not None:
            yield replace(bare, at_most_tokens=self.at_most_tokens)


@dataclass(frozen=True, eq=False, kw_only=True)
class CheckSettings:
    """The settings of a check.

    Attributes:
        metrics: judged, in order; see `judged`.
        tolerances: by metric; `Tolerance.default` for those that are missing.
        confidence: 1 - alpha of tests and the level of intervals, above `LEAST_CONFIDENCE`, at most `MOST_CONFIDENCE`.
        max_lost_required: how many more required items a selector may lose on a dataset than it gains; None = one for
            every 400 queries that need something, at least 1.
        repeats: how often every query is asked of a selector outside, 1 to 100.
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
    pins: tuple[Pin, ...] = ()
    allow_removed: bool = False
    seed: int = 0

    def judged(self, measured: Collection[Metric]) -> tuple[Metric, ...]:
        """The metrics to judge: those named, and `forbidden_offered` where it is among the `measured`."""
        added = [FORBIDDEN_OFFERED] * (FORBIDDEN_OFFERED in measured)
        return tuple(dict.fromkeys([*self.metrics, *added]))

    def tolerance(self, metric: Metric) -> Tolerance:
        """The tolerance of a metric; `total_tokens` has that of `tokens` by default."""
        tolerance = self.tolerances.get(metric)
        if tolerance is None and str(metric) in PRICES:
            tolerance = self.tolerances.get(parse_metric(PRICES[0]))
        return tolerance or Tolerance.default(metric)

    def allowed(self, in_need: int) -> int:
        """How many more required items may be lost than gained, given how many queries need something."""
        return max(1, math.floor(ALLOWED * in_need)) if self.max_lost_required is None else self.max_lost_required

    def as_dict(self) -> dict[str, Any]:
        """All that decides a verdict, with defaults filled in, as a baseline keeps it."""
        unnamed = [metric for metric in (FORBIDDEN_OFFERED,) if metric not in self.metrics]
        return {
            "metrics": {str(metric): self.tolerance(metric).as_json for metric in self.metrics},
            "not_named": {str(metric): self.tolerance(metric).as_json for metric in unnamed},
            "confidence": self.confidence,
            "max_lost_required": self.max_lost_required,
            "repeats": self.repeats,
            "seed": self.seed,
            "pins": [pin.as_dict() for pin in self.pins],
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> CheckSettings:
        """The settings that `as_dict` wrote; a `LookupError`, `TypeError` or `ValueError` for anything else."""
        rows = {**row["metrics"], **row["not_named"]}
        tolerances = {parse_metric(name): Tolerance.from_json(value) for name, value in rows.items()}
        max_lost = row["max_lost_required"]
        return cls(
            metrics=tuple(map(parse_metric, row["metrics"])),
            tolerances=tolerances,
            confidence=float(row["confidence"]),
            max_lost_required=None if max_lost is None else int(max_lost),
            repeats=int(row["repeats"]),
            pins=tuple(map(Pin.from_dict, row["pins"])),
            seed=int(row["seed"]),
        )
