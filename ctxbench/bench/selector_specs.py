"""The selectors of an experiment, each with what makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from ctxbench.core.pipeline import Pipeline
from ctxbench.core.stages import Resources
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.definitions import find_definition
from ctxbench.selectors.parameters import Parameter, Value
from ctxbench.selectors.pipelines import ABOUT, ORACLE, Oracle, PipelineSelector
from ctxbench.selectors.selector import Selector

Make = Callable[[Resources, MutableMapping[str, Any]], Selector]


@dataclass(frozen=True, eq=False)
class SelectorSpec:
    """A selector of an experiment, checked but not yet made.

    Attributes:
        name: what tables call it; unique in the experiment.
        make: makes it from resources and a memo for shared steps.
        about: one line for reports: the preset's or the selector's.
        values: its parameters that have an effect, by name; empty for outside selectors.
        parameters: all of them, by name; empty where they have no names.
        like: the selector whose sizes it takes, or None.
        outside: True for a selector of the user's.
        line: where it stands in the file, 1-based; 0 = in none.
    """

    name: str
    make: Make
    about: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)
    like: str | None = None
    outside: bool = False
    line: int = 0
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


def shipped_spec(selector: str, *, name: str) -> SelectorSpec:
    """A shipped selector, given as `name` or `name/preset`, or one of a definition in a file.

    Raises:
        UserError: it is unknown or faulty.
    """
    if selector == ORACLE:
        return _oracle_spec(name)
    found, preset = find_definition(selector)
    values = found.values(preset)
    return definition_spec(name, found, values, found.about if preset is None else found.abouts[preset])


def definition_spec(name: str, definition: Definition, values: Mapping[str, Value], about: str = "") -> SelectorSpec:
    """A definition with values of its parameters."""
    made = _pipeline_maker(name, definition.pipeline(values))
    return SelectorSpec(name, made, about, definition.in_force(values), parameters=definition.parameters)


def pipeline_spec(name: str, pipeline: Pipeline) -> SelectorSpec:
    """A pipeline of the user's."""
    return SelectorSpec(name, _pipeline_maker(name, pipeline), "")


def _pipeline_maker(name: str, pipeline: Pipeline) -> Make:
    return lambda resources, memo: PipelineSelector(name, pipeline, resources, memo)


def _oracle_spec(name: str) -> SelectorSpec:
    return SelectorSpec(name, lambda resources, _memo: Oracle(name, resources), ABOUT)
