"""Datasets and catalogs from files, frames or Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ctxbench.catalogs.agent_file import open_catalog
from ctxbench.catalogs.git_trees import tree_view
from ctxbench.catalogs.snapshots import read_item
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import create_dataset
from ctxbench.datasets.lookup import open_dataset
from ctxbench.datasets.queries import Label, read_query
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    raise_first,
    suggest,
)
from ctxbench.io.rows import Row, ranked_documents
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.selectors.definitions import shipped
from ctxbench.selectors.external import ExternalRun
from ctxbench.selectors.selector import ORACLE

if TYPE_CHECKING:
    import pandas as pd

    from ctxbench.search.embedders import Embedder

    EmbedderObject: TypeAlias = Embedder | Callable[[Sequence[str]], Any]
    Rows: TypeAlias = pd.DataFrame | Iterable[Mapping[str, Any]]

_RUN_COLUMNS = {  # of ctxbench, ir_measures, ranx and PyTerrier
    "query": ("query", "query_id", "q_id", "qid"),
    "item": ("item", "doc_id", "docno", "docid"),
    "score": ("score",),
    "rank": ("rank",),
}
_LABEL = ("query", "item", "grade", "via", "alternatives", "quote")


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

    def with_labels(self, labels: Rows) -> Data:
        """The same dataset with other labels, in memory, such as an edited copy of `labels`.

        Args:
            labels: as for `dataset`: all of them, not only those that changed.

        Raises:
            InputError: rows are faulty, or name what is not there: all of them.

        Example:
            >>> ds = ctxbench.load("datasets/smoke")
            >>> len(ds.with_labels(ds.labels[ds.labels["grade"] == 2]).labels)
            51
        """
        faults: list[Fault] = []
        parsed = _labels(labels, self.dataset.catalog, faults)
        if faults:
            raise InputError(faults, subject=f"dataset {self.name}")
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
    """A catalog of rows: dicts, or a frame, with `name` and what else an item has (`server`, `description` ...).

    Args:
        rows: one an item, in the order that breaks ties; without `type` (and `id`) an item is a tool. A missing value
            (None, NaN) is as if the column were not there. Or a git repository: its folder, as `--catalog` takes
            it, so also `REPO@COMMIT` and `REPO:definitions`.

    Raises:
        InputError: rows are no items, or two are the same: all faults, by row from 0.
        UserError: the repository cannot be read.

    Example:
        >>> len(ctxbench.catalog([{"name": "area", "description": "Area of a triangle"}]))
        1
    """
    if isinstance(rows, str | Path) and tree_view(str(rows)):
        return open_catalog(rows)
    faults: list[Fault] = []
    items: dict[ItemKey, Item] = {}
    for row in _rows(rows, "items", ("name",), faults):
        fields = dict(row.data)
        item_id = fields.pop("id", None) or fields.pop("_id", None)
        key = ItemKey(str(fields.get("type", "tool")), fields.get("server"), str(fields["name"]))
        row.data = {**fields, "_id": item_id or key.id}
        if (item := read_item(row)) is not None and items.setdefault(item.key, item) is not item:
            row.fault(Message("api.item-repeated", id=item.id))
    if faults:
        raise InputError(faults, subject="the catalog")
    return Catalog(items.values())


def dataset(
    items: Rows | Catalog, queries: Rows, labels: Rows, *, name: str = "mine", runs: Mapping[str, Any] | None = None
) -> Data:
    """A dataset of frames or rows, without a file.

    Args:
        items: as for `catalog`.
        queries: `query` (the id), `text`, and if wanted `split` (else `test`) and what else `queries.jsonl` may hold.
        labels: `query`, `item` (an id, or the name of an item that no other has), and if wanted `grade` (else 2,
            required), `via`, `alternatives` and `quote`. A query without any needs `needs: "nothing"` in `queries`,
            or nothing is measured on it.
        name: what tables call it.
        runs: rankings of other programs by name, as `answers` takes them; `evaluate` takes the names as selectors.

    Raises:
        InputError: rows are faulty, or labels or runs name what is not there: all of them.

    Example:
        >>> ds = ctxbench.dataset(
        ...     [{"name": "area"}, {"name": "root"}],
        ...     [{"query": "q1", "text": "the area of a triangle"}],
        ...     [{"query": "q1", "item": "area"}],
        ... )
        >>> ds.labels["item"].tolist()
        ['tool:area']
    """
    item_catalog = items if isinstance(items, Catalog) else catalog(items)
    faults: list[Fault] = []
    parsed_queries = []
    for row in _rows(queries, "queries", ("query", "text"), faults):
        fields = dict(row.data)
        query_id = str(fields.pop("query"))
        row.data = {"split": "test", **fields, "_id": query_id}
        query = read_query(row, {})
        parsed_queries += [] if query is None else [query]
    parsed_labels = _labels(labels, item_catalog, faults)
    if faults:
        raise InputError(faults, subject=f"dataset {name}")
    made = Dataset(
        name=name, version="1", catalog=item_catalog, queries=tuple(parsed_queries), labels=tuple(parsed_labels)
    )
    for run_name in runs or ():
        raise_first((run_name in (*shipped(), ORACLE), Message("api.run-named-as-selector", name=run_name)))
    return Data(made, runs={key: external_run(run, name=f"run {key!r}", of=made) for key, run in (runs or {}).items()})


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
    parsed = run if isinstance(run, ExternalRun) else ExternalRun.of(ranked_documents(_ranked(run, name), faults))
    if of is not None:
        queries = {query.id for query in of.queries}
        unknown = {
            "api.run-queries-unknown": [query for query in parsed.rankings if query not in queries],
            "api.run-items-unknown": [item for item in parsed.documents if item not in of.catalog.named],
        }
        faults += [Fault(Message(key, n=len(names), names=names[:5])) for key, names in unknown.items() if names]
    if faults:
        raise InputError(faults, subject=name)
    return parsed


def _ranked(run: Any, name: str) -> Iterator[tuple[str, int, str, str, Any]]:
    """Location (text and line), query, item and score of each row of a run; without scores, minus the rank.

    Raises:
        ParameterError: it is no run.
        InputError: a column is missing.
    """
    given = run.to_dict() if hasattr(run, "to_dict") and not hasattr(run, "columns") else run  # of ranx
    rankings = given if isinstance(given, Mapping) else {}
    for part in (given, *rankings.values()):
        raise_first((isinstance(part, str) or not isinstance(part, Iterable), Message("api.run-form", got=part)))
    for query, ranking in rankings.items():
        pairs = ranking.items() if isinstance(ranking, Mapping) else ((item, -n) for n, item in enumerate(ranking, 1))
        yield from ((f"{name}, query {query}", 0, str(query), str(item), score) for item, score in pairs)
    if given is rankings:
        return
    frame = given if hasattr(given, "columns") else make_frame(given)
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


def _labels(labels: Rows, catalog: Catalog, faults: list[Fault]) -> list[Label]:
    """Labels of rows; faults of other rows are added to `faults`."""
    named: dict[str, list[ItemKey]] = {}
    for item in catalog:
        named.setdefault(item.name, []).append(item.key)
        named[item.id] = [item.key]
    parsed = []
    for row in _rows(labels, "labels", ("query", "item"), faults):
        row.refuse_unknown(_LABEL)
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
            parsed.append(Label(query, keys[0], row.take("grade", int, 2), **optional))
        except ParameterError as error:
            row.fault(str(error))
    return parsed


def _rows(rows: Rows, noun: str, needs: tuple[str, ...], faults: list[Fault]) -> Iterator[Row]:
    """Rows of a frame or of dicts that have all needed columns; faults of other rows are added to `faults`.

    Raises:
        InputError: it is no frame and no rows, or a column is missing.
    """
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        if missing := [name for name in needs if name not in rows.columns]:
            names = ", ".join(map(str, rows.columns)) or "none"
            raise InputError([Fault(f"{noun}: column {missing[0]!r} is missing; the columns are {names}")])
        rows = rows.to_dict("records")
    repository = " or a git repository" if noun == "items" else ""
    no_rows = Message("api.no-rows", noun=noun, repository=repository, type=type(rows).__name__)
    raise_first((isinstance(rows, str | Mapping) or not isinstance(rows, Iterable), no_rows))
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ParameterError(f"{noun}: row {number} must be a dict, got {row!r:.60}")
        values = {str(name): _python(value) for name, value in row.items()}
        reading = Row(
            {name: value for name, value in values.items() if value is not None},
            faults,
            Path(f"{noun}, row {number}"),
            0,
        )
        missing = [name for name in needs if name not in reading.data]
        for name in missing:
            reading.fault(f"{name!r} is missing")
        if not missing:
            yield reading


def _python(value: Any) -> Any:
    """A cell as a value of Python's own; None where it is missing."""
    value = value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value
    value = value.tolist() if hasattr(value, "tolist") and not isinstance(value, str) else value
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value)):
        return None
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
