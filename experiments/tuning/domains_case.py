"""Rankings of one split for `domains.py`, and what settings of one domain and of two are worth on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from one_domain import restrict_to_domain

from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.comparisons import AtTokens, Curve, at_equal_tokens
from ctxbench.model.arrays import BoolArray, FloatArray
from ctxbench.model.candidates import Candidates
from ctxbench.search.resources import LocalResources
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.selector import Value
from ctxbench.tuning.cut_families import StandardMargin, sweep
from ctxbench.tuning.domains import Domain, DomainPair, domain_items, domains_of
from ctxbench.tuning.measures import COMPLETENESS, TOKENS, Measure
from ctxbench.tuning.policy import Constraint, Of, Policy, policy_measures
from ctxbench.tuning.rankings import MeasuredRankings
from ctxbench.tuning.results import FullRanking, QuerySet, rank_with_pipeline
from ctxbench.tuning.search import Optimum
from ctxbench.tuning.setting_lines import Counts, Front, ThresholdSpan, measure_answers

ROOT = Path(__file__).parents[2]
DOMAINS = ("tools", "rules")  # in the order of the definition
MODES = ("aggressive", "normal", "conservative")
TARGETS: Mapping[str, tuple[float, Of]] = {
    "aggressive": (0.9, "base"),
    "normal": (0.98, "base"),
    "conservative": (0.9, "reachable"),
}
"""The share that a mode keeps, of the completeness of the specification's defaults or of the first 20 items."""
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
    limit = Constraint(
        metric=COMPLETENESS.metric, at_least=target * base if of == "base" else target, of="" if of == "base" else of
    )
    return held_by(Optimum(Policy.of(name, minimise=TOKENS.metric, constraints=(limit,))), mean=by == "mean")


def held_by(optimum: Optimum, *, mean: bool) -> Optimum:
    """The same, its constraints held by the mean in place of the end of an interval, if so."""
    if mean:
        optimum.limits = tuple(replace(limit, by="mean") for limit in optimum.limits)
    return optimum


ONE, TWO = definition("semantic"), definition("semantic-domains")
DEFAULTS = ONE.values("spec")
TOPKS, TOPNS = (20, 30, 50, 100), tuple(range(51))
STEPS = np.linspace(0.0, 1.0, 201)  # of a threshold along a curve
POWERS = policy_measures([optimum_of(mode, TARGETS[mode][0], 1.0).policy for mode in MODES])
FAMILY = StandardMargin(
    topK=Counts("contextTopK", TOPKS),
    topN=Counts("contextTopN", TOPNS),
    includeScore=ThresholdSpan("contextIncludeScore", 0.0, 1.0),
    margin=ThresholdSpan("contextMargin", 0.0, 1.0),
)
ByQuery = Mapping[Measure, FloatArray]


def domains(topKs: Sequence[int]) -> tuple[Domain, ...]:  # noqa: N803 - the documents' name
    """Tools, and all else."""
    return domains_of(TWO, topKs=topKs, topNs=TOPNS)


@dataclass(frozen=True, eq=False)
class Case:
    """One split of a dataset, and the whole ranking of `semantic`."""

    side: QuerySet
    full_ranking: FullRanking

    @classmethod
    def of(cls, name: str, split: str, resources: LocalResources) -> Case:
        """Open it and search."""
        part = open_dataset(str(ROOT / "datasets" / name), base=ROOT).split(split).judged()
        side = QuerySet(part, split, resources.tokens(part.catalog), resources)
        return cls(side, rank_with_pipeline(replace(ONE.pipeline(DEFAULTS), refine=()), side))

    @cached_property
    def rankings(self) -> MeasuredRankings:
        """Of all items."""
        return MeasuredRankings.of(self.full_ranking.answers.candidates, self.side.labels, list(POWERS), powers=POWERS)

    def of_domain(self, index: int) -> MeasuredRankings:
        """Of the items of one domain, as if there were no other."""
        domain = restrict_to_domain(self.full_ranking.answers.candidates, self.side.labels, self._members[index])
        return MeasuredRankings.of(*domain, list(POWERS), powers=POWERS)

    @cached_property
    def shared(self) -> DomainPair:
        """Of both domains."""
        return DomainPair(self.rankings, domains(TOPKS))

    @cached_property
    def _members(self) -> tuple[BoolArray, ...]:
        return domain_items(self.side.dataset.catalog, [domain.types for domain in domains(TOPKS)])

    def offered(self, selector: Definition, values: Values) -> Candidates:
        """What the engine offers at a setting."""
        return self.full_ranking.cut(selector.pipeline(selector.with_defaults(values)).refine, self.side).candidates

    def values(self, offered: Candidates, index: int | None = None) -> ByQuery:
        """Completeness and tokens by query: of all that is needed, or of what is needed of one domain."""
        labels = self.side.labels
        part = (offered, labels) if index is None else restrict_to_domain(offered, labels, self._members[index])
        return measure_answers(*part, [COMPLETENESS, TOKENS])

    def against(self, values: ByQuery, base: Values) -> AtTokens:
        """What two domains offer, against one domain at as many tokens."""
        groups = np.unique(self.side.groups, return_inverse=True)[1].astype(np.int64)
        return at_equal_tokens(values[COMPLETENESS], values[TOKENS], self._curve(base), groups=groups)

    def _curve(self, values: Values) -> Curve:
        """A setting of one domain, turned down to nothing and up to topN 50 or all of topK, each within the next."""
        topN = int(values["contextTopN"])  # noqa: N806
        if float(values["contextMargin"]) < 1:
            turned = [{"contextTopN": topN, "contextMargin": step} for step in STEPS.tolist()]
            turned += [{"contextTopN": n} for n in range(topN, TOPNS[-1] + 1)]
        else:
            turned = [{"contextTopN": n} for n in range(topN)]
            turned += [{"contextIncludeScore": step} for step in STEPS[::-1].tolist()]
        none = np.zeros(len(self.side), dtype=np.int64)
        settings: list[ByQuery] = [{each: self.rankings.values(each, none) for each in (COMPLETENESS, TOKENS)}]
        loose = {"contextIncludeScore": 1.0, "contextMargin": 1.0}
        settings += [FAMILY.by_query(self.rankings, {**values, **loose, **step}) for step in turned]
        return Curve(*(np.stack([by_query[measure] for by_query in settings]) for measure in (COMPLETENESS, TOKENS)))


@dataclass(frozen=True, eq=False)
class Fronts:
    """Settings that nothing beats on the tuning split of a dataset: of one domain, and of two."""

    one: Sequence[Values]
    two: Sequence[Values]

    @classmethod
    def of(cls, case: Case) -> Fronts:
        """All settings compared, exactly."""
        kept = Front(cost=TOKENS, gain=COMPLETENESS)
        sweep(FAMILY, case.rankings, [kept])
        return cls(kept.values, case.shared.front(COMPLETENESS, TOKENS).rounded)

    def means(self, case: Case) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """Mean tokens and mean completeness of the settings of one domain, and of those of two."""
        one = [FAMILY.by_query(case.rankings, values) for values in self.one]
        two = [case.shared.by_query(values) for values in self.two]
        return _means(one), _means(two)


def _means(settings: Sequence[ByQuery]) -> tuple[FloatArray, FloatArray]:
    tokens, complete = (
        np.array([np.nanmean(by_query[measure]) for by_query in settings]) for measure in (TOKENS, COMPLETENESS)
    )
    return tokens, complete


def documents(cases: Sequence[Case], index: int | None = None) -> tuple[float, float]:
    """Completeness and tokens of the specification's defaults, each the mean of the datasets' means."""
    values = [case.values(case.offered(ONE, DEFAULTS), index) for case in cases]
    complete, tokens = (
        float(np.mean([np.nanmean(by_query[measure]) for by_query in values])) for measure in (COMPLETENESS, TOKENS)
    )
    return complete, tokens


def mean_tokens(cases: Sequence[Case], selector: Definition, values: Values) -> float:
    """Of a setting, the mean of the datasets' means."""
    return float(np.mean([np.nanmean(case.values(case.offered(selector, values))[TOKENS]) for case in cases]))
