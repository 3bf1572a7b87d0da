"""Texts that a runner of workflows prints."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxbench.reporting.workflow import harmless, harmless_json


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("::error::x", ": :error::x"),
        ("a\n  ::error::x\n", "a\n  : :error::x\n"),
        ("a\r::error::x\u2028\t::y", "a\r: :error::x\u2028\t: :y"),
        ("a ##[error]b ##[c]", "a # #[error]b # #[c]"),
        (":::x", ": ::x"),
        ("a::b c: d # e #[f]", "a::b c: d # e #[f]"),
    ],
)
def test_signs_of_commands_are_broken_and_nothing_else(text, expected):
    assert harmless(text) == expected
    assert harmless(expected) == expected


@given(st.text(alphabet='#[]\\"a\n', max_size=20))
def test_json_says_the_same_without_signs_of_commands(text):
    document = json.dumps({text: [text]}, indent=2)
    found = harmless_json(document)
    assert json.loads(found) == {text: [text]}
    assert "##[" not in found
