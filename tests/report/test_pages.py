"""A long report becomes a page and its tables, and nothing is lost or leads astray on the way."""

from __future__ import annotations

import pytest

from ctxbench.io.errors import StorageError
from ctxbench.report.pages import parted, titles, write_parted

TEXT = """# Which way

**The left one.**

See [every figure](#by-dataset) and [how](#how-it-was-made).

## Answer

| a | b |
| --- | --- |
| 1 | 2 |

## By dataset

### Notes

Left, of the [answer](#answer), [notes](#notes), ![drawn](ways/left.svg) and [data](../datasets/README.md).

## Every figure

### Notes

Right.

```md
## How it was made
[no link](#answer)
```

## How it was made

### Notes

By `make ways`; [above](#notes), [here](#notes-2).
"""


def test_sections_go_apart_and_the_page_links_to_them():
    both = parted(TEXT, ["By dataset", "Every figure"], name="ways")
    assert both.page == (
        "# Which way\n\n**The left one.**\n\n"
        "See [every figure](ways-tables.md#by-dataset) and [how](#how-it-was-made).\n\n"
        "## Answer\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n"
        "More tables: [By dataset](ways-tables.md#by-dataset), [Every figure](ways-tables.md#every-figure).\n\n"
        "## How it was made\n\n### Notes\n\nBy `make ways`; [above](ways-tables.md#notes), [here](#notes).\n"
    )
    assert both.tables == (
        "# Which way: tables\n\nThe page that these belong to: [Which way](ways.md).\n\n"
        "## By dataset\n\n### Notes\n\n"
        "Left, of the [answer](ways.md#answer), [notes](#notes), ![drawn](ways/left.svg) and "
        "[data](../datasets/README.md).\n\n"
        "## Every figure\n\n### Notes\n\nRight.\n\n```md\n## How it was made\n[no link](#answer)\n```\n"
    )


def test_a_heading_between_code_fences_is_none():
    text = "# t\n\n````\n```\n## one\n```\n````\n\n~~~ sh\n## two\n```\n~~~\n\n```no `fence```\n## three\n"
    assert titles(text) == ["three"]
    assert parted(text, ["three"], name="t").page.count("## ") == 2


def test_runs_of_sections_have_a_line_of_links_each():
    text = "# t\n\n## a\n\n1\n\n## b\n\n2\n\n## c\n\n3\n"
    page = parted(text, ["a", "c"], name="t").page
    assert page.startswith("# t\n\nMore tables: [a](t-tables.md#a).\n\n## b\n\n2\n\nMore tables: [c](t-tables.md#c).\n")


def test_nothing_goes_where_nothing_is_named():
    assert parted(TEXT, [], name="ways").page == TEXT
    assert parted("", [], name="ways").page == ""
    assert parted("# t\n", [], name="ways").tables == ""


def test_an_unknown_section_is_said():
    with pytest.raises(ValueError, match="no section is called How; there are Answer, By dataset"):
        parted(TEXT, ["How"], name="ways")
    with pytest.raises(ValueError, match="there are none"):
        parted("# t\n", ["How"], name="ways")


def test_tables_lie_beside_the_page_and_go_with_it(tmp_path):
    page, tables = tmp_path / "ways.md", tmp_path / "ways-tables.md"
    write_parted(page, TEXT, ["Every figure"])
    assert "## Every figure" in tables.read_text("utf-8")
    assert "## Every figure" not in page.read_text("utf-8")
    write_parted(page, TEXT)
    assert not tables.exists()
    assert page.read_text("utf-8") == TEXT


def test_a_file_of_somebody_else_is_neither_removed_nor_written_over(tmp_path):
    page, other = tmp_path / "ways.md", tmp_path / "ways-tables.md"
    for content in (b"my own notes\n", b"\xff\x00"):
        other.write_bytes(content)
        write_parted(page, TEXT)
        page.unlink()
        with pytest.raises(StorageError, match=r"ways-tables\.md is no report of ctxbench"):
            write_parted(page, TEXT, ["Every figure"])
        assert other.read_bytes() == content
        assert not page.exists()


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("workbench: 694 queries, 431 items", "workbench-694-queries-431-items"),
        ("bfcl-live", "bfcl-live"),
        ("<span>$</span>5 @&#8203;a `rule:b` \\<c", "5-a-ruleb-c"),
    ],
)
def test_what_run_and_tune_write_of_many_datasets(heading, anchor):
    own = f"## {heading}\n\n### Contenders\n\n![trade-off](presets/a-trade-off.svg)\n\n### Notes\n\n* none\n\n"
    text = f"# presets\n\nabout\n\n## What is recommended\n\n* keep it\n\n{own}{own.replace(heading, 'freight')}"
    both = parted(text, titles(text)[1:], name="presets")
    assert f"[{heading}](presets-tables.md#{anchor}), [freight](presets-tables.md#freight)." in both.page
    assert "![trade-off](presets/a-trade-off.svg)" in both.tables
    assert both.tables.count("### Contenders") == 2
