"""Decides the verdict on a selector: the worst of pins, requirements, lost items and metrics, with the reasons.

Of a selector that is known to answer alike whenever it is asked, what was lost and what metrics came to are facts of
these queries, and no p-value stands beside them: chance is then in which queries there are, and what is said is whether
they are enough to tell it of others like them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ctxbench.bench.metrics import parse_metric
from ctxbench.bench.stats import mcnemar_exact
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.gate.comparability import Comparability
from ctxbench.gate.metric_verdicts import exceeds
from ctxbench.gate.model import MetricVerdict, PinFailure, SelectorCheck, UnmetRequirement, Verdict
from ctxbench.gate.pins import exclusion_reason
from ctxbench.gate.snapshots import SelectorSnapshot, offered_ids
from ctxbench.gate.value_texts import first_ids, levels, signed_difference, size
from ctxbench.io.visible import count

if TYPE_CHECKING:
    from ctxbench.sources.mcp.server_files import CapturedServer

_ADDED, _TOTAL = "tokens", "total_tokens"  # of what is added to a prompt; and with what its session holds


@dataclass(frozen=True, slots=True, kw_only=True)
class LossFacts:
    """What was lost by a selector, which decides its verdict beside metrics and pins.

    Attributes:
        unmet: what queries require, and nothing can meet any more; empty where that is allowed.
        lost, gained: how many.
        allowed: how many more may be lost than gained.
        by_group: where the selector is not deterministic, how many groups of queries lost net and how many gained net:
            items of one group come and go together, so that groups alone are evidence. None = they are facts.
        deterministic: whether it is known to answer alike whenever it is asked.
    """

    unmet: Sequence[UnmetRequirement]
    lost: int
    gained: int
    allowed: int
    by_group: tuple[int, int] | None
    deterministic: bool

    @property
    def p(self) -> float:
        """The p-value of the groups that lost and gained, by the exact McNemar test; 0 where losses are facts."""
        return 0.0 if self.by_group is None else mcnemar_exact(*self.by_group)

    @property
    def too_many(self) -> str:
        """The reason where more required items are lost than allowed; else empty."""
        net = self.lost - self.gained
        if net <= self.allowed:
            return ""
        what = f"{net} more required item{'' if net == 1 else 's'} lost than gained"
        return f"{what}, {self.allowed} allowed ({self.lost} lost, {self.gained} gained)"


def decide_verdict(
    metrics: Sequence[MetricVerdict], pins: Sequence[PinFailure], facts: LossFacts, *, alpha: float
) -> tuple[Verdict, tuple[str, ...]]:
    """Decide the verdict: the worst of pins, losses and metrics, with at least one reason.

    Args:
        metrics: judged.
        pins: that do not hold.
        facts: what else is known.
        alpha: at or below which lost items of a selector that is not deterministic are no chance.
    """
    by = {verdict: [one for one in metrics if one.verdict is verdict] for verdict in Verdict}
    worse = [f"pin broken, query {one.query}: {one.message}" for one in pins]
    worse += [unmet_text(facts.unmet)] if facts.unmet else []
    unsure = []
    if facts.too_many and facts.p <= alpha:
        worse.append(facts.too_many)
    elif facts.by_group is not None and facts.too_many:
        lost, gained = facts.by_group
        groups = f"{lost} group{'' if lost == 1 else 's'} of queries lost net, {gained} gained"
        what = f"{facts.too_many}, by a selector that is not deterministic"
        unsure.append(f"{what}: it may be chance ({groups}, p = {facts.p:.2g})")
    for metric in by[Verdict.WORSE]:
        worse.append(f"{_change_text(metric)}, more than {_tolerance_text(metric)}{_p_text(metric, facts)}")
    if worse:
        return Verdict.WORSE, tuple(worse)
    if unsure or by[Verdict.CANNOT_TELL]:
        return Verdict.CANNOT_TELL, (
            *unsure,
            *(undecided_text(one, deterministic=facts.deterministic) for one in by[Verdict.CANNOT_TELL]),
        )
    moved = _moved_into_sessions(metrics)
    if better := [one for one in by[Verdict.BETTER] if not (moved and one.metric == _ADDED)]:
        return Verdict.BETTER, (*(f"{_change_text(one)}{_p_text(one, facts)}" for one in better), *moved)
    return Verdict.SAME, ("; ".join((*moved, _same_reason(metrics, facts, told=_ADDED if moved else ""))),)


def _moved_into_sessions(metrics: Sequence[MetricVerdict]) -> tuple[str, ...]:
    """That fewer tokens are added only because sessions hold them now, which saves nothing; empty if it is not so.

    Nothing is saved where the total fell by no more than is tolerated of the tokens that are added.
    """
    by_name = {one.metric: one for one in metrics}
    added, total = by_name.get(_ADDED), by_name.get(_TOTAL)
    if added is None or total is None or added.verdict is not Verdict.BETTER:
        return ()
    if -total.comparison.difference > added.tolerance:
        return ()
    return (f"{_change_text(added)}, which the session holds now: {_change_text(total)}",)


def _change_text(one: MetricVerdict) -> str:
    found = one.comparison
    metric = parse_metric(one.metric)
    sides = levels(metric, found.base, found.other)
    exceeds = one.tolerance if abs(found.difference) > one.tolerance else None
    return f"{one.metric} {sides} ({signed_difference(metric, found.difference, beyond=exceeds)})"


def _tolerance_text(one: MetricVerdict) -> str:
    return f"the {size(parse_metric(one.metric), one.tolerance)} tolerated"


def _p_text(one: MetricVerdict, facts: LossFacts) -> str:
    """The p-value of a metric, for the end of a sentence; empty for a deterministic selector."""
    return "" if facts.deterministic else f", {_p_value(one)}"


def _p_value(one: MetricVerdict) -> str:
    """`p = 0.031`; `p <= 0.0002` where random flips know no more of it."""
    return f"p {'<=' if one.comparison.p_holm_at_floor else '='} {one.comparison.p_holm:.2g}"


def undecided_text(one: MetricVerdict, *, deterministic: bool) -> str:
    """A metric that moved by more than is tolerated, and why that cannot be told; in a sentence."""
    why = undecided_reason(one, deterministic=deterministic)
    return f"{_change_text(one)}: more than {_tolerance_text(one)}, but {why}"


def undecided_reason(one: MetricVerdict, *, deterministic: bool) -> str:
    """Why a difference cannot be told: too few queries, and how many would tell, where that is known."""
    needed = "" if one.comparison.needed is None else f"; {one.comparison.needed:,} queries would tell"
    return f"{_weak_evidence_text(one, deterministic=deterministic)}{needed}"


def _weak_evidence_text(one: MetricVerdict, *, deterministic: bool) -> str:
    queries = count(one.comparison.n, "query", "queries")
    if deterministic:
        are, them = ("is", "it") if one.comparison.n == 1 else ("are", "them")
        return f"{queries} {are} too few to tell it of others like {them}"
    return f"not told apart from chance on {queries} ({_p_value(one)})"


def _same_reason(metrics: Sequence[MetricVerdict], facts: LossFacts, *, told: str = "") -> str:
    """Why nothing moved enough; one metric may be told already."""
    parts = []
    if facts.lost or facts.gained:
        lost = f"{facts.lost} required item{'' if facts.lost == 1 else 's'} lost"
        parts.append(f"{lost}, {facts.gained} gained (a net loss of {facts.allowed} is allowed)")
    for one in metrics:
        if one.metric == told:
            continue
        if exceeds(one.comparison, one.tolerance):
            rises = one.comparison.difference > 0
            way = "better" if rises == (parse_metric(one.metric).declaration.better == "higher") else "worse"
            what = f"{_change_text(one)}: for the {way} by more than {_tolerance_text(one)}"
            parts.append(f"{what}, but {_weak_evidence_text(one, deterministic=facts.deterministic)}")
        elif one.comparison.n and one.comparison.difference:
            parts.append(f"{_change_text(one)} within {_tolerance_text(one)}")
    return "; ".join(parts) or ("no required item lost" if told else "no required item lost, no metric moved")


def with_servers(check: SelectorCheck, servers: Sequence[CapturedServer]) -> SelectorCheck:
    """The check with the servers that were not asked among its reasons; it cannot be told where one is outdated.

    Args:
        check: over the tools as captured.
        servers: of the dataset's agent that were not asked.
    """
    if not servers:
        return check
    told = tuple(server_reasons(servers))
    if not any(one.outdated for one in servers) or check.verdict not in (Verdict.SAME, Verdict.BETTER):
        return replace(check, reasons=(*check.reasons, *told), servers=tuple(servers))
    unless = tuple(f"as captured, it is {check.verdict}: {reason}" for reason in check.reasons)
    return replace(check, verdict=Verdict.CANNOT_TELL, reasons=(*told, *unless), servers=tuple(servers))


def server_reasons(servers: Sequence[CapturedServer]) -> Iterator[str]:
    """Sentences on servers that were not asked: one for each that is outdated or absent, then one for all of a date."""
    for one in servers:
        if one.error:
            why = one.error.splitlines()[0].partition("; its last lines")[0]  # what a program printed is not quoted
            yield f"server {one.name} did not answer, so that its tools as captured {_day(one)} were checked: {why}"
        elif one.absent:
            ask = ": ask it (--recapture)" if one.outdated else ""
            yield f"server {one.name} was never captured, so that none of its tools were checked{ask}"
        elif one.changed:
            what = f"server {one.name} was not asked, and {first_ids(one.changed)} changed since it was captured"
            yield f"{what} {_day(one)}: ask it again (--recapture)"
        elif one.unverified:
            what = f"server {one.name} was not asked, and its snapshot {_day(one)} does not say what was then in"
            yield f"{what} {first_ids(one.unverified)}: ask it again (--recapture)"
    by = group_pairs(((_day(one), one.verified), one.name) for one in servers if not (one.outdated or one.absent))
    for (day, verified), names in by.items():
        alone = len(names) == 1
        what = f"server {names[0]} was" if alone else f"servers {', '.join(names)} were"
        tools = "its tools are" if alone else "their tools are"
        since = "" if verified else ", and not verified since: no files of the repository are known that give them"
        yield f"{what} not asked: {tools} as captured {day}{since}"


def _day(server: CapturedServer) -> str:
    return f"on {server.captured[:10]}" if server.captured else "on an unknown day"


def unmet_requirements(
    base: SelectorSnapshot, head: SelectorSnapshot, comparability: Comparability
) -> tuple[UnmetRequirement, ...]:
    """Find requirements that could be met at the base and cannot be at the head, whatever a selector does.

    Whether it was offered makes no difference: what no selector offered is not lost, so that nothing else would tell.

    Args:
        base, head: the two.
        comparability: the queries to compare, and renamed items.

    Returns:
        One for each set of alternatives (of one item, mostly), in the order of the queries.
    """
    if head.items is base.items:
        return ()  # no selector was asked, since nothing has changed
    old = {new: name for name, new in comparability.renamed.items()}
    found: dict[tuple[str, ...], list[str]] = {}
    for query in comparability.queries:
        for group in head.queries[query].required:
            if _can_be_met(group, head, query) or not _can_be_met([old.get(one, one) for one in group], base, query):
                continue
            left = tuple(name for name in group if old.get(name, name) in base.items)
            found.setdefault(left or tuple(group), []).append(query)
    return tuple(
        UnmetRequirement(
            items=items,
            why=" or ".join(dict.fromkeys(_item_reason(one, head) for one in items)),
            queries=tuple(ids),
            before=sum(
                not {old.get(one, one) for one in items}.isdisjoint(offered_ids(base.answers, query)) for query in ids
            ),
        )
        for items, ids in found.items()
    )


def unmet_text(unmet: Sequence[UnmetRequirement]) -> str:
    """All unmet requirements in a sentence.

    Args:
        unmet: at least one.
    """
    items = [*dict.fromkeys(item for one in unmet for item in one.items)]
    queries = [*dict.fromkeys(query for one in unmet for query in one.queries)]
    why = " or ".join(dict.fromkeys(one.why for one in unmet))
    before = sum(one.before for one in unmet)
    what = f"required by {count(len(queries), 'query', 'queries')}, offered to {before or 'none'} before"
    return f"{what}, and nothing else would do: {first_ids(items)} ({why}; {first_ids(queries)})"


def _can_be_met(group: Sequence[str], side: SelectorSnapshot, query: str) -> bool:
    """Whether one of some alternatives can be offered, or is held by the session."""
    asked = side.queries[query]
    if any(one in side.items and not exclusion_reason(one, asked, side.items[one]) for one in group):
        return True
    return not {*group}.isdisjoint(offered_ids(side.answers, query))


def _item_reason(item: str, head: SelectorSnapshot) -> str:
    fact = head.items.get(item)
    if fact is not None and fact.row is not None and fact.row.get("include") == "manual":
        return "included by hand only"
    from ctxbench.gate.input_differences import absence_text  # most checks find nothing gone

    return absence_text(item, head)
