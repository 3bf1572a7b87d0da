"""Where sentences end: the marked rule, as places in a text.

A sentence ends with a run of `.`, `!`, `?` or `…`, with the quotes and brackets that close behind it, before white
space; with `。`, `！` or `？` wherever they stand. It does not end

* inside quotes, brackets or back-quotes of at most 300 characters, nor with them before a small letter (unless they
  hold the whole text);
* at an ellipsis before a small letter;
* at the full stop of an abbreviation (`Dr.`, `e.g.`; `No.` before a number; `Inc.` and `etc.` unless what follows
  looks like a new sentence), of an initial (`J. R. Smith`), of letters with stops (`U.S.`) or of the number that
  numbers a sentence (`1. Open it.`).

No stop without white space behind it counts, so decimals, versions, file names and addresses stay whole. A small
letter may begin a sentence: people write requests like that. What goes wrong: German ordinals (`am 5. Mai`), a
sentence that ends in an initial before a name (`Take vitamin C. Ann agrees.` is one), and what is not
listed.

Source: ours, after the cases of Read et al., "Sentence Boundary Detection: A Long Solved Problem?", COLING 2012.
Of 26 cases of requests (tests/text/chunking/test_sentences.py) pysbd 0.3.4 splits 24 right, sentencex 1.0.32 23,
blingfire 0.1.8 18, syntok 1.4.4 14; pysbd takes 15 s for 0.1 MB, and none of them knows list items or fenced code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from ctxbench.text.original_rules import JS_WHITESPACE

_END = re.compile(rf"""(?<![.!?…])[.!?…]++["'”’»)\]*_`]*+(?=[{JS_WHITESPACE}])|[。！？｡]++["”’」』）]*+""")
_CLOSED = re.compile(
    r"""`[^`]{1,300}`|"[^"]{1,300}"|“[^“”]{1,300}”|«[^«»]{1,300}»|(?<!\w)'[^'\n]{1,300}'(?!\w)"""
    r"""|\([^()]{1,300}\)|\[[^\[\]]{1,300}\]"""
)
_NEXT = re.compile(rf"""[{JS_WHITESPACE}"'“‘«(\[*_`]*""")
_WORD = re.compile(r"[^\W\d_]*")


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_BEFORE = 24  # characters looked at before a stop; abbreviations are shorter
_LETTERS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")

_NEVER = _listed(
    "mr mrs ms mx dr prof rev hon gen col capt lt sgt st mt gov sen rep messrs mme mlle e.g i.e eg ie vs cf viz approx "
    "ca incl excl resp esp z.b d.h u.a bzw ggf evtl inkl"
)
_BEFORE_NUMBERS = _listed(
    "no nos nr fig figs sec secs ch chap p pp vol vols art arts par acct ver v ext tel eq eqs ref jan feb mar apr jun "
    "jul aug sep sept oct nov dec"
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
    word = _word_before(text, first, mark.start())
    if word.isdigit() and not text[first : mark.start() - len(word)].strip(JS_WHITESPACE + "("):
        return False
    return _ends_after(word, follows, text, position)


def _ends_after(word: str, follows: str, text: str, position: int) -> bool:
    """Whether a full stop behind `word` ends a sentence, before what stands at `place`."""
    low = word.lower()
    if low in _NEVER:
        return False
    if low in _BEFORE_NUMBERS:
        return not follows.isdigit()
    if low in _BEFORE_CAPITALS:
        return follows.isupper()
    initial = len(word) == 1 and word.isupper() and word != "I"
    if low in _NAMES or initial or _LETTERS.fullmatch(word):
        follower = cast("re.Match[str]", _WORD.match(text, position, position + _BEFORE))
        return follows.isupper() and follower.group().lower() in _STARTERS
    return True


def _word_before(text: str, first: int, stop: int) -> str:
    """The word that ends at `stop`, without what opens before it."""
    words = re.split(rf"[{JS_WHITESPACE}]", text[max(first, stop - _BEFORE) : stop])
    return words[-1].lstrip("\"'“‘«([{*_`")


def _skipped(text: str, position: int, end: int) -> int:
    """The first place from `place` on that holds no white space."""
    while position < end and text[position] in JS_WHITESPACE:
        position += 1
    return position
