"""Queries that come in groups, such as paraphrases: what an interval by query covers, and one by group."""

from __future__ import annotations

import numpy as np
from coverage_drawn import REQUIRED

from ctxbench.evaluation.comparisons import by_group, grouped_compare, grouped_estimate, worth
from ctxbench.evaluation.statistics import hall_bounds, wilson_bounds
from ctxbench.model.arrays import FloatArray, IntArray

SIZE = 3  # queries a group: the request and two paraphrases
RHOS = (0.2, 0.5, 0.8)  # correlation of two answers of one group
SIGMA = 0.6  # of the logarithm of tokens


def group_sizes(n: int) -> IntArray:
    """Groups of `SIZE`, and a last one of what is left."""
    return np.array([SIZE] * (n // SIZE) + [n % SIZE] * (n % SIZE > 0), dtype=np.int64)


def uneven_sizes(n: int) -> IntArray:
    """Groups of 30, 15, 10, 8, ... (30 / place), then single queries: some are large, as in `bfcl-live`."""
    sizes: list[int] = []
    while (left := n - sum(sizes)) > 0:
        sizes.append(min(left, max(1, round(30 / (len(sizes) + 1)))))
    return np.array(sizes, dtype=np.int64)


def successes(rng: np.random.Generator, sizes: IntArray, p: float, *, rho: float, draws: int) -> IntArray:
    """Complete queries by group, shape (draws, n_groups): beta-binomial, mean p a query, correlation rho within."""
    size = 1 / rho - 1
    return rng.binomial(sizes, rng.beta(p * size, (1 - p) * size, (draws, len(sizes))))


def grouped_coverage(sizes: IntArray, p: float, *, rho: float, draws: int, seed: int) -> tuple[float, float]:
    """Coverage of Wilson's interval by query, and at the size that the sample is worth."""
    n = int(sizes.sum())
    rng = np.random.default_rng([seed, n, len(sizes), round(1000 * p), round(100 * rho)])
    complete = successes(rng, sizes, p, rho=rho, draws=draws)
    by_query, by_group = (wilson_bounds(complete.sum(axis=1) / n, size) for size in (float(n), worth(complete, sizes)))
    return _coverage(by_query, p), _coverage(by_group, p)


def _coverage(bounds: tuple[FloatArray, FloatArray], truth: float) -> float:
    low, high = bounds
    return float(((low <= truth) & (truth <= high)).mean())


def grouped_tokens(sizes: IntArray, *, rho: float, draws: int, seed: int) -> tuple[float, float]:
    """Coverage of the interval of mean tokens by query, and by group: lognormal, with correlated logarithms."""
    n, groups = int(sizes.sum()), len(sizes)
    group = np.repeat(np.arange(groups), sizes)
    rng = np.random.default_rng([seed, n, groups, round(100 * rho), 1])
    covered = np.zeros(2)
    for _ in range(draws):
        logs = rng.normal(0, np.sqrt(rho), groups)[group] + rng.normal(0, np.sqrt(1 - rho), n)
        values = np.exp(SIGMA * logs - SIGMA**2 / 2)
        for row, sample in enumerate((values, by_group(values, group))):
            low, high = hall_bounds(np.sort(sample))
            covered[row] += low <= 1.0 <= high
    return float(covered[0] / draws), float(covered[1] / draws)


def grouped_recall(sizes: IntArray, p: float, *, rho: float, draws: int, seed: int) -> tuple[float, float]:
    """Coverage of the interval of mean recall by query, and by group: items are found with a chance that groups share.

    Queries need 1 to 4 items, as `REQUIRED` has it.
    """
    group = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng([seed, len(group), len(sizes), round(1000 * p), round(100 * rho), 2])
    covered = np.zeros(2)
    for _ in range(draws):
        chance = rng.beta(p * (1 / rho - 1), (1 - p) * (1 / rho - 1), len(sizes))
        needed = rng.choice(np.arange(1, len(REQUIRED) + 1), len(group), p=REQUIRED)
        values = rng.binomial(needed, chance[group]) / needed
        for row, groups in enumerate((np.arange(len(group)), group)):
            interval = grouped_estimate(values, groups, scale="share").interval
            covered[row] += interval.low <= p <= interval.high
    return float(covered[0] / draws), float(covered[1] / draws)


def grouped_differences(sizes: IntArray, lost: float, won: float, *, rho: float, draws: int, seed: int) -> FloatArray:
    """Comparisons of completeness where queries are lost or won with chances that groups share.

    Returns:
        Rows: by query, by group. Columns: how often the interval holds the true difference, how often it is
        significant at 5%.
    """
    group = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng([seed, len(group), len(sizes), round(1000 * lost), round(1000 * won), round(100 * rho)])
    chances = np.array([lost, won, 1 - lost - won])
    totals = np.zeros((2, 2))
    for _ in range(draws):
        shares = rng.dirichlet(chances * (1 / rho - 1), len(sizes))
        drawn, ends = rng.random(len(group)), shares.cumsum(axis=1)[group]
        before = (drawn < ends[:, 0]).astype(np.float64)
        after = ((drawn >= ends[:, 0]) & (drawn < ends[:, 1])).astype(np.float64)
        for row, groups in enumerate((np.arange(len(group)), group)):
            result = grouped_compare(before, after, groups, scale="yes/no")
            totals[row] += result.interval.low <= won - lost <= result.interval.high, result.significant
    return totals / draws
