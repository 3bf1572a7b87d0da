"""Every published page is short, opens with its answer, and leads to what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ctxbench.reporting.pages import SUFFIX

REPORTS = Path(__file__).parents[2] / "reports"
MOST = 150
OTHERS = {"README"}  # the list of all
PAGES = sorted(path for path in REPORTS.glob("*.md") if path.stem not in OTHERS and not path.stem.endswith(SUFFIX))
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(path):
    """The anchors of the headings of a page without code fences."""
    words = [line.lstrip("#").strip().lower() for line in path.read_text("utf-8").splitlines() if line.startswith("#")]
    plain = [re.sub(r"[^\w\- ]", "", one).replace(" ", "-") for one in words]
    return {f"{one}-{plain[:place].count(one)}".removesuffix("-0") for place, one in enumerate(plain)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_is_short_and_opens_with_its_answer_in_one_bold_sentence(path):
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) <= MOST
    assert lines[0].startswith("# ")
    assert re.fullmatch(r"\*\*[^*]+\.\*\*", lines[2]), "one bold sentence"
    assert lines[3] == ""


@pytest.mark.parametrize("path", sorted(REPORTS.glob("*.md")), ids=lambda path: path.stem)
def test_links_of_pages_and_tables_lead_somewhere(path):
    for link in LINK.findall(path.read_text("utf-8")):
        file, _, anchor = link.partition("#")
        if not link.startswith("http"):
            leads = path.parent / file if file else path
            assert leads.exists(), link
            assert not anchor or anchor in anchors(leads), link


@pytest.mark.parametrize("tables", sorted(REPORTS.glob(f"*{SUFFIX}.md")), ids=lambda path: path.stem)
def test_tables_have_a_page_that_leads_to_them(tables):
    page = REPORTS / f"{tables.stem.removesuffix(SUFFIX)}.md"
    assert f"({tables.name}#" in page.read_text("utf-8")
    assert f"({page.name})" in tables.read_text("utf-8").splitlines()[2]
