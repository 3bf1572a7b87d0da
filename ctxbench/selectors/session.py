"""Agents and sessions: what is in a chat, and the context of each request.

A session is a value: adding, removing and overriding return a new one. So a stored reply cannot change, and a refused
change leaves nothing half-done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from ctxbench.io.errors import Message, ParameterError, raise_first, suggest
from ctxbench.model.arrays import LATEST, BoolArray
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Batch, Message as ChatMessage, Query, Request, SessionItem
from ctxbench.model.resources import Resources
from ctxbench.model.selection import Prompt, Selection, selections, session_rows
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.format import Messages
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.selector import check_fits


@dataclass(frozen=True, eq=False, kw_only=True)
class Agent:
    """The items that are available, for all sessions. Immutable: a change gives a new agent.

    Attributes:
        catalog: the items, each with its effective include mode (`tool_modes` works that of tools out) and whether it
            is enabled.
        selector: how agent-mode items are found; its format must be `messages`.
        settings: values for the selector's parameters; those not given are its defaults. Copied by every new session.
        system: the system prompt; empty: that of the selector's format.

    Source: the specification, "Agent Level (Available Context)" and "Agent and Session Settings".
    """

    catalog: Catalog
    selector: Definition = field(default_factory=partial(definition, "semantic"))
    settings: Mapping[str, Any] = field(default_factory=dict)
    system: str = ""

    def __post_init__(self) -> None:
        values = self.selector.settled({}, self.settings)
        step = self.selector.pipeline(values).format
        if not step.declared("chats"):
            raise ParameterError(
                f"a session builds messages, but selector {self.selector.name!r} has format {step.name!r}; "
                f"expected format: messages"
            )
        object.__setattr__(self, "settings", MappingProxyType(values))

    @cached_property
    def messages(self) -> Messages:
        """The step that builds the messages for the model."""
        step = cast("Messages", self.selector.pipeline(self.settings).format.call)  # checked when this was made
        return replace(step, system=self.system) if self.system else step

    def item(self, key: ItemKey | str) -> Item | None:
        """The item of this key or id, or None."""
        position = self.catalog.find(key)
        return None if position is None else self.catalog[position]

    def changed(self, key: ItemKey | str, **fields: Any) -> Agent:
        """The agent with other fields of one item: `agent.changed("rule:tone", include="agent")`.

        Raises:
            ParameterError: there is no such item, or a value is wrong.
        """
        position = self.catalog.position(key)
        items = list(self.catalog)
        items[position] = replace(items[position], **fields)
        return replace(self, catalog=Catalog(items))

    def with_item(self, item: Item) -> Agent:
        """The agent with one more item, at the end of its catalog.

        Raises:
            InputError: there is one of this identity.
        """
        return replace(self, catalog=self.catalog.extended([item]))

    def without(self, key: ItemKey | str) -> Agent:
        """The agent without an item.

        Raises:
            ParameterError: there is no such item.
        """
        position = self.catalog.position(key)
        return replace(self, catalog=Catalog(item for index, item in enumerate(self.catalog) if index != position))


def why_absent(item: Item | None) -> Message:
    """Why an item of a session is not offered: the agent lacks it, or it is not enabled."""
    return Message("selectors.item-gone" if item is None else "selectors.item-disabled")


def _visible(catalog: Catalog, workspace: str | None, user: str | None) -> BoolArray:
    """Which items a chat of a workspace and user sees now, shape (n_items,)."""
    return catalog.facts.open_to(workspace, user) & catalog.facts.at(LATEST)


@dataclass(frozen=True, kw_only=True)
class Session:
    """The items and settings of a chat session. `Session.start` makes a new one.

    While it is open, the agent may be edited (`with_agent`). A session holds names, not copies, so:

    * an edited item is sent with its current content;
    * an item that is gone or disabled is left out with a warning, and is there again if it comes back;
    * another include mode changes nothing for what the session holds or has removed; elsewhere it counts at once, but
      an item that becomes `always` enters new sessions only;
    * the agent's settings are for new sessions; this one keeps its copies.

    Attributes:
        id: of the conversation.
        agent: whose items these are.
        items: what is in, in the order in which it came: `always` as of the start, `manual` since.
        removed: what was taken out; no search brings it back, adding it does (then it is `manual`).
        settings: values of all parameters of the agent's selector.
        workspace, user: whose chat it is. It sees the items of these, and of nobody's; others are for it as if the
            agent had them not.

    Source: the specification, "Session Level (Session Context)"; ranges are those of the selector's definition.
    """

    id: str
    agent: Agent
    items: tuple[SessionItem, ...] = ()
    removed: tuple[ItemKey, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    workspace: str | None = None
    user: str | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise ParameterError("a session needs an id, that of its conversation; got an empty text")
        times = Counter([*(item.key for item in self.items), *self.removed])
        if twice := [key.id for key, n in times.items() if n > 1]:
            raise ParameterError(
                f"session {self.id!r} has {', '.join(sorted(twice))} twice, or in it and removed; keep one of them"
            )
        values = self.agent.selector.settled(self.agent.settings, self.settings)
        object.__setattr__(self, "settings", MappingProxyType(values))
        _ = self.pipeline  # refuses what does not go together

    @classmethod
    def start(
        cls,
        agent: Agent,
        conversation: str,
        *,
        settings: Mapping[str, Any] | None = None,
        workspace: str | None = None,
        user: str | None = None,
    ) -> Session:
        """Start a session with the enabled `always` items that it sees, and the agent's settings."""
        visible_items = [
            item
            for item, is_visible in zip(agent.catalog, _visible(agent.catalog, workspace, user), strict=True)
            if is_visible
        ]
        items = tuple(SessionItem(i.key, "always") for i in visible_items if i.enabled and i.include == "always")
        return cls(id=conversation, agent=agent, items=items, settings=settings or {}, workspace=workspace, user=user)

    @cached_property
    def pipeline(self) -> Pipeline:
        """The selector with this session's settings."""
        return self.agent.selector.pipeline(self.settings)

    def __contains__(self, key: object) -> bool:
        """Whether the session holds an item, given its key or id."""
        item_key = ItemKey.parse(key) if isinstance(key, str) else key
        return any(item.key == item_key for item in self.items)

    def add(self, key: ItemKey | str) -> Session:
        """The session with one more item, as `manual` whatever its include mode; it is no longer removed.

        Raises:
            ParameterError: the session holds it already, the agent does not have it, the chat does not see it, or it is
                not enabled.
        """
        catalog = self.agent.catalog
        position, visible = catalog.find(key), _visible(catalog, self.workspace, self.user)
        if (
            position is None or not visible[position]
        ):  # one message for both: hidden items are neither distinguished nor suggested
            name = key if isinstance(key, str) else key.id
            visible_ids = [catalog.ids[index] for index in np.flatnonzero(visible)]
            raise ParameterError(f"no item {name!r} in the catalog{suggest(name, visible_ids)}")
        item = catalog[position]
        mode = next((session_item.mode for session_item in self.items if session_item.key == item.key), None)
        raise_first(
            (mode is not None, f"{item.id!r} is in the session already (mode {mode}); nothing to add"),
            (not item.enabled, f"{item.id!r} is not enabled; enable it in the agent, then add it"),
        )
        removed = tuple(removed_key for removed_key in self.removed if removed_key != item.key)
        return replace(self, items=(*self.items, SessionItem(item.key, "manual")), removed=removed)

    def remove(self, key: ItemKey | str) -> Session:
        """The session without an item, which stays removed, also for searches.

        Raises:
            ParameterError: the session does not hold it.
        """
        item_key = ItemKey.parse(key) if isinstance(key, str) else key
        if item_key not in self:
            why = "was removed from" if item_key in self.removed else "is not in"
            listed = ", ".join(item.key.id for item in self.items[:12]) or "no items"
            raise ParameterError(f"{item_key.id!r} {why} the session, which has {listed}")
        return replace(
            self, items=tuple(item for item in self.items if item.key != item_key), removed=(*self.removed, item_key)
        )

    def with_settings(self, **settings: Any) -> Session:
        """The session with some settings overridden; the agent's stay as they are.

        Raises:
            ParameterError: one is unknown or out of range; all of them.
            PipelineError: they do not go together.
        """
        return replace(self, settings=self.agent.selector.settled(self.settings, settings))

    def with_agent(self, agent: Agent) -> Session:
        """The session with the current version of the agent.

        Raises:
            ParameterError: the agent has another selector, and that lacks one of the session's settings.
        """
        return replace(self, agent=agent)

    def build_request(
        self, text: str, *, history: Iterable[ChatMessage] = (), tool_results: Iterable[tuple[str, str]] = ()
    ) -> tuple[Request, tuple[str, ...]]:
        """The request for the selector, and a warning for each item of the session that it may not get."""
        session_items, warnings, catalog = [], [], self.agent.catalog
        visible = _visible(catalog, self.workspace, self.user)

        def find(key: ItemKey) -> Item | None:
            position = catalog.find(key)
            return catalog[position] if position is not None and visible[position] else None

        for session_item in self.items:
            if (item := find(session_item.key)) is not None and item.enabled:
                session_items.append(session_item)
            else:
                values = {"session": self.id, "item": session_item.key.id, "reason": why_absent(item)}
                warnings.append(Message("selectors.session-item-left-out", **values))
        request = Request(
            id=self.id,
            text=text,
            history=tuple(history),
            session=tuple(session_items),
            removed=tuple(key for key in self.removed if find(key) is not None),
            tool_results=tuple(tool_results),
            conversation=self.id,
            workspace=self.workspace,
            user=self.user,
        )
        return request, tuple(warnings)

    def request(
        self,
        text: str,
        resources: Resources,
        *,
        history: Iterable[ChatMessage] = (),
        tool_results: Iterable[tuple[str, str]] = (),
    ) -> RequestContext:
        """Build the context of one request: the session's items, and the items found for this request.

        Nothing is searched, and no model is loaded, where no item could be found. A search that fails leaves what the
        session holds, with a warning and the error in `failure`.

        Args:
            text: what the user asks.
            resources: where vectors and indexes come from.
            history: earlier messages, oldest first.
            tool_results: (tool, text) of results that the request came with.
        """
        request, warnings = self.build_request(text, history=history, tool_results=tool_results)
        batch = Batch.of(self.agent.catalog, [request])
        query, table = Query.of_chunks(batch, [()]), session_rows(batch)
        failure: Exception | None = None
        if batch.eligible.any().any():
            try:
                check_fits(self.pipeline, batch.catalog)
                outcome = self.pipeline.run(batch, resources, live=True)
                query, table = outcome.query, outcome.candidates
            except Exception as error:  # noqa: BLE001 - whatever fails in a search must not cost the user the reply
                failure = error
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                warnings += (Message("selectors.search-failed", reason=reason),)
        (selection,) = selections(query, table)
        warnings += tuple(map(str, selection.trace))
        items = [self.agent.catalog[self.agent.catalog.position(offered.id)] for offered in selection.chosen]
        return RequestContext(
            session=self,
            request=request,
            selection=selection,
            prompt=self.agent.messages.prompt(request, items, [offered.span for offered in selection.chosen]),
            warnings=warnings,
            failure=failure,
        )

    def as_dict(self) -> dict[str, Any]:
        """The session as JSON, for `read_session`: names only."""
        return {
            "id": self.id,
            "selector": self.agent.selector.name,
            "items": [{"id": item.key.id, "mode": item.mode} for item in self.items],
            "removed": [key.id for key in self.removed],
            "settings": dict(self.settings),
            **{name: value for name in ("workspace", "user") if (value := getattr(self, name)) is not None},
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class RequestContext:
    """The context of one request; built anew for each, and never written back to the session.

    Attributes:
        session: as it was asked.
        request: what the selector was asked.
        selection: what is in, and what stayed out by which rule.
        prompt: what the model is to be sent.
        warnings: what could not be had, one sentence each.
        failure: the error of a failed search, or None.
    """

    session: Session
    request: Request
    selection: Selection
    prompt: Prompt
    warnings: tuple[str, ...]
    failure: Exception | None

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The ids of the context in order: the session's items first, in catalog order."""
        return tuple(offered.id for offered in self.selection.chosen)

    def as_dict(self) -> dict[str, Any]:
        """JSON: `{"items": [{"type", "name", "serverName"?, "includeMode", "similarityScore"?}]}`."""
        return self.selection.request_context(self.session.agent.catalog)
