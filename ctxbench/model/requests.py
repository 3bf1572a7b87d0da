"""Requests, batches of requests, and the analysed query that strategies read."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np

from ctxbench.io.errors import Fault, Message as ErrorMessage, ParameterError, check_range, raise_faults
from ctxbench.io.rows import instant, named_instant
from ctxbench.model.arrays import (
    EARLIEST,
    LATEST,
    BoolArray,
    Float32Array,
    FloatArray,
    IntArray,
    Masks,
    frozen,
    owners,
    ranges,
    starts,
)
from ctxbench.model.candidates import Mode, Note
from ctxbench.model.items import Catalog, ItemKey, check_item_types


def checked_vector(values: Sequence[float], query: str) -> tuple[float, ...]:
    """The vector of a request, checked.

    Raises:
        ParameterError: they are none, or not finite, or all 0; names the query.
    """
    try:
        vector = tuple(map(float, values))
    except (TypeError, ValueError):
        raise ParameterError(f"query {query!r}: vector must be a list of numbers, got {values!r:.60}") from None
    if not all(map(math.isfinite, vector)):
        raise ParameterError(f"query {query!r}: its vector of {len(vector)} numbers holds NaN or infinity")
    if not any(vector):
        raise ParameterError(f"query {query!r}: its vector of {len(vector)} numbers has no length; all are 0")
    return vector


def check_uses(uses: Sequence[tuple[ItemKey, int]], query: str) -> None:
    """Reject counts of uses that are none.

    Raises:
        ParameterError: one is no whole number from 0 on, or an item is counted twice; names the query.
    """
    for key, count in uses:
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ParameterError(
                f"query {query!r}: how often {key.id!r} was useful must be a whole number, 0 or more, got {count!r:.60}"
            )
    if len({key for key, _ in uses}) < len(uses):
        raise ParameterError(f"query {query!r}: uses counts an item twice; give each item one count")


ROLES = ("system", "developer", "user", "assistant", "tool", "function")


@dataclass(frozen=True, slots=True)
class Message:
    """One earlier message of the conversation; its role is one of `ROLES`."""

    role: str
    content: str

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ParameterError(f"a message's role is one of {', '.join(ROLES)}, got {self.role!r:.40}")


@dataclass(frozen=True, slots=True)
class SessionItem:
    """An item in the session, with the mode by which it was added: `always` or `manual`."""

    key: ItemKey
    mode: str = "manual"

    def __post_init__(self) -> None:
        if self.mode not in ("always", "manual"):
            raise ParameterError(f"a session item's mode is always or manual, got {self.mode!r} ({self.key.id})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Restrictions of a request's search. An item without the fact in question is excluded.

    Attributes:
        types: item types; empty = any.
        kinds: sorts of items, by their own word (`Item.kind`); empty = any.
        since, before: when items were created, ISO 8601: from the one on, and before the other.
        confidence: the least, 0 to 1.
        conversation: the one that items are of.
    """

    types: tuple[str, ...] = ()
    since: str | None = None
    before: str | None = None
    confidence: float | None = None
    conversation: str | None = None
    kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(self.types))
        object.__setattr__(self, "kinds", tuple(self.kinds))
        check_item_types(self.types)
        if self.confidence is not None:
            check_range("confidence", self.confidence, 0, 1)
        since, before = (named_instant(name, getattr(self, name) or None) for name in ("since", "before"))
        if since is not None and before is not None and since >= before:
            raise ParameterError(f"since ({self.since}) must be before before ({self.before}); nothing would be left")

    def as_dict(self) -> dict[str, Any]:
        """The filter as JSON, without empty fields."""
        fields: dict[str, Any] = {"types": list(self.types), "since": self.since, "before": self.before}
        fields |= {"confidence": self.confidence, "conversation": self.conversation, "kinds": list(self.kinds)}
        return {name: value for name, value in fields.items() if value not in (None, [])}

    def of(self, catalog: Catalog) -> BoolArray:
        """True for the items that are left, shape (n_items,)."""
        facts, left = catalog.facts, np.ones(len(catalog), dtype=np.bool_)
        if self.types:
            left &= facts.type.are_any(self.types)
        if self.kinds:
            left &= facts.kind.are_any(self.kinds)
        if self.since is not None or self.before is not None:
            left &= facts.created >= (EARLIEST + 1 if self.since is None else instant(self.since))
        if self.before is not None:
            left &= facts.created < instant(self.before)
        if self.confidence is not None:
            left &= facts.confidence >= self.confidence  # False where it is not known
        if self.conversation is not None:
            left &= facts.conversation.are(self.conversation)
        return left


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to a selector, without the catalog.

    Attributes:
        id: the query id; unique in a batch.
        text: what the user asked; may be empty.
        history: earlier messages, oldest first.
        session: what the session holds; None means a new session, which holds the enabled `always` items.
        removed: items that the user took out of the session; no search brings them back.
        explicit: items that the user named, or that the conversation refers to.
        recent: files that the user had open, the last one first; each once.
        uses: how often the user found an item useful, (item, count >= 0); each once.
        available: the items that this request may get; None means the whole catalog.
        tool_results: results of tools called for this request, (tool name, text).
        user, workspace: whose request it is. It sees their items and everybody's, and no selector may cross that.
        conversation: the one that it is part of.
        turn: 0-based place in the conversation.
        time: when it was asked, ISO 8601, without an offset UTC: it sees what was created by then and had not ended.
            None = now: all but what has an end.
        only: what its search is restricted to; the session's items stay.
        vector: stands for the text in searches by similarity, in place of one that is made of it; of the embedder that
            is searched by, and of any length above 0. The request is then one chunk, its text, whatever the analysis
            says, and that may be empty.
    """

    id: str
    text: str
    history: tuple[Message, ...] = ()
    session: tuple[SessionItem, ...] | None = None
    removed: tuple[ItemKey, ...] = ()
    explicit: tuple[ItemKey, ...] = ()
    recent: tuple[ItemKey, ...] = ()
    uses: tuple[tuple[ItemKey, int], ...] = ()
    available: tuple[ItemKey, ...] | None = None
    tool_results: tuple[tuple[str, str], ...] = ()
    user: str | None = None
    workspace: str | None = None
    conversation: str | None = None
    turn: int | None = None
    time: str | None = None
    only: Filter | None = None
    vector: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("user", "workspace"):
            if getattr(self, name) == "":
                raise ParameterError(f"{name} must not be empty; leave it out where there is none (query {self.id!r})")
        if self.vector is not None:
            object.__setattr__(self, "vector", checked_vector(self.vector, self.id))
        if self.uses:
            check_uses(self.uses, self.id)

    def as_dict(self) -> dict[str, Any]:
        """The request as JSON, for external selectors and for hashes."""
        optional: dict[str, Any] = {
            "history": [{"role": m.role, "content": m.content} for m in self.history] or None,
            "session": None if self.session is None else [{"id": s.key.id, "mode": s.mode} for s in self.session],
            "removed": [key.id for key in self.removed] or None,
            "explicit": [key.id for key in self.explicit] or None,
            "recent": [key.id for key in self.recent] or None,
            "uses": {key.id: count for key, count in self.uses} or None,
            "available": None if self.available is None else list(_ids(self.available)),
            "tool_results": [{"tool": tool, "text": text} for tool, text in self.tool_results] or None,
            **{name: getattr(self, name) for name in ("user", "workspace", "conversation", "turn", "time")},
            "only": None if self.only is None else self.only.as_dict(),
            "vector": None if self.vector is None else list(self.vector),
        }
        return {"id": self.id, "text": self.text, **{k: value for k, value in optional.items() if value is not None}}


@lru_cache(maxsize=256)  # requests of one scope name the same few hundred items again and again
def _ids(keys: tuple[ItemKey, ...]) -> tuple[str, ...]:
    return tuple(key.id for key in keys)


@dataclass(frozen=True, eq=False)
class Batch:
    """Requests over one catalog, and which items each may get. A live call is a batch of one.

    Attributes:
        catalog: the items; positions below are positions in it.
        requests: in the order of every CSR below.
        visible: what a request may see at all: of its workspace and user or nobody's, and there at its time.
        eligible: what a search may offer it: visible, available, of its `only`, enabled, of `agent` mode, neither in
            the session nor removed from it.
        session_start: CSR starts, shape (n_requests + 1,).
        session_item: positions of session items, in session order.
        session_mode: `Mode` of each, always or manual.
    """

    catalog: Catalog
    requests: tuple[Request, ...]
    visible: Masks
    eligible: Masks
    session_start: IntArray
    session_item: IntArray
    session_mode: IntArray

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def ids(self) -> tuple[str, ...]:
        """The request ids, in order."""
        return tuple(request.id for request in self.requests)

    @cached_property
    def key(self) -> str:
        """See `batch_key`."""
        return batch_key(self.catalog, self.requests)

    @classmethod
    def of(cls, catalog: Catalog, requests: Iterable[Request]) -> Batch:
        """Resolve what each request may get.

        Raises:
            InputError: an id occurs twice, or a request names an item that the catalog lacks; all at once.
        """
        requests = tuple(requests)
        resolve = _Resolver(catalog)
        for request in requests:
            resolve.request(request)
        raise_faults(resolve.faults, subject="requests")
        sessions = resolve.sessions
        items = [item for session in sessions for item, _ in session]
        modes = [mode for session in sessions for _, mode in session]
        return cls(
            catalog=catalog,
            requests=requests,
            visible=resolve.masks(resolve.open, [[]] * len(requests)),
            eligible=resolve.masks(resolve.searched, resolve.without),
            session_start=frozen(starts([len(session) for session in sessions])),
            session_item=frozen(np.array(items, dtype=np.int64)),
            session_mode=frozen(np.array(modes, dtype=np.int64)),
        )

    def named(self, row: int) -> list[int]:
        """Positions of the items that a request names explicitly and may get, in its order, each once.

        That is what it sees and may get, is enabled and not `always`, and neither in the session nor removed from it:
        of `manual` mode, too, and whatever its search is restricted to.
        """
        request, catalog = self.requests[row], self.catalog
        session_items = set(self.session_item[self.session_start[row] : self.session_start[row + 1]].tolist())
        gone = session_items | {catalog.find(key) for key in request.removed}
        named = [key for key in request.explicit if request.available is None or key in request.available]
        positions = dict.fromkeys(map(catalog.position, named))
        return [at for at in positions if at not in gone and catalog[at].enabled and catalog[at].include != "always"]

    def take(self, rows: Sequence[int]) -> Batch:
        """Return the batch of some of its requests, in the order of `rows`."""
        return Batch.of(self.catalog, (self.requests[row] for row in rows))


def batch_key(catalog: Catalog, requests: Iterable[Request]) -> str:
    """SHA-256 over the catalog's hash and every request: what each may get and holds follows from them."""
    digest = hashlib.sha256(catalog.hash.encode())
    for request in requests:
        digest.update(json.dumps(request.as_dict(), sort_keys=True).encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


Sees: TypeAlias = Callable[[Any], Any]
"""Whether a request sees an item, or each of some."""


class _Resolver:
    """Resolves requests against one catalog; scopes shared by many requests are looked up once."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.facts = catalog.facts
        self.faults: list[Fault] = []
        self.seen: set[str] = set()
        self.sessions: list[list[tuple[int, int]]] = []
        self.without: list[list[int]] = []  # by request: what no search brings back
        self.time: list[int] = []
        self.open = _Shared()  # by workspace and user
        self.searched = _Shared()  # by those, what is available, and what a search is restricted to
        self.available: dict[tuple[ItemKey, ...] | None, BoolArray] = {None: np.ones(len(catalog), dtype=np.bool_)}

    def request(self, request: Request) -> None:
        if request.id in self.seen:
            self.faults.append(Fault(ErrorMessage("model.query-id-twice", query=request.id)))
        self.seen.add(request.id)
        self.time.append(self._time(request))
        owner = (request.workspace, request.user)
        is_open, time = self.open.of(owner, lambda: self.facts.open_to(*owner)), self.time[-1]
        available = self._available(request)

        def is_visible(item: Any) -> Any:  # of what is named; of all items it is made where they are searched
            return is_open[item] & self.facts.at(time, item)

        removed = self._positions(request, "removed", request.removed, is_visible)
        if request.session is None:
            always_items = self.facts.always_items
            if len(always_items):
                always_items = always_items[available[always_items] & is_visible(always_items)]
            session = [(item, int(Mode.ALWAYS)) for item in always_items.tolist() if item not in removed]
        else:
            session = self._session(request, removed, is_visible)
        self._positions(request, "explicit", request.explicit, is_visible)
        self._positions(request, "recent", request.recent, is_visible)
        self._positions(request, "uses", [key for key, _ in request.uses], is_visible)
        self.sessions.append(session)
        scope = (*owner, request.available, request.only)
        searched = self.searched.of(scope, lambda: self._searched(request, is_open & available))
        gone = {item for item, _ in session} | set(removed)
        self.without.append([item for item in sorted(gone) if searched[item]])

    def masks(self, shared: _Shared, without: Sequence[Sequence[int]]) -> Masks:
        """The masks of all requests, less the items that each is `without`."""
        return Masks(
            n_items=len(self.catalog),
            scope=np.array(shared.rows, dtype=np.int64),
            shared=[mask for _, mask in shared.masks.values()],
            start=starts([len(items) for items in without]),
            without=np.array([item for items in without for item in items], dtype=np.int64),
            time=np.array(self.time, dtype=np.int64),
            facts=self.facts if self.facts.timed else None,
        )

    def _time(self, request: Request) -> int:
        try:
            return LATEST if request.time is None or not self.facts.timed else instant(request.time)
        except ParameterError as error:
            self.faults.append(Fault(f"query {request.id!r}: time {error}"))
            return LATEST

    def _available(self, request: Request) -> BoolArray:
        if request.available not in self.available:
            mask = np.zeros(len(self.catalog), dtype=np.bool_)
            mask[self._positions(request, "available", request.available or (), None)] = True
            self.available[request.available] = mask
        return self.available[request.available]

    def _searched(self, request: Request, mask: BoolArray) -> BoolArray:
        mask = mask & self.facts.searchable
        return mask if request.only is None else mask & request.only.of(self.catalog)

    def _session(self, request: Request, removed: Sequence[int], is_visible: Sees) -> list[tuple[int, int]]:
        """The items of a request's session, each once, with its mode."""
        entries = request.session or ()
        positions = self._positions(request, "session", [entry.key for entry in entries], is_visible)
        for position in positions:
            if not self.catalog[position].enabled:
                message = ErrorMessage("model.session-item-disabled", query=request.id, item=self.catalog.ids[position])
                self.faults.append(Fault(message))
        modes = [int(Mode[entry.mode.upper()]) for entry in entries]
        for position in set(positions) & set(removed):
            message = ErrorMessage("model.session-item-removed", query=request.id, item=self.catalog.ids[position])
            self.faults.append(Fault(message))
        return list(dict(zip(positions, modes, strict=False)).items())

    def _positions(
        self, request: Request, field_name: str, keys: Sequence[ItemKey], is_visible: Sees | None
    ) -> list[int]:
        """The positions of items by key; an item that the request may not see is reported as unknown."""
        out = []
        for key in keys:
            if (position := self.catalog.find(key)) is None or not (is_visible is None or is_visible(position)):
                message = ErrorMessage("model.unknown-item", query=request.id, field=field_name, item=key.id)
                self.faults.append(Fault(message))
            else:
                out.append(position)
        return out


class _Shared:
    """Masks by what they depend on, each computed once, and the mask of each request."""

    def __init__(self) -> None:
        self.masks: dict[Any, tuple[int, BoolArray]] = {}  # with their places
        self.rows: list[int] = []

    def of(self, key: Any, make: Callable[[], BoolArray]) -> BoolArray:
        """The mask of the next request."""
        if key not in self.masks:
            self.masks[key] = len(self.masks), make()
        row, mask = self.masks[key]
        self.rows.append(row)
        return mask


_ROUNDING = 1e-6  # how far the length of a unit vector in float32 may be from 1


class ChunkKind(IntEnum):
    """The source of a query chunk."""

    TEXT = 0
    HISTORY = 1
    TOOL_RESULT = 2


@dataclass(frozen=True, eq=False)
class Query:
    """An analysed batch.

    Attributes:
        batch: the requests.
        start: CSR starts of chunks by request, shape (n_requests + 1,).
        text: the chunks; a request may have none.
        weight: shape (n_chunks,), > 0; 1 unless a strategy says otherwise.
        kind: shape (n_chunks,), `ChunkKind`.
        keywords: by request; empty unless the analysis finds keywords.
        intent, plan: by request, as JSON; None unless the analysis makes them.
        notes: what the analysis could not do as it was asked to.
    """

    batch: Batch
    start: IntArray
    text: tuple[str, ...]
    weight: FloatArray
    kind: IntArray
    keywords: tuple[tuple[str, ...], ...]
    intent: tuple[Mapping[str, Any] | None, ...]
    plan: tuple[Mapping[str, Any] | None, ...]
    notes: tuple[Note, ...] = ()

    @classmethod
    def of_chunks(
        cls,
        batch: Batch,
        chunks: Sequence[Sequence[str]],
        *,
        weights: Sequence[Sequence[float]] | None = None,
        kind: ChunkKind = ChunkKind.TEXT,
    ) -> Query:
        """Make a query from chunks of one kind, one sequence per request; weights are 1 by default."""
        texts = tuple(text for row in chunks for text in row)
        start = starts([len(row) for row in chunks])
        weight = np.array([1.0] * len(texts) if weights is None else [w for row in weights for w in row], np.float64)
        kinds = np.full(len(texts), kind, dtype=np.int64)
        none = (None,) * len(batch)
        return cls(batch, frozen(start), texts, frozen(weight), frozen(kinds), ((),) * len(batch), none, none)

    @cached_property
    def distinct(self) -> tuple[Query, IntArray]:
        """The query without chunks that repeat an earlier one of their request at the same weight.

        A search by the best pair finds the same with it, however often a request says the same.

        Returns:
            The query, and the place that each of its chunks has within its request here, shape (n_chunks,).
        """
        request, seen_chunks = owners(self.start).tolist(), set()
        is_first = np.zeros(len(self.text), dtype=np.bool_)
        for chunk, key in enumerate(zip(request, self.text, self.weight.tolist(), strict=True)):
            if key not in seen_chunks:
                seen_chunks.add(key)
                is_first[chunk] = True
        rows = np.flatnonzero(is_first)
        position = rows - self.start[owners(self.start)[rows]]
        if is_first.all():
            return self, position
        start = np.append(0, np.cumsum(is_first))[self.start].astype(np.int64)
        text = tuple(self.text[row] for row in rows.tolist())
        return replace(self, start=start, text=text, weight=self.weight[rows], kind=self.kind[rows]), position

    def select_requests(self, requests: IntArray) -> Query:
        """The query of some of the requests, shape (n,), in their order, with repeats."""
        batch, indices = self.batch, requests.tolist()
        session_length, length = np.diff(batch.session_start)[requests], np.diff(self.start)[requests]
        session, chunks = ranges(batch.session_start[requests], session_length), ranges(self.start[requests], length)
        by_request = {
            name: tuple(getattr(self, name)[index] for index in indices) for name in ("keywords", "intent", "plan")
        }
        return replace(
            self,
            batch=replace(
                batch,
                requests=tuple(batch.requests[index] for index in indices),
                visible=batch.visible.select_requests(requests),
                eligible=batch.eligible.select_requests(requests),
                session_start=frozen(starts(session_length)),
                session_item=frozen(batch.session_item[session]),
                session_mode=frozen(batch.session_mode[session]),
            ),
            start=frozen(starts(length)),
            text=tuple(self.text[chunk] for chunk in chunks.tolist()),
            weight=frozen(self.weight[chunks]),
            kind=frozen(self.kind[chunks]),
            **by_request,
        )

    def chunks(self, request: int) -> tuple[str, ...]:
        """The chunks of one request."""
        return self.text[self.start[request] : self.start[request + 1]]

    def weights(self, request: int) -> FloatArray:
        """The weights of the chunks of one request, shape (n_its_chunks,)."""
        return self.weight[self.start[request] : self.start[request + 1]]

    def vectors(
        self,
        embed: Callable[[Sequence[str]], Float32Array],
        requests: Iterable[int] | None = None,
        *,
        dimensions: int | None = None,
    ) -> Float32Array:
        """Unit vectors of chunks, shape (n, n_dimensions): the request's vector if it has one, else that of the text.

        Args:
            embed: from texts to their unit vectors.
            requests: whose chunks, one request behind the other; None = all.
            dimensions: what the vectors are compared with has this many; None = as many as they have.

        Raises:
            ParameterError: the vector of a request has another size than the others; names the query.
        """
        owned = [
            (text, self.batch.requests[request])
            for request in (range(len(self.batch)) if requests is None else requests)
            for text in self.chunks(request)
        ]
        missing = [index for index, (_, request) in enumerate(owned) if request.vector is None]
        if len(missing) == len(owned):
            return embed([text for text, _ in owned])
        embedded = embed([owned[index][0] for index in missing]) if missing else None
        supplied = {
            index: _unit(request.vector) for index, (_, request) in enumerate(owned) if request.vector is not None
        }
        size = dimensions or len(next(iter(supplied.values())) if embedded is None else embedded[0])
        out: Float32Array = np.empty((len(owned), size), dtype=np.float32)
        if embedded is not None:
            out[missing] = embedded
        for index, vector in supplied.items():
            if len(vector) != size:
                raise ParameterError(
                    f"query {owned[index][1].id!r}: its vector has {len(vector)} numbers, and the vectors that it is "
                    f"compared with have {size}; both must be of one embedder"
                )
            out[index] = vector
        return out

    def vectors_by_request(
        self,
        embed: Callable[[Sequence[str]], Float32Array],
        requests: Iterable[int],
        *,
        dimensions: int | None = None,
    ) -> dict[int, Float32Array]:
        """The same for each of some requests, shape (n_its_chunks, n_dimensions); all are embedded in one go."""
        requests = list(requests)
        vectors = self.vectors(embed, requests, dimensions=dimensions)
        ends = np.cumsum([len(self.chunks(request)) for request in requests], dtype=np.int64)
        return dict(zip(requests, np.split(vectors, ends[:-1]), strict=True)) if requests else {}


def _unit(vector: Sequence[float]) -> FloatArray:
    """A vector at length 1, shape (n_dimensions,); a vector from an embedder keeps its bits."""
    array = np.array(vector, dtype=np.float64)
    if abs(math.hypot(*vector) - 1.0) <= _ROUNDING:
        return array
    array /= np.abs(array).max()  # so that no square is too large or too small for a number
    return np.divide(array, np.linalg.norm(array))


def with_own_vectors(query: Query) -> Query:
    """The query with a single chunk, the text, for each request with a vector, which cannot be split."""
    has_vector = np.array([request.vector is not None for request in query.batch.requests], dtype=np.bool_)
    if not has_vector.any():
        return query
    mine = has_vector[owners(query.start)]  # chunks that give way
    chunk_index = np.concatenate([np.flatnonzero(~mine), np.full(int(has_vector.sum()), -1)])
    request = np.concatenate([owners(query.start)[~mine], np.flatnonzero(has_vector)])
    by_request = np.argsort(request, kind="stable")
    rows = list(zip(request[by_request].tolist(), chunk_index[by_request].tolist(), strict=True))
    return replace(
        query,
        start=frozen(starts(np.where(has_vector, 1, np.diff(query.start)))),
        text=tuple(query.batch.requests[request].text if chunk < 0 else query.text[chunk] for request, chunk in rows),
        weight=frozen(np.array([1.0 if chunk < 0 else query.weight[chunk] for _, chunk in rows], dtype=np.float64)),
        kind=frozen(np.array([ChunkKind.TEXT if chunk < 0 else query.kind[chunk] for _, chunk in rows], np.int64)),
    )


def whole_texts(batch: Batch) -> Query:
    """Every request's text as one chunk; a blank text has none, unless the request has a vector."""
    texts = [[request.text] if request.text.strip() else [] for request in batch.requests]
    return with_own_vectors(Query.of_chunks(batch, texts))


def together(queries: Sequence[Query]) -> Query:
    """Put the chunks of several analyses of one batch together, by request, in the order of the analyses.

    Keywords are joined without repeats; of intent and plan the first that is there counts.
    """
    first = queries[0]
    n = len(first.batch)
    request = np.concatenate([owners(query.start) for query in queries])
    by_request = np.argsort(request, kind="stable")
    text = [chunk for query in queries for chunk in query.text]
    start = starts(np.bincount(request, minlength=n))
    weight = np.concatenate([query.weight for query in queries])[by_request]
    kind = np.concatenate([query.kind for query in queries])[by_request]
    return Query(
        batch=first.batch,
        start=frozen(start),
        text=tuple(text[index] for index in by_request.tolist()),
        weight=frozen(weight),
        kind=frozen(kind),
        keywords=tuple(tuple(dict.fromkeys(w for q in queries for w in q.keywords[row])) for row in range(n)),
        intent=tuple(next((q.intent[row] for q in queries if q.intent[row] is not None), None) for row in range(n)),
        plan=tuple(next((q.plan[row] for q in queries if q.plan[row] is not None), None) for row in range(n)),
        notes=tuple(dict.fromkeys(note for query in queries for note in query.notes)),
    )
