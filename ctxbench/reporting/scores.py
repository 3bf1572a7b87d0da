"""Where scores lie beside a threshold: of what a query needs, and of the best item that it does not need."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctxbench.arrays import FloatArray
from ctxbench.candidates import Origin
from ctxbench.evaluation.datasets.dataset import Dataset
from ctxbench.evaluation.metrics import Grade
from ctxbench.evaluation.results import Part
from ctxbench.reporting import wording
from ctxbench.reporting.axes import nice_step
from ctxbench.reporting.drill import Labels

_CUT = "cut:standard"
_BINS = 50


@dataclass(frozen=True, slots=True)
class Threshold:
    """A selector's threshold, and what it comes to."""

    selector: str
    value: float
    sentence: str


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreGroup:
    """Selectors that give every candidate the same score; they differ only in what they make of it.

    Attributes:
        selectors: their names.
        edges: of the bins, shape (n_bins + 1,), rising by equal steps.
        required: scores of required items among the candidates, counted by bin.
        other: the best score of an item that is not labelled needed or helpful, one a query that needs something.
        idle: the best score of a query that needs nothing.
        thresholds: of those selectors that have one.
        sentences: what else a reader must know.
    """

    selectors: tuple[str, ...]
    edges: FloatArray
    required: tuple[int, ...]
    other: tuple[int, ...]
    idle: tuple[int, ...]
    thresholds: tuple[Threshold, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Scores:
    """Scores of one selector; see `ScoreGroup`.

    Attributes:
        required, other, idle: one score each, in no order that matters.
        unseen: required items that are no candidates.
        idle_queries: queries that need nothing, those without candidates included.
        best: the best score of each query, -inf where there is none.
    """

    required: FloatArray
    unseen: int
    other: FloatArray
    idle: FloatArray
    idle_queries: int
    best: FloatArray


def score_groups(dataset: Dataset, parts: Sequence[Part], described: Mapping[str, Any]) -> tuple[ScoreGroup, ...]:
    """Group the scored selectors of a dataset by equal scores, those with a threshold first.

    Args:
        dataset: as it was run.
        parts: the answers, one a selector.
        described: the manifest's selectors.
    """
    judged = dataset.judged()
    labels = Labels.of(judged)
    alike: dict[str, list[Part]] = {}
    for part in parts:
        table = part.answers.candidates
        searched = table.score[table.origin == Origin.SEARCH]
        if part.answers.scored and len(searched) and searched.min() < searched.max():
            digest = hashlib.sha256(table.start.tobytes() + table.item.tobytes() + table.score.tobytes()).hexdigest()
            alike.setdefault(digest, []).append(part)
    groups = [_group(group, _scores(group[0], labels), described) for group in alike.values()]
    return tuple(sorted(groups, key=lambda group: not group.thresholds))


def threshold_of(about: Mapping[str, Any]) -> float | None:
    """The score from which a selector's standard cut always includes; None where it has none, or several.

    Under `by_domain` there is one where every domain is cut by the same.

    Args:
        about: the selector in the manifest.
    """
    found = _includes(_refine(about))
    return found.pop() if len(found) == 1 else None


def _floor_of(about: Mapping[str, Any]) -> float | None:
    """How many items the cut includes below the threshold; None where that is counted for each domain."""
    floors = [float(step["topN"]) for step in _refine(about) if step.get("step") == _CUT]
    return floors[0] if len(floors) == 1 else None


def _refine(about: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The described steps of a pipeline's refine part; none for any other selector."""
    pipeline = None if about.get("outside") else about.get("description", {}).get("pipeline")
    steps: Sequence[Mapping[str, Any]] = pipeline["refine"] if pipeline else ()
    return steps


def _includes(steps: Sequence[Mapping[str, Any]]) -> set[float | None]:
    """The thresholds of all standard cuts among steps; None stands for a domain without one."""
    found: set[float | None] = {float(step["includeScore"]) for step in steps if step.get("step") == _CUT}
    for step in steps:
        for _, own in step.get("domains", ()) if step.get("step") == "by_domain" else ():
            found |= _includes(own) or {None}
    return found


def _scores(part: Part, labels: Labels) -> _Scores:
    table, n = part.answers.candidates, len(part.answers.queries)
    searched = table.origin == Origin.SEARCH
    code = table.request * labels.n_items + table.item
    is_required = searched & np.isin(code, labels.with_grade(Grade.REQUIRED))
    is_other = searched & ~np.isin(code, labels.with_grade(Grade.HELPFUL, Grade.REQUIRED))
    best, best_other = (np.full(n, -np.inf) for _ in range(2))
    np.maximum.at(best, table.request[searched], table.score[searched])
    np.maximum.at(best_other, table.request[is_other], table.score[is_other])
    needing = np.zeros(n, dtype=np.bool_)
    needing[labels.request[labels.grade == Grade.REQUIRED]] = True
    found = np.isfinite(best_other)
    return _Scores(
        required=table.score[is_required],
        unseen=len(np.setdiff1d(labels.with_grade(Grade.REQUIRED), code)),
        other=best_other[found & needing],
        idle=best_other[found & ~needing],
        idle_queries=int((~needing).sum()),
        best=best,
    )


def _group(parts: Sequence[Part], scores: _Scores, described: Mapping[str, Any]) -> ScoreGroup:
    edges = _edges(np.concatenate([scores.required, scores.other, scores.idle]))
    thresholds = []
    for part in parts:
        about = described.get(part.selector, {})
        value = threshold_of(about)
        if value is not None:
            thresholds.append(Threshold(part.selector, value, _sentence(scores, value, _floor_of(about))))
    return ScoreGroup(
        selectors=tuple(part.selector for part in parts),
        edges=edges,
        required=_counts(scores.required, edges),
        other=_counts(scores.other, edges),
        idle=_counts(scores.idle, edges),
        thresholds=tuple(thresholds),
        sentences=tuple(_remarks(scores)),
    )


def _sentence(scores: _Scores, value: float, floor: float | None) -> str:
    """What a threshold comes to on these queries."""

    def reached(some: FloatArray) -> str:
        return f"{int((some >= value).sum()):,} of"

    text = (
        f"The best score of a query is at least {value:g} in {reached(scores.best)} "
        f"{wording.count(len(scores.best), 'query', 'queries')}; {reached(scores.required)} "
        f"{wording.count(len(scores.required) + scores.unseen, 'required item')} score so high"
    )
    if scores.idle_queries:
        nothing = wording.count(scores.idle_queries, "query that needs nothing", "queries that need nothing")
        text += f", and so does the best item of {reached(scores.idle)} {nothing}"
    if floor:
        text += f". Up to {floor:g} items are offered even where no score is that high"
    return f"{text}."


def _remarks(scores: _Scores) -> list[str]:
    if not scores.unseen:
        return []
    return [f"{wording.count(scores.unseen, 'required item')} not among the candidates, and so without a score here."]


def _edges(scores: FloatArray) -> FloatArray:
    """Edges of at most 50 equal bins with round ends that hold all scores; 0 to 1 where the scores lie there."""
    low, high = float(scores.min()), float(scores.max())
    if low >= 0.0 and high <= 1.0 + 1e-6 and high > 0.3:
        low, high = 0.0, 1.0
    step = nice_step((high - low) / _BINS or 1.0)
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    edges: FloatArray = np.arange(first, last + 1, dtype=np.float64) * step
    return edges


def _counts(scores: FloatArray, edges: FloatArray) -> tuple[int, ...]:
    """How many scores lie in each bin, its lower edge included; those on the last edge are in the last bin."""
    step = edges[1] - edges[0]
    place = np.clip(np.floor((scores - edges[0]) / step + 1e-9).astype(np.int64), 0, len(edges) - 2)
    return tuple(np.bincount(place, minlength=len(edges) - 1).tolist())
