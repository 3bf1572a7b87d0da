"""Candidates as lines of text: what is in or out, at which score and price, and why."""

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
    """Candidates one below the other: score, mode, tokens, id, the rule that keeps one out, and the winning pair.

    With `paths` files and their parts are told by path, such as `src/core.py::Context`, in place of the id.
    """
    required = any(one.probability is not None for one in rows)
    columns = ["score", *["likely to be required"] * required, "how it gets in (include mode)", "price", "item"]
    lines = [" | ".join(columns)] if headed else []
    for one in rows:
        score = "      " if one.offered.score is None else f"{one.offered.score:6.3f}"
        likely = "" if one.probability is None else f"  {one.probability:4.0%} likely"
        lines.append(
            f"{score}{likely}  {one.offered.mode:<9} {one.tokens:>5} tokens  {_told(one.offered.id, paths=paths)}"
        )
        if one.offered.rule:
            lines.append(f"        {one.offered.rule}")
        if one.loads:
            lines.append(f"        loads {one.loads:,} tokens more where the model asks for it")
        if one.offered.span:
            start, end = one.offered.span
            of = f"{len(one.item.prompt_text):,}"
            lines.append(f"        shown in part: characters {start + 1:,} to {end:,} of {of}")
        if pairs and (pair := winning_pair(one, paths=paths)):
            lines.append(f"        {pair}")
    return lines


def winning_pair(one: Explained, *, paths: bool = False) -> str:
    """What led to a candidate: the item, if one did, and the pair of texts; empty if neither is known."""
    led = f"led to by {_told(one.offered.via, paths=paths)}" if one.offered.via else ""
    pair = f"“{_short(one.query_chunk)}” matches “{_short(one.item_chunk)}”" if one.item_chunk else ""
    return ": ".join(filter(None, (led, pair)))


def _told(item: str, *, paths: bool) -> str:
    """An id as a person reads it; with `paths` that of a file or a part of one as its name, without its version."""
    key = ItemKey.parse(item)
    return _VERSION.sub("", key.name) if paths and key.type in ("file", "chunk") and key.server is None else item


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= WIDTH else one_line[: WIDTH - 1] + "…"
