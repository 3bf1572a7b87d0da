"""AutoRAG's questions and corpus: `retrieval_gt` is `[[a, b], [c]]`, (a or b) and c.

Source: github.com/Marker-Inc-Korea/AutoRAG, `autorag/utils/preprocess.py` (`cast_qa_dataset`): columns `qid`, `query`,
`retrieval_gt` and, for the corpus, `doc_id` and `contents`; a list of texts is one group (any of them is enough), a
text alone is one document. Other columns (answers to generate, metadata) are passed over.
"""

from __future__ import annotations

import ast
import csv
import importlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.errors import Fault, InputError, StorageError
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.labels import DatasetQuery, Label
from ctxbench.data.importers.formats.conversion import (
    RENAMED,
    SOURCE,
    Converted,
    Document,
    Settings,
    Tally,
    about,
    catalog_of,
    dataset_name,
    key_of,
)
from ctxbench.data.importers.groups import minimal_groups
from ctxbench.fileio import read_text
from ctxbench.jsonio import iter_jsonl, read_json
from ctxbench.sources.rows import Row

NO_DOCUMENT = "documents of retrieval_gt that are not in the corpus"
PARTLY = "queries kept as partly labelled, because a group of documents is not in the corpus"
UNLABELLED = "queries without a required document, kept unlabelled"
IMPLIED = "groups left out because another group of the query implies them"
OVERLAP = "queries kept unlabelled, because their groups share documents in a way that labels cannot say"

_LARGEST_FIELD = 50_000_000  # characters of one field of a CSV file
_LABELLING = (
    "As published in AutoRAG's form: of each group of documents one is required; what is not labelled may do as well."
)


def import_autorag(qa: Path | str, *, corpus: Path | str, settings: Settings | None = None) -> Converted:
    """Make a dataset of AutoRAG's questions over its corpus. Ids: see `conversion`; splits are by hash of the query id.

    Both files are `.json` (a list of objects, or pandas' columns), `.jsonl`, `.csv` or, where pandas and pyarrow are
    installed, `.parquet`. A group of several documents becomes alternatives. Where documents of one group stand in
    another as well: a group that holds all documents of another one is implied by it and left out; what overlaps
    otherwise cannot be said by labels, and the query is kept unlabelled. Documents that are not in the corpus are left
    out first: what overlapped in these alone does not overlap.

    Raises:
        StorageError: a file is missing, cannot be read, or is Parquet and cannot be read here (says what to do).
        InputError: lines that cannot be read, fields that are missing, ids that stand twice: all at once.
    """
    qa, corpus = Path(qa), Path(corpus)
    settings = settings or Settings()
    faults: list[Fault] = []
    documents = [_document(row) for row in _rows(corpus, faults)]
    catalog = catalog_of((one for one in documents if one is not None), settings.type, faults)
    if not documents and not faults:
        faults.append(Fault("the file is empty; expected documents with doc_id and contents", corpus))
    tally = Tally(NO_DOCUMENT, PARTLY, UNLABELLED, IMPLIED, OVERLAP, RENAMED)
    known = {item.name for item in catalog}
    queries: list[DatasetQuery] = []
    labels: list[Label] = []
    first: dict[str, int] = {}
    for row in _rows(qa, faults):
        query_id, text = tally.query_id(row.take("qid", str, "", required=True)), _text(row, "query")
        groups = _groups(row)
        if first.setdefault(query_id, row.line) != row.line:
            row.fault(f"query {query_id!r} stands twice, first in line {first[query_id]}")
        elif query_id:
            there, partly = _resolved(query_id, groups, known, tally)
            request = Request(id=query_id, text=text)
            queries.append(DatasetQuery(request=request, split=split_of(query_id), partly_labelled=partly))
            labels += _labels(query_id, there, settings.type)
    if not first and not faults:
        faults.append(Fault("the file is empty; expected questions with qid, query and retrieval_gt", qa))
    if faults:
        raise InputError(faults, subject=str(qa))
    dataset = Dataset(
        name=settings.name or dataset_name(None, qa),
        version=settings.version or "1",
        catalog=catalog,
        queries=tuple(queries),
        labels=tuple(labels),
    )
    counted = {*tally.ids[PARTLY], *tally.ids[OVERLAP]}
    tally.add(UNLABELLED, *(name for name in dataset.unlabelled if name not in counted))
    card = about(settings, form="AutoRAG", files=[corpus, qa], labelling=_LABELLING, tally=tally)
    return tally.converted(replace(dataset, about=card))


def _resolved(
    query: str, groups: Sequence[Sequence[str]], known: set[str], tally: Tally
) -> tuple[list[list[str]], bool]:
    """The groups that labels can say, and whether something required is not in the corpus."""
    missing = [name for name in dict.fromkeys(name for group in groups for name in group) if name not in known]
    tally.add(NO_DOCUMENT, *(f"{query} {name}" for name in missing))
    needed, implied, _ = minimal_groups(groups)  # a group that is not there implies others just as well
    there = [[name for name in group if name in known] for group in needed]
    left, more, overlap = minimal_groups(there)
    tally.add(IMPLIED, *[query] * (implied + more))
    if overlap:
        tally.add(OVERLAP, query)
        return [], False
    partly = not all(there) and bool(left)
    if partly:
        tally.add(PARTLY, query)
    return left, partly


def _labels(query: str, groups: Sequence[Sequence[str]], item_type: str) -> Iterator[Label]:
    for number, group in enumerate(groups, start=1):
        name = f"group {number}" if len(group) > 1 else ""
        for document in group:
            yield Label(query, key_of(document, item_type), Grade.REQUIRED, alternatives=name, source=SOURCE)


def _document(row: Row) -> Document | None:
    doc_id, text = row.take("doc_id", str, "", required=True), _text(row, "contents")
    return Document(id=doc_id, title="", text=text, place=(row.path, row.line)) if doc_id else None


def _text(row: Row, name: str) -> str:
    if row.data.get(name) is None:
        row.fault(f"field {name!r} is missing; expected a text (it may be empty)")
    return row.take(name, str, "")


def _groups(row: Row) -> list[list[str]]:
    """`retrieval_gt` as groups of document ids: a text is one document, a list of texts one group."""
    given = value = row.data.get("retrieval_gt")
    if isinstance(value, str) and value.strip().startswith("["):
        value = _parsed(value)  # a CSV file holds lists as text
    if isinstance(value, str) and value:
        return [[value]]
    if isinstance(value, list):
        if all(isinstance(entry, str) for entry in value):
            return [value] if value else []
        if all(isinstance(group, list) and all(isinstance(entry, str) for entry in group) for group in value):
            return [group for group in value if group]
    row.fault(f"field 'retrieval_gt' must be document ids in groups, such as [[a, b], [c]], got {given!r:.60}")
    return []


def _parsed(text: str) -> Any:
    """A list that was written as text, as JSON or as Python writes it; None if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        try:
            return ast.literal_eval(text)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None


def _rows(path: Path, faults: list[Fault]) -> Iterator[Row]:
    """The rows of a file in any of the forms, with their lines (of JSON and Parquet: their numbers)."""
    form = path.suffix.lower()
    if form == ".jsonl":
        found: Iterator[tuple[int, Mapping[str, Any]]] = iter(iter_jsonl(path, faults))
    elif form == ".csv":
        found = _csv_rows(path, faults)
    elif form == ".json":
        found = _json_rows(path)
    elif form == ".parquet":
        found = _parquet_rows(path)
    else:
        message = f"expected a file that ends in .jsonl, .json, .csv or .parquet, got {path.name}"
        raise InputError([Fault(message, path)])
    for line, data in found:
        yield Row(data, faults, path, line)


def _json_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    data = read_json(path)
    columns = list(data.values()) if isinstance(data, dict) else []
    if columns and all(isinstance(column, dict) for column in columns):  # pandas writes columns by row label
        data = [{name: column.get(label) for name, column in data.items()} for label in columns[0]]
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise InputError([Fault("expected a JSON list of objects, or columns as pandas writes them", path, 1)])
    yield from enumerate(data, start=1)


def _csv_rows(path: Path, faults: list[Fault]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    before = csv.field_size_limit(_LARGEST_FIELD)
    try:
        reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
        header: list[str] = []
        start = 1
        try:
            for fields in reader:
                line, start = start, reader.line_num + 1
                if not header:
                    header = fields
                elif fields and len(fields) != len(header):
                    faults.append(
                        Fault(f"expected {len(header)} fields as in the header, got {len(fields)}", path, line)
                    )
                elif fields:
                    yield line, dict(zip(header, fields, strict=True))
        except csv.Error as error:
            what = f"malformed CSV: {error}; a row starts here that does not end: a quote is broken or missing"
            faults.append(Fault(what, path, start))
    finally:
        csv.field_size_limit(before)


def _parquet_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if not path.is_file():
        raise StorageError(f"cannot read {path}: no such file")
    try:
        table = importlib.import_module("pandas").read_parquet(path)
    except ImportError as error:
        raise StorageError(
            f"{path} is Parquet, which takes pandas and pyarrow: pip install pandas pyarrow; or write it elsewhere as "
            f'JSON lines: pandas.read_parquet("{path.name}").to_json("{path.stem}.jsonl", orient="records", lines=True)'
        ) from error
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read {path}: {error}; expected a Parquet file") from error
    rows = json.loads(table.to_json(orient="records"))  # arrays become lists
    yield from enumerate(rows, start=1)
