"""Hand-written evals as datasets: forms, names of fields and items, and everything that can be wrong."""

from __future__ import annotations

import gzip
import json

import pytest

from ctxbench.datasets.files import create_dataset, read_dataset
from ctxbench.io.errors import InputError, StorageError
from ctxbench.labelling.conversion import PASSED_OVER
from ctxbench.labelling.evals import NOTHING, UNSAID
from ctxbench.model.items import Catalog, Item
from tests.labelling.importers.formats.golden_cases import CATALOG, faults_of, import_golden, labels_of, write


def test_a_record_is_a_request_with_what_it_should_and_should_not_be_offered(tmp_path):
    rows = [
        {"query": "refund 17", "expected": ["refund_order", "refunds"], "forbidden": ["shop__cancel_order"]},
        {"query": "hello", "expected": [], "split": "test", "tags": ["chat"], "answer": "Hi"},
        {"query": "and then?", "id": "not said", "forbidden": ["tool:crm:search"]},
        {"query": "who?", "expected": [["crm.search", "wiki.search"], "How we refund", "refund_order"]},
    ]
    found = import_golden(write(tmp_path / "evals.jsonl", rows), CATALOG)
    assert sorted(labels_of(found)) == sorted(
        [
            ("evals-1", "tool:shop:refund_order", 2, ""),
            ("evals-1", "rule:refunds", 2, ""),
            ("evals-1", "tool:shop:cancel_order", 0, ""),
            ("not%20said", "tool:crm:search", 0, ""),
            ("evals-4", "tool:crm:search", 2, "group 1"),
            ("evals-4", "tool:wiki:search", 2, "group 1"),
            ("evals-4", "rule:refunds", 2, ""),
            ("evals-4", "tool:shop:refund_order", 2, ""),
        ]
    )
    hello = found.dataset.queries[1]
    assert (hello.needs_nothing, hello.split, hello.tags) == (True, "test", ("chat",))
    assert found.dataset.unlabelled == ("not%20said",)
    assert [found.counts[what] for what in (NOTHING, UNSAID, PASSED_OVER)] == [1, 1, 1]
    create_dataset(found.dataset, tmp_path / "made")
    assert read_dataset(tmp_path / "made").hash == found.dataset.hash


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.json", json.dumps([{"input": "refund 17", "must_include": "refund_order", "id": 1}])),
        ("e.yaml", "- question: refund 17\n  expected_tools: [refund_order]\n  qid: 1\n"),
        ("e.csv", 'id,query,expected\n1,refund 17,"refund_order"\n'),
        ("e.tsv", "id\tquery\texpected\n1\trefund 17\trefund_order\n"),
        ("e.csv", 'id,query,expected\n1,refund 17,"[""refund_order""]"\n'),
        ("e.csv", "id,query,expected\n1,refund 17,refund_order | shop/refund_order\n"),
        ("e.jsonl", '{"_id": "1", "prompt": "refund 17", "tools": [{"server": "shop", "name": "refund_order"}]}\n'),
        ("e.jsonl", '{"id": "1", "text": "refund 17", "relevant": ["refund_order"], "exclude": null}\n'),
        ("e.jsonl", json.dumps([{"id": "1", "query": "refund 17", "expected": ["refund_order"]}], indent=2)),
        ("e.json", '{"id": "1", "query": "refund 17", "expected": ["refund_order"]}\n{"id": "2", "query": "hello"}\n'),
    ],
)
def test_forms_and_names_of_fields(tmp_path, name, content):
    found = import_golden(write(tmp_path / name, content), CATALOG)
    assert labels_of(found) == [("1", "tool:shop:refund_order", 2, "")]
    assert found.dataset.queries[0].request.text == "refund 17"


@pytest.mark.parametrize(
    ("query", "expected", "forbidden", "own_id"),
    [
        ("query", "expectedTools", "forbiddenTools", "queryId"),
        ("message", "mustInclude", "mustNotInclude", "id"),
        ("Query", "Expected tools", "forbidden-tools", "ID"),
    ],
)
def test_names_of_fields_in_other_spellings_are_read(tmp_path, query, expected, forbidden, own_id):
    row = {query: "refund 17", expected: ["refund_order"], forbidden: ["cancel_order"], own_id: "q1"}
    found = import_golden(write(tmp_path / "e.jsonl", [row]), CATALOG)
    assert labels_of(found) == [("q1", "tool:shop:refund_order", 2, ""), ("q1", "tool:shop:cancel_order", 0, "")]
    assert found.counts[PASSED_OVER] == 0


def test_two_spellings_of_one_field_are_a_fault(tmp_path):
    path = write(tmp_path / "e.jsonl", [{"query": "a", "expectedTools": [], "expected_tools": []}])
    assert faults_of(path) == [(1, "the record has 'expectedTools' and 'expected_tools'; keep one of them")]


@pytest.mark.parametrize("name", ["expcted", "wanted_tools", "mustNotInclde", "toolsToAvoid", "noTools"])
def test_an_ignored_field_that_holds_items_is_hinted_at(tmp_path, name):
    rows = [{"query": text, name: ["refund_order"], "forbidden": [], "notes": "n"} for text in "abcd"]
    found = import_golden(write(tmp_path / "e.jsonl", rows), CATALOG)
    (hint,) = [issue for issue, ids in found.ids.items() if ids and "ignored;" in issue]
    assert (hint.values["name"], len(found.ids[hint])) == (name, 4)
    assert found.counts[PASSED_OVER] == 8


@pytest.mark.parametrize("name", ["mustUse", "must_use", "shouldUse", "should_use"])
@pytest.mark.parametrize("against", ["mustNotUse", "must_not_use", "shouldNotUse", "should_not_use", "avoid"])
def test_what_must_and_must_not_be_used_is_expected_and_forbidden(tmp_path, name, against):
    row = {"query": "refund 17", name: ["refund_order"], against: ["cancel_order"], "id": "q"}
    found = import_golden(write(tmp_path / "e.jsonl", [row]), CATALOG)
    assert labels_of(found) == [("q", "tool:shop:refund_order", 2, ""), ("q", "tool:shop:cancel_order", 0, "")]


def test_a_file_that_says_nowhere_what_is_expected_is_an_error_that_names_its_fields(tmp_path):
    rows = [{"query": text, "expcted": ["refund_order"], "notes": "n"} for text in "ab"]
    ((line, said),) = faults_of(write(tmp_path / "e.jsonl", rows))
    assert line == 0
    assert "only 'query', 'expcted', 'notes'; the values of 'expcted' are items of the catalog" in said
    assert "--map expected=expcted`" in said
    ((_, said),) = faults_of(write(tmp_path / "e.jsonl", [{"query": "a", "notes": "n"}]))
    assert "to one of expected, expected_tools, " in said
    assert "should not be offered, forbidden, forbidden_tools, " in said
    rows = [{"query": text} for text in "ab"]  # requests alone, to be labelled later
    assert import_golden(write(tmp_path / "e.jsonl", rows), CATALOG).counts[UNSAID] == 2


def test_fields_that_were_passed_over_are_each_named_once(tmp_path):
    rows = [{"query": text, "expected": [], "answer": "x"} for text in "abcd"]
    assert f"{PASSED_OVER}: 4 (answer)" in import_golden(write(tmp_path / "e.jsonl", rows), CATALOG).lines()
    rows = [{**row, "c1": 1, "c2": 2, "c3": 3, "c4": 4} for row in rows]
    lines = import_golden(write(tmp_path / "e.jsonl", rows), CATALOG).lines()
    assert f"{PASSED_OVER}: 20 (answer, c1, c2, c3, c4)" in lines


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.csv", "id;query;expected\n1;refund 17, please;refund_order\n"),
        ("e.csv", "ID;User Question;Expected tool(s);Split\n1;refund 17, please;Refund-Order;test\n"),
        ("e.csv", 'id;query;expected\n1;refund 17, please;"refund_order;shop/refund_order"\n'),
        ("e.csv", "id\tquery\texpected\n1\trefund 17, please\trefund_order\n"),
        ("e.tsv", 'id,query,expected\n1,"refund 17, please",refund_order\n'),
        ("e.csv", '\ufeffid;query;expected\r\n1;"refund 17, please";refund_order\r\n'),
    ],
)
def test_tables_with_other_marks_between_columns_are_read(tmp_path, name, text):
    found = import_golden(write(tmp_path / name, text), CATALOG)
    assert labels_of(found) == [("1", "tool:shop:refund_order", 2, "")]
    assert found.dataset.queries[0].request.text == "refund 17, please"


def test_a_list_written_out_empty_needs_nothing_and_an_empty_cell_is_not_done_yet(tmp_path):
    text = "query,expected,forbidden,tags\nhello,[],cancel_order,\nhi,none,,\nlater, ,cancel_order,\n"
    found = import_golden(write(tmp_path / "e.csv", text), CATALOG)
    assert [query.needs_nothing for query in found.dataset.queries] == [True, True, False]
    assert found.dataset.unlabelled == ("e-3",)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"query": "a", "expected": ["refund_orders"]}, "'refund_orders' in 'expected' is not in the catalog; did"),
        (
            {"query": "a", "forbidden": ["search"]},
            "'search' in 'forbidden' is the name of several items; write the id: t",
        ),
        ({"query": "a", "expected": [7]}, "field 'expected' has 7 as an item; expected a name or id"),
        ({"query": "a", "expected": 7}, "field 'expected' must be a list of items, got 7"),
        (
            {"query": "a", "expected": ["refunds"], "forbidden": ["rule:refunds"]},
            "rule:refunds is expected and forbidden",
        ),
        ({"query": "a", "expected": [["refunds", "crm.search"], ["crm.search", "wiki.search"]]}, "two lists of altern"),
        ({"query": "a", "input": "b", "expected": []}, "the record has 'query' and 'input'; keep one of them"),
        ({"expected": []}, "field 'query' is missing; expected a text"),
        ({"query": "", "expected": []}, "field 'query' must not be empty"),
        ({"query": "a", "expected": [], "tags": [1]}, "field 'tags' must be a list of texts, got [1]"),
        ({"query": "a", "expected": [], "id": ["x"]}, "field 'id' must be a text or a whole number, got ['x']"),
        ({"query": "a", "expected": [], "id": True}, "field 'id' must be a text or a whole number, got True"),
        ({"query": "a", "expected": [], "split": "a b"}, "field 'split' is 'a b'; expected letters, digits"),
        ({"query": "a", "expected": [[]]}, "field 'expected' has an empty list of alternatives"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, row, message):
    path = write(tmp_path / "e.jsonl", [{"query": "fine", "expected": []}, row])
    ((line, said),) = faults_of(path)
    assert line == 2
    assert said.startswith(message)


@pytest.mark.parametrize(
    "row",
    [
        {"request": {"model": "m", "messages": [], "tools": []}, "response": {}},
        {"model": "m", "messages": [{"role": "user", "content": "a"}], "tools": []},
        {"conversation": "c", "messages": [{"role": "user", "content": "a"}], "offered": ["x"]},
        {"text": "a", "offered": ["x"], "called": ["x"]},
        {"resourceSpans": []},
    ],
)
def test_a_log_is_told_once_as_such(tmp_path, row):
    path = write(tmp_path / "log.jsonl", [row] * 150)
    ((_, said),) = faults_of(path)
    assert said.startswith("a log of an agent, with ")
    assert f"`ctxbench data import {path} -c CATALOG --out FOLDER --as " in said


def test_what_says_which_items_are_expected_is_no_log(tmp_path):
    ((_, said),) = faults_of(write(tmp_path / "e.jsonl", [{"messages": [], "expected": []}]))
    assert "a log of an agent" not in said


@pytest.mark.parametrize(
    "query",
    [
        {"prompt": {"text": "refund 17"}},
        {"inputs": {"question": "refund 17", "language": "en"}},
        {"messages": [{"role": "system", "content": "Help."}, {"role": "user", "content": "refund 17"}]},
        {"input": '[{"role": "user", "content": "refund 17"}]'},
    ],
)
def test_a_request_may_be_messages_or_an_object(tmp_path, query):
    found = import_golden(write(tmp_path / "e.jsonl", [{**query, "expected": {"tools": ["refund_order"]}}]), CATALOG)
    assert [query.request.text for query in found.dataset.queries] == ["refund 17"]
    assert labels_of(found) == [("e-1", "tool:shop:refund_order", 2, "")]


def test_a_request_twice_with_other_items_is_a_fault_of_both_lines(tmp_path):
    rows = [
        {"query": "refund", "expected": ["refund_order", "refunds"]},
        {"query": "refund", "expected": ["refunds", "refund_order"]},
        {"query": "refund"},
        {"query": "refund", "expected": []},
    ]
    message = "the request of line 1 occurs here again with other expected items; keep one of them"
    assert faults_of(write(tmp_path / "evals.jsonl", rows)) == [(4, message)]
    assert len(import_golden(write(tmp_path / "evals.jsonl", rows[:3]), CATALOG).dataset.queries) == 3


def test_all_faults_are_told_at_once(tmp_path):
    rows = [{"query": "a", "id": "q", "expected": ["x"]}, {"query": "b", "id": "q", "expected": ["y"]}]
    assert [line for line, _ in faults_of(write(tmp_path / "e.jsonl", rows))] == [1, 2, 2]
    assert faults_of(write(tmp_path / "e.yaml", "- 3\n- query: a\n  expected: [x]\n"))[0] == (
        1,
        "expected an object or a row with named fields, got 3",
    )


def test_a_file_of_no_form_or_without_records_is_an_error(tmp_path):
    ((line, said),) = faults_of(write(tmp_path / "e.txt", "a text\nof two lines"))
    assert (line, said) == (1, "expected an object or a row with named fields, got 'a text'")
    for content in ("", "[]", '{"version": 1, "cases": []}'):
        assert faults_of(write(tmp_path / "e.json", content))[0][1].startswith("the file is empty; expected")
    with pytest.raises(StorageError, match="cannot read"):
        import_golden(tmp_path / "none.csv", CATALOG)


@pytest.mark.parametrize(
    "name", ["refunds", "refunds.mdc", "rule:refunds", "RULE:Refunds.mdc", ".cursor/rules/refunds.mdc"]
)
def test_a_rule_is_named_by_its_file_too(tmp_path, name):
    rules = [Item(type="rule", name=f".cursor/rules/{one}.mdc", text="x") for one in ("refunds", "style")]
    found = import_golden(write(tmp_path / "e.jsonl", [{"query": "q", "expected": [name]}]), Catalog(rules))
    assert [label.item for label in found.dataset.labels] == [rules[0].key]


def test_a_file_s_name_that_two_rules_have_names_neither(tmp_path):
    rules = [Item(type="rule", name=f"{folder}/refunds.mdc", text="x") for folder in ("a", "b")]
    path = write(tmp_path / "e.jsonl", [{"query": "q", "expected": ["refunds"]}])
    with pytest.raises(InputError, match=r"is the name of several items; write the id: rule:a%2Frefunds.mdc or rule:b"):
        import_golden(path, Catalog(rules))


def test_an_item_that_no_search_may_offer_cannot_be_expected(tmp_path):
    catalog = Catalog([*CATALOG, Item(type="rule", name="style", text="Be brief.", include="manual")])
    rows = [{"query": "refund 17", "expected": ["refunds"]}, {"query": "be brief", "expected": ["style"]}]
    with pytest.raises(InputError) as error:
        import_golden(write(tmp_path / "evals.jsonl", rows), catalog)
    ((line, message),) = [(fault.line, fault.message) for fault in error.value.faults]
    assert line == 2
    assert message.startswith("'style' in 'expected' is a manual item")


@pytest.mark.parametrize("key", ["cases", "evals", "tests", "queries"])
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_list_under_the_only_key_of_a_file_is_read(tmp_path, key, suffix):
    path = write(tmp_path / f"e.{suffix}", json.dumps({key: [{"id": 1, "query": "a", "expected": ["refunds"]}]}))
    assert labels_of(import_golden(path, CATALOG)) == [("1", "rule:refunds", 2, "")]


def test_lines_of_a_list_under_a_key_are_those_of_the_file(tmp_path):
    path = write(tmp_path / "e.yaml", "cases:\n- query: a\n  expected: []\n- query: b\n  expected: [x]\n- 3\n")
    assert [line for line, _ in faults_of(path)] == [4, 6]


@pytest.mark.parametrize(
    ("data", "shown"),
    [({"cases": 1}, "only 'cases'"), ({}, "only none"), (3, "got '3'"), (["a"], "got ['a']")],
)
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_what_is_no_list_is_told_with_what_was_read(tmp_path, data, shown, suffix):
    ((_, said),) = faults_of(write(tmp_path / f"e.{suffix}", json.dumps(data)))
    assert shown in said


@pytest.mark.parametrize("name", ["e.jsonl.gz", "e.jsonl", "e.yaml", "e.csv"])
def test_a_compressed_file_is_read(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(b'{"query": "a", "expected": ["refunds"], "id": "q"}'))
    assert labels_of(import_golden(path, CATALOG)) == [("q", "rule:refunds", 2, "")]


@pytest.mark.parametrize(
    ("rows", "ids"),
    [
        ([{"name": "refunds"}, {"name": "says hello"}], ["refunds", "says%20hello"]),
        ([{"title": "a", "name": "same"}, {"title": "b", "name": "same"}], ["a", "b"]),
        ([{"name": "a"}, {}], ["e-1", "e-2"]),
        ([{"name": "a"}, {"name": "b", "id": "q"}], ["e-1", "q"]),
    ],
)
def test_names_are_ids_where_there_are_no_others_and_no_two_are_alike(tmp_path, rows, ids):
    rows = [{"query": f"q{number}", "expected": [], **row} for number, row in enumerate(rows)]
    found = import_golden(write(tmp_path / "e.jsonl", rows), CATALOG)
    assert [query.id for query in found.dataset.queries] == ids


def test_queries_without_ids_are_named_by_their_place_among_records_and_told(tmp_path):
    (tmp_path / "e.jsonl").write_text('\n{"query": "a", "expected": []}\n\n\n{"query": "b", "expected": []}\n')
    found = import_golden(tmp_path / "e.jsonl", CATALOG)
    assert [query.id for query in found.dataset.queries] == ["e-1", "e-2"]
    assert any("add ids" in line and line.endswith("2 (e-1, e-2)") for line in found.lines())


def test_a_field_much_like_a_mapped_one_is_hinted_at_and_null_is_not_passed_over(tmp_path):
    rows = [
        {"ask": "a", "needs": ["refund_order"]},
        {"ask": "b", "need": ["refund_order"]},
        {"ask": "c", "needs": None},
    ]
    names = {"query": "ask", "expected": "needs"}
    found = import_golden(write(tmp_path / "e.jsonl", rows), CATALOG, names=names)
    assert found.ids[PASSED_OVER] == ["need"]
    assert any("items in 'need', which was ignored" in line for line in found.lines())
    said = faults_of(write(tmp_path / "f.jsonl", [{"query": "a", "wants": ["refund_order"]}]))
    assert "--map expected=wants" in said[0][1]


TWO_FIELDS = [
    {"query": "a", "expected_tools": ["refund_order"], "expected_context": ["refunds", "refund_order"]},
    {"query": "b", "expected_tools": [], "expected_context": "refunds"},
    {"query": "c", "expected_tools": [], "expected_context": []},
    {"query": "d", "expected_tools": None},
]


def test_expected_items_in_several_fields_are_joined(tmp_path):
    path = write(tmp_path / "e.jsonl", TWO_FIELDS)
    found = import_golden(path, CATALOG, names={"expected": "expected_tools+expected_context"})
    assert [label[:2] for label in sorted(labels_of(found))] == [
        ("e-1", "rule:refunds"),
        ("e-1", "tool:shop:refund_order"),
        ("e-2", "rule:refunds"),
    ]
    assert [query.needs_nothing for query in found.dataset.queries] == [False, False, True, False]
    assert found.dataset.unlabelled == ("e-4",)
    ((_, message),) = faults_of(path, names={"expected": "expected_tools+expected_contxt"})
    assert "'expected' is mapped to 'expected_contxt'" in message
    assert "did you mean 'expected_context'" in message


def test_only_labels_are_joined_of_several_fields(tmp_path):
    path = write(tmp_path / "e.jsonl", [{"q": "a", "u": "b", "expected": ["refund_order"]}])
    ((_, message),) = faults_of(path, names={"query": "q+u"})
    assert "'query' is mapped to 'q+u'" in message
    path = write(tmp_path / "f.jsonl", [{"q+u": "a", "q": "b", "expected": ["refund_order"]}])
    (query,) = import_golden(path, CATALOG, names={"query": "q+u"}).dataset.queries
    assert query.request.text == "a"


def test_an_empty_field_beside_one_with_items_does_not_say_that_nothing_is_needed(tmp_path):
    ((line, message),) = faults_of(write(tmp_path / "e.jsonl", TWO_FIELDS))
    assert line == 2
    assert "--map expected=expected_tools+expected_context" in message
    found = import_golden(tmp_path / "e.jsonl", CATALOG, names={"expected": "expected_tools"})
    assert any("--map expected=expected_tools+expected_context" in line for line in found.lines())


def test_a_name_of_every_item_that_is_unknown_is_one_fault_on_the_catalog(tmp_path):
    rows = [{"query": f"q{number}", "expected": [f"elsewhere_{number}"]} for number in range(9)]
    ((line, said),) = faults_of(write(tmp_path / "e.jsonl", rows))
    assert line == 0
    assert "9 of the 9 names" in said
    rows[0]["expected"] = ["refund_order"]
    assert [line for line, _ in faults_of(write(tmp_path / "e.jsonl", rows))][:2] == [0, 2]
    assert [line for line, _ in faults_of(write(tmp_path / "e.jsonl", rows[:3]))] == [2, 3]
