"""A cache folder of its own for every test, no network, and the default model loaded once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ctxbench.search.minilm import MiniLM

DESK = Path(__file__).parents[1] / "fixtures" / "desk"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("CTXBENCH_CACHE", str(folder))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "no-hub"))
    monkeypatch.delenv("CTXBENCH_MODEL", raising=False)
    return folder


@pytest.fixture(scope="session")
def minilm():
    return MiniLM(threads=2)


@pytest.fixture(scope="session")
def desk_texts():
    return json.loads((DESK / "embedding_texts.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def desk_vectors():
    return np.load(DESK / "embeddings.npy")
