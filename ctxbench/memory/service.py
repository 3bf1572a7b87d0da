"""The context service: build contexts, take feedback, and count requests."""

from __future__ import annotations

import hashlib
import logging
import math
import threading
import time as clock
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ctxbench.api.selectors import EmbedderGiven, embedder_name
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    UnknownNameError,
    UserError,
    check_range,
    raise_faults,
)
from ctxbench.io.rows import Row, in_utc, instant, instant_text, named_instant
from ctxbench.memory.engine import (
    DEEPEST,
    DEFAULTS,
    MOST_TOKENS,
    ContextCache,
    is_truncated,
    links_step,
    rendered,
    template_name,
)
from ctxbench.memory.memories import ASKED, SUFFICIENT, Event, StoreRows, read_rows, user_prefix
from ctxbench.memory.stores import Imported, MemoryStore, UserCatalogs, import_rows
from ctxbench.model.candidates import text_shown
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Batch, Request, batch_key
from ctxbench.model.resources import Resources, bound_indexes
from ctxbench.model.selection import Offered, Prompt, Selection, selections
from ctxbench.model.strategies import Step
from ctxbench.pipelines.pipeline import Outcome, Pipeline
from ctxbench.pipelines.strategies.format import citations
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import find_definition, is_shipped
from ctxbench.selectors.selector import check_fits

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the buckets of seconds; 0.3 is the limit of the specification."""

SECONDS = {
    "assembly": "Seconds per answer.",
    "search": "Seconds in retrieve steps.",
    "scoring": "Seconds in rank steps.",
    "optimisation": "Seconds in cut/pack steps.",
}
COUNTS = {
    "builds": "Contexts built.",
    "previews": "Contexts previewed.",
    "cache_hits": "Contexts with all steps cached.",
    "failures": "Failed and refused requests.",
    "retrieved": "Items retrieved.",
    "selected": "Items in contexts.",
    "tokens": "Tokens of contexts.",
    "feedback": "Judgements of items.",
    "sufficient": "Contexts judged sufficient.",
    "insufficient": "Contexts judged insufficient.",
    "reload_failures": "Times that the token file was faulty.",
}
SELECT_COUNTS = {
    "requests": "Requests answered.",
    "failures": "Failed and refused requests.",
    "selected": "Items offered.",
    "tokens": "Tokens of items offered.",
    "reloads": "Times that changed files were read.",
    "reload_failures": "Times that changed files or the token file were faulty.",
}
_STAGES = {"retrieve": "search", "rank": "scoring", "cut": "optimisation", "pack": "optimisation"}


class Metrics:
    """Thread-safe counters and histograms of one service.

    Args:
        kind: `context` or `select`, in the names of figures.
        counts: the counters by name, with what they count.
    """

    def __init__(self, kind: str = "context", counts: Mapping[str, str] = COUNTS) -> None:
        self._kind, self._about = kind, counts
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._sums: dict[str, float] = dict.fromkeys(SECONDS, 0.0)
        self._buckets = {name: [0] * (len(BOUNDS) + 1) for name in SECONDS}
        self._tracer = _tracer()

    def count(self, **amounts: int) -> None:
        """Add to counters of `COUNTS`."""
        with self._lock:
            self._counts.update(amounts)

    def value(self, name: str) -> int:
        """The value of a counter."""
        return self._counts[name]

    @contextmanager
    def request(self, action: str) -> Iterator[StageSeconds]:
        """Time a request; yields the listener for its pipeline.

        Args:
            action: the name of its span, such as `build`.
        """
        stages, begin = StageSeconds(self._tracer), clock.perf_counter()
        with self._tracer.start_as_current_span(f"{self._kind}.{action}") if self._tracer else nullcontext():
            yield stages
        self._observe({"assembly": clock.perf_counter() - begin, **stages.seconds})

    def _observe(self, seconds: Mapping[str, float]) -> None:
        with self._lock:
            for name, value in seconds.items():
                self._sums[name] += value
                self._buckets[name][bisect_left(BOUNDS, value)] += 1

    def text(self) -> str:
        """All figures in the text format of Prometheus, version 0.0.4."""
        lines, prefix = [], f"ctxbench_{self._kind}_"
        with self._lock:
            for name, about in self._about.items():
                lines += _head(f"{prefix}{name}_total", about, "counter")
                lines.append(f"{prefix}{name}_total {self._counts[name]}")
            for name, about in SECONDS.items():
                lines += _head(f"{prefix}{name}_seconds", about, "histogram")
                total = 0
                for bound, n in zip((*map(str, BOUNDS), "+Inf"), self._buckets[name], strict=True):
                    total += n
                    lines.append(f'{prefix}{name}_seconds_bucket{{le="{bound}"}} {total}')
                lines.append(f"{prefix}{name}_seconds_sum {self._sums[name]!r}")
                lines.append(f"{prefix}{name}_seconds_count {total}")
        return "\n".join(lines) + "\n"


def _head(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


class StageSeconds:
    """The listener of a pipeline: sums the seconds of steps by stage, and makes a span for each step.

    Attributes:
        seconds: by `search`, `scoring` and `optimisation`, without stages that did not run.
        steps: the number of steps that ran; 0 if all were cached.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self.seconds: dict[str, float] = {}
        self.steps = 0

    def __call__(self, kind: str, name: str, seconds: float) -> None:
        """See `ctxbench.pipelines.pipeline.Listener`."""
        self.steps += 1
        if stage := _STAGES.get(kind):
            self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        if self._tracer is not None:
            end = clock.time_ns()
            self._tracer.start_span(f"context.{kind}.{name}", start_time=end - round(seconds * 1e9)).end(end_time=end)


def _tracer() -> Any:
    """The tracer of OpenTelemetry; None if it is not installed."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace.get_tracer("ctxbench")


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedContext:
    """The context of one request.

    Attributes:
        id: an id for feedback; equal for equal requests to equal services.
        outcome: the outcome of the pipeline for this request.
        prompt: the prompt for the model.
        cites: whether the prompt has ids of citations.
        resources: counts tokens.
        kept: whether all steps were cached.
        template: the name of the template; empty if the selector writes its own context.
    """

    id: str
    outcome: Outcome
    prompt: Prompt
    cites: bool
    resources: Resources
    kept: bool
    template: str = ""

    @property
    def request(self) -> Request:
        """The request."""
        return self.outcome.query.batch.requests[0]

    @cached_property
    def selection(self) -> Selection:
        """The items offered and excluded."""
        return selections(self.outcome.query, self.outcome.candidates)[0]

    @cached_property
    def items(self) -> list[dict[str, Any]]:
        """The chosen items as JSON; see `as_dict`."""
        return [self._item(offered) for offered in self.selection.chosen]

    @cached_property
    def citations(self) -> list[dict[str, Any]]:
        """The items that a reply can cite, as JSON with the names of the specification, in order."""
        cited = citations(self.outcome.query, self.outcome.candidates, 0) if self.cites else ()
        rows = [{**asdict(citation), "usedInResponse": citation.used} for citation in cited]
        return [{name: row[name] for name in row if name != "used" and row[name] is not None} for row in rows]

    @cached_property
    def tokens(self) -> int:
        """The tokens of the rendered text, or of the items."""
        return (
            int(self.resources.text_tokens([self.prompt.context])[0])
            if self.prompt.context
            else sum(item["tokens"] for item in self.items)
        )

    def as_dict(self) -> dict[str, Any]:
        """`data` and `meta` of a response.

        Items are in the order of the selection, each with its `content`, or an `excerpt` if only a part is sent.
        `relevance` is the score of the selector, null for the session. `searchRank` is the rank in the search, from 1.
        `context` is the rendered text, if the format makes one. `stats` counts the found items: references, messages of
        the thread, and others. `truncated` says whether a budget excluded or shortened an item.
        """
        selection, request, total = self.selection, self.request, self.tokens
        sources = [self._source(entry, request) for entry in (*selection.chosen, *selection.left_out)]
        data = {
            "id": self.id,
            "totalTokens": total,
            "context": self.prompt.context,
            "items": self.items,
            "citations": self.citations,
            "stats": {
                **{f"{name}Count": sources.count(name) for name in ("explicit", "search", "history")},
                "excludedCount": len(selection.left_out),
            },
            "notes": [
                # the text of an error may have internals of the server
                (replace(note, message="see the log of the server") if note.kind == "failed" else note).as_dict()
                for note in selection.trace
            ],
            "truncated": is_truncated(self.outcome.candidates, 0),
        }
        data |= {"template": self.template} if self.template else {}
        meta = {"tokenUsage": total, "sourceCount": len(self.items), "citationCount": len(self.citations)}
        return {"data": data, "meta": meta}

    def _item(self, offered: Offered) -> dict[str, Any]:
        item, position = self._by_id(offered.id)
        text = text_shown(item, offered.span)
        tokens = offered.tokens
        metadata = {
            "path": item.path if item.is_file else None,
            "createdAt": item.created,
            "matchedKeywords": [word for word in self.outcome.query.keywords[0] if word in text.lower()],
            "searchRank": self._rank(position),
        }
        return {
            "id": offered.id,
            "type": item.type,
            "source": item.title or item.name,
            "content" if offered.span is None else "excerpt": text,
            "relevance": offered.score if offered.score is not None and math.isfinite(offered.score) else None,
            "tokens": int(self.resources.text_tokens([text])[0]) if tokens is None else tokens,
            "metadata": {name: value for name, value in metadata.items() if value is not None},
        }

    def _source(self, offered: Offered, request: Request) -> str:
        """The source of an item: `explicit`, `history`, `search` or `session`."""
        item, _ = self._by_id(offered.id)
        if offered.mode == "explicit":
            return "explicit"
        if offered.origin == "session":
            return "session"
        is_same_conversation = request.conversation is not None and item.conversation == request.conversation
        return "history" if item.type == "message" and is_same_conversation else "search"

    def _by_id(self, id_: str) -> tuple[Item, int]:
        catalog = self.outcome.query.batch.catalog
        position = catalog.position(id_)
        return catalog[position], position

    def _rank(self, position: int) -> int | None:
        table = self.outcome.candidates
        rank = int(table.chunk_rank[table.item == position][0])
        return rank + 1 if rank >= 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How a context is written.

    Attributes:
        template: `chat`, `detailed`, `summary`, or the fields of another.
        budget: the largest number of tokens of the context, 1 to 1,000,000.
        depth: the largest number of relationships that are followed to related memories, 0 to 5.

    Raises:
        ParameterError: a number is out of range.
    """

    template: str | Mapping[str, Any] = DEFAULTS.template or ""
    budget: int = DEFAULTS.budget or 0
    depth: int = 0

    def __post_init__(self) -> None:
        check_range("tokenBudget", self.budget, 1, MOST_TOKENS)
        check_range("relationshipDepth", self.depth, 0, DEEPEST)


GRID = 30  # seconds; times of requests are rounded up to it, so that repeated requests are equal
REMEMBERED = 10_000  # contexts that are remembered for feedback
REMEMBERED_BYTES = 64_000_000  # their size; the oldest is forgotten first
REMEMBERED_TEXT = 2_000  # remembered characters of a message
INDEXES = 32  # kept indexes of each kind

_log = logging.getLogger(__name__)
_STEP = GRID * 1_000_000  # microseconds


class NotSeenError(ParameterError):
    """An item or context does not exist, or belongs to another user, with the same message."""


class ConflictError(ParameterError):
    """Items contradict each other or what is stored."""


@dataclass(frozen=True, slots=True)
class _Built:
    """A remembered context: its request, with the start of its message, and its items."""

    text: str
    user: str | None
    conversation: str | None
    time: str | None
    items: tuple[str, ...]

    @property
    def size(self) -> int:
        """Its approximate size in bytes, with a minimum that also limits the number of contexts."""
        texts = (self.text, self.user, self.conversation)
        size = 1_000 + sum(4 * len(text or "") for text in texts) + sum(100 + len(item) for item in self.items)
        return max(size, REMEMBERED_BYTES // REMEMBERED)


class _RememberedContexts:
    """The remembered contexts of each user, with a limit in bytes.

    Above the limit the user with most bytes loses the oldest context, so that users do not affect each other.
    """

    def __init__(self) -> None:
        self._by_user: dict[str | None, dict[str, _Built]] = {}  # last built last
        self._bytes: dict[str | None, int] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return sum(map(len, self._by_user.values()))

    @property
    def size(self) -> int:
        """Their approximate size in bytes."""
        return sum(self._bytes.values())

    def add(self, context: str, built: _Built) -> None:
        """Remember a context, and forget others above the limit."""
        with self._lock:
            self._drop(built.user, context)
            self._by_user.setdefault(built.user, {})[context] = built
            self._bytes[built.user] = self._bytes.get(built.user, 0) + built.size
            while self.size > REMEMBERED_BYTES and len(self) > 1:
                largest = max(self._bytes, key=self._bytes.__getitem__)
                self._drop(largest, next(iter(self._by_user[largest])))

    def of(self, context: str, user: str | None) -> _Built | None:
        """The remembered context of a user."""
        with self._lock:
            return self._by_user.get(user, {}).get(context)

    def _drop(self, user: str | None, context: str) -> None:
        contexts = self._by_user.get(user, {})
        if (built := contexts.pop(context, None)) is not None:
            self._bytes[user] -= built.size
            if not contexts:
                del self._by_user[user], self._bytes[user]


class ContextService:
    """Builds contexts of one workspace with one selector.

    Contexts are cached by all data that they depend on. Threads may share a service, also while others write into its
    store.

    The selector gets only items that the user sees, and a shipped selector counts words with `statistics: scope`, so
    that private items do not affect other users.

    Attributes:
        cache: the cache of contexts; see `ContextCache.forget`.
        metrics: counts and times.

    Args:
        store: the store of the items.
        workspace: the workspace of the items.
        selector: a shipped one, `name` or `name/preset`, or a YAML file.
        embedder: its name, such as `minilm`, or a function from texts to vectors.
        counter: the name of the token counter, such as `o200k` or `chars/4`.
        cache: None = a `ContextCache` of 100 contexts and 30 seconds.

    A selector whose format is `messages`, as `memory`, gets a budget and a template, by default those of the engine;
    see `Writing`. Another one writes its own context.

    Raises:
        UserError: there is no such selector, embedder, counter or workspace.
    """

    def __init__(
        self,
        store: MemoryStore,
        workspace: str,
        *,
        selector: str = "memory",
        embedder: EmbedderGiven = "minilm",
        counter: str = "o200k",
        cache: ContextCache | None = None,
    ) -> None:
        definition, preset = find_definition(selector)
        self._pipeline = definition.pipeline(definition.values(preset))
        self._selector, self._unscoped = selector, self._pipeline.counting_over_catalog()
        if is_shipped(selector):
            self._pipeline, self._unscoped = self._pipeline.mapped(Step.scoped), ()
        self._cites = self._pipeline.format.declared("cites")
        self._writes = not self._pipeline.format.declared("chats")
        self._resources = local_resources(open_embedder(embedder_name(embedder)), open_counter(counter))
        bound_indexes(self._resources, INDEXES)
        store.catalog(workspace)
        self._store, self._workspace = store, workspace
        self._catalogs = UserCatalogs(workspace)
        self.cache = ContextCache() if cache is None else cache
        self.metrics = Metrics()
        self._built = _RememberedContexts()
        self._indexed: Catalog | None = None  # the public catalog with indexes
        self._lock = threading.Lock()

    def check_users(self, users: Collection[str | None]) -> None:
        """Check that the selector may serve these users.

        Raises:
            ParameterError: there are several users, and steps of an external selector count words over the whole
                catalog.
        """
        if len(set(users)) > 1 and self._unscoped:
            steps = ", ".join(dict.fromkeys(step.name for step in self._unscoped))
            raise ParameterError(
                f"{self._selector}: step {steps} counts words of items of all users; set `statistics: scope` there"
            )

    def prepare(self, users: Collection[str | None] = (None,)) -> None:
        """Load models and make indexes for users before their first request."""
        for user in (None, *[user for user in users if user is not None][: INDEXES - 1]):  # the public items first
            catalog, request = self._request("a first request", None, user, _rounded(None))
            check_fits(self._pipeline, catalog)
            self._indexed = catalog if user is None else self._indexed
            self._pipeline.run(Batch.of(catalog, [request]), self._resources)

    def build(
        self,
        message: str,
        *,
        thread: str | None = None,
        user: str | None = None,
        time: str | None = None,
        writing: Writing | None = None,
    ) -> ServedContext:
        """The context for a message.

        Args:
            message: the message of the user; not blank.
            thread: the conversation; an unknown one is new.
            user: the user, who sees public items and private ones.
            time: the time of the request, ISO 8601; None = now. It is rounded up to the next half minute.
            writing: how the context is written; None = the defaults.

        Raises:
            UserError: the message is blank, the time or the template is wrong, or the selector failed.
        """
        context = self._context("build", message, thread, user, time, writing)
        items = tuple(offered.id for offered in context.selection.chosen)
        self._built.add(context.id, _Built(message[:REMEMBERED_TEXT], user, thread, context.request.time, items))
        return context

    def health(self) -> dict[str, Any]:
        """The selector, and the number of items in the workspace, earlier versions included."""
        return {"status": "ok", "selector": self._selector, "items": len(self._store.catalog(self._workspace))}

    def preview(
        self,
        message: str,
        *,
        thread: str | None = None,
        user: str | None = None,
        time: str | None = None,
        writing: Writing | None = None,
    ) -> ServedContext:
        """The context for a message, without feedback."""
        return self._context("preview", message, thread, user, time, writing)

    def feedback(self, item: str, *, useful: bool, user: str | None = None, context: str | None = None) -> None:
        """Record whether an item was useful to a user.

        Args:
            item: the id of the item in a context.
            useful: whether it was useful.
            user: the user.
            context: the id of the context, which `ctxbench data from-feedback` needs. The service remembers the last
                10,000 contexts (at most 64 MB), with 2,000 characters of their messages.

        Raises:
            NotSeenError: there is no such context of this user, or no such item in it; or the user sees no such item.
        """
        built = None if context is None else self._built_for(context, user)
        key = self._visible_key(item, user, built)
        fields: dict[str, Any] = {}
        if built is not None:
            request = {"context": context, "item": item, "text": built.text, "time": built.time}
            fields = {"conversation": built.conversation, "metadata": {ASKED: request}}
        id_ = key.name.rpartition("@")[0]
        self._store.record(
            Event(kind="feedback", workspace=self._workspace, id=id_, user=user, useful=useful, **fields)
        )
        self.metrics.count(feedback=1)

    def sufficient(self, context: str, enough: bool, *, user: str | None = None) -> None:
        """Record whether a context was sufficient for an answer; the last record counts.

        Args:
            context: the id of the context; see `feedback`.
            enough: whether it was sufficient.
            user: the user of the request.

        Raises:
            NotSeenError: there is no such context of this user, or an item of it no longer exists.
        """
        built = self._built_for(context, user)
        items = sorted(built.items)
        for item in items:
            self._visible_key(item, user, built)
        self._store.record(
            Event(
                kind=SUFFICIENT,
                workspace=self._workspace,
                id=context,
                user=user,
                conversation=built.conversation,
                useful=enough,
                metadata={ASKED: {"context": context, "items": items, "text": built.text, "time": built.time}},
            )
        )
        self.metrics.count(sufficient=int(enough), insufficient=int(not enough))

    def import_rows(
        self,
        items: Sequence[Mapping[str, Any]] = (),
        events: Sequence[Mapping[str, Any]] = (),
        *,
        user: str | None = None,
    ) -> Imported:
        """Store files, messages, memories and events of a user: all or none.

        Args:
            items, events: rows as of `ctxbench context import`, without user and workspace. An event without a time is
                after all items.
            user: the user, who alone sees the items. They are stored as `~USER/ID`, so that several users may have
                the same path; None = items of everybody.

        Raises:
            ParameterError: rows are wrong; `NotSeenError`: they name an item that the user does not see;
                `ConflictError`: they contradict each other or what is stored. Nothing was stored.
        """
        faults: list[Fault] = []
        named = (("item", items), ("event", events))
        rows = [Row(row, faults, Path(name), n) for name, rows in named for n, row in enumerate(rows, start=1)]
        with _errors_of_rows(ParameterError):
            read = read_rows(rows, faults, "rows", self._workspace)
        with self._store.together():
            with _errors_of_rows(NotSeenError):
                read = self._of_user(read, user)
            with _errors_of_rows(ConflictError):
                return import_rows(self._store, read)

    def _of_user(self, read: StoreRows, user: str | None) -> StoreRows:
        """The rows with ids of a user, who sees every item that they name."""
        prefix = user_prefix(user)
        visible = {item.name.rpartition("@")[0] for item in self._catalog(user)}
        ids = {f"{prefix}{row.memory.id}" for row in read.rows}

        def checked_id(row: Row, id_: str) -> str:
            name = f"{prefix}{id_}" if f"{prefix}{id_}" in ids | visible else id_
            if name not in ids | visible:
                row.fault(Message("memory.row-unseen", name=id_))
            return name

        for id_ in ids - visible:  # an item of another user that was imported from a file
            if self._store.has(self._workspace, id_):
                raise ConflictError(Message("memory.row-reserved", name=id_.removeprefix(prefix)))
        rows = [
            replace(
                row,
                memory=replace(row.memory, id=f"{prefix}{row.memory.id}", user=user),
                links=tuple((kind, checked_id(row.row, target)) for kind, target in row.links),
            )
            for row in read.rows
        ]
        events = [(row, replace(event, id=checked_id(row, event.id), user=user)) for row, event in read.events]
        raise_faults(read.faults)
        return replace(read, rows=rows, events=events, unit="item")

    def _built_for(self, context: str, user: str | None) -> _Built:
        """The remembered context of a user."""
        built = self._built.of(context, user)
        if built is None:
            raise NotSeenError(f"unknown context {context!r:.80}; build it again")
        return built

    def _visible_key(self, item: str, user: str | None, built: _Built | None) -> ItemKey:
        """The key of a visible item, which must be in the context, if there is one."""
        try:
            key = ItemKey.parse(item)
        except ParameterError:
            key = None
        if key is None or self._catalog(user).find(key) is None:
            raise NotSeenError(f"unknown item {item!r:.200}; use its `id` in a context")
        if built is not None and item not in built.items:
            raise NotSeenError(
                f"item {item!r:.200} is not in this context; name one of its items, or remove the context"
            )
        return key

    def _written(self, writing: Writing | None) -> tuple[Pipeline, str]:
        """The pipeline that writes a context, and the name of its template.

        Raises:
            ParameterError: the selector writes its own context, or the template or a number is wrong.
        """
        if self._writes:
            if writing is not None:
                raise ParameterError(Message("memory.own-writing", selector=self._selector))
            return self._pipeline, ""
        form = writing or Writing()
        steps = (*self._pipeline.refine, *([links_step(form.depth)] if form.depth else []))
        try:
            pipeline = rendered(replace(self._pipeline, refine=steps), form.template, budget=form.budget)
        except UnknownNameError as error:
            raise ParameterError(str(error)) from None
        return pipeline, template_name(form.template)

    def _context(
        self, action: str, message: str, thread: str | None, user: str | None, time: str | None, writing: Writing | None
    ) -> ServedContext:
        begin = clock.perf_counter()
        with self.metrics.request(action) as stages:
            if not message.strip():
                raise ParameterError("message is blank")
            pipeline, template = self._written(writing)
            catalog, request = self._request(message, thread, user, _rounded(time), pipeline.key)
            key = _key(catalog, request, pipeline.key)
            entry = self.cache.entry(key, catalog=catalog.hash, thread=thread, user=user)
            with entry.lock:
                check_fits(pipeline, catalog)
                self._index_public(catalog)
                batch = Batch.of(catalog, [request])
                outcome = pipeline.run(batch, self._resources, memo=entry.outputs, live=True, listener=stages)
                if entry.answer is None or stages.steps:
                    entry.answer = context = ServedContext(
                        id=hashlib.sha256(key.encode()).hexdigest()[:32],
                        outcome=outcome,
                        prompt=pipeline.prompts(outcome, self._resources)[0],
                        template=template,
                        cites=self._cites,
                        resources=self._resources,
                        kept=False,
                    )
                else:
                    context = replace(entry.answer, kept=True)
            tokens = context.tokens
        for note in outcome.trace:
            _log.warning("%s: %s, %s", note.step, note.kind, note.message)
        table = outcome.candidates
        self.metrics.count(**{f"{action}s": 1}, cache_hits=int(context.kept))
        n_items = int(table.chosen.sum())
        self.metrics.count(retrieved=len(table), selected=n_items, tokens=tokens)
        who = "-" if user is None else repr(user)
        message_values = {"action": action, "context": context.id, "user": who, "selector": self._selector}
        figures = {"items": n_items, "tokens": tokens, "ms": (clock.perf_counter() - begin) * 1000}
        state = "cached" if context.kept else "not cached"
        _log.info(Message("memory.served", state=state, **message_values, **figures))
        return context

    def _index_public(self, catalog: Catalog) -> None:
        """Make the indexes of public items, which indexes of users extend, unless they exist."""
        public = self._catalogs.public
        if catalog is public or not len(public) or self._indexed is public:
            return
        with self._lock:
            if self._indexed is not public:
                request = Request(id="request", text="a first request", workspace=self._workspace, time=_rounded(None))
                with suppress(UserError):  # the run of the user reports it
                    self._pipeline.run(Batch.of(public, [request]), self._resources, live=True)
                self._indexed = public

    def _request(
        self, message: str, thread: str | None, user: str | None, time: str, pipeline: str = ""
    ) -> tuple[Catalog, Request]:
        """The catalog and the request over it, of the same state of the store."""
        catalog = self._catalog(user)
        while True:
            request = self._store.request(self._workspace, message, user=user, conversation=thread, time=time)
            before, catalog = catalog, self._catalog(user)
            if catalog is before or catalog.hash == before.hash:  # empty catalogs are new objects
                return catalog, self._as_before(catalog, request, pipeline)

    def _catalog(self, user: str | None) -> Catalog:
        """The items of the workspace that a user sees."""
        return self._catalogs.of(self._store.catalog(self._workspace), user)

    def _as_before(self, catalog: Catalog, request: Request, pipeline: str) -> Request:
        """The cached request of half a minute or a minute earlier, if its items are unchanged.

        This finds requests whose times were rounded to an earlier step.
        """
        current_time, facts = instant(str(request.time)), catalog.facts
        for before in (current_time - _STEP, current_time - 2 * _STEP):
            earlier = replace(request, time=instant_text(before))
            if _key(catalog, earlier, pipeline) in self.cache:
                changes = [(times > before) & (times <= current_time) for times in (facts.created, facts.until)]
                return request if any(bool(change.any()) for change in changes) else earlier
        return request


def _key(catalog: Catalog, request: Request, pipeline: str) -> str:
    """The key of a context, from that of its pipeline."""
    return f"{batch_key(catalog, [request])}\n{pipeline}"


@contextmanager
def _errors_of_rows(kind: type[ParameterError]) -> Iterator[None]:
    """Turn the faults of rows inside it into one error, with the numbers of the rows."""
    try:
        yield
    except InputError as error:
        faults = [Message("memory.row-of-user", row=at.path, number=at.line, fault=at.message) for at in error.faults]
        raise kind("; ".join(faults[:10])) from None


def _rounded(time: str | None) -> str:
    """A time in UTC, rounded up to the grid; None = now.

    Raises:
        ParameterError: it is not a time, or too late to be rounded.
    """
    when = named_instant("time", in_utc(None) if time is None else time) or 0
    try:
        return instant_text(-(-when // _STEP) * _STEP)
    except OverflowError:
        raise ParameterError(f"time must be of the years 1 to 9999, got {time!r}") from None
