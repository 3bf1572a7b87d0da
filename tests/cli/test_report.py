"""`ctxbench report`: a finished run again."""

from __future__ import annotations

import re
import shutil

import pytest

from ctxbench.evaluation.run_folder import FORMAT


@pytest.fixture
def ran(cli, experiment, place):
    return cli("run", experiment())


@pytest.mark.essential
def test_a_run_is_shown_again_from_any_folder(cli, ran, place, tmp_path, monkeypatch):
    page = place / "runs" / "small" / "report.html"
    written = page.read_bytes()
    page.unlink()
    monkeypatch.chdir(tmp_path / "tmp")
    done = cli("report", place / "runs" / "small")
    assert (done.code, done.out) == (0, ran.out)
    assert done.err == f"report: {page} (open it in a browser)\n"
    assert page.read_bytes() == written
    assert cli("report", place / "runs" / "small", "--json").json["experiment"]["name"] == "small"


def test_a_dataset_beside_the_experiment_is_found_again(cli, place, tiny, tmp_path, monkeypatch):
    shutil.copytree(tiny, place / "data")
    (place / "e.yaml").write_text("datasets: [data]\nselectors: [everything]\nembedder: hashing\n")
    ran = cli("run", "e.yaml", "--out", tmp_path / "elsewhere")
    assert ran.code == 0, ran.err
    monkeypatch.chdir(tmp_path)
    assert cli("report", "elsewhere").out == ran.out
    (place / "data" / "corpus.jsonl").write_text(
        (tiny / "corpus.jsonl").read_text("utf-8").replace("Answer in English", "Answer in Dutch")
    )
    done = cli("report", "elsewhere")
    assert (done.code, done.out) == (2, "")
    assert "dataset tiny has changed since elsewhere was made" in done.err
    assert "run the experiment again" in done.err
    shutil.rmtree(place / "data")
    assert "data" in (done := cli("report", "elsewhere")).err
    assert done.code == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("manifest.json", None, "expected the folder of a finished run"),
        ("manifest.json", "{}", "was changed or is damaged; run the experiment again"),
        ("manifest.json", "[]", "expected a JSON object"),
        (
            "manifest.json",
            '{"datasets": ',
            "malformed JSON: it ends too early, as if cut off (Expecting value) (runs/small/manifest.json, line 1, ",
        ),
        ("tiny/bm25/part.json", None, "tiny/bm25/part.json"),
        ("tiny/bm25/part.json", "{}", "is damaged"),
        ("tiny/bm25/metrics.jsonl", "", "was changed or is damaged"),
        ("tiny/bm25/answers.zip", "", "was changed or is damaged"),
    ],
)
def test_what_is_damaged_is_named(cli, ran, place, name, content, message):
    path = place / "runs" / "small" / name
    path.unlink() if content is None else path.write_text(content)
    done = cli("report", "runs/small")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert message in done.err


@pytest.mark.parametrize("name", ["manifest.json", "timings.json", "tiny/bm25/part.json"])
def test_a_number_that_was_edited_is_an_error(cli, ran, place, name):
    path = place / "runs" / "small" / name
    before = path.read_text()
    path.write_text(re.sub(r'"(queries|errors)": \d+', r'"\1": 9', before, count=1))
    assert path.read_text() != before
    done = cli("report", "runs/small")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: runs/small/{name} was changed or is damaged; run the experiment again\n"


def test_a_run_of_another_format_is_not_guessed_at(cli, ran, place):
    path = place / "runs" / "small" / "manifest.json"
    path.write_text(path.read_text().replace(f'"format": {FORMAT}', '"format": 99'))
    done = cli("report", "runs/small")
    assert done.err == f"error: runs/small/manifest.json has format 99, this version reads {FORMAT}; run again\n"


def test_a_run_as_markdown_is_the_same_from_run_and_report(cli, experiment, place):
    path = experiment()
    assert cli("run", path, "--out", place / "run", "--markdown", place / "one.md").code == 0
    assert cli("report", place / "run", "--markdown", place / "two.md").code == 0
    assert (place / "one.md").read_bytes() == (place / "two.md").read_bytes()
    assert (place / "one.md").read_text("utf-8").startswith("# small\n")


def test_a_run_of_one_split_is_shown_again(cli, experiment, place):
    path = experiment()
    path.write_text(path.read_text("utf-8") + "\nsplit: test\n", "utf-8")
    assert cli("run", path, "--out", place / "run").code == 0
    shown = cli("report", place / "run")
    assert shown.code == 0
    assert " queries of split test, " in shown.out


def test_a_run_of_a_sample_is_shown_again(cli, experiment, place):
    path = experiment()
    path.write_text(path.read_text("utf-8") + "\nsample: 4\nseed: 2\n", "utf-8")
    assert cli("run", path, "--out", place / "run").code == 0
    shown = cli("report", place / "run", "--markdown", place / "run.md")
    assert shown.code == 0
    assert ": a sample of 4 of 10 queries, " in shown.out
    assert "* Sample: at most 4 queries a dataset, groups whole, drawn by hash with seed 2;" in (
        place / "run.md"
    ).read_text("utf-8")
