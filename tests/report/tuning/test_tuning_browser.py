"""The report's page in real Chromium, opened from disk: it fits, it can be read, and it asks for nothing."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from tests.report.conftest import overprinted

pytestmark = pytest.mark.rest  # needs Chromium

BOXES = """(svg) => [...svg.querySelectorAll("text")].map((text) => {
    const box = text.getBoundingClientRect();
    return [text.textContent, box.left, box.top, box.right, box.bottom];
})"""


@pytest.fixture
def open_page(page_with: Any, report_of: Any) -> Iterator[Any]:
    """Opens the page of a report; afterwards it must have asked for nothing but itself, and not have complained."""
    pages, asked, trouble = [], [], []
    listeners = {
        "request": lambda request: asked.append(request.url),
        "console": lambda said: trouble.append(said.text) if said.type in ("error", "warning") else None,
        "dialog": lambda dialog: (trouble.append(dialog.message), dialog.dismiss()),
    }

    def open_it(report: str, *, width: int = 1280, **given: Any) -> Any:
        _, html, *_ = report_of(report)
        page = page_with(viewport={"width": width, "height": 900}, **given)
        assert page not in pages
        pages.append(page)
        for event, listener in listeners.items():
            page.on(event, listener)
        page.goto(html.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        return page

    yield open_it
    for page in pages:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
    assert [url for url in asked if not url.endswith("/report.html")] == []
    assert trouble == []


def overflow(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("edge", ["hostile", "huge", "unread"])
def test_only_tables_scroll_sideways(open_page: Any, edge: str, width: int) -> None:
    page = open_page(edge, width=width)
    assert overflow(page) <= 0
    hidden = ".narrow svg.chart" if width > 560 else ".wide svg.chart"
    assert all(svg.is_visible() for svg in page.locator(f"svg.chart:not({hidden})").all())


def test_the_summary_of_a_common_tuning_fits_a_screen(open_page: Any) -> None:
    page = open_page("usual")
    sizes = page.locator(".scroll").first.evaluate("(box) => [box.scrollWidth, box.clientWidth]")
    assert sizes[0] <= sizes[1]


def test_texts_of_strangers_are_shown_and_never_run(open_page: Any, made: Any) -> None:
    page = open_page("hostile")
    wanted = " ".join(made.HOSTILE.split()).replace("\u202e", "\ufffd")
    assert page.locator("h1").text_content() == wanted
    assert page.locator("script, img, b").count() == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_no_text_of_a_figure_meets_another_leaves_it_or_is_too_small(open_page: Any, width: int) -> None:
    page = open_page("one dataset", width=width)
    for svg in (svg for svg in page.locator("svg.chart").all() if svg.is_visible()):
        whole = svg.evaluate("(svg) => { const b = svg.getBoundingClientRect(); return [b.left, b.top, b.right]; }")
        boxes = [box for box in svg.evaluate(BOXES) if box[0]]
        for text, left, top, right, _ in boxes:
            assert min(left - whole[0], whole[2] - right, top - whole[1]) >= -1, text
        for a, b in itertools.combinations(boxes, 2):
            assert not (a[1] + 1 < b[3] and b[1] + 1 < a[3] and a[2] + 3 < b[4] and b[2] + 3 < a[4]), (
                f"{a[0]!r} meets {b[0]!r}"
            )
        scale = float(svg.evaluate("(svg) => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width"))
        assert 0.89 < scale <= 1.001


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("report", ["usual", "huge", "hostile"])
def test_nothing_is_printed_over_a_label_of_a_chart(open_page: Any, report: str, width: int, scheme: str) -> None:
    assert overprinted(open_page(report, width=width, color_scheme=scheme)) == []


def test_no_name_stands_twice_on_a_page(open_page: Any) -> None:
    page = open_page("usual")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))


def contrast(page: Any, selector: str) -> float:
    """WCAG's contrast of the letters of an SVG text, or of an element, with the page."""
    script = """(element) => {
        const light = (colour) => {
            const [r, g, b] = colour.match(/[0-9.]+/g).slice(0, 3).map((c) => c / 255)
                .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const style = getComputedStyle(element);
        const ink = element.ownerSVGElement ? style.fill : style.color;
        const pair = [light(ink), light(getComputedStyle(document.body).backgroundColor)];
        return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    }"""
    return float(page.locator(selector).first.evaluate(script))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_in_light_and_dark(open_page: Any, scheme: str) -> None:
    page = open_page("usual", color_scheme=scheme)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (min(int(c) for c in paper[4:-1].split(",")) > 200) is (scheme == "light")
    for selector in ("td", "td.change", "thead th", "figcaption", "svg.chart text", "svg.chart g[style] text"):
        assert contrast(page, selector) >= 4.5, selector


def test_a_print_is_black_on_white_and_fits(open_page: Any) -> None:
    page = open_page("usual", width=1030, color_scheme="dark")  # A4 across, less its margins
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert overflow(page) <= 0


SIDES = "(box) => [box.scrollWidth - box.clientWidth, box.clientWidth]"


def marked(page: Any, box: Any) -> bool:
    """Whether an arrow stands in the corner at the right, by its pixels."""
    image = Image.open(io.BytesIO(box.screenshot())).convert("L")
    corner = [image.getpixel((image.width - 7, y)) for y in range(4, 14)]
    paper = image.getpixel((image.width - 20, 2))
    return max(abs(one - paper) for one in corner) > 60


@pytest.mark.parametrize("width", [800, 400])
def test_a_table_that_goes_on_has_an_arrow_until_its_end(open_page: Any, width: int) -> None:
    page = open_page("huge", width=width)
    box = page.locator('.scroll[aria-label="Gain by ranking and gain by cut"]')
    beyond, _ = box.evaluate(SIDES)
    assert beyond > 0
    assert marked(page, box)
    box.evaluate("(one) => { one.scrollLeft = one.scrollWidth; }")
    assert not marked(page, box)


@pytest.mark.parametrize("edge", ["usual", "huge", "hostile"])
def test_every_cell_of_the_presets_is_seen_at_400_pixels(open_page: Any, edge: str) -> None:
    page = open_page(edge, width=400)
    for cell in page.locator("table.stacked td").all():
        box = cell.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 400
    heads = page.locator("table.stacked >> nth=0 >> tr >> nth=1 >> td").evaluate_all(
        "(cells) => cells.map((cell) => getComputedStyle(cell, '::before').content)"
    )
    assert any("difference" in head for head in heads)


def test_a_table_that_fits_has_no_arrow(open_page: Any) -> None:
    page = open_page("usual")
    assert not marked(page, page.locator(".scroll").first)
