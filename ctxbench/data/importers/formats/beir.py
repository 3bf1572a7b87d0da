"""Datasets from any folder in BEIR's layout: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`.

Source: the loader of github.com/beir-cellar/beir (`beir/datasets/data_loader.py`): qrels have a header, then query id,
corpus id and a whole number, separated by tabs, quoted as in CSV.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from ctxbench.core.errors import Fault, InputError, StorageError
from ctxbench.data.importers.formats.assembly import ODD, Assembly, Judgment, read_documents, read_queries
from ctxbench.data.importers.formats.conversion import Conversion, Draft, ExportedCard, ImportSettings
from ctxbench.io.files import iter_lines

HEADER = ("query-id", "corpus-id", "score")
_LABELLING = "As published in BEIR's layout; what is not labelled may do as well."


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
        message = "this is a dataset of ctxbench already (dataset.yaml); use it as it is"
        raise InputError([Fault(message, folder)])
    qrels = sorted((folder / "qrels").glob("*.tsv"))
    if not qrels:
        raise StorageError(
            f"cannot read {folder / 'qrels'}: no .tsv file there; expected one a split, such as test.tsv"
        )
    corpus, queries = folder / "corpus.jsonl", folder / "queries.jsonl"
    draft = Draft(settings or ImportSettings(), ODD)
    assembly = Assembly(
        draft=draft,
        export=ExportedCard.beside(folder, draft.faults),
        items=read_documents(corpus, draft.settings, draft.faults),
        queries=read_queries(queries, draft.faults),
        judgments=[judgment for path in qrels for judgment in read_qrels(path, draft.faults)],
    )
    return assembly.conversion(form="BEIR", files=[corpus, queries, *qrels], labelling=_LABELLING, where=folder)


def read_qrels(path: Path, faults: list[Fault]) -> Iterator[Judgment]:
    """Read the labels of one qrels file, whose name is the split; faults are added to `faults`."""
    lines = iter_lines(path, faults)
    number, header = next(lines, (1, ""))
    if tuple(header.split("\t")) != HEADER:
        expected = f"expected {' '.join(HEADER)}, separated by tabs"
        what = f"the first line must be the header; {expected}, got {header!r:.80}"
        faults.append(Fault(what if header else f"the file is empty; {expected}", path, number))
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
