"""Protocols of strategies, and the steps and combinators that pipelines are built from.

A list of analyses joins their chunks; `merge` joins the candidates of several retrievers by item; `by_domain` refines
the items of each type separately.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import inspect
import json
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from ctxbench.io.errors import Message, ParameterError, SelectorError, check_range
from ctxbench.model import registry
from ctxbench.model.candidates import Candidates, Note, Origin
from ctxbench.model.requests import Batch, Query, together
from ctxbench.model.resources import FORMAT, Resources, WithinResources
from ctxbench.model.selection import concatenated, joined

if TYPE_CHECKING:
    from ctxbench.model.arrays import FloatArray, IntArray
    from ctxbench.model.items import Catalog
    from ctxbench.model.resources import T


def later(default: T) -> T:
    """A parameter added after pipelines were stored: descriptions omit its default, so that they stay valid."""
    return dataclasses.field(default=default, metadata={"later": True})


@dataclass(frozen=True)
class SweptExpansion:
    """How an expansion is swept.

    Attributes:
        threshold: its parameter for the least similarity.
        limit: its parameter for the most items per pass.
        obstacle: why one run is not enough with its other parameters; empty = it is.
    """

    threshold: str
    limit: str
    obstacle: str = ""


class Strategy:
    """The base of strategies: callable frozen dataclasses whose fields are their parameters.

    How it is called depends on its kind (`ctxbench.model.strategies`). Pipelines, the gate, tuning and reports read the
    attributes below; none of them looks at a strategy's name. A strategy overrides an attribute by a class variable or
    a property.

    Attributes:
        rule_words: the words of its exclusion rules, by code, with `{name}` for a value of the rule.
        limits: the range of parameters, ends included; None is in any. A `__post_init__` of a strategy's own checks
            them there, or calls this one.
        version: raised when the same parameters give other answers than before, so that no stored output is reused.
        ranks: whether a retriever ranks its items.
        searches: whether a retriever looks for items at all.
        independent: whether a retriever scores an item the same whatever else is in the catalog.
        promotes: whether a cut may choose an item that an earlier cut excluded.
        expands: whether a pack step may offer items that were not found, such as the rest of a file.
        keeps_score: whether a rank step leaves scores and order unchanged, such as one that adds columns.
        orders: whether a rank step makes an order that does not depend on the one before it.
        chats: whether a format builds chat messages, with a system prompt.
        cites: whether a format numbers its items so that a reply can cite them.
        includes_tokens: whether the scores of a rank step include token counts.
        reads_tool_results: whether it reads results of tools.
        itemwise: whether it treats an item or a request the same whatever other steps cut.
        swept: the range of each parameter of a cut that tuning varies in a pipeline from Python.
        relative_rules: the codes of its exclusion rules that compare a score with the best score of the request.
        chunk_limits: the parameters that limit chunk matches. Baselines store items, so other values of these cannot be
            replayed.
        adds_prefix: whether an expansion adds a prefix of one ranking per request, so that its threshold and its limit
            can be swept from one run (see `expansion_sweep`).
    """

    version: ClassVar[int] = 1
    ranks: ClassVar[bool] = True
    searches: ClassVar[bool] = True
    independent: ClassVar[bool] = False
    promotes: ClassVar[bool] = False
    expands: ClassVar[bool] = False
    keeps_score: ClassVar[bool] = False
    orders: ClassVar[bool] = False
    chats: ClassVar[bool] = False
    cites: ClassVar[bool] = False
    includes_tokens: ClassVar[bool] = False
    reads_tool_results: ClassVar[bool] = False
    itemwise: ClassVar[bool] = False
    swept: ClassVar[Mapping[str, tuple[float, float]]] = {}
    relative_rules: ClassVar[tuple[str, ...]] = ()
    chunk_limits: ClassVar[tuple[str, ...]] = ()
    adds_prefix: ClassVar[bool] = False
    rule_words: ClassVar[Mapping[str, str]] = {}
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {}

    def __post_init__(self) -> None:
        for name, (low, high) in self.limits.items():
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), low, high)

    def __init_subclass__(cls) -> None:
        """Reject a parameter without a default that has the name of an attribute of `Strategy`.

        Raises:
            ParameterError: names both; as a dataclass it would take what `Strategy` says for its default.
        """
        super().__init_subclass__()
        for name, kind in inspect.get_annotations(cls).items():
            if name in vars(Strategy) and name not in vars(cls) and "ClassVar" not in str(kind):
                raise ParameterError(
                    f"{cls.__name__}: a parameter without a default cannot be called {name!r}, as every strategy says "
                    "something of itself by that name; give it a default, or another name"
                )

    def score_parts(self, candidates: Candidates) -> Mapping[str, FloatArray]:  # noqa: ARG002
        """Of a rank step whose score is a sum: what each source or feature adds, shape (n_rows,) each, 0 for nothing.

        Args:
            candidates: behind the step; later steps may have added rows. Rows of the session have any value.
        """
        return {}

    def word_parts(
        self,
        query: Query,  # noqa: ARG002
        request: int,  # noqa: ARG002
        items: IntArray,  # noqa: ARG002
        resources: Resources,  # noqa: ARG002
    ) -> Sequence[Mapping[str, float]]:
        """Of a retriever by words: what each word of a request adds to the score of each item, 0 for what it lacks.

        A mapping per item; no mapping at all for another retriever.

        Args:
            query, request: whose words.
            items: catalog positions, shape (n,).
            resources: as in the call.
        """
        return ()

    @property
    def uses(self) -> tuple[str, ...]:
        """The resources whose identity decides its output."""
        return ()

    @property
    def code(self) -> str | None:
        """Module, class and source of a chunking rule that is not of ctxbench, which no name tells; None = none."""
        return None if self.chunking is None else registry.foreign_code(type(self.chunking.rule))

    @property
    def content(self) -> str | None:
        """The content of the file that it reads, or a hash of it; None = it reads none."""
        return None

    @property
    def depth(self) -> int | None:
        """How many items a retriever ranks exactly; None = not declared."""
        return None

    @property
    def reach(self) -> int:
        """How many of the best chunk matches it looks at; 0 = all that exist."""
        return 0

    @property
    def chunking(self) -> Any | None:
        """How it splits items (`chunking.items.ItemChunking`); None where it splits none."""
        return None

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of a `merge` that its parameters name; none = whatever there are."""
        return ()

    @property
    def thresholds(self) -> Mapping[str, Mapping[str, float]]:
        """The thresholds on scores: by quantity (`score`, `margin`, `ratio`, `expansion`), parameter and value."""
        return {}

    @property
    def floor(self) -> int:
        """How many items a cut offers whatever they score."""
        return 0

    @property
    def calibrated(self) -> str | None:
        """The kind of fit that it reads; it then has `calibrations`, too. None = none."""
        return None

    @property
    def replay(self) -> str:
        """Which candidates the gate needs to replay a cut from scores, types, tokens and chunks of the request.

        `rank` = those that rank above an item, `all` = all; empty = the cut cannot be replayed.
        """
        return ""

    @property
    def passes(self) -> int:
        """How many times an expansion runs, each time from what the one before added."""
        return 1

    @property
    def expansion_sweep(self) -> SweptExpansion | None:
        """How the threshold and the limit of an expansion are swept from one run; None = they cannot be."""
        return None

    @classmethod
    def family(cls, written: Mapping[str, Any], reader: Any) -> Any | None:  # noqa: ARG003
        """How `tune` sweeps a cut (`ctxbench.tuning.cut_families`); None = its settings are tried one by one.

        Args:
            written: its parameters as a definition writes them.
            reader: reads them and makes families (`ctxbench.tuning.domains.CutReader`).
        """
        return None

    @classmethod
    def family_behind(cls, before: Any, written: Mapping[str, Any], reader: Any) -> Any | None:  # noqa: ARG003
        """How `tune` sweeps the cuts of the family `before` with this one behind them; None = it cannot."""
        return None

    @property
    def word_rule(self) -> Any | None:
        """Which words of a text a lexical retriever counts (`ctxbench.search.words.WordRule`)."""
        return None

    def wider(self, *, rank: int, score: float, best: float) -> Mapping[str, float]:  # noqa: ARG002
        """The parameters by which a cut excludes an item, with values that let it in.

        Args:
            rank: of the item, from 1: how many items the cut would have to offer.
            score: of the item.
            best: the best score of the request.
        """
        return {}

    def score_at(
        self,
        score: float,
        before: int,  # noqa: ARG002
        after: int,  # noqa: ARG002
        rivals: Sequence[tuple[float, int]] = (),  # noqa: ARG002
    ) -> float:
        """The score of an item if it cost `after` tokens instead of `before`.

        Args:
            score, before: of the item.
            after: its other tokens.
            rivals: score and tokens of every other candidate of the request.
        """
        return score

    def leaves_all(self, before: Any) -> bool:  # noqa: ARG002
        """Whether a cut excludes nothing that the cut `before` offers."""
        return False

    def check(self, catalog: Catalog, resources: Any) -> None:
        """Check that it can be used with a catalog and resources, before anything runs.

        Raises:
            UserError: says why it cannot, and what to do.
        """

    def notices(self, catalog: Catalog, resources: Any) -> Iterator[str]:  # noqa: ARG002
        """Notices for the user about its use on this catalog."""
        return iter(())


class FirstN(Strategy):
    """A retriever that finds the first `n` items, one of its parameters."""

    n: int
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"n": (0, math.inf)}

    @property
    def depth(self) -> int:
        """As many as it takes."""
        return self.n


_IDLE_S = 1.0  # a thread that does not compute for so long waits for something, and may wait for ever
_LONGEST_S = 10.0  # that the end of the process is held up


class _Threads:
    """Threads that stay for the next call: to start one takes as long as a search. A process ends without them."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._free = 0  # threads that wait, less the calls that wait for one
        self._busy: set[threading.Thread] = set()

    def call(self, function: Callable[[], None]) -> None:
        """Call a function, which raises nothing, in a separate thread."""
        with self._lock:
            self._free -= 1
            if new := self._free < 0:
                self._free = 0
        self._calls.put(function)
        if new:
            threading.Thread(target=self._work, name="ctxbench source", daemon=True).start()

    def stop(self) -> None:
        """Stop the calls that are still running, at the end of the process.

        Python ends a thread that comes back from compiled code once it has begun to shut down. Where that code is C++,
        the whole process is aborted (SIGABRT). So an exception is raised in the thread, and while it computes it is
        waited for; one that waits for something else is left alone.
        """
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None  # where a callback drops it, Python would say so
        end = time.monotonic() + _LONGEST_S
        computing = {thread: (_cpu_seconds(thread), time.monotonic()) for thread in list(self._busy)}
        while computing and time.monotonic() < end:
            for thread in computing:
                _raise_exit(thread)  # again, as a callback of compiled code may have dropped it
            time.sleep(0.02)
            for thread, (spent, since) in list(computing.items()):
                time_now, spent_now = time.monotonic(), _cpu_seconds(thread)
                if thread not in self._busy or (spent_now == spent and time_now - since > _IDLE_S):
                    del computing[thread]
                elif spent_now != spent:
                    computing[thread] = spent_now, time_now
        sys.unraisablehook = hook

    def _work(self) -> None:
        thread = threading.current_thread()
        while True:
            with contextlib.suppress(SystemExit):  # of `stop`: a thread that ended could not be asked what it computes
                call = self._calls.get()
                self._busy.add(thread)
                try:
                    call()
                finally:
                    self._busy.discard(thread)
                with self._lock:
                    self._free += 1


def _raise_exit(thread: threading.Thread) -> None:
    """Raise SystemExit in a thread, where it next runs Python."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))


def _cpu_seconds(thread: threading.Thread) -> float:
    """The CPU time of a thread; 0 if the system does not report it."""
    if not thread.is_alive():
        return 0.0
    try:
        return time.clock_gettime(time.pthread_getcpuclockid(thread.ident or 0))
    except (AttributeError, OSError):
        return 0.0


_threads = _Threads()
atexit.register(_threads.stop)
if hasattr(os, "register_at_fork"):  # a forked process has none of the threads
    os.register_at_fork(after_in_child=_threads.__init__)  # type: ignore[misc]


def side_by_side(calls: Mapping[str, Callable[[], T]], *, seconds: float) -> tuple[dict[str, T], tuple[Note, ...]]:
    """Run several calls at once, each in a thread, and leave out those that fail or take too long.

    A thread cannot be ended: one that is late goes on, and what it returns is dropped. At the end of the process
    SystemExit is raised in it, and as long as it still computes, for at most 10 s, the process waits.

    Args:
        calls: by name.
        seconds: how long they are waited for.

    Returns:
        What they returned, by name in their order, and a note for each that did not.
    """
    done: queue.SimpleQueue[tuple[str, T | None, BaseException | None]] = queue.SimpleQueue()

    def make(name: str, call: Callable[[], T]) -> None:
        try:
            done.put((name, call(), None))
        except BaseException as error:  # noqa: BLE001 - whatever it is, even an exit, the other sources answer
            done.put((name, None, error))

    for name, call in calls.items():
        _threads.call(partial(make, name, call))
    end = time.monotonic() + seconds
    returned: dict[str, T] = {}
    notes: dict[str, Note] = {}
    while len(returned) + len(notes) < len(calls):
        try:
            name, value, error = done.get(timeout=max(end - time.monotonic(), 0.0))
        except queue.Empty:
            break
        if error is None:
            returned[name] = value  # type: ignore[assignment]
        else:
            notes[name] = Note(f"retrieve.{name}", "failed", " ".join(str(error).split()) or type(error).__name__)
    late = calls.keys() - returned.keys() - notes.keys()
    notes |= {name: Note(f"retrieve.{name}", "late", f"it had {seconds:g} s") for name in late}
    return {name: returned[name] for name in calls if name in returned}, tuple(notes[n] for n in calls if n in notes)


_PLAIN, _SILENT = Strategy(), object()


class Described:
    """What describes itself: equal keys mean equal steps, with equal contents of the files that they read."""

    def describe(self) -> dict[str, Any]:
        """Names, versions and parameters: what manifests and labels are made from."""
        raise NotImplementedError

    def steps(self) -> Iterator[Step]:
        """The steps in it, in order; itself if it is one."""
        raise NotImplementedError

    @property
    def key(self) -> str:
        """The description as text."""
        return json.dumps(self.describe(), sort_keys=True, default=str)

    @property
    def uses(self) -> tuple[str, ...]:
        """The resources whose identity decides the output."""
        return tuple(use for step in self.steps() for use in step.uses)

    @property
    def reach(self) -> int:
        """How many of the best chunk matches a step reads at most; 0 if it takes what exists."""
        return max((step.reach for step in self.steps()), default=0)

    @property
    def fitted(self) -> bool:
        """Whether a step reads a fit, which depends on the catalog and on the earlier steps."""
        return any(step.fitted for step in self.steps())

    @property
    def expands(self) -> bool:
        """Whether a step adds items that were not retrieved."""
        return any(step.expands for step in self.steps())


@dataclass(frozen=True)
class Step(Described):
    """A built strategy; carries the name and all the parameters that it was made with."""

    kind: str
    name: str
    call: Callable[..., Any]

    def describe(self) -> dict[str, Any]:
        """Name, version and its parameters: what manifests, cache keys and labels are made from.

        A step that reads a file says in `content` what stood in it: the path alone would hide an edit. One that is not
        of ctxbench, or that uses a chunking rule which is not, says so in `code`.
        """
        row = {
            "step": f"{self.kind}:{self.name}",
            "version": self.declared("version"),
            **registry.serialised_parameters(self.call),
        }
        also = {"code": self.code, "content": self.declared("content")}
        return {**row, **{name: value for name, value in also.items() if value}}

    def declared(self, attribute: str) -> Any:
        """An attribute that the strategy declares, by the name of a property of `Strategy`.

        A strategy that is not derived from that class says what the class would, where it says nothing.
        """
        value = getattr(self.call, attribute, _SILENT)
        return getattr(_PLAIN, attribute) if value is _SILENT else value

    @property
    def uses(self) -> tuple[str, ...]:
        """The resources whose identity decides this step's output."""
        return tuple(self.declared("uses"))

    def steps(self) -> Iterator[Step]:
        """Itself."""
        yield self

    @property
    def code(self) -> str | None:
        """Module, class and source of a strategy, or of its chunking rule, that is not of ctxbench; None = none is."""
        return registry.foreign_code(type(self.call)) or self.declared("code")

    @property
    def unlimited(self) -> bool:
        """Whether a retriever may find the whole catalog, as far as it declares."""
        return self.declared("depth") is None

    @property
    def depths(self) -> tuple[int, ...]:
        """How many items a retriever ranks, if it declares that."""
        depth = self.declared("depth") if self.kind == "retrieve" else None
        return () if depth is None else (int(depth),)

    @property
    def ranks(self) -> bool:
        """Whether a retriever ranks what it finds."""
        return bool(self.declared("ranks"))

    @property
    def reach(self) -> int:
        """How many of the best chunk matches the step looks at; 0 if it takes what exists."""
        return int(self.declared("reach"))

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of a `merge` that the step's parameters name."""
        return tuple(self.declared("sources"))

    @property
    def chunking(self) -> Any | None:
        """How the step splits items (a `chunking.items.ItemChunking`); None where it does not."""
        return self.declared("chunking")

    @property
    def fitted(self) -> bool:
        """Whether the step reads a fit, which depends on the catalog and on the earlier steps."""
        return self.declared("calibrated") is not None

    @property
    def expands(self) -> bool:
        """Whether the step adds items that were not retrieved."""
        return self.kind == "expand" or (self.kind == "pack" and bool(self.declared("expands")))

    @property
    def off(self) -> bool:
        """Whether its parameters make it change nothing, so that it need not be run."""
        return bool(getattr(self.call, "off", False))

    def mapped(self, change: Callable[[Step], Step]) -> Step:
        """The step, changed; combinators change every step in them."""
        return change(self)

    def scoped(self) -> Step:
        """The step with `statistics: scope` in place of `statistics: catalog`, where it has that parameter."""
        if getattr(self.call, "statistics", None) != "catalog":
            return self
        return replace(self, call=replace(cast("Any", self.call), statistics="scope"))


def built_step(stored: registry.StoredStep) -> Step:
    """A stored step, built; one that declares nothing where its strategy is not here or takes other parameters."""
    call = stored.build()
    return Step(stored.kind, stored.name, cast("Any", _PLAIN) if call is None else call)


class WithFormat(WithinResources):
    """Resources with the pipeline's format, under the name `FORMAT`: for steps that count rendered tokens."""

    def __init__(self, resources: Resources, step: Step) -> None:
        super().__init__(resources)
        self._step = step

    def get(self, name: str) -> Any:
        """As `Resources.get`; `FORMAT` is a function from a query and candidates to a `Prompt` a request."""
        if name == FORMAT:
            return lambda query, candidates: self._step.call(query, candidates, self._resources)
        return super().get(name)

    def identity(self, name: str) -> str:
        """As `Resources.identity`."""
        return self._step.key if name == FORMAT else super().identity(name)


@dataclass(frozen=True)
class Analyses(Described):
    """Analyses side by side: the chunks of all, by request, in this order."""

    analyses: tuple[Step, ...]

    def describe(self) -> dict[str, Any]:
        """The analyses in order."""
        return {"step": "analyses", "analyses": [step.describe() for step in self.analyses]}

    def mapped(self, change: Callable[[Step], Step]) -> Analyses:
        """The same with every step changed."""
        return replace(self, analyses=tuple(map(change, self.analyses)))

    def steps(self) -> Iterator[Step]:
        """The analyses."""
        yield from self.analyses

    def call(self, batch: Batch, resources: Resources) -> Query:
        """Analyse in every way and put the chunks together."""
        return together([step.call(batch, resources) for step in self.analyses])


@dataclass(frozen=True)
class Merge(Described):
    """Retrievers side by side, joined by item: one column per source; the score is the best source's score.

    Scores of different sources are seldom comparable, so a `rank` step should follow.

    Attributes:
        sources: by name.
        seconds: asked live, the sources run side by side, and one that fails or takes longer is left out, with a note;
            None = every source is waited for, one after the other, and one that fails is an error. So it always is in
            a run, whose answers must not depend on the clock. A process's first request also loads models and makes
            indexes within that time.
    """

    sources: Mapping[str, Step]
    seconds: float | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"merge of {', '.join(self.sources)}"

    def describe(self) -> dict[str, Any]:
        """The sources in order."""
        sources = [[name, step.describe()] for name, step in self.sources.items()]
        limit = {} if self.seconds is None else {"seconds": self.seconds}
        return {"step": "merge", "sources": sources, **limit}

    def mapped(self, change: Callable[[Step], Step]) -> Merge:
        """The same with every source changed."""
        return replace(self, sources={name: change(step) for name, step in self.sources.items()})

    def steps(self) -> Iterator[Step]:
        """The sources."""
        yield from self.sources.values()

    @property
    def unlimited(self) -> bool:
        """Whether any source is."""
        return any(step.unlimited for step in self.sources.values())

    @property
    def depths(self) -> tuple[int, ...]:
        """Those of all sources."""
        return tuple(depth for step in self.sources.values() for depth in step.depths)

    @property
    def ranks(self) -> bool:
        """Whether all sources rank."""
        return all(step.ranks for step in self.sources.values())

    def call(self, query: Query, resources: Resources, *, live: bool = False) -> Candidates:
        """Retrieve from every source and join.

        Raises:
            SelectorError: asked live with a time limit, every source was late or failed; names them all.
        """
        if not live or self.seconds is None:
            return joined({name: step.call(query, resources) for name, step in self.sources.items()})
        calls = {name: partial(step.call, query, resources) for name, step in self.sources.items()}
        results, notes = side_by_side(calls, seconds=self.seconds)
        if not results:
            raise SelectorError(f"{self.name}: no source answered; {'; '.join(map(str, notes))}")
        notes = tuple(replace(note, message=Message("model.source-left-out", reason=note.message)) for note in notes)
        # one that did not answer has its column all the same, so that steps behind find it
        tables = {name: results.get(name, Candidates.empty(len(query.batch))) for name in self.sources}
        return joined(tables).noted(*notes)


@dataclass(frozen=True)
class PerType(Described):
    """Refines the items of each domain (a set of types) with other steps, and joins the results.

    Chunk ranks stay those of the whole search. Session items go with the domain of their type, so that its steps see
    them (an expansion that leads from them, a budget that counts them), and leave it untouched; those of no domain
    pass by.
    """

    domains: Mapping[tuple[str, ...], tuple[Step | PerType, ...]]
    name: ClassVar[str] = "by_domain"  # in messages
    off: ClassVar[bool] = False  # even without steps it rejects items that belong to no domain

    def describe(self) -> dict[str, Any]:
        """The domains in order."""
        domains = [[",".join(types), [step.describe() for step in steps]] for types, steps in self.domains.items()]
        return {"step": "by_domain", "domains": domains}

    def mapped(self, change: Callable[[Step], Step]) -> PerType:
        """The same with every step of every domain changed."""
        domains = {types: tuple(step.mapped(change) for step in steps) for types, steps in self.domains.items()}
        return replace(self, domains=domains)

    def steps(self) -> Iterator[Step]:
        """The steps of all domains."""
        yield from (inner for steps in self.domains.values() for step in steps for inner in step.steps())

    def call(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Refine each part.

        Raises:
            ParameterError: a candidate's type belongs to no domain.
        """
        batch = query.batch
        types = batch.catalog.facts.type
        session = candidates.origin == Origin.SESSION
        parts = []
        free = np.ones(len(batch.catalog), dtype=np.bool_)  # items that no domain has taken
        for domain, steps in self.domains.items():
            in_domain = free & (types.are_any(domain) | ("*" in domain))
            free &= ~in_domain
            part = candidates.select_rows(in_domain[candidates.item])
            domain_query = query
            if any(step.expands for step in steps):  # what a domain adds is of that domain
                domain_query = replace(query, batch=replace(batch, eligible=batch.eligible.within(in_domain)))
            for step in steps:
                part = step.call(domain_query, part, resources)
            parts.append(part)
        left = free[candidates.item]
        if (left & ~session).any():
            missing_types = sorted({batch.catalog[item].type for item in candidates.item[left & ~session].tolist()})
            raise ParameterError(
                f"by_domain: items of type {', '.join(missing_types)} belong to no domain; add one, or '*'"
            )
        return concatenated([*parts, candidates.select_rows(left)])
