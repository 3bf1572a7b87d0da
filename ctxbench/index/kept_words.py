"""Words of items, kept on disk: of a catalog that was searched before, only items that are new are split into words.

What one rule made of the items of a catalog is one sealed file in `words-1` of the cache folder. It is called after
the smallest digest of what they were made of, and looked for under the smallest few: a catalog in which some items
changed has most of these still, and nobody need know what it is called or where it lies.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import nsmallest
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import FloatArray, starts
from ctxbench.core.items import Item
from ctxbench.index.occurrences import CatalogWords, Occurrences, TextHolders
from ctxbench.io.cache import cache_dir, read_sealed, write_sealed

LEAST = 500_000
"""Characters that are worth a file: they take some 0.1 s to split, and 0.01 s to read
(tests/benchmarks/test_codebase.py)."""
EACH = 100
"""So many characters more a text counts for, as 5,000 paths take as long to split."""
MOST_FILES = 32
"""So many are kept, those used last; one has 0.2 to 0.6 bytes for each character of its catalog."""
_FORM = "3"  # goes up with whatever changes the words of an item, of which a test tells, or how they are written
_NAMES = 8  # smallest digests under which a file is looked for
_DIGEST = 32  # bytes


@dataclass(frozen=True, kw_only=True)
class ItemReader:
    """How items are read as words.

    Attributes:
        rule: what words depend on beside the source; of equal rules equal sources have equal words.
        n_fields: that each item has.
        source: what the words of an item are made of.
        words: those of each field of an item.
    """

    rule: str
    n_fields: int
    source: Callable[[Item], str]
    words: Callable[[Item], list[list[str]]]

    def split(self, items: Sequence[Item]) -> tuple[Occurrences, FloatArray]:
        """The words of items, as `read_words` gives them."""
        fields = [field for item in items for field in self.words(item)]
        lengths = np.array([len(field) for field in fields], dtype=np.float64).reshape(len(items), self.n_fields)
        return Occurrences.of_texts(fields, fields=self.n_fields), np.ascontiguousarray(lengths.T)


@dataclass(frozen=True, eq=False)
class KeptWords:
    """The words of some texts.

    Attributes:
        digests: of the texts, distinct.
        occurrences: of words; items are texts, by their places.
        length: words in each field of each text, shape (n_fields, n_texts).
    """

    digests: tuple[bytes, ...]
    occurrences: Occurrences
    length: FloatArray

    def packed(self) -> bytes:
        """As bytes, of which `unpacked` makes the same: a line that tells the arrays, and the arrays.

        Words that no text holds any more are left out, so that they do not gather.
        """
        held, rows = self.occurrences, np.diff(self.occurrences.start)
        used = compress(held.word, rows.tolist())
        words = "\n".join(used).encode("utf-8", "surrogatepass")  # no word holds white space
        texts = [np.frombuffer(text, dtype=np.uint8) for text in (b"".join(self.digests), words)]
        start = starts(rows[rows > 0])
        arrays: list[npt.NDArray[Any]] = [*texts, start, held.item, held.field, held.count, self.length]
        told = json.dumps([(array.dtype.str, array.shape) for array in arrays])
        return b"".join([told.encode(), b"\n", *(array.tobytes() for array in arrays)])

    @classmethod
    def unpacked(cls, data: bytes) -> KeptWords:
        """What `packed` made these bytes of; arrays stay in them."""
        at = data.index(b"\n") + 1
        arrays: list[npt.NDArray[Any]] = []
        for dtype, shape in json.loads(data[:at]):
            array = np.frombuffer(data, np.dtype(dtype), math.prod(shape), at).reshape(shape)
            arrays.append(array)
            at += array.nbytes
        digests, words, start, item, field, count, length = arrays
        text, whole = words.tobytes().decode("utf-8", "surrogatepass"), digests.tobytes()
        number = {word: place for place, word in enumerate(text.split("\n") if text else ())}
        parts = tuple(whole[place : place + _DIGEST] for place in range(0, len(whole), _DIGEST))
        return cls(parts, Occurrences(number, start, item, field, count), length)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self.places

    @cached_property
    def places(self) -> Mapping[bytes, int]:
        """The place of each text by its digest."""
        return {digest: place for place, digest in enumerate(self.digests)}

    def extended(self, more: KeptWords) -> KeptWords:
        """These, and those of texts that are not here."""
        occurrences = self.occurrences.extended(more.occurrences.behind(len(self.digests)))
        length = np.concatenate([self.length, more.length], axis=1)
        return KeptWords((*self.digests, *more.digests), occurrences, length)

    def taken(self, digests: Sequence[bytes]) -> KeptWords:
        """Those of the texts with these digests, in this order; all are here."""
        places = np.array([self.places[digest] for digest in digests], dtype=np.int64)
        return KeptWords(tuple(digests), self.occurrences.taken(places), self.length[:, places])


def read_words(items: Sequence[Item], reader: ItemReader) -> tuple[CatalogWords, FloatArray]:
    """The words of items, from the disk where they are kept; nothing but the time is changed by that.

    Only what is new is split, and kept once it is worth it (`LEAST`); less is not looked for at all. Nothing is
    kept of what was said or remembered, or is one user's, so that it can be forgotten. A file that is damaged, or
    cannot be written, is done without.

    Returns:
        The words, items numbered from 0 on, and how many each field has, shape (n_fields, n_items).
    """
    public = {place: source for place, item in enumerate(items) if _public(item) and (source := reader.source(item))}
    if _weight(public.values()) < LEAST:
        return _joined(len(items), reader, [_split(items, range(len(items)), reader)])
    digests = {place: _digest(items[place], source) for place, source in public.items()}
    texts: dict[bytes, int] = {}  # the first item that holds each
    for place, digest in digests.items():
        texts.setdefault(digest, place)
    folder, names = cache_dir() / "words-1", _names(reader.rule, texts)
    path = next((path for name in names if os.path.exists(path := folder / name)), None)  # noqa: PTH110 - never raises
    data = None if path is None else read_sealed(path)
    known = None if data is None else KeptWords.unpacked(data)
    new = {place: digest for digest, place in texts.items() if known is None or digest not in known}
    more = KeptWords(tuple(new.values()), *reader.split([items[place] for place in new]))
    if _weight(public[place] for place in new) >= LEAST:
        held = more if known is None else known.extended(more)
        _keep(folder / names[0], held if len(held.digests) <= 2 * len(texts) else held.taken([*texts]))
    elif path is not None:
        with suppress(OSError):
            os.utime(path)
    if known is not None and len(known.digests) > 2 * len(texts):  # the index need not hold all of them
        known = known.taken([digest for digest in texts if digest in known])
    others = [place for place in range(len(items)) if place not in public]
    parts = [_held(one, digests) for one in (more, known) if one is not None]
    return _joined(len(items), reader, [*parts, _split(items, others, reader)])


def _weight(texts: Iterable[str]) -> int:
    """What texts come to beside `LEAST`."""
    return sum(len(text) + EACH for text in texts)


_Read = tuple[TextHolders, FloatArray]


def _split(items: Sequence[Item], places: Sequence[int], reader: ItemReader) -> _Read:
    """The words of the items at some places, and their lengths; each is a text of its own."""
    occurrences, length = reader.split([items[place] for place in places])
    return TextHolders(occurrences, np.arange(len(places)), np.array(places, dtype=np.int64)), length


def _held(known: KeptWords, digests: Mapping[int, bytes]) -> _Read:
    """The words of the items whose texts are known, by the digests of items."""
    found = [(place, known.places[digest]) for place, digest in digests.items() if digest in known]
    item, text = np.array(found, dtype=np.int64).reshape(-1, 2).T
    return TextHolders(known.occurrences, text, item), known.length[:, text]


def _joined(n_items: int, reader: ItemReader, parts: Sequence[_Read]) -> tuple[CatalogWords, FloatArray]:
    """The words of all items, and their lengths in the order of items."""
    length = np.zeros((reader.n_fields, n_items))
    for holders, of_part in parts:
        length[:, holders.item] = of_part
    held = [holders for holders, _ in parts if len(holders.text)] or [parts[0][0]]
    return CatalogWords((replace(held[0], item=None),) if len(held) == 1 else tuple(held)), length


def _digest(item: Item, source: str) -> bytes:
    """SHA-256 of a source in UTF-8, which of most long ones is the text of the item."""
    return item.text_digest if source is item.text else hashlib.sha256(source.encode("utf-8", "surrogatepass")).digest()


def _public(item: Item) -> bool:
    if not item.user is item.workspace is item.conversation is None:
        return False  # it may be of a store, which forgets
    return item.type not in ("message", "memory") or item.kind == "commit"


def _names(rule: str, digests: Iterable[bytes]) -> list[str]:
    """What a file may be called, by what the words were made by and some digest of its texts."""
    made_by = hashlib.sha256(f"{_FORM}\0{unicodedata.unidata_version}\0{rule}".encode()).hexdigest()
    return [f"{made_by[:16]}-{digest.hex()[:32]}" for digest in nsmallest(_NAMES, digests)]


def _keep(path: Path, held: KeptWords) -> None:
    """Write a file, and take out those that were not used for the longest time."""
    write_sealed(path, held.packed())
    with suppress(OSError):  # another process may take them out, too
        for old in sorted(path.parent.iterdir(), key=lambda one: -one.stat().st_mtime)[MOST_FILES:]:
            old.unlink()
