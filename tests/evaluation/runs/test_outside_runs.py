"""Runs of selectors outside: what fails, and what is asked again."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from ctxbench.evaluation import runner
from ctxbench.evaluation.inputs import open_experiment
from ctxbench.evaluation.run_folder import RunFolder
from ctxbench.evaluation.runner import run
from ctxbench.io.errors import InputError
from ctxbench.selectors.selector import offered_sizes
from tests.evaluation.runs.run_files import (
    TINY,
    counted,
    experiment,
    interrupted,
    made_again,
    offered,
    run_file,
    snapshot,
)
from tests.selectors.test_external_http import Endpoint

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
    answered = counted(runner.answered, stop_at, KeyboardInterrupt())
    assert interrupted(path, tmp_path / "run", monkeypatch.context(), runner, "answered", answered)
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


def test_a_fresh_run_asks_an_endpoint_anew_whatever_its_build_id(tmp_path):
    endpoint = Endpoint()
    endpoint.get = lambda: (200, {"build": "v1"})
    rows = [{"query": f"q{n:02d}", "items": []} for n in range(1, 11)]
    endpoint.post = lambda body: (
        200,
        {"answers": [row for row in rows if row["query"] == body["requests"][0]["query"]]},
    )
    try:
        path = experiment(tmp_path, f"\n  - {{url: '{endpoint.url}', name: mine}}\n")
        n_posts = []
        for folder, fresh in (("run", False), ("run", False), ("run", True), ("other", False)):
            run_file(path, tmp_path / folder, fresh=fresh)
            n_posts.append(len(endpoint.posts))
    finally:
        endpoint.stop()
    assert n_posts == [10, 10, 20, 20]  # the last has the answers of the third


def test_other_metrics_and_token_counts_ask_no_selector_again(tmp_path):
    (tmp_path / "mine.py").write_text(CALLABLE.replace('("q02", "q05")', "()"))
    selectors = '\n  - {callable: "mine.py:chosen", name: mine}\n'
    run_file(experiment(tmp_path, selectors), tmp_path / "run")
    report = run_file(experiment(tmp_path, selectors, metrics="[completeness, items]"), tmp_path / "run")
    assert (report.made, report.reused) == (1, 0)
    assert list(RunFolder(tmp_path / "run").load("tiny", "mine").metrics) == [
        "completeness",
        "items",
        "forbidden_offered",
    ]
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
    assert "has no answer to this query" in part.answers.errors["q03"]
    assert part.metrics["completeness"][0] == 1.0
    assert part.metrics["abstention"][9] == 1.0


def test_answers_to_unlabelled_queries_and_to_other_splits_are_not_absent(tmp_path):
    folder = Path(shutil.copytree(TINY, tmp_path / "data"))
    card, queries = folder / "dataset.yaml", folder / "queries.jsonl"
    card.write_text(re.sub(r"(?m)^counts:\n( .*\n)+", "", card.read_text("utf-8")), "utf-8")
    queries.write_text(
        queries.read_text("utf-8") + '{"_id": "q11", "text": "who are you?", "split": "test"}\n', "utf-8"
    )
    splits = {row["_id"]: row["split"] for row in map(json.loads, queries.read_text("utf-8").splitlines())}
    answered = [*(query for query in splits if splits[query] == "test"), "nobody", "q01", "q02"]
    assert splits["q01"] == splits["q02"] == "tuning"
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"query": q, "items": []}) for q in answered), "utf-8")
    path = experiment(tmp_path, "\n  - {answers: a.jsonl, name: mine}\n", datasets=f"[{folder}]", split="test")
    run_file(path, tmp_path / "run")
    notes = RunFolder(tmp_path / "run").load("tiny", "mine").notes
    assert {name: value for name, value in notes.items() if name.startswith(("answers", "first"))} == {
        "answers_not_asked_for": 1,
        "first_not_asked_for": ["nobody"],
        "answers_unlabelled": 1,
        "first_unlabelled": ["q11"],
        "answers_not_in_sample": 2,
        "first_not_in_sample": ["q01", "q02"],
    }


def test_a_file_that_answers_all_is_noted_for_nothing(tmp_path):
    rows = [{"query": f"q{n:02}", "items": [], "ranking": []} for n in range(1, 11)]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    run_file(experiment(tmp_path, "\n  - {answers: a.jsonl, name: mine}\n"), tmp_path / "run")
    part = RunFolder(tmp_path / "run").load("tiny", "mine")
    assert part.notes == {}
    assert part.answers.ranked
    assert part.metrics["nDCG@10"][0] == 0.0
