"""Make a dataset of documents, queries and scored pairs, as BEIR's and TREC's files hold them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.errors import Fault, InputError, ParameterError, none_found
from ctxbench.core.items import Catalog, Item
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import SPLITS, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label, read_query
from ctxbench.data.importers.formats.conversion import (
    EXPORT_KEY,
    RENAMED,
    SOURCE,
    Conversion,
    Draft,
    ExportedCard,
    ImportSettings,
    PublishedDocument,
    grading,
    refuse_empty,
    split_name,
    unique_entries,
)
from ctxbench.io.files import iter_lines
from ctxbench.io.rows import Row, jsonl_rows, read_key
from ctxbench.sources.catalogs import read_item
from ctxbench.sources.tools import SCHEMA_KEYS, SERVER_KEYS

DUPLICATES = "label rows that repeat another"
NO_QUERY = "labels for queries that are not there"
NO_DOCUMENT = "labels for documents that are not there"
PARTLY = "queries kept as partly labelled, because a required document is not there"
UNLABELLED = "queries without a required document, kept unlabelled"
NEGATIVE = "labels with a score below 0"
SEVERAL = "queries labelled in several splits"
DETAILS = "details of labels that are not among the labels"
ODD = (DUPLICATES, NO_QUERY, NO_DOCUMENT, PARTLY, UNLABELLED, NEGATIVE, SEVERAL, RENAMED, DETAILS)

_IDS = ("_id", "id", "docno", "docid", "doc_id", "qid", "query_id")
_TEXTS = ("text", "contents", "body", "query")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedQuery:
    """A query as published; `exported` are the fields that an export of a dataset adds, None in other files."""

    id: str
    text: str
    row: Row
    exported: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Judgment:
    """One scored pair, ids as published; `split` as published, empty where the format has none."""

    query: str
    document: str
    score: int
    split: str
    path: Path
    line: int


def read_documents(path: Path, settings: ImportSettings, faults: list[Fault]) -> dict[str, Item]:
    """The items of a corpus in JSON lines or tab-separated lines, by published id.

    JSON lines have an id (`_id`, `id`, `docno`, `docid` or `doc_id`), a `text` (`contents`, `body`) and may have a
    `title`; of tools their server and input schema are read, other fields are passed over. Lines of a `.tsv` file are
    `id text` or `id title text`.

    Raises:
        StorageError: the file cannot be read.
    """
    own_faults: list[Fault] = []
    rows = list(_rows(path, own_faults, ("title", "text")))
    documents = [_document(row) for row in rows]
    n_named = Counter((document.server, name) for document in documents for name in {document.title, document.id})
    entries = []
    for row, document in zip(rows, documents, strict=True):
        by_title = bool(document.title) and n_named[document.server, document.title] == 1
        item = _item(row, document, settings.type, by_title=by_title)
        entries += [(document.id, row, item)] if item is not None else []
    items = unique_entries("document", entries)
    faults += sorted(own_faults, key=lambda fault: fault.line)
    refuse_empty(items, path, faults, expected="one document a line")
    return items


def _item(row: Row, document: PublishedDocument, item_type: str, *, by_title: bool) -> Item | None:
    """The item of a document; None if it has no id, or an exported item that cannot be read."""
    exported = _exported(row)
    if exported is None or not document.id:
        return document.item(item_type, by_title=by_title) if document.id else None
    item = read_item(row.nested({"_id": document.id, **exported}))
    if item is not None and item.search_text != document.text:
        row.fault(
            f"field 'text' is another than the export wrote for {document.id!r}; change metadata.{EXPORT_KEY} as "
            "well, or take it out"
        )
    return item


def _document(row: Row) -> PublishedDocument:
    schemas = [row.data[name] for name in ("schema", *SCHEMA_KEYS) if isinstance(row.data.get(name), dict)]
    servers = [row.data[name] for name in SERVER_KEYS if isinstance(row.data.get(name), str)]
    return PublishedDocument(
        id=_id(row),
        title=row.take("title", str, ""),
        text=_text(row),
        server=servers[0] if servers and servers[0] else None,
        schema=schemas[0] if schemas else None,
    )


def read_queries(path: Path, faults: list[Fault]) -> list[PublishedQuery]:
    """The queries of a file in JSON lines (an id and a `text` or `query`) or tab-separated lines (`id text`).

    Raises:
        StorageError: the file cannot be read.
    """
    rows = _rows(path, faults, ("text",))
    published = (PublishedQuery(id=_id(row), text=_text(row), row=row, exported=_exported(row)) for row in rows)
    queries = unique_entries("query", ((query.id, query.row, query) for query in published))
    refuse_empty(queries, path, faults, expected="one query a line")
    return list(queries.values())


@dataclass
class Assembly:
    """Puts documents, queries and judgments together.

    Attributes:
        draft: takes queries, labels and faults.
        items: by published document id, in the order of the corpus.
        queries: as published.
        judgments: as published.
        export: the `export.json` of the files, if they are an export of a dataset.
        splits: the splits whose files label a query, by query.
    """

    draft: Draft
    items: Mapping[str, Item]
    queries: Sequence[PublishedQuery]
    judgments: Sequence[Judgment]
    export: ExportedCard | None
    splits: dict[str, set[str]] = field(default_factory=dict)

    def conversion(self, *, form: str, files: Sequence[Path], labelling: str, where: Path) -> Conversion:
        """Make the dataset; arguments and errors as `Draft.conversion` has them."""
        self._refuse_others()
        judgments, grades = self._judgments_by_query(), self._grades()
        self.draft.stated.update(judgment.path.name for judgment in self.judgments)
        for published in self.queries:
            self._add(published, judgments[published.id], grades)
        return self.draft.conversion(
            Catalog(self.items.values()), form=form, files=files, labelling=labelling, where=where, export=self.export
        )

    def _refuse_others(self) -> None:
        """Note labels none of which is of a query, or of a document, that is there: they are about other files."""
        queries = [query.id for query in self.queries]
        for names, noun, where, expected in (
            ([judgment.query for judgment in self.judgments], "queries", "the file of queries", queries),
            ([judgment.document for judgment in self.judgments], "documents", "the corpus", list(self.items)),
        ):
            if expected and names and not set(names) & set(expected):
                message = none_found(list(dict.fromkeys(names)), f"{noun} that labels name", where, expected)
                self.draft.faults.append(Fault(message, self.judgments[0].path))

    def _judgments_by_query(self) -> dict[str, dict[str, Judgment]]:
        """The judgments by query and document; one that repeats another is counted, one that contradicts it a fault."""
        ids, by_query = self.draft.ids, {query.id: dict[str, Judgment]() for query in self.queries}
        for judgment in self.judgments:
            query = judgment.query
            if query not in by_query:
                ids[NO_QUERY].append(query)
                continue
            if judgment.split:
                split = judgment.split if self.export else split_name(judgment.split)
                self.splits.setdefault(query, set()).add(split)
            first = by_query[query].setdefault(judgment.document, judgment)
            if first is judgment:
                ids[NEGATIVE] += [query] if judgment.score < 0 else []
            elif first.score == judgment.score:
                ids[DUPLICATES].append(query)
            else:
                message = (
                    f"query {query!r} and document {judgment.document!r} have score {judgment.score} here and "
                    f"{first.score} in {first.path.name}, line {first.line}; one of the two is wrong"
                )
                self.draft.faults.append(Fault(message, judgment.path, judgment.line))
        return by_query

    def _grades(self) -> Mapping[int, int]:
        """The grade of each score; none if that is not known, which is a fault."""
        grades = self.draft.settings.grades
        if grades is None and self.export is not None:
            grades = {1: 1, 2: 2}
        files = ", ".join(dict.fromkeys(str(judgment.path) for judgment in self.judgments))
        try:
            return grading((judgment.score for judgment in self.judgments), grades, files)
        except InputError as error:
            self.draft.faults += error.faults
            return {}

    def _add(self, published: PublishedQuery, judgments: Mapping[str, Judgment], grades: Mapping[int, int]) -> None:
        """Add a query with its labels to the draft."""
        ids, query = self.draft.ids, self._query(published)
        labels: dict[str, Label] = {}
        incomplete = False
        for document, judgment in judgments.items():
            grade = grades.get(judgment.score, 0)
            if document in self.items:
                key = self.items[document].key
                labels[key.id] = Label(query.id, key, grade, source=SOURCE if published.exported is None else "")
            else:
                ids[NO_DOCUMENT].append(f"{judgment.query} {document}")
                incomplete = incomplete or grade == Grade.REQUIRED
        self._add_details(published, query.id, labels)
        required = any(label.grade == Grade.REQUIRED for label in labels.values())
        if incomplete and required:
            ids[PARTLY].append(query.id)
            query = replace(query, partly_labelled=True)
        if query.partly_labelled or not (required or query.needs_nothing):
            ids[UNLABELLED].append(query.id)
        self.draft.queries.append(query)
        self.draft.labels += labels.values()

    def _query(self, published: PublishedQuery) -> DatasetQuery:
        query_id = self.draft.query_id(published.id)
        names = self.splits.get(published.id, set())
        if len(names) > 1:
            self.draft.ids[SEVERAL].append(published.id)
        first = next((name for name in (*SPLITS, *sorted(names)) if name in names), "")
        plain = DatasetQuery(request=Request(id=query_id, text=published.text), split=first or split_of(query_id))
        if published.exported is None:
            return plain
        data = {"_id": query_id, "text": published.text, **published.exported}
        data["split"] = first or data.get("split") or plain.split
        data.pop("labels", None)
        return read_query(published.row.nested(data), self.export.scopes if self.export else {}) or plain

    def _add_details(self, published: PublishedQuery, query_id: str, labels: dict[str, Label]) -> None:
        """Add the details of labels that an export adds to the qrels; one with a grade is a separate label."""
        details = published.row.nested(published.exported).take("labels", dict, {})
        for item_id, entry in details.items():
            row = published.row.nested(entry if isinstance(entry, dict) else {"entry": entry})
            row.refuse_unknown(("grade", "via", "alternatives", "source", "quote"))
            grade = row.optional("grade", int)
            if item_id not in labels and grade is None:
                self.draft.ids[DETAILS].append(f"{query_id} {item_id}")
                continue
            try:
                label = labels.get(item_id) or Label(query_id, read_key(item_id), int(grade or 0))
            except ParameterError as error:
                row.fault(str(error))
                continue
            labels[item_id] = replace(
                label,
                via=row.take("via", str, "direct"),
                alternatives=row.take("alternatives", str, ""),
                source=row.take("source", str, ""),
                quote=row.take("quote", str, ""),
            )


def _rows(path: Path, faults: list[Fault], columns: Sequence[str]) -> Iterator[Row]:
    """The lines of a file as rows: JSON lines, or tab-separated if its name ends in `.tsv` or `.txt`."""
    if path.suffix.lower() not in (".tsv", ".txt"):
        yield from jsonl_rows(path, faults)
        return
    for line, text in iter_lines(path, faults):
        if not text.strip():
            continue
        fields = text.split("\t")
        if 2 <= len(fields) <= 1 + len(columns):
            names = ("_id", *columns[-(len(fields) - 1) :])
            yield Row(dict(zip(names, fields, strict=True)), faults, path, line)
        else:
            expected = "id and " + ", ".join(columns[-1:]) + (f" (or id, {', '.join(columns)})" if columns[1:] else "")
            faults.append(Fault(f"expected {expected}, separated by tabs, got {len(fields)} fields", path, line))


def _id(row: Row) -> str:
    """The id, a text or a whole number; a fault and empty if there is none."""
    for name in _IDS:
        value = row.data.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is not None:
            return row.take(name, str, "", required=True)
    row.fault("no id; expected a field '_id'")
    return ""


def _text(row: Row) -> str:
    for name in _TEXTS:
        if row.data.get(name) is not None:
            return row.take(name, str, "")
    row.fault("no text; expected a field 'text' (it may be empty)")
    return ""


def _exported(row: Row) -> Mapping[str, Any] | None:
    """The fields that an export of a dataset keeps in `metadata`; None in other files."""
    metadata = row.data.get("metadata")
    exported = metadata.get(EXPORT_KEY) if isinstance(metadata, dict) else None
    return exported if isinstance(exported, dict) else None
