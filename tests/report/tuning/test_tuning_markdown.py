"""The report as Markdown."""

from __future__ import annotations

import pytest

from ctxbench.report.document import Bullets, Code, Details, Document, Drawing, Section, Table, Text, escaped, markdown
from ctxbench.report.tuning_document import document


def rendered(*blocks):
    return markdown(Document(title="t", opening=blocks), figures="figures/")


def test_every_block_is_rendered():
    drawing = Drawing(name="one", title="A | b", caption="See.", svg="<svg/>")
    table = Table("T", ("a", "b"), (("x|y", "1"), ("z", ("2", "told"))), frozenset({1}))
    section = Section("Part", (Text("One."), Bullets(("p", "q")), table, drawing))
    assert markdown(Document(title="t", sections=(section,), table_titles=False), figures="figures/") == (
        "# t\n\n## Part\n\nOne.\n\n* p\n* q\n\n"
        "| a | b |\n| --- | ---: |\n| x\\|y | 1 |\n| z | 2, told |\n\n"
        "![A \\| b](figures/one.svg)\n\nSee.\n"
    )
    assert rendered(Details("a < b", (Text("In."),))).endswith(
        "<details><summary>a &lt; b</summary>\n\nIn.\n\n</details>\n"
    )


def test_code_is_fenced_by_more_backticks_than_it_has():
    assert rendered(Code("ctxbench tune a")).endswith("```sh\nctxbench tune a\n```\n")
    assert rendered(Code("a ```` b")).endswith("`````sh\na ```` b\n`````\n")


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("a | b `c` *d*", r"a \| b \`c\` \*d\*"),
        ("<b> a < b <= c </b>", r"\<b> a < b <= c \</b>"),
        ("[x](y)\nz", r"\[x\](y) z"),
        ("_a_ b_c", r"\_a\_ b_c"),
        ("&lt; a & b", r"\&lt; a & b"),
        ("~a~ $b$ \\", r"\~a\~ \$b\$ \\"),
        ("a\u202eb", "a\ufffdb"),
    ],
)
def test_texts_of_users_are_no_markup(text, safe):
    assert escaped(text) == safe


@pytest.mark.parametrize(
    ("text", "safe"),
    [("# a", r"\# a"), ("- a", r"\- a"), ("1. a", r"1\. a"), ("12) a", r"12\) a"), ("> a", r"\> a"), ("1 a", "1 a")],
)
def test_no_paragraph_begins_a_heading_or_a_list(text, safe):
    assert rendered(Text(text)) == f"# t\n\n{safe}\n"
    assert rendered(Bullets((text,))) == f"# t\n\n* {safe}\n"


def test_a_hostile_tuning_stays_in_its_cells(made):
    text = markdown(document(made.edges()["hostile"]), figures="figures/")
    body = text.replace(f"```sh\n{' '.join(made.HOSTILE.split()).replace(chr(0x202E), chr(0xFFFD))}\n```", "")
    assert "<script>" not in body.replace("\\<script>", "")
    lines = body.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("| ---") and number:
            bars = [part.replace("\\\\", "").replace("\\|", "").count("|") for part in lines[number - 1 : number + 2]]
            assert len(set(bars)) == 1
    assert [line for line in lines if line.startswith("# ")] == [lines[0]]
