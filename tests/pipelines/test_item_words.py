"""The words of a catalog's items: stems, what is left out, and what a word weighs."""

from __future__ import annotations

import math

import pytest

from ctxbench import testing
from ctxbench.model.items import Catalog
from ctxbench.pipelines.features import item_words, query_stems, stems
from tests.pipelines.feature_cases import CATALOG


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["triangle", "triangles"], ["triangl", "triangl"]),
        (["invitations", "invite"], ["invit", "invit"]),
        (["use", "used", "bed"], ["use", "used", "bed"]),  # three letters must be left
        (["the", "would", "of"], []),
        (["土曜日"], ["土曜日"]),
        ([], []),
    ],
)
def test_endings_and_common_words_are_left_out(words, found):
    assert stems(words) == found


def test_the_words_of_a_request_are_distinct_and_sorted():
    assert query_stems("Send mail, send the createIssue mails!") == ["creat", "issu", "mail", "send"]


def test_words_weigh_by_how_few_items_have_them():
    words = item_words(CATALOG, testing.mock_resources())
    of_query, of_field = words.overlaps(["area", "triangl"])
    area, triangle = math.log(1 + 2.5 / 1.5), math.log(1 + 1.5 / 2.5)  # in one of three items, in two
    assert of_query["item"].tolist() == pytest.approx([1.0, 0.0, triangle / (area + triangle)])
    assert of_field["name"].tolist()[1:] == [0.0, 0.0]
    assert (words.knows("triangl"), words.knows("zzz")) == (True, False)


def test_no_item_and_no_word():
    of_query, of_field = item_words(Catalog([]), testing.mock_resources()).overlaps(["area"])
    assert all(not len(values) for values in (*of_query.values(), *of_field.values()))
    of_query, _ = item_words(CATALOG, testing.mock_resources()).overlaps([])
    assert of_query["item"].tolist() == [0.0, 0.0, 0.0]


def test_they_are_kept_by_catalog():
    resources = testing.mock_resources()
    assert item_words(CATALOG, resources) is item_words(Catalog(list(CATALOG)), resources)
    assert item_words(CATALOG, resources) is not item_words(Catalog(list(CATALOG)[1:]), resources)
