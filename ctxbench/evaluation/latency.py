"""Time selectors: quantiles of one request, and how time grows with items and queries."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.evaluation.statistics import PowerFit, power_fit
from ctxbench.io.console import ProgressListener, silent
from ctxbench.io.errors import Message, ParameterError, SelectorError
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch, Request
from ctxbench.model.resources import Resources
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import Embedder
from ctxbench.selectors.definitions import SelectorSpec
from ctxbench.selectors.external import External
from ctxbench.selectors.selector import PipelineSelector


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
    progress: ProgressListener = silent,
) -> dict[str, Quantiles]:
    """Time requests from their resolution to their prompt, all pipelines in turn, each with a separate index.

    Each pipeline first answers all requests untimed, so that indexes are made and all vectors stored.

    Args:
        pipelines: by name.
        catalog: what all requests are over.
        requests: at least one; asked over and over.
        new_resources: makes the resources of one pipeline, which share nothing but stored vectors with the others.
        seconds: how long all pipelines together are timed; each is asked one request at least.
        progress: called with what is done.

    Raises:
        ParameterError: there is no request.
    """
    if not requests:
        raise ParameterError(Message("evaluation.no-request"))
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


GROWTH_QUERIES = (1, 4, 16, 64, 256)  # of a batch
GROWTH_BATCH = 64  # queries of the batch that is asked over catalogs of every size
LARGEST_GROWTH = 1_000_000  # items
FEWEST_SIZES = 4  # points of a fit, at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What a selector costs against the number of items or queries.

    Attributes:
        cost: `preparation`: the first request over a new catalog, which makes indexes from stored vectors; `request`:
            a later one; `batch`: of `GROWTH_BATCH` queries, or as many as `sizes` says.
        over: what `sizes` counts: `items`, or `queries` of a batch over `n_items` items.
        n_items: items of the catalog; 0 where `sizes` counts them.
        sizes: increasing.
        seconds: by size the median.
        n: by size how many times were measured.
        fit: of `seconds` to `sizes`.
    """

    cost: str
    over: str
    n_items: int
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    n: tuple[int, ...]
    fit: PowerFit


def growth_sizes(n_items: int, sizes: Sequence[int] = ()) -> tuple[int, ...]:
    """The numbers of items to measure: an eighth to eight times of a catalog's, or those that are named.

    Raises:
        ParameterError: the catalog has no item, or too few or too large sizes are named.
    """
    if not n_items:
        raise ParameterError(Message("evaluation.no-request"))
    factors = [n_items / 8 * 2**power for power in range(7)]
    increasing = tuple(sorted(set(sizes or [min(max(1, round(size)), LARGEST_GROWTH) for size in factors])))
    if len(increasing) < FEWEST_SIZES or increasing[0] < 1 or increasing[-1] > LARGEST_GROWTH:
        raise ParameterError(
            Message("evaluation.growth-sizes", fewest=FEWEST_SIZES, most=LARGEST_GROWTH, sizes=increasing)
        )
    return increasing


def time_growth(
    specs: Sequence[SelectorSpec],
    resized: Callable[[int], Catalog],
    sizes: Sequence[int],
    *,
    new_resources: Callable[[], Resources],
    seconds: float = 60.0,
    progress: ProgressListener = silent,
) -> dict[str, tuple[Growth, ...]]:
    """Time selectors against the number of items and queries, sizes in turn, in rounds until the time is up.

    Every round makes indexes anew, from vectors that were stored before the first one.

    Args:
        specs: selectors with different names.
        resized: gives the catalog of so many items.
        sizes: as `growth_sizes` gives them. The largest are left out where the first round would take longer than
            `seconds`. Batches of several sizes are asked over the last of the first `FEWEST_SIZES`.
        new_resources: makes resources that share nothing but stored vectors.
        seconds: how long all of it may take; one round over `FEWEST_SIZES` sizes is made in any case.
        progress: called with what is done.

    Raises:
        SelectorError: a selector fails on a request.
        ParameterError: answers of a selector are kept, so that they would not be timed.
    """
    for spec in specs:
        if isinstance(selector := spec.make(new_resources(), {}), External) and selector.keeps_answers:
            raise ParameterError(Message("evaluation.growth-of-kept-answers", selector=spec.name))
    own_size, n_requests = sizes[FEWEST_SIZES - 1], GROWTH_QUERIES[-1]
    texts = [request.text for request in requests_like(resized(max(own_size, n_requests)), n_requests)]
    requests = [Request(id=f"like-{n}", text=texts[n % len(texts)]) for n in range(n_requests)]
    times: dict[str, dict[tuple[str, str], dict[int, list[float]]]] = {spec.name: {} for spec in specs}
    catalogs: dict[int, Catalog] = {}
    start = time.perf_counter()

    def time_left(share: float = 1.0) -> bool:
        return time.perf_counter() - start < share * seconds

    for first in itertools.count():
        for number, size in enumerate(sizes):
            if not time_left(1.0 if first else 0.5) and (first or number >= FEWEST_SIZES):
                break  # a size takes about as long as all smaller ones together
            if size not in catalogs:
                catalogs[size] = resized(size)
            for spec in specs:
                progress(f"{spec.name} over {size:,} items", int(time.perf_counter() - start), int(seconds))
                if not first and spec.pipeline is not None:
                    spec.make(new_resources(), {}).select(Batch.of(catalogs[size], requests))  # stores vectors
                counts = [n for n in GROWTH_QUERIES if size == own_size and (n < GROWTH_QUERIES[-1] or time_left())]
                rotated = requests[first % len(requests) :] + requests[: first % len(requests)]
                for cost, over, n, spent in _costs(spec, Catalog(catalogs[size]), rotated, new_resources(), counts):
                    times[spec.name].setdefault((cost, over), {}).setdefault(n, []).append(spent)
        if not time_left():
            break
    return {
        name: tuple(_growth(cost, over, by_size, own_size) for (cost, over), by_size in costs.items())
        for name, costs in times.items()
    }


def _costs(
    spec: SelectorSpec, catalog: Catalog, requests: Sequence[Request], resources: Resources, counts: Sequence[int]
) -> Iterator[tuple[str, str, int, float]]:
    """Each cost over a catalog that is new to the selector, with what it counts, the size, and seconds."""
    selector = (
        spec.make(resources, {}) if spec.pipeline is None else PipelineSelector(spec.name, spec.pipeline, resources)
    )

    def timed(first: int, n: int) -> float:
        begin = time.perf_counter()
        answers = selector.select(Batch.of(catalog, requests[first : first + n]))
        spent = time.perf_counter() - begin
        for error in answers.errors.values():
            raise SelectorError(
                Message("evaluation.growth-failed", selector=spec.name, items=len(catalog), error=error)
            )
        return spent

    yield "preparation", "items", len(catalog), timed(0, 1)
    begin = time.perf_counter()
    for first in range(1, 20):
        if first <= 3 or time.perf_counter() - begin < 0.1:
            yield "request", "items", len(catalog), timed(first, 1)
    yield "batch", "items", len(catalog), timed(0, GROWTH_BATCH)
    for n in counts:
        yield "batch", "queries", n, timed(0, n)


def _growth(cost: str, over: str, times: Mapping[int, Sequence[float]], own_size: int) -> Growth:
    seconds = tuple(float(np.median(several)) for several in times.values())
    return Growth(
        cost=cost,
        over=over,
        n_items=own_size if over == "queries" else 0,
        sizes=tuple(times),
        seconds=seconds,
        n=tuple(map(len, times.values())),
        fit=power_fit(tuple(times), seconds),
    )
