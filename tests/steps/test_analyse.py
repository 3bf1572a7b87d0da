from __future__ import annotations

import pytest

from ctxbench import testing
from ctxbench.errors import ParameterError
from ctxbench.items import Catalog
from ctxbench.requests import Batch, Request
from ctxbench.steps.analyse import Sentences, Whole


def chunks(step, *texts: str) -> list[tuple[str, ...]]:
    batch = Batch.of(Catalog([]), [Request(id=str(n), text=text) for n, text in enumerate(texts)])
    query = step(batch, testing.mock_resources())
    return [query.chunks(row) for row in range(len(texts))]


def test_sentences_are_split_by_the_documents_rule():
    # the run of marks and the white space behind it are lost; marks at the very end stay
    assert chunks(Sentences(), "One two.  Three!? Four.", "e.g. 2.4") == [
        ("One two", "Three", "Four."), ("e.g", "2.4"),
    ]  # fmt: skip


def test_a_sentence_is_cut_at_the_limit():
    assert chunks(Sentences(), "a" * 501) == [("a" * 500,)]
    assert chunks(Sentences(limit=3), "abcdef. gh") == [("abc", "gh")]


def test_the_whole_text_is_one_chunk_untouched():
    text = " One two.  Three! "
    assert chunks(Whole(), text) == [(text,)]


@pytest.mark.parametrize("step", [Sentences(), Whole()])
def test_a_blank_request_has_no_chunk(step):
    assert chunks(step, "", " \n\ufeff\u00a0 ", "x") == [(), (), ("x",)]


def test_marks_alone_are_no_sentence_but_a_whole_text():
    assert chunks(Sentences(), "?! ") == [()]
    assert chunks(Whole(), "?! ") == [("?! ",)]


@pytest.mark.parametrize("step", [Sentences(), Whole()])
def test_no_request_has_no_chunk(step):
    assert chunks(step) == []


@pytest.mark.parametrize("step", [Sentences(), Whole()])
def test_requests_in_another_order_have_their_own_chunks(step):
    texts = ["one. two", "", "three"]
    assert chunks(step, *reversed(texts)) == list(reversed(chunks(step, *texts)))


def test_a_limit_below_one_is_an_error():
    with pytest.raises(ParameterError, match="limit must be 1 or more, got 0"):
        Sentences(limit=0)
