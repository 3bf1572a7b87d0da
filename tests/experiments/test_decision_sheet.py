"""Every figure of the decision sheet is on a page that its row links to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPORTS = Path(__file__).parents[2] / "reports"
SHEET = (REPORTS / "README.md").read_text("utf-8")
LINK = re.compile(r"\[[^\]]*\]\(([\w-]+\.md)\)")
FIGURE = re.compile(r"(?<![\w.,])[+−-]?\d[\d,]*(?:\.\d+)?(?![\w])")
ROWS = [line for line in SHEET.splitlines() if line.startswith("|") and LINK.search(line)]


def figures(text: str) -> set[str]:
    """The figures of a text outside code and links; a minus may be a hyphen."""
    text = re.sub(r"`[^`]*`", "", LINK.sub("", text)).replace("−", "-")
    return {figure.strip(",") for figure in FIGURE.findall(text)}


def missing(row: str, folder: Path = REPORTS) -> set[str]:
    """Figures of a row that no page of its links has."""
    pages = [(folder / name).read_text("utf-8") for name in LINK.findall(row)]
    shown = set().union(*(figures(page) for page in pages))
    return {figure for figure in figures(row) if figure not in shown | {name.lstrip("+-") for name in shown}}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_figures_are_on_the_page(row):
    assert missing(row) == set()


def test_a_figure_that_no_page_has_is_found(tmp_path):
    (tmp_path / "page.md").write_text("**−1.5** points of 2,310 `7`")
    assert missing("| −1.5 of 2,310, not 7 | [page](page.md) |", tmp_path) == {"7"}
