"""Text indexes: words and trigrams of files by their path and content, in SQLite or PostgreSQL, by one protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.errors import UserError
from ctxbench.core.items import Catalog, Item
from ctxbench.core.stages import Resources
from ctxbench.index.versions import row_over

PATH_WEIGHT = 10.0  # a word in the path counts as often as this in the content, as PostgreSQL's A beside its D
MEASURES = ("similarity", "word_similarity")


class TextIndexError(UserError):
    """A text index cannot be had: it is not installed, not reached, too old, or lacks something."""


class TextIndex(Protocol):
    """An index of items by path (`Item.path`) and text, which only grows; usable from several threads.

    Words are split as `index.words.phrases` does, so that none is query syntax. English endings are taken off.
    """

    def rows(self, items: Sequence[Item]) -> IntArray:
        """The rows of items in the index's table, shape (n,); what is not there yet is added.

        Items of equal path and text share a row. No row is ever changed.
        """
        ...

    def scores(self, words: Sequence[str], table_rows: IntArray, *, match_all: bool) -> FloatArray:
        """How well rows match any word, or every one.

        Args:
            words: at least one that is no function word, or nothing matches.
            table_rows: shape (n,), repeats allowed; nothing else is counted, so that no other row moves a score.
            match_all: whether a row must hold all of them.

        Returns:
            Shape (n,), > 0 where a row matches, else 0.
        """
        ...

    def similar(self, text: str, table_rows: IntArray, *, measure: str, threshold: float) -> FloatArray:
        """The trigram similarity of a text to paths and to contents, the greater of the two.

        Args:
            text: compared as pg_trgm does (`index.trigrams`).
            table_rows: shape (n,).
            measure: of the path: `similarity`, or `word_similarity` to the part of the text that is most like it.
                That of contents is always `similarity`.
            threshold: 0 to 1.

        Returns:
            Shape (n,), 0 to 1; 0 where it is not above the threshold.
        """
        ...

    def marks(self, texts: Sequence[str], words: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Where the words match in each text, `[from, to)` in characters, rising and apart."""
        ...


def rows_of(catalog: Catalog, resources: Resources, name: str, types: Sequence[str]) -> IntArray:
    """The rows of a catalog's items of some types in the text index of a name, shape (n_items,); -1 of others.

    Those known before stay.
    """
    index: TextIndex = resources.get(name)

    def rows(items: Sequence[Item]) -> IntArray:
        out = np.full(len(items), -1, dtype=np.int64)
        typed = [position for position, item in enumerate(items) if item.type in types]
        out[typed] = index.rows([items[position] for position in typed]) if typed else -1
        return out

    return row_over(catalog, resources, (name, *types), over=("type", "name", "title", "text"), make=rows)


def above(similarity: npt.NDArray[np.float32], threshold: float) -> FloatArray:
    """Similarities as numbers, 0 where one is not above the threshold; compared in float32, as PostgreSQL has them."""
    return np.where(similarity > np.float32(threshold), similarity, np.float32(0.0)).astype(np.float64)
