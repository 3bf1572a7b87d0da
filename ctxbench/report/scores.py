"""Scores compared with thresholds: of required items, and of the best item that a query does not require."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxbench.bench.answer_rows import Part
from ctxbench.bench.metrics import Grade
from ctxbench.core.arrays import FloatArray
from ctxbench.core.candidates import SEARCHED, Candidates, Origin
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.io.visible import count
from ctxbench.report import wording
from ctxbench.report.charts.axes import nice_step
from ctxbench.report.label_codes import LabelCodes
from ctxbench.report.thresholds import QUANTITIES, Bound, bounds_of

_BINS = 50


@dataclass(frozen=True, slots=True)
class ShownThreshold:
    """A selector's threshold: its parameter, where it lies, what it comes to, and whether some are offered below it."""

    selector: str
    text: str
    value: float
    sentence: str
    floor: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreGroup:
    """Selectors that give every candidate the same score; they differ only in what they make of it.

    Attributes:
        selectors: their names.
        title: what these scores are, and of which items; empty where it is the score of all.
        edges: of the bins, shape (n_bins + 1,), rising by equal steps.
        required: scores of required items among the candidates, counted by bin.
        not_required: the best score of an item that is not labelled required or helpful, one per query with a
            requirement.
        idle: the best score of a query that needs nothing.
        thresholds: of those selectors that have one.
        sentences: what else a reader must know.
        reading: how bars beside thresholds are read; may be empty.
    """

    selectors: tuple[str, ...]
    title: str
    edges: FloatArray
    required: tuple[int, ...]
    not_required: tuple[int, ...]
    idle: tuple[int, ...]
    thresholds: tuple[ShownThreshold, ...]
    sentences: tuple[str, ...]
    reading: str = ""


@dataclass(frozen=True, slots=True)
class _View:
    """What is looked at: a quantity (see `QUANTITIES`) of items of some types; none = all."""

    quantity: str
    types: tuple[str, ...] = ()

    def title(self, present: Collection[str]) -> str:
        """The title of a chart, with those of its types that are `present`."""
        types = wording.listed([item_type for item_type in self.types if item_type in present])
        return ", ".join(filter(None, [QUANTITIES[self.quantity], types]))


@dataclass(frozen=True, eq=False)
class _SelectorScores:
    """Scores of one selector; see `ScoreGroup`.

    Attributes:
        required, not_required, idle: one score each, in any order; scores relative to the best have no idle ones.
        unseen: required items that are no candidates.
        idle_queries: queries that need nothing, those without candidates included.
        best: the best score of each query, -inf where there is none.
    """

    required: FloatArray
    unseen: int
    not_required: FloatArray
    idle: FloatArray
    idle_queries: int
    best: FloatArray

    @property
    def all(self) -> FloatArray:
        """All scores of a chart."""
        return np.concatenate([self.required, self.not_required, self.idle])


def score_groups(dataset: Dataset, parts: Sequence[Part], described: Mapping[str, Any]) -> tuple[ScoreGroup, ...]:
    """Group the scored selectors of a dataset by equal scores, those with a threshold first.

    A threshold that is not compared with the scores of all items (one of a domain, one relative to the best score, one
    of an expansion) has a separate group, with the scores that it is compared with.

    Args:
        dataset: as it was run.
        parts: the answers, one a selector.
        described: the manifest's selectors.
    """
    measured = dataset.measured()
    labels = LabelCodes.of(measured).of_complete()
    types = np.array([item.type for item in measured.catalog], dtype=object)
    alike: dict[tuple[_View, str], list[Part]] = {}
    bounds: dict[tuple[str, _View], list[Bound]] = {}
    for part in parts:
        if not part.answers.scored or not _differ(part):
            continue
        views = [_View("score")]
        for bound in bounds_of(described.get(part.selector, {})):
            view = _View(bound.quantity, bound.types)
            views += [view] if view not in views else []
            bounds.setdefault((part.selector, view), []).append(bound)
        for view in views:
            alike.setdefault((view, _digest(part, view.quantity)), []).append(part)
    groups = []
    for (view, _), members in alike.items():
        scores = _scores(members[0], labels, view, types)
        thresholds = [
            ShownThreshold(part.selector, _text(bound), bound.value, _sentence(scores, bound), _has_floor(bound))
            for part in members
            for bound in bounds.get((part.selector, view), ())
        ]
        groups += [_group(members, scores, view, view.title(set(types)), thresholds)] if len(scores.all) else []
    return tuple(sorted(groups, key=lambda group: not group.thresholds))


def _digest(part: Part, quantity: str) -> str:
    """A hash of what every item of every query scores, whatever else is in the table."""
    digests, first = [hashlib.sha256() for _ in range(3)], 0
    for block in part.answers.blocks():
        table = block.candidates
        value = _quantity(table, quantity)
        rows = np.flatnonzero(~np.isnan(value))
        rows = rows[np.lexsort((table.item[rows], table.request[rows]))]
        for digest, array in zip(digests, (table.request[rows] + first, table.item[rows], value[rows]), strict=True):
            digest.update(array.tobytes())
        first += table.n_requests
    return " ".join(digest.hexdigest() for digest in digests)


def _searched(table: Candidates) -> FloatArray:
    """The score that the search gave each row, shape (n,); NaN where it gave none."""
    before = table.columns.get(SEARCHED, np.full(len(table), np.nan))
    return np.where(table.ranked, table.score, before)


def _differ(part: Part) -> bool:
    """Whether the search gave scores that are not all the same."""
    first = math.nan
    for block in part.answers.blocks():
        scores = _searched(block.candidates)
        scores = scores[~np.isnan(scores)]
        if len(scores):
            first = float(scores[0]) if math.isnan(first) else first
            if np.any(scores != first):
                return True
    return False


def _quantity(table: Candidates, quantity: str) -> FloatArray:
    """The values that thresholds of this quantity are compared with, shape (n,); NaN where a row has none."""
    if quantity == "expansion":
        return np.where((table.origin >= Origin.EXPANSION) & ~table.ranked, table.score, np.nan)
    scores = _searched(table)
    if quantity == "score":
        return scores
    best = np.full(table.n_requests, -np.inf)
    np.fmax.at(best, table.request, scores)
    of_best = best[table.request]
    relative: FloatArray = scores - of_best
    if quantity == "ratio":
        relative = np.divide(scores, of_best, out=np.full(len(table), np.nan), where=of_best > 0)
    return relative


def _scores(part: Part, labels: LabelCodes, view: _View, types: npt.NDArray[np.object_]) -> _SelectorScores:
    results, first = [], 0
    for block in part.answers.blocks():
        results.append(_scores_of(block.candidates, labels.between(first, block.candidates.n_requests), view, types))
        first += block.candidates.n_requests
    return _SelectorScores(
        required=np.concatenate([result.required for result in results]),
        unseen=sum(result.unseen for result in results),
        not_required=np.concatenate([result.not_required for result in results]),
        idle=np.concatenate([result.idle for result in results]),
        idle_queries=sum(result.idle_queries for result in results),
        best=np.concatenate([result.best for result in results]),
    )


def _scores_of(table: Candidates, labels: LabelCodes, view: _View, types: npt.NDArray[np.object_]) -> _SelectorScores:
    """Those of some queries; `labels` are theirs."""
    n = table.n_requests
    value = _quantity(table, view.quantity)
    looked_at = ~np.isnan(value) & labels.complete[table.request]
    required = labels.with_grade(Grade.REQUIRED)
    if view.types:
        looked_at &= np.isin(types[table.item], view.types)
        required = required[np.isin(types[required % labels.n_items], view.types)]
    code = table.request * labels.n_items + table.item
    is_required = looked_at & np.isin(code, required)
    is_other = looked_at & ~np.isin(code, labels.with_grade(Grade.HELPFUL, Grade.REQUIRED))
    best, best_other = (np.full(n, -np.inf) for _ in range(2))
    np.maximum.at(best, table.request[looked_at], value[looked_at])
    np.maximum.at(best_other, table.request[is_other], value[is_other])
    needing = np.zeros(n, dtype=np.bool_)
    needing[labels.request[labels.grade == Grade.REQUIRED]] = True
    finite = np.isfinite(best_other)
    return _SelectorScores(
        required=value[is_required],
        unseen=len(np.setdiff1d(required, code[looked_at | (table.origin == Origin.SESSION)])),
        not_required=best_other[finite & needing],
        idle=best_other[finite & ~needing & (view.quantity in ("score", "expansion"))],
        idle_queries=int((~needing & labels.complete).sum()),
        best=best[labels.complete],
    )


def _group(
    parts: Sequence[Part], scores: _SelectorScores, view: _View, title: str, thresholds: Sequence[ShownThreshold]
) -> ScoreGroup:
    edges = _edges(scores.all)
    return ScoreGroup(
        selectors=tuple(part.selector for part in parts),
        title=title,
        edges=edges,
        required=_counts(scores.required, edges),
        not_required=_counts(scores.not_required, edges),
        idle=_counts(scores.idle, edges),
        thresholds=tuple(thresholds),
        sentences=tuple(_remarks(scores, view)),
        reading=_reading(view, thresholds),
    )


def _text(bound: Bound) -> str:
    """The parameter and its value."""
    return f"{bound.label} {bound.setting:g}".replace("-", wording.MINUS)


def _has_floor(bound: Bound) -> bool:
    """Whether items are offered below a threshold; within a margin the best one always is."""
    return bound.floor > (0 if bound.quantity == "score" else 1)


def _sentence(scores: _SelectorScores, bound: Bound) -> str:
    """What a threshold comes to on these queries."""

    def reached(some: FloatArray) -> str:
        return f"{int((some >= bound.value).sum()):,} of"

    queries = count(len(scores.best), "query", "queries")
    required = f"{reached(scores.required)} {count(len(scores.required) + scores.unseen, 'required item')}"
    if bound.quantity == "expansion":
        came = int(np.isfinite(scores.best).sum())
        return f"Items were brought in for {came:,} of {queries}; {required} are among them."
    if bound.quantity != "score":
        exceeding = (
            f"{reached(scores.not_required)} {count(len(scores.not_required), 'query', 'queries')} that need something"
        )
        text = f"{required} are within it, and so is the best item that is not needed in {exceeding}"
    else:
        text = f"The best score of a query is at least {bound.value:g} in {reached(scores.best)} {queries}; {required}"
        text += " score so high"
        if scores.idle_queries:
            nothing = count(scores.idle_queries, "query that needs nothing", "queries that need nothing")
            text += f", and so does the best item of {reached(scores.idle)} {nothing}"
    if _has_floor(bound):
        items = count(bound.floor, "item is", "items are")
        low = "it scores" if bound.floor == 1 else "they score"
        text += f". At least {items} offered, however low {low}, where so many are found"
    return f"{text}."


def _reading(view: _View, thresholds: Sequence[ShownThreshold]) -> str:
    """How to read bars left and right of a threshold; with a floor, items below it are offered as well."""
    if not thresholds or view.quantity == "expansion":
        return ""
    cut = (
        "was cut, but for items that are offered however low they score"
        if any(threshold.floor for threshold in thresholds)
        else "was cut"
    )
    lines = "the line" if len(thresholds) == 1 else "a line"
    return f"Blue left of {lines} {cut}; orange right of it was offered needlessly."


def _remarks(scores: _SelectorScores, view: _View) -> list[str]:
    if not scores.unseen or view.quantity == "expansion":
        return []
    return [f"{count(scores.unseen, 'required item')} not among the candidates, and so without a score here."]


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
    index = np.clip(np.floor((scores - edges[0]) / step + 1e-9).astype(np.int64), 0, len(edges) - 2)
    return tuple(np.bincount(index, minlength=len(edges) - 1).tolist())
