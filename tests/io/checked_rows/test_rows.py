"""Rows that are checked when they are read: what was put is there, and nothing else."""

from __future__ import annotations

import contextlib
import gc
import random
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest

from ctxbench.io.cache import CheckedRows
from tests.io.checked_rows.rows_cases import MANY, NO_DATABASE, changed, said


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
    assert said(caplog) == [f"{path} does not match its checksum; its content is computed again"]
    assert len(rows) == 2
    rows.put({b"a": b"1"})
    assert rows.get([b"a", b"b", b"c"]) == {b"a": b"1", b"b": b"2"}
    assert len(said(caplog)) == 1


def test_keys_that_lead_to_the_rows_of_others_find_nothing_until_they_are_put_again(rows, path, caplog):
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
    rows.put({first: one, second: two})
    assert rows.get([first, second]) == {first: one, second: two}
    assert len(said(caplog)) >= 1


OTHER_TABLE = "CREATE TABLE counts (counter TEXT NOT NULL, sha256 BLOB NOT NULL, tokens INTEGER NOT NULL)"


def test_a_file_that_is_no_database_is_replaced(rows, opened, path, caplog):
    path.parent.mkdir(parents=True)
    path.write_bytes(NO_DATABASE)
    assert rows.get([b"a"]) == {}
    (line,) = said(caplog)
    assert line.startswith(f"{path} cannot be used ('file is not a database'); it was replaced,")
    rows.put({b"a": b"1"})
    assert opened().get([b"a"]) == {b"a": b"1"}
    assert sorted(one.name for one in path.parent.iterdir()) == ["rows.sqlite"]
    assert len(said(caplog)) == 1


def test_a_file_found_damaged_by_a_write_takes_the_rows_all_the_same(rows, opened, path):
    path.parent.mkdir(parents=True)
    path.write_bytes(NO_DATABASE)
    rows.put({b"a": b"1"})
    assert opened().get([b"a"]) == {b"a": b"1"}


def test_a_file_of_other_tables_is_replaced(rows, path, caplog):
    path.parent.mkdir(parents=True)
    changed(path, OTHER_TABLE, "INSERT INTO counts VALUES ('o200k_base', x'00', 7)")
    assert rows.get([b"a"]) == {}
    assert "holds other tables than expected" in said(caplog)[0]
    rows.put({b"a": b"1"})
    assert rows.get([b"a"]) == {b"a": b"1"}


def test_a_file_that_lost_its_end_is_replaced(rows, path, caplog):
    rows.put(MANY)
    rows.close()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    found = rows.get(MANY)
    assert all(MANY[key] == value for key, value in found.items())
    assert "was replaced" in said(caplog)[0]


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


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are looked up there")
def test_rows_that_nobody_has_are_closed_without_a_line_of_python(path):
    rows = CheckedRows(path, "things")  # in such a line Ctrl-C would be lost
    rows.put({b"a": b"1"})
    lines: list[str] = []

    def open_files():
        return [one for one in Path("/proc/self/fd").iterdir() if one.exists() and one.samefile(path)]

    assert open_files()

    def called(frame, event, _):
        if event == "call" and frame.f_globals.get("__name__", "").startswith("ctxbench"):
            lines.append(frame.f_code.co_name)

    sys.setprofile(called)
    try:
        del rows
        gc.collect()
    finally:
        sys.setprofile(None)
    assert (lines, open_files()) == ([], [])


def test_rows_that_are_removed_are_in_no_file(rows, path):
    values = {b"%04d" % number: b"value %d of many " % number * 90 for number in range(2000)}
    rows.put(values)
    rows.remove([*list(values)[::2], b"gone"])
    assert rows.get(values) == {key: values[key] for key in list(values)[1::2]}
    held = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert [number for number in range(2000) if b"value %d of" % number in held] == list(range(1, 2000, 2))


def test_nothing_is_removed_where_there_is_no_file(rows, path):
    rows.remove([b"a"])
    assert not path.exists()
