"""How long warm requests take, asked one at a time in this process."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.bench.progress_listener import Progress, silent
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.requests import Batch, Request
from ctxbench.core.stages import Resources
from ctxbench.embedding.embedder import Embedder


@dataclass(frozen=True, slots=True)
class Quantiles:
    """The distribution of some times.

    Attributes:
        n: how many times.
        p50, p95, p99: quantiles in seconds, interpolated between the two nearest times.
    """

    n: int
    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, nanoseconds: Sequence[int]) -> Quantiles:
        """The quantiles of at least one time."""
        p50, p95, p99 = (np.quantile(nanoseconds, (0.5, 0.95, 0.99)) / 1e9).tolist()
        return cls(len(nanoseconds), p50, p95, p99)


def requests_like(catalog: Catalog, n: int = 40) -> tuple[Request, ...]:
    """Make at most `n` requests from different descriptions of items, spread over the catalog.

    An item without a description lends its name.
    """
    texts = list(dict.fromkeys(item.description or item.name for item in catalog))
    n = min(n, len(texts))
    return tuple(Request(id=f"like-{index}", text=texts[index * len(texts) // n]) for index in range(n))


def time_requests(
    pipelines: Mapping[str, Pipeline],
    catalog: Catalog,
    requests: Sequence[Request],
    *,
    new_resources: Callable[[], Resources],
    seconds: float = 60.0,
    progress: Progress = silent,
) -> dict[str, Quantiles]:
    """Time requests from their resolution to their prompt, all pipelines in turn, each with a separate index.

    Each pipeline first answers all requests untimed, so that indexes are made and all vectors stored.

    Args:
        pipelines: by name.
        catalog: what all requests are over.
        requests: at least one; asked over and over.
        new_resources: makes the resources of one pipeline, which share nothing but stored vectors with the others.
        seconds: how long all pipelines together are timed; each is asked one request at least.
        progress: told what is done.

    Raises:
        ParameterError: there is no request.
    """
    if not requests:
        raise ParameterError("there is no request to time; the catalog needs at least one item")
    resources = {name: new_resources() for name in pipelines}
    for number, (name, pipeline) in enumerate(pipelines.items()):
        progress(f"preparing {name}", number, len(pipelines))
        for request in requests:
            _ask(pipeline, catalog, request, resources[name])
    times: dict[str, list[int]] = {name: [] for name in pipelines}
    start = time.perf_counter()
    for request in itertools.cycle(requests):
        for name, pipeline in pipelines.items():
            begin = time.perf_counter_ns()
            _ask(pipeline, catalog, request, resources[name])
            times[name].append(time.perf_counter_ns() - begin)
        elapsed = time.perf_counter() - start
        progress("seconds", int(elapsed), int(seconds))
        if elapsed >= seconds:
            break
    return {name: Quantiles.of(nanoseconds) for name, nanoseconds in times.items()}


def time_embedding(embedder: Embedder, texts: Sequence[str]) -> Quantiles:
    """Time the embedding of each of some texts, the model loaded; at least one text."""
    embedder.embed(texts[:1])
    times = []
    for text in texts:
        begin = time.perf_counter_ns()
        embedder.embed([text])
        times.append(time.perf_counter_ns() - begin)
    return Quantiles.of(times)


def _ask(pipeline: Pipeline, catalog: Catalog, request: Request, resources: Resources) -> None:
    pipeline.prompts(pipeline.run(Batch.of(catalog, (request,)), resources), resources)
