"""Cuts replayed on known scores give what the selector gave."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.gate.cause_finder import SnapshotPair
from ctxbench.gate.inputs import (
    ORDER,
    Candidate,
    ReplayCase,
    SettingDifference,
    can_replay,
    input_differences,
    replay_cuts,
    with_setting,
)
from ctxbench.gate.snapshots import flat_steps
from ctxbench.pipelines.pipeline import Pipeline
from tests.gate.cause_cases import scored

SIDES = {"before": "", "after": ""}
CUTS = {
    "standard": [{"standard": {"topK": 6, "topN": 3, "includeScore": 0.6}}],
    "margin": [{"standard": {"topK": 20, "topN": 5, "includeScore": 1.0}}, {"margin": {"margin": 0.3, "of": "ratio"}}],
    "first": [{"first": {"n": 4}}],
    "gap": [{"gap": {"at_most": 5}}],
    "at least": [{"at_least": {"threshold": 0.5, "at_least": 1, "at_most": 4}}],
    "budget": [{"first": {"n": 5}}, {"budget": {"tokens": 35, "skip": True}}],
    "per chunk": [{"first": {"n": 3}}, {"per_chunk": {"minimum": 1}}],
    "domains": [
        {"by_domain": {"tool": [{"first": {"n": 2}}], "rule": [{"at_least": {"threshold": 0.4}}], "*": []}},
        {"first": {"n": 5}},
    ],
}
NAMES = ["a", "b", "c", "d", "rule:e", "rule:f", "reference:g", "h"]


def described(refine, **spec):
    """The steps of a pipeline."""
    return flat_steps({"pipeline": Pipeline.of({"retrieve": "dense", **spec, "refine": refine}).describe()})


@pytest.mark.parametrize("cut", list(CUTS))
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_replay_of_what_is_there_changes_nothing(cut, data):
    numbers = st.integers(-10, 99).map(lambda n: n / 100)
    scores = {name: data.draw(numbers) for name in NAMES}
    taken = scored({"q": scores}, CUTS[cut], tokens={"a": 20, "c": 15})
    pair = SnapshotPair(taken, taken, input_differences(taken, taken, {}))
    side, _ = pair.candidates("q")
    cases = [
        ReplayCase(candidate=row, rivals=[other for other in side.rows.values() if other is not row], bar=side.bar)
        for row in side.rows.values()
    ]
    found = replay_cuts(pair.steps[0], cases)
    assert found == [name in side.offered for name in side.rows]
    assert replay_cuts(pair.steps[0], cases[::-1]) == found[::-1]


def test_what_has_no_chunk_among_the_best_is_known_by_its_rule():
    chunks = {"a": 0, "b": 9, "c": 10}
    taken = scored({"q": {"a": 0.9, "b": 0.8, "c": 0.7}}, CUTS["standard"], chunks=chunks)
    side, _ = SnapshotPair(taken, taken, input_differences(taken, taken, {})).candidates("q")
    assert [row.beyond_chunks for row in side.rows.values()] == [False, True, True]


def test_what_was_found_stands_before_what_was_brought_in_whatever_it_scores():
    steps = described([{"first": {"n": 3}}, {"expansion": {"enabled": True}}, {"budget": {"tokens": 30}}])
    found = [
        Candidate(id=f"rule:{n}", position=n, score=0.5, origin="search", chunk=-1, tokens=12, rule=None)
        for n in range(2)
    ]
    brought = Candidate(id="rule:9", position=9, score=0.9, origin="expansion", chunk=-1, tokens=12, rule=None)
    cases = [
        ReplayCase(candidate=brought, rivals=found),
        *(ReplayCase(candidate=one, rivals=[brought]) for one in found),
    ]
    assert replay_cuts(steps, cases) == [False, True, True]


def test_an_item_that_is_no_candidate_is_not_kept():
    steps = described(CUTS["first"])
    assert replay_cuts(steps, []) == []
    assert replay_cuts(
        steps, [ReplayCase(candidate=None, rivals=[Candidate(id="tool:s:a", position=0, score=0.5)])]
    ) == [False]


def test_ties_go_by_the_place_in_the_catalog():
    steps = described([{"first": {"n": 1}}])
    one, other = Candidate(id="tool:s:a", position=0, score=0.5), Candidate(id="tool:s:b", position=1, score=0.5)
    assert replay_cuts(
        steps, [ReplayCase(candidate=one, rivals=[other]), ReplayCase(candidate=other, rivals=[one])]
    ) == [
        True,
        False,
    ]


@pytest.mark.parametrize(("refine", "able"), [([{"mmr": {"n": 3}}], False), (CUTS["gap"], True), (["expansion"], True)])
def test_only_cuts_by_what_is_known_are_replayed(refine, able):
    assert can_replay(described(refine)) is able
    assert not can_replay(None)


@pytest.mark.parametrize(("depth", "behind", "able"), [(1, "budget", True), (2, "budget", False), (2, "", True)])
def test_a_budget_behind_several_passes_is_not_replayed(depth, behind, able):
    expand = {"expansion": {"enabled": True, "depth": depth}}
    steps = described([{"first": {"n": 3}}, expand, *([{behind: {"tokens": 30}}] if behind else [])])
    assert can_replay(steps) is able


def test_steps_are_told_by_their_place():
    steps = described([*CUTS["domains"], {"first": {"n": 7}}], retrieve={"merge": {"dense": "dense", "words": "bm25"}})
    assert [one.path for one in steps] == [
        "analyse.sentences",
        "retrieve.dense",
        "retrieve.words.bm25",
        "refine.tool.first",
        "refine.rule.at_least",
        "refine.first",
        "refine.first#2",
    ]
    assert [one.types for one in steps[3:5]] == [("tool",), ("rule",)]
    assert [one.scores for one in steps] == [True, True, True, False, False, False, False]


def test_one_setting_of_the_other_side():
    before, after = described(CUTS["margin"]), described([{"standard": {"topK": 20, "topN": 2, "includeScore": 0.5}}])
    topn = SettingDifference(
        name="contextTopN", path="refine.standard.topN", step="refine.standard", parameter="topN", **SIDES
    )
    margin = SettingDifference(name="refine.margin", path="refine.margin", step="refine.margin", **SIDES)
    assert with_setting(after, before, topn)[-1].values == {"topK": 20, "topN": 5, "includeScore": 0.5}
    assert [one.name for one in with_setting(after, before, margin)] == [one.name for one in before]
    assert [one.name for one in with_setting(before, after, margin)] == [one.name for one in after]
    swapped = (*before[:1], before[1], before[3], before[2])
    assert with_setting(swapped, before, SettingDifference(name="order of steps", path=ORDER, **SIDES)) == before


def test_a_selector_that_is_no_pipeline_has_no_steps():
    assert flat_steps({"command": "run"}) is None
