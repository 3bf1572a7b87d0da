"""Values of metrics in sentences."""

from __future__ import annotations

import pytest

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.snapshots import level, levels, shortened, signed_difference, size


@pytest.mark.parametrize(
    ("metric", "value", "texts"),
    [
        ("completeness", 0.27531, ("27.5%", "+27.5 points", "27.5 points")),
        ("recall", 0.0, ("0.0%", "0.0 points", "0.0 points")),
        ("recall", 0.00012, ("0.0%", "+0.012 points", "0.012 points")),
        ("tokens", 1234567.4, ("1,234,567", "+1,234,567", "1,234,567 tokens")),
        ("tokens", 3.25, ("3.2", "+3.2", "3.2 tokens")),
        ("tokens", 0.01, ("0.0", "+0.01", "0.01 tokens")),
        ("items", 3.256, ("3.26", "+3.26", "3.26 items")),
    ],
)
def test_shares_are_in_per_cent_and_differences_say_what_they_are(metric, value, texts):
    found = parse_metric(metric)
    assert (level(found, value), signed_difference(found, value), size(found, value)) == texts


@pytest.mark.parametrize(
    ("metric", "was", "now", "text"),
    [
        ("tokens", 150.9, 151.4, "150.9 -> 151.4"),
        ("tokens", 151.0, 151.02, "151.00 -> 151.02"),
        ("tokens", 151.0, 151.0, "151 -> 151"),
        ("tokens", 151.0, 190.2, "151 -> 190"),
        ("completeness", 0.9671, 0.9671, "96.7% -> 96.7%"),
        ("completeness", 0.9671, 0.9673, "96.71% -> 96.73%"),
        ("items", 3.25, 4.5, "3.25 -> 4.50"),
    ],
)
def test_two_means_show_their_difference(metric, was, now, text):
    assert levels(parse_metric(metric), was, now) == text


def test_a_difference_has_its_sign():
    assert signed_difference(parse_metric("recall"), -0.033333) == "-3.3 points"
    assert signed_difference(parse_metric("tokens"), -12.0) == "-12"


@pytest.mark.parametrize(
    ("metric", "difference", "beyond", "text"),
    [
        ("completeness", -0.0104, 0.01, "-1.04 points"),
        ("completeness", -0.0200, 0.01, "-2.0 points"),
        ("recall", 0.010001, 0.01, "+1.0001 points"),
        ("tokens", 118.3, 118.0, "+118.3"),
        ("tokens", 119.3, 118.0, "+119"),
    ],
)
def test_a_difference_beyond_a_size_never_reads_like_it(metric, difference, beyond, text):
    assert signed_difference(parse_metric(metric), difference, beyond=beyond) == text


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("all of it (here)", 16, "all of it (here)"),
        ("moved up (tool:a and tool:b)", 20, "moved up (tool:a...)"),
        ('{"n": [1, 2, 3, 4, 5]}', 18, '{"n": [1, 2, ...]}'),
        ('say again: "where it is now"', 20, 'say again: "wher..."'),
        ("run `ctxbench check` again, all of it", 30, "run `ctxbench check` again,..."),
        ("((((((((((", 9, "(((...)))"),
        ("a) b) c d e f g", 10, "a) b) c..."),
    ],
)
def test_a_text_that_is_cut_leaves_no_bracket_or_quote_open(text, most, expected):
    assert shortened(text, most) == expected
    assert len(expected) <= most


def test_a_text_may_be_cut_behind_a_word():
    assert shortened("item gone (tool:one and tool:two)", 26, at_word=True) == "item gone (tool:one...)"
    assert shortened("a" * 30, 10, at_word=True) == "aaaaaaa..."
