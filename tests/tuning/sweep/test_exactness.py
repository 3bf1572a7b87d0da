"""The sweep equals running the selector: at its thresholds, between them and at the ends of the range; all metrics.

Set CTXBENCH_EXAMPLES for more draws than `make test` has time for.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.answers import Labels, Slice
from ctxbench.evaluation.metrics import METRICS, Metric, evaluate
from ctxbench.model import registry
from ctxbench.model.candidates import Candidates, Mode, Origin
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Query, Request, SessionItem
from ctxbench.tuning.cut_families import BudgetFamily, FixedK, StandardMargin, ThresholdFamily
from ctxbench.tuning.measures import DifferenceSums, Measure, Pairing
from ctxbench.tuning.rankings import MeasuredRankings
from ctxbench.tuning.setting_lines import Counts, ThresholdLine, ThresholdSpan

PROPERTY, WIDER = (
    settings(
        max_examples=n, deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )
    for n in (int(os.environ.get("CTXBENCH_EXAMPLES", "12")), int(os.environ.get("CTXBENCH_EXAMPLES", "25")))
)
CATALOG = Catalog(
    [
        *(Item(type="tool", name=f"get_weather_{i}", server="sky", description="Weather.") for i in range(3)),
        *(Item(type="tool", name=f"send_mail_{i}", server="post", description="Mail.") for i in range(3)),
        Item(type="tool", name="get_weather_0", server="post", description="Weather by mail."),
        *(Item(type="rule", name=f"rule {i}", text="Always.") for i in range(2)),
        Item(type="skill", name="mail", description="Mails.", text="How to. " * 9),
    ]
)
TOKENS = np.array([10, 0, 7, 25, 7, 3, 100, 40, 1, 2], dtype=np.int64)
SET = [
    Metric(name)
    for name, declared in METRICS.items()
    if declared.cutoff == "none" and "model_use" not in declared.needs  # what a step cost, no cut changes
]
COMPLETE, ITEMS = Metric("completeness"), Metric("items")
MEASURES = [
    *(*map(Measure, SET), Measure(COMPLETE, reachable=True), Measure(Metric("recall"), True)),
    *(Measure(COMPLETE, required_type="rule"), Measure(COMPLETE, reachable=True, required_type="tool")),
    *(Measure(ITEMS, required_type="rule"), Measure(ITEMS, required_type="tool"), Measure(ITEMS, required_type="file")),
]
PAIRED = [Measure(COMPLETE), Measure(Metric("recall")), Measure(Metric("tokens"))]
POWERS = {Measure(Metric("tokens")): 3, Measure(Metric("recall")): 2}
SCORES = [-0.25, 0.0, 0.1, 0.3, 0.30000000000000004, 0.5, 0.7, 0.9, 1.0, 1.25]


@dataclass(frozen=True)
class Case:
    """Rankings and the labels that they are held against."""

    labels: Labels
    table: Candidates
    measured: dict[tuple[bytes, ...], dict[Measure, np.ndarray]] = field(default_factory=dict, repr=False)

    @cached_property
    def requirements(self) -> list[list[set[int]]]:
        """By query, the items that meet each of its requirements."""
        found = []
        for query in self.labels.dataset.queries:
            groups: dict[str, set[int]] = {}
            for label in self.labels.dataset.labels:
                if label.query == query.id and label.grade == 2 and not query.partly_labelled:
                    item = CATALOG.position(label.item)
                    groups.setdefault(label.alternatives or f"only {item}", set()).add(item)
            found.append(list(groups.values()))
        return found

    @cached_property
    def within(self) -> np.ndarray:
        """Whether each query is complete with the first items of its whole ranking."""
        depth = Metric("Comp", 20)
        return evaluate([depth], self.labels.evidence(answers(self, self.table)))[depth] == 1


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to five queries: ties, empty rankings, scores of 0 and less, several chunks an item, sessions, lists."""
    queries, labels = [], []
    rows: list[tuple[int, int, float, int, int]] = []
    ranks = draw(st.sampled_from(["by score", "any", "none"]))
    for number in range(draw(st.integers(0, 5))):
        items = draw(st.permutations(range(len(CATALOG))))
        available = sorted(items[: draw(st.integers(0, len(items)))])
        held = draw(st.lists(st.sampled_from(items), max_size=2, unique=True))
        found = [item for item in available if item not in held and draw(st.integers(0, 4))]
        scores = [draw(st.sampled_from(SCORES)) for _ in found]
        order = sorted(range(len(found)), key=lambda i: (-scores[i], found[i]))
        chunk = -1
        for i in order:
            chunk += draw(st.integers(1, 3)) if ranks == "by score" else 0
            rank = chunk if ranks == "by score" else draw(st.integers(0, 9)) if ranks == "any" else -1
            rows.append((number, found[i], scores[i], rank, int(Origin.SEARCH)))
        rows += [(number, item, math.nan, -1, int(Origin.SESSION)) for item in held]
        own = draw(st.lists(st.sampled_from(items), max_size=6, unique=True))
        grades = [draw(st.integers(0, 2 if item in {*available, *held} else 1)) for item in own]
        groups = [draw(st.sampled_from(["", "one", "two"])) if grade == 2 else "" for grade in grades]
        for item, grade, group in zip(own, grades, groups, strict=True):
            via = draw(st.sampled_from(["direct", "dependency"]))
            several = group if groups.count(group) > 1 else ""
            quote = CATALOG[item].prompt_text[:1] if draw(st.booleans()) else ""
            labels.append(Label(f"q{number}", CATALOG[item].key, grade, via, several, quote=quote))
        needs = 2 in grades
        request = Request(
            id=f"q{number}",
            text="?",
            available=tuple(CATALOG[item].key for item in available),
            session=tuple(SessionItem(CATALOG[item].key) for item in held),
        )
        partly = draw(st.integers(0, 3)) == 3
        query = DatasetQuery(
            request=request, split="tuning", needs_nothing=not (needs or partly), partly_labelled=partly
        )
        queries.append(query)
    dataset = Dataset(name="drawn", version="1", catalog=CATALOG, queries=tuple(queries), labels=tuple(labels))
    request, item, score, rank, origin = (np.array(column) for column in zip(*rows, strict=True)) if rows else [[]] * 5
    table = Candidates.build(
        len(queries),
        np.asarray(request, dtype=np.int64),
        np.asarray(item, dtype=np.int64),
        score=np.asarray(score, dtype=np.float64),
        chunk_rank=np.asarray(rank, dtype=np.int64),
        origin=np.asarray(origin, dtype=np.int64),
        mode=np.where(np.asarray(origin) == Origin.SESSION, Mode.ALWAYS, Mode.AGENT),
    )
    if draw(st.booleans()):  # some show their first two characters, which may be all that is needed
        part = np.array([draw(st.booleans()) for _ in rows], dtype=np.bool_)
        tokens = np.array([draw(st.integers(0, 9)) for _ in range(int(part.sum()))], dtype=np.int64)
        table = table.showing(part, 0 * tokens, 0 * tokens + 2, tokens)
    return Case(Labels.of(dataset, TOKENS, lambda texts: np.array([len(text) for text in texts])), table)


class Tokens:
    """What the step `budget` counts with."""

    def tokens(self, catalog: Catalog, items=None) -> np.ndarray:
        return TOKENS


def run(case: Case, steps: Sequence[tuple[str, dict[str, Any]]]) -> dict[Measure, np.ndarray]:
    """The selector itself: registered steps one behind the other, then the metrics of what they offer, by query."""
    batch = case.labels.dataset.batch()
    query = Query.of_chunks(batch, [["?"]] * len(batch))
    table = case.table
    for name, parameters in steps:
        table = registry.build(registry.refine_kind(name), name, parameters)(query, table, Tokens())
    parts = (table.request, table.item, table.score, table.chosen, table.shown_from, table.shown_to, table.tokens)
    offered = tuple(part.tobytes() for part in parts)
    if offered not in case.measured:  # the same is offered at many settings
        case.measured[offered] = measure(case, table)
    return case.measured[offered]


def measure(case: Case, table: Candidates) -> dict[Measure, np.ndarray]:
    values = evaluate(SET, case.labels.evidence(answers(case, table)))
    found = {}
    for one in MEASURES:
        own = required_of(case, table, one.required_type) if one.counts else values[one.metric]
        own = np.where(needs(case, one.required_type), own, np.nan) if one.required_type else own
        found[one] = np.where(case.within, own, np.nan) if one.reachable else own
    return found


def typed(groups: list[set[int]], name: str) -> list[set[int]]:
    return [group for group in groups if any(CATALOG[item].type == name for item in group)]


def needs(case: Case, name: str) -> np.ndarray:
    return np.array([bool(typed(groups, name)) for groups in case.requirements], dtype=bool)


def required_of(case: Case, table: Candidates, name: str) -> np.ndarray:
    """How many requirements with an item of the type are met, one query after the other."""
    quoted = {(label.query, label.item) for label in case.labels.dataset.labels if label.quote}
    rows: list[set[int]] = [set() for _ in range(table.n_requests)]
    for row in np.flatnonzero(table.chosen).tolist():
        query, item = int(table.request[row]), int(table.item[row])
        if table.shows_all[row] or (f"q{query}", CATALOG[item].key) in quoted:
            rows[query].add(item)
    pairs = zip(rows, case.requirements, strict=True)
    return np.array([float(sum(bool(group & row) for group in typed(groups, name))) for row, groups in pairs])


def pairing_of(case: Case) -> Pairing:
    """A base that offers the first item of every ranking, and queries in groups of two."""
    values = run(case, [("first", {"n": 1})])
    return Pairing(base={one: values[one] for one in PAIRED}, group=np.arange(len(case.labels.dataset)) // 2)


def same_differences(
    found: DifferenceSums, place: int, expected: np.ndarray, base: np.ndarray, group: np.ndarray
) -> None:
    """Against sums by group, one group after the other."""
    away = expected - base
    known = ~np.isnan(away)
    sums = [away[known & (group == one)].sum() for one in np.unique(group[known])]
    sizes = [float((known & (group == one)).sum()) for one in np.unique(group[known])]
    assert found.total[place] == pytest.approx(sum(sums), abs=1e-9)
    assert found.squares[place] == pytest.approx(sum(one**2 for one in sums), abs=1e-9)
    assert found.weighted[place] == pytest.approx(sum(a * b for a, b in zip(sums, sizes, strict=True)), abs=1e-9)
    assert (found.n, found.groups, found.sizes) == (known.sum(), len(sums), sum(size**2 for size in sizes))


def answers(case: Case, table: Candidates) -> Slice:
    queries = tuple(query.id for query in case.labels.dataset.queries)
    none = np.zeros(len(queries))
    return Slice(
        queries=queries,
        chunks=((),) * len(queries),
        candidates=table,
        ranked=True,
        scored=True,
        errors={},
        seconds=none,
    )


def settings_of(line: ThresholdLine) -> Iterator[tuple[int, float]]:
    """Thresholds of a line and values between them that give the same, each with the place whose sums it must have."""
    if not line.axis:
        yield 0, math.nan
        return
    ends = [*line.thresholds.tolist(), line.span[1] if line.thresholds[0] == line.span[0] else line.span[0]]
    for place, (one, next_one) in enumerate(itertools.pairwise(ends)):
        yield place, one
        middle = one + (next_one - one) / 2
        if middle not in (one, next_one):
            yield place, float(int(middle)) if line.is_integer else middle
    yield len(line) - 1, ends[-1]  # the end of the range


def same(found: float, expected: np.ndarray, measure: Measure) -> None:
    """Counts are equal, other sums as near as a mean is."""
    exact = math.fsum(expected[~np.isnan(expected)].tolist())
    if measure.metric.declaration.scale in ("yes/no", "amount"):
        assert found == exact, measure
    else:
        assert found == pytest.approx(exact, rel=1e-12, abs=1e-15), measure


def check(case: Case, family: Any, steps: Any) -> None:
    """Every setting of every line, and values by query at it."""
    pairing = pairing_of(case)
    rankings = MeasuredRankings.of(case.table, case.labels, MEASURES, powers=POWERS).with_base(pairing)
    fixed = []
    for line in family.lines(rankings):
        fixed.append(tuple(line.values.items()))
        assert (np.diff(line.thresholds) < 0).all() or (np.diff(line.thresholds) > 0).all()
        selections = []
        for place, value in settings_of(line):
            setting = {**line.values, **({line.axis: int(value) if line.is_integer else value} if line.axis else {})}
            expected = run(case, steps(setting))
            by_query = family.by_query(rankings, setting)
            for measure, values in expected.items():
                np.testing.assert_array_equal(by_query[measure], values)
                same(line.sums[measure][place], values, measure)
                n = line.applies[measure][place] if measure in line.applies else line.n[measure]
                assert n == (~np.isnan(values)).sum(), measure
            for measure in PAIRED:
                paired = (expected[measure], pairing.base[measure], pairing.group)
                same_differences(line.differences[measure], place, *paired)
            tokens, recall = Measure(Metric("tokens")), Measure(Metric("recall"))
            assert line.squares[tokens][place] == np.nansum(expected[tokens] ** 2)
            assert line.cubes[tokens][place] == np.nansum(expected[tokens] ** 3)
            assert line.squares[recall][place] == pytest.approx(np.nansum(expected[recall] ** 2), rel=1e-12)
            selections.append((place, family.offered_prefix(rankings, setting)[1].tolist()))
        for (place, one), (other, two) in itertools.pairwise(selections):
            assert (one == two) == (place == other), "each selection once"
            assert (np.array(one) <= two).all(), "from what offers fewest to what offers most"
        for place in range(len(line)):
            short = line.rounded_values(place) if line.axis else dict(line.values)
            np.testing.assert_array_equal(
                family.offered_prefix(rankings, short)[1], family.offered_prefix(rankings, line.values_at(place))[1]
            )
    assert len(set(fixed)) == len(fixed), "no two lines are of the same parameters"


def first(values: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [("first", {"n": values["n"]})]


def standard(values: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [("standard", {"topK": values["K"], "topN": values["N"], "includeScore": values["s"]})]


def margin(values: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    own = {"margin": values["m"], "of": "ratio", "at_least": 0, "at_most": 100}
    return [*standard(values), ("margin", own)]


def margin_alone(of: str) -> Any:
    def steps(values: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        own = {"margin": values["m"], "of": of, "at_least": values.get("low", 0), "at_most": values.get("high", 100)}
        return [("margin", own)]

    return steps


def at_least(values: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    own = {"threshold": values["p"], "at_least": values.get("low", 0), "at_most": values.get("high")}
    return [("at_least", own)]


def budget(steps: Any) -> Any:
    return lambda values: [*steps(values), ("budget", {"tokens": values["B"]})]


K, N = Counts("K", (0, 3, 20)), Counts("N", (0, 2))
OPEN, WIDE = ThresholdSpan("s", 0.0, 1.0), ThresholdSpan("s", -1.0, 2.0)


@WIDER
@given(cases())
def test_the_first_n(case: Case) -> None:
    check(case, FixedK("n", range(5)), first)


@pytest.mark.essential
@WIDER
@given(cases(), st.sampled_from([OPEN, WIDE, ThresholdSpan("s", 0.3, 0.7), ThresholdSpan.fixed("s", 0.5)]))
def test_the_standard_cut(case: Case, score: ThresholdSpan) -> None:
    check(case, StandardMargin(K, N, score), standard)


@PROPERTY
@given(
    cases(),
    st.sampled_from([OPEN, ThresholdSpan.fixed("s", 0.5)]),
    st.sampled_from([(0.0, 1.0), (0.1, 0.6), (0.4, 0.4)]),
)
def test_the_standard_cut_with_a_margin(case: Case, score: ThresholdSpan, ends: tuple[float, float]) -> None:
    check(case, StandardMargin(K, N, score, ThresholdSpan("m", *ends)), margin)


@PROPERTY
@given(
    cases(),
    st.sampled_from([ThresholdSpan("p", 0.0, 1.0), ThresholdSpan("p", 0.3, 0.9), ThresholdSpan.fixed("p", 0.3)]),
)
def test_at_least_a_probability(case: Case, threshold: ThresholdSpan) -> None:
    check(case, ThresholdFamily(threshold), at_least)
    check(case, ThresholdFamily(threshold, Counts("low", (0, 2)), Counts("high", (1, 3))), at_least)


@PROPERTY
@given(cases(), st.sampled_from(["difference", "ratio"]), st.sampled_from([(0.0, 1.0), (0.2, 0.6), (0.4, 0.4)]))
def test_a_margin_alone(case: Case, of: Literal["difference", "ratio"], ends: tuple[float, float]) -> None:
    wide = (ends[0], 1.5) if of == "difference" and ends == (0.0, 1.0) else ends  # from -0.25 to 1.25
    check(case, ThresholdFamily(ThresholdSpan("m", *wide), of=of), margin_alone(of))
    check(
        case,
        ThresholdFamily(ThresholdSpan("m", *wide), Counts("low", (0, 2)), Counts("high", (1, 3)), of),
        margin_alone(of),
    )


@PROPERTY
@given(cases())
def test_a_budget_on_top(case: Case) -> None:
    budgets = Counts("B", (0, 7, 17, 60))
    check(case, BudgetFamily(FixedK("n", range(5)), budgets), budget(first))
    check(case, BudgetFamily(StandardMargin(K, Counts("N", (2,)), OPEN), budgets), budget(standard))


@PROPERTY
@given(cases(), st.sampled_from([(0.0, 1.0), (0.1, 0.6), (0.4, 0.4)]))
def test_a_budget_on_top_of_a_margin(case: Case, ends: tuple[float, float]) -> None:
    cut = StandardMargin(K, N, OPEN, ThresholdSpan("m", *ends))
    check(case, BudgetFamily(cut, Counts("B", (0, 17, 60))), budget(margin))


@PROPERTY
@given(cases())
def test_expansion_at_depth_0_leaves_the_sweep_as_it_is(case: Case) -> None:
    def steps(values: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        return [*standard(values), ("expansion", {"depth": 0, "by": "both"})]

    check(case, StandardMargin(K, Counts("N", (2,)), OPEN), steps)
    check(case, BudgetFamily(StandardMargin(K, Counts("N", (2,)), OPEN), Counts("B", (7, 60))), budget(steps))


@pytest.mark.essential
@PROPERTY
@given(cases(), st.sampled_from([(0, 200), (5, 30)]))
def test_every_budget(case: Case, ends: tuple[int, int]) -> None:
    swept = ThresholdSpan("B", *ends)
    check(case, BudgetFamily(FixedK("n", range(5)), swept), budget(first))
    check(case, BudgetFamily(StandardMargin(K, N, ThresholdSpan.fixed("s", 0.5)), swept), budget(standard))


@PROPERTY
@given(cases(), st.data())
def test_folds_are_measured_rankings_fewer_queries(case: Case, data: st.DataObject) -> None:
    whole = MeasuredRankings.of(case.table, case.labels, MEASURES, powers=POWERS)
    keep = np.array([data.draw(st.booleans()) for _ in range(whole.n_queries)], dtype=np.bool_)
    part, family = whole.select_queries(keep), StandardMargin(K, N, OPEN)
    for line in family.lines(part):
        for place in range(len(line)):
            for measure, values in family.by_query(whole, line.values_at(place)).items():
                np.testing.assert_array_equal(family.by_query(part, line.values_at(place))[measure], values[keep])
                same(line.sums[measure][place], values[keep], measure)
