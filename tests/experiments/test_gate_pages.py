"""The pages on the gate say what was measured, here of made-up figures."""

from __future__ import annotations

import gate_report
import pytest
from gate_chance import CHANCE, OTHER
from gate_chance import Cell as Simulated
from gate_edits import Named
from gate_harmless import TWINNED, Found, Rerun, rewordings
from gate_intervals_page import COVERAGE, DETECTABLE, HEADS, MADE_UP, NEEDED, NS
from gate_intervals_page import page as intervals_page
from gate_power import Cell, Power
from gate_price import Cost, Price
from gate_world import ALLOWANCES, OWN, Loss

from ctxbench.gate.results import Verdict
from ctxbench.report.pages import parted, titles


def found(verdict=Verdict.SAME, net=0):
    losses = (Loss(net, 100, by_metrics=False),)
    return Found((verdict,), changed=1, swapped=2, lost=1, gained=0, allowed=(1,), net=(net,), losses=losses)


def cell(right):
    allowing = dict.fromkeys(ALLOWANCES, right)
    return Cell(draws=100, worse=right, right=right, net=3, by_facts=0, by_metrics=0, allowing=allowing, other={})


def power(fault, dataset, *rights):
    cells = {("s/normal", n): cell(right) for n, right in zip(NS, rights, strict=True)}
    whole = {"s/normal": ("worse", 4, "chunker")}
    return Power(dataset=dataset, fault=fault, about="made", cells=cells, whole=whole, agreed=2, compared=2)


def simulated(repeats, chance, by_facts=0.1):
    single = dict.fromkeys(("completeness", "recall", "tokens"), 0.01)
    covered = dict.fromkeys(single, 0.95)
    return Simulated(
        n=30, repeats=repeats, chance=chance, worse=0.01, better=0.02, single=single, covered=covered, by_facts=by_facts
    )


def edit(right):
    return Named(
        name="e", about="a", expected=("nothing", ()), verdict="worse", lost=1, gained=0,
        found=("nothing", (), ""), lost_labels=0, right=right, loss=Loss(1, 100, by_metrics=False),
    )  # fmt: skip


@pytest.fixture
def measured():
    draws = {n: [found(), found(Verdict.WORSE)] for n in NS}
    places = {(name, place): (found(), draws) for name, rows in rewordings().items() for place in (*range(2), None)}
    return gate_report.Measured(
        reruns={
            Rerun("workbench", "threads", 0): found(),
            Rerun("freight", "threads", 0): found(Verdict.WORSE),
            Rerun(TWINNED, "noise on scores", 0): found(),
        },
        rewordings=places,
        power=[power("chunker", "workbench", 10, 50, 96), power("chunker", "freight", 20, 40, 94),
               power("look-alikes", "freight", 1, 2, 3)],
        chance=[simulated(1, CHANCE, 0.3), simulated(3, CHANCE, 0.001), simulated(1, OTHER)],
        edits=[edit(True), edit(True), edit(False)],
        price=Price(unchanged=Cost(seconds=1, ratio=3.25, megabytes=90), touched=Cost(seconds=2, ratio=9, megabytes=95),
                    numpy=0.2, load=1.0),
    )  # fmt: skip


def test_the_page_on_the_gate_opens_with_its_answer_and_the_bars(measured):
    both = parted(gate_report.page(measured), gate_report.APART, name="gate")
    lines = both.page.splitlines()
    assert lines[0] == "# What the gate is worth"
    assert lines[2] == (
        "**`ctxbench check` calls 1 of 2 reruns with a harmless change worse, and 0 of 4 neutral rewordings; with 300 "
        "queries it calls planted faults of 0 of 2 kinds worse and names their cause first in at least 95 of 100 "
        "draws, and those of the others less often; it names the right cause of 2 of 3 edits by hand; where nothing "
        "changed "
        "it takes 3.2 times as long as a process that only imports numpy.**"
    )
    bars = {line.split(" | ")[0].strip("| "): line for line in lines if line.count(" | ") == 3}
    assert bars["False alarms, reruns"].endswith("| 1 of 2 worse, 1 not called the same | **does not hold** |")
    assert bars["Power"].endswith("| 1 of 2 rows of the five faults | **does not hold** |")
    assert bars["Price in memory"] == "| Price in memory | under 300 MB | 95 MB | holds |"
    assert "* Power: below it are chunker, freight, s/normal (94)." in lines
    assert "| chunker | yes | 10 | 40 | 94 |" in lines
    assert "| look-alikes | no | 1 | 2 | 3 |" in lines
    assert len(OWN) == 2
    assert titles(both.tables) == list(gate_report.APART)


def test_the_page_on_intervals_gives_the_least_and_the_most():
    rows = {
        COVERAGE: [
            ["d", "recall", "30", "1x", "0.1 -> 0.1", "60.0%", "94.0%", "95.0%", "1.2", "3.0%"],
            ["d", "recall", "30", "1x", "0 -> 0.1", "100.0%", "100.0%", "-", "1.2", "9.0%"],
        ],
        MADE_UP: [["e", "30", "1", "9.0%", "70.0%", "80.0%", "-"], ["e", "30", "2", "50.0%", "-", "60.0%", "9.5%"]],
        DETECTABLE: [["d", "tokens", "30", "0", "9%", "0.4", "-"], ["d", "tokens", "30", "0", "9%", "0.4", "81.0%"]],
        NEEDED: [["d", "recall", "0 -> 0.1", "1", "9", "66.0%", "-"]],
    }  # fmt: skip
    both = parted(intervals_page(rows, draws=400), list(HEADS), name="gate-intervals")
    lines = both.page.splitlines()
    assert lines[2] == (
        "**The 95% interval that `ctxbench check` prints beside a difference holds the true difference in 94.0% to "
        "100.0% of simulated checks on the shipped datasets, where the intervals that it printed at first held it in "
        "60.0% to 100.0%; with made-up token counts that differ much it holds it in 60.0% at worst, and in 9.5% where "
        "it is not itself marked as carried by too few values.**"
    )
    assert "| recall | 30 | 60.0% to 100.0% | 94.0% to 100.0% | 95.0% to 95.0% | 3.0% to 3.0% |" in lines
    assert "| tokens | 30 | - | - | - | - |" in lines
    assert "| ... as it was at first? | 95% | 9.0% to 50.0% |" in lines
    assert titles(both.tables) == list(HEADS)
