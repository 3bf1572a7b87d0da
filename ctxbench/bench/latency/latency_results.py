"""Latency figures: samples by trial, what they are summed up to, and the documents' figures beside them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SCHEMA = "ctxbench/latency"
SCHEMA_VERSION = 1

# What a request finds, coldest first.
STATES = {
    "cold": "new process, nothing stored",
    "restarted": "new process, items stored, query new",
    "restarted_cached": "new process, items and query stored",
    "new": "warm process, query new",
    "cached": "warm process, query stored",
}
WHOLE = "whole"
RESOLVE = "resolve"
BETWEEN = "between steps"
MODEL_LOAD = "model load"
EMBED_ITEMS = "embed items"
EMBED_QUERY = "embed query"
STORE = "vector store"
SEARCH = "search"
PARTS_OF_A_STEP = (MODEL_LOAD, EMBED_ITEMS, EMBED_QUERY, STORE, SEARCH)

# Figures of the documents, "Performance Characteristics": seconds.
DOCUMENTS_MODEL_S = 0.100
DOCUMENTS_CHUNK_S = 0.0045
DOCUMENTS_CHUNKS = 151
DOCUMENTS_INDEXING_S = 0.690
DOCUMENTS_FIRST_SEARCH_S = 0.800
DOCUMENTS_FIRST_SEARCH_ITEMS = 100
DOCUMENTS_SEARCH_S_PER_100 = 0.010


def needed_for(percentile: float) -> int:
    """How many samples a percentile needs before it is shown.

    The median is shown from one sample on. A higher percentile is shown where at least one sample is expected
    beyond it, n x (1 - p) >= 1: 20 for p95, 100 for p99. Below that it would be the largest sample under another
    name.

    Args:
        percentile: 50 to below 100.
    """
    return 1 if percentile <= 50 else math.ceil(round(100 / (100 - percentile), 9))


@dataclass(frozen=True, slots=True)
class Summary:
    """Some samples in a few numbers, in the unit of the samples.

    Attributes:
        n: samples, all rounds together.
        rounds: rounds that they come from.
        p50: the median.
        p95, p99: None where `n` is below `needed_for`.
        low, high: the lowest and the highest median of a round: how far rounds drift apart.
    """

    n: int
    rounds: int
    p50: float
    p95: float | None
    p99: float | None
    low: float
    high: float


def summarise(rounds: Sequence[Sequence[float]]) -> Summary | None:
    """Sum up samples by round; None if there are none. Rounds without a sample are left out.

    Percentiles interpolate between the two nearest samples (Hyndman and Fan 1996, type 7; numpy's default).
    """
    held = [list(samples) for samples in rounds if len(samples)]
    if not held:
        return None
    samples = np.array([value for one in held for value in one], dtype=np.float64)
    medians = [float(np.median(one)) for one in held]
    p95, p99 = (float(np.percentile(samples, p)) if len(samples) >= needed_for(p) else None for p in (95.0, 99.0))
    return Summary(
        n=len(samples),
        rounds=len(held),
        p50=float(np.median(samples)),
        p95=p95,
        p99=p99,
        low=min(medians),
        high=max(medians),
    )


@dataclass(frozen=True, slots=True)
class Timings:
    """Requests of one trial in one state, in the order in which they were asked.

    Attributes:
        requests: their ids.
        seconds: by part: `whole`; `resolve` (what the request may get); every step (`retrieve:dense`) and, where a
            step asked for vectors, its insides (`retrieve:dense / embed query`); `between steps` (the rest). Each
            as long as `requests`; 0 where a request had no such part, left out where none had.
    """

    requests: tuple[str, ...]
    seconds: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What one child process measured.

    Attributes:
        job: `cold`, `restart` or `warm`.
        size: items of the catalog.
        round: 0-based.
        order: 0-based place among all trials, in time.
        ready_s: from its start until it could take a request, the catalog's reading left out.
        catalog_s: reading the catalog from JSON lines.
        model_load_s: until a one-letter text was embedded first; None where no model was loaded.
        index_s: embedding and storing the items' chunks, model load left out; None where none was embedded.
        indexed: chunks embedded for that.
        peak_mib: peak resident memory of the process; None where the system does not tell.
        states: timings by state; a state without a request is left out.
    """

    job: str
    size: int
    round: int
    order: int
    ready_s: float
    catalog_s: float
    model_load_s: float | None
    index_s: float | None
    indexed: int
    peak_mib: float | None
    states: Mapping[str, Timings]


@dataclass(frozen=True, slots=True)
class Beside:
    """A figure of the documents and ours.

    Attributes:
        what: what was measured.
        documents_s: the documents' figure, seconds.
        ours: ours, seconds; None where no configuration gives it.
        note: how ours was got, where it is not simply measured.
    """

    what: str
    documents_s: float
    ours: Summary | None
    note: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class LatencyResult:
    """Everything that one call of `measure` found. Summaries are made from the trials whenever they are asked for.

    Attributes:
        name: what was measured, such as `semantic/normal`.
        pipeline: its steps with versions and parameters.
        embedder: identity of the embedder.
        catalog: number of items and hash of the catalog that was given.
        requests: how many there were, and `from`: `given`, or made from the catalog's `items`.
        reference: the size that sections without a size are about: the catalog's own, or the largest size where
            that is smaller.
        sizes: all sizes, rising.
        settings: as given.
        machine: processor, cores, memory, system, load at the start, versions, BLAS libraries with their threads.
        started: when, ISO 8601, UTC.
        trials: in the order in which they ran.
    """

    name: str
    pipeline: Mapping[str, Any]
    embedder: Mapping[str, Any]
    catalog: Mapping[str, Any]
    requests: Mapping[str, Any]
    reference: int
    sizes: tuple[int, ...]
    settings: Mapping[str, Any]
    machine: Mapping[str, Any]
    started: str
    trials: tuple[Trial, ...]

    def of(self, state: str, part: str = WHOLE, *, size: int | None = None) -> Summary | None:
        """Sum up one part of the requests in one state; None where there is no sample.

        Args:
            state: one of `STATES`.
            part: see `Timings.seconds`.
            size: items of the catalog; None = `reference`.
        """
        size = self.reference if size is None else size
        trials = [trial for trial in self.trials if trial.size == size and state in trial.states]
        return _by_round(trials, lambda trial: trial.states[state].seconds.get(part, ()))

    def of_process(self, state: str) -> Summary | None:
        """From the start of a process to its first answer, for the states of a new process, at `reference`."""
        return summarise(
            [
                [trial.ready_s + trial.catalog_s + trial.states[state].seconds[WHOLE][0]]
                for trial in self.trials
                if trial.size == self.reference and state in trial.states and state not in ("new", "cached")
            ]
        )

    def parts(self) -> tuple[str, ...]:
        """All parts in the order of the pipeline, `resolve` first, `between steps` and `whole` last."""
        found: dict[str, None] = {}
        for trial in self.trials:
            for timings in trial.states.values():
                found.update(dict.fromkeys(timings.seconds))
        last = (BETWEEN, WHOLE)
        steps = list(dict.fromkeys(part.split(" / ")[0] for part in (RESOLVE, *found) if part not in last))
        inner = [f"{step} / {part}" for step in steps for part in PARTS_OF_A_STEP]
        ordered = [name for step in steps for name in (step, *(i for i in inner if i.startswith(f"{step} / ")))]
        return tuple(part for part in (*ordered, *last) if part in found)

    def model_load(self) -> Summary | None:
        """Seconds until the model gave its first vector, over all trials that loaded it."""
        loaded = [trial for trial in self.trials if trial.model_load_s is not None]
        return _by_round(loaded, lambda trial: (trial.model_load_s or 0.0,))

    def ready(self) -> Summary | None:
        """Seconds from the start of a process until it could take a request, over all trials."""
        return _by_round(self.trials, lambda trial: (trial.ready_s,))

    def indexing(self, size: int) -> Summary | None:
        """Seconds a chunk to index an empty store, at one size; None where nothing was embedded."""
        return summarise([[t.index_s / t.indexed] for t in self._at(size, "cold") if t.index_s and t.indexed])

    def indexed(self, size: int) -> int:
        """Chunks that were embedded to index an empty store, at one size."""
        return max((trial.indexed for trial in self._at(size, "cold")), default=0)

    def peak(self, job: str, size: int) -> Summary | None:
        """Peak memory in MiB of the processes of one job (`cold`, `restart`, `warm`) at one size."""
        return summarise([[trial.peak_mib] for trial in self._at(size, job) if trial.peak_mib is not None])

    def _at(self, size: int, job: str) -> Iterator[Trial]:
        return (trial for trial in self.trials if trial.size == size and trial.job == job)

    def beside(self) -> tuple[Beside, ...]:
        """The documents' figures and ours."""
        rows = [Beside("load the model", DOCUMENTS_MODEL_S, self.model_load())]
        sizes = [size for size in self.sizes if self.indexed(size)]
        nearest = min(sizes, key=lambda size: abs(self.indexed(size) - DOCUMENTS_CHUNKS), default=0)
        chunk = self.indexing(nearest)
        note = f"from {self.indexed(nearest)} chunks" if chunk else ""
        rows.append(Beside("index one chunk", DOCUMENTS_CHUNK_S, chunk, note))
        scaled = None if chunk is None else _scaled(chunk, DOCUMENTS_CHUNKS)
        note = f"{DOCUMENTS_CHUNKS} times the row above" if chunk else ""
        rows.append(Beside(f"index {DOCUMENTS_CHUNKS} chunks", DOCUMENTS_INDEXING_S, scaled, note))
        n = DOCUMENTS_FIRST_SEARCH_ITEMS
        first = self.of("cold", size=n)
        rows.append(
            Beside(f"first search, {n} items", DOCUMENTS_FIRST_SEARCH_S, first, "" if first else "not measured")
        )
        for size in self.sizes:
            if size >= 100:
                documents = DOCUMENTS_SEARCH_S_PER_100 * size / 100
                rows.append(Beside(f"later search, {size:,} items", documents, self.of("new", size=size), "query new"))
        return tuple(rows)

    def figures(self) -> list[dict[str, Any]]:
        """Every summary as a row: what, size, state, part, unit, then the numbers."""
        rows: list[dict[str, Any]] = []

        def add(what: str, unit: str, summary: Summary | None, **keys: Any) -> None:
            if summary is not None:
                rows.append({"what": what, **keys, "unit": unit, **dataclasses.asdict(summary)})

        for size in self.sizes:
            for state in STATES:
                for part in self.parts():
                    add("request", "s", self.of(state, part, size=size), size=size, state=state, part=part)
        for state in STATES:
            add("process and first request", "s", self.of_process(state), size=self.reference, state=state)
        add("ready", "s", self.ready())
        add(MODEL_LOAD, "s", self.model_load())
        for size in self.sizes:
            add("indexing a chunk", "s", self.indexing(size), size=size, chunks=self.indexed(size))
            for job in ("cold", "restart", "warm"):
                add("peak memory", "MiB", self.peak(job, size), size=size, job=job)
        return rows

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON: what was measured on what, every summary, and every sample."""
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "name": self.name,
            "started": self.started,
            "pipeline": dict(self.pipeline),
            "embedder": dict(self.embedder),
            "catalog": dict(self.catalog),
            "requests": dict(self.requests),
            "reference": self.reference,
            "sizes": list(self.sizes),
            "settings": dict(self.settings),
            "machine": dict(self.machine),
            "states": dict(STATES),
            "figures": self.figures(),
            "documents": [dataclasses.asdict(row) for row in self.beside()],
            "trials": [dataclasses.asdict(trial) for trial in self.trials],
        }


def _by_round(trials: Iterable[Trial], samples: Callable[[Trial], Iterable[float]]) -> Summary | None:
    """Sum up the samples of trials, those of one round together."""
    found: dict[int, list[float]] = {}
    for trial in trials:
        found.setdefault(trial.round, []).extend(samples(trial))
    return summarise(list(found.values()))


def _scaled(summary: Summary, factor: float) -> Summary:
    return dataclasses.replace(
        summary,
        p50=summary.p50 * factor,
        p95=None if summary.p95 is None else summary.p95 * factor,
        p99=None if summary.p99 is None else summary.p99 * factor,
        low=summary.low * factor,
        high=summary.high * factor,
    )
