"""What an answer costs where items are shown in part: in pins, causes, and baselines."""

from __future__ import annotations

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.baseline import write_baseline
from ctxbench.gate.baseline_reader import read_baseline
from ctxbench.gate.gate import SnapshotPairs, check
from ctxbench.gate.settings import CheckSettings, Pin
from ctxbench.gate.snapshots import answer_tokens, shown_tokens
from tests.gate.gate_cases import offered, snapshot

WHOLE = {"a": 100, "b": 100, "c": 100}


def part(name: str, score: float, tokens: int):
    return offered(name, score, span=(0, 3), tokens=tokens)


def side(*chosen):
    return snapshot({"q": list(chosen)}, required={"q": ["a"]}, tokens=WHOLE)


def checked(base, head, *pins):
    settings = CheckSettings(metrics=(parse_metric("completeness"),), pins=pins)
    return check(SnapshotPairs([(base, head)]), settings, name="g", base="b", head="h").selectors[0]


def test_a_part_costs_what_it_does_and_the_rest_the_whole():
    found = side(part("a", 0.9, 7), ("b", 0.8), offered("c", mode="always"))
    one, two, held = found.answers["q"].offered
    assert [shown_tokens(row, found) for row in (one, two, held)] == [7, 100, 100]
    assert answer_tokens(found.answers["q"], found) == 107
    assert answer_tokens(found.answers["q"], found, session=True) == 207


def test_a_pin_of_tokens_counts_what_is_shown():
    head = side(part("a", 0.9, 30), part("b", 0.8, 30))
    assert checked(head, head, Pin(query="q", at_most_tokens=60)).pins == ()
    (found,) = checked(head, head, Pin(query="q", at_most_tokens=50)).pins
    assert found.message.startswith("60 tokens offered, 10 too many")


def test_causes_say_what_the_parts_cost_that_came_and_went():
    base, head = side(part("a", 0.9, 30), part("b", 0.8, 40)), side(part("a", 0.9, 30), part("c", 0.8, 25))
    assert sum(one.tokens for one in checked(base, head).causes) == 25 - 40


def test_a_baseline_keeps_what_the_parts_cost(tmp_path):
    found = side(part("a", 0.9, 30), ("b", 0.8))
    write_baseline(tmp_path / "base", [found])
    (read,) = read_baseline(tmp_path / "base")
    assert answer_tokens(read.answers["q"], read) == answer_tokens(found.answers["q"], found) == 130
