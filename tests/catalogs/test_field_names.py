"""Other names of tools' fields: read as they are mapped, and suggested where a list seems to need it."""

from __future__ import annotations

import json

import pytest

from ctxbench.catalogs.tool_lists import read_field_names, read_tool_list, renamed, suggested
from ctxbench.io.errors import InputError, ParameterError

ROWS = [
    {"tool_name": "a", "summary": "Does a.", "args": {"type": "object"}, "tags": ["x"]},
    {"tool_name": "b", "summary": "Does b.", "args": {"type": "object"}},
]
MAPPED = {"name": "tool_name", "description": "summary", "schema": "args"}


def write(path, rows):
    path.write_text("\n\n".join(map(json.dumps, rows)) if path.suffix == ".jsonl" else json.dumps(rows), "utf-8")
    return path


def test_json_lines_are_a_list_of_tools(tmp_path):
    rows = [{"name": "a", "description": "Does a.", "inputSchema": {}}, {"tools": [{"name": "b"}], "name": "git"}]
    part = read_tool_list(write(tmp_path / "t.jsonl", rows))
    assert [item.id for item in part.items] == ["tool:a", "tool:git:b"]
    assert part.notes == ()


def test_faults_of_json_lines_have_the_line_of_the_file(tmp_path):
    path = write(tmp_path / "t.jsonl", [{"name": "a"}, {"name": 7}, {"name": "a"}])
    with pytest.raises(InputError) as error:
        read_tool_list(path)
    assert [fault.line for fault in error.value.faults] == [3, 5]
    path.write_text('{"name": "a"}\n{"name": b}\n', "utf-8")
    with pytest.raises(InputError, match=r"malformed JSON.*line 2"):
        read_tool_list(path)


@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
def test_fields_are_read_by_the_names_that_are_given(tmp_path, name):
    (first, _) = read_tool_list(write(tmp_path / name, ROWS), names=MAPPED).items
    assert (first.name, first.description, first.schema) == ("a", "Does a.", {"type": "object"})
    assert first.metadata.keys() == {"tags", "definition_sha256"}


def test_a_list_without_names_is_one_fault_with_the_option_that_reads_it(tmp_path):
    with pytest.raises(InputError) as error:
        read_tool_list(write(tmp_path / "t.json", ROWS))
    (fault,) = error.value.faults
    assert fault.message == (
        "no tool has a field 'name'; the tools have 'tool_name', 'summary', 'args', 'tags'; name the right one: "
        "--map name=tool_name,description=summary,schema=args"
    )
    with pytest.raises(InputError, match="the tools have 'x'; name the right one: --map name=FIELD"):
        read_tool_list(write(tmp_path / "t.json", [{"x": 1}]))


def test_what_is_passed_over_is_noted_with_the_option_that_reads_it(tmp_path):
    rows = [
        {"name": row["tool_name"], "label": "A", **{k: v for k, v in row.items() if k != "tool_name"}} for row in ROWS
    ]
    (note,) = read_tool_list(write(tmp_path / "t.json", rows), names={"title": "label"}).notes
    assert note == (
        "not read: 'summary' as the description and 'args' as the schema; to read them: "
        "--map title=label,description=summary,schema=args"
    )


def test_fields_of_other_kinds_are_not_suggested():
    assert suggested([{"args": "text"}, {"args": []}], ["schema"]) == {}
    assert suggested([{"summary": "a"}, {}, {}], ["description"]) == {}
    assert suggested([], ["name"]) == {}


def test_a_mapping_of_what_no_tool_has_is_a_fault(tmp_path):
    with pytest.raises(InputError) as error:
        read_tool_list(write(tmp_path / "t.json", ROWS), names=MAPPED | {"title": "titel", "server": "a.b"})
    fields = "the tools have 'tool_name', 'summary', 'args', 'tags'"
    assert [fault.message for fault in error.value.faults] == [
        f"'title' is mapped to 'titel', which no tool has; {fields}",
        f"'server' is mapped to 'a.b', which no tool has; {fields}",
    ]


def test_dots_lead_inwards_and_what_is_not_there_is_left():
    data = {"spec": {"title": "a", "args": {"x": 1}}, "name": "old"}
    assert renamed(data, {"name": "spec.title", "schema": "spec.args", "description": "spec.doc"}) == {
        **data,
        "name": "a",
        "inputSchema": {"x": 1},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name", "fields are mapped as field=theirs"),
        ("name=", "fields are mapped as field=theirs"),
        ("", "fields are mapped as field=theirs"),
        ("nam=a", "'nam' is no field of a tool; did you mean 'name'"),
        ("name=a,name=b", "field 'name' is mapped twice: a and b"),
    ],
)
def test_a_mapping_that_is_none_is_refused(text, message):
    with pytest.raises(ParameterError, match=message):
        read_field_names(text)


def test_a_mapping_is_read():
    assert read_field_names("name=tool_name, schema = spec.args") == {"name": "tool_name", "schema": "spec.args"}


def test_fields_that_are_mapped_to_one_are_joined_once_each():
    joined = read_field_names("id=a+b,id=c,id=a", allowed=("id",), joined=("id",))
    assert joined == {"id": "a+b+c"}


def test_a_mapping_of_other_fields_names_those() -> None:
    assert read_field_names("query=words", allowed=("query", "id"), of="an eval") == {"query": "words"}
    with pytest.raises(ParameterError, match="'name' is no field of an eval; Known: id, query"):
        read_field_names("name=words", allowed=("query", "id"), of="an eval")


@pytest.mark.parametrize(("field", "theirs"), [("name", "Name"), ("schema", "inputschema"), ("schema", "Input_Schema")])
def test_a_name_that_is_written_otherwise_is_suggested(field, theirs):
    value = {"type": "object"} if field == "schema" else "x"
    assert suggested([{theirs: value}], [field]) == {field: theirs}
