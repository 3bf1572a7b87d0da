"""The files of a folder are recognised each, and what is of no kind is left out and listed."""

from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import InputError
from ctxbench.labelling.conversion import ImportSettings
from ctxbench.labelling.import_files import ImportOptions, import_files, plan_import
from ctxbench.model.items import Catalog, Item

CATALOG = Catalog([Item(type="tool", server=None, name="refund_order")])


@pytest.fixture
def folder(tmp_path):
    """A folder with evals and with settings of another program."""
    (tmp_path / "evals.json").write_text(json.dumps([{"query": "money back", "expected": ["refund_order"]}]))
    (tmp_path / "package.json").write_text(json.dumps({"name": "evals", "dependencies": {}}))
    return tmp_path


def test_settings_beside_evals_are_left_out_and_listed(folder):
    imported = import_files([folder], CATALOG)
    assert imported.plan.skipped == [folder / "package.json"]
    assert [label.item.id for label in imported.dataset.labels] == ["tool:refund_order"]


def test_a_file_that_is_named_is_never_left_out(folder):
    files = [folder / "evals.json", folder / "package.json"]
    assert {kind.name for kind in plan_import(files, has_catalog=True).kinds.values()} == {"golden"}
    with pytest.raises(InputError):
        import_files(files, CATALOG)


def test_files_with_unknown_fields_alone_are_evals(folder):
    (folder / "evals.json").unlink()
    assert [*plan_import([folder], has_catalog=True).kinds] == [folder / "package.json"]


def test_labels_in_objects_with_ids_are_found(tmp_path):
    path = tmp_path / "evals.jsonl"
    path.write_text(json.dumps({"question": "money back, please", "gold": {"id": "refund_order"}}))
    assert [label.item.id for label in import_files([path], CATALOG).dataset.labels] == ["tool:refund_order"]


def test_a_mapped_request_makes_a_file_of_unknown_fields_evals(tmp_path):
    tools, path = tmp_path / "tools.json", tmp_path / "odd.csv"
    tools.write_text(json.dumps([{"name": name, "description": name} for name in ("refund_order", "stop_order")]))
    path.write_text("ask,pick\nmoney back,refund_order\nhalt,stop_order\n")
    options = ImportOptions(names={"query": "ask", "expected": "pick"})
    dataset = import_files([path, tools], options=options).dataset
    assert [label.item.name for label in dataset.labels] == ["refund_order", "stop_order"]


MEMORY = {"id": "tea", "content": "She drinks tea.", "type": "preference", "confidence": 0.9, "user_id": "ann"}


def imported_memory(tmp_path, item_type="memory", **fields):
    path = tmp_path / "memories.jsonl"
    path.write_text(json.dumps({**MEMORY, "created_at": "2026-03-01", "conversation_id": "c1", **fields}))
    options = ImportOptions(settings=ImportSettings(type=item_type))
    (part,) = import_files([path], options=options).parts
    return part.items[0]


def test_memories_keep_what_they_say_of_themselves(tmp_path):
    memory = imported_memory(tmp_path)
    assert (memory.id, memory.text) == ("memory:tea", "She drinks tea.")
    assert (memory.kind, memory.created, memory.confidence) == ("preference", "2026-03-01", 0.9)
    assert (memory.conversation, memory.user, memory.metadata) == ("c1", None, {"user_id": "ann"})


def test_facts_of_other_types_or_items_stay_in_the_metadata(tmp_path):
    memory = imported_memory(tmp_path, created_at=1772323200, confidence="high")
    assert (memory.created, memory.confidence) == (None, None)
    assert memory.metadata == {"created_at": 1772323200, "confidence": "high", "user_id": "ann"}
    reference = imported_memory(tmp_path, "reference")
    assert (reference.kind, reference.metadata["type"]) == (None, "preference")


@pytest.mark.parametrize("fields", [{"created_at": "last spring"}, {"confidence": 2.0}])
def test_a_memory_with_a_wrong_time_or_confidence_is_a_fault_with_its_line(tmp_path, fields):
    with pytest.raises(InputError) as caught:
        imported_memory(tmp_path, **fields)
    assert [fault.line for fault in caught.value.faults] == [1]
