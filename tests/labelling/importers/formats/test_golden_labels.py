"""Which entries of an eval are labels, which say what was offered, and how labels are graded."""

from __future__ import annotations

import json

import pytest

from ctxbench.datasets.files import create_dataset, read_dataset
from ctxbench.io.errors import InputError
from ctxbench.labelling.conversion import PASSED_OVER, ImportSettings
from ctxbench.labelling.evals import AVAILABLE, NONE_REQUIRED, NOT_IN_CATALOG, UNSAID
from tests.labelling.importers.formats.golden_cases import CATALOG, faults_of, import_golden, labels_of, write

REFUND, CANCEL, RULE = "tool:shop:refund_order", "tool:shop:cancel_order", "rule:refunds"
MCP = [
    {"name": "refund_order", "description": "Refund.", "inputSchema": {"type": "object"}},
    {"name": "cancel_order", "inputSchema": {"type": "object"}},
]
ANTHROPIC = [{"name": tool["name"], "input_schema": {"type": "object"}} for tool in MCP]
OPENAI = [{"type": "function", "function": {"name": tool["name"], "parameters": {}}} for tool in MCP]
PLAIN = [{"name": tool["name"], "parameters": {}} for tool in MCP]
DESCRIBED = [{"name": tool["name"], "description": ""} for tool in MCP]
BY_NAME = {tool["name"]: {"description": "x", "parameters": {"type": "object"}} for tool in MCP}
HOSTED = [{"type": "web_search_20250305", "name": "web_search"}, *MCP]
CALL = [{"name": "refund_order", "input": {"order": 17}}]


def imported(path, *rows, grades=None, names=None):
    settings = ImportSettings(grades=grades)
    return import_golden(write(path / "e.jsonl", [{"query": "refund 17", **row} for row in rows]), CATALOG,
                         settings=settings, names=names)  # fmt: skip


def available(converted):
    return [None if keys is None else {key.id for key in keys}
            for keys in (query.request.available for query in converted.dataset.queries)]  # fmt: skip


@pytest.mark.parametrize("listed", [MCP, ANTHROPIC, OPENAI, PLAIN, DESCRIBED, BY_NAME, HOSTED])
@pytest.mark.parametrize("field", ["tools", "functions", "context"])
def test_definitions_are_what_was_offered_whatever_their_form_and_field(tmp_path, listed, field):
    found = imported(tmp_path, {"id": "a", field: listed})
    assert labels_of(found) == []
    assert found.dataset.unlabelled == ("a",)
    assert available(found) == [{REFUND, CANCEL, RULE}]  # tools are listed, so rules are not restricted
    assert [found.ids[what] for what in (AVAILABLE, UNSAID, PASSED_OVER)] == [["a"], ["a"], []]
    create_dataset(found.dataset, tmp_path / "made")
    assert read_dataset(tmp_path / "made").hash == found.dataset.hash


@pytest.mark.parametrize("label", ["expected_tools", "expected", "must_use"])
@pytest.mark.parametrize("offered", [MCP, OPENAI, ["refund_order", "cancel_order"]])
def test_tools_beside_another_field_of_labels_are_what_was_offered(tmp_path, label, offered):
    found = imported(tmp_path, {"id": "a", "tools": offered, label: ["refund_order"]})
    assert labels_of(found) == [("a", REFUND, 2, "")]
    assert available(found) == [{REFUND, CANCEL, RULE}]


def test_a_field_that_says_in_one_record_what_was_offered_is_no_label_in_another(tmp_path):
    rows = [
        {"id": "a", "tools": MCP},
        {"id": "b", "query": "b", "tools": []},
        {"id": "c", "query": "c", "tools": ["refunds"]},
    ]
    found = imported(tmp_path, *rows)
    assert labels_of(found) == []
    assert found.dataset.unlabelled == ("a", "b", "c")
    assert not any(query.needs_nothing for query in found.dataset.queries)
    assert [found.ids[what] for what in (AVAILABLE, PASSED_OVER)] == [["a", "c"], []]
    found = imported(
        tmp_path, {"id": "a", "tools": ["refund_order"], "wanted": ["refund_order"]}, names={"expected": "wanted"}
    )
    assert (labels_of(found), available(found)) == ([("a", REFUND, 2, "")], [{REFUND, RULE}])


def test_labels_that_are_calls_or_name_a_server_stay_labels(tmp_path):
    arguments = {"name": "refund_order", "parameters": {"order": 17, "type": "all"}}
    openai = {"type": "function", "function": {"name": "refund_order", "arguments": "{}"}}
    for entry in (CALL[0], arguments, openai, {"server": "shop", "name": "refund_order"}, {"doc_id": REFUND}):
        found = imported(tmp_path, {"id": "a", "tools": [entry]})
        assert labels_of(found) == [("a", REFUND, 2, "")]
        assert available(found) == [None]


def test_labels_under_an_unknown_name_beside_offered_tools_are_asked_for_and_can_be_mapped(tmp_path):
    row = {"id": "a", "query": "refund 17", "tools": MCP, "function_call_label": CALL}
    ((_, message),) = faults_of(write(tmp_path / "e.jsonl", [row]))
    assert "--map expected=function_call_label" in message
    found = imported(tmp_path, row, names={"expected": "function_call_label"})
    assert labels_of(found) == [("a", REFUND, 2, "")]
    assert available(found) == [{REFUND, CANCEL, RULE}]


@pytest.mark.parametrize(
    "row",
    [
        {"expected": MCP},
        {"forbidden": OPENAI, "expected": ["refunds"]},
        {"tools": ["refund_order", MCP[1]]},
        {"expected": [["refund_order", MCP[1]]]},
        {"expected": [{**MCP[0], "grade": 2}]},
    ],
)
def test_definitions_in_place_of_labels_are_refused(tmp_path, row):
    field = "forbidden" if "forbidden" in row else "expected"
    ((line, message),) = faults_of(write(tmp_path / "e.jsonl", [{"query": "refund 17", **row}]))
    assert line == 1
    assert f"--map {field}=" in message


def test_definitions_that_are_mapped_to_labels_are_refused(tmp_path):
    for theirs in ("tools", "tools.name"):
        with pytest.raises(InputError, match="--map expected="):
            imported(tmp_path, {"tools": MCP}, names={"expected": theirs})


def test_a_table_may_hold_definitions_too(tmp_path):
    tools = '"[{""name"": ""refund_order"", ""description"": ""x""}]"'
    text = f"id,query,tools,expected_tools\na,refund 17,{tools},refund_order\n"
    found = import_golden(write(tmp_path / "e.csv", text), CATALOG)
    assert labels_of(found) == [("a", REFUND, 2, "")]
    assert available(found) == [{REFUND, RULE}]


def test_offered_items_that_the_catalog_lacks_are_counted_and_none_of_them_is_a_fault(tmp_path):
    other = {"name": "final_answer", "description": "x"}
    found = imported(tmp_path, {"tools": [*MCP, other], "expected": ["refund_order"]})
    assert found.ids[NOT_IN_CATALOG] == ["final_answer"]
    assert available(found) == [{REFUND, CANCEL, RULE}]
    ((line, _),) = faults_of(write(tmp_path / "e.jsonl", [{"query": "q", "tools": [other], "expected": []}]))
    assert line == 1
    found = imported(tmp_path, {"notes": [other], "expected": ["refund_order"]})
    assert (available(found), found.ids[PASSED_OVER]) == ([None], ["notes"])


def test_an_item_that_is_expected_and_was_not_offered_is_a_fault(tmp_path):
    row = {"query": "refund 17", "tools": MCP, "expected": ["crm/search"]}
    ((line, message),) = faults_of(write(tmp_path / "e.jsonl", [row]))
    assert (line, "tool:crm:search" in message, "'tools'" in message) == (1, True, True)
    assert labels_of(imported(tmp_path, {**row, "id": "a", "expected": ["refunds"]})) == [("a", RULE, 2, "")]


@pytest.mark.parametrize("member", ["grade", "gain", "relevance", "score", "Relevance"])
def test_grades_of_labels_are_kept_and_mapped(tmp_path, member):
    rows = [
        {"id": "a", "expected": [{"id": "refund_order", member: 3}, {"doc_id": "refunds", member: 1}]},
        {"id": "b", "query": "b", "expected": [{"id": "cancel_order", member: 3}, {"id": "refunds", member: 0}]},
        {"id": "c", "query": "c", "expected": [{"id": "refunds", member: 1}]},
    ]
    found = imported(tmp_path, *rows, grades={1: 1, 3: 2})
    assert labels_of(found) == [
        ("a", REFUND, 2, ""),
        ("a", RULE, 1, ""),
        ("b", CANCEL, 2, ""),
        ("b", RULE, 0, ""),
        ("c", RULE, 1, ""),
    ]
    assert found.ids[NONE_REQUIRED] == list(found.dataset.unlabelled) == ["c"]
    with pytest.raises(InputError, match="--grades 1=1,3=2"):
        imported(tmp_path, *rows)


def test_members_of_labels_that_nothing_reads_are_counted(tmp_path):
    entry = {"id": "refund_order", "server": "shop", "relevant": False}
    found = imported(tmp_path, {"id": "a", "expected": [{"name": "refund_order", "input": {}}, entry]})
    assert found.ids[PASSED_OVER] == ["expected.relevant"]


def test_one_positive_grade_means_required_and_0_irrelevant(tmp_path):
    entries = [{"id": "refund_order", "gain": 1}, {"id": "cancel_order", "gain": 0}]
    found = imported(tmp_path, {"id": "a", "expected": entries, "forbidden": [{"id": "refunds", "score": 0}]})
    assert labels_of(found) == [("a", REFUND, 2, ""), ("a", CANCEL, 0, ""), ("a", RULE, 0, "")]


@pytest.mark.parametrize(
    "labels",
    [
        [{"id": "refund_order", "gain": 0.87}],
        [{"id": "refund_order", "gain": "high"}],
        [{"id": "refund_order", "gain": True}],
        [{"id": "refund_order", "gain": -1}],
        [{"id": "refund_order", "gain": 1}, {"id": "refunds", "gain": 2}, {"id": "cancel_order", "gain": 3}],
    ],
)
def test_a_scale_that_is_not_known_is_one_fault_that_names_the_option(tmp_path, labels):
    ((_, message),) = faults_of(write(tmp_path / "e.jsonl", [{"query": "refund 17", "expected": labels}]))
    assert "--grades" in message
    assert repr(labels[0]["gain"]) in message


@pytest.mark.parametrize(
    "row",
    [
        {"expected": [{"id": "refund_order", "gain": 1}, "refunds"]},
        {"expected": [{"id": "refund_order", "gain": 1}, {"id": "refund_order", "gain": 0}]},
        {"expected": [{"id": "refund_order", "gain": 0}, {"id": "refund_order", "gain": 1}]},
        {"expected": [[{"id": "refund_order", "gain": 1}, {"id": "cancel_order", "gain": 0}]]},
        {"expected": [{"id": "refund_order", "gain": 1, "score": 1}]},
        {"expected": ["refunds"], "forbidden": [{"id": "refund_order", "gain": 2}]},
        {"expected": [{"id": "refund_order", "gain": 1}], "forbidden": ["refund_order"]},
    ],
)
def test_grades_that_contradict_each_other_are_a_fault_of_the_line(tmp_path, row):
    ((line, _),) = faults_of(write(tmp_path / "e.jsonl", [{"query": "refund 17", **row}]))
    assert line == 1


def test_a_mapping_leads_into_lists_and_keeps_grades(tmp_path):
    relevance = [
        {"doc_id": "refund_order", "gain": 2},
        {"doc_id": "refunds", "gain": 1},
        {"doc_id": "crm/search", "gain": 0},
    ]
    rows = [{"id": "a", "judged": {"relevance": relevance}}, {"id": "b", "query": "b", "judged": {"relevance": []}}]
    found = imported(tmp_path, *rows, names={"expected": "judged.relevance.doc_id"}, grades={1: 1, 2: 2})
    assert labels_of(found) == [("a", REFUND, 2, ""), ("a", "tool:crm:search", 0, ""), ("a", RULE, 1, "")]
    assert found.dataset.queries[1].needs_nothing
    assert found.ids[PASSED_OVER] == []
    as_text = {"id": "a", "judged": {"relevance": json.dumps(relevance)}}
    of_text = imported(tmp_path, as_text, names={"expected": "judged.relevance.doc_id"}, grades={1: 1, 2: 2})
    assert labels_of(of_text) == labels_of(found)
    with pytest.raises(InputError, match="which no record has a value for"):
        imported(tmp_path, *rows[:1], names={"expected": "judged.relevance.document"})
    rows[0]["judged"]["relevance"] = [{"doc_id": "refund_order"}, {"name": "refunds"}]
    with pytest.raises(InputError, match="expected a name or id"):
        imported(tmp_path, rows[0], names={"expected": "judged.relevance.doc_id"})


def test_a_mapped_field_that_is_null_everywhere_is_not_called_missing(tmp_path):
    with pytest.raises(InputError, match="'gold', which no record has a value for"):
        imported(tmp_path, {"gold": None}, names={"expected": "gold"})
