"""Policies: what a preset is to be best at, and what it must keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ctxbench.bench.metrics import Metric

Of: TypeAlias = Literal["", "reachable", "base"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A bound that a mean must reach or stay below.

    Attributes:
        metric: a set metric.
        at_least, at_most: the target; exactly one is given.
        of: empty: the mean itself; `reachable`: a share of what the first 20 items of the base's ranking make complete,
            held against the queries that the first 20 of a selector's own ranking do; `base`: a multiple of what
            the base, the first selector of the file, has with its defaults.
    """

    metric: Metric
    at_least: float | None = None
    at_most: float | None = None
    of: Of = ""

    def __str__(self) -> str:
        sign, target = (">=", self.at_least) if self.at_least is not None else ("<=", self.at_most)
        whose = {"": "", "reachable": " of what is reachable at 20 items", "base": " x the base's"}[self.of]
        return f"{self.metric} {sign} {target:g}{whose}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """An objective under constraints.

    Attributes:
        name: what the preset is called, for example `aggressive`.
        about: one line.
        objective: a set metric.
        minimise: whether less of it is better.
        constraints: all must be met.
    """

    name: str
    about: str
    objective: Metric
    minimise: bool
    constraints: tuple[Constraint, ...] = ()
