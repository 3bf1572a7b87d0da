"""Groups of alternatives as labels can hold them: a query's item is in one group at most."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.items import ItemKey
from ctxbench.data.datasets.query_labels import Label

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


def group_labels(
    query: str, groups: Iterable[Sequence[ItemKey]], *, name: str = "group", source: str = ""
) -> Iterator[Label]:
    """Labels for groups of items of which a query requires one each.

    Args:
        query: the query id.
        groups: of alternatives; one item alone has none, and an empty group has no label.
        name: what a group is called in `alternatives`, before its number from 1.
        source: of the labels.
    """
    for number, group in enumerate(groups, start=1):
        alternatives = f"{name} {number}" if len(group) > 1 else ""
        yield from (Label(query, key, Grade.REQUIRED, alternatives=alternatives, source=source) for key in group)
