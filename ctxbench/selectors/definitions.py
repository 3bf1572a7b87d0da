"""Selector definitions: a pipeline in YAML with named parameters, their ranges, and presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from ctxbench.errors import Fault, InputError, ParameterError, UnknownNameError, suggest
from ctxbench.jsonio import line_of, load_yaml
from ctxbench.pipeline import Pipeline, PipelineError
from ctxbench.registry import check_type

_SHIPPED = Path(__file__).parent / "shipped"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a selector, by the name that users know.

    Attributes:
        name: for example `contextTopK`.
        default: an int or a float; its type is the parameter's.
        low, high: the allowed range, ends included.
        help: one line.
    """

    name: str
    default: float
    low: float
    high: float
    help: str

    def checked(self, value: object) -> float:
        """Return `value` if it is allowed.

        Raises:
            ParameterError: it is of the wrong type or out of range.
        """
        check_type(self.name, value, type(self.default))
        number: float = cast("float", value)
        if not self.low <= number <= self.high:
            raise ParameterError(f"{self.name} must be {self.low:g} to {self.high:g}, got {value}")
        return float(number) if isinstance(self.default, float) else number


@dataclass(frozen=True, slots=True)
class Definition:
    """A selector as a pipeline with parameters.

    Attributes:
        name: what users call it.
        about: one or two sentences.
        parameters: by name.
        spec: the pipeline; `$name` stands for a parameter's value.
        presets: values by preset name; a preset need not name every parameter.
        abouts: what each preset is for.
    """

    name: str
    about: str
    parameters: Mapping[str, Parameter]
    spec: Mapping[str, Any]
    presets: Mapping[str, Mapping[str, float]]
    abouts: Mapping[str, str]

    def values(self, preset: str | None = None, given: Mapping[str, Any] | None = None) -> dict[str, float]:
        """Every parameter's value: the default, over it the preset's, over it what is given.

        Raises:
            UnknownNameError: no such preset.
            ParameterError: a given parameter is unknown or out of range; names all faults.
        """
        if preset is not None and preset not in self.presets:
            raise UnknownNameError("preset", preset, self.presets, where=f" of selector {self.name!r}")
        values = {name: parameter.default for name, parameter in self.parameters.items()}
        values |= self.presets[preset] if preset is not None else {}
        wrong = []
        for name, value in (given or {}).items():
            if name not in self.parameters:
                wrong.append(f"selector {self.name!r} has no parameter {name!r}{suggest(name, self.parameters)}")
                continue
            try:
                values[name] = self.parameters[name].checked(value)
            except ParameterError as error:
                wrong.append(str(error))
        if wrong:
            raise ParameterError("; ".join(wrong))
        return values

    def pipeline(self, values: Mapping[str, float]) -> Pipeline:
        """Build the pipeline for these values.

        Raises:
            PipelineError: a step is unknown or a value does not suit it.
        """
        return Pipeline.of(_filled(self.spec, values))


def _filled(spec: Any, values: Mapping[str, float]) -> Any:
    """Put values where the specification says `$name`."""
    if isinstance(spec, Mapping):
        return {key: _filled(value, values) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_filled(value, values) for value in spec]
    if isinstance(spec, str) and spec.startswith("$") and spec[1:] in values:
        return values[spec[1:]]
    return spec


def shipped() -> tuple[str, ...]:
    """The names of the selectors that come with ctxbench, sorted."""
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*.yaml")))


@cache
def definition(name: str) -> Definition:
    """A shipped selector's definition.

    Raises:
        UnknownNameError: there is none of this name.
    """
    if name not in shipped():
        raise UnknownNameError("selector", name, shipped())
    return read_definition(_SHIPPED / f"{name}.yaml")


def read_definition(path: Path) -> Definition:
    """Read a definition from YAML and check it whole: parameters, presets, and the pipeline with its defaults.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: anything in it is wrong; all faults with their lines.
    """
    data, lines = load_yaml(path)
    faults: list[Fault] = []

    def fault(message: str, *where: str | int) -> None:
        faults.append(Fault(message, path, line_of(lines, where)))

    known = ("name", "about", "parameters", "pipeline", "presets")
    if not isinstance(data, dict) or not {"name", "pipeline"} <= set(data):
        raise InputError([Fault(f"a selector needs name and pipeline; it may have {', '.join(known)}", path, 1)])
    for key in data:
        if key not in known:
            fault(f"a selector has no {key!r}{suggest(str(key), known)}", key)
    parameters: dict[str, Parameter] = {}
    for name, block in (data.get("parameters") or {}).items():
        try:
            low, high = block["range"]
            one = Parameter(name, block["default"], low, high, str(block.get("help", "")))
            one.checked(one.default)
            parameters[name] = one
        except (KeyError, TypeError, ValueError) as error:
            fault(f"parameter {name} needs default, range [low, high] and help: {error}", "parameters", name)
    presets = {str(name): dict((block or {}).get("set") or {}) for name, block in (data.get("presets") or {}).items()}
    abouts = {str(name): str((block or {}).get("about", "")) for name, block in (data.get("presets") or {}).items()}
    made = Definition(str(data["name"]), str(data.get("about", "")), parameters, data["pipeline"], presets, abouts)
    for name, preset in presets.items():
        try:
            made.values(None, preset)
        except ParameterError as error:
            fault(str(error), "presets", name)
    if not faults:
        try:
            made.pipeline(made.values())
        except PipelineError as error:
            for one_fault in error.faults:
                fault(one_fault.message, "pipeline", *one_fault.path)
    if faults:
        raise InputError(faults)
    return made
