import pytest

from ctxbench.search import code_facts


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache of code facts, in memory and on disk."""
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(code_facts, "_in_memory", {})
    return tmp_path / "cache"
