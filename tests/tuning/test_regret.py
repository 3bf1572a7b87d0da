"""What the regret experiment sums up, by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages():
    sys.path.insert(0, str(ROOT / "experiments" / "tuning"))
    try:
        import regret_page
    finally:
        sys.path.remove(str(ROOT / "experiments" / "tuning"))
    return regret_page


def team(pages, dataset="a", n=50, gain=0.0, attainable=0.0, **given):
    usual = {"recommended": gain != 0, "harm": "", "counts": attainable >= 0.02}
    return pages.Team(dataset=dataset, n=n, gain=gain, attainable=attainable, **{**usual, **given})


def test_every_dataset_weighs_the_same(pages):
    one = [team(pages, gain=0.2, attainable=0.4), team(pages, attainable=0.4), team(pages, attainable=0.4)]
    other = [team(pages, "b", gain=0.1, attainable=0.2, harm="incomplete")]
    row = pages.Row.of([one, other])
    assert row.recommended == pytest.approx((1 / 3 + 1) / 2)
    assert row.harm == 0.5
    assert row.attained == pytest.approx((0.2 / 3 + 0.1) / (0.4 + 0.2))
    assert row.kinds == ("incomplete",)


def test_a_team_with_too_little_to_gain_counts_for_harm_alone(pages):
    row = pages.Row.of([[team(pages, gain=-0.5, attainable=0.01, harm="dear"), team(pages, gain=0.1, attainable=0.1)]])
    assert (row.harm, row.attained) == (0.5, 1.0)
    assert pages.Row.of([[team(pages)]]).attained is None


def test_the_page_begins_with_the_answer(pages):
    teams = [team(pages, n=n, gain=0.3, attainable=0.4) for n in (25, 50)] + [team(pages, "b", n=25)]
    text = pages.page(teams, start="semantic/spec", beside=["hybrid"], command="python x.py")
    answer = text.split("\n\n")[1]
    assert answer.startswith("**A team that follows the advice of `ctxbench tune` saves 15.0% of its prompt tokens")
    assert "(75% and 75% of what could be saved); the advice harms 0.0% of teams at most" in answer
    assert "among the settings of semantic, hybrid. Harm is 0.0% at most" in " ".join(text.split())
    assert "at its bar or above" in text
    assert "| b | 0%: - | too few left |" in text
    assert len(text.splitlines()) <= 100
