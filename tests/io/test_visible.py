"""Texts of others, fit to be printed."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ctxbench.io.errors import harmless, joined, message_lines, one_line, quoted, visible, visible_json

HOSTILE = "\x1b]52;c;eA==\x07\x1b[2J\x9b31m\x7f\x00\b\r\v\f\x85\u061c\u200e\u202e\u2066\u2028\u200b\ufeff\ud800"
PROPERTY = settings(deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
ANY = st.text(alphabet=st.one_of(st.characters(), st.sampled_from(HOSTILE + "\n\t:#[ ")), max_size=40)


def test_what_a_terminal_obeys_or_hides_is_marked_and_nothing_else():
    assert set(visible(HOSTILE)) == set("\ufffd]52;c;eA==[2J31m")
    assert len(visible(HOSTILE)) == len(HOSTILE)
    said = "caf\u00e9 \u5973\u5973\u3000\u05e9\u05dc \U0001f469\u200d\U0001f4bb \u0646\u200c\u0647\ta\u00a0b\n"
    assert visible(said) == said
    assert one_line(said) == said.replace("\t", "\ufffd").replace("\n", "\ufffd")


@PROPERTY
@given(ANY)
def test_no_control_character_and_no_sign_of_direction_is_left(text):
    for found in (visible(text).replace("\n", "").replace("\t", ""), one_line(text)):
        assert not {unicodedata.category(sign) for sign in found} & {"Cc", "Cs", "Zl", "Zp"}
        assert not {unicodedata.bidirectional(sign) for sign in found} & {
            *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"),
        }
    assert visible(visible(text)) == visible(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("::error::x", ": :error::x"),
        ("a\n  ::error::x\n", "a\n  : :error::x\n"),
        ("a\r::error::x\u2028\t::y", "a\r: :error::x\u2028\t: :y"),
        ("a ##[error]b ##[c]", "a ## [error]b ## [c]"),
        (":::x", ": ::x"),
        ("\x1b[1m \x1b[31m::x", "\x1b[1m \x1b[31m: :x"),
        ("a::b c: d # e #[f]", "a::b c: d # e #[f]"),
        ("\n\n  \n::x", "\n\n  \n: :x"),
    ],
)
def test_signs_of_commands_are_broken_and_nothing_else(text, expected):
    assert harmless(text) == expected
    assert harmless(expected) == expected


@PROPERTY
@given(st.lists(ANY))
def test_a_line_stays_one_line_and_is_no_command(lines):
    found = joined(lines).split("\n")
    assert len(found) == max(len(lines), 1)
    for line in found:
        assert not line.lstrip().startswith("::")
        assert "##[" not in line


@PROPERTY
@given(st.text(alphabet='#[]\\"a\n\x85\x9b\x7f\u202e\u2028\U000e0041\ufffd', max_size=20))
def test_json_says_the_same_without_signs_of_commands_and_of_direction(text):
    for indent in (None, 2):
        document = json.dumps({text: [text]}, indent=indent, ensure_ascii=False)
        found = visible_json(document)
        assert json.loads(found) == {text: [text]}
        assert "##[" not in found
        assert visible(found) == found


def test_json_that_hides_nothing_is_left_as_it_is():
    document = json.dumps({"a": "caf\u00e9 \U0001f600 # [x]"}, indent=2, ensure_ascii=False)
    assert visible_json(document) == document


def test_further_lines_of_a_quotation_and_of_a_message_are_not_taken_for_ours():
    assert quoted("fix it\r\nWhat is needed?\n") == ["fix it", "  | What is needed?", "  | "]
    assert message_lines("2 faults\n  one\nerror: two") == ["2 faults", "  one", "  error: two"]
    assert (quoted(""), message_lines("")) == ([""], [""])


def test_many_blanks_take_no_longer_than_other_signs():
    found = harmless("\n" * 200_000 + " " * 200_000)
    assert not re.search(r"\S", found)
