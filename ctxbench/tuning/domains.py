"""Cuts by domain, and two domains under one token budget.

An item of either domain can meet a requirement. So the pairs of lengths that make a query complete are all pairs at or
above one of a few corners. They are counted as the quadrants of the corners, less the overlaps of neighbours.

Token counts add up over domains; completeness does not. On a line of one domain's settings, a query is offered a given
length from some setting on. So for two lines, the number of complete queries is a cumulative histogram in two
dimensions. Only settings at which it changes are compared; the cheapest of them is the cheapest of all.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from ctxbench.evaluation.metrics import evaluate
from ctxbench.io.errors import Message, ParameterError, check_known, raise_first
from ctxbench.model import registry
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.model.items import Catalog
from ctxbench.model.strategies import Analyses, Merge, PerType, Strategy
from ctxbench.pipelines.pipeline import SECONDS, Pipeline
from ctxbench.pipelines.strategies.cut import fallen
from ctxbench.selectors.definition import Definition, StepForm
from ctxbench.selectors.selector import Value
from ctxbench.tuning.cut_families import BudgetFamily, Cut, CutFamily, FixedK, StandardMargin, ThresholdFamily
from ctxbench.tuning.measures import (
    COMPLETENESS,
    NEVER,
    TOKENS,
    Measure,
    RankedItems,
    Requirements,
    item_types,
    values_of_measures,
)
from ctxbench.tuning.policy import MIN_KEPT, Policy, policy_measures
from ctxbench.tuning.rankings import MeasuredRankings, Part
from ctxbench.tuning.setting_lines import (
    Collector,
    Counts,
    ThresholdLine,
    ThresholdSpan,
    setting_line,
    show_lines,
    tried_parameter,
)

BUDGETS = 20  # number of token budgets to try, in equal ratios


@dataclass(frozen=True, eq=False, kw_only=True)
class CutReader:
    """Reads parameters of cuts in a definition: values, or `$name` of a selector's parameter.

    Attributes:
        definition: of the selector.
        values: the values of its parameters before tuning.
        fixed: the parameters that are not tuned.
        search: by parameter, the whole numbers to try, if not all.
        chunk_counts, item_counts: the numbers of chunk matches and of items to try instead of all.
    """

    definition: Definition
    values: Mapping[str, Value]
    fixed: Collection[str]
    search: Mapping[str, Sequence[Value]]
    chunk_counts: Sequence[int] = ()
    item_counts: Sequence[int] = ()

    def value(self, written: Any) -> Any:
        """The value before tuning."""
        name = parameter_name(written)
        return self.values[name] if name else written

    def counts(self, written: Any, tried: Sequence[int] = ()) -> Counts:
        """A whole number with the values to try; by default all of its range."""
        name = parameter_name(written)
        if not name or name in self.fixed:
            return Counts(name, (int(self.value(written)),))
        parameter = self.definition.parameters[name]
        return Counts(
            name, tuple(map(int, self.search.get(name) or tried or range(int(parameter.low), int(parameter.high) + 1)))
        )

    def span(self, written: Any) -> ThresholdSpan:
        """A threshold, with its range."""
        name = parameter_name(written)
        if not name or name in self.fixed:
            return ThresholdSpan.fixed(name, float(self.value(written)))
        parameter = self.definition.parameters[name]
        return ThresholdSpan(name, float(parameter.low), float(parameter.high))

    def first(self, n: Any) -> FixedK | None:
        """The first n items; None if n has one value."""
        counts = self.counts(n)
        return FixedK(counts.name, counts.values) if counts.name else None

    def standard(self, topK: Any, topN: Any, includeScore: Any) -> StandardMargin:  # noqa: N803 - the specification's
        """The specification's cut."""
        return StandardMargin(
            topK=self.counts(topK, self.chunk_counts),
            topN=self.counts(topN, self.item_counts),
            includeScore=self.span(includeScore),
        )

    def threshold(self, written: Any, *, at_least: Any, at_most: Any, of: Any = "score") -> ThresholdFamily:
        """A threshold on scores, or on their distance to the best score."""
        return ThresholdFamily(
            threshold=self.span(written),
            at_least=self.counts(at_least),
            at_most=None if at_most is None else self.counts(at_most),
            of=self.value(of),
        )

    def within_budget(self, before: CutFamily, tokens: Any) -> BudgetFamily:
        """A budget of tokens behind a family: every budget behind `FixedK`, else `BUDGETS` of them."""
        name = parameter_name(tokens)
        if not name or name in self.fixed:
            return BudgetFamily(before, self.counts(tokens))
        parameter = self.definition.parameters[name]
        if isinstance(before, FixedK):
            return BudgetFamily(before, ThresholdSpan(name, float(parameter.low), float(parameter.high)))
        low = max(parameter.low, 1.0)
        ratio = (max(parameter.high, low) / low) ** (1 / (BUDGETS - 1))
        budgets = {
            min(max(round(low * ratio**index), int(parameter.low)), int(parameter.high)) for index in range(BUDGETS)
        }
        values: Any = self.search.get(name) or sorted({*budgets, int(self.value(tokens))})
        return BudgetFamily(before.coarse(), Counts(name, tuple(values)))

    def family(self, steps: Sequence[Any]) -> CutFamily | None:
        """The family of a chain of cuts, from the strategies of its steps; None if they cannot be swept.

        Args:
            steps: as in a definition.
        """
        family: CutFamily | None = None
        names = [name for name, _ in map(step_name, steps)]
        if len(set(names)) < len(names):
            return None
        for name, written in map(step_name, steps):
            strategy = refining_strategy(name)
            family = (
                getattr(strategy, "family", Strategy.family)(written, self)
                if family is None
                else getattr(strategy, "family_behind", Strategy.family_behind)(family, written, self)
            )
            if family is None:
                return None
        return family


def refining_strategy(name: str) -> Any:
    """The class of a refining strategy; `Strategy` for a combinator."""
    kind = next((kind for kind in registry.REFINE_KINDS if name in registry.names(kind)), "")
    return registry.find(kind, name) if kind else Strategy


def fixed_names(definition: Definition, fixed: Collection[str]) -> frozenset[str]:
    """The given parameters, and those that a choice among them sets."""
    return frozenset({*fixed, *(name for parameter in fixed for name in definition.parameters[parameter].sets)})


def parameter_name(written: Any) -> str:
    """The parameter that a value in a specification names; empty if it is a plain value."""
    return written[1:] if isinstance(written, str) and written.startswith("$") else ""


def step_name(step: Any) -> tuple[str, Mapping[str, Any]]:
    """The name and the parameters of a step of a specification; a step of Python has no name there."""
    if isinstance(step, StepForm):
        return "", step.values
    if isinstance(step, str):
        return step, {}
    name, written = next(iter(step.items()))
    return str(name), written if isinstance(written, Mapping) else {}


@dataclass(frozen=True)
class _SpecWriter:
    """Writes the steps of a pipeline as a specification, and knows the parameters of each by their paths.

    Attributes:
        written: by path, such as `bm25.b`, the parameters of its step, where a value is to be replaced by `$name`.
        swept: by path, the range of a parameter of a cut.
    """

    written: dict[str, dict[str, Any]] = field(default_factory=dict)
    swept: dict[str, tuple[float, float]] = field(default_factory=dict)

    def step(self, step: Any, label: str = "") -> Any:
        """A step or a combinator; `label` is its source, or its item types and its name."""
        if isinstance(step, Analyses):
            return [self.step(part) for part in step.analyses]
        if isinstance(step, Merge):
            seconds = {} if step.seconds is None else {SECONDS: step.seconds}
            return {"merge": {name: self.step(source, name) for name, source in step.sources.items()}, **seconds}
        if isinstance(step, PerType):
            domains = {",".join(types): steps for types, steps in step.domains.items()}
            parts = {key: [self.step(part, f"{key}.{part.name}") for part in steps] for key, steps in domains.items()}
            return {"by_domain": parts}
        if not is_dataclass(step.call):
            return step
        values = registry.parameters(step.call)
        label = label or step.name
        labels = itertools.chain([label], (f"{label}-{n}" for n in itertools.count(2)))  # the second of a name is 2
        label = next(text for text in labels if not any(f"{text}.{name}" in self.written for name in values))
        self.written.update({f"{label}.{name}": values for name in values})
        self.swept.update({f"{label}.{name}": span for name, span in step.declared("swept").items()})
        named = step.name in registry.names(step.kind) and registry.find(step.kind, step.name) is type(step.call)
        return {step.name: values} if named else StepForm(step, values)

    def path(self, name: str) -> str:
        """The path of a parameter.

        Raises:
            UserError: no step has it, or several have.
        """
        paths = [path for path in self.written if path == name or path.endswith(f".{name}")]
        check_known("parameter", name, (paths and [name]) or [*map(last_part, self.written), *self.written])
        raise_first((len(paths) > 1, Message("tuning.parameter-ambiguous", name=name, paths=paths)))
        return paths[0]


def last_part(path: str) -> str:
    """The name of a parameter without its step."""
    return path.rpartition(".")[2]


def definition_of(
    name: str, pipeline: Pipeline, tried: Mapping[str, Any]
) -> tuple[Definition, dict[str, tuple[Value, ...]]]:
    """A definition of a pipeline from Python, and the values of its parameters that are tried.

    Args:
        name: of the definition.
        pipeline: its values are the defaults.
        tried: by name or path of a parameter, such as `b` or `bm25.b`, what `tried_parameter` takes. The parameters of
            cuts need not be named: each is one with the range that its strategy declares (`Strategy.swept`).

    Raises:
        UserError: a parameter is unknown, ambiguous, or has wrong values.
    """
    writer = _SpecWriter()
    spec = {
        "analyse": writer.step(pipeline.analyse),
        "retrieve": writer.step(pipeline.retrieve),
        "refine": [writer.step(step) for step in pipeline.refine],
        "format": writer.step(pipeline.format),
    }
    keys = {writer.path(key): key for key in tried}
    free = [path for path in writer.swept if path not in keys]
    names = Counter(map(last_part, [*keys, *free]))
    keys |= {path: last_part(path) if names[last_part(path)] == 1 else path for path in free}
    parameters, values = {}, {}
    for path, key in keys.items():
        written, part = writer.written[path], last_part(path)
        span = writer.swept.get(path, (0, 0))
        wider = (min(span[0], written[part]), max(span[1], written[part])) if key not in tried else tried[key]
        parameters[key], values[key] = tried_parameter(key, wider, written[part])
        written[part] = f"${key}"
    definition = Definition(name=name, about="", parameters=parameters, spec=spec, presets={}, abouts={}, written=spec)
    return definition, {key: values[key] for key in tried}


@dataclass(frozen=True, eq=False, kw_only=True)
class Domain:
    """Item types with their own cut.

    Attributes:
        types: as in `by_domain`; `*` = all types of no earlier domain.
        family: its cuts.
    """

    types: tuple[str, ...]
    family: StandardMargin | ThresholdFamily


def domain_items(catalog: Catalog, domains: Sequence[tuple[str, ...]]) -> tuple[BoolArray, ...]:
    """By domain, whether each item belongs to it, as in `by_domain`; shape (n_items,) each."""
    types = item_types(catalog)
    free = np.ones(len(types), dtype=np.bool_)
    out = []
    for domain in domains:
        members = free & (np.isin(types, domain) | ("*" in domain))
        free &= ~members
        out.append(members)
    return tuple(out)


def domains_of(
    definition: Definition,
    *,
    topKs: Sequence[int],  # noqa: N803 - the specification's names
    topNs: Sequence[int],  # noqa: N803
    fixed: Mapping[str, Value] | None = None,
    search: Mapping[str, Sequence[Value]] | None = None,
) -> tuple[Domain, ...]:
    """The domains of a selector whose last step is `by_domain`, with cuts `standard` and possibly `margin` in each.

    Args:
        definition: of the selector.
        topKs, topNs: the values to try, for every domain.
        fixed: checked values of parameters that are not tuned; a choice also fixes the parameters that it sets.
        search: by parameter, the whole numbers to try instead.

    Raises:
        ParameterError: its last step is not a `by_domain` of such cuts.
    """
    values = definition.with_defaults(fixed or {})
    last = (definition.refining(values) or [None])[-1]
    blocks = last.get("by_domain") if isinstance(last, Mapping) else None
    if not isinstance(blocks, Mapping):
        raise ParameterError(f"selector {definition.name!r} has no by_domain as its last step")
    tried = search or {}
    reader = CutReader(
        definition=definition,
        values=values,
        fixed=fixed_names(definition, fixed or {}) - tried.keys(),
        search=tried,
        chunk_counts=topKs,
        item_counts=topNs,
    )
    return tuple(
        Domain(
            types=tuple(part.strip() for part in str(key).split(",")),
            family=_family(reader, str(key), steps),
        )
        for key, steps in blocks.items()
    )


def _family(reader: CutReader, key: str, steps: Sequence[Any]) -> StandardMargin:
    """The cut of one domain."""
    family = reader.family(steps)
    if not isinstance(family, StandardMargin):
        raise ParameterError(
            f"by_domain {key}: a domain can only be swept over the cut `standard`, alone or with a `margin` of: ratio "
            "and at_least: 0 behind it"
        )
    return family


Corner = tuple[int, int]


def corners(firsts: Sequence[Corner]) -> list[Corner]:
    """The smallest pairs of lengths that meet all requirements, by rising first and falling second length.

    Args:
        firsts: for each requirement, the length that meets it in the first and in the second domain, `NEVER` if none
            does. Without requirements, the result is (0, 0).
    """
    out: list[Corner] = []
    for first_length in sorted({0, *(first for first, _ in firsts if first < NEVER)}):
        second_length = max((second for first, second in firsts if first > first_length), default=0)
        if second_length < NEVER and (not out or second_length < out[-1][1]):
            out.append((first_length, second_length))
    return out


@dataclass(frozen=True, eq=False)
class Gain:
    """Completeness as weighted quadrants of pairs of lengths, since it does not add up over domains.

    Attributes:
        query: the ranking of each quadrant, shape (n,).
        lengths: the lengths in either domain from which on it counts, shape (2, n).
        weight: 1 or -1, shape (n,). At any pair of lengths, the sum of the weights that count is the number of complete
            queries.
        applies: the number of queries to which the measure applies.
    """

    query: IntArray
    lengths: IntArray
    weight: IntArray
    applies: int


def domain_gain(measure: Measure, required: Requirements, rankings: Sequence[MeasuredRankings]) -> Gain:
    """A measure of completeness as quadrants.

    Args:
        measure: completeness of all queries, of those within reach, or of those that require an item type.
        required: the requirements of the queries.
        rankings: of the two domains.
    """
    queries = rankings[0].reachable if measure.reachable else np.ones(required.items.n, dtype=np.bool_)
    if measure.required_type:
        queries = queries & rankings[0].queries_by_type[measure.required_type]
    firsts = np.stack([required.met_from(domain.items) for domain in rankings]).T.tolist()
    bounds = np.searchsorted(required.query, np.arange(required.items.n + 1)).tolist()
    applies = queries & (required.counts > 0)
    rows = [
        (query, first, second, weight)
        for query in np.flatnonzero(applies).tolist()
        for first, second, weight in _quadrants(firsts[bounds[query] : bounds[query + 1]])
    ]
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Gain(table[:, 0], table[:, 1:3].T, table[:, 3], int(applies.sum()))


def _quadrants(firsts: Sequence[Corner]) -> Iterator[tuple[int, int, int]]:
    """The quadrants of the corners of requirements, with negative ones for the overlaps of neighbours."""
    pairs = corners(firsts)
    for index, (first, second) in enumerate(pairs):
        yield first, second, 1
        if index + 1 < len(pairs):
            yield pairs[index + 1][0], second, -1


_SAME = 1e-12  # relative difference up to which two sums are equal


@dataclass(frozen=True, eq=False, kw_only=True)
class PairFront:
    """The pairs of settings that no other pair beats in cost and gain.

    Attributes:
        cost: sums over queries, rising, shape (n,).
        gain: sums over queries, rising, shape (n,).
        values: the settings, with exact thresholds.
        rounded: the same settings with short decimals that select the same.
        settings: the number of pairs of settings, with all thresholds.
    """

    cost: FloatArray
    gain: FloatArray
    values: tuple[Mapping[str, Value], ...]
    rounded: tuple[Mapping[str, Value], ...]
    settings: int

    def __len__(self) -> int:
        return len(self.cost)


@dataclass(frozen=True, eq=False, kw_only=True)
class _DomainLine:
    """A line of one domain, at the m settings at which a gain changes.

    Attributes:
        line: these settings, from the fewest offered items on, without sums.
        start, end: the values between which a threshold selects the same, shape (m,) each; see `ThresholdLine.beyond`.
        cost: sums over queries, shape (m,).
        first_indices: by gain, for each of its quadrants the first setting at which it counts, 0 to m (never).
        settings: the number of settings of the whole line.
    """

    line: ThresholdLine
    start: FloatArray
    end: FloatArray
    cost: FloatArray
    first_indices: Mapping[Measure, IntArray]
    settings: int

    def values_at(self, index: int, *, short: bool) -> dict[str, Value]:
        """The values of one setting."""
        line = replace(
            self.line,
            thresholds=self.line.thresholds[index : index + 1],
            beyond=(float(self.start[index]), float(self.end[index])),
        )
        return line.rounded_values(0) if short else line.values_at(0)


class _CheapestPairs:
    """The cheapest pair of settings for every gain so far."""

    def __init__(self, max_gain: int) -> None:
        self.cost = np.full(max_gain + 1, np.inf)
        self.at_least = self.cost
        self.where: dict[int, tuple[_DomainLine, int, _DomainLine, int]] = {}

    def add(self, cost: FloatArray, gain: IntArray, first: _DomainLine, second: _DomainLine) -> None:
        """Keep the pairs that are cheaper than all pairs with at least their gain; of equals, the first."""
        rows, columns = np.nonzero(cost < self.at_least[gain])
        if not len(rows):
            return
        costs, gains = cost[rows, columns], gain[rows, columns]
        cheap_first = np.lexsort((np.arange(len(rows)), costs, -gains))
        lowest = np.minimum.accumulate(costs[cheap_first])
        for index in cheap_first[np.append(True, lowest[1:] < lowest[:-1])].tolist():
            gained = int(gains[index])
            if costs[index] < self.cost[gained]:
                self.cost[gained] = costs[index]
                self.where[gained] = (first, int(rows[index]), second, int(columns[index]))
        self.at_least = np.minimum.accumulate(self.cost[::-1])[::-1]


class DomainPair:
    """The two domains of a selector, and every pair of their settings.

    Args:
        rankings: the rankings of both domains together, before their cuts.
        domains: two; parameters of the same name have the same value in both.

    Raises:
        ParameterError: an item of a ranking belongs to none.
    """

    def __init__(self, rankings: MeasuredRankings, domains: Sequence[Domain]) -> None:
        members = domain_items(rankings.items.labels.dataset.catalog, [domain.types for domain in domains])
        if not (members[0] | members[1])[rankings.items.item].all():
            raise ParameterError("an item of a ranking belongs to no domain; add its type, or '*'")
        self.rankings = rankings
        self.domains = tuple(domains)
        self._parts = tuple(rankings.select_items(is_member[rankings.items.item]) for is_member in members)
        self._required = Requirements.of(rankings.items)

    def front(self, gain: Measure, cost: Measure, *, floors: Mapping[Measure, float] | None = None) -> PairFront:
        """The best gain for every cost, over every topK, every topN and every threshold of both domains.

        Args:
            gain: a measure of completeness.
            cost: a measure that adds up over items, such as tokens.
            floors: by measure of completeness, the lowest allowed sum over queries.

        Returns:
            The settings that no other beats, the cheapest first. Of settings with the same cost and gain, that of the
            first line, then the one that offers less in the first domain, then in the second. Empty if no setting keeps
            the floors.

        Raises:
            ParameterError: both domains share a threshold.
        """
        floors = floors or {}
        best: _CheapestPairs | None = None
        settings = 0
        for cuts in self._by_shared():
            for first, second, gains in self._pairs(cuts, list(dict.fromkeys((gain, *floors))), cost):
                best = best or _CheapestPairs(gains[gain].applies)  # the gain if every query has 1
                settings += first.settings * second.settings
                price = self._price(cost, first, second)
                for limit, lower in floors.items():
                    price = np.where(_table(gains[limit], limit, first, second) < lower * (1.0 - _SAME), np.inf, price)
                best.add(price, _table(gains[gain], gain, first, second), first, second)
        return _front(best, settings)

    def by_query(self, values: Mapping[str, Value]) -> dict[Measure, FloatArray]:
        """By measure, the values of every query at one setting, shape (n_queries,); NaN if it does not apply."""
        pairs = zip(self.domains, self._parts, strict=True)
        rankings, prefixes = self.rankings, [domain.family.offered_prefix(part, values) for domain, part in pairs]
        evidence = _offered_items(rankings.items, prefixes).evidence()
        return values_of_measures(
            rankings.measures,
            evaluate(list(dict.fromkeys(measure.metric for measure in rankings.measures)), evidence),
            evidence,
            rankings.items.labels.dataset.catalog,
            by_type=rankings.queries_by_type,
            reachable=rankings.reachable,
        )

    def lines(self, front: PairFront) -> Iterator[ThresholdLine]:
        """The settings of a front, each as a separate line, for collectors that use intervals.

        Each is the cheapest by its sum. A setting with the same gain, a higher sum and a narrower interval is not among
        them, although it may keep a bound on the interval of a cost.
        """
        yield from (
            setting_line(values, self.by_query(values), pairing=self.rankings.pairing) for values in front.rounded
        )

    def _by_shared(self) -> Iterator[tuple[list[Cut], list[Cut]]]:
        """The cuts of both domains, grouped by the values of shared parameters."""
        cuts = [list(domain.family.cuts(part)) for domain, part in zip(self.domains, self._parts, strict=True)]
        names = [{name for cut in side for name in (*cut.values, *_axis_name(cut))} for side in cuts]
        shared = sorted(names[0] & names[1])
        if moves := sorted({name for side in cuts for cut in side for name in _axis_name(cut)} & set(shared)):
            raise ParameterError(
                f"{', '.join(moves)}: a threshold of both domains cannot be swept; give each domain its own parameter"
            )
        for key in dict.fromkeys(tuple(cut.values.get(name) for name in shared) for cut in cuts[0]):
            first, second = (
                [cut for cut in side if tuple(cut.values.get(name) for name in shared) == key] for side in cuts
            )
            if first and second:
                yield first, second

    def _pairs(
        self, cuts: tuple[list[Cut], list[Cut]], counted: Sequence[Measure], cost: Measure
    ) -> Iterator[tuple[_DomainLine, _DomainLine, Mapping[Measure, Gain]]]:
        """All pairs of lines, with the gains of their rankings, which can depend on topK."""

        @cache
        def gains(*rankings: MeasuredRankings) -> dict[Measure, Gain]:
            return {measure: domain_gain(measure, self._required, rankings) for measure in counted}

        @cache
        def side(cut: Cut, index: int, *rankings: MeasuredRankings) -> _DomainLine:
            return _side(cut, gains(*rankings), cost, index)

        for first, second in product(*cuts):
            rankings = (first.rankings, second.rankings)
            yield side(first, 0, *rankings), side(second, 1, *rankings), gains(*rankings)

    def _price(self, cost: Measure, first: _DomainLine, second: _DomainLine) -> FloatArray:
        """Sums of a cost at all pairs of settings; the cost of the session counts once."""
        bare = float(np.nansum(self.rankings.values(cost, np.zeros(self.rankings.n_queries, dtype=np.int64))))
        return first.cost[:, None] + (second.cost - bare)[None, :]


def pair_parts(
    policies: Collection[Policy], base: Mapping[Measure, float], queries_by_type: Mapping[str, BoolArray], _n: int
) -> list[Part]:
    """Parts of a sweep of a `DomainPair`: the fronts of pairs of settings, for every measure that a policy uses.

    The optimum of a policy with one such measure is on its front, since the compared values rise with it. Of pairs with
    equal sums, one is passed. If item types must keep their completeness, the front of the pairs that keep it is passed
    as well.

    Args:
        policies: of the optima.
        base: means of the base by measure.
        queries_by_type: by item type, the queries that require an item of it, shape (n_queries,).
    """
    gains = {COMPLETENESS, *(measure for measure in policy_measures(policies) if measure.metric == COMPLETENESS.metric)}
    floors = {
        measure: MIN_KEPT * mean * float(queries_by_type[measure.required_type].sum())
        for measure, mean in base.items()
        if measure.required_type and not measure.counts
    }
    return [
        partial(_add_front, gain, lower_bounds)
        for gain in sorted(gains)
        for lower_bounds in (({}, floors) if floors else ({},))
    ]


def _add_front(
    gain: Measure,
    floors: Mapping[Measure, float],
    pair: DomainPair,
    collectors: Sequence[Collector[ThresholdLine]],
    progress: Callable[[int], None],
) -> int:
    """Pass the front of a gain to collectors; the number of pairs of settings."""
    front = pair.front(gain, TOKENS, floors=floors)
    show_lines(pair.lines(front), collectors)
    progress(front.settings)
    return front.settings


def _axis_name(cut: Cut) -> tuple[str, ...]:
    return () if cut.axis is None else (cut.axis[0].name,)


def _side(cut: Cut, gains: Mapping[Measure, Gain], cost: Measure, index: int) -> _DomainLine:
    """A line at its first setting, and at the settings from which on a quadrant counts."""
    line = cut.line()
    first_settings = {measure: _settings(cut, line, gain.query, gain.lengths[index]) for measure, gain in gains.items()}
    all_settings = np.concatenate([np.zeros(1, dtype=np.int64), *first_settings.values()])
    matter = np.unique(all_settings[all_settings < len(line)])
    start, end = line.thresholds[matter].copy(), np.append(line.thresholds[1:], line.beyond[1])[matter]
    start[0] = line.beyond[0]
    return _DomainLine(
        line=ThresholdLine(
            values=line.values, axis=line.axis, thresholds=line.thresholds[matter], sums={}, n={}, span=line.span
        ),
        start=start,
        end=end,
        cost=np.asarray(line.sums[cost], dtype=np.float64)[matter],
        first_indices={measure: np.searchsorted(matter, settings) for measure, settings in first_settings.items()},
        settings=len(line),
    )


def _settings(cut: Cut, line: ThresholdLine, query: IntArray, length: IntArray) -> IntArray:
    """The first setting of a line at which each query is offered a length; `len(line)` = never."""
    first = np.where(length <= cut.low[query], 0, len(line)).astype(np.int64)
    moves = np.flatnonzero((length > cut.low[query]) & (length <= cut.high[query]))
    if cut.axis is None or not len(moves):
        return first
    rankings, rises = cut.rankings, cut.axis[0].rises
    key = rankings.score[rankings.items.start[query[moves]] + length[moves] - 1]
    if rises:
        key = -fallen(key, rankings.score[rankings.items.start[query[moves]]], "ratio")
    first[moves] = np.searchsorted(line.thresholds if rises else -line.thresholds, -key, side="left")
    return first


def _table(gain: Gain, name: Measure, first: _DomainLine, second: _DomainLine) -> IntArray:
    """Sums of a gain at all pairs of settings."""
    shape = (len(first.line) + 1, len(second.line) + 1)
    at = first.first_indices[name] * shape[1] + second.first_indices[name]
    table = np.bincount(at, weights=gain.weight, minlength=shape[0] * shape[1]).reshape(shape)[:-1, :-1]
    np.cumsum(table, axis=0, out=table)
    np.cumsum(table, axis=1, out=table)
    return table.astype(np.int64)


def _front(best: _CheapestPairs | None, settings: int) -> PairFront:
    """The pairs that are cheaper than all pairs with more gain, the cheapest first."""
    if best is None:
        return PairFront(cost=np.empty(0), gain=np.empty(0), values=(), rounded=(), settings=settings)
    above = np.append(best.at_least[1:], np.inf)
    gains = [gain for gain in sorted(best.where) if best.cost[gain] < above[gain]]
    pairs = [best.where[gain] for gain in gains]
    values, rounded = (
        tuple(
            {**first.values_at(row, short=short), **second.values_at(column, short=short)}
            for first, row, second, column in pairs
        )
        for short in (False, True)
    )
    return PairFront(
        cost=best.cost[gains],
        gain=np.array(gains, dtype=np.float64),
        values=values,
        rounded=rounded,
        settings=settings,
    )


def _offered_items(items: RankedItems, offered: Sequence[tuple[MeasuredRankings, IntArray]]) -> RankedItems:
    """The first `lengths` items of both domains' rankings, as rankings without other items."""
    first, second = (
        part.items.select_items(part.items.position < lengths[part.items.owner]) for part, lengths in offered
    )
    by_owner = np.argsort(np.concatenate([first.owner, second.owner]), kind="stable")
    return replace(
        items,
        start=first.start + second.start,
        item=np.concatenate([first.item, second.item])[by_owner],
        tokens=np.concatenate([first.tokens, second.tokens])[by_owner],
        enough=np.concatenate([first.enough, second.enough])[by_owner],
    )
