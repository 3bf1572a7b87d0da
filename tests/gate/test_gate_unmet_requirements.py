"""Requirements that nothing can meet any more are facts: worse, whatever was offered and however many may be lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.gate.baseline import without_texts
from ctxbench.gate.gate import SnapshotPairs, check
from ctxbench.gate.results import CauseKind, UnmetRequirement, Verdict
from ctxbench.gate.settings import CheckSettings
from tests.gate.gate_cases import item, item_id, offered, snapshot

A, B, D = map(item_id, "abd")


def only(base, head, **given):
    (one,) = check(SnapshotPairs([(base, head)]), CheckSettings(**given), name="g", base="a", head="b").selectors
    return one


def there_are(side, names):
    """The snapshot with the items named alone; the others are disabled."""
    left = {item_id(name) for name in names}
    return replace(
        side,
        items={name: one for name, one in side.items.items() if name in left},
        disabled={name: replace(one, enabled=False) for name, one in side.items.items() if name not in left},
    )


def test_what_cannot_be_met_is_worse_though_no_selector_offered_it_and_one_may_be_lost():
    """q1 needs a, which goes; q2 b or d, which both go; q3 has c left; q4 loses a of two; z was never there."""
    wanted = {"q1": ["a"], "q2": [("b", "d")], "q3": [("b", "c")], "q4": ["z", "a"]}
    made = snapshot({name: ["c"] for name in wanted}, required=wanted, items=dict.fromkeys("abcdz", ""))
    base, head = there_are(made, "abcd"), there_are(made, "c")
    one = only(base, head, metrics=())
    assert (one.verdict, one.lost, one.allowed) == (Verdict.WORSE, 0, 1)
    assert one.unmet == (
        UnmetRequirement(items=(A,), why="disabled", queries=("q1", "q4")),
        UnmetRequirement(items=(B, D), why="disabled", queries=("q2",)),
    )
    told = "required by 3 queries, offered to 0 before, and no alternative is accepted"
    what = f"{told}: {A}, {B}, {D} (disabled; q1, q4, q2)"
    assert one.reasons == (what,)
    assert only(base, base, metrics=()).unmet == ()
    assert only(base, there_are(made, "acd"), metrics=()).unmet == ()  # d and c are left where b was wanted
    allowed = only(base, head, metrics=(), allow_removed=True)
    assert (allowed.verdict, allowed.unmet, allowed.notices) == (
        *(Verdict.SAME, ()),
        (f"{what}; allowed by --allow-removed",),
    )


def of_many(**given):
    """100 queries that need nothing that changes, and one that needs `a`; its required item may be lost."""
    wanted = {"q": ["a"], **{f"q{n}": ["b"] for n in range(100)}}
    answers = {"q": [], **{f"q{n}": ["b"] for n in range(100)}}
    items = [item(name, **given.get(name, {})) for name in "abc"]
    return snapshot(answers, required=wanted, items=items, before="abc")


@pytest.mark.parametrize(
    ("fields", "why"), [({"enabled": False}, "disabled"), ({"include": "manual"}, "include mode manual")]
)
def test_one_that_is_disabled_or_included_by_hand_only_is_gone(fields, why):
    one = only(of_many(), of_many(a=fields))
    assert (one.verdict, one.unmet) == (Verdict.WORSE, (UnmetRequirement(items=(A,), why=why, queries=("q",)),))
    assert only(of_many(), of_many(c={"enabled": False})).verdict is Verdict.SAME  # nobody needs it


def test_one_that_was_deleted_is_gone_without_texts_too():
    base, head = of_many(), of_many()
    head = replace(head, items={name: fact for name, fact in head.items.items() if name != A})
    for before in (base, without_texts(base)):
        one = only(before, head)
        assert one.unmet == (UnmetRequirement(items=(A,), why="no longer in the catalog", queries=("q",)),)


def scoped(*scope):
    """q1 needs a and q2 b, and both may get what stands in their scope; q3 may get everything."""
    queries = {name: {"scope": "team"} for name in ("q1", "q2")}
    answers = {"q1": ["a"], "q2": ["b"], "q3": ["a"]}
    answers = {query: [name for name in names if query == "q3" or name in scope] for query, names in answers.items()}
    wanted = {"q1": ["a"], "q2": ["b"]}
    parts = {"required": wanted, "queries": queries, "items": dict.fromkeys("abc", ""), "scopes": {"team": scope}}
    return snapshot(answers, before="abc", **parts)


def test_one_that_is_in_no_scope_any_more_is_gone_for_the_queries_that_have_one():
    one = only(scoped("a", "b"), scoped("b"))
    assert (one.verdict, one.compared, one.lost) == (Verdict.WORSE, 3, 1)
    assert one.unmet == (UnmetRequirement(items=(A,), why="no longer in any scope", queries=("q1",)),)
    (group,) = one.causes
    assert (group.cause.kind, group.cause.detail) == (CauseKind.GONE, "no longer in any scope")
    assert str(one.changes[0].fix).startswith(f"put {A} back into a scope")
    assert "deterministic" not in " ".join(one.notices)


def test_another_change_of_a_scope_asks_otherwise_as_before():
    for before, now in ((("a", "b", "c"), ("a", "b")), (("a", "b"), ("a", "b", "c"))):
        one = only(scoped(*before), scoped(*now))
        assert (one.verdict, one.left_out) == (Verdict.NOT_COMPARABLE, {"changed": ("q1", "q2")})


def test_what_was_renamed_or_is_held_by_the_session_is_not_gone():
    text = "what it does, at some length, so that it is known again"
    base = snapshot({"q": []}, required={"q": ["a"]}, items={"a": text})
    head = snapshot({"q": []}, required={"q": ["new_a"]}, items={"new_a": text})
    one = only(base, head)
    assert one.unmet == ()
    (said,) = one.notices
    assert said.startswith(f"1 item renamed ({A} -> {item_id('new_a')}); ")
    held = {"q": [offered("a", mode="manual")]}
    given = {"required": {"q": ["a"]}, "before": "a"}
    by_hand = snapshot(held, items=[item("a", include="manual")], **given)
    assert only(snapshot(held, items=[item("a")], **given), by_hand).unmet == ()


def test_it_is_told_to_how_many_of_those_who_require_it_an_item_was_offered_before():
    made = snapshot({"q1": ["a"], "q2": ["c"]}, required={"q1": ["a"], "q2": ["a"]}, items=dict.fromkeys("ac", ""))
    base = there_are(made, "ac")
    one = only(base, there_are(snapshot({"q1": ["c"], "q2": ["c"]}, required={"q1": ["a"], "q2": ["a"]},
                                        items=dict.fromkeys("ac", "")), "c"), metrics=())  # fmt: skip
    assert [found.before for found in one.unmet] == [1]
    assert "required by 2 queries, offered to 1 before, and no alternative is accepted" in one.reasons[0]
