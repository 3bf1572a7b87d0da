"""Messages as they are written, beside what a developer would have asked."""

from __future__ import annotations

import random
import time

import pytest

from ctxbench.catalogs.git_history import clean_message, has_word

ONLY_TOOLS = """Merge pull request #12 from someone/branch

Show the header once (#34)

It was shown twice, see https://example.org/a?b=c for more.
This fixes #3, #4 and closes owner/repo#5.
As [the docs](https://example.org) say.

* Write a test

Co-authored-by: B <b@c.example>
Signed-off-by: A <a@b.example>
"""


def test_a_message_loses_what_only_tools_read():
    assert clean_message(ONLY_TOOLS) == (
        "Show the header once\n\nIt was shown twice, see for more.\nAs the docs say.\n\n* Write a test"
    )


def test_issue_numbers_stay_where_they_are_asked_for():
    assert clean_message("Fix it (#34)\n\nCloses #3\nPart of GH-4", keep_issues=True) == (
        "Fix it (#34)\n\nCloses #3\nPart of GH-4"
    )


@pytest.mark.parametrize(
    ("message", "cleaned"),
    [
        ("Fix `f()` for a tuple () (#1)", "Fix `f()` for a tuple"),
        ("Copy() copies all", "Copy() copies all"),
        ("Fix it. This\nfixes #12.", "Fix it."),
        ("Closes #46. The rest", "The rest"),
        ("Fix #12", ""),
        ("Replace it[1]\n\n[1] https://example.org", "Replace it[1]"),
        ("[ABC-12] Fix it", "Fix it"),
        ("ABC-12: Fix it", "Fix it"),
        ("UTF-16: fix it", "UTF-16: fix it"),
        ("Parse &#39; and #fff", "Parse &#39; and #fff"),
        ("Add y\n\n(cherry picked from commit 0123abc)", "Add y"),
        ("Add y [skip ci]", "Add y"),
        ("Merge branch 'stable'", ""),
        ("Merge stable into main (#3)", ""),
        ("Merge options of two parsers", "Merge options of two parsers"),
        ("Add y\r\n\r\nBody\r\n", "Add y\n\nBody"),
        ("Add y\n\nReviewed-on: x\nFoo-bar: z", "Add y"),
        ("Add y\n\nNote: this is slow", "Add y\n\nNote: this is slow"),
        ("", ""),
    ],
)
def test_each_kind(message, cleaned):
    assert clean_message(message) == cleaned


@pytest.mark.parametrize(("text", "has"), [("über", True), ("修复", True), ("x 1.2.3", False), ("", False)])
def test_a_word_is_two_letters_of_any_script(text, has):
    assert has_word(text) is has


FRAGMENTS = [
    "a-",
    "a.",
    "-_",
    "![",
    "[x](",
    "](",
    "[skip",
    "A-1",
    "<a@",
    "( ",
    " \u00a0",
    "and also ",
    "#1 and in ",
    "merge x/",
]


def fragments(n):
    """The fragments that are known to take long, and others of 1 to 12 characters."""
    draw = random.Random(3)
    yield from FRAGMENTS
    for _ in range(n):
        yield "".join(draw.choices("[]()!-.#/<>:@1aA& ,`\n\u00a0", k=draw.randint(1, 12)))


@pytest.mark.parametrize("start", ["", "Subject\n\n", "merge ", "(#1 "])
def test_a_message_of_one_fragment_is_cleaned_at_once(start):
    """The time grows with the length: a message of 20 kB takes 40 ms, and took minutes when it grew with its cube."""
    for fragment in fragments(25):
        message = start + (fragment * 10_000)[:10_000] + "x"
        began = time.process_time()
        clean_message(message)
        assert time.process_time() - began < 2, repr(fragment)


def test_what_is_behind_20_000_characters_is_left_out():
    message = "Add y\n\n" + "word " * 10_000
    assert clean_message(message) == message[:20_000].strip()
