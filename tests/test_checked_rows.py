"""Rows that are checked when they are read: damage, places that cannot be written, several processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ctxbench import checked_rows
from ctxbench.checked_rows import CheckedRows
from ctxbench.errors import StorageError

START = "import sys\nfrom pathlib import Path\nfrom ctxbench.checked_rows import CheckedRows\n"
OPEN = START + "rows = CheckedRows(Path(sys.argv[1]), 'things')\n"
MANY = {b"%04d" % number: b"value %d" % number * 50 for number in range(3000)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "rows.sqlite"


@pytest.fixture
def opened(path):
    """Opens the file as another process would; closed at the end."""
    with contextlib.ExitStack() as closing:

        def open_rows(**given):
            made = CheckedRows(path, "things", **given)
            closing.callback(made.close)
            return made

        yield open_rows


@pytest.fixture
def rows(opened):
    return opened()


def changed(path, *statements):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(statement)


def locked_out(monkeypatch):
    """Permissions do not stop root, so the question after them is answered otherwise."""
    allowed = os.access
    monkeypatch.setattr(checked_rows.os, "access", lambda place, mode: mode != os.W_OK and allowed(place, mode))


def said(caplog):
    return [record.getMessage() for record in caplog.records]


def test_what_was_put_is_there_for_the_next_process(rows, opened):
    rows.put({b"a": b"1", b"b": b""})
    assert opened().get([b"b", b"?", b"a", b"b"]) == {b"a": b"1", b"b": b""}
    assert len(rows) == 2


def test_a_row_that_is_there_stays(rows):
    rows.put({b"a": b"1"})
    rows.put({b"a": b"2", b"b": b"3"})
    assert rows.get([b"a", b"b"]) == {b"a": b"1", b"b": b"3"}


def test_nothing_is_made_before_the_first_write(rows, path):
    assert (rows.get([b"a"]), len(rows), path.parent.exists()) == ({}, 0, False)
    rows.put({})
    assert path.exists()


def test_more_keys_than_a_statement_takes(rows):
    rows.put(MANY)
    assert rows.get(MANY) == MANY


def test_rows_of_another_maker_are_not_given_out(rows, opened, caplog):
    rows.put({b"a": b"1"})
    assert opened(maker="another").get([b"a"]) == {}
    assert len(said(caplog)) == 1


# ---- damage


def test_a_row_that_was_altered_is_taken_out_and_said_once(rows, path, caplog):
    rows.put({b"a": b"1", b"b": b"2", b"c": b"3"})
    changed(path, "UPDATE things SET value = x'30' WHERE value <> x'32'")
    assert rows.get([b"a", b"b"]) == {b"b": b"2"}
    assert said(caplog) == [f"2 of 3 rows of {path} did not fit their checksums; what they held is made again"]
    assert len(rows) == 1
    rows.put({b"a": b"1"})
    assert rows.get([b"a", b"b", b"c"]) == {b"a": b"1", b"b": b"2"}
    assert len(said(caplog)) == 1


def test_keys_that_lead_to_the_rows_of_others_find_nothing_until_they_are_put_right(rows, path, caplog):
    rows.put({b"%04d" % number: b"%d" % (number % 10) for number in range(40)})
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (table,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'things'").fetchone()
        alike = "SELECT key, value FROM things WHERE checksum >= 2147483648 LIMIT 2"  # those take as many bytes
        (first, one), (second, two) = connection.execute(alike).fetchall()
    rows.close()
    data, end = path.read_bytes(), table * 16384
    at, other = (data.index(key + value, end - 16384, end) for key, value in ((first, one), (second, two)))
    swapped = bytearray(data)
    swapped[at : at + 11], swapped[other : other + 11] = data[other : other + 11], data[at : at + 11]
    path.write_bytes(swapped)
    assert rows.get([first, second]) == {}
    assert said(caplog) == [f"2 of 40 rows of {path} did not fit their checksums; what they held is made again"]
    assert rows.get([first, second]) == {first: one, second: two}  # the index was at fault, and is made anew


NO_DATABASE = b"not a database, but long enough to be looked at" * 100
OLD_TABLE = "CREATE TABLE counts (counter TEXT NOT NULL, sha256 BLOB NOT NULL, tokens INTEGER NOT NULL)"


def test_a_file_that_is_no_database_is_set_aside_and_made_anew(rows, opened, path, caplog):
    path.parent.mkdir(parents=True)
    path.write_bytes(NO_DATABASE)
    assert rows.get([b"a"]) == {}
    (line,) = said(caplog)
    assert line.startswith(f"{path} cannot be used ('file is not a database'): it was set aside as rows.sqlite.aside,")
    assert (path.parent / "rows.sqlite.aside").read_bytes() == NO_DATABASE
    rows.put({b"a": b"1"})
    assert opened().get([b"a"]) == {b"a": b"1"}
    assert sorted(one.name for one in path.parent.iterdir()) == ["rows.sqlite", "rows.sqlite.aside"]
    assert len(said(caplog)) == 1


def test_a_file_found_damaged_by_a_write_takes_the_rows_all_the_same(rows, opened, path):
    path.parent.mkdir(parents=True)
    path.write_bytes(NO_DATABASE)
    rows.put({b"a": b"1"})
    assert opened().get([b"a"]) == {b"a": b"1"}


def test_a_file_of_an_older_version_is_set_aside(rows, path, caplog):
    path.parent.mkdir(parents=True)
    changed(path, OLD_TABLE, "INSERT INTO counts VALUES ('o200k_base', x'00', 7)")
    assert rows.get([b"a"]) == {}
    assert "holds other tables than expected, or those of an older version" in said(caplog)[0]
    rows.put({b"a": b"1"})
    assert rows.get([b"a"]) == {b"a": b"1"}


def test_a_file_that_lost_its_end_is_set_aside(rows, path, caplog):
    rows.put(MANY)
    rows.close()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    found = rows.get(MANY)
    assert all(MANY[key] == value for key, value in found.items())
    assert "set aside as rows.sqlite.aside" in said(caplog)[0]


@pytest.mark.parametrize("part", [slice(0, 100), slice(100, 16384), slice(16384, 32768), slice(32768, None)])
def test_a_file_of_which_a_part_became_zeros_gives_out_nothing_else(rows, path, part):
    rows.put(MANY)
    rows.close()
    data = bytearray(path.read_bytes())
    data[part] = bytes(len(data[part]))
    path.write_bytes(data)
    assert all(MANY[key] == value for key, value in rows.get(MANY).items())
    rows.put(MANY)
    assert rows.get(MANY) == MANY


def test_another_process_that_made_the_file_anew_is_not_robbed_of_it(rows, opened, path, caplog):
    rows.put(MANY)
    other = opened()
    assert other.get([b"0001"])
    with path.open("r+b") as file:  # both have it open
        file.write(bytes(path.stat().st_size))
    assert rows.get(MANY) == {}
    rows.put({b"0001": b"new"})
    assert other.get([b"0002"]) == {}
    assert other.get([b"0001"]) == {b"0001": b"new"}
    assert len(said(caplog)) == 1


def test_a_file_that_was_replaced_while_it_was_open_is_opened_again(rows, opened, path):
    rows.put({b"a": b"1"})
    path.rename(path.with_name("moved"))
    opened().put({b"a": b"2"})
    rows.put({b"b": b"3"})
    assert rows.get([b"a", b"b"]) == {b"a": b"2", b"b": b"3"}


@pytest.mark.slow
def test_single_bits_of_a_file_never_change_a_value_and_what_is_missing_can_be_put_again(path):
    few = dict(list(MANY.items())[:200])
    rows = CheckedRows(path, "things")
    rows.put(few)
    rows.close()
    good = path.read_bytes()
    dice = random.Random(0)
    header = [dice.randrange(100 * 8) for _ in range(200)]
    anywhere = [dice.randrange(len(good) * 8) for _ in range(200)]
    for place in header + anywhere:
        data = bytearray(good)
        data[place // 8] ^= 1 << place % 8
        path.write_bytes(data)
        rows = CheckedRows(path, "things")
        found = rows.get(few)
        assert found.items() <= few.items(), place
        rows.put(few)
        rows.close()
        again = CheckedRows(path, "things")
        assert again.get(few) == few, place
        again.close()
        shutil.rmtree(path.parent)
        path.parent.mkdir()


# ---- places


def test_a_read_only_place_can_be_read(rows, opened, path, monkeypatch):
    rows.put({b"a": b"1"})
    rows.close()
    before = path.read_bytes()
    locked_out(monkeypatch)
    reader = opened()
    assert reader.get([b"a", b"b"]) == {b"a": b"1"}
    assert not reader.writable
    with pytest.raises(StorageError, match="cannot be written"):
        reader.put({b"b": b"2"})
    assert [one.name for one in path.parent.iterdir()] == ["rows.sqlite"]
    assert path.read_bytes() == before


def test_damage_in_a_read_only_place_is_said_once_and_left(rows, opened, path, monkeypatch, caplog):
    rows.put({b"a": b"1", b"b": b"2"})
    changed(path, "UPDATE things SET value = x'30'")
    rows.close()
    before = path.read_bytes()
    locked_out(monkeypatch)
    reader = opened()
    assert [reader.get([key]) for key in (b"a", b"b")] == [{}, {}]
    (line,) = said(caplog)
    assert line.startswith(f"1 or more rows of {path} do not fit their checksums and cannot be taken out;")
    assert path.read_bytes() == before


def test_a_read_only_file_that_is_no_database_is_done_without(opened, path, monkeypatch, caplog):
    path.parent.mkdir()
    path.write_bytes(NO_DATABASE)
    locked_out(monkeypatch)
    reader = opened()
    assert [reader.get([b"a"]), reader.get([b"a"])] == [{}, {}]
    assert not reader.writable
    assert said(caplog) == [f"{path} cannot be used ('file is not a database') nor replaced: nothing is kept there"]
    assert [one.name for one in path.parent.iterdir()] == ["rows.sqlite"]


def test_a_read_only_place_without_a_file_is_empty(opened, path, monkeypatch):
    path.parent.mkdir()
    locked_out(monkeypatch)
    reader = opened()
    assert (reader.get([b"a"]), reader.writable, path.exists()) == ({}, False, False)


def test_a_read_only_file_without_tables_is_empty(opened, path, monkeypatch):
    path.parent.mkdir()
    path.touch()  # as left by a process that was killed while it made the file
    locked_out(monkeypatch)
    reader = opened()
    assert (reader.get([b"a"]), len(reader), reader.writable) == ({}, 0, False)


_AS_NOBODY = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[2].split(os.pathsep)
from ctxbench.checked_rows import CheckedRows
os.setuid(65534)
rows = CheckedRows(Path(sys.argv[1]), "things")
print(rows.get([b"a", b"b"]), rows.writable)
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("file_mode", [0o444, 0o666])
def test_another_user_can_read_where_he_may_not_write(rows, path, file_mode):
    rows.put({b"a": b"1"})
    rows.close()
    path.chmod(file_mode)
    path.parent.chmod(0o555)
    for folder in list(path.parent.parents)[:-2]:
        folder.chmod(folder.stat().st_mode | 0o055)
    shown = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, str(path), os.pathsep.join(sys.path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert shown.stdout.split("\n")[0] == "{b'a': b'1'} False"


def test_a_read_only_file_that_a_killed_process_left_half_changed_says_what_to_do(rows, opened, path, monkeypatch):
    killed_inside_a_transaction(path)
    with monkeypatch.context() as read_only:
        locked_out(read_only)
        with pytest.raises(StorageError, match=r"half a batch.*Open it once where it can be written") as caught:
            opened().get([b"whole"])
        assert str(path) in str(caught.value)
    assert len(rows) == 1  # opened where it can be written
    locked_out(monkeypatch)
    assert opened().get([b"whole"]) == {b"whole": b"1"}


def test_a_file_in_place_of_the_folder(rows, path):
    path.parent.write_text("")
    assert rows.get([b"a"]) == {}
    with pytest.raises(StorageError, match=r"the folder .*/folder cannot be made: File exists"):
        rows.put({b"a": b"1"})


def test_a_folder_in_place_of_the_file_is_done_without(rows, path, caplog):
    path.mkdir(parents=True)
    assert rows.get([b"a"]) == {}
    assert not rows.writable
    assert said(caplog) == [f"{path} cannot be opened (unable to open database file): nothing is kept there"]
    with pytest.raises(StorageError, match="cannot be written"):
        rows.put({b"a": b"1"})


def test_a_full_disk_stores_nothing_of_the_batch(rows):
    rows.put({b"a": b"1"})
    connection = rows._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 1}")  # SQLite then answers as on a full disk
    with pytest.raises(StorageError, match=r"no room in .*rows\.sqlite.*Free some and run again"):
        rows.put(MANY)
    assert len(rows) == 1
    rows.put(MANY)  # opened again, without that bound
    assert len(rows) == 3001


def test_another_process_that_does_not_let_go_is_named(rows, path, monkeypatch):
    monkeypatch.setattr(checked_rows, "_BUSY_SECONDS", 0.05)
    rows.put({b"a": b"1"})
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="kept locked by another process"):
            rows.put({b"b": b"2"})
        assert rows.get([b"a"]) == {b"a": b"1"}  # reading goes on
        blocker.execute("ROLLBACK")


# ---- several processes


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
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    expected = {b"%d" % number: b"%d" % (number % 4) for number in range(40)}
    assert rows.get(expected) == expected


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # forking, from 3.12
def test_rows_inherited_by_a_fork_open_their_own_connection(rows):
    rows.put({b"a": b"1"})
    child = os.fork()
    if child == 0:
        try:
            ok = bool(rows.get([b"a"]))
            rows.put({b"b": b"2"})
        finally:
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    rows.put({b"c": b"3"})
    assert len(rows.get([b"a", b"b", b"c"])) == 3


_HALF_A_BATCH = (
    OPEN
    + """
rows.put({b"whole": b"1"})
connection = rows._connection
connection.execute("PRAGMA cache_size = 1")  # changed pages reach the file before the end
connection.execute("BEGIN IMMEDIATE")
batch = [(bytes([number % 256, number // 256]), b"x" * 16, number) for number in range(5000)]
connection.executemany("INSERT INTO things VALUES (?, ?, ?)", batch)
print("now", flush=True)
sys.stdin.read()
"""
)


def killed_inside_a_transaction(path):
    with subprocess.Popen(
        [sys.executable, "-c", _HALF_A_BATCH, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"now\n"
        process.kill()
    assert path.with_name("rows.sqlite-journal").stat().st_size > 0  # the file is half changed


def test_a_process_killed_inside_a_transaction_leaves_the_one_before(rows, path):
    killed_inside_a_transaction(path)
    assert len(rows) == 1
    assert rows.get([b"whole"]) == {b"whole": b"1"}


def test_processes_that_find_a_file_damaged_at_once_end_with_a_sound_one(path):
    path.parent.mkdir()
    path.write_bytes(NO_DATABASE)
    program = OPEN + "\nfor n in range(40): rows.put({b'%02d' % n: b'%d' % n}); assert rows.get([b'%02d' % n])"
    command = [sys.executable, "-c", program, str(path)]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [process.communicate(timeout=60)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], errors
    assert len(re.findall("was set aside", "".join(errors))) == 1
    rows = CheckedRows(path, "things")
    assert len(rows) == 40
    rows.close()
    assert (path.parent / "rows.sqlite.aside").read_bytes() == NO_DATABASE


_READ_AND_WRITE = (
    OPEN
    + """
import random
dice = random.Random(sys.argv[2])
for _ in range(600):
    keys = [b"%03d" % dice.randrange(500) for _ in range(30)]
    found = rows.get(keys)
    assert all(value == key * 100 for key, value in found.items())
    rows.put({key: key * 100 for key in keys if key not in found})
"""
)


@pytest.mark.slow
def test_processes_that_use_a_file_while_it_is_damaged_again_and_again_are_never_told_wrong(path):
    dice = random.Random(3)
    path.parent.mkdir()
    commands = [[sys.executable, "-c", _READ_AND_WRITE, str(path), str(seed)] for seed in range(3)]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    while any(process.poll() is None for process in started):
        time.sleep(0.15)
        with contextlib.suppress(OSError), path.open("r+b") as file:
            file.seek(dice.randrange(path.stat().st_size or 1))
            file.write(dice.randbytes(dice.choice([1, 8, 500])))
    errors = [process.communicate(timeout=60)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], errors


def test_rows_serve_other_threads_than_the_one_that_opened_them(rows):
    rows.put({b"a": b"1"})
    seen = []
    thread = threading.Thread(target=lambda: seen.append(rows.get([b"a"])))
    thread.start()
    thread.join()
    assert seen == [{b"a": b"1"}]


def test_what_goes_wrong_is_a_line_on_standard_error(path):
    path.parent.mkdir()
    path.write_bytes(NO_DATABASE)
    done = subprocess.run(
        [sys.executable, "-c", OPEN + "rows.get([b'a'])", str(path)], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert done.stderr.startswith(f"{path} cannot be used")
    assert Path(f"{path}.aside").exists()
