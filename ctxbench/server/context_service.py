"""The service behind the HTTP interface: builds contexts of a workspace's items, and takes feedback on them."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog, ItemKey
from ctxbench.core.pipeline import Outcome
from ctxbench.core.requests import Batch, Request, batch_key
from ctxbench.core.times import in_utc, instant, instant_text, named_instant
from ctxbench.embedding.embedder_names import open_embedder
from ctxbench.index.resources import local_resources
from ctxbench.library.embedders import EmbedderGiven, embedder_name
from ctxbench.selectors.definitions import find_definition
from ctxbench.selectors.pipelines import check_fits
from ctxbench.server.context_cache import ContextCache
from ctxbench.server.metrics import Metrics
from ctxbench.server.served_context import ServedContext
from ctxbench.steps.citations import Citations
from ctxbench.stores.events import ASKED, SUFFICIENT, Event
from ctxbench.text.tokens import open_counter

if TYPE_CHECKING:
    from ctxbench.stores.memory_store import MemoryStore

GRID = 30  # seconds: times of requests are rounded up to it, so that what is asked again is the same request
REMEMBERED = 10_000  # contexts that feedback can be given on

_log = logging.getLogger(__name__)
_STEP = GRID * 1_000_000  # microseconds


class NotSeenError(ParameterError):
    """What was named is not there, or is somebody else's, which is told in the same words."""


@dataclass(frozen=True, slots=True)
class _Built:
    """What is remembered of a context for feedback: what was asked, and which items it has."""

    request: Request
    items: frozenset[str]


class ContextService:
    """Builds contexts of one workspace with one selector.

    A context is kept for a while by everything that it depends on, so that the same request is answered at once, and
    any write that changes it makes it anew. Threads may share a service, also while others write into its store.

    Attributes:
        cache: of contexts; see `ContextCache.forget`.
        metrics: what it did, and how long that took.

    Args:
        store: where the items are.
        workspace: the one whose items it sees.
        selector: a shipped one, `name` or `name/preset`, or a YAML file of one.
        embedder: its name, such as `minilm`, or a function from texts to vectors.
        counter: what counts tokens, such as `o200k` or `chars/4`.
        cache: None = a `ContextCache` of 100 contexts and 30 seconds.

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
        self._cites = isinstance(self._pipeline.format.call, Citations)
        self._described = json.dumps(self._pipeline.describe(), sort_keys=True, default=str)
        self._resources = local_resources(open_embedder(embedder_name(embedder)), open_counter(counter))
        store.catalog(workspace)
        self._store, self._workspace = store, workspace
        self.cache = ContextCache() if cache is None else cache
        self.metrics = Metrics()
        self._built: dict[str, _Built] = {}  # last built last
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Load models and make indexes, so that no source of the first request is late for them."""
        catalog, request = self._asked("a first request", None, None, _rounded(None))
        check_fits(self._pipeline, catalog)
        self._pipeline.run(Batch.of(catalog, [request]), self._resources)

    def build(
        self, message: str, *, thread: str | None = None, user: str | None = None, time: str | None = None
    ) -> ServedContext:
        """The context for a message.

        Args:
            message: what the user asks; not blank.
            thread: the conversation; one that is unknown is new, and has no history.
            user: who asks: sees this user's items and everybody's.
            time: as of when, ISO 8601; None = now. It is rounded up to the next half minute.

        Raises:
            UserError: the message is blank, the time is none, or the selector failed.
        """
        context = self._context("build", message, thread, user, time)
        items = frozenset(one.id for one in context.selection.chosen)
        with self._lock:
            self._built.pop(context.id, None)
            self._built[context.id] = _Built(context.request, items)
            while len(self._built) > REMEMBERED:
                del self._built[next(iter(self._built))]
        return context

    def preview(
        self, message: str, *, thread: str | None = None, user: str | None = None, time: str | None = None
    ) -> ServedContext:
        """What `build` would give; no feedback can be given on it."""
        return self._context("preview", message, thread, user, time)

    def feedback(self, item: str, *, useful: bool, user: str | None = None, context: str | None = None) -> None:
        """Record whether an item was useful to a user.

        Args:
            item: its id, as a context names it.
            useful: whether it was.
            user: who says so.
            context: the id of the context that it was in: only with it does `ctxbench data from-feedback` know what
                was asked. Those of the last 10,000 builds of this process are known.

        Raises:
            NotSeenError: there is no such context of this user, or no such item in it; or this user sees no such item.
        """
        built = None if context is None else self._built_for(context, user)
        key = self._seen(item, user, built)
        told: dict[str, Any] = {}
        if built is not None:
            asked = {"context": context, "item": item, "text": built.request.text, "time": built.request.time}
            told = {"conversation": built.request.conversation, "metadata": {ASKED: asked}}
        id_ = key.name.rpartition("@")[0]
        self._store.record(Event(kind="feedback", workspace=self._workspace, id=id_, user=user, useful=useful, **told))
        self.metrics.count(feedback=1)

    def sufficient(self, context: str, enough: bool, *, user: str | None = None) -> None:
        """Record whether a context was enough for an answer, or lacked something; the last word counts.

        Args:
            context: its id; those of the last 10,000 builds of this process are known.
            enough: whether it was.
            user: who says so: the one who asked.

        Raises:
            NotSeenError: there is no such context of this user, or an item of it is not there any more.
        """
        built = self._built_for(context, user)
        items = sorted(built.items)
        for item in items:
            self._seen(item, user, built)
        asked = {"context": context, "items": items, "text": built.request.text, "time": built.request.time}
        self._store.record(
            Event(
                kind=SUFFICIENT,
                workspace=self._workspace,
                id=context,
                user=user,
                conversation=built.request.conversation,
                useful=enough,
                metadata={ASKED: asked},
            )
        )
        self.metrics.count(sufficient=int(enough), insufficient=int(not enough))

    def _built_for(self, context: str, user: str | None) -> _Built:
        """What is remembered of a context of a user."""
        with self._lock:
            built = self._built.get(context)
        if built is None or built.request.user != user:
            raise NotSeenError(f"no context {context!r:.80} of yours is known; build it again")
        return built

    def _seen(self, item: str, user: str | None, built: _Built | None) -> ItemKey:
        """The key of an item that a user sees, and that is in a context if one is given."""
        try:
            key = ItemKey.parse(item)
        except ParameterError:
            key = None
        catalog = self._store.catalog(self._workspace)
        place = None if key is None else catalog.find(key)
        if key is None or place is None or not catalog.facts.open_to(self._workspace, user)[place]:
            raise NotSeenError(f"no item {item!r:.200} is there; name it by its `id` in a context")
        if built is not None and item not in built.items:
            raise NotSeenError(f"item {item!r:.200} is not in this context; name one of its items, or leave its id out")
        return key

    def _context(
        self, what: str, message: str, thread: str | None, user: str | None, time: str | None
    ) -> ServedContext:
        with self.metrics.request(what) as told:
            if not message.strip():
                raise ParameterError("message is blank; ask for something")
            catalog, request = self._asked(message, thread, user, _rounded(time))
            key = batch_key(catalog, [request])
            entry = self.cache.entry(key, catalog=catalog.hash, thread=thread, user=user)
            with entry.lock:
                check_fits(self._pipeline, catalog)
                batch = Batch.of(catalog, [request])
                outcome = self._pipeline.run(batch, self._resources, memo=entry.outputs, live=True, listener=told)
                if entry.answer is None or told.steps:
                    entry.answer = context = self._rendered(key, outcome)
                else:
                    context = replace(entry.answer, kept=True)
            tokens = context.tokens
        for note in outcome.trace:
            _log.warning("%s: %s, %s", note.step, note.kind, note.message)
        table = outcome.candidates
        self.metrics.count(**{f"{what}s": 1}, cache_hits=int(context.kept))
        self.metrics.count(retrieved=len(table), selected=int(table.chosen.sum()), tokens=tokens)
        return context

    def _rendered(self, key: str, outcome: Outcome) -> ServedContext:
        return ServedContext(
            id=hashlib.sha256(f"{key}\n{self._described}".encode()).hexdigest()[:32],
            outcome=outcome,
            prompt=self._pipeline.prompts(outcome, self._resources)[0],
            cites=self._cites,
            resources=self._resources,
            kept=False,
        )

    def _asked(self, message: str, thread: str | None, user: str | None, time: str) -> tuple[Catalog, Request]:
        """The items and the request over them, of one moment however much is written meanwhile."""
        catalog = self._store.catalog(self._workspace)
        while True:
            request = self._store.request(self._workspace, message, user=user, conversation=thread, time=time)
            before, catalog = catalog, self._store.catalog(self._workspace)
            if catalog is before or catalog.hash == before.hash:  # an empty one is made anew each time
                return catalog, self._as_before(catalog, request)

    def _as_before(self, catalog: Catalog, request: Request) -> Request:
        """The request as of half a minute or a minute earlier, if that is kept and all that it sees is as it was.

        So a request is found that was asked just before its time was rounded to the next step, and asked again since.
        """
        now, facts = instant(str(request.time)), catalog.facts
        for before in (now - _STEP, now - 2 * _STEP):
            earlier = replace(request, time=instant_text(before))
            if batch_key(catalog, [earlier]) in self.cache:
                changes = [(times > before) & (times <= now) for times in (facts.created, facts.until)]
                return request if any(bool(one.any()) for one in changes) else earlier
        return request


def _rounded(time: str | None) -> str:
    """A time in UTC, rounded up to the grid; None = now.

    Raises:
        ParameterError: it is none, or too late to be rounded.
    """
    when = named_instant("time", in_utc(None) if time is None else time) or 0
    try:
        return instant_text(-(-when // _STEP) * _STEP)
    except OverflowError:
        raise ParameterError(f"time must be of the years 1 to 9999, got {time!r}") from None
