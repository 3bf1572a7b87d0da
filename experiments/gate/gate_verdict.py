"""What the page of `measure.py` opens with: its answer, the bars, and how often each fault is found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gate_page import table, text


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Something that is asked of the gate, and what was measured.

    Attributes:
        asked: what is asked of the gate.
        bar: what was demanded; empty = nothing.
        found: what was measured.
        held: whether that meets the bar; None = there is none.
        beside: what else was found, in sentences.
    """

    asked: str
    bar: str
    found: str
    held: bool | None = None
    beside: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What the answer says: how many of how many.

    Attributes:
        reruns, rewordings: called worse, of all.
        power: cases of the faults with a bar that are found often enough, of all.
        kinds: kinds of planted faults that are found often enough wherever they were planted, of all.
        edits: with the right cause, of all.
        ratio: of the time that a check takes where nothing changed, to that of a process that imports numpy.
    """

    reruns: tuple[int, int]
    rewordings: tuple[int, int]
    power: tuple[int, int]
    kinds: tuple[int, int]
    edits: tuple[int, int]
    ratio: float


def answer(found: Counts, *, queries: int, enough: int, draws: int) -> str:
    """What the gate is worth, as one sentence."""

    def of(pair: tuple[int, int]) -> str:
        return f"{pair[0]} of {pair[1]}"

    others = "" if found.kinds[0] == found.kinds[1] else ", and those of the others less often"
    return (
        f"**`ctxbench check` calls {of(found.reruns)} reruns with a harmless change worse, and {of(found.rewordings)} "
        f"neutral rewordings; with {queries} queries it calls planted faults of {of(found.kinds)} kinds worse and "
        f"names their cause first in at least {enough} of {draws} draws{others}; it names the right cause of "
        f"{of(found.edits)} edits by hand; where nothing changed it takes {found.ratio:.1f} times as long as a "
        f"process that only imports "
        "numpy.**"
    )


def bars(several: Sequence[Bar]) -> Iterator[str]:
    """The bars as a table, and what else was found as a list."""
    rows = [[one.asked, one.bar or "none", one.found, _held(one.held)] for one in several]
    yield from table(["asked", "bar", "measured", "the bar"], rows)
    for one in several:
        if one.beside:
            yield from list(text(f"* {one.asked}: {one.beside}", after="  "))[:-1]
    yield ""


def _held(held: bool | None) -> str:
    return "" if held is None else "holds" if held else "**does not hold**"


def least(found: Mapping[str, Mapping[int, Sequence[int]]], first: Sequence[str]) -> Iterator[str]:
    """How many draws of each size name a fault, the least of all.

    Args:
        found: by fault and size, for every dataset and selector.
        first: the faults that have a bar.
    """
    ns = sorted({n for each in found.values() for n in each})
    names = sorted(found, key=lambda name: first.index(name) if name in first else len(first))
    rows = [
        [name, "yes" if name in first else "no", *(str(min(found[name][n])) if n in found[name] else "-" for n in ns)]
        for name in names
    ]
    yield from table(["fault", "has a bar", *(f"n = {n}" for n in ns)], rows)
