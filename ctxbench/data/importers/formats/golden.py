"""Datasets from hand-written evals: a request, the items that it should be offered, and those that it should not.

```
{"query": "refund order 17", "expected": ["refund_order", "rule:refunds"], "forbidden": ["cancel_order"]}
```

An entry of `expected` may be a list: any one of its items is enough. An item is named by its id, or by its name as
agents and logs write it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.errors import suggest
from ctxbench.core.items import Catalog, ItemKey
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label, group_labels, minimal_groups
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.importers.formats.conversion import RENAMED, Conversion, Draft, ImportSettings, refuse_empty
from ctxbench.data.importers.formats.record_files import parse_list, read_records
from ctxbench.io.rows import Row
from ctxbench.sources.name_resolver import AMBIGUOUS, UNKNOWN, NameResolver, Resolved, named

QUERY = ("query", "input", "question", "request", "prompt", "message", "text")
EXPECTED = ("expected", "expected_tools", "expected_items", "must_include", "include", "relevant", "required", "tools")
FORBIDDEN = ("forbidden", "forbidden_tools", "forbidden_items", "must_exclude", "exclude", "not_expected", "irrelevant")
IDS = ("id", "_id", "qid", "query_id")
NOTHING = "queries that need nothing (`expected` is empty)"
UNSAID = "queries without `expected`, kept unlabelled"
PASSED_OVER = "fields that were passed over"
_MARKS = ("|", ";", ",")  # between names in one field of a table
_LABELLING = "As in the file: what a request should be offered is required, what it should not be offered irrelevant."


def import_golden(file: Path | str, catalog: Catalog, *, settings: ImportSettings | None = None) -> Conversion:
    """Make a dataset of a file of hand-written evals over a catalog.

    Args:
        file: as `read_records` reads; each record has a request (one of `QUERY`), what it should be offered (one of
            `EXPECTED`), and may have what it should not (one of `FORBIDDEN`), an id, a `split` and `tags`. In a table a
            list is JSON, or names with `|`, `;` or `,` between them. Other fields are passed over and counted.
        catalog: the items. One is named by its id, by its name or title, or, a tool, as a log writes it.
        settings: names, version, licence.

    Returns:
        A dataset whose queries are wholly labelled: an empty `expected` means that nothing is needed; a query without
        the field is unlabelled.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: records that cannot be read, names that no item or several have, an item that is expected and
            forbidden: all at once, with their lines.
    """
    file = Path(file)
    draft = Draft(settings or ImportSettings(), (NOTHING, UNSAID, PASSED_OVER, RENAMED))
    reader = _EvalReader(catalog, draft)
    for row in read_records(file, draft.faults):
        reader.read(row, f"{file.stem}-{row.line}")
    refuse_empty(draft.queries, file, draft.faults, expected='{"query": text, "expected": [names]} a line')
    return draft.conversion(catalog, form="golden", files=[file], labelling=_LABELLING, where=file)


class _EvalReader:
    """Adds the records of a file to a draft of the dataset."""

    def __init__(self, catalog: Catalog, draft: Draft) -> None:
        self.draft = draft
        self._catalog = catalog
        self._names = NameResolver(catalog)
        self._own_names = group_pairs(
            (name, item.key) for item in catalog for name in {item.name.casefold(), item.title.casefold()}
        )
        self._lines: dict[str, int] = {}

    def _resolve(self, name: str) -> Resolved:
        """The item of an id, of a name as a log writes it, or of any item's own name or title."""
        resolved = self._names.resolve(name)
        keys = self._own_names.get(name.casefold(), []) if resolved.rule == UNKNOWN else []
        if len(keys) == 1:
            return Resolved(name, keys[0], "own name")
        return Resolved(name, None, AMBIGUOUS, tuple(keys)) if keys else resolved

    def read(self, row: Row, default_id: str) -> None:
        """Add the query and the labels of one record; what is wrong becomes a fault of its line."""
        fields = {what: _field(row, names) for what, names in _FIELDS.items()}
        self.draft.ids[PASSED_OVER] += sorted(set(row.data) - {*fields.values(), "split", "tags"})
        text = row.take(fields["query"] or QUERY[0], str, "", required=True)
        query_id = self.draft.query_id(_id(row, fields["id"]) or default_id)
        if self._lines.setdefault(query_id, row.line) != row.line:
            row.fault(f"query {query_id!r} stands twice, first in line {self._lines[query_id]}")
        expected = self._groups(row, fields["expected"])
        forbidden = {key: None for group in self._groups(row, fields["forbidden"]) or [] for key in group}
        for name in sorted({key.id for group in expected or [] for key in group if key in forbidden}):
            row.fault(f"{name} is expected and forbidden; keep one of them")
        groups, _, overlap = minimal_groups(expected or [])
        if overlap:
            row.fault("two lists of alternatives share an item; expected each item in one of them")
        if not groups:
            self.draft.ids[UNSAID if expected is None else NOTHING].append(query_id)
        self.draft.queries.append(
            DatasetQuery(
                request=Request(id=query_id, text=text),
                split=_split(row) or split_of(query_id),
                tags=tuple(_tags(row)),
                needs_nothing=expected is not None and not groups,
            )
        )
        self.draft.labels += group_labels(query_id, groups)
        self.draft.labels += [Label(query_id, key, Grade.IRRELEVANT) for key in forbidden]

    def _groups(self, row: Row, name: str | None) -> list[list[ItemKey]] | None:
        """The items of a field, alternatives together; None where the record has no such field."""
        if name is None or row.data[name] is None:
            return None
        entries = _entries(row.data[name], self._resolve)
        if entries is None:
            row.fault(f"field {name!r} must be a list of items, got {row.data[name]!r:.60}")
            return []
        if [] in entries:
            row.fault(f"field {name!r} holds an empty list of alternatives; leave it out")
        groups = [self._items(row, name, entry if isinstance(entry, list) else [entry]) for entry in entries]
        return [group for group in groups if group]

    def _items(self, row: Row, field_name: str, entries: Sequence[Any]) -> list[ItemKey]:
        keys = []
        for entry in entries:
            try:
                name = named(entry)
            except TypeError:
                row.fault(f"field {field_name!r} names an item by {entry!r:.60}; expected its name or id")
                continue
            resolved = self._resolve(name)
            if resolved.key is not None:
                keys.append(resolved.key)
            elif resolved.rule == AMBIGUOUS:
                several = " or ".join(key.id for key in resolved.candidates[:5])
                row.fault(f"{name!r} in {field_name!r} is the name of several items; write the id: {several}")
            else:
                hint = suggest(name, (item.name for item in self._catalog), listed=False)
                row.fault(f"{name!r} in {field_name!r} is no item of the catalog{hint}")
        return keys


_FIELDS = {"query": QUERY, "expected": EXPECTED, "forbidden": FORBIDDEN, "id": IDS}


def _field(row: Row, names: Sequence[str]) -> str | None:
    """Which of the names a record has; two of them are a fault."""
    fields = [name for name in names if name in row.data]
    if len(fields) > 1:
        row.fault(f"it has {' and '.join(map(repr, fields))}; expected one of them")
    return fields[0] if fields else None


def _id(row: Row, name: str | None) -> str:
    """The id, a text or a whole number; empty if there is none."""
    value = row.data.get(name or "")
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
        row.fault(f"field {name!r} must be a text or a whole number, got {value!r:.60}")
        return ""
    return "" if value is None else str(value)


def _split(row: Row) -> str:
    split = row.take("split", str, "")
    if not re.fullmatch(r"[A-Za-z0-9_-]*", split):
        row.fault(f"field 'split' is {split!r:.40}; expected letters, digits, '-' and '_', such as tuning or test")
    return split


def _entries(value: Any, resolve: Callable[[str], Resolved]) -> list[Any] | None:
    """The entries of a list, as a list or as a text that holds one; None if it is neither."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("["):
            value = parse_list(text)
        elif not text:
            return []
        elif resolve(text).key is not None:
            return [text]
        else:
            mark = next((mark for mark in _MARKS if mark in text), None)
            return [text] if mark is None else [part.strip() for part in text.split(mark) if part.strip()]
    return [value] if isinstance(value, dict) else value if isinstance(value, list) else None


def _tags(row: Row) -> Iterator[str]:
    value = row.data.get("tags")
    entries = [part.strip() for part in value.split(",")] if isinstance(value, str) else row.take("tags", list, [])
    for entry in entries:
        if not isinstance(entry, str):
            row.fault(f"field 'tags' must hold texts, got {entry!r:.40}")
        elif entry:
            yield entry
