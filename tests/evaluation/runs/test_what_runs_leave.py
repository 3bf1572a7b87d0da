"""Runs: what they leave, whatever the slices and the order."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ctxbench.datasets.files import read_dataset
from ctxbench.datasets.layout import write_weights
from ctxbench.evaluation import runner
from ctxbench.evaluation.inputs import open_experiment
from ctxbench.evaluation.run_folder import RunFolder, summarise_run
from ctxbench.io.errors import InputError, SelectorError
from ctxbench.model.candidates import Origin
from ctxbench.pipelines.strategies.retrieve import Everything
from ctxbench.report.run_tables import comparison_table
from ctxbench.selectors.selector import offered_sizes
from tests.evaluation.runs.run_files import (
    SELECTORS,
    TINY,
    counted,
    experiment,
    interrupted,
    offered,
    run_file,
    snapshot,
)


def test_a_run_leaves_a_part_for_each_selector_and_a_manifest(tmp_path):
    told = []
    report = run_file(experiment(tmp_path), tmp_path / "run", progress=lambda *what: told.append(what))
    assert (report.folder, report.made, report.reused, report.errors) == (tmp_path / "run", 5, 0, {})
    files = ["answers.zip", "metrics.jsonl", "part.json", "selections.jsonl"]
    names = ["bm25", "everything", "random", "semantic~conservative", "semantic~normal"]
    assert list(snapshot(tmp_path / "run")) == ["manifest.json", *(f"tiny/{n}/{f}" for n in names for f in files)]
    calls = [call for call in told if call[0].startswith("tiny, ")]
    assert calls[:3] == [
        ("tiny, semantic/normal", 0, 50),
        ("tiny, semantic/normal", 3, 50),
        ("tiny, semantic/conservative", 3, 50),
    ]
    assert [done for _, done, _ in calls] == sorted(done for _, done, _ in calls)
    assert calls[-1][1:] == (50, 50)
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
    monkeypatch.setattr(runner, "SLICE", 64)
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
    monkeypatch.setattr(runner, "SLICE", 4)
    run_file(experiment(tmp_path), tmp_path / "plain")
    items = len(open_experiment(experiment(tmp_path)).datasets["tiny"].catalog)
    monkeypatch.setattr(runner, "ROWS", 2 * items)
    again = runner.answered
    asked = []
    monkeypatch.setattr(runner, "answered", lambda s, b, **k: asked.append((s.name, len(b))) or again(s, b, **k))
    stopped = counted(runner.answered, 9, KeyboardInterrupt(), after=True)
    assert interrupted(experiment(tmp_path), tmp_path / "run", monkeypatch.context(), runner, "answered", stopped)
    run_file(experiment(tmp_path), tmp_path / "run")
    assert [size for name, size in asked if name == "everything"] == [2] * 6, "one was stopped before it was kept"
    assert [size for name, size in asked if name == "bm25"] == [4, 4, 2]
    plain, run_in_parts = snapshot(tmp_path / "plain"), snapshot(tmp_path / "run")
    differ = [name for name in plain if plain[name] != run_in_parts[name]]
    assert differ == ["tiny/everything/answers.zip", "tiny/everything/part.json"]


def test_one_whose_sizes_are_taken_is_asked_once_however_few_queries_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "SLICE", 4)
    monkeypatch.setattr(runner, "ROWS", 50)
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
    answered = counted(runner.answered, 3, KeyboardInterrupt())
    assert interrupted(path, tmp_path / "run", monkeypatch.context(), runner, "answered", answered)
    assert run_file(path, tmp_path / "run").errors == {}
    assert (tmp_path / "log").read_text() == "asked" * 10
    run_file(path, tmp_path / "whole")
    one, other = (RunFolder(tmp_path / run).load("tiny", "mine") for run in ("run", "whole"))
    assert one.notes == other.notes
    assert one.answers.joined().to_bytes(timed=False) == other.answers.joined().to_bytes(timed=False)


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
    with pytest.raises(InputError, match=r"two datasets are called 'tiny'; rename one of them \(.*e\.yaml, line 3\)"):
        open_experiment(path)


def unlabel(data):
    """Take the labels of two queries away."""
    text = (data / "queries.jsonl").read_text("utf-8").replace(',"needs":"nothing"', "")
    (data / "queries.jsonl").write_text(text, "utf-8")
    card = (data / "dataset.yaml").read_text("utf-8")
    (data / "dataset.yaml").write_text(card.replace("needs_nothing: 2", "needs_nothing: 0")
                                       .replace("unlabelled: 0", "unlabelled: 2"), "utf-8")  # fmt: skip


def test_unlabelled_queries_are_left_out_but_for_those_with_forbidden_items(tmp_path, data):
    unlabel(data)
    run_file(experiment(tmp_path, data=data), tmp_path / "run")
    assert list(offered(tmp_path / "run", "bm25")) == [f"q0{n}" for n in range(1, 10)]
    assert summarise_run(RunFolder(tmp_path / "run")).datasets[0].only_negatives == 1


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
