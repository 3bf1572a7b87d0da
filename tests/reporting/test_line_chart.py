"""Line charts: a small one read by hand."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np

from ctxbench.reporting.line_chart import Ring, Scale, line_chart

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
