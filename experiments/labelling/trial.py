"""One draw: a log, its import, a session answered from the truth, and the figures of it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from world import FIRST, Annotator, Ask, Log, Setting, log_of, true_shares

from ctxbench.datasets.dataset import Dataset, split_of
from ctxbench.datasets.layout import Exposure
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.statistics import Interval, wilson
from ctxbench.labelling.answer_log import MemoryLog
from ctxbench.labelling.pools import Offers, Pool, Predictor, make_pool
from ctxbench.labelling.sampling import Figure, Queue, Sample, make_queue
from ctxbench.labelling.session import LabellingSession
from ctxbench.labelling.trace_import import TraceSettings, TraceSource, import_traces
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Request
from ctxbench.selectors.selector import Selector

What = int | tuple[int, int, int]
Goal = tuple[What, float]
Import = Callable[[Log, Sequence[Ask], Catalog], tuple[Dataset, Mapping[str, Exposure]]]


@dataclass(frozen=True)
class World:
    """Requests, the catalog, and what selectors offer for each request."""

    asks: list[Ask]
    items: Catalog
    offers: tuple[Offers, ...]
    setting: Setting
    logged_by: int  # whose ranking the log's selector offered from


@dataclass(frozen=True)
class Draw:
    """One log, imported."""

    pool: Pool
    truth: dict[str, tuple[tuple[int, ...], ...]]

    def shares(self) -> list[float]:
        """True completeness by selector."""
        return true_shares(self.pool, self.truth)


def make_world(asks: list[Ask], items: Catalog, selectors: Mapping[str, Selector], setting: Setting = FIRST) -> World:
    """Ask the selectors once for every request; what they answer does not depend on the log."""
    queries = tuple(
        DatasetQuery(request=Request(id=f"a{i}", text=ask.text), split="test") for i, ask in enumerate(asks)
    )
    dataset = Dataset(name="world", version="1", catalog=items, queries=queries, labels=())
    pool = make_pool(dataset, selectors, exposures={})
    logged_by = pool.names.index(setting.logged_by)
    return World(asks=asks, items=items, offers=pool.offers, setting=setting, logged_by=logged_by)


def draw(world: World, *, turns: int, seed: int, read: Import | None = None) -> Draw:
    """A new log of the world, imported; each of its queries is a turn."""
    rng = np.random.default_rng(seed)
    log = log_of(world.asks, world.offers[world.logged_by].ranking, turns, rng, world.setting)
    dataset, exposures = (read or imported)(log, world.asks, world.items)
    asked = {(turn.conversation, turn.turn): turn.ask for turn in log.turns}
    numbers = [asked[(str(q.request.conversation), int(q.request.turn or 0))] for q in dataset.queries]
    offers = tuple(
        Offers(
            name=one.name,
            offered=tuple(one.offered[i] for i in numbers),
            ranking=tuple(one.ranking[i] for i in numbers),
            scores=tuple(one.scores[i] for i in numbers),
        )
        for one in world.offers
    )
    truth = {query.id: world.asks[i].groups for query, i in zip(dataset.queries, numbers, strict=True)}
    return Draw(Pool(dataset=dataset, offers=offers, exposures=exposures), truth)


def imported(log: Log, asks: Sequence[Ask], items: Catalog) -> tuple[Dataset, Mapping[str, Exposure]]:
    """The log through the importer, as `ctxbench data import` reads it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in log.rows(asks, items)), "utf-8")
        settings = TraceSettings(name="log", licence="made up")
        made = import_traces(TraceSource(logs=(path,), catalog=items), settings, redact=None)
    return made.dataset, {exposure.query: exposure for exposure in made.exposures}


def imported_by_rule(log: Log, asks: Sequence[Ask], items: Catalog) -> tuple[Dataset, Mapping[str, Exposure]]:
    """What importing comes to, without files: called is required, and all that is only under full exposure."""
    queries, labels, exposures = [], [], {}
    for number, turn in enumerate(log.turns):
        name = f"q{number}"
        called = tuple(dict.fromkeys(items[item].key for item, status in turn.called if status == "ok"))
        request = Request(id=name, text=asks[turn.ask].text, conversation=turn.conversation, turn=turn.turn)
        queries.append(
            DatasetQuery(
                request=request, split=split_of(turn.conversation), partly_labelled=bool(called) and not turn.full
            )
        )
        labels += [Label(name, key, 2, source="trace") for key in called]
        exposures[name] = Exposure(
            query=name,
            offered=tuple(items[item].key for item in turn.offered),
            called=called,
            full=turn.full,
            signals=("unknown-tool",) if turn.wanted else (),
            wanted=tuple(items[item].key for item in turn.wanted),
        )
    return Dataset(name="log", version="1", catalog=items, queries=tuple(queries), labels=tuple(labels)), exposures


def session_of(one: Draw, *, seed: int, focus: Sequence[str] = (), split: bool = True) -> LabellingSession:
    """A session over a draw that nobody has answered yet."""
    predictor = Predictor(one.pool)
    start = LabellingSession(predictor, Queue(selectors=one.pool.names, seed=seed, strata=()), MemoryLog())
    queue = make_queue(predictor, start.unsettled(), seed=seed, focus=focus, split=split)
    return LabellingSession(predictor, queue, MemoryLog())


def answer(session: LabellingSession, annotator: Annotator, n: int) -> int:
    """Answer about n prompts; how many it were.

    No query is begun after n - 3 answers, and the one in progress is answered through, as `data label` does when its
    time is up: to drop it instead would drop the long ones more often, which are the incomplete ones more often.
    """
    query, done = "", 0
    while (prompt := session.next()) is not None:
        if prompt.query != query and done >= n - 3:
            break
        query, done = prompt.query, done + 1
        session.answer(prompt, annotator.reply(prompt))
    return done


def answers_until(
    session: LabellingSession, annotator: Annotator, goals: Sequence[Goal], *, strata: Queue | None = None
) -> list[tuple[int, int]]:
    """How many answers it takes until the interval of each figure is as narrow as its goal.

    The second number of each is with the strata of another queue for the estimate, whatever order the session asks in;
    without one it equals the first.
    """
    query = ""
    found = [[0, 0] for _ in goals]
    while (prompt := session.next()) is not None:
        if prompt.query != query and session.answers:
            plain = session.sample()
            samples = (plain, regrouped(plain, strata) if strata else plain)
            for (what, width), reached in zip(goals, found, strict=True):
                for place, sample in enumerate(samples):
                    if not reached[place] and figure(sample, what).width <= width:
                        reached[place] = session.answers
            if all(all(reached) for reached in found):
                break
        query = prompt.query
        session.answer(prompt, annotator.reply(prompt))
    return [(a or session.answers, b or session.answers) for a, b in found]


def regrouped(sample: Sample, queue: Queue) -> Sample:
    """The sample with the strata of a queue."""
    return replace(
        sample,
        strata=[stratum.queries for stratum in queue.strata],
        guesses=[(stratum.complete, stratum.first, stratum.second) for stratum in queue.strata],
    )


def naive(pool: Pool, selector: int) -> tuple[float, Interval]:
    """Completeness if what was called is all that is required, over the queries where anything was."""
    values = []
    for query in pool.dataset.queries:
        groups = pool.groups(pool.dataset.labels_of(query.id))
        if groups:
            values.append(pool.complete(pool.row[query.id], groups)[selector])
    return sum(values) / len(values), wilson(sum(values), len(values))


def figure(sample: Sample, what: What) -> Figure:
    """The figure of a selector, or of a difference (pair, first, second)."""
    return sample.complete(what) if isinstance(what, int) else sample.ahead(*what)


def name_of(pool: Pool, what: What) -> str:
    """What a figure is called."""
    return pool.names[what] if isinstance(what, int) else f"{pool.names[what[1]]} - {pool.names[what[2]]}"
