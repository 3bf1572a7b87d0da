"""Documents, queries and scored pairs of a general format, put together as a dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.errors import Fault, InputError, ParameterError
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import SPLITS, Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.datasets.query_rows import read_query
from ctxbench.data.importers.formats.conversion import (
    EXPORT,
    OURS,
    RENAMED,
    SOURCE,
    Converted,
    Document,
    Settings,
    Tally,
    about,
    dataset_name,
    grading,
    item_of,
    split_name,
)
from ctxbench.io.files import iter_lines
from ctxbench.io.json_files import iter_jsonl, read_json
from ctxbench.io.rows import Row, read_key
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
COUNTED = (DUPLICATES, NO_QUERY, NO_DOCUMENT, PARTLY, UNLABELLED, NEGATIVE, SEVERAL, RENAMED, DETAILS)

_IDS = ("_id", "id", "docno", "docid", "doc_id", "qid", "query_id")
_TEXTS = ("text", "contents", "body", "query")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedQuery:
    """A query as published; `ours` is what an export of ours kept beside it, `place` where it stands."""

    id: str
    text: str
    place: tuple[Path, int]
    ours: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Judgment:
    """One scored pair, ids as published; `split` as published, empty where the format has none."""

    query: str
    document: str
    score: int
    split: str
    path: Path
    line: int


@dataclass(frozen=True, kw_only=True)
class Export:
    """What an export of ours says of itself: its card, and the scopes of the dataset."""

    card: Mapping[str, Any]
    scopes: Mapping[str, tuple[ItemKey, ...]]

    @classmethod
    def beside(cls, folder: Path, faults: list[Fault]) -> Export | None:
        """Read `export.json` of a folder; None if it has none, or one of a plain export, which says nothing more.

        Raises:
            InputError: it is no JSON object of the expected form.
        """
        path = folder / EXPORT
        if not path.is_file():
            return None
        data = read_json(path)
        if isinstance(data, dict) and data.get("plain") is True:
            return None
        card = data.get("dataset") if isinstance(data, dict) else None
        wanted = {"name": str, "version": str, "scopes": dict}
        if not isinstance(card, dict) or any(not isinstance(card.get(n, kind()), kind) for n, kind in wanted.items()):
            raise InputError([Fault("expected an object with 'dataset', as `ctxbench data export` writes it", path, 1)])
        named = card.get("scopes", {})
        scopes = {name: Row(named, faults, path, 1).each(name, read_key, expected="an item id") for name in named}
        return cls(card=card, scopes=scopes)


def read_documents(path: Path, settings: Settings, faults: list[Fault]) -> tuple[dict[str, ItemKey], list[Item]]:
    """The items of a corpus in JSON lines or tab-separated lines, and the key by published id.

    JSON lines have an id (`_id`, `id`, `docno`, `docid` or `doc_id`), a `text` (`contents`, `body`) and may have a
    `title`; of tools their server and input schema are read, other fields are passed over. Lines of a `.tsv` file are
    `id text` or `id title text`.

    Raises:
        StorageError: the file cannot be read.
    """
    found: dict[str, ItemKey] = {}
    lines: dict[str, int] = {}
    items: list[Item] = []
    for document, item in _documents(path, settings, faults):
        name, line = document.id, document.place[1]
        if name in found:
            faults.append(Fault(f"document {name!r} stands twice, first in line {lines[name]}", path, line))
        else:
            found[name], lines[name] = item.key, line
            items.append(item)
    if not items and not faults:
        faults.append(Fault("the file is empty; expected one document a line", path))
    return found, items


def _documents(path: Path, settings: Settings, faults: list[Fault]) -> Iterator[tuple[Document, Item]]:
    wrong: list[Fault] = []
    rows = [Row(data, wrong, path, line) for line, data in _rows(path, wrong, ("title", "text"))]
    documents = [_document(row) for row in rows]
    named = Counter((one.server, name) for one in documents for name in {one.title, one.id})
    for row, document in zip(rows, documents, strict=True):
        ours = _ours(row)
        if not document.id:
            continue
        if ours is None:
            alone = bool(document.title) and named[document.server, document.title] == 1
            item: Item | None = item_of(document, settings.type, by_title=alone)
        else:
            item = read_item(_with(row, {"_id": document.id, **ours}))
        if item is None:
            continue
        if ours is not None and item.search_text != document.text:
            row.fault(
                f"field 'text' is another than the export wrote for {document.id!r}; change metadata.{OURS} as well, "
                "or take it out"
            )
        yield document, item
    faults += sorted(wrong, key=lambda fault: fault.line)


def _document(row: Row) -> Document:
    schemas = [row.data[name] for name in ("schema", *SCHEMA_KEYS) if isinstance(row.data.get(name), dict)]
    servers = [row.data[name] for name in SERVER_KEYS if isinstance(row.data.get(name), str)]
    return Document(
        id=_id(row),
        title=row.take("title", str, ""),
        text=_text(row),
        place=(row.path, row.line),
        server=servers[0] if servers and servers[0] else None,
        schema=schemas[0] if schemas else None,
    )


def read_queries(path: Path, faults: list[Fault]) -> list[PublishedQuery]:
    """The queries of a file in JSON lines (an id and a `text` or `query`) or tab-separated lines (`id text`).

    Raises:
        StorageError: the file cannot be read.
    """
    found: dict[str, PublishedQuery] = {}
    for line, data in _rows(path, faults, ("text",)):
        row = Row(data, faults, path, line)
        query = PublishedQuery(id=_id(row), text=_text(row), place=(path, line), ours=_ours(row))
        if query.id in found:
            first = found[query.id].place[1]
            row.fault(f"query {query.id!r} stands twice, first in line {first}")
        elif query.id:
            found[query.id] = query
    if not found and not faults:
        faults.append(Fault("the file is empty; expected one query a line", path))
    return list(found.values())


@dataclass
class Assembly:
    """Puts the parts together. What is odd is counted; what is wrong is a fault.

    Attributes:
        settings: how.
        keys: item by published document id.
        items: in the order of the corpus.
        queries: as published.
        judgments: as published.
        export: of ours, if the files are one.
        tally: what was counted.
        splits: those whose files label a query, by query.
    """

    settings: Settings
    keys: Mapping[str, ItemKey]
    items: Sequence[Item]
    queries: Sequence[PublishedQuery]
    judgments: Sequence[Judgment]
    export: Export | None
    faults: list[Fault]
    tally: Tally = field(default_factory=lambda: Tally(*COUNTED))
    splits: dict[str, set[str]] = field(default_factory=dict)

    def converted(self, *, form: str, files: Sequence[Path], labelling: str, where: Path) -> Converted:
        """The dataset.

        Args:
            form: the format's name, for the card.
            files: that it was made of, for the card.
            labelling: who or what labelled, and how.
            where: the folder or file that names the dataset.

        Raises:
            InputError: all faults at once.
        """
        judged = self._by_query()
        meaning = self._meaning()
        pairs = [self._query(query, judged.get(query.id, {}), meaning) for query in self.queries]
        if self.faults:
            raise self._error()
        card = dict(self.export.card) if self.export else {}
        own: dict[str, Any] = {
            name: card[name] for name in ("licence", "source", "labelling", "notes", "frozen") if name in card
        }
        if own and self.settings.licence:
            own["licence"] = self.settings.licence
        dataset = Dataset(
            name=self.settings.name or card.get("name") or dataset_name(None, where),
            version=self.settings.version or card.get("version", "1"),
            catalog=Catalog(self.items),
            queries=tuple(query for query, _ in pairs),
            labels=tuple(label for _, labels in pairs for label in labels),
            about={},
            scopes=self.export.scopes if self.export else {},
        )
        self.tally.add(UNLABELLED, *dataset.unlabelled)
        made = about(self.settings, form=form, files=files, labelling=labelling, tally=self.tally)
        return self.tally.converted(replace(dataset, about=own or made))

    def _error(self) -> InputError:
        """All faults at once, under the files that they stand in."""
        return InputError(self.faults, subject=_names(fault.path for fault in self.faults))

    def _by_query(self) -> dict[str, dict[str, Judgment]]:
        """The judgments by query and document; what repeats is counted, what contradicts is a fault."""
        known = {query.id for query in self.queries}
        found: dict[str, dict[str, Judgment]] = {}
        for one in self.judgments:
            if one.query not in known:
                self.tally.add(NO_QUERY, one.query)
                continue
            if one.split:
                self.splits.setdefault(one.query, set()).add(one.split if self.export else split_name(one.split))
            first = found.setdefault(one.query, {}).setdefault(one.document, one)
            if first is one:
                if one.score < 0:
                    self.tally.add(NEGATIVE, one.query)
            elif first.score == one.score:
                self.tally.add(DUPLICATES, one.query)
            else:
                there = f"{first.path.name}, line {first.line}"
                what = (
                    f"query {one.query!r} and document {one.document!r} have score {one.score} here and {first.score}"
                )
                self.faults.append(Fault(f"{what} in {there}; one of the two is wrong", one.path, one.line))
        return found

    def _meaning(self) -> Mapping[int, int]:
        """What each score means."""
        grades = self.settings.grades
        if grades is None and self.export is not None:
            grades = {1: 1, 2: 2}
        try:
            return grading((one.score for one in self.judgments), grades, _names(one.path for one in self.judgments))
        except InputError as error:
            self.faults += error.faults
            raise self._error() from error

    def _query(
        self, published: PublishedQuery, judged: Mapping[str, Judgment], meaning: Mapping[int, int]
    ) -> tuple[DatasetQuery, list[Label]]:
        query = self._request(published)
        labels: dict[str, Label] = {}
        lost = False
        for document, one in judged.items():
            grade = meaning[one.score]
            if document in self.keys:
                source = "" if published.ours is not None else SOURCE
                key = self.keys[document]
                labels[key.id] = Label(query.id, key, grade, source=source)
            else:
                self.tally.add(NO_DOCUMENT, f"{one.query} {document}")
                lost = lost or grade == Grade.REQUIRED
        if published.ours is not None:
            self._details(published, query.id, labels)
        if lost and any(label.grade == Grade.REQUIRED for label in labels.values()):
            self.tally.add(PARTLY, query.id)
            query = replace(query, partly_labelled=True)
        return query, list(labels.values())

    def _request(self, published: PublishedQuery) -> DatasetQuery:
        query_id = self.tally.query_id(published.id)
        names = self.splits.get(published.id, set())
        if len(names) > 1:
            self.tally.add(SEVERAL, published.id)
        first = next((name for name in (*SPLITS, *sorted(names)) if name in names), "")
        if published.ours is None:
            return DatasetQuery(request=Request(id=query_id, text=published.text), split=first or split_of(query_id))
        path, line = published.place
        data = {"_id": query_id, "text": published.text, **published.ours}
        data.pop("labels", None)
        data["split"] = first or data.get("split") or split_of(query_id)
        query = read_query(Row(data, self.faults, path, line), self.export.scopes if self.export else {})
        return query or DatasetQuery(request=Request(id=query_id, text=published.text), split=data["split"])

    def _details(self, published: PublishedQuery, query_id: str, labels: dict[str, Label]) -> None:
        """Put what the export kept of labels to them; with a grade it is a label of its own."""
        path, line = published.place
        details = Row(dict(published.ours or {}), self.faults, path, line).take("labels", dict, {})
        for item_id, entry in details.items():
            row = Row(entry if isinstance(entry, dict) else {"entry": entry}, self.faults, path, line)
            row.refuse_unknown(("grade", "via", "alternatives", "source"))
            grade = row.optional("grade", int)
            if item_id not in labels and grade is None:
                self.tally.add(DETAILS, f"{query_id} {item_id}")
                continue
            try:
                base = labels.get(item_id) or Label(query_id, read_key(item_id), int(grade or 0))
            except ParameterError as error:
                row.fault(str(error))
                continue
            labels[item_id] = replace(
                base,
                via=row.take("via", str, "direct"),
                alternatives=row.take("alternatives", str, ""),
                source=row.take("source", str, ""),
            )


def _names(paths: Iterable[Path | str | None]) -> str:
    """The files that are named, each once."""
    return ", ".join(dict.fromkeys(str(path) for path in paths if path is not None))


def _rows(path: Path, faults: list[Fault], columns: Sequence[str]) -> Iterable[tuple[int, dict[str, Any]]]:
    """The lines of a file as objects: JSON lines, or tab-separated if its name ends in `.tsv` or `.txt`."""
    if path.suffix.lower() not in (".tsv", ".txt"):
        yield from iter_jsonl(path, faults)
        return
    for line, text in iter_lines(path, faults):
        if not text.strip():
            continue
        fields = text.split("\t")
        if 2 <= len(fields) <= 1 + len(columns):
            yield line, dict(zip(("_id", *columns[-(len(fields) - 1) :]), fields, strict=True))
        else:
            wanted = "id and " + ", ".join(columns[-1:]) + (f" (or id, {', '.join(columns)})" if columns[1:] else "")
            faults.append(Fault(f"expected {wanted}, separated by tabs, got {len(fields)} fields", path, line))


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


def _ours(row: Row) -> Mapping[str, Any] | None:
    """What an export of ours kept in `metadata`."""
    metadata = row.data.get("metadata")
    ours = metadata.get(OURS) if isinstance(metadata, dict) else None
    return ours if isinstance(ours, dict) else None


def _with(row: Row, data: Mapping[str, Any]) -> Row:
    return Row(data, row.faults, row.path, row.line)
