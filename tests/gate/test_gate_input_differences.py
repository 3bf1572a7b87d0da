"""What differs between two snapshots, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.gate.cause_finder import setting_cause
from ctxbench.gate.inputs import edit_text, input_differences
from ctxbench.gate.results import CauseKind
from ctxbench.gate.snapshots import ItemFact
from tests.gate.gate_cases import identity, item, snapshot

ONE, TWO = "1" * 64, "2" * 64
SEL = {"protocol": 1, "callable": "sel.py:f", "sha256": ONE, "modules": {"helper": ONE}, "send": "items"}
COMMAND = {"command": ["python", "x.py"], "files": {"x.py": ONE}, "timeout": 60}
ANSWERS = {"answers": "a.jsonl", "sha256": ONE}
LONG = ["python", "x.py", "--weights", "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1.0", "--top", "3"]


def told(before, after):
    """How two descriptions of a selector outside differ, in words."""
    sides = [snapshot({"q": []}, identity=identity(selector=one, values={}, external=True)) for one in (before, after)]
    return str(input_differences(*sides, {}))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (SEL, SEL, "nothing"),
        (SEL, {**SEL, "sha256": TWO}, "sel.py was edited"),
        (SEL, {**SEL, "modules": {"helper": TWO}}, "module helper was edited"),
        (SEL, {**SEL, "modules": {}}, "module helper is no longer used"),
        ({**SEL, "modules": {}}, SEL, "module helper is new"),
        (SEL, {**SEL, "callable": "sel.py:g"}, "callable: sel.py:f -> sel.py:g"),
        (SEL, {**SEL, "callable": "sel.py:g", "sha256": TWO}, "sel.py was edited, callable: sel.py:f -> sel.py:g"),
        (SEL, {**SEL, "callable": "b.py:f", "sha256": TWO, "modules": {}}, "callable: sel.py:f -> b.py:f"),
        (SEL, {**SEL, "send": "ids"}, "send items -> ids"),
        (ANSWERS, {**ANSWERS, "sha256": TWO}, "a.jsonl was edited"),
        (ANSWERS, {"answers": "b.jsonl", "sha256": TWO}, "answers: a.jsonl -> b.jsonl"),
        (COMMAND, {**COMMAND, "files": {"x.py": TWO}}, "x.py was edited"),
        (COMMAND, {**COMMAND, "files": {}}, "x.py is gone"),
        (
            COMMAND,
            {**COMMAND, "command": ["python", "y.py"], "files": {"y.py": TWO}},
            "command: python x.py -> python y.py",
        ),
        (COMMAND, {**COMMAND, "timeout": 30}, "timeout 60 -> 30"),
        (
            {"command": ["python", "x.py"], "files": {"python": ONE, "x.py": ONE}},
            {"command": ["python", "x.py"], "files": {"python": TWO, "x.py": ONE}},
            "python is another program",
        ),
        ({"command": LONG}, {"command": [*LONG[:-1], "4"]}, "command: ...3 -> ...4"),
        (SEL, COMMAND, "callable sel.py:f -> command python x.py"),
        ({"pipeline": {}}, SEL, "a pipeline of ctxbench -> callable sel.py:f"),
        (
            {"url": "http://x/", "build": ONE[:40]},
            {"url": "http://x/", "build": TWO[:40]},
            "build 11111111 -> 22222222",
        ),
        (
            {"ranking": {"identities": {}}, "as many as": SEL},
            {"ranking": {"identities": {}}, "as many as": {**SEL, "sha256": TWO}},
            "sel.py was edited",
        ),
        (
            {"callable": "sel:<lambda>", "unnamed": "1: x"},
            {"callable": "sel:<lambda>", "unnamed": "2: x"},
            "changes of callable sel:<lambda> cannot be detected: name a function as module:function",
        ),
    ],
)
def test_of_a_selector_outside_it_is_said_which_file_was_edited(before, after, words):
    assert told(before, after) == words


MANY = {
    "command": ["python", "x.py"],
    "files": dict.fromkeys(["x.py", "lib.py", "a.py", "b.py", "c.py", "d.py"], ONE),
    "direct_files": ["lib.py", "x.py"],
}


@pytest.mark.parametrize(
    ("edited", "words"),
    [
        (["lib.py"], "lib.py was edited"),
        (["a.py"], "1 other file in the selector's folder changed (a.py)"),
        (
            ["lib.py", "a.py", "b.py", "c.py", "d.py"],
            "lib.py was edited, 4 other files in the selector's folder changed (a.py, b.py, c.py, ...)",
        ),
    ],
)
def test_files_beside_a_command_s_own_are_counted(edited, words):
    after = {**MANY, "files": {**MANY["files"], **dict.fromkeys(edited, TWO)}}
    sides = [snapshot({"q": []}, identity=identity(selector=one, values={}, external=True)) for one in (MANY, after)]
    found = input_differences(*sides, {})
    assert str(found) == words
    cause = setting_cause(found.external, CauseKind.EXTERNAL)
    assert cause.subjects == (edited[0],)  # where it is placed


@pytest.mark.parametrize(
    ("edited", "words"),
    [([], "source: names other files now"), (["lib.py"], "source: names other files now, lib.py was edited")],
)
def test_files_that_are_followed_no_longer_or_for_the_first_time_were_not_edited(edited, words):
    held = dict.fromkeys(["x.py", "lib.py", "new.py"], ONE) | dict.fromkeys(edited, TWO)
    after = {**MANY, "files": held, "direct_files": [*held], "source": ["lib.py", "new.py"]}
    for one, other in ((MANY, after), (after, MANY)):
        assert told(one, other) == words
    assert told({**MANY, "source": ["."]}, MANY) == "nothing"  # the same files, said otherwise
    (setting, *_) = input_differences(
        *(snapshot({"q": []}, identity=identity(selector=one, values={}, external=True)) for one in (MANY, after)), {}
    ).external
    assert (setting.path, setting.files, setting.adjacent) == ("source", (), True)


def test_a_file_of_answers_keeps_its_path_and_a_callable_has_one_of_its_own():
    for before, path in ((ANSWERS, "sha256"), (SEL, "callable.sha256")):
        sides = [
            snapshot({"q": []}, identity=identity(selector=one, values={}, external=True))
            for one in (before, {**before, "sha256": TWO})
        ]
        (setting,) = input_differences(*sides, {}).external
        assert (setting.path, setting.name) == (path, setting.words.partition(" ")[0])


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        ({"glossary": "one"}, {"glossary": "one"}, "nothing"),
        ({"glossary": "one"}, {"glossary": "two"}, "glossary one -> two"),
        ({"glossary": "one"}, {}, "nothing"),  # the step that used it is told
        ({"embedder": "one"}, {"embedder": "two"}, "nothing"),  # said of the model, by its own field
    ],
)
def test_a_resource_of_a_plugin_that_is_another_is_told(was, now, words):
    pipeline = {"analyse": {"step": "analyse:whole"}, "retrieve": {"step": "retrieve:mine"}, "refine": []}
    sides = [
        snapshot({"q": []}, identity=identity(selector={"pipeline": pipeline, "identities": one}, values={}))
        for one in (was, now)
    ]
    assert str(input_differences(*sides, {})) == words


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        ({"owner": "a"}, {"owner": "b"}, "metadata (owner) edited"),
        ({}, {"owner": "b", "sha256": TWO}, "metadata (owner) edited"),  # the hash says nothing beside it
        ({"sha256": ONE}, {"sha256": TWO}, "metadata (sha256) edited"),
        ({}, dict.fromkeys("abcde", 1), "metadata (a, b, c and 2 more) edited"),
    ],
)
def test_of_edited_metadata_the_keys_are_named(was, now, words):
    sides = [ItemFact.of(item("a", "The same.", metadata=one), 10, ()) for one in (was, now)]
    assert edit_text(*sides) == words


def test_edited_metadata_stands_among_other_fields():
    sides = [ItemFact.of(item("a", text, metadata={"owner": text}), 10, ()) for text in ("One.", "Two.")]
    assert edit_text(*sides) == "description and metadata (owner) edited"


def test_of_a_file_that_a_step_reads_no_hash_is_told():
    retrieve = {"step": "retrieve:dense"}
    probability = {"step": "rank:probability", "version": 1, "calibration": "fit.json"}
    pipelines = [{"retrieve": retrieve, "refine": [{**probability, "content": one}]} for one in (ONE, TWO)]
    sides = [snapshot({"q": []}, identity=identity(selector={"pipeline": one}, values={})) for one in pipelines]
    found = input_differences(*sides, {})
    assert str(found) == "the file that refine.probability reads changed"
    assert [one.name for one in found.settings] == ["refine.probability"]  # which stands in what is said


@pytest.mark.parametrize(
    ("versions", "told"),
    [
        ({"ctxbench": "0.1.0", "code": "0123456789abcdef"}, "code of ctxbench 0.1.0 edited (fedcba9 -> 0123456)"),
        ({"ctxbench": "0.2.0", "code": "0123456789abcdef"}, "ctxbench 0.1.0 -> 0.2.0"),
    ],
)
def test_of_ctxbench_itself_its_version_is_told_or_that_it_was_edited(versions, told):
    before = {"ctxbench": "0.1.0", "code": "fedcba9876543210"}
    sides = [snapshot({"q": []}, identity=identity(versions=one)) for one in (before, versions)]
    assert str(input_differences(*sides, {})) == told


@pytest.mark.parametrize(
    ("field", "told"), [("metadata", "2 items edited (metadata alone)"), ("description", "2 items edited")]
)
def test_that_metadata_alone_was_edited_is_said(field, told):
    before = [item(name) for name in ("a", "b", "c")]
    now = [replace(one, **{field: {"hint": 1} if field == "metadata" else "else"}) for one in before[:2]]
    sides = [snapshot({"q": []}, items=items) for items in (before, [*now, before[2]])]
    assert str(input_differences(*sides, {})) == told


def test_files_of_servers_are_no_source_files_of_a_selector_unless_it_imports_them():
    after = {**MANY, "files": {**MANY["files"], "a.py": TWO, "lib.py": TWO}}
    sides = [snapshot({"q": []}, identity=identity(selector=one, values={}, external=True)) for one in (MANY, after)]
    sides[1] = replace(sides[1], server_files=frozenset(["a.py", "lib.py"]))
    assert str(input_differences(*sides, {})) == "lib.py was edited"
    unknown = [{**one, "direct_files": [*one["files"]]} for one in (MANY, after)]
    sides = [
        replace(side, identity=identity(selector=one, values={}, external=True))
        for side, one in zip(sides, unknown, strict=True)
    ]
    assert str(input_differences(*sides, {})) == "nothing"
