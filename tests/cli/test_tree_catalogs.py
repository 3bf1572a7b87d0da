"""Commands over a git repository as their catalog."""

from __future__ import annotations

import pytest

from tests.checkout import Checkout


@pytest.fixture
def repository(place):
    found = Checkout(place / "repo")
    for name, text in {
        "area.py": "def area_of_circle(radius):\n    return 3 * radius * radius\n\n\ndef nothing():\n    pass\n",
        "notes.md": "# Notes\n\nHow triangles are drawn.\n",
        "logo.png": "\0",
    }.items():
        (found.root / name).write_text(text)
    found.commit("Compute areas")
    return found


def select(cli, catalog, *more):
    return cli("select", "area of a circle", "--catalog", catalog, "--selector", "bm25", "--embedder", "hashing", *more)


def test_a_repository_is_searched_and_what_is_left_out_is_told(cli, repository, caplog):
    done = select(cli, "repo", "--json")
    assert done.code == 0
    assert done.json["items"][0]["id"] == "file:area.py"
    assert done.json["not_searched"] == {"include mode manual": 1}  # the commit
    assert "1 path of the tree left out: 1 binary, such as logo.png" in caplog.text


def test_a_commit_and_its_definitions_are_searched(cli, repository):
    pytest.importorskip("tree_sitter_python")
    (repository.root / "area.py").unlink()
    repository.commit("Drop it", day=2)
    done = select(cli, "repo@HEAD~1:definitions", "--json")
    assert {"file:area.py", "chunk:area.py%3A%3Aarea_of_circle"} <= {item["id"] for item in done.json["items"]}
    assert "area.py" not in select(cli, "repo").out


def test_a_slip_in_a_commit_s_name_is_one_line(cli, repository):
    done = select(cli, "repo@mian")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "no commit 'mian' in repo: expected a branch, a tag or a hash; did you mean 'main'?" in done.err
