"""Code of others in this process: it ends nothing, and standard output is as it was."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import threading

import pytest

from ctxbench.selectors.foreign import EndedError, confined, exit_held, stdout_to_stderr

REAL = os._exit


@pytest.fixture(autouse=True)
def all_is_put_back():
    yield
    assert os._exit is REAL


def test_the_way_out_raises_where_it_was_called():
    said = r"^os\._exit\(0\) was called \(test_foreign\.py, line \d+\), which would have ended ctxbench$"
    with pytest.raises(EndedError, match=said), confined():
        os._exit(0)


def test_the_way_out_is_told_even_if_it_was_caught():
    with pytest.raises(EndedError, match=r"os\._exit\(3\) was called"), confined(), contextlib.suppress(SystemExit):
        os._exit(3)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_way_out_is_told_if_another_thread_took_it():
    def leave():
        os._exit(0)

    def in_another_thread():
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()

    with pytest.raises(EndedError, match=r"os\._exit\(0\) was called"), confined():
        in_another_thread()
    with confined():
        pass  # told once


def test_nested_the_innermost_tells_and_the_last_puts_back():
    with exit_held():
        with pytest.raises(EndedError), confined():
            os._exit(0)
        assert os._exit is not REAL
    assert os._exit is REAL


def test_what_is_raised_inside_comes_out():
    with pytest.raises(ZeroDivisionError), confined():
        1 / 0  # noqa: B018


def test_a_child_leaves_as_it_likes():
    with confined():
        child = os.fork()
        if not child:
            os._exit(7)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7


def run(text):
    """A program that prints before, does something inside, and prints after; its output and what it said else."""
    program = f"""
import io, logging, os, sys
from ctxbench.selectors.foreign import confined
print("before")
with confined():
{textwrap.indent(textwrap.dedent(text), "    ")}
print("after")
print("still here", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout.split(), done.stderr.splitlines()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print('x')", ["x"]),
        ("sys.__stdout__.write('x\\n')", ["x"]),
        ("sys.stdout.write('x\\n'); sys.stdout.close(); sys.stderr.close(); sys.__stdout__.close()", ["x"]),
        ("os.close(1); os.close(2)", []),
        ("os.closerange(1, 3)", []),
        ("sys.stdout = open(os.devnull, 'w'); sys.stderr = None", []),
        ("sys.stdout = io.TextIOWrapper(sys.stdout.buffer); print('x'); del sys.stdout", ["x"]),
        ("sys.stderr = io.TextIOWrapper(sys.stderr.detach()); print('x', file=sys.stderr)", ["x"]),
        ("sys.stdout.buffer.write(b'x\\n')", ["x"]),
        ("sys.stdout.buffer.close(); sys.stdout.buffer.write(b'x\\n'); sys.stdout.flush()", ["x"]),
        ("os.write(1, b'x\\n'); os.system('echo y')", ["x", "y"]),
        ("print(sys.stdout.fileno(), sys.stdout.encoding, sys.stdout.closed)", ["2 utf-8 False"]),
    ],
)
def test_standard_output_and_error_are_as_they_were(text, said):
    assert run(text) == (0, ["before", "after"], [*said, "still here"])


def test_a_log_that_was_opened_inside_goes_on_afterwards():
    text = "log = logging.StreamHandler(sys.stdout); log.emit(logging.makeLogRecord({'msg': 'one'}))"
    code, out, said = run(text + "\nsys.modules['kept'] = log")
    assert (code, out, said) == (0, ["before", "after"], ["one", "still here"])


def test_without_standard_streams_nothing_fails():
    program = "from ctxbench.selectors.foreign import confined\nwith confined(): print('x')"
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" >&- 2>&-', sys.executable, program], capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_streams_in_memory_are_redirected_too(capsys):
    with stdout_to_stderr():
        sys.stdout.write("x\n")
        sys.stdout.buffer.write(b"y\n")
    assert capsys.readouterr() == ("", "x\ny\n")
