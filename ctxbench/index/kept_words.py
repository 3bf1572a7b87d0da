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
        occurrences, rows = self.occurrences, np.diff(self.occurrences.start)
        used = compress(occurrences.word, rows.tolist())
        words = "\n".join(used).encode("utf-8", "surrogatepass")  # no word holds white space
        texts = [np.frombuffer(text, dtype=np.uint8) for text in (b"".join(self.digests), words)]
        start = starts(rows[rows > 0])
        arrays: list[npt.NDArray[Any]] = [
            *texts,
            start,
            occurrences.item,
            occurrences.field,
            occurrences.count,
            self.length,
        ]
        header = json.dumps([(array.dtype.str, array.shape) for array in arrays])
        return b"".join([header.encode(), b"\n", *(array.tobytes() for array in arrays)])

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
        text, digest_bytes = words.tobytes().decode("utf-8", "surrogatepass"), digests.tobytes()
        number = {word: row for row, word in enumerate(text.split("\n") if text else ())}
        parts = tuple(
            digest_bytes[start_byte : start_byte + _DIGEST] for start_byte in range(0, len(digest_bytes), _DIGEST)
        )
        return cls(parts, Occurrences(number, start, item, field, count), length)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self.row_of

    @cached_property
    def row_of(self) -> Mapping[bytes, int]:
        """The place of each text by its digest."""
        return {digest: row for row, digest in enumerate(self.digests)}

    def extended(self, added: KeptWords) -> KeptWords:
        """These, and those of texts that are not here."""
        occurrences = self.occurrences.extended(added.occurrences.shifted_by(len(self.digests)))
        length = np.concatenate([self.length, added.length], axis=1)
        return KeptWords((*self.digests, *added.digests), occurrences, length)

    def select_texts(self, digests: Sequence[bytes]) -> KeptWords:
        """Those of the texts with these digests, in this order; all are here."""
        rows = np.array([self.row_of[digest] for digest in digests], dtype=np.int64)
        return KeptWords(tuple(digests), self.occurrences.renumbered(rows), self.length[:, rows])


def read_words(items: Sequence[Item], reader: ItemReader) -> tuple[CatalogWords, FloatArray]:
    """The words of items, from the disk where they are kept; nothing but the time is changed by that.

    Only what is new is split, and kept once it is worth it (`LEAST`); less is not looked for at all. Nothing is
    kept of what was said or remembered, or is one user's, so that it can be forgotten. A file that is damaged, or
    cannot be written, is done without.

    Returns:
        The words, items numbered from 0 on, and how many each field has, shape (n_fields, n_items).
    """
    public = {
        position: source for position, item in enumerate(items) if _public(item) and (source := reader.source(item))
    }
    if _weight(public.values()) < LEAST:
        return _joined(len(items), reader, [_split(items, range(len(items)), reader)])
    digests = {position: _digest(items[position], source) for position, source in public.items()}
    texts: dict[bytes, int] = {}  # the first item that holds each
    for position, digest in digests.items():
        texts.setdefault(digest, position)
    folder, names = cache_dir() / "words-1", _names(reader.rule, texts)
    path = next((path for name in names if os.path.exists(path := folder / name)), None)  # noqa: PTH110 - never raises
    data = None if path is None else read_sealed(path)
    stored = None if data is None else KeptWords.unpacked(data)
    new = {position: digest for digest, position in texts.items() if stored is None or digest not in stored}
    added = KeptWords(tuple(new.values()), *reader.split([items[position] for position in new]))
    if _weight(public[position] for position in new) >= LEAST:
        merged = added if stored is None else stored.extended(added)
        _keep(folder / names[0], merged if len(merged.digests) <= 2 * len(texts) else merged.select_texts([*texts]))
    elif path is not None:
        with suppress(OSError):
            os.utime(path)
    if stored is not None and len(stored.digests) > 2 * len(texts):  # the index need not hold all of them
        stored = stored.select_texts([digest for digest in texts if digest in stored])
    private = [position for position in range(len(items)) if position not in public]
    parts = [_holders(words, digests) for words in (added, stored) if words is not None]
    return _joined(len(items), reader, [*parts, _split(items, private, reader)])


def _weight(texts: Iterable[str]) -> int:
    """What texts come to beside `LEAST`."""
    return sum(len(text) + EACH for text in texts)


_Read = tuple[TextHolders, FloatArray]


def _split(items: Sequence[Item], positions: Sequence[int], reader: ItemReader) -> _Read:
    """The words of the items at some places, and their lengths; each is a text of its own."""
    occurrences, length = reader.split([items[position] for position in positions])
    return TextHolders(occurrences, np.arange(len(positions)), np.array(positions, dtype=np.int64)), length


def _holders(words: KeptWords, digests: Mapping[int, bytes]) -> _Read:
    """The words of the items whose texts are known, by the digests of items."""
    pairs = [(position, words.row_of[digest]) for position, digest in digests.items() if digest in words]
    item, text = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return TextHolders(words.occurrences, text, item), words.length[:, text]


def _joined(n_items: int, reader: ItemReader, parts: Sequence[_Read]) -> tuple[CatalogWords, FloatArray]:
    """The words of all items, and their lengths in the order of items."""
    length = np.zeros((reader.n_fields, n_items))
    for holders, of_part in parts:
        length[:, holders.item] = of_part
    with_texts = [holders for holders, _ in parts if len(holders.text)] or [parts[0][0]]
    return CatalogWords((replace(with_texts[0], item=None),) if len(with_texts) == 1 else tuple(with_texts)), length


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


def _keep(path: Path, words: KeptWords) -> None:
    """Write a file, and take out those that were not used for the longest time."""
    write_sealed(path, words.packed())
    with suppress(OSError):  # another process may take them out, too
        for old in sorted(path.parent.iterdir(), key=lambda file: -file.stat().st_mtime)[MOST_FILES:]:
            old.unlink()
