"""Populations whose means are known, and how often the intervals of samples hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import stats

from ctxbench.evaluation.statistics import Interval, Scale, difference_interval, estimate, wilson_bounds
from ctxbench.model.arrays import FloatArray, IntArray

DRAWS = 10_000
REQUIRED = (0.4, 0.3, 0.2, 0.1)  # shares of queries that need one to four items
TOGETHER = 0.5  # correlation of two items of a query, where its items are found or missed together
_BLOCK = 250  # samples drawn at a time, to bound memory
Lengths: TypeAlias = Callable[[np.random.Generator, tuple[int, int]], IntArray]


def coverage(intervals: Iterator[Interval], truth: float) -> float:
    """The share of intervals that hold the truth."""
    rows = np.array([(interval.low, interval.high) for interval in intervals])
    return float(((rows[:, 0] <= truth) & (truth <= rows[:, 1])).mean())


def count_coverage(n: int, p: float) -> float:
    """Coverage of Wilson's interval for a share of queries: exact, the chances of all counts added up."""
    counts = np.arange(n + 1)
    low, high = wilson_bounds(counts / n, n)
    return float(stats.binom.pmf(counts, n, p)[(low <= p) & (p <= high)].sum())


def blocks(draws: int) -> Iterator[int]:
    """How many samples to draw at a time."""
    for first in range(0, draws, _BLOCK):
        yield min(_BLOCK, draws - first)


def recalls(rng: np.random.Generator, shape: tuple[int, int], p: float, *, together: float) -> FloatArray:
    """Recall by query where each needed item is offered with chance p: mean p whatever the correlation.

    Args:
        rng: source of chance.
        shape: samples and queries.
        p: chance of an item.
        together: correlation of two items of one query, 0 to below 1.
    """
    needed = rng.choice(np.arange(1, len(REQUIRED) + 1), p=REQUIRED, size=shape)
    chance = np.full(shape, p)
    if together:
        worth = 1 / together - 1
        chance = rng.beta(p * worth, (1 - p) * worth, shape)
    return np.asarray(rng.binomial(needed, chance) / needed, dtype=np.float64)


def share_coverage(n: int, p: float, *, together: float, draws: int, seed: int) -> float:
    """Intervals of mean recall."""
    rng = np.random.default_rng([seed, n, round(1000 * p), round(100 * together)])

    def intervals() -> Iterator[Interval]:
        for size in blocks(draws):
            for sample in recalls(rng, (size, n), p, together=together):
                yield estimate(sample, scale="share").interval

    return coverage(intervals(), p)


@dataclass(frozen=True)
class Amount:
    """Prompt tokens by query: the sizes of so many items, added up.

    Attributes:
        about: how many items, in words.
        lengths: draws how many, at least 0.
        mean_length: their expectation.
        sigma: of the logarithm of an item's size; 0.2 to 0.65 in the datasets that ship or are imported.
    """

    about: str
    lengths: Lengths
    mean_length: float
    sigma: float

    @property
    def truth(self) -> float:
        """Mean tokens a query, with sizes of median 1."""
        return self.mean_length * float(np.exp(self.sigma**2 / 2))

    def tokens(self, rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
        """Tokens by query."""
        return added(rng, self.lengths(rng, shape), self.sigma)


def added(rng: np.random.Generator, lengths: IntArray, sigma: float) -> FloatArray:
    """Sums of so many lognormal sizes, of the shape of `lengths`."""
    ends = np.concatenate([[0], np.cumsum(lengths.ravel())])
    sums = np.concatenate([[0.0], np.cumsum(rng.lognormal(0.0, sigma, int(ends[-1])))])
    each: FloatArray = sums[ends[1:]] - sums[ends[:-1]]
    return each.reshape(lengths.shape)


def _geometric(mean: float) -> Lengths:
    return lambda rng, shape: rng.geometric(1 / mean, shape)


AMOUNTS: Mapping[str, Amount] = {
    "first 5": Amount("5 items", lambda _, shape: np.full(shape, 5), 5.0, 0.6),
    "at least 5": Amount(
        "5 items; of three queries in ten 5 and a geometric number of mean 10",
        lambda rng, shape: 5 + rng.geometric(0.1, shape) * (rng.random(shape) < 0.3),
        8.0,
        0.6,
    ),
    "margin": Amount("a geometric number of items, mean 4", _geometric(4.0), 4.0, 0.6),
    "wide margin": Amount(
        "1 and a negative binomial number of items, mean 6, standard deviation 8.8; sizes spread more",
        lambda rng, shape: 1 + rng.negative_binomial(0.5, 0.5 / 6.5, shape),
        7.0,
        1.0,
    ),
    "seldom many": Amount(
        "1 item; 50 of one query in twenty",
        lambda rng, shape: np.where(rng.random(shape) < 0.05, 50, 1),
        3.45,
        0.6,
    ),
}


def amount_coverage(name: str, n: int, *, draws: int, seed: int) -> float:
    """Intervals of mean tokens."""
    amount = AMOUNTS[name]
    rng = np.random.default_rng([seed, n, list(AMOUNTS).index(name), 1])

    def intervals() -> Iterator[Interval]:
        for size in blocks(draws):
            for sample in amount.tokens(rng, (size, n)):
                yield estimate(sample / amount.truth, scale="amount").interval

    return coverage(intervals(), 1.0)


# Shares of queries that one selector loses and that it wins against another
SWITCHES = ((0.02, 0.0), (0.05, 0.0), (0.05, 0.05), (0.1, 0.02), (0.2, 0.1))


def switch_coverage(n: int, lost: float, won: float) -> float:
    """Coverage of the interval of a difference in completeness: all pairs of counts, with their chances."""
    total = 0.0
    for losses in range(n + 1):
        chance = stats.binom.pmf(losses, n, lost)
        if chance < 1e-10:
            continue
        wins = np.arange(n - losses + 1)
        of_wins = stats.binom.pmf(wins, n - losses, won / (1 - lost))
        for won_so_many in wins[of_wins * chance > 1e-10].tolist():
            differences = np.repeat([-1.0, 0.0, 1.0], [losses, n - losses - won_so_many, won_so_many])
            interval = difference_interval(differences, scale="yes/no")
            total += chance * of_wins[won_so_many] * (interval.low <= won - lost <= interval.high)
    return float(total)


@dataclass(frozen=True)
class Pair:
    """Two selectors on the same queries.

    Attributes:
        about: what differs, in words.
        scale: of the values.
        differences: draws other - base by query.
        truth: their mean.
    """

    about: str
    scale: Scale
    differences: Callable[[np.random.Generator, tuple[int, int]], FloatArray]
    truth: float


def _thinned(kept: float) -> Callable[[np.random.Generator, tuple[int, int]], FloatArray]:
    """Recall 0.9 with each found item lost with chance 1 - kept."""

    def differences(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
        needed = rng.choice(np.arange(1, len(REQUIRED) + 1), p=REQUIRED, size=shape)
        before = rng.binomial(needed, 0.9)
        return np.asarray((rng.binomial(before, kept) - before) / needed, dtype=np.float64)

    return differences


def _fewer(share: float, mean: float) -> Callable[[np.random.Generator, tuple[int, int]], FloatArray]:
    """Tokens saved where a share of the queries is offered a geometric number of items less."""

    def differences(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
        fewer = rng.geometric(1 / mean, shape) * (rng.random(shape) < share)
        return -added(rng, fewer, 0.6)

    return differences


_SIZE = float(np.exp(0.6**2 / 2))
PAIRS: Mapping[str, Pair] = {
    "recall, one item in 20 lost": Pair("recall 0.9; one found item in 20 is lost", "share", _thinned(0.95), -0.045),
    "recall, one item in 100 lost": Pair("recall 0.9; one found item in 100 is lost", "share", _thinned(0.99), -0.009),
    "tokens, all differ": Pair("a geometric number of items less, mean 4", "amount", _fewer(1.0, 4), -4 * _SIZE),
    "tokens, half differ": Pair("the same on half of the queries", "amount", _fewer(0.5, 4), -2 * _SIZE),
    "tokens, one in ten differs": Pair("on one query in ten", "amount", _fewer(0.1, 4), -0.4 * _SIZE),
}


def pair_coverage(name: str, n: int, *, draws: int, seed: int) -> float:
    """Intervals of a mean difference; those of tokens in units of the true one."""
    pair = PAIRS[name]
    unit = abs(pair.truth) if pair.scale == "amount" else 1.0
    rng = np.random.default_rng([seed, n, list(PAIRS).index(name), 2])

    def intervals() -> Iterator[Interval]:
        for size in blocks(draws):
            for sample in pair.differences(rng, (size, n)):
                yield difference_interval(sample / unit, scale=pair.scale)

    return coverage(intervals(), pair.truth / unit)
