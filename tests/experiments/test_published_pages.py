"""Every published page has the one form. That its links exist: tests/test_documents.py."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from pages import ANSWER_WORDS, COLUMNS, LINES

REPORTS = Path(__file__).parents[2] / "reports"
OTHERS = {"README"}  # the list of all
PAGES = sorted(path for path in REPORTS.glob("*.md") if path.stem.removesuffix("-tables") not in OTHERS)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_is_an_answer_a_picture_one_table_and_how_it_was_made(path):
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) <= LINES
    assert lines[0].startswith("# ")
    answer = re.fullmatch(r"\*\*([^*]+\.)\*\*", lines[2])
    assert answer, "one bold answer"
    assert len(answer[1].split()) <= ANSWER_WORDS
    picture = re.fullmatch(r"!\[.+\]\((.+\.svg)\)", lines[4])
    assert picture, "a picture below the answer"
    assert (REPORTS / picture[1]).is_file()
    heads = [line for line, below in itertools.pairwise(lines) if re.fullmatch(r"\|( ?:?-+:? ?\|)+", below)]
    assert len(heads) == 1, "one table"
    assert heads[0].count("|") - 1 <= COLUMNS
    assert "## How it was made" in lines


@pytest.mark.parametrize("path", sorted(REPORTS.glob("*.csv")), ids=lambda path: path.name)
def test_a_table_beside_a_page_is_named_on_it(path):
    assert any(f"({path.name})" in page.read_text("utf-8") for page in REPORTS.glob("*.md"))
