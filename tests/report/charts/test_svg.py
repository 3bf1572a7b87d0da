"""A drawing as the text of a file and as part of a page."""

from __future__ import annotations

import re
import subprocess
import sys
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest

from ctxbench.report.charts import PointLabel, place_labels
from ctxbench.report.pages import axes_at, inline, svg

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '</svg><script>alert(1)</script> $a_b$ _x & "q" \u202e\x1b\ud800 \u6f22'


def draw(figure):
    ax = axes_at(figure, 50, 20, 300, 200)
    ax.plot([1, 2, 3], [1, 30, 2], marker="o", gid=f"told:{HOSTILE}")
    ax.fill_between([1, 2, 3], [0, 1, 1], [3, 3, 9], color="#D55E00")
    ax.set_ylim(0, 10)
    place_labels(ax, [PointLabel((2, 5), HOSTILE.replace("\ud800", ""), (2, 5, 2, 5))])


def drawn(**given):
    return svg(draw, **{"width": 400.0, "height": 260.0, "name": "one", "label": HOSTILE, **given})


def test_the_same_drawing_is_the_same_bytes_whatever_the_settings_of_the_user():
    with mpl.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.facecolor": "red", "svg.hashsalt": "mine"}):
        other = drawn()
    assert other == drawn()
    assert not re.search(r"<\?xml|DOCTYPE|metadata|Date|Matplotlib|<style", drawn())


def test_texts_are_texts_without_markup_or_formulas():
    root = ET.fromstring(drawn())
    told = " ".join(HOSTILE.split()).replace("\u202e\x1b\ud800", "\ufffd\ufffd\ufffd")
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert told.replace("\ufffd\ufffd\ufffd", "\ufffd\ufffd") in texts
    assert [title.text for title in root.iter(f"{SVG}title")] == [told]
    assert root.get("aria-label") == told
    assert not list(root.iter(f"{SVG}script"))
    assert (root.get("role"), root.get("viewBox"), root.get("width")) == ("group", "0 0 400 260", "400")


def test_names_are_the_drawings_own_and_all_are_meant():
    text = drawn()
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert all(one.startswith("one-") for one in ids)
    assert set(re.findall(r'(?:url\(|href=")#([^")]+)', text)) == set(ids)
    assert not set(ids) & set(re.findall(r'\bid="([^"]+)"', drawn(name="two")))


def test_on_a_page_a_drawing_has_the_pages_paper_and_ink():
    file, page = drawn(), inline(drawn())
    assert "#ffffff" in file
    assert "#1c1f23" in file
    assert not re.search("#ffffff|#1c1f23", page)
    assert "fill: currentColor" in page
    assert "paint-order: stroke; stroke: var(--paper)" in page
    assert "#D55E00".lower() in page
    assert ET.fromstring(page).get("role") == "region"


def test_a_name_that_reads_like_a_colour_stays():
    def named(figure):
        axes_at(figure, 50, 20, 300, 200).set_xlabel("#ffffff; : #1c1f23;")

    page = inline(svg(named, width=400.0, height=260.0, name="one", label=": #ffffff;"))
    assert "#ffffff; : #1c1f23;" in [text.text for text in ET.fromstring(page).iter(f"{SVG}text")]


def test_what_leaves_the_axes_is_clipped():
    root = ET.fromstring(drawn())
    clips = {one.get("id") for one in root.iter(f"{SVG}clipPath")}
    used = [one.get("clip-path") for one in root.iter() if one.get("clip-path")]
    assert clips
    assert used
    assert {one[5:-1] for one in used} <= clips


@pytest.mark.parametrize("module", ["ctxbench.report.run_page", "ctxbench.report", "ctxbench.api.evaluation"])
def test_matplotlib_is_loaded_by_the_first_drawing_alone(module):
    code = f"import sys, {module}; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
