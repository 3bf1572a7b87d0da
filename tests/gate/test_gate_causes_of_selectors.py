"""Causes of what selectors do, held against what taking each edit back does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ctxbench.evaluation.inputs import count_tokens, open_experiment
from ctxbench.gate.results import CauseKind
from ctxbench.gate.snapshot_sources import take
from ctxbench.model.items import Catalog
from tests.gate.cause_cases import explained, groups

SMOKE = Path(__file__).parents[2] / "datasets" / "smoke"
SELECTORS = {
    "semantic": ("{selector: semantic, set: {contextTopN: 3}}", "{selector: semantic, set: {contextTopN: 2}}"),
    "bm25": ("{selector: bm25, set: {n: 3}}", "{selector: bm25, set: {n: 2}}"),
}


@pytest.fixture(autouse=True)
def a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")


def taken(folder, selector, edit=None):
    """The snapshot of a selector over an edited catalog."""
    path = folder / "e.yaml"
    text = (
        f"datasets: [{SMOKE}]\nembedder: hashing\ntokens: chars/4\nmetrics: [completeness]\nselectors:\n  - {selector}"
    )
    path.write_text(text, encoding="utf-8")
    prepared = open_experiment(path)
    (name,) = prepared.datasets
    dataset = prepared.datasets[name]
    if edit is not None:
        dataset = replace(dataset, catalog=Catalog(edit(list(dataset.catalog))))
        counts = count_tokens(prepared.counter, dataset.catalog)
        prepared = replace(prepared, datasets={name: dataset}, counted={name: counts})
    return take(prepared)[0]


def emptied(items):
    """The rule that most queries need says nothing any more."""
    first = items[0]
    return [replace(first, description="Notes.", text="To be written."), *items[1:]]


def doubled(items):
    """Ten look-alikes of the last item."""
    last = items[-1]
    return [*items, *(replace(last, name=f"{last.name} {place}", title="") for place in range(10))]


@pytest.mark.essential
@pytest.mark.parametrize("name", list(SELECTORS))
def test_each_of_three_edits_alone_is_named(name, tmp_path):
    before, after = SELECTORS[name]
    base = taken(tmp_path, before)
    (only,) = {one.cause.kind for one in explained(base, taken(tmp_path, after))}
    assert only is CauseKind.PARAMETER
    found = groups(base, taken(tmp_path, before, emptied))
    assert found
    assert found[0].cause.subjects == (next(iter(base.items)),)
    kinds = {one.cause.kind for one in groups(base, taken(tmp_path, before, doubled))}
    assert CauseKind.NEW in kinds
    assert CauseKind.CROWDED in kinds
    assert kinds <= {CauseKind.NEW, CauseKind.CROWDED, CauseKind.FREED}


def test_of_three_edits_at_once_the_one_is_named_that_alone_did_it(tmp_path):
    before, after = SELECTORS["semantic"]
    base, head = taken(tmp_path, before), taken(tmp_path, after, lambda items: doubled(emptied(items)))
    kinds = {CauseKind.EDITED: 0, CauseKind.CROWDED: 1, CauseKind.FREED: 0, CauseKind.NEW: 1, CauseKind.PARAMETER: 2}
    without = [
        taken(tmp_path, after, doubled),
        taken(tmp_path, after, emptied),
        taken(tmp_path, before, lambda items: doubled(emptied(items))),
    ]
    alone = [taken(tmp_path, before, emptied), taken(tmp_path, before, doubled), taken(tmp_path, after)]
    edited = next(iter(base.items))
    seen = 0
    for one in explained(base, head):
        there = [is_in(side, one) is not one.lost for side in alone]  # with it alone the change is there
        sole = {n for n, side in enumerate(without) if is_in(side, one) is one.lost and there[n]}
        by_edit = one.cause.kind is CauseKind.CROWDED and one.cause.subjects == (edited,)
        seen += len(sole) == 1
        assert not sole or (0 if by_edit else kinds[one.cause.kind]) in sole, one
    assert seen > 20


def is_in(side, change):
    """Whether a query is offered the item of a change."""
    return any(one.id == change.item for one in side.answers[change.query].offered)
