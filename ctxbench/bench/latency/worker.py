"""A child process, `python -m ctxbench.bench.latency.worker JOB SPAWNED_NS`: one trial of one configuration.

The answer is one line of JSON on standard output; whatever else is written there goes to standard error. The process
ends as soon as its standard input does, so that none is left behind however its parent ended.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ctxbench.bench.latency.clock import Clock, TimedEmbedder, TimedResources, ask, timed
from ctxbench.bench.latency.trial_inputs import Job, read_items, read_request
from ctxbench.bench.machine import blas, peak_mib
from ctxbench.core.errors import UserError
from ctxbench.core.items import Catalog
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.requests import Request
from ctxbench.embedding.embedder_names import open_embedder
from ctxbench.embedding.vectors import Vectors, VectorStore
from ctxbench.index.resources import LocalResources
from ctxbench.io.cache import cache_dir
from ctxbench.io.console import say
from ctxbench.io.json_files import dump_json
from ctxbench.io.visible import message_lines
from ctxbench.text.tokens import open_counter

_FIRST = {"cold": "cold", "restart": "restarted", "warm": "restarted_cached"}  # the state that a job's first finds


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
    samples = _Samples(pipeline, catalog, resources, clock)
    samples.one(_FIRST[job.job], first)
    index_s, indexed = resources.index_s, resources.indexed
    if others:
        embeds = any("embedder" in step.uses for step in (pipeline.retrieve, *pipeline.refine))
        if embeds:
            embedder.load()
        for request in others:
            samples.one("new", request, only_embedded=embeds)
        for request in others:
            samples.one("cached", request)
    store.close()
    return {
        "ready_s": ready_s,
        "catalog_s": catalog_s,
        "model_load_s": embedder.load_s,
        "index_s": index_s if indexed else None,
        "indexed": indexed,
        "peak_mib": peak_mib(),
        "states": samples.as_dict(),
        "blas": blas(),
    }


class _Samples:
    """Asks requests and keeps their timings by state, a column a part."""

    def __init__(self, pipeline: Pipeline, catalog: Catalog, resources: TimedResources, clock: Clock) -> None:
        self._pipeline = pipeline
        self._catalog = catalog
        self._resources = resources
        self._clock = clock
        self._rows: dict[str, list[tuple[str, dict[str, float]]]] = {}

    def one(self, state: str, request: Request, *, only_embedded: bool = False) -> None:
        """Ask one request; with `only_embedded` it counts only where a text of it had not been asked before."""
        before = self._resources.embedded
        ask(self._pipeline, self._catalog, request, resources=self._resources, clock=self._clock)
        if not only_embedded or self._resources.embedded > before:
            self._rows.setdefault(state, []).append((request.id, dict(self._clock.seconds)))

    def as_dict(self) -> dict[str, Any]:
        """Requests and seconds by part, of each state; parts that took no time at all are left out."""
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


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


def main() -> int:
    """Do the job named on the command line."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answer:
        os.dup2(2, 1)
        try:
            made = work(Job.read(Path(sys.argv[1])), spawned_ns=int(sys.argv[2]))
        except UserError as error:
            say(*message_lines(str(error)), err=True)
            return UserError.exit_code
        answer.write(dump_json(made) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
