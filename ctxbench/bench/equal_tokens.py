"""Completeness at equal tokens: a strategy compared with the base's own trade of tokens for completeness.

More items make any selector more complete. A strategy pays only if it is more complete than the base would be for as
many tokens, so it is compared with the base at other sizes: the base's curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctxbench.bench.stats import Comparison, compare, difference_interval, sign_flip
from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.errors import ParameterError
from ctxbench.core.stored_pipelines import StoredDomains, StoredRefine, StoredStep
from ctxbench.steps.cut import Margin, Standard

LENGTHS = (*range(31), 40, 50, 75, 100)
_AROUND = 2  # points to either side that the slope of the curve is taken over


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
    """A strategy compared with the base at the strategy's tokens.

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


def refining(steps: Sequence[StoredRefine]) -> tuple[StoredRefine, ...]:
    """Refining steps of a described pipeline, also those of domains, without those that are switched off.

    Off is a step with `enabled: false`; and behind a standard cut a margin of the whole best score, which every score
    above 0 is within, if it may offer as many items as that cut can.
    """
    effective: list[StoredRefine] = []
    for step in steps:
        if isinstance(step, StoredDomains):
            effective.append(
                StoredDomains(tuple((types, refining(domain_steps)) for types, domain_steps in step.domains))
            )
        elif step.values.get("enabled") is not False and not (effective and _leaves_all(step, effective[-1])):
            effective.append(step)
    return tuple(effective)


def _leaves_all(step: StoredStep, before: StoredRefine) -> bool:
    """Whether a step is a margin that leaves out nothing of what the step before it offers."""
    if step.kind != "cut" or not isinstance(before, StoredStep):
        return False
    margin, cut = step.build(), before.build()
    if not isinstance(margin, Margin) or not isinstance(cut, Standard):
        return False
    return margin.of == "ratio" and margin.margin >= 1 and margin.at_most >= cut.topK


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
    spent, completeness = float(tokens.mean()), float(complete[applies].mean())
    if spent > curve.tokens[-1].mean():
        return AtTokens(tokens=spent, complete=completeness, base=math.nan, comparison=None)
    base_complete, base_tokens, slope = _by_lot(curve, spent)
    gained = np.where(applies, complete - base_complete, 0.0) * (len(complete) / applies.sum())
    away = gained - slope * (tokens - base_tokens)
    by_group = away if groups is None else np.bincount(groups, weights=away)
    return AtTokens(
        tokens=spent,
        complete=completeness,
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
    complete, tokens = (
        (1 - share) * values[below] + share * values[above] for values in (curve.complete, curve.tokens)
    )
    return complete, tokens, slope


def _compared(away: FloatArray, seed: int) -> Comparison:
    """The comparison of paired differences that are mostly small."""
    largest = max(float(np.abs(away).max()), 1.0)
    interval = difference_interval(away / largest, scale="share")
    interval = replace(interval, low=interval.low * largest, high=interval.high * largest)
    return replace(compare(np.zeros(len(away)), away, scale="amount", seed=seed), interval=interval)
