"""A check on the console."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.io.console import say
from ctxbench.model.candidates import Rule
from ctxbench.report.check_document import MORE, document
from ctxbench.report.document import Code, Document, Section, Table, console_text

COUNTS = "queries  left out  swaps  required lost  gained  may be lost"


def test_the_verdict_comes_first_then_what_matters_then_every_verdict(made):
    lines = console_text(document(made.every(), accept="ctxbench check --accept"), width=120).splitlines()
    pins = "a broken pin stays broken whatever is accepted: change or take out the pin (gate.yaml, line 12), or fix"
    edited = "item edited: text of rule:code%20review edited"
    assert lines[:12] == [
        "not comparable: gate.yaml, this run against gate.baseline",
        "",
        "  - mine on desk: query q7 has no answer: the endpoint returned 500.",
        "  - also worse: semantic/normal on desk; inconclusive: dense on desk; better: hybrid on desk",
        "  - lost: rule:code%20review (q2)",
        f"  - most costly cause (semantic/normal on desk): {edited}; to fix it: pin it",
        f"  - {pins} the",
        "    selection",
        "  - to accept it, if what differs is meant: ctxbench check --accept",
        "",
        f"    verdict         dataset  selector         {COUNTS}",
        "    not comparable  desk     mine                   -         -      -              -       -            -",
    ]
    assert lines[15].split()[:3] == ["same", "desk", "bm25"]


def test_where_nothing_changed_the_verdicts_stand_first(made):
    lines = console_text(document(made.check(made.same(), made.same()))).splitlines()
    assert lines[2].split()[:3] == ["verdict", "dataset", "selector"]


def test_lost_items_are_told_one_below_the_other(made):
    text = console_text(document(made.check(made.worse())))
    assert (
        "  Required items lost: 1\n"
        '    q2 "please review my code"  rule:code%20review\n'
        "        kept out: its score is below threshold=0.3; its score is 0.0500 too low\n"
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
    assert text.count("    and 20 more (all of them: --json or --markdown FILE)") == 2  # lost items, and causes
    assert text.count("    and 25 more (all of them: --json or --markdown FILE)") == 1  # other items
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


def test_it_ends_with_what_to_do_next(made):
    text = console_text(document(made.check(made.worse()), accept="ctxbench check gate.yaml --accept"))
    assert text.endswith("\n  ctxbench check gate.yaml --accept\n")
    assert " ".join(text.split()).endswith(
        "It is worse (exit code 1). A broken pin stays broken whatever is accepted: change or take out the pin "
        "(gate.yaml, line 12), or fix the selection. Fix the rest as said above, or, if it is meant, accept it: "
        "ctxbench check gate.yaml --accept"
    )


def test_in_brief_stand_reasons_causes_and_what_to_do(made):
    check = made.check(made.worse())
    whole = document(check, accept="ctxbench check --accept")
    text = console_text(whole.brief(MORE))
    for kept in (
        "worse: gate.yaml",
        "verdict  dataset",
        "Causes, most costly first: ",
        "fix: pin it",
        "Pins that do not",
    ):
        assert kept in " ".join(text.split()).replace("verdict dataset", "verdict  dataset"), kept
    for left in ("  Metrics\n", "Required items lost", "Other items", "Detectable: the"):
        assert left in console_text(whole), left
        assert left not in text, left
    assert MORE in " ".join(text.split())
    assert text.endswith("\n  ctxbench check --accept\n")
    assert all(reason in " ".join(text.split()) for one in check.selectors for reason in one.reasons)


def test_in_brief_three_causes_stand_and_how_many_more(made):
    text = console_text(document(made.many(30)).brief(MORE))
    assert "    and 27 more (all of them: --json or --markdown FILE)" in text


def test_in_brief_a_cause_that_an_earlier_selector_has_is_not_told_again(made):
    once, twice = made.many(2), made.many(5)
    check = replace(once, selectors=(*once.selectors, *(replace(one, selector="other") for one in twice.selectors)))
    first, second = document(check).brief(MORE).sections[:2]
    causes = [next(b for b in one.blocks if isinstance(b, Table) and b.head[0] == "cause") for one in (first, second)]
    assert [len(one.rows) for one in causes] == [2, 3]
    assert causes[1].title == "Causes, most costly first: 5, 2 of them above"
    assert causes[1].n_shown == 1  # the first three are told: two above, one here
    whole = [b for one in document(check).sections for b in one.blocks if isinstance(b, Table) and b.head[0] == "cause"]
    assert [len(one.rows) for one in whole] == [2, 5]


def test_what_differs_alike_for_all_selectors_is_told_once(made):
    one = made.check(made.worse())
    first = replace(one.selectors[0], differs="1 item edited")
    for other, times in (("1 item edited", 1), ("1 item new", 2)):
        check = replace(one, selectors=(first, replace(first, selector="other", differs=other)))
        assert console_text(document(check)).count("what differs:") == times


def test_what_has_nothing_to_leave_out_is_the_same_in_brief(made):
    bare = replace(document(made.check(made.same())), sections=())
    assert bare.brief(MORE) == bare
