"""The lexical index: BM25 over search texts, by the bm25s library."""

from __future__ import annotations

import re
import unicodedata

import numpy as np

from ctxbench.arrays import FloatArray
from ctxbench.items import Catalog

_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Runs of letters, digits and the marks on them, case-folded: `create_issue` is two words.

    Text is composed first (NFC), so that both spellings of é are one. Nothing is stemmed or stopped.
    """
    if text.isascii():
        return _WORD.findall(text.lower())
    folded = unicodedata.normalize("NFC", text.casefold())
    return "".join(c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in folded).split()


class Bm25Index:
    """BM25 scores of one catalog's search texts.

    Source: Lucene's variant (Kamphuis et al., ECIR 2020) as implemented by bm25s: idf = ln(1 + (N - n + 0.5) /
    (n + 0.5)), term weight tf / (tf + k1 (1 - b + b * length / mean length)).
    """

    def __init__(self, catalog: Catalog, *, k1: float, b: float) -> None:
        self._n_items = len(catalog)
        tokens = [words(item.search_text) for item in catalog]
        self._index = None
        if any(tokens):
            import bm25s

            self._index = bm25s.BM25(k1=k1, b=b, method="lucene", dtype="float64")
            self._index.index(tokens, show_progress=False)

    def scores(self, text: str) -> FloatArray:
        """Score every item for `text`, shape (n_items,), >= 0; 0 where no word is shared."""
        known = [] if self._index is None else [word for word in words(text) if word in self._index.vocab_dict]
        if self._index is None or not known:
            return np.zeros(self._n_items, dtype=np.float64)
        return np.asarray(self._index.get_scores(known), dtype=np.float64)
