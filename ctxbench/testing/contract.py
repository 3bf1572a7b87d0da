"""Checks of queries, candidates and prompts, and mock and grown catalogs to run them on."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxbench.model.arrays import BoolArray, Float32Array, IntArray
from ctxbench.model.candidates import MARGIN, RANKED, Candidates, Mode, Origin
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Batch, ChunkKind, Message, Query, Request, SessionItem
from ctxbench.model.resources import TextKind
from ctxbench.model.selection import Prompt
from ctxbench.search.embedders import (
    Embedder,
    HashingEmbedder,
    OnDone,
    Vectors,
    VectorStore,
    open_vectors,
    put_vectors,
    text_hash,
)
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter

_LONG = (
    "Invoices are paid within thirty days of the date they bear. A reminder goes out after that, a second one ten "
    "days later, and the third names the court! Is the sum disputed? Then the clock stops until both sides agree. "
) * 4
_SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "labels": {"type": "array", "items": {"type": "string"}}},
    "required": ["title"],
}


def mock_catalog() -> Catalog:
    """Items of every type and include mode: exact duplicates, long and non-English texts, names with colons."""
    tools = [
        Item(type="tool", server=server, name=name, description=text, schema=_SCHEMA)
        for server, name, text in (
            ("tracker", "create_issue", "Open a new issue in a project, with a title and labels."),
            ("backup", "create_issue", "Open a new issue in a project, with a title and labels."),
            ("tracker", "close_issue", "Close an issue that is done."),
            ("tracker", "list_issues", "List the issues of a project, newest first."),
            ("a:b", "c", "A server whose name holds a colon."),
            ("a", "b:c", "A tool whose name holds a colon."),
            ("mail", "send", ""),
        )
    ]
    rules = [
        Item(
            type="rule", name="tone", description="How to write.", text="Be brief. Say what is known.", include="always"
        ),
        Item(type="rule", name="code review", description="What a review looks at.", text="Tests first, then names."),
        Item(type="rule", name="invoices", description="When to pay invoices.", text=_LONG, priority=200),
        Item(type="rule", name="twin", text="Dates are written year first."),
        Item(type="reference", name="twin", text="Dates are written year first."),
        Item(type="rule", name="by hand", text="Only for the release week: no issue is closed.", include="manual"),
        Item(type="rule", name="switched off", text="Open an issue for everything.", enabled=False),
    ]
    references = [
        Item(type="reference", name="invoices", description="Terms of payment.", text=f"{_LONG}\n\n{_LONG}"),
        Item(type="reference", name="Öffnungszeiten", text="Werktags von 9 bis 17 Uhr geöffnet; 土曜日は休みです。"),
        Item(
            type="reference",
            name="🚀 launch/plan",
            text="Step one 🚀.\n \nStep two: e\u0301t\u00e9.\n\n\n\nStep three.",
        ),
        Item(type="reference", name="three", text="one\n\none\n\none"),
    ]
    mixed = [
        Item(type="file", name="src/issue.py", text="class Issue:\n\n    def close(self) -> None: ..."),
        Item(type="chunk", name="src/issue.py#2", text="def close(self) -> None: ..."),
        Item(type="message", name="m1", text="Please close the issue when the invoice is paid.", conversation="c1"),
        Item(type="memory", name="likes tea", text="Prefers tea to coffee."),
    ]
    return Catalog([*tools, *rules, *references, *mixed])


def mock_requests() -> tuple[Request, ...]:
    """Requests over `mock_catalog`: blank ones, scopes down to nothing, sessions, repeats, long and odd texts."""
    twin, tracker = ItemKey("rule", None, "twin"), ItemKey("tool", "tracker", "create_issue")
    backup, hand = ItemKey("tool", "backup", "create_issue"), ItemKey("rule", None, "by hand")
    file, off = ItemKey("file", None, "src/issue.py"), ItemKey("rule", None, "switched off")
    texts = {
        "plain": "Open a new issue with the label bug",
        "again": "Open a new issue with the label bug",
        "sentences": "When are invoices paid? Close the issue! And be brief. Wann ist geöffnet?",
        "empty": "",
        "blank": " \t\n\u00a0 ",
        "marks": "?! ... !",
        "nothing shared": "zzyzx",
        "item text": "create_issue: Open a new issue in a project, with a title and labels.",
        "unicode": "🚀 Step two: été, 土曜日は休みです",
        "half a character": "launch \ud83d",
        "long": _LONG * 3,
    }
    requests = [Request(id=name, text=text) for name, text in texts.items()]
    ask = "Open a new issue. Dates are written year first."
    return (
        *requests,
        Request(id="scope", text=ask, available=(tracker, backup, twin)),
        Request(id="one item", text=ask, available=(backup,)),
        Request(id="nothing available", text=ask, available=()),
        Request(id="empty session", text=ask, session=()),
        Request(id="session", text=ask, session=(SessionItem(tracker), SessionItem(hand), SessionItem(twin, "always"))),
        Request(
            id="conversation",
            text="And close it again",
            history=(Message("user", "Open an issue"), Message("assistant", "Done: number 7.")),
            explicit=(tracker, hand, off),
            recent=(backup, tracker, file),
            uses=((backup, 3), (tracker, 0)),
            tool_results=(("create_issue", '{"number": 7}'),),
            user="ann",
            workspace="one",
            conversation="c1",
            turn=1,
            time="2026-01-31T09:30:00Z",
        ),
    )


def mock_resources() -> LocalResources:
    """Hashing embeddings kept in memory, and a token a started four characters; nothing is read or written."""
    return LocalResources(Vectors(HashingEmbedder(), None), CharsCounter())


def resized(catalog: Catalog, n_items: int) -> Catalog:
    """A part of a catalog, spread over it; or all of it, and items made from its own by mixing the words of two.

    Args:
        catalog: at least one item.
        n_items: of the result. A made item is the same in every larger result.
    """
    n_real = len(catalog)
    if n_items < n_real:
        part = [catalog[index * n_real // n_items] for index in range(n_items)]
        keys = {item.key for item in part}
        linked = (replace(item, links=tuple(link for link in item.links if link.item in keys)) for item in part)
        return Catalog(linked)
    return catalog.extended(_mixed(catalog, index) for index in range(n_real, n_items))


def _mixed(catalog: Catalog, index: int) -> Item:
    """An item of a catalog with about half of its words replaced by those of another, and a name of its own."""
    draw = random.Random(index)  # noqa: S311 - ten times as fast as a generator of NumPy's
    item: Item = draw.choice(catalog)
    donor: Item = draw.choice(catalog)

    def mixed(text: str, words: Sequence[str]) -> str:
        return re.sub(r"\S+", lambda word: draw.choice(words) if words and draw.random() < 0.5 else word[0], text)

    description, text = mixed(item.description, donor.description.split()), mixed(item.text, donor.text.split())
    return replace(item, name=f"{index}-{item.name}", description=description, text=text)


class MixingEmbedder:
    """An embedder whose vectors of unknown texts are mixtures of two known ones: no model is asked.

    Args:
        embedder: whose identity and stored vectors are taken.
        texts: at least one; their vectors are mixed, and stored first where they are not.
    """

    def __init__(self, embedder: Embedder, texts: Sequence[str]) -> None:
        self.identity = embedder.identity
        self._store = getattr(embedder, "store", None) or VectorStore(self.identity)
        self._pool = open_vectors(embedder).get(texts, kind="item")

    def embed(self, texts: Sequence[str], *, kind: TextKind = "query", on_done: OnDone | None = None) -> Float32Array:
        """See `Embedder.embed`."""
        stored, vectors = self._store.look_up(self.identity.stored_texts(texts, kind))
        for row in np.flatnonzero(~stored).tolist():
            pair = np.frombuffer(text_hash(texts[row])[:8], dtype="<u4") % len(self._pool)
            mixture = self._pool[pair].sum(axis=0) + self._pool[0] * np.float32(1e-3)  # opposite ones have a sum of 0
            vectors[row] = mixture / np.linalg.norm(mixture)
        put_vectors(vectors, enumerate(vectors), on_done)
        return vectors


def requests_within(catalog: Catalog, requests: Iterable[Request]) -> tuple[Request, ...]:
    """The requests without the items that the catalog lacks, so that they can be put to any part of a catalog."""

    def present(keys: Iterable[ItemKey]) -> tuple[ItemKey, ...]:
        return tuple(key for key in keys if catalog.find(key) is not None)

    return tuple(
        replace(
            request,
            explicit=present(request.explicit),
            recent=present(request.recent),
            uses=tuple(use for use in request.uses if catalog.find(use[0]) is not None),
            available=None if request.available is None else present(request.available),
            session=None
            if request.session is None
            else tuple(item for item in request.session if catalog.find(item.key) is not None),
        )
        for request in requests
    )


_KEPT_BY_CUTS = ("score", "chunk_rank", "origin", "tier", "mode", "query_chunk", "item_chunk", "via_item")


def query_faults(batch: Batch, query: Query) -> Iterator[str]:
    """What is wrong in the outcome of analysis."""
    n, length = len(query.text), {name: len(getattr(query, name)) for name in ("keywords", "intent", "plan")}
    shape = (len(batch) + 1,)
    are_starts = query.start.shape == shape and query.start[0] == 0 and not np.any(np.diff(query.start) < 0)
    end = int(query.start[-1]) if are_starts else n
    yield from _applicable(
        (
            query.batch.catalog.hash != batch.catalog.hash or query.batch.requests != batch.requests,
            "the query's batch is not the one that was given",
        ),
        (not are_starts, f"start must be CSR starts of shape {shape}, got {query.start.tolist()}"),
        (end != n, f"start ends at {end}, but there are {n} chunks"),
        (
            query.weight.shape != (n,) or not np.all(np.isfinite(query.weight) & (query.weight > 0)),
            f"weight must be {n} finite numbers above 0, got {query.weight.tolist()}",
        ),
        (
            query.kind.shape != (n,) or not np.isin(query.kind, [int(kind) for kind in ChunkKind]).all(),
            f"kind must be {n} values of ChunkKind, got {query.kind.tolist()}",
        ),
        (
            not all(isinstance(text, str) and text for text in query.text),
            "a chunk must be a text that is not empty",
        ),
        *((k != len(batch), f"{name} has {k} entries for {len(batch)} requests") for name, k in length.items()),
    )


def _applicable(*faults: tuple[object, str]) -> Iterator[str]:
    """The messages of the faults that apply."""
    return (message for applies, message in faults if applies)


def table_faults(query: Query, table: Candidates) -> Iterator[str]:
    """What is wrong in a table of candidates, whichever step made it; order and repeats it checks itself."""
    if table.n_requests == len(query.batch):
        yield from _value_faults(query, table)
    else:
        yield f"the table has {table.n_requests} requests, the batch {len(query.batch)}"


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
    infinite = searched & ~np.isfinite(table.score)
    yield from _applicable(
        (
            barred.any(),
            f"an item that the request may not get, or that the session holds, is offered: {_at(table, barred)}",
        ),
        (infinite.any(), f"a score is not finite: {_at(table, infinite)}"),
        (
            table.rules[:1] != (None,) or None in table.rules[1:] or len(set(table.rules)) < len(table.rules),
            f"rules must be None and then distinct rules, got {table.rules}",
        ),
        (
            np.any((table.out < 0) | (table.out >= len(table.rules))),
            f"out must be 0 to {len(table.rules) - 1}, an index into rules",
        ),
        (
            not np.isin(table.mode, [int(mode) for mode in Mode]).all() or np.any(table.origin < 0),
            "mode and origin must be values of Mode and Origin",
        ),
    )
    chunks = np.where(table.via_item < 0, np.diff(query.start)[table.request], np.iinfo(np.int64).max)
    for name, limit in (("query_chunk", chunks), ("chunk_rank", None), ("item_chunk", None), ("via_item", None)):
        values = getattr(table, name)
        if np.any(values < -1) or (limit is not None and np.any(values >= limit)):
            yield f"{name} must be -1 or a place from 0 on, got {np.unique(values).tolist()}"
    yield from (
        f"column {name} has type {column.dtype}, expected float64"
        for name, column in table.columns.items()
        if column.dtype != np.float64
    )


def _at(table: Candidates, rows: BoolArray | IntArray) -> str:
    """A few of the rows, for a message."""
    positions = np.arange(len(table), dtype=np.int64)[rows][:3]
    return ", ".join(
        f"request {table.request[i]} item {table.item[i]} origin {table.origin[i]} score {table.score[i]!r}"
        for i in positions
    )


def retrieve_faults(table: Candidates) -> Iterator[str]:
    """What is wrong in a retriever's table, besides `table_faults`."""
    yield from _applicable(
        (
            np.any((table.origin != Origin.SEARCH) | ~table.ranked),
            "a retriever's rows must have origin SEARCH and its tier; the pipeline adds those of the session",
        ),
        (np.any(table.out != 0) or table.rules != (None,), "a retriever marks nothing out; that is for cuts"),
    )


def refine_faults(
    kind: str, before: Candidates, after: Candidates, *, promotes: bool = False, expands: bool | None = None
) -> Iterator[str]:
    """What a refining step (`rank`, `cut`, `expand` or `pack`) did that its kind may not do.

    A step that `promotes` may choose rows that were out; one that `expands` may add rows. None = as its kind does.
    """
    expands = kind == "expand" if expands is None else expands
    old_rows, new_rows = _rows(before), _rows(after)
    if dropped := old_rows.keys() - new_rows.keys():
        yield f"rows are marked, never dropped; gone are (request, item) {sorted(dropped)[:3]}"
    if (added := sorted(new_rows.keys() - old_rows.keys())) and not expands:
        yield f"only an expand step may add rows, or a pack step that `expands`; added are (request, item) {added[:3]}"
    new = np.array([new_rows[key] for key in added], dtype=np.int64)
    if np.any((after.origin[new] < Origin.EXPANSION) | (after.tier[new] <= RANKED)):
        yield "a row that was added must have an expansion origin, and stand behind what is ranked"
    shared = [key for key in old_rows if key in new_rows]
    old, remaining = (np.array([rows[key] for key in shared], dtype=np.int64) for rows in (old_rows, new_rows))
    if expands:  # it may take over what an earlier rule kept out; all else stays as it was
        stays = before.chosen[old] | (after.origin[remaining] < Origin.EXPANSION)
        old, remaining = old[stays], remaining[stays]
        if np.any(np.diff(remaining) < 0):
            yield "an expand step must keep the order of the rows; add rows with `add_expanded`"
    rules = [(before.rules[before.out[a]], after.rules[after.out[b]]) for a, b in zip(old, remaining, strict=True)]
    changed = [
        name
        for name in (("origin", "mode") if kind == "rank" else _KEPT_BY_CUTS)
        if not np.array_equal(getattr(before, name)[old], getattr(after, name)[remaining], equal_nan=name == "score")
    ]
    lost = sorted(set(before.columns) - set(after.columns))
    yield from _applicable(
        (
            any(a and a != b and not (promotes and not b) for a, b in rules),
            "a row that was out must keep the rule that met it first",
        ),
        (
            kind == "expand" and any(b and not a for a, b in rules),
            "an expand step must not mark a chosen row out",
        ),
        *((True, f"a {kind} step must not change {name}") for name in changed),
        (lost, f"columns are gone: {', '.join(lost)}"),
    )


def _rows(table: Candidates) -> dict[tuple[int, int], int]:
    return {key: row for row, key in enumerate(zip(table.request.tolist(), table.item.tolist(), strict=True))}


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


_SAME_SCORE = 1e-9  # sums over a catalog in another order may differ in the last bits


def differences(label: str, left: Sequence[dict[str, Any]], right: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The first difference between two lists of answers that should be equal to the bit."""
    if len(left) != len(right):
        yield f"{label}: {len(left)} answers, and then {len(right)}"
        return
    for a, b in zip(left, right, strict=True):
        if a != b:
            part = next(key for key in a if a[key] != b[key])
            yield f"{label}: request {a['request']!r} has another answer ({part}): {_first(a[part], b[part])}"
            return


def _first(left: Any, right: Any) -> str:
    """The first entries of two lists that differ, or the two values."""
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        left, right = next((a, b) for a, b in zip(left, right, strict=True) if a != b)
    return f"{left!s:.300} and {right!s:.300}"


def shuffled_faults(label: str, answer: dict[str, Any], shuffled: dict[str, Any]) -> Iterator[str]:
    """Another order of the catalog may change the order of ties, and which of them a limit keeps; nothing else."""
    left, right = _tied(answer["rows"]), _tied(shuffled["rows"])
    if answer["chunks"] != shuffled["chunks"]:
        yield f"{label}: request {answer['request']!r} is analysed otherwise"
    if _led_by_ties(answer["rows"], shuffled["rows"]):
        return
    sizes = [[(len(group), group[0]["rule"] if len(group) == 1 else None) for group in side] for side in (left, right)]
    if sizes[0] != sizes[1]:
        yield f"{label}: request {answer['request']!r} has other items in or out, beyond ties"
        return
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        last = index == len(left) - 1  # a depth may keep others of the last ones, where those are tied
        if not last and {row["item"] for row in a} != {row["item"] for row in b}:
            yield f"{label}: request {answer['request']!r} has other items, beyond ties"
            return
        worst = max(abs(_score(x) - _score(y)) for x, y in zip(a, b, strict=True))
        if worst > _SAME_SCORE:
            yield f"{label}: request {answer['request']!r} has other scores, by up to {worst:.2g}"
            return


def _led_by_ties(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> bool:
    """Whether an expansion found other items only because a limit before it kept others of some that are tied.

    Pass by pass, what was chosen up to there: if the items differ though their scores do not, a limit split a tie. An
    item that stands on both sides up to there must have the same score on both.
    """
    expanded = [row["origin"] for row in (*before, *after) if row["origin"] >= Origin.EXPANSION]
    for origin in range(Origin.SEARCH, max(expanded, default=Origin.SESSION) + 1):
        left, right = ({row["item"]: row for row in rows if row["origin"] == origin} for rows in (before, after))
        shared = left.keys() & right.keys()
        if any(abs(_score(left[item]) - _score(right[item])) > _SAME_SCORE for item in shared):
            return False
        sides = [{item: _score(row) for item, row in side.items() if not row["rule"]} for side in (left, right)]
        if sides[0].keys() != sides[1].keys():
            shared = sides[0].keys() & sides[1].keys()
            alone, other_alone = (sorted(side[item] for item in side.keys() - shared) for side in sides)
            return len(alone) == len(other_alone) and bool(np.allclose(alone, other_alone, rtol=0.0, atol=MARGIN))
    return False


def _score(row: Mapping[str, Any]) -> float:
    score = float.fromhex(row["score"])
    return 0.0 if np.isnan(score) else score


def _tied(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Rows in groups of one tier whose neighbours score within `MARGIN` of each other."""
    groups: list[list[dict[str, Any]]] = []
    for row in rows:
        last = groups[-1][-1] if groups else None
        if not last or last["tier"] != row["tier"] or abs(_score(last) - _score(row)) > MARGIN:
            groups.append([])
        groups[-1].append(row)
    return groups
