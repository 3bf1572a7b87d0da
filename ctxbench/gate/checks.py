"""Compares, judges and explains pairs of snapshots; prints nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ctxbench.bench.metrics import parse_metric
from ctxbench.gate.cause_groups import group_changes, price_causes, price_changes
from ctxbench.gate.check_settings import CheckSettings
from ctxbench.gate.comparability import Comparability, assess_comparability
from ctxbench.gate.differences import Differences, differences
from ctxbench.gate.metric_verdicts import MetricPair, judge_metrics
from ctxbench.gate.model import CauseGroup, Change, Check, MetricVerdict, PinFailure, SelectorCheck, Verdict
from ctxbench.gate.pins import explain_pins, pin_failures
from ctxbench.gate.snapshots import SelectorSnapshot
from ctxbench.gate.value_texts import first_ids, size
from ctxbench.gate.verdict import LossFacts, decide_verdict, unmet_requirements, unmet_text
from ctxbench.io.visible import count

if TYPE_CHECKING:
    from ctxbench.gate.input_differences import InputDifferences
    from ctxbench.gate.snapshot_pair import SnapshotPair

_MAX_NAMED = 3  # selectors that may have taken the place of another


class SnapshotPairs(NamedTuple):
    """Snapshots of base and head, paired by dataset and selector.

    Attributes:
        pairs: base and head, in the order of the head.
        missing: what the base has and the head lacks, as not comparable, in the order of the base.
        notices: what the head has and the base lacks, a sentence each.
    """

    pairs: Sequence[tuple[SelectorSnapshot, SelectorSnapshot]]
    missing: tuple[SelectorCheck, ...] = ()
    notices: tuple[str, ...] = ()


def pair_snapshots(bases: Sequence[SelectorSnapshot], heads: Sequence[SelectorSnapshot]) -> SnapshotPairs:
    """Put snapshots together by dataset and selector."""
    before = {(snapshot.dataset, snapshot.selector): snapshot for snapshot in bases}
    after = {(snapshot.dataset, snapshot.selector): snapshot for snapshot in heads}
    return SnapshotPairs(
        pairs=tuple((before[key], snapshot) for key, snapshot in after.items() if key in before),
        missing=tuple(
            _missing_selector(snapshot, bases, heads) for key, snapshot in before.items() if key not in after
        ),
        notices=tuple(
            f"{selector} on {dataset} is not in {bases[0].source if bases else 'the baseline'}, and is not checked"
            for dataset, selector in after
            if (dataset, selector) not in before
        ),
    )


def _missing_selector(
    base: SelectorSnapshot, bases: Sequence[SelectorSnapshot], heads: Sequence[SelectorSnapshot]
) -> SelectorCheck:
    source = heads[0].source if heads else "this run"
    selectors = [snapshot.selector for snapshot in heads if snapshot.dataset == base.dataset]
    subject = f"{base.selector} on {base.dataset}" if selectors else f"dataset {base.dataset}"
    base_selectors = {snapshot.selector for snapshot in bases if snapshot.dataset == base.dataset}
    remedy = "put it back" + (", or write the baseline anew with --accept" if base.judged is None else "")
    if new := [
        selector for selector in selectors if selector not in base_selectors
    ]:  # a preset changed that the selector has its name from
        action = "in the gate file and check again" if base.judged is None else "and run it again"
        took = f"if {' or '.join(new[:_MAX_NAMED])} took its place"
        remedy = f"{took}, give that `name: {base.selector}` {action}; else {remedy}"
    reason = f"{base.source} has {subject}, and {source} has not; {remedy}"
    return SelectorCheck(
        dataset=base.dataset,
        selector=base.selector,
        verdict=Verdict.NOT_COMPARABLE,
        reasons=(reason,),
        shipped=base.identity.shipped,
    )


def check(
    pairing: SnapshotPairs, settings: CheckSettings, *, name: str, base: str, head: str, baseline: str = ""
) -> Check:
    """Compare, judge and explain pairs of snapshots.

    The order of queries, and of items whose scores differ, changes nothing but the order of what is listed.

    Args:
        pairing: base and head of each selector on each dataset.
        settings: tolerances, pins and how much may be lost.
        name: of the gate file, or of what is compared.
        base, head: where the two come from.
        baseline: the baseline's file or folder as the user named it; empty where two runs are compared.
    """
    pair_checks = [_PairCheck.of(*pair, settings) for pair in pairing.pairs]
    compared = [
        MetricPair(
            base=pair_check.base,
            head=pair_check.head,
            queries=pair_check.comparability.queries,
            swaps=pair_check.differences.swaps,
        )
        for pair_check in pair_checks
        if not pair_check.comparability.reasons
    ]
    metrics = iter(judge_metrics(compared, settings))
    checks = [
        pair_check.result(settings, () if pair_check.comparability.reasons else next(metrics))
        for pair_check in pair_checks
    ]
    return Check(
        name=name,
        base=base,
        head=head,
        selectors=(*checks, *pairing.missing),
        notices=pairing.notices,
        baseline=baseline,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _PairCheck:
    """A pair of snapshots, compared but not judged."""

    base: SelectorSnapshot
    head: SelectorSnapshot
    comparability: Comparability
    differences: Differences

    @classmethod
    def of(cls, base: SelectorSnapshot, head: SelectorSnapshot, settings: CheckSettings) -> _PairCheck:
        comparability = assess_comparability(base, head, settings)
        differ = Differences() if comparability.reasons else differences(base, head, comparability)
        return cls(base=base, head=head, comparability=comparability, differences=differ)

    def result(self, settings: CheckSettings, metrics: tuple[MetricVerdict, ...]) -> SelectorCheck:
        """Judge and explain the pair, with its metrics judged already."""
        comparability = self.comparability
        pins = pin_failures(settings.pins, self.head, renamed=comparability.renamed, before=self.base)
        if not comparability.reasons:
            return self._judged(settings, metrics, pins)
        return SelectorCheck(
            dataset=self.head.dataset,
            selector=self.head.selector,
            verdict=Verdict.NOT_COMPARABLE,
            reasons=comparability.reasons,
            left_out=comparability.left_out,
            pins=tuple(failure for failure in pins if failure.about),  # of a query without an answer a reason tells
            notices=comparability.notices,
            shipped=self.head.identity.shipped,
        )

    def _judged(
        self, settings: CheckSettings, metrics: tuple[MetricVerdict, ...], pins: tuple[PinFailure, ...]
    ) -> SelectorCheck:
        comparability, differ = self.comparability, self.differences
        changes, causes = self._explain_changes(metrics)
        prices = price_changes(self.base, self.head, comparability, passed_over=differ.swaps)
        unmet = unmet_requirements(self.base, self.head, comparability)
        if pins:
            pins = explain_pins(settings.pins, self._snapshot_pair, changes, queries=comparability.queries)
        needing = [query for query in comparability.queries if self.head.queries[query].required]
        allowed = settings.allowed(len(needing))
        facts = LossFacts(
            unmet=() if settings.allow_removed else unmet,
            lost=differ.lost,
            gained=differ.gained,
            allowed=allowed,
            by_group=self._net_by_group() if self.base.unsteady or self.head.unsteady else None,
            deterministic=self._deterministic,
        )
        verdict, reasons = decide_verdict(metrics, pins, facts, alpha=1.0 - settings.confidence)
        passed_over = (
            [f"{unmet_text(unmet)}; passed over (--allow-removed)"] if settings.allow_removed and unmet else []
        )
        return SelectorCheck(
            dataset=self.head.dataset,
            selector=self.head.selector,
            verdict=verdict,
            reasons=reasons,
            compared=len(comparability.queries),
            left_out=comparability.left_out,
            changes=changes,
            swaps=differ.swaps,
            causes=(*causes, *price_causes(prices, self.head)),
            metrics=metrics,
            pins=pins,
            unmet=tuple(facts.unmet),
            repriced=prices,
            deterministic=self._deterministic,
            lost=differ.lost,
            gained=differ.gained,
            needing=len(needing),
            unsteady=len({*self.base.unsteady, *self.head.unsteady}.intersection(needing)),
            allowed=allowed,
            notices=(*comparability.notices, *self._notices(metrics), *passed_over),
            differs=self._differs(changes),
            texts=_change_texts(changes, self.base, self.head),
            helps={name: parameter.help for name, parameter in self.head.identity.parameters.items() if parameter.help},
            renamed=comparability.renamed,
            reused=self.head.reused,
            shipped=self.head.identity.shipped,
        )

    def _differs(self, changes: Sequence[Change]) -> str:
        """What differs in items, parameters, model and code; empty where nothing does."""
        if _has_same_inputs(self.base, self.head) or not self._inputs:
            return ""
        return self._inputs.text(same_answers=not changes and not self.differences.swaps)

    @property
    def _is_nondeterministic(self) -> bool:
        """Whether the selector gave other answers although all its inputs are the same."""
        return bool(self.differences.changes) and _has_same_inputs(self.base, self.head)

    @property
    def _deterministic(self) -> bool:
        """Whether the selector is known to give the same answer whenever it is asked."""
        return self.base.steady and self.head.steady and not self._is_nondeterministic

    @cached_property
    def _inputs(self) -> InputDifferences:
        """What differs in items, parameters, model and code."""
        from ctxbench.gate.input_differences import input_differences  # most checks find no difference

        return input_differences(self.base, self.head, self.comparability.renamed)

    @cached_property
    def _snapshot_pair(self) -> SnapshotPair:
        """Both snapshots, to explain what they offer differently."""
        from ctxbench.gate.snapshot_pair import SnapshotPair  # most checks find nothing to explain

        return SnapshotPair(self.base, self.head, self._inputs)

    def _explain_changes(self, metrics: Sequence[MetricVerdict]) -> tuple[tuple[Change, ...], tuple[CauseGroup, ...]]:
        """The changes with their causes, and their groups by cause, with what remedies cost."""
        if not self.differences.changes:
            return (), ()
        from ctxbench.gate.causes import explain
        from ctxbench.gate.remedy_prices import with_remedy_prices

        pair = self._snapshot_pair
        explained = explain(pair, self.differences.changes)
        groups = group_changes(pair, explained)
        return explained, with_remedy_prices(groups, pair, self.comparability.queries, metrics)

    def _net_by_group(self) -> tuple[int, int]:
        """How many groups of queries lost more required items than they gained, and how many gained more."""
        net: Counter[str] = Counter()
        for change in self.differences.changes:
            if change.required:
                net[self.base.queries[change.query].group] += 1 if change.lost else -1
        return sum(count > 0 for count in net.values()), sum(count < 0 for count in net.values())

    def _notices(self, metrics: Sequence[MetricVerdict]) -> Iterator[str]:
        base, head = self.base, self.head
        if swaps := self.differences.swaps:
            text = (
                f"{count(len(swaps), 'query', 'queries')} differ{'s' if len(swaps) == 1 else ''} only among scores that"
            )
            yield f"{text} noise may exchange (at most 1e-5 apart), counted as the same ({first_ids(swaps)})"
        if unsteady := [query for query in self.comparability.queries if query in {*base.unsteady, *head.unsteady}]:
            text = f"{count(len(unsteady), 'query', 'queries')} answered otherwise from time to time"
            yield f"{text} ({first_ids(unsteady)}): in the metrics, but not among items lost and gained"
        for side, label in ((base, "baseline"), (head, "now")):
            spread = [
                f"{metric.metric} {size(parse_metric(metric.metric), side.spread[metric.metric])}"
                for metric in metrics
                if metric.metric in side.spread
            ]
            if spread:
                yield f"spread of the means over {side.repeats} repeats, {label}: {', '.join(spread)}"
        for metric in metrics:
            if not metric.comparison.n:
                queries = count(len(self.comparability.queries), "query", "queries")
                yield f"{metric.metric} applies to none of the {queries}"
        if self._is_nondeterministic:
            yield _nondeterminism_notice(head)


def _nondeterminism_notice(head: SelectorSnapshot) -> str:
    """Why answers may differ although all that is known to decide them is the same."""
    text = f"{head.selector} answers otherwise though catalog, queries, parameters, model and code are the same"
    if head.identity.outside:
        return f"{text}: it is not deterministic, or was changed; ask it repeatedly (repeats)"
    return f"{text}: it is not deterministic"


def _has_same_inputs(base: SelectorSnapshot, head: SelectorSnapshot) -> bool:
    """Whether everything that decides the answers of a deterministic selector is the same."""
    versions = {*base.identity.versions, *head.identity.versions}
    is_same = base.identity.same_as(head.identity, versions)
    return is_same and [*base.contents.items()] == [*head.contents.items()]


def _change_texts(changes: Sequence[Change], base: SelectorSnapshot, head: SelectorSnapshot) -> Mapping[str, str]:
    """What the queries with changes ask and the items of changes say; nothing of what is kept out."""
    texts = {change.query: head.queries[change.query].text for change in changes}
    for item in dict.fromkeys(change.item for change in changes):
        fact = head.items.get(item) or base.items.get(item)
        row = (fact.row if fact is not None else None) or {}
        texts[item] = str(row.get("description") or row.get("text") or "")
    return {name: text for name, text in texts.items() if text}
