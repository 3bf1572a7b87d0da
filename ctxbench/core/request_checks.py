"""Checks of what a request brings, for whoever makes or reads one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ctxbench.core.errors import ParameterError

if TYPE_CHECKING:
    from ctxbench.core.items import ItemKey


def checked_vector(values: Sequence[float], query: str) -> tuple[float, ...]:
    """The numbers of a request's own vector.

    Raises:
        ParameterError: they are none, or not finite, or all 0; names the query.
    """
    try:
        vector = tuple(map(float, values))
    except (TypeError, ValueError):
        raise ParameterError(f"query {query!r}: vector must be a list of numbers, got {values!r:.60}") from None
    if not all(map(math.isfinite, vector)):
        raise ParameterError(f"query {query!r}: its vector of {len(vector)} numbers holds NaN or infinity")
    if not any(vector):
        raise ParameterError(f"query {query!r}: its vector of {len(vector)} numbers has no length; all are 0")
    return vector


def check_uses(uses: Sequence[tuple[ItemKey, int]], query: str) -> None:
    """Refuse counts of uses that are none.

    Raises:
        ParameterError: one is no whole number from 0 on, or an item is counted twice; names the query.
    """
    for key, count in uses:
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            message = f"how often {key.id!r} was useful must be a whole number, 0 or more"
            raise ParameterError(f"query {query!r}: {message}, got {count!r:.60}")
    if len({key for key, _ in uses}) < len(uses):
        raise ParameterError(f"query {query!r}: uses counts an item twice; give each item one count")
