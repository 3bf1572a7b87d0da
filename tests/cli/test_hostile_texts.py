"""Whatever stands in catalogs, datasets, cards, answers, logs and names: the terminal and the runner stay ours.

Commands write to pseudo-terminals in raw mode, so that what arrives is what was written, byte by byte.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import sys
import threading
import time

import pytest

from ctxbench.cli.app import main
from ctxbench.io import console
from ctxbench.model import registry
from tests.children import child
from tests.cli.hostile_cases import Asked, World

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of POSIX systems")

# Written here anew, apart from what is tested.
OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
STYLE = re.compile("\x1b\\[[0-9;]*m")
COMMAND = re.compile(r"\s*::|.*##\[")
ANNOTATION = re.compile(r"::(error|warning) (file=[^:,]*,)?(line=\d+,)?(col=\d+,)?title=[^:,]*::.*")
FIT = re.compile(r"\ufffd|\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|: :|## \[|\\[nrt]")  # hostile texts where they are shown
PLAIN = {"TERM": "dumb", "NO_COLOR": "1", "GITHUB_ACTIONS": "true", "COLUMNS": "60"}
COLOURED = {"TERM": "xterm-256color", "COLUMNS": "97"}


class Terminal:
    """The other end of a pseudo-terminal: keeps all that is written."""

    def __init__(self):
        import pty
        import tty

        self.master, self.slave = pty.openpty()
        tty.setraw(self.slave)
        self.data = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while True:
            try:
                self.data += os.read(self.master, 65536)
            except OSError:  # the last writer has closed it
                return

    def close(self):
        os.close(self.slave)

    def text(self):
        """Everything, once nobody can write any more; bytes that are no UTF-8 are a fault."""
        self._reader.join(20)
        assert not self._reader.is_alive()
        os.close(self.master)
        return self.data.decode("utf-8")


@pytest.fixture
def ask(monkeypatch):
    """Run a command in this process, its two streams on terminals of their own; (code, out, err)."""

    def run(asked, environment):
        out, err = Terminal(), Terminal()
        read, write = os.pipe()
        os.write(write, asked.typed.encode())
        os.close(write)
        with monkeypatch.context() as patch:
            patch.delenv("NO_COLOR", raising=False)
            for name, value in environment.items():
                patch.setenv(name, value)
            with (
                open(out.slave, "w", encoding="utf-8", closefd=False) as stdout,
                open(err.slave, "w", encoding="utf-8", errors="backslashreplace", closefd=False) as stderr,
                open(read, encoding="utf-8") as stdin,  # noqa: PTH123 - a descriptor
            ):
                for name, stream in (("stdout", stdout), ("stderr", stderr), ("stdin", stdin)):
                    patch.setattr(sys, name, stream)
                with pytest.raises(SystemExit) as ended:
                    main([*asked.arguments])
        out.close()
        err.close()
        return ended.value.code or 0, out.text(), err.text()

    return run


def faults(text, *, annotated=False):
    """What a terminal or a runner would obey; annotations of ours are none."""
    lines = [line for line in text.split("\n") if not (annotated and ANNOTATION.fullmatch(line))]
    return [*map(repr, OBEYED.findall(text)), *filter(COMMAND.match, lines)]


@pytest.fixture
def quiet(monkeypatch):
    """No progress, whose carriage returns are ours."""
    monkeypatch.setattr(console, "AFTER", 1e9)


@pytest.mark.parametrize("seed", range(4))  # each makes more than thirty hostile files, and names of files
def test_no_command_writes_what_a_terminal_or_a_runner_obeys(seed, ask, place, quiet):
    world = World(seed)
    world.write()
    coloured = bool(seed % 2)
    wrong, silent, styled, annotations = [], [], False, 0
    for asked in [*world.commands(), *(world.costly() if seed == 0 else [])]:
        asked.first()
        code, out, err = ask(asked, COLOURED if coloured else PLAIN)
        bare = STYLE.sub("", out) if coloured else out
        styled |= bare != out
        annotated = "github" in asked.arguments
        annotations += sum(line.startswith("::") for line in bare.split("\n"))
        wrong += [(asked.arguments, fault) for fault in [*faults(bare, annotated=annotated), *faults(err)]]
        if code not in (0, 1, 2) or "Traceback" in err:
            wrong.append((asked.arguments, code, err))
        if asked.marked and not FIT.search(out + err):
            silent.append((asked.arguments, out, err))
        if {"--json", "json"} & {*asked.arguments} and code == 0:
            json.loads(out)
    assert wrong == []
    assert silent == []  # what is hostile did get there
    assert styled is coloured
    assert annotations > 0


def test_progress_rewrites_its_own_line_only(ask, place, monkeypatch):
    monkeypatch.setattr(console, "AFTER", -1)
    monkeypatch.setattr(console, "EVERY_TERMINAL", -1)
    World(0).write()
    _, _, err = ask(Asked(("run", "e.yaml")), PLAIN)
    assert "\rdata" in err
    assert faults(err.replace("\r", "\n")) == []


def test_names_of_plugins_are_made_fit(ask, place, monkeypatch, quiet):
    name = "\x1b[2Jmine\n::error::x"
    point = importlib.metadata.EntryPoint(name=name, value="no_such:Thing", group="ctxbench.importer")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point] if "importer" in group else [])
    registry._plugins.cache_clear()
    try:
        World(0).write()
        for words in (("data", "show", "nothing"), ("data", "list"), ("data", "import", name), ("data", "--help")):
            _, out, err = ask(Asked(words), PLAIN)
            assert faults(out + err) == []
    finally:
        registry._plugins.cache_clear()


def process(place, *arguments, typed=(), start="from ctxbench.__main__ import main", **environment):
    """Run a process whose three streams are one terminal: (exit code, what it wrote). Keys are typed at a prompt."""
    terminal = Terminal()
    command = [sys.executable, "-c", f"{start}\nmain()", *arguments]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal.slave)
    with child(command, cwd=place, env={**os.environ, **environment}, **streams) as running:
        terminal.close()
        for prompt, keys in typed:
            end = time.monotonic() + 60
            while prompt not in terminal.data and time.monotonic() < end and running.poll() is None:
                time.sleep(0.02)
            os.write(terminal.master, keys)
        code = running.wait(60)
    return code, terminal.text()


@pytest.mark.parametrize("environment", [PLAIN, COLOURED], ids=["plain", "coloured"])
def test_a_process_on_a_terminal_writes_its_own_styles_only(place, environment):
    World(1).write()
    code, said = process(place, "run", "e.yaml", **environment)
    bare = STYLE.sub("", said)
    assert (bare != said) is (environment is COLOURED)
    assert faults(re.sub("\r(?=data| |$)", "\n", bare)) == []
    assert code == 2
    assert "complete %" in bare


def test_questions_on_a_terminal_are_made_fit(place):
    World(2).write()
    typed = [
        (b"Which other items are needed?", b"1"),
        (b"offered by", b"vq"),
        (b"", b"/"),
        (b"search:", b"open\n"),
        (b"Which item is needed?", b"1"),
        (b"", b"u?qq"),
    ]
    words = ("data", "label", "log", "--selectors", "bm25", "--embedder", "hashing")
    code, said = process(place, *words, typed=typed, **PLAIN)
    assert faults(said.replace("\r", "\n")) == []
    assert (code, "next: `ctxbench data label log" in said) == (0, True), said


def test_a_bug_and_a_terminal_without_unicode_and_names_that_are_no_text_are_made_fit(place):
    bug = (
        "import sys\nfrom ctxbench.cli import select\ndef run(*_, **__): raise ValueError('\\x1b[2J\\n::error::x\\r')\n"
    )
    bug += "select.run = run\nfrom ctxbench.__main__ import main"
    code, said = process(place, "select", "x", "--catalog", "y", start=bug, **PLAIN)
    assert code == 1
    assert said.endswith("ValueError: \ufffd[2J\n: :error::x\n\n")
    assert faults(said) == []
    name = b"\xff\x1b[2J\xc2\x9b31m\n::error::x"
    for words in (("run", name), ("select", "x", b"--" + name), (name,), ("select", "--help", name)):
        _, said = process(place, *words, **PLAIN, PYTHONIOENCODING="ascii:backslashreplace")
        assert said.isascii()
        assert faults(said) == []
