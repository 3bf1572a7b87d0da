"""Which files of a tree lead to which: by imports, by names that they use, by tests; and what is near some of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import NamedTuple

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray, firsts, owners, ranges, starts
from ctxbench.core.items import Catalog
from ctxbench.core.stages import Resources
from ctxbench.index.code.import_edges import import_edges
from ctxbench.index.code.path_kinds import is_test_path
from ctxbench.index.code_symbols import CodeSymbols, code_of, code_symbols
from ctxbench.index.item_paths import ItemPaths, item_paths
from ctxbench.index.path_names import subject_of
from ctxbench.index.versions import index_over

MOST_DEFINERS = 5
"""A name that more files define says nothing of which of them is meant."""
DAMPING, ROUNDS = 0.85, 60
"""Of PageRank: how often a walk goes on, and how often ranks are passed on."""
_KEPT = 8  # trees


class FileEdges(NamedTuple):
    """Edges between the files of a tree, CSR by the one that leads: starts, the other end, and a weight in (0, 1]."""

    start: IntArray
    end: IntArray
    weight: FloatArray

    @classmethod
    def of(cls, start: IntArray, end: IntArray, weight: FloatArray, *, n_files: int) -> FileEdges:
        """Put edges in order, those of the same ends as one; none from a file to itself. The largest weight is 1."""
        is_edge = start != end
        start, end, weight = start[is_edge], end[is_edge], weight[is_edge]
        order = np.lexsort((end, start))
        start, end, weight = start[order], end[order], weight[order]
        first = firsts(start, end)
        total = np.bincount(np.cumsum(first) - 1, weight) if len(start) else weight
        largest = float(total.max(initial=0.0)) or 1.0
        return cls(starts(np.bincount(start[first], minlength=n_files)), end[first], total / largest)

    def turned(self) -> FileEdges:
        """The same edges the other way round."""
        return FileEdges.of(self.end, owners(self.start), self.weight, n_files=len(self.start) - 1)

    def of_file(self, file: int) -> tuple[IntArray, FloatArray]:
        """Where one file leads, and by what weights."""
        rows = slice(int(self.start[file]), int(self.start[file + 1]))
        return self.end[rows], self.weight[rows]


@dataclass(frozen=True, eq=False)
class CodeTree:
    """The files that a request sees. They are numbered by their positions, so that what it does not see moves nothing.

    Attributes:
        catalog, paths, symbols: what it is a part of.
        visible: which items are visible, shape (n_items,).
        item: the position of each file, rising, shape (n_files,); of several at one path the first.
    """

    catalog: Catalog
    paths: ItemPaths
    symbols: CodeSymbols
    visible: BoolArray
    item: IntArray

    @cached_property
    def file_at(self) -> IntArray:
        """The file at each path of the catalog, -1 = none, and behind them that of what is no code, none."""
        out = np.full(len(self.paths.path.names) + 1, -1, dtype=np.int64)
        out[self.paths.path.code[self.item]] = np.arange(len(self.item))
        out[-1] = -1
        return out

    @cached_property
    def names(self) -> list[str]:
        """The path of each file."""
        return [self.paths.path.names[code] for code in self.paths.path.code[self.item].tolist()]

    @cached_property
    def imports(self) -> FileEdges:
        """From a file to those that it imports."""
        imported = import_edges(
            {path: code_of(self.catalog[at]) for path, at in zip(self.names, self.item, strict=True)}
        )
        return self._edges((path, end, 1.0) for path, ends in imported.items() for end in ends)

    @cached_property
    def uses(self) -> FileEdges:
        """From a file to those that define names which it uses, each name by 1 / the files that define it."""
        file = self.file_at[self.paths.path.code]
        name, end = owners(self.symbols.start), file[self.symbols.item]
        is_defined = self.visible[self.symbols.item] & (end >= 0)
        name, end = name[is_defined], end[is_defined]
        order = np.lexsort((end, name))
        name, end = name[order], end[order]
        first = firsts(name, end)
        name, end = name[first], end[first]
        count = np.bincount(name, minlength=len(self.symbols.number)).astype(np.int64)
        user, used = owners(self.symbols.use_start), self.symbols.used
        is_defined = self.visible[user] & (file[user] >= 0) & (count[used] > 0) & (count[used] <= MOST_DEFINERS)
        user, used = user[is_defined], used[is_defined]
        row = ranges(starts(count)[used], count[used])
        n = count[used]
        return FileEdges.of(np.repeat(file[user], n), end[row], np.repeat(1.0 / n, n), n_files=len(self.item))

    @cached_property
    def users(self) -> FileEdges:
        """From a file to those that use names which it defines."""
        return self.uses.turned()

    @cached_property
    def tests(self) -> FileEdges:
        """From a test to the files of the same name and ending, and back."""
        by_subject: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
        for path in self.names:
            key = (subject_of(path), path.rpartition(".")[2])
            by_subject.setdefault(key, ([], []))[is_test_path(path)].append(path)
        pairs = [
            (path, test, 1.0 / len(sources))
            for sources, tests in by_subject.values()
            for path in sources
            for test in tests
        ]
        return self._edges([*pairs, *((test, path, weight) for path, test, weight in pairs)])

    @cached_property
    def links(self) -> FileEdges:
        """Imports and uses together, what PageRank walks along."""
        edges = (self.imports, self.uses)
        start, end, weight = (
            np.concatenate(arrays)
            for arrays in zip(*((owners(edge.start), edge.end, edge.weight) for edge in edges), strict=True)
        )
        return FileEdges.of(start, end, weight, n_files=len(self.item))

    def ranks(self, leads: Mapping[int, float]) -> FloatArray:
        """Personalised PageRank: how often a walk that starts anew at some files is at each, shape (n_files,).

        Args:
            leads: weight by file, > 0; at least one.

        Source: Page et al., The PageRank citation ranking, 1998; over definitions and uses as in aider's repo map.
        """
        home = np.zeros(len(self.item))
        home[list(leads)] = list(leads.values())
        home /= home.sum()
        owner = owners(self.links.start)
        total = np.bincount(owner, self.links.weight, minlength=len(self.item))
        share, dead, rank = self.links.weight / total[owner], total == 0, home
        for _ in range(ROUNDS):
            passed = np.bincount(self.links.end, rank[owner] * share, minlength=len(self.item))
            rank = DAMPING * (passed + rank[dead].sum() * home) + (1 - DAMPING) * home
        return np.asarray(rank)

    def _edges(self, pairs: Iterable[tuple[str, str, float]]) -> FileEdges:
        """Edges between paths."""
        number = {path: file for file, path in enumerate(self.names)}
        rows = [(number[source], number[target], weight) for source, target, weight in pairs]
        start, end = (np.array([row[side] for row in rows], dtype=np.int64) for side in (0, 1))
        return FileEdges.of(start, end, np.array([row[2] for row in rows], np.float64), n_files=len(self.item))


class CodeTrees:
    """The trees of a catalog that requests see; those of the last few are kept."""

    def __init__(self, catalog: Catalog, resources: Resources) -> None:
        self._catalog, self._resources = catalog, resources
        self._kept: OrderedDict[bytes, CodeTree] = OrderedDict()
        self._lock = Lock()

    def of(self, visible: BoolArray) -> CodeTree:
        """The tree of what a request sees.

        Args:
            visible: shape (n_items,).
        """
        paths = item_paths(self._catalog, self._resources)
        visible_code = visible & (paths.path.code >= 0)
        key = np.packbits(visible_code).tobytes()
        with self._lock:
            if key not in self._kept:
                files = np.flatnonzero(visible_code & self._catalog.facts.type.are("file"))
                files = np.sort(files[np.unique(paths.path.code[files], return_index=True)[1]])
                symbols = code_symbols(self._catalog, self._resources)
                self._kept[key] = CodeTree(self._catalog, paths, symbols, visible_code, files)
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return self._kept[key]


def code_trees(catalog: Catalog, resources: Resources) -> CodeTrees:
    """The trees of a catalog, kept with the resources."""
    over = ("type", "title", "name", "text")
    trees: CodeTrees = index_over(
        catalog, resources, "code trees", over=over, make=lambda: CodeTrees(catalog, resources)
    )
    return trees
