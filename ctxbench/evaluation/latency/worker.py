"""What happens in a child process: one trial of one configuration, in a fresh state."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ctxbench.cache import cache_dir
from ctxbench.embedding.names import open_embedder
from ctxbench.embedding.store import VectorStore
from ctxbench.embedding.vectors import Vectors
from ctxbench.evaluation.latency.clock import Clock, TimedEmbedder, TimedResources, ask, timed
from ctxbench.evaluation.latency.jobs import Job, read_items, read_request
from ctxbench.evaluation.latency.machine import blas, peak_mib
from ctxbench.index.resources import LocalResources
from ctxbench.pipeline import Pipeline
from ctxbench.requests import Request
from ctxbench.tokens import open_counter


def work(job: Job, *, spawned_ns: int) -> dict[str, Any]:
    """Do a job.

    Args:
        job: the job.
        spawned_ns: `time.monotonic_ns` (one clock for the whole system) when the process was started.

    Returns:
        The fields of a `Trial` that only the child knows, and `blas`.

    Raises:
        UserError: the pipeline, the embedder or a request is wrong, or there is no model.
    """
    begin = time.perf_counter()
    catalog = read_items(Path(job.items))
    catalog_s = time.perf_counter() - begin
    embedder = TimedEmbedder(open_embedder(job.embedder))
    store = VectorStore(embedder.identity, Path(job.store))
    inner = LocalResources(Vectors(embedder, store), open_counter(job.tokens, cache=cache_dir()))
    clock = Clock()
    resources = TimedResources(inner, embedder, clock)
    pipeline = timed(Pipeline.of(job.pipeline), clock)
    first, others = read_request(job.first), [read_request(row) for row in job.others]
    ready_s = (time.monotonic_ns() - spawned_ns) / 1e9 - catalog_s
    states = _States()

    def asked(requests: Sequence[Request]) -> Iterable[tuple[Request, int]]:
        for request in requests:
            before = resources.embedded
            ask(pipeline, catalog, request, resources=resources, clock=clock)
            yield request, resources.embedded - before

    state = {"cold": "cold", "restart": "restarted", "warm": "restarted_cached"}[job.job]
    for request, _ in asked([first]):
        states.add(state, request, clock)
    index_s, indexed = resources.index_s, resources.indexed
    embeds = any("embedder" in step.uses for step in (pipeline.retrieve, *pipeline.refine))
    if others and embeds:
        embedder.load()
    for request, embedded in asked(others):
        if embedded or not embeds:  # a query whose sentences were all asked before is not new
            states.add("new", request, clock)
    for request, _ in asked(others):
        states.add("cached", request, clock)
    store.close()
    return {
        "ready_s": ready_s,
        "catalog_s": catalog_s,
        "model_load_s": embedder.load_s,
        "index_s": index_s if indexed else None,
        "indexed": indexed,
        "peak_mib": peak_mib(),
        "states": states.as_dict(),
        "blas": blas(),
    }


class _States:
    """Timings by state, a column a part."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[str, dict[str, float]]]] = {}

    def add(self, state: str, request: Request, clock: Clock) -> None:
        self._rows.setdefault(state, []).append((request.id, dict(clock.seconds)))

    def as_dict(self) -> dict[str, Any]:
        return {
            state: {
                "requests": [request for request, _ in rows],
                "seconds": {
                    part: [round(seconds.get(part, 0.0), 9) for _, seconds in rows]
                    for part in dict.fromkeys(part for _, row in rows for part, spent in row.items() if spent)
                },
            }
            for state, rows in self._rows.items()
        }
