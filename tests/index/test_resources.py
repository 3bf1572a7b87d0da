from __future__ import annotations

import pytest

from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog, Item
from ctxbench.embedding.hashing import HashingEmbedder
from ctxbench.embedding.vectors import Vectors
from ctxbench.index.resources import LocalResources
from ctxbench.tokens import CharsCounter

CATALOG = Catalog([Item(type="rule", name="a", text="four"), Item(type="file", name="b", text="12345")])


class Counter(CharsCounter):
    def __init__(self) -> None:
        self.asked = 0

    def count(self, ids, texts):
        self.asked += 1
        return super().count(ids, texts)


@pytest.fixture
def resources():
    return LocalResources(Vectors(HashingEmbedder(), None), Counter())


def test_vectors_are_the_embedders(resources):
    assert resources.vectors(["x", "y", "x"]).tolist() == HashingEmbedder().embed(["x", "y", "x"]).tolist()
    assert resources.vectors([]).shape == (0, 256)
    assert resources.stats.embedded == 2


def test_tokens_are_those_of_the_prompt_text_and_counted_once(resources):
    for _ in range(2):
        assert resources.tokens(CATALOG).tolist() == [3, 2]  # "Rule: four" has 10 characters, "12345" five
    assert resources._counter.asked == 1
    assert resources.tokens(Catalog([])).tolist() == []


def test_what_is_kept_is_made_once(resources):
    made = []
    assert [resources.kept(("k", 1), lambda: made.append(1) or len(made)) for _ in range(3)] == [1, 1, 1]
    assert resources.kept(("k", 2), lambda: "other") == "other"
    assert resources.kept(("none",), lambda: None) is None


def test_identities_are_those_of_embedder_and_counter(resources):
    assert resources.identity("embedder") == HashingEmbedder().identity.key
    assert resources.identity("tokens") == "chars/4"
    with pytest.raises(ParameterError, match="no resource is called 'graph'; known: embedder, tokens"):
        resources.identity("graph")


def test_token_counts_cannot_be_changed(resources):
    with pytest.raises(ValueError, match="read-only"):
        resources.tokens(Catalog([Item(type="rule", name="a", text="one two")]))[0] = 999
