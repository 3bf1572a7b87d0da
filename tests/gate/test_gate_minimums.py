"""Minimums of a gate: what they judge, where they are shown, and that no change can loosen them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
import yaml

from ctxbench.cli.app import main
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.gate import SnapshotPairs, accept, check, check_gate, pair_snapshots
from ctxbench.gate.history import stricter_settings
from ctxbench.gate.results import Loosened, Verdict
from ctxbench.gate.settings import CheckSettings, Minimum, examine_gate
from ctxbench.report.check_document import summary
from tests.checkout import Checkout
from tests.gate.gate_cases import snapshot
from tests.gate.gate_desk import Desk

COMPLETENESS = parse_metric("completeness")
REQUIRED = {f"q{n}": ["a"] for n in range(20)}


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    return Desk.make(tmp_path_factory.mktemp("accepted"))


@pytest.fixture
def desk(accepted, tmp_path):
    return accepted.copy(tmp_path / "desk")


def answers(complete):
    """Twenty queries, of which so many are complete."""
    return snapshot({f"q{n}": ["a"] if n < complete else ["b"] for n in range(20)}, required=REQUIRED)


def checked(minimums, base, head):
    settings = CheckSettings(metrics=(COMPLETENESS,), minimums=minimums)
    (one,) = check(SnapshotPairs([(base, head)]), settings, name="g", base="a", head="b").selectors
    return one


@pytest.mark.parametrize(
    ("least", "verdict"),
    [
        ({"value": 0.9}, Verdict.SAME),  # 18 of 20
        ({"value": 0.91}, Verdict.WORSE),
        ({"value": 0.9, "by": "lower"}, Verdict.WORSE),
        ({"value": 0.69, "by": "lower"}, Verdict.SAME),  # Wilson's interval begins at 0.699
    ],
)
def test_the_mean_or_the_lower_end_must_reach_it_although_nothing_changed(least, verdict):
    one = checked({COMPLETENESS: Minimum(**least)}, answers(18), answers(18))
    assert one.verdict is verdict
    assert bool(one.missed) is (verdict is Verdict.WORSE)
    assert [(judged.metric, judged.estimate.value) for judged in one.minimums] == [("completeness", 0.9)]


def test_it_does_not_excuse_what_is_worse_than_the_baseline():
    assert checked({COMPLETENESS: Minimum(value=0.5)}, answers(20), answers(12)).verdict is Verdict.WORSE


def test_queries_that_the_baseline_lacks_count():
    base = snapshot({"q0": ["a"]}, required={"q0": ["a"]})
    head = snapshot({"q0": ["a"], "q1": ["b"]}, required={"q0": ["a"], "q1": ["a"]})
    one = checked({COMPLETENESS: Minimum(value=0.9)}, base, head)
    assert (one.verdict, one.compared, one.missed[0].estimate.value) == (Verdict.WORSE, 1, 0.5)


def test_queries_of_one_group_count_as_few():
    queries = {f"q{n}": {"group": f"g{n // 10}"} for n in range(20)}
    offers = {f"q{n}": ["a"] if n < 18 else ["b"] for n in range(20)}
    grouped = snapshot(offers, required=REQUIRED, queries=queries)
    least = {COMPLETENESS: Minimum(value=0.69, by="lower")}
    assert checked(least, answers(18), answers(18)).verdict is Verdict.SAME
    assert checked(least, grouped, grouped).verdict is Verdict.WORSE


def test_a_metric_that_cannot_be_computed_misses_its_minimum():
    one = checked({parse_metric("R@5"): Minimum(value=0.1)}, answers(20), answers(20))
    assert one.verdict is Verdict.WORSE
    assert math.isnan(one.missed[0].estimate.value)
    assert [reason.code for reason in one.reasons] == ["CTX7120"]


def test_a_metric_that_applies_to_no_query_is_not_judged():
    nothing = snapshot({"q0": ["a"]})
    settings = CheckSettings(metrics=(COMPLETENESS,), minimums={COMPLETENESS: Minimum(value=0.9)})
    result = check(SnapshotPairs([(nothing, nothing)]), settings, name="g", base="a", head="b")
    assert (result.selectors[0].minimums, result.verdict) == ((), Verdict.SAME)
    assert [text.code for text in result.unjudged] == ["CTX7221"]
    assert "90" in (said := summary(result).about)
    assert "0 queries" in said
    assert checked({COMPLETENESS: Minimum(value=0.9)}, answers(20), answers(20)).notices == ()


@pytest.mark.parametrize(("complete", "verdicts"), [(17, ["same", "worse"]), (18, ["same"])])
def test_a_selector_that_the_baseline_lacks_must_reach_it(complete, verdicts):
    new = replace(answers(complete), selector="new")
    settings = CheckSettings(metrics=(COMPLETENESS,), minimums={COMPLETENESS: Minimum(value=0.9)})
    pairing = pair_snapshots([answers(18)], [answers(18), new])
    result = check(pairing, settings, name="g", base="a", head="b")
    assert [str(one.verdict) for one in result.selectors] == verdicts
    assert result.exit_code() == len(verdicts) - 1
    assert len(result.notices) == 1


# ---------------------------------------------------------------------------------------------- gate files


def read(desk):
    gate, faults = examine_gate(desk.gate)
    return gate.settings.minimums, [(fault.line, str(fault.message)) for fault in faults]


def test_the_forms_of_a_minimum(desk):
    desk.set(at_least={"completeness": 0.9, "R@5": "80%", "nDCG@10": {"value": 0.7, "by": "lower"}})
    minimums, faults = read(desk)
    assert faults == []
    assert {str(metric): str(minimum) for metric, minimum in minimums.items()} == {
        "R@5": "0.8",
        "completeness": "0.9",
        "nDCG@10": "0.7 by lower",
    }


@pytest.mark.parametrize(
    ("least", "part"),
    [
        ("{completenes: 0.9}", "completeness"),
        ("{completeness: 90}", "90%"),
        ("{completeness: yes}", "90%"),
        ("{completeness: [0.9]}", "90%"),
        ("{completeness: {value: 0.9, by: mean}}", "'value' or 'lower'"),
        ("{completeness: {by: lower}}", "value"),
        ("{completeness: {value: 0.9, bye: lower}}", "by"),
        ("{tokens: 0.5}", "must_not_include"),
        ("{nDCG@5: 0.5, nDCG@05: 0.5}", "twice"),
        ("0.9", "a mapping"),
    ],
)
def test_a_faulty_minimum_is_a_fault_with_its_line(desk, least, part):
    text = desk.gate.read_text("utf-8").replace("gate:\n", f"gate:\n  at_least: {least}\n")
    desk.gate.write_text(text, "utf-8")
    _, ((line, message),) = read(desk)
    assert (line, part in message) == (text[: text.index("at_least")].count("\n") + 1, True), message


# ---------------------------------------------------------------------------------------------- a check


def test_a_minimum_applies_at_once_and_an_accepted_baseline_does_not_lower_it(desk, capsys, monkeypatch):
    monkeypatch.chdir(desk.folder)
    desk.set(at_least={"R@1": 0.999, "completeness": 0.01})
    assert (desk.code(), [str(one.metric) for one in check_gate(desk.gate).check.selectors[0].missed]) == (1, ["R@1"])
    with pytest.raises(SystemExit) as caught:
        main(["check", "gate.yaml", "--accept"])
    assert caught.value.code == 0
    assert "below the minimum" in capsys.readouterr().out
    assert desk.code() == 1
    with pytest.raises(SystemExit):
        main(["check", "gate.yaml", "--accept", "--output-format", "json"])
    (missed,) = json.loads(capsys.readouterr().out)["missed"]
    assert (missed["dataset"], missed["metric"], missed["at_least"], missed["code"]) == (
        "data",
        "R@1",
        0.999,
        "CTX7219",
    )


@pytest.mark.parametrize(
    ("after", "loosened"),
    [
        (None, [Loosened("at_least R@5", "0.1 by lower")]),
        ({"R@5": 0.2}, [Loosened("at_least R@5", "0.1 by lower", "0.2")]),
        ({"R@5": {"value": 0.05, "by": "lower"}}, [Loosened("at_least R@5", "0.1 by lower", "0.05 by lower")]),
        ({"R@5": {"value": 0.2, "by": "lower"}}, []),
    ],
)
def test_a_change_cannot_loosen_its_minimums(desk, after, loosened):
    desk.set(at_least={"R@5": {"value": 0.1, "by": "lower"}})
    accept(desk.gate)
    assert desk.code() == 0
    desk.set(at_least=after)
    assert list(check_gate(desk.gate).check.loosened) == loosened
    assert desk.code() == (2 if loosened else 0)


def test_a_loosened_minimum_is_judged_as_it_was(desk):
    desk.set(at_least={"R@1": {"value": 0.999, "by": "value"}})
    accept(desk.gate)
    desk.set(at_least={"R@1": {"value": 0.01, "by": "lower"}})
    ((missed,),) = (one.missed for one in check_gate(desk.gate).check.selectors)
    assert missed.minimum == Minimum(value=0.999)


@pytest.mark.parametrize(
    ("now", "kept"),
    [
        (None, {"minimums": Minimum(value=0.75, by="lower")}),
        (Minimum(value=0.7), {"minimums": Minimum(value=0.75, by="lower")}),  # which implies it
        (Minimum(value=0.8, by="lower"), {"minimums": Minimum(value=0.8, by="lower")}),
        (Minimum(value=0.9), {"minimums": Minimum(value=0.9), "accepted_minimums": Minimum(value=0.75, by="lower")}),
    ],
)
def test_the_minimums_of_file_and_baseline_are_judged_unless_one_implies_the_other(now, kept):
    before = CheckSettings(minimums={COMPLETENESS: Minimum(value=0.75, by="lower")})
    current = CheckSettings(minimums={} if now is None else {COMPLETENESS: now})
    settings, loosened = stricter_settings(current, before, ())
    assert settings.minimums == {COMPLETENESS: kept["minimums"]}
    assert settings.accepted_minimums.get(COMPLETENESS) == kept.get("accepted_minimums")
    assert bool(loosened) is (now is None or kept["minimums"].by != now.by or "accepted_minimums" in kept)
    both = replace(settings, metrics=(COMPLETENESS,))
    (one,) = check(SnapshotPairs([(answers(20), answers(20))]), both, name="g", base="a", head="b").selectors
    assert (len(one.minimums), one.verdict) == (len(kept), Verdict.SAME)


def test_a_minimum_that_was_loosened_by_accepting_is_named(desk):
    desk.set(at_least={"R@5": 0.1})
    accept(desk.gate)
    Checkout(desk.folder).commit("Add the gate")
    desk.set(at_least=None)
    accept(desk.gate)
    result = check_gate(desk.gate).check
    assert (result.exit_code(), result.loosened) == (0, ())
    assert result.replacement.loosened == (Loosened("at_least R@5", "0.1"),)


def test_a_missed_minimum_is_in_every_output(desk, capsys, monkeypatch):
    monkeypatch.chdir(desk.folder)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    desk.set(at_least={"R@1": 0.999, "completeness": 0.01})
    line = next(n for n, text in enumerate(desk.gate.read_text("utf-8").splitlines(), 1) if "R@1" in text)
    outputs = {}
    for form in ("", "github", "json", "junit", "markdown"):
        with pytest.raises(SystemExit) as caught:
            main(["check", "gate.yaml", *(["--output-format", form] if form else ["--verbose"])])
        assert caught.value.code == 1
        outputs[form] = capsys.readouterr().out
    first = outputs[""].lstrip().splitlines()[0]
    assert "worse: ours on data: R@1 " in first
    assert "99.9%" in first
    assert f"::error file=gate.yaml,line={line}," in outputs["github"]
    (selector,) = json.loads(outputs["json"])["selectors"]
    assert [(one["metric"], one["missed"], one["code"]) for one in selector["minimums"]] == [
        ("R@1", True, "CTX7219"),
        ("completeness", False, ""),
    ]
    cases = {case.get("name"): case for case in ET.fromstring(outputs["junit"]).iter("testcase")}
    assert cases["minimum: R@1"].find("failure") is not None
    assert len(cases["minimum: completeness"]) == 0
    for form in ("", "markdown"):
        assert "Minimums" in outputs[form]
        assert "--accept" not in outputs[form]  # which would not help


def test_each_dataset_must_reach_it(desk):
    def add(file):
        file["datasets"].append("other")

    desk.copy(desk.folder.parent / "twin")
    (desk.folder.parent / "twin" / "data").rename(desk.folder / "other")
    card = desk.folder / "other" / "dataset.yaml"
    card.write_text(yaml.safe_dump(yaml.safe_load(card.read_text("utf-8")) | {"name": "other"}), "utf-8")
    desk.file(add)
    accept(desk.gate)
    value = next(iter(check_gate(desk.gate).check.selectors)).metrics[0].head.value
    desk.set(at_least={"completeness": value})
    Desk.labels(_at(desk, "other"), harder)
    accept(desk.gate)
    found = {one.dataset: bool(one.missed) for one in check_gate(desk.gate).check.selectors}
    assert found == {"data": False, "other": True}


def harder(query, item, grade):
    """Another item in place of the required one."""
    return [(query, f"tool:desk:t{(int(item[-2:]) + 3) % 20:02}", grade)]


def _at(desk, name):
    other = Desk(desk.folder)
    other.data = desk.folder / name
    return other
