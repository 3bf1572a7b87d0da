"""Evaluation from Python is the run of the command: the same values, the same figures, to the last digit."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

import ir_measures
import numpy as np
import pytest

import ctxbench
from ctxbench.cli.run import ReportTargets, report_run
from ctxbench.datasets.files import create_dataset
from ctxbench.evaluation.inputs import open_experiment
from ctxbench.evaluation.run_folder import RunFolder, summarise_run
from ctxbench.evaluation.runner import run
from ctxbench.io.errors import InputError, ParameterError, UnknownNameError, UserError
from ctxbench.labelling.evals import import_evals
from ctxbench.model.items import Catalog, Item
from ctxbench.pipelines.pipeline import PipelineError
from ctxbench.report.run_text import figures_csv
from ctxbench.search.embedders import HashingEmbedder
from ctxbench.search.tokens import O200kCounter
from tests.api.conftest import CHEAP, ROOT, SMOKE


@pytest.fixture
def results():
    return ctxbench.evaluate(SMOKE, {"docs": "semantic/spec", "words": "bm25"}, baseline="words", **CHEAP)


def test_forbidden_items_that_nobody_named_are_in_the_frame(tmp_path):
    catalog = Catalog([Item(type="tool", server="shop", name=name, description=name) for name in ("refund", "cancel")])
    (tmp_path / "evals.jsonl").write_text('{"id": "a", "query": "refund", "expected": [], "forbidden": ["cancel"]}')
    create_dataset(import_evals([tmp_path / "evals.jsonl"], catalog).dataset, tmp_path / "evals")
    frame = ctxbench.evaluate(str(tmp_path / "evals"), "everything", **CHEAP).to_frame(intervals=True)
    assert frame["forbidden_offered"].tolist() == [1.0]
    assert "forbidden_offered low" in frame


def test_the_figures_are_those_of_the_command(results, tmp_path):
    (tmp_path / "e.yaml").write_text(
        f"name: evaluate\ndatasets: [{SMOKE}]\nembedder: hashing\ntokens: chars/4\ncompare_to: words\nselectors:\n"
        "  - {selector: semantic, preset: spec, name: docs}\n  - {selector: bm25, name: words}\n",
        encoding="utf-8",
    )
    run(open_experiment(tmp_path / "e.yaml"), tmp_path / "run")
    command = summarise_run(RunFolder(tmp_path / "run"))
    assert results.summary.as_dict()["datasets"] == command.as_dict()["datasets"]
    frame = results.to_frame(intervals=True)
    for one in command.datasets[0].selectors:
        for name, found in one.estimates.items():
            told = frame.loc[one.selector, [name, f"{name} low", f"{name} high"]]
            assert told.tolist() == pytest.approx(
                [found.value, *found.interval[:2]]
                if isinstance(found.interval, tuple)
                else [found.value, found.interval.low, found.interval.high],
                rel=0,
                abs=0,
                nan_ok=True,
            )
    for name in ("docs", "words"):
        path = RunFolder(tmp_path / "run").part_path("smoke", name)
        for file in ("answers.zip", "metrics.jsonl", "selections.jsonl"):
            assert (path / file).read_bytes() == (
                RunFolder(results.folder).part_path("smoke", name) / file
            ).read_bytes()


def test_values_by_query_are_those_of_the_run_folder(results):
    frame = results.per_query()
    for name in ("docs", "words"):
        lines = (RunFolder(results.folder).part_path("smoke", name) / "metrics.jsonl").read_text().splitlines()
        own = frame[frame["selector"] == name]
        for (_, row), line in zip(own.iterrows(), map(json.loads, lines), strict=True):
            assert row["query"] == line["query"]
            values = {key: None if np.isnan(row[key]) else row[key] for key in line["values"]}
            assert values == line["values"]


def test_a_comparison_is_that_of_the_report(results):
    (summary,) = [one for one in results.summary.datasets[0].selectors if one.selector == "docs"]
    rows = results.compare("docs").set_index("metric")
    for name, found in summary.against.items():
        assert (rows.loc[name, "difference"], rows.loc[name, "p"]) == (found.difference, found.p_holm)
        assert (rows.loc[name, "low"], rows.loc[name, "high"]) == (found.interval.low, found.interval.high)
    turned = results.compare("words", "docs").set_index("metric")
    assert turned["difference"].tolist() == [-one for one in rows["difference"]]


NAMED = ["completeness", "tokens", "nDCG@10", "R@5", "RR", "BoR@5", "Success@3"]


def test_an_explanation_has_the_score_of_each_source():
    sources = {"first": {"bm25": {"depth": 2}}, "second": {"bm25": {"depth": 20}}}
    merged = ctxbench.evaluate(SMOKE, {"both": ctxbench.pipeline({"merge": sources}, refine=["rrf"])}, **CHEAP)
    query = merged.per_query()["query"][0]
    frame = merged.explain(query, "both")
    assert frame.columns[:8].tolist() == ["item", "offered", "score", "grade", "rule", "mode", "origin", "via"]
    assert frame["first"].notna().sum() == 2 < frame["second"].notna().sum()
    both = frame[frame["first"].notna()]
    assert both["first"].tolist() == both["second"].tolist()


def test_every_metric_that_was_named_is_in_the_frame_with_its_comparison_and_in_the_table():
    ranked = ctxbench.pipeline("bm25", refine=[{"first": {"n": 2}}])
    selectors = {"all": "everything", "words": ranked, "docs": "semantic/spec"}
    named = ctxbench.evaluate(SMOKE, selectors, baseline="words", metrics=NAMED, **CHEAP)
    frame = named.to_frame(intervals=True)
    for name in NAMED:
        assert {name, f"{name} low", f"{name} high"} <= set(frame.columns)
    compared = [name for name in NAMED if name != "BoR@5"]  # which is made of two means
    docs = frame.loc["docs"]
    for name in compared:
        assert np.isfinite(docs[[f"{name} difference", f"{name} p", f"{name} p at floor"]].tolist()).all()
        assert docs[f"{name} low"] <= docs[name] <= docs[f"{name} high"]
    together = named.compare(baseline="words", metrics=compared).set_index(["selector", "metric"])
    for name in compared:
        assert (docs[f"{name} difference"], docs[f"{name} p"]) == tuple(
            together.loc[("docs", name)][["difference", "p"]]
        )
    usual = ctxbench.evaluate(SMOKE, selectors, baseline="words", **CHEAP).to_frame(intervals=True).loc["docs"]
    assert "R@5 difference" not in usual.index
    assert frame.loc["all", ["nDCG@10", "nDCG@10 low"]].isna().all(), "it gives no ranking"
    heads = ("complete %", "prompt tokens", "nDCG@10 %", "R@5 %", "RR %", "BoR@5", "Success@3 %")
    for text in (repr(named), named._repr_html_()):
        assert all(head in text for head in heads)


def test_metrics_that_no_selector_has_are_named_in_frame_and_table():
    found = ctxbench.evaluate(SMOKE, ["everything"], metrics=["completeness", "nDCG@10"], **CHEAP)
    assert found.to_frame()["nDCG@10"].isna().all()
    assert "nDCG@10 %" in repr(found)


def test_a_p_value_at_its_floor_is_said_to_be_one():
    ds = ctxbench.dataset(
        [{"name": "area", "description": "one"}, {"name": "mail", "description": "two three four"}],
        [{"query": f"q{n}", "text": "area"} for n in range(40)],
        [{"query": f"q{n}", "item": "area"} for n in range(40)],
    )
    first = ctxbench.pipeline("bm25", refine=[{"first": {"n": 1}}])
    found = ctxbench.evaluate(ds, {"first": first, "all": "everything"}, **CHEAP)
    frame = found.to_frame(intervals=True).loc["all"]
    assert frame["tokens p"] < 0.0002
    assert (frame["tokens p at floor"], frame["completeness p at floor"]) == (1.0, 0.0)
    assert found.compare("all").set_index("metric")["p_at_floor"].to_dict() == {"completeness": False, "tokens": True}
    (dataset,) = found.summary.as_dict()["datasets"].values()
    told = dataset["selectors"]["all"]["against"]
    assert (told["tokens"]["p_floor"], told["tokens"]["p_holm_at_floor"]) == (0.0001, True)
    assert (told["completeness"]["p_floor"], told["completeness"]["p_holm_at_floor"]) == (None, False)
    assert figures_csv(found.summary).splitlines()[0].split(",")[-2] == "p_holm_at_floor"


def test_functions_pipelines_and_answers_are_selectors(tmp_path):
    def first_two(request, items):
        return [item["_id"] for item in items if item.get("include", "agent") == "agent"][: len(request["text"]) and 2]

    ids = [query.id for query in ctxbench.load(SMOKE).dataset.queries]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"query": one, "items": []}) + "\n" for one in ids))
    ds = ctxbench.dataset(
        [{"name": name} for name in ("area", "root", "mail")],
        [{"query": "q1", "text": "area"}, {"query": "q2", "text": "mail"}],
        [{"query": "q1", "item": "area"}, {"query": "q2", "item": "mail"}],
    )
    words = ctxbench.pipeline("bm25", refine=[{"first": {"n": 1}}])
    found = ctxbench.evaluate(ds, {"two": first_two, "words": words}, **CHEAP)
    assert found.to_frame()["completeness"].to_dict() == {"two": 0.5, "words": 1.0}
    assert found.explain("q2", "two")[["item", "offered", "grade"]].values.tolist()[-1] == ["tool:mail", False, 2.0]
    none = ctxbench.evaluate(SMOKE, {"none": ctxbench.answers(tmp_path / "a.jsonl")}, **CHEAP)
    assert none.to_frame()["completeness"].tolist()[0] < 0.5


def test_a_function_that_changes_what_it_is_given_or_fails_is_an_error_of_its_queries():
    def greedy(_request, items):
        items.clear()
        return []

    def failing(request, _items):
        raise KeyError(request["id"])

    found = ctxbench.evaluate(SMOKE, {"greedy": greedy, "failing": failing, "bm25": "bm25"}, **CHEAP)
    assert found.to_frame()["errors"].tolist() == [30, 30, 0]


def test_a_shipped_selector_takes_values_of_its_parameters():
    given = {"selector": "memory", "set": {"n": 1, "words": 0.5}}
    found = ctxbench.evaluate(SMOKE, {"one": given, "plain": "memory"}, **CHEAP)
    assert found.per_query().groupby("selector")["items"].max().to_dict() == {"one": 1, "plain": 10}
    for wrong, message in (
        ({**given, "sett": {}}, "selector 'x' has no key 'sett'; did you mean 'set'"),
        ({**given, "set": 3}, "set maps parameters to values"),
        ({**given, "set": {"m": 3}}, "selector 'memory' has no parameter 'm'"),
    ):
        with pytest.raises(ParameterError, match=message):
            ctxbench.evaluate(SMOKE, {"x": wrong}, **CHEAP)


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"retrieve": "memory"}, "retrieve"),
        ({"retrieve": {"merge": {"a": "memory", "b": "bm25"}}}, "retrieve.merge.a"),
        ({"retrieve": "bm25", "refine": ["first", {"memory": {}}]}, "refine.1"),
    ],
)
def test_a_selector_in_the_place_of_a_step_is_told_apart(spec, place):
    with pytest.raises(PipelineError) as caught:
        ctxbench.pipeline(**spec)
    said = "'memory' is a selector, not a step; name it in place of the pipeline"
    assert str(caught.value).startswith(f'{place}: {said}: {{"selector": "memory"}}')
    with pytest.raises(PipelineError, match="unknown retrieve strategy 'memry'"):
        ctxbench.pipeline("memry")


def test_what_a_selector_failed_on_is_shown_with_the_first_reason(results):
    def failing(request, _items):
        if request["id"] != "s003":
            raise ValueError("a < b")
        return []

    found = ctxbench.evaluate(SMOKE, {"bm25": "bm25", "failing": failing}, **CHEAP)
    said = "warning: smoke, failing: 29 queries failed and count as nothing offered; first query 's001' and 28 more: "
    text, html = repr(found), found._repr_html_()
    assert f"{said}the callable raised ValueError: a < b (" in text.splitlines()[-1]
    assert "29 queries failed" in html
    assert "ValueError: a &lt; b" in html
    rows = found.per_query().query("selector == 'failing'").set_index("query")["error"]
    assert "a < b" in rows["s001"]
    assert rows["s003"] == ""
    assert (found.per_query().query("selector == 'bm25'")["error"] == "").all()
    assert "failed" not in repr(results) + results._repr_html_()


def test_two_datasets_stand_one_below_the_other(results):
    other = ctxbench.dataset(
        [{"name": "area"}], [{"query": "s001", "text": "area"}], [{"query": "s001", "item": "area"}]
    )
    both = ctxbench.evaluate([SMOKE, other], ["bm25", "everything"], **CHEAP)
    assert both.to_frame().index.tolist() == [(d, s) for d in ("smoke", "mine") for s in ("bm25", "everything")]
    assert both.to_frame().loc[("smoke", "bm25"), "tokens"] == results.to_frame().loc["words", "tokens"]
    with pytest.raises(ParameterError, match="query 's001' is in smoke, mine; say which by `dataset`"):
        both.explain("s001", "bm25")
    assert both.explain("s001", "bm25", dataset="mine")["item"].tolist() == ["tool:area"]


def test_it_shows_itself_as_a_table(results):
    for shown in (results._repr_html_(), repr(results)):
        assert "complete %" in shown
        assert "docs" in shown


def test_a_run_folder_of_ones_own_is_gone_on_with_and_reported(tmp_path, capsys):
    asked = []

    def count(request, _items):
        asked.append(request["id"])
        return []

    first = ctxbench.evaluate(SMOKE, ["bm25"], out=tmp_path / "run", **CHEAP)
    again = ctxbench.evaluate(SMOKE, {"bm25": "bm25", "count": count}, out=tmp_path / "run", **CHEAP)
    assert first.folder == again.folder == tmp_path / "run"
    assert len(asked) == 30
    assert RunFolder(first.folder).read("manifest.json")["datasets"]["smoke"]["reference"].endswith("datasets/smoke")
    report_run(tmp_path / "run", ReportTargets(json=True))
    assert json.loads(capsys.readouterr().out)["datasets"]["smoke"]["queries"] == 30


def test_a_function_without_a_ranking_is_told_that_ranking_metrics_need_one():
    def ids(_request, _items):
        return []

    res = ctxbench.evaluate(SMOKE, {"mine": ids}, metrics=["nDCG@10", "R@5"], **CHEAP)
    assert repr(res).count("no ranking") == 1
    assert "no ranking" not in repr(ctxbench.evaluate(SMOKE, ["bm25"], metrics=["nDCG@10"], **CHEAP))


ITEMS, QUERIES = [{"name": "a"}, {"name": "b"}], [{"query": "q", "text": "a"}]


@pytest.mark.parametrize(
    ("data", "selectors", "given"),
    [
        (SMOKE, ["bm25"], {}),
        (SMOKE, ["bm25", "everything"], {"split": "test"}),
        (SMOKE, ["bm25", "everything"], {"sample": 5}),
        (ctxbench.dataset(ITEMS, QUERIES, [{"query": "q", "item": "b"}], name="smoke"), ["bm25", "everything"], {}),
    ],
)
def test_a_finished_run_is_never_replaced_by_another(data, selectors, given, tmp_path):
    asked = {"selectors": ["bm25", "everything"], "out": tmp_path / "run", **CHEAP}
    first = ctxbench.evaluate(SMOKE, **asked)
    frame = first.to_frame()
    with pytest.raises(ParameterError) as refused:
        ctxbench.evaluate(data, **{**asked, "selectors": selectors, **given})
    assert str(tmp_path / "run") in str(refused.value)
    assert first.to_frame().equals(frame)
    more = ctxbench.evaluate(SMOKE, **{**asked, "selectors": ["bm25", "everything", "oracle"]}, metrics=["R@5"])
    assert more.selectors == ["bm25", "everything", "oracle"]


@pytest.mark.parametrize(
    ("selectors", "given", "error", "message"),
    [
        ({}, {}, ParameterError, "selectors is empty"),
        ({"a": 3}, {}, ParameterError, "selector 'a' must be the name of a shipped one, a pipeline, answers"),
        ({"x": "data/good.run"}, {}, ParameterError, r"ctxbench\.answers"),
        ({"x": {"selector": print, "set": {"k": 2}}}, {}, ParameterError, r"functools\.partial"),
        (["bm26"], {}, UnknownNameError, "bm26"),
        (["bm25"], {"baseline": "bm2"}, UnknownNameError, "unknown baseline 'bm2'; did you mean 'bm25'"),
        (["bm25"], {"metrics": ["R@"]}, InputError, "R@"),
        (["bm25"], {"split": "tst"}, InputError, "tst"),
    ],
)
def test_what_cannot_be_evaluated_is_said_at_once(selectors, given, error, message):
    with pytest.raises(error, match=message):
        ctxbench.evaluate(SMOKE, selectors, **CHEAP, **given)


def test_unknown_selectors_and_metrics_of_results_are_named(results):
    with pytest.raises(UnknownNameError, match="unknown selector 'doc'"):
        results.explain("s001", "doc")
    with pytest.raises(UnknownNameError, match="unknown metric 'R@9'"):
        results.compare("docs", metrics=["R@9"])
    with pytest.raises(UnknownNameError, match="unknown query 's999'"):
        results.explain("s999", "docs")


def test_selecting_is_what_the_command_tells(capsys):
    tools = ctxbench.catalog([{"name": "area", "description": "Area of a triangle"}, {"name": "mail"}])
    found = ctxbench.select("area of a triangle", tools, topK=20, topN=1, includeScore=0.7, **CHEAP)
    assert found.ids == ["tool:area"]
    assert found.tools[0]["name"] == "area"
    assert found.to_frame(near=5)[["item", "offered"]].values.tolist() == [["tool:area", True], ["tool:mail", False]]
    assert found.tokens > 0
    with pytest.raises(ParameterError, match="topQ"):
        ctxbench.select("area", tools, selector="semantic", topQ=3, **CHEAP)
    with pytest.raises(ParameterError, match="a pipeline holds its own parameters; leave n out"):
        ctxbench.select("area", tools, selector=ctxbench.pipeline("bm25"), n=3, **CHEAP)


@pytest.mark.parametrize("name", sorted({module for module in ctxbench._MODULES if module.startswith("api.")}))
def test_the_examples_of_docstrings_are_true(name, tmp_path):
    found = importlib.import_module(f"ctxbench.{name}")
    ran = doctest.testmod(found, extraglobs={"ctxbench": ctxbench, "tmp_path": tmp_path})
    assert ran.attempted > 0
    assert ran.failed == 0


def test_no_name_is_that_of_a_module_which_would_take_its_place_when_imported():
    modules = {one.name for one in pkgutil.iter_modules(ctxbench.__path__)}
    assert not modules & set(ctxbench.__all__)


def test_importing_loads_no_library():
    code = "import sys, ctxbench; print(sorted({'numpy', 'pandas', 'yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_the_embedder_on_the_page_runs():
    blocks = (ROOT / "experiments" / "guide" / "python.md").read_text("utf-8").split("```python\n")[1:]
    (shown,) = (block.split("```")[0] for block in blocks if "def embed(texts, kind)" in block)
    prompted = []

    def encode(texts):
        prompted.extend(texts)
        return HashingEmbedder().embed(texts)

    exec(shown, {"ctxbench": ctxbench, "ds": str(SMOKE), "encode": encode})
    assert {text.partition(": ")[0] for text in prompted} == {"query", "passage"}


def page_code(title):
    """The first block of code below a title of the page on Python."""
    page = (ROOT / "experiments" / "guide" / "python.md").read_text("utf-8")
    return page.split(f"# {title}\n")[1].split("```python\n")[1].split("```")[0]


@pytest.mark.essential
def test_the_page_on_python_runs(tmp_path):
    from matplotlib import pyplot as plt

    plt.close("all")
    shown = "\n".join(
        page_code(title) for title in ("ctxbench in Python", "A selector from a function", "Tables and plots", "Tune")
    )
    for old, new in (
        ('"bfcl-simple"', repr(str(SMOKE))),
        ('split="test"', 'split="test", embedder="hashing"'),
        ("includeScore=0.7", 'includeScore=0.7, embedder="hashing"'),
        ('completeness="0.98 of base"', 'completeness="0.98 of base", embedder="hashing"'),
        ('"presets.yaml"', repr(str(tmp_path / "presets.yaml"))),
        ('"figure.pdf"', repr(str(tmp_path / "figure.pdf"))),
        ('for item in items if item["name"]', 'for item in items if "available" not in request and item["name"]'),
    ):
        assert old in shown
        shown = shown.replace(old, new)
    names: dict = {}
    exec(shown, names)
    assert len(plt.get_fignums()) == 4
    plt.close("all")
    assert (tmp_path / "figure.pdf").exists()
    assert list(names["res"].to_frame().index) == ["spec", "mine", "words"]
    rest = {"rest": lambda request, items: [item["_id"] for item in names["eligible"](request, items)]}
    every = ctxbench.evaluate(str(SMOKE), rest, **CHEAP)  # no item that `eligible` leaves is refused
    assert every.to_frame().loc["rest", "errors"] == 0
    verdicts = {one.selector: str(one.verdict) for one in ctxbench.check(names["now"], names["res"]).found.selectors}
    assert verdicts["words"] == "worse"


def test_the_page_on_python_counts_what_is_missed_by_item(tmp_path):
    needed = {"area": ["area", "mail"], "root": ["root", "mail"], "mail": ["mail"]}
    queries = [{"query": name, "text": name} for name in needed]
    labels = [{"query": query, "item": item} for query, items in needed.items() for item in items]
    ctxbench.dataset([{"name": name} for name in needed], queries, labels).save(tmp_path / "mine")
    shown = page_code("What is missed most")
    for old, new in (
        ('split="test"', 'embedder="hashing", counter="chars/4"'),
        ('"bfcl-simple"', repr(str(tmp_path / "mine"))),
        ('"semantic/spec"', '{"selector": "bm25", "set": {"n": 1}}'),
    ):
        assert old in shown
        shown = shown.replace(old, new)
    exec(shown, names := {})
    assert names["missed"]["item"].value_counts().to_dict() == {"tool:mail": 2}
    assert names["missed"]["query"].tolist() == ["area", "root"]


def test_the_frames_of_the_page_on_python_run():
    blocks = (ROOT / "experiments" / "guide" / "python.md").read_text("utf-8").split("```python\n")[1:]
    (shown,) = [block.split("```")[0] for block in blocks if "qrels = " in block]
    names: dict = {"ctxbench": ctxbench}
    exec(shown, names)
    assert names["docs"].labels["grade"].tolist() == [1, 2]
    assert "trec_eval" in repr(ctxbench.evaluate(names["docs"], ["bm25"], judged="trec", **CHEAP))
    assert "trec_eval" not in repr(ctxbench.evaluate(names["docs"], ["bm25"], **CHEAP))


class TestStep:
    @dataclass(frozen=True)
    class Nothing(ctxbench.Strategy):
        least: int = 0

        def __call__(self, query, candidates, resources):
            return candidates.exclude(candidates.tier > 0, ctxbench.Rule.of("nothing", least=self.least))

    def test_a_strategy_without_a_name_is_a_step_and_is_described_by_its_class_and_parameters(self):
        cut = ctxbench.step("cut", self.Nothing(least=2))
        res = ctxbench.evaluate(SMOKE, {"mine": ctxbench.pipeline("bm25", refine=[cut, "first"])}, **CHEAP)
        assert res.to_frame()["items"].tolist() == [0.0]
        described = res.summary.manifest["selectors"]["mine"]["description"]["pipeline"]["refine"][0]
        assert described["step"] == "cut:nothing"
        assert described["least"] == 2
        assert described["code"].startswith("test_evaluation:") or "test_evaluation" in described["code"]

    def test_what_is_no_strategy_is_said(self):
        with pytest.raises(UnknownNameError, match="unknown kind of step 'cutt'; did you mean 'cut'"):
            ctxbench.step("cutt", self.Nothing())
        with pytest.raises(ParameterError, match=r"an object of a frozen dataclass.*got the class Nothing"):
            ctxbench.step("cut", self.Nothing)
        with pytest.raises(ParameterError, match="got function"):
            ctxbench.step("cut", lambda query, candidates, resources: candidates)
        with pytest.raises(UserError, match="nothing is a step of kind cut, expected one of kind retrieve"):
            ctxbench.pipeline(ctxbench.step("cut", self.Nothing()))

    def test_two_classes_that_have_no_file_are_never_taken_for_each_other(self):
        source = (
            "import ctxbench\nfrom dataclasses import dataclass\n"
            "@dataclass(frozen=True)\nclass Odd(ctxbench.Strategy):\n"
            "    def __call__(self, q, c, r):\n        return c\n"
        )
        made = []
        for _ in range(2):
            names = {"__name__": "typed_in"}
            exec(source, names)
            made.append(names["Odd"])
        one, other = (ctxbench.step("cut", each()).describe()["code"] for each in made)
        assert one != other
        assert one == ctxbench.step("cut", made[0]()).describe()["code"]


class TestBadInput:
    TOOLS = ctxbench.catalog([{"name": "area"}])

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"history": ["hi"]}, "history, message 1: expected role and content, both texts; got 'hi'"),
            ({"history": [{"role": "user"}]}, "history, message 1: expected role and content"),
            ({"user": 5}, "user must be a text, got 5"),
            ({"time": "yesterday"}, "time must be ISO 8601.*got 'yesterday'"),
        ],
    )
    def test_what_a_request_cannot_have_is_said(self, given, message):
        with pytest.raises(ParameterError, match=message):
            ctxbench.select("area", self.TOOLS, selector="bm25", **given, **CHEAP)

    def test_messages_are_pairs_or_dicts_and_a_dataset_has_a_name(self):
        pairs, dicts = [("user", "hi")], [{"role": "user", "content": "hi"}]
        one, other = (ctxbench.select("area", SMOKE, selector="bm25", history=said, **CHEAP) for said in (pairs, dicts))
        assert one.messages == other.messages
        assert {"role": "user", "content": "hi"} in one.messages
        at = ctxbench.select("area", self.TOOLS, selector="bm25", time=datetime(2026, 1, 1, tzinfo=UTC), **CHEAP)
        assert at.ids == ["tool:area"]

    def test_one_selector_is_a_name_and_two_datasets_are_never_one(self, tmp_path, monkeypatch):
        assert ctxbench.evaluate(SMOKE, "bm25", **CHEAP).selectors == ["bm25"]
        shutil.copytree(SMOKE, tmp_path / "foo")
        monkeypatch.chdir(tmp_path)
        mine = ctxbench.dataset(self.TOOLS, [{"query": "q", "text": "a"}], [{"query": "q", "item": "area"}], name="foo")
        with pytest.raises(ParameterError, match="or one is called as the folder of another; rename one"):
            ctxbench.evaluate([ctxbench.load("foo"), mine], ["bm25"], **CHEAP)
        with pytest.raises(
            ParameterError, match="a dataset is a name, a folder, or what load or dataset returns; got int"
        ):
            ctxbench.evaluate([3], ["bm25"], **CHEAP)

    def test_steps_hold_their_words_and_parameters_as_reports_can(self):
        @dataclass(frozen=True)
        class Odd(TestStep.Nothing):
            held: object = None
            rule_words = ("a",)

        with pytest.raises(ParameterError, match="rule_words of Odd must map codes to texts"):
            ctxbench.step("cut", Odd())
        Odd.rule_words = {}
        with pytest.raises(ParameterError, match="the fields of Odd are its parameters, which JSON must hold"):
            ctxbench.step("cut", Odd(held=print))


class TestRun:
    TEXT = f"name: mine\ndatasets: [{SMOKE}]\nselectors: [{{selector: bm25}}]\nembedder: hashing\ntokens: chars/4\n"

    @pytest.fixture
    def experiment(self, tmp_path):
        path = tmp_path / "mine.yaml"
        path.write_text(self.TEXT, encoding="utf-8")
        return path

    def test_an_experiment_in_yaml_has_the_figures_of_the_same_in_python(self, experiment):
        found = ctxbench.run(experiment).to_frame(intervals=True)
        assert found.equals(ctxbench.evaluate(SMOKE, ["bm25"], **CHEAP).to_frame(intervals=True))

    def test_a_finished_run_of_the_command_is_read(self, experiment, tmp_path):
        run(open_experiment(experiment), tmp_path / "run")
        asked = []
        found = ctxbench.run(str(experiment), out=str(tmp_path / "run"), progress=lambda *told: asked.append(told))
        assert asked == []
        assert found.folder == tmp_path / "run"
        assert found.explain(found.per_query()["query"][0], "bm25")["offered"].any()

    def test_what_is_wrong_in_it_is_said_with_its_line(self, experiment):
        experiment.write_text(self.TEXT + "metrics: [R@five]\n", encoding="utf-8")
        with pytest.raises(InputError, match=r"unknown metric .R@five.*mine\.yaml, line 6"):
            ctxbench.run(experiment)


def test_paraphrases_are_compared_by_group():
    """Ten paraphrases of one request that one selector answers, and one that the other does: two witnesses."""
    ds = ctxbench.dataset(
        [{"name": name} for name in ("area", "root")],
        [
            *({"query": f"q{n}", "text": f"area {n}", "group": "area"} for n in range(10)),
            {"query": "r", "text": "root"},
        ],
        [*({"query": f"q{n}", "item": "tool:area"} for n in range(10)), {"query": "r", "item": "tool:root"}],
    )
    chosen = {"areas": lambda request, items: ["tool:area"], "roots": lambda request, items: ["tool:root"]}
    res = ctxbench.evaluate(ds, chosen, **CHEAP)
    by_query, by_group = (res.compare("roots", metrics=["completeness"], by_group=one).loc[0] for one in (False, True))
    assert by_query["p"] == pytest.approx(2 * 12 / 2**11)  # 11 coins of which at most one falls otherwise
    assert by_group["p"] == 1.0  # 2 groups against each other
    assert by_query["difference"] == by_group["difference"] == pytest.approx(-9 / 11)
    assert by_query["high"] < 0 < by_group["high"]
    alone = res.compare("roots", metrics=["tokens"], by_group=True)
    assert alone["difference"].tolist() == res.compare("roots", metrics=["tokens"])["difference"].tolist()
    note = "p and intervals count queries"
    assert all(note in text for text in (res.to_markdown(["tokens"]), res.to_latex(["tokens"])))
    assert note not in res.to_markdown(["tokens"], stars=False)  # nothing is compared


def test_by_group_without_groups_is_an_error():
    queries = [{"query": f"q{n}", "text": "area", "group": f"g{n}"} for n in range(2)]  # each is a group alone
    ds = ctxbench.dataset([{"name": "area"}], queries, [{"query": "q0", "item": "tool:area"}])
    res = ctxbench.evaluate(ds, ["bm25", "everything"], **CHEAP)
    with pytest.raises(ParameterError, match="no two queries of the results are of one group"):
        res.compare(by_group=True)
    assert "by_group" not in res.to_latex(["tokens"])


# ------------------------------------------------------------------------------------- judged as trec_eval does

RANKED = ("nDCG@10", "nDCG", "R@5", "RR", "P@5", "AP", "Success@1")


@pytest.mark.parametrize("name", ["smoke", "followups"])
def test_judged_as_trec_eval_does_every_query_has_the_value_of_ir_measures(name):
    results = ctxbench.evaluate(
        ROOT / "datasets" / name, ["bm25", "random"], metrics=[*RANKED, "completeness"], judged="trec", **CHEAP
    )
    (data,) = results.datasets.values()
    batch = data.batch()
    qrels, expected = {}, {}
    for label in data.labels:
        qrels.setdefault(label.query, {})[label.item.id] = label.grade
    assert any(max(grades.values()) < 2 or len(grades) > 1 for grades in qrels.values())
    for selector in results.selectors:
        run = {query: {} for query in qrels}
        for block in results.run.load(data.name, selector).answers.blocks():
            start, items = block.candidates.ranking()
            for index, query in enumerate(block.queries):
                ranked = [data.catalog.ids[item] for item in items[start[index] : start[index + 1]].tolist()]
                first, end = batch.session_start[index : index + 2]
                session = {data.catalog.ids[item] for item in batch.session_item[first:end].tolist()}
                ids = [item for item in ranked if item not in session][:100]
                run[query] = {item: -float(rank) for rank, item in enumerate(ids)}
        for value in ir_measures.iter_calc(list(map(ir_measures.parse_measure, RANKED)), qrels, run):
            expected[selector, value.query_id, str(value.measure)] = value.value
    frame = results.per_query().melt(["selector", "query"], RANKED).dropna()
    ours = {(row.selector, row.query, row.variable): row.value for row in frame.itertuples()}
    assert ours == pytest.approx(expected, abs=1e-9)


HELPFUL = [{"query": "q1", "item": "mail", "grade": 1}, {"query": "q2", "item": "wiki", "grade": 0}]


def helpful_only(labels=HELPFUL):
    items = [{"name": name, "description": f"Opens the {name}"} for name in ("mail", "wiki", "map")]
    queries = [{"query": f"q{n}", "text": text} for n, text in enumerate(("mail", "wiki", "map"), 1)]
    return ctxbench.dataset(items, queries, labels)


def test_a_query_with_grade_1_alone_counts_where_trec_eval_judges():
    metrics = ["R@1", "nDCG@10", "P@1", "completeness", "abstention"]
    results = ctxbench.evaluate(helpful_only(), ["bm25", "oracle"], metrics=metrics, judged="trec", **CHEAP)
    assert results.per_query().query("selector == 'bm25'")[["query", "R@1", "P@1"]].values.tolist() == [
        ["q1", 1.0, 1.0],
        ["q2", 0.0, 0.0],  # its labels have nothing relevant; q3 has no label
    ]
    assert results.to_frame().loc["oracle", ["completeness", "abstention"]].tolist() == [1.0, 1.0]
    assert results.run.read("manifest.json")["experiment"]["judged"] == "trec"
    with pytest.raises(InputError, match="judged"):
        ctxbench.evaluate(helpful_only(HELPFUL[:1]), ["bm25"], metrics=metrics, **CHEAP)
    with pytest.raises(ParameterError, match="'trek'"):
        ctxbench.evaluate(helpful_only(), ["bm25"], judged="trek", **CHEAP)


def test_an_experiment_is_judged_as_it_says_and_its_run_is_read_again(tmp_path, capsys):
    text = f"name: e\ndatasets: [{SMOKE}]\nselectors: [bm25]\nembedder: hashing\ntokens: chars/4\nmetrics: [R@5]\n"
    (tmp_path / "e.yaml").write_text(f"{text}judged: trec\n", encoding="utf-8")
    trec = ctxbench.run(tmp_path / "e.yaml", out=tmp_path / "trec")
    (tmp_path / "e.yaml").write_text(text, encoding="utf-8")
    plain = ctxbench.run(tmp_path / "e.yaml", out=tmp_path / "plain")
    assert trec.to_frame().loc["bm25", "R@5"] != plain.to_frame().loc["bm25", "R@5"]
    shutil.rmtree(tmp_path / "trec" / "report.html", ignore_errors=True)
    report_run(tmp_path / "trec", ReportTargets())
    assert "trec_eval" in capsys.readouterr().out
    assert str(ctxbench.check(trec, trec).verdict) == "same"
    assert str(ctxbench.check(trec, plain).verdict) == "not comparable"
    assert str(ctxbench.check(trec, tmp_path / "plain").verdict) == "not comparable"


def test_one_run_folder_takes_both_ways_of_judging(tmp_path):
    metrics = {"metrics": ["R@5", "completeness"], "out": tmp_path / "run"}
    selectors = ["bm25", "oracle"]
    plain = ctxbench.evaluate(SMOKE, selectors, **metrics, **CHEAP).to_frame()
    trec = ctxbench.evaluate(SMOKE, selectors, judged="trec", **metrics, **CHEAP).to_frame()
    assert trec.loc["oracle", "completeness"] == 1  # asked again: it offers what is required
    assert not trec.equals(plain)
    assert ctxbench.evaluate(SMOKE, selectors, **metrics, **CHEAP).to_frame().equals(plain)


def test_tokens_are_counted_of_the_items_that_are_offered(monkeypatch):
    texts = {"refund": "give the money back", "cancel": "stop an order, and send nothing", "track": "where it is"}
    items = [{"type": "tool", "name": name, "description": text} for name, text in texts.items()]
    queries = [{"query": f"q{n}", "text": name} for n, name in enumerate(["refund", "cancel", "refund"])]
    ds = ctxbench.dataset(items, queries, [{"query": "q0", "item": "refund"}, {"query": "q1", "item": "cancel"}])
    counted, count = [], O200kCounter.count
    monkeypatch.setattr(O200kCounter, "count", lambda self, ids, texts: counted.extend(ids) or count(self, ids, texts))
    by_name = {"named": lambda request, _: [f"tool:{request['text']}"], "first": lambda _, items: [items[0]["_id"]]}
    res = ctxbench.evaluate(ds, by_name, metrics=["tokens"], embedder="hashing", counter="o200k")
    assert sorted(counted) == ["tool:cancel", "tool:refund"]  # each once, and not what nobody offers
    whole = dict(
        zip(texts, O200kCounter().count([*texts], [item.prompt_text for item in ds.dataset.catalog]), strict=True)
    )
    assert res.to_frame()["tokens"].tolist() == [(whole["refund"] + whole["cancel"]) / 2, whole["refund"]]


def test_below_a_table_stands_which_selectors_were_fitted_on_its_labels():
    for split, expected in (("tuning", True), ("", True), ("test", False)):
        res = ctxbench.evaluate(ROOT / "datasets" / "freight", {"ours": "learned/normal"}, split=split, sample=20)
        assert ("ours: fitted on labels" in repr(res)) is ("ours: fitted on labels" in res._repr_html_()) is expected
