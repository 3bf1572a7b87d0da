"""A check as JSON."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields, replace
from pathlib import Path

from ctxbench.gate.results import CauseGroup, Change, Check, PinFailure, SelectorCheck
from ctxbench.io.documents import dump_json
from ctxbench.io.errors import Fault, InputError, StorageError
from ctxbench.report import check_texts
from ctxbench.report.check_files import check_dict, refusal_dict
from ctxbench.report.check_texts import Locations


def read(check, **given):
    return json.loads(dump_json(check_dict(check, **given)))


def test_everything_is_there(made):
    told = read(made.check(made.worse()))
    assert {one.name for one in fields(Check)} <= set(told)
    (one,) = told["selectors"]
    assert {one.name for one in fields(SelectorCheck)} - {"helps"} <= set(one)  # what parameters do is no finding
    cause = {"cause", "code", "subjects", "detail", "values", "fix_code"}
    keys = {"others": "other_changes"}  # a field that has another name in the file
    assert {keys.get(field.name, field.name) for field in fields(CauseGroup)} | cause | {"file", "line"} == set(
        one["causes"][0]
    )
    assert {keys.get(field.name, field.name) for field in fields(PinFailure)} == set(one["pins"][0])
    assert one["pins"][0]["fix"] == str(made.worse().pins[0].fix)
    assert len(one["changes"]) == 2
    assert one["changes"][0] == {
        "query": "q2",
        "item": "rule:code%20review",
        "direction": "out",
        "required": True,
        "excluded_by": "its score is below threshold=0.3",
        "exclusion_rule": {"code": "threshold", "values": {"threshold": 0.3}},
        "missed_by": 0.05,
        "base": {"score": 0.5, "rank": 2},
        "head": {"score": 0.25, "rank": 9},
        "cause": "item edited",
        "code": "",
        "subjects": ["rule:code%20review"],
        "detail": "text of rule:code%20review edited",
        "values": {},
        "fix": "bring the words of q2 back",
        "fix_code": "",
    }
    assert len(fields(Change)) == 12


def test_a_metric_has_means_comparison_tolerance_and_what_is_detectable(made):
    first, second = read(made.check(made.worse()))["selectors"][0]["metrics"]
    assert (first["base"]["value"], first["head"]["value"], first["verdict"]) == (1.0, 0.5, "worse")
    assert first["comparison"]["p_holm"] == 2 / 2**10
    assert (first["comparison"]["higher_on"], first["comparison"]["lower_on"]) == (0, 10)
    assert (first["tolerance"], first["detectable"]) == (0.01, 0.1)
    assert second["detectable"] is None


def test_no_p_value_stands_beside_what_a_deterministic_selector_came_to(made):
    steady, noisy = read(made.check(replace(made.worse(), deterministic=True), made.worse()))["selectors"]
    assert (steady["deterministic"], noisy["deterministic"]) == (True, False)
    compared = [one["metrics"][0]["comparison"] for one in (steady, noisy)]
    assert (compared[0]["p"], compared[0]["p_holm"]) == (None, None)
    assert compared[0] == compared[1] | {"p": None, "p_floor": None, "p_holm": None, "p_holm_at_floor": None}


def test_what_is_gone_and_what_costs_otherwise_have_their_places(made):
    places = Locations(item=lambda _dataset, item: ("c.jsonl", 4) if item == "tool:a:y" else ("c.jsonl", 0))
    gone, dearer = json.loads(dump_json(check_dict(made.check(made.gone(), made.dearer()), locations=places)))[
        "selectors"
    ]
    assert gone["unmet"] == [
        {
            "items": ["rule:code%20review"],
            "why": "disabled",
            "queries": ["q2", "q5"],
            "file": "c.jsonl",
            "line": None,
        },
        {
            "items": ["tool:a:x", "tool:a:y"],
            "why": "no longer in the catalog",
            "queries": ["q7"],
            "file": "c.jsonl",
            "line": 4,
        },
    ]
    assert dearer["token_changes"][1] == {
        "item": "tool:a:y",
        "base": 50,
        "head": 60,
        "queries": ["q0", "q1"],
        "why": "schema edited",
        "tokens": 20,
        "file": "c.jsonl",
        "line": 4,
    }
    (cause,) = dearer["causes"]
    assert (cause["cause"], cause["file"], cause["line"]) == ("item costs more tokens", "c.jsonl", 4)
    (plain,) = read(made.check(made.dearer()))["selectors"]
    assert (plain["causes"][0]["file"], plain["causes"][0]["line"]) == (None, None)


def test_the_exit_code_is_that_of_the_process(made):
    check = made.check(made.inconclusive())
    assert read(check)["exit_code"] == 0
    assert read(check, strict=True)["exit_code"] == 1
    assert read(made.every())["exit_code"] == 2


def test_numbers_that_are_not_finite_are_null(made):
    lost = replace(made.LOST, base_score=math.nan, head_score=math.inf, missed_by=-math.inf)
    metric = replace(made.worse().metrics[0], detectable=math.nan, tolerance=math.inf)
    (one,) = read(made.check(replace(made.worse(), changes=(lost,), metrics=(metric,))))["selectors"]
    assert one["changes"][0]["base"]["score"] is None
    assert one["changes"][0]["missed_by"] is None
    assert one["metrics"][0]["detectable"] is None
    assert one["metrics"][0]["tolerance"] is None


def test_the_order_of_the_check_is_kept(made):
    assert [one["selector"] for one in read(made.every())["selectors"]] == [
        *("semantic/normal", "bm25", "dense", "mine", "hybrid"),
    ]


def test_without_texts_there_are_none(made):
    told = read(check_texts.without_texts(made.check(made.worse())))
    assert told["selectors"][0]["texts"] == {}
    assert "please" not in json.dumps(told)


def test_a_selector_that_was_not_asked_again_says_so(made):
    told = read(made.check(made.same(), replace(made.same(), selector="again", reused=True)))
    assert [one["reused"] for one in told["selectors"]] == [False, True]


def test_what_could_not_be_judged_has_the_keys_of_what_was_and_its_faults_with_their_places(made):
    error = InputError([Fault("a", Path("data") / "x.yaml", 3, 7), Fault("b")])
    told = json.loads(dump_json(refusal_dict("gate.yaml", error)))
    assert list(told) == list(read(made.check(made.same())))
    assert (told["name"], told["verdict"], told["exit_code"], told["selectors"]) == (
        *("gate.yaml", "not comparable", 2, []),
    )
    assert told["error"] == {
        "message": str(error),
        "faults": [
            {"message": "a", "file": "data/x.yaml", "line": 3, "column": 7},
            {"message": "b", "file": None, "line": None, "column": None},
        ],
    }
    alone = refusal_dict("g", StorageError("no baseline"))["error"]
    assert [fault["message"] for fault in alone["faults"]] == ["no baseline"]


def test_the_page_names_every_key(made):
    page = Path(__file__).parents[3] / "experiments" / "gate" / "operate.md"
    rows = re.findall(
        r"^\| ((?:`\w+`(?:, )?)+) \|", page.read_text("utf-8").split("## What programs read")[1], re.MULTILINE
    )
    keys = [key for row in rows for key in re.findall(r"`([a-z_]+)`", row)]
    assert sorted(keys) == sorted(read(made.check(made.same())))


def test_the_keys_of_a_selector_that_the_page_names_are_there(made):
    page = (Path(__file__).parents[3] / "experiments" / "gate" / "operate.md").read_text("utf-8")
    listed = page.split("Keys of each entry of `selectors`:")[1].split("With an `error`")[0]
    (selector,) = read(made.check(made.worse()))["selectors"]
    values = [selector]
    for value in values:  # which grows: all objects, at any depth
        values += value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    keys = {key for value in values if isinstance(value, dict) for key in value}
    named = re.findall(r"`(\w+)`", listed)
    assert len(named) > 30
    assert set(named) <= keys
