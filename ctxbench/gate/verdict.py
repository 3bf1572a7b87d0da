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
    """The losses of a selector, which decide its verdict together with metrics and pins.

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
        message = f"{net} more required item{'' if net == 1 else 's'} lost than gained"
        return f"{message}, {self.allowed} allowed ({self.lost} lost, {self.gained} gained)"


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
    by = {verdict: [metric for metric in metrics if metric.verdict is verdict] for verdict in Verdict}
    worse = [f"pin broken, query {failure.query}: {failure.message}" for failure in pins]
    worse += [unmet_text(facts.unmet)] if facts.unmet else []
    unsure = []
    if facts.too_many and facts.p <= alpha:
        worse.append(facts.too_many)
    elif facts.by_group is not None and facts.too_many:
        lost, gained = facts.by_group
        groups = f"{lost} group{'' if lost == 1 else 's'} of queries lost net, {gained} gained"
        message = f"{facts.too_many}, by a selector that is not deterministic"
        unsure.append(f"{message}: it may be chance ({groups}, p = {facts.p:.2g})")
    for metric in by[Verdict.WORSE]:
        worse.append(f"{_change_text(metric)}, more than {_tolerance_text(metric)}{_p_text(metric, facts)}")
    if worse:
        return Verdict.WORSE, tuple(worse)
    if unsure or by[Verdict.CANNOT_TELL]:
        return Verdict.CANNOT_TELL, (
            *unsure,
            *(undecided_text(metric, deterministic=facts.deterministic) for metric in by[Verdict.CANNOT_TELL]),
        )
    moved = _moved_into_sessions(metrics)
    if better := [metric for metric in by[Verdict.BETTER] if not (moved and metric.metric == _ADDED)]:
        return Verdict.BETTER, (*(f"{_change_text(metric)}{_p_text(metric, facts)}" for metric in better), *moved)
    return Verdict.SAME, ("; ".join((*moved, _same_reason(metrics, facts, reported=_ADDED if moved else ""))),)


def _moved_into_sessions(metrics: Sequence[MetricVerdict]) -> tuple[str, ...]:
    """That fewer tokens are added only because sessions hold them now, which saves nothing; empty if it is not so.

    Nothing is saved where the total fell by no more than is tolerated of the tokens that are added.
    """
    by_name = {metric.metric: metric for metric in metrics}
    added, total = by_name.get(_ADDED), by_name.get(_TOTAL)
    if added is None or total is None or added.verdict is not Verdict.BETTER:
        return ()
    if -total.comparison.difference > added.tolerance:
        return ()
    return (f"{_change_text(added)}, which the session holds now: {_change_text(total)}",)


def _change_text(verdict: MetricVerdict) -> str:
    comparison = verdict.comparison
    metric = parse_metric(verdict.metric)
    sides = levels(metric, comparison.base, comparison.other)
    exceeds = verdict.tolerance if abs(comparison.difference) > verdict.tolerance else None
    return f"{verdict.metric} {sides} ({signed_difference(metric, comparison.difference, beyond=exceeds)})"


def _tolerance_text(verdict: MetricVerdict) -> str:
    return f"the {size(parse_metric(verdict.metric), verdict.tolerance)} tolerated"


def _p_text(verdict: MetricVerdict, facts: LossFacts) -> str:
    """The p-value of a metric, for the end of a sentence; empty for a deterministic selector."""
    return "" if facts.deterministic else f", {_p_value(verdict)}"


def _p_value(verdict: MetricVerdict) -> str:
    """`p = 0.031`; `p <= 0.0002` where random flips know no more of it."""
    return f"p {'<=' if verdict.comparison.p_holm_at_floor else '='} {verdict.comparison.p_holm:.2g}"


def undecided_text(verdict: MetricVerdict, *, deterministic: bool) -> str:
    """A metric that moved by more than is tolerated, and why that is inconclusive; in a sentence."""
    why = undecided_reason(verdict, deterministic=deterministic)
    return f"{_change_text(verdict)}: more than {_tolerance_text(verdict)}, but {why}"


def undecided_reason(verdict: MetricVerdict, *, deterministic: bool) -> str:
    """Why a difference is inconclusive: too few queries, and how many would suffice, where that is known."""
    suffix = "" if verdict.comparison.needed is None else f"; {verdict.comparison.needed:,} queries would tell"
    return f"{_weak_evidence_text(verdict, deterministic=deterministic)}{suffix}"


def _weak_evidence_text(verdict: MetricVerdict, *, deterministic: bool) -> str:
    queries = count(verdict.comparison.n, "query", "queries")
    if deterministic:
        are, them = ("is", "it") if verdict.comparison.n == 1 else ("are", "them")
        return f"{queries} {are} too few to tell it of others like {them}"
    return f"not told apart from chance on {queries} ({_p_value(verdict)})"


def _same_reason(metrics: Sequence[MetricVerdict], facts: LossFacts, *, reported: str = "") -> str:
    """Why nothing moved enough; the metric `reported` is left out."""
    parts = []
    if facts.lost or facts.gained:
        lost = f"{facts.lost} required item{'' if facts.lost == 1 else 's'} lost"
        parts.append(f"{lost}, {facts.gained} gained (a net loss of {facts.allowed} is allowed)")
    for verdict in metrics:
        if verdict.metric == reported:
            continue
        if exceeds(verdict.comparison, verdict.tolerance):
            rises = verdict.comparison.difference > 0
            direction = "better" if rises == (parse_metric(verdict.metric).declaration.better == "higher") else "worse"
            message = f"{_change_text(verdict)}: for the {direction} by more than {_tolerance_text(verdict)}"
            parts.append(f"{message}, but {_weak_evidence_text(verdict, deterministic=facts.deterministic)}")
        elif verdict.comparison.n and verdict.comparison.difference:
            parts.append(f"{_change_text(verdict)} within {_tolerance_text(verdict)}")
    return "; ".join(parts) or ("no required item lost" if reported else "no required item lost, no metric moved")


def with_servers(check: SelectorCheck, servers: Sequence[CapturedServer]) -> SelectorCheck:
    """The check with the servers that were not asked among its reasons; inconclusive where one is outdated.

    Args:
        check: over the tools as captured.
        servers: of the dataset's agent that were not asked.
    """
    if not servers:
        return check
    reasons = tuple(server_reasons(servers))
    if not any(server.outdated for server in servers) or check.verdict not in (Verdict.SAME, Verdict.BETTER):
        return replace(check, reasons=(*check.reasons, *reasons), servers=tuple(servers))
    unless = tuple(f"as captured, it is {check.verdict}: {reason}" for reason in check.reasons)
    return replace(check, verdict=Verdict.CANNOT_TELL, reasons=(*reasons, *unless), servers=tuple(servers))


def server_reasons(servers: Sequence[CapturedServer]) -> Iterator[str]:
    """Sentences on servers that were not asked: one for each that is outdated or absent, then one for all of a date."""
    for server in servers:
        if server.error:
            why = server.error.splitlines()[0].partition("; its last lines")[0]  # what a program printed is not quoted
            text = f"server {server.name} did not answer, so that its tools as captured {_day(server)} were checked"
            yield f"{text}: {why}"
        elif server.absent:
            ask = ": ask it (--recapture)" if server.outdated else ""
            yield f"server {server.name} was never captured, so that none of its tools were checked{ask}"
        elif server.changed:
            text = f"server {server.name} was not asked, and {first_ids(server.changed)} changed since it was captured"
            yield f"{text} {_day(server)}: ask it again (--recapture)"
        elif server.unverified:
            text = f"server {server.name} was not asked, and its snapshot {_day(server)} does not say what was then in"
            yield f"{text} {first_ids(server.unverified)}: ask it again (--recapture)"
    by = group_pairs(
        ((_day(server), server.verified), server.name) for server in servers if not (server.outdated or server.absent)
    )
    for (day, verified), names in by.items():
        alone = len(names) == 1
        text = f"server {names[0]} was" if alone else f"servers {', '.join(names)} were"
        tools = "its tools are" if alone else "their tools are"
        since = "" if verified else ", and not verified since: no files of the repository are known that give them"
        yield f"{text} not asked: {tools} as captured {day}{since}"


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
    unmet: dict[tuple[str, ...], list[str]] = {}
    for query in comparability.queries:
        for group in head.queries[query].required:
            if _can_be_met(group, head, query) or not _can_be_met([old.get(name, name) for name in group], base, query):
                continue
            left = tuple(name for name in group if old.get(name, name) in base.items)
            unmet.setdefault(left or tuple(group), []).append(query)
    return tuple(
        UnmetRequirement(
            items=items,
            why=" or ".join(dict.fromkeys(_item_reason(item, head) for item in items)),
            queries=tuple(ids),
            before=sum(
                not {old.get(item, item) for item in items}.isdisjoint(offered_ids(base.answers, query))
                for query in ids
            ),
        )
        for items, ids in unmet.items()
    )


def unmet_text(unmet: Sequence[UnmetRequirement]) -> str:
    """All unmet requirements in a sentence.

    Args:
        unmet: at least one.
    """
    items = [*dict.fromkeys(item for requirement in unmet for item in requirement.items)]
    queries = [*dict.fromkeys(query for requirement in unmet for query in requirement.queries)]
    why = " or ".join(dict.fromkeys(requirement.why for requirement in unmet))
    before = sum(requirement.before for requirement in unmet)
    text = f"required by {count(len(queries), 'query', 'queries')}, offered to {before or 'none'} before"
    return f"{text}, and nothing else would do: {first_ids(items)} ({why}; {first_ids(queries)})"


def _can_be_met(group: Sequence[str], side: SelectorSnapshot, query: str) -> bool:
    """Whether one of some alternatives can be offered, or is in the session."""
    fact = side.queries[query]
    if any(item in side.items and not exclusion_reason(item, fact, side.items[item]) for item in group):
        return True
    return not {*group}.isdisjoint(offered_ids(side.answers, query))


def _item_reason(item: str, head: SelectorSnapshot) -> str:
    fact = head.items.get(item)
    if fact is not None and fact.row is not None and fact.row.get("include") == "manual":
        return "included by hand only"
    from ctxbench.gate.input_differences import absence_text  # most checks find nothing gone

    return absence_text(item, head)
