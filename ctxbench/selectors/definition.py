"""A selector definition: a pipeline with named parameters, and tuned presets of it.

A preset belongs to the selector as it was when it was tuned. It names every parameter that has an effect, so it stays
the same when a default, the values of a choice or a text change. If the parameters or the pipeline have changed,
reading the file is an error that names the difference.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

from pydantic import Field

from ctxbench.io.documents import YamlPath, line_of, load_yaml, refuse_other_kind
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    UserError,
    check_known,
    raise_faults,
    raise_first,
    suggest,
)
from ctxbench.io.rows import YamlForm
from ctxbench.model.formats import FileModel, Source, field_names, parsed, validate, validate_partly
from ctxbench.model.registry import SEARCH_OFF
from ctxbench.model.strategies import Step
from ctxbench.pipelines.pipeline import OFF, Pipeline, PipelineError, SpecFault
from ctxbench.selectors.selector import Parameter, Value, any_of, value_text

WHEN = "when"  # the key next to a refining step that names the parameter which switches it on
SEARCH = "search"  # the key next to the stages that names the parameter which switches the search off


@dataclass(frozen=True, slots=True)
class Definition:
    """A selector as a pipeline with parameters.

    Attributes:
        name: what users call it.
        about: one or two sentences.
        parameters: by name.
        spec: the pipeline. `$name` is replaced by the value of a parameter; paths are relative to the working
            directory. `search: $name` next to the stages names a switch that turns the search off. `when: name` next to
            a refining step leaves the step out while that switch is off, or while that number or choice has its
            default.
        presets: values by preset name; a preset need not name every parameter.
        abouts: what each preset is for.
        written: the pipeline of the file, with paths relative to the file.
        earlier: hashes (`definition_hash`) of earlier versions, to which parameters were added whose defaults change
            nothing; presets tuned for them still hold.
        shipped: of an agent's, the name of the shipped selector that its file names; empty for others.
    """

    name: str
    about: str
    parameters: Mapping[str, Parameter]
    spec: Mapping[str, Any]
    presets: Mapping[str, Mapping[str, Value]]
    abouts: Mapping[str, str]
    written: Mapping[str, Any]
    earlier: tuple[str, ...] = ()
    shipped: str = ""

    def values(self, preset: str | None = None, overrides: Mapping[str, Any] | None = None) -> dict[str, Value]:
        """Every parameter's value: the default, over it the preset's, over it the overrides.

        At each of the three a choice sets its values first, and single parameters go over them.

        Raises:
            UnknownNameError: no such preset.
            ParameterError: an override is unknown, out of range, or without effect; names all faults.
        """
        if preset is not None:
            check_known("preset", preset, self.presets, where=f" of selector {self.name!r}")
        return self.settled(self.presets[preset] if preset is not None else {}, overrides or {}, may_be_idle=False)

    def settled(
        self, base: Mapping[str, Value], chosen: Mapping[str, Any], *, may_be_idle: bool = True
    ) -> dict[str, Value]:
        """The value of every parameter: the default, over it that of `base`, over it the chosen one, which is checked.

        Args:
            base: values that are allowed.
            chosen: values to check.
            may_be_idle: whether one may be of no effect, as in a session: a threshold is kept while expansion is off.

        Raises:
            ParameterError: a chosen one is unknown, out of range, or without effect; names all faults.
        """
        wrong, checked = [], {}
        for name, value in chosen.items():
            try:
                checked[name] = self.checked(name, value)
            except ParameterError as error:
                wrong.append(str(error))
        values = self.with_defaults(base, checked)
        wrong += [fault for name in checked if not may_be_idle and (fault := self.idle(name, values))]
        if wrong:
            raise ParameterError("; ".join(wrong))
        return values

    def checked(self, name: str, value: object) -> Value:
        """A value of one parameter, if it is allowed; whether it has an effect is for `values` to say.

        Raises:
            ParameterError: there is no such parameter, or the value does not suit it.
        """
        if name not in self.parameters:
            raise ParameterError(f"selector {self.name!r} has no parameter {name!r}{suggest(name, self.parameters)}")
        return self.parameters[name].checked(value)

    def with_defaults(self, *layers: Mapping[str, Value]) -> dict[str, Value]:
        """Every parameter's value from checked ones: a later layer goes over an earlier one, and all over defaults."""
        defaults = {
            name: parameter.default for name, parameter in self.parameters.items() if parameter.default is not None
        }
        values: dict[str, Value] = {}
        for layer in (defaults, *layers):
            for name, value in layer.items():
                values |= self.parameters[name].choices.get(str(value), {})
            values |= layer
        return {name: values[name] for name in self.parameters if name in values}

    def in_force(self, values: Mapping[str, Value], *, switches: bool = False) -> dict[str, Value]:
        """The values that have an effect, for manifests and reports.

        A choice is left out if a parameter that it sets has another value. Unless `switches` is given, a switch is
        left out if it has its default and changes no step: a search that is on, a step that is off.
        """
        quiet = set() if switches else self._quiet(values)
        return {
            name: value
            for name, value in values.items()
            if name not in quiet and self._unmet_need(name, values) is None and not self._spelled_out(name, values)
        }

    def _quiet(self, values: Mapping[str, Value]) -> set[str]:
        """The switches of the search and of steps that have their default and change no step."""
        plain = self._plain(values)
        names = {str(name) for _, name in switched_steps(self.spec.get("refine"), ()) if not self._is_on(name, plain)}
        if self.search_switch and self.searches(values):
            names.add(self.search_switch)
        return {name for name in names if values[name] == self.parameters[name].default}

    def _spelled_out(self, name: str, values: Mapping[str, Value]) -> bool:
        """Whether a choice does nothing but set others, and some of them have another value."""
        sets = self.parameters[name].choices.get(str(values[name]), {})
        return any(values[set_name] != value for set_name, value in sets.items()) and name not in used_names(self.spec)

    @property
    def search_switch(self) -> str:
        """The parameter that switches the search off; empty where there is none."""
        written = self.spec.get(SEARCH) if isinstance(self.spec, Mapping) else None
        return written[1:] if isinstance(written, str) else ""

    def searches(self, values: Mapping[str, Value]) -> bool:
        """Whether anything is searched for with these values."""
        return not self.search_switch or bool(values[self.search_switch])

    def refining(self, values: Mapping[str, Value]) -> list[Any]:
        """The refining steps that are there with these values, as the specification writes them, `$name` included."""
        if not self.searches(values):
            return []
        plain = self._plain(values)
        steps = _switched(self.spec.get("refine", []), lambda name: self._is_on(name, plain))
        return cast("list[Any]", _without_off(steps))

    def pipeline(self, values: Mapping[str, Value]) -> Pipeline:
        """Build the pipeline for these values. Those without effect count as their defaults, whatever they are.

        Raises:
            PipelineError: a step is unknown or a value does not suit it.
        """
        if not self.searches(values):
            form: Any = {"format": self.spec["format"]} if "format" in self.spec else {}
            return Pipeline.of({**SEARCH_OFF, **_filled(form, values)})
        spec: Any = self.spec
        plain = self._plain(values)
        if isinstance(spec, Mapping):
            spec = {key: value for key, value in spec.items() if key != SEARCH}
            if "refine" in spec:
                spec["refine"] = _switched(spec["refine"], lambda name: self._is_on(name, plain))
        try:
            return Pipeline.of(_filled(spec, plain))
        except PipelineError as error:
            raise PipelineError([self._name_parameters(fault, values) for fault in error.faults]) from error

    def _plain(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Values with the default in place of each that has no effect, so that it cannot be one that a step refuses."""
        parameters = self.parameters
        return {
            name: value
            if (default := parameters[name].default) is None or self._unmet_need(name, values) is None
            else default
            for name, value in values.items()
        }

    def _is_on(self, name: str, values: Mapping[str, Value]) -> bool:
        """Whether a parameter switches a step on: a switch that is on, or a value that is not the default."""
        value = values[name]
        return value if isinstance(value, bool) else value != self.parameters[name].default

    def _name_parameters(self, fault: SpecFault, values: Mapping[str, Value]) -> SpecFault:
        """A fault of a step, with the names under which the user knows the step's parameters."""
        step: Any = self.spec
        for key in fault.path:
            step = step[key] if isinstance(step, Mapping | list) else None  # type: ignore[index]
        parameter_names = (
            {key: value[1:] for key, value in step.items() if _names(value, values)}
            if isinstance(step, Mapping)
            else {}
        )
        text = ", ".join(
            f"{key} is {name}" for key, name in parameter_names.items() if key in fault.message and key != name
        )
        return SpecFault(fault.path, f"{fault.message} (here {text})") if text else fault

    def idle(self, name: str, values: Mapping[str, Value]) -> str:
        """Why a parameter has no effect with these values; empty where it has one."""
        if (unmet := self._unmet_need(name, values)) is None:
            return ""
        required, allowed = unmet
        return Message(
            "selectors.parameter-without-effect",
            name=name,
            other=required,
            value=value_text(values[required]),
            allowed=any_of(allowed),
        )

    def _unmet_need(self, name: str, values: Mapping[str, Value]) -> tuple[str, tuple[Value, ...]] | None:
        """The first parameter without whose values this one has no effect, and these; None where it has one."""
        switch = self.search_switch
        if switch and name != switch and values[switch] is not True:
            return switch, (True,)
        needs = self.parameters[name].needs.items()
        return next(((required, allowed) for required, allowed in needs if values[required] not in allowed), None)


def _names(value: object, values: Mapping[str, Value]) -> bool:
    """Whether a value in a specification is to be replaced by the value of a parameter."""
    return isinstance(value, str) and value.startswith("$") and value[1:] in values


@dataclass(frozen=True, eq=False)
class StepForm:
    """A step of Python in a specification, which has no name there.

    Attributes:
        step: the step.
        values: its parameters by name, or `$name` for that of a parameter of the selector.
    """

    step: Step
    values: Mapping[str, Any]


def _filled(spec: Any, values: Mapping[str, Value]) -> Any:
    """Put values where the specification says `$name`."""
    if isinstance(spec, StepForm):
        return replace(spec.step, call=replace(cast("Any", spec.step.call), **_filled(spec.values, values)))
    if isinstance(spec, Mapping):
        return {key: _filled(value, values) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_filled(value, values) for value in spec]
    return values[spec[1:]] if _names(spec, values) else spec


def _switched(steps: Any, is_on: Callable[[str], bool]) -> Any:
    """Refining steps without `when`, those of domains included; `OFF` in the place of one that is switched off."""

    def switch_step(step: Any) -> Any:
        if not isinstance(step, Mapping):
            return step
        if WHEN in step and not is_on(step[WHEN]):
            return OFF
        block = {key: value for key, value in step.items() if key != WHEN}
        if isinstance(block.get("by_domain"), Mapping):
            block["by_domain"] = {
                types: _switched(domain_steps, is_on) for types, domain_steps in block["by_domain"].items()
            }
        return block

    return [switch_step(step) for step in steps] if isinstance(steps, list) else steps


def _without_off(steps: Any) -> Any:
    """Refining steps without those that are switched off."""

    def clean_step(step: Any) -> Any:
        domains = step.get("by_domain") if isinstance(step, Mapping) else None
        if not isinstance(domains, Mapping):
            return step
        return {"by_domain": {types: _without_off(domain_steps) for types, domain_steps in domains.items()}}

    return [clean_step(step) for step in steps if step is not OFF] if isinstance(steps, list) else steps


def switched_steps(steps: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """What refining steps say under `when`, those of domains included, each with its path."""
    for index, step in enumerate(steps if isinstance(steps, list) else []):
        if not isinstance(step, Mapping):
            continue
        if WHEN in step:
            yield (*path, index), step[WHEN]
        domains = step.get("by_domain")
        for key, domain_steps in domains.items() if isinstance(domains, Mapping) else ():
            yield from switched_steps(domain_steps, (*path, index, "by_domain", key))


def used_names(spec: Any) -> set[str]:
    """The names that the specification takes as `$name`, or under `when`."""
    if isinstance(spec, StepForm):
        return used_names(spec.values)
    if isinstance(spec, Mapping):
        named = {spec[WHEN]} if isinstance(spec.get(WHEN), str) else set()
        return named | {name for value in spec.values() for name in used_names(value)}
    if isinstance(spec, list):
        return {name for value in spec for name in used_names(value)}
    return {spec[1:]} if isinstance(spec, str) and spec.startswith("$") else set()


FORMAT = 1
_ENDINGS = (".yaml", ".yml")

Metrics = Mapping[str, Mapping[str, float | int | None]]
Find: TypeAlias = Callable[[str], Definition]
"""Gives the selector of a name or a path; raises a `UserError` where there is none, or it is faulty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedPreset:
    """A setting that tuning recommends.

    Attributes:
        set: the value of every parameter that has an effect; with `answers`, the cut to apply to the ranking.
        about: one line.
        selector: a shipped selector's name, or the path of a definition (in the file relative to the file); empty with
            `answers`.
        definition: `definition_hash` of the selector when it was tuned; empty with `answers`.
        parameters: `parameter_texts` of it, to show what has changed since.
        answers: the name of the user's answers that were tuned; empty with `selector`.
        policy: what it is best at, as in the policy file.
        tuning, test: means on either split, by metric name: `value`, `low`, `high` and `n`; None = there is none.
            `test` is empty where that split was not read.
    """

    set: Mapping[str, Value]
    about: str = ""
    selector: str = ""
    definition: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    answers: str = ""
    policy: Mapping[str, Any] = field(default_factory=dict)
    tuning: Metrics = field(default_factory=dict)
    test: Metrics = field(default_factory=dict)

    def __post_init__(self) -> None:
        raise_first(
            (
                bool(self.selector) == bool(self.answers),
                "a tuned preset is of a selector or of answers; give exactly one of the two",
            ),
            (
                self.selector and not self.definition,
                f"a tuned preset of selector {self.selector} needs its definition's hash",
            ),
        )


@dataclass(frozen=True, kw_only=True)
class PresetsFile:
    """The presets that were tuned on one dataset.

    Attributes:
        path: the file.
        tuned: what they were tuned on and with; `dataset` at least.
        presets: by name, in order.
        find: gives their selectors.
        test_split: what the test split was read for, as a sentence; empty = it was not read.
    """

    path: Path
    tuned: Mapping[str, Any]
    presets: Mapping[str, TunedPreset]
    find: Find = field(repr=False, compare=False)
    test_split: str = ""

    def definition(self, name: str) -> Definition:
        """The selector of a preset; its presets are those of this file that are of the same selector.

        Raises:
            UnknownNameError: the file has no such preset.
            ParameterError: it is for answers of an external selector, which cannot be run here.
        """
        check_known("preset", name, self.presets, where=f" of presets file {self.path}")
        preset = self.presets[name]
        if preset.answers:
            cut = ", ".join(f"{key} {value_text(value)}" for key, value in preset.set.items())
            raise ParameterError(
                f"preset {name!r} of {self.path} was tuned on your own selector's answers {preset.answers!r}, and only "
                f"you can run that; apply the cut in it ({cut}), then name the new answers, or the selector itself, in "
                "place of the preset"
            )
        definition = self.find(preset.selector)
        presets = {key: entry for key, entry in self.presets.items() if entry.selector == preset.selector}
        abouts = {key: entry.about or f"tuned on {self.tuned['dataset']}" for key, entry in presets.items()}
        return replace(definition, presets={key: entry.set for key, entry in presets.items()}, abouts=abouts)


def definition_hash(definition: Definition) -> str:
    """SHA-256 of what the values of a preset mean: the parameters (names, ranges, choices, needs) and the pipeline.

    It does not depend on defaults, what choices set, presets, texts and the content of files that steps read.
    """
    parts = {"parameters": parameter_texts(definition), "pipeline": definition.written}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def parameter_texts(definition: Definition) -> dict[str, str]:
    """What each parameter of a selector may be, by name: `1 to 100`, `true or false`, `one of a, b`."""
    return {name: _text(parameter) for name, parameter in definition.parameters.items()}


def _text(parameter: Parameter) -> str:
    if parameter.choices:
        text = f"one of {', '.join(sorted(parameter.choices))}"
    else:  # 1.0 may be divided further, 1 may not
        text = "true or false" if isinstance(parameter.default, bool) else f"{parameter.low!r} to {parameter.high!r}"
    needs = " and ".join(f"{name} is {any_of(values)}" for name, values in parameter.needs.items())
    return f"{text}, where {needs}" if needs else text


def read_with(find: Find, path: Path, *, preset: str = "") -> PresetsFile:
    """Read a presets file and check the presets in it against their selectors as they are now.

    Args:
        find: gives the selectors.
        path: the file.
        preset: its name; presets of other selectors are left out and not checked. Empty = all are read.

    Raises:
        StorageError: the file is missing or cannot be read.
        UnknownNameError: it has no preset of this name.
        InputError: it is no presets file, or of another format; a selector is unknown, faulty or has changed; a value
            is wrong or missing: all faults, with their lines.
    """
    data, lines = load_yaml(path)
    refuse_other_kind(data, path, expected=PresetsContent.noun, keys_allowed=field_names(PresetsContent))
    if not isinstance(data, Mapping) or not {"format", "presets"} <= set(data):
        got = list(data) if isinstance(data, Mapping) else ["none of them"]
        raise InputError([Fault(Message("selectors.no-presets-file", got=got), path, 1)])
    if data["format"] != FORMAT or isinstance(data["format"], bool):
        message = Message("selectors.other-format", got=data["format"], supported=FORMAT)
        raise InputError([Fault(message, path, line_of(lines, ("format",)))])
    content, faults = validate_partly(PresetsContent, data, Source(path, lines))
    reader = _PresetReader(path, lines, faults, find=find)
    blocks = content.presets or {}
    if preset:
        check_known("preset", preset, blocks, where=f" of presets file {path}")
        blocks = {name: block for name, block in blocks.items() if _source(block) == _source(blocks[preset])}
    presets = {name: reader.preset(name, block, content.definitions) for name, block in blocks.items()}
    if not presets and not faults:
        reader.fault("the file holds no preset", "presets")
    raise_faults(sorted(dict.fromkeys(faults), key=lambda fault: fault.line))
    valid = {name: preset for name, preset in presets.items() if preset is not None}
    return PresetsFile(path=path, tuned=content.tuned, presets=valid, find=find, test_split=content.test_split)


def _source(block: Any) -> Any:
    """The selector that the block of a preset names; None where it names none."""
    return block.get("selector") if isinstance(block, Mapping) else None


class TunedBlock(FileModel):
    """A preset of a presets file."""

    noun = "a tuned preset"
    about: str = Field("", description="What the preset is for, in one line.")
    selector: str = Field("", description="The selector that was tuned: its name, or the path of its definition.")
    definition: str = Field("", description="The hash of the selector when it was tuned.")
    answers: str = Field("", description="The name of the answers that were tuned, in place of a selector.")
    set: dict[str, Value] = Field({}, description="The value of every parameter that has an effect.")
    policy: dict[str, Any] = Field({}, description="What the preset is best at, as the policy file has it.")
    tuning: dict[str, dict[str, Any]] = Field({}, description="By metric, its mean on the split that was tuned on.")
    test: dict[str, dict[str, Any]] = Field({}, description="By metric, its mean on the test split.")

    def faults(self, context: Any) -> Iterator[tuple[YamlPath, str]]:
        """Check that it is of a selector or of answers."""
        if bool(self.selector) == bool(self.answers):
            yield (), Message("selectors.preset-source", name=context)
        if self.selector and not self.definition:
            yield (), Message("selectors.preset-without-definition", name=context)


def _read_tuned(tuned: Any) -> Any:
    """Check that it names a dataset."""
    if not (isinstance(tuned, Mapping) and isinstance(tuned.get("dataset"), str)):
        raise ParameterError(Message("selectors.tuned-without-dataset"))
    return tuned


class PresetsContent(FileModel):
    """A presets file, which `ctxbench tune` writes."""

    noun = "a presets file"
    format: int = Field(description="The version of the format.")
    tuned: Annotated[dict[str, Any], parsed(_read_tuned, dict[str, Any])] = Field(
        description="What the presets were tuned on and with: `dataset`, and more."
    )
    test_split: str = Field("", description="What the test split was read for.")
    definitions: dict[str, dict[str, str]] = Field({}, description="By the hash of a selector, its parameters.")
    presets: Annotated[dict[str, Any], parsed(lambda blocks: blocks, dict[str, TunedBlock])] = Field(
        description="Presets by name."
    )


@dataclass
class _PresetReader(YamlForm):
    """Reads presets and collects faults.

    Attributes:
        find: gives selectors.
    """

    find: Find = field(kw_only=True)

    def preset(self, name: str, value: Any, definitions: Mapping[str, Mapping[str, str]]) -> TunedPreset | None:
        """One preset; None if it is faulty."""
        block, faults = validate(TunedBlock, value, Source(self.path, self.lines).at("presets", name), context=name)
        self.faults += faults
        if block is None:
            return None
        fields = {key: getattr(block, key) for key in field_names(TunedBlock)}
        if block.selector.endswith(_ENDINGS):
            fields["selector"] = os.path.normpath(self.base / block.selector)
        preset = TunedPreset(**fields, parameters=definitions.get(block.definition, {}))
        if block.selector:
            self.check_selector(name, preset)
        return preset

    def check_selector(self, name: str, preset: TunedPreset) -> None:
        """Check the values of a preset against its selector."""
        where = ("presets", name)
        try:
            selector = self.find(preset.selector)
        except UserError as error:
            self.fault(str(error), *where, "selector")
            return
        if preset.definition not in (definition_hash(selector), *selector.earlier):
            since = "; ".join(changes(preset.parameters, selector)) or "its pipeline differs"
            message = Message("selectors.preset-outdated", selector=selector.name, preset=name, changes=since)
            self.fault(message, *where, "definition")
            return
        before = len(self.faults)
        tried = {
            key: self.attempt(partial(selector.checked, key, value), *where, "set", key)
            for key, value in preset.set.items()
        }
        checked = {key: value for key, value in tried.items() if value is not None}
        if len(self.faults) > before:
            return
        values = selector.with_defaults(checked)
        for key in checked:
            if idle := selector.idle(key, values):
                self.fault(idle, *where, "set", key)
        sets = {key: set(parameter.sets) for key, parameter in selector.parameters.items() if parameter.sets}
        new = set(selector.parameters) - set(preset.parameters) if preset.definition in selector.earlier else set()
        required = [
            key for key in selector.in_force(values) if not sets.get(key, {key}) <= set(checked) and key not in new
        ]
        if missing := [key for key in required if key not in checked]:
            self.fault(Message("selectors.preset-incomplete", missing=missing), *where, "set")
        try:
            selector.pipeline(values)
        except PipelineError as error:
            for fault in error.faults:
                self.fault(fault.message, *where, "set")


def changes(recorded: Mapping[str, str], definition: Definition) -> Iterator[str]:
    """The parameters in which a selector differs from its record; none without a record.

    Args:
        recorded: its `parameter_texts` then.
        definition: the selector now.
    """
    current = parameter_texts(definition)
    for name in sorted({*recorded, *current} if recorded else ()):
        if name not in current:
            yield f"parameter {name} was removed"
        elif name not in recorded:
            yield f"parameter {name} was added"
        elif recorded[name] != current[name]:
            yield Message("selectors.parameter-changed", name=name, before=recorded[name], now=current[name])
