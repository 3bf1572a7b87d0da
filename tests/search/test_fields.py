from __future__ import annotations

import pytest

from ctxbench.model.items import Item
from ctxbench.search.words import field_words


def test_each_field_has_its_own_words():
    item = Item(type="rule", name="codeReview", description="What it looks at", text="Tests first.")
    assert field_words(item) == {
        "server": [],
        "name": ["code", "review", "codereview"],
        "description": ["what", "it", "looks", "at"],
        "parameters": [],
        "text": ["tests", "first"],
    }


def test_the_server_of_a_tool_is_read_as_a_name():
    assert field_words(Item(type="tool", server="git-hub", name="x"))["server"] == ["git", "hub", "github"]


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
