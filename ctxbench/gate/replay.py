"""Replays cuts on known scores: would an item be offered with the score, the rivals or the cut of the other side?

The cuts are the steps themselves. A cut that needs more than scores, chunks of the request, types and tokens (texts or
vectors: `mmr`, `abstain`, a plugin's) cannot be replayed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from ctxbench.core import registry
from ctxbench.core.arrays import BoolArray, IntArray
from ctxbench.core.candidate_tables import concatenated
from ctxbench.core.candidates import Candidates, Mode, Origin, place_among
from ctxbench.core.errors import UserError
from ctxbench.core.rules import Rule
from ctxbench.gate.flat_steps import FlatStep
from ctxbench.gate.input_differences import ORDER
from ctxbench.gate.setting_differences import SettingDifference, with_value_of
from ctxbench.steps.cut import TOP_K

REPLAYED = ("standard", "first", "margin", "gap", "at_least", "per_chunk", "budget")
_ORIGINS = {"session": Origin.SESSION, "search": Origin.SEARCH, "expansion": Origin.EXPANSION}
_BEYOND_TOP_K = 1 << 40  # the place of a chunk beyond every topK


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A candidate of one query.

    Attributes:
        id: of the item.
        position: in the catalog, for ties.
        score: None for what the session holds.
        origin: `session`, `search` or `expansion`.
        chunk: of the request that it was found by; -1 = none is known.
        tokens: of its prompt text.
        rule: what keeps it out; None = it is offered.
    """

    id: str
    position: int
    score: float | None
    origin: str = "search"
    chunk: int = -1
    tokens: int = 0
    rule: Rule | None = None

    @property
    def beyond_chunks(self) -> bool:
        """Whether it is out for having no chunk among the best topK."""
        return self.rule is not None and self.rule.code == TOP_K

    @property
    def type(self) -> str:
        """The type of the item."""
        return self.id.partition(":")[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class ReplayCase:
    """The input of a replay: do the cuts keep an item among these rivals?

    Attributes:
        candidate: the item; None where it is no candidate, so that it is not kept.
        rivals: the other candidates, in any order.
        bar: what was found with a lower score has no chunk among the best `topK`, nor has of those with this very score
            what the rule kept out; how many chunks stand between items is not known, to be counted anew.
    """

    candidate: Candidate | None
    rivals: Sequence[Candidate] = field(default_factory=tuple)
    bar: float = -np.inf


def can_replay(steps: Sequence[FlatStep] | None) -> bool:
    """Whether everything that these steps do after scoring can be replayed."""
    if steps is None:
        return False
    first = next((index for index, step in enumerate(steps) if step.kind == "expand"), len(steps))
    later_kinds = {step.kind for step in steps[first:]}
    several = any(step.kind == "expand" and step.values.get("depth", 1) > 1 for step in steps)
    obstacles = (
        "rank" in later_kinds,  # what the cuts before it saw is in no score that is kept
        "fit" in later_kinds and several,  # which pass brought an item in is not kept, and one stands behind the other
        any(step.values.get("frame") for step in steps),  # what a prompt costs is not known
    )
    cuts = [step.name for step in steps if step.kind not in ("analyse", "retrieve", "rank", "expand")]
    return not any(obstacles) and all(name in REPLAYED for name in cuts)


def replay_cuts(steps: Sequence[FlatStep], cases: Sequence[ReplayCase]) -> list[bool]:
    """Replay the cuts among `steps`: whether they keep the item of each case.

    Args:
        steps: of a pipeline, as `can_replay` wants them; what they do before the first cut is in the scores already.
        cases: each on its own.
    """
    by_rank = {"gap", "per_chunk"}.isdisjoint(step.name for step in steps)
    cases_with_item = [_without_lower_rivals(case) if by_rank else case for case in cases if case.candidate is not None]
    if not cases_with_item:
        return [False] * len(cases)
    rows = [(number, row) for number, case in enumerate(cases_with_item) for row in _in_catalog_order(case)]
    chosen = _chosen(steps, cases_with_item, rows)
    number = {(case, row.id): index for index, (case, row) in enumerate(rows)}
    answers = iter(
        [number[n, case.candidate.id] in chosen for n, case in enumerate(cases_with_item) if case.candidate is not None]
    )
    return [False if case.candidate is None else next(answers) for case in cases]


def replay_offers(steps: Sequence[FlatStep], cases: Sequence[ReplayCase]) -> list[list[Candidate]]:
    """Replay the cuts among `steps`: all candidates of each case that they keep, the order as in the catalog.

    Args:
        steps: as for `replay_cuts`.
        cases: each on its own; where `candidate` is None, all candidates are rivals.
    """
    rows = [(number, row) for number, case in enumerate(cases) for row in _in_catalog_order(case)]
    offers: list[list[Candidate]] = [[] for _ in cases]
    for index in sorted(_chosen(steps, cases, rows)):
        number, row = rows[index]
        offers[number].append(row)
    return offers


def _chosen(steps: Sequence[FlatStep], cases: Sequence[ReplayCase], rows: Sequence[tuple[int, Candidate]]) -> set[int]:
    """The indices of `rows` that the cuts keep; each row has the number of its case."""
    if not rows:
        return set()
    table, types = _table(len(cases), rows, np.array([case.bar for case in cases]))
    costs = np.array([row.tokens for _, row in rows], dtype=np.int64)
    for step in steps:
        if step.name in REPLAYED and step.kind in ("cut", "fit"):
            table = _apply_cut(table, step, types, costs)
    return {int(item) for item in table.item[table.chosen]}


def _without_lower_rivals(case: ReplayCase) -> ReplayCase:
    """The case without rivals that rank behind the item, which no cut of a ranking's beginning depends on."""
    if case.candidate is None or case.candidate.score is None:
        return case
    key = _rank_key(case.candidate)
    return replace(case, rivals=[row for row in case.rivals if row.score is None or _rank_key(row) <= key])


def _rank_key(row: Candidate) -> tuple[int, float]:
    """The key that ranks candidates: session, search and expansion in this order, then by falling score."""
    return _ORIGINS[row.origin], -(row.score or 0.0)


def _in_catalog_order(case: ReplayCase) -> list[Candidate]:
    rows = {row.id: row for row in (*case.rivals, case.candidate) if row is not None}
    return sorted(rows.values(), key=lambda row: row.position)


def _table(n: int, rows: Sequence[tuple[int, Candidate]], bars: Any) -> tuple[Candidates, Any]:
    """All cases as one table, one request each; an item's number is its index among all rows."""
    origin = np.array([_ORIGINS[row.origin] for _, row in rows], dtype=np.int64)
    score = [np.nan if row.origin == "session" else row.score or 0.0 for _, row in rows]
    table = Candidates.build(
        n,
        np.array([case for case, _ in rows], dtype=np.int64),
        np.arange(len(rows), dtype=np.int64),
        score=np.array(score, dtype=np.float64),
        origin=origin,
        mode=np.full(len(rows), Mode.AGENT, dtype=np.int64),
        query_chunk=np.array([row.chunk for _, row in rows], dtype=np.int64),
    )
    ranked = table.ranked
    ranks = place_among(table, ranked)  # an item's best chunk has as many chunks before it as items, or more
    tied = np.array([row.beyond_chunks for _, row in rows])[table.item]
    bar = bars[table.request]
    beyond = ranked & ((table.score < bar) | (tied & (table.score == bar)))
    return table.reordered(chunk_rank=np.where(beyond, _BEYOND_TOP_K, ranks)), np.array([row.type for _, row in rows])


def _apply_cut(table: Candidates, step: FlatStep, types: Any, costs: IntArray) -> Candidates:
    """Apply one cut to the candidates of its item types."""
    in_domain: BoolArray = np.isin(types[table.item], step.types)
    call = registry.build(step.kind, step.name, step.values)
    query: Any = SimpleNamespace(batch=SimpleNamespace(catalog=None))
    resources: Any = SimpleNamespace(tokens=lambda _catalog, _items=None: costs)
    part: Candidates = call(query, table.select_rows(in_domain), resources)
    return concatenated([part, table.select_rows(~in_domain)])


def with_setting(
    steps: Sequence[FlatStep], source_steps: Sequence[FlatStep], setting: SettingDifference
) -> tuple[FlatStep, ...]:
    """Give steps one setting of the other side: a parameter or a key of it, a whole step, or the order of steps.

    Args:
        steps: changed.
        source_steps: where the setting is taken from.
        setting: which one.
    """
    theirs = {step.path: step for step in source_steps}
    order = {path: index for index, path in enumerate(theirs)}
    if setting.path == ORDER:
        return tuple(sorted(steps, key=lambda step: order.get(step.path, len(order))))
    ours = {step.path for step in steps}
    path, name = setting.step, setting.parameter
    if path in theirs and path not in ours:
        later = [n for n, step in enumerate(steps) if order.get(step.path, -1) > order[path]]
        at = min(later, default=len(steps))
        return (*steps[:at], theirs[path], *steps[at:])
    if path in ours and path not in theirs:
        return tuple(step for step in steps if step.path != path)
    values = theirs[path].values if path in theirs else {}
    if name not in values:
        return tuple(steps)
    current = next(step.values.get(name) for step in steps if step.path == path)
    value = with_value_of(current, values[name], setting.keys)
    return tuple(with_values(step, {**step.values, name: value}) if step.path == path else step for step in steps)


def with_values(step: FlatStep, values: Mapping[str, Any]) -> FlatStep:
    """The step with other values; unchanged where these are not valid together (an at_most below its at_least)."""
    try:
        registry.build(step.kind, step.name, values)
    except UserError:
        return step
    return replace(step, values=json.loads(json.dumps(values)))
