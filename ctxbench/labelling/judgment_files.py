"""Read BEIR, TREC and AutoRAG files as datasets, and export datasets to them.

* BEIR: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`, as github.com/beir-cellar/beir reads them
  (`beir/datasets/data_loader.py`): qrels have a header, then query id, corpus id and a whole number, separated by tabs,
  quoted as in CSV.
* TREC: qrels (`query 0 document relevance`) and runs (`query Q0 document rank score tag`), as trec_eval reads them
  (github.com/usnistgov/trec_eval): a run is ordered by falling score, its rank is ignored, and of equal scores the
  greater document id comes first.
* AutoRAG: `retrieval_gt` is `[[a, b], [c]]`, (a or b) and c. Source: github.com/Marker-Inc-Korea/AutoRAG,
  `autorag/utils/preprocess.py` (`cast_qa_dataset`): columns `qid`, `query`, `retrieval_gt`, and `doc_id` and `contents`
  of the corpus. A list of texts is one group (any of them is enough); a text alone is one document. Other columns are
  ignored.

An export has `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv` (BEIR) and `qrels/<split>.qrels` (TREC), with `run`
also `runs/<selector>.run`, and `export.json`: the names of these files, the card, and fields that the format lacks.
Labels of queries that our metrics ignore are not in qrels, so that means over qrels use the same queries. They are in
`metadata.ctxbench` with other fields that the format lacks, and our importers restore an equal dataset. `plain` writes
no `metadata`. Scores of runs are reversed ranks, so that there are no ties.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ctxbench.datasets.dataset import Dataset, split_of
from ctxbench.datasets.queries import DatasetQuery, Label, group_labels, group_pairs, minimal_groups
from ctxbench.evaluation.answers import Slice, StoredAnswers
from ctxbench.evaluation.run_folder import RunFolder
from ctxbench.io.documents import dump_json, dump_jsonl, read_json
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, StorageError, none_found, raise_faults
from ctxbench.io.files import atomic_folder, file_name, iter_lines, write_atomic
from ctxbench.io.rows import Row
from ctxbench.labelling.conversion import (
    EXPORT_FILE,
    EXPORT_KEY,
    NO_DOCUMENT,
    ODD,
    PARTLY,
    RENAMED,
    SOURCE,
    UNLABELLED,
    Assembly,
    Conversion,
    Draft,
    ExportedCard,
    ImportSettings,
    Judgment,
    PublishedDocument,
    read_documents,
    read_queries,
    refuse_empty,
    unique_entries,
)
from ctxbench.labelling.record_files import parse_list, read_records
from ctxbench.model.arrays import DEPTH, Grade
from ctxbench.model.candidates import Origin
from ctxbench.model.items import Catalog, ItemKey
from ctxbench.model.requests import Request
from ctxbench.selectors.protocol import catalog_message, request_messages

HEADER = ("query-id", "corpus-id", "score")


def import_beir(folder: Path | str, settings: ImportSettings | None = None) -> Conversion:
    """Make a dataset of a BEIR folder. Ids, grades and splits: see `conversion`.

    The split of a query is that of its qrels (`tuning`, if there are several). A query without labels is unlabelled,
    with a split by the hash of its id. An export of ctxbench gives an equal dataset.

    Raises:
        StorageError: a file is missing or cannot be read.
        InputError: lines are unreadable, the header is wrong, ids are repeated, scores contradict each other or need a
            mapping: all faults, with file and line.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise StorageError(
            f"cannot read {folder}: no such folder; expected one with corpus.jsonl, queries.jsonl, qrels/"
        )
    if (folder / "dataset.yaml").is_file():
        raise InputError([Fault("this is a dataset of ctxbench (dataset.yaml), which needs no import", folder)])
    qrels = sorted((folder / "qrels").glob("*.tsv"))
    if not qrels:
        raise StorageError(
            f"cannot read {folder / 'qrels'}: no .tsv file there; expected one per split, such as test.tsv"
        )
    corpus, queries = folder / "corpus.jsonl", folder / "queries.jsonl"
    draft = Draft(settings or ImportSettings(), ODD)
    return Assembly(
        draft=draft,
        export=ExportedCard.from_folder(folder, draft.faults),
        items=read_documents(corpus, draft.settings, draft.faults),
        queries=read_queries(queries, draft.faults),
        judgments=[judgment for path in qrels for judgment in read_qrels(path, draft.faults)],
    ).conversion(form="BEIR", files=[corpus, queries, *qrels], labelling=_published("BEIR's layout"), where=folder)


def _published(form: str) -> str:
    """The card's `labelling` of a published format."""
    return str(Message("labelling.card-published", form=form))


def read_qrels(path: Path, faults: list[Fault]) -> Iterator[Judgment]:
    """Read the labels of one qrels file, which is named after its split, and add its faults."""
    lines = iter_lines(path, faults)
    number, header = next(lines, (1, ""))
    if tuple(header.split("\t")) != HEADER:
        message = Message("labelling.qrels-header", header=" ".join(HEADER), got=header)
        faults.append(Fault(message, path, number))
        return
    for number, text in lines:
        if not text.strip():
            continue
        try:
            fields = next(csv.reader([text], delimiter="\t")) if '"' in text else text.split("\t")
        except csv.Error as error:
            faults.append(Fault(f"malformed line: {error}", path, number))
            continue
        if len(fields) != len(HEADER):
            faults.append(Fault(Message("labelling.tabs", expected="3 fields", got=len(fields)), path, number))
            continue
        if (score := score_of(fields[2], path, number, faults)) is not None:
            yield Judgment(fields[0], fields[1], score, path.stem, path, number)


def score_of(text: str, path: Path, line: int, faults: list[Fault]) -> int | None:
    """The score in a text; None, and a fault, if it is not a whole number."""
    try:
        return int(text)
    except ValueError:
        faults.append(Fault(Message("labelling.score-form", kind="whole", got=text), path, line))
        return None


def import_trec(
    qrels: Mapping[str, Path], *, queries: Path, corpus: Path, settings: ImportSettings | None = None
) -> Conversion:
    """Make a dataset of TREC qrels, with queries and documents. Ids, grades and splits: see `conversion`.

    Args:
        qrels: files by split; with an empty name, queries get splits by the hash of their ids.
        queries: JSON lines with an id and a text, or `.tsv` with `id text`.
        corpus: JSON lines with an id, a text and perhaps a title, or `.tsv` with `id text` or `id title text`.
        settings: settings of the import.

    Raises:
        ParameterError: there are no qrels.
        StorageError: a file is missing or cannot be read.
        InputError: lines are unreadable, ids are repeated, scores contradict each other or need a mapping: all faults,
            with file and line.
    """
    if not qrels:
        raise ParameterError("no qrels; expected at least one file, as PATH or SPLIT=PATH")
    draft = Draft(settings or ImportSettings(), ODD)
    return Assembly(
        draft=draft,
        export=ExportedCard.from_folder(queries.parent, draft.faults),
        items=read_documents(corpus, draft.settings, draft.faults),
        queries=read_queries(queries, draft.faults),
        judgments=[
            judgment for split, path in qrels.items() for judgment in read_trec_qrels(path, split, draft.faults)
        ],
    ).conversion(
        form="TREC", files=[corpus, queries, *qrels.values()], labelling=_published("TREC's qrels"), where=queries
    )


def read_trec_qrels(path: Path, split: str, faults: list[Fault]) -> Iterator[Judgment]:
    """Read the labels of one qrels file, and add its faults. An empty file has no labels."""
    for number, (query, _, document, relevance) in _rows(path, ("query", "0", "document", "relevance"), faults):
        if (score := score_of(relevance, path, number, faults)) is not None:
            yield Judgment(query, document, score, split, path, number)


def _rows(path: Path, columns: Sequence[str], faults: list[Fault]) -> Iterator[tuple[int, list[str]]]:
    """The lines of a file as fields; another number of fields is a fault."""
    for number, text in iter_lines(path, faults):
        fields = text.split()
        if len(fields) == len(columns):
            yield number, fields
        elif fields:
            message = Message("labelling.fields-by-blanks", n=len(columns), columns=columns, got=len(fields))
            faults.append(Fault(message, path, number))


def read_run(path: Path | str) -> dict[str, list[tuple[str, float]]]:
    """Read a run: (document, score) by query, best first, queries in the order of the file.

    Raises:
        StorageError: the file cannot be read.
        InputError: a line does not have 6 fields, a score is not a finite number, or a document is repeated in a query:
            all faults, with lines.
    """
    path = Path(path)
    faults: list[Fault] = []
    rows: dict[str, dict[str, float]] = {}
    for number, fields in _rows(path, ("query", "Q0", "document", "rank", "score", "tag"), faults):
        query, _, document, _, score, _ = fields
        try:
            value = float(score)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            faults.append(Fault(Message("labelling.score-form", kind="finite", got=score), path, number))
        elif document in rows.setdefault(query, {}):
            faults.append(Fault(Message("labelling.document-twice", document=document, query=query), path, number))
        else:
            rows[query][document] = value
    refuse_empty(rows, path, faults, expected="one ranked document per line")
    raise_faults(faults, subject=str(path))
    return {
        query: sorted(sorted(scores.items(), reverse=True), key=lambda pair: -pair[1]) for query, scores in rows.items()
    }


def answers_of_run(
    run: Mapping[str, Sequence[tuple[str, float]]], dataset: Dataset, *, keep: int
) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """Convert a run into answers for `ctxbench score`: the first `keep` documents are offered, all are the ranking.

    Documents are found by item id, or by published id (the name of an item).

    Args:
        run: from `read_run`.
        dataset: the dataset of the run.
        keep: offered items per query, >= 0.

    Returns:
        One answer per query of the dataset, in its order (empty without a ranking), and unresolved ids by issue.

    Raises:
        ParameterError: `keep` is negative, or no query, or no ranked document of the run is in the dataset.
    """
    if keep < 0:
        raise ParameterError(f"keep must be 0 or more, got {keep}")
    ids_by_name = group_pairs((item.name, item.id) for item in dataset.catalog)
    item_ids = {name: ids[0] for name, ids in ids_by_name.items() if len(ids) == 1}
    item_ids |= {item.id: item.id for item in dataset.catalog}
    queries = {query.id: run.get(query.id, ()) for query in dataset.queries}
    documents = list(dict.fromkeys(document for pairs in run.values() for document, _ in pairs))
    for names, noun, expected in ((list(run), "queries", queries), (documents, "ranked documents", item_ids)):
        if not any(name in expected for name in names):
            raise ParameterError(none_found(names, f"{noun} of the run", f"the dataset {dataset.name}", list(expected)))
    rankings = {
        query: [{"id": item_ids[document], "score": score} for document, score in pairs if document in item_ids]
        for query, pairs in queries.items()
    }
    if not any(rankings.values()):
        raise ParameterError(
            "no document ranked for queries of the dataset is in its catalog; expected item ids, or names of items, "
            f"such as {next(iter(item_ids), 'none')}"
        )
    answers = [{"query": query, "items": rows[:keep], "ranking": rows} for query, rows in rankings.items()]
    return answers, {
        "queries not in the dataset": [query for query in run if query not in queries],
        "queries not in the run": [query for query in queries if query not in run],
        "documents not in the dataset": [
            f"{query} {document}"
            for query, pairs in queries.items()
            for document, _ in pairs
            if document not in item_ids
        ],
    }


IMPLIED = "groups implied by other groups"
OVERLAP = "unlabelled queries (overlapping groups)"


def import_autorag(qa: Path | str, *, corpus: Path | str, settings: ImportSettings | None = None) -> Conversion:
    """Make a dataset of the questions and the corpus of AutoRAG. Ids: see `conversion`; splits are by hash of ids.

    Both files are `.json` (a list of objects, or columns of pandas), `.jsonl`, `.csv` or, with pandas and pyarrow,
    `.parquet`. A group of several documents becomes alternatives. A group with all documents of another one is implied
    by it and removed. Queries with groups that overlap otherwise are unlabelled. Documents that are not in the corpus
    are removed first.

    Raises:
        StorageError: a file is missing or cannot be read, or is Parquet and pandas or pyarrow are missing.
        InputError: lines are unreadable, fields are missing, ids are repeated: all faults.
    """
    qa, corpus = Path(qa), Path(corpus)
    draft = Draft(settings or ImportSettings(), (NO_DOCUMENT, PARTLY, UNLABELLED, IMPLIED, OVERLAP, RENAMED))
    rows = ((row.take("doc_id", str, "", required=True), row) for row in read_records(corpus, draft.faults))
    documents = unique_entries("document", ((doc_id, row, _text(row, "contents")) for doc_id, row in rows))
    refuse_empty(documents, corpus, draft.faults, expected="documents with doc_id and contents")
    rows = ((row.take("qid", str, "", required=True), row) for row in read_records(qa, draft.faults))
    entries = ((draft.query_id(qid), row, (_text(row, "query"), _groups(row))) for qid, row in rows)
    queries = unique_entries("query", entries)
    refuse_empty(queries, qa, draft.faults, expected="qid, query and retrieval_gt")
    item_type = draft.settings.type
    for query_id, (text, groups) in queries.items():
        minimal, partly = _minimal_groups(query_id, groups, documents, draft)
        draft.queries.append(
            DatasetQuery(request=Request(id=query_id, text=text), split=split_of(query_id), partly_labelled=partly)
        )
        keys = [[ItemKey(item_type, None, document) for document in group] for group in minimal]
        draft.labels += group_labels(query_id, keys, source=SOURCE)
        draft.stated["'retrieval_gt'"] += len(groups)
    items = (PublishedDocument(id=name, title="", text=text).item(item_type) for name, text in documents.items())
    labelling = _published("AutoRAG's form: one document of each group is required")
    return draft.conversion(Catalog(items), form="AutoRAG", files=[corpus, qa], labelling=labelling, where=qa)


def _minimal_groups(
    query: str, groups: Sequence[Sequence[str]], documents: Container[str], draft: Draft
) -> tuple[list[list[str]], bool]:
    """The groups for labels, and whether a required document is not in the corpus."""
    missing = [name for name in dict.fromkeys(name for group in groups for name in group) if name not in documents]
    draft.ids[NO_DOCUMENT] += [f"{query} {name}" for name in missing]
    required, n_implied, _ = minimal_groups(groups)  # missing groups imply others, too
    present = [[name for name in group if name in documents] for group in required]
    minimal, n_implied_by_present, overlap = minimal_groups(present)
    draft.ids[IMPLIED] += [query] * (n_implied + n_implied_by_present)
    partly = not all(present) and bool(minimal)
    if overlap or partly or not minimal:
        draft.ids[OVERLAP if overlap else PARTLY if partly else UNLABELLED].append(query)
    return ([], False) if overlap else (minimal, partly)


def _text(row: Row, name: str) -> str:
    if row.data.get(name) is None:
        row.fault(f"field {name!r} is missing; expected a text")
    return row.take(name, str, "")


def _groups(row: Row) -> list[list[str]]:
    """The groups of document ids in `retrieval_gt`: a text is one document, a list of texts one group."""
    published = value = row.data.get("retrieval_gt")
    if isinstance(value, str) and value.strip().startswith("["):
        value = parse_list(value)  # in a CSV file
    if isinstance(value, str) and value:
        return [[value]]
    if isinstance(value, list):
        if all(isinstance(entry, str) for entry in value):
            return [value] if value else []
        if all(isinstance(group, list) and all(isinstance(entry, str) for entry in group) for group in value):
            return [group for group in value if group]
    row.fault(Message("labelling.retrieval-gt", got=published))
    return []


FORMATS = ("beir", "trec")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """The files of an export, and the data that the format lacks.

    Attributes:
        folder: the folder.
        format: `beir` or `trec`.
        items, queries: the numbers of items and queries.
        labels: numbers of labels in qrels, by split.
        not_held: counts of data that the format lacks; it is lost only with `plain`.
        runs: files by selector.
        without_ranking: selectors without a ranking, which have no run.
        other_values: queries whose ranking metrics differ in other programs, by reason.
    """

    folder: Path
    format: str
    items: int
    queries: int
    labels: Mapping[str, int]
    not_held: Mapping[str, int]
    runs: Mapping[str, str] = field(default_factory=dict)
    without_ranking: tuple[str, ...] = ()
    other_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The statistics as JSON."""
        return {**asdict(self), "folder": str(self.folder)}


def request_rows(dataset: Dataset, *, may_offer: bool = False) -> Iterator[dict[str, Any]]:
    """The input of an external command: a catalog, then its requests, one per line.

    Args:
        dataset: any.
        may_offer: add to each request `may_offer` (the ids of all items that may be offered, in catalog order) and
            perhaps `session` (the ids of items in the session).

    Yields:
        The messages of `ctxbench.selectors.protocol`: one with the catalog, then one per query, in the order of the
        dataset. Queries with other items follow another catalog.
    """
    batch, ids = dataset.batch(), dataset.current_catalog.ids
    last = ""
    for row, message in request_messages(batch, range(len(batch)), "items"):
        if message["catalog"] != last:
            last = message["catalog"]
            yield catalog_message(batch, row, "items") or {}
        fields: dict[str, Any] = {}
        if may_offer:
            session = batch.session_item[batch.session_start[row] : batch.session_start[row + 1]]
            fields = {"may_offer": [ids[position] for position in np.flatnonzero(batch.eligible[row])]}
            fields |= {"session": [ids[position] for position in session]} if len(session) else {}
        yield {**message, **fields}


def export_dataset(
    dataset: Dataset, folder: Path | str, *, form: str, plain: bool = False, run: Path | str | None = None
) -> ExportReport:
    """Write a dataset in another format, all of it or nothing.

    Args:
        dataset: any.
        folder: a new or empty folder, or an earlier export, which is replaced.
        form: `beir` or `trec`.
        plain: write only data of the format.
        run: with `trec`, the folder of a finished run on this dataset; the ranking of each selector is written to
            depth 100, without the session.

    Raises:
        ParameterError: the format is unknown, the folder has other files, or a run is to be written as BEIR.
        StorageError: the run is missing, damaged, or of another dataset; or the folder cannot be written.
    """
    folder = Path(folder)
    if form not in FORMATS:
        raise ParameterError(f"the format must be {' or '.join(FORMATS)}, got {form!r}")
    if run is not None and form != "trec":
        raise ParameterError("runs are written in TREC's format only; export with `--format trec`")
    _check_folder(folder)
    parts = {} if run is None else _answers(dataset, Path(run))
    ranked = {name: answers for name, answers in parts.items() if answers.ranked}
    judged = _judged(dataset)
    with atomic_folder(folder) as temporary:
        write_atomic(temporary / "corpus.jsonl", dump_jsonl(_corpus_rows(dataset, plain=plain)))
        write_atomic(temporary / "queries.jsonl", dump_jsonl(_query_rows(dataset, judged, plain=plain)))
        counts = _write_qrels(dataset, judged, temporary / "qrels", form)
        for name, answers in ranked.items():
            write_atomic(temporary / "runs" / f"{file_name(name)}.run", _run(dataset, name, answers))
        missing = not_held(dataset)
        about = {"format": form, "plain": plain, "files": _files(temporary)}
        details = {} if plain else {"dataset": _card(dataset), "not_held": missing}
        write_atomic(temporary / EXPORT_FILE, dump_json({**about, **details}, indent=2))
    return ExportReport(
        folder=folder,
        format=form,
        items=len(dataset.catalog),
        queries=len(dataset),
        labels=counts,
        not_held=missing,
        runs={name: f"runs/{file_name(name)}.run" for name in ranked},
        without_ranking=tuple(name for name, answers in parts.items() if not answers.ranked),
        other_values=_other_values(dataset, judged) if ranked else {},
    )


def _files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _check_folder(folder: Path) -> None:
    """Check that a folder is new, or has the files of an export only.

    Raises:
        ParameterError: it is a file, or has other files.
    """
    if not folder.exists():
        return
    problem = "it is a file"
    if folder.is_dir():
        names = _own_names(folder / EXPORT_FILE)
        extra = next((path for path in folder.rglob("*") if path.relative_to(folder).as_posix() not in names), None)
        if extra is None:
            return
        problem = f"{extra.relative_to(folder)} is not in {EXPORT_FILE}"
    raise ParameterError(f"{folder} would be replaced, but {problem}; name another folder, or delete it")


def _own_names(path: Path) -> set[str]:
    """The files and folders of an export, from its `export.json`; empty if that is missing or invalid."""
    try:
        data = read_json(path) if path.is_file() else None
    except InputError:
        return set()
    files = data.get("files") if isinstance(data, dict) else None
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        return set()
    return {EXPORT_FILE, *files, *(str(parent) for name in files for parent in PurePosixPath(name).parents)}


def not_held(dataset: Dataset) -> dict[str, int]:
    """Count the data of a dataset that BEIR and TREC lack; without counts of 0."""
    queries, labels = dataset.queries, dataset.labels
    judged = _judged(dataset)
    requests = [query.request for query in queries]
    counts = {
        "labels that are alternatives": sum(bool(label.alternatives) for label in labels),
        "labels that are dependencies": sum(label.via != "direct" for label in labels),
        "labels with a source": sum(bool(label.source) for label in labels),
        "labels with a quote": sum(bool(label.quote) for label in labels),
        "labels of unlabelled queries": sum(label.query not in judged for label in labels),
        "queries that need nothing": sum(query.needs_nothing for query in queries),
        "unlabelled or partly labelled queries": len(dataset.unlabelled),
        "queries with a group": sum(query.group is not None for query in queries),
        "queries with tags": sum(bool(query.tags) for query in queries),
        "queries with scope or `available`": sum(r.available is not None for r in requests),
        "queries with a session": sum(request.session is not None for request in requests),
        "queries with history": sum(bool(request.history) for request in requests),
        "queries with `removed` or `explicit`": sum(bool(r.removed or r.explicit) for r in requests),
        "queries with `recent` or `uses`": sum(bool(r.recent or r.uses) for r in requests),
        "queries with tool results": sum(bool(request.tool_results) for request in requests),
        "queries with conversation, user or time": sum(
            any(v is not None for v in (r.conversation, r.turn, r.user, r.workspace, r.time)) for r in requests
        ),
        "named scopes": len(dataset.scopes),
        "items with a schema": sum(item.schema is not None for item in dataset.catalog),
        "always or manually included items": sum(item.include != "agent" for item in dataset.catalog),
        "disabled items": sum(not item.enabled for item in dataset.catalog),
    }
    return {noun: count for noun, count in counts.items() if count}


def _judged(dataset: Dataset) -> set[str]:
    """The queries with labels in qrels: fully labelled ones with required items."""
    return {label.query for label in dataset.labels if label.grade == Grade.REQUIRED} - set(dataset.unlabelled)


def _corpus_rows(dataset: Dataset, *, plain: bool) -> Iterator[dict[str, Any]]:
    for item in dataset.catalog:
        row = {"_id": item.id, "title": "", "text": item.search_text}
        rest = {name: value for name, value in item.as_row().items() if name not in ("_id", "type", "server", "name")}
        yield row if plain else {**row, "metadata": {EXPORT_KEY: rest}}


def _query_rows(dataset: Dataset, judged: set[str], *, plain: bool) -> Iterator[dict[str, Any]]:
    for query in dataset.queries:
        row = query.as_row()
        exported = {"_id": row.pop("_id"), "text": row.pop("text")}
        labels = _details(query, dataset.labels_of(query.id), in_qrels=query.id in judged)
        rest = {**row, "labels": labels} if labels else row
        yield exported if plain else {**exported, "metadata": {EXPORT_KEY: rest}}


def _details(query: DatasetQuery, labels: Iterable[Label], *, in_qrels: bool) -> dict[str, dict[str, Any]]:
    """By item, the fields of labels that qrels lack; with the grade if the query is not in qrels."""
    details = {}
    for label in labels:
        entry: dict[str, Any] = {} if in_qrels else {"grade": label.grade}
        defaults = Label(query.id, label.item, label.grade)
        for name in ("via", "alternatives", "source", "quote"):
            if getattr(label, name) != getattr(defaults, name):
                entry[name] = getattr(label, name)
        if entry:
            details[label.item.id] = entry
    return details


def _write_qrels(dataset: Dataset, judged: set[str], folder: Path, form: str) -> dict[str, int]:
    """Write the labels of the judged queries; returns their numbers by split."""
    counts = {}
    for split in dataset.split_names:
        queries = [query.id for query in dataset.queries if query.split == split and query.id in judged]
        labels = [label for query in queries for label in dataset.labels_of(query)]
        counts[split] = len(labels)
        if form == "beir":
            write_atomic(folder / f"{split}.tsv", _beir(labels))
        else:
            lines = (f"{label.query} 0 {label.item.id} {label.grade}\n" for label in labels)
            write_atomic(folder / f"{split}.qrels", _escape_mark("".join(lines)))
    return counts


def _beir(labels: Iterable[Label]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows((label.query, label.item.id, label.grade) for label in labels)
    return stream.getvalue()


def _escape_mark(text: str) -> str:
    """The text of a file; a U+FEFF at its start is doubled, as readers remove a byte order mark."""
    return f"\ufeff{text}" if text.startswith("\ufeff") else text


def _card(dataset: Dataset) -> dict[str, Any]:
    card = {name: value for name, value in dataset.of_agent(None).card.items() if name not in ("format", "counts")}
    return {**card, "hash": dataset.hash}


def _answers(dataset: Dataset, run: Path) -> dict[str, Slice | StoredAnswers]:
    """The answers of every selector of a run on this dataset, by selector.

    Raises:
        StorageError: the run is missing or damaged, or none of its datasets is this one.
    """
    store = RunFolder(run)
    manifest = store.read("manifest.json")
    datasets = {name: entry["hash"] for name, entry in manifest["datasets"].items()}
    name = next((name for name, content in datasets.items() if content == dataset.hash), None)
    if name is None:
        listed = ", ".join(f"{name} {content[:12]}" for name, content in datasets.items())
        raise StorageError(
            f"{run} is a run on {listed}, not on {dataset.name} {dataset.hash[:12]}; export the dataset of the run"
        )
    return {selector: store.load(name, selector).answers for selector in manifest["selectors"]}


def _run(dataset: Dataset, selector: str, answers: Slice | StoredAnswers) -> str:
    """The rankings of one selector, best first, to `DEPTH`, without the session."""
    tag = file_name(selector).replace(" ", "%20")
    return _escape_mark(
        "".join(line for block in answers.blocks() for line in _run_lines(dataset.catalog.ids, tag, block))
    )


def _run_lines(ids: Sequence[str], tag: str, answers: Slice) -> Iterator[str]:
    table = answers.candidates
    for index, query in enumerate(answers.queries):
        rows = np.arange(table.start[index], table.start[index + 1])
        session = set(table.item[rows[table.origin[rows] == Origin.SESSION]].tolist())
        candidates = table.item[rows[table.origin[rows] == Origin.SEARCH]].tolist()
        ranking = [item for item in candidates if item not in session][:DEPTH]
        for rank, item in enumerate(ranking, start=1):
            yield f"{query} Q0 {ids[item]} {rank} {len(ranking) - rank + 1} {tag}\n"


def _other_values(dataset: Dataset, judged: set[str]) -> dict[str, tuple[str, ...]]:
    """The queries whose metrics differ in other programs, by reason."""
    alternatives = {label.query for label in dataset.labels if label.alternatives}
    batch = dataset.batch()
    with_session_label = []
    for row, query in enumerate(dataset.queries):
        items = batch.session_item[batch.session_start[row] : batch.session_start[row + 1]].tolist()
        keys = {dataset.catalog[item].key for item in items}
        if any(label.item in keys and label.grade >= Grade.HELPFUL for label in dataset.labels_of(query.id)):
            with_session_label.append(query.id)
    queries_by_reason = {
        Message("labelling.alternatives-in-qrels"): [q.id for q in dataset.queries if q.id in alternatives & judged],
        Message("labelling.session-in-runs"): [q for q in with_session_label if q in judged],
    }
    return {why: tuple(queries) for why, queries in queries_by_reason.items() if queries}
