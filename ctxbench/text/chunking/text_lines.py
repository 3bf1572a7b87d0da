"""The lines of a text: paragraphs, list items, headings and fenced code, as places in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ctxbench.text.original_rules import JS_WHITESPACE

_LINE = re.compile("[^\r\n\u2028\u2029]*(?:\r\n|[\r\n\u2028\u2029]|$)")
_BLANKS = "".join(sorted(set(JS_WHITESPACE) - set("\r\n\u2028\u2029")))
_MARKER = re.compile(rf"[{_BLANKS}]*(?:[-*+•‣▪·–]|\(?[0-9]{{1,3}}[.)]|\(?[A-Za-z]\))[{_BLANKS}]+(?=[^{JS_WHITESPACE}])")
_HEADING = re.compile(r"#{1,6}[ \t]")
_FENCE = re.compile(rf"[{_BLANKS}]*(`{{3,}}(?=[^`]*$)|~{{3,}})")


@dataclass(frozen=True, slots=True)
class Block:
    """A run of lines that belong together.

    Attributes:
        start, end: places in the text, without white space at the ends.
        body: where the words of a list item begin, behind its marker; else `start`.
        code: fenced code, which no rule looks into.
    """

    start: int
    end: int
    body: int
    code: bool = False


def blocks(text: str, *, joined: bool) -> Iterator[Block]:
    """The blocks of a text, in order; together they hold all of it but white space.

    A blank line ends a block; so does a line that begins a list item (a bullet, `1.`, `1)`, `(a)`; nested ones
    likewise), a heading (`#`) or fenced code (three back-quotes or tildes; to the fence that closes it, else to the
    end of the text).

    Args:
        text: any text.
        joined: whether other lines go on with the block before them, or are blocks of their own.
    """
    start = body = end = -1  # of the block that is open; start < 0: none is
    fence = ""
    for match in _LINE.finditer(text):
        line = match.group().strip(JS_WHITESPACE)
        if not match.group():
            break
        first = match.start() + len(match.group()) - len(match.group().lstrip(JS_WHITESPACE))
        if fence:
            end = first + len(line) if line else end
            if line.startswith(fence) and not line.strip(fence[0]):
                yield Block(start, end, start, code=True)
                start, fence = -1, ""
            continue
        opening, marker = _FENCE.match(line), _MARKER.match(match.group())
        alone = bool(opening or marker or _HEADING.match(line) or not joined)
        if start >= 0 and (alone or not line):
            yield Block(start, end, body)
            start = -1
        if not line:
            continue
        if start < 0:
            start, body = first, match.start() + marker.end() if marker else first
        end = first + len(line)
        if opening:
            fence = opening.group(1)
        elif alone and not marker:
            yield Block(start, end, body)
            start = -1
    if start >= 0:
        yield Block(start, end, start if fence else body, code=bool(fence))
