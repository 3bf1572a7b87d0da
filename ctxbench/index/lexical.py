"""The lexical index: BM25 over search texts, by the bm25s library."""

from __future__ import annotations

import logging
import re
import unicodedata

import numpy as np

from ctxbench.arrays import BoolArray, FloatArray
from ctxbench.items import Catalog

VARIANTS = ("lucene", "robertson", "bm25+")  # as bm25s names them

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
    """BM25 scores of one catalog's search texts, computed by bm25s.

    With N items, n of them with the term, tf times in an item, and L = 1 - b + b * length / mean length, a term adds

    * `lucene`: ln(1 + (N - n + 0.5) / (n + 0.5)) * tf / (tf + k1 L);
    * `robertson`: ln((N - n + 0.5) / (n + 0.5)), at least 0, * tf / (tf + k1 L). Times k1 + 1 it is BM25Okapi of
      rank-bm25, which gives words that stand in half of the items or more another floor;
    * `bm25+`: ln((N + 1) / n) * (1 + tf (k1 + 1) / (tf + k1 L)), BM25Plus of rank-bm25.

    Source: Kamphuis et al., ECIR 2020.
    """

    def __init__(self, catalog: Catalog, *, k1: float, b: float, variant: str = "lucene") -> None:
        self._n_items = len(catalog)
        tokens = [words(item.search_text) for item in catalog]
        self._index = None
        if any(tokens):
            import bm25s

            logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets DEBUG, which a user's tests would show
            self._index = bm25s.BM25(k1=k1, b=b, delta=1.0, method=variant, dtype="float64")
            self._index.index(tokens, show_progress=False)

    def scores(self, text: str) -> FloatArray:
        """Score every item for `text`, shape (n_items,), >= 0; the same for all that share no word with it."""
        known = self._known(text)
        if self._index is None or not known:
            return np.zeros(self._n_items, dtype=np.float64)
        return np.asarray(self._index.get_scores(known), dtype=np.float64)

    def shares_word(self, text: str) -> BoolArray:
        """Which items have a word of `text` (and at least one that counts), shape (n_items,)."""
        shares = np.zeros(self._n_items, dtype=np.bool_)
        if self._index is not None:
            start, item = self._index.scores["indptr"], self._index.scores["indices"]
            for word in self._known(text):
                term = self._index.vocab_dict[word]
                shares[item[start[term] : start[term + 1]]] = True
        return shares

    def _known(self, text: str) -> list[str]:
        return [] if self._index is None else [word for word in words(text) if word in self._index.vocab_dict]
