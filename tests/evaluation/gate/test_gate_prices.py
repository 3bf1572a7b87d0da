"""What offers cost: judged with what the session holds and without."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ctxbench.evaluation.gate.checking import check
from ctxbench.evaluation.gate.model import Verdict
from ctxbench.evaluation.gate.prices import priced
from ctxbench.evaluation.gate.settings import Settings
from ctxbench.evaluation.metrics import parse_metric
from tests.evaluation.gate.gate_cases import item, item_id, offered, snapshot

TOKENS, TOTAL = map(parse_metric, ("tokens", "total_tokens"))
A = item_id("a")


def only(base, head, **given):
    (one,) = check([(base, head)], Settings(**given), name="g", base="a", head="b").selectors
    return one


def verdicts(one):
    return {judged.metric: judged.verdict.value for judged in one.metrics}


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
    assert one.reasons[0].startswith("total_tokens 135 -> 510 (+375), more than the 6.8 tokens tolerated")
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
    other = replace(head, metrics={**head.metrics, TOTAL: head.metrics[TOTAL] + np.arange(50) % 2})
    assert only(base, other, metrics=(TOKENS, TOTAL)).metrics[0].comparison.p_holm > alone.comparison.p_holm


def test_a_baseline_or_run_that_does_not_say_what_it_costs_is_judged_all_the_same():
    given = {"items": [item("a", include="always"), item("b")], "tokens": {"a": 7}}
    made = snapshot({"q1": [offered("a", mode="always"), ("b", 0.5)], "q2": []}, **given)
    lacking = replace(made, metrics={})
    assert priced(lacking).metrics[TOKENS].tolist() == made.metrics[TOKENS].tolist() == [10.0, 0.0]
    assert priced(lacking).metrics[TOTAL].tolist() == made.metrics[TOTAL].tolist() == [17.0, 0.0]
    assert priced(made) is made
    often = replace(lacking, repeats=3)  # whose values are means over what is not known
    assert priced(often) is often
