"""Citations: what a reply may refer to an item of its context by, and which of them it did."""

from __future__ import annotations

import hashlib
import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ctxbench.core.candidates import Candidates
from ctxbench.core.items import Item, ItemKey
from ctxbench.core.query import Query
from ctxbench.core.selection import chosen_items
from ctxbench.core.shown import between_characters, part_of, part_text

SHORTEST = 4  # digits of an id
EXCERPT = 50  # characters of an excerpt behind a source
_DIGITS = string.digits + string.ascii_lowercase
_OF_A_HASH = 49  # digits in base 36 that a SHA-256 fills
_RUNS = re.compile(r"<+|>+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """One item of a context, as a reply refers to it.

    Attributes:
        id: `[fil-7k2p]`: its type and a hash of its key, brackets included; see `citation_ids`.
        source: a path or name; of a message role and thread. One line.
        type: of the item.
        path: that of a file or chunk; None of others.
        excerpt: what is shown of its text, without any marks.
        relevance: the score of the last ranking; None for what the session holds.
        used: whether a reply cites it; see `cited`.
    """

    id: str
    source: str
    type: str
    path: str | None = None
    excerpt: str = ""
    relevance: float | None = None
    used: bool = False


def citations(query: Query, candidates: Candidates, request: int) -> tuple[Citation, ...]:
    """What one request was offered, in the one order, but for tools.

    Args:
        query, candidates: of a batch, as the format is given them.
        request: place of the request in it.
    """
    items = [(item, row) for item, row in chosen_items(query, candidates, request) if item.type != "tool"]
    texts = [part_text(item, part_of(candidates, row)) for item, row in items]
    sources = [_source(item) for item, _ in items]
    ids = citation_ids([item.key for item, _ in items])
    scores = [float(candidates.score[row]) for _, row in items]
    return tuple(
        Citation(
            id=id_,
            source=source,
            type=item.type,
            path=item.path if item.is_file else None,
            excerpt=text,
            relevance=None if math.isnan(score) else score,
        )
        for (item, _), id_, source, text, score in zip(items, ids, sources, texts, scores, strict=True)
    )


def _source(item: Item) -> str:
    """Where an item is from, on one line."""
    if item.type == "message":
        origin = f"{item.kind or 'message'} in {item.conversation}" if item.conversation else item.kind or "message"
    else:
        origin = item.title or item.name
    return " ".join(origin.split())


def citation_ids(keys: Sequence[ItemKey]) -> tuple[str, ...]:
    """Ids of the items of one context: `[typ-hash]`, the first three letters of a type and a hash in base 36.

    They are the same in every process and turn, so that what an earlier reply cites is still called so; where two would
    be the same, both are longer.

    Args:
        keys: of the items, distinct.
    """
    digits, length = [_hash(key) for key in keys], [SHORTEST] * len(keys)
    while True:
        ids = [f"[{key.type[:3]}-{digest[:n]}]" for key, digest, n in zip(keys, digits, length, strict=True)]
        count = Counter(ids)
        met = [n for n, id_ in enumerate(ids) if count[id_] > 1]
        if not met:
            return tuple(ids)
        for n in met:
            length[n] += 1


@lru_cache(maxsize=1 << 14)  # the items of a service come again and again
def _hash(key: ItemKey) -> str:
    """The digits of a key's SHA-256 in base 36, the lowest first: those are drawn evenly."""
    number, digits = int.from_bytes(hashlib.sha256(key.id.encode()).digest(), "big"), []
    for _ in range(_OF_A_HASH):
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return "".join(digits)


def marked(text: str, marks: Sequence[tuple[int, int]]) -> str:
    """A text with `<<<` and `>>>` around its matches; longer ones where the text itself holds such.

    Args:
        text: any.
        marks: `[from, to)`, rising, none within another.
    """
    runs = _RUNS.findall(text) if "<<<" in text or ">>>" in text else ()
    width = max(3, *(len(run) + 1 for run in runs), 0)
    parts, last = [], 0
    for start, end in marks:
        parts += [text[last:start], "<" * width, text[start:end], ">" * width]
        last = end
    return "".join([*parts, text[last:]])


def cited(citations: Sequence[Citation], reply: str) -> tuple[Citation, ...]:
    """The same, those marked as used whose id stands in a reply."""
    return tuple(replace(citation, used=citation.used or citation.id in reply) for citation in citations)


def sources_text(citations: Sequence[Citation]) -> str:
    """What stands under a reply: a line for each citation that is used; empty without any."""
    lines = [
        f"{citation.id}: {citation.source}{_beginning(citation.excerpt)}" for citation in citations if citation.used
    ]
    return "\n\n---\nSources:\n" + "\n".join(lines) if lines else ""


def _beginning(excerpt: str) -> str:
    text = " ".join(excerpt.split())
    end = next((n for n in range(min(EXCERPT, len(text)), 0, -1) if between_characters(text, n)), 0)
    return f" - {text[:end]}..." if end else ""
