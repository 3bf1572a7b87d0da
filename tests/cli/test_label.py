from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from ctxbench.cli.label import apply_patch, label, review
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.io.console import Keys
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Message, Request
from tests.children import child

RUN = """
import sys
from pathlib import Path
from ctxbench.cli.label import label
label(Path(sys.argv[1]), minutes=float(sys.argv[2]), selectors=["bm25", "dense"], figures=[], embedder="hashing",
      as_json=False)
"""
OPTIONS = {"selectors": ["bm25", "dense"], "embedder": "hashing", "as_json": False}
TOOLS = ("open ticket", "close ticket", "send mail", "read mail", "add event", "list events", "find page", "edit page")


@pytest.fixture
def folder(place):
    """Thirty queries that called what they say."""
    catalog = Catalog([Item(type="tool", server="s", name=name.replace(" ", "_"), description=name) for name in TOOLS])
    queries = tuple(
        DatasetQuery(request=Request(id=f"q{i}", text=f"please {TOOLS[i % 8]}"), split="test", partly_labelled=True)
        for i in range(30)
    )
    labels = tuple(Label(f"q{i}", catalog[i % 8].key, 2, source="trace") for i in range(30))
    about = {"licence": "made up", "source": "tests", "labelling": "from a log"}
    write_dataset(
        Dataset(name="log", version="1", catalog=catalog, queries=queries, labels=labels, about=about), place / "log"
    )
    return place / "log"


@pytest.fixture
def piped(monkeypatch):
    """Put lines on standard input."""

    def put(*lines):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    return put


def log_of(folder):
    path = folder / "labelling" / "answers.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_lines_of_a_pipe_are_answers(folder, piped, capfd):
    piped("0", "1", "/list", "u", "0", "zebra", "w", "0", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    out, err = capfd.readouterr()
    kinds = [row["kind"] for row in log_of(folder)]
    assert kinds == ["done", "needed", "needed", "undo", "done", "wrong", "nothing"]
    assert "'z' is not an answer here" in err
    assert out.startswith("before any answer: estimates from the log, which may be wrong\n")
    assert "after: 5 answers in all, 5 of them new, 3 queries done" in out
    assert "more answers to halve this range" in out
    dataset = read_dataset(folder)
    assert len(dataset.judged()) == 3
    assert sum(query.needs_nothing for query in dataset.queries) == 1


def test_the_end_of_the_input_ends_the_session_and_a_new_one_goes_on(folder, piped, capfd):
    piped("0")
    label(folder, minutes=20, figures=[], **OPTIONS)
    piped("0")
    label(folder, minutes=20, figures=[], **OPTIONS)
    out, _ = capfd.readouterr()
    assert "before: 1 answer, 1 query" in out
    assert len(read_dataset(folder).judged()) == 2


def test_what_every_prompt_holds_is_told_once_and_not_asked(folder, piped, capfd):
    path = folder / "corpus.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[-1]["include"] = "always"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    piped("m", "m", "0", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    shown = "".join(capfd.readouterr())
    said = "not asked: 1 item of mode always, which are in each new prompt"
    assert shown.count(said) == 1
    assert " s / edit_page (tool)" not in shown.replace("needed: s / edit_page", "")


def test_no_minutes_only_say_where_the_figures_stand(folder, capfd):
    label(folder, minutes=0, figures=[], **{**OPTIONS, "as_json": True})
    report = json.loads(capfd.readouterr().out)
    assert [figure["name"] for figure in report["before"]["completeness"]] == ["bm25", "dense"]
    assert report["before"] == report["after"]
    assert log_of(folder) == []
    with pytest.raises(ParameterError, match="minutes must be 0 or more"):
        label(folder, minutes=-1, figures=[], **OPTIONS)


def test_no_minutes_write_no_file(folder):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    label(folder, minutes=0, figures=["bm25"], **OPTIONS)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_figures_of_selectors_that_the_sample_was_not_drawn_for_are_guessed_alike(folder, piped, capfd):
    options = {"minutes": 0, "figures": [], "embedder": "hashing", "as_json": True}

    def figures():
        label(folder, selectors=["everything", "bm25"], **options)
        return json.loads(capfd.readouterr().out)["before"]

    fresh = figures()
    piped("q")
    label(folder, minutes=20, figures=[], selectors=["bm25"], embedder="hashing", as_json=False)
    capfd.readouterr()
    other = figures()
    for kind in ("completeness", "differences"):
        assert [row["value"] for row in other[kind]] == pytest.approx([row["value"] for row in fresh[kind]], abs=1e-5)
    assert fresh["completeness"][0]["value"] > 0.9  # all is offered


@pytest.mark.essential
@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of POSIX systems")
def test_a_terminal_takes_single_keys_and_keeps_answers_through_a_kill(folder):
    import pty

    @contextmanager
    def started():
        """The process, and where its keys are pressed."""
        master, slave = pty.openpty()
        command = [sys.executable, "-c", RUN, folder, "20"]
        try:
            with child(command, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                os.close(slave)
                yield process, master
        finally:
            os.close(master)

    def until(n):
        for _ in range(600):
            if len(log_of(folder)) >= n:
                return
            time.sleep(0.05)
        raise AssertionError(log_of(folder))

    with started() as (process, keys):
        os.write(keys, b"0")
        until(1)
        os.write(keys, b"\x1b[A0")  # an arrow key is no answer
        until(2)
        process.kill()
    assert [row["kind"] for row in log_of(folder)] == ["done", "done"]
    assert len(read_dataset(folder).judged()) == 0

    with started() as (process, keys):
        os.write(keys, b"u")
        until(3)
        os.write(keys, b"q")
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "before: 2 answers" in out
    assert "after: 1 answer in all, 1 earlier withdrawn, " in out
    assert len(read_dataset(folder).judged()) == 1


def test_keys_of_a_line_are_taken_one_by_one(piped):
    piped("W2", "", "/two words")
    with Keys() as keys:
        assert [keys.key(), keys.key(), keys.key(), keys.key()] == ["w", "2", "\n", "/"]
        assert keys.text("") == "two words"
        with pytest.raises(EOFError):
            keys.key()


def test_a_search_for_what_is_marked_says_so_and_is_no_answer(folder, piped, capfd):
    """`q10` is asked first, and needs `send_mail` by its log; everything of the catalog is listed."""
    piped("/send_mail", "/mail", "2", "/mail", "0", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    err = capfd.readouterr().err
    assert "; query q10\n" in err
    assert "already needed: s / send_mail (tool)\n" in err
    assert "  already needed: s / send_mail (tool): send mail\n  1 s / read_mail (tool): read mail\n" in err
    assert "no item with number 2" in err
    assert log_of(folder) == []  # 2 and 0 were answers of the search alone
    assert err.count("Which other items are needed?") == 1


def test_a_search_says_which_number_of_the_list_it_found(folder, piped, capfd):
    piped("/s / LIST_events", "/list_events (tool)", "u", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    err = capfd.readouterr().err
    number = next(line.split()[0] for line in err.splitlines() if "s / list_events (tool): list events" in line)
    assert f"needed: s / list_events (tool), already listed as number {number}\n" in err
    assert "already needed: s / list_events (tool)\n" in err
    assert "undone: needed of query q10: s / list_events (tool)\n" in err
    assert [(row["kind"], row.get("item")) for row in log_of(folder)] == [
        ("needed", "tool:s:list_events"),
        ("undo", None),
    ]


def test_what_is_marked_otherwise_is_needed_by_the_same_search_once_more(folder, piped, capfd):
    piped("w", "/send", "/page", "x", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    err = capfd.readouterr().err
    said = "already marked not needed: s / send_mail (tool); repeat the search to mark it "
    assert [row["kind"] for row in log_of(folder)] == ["wrong", "nothing"]  # a key that is no number is the question's
    assert err.count(said) == 1

    piped("u", "/send", "/send", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    assert "undone: nothing of query q10" in capfd.readouterr().err
    assert [(row["kind"], row.get("item")) for row in log_of(folder)[2:]] == [
        ("undo", None),
        ("needed", "tool:s:send_mail"),
    ]


def test_a_search_says_what_a_query_cannot_get_and_what_no_item_has(folder, piped, capfd):
    dataset = read_dataset(folder)
    catalog = dataset.catalog.extended([Item(type="tool", server="s", name="archive", enabled=False)])
    write_dataset(replace(dataset, catalog=catalog), folder)
    piped("/archive", "/zebra", "/", "", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    err = capfd.readouterr().err
    assert "not available to this query, disabled, or manual: s / archive (tool)\n" in err
    assert "no item with all these words\n" in err
    assert "no words to search for\n" in err
    assert "is not an answer here" not in err
    assert log_of(folder) == []


def test_the_request_stands_apart_from_the_history(folder, piped, capfd):
    dataset = read_dataset(folder)
    history = tuple(Message(role="user", content=f"message {n}\nof six") for n in range(1, 7))
    queries = tuple(
        replace(query, request=replace(query.request, history=history, text="mail it\nnow"))
        for query in dataset.queries
    )
    write_dataset(replace(dataset, queries=queries), folder)
    piped("q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    told = capfd.readouterr().err.splitlines()
    first = told.index("earlier (the last 4 of 6 messages):")
    assert told[first - 1 : first + 10] == [
        "",
        "earlier (the last 4 of 6 messages):",
        *(f"    user: message {n} of six" for n in (3, 4, 5, 6)),
        "",
        "the request:",
        "  | mail it",
        "  | now",
        "",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of POSIX systems")
def test_keys_pressed_behind_a_searched_text_stay_keys():
    import pty

    master, slave = pty.openpty()
    try:
        os.write(master, "/two wörds\n0ä".encode())
        with open(slave, encoding="utf-8", closefd=False) as stream, Keys(stream) as keys:
            assert keys.key() == "/"
            assert keys.text("") == "two wörds"
            assert [keys.key(), keys.key()] == ["0", "ä"]
            keys.back("y")
            assert keys.key() == "y"
    finally:
        os.close(master)
        os.close(slave)


def test_review_lists_asks_and_applies(folder, piped, capfd):
    dataset = read_dataset(folder)
    key = dataset.catalog[3].key
    wrong = [label if label.query != "q0" else replace(label, item=key) for label in dataset.labels]
    queries = tuple(replace(query, partly_labelled=False) for query in dataset.queries)
    write_dataset(replace(dataset, queries=queries, labels=tuple(wrong)), folder)
    review(str(folder), patch=None, listed=True, **OPTIONS)
    out, _ = capfd.readouterr()
    assert "q0  s / open_ticket (tool)  first but not required" in out
    assert "1 labels that bm25, dense contradict" in out

    piped("a")
    review(str(folder), patch=folder.parent / "patch.jsonl", listed=False, **OPTIONS)
    assert "2 changed labels written" in capfd.readouterr().out
    apply_patch(folder, folder.parent / "patch.jsonl")
    assert {label.alternatives for label in read_dataset(folder).labels_of("q0")} == {f"like {key.id}"}
    with pytest.raises(InputError, match="line 1"):
        apply_patch(folder, folder.parent / "patch.jsonl")
    with pytest.raises(ParameterError, match="--patch FILE"):
        review(str(folder), patch=None, listed=False, **OPTIONS)


def test_corrections_are_on_disk_after_each_key_and_an_earlier_patch_is_kept(folder, piped, capfd, monkeypatch):
    dataset = read_dataset(folder)
    swapped = dict.fromkeys(("q0", "q1"), dataset.catalog[3].key)
    queries = tuple(replace(query, partly_labelled=False) for query in dataset.queries)
    labels = tuple(replace(one, item=swapped.get(one.query, one.item)) for one in dataset.labels)
    write_dataset(replace(dataset, queries=queries, labels=labels), folder)
    patch = folder.parent / "patch.jsonl"

    piped("q")
    review(str(folder), patch=patch, listed=False, **OPTIONS)
    assert "no label was changed" in capfd.readouterr().out
    assert not patch.exists()

    keys = iter(["2"])

    def pressed(self):
        try:
            return next(keys)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(Keys, "key", pressed)
    with pytest.raises(KeyboardInterrupt):
        review(str(folder), patch=patch, listed=False, **OPTIONS)
    kept = patch.read_text()
    assert len(kept.splitlines()) == 1
    with pytest.raises(ParameterError, match="has corrections; apply"):
        review(str(folder), patch=patch, listed=False, **OPTIONS)
    assert patch.read_text() == kept
    with pytest.raises(ParameterError, match=r"would overwrite the files of"):
        review(str(folder), patch=folder / "queries.jsonl", listed=False, **OPTIONS)


def test_skips_are_counted_and_told(folder, piped, capfd):
    piped("0", "s", "s", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    out, _ = capfd.readouterr()
    assert "1 query done" in out
    assert "2 queries undecided" in out


def test_a_key_that_the_menu_does_not_have_is_no_answer(folder, piped, capfd):
    piped("n", "q")
    label(folder, minutes=20, figures=[], **OPTIONS)
    assert "'n' is not an answer here" in capfd.readouterr().err
    assert log_of(folder) == []


@pytest.fixture
def failing(place, tiny):
    """An experiment with a callable that fails on some queries, and how to say on which."""

    def write(where):
        code = f"def select(request, items):\n    if {where}:\n        raise ValueError('no index')\n    return []\n"
        (place / "mine.py").write_text(code)
        selectors = "[{name: mine, callable: 'mine.py:select'}, bm25]"
        (place / "mine.yaml").write_text(f"datasets: [{tiny}]\nembedder: hashing\nselectors: {selectors}\n")
        return "--selectors", "mine.yaml", "--embedder", "hashing"

    return write


@pytest.mark.parametrize("words", [("pool", "--out", "pairs.jsonl"), ("review", "--list"), ("label", "--minutes", "0")])
def test_a_selector_that_fails_on_every_query_gets_no_figure(cli, place, tiny, failing, words):
    shutil.copytree(tiny, place / "ds")
    command, *more = words
    done = cli("data", command, "ds", *more, *failing("True"))
    assert (done.code, done.out) == (2, "")
    said = r"error: mine failed on all \d+ queries; first query 'q\d+': the callable raised ValueError: no index"
    assert re.search(said + r" \(mine\.py, line 3\)\n$", done.err)
    assert not (place / "pairs.jsonl").exists()


def test_why_a_selector_failed_first_is_said(cli, place, tiny, failing):
    wrong = failing("request['id'] in ('q02', 'q03')")
    done = cli("data", "pool", tiny, *wrong, "--share", "1", "--out", "pairs.jsonl")
    assert done.code == 0
    first = "query 'q02': the callable raised ValueError: no index (mine.py, line 3)"
    assert f"warning: mine failed on 2 queries, counted as nothing offered; first {first}\n" in done.err
