"""A file of rows, opened as often as a test wants."""

from __future__ import annotations

import contextlib

import pytest

from ctxbench.io.cache import CheckedRows


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
