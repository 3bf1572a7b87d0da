"""Pipelines as text: described steps as one would write them, without default parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from ctxbench.bench.equal_tokens import refining
from ctxbench.core import registry
from ctxbench.core.errors import UserError
from ctxbench.core.stored_pipelines import (
    AnyStored,
    StoredAnalyses,
    StoredDomains,
    StoredMerge,
    StoredPipeline,
    StoredRefine,
)
from ctxbench.features.stored_fits import SHIPPED, open_calibrations

Stage: TypeAlias = AnyStored | tuple[StoredRefine, ...] | None


def pipeline_text(description: Mapping[str, Any]) -> str:
    """The steps of a described pipeline in order; empty for any other selector."""
    stages = stages_of(description)
    return ", then ".join(stage_text(stages[name]) for name in ("analyse", "retrieve", "refine") if stages.get(name))


def stages_of(description: Mapping[str, Any]) -> dict[str, Stage]:
    """The described stages of a pipeline; none for any other selector."""
    pipeline = StoredPipeline.of(description)
    if pipeline is None:
        return {"refine": ()}
    stages = {"analyse": pipeline.analyse, "retrieve": pipeline.retrieve, "format": pipeline.format}
    return {**stages, "refine": refining(pipeline.refine)}


def stage_text(stage: Stage) -> str:
    """Steps as one writes them, without the parameters that have their default."""
    if stage is None:
        return str(None)
    if isinstance(stage, tuple):
        return ", ".join(map(stage_text, stage)) or "nothing"
    if isinstance(stage, StoredAnalyses):
        return stage_text(stage.steps)
    if isinstance(stage, StoredMerge):
        return " beside ".join(
            stage_text(step) if step.name == name else f"{name}: {stage_text(step)}" for name, step in stage.sources
        )
    if isinstance(stage, StoredDomains):
        return "; ".join(f"{','.join(types)}: {stage_text(steps)}" for types, steps in stage.domains)
    usual = _defaults(stage.kind, stage.name)
    return _written(stage.name, {k: value for k, value in stage.values.items() if k not in usual or usual[k] != value})


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
    defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    with suppress(UserError):  # one that needs a value cannot be made without
        defaults |= registry.parameters(registry.build(kind, name, {}))
    return {key: list(value) if isinstance(value, tuple) else value for key, value in defaults.items()}


def may_have_seen(description: Mapping[str, Any], datasets: Collection[str]) -> bool:
    """Whether a step of a described pipeline uses a fit that may have been made from labels of these datasets.

    What comes with ctxbench was fitted on datasets that it names, and on none of the user's; of another file of fits
    nothing is known.
    """
    if not reads_a_fit(description):
        return False
    pipeline = StoredPipeline.of(description)
    read = {step.values.get("calibration") for step in (pipeline.steps() if pipeline else ())} - {None, ""}
    if read != {SHIPPED}:
        return True
    fitted = {name for fit in open_calibrations(SHIPPED).fits for name in fit.dataset.split(" + ")}
    return any(name == source or name.startswith(f"{source}-") for name in datasets for source in fitted)


def reads_a_fit(description: Mapping[str, Any]) -> bool:
    """Whether any step of a described pipeline uses a file of fits."""
    pipeline = StoredPipeline.of(description)
    return pipeline is not None and any(step.values.get("calibration") for step in pipeline.steps())
