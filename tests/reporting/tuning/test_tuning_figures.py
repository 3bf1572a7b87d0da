"""Figures of a tuning: what stands where, read from the SVG."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from ctxbench.reporting.tuning import figures

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg):
    return ["".join(text.itertext()) for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_names_of_files_are_plain():
    assert figures.file_name("BFCL simple/1", "a_b", "...") == "bfcl-simple-1-a-b-x"


def test_a_trade_off_has_four_panels_and_every_contender(made):
    drawing = figures.trade_off(made.dataset())
    said = texts(drawing.wide)
    for title in ("completeness against prompt tokens", "completeness against items", "recall against items"):
        assert title in said
    assert {
        "semantic: front",
        "semantic: first n",
        "calibrated: front",
        "1 documents' defaults",
        "5 everything",
    } <= set(said)
    assert said.count("completeness, % of queries") == 2
    assert said.count("prompt tokens a query") == 2
    # the defaults and the preset of the same values stand at one place and share a label, in each of the panels
    assert said.count("1,2") == 4
    # everything costs 20,350 tokens, far to the right of all others
    assert said.count("5\u2192") == 4


def test_marks_stand_where_their_figures_are(made):
    root = ET.fromstring(figures.trade_off(made.dataset()).wide)
    mark = next(mark for mark in root.iter(f"{SVG}path") if len(mark))
    said = "documents' defaults: 91.0 (88.0–94.0)% completeness, 275 (261–289) prompt tokens a query"
    assert mark[0].text == said
    x, y = (float(part) for part in re.match(r"M([0-9.]+) ([0-9.]+)", mark.get("d")).groups())
    # the box of the first panel reaches from 270 up to 34, completeness in it from 80 to 100
    assert y == pytest.approx(270 - (91 - 80) / 20 * 236, abs=0.01)
    # and from 58 to 380 - 18; tokens from 0 to 1.06 times the last point of a line that is not beyond 1.6 x 550
    last = max(55 * items for items in np.linspace(0, 60, 60) if 55 * items <= 1.6 * 550)
    assert x == pytest.approx(58 + 275 / (1.06 * last) * (380 - 18 - 58), abs=0.01)


def test_labels_of_marks_do_not_meet(made):
    drawing = figures.trade_off(made.dataset())
    boxes = []
    for text in ET.fromstring(drawing.wide).iter(f"{SVG}text"):
        if text.get("paint-order"):
            size = 6.9 * len(text.text)
            left = float(text.get("x")) - {"start": 0, "middle": size / 2, "end": size}[text.get("text-anchor")]
            boxes.append((left, float(text.get("y")) - 11, left + size, float(text.get("y")) + 4))
    assert len(boxes) == 4 * 8
    for a, b in itertools.combinations(boxes, 2):
        assert not (a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])


def test_lines_of_a_selector_differ_by_width_and_selectors_by_colour_and_dashes(made):
    root = ET.fromstring(figures.trade_off(made.dataset()).wide)
    strokes = [
        (path.get("stroke"), path.get("stroke-width"), path.get("stroke-dasharray"))
        for path in root.iter(f"{SVG}path")
        if path.get("d", "").endswith("h28")
    ]
    assert strokes == [
        ("#1f5fa8", "2.6", None),
        ("#1f5fa8", "1.2", None),
        ("#c2571a", "2.6", "8 3"),
        ("#c2571a", "1.2", "8 3"),
    ]
    bands = [path for path in root.iter(f"{SVG}path") if path.get("fill-opacity")]
    assert len(bands) == 4 * 4


def test_a_long_line_keeps_its_ends_and_is_thinned(made):
    trace = made.trace("semantic: front", 2.0, points=5000)
    drawing = figures.trade_off(made.dataset(traces=(trace,), contenders=(), outcomes=()))
    assert len(drawing.wide) < 60_000


def test_nothing_known_gives_no_drawing(made):
    bare = made.edges()["bare"].datasets[0]
    assert figures.trade_off(bare) is None
    outcome = made.nothing()
    assert figures.sensitivity(bare, outcome) is None
    assert figures.two_at_a_time(bare, outcome) is None


def test_values_that_are_not_known_are_left_out(made):
    trace = made.trace("semantic: front", 2.0, points=5)
    gone = np.full(5, np.nan)
    lost = replace(trace, means={**trace.means, "tokens": gone})
    drawing = figures.trade_off(made.dataset(traces=(lost,)))
    assert "nan" not in drawing.wide


def test_each_parameter_has_a_row_with_what_is_chosen(made):
    drawing = figures.sensitivity(made.dataset(), made.outcome())
    said = texts(drawing.wide)
    for name in ("contextTopK", "contextTopN", "contextMargin", "contextExpansionEnabled"):
        assert f"{name}: completeness" in said
        assert f"{name}: prompt tokens" in said
    marks = [path[0].text for path in ET.fromstring(drawing.wide).iter(f"{SVG}path") if len(path)]
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
    drawing = figures.sensitivity(made.dataset(), outcome)
    marks = [path[0].text for path in ET.fromstring(drawing.wide).iter(f"{SVG}path") if len(path)]
    assert marks == ["chosen: mode distance"] * 2


def numbers(svg):
    """The numbers of all cells, and those in bold."""
    cells = [text for group in ET.fromstring(svg).iter(f"{SVG}g") for text in group]
    return [text.text for text in cells], [text.text for text in cells if text.get("font-weight")]


def test_a_large_heat_map_shows_ten_values_a_side_the_chosen_ones_among_them(made):
    drawing = figures.two_at_a_time(made.dataset(), made.outcome())
    found, bold = numbers(drawing.wide)
    assert len(found) == 2 * 10 * 10
    # topN 12 of 0 to 50 and margin 0.15 of 0 to 1: 0.5 + 0.24 x (0.24 + 0.15), 100 + 900 x 0.39 squared
    assert bold == ["59.4", "237"]
    assert {"50.0", "98.0", "100", "3.7k"} <= set(found)  # both ends
    assert {"completeness, % of queries", "prompt tokens a query"} <= set(texts(drawing.wide))
    assert drawing.caption.endswith("Of contextMargin and contextTopN some values stand for all.")


def test_a_small_heat_map_shows_all(made):
    outcome = made.outcome(heats=(made.heat("a", (1, 2), "b", (0.5,)),))
    drawing = figures.two_at_a_time(made.dataset(), outcome)
    assert len(numbers(drawing.wide)[0]) == 4
    assert "stand for all" not in drawing.caption
    assert "chosen" not in texts(drawing.wide)


def test_tints_of_completeness_part_from_half_of_the_best_on(made):
    heat = made.heat("a", (0, 1, 2), "b", (0, 1))
    means = {**heat.means, "completeness": np.array([[0.0, 0.3, 0.8], [0.4, 0.6, 0.8]])}
    drawing = figures.two_at_a_time(made.dataset(), made.outcome(heats=(replace(heat, means=means),)))
    cells = {}  # of the first map
    for path in ET.fromstring(drawing.wide).iter(f"{SVG}path"):
        cells.setdefault(path.get("fill"), path.get("d").count("M"))
    assert cells["#eff5fb"] == 3  # 0, 30 and 40
    assert cells["#7d99b4"] == 1  # 60, half way from 40 to 80
    assert "up to 40.0" in texts(drawing.wide)


def test_a_line_is_drawn_from_where_it_crosses_the_foot_of_its_axis(made):
    # from 0 at 0 items to 90 % at 10: the axis begins at 77.5, which is crossed at 10 x 77.5 / 90 items
    trace = made.trace("semantic: front", 1.0, points=3)
    items, complete = np.array([0.0, 10.0, 20.0]), np.array([0.0, 0.9, 0.95])
    trace = replace(trace, means={**trace.means, "items": items, "completeness": complete})
    contenders = (made.contender("a", made.PRESET, (0.8, 3000.0, 10.0)),)
    svg = figures.trade_off(made.dataset(traces=(trace,), contenders=contenders, outcomes=())).wide
    panel = [path for path in ET.fromstring(svg).iter(f"{SVG}path") if path.get("stroke-width") == "2.6"][1]
    start = panel.get("d").removeprefix("M").split("L")[0].split()
    # the box of the second panel: 380 + 58 to 760 - 18 for 0 to 1.06 x 10 items, and 270 at its foot
    assert float(start[0]) == pytest.approx(438 + 304 * (10 * 77.5 / 90) / 10.6, abs=0.02)
    assert float(start[1]) == 270.0


def test_what_offers_everything_does_not_decide_where_axes_begin(made):
    all_of_it = made.contender("all", made.EVERYTHING, (1.0, 30_000.0, 400.0))
    low = (made.contender("a", made.PRESET, (0.4, 300.0, 5.0)), made.contender("b", made.PRESET, (0.3, 200.0, 4.0)))
    svg = figures.trade_off(made.dataset(contenders=(*low, all_of_it), traces=(), outcomes=())).wide
    marks = [text.text for text in ET.fromstring(svg).iter(f"{SVG}text") if text.get("paint-order")]
    assert marks == ["1", "2", "3\u2197"] * 4
    # alone it is drawn where it is
    svg = figures.trade_off(made.dataset(contenders=(all_of_it,), traces=(), outcomes=())).wide
    marks = [text.text for text in ET.fromstring(svg).iter(f"{SVG}text") if text.get("paint-order")]
    assert marks == ["1"] * 4


def test_a_figure_without_lines_says_nothing_of_lines(made):
    assert "thick line" in figures.trade_off(made.dataset()).caption
    assert "thick line" not in figures.trade_off(made.edges()["together"].datasets[0]).caption
