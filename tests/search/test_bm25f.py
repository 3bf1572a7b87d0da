from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.model.items import Catalog, Item
from ctxbench.search.word_index import Bm25fIndex, Bm25Index, query_words
from ctxbench.search.words import FIELDS, field_words

ONE = dict.fromkeys(FIELDS, 1.0)
FLAT = dict.fromkeys(FIELDS, 0.0)


def index(catalog: Catalog, *, weights=ONE, b=FLAT, k1=1.5) -> Bm25fIndex:
    return Bm25fIndex(catalog, weights={**FLAT, **weights}, b={**FLAT, **b}, k1=k1)


def asked(text: str) -> dict[str, float]:
    return query_words([text], [1.0])


def naive(catalog: Catalog, text: str, *, weights, b, k1) -> list[float]:
    """The formula of the docstring, item by item and word by word, with nothing shared with the index."""
    fields = [field_words(item) for item in catalog]
    held = [name for name in FIELDS if weights[name] > 0]
    mean = {}
    for name in held:
        lengths = [len(row[name]) for row in fields if row[name]]
        mean[name] = sum(lengths) / len(lengths) if lengths else 0.0
    scores = []
    for row in fields:
        score = 0.0
        for word, times in asked(text).items():
            n = sum(any(word in other[name] for name in held) for other in fields)
            count = sum(
                weights[name] * row[name].count(word) / (1 - b[name] + b[name] * len(row[name]) / mean[name])
                for name in held
                if word in row[name]
            )
            if count:
                score += times * log(1 + (len(fields) - n + 0.5) / (n + 0.5)) * count / (k1 + count)
        scores.append(score)
    return scores


def test_of_a_memory_the_text_alone_has_words():
    told = field_words(Item(type="memory", name="some name", description="says", text="likes tea"))
    assert {name: held for name, held in told.items() if held} == {"text": ["likes", "tea"]}


def test_counts_of_fields_are_added_before_they_saturate():
    catalog = Catalog([Item(type="rule", name="apple", description="apple"), Item(type="rule", name="banana")])
    scores = index(catalog, weights={"name": 2.0, "description": 1.0}).scores(asked("apple"))
    idf = log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    assert scores == pytest.approx([idf * 3 / (1.5 + 3), 0], abs=1e-15)


def test_length_counts_against_the_mean_of_the_items_that_have_the_field():
    texts = ["apple", "apple banana cherry", ""]  # 1 and 3 words: 2 on average; the third has no description
    catalog = Catalog([Item(type="rule", name=str(n), description=text) for n, text in enumerate(texts)])
    scores = index(catalog, weights={"description": 1.0}, b={"description": 0.5}).scores(asked("apple"))
    idf = log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    counts = [1 / (0.5 + 0.5 * 1 / 2), 1 / (0.5 + 0.5 * 3 / 2)]
    assert scores == pytest.approx([*(idf * c / (1.5 + c) for c in counts), 0], abs=1e-15)


WORDS = st.sampled_from(["apple", "banana", "cherry", "createIssue", "create_issue", "issue", "2"])
TEXT = st.lists(WORDS, max_size=5).map(" ".join)
SHARE = st.floats(0, 1)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=6),
    text=TEXT,
    weights=st.tuples(*[st.floats(0, 4)] * 5),
    b=st.tuples(*[SHARE] * 5),
    k1=st.floats(0.01, 3),
)
def test_scores_equal_the_formula_computed_naively(rows, text, weights, b, k1):
    catalog = Catalog(
        [
            Item(
                type="tool" if body else "rule",
                server=body,
                name=f"{name} n{place}",
                description=description,
                text=body,
                schema={"properties": {body: {"description": name}}} if body else None,
            )
            for place, (name, description, body) in enumerate(rows)
        ]
    )
    given_weights = dict(zip(FIELDS, weights, strict=True))
    given_b = dict(zip(FIELDS, b, strict=True))
    found = Bm25fIndex(catalog, weights=given_weights, b=given_b, k1=k1).scores(asked(text))
    assert found == pytest.approx(naive(catalog, text, weights=given_weights, b=given_b, k1=k1), abs=1e-12)


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (2.0, 0.0)])
def test_with_one_field_it_is_bm25_as_bm25s_has_it(k1, b):
    rng = np.random.default_rng(5)
    texts = [" ".join(f"w{chr(97 + i)}" for i in rng.choice(26, size=rng.integers(2, 20))) for _ in range(80)]
    catalog = Catalog([Item(type="rule", name=text) for text in dict.fromkeys(texts)])
    ours, theirs = index(catalog, weights={"name": 1.0}, b={"name": b}, k1=k1), Bm25Index(catalog, k1=k1, b=b)
    for text in ("wa wb", "wc wc wz", "wq", "nothing"):
        assert ours.scores(asked(text)) == pytest.approx(theirs.scores(text), abs=1e-9)
        assert np.array_equal(ours.shares_word(asked(text)), theirs.shares_word(text))


def test_a_field_of_weight_0_is_left_out_altogether():
    catalog = Catalog([Item(type="rule", name="apple", text="fig"), Item(type="rule", name="plum", text="apple")])
    found = index(catalog, weights={"name": 1.0, "description": 1.0})
    assert found.scores(asked("fig")).tolist() == [0, 0]
    assert found.scores(asked("apple"))[0] == pytest.approx(log(1 + 1.5 / 1.5) / 2.5)  # in one of two, not in both
    assert found.shares_word(asked("apple")).tolist() == [True, False]


def test_no_item_no_word_and_a_single_item():
    assert index(Catalog([])).scores(asked("apple")).tolist() == []
    assert index(Catalog([Item(type="rule", name="!")])).scores(asked("apple")).tolist() == [0]
    assert index(Catalog([Item(type="rule", name="apple")])).scores({}).tolist() == [0]
    one = index(Catalog([Item(type="rule", name="apple")])).scores(asked("apple"))
    assert one == pytest.approx([log(1 + 0.5 / 1.5) / 2.5])


def test_items_in_another_order_have_their_own_scores_to_the_bit():
    items = [Item(type="rule", name=f"apple {n}", description="pear " * n, text="apple fig") for n in range(6)]
    order = [4, 0, 5, 2, 1, 3]
    one, other = (index(Catalog(row)) for row in (items, [items[place] for place in order]))
    assert np.array_equal(one.scores(asked("apple pear fig"))[order], other.scores(asked("apple pear fig")))


def test_words_of_a_query_count_by_the_weights_of_their_chunks():
    assert query_words(["open an issue", "createIssue"], [1.0, 0.5]) == {
        "open": 1.0,
        "an": 1.0,
        "issue": 1.5,
        "create": 0.5,
        "createissue": 0.5,
    }
    catalog = Catalog([Item(type="rule", name="apple"), Item(type="rule", name="pear")])
    once = index(catalog).scores({"apple": 1.0})
    assert index(catalog).scores({"apple": 0.5}) == pytest.approx(once / 2)


def test_over_some_items_scores_are_those_of_a_catalog_of_these():
    items = [Item(type="rule", name=f"apple {n}", description="pear " * (n % 4), text="fig " * n) for n in range(9)]
    counted = np.arange(9) % 2 == 0
    part = index(Catalog(items[::2]), weights={"name": 2.0, "description": 1.0, "text": 0.5})
    whole = index(Catalog(items), weights={"name": 2.0, "description": 1.0, "text": 0.5})
    words = asked("apple pear fig 4")
    assert np.array_equal(whole.scores(words, counted=counted)[counted], part.scores(words))
