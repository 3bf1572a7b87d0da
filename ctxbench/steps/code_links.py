"""Expansion through code: files that the chosen ones import, are used by, are tested by, or change with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.candidate_tables import with_values
from ctxbench.core.candidates import Candidates, Mode, Origin, add_expanded
from ctxbench.core.errors import check_range
from ctxbench.core.query import Query
from ctxbench.core.requests import Batch
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy
from ctxbench.index.code_graph import CodeTree, code_trees
from ctxbench.index.commit_history import commit_history

DISTANCE = "code.distance"
"""Column of what was brought in: how many steps away from what was chosen."""
Neighbours: TypeAlias = Callable[[int], tuple[IntArray, FloatArray]]
"""The files that one file leads to, and how much so, in (0, 1]."""
Leads: TypeAlias = dict[int, tuple[float, int]]
"""What leads: by file a weight > 0, and the item of the file that is named as the origin."""
Row: TypeAlias = tuple[int, float, int, int]
"""What is brought in: item, score, the item that led there, and the distance."""


@dataclass(frozen=True)
class CodeLinks(Strategy):
    """Bring in files that the chosen files, and files of chosen definitions, lead to, pass by pass, each once.

    Attributes:
        by: `imports`, what a file imports, by the rules of its language; `references`, files that use names which it
            defines; `tests`, the test of a file and what a test is of, by their names; `co_change`, files that the same
            earlier commits changed; `pagerank`, what a walk along imports and names used comes by most often.
        depth: so many passes, 0 to 5; 0 leaves everything as it is. With `pagerank` no file further away is brought in.
        max_files: at most so many files a request, over all passes; 0 leaves everything as it is.

    Only files that a search might offer are brought in and lead further; what the session holds does not lead. A file's
    score in a pass is the sum over what leads to it of the weight of the edge, in (0, 1], by the place of the one that
    leads, from 1, among what is chosen, or times half the score that it was brought in with; `via_item` is the one that
    gives most, the column `code.distance` the pass. With `pagerank` the score is the rank, the walk starting anew at
    what is chosen, each by 1 / its place. All is read off what the request sees: files, commits and imports as they
    were at its time. A rank step behind orders all anew. Nothing chosen, nothing brought in. Cost: imports and names of
    a tree are read when it is first asked for; then linear in the edges of what is reached. Source: document 002,
    `traverse_imports`, `find_symbol_references`.
    """

    by: Literal["imports", "references", "tests", "co_change", "pagerank"] = "imports"
    depth: int = 1
    max_files: int = 5

    def __post_init__(self) -> None:
        check_range("depth", self.depth, 0, 5)
        check_range("max_files", self.max_files, 0)

    @property
    def off(self) -> bool:
        """Whether nothing is brought in."""
        return self.depth == 0 or self.max_files == 0

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Bring in what the chosen files lead to."""
        if self.off:
            return candidates
        trees, rows = code_trees(query.batch.catalog, resources), []
        for at, chosen in _chosen(candidates):
            tree = trees.of(query.batch.visible[at])
            leads = _leads(tree, chosen)
            free = query.batch.eligible[at][tree.item] & ~np.isin(tree.item, chosen)
            reach = self._by_rank if self.by == "pagerank" else self._by_passes
            edges = self._edges(query.batch, at, tree, resources)
            rows += [(at, *row) for row in reach(tree, leads, free, edges)] if leads else []
        score = np.array([row[2] for row in rows], dtype=np.float64)
        numbers = np.array([(row[0], row[1], row[3], row[4]) for row in rows], dtype=np.int64).reshape(-1, 4)
        request, item, via, distance = numbers.T
        mode, origin = np.full(len(item), Mode.EXPANSION, dtype=np.int64), Origin.EXPANSION + distance - 1
        columns = {"score": score, "via_item": via, "origin": origin, "mode": mode}
        table = add_expanded(candidates, request, item, **columns)
        return with_values(table, request, item, {DISTANCE: distance.astype(np.float64)})

    def _by_passes(self, tree: CodeTree, leads: Leads, free: BoolArray, edges: Neighbours) -> Iterator[Row]:
        """What is found pass by pass: item, score, the item that led there and the pass."""
        free, front, room = free.copy(), leads, self.max_files
        for distance in range(1, self.depth + 1):
            score: dict[int, float] = {}
            best: dict[int, tuple[float, int]] = {}
            for file, (weight, via) in front.items():
                for end, share in zip(*(array.tolist() for array in edges(file)), strict=True):
                    if free[end]:
                        score[end] = score.get(end, 0.0) + weight * share
                        best[end] = max(best.get(end, (0.0, -1)), (weight * share, via), key=lambda pair: pair[0])
            chosen = sorted(score, key=lambda end: (-score[end], end))[:room]
            yield from ((int(tree.item[end]), score[end], best[end][1], distance) for end in chosen)
            free[chosen] = False
            room -= len(chosen)
            front = {end: (score[end] / 2, int(tree.item[end])) for end in chosen}

    def _by_rank(self, tree: CodeTree, leads: Leads, free: BoolArray, edges: Neighbours) -> Iterator[Row]:
        """What a walk comes by most often: item, rank, the item that passes most on to it, and its distance."""
        rank = tree.ranks({file: weight for file, (weight, _) in leads.items()})
        distance, front = dict.fromkeys(leads, 0), list(leads)
        passed: dict[int, tuple[float, int]] = {}
        for step in range(1, self.depth + 1):
            reached = []
            for file in front:
                via = leads[file][1] if file in leads else int(tree.item[file])
                for end, share in zip(*(array.tolist() for array in edges(file)), strict=True):
                    if distance.setdefault(end, step) == step:
                        reached.append(end)
                        candidate = (float(rank[file]) * share, via)
                        passed[end] = max(passed.get(end, (0.0, -1)), candidate, key=lambda pair: pair[0])
            front = list(dict.fromkeys(reached))
        near = sorted((file for file in passed if free[file]), key=lambda file: (-rank[file], file))
        for file in near[: self.max_files]:
            yield int(tree.item[file]), float(rank[file]), passed[file][1], distance[file]

    def _edges(self, batch: Batch, request: int, tree: CodeTree, resources: Resources) -> Neighbours:
        """Where each file of a request's tree leads."""
        if self.by == "co_change":
            past = commit_history(batch.catalog, resources)
            visible = past.visible_commits(batch, request)

            def changed_with(file: int) -> tuple[IntArray, FloatArray]:
                share = past.together(int(tree.item[file]), visible)[tree.item]
                return np.flatnonzero(share), share[share > 0]

            return changed_with
        edges = {"imports": "imports", "references": "users", "tests": "tests", "pagerank": "links"}[self.by]
        neighbours: Neighbours = getattr(tree, edges).of_file
        return neighbours


def _chosen(candidates: Candidates) -> Iterator[tuple[int, IntArray]]:
    """What is chosen but for the session's, best first, by request; requests without are left out."""
    leads = candidates.chosen & (candidates.origin != Origin.SESSION)
    for request in np.unique(candidates.request[leads]).tolist():
        rows = candidates.rows(request)
        yield request, candidates.item[rows][leads[rows]]


def _leads(tree: CodeTree, chosen: IntArray) -> Leads:
    """The files that lead: those of the chosen items, each with 1 / the place of the first of them, and that item."""
    leads: Leads = {}
    for item in chosen.tolist():
        file = int(tree.file_at[tree.paths.path.code[item]])
        if file >= 0:
            leads.setdefault(file, (1.0 / (len(leads) + 1), item))
    return leads
