"""Formats: what the model would be sent for a selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ctxbench.core.candidates import Candidates
from ctxbench.core.items import Item
from ctxbench.core.query import Query
from ctxbench.core.requests import Request
from ctxbench.core.selection import Prompt, chosen_items
from ctxbench.core.shown import part_of, text_shown
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy

_TURN = {"reference": 0, "rule": 2}  # references come before rules; whatever else there is stands between


@dataclass(frozen=True)
class Messages(Strategy):
    """Messages and tools, built from the request context.

    Order: system prompt (if any), earlier messages but system ones, `Reference: ...` of every reference,
    other items, `Rule: ...` of every rule, the user's message. Tools are those of the request context: the
    documents take them from the session, so that tools found by search would never arrive.

    Attributes:
        system: the system prompt.

    Without items there are the system prompt, the earlier messages and the user's. Cost: linear in the items. Source:
    the documents, "Using Request Context to Build LLM Messages".
    """

    system: str = ""

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Sequence[Prompt]:
        """Build one prompt a request."""
        prompts = []
        for index, request in enumerate(query.batch.requests):
            items = chosen_items(query, candidates, index)
            spans = [part_of(candidates, row) for _, row in items]
            prompts.append(self.prompt(request, [item for item, _ in items], spans))
        return prompts

    def prompt(
        self, request: Request, items: Sequence[Item], spans: Sequence[tuple[int, int] | None] | None = None
    ) -> Prompt:
        """Build the prompt of one request from the items of its request context, in their order.

        Args:
            request: what was asked.
            items: shape (n,).
            spans: the part of each item's prompt text that is sent, None = all; without it all of all items is.
        """
        parts = zip(items, spans or [None] * len(items), strict=True)
        spoken = sorted((part for part in parts if part[0].type != "tool"), key=lambda part: _TURN.get(part[0].type, 1))
        tools = [item for item in items if item.type == "tool"]
        return Prompt.around(request, [text_shown(*part) for part in spoken], tools, system=self.system)
