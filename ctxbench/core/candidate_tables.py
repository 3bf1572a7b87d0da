"""Tables of candidates put together: those of parts of a batch, of several sources, and of several batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import FloatArray, IntArray, firsts, owners, starts
from ctxbench.core.candidates import ROW_ARRAYS, Candidates, Mode, Origin, in_order, starts_by_request
from ctxbench.core.errors import SelectorError
from ctxbench.core.requests import Batch


def concatenated(tables: Sequence[Candidates]) -> Candidates:
    """Put the rows of several tables over the same requests into one, in the one order.

    The rules of all are kept; a column that a table lacks is NaN in its rows. No item may stand in two tables
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
    """Outer join by (request, item): a column a source holds its scores, NaN where it did not find the item.

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
    """Row arrays and columns of several tables, one behind the other, and the rules and notes of all.

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
    """Put the requests of several tables one behind the other; their rules are joined, their columns must agree."""
    arrays, columns, shared = _appended(tables)
    lengths = [np.diff(table.start) for table in tables]
    start = starts(np.concatenate([np.empty(0, dtype=np.int64), *lengths]))
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
    """Put values into columns in some rows, by request and item; other rows keep theirs, NaN where there is none.

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
