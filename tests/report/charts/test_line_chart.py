"""Lines, bands and points that stand out: read back from the artists, and from the SVG."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib.figure import Figure

from ctxbench.io.errors import ParameterError
from ctxbench.report.charts import ALONE, Panel, Ring, Scale, line_charts, lines

X, Y = Scale("items <mean>", 0.0, 8.0), Scale("recall", 0.5, 1.0)
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg):
    return ["".join(text.itertext()) for text in ET.fromstring(svg).iter(f"{SVG}text")]


def titles(svg):
    return [title.text for title in ET.fromstring(svg).iter(f"{SVG}title")]


def drawn(**given):
    rings = [Ring("a & b", 4.0, 0.75)]
    points = {name: (np.array(x), np.array(y)) for name, (x, y) in given.items()}
    return line_charts([Panel("", points, X, Y, rings)], columns=1, size=ALONE)


def on_axes(**given):
    ax = Figure(figsize=(5, 4)).subplots()
    made = {"title": "", "lines": {}, "x": X, "y": Y, **given}
    legend = lines(ax, Panel(**made))
    ax.figure.draw_without_rendering()
    return ax, legend


def test_a_chart_has_its_axes_lines_and_points_in_words():
    svg = drawn(one=([0.0, 8.0], [0.5, 1.0]), two=([], []))
    assert {"items <mean>", "recall", "0.5", "0.6", "1", "0", "8"} <= set(texts(svg))
    assert texts(svg)[-2:] == ["one", "two"]
    assert titles(svg) == ["a & b"]


def test_the_same_lines_are_the_same_bytes():
    assert drawn(one=([0.0, 1.0], [0.5, 0.6])) == drawn(one=([0.0, 1.0], [0.5, 0.6]))


def panel(title, x_high, **given):
    made = {name: (np.array(xs), np.array(ys)) for name, (xs, ys) in given.items()}
    return Panel(title, made, Scale("tokens", 0.0, x_high), Scale("recall %", 0.0, 60.0))


def test_charts_beside_each_other_have_axes_of_their_own_and_one_legend():
    one = panel("first <a>", 10.0, base=([0.0, 10.0], [0.0, 60.0]), other=([0.0], [0.0]))
    two = panel("second", 12000.0, base=([0.0, 12000.0], [0.0, 60.0]), other=([0.0], [0.0]))
    svg = line_charts([one, two, one], columns=2)
    assert ET.fromstring(svg).get("width") == "660"
    assert ET.fromstring(svg).get("aria-label") == "first <a>, second"
    assert texts(svg)[-2:] == ["base", "other"]
    assert (texts(svg).count("base"), texts(svg).count("first <a>"), texts(svg).count("10,000")) == (1, 2, 1)


def test_charts_beside_each_other_have_the_same_lines():
    with pytest.raises(ParameterError, match="same names"):
        line_charts([panel("", 1.0, a=([], [])), panel("", 1.0, b=([], []))], columns=2)
    with pytest.raises(ParameterError, match="at least one"):
        line_charts([], columns=2)


def test_a_band_may_be_infinite_and_ends_beyond_the_axes():
    xs = np.array([1.0, 2.0, 3.0])
    line = xs, xs / 4, np.array([-np.inf, 0.2, 0.3]), np.array([0.5, 0.6, np.inf])
    ax, _ = on_axes(lines={"a": line})
    (band,) = ax.collections
    assert np.isfinite(band.get_paths()[0].vertices).all()
    assert ax.get_ylim() == (0.5, 1.0)


def test_lines_of_one_stem_share_a_colour_and_stems_differ_by_dashes_too():
    flat = np.array([0.0, 1.0]), np.array([0.6, 0.6])
    _, legend = on_axes(lines=dict.fromkeys(("a: front", "a: first n", "b: front", "b: first n", "c"), flat))
    looks = [(one.get_color(), one.get_linewidth()) for one in legend.values()]
    assert looks == [("#0072B2", 2.4), ("#0072B2", 1.1), ("#D55E00", 2.4), ("#D55E00", 1.1), ("#009E73", 2.4)]
    patterns = {str(one.get_linestyle()) + str(one._dash_pattern) for one in list(legend.values())[::2]}
    assert len(patterns) == 3


def test_a_value_that_stands_for_a_name_is_marked_by_it():
    long = "a name that is far too long for its place"
    ax, _ = on_axes(x=Scale("mode", -0.5, 1.5, names=("off", long)))
    found = [text.get_text() for text in ax.get_xticklabels()]
    assert found[0] == "off"
    assert long.startswith(found[1].removesuffix("\u2026"))
    assert len(found[1]) < len(long)


def test_shares_are_marked_in_per_cent_and_large_spreads_on_a_logarithm():
    ax, _ = on_axes(x=Scale("tokens, logarithmic", 1.0, 100.0, log=True), y=Scale("recall", 0.5, 1.0, percent=True))
    assert "10" in [text.get_text() for text in ax.get_xticklabels()]
    assert ax.get_xlim() == (1.0, 100.0)
    assert "60" in [text.get_text() for text in ax.get_yticklabels()]


def test_tags_share_a_label_at_one_place_and_have_an_entry_each_in_the_legend():
    rings = [Ring("one", 4.0, 0.75, tag="1", name="first"), Ring("two", 4.0, 0.75, tag="2", name="second")]
    rings.append(Ring("three", 100.0, 0.75, tag="3", name="far", shape="cross"))
    ax, legend = on_axes(rings=rings)
    assert [text.get_text() for text in ax.texts] == ["1,2", "3\u2192"]
    assert list(legend) == ["1 first", "2 second", "3 far"]
    assert legend["3 far"].get_xdata().tolist() == [8.0]
    assert legend["3 far"].get_gid() == "told:three (beyond the axes)"
    svg = line_charts([Panel("", {}, X, Y, rings)], columns=1)
    assert texts(svg)[-3:] == ["1 first", "2 second", "3 far"]


def test_names_of_users_are_no_formulas():
    ring = Ring("$t$", 4.0, 0.75, tag="$1$", name="_$n$")
    svg = line_charts([Panel("$p$", {"_a$b$": (np.zeros(1), np.zeros(1))}, Scale("$x_1$", 0, 1), Y, [ring])], columns=1)
    assert {"$p$", "_a$b$", "$x_1$", "$1$", "$1$ _$n$"} <= {text.removesuffix("\u2192") for text in texts(svg)}
