"""Export a dataset in formats of other programs: BEIR's folder, and TREC's files with runs.

```
corpus.jsonl         _id, title (empty), text (the search text: what our selectors index), metadata
queries.jsonl        _id, text, metadata
qrels/<split>.tsv    BEIR: query-id, corpus-id, score, with a header
qrels/<split>.qrels  TREC: query 0 document relevance
runs/<selector>.run  TREC, with `run`: query Q0 document rank score tag
export.json          the names of these files, the card, and what the format does not hold
```

Labels of queries that our metrics leave out (unlabelled, partly labelled, or in need of nothing) are not in qrels, so
that means over qrels are means over the same queries. They stand in `metadata.ctxbench`, as does everything else that
the format has no place for: other programs pass over it, and our importers give the equal dataset back. `plain` leaves
`metadata` out, and all of `export.json` but the names.

Scores of runs are ranks turned round: strictly falling whole numbers, so that no program breaks ties its own way.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ctxbench.bench.metrics.inputs import DEPTH, Grade
from ctxbench.bench.results import RunFolder
from ctxbench.bench.slices import Slice
from ctxbench.bench.stored_answers import StoredAnswers
from ctxbench.core.candidates import Origin
from ctxbench.core.errors import InputError, ParameterError, StorageError
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.importers.formats.conversion import EXPORT_FILE, EXPORT_KEY
from ctxbench.data.importers.formats.qrels import HEADER
from ctxbench.io.files import atomic_folder, file_name, write_atomic
from ctxbench.io.json_files import dump_json, dump_jsonl, read_json
from ctxbench.selectors.protocol import catalog_message, request_messages

FORMATS = ("beir", "trec")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """The files of an export, and what the format does not hold.

    Attributes:
        folder: where.
        format: `beir` or `trec`.
        items, queries: how many.
        labels: in qrels, by split.
        not_held: how many of what the format has no place for, by what it is; nothing of it is lost unless `plain`.
        runs: file by selector.
        without_ranking: selectors that returned no ranking, so that there is no run of them.
        other_values: queries whose ranking metrics are other ones in other programs, by the reason.
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
    """What a command of the user's own reads on standard input: a catalog, then the requests over it, a line each.

    Args:
        dataset: any.
        may_offer: add to each request `may_offer` (the ids of all items that may be offered for it, in the catalog's
            order) and, where there is one, `session` (the ids of what is offered in any case).

    Yields:
        The messages of `ctxbench.selectors.protocol`: one with the catalog, then one a query, in the dataset's order.
        Queries that see different items have different catalogs: each is followed by its queries.
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
    """Write a dataset in another format: as a whole or not at all.

    Args:
        dataset: any.
        folder: a new or empty one, or an earlier export and nothing else, which is replaced.
        form: `beir` or `trec`.
        plain: only what the format itself holds.
        run: with `trec`, the folder of a finished run on this dataset; the ranking of each selector is written to
            depth 100, without what the session holds.

    Raises:
        ParameterError: the format is none, the folder holds something else, or a run is to be written as BEIR.
        StorageError: the run is missing, damaged, or is not about this dataset; or the folder cannot be written.
    """
    folder = Path(folder)
    if form not in FORMATS:
        raise ParameterError(f"a dataset is exported as {' or '.join(FORMATS)}, got {form!r}")
    if run is not None and form != "trec":
        raise ParameterError("runs are written in TREC's format only; export with `--format trec`")
    _refuse_other(folder)
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


def _refuse_other(folder: Path) -> None:
    """Refuse a folder that holds other files than those of an export.

    Raises:
        ParameterError: it is a file, or holds something else.
    """
    if not folder.exists():
        return
    problem = "it is a file"
    if folder.is_dir():
        names = _own_names(folder / EXPORT_FILE)
        extra = next((path for path in folder.rglob("*") if path.relative_to(folder).as_posix() not in names), None)
        if extra is None:
            return
        problem = f"it holds {extra.relative_to(folder)}, which is no file of an export ({EXPORT_FILE} lists those)"
    raise ParameterError(f"{folder} would be replaced, but {problem}; name another folder, or delete it")


def _own_names(path: Path) -> set[str]:
    """The files and folders that an export wrote, by its `export.json`; none if that is missing or no such file."""
    try:
        data = read_json(path) if path.is_file() else None
    except InputError:
        return set()
    files = data.get("files") if isinstance(data, dict) else None
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        return set()
    return {EXPORT_FILE, *files, *(str(parent) for name in files for parent in PurePosixPath(name).parents)}


def not_held(dataset: Dataset) -> dict[str, int]:
    """Count the parts of a dataset that BEIR and TREC have no place for; counts of 0 are left out."""
    queries, labels = dataset.queries, dataset.labels
    judged = _judged(dataset)
    requests = [query.request for query in queries]
    counts = {
        "labels that are alternatives": sum(bool(label.alternatives) for label in labels),
        "labels that are dependencies": sum(label.via != "direct" for label in labels),
        "labels with a source": sum(bool(label.source) for label in labels),
        "labels with a quote": sum(bool(label.quote) for label in labels),
        "labels of queries that metrics leave out": sum(label.query not in judged for label in labels),
        "queries that need nothing": sum(query.needs_nothing for query in queries),
        "queries that are unlabelled or partly labelled": len(dataset.unlabelled),
        "queries with a group": sum(query.group is not None for query in queries),
        "queries with tags": sum(bool(query.tags) for query in queries),
        "queries with a scope or a list of what they may get": sum(r.available is not None for r in requests),
        "queries with a session": sum(request.session is not None for request in requests),
        "queries with history": sum(bool(request.history) for request in requests),
        "queries with removed or explicit items": sum(bool(r.removed or r.explicit) for r in requests),
        "queries with recent files or uses": sum(bool(r.recent or r.uses) for r in requests),
        "queries with tool results": sum(bool(request.tool_results) for request in requests),
        "queries with a conversation, turn, user, workspace or time": sum(
            any(v is not None for v in (r.conversation, r.turn, r.user, r.workspace, r.time)) for r in requests
        ),
        "named scopes": len(dataset.scopes),
        "items with a schema": sum(item.schema is not None for item in dataset.catalog),
        "items that are always or manually included": sum(item.include != "agent" for item in dataset.catalog),
        "items that are disabled": sum(not item.enabled for item in dataset.catalog),
    }
    return {noun: count for noun, count in counts.items() if count}


def _judged(dataset: Dataset) -> set[str]:
    """The queries whose labels are in qrels: those with required items that are all known."""
    required = {label.query for label in dataset.labels if label.grade == Grade.REQUIRED}
    return required - set(dataset.unlabelled)


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
    """By item, the fields of labels that qrels do not hold; with the grade where qrels do not have the query."""
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
    """Write the labels of the judged queries; returns how many there are, by split."""
    counts = {}
    for split in dataset.split_names:
        queries = [query.id for query in dataset.queries if query.split == split and query.id in judged]
        labels = [label for query in queries for label in dataset.labels_of(query)]
        counts[split] = len(labels)
        name, text = (f"{split}.tsv", _beir(labels)) if form == "beir" else (f"{split}.qrels", _trec(labels))
        write_atomic(folder / name, text)
    return counts


def _beir(labels: Iterable[Label]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows((label.query, label.item.id, label.grade) for label in labels)
    return stream.getvalue()


def _trec(labels: Iterable[Label]) -> str:
    return _escape_mark("".join(f"{label.query} 0 {label.item.id} {label.grade}\n" for label in labels))


def _escape_mark(text: str) -> str:
    """The text of a file; before a U+FEFF at its start stands another, which readers take for a byte order mark."""
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
            f"{run} is a run on {listed}, not on {dataset.name} {dataset.hash[:12]}; export the dataset as it was run"
        )
    return {selector: store.load(name, selector).answers for selector in manifest["selectors"]}


def _run(dataset: Dataset, selector: str, answers: Slice | StoredAnswers) -> str:
    """The rankings of one selector, best first, to `DEPTH`, without what the session holds."""
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
    """The queries for which other programs compute other values from qrels and run than we do, and why."""
    alternatives = {label.query for label in dataset.labels if label.alternatives}
    batch = dataset.batch()
    with_session_label = []
    for row, query in enumerate(dataset.queries):
        items = batch.session_item[batch.session_start[row] : batch.session_start[row + 1]].tolist()
        keys = {dataset.catalog[item].key for item in items}
        if any(label.item in keys and label.grade >= Grade.HELPFUL for label in dataset.labels_of(query.id)):
            with_session_label.append(query.id)
    queries_by_reason = {
        "alternatives count once here, and one by one in qrels": [
            q.id for q in dataset.queries if q.id in alternatives & judged
        ],
        "the session holds a labelled item, which is met here and not ranked": [
            q for q in with_session_label if q in judged
        ],
    }
    return {why: tuple(queries) for why, queries in queries_by_reason.items() if queries}
