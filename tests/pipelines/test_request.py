"""Features of items, of requests and of the values that the one requires and the other holds, worked by hand."""

from __future__ import annotations

import math

import pytest

from ctxbench.pipelines.feature_families import values_in
from ctxbench.pipelines.features import family
from tests.pipelines.feature_cases import asked, rows_of, table

SCORES = table([0.9, 0.5, 0.4])


def features(name: str, text: str) -> list[dict[str, float]]:
    """The columns of a family, by their names within it, of every row."""
    made = family(name)
    rows = rows_of(asked(text), SCORES, *(f"{name}.{column}" for column in made.columns))
    return [{key.removeprefix(f"{name}."): value for key, value in row.items()} for row in rows]


class TestItems:
    def test_type_and_parameters(self):
        tool, rule, reference = features("item", "any")
        kinds = [[row[kind] for kind in ("tool", "rule", "reference")] for row in (tool, rule, reference)]
        assert kinds == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
        assert tool["parameters"] == pytest.approx(math.log(4))
        assert tool["required"] == tool["required_numbers"] == pytest.approx(math.log(3))
        assert (rule["parameters"], rule["required"]) == (0.0, 0.0)
        assert tool["description_words"] == pytest.approx(math.log(6))  # the area of a triangle
        assert reference["description_words"] == 0.0


class TestRequestText:
    def test_quotes_capitals_and_questions(self):
        (row, *_) = features("request", "Send 'a b' to \"Ann\" in Oslo. Is Öl ok?")
        assert row["quoted"] == pytest.approx(math.log(3))
        assert row["capitalised"] == pytest.approx(math.log(2))  # Oslo; Is begins a sentence
        assert row["question"] == 1.0
        assert row["not_ascii"] == pytest.approx(1 / 38)

    def test_known_and_unknown_words(self):
        (row, *_) = features("request", "triangles zzz")
        assert row["unknown_share"] == 0.5
        assert row["known_words"] == pytest.approx(math.log(2))

    def test_lengths_have_a_bend(self):
        (row, *_) = features("request", "one two three four five")
        assert row["words"] == pytest.approx(math.log(6))
        assert row["words_over_4"] == pytest.approx(math.log(6) - math.log(5))
        assert row["words_over_9"] == 0.0

    def test_it_is_the_same_for_all_items(self):
        one, two, three = features("request", "A base of 10 in Oslo?")
        assert one == two == three
        assert one["numbers"] == pytest.approx(math.log(2))

    def test_an_empty_request_has_nothing_but_no_known_word(self):
        (row, *_) = features("request", "")
        assert {name: value for name, value in row.items() if value} == {"unknown_share": 1.0}


class TestSlots:
    @pytest.mark.parametrize(
        ("text", "values"),
        [
            ("book a flight", 0),
            ("Book a flight from Paris to New York on Friday", 3),  # a name of two words is one
            ("i may fly on friday", 1),
            ("set it to 3.5 or 1,000", 2),
            ("find 'x y 7' and \"Z\"", 2),  # what is quoted counts once
            ("mail a@b.org tomorrow, see https://x.org", 3),
        ],
    )
    def test_values_are_counted(self, text, values):
        assert values_in(text) == values

    def test_they_are_held_against_the_required_parameters(self):
        tool, rule, _ = features("slots", "with base 10")
        assert (tool["lacking"], rule["lacking"]) == (1.0, 0.0)
        assert (tool["filled"], rule["filled"]) == (pytest.approx(2 / 3), 1.0)

    def test_numbers_are_held_against_the_required_numbers(self):
        tool, rule, _ = features("slots", "The area of a triangle with base 10 in cm")
        assert (tool["numbers_lacking"], rule["numbers_lacking"]) == (1.0, 0.0)
