"""Every published page is short and opens with its answer; tables have a page. Links: tests/test_documents.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ctxbench.report.pages import SUFFIX

REPORTS = Path(__file__).parents[2] / "reports"
MOST = 150
OTHERS = {"README"}  # the list of all
PAGES = sorted(path for path in REPORTS.glob("*.md") if path.stem not in OTHERS and not path.stem.endswith(SUFFIX))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_is_short_and_opens_with_its_answer_in_one_bold_sentence(path):
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) <= MOST
    assert lines[0].startswith("# ")
    assert re.fullmatch(r"\*\*[^*]+\.\*\*", lines[2]), "one bold sentence"
    assert lines[3] == ""


@pytest.mark.parametrize("tables", sorted(REPORTS.glob(f"*{SUFFIX}.md")), ids=lambda path: path.stem)
def test_tables_have_a_page_that_leads_to_them(tables):
    page = REPORTS / f"{tables.stem.removesuffix(SUFFIX)}.md"
    assert f"({tables.name}#" in page.read_text("utf-8")
    assert f"({page.name})" in tables.read_text("utf-8").splitlines()[2]
