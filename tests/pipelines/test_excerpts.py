"""Windows of long texts, by the words of the request."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import MARK, between_characters, part_of, text_shown
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request, SessionItem
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.pack import MATCHES, Excerpts, window

PROPERTY = settings(max_examples=300, deadline=None, database=None, derandomize=True)
FILLER = "some other words stand here "


def marks_of(text, *words):
    """Where words stand in a text."""
    return [found.span() for found in re.finditer(rf"\b({'|'.join(words)})\b", text)] if words else []


class TestWindow:
    def test_it_lies_around_a_match_and_ends_with_words(self):
        text = "aaa bbb ccc ddd eee fff ggg"
        assert window(text, marks_of(text, "ddd"), 12) == (8, 19)  # 12 characters around it are 8 to 20
        assert text[8:19] == "ccc ddd eee"

    @pytest.mark.parametrize(("word", "shown"), [("aaa", "aaa bbb"), ("ggg", "fff ggg"), ("bbb", "bbb ccc")])
    def test_at_the_ends_it_is_no_shorter(self, word, shown):
        text = "aaa bbb ccc ddd eee fff ggg"
        start, end = window(text, marks_of(text, word), 8)
        assert text[start:end] == shown

    def test_most_different_words_then_most_matches_then_the_earliest(self):
        gap = "." * 30
        text = f"red red red {gap} red sea {gap} red sea sea {gap} red sea sea"
        start, end = window(text, marks_of(text, "red", "sea"), 12)
        assert (text[start:end].strip(), start) == ("red sea sea", text.index("red sea sea"))
        start, end = window(text, marks_of(text, "red"), 12)
        assert text[start:end].strip() == "red red red"

    def test_words_of_one_stem_are_one(self):
        text = f"store stores stored {FILLER * 3} stores sea {FILLER * 3}"
        start, end = window(text, marks_of(text, "stores", "stored", "store", "sea"), 30)
        assert "stores sea" in text[start:end]

    def test_without_a_match_it_is_the_beginning(self):
        assert window("one two three four", [], 10) == (0, 7)
        assert window("one two three four", [(0, 18)], 10) == (0, 7), "a match that is too long is none"

    def test_a_word_longer_than_the_window_is_cut_between_characters(self):
        assert window("x" * 20, [], 8) == (0, 8)
        assert window("e\u0301" * 20, [], 7) == (0, 6)
        assert window("x" * 50, [(30, 33)], 9) == (27, 36)
        assert window("e" + "\u0301" * 30, [], 5) == (0, 31), "one character, so all of it"

    @PROPERTY
    @given(
        st.lists(st.sampled_from(["red", "sea", "x", "\n", "  ", "é", "e\u0301", "漢字", "👩\u200d👧", "y" * 30])).map(
            " ".join
        ),
        st.integers(1, 40),
    )
    def test_it_is_never_too_long_and_no_other_holds_more_different_words(self, text, size):
        marks = marks_of(text, "red", "sea")
        if len(text) <= size:
            return
        start, end = window(text, marks, size)
        assert 0 <= start < end <= len(text)
        assert between_characters(text, start)
        assert between_characters(text, end)
        assert end - start <= size or (start, end) == (0, len(text))

        def held(low, high):
            inside = [text[a:b] for a, b in marks if low <= a and b <= high]
            return len(set(inside)), len(inside)

        assert held(start, end) >= max((held(a, a + size) for a, _ in marks), default=(0, 0))


def shown(items, text, *, analyse="whole", before=(), resources=None, session=None, **given):
    """What the step makes of all items for a request: table by position, and the texts that are sent."""
    spec = {"analyse": analyse, "retrieve": "everything", "refine": [*before, {"excerpts": given}]}
    batch = Batch.of(Catalog(items), [Request(id="q", text=text, session=session)])
    table = Pipeline.of(spec).run(batch, resources or testing.mock_resources()).candidates
    rows = {int(item): row for row, item in enumerate(table.item.tolist())}
    return table, [text_shown(items[n], part_of(table, rows[n])) for n in sorted(rows)]


class TestExcerpts:
    LONG = f"{FILLER * 20}The servers need configuring. {FILLER * 20}A server. {FILLER}"
    FILES = (
        Item(type="file", name="long", text=LONG),
        Item(type="file", name="short", text="A server needs a server."),
        Item(type="message", name="m", text=LONG),
        Item(type="file", name="none", text=FILLER * 30),
    )

    def test_long_files_are_cut_and_matches_counted_by_stems(self):
        table, texts = shown(self.FILES, "How do I configure a server?", characters=60)
        assert texts[0] == f"{MARK} stand here The servers need configuring. some other words {MARK}"
        assert texts[1:3] == [self.FILES[1].text, self.LONG]
        assert texts[3] == f"{FILLER * 2}some {MARK}"  # 60 characters
        matches = dict(zip(table.item.tolist(), table.columns[MATCHES].tolist(), strict=True))
        assert (matches[0], matches[1], matches[3]) == (2, 2, 0)
        assert math.isnan(matches[2])
        row = table.item.tolist().index(0)
        assert int(table.tokens[row]) == math.ceil(len(texts[0]) / 4)

    def test_the_words_are_keywords_where_there_are_any_else_all_but_common_ones(self):
        for analyse, words in (("keywords", ["servers"]), ("whole", ["new", "servers"])):
            asked = []

            class Index:
                """Remembers what it is asked for."""

                def marks(self, texts, words, asked=asked):
                    asked.append(list(words))
                    return [[] for _ in texts]

            resources = testing.mock_resources()
            resources.get_or_create(("resource", "text_index:fts5"), Index)
            shown(self.FILES[:1], "The new servers, servers", analyse=analyse, resources=resources)
            assert asked == [words]

    def test_what_is_shown_in_part_or_left_out_already_stays(self):
        table, texts = shown(self.FILES[:1], "server", before=[{"truncate": {"tokens": 5}}])
        assert (texts[0][-1], np.isnan(table.columns[MATCHES]).tolist()) == (MARK, [True])
        table, texts = shown(self.FILES[:1], "server", before=[{"first": {"n": 0}}])
        assert (texts, table.chosen.tolist()) == ([self.LONG], [False])

    def test_what_the_session_holds_is_cut_too(self):
        _, texts = shown(self.FILES[:1], "configuring", characters=40, session=(SessionItem(self.FILES[0].key),))
        assert "configuring" in texts[0]
        assert len(texts[0]) <= 44

    def test_only_the_types_that_are_named(self):
        _, texts = shown(self.FILES, "server", characters=60, types=["message"])
        assert [len(text) <= 64 for text in texts] == [False, True, True, False]

    def test_faults_are_told(self):
        with pytest.raises(ParameterError, match="characters must be 1 or more, got 0"):
            Excerpts(characters=0)
        with pytest.raises(ParameterError, match=r"types must be one of rule, reference, .*, got 'tool'"):
            Excerpts(types=("tool",))
