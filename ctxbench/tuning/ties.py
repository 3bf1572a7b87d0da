"""Equality up to rounding, and which of several equal settings is taken."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.selectors.parameters import Value

SAME = 1e-12
"""Relative difference up to which two means are the same: they may differ by the order in which they were added up."""


def rounding_error(value: float) -> float:
    """How far two values may be apart that are the same up to rounding."""
    return SAME * max(1.0, abs(value))


def precedes(key: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether a key is less than another, parts that are the same up to rounding, or NaN, passed over."""
    for mine, theirs in zip(key, other, strict=True):
        if abs(mine - theirs) > rounding_error(theirs):
            return mine < theirs
    return False


def distance(values: Mapping[str, Value], defaults: Mapping[str, Value]) -> float:
    """The distance of values from defaults, over the parameters that have one."""
    total = 0.0
    for name, default in defaults.items():
        value = values.get(name, default)
        if isinstance(value, str) or isinstance(default, str):
            total += value != default
        else:
            total += abs(value - default) / max(abs(default), 1)
    return total


def most_stable(thresholds: FloatArray, places: IntArray) -> int:
    """Of places with the same means the one with its threshold furthest from those of others; the first of equals."""
    if len(places) == 1:
        return int(places[0])
    others = np.sort(np.delete(thresholds, places))
    if not len(others):
        return int(places[0])
    own = thresholds[places]
    right = np.searchsorted(others, own)
    above = np.where(right < len(others), others[np.minimum(right, len(others) - 1)] - own, math.inf)
    below = np.where(right > 0, own - others[np.maximum(right - 1, 0)], math.inf)
    return int(places[np.minimum(above, below).argmax()])
