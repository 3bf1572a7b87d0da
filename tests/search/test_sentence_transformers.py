"""Any other model, by sentence-transformers."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil

import numpy as np
import pytest

from ctxbench.search import minilm as model_files
from ctxbench.search.embedders import ModelError
from ctxbench.search.embedding_models import SentenceTransformerEmbedder
from ctxbench.search.minilm import find_weights

pytestmark = [
    pytest.mark.rest,  # PyTorch takes seconds to import
    pytest.mark.skipif(importlib.util.find_spec("sentence_transformers") is None, reason="needs the extra"),
]


@pytest.fixture(scope="module")
def embedder():
    return SentenceTransformerEmbedder(str(find_weights().model.parent))


@pytest.fixture
def small(tmp_path):
    """The small files of a model of width 8 with a dense layer to 5; no weights."""
    folder = tmp_path / "small"
    (folder / "2_Dense").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"hidden_size": 8, "torch_dtype": "float16"}))
    (folder / "2_Dense" / "config.json").write_text(json.dumps({"in_features": 8, "out_features": 5}))
    module = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    (folder / "modules.json").write_text(json.dumps([module]))
    return folder


def test_vectors_are_those_of_the_default_embedder(embedder, minilm, desk_texts):
    texts = [*desk_texts[:10], "", "half \ud83d", "NUL \x00"]
    np.testing.assert_allclose(embedder.embed(texts), minilm.embed(texts), atol=2e-6)


def test_neighbours_and_order_do_not_matter(embedder, desk_texts):
    texts = desk_texts[:8]
    together = embedder.embed(texts)
    assert embedder.embed(texts[::-1]).tobytes() == together[::-1].tobytes()
    assert embedder.embed([texts[5]]).tobytes() == together[5].tobytes()


def test_pytorchs_number_of_threads_neither_matters_nor_changes(embedder, desk_texts):
    import torch

    before = torch.get_num_threads()
    vectors = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            vectors.append(embedder.embed(desk_texts[:4]).tobytes())
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert vectors[0] == vectors[1]


def test_on_done_reports_every_row(embedder):
    rows = {}
    vectors = embedder.embed(["a", "b"], on_done=rows.__setitem__)
    np.testing.assert_array_equal(np.array([rows[0], rows[1]]), vectors)


def test_no_texts_load_nothing(small):
    assert SentenceTransformerEmbedder(str(small)).embed([]).shape == (0, 5)


def test_the_identity_is_read_from_the_small_files(small):
    identity = SentenceTransformerEmbedder(str(small)).identity
    assert (identity.model, identity.backend) == ("small", "sentence-transformers")
    assert (identity.dimensions, identity.quantisation) == (5, "float16")


def test_a_changed_file_of_a_local_model_changes_the_identity(small):
    before = SentenceTransformerEmbedder(str(small)).identity
    assert SentenceTransformerEmbedder(str(small)).identity == before
    (small / "model.safetensors").write_bytes(b"new")
    assert SentenceTransformerEmbedder(str(small)).identity.revision != before.revision


def test_the_contents_of_a_local_model_are_its_identity_and_not_its_place_or_times(small, tmp_path):
    revisions = []
    for folder, content in (("one", b"A" * 100), ("two", b"B" * 100), ("three", b"A" * 100)):
        copy = tmp_path / folder / "model"
        shutil.copytree(small, copy)
        (copy / "model.safetensors").write_bytes(content)
        (copy / ".git").mkdir()
        (copy / ".git" / "HEAD").write_text(folder)
        for file in copy.rglob("*"):
            os.utime(file, (0, 0) if folder != "three" else (9, 9))
        revisions.append(SentenceTransformerEmbedder(str(copy)).identity.revision)
    assert revisions[0] != revisions[1]
    assert revisions[0] == revisions[2]


def test_a_local_model_is_hashed_once(small, monkeypatch):
    before = SentenceTransformerEmbedder(str(small)).identity
    monkeypatch.setattr(model_files.hashlib, "file_digest", lambda *arguments: pytest.fail("hashed again"))
    assert SentenceTransformerEmbedder(str(small)).identity == before


def test_a_model_of_the_hubs_cache_is_known_by_its_commit(small, tmp_path, monkeypatch):
    import huggingface_hub.constants

    cache = tmp_path / "hub"
    folder = cache / "models--sentence-transformers--tiny"
    shutil.copytree(small, folder / "snapshots" / ("0" * 40))
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    identity = SentenceTransformerEmbedder("tiny").identity
    assert (identity.model, identity.revision) == ("sentence-transformers/tiny", "0" * 40)
    assert identity.dimensions == 5


def test_a_model_that_is_not_here_and_no_network(tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "empty"))
    with pytest.raises(ModelError, match=r"no config\.json of the model 'owner/none' on this machine"):
        _ = SentenceTransformerEmbedder("owner/none").identity


def test_a_folder_that_holds_no_model(tmp_path):
    with pytest.raises(ModelError, match=r"not the folder of a sentence-transformers model: no config\.json in it"):
        _ = SentenceTransformerEmbedder(str(tmp_path)).identity


def test_a_model_that_cannot_be_loaded(small):
    with pytest.raises(ModelError, match="cannot be loaded by sentence-transformers"):
        SentenceTransformerEmbedder(str(small)).embed(["a"])


def test_files_that_do_not_say_the_width(small):
    (small / "modules.json").write_text("[]")
    (small / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="does not say how long its vectors are"):
        _ = SentenceTransformerEmbedder(str(small)).identity


def test_files_that_are_no_json(small):
    (small / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json is not JSON"):
        _ = SentenceTransformerEmbedder(str(small)).identity


def test_the_missing_package_is_named_with_the_command(small, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r'pip install .*\[sentence-transformers\]"'):
        _ = SentenceTransformerEmbedder(str(small)).identity
