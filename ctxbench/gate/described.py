"""Descriptions of pipelines: as flat lists of steps, to hold two against each other, and read back as pipelines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ctxbench.core.errors import ParameterError, UserError
from ctxbench.core.items import ITEM_TYPES
from ctxbench.core.pipeline import Pipeline
from ctxbench.jsonio import dump_json

ABOUT = ("version", "code", "content")  # of a step: what it was, beside its name and its parameters
SCORING = ("analyse", "retrieve", "rank")  # kinds of steps that decide scores; all others decide what is kept of them


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatStep:
    """One step of a pipeline, wherever it stands.

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
    pipeline = description.get("pipeline")
    if not isinstance(pipeline, Mapping):
        return None
    plain = json.loads(dump_json(pipeline))  # what was read from a file has lists where a live pipeline has tuples
    found: list[FlatStep] = []
    for stage in ("analyse", "retrieve", "refine"):
        held = plain.get(stage, [])
        found += _flat(held if isinstance(held, list) else [held], stage, ITEM_TYPES)
    seen: dict[str, int] = {}
    out = []
    for one in found:
        seen[one.path] = seen.get(one.path, 0) + 1
        number = f"#{seen[one.path]}" if seen[one.path] > 1 else ""
        out.append(replace(one, path=f"{one.path}{number}", label=f"{one.label}{number}"))
    return tuple(out)


def rebuilt(description: Mapping[str, Any]) -> tuple[Pipeline, bool] | None:
    """The pipeline that a selector's description tells of, made of the steps that there are now.

    `Pipeline.of` reads specifications, as users write them; a description is turned into one here.

    Returns:
        The pipeline, and whether it describes itself in all as it is described: version, code and read files of a step
        may be others now. None where the selector does not describe itself as a pipeline, or its steps cannot be made
        with these parameters any more.
    """
    described = description.get("pipeline")
    if not isinstance(described, Mapping):
        return None
    plain = json.loads(dump_json(described))
    try:
        pipeline = Pipeline.of({stage: _specified(held) for stage, held in plain.items()})
    except UserError:
        return None
    now = json.loads(dump_json(pipeline.describe()))
    return (pipeline, now == plain) if _bare(now) == _bare(plain) else None


def _specified(described: Any) -> Any:
    """The specification of what is described."""
    if isinstance(described, list):
        return [_specified(one) for one in described]
    if not isinstance(described, Mapping):
        return described
    if "analyses" in described:
        return _specified(described["analyses"])
    if "sources" in described and described.get("step") == "merge":
        return {"merge": {name: _specified(source) for name, source in _named(described, "sources")}}
    if "domains" in described:
        return {"by_domain": {types: _specified(steps) for types, steps in _named(described, "domains")}}
    name = str(described.get("step", "")).partition(":")[2]
    return {name: {key: value for key, value in described.items() if key not in (*ABOUT, "step")}}


def _bare(described: Any) -> Any:
    """What is described without what its steps were."""
    if isinstance(described, list):
        return [_bare(one) for one in described]
    if isinstance(described, Mapping):
        about = ABOUT if "step" in described else ()
        return {key: _bare(value) for key, value in described.items() if key not in about}
    return described


def _flat(steps: Sequence[Mapping[str, Any]], path: str, types: tuple[str, ...]) -> Iterator[FlatStep]:
    for one in steps:
        step = one if isinstance(one, Mapping) else {"step": str(one)}
        if "analyses" in step:
            yield from _flat(_list(step, "analyses"), path, types)
        elif "sources" in step and step.get("step") == "merge":
            for name, source in _named(step, "sources"):
                own_step = next(_flat([source], path, types), None)
                if own_step is None:
                    raise ParameterError(f"a source must be a step, got {source!r}")
                own_path = f"{path}.{name}" if name == own_step.name else f"{path}.{name}.{own_step.name}"
                yield replace(own_step, path=own_path)
        elif "domains" in step:
            free = list(types)
            for names, inner in _named(step, "domains"):
                own = tuple(one for one in free if one in names.split(",") or "*" in names.split(","))
                free = [one for one in free if one not in own]
                yield from _flat(_list({names: inner}, names), f"{path}.{names}", own)
        else:
            kind, _, name = str(step.get("step", "")).partition(":")
            yield FlatStep(
                path=f"{path}.{name}",
                label=name,
                kind=kind,
                name=name,
                types=types,
                values={key: value for key, value in step.items() if key not in (*ABOUT, "step")},
                source={key: step[key] for key in ABOUT if key in step},
            )


def _list(described: Mapping[str, Any], key: str) -> list[Any]:
    value = described[key]
    if not isinstance(value, list):
        raise ParameterError(f"{key} of a pipeline must be a list of steps, got {value!r}")
    return value


def _named(described: Mapping[str, Any], key: str) -> list[tuple[str, Any]]:
    """The pairs of a name and what it names."""
    value = described[key]
    pairs: list[Any] = value if isinstance(value, list) else [None]
    if not all(isinstance(one, list) and len(one) == 2 and isinstance(one[0], str) for one in pairs):
        raise ParameterError(f"{key} of a pipeline must be a list of pairs of a name and steps, got {value!r}")
    return [(name, held) for name, held in pairs]
