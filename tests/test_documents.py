"""Documents: every room says what lives there, and what documents name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ctxbench"
ROOMS = sorted({path.parent for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE})
WRITTEN = sorted(
    [
        *PACKAGE.rglob("*.md"),
        *(ROOT / "reports").glob("*.md"),
        *(ROOT / "experiments").glob("*/*.md"),
        *ROOT.glob("*.md"),
    ]
)


def name(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("room", ROOMS, ids=name)
def test_a_room_says_what_lives_there(room):
    lines = (room / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 16
    for wanted in ("* **In:** ", "* **Out:** ", "* **Start with:** "):
        assert any(line.startswith(wanted) for line in lines), wanted


@pytest.mark.parametrize("path", [room / "README.md" for room in ROOMS] + [PACKAGE / "decisions.md"], ids=name)
def test_files_that_a_document_of_the_package_names_are_there(path):
    places = (path.parent, PACKAGE, ROOT)
    named = re.findall(r"`([\w./-]+(?:\.py|\.md|/))`", path.read_text("utf-8"))
    assert [one for one in named if not any((place / one).exists() for place in places)] == []


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_links_lead_to_files(path):
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", path.read_text("utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []
