from __future__ import annotations

import pytest

from ctxbench.index.fields import field_words, name_parts, name_words
from ctxbench.index.lexical import words
from ctxbench.items import Item


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("createIssue", ["create", "issue", "createissue"]),
        ("create_issue", ["create", "issue", "createissue"]),
        ("create-issue.v2", ["create", "issue", "v", "2", "createissuev2"]),
        ("HTTPServer2", ["http", "server", "2", "httpserver2"]),
        ("getHTTPResponse", ["get", "http", "response", "gethttpresponse"]),
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


def test_each_field_has_its_own_words():
    item = Item(type="rule", name="codeReview", description="What it looks at", text="Tests first.")
    assert field_words(item) == {
        "name": ["code", "review", "codereview"],
        "description": ["what", "it", "looks", "at"],
        "parameters": [],
        "text": ["tests", "first"],
    }


def test_the_text_of_a_tool_is_not_searched():
    assert field_words(Item(type="tool", name="x", text="never sent"))["text"] == []


def test_parameters_are_names_and_descriptions_at_every_depth_and_nothing_else():
    schema = {
        "type": "object",
        "description": "of the whole",
        "title": "not read",
        "properties": {
            "dueDate": {"type": "string", "description": "When", "enum": ["never"], "default": "later"},
            "description": {"type": "string"},
            "labels": {"type": "array", "items": {"description": "One label", "properties": {"colour": {}}}},
            "who": {"anyOf": [{"description": "a person"}, {"properties": {"team": True}}]},
        },
        "$defs": {"address": {"description": "Where"}},
        "examples": [{"description": "not read"}],
    }
    found = field_words(Item(type="tool", name="x", schema=schema))["parameters"]
    expected = "due date duedate when description labels one label colour who a person team address where"
    assert found == expected.split()


@pytest.mark.parametrize("schema", [None, {}, {"properties": []}, {"properties": {"a": 3, "b": {"items": "x"}}}])
def test_a_schema_that_says_nothing_useful_is_no_error(schema):
    assert set(field_words(Item(type="tool", name="x", schema=schema))["parameters"]) <= {"a", "b"}


def test_a_schema_may_be_nested_deeply():
    schema: dict = {"properties": {"end": {}}}
    for _ in range(5000):
        schema = {"items": schema}
    assert field_words(Item(type="tool", name="x", schema=schema))["parameters"] == ["end"]
