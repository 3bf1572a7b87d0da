"""A check on the console in short, and where accepting helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.catalogs.mcp_config import CapturedServer
from ctxbench.gate.results import Cause, CauseGroup, CauseKind, FigureChange, Fix, Loosened, Replacement, Verdict
from ctxbench.gate.verdict import with_servers
from ctxbench.report.check_document import MORE, summary, uncut
from ctxbench.report.check_texts import (
    Locations,
    causes,
    is_acceptable,
    label_advice,
    losses,
    main_causes,
    n_lost,
    pin_advice,
    replacement_text,
)
from ctxbench.report.document import console_text

ACCEPT = "ctxbench check gate.yaml --accept"
LOCATIONS = Locations(gate="gate.yaml", item=lambda _dataset, item: ("data/corpus.jsonl", 7))

WORSE = """\
worse: semantic/normal on desk: 1 required item lost, 0 gained (allowed: 0); 1 pin broken; completeness 100.0% -> 50.0%

also inconclusive: dense on desk; better: hybrid on desk; new on desk, not judged: 2 queries (q30 and q31)

Losses: 1 required item
  - pin on line 12: q2: rule:code%20review is out
  - rule:code%20review: lost for 1 query (q2)

Causes and suggested fixes
  - data/corpus.jsonl:7: item edited: text of rule:code%20review edited (1 lost)
    fix: pin it

Next: Apply the suggested fix. Broken pin: fix the selection, or change the pin (gate.yaml, line 12). If the change is
intended, accept it:
  ctxbench check gate.yaml --accept

Details: --verbose. Everything: --markdown FILE.
"""


def shown(check, width=120, **options):
    return console_text(summary(check, accept=ACCEPT, locations=LOCATIONS, **options), width=width)


def test_the_screen_of_a_check_that_is_worse(made):
    assert shown(made.check(made.worse(), made.inconclusive(), made.same(), made.better())) == WORSE


def test_one_line_where_nothing_changed(made):
    check = made.check(made.same(), replace(made.same(), selector="dense"), replace(made.same(), dataset="mail"))
    assert shown(check) == "same: 2 datasets, 2 selectors, 40 queries; nothing changed\n"
    moved = replace(made.same(), changes=(replace(made.LOST, required=False),))
    assert shown(made.check(moved)).startswith("same: 1 dataset, 1 selector, 20 queries; 1 change of what is offered")


@pytest.mark.parametrize(
    ("detectable", "shown_text"), [(0.17, "recall is significant from about 17.0 points"), (0.05, "")]
)
def test_a_loss_that_so_few_queries_would_not_show_is_named_where_it_is_large(made, detectable, shown_text):
    sizes = {"completeness": 0.02, "recall": detectable, "tokens": 300.0}
    metrics = [
        replace(made.judged(name, Verdict.SAME, [1.0] * 20, [1.0] * 20), detectable=size)
        for name, size in sizes.items()
    ]
    moved = replace(made.same(), changes=(replace(made.LOST, required=False),), metrics=tuple(metrics))
    screen = shown(made.check(moved), width=200)
    assert shown_text in screen
    assert ("on so few queries" in screen) == bool(shown_text)


@pytest.mark.parametrize(
    ("maker", "first", "steps"),
    [
        ("gone", "worse: bm25 on desk: 2 required items can no longer be offered\n", "add --allow-removed"),
        ("inconclusive", "inconclusive: dense on desk: completeness 100.0% -> 95.0%\n", "Label more queries"),
        ("better", "better: hybrid on desk: 0 required items lost, 2 gained (allowed: 1)\n", "To keep the gain"),
        ("not_comparable", "not comparable: mine on desk: query q7 has no answer", "Nothing was judged"),
        ("dearer", "worse: bm25 on desk: tokens 100 -> 160", "If the change is intended, accept it:"),
    ],
)
def test_the_answer_comes_first_and_the_next_step_last(made, maker, first, steps):
    text = shown(made.check(getattr(made, maker)()))
    assert text.startswith(first)
    assert steps in text
    assert text.endswith(f"  {ACCEPT}\n\n{MORE}\n")


def test_a_log_has_all_lines_of_a_summary(made):
    notice = f"agent on mine is not in gate.baseline, and is {'not ' * 40}judged"
    document = summary(replace(made.check(made.gone()), unjudged=(notice,)), accept=ACCEPT)
    assert " ..." in console_text(document)
    text = console_text(uncut(document))
    assert " ..." not in text
    assert notice in " ".join(text.split())


def test_an_item_that_is_gone_is_one_loss(made):
    lost = replace(made.LOST, item="tool:a:x")
    text = shown(made.check(replace(made.gone(), changes=(lost,))))
    assert text.count("tool:a:x") == 1


def test_a_loosened_gate_comes_first_and_new_queries_may_be_accepted(made):
    loosened = made.check(made.same(), loosened=(Loosened("tolerance of recall", "0.01", "0.9"),))
    assert shown(loosened).startswith("same: the gate was loosened (tolerance of recall 0.01 -> 0.9)\n")
    assert "Restore the settings and pins of gate.yaml" in shown(loosened)
    new = made.check(replace(made.same(), left_out={"new": ("q30",)}))
    assert "To include the new queries, accept it:" in shown(new)
    assert "new on desk, not judged: 1 query (q30)" in shown(new)


def test_a_fix_is_the_next_step_of_a_check_that_is_worse_alone(made):
    for maker in ("better", "same"):
        selector = replace(getattr(made, maker)(), causes=made.worse().causes)
        assert "Apply the suggested fix" not in shown(made.check(selector))
    assert "Apply the suggested fix" in shown(made.check(made.worse()))


def test_accepting_a_loosened_gate_is_no_matter_of_new_queries(made):
    text = shown(made.check(made.same(), loosened=(Loosened("tolerance of recall", "0.01", "0.9"),)))
    assert "If the change is intended, accept it:" in text.replace("\n", " ")
    assert "new queries" not in text


@pytest.mark.parametrize(("error", "step"), [("", "`ctxbench check gate.yaml --recapture`"), ("no", "Correct the ser")])
def test_servers_are_asked_by_a_command_or_corrected_where_they_failed(made, error, step):
    server = CapturedServer(name="shop", captured="2026-01-01", changed=("shop.py",), error=error)
    check = made.check(with_servers(made.same(), [server]))
    text = shown(check).replace("\n", " ")
    assert step in text


def test_what_cannot_be_compared_is_a_problem_and_no_loss(made):
    refused = replace(made.not_comparable(), reasons=("query q7 has no answer", "query q8 has no answer"))
    text = shown(made.check(refused))
    assert "\nProblems\n" in text
    assert "Losses" not in text


def test_a_replaced_baseline_names_changed_figures_before_new_selectors(made):
    def change(selector, metric, before, after):
        return FigureChange(dataset="desk", selector=selector, metric=metric, before=before, after=after)

    figures = (
        *(change("dense", metric, None, 0.7) for metric in ("completeness", "queries")),
        *(change("old", metric, 0.7, None) for metric in ("completeness", "queries")),
        change("bm25", "completeness", 0.5, 0.25),
        change("bm25", "queries", 20, 21),
        change("bm25", "recall", None, 0.5),
    )
    replaced = made.check(made.same(), replacement=Replacement(figures=figures))
    assert replacement_text(replaced) == (
        "baseline replaced (bm25 on desk: completeness 50.0% -> 25.0%, queries 20 -> 21, recall none -> 50.0%, "
        "dense on desk is new and old on desk is removed)"
    )


def test_a_replaced_baseline_names_all_looser_settings_before_figures(made):
    loosened = [Loosened(setting=f"tolerance of {metric}", before="0.01", after="0.9") for metric in "abcdefg"]
    loosened += [Loosened(setting="max_lost_required", before="0", after="50")]
    figures = (FigureChange(dataset="desk", selector="bm25", metric="queries", before=20, after=21),)
    text = replacement_text(made.check(made.same(), replacement=Replacement(figures=figures, loosened=tuple(loosened))))
    assert text.endswith(", looser: max_lost_required 0 -> 50, bm25 on desk: queries 20 -> 21)")
    assert text.count("looser: ") == len(loosened)


def test_servers_asked_in_ci_are_asked_here_before_labels_are_changed():
    advice = label_advice({"tool:a": "tool:b"}, {}, dataset="data", agent="apps/agent.yaml", captured=True)
    assert advice.index("ctxbench data capture --agent apps/agent.yaml") < advice.index("ctxbench data rebase data")
    assert "capture" not in label_advice({"tool:a": "tool:b"}, {}, dataset="data", agent="agent.yaml")
    assert "capture" not in label_advice({"tool:a": "tool:b"}, {}, dataset="data", captured=True)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_check_takes_more_than_25_lines(made, width):
    texts = ("label the queries anew " * 20, "")
    worst = made.many(30)
    worst = replace(worst, selectors=(*worst.selectors, *made.every().selectors, made.gone()))
    for check in (worst, made.every(), made.hostile(), made.many(30), made.check(made.gone(), made.dearer())):
        for first in texts:
            lines = shown(check, width, first=first).splitlines()
            assert len(lines) <= 25, "\n".join(lines)
            assert all(len(line) <= width or len(line.split()) <= 1 for line in lines if ACCEPT not in line)


def test_an_item_is_listed_once_with_all_queries_that_lost_it(made):
    lost = [("q1", "rule:a"), ("q2", "rule:b"), ("q3", "rule:b"), *((f"r{n}", "rule:d") for n in range(6))]
    changes = tuple(replace(made.LOST, query=query, item=item) for query, item in lost)
    selector = replace(made.worse(), changes=changes, lost=len(lost), pins=())
    for selectors in ((selector,), (selector, replace(selector, selector="other"))):
        assert losses(made.check(*selectors)) == [
            "rule:d: lost for 6 queries (r0, r1, r2 and 3 more)",
            "rule:b: lost for 2 queries (q2 and q3)",
            "rule:a: lost for 1 query (q1)",
        ]


def test_equal_ids_in_two_datasets_are_two_losses(made):
    one = replace(made.worse(), unmet=made.gone().unmet)
    check = made.check(one, replace(one, selector="other"), replace(one, dataset="mail"))
    assert n_lost(check) == 2
    one = replace(one, unmet=())
    assert losses(made.check(one, replace(one, selector="other"), replace(one, dataset="mail"))) == [
        "pin on line 12: q2 on desk: rule:code%20review is out",
        "pin on line 12: q2 on mail: rule:code%20review is out",
        "rule:code%20review: lost for 1 query (q2) on desk",
        "rule:code%20review: lost for 1 query (q2) on mail",
    ]


def test_a_pin_is_told_as_the_worst_selector_has_it(made):
    (pin,) = made.worse().pins
    better = replace(made.better(), dataset="desk", pins=(replace(pin, message="other"),))
    assert losses(made.check(better, made.worse()))[0] == "pin on line 12: q2: rule:code%20review is out"


def test_causes_without_room_are_counted(made):
    check = made.many(7)
    assert causes(check, LOCATIONS, details="--verbose")[3:] == ["and 4 more causes: --verbose"]
    assert causes(check, LOCATIONS)[3:] == ["and 4 more causes"]
    assert "- and 4 more causes: --verbose\n" in shown(check)
    assert len(causes(made.many(3), LOCATIONS)) == 3


def test_what_must_be_done_before_accepting_is_said(made):
    text = shown(made.check(made.worse()), first="update labels")
    assert "If the change is intended, update labels, then accept it:" in " ".join(text.split())
    assert "accept" not in console_text(summary(made.check(made.worse())))  # two runs have nothing to accept


def costliest(selectors):
    """The cause that is told first, with its fix; None where none is."""
    return next(((group.cause, str(group.fix)) for _, group in main_causes(selectors)), None)


def pinned(made):
    """Worse for its pin alone."""
    return replace(made.same(), verdict=Verdict.WORSE, reasons=("pin broken",), pins=made.worse().pins)


@pytest.mark.parametrize(
    ("maker", "expected"),
    [("worse", True), ("inconclusive", True), ("better", True), ("not_comparable", True), ("same", False)],
)
def test_accepting_helps_where_a_new_baseline_gives_another_outcome(made, maker, expected):
    one = getattr(made, maker)()
    assert is_acceptable(made.check(one)) is expected
    assert is_acceptable(made.check(replace(one, left_out={"new": ("q9",)})))


def test_no_baseline_makes_a_pin_hold(made):
    assert not is_acceptable(made.check(pinned(made)))
    assert not is_acceptable(made.check(pinned(made), made.better()))  # which changes nothing about the exit code
    assert is_acceptable(made.check(pinned(made), made.worse()))
    assert is_acceptable(made.check(replace(pinned(made), lost=3, allowed=1)))
    assert is_acceptable(made.check(replace(pinned(made), unmet=made.gone().unmet)))
    assert pin_advice(made.check(made.same())) == ""
    first, *_ = pinned(made).pins
    several = replace(pinned(made), pins=(first, replace(first, line=3), replace(first, line=3, query="q9")))
    assert "gate.yaml, lines 3 and 12" in pin_advice(made.check(several))


def test_the_costliest_cause_is_that_of_most_items_lost_net_over_all_selectors(made):
    def group(detail, lost, gained=0):
        cause = Cause(kind=CauseKind.PARAMETER, detail=detail)
        return CauseGroup(
            cause=cause, lost=lost, gained=gained, others=0, tokens=0, queries=("q",), fix=Fix(f"fix {detail}")
        )

    first = replace(made.worse(), causes=(group("a", 3), group("b", 2)))
    second = replace(made.worse(), selector="other", causes=(group("b", 2), group("c", 9, gained=8)))
    assert costliest((first, second))[0].detail == "b"  # 4; a 3, c 1
    assert costliest((first,))[0].detail == "a"
    assert costliest((first, replace(second, dataset="x")))[1] == "fix a"  # a cause is of one dataset


@pytest.mark.parametrize(("metric", "detail"), [("tokens", "dear"), ("completeness", "first")])
def test_where_nothing_was_lost_the_cause_is_that_of_the_metric_that_decided(made, metric, detail):
    groups = tuple(
        CauseGroup(
            cause=Cause(kind=CauseKind.NEW, detail=name), lost=0, gained=0, others=1, tokens=tokens, queries=("q",)
        )
        for name, tokens in (("first", 5), ("dear", 50))
    )
    metrics = (
        (made.judged(metric, Verdict.WORSE, [100.0, 1.0] * 5, [101.0, 2.0] * 5),)
        if metric == "tokens"
        else (made.worse().metrics[0],)
    )
    one = replace(made.worse(), changes=(), lost=0, causes=groups, metrics=metrics)
    assert costliest((one,))[0].detail == detail
    assert costliest((replace(one, metrics=()),)) is None


def test_new_items_are_not_to_blame_for_the_tokens_of_what_they_replaced(made):
    def group(kind, tokens, *subjects):
        cause = Cause(kind=kind, subjects=subjects, detail=str(kind))
        return CauseGroup(cause=cause, lost=0, gained=0, others=1, tokens=tokens, queries=("q",))

    metrics = (made.judged("tokens", Verdict.WORSE, [100.0, 1.0] * 5, [101.0, 2.0] * 5),)
    new, raised = group(CauseKind.NEW, 50, "tool:a", "tool:b"), group(CauseKind.PARAMETER, 40, "n")

    def blamed(*groups):
        return costliest((replace(made.worse(), changes=(), lost=0, causes=groups, metrics=metrics),))[0].kind

    assert blamed(new, raised) is CauseKind.NEW
    assert blamed(new, raised, group(CauseKind.CROWDED, -20, "tool:a")) is CauseKind.PARAMETER
    assert blamed(new, raised, group(CauseKind.CROWDED, -20, "tool:other")) is CauseKind.NEW
    assert blamed(new, raised, group(CauseKind.CROWDED, -20)) is CauseKind.NEW  # of which is not known


def test_what_became_dearer_is_to_blame_for_tokens_and_for_nothing_else(made):
    assert costliest((made.dearer(),))[0].kind is CauseKind.COSTS_MORE
    judged = (made.worse().metrics[0],)
    assert costliest((replace(made.dearer(), metrics=judged),)) is None


def test_where_tokens_alone_decided_what_was_lost_within_the_allowance_is_not_the_headline(made):
    both = replace(made.dearer(), causes=(*made.worse().causes, *made.dearer().causes), lost=1, allowed=1)
    assert costliest((both,))[0].kind is CauseKind.COSTS_MORE
    assert costliest((replace(both, allowed=0),))[0].kind is CauseKind.EDITED
    assert costliest((replace(both, metrics=(*both.metrics, *made.worse().metrics)),))[0].kind is CauseKind.EDITED
