"""Candidates as lines of text: offered or excluded, score, tokens, and why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctxbench.core.items import ItemKey

if TYPE_CHECKING:
    from ctxbench.selectors.explain import Explained

WIDTH = 60
_VERSION = re.compile(r"@[0-9a-f]{12}(\.\d+)?$")  # behind a file's name, where a catalog holds several


def candidate_lines(
    rows: tuple[Explained, ...], *, pairs: bool, headed: bool = False, paths: bool = False
) -> list[str]:
    """One candidate per line: score, mode, tokens and id; below it the exclusion rule and the best matching pair.

    With `paths` files and their parts are named by path, such as `src/core.py::Context`, not by id.
    """
    required = any(candidate.probability is not None for candidate in rows)
    columns = ["score", *["likely to be required"] * required, "how it gets in (include mode)", "price", "item"]
    lines = [" | ".join(columns)] if headed else []
    for candidate in rows:
        score = "      " if candidate.offered.score is None else f"{candidate.offered.score:6.3f}"
        likely = "" if candidate.probability is None else f"  {candidate.probability:4.0%} likely"
        name = _display_id(candidate.offered.id, paths=paths)
        lines.append(f"{score}{likely}  {candidate.offered.mode:<9} {candidate.tokens:>5} tokens  {name}")
        if candidate.offered.rule:
            lines.append(f"        {candidate.offered.rule}")
        if candidate.loads:
            lines.append(f"        loads {candidate.loads:,} tokens more where the model asks for it")
        if candidate.offered.span:
            start, end = candidate.offered.span
            of = f"{len(candidate.item.prompt_text):,}"
            lines.append(f"        shown in part: characters {start + 1:,} to {end:,} of {of}")
        if pairs and (pair := winning_pair(candidate, paths=paths)):
            lines.append(f"        {pair}")
    return lines


def winning_pair(candidate: Explained, *, paths: bool = False) -> str:
    """The item that led to a candidate, if one did, and the matching pair of texts; empty if neither is known."""
    led = f"led to by {_display_id(candidate.offered.via, paths=paths)}" if candidate.offered.via else ""
    pair = f"“{_short(candidate.query_chunk)}” matches “{_short(candidate.item_chunk)}”" if candidate.item_chunk else ""
    return ": ".join(filter(None, (led, pair)))


def _display_id(item: str, *, paths: bool) -> str:
    """An id as a person reads it; with `paths` that of a file or a part of one as its name, without its version."""
    key = ItemKey.parse(item)
    return _VERSION.sub("", key.name) if paths and key.type in ("file", "chunk") and key.server is None else item


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= WIDTH else one_line[: WIDTH - 1] + "…"
