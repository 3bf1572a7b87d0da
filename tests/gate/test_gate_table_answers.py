"""Answers kept as columns say the same as answers made one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ctxbench.evaluation.answers import Slice
from ctxbench.gate.snapshots import TableAnswers, failures, offered_ids
from ctxbench.model.candidates import Candidates, Mode, Origin, Rule
from ctxbench.model.items import Catalog
from tests.gate.gate_cases import answer, item, item_id

CATALOG = Catalog([item(name) for name in "abcd"])


@pytest.fixture
def answers():
    """q1 holds d and is offered b, a stays out; q2 has no candidate; q3 is offered c, and a and b stay out."""
    rows = [(0, 3, np.nan, 0), (0, 1, 0.9, 0), (0, 0, 0.5, 1), (2, 2, 0.8, 0), (2, 0, 0.3, 1), (2, 1, 0.3, 1)]
    request, at, score, out = (np.array(column) for column in zip(*rows, strict=True))
    held = np.isnan(score)
    table = Candidates.build(
        3,
        request,
        at,
        score=score,
        out=np.zeros(len(rows)),
        origin=np.where(held, Origin.SESSION, Origin.SEARCH),
        mode=np.where(held, Mode.MANUAL, Mode.AGENT),
    ).exclude(out == 1, "too far")
    whole = Slice(
        queries=("q1", "q2", "q3"),
        chunks=((), (), ()),
        candidates=table,
        ranked=True,
        scored=True,
        errors={},
        seconds=np.zeros(3),
    )
    return TableAnswers(CATALOG, whole, errors={"q2": "time-out"})


def test_facts_are_made_when_they_are_asked_for_and_kept(answers):
    fact = answers["q3"]
    assert [(one.id, one.score) for one in fact.offered] == [(item_id("c"), 0.8)]
    assert [(one.id, one.score, one.rule) for one in fact.near] == [
        (item_id("a"), 0.3, Rule("too far")),
        (item_id("b"), 0.3, Rule("too far")),
    ]
    assert answers["q3"] is fact
    assert (fact.query, fact.error, answers["q2"].error) == ("q3", "", "time-out")


def test_it_is_a_mapping_in_the_order_of_the_queries(answers):
    assert (list(answers), len(answers), "q1" in answers, "q9" in answers) == (["q1", "q2", "q3"], 3, True, False)
    assert answers.get("q9") is None
    with pytest.raises(KeyError):
        answers["q9"]


def test_ids_and_failures_are_those_of_the_facts(answers):
    plain = dict(answers)
    for query, fact in plain.items():
        assert offered_ids(answers, query) == offered_ids(plain, query) == [one.id for one in fact.offered]
    assert offered_ids(answers, "q1") == [item_id("d"), item_id("b")]
    assert offered_ids(answers, "q2") == []
    assert failures(answers) == failures(plain) == {"q2": "time-out"}
    assert failures({"q": answer("q")}) == {}


def test_a_selector_that_gives_an_order_has_no_scores():
    """q1 and q3 are answered by an order; q2 with scores, of which one happens to be -1."""
    rows = [(0, 1, -1.0, 0), (0, 0, -2.0, 1), (1, 2, 0.5, 0), (1, 0, -1.0, 1), (2, 3, -1.0, 0)]
    request, at, score, out = (np.array(column) for column in zip(*rows, strict=True))
    table = Candidates.build(3, request, at, score=score, out=np.zeros(len(rows))).exclude(out == 1, "not chosen")
    whole = Slice(
        queries=("q1", "q2", "q3"),
        chunks=((), (), ()),
        candidates=table,
        ranked=True,
        scored=False,
        errors={},
        seconds=np.zeros(3),
    )
    found = TableAnswers(CATALOG, whole, errors={})
    given = {name: [(one.id[-1], one.score) for one in (*fact.offered, *fact.near)] for name, fact in found.items()}
    assert given == {"q1": [("b", None), ("a", None)], "q2": [("c", 0.5), ("a", -1.0)], "q3": [("d", None)]}
    assert (found["q1"].score_of, found["q1"].near[0].rule) == ({}, Rule("not chosen"))
    scored = TableAnswers(CATALOG, replace(whole, scored=True), errors={})
    assert [one.score for one in scored["q1"].offered] == [-1.0]  # the selector says so
