"""`ctxbench data from-git`: what it writes and says, and what it refuses."""

from __future__ import annotations

import json

import pytest

from tests.checkout import Checkout


@pytest.fixture
def checkout(tmp_path):
    """A repository with three requests and a release."""
    found = Checkout(tmp_path / "my repo.git")
    for day, message in enumerate(("Begin", "Set it to two", "v2", "Set it to four (#4)", "Set it to five"), 1):
        (found.root / "a.py").write_text(f"A = {day}\n")
        found.commit(message, day=day)
    return found


def test_it_writes_a_valid_dataset_and_says_what_is_in_it(cli, checkout, tmp_path):
    done = cli("data", "from-git", checkout.root, "--out", tmp_path / "made")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        f"{tmp_path}/made: 3 queries (tuning 2, test 1) of 4 commits\n"
        "7 items: 3 file, 4 message; 3 required, 0 helpful\n"
        "left out: 1 version bumps and releases\n"
        f"next: `ctxbench data show {tmp_path}/made`\n"
        f"then `ctxbench run EXPERIMENT.yaml`, with `datasets: [{tmp_path}/made]` and `selectors: [bm25, codebase]` in "
        "that file\n"
    )
    assert cli("data", "validate", tmp_path / "made").code == 0
    again = cli("data", "from-git", checkout.root, "--out", tmp_path / "made")
    assert (again.code, again.out) == (0, done.out)


def test_files_that_no_item_can_hold_are_told(cli, checkout, tmp_path):
    (checkout.root / "b.bin").write_bytes(b"\0")
    (checkout.root / "a.py").write_text("A = 6\n")
    checkout.commit("Set it to six", day=6)
    (checkout.root / "a.py").write_text("A = 7\n")
    checkout.commit("Set it to seven", day=7)
    done = cli("data", "from-git", checkout.root, "--out", tmp_path / "made")
    assert "\nversions of files left out: 1 binary\n" in done.out


def test_the_folder_is_named_after_the_repository(cli, checkout, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cli("data", "from-git", "my repo.git", "--json")
    counts = json.loads(done.out)
    assert (counts["dataset"], counts["name"], counts["commits"]) == ("datasets/my-repo", "my-repo", 4)
    assert (counts["out"], counts["counts"]["queries"]) == ({"version bumps and releases": 1}, 3)
    assert (tmp_path / "datasets" / "my-repo" / "dataset.yaml").is_file()


def test_options_say_how_much_of_what(cli, checkout, tmp_path):
    words = ["--queries", 1, "--commits", 3, "--head", "HEAD~1", "--split", 1, "--keep-issues"]
    assert cli("data", "from-git", checkout.root, "--out", tmp_path / "made", *words).code == 0
    (row,) = map(json.loads, (tmp_path / "made" / "queries.jsonl").read_text().splitlines())
    assert (row["text"], row["split"], row["time"]) == ("Set it to four (#4)", "test", "2026-01-04T09:59:59+00:00")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--head", "nowhere"], "no commit 'nowhere'"),
        (["--head", "--upload-pack=x"], "no commit '--upload-pack=x'"),
        (["--view", "lines"], "view must be one of files, definitions"),
        (["--split", "2"], "split must be 0 to 1, got 2"),
        (["--commits", "1", "--head", "HEAD~2"], "none of the 1 newest commits"),
    ],
)
def test_what_cannot_be_is_refused(cli, checkout, tmp_path, words, said):
    done = cli("data", "from-git", checkout.root, "--out", tmp_path / "made", *words)
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "made").exists()


def test_no_repository_and_another_dataset_are_refused(cli, checkout, tmp_path):
    (tmp_path / "plain").mkdir()
    done = cli("data", "from-git", tmp_path / "plain", "--out", tmp_path / "made")
    assert (done.code, "is no git repository" in done.err) == (2, True)
    assert cli("data", "from-git", checkout.root, "--out", tmp_path / "made").code == 0
    done = cli("data", "from-git", checkout.root, "--head", "HEAD~1", "--out", tmp_path / "made")
    assert (done.code, "holds a dataset of commit" in done.err, "--grow adds" in done.err) == (2, True, True)
    (tmp_path / "made" / "dataset.yaml").write_text("format: 1\n")
    done = cli("data", "from-git", checkout.root, "--out", tmp_path / "made")
    assert (done.code, "holds another dataset" in done.err) == (2, True)


def test_an_older_dataset_grows_where_that_is_asked(cli, checkout, tmp_path):
    place = tmp_path / "made"
    assert cli("data", "from-git", checkout.root, "--head", "HEAD~2", "--out", place).code == 0
    done = cli("data", "from-git", checkout.root, "--out", place, "--grow")
    assert (done.code, done.out.split("\n")[0]) == (0, f"{place}: 3 queries, 2 of them new (tuning 3) of 4 commits")
    assert cli("data", "validate", place).code == 0
    done = cli("data", "from-git", checkout.root, "--out", tmp_path / "none", "--grow")
    assert (done.code, "Traceback" in done.err) == (2, False)


def test_texts_take_the_place_of_messages(cli, checkout, tmp_path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"number": 4, "text": "A is too small, #4 says"}\n')
    words = ("data", "from-git", checkout.root, "--out", tmp_path / "made", "--queries-from", texts)
    assert cli(*words).code == 0
    rows = map(json.loads, (tmp_path / "made" / "queries.jsonl").read_text().splitlines())
    assert [row["text"] for row in rows] == ["Set it to two", "A is too small, says", "Set it to five"]
    texts.write_text('{"number": "4", "text": "x"}\n')
    done = cli(*words)
    assert (done.code, "field 'number' must be a whole number, got '4'" in done.err) == (2, True)


def test_ctrl_c_leaves_nothing(cli, checkout, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("ctxbench.datasets.files.write_files", stop)
    done = cli("data", "from-git", checkout.root, "--out", tmp_path / "made")
    assert (done.code, done.err) == (130, "stopped: nothing is half-written\n")
    assert not list(tmp_path.glob("*made*"))
