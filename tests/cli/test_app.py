"""Help, exit codes, and what is loaded for them."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import ctxbench
from ctxbench.cli.app import app
from ctxbench.io.errors import ParameterError
from tests.children import child

HEAVY = {"numpy", "pandas", "onnxruntime", "pydantic", "httpx", "rich", "tokenizers", "yaml", "scipy", "jsonschema"}
FULL = Path("/dev/full")
needs_full_device = pytest.mark.skipif(not FULL.exists(), reason="the system has no device that is always full")


def commands(group=None, path=()):
    """Every command by its words, groups included."""
    found = {path: group or typer.main.get_command(app)}
    for name, command in getattr(found[path], "commands", {}).items():
        found |= commands(command, (*path, name))
    return found


COMMANDS = commands()


def test_the_commands_are_those_that_are_documented():
    assert sorted(" ".join(path) for path in COMMANDS) == [
        "",
        "calibrate",
        "check",
        "comment",
        "context",
        "context import",
        "data",
        "data agreement",
        "data capture",
        "data diff",
        "data export",
        "data fetch",
        "data from-feedback",
        "data from-git",
        "data import",
        "data label",
        "data list",
        "data overlap",
        "data pool",
        "data rebase",
        "data review",
        "data show",
        "data split",
        "data stats",
        "data validate",
        "graph",
        "init",
        "latency",
        "memory",
        "memory build",
        "memory import",
        "memory preview",
        "memory search",
        "report",
        "run",
        "score",
        "select",
        "serve",
        "setup",
        "tune",
    ]


@pytest.fixture(scope="module")
def of_typer():
    """What `import typer` loads by itself."""
    code = "import sys, typer; print(*sys.modules)"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
        ).stdout.split()
    )


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_loads_nothing_heavy(words, modules, of_typer):
    loaded, done = modules(*words, "--help")
    assert done.out.startswith("Usage:")
    assert loaded & HEAVY <= of_typer
    own = {"", ".cli", ".cli.app", ".cli.common", ".io", ".io.console", ".io.errors"}
    if words[:1] == ("data",):
        own |= {".cli.data_app"}
    if words[:1] in (("memory",), ("context",)):
        own |= {".cli.memory_app"}
    assert {name for name in loaded if name.startswith("ctxbench")} == {f"ctxbench{name}" for name in own}


def test_a_selection_loads_no_package_that_it_does_not_need(modules, tiny):
    arguments = ("select", "hello", "--catalog", tiny, "--embedder", "hashing", "--set", "at_most=1", "--json")
    loaded, done = modules(*arguments)
    assert not {"rich", "httpx", "pandas", "scipy", "jsonschema"} & loaded
    assert done.json["parameters"]["at_most"] == 1


def test_numbers_on_the_command_line_are_checked(cli, tiny):
    done = cli("select", "hello", "--catalog", tiny, "--near", "-1")
    assert done.code == 2
    assert "Invalid value for '--near'" in done.err
    assert cli("select", "hello", "--catalog", tiny, "--near", "x").code == 2
    assert "Missing argument 'TEXT'" in cli("select", "--catalog", tiny).err
    assert "Missing option" in cli("graph", tiny).err
    assert "name the items to choose from: --catalog FOLDER, or --agent FILE" in cli("select", "hello").err


def test_the_version_is_the_package_s(cli):
    done = cli("--version")
    assert (done.code, done.out) == (0, f"ctxbench {ctxbench.__version__}\n")


def test_without_a_command_there_is_help(cli):
    assert "Commands:" in "".join((done := cli()).out + done.err)
    assert "validate" in "".join((done := cli("data")).out + done.err)


@pytest.mark.parametrize(
    ("words", "meant"), [(["selct"], "select"), (["data", "shw"], "show"), (["run", "x", "--frsh"], "--fresh")]
)
def test_an_unknown_command_or_option_names_the_closest(cli, words, meant):
    done = cli(*words)
    assert (done.code, done.out) == (2, "")
    assert meant in done.err.splitlines()[-1]


def test_a_fault_of_the_user_is_one_message_and_exit_2(cli, monkeypatch):
    def fail(*, as_json):
        raise ParameterError("the moon must be full, got half")

    monkeypatch.setattr("ctxbench.cli.data.list_datasets", fail)
    done = cli("data", "list")
    assert (done.code, done.out, done.err) == (2, "", "error: the moon must be full, got half\n")


@pytest.mark.parametrize("bug", [KeyError("x"), EOFError(), OSError(errno.EBADF, "no such handle")])
def test_a_bug_keeps_its_traceback(bug, monkeypatch):
    def fail(*, as_json):
        raise bug

    monkeypatch.setattr("ctxbench.cli.data.list_datasets", fail)
    with pytest.raises((KeyError, RuntimeError, OSError)) as raised:
        app(["data", "list"])
    assert raised.value is bug or raised.value.__cause__ is bug


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_no_bug_wherever_it_shows(process, number):
    start = (
        "import ctxbench.cli.data as data\n"
        f"def fail(*, as_json): raise OSError({number}, 'no room', 'a/file')\n"
        "data.list_datasets = fail"
    )
    done = process("data", "list", start=start)
    assert (done.code, done.out, done.err) == (
        2,
        "",
        "error: cannot write a/file: no room; free some space and try again\n",
    )


def test_ctrl_c_promises_no_going_on_where_nothing_is_kept(cli, monkeypatch):
    def fail(*, as_json):
        raise KeyboardInterrupt

    monkeypatch.setattr("ctxbench.cli.data.list_datasets", fail)
    done = cli("data", "list")
    assert (done.code, done.out) == (130, "")
    assert done.err == "stopped: nothing is half-written\n"


def test_ctrl_c_inside_the_making_of_a_class_is_still_ctrl_c(cli, monkeypatch):
    def fail(*, as_json):
        raise RuntimeError("Error calling __set_name__ on 'Field' instance") from KeyboardInterrupt()

    monkeypatch.setattr("ctxbench.cli.data.list_datasets", fail)
    done = cli("data", "list")
    assert (done.code, done.err) == (130, "stopped: nothing is half-written\n")


@needs_full_device
@pytest.mark.parametrize("words", [["--help"], ["data", "list"], ["data", "list", "--json"]], ids=" ".join)
def test_output_that_finds_no_room_is_an_error(process, words):
    with FULL.open("w") as full:
        done = process(*words, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.code == 2
    assert done.err == "error: cannot write the output: No space left on device; free some space and try again\n"


@needs_full_device
def test_an_error_that_nobody_can_read_keeps_its_code(process):
    with FULL.open("w") as full:
        done = process("check", "nothing.yaml", capture_output=False, stdout=subprocess.DEVNULL, stderr=full)
    assert done.code == 2


@pytest.mark.parametrize("words", [["data", "show", "{tiny}"], ["data", "show", "{tiny}", "--json"]], ids=["", "json"])
def test_a_reader_that_leaves_is_no_error(words, tiny):
    code = "import sys\nfrom ctxbench.cli.app import main\nsys.stdin.readline()\nmain(sys.argv[1:])"
    arguments = [word.format(tiny=tiny) for word in words]
    with child(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        started.stdout.close()
        started.stdin.write("go\n")
        started.stdin.close()
        assert started.stderr.read() == ""
    assert started.returncode == 0


def test_characters_that_the_output_cannot_hold_do_not_stop_a_command(process, tiny):
    arguments = ("select", "grüße \U0001f600", "--catalog", tiny, "--embedder", "hashing", "--json")
    done = process(*arguments, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.code == 0, done.err
    assert done.out.isascii()
    assert done.json["chunks"] == ["grüße \U0001f600"]


def test_bytes_that_are_no_text_are_taken_as_a_request(process, tiny):
    done = process("select", b"hello \xff".decode("utf-8", "surrogateescape"), "--catalog", tiny, "--embedder=hashing")
    assert done.code == 0, done.err
    assert "items offered" in done.out
