"""What a selector is asked: requests, and batches of them over one catalog."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ctxbench.core.arrays import BoolArray, IntArray, frozen, starts
from ctxbench.core.candidates import Mode
from ctxbench.core.errors import Fault, InputError, ParameterError
from ctxbench.core.items import Catalog, ItemKey


@dataclass(frozen=True, slots=True)
class Message:
    """One earlier message of the conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class SessionItem:
    """An item that the session holds already, and how it came there: `always` or `manual`."""

    key: ItemKey
    mode: str = "manual"

    def __post_init__(self) -> None:
        if self.mode not in ("always", "manual"):
            raise ParameterError(f"a session item's mode is always or manual, got {self.mode!r} ({self.key.id})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a selector is asked, apart from the catalog.

    Attributes:
        id: the query id; unique in a batch.
        text: what the user asked; may be empty.
        history: earlier messages, oldest first.
        session: what the session holds; None means a new session, which holds the enabled `always` items.
        removed: items that the user took out of the session; no search brings them back.
        explicit: items that the user named.
        available: the items that this request may get; None means the whole catalog.
        tool_results: results of tools called for this request, (tool name, text).
        user, workspace, conversation: whose request it is; no selector may cross a workspace.
        turn: 0-based place in the conversation.
        time: when it was asked, ISO 8601.
    """

    id: str
    text: str
    history: tuple[Message, ...] = ()
    session: tuple[SessionItem, ...] | None = None
    removed: tuple[ItemKey, ...] = ()
    explicit: tuple[ItemKey, ...] = ()
    available: tuple[ItemKey, ...] | None = None
    tool_results: tuple[tuple[str, str], ...] = ()
    user: str | None = None
    workspace: str | None = None
    conversation: str | None = None
    turn: int | None = None
    time: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The request as JSON, for selectors outside this process and for hashes."""
        out: dict[str, Any] = {"id": self.id, "text": self.text}
        if self.history:
            out["history"] = [{"role": m.role, "content": m.content} for m in self.history]
        if self.session is not None:
            out["session"] = [{"id": s.key.id, "mode": s.mode} for s in self.session]
        if self.removed:
            out["removed"] = [key.id for key in self.removed]
        if self.explicit:
            out["explicit"] = [key.id for key in self.explicit]
        if self.available is not None:
            out["available"] = list(_ids(self.available))
        if self.tool_results:
            out["tool_results"] = [{"tool": tool, "text": text} for tool, text in self.tool_results]
        for name in ("user", "workspace", "conversation", "turn", "time"):
            if getattr(self, name) is not None:
                out[name] = getattr(self, name)
        return out


@lru_cache(maxsize=256)  # requests of one scope name the same few hundred items again and again
def _ids(keys: tuple[ItemKey, ...]) -> tuple[str, ...]:
    return tuple(key.id for key in keys)


@dataclass(frozen=True, eq=False)
class Batch:
    """Requests over one catalog, and which items each may get. A live call is a batch of one.

    Attributes:
        catalog: the items; positions below are positions in it.
        requests: in the order of every CSR below.
        eligible: shape (n_requests, n_items); True where a search may offer the item: available, enabled,
            `agent` mode, neither in the session nor removed from it.
        session_start: CSR starts, shape (n_requests + 1,).
        session_item: positions of session items, in session order.
        session_mode: `Mode` of each, always or manual.
    """

    catalog: Catalog
    requests: tuple[Request, ...]
    eligible: BoolArray
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
        """SHA-256 over the catalog's hash, every request, and what each may get and holds."""
        digest = hashlib.sha256(self.catalog.hash.encode())
        for array in (self.eligible, self.session_start, self.session_item, self.session_mode):
            digest.update(array.tobytes())
        for request in self.requests:
            digest.update(json.dumps(request.as_dict(), sort_keys=True).encode("utf-8", "surrogatepass") + b"\n")
        return digest.hexdigest()

    @classmethod
    def of(cls, catalog: Catalog, requests: Iterable[Request]) -> Batch:
        """Resolve what each request may get.

        Raises:
            InputError: an id occurs twice, or a request names an item that the catalog lacks; all at once.
        """
        requests = tuple(requests)
        resolve = _Resolver(catalog)
        rows = [resolve.request(request) for request in requests]
        resolve.finish()
        items = [item for _, session in rows for item, _ in session]
        modes = [mode for _, session in rows for _, mode in session]
        eligible = np.array([row for row, _ in rows], dtype=np.bool_).reshape(len(rows), len(catalog))
        for i, (_, session) in enumerate(rows):
            eligible[i, [item for item, _ in session]] = False
        batch = cls(
            catalog=catalog,
            requests=requests,
            eligible=eligible,
            session_start=starts([len(session) for _, session in rows]),
            session_item=np.array(items, dtype=np.int64),
            session_mode=np.array(modes, dtype=np.int64),
        )
        for array in (batch.eligible, batch.session_start, batch.session_item, batch.session_mode):
            frozen(array)
        return batch

    def take(self, rows: Sequence[int]) -> Batch:
        """Return the batch of some of its requests, in the order of `rows`."""
        return Batch.of(self.catalog, (self.requests[row] for row in rows))


class _Resolver:
    """Resolves requests against one catalog; scopes shared by many requests are looked up once."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.faults: list[Fault] = []
        self.seen: set[str] = set()
        self.searchable = np.array([i.enabled and i.include == "agent" for i in catalog], dtype=np.bool_)
        self.always = np.array([i.enabled and i.include == "always" for i in catalog], dtype=np.bool_)
        self.scopes: dict[tuple[ItemKey, ...] | None, BoolArray] = {None: np.ones(len(catalog), dtype=np.bool_)}

    def request(self, request: Request) -> tuple[BoolArray, list[tuple[int, int]]]:
        if request.id in self.seen:
            self.faults.append(Fault(f"query id {request.id!r} occurs twice; ids must differ"))
        self.seen.add(request.id)
        if request.available not in self.scopes:
            mask = np.zeros(len(self.catalog), dtype=np.bool_)
            mask[self._positions(request, "available", request.available or ())] = True
            self.scopes[request.available] = mask
        available = self.scopes[request.available]
        removed = self._positions(request, "removed", request.removed)
        if request.session is None:
            kept = available & self.always
            kept[removed] = False
            session = [(int(item), int(Mode.ALWAYS)) for item in np.flatnonzero(kept)]
        else:
            positions = self._positions(request, "session", [s.key for s in request.session])
            for position in positions:
                if not self.catalog[position].enabled:
                    what = f"query {request.id!r}: session names {self.catalog.ids[position]!r}, which is not enabled"
                    self.faults.append(Fault(what))
            modes = [int(Mode[s.mode.upper()]) for s in request.session]
            session = list(dict(zip(positions, modes, strict=False)).items())
            for position in set(positions) & set(removed):
                what = f"query {request.id!r}: {self.catalog.ids[position]!r} is in the session and removed from it"
                self.faults.append(Fault(what))
        self._positions(request, "explicit", request.explicit)
        eligible = available & self.searchable
        eligible[removed] = False
        return eligible, session

    def _positions(self, request: Request, what: str, keys: Sequence[ItemKey]) -> list[int]:
        out = []
        for key in keys:
            position = self.catalog.find(key)
            if position is None:
                self.faults.append(
                    Fault(f"query {request.id!r}: {what} names {key.id!r}, which the catalog does not hold")
                )
            else:
                out.append(position)
        return out

    def finish(self) -> None:
        if self.faults:
            raise InputError(self.faults, subject="requests")
