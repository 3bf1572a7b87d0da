"""Steps by functions and by name: what `>>` composes, what functions are called with, and what they may return."""

from __future__ import annotations

import importlib
import json
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import ctxbench
from ctxbench import steps
from ctxbench.io.errors import ParameterError, SelectorError
from ctxbench.pipelines.pipeline import PipelineError
from tests.api.conftest import CHEAP, ROOT, SMOKE

TOOLS = ctxbench.catalog(
    [
        {"name": "area", "description": "area of a circle"},
        {"name": "size", "description": "area"},
        {"name": "edge", "description": "the area within a long and narrow edge"},
        {"name": "mail", "description": "send a letter"},
    ]
)
TEXTS = ("area: area of a circle", "size: area", "edge: the area within a long and narrow edge", "mail: send a letter")


def longest(query, texts):
    return [len(text) for text in texts]


def ids(selector, text="area of a circle", **options):
    return [name.rpartition(":")[2] for name in ctxbench.select(text, TOOLS, selector=selector, **options, **CHEAP).ids]


class TestComposition:
    RERANK = ctxbench.rerank(longest)

    @pytest.mark.parametrize(
        ("chained", "written"),
        [
            (steps.bm25 >> steps.first, {"retrieve": "bm25", "refine": ["first"]}),
            (
                steps.bm25(0.9) >> RERANK >> steps.first(5),
                {"retrieve": {"bm25": {"k1": 0.9}}, "refine": [RERANK, {"first": {"n": 5}}]},
            ),
            (
                steps.clauses >> steps.dense >> steps.citations,
                {"analyse": "clauses", "retrieve": "dense", "format": "citations"},
            ),
            (
                steps.analyse.history(turns=2) >> steps.retrieve.history >> {"first": {"n": 2}},
                {"analyse": {"history": {"turns": 2}}, "retrieve": "history", "refine": [{"first": {"n": 2}}]},
            ),
            (
                ctxbench.pipeline({"merge": [steps.bm25, steps.fuzzy]}) >> steps.rrf >> steps.first(3),
                {"retrieve": {"merge": {"bm25": "bm25", "fuzzy": "fuzzy"}}, "refine": ["rrf", {"first": {"n": 3}}]},
            ),
        ],
    )
    def test_a_chain_is_the_pipeline_of_the_same_steps(self, chained, written):
        pipeline = ctxbench.pipeline(**written)
        assert chained == pipeline
        assert chained.key == pipeline.key

    def test_stages_that_combine_steps_are_kept(self):
        pipeline = ctxbench.pipeline(
            "bm25", analyse=["sentences", "keywords"], refine=[{"by_domain": {"tool": ["first"], "*": []}}]
        )
        longer = pipeline >> steps.first(5)
        assert (longer.analyse, longer.retrieve, longer.refine[:-1]) == (
            pipeline.analyse,
            pipeline.retrieve,
            pipeline.refine,
        )

    @pytest.mark.parametrize(
        ("chain", "written"),
        [
            (lambda: steps.first(5) >> steps.bm25, {"retrieve": steps.first(5)}),
            (lambda: steps.bm25 >> steps.dense, {"retrieve": "bm25", "refine": [steps.dense]}),
            (lambda: steps.clauses >> steps.first, {"analyse": "clauses", "retrieve": steps.first}),
            (
                lambda: steps.bm25 >> steps.citations >> steps.first,
                {"retrieve": "bm25", "refine": [steps.citations, "first"]},
            ),
            (lambda: steps.bm25 >> steps.llm, {"retrieve": "bm25", "refine": [steps.llm]}),
            (
                lambda: steps.bm25 >> {"weighted": {"weights": {"a": 1}}},
                {"retrieve": "bm25", "refine": [{"weighted": {"weights": {"a": 1}}}]},
            ),
        ],
    )
    def test_steps_that_do_not_fit_together_are_the_error_of_the_pipeline(self, chain, written):
        with pytest.raises(PipelineError) as expected:
            ctxbench.pipeline(**written)
        with pytest.raises(PipelineError) as error:
            chain()
        assert error.value.faults == expected.value.faults

    def test_steps_are_listed_by_name_and_kind(self):
        assert {"bm25", "first", "cut", "history"} <= set(dir(steps))
        assert dir(steps.format) == ["citations", "messages", "template"]
        for name in ("frist", "history", "_repr_html_"):  # the second is an analysis and a retriever
            assert not hasattr(steps, name)

    @pytest.mark.parametrize(
        ("values", "parameters"), [((1, 2), {}), ((1,), {"n": 1}), ((), {"m": 1}), (("many",), {}), ((-1,), {})]
    )
    def test_parameters_are_checked(self, values, parameters):
        with pytest.raises(ParameterError):
            steps.first(*values, **parameters)

    def test_an_embedder_may_be_a_function(self):
        def letters(texts):
            return [[text.count("a") + 1.0, text.count("e")] for text in texts]

        assert (steps.dense(embedder=letters) >> steps.first).key == ctxbench.pipeline(
            {"dense": {"embedder": letters}}, refine=["first"]
        ).key

    def test_a_retriever_alone_is_a_selector(self):
        assert ids(steps.bm25) == ids(ctxbench.pipeline("bm25"))
        res = ctxbench.evaluate(SMOKE, {"step": steps.bm25, "pipeline": ctxbench.pipeline("bm25")}, **CHEAP)
        assert res.to_frame().loc["step"].equals(res.to_frame().loc["pipeline"])
        with pytest.raises(PipelineError):
            ctxbench.evaluate(SMOKE, {"step": steps.first}, **CHEAP)


class TestRerank:
    def test_the_function_gets_the_request_and_the_texts_of_the_candidates_best_first(self):
        calls = []

        def spy(query, texts):
            calls.append((query, texts))
            return longest(query, texts)

        assert ids(steps.bm25 >> ctxbench.rerank(spy)) == ["edge", "area", "size"]
        assert calls == [("area of a circle", (TEXTS[0], TEXTS[1], TEXTS[2]))]
        assert ids(steps.bm25 >> ctxbench.rerank(spy), "zebra") == []
        assert len(calls) == 1

    @pytest.mark.parametrize(
        "function",
        [
            lambda query, texts: np.array([len(text) for text in texts], dtype=np.float32),
            lambda query, texts: tuple(map(len, texts)),
        ],
    )
    def test_scores_may_be_an_array_or_a_sequence(self, function):
        frame = ctxbench.select(
            "area of a circle", TOOLS, selector=steps.bm25 >> ctxbench.rerank(function), **CHEAP
        ).to_frame()
        assert frame["score"].tolist() == sorted(map(len, TEXTS[:3]), reverse=True)

    @pytest.mark.parametrize(("top", "order"), [(0, "edge area size"), (1, "area size edge"), (2, "area size edge")])
    def test_what_is_not_scored_comes_behind_in_its_order(self, top, order):
        assert ids(steps.bm25 >> ctxbench.rerank(longest, top=top)) == order.split()
        assert ids(steps.bm25 >> ctxbench.rerank(longest, top=top) >> steps.first(2)) == order.split()[:2]

    def test_what_was_cut_before_is_not_scored_and_ranks_behind(self):
        pipeline = steps.bm25 >> steps.first(2) >> ctxbench.rerank(lambda query, texts: [-5.0, -4.0])
        frame = ctxbench.select("area of a circle", TOOLS, selector=pipeline, **CHEAP).to_frame(near=1)
        assert [name.rpartition(":")[2] for name in frame["item"]] == ["size", "area", "edge"]
        assert frame["score"].tolist()[:2] == [-4.0, -5.0]
        assert frame["score"][2] < -5.0
        assert frame["rule"][2] == "beyond the first n=2"

    def test_answers_do_not_depend_on_other_requests(self):
        pipeline = steps.bm25 >> steps.first(2) >> ctxbench.rerank(longest)
        every, single = (ctxbench.evaluate(SMOKE, {"mine": pipeline}, sample=n, **CHEAP) for n in (0, 1))
        name = single.per_query()["query"][0]
        assert single.explain(name, "mine").equals(every.explain(name, "mine"))

    @pytest.mark.parametrize(
        "function",
        [
            lambda query, texts: [1.0],
            lambda query, texts: None,
            lambda query, texts: [[1.0]] * len(texts),
            lambda query, texts: [float("nan")] * len(texts),
            lambda query, texts: dict.fromkeys(texts, 1.0),
            lambda query: [1.0],
            lambda query, texts: 1 / 0,
        ],
    )
    def test_a_function_that_fails_or_returns_something_else_is_an_error_of_the_query(self, function):
        with pytest.raises(SelectorError, match=r"<lambda> failed for query 'select'") as error:
            ids(steps.bm25 >> ctxbench.rerank(function))
        assert error.value.args[0].code == "CTX4581"

    @pytest.mark.parametrize("function", [5, dict, "bm25"])
    def test_only_functions_are_taken(self, function):
        for make in (ctxbench.rerank, ctxbench.retrieve, ctxbench.cut):
            with pytest.raises(ParameterError, match="must be a function"):
                make(function)

    @pytest.mark.parametrize("top", [-1, "2", 1.5, None])
    def test_top_is_a_whole_number(self, top):
        with pytest.raises(ParameterError, match="top must be"):
            ctxbench.rerank(longest, top=top)


class TestRetrieve:
    def test_the_function_gets_all_texts_and_leaves_out_what_it_gives_no_score(self):
        calls = []

        def spy(query, texts):
            calls.append((query, texts))
            return [None, 0.0, float("nan"), 2.5]

        chosen = ctxbench.select("anything", TOOLS, selector=ctxbench.retrieve(spy), **CHEAP)
        assert chosen.ids == ["tool:mail", "tool:size"]
        assert chosen.to_frame()["score"].tolist() == [2.5, 0.0]
        assert calls == [("anything", TEXTS)]
        assert ids(ctxbench.retrieve(spy, depth=1)) == ["mail"]

    def test_it_gets_only_what_the_request_may_see(self):
        notes = [
            {"type": "memory", "name": name, "text": f"{name} drinks tea", "user": name.lower()}
            for name in ("Ann", "Ben")
        ]
        calls = []

        def spy(query, texts):
            calls.append(texts)
            return [1.0] * len(texts)

        catalog = ctxbench.catalog(notes)
        assert ctxbench.select("tea", catalog, selector=ctxbench.retrieve(spy), user="ben", **CHEAP).ids == [
            "memory:Ben"
        ]
        assert calls == [("Ben drinks tea",)]
        assert ctxbench.select("tea", catalog, selector=ctxbench.retrieve(spy), user="eve", **CHEAP).ids == []
        assert len(calls) == 1

    def test_it_is_a_source_of_a_merge(self):
        merged = ctxbench.pipeline({"merge": [steps.bm25, ctxbench.retrieve(longest)]}) >> steps.rrf
        assert list(merged.retrieve.sources) == ["bm25", "longest"]
        assert set(ids(merged)) == {"area", "size", "edge", "mail"}

    @pytest.mark.parametrize("scores", [[1.0], [float("inf")] * 4])
    def test_other_scores_are_errors(self, scores):
        with pytest.raises(SelectorError, match="failed for query 'select'"):
            ids(ctxbench.retrieve(lambda query, texts: scores))


class TestCut:
    @pytest.mark.parametrize(
        ("function", "n"),
        [
            (lambda scores: 2, 2),
            (lambda scores: 0, 0),
            (lambda scores: 99, 3),
            (lambda scores: (scores > 0).sum(), 3),
            (lambda scores: scores >= scores[1], 2),
            (lambda scores: [True, False, False], 1),
        ],
    )
    def test_a_number_or_a_mask_decides_what_is_offered(self, function, n):
        assert ids(steps.bm25 >> ctxbench.cut(function)) == ["area", "size", "edge"][:n]

    def test_scores_are_those_of_what_is_offered_best_first_and_the_rule_names_the_function(self):
        calls = []

        def half(scores):
            calls.append(scores.tolist())
            scores[:] = 0  # a copy
            return 1

        pipeline = steps.bm25 >> steps.first(2) >> ctxbench.cut(half)
        frame = ctxbench.select("area of a circle", TOOLS, selector=pipeline, **CHEAP).to_frame(near=2)
        assert calls == [frame["score"].tolist()[:2]]
        assert "half" in frame["rule"][1]
        assert frame["rule"][2] == "beyond the first n=2"
        assert ids(pipeline, "zebra") == []
        assert len(calls) == 1

    @pytest.mark.parametrize("answer", [True, -1, 1.0, None, [True], [1, 0, 1], "all"])
    def test_other_answers_are_errors(self, answer):
        with pytest.raises(SelectorError, match="failed for query 'select'") as error:
            ids(steps.bm25 >> ctxbench.cut(lambda scores: answer))
        assert "Error" not in str(error.value)


def test_the_section_of_the_page_on_python_runs(monkeypatch):
    class CrossEncoder:
        """As that of sentence-transformers, without a model."""

        def __init__(self, name):
            self.name = name

        def predict(self, pairs):
            return np.array([-len(text) for _, text in pairs], dtype=np.float32)

    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(CrossEncoder=CrossEncoder))
    page = (ROOT / "experiments" / "guide" / "python.md").read_text("utf-8")
    section = page.split("## A step from a function\n")[1].split("\n## ")[0]
    names: dict = {}
    monkeypatch.setattr(ctxbench, "evaluate", partial(ctxbench.evaluate, **CHEAP))
    for block in section.split("```python\n")[1:]:
        exec(block.split("```")[0].replace('"bfcl-simple"', repr(str(SMOKE))), names)
    for name in ("ranked", "halved", "fused"):
        assert ids(names[name])[0] == "area"
    assert ids(steps.bm25 >> names["cross"]) == ["size", "area", "edge"]


class TestIdentity:
    """Stored answers belong to a function as it was."""

    SOURCE = """
calls = []
def score(query, texts):
    calls.append(query)
    return [{sign}len(text) for text in texts]
"""

    @staticmethod
    def first(function, out):
        pipeline = steps.bm25 >> ctxbench.rerank(function) >> steps.first(2)
        return ctxbench.evaluate(SMOKE, {"mine": pipeline}, out=out, **CHEAP)

    def test_answers_of_a_named_function_are_kept_until_its_file_changes(self, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        file = tmp_path / "mine_of_steps.py"
        file.write_text(self.SOURCE.format(sign=""))
        module = importlib.import_module("mine_of_steps")
        before = self.first(module.score, tmp_path / "run").to_frame()
        n = len(module.calls)
        assert n > 0
        assert self.first(module.score, tmp_path / "run").to_frame().equals(before)
        assert len(module.calls) == n
        file.write_text(self.SOURCE.format(sign="-"))
        module = importlib.reload(module)
        after = self.first(module.score, tmp_path / "run").to_frame()
        assert len(module.calls) == n
        assert not after.equals(before)
        del sys.modules["mine_of_steps"]

    def test_answers_of_a_function_without_a_name_are_never_used_again(self, tmp_path):
        sign = 1
        step = ctxbench.rerank(lambda query, texts: [sign * len(text) for text in texts])
        pipeline = steps.bm25 >> step >> steps.first(2)
        before = ctxbench.evaluate(SMOKE, {"mine": pipeline}, out=tmp_path / "run", **CHEAP).to_frame()
        sign = -1
        after = ctxbench.evaluate(SMOKE, {"mine": pipeline}, out=tmp_path / "run", **CHEAP).to_frame()
        assert not after.equals(before)

    def test_descriptions_are_json_and_name_the_function(self):
        pipeline = ctxbench.retrieve(longest) >> ctxbench.rerank(longest, top=3, name="long") >> ctxbench.cut(longest)
        described = json.loads(json.dumps(pipeline.describe()))
        retrieve, rerank = described["retrieve"], described["refine"][0]
        assert (retrieve["step"], rerank["step"], rerank["top"]) == ("retrieve:longest", "rank:long", 3)
        assert rerank["function"] == f"{__name__}:longest"
        assert retrieve["code"] == rerank["code"]
        again = ctxbench.retrieve(longest) >> ctxbench.rerank(longest, top=3, name="long") >> ctxbench.cut(longest)
        assert (again, again.key) == (pipeline, pipeline.key)
