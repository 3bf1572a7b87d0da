"""Reads descriptions of pipelines as flat lists of steps, which can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ctxbench.core.items import ITEM_TYPES
from ctxbench.core.stored_pipelines import AnyStored, StoredAnalyses, StoredMerge, StoredPipeline, StoredStep

SCORING = ("analyse", "retrieve", "rank")  # kinds of steps that decide scores; all others decide what is kept of them


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatStep:
    """One step of a pipeline, at any depth.

    Attributes:
        path: where, for a person: `refine.standard`, `refine.tool.margin`, `retrieve.dense`; a second step of the same
            name in the same place has `#2` behind it. Distinct within a pipeline.
        label: the end of the path: the name, with such a number.
        kind: of the registry: `analyse`, `retrieve`, `rank`, `cut`, `expand`, `fit`.
        name: of the registry.
        types: the item types that it refines, in the order of `ITEM_TYPES`; all of them outside of domains.
        values: its parameters, as JSON; `version`, `code` and `content` are kept in `source`.
        source: version of the step, code of a plugin's and content of a file that it reads, as far as it has them.
    """

    path: str
    label: str
    kind: str
    name: str
    types: tuple[str, ...]
    values: Mapping[str, Any]
    source: Mapping[str, Any]

    @property
    def scores(self) -> bool:
        """Whether it decides scores."""
        return self.kind in SCORING


def flat_steps(description: Mapping[str, Any]) -> tuple[FlatStep, ...] | None:
    """The steps that decide a selection, in order; None where a selector does not describe itself as a pipeline.

    `format` is left out: it decides how a prompt reads, not what is in it.

    Raises:
        ParameterError: it describes a pipeline that is none.
    """
    pipeline = StoredPipeline.of(description)
    if pipeline is None:
        return None
    stages = (("analyse", pipeline.analyse), ("retrieve", pipeline.retrieve))
    steps = [step for path, stage in stages if stage is not None for step in _stage_steps(stage, path, ITEM_TYPES)]
    steps += [step for stage in pipeline.refine for step in _stage_steps(stage, "refine", ITEM_TYPES)]
    counts: dict[str, int] = {}
    out = []
    for step in steps:
        counts[step.path] = counts.get(step.path, 0) + 1
        number = f"#{counts[step.path]}" if counts[step.path] > 1 else ""
        out.append(replace(step, path=f"{step.path}{number}", label=f"{step.label}{number}"))
    return tuple(out)


def _stage_steps(stage: AnyStored, path: str, types: tuple[str, ...]) -> Iterator[FlatStep]:
    if isinstance(stage, StoredStep):
        yield FlatStep(
            path=f"{path}.{stage.name}",
            label=stage.name,
            kind=stage.kind,
            name=stage.name,
            types=types,
            values=stage.values,
            source=stage.about,
        )
    elif isinstance(stage, StoredAnalyses):
        for step in stage.steps:
            yield from _stage_steps(step, path, types)
    elif isinstance(stage, StoredMerge):
        for name, step in stage.sources:
            for flat_step in _stage_steps(step, path, types):
                own_path = f"{path}.{name}" if name == step.name else f"{path}.{name}.{step.name}"
                yield replace(flat_step, path=own_path)
    else:
        free = list(types)
        for names, steps in stage.domains:
            domain_types = tuple(item_type for item_type in free if item_type in names or "*" in names)
            free = [item_type for item_type in free if item_type not in domain_types]
            for inner in steps:
                yield from _stage_steps(inner, f"{path}.{','.join(names)}", domain_types)
