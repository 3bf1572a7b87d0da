from __future__ import annotations

import random
import time

import pytest

from ctxbench.search.word_index import new_numbers
from ctxbench.search.words import (
    LONGEST_WORD,
    STOP_WORDS,
    WordRule,
    composed,
    keywords,
    name_parts,
    name_words,
    phrases,
    separated,
    stem,
    weighted_words,
    words,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("create_issue, 2nd", ["create", "issue", "2nd"]),
        ("ÄÖ-ß don't", ["äö", "ss", "don", "t"]),
        ("土曜日 🚀", ["土曜日"]),
        (" _!", []),
        ("Cafe\u0301 Caf\u00e9", ["caf\u00e9", "caf\u00e9"]),  # both spellings of é
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),  # marks belong to their letters
    ],
)
def test_words_are_runs_of_letters_and_digits(text, found):
    assert words(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("createIssue", ["create", "issue", "createissue"]),
        ("create_issue", ["create", "issue", "createissue"]),
        ("create-issue.v2", ["create", "issue", "v", "2", "createissuev2"]),
        ("HTTPServer2", ["http", "server", "2", "httpserver2"]),
        ("getHTTPResponse", ["get", "http", "response", "gethttpresponse"]),
        ("openURLs", ["open", "urls", "openurls"]),
        ("IDs", ["ids"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("Alert quality", ["alert", "quality"]),
        ("UPPER", ["upper"]),
        ("mp3", ["mp", "3", "mp3"]),
        ("größeÄndern", ["grösse", "ändern", "grösseändern"]),
        ("土曜日 🚀", ["土曜日"]),
        ("e\u0301t\u00e9", ["\u00e9t\u00e9"]),  # both spellings of é
        ("_ !", []),
        ("", []),
    ],
)
def test_names_are_split_at_case_digits_and_punctuation_and_stay_whole_too(text, found):
    assert name_words(text) == found


def test_parts_of_a_name_come_without_the_whole():
    assert name_parts("createIssue in_tracker") == ["create", "issue", "in", "tracker"]


@pytest.mark.parametrize("text", ["open a new issue", "Dates are written year first.", "Wann ist geöffnet?"])
def test_a_plain_sentence_has_the_words_that_it_has_anywhere(text):
    assert name_words(text) == words(text)


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        ("issues", "issu"),
        ("issuing", "issu"),
        ("issue", "issu"),
        ("queries", "quer"),
        ("query", "quer"),
        ("notifications", "notific"),
        ("class", "class"),
        ("classes", "class"),
        ("processing", "process"),
        ("process", "process"),
        ("status", "status"),
        ("analysis", "analysis"),
        ("bring", "bring"),  # what is left must have three letters
        ("es", "es"),
        ("", ""),
        ("土曜日", "土曜日"),
    ],
)
def test_an_ending_is_taken_off_that_leaves_three_letters(word, stemmed):
    assert stem(word) == stemmed


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (WordRule(), ["please", "list", "my", "pullrequests", "a", "2"]),
        (WordRule(split=True), ["please", "list", "my", "pull", "requests", "a", "2"]),
        (WordRule(stop=True), ["list", "pullrequests"]),
        (WordRule(stem=True), ["pleas", "list", "my", "pullrequest", "a", "2"]),
        (WordRule(split=True, stop=True, stem=True), ["list", "pull", "request"]),
    ],
)
def test_a_rule_says_which_words_count(rule, found):
    assert rule.words("Please list my pullRequests: a 2") == found


def test_stop_words_count_where_nothing_else_is_left_of_all_chunks():
    rule = WordRule(stop=True)
    assert rule.words("To be or not to be") == ["to", "be", "or", "not", "to", "be"]
    assert rule.of_chunks(["to be", "a test"]) == [[], ["test"]]
    assert rule.of_chunks(["to be", "A"]) == [["to", "be"], ["a"]]
    assert rule.of_chunks([]) == []
    assert rule.words(" !") == []


@pytest.mark.parametrize("rule", [WordRule(), WordRule(split=True), WordRule(True, True, True), WordRule(stop=True)])
def test_numbered_words_are_those_of_the_text(rule):
    draw = random.Random(7)
    marks = "aBC1s_ .\n\xa0\x1c\u2003éÉßIİſÅ猫ﬁ\u0301\u0308"
    texts = ["".join(draw.choices(marks, k=draw.randrange(12))) for _ in range(3000)] + ["", "to be", "URLsOf x_y"]
    numbers = new_numbers()
    numbered = rule.numbered(numbers)
    rows = [numbered(text) for text in texts]
    word = list(numbers)
    assert [[word[number] for number in row] for row in rows] == [rule.words(text) for text in texts]


def test_one_ideograph_is_a_word():
    assert WordRule(stop=True).words("猫 x 7") == ["猫"]


def test_stop_words_are_as_words_gives_them():
    assert all(words(word) == [word] for word in STOP_WORDS)


def test_words_count_by_the_weight_of_their_chunk_in_the_order_of_first_appearance():
    found = weighted_words([["b", "a"], ["a", "c"]], [1.0, 0.5])
    assert list(found.items()) == [("b", 1.0), ("a", 1.5), ("c", 0.5)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Config_v2.yaml", "config v2 yaml"),
        ("don't  STOP", "don t  stop"),
        ("Café, \u0130stanbul", "cafe  istanbul"),
        ("日本 हिन्दी ß²", "日本 हिन्दी ß²"),
        ("a\0b\ud800c\x01", "a b c "),
        ("", ""),
    ],
)
def test_separated_keeps_every_character_in_its_place(text, expected):
    assert separated(text) == expected
    assert len(separated(text)) == len(text)


def test_composed_takes_both_spellings_of_a_letter_for_one():
    assert composed("cafe\u0301") == composed("caf\u00e9") == "cafe"


def test_phrases_are_the_parts_of_words_without_repeats_and_function_words_alone():
    words = ["The", "config.yaml", "CONFIG/yaml", "?!", "state-of-the-art", "don't", "x"]
    assert phrases(words) == [("config", "yaml"), ("state", "of", "the", "art"), ("x",)]


@pytest.mark.parametrize("split", [words, name_words, name_parts, keywords, lambda text: composed(text).split()])
@pytest.mark.parametrize("character", ["a", "\u044f", "\u6f22", "\U00020000"])
def test_a_long_word_is_cut_behind_a_whole_character(split, character):
    size = len(character.encode())
    fits, long = character * (LONGEST_WORD // size), character * 11_000
    assert split(f"one {long} four") in (["one", fits, "four"], (fits, "four"))
    assert split(fits) in ([fits], (fits,))


def test_a_long_row_of_marks_in_a_word_takes_no_time():
    begin = time.perf_counter()
    assert keywords("a" + "_" * 500_000 + "b")[0].startswith("a___")
    assert time.perf_counter() - begin < 5  # a pattern would take minutes
