"""`ctxbench data overlap`: which items of a catalog a search confuses."""

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


def show_overlap(name: str, *, embedder: str, threshold: float | None, list_all: bool, as_json: bool) -> None:
    """Print which items of a catalog read alike or are confused by a search.

    Args:
        name: a catalog's file or folder, or a dataset's name.
        embedder: makes the vectors.
        threshold: least similarity of items that read alike; None = the default.
        list_all: try changes for all pairs, and list all, not the first ten.
        as_json: print JSON, which lists everything.
    """
    from ctxbench.data.curation.catalog_overlap import overlap
    from ctxbench.data.curation.similar import VECTORS_THRESHOLD
    from ctxbench.embedding.embedder_names import open_embedder
    from ctxbench.embedding.vectors import open_vectors
    from ctxbench.io.cache import cache_dir
    from ctxbench.text.tokens import open_counter

    catalog = find_catalog(name)
    with progress() as bar:
        vectors = open_vectors(
            open_embedder(embedder), progress=lambda done, total: bar("embedding texts", done, total)
        )
        result = overlap(
            catalog,
            vectors.get,
            open_counter("o200k", cache=cache_dir()),
            threshold=VECTORS_THRESHOLD if threshold is None else threshold,
            changed=None if list_all else 10,
            progress=lambda done, total: bar("trying changes of pairs", done, total),
        )
    result = replace(result, embedder=embedder)
    if as_json:
        print_json(result.as_dict())
    else:
        say(*overlap_lines(result, limit=None if list_all else 10))


def overlap_lines(result: Overlap, *, limit: int | None = 10) -> list[str]:
    """How alike items are, as lines; of each list the first `limit`, None = all."""
    return [*_summary(result), *_pair_lines(result, limit), *_name_lines(result.names, limit)]


def _summary(result: Overlap) -> Iterator[str]:
    from ctxbench.data.curation.catalog_overlap import FIRST_FEW

    types = ", ".join(f"{n:,} {type_}{'s' * (n != 1)}" for type_, n in result.items.items()) or "no items"
    left_out = f"; {result.left_out:,} that no search finds (disabled, or by hand only) are left out"
    yield f"{types}: {result.tokens:,} prompt tokens{left_out if result.left_out else ''}"
    if result.asked:
        are = "is" if result.first == 1 else "are"
        yield (
            f"searched for with the first sentence of its description, {result.first:,} of {result.asked:,} {are} "
            f"found first among their type, {result.among:,} among the first {FIRST_FEW}"
        )
    if result.mute:
        further = f" and {len(result.mute) - 3:,} more" if len(result.mute) > 3 else ""
        have = "has" if len(result.mute) == 1 else "have"
        yield f"{len(result.mute):,} {have} no description to search for: {', '.join(result.mute[:3])}{further}"


def _pair_lines(result: Overlap, limit: int | None) -> Iterator[str]:
    yield ""
    if not result.pairs:
        yield f"no two items read alike (similarity {result.threshold:g} or more), and none is taken for another"
        if result.nearest:
            yield "nearest to it:"
            for left, right, value in result.nearest:
                below = ", just below" if result.threshold - value < _JUST_BELOW else ""
                yield f"  {left}  {right}  (similarity {_truncate(value)}{below})"
        return
    confused = sum(pair.margin < 0 for pair in result.pairs)
    yield (
        f"pairs that read alike (similarity {result.threshold:g} or more) or are taken for one another: "
        f"{len(result.pairs):,} ({confused:,} taken), sorted by how far the wrong item leads"
    )
    listed = result.pairs[:limit]
    for rank, pair in enumerate(listed):
        yield ""
        yield from _of_pair(pair, result, tried=rank < result.tried)
    if len(listed) < len(result.pairs):
        yield ""
        yield f"  {len(result.pairs) - len(listed):,} more (--all)"


def _truncate(similarity: float) -> str:
    """Cut to three decimals, not rounded: what is below the threshold never looks as if it reached it."""
    return f"{math.floor(similarity * 1000 + 1e-6) / 1000:.3f}"


def _of_pair(pair: OverlapPair, result: Overlap, *, tried: bool) -> Iterator[str]:
    yield f"  {pair.items[0]}  {pair.items[1]}  (similarity {_truncate(pair.similarity)})"
    for search in pair.asked:
        if search.other > search.score:
            rival = next(item for item in pair.items if item != search.item)
            yield f"    {rival} comes before {search.item} in a search for"
            yield from (f"      {line}" for line in quoted(search.text))
            yield f"      similarity to the search: wrong item {search.other:.2f}, right item {search.score:.2f}"
    yield from (f"    {_change(change, result)}" for change in pair.changes)
    if pair.margin >= 0 and len(pair.asked) == 2:
        yield "    each comes before the other where it is searched for"
    elif tried and not any(change.what == "rename" for change in pair.changes):
        yield "    no word added to a name tells them apart: say in the descriptions what only one of them does"


def _change(change: EditEffect, result: Overlap) -> str:
    first = f"{change.first:,} of {result.asked:,} items would be found first by their own words ({result.first:,} now)"
    if change.what == "merge":
        return f"merged into one, as {change.name}: {-change.tokens:,} prompt tokens less, {first}"
    return f"{change.item} renamed, such as {change.name}: {first}"


def _name_lines(names: tuple[NamesAlike, ...], limit: int | None) -> Iterator[str]:
    if not names:
        return
    yield ""
    yield f"names that are hard to tell apart: {len(names):,}"
    listed = names[:limit]
    yield from (f"  {'  '.join(pair.items)}  ({_WHY[pair.why]})" for pair in listed)
    if len(listed) < len(names):
        yield f"  {len(names) - len(listed):,} more (--all)"
