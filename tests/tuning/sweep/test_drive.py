"""Driving families through collectors, the front that is kept, and the engine's own tests run through the sweep."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
from hypothesis import given, settings, strategies as st

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.metrics import Metric
from ctxbench.model.candidates import Candidates, Origin
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from ctxbench.pipelines.strategies.cut import AtLeast, First, Margin
from ctxbench.tuning.cut_families import FixedK, StandardMargin, ThresholdFamily, sweep
from ctxbench.tuning.measures import Measure
from ctxbench.tuning.rankings import MeasuredRankings
from ctxbench.tuning.setting_lines import Counts, Front, ThresholdLine, ThresholdSpan

ITEMS, TOKENS, COMPLETE = (Measure(Metric(name)) for name in ("items", "tokens", "completeness"))
STEPS = Path(__file__).parents[2] / "pipelines"


def labels_of(n_queries: int, n_items: int) -> Labels:
    """Queries that need nothing, items of 10 tokens."""
    catalog = Catalog([Item(type="tool", name=f"t{i}") for i in range(n_items)])
    queries = tuple(
        DatasetQuery(request=Request(id=f"q{i}", text="?"), split="tuning", needs_nothing=True)
        for i in range(n_queries)
    )
    dataset = Dataset(name="plain", version="1", catalog=catalog, queries=queries, labels=())
    return Labels.of(dataset, np.full(n_items, 10))


class TestSweep:
    """All lines of a family, seen by all collectors in turn."""

    RANKINGS = MeasuredRankings.of(
        Candidates.build(
            1, np.zeros(3, np.int64), np.arange(3), score=np.array([0.9, 0.5, 0.4]), chunk_rank=np.arange(3)
        ),
        labels_of(1, 3),
        [ITEMS],
    )

    def test_every_keeper_sees_every_line_and_settings_are_counted(self):
        seen: list[tuple[str, float]] = []

        class Recorder:
            def __init__(self, name: str) -> None:
                self.name = name

            def add(self, line: ThresholdLine) -> None:
                seen.append((self.name, float(line.sums[ITEMS][-1])))

        told: list[int] = []
        family = StandardMargin(Counts("K", (1, 3)), Counts("N", (0,)), ThresholdSpan("s", 0.0, 1.0))
        assert sweep(family, self.RANKINGS, [Recorder("a"), Recorder("b")], progress=told.append) == 2 + 4
        assert seen == [("a", 1), ("b", 1), ("a", 3), ("b", 3)]
        assert told == [2, 6]

    def test_without_a_keeper_settings_are_only_counted(self):
        assert sweep(FixedK("n", range(4)), self.RANKINGS, []) == 4


def line(
    values: dict[str, int], cost: list[float], gain: list[float], tokens: list[float] | None = None
) -> ThresholdLine:
    sums = {ITEMS: np.array(cost, dtype=np.float64), COMPLETE: np.array(gain, dtype=np.float64)}
    if tokens is not None:
        sums[TOKENS] = np.array(tokens, dtype=np.float64)
    thresholds = -np.arange(len(cost), dtype=np.float64)
    return ThresholdLine(values=values, axis="s", thresholds=thresholds, sums=sums, n=dict.fromkeys(sums, 1))


def front_of(*lines: ThresholdLine) -> Front:
    front = Front(cost=ITEMS, gain=COMPLETE)
    for one in lines:
        front.add(one)
    return front


class TestFront:
    """The settings that no other beats."""

    def test_what_costs_more_and_gains_no_more_is_left_out(self):
        front = front_of(
            line({"N": 1}, [0, 1, 2, 3], [0, 0.5, 0.5, 0.75]), line({"N": 2}, [1, 2, 4], [0.25, 0.6, 0.75])
        )
        assert [one.tolist() for one in front.means] == [[0, 1, 2, 3], [0, 0.5, 0.6, 0.75]]
        assert front.values == ({"N": 1, "s": 0.0}, {"N": 1, "s": -1.0}, {"N": 2, "s": -1.0}, {"N": 1, "s": -3.0})
        assert (len(front), front.settings) == (4, 7)

    def test_of_equals_the_one_with_fewer_tokens_then_the_first_is_kept(self):
        one, cheaper = line({"N": 1}, [1], [0.5], [30]), line({"N": 2}, [1], [0.5], [20])
        assert front_of(one, cheaper).values == front_of(cheaper, one).values == ({"N": 2, "s": 0.0},)
        twin = line({"N": 3}, [1], [0.5], [20])
        assert front_of(cheaper, twin).values == ({"N": 2, "s": 0.0},)
        assert front_of(line({"N": 1}, [1, 1], [0.5, 0.5], [30, 30])).values == ({"N": 1, "s": 0.0},)

    def test_at_the_same_cost_only_the_highest_gain_is_kept(self):
        assert front_of(line({"N": 1}, [1, 1, 1], [0, 0.5, 0.25])).values == ({"N": 1, "s": -1.0},)

    def test_a_mean_over_no_query_is_passed_over(self):
        none = ThresholdLine(
            values={},
            axis="",
            thresholds=np.ones(1),
            sums={ITEMS: np.ones(1), COMPLETE: np.zeros(1)},
            n={ITEMS: 1, COMPLETE: 0},
        )
        assert len(front_of(none)) == 0
        assert front_of().thinned(3) == []

    def test_thinned_keeps_both_ends(self):
        front = front_of(line({}, list(range(9)), [i / 9 for i in range(9)]))
        assert [one["s"] for one in front.thinned(3)] == [0, -4, -8]
        assert [one["s"] for one in front.thinned(1)] == [0]
        assert len(front.thinned(100)) == 9

    @settings(max_examples=200, deadline=None, database=None, derandomize=True)
    @given(
        st.lists(
            st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=8),
            max_size=6,
        ),
        st.booleans(),
    )
    def test_it_equals_the_definition(self, lines, rising):
        lines = [sorted(points) if rising else points for points in lines]
        front = front_of(*(line({"N": i}, *map(list, zip(*points, strict=True))) for i, points in enumerate(lines)))
        every = [point for points in lines for point in points]
        best = sorted(
            {(c, g) for c, g, _ in every if not any((a <= c and b > g) or (a < c and b >= g) for a, b, _ in every)}
        )
        assert list(zip(*(one.tolist() for one in front.means), strict=True)) == best
        for (cost, gain), values in zip(best, front.values, strict=True):
            fewest = min(t for c, g, t in every if (c, g) == (cost, gain)) if rising else None
            point = lines[values["N"]][-int(values["s"])]
            assert point[:2] == (cost, gain)
            assert fewest in (None, point[2])


# The slow path's tests: those of the steps, with what is offered taken from the sweep


def offered(step, candidates: Candidates, *, alone: bool = True) -> list[list[int]]:
    """What a step offers, by the sweep: the rows that no cut looks at, and the first of those that it does."""
    brought_in = candidates.chosen & (candidates.origin > Origin.SEARCH)
    labels = labels_of(candidates.n_requests, int(candidates.item.max(initial=0)) + 1)
    rankings = MeasuredRankings.of(candidates.select_rows(~brought_in), labels, [ITEMS])
    family, setting, swept, threshold = families(step, alone)
    own, lengths = family.offered_prefix(rankings, setting)
    for line in swept.lines(rankings):
        reached = line.thresholds <= threshold if isinstance(step, Margin) else line.thresholds >= threshold
        place = int(reached.sum()) - 1 if line.axis else 0
        assert line.sums[ITEMS][place] == lengths.sum()
    out = []
    for query, length in enumerate(lengths.tolist()):
        rows = candidates.rows(query)
        item, origin = candidates.item[rows][candidates.chosen[rows]], candidates.origin[rows][candidates.chosen[rows]]
        found = own.items.item[own.items.start[query] : own.items.start[query] + length]
        parts = [item[origin == Origin.SESSION], found, item[origin > Origin.SEARCH]]
        out.append(np.concatenate(parts).tolist())
    return out


def families(step, alone):
    """A step as a family, the setting that it is, the family with its threshold swept, and the threshold.

    `alone`: the step `margin` by itself, not behind the specification's cut.
    """
    if isinstance(step, First):
        family = FixedK("n", [step.n])
        return family, {"n": step.n}, family, 0.0
    if isinstance(step, AtLeast):
        counts = Counts("", (step.at_least,)), None if step.at_most is None else Counts("", (step.at_most,))
        one, every = (
            ThresholdFamily(span, *counts)
            for span in (ThresholdSpan.fixed("", step.threshold), ThresholdSpan("t", -20.0, 10.0))
        )
        return one, {}, every, step.threshold
    if isinstance(step, Margin) and alone:
        counts = Counts("", (step.at_least,)), Counts("", (step.at_most,))
        spans = ThresholdSpan.fixed("", step.margin), ThresholdSpan("t", 0.0, max(1.0, step.margin))
        one, every = (ThresholdFamily(span, *counts, step.of) for span in spans)
        return one, {}, every, step.margin
    if isinstance(step, Margin):
        behind = Counts("", (99,)), Counts("", (99,)), ThresholdSpan.fixed("", 1.0)
        spans = ThresholdSpan.fixed("", step.margin), ThresholdSpan("t", 0.0, 1.0)
        one, every = (StandardMargin(*behind, span, at_most=step.at_most) for span in spans)
        return one, {}, every, step.margin
    counts = Counts("", (step.topK,)), Counts("", (step.topN,))
    spans = ThresholdSpan.fixed("", step.includeScore), ThresholdSpan("t", -2.0, 2.0)
    one, every = (StandardMargin(*counts, span) for span in spans)
    return one, {}, every, step.includeScore


def slow(name: str) -> ModuleType:
    """The module with a step's tests, once more."""
    spec = importlib.util.spec_from_file_location(f"swept_{name}", STEPS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CUTS, RELATIVE, CALIBRATED = slow("test_cut"), slow("test_cut_relative"), slow("test_calibrated")
CUTS.offered = offered
by_step = RELATIVE.offered


def offered_within(step: Margin, candidates: Candidates) -> list[list[int]]:
    """By the sweep; behind the specification's cut too, which is of shares, without a floor, of scores above 0."""
    found = by_step(step, candidates)
    assert offered(step, candidates) == found
    if step.of == "ratio" and not step.at_least and (candidates.score[candidates.chosen] > 0).all():
        assert offered(step, candidates, alone=False) == found
    return found


class SweptAtLeast(AtLeast):
    """The step, which offers what the sweep says."""

    def __call__(self, query, candidates, resources):
        after = super().__call__(query, candidates, resources)
        assert CALIBRATED.offered(after) == offered(self, candidates)
        return after


RELATIVE.offered = offered_within
CALIBRATED.AtLeast = SweptAtLeast


class TestStandardSwept(CUTS.TestStandard):
    """The tests of the step `standard`."""


class TestFirstSwept(CUTS.TestFirst):
    """The tests of the step `first`."""


class TestMarginSwept(RELATIVE.TestMargin):
    """The tests of the step `margin`."""


class TestAtLeastSwept(CALIBRATED.TestAtLeast):
    """The tests of the step `at_least`."""
