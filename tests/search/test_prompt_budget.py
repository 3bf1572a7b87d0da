"""Where a part of a text may be cut short. How much fits is tested where it is used, in tests/pipelines."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from ctxbench.model.candidates import between_characters
from ctxbench.search.tokens import cut_places

PROPERTY = settings(max_examples=200, deadline=None, database=None, derandomize=True)


def parts(text, start, end, *, sentence=True):
    return [[text[start:n] for n in places] for places in cut_places(text, start, end, sentence=sentence)]


def test_sentences_come_first_then_words_then_the_characters_of_the_first_word():
    text = "Ab c. De f. Gh"
    assert parts(text, 0, len(text)) == [
        ["Ab c.", "Ab c. De f."],
        ["Ab", "Ab c.", "Ab c. De", "Ab c. De f."],
        ["A"],
    ]
    assert parts(text, 0, len(text), sentence=False) == parts(text, 0, len(text))[1:]


def test_places_lie_within_the_part():
    text = "Ab c. De f. Gh"
    assert parts(text, 6, 11) == [[], ["De"], ["D"]]


def test_a_text_without_blanks_is_cut_between_characters():
    assert parts("e\u0301e\u0301", 0, 4) == [[], [], ["e\u0301"]]


@PROPERTY
@given(st.text("aB1 .!?\n。\u0301👩\u200d", max_size=60), st.data())
def test_places_rise_and_lie_between_characters(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    for places in cut_places(text, start, end, sentence=True):
        assert places == sorted(set(places))
        assert all(start < n < end and between_characters(text, n) for n in places)
