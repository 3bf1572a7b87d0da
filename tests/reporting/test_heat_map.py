"""Heat maps: small ones read by hand."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from ctxbench.core.errors import ParameterError
from ctxbench.reporting.heat_map import HeatMap, heat_maps

SVG = "{http://www.w3.org/2000/svg}"


def table(values, **given):
    values = np.array(values, dtype=float)
    made = {
        "title": "recall <%>",
        "x": "topK",
        "y": "topN",
        "xs": [str(i) for i in range(values.shape[1])],
        "ys": [str(i) for i in range(values.shape[0])],
        "values": values,
        "told": lambda value: f"{value:g}",
    }
    return HeatMap(**{**made, **given})


def cells(svg):
    """Number, left, top and colour of each cell, by rows from below."""
    root = ET.fromstring(svg)
    shapes = {}
    for path in root.iter(f"{SVG}path"):
        for x, y, width in re.findall(r"M([0-9.]+) ([0-9.]+)h([0-9.]+)v", path.get("d")):
            shapes[round(float(x) + (float(width) + 1) / 2, 1), float(y)] = (float(x), path.get("fill"))
    found = []
    for group in root.iter(f"{SVG}g"):
        for text in group:
            x, colour = shapes[round(float(text.get("x")), 1), float(text.get("y")) - 16]
            found.append((text.text, x, float(text.get("y")) - 16, colour))
    return sorted(found, key=lambda cell: (-cell[2], cell[1]))


def texts(svg):
    return [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_rows_go_up_and_columns_to_the_right():
    found = cells(heat_maps([table([[1, 2], [3, 4]])], columns=1))
    assert [number for number, *_ in found] == ["1", "2", "3", "4"]
    # the labels of rows take 30 + 6.9, cells are 30 x 24, and the head takes 34
    assert [(x, y) for _, x, y, _ in found] == [(36.9, 58.0), (66.9, 58.0), (36.9, 34.0), (66.9, 34.0)]


def test_the_lowest_is_pale_and_the_highest_dark():
    found = {number: colour for number, _, _, colour in cells(heat_maps([table([[1, 2, 3]])], columns=1))}
    # halfway between (239, 245, 251) and (11, 61, 110)
    assert found == {"1": "#eff5fb", "2": "#7d99b4", "3": "#0b3d6e"}


def test_below_where_tints_part_all_are_pale_and_the_scale_says_so():
    svg = heat_maps([table([[1, 2, 4, 6]], pale=2.0)], columns=1)
    assert [colour for *_, colour in cells(svg)] == ["#eff5fb", "#eff5fb", "#7d99b4", "#0b3d6e"]
    assert texts(svg)[-2:] == ["up to 2", "6"]


def test_equal_values_have_one_tint_and_unknown_ones_no_cell():
    found = cells(heat_maps([table([[2, float("nan"), 2]])], columns=1))
    assert [colour for *_, colour in found] == ["#7d99b4"] * 2
    assert cells(heat_maps([table([[float("nan")]])], columns=1)) == []


def test_the_chosen_cell_has_a_frame_and_a_bold_number():
    svg = heat_maps([table([[1, 2], [3, 4]], chosen=(1, 0))], columns=1)
    bold = [text.text for text in ET.fromstring(svg).iter(f"{SVG}text") if text.get("font-weight")]
    assert bold == ["recall <%>", "2"]
    frames = [rect for rect in ET.fromstring(svg).iter(f"{SVG}rect") if rect.get("fill") == "none"]
    assert (frames[0].get("x"), frames[0].get("y")) == ("66.9", "58")
    assert texts(svg)[-1] == "chosen"
    assert "chosen" not in texts(heat_maps([table([[1, 2]])], columns=1))


def test_numbers_in_cells_can_be_read_on_every_tint():
    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        return sum(
            weight * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
            for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True)
        )

    svg = heat_maps([table([list(range(40))])], columns=1)
    inks = {text.text: group.get("fill") for group in ET.fromstring(svg).iter(f"{SVG}g") for text in group}
    for number, _, _, fill in cells(svg):
        ink = inks[number]
        pair = sorted([light(fill), light("#ffffff" if ink == "#fff" else ink)])
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.0


def test_tables_beside_each_other_have_cells_of_one_size():
    wide = table([[100000, 200000]])
    one, two = table([[1, 2]]), table([[1, 2], [3, 4]])
    found = {number: (x, y) for number, x, y, _ in cells(heat_maps([one, wide, two], columns=2))}
    side = found["200000"][0] - found["100000"][0]
    assert side == pytest.approx(found["4"][0] - found["3"][0])
    assert side > 30
    assert found["100000"][0] > found["2"][0]
    assert found["3"][1] > found["100000"][1]


def test_no_table_and_a_table_of_another_shape_are_errors():
    with pytest.raises(ParameterError, match="at least one table"):
        heat_maps([], columns=1)
    with pytest.raises(ParameterError, match="as many rows as ys"):
        heat_maps([table([[1, 2]], ys=["a", "b"])], columns=1)


def test_the_same_table_is_the_same_bytes():
    assert heat_maps([table([[1, 2]])], columns=1) == heat_maps([table([[1, 2]])], columns=1)
