"""AutoRAG's questions and corpus: `retrieval_gt` is `[[a, b], [c]]`, (a or b) and c.

Source: github.com/Marker-Inc-Korea/AutoRAG, `autorag/utils/preprocess.py` (`cast_qa_dataset`): columns `qid`, `query`,
`retrieval_gt` and, for the corpus, `doc_id` and `contents`; a list of texts is one group (any of them is enough), a
text alone is one document. Other columns (answers to generate, metadata) are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.errors import Fault, InputError
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.importers.alternatives import minimal_groups
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
from ctxbench.data.importers.formats.record_files import parsed_list, records
from ctxbench.io.rows import Row

NO_DOCUMENT = "documents of retrieval_gt that are not in the corpus"
PARTLY = "queries kept as partly labelled, because a group of documents is not in the corpus"
UNLABELLED = "queries without a required document, kept unlabelled"
IMPLIED = "groups left out because another group of the query implies them"
OVERLAP = "queries kept unlabelled, because their groups share documents in a way that labels cannot say"

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
    documents = [_document(row) for row in records(corpus, faults)]
    catalog = catalog_of((one for one in documents if one is not None), settings.type, faults)
    if not documents and not faults:
        faults.append(Fault("the file is empty; expected documents with doc_id and contents", corpus))
    tally = Tally(NO_DOCUMENT, PARTLY, UNLABELLED, IMPLIED, OVERLAP, RENAMED)
    known = {item.name for item in catalog}
    queries: list[DatasetQuery] = []
    labels: list[Label] = []
    first: dict[str, int] = {}
    for row in records(qa, faults):
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
        value = parsed_list(value)  # a CSV file holds lists as text
    if isinstance(value, str) and value:
        return [[value]]
    if isinstance(value, list):
        if all(isinstance(entry, str) for entry in value):
            return [value] if value else []
        if all(isinstance(group, list) and all(isinstance(entry, str) for entry in group) for group in value):
            return [group for group in value if group]
    row.fault(f"field 'retrieval_gt' must be document ids in groups, such as [[a, b], [c]], got {given!r:.60}")
    return []
