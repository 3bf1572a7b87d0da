"""Compares the settings of a gate file with those that its baseline was accepted with.

A check goes by the stricter of both, so that a change cannot pass by loosening the gate that judges it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ctxbench.bench.metrics import FORBIDDEN_OFFERED, Metric
from ctxbench.gate.check_settings import CheckSettings, Pin, Tolerance
from ctxbench.gate.model import Loosened
from ctxbench.gate.pins import pin_text
from ctxbench.gate.snapshots import SelectorSnapshot


def stricter_settings(
    current: CheckSettings, before: CheckSettings, bases: Sequence[SelectorSnapshot]
) -> tuple[CheckSettings, tuple[Loosened, ...]]:
    """The settings with the baseline's where they are looser, and which those are; pins excepted, see `lost_pins`.

    Args:
        current: of the gate file.
        before: those that the baseline was accepted with.
        bases: the snapshots of the baseline: tolerances and allowances may depend on their figures.
    """
    gone = [metric for metric in before.metrics if metric not in current.metrics]
    looser = [
        metric
        for metric in dict.fromkeys([*before.metrics, FORBIDDEN_OFFERED])  # the latter is judged without being named
        if metric not in gone and _is_larger(current.tolerance(metric), before.tolerance(metric), metric, bases)
    ]
    loosened = [Loosened("metrics", str(metric)) for metric in gone]
    loosened += [
        Loosened(f"tolerance of {metric}", str(before.tolerance(metric)), str(current.tolerance(metric)))
        for metric in looser
    ]
    numbers = {
        "confidence": current.confidence > before.confidence,
        "max_lost_required": _allows_more(current, before, bases),
        "repeats": current.repeats < before.repeats,
    }
    stricter = {name: getattr(before, name) for name, is_looser in numbers.items() if is_looser}
    loosened += [Loosened(name, _text(value), _text(getattr(current, name))) for name, value in stricter.items()]
    metrics = (*current.metrics, *gone)
    tolerances = {metric: current.tolerance(metric) for metric in (*metrics, FORBIDDEN_OFFERED)}
    tolerances |= {metric: before.tolerance(metric) for metric in (*gone, *looser)}
    settings = replace(current, metrics=metrics, tolerances=tolerances, seed=before.seed, **stricter)
    return settings, tuple(loosened)


def lost_pins(current: Sequence[Pin], before: Sequence[Pin], renamed: Mapping[str, str]) -> tuple[Pin, ...]:
    """What pins of the baseline demand and no pin of the gate file does any more, a pin for each demand.

    Args:
        current: the pins of the gate file.
        before: those that the baseline was accepted with.
        renamed: ids of items that go on under another id, old to new.
    """
    demands = (replace(demand, line=0) for pin in before for demand in pin.demands())
    return tuple(demand for demand in demands if not any(pin.covers(demand, renamed) for pin in current))


def loosened_pins(lost: Sequence[Pin]) -> Iterator[Loosened]:
    """The pins that are gone or weaker, as loosened settings."""
    return (Loosened("pins", pin_text(pin)) for pin in lost)


def _text(value: float | None) -> str:
    return "default" if value is None else f"{value}"


def _is_larger(current: Tolerance, before: Tolerance, metric: Metric, bases: Sequence[SelectorSnapshot]) -> bool:
    """Whether a tolerance is larger on any dataset; a share and an amount compare by the means of the baseline."""
    if current.relative == before.relative:
        return current.amount > before.amount
    values = [base.metrics[part] for base in bases for part in metric.parts if part in base.metrics]
    means = [float(np.nanmean(column)) for column in values if not np.isnan(column).all()]
    return not means or any(current.of(mean) > before.of(mean) for mean in means)


def _allows_more(current: CheckSettings, before: CheckSettings, bases: Sequence[SelectorSnapshot]) -> bool:
    """Whether more required items may be lost of any selector; the default depends on how many queries need some."""
    needs = [sum(bool(query.required) for query in base.queries.values()) for base in bases]
    return any(current.allowed(need) > before.allowed(need) for need in needs)
