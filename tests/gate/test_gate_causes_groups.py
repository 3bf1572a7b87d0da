"""Causes over all queries, the costliest first, and what would fix them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ctxbench.gate.cause_finder import SnapshotPair
from ctxbench.gate.causes import _widen_cut
from ctxbench.gate.differences import cost_key
from ctxbench.gate.inputs import input_differences
from ctxbench.gate.results import Cause, CauseGroup, CauseKind
from ctxbench.model.selection import Pair
from ctxbench.selectors.selector import Parameter
from tests.gate.cause_cases import explained, groups, scored
from tests.gate.gate_cases import identity, item_id

STANDARD = [{"standard": {"topK": 20, "topN": 2, "includeScore": 1.0}}]
ROW = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}


def row(*names, **scores):
    """Scores of names in falling order from 0.9, and those given."""
    return {**{name: 0.9 - place / 10 for place, name in enumerate(names)}, **scores}


def name_of(item):
    return item.rpartition(":")[2]


def shown(found):
    return [(one.cause.kind.value, one.cause.detail, one.lost, one.gained, one.others, one.queries) for one in found]


def test_items_that_crowd_out_by_turns_are_one_cause():
    queries = {"q1": row("a", "b", "c", "d"), "q2": row("c", "b", "a", "d"), "q3": row("d", "c", "b", "a")}
    needs = {"q1": ["b"], "q2": ["b"], "q3": ["c"]}
    base = scored(queries, STANDARD, required=needs)
    crowded = {"q1": {"x": 0.85}, "q2": {"x": 0.85, "y": 0.84}, "q3": {"y": 0.85, "z": 0.84}}
    head = scored({name: {**queries[name], **crowded[name]} for name in queries}, STANDARD, required=needs)
    found = groups(base, head)
    assert shown(found) == [
        ("crowded out", "3 new items ranked above it", 3, 0, 0, ("q1", "q2", "q3")),
        ("item new", "2 items new in the catalog", 0, 0, 3, ("q1", "q2", "q3")),
    ]
    assert found[0].cause.subjects == tuple(item_id(name) for name in "xyz")


def test_causes_that_share_nothing_stay_apart():
    queries = {"q1": row("a", "b"), "q2": row("c", "d")}
    base = scored(queries, STANDARD)
    head = scored({"q1": {**queries["q1"], "x": 0.85}, "q2": {**queries["q2"], "y": 0.85}}, STANDARD)
    crowded = [one.cause.subjects for one in groups(base, head) if one.cause.kind.value == "crowded out"]
    assert crowded == [(item_id("x"),), (item_id("y"),)]


def test_what_loses_most_comes_first_and_what_gains_last():
    queries = {f"q{n}": row("a", "b", "c") for n in range(1, 4)}
    needs = {"q1": ["b"], "q2": ["b"], "q3": ["c"]}
    base = scored(queries, STANDARD, required=needs)
    edited = {name: {**scores, "b": 0.1} for name, scores in queries.items()}
    found = groups(base, scored(edited, STANDARD, required=needs, texts={"b": "else"}))
    assert shown(found) == [
        ("item edited", "description edited", 2, 0, 1, ("q1", "q2", "q3")),
        ("room made", "1 edited item ranked above it before", 0, 1, 2, ("q1", "q2", "q3")),
    ]
    assert [one.tokens for one in found] == [-30, 30]


def test_what_loses_and_gains_more_comes_before_what_only_gains():
    queries = {f"q{n}": row("a", "b", "c", "d") for n in range(1, 5)}
    needs = {"q1": ["b"], "q2": ["c"], "q3": ["c"], "q4": ["e"]}
    base = scored({name: {**scores, "e": 0.1} for name, scores in queries.items()}, STANDARD, required=needs)
    head = {name: {**scores, "e": 0.1} for name, scores in queries.items()}
    head["q1"]["c"] = head["q2"]["c"] = head["q3"]["c"] = 0.85  # c costs b once, and is gained twice
    head["q4"]["e"] = 0.99
    found = groups(base, scored(head, STANDARD, required=needs, texts={"c": "else", "e": "else"}))
    assert [(one.cause.kind.value, *map(name_of, one.cause.subjects), one.lost, one.gained) for one in found] == [
        ("crowded out", "c", 1, 0),
        ("crowded out", "e", 0, 0),
        ("item edited", "e", 0, 1),
        ("item edited", "c", 0, 2),
    ]


def test_an_order_by_what_is_lost_net_then_lost_then_gained_then_others():
    def group(lost, gained, others):
        return CauseGroup(
            cause=Cause(kind=CauseKind.CODE, detail=f"{lost}{gained}{others}"),
            lost=lost,
            gained=gained,
            others=others,
            tokens=0,
            queries=(),
        )

    in_order = [(3, 0, 0), (5, 3, 0), (4, 9, 1), (2, 2, 9), (2, 8, 9), (0, 0, 9), (0, 0, 1), (0, 1, 9), (0, 5, 9)]
    expected = [group(*one) for one in in_order]
    for order in itertools.permutations(expected, 3):
        assert sorted(order, key=cost_key) == [one for one in expected if one in order]


def test_the_queries_that_lost_something_needed_come_first():
    queries = {f"q{n}": row("a", "b", "c") for n in range(1, 4)}
    base = scored(queries, STANDARD, required={"q2": ["b"]})
    head = scored(queries, [{"standard": {"topK": 20, "topN": 1, "includeScore": 1.0}}], required={"q2": ["b"]})
    assert groups(base, head)[0].queries == ("q2", "q1", "q3")


def test_no_changes_make_no_group():
    base = scored({"q": ROW}, STANDARD)
    assert groups(base, scored({"q": ROW}, STANDARD)) == ()


def fix(base, head):
    """What would fix the one loss of a required item."""
    (found,) = [str(one.fix) for one in explained(base, head) if one.fix]
    return found


def test_a_loss_by_an_edit_names_the_sentence_that_is_gone():
    text = "Send a message. Say who it is for and when."
    base = scored({"q": ROW}, STANDARD, required={"q": ["b"]}, texts={"b": text})
    pairs = {"q": {**ROW, "b": 0.1}}
    head = scored(pairs, STANDARD, required={"q": ["b"]}, texts={"b": "Send a message."})
    back = f"undo the edit of {item_id('b')}, or restore the words that the request may have matched"
    lost = f'{back}: "Say who it is for and when."'
    assert fix(base, head) == lost  # no pair of chunks is known: the sentence that is gone
    held = base.answers["q"]
    known = tuple(replace(one, pair=Pair(0, 0)) for one in held.offered)
    base = replace(base, answers={"q": replace(held, offered=known)})
    assert fix(base, head) == lost


def several(*, at_most, **given):
    """Two queries that lose `b` to new items, one more than the other, and one that loses `d` to the cut alone."""
    rows = {"q1": row("a", "b"), "q2": row("a", "b"), "q3": row("a", "b", "c", "d")}
    new = {"q1": ("x0",), "q2": ("x0", "x1", "x2"), "q3": ()}
    needs = {"required": {"q1": ["b"], "q2": ["b"], "q3": ["d"]}, "values": {"n": at_most}}
    base = scored(rows, [{"first": {"n": 4}}], **{**needs, "values": {"n": 4}})
    head = {name: {**rows[name], **{one: 0.89 - n / 1000 for n, one in enumerate(new[name])}} for name in rows}
    return [one for one in groups(base, scored(head, [{"first": {"n": at_most}}], **needs)) if one.lost]


def test_a_wider_cut_is_wide_enough_for_all_that_a_cause_lost():
    rows = {"q1": row("a", "b"), "q2": row("a", "b")}
    needs = {"required": {"q1": ["b"], "q2": ["b"]}, "values": {"n": 2}}
    base = scored(rows, [{"first": {"n": 2}}], **needs)
    head = {"q1": {**rows["q1"], "x0": 0.89}, "q2": {**rows["q2"], "x0": 0.89, "x1": 0.888, "x2": 0.887}}
    (found,) = [one for one in groups(base, scored(head, [{"first": {"n": 2}}], **needs)) if one.lost]
    assert (found.lost, str(found.fix)) == (2, "raise n to 5")


@pytest.mark.parametrize("at_most", [1, 2, 3])
def test_what_one_report_says_of_a_parameter_does_not_contradict_itself(at_most):
    told = {one.cause.kind: str(one.fix) for one in several(at_most=at_most)}
    assert told == {
        "crowded out": "raise n to 5, because setting the parameter back is not enough",
        "parameter": "set n back to 4",
    }


def test_where_setting_a_parameter_back_is_enough_no_other_value_is_told():
    rows = {"q1": row("a", "b", "c"), "q2": row("a", "b", "c", "d")}
    needs = {"required": {"q1": ["c"], "q2": ["d"]}}
    base = scored(rows, [{"first": {"n": 5}}], values={"n": 5}, **needs)
    head = scored({**rows, "q1": {**rows["q1"], "x0": 0.89}}, [{"first": {"n": 3}}], values={"n": 3}, **needs)
    assert {str(one.fix) for one in groups(base, head) if one.lost} == {"set n back to 5"}


PRICED = [{"budget": {"tokens": 25}}]


@pytest.mark.parametrize(
    ("score", "tokens", "said"),
    [
        (0.75, 20, ", or shorten it: its token count excludes it (10 -> 20 prompt tokens)"),
        (0.55, 20, ": its token count excludes it (10 -> 20 prompt tokens)"),  # at its old price it is out as well
        (0.55, 10, ', or restore the words that the request may have matched: "Say who."'),
    ],
)
def test_a_loss_by_the_price_of_a_longer_text_says_so(score, tokens, said):
    row = {"a": 0.9, "b": 0.8, "c": 0.6, "d": 0.5}
    base = scored({"q": row}, PRICED, required={"q": ["b"]}, texts={"b": "Send a message. Say who."})
    head = scored(
        {"q": {**row, "b": score}}, PRICED, required={"q": ["b"]}, texts={"b": "Send a message."}, tokens={"b": tokens}
    )
    assert fix(base, head) == f"undo the edit of {item_id('b')}{said}"


def test_the_price_is_part_of_a_score_that_is_made_of_it():
    priced = ["price", {"margin": {"margin": 1.0}}]
    base = scored({"q": {"a": -4.0, "b": -4.5}}, priced, required={"q": ["b"]}, tokens={"a": 50, "b": 50})
    given = {"required": {"q": ["b"]}, "texts": {"b": "else"}, "tokens": {"a": 50, "b": 150}}
    found = fix(base, scored({"q": {"a": -4.0, "b": -5.1931}}, priced, **given))  # log(200 / 100) less
    assert found.endswith(", or shorten it: its token count excludes it (50 -> 150 prompt tokens)")
    found = fix(base, scored({"q": {"a": -4.0, "b": -6.5}}, priced, **given))
    assert found.endswith(": its token count excludes it (50 -> 150 prompt tokens)")


@pytest.mark.parametrize(
    ("sure", "old", "score", "is_price"),
    [
        (None, 50, -2.5, True),
        (1.0, 50, -2.5, False),  # it led by 1.5 log odds, so it would be first at any token count
        (2.0, 50, -2.5, True),
        (1.0, 500, -3.99998, False),  # it was first only because it led, right above `a`
    ],
)
def test_the_price_of_an_item_that_leads_does_not_exclude_it(sure, old, score, is_price):
    steps = [{"price": {} if sure is None else {"sure": sure}}, {"first": {"n": 1}}]
    given = {"required": {"q": ["b"]}, "tokens": {"a": 50, "b": old}}
    base = scored({"q": {"a": -4.0, "b": score}}, steps, texts={"b": "Send a message. Say who."}, **given)
    given["tokens"] = {"a": 50, "b": 1000}
    head = scored({"q": {"a": -4.0, "b": -8.0}}, steps, texts={"b": "Send a message, at length."}, **given)
    assert ("its token count excludes it" in fix(base, head)) is is_price


def test_no_sentence_is_quoted_that_would_not_bring_the_item_back():
    cut = [{"first": {"n": 2}}]
    base = scored({"q": ROW}, cut, required={"q": ["b"]}, texts={"b": "Send a message. Say who."})
    new = {"x": 0.85, "y": 0.84}
    head = scored({"q": {**ROW, **new, "b": 0.1}}, cut, required={"q": ["b"]}, texts={"b": "Send a message."})
    assert "found by" not in " ".join(str(one.fix) for one in explained(base, head))


def test_a_loss_to_a_look_alike_names_it_and_how_wide_the_cut_would_have_to_be():
    base = scored({"q": ROW}, STANDARD, required={"q": ["b"]}, values={"contextTopN": 2})
    head = scored({"q": {**ROW, "x": 0.82}}, STANDARD, required={"q": ["b"]}, values={"contextTopN": 2})
    apart = f"describe how {item_id('b')} differs from {item_id('x')}, or merge them"
    assert fix(base, head) == f"{apart}, or raise contextTopN to 3"
    head = scored({"q": {**ROW, "x": 0.89}}, STANDARD, required={"q": ["b"]}, values={"contextTopN": 2})
    assert fix(base, head) == "raise contextTopN to 3"


def test_scores_by_words_or_ranks_make_no_look_alikes():
    spec = {"spec": {"retrieve": "bm25"}, "required": {"q": ["b"]}, "values": {"n": 2}}
    base = scored({"q": ROW}, [{"first": {"n": 2}}], **spec)
    assert fix(base, scored({"q": {**ROW, "x": 0.82}}, [{"first": {"n": 2}}], **spec)) == "raise n to 3"


def test_a_loss_by_a_parameter_is_mended_by_setting_it_back():
    base = scored({"q": ROW}, STANDARD, required={"q": ["b"]})
    head = scored({"q": ROW}, [*STANDARD, {"first": {"n": 1}}], required={"q": ["b"]})
    assert fix(base, head) == "remove refine.first"
    head = scored({"q": ROW}, [{"standard": {"topK": 20, "topN": 1, "includeScore": 1.0}}], required={"q": ["b"]})
    assert fix(base, head) == "set refine.standard.topN back to 2"


def test_where_no_wider_cut_is_known_what_is_in_the_way_is_to_be_undone():
    cut = [{"standard": {"topK": 2, "topN": 5, "includeScore": 1.0}}]
    base = scored({"q": {**ROW, "y": 0.3}}, cut, required={"q": ["b"]}, texts={"y": "y"})
    head = scored({"q": {**ROW, "x": 0.88, "y": 0.87}}, cut, required={"q": ["b"]}, texts={"y": "else"})
    assert fix(base, head) == f"remove {item_id('x')} and undo the edit of {item_id('y')}"


def test_a_loss_by_another_counter_is_mended_by_counting_as_before():
    refine = [{"first": {"n": 2}}, {"budget": {"tokens": 20}}]
    base = scored({"q": ROW}, refine, required={"q": ["b"]})
    head = scored({"q": ROW}, refine, required={"q": ["b"]}, tokens=dict.fromkeys(ROW, 11))
    head = replace(head, identity=replace(head.identity, tokens="chars"))
    assert fix(base, head) == "set tokens back to o200k"


def test_a_loss_by_another_name_is_mended_by_the_old_one():
    base = scored({"q": ROW}, STANDARD, required={"q": ["b"]}, texts={"b": "The same words."})
    scores = {name: score for name, score in ROW.items() if name != "b"}
    head = scored({"q": {**scores, "k": 0.1}}, STANDARD, required={"q": ["k"]}, texts={"k": "The same words."})
    assert fix(base, head).startswith(f"give {item_id('k')} its old name back, or add the words of that name")


def test_the_margin_that_would_be_wide_enough():
    refine = [{"margin": {"margin": 0.2, "of": "ratio"}}]
    base = scored({"q": ROW}, refine, required={"q": ["b"]})
    head = scored({"q": {**ROW, "b": 0.6}}, refine, required={"q": ["b"]}, texts={"b": "b b. else"})
    wider = "raise refine.margin.margin to 0.334"  # (0.9 - 0.6) / 0.9 = 0.3333
    assert fix(base, head) == f"undo the edit of {item_id('b')}, or {wider}"


SEVEN = {name: 0.9 - place / 100 for place, name in enumerate("abcdefg")}
NARROW = {"margin": 0.4, "of": "difference", "at_least": 1, "at_most": 3}


@pytest.mark.parametrize(
    ("narrow", "b", "needed"),
    [
        ({}, 0.8, {"at_most": 8}),  # within the margin
        ({}, 0.3, {"margin": 0.601, "at_most": 8}),  # kept out by both
        ({"at_most": 20}, 0.3, {"margin": 0.601}),
    ],
)
def test_what_is_to_be_widened_is_the_rule_that_keeps_an_item_out(narrow, b, needed):
    spec = {"spec": {"retrieve": "bm25"}, "required": {"q": ["x"]}}
    held = {**NARROW, **narrow}
    base = scored({"q": {**SEVEN, "x": 0.95}}, [{"margin": held}], texts={"x": "x"}, **spec)
    now = {"q": {**SEVEN, "x": b}}
    head = scored(now, [{"margin": held}], texts={"x": "else"}, values={**held}, **spec)
    said = " and ".join(f"{name} to {value}" for name, value in needed.items())
    assert wider_cut(base, head) == f"raise {said}"
    again = scored(now, [{"margin": {**held, **needed}}], texts={"x": "else"}, **spec)
    assert item_id("x") in [one.id for one in again.answers["q"].offered]


def wider_cut(base, head):
    """How wide the cut would have to be for the one item that was lost; empty where no width is known."""
    found = input_differences(base, head, {})
    pair = SnapshotPair(base, head, found)
    (lost,) = [one for one in explained(base, head) if one.lost and one.required]
    return str(_widen_cut(pair.context(lost), pair))


def test_a_wider_cut_that_would_not_bring_the_item_back_is_not_said():
    tight = [{"first": {"n": 2}}, {"budget": {"tokens": 20}}]
    base = scored({"q": ROW}, tight, required={"q": ["b"]})
    assert wider_cut(base, scored({"q": {**ROW, "x": 0.85}}, tight, required={"q": ["b"]})) == ""
    both = [{"margin": {"margin": 0.2, "of": "difference", "at_most": 20}}, {"first": {"n": 2}}]
    base = scored({"q": ROW}, both, required={"q": ["b"]})
    head = scored({"q": {**ROW, "b": 0.65}}, both, required={"q": ["b"]}, texts={"b": "else"})
    assert wider_cut(base, head) == "raise refine.margin.margin to 0.251 and refine.first.n to 3"


def ranged(side, **ranges):
    """With the ranges of parameters, which a run knows."""
    held = {name: Parameter(name=name, default=low, low=low, high=high) for name, (low, high) in ranges.items()}
    return replace(side, identity=replace(side.identity, parameters=held))


def test_no_remedy_asks_for_a_value_that_a_parameter_may_not_have():
    spec = {"required": {"q": ["b"]}, "values": {"n": 2}}
    base = scored({"q": ROW}, [{"first": {"n": 2}}], **spec)
    head = scored({"q": {**ROW, "x": 0.88}}, [{"first": {"n": 2}}], **spec)
    assert fix(base, ranged(head, n=(0, 3))) == "raise n to 3"
    assert fix(base, ranged(head, n=(0, 2))) == f"remove {item_id('x')}"
    many = scored({"q": {**ROW, **{f"x{n}": 0.88 - n / 1000 for n in range(4)}}}, [{"first": {"n": 2}}], **spec)
    assert fix(base, ranged(many, n=(0, 9))) == "raise n to 6"
    (none,) = [one.fix for one in explained(base, ranged(many, n=(0, 5))) if one.fix]
    assert (str(none), none.possible) == ("no value of n from 0 to 5 is enough", False)
    close = scored({"q": {**ROW, "x": 0.81}}, [{"first": {"n": 2}}], **spec)
    apart = f"describe how {item_id('b')} differs from {item_id('x')}, or merge them"
    assert fix(base, ranged(close, n=(0, 2))) == apart


def test_that_nothing_helps_is_said_of_a_cause_only_where_it_is_so_of_all_its_losses():
    queries = {"q1": row("a", "b"), "q2": row("a", "b", "c", "d", "e", "f")}
    needs = {"required": {"q1": ["b"], "q2": ["b"]}, "values": {"n": 2}}
    base = scored(queries, [{"first": {"n": 2}}], **needs)
    new = {"q1": {"x0": 0.88}, "q2": {f"x{n}": 0.88 - n / 1000 for n in range(4)}}
    head = scored({name: {**queries[name], **new[name]} for name in queries}, [{"first": {"n": 2}}], **needs)
    (found,) = [one for one in groups(base, ranged(head, n=(0, 5))) if one.lost]
    assert (found.lost, str(found.fix)) == (2, "raise n to 3, which fixes 1 of 2")
    (found,) = [one for one in groups(base, ranged(head, n=(0, 9))) if one.lost]
    assert str(found.fix) in ("raise n to 3", "raise n to 6")


def test_another_model_is_to_be_tuned_for():
    base = scored({"q": ROW}, STANDARD, required={"q": ["b"]})
    head = scored({"q": {"a": 0.5, "b": 0.1, "c": 0.3, "d": 0.2}}, STANDARD, required={"q": ["b"]}, embedder="hashing")
    assert fix(base, head).startswith("tune the cut for the new model")


def test_what_changed_in_one_line():
    base = scored({"q": ROW}, STANDARD, values={"contextTopN": 2})
    wider = [{"standard": {"topK": 20, "topN": 3, "includeScore": 1.0}}]
    scores = {"a": 0.9, "b": 0.8, "c": 0.7, "x": 0.1}
    head = scored({"q": scores}, wider, texts={"a": "else", "b": "else"}, values={"contextTopN": 3}, embedder="hashing")
    found = input_differences(base, head, {})
    assert str(found) == "2 items edited, 1 new, 1 gone, model minilm -> hashing, contextTopN 2 -> 3"
    assert found.edited == {item_id("a"): ("description",), item_id("b"): ("description",)}
    assert (found.new, found.gone) == ((item_id("x"),), (item_id("d"),))
    assert str(input_differences(base, base, {})) == "nothing"
    assert not input_differences(base, base, {})


def test_a_renamed_item_is_neither_new_nor_gone():
    base = scored({"q": {"a": 0.9, "b": 0.8}}, STANDARD, texts={"b": "Same."})
    head = scored({"q": {"a": 0.9, "k": 0.8}}, STANDARD, texts={"k": "Same."})
    found = input_differences(base, head, {item_id("b"): item_id("k")})
    assert (found.new, found.gone, found.edited) == ((), (), {})
    assert str(found) == "1 item renamed"


def test_queries_that_one_edit_crowds_stand_together_where_a_file_beside_the_command_s_own_changed():
    """What else may have done it stays with them."""

    def side(c, server):
        told = {"command": ["sh", "run"], "files": {"run": "1", "server.py": server}, "direct_files": ["run"]}
        scores = {"q": {"a": 0.9, "b": 0.8, "d": 0.1, "c": c}, "r": {"a": 0.9, "d": 0.8, "b": 0.1, "c": c}}
        made = scored(scores, [{"first": {"n": 2}}], texts={"c": "" if c < 0.5 else "else"})
        return replace(made, identity=identity(selector=told, values={}, embedder="", external=True))

    (crowded,) = [one for one in groups(side(0.01, "1"), side(0.85, "2")) if one.cause.kind is CauseKind.CROWDED]
    assert crowded.queries == ("q", "r")
    assert crowded.cause.also == "1 other file in the selector's folder changed (server.py)"
