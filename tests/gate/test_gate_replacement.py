"""A baseline that was accepted anew is named with old and new figures, wherever it was and whatever git knows."""

from __future__ import annotations

import json
import shutil

import pytest

from ctxbench.gate.baseline_rows import MANIFEST, dataset_file, file_hash, manifest_hash
from ctxbench.gate.gate import accept, check_gate
from ctxbench.report.check_document import document
from tests.checkout import Checkout
from tests.gate.gate_desk import Desk

LOST = [f"tool:desk:t{n:02}" for n in range(5)]


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A repository whose main branch holds a gate with its baseline."""
    desk = Desk.make(tmp_path_factory.mktemp("replacement"))
    Checkout(desk.folder).commit("Add the gate")
    return desk


@pytest.fixture
def desk(accepted, tmp_path):
    """Its copy, on a branch."""
    desk = accepted.copy(tmp_path / "desk")
    git(desk, "checkout", "-q", "-b", "change")
    return desk


def git(desk, *words):
    return Checkout(desk.folder).run(*words)


def worsened(desk):
    """Make selection worse, and accept that."""
    desk.items(LOST, description="Nothing.")
    return accept(desk.gate)


def completeness(desk):
    """What the check says of the completeness before and now; None where it names no replacement. It passes."""
    check = check_gate(desk.gate).check
    assert check.exit_code() == 0
    if check.replacement is None:
        return None
    (found,) = [one for one in check.replacement.figures if one.metric == "completeness"]
    first_line = document(check).about
    assert "completeness 100.0% -> 50.0%" in first_line
    return found.before, found.after


def test_nothing_is_named_where_nothing_was_accepted(desk):
    assert completeness(desk) is None
    desk.rows("queries.jsonl", lambda row: [row | {"tags": ["even"]}])
    assert accept(desk.gate).written
    git(desk, "checkout", "-q", "--", ".")
    assert not accept(desk.gate).written


def test_it_is_named_in_the_change_and_no_longer_once_it_is_merged(desk):
    worsened(desk)
    assert completeness(desk) == (1.0, 0.5)  # not committed
    Checkout(desk.folder).commit("Accept")
    assert completeness(desk) == (1.0, 0.5)
    desk.rows("corpus.jsonl", lambda row: [row, {**row, "_id": "tool:desk:new"}] if row["_id"] == LOST[0] else [row])
    accept(desk.gate)
    Checkout(desk.folder).commit("Accept once more")
    assert completeness(desk) == (1.0, 0.5)  # still what the branch began with
    git(desk, "checkout", "-q", "main")
    assert completeness(desk) is None
    git(desk, "merge", "-q", "--no-ff", "change")
    assert completeness(desk) == (1.0, 0.5)  # the commit that brings it
    Checkout(desk.folder).commit("Something else")
    assert completeness(desk) is None
    assert not accept(desk.gate).written


@pytest.mark.parametrize("depth", [1, 2])
def test_it_is_named_in_a_shallow_clone(desk, tmp_path, depth):
    worsened(desk)
    Checkout(desk.folder).commit("Accept")
    git(desk, "clone", "-q", f"--depth={depth}", f"file://{desk.folder}", str(tmp_path / "clone"))
    clone = Desk(tmp_path / "clone")
    git(clone, "checkout", "-q", "--detach")
    git(clone, "branch", "-q", "-D", "change")
    git(clone, "remote", "remove", "origin")
    assert completeness(clone) == (1.0, 0.5)


def test_it_is_named_without_git(accepted, tmp_path):
    desk = accepted.copy(tmp_path / "desk")
    shutil.rmtree(desk.folder / ".git")
    assert completeness(desk) is None
    worsened(desk)
    assert completeness(desk) == (1.0, 0.5)
    assert not accept(desk.gate).written


def test_it_is_named_where_the_old_one_was_deleted_first(desk):
    shutil.rmtree(desk.baseline)
    worsened(desk)
    assert completeness(desk) == (1.0, 0.5)


def test_it_is_named_where_the_gate_file_names_another_folder(desk):
    desk.file(lambda file: file.update(baseline="other"))
    worsened(desk)
    assert completeness(desk) == (1.0, 0.5)
    Checkout(desk.folder).commit("Accept in another folder")
    assert completeness(desk) == (1.0, 0.5)
    Checkout(desk.folder).commit("Something else")  # now the last two commits have it, and the main branch has not
    assert completeness(desk) == (1.0, 0.5)


def test_it_is_named_where_it_was_edited_with_its_digests(desk):
    desk.items(LOST, description="Nothing.")
    other = desk.copy(desk.folder / "other")
    accept(other.gate)
    head = json.loads((desk.baseline / MANIFEST).read_text("utf-8"))
    new = json.loads((other.baseline / MANIFEST).read_text("utf-8"))
    for name in ("items.jsonl", "queries.jsonl", "ours.jsonl"):
        shutil.copy(other.baseline / "data" / name, desk.baseline / "data" / name)
    assert desk.code() == 2
    head["datasets"] = new["datasets"]
    assert new["datasets"]["data"]["files"]["items"] == file_hash(
        (desk.baseline / dataset_file("data", "items.jsonl")).read_bytes()
    )
    head["hash"] = manifest_hash(head)
    (desk.baseline / MANIFEST).write_text(json.dumps(head), "utf-8")
    shutil.rmtree(other.folder)
    assert completeness(desk) == (1.0, 0.5)


def test_settings_that_were_loosened_by_accepting_are_named(desk):
    desk.set(max_lost_required=100, tolerance={"tokens": "50%"}, pins=None)
    assert desk.code() == 2
    accept(desk.gate)
    check = check_gate(desk.gate).check
    assert (check.exit_code(), check.loosened) == (0, ())
    assert {one.setting for one in check.replacement.loosened} >= {"max_lost_required", "tolerance of tokens", "pins"}
    assert check.replacement.figures == ()
