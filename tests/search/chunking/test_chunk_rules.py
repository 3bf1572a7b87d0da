from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import ParameterError
from ctxbench.model import registry
from ctxbench.search.chunking import (
    JS_WHITESPACE,
    ClauseRule,
    Marked,
    Paragraphs,
    SentenceRule,
    WholeRule,
    WindowRule,
    chunk_rule,
    tells_something,
)

RULES = [registry.build("chunk", name, {}) for name in registry.names("chunk")]
FENCED = "Fix this:\n\n```py\nprint('a. b'); x = 1\n\n- no list\n```\n\nThen run it."


def solid(text: str) -> str:
    """A text without white space."""
    return "".join(char for char in text if char not in JS_WHITESPACE)


class TestMarked:
    def test_sentences_keep_their_marks(self):
        assert Marked()("Find it! Then, e.g. on Dr. Day's list, v2.4. ok?") == [
            "Find it!", "Then, e.g. on Dr. Day's list, v2.4.", "ok?",
        ]  # fmt: skip

    def test_list_items_headings_and_code_are_chunks_of_their_own(self):
        text = "# Plan\nBuy:\n- milk. Cold\n- eggs\n  1. big\n\nOne line\nand on."
        assert Marked()(text) == ["# Plan", "Buy:", "- milk.", "Cold", "- eggs", "1. big", "One line\nand on."]
        assert Marked()(FENCED) == [
            "Fix this:", "```py\nprint('a. b'); x = 1\n\n- no list\n```", "Then run it.",
        ]  # fmt: skip

    def test_marks_alone_join_the_chunk_before_or_behind(self):
        assert Marked()("Really ? ! Yes.") == ["Really ? !", "Yes."]
        assert Marked()("... Go.") == ["... Go."]
        assert Marked()("?!  ... !") == []

    def test_a_long_sentence_is_divided_between_words(self):
        assert Marked(limit=9)("one two three four. five") == ["one two", "three", "four.", "five"]
        assert Marked(limit=4)("abcdefghij kl") == ["abcd", "efgh", "ij", "kl"]
        assert Marked(limit=5)("aaaa bbbb") == ["aaaa", "bbbb"]
        assert Marked(limit=9)("aaaa bbbb") == ["aaaa bbbb"]

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(text=st.text(max_size=80), limit=st.integers(1, 20))
    def test_nothing_is_lost_and_no_chunk_is_longer_than_the_limit(self, text, limit):
        chunks = Marked(limit)(text)
        assert solid("".join(chunks)) == (solid(text) if tells_something(text) else "")
        assert all(0 < len(chunk) <= limit and chunk.strip(JS_WHITESPACE) == chunk for chunk in chunks)


class TestClauses:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Find me a flight; then book a hotel.", ["Find me a flight", "book a hotel."]),
            ("find me a flight and then book a hotel", ["find me a flight", "book a hotel"]),
            ("find me a flight, and book a hotel", ["find me a flight", "book a hotel"]),
            ("find me a flight then book a hotel", ["find me a flight", "book a hotel"]),
            ("find me a flight as well as a cheap hotel", ["find me a flight", "a cheap hotel"]),
            ("Find me a flight — book a hotel", ["Find me a flight", "book a hotel"]),
            ("tell me (a) the current weather (b) the train", ["tell me", "the current weather", "the train"]),
            ("find a big flight; and then also book", ["find a big flight; and then also book"]),
            ("find me a flight , and also  book a hotel", ["find me a flight", "book a hotel"]),
            ("find me a flight\t; and book a hotel", ["find me a flight", "book a hotel"]),
            ("salt, and pepper", ["salt, and pepper"]),
            ("buy salt, pepper, and very fine sugar", ["buy salt, pepper", "very fine sugar"]),
            ('post "sleep well; and then go" to the team', ['post "sleep well; and then go" to the team']),
            ("call f(a, b); then do it all", ["call f(a, b)", "do it all"]),
            ("a bandit, so then theatre", ["a bandit, so then theatre"]),
        ],
    )  # fmt: skip
    def test_a_sentence_is_split_where_clauses_are_joined(self, text, expected):
        assert ClauseRule(shortest=3 if "tell me" not in text else 2)(text) == expected

    def test_every_line_and_list_item_is_a_chunk_without_its_marker(self):
        assert ClauseRule()("Please:\n1. milk\n2) two eggs. Fresh\n   * nested\r\nand go") == [
            "Please:", "milk", "two eggs.", "Fresh", "nested", "and go",
        ]  # fmt: skip

    def test_code_is_not_looked_into(self):
        assert ClauseRule()(FENCED)[1] == "```py\nprint('a. b'); x = 1\n\n- no list\n```"

    def test_a_short_clause_joins_the_one_before_and_a_short_first_one_the_next(self):
        assert ClauseRule(shortest=2)("Go, and run home; then eat") == ["Go, and run home; then eat"]
        assert ClauseRule(shortest=1)("Go, and run home; then eat") == ["Go", "run home", "eat"]

    def test_a_short_sentence_stays_a_chunk(self):
        assert ClauseRule(shortest=5)("Hi. Book a hotel.") == ["Hi.", "Book a hotel."]

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(
        parts=st.lists(
            st.sampled_from(
                [
                    "find it",
                    "x",
                    ", and ",
                    "; ",
                    " then ",
                    " – ",
                    " (a) ",
                    ". ",
                    "\n",
                    "- ",
                    '"',
                    "(",
                    ")",
                    " ",
                    "?!",
                    "\ud800",
                ]
            ),
            max_size=30,
        ),
        shortest=st.integers(1, 4),
    )
    def test_chunks_are_parts_of_the_text_in_order(self, parts, shortest):
        text, place = "".join(parts), 0
        for chunk in ClauseRule(shortest)(text):
            assert tells_something(chunk)
            assert chunk.strip(JS_WHITESPACE) == chunk
            place = text.index(chunk, place) + len(chunk)


class TestWindows:
    def test_windows_go_from_word_to_word_and_overlap(self):
        assert WindowRule(3, 1)("a b  c\nd e f g") == ["a b  c", "c\nd e", "e f g"]
        assert WindowRule(3, 0)("a b c d") == ["a b c", "d"]
        assert WindowRule(2, 1)("a b c") == ["a b", "b c"]

    def test_the_last_window_ends_the_text_and_none_lies_in_another(self):
        assert WindowRule(4, 3)("a b c d e") == ["a b c d", "b c d e"]
        assert WindowRule(4, 2)("a b c d") == ["a b c d"]

    @settings(max_examples=400, deadline=None, database=None, derandomize=True)
    @given(
        lengths=st.lists(st.integers(1, 9), max_size=25),
        size=st.integers(1, 12),
        share=st.floats(0, 0.99),
    )
    def test_every_word_is_in_a_window_and_each_window_reaches_further(self, lengths, size, share):
        letters = iter(map(chr, range(0x4E00, 0x9FFF)))  # all different, so that a window stands in one place
        words = ["".join(itertools.islice(letters, length)) for length in lengths]
        text = " ".join(words)
        windows = WindowRule(size, int(share * size))(text)
        start, end = -1, 0
        for window in windows:
            assert len(window.split()) <= size
            start = text.index(window)
            assert not text[end:start].strip()  # nothing is left out; false if a window began in a gap
            assert start + len(window) > end
            end = start + len(window)
        assert end == len(text)

    def test_an_overlap_of_the_whole_window_is_an_error(self):
        with pytest.raises(ParameterError, match="overlap must be 0 to 3, less than size, got 4"):
            WindowRule(4, 4)
        with pytest.raises(ParameterError, match="overlap must be 0 to 3, less than size, got -1"):
            WindowRule(4, -1)


class TestAll:
    @pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
    @pytest.mark.parametrize("text", ["", " \r\n\t", "\ufeff\u2003\u00a0", "\n\n \n"])
    def test_a_blank_text_has_no_chunk(self, rule, text):
        assert rule(text) == []

    @pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
    def test_one_word_is_one_chunk(self, rule):
        assert rule("word") == ["word"]

    @pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
    def test_a_lone_surrogate_breaks_nothing(self, rule):
        assert rule("launch \ud83d now") == ["launch \ud83d now"]

    @pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
    @pytest.mark.parametrize(
        "text",
        [
            "Some words of it, and more. " * 36_000,
            "x" * 1_000_000,
            "Go" + " " * 1_000_000 + "on;" + "\t" * 1_000_000 + "now",
            "- a\n" * 50_000,
            "a; then " * 25_000,
            "\n`" * 50_000,
        ],
    )
    def test_a_long_text_takes_no_quadratic_time(self, rule, text):
        assert rule(text)

    def test_many_marks_are_nothing(self):
        assert ClauseRule()("?! " * 50_000) == Marked()("?! " * 50_000) == []

    def test_the_originals_rules_are_those_of_the_documents(self):
        assert SentenceRule(limit=4)("One. Twenty") == ["One", "Twen"]
        assert Paragraphs(limit=7)("One. Two. Three") == ["One Two", "Three"]
        assert WholeRule()(" a\n b ") == [" a\n b "]

    @pytest.mark.parametrize("rule", [SentenceRule, Paragraphs, Marked, ClauseRule])
    def test_a_limit_below_one_is_an_error(self, rule):
        with pytest.raises(ParameterError, match="limit must be 1 or more, got 0"):
            rule(limit=0)

    def test_other_parameters_below_one_are_errors(self):
        with pytest.raises(ParameterError, match="shortest must be 1 or more, got 0"):
            ClauseRule(shortest=0)
        with pytest.raises(ParameterError, match="size must be 1 or more, got 0"):
            WindowRule(0, 0)


class TestByName:
    def test_a_rule_is_a_name_or_one_name_with_parameters(self):
        assert chunk_rule("windows", parameter="chunks") == WindowRule()
        assert chunk_rule({"windows": {"size": 9, "overlap": 3}}, parameter="chunks") == WindowRule(9, 3)
        assert chunk_rule({"marked": None}, parameter="chunks") == Marked()

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("window", "chunks: unknown chunk strategy 'window'.*windows"),
            ({"windows": {"size": 0}}, "chunks: size must be 1 or more, got 0"),
            ({"windows": {"sise": 1}}, "chunks: windows has no parameter 'sise'; did you mean 'size'"),
            ({"windows": {"size": "9"}}, "chunks: size must be a whole number, got '9'"),
            ({"windows": 9}, "chunks must be a rule by name, or one name with its parameters"),
            ({}, "chunks must be a rule by name"),
            ({"marked": {}, "whole": {}}, "chunks must be a rule by name"),
            ({3: {}}, "chunks must be a rule by name"),
        ],
    )
    def test_what_is_wrong_is_said_with_the_name_of_the_parameter(self, spec, message):
        with pytest.raises(ParameterError, match=message):
            chunk_rule(spec, parameter="chunks")


def test_symbols_tell_something_and_punctuation_does_not():
    assert all(map(tells_something, ["a", "7", "é", "日", "👍", "+", "€", "- x"]))
    assert not any(map(tells_something, ["", " ", "?!", "…", "- —", "\ud83d", "\ufeff", "“”"]))
