from __future__ import annotations

from math import log

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.model.items import Catalog, Item
from ctxbench.search.word_index import VARIANTS, Bm25Index, bm25_index
from ctxbench.search.words import WordRule, words

TEXTS = ["apple", "apple banana banana", "cherry apple", "date elder"]  # 1, 3, 2 and 2 words: 2 on average
CATALOG = Catalog([Item(type="rule", name=text) for text in TEXTS])


def weight(tf: int, length: int, *, n: int, k1: float = 1.5, b: float = 0.75) -> float:
    """One term: idf of a word that `n` of the 4 texts hold, times its weight in a text."""
    return log(1 + (4 - n + 0.5) / (n + 0.5)) * tf / (tf + k1 * (1 - b + b * length / 2))


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


def made_up(n: int) -> list[str]:
    """Texts of 3 to 30 words; word w is about 1 / w as frequent as the first."""
    rng = np.random.default_rng(11)
    frequency = 1 / np.arange(3, 203)
    return [
        " ".join(f"w{i}" for i in rng.choice(200, size=rng.integers(3, 31), p=frequency / frequency.sum()))
        for _ in range(n)
    ]


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (2.0, 0.0)])
def test_variants_equal_those_of_rank_bm25(k1, b):
    from rank_bm25 import BM25Okapi, BM25Plus  # 0.2.2

    texts = made_up(150)
    catalog = Catalog([Item(type="rule", name=text) for text in dict.fromkeys(texts)])
    corpus = [words(item.search_text) for item in catalog]
    half = [w for w in {w for text in corpus for w in text} if 2 * sum(w in text for text in corpus) >= len(corpus)]
    assert half, "some words must stand in half of the texts, or the exception is not met"
    for text in made_up(180)[150:]:
        query = words(text)
        plus = Bm25Index(catalog, k1=k1, b=b, variant="bm25+").scores(text)
        assert plus == pytest.approx(BM25Plus(corpus, k1=k1, b=b, delta=1).get_scores(query), abs=1e-9)
        rare = [word for word in query if word not in half]
        okapi = BM25Okapi(corpus, k1=k1, b=b, epsilon=0.0).get_scores(rare)
        ours = Bm25Index(catalog, k1=k1, b=b, variant="robertson").scores(" ".join(rare)) * (k1 + 1)
        assert ours == pytest.approx(okapi, abs=1e-9)


def test_which_items_share_a_word_with_a_text():
    index = Bm25Index(CATALOG, k1=1.5, b=0.75, variant="bm25+")
    assert index.shares_word("banana elder fig").tolist() == [False, True, False, True]
    assert index.scores("banana elder")[0] > 0  # this variant scores what shares nothing, too
    assert index.shares_word("fig").tolist() == [False] * 4
    assert Bm25Index(Catalog([]), k1=1.5, b=0.75).shares_word("apple").tolist() == []


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (2.0, 0.0), (1.2, 1.0)])
def test_scores_equal_those_of_bm25s_in_every_variant(variant, k1, b):
    import bm25s  # 0.3.16

    catalog = Catalog([Item(type="rule", name=text) for text in dict.fromkeys(made_up(150))])
    theirs = bm25s.BM25(k1=k1, b=b, delta=1.0, method=variant, dtype="float64")
    theirs.index([words(item.search_text) for item in catalog], show_progress=False)
    ours = Bm25Index(catalog, k1=k1, b=b, variant=variant)
    for text in made_up(180)[150:]:
        known = [word for word in words(text) if word in theirs.vocab_dict]
        assert ours.scores(text) == pytest.approx(theirs.get_scores(known), rel=1e-12, abs=1e-12)


def test_with_the_words_of_bm25s_scores_are_those_of_its_defaults():
    import bm25s  # 0.3.16
    from bm25s.stopwords import STOPWORDS_EN

    texts = ["the apple tree", "apple pie of the day", "an elder tree in the wood", "a day of rest"]
    tokens = bm25s.tokenize(texts, stopwords="english", return_ids=False, show_progress=False)
    theirs = bm25s.BM25(dtype="float64")
    theirs.index(tokens, show_progress=False)
    kept = [" ".join(word for word in text.split() if word not in STOPWORDS_EN) for text in texts]
    ours = Bm25Index(Catalog([Item(type="rule", name=text) for text in kept]), k1=1.5, b=0.75)
    assert ours.scores("apple tree day") == pytest.approx(theirs.get_scores(["apple", "tree", "day"]), rel=1e-12)


def test_the_same_word_in_other_shapes_is_found_where_the_rule_says_so():
    catalog = Catalog([Item(type="tool", name="createIssues"), Item(type="tool", name="send")])
    strong, plain = (
        Bm25Index(catalog, k1=1.5, b=0.75, rule=WordRule(split=on, stop=on, stem=on)) for on in (True, False)
    )
    assert (strong.scores("an issue") > 0).tolist() == [True, False]
    assert (plain.scores("an issue") > 0).tolist() == [False, False]


def test_the_server_is_searched_where_asked_as_if_it_were_in_the_name():
    moved = Catalog([Item(type="tool", server="github", name="create_issue"), Item(type="tool", name="send")])
    before = Catalog([Item(type="tool", name="github_create_issue"), Item(type="tool", name="send")])
    asked = "github issue"
    as_name = Bm25Index(before, k1=1.5, b=0.75).scores(asked)
    assert np.array_equal(Bm25Index(moved, k1=1.5, b=0.75, server=True).scores(asked), as_name)
    assert (Bm25Index(moved, k1=1.5, b=0.75).scores("github") > 0).tolist() == [False, False]


def test_weights_of_words_count():
    index = Bm25Index(CATALOG, k1=1.5, b=0.75)
    assert index.scores(index.words(["apple", "cherry"], [1.0, 0.5])) == pytest.approx(
        index.scores("apple") + 0.5 * index.scores("cherry")
    )


def test_a_request_of_stop_words_finds_what_is_made_of_them_and_crashes_nothing():
    catalog = Catalog([Item(type="memory", name="to be or not to be"), Item(type="memory", name="what to buy")])
    index = Bm25Index(catalog, k1=1.5, b=0.75, rule=WordRule(stop=True))
    assert (index.scores("to be") > 0).tolist() == [True, False]
    assert index.scores("is it").tolist() == [0.0, 0.0]


def test_settings_left_out_and_settings_as_they_are_by_default_are_one_index():
    resources = testing.mock_resources()
    plain = bm25_index(CATALOG, resources, k1=1.5, b=0.75)
    assert bm25_index(CATALOG, resources, b=0.75, k1=1.5, bodies=False, server=False) is plain
    assert bm25_index(CATALOG, resources, k1=1.5, b=0.75, bodies=True) is not plain


@pytest.mark.parametrize("variant", VARIANTS)
def test_over_some_items_scores_are_those_of_a_catalog_of_these(variant):
    texts = list(dict.fromkeys(made_up(150)))
    counted = np.random.default_rng(3).random(len(texts)) < 0.4
    items = [Item(type="rule", name=text) for text in texts]
    whole = Bm25Index(Catalog(items), k1=1.5, b=0.75, variant=variant)
    part = Bm25Index(Catalog([items[n] for n in np.flatnonzero(counted)]), k1=1.5, b=0.75, variant=variant)
    for text in [*made_up(180)[150:], "w199 nothing"]:
        before = whole.scores(text)
        assert np.array_equal(whole.scores(text, counted=counted)[counted], part.scores(text))
        assert np.array_equal(whole.scores(text), before), "what is counted over all must not change"


def test_over_no_item_nothing_scores():
    index = Bm25Index(CATALOG, k1=1.5, b=0.75, variant="bm25+")
    assert index.scores("apple", counted=np.zeros(4, dtype=np.bool_)).tolist() == [0.0] * 4


def test_items_that_are_added_count_at_once():
    index = Bm25Index(CATALOG, k1=1.5, b=0.75)
    index.scores("apple banana")  # what words add is kept
    longer = CATALOG.extended([Item(type="rule", name="banana fig")])
    before = index.scores("apple banana")
    assert np.array_equal(
        index.extended(longer).scores("apple banana"), Bm25Index(longer, k1=1.5, b=0.75).scores("apple banana")
    )
    assert np.array_equal(index.scores("apple banana"), before)
