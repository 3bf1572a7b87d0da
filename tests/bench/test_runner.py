"""Runs: what is reused, what is made again, and that an interrupted run ends as if nothing had happened."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from ctxbench.bench import dataset_run, results
from ctxbench.bench.experiment_file import examine
from ctxbench.bench.prepared import open_experiment, prepare
from ctxbench.bench.results import RunFolder
from ctxbench.bench.runner import run
from ctxbench.bench.summary import summarise_run
from ctxbench.core.candidates import Origin
from ctxbench.core.errors import InputError, ParameterError, SelectorError, StorageError, UserError
from ctxbench.data.datasets import read_dataset
from ctxbench.data.labelling.query_files import write_weights
from ctxbench.embedding.hashing import HashingEmbedder
from ctxbench.report.run_tables import comparison_table
from ctxbench.selectors.pipelines import offered_sizes
from ctxbench.steps.retrieve import Everything
from tests.draws import draws

TINY = Path(__file__).parents[1] / "fixtures" / "tiny"
SELECTORS = """
  - {selector: semantic, preset: normal}
  - {selector: semantic, preset: conservative}
  - {selector: random, like: semantic/conservative}
  - {selector: everything}
  - {selector: bm25, set: {n: 2}}
"""


@pytest.fixture(autouse=True)
def small_slices_and_a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")
    monkeypatch.setattr(dataset_run, "SLICE", 3)  # the tiny dataset has ten queries: four slices


@pytest.fixture
def data(tmp_path):
    """A copy of the tiny dataset, to be changed."""
    return Path(shutil.copytree(TINY, tmp_path / "data" / "tiny"))


@pytest.fixture(scope="module")
def run_once(tmp_path_factory):
    """A folder with a finished run of `experiment` in slices of three, and the cache that it filled; only read."""
    folder = tmp_path_factory.mktemp("once")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTXBENCH_CACHE", str(folder / "cache"))
        patch.setenv("CTXBENCH_OFFLINE", "1")
        patch.setattr(dataset_run, "SLICE", 3)
        run_file(experiment(folder), folder / "run")
    return folder, snapshot(folder / "run")


@pytest.fixture
def whole(run_once, tmp_path):
    """The files of a run that nothing disturbed; what it left in the cache is in the test's own."""
    folder, files = run_once
    shutil.copytree(folder / "cache", tmp_path / "cache")
    return files


@pytest.fixture
def ran(run_once, whole, tmp_path):
    """A test's own copy of a finished run, with its cache; the folder."""
    return Path(shutil.copytree(run_once[0] / "run", tmp_path / "run"))


def experiment(folder, selectors=SELECTORS, *, data=TINY, **given):
    settings = {"datasets": f"[{data}]", "embedder": "hashing", "tokens": "chars/4", **given}
    lines = [f"{key}: {value}" for key, value in settings.items()]
    path = folder / "e.yaml"
    path.write_text("\n".join([*lines, f"selectors:{selectors}"]), encoding="utf-8")
    return path


def run_file(path, folder, **given):
    return run(open_experiment(path), folder, **given)


def snapshot(folder):
    """Every file of a run but the times, by its place, as bytes."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "timings.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def offered(folder, selector, dataset="tiny"):
    lines = (RunFolder(folder).part_path(dataset, selector) / "selections.jsonl").read_text("utf-8").splitlines()
    return {row["query"]: [item["id"] for item in row["items"]] for row in map(json.loads, lines)}


def made_again(path, folder):
    """Which selectors a second call makes again."""
    before = {name: _part(folder, name).stat().st_ino for name in _names(folder)}
    report = run_file(path, folder)
    again = [name for name in _names(folder) if before.get(name) != _part(folder, name).stat().st_ino]
    assert (report.made, report.reused) == (len(again), len(_names(folder)) - len(again))
    return again


def _names(folder):
    return list(RunFolder(folder).read("manifest.json")["selectors"])


def _part(folder, name):
    return RunFolder(folder).part_path("tiny", name)


# ---------------------------------------------------------------------------------------------- what a run leaves


def test_a_run_leaves_a_part_for_each_selector_and_a_manifest(tmp_path):
    told = []
    report = run_file(experiment(tmp_path), tmp_path / "run", progress=lambda *what: told.append(what))
    assert (report.folder, report.made, report.reused, report.errors) == (tmp_path / "run", 5, 0, {})
    files = ["answers.zip", "metrics.jsonl", "part.json", "selections.jsonl"]
    names = ["bm25", "everything", "random", "semantic~conservative", "semantic~normal"]
    assert list(snapshot(tmp_path / "run")) == ["manifest.json", *(f"tiny/{n}/{f}" for n in names for f in files)]
    assert [what for what in told if what[0] == "tiny"] == [("tiny", n, 10) for n in (3, 6, 9, 10)]
    manifest = RunFolder(tmp_path / "run").read("manifest.json")
    assert list(manifest["selectors"]) == [
        "semantic/normal", "semantic/conservative", "random", "everything", "bm25",
    ]  # fmt: skip
    assert manifest["datasets"]["tiny"]["queries"] == 10
    assert manifest["experiment"]["compare_to"] == "semantic/normal"
    assert manifest["embedder"]["model"] == "hashing"
    assert manifest["tokens"] == "chars/4"


def test_everything_offers_what_a_query_may_get_and_its_session(tmp_path, ran):
    found = offered(ran, "everything")
    always, manual = "rule:answer%20in%20english", "rule:no%20secrets"
    assert found["q10"] == ["tool:forge:create_issue", "tool:weather:get_forecast"]  # available names just these
    assert set(found["q08"]) == {
        "tool:tracker:create_issue", "tool:tracker:search_issues",
        "reference:project%20keys", "reference:guides%2Fon%20call",
    }  # fmt: skip
    assert found["q09"][0] == manual  # its session, which holds no always item
    assert always not in found["q09"]
    assert found["q01"][0] == always
    assert len(found["q01"]) == 10  # 12 without the retired tool and the manual rule
    assert "tool:weather:get_forecast_daily" not in set().union(*found.values())


def test_metrics_are_those_of_the_labels(tmp_path):
    run_file(experiment(tmp_path, metrics="[completeness, items, abstention, tokens]"), tmp_path / "run")
    part = RunFolder(tmp_path / "run").load("tiny", "everything")
    #                                            q01..q04 found, q05 needs nothing, q06..q09 found, q10 needs nothing
    values = part.metrics["completeness"].tolist()
    assert [v for v in values if v == v] == [1.0] * 8
    assert np.flatnonzero(np.isnan(values)).tolist() == [4, 9]
    assert part.metrics["abstention"][[4, 9]].tolist() == [0.0, 0.0]
    assert part.metrics["items"][[0, 9]].tolist() == [9.0, 2.0]  # what the session holds was not added


def test_the_oracle_offers_what_is_required_and_random_as_much(tmp_path):
    selectors = "\n  - oracle\n  - {selector: random, like: oracle}\n"
    run_file(experiment(tmp_path, selectors, metrics="[completeness, precision, abstention]"), tmp_path / "run")
    part = RunFolder(tmp_path / "run").load("tiny", "oracle")
    needed = [0, 1, 2, 3, 5, 6, 7, 8]
    assert part.metrics["completeness"][needed].tolist() == [1.0] * 8
    assert part.metrics["precision"][needed[:-1]].tolist() == [1.0] * 7  # q09's session holds what it needs
    assert part.metrics["abstention"][[4, 9]].tolist() == [1.0, 1.0]
    found = offered(tmp_path / "run", "oracle")
    assert found["q04"][-1] == "tool:forge:create_issue"  # 67 tokens; the other create_issue has 82
    like = RunFolder(tmp_path / "run").load("tiny", "random")
    assert (
        offered_sizes(part.answers.joined().candidates).tolist()
        == offered_sizes(like.answers.joined().candidates).tolist()
    )


def test_random_offers_as_many_as_the_other_for_each_query(tmp_path, ran):
    added = []
    for name in ("semantic/conservative", "random"):
        table = RunFolder(ran).load("tiny", name).answers.joined().candidates
        rows = table.chosen & (table.origin == Origin.SEARCH)
        added.append(np.bincount(table.request[rows], minlength=10).tolist())
    assert added[0] == added[1]
    assert 1 <= added[0][7] <= 4  # q08 may get four items
    assert offered(ran, "random") != offered(ran, "semantic/conservative")


def test_a_comparator_that_ranks_too_few_items_is_an_error_not_a_smaller_one(tmp_path):
    selectors = "\n  - {selector: everything}\n  - {selector: random, like: everything, set: {n: 0, depth: 5}}\n"
    with pytest.raises(SelectorError, match="everything: that offers 9 for query 'q01', and only the best 5 are"):
        run_file(experiment(tmp_path, selectors), tmp_path / "run")
    selectors = selectors.replace("depth: 5", "depth: 10")
    run_file(experiment(tmp_path, selectors), tmp_path / "run")
    assert {q: set(i) for q, i in offered(tmp_path / "run", "random").items()} == {
        q: set(i) for q, i in offered(tmp_path / "run", "everything").items()
    }


def test_slices_change_nothing(tmp_path, monkeypatch):
    run_file(experiment(tmp_path), tmp_path / "three")
    monkeypatch.setattr(dataset_run, "SLICE", 64)
    run_file(experiment(tmp_path), tmp_path / "all")
    three, at_once = snapshot(tmp_path / "three"), snapshot(tmp_path / "all")
    blocks = [name for name in three if not name.endswith((".jsonl", "manifest.json"))]
    assert three.keys() == at_once.keys()
    assert [name for name in three if three[name] != at_once[name]] == blocks
    for name in RunFolder(tmp_path / "all").read("manifest.json")["selectors"]:
        one, other = (RunFolder(tmp_path / run).load("tiny", name).answers for run in ("three", "all"))
        assert len(list(one.blocks())) > len(list(other.blocks())) == 1
        assert one.joined().to_bytes(timed=False) == other.joined().to_bytes(timed=False)


def test_what_offers_the_whole_catalog_is_asked_about_fewer_queries_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset_run, "SLICE", 4)
    run_file(experiment(tmp_path), tmp_path / "plain")
    items = len(open_experiment(experiment(tmp_path)).datasets["tiny"].catalog)
    monkeypatch.setattr(dataset_run, "ROWS", 2 * items)
    again = dataset_run.answered
    asked = []
    monkeypatch.setattr(dataset_run, "answered", lambda s, b, **k: asked.append((s.name, len(b))) or again(s, b, **k))
    stopped = counted(dataset_run.answered, 9, KeyboardInterrupt(), after=True)
    assert interrupted(experiment(tmp_path), tmp_path / "run", monkeypatch.context(), dataset_run, "answered", stopped)
    run_file(experiment(tmp_path), tmp_path / "run")
    assert [size for name, size in asked if name == "everything"] == [2] * 6, "one was stopped before it was kept"
    assert [size for name, size in asked if name == "bm25"] == [4, 4, 2]
    plain, run_in_parts = snapshot(tmp_path / "plain"), snapshot(tmp_path / "run")
    differ = [name for name in plain if plain[name] != run_in_parts[name]]
    assert differ == ["tiny/everything/answers.zip", "tiny/everything/part.json"]


def test_one_whose_sizes_are_taken_is_asked_once_however_few_queries_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset_run, "SLICE", 4)
    monkeypatch.setattr(dataset_run, "ROWS", 50)
    asked = []
    select = Everything.__call__
    monkeypatch.setattr(Everything, "__call__", lambda s, q, r: asked.append(len(q.batch)) or select(s, q, r))
    selectors = "\n  - {selector: everything}\n  - {selector: random, like: everything}\n"
    run_file(experiment(tmp_path, selectors), tmp_path / "run")
    assert sum(asked) == 10
    sizes = [
        offered_sizes(RunFolder(tmp_path / "run").load("tiny", n).answers.joined().candidates)
        for n in ("everything", "random")
    ]
    assert sizes[0].tolist() == sizes[1].tolist()


def test_a_mend_that_was_stopped_goes_on(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        f"from pathlib import Path\n\ndef mine(request):\n    with open({str(tmp_path / 'log')!r}, 'a') as log:\n"
        f"        log.write('asked')\n    if Path({str(tmp_path / 'down')!r}).exists():\n"
        "        raise OSError('down')\n"
        "    return []\n"
    )
    path = experiment(tmp_path, "\n  - {callable: 'mine.py:mine', send: nothing, name: mine}\n  - {selector: bm25}\n")
    (tmp_path / "down").touch()
    assert run_file(path, tmp_path / "run").errors == {"tiny, mine": 10}
    (tmp_path / "down").unlink()
    (tmp_path / "log").unlink()
    answered = counted(dataset_run.answered, 3, KeyboardInterrupt())
    assert interrupted(path, tmp_path / "run", monkeypatch.context(), dataset_run, "answered", answered)
    assert run_file(path, tmp_path / "run").errors == {}
    assert (tmp_path / "log").read_text() == "asked" * 10
    run_file(path, tmp_path / "whole")
    one, other = (RunFolder(tmp_path / run).load("tiny", "mine") for run in ("run", "whole"))
    assert one.notes == other.notes
    assert one.answers.joined().to_bytes(timed=False) == other.answers.joined().to_bytes(timed=False)


def test_answers_of_a_selector_outside_are_taken_over_from_the_version_before(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        f"def none(request):\n    with open({str(tmp_path / 'log')!r}, 'a') as log:\n        log.write('asked')\n"
        "    return []\n"
    )
    path = experiment(tmp_path, "\n  - {callable: 'mine.py:none', send: nothing, name: mine}\n")
    run_file(path, tmp_path / "run")
    assert (tmp_path / "log").read_text() == "asked" * 10
    part = RunFolder(tmp_path / "run").part_path("tiny", "mine")
    data = RunFolder(tmp_path / "run").load("tiny", "mine").answers.joined().to_bytes(timed=False)
    (part / "answers.npz").write_bytes(data)
    (part / "answers.zip").unlink()
    marker = json.loads((part / "part.json").read_text())
    del marker["files"]["answers.zip"], marker["checksum"]
    marker["files"]["answers.npz"] = hashlib.sha256(data).hexdigest()
    RunFolder(tmp_path / "run").write(
        "tiny/mine/part.json", {**marker, "format": 3, "values_key": "of another version"}
    )
    assert run_file(path, tmp_path / "run").made == 1
    assert (tmp_path / "log").read_text() == "asked" * 10, "they are measured again, and asked for no more"
    assert (part / "answers.zip").exists()


def test_the_order_of_selectors_changes_no_part(tmp_path):
    run_file(experiment(tmp_path), tmp_path / "one")
    entries = SELECTORS.strip().split("\n")
    path = experiment(tmp_path, "\n  " + "\n  ".join(entry.strip() for entry in reversed(entries)) + "\n")
    run_file(path, tmp_path / "other")
    one, other = snapshot(tmp_path / "one"), snapshot(tmp_path / "other")
    assert one.pop("manifest.json") != other.pop("manifest.json")
    assert one == other


def test_two_datasets_with_one_name_are_a_fault(tmp_path, data):
    path = experiment(tmp_path, datasets=f"\n  - {TINY}\n  - {data}")
    with pytest.raises(InputError, match=r"two datasets are called 'tiny'; rename one \(.*e\.yaml, line 3\)"):
        open_experiment(path)


def unlabel(data):
    """Take the labels of two queries away."""
    text = (data / "queries.jsonl").read_text("utf-8").replace(',"needs":"nothing"', "")
    (data / "queries.jsonl").write_text(text, "utf-8")
    card = (data / "dataset.yaml").read_text("utf-8")
    (data / "dataset.yaml").write_text(card.replace("needs_nothing: 2", "needs_nothing: 0")
                                       .replace("unlabelled: 0", "unlabelled: 2"), "utf-8")  # fmt: skip


def test_unlabelled_queries_are_left_out(tmp_path, data):
    unlabel(data)
    run_file(experiment(tmp_path, data=data), tmp_path / "run")
    assert list(offered(tmp_path / "run", "bm25")) == [f"q0{n}" for n in (1, 2, 3, 4, 6, 7, 8, 9)]


def queue_notes(folder):
    summary = summarise_run(RunFolder(folder))
    table = comparison_table(summary, summary.datasets[0])
    return summary.datasets[0].drawn, [note for note in table.notes if "label queue" in note]


def test_queries_that_a_label_queue_drew_are_counted_and_said(tmp_path, data):
    unlabel(data)
    write_weights(data, {"q01": 2.0, "q02": 1.5}, {"q01": 0, "q02": 0})
    run_file(experiment(tmp_path, data=data), tmp_path / "run")
    drawn, (note,) = queue_notes(tmp_path / "run")
    assert drawn == 2
    assert note.startswith("2 queries of these were drawn by a label queue, with unequal chances")


@pytest.mark.parametrize(("weight", "drawn"), [(1.0, 0), (5.0, 0), (5.5, 2)])
def test_a_label_queue_is_not_spoken_of_where_every_query_is_labelled(tmp_path, data, weight, drawn):
    """Unless the drawn ones stand for more queries than there are: then the others were left out of the dataset."""
    write_weights(data, {"q01": weight, "q02": weight}, {"q01": 0, "q02": 0})
    run_file(experiment(tmp_path, data=data), tmp_path / "run")
    found, notes = queue_notes(tmp_path / "run")
    assert (found, len(notes)) == (drawn, int(drawn > 0))


def test_a_split_asks_only_its_queries(tmp_path):
    path = experiment(tmp_path)
    path.write_text(path.read_text("utf-8") + "\nsplit: test\n", "utf-8")
    run_file(path, tmp_path / "run")
    test = [query.id for query in read_dataset(TINY).queries if query.split == "test"]
    assert 0 < len(test) < 10
    assert list(offered(tmp_path / "run", "bm25")) == test
    assert json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))["experiment"]["split"] == "test"


def test_an_unknown_split_is_a_fault_with_its_line(tmp_path):
    path = experiment(tmp_path)
    path.write_text(path.read_text("utf-8") + "\nsplit: tset\n", "utf-8")
    with pytest.raises(InputError, match=r"unknown split 'tset' of dataset tiny; did you mean 'test'.*line \d+\)"):
        open_experiment(path)


# ---------------------------------------------------------------------------------------------- a second run


def test_a_second_run_into_another_folder_embeds_nothing_and_loads_no_model(tmp_path, monkeypatch):
    path = experiment(tmp_path)
    first = run_file(path, tmp_path / "one")
    assert first.embedded > 0
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *_, **__: pytest.fail("the embedder was asked"))
    second = run_file(path, tmp_path / "two")
    assert (second.made, second.embedded) == (5, 0)
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")


def test_the_same_call_reuses_everything(tmp_path, ran):
    path = experiment(tmp_path)
    before = snapshot(ran)
    assert made_again(path, ran) == []
    assert snapshot(ran) == before


def test_fresh_makes_everything_again(tmp_path, ran):
    path = experiment(tmp_path)
    before = snapshot(ran)
    report = run_file(path, ran, fresh=True)
    assert (report.made, report.reused, report.embedded) == (5, 0, 0)
    assert snapshot(ran) == before


def test_a_parameter_makes_only_the_selectors_that_use_it_again(tmp_path, ran):
    path = experiment(tmp_path, SELECTORS.replace("n: 2", "n: 3"))
    assert made_again(path, ran) == ["bm25"]


def test_the_sizes_that_a_selector_takes_belong_to_it(tmp_path, ran):
    path = experiment(
        tmp_path, SELECTORS.replace("preset: conservative", "preset: conservative, set: {contextTopN: 1}")
    )
    assert made_again(path, ran) == ["semantic/conservative", "random"]


def test_other_metrics_make_every_part_again(tmp_path, ran):
    path = experiment(tmp_path, metrics="[completeness, tokens]")
    assert len(made_again(path, ran)) == 5
    assert list(RunFolder(ran).load("tiny", "bm25").metrics) == ["completeness", "tokens"]


def test_another_token_counter_makes_every_part_again(tmp_path, ran):
    counts = tmp_path / "counts.json"
    ids = [json.loads(line)["_id"] for line in (TINY / "corpus.jsonl").read_text("utf-8").splitlines()]
    counts.write_text(json.dumps(dict.fromkeys(ids, 7)), "utf-8")
    assert len(made_again(experiment(tmp_path, tokens=f"file:{counts}"), ran)) == 5
    part = RunFolder(ran).load("tiny", "bm25")
    assert part.metrics["tokens"].max() == 7 * 2  # two by BM25; the rule that is always there was not added
    counts.write_text(json.dumps(dict.fromkeys(ids, 8)), "utf-8")  # the same name, other counts
    assert len(made_again(experiment(tmp_path, tokens=f"file:{counts}"), ran)) == 5


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("corpus.jsonl", "Dates of the next releases", "Dates of the last releases"),
        ("queries.jsonl", "When is release 4.2 frozen?", "When is release 4.3 frozen?"),
        ("qrels/test.tsv", "tool:tracker:search_issues\t1", "tool:tracker:search_issues\t0"),
    ],
)
def test_an_edited_dataset_makes_every_part_again(file, old, new, tmp_path, data):
    path = experiment(tmp_path, data=data)
    run_file(path, tmp_path / "run")
    text = (data / file).read_text("utf-8")
    assert text.count(old) == 1
    (data / file).write_text(text.replace(old, new), "utf-8")
    if file.startswith("qrels"):
        card = (data / "dataset.yaml").read_text("utf-8")
        card = card.replace("helpful: 2", "helpful: 1").replace("irrelevant: 3", "irrelevant: 4")
        (data / "dataset.yaml").write_text(card, "utf-8")
    assert len(made_again(path, tmp_path / "run")) == 5


def test_queries_in_another_order_make_every_part_again_since_answers_are_in_their_order(tmp_path, data):
    path = experiment(tmp_path, data=data)
    run_file(path, tmp_path / "run")
    before = offered(tmp_path / "run", "bm25")
    lines = (data / "queries.jsonl").read_text("utf-8").splitlines()
    (data / "queries.jsonl").write_text("\n".join(reversed(lines)) + "\n", "utf-8")
    assert len(made_again(path, tmp_path / "run")) == 5
    after = offered(tmp_path / "run", "bm25")
    assert list(after) == list(reversed(before))
    assert after == before


@pytest.mark.parametrize("file", ["part.json", "answers.zip", "metrics.jsonl", "selections.jsonl"])
@pytest.mark.parametrize("how", ["cut", "other", "gone"])
def test_a_damaged_part_is_made_again(file, how, tmp_path, ran):
    path = experiment(tmp_path)
    before = snapshot(ran)
    damaged = ran / "tiny" / "bm25" / file
    if how == "gone":
        damaged.unlink()
    else:
        damaged.write_bytes(damaged.read_bytes()[:-20] if how == "cut" else random.Random(1).randbytes(500))
    assert made_again(path, ran) == ["bm25"]
    assert snapshot(ran) == before


def flipped(place, dice, number):
    """One bit of one file of a folder, each file in its turn."""
    files = sorted(path for path in place.rglob("*") if path.is_file() and path.stat().st_size)
    path = files[number % len(files)]
    data = bytearray(path.read_bytes())
    at, bit = dice.randrange(len(data)), dice.randrange(8)
    data[at] ^= 1 << bit
    path.write_bytes(data)
    return str(path.relative_to(place)), at, bit


@pytest.mark.slow
def test_no_flipped_bit_changes_a_run_or_stays_in_it(tmp_path, monkeypatch, ran):
    path, kept = experiment(tmp_path), ran
    before, shown = snapshot(kept), summarise_run(RunFolder(kept)).as_dict()
    answered = counted(dataset_run.answered, 11, KeyboardInterrupt())
    half = tmp_path / "half"
    assert interrupted(path, half, monkeypatch.context(), dataset_run, "answered", answered)
    dice = random.Random(5)
    for trial in range(draws(100, 44)):  # each file at least once
        folder = Path(shutil.copytree(kept if trial % 2 else half, tmp_path / "trial"))
        where = flipped(folder, dice, trial // 2)
        if trial % 2:
            with suppress(UserError):  # it is said
                assert summarise_run(RunFolder(folder)).as_dict() == shown, where
        run_file(path, folder)
        assert snapshot(folder) == before, where
        assert summarise_run(RunFolder(folder)).as_dict() == shown, where
        RunFolder(folder).read("timings.json")
        shutil.rmtree(folder)


def test_a_run_of_another_experiment_is_not_overwritten_even_if_an_older_version_made_it(tmp_path):
    run_file(experiment(tmp_path, name="one"), tmp_path / "run")
    path = tmp_path / "run" / "manifest.json"
    old = {**json.loads(path.read_text()), "format": 1}
    del old["checksum"]
    path.write_text(json.dumps(old))
    with pytest.raises(ParameterError, match="holds a run of experiment 'one', not of 'two'"):
        run_file(experiment(tmp_path, name="two"), tmp_path / "run")


def test_damaged_times_of_earlier_calls_are_forgotten(tmp_path, ran):
    path = experiment(tmp_path)
    for text in ("", "[1]", "{}", '{"parts":'):
        (ran / "timings.json").write_text(text)
        run_file(path, ran, fresh=True)
        parts = RunFolder(ran).read("timings.json")["parts"]
        assert parts["tiny"]["bm25"]["queries"] == 10


# ---------------------------------------------------------------------------------------------- interruptions


class _StopError(Exception):
    pass


def counted(function, stop_at, error, *, after=False):
    """The function, which raises at its call number `stop_at`, before or after doing its work."""
    calls = itertools.count(1)

    def call(*arguments, **named):
        now = next(calls) == stop_at
        if now and not after:
            raise error
        result = function(*arguments, **named)
        if now:
            raise error
        return result

    return call


def interrupted(path, folder, patch, *where):
    """Run until the injected error; True if it came."""
    with patch as patched:
        patched.setattr(*where)
        try:
            run_file(path, folder)
        except (KeyboardInterrupt, _StopError):
            return True
    return False


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("stop_at", [1, 2, 5, 6, 11, 17, 20])
def test_interrupted_in_any_slice_the_same_call_ends_the_same(stop_at, fresh, tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    answered = counted(dataset_run.answered, stop_at, KeyboardInterrupt(), after=bool(stop_at % 2))
    assert interrupted(path, tmp_path / "run", monkeypatch.context(), dataset_run, "answered", answered)
    assert not (tmp_path / "run" / "manifest.json").exists()
    asked = []
    again = dataset_run.answered
    monkeypatch.setattr(dataset_run, "answered", lambda s, b, **k: asked.append((s.name, b.ids)) or again(s, b, **k))
    run_file(path, tmp_path / "run", fresh=fresh)
    assert snapshot(tmp_path / "run") == whole
    assert len(asked) == 20 if fresh else len(asked) == 20 - (stop_at - 1)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("stop_at", [1, 2, 9, 25, 26, 28, 29, 30, 31, 32])
def test_interrupted_at_any_file_the_same_call_ends_the_same(stop_at, after, tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    replace = counted(Path.replace, stop_at, _StopError(), after=after)
    assert interrupted(path, tmp_path / "run", monkeypatch.context(), Path, "replace", replace)
    report = run_file(path, tmp_path / "run")
    assert report.embedded == 0
    assert snapshot(tmp_path / "run") == whole


@pytest.mark.parametrize("stop_at", [1, 2, 3, 8, 15])
@pytest.mark.parametrize("after", [False, True])
def test_interrupted_at_a_file_of_a_part_the_same_call_ends_the_same(stop_at, after, tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    writing = counted(results.writing, stop_at, _StopError(), after=after)
    assert interrupted(path, tmp_path / "run", monkeypatch.context(), results, "writing", writing)
    assert run_file(path, tmp_path / "run").embedded == 0
    assert snapshot(tmp_path / "run") == whole


@pytest.mark.parametrize("seed", range(3))
def test_interrupted_many_times_it_still_ends_the_same(seed, tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    chance = random.Random(seed)
    for _ in range(8):
        stop_at = chance.randint(1, 12)
        replace = counted(Path.replace, stop_at, _StopError(), after=chance.random() < 0.5)
        interrupted(path, tmp_path / "run", monkeypatch.context(), Path, "replace", replace)
    run_file(path, tmp_path / "run")
    assert snapshot(tmp_path / "run") == whole


def test_slices_of_an_older_experiment_are_not_taken(tmp_path, monkeypatch, data):
    old = experiment(tmp_path, data=data)
    answered = counted(dataset_run.answered, 12, KeyboardInterrupt())
    assert interrupted(old, tmp_path / "run", monkeypatch.context(), dataset_run, "answered", answered)
    lines = (data / "queries.jsonl").read_text("utf-8").splitlines()
    (data / "queries.jsonl").write_text("\n".join([*lines[3:], *lines[:3]]) + "\n", "utf-8")
    path = experiment(tmp_path, SELECTORS.replace("n: 2", "n: 1"), data=data)
    run_file(path, tmp_path / "run")
    run_file(path, tmp_path / "whole")
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")


def test_a_damaged_slice_is_made_again(tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    answered = counted(dataset_run.answered, 18, KeyboardInterrupt())
    assert interrupted(path, tmp_path / "run", monkeypatch.context(), dataset_run, "answered", answered)
    slices = sorted((tmp_path / "run" / "tiny").glob("*+partial/*.slice"))
    assert len(slices) == 17
    for place, one in enumerate(slices):
        one.write_bytes(b"" if place % 2 else one.read_bytes()[: 100 * place])
    run_file(path, tmp_path / "run")
    assert snapshot(tmp_path / "run") == whole


def test_an_interrupted_change_leaves_no_manifest_that_would_mix_two_runs(tmp_path, monkeypatch, ran):
    path = experiment(tmp_path, metrics="[completeness, tokens]")
    saved = counted(RunFolder.save, 3, KeyboardInterrupt())
    assert interrupted(path, ran, monkeypatch.context(), RunFolder, "save", saved)
    with pytest.raises(StorageError, match="expected the folder of a finished run"):
        RunFolder(ran).read("manifest.json")
    run_file(path, ran)
    run_file(path, tmp_path / "whole")
    assert snapshot(ran) == snapshot(tmp_path / "whole")


@pytest.mark.parametrize("fails_at", [1, 2, 7, 25, 26, 30, 31, 32])
def test_a_full_disk_is_one_error_and_a_later_run_goes_on(fails_at, tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", counted(Path.replace, fails_at, full))
        with pytest.raises(StorageError, match=r"cannot write .*: No space left on device"):
            run_file(path, tmp_path / "run")
    assert not list((tmp_path / "run").rglob("*.tmp"))
    run_file(path, tmp_path / "run")
    assert snapshot(tmp_path / "run") == whole


@pytest.mark.parametrize("fails_at", [1, 5])
def test_a_disk_that_is_full_in_the_midst_of_a_part_is_one_error(fails_at, tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patched:
        patched.setattr(results, "write_blocks", counted(results.write_blocks, fails_at, full, after=True))
        with pytest.raises(StorageError, match=r"cannot write .*answers\.zip.*: No space left on device"):
            run_file(path, tmp_path / "run")
    assert sorted(one.name for one in (tmp_path / "run").rglob("answers.zip")) == ["answers.zip"] * (fails_at - 1)
    run_file(path, tmp_path / "run")
    assert snapshot(tmp_path / "run") == whole


def test_a_selector_of_ours_that_fails_stops_the_run_and_leaves_no_empty_folder(tmp_path, monkeypatch):
    def embed(*_, **__):
        raise StorageError("the model is gone")

    monkeypatch.setattr(HashingEmbedder, "embed", embed)
    with pytest.raises(StorageError, match="the model is gone"):
        run_file(experiment(tmp_path), tmp_path / "runs" / "run")
    assert not (tmp_path / "runs" / "run").exists()


def _run_in_process(path, folder, barrier):
    dataset_run.SLICE = 3
    prepared = open_experiment(path)
    barrier.wait(60)
    run(prepared, folder)


def test_two_processes_that_run_into_one_folder_both_end_well(tmp_path, whole):
    path = experiment(tmp_path)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(3)
    processes = [context.Process(target=_run_in_process, args=(path, tmp_path / "run", barrier)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert snapshot(tmp_path / "run") == whole


# ---------------------------------------------------------------------------------------------- selectors outside


CALLABLE = """
from pathlib import Path

def chosen(request, items):
    with Path(__file__).with_suffix(".log").open("a") as log:
        log.write(request["id"] + "\\n")
    if request["id"] in ("q02", "q05"):
        raise ValueError("no answer today")
    tools = [item["_id"] for item in items if item["type"] == "tool"]
    return request.get("available", tools)[: int(request["id"][1:]) % 3]
"""


def own(tmp_path, *more):
    (tmp_path / "mine.py").write_text(CALLABLE, "utf-8")
    entries = ['{callable: "mine.py:chosen", name: mine}', *more]
    return experiment(tmp_path, "".join(f"\n  - {entry}" for entry in entries) + "\n")


def test_failures_of_an_outside_selector_are_errors_of_their_queries(tmp_path):
    report = run_file(own(tmp_path), tmp_path / "run")
    assert report.errors == {"tiny, mine": 2}
    rows = [json.loads(line) for line in (tmp_path / "run/tiny/mine/selections.jsonl").read_text().splitlines()]
    failed = {row["query"]: row["error"] for row in rows if "error" in row}
    assert list(failed) == ["q02", "q05"]
    assert all("no answer today" in text for text in failed.values())
    assert [item["origin"] for item in rows[1]["items"]] == ["session"]  # what the session holds is there all the same


def test_a_query_that_failed_counts_as_nothing_offered_but_not_as_abstention(tmp_path):
    metrics = "[completeness, recall, abstention, false_inclusion, false_items, items]"
    (tmp_path / "mine.py").write_text(CALLABLE, "utf-8")
    path = experiment(tmp_path, '\n  - {callable: "mine.py:chosen", name: mine}\n', metrics=metrics)
    run_file(path, tmp_path / "run")
    values = RunFolder(tmp_path / "run").load("tiny", "mine").metrics
    q02, q05, q10 = 1, 4, 9
    assert values["completeness"][q02] == 0.0
    assert values["recall"][q02] == 0.0
    assert np.isnan(values["items"][[q02, q05]]).all()  # to fail is not to be cheap
    for metric in ("abstention", "false_inclusion", "false_items"):
        assert np.isnan(values[metric][q05])
        assert not np.isnan(values[metric][q10])
    assert values["abstention"][q10] == 0.0  # 10 % 3 = 1 item was offered where nothing is needed


def test_a_selector_without_a_ranking_gets_no_ranking_metrics(tmp_path):
    run_file(own(tmp_path), tmp_path / "run")
    part = RunFolder(tmp_path / "run").load("tiny", "mine")
    assert not part.answers.ranked
    assert not part.answers.scored
    assert "nDCG@10" not in part.metrics
    assert set(part.unavailable) == {"Comp@1", "Comp@5", "Comp@20", "R@5", "nDCG@10", "RR"}
    assert "completeness" in part.metrics


def test_an_outside_selector_is_asked_once_for_itself_and_for_who_takes_its_sizes(tmp_path):
    path = own(tmp_path, "{selector: random, like: mine}")
    run_file(path, tmp_path / "run")
    assert sorted((tmp_path / "mine.log").read_text().split()) == [f"q{n:02}" for n in range(1, 11)]
    sizes = [
        {query: len([i for i in items if i.startswith("tool") or name == "random"]) for query, items in
         offered(tmp_path / "run", name).items()}
        for name in ("mine", "random")
    ]  # fmt: skip
    session = {
        q: len([i for i in items if i.startswith("rule")]) for q, items in offered(tmp_path / "run", "mine").items()
    }
    assert sizes[1] == {query: size + session[query] for query, size in sizes[0].items()}
    errors = RunFolder(tmp_path / "run").load("tiny", "random").answers.errors
    assert list(errors) == ["q02", "q05"]


@pytest.mark.parametrize("stop_at", [2, 5, 7])
def test_an_outside_selector_is_not_asked_again_for_finished_slices(stop_at, tmp_path, monkeypatch):
    path = own(tmp_path, "{selector: random, like: mine}")
    answered = counted(dataset_run.answered, stop_at, KeyboardInterrupt())
    assert interrupted(path, tmp_path / "run", monkeypatch.context(), dataset_run, "answered", answered)
    run_file(path, tmp_path / "run")
    assert sorted((tmp_path / "mine.log").read_text().split()) == [f"q{n:02}" for n in range(1, 11)]
    (tmp_path / "mine.log").unlink()
    run_file(path, tmp_path / "whole")
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")


def test_only_failed_queries_are_asked_again(tmp_path):
    path = own(tmp_path, "{selector: random, like: mine}")
    run_file(path, tmp_path / "run")
    (tmp_path / "mine.log").unlink()
    assert run_file(path, tmp_path / "run").errors == {"tiny, mine": 2, "tiny, random": 2}
    assert (tmp_path / "mine.log").read_text().split() == ["q02", "q05"]
    known = offered(tmp_path / "run", "mine")
    answers = [{"query": query, "items": []} for query in known if query not in ("q02", "q05")]
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
    path = experiment(tmp_path, "\n  - {answers: answers.jsonl, name: theirs}\n")
    assert run_file(path, tmp_path / "by file").errors == {"tiny, theirs": 2}
    folder = RunFolder(tmp_path / "by file")
    assert list(folder.load("tiny", "theirs").answers.queries) == list(known)


def test_what_was_mended_equals_what_never_failed(tmp_path):
    (tmp_path / "mine.py").write_text(
        CALLABLE.replace('if request["id"] in ("q02", "q05"):', 'if Path(__file__).with_name("down").exists():')
    )
    path = experiment(tmp_path, '\n  - {callable: "mine.py:chosen", name: mine}\n  - {selector: random, like: mine}\n')
    (tmp_path / "down").write_text("")
    assert run_file(path, tmp_path / "run").errors == {"tiny, mine": 10, "tiny, random": 10}
    (tmp_path / "down").unlink()
    assert run_file(path, tmp_path / "run").errors == {}
    run_file(path, tmp_path / "whole")
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")


def test_other_metrics_and_token_counts_ask_no_selector_again(tmp_path):
    (tmp_path / "mine.py").write_text(CALLABLE.replace('("q02", "q05")', "()"))
    selectors = '\n  - {callable: "mine.py:chosen", name: mine}\n'
    run_file(experiment(tmp_path, selectors), tmp_path / "run")
    report = run_file(experiment(tmp_path, selectors, metrics="[completeness, items]"), tmp_path / "run")
    assert (report.made, report.reused) == (1, 0)
    assert list(RunFolder(tmp_path / "run").load("tiny", "mine").metrics) == ["completeness", "items"]
    run_file(experiment(tmp_path, selectors, tokens="o200k"), tmp_path / "run")
    assert len((tmp_path / "mine.log").read_text().split()) == 10


def test_sizes_are_those_of_the_part_that_is_there_also_of_a_noisy_selector(tmp_path):
    noisy = CALLABLE.replace('int(request["id"][1:]) % 3', 'len(Path(__file__).with_suffix(".log").read_text()) % 4')
    (tmp_path / "mine.py").write_text(noisy.replace('("q02", "q05")', "()"))
    own_entry = '\n  - {callable: "mine.py:chosen", name: mine}'
    run_file(experiment(tmp_path, f"{own_entry}\n"), tmp_path / "run")
    run_file(experiment(tmp_path, f"{own_entry}\n  - {{selector: random, like: mine}}\n"), tmp_path / "run")
    assert len((tmp_path / "mine.log").read_text().split()) == 10
    sizes = [
        offered_sizes(RunFolder(tmp_path / "run").load("tiny", name).answers.joined().candidates)
        for name in ("mine", "random")
    ]
    assert sizes[0].tolist() == sizes[1].tolist()


def test_missing_token_counts_are_found_before_anything_is_asked(tmp_path):
    (tmp_path / "mine.py").write_text(CALLABLE)
    (tmp_path / "counts.json").write_text('{"rule:unknown": 3}')
    path = experiment(
        tmp_path, '\n  - {callable: "mine.py:chosen", name: mine}\n', tokens=f"file:{tmp_path / 'counts.json'}"
    )
    with pytest.raises(InputError):
        open_experiment(path)
    assert not (tmp_path / "mine.log").exists()


def test_a_name_too_long_for_a_folder_is_a_fault(tmp_path):
    with pytest.raises(InputError, match="is too long for a folder"):
        open_experiment(experiment(tmp_path, f"\n  - {{selector: bm25, name: {'x' * 250}}}\n"))


def test_a_dataset_without_labels_is_a_fault(tmp_path, data):
    for path in (data / "qrels").iterdir():
        path.write_text(path.read_text().splitlines()[0] + "\n")
    rows = [json.loads(line) for line in (data / "queries.jsonl").read_text().splitlines()]
    for row in rows:
        row.pop("needs", None)
    (data / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    card = (data / "dataset.yaml").read_text()
    (data / "dataset.yaml").write_text(card[: card.index("counts:")] + card[card.index("scopes:") :])
    with pytest.raises(InputError, match="labelled or needs nothing; label some with `ctxbench data label "):
        open_experiment(experiment(tmp_path, data=data))


def test_a_changed_source_file_makes_the_outside_selector_again(tmp_path):
    path = own(tmp_path, "{selector: bm25}")
    run_file(path, tmp_path / "run")
    (tmp_path / "mine.py").write_text(CALLABLE.replace("% 3", "% 2"), "utf-8")
    assert made_again(path, tmp_path / "run") == ["mine"]


def test_outside_selectors_are_closed_once_all_datasets_are_done(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(CALLABLE, "utf-8")
    other = Path(shutil.copytree(TINY, tmp_path / "other"))
    card = (other / "dataset.yaml").read_text("utf-8").replace("name: tiny", "name: other")
    (other / "dataset.yaml").write_text(card, "utf-8")
    path = experiment(tmp_path, '\n  - {callable: "mine.py:chosen", name: mine}\n', datasets=f"[{TINY}, {other}]")
    events = []
    prepared = open_experiment(path)
    own_selector = prepared.experiment.make_selectors(prepared.resources(), {})["mine"]
    select = type(own_selector).select
    monkeypatch.setattr(type(own_selector), "select", lambda s, b: events.append("ask") or select(s, b))
    monkeypatch.setattr(type(own_selector), "close", lambda _: events.append("close"))
    run(prepared, tmp_path / "run")
    assert events[:8] == ["ask"] * 8
    assert set(events[8:]) == {"close"}


ANSWERS = [
    {
        "query": "q01",
        "items": [{"id": "rule:code%20review", "score": 2}, {"id": "tool:forge:get_pull_request", "score": 1}],
    },
    {"query": "nobody", "items": []},
    {"query": "q02", "items": [{"id": "no such item"}]},
    {"query": "q10", "items": []},
]


def test_a_file_of_answers_is_noted_for_what_nobody_asked(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in ANSWERS), "utf-8")
    report = run_file(experiment(tmp_path, "\n  - {answers: a.jsonl, name: mine}\n"), tmp_path / "run")
    part = RunFolder(tmp_path / "run").load("tiny", "mine")
    assert part.notes["answers_not_asked_for"] == 1
    assert part.notes["first_not_asked_for"] == ["nobody"]
    assert report.errors == {"tiny, mine": 8}
    assert "no such item" in part.answers.errors["q02"]
    assert "holds no answer for it" in part.answers.errors["q03"]
    assert part.metrics["completeness"][0] == 1.0
    assert part.metrics["abstention"][9] == 1.0


def test_a_file_that_answers_all_is_noted_for_nothing(tmp_path):
    rows = [{"query": f"q{n:02}", "items": [], "ranking": []} for n in range(1, 11)]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    run_file(experiment(tmp_path, "\n  - {answers: a.jsonl, name: mine}\n"), tmp_path / "run")
    part = RunFolder(tmp_path / "run").load("tiny", "mine")
    assert part.notes == {}
    assert part.answers.ranked
    assert part.metrics["nDCG@10"][0] == 0.0


# ---------------------------------------------------------------------------------------------- faults


def test_everything_wrong_is_reported_at_once_and_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *_, **__: pytest.fail("the embedder was asked"))
    path = tmp_path / "e.yaml"
    path.write_text(
        "datasets: [bfcl-smple, /none]\n"
        "metrics:\n"
        "  - completenes\n"
        "  - R@0\n"
        "  - tokens\n"
        "selectors:\n"
        "  - {selector: semantik}\n"
        "embedder: minilmm\n"
        "tokens: o201k\n"
        "seed: -1\n",
        encoding="utf-8",
    )
    with pytest.raises(InputError) as caught:
        open_experiment(path)
    found = [(fault.line, fault.message) for fault in caught.value.faults]
    assert [line for line, _ in found] == [1, 1, 3, 4, 7, 8, 9, 10]
    for (_, message), part in zip(
        found,
        ["did you mean 'bfcl-simple'", "/none", "did you mean 'completeness'", "must be 1 to 100, got 0",
         "did you mean 'semantic'", "did you mean 'minilm'", "did you mean 'o200k'", "seed must be"],
        strict=True,
    ):  # fmt: skip
        assert part in message
    assert caught.value.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["e.yaml"]


def test_faults_of_a_dataset_come_with_those_of_the_experiment(tmp_path, data):
    lines = (data / "queries.jsonl").read_text("utf-8").splitlines()
    (data / "queries.jsonl").write_text("\n".join([*lines, lines[0]]), "utf-8")
    path = experiment(tmp_path, data=data, seed="x")
    with pytest.raises(InputError) as caught:
        open_experiment(path)
    own, other = caught.value.faults[0], caught.value.faults[1:]
    assert (own.path, own.line) == (path, 4)
    assert any(fault.path == data / "queries.jsonl" and fault.line == 11 for fault in other)


def test_an_experiment_can_be_prepared_apart_from_its_file(tmp_path):
    experiment_, faults = examine(experiment(tmp_path))
    assert faults == []
    assert [str(metric) for metric in prepare(experiment_).metrics][:2] == ["completeness", "tokens"]
    assert list(prepare(experiment_).datasets) == ["tiny"]


def command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "ctxbench", "run", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr.strip().split("\n")


def test_on_the_command_line_a_fault_is_exit_2_and_makes_no_folder(tmp_path):
    path = experiment(tmp_path, "\n  - semantik\n", seed="x")
    code, said = command(path, "--out", tmp_path / "run")
    assert code == 2
    assert said[0] == "error: 2 faults"
    assert [f"{path}, line {line})" in text for line, text in zip((4, 6), said[1:], strict=True)] == [True, True]
    assert not (tmp_path / "run").exists()


def test_on_the_command_line_a_run_folder_that_cannot_be_made_is_exit_2(tmp_path):
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    code, said = command(experiment(tmp_path), "--out", tmp_path / "taken" / "run")
    assert code == 2
    assert len(said) == 1
    assert said[0] == f"error: {tmp_path / 'taken'} is a file; a run needs a folder, name another one"
