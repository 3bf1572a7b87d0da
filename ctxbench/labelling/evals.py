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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ctxbench.catalogs.instructions import rules_folder
from ctxbench.catalogs.tool_lists import as_option, describes_item
from ctxbench.datasets.dataset import split_of
from ctxbench.datasets.queries import DatasetQuery, Label, group_labels, group_pairs, minimal_groups
from ctxbench.io.errors import SHOWN, Fault, InputError, Message, check_choice, merge_equal_faults, none_found, suggest
from ctxbench.io.rows import Row
from ctxbench.labelling.conversion import PASSED_OVER, RENAMED, Conversion, Draft, ImportSettings, refuse_empty
from ctxbench.labelling.eval_forms import (
    BY_HAND,
    KINDS,
    TRIGGER_FREE,
    UNTRIED,
    EvalRows,
    TriggerEvals,
    rows_of_file,
)
from ctxbench.labelling.record_files import (
    AMBIGUOUS,
    EXPECTED,
    FIELDS,
    FORBIDDEN,
    GRADES,
    MAPPED,
    NAME_KEYS,
    OFFERED,
    PLACE_KEYS,
    QUERY,
    READ_BESIDE,
    REQUESTS,
    UNKNOWN,
    FieldEvidence,
    FieldRoles,
    ItemFinder,
    JoinedLabels,
    each_request,
    entries_of,
    has_request,
    is_blank,
    is_log,
    is_place,
    label_entries,
    listed_definitions,
    read_id,
    request_of,
    snake,
    useless_names,
    with_names,
)
from ctxbench.model.arrays import Grade
from ctxbench.model.items import Catalog, ItemKey
from ctxbench.model.requests import Message as ChatTurn, Request

__all__ = ["KINDS", "TRIGGER_FREE", "UNTRIED", "import_evals"]

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
IN_CODE = "tests with an assertion that names an item but is not read (`equals: NAME` is)"
ISSUES = (
    *(NOTHING, UNSAID, NONE_REQUIRED, AVAILABLE, NOT_IN_CATALOG, NOWHERE, SEVERAL_PLACES, AGAIN, UNNAMED, PASSED_OVER),
    *(IN_CODE, RENAMED, TRIGGER_FREE, UNTRIED, BY_HAND, NOTED),
)
_SHOWN = 8  # fields that a message lists
_MANY, _EXAMPLES = 5, 3  # unknown names that may be of another catalog, and those that a message lists
_OF_FORMS = {"promptfoo": ("vars", "title")}  # fields that the reader of a form adds
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
    where, root = files[0] if len(files) == 1 else _common_folder(files), None
    if catalog is None:
        root = _common_folder([path for path in files if path.suffix.startswith(".md")] or files)
        catalog, files = _catalog_of(root, files, draft)
    finder = ItemFinder(catalog)
    triggers = TriggerEvals(catalog, draft, root=root, nothing_else=nothing_else)
    read = [rows_of_file(path, kind, finder, triggers, draft.faults, has_names=bool(names)) for path in files]
    listed = {row.path for part in read if part for row in part.rows if row.path != part.path}  # by a configuration
    parts = [*(part for part in read if part and part.path not in listed), *triggers.rows()]
    reader = _EvalReader(catalog, finder, draft, names)
    evals = [record for part in parts for record in reader.read_part(part)]
    reader.read_scale([score for record in evals for group in record.expected or [] for _, score in group], where)
    for record in evals:
        reader.add(record)
    reader.put_in_groups()
    order = {path: number for number, path in enumerate(files)}
    reader.check_catalog(where)
    draft.faults.sort(key=lambda fault: (order.get(Path(fault.path or ""), 0), fault.line))
    draft.faults[:] = merge_equal_faults(draft.faults)
    has_labels = any(part.has_labels for part in parts)
    for part in parts:
        reader.check_part(part, has_labels=has_labels)
    refuse_empty(draft.queries, where, draft.faults, expected='{"query": text, "expected": [names]}')
    forms = list(dict.fromkeys(part.form for part in parts))
    labelling = str(Message("labelling.card-triggers" if forms == ["trigger evals"] else "labelling.card-golden"))
    return draft.conversion(catalog, form=", ".join(forms), files=files, labelling=labelling, where=where)


def _common_folder(files: Sequence[Path]) -> Path:
    return Path(os.path.commonpath([path.absolute().parent for path in files]))


def _catalog_of(root: Path, files: Sequence[Path], draft: Draft) -> tuple[Catalog, list[Path]]:
    """The rules and skills among files of a folder, and the other files; notes on them are counted."""
    by_path = {path.absolute(): path for path in files}
    parts = rules_folder(root)()
    draft.ids[NOTED] += [note for part in parts if part.name == "skills" for note in part.notes]
    items = {root.absolute() / str(item.metadata.get("path", item.name)): item for part in parts for item in part.items}
    catalog = Catalog(item for path, item in items.items() if path in by_path)
    if not len(catalog):
        raise InputError([Fault(Message("labelling.no-catalog"), root)])
    return catalog, [path for absolute, path in by_path.items() if absolute not in items and path.name != "SKILL.md"]


_Groups = list[list[tuple[ItemKey, int | None]]]
"""Groups of alternatives: items with their scores, if they have any."""


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
    expected: _Groups | None
    forbidden: _Groups | None
    offered: Mapping[str, Sequence[ItemKey]]


class _EvalReader:
    """Adds the records of files to the draft of a dataset."""

    def __init__(self, catalog: Catalog, finder: ItemFinder, draft: Draft, names: Mapping[str, str]) -> None:
        self.draft, self._mapped, self._catalog = draft, names, catalog
        self._finder = finder
        self._grades: Mapping[int, int] = {}  # by score
        self._by_hand = {item.key for item in catalog if item.include == "manual"}
        self._lines: dict[str, Row] = {}
        self._requests: dict[tuple[str, tuple[ChatTurn, ...]], tuple[int, frozenset[frozenset[ItemKey]]]] = {}
        self._rows: list[Row] = []  # of the queries
        self._named: dict[str, bool] = {}  # whether the catalog has the items that labels name
        self._unplaced: set[int] = set()  # rows with labels whose place is unknown or ambiguous

    def read_part(self, part: EvalRows) -> list[_Eval]:
        """Read the labels and offered items of the records of a file, and add its faults."""
        rows, names, path = part.rows, self._mapped, part.path
        if not names and rows and all(is_log(row.data) for row in rows):
            listed = list(map(repr, rows[0].data))[:_SHOWN]
            raise InputError([Fault(Message("labelling.unknown-kind", fields=listed), path)])
        if useless := useless_names([row.data for row in rows], names):
            raise InputError([Fault(message, path) for message in useless])
        numbered = [
            (number, replace(row, data=data))
            for number, row in enumerate(rows)
            for data in each_request(with_names(row.data, names))
        ]
        part.rows = rows = [row for _, row in numbered]
        records = [row.data for row in rows]
        part.has_requests = has_request(records)
        part.evidence = FieldEvidence.of(records, self._finder)
        part.fields = FieldRoles.of(records, part.evidence, {*names, *part.roles})
        self._unplaced |= {id(row) for number, row in numbered if number in part.partial}
        if part.form == "promptfoo":
            self.draft.ids[IN_CODE] += [f"{path.name}:{row.line}" for number, row in numbered if number in part.partial]
        evals = [self._read(part, row, f"{part.name}-{number}") for number, row in enumerate(rows, start=1)]
        likely = {*part.fields.likely.get("expected", ())} - {*part.fields.usual["expected"]}
        used = {name for record in evals if (name := record.fields["expected"]) in likely}
        part.rivals = next(filter(None, map(part.evidence.rivals, sorted(used))), [])
        return evals

    def _read(self, part: EvalRows, row: Row, default_id: str) -> _Eval:
        """Read the labels and offered items of one record, and add its faults."""
        fields = {role: part.fields.field(row, role) for role in FIELDS}
        offered = [name for name in row.data if name in part.fields.offered and name not in fields.values()]
        listed = {name: self._offered(row, name) for name in offered if row.data[name] is not None}
        record = _Eval(
            part=part,
            row=row,
            fields=fields,
            default_id=default_id,
            expected=self._groups(row, "expected", fields["expected"]),
            forbidden=self._groups(row, "forbidden", fields["forbidden"]),
            offered={name: keys for name, keys in listed.items() if keys or snake(name) in OFFERED},
        )
        if record.expected == []:
            self._check_empty(record)
        return record

    def _check_empty(self, record: _Eval) -> None:
        """A fault if an empty field says that nothing is needed, and another one has expected items."""
        row, used = record.row, record.fields["expected"] or ""
        names = [name for name in record.part.fields.likely.get("expected", ()) if name in row.data and name != used]
        if filled := [name for name in names if label_entries(row.data[name], self._finder.resolve)]:
            options = {"joined": f"{used}+{filled[0]}", "used": used}
            options = {key: as_option({"expected": value}) for key, value in options.items()}
            row.fault(Message("labelling.expected-elsewhere", name=used, filled=filled[0], **options))

    def read_scale(self, stated: Iterable[int | None], file: Path) -> None:
        """Find the grades of the scores of labels; an unknown scale is a fault of the file."""
        scores = [score for score in stated if score is not None]
        if negative := sorted({score for score in scores if score < 0} - set(self.draft.settings.grades or ())):
            message = Message("labelling.negative-grades", scores=negative, example=f"{negative[0]}=0")
            self.draft.faults.append(Fault(message, file))
        self._grades = self.draft.grading(scores, file)

    def _offered(self, row: Row, name: str) -> list[ItemKey]:
        """The offered items in a field."""
        entries = listed_definitions(row.data[name]) or label_entries(row.data[name], self._finder.resolve) or []
        resolved = [match for entry in entries if (match := self._finder.find(entry))]
        if keys := [match.key for match in resolved if match.key is not None]:
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
        consumed = {
            *fields.values(),
            *self._mapped.values(),
            *READ_BESIDE,
            *_OF_FORMS.get(part.form, ()),
            *record.offered,
        }
        passed_over = sorted(name for name in set(row.data) - consumed if row.data[name] not in (None, "", [], {}))
        self.draft.ids[PASSED_OVER] += passed_over
        text, history = self._request(record, fields["query"] or QUERY[0])
        query_id = self._query_id(record)
        groups, graded = self._graded(record)
        available = self._available(record.offered)
        self.draft.ids[AVAILABLE] += [] if available is None else [query_id]
        for group in [] if available is None else groups:
            if not set(group) & set(available or ()):
                items, fields_of_offered = " or ".join(key.id for key in group), " and ".join(map(repr, record.offered))
                row.fault(Message("labelling.expected-not-offered", items=items, fields=fields_of_offered))
        is_partial = id(row) in self._unplaced
        if record.expected is not None and text and not is_partial:
            expected = frozenset(map(frozenset, groups))
            line, before = self._requests.setdefault((text, history), (row.line, expected))
            if before != expected:
                row.fault(Message("labelling.request-conflict", line=line))
        part.passed_over |= dict.fromkeys(passed_over)
        part.has_labels |= bool(fields["expected"] or fields["forbidden"])
        needs_nothing = record.expected == [] and not is_partial
        if not groups:
            why = NOTHING if needs_nothing else UNSAID if record.expected is None else NONE_REQUIRED
            self.draft.ids[why].append(query_id)
        self.draft.queries.append(
            DatasetQuery(
                request=Request(id=query_id, text=text, history=history, available=available),
                split=_split(row),
                tags=_tags(row),
                needs_nothing=needs_nothing,
                partly_labelled=is_partial and bool(groups),
            )
        )
        self._rows.append(row)
        self.draft.labels += [
            *group_labels(query_id, groups),
            *(Label(query_id, key, grade) for key, grade in graded.items()),
        ]

    def _query_id(self, record: _Eval) -> str:
        """The id of the query of a record; that of another file's query gets the name of its file before it."""
        row, published = record.row, read_id(record.row, record.fields["id"])
        name = published or record.default_id
        for candidate in (name, f"{record.part.name}-{name}"):
            first = self._lines.setdefault(query_id := self.draft.query_id(candidate), row)
            if first is row or first.path == row.path:
                break
        if first is not row:
            row.fault(Message("labelling.query-twice", name=query_id, line=first.line))
        self.draft.ids[UNNAMED] += [] if published else [query_id]
        return query_id

    def check_catalog(self, file: Path) -> None:
        """One fault where most names of several are unknown, in place of one for each if all are."""
        unknown = [name for name, is_known in self._named.items() if not is_known]
        if len(unknown) < _MANY or 2 * len(unknown) <= len(self._named):
            return
        if len(unknown) == len(self._named):
            faults, unknown_item = self.draft.faults, "labelling.unknown-item"
            faults[:] = [fault for fault in faults if getattr(fault.message, "key", "") != unknown_item]
        about = {"names": unknown[:_EXAMPLES], "existing": self._finder.names[:_EXAMPLES] or ["nothing"]}
        message = Message("labelling.wrong-catalog", unknown=len(unknown), n=len(self._named), **about)
        self.draft.faults.insert(0, Fault(message, file))

    def check_part(self, part: EvalRows, *, has_labels: bool) -> None:
        """Hint at ignored fields that hold items; a file without requests is a fault, and so are files without labels.

        The fault has the mapping that the values of the fields suggest.

        Args:
            part: the records of a file.
            has_labels: whether any of the files has labels.
        """
        evidence = part.evidence
        if has_labels and part.has_requests and not part.rivals:
            for name, keys in evidence.items.items():
                if name.partition(".")[0] in part.passed_over:
                    used = self._mapped.get("expected") or next(iter(part.fields.usual["expected"]), "")
                    option = as_option({"expected": f"{used}+{name}" if used else name})
                    hint = Message("labelling.ignored-items", name=name, option=option)
                    self.draft.ids[hint] = [f"record {number + 1}" for number in keys]
            return
        if part.has_requests and (self.draft.faults or not part.passed_over) and not part.rivals:
            return
        fields = [*dict.fromkeys(repr(name) for row in part.rows for name in row.data)]
        labels = [name for name in evidence.labels() if name not in part.fields.offered and not part.has_labels]
        labels = [*part.rivals] or labels
        request = evidence.request() if not part.has_requests else ""
        is_even = bool(part.rivals) or len({len(evidence.items[name]) for name in labels[:2]}) < len(labels[:2])
        expected = "FIELD" if is_even else "".join(labels[:1])
        likely = {"query": request, "expected": expected, "forbidden": labels and evidence.forbidden()}
        names = {**self._mapped, **{role: name for role, name in likely.items() if name}}
        names = names or {"expected" if part.has_requests else "query": "FIELD"}
        option = shlex.join(as_option(names).split(" ", 1))
        key = "labelling.expected-missing" if part.has_requests else "labelling.no-request-field"
        key = "labelling.map-choice" if len(labels) > 1 else "labelling.map-labels" if labels else key
        message = Message(
            key,
            fields=", ".join([*fields[:_SHOWN], "..."][: len(fields)]) or "none",
            labels=" or ".join(map(repr, labels)),
            hint=f"; did you mean {request!r}?" if request else ".",
            missing="expected items" if part.has_requests else "the request and expected items",
            option=option,
            command=f"{self.draft.settings.command} {option}",
            names=REQUESTS,
            expected=EXPECTED,
            forbidden=FORBIDDEN,
        )
        self.draft.faults.insert(0, Fault(message, part.path))

    def _graded(self, record: _Eval) -> tuple[list[list[ItemKey]], dict[ItemKey, int]]:
        """The required groups of a record, and the grades of its other items; contradictions are faults."""
        row, required, pairs = record.row, list[list[ItemKey]](), list[tuple[ItemKey, int]]()
        for group in record.expected or []:
            grades = {Grade.REQUIRED if score is None else self._grades.get(score, 0) for _, score in group}
            if grades == {Grade.REQUIRED}:
                required.append([key for key, _ in group])
            elif len(group) > 1:
                row.fault(Message("labelling.alternatives-not-required"))
            else:
                pairs += [(key, grade) for key, _ in group for grade in grades]
        groups, _, overlap = minimal_groups(required)
        if overlap:
            row.fault(Message("labelling.alternatives-overlap"))
        forbidden = {key: score or 0 for group in record.forbidden or [] for key, score in group}
        expected = ((key, int(Grade.REQUIRED)) for group in groups for key in group)
        stated = [*expected, *pairs, *forbidden.items(), *((key, 0) for key in forbidden)]
        for key, grades_of_key in group_pairs(stated).items():
            if len(set(grades_of_key)) > 1:
                conflict = "labelling.expected-and-forbidden" if key in forbidden else "labelling.grade-conflict"
                row.fault(Message(conflict, item=key.id))
        return groups, {**dict(pairs), **dict.fromkeys(forbidden, Grade.IRRELEVANT)}

    def _request(self, record: _Eval, name: str) -> tuple[str, tuple[ChatTurn, ...]]:
        """The request and the messages before it; a missing one is a fault if other records of the file have them."""
        text, history = request_of(record.row.data.get(name))
        theirs = self._mapped.get(name, name)
        request_row = replace(record.row, data={theirs: text})
        return request_row.take(theirs, str, "", required=record.part.has_requests), history

    def put_in_groups(self) -> None:
        """Make groups of queries with one text, and set missing splits."""
        queries = self.draft.queries
        alike = group_pairs((query.request.text.strip() or query.id, n) for n, query in enumerate(queries))
        for first, *repeats in alike.values():
            positions, group = [first, *repeats], queries[first].id if repeats else None
            stated = next((n for n in positions if queries[n].split), first)
            split = queries[stated].split or split_of(queries[first].id)
            for n in positions:
                if queries[n].split not in ("", split):
                    splits = {"line": self._rows[stated].line, "split": queries[n].split, "first": split}
                    self._rows[n].fault(Message("labelling.request-split-conflict", **splits))
                queries[n] = replace(queries[n], split=queries[n].split or split, group=group)
            *lines, last = [str(self._rows[n].line) for n in positions]
            self.draft.ids[AGAIN] += [f"lines {', '.join(lines)} and {last}"] if group else []

    def _groups(self, row: Row, role: str, name: str | None) -> _Groups | None:
        """The groups of alternatives in the field of a role, or in those joined; None if it is missing or blank."""
        if name is not None and isinstance(joined := row.data.get(name), JoinedLabels):
            parts = [self._groups(replace(row, data=joined), role, field) for field in joined]
            filled = [groups for groups in parts if groups is not None]
            return [group for groups in filled for group in groups] if filled else None
        if name is None or is_blank(row.data.get(name)):
            return None
        if any(map(describes_item, entries_of(row.data[name]))):
            row.fault(Message("labelling.definitions-as-labels", name=name, option=as_option({role: "FIELD"})))
            return [[]]
        if (entries := label_entries(row.data[name], self._finder.resolve)) is None:
            row.fault(Message("labelling.field-choice", name=name, choices="a list of items", got=row.data[name]))
            return []
        if [] in entries:
            row.fault(Message("labelling.empty-alternatives", name=name))
        lists = [entry if isinstance(entry, list) else [entry] for entry in entries]
        items = [[(self._item(row, name, label), label) for label in labels] for labels in lists]
        groups = [[(key, _score(row, name, label)) for key, label in pairs if key] for pairs in items]
        members = (member for labels in lists for label in labels if isinstance(label, dict) for member in label)
        self.draft.ids[PASSED_OVER] += [f"{name}.{member}" for member in members if snake(member) not in _OF_LABELS]
        if len({score is None for group in groups for _, score in group}) > 1:
            row.fault(Message("labelling.grades-missing", name=name))
        return [group for group in groups if group]

    def _item(self, row: Row, field_name: str, label: Any) -> ItemKey | None:
        """The item of a label; None if it is a fault, or a place that is counted as unknown or ambiguous."""
        if (resolved := self._finder.find(label)) is None:
            row.fault(Message("labelling.item-form", field=field_name, got=label))
            return None
        name, values = resolved.name, {"name": resolved.name, "field": field_name}
        self.draft.stated["labels by content"] += is_place(label)
        if not is_place(label):
            self._named[name] = resolved.rule != UNKNOWN
        if resolved.key in self._by_hand:
            row.fault(Message("labelling.manual-item", **values))
            return None
        if resolved.key is None and is_place(label):
            self._unplaced.add(id(row))
            location = f"{row.path and row.path.name}:{row.line} {name:.40}"
            several = " or ".join(key.id for key in resolved.candidates[:5])
            self.draft.ids[SEVERAL_PLACES if several else NOWHERE].append(
                f"{location}: {several}" if several else location
            )
        elif resolved.rule == AMBIGUOUS:
            several = " or ".join(key.id for key in resolved.candidates[:5])
            row.fault(Message("labelling.ambiguous-item", ids=several, **values))
        elif resolved.key is None:
            hint = suggest(name, self._finder.names, listed=False) if len(self.draft.faults) < SHOWN else ""
            row.fault(Message("labelling.unknown-item", hint=hint, **values))
        return resolved.key


def _score(row: Row, field_name: str, label: Any) -> int | None:
    """The score of a label that is an object; None if it is missing, or a fault."""
    members = label.items() if isinstance(label, dict) else ()
    grades = [(name, value) for name, value in members if snake(name) in GRADES and value is not None]
    if len(grades) == 1 and type(grades[0][1]) is int:
        return grades[0][1]
    if grades:
        stated = " and ".join(f"{name} {value!r:.40}" for name, value in grades)
        row.fault(Message("labelling.grade-form", field=field_name, members=stated))
    return None


def _split(row: Row) -> str:
    split = row.take("split", str, "")
    if not re.fullmatch(r"[A-Za-z0-9_-]*", split):
        row.fault(Message("labelling.split-form", got=split))
    return split


def _tags(row: Row) -> tuple[str, ...]:
    value = row.data.get("tags")
    entries = value.split(",") if isinstance(value, str) else row.take("tags", list, [])
    if not all(isinstance(entry, str) for entry in entries):
        row.fault(Message("labelling.field-choice", name="tags", choices="a list of texts", got=value))
    return tuple(entry.strip() for entry in entries if isinstance(entry, str) and entry.strip())
