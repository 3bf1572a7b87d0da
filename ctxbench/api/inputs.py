"""Datasets, catalogs, selectors and presets from files, frames or Python."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from ctxbench.catalogs.agent_file import open_catalog
from ctxbench.catalogs.git_trees import tree_view
from ctxbench.catalogs.snapshots import read_item
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import create_dataset
from ctxbench.datasets.lookup import open_dataset
from ctxbench.datasets.queries import Label, read_query
from ctxbench.io.documents import dump_json
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    SelectorError,
    check_known,
    raise_first,
    suggest,
)
from ctxbench.io.rows import Row
from ctxbench.model.candidates import Candidates, register_templates, reranked
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.registry import REFINE_KINDS, parameters
from ctxbench.model.requests import Query
from ctxbench.model.resources import Resources
from ctxbench.model.strategies import Step, Strategy
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.selectors.callable import CallableSource
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.definitions import (
    SelectorSpec,
    definition_spec,
    find_definition,
    pipeline_of,
    pipeline_spec,
    shipped_spec,
)
from ctxbench.selectors.external import External, FileSelector
from ctxbench.selectors.selector import ORACLE, Selector, Value

if TYPE_CHECKING:
    import pandas as pd

    from ctxbench.search.embedders import Embedder

    EmbedderObject: TypeAlias = Embedder | Callable[[Sequence[str]], Any]
    Rows: TypeAlias = pd.DataFrame | Iterable[Mapping[str, Any]]

Ranker: TypeAlias = Callable[[list[Mapping[str, Any]]], Sequence[float] | Sequence[Mapping[str, Any]]]
"""From results, best first, to a number for each (higher is better), or to the same results in another order."""

_LABEL = ("query", "item", "grade", "via", "alternatives", "quote")


@dataclass(frozen=True, eq=False)
class Data:
    """A labelled dataset, and its parts as frames.

    Attributes:
        dataset: as commands and selectors take it.
        source: the name or folder that it was opened by; empty = it is in memory alone.
    """

    dataset: Dataset
    source: str = ""

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
        return Data(self.dataset.with_labels(parsed))

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


def dataset(items: Rows | Catalog, queries: Rows, labels: Rows, *, name: str = "mine") -> Data:
    """A dataset of frames or rows, without a file.

    Args:
        items: as for `catalog`.
        queries: `query` (the id), `text`, and if wanted `split` (else `test`) and what else `queries.jsonl` may hold.
        labels: `query`, `item` (an id, or the name of an item that no other has), and if wanted `grade` (else 2,
            required), `via`, `alternatives` and `quote`. A query without any needs `needs: "nothing"` in `queries`,
            or nothing is measured on it.
        name: what tables call it.

    Raises:
        InputError: rows are faulty, or labels name what is not there: all of them.

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
    return Data(
        Dataset(
            name=name, version="1", catalog=item_catalog, queries=tuple(parsed_queries), labels=tuple(parsed_labels)
        )
    )


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


EmbedderGiven: TypeAlias = "str | Mapping[str,Any] | EmbedderObject"
"""An embedder as a user gives it: its name, a mapping of name and options, an object, or a function."""


def embedder_name(embedder: EmbedderGiven) -> str:
    """The name of an embedder: itself, or that under which a function or an object is one in this process.

    Raises:
        UserError: it is none of them, an option is wrong, or the function fails on a first text.
    """
    if isinstance(embedder, str):
        return embedder
    from ctxbench.search.embedders import embedder_text, named

    return str(embedder_text(embedder)) if isinstance(embedder, Mapping) else named(embedder)


@dataclass(frozen=True)
class Recorded:
    """A file of answers, one line per query; see `answers`."""

    path: Path


def answers(path: str | Path) -> Recorded:
    """Answers that were recorded in a file, as a selector for `evaluate`.

    Args:
        path: one JSON object per line: `{"query": ..., "items": [...]}`, as `ctxbench score` takes it.
    """
    return Recorded(Path(path))


def pipeline(
    retrieve: Any,
    *,
    analyse: Any = "sentences",
    refine: Sequence[Any] = (),
    format: Any = None,  # noqa: A002
) -> Pipeline:
    """A pipeline of registered steps, as a selector for `evaluate`.

    Args:
        retrieve: how candidates are found: a name (`"bm25"`), `{name: parameters}`, or `{"merge": {source: ...}}`. The
            `embedder` of `dense` is as for `evaluate`.
        analyse: how a request becomes chunks.
        refine: what ranks, cuts and expands them, in order.
        format: how the prompt is made; None = as usual.

    Raises:
        PipelineError: a step or a parameter is unknown, or steps do not fit together: all faults.

    Example:
        >>> len(ctxbench.pipeline("bm25", refine=[{"first": {"n": 5}}]).refine)
        1
    """
    spec = {"analyse": analyse, "retrieve": retrieve, "refine": list(refine)}
    return _pipeline_of_spec(spec if format is None else {**spec, "format": format})


def _pipeline_of_spec(spec: Mapping[str, Any]) -> Pipeline:
    """The pipeline of a specification in which embedders may be functions."""

    def resolve(part: Any) -> Any:
        if isinstance(part, Mapping):
            return {
                name: embedder_name(value) if name == "embedder" and _embeds(value) else resolve(value)
                for name, value in part.items()
            }
        return [resolve(element) for element in part] if isinstance(part, list | tuple) else part

    return pipeline_of(resolve(spec))


def _embeds(value: Any) -> bool:
    """Whether a value is a function or an embedder, and not a name, or a source of a merge that is called so."""
    return callable(value) or hasattr(value, "embed")


def step(kind: str, strategy: Any, *, name: str = "") -> Step:
    """A strategy of your own as a step of a `pipeline`, without an entry point.

    Args:
        kind: `analyse`, `retrieve`, `rank`, `cut`, `expand`, `pack` or `format`.
        strategy: an object of a frozen dataclass derived from `ctxbench.Strategy`, whose fields are its parameters.
            With `out`, answers are kept by its class and its parameters: what else it reads must not change. Of steps
            that keep items out by one code, the last that was made says its words.
        name: what reports call it; empty = its class, in small letters.

    Raises:
        ParameterError: the kind is unknown, or the strategy is no such object.

    Example:
        >>> import dataclasses, numpy as np
        >>> @dataclasses.dataclass(frozen=True)
        ... class Odd(ctxbench.Strategy):
        ...     rule_words = {"odd": "its position is even"}
        ...
        ...     def __call__(self, query, candidates, resources):
        ...         found = candidates.chosen & (candidates.tier > 0)
        ...         even = found & (ctxbench.place_among(candidates, found) % 2 == 1)
        ...         return candidates.exclude(even, ctxbench.Rule.of("odd"))
        >>> mine = ctxbench.pipeline("bm25", refine=[ctxbench.step("cut", Odd())])
        >>> tools = ctxbench.catalog([{"name": "area a"}, {"name": "area b"}, {"name": "area c"}])
        >>> ctxbench.select("area", tools, selector=mine, counter="chars/4").to_frame(near=1)["rule"].tolist()
        ['', '', 'its position is even']
    """
    kinds = ("analyse", "retrieve", *REFINE_KINDS, "format")
    check_known("kind of step", kind, kinds)
    is_class, words = isinstance(strategy, type), getattr(strategy, "rule_words", {})
    kind_given = f"the class {strategy.__name__}" if is_class else type(strategy).__name__
    raise_first(
        (
            is_class or not (dataclasses.is_dataclass(strategy) and callable(strategy)),
            Message("api.no-strategy", type=kind_given),
        ),
        (
            not isinstance(words, Mapping) or not all(isinstance(text, str) for pair in words.items() for text in pair),
            Message("api.rule-words", type=kind_given, words=words),
        ),
    )
    try:
        dump_json(parameters(strategy))
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"the fields of {type(strategy).__name__} are its parameters, which JSON must hold ({error}); keep what "
            "else it needs in a field with `init=False`, or outside of it"
        ) from None
    register_templates(words)
    return Step(kind, name or type(strategy).__name__.lower(), strategy)


@dataclass(frozen=True)
class ByFunction(Strategy):
    """Orders what is offered to a request by a function of Python.

    Attributes:
        ranker: the function.
        results: from query, candidates and the index of a request to its results, one per offered row, in order.
        keeps: the column that keeps the scores before; empty = none.
    """

    ranker: Ranker
    results: Callable[[Query, Candidates, int], Sequence[Mapping[str, Any]]]
    keeps: str = ""
    orders: ClassVar[bool] = True

    def __call__(self, query: Query, candidates: Candidates, _: Resources) -> Candidates:
        """Replace the scores by those of the function."""
        score, rows = candidates.score.copy(), candidates.chosen & (candidates.tier > 0)
        for request in range(candidates.n_requests):
            results = self.results(query, candidates, request)
            try:
                answer: list[Any] = list(self.ranker(list(results)))
                order = {id(result): -place for place, result in enumerate(answer)}
                if answer and order.keys() == set(map(id, results)):
                    answer = [order[id(result)] for result in results]
                scores = np.array([float(value) for value in answer], dtype=np.float64)
            except Exception as error:
                raise SelectorError(f"the ranker failed: {type(error).__name__}: {error}") from error
            if len(scores) != len(results) or not np.isfinite(scores).all():
                wrong = [f"{len(scores)} for {len(results)} results"] if len(scores) != len(results) else []
                wrong += [f"{value} for result {n}" for n, value in enumerate(scores, 1) if not math.isfinite(value)]
                raise SelectorError(
                    "a ranker must return one finite number per result, or all results in another order; got "
                    f"{wrong[0]}"
                )
            score[np.flatnonzero(rows & (candidates.request == request))] = scores
        before = {self.keeps: candidates.columns.get(self.keeps, candidates.score)} if self.keeps else {}
        return reranked(candidates.with_columns(**before), score)


def item_results(query: Query, candidates: Candidates, request: int) -> list[dict[str, Any]]:
    """What a request is offered, in order: the fields of each item, as in `corpus.jsonl`, and its `score`."""
    rows = np.flatnonzero(candidates.chosen & (candidates.tier > 0) & (candidates.request == request)).tolist()
    catalog = query.batch.catalog
    return [{**catalog[int(candidates.item[row])].as_row(), "score": float(candidates.score[row])} for row in rows]


@dataclass(frozen=True, eq=False)
class Preset:
    """A selector with values of its parameters; `evaluate` and `select` take it as a selector.

    Attributes:
        name: of its policy.
        selector: as `tune` was given it.
        values: by parameter, those that have an effect.
        recommended: whether tuning found it better than the default; else it is the default.
        advice: what to do, in one sentence.
        definition: of the selector; of answers None, as only who recorded them can run that.
    """

    name: str
    selector: str
    values: Mapping[str, Value]
    recommended: bool
    advice: str
    definition: Definition | None = field(repr=False)

    @property
    def settled(self) -> tuple[Definition, dict[str, Value]]:
        """The definition, and the values of all its parameters.

        Raises:
            ParameterError: it is of recorded answers.
        """
        if self.definition is None:
            values = ", ".join(f"{name} {value}" for name, value in self.values.items())
            raise ParameterError(
                f"preset {self.name!r} was tuned on recorded answers, which only your own selector can give anew: cut "
                f"its ranking by {values}, and record the answers again"
            )
        return self.definition, self.definition.with_defaults(self.values)

    @property
    def pipeline(self) -> Pipeline:
        """Its steps; raises as `settled`."""
        definition, values = self.settled
        return definition.pipeline(values)


def selector_spec(name: str, selector: Any) -> SelectorSpec:
    """What a user gave as a selector, as an experiment has it.

    Raises:
        UserError: it is none.
    """
    if isinstance(selector, str):
        return shipped_spec(selector, name=name)
    if isinstance(selector, Mapping) and "selector" in selector:
        return _defined(name, selector)
    if isinstance(selector, Pipeline | Mapping):
        return pipeline_spec(name, selector if isinstance(selector, Pipeline) else _pipeline_of_spec(selector))
    if isinstance(selector, Preset):
        return dataclasses.replace(definition_spec(name, *selector.settled), shipped="")  # a tuned preset is the user's
    if isinstance(selector, Recorded):
        return _outside(name, FileSelector(selector.path, name=name))
    if hasattr(selector, "select") and hasattr(selector, "describe"):
        return _outside(name, selector)
    if callable(selector):
        return _outside(name, External(CallableSource(selector), name=name))
    raise ParameterError(
        f"selector {name!r} must be the name of a shipped one, a pipeline, answers, a function or an object with "
        f"describe and select; got {type(selector).__name__}"
    )


def _defined(name: str, entry: Mapping[str, Any]) -> SelectorSpec:
    """A shipped selector with values of its parameters, as an experiment writes it."""
    keys = ("selector", "preset", "set")
    unknown, values = "".join([str(key) for key in entry if key not in keys][:1]), entry.get("set", {})
    are_names = all(isinstance(entry.get(key, ""), str) for key in keys[:2])
    raise_first(
        (
            not entry.keys() <= set(keys),
            Message("api.selector-key", name=name, key=unknown, hint=suggest(unknown, keys)),
        ),
        (not (isinstance(values, Mapping) and are_names), Message("api.selector-fields", name=name)),
    )
    if entry["selector"] == ORACLE and len(entry) == 1:
        return shipped_spec(ORACLE, name=name)
    definition, preset = find_definition(entry["selector"], entry.get("preset"))
    return definition_spec(name, definition, definition.values(preset, values))


def _outside(name: str, selector: Selector) -> SelectorSpec:
    def make(_resources: Resources, _memo: MutableMapping[str, Any]) -> Selector:
        return selector

    return SelectorSpec(name, make, "a selector of the user's", external=True)
