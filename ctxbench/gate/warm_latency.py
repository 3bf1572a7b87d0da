"""Times warm requests of base and head in turns, in one process, and judges the times by their ratio and a rank test.

In turns, so that drift of the machine hits both alike.
The base is its pipeline as the baseline describes it, over its catalog; the head is that of this run. Vectors are held
in memory: neither embedding nor the vector store is timed.

What it cannot see: two versions of the code in one process. Both sides run by the code, the model and the files that
are here now, so that only what parameters, steps and catalog do to time shows.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from ctxbench.bench.latency.clock import Contender, seconds_in_turns
from ctxbench.bench.progress_listener import Progress
from ctxbench.bench.stats import holm
from ctxbench.core.arrays import Float32Array, FloatArray, IntArray
from ctxbench.core.errors import InputError, ParameterError
from ctxbench.core.items import Catalog
from ctxbench.core.requests import Batch, Request
from ctxbench.core.stages import Resources
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.gate.check_settings import CheckSettings
from ctxbench.gate.comparability import items_of
from ctxbench.gate.flat_steps import rebuild_pipeline
from ctxbench.gate.model import Check, LatencyVerdict, SelectorCheck, Verdict
from ctxbench.gate.plugins import guard_plugins, plugin_steps
from ctxbench.gate.snapshots import SelectorSnapshot
from ctxbench.io.visible import count

T = TypeVar("T")
REQUESTS = 40  # timed, at most
ROUNDS = 8  # even, so that either side comes first as often
_MIN_REQUESTS = 6  # requests that a rank test can tell anything from at 0.05, two-sided: 2 / 2^6 <= 0.05 < 2 / 2^5
_ROUNDING = 1e-12  # of logarithms: ratios this far beyond the tolerance are within it


def add_latency(
    check: Check,
    pairs: Sequence[tuple[SelectorSnapshot, SelectorSnapshot]],
    settings: CheckSettings,
    *,
    resources: Resources,
    progress: Progress,
) -> Check:
    """Time every pair of snapshots that could be compared, and add the verdicts to the check.

    Selectors that are no pipelines of this package are not timed, nor is a base whose steps cannot be made any more: a
    notice says so.

    Args:
        check: of these pairs.
        pairs: base and head of each selector on each dataset.
        settings: tolerance, confidence, and the seed of what is drawn.
        resources: where vectors and token counts of both sides come from.
        progress: told about every round.

    Raises:
        UserError: a step fails, or a vector of a text of the base is missing and cannot be made.
    """
    compared = {(one.dataset, one.selector) for one in check.selectors if one.verdict is not Verdict.NOT_COMPARABLE}
    timed: dict[tuple[str, str], LatencySamples] = {}
    found: dict[tuple[str, str], LatencyVerdict | str] = {}
    for base, head in pairs:
        key = (head.dataset, head.selector)
        if key in compared:
            taken = time_pair(base, head, seed=settings.seed, resources=resources, progress=progress)
            if isinstance(taken, str):
                found[key] = taken
            else:
                timed[key] = taken
    found.update(zip(timed, judge_latency(list(timed.values()), settings), strict=True))
    return join_latency(check, found)


def time_pair(
    base: SelectorSnapshot, head: SelectorSnapshot, *, seed: int, resources: Resources, progress: Progress
) -> LatencySamples | str:
    """Time at most `REQUESTS` warm requests `ROUNDS` times on either side, in turns; or say why not.

    Args:
        base, head: the two, comparable.
        seed: of the draw among the requests that both sides are asked alike.
        resources: where vectors and token counts of both sides come from.
        progress: told about every round.
    """
    for side in (head, base):
        if side.identity.outside:
            return _untimed_reason(side)
    if head.judged is None:
        return f"{head.source} has no dataset at hand"
    before, now = rebuild_pipeline(base.identity.selector), rebuild_pipeline(head.identity.selector)
    if now is None:
        return "it is not one pipeline"
    if before is None:
        return f"the pipeline that {base.source} describes cannot be made any more"
    before_items, lacking = _base_catalog(base, head, head.judged)
    asked = _draw_requests(base, head, head.judged, before_items, seed=seed)
    if not asked:
        return "no query is asked alike on both sides"
    vectors: dict[str, Float32Array] = {}
    both = {
        side: Contender(
            pipeline=pipeline,
            catalog=items,
            requests=tuple(_restrict_to_catalog(one, items) for one in asked),
            resources=_MemoryResources(resources, known=vectors),
        )
        for side, pipeline, items in (("base", before[0], before_items), ("head", now[0], head.judged.current_catalog))
    }
    foreign = sorted({*plugin_steps(base.identity.selector), *plugin_steps(head.identity.selector)})
    with guard_plugins(head.selector, foreign, on=f"the requests that were timed on {head.dataset}"):
        taken = seconds_in_turns(
            both,
            rounds=ROUNDS,
            paired=True,
            progress=lambda text, done, total: progress(f"{text}, {head.selector} on {head.dataset}", done, total),
        )
    return LatencySamples(
        queries=tuple(one.id for one in asked),
        base=np.array(taken["base"]).T,
        head=np.array(taken["head"]).T,
        notices=(*lacking, *_unseen_differences(base, head, as_described=before[1])),
    )


_OUTSIDE = {
    "answers": "its answers are read from a file, which tells nothing of how long they took",
    "callable": "it is a callable of your own, and no baseline keeps its code to be timed beside that of now",
    "command": "it is a command of your own, and no baseline keeps its program to be timed beside that of now",
    "url": "it is asked over HTTP, and only what answers there now could be timed",
}


def _untimed_reason(side: SelectorSnapshot) -> str:
    """Why a selector of the user cannot be timed in turns with its state at the base."""
    described = [side.identity.selector]
    described += [one for one in side.identity.selector.values() if isinstance(one, Mapping)]  # both of `like`
    found = (why for one in described for way, why in _OUTSIDE.items() if way in one)
    return next(found, "it is a selector outside, of which only the state of now could be timed")


class _MemoryResources(Resources):
    """Resources of one side, which share only vectors with the other side: embedding is not timed.

    Args:
        shared: where vectors and counts come from.
        known: vectors that were asked for so far, of both sides.
    """

    def __init__(self, shared: Resources, *, known: dict[str, Float32Array]) -> None:
        self._shared = shared
        self._known = known
        self._kept: dict[Hashable, object] = {}

    def get(self, name: str) -> Any:
        """See `Resources.get`."""
        own = {"embedder": self._vectors, "tokens": self._tokens}
        return own[name] if name in own else self._shared.get(name)

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """See `Resources.kept`."""
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]  # type: ignore[assignment]
        return found

    def identity(self, name: str) -> str:
        """See `Resources.identity`."""
        return self._shared.identity(name)

    def text_tokens(self, texts: Sequence[str]) -> IntArray:
        """See `Resources.text_tokens`."""
        return self._shared.text_tokens(texts)

    def _vectors(self, texts: Sequence[str]) -> Float32Array:
        if not texts:
            return self._shared.vectors(texts)
        if missing := [text for text in dict.fromkeys(texts) if text not in self._known]:
            self._known.update(zip(missing, self._shared.vectors(missing), strict=True))
        return np.stack([self._known[text] for text in texts])

    def _tokens(self, catalog: Catalog, items: IntArray | None = None) -> IntArray:  # noqa: ARG002 - all are known
        return self.kept(("tokens", catalog.hash), lambda: self._shared.tokens(catalog))


def _base_catalog(base: SelectorSnapshot, head: SelectorSnapshot, dataset: Dataset) -> tuple[Catalog, tuple[str, ...]]:
    """The catalog of the base, or of the head where the texts of the base are not known, with a notice of that."""
    facts, now = (one.all_items.values() for one in (base, head))
    if [(one.id, one.hash) for one in facts] == [(one.id, one.hash) for one in now]:
        return dataset.current_catalog, ()
    if any(one.row is None for one in facts):
        told = f"latency: {base.source} holds no texts, so that both sides were timed over the catalog of now"
        return dataset.current_catalog, (told,)
    return Catalog(items_of([*facts])), ()


def _draw_requests(
    base: SelectorSnapshot, head: SelectorSnapshot, dataset: Dataset, catalog: Catalog, *, seed: int
) -> tuple[Request, ...]:
    """At most `REQUESTS` requests that are the same on both sides and can be answered, drawn by a hash."""
    before, now = ({name: one.asked for name, one in side.queries.items()} for side in (base, head))
    requests = [one.request for one in dataset.queries if one.id in now and before.get(one.id) == now[one.id]]
    drawn_by = {
        one.id: hashlib.sha256(f"{seed}:{one.id}".encode("utf-8", "surrogatepass")).digest() for one in requests
    }
    ranked = sorted(requests, key=lambda one: (drawn_by[one.id], one.id))
    answerable = (one.id for one in ranked if _can_answer(catalog, one) and _can_answer(dataset.current_catalog, one))
    drawn = set(itertools.islice(answerable, REQUESTS))
    return tuple(one for one in requests if one.id in drawn)


def _restrict_to_catalog(request: Request, catalog: Catalog) -> Request:
    """The request without available items that a catalog lacks."""
    if request.available is None:
        return request
    there = set(catalog.ids)
    return replace(request, available=tuple(one for one in request.available if one.id in there))


def _can_answer(catalog: Catalog, request: Request) -> bool:
    """Whether a catalog has all items that a request's session names."""
    try:
        Batch.of(catalog, (_restrict_to_catalog(request, catalog),))
    except InputError:
        return False
    return True


def _unseen_differences(base: SelectorSnapshot, head: SelectorSnapshot, *, as_described: bool) -> Iterator[str]:
    """Notices of differences that the times do not show."""
    one, other = base.identity, head.identity
    if one.embedder != other.embedder and one.embedder:
        yield f"latency: the base was timed with the model of now, not with {one.embedder}"
    if not as_described:
        yield "latency: steps of the base have other code or read other files now, and were timed as they are now"
    elif one.versions.get("code") != other.versions.get("code"):
        yield "latency: the code of ctxbench differs, and both sides were timed by that of now"


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
    ratios = [np.log(np.median(one.head, axis=1) / np.median(one.base, axis=1)) for one in samples]
    p_values = [rank_test(one) for one in ratios]
    corrected = holm(p_values).tolist()
    alpha = round(1.0 - settings.confidence, 12)
    return [
        _latency_verdict(one, logs, (p, p_holm), tolerance=settings.latency_tolerance, alpha=alpha)
        for one, logs, p, p_holm in zip(samples, ratios, p_values, corrected, strict=True)
    ]


def _latency_verdict(
    samples: LatencySamples, logs: FloatArray, p_values: tuple[float, float], *, tolerance: float, alpha: float
) -> LatencyVerdict:
    centre, low, high = hodges_lehmann(logs, alpha=alpha)
    told = len(logs) >= _MIN_REQUESTS and p_values[1] <= alpha
    verdict = Verdict.of(centre, tolerated=abs(centre) <= math.log1p(tolerance) + _ROUNDING, told=told)
    return LatencyVerdict(
        verdict=verdict,
        queries=samples.queries,
        base=tuple(map(tuple, samples.base.tolist())),
        head=tuple(map(tuple, samples.head.tolist())),
        base_s=float(np.median(np.median(samples.base, axis=1))),
        head_s=float(np.median(np.median(samples.head, axis=1))),
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
    requests = count(len(found.queries), "request")
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
