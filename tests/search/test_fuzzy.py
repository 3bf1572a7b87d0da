from __future__ import annotations

import numpy as np
import pytest

from ctxbench.model.items import Catalog, Item
from ctxbench.search.words import FuzzyIndex


def index(*names: str, fields=("name",), near=0.8, **item) -> FuzzyIndex:
    return FuzzyIndex(Catalog([Item(type="tool", name=name, **item) for name in names]), fields=fields, near=near)


def asked(text: str, weight: float = 1.0) -> dict[str, float]:
    return dict.fromkeys(text.split(), weight)


def test_a_name_scores_the_mean_likeness_of_its_words():
    # creat / create: 2 x 5 letters in common / 11; isue / issue: 2 x 4 / 9
    [scores] = index("create_issue", "close_issue", "send").scores([asked("creat an isue")])
    expected = [(10 / 11 + 8 / 9) / 2, (0 + 8 / 9) / 2, 0]
    assert scores == pytest.approx(expected, abs=1e-6)


def test_words_less_alike_than_near_are_strangers():
    [strict] = index("issue", near=0.9).scores([asked("isue")])
    [loose] = index("issue", near=0.85).scores([asked("isue")])
    assert strict.tolist() == [0]
    assert loose == pytest.approx([8 / 9], abs=1e-6)


def test_a_name_may_be_written_as_one_word():
    [scores] = index("create_issue").scores([asked("createisue")])
    assert scores == pytest.approx([20 / 21], abs=1e-6)  # 10 letters of 10 and 11


def test_the_greater_of_name_and_description_counts():
    catalog = Catalog(
        [Item(type="tool", name="x", description="open issue"), Item(type="tool", name="open issue", description="x y")]
    )
    [scores] = FuzzyIndex(catalog, fields=("name", "description"), near=1.0).scores([asked("open the issue")])
    assert scores.tolist() == [1, 1]
    [names] = FuzzyIndex(catalog, fields=("name",), near=1.0).scores([asked("open the issue")])
    assert names.tolist() == [0, 1]
    [texts] = FuzzyIndex(catalog, fields=("description",), near=1.0).scores([asked("open the issue")])
    assert texts.tolist() == [1, 0]


def test_what_is_searched_by_its_text_has_no_name():
    catalog = Catalog([Item(type="memory", name="open issue", text="x"), Item(type="memory", name="issue open")])
    [scores] = FuzzyIndex(catalog, fields=("name", "description"), near=1.0).scores([asked("open the issue")])
    assert scores.tolist() == [0, 1]


def test_a_word_counts_by_its_weight():
    [scores] = index("issue").scores([asked("issue", 0.5)])
    assert scores.tolist() == [0.5]


def test_no_item_no_word_and_no_request():
    assert index("issue").scores([]) == []
    assert [row.tolist() for row in index("issue", "!").scores([{}, asked("issue")])] == [[0, 0], [1, 0]]
    assert [row.tolist() for row in index().scores([asked("issue")])] == [[]]
    assert [row.tolist() for row in index("!").scores([asked("issue")])] == [[0]]


def test_scores_do_not_depend_on_the_other_requests_or_the_order_of_items():
    names = ["create_issue", "close_issues", "listIssues", "send mail"]
    requests = [asked("creat isue"), asked("list all the isues"), {}, asked("mial")]
    together = index(*names).scores(requests)
    for request, scores in zip(requests, together, strict=True):
        assert np.array_equal(index(*names).scores([request])[0], scores)
        assert np.array_equal(index(*names[::-1]).scores([request])[0][::-1], scores)
