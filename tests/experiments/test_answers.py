"""The sentence that a page opens with says what was found, here of made-up figures."""

from __future__ import annotations

from types import SimpleNamespace

import coverage_page
import domains_page
import regret_page


def compared(difference, *, told=True):
    return SimpleNamespace(difference=difference, significant=told)


def test_domains():
    budgets = [SimpleNamespace(dataset=name, gain=gain) for name, gain in
               (("a", compared(0.1)), ("a", compared(-0.05)), ("b", compared(0.0, told=False)))]  # fmt: skip
    assert domains_page.answer(SimpleNamespace(budgets=budgets)) == (
        "**Where tools are cut apart from rules and references and both share a budget, more requests get all that "
        "they require than with one ranking of all items for as many tokens at 1 of 3 budgets, and fewer at 1; the "
        "differences are −5.0 to +10.0 points (test splits of a and b).**"
    )


def test_coverage_of_what_tune_prints():
    spans = {coverage_page.TEST_SPLIT: "from 92 to 96%", coverage_page.TUNING_SPLIT: "from 88 to 95%",
             coverage_page.CONSTRAINTS: "from 93 to 99%"}  # fmt: skip
    found = [coverage_page.Verdict(of=of, between=between) for of, between in spans.items()]
    assert coverage_page.answer(found) == (
        "**Where `ctxbench tune` has chosen a setting, the 95% interval that it prints for the test split holds the "
        "truth from 92 to 96% of the time, and that for the tuning split, which the choice was made on, from 88 to "
        "95%; a constraint that it takes for met is met in truth from 93 to 99% of the time.**"
    )
    assert "| Test split of what was chosen | - | from 92 to 96% |  |" in list(coverage_page.verdicts(found))


def test_regret():
    def team(n, harm, gain):
        return regret_page.Team(dataset="a", n=n, recommended=True, harm=harm, gain=gain, attainable=0.5, counts=True)

    text = regret_page.page(
        [team(25, "", 0.0), team(400, "dear", 0.4), team(400, "", 0.4)],
        start="semantic/spec", beside=["learned"], command="python it",
    )  # fmt: skip
    assert text.splitlines()[2] == (
        "**A team that follows the advice of `ctxbench tune` saves 0.0% of its prompt tokens on requests that it did "
        "not label if it has labelled 25, and 40.0% if it has labelled 400 (0% and 80% of what could be saved); the "
        "advice harms 50.0% of teams at most, on average over datasets.**"
    )
    assert text.endswith("```sh\npython it\n```\n")
