from __future__ import annotations

from math import log

import numpy as np
import pytest

from ctxbench.index.lexical import Bm25Index, words
from ctxbench.items import Catalog, Item

TEXTS = ["apple", "apple banana banana", "cherry apple", "date elder"]  # 1, 3, 2 and 2 words: 2 on average
CATALOG = Catalog([Item(type="rule", name=text) for text in TEXTS])


def weight(tf: int, length: int, *, n: int, k1: float = 1.5, b: float = 0.75) -> float:
    """One term: idf of a word that `n` of the 4 texts hold, times its weight in a text."""
    return log(1 + (4 - n + 0.5) / (n + 0.5)) * tf / (tf + k1 * (1 - b + b * length / 2))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("create_issue, 2nd", ["create", "issue", "2nd"]),
        ("ÄÖ-ß don't", ["äö", "ss", "don", "t"]),
        ("土曜日 🚀", ["土曜日"]),
        (" _!", []),
        ("Cafe\u0301 Caf\u00e9", ["caf\u00e9", "caf\u00e9"]),  # both spellings of é
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),  # marks belong to their letters
    ],
)
def test_words_are_runs_of_letters_and_digits(text, found):
    assert words(text) == found


@pytest.mark.parametrize(
    ("text", "scores"),
    [
        ("apple", [weight(1, 1, n=3), weight(1, 3, n=3), weight(1, 2, n=3), 0]),
        ("Banana!", [0, weight(2, 3, n=1), 0, 0]),
        ("banana banana", [0, 2 * weight(2, 3, n=1), 0, 0]),
        ("apple cherry fig", [weight(1, 1, n=3), weight(1, 3, n=3), weight(1, 2, n=3) + weight(1, 2, n=1), 0]),
        ("fig", [0, 0, 0, 0]),
        ("", [0, 0, 0, 0]),
    ],
)
def test_scores_are_the_formula(text, scores):
    assert Bm25Index(CATALOG, k1=1.5, b=0.75).scores(text) == pytest.approx(scores, abs=1e-12)


def test_k1_and_b_are_used():
    expected = [0, weight(2, 3, n=1, k1=2.0, b=0.0), 0, 0]
    assert Bm25Index(CATALOG, k1=2.0, b=0.0).scores("banana") == pytest.approx(expected, abs=1e-12)
    # without saturation every occurrence is one: the idf alone
    assert Bm25Index(CATALOG, k1=0.0, b=0.0).scores("banana")[1] == pytest.approx(log(1 + 3.5 / 1.5), abs=1e-12)


def test_description_and_text_are_searched_but_not_the_text_of_a_tool():
    catalog = Catalog(
        [Item(type=kind, name="x", description="banana", text="cherry") for kind in ("rule", "reference", "tool")]
    )
    index = Bm25Index(catalog, k1=1.5, b=0.75)
    assert (index.scores("banana") > 0).tolist() == [True, True, True]
    assert (index.scores("cherry") > 0).tolist() == [True, True, False]


def test_equal_texts_score_equal():
    catalog = Catalog([Item(type=kind, name="same words") for kind in ("rule", "reference", "memory", "file")])
    assert len(set(Bm25Index(catalog, k1=1.5, b=0.75).scores("words same").tolist())) == 1


def test_items_in_another_order_have_their_own_scores():
    mixed = Catalog([CATALOG[place] for place in (2, 0, 3, 1)])
    one, other = (Bm25Index(catalog, k1=1.5, b=0.75).scores("apple cherry banana") for catalog in (CATALOG, mixed))
    assert np.array_equal(one[[2, 0, 3, 1]], other)


@pytest.mark.parametrize("names", [[], ["!"], ["!", "?"]])
def test_texts_without_words_score_nothing(names):
    index = Bm25Index(Catalog([Item(type="rule", name=name) for name in names]), k1=1.5, b=0.75)
    assert index.scores("apple").tolist() == [0] * len(names)


def test_a_single_item():
    index = Bm25Index(Catalog([Item(type="rule", name="apple")]), k1=1.5, b=0.75)
    assert index.scores("apple")[0] == pytest.approx(log(1 + 0.5 / 1.5) * 1 / (1 + 1.5), abs=1e-12)


def test_an_item_without_words_among_others():
    index = Bm25Index(Catalog([Item(type="rule", name=name) for name in ("!", "apple")]), k1=1.5, b=0.0)
    # two texts, one of which holds the word: idf = ln(1 + 1.5 / 1.5)
    assert index.scores("apple") == pytest.approx([0, log(2) / 2.5], abs=1e-12)
