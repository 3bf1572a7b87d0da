"""The exact sweep: every setting of a family of cuts, shown to those that collect something of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ctxbench.tuning.sweep.families import CutFamily
from ctxbench.tuning.sweep.rankings import MeasuredRankings
from ctxbench.tuning.sweep.threshold_lines import Collector


def sweep(
    family: CutFamily,
    rankings: MeasuredRankings,
    collectors: Sequence[Collector],
    *,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Evaluate every setting of a family; each line is seen by all collectors, in order, and forgotten.

    Args:
        family: which settings there are.
        rankings: rankings, measured at every length.
        collectors: those that keep something.
        progress: told after each line how many settings have been evaluated.

    Returns:
        How many settings there were.
    """
    settings = 0
    for line in family.lines(rankings):
        settings += len(line)
        for collector in collectors:
            collector.add(line)
        if progress is not None:
            progress(settings)
    return settings
