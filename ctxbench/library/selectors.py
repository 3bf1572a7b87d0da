"""Selectors as users of the library give them: shipped names, pipelines, presets, recorded answers, functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctxbench.bench.selector_specs import SelectorSpec, definition_spec, pipeline_spec, shipped_spec
from ctxbench.core.errors import ParameterError, UnknownNameError, suggest
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.registry import REFINE_KINDS, parameters
from ctxbench.core.rules import register_templates
from ctxbench.core.stages import Resources, Step
from ctxbench.io.json_files import dump_json
from ctxbench.library.embedders import embedder_name
from ctxbench.selectors.callable import CallableSource
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.definitions import find_definition, pipeline_of
from ctxbench.selectors.external import External, FileSelector
from ctxbench.selectors.parameters import Value
from ctxbench.selectors.pipelines import ORACLE
from ctxbench.selectors.selector import Selector


@dataclass(frozen=True)
class Recorded:
    """A file of answers, one line a query; see `answers`."""

    path: Path


def answers(path: str | Path) -> Recorded:
    """Answers that were recorded in a file, as a selector for `evaluate`.

    Args:
        path: one JSON object a line: `{"query": ..., "items": [...]}`, as `ctxbench score` takes it.
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
            `embedder` of `dense` is a name, or a function from a list of texts to an array, shape (n_texts, n_dims).
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
    return _pipeline(spec if format is None else {**spec, "format": format})


def _pipeline(spec: Mapping[str, Any]) -> Pipeline:
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
        kind: `analyse`, `retrieve`, `rank`, `cut`, `expand`, `fit` or `format`.
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
        ...     rule_words = {"odd": "it stands at an even place"}
        ...
        ...     def __call__(self, query, candidates, resources):
        ...         found = candidates.chosen & (candidates.tier > 0)
        ...         even = found & (ctxbench.place_among(candidates, found) % 2 == 1)
        ...         return candidates.exclude(even, ctxbench.Rule.of("odd"))
        >>> mine = ctxbench.pipeline("bm25", refine=[ctxbench.step("cut", Odd())])
        >>> tools = ctxbench.catalog([{"name": "area a"}, {"name": "area b"}, {"name": "area c"}])
        >>> ctxbench.select("area", tools, selector=mine, counter="chars/4").to_frame(near=1)["rule"].tolist()
        ['', '', 'it stands at an even place']
    """
    kinds = ("analyse", "retrieve", *REFINE_KINDS, "format")
    if kind not in kinds:
        raise UnknownNameError("kind of step", kind, kinds)
    if isinstance(strategy, type) or not (dataclasses.is_dataclass(strategy) and callable(strategy)):
        raise ParameterError(
            "a strategy is an object of a frozen dataclass with `__call__`, derived from ctxbench.Strategy; got "
            f"{f'the class {strategy.__name__}' if isinstance(strategy, type) else type(strategy).__name__}"
        )
    words = getattr(strategy, "rule_words", {})
    if not isinstance(words, Mapping) or not all(isinstance(text, str) for pair in words.items() for text in pair):
        raise ParameterError(f"rule_words of {type(strategy).__name__} must map codes to texts, got {words!r}")
    try:
        dump_json(parameters(strategy))
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"the fields of {type(strategy).__name__} are its parameters, which JSON must hold ({error}); keep what "
            "else it needs in a field with `init=False`, or outside of it"
        ) from None
    register_templates(words)
    return Step(kind, name or type(strategy).__name__.lower(), strategy)


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
        return pipeline_spec(name, selector if isinstance(selector, Pipeline) else _pipeline(selector))
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
    if unknown := [key for key in entry if key not in keys]:
        raise ParameterError(f"selector {name!r} has no key {unknown[0]!r}{suggest(str(unknown[0]), keys)}")
    values = entry.get("set", {})
    if not isinstance(values, Mapping) or not all(isinstance(entry.get(key, ""), str) for key in keys[:2]):
        raise ParameterError(f"selector {name!r}: selector and preset are names, and set maps parameters to values")
    if entry["selector"] == ORACLE and len(entry) == 1:
        return shipped_spec(ORACLE, name=name)
    definition, preset = find_definition(entry["selector"], entry.get("preset"))
    return definition_spec(name, definition, definition.values(preset, values))


def _outside(name: str, selector: Selector) -> SelectorSpec:
    def make(_resources: Resources, _memo: MutableMapping[str, Any]) -> Selector:
        return selector

    return SelectorSpec(name, make, "a selector of the user's", outside=True)
