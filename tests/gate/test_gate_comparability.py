"""What can be compared: queries asked and labelled alike, whatever became of the catalog."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.baseline import without_texts
from ctxbench.gate.comparability import assess_comparability, unasked
from ctxbench.gate.settings import CheckSettings
from ctxbench.gate.snapshots import Unasked
from ctxbench.model.requests import SessionItem
from ctxbench.selectors.protocol import NOT_ASKED
from tests.gate.gate_cases import answer, identity, item, item_id, offered, snapshot

SETTINGS = CheckSettings()
LENIENT = CheckSettings(allow_removed=True)
ANSWERS = {"q1": ["a", "b"], "q2": ["b"], "q3": []}
NEEDS = {"q1": ["a"], "q2": [("b", "c")]}


def base(**given):
    """As a baseline is read."""
    return snapshot(ANSWERS, **{"required": NEEDS, "source": "gate.baseline", "judged": None, **given})


def now(**given):
    """As it is taken of a run."""
    return snapshot(ANSWERS, **{"required": NEEDS, **given})


def test_equal_snapshots_are_compared_on_all_queries():
    found = assess_comparability(base(), now(), SETTINGS)
    assert found.queries == ("q1", "q2", "q3")
    assert (found.left_out, found.reasons, found.renamed, found.notices) == ({}, (), {}, ())


def test_the_order_of_queries_and_items_is_that_of_the_head_and_decides_nothing():
    head = snapshot(
        dict(reversed(ANSWERS.items())), required=NEEDS, items=["c", "b", "a"] and {"c": "", "b": "", "a": ""}
    )
    found = assess_comparability(base(items={"a": "", "b": "", "c": ""}), head, SETTINGS)
    assert (found.queries, found.reasons) == (("q3", "q2", "q1"), ())


def test_tags_group_and_split_of_a_query_are_no_part_of_what_is_compared():
    head = now(queries={"q1": {"tags": ("x",), "group": "g", "split": "tuning"}})
    assert assess_comparability(base(), head, SETTINGS).queries == ("q1", "q2", "q3")


def test_new_queries_are_left_out_with_a_notice():
    head = snapshot({**ANSWERS, "q4": ["a"]}, required=NEEDS)
    found = assess_comparability(base(), head, SETTINGS)
    assert (found.queries, found.left_out, found.reasons) == (("q1", "q2", "q3"), {"new": ("q4",)}, ())
    assert found.notices == ("1 query not in gate.baseline, left out (q4); --accept adds them",)


@pytest.mark.parametrize(
    ("head", "why", "text"),
    [
        (lambda: snapshot({"q1": ["a"], "q3": []}, required=NEEDS), "removed", "gone: 1 query of gate.baseline (q2)"),
        (lambda: now(queries={"q2": {"text": "other"}}), "changed", "changed: 1 query of gate.baseline (q2)"),
        (lambda: now(required={"q1": ["a"], "q2": ["b"]}), "relabelled", "relabelled: 1 query of gate.baseline (q2)"),
        (lambda: now(queries={"q2": {"helpful": ["a"]}}), "relabelled", "relabelled: 1 query of gate.baseline (q2)"),
    ],
)
def test_queries_gone_changed_or_relabelled_are_not_comparable_unless_allowed(head, why, text):
    found = assess_comparability(base(), head(), SETTINGS)
    assert found.left_out == {why: ("q2",)}
    assert len(found.reasons) == 1
    assert text in found.reasons[0]
    assert "--accept" in found.reasons[0]
    assert "--allow-removed" in found.reasons[0]
    lenient = assess_comparability(base(), head(), LENIENT)
    assert (lenient.queries, lenient.reasons, lenient.left_out) == (("q1", "q3"), (), {why: ("q2",)})
    assert len(lenient.notices) == 1


def test_queries_that_are_not_asked_are_told_apart_from_those_that_are_gone():
    why = {"q2": Unasked("not labelled completely"), "q3": Unasked("in the unused split tuning")}
    head = snapshot({"q1": ["a"]}, required=NEEDS, unasked=why)
    found = assess_comparability(
        snapshot({**ANSWERS, "q4": []}, required=NEEDS, source="b", judged=None), head, LENIENT
    )
    assert found.left_out == {"removed": ("q2", "q3", "q4")}
    assert found.notices == (
        "not labelled completely now: 1 query of b (q2), left out",
        "in the unused split tuning now: 1 query of b (q3), left out",
        "gone: 1 query of b (q4), left out",
    )
    reasons = assess_comparability(base(), head, SETTINGS).reasons
    assert [reason.partition(";")[0] for reason in reasons] == [
        "not labelled completely now: 1 query of gate.baseline (q2)",
        "in the unused split tuning now: 1 query of gate.baseline (q3)",
    ]


def test_a_baseline_of_another_split_is_not_taken_for_one_of_another_dataset():
    why = dict.fromkeys(ANSWERS, Unasked("not in the sample"))
    (reason,) = assess_comparability(base(), snapshot({"x": []}, unasked=why), LENIENT).reasons
    assert reason.startswith("not in the sample now: 3 queries of gate.baseline (q1, q2, q3)")


def test_why_queries_are_not_asked():
    whole = now(queries={"q2": {"partly_labelled": True, "tags": ("x",)}}).judged
    unlabelled = Unasked("not labelled completely", labelled=False, tags=("x",))
    assert unasked(whole, whole) == {}
    assert unasked(whole, whole.judged()) == {"q2": unlabelled}
    sample = Unasked("not in the sample")
    assert unasked(whole, whole.take(["q1"])) == {"q2": unlabelled, "q3": sample}
    splits = now(queries={"q1": {"split": "tuning"}, "q3": {"split": "tuning"}}).judged
    assert unasked(splits, splits.split("test")) == dict.fromkeys(["q1", "q3"], Unasked("in the unused split tuning"))


def test_queries_are_never_all_left_out():
    head = now(queries={name: {"text": "other"} for name in ANSWERS})
    assert "changed: 3 queries of gate.baseline" in assess_comparability(base(), head, LENIENT).reasons[0]


@pytest.mark.parametrize("settings", [SETTINGS, LENIENT])
def test_a_baseline_of_other_queries_is_of_another_dataset(settings):
    head = snapshot({"x1": ["a"], "x2": []})
    found = assess_comparability(base(), head, settings)
    assert len(found.reasons) == 1
    assert "no query of gate.baseline is in dataset d" in found.reasons[0]


def test_another_dataset_is_not_comparable_even_with_the_same_queries():
    found = assess_comparability(base(), now(dataset="e"), LENIENT)
    assert "gate.baseline is of dataset d, this run of e" in found.reasons[0]


def test_no_query_on_either_side_cannot_be_judged():
    assert "no labelled query" in assess_comparability(snapshot({}), snapshot({}), SETTINGS).reasons[0]


def test_a_query_without_an_answer_is_never_the_same():
    head = snapshot({**ANSWERS, "q2": None, "q3": None}, required=NEEDS)
    for pair in ((base(), head), (head, now())):
        reasons = assess_comparability(*pair, SETTINGS).reasons
        assert reasons == ("2 queries without an answer in this run (q2, q3); repeat the whole run",)


def test_a_query_that_the_selector_failed_on_is_never_the_same_not_even_a_new_one():
    head = snapshot({**ANSWERS, "q4": answer("q4", error="time-out")}, required=NEEDS)
    reasons = assess_comparability(base(), head, SETTINGS).reasons
    assert reasons == ("s failed on 1 query in this run, first q4: time-out; fix the selector and run it again",)


def test_how_many_were_not_asked_after_a_selector_fell_silent_is_said():
    errors = {"q2": "query 'q2': no answer within 1 s", **dict.fromkeys(("q3", "q4"), f"{NOT_ASKED}1 query in a row")}
    head = snapshot({**ANSWERS, **{name: answer(name, error=text) for name, text in errors.items()}}, required=NEEDS)
    (reason,) = assess_comparability(base(), head, SETTINGS).reasons
    assert reason == (
        "s failed on 3 queries in this run, 2 of them skipped after the others, first q2: no answer within 1 s; "
        "fix the selector and run it again"
    )


def test_what_failed_in_a_baseline_counts_only_where_it_is_compared():
    failed = snapshot({**ANSWERS, "q4": answer("q4", error="time-out")}, required=NEEDS)
    assert assess_comparability(failed, now(), LENIENT).reasons == ()
    assert "failed on 1 query" in assess_comparability(failed, failed, LENIENT).reasons[0]


def test_two_runs_are_not_told_to_write_a_baseline():
    reasons = assess_comparability(now(), snapshot({"q1": ["a"]}, required=NEEDS), SETTINGS).reasons
    assert reasons == ("gone: 2 queries of this run (q2, q3); run both again, or leave them out with --allow-removed",)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (answer("q1", [("a", float("nan"))]), "the score of tool:s:a in this run is not finite"),
        (answer("q1", ["a"], [("b", float("inf"))]), "the score of tool:s:b in this run is not finite"),
        (answer("q1", [("a", 0.5), ("a", 0.4)]), "tool:s:a occurs twice in this run"),
    ],
)
def test_scores_that_are_no_numbers_and_items_twice_cannot_be_judged(wrong, text):
    head = snapshot({**ANSWERS, "q1": wrong}, required=NEEDS)
    assert text in assess_comparability(base(), head, SETTINGS).reasons[0]
    assert text in assess_comparability(head, base(), SETTINGS).reasons[0]


def test_an_offer_that_the_catalog_lacks_cannot_be_judged():
    head = now()
    odd = replace(head, answers={**head.answers, "q1": answer("q1", ["z"])})
    assert "this run offers tool:s:z, which its catalog lacks" in assess_comparability(odd, base(), SETTINGS).reasons[0]


def test_another_counter_cannot_judge_tokens_but_all_else():
    head = now(identity=identity(tokens="chars/4"))
    reasons = assess_comparability(base(), head, SETTINGS).reasons
    assert len(reasons) == 1
    what = "so tokens and total_tokens cannot be compared"
    assert f"counted by o200k in gate.baseline and by chars/4 in this run, {what}" in reasons[0]
    assert assess_comparability(base(), head, CheckSettings(metrics=(parse_metric("recall"),))).reasons == ()


def test_a_metric_that_one_side_lacks_is_not_comparable_and_one_that_both_lack_is_not_judged():
    judged = CheckSettings(metrics=(parse_metric("recall"), parse_metric("nDCG@10")))
    found = assess_comparability(base(), now(), judged)
    assert (found.reasons, found.notices) == ((), ("nDCG@10 cannot be computed for this selector, and is not judged",))
    other = now(metrics={**base().metrics, parse_metric("nDCG@10"): base().metrics[parse_metric("recall")]})
    assert "has no values of nDCG@10" in assess_comparability(base(), other, judged).reasons[0]


# ---------------------------------------------------------------------------------------------- renames

OLD = [item("a", "Find a page."), item("b", "Send a mail."), item("c", "Say nothing.")]
NEW = [item("z", "Find a page."), *OLD[1:]]


def renamed(**given):
    return snapshot(
        {"q1": ["z", "b"], "q2": ["b"], "q3": []}, **{"items": NEW, "required": {**NEEDS, "q1": ["z"]}, **given}
    )


def test_labels_that_name_a_renamed_item_are_the_same():
    found = assess_comparability(base(items=OLD), renamed(), SETTINGS)
    assert (found.queries, found.reasons) == (("q1", "q2", "q3"), ())
    assert found.renamed == {item_id("a"): item_id("z")}
    assert [(notice.key, notice.values["pairs"]) for notice in found.notices] == [
        ("gate.items-renamed-unstated", "tool:s:a -> tool:s:z")
    ]


def test_sessions_and_lists_that_name_a_renamed_item_are_the_same():
    def asked(name):
        key = item(name).key
        return {
            "q1": {"session": (SessionItem(key),), "helpful": [name]},
            "q3": {"available": (key,), "explicit": (key,)},
        }

    one = base(items=OLD, queries=asked("a"), required={"q2": ["b"]})
    other = renamed(queries=asked("z"), required={"q2": ["b"]})
    assert assess_comparability(one, other, SETTINGS).queries == ("q1", "q2", "q3")


def test_a_label_that_differs_beside_a_renamed_one_is_relabelled():
    head = renamed(queries={"q1": {"helpful": ["c"]}})
    assert assess_comparability(base(items=OLD), head, SETTINGS).left_out == {"relabelled": ("q1",)}


def test_nothing_is_renamed_where_texts_are_kept_out():
    found = assess_comparability(without_texts(base(items=OLD)), renamed(), SETTINGS)
    assert (found.renamed, found.left_out) == ({}, {"relabelled": ("q1",)})


def stating(snapshot, **renames):
    """The snapshot with renames in the card of its dataset, by short names."""
    card = {item_id(old): item_id(new) for old, new in renames.items()}
    return replace(snapshot, judged=replace(snapshot.judged, about={"renames": card}))


def test_items_that_exchanged_their_names_are_the_same_where_it_is_stated_and_they_say_the_same():
    texts = {"a": "Wholly new words.", "b": "Quite other ones.", "c": "Stays."}
    before = snapshot({"q1": ["a"]}, required={"q1": ["a"]}, items=texts)
    swapped = snapshot({"q1": ["b"]}, required={"q1": ["b"]}, items={**texts, "a": texts["b"], "b": texts["a"]})
    both = {item_id("a"): item_id("b"), item_id("b"): item_id("a")}
    found = assess_comparability(before, stating(swapped, a="b", b="a"), SETTINGS)
    assert (found.renamed, found.left_out, found.reasons) == (both, {}, ())
    for head in (swapped, stating(swapped, a="b"), stating(swapped, a="b", b="b")):
        assert assess_comparability(before, head, SETTINGS).renamed == {}
    accepted = stating(swapped, a="b", b="a")
    assert assess_comparability(swapped, accepted, SETTINGS).renamed == {}  # the baseline has the new names
    half = snapshot({"q1": ["b"]}, required={"q1": ["b"]}, items={**texts, "b": texts["a"]})
    assert assess_comparability(before, stating(half, a="b", b="a"), SETTINGS).renamed == {}


def test_an_item_may_take_the_name_that_another_gave_up():
    before = snapshot({"q1": ["a"]}, required={"q1": ["a"]}, items={"a": "First words.", "b": "Other ones."})
    head = snapshot({"q1": ["b"]}, required={"q1": ["b"]}, items={"b": "First words.", "c": "Other ones."})
    found = assess_comparability(before, stating(head, a="b", b="c"), SETTINGS)
    assert found.renamed == {item_id("a"): item_id("b"), item_id("b"): item_id("c")}
    assert found.left_out == {}


@pytest.mark.parametrize("texts", [lambda side: side, without_texts], ids=["with texts", "without"])
def test_an_item_with_other_texts_is_the_same_one_if_the_card_says_so(texts):
    other = renamed(items=[item("z", "Wholly new words."), *OLD[1:]])
    assert assess_comparability(texts(base(items=OLD)), other, SETTINGS).left_out == {"relabelled": ("q1",)}
    found = assess_comparability(texts(base(items=OLD)), stating(other, a="z"), SETTINGS)
    assert (found.queries, found.reasons) == (("q1", "q2", "q3"), ())
    assert found.renamed == {item_id("a"): item_id("z")}
    assert found.notices == ("1 item renamed (tool:s:a -> tool:s:z)",)


def test_what_the_card_says_goes_before_equal_texts_and_of_two_with_one_successor_the_later_is_it():
    head = renamed(items=[item("z", "Send a mail."), item("y", "Find a page."), item("c", "Say nothing.")])
    found = assess_comparability(base(items=OLD), stating(head, older="z", b="z", a="z"), SETTINGS)
    assert found.renamed == {item_id("a"): item_id("z")}


def test_a_name_that_the_card_says_and_that_is_still_there_renames_nothing():
    assert assess_comparability(base(items=OLD), stating(now(items=OLD), a="b"), SETTINGS).renamed == {}


def test_a_text_that_several_new_items_have_names_no_successor():
    twins = [item("y", "Find a page."), *NEW]
    assert assess_comparability(base(items=OLD), renamed(items=twins), SETTINGS).renamed == {}


def test_what_the_session_offers_has_no_score():
    held = {"q1": [offered("a", mode="always"), "b"], "q2": ["b"], "q3": []}
    assert assess_comparability(snapshot(held, required=NEEDS), base(), SETTINGS).reasons == ()


@pytest.mark.parametrize("turned", [False, True])
def test_values_that_vanish_from_many_queries_are_told(turned):
    recall = parse_metric("recall")
    full = snapshot({f"q{i:02}": [] for i in range(40)}, metrics={recall: np.ones(40)})

    def lacking(count):
        values = np.where(np.arange(40) < count, np.nan, 1.0)
        return (replace(full, metrics={recall: values}), full)[:: 1 if turned else -1]

    judged = CheckSettings(metrics=(recall,))
    assert assess_comparability(*lacking(2), judged).notices == ()  # 5%
    gone = "0 only before, 3 only now" if turned else "3 only before, 0 only now"
    (notice,) = assess_comparability(*lacking(3), judged).notices
    assert f"some of 40 queries ({gone}; q00, q01, q02)" in notice
    nothing = lacking(40)[0 if turned else 1]
    assert assess_comparability(nothing, nothing, judged).notices == ()
    failed = {name: answer(name, error="time-out") for name in full.queries}
    with_failures = snapshot(failed, metrics=nothing.metrics)
    sides = (with_failures, full) if turned else (full, with_failures)
    assert assess_comparability(*sides, judged).notices == ()  # the reasons name the failed queries
