"""A choice among some hundred thousand settings, and what intervals of the chosen one cover on either split.

A made-up population of queries, so that the means of every setting are known. Of each sample one half is tuned on, as
`tune` does it with the exact sweep; the other half is the test split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.statistics import LEVEL, estimate
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.model.candidates import RANKED, Candidates, Mode, Origin
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from ctxbench.selectors.selector import Value
from ctxbench.tuning.cut_families import FixedK, StandardMargin, sweep
from ctxbench.tuning.measures import Measure
from ctxbench.tuning.policy import Constraint, Policy, policy_measures
from ctxbench.tuning.rankings import MeasuredRankings
from ctxbench.tuning.search import Optimum
from ctxbench.tuning.setting_lines import Counts, ThresholdSpan

Cuts: TypeAlias = FixedK | StandardMargin

QUERIES, ITEMS, DEPTH = 20_000, 300, 30
NS = (50, 100, 300)
SAMPLES = 300
STRICT = 0.98
COMPLETE, TOKENS = Metric("completeness"), Metric("tokens")


def _policy(name: str, about: str, constraint: Constraint) -> Policy:
    minimise = constraint.metric == COMPLETE
    aim = {"minimise": TOKENS} if minimise else {"maximise": COMPLETE}
    return Policy.of(name, about=about, constraints=(constraint,), **aim)


ENOUGH = _policy("enough", "fewest tokens, completeness >= 0.8", Constraint(metric=COMPLETE, at_least=0.8))
REACHED = _policy(
    "reached",
    "fewest tokens, completeness >= 0.85 of what is reachable",
    Constraint(metric=COMPLETE, at_least=0.85, of="reachable"),
)
BUDGET = _policy("budget", "highest completeness, tokens <= 1,000", Constraint(metric=TOKENS, at_most=1000))
POLICIES = (ENOUGH, REACHED, BUDGET)
ARMS = tuple((policy, level) for level in (LEVEL, STRICT) for policy in POLICIES)
FIRST = FixedK("k", range(1, DEPTH + 1))
MARGIN = StandardMargin(
    topK=Counts("topK", (100,)),
    topN=Counts("topN", tuple(range(1, 21))),
    includeScore=ThresholdSpan("includeScore", 0.0, 1.0),
    margin=ThresholdSpan("margin", 0.0, 1.0),
)
FAMILIES: Mapping[str, tuple[Cuts, ...]] = {"first k": (FIRST,), "all": (FIRST, MARGIN)}


def population(seed: int) -> MeasuredRankings:
    """Queries with rankings of 30 items.

    The best score is normal, and scores fall by exponential steps whose mean differs from query to query. A query
    needs one item, or two of three in ten; a place is needed in proportion to exp(12 x score), so that scores tell,
    with noise, how far one must go; of one query in twenty a needed item is not ranked. Sizes of items are lognormal,
    sigma 0.6, median 150.
    """
    rng = np.random.default_rng(seed)
    steps = rng.exponential(1.0, (QUERIES, DEPTH)) * rng.lognormal(-3.5, 0.6, (QUERIES, 1))
    scores = np.clip(rng.normal(0.6, 0.1, (QUERIES, 1)), 0.2, 0.95) - np.cumsum(steps, axis=1)
    items = np.argsort(rng.random((QUERIES, ITEMS)), axis=1)
    drawn = 12 * scores + rng.gumbel(size=scores.shape)  # the greatest are drawn in proportion to exp(12 x score)
    needed = np.argsort(-drawn, axis=1)[:, :2]
    unranked = rng.random(QUERIES) < 0.05
    two = rng.random(QUERIES) < 0.3
    catalog = Catalog([Item(type="tool", name=f"tool {number}", server="made-up") for number in range(ITEMS)])
    queries, labels = [], []
    for row in range(QUERIES):
        name = f"q{row}"
        queries.append(DatasetQuery(request=Request(id=name, text="made up"), split="tuning"))
        places = needed[row, : 1 + two[row]]
        wanted = [items[row, DEPTH]] if unranked[row] else items[row, places]
        labels += [Label(name, catalog[int(item)].key, 2) for item in wanted]
    dataset = Dataset(name="made-up", version="1", catalog=catalog, queries=tuple(queries), labels=tuple(labels))
    sizes = np.rint(rng.lognormal(np.log(150), 0.6, ITEMS)).astype(np.int64)
    powers = policy_measures(POLICIES)
    return MeasuredRankings.of(_table(items[:, :DEPTH], scores), Labels.of(dataset, sizes), list(powers), powers=powers)


def _table(items: IntArray, scores: FloatArray) -> Candidates:
    """Rankings as a search gives them."""
    queries, depth = items.shape
    n = queries * depth
    none, zero = np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=np.int64)
    return Candidates(
        start=np.arange(0, n + 1, depth, dtype=np.int64),
        item=items.ravel().astype(np.int64),
        score=scores.ravel(),
        chunk_rank=np.tile(np.arange(depth, dtype=np.int64), queries),
        origin=np.full(n, Origin.SEARCH, dtype=np.int64),
        tier=np.full(n, RANKED, dtype=np.int64),
        mode=np.full(n, Mode.AGENT, dtype=np.int64),
        out=zero,
        query_chunk=zero,
        item_chunk=zero,
        via_item=none,
        shown_from=zero,
        shown_to=none,
        tokens=none,
    )


@dataclass(frozen=True, slots=True)
class Said:
    """What a sample said of one mean of the chosen setting.

    Attributes:
        covered: whether its 95% interval holds the truth.
        optimism: its mean less the truth; of an amount as a share of the truth.
    """

    covered: bool
    optimism: float


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice.

    Attributes:
        met: whether the constraint holds in truth.
        objective: the true mean of the objective.
        said: by sample (`tuning`, `test`), of the constraint's mean and of the objective.
    """

    met: bool
    objective: float
    said: Mapping[str, tuple[Said, Said]]


def choices(
    whole: MeasuredRankings, families: Sequence[Cuts], n: int, *, samples: int, seed: int
) -> list[list[Choice | None]]:
    """Choose on `n` queries for every arm, look at `n` others, and compare with all; None where nothing is chosen.

    Args:
        whole: the population.
        families: which settings there are.
        n: queries of either split.
        samples: how often.
        seed: of the samples.

    Returns:
        By arm, one a sample.
    """
    rng = np.random.default_rng([seed, n])
    rows = []
    for _ in range(samples):
        drawn = rng.choice(whole.n_queries, 2 * n, replace=False)
        tuning, test = (whole.select_queries(_mask(whole.n_queries, part)) for part in (drawn[:n], drawn[n:]))
        settings = chosen(tuning, families)
        sides = {"tuning": tuning, "test": test}
        row = [
            None if values is None else _choice(policy, values, sides, whole)
            for (policy, _), values in zip(ARMS, settings, strict=True)
        ]
        rows.append(row)
    return [list(arm) for arm in zip(*rows, strict=True)]


def chosen(rankings: MeasuredRankings, families: Sequence[Cuts]) -> list[Mapping[str, Value] | None]:
    """The values that each arm comes to."""
    optima = [Optimum(policy, level=level) for policy, level in ARMS]
    for family in families:
        sweep(family, rankings, optima)
    return [None if optimum.best is None else optimum.best.values for optimum in optima]


def measured(rankings: MeasuredRankings, values: Mapping[str, Value]) -> dict[Measure, FloatArray]:
    """All measures by query at a setting."""
    return (FIRST if FIRST.n in values else MARGIN).by_query(rankings, values)


def _choice(
    policy: Policy, values: Mapping[str, Value], sides: Mapping[str, MeasuredRankings], whole: MeasuredRankings
) -> Choice:
    limit, aim = Optimum(policy).limits[0], Measure(policy.objective)
    true = {m: float(np.nanmean(each)) for m, each in measured(whole, values).items()}
    by_side = {name: measured(side, values) for name, side in sides.items()}
    said = {name: (_said(of, limit.measure, true), _said(of, aim, true)) for name, of in by_side.items()}
    return Choice(limit.sign * true[limit.measure] >= limit.sign * limit.target, true[aim], said)


def _said(by_query: Mapping[Measure, FloatArray], measure: Measure, true: Mapping[Measure, float]) -> Said:
    truth, amount = true[measure], measure.metric == TOKENS
    sample = estimate(by_query[measure], scale="amount" if amount else "yes/no")
    unit = truth if amount else 1.0
    return Said(sample.interval.low <= truth <= sample.interval.high, (sample.value - truth) / unit)


def _mask(n: int, rows: IntArray) -> BoolArray:
    mask = np.zeros(n, dtype=np.bool_)
    mask[rows] = True
    return mask
