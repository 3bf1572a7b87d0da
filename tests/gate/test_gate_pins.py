"""Pins: what a query must be offered, must not, and how much at most; and pins that name what is not there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ctxbench.gate.settings import Pin
from ctxbench.gate.snapshots import Unasked
from ctxbench.gate.verdict import pin_failures, pin_text, unknown_pins
from ctxbench.model.items import ItemKey
from tests.gate.gate_cases import answer, item, item_id, offered, snapshot

A, B, C, D = map(item_id, "abcd")
FOUND = snapshot(
    {
        "q1": (["a", "b"], [("c", 0.4, "below includeScore")]),
        "q2": [offered("d", mode="always"), "a"],
        "q3": [],
        "q4": answer("q4", error="time-out"),
        "q5": None,
    },
    queries={"q1": {"tags": ("billing", "x")}, "q3": {"tags": ("billing",)}},
    tokens={"a": 100, "b": 20, "d": 5},
)


def messages(**given):
    return [(one.query, one.message) for one in pin_failures([Pin(**given)], FOUND)]


@pytest.mark.parametrize(
    "given",
    [
        {"query": "q1", "must_include": (A, B), "must_not_include": (C,), "at_most_items": 2, "at_most_tokens": 120},
        {"query": "q2", "must_include": (D,), "at_most_items": 1, "at_most_tokens": 100},  # the session does not count
        {"query": "q3", "at_most_items": 0, "at_most_tokens": 0},
        {"tag": "billing", "must_not_include": (C,)},
        {"query": "gone", "must_include": (A,)},
        {"query": "q1", "must_include": (C,), "dataset": "other"},
        {"query": "q1", "must_include": (C,), "selector": "other"},
    ],
)
def test_a_pin_that_holds_or_is_not_meant_says_nothing(given):
    assert messages(**given) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"must_include": (C,)}, [f"{C} is not offered: below includeScore, score 0.4"]),
        ({"must_include": (D,)}, [f"{D} is not offered: the selector did not find it"]),
        ({"must_include": ("tool:s:z",)}, ["tool:s:z is not offered: not in the catalog"]),
        ({"must_not_include": (A,)}, [f"{A} is offered (search, score 0.9)"]),
        ({"at_most_items": 1}, ["2 items offered, 1 too many"]),
        ({"at_most_tokens": 119}, ["120 tokens offered, 1 too many"]),
        (
            {"must_include": (C,), "must_not_include": (B,), "at_most_items": 0},
            [
                f"{C} is not offered: below includeScore, score 0.4",
                f"{B} is offered (search, score 0.89)",
                "2 items offered, 2 too many",
            ],
        ),
    ],
)
def test_a_broken_pin_says_what_is_wrong_and_by_how_much(given, expected):
    assert messages(query="q1", **given) == [("q1", text) for text in expected]


def test_what_the_session_holds_may_be_pinned_out():
    assert messages(query="q2", must_not_include=(D,)) == [("q2", f"{D} is offered (session)")]


def test_a_tag_pins_every_query_that_has_it():
    assert messages(tag="billing", must_include=(A,)) == [("q3", f"{A} is not offered: the selector did not find it")]


@pytest.mark.parametrize("query", ["q4", "q5"])
def test_a_query_without_an_answer_keeps_no_pin(query):
    assert messages(query=query, at_most_items=5) == [(query, "there is no answer")]


def test_failures_name_the_pin_and_its_line():
    pins = [Pin(query="q3", at_most_items=3).at(4), Pin(query="q1", must_include=(C,), at_most_items=1).at(7)]
    found = pin_failures(pins, FOUND)
    assert [(one.line, one.pin) for one in found] == [(7, f"query q1 must include {C}, at most 1 item")] * 2
    assert pin_text(Pin(tag="t", must_not_include=(A, B), at_most_tokens=2000)) == (
        f"tag t must not include {A}, {B}, at most 2,000 tokens"
    )


# ---------------------------------------------------------------------------------------------- faults


def unknown(*others, **given):
    return list(
        map(str, unknown_pins([Pin(**{"at_most_items": 9, **given}).at(3)], others, [FOUND], path=Path("gate.yaml")))
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"query": "q9"}, "pin: no query 'q9' in this check; did you mean "),
        ({"query": "q1", "dataset": "dd"}, "pin: no dataset 'dd' in this check; did you mean 'd'?"),
        ({"query": "q1", "selector": "t"}, "pin: no selector 't' in this check; Known: s"),
        ({"query": "q9", "dataset": "d"}, "pin: no query 'q9' in dataset d"),
        ({"tag": "bill"}, "pin: no tag 'bill' in this check; did you mean 'billing'?"),
        ({"query": "q1", "must_include": ("tool:s:aa",)}, "pin: no item 'tool:s:aa' in catalog or baseline"),
        ({"query": "q1", "must_not_include": ("tool:y",)}, "pin: no item 'tool:y' in catalog or baseline"),
    ],
)
def test_a_pin_of_what_is_nowhere_is_a_fault_with_its_line(given, text):
    (message,) = unknown(**given)
    assert message.startswith(text)
    assert message.endswith("(gate.yaml, line 3)")


def test_known_queries_are_listed_once_and_known_items_never():
    several = [
        Pin(query="q8", at_most_items=9),
        Pin(query="q9", at_most_items=9),
        Pin(query="q1", must_include=("tool:s:aa", "tool:s:bb")),
    ]
    found = [fault.message for fault in unknown_pins(several, (), [FOUND])]
    assert [("Known: q1" in message, "Known: tool" in message) for message in found] == [
        (True, False),
        (False, False),
        (False, False),
        (False, False),
    ]
    assert ["; did you mean '" in message for message in found] == [True, True, False, False]


def test_a_pin_of_what_is_somewhere_is_none():
    assert unknown(query="q1", must_include=(A,), must_not_include=(B,)) == []
    assert unknown(tag="billing", dataset="d", selector="s") == []
    older = snapshot({"old": ["e"], "q1": []})
    assert unknown(older, query="q1", must_include=(item_id("e"),)) == []
    elsewhere = snapshot({"q1": []}, dataset="e", selector="t")
    assert unknown(elsewhere, query="q1", dataset="e", selector="s") == [
        "pin: selector 's' is not checked on dataset 'e' (gate.yaml, line 3)"
    ]


def test_a_query_that_lost_its_tag_is_still_meant_by_the_pin():
    without = snapshot({"q1": [], "q3": []}, queries={"q3": {"tags": ("billing",)}})
    pins = [Pin(tag="billing", must_include=(A,))]
    assert [one.query for one in pin_failures(pins, without)] == ["q3"]
    had = snapshot(
        {"q1": [], "q3": [], "gone": []}, queries={"q1": {"tags": ("billing",)}, "gone": {"tags": ("billing",)}}
    )
    first, second = pin_failures(pins, without, before=had)
    assert (first.query, second.query) == ("q1", "q3")
    assert first.message.endswith("; the query had the tag billing in the baseline")
    assert "baseline" not in second.message


def test_a_pin_of_a_query_or_tag_that_only_the_baseline_has_is_a_fault():
    older = snapshot({"old": [], "q1": []}, queries={"old": {"tags": ("rare", "billing")}})
    assert unknown(older, query="old") == [
        "pin: query old is no longer in the dataset; remove the pin, or restore the query (gate.yaml, line 3)"
    ]
    assert unknown(older, tag="rare") == [
        "pin: no query of the check has the tag rare any more; remove the pin, or restore the tag (gate.yaml, line 3)"
    ]
    assert unknown(older, tag="billing") == unknown(older, query="q1") == []


UNASKED = {
    "old": Unasked("not labelled completely", labelled=False, tags=("rare", "billing")),
    "older": Unasked("of split tuning, which is not asked", tags=("rarer", "rare")),
}
LABEL, ASK = "label it (`ctxbench data label 'a b'`)", "select it in the gate file (`split`, `sample`)"


@pytest.mark.parametrize("bases", [[], [snapshot({"old": [], "older": []})]])
@pytest.mark.parametrize(
    ("given", "said", "fix"),
    [
        ({"query": "old"}, "query old is in dataset d, but not labelled completely", LABEL),
        (
            {"query": "older", "dataset": "d"},
            "query older is in dataset d, but of split tuning, which is not asked",
            ASK,
        ),
        (
            {"tag": "rarer"},
            "query older (tag rarer) is in dataset d, but of split tuning, which is not asked",
            ASK,
        ),
        (
            {"tag": "rare"},
            "query old (tag rare) is in dataset d, but not labelled completely",
            LABEL,
        ),
    ],
)
def test_a_pin_of_what_is_there_but_not_asked_says_why_and_what_to_do(bases, given, said, fix):
    now = replace(FOUND, unasked=UNASKED)
    (fault,) = unknown_pins([Pin(at_most_items=9, **given)], bases, [now], folders={"d": Path("a b")})
    assert fault.message == f"pin: {said}; {fix}, or remove the pin"


def test_a_pin_is_not_of_what_is_unasked_where_some_of_it_is_asked_or_another_dataset_has_it():
    now = replace(FOUND, unasked=UNASKED)
    assert unknown_pins([Pin(tag="billing", dataset="d", at_most_items=9)], [], [now]) == []
    (fault,) = unknown_pins(
        [Pin(query="old", dataset="e", at_most_items=9)], [], [now, snapshot({"q1": []}, dataset="e")]
    )
    assert fault.message.startswith("pin: no query 'old' in dataset e")
    (fault,) = unknown_pins([Pin(query="old", at_most_items=9)], [], [now])
    assert "; label it, or remove" in fault.message  # a dataset of the cache has no folder to name


def test_a_pin_of_a_dataset_or_selector_that_is_gone_is_left_to_the_check():
    """Which can judge nothing then."""
    for other in (snapshot({"old": []}, dataset="e"), snapshot({"old": []}, selector="t")):
        assert unknown(other, query="old") == []


# ---------------------------------------------------------------------------------------------- what a query may get


def why_out(query, **fields):
    """Why `a` is not offered to a query."""
    found = snapshot(
        {"q": []},
        queries={"q": query},
        items=[item("a", **fields), item("b")],
        scopes={"acme": ["b"], "all": ["a", "b"]},
    )
    (failure,) = pin_failures([Pin(query="q", must_include=(A,))], found)
    return failure.message.removeprefix(f"{A} is not offered: ")


def test_a_pinned_item_that_the_query_may_not_get_is_said_to_be_none_of_its():
    keys = {name: ItemKey.parse(item_id(name)) for name in "ab"}
    assert why_out({"scope": "acme"}) == "query q may only get items of scope acme"
    assert why_out({"scope": "all"}) == "the selector did not find it"
    own = "query q may only get the items of its list"
    assert why_out({"available": (keys["b"],)}) == own
    assert why_out({"available": (keys["a"],)}) == why_out({}) == "the selector did not find it"
    assert why_out({"removed": (keys["a"],)}) == "the user removed it from the session of query q"
    assert why_out({}, include="manual") == "its include mode is manual, so no search offers it"
    assert why_out({"scope": "all"}, enabled=False) == "disabled"
