"""A check in a few lines: the selector, lost items, the most costly cause, its fix, and how to accept the change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ctxbench.gate.model import Cause, CauseGroup, CauseKind, MetricVerdict, SelectorCheck, Verdict
from ctxbench.gate.verdict import server_reasons, undecided_text
from ctxbench.io.visible import count
from ctxbench.report.gate import check_texts

_NAMED = 3  # lost items, and selectors, that are named
_LONGEST = 250  # characters of a reason and a cause
_ENDS = ("; ", ", but ", " (", ": ")  # where a reason or a cause that is longer may end, the best first
_LARGE = 5  # times the tolerance: a difference that is told in short even where it does not decide
_LONGEST_MEND = 250  # characters, with its price; one that is longer stands below only
_MEANT = {Verdict.BETTER: "so that the gain is held", Verdict.NOT_COMPARABLE: "if what differs is meant"}


def summary_sentences(
    selectors: Sequence[SelectorCheck], accept: str = "", *, first: str = "", pins: str = ""
) -> tuple[str, ...]:
    """Summarise a check in a few sentences; none where all is the same and no required item was lost.

    Servers that were not asked are named in any case.

    Args:
        selectors: what is worst first.
        accept: the command that would make the head the baseline; empty where there is none, or it would not help.
        first: what must be done before that; empty = nothing.
        pins: what to do about those that do not hold; empty where all hold.
    """
    return tuple(_sentences(selectors, accept, first=first, pins=pins))


def loss_note(selectors: Sequence[SelectorCheck]) -> str:
    """The end of a sentence about a good verdict: required items that were lost all the same; empty if none was."""
    n = sum(selector.lost for selector in selectors)
    if not n:
        return ""
    gained = sum(selector.gained for selector in selectors)
    also = f" and {gained:,} gained" if gained else ""
    verb = "was" if n == 1 else "were"
    return f", though {count(n, 'required item')} {verb} lost{also}: {_lost(selectors)}"


def _sentences(selectors: Sequence[SelectorCheck], accept: str, *, first: str, pins: str) -> Iterator[str]:
    differ = [selector for selector in selectors if selector.verdict is not Verdict.SAME]
    losing = [selector for selector in selectors if selector.lost]
    if differ:
        worst, *further = differ
        left = len(worst.reasons) - 1
        note = f"; {count(left, 'more reason')} below" if left else ""
        yield f"{check_texts.selector_name(worst)}: {_first_reason(worst.reasons[0])}{note}"
        if large := _large_undecided(worst):
            yield check_texts.sentence(f"not told either way: {large}")
        if further:
            yield check_texts.sentence(f"also {_by_verdict(further)}")
    if losing:
        yield f"lost: {_lost(losing)}"
    costliest = costliest_cause(selectors)
    if costliest is not None:
        cause, remedy, of = costliest
        is_single = len({group.cause for selector in selectors for group in selector.causes}) == 1
        named = differ[0] if differ else selectors[0]
        selector_note = "" if of is named else f" ({check_texts.selector_name(of)})"
        text = (
            f"{'cause' if is_single else 'most costly cause'}{selector_note}: {_clipped(check_texts.cause_text(cause))}"
        )
        yield (
            f"{text}; to mend it: {remedy}" if remedy and len(remedy) <= _LONGEST_MEND else text
        )  # half a mend is none
    reasons = differ[0].reasons[:1] if differ else ()
    servers = dict.fromkeys(reason for selector in selectors for reason in server_reasons(selector.servers))
    yield from (check_texts.sentence(reason) for reason in servers if reason not in reasons)
    if pins:
        yield pins
    if differ and accept:
        why = _MEANT.get(differ[0].verdict, "if it is meant")
        yield f"to accept it, {why}: {f'{first}, then ' if first else ''}{accept}"


def _first_reason(reason: str) -> str:
    """A reason; of one that is too long only the part before its colon."""
    clipped = _clipped(reason)
    opening, colon, _ = reason.partition(": ")
    return f"{opening}, as told below" if clipped != reason and colon and _clipped(opening) == opening else clipped


def _by_verdict(selectors: Sequence[SelectorCheck]) -> str:
    """Selectors by verdict: `worse: a on d and b on d; better: c on d`."""
    names: dict[Verdict, list[str]] = {}
    for selector in selectors:
        names.setdefault(selector.verdict, []).append(check_texts.selector_name(selector))
    return "; ".join(f"{verdict}: {check_texts.first_ones(titles, _NAMED)}" for verdict, titles in names.items())


def _lost(selectors: Sequence[SelectorCheck]) -> str:
    """Items with the queries that lost them, in whichever selector, what most lost first."""
    queries: dict[str, dict[str, None]] = {}
    for check in selectors:
        for change in check.changes:
            if change.lost and change.required:
                queries.setdefault(change.item, {})[change.query] = None
    ranked = sorted(queries.items(), key=lambda entry: -len(entry[1]))
    return check_texts.sentence(
        check_texts.first_ones(
            [f"{item} ({check_texts.first_ones(list(query_ids), _NAMED)})" for item, query_ids in ranked], _NAMED
        )
    )


def costliest_cause(selectors: Sequence[SelectorCheck]) -> tuple[Cause, str, SelectorCheck] | None:
    """The most costly cause over all selectors, with its suggested fix and its selector; None where none is known.

    The fix is that of one selector on one dataset: of the worst that lost something by this cause.
    Most required items lost net; of equals, the first of the worst selector. Where nothing required was lost, or tokens
    alone decided on the worst selector, what is to blame for the metric that decided.
    """
    by_cause: dict[tuple[str, Cause], list[tuple[SelectorCheck, CauseGroup]]] = {}
    for selector in () if selectors and tokens_decided(selectors[0]) else selectors:
        for group in selector.causes:
            if group.lost:
                by_cause.setdefault((selector.dataset, group.cause), []).append((selector, group))
    if by_cause:
        (_, cause), losing = min(
            by_cause.items(), key=lambda entry: sum(group.gained - group.lost for _, group in entry[1])
        )
        alike = [entry for (_, group_cause), entries in by_cause.items() if group_cause == cause for entry in entries]
        first = [entry for entry in alike if entry[0] is selectors[0]]  # the one that is told of, where it has a mend
        mends = [entry for entry in (*first, *losing) if entry[1].remedy]
        check, group = (mends or first or losing)[0]
        return cause, str(group.remedy), check
    for selector in selectors:
        for judged in selector.metrics:
            blame = metric_cause(selector, judged)
            if (
                blame is not None
                and judged.verdict is selector.verdict
                and judged.verdict in check_texts.CAUSE_VERDICTS
            ):
                return blame.cause, str(blame.remedy), selector
    return None


def tokens_decided(check: SelectorCheck) -> bool:
    """Whether a verdict is what it is for nothing but prompt tokens."""
    facts = check.pins or check.unmet or check.lost - check.gained > check.allowed
    judged = [
        metric
        for metric in check.metrics
        if metric.verdict in check_texts.CAUSE_VERDICTS and metric.verdict is check.verdict
    ]
    return not facts and bool(judged) and all(map(check_texts.counts_tokens, judged))


def metric_cause(check: SelectorCheck, judged: MetricVerdict) -> CauseGroup | None:
    """The cause that did most to a metric: to tokens the one that adds most, else the first; None where none is.

    What new items add is less by what they pushed out, which they replace.
    """
    if check_texts.counts_tokens(judged):
        return max(check.causes, key=lambda group: group.tokens + _replaced_tokens(group, check.causes), default=None)
    return next((group for group in check.causes if group.lost or group.gained or group.others), None)


def _replaced_tokens(group: CauseGroup, groups: Sequence[CauseGroup]) -> int:
    """The tokens, 0 or less, of what was pushed out by the new items of a group; 0 for groups of other causes."""
    if group.cause.kind is not CauseKind.NEW:
        return 0
    new = set(group.cause.subjects)
    pushed = (candidate for candidate in groups if candidate.cause.kind is CauseKind.CROWDED)
    return sum(
        candidate.tokens
        for candidate in pushed
        if new.issuperset(candidate.cause.subjects) and candidate.cause.subjects
    )


def _large_undecided(check: SelectorCheck) -> str:
    """The largest inconclusive difference for the worse, with the reason; empty if none is large or not yet named."""
    reason = check.reasons[0] if check.reasons else ""
    undecided = [metric for metric in check.metrics if metric.verdict is Verdict.CANNOT_TELL]
    left = [metric for metric in undecided if not reason.startswith(f"{metric.metric} ")]
    largest = max(left, key=_in_tolerances, default=None)
    if largest is None or _in_tolerances(largest) <= _LARGE:
        return ""
    return undecided_text(largest, deterministic=check.deterministic)


def _in_tolerances(judged: MetricVerdict) -> float:
    """The size of a difference, in tolerances of its metric."""
    return abs(judged.comparison.difference) / judged.tolerance if judged.tolerance else math.inf


def _clipped(text: str) -> str:
    """A reason or a cause that is very long, up to the end of a part of it; cut behind a word where no part ends."""
    if len(text) <= _LONGEST:
        return check_texts.clipped(text, _LONGEST)
    parts = (text[:_LONGEST].rpartition(end)[0] for end in _ENDS)
    clause = next((part for part in parts if part and part.count("(") == part.count(")")), "")
    return clause or check_texts.clipped(text, _LONGEST)
