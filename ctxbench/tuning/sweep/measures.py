"""Measures: means over queries, which a sweep computes for every setting."""

from __future__ import annotations

from dataclasses import dataclass

from ctxbench.bench.metrics import Metric

REACH = 20  # completeness within reach is that of the first 20 items of the ranking


@dataclass(frozen=True, slots=True, order=True)
class Measure:
    """A mean over queries: of a set metric, over those that it applies to or those of them within reach.

    Attributes:
        metric: a set metric, such as `completeness` or `tokens`.
        reachable: True: only over queries that the first `REACH` items of the ranking make complete. Completeness
            among these is completeness as a share of what is reachable.
        required_type: an item type: only over queries that require an item of it. With `items` it is how many of the
            required items of this type are offered; with any other metric that metric.
    """

    metric: Metric
    reachable: bool = False
    required_type: str = ""

    def __hash__(self) -> int:
        return hash((self.metric.name, self.required_type))  # a sweep looks measures up millions of times

    def __str__(self) -> str:
        name = f"{self.metric} of reachable" if self.reachable else str(self.metric)
        if not self.required_type:
            return name
        return (
            f"required {self.required_type} items"
            if self.counts
            else f"{name} where a {self.required_type} is required"
        )

    @property
    def counts(self) -> bool:
        """Whether it counts the required items of one type that are offered."""
        return bool(self.required_type) and self.metric.name == "items"
