"""The commits of a catalog: which files each changed, and which of them are like a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray, frozen, owners, starts
from ctxbench.core.facts import EARLIEST
from ctxbench.core.items import Catalog
from ctxbench.core.requests import Batch
from ctxbench.core.stages import Resources
from ctxbench.core.times import instant
from ctxbench.index.bm25 import Bm25Index
from ctxbench.index.item_paths import PART, file_path, place_of
from ctxbench.index.versions import index_over
from ctxbench.index.words import WordRule

COMMIT, CHANGES, RENAMED = "commit", "changes", "renamed_from"
"""The kind of a message that is a commit, the type of its links to what it changed, and that of a file's to the one
that it was before it was called so."""
FILES = "files"
"""Where the metadata of a commit say how many files it changed; without it those that it links to."""
DAY = 86_400_000_000
"""In microseconds."""
LARGEST = 20
"""A commit of more files says nothing of which of them belong together."""
DOUBT = 2
"""Commits that nobody made, but that every share counts as made without the other file: one commit proves little."""
_RULE = WordRule(split=True, stop=True, stem=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class CommitHistory:
    """The commits of a catalog and the places that each changed, a place being a file or a definition in one.

    Attributes:
        commit: positions of the commits in the catalog, oldest first, shape (n_commits,).
        created: of each, microseconds since 1970.
        location: of every item, a number below `n_locations`; -1 = it is no code. Shape (n_items,).
        n_locations: how many there are.
        start: CSR starts by commit, shape (n_commits + 1,).
        touched: the places that each changed, each once: files, and the definitions in them that are items.
        files: how many files each changed, shape (n_commits,).
        older: (place, its older place) of what was renamed, the first renamed first: it has the votes of both.
        has_message: whether its message says anything, shape (n_commits,); of `Merge pull request #1` nothing is left.
        words: BM25 over the messages, by place in `commit`.
    """

    commit: IntArray
    created: IntArray
    location: IntArray
    n_locations: int
    start: IntArray
    touched: IntArray
    files: IntArray
    older: tuple[tuple[int, int], ...]
    has_message: BoolArray
    words: Bm25Index

    @classmethod
    def of(cls, catalog: Catalog) -> CommitHistory:
        """Read them off the messages of kind `commit` and their links of type `changes`."""
        facts, locations = catalog.facts, [place_of(item) for item in catalog]
        number: dict[str, int] = {}
        code = np.array(
            [-1 if location is None else number.setdefault(location, len(number)) for location in locations], np.int64
        )
        commit = np.flatnonzero(facts.type.are("message") & facts.kind.are(COMMIT))
        names = [catalog[position].name for position in commit.tolist()]
        by_time = sorted(range(len(commit)), key=lambda row: (int(facts.created[commit[row]]), names[row]))
        commit = commit[np.array(by_time, dtype=np.int64)]
        touched, files = [], []
        for position in commit.tolist():
            ends = [end for kind, end in facts.linked(position) if kind == CHANGES and locations[end] is not None]
            paths = dict.fromkeys(file_path(catalog[end]) for end in ends)
            targets = dict.fromkeys([*paths, *(locations[end] for end in ends)])
            touched.append([number.setdefault(end, len(number)) for end in targets if end is not None])
            files.append(catalog[position].metadata.get(FILES, len(paths)))
        return cls(
            commit=frozen(commit.astype(np.int64)),
            created=frozen(facts.created[commit]),
            location=frozen(code),
            n_locations=len(number),
            start=frozen(starts([len(row) for row in touched])),
            touched=frozen(np.array([target for row in touched for target in row], dtype=np.int64)),
            files=frozen(np.array(files, dtype=np.int64)),
            older=tuple(_renamed(catalog, number)),
            has_message=frozen(
                np.array([bool(catalog[position].text) for position in commit.tolist()], dtype=np.bool_)
            ),
            words=Bm25Index(Catalog(catalog[position] for position in commit.tolist()), k1=1.5, b=0.75, rule=_RULE),
        )

    @cached_property
    def _owner(self) -> IntArray:
        return owners(self.start)

    def visible_commits(self, batch: Batch, request: int) -> BoolArray:
        """Which commits a request sees, shape (n_commits,)."""
        visible: BoolArray = batch.visible[request]
        return visible[self.commit]

    def likeness(self, chunks: Sequence[str], weights: Sequence[float], visible: BoolArray) -> FloatArray:
        """BM25 of each message for a text, over commits that are seen and say anything, shape (n_commits,); others 0.

        Args:
            chunks, weights: of the text.
            visible: shape (n_commits,).
        """
        counted = visible & self.has_message  # without a text it is indexed by its name, `commit-...`
        return np.where(counted, self.words.scores(self.words.words(chunks, weights), counted=counted), 0.0)

    def votes(self, weight: FloatArray) -> FloatArray:
        """The sum of weights of the commits that changed each item's location, oldest first, shape (n_items,).

        Args:
            weight: of each commit, shape (n_commits,), >= 0.
        """
        by_location = np.bincount(self.touched, weight[self._owner], minlength=self.n_locations + 1)
        for location, old in self.older:
            by_location[location] += by_location[old]
        return np.asarray(by_location[self.location])  # nothing is at the last location, that of what is no code

    def voices(
        self, chunks: Sequence[str], weights: Sequence[float], visible: BoolArray, limit: int, spread: float
    ) -> FloatArray:
        """What each commit's vote for a file counts: its likeness / (files that it changed) ** spread.

        Args:
            chunks, weights: of a request.
            visible: the commits that it sees, shape (n_commits,).
            limit: so many of the most similar vote, of equals the latest.
            spread: >= 0.

        Returns:
            Shape (n_commits,), 0 of those that do not vote.
        """
        like = self.likeness(chunks, weights, visible)
        best = np.lexsort((-np.arange(len(like)), -like))[:limit]
        out = np.zeros(len(like), dtype=np.float64)
        out[best] = like[best]
        shared = [max(n_files, 1) ** spread for n_files in self.files.tolist()]  # one by one: the same bits anywhere
        return np.divide(out, np.array(shared, dtype=np.float64))

    def together(self, item: int, visible: BoolArray) -> FloatArray:
        """How often each item's place changed where one item's did: commits of both / (commits of the one + `DOUBT`).

        Args:
            item: position of the one; 0 at its own place.
            visible: the commits that count, shape (n_commits,), but for those of more than `LARGEST` files.

        Returns:
            Shape (n_items,), in [0, 1).
        """
        weight = np.zeros(len(self.commit), dtype=np.float64)
        weight[self._owner[self.touched == self.location[item]]] = 1.0
        weight[~visible | (self.files > LARGEST)] = 0.0
        share = self.votes(weight) / (weight.sum() + DOUBT)
        return np.where(self.location == self.location[item], 0.0, share)

    def fresh(self, batch: Batch, request: int, half_life: float) -> FloatArray:
        """2 ** (-age / half_life) of each commit that a request sees, shape (n_commits,); 0 of others.

        Args:
            batch, request: the age is that at its time, else at that of the newest item that it sees.
            half_life: in days, > 0.
        """
        time, visible = batch.requests[request].time, batch.visible[request]
        time_now = int(batch.catalog.facts.created[visible].max(initial=EARLIEST)) if time is None else instant(time)
        ages = [max(time_now - created, 0) / DAY for created in self.created.tolist()]
        return np.where(visible[self.commit], [0.5 ** (age / half_life) for age in ages], 0.0)


def _renamed(catalog: Catalog, number: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """The places of files that were renamed, and of definitions in them, each with its older one."""
    facts, inside = catalog.facts, dict[str, list[str]]()
    for location in number:
        inside.setdefault(location.partition(PART)[0], []).append(location)
    links = (
        (int(facts.created[file]), catalog[file].path, catalog[end].path)
        for file in np.flatnonzero(facts.type.are("file")).tolist()
        for kind, end in facts.linked(file)
        if kind == RENAMED
    )
    for _, new, old in sorted(dict.fromkeys(links)):
        for location in inside.get(old, ()):
            renamed = number.get(new + location[len(old) :])
            if renamed is not None and new != old:
                yield renamed, number[location]


def commit_history(catalog: Catalog, resources: Resources) -> CommitHistory:
    """The commits of a catalog, kept with the resources."""
    over = ("type", "kind", "title", "name", "text", "created", "links", "metadata")
    history: CommitHistory = index_over(
        catalog, resources, "commits", over=over, make=lambda: CommitHistory.of(catalog)
    )
    return history
