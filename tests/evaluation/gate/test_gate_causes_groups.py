"""Causes over all queries, the costliest first, and what would mend them."""

from __future__ import annotations

from dataclasses import replace

from ctxbench.evaluation.gate.causes import what_changed
from ctxbench.selection import Pair
from tests.evaluation.gate.cause_cases import explained, groups, scored
from tests.evaluation.gate.gate_cases import item_id

STANDARD = [{"standard": {"topK": 20, "topN": 2, "includeScore": 1.0}}]
ROW = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}


def row(*names, **scores):
    """Scores of names in falling order from 0.9, and those given."""
    return {**{name: 0.9 - place / 10 for place, name in enumerate(names)}, **scores}


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
        ("crowded out", "3 new items came in front", 3, 0, 0, ("q1", "q2", "q3")),
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
        ("room made", "1 edited item stood in front", 0, 1, 2, ("q1", "q2", "q3")),
    ]
    assert [one.tokens for one in found] == [-30, 30]


def test_the_queries_that_lost_something_needed_come_first():
    queries = {f"q{n}": row("a", "b", "c") for n in range(1, 4)}
    base = scored(queries, STANDARD, required={"q2": ["b"]})
    head = scored(queries, [{"standard": {"topK": 20, "topN": 1, "includeScore": 1.0}}], required={"q2": ["b"]})
    assert groups(base, head)[0].queries == ("q2", "q1", "q3")


def test_no_changes_make_no_group():
    base = scored({"q": ROW}, STANDARD)
    assert groups(base, scored({"q": ROW}, STANDARD)) == ()


def mend(base, head):
    """What would mend the one loss of a required item."""
    (found,) = [one.mend for one in explained(base, head) if one.mend]
    return found


def test_a_loss_by_an_edit_names_the_sentence_that_is_gone():
    text = "Send a message. Say who it is for and when."
    base = scored({"q": ROW}, STANDARD, required={"q": ["b"]}, texts={"b": text})
    pairs = {"q": {**ROW, "b": 0.1}}
    head = scored(pairs, STANDARD, required={"q": ["b"]}, texts={"b": "Send a message."})
    lost = 'put back what requests found it by: "Say who it is for and when."'
    assert mend(base, head) == lost  # no pair of chunks is known: the sentence that is gone
    held = base.answers["q"]
    known = tuple(replace(one, pair=Pair(0, 0)) for one in held.offered)
    base = replace(base, answers={"q": replace(held, offered=known)})
    assert mend(base, head) == 'put back what requests found it by: "Say who it is for and when."'


def test_a_loss_to_a_look_alike_names_it_and_how_wide_the_cut_would_have_to_be():
    base = scored({"q": ROW}, STANDARD, required={"q": ["b"]}, values={"contextTopN": 2})
    head = scored({"q": {**ROW, "x": 0.82}}, STANDARD, required={"q": ["b"]}, values={"contextTopN": 2})
    apart = f"say in its text what tells {item_id('b')} from {item_id('x')}, or merge them"
    assert mend(base, head) == f"{apart}; or raise contextTopN to 3"
    head = scored({"q": {**ROW, "x": 0.89}}, STANDARD, required={"q": ["b"]}, values={"contextTopN": 2})
    assert mend(base, head) == "raise contextTopN to 3"


def test_a_loss_by_a_parameter_is_mended_by_setting_it_back():
    base = scored({"q": ROW}, STANDARD, required={"q": ["b"]})
    head = scored({"q": ROW}, [*STANDARD, {"first": {"n": 1}}], required={"q": ["b"]})
    assert mend(base, head) == "take refine.first out"
    head = scored({"q": ROW}, [{"standard": {"topK": 20, "topN": 1, "includeScore": 1.0}}], required={"q": ["b"]})
    assert mend(base, head) == "set refine.standard.topN back to 2"


def test_the_margin_that_would_be_wide_enough():
    refine = [{"margin": {"margin": 0.2, "of": "ratio"}}]
    base = scored({"q": ROW}, refine, required={"q": ["b"]})
    head = scored({"q": {**ROW, "b": 0.6}}, refine, required={"q": ["b"]}, texts={"b": "b b. else"})
    assert mend(base, head) == "raise refine.margin.margin to 0.334"  # (0.9 - 0.6) / 0.9 = 0.3333


def test_another_model_is_to_be_tuned_for():
    base = scored({"q": ROW}, STANDARD, required={"q": ["b"]})
    head = scored({"q": {"a": 0.5, "b": 0.1, "c": 0.3, "d": 0.2}}, STANDARD, required={"q": ["b"]}, embedder="hashing")
    assert mend(base, head).startswith("tune the cut for the new model")


def test_what_changed_in_one_line():
    base = scored({"q": ROW}, STANDARD, values={"contextTopN": 2})
    wider = [{"standard": {"topK": 20, "topN": 3, "includeScore": 1.0}}]
    scores = {"a": 0.9, "b": 0.8, "c": 0.7, "x": 0.1}
    head = scored({"q": scores}, wider, texts={"a": "else", "b": "else"}, values={"contextTopN": 3}, embedder="hashing")
    found = what_changed(base, head, {})
    assert str(found) == "2 items edited, 1 new, 1 gone, model minilm -> hashing, contextTopN 2 -> 3"
    assert found.edited == {item_id("a"): ("description",), item_id("b"): ("description",)}
    assert (found.new, found.gone) == ((item_id("x"),), (item_id("d"),))
    assert str(what_changed(base, base, {})) == "nothing"
    assert not what_changed(base, base, {})


def test_a_renamed_item_is_neither_new_nor_gone():
    base = scored({"q": {"a": 0.9, "b": 0.8}}, STANDARD, texts={"b": "Same."})
    head = scored({"q": {"a": 0.9, "k": 0.8}}, STANDARD, texts={"k": "Same."})
    found = what_changed(base, head, {item_id("b"): item_id("k")})
    assert (found.new, found.gone, found.edited) == ((), (), {})
    assert str(found) == "1 item renamed"
