"""Imports that Ctrl-C stops, and the states that they leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from ctxbench.labelling.trace_import import LogFiles, TraceSettings, TraceSource, import_traces
from ctxbench.model.items import Catalog, Item
from tests.labelling.traces.session_cases import assistant, requests, use, user

STOPPED = """
import os, signal, sys
from pathlib import Path
from ctxbench.labelling.trace_import import TraceSettings, TraceSource, import_traces
from ctxbench.model.items import Catalog, Item

def stop(step, done, total):
    if done * 2 > total:
        os.kill(os.getpid(), signal.SIGINT)

catalog = Catalog([Item(type="tool", server="shop", name="track_order")])
source = TraceSource(logs=tuple(map(Path, sys.argv[1:])), catalog=catalog)
import_traces(source, TraceSettings(name="mine"), redact=None, progress=stop)
"""


@pytest.mark.parametrize("form", ["lines", "list", "sessions"])
def test_ctrl_c_keeps_what_was_read_and_the_same_import_goes_on(tmp_path, monkeypatch, form):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    answer = {"role": "assistant", "content": [use("track_order", "c")]}
    messages = [[{"role": "user", "content": f"{'Go.' * 500} {n}"}, answer] for n in range(2000)]
    if form == "sessions":
        rows = [{"session_id": f"s{n // 30}", **line} for n, pair in enumerate(messages) for line in pair]
    else:
        rows = [
            {"messages": [*messages[n - n % 3], *messages[n]][-4:], "offered": ["track_order"]} for n in range(2000)
        ]
    paths = (tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    for path, part in zip(paths, (rows[:500], rows[500:]), strict=True):
        path.write_text(json.dumps(part) if form == "list" else "\n".join(map(json.dumps, part)), "utf-8")
    catalog = Catalog([Item(type="tool", server="shop", name="track_order")])
    source, settings = TraceSource(logs=paths, catalog=catalog), TraceSettings(name="mine")
    whole = import_traces(source, settings, redact=None)
    process = subprocess.run(
        [sys.executable, "-c", STOPPED, *map(str, paths)], capture_output=True, text=True, check=False, timeout=120
    )
    assert process.returncode in (-signal.SIGINT, 130)
    assert process.stderr.endswith("continues\n")
    assert len(list((tmp_path / "cache" / "imports").iterdir())) == 1
    read = []
    monkeypatch.setattr(LogFiles, "_read_document", counted(read, LogFiles._read_document))
    resumed = import_traces(source, settings, redact=None)
    assert 0 < len(read) < len(rows) * 0.6
    assert resumed.dataset.hash == whole.dataset.hash
    assert resumed.report == whole.report
    assert list((tmp_path / "cache" / "imports").iterdir()) == []


@pytest.mark.parametrize("is_session", [True, False])
def test_ctrl_c_at_the_last_document_and_a_reading_of_the_file_lose_nothing(tmp_path, monkeypatch, is_session):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    turn = {"text": "Go.", "offered": ["track_order"], "called": ["track_order"]}
    lines = [user("Go."), assistant(use("track_order", "c"))] if is_session else [turn]
    (path := tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    source = TraceSource(logs=(path,), catalog=Catalog([Item(type="tool", name="track_order")]))
    whole = import_traces(source, TraceSettings(name="mine"), redact=None)
    read = []
    monkeypatch.setattr(LogFiles, "_read_document", counted(read, LogFiles._read_document, stop_at=len(lines)))
    with pytest.raises(KeyboardInterrupt):
        import_traces(source, TraceSettings(name="mine"), redact=None)
    os.utime(path, ns=(path.stat().st_atime_ns + 10**12, path.stat().st_mtime_ns))  # as another program reads it
    resumed = import_traces(source, TraceSettings(name="mine"), redact=None)
    assert len(read) == len(lines)
    assert (resumed.dataset.hash, resumed.report) == (whole.dataset.hash, whole.report)


def test_the_second_ctrl_c_stops_a_document(tmp_path, monkeypatch):
    def pressed_twice(*_, **__):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("not stopped")

    (tmp_path / "log.jsonl").write_text('{"text": "Go."}')
    source = TraceSource(logs=(tmp_path / "log.jsonl",), catalog=Catalog([Item(type="tool", name="t")]))
    monkeypatch.setattr(LogFiles, "_read_document", pressed_twice)
    with pytest.raises(KeyboardInterrupt):
        import_traces(source, TraceSettings(name="mine"), redact=None)


def counted(calls, function, stop_at=None):
    def run(self, document, **settings):
        calls.append(document)
        if len(calls) == stop_at:
            signal.raise_signal(signal.SIGINT)
        return function(self, document, **settings)

    return run


def test_states_of_interrupted_imports_are_removed_after_a_day(read, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    states = [tmp_path / "cache" / "imports" / f"{name}.pickle" for name in ("old", "new")]
    states[0].parent.mkdir(parents=True)
    for state, days in zip(states, (1.1, 0.9), strict=True):
        state.write_bytes(b"texts of another log")
        os.utime(state, (time.time() - days * 24 * 60 * 60,) * 2)
    read([user("Go."), assistant("Yes.")])
    assert list(states[0].parent.iterdir()) == [states[1]]


def test_a_damaged_state_of_an_import_is_read_anew(read, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("pathlib.Path.read_bytes", lambda _: b"\x80damaged")
    assert requests(read([user("Go."), assistant("Yes.")])) == ["Go."]
