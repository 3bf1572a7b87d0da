"""One sentence of advice for each policy, read by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.bench.metrics import parse_metric
from ctxbench.report.tuning.advice import advice, answer, more
from ctxbench.report.tuning.tuning_console import console_table

recall_metric = parse_metric("recall")
VALUES = "calibrated with contextTopK 20, contextTopN 12, contextIncludeScore 0.7, contextMargin 0.15"
OFFERS = (
    # 320 against 550 tokens, +-20; 92.0 against 92.1 points, +-2
    f"normal: {VALUES} offers 41.8% fewer prompt tokens (−45.5 to −38.2) at −0.1 points of completeness (−2.1 to +1.9)"
)

FEW = "test queries are too few to confirm it"


@pytest.mark.parametrize(
    ("said", "ending"),
    [
        ("holds", "; it holds its target."),
        ("holds within 2 points", "; it holds its target within 2 points."),
        ("open", f"; it held its target on the tuning queries; the {FEW} (about 120 more labels would)."),
        ("too few to say", "; there are too few labels to say whether it holds its target."),
    ],
)
def test_what_is_recommended_says_what_it_costs_keeps_and_holds(made, said, ending):
    outcome = made.outcome(verdicts=(made.said(said, needed=120 if said == "open" else None),))
    assert advice(made.dataset(), outcome) == OFFERS + ending


def test_what_is_taken_from_a_stricter_policy_is_said(made):
    outcome = made.outcome(verdicts=(made.said("holds"),), taken_from="conservative")
    said = "; it is what conservative takes, which asks no less; it holds its target."
    assert advice(made.dataset(), outcome) == OFFERS + said


def test_without_constraints_nothing_is_said_of_targets(made):
    assert advice(made.dataset(), made.outcome(verdicts=())) == OFFERS + "."


def test_more_tokens_are_said_to_be_more(made):
    outcome = made.outcome(against={"defaults": made.changes((100.0, 150.0), (0.9, 0.95))})
    assert " offers 50.0% more prompt tokens (+30.0 to +70.0) at +5.0 points" in advice(made.dataset(), outcome)


def test_what_a_policy_betters_beside_completeness_and_tokens_is_told(made):
    recall = made.comparison(0.6, 0.75, 0.05)
    against = {"defaults": {**made.changes((550.0, 320.0), (0.921, 0.92)), "recall": recall}}
    policy = replace(made.WITHIN, objective=recall_metric)
    outcome = made.outcome(policy, verdicts=(), against=against)
    assert advice(made.dataset(), outcome).endswith("(−2.1 to +1.9); recall, points +15.0 (+10.0 to +20.0).")
    shown = console_table(made.tuning(made.dataset(outcomes=(outcome,))))
    assert "recall %       95.3" in shown  # on the tuning split; a third of the way from 0.93 to 1
    assert "recall, points +15.0 (+10.0 to +20.0)" in shown


def test_what_misses_its_target_on_the_test_split_is_not_recommended(made):
    outcome = made.outcome(verdicts=(made.said("missed"),))
    assert outcome.recommended is None
    assert advice(made.dataset(), outcome) == (
        f"normal: keep the default (documents' defaults); what was chosen, {VALUES}, misses completeness >= 0.9 of "
        "what is reachable at 20 items on the test split."
    )


def test_the_default_is_kept_with_how_many_labels_would_help(made):
    nothing, dataset = made.nothing(), made.dataset()
    kept = "normal: keep the default (documents' defaults); "
    assert (
        advice(dataset, nothing)
        == f"{kept}label about 300 to 640 more requests to tell whether a setting meets the target."
    )
    assert advice(dataset, replace(nothing, needed=None)) == f"{kept}more labels are unlikely to help."
    unanswered = replace(
        nothing, answered=False, reason="the labels cannot say: abstention applies to none of 9 queries"
    )
    assert advice(dataset, unanswered) == f"{kept}the labels cannot say: abstention applies to none of 9 queries."


def test_a_range_of_one_number_is_that_number():
    assert more((5, 5)) == "label about 5 more requests to tell whether a setting meets the target"
    assert more((101, 104)) == "label about 110 more requests to tell whether a setting meets the target"


def test_over_datasets_a_range_is_said_and_a_single_figure_once(made):
    kept = made.dataset(outcomes=(made.nothing(),))
    found = made.dataset(outcomes=(made.outcome(),))
    other = made.dataset(outcomes=(made.outcome(against={"defaults": made.changes((100.0, 150.0), (0.9, 0.95))}),))
    assert answer(made.tuning(kept)) == "normal: keep the default."
    assert answer(made.tuning(found)) == "normal: 41.8% fewer prompt tokens, −0.1 points of completeness."
    said = "normal: another setting than the default for"
    assert answer(made.tuning(kept, found)) == (
        f"{said} 1 of 2 datasets (−41.8% prompt tokens, −0.1 points of completeness)."
    )
    assert answer(made.tuning(found, other)) == (
        f"{said} 2 of 2 datasets (−41.8% to +50.0% prompt tokens, −0.1 to +5.0 points of completeness)."
    )
    assert answer(made.tuning(kept, kept)) == f"{said} 0 of 2 datasets."
