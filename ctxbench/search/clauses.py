"""Split texts into clauses, windows and marked sentences, line by line."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ctxbench.io.errors import ParameterError, check_range
from ctxbench.search.chunking import CHUNK_LIMIT, JS_WHITESPACE, LimitedRule, closed_spans, sentences

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


Span: TypeAlias = tuple[int, int]

_NOT_BLANK = re.compile(f"[^{JS_WHITESPACE}]+")
_ALNUM = re.compile(r"[^\W_]")
_GAP = f"[{JS_WHITESPACE}]"
# A joint begins where a run of white space does, and gives none of it back: long runs take no quadratic time.
_JOINT = re.compile(
    rf"""(?<!{_GAP})(?:
    {_GAP}*+;{_GAP}++(?:(?:and|then)\b{_GAP}++)*+
    |(?:{_GAP}*+,)?{_GAP}++(?:and|&){_GAP}++(?:then|also|next|finally|afterwards|after[ ]that)\b,?
    |{_GAP}*+,{_GAP}++(?:then|and|but|or|plus|so)\b
    |{_GAP}++(?:then|as[ ]well[ ]as|in[ ]addition[ ]to)\b
    |{_GAP}++[–—]{_GAP}++
    |{_GAP}++(?:\([0-9a-z]\)|[0-9]{{1,2}}\))(?={_GAP}))""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True)
class Marked(LimitedRule):
    """Sentences with their marks, not split at abbreviations, numbers, names or quotes; nothing is lost.

    Attributes:
        limit: characters after which a sentence, or fenced code, is divided at white space, >= 1.

    List items, headings and fenced code begin chunks of their own; code is not looked into. A chunk without a
    letter, digit or symbol joins the one before it. A text without any has no chunk. Cost: linear in the text.
    Source: ours; `ctxbench.search.chunking` has the rule in words, and what other programs make of its cases.
    """

    def __call__(self, text: str) -> list[str]:
        """Split a text."""
        spans: list[Span] = []
        for block in blocks(text, joined=True):
            if block.code:
                spans.append((block.start, block.end))
                continue
            sentence_spans = list(sentences(text, block.body, block.end)) or [(block.body, block.end)]
            spans += [(block.start, sentence_spans[0][1]), *sentence_spans[1:]]
        pieces = (part for span in _telling(text, spans) for part in _divided(text, span, self.limit))
        return [text[start:end] for start, end in pieces]


@dataclass(frozen=True)
class ClauseRule:
    """Clauses and list items: sentences split further at semicolons, "and then" and the like, and line ends.

    Attributes:
        shortest: words; a clause of fewer joins the one before it in its sentence, so that "salt, and pepper" stays
            whole, >= 1.
        limit: characters after which a clause is divided at white space, >= 1.

    What joins two clauses and the markers of list items are lost. Nothing is split inside quotes, brackets or fenced
    code. A text without a letter, digit or symbol has no chunk. Cost: linear in the text. Source: ours.
    """

    shortest: int = 3
    limit: int = CHUNK_LIMIT

    def __post_init__(self) -> None:
        check_range("shortest", self.shortest, 1)
        check_range("limit", self.limit, 1)

    def __call__(self, text: str) -> list[str]:
        """Split a text."""
        spans: list[Span] = []
        for block in blocks(text, joined=False):
            if block.code:
                spans.append((block.start, block.end))
                continue
            for start, end in sentences(text, block.body, block.end):
                spans += self._clauses(text, start, end)
        pieces = (part for span in _telling(text, spans) for part in _divided(text, span, self.limit))
        return [text[start:end] for start, end in pieces]

    def _clauses(self, text: str, start: int, end: int) -> Iterator[Span]:
        """The clauses of one sentence."""
        closed = iter([*closed_spans(text, start, end), (end, end)])
        span, first = next(closed), start
        pieces: list[Span] = []
        for joint in _JOINT.finditer(text, start, end):
            while span[1] <= joint.start() and span[0] < end:
                span = next(closed)
            if joint.start() >= span[0] and span[0] < end:
                continue
            pieces.append((first, joint.start()))
            first = joint.end()
        pieces.append((first, end))
        joined: list[Span] = []
        for piece in pieces:
            short = _fewer_words(text, piece, self.shortest)
            if joined and (short or _fewer_words(text, joined[-1], self.shortest)):
                joined[-1] = (joined[-1][0], piece[1])
            else:
                joined.append(piece)
        return (_stripped(text, piece) for piece in joined)


@dataclass(frozen=True)
class WindowRule:
    """Windows of equal size that overlap, from word to word, whatever the sentences.

    Attributes:
        size: of a window in words, >= 1.
        overlap: how many words of a window are in the next one, too, >= 0, less than `size`.

    A blank text has no chunk; one of at most `size` is one. Cost: linear in the text, times size / (size - overlap).
    Source: the usual practice of passage retrieval, for example Callan, "Passage-Level Evidence", SIGIR 1994.
    """

    size: int = 64
    overlap: int = 16

    def __post_init__(self) -> None:
        check_range("size", self.size, 1)
        if not 0 <= self.overlap < self.size:
            raise ParameterError(f"overlap must be 0 to {self.size - 1}, less than size, got {self.overlap}")

    def __call__(self, text: str) -> list[str]:
        """Split a text."""
        words = [match.span() for match in _NOT_BLANK.finditer(text)]
        step, n = self.size - self.overlap, max(len(words) - self.overlap, min(len(words), 1))
        windows = (words[first : first + self.size] for first in range(0, n, step))
        return [text[window[0][0] : window[-1][1]] for window in windows]


def _telling(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """The spans; one without a letter, digit or symbol joins the previous one, or else the next."""
    pending: Span | None = None
    has_content = False
    for start, end in spans:
        is_informative = tells_something(text[start:end])
        if pending is None:
            pending, has_content = (start, end), is_informative
        elif is_informative and has_content:
            yield pending
            pending = (start, end)
        else:
            pending, has_content = (pending[0], end), has_content or is_informative
    if pending is not None and has_content:
        yield pending


def tells_something(text: str) -> bool:
    """Whether there is a letter, a digit or a symbol in it, and not punctuation and white space alone."""
    return _ALNUM.search(text) is not None or any(unicodedata.category(char)[0] in "LNSM" for char in text)


def _divided(text: str, span: Span, limit: int) -> Iterator[Span]:
    """A span in parts of at most `limit` characters, between words where one ends in the second half of a part."""
    start, end = span
    while end - start > limit:
        cut = start + limit
        at = next((at for at in range(cut, start + limit // 2 - 1, -1) if text[at] in JS_WHITESPACE), cut)
        yield _stripped(text, (start, at))
        start = _stripped(text, (at, end))[0]
    yield start, end


def _stripped(text: str, span: Span) -> Span:
    """A span without white space at its ends."""
    start, end = span
    while start < end and text[start] in JS_WHITESPACE:
        start += 1
    while end > start and text[end - 1] in JS_WHITESPACE:
        end -= 1
    return start, end


def _fewer_words(text: str, span: Span, n_words: int) -> bool:
    """Whether there are fewer than `least` words."""
    return sum(1 for _, _ in zip(range(n_words), _NOT_BLANK.finditer(text, *span), strict=False)) < n_words
