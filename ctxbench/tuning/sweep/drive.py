"""The exact sweep: every setting of a family of cuts, driven through what keeps something of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ctxbench.tuning.sweep.lines import Family, Keeper
from ctxbench.tuning.sweep.rankings import Ladders


def sweep(
    family: Family, ladders: Ladders, keepers: Sequence[Keeper], *, progress: Callable[[int], None] | None = None
) -> int:
    """Evaluate every setting of a family; each line is seen by all keepers, in order, and forgotten.

    Args:
        family: which settings there are.
        ladders: rankings, measured at every length.
        keepers: what is kept.
        progress: told after each line how many settings have been evaluated.

    Returns:
        How many settings there were.
    """
    settings = 0
    for line in family.lines(ladders):
        settings += len(line)
        for keeper in keepers:
            keeper.take(line)
        if progress is not None:
            progress(settings)
    return settings
