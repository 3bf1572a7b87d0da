"""Snapshots whose scores are given and whose cuts are real: for the tests of causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.cause_finder import SnapshotPair
from ctxbench.gate.causes import explain
from ctxbench.gate.comparability import assess_comparability
from ctxbench.gate.differences import differences, group_changes
from ctxbench.gate.inputs import input_differences
from ctxbench.gate.results import CauseGroup, Change, Fix
from ctxbench.gate.settings import CheckSettings
from ctxbench.gate.snapshots import NEAR, AnswerFact, SelectorSnapshot
from ctxbench.model.candidates import Candidates, Origin, place_among
from ctxbench.model.items import Catalog
from ctxbench.model.selection import offered_rows
from ctxbench.pipelines.pipeline import Pipeline
from tests.gate.gate_cases import identity, item, item_id, snapshot

TOP3: list[Any] = [{"first": {"n": 3}}]


def scored(
    scores: Mapping[str, Mapping[str, float]],
    refine: Sequence[Any] = (),
    *,
    texts: Mapping[str, str] | None = None,
    tokens: Mapping[str, int] | None = None,
    chunks: Mapping[str, int] | None = None,
    spec: Mapping[str, Any] | None = None,
    **given: Any,
) -> SelectorSnapshot:
    """A snapshot whose answers the cuts give for these scores.

    Args:
        scores: by query and item name; every item named belongs to the catalog, as do those of `texts`.
        refine: the pipeline's steps, cuts and fits only; the first three if none is given.
        texts: descriptions by item name.
        tokens: by item name; 10 for the rest.
        chunks: by item name, the place of its best chunk where it is not its place among items.
        spec: other stages of the pipeline; retrieval is dense if not given.
        **given: `required`, fields of the identity (`embedder`, `versions`, `values`) and of `gate_cases.snapshot`.
    """
    names = dict.fromkeys([*(texts or {}), *(name for row in scores.values() for name in row)])
    items = [item(name, (texts or {}).get(name, "")) for name in sorted(names)]
    catalog = Catalog(items)
    pipeline = Pipeline.of({"retrieve": "dense", **(spec or {}), "refine": list(refine or TOP3)})
    own = {name: given.pop(name) for name in ("embedder", "versions", "values", "tokens") if name in given}
    counts = np.array([(tokens or {}).get(one.name, 10) for one in items])
    answers = {query: _answer(query, row, catalog, pipeline, counts, chunks or {}) for query, row in scores.items()}
    return snapshot(
        answers,
        items=items,
        tokens=tokens,
        identity=identity(selector={"pipeline": pipeline.describe()}, **{"values": {}, **own}),
        **given,
    )


def _answer(
    query: str, row: Mapping[str, float], catalog: Catalog, pipeline: Pipeline, counts: Any, chunks: Any
) -> Any:
    table = Candidates.build(
        1,
        np.zeros(len(row), dtype=np.int64),
        np.array([catalog.position(item_id(name)) for name in row], dtype=np.int64),
        score=np.array(list(row.values()), dtype=np.float64),
    )
    own = [chunks.get(catalog[place].name, -1) for place in table.item.tolist()]
    ranks = place_among(table, table.origin == Origin.SEARCH)
    table = table.reordered(chunk_rank=np.where(np.array(own, dtype=np.int64) >= 0, own, ranks))
    asked: Any = SimpleNamespace(batch=SimpleNamespace(catalog=catalog, eligible=None))
    resources: Any = SimpleNamespace(tokens=lambda _catalog, _items=None: counts)
    for step in pipeline.refine:
        if step.describe()["step"].partition(":")[0] not in ("rank", "expand"):
            table = step.call(asked, table, resources)
    rows = table.rows(0)
    return AnswerFact(
        query=query,
        offered=offered_rows(catalog, table, rows, chosen=True),
        near=offered_rows(catalog, table, rows, chosen=False),
    )


def as_baseline(side: SelectorSnapshot) -> SelectorSnapshot:
    """With the nearest of those that stayed out only, as a baseline keeps them."""
    answers = {query: replace(one, near=one.near[:NEAR]) for query, one in side.answers.items()}
    return replace(side, answers=answers, judged=None)


def explained(base: SelectorSnapshot, head: SelectorSnapshot) -> tuple[Change, ...]:
    """The changes with their causes; in any order of the changes the same."""
    base = as_baseline(base)
    found = assess_comparability(base, head, CheckSettings(metrics=(parse_metric("completeness"),)))
    assert found.reasons == ()
    changes = differences(base, head, found).changes
    pair = SnapshotPair(base, head, input_differences(base, head, found.renamed))
    out = explain(pair, changes)
    assert explain(pair, changes[::-1]) == out[::-1]
    assert [replace(one, cause=changes[0].cause, fix=Fix()) for one in out] == list(changes)
    return out


def causes(base: SelectorSnapshot, head: SelectorSnapshot) -> dict[str, tuple[str, tuple[str, ...], str]]:
    """By item name, `-` in front of those that went out: kind, names of subjects and detail."""
    return {
        ("-" if one.lost else "+") + _name(one.item): (
            one.cause.kind.value,
            tuple(map(_name, one.cause.subjects)),
            one.cause.detail,
        )
        for one in explained(base, head)
    }


def groups(base: SelectorSnapshot, head: SelectorSnapshot) -> tuple[CauseGroup, ...]:
    """The groups of all changes."""
    found = assess_comparability(as_baseline(base), head, CheckSettings(metrics=(parse_metric("completeness"),)))
    pair = SnapshotPair(as_baseline(base), head, input_differences(as_baseline(base), head, found.renamed))
    return group_changes(pair, explained(base, head))


def _name(item: str) -> str:
    return item.rpartition(":")[2] if ":" in item else item
