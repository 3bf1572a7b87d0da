"""A chart over commits as a reader sees it: what is drawn is read back from the artists, or from the file."""

from __future__ import annotations

import math
import re

import pytest
from matplotlib.figure import Figure

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.io.errors import ParameterError
from ctxbench.report.run_charts import BROKEN, CommitMark, CommitSeries, history_picture, over_commits

TOKENS, COMPLETE = parse_metric("tokens"), parse_metric("completeness")
NAN = math.nan


@pytest.fixture
def ax():
    return Figure(figsize=(10, 4)).subplots()


def places(n, broken=()):
    return [CommitMark(f"c{i}\n2026-01-0{i % 9 + 1}", f"commit {i}", broken=i in broken) for i in range(n)]


def marks(ax):
    """Every mark by what a pointer that rests on it is told."""
    return {one.get_gid(): (one.get_xdata()[0], one.get_ydata()[0]) for one in ax.lines if one.get_gid()}


def test_a_mark_a_commit_with_its_figure_and_a_gap_where_there_is_none(ax):
    line = CommitSeries("s on d", {COMPLETE: [0.5, NAN, 1.0]})
    drawn = over_commits(ax, places(3, broken={1}), [line], COMPLETE)
    assert marks(ax) == {
        "told:s on d: 50.0% completeness, commit 0": (0, 0.5),
        "told:s on d: 100.0% completeness, commit 2": (2, 1.0),
    }
    assert set(drawn) == {"s on d", BROKEN}
    assert list(drawn[BROKEN].get_xdata()) == [1, 1]
    assert ax.get_ylim() == pytest.approx((0.425, 1.0))
    assert [label.get_text() for label in ax.get_xticklabels()] == [
        "c0\n2026-01-01",
        "c1\n2026-01-02",
        "c2\n2026-01-03",
    ]


def test_of_many_commits_some_are_named_and_the_newest_is(ax):
    over_commits(ax, places(100), [CommitSeries("s", {TOKENS: [float(i) for i in range(100)]})], TOKENS)
    named = [label.get_text() for label in ax.get_xticklabels()]
    assert 2 <= len(named) <= 12
    assert named[-1].startswith("c99\n")


@pytest.mark.parametrize("values", [[], [NAN, NAN]])
@pytest.mark.parametrize("metric", [TOKENS, COMPLETE], ids=str)
def test_without_any_figure_the_axes_stay(ax, values, metric):
    lines = [CommitSeries("s", {metric: values})] if values else []
    over_commits(ax, places(2, broken={0, 1}), lines, metric)
    assert marks(ax) == {}
    assert ax.get_ylim()[0] < ax.get_ylim()[1]


def test_a_picture_is_a_png_or_an_svg_and_the_same_each_time():
    lines = [CommitSeries("a $x$ on <d>", {COMPLETE: [0.5, 0.6], TOKENS: [10.0, 0.0]})]
    for form, start in (("png", b"\x89PNG"), ("svg", b"<svg ")):
        made = history_picture(places(2), lines, [COMPLETE, TOKENS], form=form)
        assert made.startswith(start)
        assert made == history_picture(places(2), lines, [COMPLETE, TOKENS], form=form)
    text = made.decode()
    assert "a $x$ on &lt;d&gt;" in text
    assert "completeness, %" in text
    assert "prompt tokens per query" in text
    assert len(re.findall("<title>", text)) == 4
    assert 'aria-label="Completeness and Prompt tokens over commits"' in text
    for given, form in ((places(2), "pdf"), ([], "png")):
        with pytest.raises(ParameterError, match="png, svg"):
            history_picture(given, lines, [TOKENS], form=form)
