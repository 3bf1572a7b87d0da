"""Make datasets of documents, queries and labels in the forms of search programs, and export datasets to these.

* BEIR (github.com/beir-cellar/beir, `beir/datasets/data_loader.py`): `corpus.jsonl`, `queries.jsonl`,
  `qrels/<split>.tsv` with a header. MTEB and Hugging Face have these columns in parquet or JSON.
* TREC (github.com/usnistgov/trec_eval): qrels are `query 0 document relevance`; runs, `query Q0 document rank score
  tag`, are ordered by falling score, and of equal scores the greater document id comes first.
* AutoRAG (github.com/Marker-Inc-Korea/AutoRAG, `autorag/utils/preprocess.py`): `retrieval_gt` is `[[a, b], [c]]`, (a or
  b) and c. A list of texts is one group; a text alone is one document.
* LlamaIndex (`EmbeddingQAFinetuneDataset`) and sentence-transformers (`InformationRetrievalEvaluator`, pairs and
  triplets: sbert.net/docs/sentence_transformer/dataset_overview.html), ranx (amenra.github.io/ranx/qrels).

An export has `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv` (BEIR) and `qrels/<split>.qrels` (TREC), with `run`
also `runs/<selector>.run`, and `export.json`: the names of these files, the card, and fields that the format lacks.
Labels of queries that our metrics ignore are not in qrels, so that means over qrels use the same queries. They are in
`metadata.ctxbench` with other fields that the format lacks, and our importers restore an equal dataset. `plain` writes
no `metadata`. Scores of runs are the selector's, made to fall strictly (`run_rows`).
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ctxbench.catalogs.instructions import rule_files
from ctxbench.catalogs.snapshots import SnapshotPart
from ctxbench.catalogs.tool_lists import OTHER_NAMES, is_tool_list, read_tool_list, value_at
from ctxbench.datasets.dataset import SPLITS, TREC, Dataset, select_queries, split_of
from ctxbench.datasets.layout import CARD
from ctxbench.datasets.queries import DatasetQuery, Label, group_labels, group_pairs, minimal_groups, read_query
from ctxbench.evaluation.answers import Slice, StoredAnswers, run_rows
from ctxbench.evaluation.inputs import asked_queries
from ctxbench.evaluation.run_folder import RunFolder
from ctxbench.io.documents import dump_json, dump_jsonl, read_json
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    StorageError,
    UserError,
    none_found,
    raise_faults,
    raise_first,
)
from ctxbench.io.files import atomic_folder, file_name, write_atomic
from ctxbench.io.rows import Row
from ctxbench.labelling.conversion import (
    AMBIGUOUS,
    DETAILS,
    DUPLICATES,
    EXPORT_FILE,
    EXPORT_KEY,
    GROUP_ODD,
    IMPLIED,
    JOINED,
    NEGATIVE,
    NO_DOCUMENT,
    NO_NAMES,
    NO_QUERY,
    ODD,
    OVERLAP,
    PARTLY,
    PASSED_OVER,
    SEVERAL,
    SOURCE,
    UNLABELLED,
    CollectionReader,
    Conversion,
    Draft,
    ImportSettings,
    Judgment,
    PublishedQuery,
    field_columns,
    role_of,
    split_name,
)
from ctxbench.labelling.sources import ImportKind, make_kinds
from ctxbench.model.arrays import Grade, falling
from ctxbench.model.items import Catalog, Item, read_key
from ctxbench.model.requests import Request

HEADER = ("query-id", "corpus-id", "score")
_LABELLED = {"labels", "set", "groups", "pairs"}  # roles of files with labels
_DETAILS = ("via", "alternatives", "source", "quote")  # fields of labels that qrels lack
FORMS = {"beir": "BEIR", "trec": "TREC", "autorag": "AutoRAG"}


@dataclass
class Assembly:
    """Puts documents, queries and judgments together.

    Attributes:
        draft: collects queries, labels and faults.
        catalog: the catalog.
        items: its items by published document id.
        queries: as published.
        judgments: as published.
        ambiguous: names of several items.
        splits: the splits of the labels of a query, by query.
        names: the names of fields in the files, by field.
    """

    draft: Draft
    catalog: Catalog
    items: Mapping[str, Item]
    queries: Sequence[PublishedQuery]
    judgments: Sequence[Judgment]
    ambiguous: Collection[str] = ()
    splits: dict[str, set[str]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def conversion(self, *, form: str, files: Sequence[Path], labelling: str, where: Path) -> Conversion:
        """Make the dataset; see `Draft.conversion`."""
        self._check_match()
        judgments, paths = self._judgments_by_query(), [str(judgment.row.path) for judgment in self.judgments]
        grades = self.draft.grading((judgment.score for judgment in self.judgments), ", ".join(dict.fromkeys(paths)))
        self.draft.stated.update(judgment.row.path.name for judgment in self.judgments)
        splits = {judgment.split for judgment in self.judgments if not self.draft.card}
        joined = sorted(split for split in splits if split_name(split) == SPLITS[0])
        if len(joined) > 1:
            self.draft.ids[JOINED] += joined
        for published in self.queries:
            self._add(published, judgments[published.id], grades)
        return self.draft.conversion(self.catalog, form=form, files=files, labelling=labelling, where=where)

    def _check_match(self) -> None:
        """Add a fault if no query, or no document, of the labels is in the files."""
        queries = [query.id for query in self.queries]
        for names, noun, where, expected in (
            ([judgment.query for judgment in self.judgments], "queries", "the file of queries", queries),
            ([judgment.document for judgment in self.judgments], "documents", "the corpus", list(self.items)),
        ):
            if expected and names and not set(names) & set(expected):
                message = none_found(list(dict.fromkeys(names)), f"{noun} that labels name", where, expected)
                self.draft.faults.append(Fault(message, self.judgments[0].row.path))

    def _judgments_by_query(self) -> dict[str, dict[str, Judgment]]:
        """The judgments by query and document; repeated ones are counted, contradicting ones are faults."""
        ids, by_query = self.draft.ids, {query.id: dict[str, Judgment]() for query in self.queries}
        for judgment in self.judgments:
            if (query := judgment.query) not in by_query:
                ids[NO_QUERY].append(query)
                continue
            if judgment.split:
                self.splits.setdefault(query, set()).add(
                    judgment.split if self.draft.card else split_name(judgment.split)
                )
            first = by_query[query].setdefault(judgment.document, judgment)
            ids[NEGATIVE] += [query] if first is judgment and judgment.score < 0 else []
            ids[DUPLICATES] += [query] if first is not judgment and first.score == judgment.score else []
            if first.score != judgment.score:
                pair = {"query": query, "document": judgment.document, "score": judgment.score}
                earlier = {"first": first.score, "file": first.row.path.name, "line": first.row.line}
                judgment.row.fault(Message("labelling.score-conflict", **pair, **earlier))
        return by_query

    def _add(self, published: PublishedQuery, judgments: Mapping[str, Judgment], grades: Mapping[int, int]) -> None:
        """Add a query with its labels to the draft."""
        ids, query = self.draft.ids, self._query(published)
        if published.groups is not None:
            self._add_groups(query, published.groups)
            return
        source = SOURCE if published.exported is None else ""
        graded = {document: grades.get(judgment.score, 0) for document, judgment in judgments.items()}
        present = {self.items[document].key: grade for document, grade in graded.items() if document in self.items}
        labels = {key.id: Label(query.id, key, grade, source=source) for key, grade in present.items()}
        missing = {document: grade for document, grade in graded.items() if document not in self.items}
        for document in missing:
            ids[AMBIGUOUS if document in self.ambiguous else NO_DOCUMENT].append(f"{published.id} {document}")
        self._add_details(published, query.id, labels)
        required = any(label.grade == Grade.REQUIRED for label in labels.values())
        if required and Grade.REQUIRED in missing.values():
            ids[PARTLY].append(query.id)
            query = replace(query, partly_labelled=True)
        if not (required or query.needs_nothing):
            ids[UNLABELLED].append(query.id)
        self.draft.queries.append(query)
        self.draft.labels += labels.values()

    def _add_groups(self, query: DatasetQuery, groups: Sequence[Sequence[str]]) -> None:
        """Add a query that requires a document of each group; missing documents are left out of their groups.

        A group with all documents of another one is implied by it and left out. If groups overlap otherwise, the query
        is unlabelled.
        """
        ids, names = self.draft.ids, dict.fromkeys(name for group in groups for name in group)
        ids[NO_DOCUMENT] += [f"{query.id} {name}" for name in names if name not in self.items]
        required, n_implied, _ = minimal_groups(groups)  # missing groups imply others, too
        present = [[name for name in group if name in self.items] for group in required]
        minimal, n_implied_by_present, overlap = minimal_groups(present)
        ids[IMPLIED] += [query.id] * (n_implied + n_implied_by_present)
        minimal = [] if overlap else minimal
        partly = not all(present) and bool(minimal)
        if overlap or partly or not minimal:
            ids[OVERLAP if overlap else PARTLY if partly else UNLABELLED].append(query.id)
        self.draft.queries.append(replace(query, partly_labelled=partly))
        keys = [[self.items[name].key for name in group] for group in minimal]
        self.draft.labels += group_labels(query.id, keys, source=SOURCE)

    def _query(self, published: PublishedQuery) -> DatasetQuery:
        query_id = self.draft.query_id(published.id)
        names = self.splits.get(published.id, set())
        if len(names) > 1:
            self.draft.ids[SEVERAL].append(published.id)
        first = next((name for name in (*SPLITS, *sorted(names)) if name in names), "")
        plain = DatasetQuery(request=Request(id=query_id, text=published.text), split=first or split_of(query_id))
        if published.exported is None:
            return replace(plain, tags=self._tags(published.row))
        fields = {name: value for name, value in published.exported.items() if name != "labels"}
        split = first or fields.get("split") or plain.split
        data = {"_id": query_id, "text": published.text, **fields, "split": split}
        return read_query(published.row.nested(data), self.draft.scopes) or plain

    def _tags(self, row: Row) -> tuple[str, ...]:
        """The tags of a published query; other fields that are not read are counted."""
        role = "queries" if not field_columns("groups", "expected", tuple(row.data)) else "groups"
        names = ("id", "text", "expected")[: 2 + (role == "groups")]
        read = {column for name in names for column in field_columns(role, name, tuple(row.data))[:1]}
        read |= {name.partition(".")[0] for name in self.names.values()}
        tags = value_at(row.data, self.names.get("tags", "tags"))
        tags = [tags] if isinstance(tags, str) and "tags" in self.names else tags
        if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
            read.add("tags")
        ignored = [name for name, value in row.data.items() if name not in read and value not in (None, "", {}, [])]
        if ignored:
            self.draft.ids[PASSED_OVER] += ignored
        return tuple(tags) if isinstance(tags, list) and "tags" in read else ()

    def _add_details(self, published: PublishedQuery, query_id: str, labels: dict[str, Label]) -> None:
        """Add the details of labels from an export; a detail with a grade is a label."""
        for item_id, entry in published.row.nested(published.exported).take("labels", dict, {}).items():
            row = published.row.nested(entry if isinstance(entry, dict) else {"entry": entry})
            row.refuse_unknown(("grade", *_DETAILS))
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


def import_collection(
    files: Sequence[Path],
    catalog: Catalog | None = None,
    *,
    kind: str | None = None,
    settings: ImportSettings | None = None,
    names: Mapping[str, str] = NO_NAMES,
) -> Conversion:
    """Make a dataset of the documents, queries and labels in files.

    The role of each file follows from its fields, and from the ids in the labels where queries and documents have the
    same fields. The split of a query is that of its labels (`tuning`, if there are several), which the name of their
    file or folder states; else it follows from the hash of its id. A query without labels is unlabelled. An export of
    ctxbench gives an equal dataset.

    Args:
        files: the files.
        catalog: the items, named by id or unique name in the labels; for files without documents.
        kind: the name of the kind, for the card.
        settings: settings of the import.
        names: the names of fields in the files, by field.

    Raises:
        StorageError: a file is missing or cannot be read, or is parquet and pyarrow is missing.
        InputError: rows are unreadable, ids are repeated, scores contradict each other or need a mapping, documents,
            queries or labels are missing: all faults, with file and line.
    """
    reader = CollectionReader(settings or ImportSettings(), names)
    if card := next((path.parent / CARD for path in files if (path.parent / CARD).is_file()), None):
        raise InputError([Fault("this is a dataset of ctxbench, which needs no import", card)])
    reader.read(files)
    reader.settle()
    draft = Draft(reader.settings, GROUP_ODD if "groups" in reader.roles else ODD, reader.faults)
    if catalog is not None and reader.rows["documents"]:
        raise ParameterError(Message("labelling.catalog-and-documents", paths=reader.roles.get("documents", files)))
    items = reader.documents() if catalog is None else {name: catalog[at] for name, at in catalog.named.items()}
    if reader.ignored:
        draft.ids[PASSED_OVER] += reader.ignored
    del reader.rows["documents"]  # of a large collection, they need as much memory as the items
    ambiguous = {item.name for item in catalog or ()} - items.keys()
    catalog = Catalog(items.values()) if catalog is None else catalog
    queries, judgments = reader.queries(), list(reader.judgments())
    folder = next((query.row.path.parent for query in queries if query.exported is not None), None)
    parts = ("queries", queries), ("documents", items), ("labels", {*reader.roles} & _LABELLED)
    missing = [part for part, values in parts if not values]
    if missing and not draft.faults:
        present = [part for part, values in parts if values]
        message = Message("labelling.collection-incomplete", present=present, missing=missing)
        draft.faults.append(Fault(message, ", ".join(map(str, files))))
    order = [str(path) for paths in reader.roles.values() for path in paths]
    draft.faults.sort(key=lambda fault: (order.index(str(fault.path)) if str(fault.path) in order else -1, fault.line))
    draft.stated["'retrieval_gt'"] = sum(len(query.groups or ()) for query in queries)
    form = FORMS.get(kind or "", "a collection")
    paths = [path for path in files if path not in reader.roles.get("export", ())]
    if folder is not None and (folder / EXPORT_FILE).is_file():
        draft.read_card(folder / EXPORT_FILE)
    return Assembly(draft, catalog, items, queries, judgments, ambiguous, names=names).conversion(
        form=form,
        files=paths,
        labelling=str(Message("labelling.card-published", form=form)),
        where=paths[0] if len(paths) == 1 else Path(os.path.commonpath([path.absolute().parent for path in paths])),
    )


def read_catalog_files(paths: Sequence[Path], kinds: Mapping[Path, ImportKind], options: Any) -> list[SnapshotPart]:
    """Read the items of lists of tools and documents, and of files of skills and rules.

    Args:
        paths: the files.
        kinds: their kinds, of `KINDS`.
        options: the `settings` of the import, the `names` of fields, and the `server` of tools that name none.

    Raises:
        StorageError: a file cannot be read.
        InputError: rows are unreadable or ids are repeated: all faults, with file and line.
    """
    by_kind = group_pairs((kinds[path].name, path) for path in paths)
    rules = [path for name in ("skills", "rules") for path in by_kind.get(name, ())]
    names = {field: theirs for field, theirs in options.names.items() if field in OTHER_NAMES}
    parts = [read_tool_list(path, server=options.server, names=names) for path in by_kind.get("tools", ())]
    parts += rule_files(rules) if rules else []
    if documents := by_kind.get("documents", []):
        reader = CollectionReader(options.settings, options.names)
        reader.read(documents)
        reader.rows["documents"] = [row for rows in reader.rows.values() for row in rows]
        items = tuple(reader.documents().values())
        raise_faults(reader.faults)
        notes = tuple(Message("labelling.fields-ignored", names=name, hint="") for name in sorted({*reader.ignored}))
        name, origin = documents[0].name, str(documents[0].parent)
        parts.append(SnapshotPart(name=name, kind="documents", items=items, notes=notes, origin=origin))
    return parts


def _is_role(roles: Collection[str], is_plain: bool | None, values: Sequence[Any]) -> bool:
    """Whether a file has one of some roles in a collection, in lines without a header or not (None = in any)."""
    return role_of(values) in roles and is_plain in (None, isinstance(values[0], str))


def _has_fields(choices: Sequence[set[str]], values: Sequence[Any]) -> bool:
    """Whether a file has front matter with all fields of one of some sets."""
    front = values[0].get("front_matter") if values and isinstance(values[0], dict) else None
    return isinstance(front, dict) and any(fields <= front.keys() for fields in choices)


KINDS = make_kinds(
    {
        "qa-corpus": partial(_is_role, ["set"], None),
        "autorag": partial(_is_role, ["groups"], None),
        "trec": partial(_is_role, ["labels"], True),
        "beir": partial(_is_role, ["labels", "queries", "export"], False),
        "pairs": partial(_is_role, ["pairs"], None),
        "tools": is_tool_list,
        "skills": partial(_has_fields, [{"name", "description"}]),
        "rules": partial(_has_fields, [{"globs"}, {"alwaysApply"}, {"applyTo"}, {"paths"}]),
        "documents": partial(_is_role, ["documents", "texts"], None),
    }
)


def answers_of_run(
    run: Mapping[str, Sequence[tuple[str, float]]], dataset: Dataset, *, keep: int
) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """Convert a run into answers for `ctxbench score`: the first `keep` documents are offered, all are the ranking.

    Documents are found by item id, or by published id (the name of an item, or its `metadata.id`). Tied scores are
    lowered (see `falling`), since readers of answers order ties as the catalog does, and a run as trec_eval does.

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
    item_ids = {name: dataset.catalog.ids[position] for name, position in dataset.catalog.named.items()}
    queries = {query.id: run.get(query.id, ()) for query in dataset.queries}
    documents = list(dict.fromkeys(document for pairs in run.values() for document, _ in pairs))
    for names, noun, expected, ids in (
        (list(run), "queries", queries, list(queries)),
        (documents, "ranked documents", item_ids, dataset.catalog.ids),
    ):
        if not any(name in expected for name in names):
            raise ParameterError(none_found(names, f"{noun} of the run", f"the dataset {dataset.name}", ids))
    ranked = {
        query: [(item_ids[document], score) for document, score in pairs if document in item_ids]
        for query, pairs in queries.items()
    }
    rankings = {
        query: [
            {"id": item, "score": score}
            for (item, _), score in zip(pairs, falling(np.array([score for _, score in pairs])).tolist(), strict=True)
        ]
        for query, pairs in ranked.items()
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


def export_dataset(
    dataset: Dataset,
    folder: Path | str,
    *,
    form: str,
    plain: bool = False,
    run: Path | str | None = None,
    split: str = "",
) -> ExportReport:
    """Write a dataset in another format, all of it or nothing.

    Args:
        dataset: any.
        folder: a new or empty folder, or an earlier export, which is replaced.
        form: `beir` or `trec`.
        plain: write only data of the format.
        run: with `trec`, the folder of a finished run on this dataset; the whole ranking of each selector is
            written, without the session. Of a run over a split or a sample, its queries alone are written.
        split: only the queries of this split; empty = of all.

    Raises:
        ParameterError: the format is unknown, the folder has other files, a run is to be written as BEIR, or has no
            query of the split.
        UnknownNameError: the dataset has no such split.
        StorageError: the run is missing, damaged, or of another dataset; or the folder cannot be written.
    """
    folder = Path(folder)
    raise_first(
        (form not in FORMATS, f"the format must be {' or '.join(FORMATS)}, got {form!r}"),
        (run is not None and form != "trec", "runs are written in TREC's format only; export with `--format trec`"),
    )
    _check_folder(folder)
    dataset, parts = (select_queries(dataset, split=split), {}) if run is None else _of_run(dataset, Path(run), split)
    ranked = {name: answers for name, answers in parts.items() if answers.ranked}
    judged = judged_queries(dataset)
    with atomic_folder(folder) as temporary:
        write_atomic(temporary / "corpus.jsonl", dump_jsonl(_corpus_rows(dataset, plain=plain)))
        write_atomic(temporary / "queries.jsonl", dump_jsonl(_query_rows(dataset, judged, plain=plain)))
        counts = _write_qrels(dataset, judged, temporary / "qrels", form)
        for name, answers in ranked.items():
            write_atomic(temporary / "runs" / f"{file_name(name)}.run", _run(dataset, name, answers))
        missing = not_held(dataset)
        files = sorted(path.relative_to(temporary).as_posix() for path in temporary.rglob("*") if path.is_file())
        about = {"format": form, "plain": plain, "files": files}
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
        other_values=other_values(dataset, judged) if ranked else {},
    )


def _check_folder(folder: Path) -> None:
    """Check that a folder is new, or has the files of an export only.

    Raises:
        ParameterError: it is a file, or has other files.
    """
    names = _own_names(folder / EXPORT_FILE)
    paths = folder.rglob("*") if folder.is_dir() else [folder] if folder.exists() else []
    extra = next((path for path in paths if path.relative_to(folder).as_posix() not in names), None)
    if extra is not None:
        problem = "it is a file" if extra == folder else f"{extra.relative_to(folder)} is not in {EXPORT_FILE}"
        raise ParameterError(f"{folder} would be replaced, but {problem}; name another folder, or delete it")


def _own_names(path: Path) -> set[str]:
    """The files and folders of an export, from its `export.json`; empty if that is missing or invalid."""
    data = None
    with suppress(InputError):
        data = read_json(path) if path.is_file() else None
    files = data.get("files") if isinstance(data, dict) else None
    names = [name for name in files if isinstance(name, str)] if isinstance(files, list) else []
    return {EXPORT_FILE, *names, *(str(parent) for name in names for parent in PurePosixPath(name).parents)} - {"."}


def not_held(dataset: Dataset) -> dict[str, int]:
    """Count the data of a dataset that BEIR and TREC lack; without counts of 0."""
    queries, labels = dataset.queries, dataset.labels
    judged = judged_queries(dataset)
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


def judged_queries(dataset: Dataset) -> set[str]:
    """The queries with labels in qrels: fully labelled, with a required item, or with any label as trec_eval judges."""
    lowest = Grade.IRRELEVANT if dataset.judged_as == TREC else Grade.REQUIRED
    return {label.query for label in dataset.labels if label.grade >= lowest} - set(dataset.unlabelled)


def _corpus_rows(dataset: Dataset, *, plain: bool) -> Iterator[dict[str, Any]]:
    for item in dataset.catalog:
        row = {"_id": item.id, "title": "", "text": item.search_text}
        rest = {name: value for name, value in item.as_row().items() if name not in ("_id", "type", "server", "name")}
        yield row if plain else {**row, "metadata": {EXPORT_KEY: rest}}


def _query_rows(dataset: Dataset, judged: set[str], *, plain: bool) -> Iterator[dict[str, Any]]:
    for query in dataset.queries:
        row = query.as_row()
        exported = {"_id": row.pop("_id"), "text": row.pop("text")}
        labels = _details(dataset.labels_of(query.id), in_qrels=query.id in judged)
        rest = {**row, "labels": labels} if labels else row
        yield exported if plain else {**exported, "metadata": {EXPORT_KEY: rest}}


def _details(labels: Iterable[Label], *, in_qrels: bool) -> dict[str, dict[str, Any]]:
    """By item, the fields of labels that qrels lack; with the grade if the query is not in qrels."""
    details: dict[str, dict[str, Any]] = {}
    for label in labels:
        defaults = Label(label.query, label.item, label.grade)
        entry: dict[str, Any] = {} if in_qrels else {"grade": label.grade}
        changed = (name for name in _DETAILS if getattr(label, name) != getattr(defaults, name))
        entry |= {name: getattr(label, name) for name in changed}
        details |= {label.item.id: entry} if entry else {}
    return details


def _write_qrels(dataset: Dataset, judged: set[str], folder: Path, form: str) -> dict[str, int]:
    """Write the labels of the judged queries; returns their numbers by split."""
    counts = {}
    for split in dataset.split_names:
        queries = [query.id for query in dataset.queries if query.split == split and query.id in judged]
        labels = [label for query in queries for label in dataset.labels_of(query)]
        counts[split] = len(labels)
        lines = (f"{label.query} 0 {label.item.id} {label.grade}\n" for label in labels)
        text = _beir(labels) if form == "beir" else _escape_mark("".join(lines))
        write_atomic(folder / f"{split}.{'tsv' if form == 'beir' else 'qrels'}", text)
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


def _of_run(dataset: Dataset, run: Path, split: str) -> tuple[Dataset, dict[str, Slice | StoredAnswers]]:
    """The queries of a run on this dataset, or those of the split, and the answers of every selector, by its name.

    Raises:
        StorageError: the run is missing or damaged, or none of its datasets is this one.
        ParameterError: the run has no query of the split.
    """
    store, queried = RunFolder(run), dataset
    manifest = store.read("manifest.json")
    with suppress(UserError):  # it has no such split, so it is another dataset
        queried = asked_queries(dataset, manifest)
    datasets = {name: entry["hash"] for name, entry in manifest["datasets"].items()}
    name = next((name for name, content in datasets.items() if content == queried.hash), None)
    if name is None:
        listed = ", ".join(f"{name} {content[:12]}" for name, content in datasets.items())
        raise StorageError(
            f"{run} is a run on {listed}, not on {dataset.name} {queried.hash[:12]}; export the dataset of the run"
        )
    missing = Message("labelling.split-not-in-run", run=run, split=split, splits=queried.split_names)
    raise_first((split and split not in queried.split_names, missing))
    answers = {selector: store.load(name, selector).answers for selector in manifest["selectors"]}
    return select_queries(queried, split=split), answers


def _run(dataset: Dataset, selector: str, answers: Slice | StoredAnswers) -> str:
    """The rankings of one selector for the queries of the dataset."""
    tag, queries = file_name(selector).replace(" ", "%20"), {query.id for query in dataset.queries}
    rows = (row for block in answers.blocks() for row in run_rows(block, dataset.catalog.ids) if row[0] in queries)
    return _escape_mark("".join(f"{query} Q0 {item} {rank} {score!r} {tag}\n" for query, item, rank, score in rows))


def other_values(dataset: Dataset, judged: set[str]) -> dict[str, tuple[str, ...]]:
    """The queries whose metrics differ in other programs, by reason."""
    batch, keys = dataset.batch(), [item.key for item in dataset.catalog]
    ends = zip(batch.session_start.tolist(), batch.session_start[1:].tolist(), strict=False)
    items = [batch.session_item[start:end].tolist() for start, end in ends]
    sessions = {query.id: {keys[i] for i in rows} for query, rows in zip(dataset.queries, items, strict=True)}
    helpful = [label for label in dataset.labels if label.grade >= Grade.HELPFUL]
    queries_by_reason = {
        Message("labelling.alternatives-in-qrels"): {label.query for label in dataset.labels if label.alternatives},
        Message("labelling.session-in-runs"): {label.query for label in helpful if label.item in sessions[label.query]},
    }
    order = [query.id for query in dataset.queries if query.id in judged]
    return {
        why: tuple(query for query in order if query in queries)
        for why, queries in queries_by_reason.items()
        if queries & judged
    }
