"""One request from Python over a git repository, as the command asks it."""

from __future__ import annotations

import pytest

import ctxbench
from ctxbench.io.errors import ParameterError
from tests.checkout import written

HISTORY = (
    ("Begin", {"src/area.py": "def area():\n    return 1\n", "src/mail.py": "def send():\n    return 2\n"}),
    ("Send letters faster", {"src/mail.py": "def send():\n    return 3\n"}),
)


@pytest.mark.parametrize(
    ("end", "selector"), [("", "codebase"), ("@HEAD~1", "codebase"), (":definitions", "codebase/definitions")]
)
def test_a_repository_is_asked_for_what_a_change_needs(tmp_path, end, selector):
    name = f"{written(tmp_path / 'repo', HISTORY).root}{end}"
    options = {"embedder": "hashing", "counter": "chars/4"}
    found = ctxbench.select("send letters", name, **options)
    wanted = ["file:src%2Fmail.py", "chunk:src%2Fmail.py%3A%3Asend"]
    assert set(found.ids[: 2 if end == ":definitions" else 1]) == set(wanted[: 2 if end == ":definitions" else 1])
    asked = ctxbench.select("send letters", ctxbench.catalog(name), selector=selector, **options)
    assert (found.ids, found.tokens) == (asked.ids, asked.tokens)


def test_another_selector_may_be_asked_and_a_folder_that_is_nothing_says_so(tmp_path):
    root = written(tmp_path / "repo", HISTORY).root
    assert ctxbench.select("area", str(root), selector="bm25", n=1, counter="chars/4").ids == ["file:src%2Farea.py"]
    with pytest.raises(ParameterError, match="a list of dicts or a git repository"):
        ctxbench.catalog(tmp_path / "absent")
