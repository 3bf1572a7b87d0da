"""Trees as catalogs: which tree a name means, what its items are, and which commits led there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctxbench.catalogs.agent_file import open_catalog
from ctxbench.catalogs.git_history import GitRepository
from ctxbench.catalogs.git_trees import TreeName, items_of_tree
from ctxbench.io.errors import ParameterError, StorageError
from ctxbench.model.items import ItemKey, Link
from tests.checkout import Checkout


@pytest.fixture
def checkout(tmp_path):
    """Three commits: a file that stays, one that changes, one that goes."""
    found = Checkout(tmp_path / "repo")
    for day, message, files in (
        (
            1,
            "Begin (#12)\n\nbody\n\nSigned-off-by: A <a@b.example>",
            {"stays.py": "1\n", "d/changes.md": "1\n", "goes": "1\n"},
        ),
        (2, "Drop a file", {"goes": None}),
        (3, "Change", {"d/changes.md": "2\n"}),
    ):
        for name, text in files.items():
            (found.root / name).parent.mkdir(exist_ok=True)
            (found.root / name).unlink() if text is None else (found.root / name).write_text(text)
        found.commit(message, day=day)
    return found


def day(n):
    return f"2026-01-{n:02d}T10:00:00+00:00"


def files(catalog):
    return {item.name: item.text for item in catalog if item.type == "file"}


def test_a_tree_gives_its_files_and_the_commits_that_changed_them(checkout):
    catalog = open_catalog(str(checkout.root))
    changes, stays, begin, drop, change = catalog
    assert (changes.id, changes.title, changes.text) == (
        "file:d%2Fchanges.md",
        "d/changes.md",
        "d/changes.md\n\n2\n",
    )
    assert (changes.kind, changes.created, changes.until, changes.include) == ("markdown", day(3), None, "agent")
    assert (stays.name, stays.kind, stays.created) == ("stays.py", "python", day(1))
    sha = checkout.run("rev-parse", "HEAD~2")
    assert (begin.type, begin.name, begin.kind, begin.include) == ("message", f"commit-{sha[:12]}", "commit", "manual")
    assert (begin.text, begin.created) == ("Begin\n\nbody", day(1))
    assert begin.links == (Link("changes", changes.key), Link("changes", stays.key))
    assert (drop.text, drop.links, drop.metadata) == ("Drop a file", (), {"files": 1})
    assert (change.text, change.links) == ("Change", (Link("changes", ItemKey("file", None, "d/changes.md")),))


def test_a_working_tree_is_as_it_is_now_and_a_commit_as_it_was(checkout):
    root = checkout.root
    (root / "stays.py").unlink()
    (root / "new.py").write_text("3\n")
    (root / ".gitignore").write_text("ignored\n")
    (root / "ignored").write_text("4\n")
    (root / "d" / "changes.md").write_text("5\n")
    assert files(open_catalog(str(root))) == {
        ".gitignore": ".gitignore\n\nignored\n",
        "d/changes.md": "d/changes.md\n\n5\n",
        "new.py": "new.py\n\n3\n",
    }
    assert open_catalog(str(root)).find("file:new.py") is not None
    assert next(item for item in open_catalog(str(root)) if item.name == "new.py").created is None
    assert sorted(files(open_catalog(f"{root}@HEAD"))) == ["d/changes.md", "stays.py"]
    assert sorted(files(open_catalog(f"{root}@main~2"))) == ["d/changes.md", "goes", "stays.py"]
    found = items_of_tree(GitRepository(root))
    assert found.left_out == {"not in the working tree": ["stays.py"]}


def test_an_unchanged_tree_is_the_same_on_disk_and_at_its_commit(checkout):
    assert open_catalog(str(checkout.root)).hash == open_catalog(f"{checkout.root}@main").hash


def test_bare_repositories_and_worktrees_are_read(checkout, tmp_path):
    checkout.run("clone", "--quiet", "--bare", str(checkout.root), str(tmp_path / "bare.git"))
    checkout.run("worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"), "HEAD~1")
    wanted = open_catalog(f"{checkout.root}@HEAD").hash
    assert open_catalog(str(tmp_path / "bare.git")).hash == wanted
    assert open_catalog(str(tmp_path / "tree")).hash == open_catalog(f"{checkout.root}@HEAD~1").hash != wanted
    with pytest.raises(StorageError, match="has no working tree; name a commit"):
        items_of_tree(GitRepository(tmp_path / "bare.git"))


def test_of_a_folder_only_what_is_below_is_read(checkout):
    for name in (f"{checkout.root}/d:files", f"{checkout.root}/d@HEAD"):
        catalog = open_catalog(name)
        assert files(catalog) == {"d/changes.md": "d/changes.md\n\n2\n"}
        assert [item.text for item in catalog if item.type == "message"] == ["Begin\n\nbody", "Change"]


def test_names_of_trees_are_told_from_other_folders(checkout, tmp_path):
    root = str(checkout.root)
    assert TreeName.read(root) == TreeName(checkout.root)
    assert TreeName.read(f"{root}:definitions") == TreeName(checkout.root, None, "definitions")
    assert TreeName.read(f"{root}@HEAD@{{1}}:files") == TreeName(checkout.root, "HEAD@{1}")
    assert TreeName.read(f"{root}/d") is None
    assert TreeName.read(f"{root}/d:files") == TreeName(checkout.root / "d")
    (checkout.root / "d@x").mkdir()
    assert TreeName.read(f"{root}/d@x@main") == TreeName(Path(f"{root}/d@x"), "main")
    with pytest.raises(ParameterError, match="view must be one of files, definitions, got 'definition'"):
        TreeName.read(f"{root}:definition")
    (checkout.root / "dataset.yaml").write_text("")
    assert TreeName.read(root) is None  # a dataset that is kept in a repository of its own
    assert [TreeName.read(str(tmp_path / name)) for name in ("absent", "absent@main", "absent:files")] == [None] * 3
    assert TreeName.read("a\0b@x") is None


def test_a_folder_of_items_in_a_repository_stays_one(checkout):
    (checkout.root / "corpus.jsonl").write_text('{"_id": "rule:a", "title": "a", "text": "b"}\n')
    assert [item.id for item in open_catalog(str(checkout.root))] == ["rule:a"]
    assert "corpus.jsonl" in files(open_catalog(f"{checkout.root}:files"))


def test_a_tree_without_a_file_or_commit_says_so(tmp_path):
    empty = Checkout(tmp_path / "empty")
    with pytest.raises(StorageError, match="has no file that can be an item"):
        open_catalog(str(empty.root))
    with pytest.raises(StorageError, match="no commit checked out; commit something, or name"):
        open_catalog(f"{empty.root}@HEAD")
    (empty.root / "x").write_bytes(b"\0")
    with pytest.raises(StorageError, match="left out: binary"):
        open_catalog(str(empty.root))
    (empty.root / "y").write_text("y")
    assert [(item.name, item.created) for item in open_catalog(str(empty.root))] == [("y", None)]
    (tmp_path / "plain").mkdir()
    with pytest.raises(StorageError, match="is no git repository"):
        open_catalog(f"{tmp_path / 'plain'}:files")
    with pytest.raises(ParameterError, match="no commit 'mian'"):
        open_catalog(f"{empty.root}@mian")


def test_history_has_a_limit(checkout):
    found = items_of_tree(GitRepository(checkout.root), commits=1)
    assert [item.text for item in found.items if item.type == "message"] == ["Change"]
    assert [item.created for item in found.items if item.type == "file"] == [day(3), None]
    assert [item.type for item in items_of_tree(GitRepository(checkout.root), commits=0).items] == ["file", "file"]
