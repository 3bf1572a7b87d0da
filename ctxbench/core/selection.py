"""Selections: what one request was offered, with the provenance of every item in and the rule for every item out."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctxbench.core.arrays import IntArray
from ctxbench.core.candidates import SHOWN, Candidates, Mode, Origin
from ctxbench.core.items import Catalog, Item
from ctxbench.core.notes import Note
from ctxbench.core.query import Query
from ctxbench.core.requests import Request
from ctxbench.core.rules import Rule

_MODES = tuple(mode.name.lower() for mode in Mode)  # both count from 0
_ORIGINS = tuple(origin.name.lower() for origin in Origin)


@dataclass(frozen=True, slots=True)
class Pair:
    """The pair of chunks that gave an item its score: 0-based places within the request and within the item."""

    query_chunk: int
    item_chunk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """One candidate of a selection.

    Attributes:
        id: the item's id.
        score: None for what the session holds.
        mode: `always`, `manual`, `agent`, `expansion` or `explicit`.
        origin: `session`, `search` or `expansion`.
        rule: the rule that kept it out; None for a chosen item.
        pair: the winning pair of chunks, or None.
        via: id of the item that led here, or None.
        span: the part of its prompt text that is sent, `[from, to)` in characters; None = all.
        tokens: what that costs; None = what the whole does.
    """

    id: str
    score: float | None
    mode: str
    origin: str
    rule: Rule | None = None
    pair: Pair | None = None
    via: str | None = None
    span: tuple[int, int] | None = None
    tokens: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The candidate as JSON; what is empty is left out. `rule` says `out_by` in words."""
        row: dict[str, Any] = {
            "id": self.id,
            "score": self.score,
            "mode": self.mode,
            "origin": self.origin,
            "rule": None if self.rule is None else str(self.rule),
            "out_by": None if self.rule is None else self.rule.as_dict(),
            "pair": None if self.pair is None else [self.pair.query_chunk, self.pair.item_chunk],
            "via": self.via,
            "shown": None if self.span is None else list(self.span),
            "tokens": self.tokens,
        }
        return {name: value for name, value in row.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What one request was offered.

    Attributes:
        query: the request's id.
        chosen: the items offered, in the one order.
        left_out: candidates that a rule kept out, in the one order; items that were no candidates are in neither.
        trace: what was late, failed or fell back.
    """

    query: str
    chosen: tuple[Offered, ...]
    left_out: tuple[Offered, ...]
    trace: tuple[Note, ...] = ()

    def request_context(self, catalog: Catalog) -> dict[str, Any]:
        """The request context as the documents store it with a reply.

        Returns:
            `{"items": [{"type", "name", "serverName"?, "includeMode", "similarityScore"?}]}`.
        """
        items: list[dict[str, Any]] = []
        for offered in self.chosen:
            item = catalog[catalog.position(offered.id)]
            row = {"type": item.type, "name": item.name, "serverName": item.server, "includeMode": offered.mode}
            row_with_score = {**row, "similarityScore": offered.score}
            items.append({name: value for name, value in row_with_score.items() if value is not None})
        return {"items": items}


def selections(query: Query, candidates: Candidates) -> tuple[Selection, ...]:
    """Turn the table of a batch into one selection a request, in the order of the batch."""
    catalog = query.batch.catalog
    return tuple(
        Selection(
            query=name,
            chosen=offered_rows(catalog, candidates, candidates.rows(row), chosen=True),
            left_out=offered_rows(catalog, candidates, candidates.rows(row), chosen=False),
            trace=candidates.notes_of(name),
        )
        for row, name in enumerate(query.batch.ids)
    )


def offered_rows(catalog: Catalog, candidates: Candidates, rows: slice, *, chosen: bool) -> tuple[Offered, ...]:
    """The rows of one request that were chosen, or those that were not, in the one order."""
    return offered_at(catalog, candidates, np.flatnonzero(candidates.chosen[rows] == chosen) + rows.start)


def offered_at(catalog: Catalog, candidates: Candidates, rows: IntArray) -> tuple[Offered, ...]:
    """Some rows of the table, by their numbers, shape (n,)."""
    names = ("item", "score", "mode", "origin", "out", "query_chunk", "item_chunk", "via_item", *SHOWN)
    columns = [getattr(candidates, name)[rows].tolist() for name in names]
    ids, rules = catalog.ids, candidates.rules
    return tuple(
        Offered(
            id=ids[item],
            score=None if math.isnan(score) else score,
            mode=_MODES[mode],
            origin=origin_name(origin),
            rule=rules[out],
            pair=None if query_chunk < 0 or item_chunk < 0 else Pair(query_chunk, item_chunk),
            via=None if via < 0 else ids[via],
            span=None if end < 0 else (start, end),
            tokens=None if tokens < 0 else tokens,
        )
        for item, score, mode, origin, out, query_chunk, item_chunk, via, start, end, tokens in zip(
            *columns, strict=True
        )
    )


def chosen_items(query: Query, candidates: Candidates, request: int) -> list[tuple[Item, int]]:
    """The chosen items of one request, by its place in the batch, in the one order, each with its row of the table."""
    rows = candidates.rows(request)
    chosen = (np.flatnonzero(candidates.chosen[rows]) + rows.start).tolist()
    return [(query.batch.catalog[int(candidates.item[row])], row) for row in chosen]


def origin_name(origin: int) -> str:
    """`session`, `search`, or `expansion` whatever the pass."""
    return _ORIGINS[min(origin, int(Origin.EXPANSION))]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model would be sent.

    Attributes:
        messages: (role, content), in order.
        tools: definitions as `{"name", "description", "inputSchema"}`, in order.
        context: the items as one text, where a format makes one of them; it is the content of a message.
    """

    messages: Sequence[tuple[str, str]]
    tools: Sequence[dict[str, Any]]
    context: str = ""

    @classmethod
    def around(
        cls, request: Request, texts: Sequence[str], tools: Sequence[Item], *, system: str = "", context: str = ""
    ) -> Prompt:
        """System prompt (if any), earlier messages but system ones, texts of items as messages, the user's message.

        Args:
            request: what was asked.
            texts: of items, in order.
            tools: items that are tools, in order.
            system: the system prompt.
            context: as the attribute.
        """
        messages = [("system", system)] if system else []
        messages += [(m.role, m.content) for m in request.history if m.role != "system"]
        messages += [("user", text) for text in (*texts, request.text)]
        defined = [
            {"name": item.name, "description": item.description, "inputSchema": deepcopy(dict(item.schema or {}))}
            for item in tools
        ]
        return cls(messages=messages, tools=defined, context=context)

    @property
    def texts(self) -> tuple[str, ...]:
        """All that is sent: the content of every message, and every tool as compact JSON."""
        tools = (json.dumps(tool, ensure_ascii=False, separators=(",", ":")) for tool in self.tools)
        return (*(content for _, content in self.messages), *tools)
