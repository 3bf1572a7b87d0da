"""Retrieval of code: by what similar commits changed, by how often files change, and by their paths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctxbench.core.arrays import FloatArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import ParameterError, check_choice, check_range
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy
from ctxbench.index.commit_history import commit_history
from ctxbench.index.item_paths import item_paths
from ctxbench.index.path_names import fits_pattern, named_paths
from ctxbench.index.ranked import ranked_by


@dataclass(frozen=True, kw_only=True)
class _CodeSearch(Strategy):
    """What these searches have in common: how many items they find, and of which types."""

    n: int = 20
    types: tuple[str, ...] = ("file",)

    def __post_init__(self) -> None:
        check_range("n", self.n, 0)
        if not self.types:
            raise ParameterError("types must name at least one type of item: file or chunk")
        for item_type in self.types:
            check_choice("each of types", item_type, ("file", "chunk"))

    @property
    def depth(self) -> int:
        """How many are found."""
        return self.n

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """The best by score of what every request may be offered; what has none is not found."""
        batch = query.batch
        if not self.n or not len(batch):
            return Candidates.empty(len(batch))
        typed, scores, masks = batch.catalog.facts.type.are_any(self.types), [], []
        for request, eligible in enumerate(batch.eligible):
            scores.append(self._scores(query, request, resources))
            masks.append(eligible & typed & (scores[-1] > 0))
        return ranked_by(scores, masks, depth=self.n)

    def _scores(self, query: Query, request: int, resources: Resources) -> FloatArray:
        """The score of every item for a request, shape (n_items,), >= 0."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class CommitVotes(_CodeSearch):
    """Files that earlier commits changed whose messages are like the request: what is learned from use.

    Attributes:
        n: how many items are found for a request; 0 = none.
        types: of the items that are found: `file`, and `chunk` for definitions; for these only commits vote that
            changed them.
        commits: so many of the most similar commits vote, >= 1; of equals the latest.
        spread: a commit's vote for a file is its similarity / (files that it changed) ** spread, 0 to 2; at 0 a commit
            that changed many files says as much of each as one that changed it alone.

    A commit is a message of kind `commit` with links of type `changes`; a file that was renamed, with a link of type
    `renamed_from`, has the votes of its older names, too. Similarity is BM25 of its message for the
    request's chunks, identifiers split, English endings taken off, counted over the commits that the request sees, so
    that no later one moves a score. A file's score is the sum of its votes, whichever of its versions they changed; the
    version found is the one that the request sees. Without commits nothing is found. Each item counts as one chunk.
    Cost: linear in the commits and what they changed. Source: document 002, "Learning from feedback"; similar reports
    in BugLocator (Zhou, Zhang and Lo, ICSE 2012), commits in their place.
    """

    commits: int = 30
    spread: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("commits", self.commits, 1)
        check_range("spread", self.spread, 0, 2)

    def _scores(self, query: Query, request: int, resources: Resources) -> FloatArray:
        batch, history = query.batch, commit_history(query.batch.catalog, resources)
        span = slice(int(query.start[request]), int(query.start[request + 1]))
        visible = history.visible_commits(batch, request)
        voices = history.voices(query.text[span], query.weight[span].tolist(), visible, self.commits, self.spread)
        return history.votes(voices)


@dataclass(frozen=True, kw_only=True)
class RecentChanges(_CodeSearch):
    """Files that were changed lately and often, whatever is asked.

    Attributes:
        n: how many items are found for a request; 0 = none.
        types: of the items that are found, as of `history`.
        half_life_days: after so many days a change counts half, > 0.

    Score: the sum over the commits that the request sees and that changed the file of 2 ** (-age / half-life), the age
    being that at the request's time, else at that of the newest item that it sees. Without commits nothing is found.
    Each item counts as one chunk. Cost: linear in the commits and what they changed. Source: document 002, "File
    age/frequency"; locality in time (Kim et al., Predicting faults from cached history, ICSE 2007).
    """

    half_life_days: float = 365.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.half_life_days <= 0:
            raise ParameterError(f"half_life_days must be above 0, got {self.half_life_days}")

    def _scores(self, query: Query, request: int, resources: Resources) -> FloatArray:
        history = commit_history(query.batch.catalog, resources)
        return history.votes(history.fresh(query.batch, request, self.half_life_days))


@dataclass(frozen=True, kw_only=True)
class PathPattern(_CodeSearch):
    """Files that the request names, and files whose paths match a plan's patterns or words of the request.

    Attributes:
        n: how many items are found for a request; 0 = none.
        types: of the items that are found, as of `history`.

    A file that is named scores 1 more than the others: by its path, by enough of the end of it, such as `core.py` or
    `click/core.py`, or as a module, `click.core.Context` or `click::core`. Beside that, the score is in [0, 1]: with a
    plan the share of its `file_patterns` that the path matches (`*auth*`, and `auth` alike; letters of either case),
    without the share of the request's words that stand in the path, each weighed by how rare it is in the paths that
    the request sees; identifiers are split, English endings taken off. What has neither is not found, so a blank
    request finds nothing. Each item counts as one chunk. Cost: linear in the paths. Source: document 002, "Scan for
    files".
    """

    def _scores(self, query: Query, request: int, resources: Resources) -> FloatArray:
        paths, chunks = item_paths(query.batch.catalog, resources), query.chunks(request)
        visible = paths.visible_paths(query.batch.visible[request])
        score = np.zeros(len(visible))
        score[named_paths(query.batch.requests[request].text, paths.ends, visible)] = 1.0
        if not (patterns := _planned(query, request, "file_patterns", "patterns")):
            return paths.by_item(score + paths.shares(chunks, visible))
        for index in np.flatnonzero(visible).tolist():
            score[index] += sum(fits_pattern(paths.path.names[index], pattern) for pattern in patterns) / len(patterns)
        return paths.by_item(score)


@dataclass(frozen=True, kw_only=True)
class SymbolDefiners(_CodeSearch):
    """Files, and definitions, that define a name which the request says.

    Attributes:
        n: how many items are found for a request; 0 = none.
        types: of the items that are found: `file`, and `chunk` for definitions.

    The names are those of a plan, `symbols_to_find` and the symbols of its strategy; without a plan those of code in
    the text (`intent`): quoted, called, of several parts, in camel or snake case. `a.b.c` is what defines `b.c`, else
    `c`. Score: the sum over names of 1 / the items that the request sees and that define it; a file has the
    best score of itself and its definitions. Languages without a grammar (extra `code`) define nothing; a request that
    names nothing finds nothing. Each item counts as one chunk. Cost: linear in the definers of the names; a text is
    parsed once. Source: document 002, "Symbol match count", "Search symbols: Auth*".
    """

    def _scores(self, query: Query, request: int, resources: Resources) -> FloatArray:
        from ctxbench.index.code_symbols import code_symbols  # grammars wait until symbols are asked for
        from ctxbench.planning.named_code import named_code

        catalog, paths = query.batch.catalog, item_paths(query.batch.catalog, resources)
        names = _planned(query, request, "symbols_to_find", "symbols") or named_code(query.batch.requests[request].text)
        score = code_symbols(catalog, resources).matches(names, query.batch.visible[request])
        return np.where(catalog.facts.type.are("file"), paths.by_item(paths.best(score)), score)


@dataclass(frozen=True, kw_only=True)
class EntryPoints(_CodeSearch):
    """Files that a program or a library starts from, by their names, whatever is asked.

    Attributes:
        n: how many items are found for a request; 0 = none.
        types: of the items that are found, as of `history`.

    The nth kind of name scores 1 / n: main files (`main.*`, `__main__.py`, `Main.java`), then `lib.rs`,
    `app.*`, `cli.*`, `server.*`, `manage.py`, `wsgi.py` and `asgi.py`, then `index.*`, `mod.rs` and `__init__.py`. That
    is divided by 1 + the number of folders above it, of which `src` and `cmd` do not count. Tests and examples are left
    out. What a plan's strategy `EntryPointBased` names scores 2. Where no name fits, nothing is found. Each item
    counts as one chunk. Cost: linear in the paths. Source: document 002, "Entry point: main.rs".
    """

    n: int = 5

    def _scores(self, query: Query, request: int, resources: Resources) -> FloatArray:
        paths = item_paths(query.batch.catalog, resources)
        score, visible = paths.entries.copy(), paths.visible_paths(query.batch.visible[request])
        score[named_paths(" ".join(_planned(query, request, "entry_files")), paths.ends, visible)] = 2.0
        return paths.by_item(score)


def _planned(query: Query, request: int, *names: str) -> list[str]:
    """What a request's plan, and the strategy in it, hold under some names, each text once; nothing without a plan."""
    plan = query.plan[request] or {}
    values = [source.get(name) or () for name in names for source in (plan, plan.get("strategy") or {})]
    return list(dict.fromkeys(str(text) for texts in values for text in texts))
