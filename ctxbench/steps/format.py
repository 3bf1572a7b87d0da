"""Formats: what the model would be sent for a selection."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

from ctxbench.core.candidates import Candidates
from ctxbench.core.items import Item
from ctxbench.core.query import Query
from ctxbench.core.requests import Request
from ctxbench.core.selection import Prompt
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
        batch = query.batch
        return [
            self.prompt(request, [batch.catalog[int(i)] for i in candidates.item[rows][candidates.chosen[rows]]])
            for request, rows in zip(batch.requests, map(candidates.rows, range(len(batch))), strict=True)
        ]

    def prompt(self, request: Request, items: Sequence[Item]) -> Prompt:
        """Build the prompt of one request from the items of its request context, in their order."""
        messages = [("system", self.system)] if self.system else []
        messages += [(m.role, m.content) for m in request.history if m.role != "system"]
        spoken = sorted((item for item in items if item.type != "tool"), key=lambda item: _TURN.get(item.type, 1))
        messages += [("user", item.prompt_text) for item in spoken]
        messages.append(("user", request.text))
        tools = [
            {"name": item.name, "description": item.description, "inputSchema": deepcopy(dict(item.schema or {}))}
            for item in items
            if item.type == "tool"
        ]
        return Prompt(messages=messages, tools=tools)
