"""Families of cuts that keep a prefix of the ranking, swept over their settings."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from ctxbench.evaluation.statistics import LEVEL, moment_bounds, mover_bounds, share_bounds, wilson_bounds
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.pipelines.strategies.cut import fallen, offered_length
from ctxbench.selectors.selector import Value
from ctxbench.tuning.measures import Measure
from ctxbench.tuning.rankings import Axis, MeasuredRankings, ThresholdSums, count_at_least, prefix_line
from ctxbench.tuning.setting_lines import Collector, Counts, ThresholdLine, ThresholdSpan, show_lines, value_of

Prefix = tuple[MeasuredRankings, IntArray]
"""Rankings, and the number of their first items that are offered, shape (n_queries,)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Cut:
    """Settings that differ in one threshold, before sums are computed.

    Attributes:
        rankings: their first items are offered.
        values: of all parameters except the axis.
        low, high: the fewest and the most offered items, shape (n_queries,); equal without an axis.
        axis: the parameter that differs, with its sorted items; None = one setting.
        slot: see `ThresholdSums.line`.
    """

    rankings: MeasuredRankings
    values: Mapping[str, Value]
    low: IntArray
    high: IntArray
    axis: tuple[Axis, ThresholdSums] | None = None
    slot: int | None = None

    def line(self) -> ThresholdLine:
        """The sums at all settings."""
        if self.axis is None:
            return prefix_line(self.rankings, self.values, self.high)
        axis, sums = self.axis
        return sums.line(axis, self.values, low=self.low, high=self.high, slot=self.slot)


# Whole numbers that are tried if all would be too many: with two domains, a token budget, or cross-validation.
TOP_K = (10, 20, 50, 100)
TOP_N = (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20)


def _split(counts: Counts, n: int) -> list[Counts]:
    """The values in at most n parts, each rising."""
    return [
        Counts(counts.name, tuple(values.tolist()))
        for values in np.array_split(counts.values, min(n, len(counts.values)))
    ]


def _select_counts(counts: Counts, allowed: Sequence[int]) -> Counts:
    """The allowed values; all values if none is allowed or there are few."""
    values = tuple(value for value in counts.values if value in allowed)
    return Counts(counts.name, values) if values and len(counts.values) > len(allowed) else counts


class CutFamily(ABC):
    """A cut, or a chain of cuts, that offers a prefix of the ranking, with its swept parameters."""

    @abstractmethod
    def cuts(self, rankings: MeasuredRankings) -> Iterator[Cut]:
        """All settings, as cuts."""

    @abstractmethod
    def offered_prefix(self, rankings: MeasuredRankings, values: Mapping[str, Value]) -> Prefix:
        """The offered prefix at one setting."""

    def coarse(self) -> CutFamily:
        """The same family with fewer whole numbers: `TOP_K` chunk matches and `TOP_N` items."""
        return self

    def parts(self, n: int) -> list[CutFamily]:  # noqa: ARG002
        """The same lines in the same order, as families of about an n-th each; itself alone if it is not divided."""
        return [self]

    def within_margin(self, margin: ThresholdSpan, at_most: int) -> CutFamily | None:  # noqa: ARG002
        """The family with a margin behind it, as a share of the best score; None if it cannot be swept."""
        return None

    def lines(self, rankings: MeasuredRankings) -> Iterator[ThresholdLine]:
        """All settings, as lines. Their fixed values and their order do not depend on the data."""
        return (cut.line() for cut in self.cuts(rankings))

    def by_query(self, rankings: MeasuredRankings, values: Mapping[str, Value]) -> dict[Measure, FloatArray]:
        """The values of all measures at one setting, shape (n_queries,) each; NaN if a measure does not apply.

        Raises:
            ParameterError: a value is missing.
        """
        prefix, lengths = self.offered_prefix(rankings, values)
        return {measure: prefix.values(measure, lengths) for measure in prefix.measures}


@dataclass(frozen=True)
class FixedK(CutFamily):
    """The first n items of the ranking (step `first`): one line of one setting for each n.

    Attributes:
        n: name of the parameter.
        values: to try, >= 0.
    """

    n: str
    values: Sequence[int]

    def cuts(self, rankings: MeasuredRankings) -> Iterator[Cut]:
        """Every n, rising."""
        for n in Counts(self.n, tuple(self.values)).values:
            _, lengths = self.offered_prefix(rankings, {self.n: n})
            yield Cut(rankings=rankings, values={self.n: n}, low=lengths, high=lengths)

    def offered_prefix(self, rankings: MeasuredRankings, values: Mapping[str, Value]) -> Prefix:
        """The first n items."""
        return rankings, np.minimum(rankings.sizes, int(value_of(self.n, values, 0)))


@dataclass(frozen=True)
class StandardMargin(CutFamily):
    """The specification's cut (step `standard`), with a margin to the best score behind it (step `margin`, of: ratio).

    For every topK and topN, it has every includeScore with the largest margin (1 excludes nothing), and then every
    margin with the largest includeScore.

    Attributes:
        topK, topN: whole numbers.
        includeScore: a threshold on scores.
        margin: how far below the best score an item may be, as a share of it, in [0, 1]; None = no step `margin`.
        at_most: of the step `margin`.
    """

    topK: Counts
    topN: Counts
    includeScore: ThresholdSpan
    margin: ThresholdSpan | None = None
    at_most: int = 100

    def coarse(self) -> StandardMargin:
        """The same with fewer topK and topN."""
        return replace(self, topK=_select_counts(self.topK, TOP_K), topN=_select_counts(self.topN, TOP_N))

    @property
    def _spans(self) -> list[ThresholdSpan]:
        """The swept thresholds."""
        return [span for span in (self.includeScore, self.margin) if span is not None and span.swept]

    def parts(self, n: int) -> list[CutFamily]:
        """By threshold, then by topK."""
        families = [self]
        if n > 1 and len(self._spans) > 1 and self.margin is not None:
            include, margin = self.includeScore, self.margin
            families = [
                replace(self, margin=ThresholdSpan.fixed(margin.name, margin.high)),
                replace(self, includeScore=ThresholdSpan.fixed(include.name, include.high)),
            ]
        counts = _split(self.topK, math.ceil(n / len(families)))
        return [replace(family, topK=topK) for family in families for topK in counts]

    def within_margin(self, margin: ThresholdSpan, at_most: int) -> StandardMargin | None:
        """The same with a margin; None if it has one."""
        return replace(self, margin=margin, at_most=at_most) if self.margin is None else None

    def cuts(self, rankings: MeasuredRankings) -> Iterator[Cut]:
        """Lines along includeScore, then lines along the margin; those of each by topK, then by topN."""
        spans: Sequence[ThresholdSpan | None] = self._spans or (None,)
        for span in spans:
            sums = None
            for topK in self.topK.values:  # noqa: N806
                best = _BestChunks.of(self, rankings, topK)
                if span is not None and (sums is None or sums.rankings is not best.rankings):
                    unchanged = best.rankings is rankings
                    high = (
                        rankings.items.count(_has_chunk(rankings, self.topK.values[-1])) if unchanged else best.counts
                    )
                    sums = ThresholdSums(best.rankings, best.key(span), high)
                for topN in self.topN.values:  # noqa: N806
                    yield best.cut(span, sums, topK, topN)

    def offered_prefix(self, rankings: MeasuredRankings, values: Mapping[str, Value]) -> Prefix:
        """The prefix that both steps offer."""
        best = _BestChunks.of(self, rankings, self.topK.of(values))
        length = best.standard(self.topN.of(values), self.includeScore.of(values))
        return best.rankings, length if self.margin is None else np.minimum(length, best.within(self.margin.of(values)))


def _has_chunk(rankings: MeasuredRankings, topK: int) -> BoolArray:  # noqa: N803
    """True for items with a score above 0 whose best chunk is among the best topK, shape (n_ranked,)."""
    return (rankings.chunk_rank < topK) & (rankings.score > 0)


@dataclass(frozen=True, eq=False)
class _BestChunks:
    """The items with a chunk among the best topK: the first `counts` of each of the rankings.

    Usually they are a prefix of every ranking. If pooled scores rank an item above one with a better chunk, the
    rankings are new ones without the other items.
    """

    family: StandardMargin
    rankings: MeasuredRankings
    counts: IntArray

    @classmethod
    def of(cls, family: StandardMargin, rankings: MeasuredRankings, topK: int) -> _BestChunks:  # noqa: N803
        """The items of a topK."""
        items, has_chunk = rankings.items, _has_chunk(rankings, topK)
        counts = items.count(has_chunk)
        gaps = (has_chunk & (items.position >= counts[items.owner])).any()
        return cls(family, rankings.select_items(has_chunk) if gaps else rankings, counts)

    def standard(self, topN: int, includeScore: float) -> IntArray:  # noqa: N803
        """How many items the step `standard` offers."""
        return offered_length(self.counts, self._count(self.rankings.score >= includeScore), topN)

    def within(self, margin: float) -> IntArray:
        """How many of the items the step `margin` would offer."""
        return np.minimum(self._count(self._distance <= margin), self.family.at_most)

    def key(self, span: ThresholdSpan) -> FloatArray:
        """The values that a swept parameter is compared with."""
        return self.rankings.score if span is self.family.includeScore else -self._distance

    def cut(self, span: ThresholdSpan | None, sums: ThresholdSums | None, topK: int, topN: int) -> Cut:  # noqa: N803
        """All values of a swept parameter, with the other at the top of its range."""
        family = self.family
        include, margin = family.includeScore, family.margin
        values: dict[str, Value] = {family.topK.name: topK, family.topN.name: topN}
        values |= {
            threshold.name: threshold.high
            for threshold in (include, margin)
            if threshold is not None and threshold is not span
        }
        values.pop("", None)
        high = self.counts if span is include else offered_length(self.counts, self._above, topN)
        low = np.minimum(topN, self.counts) if span is include else high
        low, high = (
            (np.zeros_like(low), np.minimum(high, family.at_most))
            if span is not None and span is margin
            else (np.minimum(low, self._within), np.minimum(high, self._within))
        )
        if span is None or sums is None:
            return Cut(rankings=self.rankings, values=values, low=high, high=high)
        axis = Axis(name=span.name, span=(span.low, span.high), rises=span is margin)
        # a larger topK often has the same first topN items
        return Cut(rankings=self.rankings, values=values, low=low, high=high, axis=(axis, sums), slot=topN)

    @cached_property
    def _above(self) -> IntArray:
        """How many of the items have a score of at least the top of includeScore's range."""
        return self._count(self.rankings.score >= self.family.includeScore.high)

    @cached_property
    def _within(self) -> IntArray:
        """How many items the step `margin` offers at the top of its range; all if there is no such step."""
        return self.counts if self.family.margin is None else self.within(self.family.margin.high)

    @property
    def _distance(self) -> FloatArray:
        return below_best(self.rankings, "ratio")

    def _count(self, rows: BoolArray) -> IntArray:
        """How many of the items are among `rows`."""
        items = self.rankings.items
        return items.count(rows & (items.position < self.counts[items.owner]))


def below_best(rankings: MeasuredRankings, of: Literal["difference", "ratio"]) -> FloatArray:
    """The distance of each item to the best score of its query, as in the step `margin`, shape (n_ranked,)."""
    best = np.zeros(rankings.n_queries)
    some = rankings.sizes > 0
    best[some] = rankings.score[rankings.items.start[:-1][some]]
    return fallen(rankings.score, best[rankings.items.owner], of)


@dataclass(frozen=True)
class ThresholdFamily(CutFamily):
    """Items whose score or probability is at least a threshold (step `at_least`), or close to the best (`margin`).

    Attributes:
        threshold: on the score, or on the distance to the best score.
        at_least: the lowest number of offered items.
        at_most: the highest number of offered items; None = no limit.
        of: `score`, or for a margin `difference` or `ratio`, as in the step `margin`.
    """

    threshold: ThresholdSpan
    at_least: Counts = field(default=Counts("", (0,)))
    at_most: Counts | None = None
    of: Literal["score", "difference", "ratio"] = "score"

    def parts(self, n: int) -> list[CutFamily]:
        """By at_least."""
        return [replace(self, at_least=counts) for counts in _split(self.at_least, n)]

    def coarse(self) -> ThresholdFamily:
        """The same with fewer at_least and at_most."""
        at_most = None if self.at_most is None else _select_counts(self.at_most, TOP_N)
        return replace(self, at_least=_select_counts(self.at_least, TOP_N[:4]), at_most=at_most)

    def cuts(self, rankings: MeasuredRankings) -> Iterator[Cut]:
        """By at_least, then by at_most, without contradictory pairs."""
        span, sizes = self.threshold, rankings.sizes
        sums = ThresholdSums(rankings, self._key(rankings), sizes) if span.swept else None
        axis = Axis(name=span.name, span=(span.low, span.high), rises=self.of != "score")
        mosts = self.at_most.values if self.at_most is not None else (None,)
        pairs = [(lower, upper) for lower in self.at_least.values for upper in mosts if upper is None or upper >= lower]
        for lower, upper in pairs:
            fixed: dict[str, Value] = {self.at_least.name: lower}
            if self.at_most is not None and upper is not None:
                fixed[self.at_most.name] = upper
            if sums is None:
                fixed[span.name] = span.high
            fixed.pop("", None)
            if sums is None:
                lengths = self.offered_prefix(rankings, fixed)[1]
                yield Cut(rankings=rankings, values=fixed, low=lengths, high=lengths)
            else:
                high = sizes if upper is None else np.minimum(sizes, upper)
                yield Cut(
                    rankings=rankings, values=fixed, low=np.minimum(high, lower), high=high, axis=(axis, sums), slot=0
                )

    def offered_prefix(self, rankings: MeasuredRankings, values: Mapping[str, Value]) -> Prefix:
        """The prefix that the step offers."""
        limit = self.threshold.of(values)
        reached = rankings.items.count(self._key(rankings) >= (limit if self.of == "score" else -limit))
        length = offered_length(rankings.sizes, reached, self.at_least.of(values))
        return rankings, length if self.at_most is None else np.minimum(length, self.at_most.of(values))

    def _key(self, rankings: MeasuredRankings) -> FloatArray:
        """The values that the threshold is compared with: scores, or negative distances to the best."""
        return rankings.score if self.of == "score" else -below_best(rankings, self.of)


@dataclass(frozen=True)
class BudgetFamily(CutFamily):
    """A budget of prompt tokens behind a family (step `budget`, without `skip` and without the session).

    Attributes:
        of: the family.
        tokens: the budgets to try with each of its lines; or a span, if the family has no swept threshold: then every
            budget is tried with each of its settings.
    """

    of: CutFamily
    tokens: Counts | ThresholdSpan

    def parts(self, n: int) -> list[CutFamily]:
        """The budget behind each part of the family."""
        return [replace(self, of=of) for of in self.of.parts(n)]

    def coarse(self) -> BudgetFamily:
        """The same with the coarse family."""
        return replace(self, of=self.of.coarse())

    def within_margin(self, margin: ThresholdSpan, at_most: int) -> BudgetFamily | None:
        """The budget behind the family with a margin; the order of two prefixes does not matter."""
        of = self.of.within_margin(margin, at_most)
        return None if of is None else replace(self, of=of)

    def cuts(self, rankings: MeasuredRankings) -> Iterator[Cut]:
        """The family's cuts, each with every budget."""
        sums: ThresholdSums | None = None
        for cut in self.of.cuts(rankings):
            if isinstance(self.tokens, Counts):
                for tokens in self.tokens.values:
                    fits = _count_in_budget(cut.rankings, tokens)
                    yield replace(
                        cut,
                        values={**cut.values, **({self.tokens.name: tokens} if self.tokens.name else {})},
                        low=np.minimum(cut.low, fits),
                        high=np.minimum(cut.high, fits),
                    )
                continue
            if sums is None or sums.rankings is not cut.rankings:
                sums = ThresholdSums(
                    cut.rankings, -cut.rankings.cumulative_tokens.astype(np.float64), cut.rankings.sizes
                )
            axis = Axis(name=self.tokens.name, span=(self.tokens.low, self.tokens.high), rises=True, is_integer=True)
            yield replace(cut, low=np.zeros_like(cut.high), axis=(axis, sums))

    def offered_prefix(self, rankings: MeasuredRankings, values: Mapping[str, Value]) -> Prefix:
        """The prefix of the family that fits into the budget."""
        prefix, lengths = self.of.offered_prefix(rankings, values)
        return prefix, np.minimum(lengths, _count_in_budget(prefix, int(self.tokens.of(values))))


def _count_in_budget(rankings: MeasuredRankings, tokens: int) -> IntArray:
    """The number of first items that fit into a budget, shape (n_queries,)."""
    return rankings.items.count(rankings.cumulative_tokens <= tokens)


def sweep(
    family: CutFamily,
    rankings: MeasuredRankings,
    collectors: Sequence[Collector[ThresholdLine]],
    *,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Evaluate every setting of a family, and pass each line to all collectors, in order.

    Args:
        family: of the settings.
        rankings: measured at every length.
        collectors: receive each line.
        progress: called after each line with the number of settings so far.

    Returns:
        The number of settings.
    """
    return show_lines(family.lines(rankings), collectors, progress=progress)


POWERS: Mapping[str, int] = {"yes/no": 1, "share": 2, "amount": 3}
"""By scale, the highest power of the values that an interval needs."""
_FLAT = 1e-14  # smaller variances, relative to the squared mean, are rounding errors


def bounds(
    measure: Measure, powers: Sequence[FloatArray], n: npt.ArrayLike, *, level: float = LEVEL, times: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Intervals of many means at once, equal to those of `ctxbench.evaluation.statistics.estimate`.

    They are exactly equal for yes/no, and within 1e-9 for others; within 1e-5 for amounts that vary by less than
    1/10,000 of their mean, because their powers lose precision.

    Args:
        measure: yes/no: Wilson's interval; share: Wilson's at the effective sample size; amount: Hall's t.
        powers: the sums of the values, their squares and their cubes, up to the power of the scale (see `POWERS`), all
            of one shape.
        n: the number of values, >= 0; its shape broadcasts.
        level: nominal coverage.
        times: the intervals are for this many times as many values with the same moments.

    Returns:
        Low and high ends, in the shape of the sums.
    """
    scale = measure.metric.declaration.scale
    counted = np.broadcast_to(np.asarray(n, dtype=np.float64), powers[0].shape)
    moments = [power / np.maximum(counted, 1.0) for power in powers]
    mean, size = moments[0], counted * times
    if scale == "yes/no":
        return wilson_bounds(mean, size, level=level)
    variance = moments[1] - mean * mean
    variance = np.where(variance > _FLAT * mean * mean, variance, 0.0)
    if scale == "share":
        return share_bounds(np.clip(mean, 0.0, 1.0), variance, size, level=level)
    third = moments[2] - 3.0 * mean * moments[1] + 2.0 * mean**3
    low, high = moment_bounds(mean, variance, third, np.maximum(size, 2.0), level=level)
    return np.where(size < 2.0, 0.0, np.maximum(low, 0.0)), np.where(size < 2.0, math.inf, high)


class SweptSettings(ABC):
    """Settings along one threshold: their values, their means, and intervals of some of these.

    Attributes:
        thresholds: from the fewest offered items to the most, shape (n_settings,).
    """

    thresholds: FloatArray

    def __len__(self) -> int:
        return len(self.thresholds)

    @abstractmethod
    def line_at(self, index: int) -> ThresholdLine:
        """A line of one setting."""

    @abstractmethod
    def select_setting(self, index: int) -> SweptSettings:
        """One setting, in new arrays."""

    @abstractmethod
    def n(self, measure: Measure) -> int:
        """The number of queries to which a measure applies; if it differs by setting, the largest."""

    @abstractmethod
    def means(self, measure: Measure, indices: IntArray | None = None) -> FloatArray:
        """The means of a measure at some indices or all; NaN if it applies to no query."""

    @abstractmethod
    def bounds(
        self, measure: Measure, indices: IntArray, *, level: float, times: float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """Ends of the intervals of some means, if there were `times` as many queries of the same kinds."""

    @abstractmethod
    def differences(self, measure: Measure, indices: IntArray, *, times: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Means of paired differences to the base with their standard errors, if there were `times` as many queries."""

    def values_at(self, index: int) -> dict[str, Value]:
        """The values of one setting."""
        return self.line_at(index).values_at(0)

    def rounded_values(self, index: int) -> dict[str, Value]:
        """The values with a rounded threshold that selects the same (see `ThresholdLine.rounded_threshold`)."""
        return self.line_at(index).rounded_values(0)

    def objective_means(self, measure: Measure, indices: IntArray | None = None) -> FloatArray:
        """The values by which an objective is compared, at some indices or all; usually its means."""
        return self.means(measure, indices)

    def mean_reaches(self, measure: Measure, sign: int, end: float) -> BoolArray:
        """Where sign x mean >= sign x end, shape (n_settings,); False if the measure applies to no query."""
        return sign * self.means(measure) >= sign * end

    def objective_reaches(self, measure: Measure, sign: int, end: float) -> BoolArray:
        """The same for the values by which an objective is compared."""
        return sign * self.objective_means(measure) >= sign * end

    def best_index(self, measure: Measure, sign: int, mask: BoolArray | None = None) -> int | None:
        """The first index with the highest (sign 1) or lowest (-1) mean, within a mask; None if there is no mean."""
        return best_index(self.means(measure), sign, mask)


class LineSettings(SweptSettings):
    """The settings of one line over one dataset.

    Attributes:
        line: the line.
    """

    def __init__(self, line: ThresholdLine) -> None:
        self.line, self.thresholds = line, line.thresholds

    def line_at(self, index: int) -> ThresholdLine:
        """The line with one of its thresholds, and the sums of all."""
        return replace(
            self.line, thresholds=self.line.thresholds[index : index + 1].copy(), beyond=self.line.ends(index)
        )

    def select_setting(self, index: int) -> LineSettings:
        """One setting, in new arrays."""
        line, span = self.line, slice(index, index + 1)
        sums, squares, cubes = (
            {measure: np.array(values[span], dtype=np.float64) for measure, values in power.items()}
            for power in (line.sums, line.squares, line.cubes)
        )
        selected = replace(
            self.line_at(index),
            sums=sums,
            squares=squares,
            cubes=cubes,
            n={**line.n, **{measure: int(counts[index]) for measure, counts in line.applies.items()}},
            applies={},
            differences={
                measure: difference.select(np.array([index])) for measure, difference in line.differences.items()
            },
        )
        return LineSettings(selected)

    def n(self, measure: Measure) -> int:
        """The number of queries to which a measure applies; if it differs by setting, the largest."""
        return self.line.n[measure]

    def means(self, measure: Measure, indices: IntArray | None = None) -> FloatArray:
        """Sums divided by n; NaN if n is 0."""
        return self.line.means(measure, indices)

    def mean_reaches(self, measure: Measure, sign: int, end: float) -> BoolArray:
        """As in the base class, by sums, which is faster than dividing them."""
        sums, ends = self.line.sums[measure], end * self.line.counts(measure)
        return sums >= ends if sign > 0 else sums <= ends

    def objective_reaches(self, measure: Measure, sign: int, end: float) -> BoolArray:
        """As `mean_reaches`."""
        return self.mean_reaches(measure, sign, end)

    def best_index(self, measure: Measure, sign: int, mask: BoolArray | None = None) -> int | None:
        """As in the base class, by sums if all settings have the same number of queries."""
        equal_n = measure not in self.line.applies and self.line.n[measure] > 0
        return best_index(self.line.sums[measure] if equal_n else self.means(measure), sign, mask)

    def bounds(
        self, measure: Measure, indices: IntArray, *, level: float, times: float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """See `bounds`."""
        line, max_power = self.line, POWERS[measure.metric.declaration.scale]
        powers = [
            np.asarray(of[measure][indices], dtype=np.float64)
            for of in (line.sums, line.squares, line.cubes)[:max_power]
        ]
        applies = line.applies.get(measure)
        n = np.array(line.n[measure]) if applies is None else applies[indices]
        return bounds(measure, powers, n, level=level, times=times)

    def differences(self, measure: Measure, indices: IntArray, *, times: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """See `DifferenceSums.errors`."""
        return self.line.differences[measure].select(indices).errors(times=times)


def best_index(means: FloatArray, sign: int, mask: BoolArray | None = None) -> int | None:
    """The first index of the highest (sign 1) or lowest (-1) value; NaN is ignored. None if there is none."""
    if mask is not None:
        means = np.where(mask, means, math.nan)
    index = int(means.argmax() if sign > 0 else means.argmin())  # the index of a NaN, if there is one
    if not math.isnan(means[index]):
        return index
    if np.isnan(means).all():
        return None
    return int(np.nanargmax(means) if sign > 0 else np.nanargmin(means))


GRID = 2000
"""The highest number of common thresholds of a line: all, or equally many per dataset, evenly spaced by rank."""


class CommonLine(SweptSettings):
    """Lines of several datasets at common thresholds; all datasets have the same weight.

    The mean of a measure is the mean over the datasets in which it applies to any query; its interval combines theirs
    (see `mover_bounds`). An objective that is an amount (tokens, items) is the geometric mean over datasets, so a
    dataset with large items has no more influence than others. 1 is added to each mean and subtracted from the result,
    so offering nothing on one dataset does not make it 0. Other objectives are means of means.
    """

    def __init__(
        self,
        lines: Sequence[ThresholdLine],
        thresholds: FloatArray,
        indices: Sequence[IntArray],
        worth: Sequence[float] | None = None,
    ) -> None:
        """Use given thresholds; `of` finds them.

        Args:
            lines: one per dataset, with equal values and axis.
            thresholds: from the fewest offered items to the most, shape (n_settings,).
            indices: for each line, its index at each threshold, shape (n_settings,).
            worth: for each line, how many independent queries a query is worth (see `Optimum`); by default 1.
        """
        self._lines = [LineSettings(line) for line in lines]
        self._indices = indices
        self.thresholds = thresholds
        self._worth = [1.0] * len(lines) if worth is None else worth

    @classmethod
    def of(
        cls, lines: Sequence[ThresholdLine], *, worth: Sequence[float] | None = None, max_thresholds: int = GRID
    ) -> CommonLine:
        """Find the common thresholds of the lines of several datasets.

        Args:
            lines: one per dataset, always in the same order of datasets.
            worth: for each line, how many independent queries a query is worth (see `Optimum`); 1 if not given.
            max_thresholds: the highest number of thresholds; of longer lines, equally many per dataset are used, evenly
                spaced by rank.
        """
        first = lines[0]
        if not first.axis:
            return cls(lines, first.thresholds, [np.zeros(1, dtype=np.int64) for _ in lines], worth)
        sign = -1.0 if _rises(first) else 1.0
        by_line = [sign * line.thresholds for line in lines]
        if sum(map(len, by_line)) > max_thresholds:
            share = max(max_thresholds // len(lines), 2)
            tried = [keys[np.unique(np.linspace(0, len(keys) - 1, share).round().astype(np.int64))] for keys in by_line]
        else:
            tried = by_line
        common = np.unique(np.concatenate(tried))[::-1]
        return cls(lines, sign * common, [np.maximum(count_at_least(keys, common) - 1, 0) for keys in by_line], worth)

    def select_setting(self, index: int) -> CommonLine:
        """One setting, in new arrays."""
        alone, first = self.line_at(index), np.zeros(1, dtype=np.int64)
        selected = [
            replace(line.select_setting(int(indices[index])).line, thresholds=alone.thresholds, beyond=alone.beyond)
            for line, indices in zip(self._lines, self._indices, strict=True)
        ]
        return CommonLine(selected, alone.thresholds, [first for _ in selected], self._worth)

    def n(self, measure: Measure) -> int:
        """The number of queries of all datasets to which a measure applies."""
        return sum(line.n(measure) for line in self._lines)

    def means(self, measure: Measure, indices: IntArray | None = None) -> FloatArray:
        """The means of the datasets' means; NaN if a measure applies to no query."""
        return _mean(self._dataset_means(measure, indices))

    def objective_means(self, measure: Measure, indices: IntArray | None = None) -> FloatArray:
        """Geometric means for amounts, else `means`."""
        by_dataset = self._dataset_means(measure, indices)
        if measure.metric.declaration.scale != "amount":
            return _mean(by_dataset)
        return np.asarray(np.expm1(_mean(np.log1p(by_dataset))))

    def bounds(
        self, measure: Measure, indices: IntArray, *, level: float, times: float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """Intervals that combine those of the datasets (see `mover_bounds`)."""
        by_dataset = self._dataset_means(measure, indices)
        ends = [
            line.bounds(measure, line_indices[indices], level=level, times=times * worth)
            for line, line_indices, worth in zip(self._lines, self._indices, self._worth, strict=True)
        ]
        low, high = (np.stack(end) for end in zip(*ends, strict=True))
        return mover_bounds(by_dataset, low, high)

    def differences(self, measure: Measure, indices: IntArray, *, times: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """The means of the datasets' mean differences, and their standard errors; datasets are independent."""
        pairs = [
            line.differences(measure, line_indices[indices], times=times)
            for line, line_indices in zip(self._lines, self._indices, strict=True)
        ]
        mean, error = (np.stack(part) for part in zip(*pairs, strict=True))
        some = (~np.isnan(mean)).sum(axis=0)
        variance = np.where(np.isnan(mean), 0.0, error**2).sum(axis=0)
        return _mean(mean), np.where(some > 0, np.sqrt(variance) / np.maximum(some, 1), math.inf)

    def _dataset_means(self, measure: Measure, indices: IntArray | None) -> FloatArray:
        """The datasets' means, shape (n_datasets, n_settings)."""
        return np.stack(
            [
                line.means(measure, line_indices if indices is None else line_indices[indices])
                for line, line_indices in zip(self._lines, self._indices, strict=True)
            ]
        )

    def line_at(self, index: int) -> ThresholdLine:
        """The first dataset's line with one threshold, and the ends between which no dataset changes."""
        line = self._lines[0].line
        if not line.axis:
            return line
        ends = [
            settings.line.ends(int(line_indices[index]))
            for settings, line_indices in zip(self._lines, self._indices, strict=True)
        ]
        nearer, further = (max, min) if _rises(line) else (min, max)
        return replace(
            line,
            thresholds=self.thresholds[index : index + 1],
            beyond=(nearer(start for start, _ in ends), further(end for _, end in ends)),
        )


def sweep_common(
    family: CutFamily,
    rankings: Sequence[MeasuredRankings],
    optima: Sequence[Collector[CommonLine]],
    *,
    worth: Sequence[float] | None = None,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Pass every setting of a family, with the same values on several datasets, to optima.

    Args:
        family: of the settings; its lines have the same fixed values, in the same order, on every dataset.
        rankings: one per dataset, at least one.
        optima: of policies whose targets `of: base` are multiples of the mean of the datasets' means.
        worth: for each dataset, how many independent queries a query is worth (see `Optimum`); by default 1.
        progress: called after each line with the number of settings so far.

    Returns:
        The number of settings.
    """
    by_dataset = zip(*(family.lines(measured) for measured in rankings), strict=True)
    return show_lines((CommonLine.of(lines, worth=worth) for lines in by_dataset), optima, progress=progress)


def _rises(line: ThresholdLine) -> bool:
    """Whether more is offered as the threshold rises."""
    return line.beyond[0] < line.beyond[1]


def _mean(by_dataset: FloatArray) -> FloatArray:
    """Means over datasets without NaN, shape (n_settings,); NaN if all are."""
    some = (~np.isnan(by_dataset)).sum(axis=0)
    return np.asarray(np.nansum(by_dataset, axis=0) / np.where(some > 0, some, math.nan))
