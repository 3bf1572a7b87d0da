"""Datasets and runs in other programs' formats: read back equal, and measured alike by ir-measures."""

from __future__ import annotations

import csv
import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pytest

from ctxbench.datasets.dataset import Dataset, select_queries
from ctxbench.datasets.files import write_dataset
from ctxbench.datasets.queries import Label
from ctxbench.evaluation.inputs import open_experiment
from ctxbench.evaluation.metrics import parse_metrics
from ctxbench.evaluation.run_folder import RunFolder, summarise_run
from ctxbench.evaluation.runner import run
from ctxbench.io.errors import InputError, ParameterError, StorageError, UnknownNameError
from ctxbench.io.rows import read_run
from ctxbench.labelling.conversion import Conversion, ImportSettings
from ctxbench.labelling.judgment_files import answers_of_run, export_dataset, import_collection
from ctxbench.labelling.published import BFCL
from ctxbench.labelling.sources import data_files

METRICS = ["nDCG@10", "nDCG", "R@1", "R@5", "P@5", "RR", "AP", "Success@1", "AP@10", "RR@10"]


def imported(folder: Path, settings: ImportSettings | None = None) -> Conversion:
    return import_collection([path for path in data_files([folder]) if path.suffix != ".run"], settings=settings)


def read_by_beir(folder: Path, split: str):
    """What BEIR's loader does with the files (beir/datasets/data_loader.py), line by line."""
    corpus, queries, qrels = {}, {}, {}
    for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        corpus[row.get("_id")] = {"text": row.get("text"), "title": row.get("title")}
    for line in (folder / "queries.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        queries[row.get("_id")] = row.get("text")
    with (folder / "qrels" / f"{split}.tsv").open(encoding="utf-8") as stream:
        reader = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
        next(reader)
        for row in reader:
            qrels.setdefault(row[0], {})[row[1]] = int(row[2])
    return corpus, {query: queries[query] for query in qrels}, qrels


@pytest.mark.parametrize("form", ["beir", "trec"])
def test_an_export_is_read_back_equal(tiny, tmp_path, form):
    export_dataset(tiny, tmp_path / "out", form=form)
    back = imported(tmp_path / "out").dataset
    assert back.hash == tiny.hash
    assert (back.card, back.labels) == (tiny.card, tiny.labels)


@pytest.mark.parametrize("form", ["beir", "trec"])
def test_quotes_of_labels_are_read_back_equal(tiny, tmp_path, form):
    label = next(label for label in tiny.labels if label.grade == 2)
    text = next(item.prompt_text for item in tiny.catalog if item.key == label.item)
    labels = [replace(one, quote=text[:8]) if one == label else one for one in tiny.labels]
    dataset = replace(tiny, labels=tuple(labels))
    exported = export_dataset(dataset, tmp_path / "out", form=form)
    assert exported.not_held["labels with a quote"] == 1
    back = imported(tmp_path / "out").dataset
    assert (back.hash, back.labels) == (dataset.hash, dataset.labels)


@pytest.mark.parametrize("form", ["beir", "trec"])
def test_unlabelled_partly_labelled_sources_and_odd_ids_are_read_back_equal(make, tmp_path, form):
    data = make.dataset(
        [make.tool('a "b"\tc', "d\ne"), make.tool("x:y/z", "ü"), make.tool("off", enabled=False)],
        [
            make.query('"q"1', 'say "hi"\tto\nall', split="dev"),
            make.query("q2", "", split="train", tags=("t",), group="g"),
            make.query("q3", split="train", partly_labelled=True),
            make.query("q4", split="train", needs_nothing=True),
        ],
        [
            Label('"q"1', make.key("x:y/z"), 2, source="person"),
            Label('"q"1', make.key("off"), 1),
            Label("q2", make.key("x:y/z"), 1, source="trace"),
            Label("q3", make.key("x:y/z"), 2, via="dependency"),
            Label("q4", make.key("off"), 0),
        ],
    )
    exported = export_dataset(data, tmp_path / "out", form=form)
    back = imported(tmp_path / "out").dataset
    assert back.hash == data.hash
    assert (back.card, back.labels) == (data.card, data.labels)
    assert exported.labels == {"dev": 2, "train": 0}  # qrels hold the judged queries only
    assert exported.not_held["labels of unlabelled queries"] == 3


@pytest.mark.parametrize("notes", [0, "", False, [], None])
@pytest.mark.parametrize("form", ["beir", "trec"])
def test_notes_that_are_false_are_read_back_equal(tiny, tmp_path, form, notes):
    data = replace(tiny, about={**tiny.about, "notes": notes})
    export_dataset(data, tmp_path / "out", form=form)
    back = imported(tmp_path / "out").dataset
    assert back.card == data.card


@pytest.mark.parametrize("form", ["beir", "trec"])
def test_a_query_id_that_starts_like_a_byte_order_mark_is_read_back_equal(make, tmp_path, form):
    data = make.dataset(["a"], [make.query("\ufeffq1")], [("\ufeffq1", "a", 2)])
    export_dataset(data, tmp_path / "out", form=form)
    back = imported(tmp_path / "out").dataset
    assert (back.hash, back.labels) == (data.hash, data.labels)


def test_bfcl_is_read_back_equal(tmp_path):
    if not BFCL().available():
        pytest.skip("the wheel bfcl-eval is not installed")
    data = BFCL().load("bfcl-live-listed")
    export_dataset(data, tmp_path / "out", form="beir")
    assert imported(tmp_path / "out").dataset.hash == data.hash


def test_beirs_loader_reads_the_folder(tiny, tmp_path):
    export_dataset(tiny, tmp_path / "out", form="beir")
    corpus, queries, qrels = read_by_beir(tmp_path / "out", "tuning")
    assert len(corpus) == 12
    assert corpus["tool:tracker:create_issue"]["text"].startswith("create_issue: ")
    assert queries["q04"] == "File a bug: the search page is empty."
    assert qrels["q04"] == {
        "tool:tracker:create_issue": 2,
        "tool:tracker:search_issues": 1,
        "tool:forge:create_issue": 2,
    }
    assert "q05" not in qrels  # it needs nothing


def test_plain_files_hold_texts_splits_and_grades_alone(tiny, tmp_path):
    exported = export_dataset(tiny, tmp_path / "out", form="beir", plain=True)
    assert json.loads((tmp_path / "out" / "export.json").read_text("utf-8")) == {
        "format": "beir",
        "plain": True,
        "files": ["corpus.jsonl", "qrels/test.tsv", "qrels/tuning.tsv", "queries.jsonl"],
    }
    back = imported(tmp_path / "out", ImportSettings(grades={1: 1, 2: 2})).dataset
    assert [q.request.text for q in back.queries] == [q.request.text for q in tiny.queries]
    judged = {label.query for label in tiny.labels} - {"q05", "q10"}
    assert {q.id: q.split for q in back.queries if q.id in judged} == {
        q.id: q.split for q in tiny.queries if q.id in judged
    }
    expected = {(i.query, i.item.id, i.grade) for i in tiny.labels if i.query in judged}
    assert {(i.query, i.item.name, i.grade) for i in back.labels} == expected
    assert back.unlabelled == ("q05", "q10")  # that they need nothing is what the format cannot say
    assert exported.not_held["queries that need nothing"] == 2


def test_a_text_that_was_changed_beside_its_metadata_is_a_fault(tiny, tmp_path):
    export_dataset(tiny, tmp_path / "out", form="beir")
    path = tmp_path / "out" / "corpus.jsonl"
    path.write_text(path.read_text("utf-8").replace("create_issue: Create", "create_issue: Make", 1), "utf-8")
    with pytest.raises(Exception, match="field 'text' differs from what the export wrote") as caught:
        imported(tmp_path / "out")
    assert caught.value.faults[0].line == 7


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_export_gives_way_to_another(tiny, tmp_path):
    for form, plain in (("beir", False), ("trec", False), ("beir", True), ("beir", True), ("trec", False)):
        export_dataset(tiny, tmp_path / "out", form=form, plain=plain)
        suffix = {path.suffix for path in (tmp_path / "out" / "qrels").iterdir()}
        assert suffix == {".tsv" if form == "beir" else ".qrels"}


@pytest.mark.parametrize("name", ["mine.txt", "qrels/mine.tsv", "runs/mine.run", "sub/dataset.yaml"])
def test_a_file_that_no_export_wrote_is_kept(tiny, tmp_path, name):
    out = tmp_path / "out"
    export_dataset(tiny, out, form="trec")
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text("mine")
    before = contents(out)
    with pytest.raises(ParameterError, match=f"would be replaced, but {name.split('/m')[0].split('/d')[0]}"):
        export_dataset(tiny, out, form="beir")
    assert contents(out) == before


def test_a_folder_is_no_export_for_its_export_json_alone(tiny, tmp_path):
    write_dataset(tiny, tmp_path / "data")
    for text in ("{}", "{", "[]", '{"files": 1}', '{"files": [1]}', '{"files": ["corpus.jsonl"]}'):
        (tmp_path / "data" / "export.json").write_text(text)
        before = contents(tmp_path / "data")
        with pytest.raises(ParameterError, match=r"is not in export\.json"):
            export_dataset(tiny, tmp_path / "data", form="beir")
        assert contents(tmp_path / "data") == before


def test_what_stands_in_the_way_is_kept(tiny, tmp_path):
    write_dataset(tiny, tmp_path / "dataset")
    for there in (tmp_path / "dataset", tmp_path):
        with pytest.raises(ParameterError, match=r"is not in export\.json"):
            export_dataset(tiny, there, form="beir")
    with pytest.raises(ParameterError, match="it is a file"):
        export_dataset(tiny, tmp_path / "dataset" / "dataset.yaml", form="beir")
    with pytest.raises(ParameterError, match="beir or trec"):
        export_dataset(tiny, tmp_path / "new", form="csv")
    with pytest.raises(ParameterError, match="--format trec"):
        export_dataset(tiny, tmp_path / "new", form="beir", run=tmp_path)
    assert not (tmp_path / "new").exists()


# Runs, against ir-measures


def graded(make) -> Dataset:
    """40 queries over 120 items with grades 0 to 2, several required."""
    rng = random.Random(7)
    vocabulary = [f"w{i}" for i in range(30)]
    items = [make.tool(f"t{i}", " ".join(rng.choices(vocabulary, k=8))) for i in range(120)]
    queries = [
        make.query(f"q{i:02}", " ".join(rng.choices(vocabulary, k=3)), split=rng.choice(["tuning", "test"]))
        for i in range(40)
    ]
    labels = []
    for query in queries[:-1]:
        labelled = rng.sample(range(120), rng.randint(1, 12))
        grades = [2, *rng.choices([0, 1, 2], k=len(labelled) - 1)]
        labels += [(query.id, f"t{item}", grade) for item, grade in zip(labelled, grades, strict=True)]
    return make.dataset(items, queries, labels, name="graded")


def ran(data: Dataset, folder: Path, *lines: str) -> Path:
    """A run of BM25 and a random ranking; `lines` are added to the experiment."""
    write_dataset(data, folder / "data")
    text = ["name: e", f"datasets: [{folder / 'data'}]", "embedder: hashing", "tokens: chars/4", *lines]
    text += [f"metrics: [{', '.join(METRICS)}, completeness, tokens]", "selectors:"]
    text += ["  - {selector: bm25}", "  - {selector: random, set: {n: 5}}", "  - {selector: everything}"]
    (folder / "e.yaml").write_text("\n".join(text), "utf-8")
    run(open_experiment(folder / "e.yaml"), folder / "run")
    return folder / "run"


def theirs(folder: Path, file: str) -> dict[str, dict[str, float]]:
    """ir-measures over the exported files: value by query by metric."""
    qrels = [
        row for path in sorted((folder / "qrels").glob("*.qrels")) for row in ir_measures.read_trec_qrels(str(path))
    ]
    rows = list(ir_measures.read_trec_run(str(folder / file)))
    metrics = {ir_measures.parse_measure(metric.ir_measures): str(metric) for metric in parse_metrics(METRICS)}
    found: dict[str, dict[str, float]] = {name: {} for name in METRICS}
    for result in ir_measures.iter_calc(list(metrics), qrels, rows):
        found[metrics[result.measure]][result.query_id] = result.value
    return found


@pytest.mark.essential
@pytest.mark.parametrize("which", ["tiny", "graded", "bfcl-simple"])
def test_metrics_of_exported_runs_equal_ir_measures(make, tiny, tmp_path, monkeypatch, which):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    if which == "bfcl-simple" and not BFCL().available():
        pytest.skip("the wheel bfcl-eval is not installed")
    data = {"tiny": lambda: tiny, "graded": lambda: graded(make)}.get(which, lambda: BFCL().load(which))()
    folder = ran(data, tmp_path)
    exported = export_dataset(data, tmp_path / "out", form="trec", run=folder)
    assert exported.without_ranking == ("everything",)
    differ = {query for queries in exported.other_values.values() for query in queries}
    assert differ == ({"q04", "q09"} if which == "tiny" else set())
    compared = 0
    for selector, file in exported.runs.items():
        part = RunFolder(folder).load(data.name, selector)
        expected = theirs(tmp_path / "out", file)
        for name in METRICS:
            for query, value in zip(part.answers.queries, part.metrics[name].tolist(), strict=True):
                if query in expected[name] and query not in differ:
                    assert value == pytest.approx(expected[name][query], abs=1e-12), (selector, name, query)
                    compared += 1
                elif query not in differ:
                    assert math.isnan(value), (selector, name, query)  # needs nothing: in neither mean
    queries = {"tiny": 6, "graded": 39, "bfcl-simple": 400}[which]
    assert compared == queries * len(METRICS) * 2


def test_means_over_the_exported_files_are_the_means_of_the_run(make, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    data = graded(make)
    folder = ran(data, tmp_path)
    exported = export_dataset(data, tmp_path / "out", form="trec", run=folder)
    (summary,) = summarise_run(RunFolder(folder)).datasets
    for row in summary.selectors:
        if row.selector in exported.runs:
            expected = theirs(tmp_path / "out", exported.runs[row.selector])
            for name in METRICS:
                mean = float(np.mean(list(expected[name].values())))
                assert row.estimates[name].value == pytest.approx(mean, abs=1e-9)


def test_scores_of_runs_fall_strictly(make, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    data = graded(make)
    exported = export_dataset(data, tmp_path / "out", form="trec", run=ran(data, tmp_path))
    for selector, file in exported.runs.items():
        rows = [line.split(" ") for line in (tmp_path / "out" / file).read_text().splitlines()]
        by_query: dict[str, list[tuple[int, float]]] = {}
        for query, q0, item, rank, score, tag in rows:
            assert (q0, tag) == ("Q0", selector.replace("/", "~"))
            assert data.catalog.find(item) is not None
            by_query.setdefault(query, []).append((int(rank), float(score)))
        for pairs in by_query.values():
            assert [rank for rank, _ in pairs] == list(range(1, len(pairs) + 1))
            assert (np.diff(np.array([score for _, score in pairs], dtype=np.float32)) < 0).all()


def test_a_run_comes_back_as_answers_with_the_same_ranking(make, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    data = graded(make)
    folder = ran(data, tmp_path)
    exported = export_dataset(data, tmp_path / "out", form="trec", run=folder)
    answers, odd = answers_of_run(read_run(tmp_path / "out" / exported.runs["bm25"]), data.judged(), keep=3)
    assert not odd["documents not in the dataset"]
    table = RunFolder(folder).load("graded", "bm25").answers.joined().candidates
    for place, answer in enumerate(answers):
        expected = [data.catalog.ids[item] for item in table.item[table.rows(place)]]
        assert [row["id"] for row in answer["ranking"]] == expected
        assert [row["id"] for row in answer["items"]] == expected[:3]


def ids(folder: Path) -> list[str]:
    return [json.loads(line)["_id"] for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]


def queries_of(file: Path) -> set[str]:
    return {line.split(" ")[0] for line in file.read_text("utf-8").splitlines()}


@pytest.mark.parametrize("part", ["split: test", "sample: 9"])
def test_of_a_run_over_some_queries_these_are_exported(make, tmp_path, monkeypatch, part):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    data, out = graded(make), tmp_path / "out"
    folder = ran(data, tmp_path, part)
    exported = export_dataset(data, out, form="trec", run=folder)
    asked = RunFolder(folder).load("graded", "random").answers.queries
    assert ids(out) == [query for query in ids(out) if query in asked or query == "q39"]  # which has no label
    assert queries_of(out / exported.runs["random"]) == set(asked)
    assert set().union(*map(queries_of, (out / "qrels").iterdir())) == set(asked)
    assert imported(out).dataset.hash == select_queries(data, **asked_of(part)).hash


def asked_of(part: str) -> dict[str, Any]:
    name, _, value = part.partition(": ")
    return {name: int(value) if value.isdecimal() else value}


def test_a_split_of_a_run_is_exported(make, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    data, out = graded(make), tmp_path / "out"
    split = {query.id for query in data.split("test").queries}
    exported = export_dataset(data, out, form="trec", run=ran(data, tmp_path), split="test")
    assert set(ids(out)) == split
    assert queries_of(out / exported.runs["random"]) == split - {"q39"}
    assert list(exported.labels) == ["test"]
    assert export_dataset(data, tmp_path / "without", form="beir", split="tuning").queries == 40 - len(split)


def test_a_split_that_was_not_run_is_refused(make, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    data = graded(make)
    folder = ran(data, tmp_path, "split: test")
    with pytest.raises(ParameterError, match="no query of split 'tuning', only of test"):
        export_dataset(data, tmp_path / "out", form="trec", run=folder, split="tuning")
    with pytest.raises(UnknownNameError, match="unknown split 'tset'"):
        export_dataset(data, tmp_path / "out", form="beir", split="tset")


def test_a_run_on_another_dataset_is_refused(make, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    folder = ran(tiny, tmp_path)
    other = replace(tiny, queries=tiny.queries[1:], labels=tuple(i for i in tiny.labels if i.query != "q01"))
    with pytest.raises(StorageError, match=r"is a run on tiny \w{12}, not on tiny"):
        export_dataset(other, tmp_path / "out", form="trec", run=folder)
    with pytest.raises(StorageError, match=r"holds no manifest\.json"):
        export_dataset(tiny, tmp_path / "out", form="trec", run=tmp_path / "nothing")
    assert not (tmp_path / "out").exists()


def test_what_is_asked_for_at_import_goes_before_the_card(tiny, tmp_path):
    export_dataset(tiny, tmp_path / "out", form="beir")
    data = imported(tmp_path / "out", ImportSettings(name="other", version="7", licence="MIT")).dataset
    assert (data.name, data.version, data.about["licence"]) == ("other", "7", "MIT")
    assert data.hash == tiny.hash


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("form", ["beir", "trec"])
def test_any_dataset_is_read_back_equal(make, tmp_path, seed, form):
    rng = random.Random(seed)
    names = [rng.choice(["a b", "ü", "x/y", "n", '"', "0"]) + str(i) for i in range(6)]
    keys = [make.key(name) for name in names]
    queries, labels = [], []
    for i in range(8):
        scope = rng.choice([None, None, "all"])
        state = rng.choice([{}, {}, {"partly_labelled": True}, {"needs_nothing": True}])
        given = {"scope": scope, "available": tuple(keys) if scope else rng.choice([None, None, tuple(keys)])}
        given |= {"tags": tuple(rng.sample(["t", "u"], rng.randint(0, 2))), "turn": rng.choice([None, 2])}
        split = rng.choice(["tuning", "test", "fold-1"])
        queries.append(make.query(f"q{i}", rng.choice(["", "a\tb\n", "text"]), split=split, **given, **state))
        chosen = rng.sample(keys, rng.randint(0, 5))
        highest = 1 if state.get("needs_nothing") else 2
        found = [Label(f"q{i}", key, rng.randint(0, highest), rng.choice(["direct", "dependency"])) for key in chosen]
        required = [place for place, label in enumerate(found) if label.grade == 2]
        if len(required) >= 2 and rng.random() < 0.6:
            for place in required[:2]:
                found[place] = replace(found[place], alternatives="any text, too")
        labels += [replace(label, source=rng.choice(["", "trace"])) for label in found]
    data = make.dataset(
        [make.tool(name, rng.choice(["", "d\n\nd"]), metadata={"a": [1]}) for name in names],
        queries,
        labels,
        scopes={"all": tuple(keys), "unused": ()},
    )
    export_dataset(data, tmp_path / "out", form=form)
    back = imported(tmp_path / "out").dataset
    assert back.hash == data.hash
    assert (back.card, back.labels, back.catalog.hash) == (data.card, data.labels, data.catalog.hash)


def test_a_damaged_export_is_refused(tiny, tmp_path):
    export_dataset(tiny, tmp_path / "out", form="beir")
    path = tmp_path / "out" / "export.json"
    for text in ("{", "[]", '{"dataset": 1}', '{"dataset": {"name": 1}}', '{"dataset": {"scopes": []}}'):
        path.write_text(text)
        with pytest.raises(InputError):
            imported(tmp_path / "out")


def test_a_damaged_detail_of_a_label_is_a_fault_with_its_line(tiny, tmp_path):
    export_dataset(tiny, tmp_path / "out", form="beir")
    path = tmp_path / "out" / "queries.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    rows[0]["metadata"]["ctxbench"]["labels"] = {"no id": {"grade": 2}, "tool:a": {}, "tool:b": 1}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with pytest.raises(InputError, match=r"'no id' is no item id.*line 1\)\n.*unknown field 'entry'.*line 1\)"):
        imported(tmp_path / "out")
    rows[0]["metadata"]["ctxbench"]["labels"] = {"tool:a": {"via": "direct"}}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    found = imported(tmp_path / "out")
    assert found.ids["label details without a label"] == ["q01 tool:a"]
