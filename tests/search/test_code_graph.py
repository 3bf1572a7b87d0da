"""Edges between the files of a tree."""

from __future__ import annotations

import numpy as np
import pytest

from ctxbench.model.arrays import owners
from ctxbench.model.requests import Batch
from ctxbench.search.code_index import MOST_DEFINERS, FileEdges, code_trees
from ctxbench.testing import mock_resources
from tests.code_history import history, request


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Code facts are kept nowhere but here."""
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path))


def tree(files, n=1):
    """The tree after the nth of some commits, or of one that makes these files."""
    catalog = history(*(files if isinstance(files, tuple) else (("Start", files),)))
    return code_trees(catalog, mock_resources()).of(Batch.of(catalog, [request("x", n)]).visible[0])


def edges(of, kind):
    """The edges of a kind by path."""
    found = getattr(of, kind)
    rows = zip(owners(found.start).tolist(), found.end.tolist(), found.weight.tolist(), strict=True)
    return {(of.names[one], of.names[other]): weight for one, other, weight in rows}


def test_names_that_a_file_uses_count_by_one_through_their_definers():
    of = tree({"a.py": "def one(): ...\ndef both(): ...", "b.py": "def both(): ...", "c.py": "one()\nboth()"})
    # to a: 1 + 1 / 2, the most; to b: 1 / 2
    assert edges(of, "uses") == {("c.py", "a.py"): 1.0, ("c.py", "b.py"): 0.5 / 1.5}
    assert edges(of, "users") == {("a.py", "c.py"): 1.0, ("b.py", "c.py"): 0.5 / 1.5}


def test_a_name_that_many_files_define_leads_nowhere():
    for n, there in ((MOST_DEFINERS, True), (MOST_DEFINERS + 1, False)):
        files = {f"{i}.py": "def get(): ..." for i in range(n)} | {"z.py": "get()"}
        assert bool(edges(tree(files), "uses")) == there


def test_a_test_and_its_subject_are_of_one_name_and_ending():
    of = tree(dict.fromkeys(("core.py", "core.go", "test_core.py", "core_test.go", "other.py"), ""))
    pairs = [("core.py", "test_core.py"), ("core.go", "core_test.go")]
    assert edges(of, "tests") == dict.fromkeys([*pairs, *((b, a) for a, b in pairs)], 1.0)


def test_a_tree_is_what_the_request_sees():
    commits = (("Start", {"a.py": "import b", "b.py": ""}), ("Then", {"b.py": None, "c.py": "", "a.py": "import c"}))
    assert edges(tree(commits, 1), "imports") == {("a.py", "b.py"): 1.0}
    assert edges(tree(commits, 2), "imports") == {("a.py", "c.py"): 1.0}


def test_edges_of_the_same_ends_are_added_and_those_to_itself_left_out():
    start, end = np.array([1, 0, 1, 2]), np.array([0, 2, 0, 2])
    found = FileEdges.of(start, end, np.array([1.0, 1.0, 3.0, 9.0]), n_files=3)
    assert (found.start.tolist(), found.end.tolist(), found.weight.tolist()) == ([0, 1, 2, 2], [2, 0], [0.25, 1.0])


def test_no_files_have_no_edges():
    of = tree({})
    assert [edges(of, kind) for kind in ("imports", "uses", "users", "tests")] == [{}] * 4


def test_files_that_imports_link_with_some_are_near_them():
    of = tree({"a.py": "import b", "b.py": "", "c.py": "import a", "d.py": "import c"})
    names = of.paths.path.names
    assert [names[path] for path in of.near(np.array([names.index("a.py")]))] == ["b.py", "c.py"]
    assert of.near(np.array([], dtype=np.int64)).tolist() == []
