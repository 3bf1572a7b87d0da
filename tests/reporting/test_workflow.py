"""Texts that a runner of workflows prints."""

from __future__ import annotations

import pytest

from ctxbench.reporting.workflow import harmless


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
