"""A check as Markdown: read as GitHub reads it, and short enough for it."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import example, given, strategies as st
from markdown_it import MarkdownIt

from ctxbench.report.check_document import document, summary
from ctxbench.report.document import LIMIT, Bullets, Code, Document, Quoted, Section, Table, Text, Weight, markdown

READER = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")


def cells(text):
    """All tables of a text as lists of rows of rendered cells."""
    html = READER.render(text)
    return [
        [
            re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
            for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
        ]
        for table in re.findall(r"<table>(.*?)</table>", html, re.DOTALL)
    ]


def one_cell(text):
    """The cell that a text of someone else's becomes."""
    table = Table(title="T", head=("a", "b"), rows=((Quoted(text), "end"),))
    rendered = markdown(Document(title="t", opening=(table,), sections=(), closing=()))
    (((_, _), (cell, end)),) = cells(rendered)
    assert end == "end"
    return cell


def test_a_check_is_read_back_as_tables(made):
    found = cells(markdown(document(made.every())))
    assert [row[0] for row in found[0][1:]] == ["not comparable", "worse", "inconclusive", "better", "same"]
    lost = next(table for table in found if table[0][:2] == ["query", "item"])
    assert lost[1][0] == "<code>q2</code><br><code>please review my code</code>"
    assert lost[1][1] == "<code>rule:code%20review</code>"


def test_what_is_for_information_is_folded(made):
    text = markdown(document(made.check(made.worse())))
    assert "<details><summary>Optional items that moved: 1</summary>\n\n| query |" in text
    assert text.count("<details>") == text.count("</details>") == 2
    assert "**Required items lost: 1**\n\n| query |" in text


def test_what_is_told_first_is_not_folded_and_all_else_is(made):
    text = markdown(document(made.check(made.worse(), made.same()), accept="ctxbench check gate.yaml --accept"))
    told, details = text.split("\n<details><summary>Details</summary>\n")
    assert re.findall("^#+ .*", told, re.MULTILINE) == [
        *(text.splitlines()[0], "### Losses: 1 required item", "### Causes and suggested fixes", "### Next")
    ]
    assert told.endswith("ctxbench check gate.yaml --accept\n```\n")
    assert "| verdict | dataset |" in details
    assert details.endswith("\n</details>\n")
    assert markdown(document(made.check(made.same()))).count("<details>") == 1
    assert "<details>" not in markdown(summary(made.check(made.worse())))


@pytest.mark.parametrize("limit", [65_000, 20_000, 6_000, 3_000])
def test_what_is_left_out_leaves_no_fold_open(made, limit):
    for check in (made.many(2_000), made.check(*[made.same()] * 300)):
        text = markdown(document(check), limit=limit)
        assert text.count("<details>") == text.count("</details>")
        assert len(text.encode()) <= limit


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a | b", "<code>a | b</code>"),
        ("`a` ``b``", "<code>`a` ``b``</code>"),
        ("a`", "<code>a`</code>"),
        ("<b>x</b> &amp;", "<code>&lt;b&gt;x&lt;/b&gt; &amp;amp;</code>"),
        ("*a* _b_ [c](d) @e #1 ~~f~~", "<code>*a* _b_ [c](d) @e #1 ~~f~~</code>"),
        ("a\nb\r\nc", "<code>a b c</code>"),
        ("a\\", "<code>a\\</code>"),
        ("a \\| b", "<code>a \\| b</code>"),
        ("a\u202eb\x00\ud800", "<code>a\ufffdb\ufffd\ufffd</code>"),
        ("", ""),
    ],
)
def test_what_others_wrote_is_code_in_one_cell(text, cell):
    assert one_cell(text) == cell


@given(st.text(alphabet="ab `|\\\\*_[]()<>&#@:/.~$!-\n\t1", max_size=20))
def test_whatever_others_wrote_is_one_cell_that_says_the_same(text):
    cell = one_cell(text)
    said = unescape(re.fullmatch(r"(?:<code>(.*)</code>)?", cell, re.DOTALL)[1] or "")
    assert said.replace("\u200b", "") == " ".join(text.split())
    table = Table(title="T", head=("a", "b"), rows=((text, "end"),))  # and so it is where it is no quotation
    (((_, _), (sentence, end)),) = cells(markdown(Document(title="t", opening=(table,), sections=(), closing=())))
    assert end == "end"
    shown = unescape(re.sub("</?(code|span)>", "", sentence)).replace("\u200b", "")
    assert shown.replace("`", "") == " ".join(text.split()).replace("`", "")  # code may stand without its backticks
    assert "<" not in re.sub(r"</?code>|<span>\$</span>", "", sentence)


FRAGMENTS = (
    *("rule:a%20b", "tool:calendar:x_y", "rule:`|", "tool:a.", "$", "GH-12", "gh-1", "@me/team", "#1", ":tada:", "<b>"),
    *(
        "http://x.y",
        "HTTPS://x",
        "www.x.y",
        "a@b.c",
        "`",
        "|",
        "\\",
        "&lt;",
        "&",
        "<!--",
        "-->",
        "_",
        "*",
        "~",
        "!",
        "[",
    ),
    *("]", "(", ")", " ", "\n", "a", "^", "x", "1.", "-", "+", "=", ">", '"', "'", ",", ";"),
)


@example("__rule:a%20b__")
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
def test_whatever_others_wrote_mentions_links_and_draws_nothing(text):
    said = " ".join(text.split())
    table = Table(title="T", head=("a", "b"), rows=((text, "end"),))
    told = Document(title="t", opening=(Bullets((f"a {text}",)), table), sections=(), closing=())
    source = markdown(told)
    html = READER.render(source)
    (((_, _), (cell, end)),) = cells(source)
    assert end == "end"
    for rendered in (cell, re.search(r"<li>a ?(.*?)</li>", html, re.DOTALL)[1]):
        assert set(re.findall(r"</?([a-z0-9]+)", rendered)) <= {"code", "span", "br"}
        text_of_it = unescape(re.sub(r"</?(code|span)>", "", rendered.replace("<br>", " "))).replace("\u200b", "")
        assert " ".join(text_of_it.split()).replace("`", "") == said.replace("`", "")
        outside = re.sub(r"<code>.*?</code>", "\0", rendered)  # what stands in code means nothing to GitHub
        assert not re.search(r"[@#]\w|(?i:gh-\d|www\.)|:[\w+-]+:", unescape(outside))
        assert "$" not in outside.replace(
            "<span>$</span>", ""
        )  # the way GitHub names for a dollar that is none of a formula
    if "`" not in text:
        assert not re.search(r"(?<!\\)://", re.sub("`[^`]*`", "", source))  # a backslash ends an address


def test_ids_stand_as_code_so_that_they_can_be_copied():
    text = "edited (rule:code%20review), tool:calendar:add: rule:v1.2."
    told = Document(title="t", opening=(Text(text),), sections=(), closing=())
    assert markdown(told).endswith("edited (`rule:code%20review`), `tool:calendar:add`: `rule:v1.2`.\n")


def test_a_line_of_a_file_stands_as_code_and_a_fix_below_its_cause():
    told = Document(title="t", opening=(Bullets(("a/b-c.jsonl:12: CTX1 x\nfix: y", "at 10:30, h.x:1a, ://h.x:80: z")),))
    first, second = markdown(told).splitlines()[2:]
    assert first == "* `a/b-c.jsonl:12`: CTX1 x<br>fix: y"
    assert "`" not in second


def test_no_text_breaks_a_table_or_runs_as_html(made):
    text = markdown(document(made.hostile()))
    html = READER.render(text)
    assert "<script" not in html
    assert "<em>" not in html
    assert not re.search(r"<a |<h1|<s>", html)
    assert set(re.findall(r"<([a-z0-9]+)", html)) <= {
        *("h2", "h3", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "code", "br"),
        *("details", "summary"),
    }
    for table in cells(text):
        assert {len(row) for row in table} == {len(table[0])}
    outside = re.sub(r"<code>.*?</code>", "", html)
    assert "@admin" not in outside  # nobody is mentioned
    assert "#12" not in outside  # and no issue
    assert "http://" not in re.sub(r"http\\://", "", text.replace("&#47;", "/"))  # a backslash ends the address


@pytest.mark.parametrize("start", ["# a", "1. a", "- a", "> a", "+ a"])
def test_no_sentence_begins_a_heading_or_a_list(start):
    told = Document(title="t", opening=(Text(start),), kicker="ctxbench check", level=2)
    html = READER.render(markdown(told))
    assert html.replace("&#8203;", "") == f"<h2>ctxbench check: t</h2>\n<p>{start.replace('>', '&gt;')}</p>\n"


def test_what_a_message_has_between_backticks_stands_as_code():
    fix = "move them: `ctxbench data rebase evals --in-place`, with `tool:a_b: tool:c_d` | or `not closed"
    table = Table(title="T", head=("fix",), rows=((fix,),))
    rendered = markdown(Document(title="t", opening=(Text(fix), table), sections=(), closing=()))
    code = ["ctxbench data rebase evals --in-place", "tool:a_b: tool:c_d"]
    assert re.findall("<code>(.*?)</code>", READER.render(rendered)) == [*code, *code]


def test_a_command_is_fenced():
    told = Document(title="t", opening=(), sections=(), closing=(Code("ctxbench check ```"),))
    assert markdown(told).endswith("\n\n````sh\nctxbench check ```\n````\n")


# ---------------------------------------------------------------------------------------------------- the room there is


def test_all_of_a_short_check_is_there(made):
    text = markdown(document(made.many(30)))
    assert "no room here" not in text
    assert text.count("rule:r29") == 2  # lost, and as a cause


def test_a_long_check_loses_what_matters_least_and_says_how_much(made):
    told = document(made.many(4_000))
    text = markdown(told)
    assert LIMIT - 2000 < len(text.encode()) <= LIMIT
    tables = cells(text)
    others = next(table for table in tables if table[0][-1] == "cause")
    assert len(others) == 1  # its heading: all its rows are left out before any that cost something
    (left,) = re.findall(
        r"([\d,]+) more rows left out: no room here; `--output-format json` has them\.\n\n</details>", text
    )
    assert left == "4,000"
    lost = next(table for table in tables if table[0][-1] == "fix" and table[0][0] == "query")
    kept = [re.findall(r"<code>(rule:r\d+)</code>", row[1])[0] for row in lost[1:] if len(row) == len(lost[0])]
    assert kept == [f"rule:r{place}" for place in range(len(kept))]  # the first ones stay
    assert f"{4_000 - len(kept):,} more rows left out" in text


@pytest.fixture(scope="module")
def long():
    """Documents of a check with many rows, and of one with many selectors, made by the first test that reads them."""
    return {}


@pytest.mark.parametrize("limit", [100_000, 20_000, 6_000, 3_000, 2_000])
def test_it_fits_whatever_room_there_is(made, long, limit):
    for name, make in (("rows", lambda: made.many(2_000)), ("selectors", lambda: made.check(*[made.same()] * 300))):
        if name not in long:
            check = make()
            long[name] = check.verdict, document(check, accept="ctxbench check gate.yaml --accept")
        verdict, told = long[name]
        text = markdown(told, limit=limit)
        assert len(text.encode()) <= limit
        assert text.startswith(f"## ctxbench check: {verdict}: ")


def test_sections_of_the_best_verdicts_go_first(made):
    check = made.check(*[made.same()] * 300, made.worse())
    text = markdown(document(check), limit=30_000)
    assert "### worse: semantic/normal on desk" in text
    kept = text.count("### same")
    assert 0 < kept < 300
    assert f"{300 - kept} more selectors left out: no room here" in text


def test_rows_matter_by_weight():
    rows = tuple((f"{place:05d}",) for place in range(1000))
    section = Section("s", tuple(Table(title=one.name, head=("a",), rows=rows, weight=one) for one in Weight))
    text = markdown(Document(title="t", opening=(), sections=(section,), closing=()), limit=20_000)
    kept = [len(table) - 1 for table in cells(text)]
    assert kept[0] == 1000
    assert 0 < kept[1] < 1000
    assert kept[2] == 0
