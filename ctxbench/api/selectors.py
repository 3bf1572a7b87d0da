"""Selectors from Python, presets, and `select` for one request."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from ctxbench.api.inputs import Data, catalog_of, external_run, make_frame
from ctxbench.io.documents import dump_json
from ctxbench.io.errors import Message, ParameterError, SelectorError, check_known, raise_first, suggest
from ctxbench.io.files import cache_dir
from ctxbench.io.rows import named_instant
from ctxbench.model.arrays import FloatArray
from ctxbench.model.candidates import Candidates, Origin, register_templates, uncut
from ctxbench.model.items import Catalog
from ctxbench.model.registry import REFINE_KINDS, build, check_type, find, names, parameters
from ctxbench.model.requests import Batch, Message as ChatMessage, Query, Request
from ctxbench.model.resources import Resources
from ctxbench.model.strategies import PerType, Step, Strategy
from ctxbench.pipelines.pipeline import ChainedStep, Pipeline
from ctxbench.search.dense import DEPTH
from ctxbench.search.embedders import Embedder, embedder_text, named, open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.callable import CallableSource, check_function, function_name
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.definitions import (
    SelectorSpec,
    definition_spec,
    find_definition,
    pipeline_of,
    pipeline_spec,
    read_presets,
    refuse_time_of_tree,
    selector_of_tree,
    shipped_spec,
)
from ctxbench.selectors.explain import Explained, Explanation, explain
from ctxbench.selectors.external import ByFunction, CutByFunction, External, FileSelector, Rerank, RetrieveByFunction
from ctxbench.selectors.selector import ORACLE, Answers, ExternalRun, Selector, Value

if TYPE_CHECKING:
    import pandas as pd

    from ctxbench.api.inputs import Rows

Ranker: TypeAlias = Callable[[list[Mapping[str, Any]]], Sequence[float] | Sequence[Mapping[str, Any]]]
"""From results, best first, to a number for each (higher is better), or to the same results in another order."""

EmbedderGiven: TypeAlias = str | Mapping[str, Any] | Embedder | Callable[[Sequence[str]], Any]
"""An embedder as a user gives it: its name, a mapping of name and options, an object, or a function."""


def embedder_name(embedder: EmbedderGiven) -> str:
    """The name of an embedder: itself, or that under which a function or an object is one in this process.

    Raises:
        UserError: it is none of them, an option is wrong, or the function fails on a first text.
    """
    if isinstance(embedder, str):
        return embedder
    return str(embedder_text(embedder)) if isinstance(embedder, Mapping) else named(embedder)


@dataclass(frozen=True)
class Recorded:
    """A file of answers, one line per query; see `answers`."""

    path: Path


RUN_ENDINGS = (".run", ".trec")


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

    A query that a run does not have counts as one with nothing offered; `evaluate` warns of it. So measure a run of one
    split with `split`. A query that a file of answers does not have is an error of that query.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: rows are faulty: all of them.

    Example:
        >>> theirs = ctxbench.answers({"q1": {"area": 2.5, "root": 0.5}})
        >>> tools, queries = [{"name": "area"}, {"name": "root"}], [{"query": "q1", "text": "area"}]
        >>> ds = ctxbench.dataset(tools, queries, [{"query": "q1", "item": "area"}])
        >>> res = ctxbench.evaluate(ds, {"theirs": theirs}, embedder="hashing", counter="chars/4")
        >>> res.to_run("theirs")["score"].tolist()
        [2.5, 0.5]
    """
    if isinstance(source, str | Path) and Path(source).suffix not in RUN_ENDINGS:
        FileSelector(source)  # it may be missing or faulty
        return Recorded(Path(source))
    return pipeline(external_run(source))


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
            `embedder` of `dense` is as for `evaluate`. `{"run": ...}` is the ranking of another program, as `answers`
            takes it.
        analyse: how a request becomes chunks.
        refine: what ranks, cuts and expands them, in order.
        format: how the prompt is made; None = as usual.

    Raises:
        PipelineError: a step or a parameter is unknown, or steps do not fit together: all faults.

    Example:
        >>> len(ctxbench.pipeline("bm25", refine=[{"first": {"n": 5}}]).refine)
        1
    """
    raise_first((isinstance(refine, str) or not isinstance(refine, Sequence), Message("api.refine-form", got=refine)))
    spec = {"analyse": analyse, "retrieve": retrieve, "refine": list(refine)}
    return pipeline_of_mapping(spec if format is None else {**spec, "format": format})


def pipeline_of_mapping(spec: Mapping[str, Any]) -> Pipeline:
    """The pipeline of a specification in which embedders may be functions."""
    return pipeline_of(_with_names(spec))


def _with_names(part: Any) -> Any:
    """A part of a specification with names in place of embedders that are functions, and steps in place of runs."""
    if isinstance(part, Mapping):
        return {
            name: embedder_name(value)
            # an embedder may be a name, too, and a source of a merge may be called so
            if name == "embedder" and (callable(value) or hasattr(value, "embed")) and not isinstance(value, Step)
            else _with_run(value)
            if name == "retrieve"
            else _with_names(value)
            for name, value in part.items()
        }
    return [_with_names(element) for element in part] if isinstance(part, list | tuple) else part


def _with_run(retrieve: Any) -> Any:
    """How candidates are found, with runs as steps."""
    if not isinstance(retrieve, Mapping):
        return Step("retrieve", "run", retrieve) if isinstance(retrieve, ExternalRun) else _with_names(retrieve)
    if isinstance(retrieve.get("merge"), Mapping):
        return {**retrieve, "merge": {name: _with_run(source) for name, source in retrieve["merge"].items()}}
    run = retrieve.get("run")
    if run is None or (isinstance(run, Mapping) and isinstance(run.get("file"), str)):
        return _with_names(retrieve)
    return Step("retrieve", "run", external_run(run))


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
    check_known("kind of step", kind, ("analyse", "retrieve", *REFINE_KINDS, "format"))
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
    return ChainedStep(kind, name or type(strategy).__name__.lower(), strategy)


class NamedStep(ChainedStep):
    """A registered strategy as a step: as it is with its defaults, called with other parameters.

    Attributes:
        kind, name: of the registry.
    """

    def __init__(self, kind: str, name: str) -> None:
        """Name it; its strategy is imported when it is first used."""
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "name", name)

    @cached_property
    def call(self) -> Any:
        """The strategy with its defaults.

        Raises:
            ParameterError: a parameter has none.
        """
        return build(self.kind, self.name, {})

    def __call__(self, *values: Any, **parameters: Any) -> ChainedStep:
        """The step with parameters, in the order of the strategy's fields or by name.

        Raises:
            ParameterError: one is unknown, missing, there twice, of the wrong type or out of range.
        """
        fields = [parameter.name for parameter in dataclasses.fields(find(self.kind, self.name)) if parameter.init]
        by_order = dict(zip(fields, values, strict=False))
        if len(values) > len(fields) or by_order.keys() & parameters:
            raise ParameterError(
                Message("api.step-parameters", step=self.name, n=len(values), parameters=fields or ["none"])
            )
        return ChainedStep(self.kind, self.name, build(self.kind, self.name, _with_names({**by_order, **parameters})))

    def __repr__(self) -> str:
        return f"ctxbench.steps.{self.kind}.{self.name}"


class Steps:
    """The registered steps by name, those of plugins too; see `steps`."""

    def __init__(self, *kinds: str) -> None:
        """Take the kinds of steps that it has."""
        self._kinds = kinds

    def __getattr__(self, name: str) -> Any:
        """A step by its name, or the steps of a kind."""
        if name in STEP_KINDS:
            return Steps(name)
        kinds = [] if name.startswith("_") else [kind for kind in self._kinds if name in names(kind)]
        if len(kinds) == 1:
            return NamedStep(kinds[0], name)
        raise AttributeError(
            Message("api.step-of-kinds", name=name, kinds=kinds)
            if kinds
            else Message("api.no-step", name=name, hint=suggest(name, () if name.startswith("_") else dir(self)))
        )

    def __dir__(self) -> list[str]:
        return sorted({*(self._kinds[1:] and self._kinds), *(name for kind in self._kinds for name in names(kind))})

    def __repr__(self) -> str:
        return f"Steps({', '.join(dir(self))})"


STEP_KINDS = ("analyse", "retrieve", *REFINE_KINDS, "format")
steps = Steps(*STEP_KINDS)
"""The registered steps by name, such as `steps.bm25` and `steps.first(5)`, and by kind, such as `steps.cut.first(5)`.

`>>` composes what `pipeline` composes: `steps.bm25 >> ctxbench.rerank(f) >> steps.first(5)`.
"""


Scorer: TypeAlias = Callable[[str, Sequence[str]], Any]
"""From the text of a request and texts of items to a number for each text; higher is better."""


def rerank(function: Scorer, *, top: int = 0, name: str = "") -> Step:
    """A step that orders candidates by the scores of a function, such as a cross-encoder.

    The function is called once per request that has candidates, with what the steps before offer. With `out`, answers
    are kept as long as the file of the function, and modules beside it, stay as they are: a global variable that has
    changed is not noticed. Those of a lambda, a method or a function of a notebook are never used again.

    Args:
        function: from the text of the request and the texts of the candidates, a tuple, best first, to one finite
            number per text: a list or an array, shape (n_texts,). Higher is better. The text of an item is the
            `search_text` that retrievers index: name and description, and for all but tools and skills the text.
        top: how many of the candidates it is called with, the first ones; the others come behind, in their order.
            0 = all.
        name: what reports call the step; empty = the name of the function.

    Returns:
        A step for `pipeline` and `>>`. The scores before it are in the column `retrieved.score`.

    Raises:
        ParameterError: it is no function, or a parameter is out of range.
        SelectorError: when the step runs, the function fails or returns something else; names the query.

    Example:
        >>> def shortest(query, texts):
        ...     return [-len(text) for text in texts]
        >>> mine = ctxbench.steps.bm25 >> ctxbench.rerank(shortest) >> ctxbench.steps.first(1)
        >>> tools = ctxbench.catalog([{"name": "area of a circle"}, {"name": "area"}, {"name": "mail"}])
        >>> ctxbench.select("area of a circle", tools, selector=mine, counter="chars/4").ids
        ['tool:area']
    """
    return _function_step("rank", Rerank, function, name, top=top)


def retrieve(function: Scorer, *, depth: int = DEPTH, name: str = "") -> Step:
    """A step that finds items by the scores of a function.

    The function is called once per request that may get an item. For `out`, see `rerank`.

    Args:
        function: from the text of the request and the texts of all items that it may get, to one number per text,
            shape (n_texts,). None and NaN = the item is no candidate. Texts are those of `rerank`, a tuple in the order
            of the catalog, so that `functools.cache` can keep an index of them.
        depth: how many items are found for a request, the best ones, >= 1.
        name: what reports call the step; empty = the name of the function.

    Returns:
        A step for `pipeline`, also in a `merge`, and for `>>`.

    Raises:
        ParameterError, SelectorError: as `rerank`.

    Example:
        >>> def named(query, texts):
        ...     return [1.0 if text in query else None for text in texts]
        >>> tools = ctxbench.catalog([{"name": "area"}, {"name": "mail"}])
        >>> mine = ctxbench.pipeline(ctxbench.retrieve(named))
        >>> ctxbench.select("area of a circle", tools, selector=mine, counter="chars/4").ids
        ['tool:area']
    """
    return _function_step("retrieve", RetrieveByFunction, function, name, depth=depth)


def cut(function: Callable[[FloatArray], Any], *, name: str = "") -> Step:
    """A step that decides by a function how many candidates are offered.

    The function is called once per request that has candidates. For `out`, see `rerank`.

    Args:
        function: from the scores of what the steps before offer, best first, shape (n,), to how many of them to offer,
            a whole number >= 0, or to n values true or false.
        name: what reports call the step; empty = the name of the function.

    Returns:
        A step for `pipeline` and `>>`.

    Raises:
        ParameterError, SelectorError: as `rerank`.

    Example:
        >>> mine = ctxbench.steps.bm25 >> ctxbench.cut(lambda scores: scores > 0.5 * scores[0])
        >>> tools = ctxbench.catalog([{"name": "area of a circle"}, {"name": "area"}, {"name": "mail"}])
        >>> ctxbench.select("area of a circle", tools, selector=mine, counter="chars/4").ids
        ['tool:area%20of%20a%20circle']
    """
    return _function_step("cut", CutByFunction, function, name)


def _function_step(kind: str, strategy: Callable[..., Any], function: object, name: str, **parameters: int) -> Step:
    """A checked step, by default with the name of its function."""
    check_function(function)
    check_type("name", name, str)
    for key, value in parameters.items():
        check_type(key, value, int)
    call = strategy(function, **parameters)
    return ChainedStep(
        kind, name or function_name(call.function).replace(":", ".").rpartition(".")[2].strip("<>"), call
    )


def item_results(query: Query, candidates: Candidates, request: int) -> list[dict[str, Any]]:
    """What a request is offered, in order: the fields of each item, as in `corpus.jsonl`, and its `score`."""
    rows = np.flatnonzero(candidates.chosen & (candidates.tier > 0) & (candidates.request == request)).tolist()
    catalog = query.batch.catalog
    return [{**catalog[int(candidates.item[row])].as_row(), "score": float(candidates.score[row])} for row in rows]


@dataclass(frozen=True)
class Asked(Strategy):
    """Retrieves what a selector of Python ranks.

    Attributes:
        selector: the selector.
    """

    selector: Selector

    def __call__(self, query: Query, _: Resources) -> Candidates:
        """Ask it for every request.

        Raises:
            SelectorError: it fails on a request.
        """
        answers = self.selector.select(query.batch)
        if answers.errors:
            raise SelectorError(next(iter(answers.errors.values())))
        table = uncut(answers.candidates)
        return table.select_rows(table.origin != Origin.SESSION)


@dataclass(frozen=True, eq=False)
class CutRanking:
    """What a selector of Python ranks, cut by steps.

    Attributes:
        name: in tables.
        selector: it ranks.
        steps: they cut.
        resources: of the steps.
    """

    name: str
    selector: Selector
    steps: Sequence[Step | PerType]
    resources: Resources

    def describe(self) -> dict[str, Any]:
        """The selector and the steps."""
        return {"ranking": self.selector.describe(), "refine": [step.describe() for step in self.steps]}

    def select(self, batch: Batch) -> Answers:
        """Cut its ranking for every request of a batch."""
        answers = self.selector.select(batch)
        table = uncut(answers.candidates)
        for step in self.steps:
            table = step.call(answers.query, table, self.resources)
        return replace(answers, candidates=table, ranked=True)


@dataclass(frozen=True, eq=False)
class Preset:
    """A selector with values of its parameters; `evaluate` and `select` take it as a selector.

    Attributes:
        name: of its policy.
        selector: as `tune` was given it.
        values: by parameter, those that have an effect.
        recommended: whether tuning found it better than the default; else it is the default.
        advice: what to do, in one sentence.
        definition: of the selector; of a function or an object, the cut of its ranking; of recorded answers None, as
            only who recorded them can run that.
        external: the function, with its values, or the object; None for a pipeline.
    """

    name: str
    selector: str
    values: Mapping[str, Value]
    recommended: bool
    advice: str
    definition: Definition | None = field(repr=False)
    external: Selector | None = field(default=None, repr=False)

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
        """Its steps, of which the first may be a function; raises as `settled`."""
        definition, values = self.settled
        built = definition.pipeline(values)
        return (
            built
            if self.external is None
            else replace(built, retrieve=Step("retrieve", self.selector, Asked(self.external)))
        )


def selector_spec(name: str, selector: Any) -> SelectorSpec:
    """What a user gave as a selector, as an experiment has it.

    Raises:
        UserError: it is none.
    """
    if isinstance(selector, str):
        is_file = Path(selector).suffix in (*RUN_ENDINGS, ".jsonl")
        raise_first((is_file, Message("api.selector-is-answers", name=name, path=selector)))
        return shipped_spec(selector, name=name)
    if isinstance(selector, Mapping) and selector.keys() & {"selector", "presets"}:
        raise_first((callable(selector.get("selector")), Message("api.selector-function-values", name=name)))
        return _defined(name, selector)
    if isinstance(selector, Step | ExternalRun):
        selector = {"retrieve": selector}
    if isinstance(selector, Pipeline | Mapping):
        built = selector if isinstance(selector, Pipeline) else pipeline_of_mapping(selector)
        return pipeline_spec(name, built.mapped(_identified_anew))
    if isinstance(selector, Preset) and selector.external is not None:
        external, steps = selector.external, selector.pipeline.refine
        return SelectorSpec(
            name, lambda resources, _: CutRanking(name, external, steps, resources), "a preset", external=True
        )
    if isinstance(selector, Preset):
        return dataclasses.replace(definition_spec(name, *selector.settled), shipped="")  # a tuned preset is the user's
    external = external_of(name, selector)
    return SelectorSpec(name, lambda _resources, _memo: external, external=True)


def external_of(name: str, selector: Any) -> Selector:
    """Recorded answers, or a function or an object of Python, as a selector.

    Raises:
        ParameterError: it is none of them.
        UserError: the answers cannot be read.
    """
    if isinstance(selector, Recorded):
        return FileSelector(selector.path, name=name)
    if hasattr(selector, "select") and hasattr(selector, "describe") and not isinstance(selector, type):
        return selector  # type: ignore[no-any-return]
    if callable(selector):
        return External(CallableSource(selector), name=name)
    raise ParameterError(
        f"selector {name!r} must be the name of a shipped one, a pipeline, answers, a function or an object with "
        f"describe and select; got {type(selector).__name__}"
    )


def _identified_anew(step: Step) -> Step:
    """A step whose function is identified as it is now: what it reads may have changed since an earlier evaluation."""
    return replace(step, call=replace(step.call)) if isinstance(step.call, ByFunction) else step


def _defined(name: str, entry: Mapping[str, Any]) -> SelectorSpec:
    """A selector by name, or a tuned preset by its file, with values of its parameters, as an experiment writes it."""
    kind = "presets" if "presets" in entry else "selector"
    keys = (kind, "preset", "set")
    unknown, values = "".join([str(key) for key in entry if key not in keys][:1]), entry.get("set", {})
    are_names = all(isinstance(entry.get(key, ""), str | Path) for key in keys[:2])
    raise_first(
        (
            not entry.keys() <= set(keys),
            Message("api.selector-key", name=name, key=unknown, hint=suggest(unknown, keys)),
        ),
        (not (isinstance(values, Mapping) and are_names), Message("api.selector-fields", name=name)),
    )
    preset = entry.get("preset")
    if kind == "presets":
        file = read_presets(Path(entry["presets"]))
        raise_first((preset is None, Message("api.preset-missing", file=file.path, names=[*file.presets])))
        definition = file.definition(str(preset))
        return dataclasses.replace(definition_spec(name, definition, definition.values(preset, values)), shipped="")
    if entry["selector"] == ORACLE and len(entry) == 1:
        return shipped_spec(ORACLE, name=name)
    definition, preset = find_definition(str(entry["selector"]), preset)
    return definition_spec(name, definition, definition.values(preset, values))


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
    items: Catalog | Data | Rows | str | Path,
    *,
    selector: str | Path | Pipeline | Step | Preset | Mapping[str, Any] | None = None,
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
        items: what it chooses from: a catalog, a dataset, or what `catalog` takes, such as the path of an agent file or
            of a list of tools, the name of a dataset, a list of dicts, a frame or a git repository.
        selector: a shipped selector, such as `learned/normal`, the path of a definition or an agent file, a pipeline, a
            step, a preset, or a mapping of these as for `evaluate`; None = `learned`, for a repository `codebase`, or
            with `topK`, `topN` or `includeScore` the specification's search, `semantic`.
        history: the messages before, as (role, content), or as dicts with both.
        tool_results: what tools have answered, as (tool name, text), for selectors that search with it.
        user, workspace: whose request it is: it sees their items and everybody's.
        time: when it is asked, ISO 8601: it sees what was there then. None = now.
        embedder: as for `evaluate`.
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
        built = replace(built, refine=(*built.refine, Step("rank", "custom", Rerank(ranker, results=item_results))))
    if template is not None:
        built = replace(built, format=Step("format", "template", build("format", "template", {"template": template})))
    catalog = catalog_of(items)
    return Selected(explain(built, catalog, request, _resources(catalog, embedder, counter), live=True))


def _resources(catalog: Catalog, embedder: EmbedderGiven, counter: str) -> Resources:
    """Resources that are kept with a catalog."""
    model, counts = open_embedder(embedder_name(embedder)), open_counter(counter, cache=cache_dir())
    if (key := ("resources", model.identity.key, counts.name, str(cache_dir()))) not in catalog.cache:
        catalog.cache[key] = local_resources(model, counts)
    return cast("Resources", catalog.cache[key])


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


def _pipeline_of_selector(selector: Any, parameters: dict[str, Any]) -> Pipeline:
    if selector is not None and not isinstance(selector, str | Path):
        noun = {Preset: "a preset", dict: "a mapping"}.get(type(selector), "a pipeline")
        raise_first((parameters, Message("api.select-parameters", noun=noun, names=[*parameters])))
        if isinstance(selector, Pipeline | Preset):
            return selector if isinstance(selector, Pipeline) else selector.pipeline
        built = selector_spec("selector", selector).pipeline
        raise_first((built is None, Message("api.select-selector", type=type(selector).__name__)))
        return cast("Pipeline", built)
    chosen = str(selector or "") or ("semantic" if parameters.keys() & _SHORT.keys() else "learned")
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
