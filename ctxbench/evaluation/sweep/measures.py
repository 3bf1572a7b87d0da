"""Measures: the means that a sweep knows of every setting."""

from __future__ import annotations

from dataclasses import dataclass

from ctxbench.evaluation.metrics import Metric

REACH = 20  # completeness within reach is that of the first 20 items of the ranking


@dataclass(frozen=True, slots=True, order=True)
class Measure:
    """A mean over queries: of a set metric, over those that it applies to or those of them within reach.

    Attributes:
        metric: a set metric, such as `completeness` or `tokens`.
        reachable: True: only over queries that the first `REACH` items of the ranking make complete. Completeness
            among these is completeness as a share of what is reachable.
    """

    metric: Metric
    reachable: bool = False

    def __str__(self) -> str:
        return f"{self.metric} of reachable" if self.reachable else str(self.metric)
