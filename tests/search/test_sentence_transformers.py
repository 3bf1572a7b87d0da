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


def test_neighbours_and_order_matter_to_the_last_places_only(embedder, desk_texts):
    texts = desk_texts[:40]  # more than a batch
    together = embedder.embed(texts)
    np.testing.assert_allclose(embedder.embed(texts[::-1]), together[::-1], atol=1e-6)
    np.testing.assert_allclose(embedder.embed([texts[5]]), together[[5]], atol=1e-6)


BGE = "Represent this sentence for searching relevant passages: "


@pytest.fixture(scope="module")
def prompted(tmp_path_factory):
    """The default model with other settings: what its files say of prompts."""

    def make(settings):
        folder = tmp_path_factory.mktemp("prompted") / "model"
        folder.mkdir()
        for file in find_weights().model.parent.iterdir():
            (folder / file.name).symlink_to(file, target_is_directory=file.is_dir())
        (folder / "config_sentence_transformers.json").unlink(missing_ok=True)
        (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
        return folder

    return make


@pytest.mark.parametrize(
    ("settings", "query", "item"),
    [
        ({"prompts": {"query": BGE}}, BGE, ""),
        ({"prompts": {"query": "query: ", "document": "passage: "}}, "query: ", "passage: "),
        ({"prompts": {"query": "query: ", "passage": "passage: "}}, "query: ", ""),
        ({"prompts": {"search": "s: "}, "default_prompt_name": "search"}, "", ""),
        ({}, "", ""),
    ],
)
def test_vectors_are_those_of_the_librarys_own_calls(prompted, desk_texts, settings, query, item):
    from sentence_transformers import SentenceTransformer

    folder, texts = prompted(settings), desk_texts[:6]
    embedder, model = SentenceTransformerEmbedder(str(folder)), SentenceTransformer(str(folder), device="cpu")
    assert (embedder.identity.query_prompt, embedder.identity.item_prompt) == (query, item)
    for kind, encode in (("query", model.encode_query), ("item", model.encode_document)):
        expected = encode(texts, normalize_embeddings=True)
        np.testing.assert_allclose(embedder.embed(texts, kind=kind), expected, atol=1e-5)


def test_prompts_can_be_replaced_and_switched_off(prompted, embedder, desk_texts):
    folder, texts = str(prompted({"prompts": {"query": BGE, "document": "d: "}})), desk_texts[:3]
    off = SentenceTransformerEmbedder(folder, prompts=False)
    np.testing.assert_allclose(off.embed(texts, kind="query"), embedder.embed(texts), atol=1e-6)
    assert (off.identity.query_prompt, off.identity.item_prompt) == ("", "")
    replaced = SentenceTransformerEmbedder(folder, prompts={"item": "x: "})
    assert (replaced.identity.query_prompt, replaced.identity.item_prompt) == (BGE, "x: ")
    prefixed = embedder.embed([f"x: {text}" for text in texts])
    np.testing.assert_allclose(replaced.embed(texts, kind="item"), prefixed, atol=1e-5)


def test_vectors_that_an_earlier_version_stored_with_a_default_prompt_are_not_used(prompted):
    embedder = SentenceTransformerEmbedder(str(prompted({"prompts": {"s": "s: "}, "default_prompt_name": "s"})))
    assert embedder.identity.backend == "sentence-transformers-2"


def test_a_model_with_a_router_takes_the_route_of_the_kind(tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Router, StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "area": 1, "mail": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    weights = np.random.default_rng(7).standard_normal((2, 3, 6)).astype(np.float32)
    routes = [[StaticEmbedding(tokenizer, embedding_weights=table)] for table in weights]
    folder = str(tmp_path / "routed")
    model = SentenceTransformer(modules=[Router.for_query_document(*routes)], device="cpu")
    model.save(folder)
    embedder, texts = SentenceTransformerEmbedder(folder), ["area", "mail area"]
    assert embedder.identity.dimensions == 6
    assert embedder.identity.query_prompt != embedder.identity.item_prompt
    for kind, encode in (("query", model.encode_query), ("item", model.encode_document)):
        expected = encode(texts, normalize_embeddings=True)
        np.testing.assert_allclose(embedder.embed(texts, kind=kind), expected, atol=1e-5)


def test_batches_and_number_format(desk_texts):
    folder, texts = str(find_weights().model.parent), desk_texts[:7]
    one, half = (
        SentenceTransformerEmbedder(folder, **options) for options in ({"batch_size": 2}, {"dtype": "bfloat16"})
    )
    assert (one.identity.quantisation, half.identity.quantisation) == ("float32", "bfloat16")
    assert one.identity.key != half.identity.key
    vectors = one.embed(texts)
    assert 1e-5 < np.abs(half.embed(texts) - vectors).max() < 0.05
    np.testing.assert_allclose(SentenceTransformerEmbedder(folder).embed(texts), vectors, atol=1e-6)


def test_a_device_that_is_not_here():
    with pytest.raises(ModelError, match="cannot be loaded by sentence-transformers"):
        SentenceTransformerEmbedder(str(find_weights().model.parent), device="nowhere").embed(["a"])


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
    with pytest.raises(ModelError, match=r"no modules\.json of the model 'owner/none' on this machine"):
        _ = SentenceTransformerEmbedder("owner/none").identity


def test_a_folder_that_holds_no_model(tmp_path):
    with pytest.raises(ModelError, match=r"not the folder of a sentence-transformers model: no modules\.json in it"):
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
