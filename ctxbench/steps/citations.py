"""A format with citations: items as one text, each under an id that the model's reply can name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ctxbench.core.candidates import Candidates
from ctxbench.core.items import Item
from ctxbench.core.query import Query
from ctxbench.core.selection import Prompt, chosen_items
from ctxbench.core.shown import part_of, text_shown
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy
from ctxbench.index.words import asked_words
from ctxbench.text.citation_list import Citation, citations, marked


@dataclass(frozen=True)
class Citations(Strategy):
    """One message with all chosen items, each under its citation, between the earlier messages and the user's.

    Attributes:
        marks: whether the request's words are marked in what is shown, `<<<word>>>`.
        index: how words match: `fts5` or `postgres` (`ctxbench/index/text_index.py`).
        system: the system prompt; say there that a reply should name the ids of what it uses.

    An item is written as `[fil-7k2p] docs/setup.md (file, relevance 0.82)`, and below it what is shown of its text.
    The source is a path or name, of a message its role and thread; what the session holds has no relevance. An id is
    the same in every process, and is longer where two would be the same or a text holds it; marks are longer where the
    text holds such. Which citations a reply names, and the list of sources below it, tell `cited` and `sources_text`
    of `ctxbench.text.citation_list`. Items stand in the one order; tools are sent as tools.
    Nothing chosen: no such message. Cost: linear in the items, and the matches of what is shown. Source: document 002,
    "Citation Management".
    """

    marks: bool = True
    index: Literal["fts5", "postgres"] = "fts5"
    system: str = ""

    @property
    def uses(self) -> tuple[str, ...]:
        """The index that says what matches, where that is marked."""
        return (f"text_index:{self.index}",) if self.marks else ()

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Sequence[Prompt]:
        """Build one prompt a request."""
        prompts, chosen = [], [chosen_items(query, candidates, index) for index in range(len(query.batch))]
        for index, texts in enumerate(self._texts(query, candidates, chosen, resources)):
            context = "\n\n".join(map(_written, citations(query, candidates, index), texts))
            tools = [item for item, _ in chosen[index] if item.type == "tool"]
            options = {"system": self.system, "context": context}
            prompts.append(Prompt.around(query.batch.requests[index], [context] if context else [], tools, **options))
        return prompts

    def _texts(
        self, query: Query, candidates: Candidates, chosen: Sequence[Sequence[tuple[Item, int]]], resources: Resources
    ) -> list[list[str]]:
        """What is shown of the items of each request but tools, with its matches marked; the same text once."""
        excerpts = [
            [text_shown(item, part_of(candidates, row)) for item, row in items if item.type != "tool"]
            for items in chosen
        ]
        if not self.marks or not any(excerpts):
            return excerpts
        word_lists, index = (
            [asked_words(query, row) for row in range(len(excerpts))],
            resources.get(f"text_index:{self.index}"),
        )
        distinct: dict[tuple[str, ...], dict[str, str]] = {words: {} for words in word_lists}
        for words, texts in zip(word_lists, excerpts, strict=True):
            distinct[words].update(dict.fromkeys(texts, ""))
        for words, by_text in distinct.items():
            by_text.update(zip(by_text, map(marked, by_text, index.marks(list(by_text), words)), strict=True))
        return [[distinct[words][text] for text in texts] for words, texts in zip(word_lists, excerpts, strict=True)]


def _written(citation: Citation, text: str) -> str:
    """An item of the context: its head line, and what is shown of it."""
    relevance = "" if citation.relevance is None else f", relevance {citation.relevance:.2f}"
    return f"{citation.id} {citation.source} ({citation.type}{relevance})\n{text}"
