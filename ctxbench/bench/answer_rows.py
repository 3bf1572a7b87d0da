"""Answers and metrics of a run as rows that people and other programs read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from ctxbench.bench.slices import Slice, continuing
from ctxbench.bench.stored_answers import StoredAnswers
from ctxbench.core.arrays import BoolArray, FloatArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.items import Catalog
from ctxbench.core.selection import offered_at
from ctxbench.io.json_files import dump_json

_MANY = 20  # so many equal items in catalog order are written as first and last in `selections.jsonl`


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """The answers of one selector on one dataset, and their metrics.

    Attributes:
        dataset, selector: names.
        key: hash of everything that decides the answers.
        answers: for every query, at once or by blocks.
        metrics: values by query, by metric name in the order asked; NaN where a metric does not apply.
        unavailable: why a metric could not be computed, by its name.
        notes: what the selector says of this run, for example how many repeats differed.
        forbidden: to how many queries an item was added that their labels call irrelevant, by its id.
        values_key: hash of what else decides the values: metrics, token counts, code.
        made_by: versions and commit that the part was made by; a run may reuse parts of an earlier one.
    """

    dataset: str
    selector: str
    key: str
    answers: Slice | StoredAnswers
    metrics: Mapping[str, FloatArray]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    forbidden: Mapping[str, int] = field(default_factory=dict)
    values_key: str = ""
    made_by: Mapping[str, Any] = field(default_factory=dict)


def write_selections(part: Part, catalog: Catalog, stream: BinaryIO) -> None:
    """Write what each query was offered, with scores and rules, one JSON line per query."""
    for answers in part.answers.blocks():
        alike = continuing(answers.candidates)
        for index, query in enumerate(answers.queries):
            row = {
                "query": query,
                "error": answers.errors.get(query),
                "trace": [note.as_dict() for note in answers.candidates.notes_of(query)] or None,
                "items": list(_offered(catalog, answers.candidates, index, alike)),
            }
            row = {name: value for name, value in row.items() if value is not None}
            stream.write(f"{dump_json(row)}\n".encode())


def _offered(catalog: Catalog, table: Candidates, index: int, alike: BoolArray) -> Iterator[dict[str, Any]]:
    """What a query was offered; of many items that follow each other in the catalog, the first and last id."""
    span = table.rows(index)
    rows = np.flatnonzero(table.chosen[span]) + span.start
    if np.count_nonzero(alike[rows]) < _MANY - 1:
        yield from (item.as_dict() for item in offered_at(catalog, table, rows))
        return
    first = np.flatnonzero(~alike[rows])
    ends = np.append(first[1:], len(rows))
    long = ends - first >= _MANY
    mask = np.ones(len(rows), dtype=np.bool_)
    for begin, end in zip(first[long].tolist(), ends[long].tolist(), strict=True):
        mask[begin + 1 : end] = False
    lengths = dict(zip(first[long].tolist(), (ends - first)[long].tolist(), strict=True))
    for at, item in zip(np.flatnonzero(mask).tolist(), offered_at(catalog, table, rows[mask]), strict=True):
        row = item.as_dict()
        if at in lengths:
            last = catalog.ids[int(table.item[rows[at]]) + lengths[at] - 1]
            row = {"id": row.pop("id"), "to": last, "items": lengths[at], **row}
        yield row


def write_metrics(part: Part, _catalog: Catalog, stream: BinaryIO) -> None:
    """Write the values of all metrics, one JSON line per query."""
    columns = {name: values.tolist() for name, values in part.metrics.items()}
    for index, query in enumerate(part.answers.queries):
        values = {name: None if math.isnan(v[index]) else v[index] for name, v in columns.items()}
        stream.write(f"{dump_json({'query': query, 'values': values})}\n".encode())
