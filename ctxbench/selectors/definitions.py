"""Selector definitions: a pipeline in YAML with named parameters, their ranges, and presets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError, ParameterError, UnknownNameError, suggest
from ctxbench.core.pipeline import OFF, Pipeline, PipelineError, SpecFault
from ctxbench.io.yaml_files import load_yaml
from ctxbench.io.yaml_form import YamlForm
from ctxbench.selectors.oracle import NEEDS_LABELS, ORACLE
from ctxbench.selectors.parameters import (
    Parameter,
    Value,
    any_of,
    choice_faults,
    need_faults,
    read_parameter,
    set_values,
    shown,
)

_SHIPPED = Path(__file__).parent / "shipped"
_FILES = ("calibration", "graph")  # parameters of steps that are paths
_WHEN = "when"  # beside a refining step: the parameter that switches it on
_SEARCH = "search"  # beside the stages: the parameter that switches the search off


@dataclass(frozen=True, slots=True)
class Definition:
    """A selector as a pipeline with parameters.

    Attributes:
        name: what users call it.
        about: one or two sentences.
        parameters: by name.
        spec: the pipeline; `$name` stands for a parameter's value, and paths are relative to the working directory.
            `search: $name` beside the stages names a switch: where it is off, nothing is analysed, found or refined.
            `when: name` beside a refining step leaves the step out while that switch is off, or while that number or
            choice has its default.
        presets: values by preset name; a preset need not name every parameter.
        abouts: what each preset is for.
        written: the pipeline as it stands in the file, whose paths are relative to that.
        earlier: hashes (`presets.definition_hash`) of what it was before it got parameters whose defaults change
            nothing: presets tuned then hold still.
    """

    name: str
    about: str
    parameters: Mapping[str, Parameter]
    spec: Mapping[str, Any]
    presets: Mapping[str, Mapping[str, Value]]
    abouts: Mapping[str, str]
    written: Mapping[str, Any]
    earlier: tuple[str, ...] = ()

    def values(self, preset: str | None = None, given: Mapping[str, Any] | None = None) -> dict[str, Value]:
        """Every parameter's value: the default, over it the preset's, over it what is given.

        At each of the three a choice sets its values first, and single parameters go over them.

        Raises:
            UnknownNameError: no such preset.
            ParameterError: a given parameter is unknown, out of range, or without effect; names all faults.
        """
        if preset is not None and preset not in self.presets:
            raise UnknownNameError("preset", preset, self.presets, where=f" of selector {self.name!r}")
        wrong, checked = [], {}
        for name, value in (given or {}).items():
            try:
                checked[name] = self.checked(name, value)
            except ParameterError as error:
                wrong.append(str(error))
        values = self.with_defaults(self.presets[preset] if preset is not None else {}, checked)
        wrong += [fault for name in checked if (fault := self.idle(name, values))]
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
        defaults = {name: one.default for name, one in self.parameters.items() if one.default is not None}
        values: dict[str, Value] = {}
        for layer in (defaults, *layers):
            for name, value in layer.items():
                values |= self.parameters[name].choices.get(str(value), {})
            values |= layer
        return {name: values[name] for name in self.parameters if name in values}

    def in_force(self, values: Mapping[str, Value], *, switches: bool = False) -> dict[str, Value]:
        """The values that have an effect, for manifests and reports.

        Not those of a choice beside which what it sets has other values: these stand for themselves. Nor, unless
        `switches`, what has its default and thereby leaves every step as if there were no such parameter: a search
        that is on, a step that is not there.
        """
        quiet = set() if switches else self._quiet(values)
        return {
            name: value
            for name, value in values.items()
            if name not in quiet and not self.idle(name, values) and not self._spelled_out(name, values)
        }

    def _quiet(self, values: Mapping[str, Value]) -> set[str]:
        """The switches of the search and of steps that have their default and change no step."""
        plain = self._plain(values)
        names = {str(name) for _, name in _whens(self.spec.get("refine"), ()) if not self._is_on(name, plain)}
        if self.search_switch and self.searches(values):
            names.add(self.search_switch)
        return {name for name in names if values[name] == self.parameters[name].default}

    def _spelled_out(self, name: str, values: Mapping[str, Value]) -> bool:
        """Whether a choice does nothing but set others, and some of them have another value."""
        sets = self.parameters[name].choices.get(str(values[name]), {})
        return any(values[other] != value for other, value in sets.items()) and name not in _used(self.spec)

    @property
    def search_switch(self) -> str:
        """The parameter that switches the search off; empty where there is none."""
        written = self.spec.get(_SEARCH) if isinstance(self.spec, Mapping) else None
        return written[1:] if isinstance(written, str) else ""

    def searches(self, values: Mapping[str, Value]) -> bool:
        """Whether anything is searched for with these values."""
        return not self.search_switch or bool(values[self.search_switch])

    def refining(self, values: Mapping[str, Value]) -> list[Any]:
        """The refining steps that are there with these values, as the specification writes them, `$name` included."""
        if not self.searches(values):
            return []
        plain = self._plain(values)
        steps: list[Any] = _without_off(_switched(self.spec.get("refine", []), lambda name: self._is_on(name, plain)))
        return steps

    def pipeline(self, values: Mapping[str, Value]) -> Pipeline:
        """Build the pipeline for these values. Those without effect count as their defaults, whatever they are.

        Raises:
            PipelineError: a step is unknown or a value does not suit it.
        """
        if not self.searches(values):
            shown: Any = {"format": self.spec.get("format", "messages")}
            return Pipeline.of({"analyse": "whole", "retrieve": "nothing", **_filled(shown, values)})
        spec: Any = self.spec
        plain = self._plain(values)
        if isinstance(spec, Mapping):
            spec = {key: value for key, value in spec.items() if key != _SEARCH}
            if "refine" in spec:
                spec["refine"] = _switched(spec["refine"], lambda name: self._is_on(name, plain))
        try:
            return Pipeline.of(_filled(spec, plain))
        except PipelineError as error:
            raise PipelineError([self._said(fault, values) for fault in error.faults]) from error

    def _plain(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Values with the default in place of each that has no effect, so that it cannot be one that a step refuses."""
        own = self.parameters
        return {
            name: value if (default := own[name].default) is None or not self.idle(name, values) else default
            for name, value in values.items()
        }

    def _is_on(self, name: str, values: Mapping[str, Value]) -> bool:
        """Whether a parameter switches a step on: a switch that is on, or a value that is not the default."""
        value = values[name]
        return value if isinstance(value, bool) else value != self.parameters[name].default

    def _said(self, fault: SpecFault, values: Mapping[str, Value]) -> SpecFault:
        """A fault of a step, with the names under which the user knows the step's parameters."""
        step: Any = self.spec
        for key in fault.path:
            step = step[key] if isinstance(step, Mapping | list) else None  # type: ignore[index]
        own = (
            {key: value[1:] for key, value in step.items() if _names(value, values)}
            if isinstance(step, Mapping)
            else {}
        )
        said = ", ".join(f"{key} is {name}" for key, name in own.items() if key in fault.message)
        return SpecFault(fault.path, f"{fault.message} (here {said})") if said else fault

    def idle(self, name: str, values: Mapping[str, Value]) -> str:
        """Why a parameter has no effect beside these values; empty where it has."""
        needs = dict(self.parameters[name].needs)
        if self.search_switch and name != self.search_switch:
            needs = {self.search_switch: (True,), **needs}
        for other, wanted in needs.items():
            if values[other] not in wanted:
                what = f"{name} has no effect while {other} is {shown(values[other])}"
                return f"{what}; set {other} to {any_of(wanted)}, or leave {name} out"
        return ""


def rooted(spec: Any, base: Path, *, files: bool = True) -> Any:
    """A pipeline's specification with its paths relative to `base`; the sources of a `merge` are no parameters."""
    if isinstance(spec, list):
        return [rooted(one, base) for one in spec]
    if not isinstance(spec, Mapping):
        return spec
    return {
        key: str(base / value)
        if files and key in _FILES and isinstance(value, str) and value and not value.startswith("$")
        else rooted(value, base, files=key != "merge")
        for key, value in spec.items()
    }


def _names(value: object, values: Mapping[str, Value]) -> bool:
    """Whether a value in a specification stands for one of a parameter's values."""
    return isinstance(value, str) and value.startswith("$") and value[1:] in values


def _filled(spec: Any, values: Mapping[str, Value]) -> Any:
    """Put values where the specification says `$name`."""
    if isinstance(spec, Mapping):
        return {key: _filled(value, values) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_filled(value, values) for value in spec]
    return values[spec[1:]] if _names(spec, values) else spec


def _switched(steps: Any, is_on: Callable[[str], bool]) -> Any:
    """Refining steps without `when`, those of domains included; `OFF` in the place of one that is switched off."""

    def one(step: Any) -> Any:
        if not isinstance(step, Mapping):
            return step
        if _WHEN in step and not is_on(step[_WHEN]):
            return OFF
        kept = {key: value for key, value in step.items() if key != _WHEN}
        if isinstance(kept.get("by_domain"), Mapping):
            kept["by_domain"] = {types: _switched(own, is_on) for types, own in kept["by_domain"].items()}
        return kept

    return [one(step) for step in steps] if isinstance(steps, list) else steps


def _without_off(steps: Any) -> Any:
    """Refining steps without the places of those that are switched off."""

    def one(step: Any) -> Any:
        domains = step.get("by_domain") if isinstance(step, Mapping) else None
        if not isinstance(domains, Mapping):
            return step
        return {"by_domain": {types: _without_off(own) for types, own in domains.items()}}

    return [one(step) for step in steps if step is not OFF] if isinstance(steps, list) else steps


def shipped() -> tuple[str, ...]:
    """The names of the selectors that come with ctxbench, sorted."""
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*.yaml")))


@cache
def definition(name: str) -> Definition:
    """A shipped selector's definition.

    Raises:
        UnknownNameError: there is none of this name.
        ParameterError: it is the oracle, which is no pipeline.
    """
    if name == ORACLE:
        raise ParameterError(NEEDS_LABELS)
    if name not in shipped():
        raise UnknownNameError("selector", name, shipped())
    return read_definition(_SHIPPED / f"{name}.yaml", build=False)  # which the tests do


def find_definition(selector: str, preset: str | None = None, *, base: Path = Path()) -> tuple[Definition, str | None]:
    """A selector as users name it: a shipped one, `name` or `name/preset`, or the path of a YAML file.

    Args:
        selector: the name or the path.
        preset: the preset that is named apart from it, if any; whether there is such a one is not looked at.
        base: what a path is relative to.

    Returns:
        The definition, and the preset; None where none is named.

    Raises:
        UserError: it is unknown, faulty, or two presets are named.
    """
    if is_file(selector):
        return read_definition(base / selector), preset
    name, slash, named = selector.partition("/")
    if slash and preset is not None:
        raise ParameterError(f"selector {selector} names a preset already; leave out the other, {preset}")
    return definition(name), named if slash else preset


def is_file(selector: str) -> bool:
    """Whether what a selector is called is the path of a definition."""
    return selector.endswith((".yaml", ".yml"))


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
    known = ("name", "about", "parameters", "pipeline", "presets", "earlier")
    if not isinstance(data, dict) or not {"name", "pipeline"} <= set(data):
        raise InputError([Fault(f"a selector needs name and pipeline; it may have {', '.join(known)}", path, 1)])
    reader = _Reader(path, lines, [])
    reader.refuse_unknown(data, known, "a selector")
    parameters = reader.parameters(data)
    blocks = reader.presets(data)
    made = Definition(
        name=str(data["name"]),
        about=str(data.get("about", "")),
        parameters=parameters,
        spec=rooted(data["pipeline"], path.parent),
        presets={},
        abouts={name: str(block.get("about", "")) for name, block in blocks.items()},
        written=data["pipeline"],
        earlier=reader.earlier(data),
    )
    reader.switches(made)
    presets = {name: reader.preset(made, name, block.get("set") or {}) for name, block in blocks.items()}
    if build and not reader.faults:
        reader.pipeline(made, presets)
    switches = {name for name, one in parameters.items() if one.sets}
    for name in sorted(set(parameters) - switches - _used(made.spec)):
        reader.fault(f"no step takes ${name}, so that parameter {name} would do nothing", "parameters", name)
    if reader.faults:
        raise InputError(reader.faults)
    return replace(made, presets=presets)


class _Reader(YamlForm):
    """Reads the parts of a definition and collects what is wrong in them."""

    def blocks(self, data: Mapping[str, Any], key: str) -> dict[str, Mapping[str, Any]]:
        """The mappings under a key, by name."""
        found = data.get(key) or {}
        if not isinstance(found, Mapping):
            self.fault(f"{key} must map names to mappings, got {found!r}", key)
            return {}
        for name, block in found.items():
            if not isinstance(block, Mapping):
                self.fault(f"{name} must be a mapping, got {block!r}", key, name)
        return {str(name): block for name, block in found.items() if isinstance(block, Mapping)}

    def parameters(self, data: Mapping[str, Any]) -> dict[str, Parameter]:
        """All parameters that can be read; what their choices set and what they need is checked between them."""
        made: dict[str, Parameter] = {}
        for name, block in self.blocks(data, "parameters").items():
            try:
                made[name] = read_parameter(name, block)
            except ParameterError as error:
                self.fault(str(error), "parameters", name)
        before = len(self.faults)
        for name, one in made.items():
            for fault in (*need_faults(one, made), *choice_faults(one, made)):
                self.fault(fault, "parameters", name)
        return set_values(made) if len(self.faults) == before else made

    def presets(self, data: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        blocks = self.blocks(data, "presets")
        for name, block in blocks.items():
            for key in set(block) - {"about", "set"}:
                self.fault(f"a preset has about and set, not {key!r}", "presets", name, key)
            if not isinstance(block.get("set") or {}, Mapping):
                self.fault(f"set must map parameters to values, got {block['set']!r}", "presets", name, "set")
        return {name: block for name, block in blocks.items() if isinstance(block.get("set") or {}, Mapping)}

    def earlier(self, data: Mapping[str, Any]) -> tuple[str, ...]:
        """The hashes of what the definition was before."""
        found = data.get("earlier") or []
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            self.fault(f"earlier must be a list of hashes, got {found!r}", "earlier")
            return ()
        return tuple(found)

    def switches(self, made: Definition) -> None:
        """What names a parameter that switches something must name one: a switch for the search."""
        spec: Any = made.spec
        if not isinstance(spec, Mapping):
            return
        if _SEARCH in spec:
            name = made.search_switch
            if name not in made.parameters or not isinstance(made.parameters[name].default, bool):
                what = f"search must be $name of a parameter that is true or false, got {spec[_SEARCH]!r}"
                self.fault(what, "pipeline", _SEARCH)
        for path, name in _whens(spec.get("refine"), ("refine",)):
            if not isinstance(name, str) or name not in made.parameters or made.parameters[name].default is None:
                what = f"when must name a parameter with a default, got {name!r}{suggest(str(name), made.parameters)}"
                self.fault(what, "pipeline", *path, _WHEN)

    def preset(self, made: Definition, name: str, given: Mapping[str, Any]) -> dict[str, Value]:
        """The values that a preset sets, checked."""
        values = {}
        for key, value in given.items():
            try:
                values[key] = made.checked(key, value)
            except ParameterError as error:
                self.fault(str(error), "presets", name, "set")
        return values

    def pipeline(self, made: Definition, presets: Mapping[str, Mapping[str, Value]]) -> None:
        """Build the pipeline for each preset, and with what is switched off by default switched on.

        What is wrong with the defaults already is not said again.
        """
        seen: set[SpecFault] = set()
        spec: Any = made.spec
        whens = _whens(spec.get("refine"), ()) if isinstance(spec, Mapping) else ()
        switches = dict.fromkeys(str(name) for _, name in whens)
        cases = [("", {}), *((f"preset {name}: ", values) for name, values in presets.items())]
        for name in switches:
            default, ends = made.parameters[name].default, made.parameters[name].ends
            on = made.parameters[name].choices or ends
            cases += [
                (f"with {_set_to(name, value)}: ", {name: value})
                for value in on
                if value != default and value is not False
            ]
        for where, values in cases:
            try:
                made.pipeline(made.with_defaults(values))
            except PipelineError as error:
                for one in error.faults:
                    if one not in seen:
                        self.fault(f"{where}{one.message}", "pipeline", *one.path)
                seen |= set(error.faults)


def _set_to(name: str, value: Value) -> str:
    """A switch by its name; a number or a choice with its value."""
    return name if value is True else f"{name} {value}"


def _whens(steps: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """What refining steps say under `when`, those of domains included, each with its place."""
    for place, step in enumerate(steps if isinstance(steps, list) else []):
        if not isinstance(step, Mapping):
            continue
        if _WHEN in step:
            yield (*path, place), step[_WHEN]
        domains = step.get("by_domain")
        for key, own in domains.items() if isinstance(domains, Mapping) else ():
            yield from _whens(own, (*path, place, "by_domain", key))


def _used(spec: Any) -> set[str]:
    """The names that the specification takes as `$name`, or under `when`."""
    if isinstance(spec, Mapping):
        named = {spec[_WHEN]} if isinstance(spec.get(_WHEN), str) else set()
        return named | {name for value in spec.values() for name in _used(value)}
    if isinstance(spec, list):
        return {name for value in spec for name in _used(value)}
    return {spec[1:]} if isinstance(spec, str) and spec.startswith("$") else set()
