"""The door to standard output and standard error: what it lets through, and that nothing goes around it."""

from __future__ import annotations

import ast
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from rich.table import Table
from rich.text import Text

from ctxbench.io.console import (
    Guard,
    guarded,
    is_plain,
    is_terminal,
    printing_to_stderr,
    say,
    show_json,
    show_tables,
    show_text,
    write_own,
)

ROOT = Path(__file__).parents[2] / "ctxbench"
DOOR = "io/console.py"
LENDING = "selectors/callable.py"  # lends the streams to code of others, which must not close them
OSC = "\x1b]52;c;eA==\x07"
PROPERTY = settings(deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


# ------------------------------------------------------------------------------------------------ what passes


def written(*texts: str) -> str:
    stream = io.StringIO()
    guard = Guard(stream)
    for text in texts:
        guard.write(text)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((f"a{OSC}b\n",), "a\ufffd]52;c;eA==\ufffdb\n"),
        (("10%\r20%\r\n", "\rdone"), "10%\n20%\n\ndone"),
        ((" :", ":error::x"), " : :error::x"),
        (("a\n", " ", " ", "::", "x"), "a\n  : :x"),
        (("#", "#", "[error]x"), "## [error]x"),
        (("a", "::b", ":", ":c"), "a::b::c"),
        (("##", "\n["), "##\n["),
        (("a:\n", ":b\n"), "a:\n:b\n"),
    ],
)
def test_a_guarded_stream_marks_and_breaks_also_what_comes_in_pieces(texts: tuple[str, ...], expected: str) -> None:
    assert written(*texts) == expected


@PROPERTY
@given(st.lists(st.text(alphabet=" :#[a\n\r\x1b\u202e", max_size=6), max_size=8))
def test_pieces_never_make_a_command(texts: list[str]) -> None:
    found = written(*texts)
    assert not set(found) & set("\x1b\r\u202e")
    for line in found.split("\n"):
        assert not line.lstrip().startswith("::")
        assert "##[" not in line


def test_what_is_ours_passes_as_it_stands_and_a_line_begins_behind_it() -> None:
    stream = io.StringIO()
    guard = Guard(stream)
    guard.write_own("::error title=t::x\n\r\x1b[1m")
    guard.write("::debug::y")
    assert stream.getvalue() == "::error title=t::x\n\r\x1b[1m: :debug::y"


def test_a_guard_cannot_be_gone_around_by_its_buffer() -> None:
    assert not hasattr(Guard(sys.__stdout__), "buffer")
    assert Guard(io.StringIO()).readable()  # in all else it is the stream


def test_lines_stay_lines_on_either_stream(capsys: pytest.CaptureFixture[str]) -> None:
    say("one\n::two", "", f"{OSC}three")
    say("warning: four\rfive", err=True)
    say()
    out, err = capsys.readouterr()
    assert out == "one\ufffd::two\n\n\ufffd]52;c;eA==\ufffdthree\n"
    assert err == "warning: four\ufffdfive\n"


def test_streams_that_are_closed_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    with guarded():
        say("a")
        say("b", err=True)
        show_json("{}")
        write_own("\r", err=True)
        assert sys.stdout is None
    assert not is_terminal()
    assert not is_terminal(err=True)
    assert is_plain()


def test_inside_a_guard_python_and_libraries_are_guarded_and_outside_no_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = sys.stdout, sys.stderr
    with guarded(), guarded():
        print(f"{OSC}\n::x")  # noqa: T201
        logging.lastResort.emit(logging.makeLogRecord({"msg": OSC}))
        with printing_to_stderr():
            print("\u202e")  # noqa: T201
    assert (sys.stdout, sys.stderr) == before
    out, err = capsys.readouterr()
    assert out == "\ufffd]52;c;eA==\ufffd\n: :x\n"
    assert err == "\ufffd]52;c;eA==\ufffd\n\ufffd\n"


def test_a_traceback_at_the_very_end_of_a_process_is_guarded() -> None:
    code = (
        "from ctxbench.io.console import guarded\nwith guarded(for_good=True): pass\nraise ValueError('\\x1b[2J\\n::x')"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert done.stderr.endswith("ValueError: \ufffd[2J\n: :x\n")


def test_a_text_is_printed_with_no_line_end_that_it_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    show_text("a\tb\n\nc")
    show_text("")
    show_text("d\n::x \x1b[2J")
    assert capsys.readouterr().out == "a\tb\n\ncd\n: :x \ufffd[2J"


def test_json_is_escaped_and_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"\x9b31m": ["\u202e", "##[x]", "::x", "caf\u00e9"]}
    show_json(json.dumps(value, ensure_ascii=False, indent=2))
    out = capsys.readouterr().out
    assert json.loads(out) == value
    assert "caf\u00e9" in out
    assert not set(out) & set("\x9b\u202e")


def test_texts_in_tables_are_visible_before_they_are_styled() -> None:
    table = Table("a", show_edge=False)
    table.add_row(Text("\x1b[2J [b]\x9b31m[/b]", style="bold"))
    table.add_row(" ::error::x")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream in (io.StringIO(), Terminal()):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TERM", "xterm")
            patch.delenv("NO_COLOR", raising=False)
            show_tables(lambda _: [table], file=stream, width=60)
        text = stream.getvalue()
        assert "\ufffd[2J [b]\ufffd31m" in text
        assert ("\x1b[1m" in text) is stream.isatty()
        assert ": :error" in text
        assert "\x1b[2J" not in text
        assert not set(text) & set("\x9b")


# ------------------------------------------------------------------------------------------------ what goes around

# What writes to a stream, and modules that do; each by the name that it is imported by.
WRITING = {
    *("print", "input", "breakpoint", "open_new", "typer.echo", "typer.secho", "typer.prompt", "typer.confirm"),
    *("typer.echo_via_pager", "typer.progressbar", "traceback.print_exc", "traceback.print_exception"),
    *("traceback.print_stack", "warnings.warn", "warnings.warn_explicit", "warnings.showwarning", "os.write"),
    *("os.system", "os.fdopen", "os.dup2", "logging.basicConfig", "logging.StreamHandler", "logging.FileHandler"),
    *("logging.lastResort", "pprint.pprint", "pprint.pp", "faulthandler.enable"),
}
MODULES = {"click", "getpass", "curses", "pdb", "rich.progress", "rich.prompt", "rich.live", "rich.status", "tqdm"}
STREAMS = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__", "sys.displayhook", "sys.excepthook"}
RICH = {"rich.console.Console", "rich.print", "rich.get_console", "rich.inspect", "rich.print_json"}
STARTING = {f"subprocess.{name}" for name in ("Popen", "run", "call", "check_call", "check_output", "getoutput")}
DEVICES = ("/dev/tty", "/dev/std", "/dev/fd", "/dev/pts", "/proc/self/fd")
TOLD = {
    "fail",
    "skip",
    "exit",
    "xfail",
    "write_line",
    "write",
    "section",
    "AssertionError",
    "warn",
}  # what pytest prints

# Where one stands all the same: the file, the name, and why.
ALLOWED = {
    ("__main__.py", "os.write"),  # a text of ours, before anything is imported
    (LENDING, "os.write"),  # likewise, in the midst of a signal
    (LENDING, "os.dup2"),
    ("selectors/external.py", "os.write"),  # to a file
    ("catalogs/mcp_capture.py", "os.fdopen"),  # a pipe, for what a server says on standard error
    ("testing/conformance.py", "subprocess.Popen"),  # a strategy under test says itself why it fails
    *(("io/files.py", name) for name in ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")),  # what may be read
}
OWN = {"io/console.py", "cli/check.py"}  # rewrites its line; prints workflow commands


def named(node: ast.AST, imported: dict[str, str]) -> str:
    """The full name of what a name or attribute stands for; empty if it is none."""
    if isinstance(node, ast.Name):
        return imported.get(node.id, node.id)
    if isinstance(node, ast.Attribute) and (of := named(node.value, imported)):
        return f"{of}.{node.attr}"
    return ""


def imports_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names that a file imports anywhere, and what they stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield one.asname or one.name.split(".")[0], one.name if one.asname else one.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                yield one.asname or one.name, f"{node.module or ''}.{one.name}"


def typed_only(tree: ast.AST) -> set[ast.AST]:
    """What stands under `if TYPE_CHECKING`, and annotations: it never runs."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST] = []
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            parts = list(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts = [*([node.returns] if node.returns else [])]
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            parts = [node.annotation]
        for part in parts:
            found |= set(ast.walk(part))
    return found


def faults_of(source: str, file: str) -> list[str]:
    """Every place of a file where something is printed past the door."""
    tree = ast.parse(source)
    if file == DOOR:
        return []
    imported, silent, faults = dict(imports_of(tree)), typed_only(tree), []
    for node in ast.walk(tree):
        if node in silent:
            continue
        where = f"{file}, line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [one.name for one in node.names]
            full = [f"{node.module}.{name}" for name in names] if isinstance(node, ast.ImportFrom) else names
            faults += [f"{where}: imports {one}" for one in full if touches(one, MODULES) or one in RICH]
            continue
        device = str(node.value) if isinstance(node, ast.Constant) else ""
        if device.startswith(DEVICES) and (file, device) not in ALLOWED:
            faults.append(f"{where}: {device}")
        started = named(node.func, imported) if isinstance(node, ast.Call) and not kept(node) else ""
        if started in STARTING and (file, started) not in ALLOWED:
            faults.append(f"{where}: a process that prints to our streams; name its stdout and stderr")
        if not isinstance(node, ast.Name | ast.Attribute):
            if file.startswith("pytest_plugin/"):
                faults += [f"{where}: {fault}" for fault in pytest_faults(node)]
            continue
        name = named(node, imported)
        if name.startswith("ctxbench.") and name.endswith(".write_own") and file not in OWN:
            faults.append(f"{where}: write_own")
        if name in STREAMS and file != LENDING:
            faults.append(f"{where}: {name}")
        if name in WRITING | RICH and (file, name) not in ALLOWED:
            faults.append(f"{where}: {name}")
    return faults


def kept(call: ast.Call) -> bool:
    """Whether what a process prints is kept from our streams."""
    given = {one.arg for one in call.keywords}
    return "capture_output" in given or {"stdout", "stderr"} <= given


def touches(name: str, modules: set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in modules)


def pytest_faults(node: ast.AST) -> Iterator[str]:
    """What pytest will print must be the outcome of `joined`, or of a function of the plugin that ends with it."""
    if not (isinstance(node, ast.Call) and node.args):
        return
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    first = node.args[0]
    fit = isinstance(first, ast.Call) and getattr(first.func, "id", "") == "joined"
    if called in TOLD and not fit and not (isinstance(first, ast.Constant) or getattr(first, "id", "") == "message"):
        yield f"{called} of what is not joined(...)"


def test_nothing_is_printed_past_the_door() -> None:
    files = sorted(ROOT.rglob("*.py"))
    assert len(files) > 150
    faults = [
        fault for path in files for fault in faults_of(path.read_text("utf-8"), path.relative_to(ROOT).as_posix())
    ]
    assert faults == []


@pytest.mark.parametrize(
    "source",
    [
        "print('x')",
        "import sys\nsys.stdout.write('x')",
        "import sys as s\ns.stderr.write('x')",
        "from sys import stderr\nstderr.write('x')",
        "import sys\ndef f(to=sys.__stderr__): to.write('x')",
        "def f():\n    import typer\n    typer.echo('x')",
        "from typer import echo as say\nsay('x')",
        "from click import echo",
        "import click",
        "from rich import print as show",
        "import rich\nrich.print('x')",
        "from rich.console import Console\nConsole().print('x')",
        "import rich.console\nrich.console.Console()",
        "from rich.progress import track",
        "import traceback\ntraceback.print_exc()",
        "import logging\nlogging.getLogger().addHandler(logging.StreamHandler())",
        "from logging import basicConfig\nbasicConfig()",
        "import warnings\nwarnings.warn('x')",
        "import os\nos.write(1, b'x')",
        "input('x')",
        "from ctxbench.io.console import write_own\nwrite_own('x')",
        "write = print\nwrite('x')",
        "open('/dev/tty', 'w').write('x')",
        "import subprocess\nsubprocess.run(['x'], stdout=subprocess.PIPE)",
    ],
)
def test_each_way_around_the_door_is_found(source: str) -> None:
    assert faults_of(source, "cli/new.py")


@pytest.mark.parametrize(
    "source",
    [
        "from ctxbench.io.console import say\nsay('x')",
        "if TYPE_CHECKING:\n    from rich.console import Console\ndef f(c: Console): ...",
        "import logging\nlogging.getLogger(__name__).warning('x')",
        "from rich.text import Text\nText('x')",
        "import sys\nsys.modules",
    ],
)
def test_what_does_not_print_is_no_fault(source: str) -> None:
    assert faults_of(source, "cli/new.py") == []


def test_what_pytest_prints_for_the_plugin_is_joined() -> None:
    assert faults_of("import pytest\npytest.fail(str(error))", "pytest_plugin/new.py")
    assert faults_of("reporter.write_line(f'{x}')", "pytest_plugin/new.py")
    assert not faults_of("import pytest\npytest.fail(joined([x]))", "pytest_plugin/new.py")
