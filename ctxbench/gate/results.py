"""Results of a check: changes, causes, fixes, and verdicts on metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from ctxbench.catalogs.mcp_config import CapturedServer
from ctxbench.evaluation.comparisons import (
    agreeing,
    detectable,
    estimates,
    gain_loss_interval,
    grouped_compare,
    grouped_estimate,
)
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.statistics import Comparison, Estimate, Scale, correct, estimate
from ctxbench.gate.settings import CheckSettings, Minimum
from ctxbench.gate.snapshots import SelectorSnapshot
from ctxbench.io.errors import Message, message_code
from ctxbench.model.arrays import FloatArray, IntArray
from ctxbench.model.candidates import Rule


class Verdict(StrEnum):
    """How the head compares with its baseline."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not comparable"

    @classmethod
    def of(cls, harm: float, *, tolerated: bool, significant: bool) -> Verdict:
        """The verdict on a difference.

        Args:
            harm: above 0 where it is for the worse.
            tolerated: whether it is no larger than what counts as the same.
            significant: whether it is more than chance.
        """
        if tolerated:
            return cls.SAME
        if harm > 0:
            return cls.WORSE if significant else cls.INCONCLUSIVE
        return cls.BETTER if significant else cls.SAME

    @property
    def severity(self) -> int:
        """0 for the worst verdict, which decides over the others."""
        return _WORST_FIRST.index(self)


_WORST_FIRST = (Verdict.NOT_COMPARABLE, Verdict.WORSE, Verdict.INCONCLUSIVE, Verdict.BETTER, Verdict.SAME)


class CauseKind(StrEnum):
    """Kinds of causes: what was changed so that an item went in or out."""

    EDITED = "item edited"  # its own text
    GONE = "item gone"
    RENAMED = "item renamed"
    CROWDED = "crowded out"  # by items that are new or were edited
    FREED = "room made"  # items above it are gone or were edited
    NEW = "item new"  # it was not in the catalog before
    COSTS_MORE = "item costs more tokens"  # where it is offered as before
    COSTS_LESS = "item costs fewer tokens"
    PARAMETER = "parameter"
    MODEL = "model"
    CODE = "code"
    EXTERNAL = "external selector"  # an external selector changed
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The cause of a change.

    Attributes:
        kind: what was changed.
        subjects: what exactly: item ids (those that crowd out, the new name ...), or parameters; sorted, of prices by
            what they add or save.
        detail: a `Message` with code and values, such as `contextTopN 5 -> 3`; equal causes have equal details.
        either, also: other possible causes as phrases: an equally likely one, and a less likely one; may be empty.
    """

    kind: CauseKind
    subjects: tuple[str, ...] = ()
    detail: str = ""
    either: str = ""
    also: str = ""

    @property
    def code(self) -> str:
        """The stable code, such as `CTX101` for an edited description; empty if the detail is no `Message`."""
        return message_code(self.detail)

    @property
    def values(self) -> Mapping[str, Any]:
        """The values that the detail shows, by name."""
        return self.detail.values if isinstance(self.detail, Message) else {}


@dataclass(frozen=True, slots=True)
class Fix:
    """A suggested fix for a loss; false if there is none.

    Attributes:
        phrase: a `Message` without the amount and the quoted alternative.
        amount: the value to which the phrase raises or lowers a setting; None if it does neither.
        lower: whether it lowers it.
        quoted: an alternative fix that quotes a text of the user; may be empty.
        changed: the parameters that it changes: path of the step, name of the parameter, value.
        possible: False if the phrase says that no fix is known.
        price, share: the tokens that it costs, and how many losses it fixes if not all; may be empty.
    """

    phrase: str = ""
    amount: float | None = None
    lower: bool = False
    quoted: str = ""
    changed: tuple[tuple[str, str, Any], ...] = field(default=(), compare=False)
    possible: bool = True
    price: str = ""
    share: str = ""

    @property
    def code(self) -> str:
        """The stable code, such as `CTX161`; empty without a fix."""
        return message_code(self.phrase)

    def __bool__(self) -> bool:
        return bool(self.phrase)

    def __str__(self) -> str:
        text = self.phrase if self.amount is None else f"{self.phrase} {self.amount:g}"
        text += f" ({self.price})" if self.price else ""
        text += f", {self.share}" if self.share else ""
        return f"{text}, or {self.quoted}" if self.quoted else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One item that one query is offered at the head and not at the base, or the other way round.

    Attributes:
        query, item: ids; the item's is the one at the base if it is lost, else the one at the head.
        lost: True if it went out, False if it came in.
        required: whether the query needs it and no alternative is offered.
        base_score, head_score: None where it has none on that side.
        base_rank, head_rank: 1-based place among what the search found on that side; None where it is not known.
        rule: the rule that keeps it out on the side where it is out; None where it is no candidate there.
        missed_by: by how much its score misses the lowest score that is offered on the side where it is out, >= 0;
            None if either has no score, and for external selectors. 0 if another rule excludes it.
        cause: why.
        fix: what would bring a lost required item back.
    """

    query: str
    item: str
    lost: bool
    required: bool
    cause: Cause
    base_score: float | None = None
    head_score: float | None = None
    base_rank: int | None = None
    head_rank: int | None = None
    rule: Rule | None = None
    missed_by: float | None = None
    fix: Fix = Fix()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmetRequirement:
    """A requirement of queries that could be met at the base, and can no longer be.

    Attributes:
        items: ids of those that would do, any one of them; sorted, never empty.
        why: what became of them, such as `no longer in the catalog`.
        queries: ids of those that require one, in the order of the head.
        before: to how many of these one was offered before; for information.
    """

    items: tuple[str, ...]
    why: str
    queries: tuple[str, ...]
    before: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChange:
    """An item with another token count that is offered as before or is in the session.

    Attributes:
        item: id at the head.
        base, head: its prompt tokens.
        queries: ids of those that are offered it on both sides, in the order of the head; never empty.
        why: what was done to it, such as `schema edited`.
    """

    item: str
    base: int
    head: int
    queries: tuple[str, ...]
    why: str

    @property
    def tokens(self) -> int:
        """The tokens that the change adds over all these queries; below 0 where it saves."""
        return (self.head - self.base) * len(self.queries)


class ItemChangeKind(StrEnum):
    """What became of an item of the baseline."""

    GONE = "gone"
    NOT_ALWAYS = "not always"  # another include mode
    EDITED = "edited"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemChange:
    """A change of the catalog that no label judges: of an always-on item, or the removal of one that none requires.

    Attributes:
        item: id at the base.
        kind: what became of it.
        always: whether it was always-on: every request got it.
        base, head: its prompt tokens; 0 where it is gone.
        text: a `Message`, such as `rule:AGENTS.md (105 tokens): no longer in the catalog; no label requires it`.
    """

    item: str
    kind: ItemChangeKind
    always: bool
    base: int
    head: int
    text: str

    @property
    def lost(self) -> bool:
        """Whether an always-on item is always-on no more; then no verdict is `same` or `better`."""
        return self.always and self.kind is not ItemChangeKind.EDITED


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseGroup:
    """All changes of one cause, over all queries.

    Attributes:
        cause: why.
        lost, gained: required items of queries that went out and came in, over all queries.
        others: changes of items that are not required.
        tokens: prompt tokens, the session's among them, that the changes add over all queries; below 0 they save.
        queries: ids of the queries concerned, those that lost something required first, then in their order.
        fix: what would undo most of it.
    """

    cause: Cause
    lost: int
    gained: int
    others: int
    tokens: int
    queries: tuple[str, ...]
    fix: Fix = Fix()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricVerdict:
    """The verdict on a metric, with its evidence.

    Attributes:
        metric: its name.
        verdict: better, worse, same or inconclusive (whether it is worse). Same is also what moved for the better by
            more than the tolerance, but not significantly.
        base, head: means with intervals, over the queries compared.
        comparison: paired, by group, Holm-corrected over all metrics of all selectors and datasets of the check.
        tolerance: differences up to this, in the unit of the metric, are the same.
        detectable: the smallest change for the worse that is detected with power 0.8, and at most a change that was
            judged worse here; None if there is none.
    """

    metric: str
    verdict: Verdict
    base: Estimate
    head: Estimate
    comparison: Comparison
    tolerance: float
    detectable: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumVerdict:
    """Whether a metric reaches its minimum.

    Attributes:
        metric: its name.
        minimum: of the gate file, or of the baseline where the file has a looser one or none.
        estimate: the mean now with its interval, over all queries of the dataset, new ones included; NaN where the
            metric cannot be computed for the selector.
    """

    metric: str
    minimum: Minimum
    estimate: Estimate

    @property
    def missed(self) -> bool:
        """Whether the mean (or the lower end of its interval) is unknown, or below the minimum beyond rounding."""
        reached = self.estimate.interval.low if self.minimum.by == "lower" else self.estimate.value
        return not reached >= self.minimum.value - _ROUNDING


@dataclass(frozen=True, slots=True, kw_only=True)
class PinFailure:
    """A pin that does not hold.

    Attributes:
        pin: as the gate file has it, in words.
        line: in the gate file; 0 = in none.
        query: id.
        message: what is wrong, by how much, and the known reasons.
        about: the id of an item, as the pin has it, `items` or `tokens`; empty where there is no answer.
        cause: why the item went out or came in; None where it did not, or it is about no item.
        fix: what would bring back an item that went out.
    """

    pin: str
    line: int
    query: str
    message: str
    about: str = ""
    cause: Cause | None = None
    fix: Fix = Fix()


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectorCheck:
    """The check of one selector on one dataset.

    Attributes:
        dataset, selector: names.
        verdict: over metrics, minimums, items lost or out of reach, and pins; over minimums alone where the baseline
            lacks the selector.
        reasons: why the verdict is what it is, a sentence each; never empty.
        compared: how many queries.
        left_out: by why, ids of queries that were not compared: `new`, `removed`, `relabelled`, `changed`.
        changes: of items that went in or out, in the order of the queries; swaps left out.
        swaps: queries that differ only by items whose scores noise may exchange (at most 1e-5 apart).
        causes: most costly first: required items lost net, then lost, then fewest gained, then changes of others; then
            items with changed token counts, those that add most first.
        metrics: judged, in the order of the settings.
        minimums: of the metrics that apply to a query, reached or missed.
        pins: that do not hold.
        unmet: requirements that no item can meet any more; empty if that was allowed.
        token_changes: items with changed token counts, those that add most tokens first.
        item_changes: always-on items that are gone, no longer always-on or edited, and other removed items that no
            label requires; in the order of the base.
        deterministic: whether it is known to repeat its answers: losses are then facts.
        lost, gained: required items over all queries compared but those that are nondeterministic.
        n_with_requirements: how many of the queries compared need something.
        nondeterministic: how many of those got other answers at times, so that `lost` and `gained` leave them out.
        allowed: how many more may be lost than gained.
        notices: what a reader must know, a sentence each.
        differs: the differences under test, such as `2 items edited, contextTopN 5 -> 3`; may be empty.
        texts, helps: texts of requests and items by id, and what parameters of the selector do by name; may be empty.
        renamed, successors: ids of items that go on under another id, and of labelled ones that may; old to new.
        reused: whether the answers are those of the baseline, since all inputs are unchanged.
        servers: of the dataset's agent that were not queried in this check: their tools are as captured.
        shipped: the shipped selector that an agent file without a selector uses; empty for others.
    """

    dataset: str
    selector: str
    verdict: Verdict
    reasons: tuple[str, ...]
    compared: int = 0
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    swaps: tuple[str, ...] = ()
    causes: tuple[CauseGroup, ...] = ()
    metrics: tuple[MetricVerdict, ...] = ()
    minimums: tuple[MinimumVerdict, ...] = ()
    pins: tuple[PinFailure, ...] = ()
    unmet: tuple[UnmetRequirement, ...] = ()
    token_changes: tuple[TokenChange, ...] = ()
    item_changes: tuple[ItemChange, ...] = ()
    deterministic: bool = False
    lost: int = 0
    gained: int = 0
    n_with_requirements: int = 0
    nondeterministic: int = 0
    allowed: int = 0
    notices: tuple[str, ...] = ()
    differs: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    helps: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    successors: Mapping[str, str] = field(default_factory=dict)
    reused: bool = False
    servers: tuple[CapturedServer, ...] = ()
    shipped: str = ""

    @property
    def outdated(self) -> tuple[CapturedServer, ...]:
        """The servers whose tools may differ from those captured; then no verdict is `same` or `better`."""
        return tuple(server for server in self.servers if server.outdated)

    @property
    def missed(self) -> tuple[MinimumVerdict, ...]:
        """The minimums that are not reached; then the verdict is at best `worse`."""
        return tuple(minimum for minimum in self.minimums if minimum.missed)

    @property
    def counted(self) -> bool:
        """Whether required items lost and gained were counted on at least one query that needs something."""
        return not self.nondeterministic or self.nondeterministic < self.n_with_requirements

    @property
    def lost_verdict(self) -> Verdict:
        """The verdict on lost required items: same if no more than allowed, else that of the selector."""
        return self.verdict if self.lost - self.gained > self.allowed else Verdict.SAME


@dataclass(frozen=True, slots=True)
class Loosened:
    """A setting of the gate by which less is judged worse than by the baseline's.

    Attributes:
        setting: its name, as in the gate file.
        before, after: its value in the baseline and in the gate file; `after` is empty for what is gone.
    """

    setting: str
    before: str
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureChange:
    """A figure of a baseline that replaced another one.

    Attributes:
        dataset, selector, metric: names; `queries` is a metric here.
        before, after: the figure in the baseline that was replaced and in this one; None where it has none.
    """

    dataset: str
    selector: str
    metric: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The replacement of a baseline by another one.

    Attributes:
        figures: those that differ.
        loosened: settings that were loosened by it.
        commit: the commit that has the baseline that was replaced; empty where git does not tell.
    """

    figures: tuple[FigureChange, ...]
    loosened: tuple[Loosened, ...] = ()
    commit: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Check:
    """The check of all selectors on all datasets.

    Attributes:
        name: of the gate file, or of what was compared.
        base, head: where either side comes from.
        selectors: one for each selector on each dataset.
        notices: what concerns all.
        unjudged: those notices that tell what is not judged: selectors that the baseline lacks, minimums that apply to
            no query, items that are not read.
        baseline: the file or folder of the baseline as the user named it; empty where two runs are compared.
        loosened: settings that are looser than those of the baseline, which decide the verdict.
        replacement: that the baseline replaced another one; None where it did not, as far as is known.
    """

    name: str
    base: str
    head: str
    selectors: tuple[SelectorCheck, ...]
    notices: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    baseline: str = ""
    loosened: tuple[Loosened, ...] = ()
    replacement: Replacement | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all selectors: not comparable, worse, inconclusive, better, same.

        Without any comparison it is not comparable.
        """
        verdicts = [check.verdict for check in self.selectors]
        return min(verdicts, key=lambda verdict: verdict.severity, default=Verdict.NOT_COMPARABLE)

    def exit_code(self, *, strict: bool = False) -> int:
        """The exit code: 0; 1 if worse; 2 if not comparable or the gate was loosened.

        With `strict`, also where it is inconclusive: 2 if a server must be queried first, else 1.
        """
        if self.loosened or self.verdict is Verdict.NOT_COMPARABLE:
            return 2
        if strict and self.verdict is Verdict.INCONCLUSIVE:
            unsure = (check for check in self.selectors if check.verdict is Verdict.INCONCLUSIVE)
            return 2 if any(check.outdated for check in unsure) else 1
        return int(self.verdict is Verdict.WORSE)


_KINDS = {CauseKind.CROWDED: "pushed out", CauseKind.FREED: "moved up"}


def phrase_cause(cause: Cause, text: str) -> str:
    """A cause in words: its kind and a text about it, which may be empty."""
    if not cause.detail.startswith(f"{cause.kind} "):  # `model minilm -> e5` names its kind
        kind = str(_KINDS.get(cause.kind, cause.kind))
        text = f"{kind}: {text}" if text else kind
    return whole_detail(replace(cause, detail=text))


def whole_detail(cause: Cause) -> str:
    """The detail of a cause with other possible causes."""
    text = f"either {cause.detail}, or {cause.either}" if cause.either else cause.detail
    return Message("gate.cause-with-possible-one", cause=text, possible=cause.also) if cause.also else text


_ROUNDING = 1e-12  # differences this far beyond a tolerance are within it, as a share of the means: rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class MetricPair:
    """Two snapshots to be judged.

    Attributes:
        base, head: the two.
        queries: ids of those compared.
        swaps: ids of queries that differ by swaps within the noise of scores; they count as equal on both sides.
    """

    base: SelectorSnapshot
    head: SelectorSnapshot
    queries: Sequence[str]
    swaps: Sequence[str] = ()


def judge_metrics(pairs: Sequence[MetricPair], settings: CheckSettings) -> list[tuple[MetricVerdict, ...]]:
    """Judge every metric of every pair, p-values Holm-corrected over all of them.

    * same: the means differ by no more than the tolerance, or by more for the better, but not significantly; or no
      query of both sides has a value.
    * worse, better: they differ by more, and significantly.
    * inconclusive: they differ by more for the worse, but not significantly.

    A selector with repeats has means over repeats as values, which are judged as shares if a single answer is yes or
    no. Where the session costs on every query what it did, tokens with and without it differ alike:
    that is one comparison, and corrected for as one. `forbidden_offered`, which is judged without being named wherever
    both sides have it, is then corrected apart, so that the verdicts of others do not depend on it, and where it cannot
    be told, it counts as the same.

    Args:
        pairs: of all selectors on all datasets of a check.
        settings: metrics, tolerances, confidence, seed.

    Returns:
        For each pair what was judged, in the order of the settings; metrics that either side lacks are left out.
    """
    rows = [_PairValues.of(pair) for pair in pairs]
    judged = [[metric for metric in settings.judged(row.head) if row.has(metric)] for row in rows]
    first = [
        {metric: row.first_equivalent(metric, metrics) for metric in metrics}
        for row, metrics in zip(rows, judged, strict=True)
    ]
    compared = {
        (index, metric): rows[index].compare(metric, settings)
        for index, alike in enumerate(first)
        for metric in dict.fromkeys(alike.values())
    }
    named, added = (
        {key: comparison for key, comparison in compared.items() if (key[1] in settings.metrics) is by_name}
        for by_name in (True, False)
    )
    family = {True: len(named), False: len(added)}
    corrected = correct(named) | correct(added)
    return [
        tuple(
            _metric_verdict(
                row,
                metric,
                row.with_means_of(corrected[index, alike], metric, alike),
                settings,
                family=family[alike in settings.metrics],
            )
            for metric, alike in first[index].items()
        )
        for index, row in enumerate(rows)
    ]


def judge_minimums(snapshot: SelectorSnapshot, settings: CheckSettings) -> tuple[MinimumVerdict, ...]:
    """Judge the minimums by all queries of one side; a metric that applies to none of them has no verdict.

    A metric that cannot be computed for the selector misses its minimum: nothing shows that it is reached. Intervals
    hold where only queries of different groups are independent.
    """
    rows, verdicts = _PairValues.of(MetricPair(base=snapshot, head=snapshot, queries=[*snapshot.queries])), []
    for metric, minimum in (*settings.minimums.items(), *settings.accepted_minimums.items()):
        values = rows.head.get(metric, np.full(len(rows.groups), np.nan))
        mean = grouped_estimate(values, rows.groups, scale=rows.scale(metric), level=settings.confidence)
        if mean.n or not rows.has(metric):
            verdicts.append(MinimumVerdict(metric=str(metric), minimum=minimum, estimate=mean))
    return tuple(verdicts)


@dataclass(frozen=True, eq=False)
class _PairValues:
    """The values of a pair's metrics, a row for each query compared."""

    base: dict[Metric, FloatArray]
    head: dict[Metric, FloatArray]
    groups: IntArray
    repeated: bool

    @classmethod
    def of(cls, pair: MetricPair) -> _PairValues:
        rows = [side.rows_of(pair.queries) for side in (pair.base, pair.head)]
        swaps = set(pair.swaps)
        equal = np.array([query in swaps for query in pair.queries], dtype=np.bool_)
        base = {metric: values[rows[0]] for metric, values in pair.base.metrics.items()}
        head = {metric: values[rows[1]] for metric, values in pair.head.metrics.items()}
        if swaps:
            head = {m: np.where(equal, base[m], values) for m, values in head.items() if m in base}
        # The base's groups: queries put into one group by the change under test would count as one.
        _, groups = np.unique([pair.base.queries[query].group for query in pair.queries], return_inverse=True)
        return cls(base, head, groups, max(pair.base.repeats, pair.head.repeats) > 1)

    def has(self, metric: Metric) -> bool:
        return all(part in self.base and part in self.head for part in metric.parts)

    def first_equivalent(self, metric: Metric, metrics: Sequence[Metric]) -> Metric:
        """The first of some metrics that counts tokens and differs alike on every query; else the metric itself."""
        if metric.declaration.unit != "tokens":
            return metric
        difference = self.head[metric] - self.base[metric]
        counted = (candidate for candidate in metrics if candidate.declaration.unit == "tokens")
        return next(
            candidate
            for candidate in counted
            if np.array_equal(self.head[candidate] - self.base[candidate], difference, equal_nan=True)
        )

    def with_means_of(self, comparison: Comparison, metric: Metric, alike: Metric) -> Comparison:
        """The comparison of an equivalent metric with the means of this one."""
        if metric == alike or not comparison.n:
            return comparison
        valid = ~np.isnan(self.base[metric] - self.head[metric])
        base, head = (math.fsum(side[metric][valid].tolist()) / comparison.n for side in (self.base, self.head))
        return replace(comparison, base=base, other=head)

    def scale(self, metric: Metric) -> Scale:
        """The scale of the values that are compared."""
        if (scale := metric.parts[0].declaration.scale) == "bits":
            raise ValueError(f"{metric} has no values by query")
        return "share" if self.repeated and scale == "yes/no" else scale

    def compare(self, metric: Metric, settings: CheckSettings) -> Comparison:
        """Compare a metric by groups, with an interval that holds where few queries differ and fits the p-value."""
        alpha, scale, part = round(1.0 - settings.confidence, 12), self.scale(metric), metric.parts[0]
        base, head = self.base[part], self.head[part]
        comparison = grouped_compare(base, head, self.groups, scale=scale, alpha=alpha, seed=settings.seed)
        interval = gain_loss_interval(base, head, self.groups, scale=scale, level=1.0 - alpha)
        return agreeing(replace(comparison, interval=interval))

    def detectable(self, metric: Metric, comparison: Comparison, *, tolerance: float, family: int) -> float | None:
        """The smallest detectable change for the worse; see the function of this name.

        A query that gets worse is taken to lose its yes, or as much of a share as the queries of the base which have
        any have on average, or to cost more by the standard deviation of the amounts among queries of the base.
        """
        part, scale = metric.parts[0], self.scale(metric)
        valid = ~np.isnan(self.base[part] - self.head[part])
        base, groups = np.sort(self.base[part][valid]), len(set(self.groups[valid].tolist()))
        higher = metric.declaration.better == "higher"
        if scale == "amount":
            room, size = float(comparison.base) if higher else math.inf, float(base.std()) if len(base) else 0.0
        else:
            left = base if higher else 1.0 - base
            room = float(left.mean()) if len(left) else 0.0
            size = float(left[left > 0].mean()) if room > 0 else 0.0
        return detectable(comparison, groups=groups, tolerance=tolerance, family=family, size=size, room=room)

    def estimate(self, metric: Metric, settings: CheckSettings, *, head: bool) -> Estimate:
        """The mean of one side, with the interval that a run gives the same values."""
        values = self.head if head else self.base
        level = settings.confidence
        if self.repeated and not metric.declaration.parts:
            return estimate(values[metric], scale=self.scale(metric), level=level)
        return estimates([metric], values, level=level, seed=settings.seed)[metric]


def _metric_verdict(
    rows: _PairValues, metric: Metric, comparison: Comparison, settings: CheckSettings, *, family: int
) -> MetricVerdict:
    base = rows.estimate(metric, settings, head=False)
    is_same = all(np.array_equal(rows.base[part], rows.head[part], equal_nan=True) for part in metric.parts)
    head = base if is_same else rows.estimate(metric, settings, head=True)
    tolerance = settings.tolerance(metric).of(comparison.base) if comparison.n else 0.0
    significant = comparison.significant
    harm = -comparison.difference if metric.declaration.better == "higher" else comparison.difference
    tolerated = not exceeds(comparison, tolerance)
    if (
        not significant and metric not in settings.metrics
    ):  # nobody named it: as few queries may change as items may be lost
        tolerated |= comparison.higher - comparison.lower <= settings.allowed(comparison.n)
    verdict = Verdict.of(harm, tolerated=tolerated, significant=significant)
    detectable = rows.detectable(metric, comparison, tolerance=tolerance, family=family)
    if verdict is Verdict.WORSE:  # this change was detected
        detectable = harm if detectable is None else min(detectable, harm)
    return MetricVerdict(
        metric=str(metric),
        verdict=verdict,
        base=base,
        head=head,
        comparison=comparison,
        tolerance=tolerance,
        detectable=detectable,
    )


def exceeds(comparison: Comparison, tolerance: float) -> bool:
    """Whether means differ, in either direction, by more than a tolerance in their unit; False without a query."""
    rounding = _ROUNDING * max(1.0, abs(comparison.base), abs(comparison.other))
    return bool(comparison.n) and abs(comparison.difference) > tolerance + rounding
