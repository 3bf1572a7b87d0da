"""The thresholds of a selector, as its steps declare them, and the scores that each is compared with.

A step with thresholds has a property `thresholds`: by quantity (see `QUANTITIES`) the values from which on it includes,
each under the name of its parameter. Where it includes a number of items whatever they score, it has that number as a
property `floor`. Steps are built again from their descriptions, so stored runs have thresholds, too; a plugin that is
not installed here has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ctxbench.bench.equal_tokens import refining
from ctxbench.core.items import ITEM_TYPES
from ctxbench.core.stages import Step
from ctxbench.core.stored_pipelines import StoredDomains, StoredPipeline, StoredRefine, StoredStep

QUANTITIES = {
    "score": "",
    "difference": "distance to the best score of the same query",
    "ratio": "score as a share of the best of the query",
    "expansion": "score of what expansions brought in",
}
"""What thresholds may be compared with, with the title of its chart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A threshold of a selector.

    Attributes:
        quantity: one of `QUANTITIES`.
        label: the parameter's name.
        setting: what the parameter was set to.
        value: from which on it includes; another one than the setting where that is a distance.
        floor: how many items are included below it; 0 where none are, or where that is counted by domain.
        types: the item types that it applies to, in the order of `ITEM_TYPES`; empty = all.
    """

    quantity: str
    label: str
    setting: float
    value: float
    floor: int = 0
    types: tuple[str, ...] = ()


def bounds_of(about: Mapping[str, Any]) -> tuple[Bound, ...]:
    """The thresholds of a selector in the order of its steps, without those that are switched off.

    A selector outside this package has none. What every domain of a `by_domain` is cut by is one threshold of all
    items.

    Args:
        about: the selector in the manifest.
    """
    pipeline = None if about.get("outside") else StoredPipeline.of(about.get("description", {}))
    return () if pipeline is None else _of_steps(refining(pipeline.refine))


def threshold_of(about: Mapping[str, Any]) -> float | None:
    """The score from which a selector always includes; None where it has no such score, or several.

    Args:
        about: the selector in the manifest.
    """
    bounds = {(bound.value, bound.types) for bound in bounds_of(about) if bound.quantity == "score"}
    value, types = bounds.pop() if len(bounds) == 1 else (None, ())
    return None if types else value


def _of_steps(steps: Sequence[StoredRefine]) -> tuple[Bound, ...]:
    bounds: list[Bound] = []
    for step in steps:
        bounds += _of_domains(step.domains) if isinstance(step, StoredDomains) else _of_step(step)
    return tuple(dict.fromkeys(bounds))


def _of_step(step: StoredStep) -> list[Bound]:
    call = step.build()
    if call is None:  # a plugin that is not here, or that has other parameters by now
        return []
    built = Step(step.kind, step.name, call)
    thresholds: Mapping[str, Mapping[str, float]] = built.declared("thresholds")
    floor = int(built.declared("floor"))
    return [
        Bound(quantity=quantity, label=label, setting=float(step.values.get(label, value)), value=value, floor=floor)
        for quantity, values in thresholds.items()
        for label, value in values.items()
    ]


def _of_domains(domains: Sequence[tuple[tuple[str, ...], Sequence[StoredRefine]]]) -> list[Bound]:
    """The thresholds of each domain for its types; one for all items where every domain has it."""
    left = list(ITEM_TYPES)
    parts: list[tuple[tuple[str, ...], tuple[Bound, ...]]] = []
    for named, steps in domains:
        types = tuple(item_type for item_type in left if item_type in named or "*" in named)
        left = [item_type for item_type in left if item_type not in types]
        parts.append((types, _of_steps(steps)))
    alike = [{replace(bound, floor=0) for bound in bounds} for _, bounds in parts]
    shared = set.intersection(*alike) if alike else set()
    merged = [
        bound for bound in dict.fromkeys(replace(b, floor=0) for _, some in parts for b in some) if bound in shared
    ]
    for types, bounds in parts:
        for bound in bounds:
            if replace(bound, floor=0) not in shared:
                inner = tuple(item_type for item_type in types if not bound.types or item_type in bound.types)
                merged += [replace(bound, types=inner)] if inner else []
    return merged
