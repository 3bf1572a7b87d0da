"""Judges the times of requests at base and head by the size of their ratio and by a rank test; times nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctxbench.bench.stats import holm
from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import ParameterError
from ctxbench.gate.check_settings import CheckSettings
from ctxbench.gate.model import Check, LatencyVerdict, SelectorCheck, Verdict

_MIN_REQUESTS = 6  # requests that a rank test can tell anything from at 0.05, two-sided: 2 / 2^6 <= 0.05 < 2 / 2^5
_ROUNDING = 1e-12  # of logarithms: ratios this far beyond the tolerance are within it


@dataclass(frozen=True, eq=False, kw_only=True)
class LatencySamples:
    """Times of the same requests on both sides.

    Attributes:
        queries: their ids, at least one.
        base, head: seconds, shape (n_queries, n_rounds), above 0.
        notices: on what terms they were taken, a sentence each.
    """

    queries: tuple[str, ...]
    base: FloatArray
    head: FloatArray
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = (len(self.queries), self.base.shape[-1])
        if not self.queries or self.base.shape != shape or self.head.shape != shape or not shape[1]:
            shapes = f"{self.base.shape} and {self.head.shape}"
            raise ParameterError(f"times must be of shape (queries, rounds), neither of them 0, got {shapes}")
        if not all(np.all(np.isfinite(side) & (side > 0)) for side in (self.base, self.head)):
            raise ParameterError("times must be finite and above 0")


def judge_latency(samples: Sequence[LatencySamples], settings: CheckSettings) -> list[LatencyVerdict]:
    """Judge times of all selectors on all datasets of a check, p-values Holm-corrected over all of them.

    A request's time is its median over rounds; what is judged is the ratio of head to base, one a request.

    * same: the estimate of the ratio is within the tolerance, from 1 / (1 + t) to 1 + t; or it is below, and ranks do
      not tell the two apart.
    * worse, better: it is beyond, and ranks tell the two apart.
    * cannot tell: it is above, and they do not, or there are fewer than 6 requests, which no ranks could tell apart.

    Args:
        samples: of each.
        settings: tolerance and confidence.
    """
    ratios = [_log_ratios(one) for one in samples]
    p_values = [rank_test(one) for one in ratios]
    corrected = holm(p_values).tolist()
    alpha = round(1.0 - settings.confidence, 12)
    return [
        _latency_verdict(one, logs, (p, p_holm), tolerance=settings.latency_tolerance, alpha=alpha)
        for one, logs, p, p_holm in zip(samples, ratios, p_values, corrected, strict=True)
    ]


def _log_ratios(samples: LatencySamples) -> FloatArray:
    """The logarithm of each request's ratio of times, head to base, shape (n_queries,)."""
    return np.log(np.median(samples.head, axis=1) / np.median(samples.base, axis=1))


def _latency_verdict(
    samples: LatencySamples, logs: FloatArray, p_values: tuple[float, float], *, tolerance: float, alpha: float
) -> LatencyVerdict:
    centre, low, high = hodges_lehmann(logs, alpha=alpha)
    told = len(logs) >= _MIN_REQUESTS and p_values[1] <= alpha
    if abs(centre) <= math.log1p(tolerance) + _ROUNDING:
        verdict = Verdict.SAME
    elif centre > 0:
        verdict = Verdict.WORSE if told else Verdict.CANNOT_TELL
    else:
        verdict = Verdict.BETTER if told else Verdict.SAME
    sides = (samples.base, samples.head)
    base_s, head_s = (float(np.median(np.median(side, axis=1))) for side in sides)
    base, head = (tuple(map(tuple, side.tolist())) for side in sides)
    return LatencyVerdict(
        verdict=verdict,
        queries=samples.queries,
        base=base,
        head=head,
        base_s=base_s,
        head_s=head_s,
        ratio=math.exp(centre),
        low=math.exp(low),
        high=math.exp(high),
        p=p_values[0],
        p_holm=p_values[1],
        tolerance=tolerance,
        notices=samples.notices,
    )


def rank_test(differences: FloatArray) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test, 1 where nothing differs.

    Args:
        differences: shape (n,), n >= 1, finite. Zeros are ranked and then left out (Pratt 1959).
    """
    from scipy.stats import wilcoxon  # a check without latency does without it

    if not np.any(differences):
        return 1.0
    return float(wilcoxon(differences, zero_method="pratt").pvalue)


def hodges_lehmann(differences: FloatArray, *, alpha: float) -> tuple[float, float, float]:
    """The centre of differences that lie symmetrically about it, with its confidence interval.

    The median of all n (n + 1) / 2 means of two (each with itself, too), and of these in rising order the k-th from
    either end: k is the largest number with P(W <= k - 1) <= alpha / 2, W the sum of ranks of positive signs if either
    sign is as likely. Without such a k, the interval is the whole line.

    Args:
        differences: shape (n,), n >= 1, finite.
        alpha: 1 - the level of the interval.

    Source: Hodges and Lehmann, Estimates of location based on rank tests, Ann. Math. Statist. 34, 1963; Hollander and
        Wolfe, Nonparametric Statistical Methods, 2nd edition, 3.2 and 3.3.
    """
    n = len(differences)
    first, second = np.triu_indices(n)
    means = np.sort((differences[first] + differences[second]) / 2.0)
    ways = np.ones(1)  # by sum of ranks, how many choices of signs give it; exact in floating point up to n = 53
    for rank in range(1, n + 1):
        ways = np.append(ways, np.zeros(rank)) + np.append(np.zeros(rank), ways)
    k = int(np.searchsorted(np.cumsum(ways), alpha / 2.0 * 2.0**n, side="right"))
    centre = float(np.median(means))
    return (centre, float(means[k - 1]), float(means[-k])) if k else (centre, -math.inf, math.inf)


# ---------------------------------------------------------------------------------------------- joined to a check


def join_latency(check: Check, latencies: Mapping[tuple[str, str], LatencyVerdict | str]) -> Check:
    """Add latencies to a check and its verdicts.

    Args:
        check: without latency.
        latencies: by dataset and selector, what was judged, or why nothing was timed.
    """
    return replace(check, selectors=tuple(_join_selector(one, latencies) for one in check.selectors))


def _join_selector(check: SelectorCheck, latencies: Mapping[tuple[str, str], LatencyVerdict | str]) -> SelectorCheck:
    found = latencies.get((check.dataset, check.selector))
    if found is None:
        return check
    if isinstance(found, str):
        return replace(check, notices=(*check.notices, f"latency was not timed: {found}"))
    verdict = min(check.verdict, found.verdict, key=lambda one: one.severity)
    reasons = (
        *(check.reasons if check.verdict is verdict else ()),
        *([_reason(found)] if found.verdict is verdict else []),
    )
    return replace(check, verdict=verdict, reasons=reasons, notices=(*check.notices, *found.notices), latency=found)


def _reason(found: LatencyVerdict) -> str:
    what = f"a request takes {found.ratio:.2f} times as long as at the base"
    allowed = f"the {found.tolerance * 100:.4g}% tolerated"
    n = len(found.queries)
    requests = f"{n} request{'' if n == 1 else 's'}"
    untold = f"but not told apart from chance on {requests} (p = {found.p_holm:.2g})"
    match found.verdict:
        case Verdict.SAME if found.ratio * (1 + found.tolerance) < 1 - _ROUNDING:
            return f"{what}: for the better by more than {allowed}, {untold}"
        case Verdict.SAME:
            return f"{what}, within {allowed}"
        case Verdict.CANNOT_TELL:
            return f"{what}: beyond {allowed}, {untold}"
        case _:
            return f"{what}, beyond {allowed}, p = {found.p_holm:.2g} on {requests}"
