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
        place: of every item, a number below `n_places`; -1 = it is no code. Shape (n_items,).
        n_places: how many there are.
        start: CSR starts by commit, shape (n_commits + 1,).
        touched: the places that each changed, each once: files, and the definitions in them that are items.
        files: how many files each changed, shape (n_commits,).
        older: (place, its older place) of what was renamed, the first renamed first: it has the votes of both.
        said: whether its message says anything, shape (n_commits,); of `Merge pull request #1` nothing is left.
        words: BM25 over the messages, by place in `commit`.
    """

    commit: IntArray
    created: IntArray
    place: IntArray
    n_places: int
    start: IntArray
    touched: IntArray
    files: IntArray
    older: tuple[tuple[int, int], ...]
    said: BoolArray
    words: Bm25Index

    @classmethod
    def of(cls, catalog: Catalog) -> CommitHistory:
        """Read them off the messages of kind `commit` and their links of type `changes`."""
        facts, places = catalog.facts, [place_of(item) for item in catalog]
        number: dict[str, int] = {}
        code = np.array([-1 if one is None else number.setdefault(one, len(number)) for one in places], np.int64)
        commit = np.flatnonzero(facts.type.are("message") & facts.kind.are(COMMIT))
        names = [catalog[one].name for one in commit.tolist()]
        by_time = sorted(range(len(commit)), key=lambda one: (int(facts.created[commit[one]]), names[one]))
        commit = commit[np.array(by_time, dtype=np.int64)]
        touched, files = [], []
        for one in commit.tolist():
            ends = [end for kind, end in facts.linked(one) if kind == CHANGES and places[end] is not None]
            whole = dict.fromkeys(file_path(catalog[end]) for end in ends)
            both = dict.fromkeys([*whole, *(places[end] for end in ends)])
            touched.append([number.setdefault(end, len(number)) for end in both if end is not None])
            files.append(catalog[one].metadata.get(FILES, len(whole)))
        return cls(
            commit=frozen(commit.astype(np.int64)),
            created=frozen(facts.created[commit]),
            place=frozen(code),
            n_places=len(number),
            start=frozen(starts([len(row) for row in touched])),
            touched=frozen(np.array([one for row in touched for one in row], dtype=np.int64)),
            files=frozen(np.array(files, dtype=np.int64)),
            older=tuple(_renamed(catalog, number)),
            said=frozen(np.array([bool(catalog[one].text) for one in commit.tolist()], dtype=np.bool_)),
            words=Bm25Index(Catalog(catalog[one] for one in commit.tolist()), k1=1.5, b=0.75, rule=_RULE),
        )

    @cached_property
    def _owner(self) -> IntArray:
        return owners(self.start)

    def seen(self, batch: Batch, request: int) -> BoolArray:
        """Which commits a request sees, shape (n_commits,)."""
        visible: BoolArray = batch.visible[request]
        return visible[self.commit]

    def likeness(self, chunks: Sequence[str], weights: Sequence[float], seen: BoolArray) -> FloatArray:
        """BM25 of each message for a text, over commits that are seen and say anything, shape (n_commits,); others 0.

        Args:
            chunks, weights: of the text.
            seen: shape (n_commits,).
        """
        counted = seen & self.said  # one without a text is indexed by its name, `commit-...`, which nobody asked for
        return np.where(counted, self.words.scores(self.words.words(chunks, weights), counted=counted), 0.0)

    def votes(self, weight: FloatArray) -> FloatArray:
        """The sum of weights of the commits that changed each item's place, oldest first, shape (n_items,).

        Args:
            weight: of each commit, shape (n_commits,), >= 0.
        """
        by_place = np.bincount(self.touched, weight[self._owner], minlength=self.n_places + 1)
        for place, old in self.older:
            by_place[place] += by_place[old]
        return np.asarray(by_place[self.place])  # nothing is at the last place, that of what is no code

    def voices(
        self, chunks: Sequence[str], weights: Sequence[float], seen: BoolArray, most: int, spread: float
    ) -> FloatArray:
        """What each commit's vote for a file counts: its likeness / (files that it changed) ** spread.

        Args:
            chunks, weights: of a request.
            seen: the commits that it sees, shape (n_commits,).
            most: so many of the most similar vote, of equals the latest.
            spread: >= 0.

        Returns:
            Shape (n_commits,), 0 of those that do not vote.
        """
        like = self.likeness(chunks, weights, seen)
        best = np.lexsort((-np.arange(len(like)), -like))[:most]
        out = np.zeros(len(like), dtype=np.float64)
        out[best] = like[best]
        shared = [max(one, 1) ** spread for one in self.files.tolist()]  # one by one: the same bits anywhere
        return np.divide(out, np.array(shared, dtype=np.float64))

    def together(self, item: int, seen: BoolArray) -> FloatArray:
        """How often each item's place changed where one item's did: commits of both / (commits of the one + `DOUBT`).

        Args:
            item: position of the one; 0 at its own place.
            seen: the commits that count, shape (n_commits,), but for those of more than `LARGEST` files.

        Returns:
            Shape (n_items,), in [0, 1).
        """
        own = np.zeros(len(self.commit), dtype=np.float64)
        own[self._owner[self.touched == self.place[item]]] = 1.0
        own[~seen | (self.files > LARGEST)] = 0.0
        share = self.votes(own) / (own.sum() + DOUBT)
        return np.where(self.place == self.place[item], 0.0, share)

    def fresh(self, batch: Batch, request: int, half_life: float) -> FloatArray:
        """2 ** (-age / half_life) of each commit that a request sees, shape (n_commits,); 0 of others.

        Args:
            batch, request: the age is that at its time, else at that of the newest item that it sees.
            half_life: in days, > 0.
        """
        time, visible = batch.requests[request].time, batch.visible[request]
        now = int(batch.catalog.facts.created[visible].max(initial=EARLIEST)) if time is None else instant(time)
        ages = [max(now - one, 0) / DAY for one in self.created.tolist()]
        return np.where(visible[self.commit], [0.5 ** (age / half_life) for age in ages], 0.0)


def _renamed(catalog: Catalog, number: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """The places of files that were renamed, and of definitions in them, each with its older one."""
    facts, inside = catalog.facts, dict[str, list[str]]()
    for place in number:
        inside.setdefault(place.partition(PART)[0], []).append(place)
    links = (
        (int(facts.created[one]), catalog[one].path, catalog[end].path)
        for one in np.flatnonzero(facts.type.are("file")).tolist()
        for kind, end in facts.linked(one)
        if kind == RENAMED
    )
    for _, new, old in sorted(dict.fromkeys(links)):
        for place in inside.get(old, ()):
            renamed = number.get(new + place[len(old) :])
            if renamed is not None and new != old:
                yield renamed, number[place]


def commit_history(catalog: Catalog, resources: Resources) -> CommitHistory:
    """The commits of a catalog, kept with the resources."""
    over = ("type", "kind", "title", "name", "text", "created", "links", "metadata")
    made: CommitHistory = index_over(catalog, resources, "commits", over=over, make=lambda: CommitHistory.of(catalog))
    return made
