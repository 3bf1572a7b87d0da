"""How texts are split into chunks: the rules of the documents' search engine, exactly.

White space is JavaScript's and lengths are UTF-16 code units, because the original engine runs on JavaScript
strings. A sentence end is a run of `.`, `!` or `?` followed by white space; splitting removes the run and the
white space. So "e.g. a" is two sentences, and "2.4" is one.

Source: the documents' engine as observed; `tests/fixtures/desk/README.md` puts the rules into words, and its
`chunks.json` holds what the engine answered to 379 texts.
"""

from __future__ import annotations

import re

from ctxbench.core.errors import ParameterError

CHUNK_LIMIT = 500
"""Length of a chunk in UTF-16 units, as the original engine has it."""

JS_WHITESPACE = (
    "\t\n\v\f\r "
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What JavaScript's `\\s` and `trim()` take for white space (ECMAScript: WhiteSpace and LineTerminator).

Python's own notion differs: it takes U+001C to U+001F and U+0085 for white space, and U+FEFF not.
"""

_SPACE = f"[{JS_WHITESPACE}]"
_BLANK_LINE = re.compile(rf"\n{_SPACE}*\n")
# The lookbehind changes no match (the leftmost match always begins where a run begins); without it, a long
# run that no white space follows costs quadratic time.
_SENTENCE_END = re.compile(rf"(?<![.!?])[.!?]++{_SPACE}+")


def js_trim(text: str) -> str:
    """Return `text` without JavaScript's white space at both ends."""
    return text.strip(JS_WHITESPACE)


def utf16_len(text: str) -> int:
    """Return the length of `text` in UTF-16 code units: 2 for a character above U+FFFF, else 1."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def item_chunks(text: str, *, limit: int = CHUNK_LIMIT) -> list[str]:
    """Split the search text of a rule or reference into chunks, in order; a tool's text is not split at all.

    The text is split at blank lines, and blank paragraphs are dropped. A paragraph of at most `limit` units,
    counted before trimming, becomes one chunk, trimmed. A longer one is split into sentences, which lose
    their ends; they are packed, joined by single blanks, while length so far + length of the sentence before
    trimming + 1 is at most `limit`. A sentence longer than that is a chunk of its own, whole.

    Args:
        text: any text; lone surrogates are allowed.
        limit: UTF-16 units, >= 1.

    Returns:
        At least one chunk. Where nothing else is left (the text is empty or blank, or too long and made only
        of sentence ends), that is `text` itself, untrimmed; no other chunk is blank.

    Raises:
        ParameterError: `limit` is below 1.
    """
    _check_limit(limit)
    chunks: list[str] = []
    for paragraph in _BLANK_LINE.split(text):
        trimmed = js_trim(paragraph)
        if not trimmed:
            continue
        if _fits(paragraph, limit):
            chunks.append(trimmed)
        else:
            chunks.extend(_packed_sentences(paragraph, limit))
    return chunks or [text]


def query_chunks(text: str, *, limit: int = CHUNK_LIMIT) -> list[str]:
    """Split a query into its sentences, in order, repeated ones included.

    The untrimmed text is split at sentence ends; blank pieces are dropped, the others trimmed and cut to
    their first `limit` units. The cut end is not trimmed again, and may be half a surrogate pair.

    Args:
        text: any text; lone surrogates are allowed.
        limit: UTF-16 units, >= 1.

    Returns:
        One chunk a sentence; empty where nothing is left ("", "  ", "?! ").

    Raises:
        ParameterError: `limit` is below 1.
    """
    _check_limit(limit)
    trimmed = (js_trim(piece) for piece in _SENTENCE_END.split(text))
    return [_first_units(piece, limit) for piece in trimmed if piece]


def _packed_sentences(paragraph: str, limit: int) -> list[str]:
    """Split a long paragraph at sentence ends and pack the sentences; empty if none is left."""
    chunks: list[str] = []
    current: list[str] = []
    length = 0  # UTF-16 units of `current`, joined
    for sentence in _SENTENCE_END.split(paragraph):
        trimmed = js_trim(sentence)
        if not trimmed:
            continue
        if current and length + utf16_len(sentence) + 1 > limit:
            chunks.append(" ".join(current))
            current, length = [], 0
        length += utf16_len(trimmed) + (1 if current else 0)
        current.append(trimmed)
    if current:
        chunks.append(" ".join(current))
    return chunks


def _fits(text: str, limit: int) -> bool:
    """Whether `text` has at most `limit` UTF-16 units; encodes it only where its length leaves that open."""
    count = len(text)
    return count <= limit and (2 * count <= limit or utf16_len(text) <= limit)


def _first_units(text: str, limit: int) -> str:
    """Return the first `limit` UTF-16 units of `text`; a pair that the cut splits leaves its first half."""
    if _fits(text, limit):
        return text
    units = text[:limit].encode("utf-16-le", "surrogatepass")
    return units[: 2 * limit].decode("utf-16-le", "surrogatepass")


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise ParameterError(f"limit must be at least 1 UTF-16 unit, got {limit}")
