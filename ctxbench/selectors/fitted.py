"""A selector with the user's fit: the same pipeline, written next to the file of fits that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ctxbench.core.errors import ParameterError
from ctxbench.features.stored_fits import PROBABILITY
from ctxbench.io.files import read_text, write_atomic
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.parameters import Parameter, Value


def fitted_index(spec: Mapping[str, Any], name: str) -> int | None:
    """The index in `refine` of the step of a name; None where there is none, or it is inside a combinator."""
    steps = spec.get("refine", [])
    names = [step if isinstance(step, str) else next(iter(step), "") for step in steps]
    return names.index(name) if name in names else None


def fitted_file(definition: Definition, fits: Path) -> Path:
    """The path of a selector with the user's fits: next to the file of fits, with the ending `.yaml`.

    Raises:
        ParameterError: the selector has no step `probability`, the file of fits has that ending itself, or another
            selector is there.
    """
    path = fits.with_suffix(".yaml")
    if fitted_index(definition.written, PROBABILITY) is None:
        message = f"selector {definition.name!r} has no step `probability` that could read a fit"
        raise ParameterError(f"{message}; take one that has, such as learned")
    if path == fits:
        raise ParameterError(
            f"{fits}: a selector with the fit is written beside it as .yaml; end its own name in .json"
        )
    if path.exists() and f"calibration: {fits.name}" not in read_text(path):
        raise ParameterError(
            f"{path} is another file, and the selector with the fit would go there; name another --out"
        )
    return path


def write_fitted(definition: Definition, fits: Path, preset: str | None = None) -> Path:
    """Write a selector whose probability is read from a file of fits.

    Args:
        definition: has a step `probability`.
        preset: whose values become its defaults; None = the defaults stay.
        fits: the file; the selector is written next to it, with the ending `.yaml`.

    Raises:
        ParameterError: there is no such step, or the file of fits has that ending itself.
        StorageError: it cannot be written.
    """
    path, index = fitted_file(definition, fits), fitted_index(definition.written, PROBABILITY) or 0
    spec = dict(definition.written)
    refine = list(spec["refine"])
    parameters = refine[index][PROBABILITY] if isinstance(refine[index], Mapping) else {}
    refine[index] = {PROBABILITY: {**(parameters or {}), "calibration": fits.name}}
    values = definition.values(preset)
    data = {
        "name": fits.stem,
        "about": f"As {definition.name}, with the fit in {fits.name}.",
        "parameters": {name: _block(parameter, values[name]) for name, parameter in definition.parameters.items()},
        "pipeline": {**spec, "refine": refine},
        "presets": {
            name: {"about": f"the values of {definition.name}/{name}", "set": dict(values)}
            for name, values in definition.presets.items()
        },
    }
    write_atomic(path, yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110))
    return path


def _block(parameter: Parameter, value: Value) -> dict[str, Any]:
    """A parameter as its YAML has it, with a default."""
    block: dict[str, Any] = {} if parameter.default is None else {"default": value}
    if parameter.choices:
        block["choices"] = {name: dict(values) for name, values in parameter.choices.items()}
    elif not isinstance(parameter.default, bool):
        block["range"] = [parameter.low, parameter.high]
    if parameter.needs:
        block["needs"] = {
            name: values[0] if len(values) == 1 else list(values) for name, values in parameter.needs.items()
        }
    return {**block, "help": parameter.help}
