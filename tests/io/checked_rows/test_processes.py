"""Rows that several processes and threads use at once, one of which may be killed."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import re
import subprocess
import sys
import threading

import pytest

from ctxbench.io import cache
from ctxbench.io.cache import CheckedRows
from ctxbench.io.errors import StorageError
from ctxbench.io.files import exclusive
from tests.children import LIMIT, child
from tests.io.checked_rows.rows_cases import NO_DATABASE, OPEN, killed_inside_a_transaction


def _reporting(program, *given):
    return child([sys.executable, "-c", program, *given], stderr=subprocess.PIPE, text=True)


def _write(path, first):
    rows = CheckedRows(path, "things")
    for number in range(first, first + 20):
        rows.put({b"%d" % number: b"%d" % (number % 4)})


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # forking, from 3.12
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_take_turns(rows, path, method):
    if method == "fork":
        rows.put({b"before": b""})  # the children inherit an open connection and must not use it
    context = multiprocessing.get_context(method)
    workers = [context.Process(target=_write, args=(path, first)) for first in (0, 10, 20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(LIMIT)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    expected = {b"%d" % number: b"%d" % (number % 4) for number in range(40)}
    assert rows.get(expected) == expected


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # forking, from 3.12
def test_rows_inherited_by_a_fork_open_their_own_connection(rows):
    rows.put({b"a": b"1"})
    process = os.fork()
    if process == 0:
        try:
            ok = bool(rows.get([b"a"]))
            rows.put({b"b": b"2"})
        finally:
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    rows.put({b"c": b"3"})
    assert len(rows.get([b"a", b"b", b"c"])) == 3


def test_a_process_killed_inside_a_transaction_leaves_the_one_before(rows, path):
    killed_inside_a_transaction(path)
    assert len(rows) == 1
    assert rows.get([b"whole"]) == {b"whole": b"1"}


def test_processes_that_find_a_file_damaged_at_once_end_with_a_sound_one(path):
    path.parent.mkdir()
    path.write_bytes(NO_DATABASE)
    program = OPEN + "\nfor n in range(40): rows.put({b'%02d' % n: b'%d' % n}); assert rows.get([b'%02d' % n])"
    with contextlib.ExitStack() as end:
        started = [end.enter_context(_reporting(program, path)) for _ in range(3)]
        errors = [process.communicate(timeout=LIMIT)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], errors
    assert len(re.findall("was replaced", "".join(errors))) == 1
    rows = CheckedRows(path, "things")
    assert len(rows) == 40
    rows.close()


def test_rows_that_are_open_while_their_file_is_damaged_again_and_again_are_never_wrong(opened, path):
    dice = random.Random(3)
    users = [opened(), opened()]
    keys = [b"%03d" % number for number in range(300)]
    for turn in range(60):
        rows = users[turn % 2]
        asked = dice.sample(keys, 30)
        found = rows.get(asked)
        assert all(value == key * 100 for key, value in found.items())
        rows.put({key: key * 100 for key in asked if key not in found})
        with path.open("r+b") as file:
            file.seek(dice.randrange(path.stat().st_size))
            file.write(dice.randbytes(dice.choice([1, 8, 500])))


def test_rows_serve_other_threads_than_the_one_that_opened_them(rows):
    rows.put({b"a": b"1"})
    seen = []
    thread = threading.Thread(target=lambda: seen.append(rows.get([b"a"])))
    thread.start()
    thread.join(LIMIT)
    assert seen == [{b"a": b"1"}]


def test_what_goes_wrong_is_a_line_on_standard_error(path):
    path.parent.mkdir()
    path.write_bytes(NO_DATABASE)
    command = [sys.executable, "-c", OPEN + "rows.get([b'a'])", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert done.stderr.startswith(f"{path} cannot be used")


def test_a_lock_that_another_process_keeps_is_an_error_after_a_while(rows, path, monkeypatch):
    rows.put({b"a": b"1"})
    monkeypatch.setattr(cache, "_BUSY_SECONDS", 0.3)
    kept = "rows.sqlite was locked by another process for 0 s; end that process, or choose another cache folder"
    with exclusive(path.with_name(".rows.sqlite.lock"), waiting=lambda: pytest.fail("nobody else has it")):
        with pytest.raises(StorageError, match=kept):
            rows.put({b"b": b"2"})
        assert rows.get([b"a", b"b"]) == {b"a": b"1"}
    rows.put({b"b": b"2"})
    assert rows.get([b"b"]) == {b"b": b"2"}
