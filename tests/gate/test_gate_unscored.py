"""Selectors outside that give an order, or only what they chose: no score is made up for them, and causes are found."""

from __future__ import annotations

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.baseline import write_baseline
from ctxbench.gate.baseline_reader import read_baseline
from ctxbench.gate.gate import SnapshotPairs, check
from ctxbench.gate.results import Verdict
from ctxbench.gate.settings import CheckSettings, Pin
from ctxbench.model.candidates import Rule
from tests.gate.gate_cases import identity, item_id, offered, snapshot

A, B, C, X = map(item_id, "abcx")
NOT_CHOSEN = Rule.of("not_chosen")
OWN = identity(selector={"callable": "own.py:own"}, values={}, embedder="", external=True)
ITEMS = dict.fromkeys("abcd", "")


def ordered(chosen, others="", *, items=ITEMS, held=()):
    """What a selector answers that ranks and does not score: each letter an item."""
    rows = [offered(name, mode="always") for name in held] + [offered(name) for name in chosen]
    near = [offered(name, rule=NOT_CHOSEN) for name in others]
    return snapshot({"q": (rows, near)}, required={"q": ["b"]}, items=items, identity=OWN)


def only(base, head, **given):
    settings = CheckSettings(metrics=(parse_metric("completeness"),), **given)
    return check(SnapshotPairs([(base, head)]), settings, name="g", base="b", head="h").selectors[0]


def changes(base, head):
    return {
        (one.item, one.lost): (one.base_score, one.head_score, one.base_rank, one.head_rank, one.missed_by, one.rule)
        for one in only(base, head).changes
    }


def test_a_rank_is_said_and_no_score():
    assert changes(ordered("ab", "c", held="d"), ordered("ac", "db")) == {
        (item_id("d"), True): (None, None, None, 3, None, NOT_CHOSEN),
        (B, True): (None, None, 2, 4, None, NOT_CHOSEN),
        (C, False): (None, None, 3, 2, None, NOT_CHOSEN),
    }


def test_what_was_neither_chosen_nor_ranked_has_no_rank():
    assert changes(ordered("ab"), ordered("ca")) == {
        (B, True): (None, None, 2, None, None, None),
        (C, False): (None, None, None, 1, None, None),
    }


def test_what_came_in_front_is_found_by_the_order():
    head = ordered("ax", "bcd", items={**ITEMS, "x": ""})
    (lost,) = [one for one in only(ordered("ab", "cd"), head).changes if one.lost]
    assert (lost.cause.kind.value, lost.cause.subjects) == ("crowded out", (X,))
    assert lost.cause.detail == "1 new item ranked above it"


def test_nothing_is_a_swap_where_no_score_ties_it():
    one = only(ordered("ab", "cd"), ordered("ac", "bd"))
    assert (one.swaps, one.lost, one.notices[-1].key) == ((), 1, "gate.external-nondeterministic")


def test_a_pin_names_the_rule_alone():
    one = only(
        ordered("ab", "cd"), ordered("ab", "cd"), pins=(Pin(query="q", must_include=(C,), must_not_include=(A,)),)
    )
    assert [failure.message.partition(";")[0] for failure in one.pins] == [
        f"{C} is not offered: ranked by the selector, not chosen",
        f"{A} is offered (search)",
    ]


def test_a_baseline_keeps_the_order_and_no_scores(tmp_path):
    base = ordered("ba", "c", held="d")
    write_baseline(tmp_path / "b", [base])
    line = (tmp_path / "b" / "d" / "s.jsonl").read_text()
    assert f'"offered":[["{B}",null],["{A}",null]]' in line
    (read,) = read_baseline(tmp_path / "b")
    for side in ("offered", "near"):
        got, given = ([(c.id, c.score) for c in getattr(one.answers["q"], side)] for one in (read, base))
        assert got == given
    assert only(read, base).verdict is Verdict.SAME
    done = write_baseline(tmp_path / "b", [base])
    assert done.written == ()
