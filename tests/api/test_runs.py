"""Runs as objects: opened, exchanged with other programs, fused, and measured as these measure them."""

from __future__ import annotations

import json
import random
import re
import shlex
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import ir_measures
import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

import ctxbench
from ctxbench.cli.app import main
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.gate import accept, check_gate
from ctxbench.io.errors import InputError, ParameterError, SelectorError, StorageError, UnknownNameError, UserError
from tests.api.conftest import CHEAP, ROOT, SMOKE

METRICS = ["nDCG@10", "R@5", "RR", "P@5", "AP"]
SELECTORS = {
    "words": "bm25",
    "spec": "semantic/spec",
    "fused": ctxbench.pipeline({"merge": ["bm25", "dense"]}, refine=["rrf", {"first": {"n": 3}}]),
    "tied": ctxbench.pipeline("fuzzy", refine=[{"first": {"n": 3}}]),
    "shuffled": ctxbench.pipeline("random", refine=[{"first": {"n": 3}}]),
}


def graded(**options):
    """40 queries over 60 tools with grades 0 to 2; the last query needs nothing."""
    rng = random.Random(7)
    words = [f"word{n}" for n in range(25)]
    items = [{"name": f"t{n}", "description": " ".join(rng.choices(words, k=8))} for n in range(60)]
    queries = [{"query": f"q{n:02}", "text": " ".join(rng.choices(words, k=3))} for n in range(40)]
    for query in queries[::3]:
        query["split"] = "tuning"
    queries[-1]["needs"] = "nothing"
    labels = [
        {"query": query["query"], "item": f"t{item}", "grade": 2 if place == 0 else rng.choice([0, 1, 2])}
        for query in queries[:-1]
        for place, item in enumerate(rng.sample(range(60), rng.randint(1, 9)))
    ]
    return ctxbench.dataset(items, queries, labels, name="graded", **options)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The selectors on the graded dataset."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTXBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        return ctxbench.evaluate(graded(), SELECTORS, metrics=[*METRICS, "completeness", "tokens"], **CHEAP)


@pytest.mark.essential
@pytest.mark.parametrize("selector", SELECTORS)
def test_metrics_by_query_equal_ir_measures(measured, selector):
    names = {ir_measures.parse_measure(parse_metric(name).ir_measures): name for name in METRICS}
    values = measured.per_query().set_index(["selector", "query"])
    compared = 0
    for result in ir_measures.iter_calc(list(names), measured.qrels(), measured.to_run(selector)):
        assert result.value == pytest.approx(values.loc[(selector, result.query_id), names[result.measure]], abs=1e-12)
        compared += 1
    assert compared == 39 * len(METRICS)


def test_judged_as_trec_eval_does_every_query_has_equal_metrics(tmp_path):
    settings = {"metrics": METRICS, "judged": "trec", "out": tmp_path / "run", **CHEAP}
    values = ctxbench.evaluate(SMOKE, ["bm25", "random"], **settings).per_query().set_index(["selector", "query"])
    results = ctxbench.open(tmp_path / "run")
    names = {ir_measures.parse_measure(name): name for name in METRICS}
    for selector in results.selectors:
        compared = 0
        for result in ir_measures.iter_calc(list(names), results.qrels(), results.to_run(selector)):
            expected = values.loc[(selector, result.query_id), names[result.measure]]
            assert result.value == pytest.approx(expected, abs=1e-12)
            compared += 1
        assert compared == values.loc[selector, METRICS].count().sum() == 27 * len(METRICS)


@pytest.mark.parametrize("selector", SELECTORS)
def test_scores_are_those_of_the_selector_unless_they_are_equal(measured, selector):
    run = measured.to_run(selector)
    ranked = measured.rankings().to_frame(selectors=selector)
    assert run["doc_id"].tolist() == ranked["item"].tolist()
    assert run["rank"].tolist() == ranked["rank"].tolist()
    assert [run.dtypes[name] for name in run] == [object, object, np.float64, np.int64]  # which ranx requires
    distinct = []
    for (_, rows), (_, scores) in zip(run.groupby("query_id")["score"], ranked.groupby("query")["score"], strict=True):
        assert (np.diff(rows.to_numpy().astype(np.float32)) < 0).all()
        distinct.append(not scores.astype(np.float32).duplicated().any())
        assert (rows.tolist() == scores.tolist()) is distinct[-1]
        assert rows.to_numpy() == pytest.approx(scores.to_numpy(), rel=1e-5)
    assert selector not in ("tied", "shuffled") or all(distinct) is (selector == "shuffled")


def test_items_that_were_added_behind_others_keep_their_places():
    added = {"expansion": {"by": "chunks", "threshold": 0.0, "topN": 3}}
    pipeline = ctxbench.pipeline("bm25", refine=[{"first": {"n": 2}}, added])
    results = ctxbench.evaluate(graded(), {"added": pipeline}, **CHEAP)
    frame, run = results.rankings().to_frame(), results.to_run("added")
    assert (frame.groupby("query")["score"].diff() > 0).any()  # an added item has a higher score than what is before it
    by_score = run.sort_values("score", ascending=False, kind="stable").sort_values("query_id", kind="stable")
    assert by_score["doc_id"].tolist() == frame["item"].tolist()


def test_qrels_are_the_labels_of_the_judged_queries(measured):
    data = graded()
    expected = data.labels[data.labels["query"] != "q39"]
    qrels = measured.qrels()
    assert set(zip(qrels["query_id"], qrels["doc_id"], qrels["relevance"], strict=True)) == set(
        zip(expected["query"], expected["item"], expected["grade"], strict=True)
    )
    assert [qrels.dtypes[name] for name in qrels] == [object, object, np.int64]


def test_p_values_equal_scipy(measured):
    values = measured.per_query().pivot(index="query", columns="selector", values=[*METRICS, "completeness"])
    for name in [*METRICS, "completeness"]:
        (p,) = measured.compare("spec", "words", metrics=[name])["p"]
        away = (values[name]["spec"] - values[name]["words"]).dropna().to_numpy()
        away = away[np.abs(away) > 1e-12]
        if name == "completeness":
            assert p == pytest.approx(scipy_stats.binomtest(int((away > 0).sum()), len(away)).pvalue)
            continue
        exact = len(away) <= 20
        expected = scipy_stats.permutation_test(
            (away,), np.mean, permutation_type="samples", n_resamples=2**20 if exact else 20_000, rng=1
        ).pvalue
        assert p == pytest.approx(expected, abs=1e-9 if exact else 0.02)


class TestRankings:
    def test_frames_are_the_parts_of_the_whole(self, measured):
        frames = list(measured.rankings())
        assert [frame["selector"].unique().tolist() for frame in frames] == [[name] for name in SELECTORS]
        pd.testing.assert_frame_equal(pd.concat(frames, ignore_index=True), measured.rankings().to_frame())

    def test_rows_say_what_an_explanation_says(self, measured):
        frame = measured.rankings().to_frame(selectors=["spec"], queries="q03")
        explained = measured.explain("q03", "spec").set_index("item")
        assert len(frame) > 5
        assert sorted(frame["rank"]) == list(range(1, len(frame) + 1))
        assert (frame["rule"] == "").tolist() == frame["offered"].tolist()
        for row in frame.itertuples():
            expected = explained.loc[row.item]
            assert (row.offered, row.score, row.rule) == (expected["offered"], expected["score"], expected["rule"])

    def test_without_queries_it_is_an_empty_frame(self, measured):
        frame = measured.rankings().to_frame(queries=[])
        assert (len(frame), "rule" in frame) == (0, True)

    @pytest.mark.parametrize("choice", [{"selectors": "word"}, {"queries": ["q03", "q99"]}])
    def test_an_unknown_name_is_refused(self, measured, choice):
        with pytest.raises(UnknownNameError):
            measured.rankings().to_frame(**choice)


class TestOpen:
    @pytest.mark.parametrize("part", [{}, {"split": "test"}, {"sample": 10}])
    def test_a_run_is_opened_as_it_was_returned(self, tmp_path, part):
        results = ctxbench.evaluate(SMOKE, ["bm25", "everything"], out=tmp_path / "run", **part, **CHEAP)
        opened = ctxbench.open(tmp_path / "run")
        pd.testing.assert_frame_equal(opened.to_frame(intervals=True), results.to_frame(intervals=True))
        pd.testing.assert_frame_equal(opened.to_run("bm25"), results.to_run("bm25"))
        pd.testing.assert_frame_equal(opened.qrels(), results.qrels())
        assert str(ctxbench.check(opened, results).verdict) == "same"

    def test_a_run_of_an_experiment_is_opened_from_another_folder(self, tmp_path, monkeypatch):
        text = f"name: e\ndatasets: [{SMOKE}]\nselectors: [{{selector: bm25}}]\nembedder: hashing\ntokens: chars/4"
        (tmp_path / "e.yaml").write_text(text)
        results = ctxbench.run(tmp_path / "e.yaml", out=tmp_path / "run")
        monkeypatch.chdir(tmp_path)
        assert ctxbench.open("run").to_frame().equals(results.to_frame())

    def test_a_dataset_in_memory_must_be_given(self, tmp_path):
        results = ctxbench.evaluate(graded(), ["bm25"], out=tmp_path / "run", **CHEAP)
        with pytest.raises(ParameterError, match="pass it if it was in memory"):
            ctxbench.open(tmp_path / "run")
        assert ctxbench.open(tmp_path / "run", datasets=graded()).to_frame().equals(results.to_frame())

    def test_a_dataset_in_memory_is_found_where_the_error_says_to_save_it(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        results = ctxbench.evaluate(graded(), ["bm25"], out="run", **CHEAP)
        with pytest.raises(ParameterError, match="save it there") as refused:
            ctxbench.open("run")
        graded().save(re.search(r"ds\.save\('([^']*)'\)", str(refused.value))[1])
        assert ctxbench.open("run").to_frame().equals(results.to_frame())

    def test_a_dataset_that_has_changed_is_refused(self, tmp_path):
        ctxbench.evaluate(graded(), ["bm25"], out=tmp_path / "run", **CHEAP)
        data = graded()
        with pytest.raises(ParameterError, match="has changed"):
            ctxbench.open(tmp_path / "run", datasets=data.with_labels(data.labels[1:]))
        with pytest.raises(UnknownNameError):
            ctxbench.open(tmp_path / "run", datasets=[data, SMOKE])

    def test_a_folder_without_a_finished_run_is_refused(self, tmp_path):
        ctxbench.evaluate(SMOKE, ["bm25"], out=tmp_path / "run", **CHEAP)
        (tmp_path / "run" / "manifest.json").unlink()
        with pytest.raises(StorageError, match="not finished"):
            ctxbench.open(tmp_path / "run")
        for folder in (tmp_path, tmp_path / "gone"):
            with pytest.raises(StorageError, match="expected the folder of a finished run"):
                ctxbench.open(folder)


def theirs(measured) -> pd.DataFrame:
    """A run of another program, of 10 items per query."""
    run = measured.to_run("shuffled")
    return run[run["rank"] <= 10].reset_index(drop=True)


def forms(run: pd.DataFrame, folder) -> dict[str, object]:
    """The same ranking in every form."""
    by_query = {query: dict(zip(rows["doc_id"], rows["score"], strict=True)) for query, rows in run.groupby("query_id")}
    lines = (f"{row.query_id} Q0 {row.doc_id} 1 {row.score!r} t" for row in run.itertuples())
    (folder / "theirs.run").write_text("\n".join(lines))
    return {
        "ir_measures": run[["query_id", "doc_id", "score"]].sample(frac=1, random_state=1),
        "ranx": run.rename(columns={"query_id": "q_id"}),
        "PyTerrier": run.rename(columns={"query_id": "qid", "doc_id": "docno"}).drop(columns="score"),
        "names": run.assign(doc_id=run["doc_id"].str.removeprefix("tool:")),
        "rows": run.to_dict("records"),
        "scores": by_query,
        "lists": {query: list(scores) for query, scores in by_query.items()},
        "Run": SimpleNamespace(to_dict=lambda: by_query),
        "file": folder / "theirs.run",
    }


class TestExternalRuns:
    def test_every_form_is_the_same_ranking(self, measured, tmp_path):
        run = theirs(measured)
        selectors = {name: ctxbench.answers(form) for name, form in forms(run, tmp_path).items()}
        results = ctxbench.evaluate(graded(), selectors, metrics=METRICS, **CHEAP)
        for name in selectors:
            back = results.to_run(name)
            assert back["doc_id"].tolist() == run["doc_id"].tolist(), name
            if name not in ("PyTerrier", "lists"):
                assert back["score"].tolist() == run["score"].tolist(), name
        assert results.per_query().groupby("query")["AP"].nunique().max() == 1

    def test_the_runs_of_a_dataset_are_selectors_by_name(self, measured):
        run = theirs(measured)
        results = ctxbench.evaluate(graded(runs={"theirs": run}), ["bm25", "theirs"], **CHEAP)
        assert results.to_run("theirs").equals(run)
        renamed = ctxbench.evaluate(graded(runs={"theirs": run}), {"x": "theirs"}, **CHEAP)
        assert renamed.to_run("x").equals(run)

    @pytest.mark.parametrize(
        ("name", "text", "error"),
        [
            ("gone.run", None, StorageError),
            ("gone.jsonl", None, StorageError),
            ("empty.run", "", InputError),
            ("short.run", "q00 Q0 t1\n", InputError),
        ],
    )
    def test_a_file_that_is_missing_or_faulty_is_refused_at_once(self, name, text, error, tmp_path):
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises(error, match=name):
            ctxbench.answers(tmp_path / name)

    def test_faults_of_a_file_in_a_definition_are_one_line_each(self, tmp_path):
        (tmp_path / "theirs.yaml").write_text(
            "name: theirs\nabout: Theirs.\npipeline:\n  retrieve: {run: {file: theirs.run}}\n"
        )
        (tmp_path / "theirs.run").write_text("")
        with pytest.raises(InputError) as caught:
            ctxbench.evaluate(graded(), {"theirs": str(tmp_path / "theirs.yaml")}, **CHEAP)
        assert "the file is empty" in str(caught.value)
        assert "\ufffd" not in str(caught.value)

    def test_queries_that_a_run_lacks_are_counted_in_a_warning(self, measured, caplog):
        run = theirs(measured)
        (first, *rest) = run["query_id"].unique()
        ctxbench.evaluate(graded(), {"theirs": ctxbench.answers(run)}, **CHEAP)
        assert caplog.records == []
        part = run[run["query_id"] == first]
        ctxbench.evaluate(graded(), {"theirs": ctxbench.answers(part)}, **CHEAP)
        (warning,) = (record.msg for record in caplog.records)
        assert (warning.values["selector"], warning.values["n"]) == ("theirs", len(rest))
        assert "with `split`" in str(warning)
        caplog.clear()
        part = run[run["query_id"] == rest[0]]
        ctxbench.evaluate(graded(), {"theirs": ctxbench.answers(part)}, split="test", **CHEAP)
        (warning,) = (record.msg for record in caplog.records)
        assert "split" not in str(warning)  # it is given

    def test_the_runs_of_several_datasets_are_one_selector(self):
        def small(name: str, query: str):
            items, labels = [{"name": "a"}, {"name": f"b{name}"}], [{"query": query, "item": "a"}]
            run = {query: [f"b{name}", "a"]}
            return ctxbench.dataset(items, [{"query": query, "text": "a"}], labels, name=name, runs={"theirs": run})

        results = ctxbench.evaluate([small("x", "q1"), small("y", "q2")], ["theirs"], metrics=["RR"], **CHEAP)
        assert results.per_query()["RR"].tolist() == [0.5, 0.5]
        assert results.to_run("theirs", "y")["doc_id"].tolist() == ["tool:by", "tool:a"]
        with pytest.raises(ParameterError, match="name one by `dataset`"):
            results.to_run("theirs")
        with pytest.raises(ParameterError, match="of two datasets has a query 'q1'"):
            ctxbench.evaluate([small("x", "q1"), small("y", "q1")], ["theirs"], **CHEAP)

    def test_equal_scores_are_ordered_as_trec_eval_does(self):
        items, queries = [{"name": name} for name in "abc"], [{"query": "q", "text": "a"}]
        run = {"q": {"a": 1.0, "b": 1.0, "c": 2.0}}
        data = ctxbench.dataset(items, queries, [{"query": "q", "item": "a"}], runs={"theirs": run})
        results = ctxbench.evaluate(data, ["theirs"], metrics=["RR"], **CHEAP)
        assert results.to_run("theirs")["doc_id"].tolist() == ["tool:c", "tool:b", "tool:a"]
        qrels = {"q": {"a": 1}}
        assert ir_measures.calc_aggregate([ir_measures.RR], qrels, run)[ir_measures.RR] == pytest.approx(
            results.per_query()["RR"][0]
        )

    def test_fusion_of_runs_is_reciprocal_rank_fusion(self, measured):
        first, second = theirs(measured), measured.to_run("spec")
        second = second[second["rank"] <= 20]
        sources = {"first": {"run": first}, "second": {"run": second}}
        fused = ctxbench.pipeline({"merge": sources}, refine=["rrf"])
        back = ctxbench.evaluate(graded(), {"fused": fused}, **CHEAP).to_run("fused")
        scores = pd.concat([first, second]).assign(part=lambda run: 1.0 / (60 + run["rank"]))
        expected = scores.groupby(["query_id", "doc_id"])["part"].sum()
        assert len(back) == len(expected) > len(first)
        keys = pd.MultiIndex.from_frame(back[["query_id", "doc_id"]])
        assert back["score"].to_numpy() == pytest.approx(expected[keys].to_numpy(), rel=1e-5)

    def test_a_definition_reads_a_run_beside_it_and_is_run_again_when_that_changes(self, measured, tmp_path):
        (tmp_path / "mine").mkdir()
        run = theirs(measured)
        forms(run, tmp_path / "mine")
        (tmp_path / "mine" / "theirs.yaml").write_text(
            "name: theirs\nabout: Theirs.\nparameters:\n  n: {default: 3, help: How many., range: [1, 100]}\n"
            "pipeline:\n  retrieve: {run: {file: theirs.run}}\n  refine: [{first: {n: $n}}]\n"
        )
        selectors = {"theirs": str(tmp_path / "mine" / "theirs.yaml")}
        results = ctxbench.evaluate(graded(), selectors, out=tmp_path / "run", **CHEAP)
        assert results.to_run("theirs").equals(run)
        (tmp_path / "mine" / "theirs.run").write_text("q00 Q0 t1 1 0.5 t\n")
        again = ctxbench.evaluate(graded(), selectors, out=tmp_path / "run", **CHEAP)
        assert again.to_run("theirs")["doc_id"].tolist() == ["tool:t1"]

    def test_an_item_that_is_ranked_by_its_id_and_its_name_has_the_better_rank(self):
        queries = [{"query": "q", "text": "a"}]
        data = ctxbench.dataset([{"name": "a"}, {"name": "b"}], queries, [{"query": "q", "item": "a"}])
        results = ctxbench.evaluate(data, {"theirs": ctxbench.answers({"q": ["a", "b", "tool:a"]})}, **CHEAP)
        assert results.to_run("theirs")["doc_id"].tolist() == ["tool:a", "tool:b"]

    def test_items_that_a_request_may_not_get_are_left_out(self):
        queries = [{"query": "q", "text": "a", "available": ["tool:a"]}]
        data = ctxbench.dataset([{"name": "a"}, {"name": "b"}], queries, [{"query": "q", "item": "a"}])
        results = ctxbench.evaluate(data, {"theirs": ctxbench.answers({"q": ["b", "a"]})}, **CHEAP)
        assert results.to_run("theirs")["doc_id"].tolist() == ["tool:a"]

    def test_a_query_that_is_not_ranked_has_no_candidates(self):
        results = ctxbench.evaluate(graded(), {"theirs": ctxbench.answers({"q03": ["t1"]})}, metrics=["R@5"], **CHEAP)
        assert results.to_run("theirs")["query_id"].tolist() == ["q03"]
        assert results.summary.datasets[0].selectors[0].queries == 40

    @pytest.mark.parametrize(
        ("run", "codes"),
        [
            (3, {"CTX8574"}),
            ([1, 2], {"CTX8573"}),
            ({"q00": 3}, {"CTX8574"}),
            ({"q00": "t1"}, {"CTX8574"}),
            (pd.DataFrame({"query_id": ["q00"], "doc_id": ["t1"]}), {"CTX8573"}),
            (pd.DataFrame({"query_id": ["q00"], "score": [1.0]}), {"CTX8573"}),
            ({"q00": {"t1": float("nan")}}, {"CTX6114"}),
            ({"q00": {"t1": "high"}}, {"CTX6114"}),
            ({"q00": {"t1": None}}, {"CTX6114"}),
            ([{"qid": "q00", "docno": "t1", "rank": float("nan")}], {"CTX6114"}),
            ([{"qid": "q00", "docno": "t1", "rank": 1}, {"qid": "q00", "docno": "t1", "rank": 2}], {"CTX6116"}),
            ({"q00": ["t1", "t1"]}, {"CTX6116"}),
            ({"q99": ["t1"], "q00": ["t99"]}, {"CTX8575", "CTX8576"}),
        ],
    )
    def test_a_faulty_run_is_refused(self, run, codes):
        with pytest.raises(UserError) as caught:
            graded(runs={"theirs": run})
        messages = [fault.message for fault in getattr(caught.value, "faults", ())] or [caught.value.args[0]]
        assert {message.code for message in messages} == codes

    def test_faulty_files_and_names_are_refused(self, tmp_path):
        with pytest.raises(ParameterError, match="give the run another name"):
            graded(runs={"bm25": {"q00": ["t1"]}})
        (tmp_path / "a.run").write_text("q00 Q0 t1 1 high t\nq00 Q0\n")
        with pytest.raises(InputError) as caught:
            graded(runs={"theirs": tmp_path / "a.run"})
        assert [fault.line for fault in caught.value.faults] == [1, 2]

    def test_a_run_of_another_catalog_is_refused(self):
        with pytest.raises(InputError, match="none of the 1 ranked documents is in the catalog"):
            ctxbench.evaluate(graded(), {"theirs": ctxbench.answers({"q00": ["x"]})}, **CHEAP)
        with pytest.raises(SelectorError, match="query 'q00' ranks 'x'"):
            ctxbench.evaluate(graded(), {"theirs": ctxbench.answers({"q00": ["x", "t1"]})}, **CHEAP)


def test_what_does_not_rank_has_no_run():
    results = ctxbench.evaluate(graded(), ["everything"], **CHEAP)
    with pytest.raises(ParameterError, match="does not rank"):
        results.to_run("everything")
    with pytest.raises(UnknownNameError):
        results.to_run("bm25")
    with pytest.raises(UnknownNameError):
        results.qrels("smoke")


def test_the_page_on_runs(tmp_path):
    page = (ROOT / "experiments" / "guide" / "runs.md").read_text("utf-8")
    shown = page.split("## Rankings\n")[1].split("```python\n")[1].split("```")[0]
    for old, new in (
        ('"bfcl-simple"', repr(str(SMOKE))),
        ('out="runs/mine"', 'out=folder, embedder="hashing"'),
        ('"runs/mine"', "folder"),
    ):
        assert old in shown
        shown = shown.replace(old, new)
    names: dict = {"folder": str(tmp_path / "run")}
    exec(shown, names)
    assert names["fused"].to_frame().index.tolist() == ["fused", "theirs"]


def test_the_page_for_researchers(tmp_path, monkeypatch, capsys):
    page = (ROOT / "experiments" / "guide" / "research.md").read_text("utf-8")
    shown = "\n".join(re.findall("```python\n(.*?)```", page, re.DOTALL))
    for old, new in (('"bfcl-simple"', '"tagged"'), ('"runs/paper"', repr(str(tmp_path / "paper")))):
        assert old in shown
        shown = shown.replace(old, new)
    splits = ["tuning", "test"] * 6
    queries = [
        {"query": f"q{n}", "text": "area", "split": split, "tags": ["a", "b"][n > 5 :]}
        for n, split in enumerate(splits)
    ]
    labels = [{"query": query["query"], "item": "area"} for query in queries]
    data = ctxbench.dataset([{"name": "mail_area"}, {"name": "area"}], queries, labels, name="tagged")
    monkeypatch.setattr(ctxbench, "load", {"tagged": data}.__getitem__)
    monkeypatch.setattr(ctxbench, "evaluate", partial(ctxbench.evaluate, **CHEAP))
    monkeypatch.chdir(tmp_path)
    write_beir(Path("beir"))
    names: dict = {}
    exec(shown, names)
    printed = capsys.readouterr().out
    counts = {tuple(line.split()[:3]) for line in printed.splitlines() if line.startswith(("a ", "b "))}
    assert counts == {("a", "bm25", "3"), ("a", "ours", "3"), ("b", "bm25", "6"), ("b", "ours", "6")}
    assert "ranks" in str(names["res"].provenance["selectors"]["ours"])
    assert ctxbench.open(tmp_path / "paper", datasets=data).to_frame().equals(names["res"].to_frame())
    assert names["tools"].items["id"].tolist() == ["tool:area", "tool:mail"]


def write_beir(folder):
    """A corpus of tools whose ids are their titles."""
    (folder / "qrels").mkdir(parents=True)
    tools = {"area": "Of a triangle.", "mail": "Send a text."}
    rows = [json.dumps({"_id": name, "title": name, "text": text}) for name, text in tools.items()]
    (folder / "corpus.jsonl").write_text("\n".join(rows))
    texts = ["the area of a triangle", "mail the text"]
    rows = [json.dumps({"_id": f"q{n}", "text": text}) for n, text in enumerate(texts)]
    (folder / "queries.jsonl").write_text("\n".join(rows))
    labels = ["q0\tarea\t2", "q0\tmail\t1", "q1\tmail\t2"]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *labels]))


def test_the_gate_of_the_page_for_researchers_judges_what_it_names(tmp_path, monkeypatch):
    page = (ROOT / "experiments" / "guide" / "research.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    write_beir(Path("beir"))
    (command,) = re.findall("```sh\n(.*?)\n```", page, re.DOTALL)
    with pytest.raises(SystemExit, match=r"^0$"):
        main(shlex.split(command)[1:])
    (gate,) = re.findall("```yaml\n(.*?)```", page, re.DOTALL)
    Path("gate.yaml").write_text(f"{gate}embedder: hashing\ntokens: chars/4\n")
    ranks = re.search(r"(def ranks.*?)\n\n\n", page, re.DOTALL)[1]
    Path("retriever.py").write_text(ranks.replace("weight)", "weight=0)").replace("rows[:5]", "rows[:1]"))
    accept(Path("gate.yaml"))
    Path("retriever.py").write_text(ranks.replace("weight)", "weight=0)"))
    (judged,) = check_gate(Path("gate.yaml")).check.selectors
    assert {metric.metric for metric in judged.metrics} == {"nDCG@10", "R@5", "tokens", "total_tokens"}
    assert {str(metric.verdict) for metric in judged.metrics} == {"same"}, "twice the tokens are tolerated"


def test_a_fusion_of_runs_is_tuned():
    results = ctxbench.evaluate(SMOKE, ["bm25", "random"], metrics=["nDCG@10"], **CHEAP)
    sources = {name: {"run": results.to_run(name)} for name in results.selectors}
    fused = ctxbench.pipeline({"merge": sources}) >> ctxbench.steps.rrf >> ctxbench.steps.first(5)
    tuned = ctxbench.tune(SMOKE, {"fused": fused}, minimise="tokens", completeness="0.5 of base", **CHEAP)
    del fused, sources
    front = tuned.front()
    assert set(front.loc[front["line"] == "fused: front", "n"]) >= {1, 2}


def test_without_metrics_what_was_measured_is_compared():
    results = ctxbench.evaluate(SMOKE, ["bm25", "random"], metrics=["nDCG@10", "R@5"], **CHEAP)
    assert results.compare()["metric"].tolist() == results.compare("random")["metric"].tolist() == ["nDCG@10", "R@5"]


def test_a_run_of_other_queries_is_a_fault():
    data = graded()
    with pytest.raises(InputError, match="none of the 1 queries is in dataset graded: 'zz'"):
        ctxbench.evaluate(data, {"theirs": ctxbench.answers({"zz": {"t1": 1.0}})}, **CHEAP)
    some = ctxbench.evaluate(data, {"theirs": ctxbench.answers({"q01": {"t1": 1.0}})}, **CHEAP)
    assert some.to_run("theirs")["query_id"].tolist() == ["q01"]


def test_queries_of_a_run_that_no_dataset_has_are_counted_in_a_warning(caplog):
    data = graded()
    ranking = {query: {"t1": 1.0} for query in data.queries["query"]}
    ctxbench.evaluate(data, {"theirs": ctxbench.answers(ranking)}, split="test", **CHEAP)
    assert caplog.records == []  # those of other splits are queries of the dataset
    ctxbench.evaluate(data, {"theirs": ctxbench.answers({**ranking, "zz": {"t1": 1.0}})}, split="test", **CHEAP)
    (warning,) = (record.msg for record in caplog.records)
    assert (warning.code, warning.values["n"], warning.values["queries"]) == ("CTX5064", 1, ["zz"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ctxbench.answers(None), "a run is a frame, rows"),
        (lambda: graded(runs=["theirs"]), "runs must map names to runs"),
        (lambda: ctxbench.open(None), "a run folder is a path, got None"),
        (lambda: ctxbench.pipeline("bm25", refine=ctxbench.steps.first(3)), "refine must be a list of steps"),
        (lambda: ctxbench.pipeline("bm25", refine="rrf"), "refine must be a list of steps"),
        (lambda: ctxbench.rerank(len, name=3), "name must be a text, got 3"),
    ],
)
def test_arguments_of_a_wrong_type_are_named(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_a_name_that_is_no_text_is_unknown():
    results = ctxbench.evaluate(SMOKE, ["bm25"], **CHEAP)
    with pytest.raises(UnknownNameError, match="unknown metric 3"):
        results.to_latex([3])
    with pytest.raises(UnknownNameError, match="unknown selector None"):
        results.to_run(None)
