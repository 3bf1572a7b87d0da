"""What a service answers: one request's selection and prompt under the names of the assembly's document."""

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
        """What was asked."""
        return self.outcome.query.batch.requests[0]

    @cached_property
    def selection(self) -> Selection:
        """What was chosen and what stayed out."""
        return selections(self.outcome.query, self.outcome.candidates)[0]

    @cached_property
    def items(self) -> list[dict[str, Any]]:
        """What was chosen, as JSON; see `as_dict`."""
        return [self._item(one) for one in self.selection.chosen]

    @cached_property
    def citations(self) -> list[dict[str, Any]]:
        """What a reply can cite, as JSON by the document's names, in the order of the items; empty where nothing is."""
        found = citations(self.outcome.query, self.outcome.candidates, 0) if self.cites else ()
        rows = [{**asdict(one), "usedInResponse": one.used} for one in found]
        return [{name: row[name] for name in row if name != "used" and row[name] is not None} for row in rows]

    @cached_property
    def tokens(self) -> int:
        """Of the rendered text where there is one, else of the items together."""
        if self.prompt.context:
            return int(self.resources.text_tokens([self.prompt.context])[0])
        return sum(one["tokens"] for one in self.items)

    def as_dict(self) -> dict[str, Any]:
        """`data` and `meta` of a response.

        Items stand in the order of the selection, each with the `content` that is sent, or the `excerpt` where that is
        a part. `relevance` is the selector's score, null of what the session holds. `searchRank` counts from 1 the
        places of what the search matched. `context` is the rendered text, if the format makes one. The counts of
        `stats` are of what was found: references, messages of the thread, and all else that a search brought.
        """
        selection, request, total = self.selection, self.request, self.tokens
        found = [self._source(one, request) for one in (*selection.chosen, *selection.left_out)]
        data = {
            "id": self.id,
            "totalTokens": total,
            "context": self.prompt.context,
            "items": self.items,
            "citations": self.citations,
            "stats": {
                **{f"{name}Count": found.count(name) for name in ("explicit", "search", "history")},
                "excludedCount": len(selection.left_out),
            },
            "notes": [note.as_dict() for note in map(_told, selection.trace)],
        }
        meta = {"tokenUsage": total, "sourceCount": len(self.items), "citationCount": len(self.citations)}
        return {"data": data, "meta": meta}

    def _item(self, offered: Offered) -> dict[str, Any]:
        item, place = self._by_id(offered.id)
        text = text_shown(item, offered.span)
        whole = offered.span is None
        tokens = offered.tokens
        metadata = {
            "path": item.path if item.is_file else None,
            "createdAt": item.created,
            "matchedKeywords": [word for word in self.outcome.query.keywords[0] if word in text.lower()],
            "searchRank": self._rank(place),
        }
        return {
            "id": offered.id,
            "type": item.type,
            "source": item.title or item.name,
            "content" if whole else "excerpt": text,
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
        own = request.conversation is not None and item.conversation == request.conversation
        return "history" if item.type == "message" and own else "search"

    def _by_id(self, id_: str) -> tuple[Item, int]:
        catalog = self.outcome.query.batch.catalog
        place = catalog.position(id_)
        return catalog[place], place

    def _rank(self, place: int) -> int | None:
        table = self.outcome.candidates
        rank = int(table.chunk_rank[table.item == place][0])
        return rank + 1 if rank >= 0 else None


def _told(note: Note) -> Note:
    """A note without what an error says, which may name what is the server's alone."""
    return replace(note, message="the server's log says more") if note.kind == "failed" else note
