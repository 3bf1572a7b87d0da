"""Times of requests, by part and in turns. Steps, embedder and vectors are wrapped from outside, none is changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from ctxbench.bench.latency.latency_results import (
    BETWEEN,
    EMBED_ITEMS,
    EMBED_QUERY,
    MODEL_LOAD,
    RESOLVE,
    SEARCH,
    STORE,
    WHOLE,
)
from ctxbench.bench.progress_listener import Progress, silent
from ctxbench.core.arrays import Float32Array
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.query import Query
from ctxbench.core.requests import Batch, Request
from ctxbench.core.stages import Analyses, ByDomain, Merge, Resources, Step
from ctxbench.embedding.embedder import Embedder, EmbedderIdentity, OnDone
from ctxbench.index.resources import LocalResources

T = TypeVar("T")
_PROBE = "a"
_COMBINATORS = {Analyses: "analyse:list", Merge: "retrieve:merge", ByDomain: "refine:by_domain"}


class TimedEmbedder:
    """An embedder whose model load is timed apart: its first text is one letter, which is thrown away.

    Attributes:
        load_s: until that letter's vector was there; None while the model is not loaded.
        embed_s: spent on all other texts, what `on_done` takes left out.
    """

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.load_s: float | None = None
        self.embed_s = 0.0

    @property
    def identity(self) -> EmbedderIdentity:
        """The identity of the wrapped embedder."""
        return self._inner.identity

    def load(self) -> None:
        """Load the model, unless it is loaded."""
        if self.load_s is None:
            begin = time.perf_counter()
            self._inner.embed([_PROBE])
            self.load_s = time.perf_counter() - begin

    def embed(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Float32Array:
        """Embed texts; see `Embedder.embed`."""
        self.load()
        aside = 0.0

        def timed(position: int, vector: Float32Array) -> None:
            nonlocal aside
            if on_done is not None:
                start = time.perf_counter()
                on_done(position, vector)
                aside += time.perf_counter() - start

        begin = time.perf_counter()
        vectors = self._inner.embed(texts, on_done=timed)
        self.embed_s += time.perf_counter() - begin - aside
        return vectors


@dataclass
class Clock:
    """Seconds of the request that is being timed, by part.

    Attributes:
        seconds: by part; what happens more than once is added up.
        step: the step that is running.
        query_texts: the request's chunks, once it is analysed.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    step: str = ""
    query_texts: frozenset[str] = frozenset()

    def add(self, part: str, seconds: float) -> None:
        """Add seconds to a part."""
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds

    def add_inside(self, part: str, seconds: float) -> None:
        """Add seconds to a part of the step that is running."""
        self.add(f"{self.step} / {part}", seconds)


class TimedResources(Resources):
    """Resources that tell a clock what vectors cost.

    Attributes:
        index_s: seconds spent on vectors of items, model load left out.
        indexed: texts embedded for that.
    """

    def __init__(self, inner: LocalResources, embedder: TimedEmbedder, clock: Clock) -> None:
        self._inner = inner
        self._embedder = embedder
        self._clock = clock
        self.index_s = 0.0
        self.indexed = 0

    @property
    def embedded(self) -> int:
        """Texts embedded so far, those of items and of queries."""
        return int(self._inner.stats.embedded)

    def get(self, name: str) -> Any:
        """The value of a resource; vectors are timed."""
        return self._vectors if name == "embedder" else self._inner.get(name)

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value that the wrapped resources keep under `key`."""
        return self._inner.kept(key, make)

    def identity(self, name: str) -> str:
        """The identity of a resource of the wrapped ones."""
        return self._inner.identity(name)

    def _vectors(self, texts: Sequence[str]) -> Float32Array:
        """Get vectors and note model load, embedding, and what is left: the store's look-up and writing."""
        held, loaded, embedded = self.embedded, self._embedder.load_s or 0.0, self._embedder.embed_s
        begin = time.perf_counter()
        vectors = self._inner.vectors(texts)
        total = time.perf_counter() - begin
        load = (self._embedder.load_s or 0.0) - loaded
        embed = self._embedder.embed_s - embedded
        of_query = self._clock.query_texts.issuperset(texts)
        self._clock.add_inside(MODEL_LOAD, load)
        self._clock.add_inside(EMBED_QUERY if of_query else EMBED_ITEMS, embed)
        self._clock.add_inside(STORE, total - load - embed)
        if not of_query:
            self.index_s += total - load
            self.indexed += self.embedded - held
        return vectors


@dataclass(frozen=True)
class _TimedStep:
    """Stands where a step stands in a pipeline, and times its calls."""

    inner: Any
    label: str
    clock: Clock

    def __getattr__(self, name: str) -> Any:
        """An attribute of the wrapped step."""
        return getattr(self.inner, name)

    def call(self, *arguments: Any) -> Any:
        self.clock.step = self.label
        begin = time.perf_counter()
        try:
            made = self.inner.call(*arguments)
        finally:
            self._add(time.perf_counter() - begin)
        if isinstance(made, Query):
            self.clock.query_texts = frozenset(made.text)
        return made

    def _add(self, seconds: float) -> None:
        self.clock.add(self.label, seconds)
        inside = [part for part in self.clock.seconds if part.startswith(f"{self.label} / ")]
        if inside:
            self.clock.add_inside(SEARCH, seconds - sum(self.clock.seconds[part] for part in inside))
        self.clock.step = ""


def timed(pipeline: Pipeline, clock: Clock) -> Pipeline:
    """The same pipeline with every step of its first level timed under its name, `kind:name`."""
    labels: set[str] = set()

    def wrap(step: Step | Analyses | Merge | ByDomain) -> Any:
        base = f"{step.kind}:{step.name}" if isinstance(step, Step) else _COMBINATORS[type(step)]
        label, number = base, 2
        while label in labels:
            label, number = f"{base} {number}", number + 1
        labels.add(label)
        return cast("Step", _TimedStep(step, label, clock))

    return replace(
        pipeline,
        analyse=wrap(pipeline.analyse),
        retrieve=wrap(pipeline.retrieve),
        refine=tuple(wrap(step) for step in pipeline.refine),
        format=wrap(pipeline.format),
    )


def ask(pipeline: Pipeline, catalog: Catalog, request: Request, *, resources: Resources, clock: Clock) -> None:
    """Answer one request as a live call does, from the request to its prompt; `clock` has its seconds then."""
    clock.seconds.clear()
    clock.query_texts = frozenset()
    begin = time.perf_counter()
    batch = Batch.of(catalog, (request,))
    resolved = time.perf_counter()
    outcome = pipeline.run(batch, resources)
    pipeline.prompts(outcome, resources)
    whole = time.perf_counter() - begin
    steps = sum(seconds for part, seconds in clock.seconds.items() if " / " not in part)
    clock.seconds[RESOLVE] = resolved - begin
    clock.seconds[BETWEEN] = whole - steps - clock.seconds[RESOLVE]
    clock.seconds[WHOLE] = whole


@dataclass(frozen=True, eq=False, kw_only=True)
class Contender:
    """One of those that are timed side by side.

    Attributes:
        pipeline: what is asked.
        catalog: what its requests are over.
        requests: at least one; each may get what it says.
        resources: its own, so that it finds nothing that another has made.
    """

    pipeline: Pipeline
    catalog: Catalog
    requests: Sequence[Request]
    resources: Resources

    def seconds(self, place: int) -> float:
        """Of one request, by its place, asked now."""
        clock = Clock()
        ask(self.pipeline, self.catalog, self.requests[place], resources=self.resources, clock=clock)
        return clock.seconds[WHOLE]


def seconds_in_turns(
    contenders: Mapping[str, Contender],
    *,
    rounds: int,
    paired: bool = False,
    progress: Progress = silent,
) -> dict[str, list[list[float]]]:
    """Ask every contender its requests, one at a time, in several rounds.

    Each has answered all requests once before it is timed. In a round one contender comes after the other, in every
    second round backwards, so that drift of the machine hits all alike. Nothing is shared between requests but what a
    live process keeps.

    Args:
        contenders: by name.
        rounds: >= 1.
        paired: take turns at every request, in every second one backwards, so that what slows the machine for a
            moment falls on few requests and on either contender, and times of requests can be held against each
            other. Else a contender answers all its requests in its turn, as a process that serves nothing else.
        progress: told (what, done, all).

    Returns:
        By name, for each round, the seconds of each request from its resolution to its prompt, in the order given.

    Raises:
        ParameterError: a contender has no request, there is no round, or contenders are to be paired and have not as
            many requests each.
    """
    counts = {len(one.requests) for one in contenders.values()}
    if rounds < 1 or 0 in counts:
        raise ParameterError("latency in turns needs one request and one round at least")
    if paired and len(counts) > 1:
        raise ParameterError(f"contenders that are paired need as many requests each, got {sorted(counts)}")
    steps = (rounds + 1) * len(contenders)
    for done, (name, one) in enumerate(contenders.items()):
        progress(f"latency, {name}", done, steps)
        for place in range(len(one.requests)):
            one.seconds(place)
    taken: dict[str, list[list[float]]] = {name: [[] for _ in range(rounds)] for name in contenders}
    blocks = [[place] for place in range(max(counts, default=0))] if paired else [None]
    for turn in range(rounds):
        for number, block in enumerate(blocks):
            for place, name in enumerate(contenders if (turn + number) % 2 == 0 else reversed(list(contenders))):
                if not number:
                    progress(f"latency, {name}", (turn + 1) * len(contenders) + place, steps)
                one = contenders[name]
                places = range(len(one.requests)) if block is None else block
                taken[name][turn] += [one.seconds(asked) for asked in places]
    progress("latency", steps, steps)
    return taken
