"""A check as a document: what is said, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.gate.results import Cause, CauseKind, Verdict
from ctxbench.io.errors import Fault, InputError, StorageError, first_few
from ctxbench.report import check_texts
from ctxbench.report.check_document import document, refusal
from ctxbench.report.check_texts import Locations
from ctxbench.report.document import Bullets, Code, Table, Weight

ACCEPT = "ctxbench check gate.yaml --accept"


def row(told):
    """The first row of the verdicts, by heading."""
    table = verdicts(told)
    return dict(zip(table.head, table.rows[0], strict=True))


def overview(told):
    """The blocks about all selectors."""
    return next(section.blocks for section in told.sections if "compared with" in section.title)


def of_selectors(told):
    """The sections of the selectors."""
    return told.sections[1 + next(n for n, section in enumerate(told.sections) if "compared with" in section.title) :]


def tables(section):
    return {block.title.split(":")[0]: block for block in section.blocks if isinstance(block, Table)}


def verdicts(told):
    return next(block for block in overview(told) if isinstance(block, Table))


def test_the_verdict_stands_first_and_every_outcome_has_a_row(made):
    told = document(made.every())
    assert told.title == "not comparable: mine on desk: query q7 has no answer: the endpoint returned 500"
    assert [row[0] for row in verdicts(told).rows] == ["not comparable", "worse", "inconclusive", "better", "same"]
    assert [section.title for section in of_selectors(told)] == [
        "not comparable: mine on desk",
        "worse: semantic/normal on desk",
        "inconclusive: dense on desk",
        "better: hybrid on desk",
        "same: bm25 on desk",
    ]
    assert all(isinstance(section.blocks[0], Bullets) for section in of_selectors(told))


def test_what_was_not_judged_has_no_numbers(made):
    (row,) = verdicts(document(made.check(made.not_comparable()))).rows
    assert row == ("not comparable", "desk", "mine", *"----")


def test_selectors_of_one_verdict_keep_the_order_of_the_file(made):
    names = ["b", "a", "c"]
    told = document(made.check(*(replace(made.same(), selector=name) for name in names)))
    assert [row[2] for row in verdicts(told).rows] == names


def test_a_metric_has_both_means_difference_p_tolerance_verdict_and_what_is_detectable(made):
    found = tables(of_selectors(document(made.check(made.worse())))[0])["Metrics"]
    assert found.head == (
        "metric",
        "verdict",
        "baseline",
        "now",
        "difference",
        "p",
        "tolerance",
        "detectable",
        "queries",
    )
    first, second = found.rows
    # 10 of 20 pairs differ, all for the worse: exact McNemar 2 / 2**10 = 0.00195
    assert first[:3] == ("completeness %", "worse", "100.0")
    assert first[3].startswith("50.0 (")
    assert first[4].startswith("\u221250.0 (")
    assert first[5:] == ("0.0020", "1.0 points", "10.0 points", "20")
    assert second == ("tokens", "same", "100", "100", "0.0", "1", "12 tokens", "-", "20")


def test_no_p_value_stands_beside_what_a_deterministic_selector_came_to(made):
    steady = replace(made.worse(), deterministic=True)
    told = document(made.check(steady))
    found = tables(of_selectors(told)[0])["Metrics"]
    assert "p" not in found.head
    assert found.rows[0][5:] == ("1.0 points", "10.0 points", "20")
    assert found.numbers == frozenset(range(2, 8))
    assert not any("corrected" in block.text for block in told.closing)
    mixed = document(made.check(steady, made.inconclusive()))
    assert ["p" in tables(section)["Metrics"].head for section in of_selectors(mixed)] == [False, True]
    assert any("corrected for all" in block.text for block in mixed.closing)


def test_what_can_no_longer_be_offered_is_told_with_its_place_and_what_it_takes(made):
    places = Locations(item=lambda _dataset, item: ("data/corpus.jsonl", 7 if item.startswith("rule:") else 0))
    told = document(made.check(made.gone()), accept=ACCEPT, locations=places)
    found = tables(of_selectors(told)[0])["Required items that can no longer be offered"]
    assert found.head == ("item", "where", "reason", "queries")
    assert found.rows == (
        ("rule:code%20review", "data/corpus.jsonl:7", "disabled", "2 (q2 and q5)"),
        ("tool:a:x or tool:a:y", "data/corpus.jsonl", "no longer in the catalog", "1 (q7)"),
    )
    nowhere = tables(of_selectors(document(made.check(made.gone())))[0])["Required items that can no longer be offered"]
    assert nowhere.head == ("item", "reason", "queries")
    steps = next(section.blocks for section in told.sections if section.title == "Next")
    assert "add --allow-removed" in steps[0].text
    assert steps[1] == Code(ACCEPT)


def test_items_that_cost_otherwise_are_told_with_file_and_line_and_so_are_causes(made):
    lines = {"tool:a:x": 3, "tool:a:y": 4, "rule:z": 5}
    places = Locations(item=lambda _dataset, item: ("c.jsonl", lines[item]))
    found = tables(of_selectors(document(made.check(made.dearer()), locations=places))[0])
    cause = dict(zip(found["Causes, most costly first"].head, found["Causes, most costly first"].rows[0], strict=True))
    assert cause["cause"] == "item costs more tokens: 2 items cost more prompt tokens (tool:a:x and tool:a:y)"
    assert (cause["where"], cause["prompt tokens added"]) == ("c.jsonl:3", "+1,780")
    prices = found["Items with another token count"]
    assert prices.head == ("item", "where", "prompt tokens", "edit", "queries", "tokens added")
    assert prices.rows == (
        ("tool:a:x", "c.jsonl:3", "100 -> 540", "schema edited", "4", "+1,760"),
        ("tool:a:y", "c.jsonl:4", "50 -> 60", "schema edited", "2", "+20"),
        ("rule:z", "c.jsonl:5", "9 -> 8", "schema edited", "1", "-1"),
    )
    assert (prices.numbers, prices.weight) == (frozenset({2, 4, 5}), Weight.COST)
    plain = tables(of_selectors(document(made.check(replace(made.dearer(), metrics=()))))[0])
    prices = plain["Items with another token count"]
    assert (prices.head[1], prices.numbers, prices.weight) == ("prompt tokens", frozenset({1, 3, 4}), Weight.DETAIL)


def test_a_lost_required_item_is_told_with_rule_scores_cause_and_mend(made):
    (row,) = tables(of_selectors(document(made.check(made.worse())))[0])["Required items lost"].rows
    assert row == (
        ("q2", "please review my code"),
        "rule:code%20review",
        "its score is below threshold=0.3; the lowest offered score is 0.0500 higher",
        "0.5000 -> 0.2500, rank 2 -> 9",
        "item edited: text of rule:code%20review edited",
        "bring the words of q2 back",
    )


def test_what_was_no_candidate_is_said_so(made):
    lost = replace(made.LOST, rule=None, missed_by=None, head_score=None, head_rank=None)
    one = replace(made.worse(), changes=(lost, replace(lost, lost=False)))
    found = tables(of_selectors(document(made.check(one)))[0])
    assert found["Required items lost"].rows[0][2:4] == (
        "the selector did not find it",
        "0.5000 -> none, rank 2 -> none",
    )
    assert found["Required items gained"].rows[0][2] == "the selector did not find it"
    assert found["Required items gained"].head[2] == "excluded before by"


def test_other_changes_say_which_way_each_went(made):
    changes = tuple(replace(made.LOST, required=False, lost=lost) for lost in (True, False))
    found = tables(of_selectors(document(made.check(replace(made.worse(), changes=changes))))[0])
    rows = found["Optional items that moved"].rows
    assert [row[2] for row in rows] == ["out", "in"]
    assert [row[3].split(", ")[0] for row in rows] == ["now", "before"]


def test_queries_left_out_and_swaps_are_counted(made):
    told = document(made.check(made.worse()))
    assert verdicts(told).head[3:6] == ("queries", "left out", "swaps")
    assert verdicts(told).rows[0][3:6] == ("20", "2", "1")
    assert of_selectors(told)[0].blocks[-1] == Bullets(("Two queries are new.",))


def test_a_refusal_says_why_fault_by_fault():
    told = refusal("gate.yaml", InputError([Fault("a is wrong", "gate.yaml", 3), Fault("b is\nwrong")]))
    assert told.title == "cannot judge: gate.yaml, 2 faults"
    assert told.opening == (Bullets(("a is wrong (gate.yaml, line 3)", "b is wrong")),)
    told = refusal("gate.yaml", StorageError("there is no baseline"))
    assert (told.title, told.opening) == ("cannot judge: gate.yaml", (Bullets(("there is no baseline",)),))
    assert "Nothing was judged" in told.closing[0].text


def test_of_very_many_faults_the_first_are_told():
    (bullets,) = refusal("g", InputError([Fault(f"{n}") for n in range(60)])).opening
    assert bullets.texts == (*map(str, range(50)), "and 10 more")


def test_without_texts_ids_stay(made):
    told = repr(document(check_texts.without_texts(made.check(made.worse()))))
    assert "please" not in told
    assert "Code review" not in told
    assert "rule:code%20review" in told


@pytest.mark.parametrize("maker", ["better", "same"])
def test_a_good_verdict_hides_no_lost_item(made, maker):
    losing = replace(getattr(made, maker)(), changes=(made.LOST,), lost=1, allowed=1)
    lost = next(section for section in document(made.check(losing)).sections if section.title.startswith("Losses"))
    assert lost.blocks[0].texts == ("rule:code%20review: lost for 1 query (q2)",)


def test_selectors_that_were_not_asked_again_are_told_once(made):
    reused = replace(made.same(), reused=True)
    why = "nothing that decides the answers has changed since the baseline was accepted"
    for selectors, said in (
        ((reused,), "bm25 on desk was not asked again"),
        ((reused, replace(reused, selector="dense")), "no selector was asked again"),
        ((made.worse(), reused), "not asked again: bm25 on desk"),
    ):
        (notices,) = [one for one in overview(document(made.check(*selectors))) if isinstance(one, Bullets)]
        assert notices.texts == (f"{said}: {why}",)


def test_what_all_selectors_are_told_is_told_once(made):
    selectors = [replace(made.same(), selector=name, notices=("shared", name)) for name in ("a", "b")]
    told = document(made.check(*selectors))
    assert overview(told)[-1] == Bullets(("shared",))
    assert [section.blocks[-1] for section in of_selectors(told)] == [Bullets(("a",)), Bullets(("b",))]
    (alone,) = of_selectors(document(made.check(selectors[0])))
    assert alone.blocks[-1] == Bullets(("shared", "a"))


def test_nothing_is_to_be_done_where_nothing_changed(made):
    assert "Next" not in [section.title for section in document(made.check(made.same()), accept=ACCEPT).sections]
    noisy = replace(made.same(), n_with_requirements=8, nondeterministic=8)
    assert row(document(made.check(noisy)))["required lost"] == "not counted (8 nondeterministic)"
    assert row(document(made.check(noisy)))["gained"] == "-"
    some = document(made.check(replace(noisy, nondeterministic=2)))
    assert row(some)["required lost"] == "0"
    footnote = "required items lost and gained of bm25 on desk leave out 2 of 8 queries that need something: "
    assert overview(some)[-1].texts == (f"{footnote}answers differ between repeats",)


def test_a_check_of_nothing_says_so(made):
    told = document(made.check())
    assert told.title == "not comparable: no selector was compared"
    assert of_selectors(told) == ()


# ----------------------------------------------------------------------------------------------------------- the words


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (Cause(kind=CauseKind.UNKNOWN), "unknown"),
        (Cause(kind=CauseKind.PARAMETER, detail="topN 5 -> 3"), "parameter: topN 5 -> 3"),
        (Cause(kind=CauseKind.GONE, subjects=("a",)), "item gone: a"),
        (Cause(kind=CauseKind.MODEL, detail="model x -> y"), "model x -> y"),
        (Cause(kind=CauseKind.EDITED, subjects=("a",), detail="text of a"), "item edited: text of a"),
        (
            Cause(kind=CauseKind.CROWDED, subjects=("x", "y"), detail="new tools"),
            "pushed out: new tools (x and y)",
        ),
    ],
)
def test_a_cause_names_what_it_is_about_once(cause, words):
    assert check_texts.cause_text(cause) == words


@pytest.mark.parametrize(
    ("n", "words"), [(0, ""), (1, "0"), (6, "0, 1, 2, 3, 4 and 5"), (7, "0, 1, 2, 3, 4 and 2 more")]
)
def test_a_long_list_of_ids_is_cut(n, words):
    assert first_few([str(one) for one in range(n)]) == words


@pytest.mark.parametrize(("p", "words"), [(0.00001, "<0.0001"), (0.0051, "0.0051"), (0.05, "0.050"), (1.0, "1")])
def test_p_values(made, p, words):
    found = made.judged("completeness", Verdict.SAME, [1] * 4, [1] * 4).comparison
    assert check_texts.p_value(replace(found, p_holm=p)) == words
    assert check_texts.p_value(replace(found, n=0)) == "-"
    assert check_texts.p_value(replace(found, p_holm=0.0003, p_holm_at_floor=True)) == "<= 0.0003"


def test_a_small_tolerance_is_not_shown_as_none(made):
    metric = check_texts.parse_metric("completeness")
    assert check_texts.size_text(metric, 0.0001) == "0.01 points"
    assert check_texts.size_text(metric, 0.0) == "0.0 points"
    assert check_texts.size_text(metric, None) == "-"
    assert check_texts.size_text(check_texts.parse_metric("tokens"), 12.5) == "12 tokens"


def test_long_texts_are_cut():
    assert check_texts.clipped("a " * 200) == "a " * 78 + "a..."
    assert len(check_texts.clipped("a" * 1000)) == 160
    ids = "tool:desk:create%20ticket " * 9
    assert check_texts.clipped(ids) == " ".join(["tool:desk:create%20ticket"] * 6) + "..."
    cause = f"item gone: no longer in the catalog ({ids}and 3 more)"
    assert (
        check_texts.clipped(cause, 100)
        == "item gone: no longer in the catalog (tool:desk:create%20ticket tool:desk:create%20ticket...)"
    )


def test_the_sign_behind_an_interval_is_explained_only_where_it_stands(made):
    judged = made.judged("completeness", Verdict.SAME, [1] * 20, [1] * 20)
    loose = replace(judged, base=replace(judged.base, interval=replace(judged.base.interval, low=0.5, holds=False)))
    for metric, wanted in ((judged, False), (loose, True)):
        told = document(made.check(made.same(), replace(made.same(), selector="x", metrics=(metric,))))
        legend = told.closing[-1].text
        shown = any("~" in str(cell) for one in of_selectors(told) for cell in str(tables(one)))
        assert (legend.endswith("~ marks an interval that too few values carry."), shown) == (wanted, wanted)


def test_where_tokens_decided_causes_stand_by_tokens(made):
    one = made.dearer()
    small = replace(one.causes[0], others=9, tokens=7, cause=replace(one.causes[0].cause, subjects=("tool:a:z",)))
    told = document(made.check(replace(one, causes=(small, *one.causes))))
    (table,) = (
        b for s in of_selectors(told) for b in s.blocks if isinstance(b, Table) and b.title.startswith("Causes")
    )
    assert [row[table.head.index("prompt tokens added")] for row in table.rows] == ["+1,780", "+7"]
