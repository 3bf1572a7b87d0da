"""Metrics of groups of items: by hand, against ir-measures on collapsed qrels, and from a file to the table."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math

import ir_measures
import numpy as np
import pytest
from typer.testing import CliRunner

import ctxbench
from ctxbench.cli.app import app
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import write_dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.experiment import examine, read_groups
from ctxbench.evaluation.inputs import item_groups, prepare
from ctxbench.evaluation.metrics import METRICS, Metric, evaluate, parse_metric, parse_metrics, unavailable
from ctxbench.evaluation.run_folder import RunFolder
from ctxbench.evaluation.runner import run
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.model.arrays import Evidence, Judgments, OfferedItems, Rankings
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from ctxbench.report.run_tables import column_words
from ctxbench.tuning.linear_fits import check_objective

NAN = math.nan
CHEAP = {"embedder": "hashing", "counter": "chars/4"}
RANKED = ("nDCG@10", "R@1", "R@2", "R@5", "Comp@2", "P@2", "RR", "AP", "Success@1")


def csr(rows):
    return np.cumsum([0, *(len(row) for row in rows)]), [entry for row in rows for entry in row]


def evidence(labels, ranked, group_of, *, session=None, given=None):
    """Labels are rows of (item, grade, alternatives group) by query."""
    start, rows = csr(labels)
    item, grade, group = ([row[column] for row in rows] for column in range(3))
    held_start, held = csr(session or [[]] * len(labels))
    ranked_start, ranked_items = csr(ranked)
    return Evidence(
        judgments=Judgments(start=start, item=item, grade=grade, group=group),
        offered=OfferedItems(start=held_start, item=held, origin=[0] * len(held)),
        rankings=Rankings(start=ranked_start, item=ranked_items, given=given),
        groups={"session": np.array(group_of)},
    )


def values(text, table):
    return evaluate([parse_metric(f"session:{text}")], table)[parse_metric(f"session:{text}")].tolist()


# ------------------------------------------------------------------------------------------------------- arithmetic


def test_a_group_has_the_highest_gain_of_its_items_where_trec_eval_judges():
    table = evidence([[(0, 2, 0), (1, 2, 1), (2, 2, 2)]], [[2, 1, 0]], [0, 0, 1, 1, 2, 2])
    table = dataclasses.replace(table, judgments=dataclasses.replace(table.judgments, gain=np.array([1, 2, 1])))
    assert values("nDCG", table) == pytest.approx([(1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3))])
    assert values("R@1", table) == [1 / 2]


def test_a_group_has_the_grade_and_the_rank_of_its_best_item():
    # items 0, 1 are of group 0; 2, 3 of group 1; 4, 5 of group 2
    table = evidence([[(1, 2, 0), (0, 1, -1), (4, 1, -1)]], [[3, 2, 0, 5, 1]], [0, 0, 1, 1, 2, 2])
    assert values("R@1", table) == [0]
    assert values("R@2", table) == [1]  # groups are ranked 1, 0, 2
    assert values("RR", table) == values("AP", table) == [1 / 2]
    assert values("P@3", table) == pytest.approx([2 / 3])
    assert values("nDCG", table) == pytest.approx([(2 / math.log2(3) + 1 / math.log2(4)) / (2 + 1 / math.log2(3))])
    assert evaluate([parse_metric("R@2")], table)[parse_metric("R@2")].tolist() == [0]  # of items as ever


def test_required_items_of_one_group_count_once():
    table = evidence([[(0, 2, 0), (1, 2, 1), (2, 2, 2)]], [[0, 4]], [0, 0, 1, 1, 2, 2])
    assert values("R@5", table) == [1 / 2]
    assert values("Comp@5", table) == [0]


@pytest.mark.parametrize(
    ("ranked", "recall", "complete", "precision"),
    [
        ([4, 0], 1, 1, 1 / 2),  # group 0 meets both needs at rank 2
        ([2, 4], 1 / 2, 0, 1 / 2),  # group 1 meets the first alone
        ([2, 1], 1, 1, 1),
        ([4], 0, 0, 0),
    ],
)
def test_alternatives_are_met_by_any_group_that_holds_one(ranked, recall, complete, precision):
    """(0 or 2) and 1: items 0 and 1 are of group 0, item 2 is of group 1."""
    table = evidence([[(0, 2, 0), (2, 2, 0), (1, 2, 1)]], [ranked], [0, 0, 1, 1, 2, 2])
    assert values("R@5", table) == [recall]
    assert values("Comp@5", table) == [complete]
    assert values("AP", table) == [precision]


def test_alternatives_groups_of_the_same_groups_count_once():
    """(0 or 2) and (1 or 3) are both met by group 0 and by group 1."""
    table = evidence([[(0, 2, 0), (2, 2, 0), (1, 2, 1), (3, 2, 1), (4, 2, 2)]], [[3]], [0, 0, 1, 1, 2, 2])
    assert values("R@5", table) == [1 / 2]


def test_a_group_is_held_by_the_session_if_one_of_its_items_is():
    table = evidence([[(0, 2, 0), (2, 2, 1)]], [[1, 2]], [0, 0, 1, 1], session=[[1]])
    assert values("R@1", table) == [1]  # the group of the session is passed over
    assert values("RR", table) == [1]


def test_empty_cases_are_those_of_items():
    table = evidence(
        [[], [(0, 2, 0)], [(0, 2, 0)], [(0, 1, -1)]],
        [[0], [], [0], [1]],
        [0, 0],
        given=np.array([True, True, False, True]),
    )
    for name in RANKED:
        result = values(name, table)
        assert np.isnan(result[0]), name
        assert result[1] == 0, name
        assert np.isnan(result[2]), name
        assert np.isnan(result[3]) == (name != "nDCG@10"), name


@pytest.mark.parametrize("seed", range(6))
def test_each_query_equals_ir_measures_on_collapsed_qrels(seed):
    rng = np.random.default_rng(seed)
    n_items, n_queries = 400, 40
    group_of = rng.integers(0, 160, n_items)  # more groups than ranks that are read
    labels, ranked = [], []
    for _ in range(n_queries):
        items = rng.permutation(n_items)[: rng.integers(0, 40)]
        grades = rng.choice([0, 1, 2], size=len(items)).tolist()
        labels.append([(int(i), g, n if g == 2 else -1) for n, (i, g) in enumerate(zip(items, grades, strict=True))])
        ranked.append(rng.permutation(n_items)[: rng.choice([0, 1, 5, 60, n_items])].tolist())
    qrels, scores = {}, {}
    for number, (rows, items) in enumerate(zip(labels, ranked, strict=True)):
        grade_of = qrels.setdefault(f"q{number}", {})
        for item, grade, _ in rows:
            group = f"g{group_of[item]}"
            grade_of[group] = max(grade_of.get(group, 0), grade)
        first = dict.fromkeys(f"g{group_of[item]}" for item in items)
        scores[f"q{number}"] = {group: -float(rank) for rank, group in enumerate(first)}
    names = ("nDCG@1", "nDCG@10", "nDCG", "R@1", "R@5", "R@10", "P@5", "RR", "RR@3", "AP", "AP@5", "Success@5")
    metrics = parse_metrics([f"session:{name}" for name in names])
    theirs = {ir_measures.parse_measure(metric.ir_measures): metric for metric in metrics}
    expected = {metric: np.zeros(n_queries) for metric in metrics}
    for result in ir_measures.iter_calc(list(theirs), qrels, scores):
        expected[theirs[result.measure]][int(result.query_id[1:])] = result.value
    ours = evaluate(metrics, evidence(labels, ranked, group_of))
    for metric in metrics:
        applies = ~np.isnan(ours[metric])
        assert applies.sum() > n_queries / 2
        np.testing.assert_allclose(ours[metric][applies], expected[metric][applies], rtol=0, atol=1e-12)


# ------------------------------------------------------------------------------------------------------------ names


def test_a_name_with_a_group_reads_back():
    metric = parse_metric("session:COMP@5")
    assert metric == Metric("Comp", 5, "session") != parse_metric("Comp@5")
    assert parse_metric(str(metric)) == metric
    assert str(parse_metric("a-b:nDCG")) == "a-b:nDCG"
    assert parse_metric("session:R@5").ir_measures == "R(rel=2)@5"
    with pytest.raises(ParameterError):
        check_objective(metric)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_only_metrics_that_read_nothing_but_rankings_have_groups(name):
    text = f"session:{name}@5" if METRICS[name].cutoff != "none" else f"session:{name}"
    if METRICS[name].needs == ("rankings",):
        assert parse_metric(text).group == "session"
    else:
        with pytest.raises(ParameterError, match="no figures of groups"):
            parse_metric(text)


def test_without_groups_or_rankings_it_is_unavailable():
    metric = parse_metric("session:R@5")
    judgments, offered = Judgments(start=[0], item=[], grade=[], group=[]), OfferedItems(start=[0], item=[], origin=[])
    bare = Evidence(judgments=judgments, offered=offered)
    assert set(unavailable([metric], bare)) == {metric}
    assert evaluate([metric], bare) == {}


@pytest.mark.parametrize(
    ("value", "groups"),
    [
        ("conversation", {"conversation": "conversation"}),
        (["server", "metadata.source.document"], {"server": "server", "document": "metadata.source.document"}),
        ({"session": "conversation"}, {"session": "conversation"}),
        ((), {}),
    ],
)
def test_forms_of_groups(value, groups):
    assert read_groups(value) == groups


@pytest.mark.parametrize(
    "value",
    [
        *("converzation", "metadata", "metadata.", "schema", None, 3, ["kind", "kind"], ["kind", 3], {"a b": "kind"}),
        *({"": "kind"}, {1: "kind"}, ["kind", "metadata.kind"], "metadata.a b", {"session": None}, {"x": ["kind"]}),
    ],
)
def test_faulty_groups(value):
    with pytest.raises(ParameterError):
        read_groups(value)


# -------------------------------------------------------------------------------------------------- from file to table


def talks(*, without: int | None = None) -> Dataset:
    """Messages of three sessions; each query needs one of a session of which another message has its words."""
    texts = ["apples are red", "we went sailing", "pears are green", "the cat sleeps", "plums are blue", "snow again"]
    items = [
        Item(
            type="message",
            name=f"m{index}",
            text=text,
            conversation=None if index == without else f"s{index // 2}",
            metadata={"topic": {"id": index % 2}},
        )
        for index, text in enumerate(texts)
    ]
    queries = [("apples", 1), ("pears", 3), ("snow", 5)]
    return Dataset(
        name="talks",
        version="1",
        catalog=Catalog(items),
        queries=tuple(DatasetQuery(request=Request(id=text, text=text), split="test") for text, _ in queries),
        labels=tuple(Label(text, items[index].key, 2) for text, index in queries),
        about={"licence": "Apache-2.0", "source": "Written for a test.", "labelling": "By hand."},
    )


@pytest.fixture
def folder(tmp_path):
    write_dataset(talks(), tmp_path / "talks")
    return tmp_path / "talks"


def written(folder, extra):
    write_dataset(talks(), folder / "talks")
    file = folder / "file.yaml"
    file.write_text(f"datasets: [talks]\nselectors: [bm25]\nembedder: hashing\ntokens: chars/4\n{extra}")
    return file


def prepared(file):
    experiment, faults = examine(file)
    return prepare(experiment, faults=faults)


def test_sessions_are_found_where_their_messages_are_not(folder):
    results = ctxbench.evaluate(folder, ["bm25"], groups={"session": "conversation"}, **CHEAP)
    row = results.to_frame().iloc[0]
    assert (row["session:R@5"], row["session:R@10"], row["session:nDCG@10"]) == (1, 1, 1)
    assert row["Comp@1"] == pytest.approx(1 / 3)
    assert results.per_query()["session:R@5"].tolist() == [1, 1, 1]
    shown = repr(results)
    assert "session:R@5" in shown
    assert "complete" in shown


def test_a_named_metric_replaces_the_usual_ones_and_is_compared(folder):
    results = ctxbench.evaluate(
        folder, ["bm25", "dense"], groups=["metadata.topic.id"], metrics=["id:R@1", "R@1"], **CHEAP
    )
    columns = results.to_frame(intervals=True).columns
    assert [name for name in columns if name.startswith("id:") and " " not in name] == ["id:R@1"]
    assert "id:R@1 difference" in columns
    assert results.compare("dense", metrics=["id:R@1"])["n"].tolist() == [3]


def test_columns_of_one_metric_share_a_sentence():
    columns = [
        (str(metric), metric) for metric in parse_metrics(["nDCG", "nDCG@10", "session:nDCG", "session:nDCG@10"])
    ]
    words = column_words(columns)
    assert words.count("nDCG@k: ") == 2
    assert words.count("session:nDCG@k: ") == words.count("same session") == 1


def test_a_selector_without_a_ranking_has_no_figure_of_groups(folder):
    def choose(request, items):
        return ["message:m0"]

    results = ctxbench.evaluate(folder, {"choice": choose}, groups="conversation", **CHEAP)
    assert math.isnan(results.to_frame().iloc[0]["conversation:R@5"])


def test_items_without_the_field_are_named(tmp_path):
    write_dataset(talks(without=2), tmp_path / "talks")
    with pytest.raises(InputError, match="message:m2"):
        ctxbench.evaluate(tmp_path / "talks", ["bm25"], groups="conversation", **CHEAP)
    with pytest.raises(ParameterError, match="message:m0, message:m1, message:m2"):
        item_groups(talks(), "server")


def test_chunks_are_of_the_file_that_their_path_names():
    chunks = [Item(type="chunk", name=f"a.py#{n}", title="a.py", text="x") for n in (1, 2)]
    files = [Item(type="file", name="b.py", text="y")]
    dataset = Dataset(name="code", version="1", catalog=Catalog([*chunks, *files]), queries=(), labels=(), about={})
    assert item_groups(dataset, "path").tolist() == [0, 0, 1]


def test_what_is_wrong_in_a_file_has_its_line(tmp_path):
    for extra, line, named in (
        ("groups: sesion\n", 5, "'sesion'"),
        ("groups: [kind, metadata.kind]\n", 5, "'kind'"),
        ("groups: server\n", 5, "message:m0"),
        ("groups: conversation\nmetrics: [R@5, 'session:R@5']\n", 6, "session:R@5"),
    ):
        with pytest.raises(InputError) as caught:
            prepared(written(tmp_path, extra))
        assert [fault.line for fault in caught.value.faults] == [line]
        assert named in str(caught.value)


def test_another_field_under_the_same_name_is_measured_again(tmp_path):
    store, parts = RunFolder(tmp_path / "run"), []
    for field, made in (("conversation", 1), ("conversation", 0), ("metadata.topic.id", 1)):
        ready = prepared(written(tmp_path, f"groups: {{part: {field}}}\nmetrics: ['part:R@1']\n"))
        report = run(ready, store.path)
        assert report.made == made
        assert store.read("manifest.json")["experiment"]["groups"] == {"part": field}
        parts.append(store.load("talks", "bm25").metrics["part:R@1"].tolist())
    assert parts == [[1, 1, 1], [1, 1, 1], [0, 0, 1]]


def test_json_csv_page_and_table_have_the_groups(tmp_path, monkeypatch):
    written(tmp_path, "groups: {session: conversation}\n")
    monkeypatch.chdir(tmp_path)
    for arguments in (["run", "file.yaml", "--csv", "out.csv"], ["report", "runs/file", "--json"]):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0
        assert "session:R@5" in result.stdout
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert {row["mean"] for row in rows if row["metric"].startswith("session:")} == {"1"}
    assert "session:nDCG@10" in json.loads(result.stdout)["datasets"]["talks"]["selectors"]["bm25"]["metrics"]
    assert "session:R@5" in (tmp_path / "runs" / "file" / "report.html").read_text()
