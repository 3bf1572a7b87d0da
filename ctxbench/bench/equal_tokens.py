"""Completeness at equal tokens: a strategy against the base's own trade of tokens for completeness.

More items make any selector more complete. A strategy pays only if it is more complete than the base would be for as
many tokens, so it is held against the base with its own size turned up or down: the base's curve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ctxbench.bench.labels import Labels
from ctxbench.bench.metrics import evaluate, parse_metric
from ctxbench.bench.slices import Slice
from ctxbench.bench.stats import Comparison, compare, difference_interval, sign_flip
from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.errors import ParameterError
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.core.stored_pipelines import StoredDomains, StoredPipeline, StoredRefine, StoredStep
from ctxbench.index.ranked import DEPTH
from ctxbench.steps.cut import Standard
from ctxbench.steps.cut_relative import Margin

LENGTHS = (*range(31), 40, 50, 75, 100)
_AROUND = 2  # points to either side that the slope of the curve is taken over
_METRICS = (parse_metric("completeness"), parse_metric("tokens"))


@dataclass(frozen=True, eq=False)
class Curve:
    """What the base offers, from nothing to much.

    Attributes:
        complete: by setting and query, shape (n_settings, n_queries); NaN where nothing is required.
        tokens: the same shape; a setting's tokens are no fewer than those of the one before, on every query.
    """

    complete: FloatArray
    tokens: FloatArray

    def __post_init__(self) -> None:
        if self.complete.shape != self.tokens.shape or self.tokens.ndim != 2 or len(self.tokens) < 2:
            raise ParameterError(
                f"a curve needs completeness and tokens of two or more settings by query, got shapes "
                f"{self.complete.shape} and {self.tokens.shape}"
            )
        if (np.diff(self.tokens, axis=0) < 0).any():
            raise ParameterError("the tokens of a curve must not fall from one setting to the next")

    def means(self) -> tuple[FloatArray, FloatArray]:
        """Mean tokens and mean completeness of every setting, each of shape (n_settings,)."""
        applies = ~np.isnan(self.complete[0])
        return self.tokens.mean(axis=1), self.complete[:, applies].mean(axis=1)


@dataclass(frozen=True, eq=False, kw_only=True)
class AtTokens:
    """A strategy against the base at the strategy's tokens.

    Attributes:
        tokens: the strategy's mean.
        complete: the strategy's completeness.
        base: that of the base for as many tokens; NaN if its curve ends before.
        comparison: of the two on the same queries; None if the curve ends before.
        p_groups: p-value of the same test on groups of queries in place of queries, not corrected; NaN as above.
    """

    tokens: float
    complete: float
    base: float
    comparison: Comparison | None
    p_groups: float = math.nan


def standard_cut(description: Mapping[str, Any]) -> Standard:
    """The standard cut of a described pipeline.

    Args:
        description: as a run's manifest has it for a selector.

    Raises:
        ParameterError: it is no pipeline that ends with its one standard cut, so that it has no curve.
    """
    pipeline = StoredPipeline.of(description)
    steps = () if pipeline is None else refining(pipeline)
    cut = steps[0].made() if len(steps) == 1 and isinstance(steps[0], StoredStep) else None
    if not isinstance(cut, Standard):
        raise ParameterError("the selector that all are compared with must be a search with one standard cut")
    return cut


def refining(pipeline: StoredPipeline) -> tuple[StoredRefine, ...]:
    """The refining steps of a described pipeline, also those of domains, without those that are switched off.

    Off is a step with `enabled: false`; and behind a standard cut a margin of the whole best score, which every score
    above 0 is within, if it may offer as many items as that cut can.
    """
    return _switched_on(pipeline.refine)


def _switched_on(steps: Sequence[StoredRefine]) -> tuple[StoredRefine, ...]:
    kept: list[StoredRefine] = []
    for step in steps:
        if isinstance(step, StoredDomains):
            kept.append(StoredDomains(tuple((types, _switched_on(own)) for types, own in step.domains)))
        elif step.values.get("enabled") is not False and not (kept and _leaves_all(step, kept[-1])):
            kept.append(step)
    return tuple(kept)


def _leaves_all(step: StoredStep, before: StoredRefine) -> bool:
    """Whether a step is a margin that leaves out nothing of what the step before it offers."""
    if step.kind != "cut" or not isinstance(before, StoredStep):
        return False
    margin, cut = step.made(), before.made()
    if not isinstance(margin, Margin) or not isinstance(cut, Standard):
        return False
    return margin.of == "ratio" and margin.margin >= 1 and margin.at_most >= cut.topK


def own_curve(answers: Slice, cut: Standard, labels: Labels, resources: Resources) -> Curve:
    """The curve of a selector with a standard cut, from its stored answers: nothing, then `LENGTHS` as topN.

    topK grows with topN in the proportion that the cut has, up to the depth of the search, and includeScore stays.
    At the cut's own topN this is what the selector offers.

    Args:
        answers: to every query, with what the cut kept out.
        cut: what they were cut with; topN >= 1.
        labels: of the same queries.
        resources: passed to the cut, which uses none.
    """
    if cut.topN < 1:
        raise ParameterError("a curve in topN needs a cut with topN 1 or more")
    query = Query.of_chunks(labels.dataset.batch(), answers.chunks)
    whole = replace(answers.candidates, out=np.zeros(len(answers.candidates), dtype=np.int64))
    complete, tokens = [], []
    for length in (-1, *LENGTHS):
        if length < 0:
            one = Standard(topK=0, topN=0)
        else:
            reach = max(cut.topK, min(math.ceil(cut.topK / cut.topN * length), DEPTH))
            one = replace(cut, topK=reach, topN=length)
        values = evaluate(_METRICS, labels.evidence(replace(answers, candidates=one(query, whole, resources))))
        complete.append(values[_METRICS[0]])
        tokens.append(values[_METRICS[1]])
    return Curve(np.stack(complete), np.stack(tokens))


def at_equal_tokens(
    complete: FloatArray, tokens: FloatArray, curve: Curve, *, groups: IntArray | None = None, seed: int = 0
) -> AtTokens:
    """Compare a strategy with the base at the strategy's mean tokens.

    The base between two settings is the one or the other by lot, in the proportion that gives as many tokens on
    average. With curve C over mean tokens T and slope b there, each query counts as its difference in completeness
    less b times its difference in tokens: the second part has mean 0 and takes into account that the tokens at which
    the two are compared are known from the same queries only. The test is that of `compare` for amounts, sign flips;
    the interval that of Bonett and Price, since most queries differ by next to nothing and few by one: by simulation
    it covers 93 to 99%, where Hall's t falls to 86%.

    Args:
        complete: of the strategy by query, NaN where nothing is required; shape (n_queries,).
        tokens: of the strategy by query; shape (n_queries,). Queries that need nothing cost tokens, too.
        curve: of the base on the same queries.
        groups: a number for the group of every query, shape (n_queries,); None = each is a group alone.
        seed: of the sign flips.

    Returns:
        The comparison; with no query that requires anything it has n = 0.

    Raises:
        ParameterError: the shapes differ, or a query has no tokens because the selector failed on it.

    Source: ours; the linear form is the delta method.
    """
    if complete.shape != tokens.shape or tokens.shape != curve.tokens.shape[1:]:
        raise ParameterError("strategy and curve must be of the same queries")
    if np.isnan(tokens).any():
        raise ParameterError(
            "a query that failed has no tokens; strategies are compared where all queries were answered"
        )
    applies = ~np.isnan(complete)
    if not applies.any():
        none = compare(complete, complete, scale="amount", seed=seed)
        return AtTokens(
            tokens=float(tokens.mean()) if len(tokens) else 0.0, complete=math.nan, base=math.nan, comparison=none
        )
    spent, own = float(tokens.mean()), float(complete[applies].mean())
    if spent > curve.tokens[-1].mean():
        return AtTokens(tokens=spent, complete=own, base=math.nan, comparison=None)
    base_complete, base_tokens, slope = _by_lot(curve, spent)
    gained = np.where(applies, complete - base_complete, 0.0) * (len(complete) / applies.sum())
    away = gained - slope * (tokens - base_tokens)
    by_group = away if groups is None else np.bincount(groups, weights=away)
    return AtTokens(
        tokens=spent,
        complete=own,
        base=float(base_complete[applies].mean()),
        comparison=_compared(away, seed),
        p_groups=sign_flip(by_group, seed=seed),
    )


def _by_lot(curve: Curve, spent: float) -> tuple[FloatArray, FloatArray, float]:
    """The base with `spent` tokens on average: completeness and tokens by query, and the slope of its curve there."""
    mean_tokens, mean_complete = curve.means()
    below = int(np.flatnonzero(mean_tokens <= spent)[-1])
    above = min(below + 1, len(mean_tokens) - 1)
    width = mean_tokens[above] - mean_tokens[below]
    share = (spent - mean_tokens[below]) / width if width else 0.0
    low, high = max(below - _AROUND, 0), min(above + _AROUND, len(mean_tokens) - 1)
    run = mean_tokens[high] - mean_tokens[low]
    slope = float((mean_complete[high] - mean_complete[low]) / run) if run else 0.0
    complete, tokens = ((1 - share) * one[below] + share * one[above] for one in (curve.complete, curve.tokens))
    return complete, tokens, slope


def _compared(away: FloatArray, seed: int) -> Comparison:
    """The comparison of paired differences that are mostly small."""
    largest = max(float(np.abs(away).max()), 1.0)
    interval = difference_interval(away / largest, scale="share")
    interval = replace(interval, low=interval.low * largest, high=interval.high * largest)
    return replace(compare(np.zeros(len(away)), away, scale="amount", seed=seed), interval=interval)
