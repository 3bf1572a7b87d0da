"""Scores of required and other items compared with a selector's thresholds.

A strategy declares `thresholds`: by quantity (see `QUANTITIES`) the values from which on it includes, by parameter; and
`floor`, a number of items that it includes whatever they score. Stored runs have thresholds, too, since steps are built
from their descriptions.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxbench.datasets.dataset import Dataset
from ctxbench.evaluation.answers import Part
from ctxbench.evaluation.comparisons import refining
from ctxbench.io.errors import count
from ctxbench.model.arrays import BoolArray, FloatArray, Grade, IntArray
from ctxbench.model.candidates import SEARCHED, Candidates, Origin
from ctxbench.model.items import ITEM_TYPES
from ctxbench.model.registry import StoredDomains, StoredPipeline, StoredRefine, StoredStep
from ctxbench.model.strategies import built_step
from ctxbench.report import document
from ctxbench.report.charts import nice_step


@dataclass(frozen=True, eq=False)
class LabelCodes:
    """The labels of a dataset as codes `query * n_items + item`, so that tables are joined by one look-up.

    Attributes:
        n_items: of the catalog.
        code: shape (n_labels,), rising.
        grade: shape (n_labels,).
        group: shape (n_labels,); alternatives of one query share it, -1 = not required.
        complete: whether all required items of a query are known, shape (n_queries,).
    """

    n_items: int
    code: IntArray
    grade: IntArray
    group: IntArray
    complete: BoolArray

    @classmethod
    def of(cls, dataset: Dataset) -> LabelCodes:
        """Read the labels of a dataset."""
        judgments, n_items = dataset.judgments, len(dataset.catalog)
        code = np.repeat(np.arange(judgments.n_queries), np.diff(judgments.start)) * max(n_items, 1) + judgments.item
        order = np.argsort(code)
        complete = np.ones(judgments.n_queries, dtype=np.bool_) if judgments.complete is None else judgments.complete
        return cls(max(n_items, 1), code[order], judgments.grade[order], judgments.group[order], complete)

    def of_complete(self) -> LabelCodes:
        """The labels of queries whose required items are all known."""
        rows = self.complete[self.request]
        return replace(self, code=self.code[rows], grade=self.grade[rows], group=self.group[rows])

    def between(self, first: int, n_queries: int) -> LabelCodes:
        """The labels of some queries that follow each other, the first of them as query 0."""
        ends = np.searchsorted(self.code, np.array([first, first + n_queries]) * self.n_items)
        rows = slice(int(ends[0]), int(ends[1]))
        return LabelCodes(
            n_items=self.n_items,
            code=self.code[rows] - first * self.n_items,
            grade=self.grade[rows],
            group=self.group[rows],
            complete=self.complete[first : first + n_queries],
        )

    @property
    def request(self) -> IntArray:
        """The query of each label, shape (n_labels,)."""
        return self.code // self.n_items

    def with_grade(self, *grades: int) -> IntArray:
        """The codes of these grades."""
        return self.code[np.isin(self.grade, grades)]

    def met(self, chosen: IntArray, n_queries: int) -> tuple[IntArray, IntArray]:
        """Of each query's requirements (alternatives are one) how many there are, and how many are met.

        Args:
            chosen: codes of what stood in the prompts.
            n_queries: length of both results.
        """
        required = self.grade == Grade.REQUIRED
        groups = np.stack([self.request[required], self.group[required]], axis=1)
        distinct, inverse = np.unique(groups, axis=0, return_inverse=True)
        hit = np.zeros(len(distinct), dtype=np.bool_)
        np.logical_or.at(hit, inverse.reshape(-1), np.isin(self.code[required], chosen))
        return (
            np.bincount(distinct[:, 0], minlength=n_queries).astype(np.int64),
            np.bincount(distinct[hit, 0], minlength=n_queries).astype(np.int64),
        )


QUANTITIES = {
    "score": "",
    "difference": "distance to the best score of the same query",
    "ratio": "score as a share of the best of the query",
    "expansion": "score of what expansions brought in",
}
"""What thresholds may be compared with, with the title of its chart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A threshold of a selector.

    Attributes:
        quantity: one of `QUANTITIES`.
        label: the parameter's name.
        setting: what the parameter was set to.
        value: from which on it includes; another one than the setting where that is a distance.
        floor: how many items are included below it; 0 where none are, or where that is counted by domain.
        types: the item types that it applies to, in the order of `ITEM_TYPES`; empty = all.
    """

    quantity: str
    label: str
    setting: float
    value: float
    floor: int = 0
    types: tuple[str, ...] = ()


def bounds_of(about: Mapping[str, Any]) -> tuple[Bound, ...]:
    """The thresholds of a selector in the order of its steps, without those that are switched off.

    A selector outside this package has none. What every domain of a `by_domain` is cut by is one threshold of all
    items.

    Args:
        about: the selector in the manifest.
    """
    pipeline = None if about.get("external") else StoredPipeline.of(about.get("description", {}))
    return () if pipeline is None else _of_steps(refining(pipeline.refine))


def threshold_of(about: Mapping[str, Any]) -> float | None:
    """The score from which a selector always includes; None where it has no such score, or several.

    Args:
        about: the selector in the manifest.
    """
    bounds = {(bound.value, bound.types) for bound in bounds_of(about) if bound.quantity == "score"}
    value, types = bounds.pop() if len(bounds) == 1 else (None, ())
    return None if types else value


def _of_steps(steps: Sequence[StoredRefine]) -> tuple[Bound, ...]:
    bounds = (_of_domains(step.domains) if isinstance(step, StoredDomains) else _of_step(step) for step in steps)
    return tuple(dict.fromkeys(bound for step_bounds in bounds for bound in step_bounds))


def _of_step(step: StoredStep) -> list[Bound]:
    built = built_step(step)
    thresholds: Mapping[str, Mapping[str, float]] = built.declared("thresholds")
    return [
        Bound(
            quantity=quantity,
            label=label,
            setting=float(step.values.get(label, value)),
            value=value,
            floor=int(built.declared("floor")),
        )
        for quantity, values in thresholds.items()
        for label, value in values.items()
    ]


def _of_domains(domains: Sequence[tuple[tuple[str, ...], Sequence[StoredRefine]]]) -> list[Bound]:
    """The thresholds of each domain for its types; one for all items where every domain has it."""
    left = list(ITEM_TYPES)
    parts: list[tuple[tuple[str, ...], tuple[Bound, ...]]] = []
    for named, steps in domains:
        types = tuple(item_type for item_type in left if item_type in named or "*" in named)
        left = [item_type for item_type in left if item_type not in types]
        parts.append((types, _of_steps(steps)))
    alike = [{replace(bound, floor=0) for bound in bounds} for _, bounds in parts]
    shared = set.intersection(*alike) if alike else set()
    merged = [
        bound for bound in dict.fromkeys(replace(b, floor=0) for _, some in parts for b in some) if bound in shared
    ]
    for types, bounds in parts:
        for bound in bounds:
            if replace(bound, floor=0) not in shared:
                inner = tuple(item_type for item_type in types if not bound.types or item_type in bound.types)
                merged += [replace(bound, types=inner)] if inner else []
    return merged


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
        types = document.listed([item_type for item_type in self.types if item_type in present])
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
            ShownThreshold(
                selector=part.selector,
                text=f"{bound.label} {bound.setting:g}".replace("-", document.MINUS),
                value=bound.value,
                sentence=_sentence(scores, bound),
                floor=_has_floor(bound),
            )
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
    return np.where(table.ranked, table.score, table.columns.get(SEARCHED, np.full(len(table), np.nan)))


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
    unseen = f"{count(scores.unseen, 'required item')} not among the candidates, and so without a score here."
    return ScoreGroup(
        selectors=tuple(part.selector for part in parts),
        title=title,
        edges=edges,
        required=_counts(scores.required, edges),
        not_required=_counts(scores.not_required, edges),
        idle=_counts(scores.idle, edges),
        thresholds=tuple(thresholds),
        sentences=(unseen,) if scores.unseen and view.quantity != "expansion" else (),
        reading=_reading(view, thresholds),
    )


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
        return f"Items were brought in for {np.isfinite(scores.best).sum():,} of {queries}; {required} are among them."
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


def _edges(scores: FloatArray) -> FloatArray:
    """Edges of at most 50 equal bins with round ends that hold all scores; 0 to 1 where the scores lie there."""
    low, high = float(scores.min()), float(scores.max())
    if low >= 0.0 and high <= 1.0 + 1e-6 and high > 0.3:
        low, high = 0.0, 1.0
    step = nice_step((high - low) / _BINS or 1.0)
    first = math.floor(low / step + 1e-9)
    return np.asarray(np.arange(first, max(math.ceil(high / step - 1e-9), first + 1) + 1) * step, dtype=np.float64)


def _counts(scores: FloatArray, edges: FloatArray) -> tuple[int, ...]:
    """How many scores lie in each bin, its lower edge included; those on the last edge are in the last bin."""
    index = np.clip(np.floor((scores - edges[0]) / (edges[1] - edges[0]) + 1e-9).astype(np.int64), 0, len(edges) - 2)
    return tuple(np.bincount(index, minlength=len(edges) - 1).tolist())
