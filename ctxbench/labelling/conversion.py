"""Build a dataset from documents, queries and scored pairs.

* The id of a document becomes the name of an item of one type: `MED-10` is `reference:MED-10`. Its title becomes the
  description. The title of a tool becomes its name, if it is unique, and its text the description; in the layout of
  BEIR its server and input schema are kept.
* `train`, `training`, `dev`, `valid` and `validation` become `tuning`; other splits keep their name.
* A single positive score in all files means required (2). Several need a mapping from the user. Scores of 0 and below
  mean irrelevant (0) unless they are mapped.
* A label for a missing document is dropped and counted. If it was required, its query is kept as partly labelled (or
  unlabelled, if nothing else is required), so that no metric counts it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from ctxbench.catalogs.snapshots import read_item
from ctxbench.catalogs.tool_lists import SCHEMA_KEYS, SERVER_KEYS
from ctxbench.datasets.dataset import SPLITS, Dataset, name_fault, name_of_path, split_of
from ctxbench.datasets.layout import ABOUT
from ctxbench.datasets.queries import DatasetQuery, Label, read_query
from ctxbench.io.documents import read_json
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, none_found, raise_faults
from ctxbench.io.files import iter_lines, read_bytes, readable
from ctxbench.io.rows import Row, jsonl_rows
from ctxbench.model.arrays import Grade
from ctxbench.model.items import ITEM_TYPES, Catalog, Item, ItemKey, read_key
from ctxbench.model.requests import Request

EXPORT_KEY = "ctxbench"  # key of `metadata` for fields that the format lacks
EXPORT_FILE = "export.json"  # in an export: file names, the card, and fields that the format lacks
SOURCE = "publisher"  # the `source` of labels that came with the files
PASSED_OVER = "ignored fields"
RENAMED = "percent-encoded query ids"
_TUNING = ("train", "training", "dev", "valid", "validation")
_SHOWN = 3  # ids, or files, that a line lists

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ImportSettings:
    """Settings of the import of a general format.

    Attributes:
        name: the name of the dataset; None = from the folder or file.
        version: the version of the dataset; None = from an export of ctxbench, else 1.
        type: the type of items, one of `ITEM_TYPES`.
        grades: from published scores to 0, 1 or 2; None = the only positive score means 2.
        licence: the licence; None = from an export of ctxbench, else not stated.

    Raises:
        ParameterError: the name, the type or a grade is invalid.
    """

    name: str | None = None
    version: str | None = None
    type: str = "reference"
    grades: Mapping[int, int] | None = None
    licence: str | None = None

    def __post_init__(self) -> None:
        if self.type not in ITEM_TYPES:
            raise ParameterError(f"item type must be one of {', '.join(ITEM_TYPES)}, got {self.type!r}")
        if self.name is not None and (fault := name_fault(self.name)):
            raise ParameterError(fault)
        if unknown_grades := sorted(set((self.grades or {}).values()) - {0, 1, 2}):
            raise ParameterError(f"a grade is 0 irrelevant, 1 helpful or 2 required, got {unknown_grades[0]}")


@dataclass(frozen=True, eq=False, kw_only=True)
class Conversion:
    """A dataset made of files, and the issues of these.

    Attributes:
        dataset: the dataset.
        ids: ids by issue; empty for issues that were not found.
    """

    dataset: Dataset
    ids: Mapping[str, Sequence[str]]

    @property
    def counts(self) -> dict[str, int]:
        """The count of each issue."""
        return {oddity: len(ids) for oddity, ids in self.ids.items()}

    def lines(self) -> list[str]:
        """The issues with counts and some ids, one line each."""
        return _counted(self.ids)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON, without the dataset."""
        return {
            "name": self.dataset.name,
            "version": self.dataset.version,
            "hash": self.dataset.hash,
            "counts": self.dataset.counts,
            "counted": self.counts,
            "listed": {oddity: list(ids) for oddity, ids in self.ids.items() if ids},
        }


def _counted(odd: Mapping[str, Sequence[str]]) -> list[str]:
    return [
        f"{oddity}: {len(ids):,} ({_some(ids, len(ids) if oddity == PASSED_OVER else _SHOWN)})"
        for oddity, ids in odd.items()
        if ids
    ]


@dataclass(frozen=True, kw_only=True)
class ExportedCard:
    """Card and scopes of an exported dataset, from the `export.json` of its folder."""

    card: Mapping[str, Any]
    scopes: Mapping[str, tuple[ItemKey, ...]]

    @classmethod
    def from_folder(cls, folder: Path, faults: list[Fault]) -> ExportedCard | None:
        """Read `export.json` of a folder; None if it is missing, or of a plain export.

        Raises:
            InputError: it is not a JSON object of the expected form.
        """
        path = folder / EXPORT_FILE
        data = read_json(path) if path.is_file() else {"plain": True}
        if isinstance(data, dict) and data.get("plain") is True:
            return None
        card = data.get("dataset") if isinstance(data, dict) else None
        kinds = {"name": str, "version": str, "scopes": dict}
        if not isinstance(card, dict) or any(not isinstance(card.get(n, kind()), kind) for n, kind in kinds.items()):
            raise InputError([Fault("expected an object with 'dataset', as `ctxbench data export` writes it", path, 1)])
        row = Row(card.get("scopes", {}), faults, path, 1)
        return cls(card=card, scopes={name: row.read_list(name, read_key, expected="an item id") for name in row.data})


@dataclass
class Draft:
    """Collects the queries and labels of a dataset while its files are read, with faults and issues.

    Attributes:
        settings: settings of the import.
        odd: the issues to count.
        faults: faults; with any of them there is no dataset.
        queries, labels: of the dataset.
        stated: numbers of labels in the files, by field or file.
        ids: ids by issue.
    """

    settings: ImportSettings
    odd: Sequence[str]
    faults: list[Fault] = field(default_factory=list)
    queries: list[DatasetQuery] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    stated: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.ids: dict[str, list[str]] = {oddity: [] for oddity in self.odd}

    def query_id(self, published: str) -> str:
        """A query id for qrels and runs: blanks are percent-encoded, and counted."""
        name = re.sub(r"\s", lambda match: quote(match[0], safe=""), published)
        if name != published:
            self.ids[RENAMED].append(published)
        return name

    def conversion(
        self,
        catalog: Catalog,
        *,
        form: str,
        files: Sequence[Path],
        labelling: str,
        where: Path,
        export: ExportedCard | None = None,
    ) -> Conversion:
        """Make the dataset.

        Args:
            catalog: the items.
            form: the name of the format, for the card.
            files: the files, for the card.
            labelling: who labelled, and how, for the card.
            where: the folder or file that the dataset is named after.
            export: the `export.json` of the files, whose card is used.

        Raises:
            InputError: all faults at once; or the files have labels, but none could be read.
        """
        if self.stated.total() and not self.faults and not self.labels:
            sources = [f"{name} ({n:,})" for name, n in self.stated.items() if n]
            message = Message("labelling.no-label-read", sources=sources, counts="; ".join(_counted(self.ids)))
            self.faults.append(Fault(message, where))
        raise_faults(self.faults, subject=_some(list(dict.fromkeys(str(fault.path) for fault in self.faults))))
        card: Mapping[str, Any] = {} if export is None else export.card
        about = {name: card[name] for name in ABOUT if name in card} or {
            "licence": "not stated in the files",
            "source": {"format": form, "sha256": {_shown_name(path, files): _sha256(path) for path in files}},
            "labelling": labelling,
            "notes": {"counted": {str(oddity): len(ids) for oddity, ids in self.ids.items()}},
        }
        dataset = Dataset(
            name=self.settings.name or card.get("name") or name_of_path(where, "imported"),
            version=self.settings.version or card.get("version", "1"),
            catalog=catalog,
            queries=tuple(self.queries),
            labels=tuple(self.labels),
            about=about | ({"licence": self.settings.licence} if self.settings.licence else {}),
            scopes={} if export is None else export.scopes,
        )
        return Conversion(dataset=dataset, ids=self.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDocument:
    """A published document; `server` and `schema` are for tools."""

    id: str
    title: str
    text: str
    server: str | None = None
    schema: Mapping[str, Any] | None = None

    def item(self, item_type: str, *, by_title: bool = False) -> Item:
        """The item of the document; with `by_title`, a tool is named by its title."""
        if item_type != "tool":
            return Item(type=item_type, name=self.id, title=self.title, description=self.title, text=self.text)
        title = "" if by_title else self.title
        return Item(
            type="tool",
            server=self.server,
            name=self.title if by_title else self.id,
            title=title,
            description=": ".join(filter(None, (title, self.text))),
            schema=self.schema,
        )


def unique_entries(noun: str, entries: Iterable[tuple[str, Row, T]]) -> dict[str, T]:
    """Entries by id, without entries that have no id; a repeated id is a fault.

    Args:
        noun: the name of an entry in faults.
        entries: the id, the row and the entry.
    """
    unique: dict[str, T] = {}
    lines: dict[str, int] = {}
    for name, row, entry in entries:
        if name in unique:
            row.fault(f"{noun} {name!r} occurs twice, first in line {lines[name]}")
        elif name:
            unique[name], lines[name] = entry, row.line
    return unique


def refuse_empty(entries: Sized, path: Path, faults: list[Fault], *, expected: str) -> None:
    """Add a fault for an empty file, unless there are other faults."""
    if not entries and not faults:
        faults.append(Fault(Message("labelling.file-empty", expected=expected), path))


def split_name(published: str) -> str:
    """The name of a published split in ctxbench."""
    name = published.lower()
    return SPLITS[0] if name in _TUNING else name if name == "test" else published


def grading(scores: Iterable[int], grades: Mapping[int, int] | None, where: Path | str) -> dict[int, int]:
    """The grade (0, 1 or 2) of each score.

    Raises:
        InputError: there are several positive scores without a mapping, or the mapping lacks one.
    """
    n_labels = Counter(scores)
    positive = sorted(score for score in n_labels if score > 0)
    if grades is None:
        if len(positive) > 1:
            counts = [f"{score} ({n_labels[score]:,} labels)" for score in positive[:10]]
            example = ",".join(f"{score}={2 if score == positive[-1] else 1}" for score in positive[:10])
            message = Message("labelling.scores-need-grades", scores=counts, example=example)
            raise InputError([Fault(message, where)])
        return {score: 2 if score > 0 else 0 for score in n_labels}
    if missing := [score for score in positive if score not in grades]:
        score_list = ", ".join(str(score) for score in missing[:10])
        raise InputError([Fault(f"scores {score_list} are not in the mapping of grades (--grades)", where)])
    return {score: grades.get(score, 0) for score in n_labels}


def read_grades(text: str) -> dict[int, int]:
    """Read a mapping of grades, such as `1=1,2=2,3=2`.

    Raises:
        ParameterError: it is not a mapping of grades.
    """
    grades: dict[int, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(-?\d+)\s*=\s*([0-2])\s*", part)
        if match is None or int(match[1]) in grades:
            raise ParameterError(
                f"grades must be score=grade, separated by commas, with grades 0, 1 or 2 and each score once "
                f"(1=1,2=2), got {text!r}"
            )
        grades[int(match[1])] = int(match[2])
    return grades


def _shown_name(path: Path, files: Sequence[Path]) -> str:
    """The name of a file, with its folder if another file has the same name."""
    alike = sum(file.name == path.name for file in files) > 1
    return f"{path.resolve().parent.name}/{path.name}" if alike else path.name


def _sha256(path: Path) -> str:
    return hashlib.sha256(read_bytes(readable(path, repeatedly=True))).hexdigest()


def _some(names: Sequence[str], limit: int = _SHOWN) -> str:
    """The first names, each once."""
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:limit]) + (", ..." if len(unique) > limit else "")


DUPLICATES = "repeated label rows"
NO_QUERY = "labels for missing queries"
NO_DOCUMENT = "labels for missing documents"
PARTLY = "partly labelled queries (missing documents)"
UNLABELLED = "unlabelled queries (no required document)"
NEGATIVE = "labels with negative scores"
SEVERAL = "queries labelled in several splits"
DETAILS = "label details without a label"
ODD = (DUPLICATES, NO_QUERY, NO_DOCUMENT, PARTLY, UNLABELLED, NEGATIVE, SEVERAL, RENAMED, DETAILS)

_IDS = ("_id", "id", "docno", "docid", "doc_id", "qid", "query_id")
_TEXTS = ("text", "contents", "body", "query")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedQuery:
    """A published query; `exported` has the fields that an export of ctxbench adds, None in other files."""

    id: str
    text: str
    row: Row
    exported: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Judgment:
    """One scored pair with published ids and split; the split is empty if the format has none."""

    query: str
    document: str
    score: int
    split: str
    path: Path
    line: int


def read_documents(path: Path, settings: ImportSettings, faults: list[Fault]) -> dict[str, Item]:
    """The items of a corpus in JSON lines or tab-separated lines, by published id.

    JSON lines have an id (`_id`, `id`, `docno`, `docid` or `doc_id`), a `text` (`contents`, `body`) and perhaps a
    `title`; tools may have a server and an input schema. Other fields are ignored. Lines of a `.tsv` file are `id text`
    or `id title text`.

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
    """The item of a document; None if it has no id, or if the exported item cannot be read."""
    exported = _exported(row)
    if exported is None or not document.id:
        return document.item(item_type, by_title=by_title) if document.id else None
    item = read_item(row.nested({"_id": document.id, **exported}))
    if item is not None and item.search_text != document.text:
        row.fault(Message("labelling.export-text-changed", name=document.id, key=EXPORT_KEY))
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
        draft: collects queries, labels and faults.
        items: by published document id, in the order of the corpus.
        queries: as published.
        judgments: as published.
        export: the `export.json` of the files, if they are an export of ctxbench.
        splits: the splits of the labels of a query, by query.
    """

    draft: Draft
    items: Mapping[str, Item]
    queries: Sequence[PublishedQuery]
    judgments: Sequence[Judgment]
    export: ExportedCard | None
    splits: dict[str, set[str]] = field(default_factory=dict)

    def conversion(self, *, form: str, files: Sequence[Path], labelling: str, where: Path) -> Conversion:
        """Make the dataset; see `Draft.conversion`."""
        self._check_match()
        judgments, grades = self._judgments_by_query(), self._grades()
        self.draft.stated.update(judgment.path.name for judgment in self.judgments)
        for published in self.queries:
            self._add(published, judgments[published.id], grades)
        return self.draft.conversion(
            Catalog(self.items.values()), form=form, files=files, labelling=labelling, where=where, export=self.export
        )

    def _check_match(self) -> None:
        """Add a fault if no query, or no document, of the labels is in the files."""
        queries = [query.id for query in self.queries]
        for names, noun, where, expected in (
            ([judgment.query for judgment in self.judgments], "queries", "the file of queries", queries),
            ([judgment.document for judgment in self.judgments], "documents", "the corpus", list(self.items)),
        ):
            if expected and names and not set(names) & set(expected):
                message = none_found(list(dict.fromkeys(names)), f"{noun} that labels name", where, expected)
                self.draft.faults.append(Fault(message, self.judgments[0].path))

    def _judgments_by_query(self) -> dict[str, dict[str, Judgment]]:
        """The judgments by query and document; repeated ones are counted, contradicting ones are faults."""
        ids, by_query = self.draft.ids, {query.id: dict[str, Judgment]() for query in self.queries}
        for judgment in self.judgments:
            query = judgment.query
            if query not in by_query:
                ids[NO_QUERY].append(query)
                continue
            if judgment.split:
                self.splits.setdefault(query, set()).add(judgment.split if self.export else split_name(judgment.split))
            first = by_query[query].setdefault(judgment.document, judgment)
            if first is judgment:
                ids[NEGATIVE] += [query] if judgment.score < 0 else []
            elif first.score == judgment.score:
                ids[DUPLICATES].append(query)
            else:
                pair = {"query": query, "document": judgment.document, "score": judgment.score}
                earlier = {"first": first.score, "file": first.path.name, "line": first.line}
                message = Message("labelling.score-conflict", **pair, **earlier)
                self.draft.faults.append(Fault(message, judgment.path, judgment.line))
        return by_query

    def _grades(self) -> Mapping[int, int]:
        """The grade of each score; empty, with a fault, if the grades are unknown."""
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
        """Add the details of labels from an export; a detail with a grade is a label."""
        for item_id, entry in published.row.nested(published.exported).take("labels", dict, {}).items():
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
    """The lines of a file as rows: JSON lines, or tab-separated lines of `.tsv` and `.txt` files."""
    if path.suffix.lower() not in (".tsv", ".txt"):
        yield from jsonl_rows(path, faults)
        return
    for line, text in iter_lines(path, faults):
        if not text.strip():
            continue
        fields = text.split("\t")
        if 2 <= len(fields) <= 1 + len(columns):
            yield Row(dict(zip(("_id", *columns[-(len(fields) - 1) :]), fields, strict=True)), faults, path, line)
        else:
            expected = "id and " + ", ".join(columns[-1:]) + (f" (or id, {', '.join(columns)})" if columns[1:] else "")
            faults.append(Fault(Message("labelling.tabs", expected=expected, got=len(fields)), path, line))


def _id(row: Row) -> str:
    """The id, a text or a whole number; empty, with a fault, if it is missing."""
    for name in _IDS:
        value = row.data.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is not None:
            return row.take(name, str, "", required=True)
    row.fault(Message("labelling.no-id"))
    return ""


def _text(row: Row) -> str:
    for name in _TEXTS:
        if row.data.get(name) is not None:
            return row.take(name, str, "")
    row.fault(Message("labelling.no-text"))
    return ""


def _exported(row: Row) -> Mapping[str, Any] | None:
    """The fields that an export of ctxbench writes to `metadata`; None in other files."""
    metadata = row.data.get("metadata")
    exported = metadata.get(EXPORT_KEY) if isinstance(metadata, dict) else None
    return exported if isinstance(exported, dict) else None
