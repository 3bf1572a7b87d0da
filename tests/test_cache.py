"""Where caches are kept."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from ctxbench.cache import cache_dir
from ctxbench.errors import ParameterError


def test_the_environment_moves_it(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "here"))
    assert cache_dir() == tmp_path / "here"


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CTXBENCH_CACHE", "~/vectors")
    assert cache_dir() == tmp_path / "vectors"


def test_the_home_folder_of_nobody_is_the_users_fault(monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", "~nobody_here/x")
    with pytest.raises(ParameterError, match=r"CTXBENCH_CACHE is '~nobody_here/x', but that home folder is not known"):
        cache_dir()


def test_without_it_the_platform_decides(monkeypatch):
    monkeypatch.delenv("CTXBENCH_CACHE", raising=False)
    assert cache_dir() == Path(platformdirs.user_cache_dir("ctxbench"))
    monkeypatch.setenv("CTXBENCH_CACHE", "")
    assert cache_dir() == Path(platformdirs.user_cache_dir("ctxbench"))


def test_it_is_not_made(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "here"))
    cache_dir()
    assert not (tmp_path / "here").exists()
