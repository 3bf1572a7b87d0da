"""Requests of several pipelines side by side in one process, in turns: what each costs beside the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ctxbench.bench.latency.clock import Clock, ask
from ctxbench.bench.latency.latency_results import WHOLE
from ctxbench.bench.progress_listener import Progress, silent
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.requests import Request
from ctxbench.core.stages import Resources


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
