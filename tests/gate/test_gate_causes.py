"""Why items went in and out: each row of the decision table, alone and with others at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from ctxbench.gate.baseline import without_texts
from ctxbench.gate.cause_finder import SnapshotPair
from ctxbench.gate.causes import explain, shapley
from ctxbench.gate.inputs import input_differences
from ctxbench.gate.results import whole_detail
from ctxbench.model.candidates import NOT_CHOSEN
from ctxbench.report.check_texts import cause_text, exclusion_text
from ctxbench.selectors.definitions import definition
from tests.gate.cause_cases import as_baseline, causes, explained, scored
from tests.gate.gate_cases import answer, identity, item_id, offered, snapshot

SCORES = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6, "e": 0.5, "f": 0.4, "g": 0.3, "h": 0.2, "i": 0.1}
BASE = scored({"q": SCORES})
OLD_CODE = {"python": "3.11", "ctxbench": "0.1.0", "code": "c0de"}


def now(scores=None, refine=(), **given):
    """The base, but for what is given."""
    return scored({"q": {**SCORES, **(scores or {})}}, refine, **given)


def test_an_edited_item_whose_score_fell():
    head = now({"c": 0.55}, texts={"c": "else"})
    assert causes(BASE, head) == {
        "-c": ("item edited", ("c",), "description edited"),
        "+d": ("room made", ("c",), "1 edited item ranked above it before"),
    }


def test_an_edited_item_whose_score_rose_from_beyond_what_the_baseline_knows():
    head = now({"i": 0.85}, texts={"i": "else"})
    assert causes(BASE, head) == {
        "+i": ("item edited", ("i",), "description edited"),
        "-c": ("crowded out", ("i",), "1 edited item ranked above it"),
    }


def test_an_edit_that_moved_no_score_is_not_the_cause_of_what_a_new_item_does():
    head = now({"x": 0.75}, texts={"c": "else"})
    assert causes(BASE, head) == {
        "-c": ("crowded out", ("x",), "1 new item ranked above it"),
        "+x": ("item new", ("x",), "new in the catalog"),
    }


def test_several_that_came_in_front_are_named_together():
    head = now({"x": 0.75, "y": 0.74, "h": 0.73, "z": 0.05}, texts={"h": "else"})
    assert causes(BASE, head)["-c"] == ("crowded out", ("h", "x", "y"), "2 new and 1 edited items ranked above it")


def test_an_item_that_is_gone_makes_room():
    head = scored({"q": {name: score for name, score in SCORES.items() if name != "b"}})
    assert causes(BASE, head) == {
        "-b": ("item gone", ("b",), "no longer in the catalog"),
        "+d": ("room made", ("b",), "1 gone item ranked above it before"),
    }


def test_a_renamed_item_is_searched_by_its_new_name():
    base = scored({"q": SCORES}, texts={"c": "The same words."})
    scores = {name: score for name, score in SCORES.items() if name != "c"}
    head = scored({"q": {**scores, "k": 0.55}}, texts={"k": "The same words."})
    assert causes(base, head)["-c"] == ("item renamed", ("k",), "was tool:s:c")


def test_a_renamed_item_with_other_texts_is_told_with_both():
    base = scored({"q": SCORES}, texts={"c": "The same words."})
    scores = {name: score for name, score in SCORES.items() if name != "c"}
    head = scored({"q": {**scores, "k": 0.55}}, texts={"k": "Others."})
    card = {"renames": {"tool:s:c": "tool:s:k"}}
    head = replace(head, judged=replace(head.judged, about=card))
    assert causes(base, head)["-c"] == ("item edited", ("k",), "renamed from tool:s:c, description edited")


def test_a_parameter_under_the_name_that_the_user_knows():
    refine = [{"standard": {"topK": 20, "topN": 3, "includeScore": 1.0}}]
    base = scored({"q": SCORES}, refine, values={"contextTopN": 3, "other": 1})
    wider = [{"standard": {"topK": 20, "topN": 4, "includeScore": 1.0}}]
    head = now({}, wider, values={"contextTopN": 4, "other": 1})
    assert causes(base, head) == {"+d": ("parameter", ("contextTopN",), "contextTopN 3 -> 4")}
    assert causes(head, base) == {"-d": ("parameter", ("contextTopN",), "contextTopN 4 -> 3")}


def test_without_such_a_name_by_its_path():
    assert causes(BASE, now({}, [{"first": {"n": 2}}]))["-c"] == (
        "parameter",
        ("refine.first.n",),
        "refine.first.n 3 -> 2",
    )


def test_of_several_parameters_the_one_that_did_it():
    base = scored({"q": SCORES}, [{"standard": {"topK": 20, "topN": 2, "includeScore": 0.55}}])
    head = now({}, [{"standard": {"topK": 20, "topN": 1, "includeScore": 0.65}}])
    path = "refine.standard.includeScore"
    assert causes(base, head) == {"-d": ("parameter", (path,), f"{path} 0.55 -> 0.65")}


def test_a_step_that_was_added():
    head = now({}, [{"first": {"n": 3}}, {"margin": {"margin": 0.15}}])
    kind, subjects, detail = causes(BASE, head)["-c"]
    assert (kind, subjects) == ("parameter", ("refine.margin",))
    assert detail.startswith("refine.margin none -> (margin=0.15, of=difference")


def test_another_selector_is_one_cause_with_the_names_of_both():
    found = map(definition, ("learned", "semantic"))
    learned, semantic = ({"pipeline": each.pipeline(each.with_defaults()).describe()} for each in found)
    base, head = (
        replace(BASE, identity=replace(BASE.identity, selector=selector, values={})) for selector in (learned, semantic)
    )
    assert str(input_differences(base, head, {})).startswith("selector learned -> semantic")
    named = replace(head, identity=replace(head.identity, shipped="semantic/normal"))
    assert "selector learned -> semantic/normal" in str(input_differences(base, named, {}))
    other = now({}, [{"standard": {"topK": 20, "topN": 2, "includeScore": 0.9}}, {"margin": {"margin": 0.15}}])
    (kind, subjects, detail), *_ = causes(BASE, other).values()
    assert (kind, subjects) == ("parameter", ("selector",))
    assert detail.endswith("first -> dense + standard + margin")


def test_chunk_matches_counted_by_top_k():
    cut = [{"standard": {"topK": 6, "topN": 5, "includeScore": 1.0}}]
    lower = [{"standard": {"topK": 4, "topN": 5, "includeScore": 1.0}}]
    chunks = {"a": 0, "b": 2, "c": 5, "d": 6, "e": 7, "f": 8}
    base = scored({"q": SCORES}, cut, chunks=chunks)
    assert causes(base, now({}, lower, chunks=chunks)) == {
        "-c": ("parameter", ("refine.standard.topK",), "refine.standard.topK 6 -> 4")
    }
    ahead = {"a": 0, "x": 1, "b": 4, "c": 7, "d": 8, "e": 9, "f": 10}  # x has three chunks in front of c
    head = now({"x": 0.85}, cut, chunks=ahead)
    assert causes(base, head)["-c"] == ("crowded out", ("x",), "1 new item ranked above it")


def test_a_new_best_score_moves_a_relative_margin():
    refine = [{"margin": {"margin": 0.25}}]
    base = scored({"q": SCORES}, refine)
    head = now({"x": 0.99, "y": 0.91}, refine)
    assert causes(base, head)["-c"] == ("crowded out", ("x",), "1 new item raised the best score")
    assert causes(head, base)["+c"] == ("room made", ("x",), "1 gone item had the best score before")


def test_items_of_another_domain_do_not_crowd_out():
    rules = {"rule:r": 0.95, "rule:s": 0.65, "rule:t": 0.64}
    refine = [{"by_domain": {"tool": [{"first": {"n": 2}}], "*": [{"first": {"n": 2}}]}}]
    base = scored({"q": {"a": 0.9, "b": 0.8, **rules}}, refine)
    head = scored({"q": {"a": 0.9, "b": 0.8, **rules, "x": 0.85, "rule:y": 0.7}}, refine)
    assert causes(base, head)["-b"] == ("crowded out", ("x",), "1 new item ranked above it")
    assert causes(base, head)["-s"] == ("crowded out", ("y",), "1 new item ranked above it")


def test_a_budget_that_items_in_front_fill():
    refine = [{"first": {"n": 3}}, {"budget": {"tokens": 30}}]
    base = scored({"q": SCORES}, refine)
    head = now({}, refine, texts={"a": "much longer"}, tokens={"a": 11})
    assert causes(base, head) == {"-c": ("crowded out", ("a",), "1 edited item filled the budget")}
    head = now({}, refine, texts={"c": "much longer"}, tokens={"c": 11})
    assert causes(base, head) == {"-c": ("item edited", ("c",), "description edited")}


def test_another_counter_fills_the_budget():
    refine = [{"first": {"n": 3}}, {"budget": {"tokens": 30}}]
    base = scored({"q": SCORES}, refine)
    head = now({}, refine, tokens=dict.fromkeys(SCORES, 11))
    head = replace(head, identity=replace(head.identity, tokens="chars"))
    assert causes(base, head)["-c"] == ("parameter", ("tokens",), "tokens o200k -> chars")


def moved(scores, **given):
    """All scores as another model has them: a tenth lower, and those given."""
    return scored({"q": {**{name: score - 0.1 for name, score in SCORES.items()}, **scores}}, **given)


def test_another_model_is_one_cause_for_all():
    head = moved({"c": 0.3, "e": 0.65}, embedder="hashing")
    cause = ("model", ("model",), "model minilm -> hashing")
    assert causes(BASE, head) == {"-c": cause, "+e": cause}


def test_beside_another_model_what_is_new_or_edited_counts_where_it_alone_explains():
    head = moved({"x": 0.65}, embedder="hashing")
    assert causes(BASE, head)["-c"] == ("crowded out", ("x",), "1 new item ranked above it")
    head = moved({"c": 0.1}, embedder="hashing", texts={"c": "else"})
    assert causes(BASE, head)["-c"] == ("item edited", ("c",), "description edited")
    head = moved({}, embedder="hashing", refine=[{"first": {"n": 2}}])
    assert causes(BASE, head)["-c"] == ("parameter", ("refine.first.n",), "refine.first.n 3 -> 2")


def test_another_chunker_is_a_parameter():
    head = moved({"c": 0.3}, spec={"retrieve": {"dense": {"chunks": "sentences"}}})
    path = "retrieve.dense.chunks"
    assert causes(BASE, head)["-c"] == ("parameter", (path,), f"{path} paragraphs -> sentences")


def test_code_is_the_cause_only_where_nothing_else_can_be():
    head = moved({"c": 0.3}, versions={**OLD_CODE, "code": "new"})
    assert causes(BASE, head)["-c"] == ("code", ("ctxbench",), "code of ctxbench 0.1.0 edited (c0de -> new)")
    head = now({"c": 0.55}, texts={"c": "else"}, versions={**OLD_CODE, "code": "new"})
    assert causes(BASE, head)["-c"][0] == "item edited"


def test_scores_that_weigh_the_whole_catalog():
    base = scored({"q": SCORES}, spec={"retrieve": "bm25"})
    head = now({"c": 0.59, "h": 0.61}, spec={"retrieve": "bm25"}, texts={"h": "else"})
    assert causes(base, head)["-c"][:2] == ("crowded out", ("h",))
    head = now({"c": 0.59, "x": 0.01}, spec={"retrieve": "bm25"})
    assert causes(base, head)["-c"] == ("crowded out", ("x",), "1 new item changed the scores of other items")


def test_where_scores_weigh_the_whole_catalog_all_that_was_touched_is_one_cause():
    base = scored({"q": SCORES}, spec={"retrieve": "bm25"}, texts={"b": "The same words."})
    scores = {name: score for name, score in SCORES.items() if name not in "bi"}
    given = {"spec": {"retrieve": "bm25"}, "texts": {"k": "The same words.", "h": "else"}}
    head = scored({"q": {**scores, "k": 0.8, "c": 0.59, "x": 0.01}}, **given)
    how = "1 new, 1 edited, 1 renamed and 1 gone items changed the scores of other items"
    assert causes(base, head)["-c"] == ("crowded out", ("h", "i", "k", "x"), how)
    assert causes(base, head)["+d"] == ("room made", ("h", "i", "k", "x"), how)
    more = {f"x{n}": 0.01 for n in range(6)}
    head = scored(
        {"q": {**scores, "b": 0.8, "i": 0.1, "c": 0.59, **more}},
        spec={"retrieve": "bm25"},
        texts={"b": "The same words."},
    )
    assert causes(base, head)["-c"][1:] == ((), "6 new items changed the scores of other items")


def test_a_cut_that_alone_makes_the_change_is_the_cause_whatever_else_was_touched():
    spec = {"spec": {"retrieve": "bm25"}}
    base = scored({"q": SCORES}, [{"first": {"n": 3}}], **spec)
    louder = {name: score + 0.15 for name, score in SCORES.items()}  # rare words weigh more: no item changes its place
    head = scored({"q": {**louder, "x": 0.01}}, [{"first": {"n": 2}}], **spec)
    assert causes(base, head) == {"-c": ("parameter", ("refine.first.n",), "refine.first.n 3 -> 2")}
    both = scored({"q": {**louder, "b": 0.8, "c": 0.85, "x": 0.01}}, [{"first": {"n": 2}}], **spec)
    assert causes(base, both)["-b"] == ("parameter", ("refine.first.n",), "refine.first.n 3 -> 2")  # each is needed
    front = scored({"q": {**louder, "x": 0.99}}, [{"first": {"n": 2}}], **spec)
    assert causes(base, front)["-b"] == (
        "crowded out",
        ("x",),
        "1 new item ranked above it, only together with: refine.first.n 3 -> 2",
    )


def test_what_the_catalog_alone_does_is_not_laid_to_a_cut():
    spec = {"spec": {"retrieve": "bm25"}}
    base = scored({"q": SCORES}, [{"first": {"n": 3}}, {"at_least": {"threshold": 0.0}}], **spec)
    louder = {name: score + 0.05 for name, score in SCORES.items()}
    head = scored({"q": {**louder, "x": 0.9}}, [{"first": {"n": 3}}, {"at_least": {"threshold": 0.1}}], **spec)
    assert causes(base, head)["-c"] == ("crowded out", ("x",), "1 new item ranked above it")


def test_more_chunks_of_an_item_that_stood_in_front_before():
    cut = [{"standard": {"topK": 3, "topN": 5, "includeScore": 1.0}}]
    base = scored({"q": SCORES}, cut)
    fewer = {"a": 0, "b": 1, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8, "i": 9}  # b has two chunks
    head = now({}, cut, texts={"b": "b. b."}, chunks=fewer)
    assert causes(base, head) == {"-c": ("crowded out", ("b",), "1 edited item used more of the topK chunks")}
    assert causes(head, base) == {"+c": ("room made", ("b",), "1 edited item used more of the topK chunks before")}


def test_a_renamed_item_is_neither_new_nor_gone_to_those_around_it():
    base = scored({"q": SCORES}, texts={"c": "The same words."})
    scores = {name: score for name, score in SCORES.items() if name != "c"}
    head = scored({"q": {**scores, "k": 0.55}}, texts={"k": "The same words."})
    assert causes(base, head)["+d"] == ("room made", ("k",), "1 renamed item ranked above it before")
    assert causes(head, base)["-d"] == ("crowded out", ("c",), "1 renamed item ranked above it")


def test_a_score_that_a_baseline_has_rounded_has_not_moved():
    cut = [{"standard": {"topK": 3, "topN": 5, "includeScore": 1.0}}]
    base = scored({"q": {**SCORES, "d": 0.60000004}}, cut)
    head = scored({"q": {**{n: s for n, s in SCORES.items() if n != "c"}, "d": 0.60000004}}, cut)
    assert causes(base, head)["+d"] == ("room made", ("c",), "1 gone item ranked above it before")


def test_nothing_that_is_under_test_differs():
    head = now({"c": 0.55})
    assert [change.cause.code for change in explained(BASE, head) if change.lost] == ["CTX141"]
    steady = explained(replace(BASE, repeats=3), replace(head, repeats=3))
    assert [change.cause.code for change in steady if change.lost] == ["CTX140"]
    other = explained(replace(BASE, repeats=3), replace(head, repeats=3, nondeterministic=("q",)))
    assert {change.cause.code for change in other} <= {"CTX141"}


def test_the_part_that_alone_explains_is_the_cause_of_several_at_once():
    wider = [{"first": {"n": 4}}]
    base = scored({"q": SCORES}, wider)
    head = now({"d": 0.05, "x": 0.01}, texts={"d": "else"}, refine=[{"first": {"n": 3}}])
    assert causes(base, head)["-d"][0] == "item edited"  # either is enough; the item's own comes first
    head = now({"c": 0.65, "x": 0.01}, texts={"c": "else"}, refine=[{"first": {"n": 3}}])
    assert causes(base, head) == {"-d": ("parameter", ("refine.first.n",), "refine.first.n 4 -> 3")}
    head = now({"x": 0.65, "y": 0.64}, texts={"a": "else"}, refine=[{"first": {"n": 4}}])
    assert causes(base, head)["-d"] == ("crowded out", ("x", "y"), "2 new items ranked above it")


def test_a_cut_that_cannot_be_replayed_goes_by_what_is_known():
    def picked(chosen, near, **given):
        selector = {"pipeline": {"refine": [{"step": "cut:mmr", "version": 1, "n": 2}]}}
        return snapshot({"q": (chosen, near)}, identity=identity(selector=selector, values={}), **given)

    base = picked([("a", 0.9), ("b", 0.5)], [("c", 0.6)], items={"a": "", "b": "", "c": ""})
    head = picked([("a", 0.9), ("c", 0.6)], [("b", 0.4)], items={"a": "", "b": "else", "c": ""})
    assert causes(base, head)["-b"][0] == "item edited"
    head = picked([("a", 0.8), ("c", 0.6)], [("b", 0.5)], items={"a": "else", "b": "", "c": ""})
    assert causes(base, head)["-b"] == ("crowded out", ("a",), "1 edited item changed which items are chosen")


def expanding(chosen, near=(), items=None, **values):
    """Answers of a selector that expands, as they are given."""
    spec = scored({"q": SCORES}, [{"first": {"n": 2}}, {"expansion": values}]).identity.selector
    return snapshot({"q": answer("q", chosen, near)}, identity=identity(selector=spec, values={}), items=items or {})


def brought(name, score, via):
    return offered(name, score, origin="expansion", mode="expansion", via=item_id(via))


def test_what_an_expansion_brought_in_goes_with_what_led_there():
    items = {"a": "", "b": "", "v": "", "w": "", "x": ""}
    base = expanding([("a", 0.9), ("v", 0.8), brought("w", 0.85, "v"), brought("x", 0.8, "w")], [("b", 0.7)], items)
    edited = {**items, "v": "else"}
    head = expanding([("a", 0.9), ("b", 0.7)], [("v", 0.5)], edited)
    found = causes(base, head)
    assert found["-v"] == found["-w"] == found["-x"] == ("item edited", ("v",), "description edited")


def test_an_expansion_that_asks_for_more_is_a_parameter():
    items = {"a": "", "v": "", "w": ""}
    base = expanding([("a", 0.9), ("v", 0.8), brought("w", 0.8, "v")], [], items, threshold=0.75)
    head = expanding([("a", 0.9), ("v", 0.8)], [], items, threshold=0.9)
    path = "refine.expansion.threshold"
    assert causes(base, head)["-w"] == ("parameter", (path,), f"{path} 0.75 -> 0.9")
    head = expanding([("a", 0.9), ("v", 0.8)], [], items, enabled=False)
    assert causes(base, head)["-w"][:2] == ("parameter", ("refine.expansion.enabled",))


def test_an_expansion_whose_items_were_edited():
    items = {"a": "", "v": "", "w": ""}
    base = expanding([("a", 0.9), ("v", 0.8), brought("w", 0.8, "v")], [], items)
    head = expanding([("a", 0.9), ("v", 0.8)], [], {**items, "w": "else"})
    assert causes(base, head)["-w"] == ("item edited", ("w",), "description edited")
    head = expanding([("a", 0.9), ("v", 0.8)], [], {**items, "v": "else"})
    assert causes(base, head)["-w"] == ("item edited", ("v",), "description edited")


def outside(chosen, told, **given):
    """Answers of a selector of the user's."""
    own = identity(selector=told, values={}, embedder="", external=True)
    return snapshot({"q": chosen}, identity=own, **{"items": {"a": "", "b": "", "c": ""}, **given})


def test_a_selector_outside_that_describes_itself_otherwise():
    base = outside([("a", 0.9), ("b", 0.8)], {"command": ["sh", "run"], "files": {"run": "1"}})
    head = outside([("a", 0.7), ("c", 0.8)], {"command": ["sh", "run"], "files": {"run": "2"}})
    assert causes(base, head)["-b"] == ("external selector", ("run",), "run was edited")


def test_a_selector_outside_that_is_the_same_over_an_edited_catalog():
    told = {"command": "run"}
    base = outside([("a", 0.9), ("b", 0.8)], told)
    edited = {"a": "", "b": "else", "c": ""}
    assert causes(base, outside([("a", 0.9)], told, items=edited))["-b"][0] == "item edited"
    new = {"a": "", "b": "", "c": "", "x": ""}
    found = causes(base, outside([("a", 0.9), ("x", 0.85)], told, items=new))
    assert (found["-b"][:2], found["+x"][0]) == (("crowded out", ("x",)), "item new")
    assert causes(base, outside([("a", 0.9)], told))["-b"][0] == "unknown"


@pytest.mark.parametrize(
    ("ranked", "items", "detail"),
    [
        (
            [("a", 0.9), ("b", 0.7, NOT_CHOSEN)],
            {"a": "else"},
            "1 edited item ranked above it in the selector's own order",
        ),
        ([("b", 0.7, NOT_CHOSEN)], {"a": None}, "1 gone item ranked above it in the selector's own order"),
        (
            [("a", 0.8), ("b", 0.7, NOT_CHOSEN)],
            {"c": "else"},
            "1 edited item may have changed the scores of other items",
        ),
        ([("a", 0.9), ("b", 0.8, NOT_CHOSEN)], {"c": "else"}, "1 edited item may have changed which items are chosen"),
        ([("a", 0.9)], {"c": None, "x": ""}, "1 new and 1 gone items may have changed which items are chosen"),
    ],
)
def test_of_a_selector_outside_it_is_said_which_changed_items_may_have_decided(ranked, items, detail):
    told = {"command": "run"}
    base = outside([("a", 0.9), ("b", 0.8)], told)
    given = {name: text for name, text in {"a": "", "b": "", "c": "", **items}.items() if text is not None}
    chosen, near = ranked[:1] if "a" in given else [], ranked[1:] if "a" in given else ranked
    head = outside(answer("q", chosen, near), told, items=given)
    kind, subjects, said = causes(base, head)["-b"]
    assert (kind, said) == ("unknown", detail)
    assert subjects == tuple(sorted(items))


def test_of_a_selector_outside_nobody_says_that_a_price_keeps_an_item_out():
    """Whether its cut looks at prices is not known."""
    told, labels = {"command": "run"}, {"q": ["b"]}
    base = outside([("a", 0.9), ("b", 0.8)], told, required=labels, tokens={"b": 50})
    near = [("b", 0.0, NOT_CHOSEN)]
    items = {"a": "", "b": "else", "c": ""}
    head = outside(answer("q", [("a", 0.9)], near), told, required=labels, items=items, tokens={"b": 60})
    (lost,) = [one for one in explained(base, head) if one.lost]
    assert lost.cause.kind.value == "item edited"
    assert "undo" in str(lost.fix)
    assert "token count" not in str(lost.fix)


BESIDE = "1 other file in the selector's folder changed (server.py)"
OWN = "external selector: run was edited"


def files(**hashes):
    """What a command says of itself, whose own file is `run`."""
    return {"command": ["sh", "run"], "files": {"run": "1", "server.py": "1", **hashes}, "direct_files": ["run"]}


@pytest.mark.parametrize(
    ("head_b", "edited", "kind", "subjects"),
    [
        (0.5, "b", "item edited", ("b",)),
        (0.8, "c", "crowded out", ("c",)),
        (0.7, "a", "unknown", ("a",)),
    ],
)
def test_a_file_beside_a_command_s_own_stands_behind_what_was_done_to_items(head_b, edited, kind, subjects):
    base = outside(answer("q", [("b", 0.8)], [("a", 0.9, NOT_CHOSEN), ("c", 0.1, NOT_CHOSEN)]), files())
    base = replace(base, queries=outside([], {}, required={"q": ["b"]}).queries)
    items = {"a": "", "b": "", "c": "", edited: "else"}
    chosen = [("c", 0.85)] if edited == "c" else []
    near = [("a", 0.9, NOT_CHOSEN), ("b", head_b, NOT_CHOSEN)]
    heads = [outside(answer("q", chosen, near), files(**now), items=items) for now in ({}, {"server.py": "2"})]
    still, lost = (
        next(one for one in explained(base, replace(head, queries=base.queries)) if one.lost) for head in heads
    )
    assert (lost.cause.kind.value, tuple(one.rpartition(":")[2] for one in lost.cause.subjects)) == (kind, subjects)
    assert lost.cause == replace(still.cause, also=BESIDE)
    assert (lost.fix, str(lost.fix) != "") == (still.fix, True)


def test_a_file_beside_a_command_s_own_is_the_cause_where_no_item_differs():
    base, head = outside([("a", 0.9), ("b", 0.8)], files()), outside([("a", 0.9)], files(**{"server.py": "2"}))
    assert causes(base, head)["-b"] == ("external selector", ("server.py",), BESIDE)


def test_that_source_names_other_files_explains_nothing_that_was_done_to_items():
    base = outside([("a", 0.9), ("b", 0.8)], files())
    told = {**files(), "files": {"run": "1"}, "source": ["run"]}
    head = outside([("a", 0.9)], told, items={"a": "", "b": "else", "c": ""})
    assert [whole_detail(one.cause) for one in explained(base, head)] == ["description edited"]
    assert causes(base, outside([("a", 0.9)], told))["-b"][2] == "source: names other files now"


@pytest.mark.parametrize(
    ("edited", "moved", "words"),
    [
        ("b", 0.9, f"either item edited: description edited (tool:s:b), or {OWN}"),
        ("b", 0.7, f"either item edited: description edited (tool:s:b), or {OWN}"),
        ("c", 0.7, f"either {OWN}, or 1 edited item may have changed the scores of other items (tool:s:c)"),
    ],
)
def test_where_a_command_and_items_were_edited_both_are_named(edited, moved, words):
    base = outside([("a", 0.9), ("b", 0.8)], files())
    items = {"a": "", "b": "", "c": "", edited: "else"}
    head = outside([("a", moved)], files(run="2", **{"server.py": "2"}), items=items)
    (lost,) = explained(base, head)
    assert cause_text(lost.cause) == f"{words}; another possible cause: {BESIDE}"
    assert whole_detail(lost.cause).endswith(
        words.partition(": ")[2].replace(" (tool:s:b)", "") + f"; another possible cause: {BESIDE}"
    )


def test_what_a_selector_outside_did_not_choose_has_missed_no_cut_of_ours():
    base = outside([("a", 0.9), ("b", 0.8)], {"command": "run"}, required={"q": ["b"]})
    items = {"a": "", "b": "", "c": "else"}
    head = outside(answer("q", [("a", 0.9)], [("b", 0.7, NOT_CHOSEN)]), {"command": "run"}, items=items)
    (lost,) = explained(base, replace(head, queries=base.queries))
    assert lost.missed_by is None
    assert exclusion_text(lost) == "ranked by the selector, not chosen; only your selector knows why"
    assert str(lost.fix) == "undo the edit of tool:s:c"


def test_another_file_of_answers_says_less_than_an_edited_item():
    base = outside([("a", 0.9), ("b", 0.8)], {"answers": "a.jsonl", "sha256": "1"})
    head = outside([("a", 0.9)], {"answers": "a.jsonl", "sha256": "2"}, items={"a": "", "b": "else", "c": ""})
    assert causes(base, head)["-b"][0] == "item edited"
    head = outside([("a", 0.9)], {"answers": "a.jsonl", "sha256": "2"})
    assert causes(base, head)["-b"] == ("external selector", ("a.jsonl",), "a.jsonl was edited")


def test_an_edit_of_half_the_catalog_is_one_cause():
    names = [f"n{place:02}" for place in range(20)]
    scores = {name: 0.9 - place / 100 for place, name in enumerate(names)}
    base = scored({"q": scores})
    head = scored({"q": {**scores, "n02": 0.1}}, texts=dict.fromkeys(names[:10], "else"))
    assert causes(base, head)["-n02"] == ("item edited", (), "10 of 20 items edited")


def test_without_texts_the_causes_are_the_same_but_for_the_fields():
    head = now({"c": 0.55}, texts={"c": "else"})
    assert causes(without_texts(BASE), without_texts(head))["-c"] == (
        "item edited",
        ("c",),
        "content changed",
    )


def test_no_changes_have_no_causes():
    assert (
        explain(SnapshotPair(as_baseline(BASE), now({}), input_differences(as_baseline(BASE), now({}), {})), ()) == ()
    )
    assert explained(BASE, now({})) == ()


@given(st.lists(st.booleans(), min_size=8, max_size=8))
def test_parts_add_up_to_the_whole_change(values):
    states = [(a, b, c) for a in (False, True) for b in (False, True) for c in (False, True)]
    goes = dict(zip(states, values, strict=True))
    whole = goes[True, True, True] - goes[False, False, False]
    assert sum(shapley(goes)) == pytest.approx(whole)


def test_a_factor_that_never_matters_has_no_part():
    goes = {(a, b, c): a or b for a in (False, True) for b in (False, True) for c in (False, True)}
    assert shapley(goes) == pytest.approx((0.5, 0.5, 0))


def test_what_two_changes_did_only_together_belongs_to_both():
    base = scored({"q": SCORES}, [{"first": {"n": 4}}])
    head = scored({"q": {**SCORES, "x": 0.95}}, [{"first": {"n": 3}}])
    found = causes(base, head)
    assert found["-d"][2] == "1 new item ranked above it"  # which does it alone, as the cut does
    assert found["-c"][2] == "1 new item ranked above it, only together with: refine.first.n 4 -> 3"
