"""Evals in the forms that programs write and people use, labels by content, and the mapping that values suggest."""

from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import InputError
from ctxbench.labelling.conversion import PASSED_OVER
from ctxbench.labelling.eval_forms import BY_HAND, KINDS, TRIGGER_FREE
from ctxbench.labelling.evals import AVAILABLE, IN_CODE, NOWHERE, SEVERAL_PLACES, UNSAID, import_evals
from ctxbench.labelling.sources import data_files, recognise, sample
from ctxbench.model.items import Catalog, Item
from tests.labelling.importers.formats.golden_cases import labels_of, write

TOOLS = Catalog(
    Item(type="tool", name=f"{verb}_order", description=f"{verb} it") for verb in ("refund", "stop", "track")
)
REFUND, STOP, TRACK = (item.id for item in TOOLS)
DOCS = Catalog(
    [
        Item(
            type="reference",
            name="d1",
            text="Refunds take five days.",
            metadata={"source": "docs/refunds.md", "start_line": 1, "end_line": 9},
        ),
        Item(type="reference", name="d2", title="How we ship", text="Parcels ship on Monday."),
        Item(type="chunk", name="c1", text="Ask first.", metadata={"path": "docs/rules.md", "lines": [1, 20]}),
        Item(type="chunk", name="c2", text="Then pay.", metadata={"path": "docs/rules.md", "lines": [21, 40]}),
    ]
)


def imported(path, content, catalog=TOOLS, **options):
    text = content if isinstance(content, str) else json.dumps(content)
    return import_evals([write(path, text)], catalog, **options)


def labels(converted):
    """The labels by request: items, with `-` before what is irrelevant and `a|b` for alternatives."""
    made = {query.id: [] for query in converted.dataset.queries}
    for query, item, grade, group in labels_of(converted):
        made[query].append(f"{'-' if grade == 0 else ''}{item.rpartition(':')[2]}{'|' if group else ''}")
    return {query.request.text: sorted(made[query.id]) for query in converted.dataset.queries}


def kind_of(path):
    values = [document.value for document in sample(path)]
    return next((kind.name for kind in KINDS if kind.matches(values)), None)


PROMPTFOO = """
prompts: ["Route: {{ask}}"]
providers: [echo]
defaultTest:
  vars: {lang: en}
  assert: [{type: is-json}]
tests:
  - vars: {ask: pay}
    assert: [{type: equals, value: refund_order}, {type: contains, value: thank you}]
  - vars: {ask: halt, tool: stop_order}
    assert: [{type: contains, value: "{{tool}}"}, {type: not-icontains, value: refund_order}]
  - vars: {ask: either}
    assert: [{type: contains-any, value: [stop_order, track_order]}]
  - vars: {ask: both}
    assert:
      - type: assert-set
        assert: [{type: tool-call-f1, value: "stop_order, track_order"}]
  - vars: {ask: where}
    assert: [{type: "trajectory:tool-used", value: {name: track_order}},
             {type: "trajectory:tool-used", value: {name: stop_order, max: 0}}]
  - file://more.csv
"""
PROMPTFOO_LABELS = {
    "pay": ["refund_order"],
    "halt": ["-refund_order", "stop_order"],
    "either": [],
    "both": ["stop_order", "track_order"],
    "where": ["-stop_order", "track_order"],
    "money": ["refund_order"],
    "all": ["stop_order", "track_order"],
    "what?": [],
}


def test_assertions_of_promptfoo_that_name_items_are_labels(tmp_path):
    table = "ask,__expected,__expected2\nmoney,refund_order,llm-rubric: polite\n"
    table += 'all,"contains-all: stop_order, track_order",\n'
    (tmp_path / "more.csv").write_text(f"{table}what?,python:file://check.py,\n")
    found = imported(tmp_path / "promptfooconfig.yaml", PROMPTFOO)
    assert labels(found) == PROMPTFOO_LABELS
    assert kind_of(tmp_path / "promptfooconfig.yaml") == kind_of(tmp_path / "more.csv") == "promptfoo"
    assert {"assert.is-json", "assert.contains", "assert.python"} <= set(found.ids[PASSED_OVER])
    assert [len(found.dataset.queries), len(found.dataset.unlabelled)] == [8, 2]
    both = import_evals([tmp_path / "more.csv", tmp_path / "promptfooconfig.yaml"], TOOLS)
    assert len(both.dataset.queries) == 8  # the table is a part of the configuration
    alone = import_evals([tmp_path / "more.csv"], TOOLS)
    assert labels(alone) == {
        text: names for text, names in PROMPTFOO_LABELS.items() if text in ("money", "all", "what?")
    }


@pytest.mark.parametrize("names", [None, {"query": "vars.query", "expected": "vars.expected"}])
def test_variables_of_promptfoo_are_fields(tmp_path, names):
    config = {"description": "x", "prompts": ["{{query}}"], "providers": ["echo"]}
    tests = [
        {"vars": {"query": "pay", "expected": ["refund_order"]}},
        {"vars": {"query": "halt", "expected": "stop_order"}},
    ]
    found = imported(tmp_path / "c.yaml", config | {"tests": tests}, names=names)
    assert labels(found) == {"pay": ["refund_order"], "halt": ["stop_order"]}
    assert found.counts[PASSED_OVER] == 0
    scenario = {"config": [{"vars": {"query": "pay"}}], "tests": [{"vars": {"expected": "refund_order"}}]}
    scenarios = {"prompts": ["{{query}}"], "scenarios": [scenario]}
    assert names or labels(imported(tmp_path / "s.yaml", scenarios)) == {"pay": ["refund_order"]}
    results = {"evalId": "e", "results": {"results": []}, "config": config | {"tests": tests}}
    assert labels(imported(tmp_path / "results.json", results)) == labels(found)


def test_what_assertions_check_is_a_label_only_if_it_names_an_item(tmp_path):
    catalog = Catalog([*TOOLS, Item(type="rule", name="refunds", text="Ask first.")])
    tests = [
        {"vars": {"query": "a"}, "assert": [{"type": "contains", "value": "refunds"}]},  # a word of the answer
        {"vars": {"query": "b"}, "assert": [{"type": "equals", "value": "refunds"}]},
    ]
    assert labels(imported(tmp_path / "t.json", tests, catalog)) == {"a": [], "b": ["refunds"]}
    tests = [
        {"vars": {"query": "a"}, "assert": [{"type": "tool-call-f1", "value": ["refund_ordr"]}]},
        "file://none.csv",
    ]
    with pytest.raises(InputError) as error:
        imported(tmp_path / "t.json", {"prompts": [], "tests": tests})
    assert sorted(fault.message.key for fault in error.value.faults) == [
        "labelling.tests-elsewhere",
        "labelling.unknown-item",
    ]


GOLDEN = {"input": "pay", "expected_output": "Done", "actual_output": None, "context": None, "retrieval_context": None}


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_expected_tools_of_deepeval_are_labels_and_called_ones_are_not(tmp_path, suffix):
    call = {"name": "refund_order", "type": "function", "description": "x", "inputParameters": {"order": 17}}
    tools = [call, {"name": "track_order"}]
    rows = [GOLDEN | {"tools_called": [{"name": "stop_order"}], "expected_tools": tools}, GOLDEN | {"input": "hm"}]
    text = json.dumps(rows)
    if suffix == "csv":
        quoted = json.dumps(tools).replace('"', '""')
        text = f'input,expected_output,tools_called,expected_tools\npay,Done,,"{quoted}"\nhm,,,\n'
    found = imported(tmp_path / f"g.{suffix}", text)
    assert labels(found) == {"pay": ["refund_order", "track_order"], "hm": []}
    assert found.counts[UNSAID] == 1
    assert kind_of(tmp_path / f"g.{suffix}") == "deepeval"


def test_contexts_of_deepeval_are_labels_by_content(tmp_path):
    rows = [GOLDEN | {"context": ["Refunds take  five days.", "Nobody knows"], "retrieval_context": ["Ask first."]}]
    found = imported(tmp_path / "g.json", rows, DOCS)
    assert labels(found) == {"pay": ["d1"]}
    assert [found.counts[NOWHERE], len(found.dataset.unlabelled)] == [1, 1]  # labelled in part
    turns = {"scenario": "S", "expected_outcome": "x", "turns": [{"role": "user", "content": "ship?"}]}
    assert labels(imported(tmp_path / "c.json", [turns | {"context": ["ship on Monday"]}], DOCS)) == {"ship?": ["d2"]}


def test_samples_of_ragas(tmp_path):
    messages = [
        {"type": "human", "content": "pay"},
        {"type": "ai", "content": "", "tool_calls": [{"name": "stop_order"}]},
    ]
    rows = [
        {"user_input": messages, "reference_tool_calls": [{"name": "refund_order", "args": {"order": 17}}]},
        {"user_input": "hm", "reference_tool_calls": []},
    ]
    found = imported(tmp_path / "m.json", rows)
    assert labels(found) == {"pay": ["refund_order"], "hm": []}
    assert found.dataset.unlabelled == ()
    rows = [
        {
            "user_input": "a",
            "retrieved_contexts": ["Ask first."],
            "reference_contexts": ["<1-hop>\n\nRefunds take five days."],
        },
        {"user_input": "b", "reference_contexts": ["days that nobody has"], "reference": "x"},
    ]
    found = imported(tmp_path / "s.json", rows, DOCS)
    assert labels(found) == {"a": ["d1"], "b": []}
    assert [found.counts[NOWHERE], len(found.dataset.unlabelled)] == [1, 1]
    rows = [
        {
            "user_input": "a",
            "reference_context_ids": ["d2"],
            "retrieved_context_ids": ["d1"],
            "reference_contexts": ["x"],
        }
    ]
    assert labels(imported(tmp_path / "i.json", rows, DOCS)) == {"a": ["d2"]}
    assert kind_of(tmp_path / "i.json") == "ragas"


SKILL = "---\nname: {name}\ndescription: Reads {name}\n{more}---\nBody."


def skills(folder, *names, more=""):
    for name in names:
        (folder / name).mkdir(parents=True)
        write(folder / name / "SKILL.md", SKILL.format(name=name, more=more))
    return folder


def triggers(folder, **options):
    return import_evals(data_files([folder]), None, **options)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.json", '[{"id": 1, "query": "read it", "should_trigger": true}]'),
        ("t.jsonl", '{"prompt": "read it", "shouldTrigger": true}\n'),
        ("t.json", '{"skill_name": "pdf", "evals": [{"prompt": "read it", "should_trigger": true}]}'),
        ("t.yaml", "skill: kit:pdf\ntests:\n  - id: yes\n    prompt: read it\n    should_trigger: yes\n"),
        ("t.yaml", "skill: pdf\nshould_trigger_prompts:\n  - prompt: read it\n"),
        ("t.yml", "should_trigger: [read it]\nshould_not_trigger: []\n"),
        ("t.csv", "query,should_trigger\nread it,TRUE\n"),
        ("t.json", '[{"query": "read it", "should_not_trigger": false}]'),
        ("t.json", '[{"query": "read it", "should_activate": true}]'),
    ],
)
def test_trigger_evals_in_every_form(tmp_path, name, text):
    write(skills(tmp_path, "pdf", "xls") / "pdf" / name, text)
    found = triggers(tmp_path)
    assert labels(found) == {"read it": ["pdf"]}
    assert kind_of(tmp_path / "pdf" / name) == "triggers"


def test_negative_lists_are_irrelevant_and_conflicts_are_faults(tmp_path):
    text = "should_trigger_prompts: [read it]\nshould_not_trigger_prompts: [sing]\n"
    write(skills(tmp_path, "pdf", "xls") / "pdf" / "t.yaml", text)
    found = triggers(tmp_path)
    assert labels(found) == {"read it": ["pdf"], "sing": ["-pdf"]}
    assert len(found.ids[TRIGGER_FREE]) == len(found.dataset.unlabelled) == 1
    assert [query.needs_nothing for query in triggers(tmp_path, nothing_else=True).dataset.queries] == [False, True]
    write(tmp_path / "pdf" / "more.json", '[{"query": "sing", "should_trigger": true}]')
    with pytest.raises(InputError, match="skill:pdf is expected and forbidden"):
        triggers(tmp_path)


@pytest.mark.parametrize("name", ["evals/pdf/trigger-eval.json", "evals/pdf.json", "evals/pdf-triggers.json"])
def test_evals_apart_from_the_skills_belong_to_the_skill_of_their_name(tmp_path, name):
    skills(tmp_path / "skills", "pdf", "xls")
    (tmp_path / name).parent.mkdir(parents=True)
    write(tmp_path / name, '[{"query": "read it", "should_trigger": true}]')
    assert labels(triggers(tmp_path)) == {"read it": ["pdf"]}


def test_evals_of_no_skill_or_an_unknown_one_are_faults(tmp_path):
    skills(tmp_path / "skills", "pdf")
    rows = [{"query": "a", "should_trigger": True}, {"query": "b", "should_trigger": True, "skill": "docx"}]
    write(tmp_path / "mine.json", json.dumps(rows))
    with pytest.raises(InputError) as error:
        triggers(tmp_path)
    assert [fault.message.key for fault in error.value.faults] == ["labelling.no-skill", "labelling.unknown-skill"]


def test_a_manual_skill_keeps_its_evals_out_with_a_note(tmp_path):
    skills(tmp_path, "pdf")
    skills(tmp_path, "slides", more="disable-model-invocation: true\n")
    for name in ("pdf", "slides"):
        write(tmp_path / name / "t.json", json.dumps([{"query": f"use {name}", "should_trigger": True}]))
    found = triggers(tmp_path)
    assert labels(found) == {"use pdf": ["pdf"]}
    assert found.ids[BY_HAND] == ["slides: use slides"]


def test_evals_of_what_a_skill_does_are_requests_without_labels(tmp_path):
    write(skills(tmp_path, "pdf") / "pdf" / "t.json", '[{"query": "read it", "should_trigger": true}]')
    rows = [{"id": 1, "prompt": "Merge two files", "expected_output": "One file", "files": []}]
    write(tmp_path / "pdf" / "evals.json", json.dumps({"skill_name": "pdf", "evals": rows}))
    found = triggers(tmp_path)
    assert labels(found) == {"read it": ["pdf"], "Merge two files": []}
    assert found.counts[UNSAID] == len(found.dataset.unlabelled) == 1


def test_evals_of_skills_may_name_the_expected_skill(tmp_path):
    skills(tmp_path, "pdf", "xls")
    write(tmp_path / "evals.json", json.dumps({"name": "x", "cases": [{"prompt": "read it", "expected_skill": "pdf"}]}))
    assert labels(triggers(tmp_path)) == {"read it": ["pdf"]}


@pytest.mark.parametrize(
    "key", ["tests", "cases", "evals", "queries", "scenarios", "examples", "goldens", "samples", "mine"]
)
def test_a_list_beside_other_keys_is_read(tmp_path, key):
    data = {"description": "x", "version": 2, key: [{"query": "pay", "expected": ["refund_order"]}]}
    assert labels(imported(tmp_path / "e.yaml", data)) == {"pay": ["refund_order"]}


def test_lists_by_split_and_records_by_id(tmp_path):
    rows = {text: [{"query": text, "expected": ["refund_order"]}] for text in ("train", "test")}
    found = imported(tmp_path / "e.json", rows)
    assert [(query.id, query.split) for query in found.dataset.queries] == [("e-1", "tuning"), ("e-2", "test")]
    found = imported(tmp_path / "e.json", {"q7": {"query": "pay", "expected": "refund_order"}, "q8": {"query": "x"}})
    assert [query.id for query in found.dataset.queries] == ["q7", "q8"]


@pytest.mark.parametrize(
    "field",
    ["relevant_docs", "expected_skill", "correct_chunks", "ground_truth", "gold_ids", "goldTool", "reference_doc_id"],
)
def test_usual_names_of_labels_are_read_if_their_values_are_items(tmp_path, field):
    rows = [
        {"question": "pay", field: ["refund_order"], "correct_answer": "In 5 days"},
        {"question": "halt", field: "stop_order"},
    ]
    found = imported(tmp_path / "e.json", rows)
    assert labels(found) == {"pay": ["refund_order"], "halt": ["stop_order"]}
    assert set(found.ids[PASSED_OVER]) == {"correct_answer"}


def test_free_text_is_no_label_and_a_partly_unknown_column_is_a_fault(tmp_path):
    rows = [{"question": "a", "ground_truth": "In five days", "relevant_docs": ["d1"]}]
    assert labels(imported(tmp_path / "e.json", rows, DOCS)) == {"a": ["d1"]}
    rows = [{"question": "a", "expected": "In five days", "relevant_docs": ["d1"]}]
    assert labels(imported(tmp_path / "e.json", rows, DOCS)) == {"a": ["d1"]}
    rows = [{"question": name, "gold_ids": [name]} for name in ("d1", "d2", "d9")]
    with pytest.raises(InputError, match="'d9' in 'gold_ids' is not in the catalog"):
        imported(tmp_path / "e.json", rows, DOCS)


def test_labels_may_be_numbers_and_grades_by_name(tmp_path):
    catalog = Catalog(Item(type="reference", name=str(n), text="x") for n in (1, 2))
    rows = [{"query": "a", "relevant_docs": [1]}, {"query": "b", "relevant_docs": {"1": 1, "2": 0}}]
    rows[0]["relevant_docs"] = [{"id": "1", "grade": 1}]
    assert labels(imported(tmp_path / "e.json", rows, catalog)) == {"a": ["1"], "b": ["-2", "1"]}
    assert labels(imported(tmp_path / "f.json", [{"query": "a", "relevant_ids": [2]}], catalog)) == {"a": ["2"]}


@pytest.mark.parametrize(
    ("rows", "option"),
    [
        ([{"ask": "pay", "needs": ["refund_order"]}, {"ask": "go", "needs": "stop_order"}], "query=ask,expected=needs"),
        ([{"q": {"user": "pay me"}, "judged": [{"doc": "Refund-Order"}], "answer": "a long text of words"}],
         "query=q.user,expected=judged.doc"),
        ([{"user": "pay", "should_call": ["refund_order"], "should_not_call": ["stop_order"]}],
         "query=user,expected=should_call,forbidden=should_not_call"),
        ([{"turns_of": [{"user": {"parts": [{"text": "pay"}]}, "uses": [{"name": "refundOrder", "args": {}}]}]}],
         "query=turns_of.user.parts.text,expected=turns_of.uses.name"),
        ([{"utterance": "pay", "tool": "refund_order", "retrieved": ["stop_order"]}], "expected=tool"),
        ([{"query": "pay", "b": "x", "a": "text", "chosen": '["refund_order"]'}], "expected=chosen"),
    ],
)  # fmt: skip
def test_the_mapping_that_works_is_proposed_with_its_command(tmp_path, rows, option):
    with pytest.raises(InputError) as error:
        imported(tmp_path / "e.json", rows)
    (fault,) = error.value.faults
    assert f"Run `ctxbench data import FILE -c CATALOG --out FOLDER --map {option}`" in fault.message
    found = imported(tmp_path / "e.json", rows, names=dict(part.split("=") for part in option.split(",")))
    assert all(names for names in labels(found).values())


def test_a_command_with_blanks_in_a_field_is_quoted(tmp_path):
    with pytest.raises(InputError, match=r"FOLDER --map 'query=The words'`"):
        imported(tmp_path / "e.json", [{"The words": "pay", "expected": ["refund_order"]}])


def test_several_fields_of_items_are_a_choice_and_none_is_taken(tmp_path):
    with pytest.raises(InputError) as error:
        imported(tmp_path / "e.json", [{"query": "pay", "first": "refund_order", "second": "stop_order"}])
    assert error.value.faults[0].message.key == "labelling.map-choice"
    assert "--map expected=FIELD`" in error.value.faults[0].message
    rows = [
        {"query": "pay", "first": "refund_order", "second": "stop_order"},
        {"query": "halt", "second": "stop_order"},
    ]
    assert proposal(tmp_path / "e.json", rows)[0] == {"expected": "second"}  # the one that more records have


def test_definitions_are_offered_and_never_proposed(tmp_path):
    offered = [{"name": item.name, "description": "x", "input_schema": {}} for item in TOOLS]
    row = {"query": "pay", "tools": offered, "function_call_label": [{"name": "refund_order", "input": {}}]}
    with pytest.raises(InputError, match="--map expected=function_call_label"):
        imported(tmp_path / "e.json", [row])
    found = imported(tmp_path / "e.json", [row], names={"expected": "function_call_label"})
    assert (labels(found), found.counts[AVAILABLE]) == ({"pay": ["refund_order"]}, 1)


@pytest.mark.parametrize(
    ("place", "items"),
    [
        ({"path": "docs/refunds.md"}, ["d1"]),
        ({"path": "refunds.md", "lines": [3, 4]}, ["d1"]),
        ({"path": "docs/rules.md", "lines": [3, 9]}, ["c1"]),
        ({"file": "docs\\rules.md", "lines": [25, 25]}, ["c2"]),
        ({"contains": "FIVE  days"}, ["d1"]),
        ({"path_contains": "refund"}, ["d1"]),
        ({"path_contains": "rules", "contains": "pay"}, ["c2"]),
        ({"path": "docs/rules.md"}, SEVERAL_PLACES),
        ({"path": "docs/rules.md", "lines": [15, 25]}, SEVERAL_PLACES),
        ({"path": "docs/rules.md", "lines": [50, 60]}, NOWHERE),
        ({"contains": "nobody has this"}, NOWHERE),
    ],
)
def test_labels_by_content_find_their_item_or_are_listed(tmp_path, place, items):
    rows = [{"query": "a", "expected": ["d2"]}, {"query": "b", "expected": [place]}]
    found = imported(tmp_path / "e.json", rows, DOCS)
    if isinstance(items, list):
        assert labels(found) == {"a": ["d2"], "b": items}
        return
    assert labels(found) == {"a": ["d2"], "b": []}
    assert (found.counts[items], found.dataset.unlabelled) == (1, ("e-2",))
    with pytest.raises(InputError, match="no label could be read"):
        imported(tmp_path / "f.json", rows[1:], DOCS)


def test_a_query_with_a_label_that_was_not_found_is_labelled_in_part(tmp_path):
    rows = [{"query": "a", "expected": [{"contains": "five days"}, {"contains": "nowhere"}]}]
    (query,) = imported(tmp_path / "e.json", rows, DOCS).dataset.queries
    assert query.partly_labelled
    for place in ({"contains": ""}, {"path": "x", "lines": [1]}, {"path": 3}):
        with pytest.raises(InputError, match="expected a name or id, or a place"):
            imported(tmp_path / "e.json", [{"query": "a", "expected": [place]}], DOCS)


def test_ids_that_two_files_share_get_the_name_of_the_file(tmp_path):
    files = [write(tmp_path / name, [{"id": 1, "query": name, "expected": ["d1"]}]) for name in ("a.jsonl", "b.jsonl")]
    assert [query.id for query in import_evals(files, DOCS).dataset.queries] == ["1", "b-1"]


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([{"question": "a", "correct_chunks": ["x"]}], "golden"),
        ([{"query": "a", "expected": []}], "golden"),
        ([{"input": "a", "must_include": ["x"]}], "golden"),
        ([{"_id": "d1", "text": "a", "title": "b"}], None),
        ([{"chunk_link": "d1", "chunk_heading": "a", "text": "b"}], None),
        ([{"qid": "1", "query": "a", "retrieval_gt": [["x"]]}], None),
        ([{"query": "a", "positive": "b", "negative": "c"}], None),
        ([{"query": "q1", "doc_id": "d1", "score": 1}], None),
        ([{"name": "a", "description": "b", "inputSchema": {}}], None),
        ([{"messages": [{"role": "user", "content": "a"}], "tools": []}], None),
        ([{"queries": {"q": "a"}, "corpus": {"d": "b"}, "relevant_docs": {"q": ["d"]}}], None),
        (["plain", 3, None, []], None),
    ],
)
def test_kinds_leave_other_files_alone(rows, kind):
    assert next((found.name for found in KINDS if found.matches(rows)), None) == kind


def proposal(path, rows, catalog=TOOLS):
    """The labels of an import with the mapping that the first message proposes."""
    with pytest.raises(InputError) as error:
        imported(path, rows, catalog)
    option = error.value.faults[0].message.rpartition("--map ")[2].strip("`").strip("'")
    names = dict(part.split("=") for part in option.split(","))
    return names, labels(imported(path, rows, catalog, names=names))


@pytest.mark.parametrize("shuffled", [False, True])
def test_tools_to_choose_from_are_offered_and_the_chosen_one_is_the_label(tmp_path, shuffled):
    names = ["refund_order", "stop_order", "track_order"]
    rows = [
        {"query": "pay", "tools": names, "answer": "refund_order"},
        {"query": "halt", "tools": names[1 if shuffled else 0 :], "answer": "stop_order"},
    ]
    assert proposal(tmp_path / "t.json", rows) == (
        {"expected": "answer"},
        {"pay": ["refund_order"], "halt": ["stop_order"]},
    )


@pytest.mark.parametrize("field", ["choices", "pool"])
def test_choices_with_a_number_are_no_labels(tmp_path, field):
    rows = [
        {"query": text, field: ["refund_order", "stop_order"], "label": n} for n, text in enumerate(("pay", "halt"))
    ]
    with pytest.raises(InputError) as error:
        imported(tmp_path / "c.json", rows)
    assert error.value.faults[0].message.key == "labelling.expected-missing"


def test_a_part_of_a_set_of_assertions_and_code_are_read_with_care(tmp_path):
    choice = {"type": "assert-set", "threshold": 0.5}
    code = "output[0].function.name === 'refund_order'"
    tests = [
        {"vars": {"query": "a"}, "assert": [choice | {"assert": [{"type": "equals", "value": i.name} for i in TOOLS]}]},
        {"vars": {"query": "b"}, "assert": [{"type": "javascript", "value": code}]},
        {"vars": {"query": "c"}, "assert": [{"type": "javascript", "value": f"{code} || other"}]},
        {
            "vars": {"query": "d"},
            "assert": [
                {"type": "trajectory:tool-args-match", "value": {"name": "stop_order", "args": {}}},
                {"type": "llm-rubric", "value": "Never promises to call track_order."},
            ],
        },
        {"vars": {"query": "e"}, "assert": [{"type": "equals", "value": "stop_order"}, {"type": "cost"}]},
    ]
    found = imported(tmp_path / "c.json", {"prompts": ["{{query}}"], "tests": tests})
    assert labels(found) == {"a": [], "b": ["refund_order"], "c": [], "d": ["stop_order"], "e": ["stop_order"]}
    assert [query.partly_labelled for query in found.dataset.queries] == [False, False, False, True, False]


def test_tools_that_were_called_are_neither_labels_nor_offered(tmp_path):
    call = {"name": "stop_order", "type": "FUNCTION", "description": "x", "inputParameters": {}}
    wanted = call | {"name": "refund_order"}
    found = imported(tmp_path / "g.json", [GOLDEN | {"tools_called": [call], "expected_tools": [wanted]}])
    assert (labels(found), found.counts[AVAILABLE]) == ({"pay": ["refund_order"]}, 0)


def test_test_cases_of_a_run_of_deepeval_are_records(tmp_path):
    case = {
        "name": "case_0",
        "input": "pay",
        "toolsCalled": [{"name": "stop_order"}],
        "expectedTools": [{"name": "refund_order"}],
        "metricsData": [{"name": "Tool Correctness", "reason": "missing tools ['refund_order']"}],
    }
    run = {"testRunData": {"testCases": [case], "metricsScores": [{"metric": "Tool Correctness", "scores": [1]}]}}
    assert labels(imported(tmp_path / "run.json", run)) == {"pay": ["refund_order"]}


HUMAN, AI = ({"type": kind, "content": ""} for kind in ("human", "ai"))


@pytest.mark.parametrize(
    ("called", "expected"),
    [
        (["refund_order", "stop_order"], {"pay": ["refund_order"], "halt": ["stop_order"]}),
        (["refund_order", "track_order"], {"halt": ["refund_order", "stop_order"]}),  # not clear which turn needs which
    ],
)
def test_turns_of_ragas_are_requests_with_history(tmp_path, called, expected):
    messages = [
        HUMAN | {"content": "pay"},
        AI | {"tool_calls": [{"name": called[0], "args": {}}], "content": "Paid."},
        HUMAN | {"content": "halt"},
        AI | {"tool_calls": [{"name": called[1], "args": {}}]},
    ]
    row = {"user_input": messages, "reference_tool_calls": [{"name": "refund_order"}, {"name": "stop_order"}]}
    found = imported(tmp_path / "m.json", [row])
    assert labels(found) == expected
    assert [message.content for message in found.dataset.queries[-1].request.history] == ["pay", "Paid."]


def test_fields_of_places_hold_the_labels(tmp_path):
    rows = [
        {"question": "how long?", "evidence": [{"path": "docs/refunds.md", "lines": [1, 3]}]},
        {"question": "and then?", "evidence": [{"contains": "Then pay"}]},
    ]
    expected = {"how long?": ["d1"], "and then?": ["c2"]}
    assert labels(imported(tmp_path / "e.json", rows, DOCS)) == expected
    renamed = [{"question": row["question"], "found_in": row["evidence"]} for row in rows]
    assert proposal(tmp_path / "e.json", renamed, DOCS) == ({"expected": "found_in"}, expected)


def test_records_in_several_nested_lists_and_forbidden_fields_in_other_languages(tmp_path):
    drill = {
        "no": 1,
        "says": "pay me back",
        "moves": {"needed": "refund_order", "fine": [], "verboten": ["stop_order"]},
    }
    second = {"no": 2, "says": "halt it", "moves": {"needed": ["stop_order"]}}
    rows = {"about": {"by": "us"}, "areas": {"a": {"drills": [drill]}, "b": {"drills": [second]}}}
    names, found = proposal(tmp_path / "d.yaml", rows)
    assert names == {"query": "says", "expected": "moves.needed", "forbidden": "moves.verboten"}
    assert found == {"pay me back": ["-stop_order", "refund_order"], "halt it": ["stop_order"]}


def test_names_by_request_and_columns_by_item(tmp_path):
    found = imported(tmp_path / "m.json", {"pay me back": ["refund_order"], "halt it": []})
    assert labels(found) == {"pay me back": ["refund_order"], "halt it": []}
    table = "no,query,refund_order,stop_order\n1,pay,x,\n2,both,x,X\n3,hm,,\n"
    found = imported(tmp_path / "m.csv", table)
    assert labels(found) == {"pay": ["refund_order"], "both": ["refund_order", "stop_order"], "hm": []}
    assert len(found.dataset.unlabelled) == 3  # track_order has no column


def test_a_log_is_refused_with_the_kind_that_reads_it(tmp_path):
    line = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "pay"}}
    with pytest.raises(InputError, match="--as claude-code"):
        imported(tmp_path / "s.jsonl", [line], kind="golden")
    chat = [HUMAN | {"content": "pay"}, AI | {"tool_calls": [{"name": "refund_order", "args": {}, "id": "c"}]}]
    state = {"values": {"messages": chat}, "next": []}
    with pytest.raises(InputError):
        imported(tmp_path / "s.json", state)
    found = imported(tmp_path / "s.json", state, names={"query": "values.messages"})
    assert labels(found) == {"pay": []}  # what was called is no label


def test_lists_in_lists_and_lists_of_requests_are_records(tmp_path):
    suites = [
        {"name": text, "scenarios": [{"utterance": f"{text} it", "must_use": [name]}]}
        for text, name in (("pay", "refund_order"), ("halt", "stop_order"))
    ]
    expected = {"pay it": ["refund_order"], "halt it": ["stop_order"]}
    assert labels(imported(tmp_path / "s.json", {"suites": suites})) == expected
    rows = [
        {"id": 1, "prompts": ["pay", "pay me"], "intent": "refund_order"},
        {"prompts": ["halt"], "intent": "stop_order"},
    ]
    names, found = proposal(tmp_path / "i.json", rows)
    assert names == {"query": "prompts", "expected": "intent"}
    assert found == {"pay": ["refund_order"], "pay me": ["refund_order"], "halt": ["stop_order"]}


def test_messages_with_labels_are_evals_and_what_was_called_is_no_label(tmp_path):
    call = AI | {
        "role": "assistant",
        "tool_calls": [{"id": "c", "function": {"name": "stop_order", "arguments": "{}"}}],
    }
    rows = [{"messages": [{"role": "user", "content": "pay"}, call], "expected_tools": ["refund_order"]}]
    assert kind_of(write(tmp_path / "m.jsonl", rows)) == "golden"
    assert recognise(rows).name == "golden"
    assert labels(imported(tmp_path / "m.jsonl", rows)) == {"pay": ["refund_order"]}


def test_records_by_id_under_a_usual_name(tmp_path):
    cases = {
        "where": {"ask": "find it now", "wants": ["track_order"]},
        "pay": {"ask": "pay me", "wants": ["refund_order"]},
    }
    names, found = proposal(tmp_path / "c.yaml", {"defaults": {"by": "us"}, "cases": cases})
    assert names == {"query": "ask", "expected": "wants"}
    assert found == {"find it now": ["track_order"], "pay me": ["refund_order"]}


def test_a_mapped_field_that_a_record_lacks_is_not_replaced_by_another(tmp_path):
    rows = [{"q": "pay", "mine": "refund_order", "gold_tool": "stop_order"}, {"q": "halt", "gold_tool": "stop_order"}]
    found = imported(tmp_path / "m.json", rows, names={"query": "q", "expected": "mine"})
    assert labels(found) == {"pay": ["refund_order"], "halt": []}


@pytest.mark.parametrize(
    "row",
    [
        {"text": "pay", "target_tool": "stop_order", "gold_tool": "refund_order"},
        {"text": "pay", "label": "refund_order", "target": "stop_order"},
        {"inputs": {"question": "pay"}, "outputs": {"expected": "refund_order"}, "reference_tool": "stop_order"},
    ],
)
def test_fields_of_labels_that_disagree_are_a_choice(tmp_path, row):
    with pytest.raises(InputError) as error:
        imported(tmp_path / "e.json", [row])
    assert [fault.message.key for fault in error.value.faults] == ["labelling.map-choice"]


def test_fields_of_labels_that_agree_or_take_turns_are_read(tmp_path):
    rows = [
        {"text": "pay", "target_tool": "refund_order", "gold_tool": "refund_order"},
        {"text": "halt", "target_tool": "", "gold_tool": "stop_order"},
        {"text": "later", "target_tool": "", "gold_tool": ""},
    ]
    assert labels(imported(tmp_path / "e.json", rows)) == {"pay": ["refund_order"], "halt": ["stop_order"], "later": []}


@pytest.mark.parametrize("field", ["router", "top_tool", "first_guess", "picked", "model", "selected_tool"])
def test_what_a_program_chose_is_never_proposed_as_the_label(tmp_path, field):
    rows = [{"utterance": f"order {verb.name}", field: verb.name, "score": 0.3} for verb in TOOLS]
    with pytest.raises(InputError) as error:
        imported(tmp_path / "e.json", rows)
    assert error.value.faults[0].message.key == "labelling.expected-missing"
    named = [{**row, "expected_top": "refund_order"} for row in rows]
    with pytest.raises(InputError, match="--map expected=expected_top`"):
        imported(tmp_path / "e.json", named)


@pytest.mark.parametrize("lines", [[5, 3], [0, 1], [-2, 1]])
def test_lines_that_no_file_can_have_are_a_fault(tmp_path, lines):
    with pytest.raises(InputError, match="expected a name or id, or a place"):
        imported(tmp_path / "e.json", [{"query": "a", "expected": [{"path": "docs/refunds.md", "lines": lines}]}], DOCS)


@pytest.mark.parametrize(("lines", "is_in_file"), [([3, 9], True), ([30, 31], False), ([4, 400], False)])
def test_lines_after_the_end_of_a_whole_file_have_no_item(tmp_path, lines, is_in_file):
    text = "\n".join(["# Refunds", *(f"line {number}" for number in range(2, 10))])
    file = Item(type="reference", name="docs/r.md", description="Refunds", text=text, metadata={"sha256": "0" * 64})
    rows = [{"query": "a", "expected": ["docs/r.md"]}, {"query": "b", "expected": [{"path": "r.md", "lines": lines}]}]
    found = imported(tmp_path / "e.json", rows, Catalog([file]))
    assert (found.counts[NOWHERE], labels(found)["b"]) == ((0, ["docs%2Fr.md"]) if is_in_file else (1, []))


def test_a_place_that_several_items_have_is_listed_with_them(tmp_path):
    rows = [{"query": "a", "expected": ["d2"]}, {"query": "b", "expected": [{"path": "docs/rules.md"}]}]
    (place,) = imported(tmp_path / "e.json", rows, DOCS).ids[SEVERAL_PLACES]
    assert "chunk:c1" in place
    assert "chunk:c2" in place


def test_code_that_names_an_item_is_listed_and_a_description_is_no_ignored_field(tmp_path):
    code = {"type": "javascript", "value": "JSON.parse(output).some(call => call === 'refund_order')"}
    tests = [
        {"vars": {"query": "a"}, "description": "again", "assert": [code]},
        {"vars": {"query": "b"}, "description": "again", "assert": [{"type": "equals", "value": "stop_order"}]},
    ]
    found = imported(tmp_path / "c.json", {"prompts": ["{{query}}"], "tests": tests})
    assert len(found.ids[IN_CODE]) == 1
    assert "title" not in found.ids[PASSED_OVER]
    assert labels(found) == {"a": [], "b": ["stop_order"]}


@pytest.mark.parametrize("label", ["expected", "expected_tools", "goldTool"])
def test_messages_with_labels_are_an_eval_whatever_the_model_called(tmp_path, label):
    call = {"id": "1", "type": "function", "function": {"name": "track_order", "arguments": "{}"}}
    tools = [{"type": "function", "function": {"name": item.name, "parameters": {}}} for item in TOOLS]
    messages = [{"role": "user", "content": "pay"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    path = write(tmp_path / "e.jsonl", json.dumps({"messages": messages, "tools": tools, label: ["refund_order"]}))
    assert recognise([document.value for document in sample(path)]).name == "golden"
    assert labels(imported(path, path.read_text())) == {"pay": ["refund_order"]}
