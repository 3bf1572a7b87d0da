"""What code of others does to the process of a check: it is a fault of theirs, and never a verdict."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ctxbench.gate.settings import guard_exit
from ctxbench.io.errors import ParameterError, SelectorError

TINY = Path(__file__).parents[1] / "fixtures" / "tiny"
ANSWER = "return [] if request.get('available') else ['tool:weather:get_forecast']"
LATE = """
import os, threading
def late(): threading.main_thread().join(); os._exit(0)
threading.Thread(target=late).start()
"""
AGAIN = """
import os, threading
def again():
    while True:
        try: os._exit(0)
        except BaseException: pass
threading.Thread(target=again, daemon=True).start()
"""
GOOD = f"def select(request, items):\n    {ANSWER}\n"


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A folder with a gate file over the tiny dataset, a callable, and the baseline of what that answers."""
    place = tmp_path_factory.mktemp("gate")
    shutil.copytree(TINY, place / "data")
    told = {"name": "tiny", "datasets": ["data"], "selectors": [{"callable": "mine.py:select", "name": "mine"}]}
    told["gate"] = {"pins": [{"query": "q07", "must_include": ["tool:weather:get_forecast"]}]}
    (place / "gate.yaml").write_text(yaml.safe_dump({**told, "embedder": "hashing", "tokens": "chars/4"}))
    (place / "mine.py").write_text(GOOD)
    code, _, err = ctxbench(place, "--accept")
    assert code == 0, err
    return place


@pytest.fixture
def check(accepted):
    """Check with another callable, in a process; returns exit code, what it found as JSON or text, and the rest."""

    def run(*lines, head=(), answers=ANSWER):
        (accepted / "mine.py").write_text("\n".join([*head, "def select(request, items):", *lines, f"    {answers}"]))
        code, out, err = ctxbench(accepted, "--output-format", "json")
        return code, json.loads(out) if out else {}, err

    return run


def ctxbench(place, *options):
    environment = {**os.environ, "CTXBENCH_CACHE": str(place / "cache"), "CTXBENCH_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "ctxbench", "check", *options],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("head", "lines", "reason"),
    [
        ("import os", "    os._exit(0)", "os._exit(0) was called (mine.py, line 3), which would have ended ctxbench"),
        ("import sys", "    sys.exit(0)", "the callable raised SystemExit: 0 (mine.py, line 3)"),
        ("from os import _exit", "    _exit(0)", "os._exit(0) was called (mine.py, line 3)"),
        (
            "import os",
            "    try: os._exit(0)\n    except BaseException: pass",
            "os._exit(0) was called (mine.py, line 3)",
        ),
        (
            "import os, threading",
            "    t = threading.Thread(target=lambda: os._exit(0)); t.start(); t.join()",
            "os._exit(0) was called (mine.py, line 3)",
        ),
        ("import asyncio", "    raise asyncio.CancelledError", "the callable raised CancelledError (mine.py, line 3)"),
    ],
)
def test_a_callable_that_would_end_the_check_is_a_fault_of_each_query(check, head, lines, reason):
    code, found, err = check(lines, head=[head])
    assert (code, found["verdict"]) == (2, "not comparable"), err
    assert reason in " ".join(found["selectors"][0]["reasons"])


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("import os; os._exit(0)", "while mine.py was imported, os._exit(0) was called (mine.py, line 1), which would"),
        ("import sys; sys.exit(0)", "importing mine.py raised SystemExit: 0 (mine.py, line 1)"),
        ("import asyncio; raise asyncio.CancelledError", "importing mine.py raised CancelledError (mine.py, line 1)"),
    ],
)
def test_a_file_that_would_end_the_check_when_it_is_imported_is_a_fault(check, head, reason):
    code, _, err = check(head=[head])
    assert code == 2
    assert reason in err
    assert "gate.yaml, line" in err


@pytest.mark.parametrize(
    ("head", "lines", "where"),
    [
        ("raise KeyboardInterrupt", "    pass", "mine.py was being imported (mine.py, line 1)"),
        ("import os", "    raise KeyboardInterrupt", "the callable was stopped (mine.py, line 3)"),
    ],
)
def test_an_interrupt_says_where_it_was_and_is_no_verdict(check, head, lines, where):
    code, found, err = check(lines, head=[head])
    assert (code, found) == (130, {})
    assert err.strip() == f"stopped: nothing is half-written, and {where}"


@pytest.mark.parametrize(
    ("head", "lines"),
    [
        ("import sys", "    sys.stdout.close(); sys.stderr.close(); sys.__stdout__.close(); sys.__stderr__.close()"),
        ("import sys, os", "    sys.stdout = sys.stderr = open(os.devnull, 'w')"),
        ("import sys, io; sys.stdout = io.TextIOWrapper(sys.stdout.buffer, 'utf-8')", "    print('x')"),
        ("import sys, io; sys.stdout = io.TextIOWrapper(sys.stdout.detach(), 'utf-8')", "    print('x')"),
        ("import os", "    os.close(1); os.close(2)"),
        ("import sys", "    sys.__stdout__.write('{')"),
        ("import threading, sys", "    threading.Thread(target=sys.exit, args=(0,)).start()"),
        ("import os", "    if not os.fork(): os._exit(3)\n    assert os.waitstatus_to_exitcode(os.wait()[1]) == 3"),
    ],
)
def test_what_a_callable_does_to_the_streams_of_the_process_changes_no_verdict(check, head, lines):
    code, found, err = check(lines, head=[head])
    assert (code, found["verdict"]) == (0, "same"), err


def test_a_fault_beside_closed_streams_is_told(check):
    close = "    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__): stream.close()"
    code, found, err = check(close, head=["import sys"], answers="return 3")
    assert (code, found["verdict"]) == (2, "not comparable"), err


@pytest.mark.parametrize(
    ("head", "lines", "code"),
    [
        ("import atexit, os; atexit.register(lambda: os._exit(0))", "", 1),
        ("import atexit; atexit.register(print, 'late')", "", 1),
        (LATE, "", 1),
        ("import posix", "    posix._exit(0)", 2),
        (AGAIN, "", 2),
    ],
)
def test_what_is_left_running_does_not_end_a_check_with_another_code(check, head, lines, code):
    found = check(lines, head=[head], answers="return []")
    assert found[0] == code, found[2]
    assert found[1]["verdict"] == {1: "worse", 2: "not comparable"}[code]


WORKERS = """
import multiprocessing, os, tempfile
pool = multiprocessing.get_context("fork").Pool(2)
folder = tempfile.TemporaryDirectory()
open("left.txt", "w").write(f"{pool._pool[0].pid} {folder.name}")
"""


def test_processes_and_folders_of_a_callable_are_cleaned_up_at_the_end(check, accepted):
    code, found, err = check("    pool.map(len, ['a'])", head=[WORKERS])  # a worker that stays would hold our pipe
    assert (code, found["verdict"]) == (0, "same"), err
    process, folder = (accepted / "left.txt").read_text().split()
    assert not Path(folder).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(process), 0)


# ------------------------------------------------------------------------------------------------------ the whole check


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda: os._exit(0), r": os\._exit\(0\) was called \(test_gate_foreign_code\.py, line \d+\), which would"),
        (lambda: sys.exit(0), " with SystemExit: 0; fix"),
        (lambda: asyncio.run(cancelled()), " with CancelledError; fix"),
    ],
)
def test_whatever_else_ends_a_check_is_a_fault(end, how):
    with (
        pytest.raises(SelectorError, match=f"^code that is not of ctxbench ended the check{how}"),
        guard_exit(),
    ):
        end()


async def cancelled():
    raise asyncio.CancelledError


@pytest.mark.parametrize("error", [KeyboardInterrupt, ParameterError("n must be 1"), ZeroDivisionError])
def test_errors_and_ctrl_c_go_through_a_check(error):
    with pytest.raises(error if isinstance(error, type) else type(error)), guard_exit():
        raise error
