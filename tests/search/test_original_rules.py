"""Chunk rules: every golden case of the original engine, worked examples, and properties."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import ParameterError
from ctxbench.search.chunking import JS_WHITESPACE, item_chunks, js_trim, query_chunks, utf16_len

DESK = Path(__file__).parents[1] / "fixtures" / "desk"
CHUNKS = json.loads((DESK / "chunks.json").read_text("utf-8"))
ITEMS = json.loads((DESK / "items.json").read_text("utf-8"))["items"]
QUERIES = json.loads((DESK / "queries.json").read_text("utf-8"))

quick = settings(database=None, deadline=None, derandomize=True, max_examples=300)
# Mostly the characters that the rules are about, and some that they are not.
texts = st.text(st.sampled_from("ab.!? \n\t\u00a0\ufeff\u0085\u001c\u200b😀\ud83d\ude00。"), max_size=60)


def search_text(item):
    head = f"{item['name']}: {item['description']}" if item.get("description") else item["name"]
    return f"{head}\n\n{item['text']}" if item.get("text") else head


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("README.md", "228104b21482f04f08a020254a534a93162e9a7c49265b6fb4dd284b6c6a8377"),
        ("chunks.json", "561a7673ed1893fd825729a182442e58d6664867a89d51a5c2bd8f2133551383"),
        ("embedding_texts.json", "ad43fa9525133f41852dd06d7243e527ddc241991e598a5d28170ef1d5617fe0"),
        ("embeddings.npy", "88465d7bf4ca78814adadb5a65dbfceb98fd9d7fa780a0bf731a116488b22025"),
        ("expected.json", "a91d913eb5794150d6d7e3e00d1df75e450109377de517d5f84e7d42d1b0bbe7"),
        ("items.json", "4a0f97b488109409fc75c9f02732e8a584ac795b5e0f939ffd82a4de6e68b513"),
        ("options.json", "2e7fb014474d6eebcd678403f7570d9692f9e72acda721f657cfbe8a0eb0ddad"),
        ("queries.json", "c8cc879438b7444f61a55cbef265d7441dce89707ec231b9689a5448430c663b"),
    ],
)
def test_golden_data_is_unchanged(name, digest):
    assert hashlib.sha256((DESK / name).read_bytes()).hexdigest() == digest


def test_golden_data_is_complete():
    assert (len(CHUNKS["items"]), len(CHUNKS["queries"]), len(CHUNKS["probes"])) == (43, 45, 291)
    assert sum(len(row["chunks"]) for row in CHUNKS["items"]) == 119


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(item, row, id=":".join(filter(None, (item["type"], item.get("serverName"), item["name"]))))
        for item, row in zip(ITEMS, CHUNKS["items"], strict=True)
    ],
)
def test_items_are_chunked_as_by_the_engine(item, expected):
    assert (item["type"], item["name"]) == (expected["type"], expected["name"])
    text = search_text(item)
    assert ([text] if item["type"] == "tool" else item_chunks(text)) == expected["chunks"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [pytest.param(q, row, id=q["id"]) for q, row in zip(QUERIES, CHUNKS["queries"], strict=True)],
)
def test_queries_are_chunked_as_by_the_engine(query, expected):
    assert query["id"] == expected["id"]
    assert query_chunks(query["text"]) == expected["chunks"]


@pytest.mark.parametrize(("chunks_of", "key"), [(item_chunks, "item_chunks"), (query_chunks, "query_chunks")])
def test_probes_are_chunked_as_by_the_engine(chunks_of, key):
    probes = {probe["id"]: probe for probe in CHUNKS["probes"]}
    chunks = {name: chunks_of(probe["text"]) for name, probe in probes.items()}
    assert chunks == {name: probe[key] for name, probe in probes.items()}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Yes?", ["Yes?"]),
        ("Yes? ", ["Yes"]),
        ("", []),
        (" \n\t", []),
        ("?! ", []),
        ("...", ["..."]),
        ("Use tests, e.g. a unit test", ["Use tests, e.g", "a unit test"]),
        ("1. one 2. two", ["1", "one 2", "two"]),
        ("2.4 and a.b", ["2.4 and a.b"]),
        ("一。 二… 三", ["一。 二… 三"]),
        ("Again. Again. ", ["Again", "Again"]),
        ("What?!... Why", ["What", "Why"]),
        ("a .  b", ["a", "b"]),
    ],
)
def test_query_examples(query, expected):
    assert query_chunks(query) == expected


def test_query_chunk_is_cut_and_the_cut_end_is_not_trimmed():
    assert query_chunks("x" * 499 + " yz") == ["x" * 499 + " "]
    assert query_chunks("x" * 501 + ". " + "y" * 500) == ["x" * 500, "y" * 500]


def test_query_cut_may_leave_half_a_surrogate_pair():
    assert query_chunks("x" + "😀" * 250) == ["x" + "😀" * 249 + "\ud83d"]
    assert query_chunks("😀" * 251) == ["😀" * 250]


@pytest.mark.parametrize("text", ["", "   ", " \n \n\t", "\ufeff", "." * 501 + " ", " " * 600])
def test_item_text_without_content_is_its_own_only_chunk_untrimmed(text):
    assert item_chunks(text) == [text]


def test_short_paragraphs_keep_their_marks():
    assert item_chunks("name: what\n\n One. Two!  \n \t\nThree? ") == ["name: what", "One. Two!", "Three?"]


def test_a_single_newline_or_a_blank_line_of_other_space_decides_over_paragraphs():
    assert item_chunks("a\nb") == ["a\nb"]
    assert item_chunks("a\r\n\r\nb") == ["a", "b"]
    assert item_chunks("a\n\ufeff\nb") == ["a", "b"]
    assert item_chunks("a\n\u0085\nb") == ["a\n\u0085\nb"]
    assert item_chunks("a\n\u200b\nb") == ["a\n\u200b\nb"]


def test_length_of_a_paragraph_is_counted_before_trimming():
    text = "One. " + "x" * 493 + "."
    assert utf16_len(text) == 499
    assert item_chunks(text + " ") == [text]
    assert item_chunks(text + "  ") == ["One " + "x" * 493]


@pytest.mark.parametrize(
    ("first", "second", "chunks"),
    [(249, 250, 1), (250, 249, 1), (250, 250, 2), (249, 251, 2), (1, 498, 1), (1, 499, 2)],
)
def test_sentences_are_packed_up_to_the_limit(first, second, chunks):
    # first + second + 1 <= 500 packs; the third sentence makes the paragraph a long one.
    text = f"{'a' * first}. {'b' * second}. {'c' * 500}"
    parts = ["a" * first, "b" * second]
    expected = [" ".join(parts)] if chunks == 1 else parts
    assert item_chunks(text) == [*expected, "c" * 500]


def test_blanks_before_a_sentence_end_count_until_the_sentence_is_packed():
    # 249 + (249 + 2 blanks) + 1 = 501: too long, though trimmed it would be 499.
    assert item_chunks(f"{'a' * 249}. {'b' * 249}  .  {'c' * 500}")[:2] == ["a" * 249, "b" * 249]
    assert item_chunks(f"{'a' * 249}. {'b' * 249} .  {'c' * 500}")[0] == "a" * 249 + " " + "b" * 249


def test_a_sentence_over_the_limit_stays_whole():
    assert item_chunks("Short. " + "x" * 700 + ". End") == ["Short", "x" * 700, "End"]


def test_length_is_in_utf16_units():
    assert item_chunks("A. " + "😀" * 248) == ["A. " + "😀" * 248]  # 3 + 496 = 499 units
    assert item_chunks("A. " + "😀" * 249) == ["A " + "😀" * 249]  # 501 units: split, and 1 + 498 + 1 = 500
    assert item_chunks("A. " + "😀" * 250) == ["A", "😀" * 250]  # 1 + 500 + 1 = 502


@pytest.mark.parametrize(
    ("text", "units"),
    [("", 0), ("abc", 3), ("é", 1), ("e\u0301", 2), ("€\uffff", 2), ("😀", 2), ("\ud83d", 1), ("\ud83d\ude00", 2)],
)
def test_utf16_len(text, units):
    assert utf16_len(text) == units


@pytest.mark.parametrize("char", [chr(c) for c in (*range(0x21), 0x7F, 0x85, 0xA0, 0x180E, 0x200B, 0x2060, 0xFEFF)])
def test_trim_takes_javascript_white_space_only(char):
    # ECMAScript 2023, 12.2 and 12.3: TAB VT FF SP NBSP ZWNBSP USP, LF CR LS PS.
    is_space = ord(char) in {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20, 0xA0, 0xFEFF}
    assert js_trim(f"{char}a{char}b{char}") == (f"a{char}b" if is_space else f"{char}a{char}b{char}")


def test_white_space_has_25_distinct_characters():
    assert len(set(JS_WHITESPACE)) == len(JS_WHITESPACE) == 25


@pytest.mark.parametrize("chunker", [item_chunks, query_chunks])
@pytest.mark.parametrize("limit", [0, -1])
def test_limit_below_one_is_refused(chunker, limit):
    with pytest.raises(ParameterError, match=f"limit must be at least 1 UTF-16 unit, got {limit}"):
        chunker("text", limit=limit)


def test_limit_can_be_changed():
    assert item_chunks("One. Two. Three", limit=7) == ["One Two", "Three"]
    assert query_chunks("One. Twenty", limit=4) == ["One", "Twen"]


@quick
@given(texts, st.integers(1, 30))
def test_item_chunks_lose_only_sentence_ends_and_white_space(text, limit):
    lost = dict.fromkeys(map(ord, JS_WHITESPACE + ".!?"))
    chunks = item_chunks(text, limit=limit)
    assert units("".join(chunks).translate(lost)) == units(text.translate(lost))


@quick
@given(texts, st.integers(1, 30))
def test_item_chunks_are_trimmed_and_not_blank_except_for_the_whole_text(text, limit):
    chunks = item_chunks(text, limit=limit)
    assert chunks == [text] or all(chunk and chunk == js_trim(chunk) for chunk in chunks)


@quick
@given(texts, st.integers(1, 30))
def test_item_chunks_over_the_limit_are_single_sentences(text, limit):
    for chunk in item_chunks(text, limit=limit):
        if utf16_len(chunk) > limit and chunk != text:
            assert query_chunks(chunk, limit=1000) == [chunk]


@quick
@given(texts, st.integers(1, 30))
def test_query_chunks_are_never_blank_or_over_the_limit(text, limit):
    for chunk in query_chunks(text, limit=limit):
        assert js_trim(chunk)
        assert 1 <= utf16_len(chunk) <= limit


@quick
@given(texts, st.integers(1, 30))
def test_a_cut_query_chunk_is_a_prefix_of_the_whole_one(text, limit):
    for cut, whole in zip(query_chunks(text, limit=limit), query_chunks(text, limit=1000), strict=True):
        assert units(whole)[: 2 * limit] == units(cut)


@quick
@given(texts)
def test_fast_paths_equal_the_rules_on_code_unit_strings(text):
    # The same rules over a list of single UTF-16 units, as JavaScript sees the text.
    as_units = "".join(map(chr, memoryview(units(text)).cast("H")))
    assert [units(c) for c in query_chunks(as_units, limit=7)] == [units(c) for c in query_chunks(text, limit=7)]
    assert [units(c) for c in item_chunks(as_units, limit=7)] == [units(c) for c in item_chunks(text, limit=7)]


def test_long_runs_take_linear_time():
    # Quadratic time would be 10^12 steps here; the suite would hang.
    assert query_chunks("." * 1_000_000 + "x", limit=3) == ["..."]
    assert query_chunks("x" + " " * 1_000_000 + "y", limit=3) == ["x  "]
    assert item_chunks("x" + "\n" * 1_000_000 + "y") == ["x", "y"]
    # 167 sentences of two letters and 166 blanks are 500 units; 250,000 / 167 = 1497.006
    assert len(item_chunks("ab. " * 250_000)) == 1498


def units(text):
    return text.encode("utf-16-le", "surrogatepass")
