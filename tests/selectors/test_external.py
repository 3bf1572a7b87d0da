"""Selectors of one's own, whatever the way in: configuration, notes, repeats, and the published schema."""

from __future__ import annotations

import importlib.resources
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from ctxbench.io.errors import InputError, ParameterError, StorageError
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Batch, Message, Request, SessionItem
from ctxbench.selectors.callable import CallableSource
from ctxbench.selectors.external import External, external_from_config
from ctxbench.selectors.protocol import catalog_message, request_messages, schema

CATALOG = Catalog(
    [
        Item(type="rule", name="r", text="t", include="always", priority=1),
        Item(type="tool", server="s", name="a", schema={"type": "object"}, metadata={"x": 1}),
        Item(type="tool", name="b", enabled=False),
        Item(type="tool", name="c"),
    ]
)


def batch_of(*texts):
    return Batch.of(CATALOG, [Request(id=f"q{i}", text=text) for i, text in enumerate(texts)])


def valid(message, definition):
    whole = schema()
    jsonschema.validate(message, {"$ref": f"#/$defs/{definition}", "$defs": whole["$defs"]})
    return True


def test_the_schema_is_published_with_the_package_and_versioned():
    text = importlib.resources.files("ctxbench.selectors").joinpath("external_schema.json").read_text("utf-8")
    assert schema()["$defs"].items() >= json.loads(text)["$defs"].items()
    assert {"AnswerRow", "ItemRow"} - {*schema()["$defs"]} == {"AnswerRow"}  # the answer is `#/$defs/answer`
    jsonschema.Draft202012Validator.check_schema(schema())
    assert schema()["$id"] == "urn:ctxbench:selector:1"
    assert schema()["$defs"]["version"]["const"] == 1


def test_what_is_sent_is_what_the_schema_says():
    request = Request(
        id="q1",
        text="x",
        history=(Message("user", "hello"),),
        session=(SessionItem(ItemKey("tool", "s", "a"), "manual"),),
        explicit=(ItemKey("tool", None, "c"),),
        recent=(ItemKey("tool", None, "c"),),
        uses=((ItemKey("tool", None, "c"), 2),),
        available=(ItemKey("tool", "s", "a"), ItemKey("tool", None, "c")),
        tool_results=(("a", "done"),),
        user="u",
        workspace="w",
        conversation="c",
        turn=2,
        time="2026-01-01T00:00:00Z",
    )
    for batch in (Batch.of(CATALOG, [request]), batch_of("")):
        ((_, message),) = request_messages(batch, [0], "items")
        assert valid(message, "request")
    items = catalog_message(batch, 0, "items")
    assert valid(items, "catalog")
    assert [row["_id"] for row in items["items"]] == ["rule:r", "tool:s:a", "tool:c"]
    assert all("metadata" not in row for row in items["items"])
    ids = catalog_message(batch, 0, "ids")
    assert valid(ids, "catalog")
    assert ids["ids"] == ["rule:r", "tool:s:a", "tool:c"]
    assert catalog_message(batch, 0, "nothing") is None


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "needs exactly one of answers, callable, command, url; got none"),
        ({"name": "x"}, "needs exactly one of answers, callable, command, url; got none, only name"),
        ({"answers": "a", "url": "b"}, "exactly one of answers, callable, command, url; got answers, url"),
        ({"answers": 3}, "answers must be a text, got 3"),
        ({"answers": "a.jsonl", "timeout": 3}, "a selector by answers has no field 'timeout'; Known: answers, name"),
        (
            {"command": ["node"], "time_out": 3},
            "a selector by command has no field 'time_out'; did you mean 'timeout'",
        ),
        ({"command": {"x": 1}}, "command must be a list or a text, got {'x': 1}"),
        ({"callable": "m.py:f", "timeout": 1}, "a selector by callable has no field 'timeout'"),
        ({"callable": "m.py:f", "batch": 1}, "batch must be true or false, got 1"),
        ({"callable": "m.py:f", "send": "all"}, "send must be 'items' or 'ids' or 'nothing', got 'all'"),
        ({"callable": "m.py:f", "repeats": 0}, "repeats must be 1 or more, got 0"),
        ({"callable": "m.py:f", "repeats": True}, "repeats must be a whole number, got True"),
        ({"callable": "m.py:f", "name": ""}, "name must not be empty"),
        ({"url": "http://x/", "cache": "yes"}, "cache must be true or false, got 'yes'"),
        ({"url": "http://x/", "timeout": float("nan")}, "timeout must be a finite number, got nan"),
    ],
)
def test_a_faulty_configuration_is_an_error_in_words(tmp_path, config, message):
    (tmp_path / "m.py").write_text("def f(request, items): return []\n")
    (tmp_path / "a.jsonl").write_text("")
    with pytest.raises(ParameterError) as caught:
        external_from_config(config, base=tmp_path)
    assert message in str(caught.value)


def test_of_several_ways_in_only_the_ways_are_listed(tmp_path):
    with pytest.raises(ParameterError, match=r"; got callable, command$"):
        external_from_config({"callable": "m.py:f", "command": "x", "name": "mine"}, base=tmp_path)


def test_all_that_is_wrong_is_said_at_once(tmp_path):
    config = {"command": ["no-such-program-here"], "timeout": "1", "concurency": 2, "in_flight": 0}
    with pytest.raises(ParameterError) as caught:
        external_from_config(config, base=tmp_path)
    text = str(caught.value)
    assert "timeout must be a number, got '1'" in text
    assert "no field 'concurency'; did you mean 'concurrency'" in text
    assert "in_flight must be 1 or more, got 0" in text


def test_a_missing_or_malformed_file_keeps_its_own_error(tmp_path):
    with pytest.raises(StorageError):
        external_from_config({"answers": "none.jsonl"}, base=tmp_path)
    (tmp_path / "bad.jsonl").write_text("{")
    with pytest.raises(InputError):
        external_from_config({"answers": "bad.jsonl"}, base=tmp_path)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"answers": "a.jsonl"}, "a"),
        ({"callable": "m.py:f"}, "f"),
        ({"command": [sys.executable, "-u", "m.py", "5"]}, "m"),
        ({"command": [sys.executable]}, Path(sys.executable).stem),
        ({"url": "http://127.0.0.1:8700/select"}, "127.0.0.1:8700"),
        ({"url": "http://127.0.0.1:8700/select", "name": "mine"}, "mine"),
    ],
)
def test_it_is_called_as_configured_or_as_what_it_comes_from(tmp_path, config, name):
    (tmp_path / "m.py").write_text("def f(request, items): return []\n")
    (tmp_path / "a.jsonl").write_text('{"query": "q1", "items": []}\n')
    assert external_from_config(config, base=tmp_path).name == name


def test_repeats_that_differ_are_counted_and_the_first_is_used():
    calls = []

    def noisy(request, items):
        calls.append(request["id"])
        count = calls.count(request["id"])
        if request["text"] == "fails later" and count > 1:
            raise RuntimeError
        if request["text"] == "fails":
            raise RuntimeError
        score = count if request["text"] == "score" else 1
        other = "tool:c" if request["text"] == "item" and count == 3 else "tool:s:a"
        return [{"id": other, "score": score}]

    selector = External(CallableSource(noisy), name="noisy", repeats=3)
    made = selector.select(batch_of("same", "score", "item", "fails later", "fails"))
    assert made.candidates.item[made.candidates.origin == 1].tolist() == [1, 1, 1, 1]
    assert list(made.errors) == [4]
    assert [calls.count(f"q{i}") for i in range(5)] == [3, 3, 3, 3, 1]
    assert selector.notes == {"repeats": 3, "unstable": 3, "unstable_items": 2, "without_ranking": 4}


def test_notes_count_what_a_person_should_know_and_begin_anew():
    def answer(request, items):
        if request["text"] == "bad":
            return ["tool:zz"]
        return {"items": [{"id": "rule:r"}, {"id": "tool:c"}], "build": request["text"]}

    selector = External(CallableSource(answer), name="mine")
    assert selector.notes == {}
    selector.select(batch_of("v2", "v1", "bad"))
    notes = {"builds": ["v1", "v2"], "session_items_named": 2, "without_ranking": 2, "without_scores": 2}
    assert selector.notes == notes
    assert selector.take_notes() == notes
    assert selector.notes == {}


def test_answers_do_not_depend_on_the_batch():
    def answer(request, items):
        return [row["_id"] for row in items[: len(request["text"])]]

    selector = External(CallableSource(answer), name="mine")
    whole = selector.select(batch_of("a", "", "abc"))
    for row, text in enumerate(["a", "", "abc"]):
        alone = selector.select(Batch.of(CATALOG, [Request(id=f"q{row}", text=text)]))
        rows = whole.candidates.rows(row)
        assert alone.candidates.item.tolist() == whole.candidates.item[rows].tolist()
        assert alone.candidates.score.tolist()[1:] == whole.candidates.score[rows].tolist()[1:]


def test_the_query_is_the_whole_text_and_a_blank_request_has_no_chunk():
    made = External(CallableSource(lambda *_: []), name="mine").select(batch_of("one. two.", " \n", ""))
    assert made.query.text == ("one. two.",)
    assert made.query.start.tolist() == [0, 1, 1, 1]


def test_a_selector_without_a_name_is_an_error():
    with pytest.raises(ParameterError, match="name must be a text"):
        External(CallableSource(lambda *_: []), name="")


def test_importing_the_family_imports_neither_httpx_nor_jsonschema():
    program = (
        "import sys, ctxbench.selectors.external, ctxbench.selectors.protocol as e; e.schema(); "
        "print(sorted({'httpx', 'jsonschema', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"
