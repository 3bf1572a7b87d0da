"""Read the documents, queries and scored pairs of a collection, and collect them for a dataset.

* The id of a document becomes the name of an item of one type: `MED-10` is `reference:MED-10`. Its title becomes the
  description. The title of a tool becomes its name, if it is unique, and its text the description; in the layout of
  BEIR its server and input schema are kept.
* `train`, `training`, `dev`, `val`, `valid` and `validation` become `tuning`; other splits keep their name.
* A single positive score in all files means required (2). Several need a mapping from the user. Scores of 0 and below
  mean irrelevant (0) unless they are mapped.
* A label for a missing document is dropped and counted. If it was required, its query is kept as partly labelled (or
  unlabelled, if nothing else is required), so that no metric counts it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import quote

from ctxbench.catalogs.snapshots import read_item
from ctxbench.catalogs.tool_lists import SCHEMA_KEYS, SERVER_KEYS, value_at
from ctxbench.datasets.dataset import SPLITS, Dataset, name_fault, name_of_path
from ctxbench.datasets.layout import ABOUT
from ctxbench.datasets.queries import DatasetQuery, Label, group_pairs
from ctxbench.io.documents import read_json
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, check_choice, raise_faults
from ctxbench.io.files import decoded_lines, open_unpacked, readable
from ctxbench.io.rows import Row
from ctxbench.labelling.record_files import parse_list, snake
from ctxbench.labelling.sources import SAMPLE, documents, sample
from ctxbench.model.items import ITEM_TYPES, Catalog, Item, ItemKey, read_key

EXPORT_KEY = "ctxbench"  # key of `metadata` for fields that the format lacks
EXPORT_FILE = "export.json"  # in an export: file names, the card, and fields that the format lacks
SOURCE = "publisher"  # the `source` of labels that came with the files
PASSED_OVER = "ignored fields"
RENAMED = "percent-encoded query ids"
_TUNING = ("train", "training", "dev", "val", "valid", "validation")
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
        command: the command of the import, for messages that propose a mapping.

    Raises:
        ParameterError: the name, the type or a grade is invalid.
    """

    name: str | None = None
    version: str | None = None
    type: str = "reference"
    grades: Mapping[int, int] | None = None
    licence: str | None = None
    command: str = "ctxbench data import FILE -c CATALOG --out FOLDER"

    def __post_init__(self) -> None:
        check_choice("item type", self.type, ITEM_TYPES)
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


@dataclass
class Draft:
    """Collects the queries and labels of a dataset while its files are read, with faults and issues.

    Attributes:
        settings: settings of the import.
        odd: the issues to count.
        faults: faults; with any of them there is no dataset.
        queries, labels: of the dataset.
        stated: numbers of labels in the files, by field or file.
        card, scopes: those of the dataset that the files are an export of; empty in other files.
        ids: ids by issue.
    """

    settings: ImportSettings
    odd: Sequence[str]
    faults: list[Fault] = field(default_factory=list)
    queries: list[DatasetQuery] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    stated: Counter[str] = field(default_factory=Counter)
    card: Mapping[str, Any] = field(default_factory=dict)
    scopes: Mapping[str, tuple[ItemKey, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ids: dict[str, list[str]] = defaultdict(list, {oddity: [] for oddity in self.odd})

    def read_card(self, path: Path) -> None:
        """Read the card and the scopes of the dataset from an `export.json`, unless the export is plain.

        Raises:
            InputError: it is not a JSON object of the expected form.
        """
        data = read_json(path)
        is_plain = isinstance(data, dict) and data.get("plain") is True
        card = data.get("dataset", {} if is_plain else None) if isinstance(data, dict) else None
        kinds = {"name": str, "version": str, "scopes": dict}
        if not isinstance(card, dict) or any(not isinstance(card.get(n, kind()), kind) for n, kind in kinds.items()):
            raise InputError([Fault("expected an object with 'dataset', as `ctxbench data export` writes it", path, 1)])
        row = Row(card.get("scopes", {}), self.faults, path, 1)
        self.scopes = {name: row.read_list(name, read_key, expected="an item id") for name in row.data}
        self.card = card

    def grading(self, scores: Iterable[int], where: Path | str) -> dict[int, int]:
        """The grade (0, 1 or 2) of each score; empty, with a fault, if a positive score has none.

        A single positive score means 2. Several need the grades of the settings, or those of an export.
        """
        n_labels = Counter(scores)
        positive = sorted(score for score in n_labels if score > 0)
        grades = self.settings.grades or ({1: 1, 2: 2} if self.card else dict.fromkeys(positive[:1], 2))
        if not (missing := [score for score in positive if score not in grades]):
            return {score: grades.get(score, 0) for score in n_labels}
        message: str = f"scores {', '.join(map(str, missing[:10]))} are not in the mapping of grades (--grades)"
        if not self.settings.grades and not self.card:
            counts = [f"{score} ({n_labels[score]:,} labels)" for score in positive[:10]]
            example = ",".join(f"{score}={2 if score == positive[-1] else 1}" for score in positive[:10])
            message = Message("labelling.scores-need-grades", scores=counts, example=example)
        self.faults.append(Fault(message, where))
        return {}

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
    ) -> Conversion:
        """Make the dataset.

        Args:
            catalog: the items.
            form: the name of the format, for the card.
            files: the files, for the card.
            labelling: who labelled, and how, for the card.
            where: the folder or file that the dataset is named after.

        Raises:
            InputError: all faults at once; or the files have labels, but none could be read.
        """
        if self.stated.total() and not self.faults and not self.labels:
            sources = [f"{name} ({n:,})" for name, n in self.stated.items() if n]
            message = Message("labelling.no-label-read", sources=sources, counts="; ".join(_counted(self.ids)))
            self.faults.append(Fault(message, where))
        raise_faults(self.faults, subject=_some(list(dict.fromkeys(str(fault.path) for fault in self.faults))))
        about = {name: self.card[name] for name in ABOUT if name in self.card} or {
            "licence": "not stated in the files",
            "source": {"format": form, "sha256": {_shown_name(path, files): _sha256(path) for path in files}},
            "labelling": labelling,
            "notes": {"counted": {str(oddity): len(ids) for oddity, ids in self.ids.items()}},
        }
        dataset = Dataset(
            name=self.settings.name or self.card.get("name") or name_of_path(where, "imported"),
            version=self.settings.version or self.card.get("version", "1"),
            catalog=catalog,
            queries=tuple(self.queries),
            labels=tuple(self.labels),
            about=about | ({"licence": self.settings.licence} if self.settings.licence else {}),
            scopes=self.scopes,
        )
        return Conversion(dataset=dataset, ids=self.ids)


def unique_entries(noun: str, entries: Iterable[tuple[str, Row, T]]) -> dict[str, T]:
    """Entries by id, without entries that have no id; a repeated id is a fault, unless the entries are equal.

    Args:
        noun: the name of an entry in faults.
        entries: the id, the row and the entry.
    """
    unique: dict[str, tuple[Row, T]] = {}
    for name, row, entry in entries:
        first, equal = unique.setdefault(name, (row, entry))
        if name and equal != entry:
            row.fault(f"{noun} {name!r} occurs twice, first in line {first.line}")
    return {name: entry for name, (_, entry) in unique.items() if name}


def refuse_empty(entries: Sized, path: Path, faults: list[Fault], *, expected: str) -> None:
    """Add a fault for an empty file, unless there are other faults."""
    if not entries and not faults:
        faults.append(Fault(Message("labelling.file-empty", expected=expected), path))


def split_name(published: str) -> str:
    """The name of a published split in ctxbench."""
    name = published.lower()
    return SPLITS[0] if name in _TUNING else name if name == "test" else published


def read_grades(text: str) -> dict[int, int]:
    """Read a mapping of grades, such as `1=1,2=2,3=2`.

    Raises:
        ParameterError: it is not a mapping of grades.
    """
    matches = [re.fullmatch(r"\s*(-?\d+)\s*=\s*([0-2])\s*", part) for part in text.split(",")]
    grades = {int(match[1]): int(match[2]) for match in matches if match}
    if len(grades) < len(matches):
        raise ParameterError(
            f"grades must be score=grade, separated by commas, with grades 0, 1 or 2 and each score once "
            f"(1=1,2=2), got {text!r}"
        )
    return grades


def _shown_name(path: Path, files: Sequence[Path]) -> str:
    """The name of a file, with its folder if another file has the same name."""
    alike = sum(file.name == path.name for file in files) > 1
    return f"{path.resolve().parent.name}/{path.name}" if alike else path.name


def _sha256(path: Path) -> str:
    with readable(path, repeatedly=True).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _some(names: Sequence[str], limit: int = _SHOWN) -> str:
    """The first names, each once."""
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:limit]) + (", ..." if len(unique) > limit else "")


ODD = DUPLICATES, NO_QUERY, NO_DOCUMENT, PARTLY, UNLABELLED, NEGATIVE, SEVERAL, JOINED, _, DETAILS = (
    "repeated label rows",
    "labels for missing queries",
    "labels for missing documents",
    "partly labelled queries (missing documents)",
    "unlabelled queries (no required document)",
    "labels with negative scores",
    "queries labelled in several splits",
    "splits joined as tuning",
    RENAMED,
    "label details without a label",
)
AMBIGUOUS = "labels for names of several items"
IMPLIED, OVERLAP = "groups implied by other groups", "unlabelled queries (overlapping groups)"
GROUP_ODD = (NO_DOCUMENT, PARTLY, UNLABELLED, IMPLIED, OVERLAP, RENAMED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedQuery:
    """A published query.

    Attributes:
        id, text, row: as published.
        exported: the fields that an export of ctxbench adds; None in other files.
        groups: documents of which one each is required; None if judgments say what is required.
    """

    id: str
    text: str
    row: Row = field(compare=False)
    exported: Mapping[str, Any] | None = None
    groups: Sequence[Sequence[str]] | None = None


@dataclass(frozen=True, slots=True)
class Judgment:
    """One scored pair with published ids and split; the split is empty if the format has none."""

    query: str
    document: str
    score: int
    split: str
    row: Row


_QUERY_IDS = ("query_id", "queryid", "qid", "q_id", "question_id", "topic_id", "topic")
_DOCUMENT_IDS = (
    *("chunk_id", "chunk_link", "doc_id", "docid", "docno", "document_id", "passage_id", "corpus_id", "pid", "node_id"),
)
_QUESTIONS = ("query", "question", "anchor")
_PASSAGES = (
    *("contents", "content", "page_content", "body", "chunk", "chunk_text", "passage", "passage_text", "document"),
    *("memory",),
)
_TITLES = ("title", "heading", "chunk_heading", "section", "name")
_LOCATIONS = ("url", "link", "path", "file_path", "source", "file_name", "filename", "file", *_TITLES)
_FIELDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "documents": {
        "id": ("id", *_DOCUMENT_IDS),
        "text": ("text", *_PASSAGES),
        "title": _TITLES,
        "location": _LOCATIONS,
    },
    "queries": {"id": ("id", *_QUERY_IDS), "text": ("text", *_QUESTIONS, "contents", "body", "title")},
    "labels": {
        "query": _QUERY_IDS,
        "document": _DOCUMENT_IDS,
        "score": ("score", "relevance", "label", "grade", "rel", "gain", "rating"),
    },
    "groups": {"id": ("id", *_QUERY_IDS), "text": _QUESTIONS, "expected": ("retrieval_gt",)},
    "pairs": {
        "id": ("id", *_QUERY_IDS),
        "text": _QUESTIONS,
        "positive": ("positive", "positives", "pos", "positive_passages", "positive_ctxs"),
        "negative": ("negative", "negatives", "neg", "negative_passages", "negative_ctxs", "hard_negative_ctxs"),
    },
    "set": {
        "documents": ("corpus", "documents"),
        "queries": ("queries",),
        "labels": ("relevant_docs", "qrels", "labels"),
    },
}
"""The fields of rows by role, with their names in snake case, likeliest first."""
FIELD_NAMES = tuple(dict.fromkeys(name for fields in _FIELDS.values() for name in fields))
_NAMES = {name for fields in _FIELDS.values() for names in fields.values() for name in names}
_ROLES = ("export", "documents", "set", "pairs", "texts", "queries", "groups", "labels")  # in the order of faults
_LISTS = ("documents", "docs", "chunks", "nodes", "corpus", "passages", "data", "rows", "results", "queries", "qrels")
_STORE = "docstore/data"  # documents by id in a store of LlamaIndex
_OF_LOGS = {"role", "messages", "session_id", "trace_id", "span_id"}
_SCHEMAS = ("schema", *SCHEMA_KEYS)
_METADATA = ("metadata", "meta", "extra_info")
_UNREAD = ("embedding", "embeddings", "vector", EXPORT_KEY, *_METADATA)
_FACTS: Mapping[str, tuple[tuple[str, ...], tuple[type, ...]]] = {
    "kind": (("kind", "type"), (str,)),
    "created": (("created", "created_at"), (str,)),
    "until": (("until",), (str,)),
    "confidence": (("confidence",), (int, float)),
    "conversation": (("conversation", "conversation_id"), (str,)),
}
"""The fields of a memory or message with their names in exports of stores, and the types of their values."""
_PLAIN = {  # the fields of lines without a header, by role and number; tabs separate texts, blanks the others
    ("labels", 4): ("query_id", "iteration", "doc_id", "score"),
    ("run", 6): ("query", "Q0", "document", "rank", "score", "tag"),
    ("texts", 2): ("id", "text"),
    ("texts", 3): ("id", "title", "text"),
}
_WHOLE = re.compile(r"\s*([-+]?\d{1,18})(?:\.0*)?\s*")
_SHARD = re.compile(r"-\d+-of-\d+$")  # of parquet files of Hugging Face
_SPLIT = re.compile(r"(?:^|[\W_])(train|training|dev|val|valid|validation|test)(?=[\W_]|$)", re.IGNORECASE)
_PATHS = {
    "labels": re.compile("qrel|judg|label|relevan", re.IGNORECASE),
    "queries": re.compile("quer|topic|question", re.IGNORECASE),
    "documents": re.compile("corpus|doc|passage|collection|chunk", re.IGNORECASE),
}
NO_NAMES: Mapping[str, str] = MappingProxyType({})


@lru_cache(maxsize=4096)
def _plain_names(names: tuple[str, ...]) -> dict[str, list[str]]:
    """The names of fields by their form in `_FIELDS`, which is the same for `_id` and `id`."""
    return group_pairs((snake(name).strip("_"), name) for name in sorted(names))


@lru_cache(maxsize=4096)
def field_columns(role: str, name: str, names: tuple[str, ...]) -> list[str]:
    """The columns of a row that may hold a field, likeliest first: `_id` or `docno` for the `id` of `documents`."""
    plain = _plain_names(names)
    return [column for theirs in _FIELDS[role][name] for column in plain.get(theirs, ())]


def _key(data: Mapping[str, Any], role: str, name: str, names: Mapping[str, str]) -> str | None:
    """What a row calls a field, by the user's names or `_FIELDS`; None if it is missing or null."""
    return (
        names[name]
        if name in names and value_at(data, names[name]) is not None
        else next((key for key in field_columns(role, name, tuple(data)) if data[key] is not None), None)
    )


def role_of(values: Sequence[Any], names: Mapping[str, str] = NO_NAMES) -> str:
    """The role of a file in a collection by its first values; empty if it has none.

    The roles are `documents`, `queries`, `texts` (either of the two), `labels`, `groups` (queries with labels), `pairs`
    (queries with documents), `set` (all of a collection) and `export` (the card of an export).
    """
    lines = [value for value in values if isinstance(value, str)]
    if lines:
        n_read = {role: sum(bool(_fields(line, role)) for line in lines) for role in ("labels", "texts")}
        return next((role for role, n in n_read.items() if 2 * n > len(lines)), "")
    key = _list_key(values)
    listed = values if key is None else values[0][key] if key else values[0]
    listed = list(islice(_by_id(listed) if isinstance(listed, dict) else listed, SAMPLE))
    rows = [_body(value) for value in listed if isinstance(value, dict)]
    plain = {name for row in rows for name in _plain_names(tuple(row))}
    if not rows or plain & _OF_LOGS:
        return ""

    def has(role: str, *fields: str) -> bool:
        return 2 * sum(all(_key(row, role, name, names) for name in fields) for row in rows) > len(rows)

    marks = {*_DOCUMENT_IDS, *_PASSAGES, *_LOCATIONS} - {"title"}
    roles = {
        "set": has("set", "queries", "labels"),
        "export": {"format", "files", "plain"} <= plain,
        "labels": all(map(_is_scores, rows)) or (has("labels", "query", "document") and not has("documents", "text")),
        "groups": has("groups", "text", "expected"),
        "pairs": has("pairs", "text", "positive"),
        "queries": has("queries", "id", "text") and bool(plain & {*_QUERY_IDS, *_QUESTIONS}),
        "documents": has("documents", "text") and (any(row.get("title") for row in rows) or bool(plain & marks)),
        "texts": has("documents", "id", "text"),
    }
    return next((role for role, applies in roles.items() if applies), "")


def _fields(line: str, role: str) -> dict[str, str]:
    """The fields of a line without a header, which tabs or (in labels) blanks separate; empty if it has others."""
    is_by_blanks = role == "run" or (role == "labels" and line.count("\t") in (0, 3))
    values = line.split() if is_by_blanks else line.split("\t")
    return dict(zip(_PLAIN.get((role, len(values)), ()), values, strict=False))


def _is_scores(value: Mapping[str, Any]) -> bool:
    """Whether a value has grades of documents by query."""
    return bool(value) and all(
        isinstance(scores, dict) and scores and all(type(score) is int and score < 100 for score in scores.values())
        for scores in value.values()
    )


def _body(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a document that a library wrapped: `kwargs` of LangChain, `__data__` of LlamaIndex."""
    return next((inner for key in ("kwargs", "__data__") if isinstance(inner := value.get(key), dict)), value)


def _list_key(values: Sequence[Any]) -> str | None:
    """The key of the rows in the only value of a file: a list, or a store of LlamaIndex; empty if it has rows by id."""
    if len(values) != 1 or not isinstance(values[0], dict):
        return None
    parts = {key: part for key, part in values[0].items() if isinstance(part, list | dict)}
    lists = [key for key in parts if (key in _LISTS and isinstance(parts[key], list)) or key == _STORE]
    entries = list(values[0].values())
    is_ids = all(re.search(r"\d", str(key)) for key in values[0])
    has_texts = is_ids and all(isinstance(entry, str) and " " in entry.strip() for entry in entries)
    has_rows = all(isinstance(entry, dict) and isinstance(entry.get("text"), str) for entry in entries)
    is_by_id = len(entries) > 1 and (has_texts or has_rows) and _NAMES.isdisjoint(_plain_names(tuple(values[0])))
    return lists[0] if lists and (len(parts) == 1 or lists == [_STORE]) else "" if is_by_id else None


def _by_id(rows: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields of texts or objects by id."""
    yield from ({**(_body(row) if isinstance(row, dict) else {"text": row}), "id": name} for name, row in rows.items())


def _role_of_path(path: Path) -> str:
    """The role that the name of a file, or of its folder, states; for files with no content that says more."""
    parts = (path.name, path.parent.name)
    return next((role for part in parts for role, pattern in _PATHS.items() if pattern.search(part)), "")


@lru_cache
def _split_of_path(path: Path) -> str:
    """The split that the name of a file, or of its folder, states; a file in `qrels` is named after its split."""
    stem = _SHARD.sub("", path.name.split(".")[0])
    match = _SPLIT.search(stem) or _SPLIT.fullmatch(path.parent.name)
    return stem if path.parent.name == "qrels" else match[1] if match else ""


@dataclass
class CollectionReader:
    """Reads the files of a collection.

    Attributes:
        settings: settings of the import.
        names: the names of fields in the files, by field.
        faults: where faults are added.
        rows: the rows that were read, by role.
        roles: the files by role, in the order in which they were read.
        ignored: fields of documents that were ignored.
    """

    settings: ImportSettings
    names: Mapping[str, str]
    faults: list[Fault] = field(default_factory=list)
    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    roles: dict[str, list[Path]] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)

    def read(self, paths: Sequence[Path]) -> None:
        """Read the rows of files, each by its role."""
        plain = {path: self._role(path) for path in paths}
        for role in (*_ROLES, ""):
            for path in (path for path in paths if plain[path][0] == role):
                self.roles.setdefault(role, []).append(path)
                n_faults, rows = len(self.faults), list[Row]()
                read = plain_rows(path, role, self.faults) if plain[path][1] else self._entries(path, role)
                for line, part, data in read:
                    for inner, fields in self._paired(data) if part == "pairs" else [(part, data)]:
                        rows = self.rows[inner]
                        rows.append(Row(fields, self.faults, path, line))
                if len(self.faults) == n_faults and (not role or (not rows and role != "labels")):
                    empty = Message("labelling.file-empty", expected="rows")
                    self.faults.append(Fault(Message("labelling.no-role") if rows else empty, path))

    def _role(self, path: Path) -> tuple[str, bool]:
        """The role of a file, and whether it has lines without a header."""
        first = sample(path)
        values = [document.value for document in first]
        tables = [document.value for document in first if isinstance(document.value, dict) and not document.text]
        if tables and not any(_NAMES & {*_plain_names(tuple(row))} for row in tables) and not self.names:
            values = ["\t".join(map(str, fields)) for row in tables for fields in (row, row.values())]
        is_plain = bool(values) and all(isinstance(value, str) for value in values)
        return role_of(values, self.names) or _role_of_path(path), is_plain

    def _entries(self, path: Path, role: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
        """The line, the role and the fields of each row of a file."""
        list_key = _list_key([document.value for document in sample(path, 2)])
        for document in documents(path, self.faults):
            is_set = role == "set" and isinstance(document.value, dict)
            keys = {part: _key(document.value, role, part, self.names) for part in _FIELDS["set"]} if is_set else {}
            for part, key in keys.items() or [(role, list_key)]:
                inner = document.value[key] if key else document.value
                if part == "labels" and isinstance(inner, dict) and (is_set or _is_scores(inner)):
                    yield from ((document.line, part, row) for row in _scored(inner))
                elif key is not None and isinstance(inner, dict):
                    yield from ((document.line, part, row) for row in _by_id(inner))
                elif not is_set or key:
                    entries = document.entries(key) if key else [document]
                    wrong = [entry for entry in entries if not isinstance(entry.value, dict)]
                    self.faults += [Fault(Message("labelling.not-a-row", got=e.value), path, e.line) for e in wrong]
                    yield from ((e.line, part, _body(e.value)) for e in entries if isinstance(e.value, dict))

    def _paired(self, data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The query, the documents and the labels in a row; what has no id is named after the hash of its text."""
        values = {name: self.value(data, "pairs", name) for name in _FIELDS["pairs"]}
        query = values["id"] or _digest(values["text"])
        yield "queries", {"id": query, "text": values["text"]}
        for part, score in (("positive", 1), ("negative", 0)):
            for entry in filter(None, values[part] if isinstance(values[part], list) else [values[part]]):
                document = entry if isinstance(entry, dict) else {"text": entry}
                key = _key(document, "documents", "id", self.names)
                name = document[key] if key else _digest(document.get("text"))
                yield "documents", {"id": name, **document}
                yield "labels", {"query_id": query, "doc_id": name, "score": score}

    def settle(self) -> None:
        """Give rows of `texts` the role of their ids in the labels, else that of their path or the missing one."""
        ids = {
            part: {str(self.value(row.data, "labels", name)) for row in self.rows["labels"]}
            for part, name in (("queries", "query"), ("documents", "document"))
        }
        for path, rows in group_pairs((row.path, row) for row in self.rows.pop("texts", [])).items():
            names = {str(self.value(row.data, "queries", "id")) for row in rows}
            named, roles = _role_of_path(path), [part for part in ids if names & ids[part]]
            if len(roles) != 1:
                roles = [named] if named in ids else [part for part in ids if not self.rows[part]]
            if len(roles) == 1:
                self.rows[roles[0]] += rows
            else:
                self.faults.append(Fault(Message("labelling.queries-or-documents"), path))

    def value(self, data: Mapping[str, Any], role: str, name: str) -> Any:
        """The value of a field in a row, an id as text; None if it is missing or null."""
        key = _key(data, role, name, self.names)
        value = None if key is None else value_at(data, key)
        return str(value) if name in ("id", "query", "document") and type(value) is int else value

    def text(self, row: Row, role: str, name: str) -> str:
        """The text of a field; empty, with a fault, if it is missing or of another type."""
        value = self.value(row.data, role, name)
        if isinstance(value, str) and (value or name == "text"):
            return value
        row.fault(Message("labelling.collection-field", name=name, names=_FIELDS[role][name][:4], got=value))
        return ""

    def documents(self) -> dict[str, Item]:
        """The items of documents by published id.

        A document without an id has its location (a path, an address, a title), with a number if others have it, too.
        Other fields, and those of `metadata`, are in the metadata of the item, its file as `path` and `lines`. A tool
        is named after its title, if that is unique on its server; its id is then `metadata.id`. Kind, times, confidence
        and conversation of a memory or message are its own.
        """
        rows = self.rows["documents"]
        locations = [self._location(row) for row in rows]
        n_located, numbers = Counter(locations), defaultdict[str, Iterator[int]](lambda: count(1))
        names = [f"{name}#{next(numbers[name])}" if name and n_located[name] > 1 else name for name in locations]
        names = [name or self.text(row, "documents", "id") for name, row in zip(names, rows, strict=True)]
        titles = [self._title(row) for row in rows]
        servers = [_first(row.data, SERVER_KEYS, str) for row in rows]
        n_named = Counter(
            (server, name) for server, *pair in zip(servers, titles, names, strict=True) for name in {*pair}
        )
        titled = [bool(title) and n_named[server, title] == 1 for server, title in zip(servers, titles, strict=True)]
        entries = zip(names, rows, map(self._item, rows, names, titles, servers, titled), strict=True)
        return unique_entries("document", ((name, row, item) for name, row, item in entries if item))

    def _location(self, row: Row) -> str:
        """Where a document without an id is from; empty if it has one, or no location."""
        if self.value(row.data, "documents", "id") is not None:
            return ""
        metadata = _metadata(row.data)
        parts = (("id", metadata), ("location", row.data), ("location", metadata))
        values = (self.value(part, "documents", name) for name, part in parts)
        return next((value for value in values if isinstance(value, str)), "")

    def _title(self, row: Row) -> str:
        title = self.value(row.data, "documents", "title") or self.value(_metadata(row.data), "documents", "title")
        return title if isinstance(title, str) else ""

    def _item(self, row: Row, name: str, title: str, server: str | None, is_titled: bool) -> Item | None:
        """The item of a document; None if it has no id, or if the exported item cannot be read."""
        if name.startswith(f"{row.data.get('type')}:"):
            return read_item(row)  # of a catalog
        text, exported = self.text(row, "documents", "text"), _exported(row)
        if exported is not None and name:
            item = read_item(row.nested({"_id": name, **exported}))
            if item is not None and item.search_text != text:
                row.fault(Message("labelling.export-text-changed", name=name, key=EXPORT_KEY))
            return item
        title, kind = "" if title == name else title, self.settings.type
        skipped = {_key(row.data, "documents", field, self.names) for field in ("id", "text", "title")}
        skipped |= {*SERVER_KEYS, *_SCHEMAS} if kind == "tool" else set()
        fields = {**_metadata(row.data), **{key: value for key, value in row.data.items() if key not in skipped}}
        lines = [value_at(fields, f"loc.lines.{end}") for end in ("from", "to")]  # of LangChain for JavaScript
        fields = {"path": fields.get("file_path"), "lines": None if None in lines else lines, **fields}
        facts = _take_facts(fields) if kind in ("memory", "message") else {}
        metadata = {key: value for key, value in fields.items() if key not in _UNREAD and value is not None}
        if not name or kind != "tool":
            about = {"title": title, "description": title, "text": text, "metadata": metadata, **facts}
            try:
                return Item(type=kind, name=name, **about) if name else None
            except ParameterError as error:  # of a time, or a confidence
                row.fault(str(error))
                return None
        self.ignored += ["metadata.id"] if is_titled and metadata.get("id", name) != name else []
        return Item(
            type="tool",
            server=server,
            name=(is_titled and title) or name,  # a title that repeats the id is empty here
            title="" if is_titled else title,
            description=text if is_titled else ": ".join(filter(None, (title, text))),
            schema=_first(row.data, _SCHEMAS, dict),
            metadata={**metadata, "id": name} if is_titled else metadata,
        )

    def queries(self) -> list[PublishedQuery]:
        """The queries, those of `groups` with their groups."""
        published = (
            PublishedQuery(
                id=self.text(row, role, "id"),
                text=self.text(row, role, "text"),
                row=row,
                exported=_exported(row),
                groups=_groups(row, self.value(row.data, role, "expected")) if role == "groups" else None,
            )
            for role in ("queries", "groups")
            for row in self.rows[role]
        )
        return list(unique_entries("query", ((query.id, query.row, query) for query in published)).values())

    def judgments(self) -> Iterator[Judgment]:
        """The labels; those of rows without a field for scores have score 1."""
        paths = dict.fromkeys(row.path for row in self.rows["labels"])
        stated = paths if len(paths) > 1 else self.roles.get("labels", ())  # queries in one file are of every split
        for row in self.rows["labels"]:
            query, document = (self.text(row, "labels", name) for name in ("query", "document"))
            has_scores = field_columns("labels", "score", tuple(row.data)) or "score" in self.names
            score = self.value(row.data, "labels", "score") if has_scores else 1
            split = _split_of_path(row.path) if row.path in stated else ""
            if (match := _WHOLE.fullmatch(str(score))) is None:
                row.fault(Message("labelling.score-form", kind="whole", got=score))
            elif query and document:
                yield Judgment(query, document, int(match[1]), split, row)


def _digest(text: Any) -> str:
    return hashlib.sha256(str(text).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _scored(labels: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of labels by query: a document, a list of them, or scores by document."""
    for query, entry in labels.items():
        names = entry if isinstance(entry, list) else [entry]
        scores = entry.items() if isinstance(entry, dict) else ((name, 1) for name in names)
        yield from ({"query_id": query, "doc_id": name, "score": score} for name, score in scores)


def plain_rows(path: Path, role: str, faults: list[Fault]) -> Iterator[tuple[int, str, dict[str, str]]]:
    """The line, the role and the fields of each line of a file without a header."""
    for line, text in _lines(path, faults):
        if fields := _fields(text, role):
            yield line, role, fields
            continue
        columns = _PLAIN.get((role, 4)) or _PLAIN.get((role, 6))
        message = (
            Message("labelling.fields-by-blanks", n=len(columns), columns=columns, got=len(text.split()))
            if columns
            else Message("labelling.tabs", expected="id and text (or id, title, text)", got=len(text.split("\t")))
        )
        faults.append(Fault(message, path, line))


def _lines(path: Path, faults: list[Fault]) -> Iterator[tuple[int, str]]:
    """The lines of a text that are not blank, with their numbers."""
    content, file = open_unpacked(path)
    with file:
        yield from ((line, text) for line, text in decoded_lines(content, path, faults) if text.strip())


def _first(data: Mapping[str, Any], names: Iterable[str], kind: type[T]) -> T | None:
    """The first value of a type that is not empty in some fields."""
    return next((value for name in names if isinstance(value := data.get(name), kind) and value), None)


def _metadata(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata of a document; empty if it has none."""
    return _first(data, _METADATA, dict) or {}


def _take_facts(fields: dict[str, Any]) -> dict[str, Any]:
    """Move what a memory or message says of itself out of its fields; values of other types stay."""
    facts = {}
    for fact, (names, types) in _FACTS.items():
        if name := next((name for name in names if type(fields.get(name)) in types), None):
            facts[fact] = fields.pop(name)
    return facts


def _exported(row: Row) -> Mapping[str, Any] | None:
    """The fields that an export of ctxbench writes to `metadata`; None in other files."""
    exported = _metadata(row.data).get(EXPORT_KEY)
    return exported if isinstance(exported, dict) else None


def _groups(row: Row, published: Any) -> list[list[str]]:
    """The groups of document ids in `retrieval_gt`: a text is one document, a list of texts one group."""
    value = parse_list(published) if isinstance(published, str) and published.strip().startswith("[") else published
    value = [value] if isinstance(value, str) and value else value
    groups = [value] if isinstance(value, list) and all(isinstance(name, str) for name in value) else value
    is_lists = isinstance(groups, list) and all(isinstance(group, list) for group in groups)
    if is_lists and all(isinstance(name, str) for group in groups for name in group):
        return [group for group in groups if group]
    row.fault(Message("labelling.retrieval-gt", got=published))
    return []
