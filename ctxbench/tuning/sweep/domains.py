"""Reads the cuts that a definition writes, by domain where it has several, and the measures of two domains at once.

An item of either domain can meet a requirement. So the pairs of lengths that make a query complete are all those at or
above one of a few corners. Counted once, they are the quadrants of the corners less the overlap of each two neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctxbench.bench.metrics import Grade
from ctxbench.core.arrays import BoolArray, IntArray, owners
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog
from ctxbench.selectors.definition import Definition
from ctxbench.selectors.parameters import Value
from ctxbench.steps.cut import Margin, Standard
from ctxbench.tuning.sweep.families import StandardMargin, ThresholdFamily
from ctxbench.tuning.sweep.measures import NEVER, Measure, Requirements, item_types
from ctxbench.tuning.sweep.metric_values import RankedItems, select_lists
from ctxbench.tuning.sweep.rankings import MeasuredRankings
from ctxbench.tuning.sweep.threshold_lines import Counts, ThresholdSpan


@dataclass(frozen=True, eq=False, kw_only=True)
class CutReader:
    """Reads parameters of cuts as a definition writes them: as values, or as `$name` of a selector's parameter.

    Attributes:
        definition: of the selector.
        values: of all its parameters, where nothing is tuned.
        fixed: the parameters that keep their value.
        search: by parameter, the whole numbers that are tried, where they are not all.
    """

    definition: Definition
    values: Mapping[str, Value]
    fixed: Collection[str]
    search: Mapping[str, Sequence[Value]]

    def value(self, written: Any) -> Any:
        """The value where nothing is tuned."""
        name = parameter_name(written)
        return self.values[name] if name else written

    def counts(self, written: Any, tried: Sequence[int] = ()) -> Counts:
        """A whole number, with those that are tried; without any, all of its range."""
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

    def standard_margin(
        self,
        cut: Mapping[str, Any],
        margin: Mapping[str, Any] | None,
        *,
        topKs: Sequence[int] = (),  # noqa: N803 - the specification's names
        topNs: Sequence[int] = (),  # noqa: N803
    ) -> StandardMargin:
        """The step `standard`, and the step `margin` behind it, if there is one."""
        return StandardMargin(
            topK=self.counts(cut.get("topK", Standard.topK), topKs),
            topN=self.counts(cut.get("topN", Standard.topN), topNs),
            includeScore=self.span(cut.get("includeScore", Standard.includeScore)),
            margin=None if margin is None else self.span(margin.get("margin", Margin.margin)),
            at_most=100 if margin is None else int(self.value(margin.get("at_most", Margin.at_most))),
        )


def fixed_names(definition: Definition, fixed: Collection[str]) -> frozenset[str]:
    """The parameters that have a value, and those that a choice among them sets."""
    return frozenset({*fixed, *(name for parameter in fixed for name in definition.parameters[parameter].sets)})


def parameter_name(written: Any) -> str:
    """The parameter that a value in a specification stands for; empty if it is a value itself."""
    return written[1:] if isinstance(written, str) and written.startswith("$") else ""


def step_name(step: Any) -> tuple[str, Mapping[str, Any]]:
    """The name and the parameters of a step of a specification."""
    if isinstance(step, str):
        return step, {}
    name, written = next(iter(step.items()))
    return str(name), written if isinstance(written, Mapping) else {}


@dataclass(frozen=True, eq=False, kw_only=True)
class Domain:
    """Item types with a cut for them alone.

    Attributes:
        types: as `by_domain` names them; `*` = all that belong to no domain before.
        family: its cuts.
    """

    types: tuple[str, ...]
    family: StandardMargin | ThresholdFamily


def domain_items(catalog: Catalog, domains: Sequence[tuple[str, ...]]) -> tuple[BoolArray, ...]:
    """Which items belong to each domain, as `by_domain` deals them out; shape (n_items,) each."""
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
    """The domains of a selector that refines by domain, with a cut `standard`, and maybe `margin`, in each.

    Args:
        definition: the selector.
        topKs, topNs: the values that are tried, of every domain.
        fixed: checked values of parameters that stay as they are, and with a choice those that it sets.
        search: by parameter, the whole numbers that are tried in place of those.

    Raises:
        ParameterError: its last step is no `by_domain` of such cuts.
    """
    values = definition.with_defaults(fixed or {})
    last = (definition.refining(values) or [None])[-1]
    blocks = last.get("by_domain") if isinstance(last, Mapping) else None
    if not isinstance(blocks, Mapping):
        raise ParameterError(f"selector {definition.name!r} has no by_domain as its last step")
    tried = search or {}
    reader = CutReader(
        definition=definition, values=values, fixed=fixed_names(definition, fixed or {}) - tried.keys(), search=tried
    )
    return tuple(
        Domain(
            types=tuple(part.strip() for part in str(key).split(",")),
            family=_family(reader, str(key), steps, topKs, topNs),
        )
        for key, steps in blocks.items()
    )


def _family(
    reader: CutReader,
    key: str,
    steps: Sequence[Any],
    topKs: Sequence[int],  # noqa: N803 - the specification's names
    topNs: Sequence[int],  # noqa: N803
) -> StandardMargin:
    """The cut of one domain."""
    named = dict(map(step_name, steps))
    if list(named) not in (["standard"], ["standard", "margin"]) or len(named) < len(steps):
        raise ParameterError(f"by_domain {key}: a cut that can be swept is standard, or standard and margin")
    cut, margin = named["standard"], named.get("margin")
    if margin is not None and (margin.get("of") != "ratio" or margin.get("at_least", 0) != 0):
        raise ParameterError(f"by_domain {key}: a margin that can be swept has of: ratio and at_least: 0")
    return reader.standard_margin(cut, margin, topKs=topKs, topNs=topNs)


DOMAIN_METRICS = {
    *("completeness", "recall", "direct_recall", "dependency_recall"),
    *("abstention", "false_inclusion", "forbidden_offered"),
}
"""The metrics that a gain can be made of."""
_MAX_PARTS = 2**20  # parts that a share is counted in, over all queries at most

Corner = tuple[int, int]


def corners(firsts: Sequence[Corner]) -> list[Corner]:
    """The least pairs of lengths that meet all requirements, by rising first and falling second length.

    Args:
        firsts: for each requirement the length that meets it in the one domain and in the other, `NEVER` where none
            does. No requirement: (0, 0).
    """
    out: list[Corner] = []
    for first_length in sorted({0, *(first for first, _ in firsts if first < NEVER)}):
        second_length = max((second for first, second in firsts if first > first_length), default=0)
        if second_length < NEVER and (not out or second_length < out[-1][1]):
            out.append((first_length, second_length))
    return out


@dataclass(frozen=True, eq=False)
class Gain:
    """A measure that does not add up over domains, as weighted quadrants of pairs of lengths.

    Attributes:
        query: the ranking of each quadrant, shape (n,).
        lengths: from which lengths on in either domain it counts, shape (2, n).
        weight: whole numbers, shape (n,); at any pair of lengths the sum of those that count is the measure's sum
            over queries x `scale`.
        scale: by which sums were multiplied.
        constant: a sum that is there before anything is offered, likewise multiplied; less than 0 where the quadrants
            count what is lost.
        applies: to how many queries the measure applies.
    """

    query: IntArray
    lengths: IntArray
    weight: IntArray
    scale: int
    constant: int
    applies: int


def domain_gain(measure: Measure, required: Requirements, rankings: Sequence[MeasuredRankings]) -> Gain:
    """A measure of a metric in `DOMAIN_METRICS` as quadrants.

    Args:
        measure: over all queries that it applies to, or those within reach.
        required: what the queries require.
        rankings: those of the two domains.

    Raises:
        ParameterError: the measure has no such form, or shares of too many different parts.
    """
    queries = rankings[0].reachable if measure.reachable else np.ones(required.items.n, dtype=np.bool_)
    if measure.required_type:
        queries = queries & rankings[0].queries_by_type[measure.required_type]
    name = measure.metric.name
    if name in ("abstention", "false_inclusion"):
        idle = queries & (required.counts == 0) & required.items.complete
        if name == "abstention":
            return _offered(idle, [np.where(domain.sizes > 0, 1, NEVER) for domain in rankings], lost=True)
        return _offered(idle, [_first_useless(domain.items) for domain in rankings])
    if name == "forbidden_offered":
        return _offered(
            queries & _has_forbidden(required.items), [_first_forbidden(domain.items) for domain in rankings]
        )
    firsts = np.stack([required.met_from(domain.items) for domain in rankings]).T.tolist()
    if name == "completeness":
        return _completeness(queries, required, firsts)
    if name in DOMAIN_METRICS:
        direct = required.direct
        counted = {"recall": np.ones_like(direct), "direct_recall": direct}.get(name, ~direct)
        return _recall(measure, counted & queries[required.query], required, firsts)
    raise ParameterError(
        f"{measure} cannot be swept over two domains at once: it neither adds up over them nor counts requirements "
        f"that are met; those that do are {', '.join(sorted(DOMAIN_METRICS))}"
    )


def _completeness(queries: BoolArray, required: Requirements, firsts: Sequence[Corner]) -> Gain:
    bounds = np.searchsorted(required.query, np.arange(required.items.n + 1)).tolist()
    applies = queries & (required.counts > 0)
    rows = [
        (query, first, second, weight)
        for query in np.flatnonzero(applies).tolist()
        for first, second, weight in _quadrants(firsts[bounds[query] : bounds[query + 1]])
    ]
    return _gain(rows, scale=1, applies=int(applies.sum()))


def _recall(measure: Measure, counted: BoolArray, required: Requirements, firsts: Sequence[Corner]) -> Gain:
    """The share of requirements that are met, of those where `counted`, shape (n_requirements,), is True."""
    need = np.bincount(required.query[counted], minlength=required.items.n)
    scale = math.lcm(*np.unique(need[need > 0]).tolist())
    if scale * int((need > 0).sum()) > _MAX_PARTS:
        raise ParameterError(f"{measure} has too many different shares to be swept over two domains at once")
    rows = [
        (int(required.query[group]), first, second, weight * scale // int(need[required.query[group]]))
        for group in np.flatnonzero(counted).tolist()
        for first, second, weight in _quadrants([firsts[group]])
    ]
    return _gain(rows, scale=scale, applies=int((need > 0).sum()))


def _offered(queries: BoolArray, firsts: Sequence[IntArray], *, lost: bool = False) -> Gain:
    """How many queries are offered an item of some kind; or how many are not, if that is what is `lost`.

    Args:
        queries: those that are counted, shape (n_queries,).
        firsts: of either domain, the length from which on such an item is offered, shape (n_queries,).
        lost: whether an offer takes from the measure instead of adding to it.
    """
    rows = [
        (query, first, second, -weight if lost else weight)
        for query in np.flatnonzero(queries).tolist()
        for first, second, weight in _quadrants([(int(firsts[0][query]), int(firsts[1][query]))])
    ]
    n = int(queries.sum())
    return _gain(rows, scale=1, applies=n, constant=n if lost else 0)


def _first_useless(items: RankedItems) -> IntArray:
    """The length from which on an item that is not even helpful is offered, shape (n_queries,)."""
    return _first_length(items, ~(_is_labelled(items, Grade.HELPFUL, Grade.REQUIRED) & items.enough))


def _first_forbidden(items: RankedItems) -> IntArray:
    """The length from which on an item that is labelled irrelevant is offered, shape (n_queries,)."""
    return _first_length(items, _is_labelled(items, Grade.IRRELEVANT))


def _has_forbidden(items: RankedItems) -> BoolArray:
    """Whether an item is labelled irrelevant, shape (n_queries,)."""
    judgments = items.labels.dataset.judgments
    some = owners(judgments.start)[judgments.grade == Grade.IRRELEVANT]
    return np.isin(items.query, some)


def _is_labelled(items: RankedItems, *grades: Grade) -> BoolArray:
    """Whether each ranked item has a label of these grades, shape (n_ranked,)."""
    judgments, width = items.labels.dataset.judgments, items.n_catalog
    start, label = select_lists(judgments.start, items.query)
    keys = (owners(start) * width + judgments.item[label])[np.isin(judgments.grade[label], grades)]
    return np.isin(items.owner * width + items.item, keys)


def _first_length(items: RankedItems, wrong: BoolArray) -> IntArray:
    """The length from which on one of the ranked items that are `wrong`, shape (n_ranked,), is offered."""
    first = np.full(items.n, NEVER, dtype=np.int64)
    np.minimum.at(first, items.owner[wrong], items.position[wrong] + 1)
    return first


def _quadrants(firsts: Sequence[Corner]) -> Iterator[tuple[int, int, int]]:
    """The quadrants of the corners of requirements, and less each overlap of two neighbours."""
    pairs = corners(firsts)
    for index, (first, second) in enumerate(pairs):
        yield first, second, 1
        if index + 1 < len(pairs):
            yield pairs[index + 1][0], second, -1


def _gain(rows: Sequence[tuple[int, int, int, int]], *, scale: int, applies: int, constant: int = 0) -> Gain:
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Gain(table[:, 0], table[:, 1:3].T, table[:, 3], scale, constant, applies)
