"""Numbers and verdicts in words."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.statistics import Comparison, Estimate, Interval
from ctxbench.io.errors import count
from ctxbench.report import document


def interval(low: float, high: float, *, holds: bool = True) -> Interval:
    return Interval(low=low, high=high, level=0.95, method="m", holds=holds)


def comparison(*, p: float, needed: int | None = None, difference: float = 0.1) -> Comparison:
    return Comparison(
        n=9, left_out=0, base=0.0, other=0.0, difference=difference, interval=interval(0.0, 0.2), higher=1, lower=0,
        equal=8, square=0.1, standardised=0.1, p=p, p_holm=p, test="t", alpha=0.05, needed=needed,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("completeness", 0.96, "96.0"),
        ("completeness", 0.9996, "100.0"),
        ("tokens", 40013.4, "40,013"),
        ("tokens", 5.25, "5.2"),
        ("items", 5.0, "5.00"),
        ("items", 1571.0, "1,571"),
        ("nDCG@10", 0.8599, "86.0"),
        ("tokens", math.nan, "-"),
        ("completeness", 0.0, "0.0"),
    ],
)
def test_means(metric: str, value: float, text: str) -> None:
    assert document.number(parse_metric(metric), value) == text


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("completeness", -0.04, "−4.0"),
        ("completeness", 0.0275, "+2.8"),
        ("completeness", -0.0001, "0.0"),
        ("completeness", 0.0, "0.0"),
        ("tokens", 39472.3, "+39,472"),
        ("tokens", -0.4425, "−0.4"),
        ("tokens", math.nan, "-"),
    ],
)
def test_differences_have_a_sign_unless_they_read_as_nothing(metric: str, value: float, text: str) -> None:
    assert document.signed(parse_metric(metric), value) == text


def test_intervals_say_where_they_do_not_hold_and_where_they_have_no_end() -> None:
    tokens = parse_metric("tokens")
    held = Estimate(value=18.0, interval=interval(12.0, 30.0), n=40, left_out=0)
    loose = Estimate(value=18.0, interval=interval(0.0, math.inf, holds=False), n=1, left_out=0)
    nothing = Estimate(value=math.nan, interval=interval(0.0, math.inf, holds=False), n=0, left_out=40)
    assert document.estimate_interval(tokens, held) == "12–30"
    assert document.estimate_interval(tokens, loose) == "0.0–∞~"
    assert document.estimate_interval(tokens, nothing) == ""


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.00001, "p<0.0001"),
        (0.0003, "p=0.0003"),
        (0.012, "p=0.012"),
        (0.05, "p=0.050"),
        (0.0501, document.NOT_SIGNIFICANT),
    ],
)
def test_a_verdict_is_the_comparisons_own(p: float, text: str) -> None:
    assert document.verdict(comparison(p=p)) == text


@pytest.mark.parametrize(
    ("needed", "text"),
    [
        (None, ""),
        (7, "about 7 queries would tell"),
        (2741, "about 2,800 queries would tell"),
        (246160281, "more than a million queries would tell"),
    ],
)
def test_how_many_queries_would_tell_is_rounded_up_to_two_digits(needed: int | None, text: str) -> None:
    assert document.queries_needed(comparison(p=0.5, needed=needed)) == text
    assert document.queries_needed(comparison(p=0.01, needed=needed)) == ""


def test_names_cannot_turn_a_sentence_around_or_break_it() -> None:
    assert document.named("a\u202eb\nc\u2028d\x1b[31m") == "a\ufffdb\ufffdc\ufffdd\ufffd[31m"
    assert document.named("bfcl-simple \u05e9") == "bfcl-simple \u05e9"


def test_lists_and_counts() -> None:
    assert [document.listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert [count(n, "query", "queries") for n in (0, 1, 1053)] == ["0 queries", "1 query", "1,053 queries"]


def test_a_text_that_stands_alone_says_what_its_sign_means() -> None:
    alone = "completeness 93.1 -> 60.0 (-40.0 to -20.0~)"
    assert document.with_loose_legend(alone) == f"{alone} (~ marks an interval that too few values carry)"
    for plain in ("completeness 93.1 -> 60.0 (-40.0 to -20.0)", "about ~5 of ~ them", ""):
        assert document.with_loose_legend(plain) == plain


@pytest.mark.parametrize(("p", "text"), [(0.0002, "<= 0.0002"), (0.00002, "<= 2e-05"), (0.012, "<= 0.012")])
def test_a_p_value_at_its_floor_is_a_bound(p: float, text: str) -> None:
    assert document.p_text(p, at_floor=True) == text
    assert document.verdict(replace(comparison(p=p), p_holm_at_floor=True)) == f"p {text}"
