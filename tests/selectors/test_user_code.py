"""Code of others in this process: it ends nothing, and standard output is as it was."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from ctxbench.selectors.callable import EndedError, confined, exit_held, stdout_to_stderr

REAL = os._exit


@pytest.fixture(autouse=True)
def all_is_put_back():
    yield
    assert os._exit is REAL


def test_the_way_out_raises_where_it_was_called():
    said = r"^os\._exit\(0\) was called \(test_user_code\.py, line \d+\), which would have ended ctxbench$"
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
        thread.join(timeout=60)

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
from ctxbench.selectors.callable import confined
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
    program = "from ctxbench.selectors.callable import confined\nwith confined(): print('x')"
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" >&- 2>&-', sys.executable, program], capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_streams_in_memory_are_redirected_too(capsys):
    with stdout_to_stderr():
        sys.stdout.write("x\n")
        sys.stdout.buffer.write(b"y\n")
    assert capsys.readouterr() == ("", "x\ny\n")


# ---------------------------------------------------------------------------------------------- Ctrl-C

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals")
CALLED = """
import os, signal, sys, threading
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch, Request
from ctxbench.selectors.callable import CallableSource
from ctxbench.selectors.external import External

def press():
    os.kill(os.getpid(), signal.SIGINT)

def swallows(request, items):
    try:
        press()
    except BaseException:
        print("swallowed", request["id"], flush=True)
    return []

def never_ends(request, items):
    while True:
        try:
            press()
        except:
            print("swallowed", request["id"], flush=True)

def says_otherwise(request, items):
    try:
        press()
    finally:
        raise ValueError("mine")

def ask(function):
    batch = Batch.of(Catalog([]), [Request(id="q1", text=""), Request(id="q2", text="")])
    with External(CallableSource(function), name="mine") as selector:
        return selector.select(batch)
"""


def called(text):
    """How a process ends that runs this after `CALLED`."""
    return subprocess.run(
        [sys.executable, "-c", CALLED + textwrap.dedent(text)], check=False, capture_output=True, text=True, timeout=60
    )


@posix
@pytest.mark.parametrize("function", ["swallows", "says_otherwise"])
def test_ctrl_c_that_is_caught_by_code_of_others_is_raised_again_when_it_returns(function):
    done = called(
        f"""
        try:
            ask({function})
        except KeyboardInterrupt as stopped:
            print(stopped.__notes__, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        """
    )
    assert done.stdout == "['the callable was stopped (<string>, line 9)'] True\n"
    assert done.stderr == ("swallowed q1\n" if function == "swallows" else "")  # and q2 was not asked


@posix
def test_a_second_ctrl_c_ends_the_process_at_once():
    done = called("sys.stdout.write('before')\nask(never_ends)\nprint('not reached')")
    assert (done.returncode, done.stdout) == (130, "before")
    again = "stopped at once (second Ctrl-C)\n"
    assert done.stderr == f"swallowed q1\n{again}"


@posix
def test_ctrl_c_that_is_ignored_or_handled_by_a_program_stays_so():
    done = called(
        """
        for handler in (signal.SIG_IGN, lambda *_: print("mine", file=sys.stderr)):
            signal.signal(signal.SIGINT, handler)
            assert ask(swallows).errors == {}
            assert signal.getsignal(signal.SIGINT) is handler
        """
    )
    assert (done.returncode, done.stderr) == (0, "mine\nmine\n")


@posix
def test_in_another_thread_no_handler_can_be_set_and_none_is():
    done = called(
        """
        def work():
            ask(lambda request, items: [])
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_handler_is_put_back_whatever_was_set_inside():
    before = signal.getsignal(signal.SIGINT)
    with confined(), confined():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before
