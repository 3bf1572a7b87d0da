"""Metrics of a running service for Prometheus, and spans of OpenTelemetry if it is installed."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

PREFIX = "ctxbench_context_"
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the buckets of seconds; 0.3 is what the assembly's document promises."""

SECONDS = {
    "assembly": "Seconds from a request to its context.",
    "search": "Seconds of a request's retrievers, where they ran.",
    "scoring": "Seconds of its rank steps, where they ran.",
    "optimisation": "Seconds of the steps that cut or fit it into the budget, where they ran.",
}
COUNTS = {
    "builds": "Contexts built.",
    "previews": "Contexts previewed.",
    "cache_hits": "Contexts, of either sort, whose steps were all kept.",
    "failures": "Requests that were not answered.",
    "retrieved": "Items found, of all contexts.",
    "selected": "Items in contexts.",
    "tokens": "Tokens of contexts.",
    "feedback": "Judgements of items.",
    "sufficient": "Contexts that were said to be enough.",
    "insufficient": "Contexts that were said to lack something.",
}
_STAGES = {"retrieve": "search", "rank": "scoring", "cut": "optimisation", "fit": "optimisation"}


class Metrics:
    """Counters and histograms of one service. May be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._sums: dict[str, float] = dict.fromkeys(SECONDS, 0.0)
        self._buckets = {name: [0] * (len(BOUNDS) + 1) for name in SECONDS}
        self._tracer = _tracer()

    def count(self, **amounts: int) -> None:
        """Add to counters, by their names in `COUNTS`."""
        with self._lock:
            self._counts.update(amounts)

    def value(self, name: str) -> int:
        """The value of a counter."""
        return self._counts[name]

    @contextmanager
    def request(self, action: str) -> Iterator[StageSeconds]:
        """Time a request; yields the listener for its pipeline. A request that raises counts as a failure.

        Args:
            action: the name of its span, such as `build`.
        """
        stages, begin = StageSeconds(self._tracer), time.perf_counter()
        with _span(self._tracer, f"context.{action}"):
            try:
                yield stages
            except BaseException:
                self.count(failures=1)
                raise
        self._observe({"assembly": time.perf_counter() - begin, **stages.seconds})

    def _observe(self, seconds: Mapping[str, float]) -> None:
        with self._lock:
            for name, value in seconds.items():
                self._sums[name] += value
                self._buckets[name][bisect_left(BOUNDS, value)] += 1

    def text(self) -> str:
        """All figures in Prometheus' text format, version 0.0.4."""
        lines = []
        with self._lock:
            for name, about in COUNTS.items():
                lines += _head(f"{name}_total", about, "counter")
                lines.append(f"{PREFIX}{name}_total {self._counts[name]}")
            for name, about in SECONDS.items():
                lines += _head(f"{name}_seconds", about, "histogram")
                total = 0
                for bound, n in zip((*map(str, BOUNDS), "+Inf"), self._buckets[name], strict=True):
                    total += n
                    lines.append(f'{PREFIX}{name}_seconds_bucket{{le="{bound}"}} {total}')
                lines.append(f"{PREFIX}{name}_seconds_sum {self._sums[name]!r}")
                lines.append(f"{PREFIX}{name}_seconds_count {total}")
        return "\n".join(lines) + "\n"


def _head(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP {PREFIX}{name} {about}", f"# TYPE {PREFIX}{name} {kind}"]


class StageSeconds:
    """A pipeline's listener: adds the seconds of its steps up by stage, and makes a span of each.

    Attributes:
        seconds: by `search`, `scoring` and `optimisation`; without what did not run.
        steps: how many ran; none where all was kept.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self.seconds: dict[str, float] = {}
        self.steps = 0

    def __call__(self, kind: str, name: str, seconds: float) -> None:
        """See `ctxbench.core.step_outputs.Listener`."""
        self.steps += 1
        if stage := _STAGES.get(kind):
            self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        if self._tracer is not None:
            end = time.time_ns()
            span = self._tracer.start_span(f"context.{kind}.{name}", start_time=end - round(seconds * 1e9))
            span.end(end_time=end)


def _tracer() -> Any:
    """OpenTelemetry's tracer; None where its interface is not installed. It does nothing until somebody sets it up."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace.get_tracer("ctxbench")


@contextmanager
def _span(tracer: Any, name: str) -> Iterator[None]:
    if tracer is None:
        yield
        return
    with tracer.start_as_current_span(name):
        yield
