"""Descriptions of pipelines: what steps say of themselves is read back, and what is none is an error."""

from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.model.registry import StoredAnalyses, StoredDomains, StoredMerge, StoredPipeline, StoredStep, pipelines_in
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.cut import First

SPEC = {
    "analyse": ["sentences", {"history": {"turns": 2}}],
    "retrieve": {"merge": {"a": "dense", "b": "bm25"}},
    "refine": [
        {"rrf": {"k": 10}},
        {"by_domain": {"tool, rule": [{"by_domain": {"tool": [{"first": {"n": 2}}], "*": []}}], "*": ["gap"]}},
    ],
}


def step(kind: str, name: str, **values) -> StoredStep:
    return StoredStep(kind=kind, name=name, values=values, about={})


def test_a_pipeline_is_read_back_with_its_steps_where_they_stand():
    stored = StoredPipeline.of({"pipeline": Pipeline.of(SPEC).describe()})
    assert isinstance(stored.analyse, StoredAnalyses)
    assert isinstance(stored.retrieve, StoredMerge)
    assert [name for name, _ in stored.retrieve.sources] == ["a", "b"]
    assert isinstance(stored.refine[1], StoredDomains)
    assert [types for types, _ in stored.refine[1].domains] == [("tool", "rule"), ("*",)]
    assert [(one.kind, one.name) for one in stored.steps()] == [
        ("analyse", "sentences"), ("analyse", "history"), ("retrieve", "dense"), ("retrieve", "bm25"), ("rank", "rrf"),
        ("cut", "first"), ("cut", "gap"), ("format", "messages"),
    ]  # fmt: skip


def test_a_live_description_and_one_from_a_file_are_the_same():
    described = {"pipeline": Pipeline.of(SPEC).describe()}
    assert StoredPipeline.of(json.loads(json.dumps(described))) == StoredPipeline.of(described)


def test_what_a_step_was_stands_apart_from_its_parameters():
    held = {"step": "cut:first", "version": 2, "code": "mine:First 12ab", "content": "34cd", "n": 3}
    (one,) = StoredPipeline.of({"pipeline": {"refine": [held]}}).refine
    assert (one.kind, one.name, one.values) == ("cut", "first", {"n": 3})
    assert one.about == {"version": 2, "code": "mine:First 12ab", "content": "34cd"}
    assert one.build() == First(n=3)


@pytest.mark.parametrize(
    "gone", [step("cut", "gone"), step("cut", "first", m=1), step("cut", "first", n=-1), step("other", "first")]
)
def test_a_step_that_cannot_be_made_here_is_none(gone):
    assert gone.build() is None


def test_what_is_no_pipeline_is_none():
    assert StoredPipeline.of({"command": ["node", "x.js"]}) is None
    assert StoredPipeline.of({"pipeline": "semantic"}) is None
    assert StoredPipeline.of({"pipeline": {}}) == StoredPipeline()


def test_pipelines_are_found_in_selectors_that_ask_others():
    one, other = ({"pipeline": Pipeline.of({"retrieve": name}).describe()} for name in ("dense", "bm25"))
    found = pipelines_in({"s": {"description": {"ranking": one, "as many as": other}, "about": "x"}, "t": {}})
    assert [pipeline.retrieve.name for pipeline in found] == ["dense", "bm25"]


@pytest.mark.parametrize(
    "pipeline",
    [
        {"refine": 3},
        {"refine": "ab"},
        {"refine": {"x": 1}},
        {"retrieve": {"step": "merge", "sources": ["ab", "cd"]}},
        {"analyse": {"analyses": "ab"}},
        {"refine": [{"domains": 3}]},
        {"refine": [{"domains": [["tool", 3]]}]},
        {"refine": [{"analyses": []}]},
        {"retrieve": {"step": "merge", "sources": 3}},
        {"retrieve": {"step": "merge", "sources": [["a", {"analyses": []}]]}},
        {"retrieve": {"domains": []}},
        {"analyse": {"analyses": 3}},
        {"format": {"analyses": []}},
    ],
)
def test_what_is_described_as_a_pipeline_and_is_none_is_an_error(pipeline):
    with pytest.raises(ParameterError, match="a stored pipeline is damaged"):
        StoredPipeline.of({"pipeline": pipeline})


@pytest.mark.parametrize("name", ["analyses", "domains", "sources"])
def test_a_step_may_have_a_parameter_that_is_called_like_a_part_of_a_combinator(name):
    described = {"step": "cut:mine", "version": 1, name: ["a"]}
    stored = StoredPipeline.of({"pipeline": {"refine": [described]}})
    assert stored.refine == (StoredStep(kind="cut", name="mine", values={name: ["a"]}, about={"version": 1}),)
