"""Heat maps: small ones, read back from the artists and from the SVG."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from ctxbench.io.errors import ParameterError
from ctxbench.report.charts import HeatMap, heat_map, heat_maps

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
        "format_value": lambda value: f"{value:g}",
    }
    return HeatMap(**{**made, **given})


def drawn(one):
    """The axes, and by number the place, the tint and the letters of each cell."""
    ax = Figure(figsize=(8, 5)).subplots()
    mesh = heat_map(ax, one)
    cells = {}
    for text in ax.texts:
        column, row = (int(at) for at in text.get_position())
        cells[text.get_text()] = (column, row, mesh.to_rgba(one.values[row, column])[:3], text)
    return ax, cells


def test_rows_go_up_and_columns_to_the_right():
    ax, cells = drawn(table([[1, 2], [3, 4]]))
    assert {number: cell[:2] for number, cell in cells.items()} == {"1": (0, 0), "2": (1, 0), "3": (0, 1), "4": (1, 1)}
    assert ax.get_ylim() == (0, 2)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title(loc="left")) == ("topK", "topN", "recall <%>")


def test_the_lowest_is_pale_and_the_highest_dark():
    _, cells = drawn(table([[1, 2, 3]]))
    light = [sum(cells[number][2]) for number in "123"]
    assert light == sorted(light, reverse=True)
    assert light[0] > 2.8
    assert light[2] < 0.8


def test_below_where_tints_part_all_are_as_pale():
    _, cells = drawn(table([[1, 2, 4, 6]], pale=2.0))
    assert cells["1"][2] == cells["2"][2] != cells["4"][2]


def test_equal_values_have_one_tint_and_unknown_ones_no_number():
    _, cells = drawn(table([[2, float("nan"), 2]]))
    assert list(cells) == ["2"]
    assert drawn(table([[float("nan")]]))[1] == {}


def test_the_chosen_cell_has_a_frame_and_a_bold_number():
    ax, cells = drawn(table([[1, 2], [3, 4]], chosen=(1, 0)))
    assert [number for number, cell in cells.items() if cell[3].get_fontweight() == "bold"] == ["2"]
    assert {frame.get_xy() for frame in ax.patches} == {(1, 0)}
    assert not drawn(table([[1, 2]]))[0].patches


def test_numbers_in_cells_can_be_read_on_every_tint():
    def light(colour):
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

    _, cells = drawn(table(np.arange(40).reshape(4, 10)))
    assert len(cells) == 40
    for _, _, tint, text in cells.values():
        pair = sorted([light(tint), light(text.get_color())])
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.0


def test_a_cell_tells_a_pointer_where_it_stands():
    svg = heat_maps([table([[1, 2]])], columns=1)
    assert [title.text for title in ET.fromstring(svg).iter(f"{SVG}title")] == [
        "topK 0, topN 0: 1",
        "topK 1, topN 0: 2",
    ]


def test_tables_beside_each_other_have_cells_of_one_size():
    wide = table([[100000, 200000]])
    svg = heat_maps([table([[1, 2]]), wide, table([[1, 2], [3, 4]])], columns=2)
    boxes = [one.find(f"{SVG}rect") for one in ET.fromstring(svg).iter(f"{SVG}clipPath")]
    assert not boxes or len({round(float(box.get("width"))) for box in boxes}) == 1
    assert heat_maps([wide], columns=1) == heat_maps([wide], columns=1)


def test_where_numbers_do_not_fit_there_are_none():
    assert len(drawn(table(np.arange(400).reshape(20, 20)))[1]) == 400
    assert drawn(table(np.arange(40_000).reshape(200, 200)))[1] == {}


def test_no_table_and_a_table_of_another_shape_are_errors():
    with pytest.raises(ParameterError, match="at least one table"):
        heat_maps([], columns=1)
    with pytest.raises(ParameterError, match="as many rows as ys"):
        heat_maps([table([[1, 2]], ys=["a", "b"])], columns=1)
