"""The selectors of an experiment, each with the function that makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError, UserError
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.stages import Resources
from ctxbench.io.yaml_files import line_of
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.definitions import find_definition, selector_name, shipped_name
from ctxbench.selectors.parameters import Parameter, Value
from ctxbench.selectors.pipelines import ABOUT, ORACLE, Oracle, PipelineSelector
from ctxbench.selectors.selector import Selector
from ctxbench.sources.agent_file import is_agent_file, read_agent

Make = Callable[[Resources, MutableMapping[str, Any]], Selector]


@dataclass(frozen=True, eq=False)
class SelectorSpec:
    """A selector of an experiment, checked but not yet made.

    Attributes:
        name: the name in tables; unique in the experiment.
        make: makes it from resources and a memo for shared steps.
        about: one line for reports: the preset's or the selector's.
        values: its parameters that have an effect, by name; empty for external selectors.
        parameters: all of them, by name; empty where they have no names.
        like: the selector whose sizes it takes, or None.
        outside: True for a selector of the user's.
        line: its line in the file, 1-based; 0 = in none.
        shipped: of an agent whose file names none of the user's, the shipped selector that it is, such as
            `learned/normal`; empty for others.
    """

    name: str
    make: Make
    about: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)
    like: str | None = None
    outside: bool = False
    line: int = 0
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    shipped: str = ""


def shipped_spec(selector: str, *, name: str) -> SelectorSpec:
    """A shipped selector, given as `name` or `name/preset`, one of a definition in a file, or that of an agent file.

    Raises:
        UserError: it is unknown or faulty.
    """
    if selector == ORACLE:
        return _oracle_spec(name)
    if (spec := agent_own_spec(selector, name=name)) is not None:
        return spec
    definition, preset = find_definition(selector)
    values = definition.values(preset)
    return definition_spec(name, definition, values, definition.about if preset is None else definition.abouts[preset])


def external_spec(config: Mapping[str, Any], *, base: Path) -> SelectorSpec:
    """An external selector, from its block in a file; see `external_from_config`.

    Raises:
        UserError: the block is faulty.
    """
    from ctxbench.selectors.external import external_from_config  # slow to import

    selector = external_from_config(config, base=base)
    return SelectorSpec(selector.name, lambda _resources, _memo: selector, "a selector of the user's", outside=True)


def agent_own_spec(selector: str, *, name: str = "", base: Path = Path()) -> SelectorSpec | None:
    """The external selector that an agent file names; None where `selector` is no such file, or names another.

    Args:
        selector: as `find_definition` reads it.
        name: the name in tables; empty = as `selector_name` says.
        base: what a path is relative to.

    Raises:
        UserError: the agent file or the block is faulty.
    """
    if not is_agent_file(path := base / selector):
        return None
    agent = read_agent(path)
    if not agent.own:
        return None
    block = {**agent.own, "name": name or selector_name(selector)}
    try:
        return external_spec(block, base=path.parent)
    except InputError:
        raise
    except UserError as error:
        raise InputError([Fault(str(error), path, line_of(agent.lines, ("selector",)))]) from error


def definition_spec(name: str, definition: Definition, values: Mapping[str, Value], about: str = "") -> SelectorSpec:
    """A definition with values of its parameters."""
    return SelectorSpec(
        name,
        _pipeline_maker(name, definition.pipeline(values)),
        about,
        definition.in_force(values),
        parameters=definition.parameters,
        shipped=shipped_name(definition, values),
    )


def pipeline_spec(name: str, pipeline: Pipeline) -> SelectorSpec:
    """A pipeline that the user wrote."""
    return SelectorSpec(name, _pipeline_maker(name, pipeline), "")


def _pipeline_maker(name: str, pipeline: Pipeline) -> Make:
    return lambda resources, memo: PipelineSelector(name, pipeline, resources, memo)


def _oracle_spec(name: str) -> SelectorSpec:
    return SelectorSpec(name, lambda resources, _memo: Oracle(name, resources), ABOUT)
