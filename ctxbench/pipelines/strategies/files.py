"""Strategies for files and code: intent, plan, full text, symbols, commits, file kinds and code links."""

from __future__ import annotations

import functools
import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from ctxbench.io.errors import Message, ParameterError, check_choice
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.model.candidates import Candidates, Mode, Note, Origin, add_expanded, reranked
from ctxbench.model.items import TEXT_FIELDS, Catalog, Item, check_item_types
from ctxbench.model.requests import Batch, Query
from ctxbench.model.resources import CHAT, OLLAMA, Resources, row_over
from ctxbench.model.selection import with_values
from ctxbench.model.strategies import FirstN, Strategy, later
from ctxbench.pipelines.code_requests import (
    ContextPlan,
    QueryIntent,
    heuristic_plan,
    model_plans,
    named_code,
    read_intent,
    weighted_chunks,
)
from ctxbench.search.code_facts import is_document_path, is_made_file, is_made_text, is_test_path
from ctxbench.search.code_index import (
    CodeTree,
    FileEdges,
    ItemPaths,
    code_symbols,
    code_trees,
    commit_history,
    file_path,
    fits_pattern,
    item_paths,
    named_paths,
)
from ctxbench.search.dense import ranked_by
from ctxbench.search.words import TextIndex, keywords, name_parts, rows_of

DEFAULT_MODEL = "qwen2.5-coder:7b"
_STEP = "analyse.plan"
_MOST_FILES = 20  # that one name stands for
_TRIES = 2  # of an exchange with a model's server


@dataclass(frozen=True)
class CodeWords(Strategy):
    """The request as one chunk, and other words that code may say in its place as chunks that count less.

    Attributes:
        asking: weight of words that say what work is wanted, `implement`, `fix`, `bug`; 0 leaves them out. So does a
            request about a whole codebase (`intent`) that names no code: there they say nothing of where.
        forms: weight of other forms of the request's words in code: `auth` for `authentication`, and back, `config`,
            `ctx`, `req` and the like; 0 = none.
        related: weight of what goes with a word: `login`, `session`, `user` and `token` with `authentication`.

    A request of nothing but `asking` words is one chunk of weight 1; a blank one has no chunk. A dense search compares
    each chunk alone. Cost: linear in the text. Source: document 003, the keywords and patterns of its first example;
    the table of forms is ours.
    """

    asking: float = 0.1
    forms: float = 0.3
    related: float = 0.2
    limits: ClassVar[Mapping[str, tuple[float, float]]] = dict.fromkeys(("asking", "forms", "related"), (0.0, 10.0))

    def __call__(self, batch: Batch, resources: Resources) -> Query:
        """Chunk the text of every request."""
        chunks, weights = [], []
        for request in batch.requests:
            asking = 0.0 if _is_wide(read_intent(request.text)) else self.asking
            rows = weighted_chunks(request.text, asking=asking, forms=self.forms, related=self.related)
            chunks.append([chunk for chunk, _ in rows])
            weights.append([weight for _, weight in rows])
        return Query.of_chunks(batch, chunks, weights=weights)


@dataclass(frozen=True)
class Intent(Strategy):
    """What a request about code asks for: action, scope, complexity, keywords, and the names of code in it.

    Action is create, modify, debug, explain, refactor or search; scope focused (on what it names), module or codebase;
    complexity simple, medium or complex. Names are CamelCase, snake_case, dotted or with `::`, file names, paths, and
    what is in backquotes. Keywords are those of `keywords`, for steps that match them. No chunks are made: name
    another analysis beside it. A blank request has no intent. Cost: linear in the text. Source: document 003, "Query
    Analyzer"; tables of words, tested on requests that a model wrote and labelled (`tests/pipelines/code_requests.md`).
    """

    def __call__(self, batch: Batch, resources: Resources) -> Query:
        """Read the intent of every request."""
        texts = [request.text for request in batch.requests]
        intents = tuple(read_intent(text).as_dict() if text.strip() else None for text in texts)
        query = Query.of_chunks(batch, [[]] * len(batch))
        return replace(query, intent=intents, keywords=tuple(keywords(text) for text in texts))


@dataclass(frozen=True)
class Plan(Strategy):
    """Where to look for a request about code: words, symbols, patterns of paths, depth, and how to begin.

    Attributes:
        planner: `heuristic`, by the words of the request; `ollama`, by a model of the server `OLLAMA_HOST`
            (http://localhost:11434 by default); `openai`, by a model of the server `OPENAI_BASE_URL`; `scan`, no plan.
        model: of the server; for `ollama` empty = `OLLAMA_MODEL`, qwen2.5-coder:7b by default.
        seconds: for an exchange with the server, above 0; it is tried twice.

    A model that does not answer in time, or not with a plan in two tries, is followed by `heuristic`; a request that
    says nothing to look for has no plan, so steps scan everything. Each fallback is a note. Files that a plan names and
    the request does not see are left out, with a note. Replies of models are kept by text, model and prompt. No chunks
    are made: name another analysis beside it. Cost: linear in the text, and an exchange with the server per request,
    four at one time. Source: document 003, "Subagent Approach with Local LLM".
    """

    planner: Literal["heuristic", "ollama", "openai", "scan"] = "heuristic"
    model: str = ""
    seconds: float = 20.0

    def __post_init__(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise ParameterError(f"seconds must be above 0, got {self.seconds:g}")
        if self.planner == "openai" and not self.model.strip():
            raise ParameterError("model must not be empty for the planner openai; name one, such as gpt-5-mini")
        if self.planner not in ("ollama", "openai") and self.model:
            raise ParameterError(f"model is for the planners ollama and openai, and this one is {self.planner}")

    @property
    def uses(self) -> tuple[str, ...]:
        """The model, if there is one."""
        if self.planner == "openai":
            return (f"{CHAT}:{self.model}",)
        if self.planner == "ollama":
            return (f"{OLLAMA}:{self.model or os.environ.get('OLLAMA_MODEL', '').strip() or DEFAULT_MODEL}",)
        return ()

    def __call__(self, batch: Batch, resources: Resources) -> Query:
        """Plan for every request."""
        query = Query.of_chunks(batch, [[]] * len(batch))
        if self.planner == "scan":
            return query
        rows = [row for row, request in enumerate(batch.requests) if request.text.strip()]
        texts = [batch.requests[row].text for row in rows]
        by_row = dict(zip(rows, self._by_model(texts, resources) if self.uses else [None] * len(rows), strict=True))
        paths = item_paths(batch.catalog, resources)
        plans, notes = [], []
        for row, request in enumerate(batch.requests):
            plan, fallbacks = _fallen_back(request.text, by_row.get(row))
            notes += [replace(note, query=request.id) for note in fallbacks]
            if plan is not None:
                plan, gone = plan.over(partial(_called, paths=paths, visible=paths.visible_paths(batch.visible[row])))
                if gone:
                    message = Message("pipelines.plan-names-unseen", paths=gone)
                    notes.append(Note(_STEP, "failed", message, query=request.id))
            plans.append(None if plan is None else plan.as_dict())
        return replace(query, plan=tuple(plans), notes=tuple(notes))

    def _by_model(self, texts: Sequence[str], resources: Resources) -> list[ContextPlan | str]:
        model = resources.get(self.uses[0]).limited(seconds=self.seconds, tries=_TRIES)
        return model_plans(texts, model, f"{self.planner}:{self.uses[0].partition(':')[2]}")


def _fallen_back(text: str, by_model: ContextPlan | str | None) -> tuple[ContextPlan | None, list[Note]]:
    """The plan of a model, else by words, else none; and a note for each step down."""
    if isinstance(by_model, ContextPlan):
        return by_model, []
    why = [] if by_model is None else [Note(_STEP, "fell back", Message("pipelines.planned-by-words", reason=by_model))]
    plan = heuristic_plan(text, read_intent(text))
    if plan is None:
        why.append(Note(_STEP, "fell back", Message("pipelines.no-plan")))
    return plan, why


def _called(name: str, paths: ItemPaths, visible: BoolArray) -> tuple[str, ...]:
    """The visible paths for a name: the path of that name, else those that end with it, sorted."""
    name = name.replace("\\", "/").removeprefix("./").strip("/")
    matches = [paths.path.names[index] for index in paths.ends.get(name.lower(), ()) if visible[index]]
    return (name,) if name in matches else tuple(sorted(matches)[:_MOST_FILES])


@dataclass(frozen=True, kw_only=True)
class _InTextIndex(FirstN):
    """What both searches have: a text index, and the types of items that they find."""

    n: int
    index: Literal["fts5", "postgres"] = "fts5"
    types: tuple[str, ...] = ("file",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.types:
            raise ParameterError("types must name at least one type of item, for example file")
        check_item_types(self.types)

    @property
    def uses(self) -> tuple[str, ...]:
        """The text index."""
        return (f"text_index:{self.index}",)

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Open the index, so that an error is raised before anything runs.

        Raises:
            TextIndexError: it cannot be had.
        """
        resources.get(*self.uses)

    def _search(
        self, query: Query, resources: Resources, score: Callable[[TextIndex, int, IntArray], FloatArray]
    ) -> Candidates:
        """The best items that a request may get, by scores among all visible items."""
        batch = query.batch
        if not self.n:
            return Candidates.empty(len(batch))
        rows, index = rows_of(batch.catalog, resources, self.uses[0], self.types), resources.get(*self.uses)
        typed = batch.catalog.facts.type.are_any(self.types)
        scores, masks = [], []
        for request, (visible, eligible) in enumerate(zip(batch.visible, batch.eligible, strict=True)):
            mask: BoolArray = visible & typed
            row = np.zeros(len(batch.catalog))
            row[mask] = score(index, request, rows[mask])
            scores.append(row)
            masks.append(eligible & (row > 0))
        return ranked_by(scores, masks, depth=self.n)


@dataclass(frozen=True, kw_only=True)
class FullText(_InTextIndex):
    """Full-text search: files that hold words of a request in path or content, English endings taken off.

    Attributes:
        n: how many items are found for a request; 0 = none.
        words: `any`, an item must hold one of them, or `all`.
        of: which words, those of the request's chunks, `text`, or the `keywords` that the analysis found.
        index: `fts5`, of SQLite, in memory, or `postgres`, in the database that `CTXBENCH_POSTGRES` names (extra
            `postgres`; version 12 or newer, with pg_trgm).
        types: of the items that are searched.

    Words are split at whatever is no letter, digit or mark; a word of several parts, such as `config.yaml`, is found
    where these are next to each other. English function words are left out, so these alone find nothing. By
    `fts5` the score is BM25, in which a word in the path counts ten times, by `postgres` `ts_rank`, in which it weighs
    1.0 to 0.1. Only items that a request may see are counted, so that no others move a score. The path is the title,
    else the name. Each item counts as one chunk. Cost: linear in the items that hold a word, which `fts5` keeps for the
    words asked last; an item is indexed once. Source: document 002, `searchContent` and `searchByKeywords`.
    """

    n: int = 10
    words: Literal["any", "all"] = "any"
    of: Literal["text", "keywords"] = "text"

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Search for the words of every request."""

        def score(index: TextIndex, request: int, rows: IntArray) -> FloatArray:
            words = query.keywords[request] if self.of == "keywords" else " ".join(query.chunks(request)).split()
            return index.scores(words, rows, match_all=self.words == "all")

        return self._search(query, resources, score)


@dataclass(frozen=True, kw_only=True)
class Similar(_InTextIndex):
    """Fuzzy search: files whose path or content shares many trigrams with a request's text.

    Attributes:
        n: how many items are found for a request; 0 = none.
        threshold: only items that are more similar than this are found, 0 to 1.
        measure: of the path, `similarity`, the share of trigrams that both have of those that either has; or
            `word_similarity`, that of the path to the part of the text that is most like it. For contents it is always
            the first.
        index: `fts5`, which counts trigrams in this process, or `postgres`, by pg_trgm; as of `full_text`.
        types: of the items that are searched.

    The greater similarity of path and content is the score. A sentence is seldom similar to a path, and a long
    content never to a short text: one of more than |text| / threshold trigrams is not compared. A request without a
    word finds nothing. The path is the title, else the name. Each item counts as one chunk. Cost: linear in the
    trigrams of paths and of contents up to 2,000 characters; `postgres` reads every path. Source: document 002,
    `fuzzySearch`; pg_trgm.
    """

    n: int = 5
    threshold: float = 0.3
    measure: Literal["similarity", "word_similarity"] = "similarity"
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {**FirstN.limits, "threshold": (0, 1)}

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Compare the chunks of every request, put together, with the items."""

        def score(index: TextIndex, request: int, rows: IntArray) -> FloatArray:
            text = " ".join(query.chunks(request))
            return index.similar(text, rows, measure=self.measure, threshold=self.threshold)

        return self._search(query, resources, score)


@dataclass(frozen=True, kw_only=True)
class _CodeSearch(FirstN, ABC):
    """What these searches have in common: how many items they find, and of which types."""

    n: int = 20
    types: tuple[str, ...] = ("file",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.types:
            raise ParameterError("types must name at least one type of item: file or chunk")
        for item_type in self.types:
            check_choice("each of types", item_type, ("file", "chunk"))

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """The best items by score that each request may get; items without a score are left out."""
        batch = query.batch
        if not self.n or not len(batch):
            return Candidates.empty(len(batch))
        typed, scores, masks = batch.catalog.facts.type.are_any(self.types), [], []
        for request, eligible in enumerate(batch.eligible):
            scores.append(self._scores(query, request, resources))
            masks.append(eligible & typed & (scores[-1] > 0))
        return ranked_by(scores, masks, depth=self.n)

    @abstractmethod
    def _scores(self, query: Query, request: int, resources: Resources) -> FloatArray:
        """The score of every item for a request, shape (n_items,), >= 0."""


@dataclass(frozen=True, kw_only=True)
class CommitVotes(_CodeSearch):
    """Files changed by earlier commits whose messages resemble the request.

    Attributes:
        n: how many items are found for a request; 0 = none.
        types: of the items that are found: `file`, and `chunk` for definitions; for these only commits vote that
            changed them.
        commits: so many of the most similar commits vote, >= 1; of equals the latest.
        spread: a commit's vote for a file is its similarity / (files that it changed) ** spread, 0 to 2; at 0 a commit
            that changed many files says as much of each as one that changed it alone.
        agreement: and times (the share of the request's words, by weight and rarity, that its message holds) **
            agreement, 0 to 2; at 0 a commit that shares one word of ten votes by its similarity alone.

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
    agreement: float = later(0.0)
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {
        **FirstN.limits,
        "commits": (1, math.inf),
        "spread": (0, 2),
        "agreement": (0, 2),
    }

    def _scores(self, query: Query, request: int, resources: Resources) -> FloatArray:
        batch, history = query.batch, commit_history(query.batch.catalog, resources)
        chunks, weights = query.chunks(request), query.weights(request).tolist()
        visible = history.visible_commits(batch, request)
        voices = history.voices(chunks, weights, visible, self.commits, self.spread)
        if self.agreement:
            voices = voices * history.agreement(chunks, weights, visible) ** self.agreement
        return history.votes(voices)


@dataclass(frozen=True, kw_only=True)
class RecentChanges(_CodeSearch):
    """Files that were changed lately and often, whatever the request.

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
    without the share of the request's words that occur in the path, each by its chunk's weight and by how rare it is in
    the paths that the request sees; identifiers are split, English endings taken off. What has neither is not found, so
    a blank request finds nothing. Each item counts as one chunk. Cost: linear in the paths. Source: document 002, "Scan
    for files".
    """

    def _scores(self, query: Query, request: int, resources: Resources) -> FloatArray:
        paths, chunks = item_paths(query.batch.catalog, resources), query.chunks(request)
        visible = paths.visible_paths(query.batch.visible[request])
        score = np.zeros(len(visible))
        score[named_paths(query.batch.requests[request].text, paths.ends, visible)] = 1.0
        if not (patterns := _planned(query, request, "file_patterns", "patterns")):
            return paths.by_item(score + paths.shares(chunks, query.weights(request).tolist(), visible))
        for index in np.flatnonzero(visible).tolist():
            score[index] += sum(fits_pattern(paths.path.names[index], pattern) for pattern in patterns) / len(patterns)
        return paths.by_item(score)


@dataclass(frozen=True, kw_only=True)
class SymbolDefiners(_CodeSearch):
    """Files and definitions that define a name in the request.

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
        catalog, paths = query.batch.catalog, item_paths(query.batch.catalog, resources)
        names = _planned(query, request, "symbols_to_find", "symbols") or named_code(query.batch.requests[request].text)
        score = code_symbols(catalog, resources).matches(names, query.batch.visible[request])
        return np.where(catalog.facts.type.are("file"), paths.by_item(paths.best(score)), score)


_MOST_STARTS = 20  # a word that more paths hold says nothing of where to begin


@dataclass(frozen=True, kw_only=True)
class PlannedFiles(_CodeSearch):
    """Files that a request of one kind begins with, and those that an import links with one.

    Attributes:
        n: how many items are found for a request; 0 = none.
        of: `codebase`, requests about a whole codebase that name no code; they begin with the files whose paths hold a
            word of theirs, or another form of one in code (`code_words`), or match a plan's `file_patterns`. Or
            `names`, requests that name code; they begin with the files whose paths hold all parts of a name of several:
            `user_service.rs` for `UserService.find_by_email`.
        types: of the items that are found, as of `history`.
        linked: score of a file that imports one of these, or is imported by one, 0 to 1.
        entry: score of main files above which there is no folder but `src`, for `codebase`, 0 to 1.

    What a request begins with scores 1. A name, word or pattern of over 20 paths begins nowhere. Other requests find
    nothing. Each item counts as one chunk. Cost: linear in the paths; for a request that begins somewhere, the imports
    of the tree. Source: document 003, "Context Expansion Pipeline" and its examples.
    """

    of: Literal["codebase", "names"] = "codebase"
    linked: float = 0.9
    entry: float = 0.8
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {**FirstN.limits, "linked": (0, 1), "entry": (0, 1)}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("of", self.of, ("codebase", "names"))

    def _scores(self, query: Query, request: int, resources: Resources) -> FloatArray:
        paths, mask = item_paths(query.batch.catalog, resources), query.batch.visible[request]
        intent, visible = read_intent(query.batch.requests[request].text), paths.visible_paths(mask)
        score = np.zeros(len(visible))
        if self.of == "names":
            parts = ({part for part in name_parts(name) if len(part) > 1} for name in _pieces(intent.entities))
            rows = paths.holding(part for part in parts if len(part) > 1)
        elif not _is_wide(intent):
            return paths.by_item(score)
        else:
            score[visible & (paths.entries == 1.0)] = self.entry
            rows = self._rows_of_words(query, request, paths)
        starts = [row & visible for row in rows if 0 < np.count_nonzero(row & visible) <= _MOST_STARTS]
        if starts:
            start = np.any(starts, axis=0)
            score[code_trees(query.batch.catalog, resources).of(mask).near(np.flatnonzero(start))] = self.linked
            score[start] = 1.0
        return paths.by_item(score)

    def _rows_of_words(self, query: Query, request: int, paths: ItemPaths) -> list[BoolArray]:
        """The paths that match each pattern of a plan, else those that hold each word or another form of one."""
        if patterns := _planned(query, request, "file_patterns", "patterns"):
            return [
                np.array([fits_pattern(path, pattern) for path in paths.path.names], dtype=np.bool_)
                for pattern in patterns
            ]
        chunks = weighted_chunks(query.batch.requests[request].text, asking=0.0, forms=1.0, related=0.0)
        return paths.holding({word} for chunk, _ in chunks for word in name_parts(chunk))


def _is_wide(intent: QueryIntent) -> bool:
    """Whether a request is about a whole codebase, and names no code."""
    return intent.scope == "codebase" and not intent.entities


def _pieces(names: Sequence[str]) -> Iterator[str]:
    """The parts of dotted names, paths and the like."""
    return (piece for name in names for piece in re.split(r"\.|::|#|/", name))


@dataclass(frozen=True, kw_only=True)
class EntryPoints(_CodeSearch):
    """Files that a program or library starts from, by their names, whatever the request.

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
    """The texts under some names in a request's plan and its strategy, each once; none without a plan."""
    plan = query.plan[request] or {}
    values = [source.get(name) or () for name in names for source in (plan, plan.get("strategy") or {})]
    return list(dict.fromkeys(str(text) for texts in values for text in texts))


KIND_FACTOR = "file_kinds.factor"
"""Column of what the score was multiplied with for what the file is for."""
_CODE, _DOCUMENT, _MADE, _TEST = range(4)
_ASKS_DOCUMENTS = re.compile(
    r"\b(?:docs|documentation|document(?:s|ed|ing)?|readmes?|changelogs?|tutorials?|guides?)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class FileKinds(Strategy):
    """Multiply the score of files, and of definitions in them, by a factor for what the file is for.

    Attributes:
        documents: the factor of what people alone read: documentation, changelogs, the licence; 0 to 10. It is 1 for a
            request that speaks of documentation.
        made: that of what a program writes: lock files and generated ones, 0 to 10.
        tests: that of tests and what they read, 0 to 10.

    What a file is for, its path tells, of generated files their first lines, too. A file of several kinds is `made`
    before `documents` before `tests`. A file that the request names, and what is no file, stay unchanged. Behind
    scores >= 0; another is an error. `chunk_rank` becomes the place in the new order. Empty in, empty out. Cost: linear
    in the rows. Source: ours.
    """

    documents: float = 1.0
    made: float = 1.0
    tests: float = 1.0
    limits: ClassVar[Mapping[str, tuple[float, float]]] = dict.fromkeys(("documents", "made", "tests"), (0.0, 10.0))

    @property
    def off(self) -> bool:
        """Whether every factor is 1."""
        return self.documents == self.made == self.tests == 1.0

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Order anew.

        Raises:
            ParameterError: a score is below 0.
        """
        if self.off:
            return candidates
        searched = candidates.tier > 0
        if bool((candidates.score[searched] < 0).any()):
            lowest = float(candidates.score[searched].min())
            raise ParameterError(f"file_kinds needs scores of 0 or more, got {lowest:g}; put `weighted` in front of it")
        batch = query.batch
        item = candidates.item
        over = TEXT_FIELDS  # more than kinds need, but their hash is made for tokens, too
        kind = row_over(batch.catalog, resources, "kinds of files", over=over, make=_kinds_of, items=item)[item]
        factor = np.array([1.0, self.documents, self.made, self.tests])[kind]
        paths = item_paths(batch.catalog, resources)
        for at, request in enumerate(batch.requests):
            rows = candidates.rows(at)
            if _ASKS_DOCUMENTS.search(request.text):
                factor[rows][kind[rows] == _DOCUMENT] = 1.0
            named = np.zeros(len(paths.path.names), dtype=np.float64)
            named[named_paths(request.text, paths.ends, paths.visible_paths(batch.visible[at]))] = 1.0
            factor[rows][paths.by_item(named)[candidates.item[rows]] > 0] = 1.0
        return reranked(candidates.with_columns(**{KIND_FACTOR: factor}), candidates.score * factor)


def _kinds_of(items: Sequence[Item]) -> IntArray:
    return np.array([_kind_of(item) for item in items], dtype=np.int64)


def _kind_of(item: Item) -> int:
    if (path := file_path(item)) is None:
        return _CODE
    return _MADE if is_made_text(item.text) else _kind_of_path(path)


@functools.lru_cache(maxsize=1 << 16)  # a file has a hundred definitions
def _kind_of_path(path: str) -> int:
    if is_made_file(path):
        return _MADE
    return _DOCUMENT if is_document_path(path) else _TEST if is_test_path(path) else _CODE


DISTANCE = "code.distance"
"""Column of what was added: how many steps away from what was chosen."""
Neighbours: TypeAlias = Callable[[int], tuple[IntArray, FloatArray]]
"""The files that one file leads to, and how much so, in (0, 1]."""
Leads: TypeAlias = dict[int, tuple[float, int]]
"""What leads: by file a weight > 0, and the item of the file that is named as the origin."""
Row: TypeAlias = tuple[int, float, int, int]
"""What is added: item, score, the item that led there, and the distance."""


@dataclass(frozen=True)
class CodeLinks(Strategy):
    """Add files that the chosen files, and files of chosen definitions, lead to, pass by pass, each once.

    Attributes:
        by: `imports`, what a file imports, by the rules of its language; `references`, files that use names which it
            defines; `tests`, the test of a file and what a test is of, by their names; `co_change`, files that the same
            earlier commits changed.
        depth: so many passes, 0 to 5; 0 changes nothing.
        max_files: at most so many files per request, over all passes; 0 changes nothing.

    Only files that a search might offer are added and lead further; what the session holds does not lead. A file's
    score in a pass is the sum over what leads to it of the weight of the edge, in (0, 1], by the place of the one that
    leads, from 1, among what is chosen, or times half the score that it was added with; `via_item` is the one that
    gives most, the column `code.distance` the pass. All is read off what the request sees: files, commits and imports
    as they were at its time. A rank step behind orders all anew. Nothing chosen, nothing added. Cost: imports and names
    of a tree are read when it is first asked for; then linear in the edges of what is reached. Source: document 002,
    `traverse_imports`, `find_symbol_references`.
    """

    by: Literal["imports", "references", "tests", "co_change"] = "imports"
    depth: int = 1
    max_files: int = 5
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"depth": (0, 5), "max_files": (0, math.inf)}

    @property
    def off(self) -> bool:
        """Whether the step adds nothing."""
        return self.depth == 0 or self.max_files == 0

    @property
    def passes(self) -> int:
        """How many times it expands."""
        return self.depth

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Add what the chosen files lead to."""
        if self.off:
            return candidates
        trees, rows = code_trees(query.batch.catalog, resources), []
        leading = candidates.chosen & (candidates.origin != Origin.SESSION)
        for at, leading_rows in candidates.by_request(leading).items():
            chosen = candidates.item[leading_rows]
            tree = trees.of(query.batch.visible[at])
            leads = _leads(tree, chosen)
            free = query.batch.eligible[at][tree.item] & ~np.isin(tree.item, chosen)
            edges = self._edges(query.batch, at, tree, resources)
            rows += [(at, *row) for row in self._by_passes(tree, leads, free, edges)] if leads else []
        score = np.array([row[2] for row in rows], dtype=np.float64)
        numbers = np.array([(row[0], row[1], row[3], row[4]) for row in rows], dtype=np.int64).reshape(-1, 4)
        request, item, via, distance = numbers.T
        mode, origin = np.full(len(item), Mode.EXPANSION, dtype=np.int64), Origin.EXPANSION + distance - 1
        columns = {"score": score, "via_item": via, "origin": origin, "mode": mode}
        table = add_expanded(candidates, request, item, **columns)
        return with_values(table, request, item, {DISTANCE: distance.astype(np.float64)})

    def _by_passes(self, tree: CodeTree, leads: Leads, free: BoolArray, edges: Neighbours) -> Iterator[Row]:
        """The items found pass by pass: item, score, the item that led there, and the pass."""
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

    def _edges(self, batch: Batch, request: int, tree: CodeTree, resources: Resources) -> Neighbours:
        """Where each file of a request's tree leads."""
        if self.by == "co_change":
            past = commit_history(batch.catalog, resources)
            visible = past.visible_commits(batch, request)

            def changed_with(file: int) -> tuple[IntArray, FloatArray]:
                share = past.together(int(tree.item[file]), visible)[tree.item]
                return np.flatnonzero(share), share[share > 0]

            return changed_with
        names = {"imports": "imports", "references": "users", "tests": "tests"}
        edges: FileEdges = getattr(tree, names[self.by])
        return edges.of_file


def _leads(tree: CodeTree, chosen: IntArray) -> Leads:
    """The files that lead: those of the chosen items, each with 1 / the place of the first of them, and that item."""
    leads: Leads = {}
    for item in chosen.tolist():
        file = int(tree.file_at[tree.paths.path.code[item]])
        if file >= 0:
            leads.setdefault(file, (1.0 / (len(leads) + 1), item))
    return leads
