"""A check as JUnit XML, read as other programs read it."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree.ElementTree import fromstring

from hypothesis import given, strategies as st

from ctxbench.gate.results import Verdict
from ctxbench.io.errors import Fault
from ctxbench.report.check_files import junit, refusal_xml
from ctxbench.report.check_texts import Locations

# Elements of junit-10.xsd (Jenkins' xunit plugin) that are used: attributes that must and that may stand, and children.
SCHEMA = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, {"time", "skipped"}, {"testcase"}),
    "testcase": ({"name"}, {"time", "classname"}, {"skipped", "error", "failure"}),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
}


def read(text):
    """The XML, which holds to the schema, and whose counts are right."""
    root = fromstring(text.encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        must, may, children = SCHEMA[element.tag]
        assert must <= set(element.attrib) <= must | may
        assert {child.tag for child in element} <= children
    for suite in [root, *root]:
        cases = suite.findall(".//testcase")
        assert int(suite.get("tests")) == len(cases)
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            if name in suite.attrib:
                assert int(suite.get(name)) == sum(case.find(tag) is not None for case in cases)
    return root


def outcomes(suite):
    return {case.get("name"): case[0].tag if len(case) else "passed" for case in suite}


def test_a_suite_for_each_selector_and_a_case_for_each_question(made):
    root = read(junit(made.every()))
    assert {suite.get("name"): outcomes(suite) for suite in root} == {
        "semantic/normal on desk": {
            "comparable": "passed",
            "metric: completeness": "failure",
            "metric: tokens": "passed",
            "required items": "failure",
            "required item: q2 rule:code%20review": "failure",
            "pin: q2: q2 must include rule:code%20review": "failure",
        },
        "bm25 on desk": {"comparable": "passed", "metric: completeness": "passed", "required items": "passed"},
        "dense on desk": {"comparable": "passed", "metric: completeness": "skipped", "required items": "passed"},
        "mine on desk": {"comparable": "error"},
        "hybrid on desk": {"comparable": "passed", "metric: completeness": "passed", "required items": "passed"},
    }
    assert root.find(".//error").get("message") == "query q7 has no answer: the endpoint returned 500."
    assert "the lowest offered score is 0.0500 higher; score 0.5000 -> 0.2500" in root.find(
        ".//failure[@type='lost']"
    ).get("message")


def test_what_can_no_longer_be_offered_fails_though_nothing_was_lost(made):
    (suite,) = read(junit(made.check(made.gone())))
    assert outcomes(suite) == {
        "comparable": "passed",
        "metric: completeness": "passed",
        "required items": "passed",
        "required item gone: rule:code%20review": "failure",
        "required item gone: tool:a:x or tool:a:y": "failure",
    }
    assert [one.get("message") for one in suite.findall(".//failure[@type='gone']")] == [
        "rule:code%20review (disabled): required by 2 queries (q2 and q5); no accepted alternative",
        "tool:a:x or tool:a:y (no longer in the catalog): required by 1 query (q7); no accepted alternative",
    ]


def test_no_p_value_stands_beside_what_a_deterministic_selector_came_to(made):
    for deterministic in (True, False):
        (suite,) = read(junit(made.check(replace(made.worse(), deterministic=deterministic))))
        told = suite.find(".//failure").get("message")
        assert told.startswith("worse: 100.0")
        assert (", p 0.0020, tolerance" in told) is not deterministic
        assert ("), tolerance 1.0 points" in told) is deterministic


def test_a_metric_that_fails_names_what_is_to_blame_with_its_place(made):
    places = Locations(item=lambda _dataset, item: ("c.jsonl", 3) if item == "tool:a:x" else ("c.jsonl", 0))
    for named, where in (({}, ""), ({"locations": places}, " (c.jsonl:3)")):
        (suite,) = read(junit(made.check(made.dearer()), **named))
        told = suite.find(".//failure").get("message")
        assert told.endswith(
            f"; item costs more tokens: 2 items cost more prompt tokens (tool:a:x and tool:a:y){where}"
        )


def test_strictly_what_cannot_be_told_fails(made):
    (suite,) = read(junit(made.check(made.inconclusive()), strict=True))
    assert outcomes(suite)["metric: completeness"] == "failure"
    assert suite.find(".//failure").get("message").startswith("inconclusive: 100.0 -> 95.0")


def test_items_lost_within_the_allowance_are_skipped_with_the_reason(made):
    (suite,) = read(junit(made.check(replace(made.worse(), allowed=1))))
    found = outcomes(suite)
    assert found["required items"] == "passed"
    assert found["required item: q2 rule:code%20review"] == "skipped"
    assert suite.find(".//skipped").get("message").startswith("within what may be lost: ")


def test_what_was_counted_on_no_query_is_skipped_and_not_passed(made):
    (suite,) = read(junit(made.check(replace(made.same(), n_with_requirements=8, nondeterministic=8))))
    assert outcomes(suite)["required items"] == "skipped"
    assert (
        suite.find(".//skipped").get("message") == "not counted: nondeterministic on all 8 queries that need something"
    )
    (suite,) = read(junit(made.check(replace(made.same(), n_with_requirements=8, nondeterministic=7))))
    assert outcomes(suite)["required items"] == "passed"


def by_chance(made):
    """Of a selector that is not deterministic, more is lost than may be, maybe by chance."""
    return replace(made.worse(), verdict=Verdict.INCONCLUSIVE, pins=(), metrics=())


def test_what_may_be_lost_by_chance_fails_only_strictly(made):
    check = made.check(by_chance(made))
    (suite,) = read(junit(check))
    assert outcomes(suite) == {
        "comparable": "passed",
        "required items": "skipped",
        "required item: q2 rule:code%20review": "skipped",
    }
    assert suite.findall(".//skipped")[1].get("message").startswith("it may be chance: ")
    (suite,) = read(junit(check, strict=True))
    assert suite.get("failures") == "2"


def test_what_a_pin_wants_twice_are_two_cases(made):
    (pin,) = made.worse().pins
    (suite,) = read(junit(made.check(replace(made.worse(), pins=(pin, replace(pin, message="and more"), pin)))))
    names = [case.get("name") for case in suite]
    assert names[-3:] == [f"pin: q2: {pin.pin}", f"pin: q2: {pin.pin} (2)", f"pin: q2: {pin.pin} (3)"]
    assert len({*names}) == len(names)


def test_a_refusal_has_an_error_for_each_fault_named_by_its_place():
    (suite,) = read(refusal_xml("gate.yaml", [Fault("gate.yaml is empty")]))
    assert outcomes(suite) == {"comparable": "error"}
    assert suite.find(".//error").get("message") == "gate.yaml is empty"
    faults = [Fault("a", "gate.yaml", 3), Fault("b", "gate.yaml", 3), Fault("c", "gate.yaml", 9, 2)]
    (suite,) = read(refusal_xml("gate.yaml", faults))
    assert [case.get("name") for case in suite] == [
        *("gate.yaml, line 3", "gate.yaml, line 3 (2)", "gate.yaml, line 9, column 2"),
    ]
    assert [case[0].get("message") for case in suite][1:] == [
        "b (gate.yaml, line 3)",
        "c (gate.yaml, line 9, column 2)",
    ]
    (suite,) = read(refusal_xml("gate.yaml", [Fault(f"{n}", "a", n) for n in range(60)]))
    assert [case.get("name") for case in suite][-2:] == ["a, line 49", "and more"]
    assert suite[-1][0].get("message") == "and 10 more"


def test_what_is_wrong_stands_as_text_too_for_programs_that_show_only_that(made):
    for element in read(junit(made.every())).iter():
        if element.tag in ("failure", "error", "skipped"):
            assert element.text == element.get("message")


@given(st.text(max_size=40), st.text(alphabet="a<&>\"']\r\n\t\0\x0b\x1f\ud800\ufffe\U0001f600 ", max_size=20))
def test_whatever_others_wrote_the_xml_holds_to_the_schema_and_says_it(message, name):
    (suite,) = read(refusal_xml(name, [Fault(message)]))
    (error,) = suite.iter("error")
    said = re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", " ".join(message.split()))
    assert error.get("message") == (error.text or "") == said  # on one line, with what XML 1.0 cannot hold replaced
    assert len(suite.get("name")) == len(name)


def test_what_xml_cannot_hold_is_replaced(made):
    (suite,) = read(junit(made.hostile()))
    assert "\ufffd" in suite.get("name")
    assert "<script>" in suite.get("name")
    assert "\x00" not in junit(made.hostile())


def test_nothing_compared_gives_no_suite(made):
    assert list(read(junit(made.check()))) == []


def test_equal_checks_give_equal_bytes(made):
    assert junit(made.every()) == junit(made.every())
