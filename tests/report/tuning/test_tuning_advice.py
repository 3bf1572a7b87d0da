"""One sentence of advice for each policy, read by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.report.document import Bullets
from ctxbench.report.tuning_document import document
from ctxbench.report.tuning_tables import (
    advice,
    all_advice,
    all_results,
    answer,
    compared,
    console_table,
    gains,
    more_labels,
    presets,
    worst,
)
from ctxbench.tuning.policy import Policy

recall_metric = parse_metric("recall")
VALUES = "calibrated with contextTopK 20, contextTopN 12, contextIncludeScore 0.7, contextMargin 0.15"
OFFERS = (
    f"normal: {VALUES} offers all that is needed for 92.0% of requests at 320 tokens; semantic with the "
    "specification's defaults for 92.1% at 550 (completeness: not significant)"
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
    said = "; the setting of conservative, which is stricter; it holds its target."
    assert advice(made.dataset(), outcome) == OFFERS + said


def test_a_tie_names_the_selector_that_gave_way_and_the_labels_that_would_decide(made):
    outcome = made.outcome(tied_with="bm25")
    assert "; bm25 is not significantly better by tokens; " in advice(made.dataset(), outcome)
    replaced = replace(outcome, replaced=replace(outcome.chosen, selector="bm25"))
    assert advice(made.dataset(), replaced) == advice(made.dataset(), outcome)
    default = replace(made.nothing(), tied_with="bm25", reason="because of a tie", needed=(30, 70))
    assert "; because of a tie; label about 30 to 70 more requests" in advice(made.dataset(), default)
    assert advice(made.dataset(), replace(default, needed=None)).endswith("; because of a tie.")


def test_without_constraints_nothing_is_said_of_targets(made):
    assert advice(made.dataset(), made.outcome(verdicts=())) == OFFERS + "."


def test_more_tokens_are_said_to_be_more(made):
    outcome = made.outcome(against={"defaults": made.changes((100.0, 150.0), (0.9, 0.95))})
    said = "for 95.0% of requests at 150 tokens; semantic with the specification's defaults for 90.0% at 100"
    assert said in advice(made.dataset(), outcome)


def test_what_a_policy_betters_beside_completeness_and_tokens_is_told(made):
    recall = made.comparison(0.6, 0.75, 0.05)
    against = {"defaults": {**made.changes((550.0, 320.0), (0.921, 0.92)), "recall": recall}}
    policy = made.WITHIN.model_copy(update={"maximise": recall_metric})
    outcome = made.outcome(policy, verdicts=(), against=against)
    assert advice(made.dataset(), outcome).endswith("; recall, points +15.0 (+10.0 to +20.0).")
    shown = console_table(made.tuning(made.dataset(outcomes=(outcome,))))
    assert "recall %       95.3" in shown  # on the tuning split; a third of the way from 0.93 to 1
    assert "recall, points +15.0 (+10.0 to +20.0)" in shown


def test_a_long_name_of_a_metric_does_not_run_into_its_figures(made):
    policy = made.WITHIN.model_copy(update={"maximise": parse_metric("forbidden_offered")})
    shown = console_table(made.tuning(made.dataset(outcomes=(made.outcome(policy, verdicts=()),))))
    assert any(line.split()[:3] == ["forbidden_offered", "%", "-"] for line in shown.splitlines())


def test_what_misses_its_target_on_the_test_split_is_not_recommended(made):
    outcome = made.outcome(verdicts=(made.said("missed"),))
    assert outcome.recommended is None
    assert advice(made.dataset(), outcome) == (
        f"normal: keep the default (specification's defaults); what was chosen, {VALUES}, misses completeness >= 0.9 "
        "of what is reachable at 20 items on the test split."
    )


def test_the_default_is_kept_with_how_many_labels_would_help(made):
    nothing, dataset = made.nothing(), made.dataset()
    kept = "normal: keep the default (specification's defaults); "
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
    assert more_labels((5, 5)) == "label about 5 more requests to tell whether a setting meets the target"
    assert more_labels((101, 104)) == "label about 110 more requests to tell whether a setting meets the target"


def test_policies_that_keep_the_default_have_their_own_numbers(made):
    few = made.nothing()
    strict = replace(few, policy=Policy.of("strict", minimise=parse_metric("tokens")), needed=(7, 21))
    tuning = made.tuning(made.dataset(outcomes=(few, strict)))
    assert (
        answer(tuning)
        == advice_of(tuning)
        == (
            "normal and strict: keep the default (specification's defaults); normal: label about 300 to 640 more "
            "requests to tell whether a setting meets the target; strict: label about 7 to 21 more requests to tell "
            "whether a setting meets the target."
        )
    )
    lines = console_table(tuning).splitlines()
    assert [line.split()[0] for line in lines if line.startswith("    ") and ": keep the default: " in line] == [
        "normal:",
        "strict:",
    ]


def advice_of(tuning):
    (sentence,) = all_advice(tuning.datasets[0])
    return sentence


def test_over_datasets_a_range_is_said_and_a_single_figure_once(made):
    kept = made.dataset(outcomes=(made.nothing(),))
    found = made.dataset(outcomes=(made.outcome(),))
    other = made.dataset(outcomes=(made.outcome(against={"defaults": made.changes((100.0, 150.0), (0.9, 0.95))}),))
    assert answer(made.tuning(kept)) == (
        "normal: keep the default (specification's defaults); label about 300 to 640 more requests to tell whether a "
        "setting meets the target."
    )
    assert answer(made.tuning(found)) == f"{OFFERS.replace(VALUES, 'calibrated as tuned')}."
    said = "normal: a setting is better than the default on"
    offers = "where it offers all that is needed for"
    assert answer(made.tuning(kept, found)) == (
        f"{said} 1 of 2 datasets, {offers} 92.0% of requests at 320 tokens; the default for 92.1% at 550 "
        "(completeness: not significant)."
    )
    assert answer(made.tuning(found, other)) == (
        f"{said} 2 of 2 datasets, {offers} 92.0% to 95.0% of requests at 150 to 320 tokens; the default for 90.0% to "
        "92.1% at 100 to 550."
    )
    assert answer(made.tuning(kept, kept)) == f"{said} 0 of 2 datasets."


def test_the_answer_is_of_the_policy_normal_or_else_of_the_first_with_a_recommendation(made):
    normal, aggressive = made.outcome(), made.outcome(made.AGGRESSIVE, at=(0.85, 190.0, 3.2), values={"n": 2})
    within = made.nothing(made.WITHIN)
    for outcomes, name in (
        ((within, aggressive, normal), "normal"),
        ((within, aggressive), "aggressive"),
        ((within,), "within-4000"),
    ):
        tuning = made.tuning(made.dataset(outcomes=outcomes))
        assert answer(tuning).startswith(f"{name}: ")
        assert document(tuning).answer == answer(tuning)
        assert " ".join(console_table(tuning).split("\n\n")[0].split()) == answer(tuning)
    assert answer(made.tuning(made.dataset(outcomes=()))) == ""


def ships(made, *outcomes, at=(0.95, 700.0, 9.0), default=False, **given):
    """A dataset on which `learned/normal` competes."""
    preset = made.contender("learned/normal", "preset", at, selector="learned")
    found = made.dataset(outcomes=outcomes, **given)
    shipped = {"learned/normal": found.default if default else preset}
    return replace(found, results=(*found.results, preset), shipped=shipped)


@pytest.mark.parametrize(("complete", "gap"), [(0.93, 0.0), (0.932, 0.002), (0.98, 0.05), (0.5, 0.0)])
def test_what_is_less_complete_than_what_ships_says_so_at_once(made, complete, gap):
    outcome = made.outcome(at=(0.93, 320.0, 5.5))
    dataset = ships(made, outcome, at=(complete, 700.0, 9.0))
    assert dataset.shortfall(outcome) == pytest.approx(gap)
    said = f"learned/normal is {100 * gap:.1f} points more complete at 735 tokens"
    tuning = made.tuning(dataset)
    for sentence in (advice(dataset, outcome), answer(tuning), console_table(tuning).split("\n\n")[0]):
        assert (said in " ".join(sentence.split())) is (gap > 0)
        assert "Warning: " not in sentence, "the intervals overlap"


def test_what_is_far_less_complete_than_what_ships_is_a_warning(made):
    dataset = ships(made, made.outcome(at=(0.6, 120.0, 2.5)))
    assert "Warning: learned/normal is 35.0 points more complete" in answer(made.tuning(dataset))


def test_a_default_less_complete_than_what_ships_says_so_where_it_is_kept(made):
    outcome = made.nothing()
    dataset = ships(made, outcome, at=(0.95, 220.0, 4.0))
    assert "learned/normal is 4.0 points more complete at 231 tokens" in advice(dataset, outcome)
    assert "more complete" not in advice(ships(made, outcome, default=True), outcome)


def test_what_ships_is_called_as_it_ships(made):
    beaten = made.contender("normal, as tuned", "tuned", (0.9, 330.0, 5.0), values={"contextTopN": 7})
    outcome = made.outcome(shipped="learned/aggressive", replaced=beaten)
    said = advice(made.dataset(), outcome)
    assert said.startswith("normal: learned/aggressive as it ships (")
    assert "at least as complete as the tuned semantic with contextTopN 7" in said
    kept = replace(made.nothing(), replaced=beaten)
    assert "what was chosen, semantic with contextTopN 7, is no more complete" in advice(made.dataset(), kept)


def test_policies_that_come_to_the_same_share_a_sentence(made):
    normal = made.outcome()
    same = replace(made.outcome(made.AGGRESSIVE), chosen=replace(normal.chosen, name="aggressive"))
    lone = made.nothing(made.WITHIN)
    dataset = made.dataset(outcomes=(normal, lone, same))
    first, second = all_advice(dataset)
    assert first.startswith("normal and aggressive: calibrated with ")
    assert second.startswith("within-4000: keep the default")
    text = " ".join(console_table(made.tuning(dataset)).split())
    assert text.count("contextTopK 20, contextTopN 12") == 1, "with its figures, not in the answer"
    open_ = replace(same, verdicts=(made.said("open", needed=120),))
    (told, _) = all_advice(made.dataset(outcomes=(normal, lone, open_)))
    assert "; normal: it holds its target" in told
    assert "; aggressive: it held its target on the tuning queries" in told


def test_policies_that_come_to_the_same_share_their_rows(made):
    normal = made.outcome()
    same = replace(made.outcome(made.AGGRESSIVE), chosen=replace(normal.chosen, name="aggressive"))
    dataset = made.dataset(outcomes=(normal, same))
    assert [one.name for one in all_results(dataset) if one.role == "recommended"] == ["normal, aggressive"]
    for table in (presets, compared, gains, worst):
        rows = table(made.tuning(dataset)).rows
        assert len(rows) == 1
        assert "normal, aggressive" in rows[0]


def test_why_there_is_no_fixed_k_is_said(made):
    told = made.outcome(fixed=None, fixed_reason="no k keeps the rules")
    tuning = made.tuning(made.dataset(outcomes=(told,)))
    assert "no k keeps the rules" in console_table(tuning)
    bullets = [text for block in document(tuning).blocks() if isinstance(block, Bullets) for text in block.texts]
    assert any("no k keeps the rules" in text for text in bullets)
