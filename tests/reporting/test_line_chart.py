"""Line charts: a small one read by hand."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np
import pytest

from ctxbench.core.errors import ParameterError
from ctxbench.reporting.line_chart import Panel, Ring, Scale, Stroke, line_chart, line_charts

X, Y = Scale("items <mean>", 0.0, 8.0), Scale("recall", 0.5, 1.0)
SVG = "{http://www.w3.org/2000/svg}"


def drawn(**lines):
    rings = [Ring("a & b", 4.0, 0.75)]
    return line_chart({name: (np.array(x), np.array(y)) for name, (x, y) in lines.items()}, x=X, y=Y, rings=rings)


def test_lines_stand_where_their_values_are():
    root = ET.fromstring(drawn(one=([0.0, 8.0], [0.5, 1.0])))
    paths = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "2"]
    assert paths[0] == "M58.0 316.0L622.0 16.0"
    (ring,) = root.iter(f"{SVG}circle")
    assert (ring.get("cx"), ring.get("cy")) == ("340.0", "166.0")
    assert ring[0].text == "a & b"


def test_points_outside_are_left_out_and_equal_ones_drawn_once():
    root = ET.fromstring(drawn(one=([0.0, 0.0, 0.0, 8.0, 9.0], [0.2, 0.5, 0.5, 1.0, 1.0])))
    paths = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "2"]
    assert paths[0] == "M58.0 316.0L622.0 16.0"


def test_axes_have_round_marks_and_titles():
    texts = [text.text for text in ET.fromstring(drawn(one=([0.0], [0.5]))).iter(f"{SVG}text")]
    assert texts[:9] == ["0", "1", "2", "3", "4", "5", "6", "7", "8"]
    assert "items <mean>" in texts
    assert {"0.5", "0.6", "1"} <= set(texts)


def test_a_line_without_points_has_its_name_only():
    root = ET.fromstring(drawn(one=([], []), two=([1.0, 2.0], [0.6, 0.7])))
    assert len([path for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "2"]) == 3
    assert [text.text for text in root.iter(f"{SVG}text")][-2:] == ["one", "two"]


def test_the_same_lines_are_the_same_bytes():
    assert drawn(one=([0.0, 1.0], [0.5, 0.6])) == drawn(one=([0.0, 1.0], [0.5, 0.6]))


def panel(title, x_high, **lines):
    drawn = {name: (np.array(xs), np.array(ys)) for name, (xs, ys) in lines.items()}
    return Panel(title, drawn, Scale("tokens", 0.0, x_high), Scale("recall %", 0.0, 60.0))


def test_charts_beside_each_other_have_axes_of_their_own_and_one_legend():
    one = panel("first <a>", 10.0, base=([0.0, 10.0], [0.0, 60.0]), other=([0.0], [0.0]))
    two = panel("second", 12000.0, base=([0.0, 12000.0], [0.0, 60.0]), other=([0.0], [0.0]))
    root = ET.fromstring(line_charts([one, two, one], columns=2))
    assert root.get("viewBox") == f"0 0 660 {2 * 250 + 12 + 2 * 19}"
    paths = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "2"]
    # a panel is 330 x 250; its box leaves 58 to the left, 16 + 18 above, 40 below, and to the right 18 or what half
    # of "10,000" takes at 6.9 a letter, and 2 more
    assert paths[0] == "M58.0 210.0L312.0 34.0"
    assert paths[2] == "M388.0 210.0L637.3 34.0"
    assert paths[4] == "M58.0 460.0L312.0 284.0"
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[-2:] == ["base", "other"]
    assert texts.count("base") == 1
    assert texts.count("first <a>") == 2


def test_no_label_of_a_mark_reaches_beyond_the_drawing():
    for high in (1.0, 9.99, 950.0, 12000.0, 250000.0):
        root = ET.fromstring(line_charts([panel("", high, base=([0.0, high], [0.0, 60.0]))], columns=1))
        for text in root.iter(f"{SVG}text"):
            if text.get("text-anchor") == "middle" and text.get("transform") is None:
                assert float(text.get("x")) + 6.9 * len(text.text) / 2 <= 330.0


def test_charts_beside_each_other_have_the_same_lines():
    with pytest.raises(ParameterError, match="same names"):
        line_charts([panel("", 1.0, a=([], [])), panel("", 1.0, b=([], []))], columns=2)
    with pytest.raises(ParameterError, match="at least one"):
        line_charts([], columns=2)


def chart(**given):
    made = {"lines": {"a": (np.array([1.0, 100.0]), np.array([0.0, 50.0]))}, "x": Scale("tokens", 1.0, 100.0, log=True)}
    made = {"title": "", "y": Scale("recall", 0.0, 50.0), **made, **given}
    return ET.fromstring(line_charts([Panel(**made)], columns=1))


def test_a_logarithmic_axis_marks_1_2_5_and_powers_of_ten():
    root = chart(lines={"a": (np.array([1.0, 10.0, 100.0]), np.array([0.0, 0.0, 0.0]))})
    (path,) = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "2"][:1]
    # 10 stands half way between 1 and 100: 58 to 330 - 18
    assert path == "M58.0 210.0L185.0 210.0L312.0 210.0"
    texts = [text.text for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "middle"]
    assert texts[:7] == ["1", "2", "5", "10", "20", "50", "100"]


def test_a_band_goes_there_and_back_and_ends_at_the_axes():
    xs = np.array([0.5, 1.0, 100.0])
    root = chart(bands={"a": (xs, np.array([0.0, -10.0, 40.0]), np.array([9.0, 10.0, 60.0]))})
    (band,) = [path for path in root.iter(f"{SVG}path") if path.get("fill-opacity")]
    # 0.5 lies before the axis; -10 ends at 0 (210) and 60 at 50 (16); 10 and 40 lie a fifth of 194 from the ends
    assert band.get("d") == "M58.0 171.2L312.0 16.0L312.0 54.8L58.0 210.0z"


def test_a_value_that_stands_for_a_name_is_marked_by_it():
    root = chart(x=Scale("mode", -0.5, 1.5, names=("off", "a name that is far too long for its place")))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[:2] == ["off", "a name that is f…"]


def test_tags_share_a_label_at_one_place_and_have_an_entry_each_in_the_legend():
    rings = [Ring("one", 10.0, 25.0, tag="1", name="first"), Ring("two", 10.0, 25.0, tag="2", name="second")]
    rings.append(Ring("three", 100.0, 25.0, tag="3", name="far", shape="cross", arrow="→"))
    root = chart(rings=rings)
    labels = [text.text for text in root.iter(f"{SVG}text") if text.get("paint-order")]
    assert labels == ["1,2", "3→"]
    legend = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")][-4:]
    assert legend == ["a", "1 first", "2 second", "3 far"]


def test_strokes_are_drawn_as_given():
    panel = Panel("", {"a": (np.zeros(0), np.zeros(0))}, X, Y)
    root = ET.fromstring(line_charts([panel], columns=1, strokes=[Stroke(1, "4 2", 1.5)]))
    (path,) = [path for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "1.5"]
    assert (path.get("stroke"), path.get("stroke-dasharray")) == ("#c2571a", "4 2")
