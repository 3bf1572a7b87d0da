"""Features of shared words: values worked by hand."""

from __future__ import annotations

import math

import pytest

from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from tests.pipelines.feature_cases import CATALOG, asked, rows_of, table

OVERLAPS = tuple(
    f"words.{name}"
    for name in (
        *("query_in_name", "query_in_description", "query_in_body", "query_in_item"),
        *("name_in_query", "description_in_query", "body_in_query"),
    )
)
ALL = ("words.bm25", "words.bm25_share", *OVERLAPS)
SCORES = table([0.9, 0.5, 0.4])


def test_shared_words_count_by_how_few_items_have_them():
    (row, *_) = rows_of(asked("triangles zzz"), SCORES, *ALL)
    triangle, unknown = math.log(1 + (3 - 2 + 0.5) / 2.5), math.log(1 + 3.5 / 0.5)
    assert row["words.query_in_name"] == pytest.approx(triangle / (triangle + unknown))
    area = math.log(1 + (3 - 1 + 0.5) / 1.5)  # only the tool has it
    assert row["words.description_in_query"] == pytest.approx(triangle / (triangle + area))
    assert row["words.body_in_query"] == 0.0


def test_the_body_is_parameters_and_text():
    tool, rule, prices = rows_of(asked("base brief costs"), SCORES, *ALL)
    own = [row["words.query_in_body"] for row in (tool, rule, prices)]
    assert own == pytest.approx([1 / 3] * 3)  # each has one of three words that no other has
    assert [row["words.query_in_item"] for row in (tool, rule, prices)] == pytest.approx(own)
    assert tool["words.query_in_name"] == 0.0
    assert rule["words.body_in_query"] == 1.0  # "be" is a common word, and counts for nothing


def test_everything_is_shared_with_itself():
    (tool, *_) = rows_of(asked("Triangle area"), SCORES, *ALL)
    assert tool["words.query_in_name"] == tool["words.query_in_item"] == 1.0
    assert tool["words.description_in_query"] == 1.0


def test_bm25_is_a_logarithm_and_a_share_of_the_best():
    # as many words in each: ln(1 + (2 - 1 + 0.5) / (1 + 0.5)) = ln 2, times 1 / (1 + 1.5)
    pets = Catalog([Item(type="tool", name="cat"), Item(type="tool", name="dog")])
    cat, dog = rows_of(asked("cat", catalog=pets), table([0.9, 0.5]), *ALL)
    assert cat["words.bm25"] == pytest.approx(math.log(1 + 0.4 * math.log(2)))
    assert (cat["words.bm25_share"], dog["words.bm25"], dog["words.bm25_share"]) == (1.0, 0.0, 0.0)


def test_the_best_is_that_of_what_was_found():
    whole = rows_of(asked("area triangle"), SCORES, *ALL)
    assert whole[0]["words.bm25_share"] == 1.0
    assert 0 < whole[2]["words.bm25_share"] < 1
    few = Batch.of(CATALOG, [Request(id="0", text="area triangle", available=(CATALOG[0].key,))])
    (alone,) = rows_of(Query.of_chunks(few, [["area triangle"]]), table([0.9]), *ALL)
    assert alone == whole[0]  # all others depend on the whole catalog, not on what a request may get


def test_no_word_shares_nothing():
    for text in ("", "zzz", "!?", "土曜日"):
        assert [set(row.values()) for row in rows_of(asked(text), SCORES, *ALL)] == [{0.0}] * 3


def test_common_words_are_no_overlap():
    assert [set(row.values()) for row in rows_of(asked("the of a"), SCORES, *OVERLAPS)] == [{0.0}] * 3
