"""What the tests of the plugin share."""

from __future__ import annotations

import json

import pytest

from ctxbench.pytest_plugin import AssertOffers, Setup, open_setup
from tests.pytest_plugin.plugin_cases import FEW, INI, ONE, ROWS, SELECTOR, Team, put


@pytest.fixture
def team(tmp_path, monkeypatch):
    """A team's repository, with a cache folder of its own."""
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    made = Team(tmp_path / "team")
    made.path.mkdir()
    put(made, ROWS)
    (made.path / "two.yaml").write_text(SELECTOR)
    (made.path / "pytest.ini").write_text(INI)
    return made


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "items.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in FEW))
    (tmp_path / "one.yaml").write_text(ONE)
    return tmp_path


@pytest.fixture
def opened(root):
    return open_setup(Setup(catalog="items.jsonl", selector="one.yaml", embedder="hashing"), root)


@pytest.fixture
def offers(opened):
    """`assert_offers` over the items; the best one is offered."""
    return AssertOffers(Setup(), lambda _setup: opened)
