"""How two datasets differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.datasets.queries import Label
from ctxbench.labelling.curation import FieldChanges, SplitChange, diff_datasets
from ctxbench.model.items import Catalog


def test_a_dataset_is_equal_to_itself_in_any_order_of_queries(tiny):
    assert diff_datasets(tiny, tiny).equal
    assert diff_datasets(tiny, replace(tiny, queries=tiny.queries[::-1])).equal


def test_every_kind_of_difference_is_named(make):
    before = make.dataset(
        [make.tool("a", "x"), make.tool("b"), make.tool("gone")],
        [make.query("q1"), make.query("q2"), make.query("q3", split="tuning")],
        [("q1", "a", 2), ("q1", "b", 2), ("q2", "gone", 2), ("q3", "a", 1)],
        scopes={"s": (make.key("a"), make.key("gone"))},
    )
    after = make.dataset(
        [make.tool("a", "y", enabled=True, include="always"), make.tool("b"), make.tool("new")],
        [make.query("q1", "other"), make.query("q3"), make.query("q4", needs_nothing=True)],
        [("q1", "a", 2), ("q1", "b", 1), Label("q3", make.key("a"), 1, source="person")],
        scopes={"s": (make.key("a"), make.key("new"))},
        version="2",
    )
    found = diff_datasets(before, after)
    assert not found.equal
    assert found.items.added == ("tool:s:new",)
    assert found.items.removed == ("tool:s:gone",)
    assert found.items.changed == (FieldChanges("tool:s:a", ("description", "include")),)
    assert not found.reordered
    assert (found.queries.added, found.queries.removed) == (("q4",), ("q2",))
    assert found.queries.changed == (FieldChanges("q1", ("text",)),)
    assert found.splits == (SplitChange("q3", "tuning", "test"),)
    assert [(c.kind, c.query, c.item) for c in found.labels] == [
        ("changed", "q1", "tool:s:b"),
        ("removed", "q2", "tool:s:gone"),
        ("changed", "q3", "tool:s:a"),
    ]
    assert found.label_counts == {
        "added": {},
        "removed": {"required": 1},
        "changed": {"required -> helpful": 1, "source": 1},
    }
    assert found.card == (FieldChanges("version", ()),)
    assert found.scopes == (("s", ("tool:s:new",), ("tool:s:gone",)),)
    assert diff_datasets(after, before).label_counts["added"] == {"required": 1}


def test_the_order_of_items_counts(make):
    data = make.dataset(["a", "b"], [make.query("q")], [("q", "a", 2)])
    turned = replace(data, catalog=Catalog(list(data.catalog)[::-1]))
    found = diff_datasets(data, turned)
    assert found.reordered
    assert not found.items
    assert not found.equal


VALUES = [{"x": {"default": 1}, "y": {}}, {"y": {}, "x": {"default": 1}}, {"x": {"default": True}, "y": {}}]
VALUES += [{"x": {"default": 1.0}, "y": {}}, {"x": {"default": None}}, {"x": {}}]


@pytest.mark.parametrize("field", ["schema", "metadata"])
def test_equal_means_the_same_hash_down_to_the_order_of_keys_and_1_against_true(make, field):
    made = [
        make.dataset([make.tool("a", **{field: value})], [make.query("q")], [("q", "a", 2)])
        for value in [*VALUES, VALUES[0]]
    ]
    for a in made:
        for b in made:
            found = diff_datasets(a, b)
            assert found.equal == (a.hash == b.hash)
            assert found.items.changed == (() if found.equal else (FieldChanges("tool:s:a", (field,)),))
    assert len({data.hash for data in made}) == len(VALUES)


def test_the_card_is_compared_down_to_1_against_true(make, tiny):
    a, b = (replace(tiny, about={**tiny.about, "notes": [value]}) for value in (1, True))
    assert diff_datasets(a, b).card == (FieldChanges("notes", ()),)
