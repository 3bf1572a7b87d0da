"""Document 002's scores: values worked by hand, and TF-IDF beside scikit-learn's."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.model.candidates import Candidates, Mode
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.features import with_features
from ctxbench.pipelines.strategies.rank import Linear
from ctxbench.search.words import words


def file(name, text, **more):
    return Item(type=more.pop("type", "file"), name=name, text=text, **more)


def values(column, items, text="red sea", *, keywords=(), mode=Mode.AGENT, shown=None, **asked):
    """A column of all items that the request sees, by name."""
    batch = Batch.of(Catalog(items), [Request(id="q", text=text, **asked)])
    seen = np.flatnonzero(batch.visible[0])
    table = Candidates.build(1, np.zeros_like(seen), seen, score=np.ones(len(seen)), mode=np.full(len(seen), int(mode)))
    if shown is not None:
        every = np.ones(len(seen), dtype=bool)
        table = table.showing(every, *(np.full(len(seen), one) for one in (*shown, 1)))
    query = replace(Query.of_chunks(batch, [[text]]), keywords=(tuple(keywords),))
    made = with_features(table, [f"assembly.{column}"], query, testing.mock_resources())
    return {
        items[n].name: value for n, value in zip(made.item.tolist(), made.columns[f"assembly.{column}"], strict=True)
    }


def test_tf_is_the_cosine_of_counts_of_words_split_at_white_space():
    items = [file("a", "Red red  sea"), file("b", "red, sea."), file("c", "sea"), file("d", "")]
    # (1, 1) and (2, 1): 3 / (sqrt 2 sqrt 5); punctuation belongs to a word
    wanted = {"a": 3 / math.sqrt(10), "b": 0.0, "c": 1 / math.sqrt(2), "d": 0.0}
    assert values("tf", items) == pytest.approx(wanted)
    assert values("tf", items[:1], "") == {"a": 0.0}
    assert values("tf", items[:1], "sea RED") == pytest.approx({"a": 3 / math.sqrt(10)})


def test_tfidf_is_that_of_scikit_learn_over_what_the_request_may_see():
    vectorizers = pytest.importorskip("sklearn.feature_extraction.text")
    texts = ["Red red sea.", "the red boat, the sea", "A boat", "nothing of that", "create_issue red"]
    items = [file(str(n), text) for n, text in enumerate(texts)]
    hidden = file("hidden", "red red red sea", user="bob")
    for text in ("red sea", "the boat is red and unknown", "create issue", ""):
        made = vectorizers.TfidfVectorizer(tokenizer=words, lowercase=False, token_pattern=None)
        made.fit(texts)
        # a word of the request that no text holds counts in its length, as rare as a word can be
        asked, unknown = made.transform([text]).toarray()[0], set(words(text)) - set(made.vocabulary_)
        known = {word: made.idf_[at] for word, at in made.vocabulary_.items()}
        weight = [known.get(word, math.log(6) + 1) for word in words(text)]
        share = (
            math.sqrt(sum(known[w] ** 2 for w in words(text) if w in known) / sum(w * w for w in weight))
            if unknown
            else 1
        )
        wanted = {
            item.name: float(row @ asked) * share
            for item, row in zip(items, made.transform(texts).toarray(), strict=True)
        }
        assert values("tfidf", [*items, hidden], text, user="ann") == pytest.approx(wanted, abs=1e-12)


def test_keywords_count_where_they_stand_within_words_too():
    items = [file("a", "The SERVERS are configured."), file("b", "none")]
    assert values("keywords", items, keywords=("server", "config", "port")) == {"a": 2 / 3, "b": 0.0}
    assert values("keywords", items) == {"a": 0.0, "b": 0.0}


def test_recency_falls_by_the_hour_from_the_time_of_the_request():
    items = [file("new", "x", created="2026-01-03"), file("old", "x", created="2026-01-01"), file("none", "x")]
    at = values("recency", items, time="2026-01-04T00:00:00Z")
    assert at == pytest.approx({"new": math.exp(-0.24), "old": math.exp(-0.72), "none": 0.5})
    assert values("recency", items) == pytest.approx({"new": 1.0, "old": math.exp(-0.48), "none": 0.5})


def test_a_source_counts_by_its_type_and_what_was_named_as_a_reference():
    items = [file(kind, "x", type=kind) for kind in ("reference", "file", "chunk", "message", "memory", "rule")]
    wanted = {"reference": 1.0, "file": 0.7, "chunk": 0.6, "message": 0.5, "memory": 0.3, "rule": 0.3}
    assert values("source", items) == wanted
    assert set(values("source", items, mode=Mode.EXPLICIT).values()) == {1.0}


def test_uses_count_up_to_ten():
    items = [file(name, "x") for name in "abc"]
    uses = ((items[0].key, 3), (items[1].key, 40))
    assert values("uses", items, uses=uses) == {"a": 0.3, "b": 1.0, "c": 0.0}


def test_what_is_shown_counts_and_not_the_rest():
    items = [file("a", "red sea and boats")]
    assert values("tf", items, shown=(0, 7)) == pytest.approx({"a": 1.0})
    assert values("keywords", items, shown=(0, 7), keywords=("boat", "sea")) == {"a": 0.5}
    assert values("tfidf", items, shown=(0, 7))["a"] > values("tfidf", items)["a"]


def test_of_equal_texts_the_one_that_was_named_is_first():
    items = [file("a", "red sea"), file("b", "red sea")]
    batch = Batch.of(Catalog(items), [Request(id="q", text="red sea")])
    mode = np.array([Mode.AGENT, Mode.EXPLICIT], dtype=np.int64)
    table = Candidates.build(1, np.zeros(2, np.int64), np.arange(2), score=np.ones(2), mode=mode)
    weights = {"tfidf": 0.35, "keywords": 0.25, "recency": 0.15, "source": 0.15, "uses": 0.1}
    step = Linear({f"assembly.{name}": weight for name, weight in weights.items()})
    made = step(Query.of_chunks(batch, [["red sea"]]), table, testing.mock_resources())
    assert made.item.tolist() == [1, 0]
    # tfidf 1, no keywords, recency 0.5: 0.35 + 0.075 and 0.15 x 1.0 or 0.15 x 0.7
    assert made.score.tolist() == pytest.approx([0.575, 0.53])
