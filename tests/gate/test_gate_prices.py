"""What offers cost: judged with what the session holds and without, and explained by the items that cost otherwise."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.differences import with_prices
from ctxbench.gate.gate import SnapshotPairs, check
from ctxbench.gate.results import CauseKind, TokenChange, Verdict
from ctxbench.gate.settings import CheckSettings
from ctxbench.model.candidates import MARGIN, Candidates
from ctxbench.model.items import Catalog
from ctxbench.pipelines.strategies.rank import WAIVED, Price
from tests.gate.cause_cases import as_baseline, scored
from tests.gate.gate_cases import identity, item, item_id, offered, snapshot

TOKENS, TOTAL = map(parse_metric, ("tokens", "total_tokens"))
A, B, C = map(item_id, "abc")


def only(base, head, **given):
    (one,) = check(SnapshotPairs([(base, head)]), CheckSettings(**given), name="g", base="a", head="b").selectors
    return one


def verdicts(one):
    return {judged.metric: judged.verdict.value for judged in one.metrics}


# ------------------------------------------------------------------------------------------------------ what is judged


def test_an_item_that_is_moved_to_always_makes_the_search_cheaper_and_the_prompt_dearer():
    """40 queries, of which 10 found `a`, which costs 500: 10 x 500 before, 40 x 500 after."""
    queries = [f"q{n:02}" for n in range(40)]
    found = {query: ["a", "b"] if n < 10 else ["b"] for n, query in enumerate(queries)}
    sent = {query: [offered("a", mode="always"), ("b", 0.8)] for query in queries}
    cost = {"tokens": {"a": 500}, "required": {query: ["b"] for query in queries}}
    base = snapshot(found, items=[item("a"), item("b")], **cost)
    one = only(base, snapshot(sent, items=[item("a", include="always"), item("b")], **cost))
    assert verdicts(one) == {"completeness": "same", "recall": "same", "tokens": "better", "total_tokens": "worse"}
    assert one.verdict is Verdict.WORSE
    assert one.reasons[0].startswith("total_tokens 135 -> 510 (+375), more than the tolerance of 6.8 tokens")
    (group,) = one.causes
    assert (group.cause.subjects, group.cause.detail, group.tokens) == ((A,), "include agent -> always", 30 * 500)


def amounts(values, more=0.0):
    columns = np.asarray(values, dtype=np.float64)
    return snapshot({f"q{n}": [] for n in range(len(values))}, metrics={TOKENS: columns, TOTAL: columns + more})


def test_tokens_that_differ_alike_with_the_session_and_without_are_one_comparison():
    base = amounts([100.0] * 50, more=300.0)
    head = amounts([100.0 + n % 7 for n in range(50)], more=300.0)
    alone = only(base, head, metrics=(TOKENS,)).metrics[0]
    tokens, total = only(base, head, metrics=(TOKENS, TOTAL)).metrics
    assert tokens.comparison == alone.comparison
    assert total.comparison == replace(alone.comparison, base=400.0, other=total.comparison.other)
    assert (total.comparison.other, total.head.value) == (pytest.approx(402.94),) * 2
    assert (tokens.tolerance, total.tolerance) == (pytest.approx(5.0), pytest.approx(20.0))
    other = replace(head, metrics={**head.metrics, TOTAL: head.metrics[TOTAL] - np.arange(50) % 2})
    separate = only(base, other, metrics=(TOKENS, TOTAL)).metrics
    assert separate[1].comparison.p > alone.comparison.p  # so the correction doubles the p-value of the tokens
    assert separate[0].comparison.p_holm == pytest.approx(2 * alone.comparison.p_holm)


def test_a_baseline_or_run_that_does_not_say_what_it_costs_is_judged_all_the_same():
    given = {"items": [item("a", include="always"), item("b")], "tokens": {"a": 7}}
    made = snapshot({"q1": [offered("a", mode="always"), ("b", 0.5)], "q2": []}, **given)
    lacking = replace(made, metrics={})
    assert with_prices(lacking).metrics[TOKENS].tolist() == made.metrics[TOKENS].tolist() == [10.0, 0.0]
    assert with_prices(lacking).metrics[TOTAL].tolist() == made.metrics[TOTAL].tolist() == [17.0, 0.0]
    assert with_prices(made) is made
    often = replace(lacking, repeats=3)  # whose values are means over what is not known
    assert with_prices(often) is often


# ------------------------------------------------------------------------------------------------- what costs otherwise


def desk(tokens, answers=None, **given):
    parts = {"items": {"a": given.pop("text", "a"), "b": "b", "c": "c"}, "tokens": tokens}
    return snapshot(answers or {"q1": ["a", "b"], "q2": ["b", "a"], "q3": ["c"]}, **{**parts, **given})


def test_items_that_cost_more_where_they_are_offered_as_before_are_a_cause_what_adds_most_first():
    one = only(desk({"a": 10, "b": 10, "c": 10}), desk({"a": 30, "b": 50, "c": 9}, text="a, and more"))
    assert one.token_changes == (
        TokenChange(item=B, base=10, head=50, queries=("q1", "q2"), why="counted differently"),
        TokenChange(item=A, base=10, head=30, queries=("q1", "q2"), why="description edited"),
        TokenChange(item=C, base=10, head=9, queries=("q3",), why="counted differently"),
    )
    assert [found.tokens for found in one.token_changes] == [80, 40, -1]
    dearer, cheaper = one.causes
    assert (dearer.cause.kind, dearer.cause.subjects) == (CauseKind.COSTS_MORE, (B, A))
    assert (dearer.cause.detail, dearer.tokens, dearer.queries) == (
        "2 items cost more prompt tokens",
        120,
        ("q1", "q2"),
    )
    assert (cheaper.cause.kind, cheaper.cause.detail) == (
        *(CauseKind.COSTS_LESS, "10 -> 9 prompt tokens, counted differently"),
    )
    assert one.changes == ()


def test_what_nobody_is_offered_costs_nothing_and_what_costs_the_same_is_no_cause():
    assert only(desk({"a": 1}), desk({"a": 1}, text="a, and more")).token_changes == ()
    nobody = {"q1": ["b"]}
    assert only(desk({}, nobody), desk({"a": 99}, nobody, text="a, and more")).causes == ()


def test_another_counter_makes_no_item_dearer():
    head = desk({"a": 99}, identity=identity(tokens="chars/4"))
    assert only(desk({}), head, metrics=()).token_changes == ()


def test_a_renamed_item_is_the_same_item():
    text = "what it does, at some length, so that it is known again"
    base = snapshot({"q": ["a"]}, items={"a": text}, tokens={"a": 10})
    head = snapshot({"q": ["new_a"]}, items={"new_a": text}, tokens={"new_a": 12})
    (found,) = only(base, head).token_changes
    assert (found.item, found.base, found.head) == (item_id("new_a"), 10, 12)


@st.composite
def sides(draw):
    """Up to 6 queries that are offered some of four items at prices of their own, on either side."""
    queries = [f"q{n}" for n in range(draw(st.integers(1, 6)))]
    found = []
    for side in "xy":
        prices = {name: draw(st.integers(1, 50)) for name in "abcd"}
        answers = {
            query: [
                offered(name, mode="always") if draw(st.booleans()) else (name, round(0.9 - n / 10, 1))
                for n, name in enumerate(draw(st.lists(st.sampled_from("abcd"), unique=True)))
            ]
            for query in queries
        }
        items = {name: f"{side} {name}" for name in "abcd"}
        found.append(snapshot(answers, items=items, tokens=prices))
    return found


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(sides())
def test_the_causes_add_up_to_what_is_paid_more(drawn):
    base, head = drawn
    one = only(base, head)
    more = head.metrics[TOTAL].sum() - base.metrics[TOTAL].sum()
    assert sum(group.tokens for group in one.causes) == more


# --------------------------------------------------------------------------------------------------- what fixes cost

ROWS = {f"q{n:02}": {"a": 0.9, "b": 0.8 + n / 1000, "c": 0.7, "d": 0.6} for n in range(20)}
NEEDS = {
    "required": {query: ["b"] for query in ROWS},
    "values": {"n": 2},
    "tokens": {"a": 10, "b": 20, "c": 40, "x": 70},
}


def asked(rows, refine, **given):
    return with_prices(scored(rows, refine, **{**NEEDS, **given}))


def fixes(base, head, **given):
    """What is said to fix the causes that lost something."""
    return [one.fix for one in only(with_prices(as_baseline(base)), head, **given).causes if one.lost]


def test_what_a_remedy_costs_is_what_the_selector_costs_with_it():
    base, crowded = asked(ROWS, [{"first": {"n": 2}}]), {query: {**row, "x": 0.89} for query, row in ROWS.items()}
    (found,) = fixes(base, asked(crowded, [{"first": {"n": 2}}]))
    worse = "which is worse: at most 1.5 tokens more than the baseline's 30 are tolerated"
    assert str(found) == f"raise n to 3 (80 -> 100 prompt tokens on average, {worse})"
    assert asked(crowded, [{"first": {"n": 3}}]).metrics[TOKENS].mean() == 100


def test_setting_a_parameter_back_has_its_price_too_and_within_the_tolerance_no_warning():
    base, narrow = asked(ROWS, [{"first": {"n": 2}}]), asked(ROWS, [{"first": {"n": 1}}], values={"n": 1})
    (found,) = fixes(base, narrow)
    assert str(found) == "set n back to 2 (10 -> 30 prompt tokens on average)"


def test_no_price_is_said_that_a_replay_does_not_give():
    base, crowded = asked(ROWS, [{"first": {"n": 2}}]), {query: {**row, "x": 0.89} for query, row in ROWS.items()}
    head = asked(crowded, [{"first": {"n": 2}}])
    other = replace(head.answers["q00"], near=head.answers["q00"].near[:1], offered=head.answers["q00"].offered[:1])
    odd = replace(head, answers={**head.answers, "q00": other})
    assert "raise n to 3" in map(str, fixes(base, odd))
    completeness = (parse_metric("completeness"),)
    assert [one.price for one in fixes(base, head, metrics=completeness)] == [""]  # tokens are not judged


# ------------------------------------------------------------------------------------- scores at another token count

ODDS = st.lists(st.tuples(st.floats(-6, 6), st.integers(0, 20_000)), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(ODDS, st.integers(0, 20_000), st.sampled_from([None, 0.5, 1.25, 4.0]))
def test_the_score_at_another_token_count_is_that_of_the_step(items, after, sure):
    """Of the first item; where it was first only because it leads, its score with fewer tokens is at least this."""
    step, odds = Price(sure=sure), [item[0] for item in items]
    tokens = [item[1] for item in items]
    scores, waived = priced(step, odds, tokens)
    expected, _ = priced(step, odds, [after, *tokens[1:]])
    others = list(zip(expected[1:], tokens[1:], strict=True))
    found = step.score_at(scores[0], tokens[0], after, others)
    if waived[0] and after < tokens[0]:
        assert max((score for score, _ in others), default=-np.inf) < found <= expected[0] + 3 * MARGIN
    elif not any(waived[1:]):
        assert found == pytest.approx(expected[0], abs=3 * MARGIN)


def priced(step, odds, tokens):
    """The scores of the step `price`, and which were waived, in the order of the items."""
    catalog = Catalog([item(f"i{n}") for n in range(len(odds))])
    table = Candidates.build(
        1,
        np.zeros(len(odds), dtype=np.int64),
        np.arange(len(odds), dtype=np.int64),
        score=1 / (1 + np.exp(-np.array(odds))),
    )
    query = SimpleNamespace(batch=SimpleNamespace(catalog=catalog))
    resources = SimpleNamespace(tokens=lambda _catalog, _items: np.array(tokens))
    after = step(query, table, resources)
    order = np.argsort(after.item)
    flags = after.columns.get(WAIVED, np.zeros(len(odds)))
    return after.score[order].tolist(), (flags[order] == 1).tolist()
