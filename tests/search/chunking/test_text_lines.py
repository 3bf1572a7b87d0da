from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.search.chunking import JS_WHITESPACE, blocks


def texts(text: str, *, joined: bool = True) -> list[str]:
    return [text[block.start : block.end] for block in blocks(text, joined=joined)]


def bodies(text: str) -> list[str]:
    return [text[block.body : block.end] for block in blocks(text, joined=True)]


def test_a_blank_line_ends_a_block_and_a_line_end_does_not():
    assert texts("One\ntwo\n \t\nthree\n") == ["One\ntwo", "three"]
    assert texts("One\r\ntwo\r\n\r\nthree\rfour\u2028five") == ["One\r\ntwo", "three\rfour\u2028five"]


def test_every_line_is_a_block_where_lines_are_not_joined():
    assert texts("One\ntwo\r\n\n three \rfour", joined=False) == ["One", "two", "three", "four"]


@pytest.mark.parametrize("marker", ["-", "*", "+", "•", "–", "1.", "12)", "(3)", "a)", "(b)"])
def test_a_list_item_begins_a_block_whose_words_stand_behind_the_marker(marker):
    text = f"Buy:\n{marker} milk\n  and eggs\n    {marker} nested"
    assert texts(text) == ["Buy:", f"{marker} milk\n  and eggs", f"{marker} nested"]
    assert bodies(text) == ["Buy:", "milk\n  and eggs", "nested"]


@pytest.mark.parametrize("line", ["-5 degrees", "1.5 litres", "A. Smith", "*bold* word", "a) ", "1234. too long", "--"])
def test_what_only_looks_like_a_marker_is_none(line):
    assert bodies(f"Text\n{line}") == [f"Text\n{line}".rstrip()]


def test_a_heading_is_a_block_of_its_own():
    assert texts("# One\ntwo\n### Three\nfour") == ["# One", "two", "### Three", "four"]


def test_fenced_code_is_one_block_to_the_fence_that_closes_it():
    text = "Do:\n```py\nx = 1\n\n- y\n``\n```\nand go"
    assert texts(text) == ["Do:", "```py\nx = 1\n\n- y\n``\n```", "and go"]
    assert [block.code for block in blocks(text, joined=True)] == [False, True, False]


def test_a_fence_that_is_never_closed_goes_to_the_end():
    assert texts("~~~\na\n\nb\n\n") == ["~~~\na\n\nb"]
    assert texts("````\na\n```\nb") == ["````\na\n```\nb"]


def test_back_quotes_in_a_line_are_no_fence():
    assert [block.code for block in blocks("```x``` is code\nand text", joined=True)] == [False]


@pytest.mark.parametrize("text", ["", " \n\t\n", "\ufeff", "\u2028"])
def test_a_blank_text_has_no_block(text):
    assert texts(text) == []


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(
    parts=st.lists(
        st.sampled_from(
            ["a", " ", "\n", "\r\n", "\r", "- ", "1. ", "# ", "```", "~~~", "(a) ", "x.\n", "\u2028", "\ud800", "\n\n"]
        ),
        max_size=30,
    ),
    joined=st.booleans(),
)
def test_blocks_hold_everything_but_white_space(parts, joined):
    text = "".join(parts)
    last = 0
    for block in blocks(text, joined=joined):
        assert not text[last : block.start].strip(JS_WHITESPACE)
        assert block.start <= block.body < block.end
        assert text[block.start] not in JS_WHITESPACE
        assert text[block.body] not in JS_WHITESPACE
        assert text[block.end - 1] not in JS_WHITESPACE
        last = block.end
    assert not text[last:].strip(JS_WHITESPACE)
