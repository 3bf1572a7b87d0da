"""Pipelines in words: described steps as one would write them, without what is as usual."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ctxbench.bench.equal_tokens import refining
from ctxbench.core import registry
from ctxbench.core.errors import UserError


def pipeline_text(description: Mapping[str, Any]) -> str:
    """The steps of a described pipeline in order; empty for any other selector."""
    stages = stages_of(description)
    return ", then ".join(steps_text(stages[name]) for name in ("analyse", "retrieve", "refine") if stages.get(name))


def stages_of(description: Mapping[str, Any]) -> dict[str, Any]:
    """The described stages of a pipeline; none for any other selector."""
    pipeline = description.get("pipeline", {})
    return {**pipeline, "refine": refining(pipeline)}


def steps_text(described: Any) -> str:
    """Described steps as one writes them, without the parameters that have their default."""
    if isinstance(described, list):
        return ", ".join(steps_text(one) for one in described) or "nothing"
    if not isinstance(described, Mapping):
        return str(described)
    if "analyses" in described:
        return steps_text(described["analyses"])
    if "sources" in described:
        return " beside ".join(
            steps_text(step) if step["step"].endswith(f":{name}") else f"{name}: {steps_text(step)}"
            for name, step in described["sources"]
        )
    if "domains" in described:
        return "; ".join(f"{types}: {steps_text(steps)}" for types, steps in described["domains"])
    kind, _, name = str(described["step"]).partition(":")
    usual = {"step": described["step"], "version": described["version"], **_defaults(kind, name)}
    values = {key: value for key, value in described.items() if key not in ("code", "content")}
    return _written(name, {key: value for key, value in values.items() if key not in usual or usual[key] != value})


def _written(name: str, values: Mapping[str, Any]) -> str:
    """`name (key value, ...)`."""
    inside = ", ".join(_value(key, value) for key, value in values.items())
    return f"{name} ({inside})" if inside else name


def _value(key: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return _written(key, value)
    if key in ("calibration", "graph"):
        return f"{key} {Path(str(value)).name}"
    if isinstance(value, list | tuple):
        return f"{key} {'+'.join(map(str, value))}"
    return (
        f"{key} {value:g}"
        if isinstance(value, float)
        else f"{key} {str(value).lower() if value in (True, False) else value}"
    )


def _defaults(kind: str, name: str) -> dict[str, Any]:
    """The parameters that a strategy has by default; empty where it is not known here."""
    try:
        fields = dataclasses.fields(registry.find(kind, name))
    except (UserError, KeyError):  # a plugin that is not installed here, or one of an older version
        return {}
    made = {one.name: one.default for one in fields if one.default is not dataclasses.MISSING}
    with suppress(UserError):  # one that needs a value cannot be made without
        made |= registry.parameters(registry.build(kind, name, {}))
    return {key: list(value) if isinstance(value, tuple) else value for key, value in made.items()}


def parameter_values(described: Any, key: str) -> list[Any]:
    """All values of a parameter in a description, at any depth, but those that are not set."""
    if isinstance(described, Mapping):
        own = [described[key]] if described.get(key) else []
        return own + [found for value in described.values() for found in parameter_values(value, key)]
    if isinstance(described, list):
        return [found for value in described for found in parameter_values(value, key)]
    return []
