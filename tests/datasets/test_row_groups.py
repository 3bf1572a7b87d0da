"""Rows by key, and rows that keys connect."""

from __future__ import annotations

from ctxbench.datasets.queries import connected_rows, group_pairs


def test_values_of_a_key_keep_the_order_of_the_pairs():
    assert list(group_pairs([("b", 1), ("a", 2), ("b", 3)]).items()) == [("b", [1, 3]), ("a", [2])]
    assert group_pairs([]) == {}


def test_rows_are_connected_over_other_rows():
    assert connected_rows([["a"], ["b"], ["c"], ["b", "a"], ["d", "c"]]) == [[0, 1, 3], [2, 4]]


def test_a_row_without_keys_is_a_group_alone():
    assert connected_rows([[], ["a"], [], ["a"]]) == [[0], [1, 3], [2]]
    assert connected_rows([]) == []


def test_a_key_twice_in_a_row_connects_it_once():
    assert connected_rows([["a", "a"], ["a"]]) == [[0, 1]]
