"""A check in a few lines, and where accepting helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.gate.results import Cause, CauseGroup, CauseKind, Fix, Verdict
from ctxbench.report.check_texts import costliest_cause, is_acceptable, loss_note, pin_advice, summary_sentences


def test_the_worst_selector_what_was_lost_the_cause_with_its_mend_and_how_to_accept(made):
    assert summary_sentences((made.worse(), made.inconclusive(), made.same()), "ctxbench check --accept") == (
        "semantic/normal on desk: 1 required item was lost and 0 were gained, at most 0 more may be lost.",
        "also inconclusive: dense on desk",
        "lost: rule:code%20review (q2)",
        "most costly cause: item edited: text of rule:code%20review edited; to fix it: pin it",
        "to accept it, if it is meant: ctxbench check --accept",
    )


def test_a_mend_that_is_too_long_is_left_to_the_full_text(made):
    worse = made.worse()
    (group, *rest) = worse.causes
    long = replace(group, fix=Fix("put its text back " * 20))
    said = summary_sentences((replace(worse, causes=(long, *rest)),))
    assert said[-1] == "most costly cause: item edited: text of rule:code%20review edited"


def test_what_must_be_done_before_accepting_and_about_pins_is_said(made):
    *_, pins, accept = summary_sentences((made.worse(),), "accept", first="fix labels", pins="a broken pin")
    assert (pins, accept) == ("a broken pin", "to accept it, if it is meant: fix labels, then accept")


def pinned(made):
    """Worse for its pin alone."""
    return replace(made.same(), verdict=Verdict.WORSE, reasons=("pin broken",), pins=made.worse().pins)


@pytest.mark.parametrize(
    ("maker", "expected"),
    [("worse", True), ("inconclusive", True), ("better", True), ("not_comparable", True), ("same", False)],
)
def test_accepting_helps_where_a_new_baseline_gives_another_outcome(made, maker, expected):
    one = getattr(made, maker)()
    assert is_acceptable(made.check(one)) is expected
    assert is_acceptable(made.check(replace(one, left_out={"new": ("q9",)})))


def test_no_baseline_makes_a_pin_hold(made):
    assert not is_acceptable(made.check(pinned(made)))
    assert not is_acceptable(made.check(pinned(made), made.better()))  # which changes nothing about the exit code
    assert is_acceptable(made.check(pinned(made), made.worse()))
    assert is_acceptable(made.check(replace(pinned(made), lost=3, allowed=1)))
    assert is_acceptable(made.check(replace(pinned(made), unmet=made.gone().unmet)))
    assert pin_advice(made.check(made.same())) == ""
    first, *_ = pinned(made).pins
    several = replace(pinned(made), pins=(first, replace(first, line=3), replace(first, line=3, query="q9")))
    assert pin_advice(made.check(several)) == (
        "broken pins stay broken whatever is accepted: change or take out the pin (gate.yaml, lines 3 and 12), or fix "
        "the selection"
    )


def test_nothing_is_said_where_nothing_differs(made):
    assert summary_sentences((made.same(), made.same()), "ctxbench check --accept") == ()
    assert summary_sentences(()) == ()


def test_what_is_lost_is_told_whatever_the_verdict(made):
    losing = replace(made.same(), changes=(made.LOST,), lost=1)
    assert summary_sentences((losing,), "accept") == ("lost: rule:code%20review (q2)",)


def test_two_runs_have_nothing_to_accept(made):
    assert not any("accept" in text for text in summary_sentences((made.worse(),)))


def test_lost_items_are_named_once_with_their_queries_what_most_lost_first(made):
    lost = [
        ("q1", "rule:a"),
        ("q2", "rule:b"),
        ("q3", "rule:b"),
        ("q4", "rule:c"),
        *((f"r{n}", "rule:d") for n in range(6)),
    ]
    changes = tuple(replace(made.LOST, query=query, item=item) for query, item in lost)
    one = replace(made.worse(), changes=changes, lost=len(lost))
    for selectors in ((one,), (one, replace(one, selector="other"))):  # what two selectors lost is one loss
        (said,) = (text for text in summary_sentences(selectors) if text.startswith("lost: "))
        assert said == "lost: rule:d (r0, r1, r2 and 3 more), rule:b (q2 and q3), rule:a (q1) and rule:c (q4)"


def test_other_reasons_are_counted_and_long_ones_cut(made):
    one = replace(made.worse(), reasons=("a " * 200, "b", "c"), changes=(), causes=(), lost=0)
    assert summary_sentences((one,)) == (f"semantic/normal on desk: {'a ' * 123}a...; 2 more reasons below",)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (f"{'a ' * 60}end; {'b ' * 60}, but {'c ' * 60}", f"{'a ' * 60}end"),
        (f"{'a ' * 60}end (x; {'b ' * 60}), but c", f"{'a ' * 60}end"),
        (f"{'a ' * 60}end, but no{'c ' * 80}", f"{'a ' * 60}end"),
    ],
)
def test_a_long_reason_ends_where_a_part_of_it_ends(made, reason, told):
    one = replace(made.worse(), reasons=(reason,), changes=(), causes=(), lost=0)
    assert summary_sentences((one,)) == (f"semantic/normal on desk: {told}",)


def test_a_large_difference_that_cannot_be_told_is_told_beside_what_decided(made):
    rows = [1.0] * 20, [1.0] * 16 + [0.0] * 4
    large, small = (replace(made.judged("completeness", Verdict.INCONCLUSIVE, *rows), tolerance=n) for n in (0.01, 0.1))
    said = summary_sentences((replace(made.worse(), metrics=(large,)),))
    assert said[1].startswith(
        "not told either way: completeness 100.0% -> 80.0% (-20.0 points): more than the tolerance of 1.0 points"
    )
    assert "20 queries" in said[1]
    assert "either way" not in " ".join(summary_sentences((replace(made.worse(), metrics=(small,)),)))
    decides = replace(made.inconclusive(), reasons=("completeness 100.0% -> 80.0%",), metrics=(large,))
    assert "either way" not in " ".join(summary_sentences((decides,)))


def test_the_costliest_cause_is_that_of_most_items_lost_net_over_all_selectors(made):
    def group(detail, lost, gained=0):
        cause = Cause(kind=CauseKind.PARAMETER, detail=detail)
        return CauseGroup(
            cause=cause, lost=lost, gained=gained, others=0, tokens=0, queries=("q",), fix=Fix(f"fix {detail}")
        )

    first = replace(made.worse(), causes=(group("a", 3), group("b", 2)))
    second = replace(made.worse(), selector="other", causes=(group("b", 2), group("c", 9, gained=8)))
    assert costliest_cause((first, second))[0].detail == "b"  # 4; a 3, c 1
    assert costliest_cause((first,))[0].detail == "a"
    assert costliest_cause((first, replace(second, dataset="x")))[1] == "fix a"  # a cause is of one dataset


def test_a_mend_is_of_the_selector_and_dataset_that_the_headline_names_or_names_its_own(made):
    worse, cause = made.worse(), Cause(kind=CauseKind.MODEL, detail="model a -> b")

    def losing(dataset, lost, fix):
        held = CauseGroup(
            cause=cause,
            lost=lost,
            gained=0,
            others=0,
            tokens=0,
            queries=("q",),
            fix=Fix(fix) if fix else Fix(),
        )
        return replace(worse, dataset=dataset, lost=lost, causes=(held,))

    def told(*selectors):
        return next(one for one in summary_sentences(selectors) if "cause" in one)

    evals, mine = losing("evals", 1, "raise n to 4"), losing("mine", 3, "raise n to 9")
    assert told(evals, mine) == "cause: model a -> b; to fix it: raise n to 4"
    there = "semantic/normal on mine"
    assert told(losing("evals", 1, ""), mine) == f"cause ({there}): model a -> b; to fix it: raise n to 9"
    assert told(replace(evals, lost=0, causes=()), mine).startswith(f"cause ({there}): ")
    assert told(losing("evals", 1, ""), losing("mine", 3, "")) == "cause: model a -> b"


@pytest.mark.parametrize(("metric", "detail"), [("tokens", "dear"), ("completeness", "first")])
def test_where_nothing_was_lost_the_cause_is_that_of_the_metric_that_decided(made, metric, detail):
    groups = tuple(
        CauseGroup(
            cause=Cause(kind=CauseKind.NEW, detail=name), lost=0, gained=0, others=1, tokens=tokens, queries=("q",)
        )
        for name, tokens in (("first", 5), ("dear", 50))
    )
    metrics = (
        (made.judged(metric, Verdict.WORSE, [100.0, 1.0] * 5, [101.0, 2.0] * 5),)
        if metric == "tokens"
        else (made.worse().metrics[0],)
    )
    one = replace(made.worse(), changes=(), lost=0, causes=groups, metrics=metrics)
    assert costliest_cause((one,))[0].detail == detail
    assert costliest_cause((replace(one, metrics=()),)) is None


def test_new_items_are_not_to_blame_for_the_tokens_of_what_they_replaced(made):
    def group(kind, tokens, *subjects):
        cause = Cause(kind=kind, subjects=subjects, detail=str(kind))
        return CauseGroup(cause=cause, lost=0, gained=0, others=1, tokens=tokens, queries=("q",))

    metrics = (made.judged("tokens", Verdict.WORSE, [100.0, 1.0] * 5, [101.0, 2.0] * 5),)
    new, raised = group(CauseKind.NEW, 50, "tool:a", "tool:b"), group(CauseKind.PARAMETER, 40, "n")

    def blamed(*groups):
        return costliest_cause((replace(made.worse(), changes=(), lost=0, causes=groups, metrics=metrics),))[0].kind

    assert blamed(new, raised) is CauseKind.NEW
    assert blamed(new, raised, group(CauseKind.CROWDED, -20, "tool:a")) is CauseKind.PARAMETER
    assert blamed(new, raised, group(CauseKind.CROWDED, -20, "tool:other")) is CauseKind.NEW
    assert blamed(new, raised, group(CauseKind.CROWDED, -20)) is CauseKind.NEW  # of which is not known


def test_what_became_dearer_is_to_blame_for_tokens_and_for_nothing_else(made):
    assert costliest_cause((made.dearer(),))[0].kind is CauseKind.COSTS_MORE
    judged = (made.worse().metrics[0],)
    assert costliest_cause((replace(made.dearer(), metrics=judged),)) is None


def test_where_tokens_alone_decided_what_was_lost_within_the_allowance_is_not_the_headline(made):
    both = replace(made.dearer(), causes=(*made.worse().causes, *made.dearer().causes), lost=1, allowed=1)
    assert costliest_cause((both,))[0].kind is CauseKind.COSTS_MORE
    assert costliest_cause((replace(both, allowed=0),))[0].kind is CauseKind.EDITED
    assert costliest_cause((replace(both, metrics=(*both.metrics, *made.worse().metrics)),))[0].kind is CauseKind.EDITED


def test_though_counts_what_was_lost_and_gained_over_all_selectors(made):
    assert loss_note((made.same(), made.better())) == ""
    losing = replace(made.better(), changes=(made.LOST,), lost=1)
    assert loss_note((losing, made.same())) == (
        ", though 1 required item was lost and 2 gained: rule:code%20review (q2)"
    )
    assert loss_note((replace(losing, lost=2, gained=0),)).startswith(", though 2 required items were lost: ")


def test_half_a_reason_is_not_told_where_the_whole_stands_below(made):
    one = replace(made.worse(), reasons=("it failed on 12 queries, first q1: " + "why " * 60,), lost=0, causes=())
    assert summary_sentences((one,))[0].endswith(": it failed on 12 queries, first q1, as told below")
