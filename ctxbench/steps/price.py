"""Price: what an item is likely to be worth against what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ctxbench.core.candidates import Candidates, rescored
from ctxbench.core.errors import ParameterError, check_range
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy

PROBABILITY = "probability.score"
"""Column: the probability that the price was made of."""

_LEAST = 1e-15  # probabilities nearer to 0 or 1 count as this near


@dataclass(frozen=True)
class Price(Strategy):
    """Order by the log odds of being required less the log of the price: log(p / (1 - p)) - log(tokens + overhead).

    Attributes:
        overhead: tokens that any item costs beside its own, >= 1.

    Stands behind `probability`, whose score stays in the column `probability.score`; a score outside 0 to 1 is an
    error. `chunk_rank` becomes the place in the new order. Session items stay as they are. Empty in, empty out. Cost:
    one logarithm a candidate. Source: ours; the density order of the greedy knapsack (Dantzig, 1957) on the log scale.
    """

    overhead: int = 50
    uses: ClassVar[tuple[str, ...]] = ("tokens",)

    def __post_init__(self) -> None:
        check_range("overhead", self.overhead, 1)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Put the price in the place of the score.

        Raises:
            ParameterError: a score is no probability.
        """
        found = candidates.tier > 0
        probability = np.where(found, candidates.score, np.nan)
        wrong = np.flatnonzero(found & ~((probability >= 0) & (probability <= 1)))
        if len(wrong):
            raise ParameterError(
                f"price needs a probability as score, got {probability[wrong[0]]:g}; put `probability` in front of it"
            )
        table = candidates.with_columns(**{PROBABILITY: probability})
        cost = candidates.prices(resources.tokens(query.batch.catalog))
        score = np.zeros(len(candidates), dtype=np.float64)
        for row in np.flatnonzero(found).tolist():  # one by one: vectorised logarithms differ in the last bit
            p = min(max(float(probability[row]), _LEAST), 1.0 - _LEAST)
            score[row] = math.log(p) - math.log1p(-p) - math.log(int(cost[row]) + self.overhead)
        return rescored(table, score)
