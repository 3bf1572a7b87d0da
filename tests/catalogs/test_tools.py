"""Tool definitions one by one, in every form."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from ctxbench.catalogs.tool_lists import HostedToolError, read_definition
from ctxbench.io.errors import ParameterError

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FORMS = {
    "mcp": {"name": "weather", "description": "Tells it.", "inputSchema": SCHEMA},
    "anthropic": {"type": "custom", "name": "weather", "description": "Tells it.", "input_schema": SCHEMA},
    "openai": {"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": SCHEMA}},
    "openai responses": {"type": "function", "name": "weather", "description": "Tells it.", "parameters": SCHEMA},
    "openai legacy": {"name": "weather", "description": "Tells it.", "parameters": SCHEMA},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_item(form: str) -> None:
    found = read_definition(FORMS[form])
    assert found.form == form.split(maxsplit=1)[0]
    item = found.item("town")
    assert (item.id, item.description, item.schema) == ("tool:town:weather", "Tells it.", SCHEMA)
    assert item.prompt_text == (
        '{"name":"weather","description":"Tells it.",'
        '"inputSchema":{"type":"object","properties":{"city":{"type":"string"}}}}'
    )


def test_what_is_not_sent_goes_to_the_metadata() -> None:
    data = {
        **FORMS["mcp"], "annotations": {"readOnlyHint": True, "title": "Weather!"}, "outputSchema": {"type": "object"},
        "icons": None,
    }  # fmt: skip
    item = read_definition(data).item("town", {"server_version": "2"})
    text = (
        '{"name":"weather","description":"Tells it.","inputSchema":{"type":"object","properties":{"city":'
        '{"type":"string"}}},"annotations":{"readOnlyHint":true,"title":"Weather!"},'
        '"outputSchema":{"type":"object"},"icons":null}'
    )
    assert item.title == "Weather!"
    assert item.metadata == {
        "annotations": {"readOnlyHint": True, "title": "Weather!"},
        "outputSchema": {"type": "object"},
        "server_version": "2",
        "definition_sha256": hashlib.sha256(text.encode()).hexdigest(),
    }


def test_strict_of_a_function_and_the_own_title_are_kept() -> None:
    found = read_definition({"type": "function", "function": {"name": "f", "strict": True, "title": "F"}})
    assert (found.unread, found.title, found.schema, found.form) == ({"strict": True}, "F", None, "openai")


@pytest.mark.parametrize(
    ("more", "server"),
    [
        ({"server": "a"}, "a"),
        ({"serverName": "b"}, "b"),
        ({"server": {"name": "c"}}, "c"),
        ({"server": 3}, None),
        ({}, None),
    ],
)
def test_a_definition_may_name_its_server(more: dict[str, Any], server: str | None) -> None:
    assert read_definition({**FORMS["mcp"], **more}).server == server


def test_no_description_and_no_schema_are_no_fault() -> None:
    found = read_definition({"name": "f", "description": None})
    assert (found.description, found.schema, found.form) == ("", None, "plain")
    assert read_definition({"name": "f", "inputSchema": None, "enabled": False}).enabled is False


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "field 'name' must be a text"),
        ({"name": ""}, "field 'name' must be a text that is not empty"),
        ({"name": 3, "description": []}, "field 'name' .*; field 'description' must be a text"),
        ({"name": "f", "inputSchema": {}, "parameters": {}}, "it has 'inputSchema' and 'parameters'"),
        ({"name": "f", "input_schema": "{}"}, "field 'input_schema' must be an object"),
        ({"name": "f", "function": {"name": "f"}}, "it has both 'function' and 'name'"),
        ({"type": "tool", "function": {"name": "f"}}, "its type is 'tool'; expected 'function'"),
        ({"type": 7, "name": "f"}, "field 'type' must be a text"),
        ({"name": "f", "parameters": {"default": float("nan")}}, "NaN"),
        ({"name": "f", "description": "\ud800 x"}, "half a character"),
        ({"name": "f", "parameters": {"properties": {"\udfff": {}}}}, "half a character"),
    ],
)
def test_what_is_wrong_is_said(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        read_definition(data)
    assert not isinstance(caught.value, HostedToolError)


@pytest.mark.parametrize("data", [{"type": "web_search"}, {"type": "bash_20250124", "name": "bash"}, {"type": "mcp"}])
def test_tools_of_the_provider_are_told_apart(data: dict[str, Any]) -> None:
    with pytest.raises(HostedToolError, match="has no definition"):
        read_definition(data)
