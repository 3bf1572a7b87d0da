"""Figures of a tuning: what they say, read from the SVG and from the panels that are drawn."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.report import tuning_document

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg):
    return ["".join(text.itertext()) for text in ET.fromstring(svg).iter(f"{SVG}text")]


def titles(svg):
    return [title.text for title in ET.fromstring(svg).iter(f"{SVG}title")]


def tags(svg):
    """The labels of marks, which have a halo."""
    groups = [group for group in ET.fromstring(svg).iter(f"{SVG}g") if "paint-order" in group.get("style", "")]
    return [group.find(f"{SVG}text").text for group in groups]


def panel(dataset, across="tokens", up="completeness"):
    lines = tuning_document.named_lines(dataset.traces)
    return tuning_document.trade_panel(dataset, lines, parse_metric(across), parse_metric(up))


def test_names_of_files_are_plain():
    assert tuning_document.file_name("BFCL simple/1", "a_b", "...") == "bfcl-simple-1-a-b-x"


def test_a_trade_off_has_every_contender_and_other_axes_have_a_drawing_of_their_own(made):
    drawing, others = tuning_document.trade_off(made.dataset()), tuning_document.other_axes(made.dataset())
    for said, n in ((texts(drawing.svg), 1), (texts(drawing.narrow), 1), (texts(others.svg), 3)):
        assert {
            "semantic: front",
            "semantic: first n",
            "calibrated: front",
            "1 specification's defaults",
            "5 everything",
        } <= set(said)
        # the defaults and the preset of the same values stand at one place and share a label, in each of the panels
        assert said.count("1,2") == n
        # everything costs 20,350 tokens, far to the right of all others
        assert said.count("5\u2192") == n
    assert "completeness against prompt tokens" in texts(drawing.svg)
    for title in ("completeness against items", "recall against prompt tokens", "recall against items"):
        assert title in texts(others.svg)


def test_marks_stand_where_their_figures_are(made):
    drawing = tuning_document.trade_off(made.dataset())
    said = "specification's defaults: 91.0 (88.0\u201394.0)% completeness, 275 (261\u2013289) tokens per query"
    assert titles(drawing.svg)[0] == said
    found = panel(made.dataset())
    assert (found.rings[0].x, found.rings[0].y) == (275.0, 0.91)
    assert (found.y.low, found.y.high) == pytest.approx((0.8, 1.0))
    # tokens from 0 to 1.06 times the last point of a line that is not beyond 1.6 x 550
    last = max(55 * items for items in np.linspace(0, 60, 60) if 55 * items <= 1.6 * 550)
    assert (found.x.low, found.x.high) == pytest.approx((0.0, 1.06 * last))


def test_lines_and_bands_are_those_of_the_traces(made):
    found, trace = panel(made.dataset()), made.trace("semantic: front", 1.6)
    assert list(found.lines) == ["semantic: front", "semantic: first n", "calibrated: front", "calibrated: first n"]
    xs, ys, low, high = found.lines["semantic: front"]
    drawn = np.searchsorted(trace.means["tokens"], xs)
    assert drawn[0] == 0
    assert drawn[-1] == len(trace.settings) - 1
    assert xs.tolist() == trace.means["tokens"][drawn].tolist()
    assert ys.tolist() == trace.means["completeness"][drawn].tolist()
    assert low.tolist() == trace.low["completeness"][drawn].tolist()
    assert high.tolist() == trace.high["completeness"][drawn].tolist()


def test_no_mark_rises_above_a_thinned_front(made):
    corner = np.concatenate([np.linspace(0, 0.02, 3000), np.linspace(0.02, 60, 50)])
    trace = made.trace("semantic: front", 1.6, points=3050)
    means = {"items": corner, "tokens": 55 * corner, "completeness": 0.97 * (1 - np.exp(-corner / 1.6))}
    trace = replace(trace, means={**trace.means, **means})
    points = [(float(means["completeness"][place]), float(means["tokens"][place]), 4.0) for place in (1500, 3010)]
    marked = [
        made.contender("normal", "recommended", points[0]),
        made.contender("semantic/normal", "preset", points[1]),
    ]
    found = panel(made.dataset(traces=(trace,), results=tuple(marked), outcomes=()))
    xs, ys, *_ = found.lines["semantic: front"]
    assert len(xs) < 200
    assert {tokens for _, tokens, _ in points} <= set(xs.tolist())
    for ring in found.rings:
        assert np.interp(ring.x, xs, ys) >= ring.y


def test_a_front_is_drawn_over_its_own_axes_alone(made):
    for across, up in (("tokens", "recall"), ("items", "completeness")):
        lines = panel(made.dataset(), across, up).lines
        assert [len(lines[name][0]) > 0 for name in ("semantic: front", "semantic: first n")] == [False, True]


def test_a_long_line_keeps_its_ends_and_is_thinned(made):
    trace = made.trace("semantic: front", 2.0, points=5000)
    drawing = tuning_document.trade_off(made.dataset(traces=(trace,), results=(), outcomes=()))
    assert len(drawing.svg) < 120_000


def test_nothing_known_gives_no_drawing(made):
    bare = made.edges()["bare"].datasets[0]
    assert tuning_document.trade_off(bare) is None
    outcome = made.nothing()
    assert tuning_document.sensitivity(bare, outcome) is None
    assert tuning_document.two_at_a_time(bare, outcome) is None


def test_values_that_are_not_known_are_left_out(made):
    trace = made.trace("semantic: front", 2.0, points=5)
    gone = np.full(5, np.nan)
    lost = replace(trace, means={**trace.means, "tokens": gone})
    drawing = tuning_document.trade_off(made.dataset(traces=(lost,)))
    assert "nan" not in drawing.svg


def test_each_parameter_has_a_row_with_what_is_chosen(made):
    drawing = tuning_document.sensitivity(made.dataset(), made.outcome())
    said = texts(drawing.svg)
    for name in ("contextTopK", "contextTopN", "contextMargin", "contextExpansionEnabled"):
        assert f"{name}: completeness" in said
        assert f"{name}: prompt tokens" in said
    marks = titles(drawing.svg)
    # expansion is not among the values that have an effect
    assert marks == [
        f"chosen: {value}"
        for value in ("contextTopK 20", "contextTopN 12", "contextMargin 0.15")
        for _ in ("completeness", "tokens")
    ]
    assert {"false", "true"} <= set(said)


def test_a_choice_of_names_is_marked_at_its_name(made):
    outcome = made.outcome(slices=(made.along("mode", ("relevance", "distance"), 1.0),))
    outcome = replace(outcome, chosen=replace(outcome.chosen, values={"mode": "distance"}))
    drawing = tuning_document.sensitivity(made.dataset(), outcome)
    marks = titles(drawing.svg)
    assert marks == ["chosen: mode distance"] * 2


def numbers(svg):
    """The numbers of all cells, and those in bold."""
    told = [group.find(f"{SVG}text") for group in ET.fromstring(svg).iter(f"{SVG}g") if group.get("role")]
    return [text.text for text in told], [text.text for text in told if "font-weight" in text.get("style")]


def test_a_large_heat_map_shows_ten_values_a_side_the_chosen_ones_among_them(made):
    drawing = tuning_document.two_at_a_time(made.dataset(), made.outcome())
    found, bold = numbers(drawing.svg)
    assert len(found) == 2 * 10 * 10
    # topN 12 of 0 to 50 and margin 0.15 of 0 to 1: 0.5 + 0.24 x (0.24 + 0.15), 100 + 900 x 0.39 squared
    assert bold == ["59.4", "237"]
    assert {"50.0", "98.0", "100", "3.7k"} <= set(found)  # both ends
    assert {"completeness, %", "tokens per query"} <= set(texts(drawing.svg))
    assert drawing.caption.endswith("Of contextMargin and contextTopN some values stand for all.")


def test_a_small_heat_map_shows_all(made):
    outcome = made.outcome(heat_maps=(made.heat("a", (1, 2), "b", (0.5,)),))
    drawing = tuning_document.two_at_a_time(made.dataset(), outcome)
    assert len(numbers(drawing.svg)[0]) == 4
    assert "stand for all" not in drawing.caption
    assert numbers(drawing.svg)[1] == []


def test_tints_of_completeness_part_from_half_of_the_best_on(made):
    heat = made.heat("a", (0, 1, 2), "b", (0, 1))
    means = {**heat.means, "completeness": np.array([[0.0, 0.3, 0.8], [0.4, 0.6, 0.8]])}
    drawing = tuning_document.two_at_a_time(made.dataset(), made.outcome(heat_maps=(replace(heat, means=means),)))
    assert "completeness, % (all up to 40.0 in one shade)" in texts(drawing.svg)
    (heat,) = made.outcome(heat_maps=(replace(heat, means=means),)).heat_maps
    assert tuning_document.cells(heat, "completeness", None, limit=10).pale == 0.4


def test_what_offers_everything_does_not_decide_where_axes_begin(made):
    all_of_it = made.contender("all", made.EVERYTHING, (1.0, 30_000.0, 400.0))
    low = (made.contender("a", made.PRESET, (0.4, 300.0, 5.0)), made.contender("b", made.PRESET, (0.3, 200.0, 4.0)))
    svg = tuning_document.trade_off(made.dataset(results=(*low, all_of_it), traces=(), outcomes=())).svg
    assert tags(svg) == ["1", "2", "3\u2197"]
    # alone it is drawn where it is
    assert tags(tuning_document.trade_off(made.dataset(results=(all_of_it,), traces=(), outcomes=())).svg) == ["1"]


def test_a_figure_without_lines_says_nothing_of_lines(made):
    assert "thick line" in tuning_document.trade_off(made.dataset()).caption
    assert "thick line" not in tuning_document.trade_off(made.edges()["together"].datasets[0]).caption
