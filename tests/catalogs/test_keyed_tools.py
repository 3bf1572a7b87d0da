"""Tools by name, as TypeScript agents write them: forms of schemas, what is wrong with several, what is left out."""

from __future__ import annotations

import json

import pytest

from ctxbench.catalogs.tool_lists import is_keyed_tool, keyed_tool, read_tool_list, with_plain_schema
from ctxbench.io.errors import InputError

SCHEMA = {"type": "object", "properties": {"isbn": {"type": "string"}}, "required": ["isbn"]}
CHECK = {"description": "Check an ISBN.", "inputSchema": SCHEMA}


def listed(folder, data):
    path = folder / "tools.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return read_tool_list(path)


@pytest.mark.parametrize("key", ["inputSchema", "parameters"])
@pytest.mark.parametrize("schema", [SCHEMA, {"jsonSchema": SCHEMA}, {"_type": None, "jsonSchema": SCHEMA}])
@pytest.mark.parametrize(
    "frame", [lambda tools: tools, lambda tools: {"tools": tools}, lambda tools: {"functions": tools}]
)
def test_tools_by_name_have_the_key_as_their_name(tmp_path, key, schema, frame):
    tools = {"checkIsbn": {"description": "Check an ISBN.", key: schema}, "order-book": {"description": "Order."}}
    first, second = listed(tmp_path, frame(tools)).items
    assert (first.id, first.description, first.schema) == ("tool:checkIsbn", "Check an ISBN.", SCHEMA)
    assert (second.id, second.schema) == ("tool:order-book", None)


def test_the_key_is_what_the_model_is_told_whatever_name_the_tool_has_itself():
    assert keyed_tool("checkIsbn", {"name": "Check", **CHECK})["name"] == "checkIsbn"
    assert keyed_tool("a", {"type": "function", "function": {"name": "b"}})["function"] == {"name": "b"}
    assert keyed_tool("a", {"function": {"parameters": {}}})["function"] == {"name": "a", "parameters": {}}


def test_tools_by_name_below_a_server_are_its(tmp_path):
    part = listed(tmp_path, {"shop": {"tools": {"checkIsbn": CHECK}}, "git": [{"name": "log", "inputSchema": {}}]})
    assert [item.id for item in part.items] == ["tool:shop:checkIsbn", "tool:git:log"]


def test_a_wrapped_schema_is_read_in_a_list_too(tmp_path):
    rows = [{"name": "a", "parameters": {"jsonSchema": SCHEMA}}]
    rows.append({"type": "function", "function": {"name": "b", "parameters": {"jsonSchema": SCHEMA}}})
    assert [item.schema for item in listed(tmp_path, rows).items] == [SCHEMA, SCHEMA]


def test_a_schema_that_has_a_property_of_that_name_is_left_as_it_is():
    tool = {"name": "a", "parameters": {"properties": {}, "jsonSchema": {}}}
    assert with_plain_schema(tool) == (tool, True)


def test_tools_of_the_provider_are_left_out_and_zod_objects_are_said(tmp_path):
    zod = {"description": "Zod.", "parameters": {"_def": {"typeName": "ZodObject"}, "~standard": {"vendor": "zod"}}}
    tools = {
        "search": {"type": "provider-defined", "id": "openai.web_search", "args": {}},
        "checkIsbn": CHECK,
        "z": zod,
    }
    part = listed(tmp_path, {"tools": tools})
    assert [(item.id, item.schema) for item in part.items] == [("tool:checkIsbn", SCHEMA), ("tool:z", None)]
    assert part.notes[0].endswith("no definition: 1 provider-defined")
    assert part.notes[1].startswith("read without the schema, because it is an object of zod and not JSON Schema: 1; ")


@pytest.mark.parametrize("value", [{}, {"command": "x"}, {"url": "u", "description": "d"}, {"description": 7}])
def test_other_objects_under_a_name_are_no_tools(value):
    assert not is_keyed_tool(value)


def test_what_is_wrong_with_many_in_the_same_way_is_one_message(tmp_path):
    with pytest.raises(InputError) as error:
        listed(tmp_path, {f"t{n}": {"description": "d", "inputSchema": SCHEMA, "parameters": {}} for n in range(8)})
    (fault,) = error.value.faults
    assert fault.message == (
        "tool 't0': it has 'inputSchema' and 'parameters'; expected the schema of one form; and 7 more: "
        "tool 't1', tool 't2', tool 't3', tool 't4', tool 't5', ..."
    )
    with pytest.raises(InputError) as error:
        listed(tmp_path, {f"field{n}": n for n in range(3)})
    (fault,) = error.value.faults
    assert fault.message.startswith("field 'field0' contains no tool definition; expected a list of tools")
    assert fault.message.endswith("; and 2 more: field 'field1', field 'field2'")
