"""Rows grouped by a key, or by keys that connect them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def group_pairs(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key, keys and values in the order of the pairs."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def connected_rows(row_keys: Iterable[Iterable[Hashable]]) -> list[list[int]]:
    """Group the rows that share a key, directly or over other rows.

    Args:
        row_keys: the keys of each row; a row without keys is a group alone.

    Returns:
        Positions of rows, ascending in each group; groups in the order of their first row.
    """
    parents: list[int] = []
    first_row: dict[Hashable, int] = {}

    def root(row: int) -> int:
        while parents[row] != row:
            parents[row] = parents[parents[row]]
            row = parents[row]
        return row

    for row, keys in enumerate(row_keys):
        parents.append(row)
        for key in keys:
            first, second = root(first_row.setdefault(key, row)), root(row)
            parents[max(first, second)] = min(first, second)
    return list(group_pairs((root(row), row) for row in range(len(parents))).values())
