"""Repositories that try to run something, to lead out, or that lack what they should hold."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from ctxbench.catalogs.git_history import GitRepository
from ctxbench.catalogs.git_trees import VIEWS, TreeName, items_of_tree, open_tree
from ctxbench.io import git
from ctxbench.io.errors import ParameterError, StorageError
from tests.checkout import Checkout

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs and links of POSIX")


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path / "repo")


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def names(found):
    return [item.name for item in found.items if item.type == "file"]


def out(found):
    return {why: list(paths) for why, paths in found.left_out.items()}


def ordinary_git(folder, *words):
    """Git as a careless program runs it; whether it fails does not matter."""
    subprocess.run(["git", *words], cwd=folder, check=False, capture_output=True, timeout=60)


def pipe(path):
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


@pytest.mark.parametrize(
    "name",
    [
        *(".gitignore", ".git/config.worktree", ".git/commondir", ".git/HEAD", ".git/index", ".git/packed-refs"),
        *(".git/shallow", ".git/info/exclude", ".git/objects/info/alternates", ".git/config"),
    ],
)
def test_a_named_pipe_that_git_would_read_is_an_error(checkout, name):
    put(checkout.root / "a.txt", "one\n")
    checkout.commit("Begin")
    pipe(checkout.root / name)
    with pytest.raises(StorageError, match="named pipe"):
        GitRepository(checkout.root)


def test_named_pipes_that_settings_name_are_not_read(checkout):
    put(checkout.root / "a.txt", "one\n")
    checkout.commit("Begin")
    own = pipe(checkout.root / ".git" / "pipe")
    checkout.run("config", "core.excludesFile", str(own))
    checkout.run("config", "core.attributesFile", str(own))
    checkout.run("config", "mailmap.file", str(own))
    pipe(checkout.root / ".mailmap")
    assert names(items_of_tree(GitRepository(checkout.root))) == ["a.txt"]


@pytest.mark.parametrize("variable", ["HOME", "XDG_CONFIG_HOME"])
def test_what_the_user_has_git_ignore_everywhere_is_left_out(checkout, tmp_path, monkeypatch, variable):
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    put(tmp_path / ("" if variable == "XDG_CONFIG_HOME" else ".config") / "git" / "ignore", "secrets.txt\n")
    put(checkout.root / "a.txt", "one\n")
    checkout.commit("Begin")
    put(checkout.root / "secrets.txt", "mine\n")
    put(checkout.root / "b.txt", "two\n")
    assert names(items_of_tree(GitRepository(checkout.root))) == ["a.txt", "b.txt"]


def test_git_that_prints_nothing_is_ended(checkout, monkeypatch):
    monkeypatch.setattr(git, "SILENCE_S", 0.5)
    put(checkout.root / "a.txt", "one\n")
    checkout.commit("Begin")
    repository = GitRepository(checkout.root)
    blob = repository.files(repository.resolve())["a.txt"]
    pipe(checkout.root / ".git" / "objects" / blob[:2] / blob[2:])
    with pytest.raises(StorageError, match="printed nothing for"):  # git is read as it answers
        list(repository.blobs([blob]))
    with (checkout.root / ".git" / "config").open("a") as file:
        file.write(f"[include]\n\tpath = {pipe(checkout.root / 'settings')}\n")
    with pytest.raises(StorageError, match="printed nothing for"):
        repository.resolve()


def test_nothing_of_a_repository_is_run(checkout, tmp_path, monkeypatch):
    marker, program = tmp_path / "was-run", tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 $@ >> {shlex.quote(str(marker))}\ncat\n")
    program.chmod(0o755)
    put(checkout.root / "a.txt", "one\n")
    put(checkout.root / ".gitattributes", "* filter=evil diff=evil merge=evil ident eol=crlf\n")
    checkout.commit("Begin")
    put(checkout.root / "a.txt", "two\n")
    head = checkout.commit("Go on", day=2)
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-auto-gc"):
        put(checkout.root / ".git" / "hooks" / hook, program.read_bytes())
        (checkout.root / ".git" / "hooks" / hook).chmod(0o755)
    for name in (
        *("filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "diff.evil.textconv", "diff.evil.command"),
        *("diff.external", "core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass"),
        *("gpg.program", "core.alternateRefsCommand", "uploadpack.packObjectsHook", "credential.helper"),
    ):
        checkout.run("config", name, str(program))
    checkout.run("config", "log.showSignature", "true")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(program))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    put(checkout.root / "a.txt", "three\n")
    for commit in (None, head):
        for view in VIEWS:  # that of definitions asks for differences
            assert names(items_of_tree(GitRepository(checkout.root), commit, view=view)) == [".gitattributes", "a.txt"]
    assert not marker.exists()
    monkeypatch.delenv("GIT_DIR")
    ordinary_git(checkout.root, "status")
    assert marker.exists()  # so the traps are real ones


def test_what_a_partial_clone_lacks_is_said_and_never_fetched(checkout, tmp_path):
    put(checkout.root / "a.txt", "one\n")
    put(checkout.root / "b.txt", "two\n")
    checkout.commit("Begin")
    checkout.run("config", "uploadpack.allowFilter", "true")
    source = f"file://{checkout.root}"
    checkout.run("clone", "--quiet", "--bare", "--filter=blob:none", source, str(tmp_path / "clone"))
    marker = tmp_path / "was-run"
    clone = Checkout.__new__(Checkout)
    clone.root = tmp_path / "clone"
    clone.run("config", "protocol.ext.allow", "always")
    clone.run("config", "remote.origin.url", f"ext::touch {marker}")
    repository = GitRepository(clone.root)
    head = repository.resolve()
    assert repository.partial
    assert sorted(repository.files(head)) == ["a.txt", "b.txt"]
    with pytest.raises(StorageError, match=r"lacks the contents of 2 of 2 files, such as a\.txt: .* without --filter"):
        items_of_tree(repository, head)
    with pytest.raises(StorageError, match="clone without --filter"):
        list(repository.blobs(repository.files(head).values()))
    assert [change.path for change in repository.first_parents(head, 9)[0].changes] == ["a.txt", "b.txt"]
    assert not marker.exists()
    ordinary_git(clone.root, "cat-file", "-p", f"{head}:a.txt")
    assert marker.exists()  # so the trap is a real one


def test_a_shallow_clone_is_said_and_its_end_changes_nothing(checkout, tmp_path, caplog):
    for day in (1, 2, 3):
        put(checkout.root / f"{day}.txt", "x")
        checkout.commit(f"Day {day}", day=day)
    checkout.run("clone", "--quiet", "--depth=2", f"file://{checkout.root}", str(tmp_path / "clone"))
    repository = GitRepository(tmp_path / "clone")
    assert repository.shallow
    second, third = repository.first_parents(repository.resolve(), 10)
    assert (second.message, second.parents, second.changes) == ("Day 2\n", (), ())
    assert [change.path for change in third.changes] == ["3.txt"]
    items = open_tree(TreeName(tmp_path / "clone"))
    assert [(item.name, item.created) for item in items if item.type == "file"] == [
        ("1.txt", None),
        ("2.txt", None),
        ("3.txt", "2026-01-03T10:00:00+00:00"),
    ]
    assert "a shallow clone" in caplog.text


def test_links_submodules_and_other_repositories_are_left_out_and_counted(checkout, tmp_path):
    put(tmp_path / "secret" / "key", "secret")
    other = Checkout(tmp_path / "other")
    put(other.root / "y", "y")
    other.commit("Other")
    put(checkout.root / "d" / "key", "mine")
    put(checkout.root / "x", "x")
    (checkout.root / "out").symlink_to(tmp_path / "secret" / "key")
    (checkout.root / "around").symlink_to(tmp_path / "secret")
    checkout.run("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.root), "sub")
    head = checkout.commit("Begin")
    found = items_of_tree(GitRepository(checkout.root), head)
    assert names(found) == [".gitmodules", "d/key", "x"]
    assert out(found) == {"symlink": ["around", "out"], "submodule": ["sub"]}
    (checkout.root / "d" / "key").unlink()
    (checkout.root / "d").rmdir()
    (checkout.root / "d").symlink_to(tmp_path / "secret")
    Checkout(checkout.root / "nested").commit("Nested")
    (checkout.root / "x").unlink()
    os.mkfifo(checkout.root / "x")
    found = items_of_tree(GitRepository(checkout.root))
    assert names(found) == [".gitmodules"]
    assert {why: sorted(paths) for why, paths in out(found).items()} == {
        "symlink": ["around", "d", "d/key", "out"],
        "submodule": ["nested/", "sub"],
        "neither file nor folder": ["x"],
    }
    assert not [item for item in found.items if "secret" in item.text]


def test_a_working_tree_that_names_another_folder_gives_none_of_its_files(checkout, tmp_path):
    put(checkout.root / "x", "x")
    checkout.commit("Begin")
    put(tmp_path / "secret" / "key", "secret")
    checkout.run("config", "core.worktree", str(tmp_path / "secret"))
    items = open_tree(TreeName(checkout.root))
    assert [item.name for item in items if item.type == "file"] == ["x"]  # of HEAD


def test_odd_names_and_contents_are_left_out_and_counted(checkout):
    texts = {
        b"binary.bin": b"a\0b",
        b"latin.txt": "ü".encode("latin-1"),
        b"large.txt": b"x\n" * 10_000_000,
        b"app.min.js": b"x" * 5_001,
        b"line\nbreak": b"x",
        b"not-utf8-\xff": b"x",
        b"A": b"upper",
        b"a": b"lower",
        b"--upload-pack=x": b"x",
        b":(glob)*": b"x",
        b"crlf.txt": b"\xef\xbb\xbfone\r\ntwo\r\n",
        b"empty": b"",
    }
    for name, data in texts.items():
        put_bytes = os.path.join(os.fsencode(checkout.root), name)  # noqa: PTH118 - paths of bytes
        with open(put_bytes, "wb") as file:  # noqa: PTH123 - as above
            file.write(data)
    head = checkout.commit("Begin")
    for commit in (head, None):
        found = items_of_tree(GitRepository(checkout.root), commit)
        assert names(found) == ["--upload-pack=x", ":(glob)*", "A", "a", "crlf.txt", "empty"]
        assert {why: sorted(map(os.fsencode, paths)) for why, paths in found.left_out.items()} == {
            "binary": [b"binary.bin"],
            "not UTF-8": [b"latin.txt"],
            "over 1 MB": [b"large.txt"],
            "minified (a line over 5,000 characters)": [b"app.min.js"],
            "control character in the path": [b"line\nbreak"],
            "path not UTF-8": [b"not-utf8-\xff"],
        }
        texts_by_name = {item.name: item.text for item in found.items}
        assert texts_by_name["crlf.txt"] == "crlf.txt\n\none\ntwo\n"
        assert texts_by_name["empty"] == "empty\n\n"


def test_what_is_left_out_is_told_and_orders_nothing(checkout, caplog):
    put(checkout.root / "a\x1b[2J", "x")
    put(checkout.root / "x", "x")
    checkout.commit("Begin")
    open_tree(TreeName(checkout.root))
    assert "1 path left out: 1 control character in the path (a\ufffd[2J)" in caplog.text


def test_names_like_options_are_no_options(checkout, tmp_path):
    put(checkout.root / "x", "x")
    checkout.commit("Begin")
    marker = tmp_path / "was-run"
    for name in (f"--upload-pack=touch {marker}", f"--output={marker}"):
        with pytest.raises(ParameterError, match="no commit"):
            open_tree(TreeName(checkout.root, name))
    assert not marker.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_the_checkout_of_another_owner_is_read(checkout):
    put(checkout.root / "x", "x")
    checkout.commit("Begin")
    for folder, _, files in os.walk(checkout.root):
        for name in (folder, *(os.path.join(folder, file) for file in files)):  # noqa: PTH118 - as of os.walk
            os.chown(name, 12_345, 12_345)
    assert names(items_of_tree(GitRepository(checkout.root))) == ["x"]


def test_a_damaged_repository_is_said(checkout):
    put(checkout.root / "x", "x")
    head = checkout.commit("Begin")
    blob = checkout.run("rev-parse", f"{head}:x")
    (checkout.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(StorageError, match=r"lacks the contents of 1 of 1 file, such as x"):
        items_of_tree(GitRepository(checkout.root), head)
    with pytest.raises(StorageError, match=rf"lacks {blob}; clone without --filter, or run `git fsck`"):
        list(GitRepository(checkout.root).blobs([blob]))
    put(checkout.root / ".git" / "config", "[core\n")
    with pytest.raises(StorageError, match="git cannot read the repository around"):
        GitRepository(checkout.root)


def test_an_index_that_leads_out_gives_nothing(checkout, tmp_path, monkeypatch):
    put(tmp_path / "secret", "secret")
    put(checkout.root / "x", "x")
    checkout.commit("Begin")
    paths = ["x", "../secret", str(tmp_path / "secret")]  # git writes no such index, but reads one
    monkeypatch.setattr(GitRepository, "working_files", lambda self: paths)
    found = items_of_tree(GitRepository(checkout.root))
    assert names(found) == ["x"]
    assert out(found) == {"symlink": paths[1:]}


def test_a_damaged_commit_has_no_time_or_author(checkout):
    put(checkout.root / "x", "x")
    tree = checkout.run("rev-parse", f"{checkout.commit('Begin')}^{{tree}}")
    put(checkout.root / "raw", f"tree {tree}\nauthor\ncommitter\n\nHollow\n".encode() + b"\xff\n")
    sha = checkout.run("hash-object", "-t", "commit", "-w", "--literally", "raw")
    (commit,) = GitRepository(checkout.root).first_parents(sha, 9)
    assert (commit.time, commit.author, commit.message) == (0, " <>", "Hollow\n\ufffd\n")
    assert [change.path for change in commit.changes] == ["x"]


def test_replaced_commits_and_grafts_change_no_history(checkout):
    put(checkout.root / "x", "1")
    first = checkout.commit("Begin")
    put(checkout.root / "x", "2")
    second = checkout.commit("Go on", day=2)
    wanted = GitRepository(checkout.root).first_parents(second, 9)
    assert [one.sha for one in wanted] == [first, second]
    checkout.run("replace", "--graft", second)
    put(checkout.root / ".git" / "info" / "grafts", f"{second}\n")
    assert checkout.run("rev-list", "--first-parent", "HEAD") == second  # so the traps are real ones
    assert GitRepository(checkout.root).first_parents(second, 9) == wanted


def test_without_git_it_is_said(checkout, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StorageError, match=r"git cannot be run .* install it"):
        GitRepository(checkout.root)
