"""The answer of a service: the selection and prompt of a request under the names of the specification."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from ctxbench.core.items import Item
from ctxbench.core.notes import Note
from ctxbench.core.pipeline import Outcome
from ctxbench.core.requests import Request
from ctxbench.core.selection import Offered, Prompt, Selection, selections
from ctxbench.core.shown import text_shown
from ctxbench.core.stages import Resources
from ctxbench.text.citation_list import citations


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedContext:
    """The context of one request.

    Attributes:
        id: equal for equal requests to equal services; feedback names it.
        outcome: of the pipeline, asked this request alone.
        prompt: what the model would be sent.
        cites: whether the prompt names its items by the ids of citations.
        resources: count tokens.
        kept: whether all of it was there from an earlier request.
    """

    id: str
    outcome: Outcome
    prompt: Prompt
    cites: bool
    resources: Resources
    kept: bool

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
        """The items that a reply can cite, as JSON under the specification's names, in order."""
        cited = citations(self.outcome.query, self.outcome.candidates, 0) if self.cites else ()
        rows = [{**asdict(citation), "usedInResponse": citation.used} for citation in cited]
        return [{name: row[name] for name in row if name != "used" and row[name] is not None} for row in rows]

    @cached_property
    def tokens(self) -> int:
        """Of the rendered text where there is one, else of the items together."""
        if self.prompt.context:
            return int(self.resources.text_tokens([self.prompt.context])[0])
        return sum(item["tokens"] for item in self.items)

    def as_dict(self) -> dict[str, Any]:
        """`data` and `meta` of a response.

        Items stand in the order of the selection, each with the `content` that is sent, or the `excerpt` where that is
        a part. `relevance` is the selector's score, null of what the session holds. `searchRank` counts from 1 the
        places of what the search matched. `context` is the rendered text, if the format makes one. The counts of
        `stats` are of what was found: references, messages of the thread, and all else that a search brought.
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
            "notes": [note.as_dict() for note in map(_public_note, selection.trace)],
        }
        meta = {"tokenUsage": total, "sourceCount": len(self.items), "citationCount": len(self.citations)}
        return {"data": data, "meta": meta}

    def _item(self, offered: Offered) -> dict[str, Any]:
        item, position = self._by_id(offered.id)
        text = text_shown(item, offered.span)
        is_whole = offered.span is None
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
            "content" if is_whole else "excerpt": text,
            "relevance": offered.score if offered.score is not None and math.isfinite(offered.score) else None,
            "tokens": int(self.resources.text_tokens([text])[0]) if tokens is None else tokens,
            "metadata": {name: value for name, value in metadata.items() if value is not None},
        }

    def _source(self, offered: Offered, request: Request) -> str:
        """`explicit`, `history`, `search`, or `session` of what the request held before."""
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


def _public_note(note: Note) -> Note:
    """A note without the text of an error, which may name internals of the server."""
    return replace(note, message="the server's log says more") if note.kind == "failed" else note
