"""Selector definitions: a pipeline in YAML with named parameters, their ranges, and presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from ctxbench.errors import Fault, InputError, ParameterError, UnknownNameError, suggest
from ctxbench.jsonio import line_of, load_yaml
from ctxbench.pipeline import Pipeline, PipelineError, SpecFault
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
    """Read a definition from YAML and check it whole: parameters, presets, and the pipeline with each preset.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: anything in it is wrong; all faults with their lines.
    """
    data, lines = load_yaml(path)
    known = ("name", "about", "parameters", "pipeline", "presets")
    if not isinstance(data, dict) or not {"name", "pipeline"} <= set(data):
        raise InputError([Fault(f"a selector needs name and pipeline; it may have {', '.join(known)}", path, 1)])
    reader = _Reader(path, lines)
    for key in data:
        if key not in known:
            reader.fault(f"a selector has no {key!r}{suggest(str(key), known)}", key)
    parameters = reader.parameters(data)
    presets = reader.presets(data)
    made = Definition(
        name=str(data["name"]),
        about=str(data.get("about", "")),
        parameters=parameters,
        spec=data["pipeline"],
        presets={name: block.get("set") or {} for name, block in presets.items()},
        abouts={name: str(block.get("about", "")) for name, block in presets.items()},
    )
    checked = {name: reader.preset(made, name) for name in presets}
    if not reader.faults:
        reader.pipeline(
            made, {"": made.values(), **{name: made.values(None, values) for name, values in checked.items()}}
        )
    for name in sorted(set(parameters) - _used(made.spec)):
        reader.fault(f"no step takes ${name}, so that parameter {name} would do nothing", "parameters", name)
    if reader.faults:
        raise InputError(reader.faults)
    return replace(made, presets=checked)


class _Reader:
    """Reads the parts of a definition and collects what is wrong in them."""

    def __init__(self, path: Path, lines: dict[tuple[str | int, ...], int]) -> None:
        self._path = path
        self._lines = lines
        self.faults: list[Fault] = []

    def fault(self, message: str, *where: str | int) -> None:
        self.faults.append(Fault(message, self._path, line_of(self._lines, where)))

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
        made = {}
        for name, block in self.blocks(data, "parameters").items():
            default, ends = block.get("default"), block.get("range")
            numbers = [default, *(ends if isinstance(ends, list) else ())]
            if len(numbers) != 3 or not all(type(number) in (int, float) for number in numbers):
                self.fault(f"parameter {name} needs default and range [low, high], all numbers", "parameters", name)
                continue
            value, low, high = numbers
            one = Parameter(name, value, low, high, str(block.get("help", "")))
            try:
                one.checked(one.default)
            except ParameterError as error:
                self.fault(f"default: {error}", "parameters", name)
            made[name] = one
        return made

    def presets(self, data: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        blocks = self.blocks(data, "presets")
        for name, block in blocks.items():
            for key in set(block) - {"about", "set"}:
                self.fault(f"a preset has about and set, not {key!r}", "presets", name, key)
            if not isinstance(block.get("set") or {}, Mapping):
                self.fault(f"set must map parameters to values, got {block['set']!r}", "presets", name, "set")
        return {name: block for name, block in blocks.items() if isinstance(block.get("set") or {}, Mapping)}

    def preset(self, made: Definition, name: str) -> dict[str, float]:
        """The values that a preset sets."""
        given = made.presets[name]
        try:
            values = made.values(None, given)
        except ParameterError as error:
            self.fault(str(error), "presets", name, "set")
            return {}
        return {key: values[key] for key in given}

    def pipeline(self, made: Definition, presets: Mapping[str, Mapping[str, float]]) -> None:
        """Build the pipeline for each preset; what is wrong with the defaults already is not said again."""
        seen: set[SpecFault] = set()
        for name, values in presets.items():
            try:
                made.pipeline(values)
            except PipelineError as error:
                for one in error.faults:
                    if one not in seen:
                        where = f"preset {name}: " if name else ""
                        self.fault(f"{where}{one.message}", "pipeline", *one.path)
                seen |= set(error.faults)


def _used(spec: Any) -> set[str]:
    """The names that the specification takes as `$name`."""
    if isinstance(spec, Mapping):
        return {name for value in spec.values() for name in _used(value)}
    if isinstance(spec, list):
        return {name for value in spec for name in _used(value)}
    return {spec[1:]} if isinstance(spec, str) and spec.startswith("$") else set()
