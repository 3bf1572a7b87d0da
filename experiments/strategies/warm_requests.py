"""Warm requests of many pipelines side by side in one process, in turns: what each costs beside the others."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.bench.latency.clock import Contender, seconds_in_turns
from ctxbench.bench.latency.latency_results import Summary, summarise
from ctxbench.bench.progress_listener import Progress, silent
from ctxbench.core.items import Catalog
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.requests import Batch, Request
from ctxbench.core.stages import EMBEDDER, Resources, kind_of
from ctxbench.embedding.embedder import Embedder
from ctxbench.embedding.vectors import open_vectors
from ctxbench.index.resources import LocalResources
from ctxbench.text.tokens import TokenCounter

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
    progress: Progress = silent,
) -> InTurns:
    """Time pipelines over one catalog and the same requests by `seconds_in_turns`.

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
    own = {
        name: Contender(
            pipeline=pipeline,
            catalog=catalog,
            requests=requests,
            resources=LocalResources(open_vectors(embedder), counter),
        )
        for name, pipeline in pipelines.items()
    }
    taken = seconds_in_turns(own, rounds=rounds, progress=progress)
    batch = Batch.of(catalog, tuple(requests))
    chunks = {name: _chunks(one.pipeline, batch, one.resources) for name, one in own.items()}
    summaries = {name: summarise(samples) for name, samples in taken.items()}
    embedding = _one_chunk(embedder, requests) if any(chunks.values()) else None
    return InTurns(
        request={name: found for name, found in summaries.items() if found is not None},
        chunks=chunks,
        embedding=embedding,
    )


def _chunks(pipeline: Pipeline, batch: Batch, resources: Resources) -> float:
    """Chunks of a request that a pipeline embeds, on average."""
    if not any(kind_of(use) == EMBEDDER for use in pipeline.retrieve.uses):
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
