"""Times warm requests of base and head in turns, in one process, so that drift of the machine hits both alike.

The base is its pipeline as the baseline describes it, over its catalog; the head is that of this run. Vectors are held
in memory: neither embedding nor the vector store is timed.

What it cannot see: two versions of the code in one process. Both sides run by the code, the model and the files that
are here now, so that only what parameters, steps and catalog do to time shows.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ctxbench.bench.latency.clock import Contender, seconds_in_turns
from ctxbench.bench.progress_listener import Progress
from ctxbench.core.arrays import Float32Array, IntArray
from ctxbench.core.errors import InputError
from ctxbench.core.items import Catalog
from ctxbench.core.requests import Batch, Request
from ctxbench.core.stages import Resources
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.gate.check_settings import CheckSettings
from ctxbench.gate.comparability import items_of
from ctxbench.gate.flat_steps import rebuild_pipeline
from ctxbench.gate.latency_verdicts import LatencySamples, join_latency, judge_latency
from ctxbench.gate.model import Check, LatencyVerdict, Verdict
from ctxbench.gate.plugins import guard_plugins, plugin_steps
from ctxbench.gate.snapshots import SelectorSnapshot

T = TypeVar("T")
REQUESTS = 40  # timed, at most
ROUNDS = 8  # even, so that either side comes first as often


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
    told = partial(_report_progress, progress, f"{head.selector} on {head.dataset}")
    foreign = sorted({*plugin_steps(base.identity.selector), *plugin_steps(head.identity.selector)})
    with guard_plugins(head.selector, foreign, on=f"the requests that were timed on {head.dataset}"):
        taken = seconds_in_turns(both, rounds=ROUNDS, paired=True, progress=told)
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
    found = [why for one in described for way, why in _OUTSIDE.items() if way in one]
    return found[0] if found else "it is a selector outside, of which only the state of now could be timed"


def _report_progress(progress: Progress, what: str, text: str, done: int, total: int) -> None:
    progress(f"{text}, {what}", done, total)


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
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            self._known.update(zip(missing, self._shared.vectors(missing), strict=True))
        return np.stack([self._known[text] for text in texts])

    def _tokens(self, catalog: Catalog) -> IntArray:
        return self.kept(("tokens", catalog.hash), lambda: self._shared.tokens(catalog))


def _base_catalog(base: SelectorSnapshot, head: SelectorSnapshot, dataset: Dataset) -> tuple[Catalog, tuple[str, ...]]:
    """The catalog of the base, or of the head where the texts of the base are not known, with a notice of that."""
    facts, now = ([*one.items.values(), *one.disabled.values()] for one in (base, head))
    if [(one.id, one.hash) for one in facts] == [(one.id, one.hash) for one in now]:
        return dataset.current_catalog, ()
    if any(one.row is None for one in facts):
        told = f"latency: {base.source} holds no texts, so that both sides were timed over the catalog of now"
        return dataset.current_catalog, (told,)
    return Catalog(items_of(facts)), ()


def _draw_requests(
    base: SelectorSnapshot, head: SelectorSnapshot, dataset: Dataset, catalog: Catalog, *, seed: int
) -> tuple[Request, ...]:
    """At most `REQUESTS` requests that are the same on both sides and can be answered, drawn by a hash."""
    before = {name: one.asked for name, one in base.queries.items()}
    alike = {name for name, one in head.queries.items() if before.get(name) == one.asked}
    requests = [one.request for one in dataset.queries if one.id in alike]
    ranked = sorted(requests, key=lambda one: (_draw_key(seed, one.id), one.id))
    answerable = (one.id for one in ranked if _can_answer(catalog, one) and _can_answer(dataset.current_catalog, one))
    drawn = set(itertools.islice(answerable, REQUESTS))
    return tuple(one for one in requests if one.id in drawn)


def _restrict_to_catalog(request: Request, catalog: Catalog) -> Request:
    """The request without available items that a catalog lacks."""
    if request.available is None:
        return request
    there = set(catalog.ids)
    return replace(request, available=tuple(one for one in request.available if one.id in there))


def _draw_key(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogatepass")).digest()


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
