"""What `domains.py` finds, as data, and the policies that it finds it by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ctxbench.evaluation.comparisons import AtTokens
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.statistics import Comparison, Estimate
from ctxbench.model.arrays import FloatArray
from ctxbench.selectors.selector import Value
from ctxbench.tuning.policy import Constraint, Of, Policy
from ctxbench.tuning.search import Optimum

HELD = ("tools", "rules")  # the domains, in the order of the definition
MODES = ("aggressive", "normal", "conservative")
TARGETS: Mapping[str, tuple[float, Of]] = {
    "aggressive": (0.9, "base"),
    "normal": (0.98, "base"),
    "conservative": (0.9, "reachable"),
}
C, T = Metric("completeness"), Metric("tokens")
DEFAULTS_NAME, SHARED_BUDGET = "specification's defaults, one domain", "shared budget"
Values = Mapping[str, Value]


def optimum_of(name: str, target: float, base: float, by: str = "bound") -> Optimum:
    """Keeps the fewest prompt tokens with so much completeness, by the bound of its interval or by its mean.

    Args:
        name: of the mode, which says what the target is a share of.
        target: that share.
        base: completeness of the specification's defaults.
        by: `bound` or `mean`.
    """
    of = TARGETS[name][1]
    limit = Constraint(metric=C, at_least=target * base if of == "base" else target, of="" if of == "base" else of)
    return held_by(Optimum(Policy.of(name, minimise=T, constraints=(limit,))), mean=by == "mean")


def held_by(optimum: Optimum, *, mean: bool) -> Optimum:
    """The same, its constraints held by the mean in place of the end of an interval, if so."""
    if mean:
        optimum.limits = tuple(replace(limit, by="mean") for limit in optimum.limits)
    return optimum


def unit_of(name: str, base: float) -> float:
    """What a mode's target counts in."""
    return base if TARGETS[name][1] == "base" else 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Mode:
    """A mode of a domain, on the tuning split; means are those of the two datasets' means.

    Attributes:
        asked, target: what the policy asks for, and what was met.
        values: the parameters.
        complete, tokens: of the domain alone.
        bound: what was compared with the target.
        base: completeness and tokens of the specification's defaults in the domain.
        queries: by dataset, how many need anything of the domain.
    """

    asked: float
    target: float
    values: Values
    complete: float
    tokens: float
    bound: float
    base: tuple[float, float]
    queries: Sequence[int]


@dataclass(frozen=True, eq=False, kw_only=True)
class Measured:
    """One setting on one dataset.

    Attributes:
        needs: by domain, completeness of what requests need of it.
        defaults: against the specification's defaults; None for these.
        gain, p_groups: against one domain at as many tokens, with the p-value by group of requests, both corrected.
    """

    name: str
    dataset: str
    complete: Estimate
    tokens: Estimate
    needs: Mapping[str, Estimate]
    defaults: Comparison | None
    gain: Comparison | None = None
    p_groups: float | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Budgeted:
    """The best within a budget of tokens on the tuning split: completeness of one domain and of two there, then test.

    Attributes:
        times: of the specification's defaults tokens.
        test: two domains against one at the tokens that the former has on the test split.
        gain: the comparison, corrected.
    """

    dataset: str
    times: float
    budget: float
    tuning: tuple[float, float]
    test: AtTokens
    gain: Comparison | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Drawn:
    """Mean tokens and completeness of what was best on the tuning split, measured on a split."""

    dataset: str
    split: str
    one: tuple[FloatArray, FloatArray]
    two: tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False, kw_only=True)
class Page:
    """Everything that the page says.

    Attributes:
        topK, topKs: the value that was chosen, and each value's key: targets lowered by how much, logs of tokens.
        modes, by_mean: the modes by domain and name, by the bound and by the mean.
        shared, pairs: by policy of whole requests, the setting of both domains, and the pair of modes.
        reached: on the test split, by domain (or `both`) and name, what the policy is about with its interval.
        settings: pairs of settings that were compared, by dataset.
        counterparts: of each setting, that of one domain.
    """

    topK: int
    topKs: Mapping[int, tuple[float, float]]
    modes: Mapping[tuple[str, str], Mode]
    by_mean: Mapping[tuple[str, str], Mode]
    shared: Mapping[str, Values]
    pairs: Mapping[str, str]
    reached: Mapping[tuple[str, str], tuple[float, float, float]]
    settings: Sequence[int]
    counterparts: Mapping[str, Values]
    tuning: Sequence[Measured]
    test: Sequence[Measured]
    budgets: Sequence[Budgeted]
