"""Documents name only what exists: links, files, modules and commands; the docstring of a room lists its modules."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ctxbench"
ANSWERS = ROOT / "reports" / "README.md"
PAGES = sorted(
    [
        *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PACKAGE.rglob("*.md"), *(ROOT / "experiments").rglob("*.md")),
        *(page for folder in ("experiments/guide", "reports", "datasets") for page in (ROOT / folder).glob("*.md")),
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


ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_every_room_lists_its_modules(room: Path) -> None:
    docstring = ast.get_docstring(ast.parse((room / "__init__.py").read_text("utf-8")))
    listed = re.findall(r"^    ([\w/]+): ", docstring.partition("\nModules:\n")[2], re.MULTILINE)
    paths = (path.relative_to(room).with_suffix("").as_posix() for path in room.rglob("*.py"))
    assert sorted(listed) == sorted(path for path in paths if not path.endswith("__init__"))


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


OF_A_READER = ("CONTRIBUTING.md", "extending.md")  # with commands of a package of a reader's
CODED = [code for page in PAGES if page.name not in OF_A_READER for code in coded(page.read_text("utf-8"))]


@cache
def words_of(path: Path) -> set[str]:
    """All words of a file."""
    return set(re.findall(r"\w+", path.read_text("utf-8")))


def missing_names(text: str) -> list[str]:
    """Paths in the repository, and modules of the package with the name in them, that do not exist."""
    text = re.sub(r"^```python\n# \S+\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)  # a package of a reader's
    folders = r"(?:(?:ctxbench|tests|experiments|notebooks)/[\w./-]*\w|(?:datasets|reports)/[\w/-]+\.(?!py\b)\w+)"
    paths = re.findall(rf"(?<![\w/.-])(?:\.\./)*({folders})", text)
    missing = [path for path in paths if not (ROOT / path).exists()]
    for dotted in re.findall(r"(?<![\w./-])ctxbench(?:\.\w+)+", text):
        path, (*parts,) = PACKAGE, dotted.split(".")[1:]
        while parts and (path / parts[0]).is_dir():
            path /= parts.pop(0)
        if path == PACKAGE:  # what `import ctxbench` offers, or a group of entry points
            continue
        path = path / f"{parts.pop(0)}.py" if parts and (path / f"{parts[0]}.py").is_file() else path / "__init__.py"
        if parts and parts[0] not in words_of(path):
            missing.append(dotted)
    return missing


def test_paths_and_modules_that_are_named_exist() -> None:
    """In what is written by hand: reports are generated, and quote other code."""
    patterns = ("*.md", "datasets/*.md", "experiments/*.md", "experiments/*/*.md", "tests/**/*.md")
    written = [page for pattern in (*patterns, "ctxbench/**/*.md", "ctxbench/**/*.py") for page in ROOT.glob(pattern)]
    wrong = {str(page.relative_to(ROOT)): missing_names(page.read_text("utf-8")) for page in (*written, ANSWERS)}
    assert len(wrong) > 200
    assert {page: names for page, names in wrong.items() if names} == {}


def test_missing_names_are_found() -> None:
    text = "`ctxbench/io/gone.py` `tests/io` ctxbench.io.files.read_text ctxbench.io.files.gone_name ctxbench.io.gone"
    assert missing_names(text) == ["ctxbench/io/gone.py", "ctxbench.io.files.gone_name", "ctxbench.io.gone"]


def test_codes_of_messages_are_listed() -> None:
    page = runpy.run_path(str(ROOT / "experiments" / "guide" / "codes.py"))["page"]
    assert (ROOT / "experiments" / "guide" / "codes.md").read_text("utf-8") == page(), "run `make codes`"


def test_kinds_of_imports_are_listed() -> None:
    page = runpy.run_path(str(ROOT / "experiments" / "guide" / "kinds.py"))["page"]
    text = (ROOT / "datasets" / "kinds.md").read_text("utf-8")
    assert text == page(text), "run `make kinds`"


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {match[1] for code in CODED if (match := re.match(r"make ([\w-]+)", code))}
    assert named
    assert named - targets == set()


def test_commands_exist() -> None:
    import typer.main

    from ctxbench.cli.app import app

    command, wrong, named = typer.main.get_command(app), [], 0
    for code in CODED:
        words = code.split()
        if words[:1] != ["ctxbench"]:
            continue
        named += 1
        here = command
        for word in words[1:]:
            below = getattr(here, "commands", None)
            if below is None or word.startswith("-"):
                break
            if word not in below:
                if here.name != "import":  # whose sub-command may be left out
                    wrong.append(code)
                break
            here = below[word]
    assert named
    assert wrong == []


def test_scripts_exist() -> None:
    """From the root of the repository or, in a recipe, from the folder of its page."""
    named = {
        (page.parent, match[1])
        for page in PAGES
        if page.name != "CONTRIBUTING.md"
        for code in coded(page.read_text("utf-8"))
        if (match := re.match(r"python (\S+\.py)(?:\s|$)", code))
    }
    assert named
    assert [
        str(folder / path)
        for folder, path in sorted(named)
        if not any((root / path).is_file() for root in (ROOT, folder))
    ] == []
