"""Tells which items may have changed places by the noise of another machine's arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ctxbench.core.candidates import MARGIN


def noise_margin(scores: Iterable[float]) -> float:
    """The largest distance of two scores of a query that noise may exchange.

    Args:
        scores: all that are known of the query, on either side.

    Returns:
        `MARGIN`, times the largest of them where that is below 1, since noise is relative; 0 where none is known.
    """
    return MARGIN * min(1.0, max(map(abs, scores), default=0.0))


def is_unmoved(before: float | None, now: float | None, *, margin: float, digits: int) -> bool:
    """Whether a score moved by no more than the margin and the rounding; true where it is unknown on a side."""
    return before is None or now is None or abs(before - now) <= max(margin, 10.0**-digits)


def tied_pairs(
    lost: Sequence[str], gained: Sequence[str], tied: Callable[[str, str], bool]
) -> tuple[tuple[str, str], ...]:
    """Pair items that went out with items that came in and are tied with them, each item at most once.

    Args:
        lost, gained: ids, best first: each is given the best partner that is left.
        tied: of one that went out and one that came in, whether noise may have exchanged them.
    """
    found = []
    left = list(gained)
    for one in lost:
        other = next((name for name in left if tied(one, name)), None)
        if other is not None:
            left.remove(other)
            found.append((one, other))
    return tuple(found)
