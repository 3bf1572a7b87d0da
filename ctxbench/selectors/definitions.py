"""Selectors by name or file: definitions in YAML, presets files, and specs of an experiment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field

from ctxbench.catalogs.agent_file import (
    PRESET_FORM,
    AgentFile,
    is_agent_file,
    own_kind,
    own_selector_advice,
    program_form,
    read_agent,
)
from ctxbench.io.documents import dump_yaml, line_of, load_yaml, refuse_other_kind
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    UnknownNameError,
    UserError,
    raise_faults,
    suggest,
)
from ctxbench.io.files import write_atomic
from ctxbench.io.rows import YamlForm
from ctxbench.model.formats import FileModel, NullAs, Source, Texts, field_names, parsed, validate, validate_partly
from ctxbench.model.registry import DEFAULTS, REFINE_KINDS, find, names
from ctxbench.model.resources import Resources
from ctxbench.pipelines.pipeline import Pipeline, PipelineError, SpecFault
from ctxbench.selectors.definition import (
    FORMAT,
    SEARCH,
    WHEN,
    Definition,
    PresetsFile,
    TunedBlock,
    TunedPreset,
    definition_hash,
    parameter_texts,
    read_with,
    switched_steps,
    used_names,
)
from ctxbench.selectors.selector import (
    ORACLE,
    Oracle,
    Parameter,
    ParameterBlock,
    PipelineSelector,
    Selector,
    Value,
    choice_faults,
    need_faults,
    set_values,
)

_SHIPPED = Path(__file__).parent / "shipped"
_JOINED = re.compile(r"(.+\.ya?ml)[#:/@]([^/]+)")  # a presets file and a preset, written as one
_FILES = ("calibration", "graph", "file")  # parameters of steps that are paths


def selector_of_tree(catalog: str) -> str | None:
    """The shipped selector for a catalog whose name means a tree of a repository; None for any other."""
    from ctxbench.catalogs.git_trees import tree_view

    view = tree_view(catalog)
    return None if view is None else "codebase/definitions" if view == "definitions" else "codebase"


def refuse_time_of_tree(catalog: str | None, time: str | None) -> None:
    """Refuse a time for a tree of a repository, which is always that of one commit or of the working directory.

    Raises:
        ParameterError: both are given.
    """
    from ctxbench.catalogs.git_trees import tree_view

    if time is not None and catalog is not None and tree_view(catalog) is not None:
        raise ParameterError(f"{catalog} is one tree, whatever the time; name a commit of then: REPO@COMMIT")


def rooted(spec: Any, base: Path, *, files: bool = True) -> Any:
    """A pipeline's specification with its paths relative to `base`; the sources of a `merge` are no parameters."""
    if isinstance(spec, list):
        return [rooted(entry, base) for entry in spec]
    if not isinstance(spec, Mapping):
        return spec
    return {
        key: str(base / value)
        if files and key in _FILES and isinstance(value, str) and value and not value.startswith("$")
        else rooted(value, base, files=key != "merge")
        for key, value in spec.items()
    }


def shipped() -> tuple[str, ...]:
    """The names of the selectors that come with ctxbench, sorted."""
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*.yaml")))


def pipeline_of(spec: Mapping[str, Any]) -> Pipeline:
    """A pipeline as `Pipeline.of` builds it, for specifications that users write by hand.

    Raises:
        PipelineError: as there; where a step is called like a shipped selector, it says how that is named.
    """
    try:
        return Pipeline.of(spec)
    except PipelineError as error:
        raise PipelineError([_suggest_selector(spec, fault) for fault in error.faults]) from None


def _suggest_selector(spec: Any, fault: SpecFault) -> SpecFault:
    """The fault, with a better message where a selector is named in place of a step."""
    try:
        for key in fault.path:
            spec = spec[key]
    except (LookupError, TypeError):  # what is wrong there is something else
        return fault
    name = next(iter(spec)) if isinstance(spec, Mapping) and len(spec) == 1 else spec
    steps = ("analyse", "retrieve", *REFINE_KINDS, "format")
    if name not in (*shipped(), ORACLE) or any(name in names(kind) for kind in steps):
        return fault
    entry = f'{{"selector": "{name}"}}'
    return SpecFault(fault.path, Message("selectors.selector-as-step", name=name, entry=entry))


@cache
def definition(name: str) -> Definition:
    """A shipped selector's definition.

    Raises:
        UnknownNameError: there is none of this name.
        ParameterError: it is the oracle, which is no pipeline.
    """
    if name == ORACLE:
        raise ParameterError(Message("selectors.oracle-without-labels"))
    if name not in shipped():
        form = program_form(name)
        hint = Message("selectors.program-as-selector", form=form) if form else ""
        raise UnknownNameError("selector", name, shipped(), hint=hint)
    return read_definition(_SHIPPED / f"{name}.yaml", build=False)  # which the tests do


def selector_name(selector: str, preset: str | None = None) -> str:
    """The default name of a selector: as users name it, of a file without its ending.

    An agent file that is called `agent.own.yaml` names a selector `agent.own`, whatever the agent is called.
    """
    return "/".join([Path(selector).stem if is_file(selector) else selector, *([preset] if preset else [])])


def is_shipped(selector: str, *, base: Path = Path()) -> bool:
    """Whether a selector as users name it comes with ctxbench; also the one that an agent file names with settings."""
    if not is_file(selector):
        return True
    path = base / selector
    if not is_agent_file(path):
        return False
    agent = read_agent(path)
    return agent.presets is None and not is_file(agent.selector)


def find_definition(selector: str, preset: str | None = None, *, base: Path = Path()) -> tuple[Definition, str | None]:
    """A selector as users name it: a shipped one, `name` or `name/preset`, the path of a YAML file, or an agent file.

    Args:
        selector: the name or the path.
        preset: the preset that is named apart from it, if any; whether there is such a one is not looked at.
        base: what a path is relative to.

    Returns:
        The definition, and the preset; None where none is named.

    Raises:
        UserError: it is unknown, faulty, or two presets are named.
    """
    if joined := _JOINED.fullmatch(selector):
        form = "{{presets: {}, preset: {}}}".format(*joined.groups())
        raise ParameterError(
            f"no selector is called {selector!r}; a preset of a file needs two keys: `selector: "
            f"{form}` in an agent file, `{form}` in an experiment"
        )
    if is_file(selector):
        path = base / selector
        return (agent_definition(read_agent(path)) if is_agent_file(path) else read_definition(path)), preset
    name, slash, named = selector.partition("/")
    if slash and preset is not None:
        raise ParameterError(f"selector {selector} names a preset already; leave out the other, {preset}")
    return definition(name), named if slash else preset


def agent_definition(agent: AgentFile) -> Definition:
    """The selector of an agent: the settings of its file are the defaults, and its system prompt is sent.

    Raises:
        ParameterError: it is an external selector, which is no pipeline.
        InputError: there is no such selector or preset, or a setting does not suit it; all faults, with their lines.
        StorageError: the selector is a file that is missing or cannot be read.
    """
    if agent.external:
        raise ParameterError(
            f"the selector of {agent.path} is a {own_kind(agent.external)} of your own, which only it itself "
            f"can run; name one that ctxbench runs, such as learned/normal"
        )
    reader = _DefinitionReader(agent.path, agent.lines, [])
    if (base_and_preset := reader.attempt(lambda: _named_by(agent), "selector")) is None:
        raise InputError(reader.faults)
    base, preset = base_and_preset
    if preset is not None and preset not in base.presets:
        reader.fault(str(UnknownNameError("preset", preset, base.presets, where=f" of {base.name}")), "selector")
    settings = {
        name: checked
        for name, value in agent.settings.items()
        if (checked := reader.attempt(partial(base.checked, name, value), "settings", name)) is not None
    }
    raise_faults(reader.faults)
    values = base.with_defaults({} if preset is None else base.presets[preset], settings)
    parameters = {
        name: replace(parameter, default=values.get(name, parameter.default))
        for name, parameter in base.parameters.items()
    }
    spec, written = (_with_system(form, agent.system) for form in (base.spec, base.written))
    file = f"{agent.presets}, preset " if agent.presets is not None else ""
    presets = {name: {**preset_values, **settings} for name, preset_values in base.presets.items()}
    selector = replace(
        base,
        name=agent.name,
        about=f"The selector of {agent.path}: {file}{agent.selector}",
        parameters=parameters,
        presets=presets,
    )
    shipped = "" if agent.presets is not None or is_file(agent.selector) else base.name
    return replace(selector, spec=spec, written=written, earlier=(), shipped=shipped)


def shipped_name(selector: Definition, values: Mapping[str, Value]) -> str:
    """The shipped selector that an agent's is with some values, such as `learned/normal`; empty for one that is not.

    Args:
        selector: the definition.
        values: of all its parameters.
    """
    if not selector.shipped:
        return ""
    shipped = definition(selector.shipped)
    in_force = shipped.in_force(values)
    if in_force == shipped.in_force(shipped.with_defaults()) and not shipped.presets:
        return shipped.name
    for preset, preset_values in shipped.presets.items():
        if in_force == shipped.in_force(shipped.with_defaults(preset_values)):
            return f"{shipped.name}/{preset}"
    return f"{shipped.name} with other settings"


def _named_by(agent: AgentFile) -> tuple[Definition, str | None]:
    """The definition and the preset that an agent file names.

    Raises:
        UserError: it is unknown or faulty, or the selector of an agent file again.
    """
    if agent.presets is not None:
        return read_with(_selector_of_none, agent.presets, preset=agent.selector).definition(
            agent.selector
        ), agent.selector
    if is_agent_file(agent.selector):
        raise ParameterError(
            f"selector names {agent.selector}, an agent file; name a shipped selector, one in YAML, or a "
            f"preset: {PRESET_FORM}"
        )
    return find_definition(agent.selector)


def _selector_of_none(selector: str) -> Definition:
    """The selector of a tuned preset that an agent is to have, which cannot be that of an agent file.

    Raises:
        UserError: it is, or it is unknown or faulty.
    """
    if is_agent_file(selector):
        raise ParameterError(
            f"it was tuned on the selector that {selector} names, and is its settings: write what `set` has "
            f"changed under `settings:` there, beside that selector"
        )
    return read_definition(Path(selector)) if is_file(selector) else definition(selector)


def tuned_preset(selector: str, definition: Definition, values: Mapping[str, Value], **fields: Any) -> TunedPreset:
    """A preset with the values of a selector that have an effect.

    The preset of an agent file is one of the selector that the file names, so that the file itself can name the preset.

    Args:
        selector: a shipped one, or a YAML file.
        definition: of it.
        values: of all its parameters.
        **fields: others of `TunedPreset`.
    """
    if is_file(selector) and is_agent_file(selector):
        agent = read_agent(Path(selector))
        definition, _preset = _named_by(agent)
        selector = agent.selector if is_file(agent.selector) else definition.name
        if agent.presets is not None:
            selector = (
                read_with(_selector_of_none, agent.presets, preset=agent.selector).presets[agent.selector].selector
            )
    return TunedPreset(
        set=definition.in_force(values),
        selector=selector,
        definition=definition_hash(definition),
        parameters=parameter_texts(definition),
        **fields,
    )


def _with_system(spec: Mapping[str, Any], system: str) -> Mapping[str, Any]:
    """A pipeline's specification with a system prompt; unchanged without one, or if its format builds no messages."""
    form = spec.get("format", DEFAULTS["format"])
    name, values = next(iter(form.items())) if isinstance(form, Mapping) else (form, None)
    if not system or name not in names("format") or not getattr(find("format", name), "chats", False):
        return spec
    return {**spec, "format": {name: {**(values or {}), "system": system}}}


def is_file(selector: str) -> bool:
    """Whether a selector's name is the path of a definition."""
    return selector.endswith((".yaml", ".yml"))


T = TypeVar("T")
M = TypeVar("M", bound=FileModel)


def _blocks(model: type[FileModel]) -> BeforeValidator:
    """The validator of blocks by name, each of which is validated by itself so that a faulty one hides no other."""
    return parsed(lambda blocks: blocks, dict[str, model])  # type: ignore[valid-type]


def read_definition(path: Path, *, build: bool = True) -> Definition:
    """Read a definition from YAML and check it whole: parameters, presets, and the pipeline with each preset.

    Args:
        path: the file.
        build: whether pipelines are built, with each preset and with what is off by default.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: anything in it is wrong; all faults with their lines.
    """
    data, lines = load_yaml(path)
    if not isinstance(data, dict) or not {"name", "pipeline"} <= set(data):
        refuse_other_kind(data, path, expected="a selector")
        rest = own_selector_advice(data) or f"; it may have {', '.join(field_names(SelectorFile))}"
        raise InputError([Fault(f"a selector needs name and pipeline{rest}", path, 1)])
    content, faults = validate_partly(SelectorFile, data, Source(path, lines))
    reader = _DefinitionReader(path, lines, faults)
    parameters = reader.parameters(content.parameters or {})
    blocks = reader.presets(content.presets or {})
    selector = Definition(
        name=content.name,
        about=content.about,
        parameters=parameters,
        spec=rooted(content.pipeline, path.parent),
        presets={},
        abouts={name: block.about for name, block in blocks.items()},
        written=content.pipeline,
        earlier=content.earlier or (),
    )
    reader.switches(selector)
    presets = {name: reader.preset(selector, name, block.set or {}) for name, block in blocks.items()}
    if build and not reader.faults:
        reader.pipeline(selector, presets)
    switches = {name for name, parameter in parameters.items() if parameter.sets}
    for name in sorted(set(parameters) - switches - used_names(selector.spec)):
        reader.fault(Message("selectors.parameter-unused", name=name), "parameters", name)
    raise_faults(reader.faults)
    return replace(selector, presets=presets)


class PresetBlock(FileModel):
    """A preset of a selector definition."""

    noun = "a preset"
    about: Annotated[str, NullAs("")] = Field("", description="What the preset is for.")
    set: dict[str, Any] | None = Field(None, description="Values of parameters.")


class SelectorFile(FileModel):
    """A selector definition: a pipeline with named parameters and presets."""

    noun = "a selector"
    name: Annotated[str, parsed(str, str)] = Field(description="The name of the selector.")
    about: Annotated[str, parsed(str, str)] = Field("", description="What the selector does, in one or two sentences.")
    parameters: Annotated[dict[str, Any] | None, _blocks(ParameterBlock)] = Field(
        None, description="Parameters by name; the pipeline uses them as `$name`."
    )
    pipeline: Any = Field(description="The steps: analyse, retrieve, refine and format.")
    presets: Annotated[dict[str, Any] | None, _blocks(PresetBlock)] = Field(None, description="Presets by name.")
    earlier: Texts[str] | None = Field(None, description="Hashes of earlier versions whose presets still hold.")


@dataclass
class _DefinitionReader(YamlForm):
    """Reads the parts of a definition and collects what is wrong in them.

    Attributes:
        faulty: names of parameters that cannot be read; other faults about them would follow from that.
    """

    faulty: set[str] = field(default_factory=set, kw_only=True)

    def block(self, model: type[M], name: str, value: Any, source: Source) -> M | None:
        """A mapping of the file; None if anything in it is wrong."""
        block, faults = validate(model, value, source, context=name)
        self.faults += faults
        return block

    def parameters(self, blocks: Mapping[str, Any]) -> dict[str, Parameter]:
        """All parameters that can be read; what their choices set and what they need is checked between them."""
        read = {
            name: self.block(
                ParameterBlock, name, value, Source(self.path, line=line_of(self.lines, ("parameters", name)))
            )
            for name, value in blocks.items()
        }
        parameters = {name: block.parameter(name) for name, block in read.items() if block is not None}
        self.faulty = {*read} - {*parameters}
        before = len(self.faults)
        for name, parameter in parameters.items():
            located = replace(
                parameter,
                needs=self._readable(parameter.needs),
                choices={choice: self._readable(values) for choice, values in parameter.choices.items()},
            )
            may_be_set = self.faulty and located.default is None
            for fault in (
                *need_faults(located, parameters),
                *(() if may_be_set else choice_faults(located, parameters)),
            ):
                self.fault(fault, "parameters", name)
        return parameters if self.faulty or len(self.faults) > before else set_values(parameters)

    def _readable(self, values: Mapping[str, T]) -> dict[str, T]:
        """Values by the names of parameters, without those of faulty ones."""
        return {name: value for name, value in values.items() if name not in self.faulty}

    def presets(self, blocks: Mapping[str, Any]) -> dict[str, PresetBlock]:
        """All presets that can be read."""
        source = Source(self.path, self.lines)
        read = {
            name: self.block(PresetBlock, name, value, source.at("presets", name)) for name, value in blocks.items()
        }
        return {name: block for name, block in read.items() if block is not None}

    def switches(self, selector: Definition) -> None:
        """Check that `search` and `when` name parameters that can switch something."""
        spec: Any = selector.spec
        if not isinstance(spec, Mapping):
            return
        if SEARCH in spec:
            name = selector.search_switch
            is_switch = name in selector.parameters and isinstance(selector.parameters[name].default, bool)
            if name not in self.faulty and not is_switch:
                self.fault(Message("selectors.search-malformed", value=spec[SEARCH]), "pipeline", SEARCH)
        for path, name in switched_steps(spec.get("refine"), ("refine",)):
            if isinstance(name, str) and name in self.faulty:
                continue
            if (
                not isinstance(name, str)
                or name not in selector.parameters
                or selector.parameters[name].default is None
            ):
                hint = suggest(str(name), selector.parameters)
                self.fault(Message("selectors.when-malformed", value=name, hint=hint), "pipeline", *path, WHEN)

    def preset(self, selector: Definition, name: str, values: Mapping[str, Any]) -> dict[str, Value]:
        """The values that a preset sets, checked."""
        where = ("presets", name, "set")
        readable = self._readable(values).items()
        checked = {key: self.attempt(partial(selector.checked, key, value), *where) for key, value in readable}
        return {key: value for key, value in checked.items() if value is not None}

    def pipeline(self, selector: Definition, presets: Mapping[str, Mapping[str, Value]]) -> None:
        """Build the pipeline for each preset, and with each switch that is off by default on.

        A fault of the defaults is reported once.
        """
        reported: set[SpecFault] = set()
        spec: Any = selector.spec
        whens = switched_steps(spec.get("refine"), ()) if isinstance(spec, Mapping) else ()
        cases = [("", {}), *((f"preset {name}: ", values) for name, values in presets.items())]
        for name in dict.fromkeys(str(name) for _, name in whens):
            parameter = selector.parameters[name]
            on = [
                value
                for value in parameter.choices or parameter.ends
                if value != parameter.default and value is not False
            ]
            cases += [(f"with {name if value is True else f'{name} {value}'}: ", {name: value}) for value in on]
        for where, values in cases:
            try:
                selector.pipeline(selector.with_defaults(values))
            except PipelineError as error:
                for fault in error.faults:
                    if fault not in reported:
                        self.fault(f"{where}{fault.message}", "pipeline", *fault.path)
                reported |= set(error.faults)


def read_presets(path: Path) -> PresetsFile:
    """Read a presets file and check every preset against the current version of its selector.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is no presets file, or of another format; a selector is unknown, faulty or has changed; a value
            is wrong or missing: all faults, with their lines.
    """
    return read_with(_selector, path)


def _selector(selector: str) -> Definition:
    return find_definition(selector)[0] if is_file(selector) else definition(selector)


def write_presets(path: Path, *, tuned: Mapping[str, Any], presets: Mapping[str, TunedPreset], test_split: str) -> None:
    """Write a presets file, whole or not at all. The same arguments give the same bytes.

    Args:
        path: the file.
        tuned: what the presets were tuned on and with, in the order of the file: `dataset` first.
        presets: by name, in order.
        test_split: what the test split was read for, as a sentence; empty = it was not read.

    Raises:
        ParameterError: `tuned` names no dataset, or there is no preset.
        StorageError: the file cannot be written.
    """
    if not isinstance(tuned.get("dataset"), str) or not presets:
        raise ParameterError("a presets file needs the dataset that was tuned on, and a preset")
    definitions = {preset.definition: preset.parameters for preset in presets.values() if preset.selector}
    data = {
        "format": FORMAT,
        "tuned": tuned,
        "test_split": test_split,
        "definitions": definitions,
        "presets": {name: _preset_block(preset, path) for name, preset in presets.items()},
    }
    if not definitions:
        del data["definitions"]
    head: str = Message("selectors.presets-head", dataset=tuned["dataset"])
    if example := next((name for name, preset in presets.items() if preset.selector), ""):
        head += Message("selectors.presets-head-example", file=path.name, preset=example)
    write_atomic(path, head + dump_yaml(_plain(data), short=True))


def _preset_block(preset: TunedPreset, path: Path) -> dict[str, Any]:
    """A preset as the file has it; what is empty is left out."""
    selector = preset.selector
    if is_file(selector):
        selector = Path(os.path.relpath(selector, path.parent)).as_posix()
    block = {name: getattr(preset, name) for name in field_names(TunedBlock)} | {"selector": selector}
    return {name: value for name, value in block.items() if value or name == "set"}


def _plain(value: Any) -> Any:
    """Containers and numbers as YAML takes them, each container once; NaN and infinity as null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    value = value.item() if hasattr(value, "item") else value  # numpy's numbers
    return None if isinstance(value, float) and value - value != 0 else value


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
        external: True for a selector of the user's.
        line: its line in the file, 1-based; 0 = in none.
        pipeline: of a selector that is one, else None.
        agent: the agent file that names it; None for one that is named otherwise.
        shipped: of an agent whose file names none of the user's, the shipped selector that it is, such as
            `learned/normal`; empty for others.
    """

    name: str
    make: Make
    about: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)
    like: str | None = None
    external: bool = False
    line: int = 0
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    shipped: str = ""
    pipeline: Pipeline | None = None
    agent: Path | None = None


def shipped_spec(selector: str, *, name: str) -> SelectorSpec:
    """A shipped selector, given as `name` or `name/preset`, one of a definition in a file, or that of an agent file.

    Raises:
        UserError: it is unknown or faulty.
    """
    if selector == ORACLE:
        return oracle_spec(name)
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
    return SelectorSpec(selector.name, lambda _resources, _memo: selector, external=True)


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
    if not agent.external:
        return None
    block = {**agent.external, "name": name or selector_name(selector)}
    try:
        return external_spec(block, base=path.parent)
    except InputError:
        raise
    except UserError as error:
        raise InputError([Fault(str(error), path, line_of(agent.lines, ("selector",)))]) from error


def definition_spec(name: str, definition: Definition, values: Mapping[str, Value], about: str = "") -> SelectorSpec:
    """A definition with values of its parameters."""
    return replace(
        pipeline_spec(name, definition.pipeline(values)),
        about=about,
        values=definition.in_force(values),
        parameters=definition.parameters,
        shipped=shipped_name(definition, values),
    )


def pipeline_spec(name: str, pipeline: Pipeline) -> SelectorSpec:
    """A pipeline that the user wrote."""
    return SelectorSpec(
        name, lambda resources, memo: PipelineSelector(name, pipeline, resources, memo), pipeline=pipeline
    )


def oracle_spec(name: str) -> SelectorSpec:
    """The selector that knows the labels."""
    return SelectorSpec(name, lambda resources, _memo: Oracle(name, resources), Message("selectors.oracle"))
