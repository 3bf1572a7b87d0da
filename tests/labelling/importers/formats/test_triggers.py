"""Folders of skills with trigger evals, as datasets."""

from __future__ import annotations

import json

import pytest

from ctxbench.datasets.files import create_dataset, read_dataset
from ctxbench.io.errors import InputError
from ctxbench.labelling.conversion import PASSED_OVER
from ctxbench.labelling.eval_forms import is_trigger_eval
from ctxbench.labelling.evals import TRIGGER_FREE, UNTRIED
from tests.labelling.importers.formats.golden_cases import import_triggers

SKILLS = {"pdf": "Read and merge PDFs", "slides": "Make slides", "mail": "Write mails"}
PDF = [
    {"query": "Merge these two PDFs", "should_trigger": True},
    {"query": "Turn this PDF into slides", "should_trigger": True, "id": "both", "split": "test"},
    {"query": "What is the weather?", "should_trigger": False},
]
SLIDES = [
    {"query": "Turn this PDF into slides ", "should_trigger": True},
    {"query": "Merge these two PDFs", "should_trigger": False},
]


@pytest.fixture
def folder(tmp_path):
    for name, description in SKILLS.items():
        here = tmp_path / "skills" / name / "evals"
        here.mkdir(parents=True)
        (here.parent / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\nA long body.")
    put(tmp_path / "skills/pdf/evals/trigger_eval.json", PDF)
    put(tmp_path / "skills/slides/trigger-evals.json", SLIDES)
    return tmp_path / "skills"


def put(path, entries):
    path.write_text(json.dumps(entries))


def faults_of(folder):
    with pytest.raises(InputError) as error:
        import_triggers(folder)
    return [(fault.path.name if fault.path.is_file() else "", fault.message) for fault in error.value.faults]


def test_one_text_is_one_query_with_the_labels_of_all_skills(folder, tmp_path):
    converted = import_triggers(folder)
    create_dataset(converted.dataset, tmp_path / "made")
    dataset = read_dataset(tmp_path / "made")
    assert [item.id for item in dataset.catalog] == ["skill:mail", "skill:pdf", "skill:slides"]
    assert [item.prompt_text for item in dataset.catalog][1] == "pdf: Read and merge PDFs"
    labels = {(label.query, label.item.name): label.grade for label in dataset.labels}
    assert labels == {
        ("pdf-1", "pdf"): 2,
        ("pdf-1", "slides"): 0,
        ("both", "pdf"): 2,
        ("both", "slides"): 2,
        ("pdf-3", "pdf"): 0,
    }
    assert {query.id: query.split for query in dataset.queries}["both"] == "test"


def test_skills_without_trigger_evals_are_listed(folder):
    assert import_triggers(folder).ids[UNTRIED] == ["skill:mail"]


def test_what_triggers_none_of_some_skills_is_unlabelled_unless_that_is_said(folder):
    converted = import_triggers(folder)
    assert converted.dataset.unlabelled == ("pdf-3",)
    assert converted.ids[TRIGGER_FREE] == ["pdf-3"]
    converted = import_triggers(folder, nothing_else=True)
    assert converted.dataset.unlabelled == ()
    assert [query.id for query in converted.dataset.queries if query.needs_nothing] == ["pdf-3"]


def test_a_single_skill_that_is_not_needed_leaves_nothing_to_need(tmp_path):
    (tmp_path / "SKILL.md").write_text("---\nname: pdf\n---\nBody.")
    put(tmp_path / "trigger_eval.json", PDF)
    (idle,) = [query for query in import_triggers(tmp_path).dataset.queries if query.needs_nothing]
    assert idle.request.text == "What is the weather?"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("x", "entry 4 has {'query': 'x'"),
        ({"should_trigger": True}, "entry 4 has {'should_trigger': True}; expected"),
        ({"query": " ", "should_trigger": True}, "entry 4 has {'query': ' '"),
        ({"query": "a"}, "entry 4 has {'query': 'a'}; expected"),
        ({"query": "a", "should_trigger": 1}, "entry 4 has {'query': 'a', 'should_trigger': 1}"),
        ({"query": "a", "should_trigger": True, "id": ["x"]}, "field 'id' must be a text or a whole number"),
        ({"query": "a", "should_trigger": True, "split": "a b"}, "field 'split' is 'a b';"),
    ],
)
def test_an_entry_that_cannot_be_read_is_a_fault_with_its_line_beside_others(folder, entry, message):
    entries = [*PDF, entry, {"query": "What is the weather?", "should_trigger": True}]
    (folder / "pdf/evals/trigger_eval.json").write_text("[" + ",\n".join(map(json.dumps, entries)) + "]")
    with pytest.raises(InputError) as error:
        import_triggers(folder)
    conflict, fault = sorted(error.value.faults, key=lambda fault: fault.line)
    assert (conflict.line, fault.line) == (3, 4)
    assert conflict.message.startswith("skill:pdf is expected and forbidden")
    assert fault.message.startswith(message)


def test_fields_that_say_nothing_of_triggers_are_counted(folder):
    put(folder / "pdf/evals/trigger_eval.json", [{**PDF[0], "expected_output": "One file", "files": []}])
    assert import_triggers(folder).ids[PASSED_OVER] == ["expected_output", "files"]


def test_a_misspelt_field_is_a_fault_with_the_lines_of_the_entries(folder):
    entries = [{"query": name, "should_triger": True} for name in "abc"]
    (folder / "pdf/evals/trigger_eval.json").write_text("[\n" + ",\n".join(map(json.dumps, entries)) + "\n]")
    with pytest.raises(InputError) as caught:
        import_triggers(folder)
    assert [fault.line for fault in caught.value.faults] == [2, 3, 4]
    assert 'expected {"query": text, "should_trigger": true or false}' in caught.value.faults[0].message


def test_ids_are_told_apart_however_many_files_a_skill_has(folder):
    for n, text in enumerate("abc"):
        put(folder / f"pdf/evals/trigger_eval_{n}.json", [{"query": text, "should_trigger": True, "id": " "}])
    put(folder / "mail/trigger_eval.json", [{"query": "d", "should_trigger": True, "id": "pdf-1"}])
    ids = [query.id for query in import_triggers(folder).dataset.queries]
    assert sorted(ids) == ["both", "pdf-1", "pdf-1-2", "pdf-1-3", "pdf-1-4", "pdf-1-5", "pdf-3"]


def test_one_text_in_two_splits_is_refused(folder):
    put(folder / "slides/trigger-evals.json", [{**SLIDES[0], "split": "tuning"}])
    ((name, message),) = faults_of(folder)
    assert name == "trigger-evals.json"
    assert message.values == {"line": 1, "split": "tuning", "first": "test"}


def test_evals_without_a_skill_are_faults(folder):
    put(folder / "trigger_eval.json", PDF[:1])
    ((name, message),) = faults_of(folder)
    assert (name, message.key) == ("trigger_eval.json", "labelling.no-skill")


def test_a_folder_without_files_or_skills(folder, tmp_path):
    for path in folder.rglob("*.json"):
        path.unlink()
    assert "the file is empty" in faults_of(folder)[0][1]
    for path in folder.rglob("SKILL.md"):
        path.unlink()
    put(folder / "trigger_eval.json", PDF)
    assert "no items: neither a catalog nor a SKILL.md" in faults_of(folder)[0][1]


def test_what_was_triggered_is_no_label(folder):
    entry = {"query": "Merge these two PDFs", "triggered": False, "should_trigger": True}
    put(folder / "pdf/evals/trigger_eval.json", [entry])
    put(folder / "slides/trigger-evals.json", SLIDES)
    converted = import_triggers(folder)
    assert ("pdf", 2) in {(label.item.name, label.grade) for label in converted.dataset.labels}
    assert converted.ids[PASSED_OVER] == ["triggered"]
    assert not is_trigger_eval([{"query": "Merge", "triggered": True}])
