"""Datasets, catalogs and runs from files, frames or Python, and runs and labels as frames."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ctxbench.catalogs.git_trees import tree_view
from ctxbench.catalogs.snapshots import read_item
from ctxbench.catalogs.tool_lists import is_definition, tools_part
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import create_dataset
from ctxbench.datasets.lookup import find_catalog, open_dataset
from ctxbench.datasets.queries import Label, QueryRow, read_query
from ctxbench.evaluation.answers import Part, Slice, run_rows
from ctxbench.evaluation.run_folder import RunFolder
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    check_all_known,
    raise_faults,
    raise_first,
    suggest,
)
from ctxbench.io.rows import Row, ranked_documents
from ctxbench.labelling.conversion import field_columns
from ctxbench.labelling.import_files import open_items
from ctxbench.labelling.judgment_files import judged_queries
from ctxbench.labelling.sources import documents
from ctxbench.model.arrays import Grade
from ctxbench.model.items import ITEM_TYPES, Catalog, Item, ItemKey
from ctxbench.selectors.definitions import shipped
from ctxbench.selectors.selector import ORACLE, ExternalRun

if TYPE_CHECKING:
    import pandas as pd

    Rows: TypeAlias = pd.DataFrame | Iterable[Mapping[str, Any]]
    Grades: TypeAlias = Mapping[float, str | int]

_log = logging.getLogger(__name__)

_RUN_COLUMNS = {  # of ctxbench, ir_measures, ranx and PyTerrier
    "query": ("query", "query_id", "q_id", "qid"),
    "item": ("item", "doc_id", "docno", "docid"),
    "score": ("score",),
    "rank": ("rank",),
}
_LABEL = ("query", "item", "grade", "via", "alternatives", "quote")
_SCORE = "score"
_NEEDED = {"items": ("name",), "queries": ("query", "text"), "labels": ("query", "item")}
_PUBLISHED = {  # by field, what the tables of search programs' names call it
    "items": {"name": "id", "text": "text", "title": "title"},
    "queries": {"query": "id", "text": "text"},
    "labels": {"query": "query", "item": "document", _SCORE: "score"},
}
_TABLES = (".parquet", ".csv", ".tsv", ".jsonl", ".json")


@dataclass(frozen=True, eq=False)
class Data:
    """A labelled dataset, and its parts as frames.

    Attributes:
        dataset: as commands and selectors take it.
        source: the name or folder that it was opened by; empty = it is in memory alone.
        runs: rankings of other programs, by the name under which `evaluate` takes them as selectors.
    """

    dataset: Dataset
    source: str = ""
    runs: Mapping[str, ExternalRun] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name."""
        return self.dataset.name

    @cached_property
    def items(self) -> pd.DataFrame:
        """The catalog, one row per item in its order: `id`, `type`, `server`, `name`, and what else any item has."""
        rows = ({"id": item.id, "type": item.type, **_plain(item.as_row())} for item in self.dataset.catalog)
        return _frame(rows, ["id", "type", "server", "name", "description", "text"])

    @cached_property
    def queries(self) -> pd.DataFrame:
        """The requests, one row each: `query`, `text`, `split`, and what else any of them has."""
        rows = ({"query": query.id, **_plain(query.as_row())} for query in self.dataset.queries)
        return _frame(rows, ["query", "text", "split"])

    @cached_property
    def labels(self) -> pd.DataFrame:
        """The labels: `query`, `item`, `grade` (2 required, 1 helpful, 0 not), `via`, `alternatives`, `quote`."""
        rows = (
            {
                "query": label.query,
                "item": label.item.id,
                "grade": label.grade,
                "via": label.via,
                "alternatives": label.alternatives,
                "quote": label.quote,
            }
            for label in self.dataset.labels
        )
        return _frame(rows, ["query", "item", "grade", "via", "alternatives", "quote"])

    def with_labels(self, labels: Rows | str | Path, *, grades: Grades | None = None) -> Data:
        """The same dataset with other labels, in memory, such as an edited copy of `labels`.

        Args:
            labels: as for `dataset`: all of them, not only those that changed.
            grades: as for `dataset`.

        Raises:
            InputError: rows are faulty, or name what is not there: all of them.

        Example:
            >>> ds = ctxbench.load("datasets/smoke")
            >>> len(ds.with_labels(ds.labels[ds.labels["grade"] == 2]).labels)
            51
        """
        faults: list[Fault] = []
        parsed = _labels(labels, self.dataset.catalog, faults, grades)
        raise_faults(faults, subject=f"dataset {self.name}")
        return Data(self.dataset.with_labels(parsed), runs=self.runs)

    def save(self, folder: str | Path, **about: str) -> None:
        """Write it into a new folder, whole or not at all, as `load` and every command read it; it is not frozen there.

        Args:
            folder: that is not there yet.
            **about: what its card says, such as `licence`, `source` (of the texts) and `labelling` (who labelled, how).

        Raises:
            UserError: something stands there, or it cannot be written.
        """
        raise_first((not self.dataset.queries, Message("api.no-queries", name=self.name)))
        unknown = "not stated"
        card = {"licence": unknown, "source": unknown, "labelling": unknown, **self.dataset.about, **about}
        card.pop("frozen", None)
        create_dataset(replace(self.dataset, about=card), folder)

    def __repr__(self) -> str:
        return repr(self.dataset)


def load(name: str | Path) -> Data:
    """Open a dataset by its name or its folder.

    Args:
        name: as `ctxbench data list` lists it, or a folder that holds a `dataset.yaml`. What an installed package
            provides is imported the first time.

    Returns:
        The dataset, with `items`, `queries` and `labels` as frames.

    Raises:
        UserError: there is none of this name, or it is faulty.

    Example:
        >>> ds = ctxbench.load("datasets/smoke")
        >>> ds.items.columns[:4].tolist(), len(ds.queries)
        (['id', 'type', 'server', 'name'], 30)
    """
    return Data(open_dataset(name), str(name))


def opened(data: Data | str | Path | Sequence[Data | str | Path]) -> dict[str, Data]:
    """Datasets, or those of the names, by what they were opened by, or their names.

    Raises:
        UserError: there is none of a name, or two have one name.
    """
    several = data if isinstance(data, Sequence) and not isinstance(data, str) else [data]
    wrong = [type(entry).__name__ for entry in several if not isinstance(entry, Data | str | Path)]
    raise_first((wrong, Message("api.no-dataset", type="".join(wrong[:1]))))
    loaded = [entry if isinstance(entry, Data) else load(entry) for entry in several]
    by_key = {entry.source or entry.name: entry for entry in loaded}
    raise_first(
        (not loaded, Message("api.data-empty")),
        (min(len(by_key), len({entry.name for entry in loaded})) < len(loaded), Message("api.datasets-alike")),
    )
    return by_key


def catalog(rows: Rows | str | Path) -> Catalog:
    """A catalog of rows: a frame, dicts or a file, with `name` and what else an item has (`server`, `description` ...).

    Or what `data import` takes as a catalog: an agent file, a list of tools as a model gets it, a folder of a catalog.

    Documents of Hugging Face, MTEB, BEIR and PyTerrier are taken as they are: an id (`_id`, `id`, `docno`, `doc_id`,
    `corpus-id` ...), `text`, and perhaps `title`. The id becomes the name, the title the description, and all other
    columns the metadata. Numbers as ids become texts, so that 1 and "1" are one id, and "01" another.

    Args:
        rows: one an item, in the order that breaks ties: a frame of pandas or polars, a `datasets.Dataset`, a table of
            pyarrow, dicts, or the path of a file in parquet, CSV, TSV or JSON lines. A missing value (None, NaN) is as
            if the column were not there. Without `type` an item is a `reference` if it is a document, or has a
            `text` and neither `description`, `schema` nor `server`; else it is a tool. Or the definitions of tools in
            the form of OpenAI, Anthropic or MCP, as dicts or the path of a file. Or a name or path as `-c` of `ctxbench
            data import` takes it: an agent file, a folder of a catalog or with skills, a dataset, a git repository
            (also `REPO@COMMIT` and `REPO:definitions`).

    Raises:
        InputError: rows are no items, or two are the same: all faults, by row from 0; or two columns may hold the id.
        UserError: the file, the folder or the repository cannot be read, or is no catalog.

    Example:
        >>> ctxbench.catalog([{"name": "area", "description": "Area of a triangle"}]).ids
        ('tool:area',)
        >>> ctxbench.catalog([{"_id": 7, "title": "Paris", "text": "The capital of France."}]).ids
        ('reference:7',)
        >>> ctxbench.catalog([{"type": "function", "function": {"name": "area", "parameters": {}}}]).ids
        ('tool:area',)
    """
    if isinstance(rows, str | Path):
        is_table = Path(rows).suffix.lower() in _TABLES and not tree_view(str(rows))
        return open_items(str(rows), _catalog_of_rows if is_table else find_catalog)
    if isinstance(rows, Sequence) and any(map(is_definition, rows)):
        return Catalog(tools_part(list(rows), Path("the list of tools")).items)
    return _catalog_of_rows(rows)


def _catalog_of_rows(rows: Rows | str) -> Catalog:
    """The catalog of a frame, of dicts, or of a file of rows; raises as `catalog`."""
    faults: list[Fault] = []
    items: dict[ItemKey, Item] = {}
    for row in _rows(rows, "items", faults):
        fields = dict(row.data)
        item_id = fields.pop("id", None) or fields.pop("_id", None)
        is_text = "text" in fields and not fields.keys() & {"description", "schema", "server"}
        kind = str(fields.get("type", "reference" if is_text else "tool"))
        key = ItemKey(kind, fields.get("server"), str(fields["name"]))
        item_id = key.id if item_id in (None, "", key.name) else item_id
        if ":" not in str(item_id):
            row.fault(Message("api.item-id-foreign", got=item_id, expected=key.id))
            continue
        row.data = {**fields, "name": key.name, "_id": item_id}
        if (item := read_item(row)) is not None and items.setdefault(item.key, item) is not item:
            row.fault(Message("api.item-repeated", id=item.id))
    raise_faults(faults, subject="the catalog")
    return Catalog(items.values())


def catalog_of(items: Catalog | Data | Rows | str | Path) -> Catalog:
    """What a request chooses from: a catalog, the one of a dataset, or what `catalog` takes."""
    if isinstance(items, Data):
        return items.dataset.current_catalog
    return items if isinstance(items, Catalog) else catalog(items)


def dataset(
    items: Rows | Catalog | str | Path,
    queries: Rows | str | Path,
    labels: Rows | str | Path,
    *,
    grades: Grades | None = None,
    name: str = "mine",
    runs: Mapping[str, Any] | None = None,
) -> Data:
    """A dataset of frames, rows or files, in ctxbench's names or those of Hugging Face, MTEB, BEIR, TREC and ranx.

    Args:
        items: as for `catalog`.
        queries: `query` (the id), `text`, and if wanted `split` (else `test`) and what else `queries.jsonl` may hold.
            Or an id (`_id`, `id`, `qid`, `query_id`, `query-id` ...) with `text` or `query`: next to an id, `query` is
            the text, and columns that ctxbench does not know are left out.
        labels: `query`, `item` (an id, or the name of an item that no other has), and if wanted `grade` (else 2,
            required), `via`, `alternatives` and `quote`. Or `query-id`, `corpus-id` and `score`; `query_id`, `doc_id`
            and `relevance`; `qid`, `docno` and `label`, and so on. A query without any label needs `needs: "nothing"`
            in `queries`, or nothing is measured on it.
        grades: by the number in `labels`, what it means: `required`, `helpful` or `irrelevant`, or 2, 1 or 0, as in
            `{3: "required", 2: "required", 1: "helpful"}`; 0 and below are irrelevant if they are not named. None =
            the numbers are grades. But where a `score` (or `relevance`, `label` ...) has one positive value only, as
            in binary judgments, it means required.
        name: what tables call it.
        runs: rankings of other programs by name, as `answers` takes them; `evaluate` takes the names as selectors.

    Raises:
        InputError: rows are faulty, labels or runs name what is not there, or a number is no grade: all of them; or two
            columns may hold the same field.

    Example:
        >>> ds = ctxbench.dataset(
        ...     [{"name": "area"}, {"name": "root"}],
        ...     [{"query": "q1", "text": "the area of a triangle"}],
        ...     [{"query": "q1", "item": "area"}],
        ... )
        >>> ds.labels["item"].tolist()
        ['tool:area']
        >>> ds = ctxbench.dataset(
        ...     [{"docno": 1, "text": "Paris is in France."}, {"docno": 2, "text": "Rome is in Italy."}],
        ...     [{"qid": 1, "query": "Where is Rome?"}],
        ...     [{"qid": 1, "docno": 2, "label": 3}, {"qid": 1, "docno": 1, "label": 1}],
        ...     grades={3: "required", 1: "helpful"},
        ... )
        >>> ds.labels[["query", "item", "grade"]].values.tolist()
        [['1', 'reference:1', 1], ['1', 'reference:2', 2]]
    """
    item_catalog = items if isinstance(items, Catalog) else catalog(items)
    faults: list[Fault] = []
    parsed_queries = []
    for row in _rows(queries, "queries", faults):
        fields = dict(row.data)
        query_id = str(fields.pop("query"))
        row.data = {"split": "test", **fields, "_id": query_id}
        query = read_query(row, {})
        parsed_queries += [] if query is None else [query]
    parsed_labels = _labels(labels, item_catalog, faults, grades)
    raise_faults(faults, subject=f"dataset {name}")
    labelled = Dataset(
        name=name, version="1", catalog=item_catalog, queries=tuple(parsed_queries), labels=tuple(parsed_labels)
    )
    partly = {query.id for query in parsed_queries if query.partly_labelled}
    helpful = {label.query for label in parsed_labels if label.grade == Grade.HELPFUL}
    unlabelled = [query for query in labelled.unlabelled if query not in partly | helpful]
    if 0 < len(unlabelled) < len(parsed_queries):  # else it is a dataset that is to be labelled
        counts = {"n": len(unlabelled), "of": len(parsed_queries)}
        _log.warning(Message("api.queries-unlabelled", name=name, queries=unlabelled[:3], **counts))
    raise_first((not isinstance(runs or {}, Mapping), Message("api.runs-form", type=type(runs).__name__)))
    for run_name in runs or ():
        raise_first((run_name in (*shipped(), ORACLE), Message("api.run-named-as-selector", name=run_name)))
    return Data(
        labelled, runs={key: external_run(run, name=f"run {key!r}", of=labelled) for key, run in (runs or {}).items()}
    )


def external_run(run: Any, *, name: str = "run", of: Dataset | None = None) -> ExternalRun:
    """A ranking that another program made, see `answers`.

    Args:
        run: as `answers` takes it.
        name: what faults call it.
        of: the dataset whose queries and items alone it may name; None = any.

    Raises:
        StorageError: a file cannot be read.
        InputError: it is no run, or rows are faulty: all of them.
    """
    faults: list[Fault] = []
    if isinstance(run, str | Path):
        run = ExternalRun(str(run))
        run.rankings  # noqa: B018 - reads the file, which may be missing or faulty
    parsed = run if isinstance(run, ExternalRun) else ExternalRun.of(ranked_documents(_ranked(run, name), faults))
    if of is not None:
        queries = {query.id for query in of.queries}
        unknown = {
            "api.run-queries-unknown": [query for query in parsed.rankings if query not in queries],
            "api.run-items-unknown": [item for item in parsed.documents if item not in of.catalog.named],
        }
        faults += [Fault(Message(key, n=len(names), names=names[:5])) for key, names in unknown.items() if names]
    raise_faults(faults, subject=name)
    return parsed


def _ranked(run: Any, name: str) -> Iterator[tuple[str, int, str, str, Any]]:
    """Location (text and line), query, item and score of each row of a run; without scores, minus the rank.

    Raises:
        ParameterError: it is no run.
        InputError: a column is missing.
    """
    data = run.to_dict() if hasattr(run, "to_dict") and not hasattr(run, "columns") else run  # of ranx
    rankings = data if isinstance(data, Mapping) else {}
    for part in (data, *rankings.values()):
        raise_first((isinstance(part, str) or not isinstance(part, Iterable), Message("api.run-form", got=part)))
    for query, ranking in rankings.items():
        pairs = ranking.items() if isinstance(ranking, Mapping) else ((item, -n) for n, item in enumerate(ranking, 1))
        yield from ((f"{name}, query {query}", 0, str(query), str(item), score) for item, score in pairs)
    if data is rankings:
        return
    frame = data if hasattr(data, "columns") else make_frame(data)
    query, item, score, rank = (
        next((list(frame[option]) for option in options if option in frame.columns), None)
        for options in _RUN_COLUMNS.values()
    )
    values = score if score is not None or rank is None else [f"-{value}" for value in rank]
    if query is None or item is None or values is None:
        names = {column: _RUN_COLUMNS[column] for column in ("query", "item")}
        raise InputError([Fault(Message("api.run-columns", **names, columns=list(frame.columns)))], subject=name)
    for number, row in enumerate(zip(query, item, values, strict=True)):
        yield f"{name}, row {number}", 0, str(_python(row[0])), str(_python(row[1])), row[2]


def runs_of(datasets: Sequence[Data]) -> dict[str, ExternalRun]:
    """The runs of several datasets by name; those of one name are joined.

    Raises:
        ParameterError: two of one name have the same query.
    """
    if len(datasets) == 1:
        return dict(datasets[0].runs)
    rankings: dict[str, dict[str, Any]] = {}
    for data in datasets:
        for name, run in data.runs.items():
            shared = [query for query in run.rankings if query in rankings.get(name, {})]
            raise_first((shared, Message("api.runs-share-query", name=name, query="".join(shared[:1]))))
            rankings.setdefault(name, {}).update(run.rankings)
    return {name: ExternalRun.of(joined) for name, joined in rankings.items()}


def _labels(
    labels: Rows | str | Path, catalog: Catalog, faults: list[Fault], grades: Grades | None = None
) -> list[Label]:
    """Labels of rows; faults of other rows are added to `faults`."""
    named: dict[str, list[ItemKey]] = {}
    for item in catalog:
        named.setdefault(item.name, []).append(item.key)
    named |= {name: [catalog[position].key] for name, position in catalog.named.items()}
    rows = list(_rows(labels, "labels", faults))
    parsed = []
    for row, grade in zip(rows, _grades(rows, grades, faults), strict=True):
        row.refuse_unknown((*_LABEL, _SCORE))
        name, query = str(row.data["item"]), str(row.data["query"])
        keys = named.get(name, [])
        if len(keys) > 1:
            row.fault(Message("api.label-item-ambiguous", n=len(keys), name=name, query=query))
        elif not keys:
            row.fault(Message("api.label-item-unknown", name=name, query=query, hint=suggest(name, named)))
        if len(keys) != 1:
            continue
        optional = {name: row.take(name, str, "") for name in _LABEL[3:] if name in row.data}
        try:
            parsed.append(Label(query, keys[0], grade, **optional))
        except ParameterError as error:
            row.fault(str(error))
    return parsed


def _grades(rows: Sequence[Row], grades: Grades | None, faults: list[Fault]) -> list[int]:
    """The grade of each row of labels, by its number in `grade` or `score`; required without a number.

    Raises:
        ParameterError: `grades` does not map numbers to grades.
    """
    scored = any(_SCORE in row.data for row in rows)
    numbers = [_number(row, scored) for row in rows]
    positive = sorted({number for number in numbers if number is not None and number > 0})
    grade_of: dict[float, int] = {1: 1, 2: 2}
    if grades is not None:
        try:
            grade_of = {float(n): Grade[g.upper()] if isinstance(g, str) else Grade(g) for n, g in grades.items()}
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ParameterError(Message("api.grades-malformed", got=grades)) from None
    elif len(positive) == 1 and scored:
        grade_of = {positive[0]: Grade.REQUIRED}  # binary judgments, as imports of files read them
    if unknown := [number for number in positive if number not in grade_of]:
        example = ", ".join(f'{n:g}: "{"required" if n == positive[-1] else "helpful"}"' for n in positive[:10])
        message = Message("api.scores-need-grades", scores=[f"{number:g}" for number in unknown[:10]], example=example)
        faults.append(Fault(message))
    return [Grade.REQUIRED if number is None else int(grade_of.get(number, 0)) for number in numbers]


def _number(row: Row, scored: bool) -> float | None:
    """The number of a label, None if it has none. A missing number among scores, or a text, is a fault."""
    value = row.data.get(_SCORE, row.data.get("grade"))
    try:
        number = float(value) if value is not None else math.inf if scored else math.nan
    except (TypeError, ValueError):
        number = math.inf
    if math.isinf(number):
        row.fault(Message("labelling.score-form", kind="finite", got=value))
    return number if math.isfinite(number) else None


def _rows(rows: Rows | str | Path, noun: str, faults: list[Fault]) -> Iterator[Row]:
    """Rows that have all needed fields, in ctxbench's names; faults of other rows are added to `faults`.

    Raises:
        InputError: a column is missing, or two may hold the same field.
        ParameterError: these are no rows.
    """
    header = getattr(rows, "column_names", None) or getattr(rows, "columns", None)
    if header is not None and not isinstance(rows, Mapping):
        names = tuple(map(str, header))
        columns = _columns(noun, names) or names
        if missing := [name for name in _NEEDED[noun] if name not in columns]:
            message = Message("api.column-missing", noun=noun, name=missing[0], names=", ".join(names) or "none")
            raise InputError([Fault(message)])
    for number, (path, line, row) in enumerate(_records(rows, noun, faults)):
        if not isinstance(row, Mapping):
            where = f"{path}, line {line}" if path else f"row {number}"
            raise ParameterError(Message("api.row-form", noun=noun, where=where, got=row))
        cells = _own_fields(noun, {str(name): _python(value) for name, value in row.items()})
        fields = {name: value for name, value in cells.items() if value is not None}
        reading = Row(fields, faults, path or Path(f"{noun}, row {number}"), line)
        missing = [name for name in _NEEDED[noun] if name not in reading.data]
        for name in missing:
            reading.fault(f"{name!r} is missing")
        if not missing:
            yield reading


def _records(rows: Any, noun: str, faults: list[Fault]) -> Iterator[tuple[Path | None, int, Any]]:
    """The file and line (None and 0 in memory) and the cells of each row of a frame, dicts or a file.

    Raises:
        StorageError: the file cannot be read, or is parquet and pyarrow is missing.
        ParameterError: these are no rows, or those of several splits.
    """
    if isinstance(rows, str | Path) and (Path(rows).suffix.lower() in _TABLES or Path(rows).is_file()):
        is_csv = Path(rows).suffix.lower() in (".csv", ".tsv")  # whose missing values are empty
        for document in documents(Path(rows), faults):
            cells = document.value
            if is_csv and isinstance(cells, Mapping):
                cells = {name: cell or None for name, cell in cells.items()}
            yield document.path, document.line, cells
        return
    if isinstance(rows, Mapping) and any(
        hasattr(part, "column_names") or hasattr(part, "columns") for part in rows.values()
    ):
        splits = list(map(str, rows))
        raise ParameterError(Message("api.rows-of-splits", noun=noun, splits=splits, first=splits[0]))
    for name, arguments in (("to_dicts", ()), ("to_pylist", ()), ("to_dict", ("records",))):  # polars, pyarrow, pandas
        if hasattr(rows, name) and hasattr(rows, "columns"):
            rows = getattr(rows, name)(*arguments)
    repository = (
        ", the path of a table, a list of tools, an agent file or a git repository"
        if noun == "items"
        else " or the path of a table"
    )
    no_rows = Message("api.no-rows", noun=noun, repository=repository, type=type(rows).__name__)
    raise_first((isinstance(rows, str | Path | Mapping) or not isinstance(rows, Iterable), no_rows))
    yield from ((None, 0, row) for row in rows)


@lru_cache(maxsize=1024)
def _columns(noun: str, names: tuple[str, ...]) -> Mapping[str, str]:
    """The columns of search programs by the field that they hold; empty if the columns have ctxbench's names.

    Raises:
        InputError: two columns may hold the same field.
    """
    role = "documents" if noun == "items" else noun
    if noun != "items":  # a topic is a query in TREC's files, and elsewhere what the query is about
        others = tuple(name for name in names if name.casefold() != "topic")
        own = {"query"} if noun == "labels" else {"query", "text"}
        names = others if own <= {*others} or field_columns(role, _PUBLISHED[noun]["query"], others) else names
    columns = {field: field_columns(role, published, names) for field, published in _PUBLISHED[noun].items()}
    if noun == "labels":
        for field in ("query", "item"):
            columns[field] = columns[field] or [name for name in names if name == field]
    elif not columns[_NEEDED[noun][0]] or (noun == "items" and not columns["text"]):
        return {}
    for field in columns.keys() & {"text", "title"}:
        is_either = noun == "queries" and {"text", "query"} <= {*columns[field]}
        columns[field] = columns[field][: 2 if is_either else 1]  # else the likeliest
    for field, candidates in columns.items():
        if len(candidates) > 1:
            raise InputError([Fault(Message("api.columns-ambiguous", noun=noun, field=field, columns=candidates))])
    return {field: candidates[0] for field, candidates in columns.items() if candidates}


def _own_fields(noun: str, cells: Mapping[str, Any]) -> Mapping[str, Any]:
    """The cells of a row by ctxbench's names; those of a document as an item, with other columns as its metadata."""
    columns = _columns(noun, tuple(cells))
    fields = {field: cells[name] for field, name in columns.items()}
    rest = {name: value for name, value in cells.items() if name not in columns.values()}
    if noun == "labels" and fields.keys() & {"query", "item"}:
        is_own = columns.get("query") == "query" and columns.get("item") == "item"
        fields = {columns[field] if columns[field] == "grade" else field: cell for field, cell in fields.items()}
        return {name: value for name, value in rest.items() if is_own or name in _LABEL} | fields
    if noun == "queries" and columns:
        return {name: value for name, value in rest.items() if name in QueryRow.__annotations__} | fields
    if not columns or ("name" in cells and str(fields["name"]).partition(":")[0] in ITEM_TYPES):
        return cells
    kind = rest.pop("type") if rest.get("type") in ITEM_TYPES else "reference"
    title, text = str(fields.get("title") or ""), fields.get("text")
    title = "" if title == fields["name"] else title
    metadata = {**(rest.pop("metadata", None) or {}), **rest}
    return {
        "name": fields["name"],
        "type": kind,
        "title": title,
        "description": ": ".join(filter(None, (title, text))) if kind == "tool" else title,
        "text": text,
        "metadata": {name: value for name, value in metadata.items() if value is not None},
    }


def _python(value: Any) -> Any:
    """A cell as a value of Python's own; None where it is missing."""
    value = value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value
    value = value.tolist() if hasattr(value, "tolist") and not isinstance(value, str) else value
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value)):
        return None
    value = value.isoformat() if hasattr(value, "isoformat") else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a file without its `_id`."""
    return {name: value for name, value in row.items() if name != "_id"}


def make_frame(rows: Iterable[Any], columns: Sequence[str] | None = None) -> pd.DataFrame:
    """A frame of rows; pandas is imported here alone, since it takes long."""
    import pandas as pd

    return pd.DataFrame(list(rows), columns=columns)


def _frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """A frame of rows: these columns first, then what else rows have; a column that no row has is left out."""
    frame = make_frame(rows)
    return frame[[*(name for name in columns if name in frame), *(name for name in frame if name not in columns)]]


def run_frame(part: Part, ids: Sequence[str]) -> pd.DataFrame:
    """The ranking of a selector on a dataset, see `Results.to_run`."""
    types = {"query_id": object, "doc_id": object, "score": float, "rank": int}
    rows = (row for block in part.answers.blocks() for row in run_rows(block, ids))
    return make_frame(rows, columns=["query_id", "doc_id", "rank", "score"]).astype(types)[list(types)]


def qrels_frame(dataset: Dataset) -> pd.DataFrame:
    """The labels of a dataset, see `Results.qrels`."""
    types, judged = {"query_id": object, "doc_id": object, "relevance": int}, judged_queries(dataset)
    queries = [query.id for query in dataset.queries if query.id in judged]
    rows = ((label.query, label.item.id, label.grade) for query in queries for label in dataset.labels_of(query))
    return make_frame(rows, columns=list(types)).astype(types)


@dataclass(frozen=True, eq=False)
class Rankings:
    """The ranked items of a run; iterating yields frames of some queries each, so that a large run fits into memory.

    Attributes:
        run: the run folder.
        datasets: by name, as they were asked.
        selectors: names.

    Columns of a frame: `dataset`, `selector`, `query`, `item`, `rank` (from 1, over all ranked items), `score`,
    `offered`, and `rule`, why it was not offered (empty where it was). Items of the session are left out. For a
    selector that does not rank, such as `everything`, the rank is the place in its answer.
    """

    run: RunFolder
    datasets: Mapping[str, Dataset]
    selectors: Sequence[str]

    def __iter__(self) -> Iterator[pd.DataFrame]:
        return self._frames(self.selectors, None)

    def to_frame(
        self, *, selectors: str | Sequence[str] | None = None, queries: str | Sequence[str] | None = None
    ) -> pd.DataFrame:
        """All rows, or those of some selectors and queries.

        Args:
            selectors, queries: names and ids; None = all.

        Raises:
            UnknownNameError: there is no such selector or query.
        """
        import pandas as pd

        names, ids = ([value] if isinstance(value, str) else value for value in (selectors, queries))
        known_ids = {query.id for dataset in self.datasets.values() for query in dataset.queries}
        for kind, values, existing in (("selector", names, self.selectors), ("query", ids, known_ids)):
            check_all_known(kind, values or (), existing)
        frames = list(self._frames(self.selectors if names is None else names, ids))
        return pd.concat(frames, ignore_index=True) if frames else make_frame((), columns=_RANKING)

    def _frames(self, selectors: Sequence[str], queries: Sequence[str] | None) -> Iterator[pd.DataFrame]:
        for (name, dataset), selector in itertools.product(self.datasets.items(), selectors):
            for block in self.run.load(name, selector).answers.blocks():
                chosen = [row for row, query in enumerate(block.queries) if queries is None or query in queries]
                if chosen:
                    yield _ranking_frame(name, selector, block.select_queries(chosen), dataset.catalog)


_RANKING = ["dataset", "selector", "query", "item", "rank", "score", "offered", "rule"]


def _ranking_frame(dataset: str, selector: str, answers: Slice, catalog: Catalog) -> pd.DataFrame:
    """The ranked items of some queries."""
    import pandas as pd

    table = answers.candidates
    rows = np.flatnonzero(table.tier > 0)
    request = table.request[rows]
    rules = np.array(["" if rule is None else str(rule) for rule in table.rules], dtype=object)
    columns = [
        dataset,
        selector,
        np.array(answers.queries, dtype=object)[request],
        np.array(catalog.ids, dtype=object)[table.item[rows]],
        np.arange(1, len(rows) + 1) - np.searchsorted(request, request),
        table.score[rows],
        table.chosen[rows],
        rules[table.out[rows]],
    ]
    return pd.DataFrame(dict(zip(_RANKING, columns, strict=True)))
