"""Progress of what takes long: shown to a person, silenced, or told to a function."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import ClassVar

import pytest

import ctxbench
from ctxbench.io import console
from tests.api.conftest import CHEAP, SMOKE


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Output:
    """What a notebook shows below a cell, as `IPython.display.display` makes it."""

    shown: ClassVar[list] = []

    def __init__(self, row):
        self.update(row)

    def update(self, row, **_options):
        self.shown.append(row if isinstance(row, dict) else row._repr_mimebundle_([], []))


def first_item(request, items):
    return [items[0]["_id"]]


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(console, "AFTER", -1)
    monkeypatch.setattr(console, "EVERY_TERMINAL", -1)
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def make_terminal(at_once, monkeypatch):
    """Makes standard error a terminal; called in the test, before which pytest puts its stream there."""

    def make():
        stream = Terminal()
        monkeypatch.setattr("sys.stderr", stream)
        return stream

    return make


SELECTORS = {"bm25": "bm25", "mine": first_item}


def test_a_function_is_called_with_each_answer_of_a_function():
    calls = []
    ctxbench.evaluate(SMOKE, SELECTORS, progress=lambda *call: calls.append(call), **CHEAP)
    assert [call for call in calls if call[0] == "smoke, bm25"] == [("smoke, bm25", 0, 60), ("smoke, bm25", 30, 60)]
    mine = [done for text, done, _ in calls if text == "smoke, mine"]
    assert mine == [*range(30, 61), 60]


def test_queries_that_were_asked_before_do_not_count(tmp_path):
    ctxbench.evaluate(SMOKE, ["bm25"], out=tmp_path / "run", **CHEAP)
    calls = []
    ctxbench.evaluate(
        SMOKE, ["bm25", "everything"], out=tmp_path / "run", progress=lambda *call: calls.append(call), **CHEAP
    )
    assert calls == [("smoke, everything", 0, 30), ("smoke, everything", 30, 30)]


def test_a_terminal_shows_a_bar_that_goes_away(make_terminal):
    terminal = make_terminal()
    ctxbench.evaluate(SMOKE, SELECTORS, **CHEAP)
    lines = terminal.getvalue().split("\r")
    assert any(line.startswith("smoke, mine") and "31 of 60" in line for line in lines)
    assert "/s" in lines[-3]
    assert not lines[-2].strip()


@pytest.mark.parametrize(
    "work",
    [
        lambda **options: ctxbench.evaluate(SMOKE, SELECTORS, **CHEAP, **options),
        lambda **options: ctxbench.tune(
            SMOKE, "dense", minimise="tokens", completeness="0.9 of base", **CHEAP, **options
        ),
        lambda **options: ctxbench.review(SMOKE, ["bm25", "dense"], embedder="hashing", **options),
    ],
    ids=["evaluate", "tune", "review"],
)
def test_progress_is_shown_without_asking_and_can_be_silenced(work, make_terminal):
    terminal = make_terminal()
    work(progress=False)
    assert terminal.getvalue() == ""
    work()
    assert " of " in terminal.getvalue()


def test_a_notebook_shows_a_bar_in_one_output_that_is_emptied(at_once, monkeypatch):
    output = SimpleNamespace(display=lambda row, display_id: Output(row))
    monkeypatch.setattr(Output, "shown", [])
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object())))
    monkeypatch.setitem(sys.modules, "IPython.display", output)
    ctxbench.evaluate(SMOKE, SELECTORS, **CHEAP)
    assert "smoke, mine" in Output.shown[-2]["text/html"]
    assert Output.shown[-1] == {"text/plain": "", "text/html": ""}


def test_nothing_is_shown_where_nobody_looks(at_once, monkeypatch, capsys):
    monkeypatch.setattr(console, "EVERY_FILE", -1)
    ctxbench.evaluate(SMOKE, SELECTORS, **CHEAP)
    assert capsys.readouterr().err == ""


def test_the_line_is_cleared_where_the_work_is_stopped(make_terminal):
    terminal = make_terminal()

    def stopped(request, items):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ctxbench.evaluate(SMOKE, {"bm25": "bm25", "mine": stopped}, **CHEAP)
    assert "smoke, mine" in terminal.getvalue()
    assert not terminal.getvalue().split("\r")[-2].strip()


@pytest.mark.parametrize("wrong", ["yes", 1, None])
def test_what_is_no_progress_is_refused(wrong):
    with pytest.raises(ctxbench.ParameterError, match="True, False or a function"):
        ctxbench.evaluate(SMOKE, SELECTORS, progress=wrong, **CHEAP)


def test_a_listener_that_is_kept_shows_nothing_after_the_end(make_terminal):
    terminal = make_terminal()
    with console.progress_listener(True) as listener:
        pass
    listener("smoke, bm25", 1, 2)
    assert terminal.getvalue() == ""


def test_an_import_shows_how_much_of_a_log_is_read(tmp_path, make_terminal):
    log = tmp_path / "log.jsonl"
    log.write_text('{"text": "the area of a triangle", "offered": "*", "called": ["area"]}\n', "utf-8")
    terminal = make_terminal()
    ctxbench.from_file(log, ctxbench.catalog([{"name": "area"}, {"name": "mail"}]))
    assert "reading traces, bytes" in terminal.getvalue()
    assert not terminal.getvalue().split("\r")[-2].strip()
