"""Datasets from AutoRAG's questions and corpus: `retrieval_gt` is `[[a, b], [c]]`, (a or b) and c.

Source: github.com/Marker-Inc-Korea/AutoRAG, `autorag/utils/preprocess.py` (`cast_qa_dataset`): columns `qid`, `query`,
`retrieval_gt` and, for the corpus, `doc_id` and `contents`; a list of texts is one group (any of them is enough), a
text alone is one document. Other columns (answers to generate, metadata) are passed over.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

from ctxbench.core.items import Catalog, ItemKey
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, group_labels, minimal_groups
from ctxbench.data.importers.formats.conversion import (
    RENAMED,
    SOURCE,
    Conversion,
    Draft,
    ImportSettings,
    PublishedDocument,
    refuse_empty,
    unique_entries,
)
from ctxbench.data.importers.formats.record_files import parse_list, read_records
from ctxbench.io.rows import Row

NO_DOCUMENT = "documents of retrieval_gt that are not in the corpus"
PARTLY = "queries kept as partly labelled, because a group of documents is not in the corpus"
UNLABELLED = "queries without a required document, kept unlabelled"
IMPLIED = "groups left out because another group of the query implies them"
OVERLAP = "queries kept unlabelled, because their groups share documents in a way that labels cannot say"

_LABELLING = (
    "As published in AutoRAG's form: of each group of documents one is required; what is not labelled may do as well."
)


def import_autorag(qa: Path | str, *, corpus: Path | str, settings: ImportSettings | None = None) -> Conversion:
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
    draft = Draft(settings or ImportSettings(), (NO_DOCUMENT, PARTLY, UNLABELLED, IMPLIED, OVERLAP, RENAMED))
    rows = ((row.take("doc_id", str, "", required=True), row) for row in read_records(corpus, draft.faults))
    documents = unique_entries("document", ((doc_id, row, _text(row, "contents")) for doc_id, row in rows))
    refuse_empty(documents, corpus, draft.faults, expected="documents with doc_id and contents")
    rows = ((row.take("qid", str, "", required=True), row) for row in read_records(qa, draft.faults))
    entries = ((draft.query_id(qid), row, (_text(row, "query"), _groups(row))) for qid, row in rows)
    queries = unique_entries("query", entries)
    refuse_empty(queries, qa, draft.faults, expected="questions with qid, query and retrieval_gt")
    item_type = draft.settings.type
    for query_id, (text, groups) in queries.items():
        minimal, partly = _minimal_groups(query_id, groups, documents, draft)
        request = Request(id=query_id, text=text)
        draft.queries.append(DatasetQuery(request=request, split=split_of(query_id), partly_labelled=partly))
        keys = [[ItemKey(item_type, None, document) for document in group] for group in minimal]
        draft.labels += group_labels(query_id, keys, source=SOURCE)
        draft.stated["'retrieval_gt'"] += len(groups)
    items = (PublishedDocument(id=name, title="", text=text).item(item_type) for name, text in documents.items())
    return draft.conversion(Catalog(items), form="AutoRAG", files=[corpus, qa], labelling=_LABELLING, where=qa)


def _minimal_groups(
    query: str, groups: Sequence[Sequence[str]], documents: Container[str], draft: Draft
) -> tuple[list[list[str]], bool]:
    """The groups that labels can hold, and whether something required is not in the corpus."""
    missing = [name for name in dict.fromkeys(name for group in groups for name in group) if name not in documents]
    draft.ids[NO_DOCUMENT] += [f"{query} {name}" for name in missing]
    required, n_implied, _ = minimal_groups(groups)  # a group that is not there implies others just as well
    present = [[name for name in group if name in documents] for group in required]
    minimal, n_implied_by_present, overlap = minimal_groups(present)
    draft.ids[IMPLIED] += [query] * (n_implied + n_implied_by_present)
    partly = not all(present) and bool(minimal)
    if overlap or partly or not minimal:
        draft.ids[OVERLAP if overlap else PARTLY if partly else UNLABELLED].append(query)
    return ([], False) if overlap else (minimal, partly)


def _text(row: Row, name: str) -> str:
    if row.data.get(name) is None:
        row.fault(f"field {name!r} is missing; expected a text (it may be empty)")
    return row.take(name, str, "")


def _groups(row: Row) -> list[list[str]]:
    """`retrieval_gt` as groups of document ids: a text is one document, a list of texts one group."""
    published = value = row.data.get("retrieval_gt")
    if isinstance(value, str) and value.strip().startswith("["):
        value = parse_list(value)  # a CSV file holds lists as text
    if isinstance(value, str) and value:
        return [[value]]
    if isinstance(value, list):
        if all(isinstance(entry, str) for entry in value):
            return [value] if value else []
        if all(isinstance(group, list) and all(isinstance(entry, str) for entry in group) for group in value):
            return [group for group in value if group]
    row.fault(f"field 'retrieval_gt' must be document ids in groups, such as [[a, b], [c]], got {published!r:.60}")
    return []
