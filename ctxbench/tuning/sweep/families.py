"""Families of cuts that offer a prefix of the ranking, with the parameters of a sweep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.errors import ParameterError
from ctxbench.selectors.parameters import Value
from ctxbench.steps.cut import fallen, offered_length
from ctxbench.tuning.sweep.measures import Measure
from ctxbench.tuning.sweep.rankings import MeasuredRankings
from ctxbench.tuning.sweep.threshold_lines import Collector, Counts, ThresholdLine, ThresholdSpan, show_lines, value_of
from ctxbench.tuning.sweep.threshold_sums import Axis, ThresholdSums, prefix_line

Prefix = tuple[MeasuredRankings, IntArray]
"""Rankings, and how many of their first items are offered, shape (n_queries,)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Cut:
    """Settings that differ in one threshold, before anything is summed up.

    Attributes:
        rankings: of which the first items are offered.
        values: of all parameters but the axis.
        low, high: the fewest and the most items that are offered, shape (n_queries,); equal without an axis.
        axis: the parameter that differs, with its sorted items; None = none does, and this is one setting.
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


class CutFamily(ABC):
    """A cut, or a chain of cuts, that offers a prefix of the ranking, and the parameters that it is swept over."""

    @abstractmethod
    def cuts(self, rankings: MeasuredRankings) -> Iterator[Cut]:
        """All settings."""

    @abstractmethod
    def offered_prefix(self, rankings: MeasuredRankings, values: Mapping[str, Value]) -> Prefix:
        """What is offered at one setting."""

    def lines(self, rankings: MeasuredRankings) -> Iterator[ThresholdLine]:
        """All settings, as lines; the fixed values of the lines and their order do not depend on the data."""
        return (cut.line() for cut in self.cuts(rankings))

    def lengths(self, rankings: MeasuredRankings, values: Mapping[str, Value]) -> IntArray:
        """How many items of each ranking are offered at one setting, shape (n_queries,); see `by_query`.

        Raises:
            ParameterError: a value is missing.
        """
        return self.offered_prefix(rankings, values)[1]

    def by_query(self, rankings: MeasuredRankings, values: Mapping[str, Value]) -> dict[Measure, FloatArray]:
        """The values of all measures at one setting, shape (n_queries,) each; NaN = does not apply.

        Raises:
            ParameterError: a value is missing.
        """
        prefix, lengths = self.offered_prefix(rankings, values)
        return {measure: prefix.values(measure, lengths) for measure in prefix.measures}


@dataclass(frozen=True)
class FixedK(CutFamily):
    """The first n items of the ranking (step `first`), whatever they score: one line of one setting for each n.

    Attributes:
        n: name of the parameter.
        values: those that are tried, >= 0.
    """

    n: str
    values: Sequence[int]

    def cuts(self, rankings: MeasuredRankings) -> Iterator[Cut]:
        """Every n, rising."""
        for n in Counts(self.n, tuple(self.values)).values:
            _, lengths = self.offered_prefix(rankings, {self.n: n})
            yield Cut(rankings=rankings, values={self.n: n}, low=lengths, high=lengths)

    def offered_prefix(self, rankings: MeasuredRankings, values: Mapping[str, Value]) -> Prefix:
        """The first n."""
        return rankings, np.minimum(rankings.sizes, int(value_of(self.n, values, 0)))


@dataclass(frozen=True)
class StandardMargin(CutFamily):
    """The specification's cut (step `standard`), and a margin to the best score behind it (step `margin`, of: ratio).

    With every topK and topN: every includeScore at the top of the margin's range, which leaves out nothing where it
    is 1; then every margin at the top of includeScore's range.

    Attributes:
        topK, topN: whole numbers.
        includeScore: a threshold on scores.
        margin: how far below the best an item may score, as a share of the best, in [0, 1]; None = there is no step
            `margin`.
        at_most: of the step `margin`.
    """

    topK: Counts
    topN: Counts
    includeScore: ThresholdSpan
    margin: ThresholdSpan | None = None
    at_most: int = 100

    def cuts(self, rankings: MeasuredRankings) -> Iterator[Cut]:
        """Lines along includeScore, then lines along the margin; those of each by topK, then by topN."""
        thresholds = (self.includeScore, self.margin)
        spans: list[ThresholdSpan | None] = [span for span in thresholds if span is not None and span.swept] or [None]
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
        """What the two steps offer, one behind the other."""
        best = _BestChunks.of(self, rankings, self.topK.of(values))
        length = best.standard(self.topN.of(values), self.includeScore.of(values))
        return best.rankings, length if self.margin is None else np.minimum(length, best.within(self.margin.of(values)))


def _has_chunk(rankings: MeasuredRankings, topK: int) -> BoolArray:  # noqa: N803
    """True for items whose best chunk is among the best topK and that score above 0, shape (n_ranked,)."""
    return (rankings.chunk_rank < topK) & (rankings.score > 0)


@dataclass(frozen=True, eq=False)
class _BestChunks:
    """The items that a topK leaves: the first `counts` of each of the rankings.

    As a rule they are the first ones of every ranking. Where pooled scores put an item above one with a better chunk,
    the rankings are new ones without the items that topK leaves out.
    """

    family: StandardMargin
    rankings: MeasuredRankings
    counts: IntArray

    @classmethod
    def of(cls, family: StandardMargin, rankings: MeasuredRankings, topK: int) -> _BestChunks:  # noqa: N803
        """Find them."""
        items, has_chunk = rankings.items, _has_chunk(rankings, topK)
        counts = items.count(has_chunk)
        gaps = (has_chunk & (items.position >= counts[items.owner])).any()
        return cls(family, rankings.select_items(has_chunk) if gaps else rankings, counts)

    def standard(self, topN: int, includeScore: float) -> IntArray:  # noqa: N803
        """How many the step `standard` offers."""
        return offered_length(self.counts, self._count(self.rankings.score >= includeScore), topN)

    def within(self, margin: float) -> IntArray:
        """How many of them the step `margin` would offer."""
        return np.minimum(self._count(self._distance <= margin), self.family.at_most)

    def key(self, span: ThresholdSpan) -> FloatArray:
        """What a swept parameter is compared with."""
        return self.rankings.score if span is self.family.includeScore else -self._distance

    def cut(self, span: ThresholdSpan | None, sums: ThresholdSums | None, topK: int, topN: int) -> Cut:  # noqa: N803
        """All values of a swept parameter, the other at the top of its range."""
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
        if span is not None and span is margin:
            low, high = np.zeros_like(low), np.minimum(high, family.at_most)
        else:
            low, high = np.minimum(low, self._within), np.minimum(high, self._within)
        if span is None or sums is None:
            return Cut(rankings=self.rankings, values=values, low=high, high=high)
        axis = Axis(name=span.name, span=(span.low, span.high), rises=span is margin)
        # of a larger topK the first topN, or all, are often the same ones
        return Cut(rankings=self.rankings, values=values, low=low, high=high, axis=(axis, sums), slot=topN)

    @cached_property
    def _above(self) -> IntArray:
        """How many of them score at least the top of includeScore's range."""
        return self._count(self.rankings.score >= self.family.includeScore.high)

    @cached_property
    def _within(self) -> IntArray:
        """How many the step `margin` offers at the top of its range; all, where there is no such step."""
        return self.counts if self.family.margin is None else self.within(self.family.margin.high)

    @property
    def _distance(self) -> FloatArray:
        return below_best(self.rankings, "ratio")

    def _count(self, rows: BoolArray) -> IntArray:
        """How many of them are among `rows`."""
        items = self.rankings.items
        return items.count(rows & (items.position < self.counts[items.owner]))


def below_best(rankings: MeasuredRankings, of: Literal["difference", "ratio"]) -> FloatArray:
    """How far every item scores below the best of its query, as the step `margin` has it, shape (n_ranked,)."""
    best = np.zeros(rankings.n_queries)
    some = rankings.sizes > 0
    best[some] = rankings.score[rankings.items.start[:-1][some]]
    return fallen(rankings.score, best[rankings.items.owner], of)


@dataclass(frozen=True)
class ThresholdFamily(CutFamily):
    """Items whose score, or probability, is at least a threshold (step `at_least`), or near the best (`margin`).

    Attributes:
        threshold: on the score; or how far below the best one a score may lie.
        at_least: that many of the best are offered in any case.
        at_most: no more than that are offered; None = no limit.
        of: `score`; or of a margin `difference` or `ratio`, as the step `margin` has it.
    """

    threshold: ThresholdSpan
    at_least: Counts = field(default=Counts("", (0,)))
    at_most: Counts | None = None
    of: Literal["score", "difference", "ratio"] = "score"

    def cuts(self, rankings: MeasuredRankings) -> Iterator[Cut]:
        """By at_least, then by at_most; pairs that contradict each other are left out."""
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
                low = np.minimum(high, lower)
                yield Cut(rankings=rankings, values=fixed, low=low, high=high, axis=(axis, sums), slot=0)

    def offered_prefix(self, rankings: MeasuredRankings, values: Mapping[str, Value]) -> Prefix:
        """What the step offers."""
        limit = self.threshold.of(values)
        reached = rankings.items.count(self._key(rankings) >= (limit if self.of == "score" else -limit))
        length = offered_length(rankings.sizes, reached, self.at_least.of(values))
        return rankings, length if self.at_most is None else np.minimum(length, self.at_most.of(values))

    def _key(self, rankings: MeasuredRankings) -> FloatArray:
        """What the threshold is compared with: scores, or less than nothing by how far they have fallen."""
        return rankings.score if self.of == "score" else -below_best(rankings, self.of)


@dataclass(frozen=True)
class BudgetFamily(CutFamily):
    """A budget of prompt tokens on top of a family (step `budget`, without `skip`, the session not counted).

    Attributes:
        of: the family.
        tokens: the budgets that are tried with each of its lines; or a span, and every budget is tried with each of
            the family's settings, which must then have no threshold that is swept.
    """

    of: CutFamily
    tokens: Counts | ThresholdSpan

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
            if cut.axis is not None:
                raise ParameterError(
                    f"{cut.axis[0].name} and {self.tokens.name} cannot both be swept at every value; fix one of them"
                )
            if sums is None or sums.rankings is not cut.rankings:
                sums = ThresholdSums(
                    cut.rankings, -cut.rankings.cumulative_tokens.astype(np.float64), cut.rankings.sizes
                )
            axis = Axis(name=self.tokens.name, span=(self.tokens.low, self.tokens.high), rises=True, is_integer=True)
            yield replace(cut, low=np.zeros_like(cut.high), axis=(axis, sums))

    def offered_prefix(self, rankings: MeasuredRankings, values: Mapping[str, Value]) -> Prefix:
        """What the family offers, as far as it fits."""
        prefix, lengths = self.of.offered_prefix(rankings, values)
        return prefix, np.minimum(lengths, _count_in_budget(prefix, int(self.tokens.of(values))))


def _count_in_budget(rankings: MeasuredRankings, tokens: int) -> IntArray:
    """How many of the first items fit into a budget, shape (n_queries,)."""
    return rankings.items.count(rankings.cumulative_tokens <= tokens)


def sweep(
    family: CutFamily,
    rankings: MeasuredRankings,
    collectors: Sequence[Collector[ThresholdLine]],
    *,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Evaluate every setting of a family; each line is seen by all collectors, in order, and forgotten.

    Args:
        family: which settings there are.
        rankings: rankings, measured at every length.
        collectors: those that keep something.
        progress: told after each line how many settings have been evaluated.

    Returns:
        How many settings there were.
    """
    return show_lines(family.lines(rankings), collectors, progress=progress)
