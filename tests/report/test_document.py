"""One document of every block, in every form: each writer renders whatever a document may hold."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from ctxbench.report.document import (
    Bullets,
    Code,
    Details,
    Document,
    Drawing,
    Quoted,
    Section,
    Table,
    Text,
    Weight,
    console_text,
    markdown,
)
from ctxbench.report.pages import page

PRICES = Table("Prices", ("item", "tokens"), (((Quoted("rule:a"), Quoted("be *brief*")), "12"),), frozenset({1}))
SIDES = Table("Sides", ("what", "change"), (("all", ("-1.0", "p=0.04")),))
SVG = '<svg xmlns="http://www.w3.org/2000/svg" aria-label="d"><g/></svg>'


@pytest.fixture
def told() -> Document:
    drawing = Drawing(name="one", title="Drawn", caption="See.", svg=SVG)
    blocks = (PRICES, replace(PRICES, title="More", weight=Weight.DETAIL), drawing)
    return Document(
        title="all of it",
        answer="Yes.",
        about="What for?",
        opening=(SIDES,),
        sections=(Section("First", blocks), Section("Second", (Details("Inside", (Text("In."),)),))),
        closing=(Bullets(("do this",)), Code("ctxbench run")),
        kicker="ctxbench test",
    )


def test_the_console_shows_every_block(told: Document) -> None:
    assert console_text(told).splitlines() == [
        *("all of it", "", "Yes.", "", "What for?", ""),
        *("    what  change", "    all   -1.0, p=0.04", ""),
        *("First", "  Prices", "    item                 tokens", '    rule:a "be *brief*"      12', ""),
        *("  More", "    item                 tokens", '    rule:a "be *brief*"      12', ""),
        *("  Drawn", "    See.", ""),
        *("Second", "  Inside", "In.", ""),
        *("  - do this", "  ctxbench run"),
    ]


def test_markdown_shows_every_block(told: Document) -> None:
    prices = "| item | tokens |\n| --- | ---: |\n| `rule:a`<br>`be *brief*` | 12 |"
    assert markdown(told, figures="f/").split("\n\n") == [
        *("# all of it", "**Yes.**", "What for?", "| what | change |\n| --- | --- |\n| all | -1.0, p=0.04 |"),
        *("## First", "**Prices**", prices),
        *("<details><summary>More</summary>", prices, "</details>", "![Drawn](f/one.svg)", "See."),
        *("## Second", "<details><summary>Inside</summary>", "In.", "</details>"),
        *("* do this", "```sh\nctxbench run\n```\n"),
    ]


def test_below_the_first_level_the_title_says_what_made_it(told: Document) -> None:
    lines = markdown(replace(told, level=2)).splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        "## ctxbench test: all of it",
        "### First",
        "### Second",
    ]


def test_a_page_shows_every_block(told: Document) -> None:
    text = page(told)
    assert re.findall(r"<h\d[^>]*>(?:<bdi>)?([^<]+)", text) == [
        "all of it",
        "First",
        "Prices",
        "Drawn",
        "Second",
    ]
    assert re.findall("<summary>([^<]+)", text) == ["More", "Inside"]
    assert re.findall('<a [^>]*href="([^"]+)"', text) == ["#part-1", "#part-1", "#part-2"]
    for said in (
        "<strong>Yes.</strong>",
        "What for?",
        "-1.0<br>p=0.04",
        "rule:<wbr>a</bdi><br><bdi>be *brief*",
        "<g/></svg>",
        "In.",
    ):
        assert said in text
    assert text.index("-1.0") < text.index("First</bdi></h2>") < text.index("do this") < text.index("ctxbench run")


@pytest.mark.parametrize("given", [{"table_titles": False}, {"sections": ()}])
def test_titles_of_tables_are_left_out_where_headings_say_them(told: Document, given: Any) -> None:
    other = replace(told, **given)
    assert "  Prices\n" not in console_text(other)
    assert "**Prices**" not in markdown(other)
    assert "Prices</h" not in page(other)


def test_what_is_left_out_is_said_in_words_of_the_document() -> None:
    rows = tuple((f"{place:05}",) for place in range(1000))
    table = Table("T", ("a",), rows, n_shown=2)
    told = Document(title="t", sections=(Section("s", (table,)),))
    assert "    and 998 more\n" in console_text(told)
    assert " more rows left out: no room here.\n" in markdown(told, limit=2000)
    assert "more rows" not in markdown(told, limit=None)
    other = replace(told, whole_in=("--json", "--csv FILE"), unit="things")
    assert "    and 998 more (all of them: --json or --csv FILE)\n" in console_text(other)
    assert " more rows left out: no room here; `--json` has them.\n" in markdown(other, limit=2000)
    many = replace(other, sections=other.sections * 100)
    assert re.search(r"\d+ more things left out: no room here; `--json` has them\.", markdown(many, limit=2000))


def test_all_blocks_are_found_those_inside_of_details_too(told: Document) -> None:
    kinds = [type(block).__name__ for block in told.blocks()]
    assert kinds == [
        *("Table", "Table", "Table", "Drawing", "Details", "Text", "Bullets", "Code"),
    ]
