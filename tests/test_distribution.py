"""The source distribution and the wheel: what they hold, and what a package index shows of them."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

import pytest

import ctxbench

pytest.importorskip("hatch_fancy_pypi_readme", reason="needs the extra `build`: pip install -e '.[build]'")
pytestmark = pytest.mark.rest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ctxbench"
DATA = (".json", ".toml", ".yaml", ".j2", ".js", ".css", ".typed")
ELSEWHERE = re.compile(rb"(?:/root|/home|/work|/Users)/\w")


@dataclass(frozen=True)
class Built:
    """A source distribution, unpacked, the wheel of the clone, and that of the source distribution."""

    source: Path
    wheel: Path
    rebuilt: Path


def build(folder: Path, target: str, out: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(out)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.iterdir()
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    with tarfile.open(build(ROOT, "sdist", folder / "sdist")) as archive:
        archive.extractall(folder, filter="data")
    source = folder / f"ctxbench-{ctxbench.__version__}"
    return Built(source, build(ROOT, "wheel", folder / "wheel"), build(source, "wheel", folder / "rebuilt"))


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def files(built) -> dict[str, bytes]:
    return contents(built.wheel)


@pytest.fixture(scope="module")
def metadata(files) -> Message:
    (name,) = [name for name in files if name.endswith(".dist-info/METADATA")]
    return email.message_from_bytes(files[name])


def test_the_wheel_has_every_module_and_every_file_that_they_read(files):
    expected = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.suffix in (".py", *DATA) and "__pycache__" not in path.parts
    }
    assert len(expected) > 240
    assert expected <= files.keys()
    for name in ("diary", "freight", "smoke", "workbench"):
        assert {f"ctxbench/shipped_datasets/{name}/{part}" for part in ("corpus.jsonl", "dataset.yaml")} <= files.keys()
    assert "ctxbench/cli/workflow.yml" in files


def test_the_wheel_has_nothing_else(files):
    assert {name.partition("/")[0] for name in files} == {"ctxbench", f"ctxbench-{ctxbench.__version__}.dist-info"}
    assert [name for name in files if name.endswith((".md", ".ipynb", ".pyc")) or "/tests/" in name] == []


def test_no_file_names_a_folder_of_this_machine(files):
    assert [name for name, content in files.items() if str(ROOT).encode() in content] == []
    assert {name: match[0] for name, content in files.items()
            if name.endswith((*DATA, ".yml")) and (match := ELSEWHERE.search(content))} == {}  # fmt: skip


def test_the_source_distribution_builds_the_same_wheel(built, files):
    assert contents(built.rebuilt) == files


def test_the_source_distribution_is_what_the_wheel_is_made_of(built):
    top = {path.name for path in built.source.iterdir()}
    assert top - {".gitignore"} == {
        "CHANGELOG.md", "CITATION.cff", "LICENSE", "PKG-INFO", "README.md", "ctxbench", "datasets", "experiments",
        "pyproject.toml",
    }  # fmt: skip
    assert sorted(path for path in (built.source / "experiments").rglob("*") if path.is_file()) == [
        built.source / "experiments" / "gate" / name for name in ("action.yml", "gitlab.yml", "workflow.yml")
    ]


def test_a_package_index_shows_the_readme_without_what_only_a_clone_has(metadata):
    text = metadata.get_payload()
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert text.startswith("# ctxbench\n")
    assert "ctxbench.evaluate(" in text
    assert "## 0.1.0" in text
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert [link for link in links if not link.startswith("https:")] == []
    assert "![" not in text
    assert not re.search(r"`make |^make |\./ctxbench|picture above", text, re.MULTILINE)


def test_the_metadata_are_those_of_the_project(metadata):
    assert (metadata["Name"], metadata["Version"]) == ("ctxbench", ctxbench.__version__)
    assert (metadata["License-Expression"], metadata.get_all("License-File")) == ("Apache-2.0", ["LICENSE"])
    assert f"version: {ctxbench.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_the_changelog_is_one_page_with_the_version():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## {ctxbench.__version__}\n" in text
    assert len(text.split()) <= 700
