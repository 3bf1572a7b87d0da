"""Counts offered items that are not needed, by group, for each group of required items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctxbench.bench.answer_rows import Part
from ctxbench.bench.metrics import Grade
from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.candidates import Origin
from ctxbench.core.errors import ParameterError, UnknownNameError
from ctxbench.core.items import Catalog
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.report.label_codes import LabelCodes

GROUPINGS = ("server", "type")
"""How items are grouped."""
NO_SERVER = "(no server)"
_MOST = 20  # groups; of more, the smallest are merged into one


@dataclass(frozen=True, eq=False, kw_only=True)
class Confusion:
    """Groups of required items (rows) against groups of the other items that were offered (columns).

    Attributes:
        by: one of `GROUPINGS`.
        required: names of the rows.
        queries: how many queries need an item of the group, one a row.
        extras: names of the columns: all groups, of which the rows are the first.
        counts: items offered that are neither required nor helpful, shape (len(required), len(extras)).
    """

    by: str
    required: tuple[str, ...]
    queries: tuple[int, ...]
    extras: tuple[str, ...]
    counts: IntArray

    @property
    def shares(self) -> FloatArray:
        """The counts as shares of their row, shape as `counts`; NaN in a row without any."""
        total = self.counts.sum(axis=1, keepdims=True).astype(np.float64)
        shares: FloatArray = np.divide(self.counts, total, out=np.full(self.counts.shape, np.nan), where=total > 0)
        return shares


def confusion(dataset: Dataset, part: Part, by: str) -> Confusion:
    """Count what was offered beyond what was needed.

    Counted is each item that the selector added to a query (what its session held is not) and that the query's labels
    call neither required nor helpful. It counts in the row of every group that the query requires an item of;
    alternatives are all required. Queries that need nothing are left out, and groups that are neither needed nor
    offered. Of more than 20 groups the 19 that most queries need (then those most offered) are told, and the others
    together as one.

    Args:
        dataset: as it was run; queries whose required items are not all known are not counted.
        part: the answers of the selector.
        by: `server` or `type`; items without a server are a group of their own.

    Raises:
        UnknownNameError: `by` is neither.
        ParameterError: no query needs an item.
    """
    names, group = _groups(dataset.catalog, by)
    labels, n = LabelCodes.of(dataset).of_complete(), len(names)
    required = labels.with_grade(Grade.REQUIRED)
    needs = np.unique(required // labels.n_items * n + group[required % labels.n_items])
    if not len(needs):
        raise ParameterError(f"no query of dataset {dataset.name!r} needs an item")
    code, count = _extras(part, labels, group, n)
    met = np.isin(code // n, needs // n)
    code, count = code[met], count[met]
    n_requiring = np.bincount(needs % n, minlength=n)
    offered = np.bincount(code % n, weights=count, minlength=n)
    order = sorted(
        np.flatnonzero(n_requiring + offered).tolist(), key=lambda index: (-n_requiring[index], -offered[index])
    )
    listed = order if len(order) <= _MOST else order[: _MOST - 1]
    titles = [names[index] for index in listed] + (
        [f"{len(order) - len(listed)} others"] if len(order) > len(listed) else []
    )
    row_of_group = np.full(n, len(listed), dtype=np.int64)
    row_of_group[listed] = np.arange(len(listed))
    return _counted(by, titles, _placed(needs, row_of_group, n), _placed(code, row_of_group, n), count)


def _groups(catalog: Catalog, by: str) -> tuple[list[str], IntArray]:
    """The names of all groups, and the position of each item's group among them, shape (n_items,)."""
    if by not in GROUPINGS:
        raise UnknownNameError("grouping", by, GROUPINGS)
    group_names = [item.type if by == "type" else item.server or NO_SERVER for item in catalog]
    names = list(dict.fromkeys(group_names))
    at = {name: position for position, name in enumerate(names)}
    return names, np.array([at[name] for name in group_names], dtype=np.int64)


def _extras(part: Part, labels: LabelCodes, group: IntArray, n_groups: int) -> tuple[IntArray, FloatArray]:
    """What was added that is not needed: codes `query * n_groups + group`, each once, and how many items."""
    codes, counts, first = [np.zeros(0, dtype=np.int64)], [np.zeros(0)], 0
    useful = labels.with_grade(Grade.HELPFUL, Grade.REQUIRED)
    for block in part.answers.blocks():
        table = block.candidates
        query = table.request + first
        first += table.n_requests
        extra = table.chosen & (table.origin != Origin.SESSION)
        extra &= ~np.isin(query * labels.n_items + table.item, useful)
        code, count = np.unique(query[extra] * n_groups + group[table.item[extra]], return_counts=True)
        codes.append(code)
        counts.append(count.astype(np.float64))
    return np.concatenate(codes), np.concatenate(counts)


def _placed(code: IntArray, row_of_group: IntArray, n_groups: int) -> tuple[IntArray, IntArray]:
    """The query of each code, and the row of its group in the table."""
    return code // n_groups, row_of_group[code % n_groups]


def _counted(
    by: str,
    titles: list[str],
    needs: tuple[IntArray, IntArray],
    extras: tuple[IntArray, IntArray],
    count: FloatArray,
) -> Confusion:
    """The table of counts; a query that requires several of the merged groups counts there once."""
    n = len(titles)
    required = np.unique(needs[0] * n + needs[1])
    queries = np.bincount(required % n, minlength=n)
    counts = np.zeros((n, n), dtype=np.int64)
    start = np.searchsorted(required // n, extras[0], "left")
    end = np.searchsorted(required // n, extras[0], "right")
    for items, column, first, last in zip(
        count.tolist(), extras[1].tolist(), start.tolist(), end.tolist(), strict=True
    ):
        counts[required[first:last] % n, column] += int(items)
    rows = np.flatnonzero(queries)
    return Confusion(
        by=by,
        required=tuple(titles[row] for row in rows),
        queries=tuple(queries[rows].tolist()),
        extras=tuple(titles),
        counts=counts[rows],
    )
