"""What git keeps of a folder, held against commits that were made by hand."""

from __future__ import annotations

import sys

import pytest

from ctxbench.io.errors import StorageError
from ctxbench.io.git import Commit, Repository
from tests.checkout import Checkout


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path / "repo")


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def test_commits_that_changed_a_folder_stand_oldest_first(checkout):
    folder = checkout.root / "a [b]"  # brackets are no pattern
    put(folder / "x", "1")
    first = checkout.commit("Begin\nsecond line\n\nbody", day=2)
    put(checkout.root / "a b" / "x", "1")
    checkout.commit("Elsewhere", day=3)
    put(folder / "y" / "z", "2")
    second = checkout.commit("Gö\ton", day=1)  # an earlier date does not come before its parent
    found = Repository.around(folder).commits(folder)
    assert found == [
        Commit(hash=first, short=first[: len(found[0].short)], date="2026-01-02T10:00:00+00:00", message="Begin"),
        Commit(hash=second, short=second[: len(found[1].short)], date="2026-01-01T10:00:00+00:00", message="Gö\ton"),
    ]
    assert [one.hash for one in Repository.around(folder).commits(folder, limit=1)] == [second]
    assert Repository.around(folder).commits(checkout.root / "none") == []


def test_commits_of_a_merged_branch_are_there_and_the_merge_is_not(checkout):
    put(checkout.root / "d" / "x", "1")
    first = checkout.commit("Begin", day=1)
    checkout.run("switch", "--quiet", "--create", "branch")
    put(checkout.root / "d" / "x", "2")
    second = checkout.commit("On a branch", day=2)
    checkout.run("switch", "--quiet", "main")
    put(checkout.root / "other", "x")
    checkout.commit("Elsewhere", day=3)
    checkout.run("merge", "--quiet", "--no-ff", "-m", "Merge", "branch")
    repository = Repository.around(checkout.root)
    assert [one.hash for one in repository.commits(checkout.root / "d")] == [first, second]


def test_files_are_written_as_they_were_committed(checkout, tmp_path):
    put(checkout.root / "d" / "a.txt", "one\r\ntwo\n")
    put(checkout.root / "d" / "b" / "ü c.txt", "")
    put(checkout.root / ".gitattributes", "*.txt export-ignore ident\n")
    if sys.platform != "win32":
        (checkout.root / "d" / "link").symlink_to("/etc")
    checkout.commit("Begin")
    repository = Repository.around(checkout.root)
    (commit,) = repository.commits(checkout.root / "d")
    put(checkout.root / "d" / "a.txt", "not committed")
    files = repository.files(commit, checkout.root / "d")
    assert sorted(files) == ["a.txt", "b/ü c.txt"]
    repository.write(files, tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"one\r\ntwo\n"
    assert (tmp_path / "out" / "b" / "ü c.txt").read_bytes() == b""
    assert sorted(repository.files(commit, checkout.root)) == [".gitattributes", "d/a.txt", "d/b/ü c.txt"]
    assert repository.files(commit, checkout.root / "none") == {}
    with pytest.raises(StorageError, match=f"git has lost {'0' * 39}1 of"):
        repository.write({"x": "0" * 39 + "1"}, tmp_path / "out")


@pytest.mark.parametrize("path", ["../x", "d/../../x", "/x"])
def test_a_path_that_leads_out_of_the_folder_is_not_written(checkout, tmp_path, path):
    put(checkout.root / "x", "1")
    checkout.commit("Begin")
    digest = checkout.run("rev-parse", "HEAD:x")
    with pytest.raises(StorageError, match="leads out of its folder"):
        Repository.around(checkout.root).write({path: digest}, tmp_path / "out")
    assert not (tmp_path / "x").exists()


def test_a_path_that_is_not_there_is_in_the_repository_around_it(checkout, tmp_path):
    assert Repository.around(checkout.root / "no" / "such").root == checkout.root.resolve()
    assert Repository.around(tmp_path / "elsewhere") is None
    assert Repository.around(checkout.root).commits(checkout.root) == []  # no commit at all
    put(checkout.root / "x", "1")
    checkout.commit("Begin")
    with pytest.raises(StorageError, match="lies outside the git repository"):
        Repository.around(checkout.root).commits(tmp_path)


def test_a_shallow_clone_is_known(checkout, tmp_path):
    for day in (1, 2):
        put(checkout.root / "x", str(day))
        checkout.commit("Again", day=day)
    checkout.run("clone", "--quiet", "--depth=1", checkout.root.as_uri(), str(tmp_path / "clone"))
    assert Repository.around(tmp_path / "clone").is_shallow()
    assert not Repository.around(checkout.root).is_shallow()


def test_without_git_the_error_says_what_to_do(checkout, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StorageError, match=r"git cannot be run .*; install it, or put it on PATH"):
        Repository.around(checkout.root)


def test_what_git_refuses_is_said_in_its_words(checkout):
    put(checkout.root / "x", "1")
    checkout.commit("Begin")
    (checkout.root / ".git" / "config").write_text("[core\n")
    with pytest.raises(StorageError, match=r"git cannot read the repository around .*: bad config line 1 in file"):
        Repository.around(checkout.root)
