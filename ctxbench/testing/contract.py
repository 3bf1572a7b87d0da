"""The contract of queries, tables of candidates and prompts: each check yields what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import BoolArray, IntArray
from ctxbench.core.candidates import RANKED, Candidates, Mode, Origin
from ctxbench.core.query import ChunkKind, Query
from ctxbench.core.requests import Batch
from ctxbench.core.selection import Prompt

_KEPT_BY_CUTS = ("score", "chunk_rank", "origin", "tier", "mode", "query_chunk", "item_chunk", "via_item")


def query_faults(batch: Batch, query: Query) -> Iterator[str]:
    """What is wrong in the outcome of analysis."""
    if query.batch.catalog.hash != batch.catalog.hash or query.batch.requests != batch.requests:
        yield "the query's batch is not the one that was given"
    n = len(query.text)
    if query.start.shape != (len(batch) + 1,) or query.start[0] != 0 or np.any(np.diff(query.start) < 0):
        yield f"start must be CSR starts of shape ({len(batch) + 1},), got {query.start.tolist()}"
    elif query.start[-1] != n:
        yield f"start ends at {query.start[-1]}, but there are {n} chunks"
    if query.weight.shape != (n,) or not np.all(np.isfinite(query.weight) & (query.weight > 0)):
        yield f"weight must be {n} finite numbers above 0, got {query.weight.tolist()}"
    if query.kind.shape != (n,) or not np.isin(query.kind, [int(kind) for kind in ChunkKind]).all():
        yield f"kind must be {n} values of ChunkKind, got {query.kind.tolist()}"
    if not all(isinstance(text, str) and text for text in query.text):
        yield "a chunk must be a text that is not empty"
    for name in ("keywords", "intent", "plan"):
        if len(getattr(query, name)) != len(batch):
            yield f"{name} has {len(getattr(query, name))} entries for {len(batch)} requests"


def table_faults(query: Query, table: Candidates) -> Iterator[str]:
    """What is wrong in a table of candidates, whichever step made it; order and repeats it checks itself."""
    batch = query.batch
    if table.n_requests != len(batch):
        yield f"the table has {table.n_requests} requests, the batch {len(batch)}"
        return
    yield from _value_faults(query, table)


def session_faults(batch: Batch, table: Candidates) -> Iterator[str]:
    """What is wrong in the session rows of a table."""
    session = table.origin == Origin.SESSION
    table_order = np.lexsort((table.item[session], table.request[session]))
    owner = np.repeat(np.arange(len(batch), dtype=np.int64), np.diff(batch.session_start))
    session_order = np.lexsort((batch.session_item, owner))
    if not (
        np.array_equal(table.item[session][table_order], batch.session_item[session_order])
        and np.array_equal(table.request[session][table_order], owner[session_order])
        and np.array_equal(table.mode[session][table_order], batch.session_mode[session_order])
        and np.all(table.out[session] == 0)
    ):
        yield "session rows must be the session's items with their modes, all chosen"


def _value_faults(query: Query, table: Candidates) -> Iterator[str]:
    """What is wrong in single values."""
    batch, n_items = query.batch, len(query.batch.catalog)
    for name in table.row_arrays():
        dtype = np.float64 if name == "score" else np.int64
        if getattr(table, name).dtype != dtype:
            yield f"{name} has type {getattr(table, name).dtype}, expected {np.dtype(dtype)}"
    if np.any((table.item < 0) | (table.item >= n_items)) or np.any(table.via_item >= n_items):
        yield f"item and via_item must be positions in the catalog of {n_items} items"
        return
    searched = table.origin != Origin.SESSION
    barred = searched & ~batch.eligible[table.request, table.item]
    for row in np.flatnonzero(barred & (table.mode == Mode.EXPLICIT)).tolist():  # naming an item opens it, if `manual`
        barred[row] = table.item[row] not in batch.named(int(table.request[row]))
    if barred.any():
        yield f"an item that the request may not get, or that the session holds, is offered: {_at(table, barred)}"
    if not np.isfinite(table.score[searched]).all():
        yield f"a score is not finite: {_at(table, searched & ~np.isfinite(table.score))}"
    if table.rules[:1] != (None,) or None in table.rules[1:] or len(set(table.rules)) < len(table.rules):
        yield f"rules must be None and then distinct rules, got {table.rules}"
    if np.any((table.out < 0) | (table.out >= len(table.rules))):
        yield f"out must be 0 to {len(table.rules) - 1}, an index into rules"
    if not np.isin(table.mode, [int(mode) for mode in Mode]).all() or np.any(table.origin < 0):
        yield "mode and origin must be values of Mode and Origin"
    chunks = np.where(table.via_item < 0, np.diff(query.start)[table.request], np.iinfo(np.int64).max)
    for name, limit in (("query_chunk", chunks), ("chunk_rank", None), ("item_chunk", None), ("via_item", None)):
        values = getattr(table, name)
        if np.any(values < -1) or (limit is not None and np.any(values >= limit)):
            yield f"{name} must be -1 or a place from 0 on, got {np.unique(values).tolist()}"
    for name, column in table.columns.items():
        if column.dtype != np.float64:
            yield f"column {name} has type {column.dtype}, expected float64"


def _at(table: Candidates, rows: BoolArray | IntArray) -> str:
    """A few of the rows, for a message."""
    positions = np.arange(len(table), dtype=np.int64)[rows][:3]
    return ", ".join(
        f"request {table.request[i]} item {table.item[i]} origin {table.origin[i]} score {table.score[i]!r}"
        for i in positions
    )


def retrieve_faults(table: Candidates) -> Iterator[str]:
    """What is wrong in a retriever's table, besides `table_faults`."""
    if np.any((table.origin != Origin.SEARCH) | ~table.ranked):
        yield "a retriever's rows must have origin SEARCH and its tier; the pipeline adds those of the session"
    if np.any(table.out != 0) or table.rules != (None,):
        yield "a retriever marks nothing out; that is for cuts"


def refine_faults(
    kind: str, before: Candidates, after: Candidates, *, promotes: bool = False, expands: bool | None = None
) -> Iterator[str]:
    """What a refining step (`rank`, `cut`, `expand` or `fit`) did that its kind may not do.

    A step that `promotes` may choose rows that were out; one that `expands` may add rows. None = as its kind does.
    """
    expands = kind == "expand" if expands is None else expands
    old_rows, new_rows = _rows(before), _rows(after)
    if dropped := old_rows.keys() - new_rows.keys():
        yield f"rows are marked, never dropped; gone are (request, item) {sorted(dropped)[:3]}"
    added = sorted(new_rows.keys() - old_rows.keys())
    if added and not expands:
        yield f"only an expand step may add rows, or a fit that `brings_in`; added are (request, item) {added[:3]}"
    new = np.array([new_rows[key] for key in added], dtype=np.int64)
    if np.any((after.origin[new] < Origin.EXPANSION) | (after.tier[new] <= RANKED)):
        yield "a row that was added must have an expansion origin, and stand behind what is ranked"
    shared = [key for key in old_rows if key in new_rows]
    old, remaining = (np.array([rows[key] for key in shared], dtype=np.int64) for rows in (old_rows, new_rows))
    if expands:  # it may take over what an earlier rule kept out; all else stays as it was
        stays = before.chosen[old] | (after.origin[remaining] < Origin.EXPANSION)
        old, remaining = old[stays], remaining[stays]
        if np.any(np.diff(remaining) < 0):
            yield "an expand step must leave the order of what stands there as it was; add rows with `add_expanded`"
    rules = [(before.rules[before.out[a]], after.rules[after.out[b]]) for a, b in zip(old, remaining, strict=True)]
    if any(a and a != b and not (promotes and not b) for a, b in rules):
        yield "a row that was out must keep the rule that met it first"
    if kind == "expand" and any(b and not a for a, b in rules):
        yield "an expand step must not mark a chosen row out"
    for name in ("origin", "mode") if kind == "rank" else _KEPT_BY_CUTS:
        if not np.array_equal(getattr(before, name)[old], getattr(after, name)[remaining], equal_nan=name == "score"):
            yield f"a {kind} step must not change {name}"
    if lost := set(before.columns) - set(after.columns):
        yield f"columns are gone: {', '.join(sorted(lost))}"


def _rows(table: Candidates) -> dict[tuple[int, int], int]:
    keys = zip(table.request.tolist(), table.item.tolist(), strict=True)
    return {key: row for row, key in enumerate(keys)}


def prompt_faults(batch: Batch, prompts: Sequence[Prompt]) -> Iterator[str]:
    """What is wrong in the prompts of a format step."""
    if len(prompts) != len(batch):
        yield f"{len(prompts)} prompts for {len(batch)} requests"
    for request, prompt in zip(batch.requests, prompts, strict=False):
        if not all(isinstance(role, str) and isinstance(content, str) for role, content in prompt.messages):
            yield f"messages of request {request.id!r} must be (role, content), both text"
        try:
            json.dumps(list(prompt.tools), allow_nan=False)
        except (TypeError, ValueError) as error:
            yield f"tools of request {request.id!r} must be JSON: {error}"


def answer_rows(query: Query, table: Candidates, prompts: Sequence[Prompt] | None = None) -> list[dict[str, Any]]:
    """All that was answered, as JSON by request and to the last bit; rules by code and values, items by their ids."""
    return [
        {
            "request": request.id,
            "chunks": _chunks(query, row),
            "rows": _rows_shown(query, table, table.rows(row)),
            "prompt": None if prompts is None else [list(map(list, prompts[row].messages)), list(prompts[row].tools)],
        }
        for row, request in enumerate(query.batch.requests)
    ]


def _chunks(query: Query, row: int) -> dict[str, Any]:
    span = slice(int(query.start[row]), int(query.start[row + 1]))
    return {
        "text": list(query.text[span]),
        "weight": _exact(query.weight[span]),
        "kind": query.kind[span].tolist(),
        "keywords": list(query.keywords[row]),
        "intent": query.intent[row],
        "plan": query.plan[row],
    }


def _rows_shown(query: Query, table: Candidates, rows: slice) -> list[dict[str, Any]]:
    ids = query.batch.catalog.ids
    columns = {name: _exact(table.columns[name][rows]) for name in sorted(table.columns)}
    numbers = {
        name: getattr(table, name)[rows].tolist()
        for name in ("chunk_rank", "origin", "tier", "query_chunk", "item_chunk")
    }
    via = [ids[item] if item >= 0 else None for item in table.via_item[rows]]
    return [
        {
            "item": ids[item],
            "score": score,
            "mode": int(mode),
            "rule": None if (rule := table.rules[out]) is None else rule.as_dict(),
            "via": via[index],
            **{name: values[index] for name, values in {**numbers, **columns}.items()},
        }
        for index, (item, score, mode, out) in enumerate(
            zip(table.item[rows], _exact(table.score[rows]), table.mode[rows], table.out[rows], strict=True)
        )
    ]


def _exact(values: npt.NDArray[np.float64]) -> list[str]:
    return [float(value).hex() for value in values]
