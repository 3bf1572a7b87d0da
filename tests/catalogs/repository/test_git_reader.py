"""Trees, blobs and commits of small repositories, held against commits that were made by hand."""

from __future__ import annotations

import pytest

from ctxbench.catalogs.git_history import FileChange, GitRepository, line_times
from ctxbench.io.errors import ParameterError, StorageError
from tests.checkout import Checkout

DAY = 24 * 3600
FIRST = 1767261600  # 2026-01-01T10:00:00+00:00: `date --date=... +%s`


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path / "repo")


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def text_of(repository, commit):
    """The texts of a commit's files by path."""
    files = repository.files(commit)
    return {path: data for path, (_, data) in zip(files, repository.blobs(files.values()), strict=True)}


def test_files_and_blobs_are_those_of_the_commit(checkout):
    put(checkout.root / "a.txt", "one\r\n")
    put(checkout.root / "d" / "ü c", "")
    first = checkout.commit("Begin")
    put(checkout.root / "a.txt", "two\n")
    second = checkout.commit("Go on", day=2)
    put(checkout.root / "a.txt", "not committed")
    repository = GitRepository(checkout.root)
    assert text_of(repository, first) == {"a.txt": b"one\r\n", "d/ü c": b""}
    assert text_of(repository, second) == {"a.txt": b"two\n", "d/ü c": b""}
    assert repository.files(first)["a.txt"] == checkout.run("rev-parse", f"{first}:a.txt")
    assert repository.sizes(repository.files(first).values()) == {
        checkout.run("rev-parse", f"{first}:a.txt"): 5,
        checkout.run("rev-parse", f"{first}:d/ü c"): 0,
    }


def test_changes_tell_what_came_went_changed_and_was_renamed(checkout):
    long = "".join(f"line {n}\n" for n in range(20))
    for name, text in {"changed": "1", "gone": "2", "old": long}.items():
        put(checkout.root / name, text)
    first = checkout.commit("Begin\n\nbody")
    put(checkout.root / "changed", "3")
    put(checkout.root / "new", "4")
    put(checkout.root / "moved", f"{long}end\n")
    for name in ("gone", "old"):
        (checkout.root / name).unlink()
    second = checkout.commit("Change", day=2)
    repository = GitRepository(checkout.root)
    before, after = repository.files(first), repository.files(second)
    one, two = repository.first_parents(second, 10)
    assert [(c.sha, c.parents, c.time, c.author, c.message) for c in (one, two)] == [
        (first, (), FIRST, "A <a@b.example>", "Begin\n\nbody\n"),
        (second, (first,), FIRST + DAY, "A <a@b.example>", "Change\n"),
    ]
    assert one.changes == tuple(FileChange(name, None, None, before[name]) for name in ("changed", "gone", "old"))
    assert two.changes == (
        FileChange("changed", None, before["changed"], after["changed"]),
        FileChange("gone", None, before["gone"], None),
        FileChange("moved", "old", before["old"], after["moved"]),
        FileChange("new", None, None, after["new"]),
    )
    assert repository.first_parents(second, 1) == [two]


def test_a_merge_is_told_against_its_first_parent(checkout):
    put(checkout.root / "x", "1")
    first = checkout.commit("Begin")
    checkout.run("switch", "--quiet", "--create", "branch")
    put(checkout.root / "y", "2")
    branch = checkout.commit("On a branch", day=2)
    checkout.run("switch", "--quiet", "main")
    put(checkout.root / "z", "3")
    second = checkout.commit("Elsewhere", day=3)
    checkout.run("merge", "--quiet", "--no-ff", "-m", "Merge", "branch")
    line = GitRepository(checkout.root).first_parents(checkout.run("rev-parse", "HEAD"), 10)
    assert [one.sha for one in line[:2]] == [first, second]
    assert line[2].parents == (second, branch)
    assert [change.path for change in line[2].changes] == ["y"]


def test_a_repository_with_hashes_of_sha_256_is_read(tmp_path):
    checkout = Checkout.__new__(Checkout)
    checkout.root = tmp_path
    checkout.run("init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    put(tmp_path / "x", "1")
    head = checkout.commit("Begin")
    repository = GitRepository(tmp_path)
    assert len(head) == 64
    assert text_of(repository, head) == {"x": b"1"}
    assert [change.path for change in repository.first_parents(head, 5)[0].changes] == ["x"]


def test_an_empty_commit_changes_nothing(checkout):
    checkout.commit("Nothing")
    checkout.commit("Nothing again", day=2)
    assert [one.changes for one in GitRepository(checkout.root).first_parents("HEAD", 5)] == [(), ()]


def test_names_of_commits_are_resolved_and_others_refused(checkout):
    put(checkout.root / "x", "1")
    first = checkout.commit("Begin")
    checkout.run("tag", "-a", "-m", "tag", "v1.0")
    repository = GitRepository(checkout.root)
    assert {repository.resolve(name) for name in ("HEAD", "main", "v1.0", first, first[:8])} == {first}
    for name in ("--upload-pack=x", "-h", "", "a\nb", "HEAD:x", "HEAD..main", "v1.0^{tree}"):
        with pytest.raises(ParameterError, match="no commit"):
            repository.resolve(name)
    with pytest.raises(ParameterError, match=r"did you mean 'main'"):
        repository.resolve("mian")


def test_a_repository_without_commits_and_a_folder_in_none_say_so(checkout, tmp_path):
    with pytest.raises(StorageError, match="no commit checked out; commit something, or name"):
        GitRepository(checkout.root).resolve()
    (tmp_path / "plain").mkdir()
    with pytest.raises(StorageError, match="is no git repository"):
        GitRepository(tmp_path / "plain")
    with pytest.raises(StorageError, match="cannot read the repository"):
        GitRepository(tmp_path / "absent")


def test_times_rise_along_the_line():
    assert line_times([100, 90, 101, 200, -5]) == [100, 102, 104, 200, 202]
    assert line_times([]) == []
    assert line_times([10**15, 0]) == [221_845_392_000, 221_845_392_002]  # `date --date=9000-01-01Z +%s`
