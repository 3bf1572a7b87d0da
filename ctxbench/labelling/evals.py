"""Datasets from hand-written evals and from trigger evals of skills.

Hand-written evals:

    {"query": "refund order 17", "expected": ["refund_order", "rule:refunds"], "forbidden": ["cancel_order"]}

An entry of `expected` may be a list of alternatives. Items are named by id, or by a name as in agents and logs; rules
also by their file, with or without its ending.

Trigger evals of skills:

    skills/pdf/SKILL.md
    skills/pdf/evals/trigger_eval.json      [{"query": "Merge these two PDFs", "should_trigger": true}, ...]

A file belongs to the skill of its folder, or of the next folder above with a skill. An entry may have an `id` and a
`split`. A text in the files of several skills is one query.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ctxbench.catalogs.instructions import LEFT_OUT, rules_folder
from ctxbench.catalogs.tool_lists import as_option, describes_item
from ctxbench.datasets.dataset import split_of
from ctxbench.datasets.queries import DatasetQuery, Label, group_labels, group_pairs, minimal_groups
from ctxbench.io.documents import entry_lines, parse_json
from ctxbench.io.errors import Fault, InputError, Message, check_choice, none_found, suggest
from ctxbench.io.files import read_text
from ctxbench.io.rows import Row
from ctxbench.labelling.conversion import PASSED_OVER, RENAMED, Conversion, Draft, ImportSettings, grading, refuse_empty
from ctxbench.labelling.record_files import (
    AMBIGUOUS,
    EXPECTED,
    FIELDS,
    FORBIDDEN,
    GRADES,
    MAPPED,
    NAME_KEYS,
    OFFERED,
    QUERY,
    READ_BESIDE,
    UNKNOWN,
    NameResolver,
    Resolved,
    entries_of,
    field_of,
    is_log,
    likely_role,
    listed_definitions,
    named,
    naming_field,
    offered_fields,
    parse_list,
    read_records,
    snake,
    useless_names,
    with_names,
    without_request,
)
from ctxbench.model.arrays import Grade
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Request

NOTHING = "queries that need nothing"
UNSAID = "unlabelled queries (no `expected`)"
NONE_REQUIRED = "unlabelled queries (nothing required)"
AVAILABLE = "queries with offered items (`available`)"
NOT_IN_CATALOG = "offered items missing in catalog"
AGAIN = "repeated requests (one group each)"
UNNAMED = Message("labelling.queries-without-id")
# members of a label that is an object: those of labels, and those of calls
_OF_LABELS = {
    *(*GRADES, *map(snake, NAME_KEYS), "server", "server_name"),
    *("function", "type", "arguments", "args", "input", "parameters"),
}
_MARKS = ("|", ";", ",")  # between names in one field of a table


def import_golden(
    file: Path | str,
    catalog: Catalog,
    *,
    settings: ImportSettings | None = None,
    names: Mapping[str, str] | None = None,
) -> Conversion:
    """Make a dataset of a file of hand-written evals over a catalog.

    Args:
        file: a file for `read_records`. Each record has a request (one of `QUERY`), and perhaps expected items (one of
            `EXPECTED`), forbidden items (one of `FORBIDDEN`), an id (else a unique `name` or `title`), a `split` and
            `tags`, each also in camelCase. In a table a list is JSON, or names separated by `|`, `;` or `,`. Other
            fields are ignored and counted, with a hint for names close to `EXPECTED` and `FORBIDDEN`. A list of
            definitions (with a description or a schema), and `tools` in a record with labels, are offered items: they
            become `available`.
        catalog: the items. They are named by id, name or title, tools also as in logs, and files also by file name,
            with or without its ending.
        settings: names, version, licence, and the grades of labels that are objects with one of `GRADES`.
        names: the names of `query`, `expected`, `forbidden`, `id`, `split` or `tags` in the file, with dots for nested
            fields (`{"query": "input.message", "expected": "relevance.doc_id"}`).

    Returns:
        A dataset with fully labelled queries: an empty `expected` means that nothing is needed. A query without the
        field, or without a required item among graded ones, is unlabelled. Queries with one text are a group.

    Raises:
        ParameterError: `names` has an unknown field.
        StorageError: the file is missing or cannot be read.
        InputError: records are wrong or contradict each other, names are unknown or ambiguous: all faults, with their
            lines; or no record has a request; or fields were ignored, and no record has labels; or it is a log.
    """
    file, names = Path(file), dict(names or {})
    for mapped in names:
        check_choice("the field that is mapped", mapped, MAPPED)
    odd = (NOTHING, UNSAID, NONE_REQUIRED, AVAILABLE, NOT_IN_CATALOG, AGAIN, UNNAMED, PASSED_OVER, RENAMED)
    draft = Draft(settings or ImportSettings(), odd)
    rows = list(read_records(file, draft.faults))
    if not names and rows and all(is_log(row.data) for row in rows):
        fields = ", ".join(map(repr, list(rows[0].data)[:5]))
        command = shlex.join(["ctxbench", "data", "import", "traces", str(file)])
        raise InputError([Fault(Message("labelling.log-as-eval", fields=fields, command=command), file)])
    if useless := useless_names([row.data for row in rows], names):
        raise InputError([Fault(message, file) for message in useless])
    rows = [replace(row, data=with_names(row.data, names)) for row in rows]
    records = [row.data for row in rows]
    unknown = without_request(records)
    reader = _EvalReader(catalog, draft, records, mapped=names, has_requests=not unknown)
    evals = [reader.read(row) for row in rows]
    reader.read_scale([label for record in evals for group in record.expected or [] for label in group], file)
    for number, record in enumerate(evals, start=1):
        reader.add(record, f"{file.stem}-{number}")
    reader.put_in_groups()
    draft.faults.sort(key=lambda fault: fault.line)
    draft.ids |= reader.hints
    _check_expected(reader, file)
    if unknown:
        draft.faults.insert(0, Fault(unknown, file))
    refuse_empty(draft.queries, file, draft.faults, expected='{"query": text, "expected": [names]}')
    labelling = str(Message("labelling.card-golden"))
    return draft.conversion(catalog, form="golden", files=[file], labelling=labelling, where=file)


def _check_expected(reader: _EvalReader, file: Path) -> None:
    """Add a fault if no record has expected items, and an ignored field may have them."""
    ignored = dict.fromkeys(reader.draft.ids[PASSED_OVER])
    if not ignored or not reader.says_nothing or reader.draft.faults:
        return
    message = Message(
        "labelling.expected-missing",
        fields=", ".join(map(repr, ignored)),
        hints="".join(f"; {hint}" for hint in reader.hints),
        expected=EXPECTED,
        forbidden=FORBIDDEN,
        option=as_option({"expected": next(iter(ignored))}),
    )
    reader.draft.faults.append(Fault(message, file))


def _file_names(item: Item) -> list[str]:
    """The names of the file of an item, with and without ending and type; empty for a tool."""
    file = item.name.rpartition("/")[2]
    if item.type == "tool" or file == item.name:
        return []
    return [f"{kind}{name}" for name in {file, file.partition(".")[0]} for kind in ("", f"{item.type}:")]


def _by_name(pairs: Iterable[tuple[str, ItemKey]]) -> dict[str, list[ItemKey]]:
    """The items by name, ignoring case."""
    return {name: list(dict.fromkeys(keys)) for name, keys in group_pairs((n.casefold(), k) for n, k in pairs).items()}


@dataclass(frozen=True, slots=True)
class _Labelled:
    """A labelled item with its score, or None."""

    key: ItemKey
    score: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Eval:
    """A record of the file.

    Attributes:
        row: the record.
        fields: its fields by role.
        expected, forbidden: groups of alternatives; None if the field is missing.
        offered: offered items by field.
    """

    row: Row
    fields: Mapping[str, str | None]
    expected: list[list[_Labelled]] | None
    forbidden: list[list[_Labelled]] | None
    offered: Mapping[str, Sequence[ItemKey]]


class _EvalReader:
    """Adds the records of a file to the draft of a dataset."""

    def __init__(
        self,
        catalog: Catalog,
        draft: Draft,
        records: Sequence[Mapping[str, Any]],
        *,
        mapped: Mapping[str, str],
        has_requests: bool,
    ) -> None:
        self.draft = draft
        self._named_by = naming_field(records)  # used as id if there are no ids
        self._mapped = mapped  # fields that were renamed by `with_names`
        listing = {name for record in records for name in offered_fields(record, mapped)}
        self._offered_in_file = {name for name in listing if snake(name) in OFFERED}  # offered items in any record
        self._has_requests = has_requests  # else the file has one fault for all records
        self.hints: dict[str, list[str]] = {}  # ids of queries by hint
        self.says_nothing = True  # no record has labels
        self._catalog = catalog
        self._grades: Mapping[int, int] = {}  # by score
        self._names = NameResolver(catalog)
        self._by_hand = {item.key for item in catalog if item.include == "manual"}
        names = [(name, item.key) for item in catalog for name in (item.name, item.title) if name]
        files = [(name, item.key) for item in catalog for name in _file_names(item)]
        self._own, self._files = (_by_name(pairs) for pairs in (names, files))
        self._known = [name for name, _ in (*names, *files)]
        self._lines: dict[str, int] = {}
        self._asked: dict[str, tuple[int, frozenset[frozenset[ItemKey]]]] = {}
        self._rows: list[Row] = []  # of the queries

    def _resolve(self, name: str) -> Resolved:
        """The item of an id, a name as in logs, a name, a title, or a file name."""
        resolved = self._names.resolve(name)
        if resolved.rule != UNKNOWN:
            return resolved
        keys = self._own.get(name.casefold()) or self._files.get(name.casefold()) or []
        if len(keys) == 1:
            return Resolved(name, keys[0], "own name")
        return Resolved(name, None, AMBIGUOUS, tuple(keys)) if keys else resolved

    def read(self, row: Row) -> _Eval:
        """Read the labels and offered items of one record, and add its faults."""
        offered = offered_fields(row.data, self._mapped)
        offered += [name for name in row.data if name in self._offered_in_file and name not in offered]
        fields = {role: None if role in self._mapped else field_of(row, role, offered=offered) for role in FIELDS}
        fields |= {role: role for role in FIELDS if role in self._mapped and row.data.get(role) is not None}
        fields["id"] = fields["id"] or self._named_by
        listed = {name: self._offered(row, name) for name in offered if name not in fields.values()}
        return _Eval(
            row=row,
            fields=fields,
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
        entries = listed_definitions(row.data[name]) or _entries(row.data[name], self._resolve) or []
        resolved = [self._resolve(named(entry)) for entry in entries if _has_name(entry)]
        keys = [match.key for match in resolved if match.key is not None]
        if keys:
            self.draft.ids[NOT_IN_CATALOG] += [match.name for match in resolved if match.key is None]
        elif resolved and snake(name) in OFFERED:
            subject = f"offered items in {name!r}"
            row.fault(none_found([match.name for match in resolved], subject, "the catalog", self._known))
        return keys

    def _available(self, offered: Mapping[str, Sequence[ItemKey]]) -> tuple[ItemKey, ...] | None:
        """The items available to a request: the offered items, and all items of other types."""
        keys = {key for listed in offered.values() for key in listed}
        types = {key.type for key in keys}
        return tuple(item.key for item in self._catalog if item.key in keys or item.type not in types) if keys else None

    def add(self, record: _Eval, default_id: str) -> None:
        """Add the query and the labels of one record, and its faults."""
        row, fields = record.row, record.fields
        passed_over = sorted(set(row.data) - {*fields.values(), *self._mapped.values(), *READ_BESIDE, *record.offered})
        self.draft.ids[PASSED_OVER] += passed_over
        text = self._text(row, fields["query"] or QUERY[0])
        own_id = _id(row, fields["id"])
        query_id = self.draft.query_id(own_id or default_id)
        if not own_id:
            self.draft.ids[UNNAMED].append(query_id)
        if query_id in self._lines:
            row.fault(Message("labelling.query-twice", name=query_id, line=self._lines[query_id]))
        self._lines.setdefault(query_id, row.line)
        groups, graded = self._graded(record)
        available = self._available(record.offered)
        if available is not None:
            self.draft.ids[AVAILABLE].append(query_id)
            self._check_offered(record, groups, available)
        if record.expected is not None and text:
            self._check_repeated(row, text, frozenset(map(frozenset, groups)))
        for name in passed_over:
            if likely := likely_role(name, row.data[name], fields, self._mapped):
                hint = Message("labelling.field-for-role", close=likely[1], role=likely[0], name=name)
                self.hints.setdefault(hint, []).append(query_id)
        self.says_nothing &= fields["expected"] is None and fields["forbidden"] is None
        needs_nothing = record.expected == []
        if not groups:
            why = NOTHING if needs_nothing else UNSAID if record.expected is None else NONE_REQUIRED
            self.draft.ids[why].append(query_id)
        self.draft.queries.append(
            DatasetQuery(
                request=Request(id=query_id, text=text, available=available),
                split=_split(row),
                tags=tuple(_tags(row)),
                needs_nothing=needs_nothing,
            )
        )
        self._rows.append(row)
        self.draft.labels += group_labels(query_id, groups)
        self.draft.labels += [Label(query_id, key, grade) for key, grade in graded.items()]

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

    def _text(self, row: Row, name: str) -> str:
        """The text of the request; a missing one is a fault if other records have requests."""
        theirs = self._mapped.get(name)
        if theirs is not None and row.data.get(name) is None:
            row.fault(Message("labelling.mapped-field-missing", name=theirs, role=name))
            return ""
        return row.take(name, str, "", required=self._has_requests)

    def _check_repeated(self, row: Row, text: str, groups: frozenset[frozenset[ItemKey]]) -> None:
        """Add a fault if an earlier record of the same request expects other items."""
        line, before = self._asked.setdefault(text, (row.line, groups))
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
        entries = _entries(row.data[name], self._resolve)
        if entries is None:
            row.fault(Message("labelling.field-choice", name=name, choices="a list of items", got=row.data[name]))
            return []
        if [] in entries:
            row.fault(Message("labelling.empty-alternatives", name=name))
        groups = [self._items(row, name, entry if isinstance(entry, list) else [entry]) for entry in entries]
        if len({label.score is None for group in groups for label in group}) > 1:
            row.fault(Message("labelling.grades-missing", name=name))
        return [group for group in groups if group]

    def _items(self, row: Row, field_name: str, entries: Sequence[Any]) -> list[_Labelled]:
        labels = []
        for entry in entries:
            try:
                name = named(entry)
            except TypeError:
                row.fault(Message("labelling.item-form", field=field_name, got=entry))
                continue
            score = _score(row, field_name, entry)
            unread = (member for member, _ in _members(entry) if snake(member) not in _OF_LABELS)
            self.draft.ids[PASSED_OVER] += [f"{field_name}.{member}" for member in unread]
            resolved = self._resolve(name)
            if resolved.key in self._by_hand:
                row.fault(Message("labelling.manual-item", name=name, field=field_name))
            elif resolved.key is not None:
                labels.append(_Labelled(resolved.key, score))
            elif resolved.rule == AMBIGUOUS:
                several = " or ".join(key.id for key in resolved.candidates[:5])
                row.fault(Message("labelling.ambiguous-item", name=name, field=field_name, ids=several))
            else:
                hint = suggest(name, self._known, listed=False)
                row.fault(Message("labelling.unknown-item", name=name, field=field_name, hint=hint))
        return labels


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


def _entries(value: Any, resolve: Callable[[str], Resolved]) -> list[Any] | None:
    """The entries of a list, or of a text with a list; None for other values."""
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
    if not all(isinstance(entry, str) for entry in entries):
        row.fault(Message("labelling.field-choice", name="tags", choices="a list of texts", got=value))
    yield from (entry for entry in entries if entry and isinstance(entry, str))


NAMES = ("trigger*eval*.json", "eval*trigger*.json")
TRIGGER_FREE = "unlabelled queries (no skill triggered)"
NOTED = "notes on files of skills"
UNTRIED = "skills without trigger evals"
_FIELDS = {"query", "should_trigger", "id", "split"}


@dataclass
class _Request:
    """One text of the files, from its first entry.

    Attributes:
        id: the id of the query.
        split: the split of the entry, or empty.
        entry: the number and file of the entry.
        triggers: by skill, whether the text should trigger it, and the entry.
    """

    id: str
    split: str
    entry: str
    triggers: dict[ItemKey, tuple[bool, str]] = field(default_factory=dict)


def import_triggers(
    folder: Path | str, *, settings: ImportSettings | None = None, nothing_else: bool = False
) -> Conversion:
    """Make a dataset of a folder of skills and their trigger evals.

    Args:
        folder: a folder with `SKILL.md` files, and files named like `trigger_eval.json`.
        settings: names, version, licence.
        nothing_else: a request that triggers no skill in its files needs nothing. Otherwise it needs nothing only if
            the files of all skills have it, else it is unlabelled.

    Raises:
        StorageError: the folder or a file cannot be read.
        InputError: there is no skill, no file, a file without a skill, or wrong entries: all faults.
    """
    folder = Path(folder)
    draft = Draft(settings or ImportSettings(), (TRIGGER_FREE, UNTRIED, NOTED))
    catalog = _skills(folder, draft)
    if not len(catalog):
        raise InputError([Fault("no SKILL.md in it; expected a folder of skills with their trigger evals", folder)])
    files = sorted(_files(folder))
    if not files:
        draft.faults.append(Fault(Message("labelling.no-trigger-file", names=" or ".join(NAMES)), folder))
    requests: dict[str, _Request] = {}
    by_folder = {(folder / str(item.metadata["path"])).parent: item for item in catalog}
    for path in files:
        skill = next((by_folder[parent] for parent in path.parents if parent in by_folder), None)
        if skill is None:
            draft.faults.append(Fault(Message("labelling.no-skill"), path))
        else:
            _read_file(path, skill, requests, draft.faults)
    if not requests and not draft.faults:
        draft.faults.append(Fault(Message("labelling.trigger-empty"), folder))
    tried = {key for request in requests.values() for key in request.triggers}
    draft.ids[UNTRIED] += [item.id for item in catalog if item.key not in tried]
    for text, request in requests.items():
        query_id, triggers = request.id, request.triggers
        is_required = any(triggered for triggered, _ in triggers.values())
        nothing = not is_required and (nothing_else or len(triggers) == len(catalog))
        draft.ids[TRIGGER_FREE] += [] if is_required or nothing else [query_id]
        split = request.split or split_of(query_id)
        draft.queries.append(DatasetQuery(request=Request(id=query_id, text=text), split=split, needs_nothing=nothing))
        draft.labels += [Label(query_id, key, 2 if triggered else 0) for key, (triggered, _) in triggers.items()]
    labelling = str(Message("labelling.card-triggers"))
    return draft.conversion(catalog, form="trigger evals", files=files, labelling=labelling, where=folder)


def _skills(folder: Path, draft: Draft) -> Catalog:
    """The skills of a folder; notes on their files are counted."""
    parts = [part for part in rules_folder(folder)() if part.name == "skills"]
    draft.ids[NOTED] += [note for part in parts for note in part.notes]
    return Catalog(item for part in parts for item in part.items if item.type == "skill")


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        yield from (Path(parent) / name for name in names if any(fnmatch(name.lower(), form) for form in NAMES))


def _read_file(path: Path, skill: Item, requests: dict[str, _Request], faults: list[Fault]) -> None:
    """Add the entries of the file of a skill to the requests by text."""
    try:
        source = read_text(path)
        entries = parse_json(source, path=path)
    except InputError as error:
        faults += error.faults
        return
    if not isinstance(entries, list):
        faults.append(Fault(Message("labelling.trigger-list", got=type(entries).__name__), path))
        return
    lines, wrong, entry_faults = entry_lines(source), dict[tuple[str, str], list[int]](), list[Fault]()
    query_ids = {request.id for request in requests.values()}
    for number, entry in enumerate(entries, start=1):
        if fault := _entry_fault(entry):
            wrong.setdefault(fault, []).append(number)
            continue
        text, triggered, entry_name = entry["query"].strip(), entry["should_trigger"], f"entry {number} of {path}"
        split = entry.get("split") or ""
        if text not in requests:
            query_id = _query_id(entry.get("id"), skill, number, query_ids)
            query_ids.add(query_id)
            requests[text] = _Request(query_id, split, entry_name)
        request = requests[text]
        if split and request.split and split != request.split:
            splits = {"split": split, "first": request.entry, "first_split": request.split}
            message = Message("labelling.trigger-split-conflict", entry=number, **splits)
            entry_faults.append(Fault(message, path, lines[(number - 1,)]))
            continue
        first_triggered, first_place = request.triggers.setdefault(skill.key, (triggered, entry_name))
        if first_triggered != triggered:
            answers = {"triggered": str(triggered).lower(), "first": first_place}
            message = Message("labelling.trigger-conflict", entry=number, **answers)
            entry_faults.append(Fault(message, path, lines[(number - 1,)]))
    for (got, hint), numbers in reversed(wrong.items()):
        more = f"; {len(numbers) - 1:,} more like this" if numbers[1:] else ""
        message = Message("labelling.trigger-entry", entry=numbers[0], got=got, hint=hint, more=more)
        entry_faults.insert(0, Fault(message, path, lines[(numbers[0] - 1,)]))
    faults += sorted(entry_faults, key=lambda fault: fault.line)


def _entry_fault(entry: Any) -> tuple[str, str] | None:
    """The wrong part of an entry and a hint; None if nothing is wrong."""
    if not isinstance(entry, dict):
        return f"{entry!r:.40}", ""
    unknown = sorted(set(entry) - _FIELDS)
    hint = suggest(unknown[0], _FIELDS, listed=False).removesuffix("?") if unknown else ""
    query, query_id, split = entry.get("query"), entry.get("id", "x"), str(entry.get("split", ""))
    is_wrong = {
        "query": not isinstance(query, str) or not query.strip(),
        "should_trigger": not isinstance(entry.get("should_trigger"), bool),
        "id": not isinstance(query_id, str) or not query_id.strip().isprintable(),
        "split": re.fullmatch(r"[A-Za-z0-9_-]*", split) is None,
    }
    first = next((name for name, fault in is_wrong.items() if fault), "")
    wrong = f"{first} {entry[first]!r:.40}" if first in entry else first and f"no {first}"
    if unknown and (hint or not wrong):
        return f"unknown fields {', '.join(map(repr, unknown))}", hint
    return (wrong, "") if wrong else None


def _query_id(entry_id: str | None, skill: Item, number: int, query_ids: set[str]) -> str:
    """A unique id without blanks."""
    name = re.sub(r"\s+", "-", (entry_id or "").strip() or f"{skill.name}-{number}")
    names = itertools.chain([name], (f"{name}-{n}" for n in itertools.count(2)))
    return next(candidate for candidate in names if candidate not in query_ids)
