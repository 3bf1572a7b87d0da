"""Split texts into chunks: sentences, clauses, windows, paragraphs, or the whole text; chunks of items.

`query_chunks` and `item_chunks` equal the original engine: white space is JavaScript's, lengths are UTF-16 code units,
and a sentence ends with a run of `.`, `!` or `?` before white space; both are removed. So "e.g. a" is two sentences,
"2.4" is one. Source: the engine as observed; `tests/fixtures/desk/README.md` describes the rules, and its `chunks.json`
has the engine's chunks of 379 texts.

`sentences` is the rule of `marked`. A sentence ends with a run of `.`, `!`, `?` or `…` and the closing quotes and
brackets after it, before white space; or with `。`, `！` or `？` anywhere. It does not end

* inside quotes, brackets or back-quotes of at most 300 characters, nor with them before a small letter (unless they
  hold the whole text);
* at an ellipsis before a small letter;
* at the full stop of an abbreviation (`Dr.`, `e.g.`; `No.` before a number; `Inc.` and `etc.` unless a new sentence
  seems to follow), of an initial (`J. R. Smith`), of letters with stops (`U.S.`) or of the number of a sentence (`1.
  Open it.`).

A stop without white space after it does not count, so decimals, versions, file names and addresses stay whole. A small
letter may begin a sentence, as in many requests. Known errors: German ordinals (`am 5. Mai`), a sentence that ends in
an initial before a name (`Take vitamin C. Ann agrees.` is one), and abbreviations that are not listed. Source: ours,
after Read et al., "Sentence Boundary Detection: A Long Solved Problem?", COLING 2012. Of 26 cases of requests
(`tests/search/chunking/test_sentences.py`) pysbd 0.3.4 splits 24 correctly, sentencex 1.0.32 23, blingfire 0.1.8 18,
syntok 1.4.4 14; pysbd takes 15 s for 0.1 MB, and none of them handles list items or fenced code.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from ctxbench.io.errors import ParameterError, UserError, check_range
from ctxbench.model import registry
from ctxbench.model.items import Item

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
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def has_longer_piece(text: str, separator: str, limit: int) -> bool:
    """Whether a piece between separators has more characters than `limit`; looks at few places only.

    To split the text would take twenty times as long.
    """
    start = 0
    while start + limit < len(text):
        end = text.rfind(separator, start, start + limit + 1)
        if end < 0:
            return True
        start = end + 1
    return False


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


Rule: TypeAlias = Callable[[str], list[str]]
RuleSpec: TypeAlias = str | Mapping[str, Any]


def chunk_rule(spec: RuleSpec, *, parameter: str) -> Rule:
    """Make a rule from its name, or `{name: parameters}`.

    Args:
        spec: as a step of a pipeline is named.
        parameter: what a message calls it.

    Raises:
        ParameterError: there is no such rule, or a parameter does not suit it.
    """
    named: Mapping[str, Any] = {spec: None} if isinstance(spec, str) else spec
    name, parameters = next(iter(named.items()), ("", None))
    parameters = {} if parameters is None else parameters
    if len(named) != 1 or not isinstance(name, str) or not isinstance(parameters, Mapping):
        raise ParameterError(
            f"{parameter} must be a rule by name, or one name with its parameters such as {{windows: {{size: 40}}}}, "
            f"got {spec!r}"
        )
    try:
        rule: Rule = registry.build("chunk", name, parameters)
    except UserError as error:
        raise ParameterError(f"{parameter}: {error}") from error
    return rule


@dataclass(frozen=True)
class LimitedRule:
    """A rule whose chunks have a greatest length, `limit`, >= 1."""

    limit: int = CHUNK_LIMIT

    def __post_init__(self) -> None:
        check_range("limit", self.limit, 1)


@dataclass(frozen=True)
class SentenceRule(LimitedRule):
    """The original's sentences of a request: ends lost, the rest of a long one lost (`query_chunks`).

    Attributes:
        limit: UTF-16 units after which a sentence is cut, >= 1.

    A blank text has no chunk. Cost: linear in the text. Source: the specification, "Query Chunking".
    """

    def __call__(self, text: str) -> list[str]:
        """Split a text."""
        return query_chunks(text, limit=self.limit)


@dataclass(frozen=True)
class Paragraphs(LimitedRule):
    """The original's chunks of an item: paragraphs, long ones as packed sentences (`item_chunks`).

    Attributes:
        limit: UTF-16 units of a chunk, >= 1; a longer sentence stays whole.

    A blank text has no chunk. Cost: linear in the text. Source: the specification, "Content Chunking".
    """

    def __call__(self, text: str) -> list[str]:
        """Split a text."""
        return item_chunks(text, limit=self.limit) if js_trim(text) else []


@dataclass(frozen=True)
class WholeRule:
    """The whole text as one chunk; what an embedding model cannot read of it is the model's to cut.

    A blank text has no chunk. Cost: none. Source: the usual practice of dense retrieval.
    """

    def __call__(self, text: str) -> list[str]:
        """Take a text as it is."""
        return [text] if js_trim(text) else []


_END = re.compile(rf"""(?<![.!?…])[.!?…]++["'”’»)\]*_`]*+(?=[{JS_WHITESPACE}])|[。！？｡]++["”’」』）]*+""")
_CLOSED = re.compile(
    r"""`[^`]{1,300}`|"[^"]{1,300}"|“[^“”]{1,300}”|«[^«»]{1,300}»|(?<!\w)'[^'\n]{1,300}'(?!\w)"""
    r"""|\([^()]{1,300}\)|\[[^\[\]]{1,300}\]"""
)
_NEXT = re.compile(rf"""[{JS_WHITESPACE}"'“‘«(\[*_`]*""")
_ONLY_LETTERS = re.compile(r"[^\W\d_]*")


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_BEFORE = 24  # characters looked at before a stop; abbreviations are shorter
_LETTERS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")

_NEVER = _listed(
    "mr mrs ms mx dr prof rev hon gen col capt lt sgt st mt gov sen rep messrs mme mlle e.g i.e eg ie vs cf "
    "viz approx ca incl excl resp esp z.b d.h u.a bzw ggf evtl inkl"
)
_BEFORE_NUMBERS = _listed(
    "no nos nr fig figs sec secs ch chap p pp vol vols art arts par acct ver v ext tel eq eqs ref jan feb "
    "mar apr jun jul aug sep sept oct nov dec"
)
_BEFORE_CAPITALS = _listed("etc usw a.m p.m")
_NAMES = _listed("inc ltd co corp llc bros gmbh jr sr al dept univ")
_STARTERS = _listed(
    "a after also an and are as at ask be but call can check could create delete did do does find finally first for "
    "from get give has have he how i if in is it let list look make my next now of on open or our please read remove "
    "run search send she should show so tell that the their then there these they this those to use was we were what "
    "when where which who why will with would write you your"
)


def sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The sentences between two places of a text, as places without white space at their ends, in order.

    Together they hold all of it but white space. Cost: linear in the text.
    """
    first = _skipped(text, start, end)
    closed = iter(closed_spans(text, start, end))
    opens, closes = next(closed, (end, end))
    for mark in _END.finditer(text, start, end):
        while opens < end and closes <= mark.start():
            opens, closes = next(closed, (end, end))
        inside = opens < mark.start()
        if inside and mark.end() < closes:
            continue
        if _ends(text, mark, first, inside=inside):
            yield first, mark.end()
            first = _skipped(text, mark.end(), end)
    last = len(text[first:end].rstrip(JS_WHITESPACE)) + first
    if last > first:
        yield first, last


def closed_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Quotes, brackets and back-quotes that are opened and closed between two places, in order.

    One that holds everything between the two is none: people send whole requests in quotes.
    """
    spans = [match.span() for match in _CLOSED.finditer(text, start, end)]
    return closed_spans(text, start + 1, end - 1) if spans == [(start, end)] else spans


def _ends(text: str, mark: re.Match[str], first: int, *, inside: bool) -> bool:
    """Whether a sentence that began at `first` ends with this mark, which may close quotes or brackets."""
    if mark.group()[0] in "。！？｡":
        return True
    position = cast("re.Match[str]", _NEXT.match(text, mark.end())).end()
    follows = text[position : position + 1]
    if inside:
        return not follows.islower()
    run = mark.group().rstrip("\"'”’»)]*_`")
    if "!" in run or "?" in run:
        return True
    if len(run) > 1 or run == "…":
        return not follows.islower()
    before = re.split(rf"[{JS_WHITESPACE}]", text[max(first, mark.start() - _BEFORE) : mark.start()])
    word = before[-1].lstrip("\"'“‘«([{*_`")
    if word.isdigit() and not text[first : mark.start() - len(word)].strip(JS_WHITESPACE + "("):
        return False
    return _ends_after(word, follows, text, position)


def _ends_after(word: str, follows: str, text: str, position: int) -> bool:
    """Whether a full stop after `word` ends a sentence, given the text at `place`."""
    low = word.lower()
    if low in _NEVER:
        return False
    if low in _BEFORE_NUMBERS:
        return not follows.isdigit()
    if low in _BEFORE_CAPITALS:
        return follows.isupper()
    initial = len(word) == 1 and word.isupper() and word != "I"
    if low in _NAMES or initial or _LETTERS.fullmatch(word):
        follower = cast("re.Match[str]", _ONLY_LETTERS.match(text, position, position + _BEFORE))
        return follows.isupper() and follower.group().lower() in _STARTERS
    return True


def _skipped(text: str, position: int, end: int) -> int:
    """The first place from `place` on that holds no white space."""
    while position < end and text[position] in JS_WHITESPACE:
        position += 1
    return position


@dataclass(frozen=True)
class ItemChunking:
    """The chunks of an item's search text, or of that and what the model loads on demand.

    Attributes:
        rule: splits the text; an item for which it finds no chunk is one chunk as it is.
        split_tools: whether it splits the texts of tools, too; else a tool is one chunk, never trimmed.
        bodies: whether the body of a skill is searched, too, behind its name and description.
    """

    rule: Rule = Paragraphs()
    split_tools: bool = False
    bodies: bool = field(default=False, repr=False)  # stored graphs are kept by what `DOCUMENTS` is printed as

    def __call__(self, item: Item) -> tuple[str, ...]:
        """The chunks of an item, at least one."""
        if item.type == "tool" and not self.split_tools:
            return (item.search_text,)
        text = searched(item, bodies=self.bodies)
        return tuple(self.rule(text)) or (text,)

    @property
    def over(self) -> tuple[str, ...]:
        """The attributes of an item that its chunks depend on, and what names it where one cannot be embedded."""
        return ("type", "server", "name", "search_text", *(("body",) if self.bodies else ()))

    @classmethod
    def described(cls, step: Mapping[str, Any]) -> ItemChunking | None:
        """The chunking of a retriever from its description; None where it has no parameter `chunks`."""
        if "chunks" not in step:
            return None
        return cls(chunk_rule(step["chunks"], parameter="chunks"), step["split_tools"], step.get("bodies", False))


def searched(item: Item, *, bodies: bool, parameters: bool = False) -> str:
    """The search text of an item, and if asked for the body of a skill and the parameters of a tool."""
    parts = [item.body if bodies else ""]
    if parameters:
        parts += [f"{name} {description}".strip() for name, description in parameters_of(item.schema)]
    return "\n\n".join([item.search_text, *filter(None, parts)])


DOCUMENTS = ItemChunking()
"""The specification's chunking: paragraphs, tools whole."""

_NAMED = ("properties", "patternProperties", "$defs", "definitions")  # keywords of JSON Schema: names to schemas
_NESTED = ("items", "prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf", "not", "if", "then", "else")


def parameters_of(schema: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """The name and the description of each parameter in a JSON schema, in its order, at every depth.

    A part without a name or without a description has an empty one. The schema's own description is of no parameter.
    """
    left: list[tuple[str, object]] = [("", schema)]
    while left:
        name, node = left.pop()
        fields: Mapping[str, Any] = node if isinstance(node, Mapping) else {}
        description = fields.get("description")
        yield name, description if node is not schema and isinstance(description, str) else ""
        below: list[tuple[str, object]] = []
        for key, value in fields.items():
            if key in _NAMED and isinstance(value, Mapping):
                below += [(str(inner), value[inner]) for inner in value]
            elif key in _NESTED:
                below += [("", inner) for inner in (value if isinstance(value, list) else [value])]
        left += reversed(below)


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
# A joint begins where a run of white space does, and gives none of it back: long runs take no quadratic time.
_JOINT = re.compile(
    rf"""(?<!{_SPACE})(?:
    {_SPACE}*+;{_SPACE}++(?:(?:and|then)\b{_SPACE}++)*+
    |(?:{_SPACE}*+,)?{_SPACE}++(?:and|&){_SPACE}++(?:then|also|next|finally|afterwards|after[ ]that)\b,?
    |{_SPACE}*+,{_SPACE}++(?:then|and|but|or|plus|so)\b
    |{_SPACE}++(?:then|as[ ]well[ ]as|in[ ]addition[ ]to)\b
    |{_SPACE}++[–—]{_SPACE}++
    |{_SPACE}++(?:\([0-9a-z]\)|[0-9]{{1,2}}\))(?={_SPACE}))""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True)
class Marked(LimitedRule):
    """Sentences with their marks, not split at abbreviations, numbers, names or quotes; nothing is lost.

    Attributes:
        limit: characters after which a sentence, or fenced code, is divided at white space, >= 1.

    List items, headings and fenced code begin chunks of their own; code is not looked into. A chunk without a
    letter, digit or symbol joins the one before it. A text without any has no chunk. Cost: linear in the text.
    Source: ours; the module has the rule in words, and what other programs make of its cases.
    """

    def __call__(self, text: str) -> list[str]:
        """Split a text."""

        def split(block: Block) -> list[Span]:
            (_, end), *further = list(sentences(text, block.body, block.end)) or [(block.body, block.end)]
            return [(block.start, end), *further]

        return _chunks(text, split, joined=True, limit=self.limit)


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

        def split(block: Block) -> Iterator[Span]:
            for start, end in sentences(text, block.body, block.end):
                yield from self._clauses(text, start, end)

        return _chunks(text, split, joined=False, limit=self.limit)

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


def _chunks(text: str, split: Callable[[Block], Iterable[Span]], *, joined: bool, limit: int) -> list[str]:
    """The chunks of a text, each block divided by `split`; fenced code is one. `joined` is as of `blocks`."""
    spans = (
        span
        for block in blocks(text, joined=joined)
        for span in ([(block.start, block.end)] if block.code else split(block))
    )
    pieces = (part for span in _telling(text, spans) for part in _divided(text, span, limit))
    return [text[start:end] for start, end in pieces]


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
    """Whether there are fewer than `n_words` words."""
    return sum(1 for _, _ in zip(range(n_words), _NOT_BLANK.finditer(text, *span), strict=False)) < n_words
