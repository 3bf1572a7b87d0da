"""Groups of alternatives, as labels can say them: an item is in one group of a query at most."""

from __future__ import annotations

from collections.abc import Sequence


def minimal_groups(groups: Sequence[Sequence[str]]) -> tuple[list[list[str]], int, bool]:
    """Groups of alternatives without those that another one implies.

    Returns:
        The groups that are left, in order, each document once; how many were implied; and whether two of those left
        share a document.
    """
    sets = [list(dict.fromkeys(group)) for group in groups]
    left: list[list[str]] = []
    for i, group in enumerate(sets):
        implied = any(
            set(other) < set(group) or (set(other) == set(group) and j < i)
            for j, other in enumerate(sets)
            if j != i and other
        )
        if group and not implied:
            left.append(group)
    documents = [document for group in left for document in group]
    return left, sum(bool(group) for group in sets) - len(left), len(documents) != len(set(documents))
