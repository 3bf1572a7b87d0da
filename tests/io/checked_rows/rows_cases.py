"""What the tests of checked rows share."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys

from ctxbench.io import cache
from tests.children import child

START = "import sys\nfrom pathlib import Path\nfrom ctxbench.io.cache import CheckedRows\n"
OPEN = START + "rows = CheckedRows(Path(sys.argv[1]), 'things')\n"
MANY = {b"%04d" % number: b"value %d" % number * 50 for number in range(3000)}
NO_DATABASE = b"not a database, but long enough to be looked at" * 100

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


def changed(path, *statements):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(statement)


def locked_out(monkeypatch):
    """Permissions do not stop root, so the question after them is answered otherwise."""
    allowed = os.access
    monkeypatch.setattr(cache.os, "access", lambda place, mode: mode != os.W_OK and allowed(place, mode))


def said(caplog):
    return [record.getMessage() for record in caplog.records]


def killed_inside_a_transaction(path):
    command = [sys.executable, "-c", _HALF_A_BATCH, path]
    with child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"now\n"
        process.kill()
    assert path.with_name("rows.sqlite-journal").stat().st_size > 0  # the file is half changed
