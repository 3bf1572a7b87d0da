"""Why pins do not hold: what went out or came in has a cause, what did not hold before is said to."""

from __future__ import annotations

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.gate import SnapshotPairs, check
from ctxbench.gate.results import CauseKind
from ctxbench.gate.settings import CheckSettings, Pin
from tests.gate.cause_cases import as_baseline, scored
from tests.gate.gate_cases import item_id

A, B, C, X = map(item_id, "abcx")
ROW = {"a": 0.9, "b": 0.8, "c": 0.7}
TWO = [{"first": {"n": 2}}]
BASE = scored({"q": ROW, "r": ROW}, TWO)


def failures(head, *pins, base=BASE):
    """What a check says of the pins that do not hold."""
    settings = CheckSettings(metrics=(parse_metric("completeness"),), pins=pins)
    return check(SnapshotPairs([(as_baseline(base), head)]), settings, name="g", base="b", head="h").selectors[0].pins


def test_a_pinned_item_that_was_edited_and_went_out():
    head = scored({"q": {**ROW, "b": 0.1}, "r": ROW}, TWO, texts={"b": "else"})
    (found,) = failures(head, Pin(query="q", must_include=(A, B)))
    assert found.message.endswith("score 0.1; item edited: description edited")
    assert (found.about, found.cause.kind, found.cause.subjects) == (B, CauseKind.EDITED, (B,))
    assert str(str(found.fix)).startswith(f"undo the edit of {B}, or ")


def test_a_pinned_item_that_others_crowd_out_names_them():
    head = scored({"q": {**ROW, "x": 0.85}, "r": ROW}, TWO)
    (found,) = failures(head, Pin(query="q", must_include=(B,)))
    assert found.message.endswith(f"; pushed out: {X} (1 new item ranked above it)")
    assert str(str(found.fix)).endswith(", or raise refine.first.n to 3")


def test_an_item_that_is_not_to_come_in():
    head = scored({"q": {**ROW, "x": 0.85}, "r": ROW}, TWO)
    (found,) = failures(head, Pin(query="q", must_not_include=(X,)))
    assert found.message == f"{X} is offered (search, score 0.85); item new: new in the catalog"
    assert (found.cause.kind, str(found.fix)) == (CauseKind.NEW, "")


def test_a_pin_that_did_not_hold_before_is_said_to():
    (found,) = failures(BASE, Pin(query="q", must_include=(C,)))
    assert found.message.endswith("score 0.7; the pin did not hold in the baseline either")
    assert (found.cause, str(found.fix)) == (None, "")


def test_too_many_items_or_tokens_name_what_came_in_and_what_grew():
    base = scored({"q": ROW}, TWO, tokens={"a": 10, "b": 10, "c": 10})
    head = scored({"q": ROW}, [{"first": {"n": 3}}], tokens={"a": 25, "b": 10, "c": 10}, texts={"a": "else"})
    items, tokens = failures(head, Pin(query="q", at_most_items=2, at_most_tokens=20), base=base)
    came = f"came in: {C} (parameter: refine.first.n 2 -> 3)"
    assert items.message == f"3 items offered, 1 too many; {came}"
    assert tokens.message == f"45 tokens offered, 25 too many; {came}; longer now: {A} (+15 tokens)"
    (items,) = failures(head, Pin(query="q", at_most_items=1), base=base)
    assert items.message == f"3 items offered, 2 too many; the pin did not hold in the baseline either; {came}"


def test_a_pin_of_a_renamed_item_says_its_new_id():
    base = scored({"q": ROW}, TWO, texts={"b": "The same words."})
    head = scored({"q": {"a": 0.9, "k": 0.8, "c": 0.7}}, TWO, texts={"k": "The same words."})
    (found,) = failures(head, Pin(query="q", must_include=(B,)), base=base)
    now = f"{B} is not offered: not in the catalog; {B} is now {item_id('k')}"
    assert found.message == f"{now}, which is offered: change the pin"
    head = scored({"q": {"a": 0.9, "k": 0.1, "c": 0.7}}, TWO, texts={"k": "The same words."})
    (found,) = failures(head, Pin(query="q", must_include=(B,)), base=base)
    assert found.message == f"{now}: change the pin; item renamed: was {B}"
    assert (found.cause.kind, str(found.fix)[:5]) == (CauseKind.RENAMED, "give ")
    (found,) = failures(head, Pin(query="q", must_include=(item_id("k"),)), base=base)
    assert found.message.endswith(f"item renamed: was {B}")


def test_what_must_not_be_offered_must_not_be_under_a_new_name():
    base = scored({"q": {**ROW, "b": 0.1}}, TWO, texts={"b": "The same words."})
    head = scored({"q": {"a": 0.9, "k": 0.8, "c": 0.7}}, TWO, texts={"k": "The same words."})
    (found,) = failures(head, Pin(query="q", must_not_include=(B,)), base=base)
    k = item_id("k")
    assert found.message.startswith(f"{k} is offered (search, score 0.8); {B} is now {k}, which is offered")
    away = scored({"q": {"a": 0.9, "k": 0.1, "c": 0.7}}, TWO, texts={"k": "The same words."})
    assert failures(away, Pin(query="q", must_not_include=(B,)), base=base) == ()


def test_a_query_that_is_not_compared_has_no_cause():
    (found,) = failures(
        scored({"q": ROW, "s": ROW}, TWO), Pin(query="s", must_include=(C,)), base=scored({"q": ROW}, TWO)
    )
    assert found.message.endswith("score 0.7")


def test_another_model_is_said_once():
    head = scored({"q": {**ROW, "b": 0.1}, "r": {**ROW, "b": 0.1}}, TWO, embedder="e5")
    (found,) = failures(head, Pin(query="q", must_include=(B,)))
    assert found.message.endswith("score 0.1; model minilm -> e5")
