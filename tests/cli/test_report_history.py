"""`ctxbench report --history`: what it prints and writes, and what it says of bad input."""

from __future__ import annotations

import csv
import io

import pytest

from ctxbench.gate.baseline import write_baseline
from ctxbench.gate.baseline_rows import MANIFEST
from tests.checkout import Checkout
from tests.gate.gate_cases import snapshot

NEEDS = {"q1": ["a"], "q2": ["b"]}


@pytest.fixture
def checkout(place):
    """A gate file, and three commits of its baseline: one cannot be read."""
    made = Checkout(place)
    (place / "gate.yaml").write_text("datasets: [x]\nselectors: [bm25]\n")
    folder = place / "gate.baseline"
    write_baseline(folder, [snapshot({"q1": ["a"], "q2": ["b", "c"]}, required=NEEDS)])
    made.commit("Offer [red]both[/red]", day=1)
    (folder / MANIFEST).write_text("{}")
    made.commit("Break it", day=2)
    write_baseline(folder, [snapshot({"q1": ["a"], "q2": ["c"]}, required=NEEDS, selector="s\x1b[2J")])
    made.commit("Offer one " + "again " * 30, day=3)
    return made


def rows(text):
    return [line.rstrip().split(maxsplit=5) for line in text.splitlines() if line.startswith("2026-")]


def test_a_table_for_each_selector_has_a_line_for_each_commit(cli, checkout):
    done = cli("report", "--history")
    assert (done.code, done.err) == (0, "")
    shorts = checkout.run("log", "--reverse", "--format=%h").split()
    first, second = done.out.split("\n\n")[:2]
    assert first.splitlines()[0] == "s on d"
    assert second.splitlines()[0] == "s\ufffd[2J on d"
    assert rows(first)[:2] == [
        ["2026-01-01", shorts[0], "2", "100.0", "15", "Offer [red]both[/red]"],
        ["2026-01-02", shorts[1], "-", "unreadable", "-", "Break it"],
    ]
    assert rows(second)[0][2:5] == ["-", "-", "-"]
    assert rows(second)[2][:5] == ["2026-01-03", shorts[2], "2", "50.0", "10"]
    assert f"  {shorts[1]} cannot be read: no baseline: expected an object with a format" in done.out
    assert max(map(len, done.out.splitlines())) <= 120  # a long message is cut


def test_what_is_written_and_printed_for_programs(cli, checkout, place):
    done = cli("report", "--history", "gate.baseline", "--json", "--csv", "h.csv", "--chart", "out/h.SVG")
    assert (done.code, done.err) == (0, "chart: out/h.SVG\n")
    assert (place / "out" / "h.SVG").read_text().startswith("<svg ")
    assert [(at["message"][:9], at["error"] is None, at["figures"]) for at in done.json["commits"]] == [
        (
            "Offer [re",
            True,
            [{"dataset": "d", "selector": "s", "queries": 2, "completeness": 1.0, "tokens": 15.0}],
        ),
        ("Break it", False, []),
        (
            "Offer one",
            True,
            [{"dataset": "d", "selector": "s\x1b[2J", "queries": 2, "completeness": 0.5, "tokens": 10.0}],
        ),
    ]
    found = list(csv.DictReader(io.StringIO((place / "h.csv").read_text())))
    assert [(row["selector"], row["completeness"], row["tokens"]) for row in found] == [
        ("s", "1", "15"),
        ("", "", ""),
        ("s\x1b[2J", "0.5", "10"),
    ]
    assert found[1]["note"].startswith("no baseline: expected an object with a format")
    assert found[0]["date"] == "2026-01-01T10:00:00+00:00"


def test_a_limit_says_that_older_commits_are_left_out(cli, checkout):
    done = cli("report", "--history", "--limit", "1")
    assert len(rows(done.out)) == 1
    assert "Older commits are left out (--limit)." in done.out


def test_baselines_that_cannot_be_read_at_all_still_are_a_table(cli, checkout, place):
    (place / "gate.baseline" / MANIFEST).write_text("[]")
    checkout.commit("Break it again", day=4)
    done = cli("report", "--history", "--limit", "1", "--chart", "h.png")
    assert (done.code, done.out.splitlines()[0]) == (0, "accepted in gate.baseline")
    assert rows(done.out)[0][2:] == ["-", "unreadable", "-", "Break it again"]
    assert (place / "h.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--history --chart h.pdf", "--chart h.pdf: the name must end in .png or .svg"),
        ("--history --markdown h.md", "--markdown is for the report of a run"),
        ("--history --limit 0", "the limit must be 1 commit or more, got 0"),
        ("--history other.yaml", "cannot read other.yaml: No such file or directory"),
        ("--history never", "no commit has a baseline in never; make it with `ctxbench check --accept`, and commit it"),
        ("--history ../tmp", "is not in a git repository"),
        ("--limit 2 run", "--limit goes with --history"),
        ("--chart h.png run", "--chart goes with --history"),
        ("gate.yaml", "gate.yaml is no folder of a run; add --history"),
        ("gate.baseline", "gate.baseline is no folder of a run; add --history"),
        ("", "name the folder of a finished run"),
    ],
)
def test_bad_input_is_one_message(cli, checkout, place, words, said):
    done = cli("report", *words.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert said in done.err
    assert not list(place.glob("h.*"))


def test_the_command_that_makes_a_baseline_names_the_gate_file(cli, checkout, place):
    (place / "my gate.yaml").write_text("datasets: [x]\nselectors: [bm25]\nbaseline: never\n")
    done = cli("report", "--history", "my gate.yaml")
    assert done.code == 2
    assert "make it with `ctxbench check 'my gate.yaml' --accept`, and commit it" in done.err


def test_what_to_do_about_a_broken_baseline_is_not_said_of_an_old_one(cli, checkout, place):
    (place / "my gate.yaml").write_text("datasets: [x]\nselectors: [bm25]\nbaseline: gate.baseline\n")
    done = cli("report", "--history", "my gate.yaml", "--json")
    assert done.code == 0
    error = done.json["commits"][1]["error"]
    assert error.startswith("no baseline: expected an object with a format")
    assert "accept again" not in error


def test_outside_of_git_and_without_git_the_message_says_so(cli, place, monkeypatch):
    (place / "gate.yaml").write_text("datasets: [x]\nselectors: [bm25]\n")
    done = cli("report", "--history")
    assert (done.code, done.err.startswith("error: gate.baseline is not in a git repository; ")) == (2, True)
    monkeypatch.setenv("PATH", str(place))
    done = cli("report", "--history")
    assert (done.code, done.err.startswith("error: git cannot be run (")) == (2, True)
