"""Groups of alternatives as labels can hold them: a query's item is in one group at most."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def minimal_groups(groups: Iterable[Sequence[T]]) -> tuple[list[list[T]], int, bool]:
    """Leave out the groups of alternatives that another group implies.

    Returns:
        The other groups, in order, each member once; how many groups were implied; and whether two of the other
        groups share a member.
    """
    distinct = [list(dict.fromkeys(group)) for group in groups if group]
    minimal = [
        group
        for i, group in enumerate(distinct)
        if not any(set(other) < set(group) or (set(other) == set(group) and j < i) for j, other in enumerate(distinct))
    ]
    members = [member for group in minimal for member in group]
    return minimal, len(distinct) - len(minimal), len(members) != len(set(members))
