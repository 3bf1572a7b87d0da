"""The verdict's reasons: p-values stand where chance is in the answers, and not beside facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.gate.gate import SnapshotPairs, check
from ctxbench.gate.results import Verdict
from ctxbench.gate.settings import CheckSettings
from ctxbench.report.check_document import summary
from ctxbench.report.document import markdown
from tests.gate.gate_cases import identity, item, offered, snapshot

COMPLETENESS = (parse_metric("completeness"),)
TOKENS = {"a": 100, "b": 100, "rules": 20_000}
NEW = identity(versions={"code": "new"})
OUTSIDE = {"selector": {"command": ["mine"]}, "external": True, "embedder": ""}


def of(n, lost=0, **given):
    """n queries that need `a`: the last `lost` are not offered it."""
    answers = {f"q{i:03}": (["a"], ["b"]) if i < n - lost else (["b"], ["a"]) for i in range(n)}
    return snapshot(answers, required={name: ["a"] for name in answers}, items={"a": "", "b": ""}, **given)


def only(base, head):
    found = check(
        SnapshotPairs([(base, head)]),
        CheckSettings(metrics=COMPLETENESS, max_lost_required=99),
        name="g",
        base="a",
        head="b",
    )
    return found.selectors[0]


ENOUGH = "234 queries would be enough"
FEW = "30 queries are too few to conclude about other queries"


@pytest.mark.parametrize(
    ("n", "before", "now", "verdict", "reason"),
    [
        (60, 0, 12, Verdict.WORSE, "100.0% -> 80.0% (-20.0 points), more than the tolerance of 1.0 points"),
        (60, 12, 0, Verdict.BETTER, "80.0% -> 100.0% (+20.0 points)"),
        (
            *(30, 0, 1, Verdict.INCONCLUSIVE),
            f"100.0% -> 96.7% (-3.3 points): more than the tolerance of 1.0 points, but {FEW}; {ENOUGH}",
        ),
        (
            *(30, 1, 0, Verdict.SAME),
            f"96.7% -> 100.0% (+3.3 points): more than the tolerance of 1.0 points, but {FEW}",
        ),
    ],
)
def test_no_p_value_stands_beside_what_a_deterministic_selector_came_to(n, before, now, verdict, reason):
    one = only(of(n, before), of(n, now, identity=NEW))
    assert (one.verdict, one.deterministic) == (verdict, True)
    lost = "0 required items lost, 1 gained (a net loss of 99 is allowed); " if verdict is Verdict.SAME else ""
    assert one.reasons == (f"{lost}completeness {reason}",)


def test_of_one_query_it_is_said_in_the_singular():
    assert "but 1 query is too few to conclude about other queries" in only(of(1), of(1, 1, identity=NEW)).reasons[0]


def steady(lost, **given):
    return of(60, lost, identity=identity(**OUTSIDE), **given)


@pytest.mark.parametrize(
    ("base", "head", "deterministic"),
    [
        (of(60), of(60, 12, identity=NEW), True),
        (of(60), of(60, 12), False),  # nothing differs but the answers
        (of(60), of(60, 12, identity=NEW, nondeterministic=("q000",), repeats=3), False),
        (steady(0), steady(12), False),  # outside, and asked once
        (steady(0, repeats=3), steady(12), False),
        (
            *(steady(0, repeats=3), replace(steady(12, repeats=3), identity=identity(**OUTSIDE, values={}))),
            False,  # alike each time, but otherwise though nothing of it changed
        ),
        (
            *(steady(0, repeats=3), of(60, 12, repeats=3, identity=identity(**{**OUTSIDE, "versions": {"code": "x"}}))),
            True,
        ),
    ],
)
def test_whether_answers_may_be_chance_decides_whether_a_p_value_stands_there(base, head, deterministic):
    one = only(base, head)
    assert (one.verdict, one.deterministic) == (Verdict.WORSE, deterministic)
    assert ("p = " in one.reasons[0]) is not deterministic


def test_fewer_tokens_that_the_session_holds_instead_are_no_improvement():
    metrics = tuple(map(parse_metric, ("completeness", "tokens", "total_tokens")))
    required = {f"q{i:03}": ["a"] for i in range(60)}

    def side(mode, **given):
        answers = {name: ["a", offered("b", mode=mode)] for name in required}
        return snapshot(answers, required=required, items={"a": "", "b": ""}, **given)

    pairs = SnapshotPairs([(side("agent"), side("always", identity=NEW))])
    one = check(pairs, CheckSettings(metrics=metrics), name="g", base="a", head="b").selectors[0]
    assert one.verdict is Verdict.SAME
    assert one.reasons == (
        "tokens 20 -> 10 (-10), but the session holds them now: total_tokens 20 -> 20 (0.0); no required item lost",
    )


def test_a_saving_is_one_whatever_the_session_costs():
    metrics = tuple(map(parse_metric, ("completeness", "tokens", "total_tokens")))
    required = {f"q{i:03}": ["a"] for i in range(60)}
    held = [offered("rules", mode="always")]

    def side(more, **given):
        answers = {name: [*held, "a", *more] for name in required}
        return snapshot(answers, required=required, items={"a": "", "b": "", "rules": ""}, tokens=TOKENS, **given)

    pairs = SnapshotPairs([(side(["b"]), side([], identity=NEW))])
    one = check(pairs, CheckSettings(metrics=metrics), name="g", base="a", head="b").selectors[0]
    assert [(m.metric, m.verdict) for m in one.metrics][1:] == [
        ("tokens", Verdict.BETTER),
        ("total_tokens", Verdict.SAME),  # within 5% of what it is in all
    ]
    assert (one.verdict, one.reasons) == (Verdict.BETTER, ("tokens 200 -> 100 (-100)",))


ALWAYS = item("rule:AGENTS.md", text="Check the PIN. Refund at most 50.", include="always")


def with_rule(rule, tokens=0, more=(), **given):
    """60 queries that need `a`, each also with an always-on rule of so many tokens."""
    names = [f"q{i:03}" for i in range(60)]
    session = [offered(rule.id, mode="always")] if rule is not None and rule.include == "always" else []
    items = [item("a"), item("b"), *([rule] if rule is not None else []), *map(item, more)]
    return snapshot(
        {name: [*session, "a"] for name in names},
        required={name: ["a"] for name in names},
        items=items,
        tokens={rule.id: tokens} if rule is not None else {},
        **given,
    )


@pytest.mark.parametrize(
    ("rule", "tokens", "verdict", "kind", "reason"),
    [
        (None, 0, Verdict.INCONCLUSIVE, "gone", "always-on rule:AGENTS.md (100 tokens): no longer in the catalog; no "),
        (replace(ALWAYS, include="agent"), 100, Verdict.INCONCLUSIVE, "not always", "always-on rule:AGENTS.md (100 "),
        (replace(ALWAYS, text="Check."), 40, Verdict.SAME, "edited", "total_tokens 110 -> 50 (-60), but by "),
        (replace(ALWAYS, text="Check all."), 101, Verdict.SAME, "edited", "total_tokens 110.0 -> 111.0"),
        (replace(ALWAYS, title="x"), 100, Verdict.SAME, "", "no required item lost, "),
    ],
)
def test_the_loss_of_an_always_on_item_is_no_gain(rule, tokens, verdict, kind, reason):
    metrics = tuple(map(parse_metric, ("completeness", "tokens", "total_tokens")))
    pairs = SnapshotPairs([(with_rule(ALWAYS, 100), with_rule(rule, tokens, identity=NEW))])
    result = check(pairs, CheckSettings(metrics=metrics), name="g", base="a", head="b")
    one = result.selectors[0]
    assert (one.verdict, one.reasons[0][: len(reason)]) == (verdict, reason)
    assert [str(change.kind) for change in one.item_changes] == ([kind] if kind else [])
    assert (result.exit_code(), result.exit_code(strict=True)) == (0, int(verdict is Verdict.INCONCLUSIVE))
    assert one.item_changes == () or "AGENTS.md" in summary_of(result)
    assert "better" not in " ".join(one.reasons)
    assert "keep the gain" not in summary_of(result)


def test_a_lost_always_on_item_comes_before_metrics_that_are_undecided():
    names = [f"q{i}" for i in range(8)]
    sides = [
        snapshot(
            {name: [*session, item_] for name, item_ in zip(names, chosen, strict=True)},
            required={name: ["a"] for name in names},
            items=[item("a"), item("b"), *rules],
            tokens={ALWAYS.id: 100},
            **given,
        )
        for session, chosen, rules, given in (
            ([offered(ALWAYS.id, mode="always")], "aaaaaaaa", [ALWAYS], {}),
            ([], "baaaaaaa", [], {"identity": NEW}),
        )
    ]
    result = check(SnapshotPairs([tuple(sides)]), CheckSettings(metrics=COMPLETENESS), name="g", base="a", head="b")
    (selector,) = result.selectors
    assert (selector.verdict, len(selector.reasons)) == (Verdict.INCONCLUSIVE, 2)
    assert ALWAYS.id in selector.reasons[0]
    assert "Label more queries" in summary_of(result)


def test_a_renamed_always_on_item_that_is_edited_is_no_gain():
    moved = replace(ALWAYS, name="x.md", text="Check.")
    head = with_rule(moved, identity=NEW)
    head = replace(head, judged=replace(head.judged, about={"renames": {ALWAYS.id: moved.id}}))
    settings = CheckSettings(metrics=tuple(map(parse_metric, ("completeness", "total_tokens"))))
    result = check(SnapshotPairs([(with_rule(ALWAYS, 100), head)]), settings, name="g", base="a", head="b")
    assert [(change.item, str(change.kind)) for change in result.selectors[0].item_changes] == [(ALWAYS.id, "edited")]
    assert result.verdict is Verdict.SAME


def test_a_removed_item_that_no_label_requires_is_named():
    pairs = SnapshotPairs([(with_rule(ALWAYS, 100, more=["c"]), with_rule(ALWAYS, 100, identity=NEW))])
    result = check(pairs, CheckSettings(metrics=COMPLETENESS), name="g", base="a", head="b")
    assert result.verdict is Verdict.SAME
    assert [(change.item, change.always) for change in result.selectors[0].item_changes] == [("tool:s:c", False)]
    assert "Removed items that no label requires" in summary_of(result)
    assert "tool:s:c" in summary_of(result)


def summary_of(result):
    """The short report as Markdown."""
    return markdown(summary(result, accept="ctxbench check --accept"))
