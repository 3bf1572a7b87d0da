"""Selectors that can be tuned: the part that ranks, the part that cuts, and the parameters that can be swept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ctxbench.bench.slices import Slice
from ctxbench.core import registry
from ctxbench.core.errors import ParameterError
from ctxbench.core.pipeline import Pipeline, PipelineError
from ctxbench.core.stages import PerType
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.parameters import Value
from ctxbench.selectors.pipelines import PipelineSelector
from ctxbench.tuning.own_rankings import ExternalRankings
from ctxbench.tuning.query_sets import FullRanking, QuerySet, ask, rank_with_pipeline
from ctxbench.tuning.selector_entry import SelectorEntry
from ctxbench.tuning.sweep.domains import CutReader, Domain, domains_of, fixed_names, parameter_name, step_name
from ctxbench.tuning.sweep.engine_runs import value_range
from ctxbench.tuning.sweep.expansions import STEP as EXPANSION
from ctxbench.tuning.sweep.families import BudgetFamily, CutFamily, FixedK, StandardMargin, ThresholdFamily
from ctxbench.tuning.sweep.threshold_lines import Counts, ThresholdSpan

# Values of whole numbers that are tried where all of them would be too many: with two domains, where every pair of
# lines is compared; beside a budget of tokens; and in cross-validation.
TOP_K = (10, 20, 50, 100)
TOP_N = (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20)
BUDGETS = 20  # of tokens, evenly by ratio
FIRST_N = FixedK("n", range(101))
"""The first n items of a ranking, for every n."""
_CUTS = ("first", "standard", "at_least", "margin")  # a cut that decides how many items are offered


@dataclass(frozen=True, eq=False, kw_only=True)
class Tunable:
    """A selector that can be tuned.

    Attributes:
        entry: as the policy file has it.
        source: where its definition comes from: a shipped name or a path; of answers, the name of their selector.
        definition: its parameters and pipeline; of answers, of the cut that is applied to them.
        answers: the rankings of an external selector; None for a selector of ours.
        start: values of the preset that it is named with, which stand in for its defaults.
    """

    entry: SelectorEntry
    source: str
    definition: Definition
    answers: ExternalRankings | None = None
    start: Mapping[str, Value] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.entry.name

    def values(self, chosen: Mapping[str, Value] | None = None) -> dict[str, Value]:
        """The values of all parameters: the defaults, the preset's, what the file gives, over all what is chosen."""
        return self.definition.with_defaults(self.start, self.entry.set, chosen or {})

    def in_force(self, chosen: Mapping[str, Value]) -> dict[str, Value]:
        """The values that have an effect."""
        return self.definition.in_force(self.values(chosen))

    def pipeline(self, chosen: Mapping[str, Value]) -> Pipeline:
        """The whole selector at one setting."""
        return self.definition.pipeline(self.values(chosen))

    def is_valid(self, chosen: Mapping[str, Value]) -> bool:
        """Whether its steps accept the values."""
        try:
            self.pipeline(chosen)
        except PipelineError:
            return False
        return True

    def rank(self, query_set: QuerySet, chosen: Mapping[str, Value] | None = None) -> FullRanking:
        """Its ranking before any cut, with the defaults, what the file gives, and what is chosen.

        Raises:
            UserError: it fails, or its rankings lack scores.
        """
        if self.answers is not None:
            return self.answers.of(query_set)
        return rank_with_pipeline(self.head(self.pipeline(chosen or {})), query_set)

    def cut(self, full_ranking: FullRanking, chosen: Mapping[str, Value], query_set: QuerySet) -> Slice:
        """What it offers at one setting."""
        if self.answers is None and self.family is None and not (self.domains or self.first_cut):
            # all steps stand behind the search, and may ask what only the analysis knows
            selector = PipelineSelector(self.name, self.pipeline(chosen), query_set.resources, query_set.memo)
            return ask(selector, query_set)[1]
        return full_ranking.cut(self.pipeline(chosen).refine[self.first_cut :], query_set)

    def first_items(self, full_ranking: FullRanking, n: int, query_set: QuerySet) -> Slice:
        """The first n items of its ranking."""
        return full_ranking.cut(
            Pipeline.of({"retrieve": "everything", "refine": [{"first": {"n": n}}]}).refine, query_set
        )

    def head(self, pipeline: Pipeline) -> Pipeline:
        """A pipeline of it up to its first cut."""
        return replace(pipeline, refine=pipeline.refine[: self.first_cut])

    @cached_property
    def first_cut(self) -> int:
        """How many refining steps come before the first that offers less, whatever its parameters are.

        An expansion is one of them where a rank step orders what it added before anything is cut.
        """
        steps, first = self.pipeline({}).refine, 0
        for index, step in enumerate(steps):
            if isinstance(step, PerType) or not (step.kind in ("rank", "expand") or step.name in _ITEMWISE_STEPS):
                break
            if (step.kind != "expand" and first == index) or step.kind == "rank":
                first = index + 1
        return first

    @cached_property
    def family(self) -> CutFamily | None:
        """What is swept exactly; None where the cuts are no chain that offers a prefix of the ranking.

        An expansion behind them is no part of it: `has_expansion` says where one is on.
        """
        steps = [step_name(step) for step in self._refining[self.first_cut :]]
        if EXPANSION in [name for name, _ in steps[-2:]] and steps[-1][0] in (EXPANSION, "budget"):
            steps = [step for step in steps if step[0] != EXPANSION]
        chain = dict(steps)
        if len(chain) != len(steps):
            return None
        cut_family = self._cut(chain)
        budget = chain.pop("budget", None)
        if cut_family is None or chain:
            return None
        if budget is None:
            return cut_family
        if any(self._reader.value(budget.get(name)) for name in ("skip", "session", "frame")):
            return None
        tokens = budget.get("tokens", 2000)
        name = parameter_name(tokens)
        if not name or name in self._fixed_names:
            return BudgetFamily(cut_family, self._reader.counts(tokens))
        if isinstance(cut_family, FixedK):
            parameter = self.definition.parameters[name]
            return BudgetFamily(cut_family, ThresholdSpan(name, float(parameter.low), float(parameter.high)))
        return BudgetFamily(coarsen(cut_family), Counts(name, self.entry.search.get(name) or self._budgets(name)))  # type: ignore[arg-type]

    @property
    def swept_thresholds(self) -> frozenset[str]:
        """The thresholds that are tried at every value that matters."""
        return frozenset(part.name for part in self._swept_parts if isinstance(part, ThresholdSpan) and part.swept)

    @cached_property
    def tried_values(self) -> dict[str, tuple[Value, ...]]:
        """The parameters that are not swept but tried, with their values; empty = there is nothing to try.

        Without a family all `tuned` ones that the file does not give; else those that the file lists.
        """
        if self.family is not None or self.domains:
            return {name: values for name, values in self.entry.search.items() if name not in self.swept_parameters}
        definition, values = self.definition, self.values()
        if not definition.searches(values) and definition.search_switch in self._fixed_names:
            return {}
        free = [parameter for name, parameter in definition.parameters.items() if name not in self._fixed_names]
        listed = self.entry.search
        return {
            parameter.name: listed.get(parameter.name, value_range(parameter))
            for parameter in free
            if parameter.name in listed or (parameter.tuned and parameter.name != definition.search_switch)
        }

    @cached_property
    def domains(self) -> tuple[Domain, ...]:
        """The two domains whose cuts are swept in pairs; empty where it has none."""
        steps = [step_name(step)[0] for step in self._refining[self.first_cut :]]
        if steps != ["by_domain"]:
            return ()
        try:
            domains = domains_of(
                self.definition, topKs=TOP_K, topNs=TOP_N, fixed=self.entry.set, search=self.entry.search
            )
        except ParameterError:
            return ()  # other cuts than those that are swept: settings are tried
        return domains if len(domains) == 2 else ()

    def has_expansion(self, chosen: Mapping[str, Value]) -> bool:
        """Whether an expansion brings items in behind the prefix of the ranking at this setting."""
        values = self.values(chosen)

        def on(written: Mapping[str, Any]) -> bool:
            enabled, depth = written.get("enabled", True), written.get("depth", 1)
            return bool(values.get(parameter_name(enabled), enabled)) and values.get(parameter_name(depth), depth) != 0

        steps = [step_name(step) for step in self.definition.refining(values)[self.first_cut :]]
        return any(name == EXPANSION and on(written) for name, written in steps)

    @property
    def _refining(self) -> list[Any]:
        """The refining steps that are there with what the file gives, as the definition writes them."""
        return self.definition.refining(self.values())

    def varied_parameters(self, chosen: Mapping[str, Value]) -> tuple[str, ...]:
        """The parameters that tuning varies at a setting and that have an effect there, in order."""
        names, values = {*self.swept_parameters, *self.tried_values}, self.values(chosen)
        if self.has_expansion(chosen):
            steps = map(step_name, self.definition.refining(values))
            names |= {
                parameter_name(value) for name, written in steps if name == EXPANSION for value in written.values()
            }
        in_force = self.definition.in_force(values, switches=True)
        return tuple(name for name in in_force if name in names and name not in self._fixed_names)

    @cached_property
    def swept_parameters(self) -> frozenset[str]:
        """The parameters of the exact sweep, fixed ones included; empty where there is none."""
        return frozenset({part.name for part in self._swept_parts} - {""})

    @cached_property
    def _swept_parts(self) -> tuple[Counts | ThresholdSpan, ...]:
        """The parameters of the cuts that are swept, of all domains."""
        families = [self.family] if self.family is not None else [domain.family for domain in self.domains]
        return tuple(part for family in families for part in _parameters(family))

    def is_swept(self, chosen: Mapping[str, Value]) -> bool:
        """Whether a setting is one that the exact sweep evaluates: all else is as without `chosen`."""
        if (self.family is None and not self.domains) or self.has_expansion(chosen):
            return False
        values, before = self.values(chosen), self.values()
        return all(
            values.get(name) == before.get(name)
            or (parameter.sets and self.swept_parameters.issuperset(parameter.sets))
            for name, parameter in self.definition.parameters.items()
            if name not in self.swept_parameters
        )

    @cached_property
    def _fixed_names(self) -> frozenset[str]:
        """The parameters whose value the file gives, itself or by a choice."""
        return fixed_names(self.definition, self.entry.set)

    @cached_property
    def _reader(self) -> CutReader:
        return CutReader(
            definition=self.definition, values=self.values(), fixed=self._fixed_names, search=self.entry.search
        )

    def _budgets(self, name: str) -> tuple[int, ...]:
        """Budgets of tokens over the range of a parameter, and its default."""
        parameter = self.definition.parameters[name]
        low = max(parameter.low, 1.0)
        ratio = (max(parameter.high, low) / low) ** (1 / (BUDGETS - 1))
        budgets = [
            min(max(round(low * ratio**index), int(parameter.low)), int(parameter.high)) for index in range(BUDGETS)
        ]
        return tuple(sorted({*budgets, int(self._reader.value(f"${name}"))}))

    def _cut(self, chain: dict[str, Mapping[str, Any]]) -> CutFamily | None:
        """The family of the cut at the front of a chain, which is taken out of it."""
        first = next(iter(chain), "")
        if first not in _CUTS:
            make_family = (
                getattr(registry.find("cut", first), "family", None) if first in registry.names("cut") else None
            )
            return None if make_family is None else make_family(chain.pop(first), self._reader)
        written = chain.pop(first)
        if first == "first":
            n = self._reader.counts(written.get("n", 5))
            return FixedK(n.name, n.values) if n.name else None
        if first == "margin":
            return ThresholdFamily(
                threshold=self._reader.span(written.get("margin", 0.1)),
                at_least=self._reader.counts(written.get("at_least", 0)),
                at_most=self._reader.counts(written.get("at_most", 20)),
                of=str(self._reader.value(written.get("of", "difference"))),  # type: ignore[arg-type]
            )
        if first == "at_least":
            at_most = written.get("at_most")
            return ThresholdFamily(
                threshold=self._reader.span(written.get("threshold", 0.5)),
                at_least=self._reader.counts(written.get("at_least", 0)),
                at_most=None if at_most is None else self._reader.counts(at_most),
            )
        margin = chain.pop("margin", None)
        if margin is not None and (margin.get("of") != "ratio" or self._reader.value(margin.get("at_least", 0)) != 0):
            return None
        return self._reader.standard_margin(written, margin)


@dataclass(frozen=True, eq=False, kw_only=True)
class ShippedPreset:
    """A preset that comes with ctxbench, and competes with what is tuned.

    Attributes:
        name: as users name it: `learned/normal`.
        tunable: its selector, without values of the policy file.
        values: of its parameters.
    """

    name: str
    tunable: Tunable
    values: Mapping[str, Value]

    def is_setting_of(self, tunable: Tunable, values: Mapping[str, Value]) -> bool:
        """Whether a selector at a setting is this preset."""
        if tunable.answers is not None:
            return False
        return tunable.pipeline(values).describe() == self.tunable.pipeline(self.values).describe()


_ITEMWISE_STEPS = ("abstain", "truncate")  # steps that treat a request or an item alike, whatever is cut behind them


def coarsen(family: CutFamily) -> CutFamily:
    """The same family with fewer whole numbers: topK of `TOP_K`, others of `TOP_N`, or the ones that are given."""
    if isinstance(family, BudgetFamily):
        cut_family = coarsen(family.of)
        return family if isinstance(cut_family, BudgetFamily) else BudgetFamily(cut_family, family.tokens)
    if isinstance(family, ThresholdFamily):
        at_most = None if family.at_most is None else _select_counts(family.at_most, TOP_N)
        return replace(family, at_least=_select_counts(family.at_least, TOP_N[:4]), at_most=at_most)
    if not isinstance(family, StandardMargin):
        return family
    return replace(family, topK=_select_counts(family.topK, TOP_K), topN=_select_counts(family.topN, TOP_N))


def _select_counts(counts: Counts, allowed: Sequence[int]) -> Counts:
    """The allowed ones of the values; all values, where none is allowed or they are few."""
    values = tuple(value for value in counts.values if value in allowed)
    return Counts(counts.name, values) if values and len(counts.values) > len(allowed) else counts


def _parameters(family: CutFamily | None) -> Iterator[Counts | ThresholdSpan]:
    """The parameters of a family."""
    if isinstance(family, FixedK):
        yield Counts(family.n, tuple(family.values))
    for part in vars(family).values() if family is not None else ():
        if isinstance(part, Counts | ThresholdSpan):
            yield part
        elif isinstance(part, CutFamily):
            yield from _parameters(part)
