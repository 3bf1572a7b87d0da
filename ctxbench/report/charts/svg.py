"""Drawings as SVG text: the same bytes each time, texts that stay texts, and ids that are unique on a page.

Or as a PNG, in the same style.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from ctxbench.io.visible import visible

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PAPER = "#1c1f23", "#ffffff"  # of a file; what else is black or white is nearly so, as a page has its own
TOOLTIP = "told:"  # begins the `gid` of what has a tooltip; the text of it follows
_FONTS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif'
_STYLE: dict[str, Any] = {
    "svg.hashsalt": "ctxbench",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 13.0,
    "xtick.labelsize": 11.0,
    "ytick.labelsize": 11.0,
    "axes.labelsize": 11.5,
    "axes.titlesize": 11.5,
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.13,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), INK),
    "grid.color": INK,
    "xtick.major.pad": 6.0,
    "ytick.major.pad": 5.0,
    **{f"{axis}tick.{kind}.size": 0.0 for axis in "xy" for kind in ("major", "minor")},  # lines of the grid do
}
_HALO = f"paint-order: stroke; stroke: {PAPER}; stroke-width: 3px; stroke-linejoin: round"
_GROUND = f'<rect width="100%" height="100%" style="fill: {PAPER}" />'
_COLOUR = re.compile(f'(?<=: )({INK}|{PAPER})(?=[;"][^<>]*>)')
_SPARE = re.compile(r"(\.\d\d)\d+|\s*\b([MLCQz])\s*")  # of numbers and of paths
_XLINK = "{http://www.w3.org/1999/xlink}href"


def svg(draw: Callable[[Figure], None], *, width: float, height: float, name: str, label: str) -> str:
    """Draw on a figure, whatever the user's settings of matplotlib are, and give it back as the text of a file.

    Args:
        draw: draws on the figure that it is given.
        width, height: in pixels; so are sizes of letters.
        name: begins the names inside; unlike those of other drawings on the same page.
        label: what it is, for those who do not see it.
    """
    out = StringIO()
    with _drawn(draw, width, height) as figure:
        figure.patch.set_visible(False)
        for text in [text for ax in figure.axes for text in ax.texts if text.get_path_effects()]:
            text.set(path_effects=[], gid="halo")  # effects would turn letters into shapes
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    root = ET.fromstring(visible(out.getvalue()))  # noqa: S314 - matplotlib wrote it
    body = "".join(ET.tostring(_tidied(part, name), encoding="unicode") for part in root[1:])
    role = "group" if "<title>" in body else "img"
    head = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "chart", "role": role})
    head.attrib |= {"aria-label": visible(label), "viewBox": f"0 0 {width:g} {height:g}"}
    head.attrib |= {"width": f"{width:g}", "height": f"{height:g}", "font-family": _FONTS}
    head.attrib["style"] = f"max-width: {width:g}px; min-width: {0.9 * width:g}px"
    opened = ET.tostring(head, encoding="unicode").removesuffix(" />")
    return f'{opened} stroke-linejoin="round" stroke-linecap="butt">\n{_GROUND}\n{body}</svg>\n'


def png(draw: Callable[[Figure], None], *, width: float, height: float) -> bytes:
    """Draw on a figure as `svg` does, and give it back as a PNG file with two pixels for each of the drawing's."""
    out = BytesIO()
    with _drawn(draw, width, height) as figure:
        figure.savefig(out, format="png", dpi=2 * 72.0, metadata={"Software": None})
    return out.getvalue()


@contextmanager
def _drawn(draw: Callable[[Figure], None], width: float, height: float) -> Iterator[Figure]:
    """A figure that was drawn on, whatever the user's settings of matplotlib are, while it is saved."""
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", _STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the reader's fonts have it
        figure = Figure(figsize=(width / 72.0, height / 72.0))
        draw(figure)
        yield figure


def inline(text: str) -> Markup:
    """An SVG file's text as part of a page: in the page's colours, in a box that scrolls."""
    from markupsafe import Markup

    coloured = _COLOUR.sub(
        lambda match: {INK: "currentColor", PAPER: "var(--paper)"}[match[1]], text.replace(_GROUND, "")
    )
    label = re.findall('aria-label="[^"]*"', text)[0]
    return Markup(f'<div class="drawing" tabindex="0" role="region" {label}>{coloured}</div>')  # noqa: S704 - texts are escaped


def axes_at(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes with their upper left corner at `left` and `top` of the figure, all in pixels."""
    wide, high = figure.get_size_inches() * 72.0
    return figure.add_axes((left / wide, 1.0 - (top + height) / high, width / wide, height / high))


def _tidied(part: ET.Element, name: str) -> ET.Element:
    """Prefix or drop ids, add tooltips and halos, and round numbers to a hundredth."""
    for element in part.iter():
        element.tag = element.tag.rpartition("}")[2]
        element_id = element.attrib.pop("id", "")
        if element.tag == "g" and element_id.startswith(TOOLTIP):
            element.set("role", "img")
            element.insert(0, ET.Element("title"))
            element[0].text = element_id.removeprefix(TOOLTIP)
        elif element.tag != "g" and element_id:
            element.set("id", f"{name}-{element_id}")
        if _XLINK in element.attrib:
            element.set("href", f"#{name}-{element.attrib.pop(_XLINK)[1:]}")
        if "clip-path" in element.attrib:
            element.set("clip-path", element.attrib["clip-path"].replace("#", f"#{name}-"))
        for key in {"d", "x", "y", "transform"} & element.attrib.keys():
            element.set(key, _SPARE.sub(r"\1\2", element.attrib[key]))
        if element.get("transform", "").startswith("rotate(-0 "):
            del element.attrib["transform"]
        if element.tag == "text":
            element.set("style", re.sub(r" ?font-family:[^;]*;?", "", element.get("style", "")))
        if element_id == "halo":
            element.set("style", _HALO)
        element.text = element.text if element.tag in ("text", "title", "tspan") else None
        element.tail = "\n" if element.tag == "g" else None
    return part
