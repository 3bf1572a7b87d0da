"""What the tests of stores share."""

from __future__ import annotations

import contextlib
import sqlite3

from ctxbench.memory.memories import Memory

OPEN = """
import sys
from ctxbench.memory.memories import Memory
from ctxbench.memory.sqlite_store import SqliteStore
store = SqliteStore(sys.argv[1])
store.create_workspace("w")
"""


def memory(id_, workspace="w", **said):
    return Memory(id=id_, workspace=workspace, **{"content": f"text of {id_}", "created": "2026-03-01", **said})


def changed(path, *statements):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements]


def held(folder):
    """All bytes of all files in a folder."""
    return b"".join(file.read_bytes() for file in folder.iterdir())
