"""Figures of a tuning in words: each read by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.report import tuning_tables

COMPLETE, TOKENS = parse_metric("completeness"), parse_metric("tokens")


def test_a_mean_has_its_interval_and_nothing_is_a_dash(made):
    found = {"completeness": made.estimate(0.931, 0.02), "tokens": made.estimate(1234.4, 100.0, holds=False)}
    assert tuning_tables.estimate_text(found, COMPLETE) == "93.1 (91.1–95.1)"
    assert tuning_tables.estimate_text(found, TOKENS) == "1,234 (1,134–1,334~)"
    assert tuning_tables.estimate_text({}, COMPLETE) == "-"
    assert tuning_tables.estimate_text({"completeness": made.estimate(0.9, 0.1, n=0)}, COMPLETE) == "-"
    assert tuning_tables.estimate_text({"completeness": made.estimate(math.nan, 0.1)}, COMPLETE) == "-"


def test_tokens_change_by_per_cent_of_the_other_side_and_shares_by_points(made):
    # (320 - 500) / 500 = -36%, and its ends (-180 -+ 20) / 500
    found = made.changes((500.0, 320.0), (0.921, 0.92))
    assert tuning_tables.change_text(found, TOKENS) == ("−36.0% (−40.0 to −32.0)", "p=0.0004")
    assert tuning_tables.change_text(found, COMPLETE) == ("−0.1 (−2.1 to +1.9)", "not significant")


def test_a_change_from_nothing_or_of_nothing_is_a_dash(made):
    assert tuning_tables.change_text({"tokens": made.comparison(0.0, 10.0, 1.0)}, TOKENS) == ("-",)
    assert tuning_tables.change_text({"tokens": made.comparison(1.0, 10.0, 1.0, n=0)}, TOKENS) == ("-",)
    assert tuning_tables.change_text({}, TOKENS) == tuning_tables.change_text(None, TOKENS) == ("-",)


def test_an_interval_without_ends_says_so(made):
    found = {"tokens": made.comparison(100.0, 90.0, math.inf), "completeness": made.comparison(0.9, 0.9, math.inf)}
    assert tuning_tables.change_text(found, TOKENS)[0] == "−10.0% (−∞ to ∞)"
    assert tuning_tables.change_text(found, COMPLETE)[0] == "0.0 (−∞ to ∞)"


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0.0%"), (-0.0001, "0.0%"), (0.5, "+50.0%"), (-12.0, "−1,200.0%"), (math.nan, "-"), (-math.inf, "−∞")],
)
def test_per_cent_has_a_sign_unless_it_is_none(share, text):
    assert tuning_tables.percent(share) == text


def test_a_policy_is_a_sentence(made):
    assert tuning_tables.policy_text(made.NORMAL) == (
        "least prompt tokens with completeness >= 0.9 of what is reachable at 20 items"
    )
    assert tuning_tables.policy_text(made.WITHIN) == "most completeness with tokens <= 4000"
    assert (
        tuning_tables.policy_text(made.WITHIN.model_copy(update={"constraints": ()}))
        == "most completeness, without constraints"
    )


def test_why_the_default_is_kept(made):
    nothing = made.nothing()
    assert tuning_tables.default_text(nothing) == (
        "keep the default: 49 queries are too few to tell that the constraint is met"
    )
    assert (
        tuning_tables.default_text(replace(nothing, reason="No setting is good."))
        == "keep the default: No setting is good"
    )
    assert (
        tuning_tables.default_text(replace(nothing, reason=""))
        == "keep the default: no setting is clearly better on these queries"
    )


def test_what_misses_its_target_on_the_test_split_is_said_not_to_be_recommended(made):
    outcome = made.outcome()
    values = "calibrated: contextTopK 20, contextTopN 12, contextIncludeScore 0.7, contextMargin 0.15"
    assert tuning_tables.choice_text(outcome, outcome.chosen) == values
    missed = replace(outcome, verdicts=(made.said("missed"),))
    assert tuning_tables.choice_text(missed, missed.chosen) == f"keep the default: {values} misses its target"


def test_the_target_says_what_it_would_cost_to_know_more(made):
    outcome, said, text = made.outcome(), made.said, tuning_tables.target_text
    assert text(outcome) == "holds"
    assert text(replace(outcome, verdicts=(said("missed"), said("open", needed=9)))) == "missed"
    two = (said("holds"), said("open", needed=120), said("open", needed=371))
    assert text(replace(outcome, verdicts=two)) == "open; about 380 more labels would tell"
    assert text(replace(outcome, verdicts=(said("open"),))) == "open; more labels hardly would tell"
    assert text(replace(outcome, verdicts=())) == "-"
    assert (
        text(replace(outcome, verdicts=(), policy=made.NORMAL.model_copy(update={"constraints": ()}))) == "none to hold"
    )
    nothing = made.nothing()
    assert text(nothing) == "label about 300 to 640 more requests to tell whether a setting meets the target"
    assert text(replace(nothing, answered=False)) == "-"


def test_a_long_text_is_cut_on_one_line():
    assert tuning_tables.short_text("a  b\nc", 9) == "a b c"
    assert tuning_tables.short_text("abcdefgh", 5) == "abcd…"
    assert tuning_tables.short_text("abc  \u202e", 9) == "abc \ufffd"


def test_words_of_the_advice_and_p_values_are_explained_once(made):
    tuning = made.tuning()
    said = tuning_tables.terms(tuning)
    assert said.startswith("Fixed k: simply offer the first k of the base's ranking, with the best k.")
    assert said.endswith(
        "The base, or default, with which all is compared: semantic with the specification's defaults."
    )
    outcome = made.outcome()
    chosen = replace(outcome.chosen, values={"threshold": -9.0, "at_least": 4, "at_most": 5})
    named = tuning_tables.terms(made.tuning(made.dataset(outcomes=(replace(outcome, chosen=chosen),))))
    assert named.startswith(
        "at_most: most items offered. at_least: fewest. threshold: the lowest score that is offered. Fixed k: "
    )
    assert tuning_tables.terms(made.tuning(made.dataset(outcomes=()))) == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("learned, defaults", "learned with its defaults"),
        ("ours, first 5 of its ranking", "the first 5 that ours ranks"),
    ],
)
def test_what_the_base_is_stands_behind_the_advice(made, name, said):
    tuning = made.tuning(made.dataset(results=(made.contender(name, tuning_tables.DEFAULTS, (0.9, 200.0, 5.0)),)))
    assert f"The base, or default, with which all is compared: {said}." in tuning_tables.terms(tuning)


def test_p_values_are_explained_once(made):
    tuning = made.tuning()
    assert tuning_tables.p_words(tuning).startswith(
        "p: how often chance alone would give such a difference; up to 0.05"
    )
