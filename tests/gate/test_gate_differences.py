"""What is offered differently: items in and out, what counts as a swap, required items lost and gained."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.gate.comparability import assess_comparability
from ctxbench.gate.differences import differences
from ctxbench.gate.results import CauseKind
from ctxbench.gate.settings import CheckSettings
from ctxbench.model.candidates import MARGIN, Rule
from tests.gate.gate_cases import RULE, answer, identity, item, item_id, offered, snapshot

ITEMS = dict.fromkeys("abcdefgh", "")
PROPERTY = settings(max_examples=60, deadline=None, database=None, derandomize=True)


def one(chosen, near=(), *, required=(), **given):
    """A snapshot of one query."""
    parts = {"items": ITEMS, "required": {"q": list(required)}, **given}
    return snapshot({"q": (chosen, near)}, **parts)


def compared(base, head):
    return differences(base, head, assess_comparability(base, head, CheckSettings()))


def short(changes):
    """`-a!` = a required item a lost."""
    return [f"{'-' if c.lost else '+'}{c.item.rpartition(':')[2]}{'!' * c.required}" for c in changes]


def test_equal_offers_are_no_difference_whatever_their_order_and_scores():
    found = compared(one(["a", "b"], ["c"]), one([("b", 0.3), ("a", 0.2)], [("c", 0.1)]))
    assert (found.changes, found.swaps, found.lost, found.gained) == ((), (), 0, 0)


def test_nothing_offered_on_both_sides_is_no_difference():
    assert compared(one([]), one([])).changes == ()


def test_a_change_says_scores_ranks_the_rule_and_what_it_missed_by():
    base = one([("a", 0.9), ("b", 0.6)], [("c", 0.5, "below includeScore"), ("d", 0.4)], required=["b"])
    head = one([("a", 0.9), ("c", 0.7)], [("b", 0.55, "beyond topN"), ("d", 0.4)], required=["b"])
    found = compared(base, head)
    lost, gained = found.changes
    assert (lost.query, lost.item, lost.lost, lost.required) == ("q", item_id("b"), True, True)
    assert (lost.base_score, lost.head_score, lost.base_rank, lost.head_rank) == (0.6, 0.55, 2, 3)
    assert lost.rule == Rule("beyond topN")
    assert lost.missed_by == pytest.approx(0.7 - 0.55)
    assert (gained.item, gained.lost, gained.required) == (item_id("c"), False, False)
    assert (gained.base_score, gained.head_score, gained.base_rank, gained.head_rank) == (0.5, 0.7, 3, 2)
    assert gained.rule == Rule("below includeScore")
    assert gained.missed_by == pytest.approx(0.6 - 0.5)
    assert (found.lost, found.gained) == (1, 0)
    assert lost.cause.kind is CauseKind.UNKNOWN


def test_an_item_that_is_no_candidate_has_neither_score_nor_rank_nor_rule():
    (lost,) = compared(one(["a", "b"]), one(["a"])).changes
    assert (lost.head_score, lost.head_rank, lost.rule, lost.missed_by) == (None, None, None, None)


def test_what_is_kept_out_by_something_else_than_its_score_misses_by_nothing():
    (lost,) = compared(one(["a", "b"]), one([("b", 0.5)], [("a", 0.9, "in no group")])).changes
    assert (lost.missed_by, lost.head_rank) == (0.0, 1)


def test_a_rank_among_candidates_that_a_baseline_does_not_hold_is_unknown():
    near = [(name, 0.5 - i / 100) for i, name in enumerate("cdefg")]  # five: there may be more
    base = one([("a", 0.9), ("b", 0.1)], near)
    head = one([], [("a", 0.9), ("b", 0.1)])
    ranks = {c.item: (c.base_rank, c.head_rank) for c in compared(base, head).changes}
    assert ranks == {item_id("a"): (1, 1), item_id("b"): (None, 2)}


def test_equal_scores_are_ranked_by_their_place_in_the_catalog():
    base = one([("b", 0.5), ("a", 0.5)])
    ranks = {c.item: c.base_rank for c in compared(base, one([])).changes}
    assert ranks == {item_id("a"): 1, item_id("b"): 2}


# ---------------------------------------------------------------------------------------------- what is required


def test_an_alternative_that_stands_in_is_no_loss():
    found = compared(one(["a"], required=[("a", "b")]), one([("b", 0.5)], required=[("a", "b")]))
    assert (short(found.changes), found.lost, found.gained) == (["-a", "+b"], 0, 0)


def test_a_requirement_met_twice_is_lost_once():
    found = compared(one([("a", 0.5), ("b", 0.6)], required=[("a", "b")]), one([], required=[("a", "b")]))
    assert (short(found.changes), found.lost) == (["-a", "-b!"], 1)


def test_what_the_session_holds_is_met():
    held = offered("b", mode="manual")
    base, head = one([held, "a"], required=[("a", "b")]), one([held], required=[("a", "b")])
    assert (short(compared(base, head).changes), compared(base, head).lost) == (["-a"], 0)
    moved = compared(one(["a"], required=["a"]), one([offered("a", mode="always")], required=["a"]))
    assert moved.changes == ()


def test_an_item_of_the_session_that_the_catalog_takes_away_is_lost():
    held = offered("b", mode="always")
    base = one([held, "a"], required=["b"])
    head = one(["a"], items={name: ITEMS[name] for name in "ab"}, required=["b"])
    lost = compared(base, head).changes
    assert short(lost) == ["-b!"]
    assert (lost[0].base_score, lost[0].base_rank, lost[0].missed_by) == (None, None, None)


def test_helpful_items_are_not_required():
    helpful = {"q": {"helpful": ["b"]}}
    found = compared(one(["a", "b"], required=["a"], queries=helpful), one(["a"], required=["a"], queries=helpful))
    assert (short(found.changes), found.lost) == (["-b"], 0)


def test_queries_that_a_selector_answers_now_and_then_are_no_facts():
    base, head = one(["a"], required=["a"]), one([], required=["a"])
    assert compared(replace(base, nondeterministic=("q",)), head).changes == ()
    assert compared(base, replace(head, nondeterministic=("q",))).changes == ()


def test_a_renamed_item_that_stays_is_no_difference_and_one_that_goes_is_lost_by_its_old_name():
    old, new = [item("a", "Find."), item("b", "Mail.")], [item("z", "Find."), item("b", "Mail.")]
    base = snapshot({"q": ["a", "b"]}, items=old, required={"q": ["a"]})
    assert compared(base, snapshot({"q": ["z", "b"]}, items=new, required={"q": ["z"]})).changes == ()
    out = snapshot({"q": (["b"], [("z", 0.5, "beyond topN")])}, items=new, required={"q": ["z"]})
    found = compared(base, out)
    assert short(found.changes) == ["-a!"]
    assert (found.changes[0].head_score, found.changes[0].rule, found.lost) == (0.5, Rule("beyond topN"), 1)


def test_changes_stand_in_the_order_of_the_heads_queries():
    base = snapshot({"q1": ["a"], "q2": ["b"]}, items=ITEMS)
    head = snapshot({"q2": ["c", "d"], "q1": []}, items=ITEMS)
    found = compared(base, head)
    assert [(c.query, s) for c, s in zip(found.changes, short(found.changes), strict=True)] == [
        ("q2", "-b"), ("q2", "+c"), ("q2", "+d"), ("q1", "-a"),
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------- swaps


def test_two_items_tied_on_both_sides_that_change_places_are_a_swap():
    base = one([("a", 0.9), ("b", 0.500001)], [("c", 0.5)], required=["b"])
    head = one([("a", 0.9), ("c", 0.500001)], [("b", 0.5)], required=["b"], identity=identity(versions={"code": "new"}))
    found = compared(base, head)
    assert (found.changes, found.swaps, found.lost) == ((), ("q",), 0)


@pytest.mark.parametrize(("apart", "swap"), [(0.0, True), (0.9 * MARGIN, True), (1.2 * MARGIN, False)])
def test_the_margin_is_where_a_swap_ends(apart, swap):
    other = identity(versions={"code": "new"})
    base = one([("a", 1.0), ("b", 0.5 + apart)], [("c", 0.5)])
    head = one([("a", 1.0), ("c", 0.5 + apart)], [("b", 0.5)], identity=other)
    assert compared(base, head).swaps == (("q",) if swap else ())


def test_the_margin_shrinks_with_the_scores_of_a_query():
    other = identity(versions={"code": "new"})
    for scale, swap in ((1.0, ("q",)), (1e-3, ())):  # 4e-6 apart: of scores around 1 noise, of those of an rrf not
        base = one([("a", scale), ("b", scale / 2 + 4e-6)], [("c", scale / 2)], required=["b"])
        head = one([("a", scale), ("c", scale / 2 + 4e-6)], [("b", scale / 2)], required=["b"], identity=other)
        assert compared(base, head).swaps == swap
    tiny = one([("b", 5e-6)], [("c", 1e-6)], required=["b"]), one([("c", 5e-6)], [("b", 1e-6)], required=["b"])
    assert short(compared(*tiny).changes) == ["-b!", "+c"]
    assert compared(one([("b", 0.0)], [("c", 0.0)]), one([("c", 0.0)], [("b", 0.0)])).swaps == ("q",)


@pytest.mark.parametrize(
    "given",
    [
        {"identity": identity(selector={"pipeline": {}})},
        {"identity": identity(embedder="potion")},
        {"identity": identity(tokens="chars/4")},
        {"items": {**ITEMS, "b": "Other words."}},
        {"items": {**ITEMS, "c": "Other words."}},
    ],
)
def test_ties_of_another_selector_or_of_edited_items_are_no_swap(given):
    base = one([("a", 0.9), ("b", 0.5)], [("c", 0.5)], required=["b"])
    head = one([("a", 0.9), ("c", 0.5)], [("b", 0.5)], required=["b"], **given)
    assert (short(compared(base, head).changes), compared(base, head).swaps) == (["-b!", "+c"], ())


def test_ties_of_unedited_items_are_a_swap_beside_an_edited_one():
    base = one([("a", 0.9), ("b", 0.5)], [("c", 0.5), ("d", 0.1)])
    head = one([("a", 0.9), ("c", 0.5)], [("b", 0.5), ("d", 0.2)], items={**ITEMS, "d": "Other words."})
    assert compared(base, head).swaps == ("q",)


def test_items_that_are_tied_on_both_sides_but_moved_are_no_swap():
    base, head = one([("b", 0.8)], [("c", 0.8)]), one([("c", 0.5)], [("b", 0.5)])
    assert short(compared(base, head).changes) == ["-b", "+c"]


def test_swaps_are_taken_out_of_the_changes_pair_by_pair():
    base = one([("c", 0.9), ("a", 0.500001)], [("b", 0.5), ("d", 0.1)], required=["a", "c"])
    head = one([("d", 0.95), ("b", 0.500001)], [("a", 0.5), ("c", 0.1)], required=["a", "c"])
    found = compared(base, head)
    assert (short(found.changes), found.swaps, found.lost) == (["-c!", "+d"], (), 1)


def test_more_out_than_in_leaves_what_has_no_partner():
    base = one([("a", 0.5), ("b", 0.5)], [("c", 0.5)], required=["a", "b"])
    head = one([("c", 0.5)], [("a", 0.5), ("b", 0.5)], required=["a", "b"], identity=identity(versions={"code": "n"}))
    assert (short(compared(base, head).changes), compared(base, head).lost) == (["-b!"], 1)


def test_an_alternative_that_went_out_by_a_swap_is_not_lost_with_the_other():
    base = one([("a", 0.9), ("b", 0.5)], [("c", 0.5)], required=[("a", "b")])
    head = one([("c", 0.5)], [("b", 0.5), ("a", 0.1)], required=[("a", "b")])
    assert (short(compared(base, head).changes), compared(base, head).lost) == (["-a"], 0)


def test_items_tied_at_one_side_only_are_a_change():
    base = one([("b", 0.8)], [("c", 0.5)])
    head = one([("c", 0.5)], [("b", 0.5)])
    assert short(compared(base, head).changes) == ["-b", "+c"]


def test_a_tie_that_a_baseline_may_not_hold_is_a_swap_if_what_it_holds_is_tied_too():
    other = identity(versions={"code": "new"})
    near = [(name, 0.5) for name in "cdefg"]
    head = one([("h", 0.5)], [(name, 0.5) for name in "bcdefg"], identity=other)
    assert compared(one([("b", 0.5)], near), head).swaps == ("q",)
    far = [(name, 0.4) for name in "cdefg"]
    assert compared(one([("b", 0.5)], far), head).swaps == ()


def test_a_new_item_with_the_same_score_is_no_swap():
    base = one([("b", 0.5)], [("c", 0.5)], required=["b"])
    head = one([("new", 0.5)], [("b", 0.5), ("c", 0.5)], items=[*map(item, ITEMS), item("new")], required=["b"])
    assert (short(compared(base, head).changes), compared(base, head).lost) == (["-b!", "+new"], 1)
    assert short(compared(head, base).changes) == ["-new", "+b!"]


def test_several_pairs_are_each_held_against_its_own():
    other = identity(versions={"code": "new"})
    base = one([("a", 0.9), ("b", 0.5)], [("c", 0.9), ("d", 0.5)])
    head = one([("d", 0.5), ("c", 0.9)], [("a", 0.9), ("b", 0.5)], identity=other)
    assert compared(base, head).swaps == ("q",)


def test_items_without_scores_are_never_swapped():
    base, head = one([offered("a", mode="manual")]), one([offered("b", mode="manual")])
    assert short(compared(base, head).changes) == ["-a", "+b"]


NOISE = 1e-6


def test_a_threshold_crossed_by_noise_is_a_swap():
    base = one([("a", 0.9), ("b", 0.5)], [("c", 0.3)], required=["b"])
    head = one([("a", 0.9 + NOISE)], [("b", 0.5 - NOISE), ("c", 0.3)], required=["b"])
    assert (compared(base, head).swaps, compared(base, head).changes) == (("q",), ())
    assert compared(head, base).swaps == ("q",)


def test_a_tie_at_a_threshold_is_a_swap_though_no_score_moved():
    base = one([("a", 0.9), ("b", 0.5)], [("c", 0.5)])
    head = one([("a", 0.9)], [("b", 0.5), ("c", 0.5)])
    assert compared(base, head).swaps == ("q",)


@pytest.mark.parametrize(
    ("given", "scores"),
    [
        ({}, (0.9, 0.5, 0.3)),  # nothing moved, nothing ties: the selector is not deterministic
        ({}, (0.9, 0.5 - 2 * MARGIN, 0.3)),  # further than noise does
        ({"identity": identity(selector={"pipeline": {}})}, (0.9, 0.5 - NOISE, 0.3)),
        ({"identity": identity(external=True)}, (0.9, 0.5 - NOISE, 0.3)),  # scores need not decide what it offers
        ({"identity": identity(embedder="potion")}, (0.9, 0.5 - NOISE, 0.3)),
        ({"identity": identity(versions={"code": "new"})}, (0.9, 0.5 - NOISE, 0.3)),
        ({"identity": identity(versions={"code": "c0de", "ctxbench": "0.2.0"})}, (0.9, 0.5 - NOISE, 0.3)),
        ({"identity": identity(tokens="chars/4")}, (0.9, 0.5 - NOISE, 0.3)),
        ({"items": {**ITEMS, "h": "Other words."}}, (0.9, 0.5 - NOISE, 0.3)),
        ({"items": {**ITEMS, "a": "Other words."}}, (0.9, 0.5 - NOISE, 0.3)),
        ({"items": {**ITEMS, "b": "Other words."}}, (0.9, 0.5 - NOISE, 0.3)),
    ],
)
def test_with_anything_else_different_a_crossed_threshold_is_a_change(given, scores):
    base = one([("a", 0.9), ("b", 0.5)], [("c", 0.3)])
    head = one([("a", scores[0])], [("b", scores[1]), ("c", scores[2])], **given)
    assert short(compared(base, head).changes) == ["-b"]


def test_a_new_item_among_better_candidates_may_crowd_out_so_it_is_a_change():
    base = one([("a", 0.9), ("b", 0.5)], [("c", 0.3)])
    new = [*(item(name) for name in ITEMS), item("new")]
    head = one([("a", 0.9)], [("new", 0.7, "one of its kind"), ("b", 0.5 - NOISE), ("c", 0.3)], items=new)
    assert short(compared(base, head).changes) == ["-b"]


def test_an_expansion_at_its_threshold_goes_and_comes_by_noise():
    led = offered("d", 0.75, mode="expansion", origin="expansion", via=item_id("a"))
    base, head = one([("a", 0.9), led], required=["d"]), one([("a", 0.9 + NOISE)], required=["d"])
    assert (compared(base, head).swaps, compared(head, base).swaps) == (("q",), ("q",))


def test_other_offers_with_the_same_scores_are_a_change():
    base = one([("a", 0.9), ("b", 0.5)], [("c", 0.3)], required=["b"])
    head = one([("a", 0.9 + 1e-9)], [("b", 0.5 - 1e-9), ("c", 0.3)], required=["b"])
    assert short(compared(base, head).changes) == ["-b!"]  # a baseline has seven decimals: nothing has moved


def test_a_gap_that_an_edit_below_it_closes_is_a_change_whatever_the_noise():
    base = one([("a", 0.9), ("b", 0.8), ("c", 0.5)], [("d", 0.1)], required=["c"])
    head = one([("a", 0.9 + NOISE), ("b", 0.8)], [("c", 0.5 + NOISE), ("d", 0.45)], required=["c"],
               items={**ITEMS, "d": "Other words."})  # fmt: skip
    assert short(compared(base, head).changes) == ["-c!"]


def test_what_an_expansion_brought_in_goes_with_the_item_that_led_to_it():
    led = offered("d", 0.4, mode="expansion", origin="expansion", via=item_id("b"))
    base = one([("a", 0.9), ("b", 0.5), led], [("c", 0.3)])
    head = one([("a", 0.9)], [("b", 0.5 - NOISE), ("c", 0.3)])
    assert compared(base, head).swaps == ("q",)


def test_noise_is_all_that_differs_whatever_the_order_of_the_catalog():
    base = one([("a", 0.9), ("b", 0.5)], [("c", 0.3)])
    head = one([("a", 0.9)], [("b", 0.5 - NOISE), ("c", 0.3)])
    turned = replace(head, items={name: base.items[name] for name in reversed(base.items)})
    assert compared(base, turned).swaps == ("q",)


# ---------------------------------------------------------------------------------------------- properties


@st.composite
def sides(draw):
    """Two snapshots of up to four queries over the same items."""
    found = []
    queries = [f"q{i}" for i in range(draw(st.integers(0, 4)))]
    required = {q: draw(st.lists(st.sampled_from("abcdefgh"), max_size=3, unique=True)) for q in queries}
    for _ in range(2):
        answers = {}
        for query in queries:
            names = draw(st.permutations("abcdefgh"))
            scores = sorted((draw(st.sampled_from([0.1, 0.2, 0.500001, 0.5, 0.9])) for _ in names), reverse=True)
            rows = list(zip(names, scores, strict=True))
            cut = draw(st.integers(0, 8))
            answers[query] = answer(query, rows[:cut], [(*row, RULE) for row in rows[cut:]])
        found.append(snapshot(answers, items=ITEMS, required=required))
    return found


@PROPERTY
@given(sides())
def test_swapping_the_sides_mirrors_what_is_lost_and_gained(pair):
    base, head = pair
    there, back = compared(base, head), compared(head, base)
    assert (there.lost, there.gained, there.swaps) == (back.gained, back.lost, back.swaps)
    mirrored = {(c.query, c.item, not c.lost, c.required, c.head_score, c.base_score) for c in back.changes}
    assert {(c.query, c.item, c.lost, c.required, c.base_score, c.head_score) for c in there.changes} == mirrored


@PROPERTY
@given(sides())
def test_net_losses_are_those_of_requirements_met_with_swaps_undone(pair):
    base, head = pair
    found = compared(base, head)
    before = {name: {one.id for one in fact.offered} for name, fact in base.answers.items()}
    now = {name: set(ids) for name, ids in before.items()}
    for change in found.changes:
        (now[change.query].remove if change.lost else now[change.query].add)(change.item)

    def met(offers):
        return sum(
            not offers[name].isdisjoint(group) for name, query in base.queries.items() for group in query.required
        )

    assert met(before) - met(now) == found.lost - found.gained


@PROPERTY
@given(sides())
def test_a_snapshot_does_not_differ_from_itself(pair):
    assert compared(pair[0], pair[0]).changes == ()
