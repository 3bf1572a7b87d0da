"""Selections: the items offered for a request, with exclusion rules for all others."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxbench.io.errors import SelectorError
from ctxbench.model.arrays import FloatArray, IntArray, firsts, owners, starts
from ctxbench.model.candidates import (
    ROW_ARRAYS,
    SHOWN,
    Candidates,
    Mode,
    Note,
    Origin,
    Rule,
    in_order,
    starts_by_request,
)
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request


def concatenated(tables: Sequence[Candidates]) -> Candidates:
    """Put the rows of several tables over the same requests into one, in the one order.

    The rules of all are kept; a column that a table lacks is NaN in its rows. No item may be in two tables
    of one request (join them first where it may).
    """
    first = tables[0]
    if any(table.n_requests != first.n_requests for table in tables):
        raise SelectorError("candidates of different requests cannot be put together")
    arrays, columns, shared = _appended(tables)
    request = np.concatenate([table.request for table in tables])
    return Candidates(
        start=starts_by_request(request, first.n_requests), **shared, **in_order(request, arrays, columns)
    )


def joined(tables: Mapping[str, Candidates]) -> Candidates:
    """Outer join by (request, item): a column per source holds its scores, NaN where it did not find the item.

    A source's own columns become `source.column`. The pair of chunks of a row is that of the best source that tells
    one; its mode is `EXPLICIT` if it is that in any source; everything else is that of the first source, in order, that
    has the row's best score.
    """
    names, parts = list(tables), list(tables.values())
    rows, _, shared = _appended(parts)
    request = np.concatenate([table.request for table in parts])
    source = np.concatenate([np.full(len(t), i, dtype=np.int64) for i, t in enumerate(parts)])
    best = np.lexsort((source, -rows["score"], rows["item"], request))
    rows, request, source = {name: array[best] for name, array in rows.items()}, request[best], source[best]
    new = firsts(request, rows["item"])
    row = np.cumsum(new) - 1
    columns = {name: np.full(int(new.sum()), np.nan, dtype=np.float64) for name in names}
    for index, name in enumerate(names):
        columns[name][row[source == index]] = rows["score"][source == index]
    for name, table in tables.items():
        for column, values in table.columns.items():
            joined_column = np.concatenate([values if part is table else np.full(len(part), np.nan) for part in parts])[
                best
            ]
            joint = columns.setdefault(f"{name}.{column}", np.full(int(new.sum()), np.nan, dtype=np.float64))
            joint[row[source == names.index(name)]] = joined_column[source == names.index(name)]
    arrays = {name: array[new] for name, array in rows.items()}
    arrays["mode"][row[rows["mode"] == Mode.EXPLICIT]] = Mode.EXPLICIT
    chunk_rows = np.flatnonzero((rows["query_chunk"] >= 0) & (rows["item_chunk"] >= 0))
    first = chunk_rows[np.unique(row[chunk_rows], return_index=True)[1]]
    for name in ("query_chunk", "item_chunk"):
        arrays[name][row[first]] = rows[name][first]
    start = starts_by_request(request[new], parts[0].n_requests)
    return Candidates(start=start, **shared, **in_order(request[new], arrays, columns))


def _appended(
    tables: Sequence[Candidates],
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, FloatArray], dict[str, Any]]:
    """Concatenated row arrays and columns of several tables, with the rules and notes of all.

    A column that a table lacks is NaN in its rows.
    """
    rules = tuple(dict.fromkeys([None, *(rule for table in tables for rule in table.rules)]))
    out = [np.array([rules.index(rule) for rule in table.rules], dtype=np.int64)[table.out] for table in tables]
    none = {name: np.empty(0, dtype=np.float64 if name == "score" else np.int64) for name in ROW_ARRAYS}
    arrays = {name: np.concatenate([none[name], *(getattr(table, name) for table in tables)]) for name in ROW_ARRAYS}
    arrays["out"] = np.concatenate([none["out"], *out])
    columns = {
        name: np.concatenate([table.columns.get(name, np.full(len(table), np.nan)) for table in tables])
        for name in sorted({name for table in tables for name in table.columns})
    }
    notes = tuple(dict.fromkeys(note for table in tables for note in table.notes))
    return arrays, columns, {"rules": rules, "notes": notes}


def stacked(tables: Sequence[Candidates]) -> Candidates:
    """Concatenate the requests of several tables; rules are joined, columns must be the same."""
    arrays, columns, shared = _appended(tables)
    start = starts(np.concatenate([np.empty(0, dtype=np.int64), *[np.diff(table.start) for table in tables]]))
    return Candidates(start=start, columns=columns, **{**shared, **arrays})


def session_rows(batch: Batch) -> Candidates:
    """What the sessions of a batch hold, as chosen rows without a score."""
    request = owners(batch.session_start)
    return Candidates.build(
        len(batch),
        request,
        batch.session_item,
        origin=np.full(len(request), Origin.SESSION, dtype=np.int64),
        mode=batch.session_mode,
    )


def with_values(table: Candidates, request: IntArray, item: IntArray, columns: Mapping[str, FloatArray]) -> Candidates:
    """Set values of columns in some rows, by request and item; other rows keep their value, or NaN.

    Args:
        table: holds a row for each.
        request, item: shape (n,), each pair once.
        columns: by name, shape (n,).
    """
    n_items = 1 + int(table.item.max(initial=-1))
    keys, wanted_keys = table.request * n_items + table.item, request * n_items + item
    by_key = np.argsort(keys)
    rows = by_key[np.searchsorted(keys, wanted_keys, sorter=by_key)]
    changed = {}
    for name, values in columns.items():
        changed[name] = table.columns.get(name, np.full(len(table), np.nan)).copy()
        changed[name][rows] = values
    return table.with_columns(**changed)


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
        """The candidate as JSON, without empty values. `rule` is `exclusion_rule` in words."""
        row: dict[str, Any] = {
            "id": self.id,
            "score": self.score,
            "mode": self.mode,
            "origin": self.origin,
            "rule": None if self.rule is None else str(self.rule),
            "exclusion_rule": None if self.rule is None else self.rule.as_dict(),
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
        left_out: candidates that a rule excluded, in the one order; items that were no candidates are in neither.
        trace: what was late, failed or fell back.
    """

    query: str
    chosen: tuple[Offered, ...]
    left_out: tuple[Offered, ...]
    trace: tuple[Note, ...] = ()

    def request_context(self, catalog: Catalog) -> dict[str, Any]:
        """The request context as the specification stores it with a reply.

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
    rules = candidates.rules
    return tuple(
        Offered(
            id=catalog[item].id,
            score=None if math.isnan(score) else score,
            mode=_MODES[mode],
            origin=origin_name(origin),
            rule=rules[out],
            pair=None if query_chunk < 0 or item_chunk < 0 else Pair(query_chunk, item_chunk),
            via=None if via < 0 else catalog[via].id,
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
