"""`ctxbench data overlap`: which items of a catalog a search takes for one another."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.cli.select import find_catalog
from ctxbench.io.console import say
from ctxbench.io.visible import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxbench.data.curation.catalog_overlap import EditEffect, NamesAlike, Overlap, OverlapPair

_WHY = {"same name": "the same name", "suffix": "one name goes on where the other ends"}
_JUST_BELOW = 0.05  # pairs this near to the threshold are told as such


def show_overlap(name: str, *, embedder: str, threshold: float | None, every: bool, as_json: bool) -> None:
    """Print which items of a catalog read alike or are taken for one another.

    Args:
        name: a catalog's file or folder, or a dataset's name.
        embedder: makes the vectors.
        threshold: least similarity of items that read alike; None = the default.
        every: try changes for all pairs, and list all, not the first ten.
        as_json: print JSON, which lists everything.
    """
    from ctxbench.data.curation.catalog_overlap import overlap
    from ctxbench.data.curation.similar import VECTORS_THRESHOLD
    from ctxbench.embedding.embedder_names import open_embedder
    from ctxbench.embedding.vectors import open_vectors
    from ctxbench.io.cache import cache_dir
    from ctxbench.text.tokens import open_counter

    catalog = find_catalog(name)
    with progress() as shown:
        vectors = open_vectors(
            open_embedder(embedder), progress=lambda done, total: shown("embedding texts", done, total)
        )
        found = overlap(
            catalog,
            vectors.get,
            open_counter("o200k", cache=cache_dir()),
            threshold=VECTORS_THRESHOLD if threshold is None else threshold,
            changed=None if every else 10,
            progress=lambda done, total: shown("trying changes of pairs", done, total),
        )
    found = replace(found, embedder=embedder)
    if as_json:
        print_json(found.as_dict())
    else:
        say(*overlap_lines(found, shown=None if every else 10))


def overlap_lines(found: Overlap, *, shown: int | None = 10) -> list[str]:
    """How far items can be told apart, as lines; of each list the first `shown`, None = all."""
    return [*_summary(found), *_pair_lines(found, shown), *_name_lines(found.names, shown)]


def _summary(found: Overlap) -> Iterator[str]:
    from ctxbench.data.curation.catalog_overlap import FIRST_FEW

    types = ", ".join(f"{n:,} {type_}{'s' * (n != 1)}" for type_, n in found.items.items()) or "no items"
    left_out = f"; {found.left_out:,} that no search finds (disabled, or by hand only) are left out"
    yield f"{types}: {found.tokens:,} prompt tokens{left_out if found.left_out else ''}"
    if found.asked:
        are = "is" if found.first == 1 else "are"
        yield (
            f"searched for with the first sentence of its description, {found.first:,} of {found.asked:,} {are} found "
            f"first among their type, {found.among:,} among the first {FIRST_FEW}"
        )
    if found.mute:
        others = f" and {len(found.mute) - 3:,} more" if len(found.mute) > 3 else ""
        have = "has" if len(found.mute) == 1 else "have"
        yield f"{len(found.mute):,} {have} no description to search for: {', '.join(found.mute[:3])}{others}"


def _pair_lines(found: Overlap, shown: int | None) -> Iterator[str]:
    yield ""
    if not found.pairs:
        yield f"no two items read alike (similarity {found.threshold:g} or more), and none is taken for another"
        if found.nearest:
            yield "nearest to it:"
            for one, other, value in found.nearest:
                below = ", just below" if found.threshold - value < _JUST_BELOW else ""
                yield f"  {one}  {other}  (similarity {_shown(value)}{below})"
        return
    taken = sum(pair.margin < 0 for pair in found.pairs)
    yield (
        f"pairs that read alike (similarity {found.threshold:g} or more) or are taken for one another: "
        f"{len(found.pairs):,} ({taken:,} taken), sorted by how far the wrong item leads"
    )
    listed = found.pairs[:shown]
    for rank, pair in enumerate(listed):
        yield ""
        yield from _of_pair(pair, found, tried=rank < found.tried)
    if len(listed) < len(found.pairs):
        yield ""
        yield f"  {len(found.pairs) - len(listed):,} more (--all)"


def _shown(similarity: float) -> str:
    """Cut to three decimals, not rounded: what is below the threshold never looks as if it reached it."""
    return f"{math.floor(similarity * 1000 + 1e-6) / 1000:.3f}"


def _of_pair(pair: OverlapPair, found: Overlap, *, tried: bool) -> Iterator[str]:
    yield f"  {pair.items[0]}  {pair.items[1]}  (similarity {_shown(pair.similarity)})"
    for one in pair.asked:
        if one.other > one.score:
            other = next(item for item in pair.items if item != one.item)
            yield f"    {other} comes before {one.item} in a search for"
            yield from (f"      {line}" for line in quoted(one.text))
            yield f"      similarity to the search: wrong item {one.other:.2f}, right item {one.score:.2f}"
    yield from (f"    {_change(change, found)}" for change in pair.changes)
    if pair.margin >= 0 and len(pair.asked) == 2:
        yield "    each comes before the other where it is searched for"
    elif tried and not any(change.what == "rename" for change in pair.changes):
        yield "    no word added to a name tells them apart: say in the descriptions what only one of them does"


def _change(change: EditEffect, found: Overlap) -> str:
    first = f"{change.first:,} of {found.asked:,} items would be found first by their own words ({found.first:,} now)"
    if change.what == "merge":
        return f"merged into one, as {change.name}: {-change.tokens:,} prompt tokens less, {first}"
    return f"{change.item} renamed, such as {change.name}: {first}"


def _name_lines(names: tuple[NamesAlike, ...], shown: int | None) -> Iterator[str]:
    if not names:
        return
    yield ""
    yield f"names that are hard to tell apart: {len(names):,}"
    listed = names[:shown]
    yield from (f"  {'  '.join(one.items)}  ({_WHY[one.why]})" for one in listed)
    if len(listed) < len(names):
        yield f"  {len(names) - len(listed):,} more (--all)"
