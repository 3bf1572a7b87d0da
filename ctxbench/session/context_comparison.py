"""Compare a stored request context with today: build its messages again, and select again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ctxbench.core.candidates import MARGIN
from ctxbench.core.errors import ParameterError
from ctxbench.core.requests import Request
from ctxbench.core.selection import Prompt
from ctxbench.core.stages import Resources
from ctxbench.session.exchange import Exchange, content_hash, prompt_hash, text_hash
from ctxbench.session.session import Agent, RequestContext, Session


@dataclass(frozen=True, eq=False, kw_only=True)
class Rebuilt:
    """The messages of a stored request, with the items of its context as they are today.

    Attributes:
        prompt: the messages and tools, by the agent's format.
        edited: ids of items that say something else than they did (also to a search only).
        gone: ids of items that the agent no longer has; they are not in the prompt.
        disabled: ids of items that are not enabled any more; they are in the prompt, as they were sent.
        system_changed: the system prompt is another.
        same: the prompt is the one that was sent.
    """

    prompt: Prompt
    edited: tuple[str, ...]
    gone: tuple[str, ...]
    disabled: tuple[str, ...]
    system_changed: bool
    same: bool

    def as_dict(self) -> dict[str, Any]:
        """The differences as JSON."""
        return {
            "same": self.same,
            "edited": list(self.edited),
            "gone": list(self.gone),
            "disabled": list(self.disabled),
            "system_changed": self.system_changed,
        }


def rebuild(exchange: Exchange, agent: Agent) -> Rebuilt:
    """Build the messages of a stored exchange again, and list the items that changed since.

    With nothing changed they are the messages that were sent, to the character. Of an item that was edited all is sent,
    whatever part of it was.
    """
    pairs = [(context_item, agent.item(context_item.key)) for context_item in exchange.context]
    present = [(context_item, item) for context_item, item in pairs if item is not None]
    request = Request(id=exchange.conversation, text=exchange.text, history=exchange.history)
    spans = [
        context_item.shown if context_item.content == content_hash(item) else None for context_item, item in present
    ]
    prompt = agent.messages.prompt(request, [item for _, item in present], spans)
    return Rebuilt(
        prompt=prompt,
        edited=tuple(item.id for context_item, item in present if context_item.content != content_hash(item)),
        gone=tuple(context_item.key.id for context_item, item in pairs if item is None),
        disabled=tuple(item.id for _, item in present if not item.enabled),
        system_changed=exchange.system != text_hash(agent.messages.system),
        same=prompt_hash(prompt) == exchange.sent,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextChange:
    """One item that the selector would treat otherwise today.

    Attributes:
        id: which.
        before, now: (mode, score) then and today; None where it was, or would be, left out.
        why: of an item left out today, the reason; else empty.
    """

    id: str
    before: tuple[str, float | None] | None
    now: tuple[str, float | None] | None
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The change as JSON."""
        before, after = (None if at is None else {"mode": at[0], "score": at[1]} for at in (self.before, self.now))
        return {"id": self.id, "before": before, "now": after, **({"why": self.why} if self.why else {})}


@dataclass(frozen=True, eq=False, kw_only=True)
class ContextComparison:
    """A stored request context compared with the one that the same request would get today.

    Attributes:
        came: would be offered today and was not.
        went: was offered and would not be today.
        moved: offered both times, with another mode, or a score that differs by more than 1e-5.
        context: that of today.
    """

    came: tuple[ContextChange, ...]
    went: tuple[ContextChange, ...]
    moved: tuple[ContextChange, ...]
    context: RequestContext

    @property
    def same(self) -> bool:
        """Whether the items, their modes and their scores are equal."""
        return not (self.came or self.went or self.moved)

    def as_dict(self) -> dict[str, Any]:
        """The comparison as JSON."""
        parts = {"came": self.came, "went": self.went, "moved": self.moved}
        return {"same": self.same, **{name: [change.as_dict() for change in part] for name, part in parts.items()}}


def compare(exchange: Exchange, agent: Agent, resources: Resources) -> ContextComparison:
    """Run the agent's selector again on a stored request: same text, session, removed items and settings.

    Raises:
        ParameterError: the exchange is of another selector.
        CtxbenchError: the search fails; here that is no warning.
    """
    if exchange.selector != agent.selector.name:
        raise ParameterError(
            f"the exchange was selected by {exchange.selector!r}, and the agent has {agent.selector.name!r}; "
            "compare with an agent of the same selector"
        )
    session = Session(
        id=exchange.conversation,
        agent=agent,
        items=exchange.session_items,
        removed=exchange.removed,
        settings=exchange.settings,
        workspace=exchange.workspace,
        user=exchange.user,
    )
    context = session.request(exchange.text, resources, history=exchange.history, tool_results=exchange.tool_results)
    if context.failure is not None:
        raise context.failure
    before = {context_item.key.id: (context_item.mode, context_item.score) for context_item in exchange.context}
    after = {offered.id: (offered.mode, offered.score) for offered in context.selection.chosen}
    rules = {excluded.id: str(excluded.rule) for excluded in context.selection.left_out}
    return ContextComparison(
        came=tuple(ContextChange(id=id_, before=None, now=at) for id_, at in after.items() if id_ not in before),
        went=tuple(
            ContextChange(id=id_, before=at, now=None, why=rules.get(id_) or _why_out(id_, agent))
            for id_, at in before.items()
            if id_ not in after
        ),
        moved=tuple(
            ContextChange(id=id_, before=before[id_], now=at)
            for id_, at in after.items()
            if id_ in before and _differs(before[id_], at)
        ),
        context=context,
    )


def _differs(before: tuple[str, float | None], after: tuple[str, float | None]) -> bool:
    if before[0] != after[0] or before[1] is None or after[1] is None:
        return before != after
    return abs(before[1] - after[1]) > MARGIN


def _why_out(id_: str, agent: Agent) -> str:
    """Why an item without a rule is not offered."""
    item = agent.item(id_)
    if item is None:
        return "the agent no longer has it"
    if not item.enabled:
        return "it is not enabled"
    return "the search does not find it" if item.include == "agent" else f"its include mode is {item.include}"
