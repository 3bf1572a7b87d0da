"""A selector as a pipeline with named parameters: values in force, and the pipeline that they give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ctxbench.core.errors import ParameterError, UnknownNameError, suggest
from ctxbench.core.pipeline import OFF, Pipeline, PipelineError, SpecFault
from ctxbench.selectors.parameters import Parameter, Value, any_of, value_text

WHEN = "when"  # beside a refining step: the parameter that switches it on
SEARCH = "search"  # beside the stages: the parameter that switches the search off


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
        written: the pipeline as the file has it, with paths relative to the file.
        earlier: hashes (`presets.definition_hash`) of what it was before it got parameters whose defaults change
            nothing: presets tuned then hold still.
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
        if preset is not None and preset not in self.presets:
            raise UnknownNameError("preset", preset, self.presets, where=f" of selector {self.name!r}")
        wrong, checked = [], {}
        for name, value in (overrides or {}).items():
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
            form: Any = {"format": self.spec.get("format", "messages")}
            return Pipeline.of({"analyse": "whole", "retrieve": "nothing", **_filled(form, values)})
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
            name: value if (default := parameters[name].default) is None or not self.idle(name, values) else default
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
        text = ", ".join(f"{key} is {name}" for key, name in parameter_names.items() if key in fault.message)
        return SpecFault(fault.path, f"{fault.message} (here {text})") if text else fault

    def idle(self, name: str, values: Mapping[str, Value]) -> str:
        """Why a parameter has no effect with these values; empty where it has one."""
        needs = dict(self.parameters[name].needs)
        if self.search_switch and name != self.search_switch:
            needs = {self.search_switch: (True,), **needs}
        for required_name, allowed in needs.items():
            if values[required_name] not in allowed:
                message = f"{name} has no effect while {required_name} is {value_text(values[required_name])}"
                return f"{message}; set {required_name} to {any_of(allowed)}, or leave {name} out"
        return ""


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
    if isinstance(spec, Mapping):
        named = {spec[WHEN]} if isinstance(spec.get(WHEN), str) else set()
        return named | {name for value in spec.values() for name in used_names(value)}
    if isinstance(spec, list):
        return {name for value in spec for name in used_names(value)}
    return {spec[1:]} if isinstance(spec, str) and spec.startswith("$") else set()
