"""Descriptions of pipelines as flat lists of steps, so that two of them can be held against each other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctxbench.items import ITEM_TYPES
from ctxbench.jsonio import dump_json

SCORING = ("analyse", "retrieve", "rank")  # kinds of steps that decide scores; all others decide what is kept of them


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatStep:
    """One step of a pipeline, wherever it stands.

    Attributes:
        path: where, for a person: `refine.standard`, `refine.tool.margin`, `retrieve.dense`; a second step of the same
            name in the same place has `#2` behind it. Distinct within a pipeline.
        kind: of the registry: `analyse`, `retrieve`, `rank`, `cut`, `expand`, `fit`.
        name: of the registry.
        types: the item types that it refines, in the order of `ITEM_TYPES`; all of them outside of domains.
        values: its parameters, as JSON; `version`, `code` and `content` are kept in `source`.
        source: version of the step, code of a plugin's and content of a file that it reads, as far as it has them.
    """

    path: str
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
        out.append(one if seen[one.path] == 1 else _at(one, f"{one.path}#{seen[one.path]}"))
    return tuple(out)


def _flat(steps: Sequence[Mapping[str, Any]], path: str, types: tuple[str, ...]) -> Iterator[FlatStep]:
    for one in steps:
        step = one if isinstance(one, Mapping) else {"step": str(one)}
        if "analyses" in step:
            yield from _flat(step["analyses"], path, types)
        elif "sources" in step and step.get("step") == "merge":
            for name, source in step["sources"]:
                own_step = next(_flat([source], path, types))
                yield _at(own_step, f"{path}.{name}" if name == own_step.name else f"{path}.{name}.{own_step.name}")
        elif "domains" in step:
            free = list(types)
            for names, inner in step["domains"]:
                own = tuple(one for one in free if one in names.split(",") or "*" in names.split(","))
                free = [one for one in free if one not in own]
                yield from _flat(inner, f"{path}.{names}", own)
        else:
            kind, _, name = str(step.get("step", "")).partition(":")
            about = ("version", "code", "content")
            yield FlatStep(
                path=f"{path}.{name}",
                kind=kind,
                name=name,
                types=types,
                values={key: value for key, value in step.items() if key not in (*about, "step")},
                source={key: step[key] for key in about if key in step},
            )


def _at(step: FlatStep, path: str) -> FlatStep:
    return FlatStep(path=path, kind=step.kind, name=step.name, types=step.types, values=step.values, source=step.source)
