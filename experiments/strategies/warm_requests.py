"""Warm requests of many pipelines side by side in one process: what each costs beside the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ctxbench.evaluation.runner import Quantiles, time_embedding, time_requests
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch, Request
from ctxbench.model.resources import EMBEDDER, Resources, kind_of
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import Embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import TokenCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmRequests:
    """Seconds of warm requests.

    Attributes:
        request: by pipeline, a request from its resolution to its prompt, all vectors stored.
        chunks: by pipeline, the chunks of a request that are embedded if it is new, on average; 0 where none is.
        embedding: one new chunk, whole requests standing for chunks; None where no pipeline embeds any.
    """

    request: Mapping[str, Quantiles]
    chunks: Mapping[str, float]
    embedding: Quantiles | None


def time_warm_requests(
    pipelines: Mapping[str, Pipeline],
    catalog: Catalog,
    requests: Sequence[Request],
    *,
    embedder: Embedder,
    counter: TokenCounter,
    seconds: float = 60.0,
) -> WarmRequests:
    """Time pipelines over one catalog and the same requests; see `time_requests`."""
    new_resources = partial(local_resources, embedder, counter)
    found = time_requests(pipelines, catalog, requests, new_resources=new_resources, seconds=seconds)
    batch, resources = Batch.of(catalog, tuple(requests)), new_resources()
    chunks = {name: _chunks(pipeline, batch, resources) for name, pipeline in pipelines.items()}
    texts = [request.text for request in requests if request.text.strip()]
    embedding = time_embedding(embedder, texts) if texts and any(chunks.values()) else None
    return WarmRequests(request=found, chunks=chunks, embedding=embedding)


def _chunks(pipeline: Pipeline, batch: Batch, resources: Resources) -> float:
    """Chunks of a request that a pipeline embeds, on average."""
    if not any(kind_of(use) == EMBEDDER for use in pipeline.retrieve.uses):
        return 0.0
    return len(pipeline.analyse.call(batch, resources).text) / len(batch)
