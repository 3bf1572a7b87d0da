"""The memory engine: search, build and preview, each one call of a pipeline over a workspace's memories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ctxbench.core.candidates import Candidates, rescored
from ctxbench.core.errors import ParameterError, SelectorError, suggest
from ctxbench.core.pipeline import Outcome, Pipeline
from ctxbench.core.query import Query
from ctxbench.core.registry import build
from ctxbench.core.requests import Batch, Request
from ctxbench.core.stages import EMBEDDER, Resources, Step
from ctxbench.core.strategy import Strategy
from ctxbench.core.times import instant
from ctxbench.embedding.embedder_names import open_embedder
from ctxbench.index.dense import chunks_of
from ctxbench.index.resources import LocalResources, local_resources
from ctxbench.library.embedders import EmbedderGiven, embedder_name
from ctxbench.memory.engine_errors import TEMPLATE, EngineError, typed_errors
from ctxbench.memory.engine_options import ContextOptions, SearchOptions
from ctxbench.memory.memory_results import SIMILARITY, BuiltContext, FoundMemories
from ctxbench.memory.query_vectors import QueryVectors
from ctxbench.selectors.definitions import definition
from ctxbench.text.templates import TEMPLATES
from ctxbench.text.tokens import open_counter

if TYPE_CHECKING:
    from ctxbench.stores.memory_store import MemoryStore

SHIPPED = {"default": "memory", "similarity": "dense"}
"""The rankers that are shipped selectors, which rank what they find; a vector without a text is for the last."""

DEFAULTS = ContextOptions(template="chat", budget=2000)

Ranker: TypeAlias = Callable[[Sequence[Mapping[str, Any]]], Sequence[float]]
"""From results, each with `memory` and `score` (similarity; None where it was not found by it), to a score each."""

_Query: TypeAlias = Sequence[tuple[str, tuple[float, ...]]]  # queries with their vectors; of a vector the text is empty


class ContextEngine:
    """Finds the memories that a query needs, and renders them for a prompt.

    Every call names its workspace and sees no other. A query is one vector, however many sentences it has. Whatever
    goes wrong is an `EngineError` that says its type; a failure is never an empty answer. Threads may share an engine,
    also while others write into its store.

    Attributes:
        progress: if any, is called with (texts embedded, texts to embed) while vectors are made.
        searches: how many there were.
        defaults: as they were given.

    Args:
        store: where the memories are.
        embedder: its name, such as `minilm`, or a function from texts to vectors.
        dimensions: how long its vectors must be; None = not looked at.
        defaults: options of contexts that are built without any; its template and budget also where options name none.
        counter: what counts tokens, such as `o200k` or `cl100k`.
        cached: how many query vectors are kept, and for how many seconds.

    Raises:
        EngineError: the embedder, its dimensions, the template or the counter is not what it should be.
    """

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
        with typed_errors():
            self._store = store
            model = open_embedder(embedder_name(embedder))
            if dimensions is not None and model.identity.dimensions != dimensions:
                actual = f"the embedder {model.identity.model} makes vectors of {model.identity.dimensions} dimensions"
                expected = f"{dimensions} are expected; name another embedder, or leave dimensions out"
                raise ParameterError(f"{actual}, and {expected}")
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

    @property
    def hit_rate(self) -> float:
        """The share of queries whose vector was cached, 0 to 1."""
        return self._vectors.hit_rate

    def search(self, query: str, workspace: str, options: SearchOptions | None = None) -> FoundMemories:
        """The best memories for a query, best first."""
        return self.search_many([query], workspace, options)[0]

    def search_many(
        self, queries: Sequence[str], workspace: str, options: SearchOptions | None = None
    ) -> list[FoundMemories]:
        """The same for several queries, answered together."""
        with typed_errors():
            return self._search(self._embedded(queries), workspace, options or SearchOptions())

    def search_by_vector(
        self, vector: Sequence[float], workspace: str, options: SearchOptions | None = None
    ) -> FoundMemories:
        """The memories nearest to a vector."""
        with typed_errors():
            return self._search(self._vector_query(vector), workspace, options or SearchOptions())[0]

    def build(self, query: str, workspace: str, options: ContextOptions | None = None) -> BuiltContext:
        """The context for a query: the best memories that fit into the budget, rendered."""
        with typed_errors():
            return self._build(self._embedded([query]), workspace, options)

    def build_by_vector(
        self, vector: Sequence[float], workspace: str, options: ContextOptions | None = None
    ) -> BuiltContext:
        """The context for a vector."""
        with typed_errors():
            return self._build(self._vector_query(vector), workspace, options)

    def preview(self, query: str, workspace: str, options: ContextOptions | None = None) -> BuiltContext:
        """What `build` would give; its `preview` tells ids, ranking scores and the share of the budget, too."""
        return self.build(query, workspace, options)

    def register_template(self, name: str, template: Mapping[str, Any]) -> None:
        """Add a template: `memory_format`, and as needed `header`, `separator`, `footer` and `metadata`.

        Raises:
            EngineError: the name is one of ours, or it lacks something or names an unknown variable.
        """
        with typed_errors():
            if name in TEMPLATES:
                raise ParameterError(f"{name!r} is one of the engine's own templates; name yours otherwise")
            build("format", "template", {"template": template})
            self._templates[name] = dict(template)

    def register_ranker(self, name: str, ranker: Ranker) -> None:
        """Add a ranker of search results; see `Ranker`.

        Raises:
            EngineError: the name is one of ours.
        """
        with typed_errors():
            if name in SHIPPED or name in RANKERS:
                raise ParameterError(f"{name!r} is one of the engine's own rankers; name yours otherwise")
        self._rankers[name] = ranker

    def embed(self, workspace: str) -> int:
        """Embed the memories of a workspace that have no vector yet, so that no search has to; returns how many."""
        with typed_errors():
            texts = [chunk for item in self._store.catalog(workspace) for chunk in chunks_of(item)]
            before = self._resources.stats.embedded
            self._resources.get(EMBEDDER)(texts)
            return self._resources.stats.embedded - before

    def clear_cache(self) -> None:
        """Forget the vectors of queries."""
        self._vectors.clear()

    def _search(self, query: _Query, workspace: str, options: SearchOptions) -> list[FoundMemories]:
        outcome = self._run(self._pipeline(options, query), query, workspace, options)
        return [FoundMemories(outcome, row) for row in range(len(query))]

    def _build(self, query: _Query, workspace: str, context_options: ContextOptions | None) -> BuiltContext:
        options = context_options or self.defaults
        budget = options.budget or self.defaults.budget or DEFAULTS.budget or 0
        name, form = self._template(options)
        pipeline = self._pipeline(options, query)
        fit = Step("fit", "rendered", build("fit", "rendered", {"tokens": budget}))
        pipeline = replace(pipeline, refine=(*pipeline.refine, fit), format=form)
        outcome = self._run(pipeline, query, workspace, options)
        context = pipeline.prompts(outcome, self._resources)[0].context
        tokens = int(self._resources.text_tokens([context])[0]) if context else 0
        counter = self._resources.identity("tokens")
        return BuiltContext(outcome, 0, context=context, tokens=tokens, budget=budget, template=name, counter=counter)

    def _run(self, pipeline: Pipeline, query: _Query, workspace: str, options: SearchOptions) -> Outcome:
        """Run the pipeline for each query; an error names the numbers of queries, not their texts."""
        self.searches += len(query)
        fields: dict[str, Any] = {"workspace": workspace, "user": options.user, "time": options.time}
        requests = [
            Request(id=f"query {number}", text=text, vector=vector, only=options.item_filter, **fields)
            for number, (text, vector) in enumerate(query, start=1)
        ]
        return pipeline.run(Batch.of(self._store.catalog(workspace), requests), self._resources)

    def _pipeline(self, options: SearchOptions, query: _Query) -> Pipeline:
        """A shipped pipeline, with relationships if requested, and the user's ranker after it."""
        ranker = self._rankers.get(options.ranker)
        if ranker is None and options.ranker not in SHIPPED:
            names = [*SHIPPED, *self._rankers]
            raise ParameterError(f"no ranker is called {options.ranker!r}{suggest(options.ranker, names)}")
        by_text = any(text for text, _ in query)
        shipped = definition(SHIPPED.get(options.ranker if by_text else "similarity", SHIPPED["default"]))
        pipeline = shipped.pipeline(shipped.values(None, {"n": options.limit}))
        steps: list[Any] = list(pipeline.refine)
        if options.relationships:
            steps.append(Step("expand", "links", build("expand", "links", {"depth": options.depth})))
        if ranker is not None:
            steps.append(Step("rank", options.ranker, _OwnRanker(ranker)))
        return replace(pipeline, refine=tuple(steps))

    def _template(self, options: ContextOptions) -> tuple[str, Step]:
        """The name of a context's template, and the format that writes by it.

        Raises:
            EngineError: there is no template of the name; names those there are.
        """
        name = options.template or self.defaults.template or DEFAULTS.template or ""
        if name not in self._templates:
            raise EngineError(TEMPLATE, f"no template is called {name!r}{suggest(name, self._templates)}")
        values = {"template": self._templates[name], "metadata": options.metadata}
        return name, Step("format", "template", build("format", "template", values))

    def _embedded(self, queries: Sequence[str]) -> _Query:
        """Queries that can be asked.

        Raises:
            ParameterError: one is no text, or blank.
        """
        for number, query in enumerate(queries, start=1):
            if not isinstance(query, str) or not query.strip():
                raise ParameterError(f"query {number} is blank; ask for something")
        return list(zip(queries, self._vectors.get(queries), strict=True))

    def _vector_query(self, vector: Sequence[float]) -> _Query:
        """A query of a vector with the right number of dimensions; the search checks the rest."""
        if len(vector) != self._dimensions:
            size = f"the vector has {len(vector)} dimensions, and the memories' have {self._dimensions}"
            raise ParameterError(f"{size}; embed the query with the same model")
        return [("", tuple(map(float, vector)))]


@dataclass(frozen=True)
class _OwnRanker(Strategy):
    """Score by an external function, which gets the results of a request and returns a number for each."""

    ranker: Ranker

    def __call__(self, query: Query, candidates: Candidates, _: Resources) -> Candidates:
        """Replace the scores by those of the function."""
        score = candidates.score.copy()
        for request in range(candidates.n_requests):
            memories = FoundMemories(Outcome(query, candidates), request)
            results = memories.every_result()
            try:
                scores = np.array([float(score) for score in self.ranker(results)], dtype=np.float64)
            except Exception as error:
                raise SelectorError(f"the ranker failed: {type(error).__name__}: {error}") from error
            wrong = [f"{len(scores)} for {len(results)} results"] if len(scores) != len(results) else []
            wrong += [f"{scores[n]} for {results[n]['memory']['id']!r}" for n in np.flatnonzero(~np.isfinite(scores))]
            if wrong:
                raise SelectorError(f"a ranker must give one finite number a result; it gave {wrong[0]}")
            score[memories.rows(chosen=True)] = scores
        similarity = {SIMILARITY: candidates.columns.get(SIMILARITY, candidates.score)}  # the score of `dense` is it
        return rescored(candidates.with_columns(**similarity), score)


RANKERS: Mapping[str, Ranker] = {
    "recency": lambda results: [float(instant(result["memory"]["created_at"])) for result in results],
    "confidence": lambda results: [result["memory"]["confidence"] for result in results],
}
"""The other rankers that there are, which order anew what the default finds."""
