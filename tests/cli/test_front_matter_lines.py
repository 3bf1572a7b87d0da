"""The line that an edit of a rule file stands in."""

from __future__ import annotations

import pytest

from ctxbench.cli.capture import differing_line, edited_line

RULE = "---\nglobs: '*.ts'\ndescription: Refunds\nalwaysApply: true\n---\nAsk finance.\n"


@pytest.mark.parametrize(
    ("edited", "line"),
    [
        (("description",), 3),
        (("include", "metadata"), 4),
        (("metadata",), 2),
        (("text",), 6),
        (("description", "text"), 3),
        (("priority",), 6),
        ((), 6),
    ],
)
def test_it_is_that_of_the_field_or_that_of_the_text(edited, line, tmp_path):
    path = tmp_path / "refunds.mdc"
    path.write_text(RULE)
    assert edited_line(path, 6, edited) == line


def test_patterns_give_the_mode_where_no_flag_is_on(tmp_path):
    path = tmp_path / "refunds.mdc"
    path.write_text(RULE.replace("true", "false"))
    assert edited_line(path, 6, ("include",)) == 2


@pytest.mark.parametrize("name", ["tools.json", "gone.mdc"])
def test_it_stays_where_there_is_no_front_matter(name, tmp_path):
    (tmp_path / "tools.json").write_text(RULE)
    assert edited_line(tmp_path / name, 7, ("description",)) == 7


@pytest.mark.parametrize(
    ("was", "line"),
    [("Ask finance.", 6), ("Ask finance.\nTwice.", 6), ("Ask us.", 6), ("", 6)],
)
def test_a_text_of_one_line_is_edited_there(was, line, tmp_path):
    path = tmp_path / "refunds.mdc"
    path.write_text(RULE)
    assert edited_line(path, 6, ("text",), was) == line


@pytest.mark.parametrize(
    ("was", "now", "line"), [("a\nb", "a\nc", 2), ("a", "a\nb", 2), ("a\nb\nc", "a\nb", 2), ("a\nb", "b", 1)]
)
def test_the_line_is_the_first_that_differs(was, now, line):
    assert differing_line(was, now) == line
