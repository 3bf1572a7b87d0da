"""Outputs of commands: none takes the place of what is read, or of what others wrote; all are looked at first."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml

POLICY = {
    "name": "policy",
    "selectors": [{"selector": "semantic", "search": {"contextTopN": [0, 1]}}],
    "policies": {"some": {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": 0.5}]}},
    "embedder": "hashing",
    "tokens": "chars/4",
}


@pytest.fixture
def project(place, tiny):
    """A folder with a dataset, an experiment, answers, a ranking, policies and a finished run's folder."""
    shutil.copytree(tiny, place / "ds")
    queries = [json.loads(line)["_id"] for line in (place / "ds/queries.jsonl").read_text().splitlines()]
    (place / "exp.yaml").write_text("datasets: [ds]\nembedder: hashing\nselectors: [bm25]\n")
    (place / "answers.jsonl").write_text("".join(json.dumps({"query": one, "items": []}) + "\n" for one in queries))
    (place / "x.run").write_text(f"{queries[0]} Q0 rule:no%20secrets 1 1.0 x\n")
    (place / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    (place / "docs").mkdir()
    return place


SCORE = ("score", "answers.jsonl", "-d", "ds")
POOL = ("data", "pool", "ds", "--selectors", "bm25")
RANKING = ("data", "import", "run", "x.run", "-d", "ds")
OVER = "would overwrite"
FOREIGN = "is there and is no earlier output of this command; name a new file"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "exp.yaml", "--csv", "exp.yaml"), f"--csv exp.yaml {OVER} the experiment; name another file"),
        (("run", "exp.yaml", "--csv", "ds/queries.jsonl"), f"--csv ds/queries.jsonl {OVER} the files of ds"),
        (("run", "exp.yaml", "--markdown", "exp.yaml"), f"--markdown exp.yaml {OVER} the experiment"),
        (("run", "exp.yaml", "--csv", "x", "--markdown", "x"), "--csv and --markdown name one file, x; name two"),
        (("run", "exp.yaml", "--csv", "docs"), "docs is a folder, and --csv names a file"),
        (("run", "exp.yaml", "--out", "x.run"), "x.run is a file; a run needs a folder"),
        ((*SCORE, "--csv", "answers.jsonl"), f"--csv answers.jsonl {OVER} the answers"),
        ((*SCORE, "--out", "x.run/y"), "x.run is a file; a run needs a folder"),
        (("tune", "ds", "-p", "policy.yaml", "--markdown", "policy.yaml"), f"{OVER} the policies"),
        ((*POOL, "--out", "answers.jsonl"), f"--out answers.jsonl {FOREIGN}"),
        (("data", "export", "ds", "--requests", "exp.yaml"), f"--requests exp.yaml {FOREIGN}"),
        ((*RANKING, "--out", "exp.yaml"), f"--out exp.yaml {FOREIGN}"),
        (("run", "exp.yaml", "--csv", "x.run"), f"--csv x.run {FOREIGN}"),
        ((*POOL, "--out", "ds/queries.jsonl"), f"{OVER} the files of ds"),
        (("data", "export", "ds", "--requests", "ds/queries.jsonl"), f"--requests ds/queries.jsonl {OVER}"),
        ((*RANKING, "--out", "x.run"), f"--out x.run {OVER} the ranking"),
        ((*RANKING, "--out", "ds/dataset.yaml"), f"{OVER} the files of ds"),
        (("graph", "ds", "--out", "ds/queries.jsonl"), f"{OVER} the files of ds"),
        (("graph", "ds", "--out", "x.run"), "x.run is there and is no graph that can be read; name another --out"),
        (("calibrate", "probability", "ds", "--out", "answers.jsonl"), "is no file of fits that can be read"),
        (("data", "review", "ds", "--patch", "ds/queries.jsonl"), f"--patch ds/queries.jsonl {OVER} the files of ds"),
        (("check", "exp.yaml", "--markdown", "exp.yaml"), f"--markdown exp.yaml {OVER} what is checked"),
        (("report", "--history", "exp.yaml", "--csv", "exp.yaml"), f"--csv exp.yaml {OVER} what is shown"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_no_output_takes_the_place_of_what_is_read(project, cli, snapshot, words, said):
    before = snapshot()
    done = cli(*words)
    assert (done.code, done.out, snapshot()) == (2, "", before)
    assert done.err.startswith("error: ")
    assert said in done.err


def test_a_report_does_not_take_the_place_of_the_dataset_that_was_run(project, cli):
    assert cli("run", "exp.yaml").code == 0
    done = cli("report", "runs/exp", "--csv", "ds/queries.jsonl")
    assert "--csv ds/queries.jsonl would overwrite the files of" in done.err
    assert done.code == 2


def test_earlier_outputs_are_replaced(project, cli):
    for _ in range(2):
        assert cli("run", "exp.yaml", "--csv", "figures.csv", "--markdown", "r.md").code == 0
        assert cli("report", "runs/exp", "--csv", "figures.csv", "--markdown", "runs/exp/r.md").code == 0
        assert cli("data", "export", "ds", "--requests", "requests.jsonl").code == 0
        assert cli(*POOL, "--embedder", "hashing", "--out", "pairs.jsonl").code == 0
        assert cli(*RANKING, "--out", "ranked.jsonl").code == 0
        assert cli("tune", "ds", "-p", "policy.yaml", "--out", "tuned", "--markdown", "t.md").code == 0


@pytest.mark.parametrize("name", ["desk/answers/notes.txt", "report.html", "timings.json", "manifest.json"])
@pytest.mark.parametrize("words", [("run", "exp.yaml"), SCORE], ids=lambda words: words[0])
def test_a_folder_of_something_else_is_no_run(project, cli, snapshot, words, name):
    (project / "o" / name).parent.mkdir(parents=True)
    (project / "o" / name).write_text("mine")
    before = snapshot()
    done = cli(*words, "--out", "o")
    assert (done.code, done.err) == (2, "error: o is there and is no run; name a new folder\n")
    assert snapshot() == before


def test_what_a_killed_run_left_is_gone_on_with(project, cli):
    (project / "o/ds/.bm25.1-0123abcd.tmp").mkdir(parents=True)
    (project / "o/ds/.bm25.1-0123abcd.tmp/answers.zip").write_text("half")
    (project / "o/.lock").write_text("")
    assert cli("run", "exp.yaml", "--out", "o").code == 0
    (project / "o/manifest.json").unlink()
    assert cli("run", "exp.yaml", "--out", "o").code == 0


@pytest.mark.parametrize("name", ["report.md", "notes.txt", "presets/ds.yaml"])
def test_a_folder_of_something_else_is_no_tuning(project, cli, snapshot, name):
    (project / "o" / name).parent.mkdir(parents=True)
    (project / "o" / name).write_text("mine")
    before = snapshot()
    done = cli("tune", "ds", "-p", "policy.yaml", "--out", "o")
    assert (done.code, done.err) == (2, "error: o is there and is no tuning; name a new folder with --out\n")
    assert snapshot() == before
