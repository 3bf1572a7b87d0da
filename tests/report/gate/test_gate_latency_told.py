"""Latency in every output of a check: a row, a case, an annotation, all samples in JSON; else not a word of it."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree.ElementTree import fromstring

import pytest

from ctxbench.gate.model import LatencyVerdict, Verdict
from ctxbench.io.json_files import dump_json
from ctxbench.report.document import Table
from ctxbench.report.document_console import console_text
from ctxbench.report.document_markdown import markdown
from ctxbench.report.gate import check_texts
from ctxbench.report.gate.annotations import workflow_commands
from ctxbench.report.gate.as_json import check_dict
from ctxbench.report.gate.check_document import document
from ctxbench.report.gate.junit import junit

TOLD = "1.95 -> 2.56 ms a request, ratio 1.31 (1.22-1.42), p 0.0031, tolerance 0.80-1.25, 2 requests"


def latency(verdict=Verdict.WORSE, **given):
    parts = {
        "verdict": verdict,
        "queries": ("q1", "q2"),
        "base": ((0.00195, 0.002), (0.0019, 0.00195)),
        "head": ((0.0025, 0.0026), (0.00256, 0.00256)),
        "base_s": 0.00195,
        "head_s": 0.00256,
        "ratio": 1.312,
        "low": 1.22,
        "high": 1.42,
        "p": 0.0031,
        "p_holm": 0.0031,
        "tolerance": 0.25,
    }
    return LatencyVerdict(**{**parts, **given})


def timed(made, verdict=Verdict.WORSE, **given):
    return made.check(replace(made.same(), verdict=verdict, latency=latency(verdict, **given)))


def test_a_row_has_both_times_ratio_p_tolerance_and_verdict(made):
    told = document(timed(made))
    (table,) = [one for one in told.sections[0].blocks if isinstance(one, Table) and one.title == "Latency"]
    assert table.rows == (("ms a request", "worse", "1.95", "2.56", "1.31 (1.22-1.42)", "0.0031", "0.80-1.25", "2"),)
    for text in (console_text(told, width=120, plain=True), markdown(told)):
        assert "ms a request" in text
        assert "a change of code is not seen" in " ".join(text.split())


def test_where_nothing_was_timed_nothing_is_said_of_it(made):
    told = made.every()
    for text in (markdown(document(told)), junit(told), workflow_commands(told)):
        assert "atency" not in text
    assert all(one["latency"] is None for one in check_dict(told)["selectors"])


@pytest.mark.parametrize(
    ("verdict", "strict", "outcome", "command"),
    [
        (Verdict.WORSE, False, "failure", "::error"),
        (Verdict.CANNOT_TELL, True, "failure", "::error"),
        (Verdict.CANNOT_TELL, False, "skipped", "::warning"),
        (Verdict.BETTER, False, "", ""),
        (Verdict.SAME, False, "", ""),
    ],
)
def test_it_fails_and_warns_as_metrics_do(made, verdict, strict, outcome, command):
    check = timed(made, verdict)
    (case,) = [one for one in fromstring(junit(check, strict=strict)).iter("testcase") if one.get("name") == "latency"]
    assert [child.tag for child in case] == ([outcome] if outcome else [])
    assert not outcome or case[0].get("message") == f"{verdict}: {TOLD}. {check_texts.LATENCY_NOTE}"
    lines = workflow_commands(check, strict=strict).splitlines()
    title = f"bm25 on desk%3A latency {verdict}"
    assert lines == ([f"{command} title={title}::{TOLD}"] if command else [])


def test_every_sample_is_in_json_and_what_is_not_finite_is_null(made):
    check = timed(made, low=0.0, high=float("inf"))
    (one,) = json.loads(dump_json(check_dict(check)))["selectors"]
    told = one["latency"]
    assert told["head"] == [[0.0025, 0.0026], [0.00256, 0.00256]]
    assert (told["queries"], told["verdict"], told["high"]) == (["q1", "q2"], "worse", None)
    assert told["about"] == check_texts.LATENCY_NOTE


def test_few_requests_have_no_interval():
    assert check_texts.ratio_text(latency(low=0.0, high=float("inf"))) == "1.31"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.00012345, "0.123"), (0.00456, "4.56"), (0.1234, "123"), (2.5, "2500")]
)
def test_milliseconds(seconds, text):
    assert check_texts.milliseconds(seconds) == text
