"""Selectors from Python, presets, and `select` for one request."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from ctxbench.api.inputs import Data, external_run, load, make_frame
from ctxbench.catalogs.agent_file import open_catalog
from ctxbench.io.documents import dump_json
from ctxbench.io.errors import Message, ParameterError, SelectorError, check_known, raise_first, suggest
from ctxbench.io.files import cache_dir
from ctxbench.io.rows import named_instant
from ctxbench.model.candidates import Candidates, register_templates, reranked
from ctxbench.model.items import Catalog
from ctxbench.model.registry import REFINE_KINDS, build, parameters
from ctxbench.model.requests import Message as ChatMessage
from ctxbench.model.requests import Query, Request
from ctxbench.model.resources import Resources
from ctxbench.model.strategies import Step, Strategy
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.callable import CallableSource
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.definitions import (
    SelectorSpec,
    definition_spec,
    find_definition,
    pipeline_of,
    pipeline_spec,
    refuse_time_of_tree,
    selector_of_tree,
    shipped_spec,
)
from ctxbench.selectors.explain import Explained, Explanation, explain
from ctxbench.selectors.external import External, ExternalRun, FileSelector
from ctxbench.selectors.selector import ORACLE, Selector, Value

if TYPE_CHECKING:
    import pandas as pd

    from ctxbench.search.embedders import Embedder

    EmbedderObject: TypeAlias = Embedder | Callable[[Sequence[str]], Any]

Ranker: TypeAlias = Callable[[list[Mapping[str, Any]]], Sequence[float] | Sequence[Mapping[str, Any]]]
"""From results, best first, to a number for each (higher is better), or to the same results in another order."""

EmbedderGiven: TypeAlias = "str | EmbedderObject"
"""An embedder as a user gives it: its name, an object, or a function from texts to an array."""


def embedder_name(embedder: EmbedderGiven) -> str:
    """The name of an embedder: itself, or that under which a function or an object is one in this process.

    Raises:
        UserError: it is none of them, or the function fails on a first text.
    """
    if isinstance(embedder, str):
        return embedder
    from ctxbench.search.embedders import named

    return named(embedder)


@dataclass(frozen=True)
class Recorded:
    """A file of answers, one line per query; see `answers`."""

    path: Path


def answers(source: Any) -> Recorded | Pipeline:
    """Answers that were recorded, or the ranking of another program (a run), as a selector for `evaluate`.

    Args:
        source: the path of a file of answers, a JSON object per line: `{"query": ..., "items": [...]}`, as `ctxbench
            score` takes it. Or a run: the path of one in TREC's format that ends in `.run` or `.trec`; a frame or rows
            with the columns of ir_measures (`query_id`, `doc_id`, `score`), ranx (`q_id`) or PyTerrier (`qid`, `docno`,
            `rank`); `{query: {item: score}}`, `{query: [item, ...]}`, or a `ranx.Run`. An item is an id, or a name that
            no other item has.

    A run offers all that it ranks; `ctxbench.pipeline({"run": source}, refine=[{"first": {"n": 5}}])` offers five.
    Items rank by score, of equal scores the greater id first, as trec_eval has it; without scores, by `rank`.

    Raises:
        InputError: rows of a run are faulty: all of them.

    Example:
        >>> theirs = ctxbench.answers({"q1": {"area": 2.5, "root": 0.5}})
        >>> tools, queries = [{"name": "area"}, {"name": "root"}], [{"query": "q1", "text": "area"}]
        >>> ds = ctxbench.dataset(tools, queries, [{"query": "q1", "item": "area"}])
        >>> res = ctxbench.evaluate(ds, {"theirs": theirs}, embedder="hashing", counter="chars/4")
        >>> res.to_run("theirs")["score"].tolist()
        [2.5, 0.5]
    """
    if isinstance(source, str | Path) and Path(source).suffix not in (".run", ".trec"):
        return Recorded(Path(source))
    return pipeline({"run": source})


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
            `embedder` of `dense` is a name, or a function from a list of texts to an array, shape (n_texts, n_dims).
            `{"run": ...}` is the ranking of another program, as `answers` takes it.
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

    return pipeline_of(resolve({**spec, "retrieve": _with_run(spec["retrieve"])} if "retrieve" in spec else spec))


def _with_run(retrieve: Any) -> Any:
    """How candidates are found, with runs as steps."""
    if not isinstance(retrieve, Mapping):
        return Step("retrieve", "run", retrieve) if isinstance(retrieve, ExternalRun) else retrieve
    if isinstance(retrieve.get("merge"), Mapping):
        return {**retrieve, "merge": {name: _with_run(source) for name, source in retrieve["merge"].items()}}
    run = retrieve.get("run")
    if run is None or (isinstance(run, Mapping) and isinstance(run.get("file"), str)):
        return retrieve
    return Step("retrieve", "run", external_run(run))


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
    if isinstance(selector, ExternalRun):
        return pipeline_spec(name, pipeline(selector))
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


_SHORT = {"topK": "contextTopK", "topN": "contextTopN", "includeScore": "contextIncludeScore"}


@dataclass(frozen=True, eq=False)
class Selected:
    """What a request was offered.

    Attributes:
        explanation: all that `ctxbench select` tells.
    """

    explanation: Explanation

    @property
    def ids(self) -> list[str]:
        """The ids of what is offered, in order."""
        return [candidate.offered.id for candidate in self.explanation.chosen]

    @property
    def tokens(self) -> int:
        """The prompt tokens of what the selector added."""
        return self.explanation.prompt_tokens

    @property
    def messages(self) -> list[dict[str, str]]:
        """What the model would be sent, as `role` and `content`, without tools."""
        return [{"role": role, "content": content} for role, content in self.explanation.prompt.messages]

    @property
    def context(self) -> str:
        """The text that the template or format of the selector writes of the items; empty if it writes none."""
        return self.explanation.prompt.context

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The definitions of the tools offered: `name`, `description`, `inputSchema`."""
        return list(self.explanation.prompt.tools)

    @property
    def notes(self) -> list[str]:
        """What was late, failed or fell back to something else, a sentence each; empty where all went as asked."""
        return [str(note) for note in self.explanation.selection.trace]

    def to_frame(self, *, near: int = 0) -> pd.DataFrame:
        """What is offered, and the `near` best of what stayed out.

        Returns:
            One row per item: `item`, `offered`, `score`, `tokens`, `mode`, `rule` (why it stayed out), `query_chunk`
            and `item_chunk` (the texts that gave the score).
        """
        rows = [_row(candidate, offered=True) for candidate in self.explanation.chosen]
        rows += [_row(candidate, offered=False) for candidate in self.explanation.left_out[:near]]
        return make_frame(
            rows, columns=["item", "offered", "score", "tokens", "mode", "rule", "query_chunk", "item_chunk"]
        )

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"{self.to_frame(near=5).to_html(index=False, border=0)}{notes}"

    def __repr__(self) -> str:
        return f"Selected({self.ids}, {self.tokens} tokens)"


def select(
    text: str,
    items: Catalog | Data | str | Path,
    *,
    selector: str | Pipeline | Preset | None = None,
    history: Sequence[tuple[str, str] | Mapping[str, str]] = (),
    tool_results: Sequence[tuple[str, str]] = (),
    user: str | None = None,
    workspace: str | None = None,
    time: str | datetime | None = None,
    embedder: EmbedderGiven = "minilm",
    counter: str = "o200k",
    ranker: Ranker | None = None,
    template: str | Mapping[str, Any] | None = None,
    **parameters: Any,
) -> Selected:
    """What a selector offers for one request.

    What is computed of a catalog (vectors, counts, indexes) is kept as long as the catalog is: make it once and ask it
    often.

    Args:
        text: the request.
        items: what it chooses from; or the name or folder of a dataset, or of a git repository as `catalog` takes it.
        selector: a shipped selector, such as `learned/normal`, the path of a definition, a pipeline or a preset; None =
            `learned`, for a repository `codebase`, or with `topK`, `topN` or `includeScore` the specification's search,
            `semantic`.
        history: the messages before, as (role, content), or as dicts with both.
        tool_results: what tools have answered, as (tool name, text), for selectors that search with it.
        user, workspace: whose request it is: it sees their items and everybody's.
        time: when it is asked, ISO 8601: it sees what was there then. None = now.
        embedder: its name, such as `minilm`, or a function as for `evaluate`.
        counter: what counts prompt tokens, such as `o200k`.
        ranker: orders what is offered: from dicts with the fields of items and `score` to a number for each, or to the
            dicts in another order.
        template: writes `Selected.context`: `chat`, `detailed`, `summary`, or a dict with `memory_format`, and perhaps
            `header`, `separator`, `footer`, `metadata`.
        **parameters: of the selector, by their names; `topK`, `topN` and `includeScore` are those of the specification.

    Raises:
        UserError: the selector, a parameter, the embedder or the counter is unknown or out of range.

    Example:
        >>> tools = ctxbench.catalog([{"name": "area", "description": "Area of a triangle"}, {"name": "mail"}])
        >>> ctxbench.select("area of a triangle", tools, selector="bm25", n=1, counter="chars/4").ids
        ['tool:area']
    """
    at = time.isoformat() if isinstance(time, datetime) else time
    for name, value in {"text": text, "user": user, "workspace": workspace, "time": at}.items():
        if not isinstance(value, str) and (value is not None or name == "text"):
            raise ParameterError(f"{name} must be a text, got {value!r}")
    named_instant("time", at)
    request = Request(
        id="select",
        text=text,
        history=_messages(history),
        tool_results=_results(tool_results),
        user=user,
        workspace=workspace,
        time=at,
    )
    tree = selector_of_tree(str(items)) if isinstance(items, str | Path) else None
    refuse_time_of_tree(str(items) if tree else None, at)
    built = _pipeline_of_selector(selector or (None if parameters.keys() & _SHORT.keys() else tree), parameters)
    if ranker is not None:
        built = replace(built, refine=(*built.refine, Step("rank", "custom", ByFunction(ranker, item_results))))
    if template is not None:
        built = replace(built, format=Step("format", "template", build("format", "template", {"template": template})))
    opened = items if not isinstance(items, str | Path) else open_catalog(items) if tree else load(items)
    catalog = opened.dataset.current_catalog if isinstance(opened, Data) else opened
    return Selected(explain(built, catalog, request, _resources(catalog, embedder, counter), live=True))


def _resources(catalog: Catalog, embedder: EmbedderGiven, counter: str) -> Resources:
    """Resources that are kept with a catalog."""
    model, counts = open_embedder(embedder_name(embedder)), open_counter(counter, cache=cache_dir())
    if (key := ("resources", model.identity.key, counts.name, str(cache_dir()))) not in catalog.cache:
        catalog.cache[key] = local_resources(model, counts)
    resources: Resources = catalog.cache[key]
    return resources


def _messages(history: Sequence[tuple[str, str] | Mapping[str, str]]) -> tuple[ChatMessage, ...]:
    """Messages before the request.

    Raises:
        ParameterError: one is none.
    """
    messages = []
    for number, message in enumerate(history, start=1):
        pair = (message.get("role"), message.get("content")) if isinstance(message, Mapping) else message
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise ParameterError(
                f"history, message {number}: expected role and content, both texts; got {message!r:.60}"
            )
        messages.append(ChatMessage(str(pair[0]), str(pair[1])))
    return tuple(messages)


def _results(tool_results: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """What tools have answered.

    Raises:
        ParameterError: it is no list of pairs of texts.
    """
    if isinstance(tool_results, str | Mapping) or not isinstance(tool_results, Sequence):
        raise ParameterError(f"tool_results must be a list of (tool name, text), got {tool_results!r:.60}")
    for number, result in enumerate(tool_results, start=1):
        if not isinstance(result, tuple | list) or [type(part) for part in result] != [str, str]:
            raise ParameterError(f"tool_results, result {number}: expected (tool name, text), got {result!r:.60}")
    return tuple((tool, text) for tool, text in tool_results)


def _pipeline_of_selector(selector: str | Pipeline | Preset | None, parameters: dict[str, Any]) -> Pipeline:
    if isinstance(selector, Pipeline | Preset):
        if parameters:
            noun = "a pipeline" if isinstance(selector, Pipeline) else "a preset"
            raise ParameterError(f"{noun} holds its own parameters; leave {', '.join(parameters)} out")
        return selector if isinstance(selector, Pipeline) else selector.pipeline
    chosen = selector or ("semantic" if parameters.keys() & _SHORT.keys() else "learned")
    definition, preset = find_definition(chosen)
    values = {
        _SHORT[name] if name not in definition.parameters and _SHORT.get(name) in definition.parameters else name: value
        for name, value in parameters.items()
    }
    return definition.pipeline(definition.values(preset, values))


def _row(candidate: Explained, *, offered: bool) -> dict[str, Any]:
    return {
        "item": candidate.offered.id,
        "offered": offered,
        "score": candidate.offered.score,
        "tokens": candidate.tokens,
        "mode": candidate.offered.mode,
        "rule": "" if candidate.offered.rule is None else str(candidate.offered.rule),
        "query_chunk": candidate.query_chunk,
        "item_chunk": candidate.item_chunk,
    }
