"""A check on the console."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ctxbench.io.console import say
from ctxbench.io.errors import STYLE
from ctxbench.model.candidates import Rule
from ctxbench.report.check_document import document
from ctxbench.report.document import Code, Document, Section, Table, console_text, print_document


def test_lost_items_are_told_one_below_the_other(made):
    text = console_text(document(made.check(made.worse())))
    assert (
        "  Required items lost: 1\n"
        '    q2 "please review my code"  rule:code%20review\n'
        "        excluded by: its score is below threshold=0.3; the lowest offered score is 0.0500 higher\n"
        "        score: 0.5000 -> 0.2500, rank 2 -> 9\n"
        "        cause: item edited: text of rule:code%20review edited\n"
        "        fix: bring the words of q2 back\n"
    ) in text


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_lines_fit_unless_a_word_is_longer(made, width):
    for line in console_text(document(made.every()), width=width).splitlines():
        assert len(line) <= width or len(line.split()) <= 1, line


def test_a_table_stands_in_columns_only_where_it_fits():
    table = Table(
        title="T", head=("name", "n", "more"), rows=(("a", "10", "x"), ("bb", "9", "")), numbers=frozenset({1})
    )
    told = Document(title="t", opening=(), sections=(Section("s", (table,)),), closing=())
    wide = "    name   n  more\n    a     10  x\n    bb     9\n"
    assert wide in console_text(told)
    long = replace(table, rows=(("a", "10", "x " * 30),))
    narrow = console_text(replace(told, sections=(Section("s", (long,)),)), width=40)
    assert "    a\n        n: 10\n        more: x x x" in narrow
    joined = replace(long, joined=True)
    assert "    a\n        n 10; more: x x x" in console_text(
        replace(told, sections=(Section("s", (joined,)),)), width=40
    )


def test_long_lists_are_cut_and_say_where_all_of_them_are(made):
    text = console_text(document(made.many(30)))
    assert (
        text.count("    and 20 more (all of them: --output-format json or --markdown FILE)") == 2
    )  # lost items, and causes
    assert text.count("    and 25 more (all of them: --output-format json or --markdown FILE)") == 1  # other items
    assert "Required items lost: 30" in text
    assert "rule:r9 " in text or "rule:r9\n" in text
    assert "rule:r10" not in text


def test_plain_text_is_ascii(made):
    for check in (made.every(), made.hostile()):
        assert console_text(document(check), plain=True).isascii()
    assert "-50.0 (-" in console_text(document(made.check(made.worse())), plain=True)


def test_nothing_that_others_wrote_is_a_control_character_or_a_workflow_command(made, capsys):
    command = "::add-mask::x ##[error]y " * 20
    worse = made.worse()
    told = replace(worse, reasons=(command,), changes=(replace(made.LOST, rule=Rule(command)),), texts={"q2": command})
    for check in (made.check(told, name=command, notices=(command,)), made.hostile()):
        for width in (40, 61, 100):
            say(*console_text(document(check), width=width).splitlines())
            text = capsys.readouterr().out
            assert not any(line.lstrip().startswith("::") for line in text.splitlines())
            assert "##[" not in text
            assert all(c.isprintable() or c == "\n" for c in text)


def test_a_command_stays_on_one_line():
    told = Document(title="t", opening=(), sections=(), closing=(Code("ctxbench check " + "a" * 60 + " --accept"),))
    assert f"  ctxbench check {'a' * 60} --accept\n" in console_text(told, width=40)


def test_what_differs_alike_for_all_selectors_is_told_once(made):
    one = made.check(made.worse())
    first = replace(one.selectors[0], differs="1 item edited")
    for other, times in (("1 item edited", 1), ("1 item new", 2)):
        check = replace(one, selectors=(first, replace(first, selector="other", differs=other)))
        assert console_text(document(check)).count("what differs:") == times


def test_a_terminal_gets_colours_unless_it_declines_them(made, monkeypatch, capsys):
    monkeypatch.setattr("ctxbench.report.document.is_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    told = document(made.check(made.worse()))
    print_document(told)
    coloured = capsys.readouterr().out
    assert coloured.startswith("\x1b[1;31mworse: ")
    assert re.sub(STYLE, "", coloured) == console_text(told, width=100)
    monkeypatch.setenv("NO_COLOR", "1")
    print_document(told)
    assert "\x1b[1;31m" not in capsys.readouterr().out
