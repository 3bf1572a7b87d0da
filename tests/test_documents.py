"""Documents that a reader walks through: every room says what it is, and no link or command leads nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ctxbench"
NO_ROOMS = {"templates", "shipped", "__pycache__"}  # folders of data, told of in the README beside them
ANSWERS = ROOT / "reports" / "README.md"
PAGES = sorted(
    [
        *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "experiments" / "README.md", *PACKAGE.rglob("*.md")),
        *(page for folder in ("reports", "datasets") for page in (ROOT / folder).glob("*.md")),
    ],
    key=str,
)
LINK = re.compile(r"!?\[[^\]]*\]\(\s*([^)\s]+)\s*\)")


def plain(text: str) -> str:
    """Without fenced blocks and inline code, in which brackets are no links."""
    text = re.sub(r"^[ \t]*(```|~~~).*?^[ \t]*\1[ \t]*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)


def links(page: Path) -> Iterator[str]:
    """Targets of links on a page that lead to something in the repository."""
    for target in LINK.findall(plain(page.read_text("utf-8"))):
        if not re.match(r"[a-z][a-z+.-]*:", target):
            yield target


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    without = re.sub(r"^[ \t]*(```|~~~).*?^[ \t]*\1[ \t]*$", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#{1,6}[ \t]+(.+?)[ \t]*$", without, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number, anchor = 0, name
        while anchor in found:
            number += 1
            anchor = f"{name}-{number}"
        found.add(anchor)
    return found


def faults(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    wrong = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        to = page if not path else (page.parent / path).resolve()
        if not to.exists():
            wrong.append(f"{target}: there is no such file")
        elif anchor and to.suffix == ".md" and anchor not in anchors(to.read_text("utf-8")):
            wrong.append(f"{target}: that page has no such heading")
    return wrong


def rooms() -> list[Path]:
    """The folders of the package that hold code."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    return sorted(folder for folder in folders if not NO_ROOMS & set(folder.relative_to(PACKAGE).parts))


def test_every_room_says_what_it_is() -> None:
    assert len(rooms()) > 15
    assert [str(room.relative_to(ROOT)) for room in rooms() if not (room / "README.md").is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert faults(page) == []


def test_faults_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# What *holds*, and why\n```\n# no heading\n```\n", "utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#what-holds-and-why) [b](other.md#no-heading) [c](gone.md) [d](https://example.org) `[e](x)`\n",
        "utf-8",
    )
    assert [fault.split(":")[0] for fault in faults(page)] == ["other.md#no-heading", "gone.md"]


def coded(text: str) -> list[str]:
    """What stands in inline code or on a line of a fenced block."""
    blocks = re.findall(r"^[ \t]*```\w*\n(.*?)^[ \t]*```", text, re.MULTILINE | re.DOTALL)
    text = re.sub(r"^[ \t]*```.*?^[ \t]*```[ \t]*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [*re.findall(r"`([^`]+)`", text), *(line for block in blocks for line in block.splitlines())]


def test_files_that_are_named_exist() -> None:
    """Paths in inline code of what is written by hand; reports are made, and quote names of others."""
    path = re.compile(r"(?:ctxbench|tests|experiments|datasets|notebooks|reports)/[\w./-]+\.\w+")
    pages = [page for page in PAGES if page.parent.name != "reports" or page == ANSWERS]
    named = {(page, code) for page in pages for code in coded(page.read_text("utf-8")) if path.fullmatch(code)}
    assert named
    assert sorted(code for _, code in named if not (ROOT / code).exists()) == []


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {match[1] for code in coded(ANSWERS.read_text("utf-8")) if (match := re.match(r"make ([\w-]+)", code))}
    assert named
    assert named - targets == set()


def test_commands_exist() -> None:
    import typer.main

    from ctxbench.cli.app import app

    command, wrong, named = typer.main.get_command(app), [], 0
    for code in coded(ANSWERS.read_text("utf-8")):
        words = code.split()
        if words[:1] != ["ctxbench"]:
            continue
        named += 1
        here = command
        for word in words[1:]:
            below = getattr(here, "commands", None)
            if below is None:
                break
            if word not in below:
                wrong.append(code)
                break
            here = below[word]
    assert named
    assert wrong == []


def test_scripts_exist() -> None:
    named = {
        match[1] for code in coded(ANSWERS.read_text("utf-8")) if (match := re.match(r"python (\S+\.py)(?:\s|$)", code))
    }
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []
