"""Descriptions of pipelines, as manifests and baselines keep them, read back as steps with their parameters.

`Pipeline.describe` writes them, and this is the one place that knows their form. Where a pipeline is at hand, its steps
are asked instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ctxbench.core import registry
from ctxbench.core.errors import ParameterError, UserError

_ABOUT = ("version", "code", "content")  # what a step was, beside its name and its parameters


@dataclass(frozen=True, kw_only=True)
class StoredStep:
    """One step as it is described.

    Attributes:
        kind, name: of the registry.
        values: its parameters, as JSON.
        about: its `version`, `code` of a plugin's, and `content` of a file that it reads, as far as it has them.
    """

    kind: str
    name: str
    values: Mapping[str, Any]
    about: Mapping[str, Any]

    def build(self) -> Any | None:
        """The strategy as it is now, with these parameters; None where it is not here, or takes others by now."""
        if self.kind not in registry.KINDS:
            return None
        try:
            return registry.build(self.kind, self.name, self.values)
        except UserError:
            return None


@dataclass(frozen=True)
class StoredAnalyses:
    """Analyses side by side."""

    steps: tuple[StoredStep, ...]


@dataclass(frozen=True)
class StoredMerge:
    """Retrievers side by side, with their names."""

    sources: tuple[tuple[str, StoredStep], ...]


@dataclass(frozen=True)
class StoredDomains:
    """The steps of each domain, with the item types that it takes; `*` = all that are left."""

    domains: tuple[tuple[tuple[str, ...], tuple[StoredRefine, ...]], ...]


StoredRefine: TypeAlias = StoredStep | StoredDomains
AnyStored: TypeAlias = StoredStep | StoredAnalyses | StoredMerge | StoredDomains


@dataclass(frozen=True, kw_only=True)
class StoredPipeline:
    """The stages of a described pipeline; None for one that it does not tell."""

    analyse: StoredStep | StoredAnalyses | None = None
    retrieve: StoredStep | StoredMerge | None = None
    refine: tuple[StoredRefine, ...] = ()
    format: StoredStep | None = None

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> StoredPipeline | None:
        """What a selector says of itself, or a manifest of it; None where it does not describe itself as a pipeline.

        Raises:
            ParameterError: it describes a pipeline that is none.
        """
        pipeline = description.get("pipeline")
        if not isinstance(pipeline, Mapping):
            return None
        plain = json.loads(json.dumps(pipeline))  # what was read from a file has lists where a live pipeline has tuples
        read = {stage: _read(plain[stage]) for stage in ("analyse", "retrieve", "format") if stage in plain}
        for stage, (expected_type, label) in _EXPECTED.items():
            if stage in read and not isinstance(read[stage], expected_type):
                raise ParameterError(f"{stage} of a pipeline must be {label}, got {plain[stage]!r}")
        return cls(**read, refine=_refining(plain.get("refine", []), "refine"))  # type: ignore[arg-type]

    def steps(self) -> Iterator[StoredStep]:
        """Every step, wherever it stands, in order."""
        for stage in (self.analyse, self.retrieve, *self.refine, self.format):
            if stage is not None:
                yield from single_steps(stage)


_EXPECTED: dict[str, tuple[Any, str]] = {
    "analyse": (StoredStep | StoredAnalyses, "a step or analyses"),
    "retrieve": (StoredStep | StoredMerge, "a step or a merge"),
    "format": (StoredStep, "a step"),
}


def single_steps(stage: AnyStored) -> Iterator[StoredStep]:
    """The steps of a stage, those inside combinators too, in order."""
    if isinstance(stage, StoredStep):
        yield stage
    elif isinstance(stage, StoredAnalyses):
        yield from stage.steps
    elif isinstance(stage, StoredMerge):
        yield from (step for _, step in stage.sources)
    else:
        for _, steps in stage.domains:
            for step in steps:
                yield from single_steps(step)


def pipelines_in(description: Any) -> Iterator[StoredPipeline]:
    """Every pipeline that a selector says it is made of: its own, or those of the selectors that it asks."""
    if isinstance(description, Mapping):
        pipeline = StoredPipeline.of(description)
        if pipeline is not None:
            yield pipeline
        else:
            for part in description.values():
                yield from pipelines_in(part)


def _read(described: Any) -> AnyStored:
    """One step or combinator."""
    if isinstance(described, list):
        return StoredAnalyses(tuple(_step(step, "analyse") for step in described))
    if not isinstance(described, Mapping):
        return _taken_apart({"step": described})
    combinator = described.get("step")  # a step may have a parameter of any name
    if "analyses" in described and combinator in ("analyses", None):
        return StoredAnalyses(tuple(_step(step, "analyses") for step in _list(described["analyses"], "analyses")))
    if "sources" in described and combinator == "merge":
        return StoredMerge(
            tuple((name, _step(step, "sources")) for name, step in _pairs(described["sources"], "sources")),
        )
    if "domains" in described and combinator in ("by_domain", None):
        pairs = _pairs(described["domains"], "domains")
        return StoredDomains(
            tuple(
                (tuple(type_.strip() for type_ in types.split(",")), _refining(steps, types)) for types, steps in pairs
            )
        )
    return _taken_apart(described)


def _taken_apart(described: Mapping[str, Any]) -> StoredStep:
    """A step as `Step.describe` writes it: what it is called, and its parameters beside that."""
    kind, _, name = str(described.get("step", "")).partition(":")
    return StoredStep(
        kind=kind,
        name=name,
        values={key: value for key, value in described.items() if key not in (*_ABOUT, "step")},
        about={key: described[key] for key in _ABOUT if key in described},
    )


def _step(described: Any, where: str) -> StoredStep:
    read = _read(described)
    if not isinstance(read, StoredStep):
        raise ParameterError(f"{where} of a pipeline must hold single steps, got {described!r}")
    return read


def _refining(described: Any, where: str) -> tuple[StoredRefine, ...]:
    read = [_read(step) for step in _list(described, where)]
    if not all(isinstance(step, StoredStep | StoredDomains) for step in read):
        raise ParameterError(f"{where} of a pipeline must hold refining steps, got {described!r}")
    return tuple(step for step in read if isinstance(step, StoredStep | StoredDomains))


def _list(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise ParameterError(f"{where} of a pipeline must be a list of steps, got {value!r}")
    return value


def _pairs(value: Any, where: str) -> list[tuple[str, Any]]:
    """The pairs of a name and what it names."""
    pairs: list[Any] = value if isinstance(value, list) else [None]
    if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise ParameterError(f"{where} of a pipeline must be a list of pairs of a name and steps, got {value!r}")
    return [(name, value) for name, value in pairs]
