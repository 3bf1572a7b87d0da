"""Nested cross-validation: what choosing by a policy is worth on queries that it was not chosen on, from one split.

Queries are dealt into folds, groups whole. For each fold a setting is chosen on the others, and measured on the fold;
so every query is measured once, under a setting chosen without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ctxbench.arrays import BoolArray, FloatArray, IntArray
from ctxbench.evaluation.calibrating.examples import folds_of
from ctxbench.evaluation.metrics import Metric, mean
from ctxbench.evaluation.stats import LEVEL
from ctxbench.evaluation.sweep.ladders import Ladders
from ctxbench.evaluation.sweep.lines import Family, Keeper, Measure
from ctxbench.evaluation.sweep.reuse import single
from ctxbench.evaluation.sweep.sweeping import sweep
from ctxbench.evaluation.tuning.choosing import Choice, PolicyError, choose
from ctxbench.evaluation.tuning.optima import Optimum, reach_of
from ctxbench.evaluation.tuning.policies import Policy
from ctxbench.selectors.parameters import Value


class Contestant(Protocol):
    """A selector whose settings can be looked at on some of the queries."""

    @property
    def defaults(self) -> Mapping[str, Value]:
        """Values of its parameters to which the one chosen of equals is nearest; may be empty."""
        ...

    @property
    def within(self) -> BoolArray:
        """The queries that the first items of its ranking make complete, shape (n_queries,)."""
        ...

    def look(self, queries: BoolArray, keepers: Sequence[Keeper]) -> None:
        """Show every setting to keepers, measured on the queries where `queries`, shape (n_queries,), is True."""
        ...

    def by_query(self, values: Mapping[str, Value]) -> Mapping[Measure, FloatArray]:
        """Values of every measure at a setting, shape (n_queries,), NaN where it does not apply."""
        ...


@dataclass(frozen=True, eq=False)
class Swept:
    """A selector whose settings are swept.

    Attributes:
        family: which settings there are.
        ladders: of all queries.
        defaults: see `Contestant`.
    """

    family: Family
    ladders: Ladders
    defaults: Mapping[str, Value] = field(default_factory=dict)

    @property
    def within(self) -> BoolArray:
        """What the ladders say."""
        return self.ladders.reachable

    def look(self, queries: BoolArray, keepers: Sequence[Keeper]) -> None:
        """Sweep over some of the ladders."""
        sweep(self.family, self.ladders.only(queries), keepers)

    def by_query(self, values: Mapping[str, Value]) -> Mapping[Measure, FloatArray]:
        """At one setting of the family."""
        return self.family.by_query(self.ladders, values)


@dataclass(frozen=True, eq=False)
class Tried:
    """A selector of which some settings were run.

    Attributes:
        settings: values of the parameters, and values by query by measure, each of shape (n_queries,).
        within, defaults: see `Contestant`.
    """

    settings: Sequence[tuple[Mapping[str, Value], Mapping[Measure, FloatArray]]]
    within: BoolArray
    defaults: Mapping[str, Value] = field(default_factory=dict)

    def look(self, queries: BoolArray, keepers: Sequence[Keeper]) -> None:
        """Sum up some of the queries."""
        for values, by_query in self.settings:
            line = single(values, {measure: each[queries] for measure, each in by_query.items()})
            for keeper in keepers:
                keeper.take(line)

    def by_query(self, values: Mapping[str, Value]) -> Mapping[Measure, FloatArray]:
        """At one of the settings."""
        return next(by_query for known, by_query in self.settings if dict(known) == dict(values))


@dataclass(frozen=True, eq=False, kw_only=True)
class Nested:
    """What choosing by a policy came to on queries that it was not chosen on.

    Attributes:
        values: by measure, of each query under what was chosen without it; NaN where the measure does not apply and
            where nothing was chosen; shape (n_queries,). Empty if nothing was chosen on any fold.
        fold: of each query, shape (n_queries,).
        choices: for each fold what was chosen on the others; its `reason` says why nothing was. A threshold is the
            short one.
        left_out: how many queries nothing was chosen for.
    """

    values: Mapping[Measure, FloatArray]
    fold: IntArray
    choices: tuple[Choice, ...]
    left_out: int

    @property
    def note(self) -> str:
        """What a reader must know of it, as a sentence; empty if something was chosen on every fold."""
        empty = [choice for choice in self.choices if choice.found is None]
        if not empty:
            return ""
        which = "any" if len(empty) == len(self.choices) else f"{len(empty)}"
        what = f"nothing was chosen on {which} of {len(self.choices)} folds, and {self.left_out} of {len(self.fold)}"
        return f"{what} queries are left out: {empty[0].reason}"


@dataclass(frozen=True, eq=False)
class _Part:
    """A fold: its queries, what was chosen without them, and values by query under that; none where nothing was."""

    held: BoolArray
    choice: Choice
    values: Mapping[Measure, FloatArray]


def nested(
    policies: Sequence[Policy],
    contestants: Mapping[str, Contestant],
    *,
    groups: Sequence[str],
    folds: int,
    level: float = LEVEL,
    worth: float = 1.0,
    base: Mapping[Metric, FloatArray] | None = None,
) -> dict[str, Nested]:
    """Choose without each fold in turn, and measure on it.

    Args:
        policies: chosen by, all in one pass over the settings.
        contestants: by name, in order, over the same queries; what is reachable is what the first of them reaches.
        groups: of each query, shape (n_queries,); those of one group stay in one fold (see
            `calibrating.examples.group_of`).
        folds: how many, >= 2; with fewer groups as many as there are groups.
        level: of the intervals.
        worth: see `Optimum`; the same on all folds, which hold whole groups.
        base: values by query of the base, for constraints `of: base`.

    Returns:
        By name of the policy.

    Raises:
        ParameterError: all queries are of one group.
    """
    fold = folds_of(groups, min(folds, max(len(set(groups)), 2)))
    parts: dict[str, list[_Part]] = {policy.name: [] for policy in policies}
    within = next(iter(contestants.values())).within
    for one in range(int(fold.max()) + 1):
        held = fold == one
        means = {metric: mean(values[~held]).value for metric, values in (base or {}).items()}
        optima: dict[str, dict[str, Optimum]] = {policy.name: {} for policy in policies}
        for name, contestant in contestants.items():
            reach = reach_of(within[~held], contestant.within[~held])
            for policy in policies:
                optima[policy.name][name] = Optimum(
                    policy, level=level, base=means, reach=reach, worth=worth, defaults=contestant.defaults
                )
            contestant.look(~held, [optima[policy.name][name] for policy in policies])
        for policy in policies:
            choice = _chosen(policy, optima[policy.name])
            values = {} if choice.found is None else contestants[choice.selector].by_query(choice.found.short)
            parts[policy.name].append(_Part(held, choice, values))
    return {name: _joined(fold, measured) for name, measured in parts.items()}


def _chosen(policy: Policy, optima: Mapping[str, Optimum]) -> Choice:
    """As `choose`; where no setting can meet the policy nothing is chosen."""
    try:
        return choose(policy, optima)
    except PolicyError as error:
        settings = sum(optimum.settings for optimum in optima.values())
        return Choice(selector="", found=None, reason=str(error), needed=None, settings=settings)


def _joined(fold: IntArray, parts: Sequence[_Part]) -> Nested:
    """Every query's values from the one fold that it is in."""
    joined: dict[Measure, FloatArray] = {}
    for part in parts:
        for measure, values in part.values.items():
            joined.setdefault(measure, np.full(len(fold), np.nan))[part.held] = values[part.held]
    left_out = sum(int(part.held.sum()) for part in parts if part.choice.found is None)
    return Nested(values=joined, fold=fold, choices=tuple(part.choice for part in parts), left_out=left_out)
