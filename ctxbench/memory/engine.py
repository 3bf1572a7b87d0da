"""The memory engine: options, errors, results and caches."""

from __future__ import annotations

import copy
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from ctxbench.api.selectors import EmbedderGiven, Ranker, embedder_name
from ctxbench.io.cache import ProcessLock
from ctxbench.io.errors import (
    EmbeddingError,
    InputError,
    ParameterError,
    StorageError,
    UnknownNameError,
    UserError,
    check_range,
    suggest,
)
from ctxbench.io.rows import instant
from ctxbench.memory.stores import MemoryStore
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item
from ctxbench.model.registry import build, check_fields
from ctxbench.model.requests import Batch, Filter, Query, Request
from ctxbench.model.selection import Selection, selections
from ctxbench.model.strategies import Step
from ctxbench.pipelines.features import RETRIEVED
from ctxbench.pipelines.pipeline import Outcome, Pipeline
from ctxbench.pipelines.strategies.expand import TYPE
from ctxbench.pipelines.strategies.format import TEMPLATES
from ctxbench.search.dense import chunks_of
from ctxbench.search.embedders import Embedder, Vectors, open_embedder
from ctxbench.search.resources import LocalResources, local_resources
from ctxbench.search.tokens import BUDGET, open_counter
from ctxbench.selectors.definitions import find_definition
from ctxbench.selectors.external import Rerank

EMBEDDING, SEARCH, STORAGE, VALIDATION = "embedding_error", "search_error", "storage_error", "validation_error"
TEMPLATE = "template_not_found"


class EngineError(UserError):
    """A call of the engine failed.

    Attributes:
        type: `embedding_error`, `search_error`, `storage_error`, `validation_error` or `template_not_found`.
    """

    def __init__(self, type: str, message: str) -> None:  # noqa: A002 - the document's name
        self.type = type
        super().__init__(message)


_GIVEN = (ParameterError, InputError, UnknownNameError)
_TYPES = ((EmbeddingError, EMBEDDING), (StorageError, STORAGE), (_GIVEN, VALIDATION), (UserError, SEARCH))


@contextmanager
def typed_errors() -> Iterator[None]:
    """Convert expected errors inside the block or function into an `EngineError`; bugs keep their type."""
    try:
        yield
    except EngineError:
        raise
    except UserError as error:
        raise EngineError(next(name for kind, name in _TYPES if isinstance(error, kind)), str(error)) from error


MOST_RESULTS = 100  # as in shipped selectors
DEEPEST = 5
MOST_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """The options of a search.

    Attributes:
        limit: the largest number of results, 1 to 100, without related memories.
        kinds: only memories of these kinds, such as `fact`; empty = all.
        since, before: only memories created in this time, ISO 8601.
        confidence: only memories with at least this confidence, 0 to 1.
        conversation: only memories of this conversation.
        relationships: whether to add related memories.
        depth: the largest number of relationships to follow, 1 to 5.
        ranker: `default`, `spec`, `similarity`, `recency`, `confidence`, a registered one, or a function (`Ranker`).
        settings: parameters of the selector that ranks, such as `{"recency": 0.5}` of `spec`; see `SHIPPED`.
        user: the user whose private memories are included.
        time: search the versions of this time, ISO 8601, by default in UTC. None = now.

    Raises:
        EngineError: an option has a wrong type, or is out of range.
    """

    limit: int = 10
    kinds: tuple[str, ...] = ()
    since: str | None = None
    before: str | None = None
    confidence: float | None = None
    conversation: str | None = None
    relationships: bool = False
    depth: int = 1
    ranker: str | Ranker = "default"
    settings: Mapping[str, float] = field(default_factory=dict)
    user: str | None = None
    time: str | None = None

    @typed_errors()
    def __post_init__(self) -> None:
        check_fields(self)
        check_range("limit", self.limit, 1, MOST_RESULTS)
        check_range("depth", self.depth, 1, DEEPEST)

    @property
    def item_filter(self) -> Filter:
        """The filter of the search."""
        unchanged = ("kinds", "since", "before", "confidence", "conversation")
        return Filter(types=("memory",), **{name: getattr(self, name) for name in unchanged})


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions(SearchOptions):
    """The options of building a context.

    Attributes:
        template: `chat`, `detailed`, `summary`, a registered one, or the fields of another, as `register_template`
            takes them; None = the default of the engine.
        budget: tokens of the rendered context, 1 to 1,000,000; None = the default of the engine.
        metadata: whether to show kind, confidence and time; None = the default of the template.
    """

    template: str | Mapping[str, Any] | None = None
    budget: int | None = None
    metadata: bool | None = None

    def __post_init__(self) -> None:
        SearchOptions.__post_init__(self)
        if self.budget is not None:
            with typed_errors():
                check_range("budget", self.budget, 1, MOST_TOKENS)


SIMILARITY = "similarity.score"
_SAID = {  # fields of items by the names of the specification
    "workspace_id": "workspace",
    "type": "kind",
    "content": "text",
    "confidence": "confidence",
    "created_at": "created",
    "conversation_id": "conversation",
}


@dataclass(frozen=True, eq=False, repr=False)
class FoundMemories:
    """The memories found for one query.

    Attributes:
        outcome: the outcome of the pipeline for several queries.
        request_index: the index of the query.
    """

    outcome: Outcome
    request_index: int

    def __repr__(self) -> str:
        return f"{type(self).__name__}({[result['memory']['id'] for result in self.every_result()]})"

    @property
    def catalog(self) -> Catalog:
        """The workspace's memories, all versions."""
        return self.outcome.query.batch.catalog

    @property
    def selection(self) -> Selection:
        """The items offered and excluded."""
        return selections(self.outcome.query, self.outcome.candidates)[self.request_index]

    @property
    def contents(self) -> list[str]:
        """The texts of the results, best first."""
        return [result["memory"]["content"] for result in self.results()]

    def results(self) -> list[dict[str, Any]]:
        """The results, best first: `memory`, `score` (similarity), `rank` from 1, and perhaps `relationships`.

        Related memories are in `relationships` of the result that they were reached from, with `depth`, the type of
        the `relationship`, and the `path` of ids. If that result was excluded, they are results.
        """
        table = self.outcome.candidates
        rows = table.rows(self.request_index)
        via = dict(zip(table.item[rows].tolist(), table.via_item[rows].tolist(), strict=True))
        results_by_row = dict(zip(self.rows(chosen=True), self.every_result(), strict=True))
        paths = {row: _path(int(table.item[row]), via) for row in results_by_row}
        first = {path[0]: row for row, path in paths.items() if len(path) == 1}
        related: dict[int, list[dict[str, Any]]] = {
            row: [] for row, path in paths.items() if len(path) == 1 or path[0] not in first
        }
        for row, path in paths.items():
            if row not in related:
                related[first[path[0]]].append(self._related(row, path))
        for rank, (row, related_result) in enumerate(related.items(), start=1):
            results_by_row[row] |= {"rank": rank, "relationships": related_result} if related_result else {"rank": rank}
        return [results_by_row[row] for row in related]

    def every_result(self) -> list[dict[str, Any]]:
        """All results in one list, best first, each with `memory` and `score`, for a ranker."""
        rows = self.rows(chosen=True)
        return [{"memory": memory_dict(self._item(row)), "score": self._similarity(row)} for row in rows]

    def explained(self) -> list[dict[str, Any]]:
        """Candidates, chosen ones first: `id`, `ranking` score, `scores` by column, and the `rule` that excluded it."""
        table, explanations = self.outcome.candidates, []
        for row in [*self.rows(chosen=True), *self.rows(chosen=False)]:
            scores = {name: float(column[row]) for name, column in table.columns.items() if not np.isnan(column[row])}
            rule = table.rules[int(table.out[row])]
            explanation = {
                "id": memory_dict(self._item(row))["id"],
                "ranking": float(table.score[row]),
                "scores": scores,
            }
            explanations.append({**explanation, "rule": None if rule is None else str(rule)})
        return explanations

    def rows(self, *, chosen: bool) -> list[int]:
        """The chosen rows of the query, or the others, in order."""
        table = self.outcome.candidates
        rows = table.rows(self.request_index)
        positions: list[int] = (np.flatnonzero(table.chosen[rows] == chosen) + rows.start).tolist()
        return positions

    def _item(self, row: int) -> Item:
        item: Item = self.catalog[int(self.outcome.candidates.item[row])]
        return item

    def _similarity(self, row: int) -> float | None:
        table = self.outcome.candidates
        columns = (table.columns.get(name) for name in (SIMILARITY, "dense", RETRIEVED))
        value = float(next((column for column in columns if column is not None), table.score)[row])
        return None if np.isnan(value) else min(max(value, 0.0), 1.0)

    def _related(self, row: int, path: list[int]) -> dict[str, Any]:
        kind = self.catalog.facts.link_types[int(self.outcome.candidates.columns[TYPE][row])]
        names = [memory_dict(self.catalog[position])["id"] for position in path]
        return {"memory": memory_dict(self._item(row)), "relationship": kind, "depth": len(path) - 1, "path": names}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class BuiltContext(FoundMemories):
    """A context for a prompt.

    Attributes:
        context: the rendered text; empty if nothing was found, or nothing fits.
        tokens: the tokens of the text.
        budget: the largest number of tokens.
        template: the name of the template.
        counter: the name of the token counter.
    """

    context: str
    tokens: int
    budget: int
    template: str
    counter: str

    @property
    def truncated(self) -> bool:
        """Whether the budget excluded or shortened a memory."""
        return is_truncated(self.outcome.candidates, self.request_index)

    def as_dict(self) -> dict[str, Any]:
        """`context`, `tokenCount`, `memories`, `truncated` and `template`, as in the specification."""
        data = {"context": self.context, "tokenCount": self.tokens, "counter": self.counter}
        return data | {"memories": self.results(), "truncated": self.truncated, "template": self.template}

    def preview(self) -> dict[str, Any]:
        """`as_dict` with `memoryIds`, `rankingScores` by id, and `budgetUsed`, a percentage."""
        scores = {
            explanation["id"]: explanation["ranking"] for explanation in self.explained() if explanation["rule"] is None
        }
        used = round(100.0 * self.tokens / self.budget, 1)
        return {**self.as_dict(), "memoryIds": list(scores), "rankingScores": scores, "budgetUsed": used}


def is_truncated(table: Candidates, request: int) -> bool:
    """Whether a budget excluded or shortened an item of a request."""
    rows = table.rows(request)
    chosen = table.chosen[rows]
    rules = {table.rules[rule] for rule in table.out[rows][~chosen].tolist()}
    return any(rule is not None and rule.code == BUDGET for rule in rules) or not table.shows_all[rows][chosen].all()


def template_name(template: str | Mapping[str, Any]) -> str:
    """The name of a template; `custom` if it has fields and no name."""
    return template if isinstance(template, str) else str(template.get("name") or "custom")


def links_step(depth: int) -> Step:
    """The step that adds related memories, up to a number of relationships."""
    return Step("expand", "links", build("expand", "links", {"depth": depth}))


def rendered(
    pipeline: Pipeline, template: str | Mapping[str, Any], *, budget: int, metadata: bool | None = None
) -> Pipeline:
    """A pipeline whose context is written by a template and fits into a budget of tokens.

    Raises:
        ParameterError: the template or the budget is wrong.
    """
    pack = Step("pack", "rendered", build("pack", "rendered", {"tokens": budget}))
    form = Step("format", "template", build("format", "template", {"template": template, "metadata": metadata}))
    return replace(pipeline, refine=(*pipeline.refine, pack), format=form)


def _path(item: int, via: Mapping[int, int]) -> list[int]:
    """The items that led to an item, and the item itself."""
    path = [item]
    while via[path[0]] >= 0:
        path.insert(0, via[path[0]])
    return path


def memory_dict(item: Item) -> dict[str, Any]:
    """A memory with the names of the specification, without empty fields."""
    name, _, version = item.name.rpartition("@")
    row: dict[str, Any] = {"id": name, "version": int(version) if version.isdigit() else 1}
    row |= {key: getattr(item, field) for key, field in _SAID.items()}
    row["metadata"] = copy.deepcopy(dict(item.metadata)) or None
    return {key: value for key, value in row.items() if value is not None}


@dataclass
class QueryVectors:
    """A thread-safe cache of vectors of queries.

    Attributes:
        embedder: computes missing vectors.
        size: the largest number of vectors, 0 or more; the least recently used is removed first.
        seconds: the lifetime of a vector, 0 or more.
        clock: returns seconds; for tests.
    """

    embedder: Embedder
    size: int = 1000
    seconds: float = 3600.0
    clock: Callable[[], float] = time.monotonic
    _cached: dict[str, tuple[float, tuple[float, ...]]] = field(default_factory=dict)  # by time; last used last
    _lock: ProcessLock = field(default_factory=ProcessLock, repr=False)  # not held during computation

    def __post_init__(self) -> None:
        check_range("size", self.size, 0)
        check_range("seconds", self.seconds, 0)

    def get(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """The vectors of texts, each of unit length.

        Raises:
            EmbeddingError: a text cannot be embedded, or there is no model; nothing is cached.
        """
        time = self.clock()
        with self._lock:
            cached = {text: self._cached.get(text, (-math.inf, ())) for text in texts}
            missing = [text for text, (created, _) in cached.items() if time - created >= self.seconds]
        if missing:
            rows = Vectors(self.embedder, None).get(missing, kind="query")
            cached |= {text: (time, tuple(map(float, row))) for text, row in zip(missing, rows, strict=True)}
        with self._lock:
            for text, entry in cached.items():
                self._cached.pop(text, None)
                self._cached[text] = entry
            while len(self._cached) > self.size:
                del self._cached[next(iter(self._cached))]
        return [cached[text][1] for text in texts]


SHIPPED = {"default": "memory", "spec": "memory-spec", "similarity": "dense"}
"""The rankers that are shipped selectors: queries by vector use `similarity` as the default; `spec` is the formula of
the specification."""

DEFAULTS = ContextOptions(template="chat", budget=2000)

_Query: TypeAlias = Sequence[
    tuple[str, tuple[float, ...]]
]  # texts with vectors; the text is empty for a query by vector


class ContextEngine:
    """Searches memories, and renders them for a prompt.

    Every call names its workspace and sees no other. A query is one vector. Errors are `EngineError` with a type; a
    failure is never an empty answer. Threads may share an engine, also while others write into its store.

    Attributes:
        progress: if set, called with (texts embedded, texts to embed).
        searches: the number of searches.
        defaults: the default options.

    Args:
        store: the store of the memories.
        embedder: its name, such as `minilm`, or a function from texts to vectors.
        dimensions: the expected length of vectors; None = any.
        defaults: the default options of contexts.
        counter: the name of the token counter, such as `o200k` or `cl100k`.
        cached: the size and the seconds of the cache of query vectors.

    Raises:
        EngineError: the embedder, its dimensions, the template or the counter is wrong.
    """

    @typed_errors()
    def __init__(
        self,
        store: MemoryStore,
        *,
        embedder: EmbedderGiven = "minilm",
        dimensions: int | None = None,
        defaults: ContextOptions = DEFAULTS,
        counter: str = "o200k",
        cached: tuple[int, float] = (1000, 3600.0),
    ) -> None:
        self._store = store
        model = open_embedder(embedder_name(embedder))
        if dimensions is not None and model.identity.dimensions != dimensions:
            raise ParameterError(
                f"the vectors of {model.identity.model} have {model.identity.dimensions} dimensions, expected "
                f"{dimensions}; name another embedder, or remove dimensions"
            )
        self.progress: Callable[[int, int], None] | None = None
        self._resources: LocalResources = local_resources(
            model, open_counter(counter), progress=lambda *n: self.progress and self.progress(*n)
        )
        self._vectors = QueryVectors(model, *cached)
        self._dimensions = model.identity.dimensions
        self._templates: dict[str, str | Mapping[str, Any]] = {name: name for name in TEMPLATES}
        self._rankers: dict[str, Ranker] = dict(RANKERS)
        self.searches = 0
        self.defaults = defaults
        self._template(self.defaults)

    def search(self, query: str, workspace: str, options: SearchOptions | None = None) -> FoundMemories:
        """The best memories for a query, best first."""
        return self.search_many([query], workspace, options)[0]

    @typed_errors()
    def search_many(
        self, queries: Sequence[str], workspace: str, options: SearchOptions | None = None
    ) -> list[FoundMemories]:
        """Search for several queries together."""
        return self._search(self._embedded(queries), workspace, options or SearchOptions())

    @typed_errors()
    def search_by_vector(
        self, vector: Sequence[float], workspace: str, options: SearchOptions | None = None
    ) -> FoundMemories:
        """The memories nearest to a vector."""
        return self._search(self._vector_query(vector), workspace, options or SearchOptions())[0]

    @typed_errors()
    def build(self, query: str, workspace: str, options: ContextOptions | None = None) -> BuiltContext:
        """The context for a query: the best memories that fit into the budget."""
        return self._build(self._embedded([query]), workspace, options)

    @typed_errors()
    def build_by_vector(
        self, vector: Sequence[float], workspace: str, options: ContextOptions | None = None
    ) -> BuiltContext:
        """The context for a vector."""
        return self._build(self._vector_query(vector), workspace, options)

    def preview(self, query: str, workspace: str, options: ContextOptions | None = None) -> BuiltContext:
        """The result of `build`; its `preview` also has ids, ranking scores and the share of the budget."""
        return self.build(query, workspace, options)

    @typed_errors()
    def register_template(self, name: str, template: Mapping[str, Any]) -> None:
        """Add a template: `memory_format`, and perhaps `header`, `separator`, `footer` and `metadata`.

        Raises:
            EngineError: the name is a shipped one, or the template has a missing field or an unknown variable.
        """
        if name in TEMPLATES:
            raise ParameterError(f"{name!r} is a shipped template; choose another name")
        build("format", "template", {"template": template})
        self._templates[name] = dict(template)

    @typed_errors()
    def register_ranker(self, name: str, ranker: Ranker) -> None:
        """Add a ranker of search results, which have `memory` and `score` (similarity or None); see `Ranker`.

        Raises:
            EngineError: the name is a shipped one.
        """
        if name in SHIPPED or name in RANKERS:
            raise ParameterError(f"{name!r} is a shipped ranker; choose another name")
        self._rankers[name] = ranker

    @typed_errors()
    def embed(self, workspace: str) -> int:
        """Embed the memories of a workspace without a vector; returns their number."""
        texts = [chunk for item in self._store.catalog(workspace) for chunk in chunks_of(item)]
        before = self._resources.stats.embedded
        self._resources.vectors(texts, kind="item")
        return self._resources.stats.embedded - before

    def _search(self, query: _Query, workspace: str, options: SearchOptions) -> list[FoundMemories]:
        outcome = self._run(self._pipeline(options, query), query, workspace, options)
        return [FoundMemories(outcome, row) for row in range(len(query))]

    def _build(self, query: _Query, workspace: str, context_options: ContextOptions | None) -> BuiltContext:
        options = context_options or self.defaults
        budget = options.budget or self.defaults.budget or DEFAULTS.budget or 0
        name, template = self._template(options)
        pipeline = rendered(self._pipeline(options, query), template, budget=budget, metadata=options.metadata)
        outcome = self._run(pipeline, query, workspace, options)
        context = pipeline.prompts(outcome, self._resources)[0].context
        tokens = int(self._resources.text_tokens([context])[0]) if context else 0
        counter = self._resources.identity("tokens")
        return BuiltContext(outcome, 0, context=context, tokens=tokens, budget=budget, template=name, counter=counter)

    def _run(self, pipeline: Pipeline, query: _Query, workspace: str, options: SearchOptions) -> Outcome:
        """Run the pipeline for all queries; errors name their numbers, not their texts."""
        self.searches += len(query)
        fields: dict[str, Any] = {"workspace": workspace, "user": options.user, "time": options.time}
        requests = [
            Request(id=f"query {number}", text=text, vector=vector, only=options.item_filter, **fields)
            for number, (text, vector) in enumerate(query, start=1)
        ]
        return pipeline.run(Batch.of(self._store.catalog(workspace), requests), self._resources)

    def _pipeline(self, options: SearchOptions, query: _Query) -> Pipeline:
        """A shipped pipeline, perhaps with relationships and a registered ranker."""
        name = options.ranker if isinstance(options.ranker, str) else "custom"
        ranker = self._rankers.get(name) if isinstance(options.ranker, str) else options.ranker
        if ranker is None and name not in SHIPPED:
            raise ParameterError(f"unknown ranker {name!r}{suggest(name, [*SHIPPED, *self._rankers])}")
        base = name if name in SHIPPED else "default"
        base = base if base != "default" or any(text for text, _ in query) else "similarity"
        selector, preset = find_definition(SHIPPED[base])
        pipeline = selector.pipeline(selector.values(preset, {"n": options.limit, **options.settings}))
        steps: list[Any] = list(pipeline.refine)
        if options.relationships:
            steps.append(links_step(options.depth))
        if ranker is not None:
            steps.append(Step("rank", name, Rerank(ranker, keeps=SIMILARITY, results=_results_of)))
        return replace(pipeline, refine=tuple(steps))

    def _template(self, options: ContextOptions) -> tuple[str, str | Mapping[str, Any]]:
        """The name of the template of a context, and the template.

        Raises:
            EngineError: there is no template with this name.
        """
        templates = (options.template, self.defaults.template, DEFAULTS.template)
        template = next(template for template in templates if template is not None)
        name = template_name(template)
        if not isinstance(template, str):
            return name, template
        if name not in self._templates:
            raise EngineError(TEMPLATE, f"unknown template {name!r}{suggest(name, self._templates)}")
        return name, self._templates[name]

    def _embedded(self, queries: Sequence[str]) -> _Query:
        """Queries with their vectors.

        Raises:
            ParameterError: a query is not a text, or blank.
        """
        for number, query in enumerate(queries, start=1):
            if not isinstance(query, str) or not query.strip():
                raise ParameterError(f"query {number} is blank")
        return list(zip(queries, self._vectors.get(queries), strict=True))

    def _vector_query(self, vector: Sequence[float]) -> _Query:
        """A query of a vector with the right number of dimensions; the search checks the rest."""
        if len(vector) != self._dimensions:
            raise ParameterError(
                f"the vector has {len(vector)} dimensions, expected {self._dimensions}; use the embedder of memories"
            )
        return [("", tuple(map(float, vector)))]


def _results_of(query: Query, candidates: Candidates, request: int) -> list[dict[str, Any]]:
    """The results of one request, for a ranker."""
    return FoundMemories(Outcome(query, candidates), request).every_result()


RANKERS: Mapping[str, Ranker] = {
    "recency": lambda results: [float(instant(result["memory"]["created_at"])) for result in results],
    "confidence": lambda results: [result["memory"]["confidence"] for result in results],
}
"""Rankers that reorder the results of the default."""


@dataclass(eq=False)
class KeptContext:
    """The outputs of one request's steps.

    Attributes:
        catalog: the hash of the catalog.
        thread, user: the thread and the user of the request.
        outputs: the memo of the pipeline.
        answer: the answer, valid until a step runs again.
        lock: held during the request, so that equal requests wait for it.
    """

    catalog: str
    thread: str | None
    user: str | None
    outputs: dict[str, Any] = field(default_factory=dict)
    answer: Any = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    used: float = 0.0


class ContextCache:
    """A thread-safe cache of contexts by the key of their request (`batch_key`).

    A key includes the catalog, so that contexts of an earlier catalog are not found; they are removed when there is a
    context of a later one.

    Args:
        size: the largest number of contexts, 0 or more; the least recently used is removed first.
        seconds: the lifetime after the last use, 0 or more.
        clock: returns seconds; for tests.
    """

    def __init__(self, size: int = 100, seconds: float = 30.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        check_range("size", size, 0)
        check_range("seconds", seconds, 0)
        self._size, self._seconds, self._clock = size, seconds, clock
        self._contexts: dict[str, KeptContext] = {}  # last used last
        self._lock = threading.Lock()

    def __contains__(self, key: str) -> bool:
        with self._lock:
            self._drop_old()
            return key in self._contexts

    def entry(self, key: str, *, catalog: str, thread: str | None, user: str | None) -> KeptContext:
        """The entry of a key, perhaps a new one; updates its time of use."""
        with self._lock:
            self._drop_old()
            entry = self._contexts.pop(key, None)
            if entry is None:
                entry = KeptContext(catalog, thread, user)
                # free the memory of earlier catalogs of the user
                self._keep_only(lambda entry: entry.user != user or entry.catalog == catalog)
            entry.used = self._clock()
            self._contexts[key] = entry
            while len(self._contexts) > self._size:
                del self._contexts[next(iter(self._contexts))]
            return entry

    def forget(self, *, thread: str | None = None, user: str | None = None) -> int:
        """Remove the contexts of a thread, a user, or both; by default all. Returns their number."""
        with self._lock:
            before = len(self._contexts)
            self._keep_only(
                lambda entry: (
                    (thread is not None and entry.thread != thread) or (user is not None and entry.user != user)
                )
            )
            return before - len(self._contexts)

    def _drop_old(self) -> None:
        end = self._clock() - self._seconds
        for key in [key for key, entry in self._contexts.items() if entry.used <= end]:
            del self._contexts[key]

    def _keep_only(self, is_kept: Callable[[KeptContext], bool]) -> None:
        self._contexts = {key: entry for key, entry in self._contexts.items() if is_kept(entry)}
