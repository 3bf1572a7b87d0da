"""Templates: memories as one text, and as many of them as fit into a budget as they are rendered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from ctxbench.core.candidates import Candidates, Origin, place_among
from ctxbench.core.errors import check_range
from ctxbench.core.items import Item
from ctxbench.core.query import Query
from ctxbench.core.rules import Rule
from ctxbench.core.selection import Prompt, chosen_items
from ctxbench.core.shown import part_of, text_shown
from ctxbench.core.stages import FORMAT, Resources
from ctxbench.core.strategy import Strategy
from ctxbench.text.prompt_budget import BUDGET, BUDGET_WORDS, cut_to_fit, prompt_tokens, rendered_fit
from ctxbench.text.templates import ContextTemplate


@dataclass(frozen=True)
class Template(Strategy):
    """One message with all chosen items, written by a template, between the earlier messages and the user's.

    Attributes:
        template: `chat`, `detailed`, `summary`, or one of your own: `memory_format`, and as needed `header`,
            `separator` (a line end), `footer`, `metadata` (true); `memoryFormat` and `includeMetadata` are the same.
        metadata: whether `{{type}}`, `{{confidence}}` and `{{timestamp}}` are filled in; if not, they are empty
            wherever they stand, and what a format does not name is never shown. Default: what the template says.
        system: the system prompt.

    Variables of the format of a memory: `{{content}}` (what is shown of its text), `{{type}}` (its kind, else the
    item's type), `{{confidence}}`, `{{timestamp}}` (when it was created), `{{score}}` (that of the last ranking); of
    what an item lacks the variable is empty. Variables in contents stay as they are. Items stand in the one order;
    tools are sent as tools. Nothing chosen: no such message. Cost: linear in the items. Source: document 004, "Context
    Templates"; that the template decides where metadata stands and `includeMetadata` whether it is filled in is our
    reading of it.
    """

    template: str | Mapping[str, Any] = "chat"
    metadata: bool | None = None
    system: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.template, str):
            object.__setattr__(self, "template", dict(self.template))
        _ = self.layout  # a fault in it is told now

    @cached_property
    def layout(self) -> ContextTemplate:
        """The template that is written with."""
        return ContextTemplate.of(self.template, metadata=self.metadata)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Sequence[Prompt]:
        """Build one prompt a request."""
        prompts = []
        for index, request in enumerate(query.batch.requests):
            items = chosen_items(query, candidates, index)
            memories = [_variables(item, candidates, row) for item, row in items if item.type != "tool"]
            context = self.layout.render(memories)
            tools, texts = [item for item, _ in items if item.type == "tool"], [context] if context else []
            prompts.append(Prompt.around(request, texts, tools, system=self.system, context=context))
        return prompts


def _variables(item: Item, candidates: Candidates, row: int) -> dict[str, str]:
    """The values of the variables of a template, for the item of a row."""
    score = float(candidates.score[row])
    return {
        "content": text_shown(item, part_of(candidates, row)),
        "type": item.kind or item.type,
        "confidence": "" if item.confidence is None else f"{item.confidence:g}",
        "timestamp": item.created or "",
        "score": "" if math.isnan(score) else f"{score:.4g}",
    }


@dataclass(frozen=True)
class Rendered(Strategy):
    """Offer items in the one order as long as all of them, as the pipeline's format renders them, fit into a budget.

    Attributes:
        tokens: of what the items add to the prompt: all that a template writes, header, separators and footer
            included; definitions of tools, too. 0 or more, never exceeded. System prompt, history and the user's
            message are not counted; what the session holds is, and stays.

    An item that does not fit ends the list. Where that is the first one, the beginning of it is shown that does fit: up
    to the end of a sentence, else of a word, else of a character, with `…` behind it; a tool is never cut. Tokens are
    counted on the whole, as counts of parts do not add up. Empty in, empty out. Cost: the prompts are rendered and
    counted for the logarithm of the candidates and, where a first one is cut, of the places where that may be. Source:
    document 004, "Search Flow" (keep the highest ranked); the cut is ours.
    """

    tokens: int = 2000
    uses: ClassVar[tuple[str, ...]] = ("tokens", FORMAT)
    rule_words: ClassVar[Mapping[str, str]] = {BUDGET: BUDGET_WORDS}

    def __post_init__(self) -> None:
        check_range("tokens", self.tokens, 0)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark what does not fit, and show a part of a first item that does not."""
        rows = candidates.chosen & (candidates.origin != Origin.SESSION)
        limit = self.tokens + prompt_tokens(query, Candidates.empty(candidates.n_requests), resources)
        fits = rendered_fit(query, candidates, resources, rows, budget=limit)
        first = (place_among(candidates, rows) == 0) & ~fits
        rule = Rule.of(BUDGET, tokens=self.tokens)
        table = candidates.exclude(rows & ~fits & ~first, rule)
        if not first.any():
            return table
        table, cut = cut_to_fit(query, table, resources, first, limit)
        return table.exclude(first & ~cut, rule)
