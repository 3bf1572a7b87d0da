"""Datasets from files of judgments: any folder in BEIR's layout, and TREC's qrels; and runs in TREC's form.

* BEIR: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`, as the loader of github.com/beir-cellar/beir reads them
  (`beir/datasets/data_loader.py`): qrels have a header, then query id, corpus id and a whole number, separated by tabs,
  quoted as in CSV.
* TREC: qrels (`query 0 document relevance`) and runs (`query Q0 document rank score tag`), as trec_eval reads them
  (github.com/usnistgov/trec_eval). As there, a run is ordered by falling score, the rank that it states is not used,
  and of equal scores the greater document id comes first.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError, ParameterError, StorageError, none_found, raise_faults
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.importers.formats.assembly import ODD, Assembly, Judgment, read_documents, read_queries
from ctxbench.data.importers.formats.conversion import Conversion, Draft, ExportedCard, ImportSettings, refuse_empty
from ctxbench.io.files import iter_lines

HEADER = ("query-id", "corpus-id", "score")
_BEIR_LABELLING = "As published in BEIR's layout; what is not labelled may do as well."
_TREC_LABELLING = "As published in TREC's qrels; what is not labelled may do as well."


def import_beir(folder: Path | str, settings: ImportSettings | None = None) -> Conversion:
    """Make a dataset of a BEIR folder. Ids, grades and splits: see `conversion`.

    A query is of the split whose qrels label it (`tuning`, if several do); one that none labels is kept unlabelled, in
    the split that its id's hash falls in. A folder that `ctxbench data export` wrote gives back the equal dataset.

    Raises:
        StorageError: a file is missing or cannot be read.
        InputError: lines that cannot be read, a wrong header, ids that stand twice, scores that contradict each other
            or need a mapping: all at once, with file and line.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise StorageError(
            f"cannot read {folder}: no such folder; expected one with corpus.jsonl, queries.jsonl, qrels/"
        )
    if (folder / "dataset.yaml").is_file():
        raise InputError([Fault("this is a dataset of ctxbench already (dataset.yaml); use it as it is", folder)])
    qrels = sorted((folder / "qrels").glob("*.tsv"))
    if not qrels:
        raise StorageError(
            f"cannot read {folder / 'qrels'}: no .tsv file there; expected one a split, such as test.tsv"
        )
    corpus, queries = folder / "corpus.jsonl", folder / "queries.jsonl"
    draft = Draft(settings or ImportSettings(), ODD)
    assembly = Assembly(
        draft=draft,
        export=ExportedCard.from_folder(folder, draft.faults),
        items=read_documents(corpus, draft.settings, draft.faults),
        queries=read_queries(queries, draft.faults),
        judgments=[judgment for path in qrels for judgment in read_qrels(path, draft.faults)],
    )
    return assembly.conversion(form="BEIR", files=[corpus, queries, *qrels], labelling=_BEIR_LABELLING, where=folder)


def read_qrels(path: Path, faults: list[Fault]) -> Iterator[Judgment]:
    """Read the labels of one qrels file, whose name is the split; faults are added to `faults`."""
    lines = iter_lines(path, faults)
    number, header = next(lines, (1, ""))
    if tuple(header.split("\t")) != HEADER:
        expected = f"expected {' '.join(HEADER)}, separated by tabs"
        message = f"the first line must be the header; {expected}, got {header!r:.80}"
        faults.append(Fault(message if header else f"the file is empty; {expected}", path, number))
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
            faults.append(Fault(f"expected 3 fields separated by tabs, got {len(fields)}", path, number))
            continue
        score = score_of(fields[2], path, number, faults)
        if score is not None:
            yield Judgment(fields[0], fields[1], score, path.stem, path, number)


def score_of(text: str, path: Path, line: int, faults: list[Fault]) -> int | None:
    """The score in a text, a whole number; None, and a fault, if the text is no whole number."""
    try:
        return int(text)
    except ValueError:
        faults.append(Fault(f"a score must be a whole number, got {text!r:.40}", path, line))
        return None


def import_trec(
    qrels: Mapping[str, Path], *, queries: Path, corpus: Path, settings: ImportSettings | None = None
) -> Conversion:
    """Make a dataset of TREC qrels, with queries and documents. Ids, grades and splits: see `conversion`.

    Args:
        qrels: file by split; under the empty name, queries get the split that their id's hash falls in.
        queries: JSON lines with an id and a text, or `.tsv` with `id text`.
        corpus: JSON lines with an id, a text and perhaps a title, or `.tsv` with `id text` or `id title text`.
        settings: how.

    Raises:
        ParameterError: no qrels are given.
        StorageError: a file is missing or cannot be read.
        InputError: lines that cannot be read, ids that stand twice, scores that contradict each other or need a
            mapping: all at once, with file and line.
    """
    if not qrels:
        raise ParameterError("no qrels; expected at least one file, as PATH or SPLIT=PATH")
    draft = Draft(settings or ImportSettings(), ODD)
    assembly = Assembly(
        draft=draft,
        export=ExportedCard.from_folder(queries.parent, draft.faults),
        items=read_documents(corpus, draft.settings, draft.faults),
        queries=read_queries(queries, draft.faults),
        judgments=[
            judgment for split, path in qrels.items() for judgment in read_trec_qrels(path, split, draft.faults)
        ],
    )
    files = [corpus, queries, *qrels.values()]
    return assembly.conversion(form="TREC", files=files, labelling=_TREC_LABELLING, where=queries)


def read_trec_qrels(path: Path, split: str, faults: list[Fault]) -> Iterator[Judgment]:
    """Read the labels of one qrels file; faults are added to `faults`. An empty file has no label."""
    for number, (query, _, document, relevance) in _rows(path, ("query", "0", "document", "relevance"), faults):
        score = score_of(relevance, path, number, faults)
        if score is not None:
            yield Judgment(query, document, score, split, path, number)


def _rows(path: Path, columns: Sequence[str], faults: list[Fault]) -> Iterator[tuple[int, list[str]]]:
    """The lines of a file as fields; a line with another number of fields is a fault."""
    for number, text in iter_lines(path, faults):
        fields = text.split()
        if len(fields) == len(columns):
            yield number, fields
        elif fields:
            message = f"expected {len(columns)} fields ({', '.join(columns)}) separated by blanks, got {len(fields)}"
            faults.append(Fault(message, path, number))


def read_run(path: Path | str) -> dict[str, list[tuple[str, float]]]:
    """Read a run: (document, score) by query, best first, queries in the order of the file.

    Raises:
        StorageError: the file cannot be read.
        InputError: a line has not 6 fields, a score is no finite number, or a document stands twice for a query: all
            at once, with line.
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
            faults.append(Fault(f"a score must be a finite number, got {score!r:.40}", path, number))
        elif document in rows.setdefault(query, {}):
            faults.append(Fault(f"document {document!r} stands twice for query {query!r}", path, number))
        else:
            rows[query][document] = value
    refuse_empty(rows, path, faults, expected="one ranked document a line")
    raise_faults(faults, subject=str(path))
    return {
        query: sorted(sorted(scores.items(), reverse=True), key=lambda pair: -pair[1]) for query, scores in rows.items()
    }


def answers_of_run(
    run: Mapping[str, Sequence[tuple[str, float]]], dataset: Dataset, *, keep: int
) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """Turn a run into answers that `ctxbench score` reads: the first `keep` are offered, all are the ranking.

    A document is found by its item id, or else by its published id (the name of an item).

    Args:
        run: as `read_run` gives it.
        dataset: whose queries and items it is about.
        keep: items offered a query, >= 0.

    Returns:
        One answer for every query of the dataset, in its order (none ranked: an empty answer), and what could not be
        resolved: ids by what it is.

    Raises:
        ParameterError: `keep` is negative, or no query or no document of the run is in the dataset, or none of the
            documents that it ranks for the dataset's queries is.
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
        message = "no ranked document of a query of the dataset is in its catalog"
        raise ParameterError(f"{message}; expected item ids, or names of items, such as {next(iter(item_ids), 'none')}")
    answers = [{"query": query, "items": rows[:keep], "ranking": rows} for query, rows in rankings.items()]
    return answers, {
        "queries that the dataset does not hold": [query for query in run if query not in queries],
        "queries that the run does not answer": [query for query in queries if query not in run],
        "ranked documents that the dataset does not hold": [
            f"{query} {document}"
            for query, pairs in queries.items()
            for document, _ in pairs
            if document not in item_ids
        ],
    }
