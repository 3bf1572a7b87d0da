"""What the system refuses: one message that names the place, exit code 2, no traceback, nothing left behind."""

from __future__ import annotations

import os
import re
import shutil
import sys

import pytest

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="capabilities, /proc")
LONG = "x" * 300

# Takes from root what lets it read and write everything; nothing changes for others.
NO_LEAVE = """
import ctypes
libc, head, held = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
libc.capget(head, held)
held[0] &= ~6
held[1] &= ~6
libc.capset(head, held)
"""


@pytest.fixture
def desk(place, tiny):
    """A folder with a dataset, an experiment, a gate, a finished run and an agent."""
    for name in ("ds", "beir"):
        shutil.copytree(tiny, place / name)
    (place / "exp.yaml").write_text("datasets: [ds]\nembedder: hashing\nselectors: [bm25]\n")
    (place / "docs").mkdir()
    (place / "docs" / "returns.md").write_text("# Returns\nHow to return.\n")
    (place / "agent.yaml").write_text("name: mine\nsources: {references: docs}\n")
    (place / "AGENTS.md").write_text("# Rules\nBe brief.\n")
    (place / "p").mkdir()
    yield place
    for folder in [place, *place.rglob("*/")]:
        folder.chmod(0o755)


@needs_linux
@pytest.mark.parametrize(
    ("words", "closed"),
    [
        (("run", "exp.yaml"), "ds"),
        (("data", "validate", "ds"), "ds"),
        (("data", "label", "ds"), "ds"),
        (("data", "overlap", "ds", "--embedder", "hashing"), "ds"),
        (("select", "x", "-c", "ds", "--selector", "bm25"), "ds"),
        (("select", "x", "--agent", "agent.yaml"), "docs"),
        (("data", "import", "beir", "beir", "--out", "o"), "beir"),
        (("data", "import", "triggers", "p/skills", "--out", "o"), "p"),
        (("report", "p/run"), "p"),
        (("check", "p/gate.yaml"), "p"),
        (("init", "p"), "p"),
        (("data", "capture", "--rules", ".", "--out", "p/o"), "p"),
        (("data", "split", "ds", "--out", "p/o"), "p"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_a_folder_that_may_not_be_entered_is_named(desk, process, words, closed):
    (desk / closed).chmod(0)
    done = process(*words, start=NO_LEAVE)
    assert done.code == 2, done.err
    told = done.err[done.err.index("error: ") :]
    assert re.search(rf"cannot read .*\b{closed}\b.*: Permission denied", told)
    assert (told.count("error: "), "Traceback" in told) == (1, False)


@needs_linux
def test_a_place_that_may_not_be_written_in_is_said_before_the_work(desk, process):
    (desk / "p").chmod(0o555)
    for words in (("run", "exp.yaml", "--csv", "p/x.csv"), ("run", "exp.yaml", "--out", "p/o")):
        done = process(*words, start=NO_LEAVE)
        assert (done.code, done.out) == (2, "")
        assert done.err == f"error: cannot write {words[-1]}: p may not be written in; name another place\n"
    assert not (desk / "runs").exists()


@needs_linux
def test_a_folder_in_a_dataset_that_may_not_be_written_in_leaves_nothing_beside_it(desk, process):
    (desk / "ds" / "qrels").chmod(0o555)
    done = process("data", "split", "ds", "--in-place", "--share", "0.3", start=NO_LEAVE)
    assert done.code == 0, done.err
    assert [path.name for path in desk.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    "words",
    [
        ("data", "validate", LONG),
        ("run", "exp.yaml", "--out", LONG),
        ("run", "long.yaml"),
        ("run", "far.yaml"),
        ("data", "split", "ds", "--out", LONG),
        ("report", LONG),
        ("check", LONG),
        ("data", "capture", "--rules", LONG, "--out", "o"),
        ("init", LONG),
    ],
    ids=lambda words: " ".join(words).replace(LONG, "LONG"),
)
def test_a_name_that_no_file_can_have_is_said(desk, process, snapshot, words):
    (desk / "long.yaml").write_text(f"name: {LONG}\n" + (desk / "exp.yaml").read_text())
    (desk / "far.yaml").write_text((desk / "exp.yaml").read_text().replace("[ds]", f"[{LONG}]"))
    before = snapshot()
    done = process(*words)
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert f"{LONG}" in done.err
    assert ": File name too long; " in done.err
    assert snapshot() == before


@needs_linux
@pytest.mark.parametrize("words", [("init",), ("select", "x", "-c", "smoke", "--selector", "bm25")], ids=" ".join)
def test_a_working_folder_that_is_gone_is_said(place, process, words):
    gone = place / "gone"
    gone.mkdir()
    start = f"import os\nos.chdir({str(gone)!r})\nos.rmdir({str(gone)!r})"
    done = process(*words, start=start)
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: the current folder no longer exists; change to another one and try again\n"


@needs_linux
def test_where_standard_output_is_closed_nobody_is_told(desk, process):
    assert process("run", "exp.yaml").code == 0
    for words in (("report", "runs/exp"), ("report", "runs/exp", "--json"), ("select", "x", "-c", "ds")):
        done = process(*words, preexec_fn=lambda: os.close(1))
        assert done.code == 0, done.err
        assert "Traceback" not in done.err


@needs_linux
def test_where_standard_input_is_closed_nothing_is_asked(desk, process, snapshot):
    before = snapshot()
    for words in (("data", "label", "ds"), ("data", "review", "ds", "--patch", "p.jsonl")):
        done = process(*words, "--selectors", "bm25", preexec_fn=lambda: os.close(0))
        assert (done.code, done.out) == (2, "")
        what = "standard input is closed, and answers are read from it; leave it open, or pipe keys in"
        assert done.err == f"error: {what}\n"
    assert snapshot() == before


@needs_linux
def test_files_do_not_get_the_numbers_of_closed_streams(place):
    from ctxbench.io import console

    kept = os.dup(0)
    try:
        os.close(0)
        console.keep_numbers()
        handle = os.open(os.devnull, os.O_RDONLY)
        os.close(handle)
        assert handle > 2
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.mark.parametrize("columns", ["0", "20", "40", "60"])
def test_tables_keep_the_names_of_selectors_however_narrow(desk, cli, monkeypatch, columns):
    cli("run", "exp.yaml")
    monkeypatch.setenv("COLUMNS", columns)
    done = cli("report", "runs/exp")
    assert done.code == 0
    first = done.out.partition("Left out")[0]
    assert "bm25 (baseline)" in first
    assert "complete %" in first


def test_what_is_done_with_a_patch_is_one_thing(desk, cli, snapshot):
    before = snapshot()
    done = cli("data", "review", "ds", "--apply", "p.jsonl", "--list", "--patch", "q.jsonl")
    assert (done.code, done.err) == (2, "error: --apply, --list and --patch exclude each other; use one of them\n")
    assert snapshot() == before
