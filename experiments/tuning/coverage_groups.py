"""Queries that come in groups, such as paraphrases: what an interval by query covers, and one by group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from coverage_drawn import REQUIRED

from ctxbench.datasets.dataset import Dataset
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.comparisons import by_group, grouped_compare, grouped_estimate, worth
from ctxbench.evaluation.inputs import count_tokens
from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.evaluation.runner import answered
from ctxbench.evaluation.statistics import hall_bounds, wilson_bounds
from ctxbench.io.files import cache_dir
from ctxbench.model.arrays import FloatArray, IntArray
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.selector import PipelineSelector

SIZE = 3  # queries a group: the request and two paraphrases
RHOS = (0.0, 0.2, 0.5, 0.8)  # correlation of two answers of one group
SIGMA = 0.6  # of the logarithm of tokens
FIRST = (1, 5, 20)  # items offered of the ranking of `semantic`


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
    chance = np.full((draws, len(sizes)), p)
    if rho:
        worth = 1 / rho - 1
        chance = rng.beta(p * worth, (1 - p) * worth, chance.shape)
    return rng.binomial(sizes, chance)


def grouped_coverage(sizes: IntArray, p: float, *, rho: float, draws: int, seed: int) -> tuple[float, float]:
    """Coverage of Wilson's interval by query, and at the size that the sample is worth."""
    n = int(sizes.sum())
    rng = np.random.default_rng([seed, n, len(sizes), round(1000 * p), round(100 * rho)])
    found = successes(rng, sizes, p, rho=rho, draws=draws)
    by_query, by_group = (wilson_bounds(found.sum(axis=1) / n, size) for size in (float(n), worth(found, sizes)))
    return _held(by_query, p), _held(by_group, p)


def _held(bounds: tuple[FloatArray, FloatArray], truth: float) -> float:
    low, high = bounds
    return float(((low <= truth) & (truth <= high)).mean())


def grouped_tokens(sizes: IntArray, *, rho: float, draws: int, seed: int) -> tuple[float, float]:
    """Coverage of the interval of mean tokens by query, and by group: lognormal, with correlated logarithms."""
    n, groups = int(sizes.sum()), len(sizes)
    group = np.repeat(np.arange(groups), sizes)
    rng = np.random.default_rng([seed, n, groups, round(100 * rho), 1])
    held = np.zeros(2)
    for _ in range(draws):
        logs = rng.normal(0, np.sqrt(rho), groups)[group] + rng.normal(0, np.sqrt(1 - rho), n)
        values = np.exp(SIGMA * logs - SIGMA**2 / 2)
        for place, sample in enumerate((values, by_group(values, group))):
            low, high = hall_bounds(np.sort(sample))
            held[place] += low <= 1.0 <= high
    return float(held[0] / draws), float(held[1] / draws)


def grouped_recall(sizes: IntArray, p: float, *, rho: float, draws: int, seed: int) -> tuple[float, float]:
    """Coverage of the interval of mean recall by query, and by group: items are found with a chance that groups share.

    Queries need 1 to 4 items, as `REQUIRED` has it.
    """
    group = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng([seed, len(group), len(sizes), round(1000 * p), round(100 * rho), 2])
    held = np.zeros(2)
    for _ in range(draws):
        chance = np.full(len(sizes), p)
        if rho:
            chance = rng.beta(p * (1 / rho - 1), (1 - p) * (1 / rho - 1), len(sizes))
        needed = rng.choice(np.arange(1, len(REQUIRED) + 1), len(group), p=REQUIRED)
        values = rng.binomial(needed, chance[group]) / needed
        for place, own in enumerate((np.arange(len(group)), group)):
            interval = grouped_estimate(values, own, scale="share").interval
            held[place] += interval.low <= p <= interval.high
    return float(held[0] / draws), float(held[1] / draws)


@dataclass(frozen=True, slots=True)
class Told:
    """What a paired comparison says, by query or by group.

    Attributes:
        covered: how often its interval holds the true difference.
        told: how often it tells the two apart at 5%.
    """

    covered: float
    told: float


def grouped_switches(
    sizes: IntArray, lost: float, won: float, *, rho: float, draws: int, seed: int
) -> tuple[Told, Told]:
    """A comparison of completeness by query, and by group: queries are lost or won with chances that groups share."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng([seed, len(group), len(sizes), round(1000 * lost), round(1000 * won), round(100 * rho)])
    chances = np.array([lost, won, 1 - lost - won])
    covered, told = np.zeros(2), np.zeros(2)
    for _ in range(draws):
        own = rng.dirichlet(chances * (1 / rho - 1), len(sizes)) if rho else np.tile(chances, (len(sizes), 1))
        drawn, ends = rng.random(len(group)), own.cumsum(axis=1)[group]
        before = (drawn < ends[:, 0]).astype(np.float64)
        after = ((drawn >= ends[:, 0]) & (drawn < ends[:, 1])).astype(np.float64)
        for place, one in enumerate((np.arange(len(group)), group)):
            found = grouped_compare(before, after, one, scale="yes/no")
            covered[place] += found.interval.low <= won - lost <= found.interval.high
            told[place] += found.significant
    by_query, by_group = (Told(*(float(one[place]) / draws for one in (covered, told))) for place in (0, 1))
    return by_query, by_group


@dataclass(frozen=True, slots=True)
class Observed:
    """The first items of `semantic` on a dataset's tuning split.

    Attributes:
        dataset: which.
        first: how many items are offered.
        queries, groups: of those that need something.
        mean: completeness.
        correlation: of two answers of one group; NaN where all are the same.
        worth: of the completeness, in independent answers.
        tokens: correlation of prompt tokens within a group.
    """

    dataset: str
    first: int
    queries: int
    groups: int
    mean: float
    correlation: float
    worth: float
    tokens: float


def observed(dataset: Dataset) -> list[Observed]:
    """What queries of one group have in common on a dataset's tuning split."""
    embedder = open_embedder("minilm")
    counter = open_counter("o200k", cache=cache_dir())
    resources = LocalResources(Vectors(embedder, VectorStore(embedder.identity)), counter)
    dataset = dataset.split("tuning").judged()
    labels = Labels.of(dataset, count_tokens(counter, dataset.catalog))
    names = np.array([query.id if query.group is None else query.group for query in dataset.queries])
    made = definition("semantic")
    rows = []
    for first in FIRST:
        values = made.values(overrides={"contextTopK": 100, "contextTopN": first, "contextIncludeScore": 1.0})
        selector = PipelineSelector(f"first {first}", made.pipeline(values), resources)
        found = evaluate(
            [parse_metric("completeness"), parse_metric("tokens")],
            labels.evidence(answered(selector, dataset.batch())),
        )
        complete, tokens = found.values()
        applies = ~np.isnan(complete)
        _, group = np.unique(names[applies], return_inverse=True)
        sizes = np.bincount(group)
        rows.append(
            Observed(
                dataset=dataset.name,
                first=first,
                queries=int(applies.sum()),
                groups=len(sizes),
                mean=float(complete[applies].mean()),
                correlation=correlation(complete[applies], group),
                worth=float(worth(np.bincount(group, complete[applies]), sizes)),
                tokens=correlation(tokens[applies], group),
            )
        )
    return rows


def correlation(values: FloatArray, group: IntArray) -> float:
    """Correlation of two values of one group, by analysis of variance; NaN where all values are the same.

    Source: Donner, The intraclass correlation coefficient, Int. Stat. Rev. 54, 1986.
    """
    sizes = np.bincount(group)
    n, groups = len(values), len(sizes)
    means = np.bincount(group, values) / sizes
    between = float((sizes * (means - values.mean()) ** 2).sum()) / (groups - 1)
    inside = float(((values - means[group]) ** 2).sum()) / (n - groups)
    size = (n - float((sizes**2).sum()) / n) / (groups - 1)
    whole = between + (size - 1) * inside
    return (between - inside) / whole if whole > 0 else float("nan")
