"""Items by the path of the file that they are, or are a part of: places, and how well words fit a path."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, frozen
from ctxbench.core.facts import FactCodes
from ctxbench.core.items import Catalog, Item
from ctxbench.core.stages import Resources
from ctxbench.index.bm25 import Bm25Index
from ctxbench.index.path_names import ends_of, entry_score
from ctxbench.index.versions import index_over
from ctxbench.index.words import WordRule

PART = "::"
"""What stands between a path and the name of a definition in it."""
_VERSION = re.compile(r"@[0-9a-f]{12}(?:\.\d+)?$")
_RULE = WordRule(split=True, stop=True, stem=True)


def place_of(item: Item) -> str | None:
    """Where an item stands: the path of a file, `path::Class.method` of a definition; None of what is no code.

    All versions of a file or definition stand at one place.
    """
    return _VERSION.sub("", item.name) if item.type == "chunk" and PART in item.name else file_path(item)


def file_path(item: Item) -> str | None:
    """The path of the file that an item is, or is a part of; None of what is no code."""
    if not item.is_file:
        return None
    # `PART` may stand in a path, such as `man/Foo::Bar.3`
    return item.path if item.type == "file" else item.path.partition(PART)[0]


@dataclass(frozen=True, eq=False)
class ItemPaths:
    """The files that the items of a catalog are, or are parts of.

    Attributes:
        path: of every item, as a place in `path.names`, distinct paths; -1 = it is no code. Shape (n_items,).
    """

    path: FactCodes

    @classmethod
    def of(cls, catalog: Catalog) -> ItemPaths:
        """Read them off the titles, or names, of files and chunks."""
        return cls(FactCodes.of(map(file_path, catalog)))

    @cached_property
    def words(self) -> Bm25Index:
        """BM25 over the words of distinct paths, split as identifiers are; each path counts alike, however long."""
        paths = Catalog(Item(type="file", name=path) for path in self.path.names)
        return Bm25Index(paths, k1=0.0, b=0.0, rule=_RULE)

    @cached_property
    def ends(self) -> dict[str, list[int]]:
        """The distinct paths by what may name them; see `ends_of`."""
        return ends_of(self.path.names)

    @cached_property
    def entries(self) -> FloatArray:
        """How much each distinct path looks like an entry point, shape (n_paths,)."""
        return frozen(np.array([entry_score(path) for path in self.path.names], dtype=np.float64))

    def visible_paths(self, items: BoolArray) -> BoolArray:
        """Which paths some items stand at, shape (n_paths,).

        Args:
            items: shape (n_items,).
        """
        out = np.zeros(len(self.path.names) + 1, dtype=np.bool_)  # the last is that of what is no code
        out[self.path.code[items]] = True
        return out[:-1]

    def by_item(self, values: FloatArray) -> FloatArray:
        """The value of every item's path, shape (n_items,); 0 of what is no code.

        Args:
            values: by path, shape (n_paths,).
        """
        return np.append(values, 0.0)[self.path.code]

    def best(self, values: FloatArray) -> FloatArray:
        """The highest value of the items at each path, shape (n_paths,), at least 0.

        Args:
            values: by item, shape (n_items,).
        """
        out = np.zeros(len(self.path.names) + 1, dtype=np.float64)
        np.maximum.at(out, self.path.code, values)
        return out[:-1]

    def shares(self, chunks: Sequence[str], visible: BoolArray) -> FloatArray:
        """How much of a text's words each path holds, weighed by how rare they are in paths, in [0, 1].

        Args:
            chunks: of the text.
            visible: the paths that are counted, shape (n_paths,).

        Returns:
            Shape (n_paths,); 0 for the other paths, and where the text has no word that stands in a path.
        """
        query_words = dict.fromkeys(self.words.words(chunks, [1.0] * len(chunks)), 1.0)
        score = np.where(visible, self.words.scores(query_words, counted=visible), 0.0)
        # a word that no path holds weighs nothing: most words of a request are not about names
        total = sum(
            float(self.words.scores({word: 1.0}, counted=visible)[visible].max(initial=0.0)) for word in query_words
        )
        return score / total if total > 0 else score


def item_paths(catalog: Catalog, resources: Resources) -> ItemPaths:
    """The paths of a catalog, kept with the resources."""
    over = ("type", "title", "name")
    paths: ItemPaths = index_over(catalog, resources, "paths", over=over, make=lambda: ItemPaths.of(catalog))
    return paths
