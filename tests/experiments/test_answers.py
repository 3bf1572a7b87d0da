"""The sentence that a page opens with says what was found, here of made-up figures."""

from __future__ import annotations

from types import SimpleNamespace

import abstention_tables
import expansion
import hybrid
import multi_topic_page
import pytest

from ctxbench.report.pages import parted


def compared(difference, *, told=True):
    return SimpleNamespace(difference=difference, significant=told)


def test_comparators():
    comparators = pytest.importorskip("comparators")
    given = {"least": "a", "datasets": 2, "gains": [0.1, 0.05]}
    assert comparators.answer(lead=0.004, below=[], **given) == (
        "**The comparator `bm25` finds more than the library bm25s with its own defaults on every public dataset (R@5, "
        "least lead +0.004, a); over 2 datasets its mean R@5, the share of required items among the first five, is "
        "0.100 above what it was, and that of `hybrid` 0.050.**"
    )
    assert "finds no more than 0.01 R@5 less than the library" in comparators.answer(lead=-0.004, below=[], **given)
    assert "is more than 0.01 R@5 weaker than the library bm25s with its own defaults on a;" in comparators.answer(
        lead=-0.04, below=["a"], **given
    )


def test_hybrid():
    tuned = {"a": compared(0.1), "b": compared(-0.1), "c": compared(0.1, told=False)}
    assert hybrid.answer(tuned, {"a": compared(-0.2)}, sure=0) == (
        "**A search by meaning and one by words, added up with a weight that is fitted on other requests of the "
        "dataset, rank better than the better of the two on 1 and worse on 1 of 3 datasets (better on 0 if groups of "
        "requests are tested as wholes); plain reciprocal rank fusion ranks better than the better of the two "
        "on 0 and worse on 1.**"
    )


def test_expansion():
    found = ({"a": 0.045, "b": 0.05}, {"a": 0.1, "b": 0.2}, {"a": -0.01, "b": 0.0}, {"a": -0.02, "b": 0.01})
    assert expansion.answer(*found, held=(False, True)) == (
        "**Against as many items of the search alone, a tuned expansion, which adds what is similar to the items "
        "found, finds +4.5 and +5.0 points (on a and b) of what other needed items depend on, not significant "
        "on both by the test split, where completeness differs by −2.0 and +1.0; by all requests, each under a setting "
        "that was chosen without it, it finds +10.0 and +20.0, significant on both; the specification's "
        "default expansion finds −1.0 and +0.0.**"
    )


def test_abstention():
    lost = {"a": (0.0104, 0.429, 0.4), "b": (0.0, 0.5, 0.5)}
    alone = {"a": (0.02, 0.31, 0.3), "b": (0.003, 0.4, 0.4)}
    assert abstention_tables.answer(lost, alone, (2.5, 0.958), (2.6, 0.777), cut_on="c") == (
        "**Of the requests that need nothing and are offered something, a probability that is fitted to labels spares "
        "43% on `a`, at 1.0 points of recall lost on the others (on the test split alone 31%, at 2.0 points), and 50% "
        "on `b`, at 0.0 points of recall lost on the others (on the test split alone 40%, at 0.3 points); as a cut on "
        "`c` "
        "it finds 95.8% of what is required with 2.50 items a request, where similarity finds "
        "77.7% with 2.60.**"
    )
    rows = list(abstention_tables.bars_table(lost, fewer=0.4, loss=0.01))
    assert rows[2:] == ["| a | 43% | 40% | 0.0104 | **does not hold** |", "| b | 50% | 50% | 0.0000 | holds |"]


def row(dataset, arm, difference, *, told=True):
    gains = {"completeness": compared(difference, told=told), "recall": compared(difference, told=told)}
    values = {"completeness": 0.5, "recall": 0.5}
    return multi_topic_page.Row(dataset=dataset, arm=arm, base="b", tokens=9.0, values=values, gains=gains)


def test_multi_topic():
    rows = [row("a", "windows 6/4", 0.15), row("b", "windows 6/4", 0.2, told=False), row("a", "s, 1 a chunk", -0.1)]
    assert multi_topic_page.answer(rows, "windows 6/4") == (
        "**To search requests of several topics by windows of 6 words that overlap by 4 instead of by sentences gives "
        "more of them all that they require on 1 (a +15.0 points) of the 2 datasets, at equal tokens, and fewer on "
        "none; to keep a minimum of items for each part gives more on none and fewer on 1 (a −10.0 points), to join "
        "the scores of the parts otherwise than by the best gives more on none and fewer on none.**"
    )
    assert "by clauses instead" in multi_topic_page.answer(rows, "clauses")


def test_the_page_on_several_topics_is_short_where_what_was_tried_lies_apart():
    interval = SimpleNamespace(low=-0.1, high=0.1)
    gain = SimpleNamespace(difference=0.1, significant=True, interval=interval, p_holm=0.01)
    gains = {"completeness": gain, "recall": gain}
    made = row("a", "windows 6/4", 0.1)
    rows = [multi_topic_page.Row(dataset="a", arm=made.arm, base="b", tokens=9.0, values=made.values, gains=gains)]
    text = multi_topic_page.page_text(
        sizes={"tuning": {"a": 1}, "test": {"a": 1}}, chosen={"Splitting": "windows 6/4"}, final=rows, single=rows,
        tried={"Splitting": rows}, chunks={"windows 6/4": [2.0]},
    )  # fmt: skip
    assert text.splitlines()[2] == multi_topic_page.answer(rows, "windows 6/4")
    page = parted(text, [multi_topic_page.TRIED], name="multi-topic").page
    assert "### Splitting" in text
    assert "### Splitting" not in page
