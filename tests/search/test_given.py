"""Functions as embedders: what they return is checked, brought to unit length, and kept in memory."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ctxbench
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.search import embedders
from ctxbench.search.embedders import HashingEmbedder, ModelError, open_embedder, open_vectors

DATASET = ctxbench.dataset(
    [{"name": "area", "description": "Area of a triangle"}, {"name": "mail", "description": "Send a letter"}],
    [{"query": "q1", "text": "a letter to Ann"}, {"query": "q2", "text": "how large is a triangle"}],
    [{"query": "q1", "item": "mail"}, {"query": "q2", "item": "area"}],
)


class Counting:
    """Hashed words, five times too long, with the number of texts of every call."""

    def __init__(self, dimensions=32):
        self.inner = HashingEmbedder(dimensions)
        self.calls = []

    def __call__(self, texts):
        assert type(texts) is list
        self.calls.append(len(texts))
        out = (5 * self.inner.embed(texts)).tolist()
        texts.clear()  # the list is its own
        return out


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(embedders, "_registered", {})


def test_a_function_has_one_name_and_unit_vectors_that_are_made_once():
    embed = Counting()
    name = embedders.named(embed)
    assert embedders.named(embed) == name == "python:Counting"
    assert embedders.named(Counting()) == "python:Counting-2"
    embedder = open_embedder(name)
    assert embedder.identity.dimensions == 32
    for _ in range(2):
        vectors = open_vectors(open_embedder(name)).get(["one", "two", "one"])
        assert np.allclose(vectors, embed.inner.embed(["one", "two", "one"]), atol=1e-6)
    assert [n for n in embed.calls if n > 1] == [2]  # else only the text that tells whether it is still the same


def test_a_method_is_the_same_embedder_each_time_it_is_named():
    model = HashingEmbedder(16)
    assert embedders.named(model.embed) == embedders.named(model.embed) == "python:embed"
    assert embedders.named(HashingEmbedder(16).embed) == "python:embed-2"


def test_functions_of_one_name_are_never_taken_for_each_other(monkeypatch):
    first = open_embedder(embedders.named(Counting())).identity
    monkeypatch.setattr(embedders, "_registered", {})  # as in another process
    second = open_embedder(embedders.named(Counting())).identity
    assert first.model == second.model
    assert first != second


def test_it_is_called_with_so_many_texts_at_most():
    embed = Counting()
    texts = [str(number) for number in range(embedders.BATCH + 3)]
    assert open_vectors(open_embedder(embedders.named(embed))).get(texts).shape == (len(texts), 32)
    assert [n for n in embed.calls if n > 1] == [embedders.BATCH, 3]


def test_an_object_that_is_an_embedder_is_taken_as_it_is():
    own = HashingEmbedder(16)
    assert open_embedder(embedders.named(own)) is own


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda texts: np.ones(len(texts)), r"shape \(1,\) for 1 texts; expected \(n_texts, n_dimensions\)"),
        (lambda texts: np.ones((len(texts) + 1, 3)), r"shape \(2, 3\) for 1 texts"),
        (lambda texts: np.ones((len(texts), 0)), r"shape \(1, 0\) for 1 texts"),
        (lambda texts: np.zeros((len(texts), 3)), "the vector of text 'ctxbench' has no length"),
        (lambda texts: np.full((len(texts), 3), np.nan), "the vector of text 'ctxbench' holds NaN or infinity"),
        (lambda texts: [["x"] for _ in texts], "failed on 1 texts, the first 'ctxbench': ValueError"),
        (lambda texts: 1 / 0, "ZeroDivisionError: division by zero; it must return an array of numbers"),
        (lambda: 1, "TypeError"),
    ],
)
def test_a_function_that_returns_something_else_is_refused_at_once(function, message):
    with pytest.raises(ModelError, match=message):
        embedders.named(function)


def test_another_length_in_a_later_call_is_an_error():
    lengths = iter([3, 3, 4])  # when given, when opened, when asked
    name = embedders.named(lambda texts: np.ones((len(texts), next(lengths))))
    with pytest.raises(ModelError, match=r"shape \(2, 4\) for 2 texts; expected \(n_texts, 3\), here \(2, 3\)"):
        open_vectors(open_embedder(name)).get(["a", "b"])


def test_what_is_no_embedder_and_what_was_not_given_is_said():
    with pytest.raises(ParameterError, match=r"an embedder is a name such as minilm, a function .*got int"):
        embedders.named(5)
    with pytest.raises(ParameterError, match="no embedder 'python:embed' was given in this process"):
        open_embedder("python:embed")


def test_dense_with_an_embedder_of_its_own_answers_as_where_that_is_the_runs():
    embed = Counting()
    own = {"retrieve": {"dense": {"embedder": embed}}, "refine": ["first"]}
    mixed = ctxbench.evaluate(DATASET, {"own": own, "runs": "semantic/spec"}, embedder="hashing", counter="chars/4")
    alone = ctxbench.evaluate(
        DATASET, {"own": {"retrieve": "dense", "refine": ["first"]}}, embedder=embed, counter="chars/4"
    )
    scores = [res.explain("q1", "own")[["item", "score"]].values.tolist() for res in (mixed, alone)]
    assert scores[0] == scores[1]
    assert scores[0] != mixed.explain("q1", "runs")[["item", "score"]].values.tolist()
    identities = mixed.summary.manifest["selectors"]["own"]["description"]["identities"]
    assert list(identities) == ["embedder:python:Counting"]


def test_two_embedders_can_be_merged_and_by_name():
    both = ctxbench.pipeline(
        {"merge": {"a": {"dense": {"embedder": Counting()}}, "b": {"dense": {"embedder": "hashing"}}}},
        refine=["rrf", "first"],
    )
    res = ctxbench.evaluate(DATASET, {"both": both}, embedder="hashing", counter="chars/4")
    assert res.to_frame()["errors"].tolist() == [0]


def test_an_unknown_embedder_of_a_step_is_said_before_anything_runs():
    with pytest.raises(
        InputError, match="selector 'x' on dataset mine: dense: unknown embedder 'hashin'; did you mean"
    ):
        ctxbench.evaluate(
            DATASET, {"x": ctxbench.pipeline({"dense": {"embedder": "hashin"}})}, embedder="hashing", counter="chars/4"
        )


def test_a_model_that_was_trained_further_is_another_embedder():
    class Model:
        inner = HashingEmbedder(16)

        def encode(self, texts):
            return self.inner.embed(texts)

    model = Model()
    pipeline = ctxbench.pipeline({"dense": {"embedder": model.encode}}, refine=["first"])

    def scores():
        res = ctxbench.evaluate(DATASET, {"own": pipeline}, embedder="hashing", counter="chars/4")
        return res.explain("q1", "own")["score"].tolist()

    before = scores()
    assert scores() == before
    model.inner = HashingEmbedder(24)
    assert scores() != before


def test_functions_given_from_several_threads_have_names_of_their_own():
    def made():
        def emb(texts):
            time.sleep(0.01)
            return np.ones((len(texts), 3))

        return emb

    functions = [made() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(embedders.named, functions))
    assert len(set(names)) == 8
    assert all(embedders._registered[name][0] is function for name, function in zip(names, functions, strict=True))


def test_vectors_of_functions_that_were_given_first_go_first(monkeypatch):
    monkeypatch.setattr(embedders, "_LIMIT", 3 * 32 * 4)
    first, second = (embedders.named(Counting()) for _ in range(2))
    open_vectors(open_embedder(first)).get(["a", "b"])
    open_vectors(open_embedder(second)).get(["a", "b"])
    assert len(embedders._registered[first][1].store) == 0
    assert len(embedders._registered[second][1].store) == 2


@pytest.mark.parametrize("wrong", [Counting, type("Odd", (), {"identity": "x", "embed": None})()])
def test_a_class_and_an_identity_that_is_none_are_refused(wrong):
    with pytest.raises(ParameterError, match="an object with `identity` \\(an `EmbedderIdentity`\\) and `embed`; got"):
        embedders.named(wrong)


def test_a_source_of_a_merge_may_be_called_embedder():
    both = ctxbench.pipeline({"merge": {"embedder": "bm25", "b": "dense"}}, refine=["rrf"])
    assert set(both.retrieve.sources) == {"embedder", "b"}
