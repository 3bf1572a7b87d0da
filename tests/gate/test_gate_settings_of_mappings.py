"""Settings that are mappings: each key that differs is told, set back and replayed by itself."""

from __future__ import annotations

import pytest

from ctxbench.gate.inputs import differing_values, input_differences, with_setting, with_value_of
from ctxbench.gate.snapshots import flat_steps
from ctxbench.pipelines.pipeline import Pipeline
from tests.gate.cause_cases import explained, groups
from tests.gate.gate_cases import identity, snapshot

WEIGHTS = {"assembly.tfidf": 0.54, "assembly.tf": 0.0, "assembly.keywords": 0.52, "assembly.source": 0.46}
PATH = "refine.linear.weights"


def ranked(weights, **values):
    """A selector that ranks by these weights; `values`: of its own parameters."""
    pipeline = Pipeline.of({"retrieve": "bm25", "refine": [{"linear": {"weights": weights}}, {"first": {"n": 2}}]})
    return identity(selector={"pipeline": pipeline.describe()}, values=values)


def found_in(was, now):
    return input_differences(*(snapshot({"q": []}, identity=one) for one in (was, now)), {})


def told(was, now):
    return str(found_in(ranked(was), ranked(now)))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"assembly.source": 0.0}, f"{PATH}.assembly.source 0.46 -> 0.0"),
        (
            {"assembly.tf": 0.1, "assembly.source": 0.0},
            f"{PATH}.assembly.tf 0.0 -> 0.1, {PATH}.assembly.source 0.46 -> 0.0",
        ),
        ({"assembly.uses": 1.0}, f"{PATH}.assembly.uses none -> 1.0"),
    ],
)
def test_of_a_mapping_each_key_that_differs_is_named(changed, words):
    assert told(WEIGHTS, {**WEIGHTS, **changed}) == words


def test_a_key_that_only_the_first_side_has_is_named():
    assert told({**WEIGHTS, "assembly.uses": 1.0}, WEIGHTS) == f"{PATH}.assembly.uses 1.0 -> none"


def test_a_key_goes_by_the_selector_s_parameter_that_has_the_same_two_values():
    was = ranked(WEIGHTS, source=0.46, matched=0.52, n=2)
    now = ranked({**WEIGHTS, "assembly.source": 0.0, "assembly.keywords": 0.3}, source=0.0, matched=0.3, n=2)
    assert str(found_in(was, now)) == "matched 0.52 -> 0.3, source 0.46 -> 0.0"


def test_of_two_parameters_with_the_same_change_the_one_that_is_called_as_the_key_ends():
    was = ranked({**WEIGHTS, "assembly.keywords": 0.46}, source=0.46, keywords=0.46)
    now = ranked({**WEIGHTS, "assembly.keywords": 0.0, "assembly.source": 0.0}, source=0.0, keywords=0.0)
    assert str(found_in(was, now)) == "keywords 0.46 -> 0.0, source 0.46 -> 0.0"


@pytest.mark.parametrize(
    ("was", "now", "found"),
    [
        (1, 2, [((), 1, 2)]),
        ({"a": 1}, None, [((), {"a": 1}, None)]),
        ({"a": 1, "b": 2}, {"b": 3, "c": 4}, [(("a",), 1, None), (("b",), 2, 3), (("c",), None, 4)]),
        ({"windows": {"size": 4, "step": 2}}, {"windows": {"size": 5, "step": 2}}, [(("windows", "size"), 4, 5)]),
        ({"a": {"b": 1}}, {"a": 1}, [(("a",), {"b": 1}, 1)]),
        ({"a": 1, "b": None}, {"a": 1}, [((), {"a": 1, "b": None}, {"a": 1})]),
    ],
)
def test_what_differs_in_two_values(was, now, found):
    assert differing_values(was, now) == found


def test_of_mappings_that_differ_in_many_keys_only_those_are_told_as_one():
    was = {"same": 0, **{f"k{n:02}": 1 for n in range(21)}}
    now = {**was, **{f"k{n:02}": 2 for n in range(21)}}
    differ = [{name: one for name, one in side.items() if name != "same"} for side in (was, now)]
    assert differing_values(was, now) == [((), *differ)]
    assert len(differing_values(was, {**now, "k20": 1})) == 20


@pytest.mark.parametrize(
    ("keys", "value"),
    [((), {"a": {"b": 9, "c": 8}}), (("a", "b"), {"a": {"b": 9}, "d": 3}), (("d",), {"a": {"b": 1}})],
)
def test_a_value_with_a_part_of_another(keys, value):
    assert with_value_of({"a": {"b": 1}, "d": 3}, {"a": {"b": 9, "c": 8}}, keys) == value


def test_a_key_is_set_to_its_value_of_the_other_side_alone():
    was, now = WEIGHTS, {"assembly.tfidf": 0.2, "assembly.tf": 0.0, "assembly.source": 0.46, "assembly.uses": 1.0}
    sides = [ranked(one) for one in (was, now)]
    before, after = (flat_steps(one.selector) for one in sides)
    weights = [with_setting(after, before, one)[-2].values["weights"] for one in found_in(*sides).settings]
    assert weights == [
        {**now, "assembly.tfidf": 0.54},
        {**now, "assembly.keywords": 0.52},
        {name: one for name, one in now.items() if name != "assembly.uses"},
    ]


def lost_by(was, now):
    """Two snapshots of a cut that compares texts and loses the required `b`, with these values of `chunks`."""

    def side(chunks, chosen, near):
        selector = {"pipeline": {"refine": [{"step": "cut:mmr", "version": 1, "n": 2, "chunks": chunks}]}}
        known = {"items": {"a": "", "b": "", "c": ""}, "required": {"q": ["b"]}}
        return snapshot({"q": (chosen, near)}, identity=identity(selector=selector, values={}), **known)

    return side(was, [("a", 0.9), ("b", 0.5)], [("c", 0.4)]), side(now, [("a", 0.9), ("c", 0.4)], [("b", 0.5)])


def test_a_loss_by_a_key_is_mended_by_setting_that_key_back():
    base, head = lost_by({"windows": {"size": 40, "step": 20}}, {"windows": {"size": 80, "step": 20}})
    (group,) = groups(base, head)
    assert group.cause.detail == "refine.mmr.chunks.windows.size 40 -> 80"
    assert group.cause.subjects == ("refine.mmr.chunks.windows.size",)
    assert str(group.fix) == "set refine.mmr.chunks.windows.size back to 40"
    assert group.fix.changed == (("refine.mmr", "chunks", {"windows": {"size": 40, "step": 20}}),)


def test_a_key_that_is_new_is_to_be_taken_out():
    base, head = lost_by({"windows": {"size": 40}}, {"windows": {"size": 80, "step": 20}})
    (lost,) = [one for one in explained(base, head) if one.fix]
    path = "refine.mmr.chunks.windows"
    assert str(lost.fix) == f"set {path}.size back to 40 and remove {path}.step"
    assert lost.fix.changed == (("refine.mmr", "chunks", {"windows": {"size": 40}}),)
