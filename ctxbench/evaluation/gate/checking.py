"""Checks: pairs of snapshots compared, judged and explained; says what is found, prints nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ctxbench.evaluation.gate.amounts import level, moved, size
from ctxbench.evaluation.gate.comparability import Comparable, comparable, queries_text
from ctxbench.evaluation.gate.differences import Differences, differences
from ctxbench.evaluation.gate.judging import Pair, beyond, compare_all
from ctxbench.evaluation.gate.model import CauseGroup, Change, Check, Judged, PinFailure, SelectorCheck, Verdict
from ctxbench.evaluation.gate.pins import broken
from ctxbench.evaluation.gate.questions import named
from ctxbench.evaluation.gate.settings import Settings
from ctxbench.evaluation.gate.snapshots import Snapshot
from ctxbench.evaluation.gate.table_answers import offered_ids
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.stats import mcnemar_exact

_SHOWN = 3  # selectors that may have taken the place of another


class Paired(NamedTuple):
    """Snapshots put together by dataset and selector.

    Attributes:
        pairs: base and head, in the order of the head.
        missing: what the base has and the head lacks, as not comparable, in the order of the base.
        notices: what the head has and the base lacks, a sentence each.
    """

    pairs: tuple[tuple[Snapshot, Snapshot], ...]
    missing: tuple[SelectorCheck, ...] = ()
    notices: tuple[str, ...] = ()


def pair_up(bases: Sequence[Snapshot], heads: Sequence[Snapshot]) -> Paired:
    """Put snapshots together by dataset and selector."""
    before = {(one.dataset, one.selector): one for one in bases}
    now = {(one.dataset, one.selector): one for one in heads}
    return Paired(
        pairs=tuple((before[key], one) for key, one in now.items() if key in before),
        missing=tuple(_missing(one, bases, heads) for key, one in before.items() if key not in now),
        notices=tuple(
            f"{selector} on {dataset} is not in {bases[0].source if bases else 'the baseline'}, and is not checked"
            for dataset, selector in now
            if (dataset, selector) not in before
        ),
    )


def _missing(base: Snapshot, bases: Sequence[Snapshot], heads: Sequence[Snapshot]) -> SelectorCheck:
    source = heads[0].source if heads else "this run"
    there = [one.selector for one in heads if one.dataset == base.dataset]
    what = f"{base.selector} on {base.dataset}" if there else f"dataset {base.dataset}"
    known = {one.selector for one in bases if one.dataset == base.dataset}
    mend = "put it back" + (", or write the baseline anew with --accept" if base.judged is None else "")
    if new := [one for one in there if one not in known]:  # a preset changed that the selector has its name from
        again = "in the gate file and check again" if base.judged is None else "and run it again"
        took = f"if {' or '.join(new[:_SHOWN])} took its place"
        mend = f"{took}, give that `name: {base.selector}` {again}; else {mend}"
    reason = f"{base.source} has {what}, and {source} has not; {mend}"
    return SelectorCheck(
        dataset=base.dataset, selector=base.selector, verdict=Verdict.NOT_COMPARABLE, reasons=(reason,)
    )


def check(
    pairs: Sequence[tuple[Snapshot, Snapshot]],
    settings: Settings,
    *,
    name: str,
    base: str,
    head: str,
    baseline: str = "",
    missing: Sequence[SelectorCheck] = (),
    notices: Sequence[str] = (),
) -> Check:
    """Compare, judge and explain pairs of snapshots.

    The order of queries, and of items whose scores differ, changes nothing but the order of what is listed.

    Args:
        pairs: base and head of each selector on each dataset.
        settings: what to go by.
        name: of the gate file, or of what is compared.
        base, head: where either side comes from.
        baseline: the baseline's file or folder as the user named it.
        missing: what else is in the check, from `pair_up`.
        notices: what concerns all.
    """
    found = [_Compared.of(*pair, settings) for pair in pairs]
    judged = compare_all([one.pair for one in found if not one.comparable.reasons], settings)
    metrics = iter(judged)
    checks = [one.checked(settings, () if one.comparable.reasons else next(metrics)) for one in found]
    return Check(
        name=name,
        base=base,
        head=head,
        selectors=(*checks, *missing),
        notices=tuple(notices),
        baseline=baseline,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Compared:
    """A pair of snapshots, compared but not judged."""

    base: Snapshot
    head: Snapshot
    comparable: Comparable
    differences: Differences

    @classmethod
    def of(cls, base: Snapshot, head: Snapshot, settings: Settings) -> _Compared:
        found = comparable(base, head, settings)
        differ = Differences() if found.reasons else differences(base, head, found)
        return cls(base=base, head=head, comparable=found, differences=differ)

    @property
    def pair(self) -> Pair:
        return Pair(base=self.base, head=self.head, queries=self.comparable.queries, same=self.differences.swaps)

    def checked(self, settings: Settings, metrics: tuple[Judged, ...]) -> SelectorCheck:
        """The whole of what is to be said."""
        same, differ = self.comparable, self.differences
        pins = broken(settings.pins, self.head, renamed=same.renamed, before=self.base)
        if same.reasons:
            return SelectorCheck(
                dataset=self.head.dataset,
                selector=self.head.selector,
                verdict=Verdict.NOT_COMPARABLE,
                reasons=same.reasons,
                left_out=same.left_out,
                pins=tuple(one for one in pins if one.about),  # of a query without an answer a reason tells
                notices=same.notices,
            )
        changes, causes = _explained(self.base, self.head, differ.changes, same.renamed)
        pins = self._pins_explained(settings, pins, changes)
        needing = [query for query in same.queries if self.head.queries[query].required]
        allowed = settings.allowed(len(needing))
        by_group = self._by_group() if self.base.unsteady or self.head.unsteady else None
        facts = _Facts(lost=differ.lost, gained=differ.gained, allowed=allowed, by_group=by_group)
        verdict, reasons = _verdict(metrics, pins, facts, alpha=1.0 - settings.confidence)
        return SelectorCheck(
            dataset=self.head.dataset,
            selector=self.head.selector,
            verdict=verdict,
            reasons=reasons,
            compared=len(same.queries),
            left_out=same.left_out,
            changes=changes,
            swaps=differ.swaps,
            causes=causes,
            metrics=metrics,
            pins=pins,
            lost=differ.lost,
            gained=differ.gained,
            needing=len(needing),
            unsteady=len({*self.base.unsteady, *self.head.unsteady}.intersection(needing)),
            allowed=allowed,
            notices=(*same.notices, *self._notices(metrics)),
            differs=_differs(self.base, self.head, same.renamed),
            texts=_texts(changes, self.base, self.head),
            reused=self.head.reused,
        )

    def _pins_explained(
        self, settings: Settings, pins: tuple[PinFailure, ...], changes: tuple[Change, ...]
    ) -> tuple[PinFailure, ...]:
        """The pins that do not hold, with why."""
        if not pins:
            return ()
        from ctxbench.evaluation.gate.pin_causes import explained_pins  # most checks find nothing to explain

        same = self.comparable
        return explained_pins(settings.pins, self.base, self.head, changes, queries=same.queries, renamed=same.renamed)

    def _by_group(self) -> tuple[int, int]:
        """How many groups of queries lost more required items than they gained, and how many gained more."""
        net: Counter[str] = Counter()
        for one in self.differences.changes:
            if one.required:
                net[self.head.queries[one.query].group] += 1 if one.lost else -1
        return sum(count > 0 for count in net.values()), sum(count < 0 for count in net.values())

    def _notices(self, metrics: Sequence[Judged]) -> Iterator[str]:
        base, head = self.base, self.head
        if swaps := self.differences.swaps:
            what = f"{queries_text(len(swaps))} differ{'s' if len(swaps) == 1 else ''} only among scores that"
            yield f"{what} noise may exchange (at most 1e-5 apart), counted as the same ({named(swaps)})"
        unsteady = [one for one in self.comparable.queries if one in {*base.unsteady, *head.unsteady}]
        if unsteady:
            what = f"{queries_text(len(unsteady))} answered otherwise from time to time ({named(unsteady)})"
            yield f"{what}: in the metrics, but not among items lost and gained"
        for side, which in ((base, "baseline"), (head, "now")):
            spread = [
                f"{metric.metric} {size(parse_metric(metric.metric), side.spread[metric.metric])}"
                for metric in metrics
                if metric.metric in side.spread
            ]
            if spread:
                yield f"spread of the means over {side.repeats} repeats, {which}: {', '.join(spread)}"
        for one in metrics:
            if not one.comparison.n:
                yield f"{one.metric} applies to none of the {queries_text(len(self.comparable.queries))}"
        yield from _impossible(base, head, self.comparable)
        if self.differences.changes and _decided_alike(base, head):
            yield _undetermined(head)


def _impossible(base: Snapshot, head: Snapshot, comparable: Comparable) -> Iterator[str]:
    """That queries which could be complete at the base cannot be, whatever is offered: items are gone or disabled.

    An item that was not offered before is not lost, so that nothing else would tell.
    """
    old = {new: name for name, new in comparable.renamed.items()}
    gone: dict[str, None] = {}
    queries = []
    for query in comparable.queries:
        groups = head.queries[query].required
        lacking = [one for one in groups if not _can_be_met(one, head, query)]
        as_was = [tuple(old.get(name, name) for name in one) for one in (groups if lacking else ())]
        if lacking and all(_can_be_met(one, base, query) for one in as_was):
            queries.append(query)
            gone |= dict.fromkeys(name for one in lacking for name in one if old.get(name, name) in base.items)
    if queries:
        what = "no item is left that would meet what they require"
        if len(queries) == 1:
            what = "no item is left that would meet what it requires"
        yield f"{queries_text(len(queries))} can no longer be complete: {what} ({named([*gone])}; {named(queries)})"


def _can_be_met(group: Sequence[str], side: Snapshot, query: str) -> bool:
    """Whether one of some alternatives can be offered, or is held by the session."""
    return any(one in side.items for one in group) or not {*group}.isdisjoint(offered_ids(side.answers, query))


def _undetermined(head: Snapshot) -> str:
    """Why answers may differ although all that is known to decide them is the same."""
    what = f"{head.selector} answers otherwise though catalog, queries, parameters, model and code are the same"
    if head.identity.outside:
        return f"{what}: it is not deterministic, or was changed; ask it repeatedly (repeats)"
    return f"{what}: it is not deterministic"


def _explained(
    base: Snapshot, head: Snapshot, changes: tuple[Change, ...], renamed: Mapping[str, str]
) -> tuple[tuple[Change, ...], tuple[CauseGroup, ...]]:
    """The changes with their causes, and grouped by them."""
    if not changes:
        return (), ()
    from ctxbench.evaluation.gate.cause_groups import grouped  # most checks find nothing to explain
    from ctxbench.evaluation.gate.causes import explain

    explained = explain(base, head, changes, renamed)
    return explained, grouped(explained, base, head, renamed)


def _differs(base: Snapshot, head: Snapshot, renamed: Mapping[str, str]) -> str:
    """What is under test and differs, in words."""
    if _decided_alike(base, head):
        return ""
    from ctxbench.evaluation.gate.altered import what_changed

    found = what_changed(base, head, renamed)
    return str(found) if found else ""


def _decided_alike(base: Snapshot, head: Snapshot) -> bool:
    """Whether everything that decides the answers of a deterministic selector is the same."""
    sides = (base, head)
    one, other = base.identity, head.identity
    if any(getattr(one, name) != getattr(other, name) for name in ("selector", "embedder", "tokens", "versions")):
        return False
    items = [[(name, fact.hash) for side in (one.items, one.disabled) for name, fact in side.items()] for one in sides]
    return items[0] == items[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """Required items lost and gained.

    Attributes:
        lost, gained: how many.
        allowed: how many more may be lost than gained.
        by_group: where the selector is not deterministic, how many groups of queries lost net and how many gained net:
            items of one group come and go together, so that groups alone are evidence. None = they are facts.
    """

    lost: int
    gained: int
    allowed: int
    by_group: tuple[int, int] | None

    @property
    def p(self) -> float:
        """Of so many groups of either, if each is as likely: the exact McNemar test; 0 where they are facts."""
        return 0.0 if self.by_group is None else mcnemar_exact(*self.by_group)

    @property
    def too_many(self) -> str:
        """What is said where more are lost than allowed; else empty."""
        net = self.lost - self.gained
        if net <= self.allowed:
            return ""
        what = f"{net} more required item{'' if net == 1 else 's'} lost than gained"
        return f"{what}, {self.allowed} allowed ({self.lost} lost, {self.gained} gained)"


def _verdict(
    metrics: Sequence[Judged], pins: Sequence[PinFailure], facts: _Facts, *, alpha: float
) -> tuple[Verdict, tuple[str, ...]]:
    """The worst of metrics, lost items and pins, with the reasons for it, or for it to be no worse."""
    by = {verdict: [one for one in metrics if one.verdict is verdict] for verdict in Verdict}
    worse = [f"pin broken, query {one.query}: {one.message}" for one in pins]
    unsure = []
    if facts.too_many and facts.p <= alpha:
        worse.append(facts.too_many)
    elif facts.by_group is not None and facts.too_many:
        lost, gained = facts.by_group
        groups = f"{lost} group{'' if lost == 1 else 's'} of queries lost net, {gained} gained"
        what = f"{facts.too_many}, by a selector that is not deterministic"
        unsure.append(f"{what}: it may be chance ({groups}, p = {facts.p:.2g})")
    for metric in by[Verdict.WORSE]:
        worse.append(f"{_moved(metric)}, more than {_tolerated(metric)}{_evidence(metric)}")
    if worse:
        return Verdict.WORSE, tuple(worse)
    if unsure or by[Verdict.CANNOT_TELL]:
        return Verdict.CANNOT_TELL, (*unsure, *map(_untold, by[Verdict.CANNOT_TELL]))
    if by[Verdict.BETTER]:
        return Verdict.BETTER, tuple(f"{_moved(one)}{_evidence(one)}" for one in by[Verdict.BETTER])
    return Verdict.SAME, (_same(metrics, facts),)


def _moved(one: Judged) -> str:
    found = one.comparison
    metric = parse_metric(one.metric)
    levels = f"{level(metric, found.base)} -> {level(metric, found.other)}"
    beyond = one.tolerance if abs(found.difference) > one.tolerance else None
    return f"{one.metric} {levels} ({moved(metric, found.difference, beyond=beyond)})"


def _tolerated(one: Judged) -> str:
    return f"the {size(parse_metric(one.metric), one.tolerance)} tolerated"


def _evidence(one: Judged) -> str:
    """How sure that is."""
    return f", p = {one.comparison.p_holm:.2g}"


def _untold(one: Judged) -> str:
    needed = "" if one.comparison.needed is None else f"; {one.comparison.needed:,} queries would tell"
    return f"{_moved(one)}: more than {_tolerated(one)}, but {_by_chance(one)}{needed}"


def _by_chance(one: Judged) -> str:
    return f"not told apart from chance on {queries_text(one.comparison.n)} (p = {one.comparison.p_holm:.2g})"


def _same(metrics: Sequence[Judged], facts: _Facts) -> str:
    parts = []
    if facts.lost or facts.gained:
        lost = f"{facts.lost} required item{'' if facts.lost == 1 else 's'} lost"
        parts.append(f"{lost}, {facts.gained} gained, {facts.allowed} net allowed")
    for one in metrics:
        if beyond(one.comparison, one.tolerance):  # for the worse, it would not be the same
            what = f"{_moved(one)}: for the better by more than {_tolerated(one)}"
            parts.append(f"{what}, but {_by_chance(one)}")
        elif one.comparison.n and one.comparison.difference:
            parts.append(f"{_moved(one)} within {_tolerated(one)}")
    return "; ".join(parts) or "no required item lost, no metric moved"


def _texts(changes: Sequence[Change], base: Snapshot, head: Snapshot) -> Mapping[str, str]:
    """What the queries with changes ask and the items of changes say; nothing of what is kept out."""
    found = {}
    for query in dict.fromkeys(one.query for one in changes):
        found[query] = head.queries[query].text
    for item in dict.fromkeys(one.item for one in changes):
        fact = head.items.get(item) or base.items.get(item)
        row = (fact.row if fact is not None else None) or {}
        found[item] = str(row.get("description") or row.get("text") or "")
    return {name: text for name, text in found.items() if text}
