"""Groups of alternatives: those that others imply, and their labels."""

from __future__ import annotations

from ctxbench.datasets.queries import Label, group_labels, minimal_groups
from ctxbench.model.items import ItemKey


def test_a_group_that_holds_another_is_implied_by_it():
    assert minimal_groups([["a", "b"], ["b"], ["c", "c"]]) == ([["b"], ["c"]], 1, False)


def test_of_equal_groups_the_first_is_left():
    assert minimal_groups([["a", "b"], ["b", "a"]]) == ([["a", "b"]], 1, False)


def test_groups_that_share_a_member_otherwise_overlap():
    assert minimal_groups([["a", "b"], ["b", "c"]]) == ([["a", "b"], ["b", "c"]], 0, True)


def test_empty_groups_imply_nothing():
    assert minimal_groups([[], ["a"]]) == ([["a"]], 0, False)
    assert minimal_groups([]) == ([], 0, False)


def test_a_group_of_several_items_is_numbered_and_one_item_stands_alone():
    a, b, c = (ItemKey("tool", None, name) for name in "abc")
    assert list(group_labels("q", [[a], [], [b, c]], name="turn", source="x")) == [
        Label("q", a, 2, source="x"),
        Label("q", b, 2, alternatives="turn 3", source="x"),
        Label("q", c, 2, alternatives="turn 3", source="x"),
    ]
