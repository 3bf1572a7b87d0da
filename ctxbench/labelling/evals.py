"""Datasets from evals: hand-written lists under any names of fields, and the files of evaluation programs.

Hand-written evals:

    {"query": "refund order 17", "expected": ["refund_order", "rule:refunds"], "forbidden": ["cancel_order"]}

An entry of `expected` may be a list of alternatives. Items are named by id, or by a name as in agents and logs; others
than tools also by title, by their path or the end of it. An entry may also say where its item is:

    {"path": "docs/refunds.md", "lines": [10, 20]}
    {"contains": "within five days"}
    {"path_contains": "refund"}

Places that no item or several items have are listed, and their queries are labelled in part.

Files of promptfoo, deepeval and ragas, and trigger evals of skills become such records first; see `eval_forms`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ctxbench.catalogs.instructions import rules_folder
from ctxbench.catalogs.tool_lists import as_option, describes_item
from ctxbench.datasets.dataset import split_of
from ctxbench.datasets.queries import DatasetQuery, Label, group_labels, group_pairs, minimal_groups
from ctxbench.io.errors import Fault, InputError, Message, check_choice, none_found, suggest
from ctxbench.io.rows import Row
from ctxbench.labelling.conversion import PASSED_OVER, RENAMED, Conversion, Draft, ImportSettings, grading, refuse_empty
from ctxbench.labelling.eval_forms import (
    BY_HAND,
    KINDS,
    TRIGGER_FREE,
    UNTRIED,
    EvalRows,
    TriggerEvals,
    is_trigger_eval,
    rows_of_file,
)
from ctxbench.labelling.record_files import (
    AMBIGUOUS,
    EXPECTED,
    FIELDS,
    FORBIDDEN,
    GRADES,
    LABELS,
    MAPPED,
    NAME_KEYS,
    OFFERED,
    OTHERWISE,
    PLACE_KEYS,
    QUERY,
    READ_BESIDE,
    FieldEvidence,
    ItemFinder,
    entries_of,
    field_of,
    has_request,
    is_log,
    is_place,
    label_entries,
    listed_definitions,
    named,
    naming_field,
    offered_fields,
    snake,
    useless_names,
    with_names,
)
from ctxbench.labelling.sources import data_files, sample
from ctxbench.model.arrays import Grade
from ctxbench.model.items import Catalog, ItemKey
from ctxbench.model.requests import Request

__all__ = ["KINDS", "TRIGGER_FREE", "UNTRIED", "import_evals", "import_golden", "import_triggers"]

NOTHING = "queries that need nothing"
UNSAID = "unlabelled queries (no `expected`)"
NONE_REQUIRED = "unlabelled queries (nothing required)"
AVAILABLE = "queries with offered items (`available`)"
NOT_IN_CATALOG = "offered items missing in catalog"
AGAIN = "repeated requests (one group each)"
UNNAMED = Message("labelling.queries-without-id")
NOTED = "notes on files of skills"
NOWHERE = "labels by content that no item has"
SEVERAL_PLACES = "labels by content that several items have"
ISSUES = (
    *(NOTHING, UNSAID, NONE_REQUIRED, AVAILABLE, NOT_IN_CATALOG, NOWHERE, SEVERAL_PLACES, AGAIN, UNNAMED, PASSED_OVER),
    *(RENAMED, TRIGGER_FREE, UNTRIED, BY_HAND, NOTED),
)
_SHOWN = 8  # fields that a message lists
# members of a label that is an object: those of labels, and those of calls
_OF_LABELS = {
    *(*GRADES, *map(snake, NAME_KEYS), *PLACE_KEYS, "server", "server_name"),
    *("function", "type", "arguments", "args", "input", "parameters"),
}


def import_evals(
    files: Sequence[Path],
    catalog: Catalog | None,
    *,
    kind: str | None = None,
    settings: ImportSettings | None = None,
    names: Mapping[str, str] | None = None,
    nothing_else: bool = False,
) -> Conversion:
    """Make a dataset of files of evals.

    Args:
        files: files of the kinds in `KINDS`. A hand-written record has a request (one of `QUERY`), and perhaps expected
            items (one of `EXPECTED`, or of `LABELS` if its values are items), forbidden items (one of `FORBIDDEN`), an
            id (else a unique `name` or `title`), a `split` and `tags`, each also in camelCase. In a table a list is
            JSON, or names separated by `|`, `;` or `,`. Other fields are ignored and counted. A list of definitions
            (with a description or a schema), and `tools` in a record with labels, are offered items: they become
            `available`.
        catalog: the items; None = the rules and skills among the files.
        kind: the name of the kind of all files; None = recognised file by file, `golden` if it is no other.
        settings: names, version, licence, and the grades of labels that are objects with one of `GRADES`.
        names: the names of `query`, `expected`, `forbidden`, `id`, `split` or `tags` in the files, with dots for nested
            fields (`{"query": "input.message", "expected": "relevance.doc_id"}`).
        nothing_else: a request that triggers no skill in its trigger evals needs nothing. Otherwise it needs nothing
            only if all skills have it, else it is unlabelled.

    Returns:
        A dataset with fully labelled queries: an empty `expected` means that nothing is needed. A query without the
        field, or without a required item among graded ones, is unlabelled. Queries with one text are a group.

    Raises:
        ParameterError: `names` has an unknown field.
        StorageError: a file is missing or cannot be read.
        InputError: records are wrong or contradict each other, names are unknown or ambiguous: all faults, with their
            lines; or no record of a file has a request, or fields were ignored and no record has labels, with the
            mapping that the values of the fields suggest; or a file is a log.
    """
    names = dict(names or {})
    for mapped in names:
        check_choice("the field that is mapped", mapped, MAPPED)
    draft = Draft(settings or ImportSettings(), ISSUES)
    where = files[0] if len(files) == 1 else Path(os.path.commonpath([path.absolute().parent for path in files]))
    root = where if catalog is None else None
    if catalog is None:
        catalog, files = _catalog_of(where, files, draft)
    finder = ItemFinder(catalog)
    triggers = TriggerEvals(catalog, draft, root=root, nothing_else=nothing_else)
    parts = [rows_of_file(path, kind, finder, triggers, draft.faults) for path in files]
    parts = [*filter(None, parts), *triggers.rows()]
    reader = _EvalReader(catalog, finder, draft, names)
    evals = [record for part in parts for record in reader.read_part(part)]
    reader.read_scale([label for record in evals for group in record.expected or [] for label in group], where)
    for record in evals:
        reader.add(record)
    reader.put_in_groups()
    order = {path: number for number, path in enumerate(files)}
    draft.faults.sort(key=lambda fault: (order.get(Path(fault.path or ""), 0), fault.line))
    for part in parts:
        reader.check_part(part)
    refuse_empty(draft.queries, where, draft.faults, expected='{"query": text, "expected": [names]}')
    forms = list(dict.fromkeys(part.form for part in parts))
    labelling = str(Message("labelling.card-triggers" if forms == ["trigger evals"] else "labelling.card-golden"))
    return draft.conversion(catalog, form=", ".join(forms), files=files, labelling=labelling, where=where)


def import_golden(
    file: Path | str,
    catalog: Catalog,
    *,
    settings: ImportSettings | None = None,
    names: Mapping[str, str] | None = None,
) -> Conversion:
    """Make a dataset of one file of evals over a catalog; see `import_evals`."""
    return import_evals([Path(file)], catalog, settings=settings, names=names)


def import_triggers(
    folder: Path | str, *, settings: ImportSettings | None = None, nothing_else: bool = False
) -> Conversion:
    """Make a dataset of a folder of skills and their trigger evals, which are found by content; see `import_evals`."""
    files = [
        path
        for path in data_files([Path(folder)])
        if path.name == "SKILL.md" or is_trigger_eval([document.value for document in sample(path)])
    ]
    if not any(path.name != "SKILL.md" for path in files):
        raise InputError([Fault(Message("labelling.no-trigger-file"), folder)])
    return import_evals(files, None, settings=settings, nothing_else=nothing_else)


def _catalog_of(root: Path, files: Sequence[Path], draft: Draft) -> tuple[Catalog, list[Path]]:
    """The rules and skills among files of a folder, and the other files; notes on them are counted."""
    by_path = {path.absolute(): path for path in files}
    parts = rules_folder(root)() if root.is_dir() else []
    draft.ids[NOTED] += [note for part in parts if part.name == "skills" for note in part.notes]
    items = {root.absolute() / str(item.metadata.get("path", item.name)): item for part in parts for item in part.items}
    catalog = Catalog(item for path, item in items.items() if path in by_path)
    if not len(catalog):
        raise InputError([Fault(Message("labelling.no-catalog"), root)])
    return catalog, [path for absolute, path in by_path.items() if absolute not in items and path.name != "SKILL.md"]


@dataclass(frozen=True, slots=True)
class _Labelled:
    """A labelled item with its score, or None."""

    key: ItemKey
    score: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Eval:
    """A record of a file.

    Attributes:
        part: the records of its file.
        row: the record.
        fields: its fields by role.
        default_id: its id if it has none.
        expected, forbidden: groups of alternatives; None if the field is missing.
        offered: offered items by field.
    """

    part: EvalRows
    row: Row
    fields: Mapping[str, str | None]
    default_id: str
    expected: list[list[_Labelled]] | None
    forbidden: list[list[_Labelled]] | None
    offered: Mapping[str, Sequence[ItemKey]]


class _EvalReader:
    """Adds the records of files to the draft of a dataset."""

    def __init__(self, catalog: Catalog, finder: ItemFinder, draft: Draft, names: Mapping[str, str]) -> None:
        self.draft = draft
        self._mapped = names
        self._catalog = catalog
        self._finder = finder
        self._grades: Mapping[int, int] = {}  # by score
        self._by_hand = {item.key for item in catalog if item.include == "manual"}
        self._lines: dict[str, Row] = {}
        self._requests: dict[str, tuple[int, frozenset[frozenset[ItemKey]]]] = {}
        self._rows: list[Row] = []  # of the queries
        self._unplaced: set[int] = set()  # rows with labels whose place is unknown or ambiguous

    def read_part(self, part: EvalRows) -> list[_Eval]:
        """Read the labels and offered items of the records of a file, and add its faults."""
        rows, names, path = part.rows, self._mapped, part.path
        if not names and rows and all(is_log(row.data) for row in rows):
            fields = ", ".join(map(repr, list(rows[0].data)[:5]))
            command = shlex.join(["ctxbench", "data", "import", str(path)])
            raise InputError([Fault(Message("labelling.log-as-eval", fields=fields, command=command), path)])
        if useless := useless_names([row.data for row in rows], names):
            raise InputError([Fault(message, path) for message in useless])
        part.rows = rows = [replace(row, data=with_names(row.data, names)) for row in rows]
        records = [row.data for row in rows]
        part.has_requests = has_request(records)
        offered = {name for record in records for name in offered_fields(record, names) if snake(name) in OFFERED}
        fields = dict.fromkeys(name for record in records for name in record if LABELS.fullmatch(snake(name)))
        items = FieldEvidence.of([{name: r.get(name) for name in fields} for r in records], self._finder.resolve).items
        likely = {name.partition(".")[0] for name in items}
        named_by = naming_field(records)  # used as id if there are no ids
        return [
            self._read(part, row, f"{part.name}-{number}", offered, likely, named_by)
            for number, row in enumerate(rows, start=1)
        ]

    def _read(
        self, part: EvalRows, row: Row, default_id: str, offered_in_file: Collection[str], likely: Collection[str],
        named_by: str | None,
    ) -> _Eval:  # fmt: skip
        """Read the labels and offered items of one record, and add its faults."""
        offered = offered_fields(row.data, self._mapped)
        offered += [name for name in row.data if name in offered_in_file and name not in offered]
        fixed = {*self._mapped, *part.roles}
        fields = {
            role: field_of(row, role, offered=offered, likely=likely if role == "expected" else ())
            for role in FIELDS
            if role not in fixed
        }
        fields |= {role: role if row.data.get(role) is not None else None for role in FIELDS if role in fixed}
        fields["id"] = fields["id"] or named_by
        listed = {name: self._offered(row, name) for name in offered if name not in fields.values()}
        return _Eval(
            part=part,
            row=row,
            fields=fields,
            default_id=default_id,
            expected=self._groups(row, "expected", fields["expected"]),
            forbidden=self._groups(row, "forbidden", fields["forbidden"]),
            offered={name: keys for name, keys in listed.items() if keys or snake(name) in OFFERED},
        )

    def read_scale(self, labels: Iterable[_Labelled], file: Path) -> None:
        """Find the grades of the scores of labels; an unknown scale is a fault of the file."""
        scores = [label.score for label in labels if label.score is not None]
        grades = self.draft.settings.grades
        if negative := sorted({score for score in scores if score < 0} - set(grades or ())):
            example = ",".join(f"{score}=0" for score in negative)
            message = Message("labelling.negative-grades", scores=negative, example=example)
            self.draft.faults.append(Fault(message, file))
            return
        try:
            self._grades = grading(scores, grades, file)
        except InputError as error:
            self.draft.faults += error.faults

    def _offered(self, row: Row, name: str) -> list[ItemKey]:
        """The offered items in a field."""
        entries = listed_definitions(row.data[name]) or label_entries(row.data[name], self._finder.resolve) or []
        resolved = [self._finder.resolve(named(entry)) for entry in entries if _has_name(entry)]
        keys = [match.key for match in resolved if match.key is not None]
        if keys:
            self.draft.ids[NOT_IN_CATALOG] += [match.name for match in resolved if match.key is None]
        elif resolved and snake(name) in OFFERED:
            subject = f"offered items in {name!r}"
            row.fault(none_found([match.name for match in resolved], subject, "the catalog", self._finder.names))
        return keys

    def _available(self, offered: Mapping[str, Sequence[ItemKey]]) -> tuple[ItemKey, ...] | None:
        """The items available to a request: the offered items, and all items of other types."""
        keys = {key for listed in offered.values() for key in listed}
        types = {key.type for key in keys}
        return tuple(item.key for item in self._catalog if item.key in keys or item.type not in types) if keys else None

    def add(self, record: _Eval) -> None:
        """Add the query and the labels of one record, and its faults."""
        row, fields, part = record.row, record.fields, record.part
        consumed = {*fields.values(), *self._mapped.values(), *READ_BESIDE, "vars", *record.offered}
        passed_over = sorted(name for name in set(row.data) - consumed if row.data[name] not in (None, "", [], {}))
        self.draft.ids[PASSED_OVER] += passed_over
        text = self._text(record, fields["query"] or QUERY[0])
        query_id = self._query_id(record)
        groups, graded = self._graded(record)
        available = self._available(record.offered)
        if available is not None:
            self.draft.ids[AVAILABLE].append(query_id)
            self._check_offered(record, groups, available)
        is_partial = id(row) in self._unplaced
        if record.expected is not None and text and not is_partial:
            self._check_repeated(row, text, frozenset(map(frozenset, groups)))
        part.passed_over |= dict.fromkeys(passed_over)
        part.has_labels |= bool(fields["expected"] or fields["forbidden"])
        needs_nothing = record.expected == [] and not is_partial
        if not groups:
            why = NOTHING if needs_nothing else UNSAID if record.expected is None else NONE_REQUIRED
            self.draft.ids[why].append(query_id)
        self.draft.queries.append(
            DatasetQuery(
                request=Request(id=query_id, text=text, available=available),
                split=_split(row),
                tags=tuple(_tags(row)),
                needs_nothing=needs_nothing,
                partly_labelled=is_partial and bool(groups),
            )
        )
        self._rows.append(row)
        self.draft.labels += group_labels(query_id, groups)
        self.draft.labels += [Label(query_id, key, grade) for key, grade in graded.items()]

    def _query_id(self, record: _Eval) -> str:
        """The id of the query of a record; that of another file's query gets the name of its file before it."""
        row, published = record.row, _id(record.row, record.fields["id"])
        query_id = self.draft.query_id(published or record.default_id)
        first = self._lines.get(query_id)
        if first is not None and first.path != row.path:
            query_id = self.draft.query_id(f"{record.part.name}-{published or record.default_id}")
            first = self._lines.get(query_id)
        if first is not None:
            row.fault(Message("labelling.query-twice", name=query_id, line=first.line))
        self._lines.setdefault(query_id, row)
        self.draft.ids[UNNAMED] += [] if published else [query_id]
        return query_id

    def check_part(self, part: EvalRows) -> None:
        """Hint at ignored fields that hold items; a file without requests or labels is a fault.

        The fault has the mapping that the values of the fields suggest.
        """
        records = [row.data for row in part.rows]
        evidence = FieldEvidence.of(records, self._finder.resolve)
        if part.has_labels and part.has_requests:
            for name, keys in evidence.items.items():
                if name.partition(".")[0] in part.passed_over:
                    hint = Message("labelling.ignored-items", name=name)
                    self.draft.ids[hint] = [f"record {number + 1}" for number in keys]
            return
        if part.has_requests and (self.draft.faults or not part.passed_over):
            return
        fields = [*dict.fromkeys(repr(name) for record in records for name in record)]
        labels = evidence.labels() if not part.has_labels else []
        request = evidence.request() if not part.has_requests else ""
        names = {
            **self._mapped,
            **({"query": request} if request else {}),
            **({"expected": labels[0]} if labels else {}),
        }
        option = as_option(names or {"query" if not part.has_requests else "expected": "FIELD"})
        key = "labelling.no-request-field" if not part.has_requests else "labelling.expected-missing"
        if labels:
            key = "labelling.map-choice" if len(labels) > 1 else "labelling.map-labels"
        message = Message(
            key,
            fields=", ".join([*fields[:_SHOWN], "..."][: len(fields)]) or "none",
            labels=" or ".join(map(repr, labels)),
            hint=f"; did you mean {request!r}?" if request else ".",
            missing=" and ".join(
                ["the request"] * (not part.has_requests) + ["expected items"] * (not part.has_labels)
            ),
            option=option,
            command=f"ctxbench data import {shlex.quote(str(part.path))} -c CATALOG --out FOLDER {option}",
            names=(*QUERY, *OTHERWISE["query"]),
            expected=EXPECTED,
            forbidden=FORBIDDEN,
        )
        self.draft.faults.insert(0, Fault(message, part.path))

    def _graded(self, record: _Eval) -> tuple[list[list[ItemKey]], dict[ItemKey, int]]:
        """The required groups of a record, and the grades of its other items; contradictions are faults."""
        required: list[list[ItemKey]] = []
        graded: dict[ItemKey, int] = {}
        for group in record.expected or []:
            grades = [Grade.REQUIRED if label.score is None else self._grades.get(label.score, 0) for label in group]
            if all(grade == Grade.REQUIRED for grade in grades):
                required.append([label.key for label in group])
                continue
            if len(group) > 1:
                record.row.fault(Message("labelling.alternatives-not-required"))
            for label, grade in zip(group, grades, strict=True):
                if graded.setdefault(label.key, grade) != grade:
                    record.row.fault(Message("labelling.grade-conflict", item=label.key.id))
        groups, _, overlap = minimal_groups(required)
        if overlap:
            record.row.fault(Message("labelling.alternatives-overlap"))
        required_keys = {key for group in groups for key in group}
        forbidden = {label.key: label.score for group in record.forbidden or [] for label in group}
        for key, score in forbidden.items():
            if graded.setdefault(key, Grade.IRRELEVANT) != Grade.IRRELEVANT or key in required_keys:
                record.row.fault(Message("labelling.expected-and-forbidden", item=key.id))
            elif score:
                record.row.fault(Message("labelling.forbidden-graded", item=key.id, grade=score))
        for key in sorted((required_keys & set(graded)) - set(forbidden), key=lambda key: key.id):
            record.row.fault(Message("labelling.grade-conflict", item=key.id))
        return groups, graded

    def _check_offered(
        self, record: _Eval, groups: Sequence[Sequence[ItemKey]], available: Collection[ItemKey]
    ) -> None:
        """Add a fault if a required item was not offered."""
        fields = " and ".join(map(repr, record.offered))
        for group in groups:
            if not set(group) & set(available):
                names = " or ".join(key.id for key in group)
                record.row.fault(Message("labelling.expected-not-offered", items=names, fields=fields))

    def _text(self, record: _Eval, name: str) -> str:
        """The text of the request; a missing one is a fault if other records of the file have requests."""
        row = record.row
        theirs = self._mapped.get(name)
        if theirs is not None and row.data.get(name) is None:
            row.fault(Message("labelling.mapped-field-missing", name=theirs, role=name))
            return ""
        return row.take(name, str, "", required=record.part.has_requests)

    def _check_repeated(self, row: Row, text: str, groups: frozenset[frozenset[ItemKey]]) -> None:
        """Add a fault if an earlier record of the same request expects other items."""
        line, before = self._requests.setdefault(text, (row.line, groups))
        if before != groups:
            row.fault(Message("labelling.request-conflict", line=line))

    def put_in_groups(self) -> None:
        """Make groups of queries with one text, and set missing splits."""
        queries = self.draft.queries
        alike = group_pairs((query.request.text.strip(), position) for position, query in enumerate(queries))
        for text, (first, *repeats) in alike.items():
            positions = [first, *repeats] if text else []
            stated = {queries[position].split: position for position in reversed(positions) if queries[position].split}
            if len(stated) > 1:
                first_stated, *others = sorted(stated.values())
                for position in others:
                    splits = {"split": queries[position].split, "first": queries[first_stated].split}
                    line = self._rows[first_stated].line
                    self._rows[position].fault(Message("labelling.request-split-conflict", line=line, **splits))
            group = queries[first].id if text and repeats else None
            for position in [first, *repeats]:
                query = queries[position]
                queries[position] = replace(
                    query, split=query.split or next(iter(stated), "") or split_of(group or query.id), group=group
                )
            lines = [str(self._rows[position].line) for position in positions]
            self.draft.ids[AGAIN] += [f"lines {', '.join(lines[:-1])} and {lines[-1]}"] if group else []

    def _groups(self, row: Row, role: str, name: str | None) -> list[list[_Labelled]] | None:
        """The groups of alternatives in the field of a role; None if it is missing."""
        if name is None or row.data.get(name) is None:
            return None
        if any(map(describes_item, entries_of(row.data[name]))):
            row.fault(Message("labelling.definitions-as-labels", name=name, option=as_option({role: "FIELD"})))
            return [[]]
        entries = label_entries(row.data[name], self._finder.resolve)
        if entries is None:
            row.fault(Message("labelling.field-choice", name=name, choices="a list of items", got=row.data[name]))
            return []
        if [] in entries:
            row.fault(Message("labelling.empty-alternatives", name=name))
        groups: list[list[_Labelled]] = []
        for entry in entries:
            labels = self._items(row, name, entry if isinstance(entry, list) else [entry])
            groups += [labels] if isinstance(entry, list) else [[label] for label in labels]
        if len({label.score is None for group in groups for label in group}) > 1:
            row.fault(Message("labelling.grades-missing", name=name))
        return [group for group in groups if group]

    def _items(self, row: Row, field_name: str, entries: Sequence[Any]) -> list[_Labelled]:
        """The labelled items of entries, without those that are faults or whose place is unknown or ambiguous."""
        labels = []
        for entry in entries:
            try:
                keys = self._placed(row, entry) if is_place(entry) else [self._named(row, field_name, entry)]
            except (TypeError, ValueError):
                row.fault(Message("labelling.item-form", field=field_name, got=entry))
                continue
            score = _score(row, field_name, entry)
            unread = (member for member, _ in _members(entry) if snake(member) not in _OF_LABELS)
            self.draft.ids[PASSED_OVER] += [f"{field_name}.{member}" for member in unread]
            for key in keys:
                if key in self._by_hand:
                    row.fault(Message("labelling.manual-item", name=key.name, field=field_name))
                elif key is not None:
                    labels.append(_Labelled(key, score))
        return labels

    def _named(self, row: Row, field_name: str, entry: Any) -> ItemKey | None:
        """The item of a name or an object with one; None, with a fault, if it is unknown or ambiguous."""
        is_number = type(entry) is int and self._finder.resolve(str(entry)).key is not None
        resolved = self._finder.resolve(str(entry) if is_number else named(entry))
        if resolved.rule == AMBIGUOUS:
            several = " or ".join(key.id for key in resolved.candidates[:5])
            row.fault(Message("labelling.ambiguous-item", name=resolved.name, field=field_name, ids=several))
        elif resolved.key is None:
            hint = suggest(resolved.name, self._finder.names, listed=False)
            row.fault(Message("labelling.unknown-item", name=resolved.name, field=field_name, hint=hint))
        return resolved.key

    def _placed(self, row: Row, entry: Mapping[str, Any]) -> list[ItemKey]:
        """The items at a place; a place that is unknown or ambiguous is counted."""
        keys = self._finder.locate(entry)
        self.draft.stated["labels by content"] += 1
        if len(keys) != 1:
            self._unplaced.add(id(row))
            place = f"{row.path and row.path.name}:{row.line} {next(iter(entry.values()))!s:.40}"
            self.draft.ids[SEVERAL_PLACES if keys else NOWHERE].append(place)
        return keys if len(keys) == 1 else []


def _has_name(entry: Any) -> bool:
    try:
        return bool(named(entry))
    except TypeError:
        return False


def _members(entry: Any) -> Iterator[tuple[str, Any]]:
    """The members of a label that is an object; empty for a name."""
    return iter(entry.items() if isinstance(entry, dict) else ())


def _score(row: Row, field_name: str, entry: Any) -> int | None:
    """The score of a label that is an object; None if it is missing."""
    members = [name for name, value in _members(entry) if snake(name) in GRADES and value is not None]
    if not members:
        return None
    stated = " and ".join(f"{name} {entry[name]!r:.40}" for name in members)
    if len(members) > 1:
        row.fault(Message("labelling.several-grades", field=field_name, members=stated))
    elif isinstance(entry[members[0]], bool) or not isinstance(entry[members[0]], int):
        row.fault(Message("labelling.grade-form", field=field_name, members=stated))
    else:
        return int(entry[members[0]])
    return None


def _id(row: Row, name: str | None) -> str:
    """The id, a text or a whole number; empty if it is missing."""
    value = row.data.get(name or "")
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
        row.fault(Message("labelling.field-choice", name=name, choices="a text or a whole number", got=value))
        return ""
    return "" if value is None else str(value)


def _split(row: Row) -> str:
    split = row.take("split", str, "")
    if not re.fullmatch(r"[A-Za-z0-9_-]*", split):
        row.fault(Message("labelling.split-form", got=split))
    return split


def _tags(row: Row) -> Iterator[str]:
    value = row.data.get("tags")
    entries = [part.strip() for part in value.split(",")] if isinstance(value, str) else row.take("tags", list, [])
    if not all(isinstance(entry, str) for entry in entries):
        row.fault(Message("labelling.field-choice", name="tags", choices="a list of texts", got=value))
    yield from (entry for entry in entries if entry and isinstance(entry, str))
