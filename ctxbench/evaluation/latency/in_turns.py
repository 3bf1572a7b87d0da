"""Warm requests of many pipelines side by side in one process, in turns: what each costs beside the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.embedding.base import Embedder
from ctxbench.embedding.store import VectorStore
from ctxbench.embedding.vectors import Vectors
from ctxbench.errors import ParameterError
from ctxbench.evaluation.latency.clock import Clock, TimedEmbedder, TimedResources, ask
from ctxbench.evaluation.latency.results import WHOLE, Summary, summarise
from ctxbench.index.resources import LocalResources
from ctxbench.items import Catalog
from ctxbench.pipeline import Pipeline
from ctxbench.requests import Batch, Request
from ctxbench.tokens import TokenCounter

_EMBEDDED = 40  # texts that the time of one is taken from


@dataclass(frozen=True, slots=True, kw_only=True)
class InTurns:
    """Seconds of warm requests.

    Attributes:
        request: by pipeline, a request from its resolution to its prompt, all vectors stored.
        chunks: by pipeline, the chunks of a request that are embedded if it is new, on average; 0 where none is.
        embedding: one new chunk; None where no pipeline embeds any.
    """

    request: Mapping[str, Summary]
    chunks: Mapping[str, float]
    embedding: Summary | None


def warm_in_turns(
    pipelines: Mapping[str, Pipeline],
    catalog: Catalog,
    requests: Sequence[Request],
    *,
    embedder: Embedder,
    counter: TokenCounter,
    rounds: int = 5,
    progress: Callable[[str, int, int], None] | None = None,
) -> InTurns:
    """Ask every pipeline the same requests, one at a time, in several rounds.

    Each has resources of its own, so that none finds what another has made, and has answered all requests once
    before it is timed. In a round one pipeline comes after the other, in every second round backwards, so that drift
    of the machine hits all alike. Nothing is shared between requests but what a live process keeps.

    Args:
        pipelines: by name.
        catalog: what all requests are over.
        requests: at least one; each may get what it says.
        embedder: of the pipelines; its texts are looked up in this machine's vector store.
        counter: of tokens.
        rounds: >= 1.
        progress: told (what, done, all).

    Raises:
        ParameterError: there is no request, or no round.
    """
    if not requests or rounds < 1:
        raise ParameterError("latency in turns needs one request and one round at least")
    timed, clock = TimedEmbedder(embedder), Clock()
    tell = progress or (lambda _what, _done, _all: None)
    steps = (rounds + 1) * len(pipelines)
    own = {name: _resources(timed, counter, clock) for name in pipelines}
    for done, (name, pipeline) in enumerate(pipelines.items()):
        tell(f"latency, {name}", done, steps)
        for request in requests:
            ask(pipeline, catalog, request, resources=own[name], clock=clock)
    taken: dict[str, list[list[float]]] = {name: [] for name in pipelines}
    for turn in range(rounds):
        for place, name in enumerate(pipelines if turn % 2 == 0 else reversed(list(pipelines))):
            tell(f"latency, {name}", (turn + 1) * len(pipelines) + place, steps)
            samples = []
            for request in requests:
                ask(pipelines[name], catalog, request, resources=own[name], clock=clock)
                samples.append(clock.seconds[WHOLE])
            taken[name].append(samples)
    tell("latency", steps, steps)
    batch = Batch.of(catalog, tuple(requests))
    chunks = {name: _chunks(pipeline, batch, own[name]) for name, pipeline in pipelines.items()}
    summaries = {name: summarise(samples) for name, samples in taken.items()}
    embedding = _one_chunk(embedder, requests) if any(chunks.values()) else None
    return InTurns(
        request={name: found for name, found in summaries.items() if found is not None},
        chunks=chunks,
        embedding=embedding,
    )


def _resources(embedder: TimedEmbedder, counter: TokenCounter, clock: Clock) -> TimedResources:
    vectors = Vectors(embedder, VectorStore(embedder.identity))
    return TimedResources(LocalResources(vectors, counter), embedder, clock)


def _chunks(pipeline: Pipeline, batch: Batch, resources: TimedResources) -> float:
    """Chunks of a request that a pipeline embeds, on average."""
    if "embedder" not in pipeline.retrieve.uses:
        return 0.0
    return len(pipeline.analyse.call(batch, resources).text) / len(batch)


def _one_chunk(embedder: Embedder, requests: Sequence[Request]) -> Summary | None:
    """Seconds to embed one text that is new, the model loaded; whole requests stand for chunks."""
    texts = [request.text for request in requests if request.text.strip()][:_EMBEDDED]
    embedder.embed(texts[:1])
    taken = []
    for text in texts:
        begin = time.perf_counter()
        embedder.embed([text])
        taken.append(time.perf_counter() - begin)
    return summarise([taken]) if np.any(taken) else None
