"""Pins, and the verdict on a selector with its reasons.

The verdict is the worst of pins, unmet requirements, lost items and metrics. If a selector is deterministic, losses and
metric values are facts of these queries and have no p-value; chance is then in which queries there are.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from ctxbench.catalogs.mcp_config import CapturedServer
from ctxbench.datasets.queries import group_pairs
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.statistics import mcnemar_exact
from ctxbench.gate.cause_finder import SnapshotPair
from ctxbench.gate.causes import find_fix
from ctxbench.gate.comparability import Comparability, items_of
from ctxbench.gate.inputs import absence_text
from ctxbench.gate.results import (
    Cause,
    Change,
    ItemChange,
    MetricVerdict,
    MinimumVerdict,
    PinFailure,
    SelectorCheck,
    UnmetRequirement,
    Verdict,
    exceeds,
    phrase_cause,
)
from ctxbench.gate.settings import Pin
from ctxbench.gate.snapshots import (
    AnswerFact,
    ItemFact,
    QueryFact,
    SelectorSnapshot,
    answer_tokens,
    first_few,
    first_ids,
    levels,
    offered_ids,
    signed_difference,
    size,
)
from ctxbench.io.errors import Fault, Message, count, suggest
from ctxbench.model.items import suggest_items

ITEMS, TOKENS = "items", "tokens"  # what a failure is about that is about no single item


def pin_failures(
    pins: Iterable[Pin],
    snapshot: SelectorSnapshot,
    *,
    renamed: Mapping[str, str] = MappingProxyType({}),
    before: SelectorSnapshot | None = None,
) -> tuple[PinFailure, ...]:
    """Find the pins that do not hold in a snapshot, in the order of the pins, then of the queries.

    A forbidden item must not be offered under its new name (`renamed`, new id by old) or as a new copy either; a
    required item must be named by its current id. A pin of a tag also applies to the queries that had the tag
    `before`: removing a tag does not remove the pin.

    Session items count as offered, but not as items or tokens. A pin for another dataset or selector, or for a query
    or tag that the snapshot lacks, gives no failure here (see `unknown_pins`).
    """
    failures = []
    pins = [*pins]
    aliases = _aliases([item for pin in pins for item in pin.must_not_include], snapshot, before, renamed)
    for pin in pins:
        for query in _pin_queries(pin, snapshot, before):
            fact = snapshot.answers.get(query)
            wrong = (
                [("", "there is no answer")]
                if fact is None or fact.error
                else _violations(pin, fact, snapshot, aliases)
            )
            if not pin.query and pin.tag not in snapshot.queries[query].tags:
                wrong = [
                    (about, Message("gate.pin-of-removed-tag", failure=text, tag=pin.tag)) for about, text in wrong
                ]
            failures += [
                PinFailure(pin=pin_text(pin), line=pin.line, query=query, message=message, about=about)
                for about, message in wrong
            ]
    return tuple(failures)


def pin_text(pin: Pin) -> str:
    """A pin in words: `query q17 must include rule:code%20review, at most 10 items`."""
    who = f"query {pin.query}" if pin.query else f"tag {pin.tag}"
    demands = (
        (bool(pin.must_include), f"must include {', '.join(pin.must_include)}"),
        (bool(pin.must_not_include), f"must not include {', '.join(pin.must_not_include)}"),
        (pin.at_most_items is not None, f"at most {count(pin.at_most_items or 0, 'item')}"),
        (pin.at_most_tokens is not None, f"at most {count(pin.at_most_tokens or 0, 'token')}"),
    )
    return f"{who} {', '.join(text for applies, text in demands if applies)}"


def unknown_pins(
    pins: Iterable[Pin],
    bases: Sequence[SelectorSnapshot],
    heads: Sequence[SelectorSnapshot],
    *,
    path: Path | None = None,
    folders: Mapping[str, Path] = MappingProxyType({}),
) -> list[Fault]:
    """Find datasets, selectors, queries, tags and items that pins name and that do not exist or are not used.

    A query or tag must be known to the head, or its pin would always hold, unless its dataset or selector is gone,
    which the check reports. Everything else may be known to either side.

    Args:
        pins: in any order.
        bases, heads: both sides of a check.
        path: the gate file.
        folders: folders of the user's datasets, by name.
    """
    sides = _Sides(bases, heads, folders)
    return [Fault(f"pin: {message}", path, pin.line) for pin in pins for message in sides.unknown_names(pin)]


def _pin_queries(pin: Pin, snapshot: SelectorSnapshot, before: SelectorSnapshot | None = None) -> list[str]:
    """The queries of a snapshot that a pin is about, by the tags that they have or had before."""
    if pin.dataset not in ("", snapshot.dataset) or pin.selector not in ("", snapshot.selector):
        return []
    if pin.query:
        return [pin.query] if pin.query in snapshot.queries else []
    had = {name for name, query in before.queries.items() if pin.tag in query.tags} if before is not None else ()
    return [name for name, query in snapshot.queries.items() if pin.tag in query.tags or name in had]


def _aliases(
    forbidden: Sequence[str], snapshot: SelectorSnapshot, before: SelectorSnapshot | None, renamed: Mapping[str, str]
) -> dict[str, list[str]]:
    """The other ids of forbidden items: new names, and new items with the same description, text and schema."""
    aliases = {item: [renamed[item]] if item in renamed else [] for item in forbidden}
    new = [fact for name, fact in snapshot.items.items() if before is not None and name not in before.items]
    if before is None or not (new and forbidden):
        return aliases
    from ctxbench.labelling.rebase import item_content  # takes 20 ms, and an unchanged check does not need it

    copies = group_pairs((item_content(item), item.id) for item in items_of(new))
    for old in items_of(before.items[item] for item in aliases if item in before.items):
        names = copies.get(item_content(old), []) if item_content(old) else []
        aliases[old.id] += [name for name in names if name not in aliases[old.id]]
    return aliases


def _violations(
    pin: Pin, fact: AnswerFact, snapshot: SelectorSnapshot, aliases: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """How an answer breaks a pin: what each failure is about, and a message; `aliases` as `_aliases` gives them."""
    offered = {candidate.id: candidate for candidate in fact.offered}
    yield from (
        (item, Message("gate.pin-not-offered", item=item, why=_absence_reason(item, fact, snapshot)))
        for item in pin.must_include
        if item not in offered
    )
    for item in pin.must_not_include:
        yield from (
            (
                item,
                Message(
                    "gate.pin-offered", item=candidate.id, origin=f"{candidate.origin}{_score_text(candidate.score)}"
                ),
            )
            for candidate in (offered[name] for name in (item, *aliases.get(item, ())) if name in offered)
        )
    added = [candidate.id for candidate in fact.offered if candidate.origin != "session"]
    if pin.at_most_items is not None and len(added) > pin.at_most_items:
        yield ITEMS, Message("gate.pin-items", n=len(added), excess=len(added) - pin.at_most_items)
    if pin.at_most_tokens is not None and (tokens := answer_tokens(fact, snapshot)) > pin.at_most_tokens:
        yield TOKENS, Message("gate.pin-tokens", n=tokens, excess=tokens - pin.at_most_tokens)


def _absence_reason(item: str, fact: AnswerFact, snapshot: SelectorSnapshot) -> str:
    if item not in snapshot.items:
        return "disabled" if item in snapshot.disabled else "not in the catalog"
    for candidate in fact.near:
        if candidate.id == item:
            return f"{candidate.rule or 'excluded'}{_score_text(candidate.score)}"
    return exclusion_reason(item, snapshot.queries[fact.query], snapshot.items[item]) or Message("gate.item-not-found")


def exclusion_reason(item: str, query: QueryFact, fact: ItemFact) -> str:
    """Why no search for a query may offer an item; empty if one may, or if that is not known."""
    if item in query.lists.get("removed", ()):
        return Message("gate.item-removed-by-user", query=query.id)
    if query.scope and query.scope not in fact.scopes:
        return Message("gate.item-not-in-scope", query=query.id, scope=query.scope)
    if not query.scope and item not in query.lists.get("available", [item]):
        return Message("gate.item-not-available", query=query.id)
    return Message("gate.item-manual") if fact.row is not None and fact.row.get("include") == "manual" else ""


def _score_text(score: float | None) -> str:
    return "" if score is None else f", score {score:.4g}"


@dataclass(frozen=True)
class _Sides:
    """Both sides of a check, for what pins name.

    Attributes:
        bases, heads, folders: as for `unknown_pins`.
        listed: kinds of names and datasets whose known names have been listed: once is enough.
    """

    bases: Sequence[SelectorSnapshot]
    heads: Sequence[SelectorSnapshot]
    folders: Mapping[str, Path]
    listed: set[tuple[str, str]] = field(default_factory=set)

    def unknown_names(self, pin: Pin) -> Iterator[str]:
        """What is wrong with a pin."""
        snapshots = [*self.bases, *self.heads]
        datasets = {snapshot.dataset for snapshot in snapshots}
        selectors = {snapshot.selector for snapshot in snapshots}
        if pin.dataset and pin.dataset not in datasets:
            yield self._unknown(pin, "dataset", pin.dataset, datasets)
            return
        if pin.selector and pin.selector not in selectors:
            yield self._unknown(pin, "selector", pin.selector, selectors)
            return
        matching = [
            snapshot
            for snapshot in snapshots
            if pin.dataset in ("", snapshot.dataset) and pin.selector in ("", snapshot.selector)
        ]
        if not matching:
            yield Message("gate.pin-selector-not-on-dataset", selector=pin.selector, dataset=pin.dataset)
        elif wrong := self._wrong_target(pin, matching):
            yield wrong
        else:
            items = {name for snapshot in matching if _pin_queries(pin, snapshot) for name in snapshot.all_items}
            yield from (
                Message("gate.pin-unknown-item", item=item, hint=suggest_items(item, items))
                for item in (*pin.must_include, *pin.must_not_include)
                if item not in items
            )

    def _unknown(self, pin: Pin, kind: str, name: str, names: Iterable[str]) -> Message:
        """That the check has no such dataset, selector, query or tag; the first such message lists the known names."""
        first = (kind, pin.dataset) not in self.listed
        self.listed.add((kind, pin.dataset))
        where = f"dataset {pin.dataset}" if pin.dataset and kind != "dataset" else "this check"
        return Message(
            "gate.pin-unknown-name", kind=kind, name=name, where=where, hint=suggest(name, names, listed=first)
        )

    def _wrong_target(self, pin: Pin, matching: Sequence[SelectorSnapshot]) -> str:
        """Why no query of the check has the query id or the tag of a pin; empty if one has."""
        heads = [snapshot for snapshot in self.heads if snapshot in matching]
        if any(_pin_queries(pin, snapshot) for snapshot in heads):
            return ""
        for head, name, query in ((snapshot, *entry) for snapshot in heads for entry in snapshot.unasked.items()):
            if name == pin.query or pin.tag in query.tags:
                about = name if pin.query else f"{name} (tag {pin.tag})"
                values = {"query": about, "dataset": head.dataset, "why": query.why}
                if query.labelled:
                    return Message("gate.pin-query-not-drawn", **values)
                folder = self.folders.get(head.dataset)
                command = "" if folder is None else f" (`{shlex.join(['ctxbench', 'data', 'label', str(folder)])}`)"
                return Message("gate.pin-query-not-labelled", command=command, **values)
        former = [snapshot for snapshot in matching if _pin_queries(pin, snapshot)]
        if not former and pin.query:
            return self._unknown(
                pin, "query", pin.query, {name for side in matching for name in (*side.queries, *side.unasked)}
            )
        if not former:
            tags = {tag for side in matching for query in side.queries.values() for tag in query.tags}
            tags |= {tag for side in matching for query in side.unasked.values() for tag in query.tags}
            return self._unknown(pin, "tag", pin.tag, tags)
        pairs = {(head.dataset, head.selector) for head in heads}
        if not any((base.dataset, base.selector) in pairs for base in former):
            return ""  # its dataset or selector is gone, which the check reports
        return (
            Message("gate.pin-query-gone", query=pin.query) if pin.query else Message("gate.pin-tag-gone", tag=pin.tag)
        )


def explain_pins(
    pins: Sequence[Pin], pair: SnapshotPair, changes: Sequence[Change], *, queries: Collection[str]
) -> tuple[PinFailure, ...]:
    """Find the pins that do not hold at the head, as `pin_failures` does, and say why each does not.

    Args:
        pins: of the gate file.
        pair: base and head.
        changes: explained.
        queries: ids of those that were compared; failures of others are not explained.
    """
    explainer = _PinExplainer(pair, changes, queries)
    failures = []
    for pin in pins:
        if current := pin_failures([pin], pair.head, renamed=pair.renamed, before=pair.base):
            before = {
                (failure.query, failure.about) for failure in pin_failures([_with_base_ids(pin, pair)], pair.base)
            }
            failures += [explainer.explain(failure, before) for failure in current]
    return tuple(failures)


def _with_base_ids(pin: Pin, pair: SnapshotPair) -> Pin:
    """The pin with the ids that items had at the base."""
    include, exclude = (
        tuple(pair.base_ids.get(item, item) for item in items) for items in (pin.must_include, pin.must_not_include)
    )
    return pin.model_copy(update={"must_include": include, "must_not_include": exclude})


class _PinExplainer:
    """Explains the pins of one selector on one dataset."""

    def __init__(self, pair: SnapshotPair, changes: Sequence[Change], queries: Collection[str]) -> None:
        self.pair = pair
        self.queries = frozenset(queries)
        by_query = group_pairs((change.query, (pair.head_id(change.item), change)) for change in changes)
        self.changes = {query: dict(pairs) for query, pairs in by_query.items()}

    def explain(self, failure: PinFailure, before: Collection[tuple[str, str]]) -> PinFailure:
        """The failure with its reasons; a pinned item is wanted back whether or not it is labelled."""
        if failure.query not in self.queries or not failure.about:
            return failure
        change = self.changes.get(failure.query, {}).get(self.pair.renamed.get(failure.about, failure.about))
        message = "; ".join([failure.message, *self._reasons(failure, change, before)])
        if change is None:
            return replace(failure, message=message)
        return replace(
            failure,
            message=message,
            cause=change.cause,
            fix=find_fix(replace(change, required=True), change.cause, self.pair),
        )

    def _reasons(
        self, failure: PinFailure, change: Change | None, before: Collection[tuple[str, str]]
    ) -> Iterator[str]:
        if (new := self.pair.renamed.get(failure.about)) is not None:
            is_offered = any(offered.id == new for offered in self.pair.head.answers[failure.query].offered)
            yield Message(
                "gate.pin-item-renamed-offered" if is_offered else "gate.pin-item-renamed", old=failure.about, new=new
            )
        if change is not None:
            yield _cause_text(change.cause, self.pair.head_id(change.item))
            return  # the cause explains an item completely
        if (failure.query, self.pair.base_ids.get(failure.about, failure.about)) in before:
            yield Message("gate.pin-broken-before")
        came = [(name, change) for name, change in self.changes.get(failure.query, {}).items() if not change.lost]
        if came and failure.about in (ITEMS, TOKENS):
            yield f"came in: {first_few([f'{name} ({_cause_text(change.cause, name)})' for name, change in came])}"
        if failure.about == TOKENS:
            yield from self._grown_text(failure.query)

    def _grown_text(self, query: str) -> Iterator[str]:
        """The items that were offered before and take more tokens now."""
        before, after = self.pair.candidates(query)
        names = [
            name for name, offered in after.offered.items() if name in before.offered and offered.origin != "session"
        ]
        added = {name: after.rows[name].tokens - before.rows[name].tokens for name in names}
        if grew := sorted((name for name in names if added[name] > 0), key=lambda name: -added[name]):
            yield f"longer now: {first_few([f'{name} ({added[name]:+,} tokens)' for name in grew])}"


def _cause_text(cause: Cause, item: str) -> str:
    """`item edited: text edited`, with what the cause names unless that is the item itself."""
    named = first_few([subject for subject in cause.subjects if subject != item and subject not in cause.detail])
    return phrase_cause(cause, f"{named} ({cause.detail})" if named and cause.detail else named or cause.detail)


_ADDED, _TOTAL = "tokens", "total_tokens"  # added to a prompt; and with the items of its session


@dataclass(frozen=True, slots=True, kw_only=True)
class LossFacts:
    """The losses of a selector, which decide its verdict together with metrics and pins.

    Attributes:
        unmet: requirements that no item can meet any more; empty where that is allowed.
        lost, gained: numbers of required items.
        allowed: how many more may be lost than gained.
        by_group: of a nondeterministic selector, how many groups of queries lost net and how many gained net: items of
            a group come and go together. None = losses are facts.
        deterministic: whether the selector is known to repeat its answers.
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
        if (net := self.lost - self.gained) <= self.allowed:
            return ""
        return Message("gate.too-many-lost", net=net, allowed=self.allowed, lost=self.lost, gained=self.gained)


def decide_verdict(
    metrics: Sequence[MetricVerdict],
    pins: Sequence[PinFailure],
    facts: LossFacts,
    *,
    alpha: float,
    missed: Sequence[MinimumVerdict] = (),
    item_changes: Sequence[ItemChange] = (),
) -> tuple[Verdict, tuple[str, ...]]:
    """Decide the verdict: the worst of pins, minimums, losses and metrics, with at least one reason.

    Args:
        metrics: judged.
        pins: that do not hold.
        facts: what else is known.
        alpha: at or below which lost items of a selector that is not deterministic are no chance.
        missed: the minimums that are not reached.
        item_changes: what no label judges: a lost always-on item leaves the verdict inconclusive, and the tokens that
            its loss or an edit saves are no gain.
    """
    by = {verdict: [metric for metric in metrics if metric.verdict is verdict] for verdict in Verdict}
    worse: list[str] = [Message("gate.pin-broken", query=failure.query, failure=failure.message) for failure in pins]
    worse += map(missed_text, missed)
    worse += [unmet_text(facts.unmet)] if facts.unmet else []
    unsure: list[str] = []
    if facts.too_many and facts.p <= alpha:
        worse.append(facts.too_many)
    elif facts.by_group is not None and facts.too_many:
        lost, gained = facts.by_group
        unsure.append(Message("gate.lost-by-chance", losses=facts.too_many, lost=lost, gained=gained, p=facts.p))
    for metric in by[Verdict.WORSE]:
        p_value = _p_text(metric, facts)
        worse.append(
            Message("gate.metric-worse", change=_change_text(metric), tolerance=_tolerance(metric), p_value=p_value)
        )
    if worse:
        return Verdict.WORSE, tuple(worse)
    gone = [Message("gate.always-on-lost", change=change.text) for change in item_changes if change.lost]
    if unsure or by[Verdict.INCONCLUSIVE]:
        return Verdict.INCONCLUSIVE, (
            *gone,
            *unsure,
            *(undecided_text(metric, deterministic=facts.deterministic) for metric in by[Verdict.INCONCLUSIVE]),
        )
    no_gain = _moved_into_sessions(metrics) | _saved_by_always_on(metrics, item_changes)
    verdict = Verdict.SAME
    reasons: tuple[str, ...] = ("; ".join((*no_gain.values(), _same_reason(metrics, facts, reported=no_gain))),)
    if better := [metric for metric in by[Verdict.BETTER] if metric.metric not in no_gain]:
        verdict = Verdict.BETTER
        reasons = (*(f"{_change_text(metric)}{_p_text(metric, facts)}" for metric in better), *no_gain.values())
    if gone:
        otherwise = Message("gate.verdict-otherwise", verdict=str(verdict), reason="; ".join(reasons))
        return Verdict.INCONCLUSIVE, (*gone, otherwise)
    return verdict, reasons


def missed_text(missed: MinimumVerdict) -> Message:
    """A minimum that is not reached: `completeness 85.0% is below the minimum of 90.0%`."""
    metric, lowest, estimate = parse_metric(missed.metric), missed.minimum.value, missed.estimate
    if math.isnan(estimate.value):
        return Message("gate.metric-not-computable", metric=metric)
    value, minimum = levels(metric, estimate.value, lowest).split(" -> ")
    if missed.minimum.by == "value":
        return Message("gate.minimum-missed", metric=metric, value=value, minimum=minimum)
    low, minimum = levels(metric, estimate.interval.low, lowest).split(" -> ")
    values = {"value": value, "low": low, "minimum": minimum, "level": estimate.interval.level}
    return Message("gate.minimum-missed-lower", metric=metric, **values)


def _moved_into_sessions(metrics: Sequence[MetricVerdict]) -> dict[str, str]:
    """Why fewer added tokens are no gain: sessions hold them now; by metric, empty if tokens are saved.

    No tokens are saved if the total fell by no more than the tolerance of the added tokens.
    """
    by_name = {metric.metric: metric for metric in metrics}
    added, total = by_name.get(_ADDED), by_name.get(_TOTAL)
    if (
        added is None
        or total is None
        or added.verdict is not Verdict.BETTER
        or -total.comparison.difference > added.tolerance
    ):
        return {}
    return {_ADDED: Message("gate.tokens-moved-to-session", added=_change_text(added), total=_change_text(total))}


def _saved_by_always_on(metrics: Sequence[MetricVerdict], item_changes: Sequence[ItemChange]) -> dict[str, str]:
    """Why a smaller total is no gain: always-on items are gone or shorter; by metric, empty if more is saved."""
    saved = sum(max(0, change.base - (0 if change.lost else change.head)) for change in item_changes if change.always)
    return {
        metric.metric: Message("gate.tokens-saved-by-always-on", total=_change_text(metric))
        for metric in metrics
        if saved
        and metric.metric == _TOTAL
        and metric.verdict is Verdict.BETTER
        and -metric.comparison.difference - saved <= metric.tolerance
    }


def _change_text(verdict: MetricVerdict) -> str:
    comparison = verdict.comparison
    metric = parse_metric(verdict.metric)
    sides = levels(metric, comparison.base, comparison.other)
    exceeds = verdict.tolerance if abs(comparison.difference) > verdict.tolerance else None
    return f"{verdict.metric} {sides} ({signed_difference(metric, comparison.difference, beyond=exceeds)})"


def _tolerance(verdict: MetricVerdict) -> str:
    return size(parse_metric(verdict.metric), verdict.tolerance)


def _p_text(verdict: MetricVerdict, facts: LossFacts) -> str:
    """The p-value of a metric, for the end of a sentence; empty for a deterministic selector."""
    return "" if facts.deterministic else f", {_p_value(verdict)}"


def _p_value(verdict: MetricVerdict) -> str:
    """`p = 0.031`; `p <= 0.0002` at the floor of the random sign flips."""
    return f"p {'<=' if verdict.comparison.p_holm_at_floor else '='} {verdict.comparison.p_holm:.2g}"


def undecided_text(verdict: MetricVerdict, *, deterministic: bool) -> Message:
    """The reason of a metric that moved by more than its tolerance, but inconclusively."""
    why = undecided_reason(verdict, deterministic=deterministic)
    return Message("gate.metric-inconclusive", change=_change_text(verdict), tolerance=_tolerance(verdict), why=why)


def undecided_reason(verdict: MetricVerdict, *, deterministic: bool) -> Message:
    """Why a difference is inconclusive: too few queries, and how many would be enough, if that is known."""
    why = _weak_evidence(verdict, deterministic=deterministic)
    n_needed = verdict.comparison.needed
    return why if n_needed is None else Message("gate.queries-needed", why=why, n=n_needed)


def _weak_evidence(verdict: MetricVerdict, *, deterministic: bool) -> Message:
    if deterministic:
        return Message("gate.too-few-queries", n=verdict.comparison.n)
    return Message("gate.not-significant", n=verdict.comparison.n, p_value=_p_value(verdict))


def _same_reason(metrics: Sequence[MetricVerdict], facts: LossFacts, *, reported: Collection[str] = ()) -> str:
    """Why the verdict is `same`; the metrics in `reported` are left out."""
    parts: list[str] = []
    if facts.lost or facts.gained:
        parts.append(Message("gate.lost-within-limit", lost=facts.lost, gained=facts.gained, allowed=facts.allowed))
    for verdict in metrics:
        if verdict.metric in reported:
            continue
        if exceeds(verdict.comparison, verdict.tolerance):
            why = _weak_evidence(verdict, deterministic=facts.deterministic)
            values = {"change": _change_text(verdict), "tolerance": _tolerance(verdict), "why": why}
            parts.append(Message("gate.metric-inconclusive", **values))
        elif verdict.comparison.n and verdict.comparison.difference:
            parts.append(
                Message("gate.metric-within-tolerance", change=_change_text(verdict), tolerance=_tolerance(verdict))
            )
    return "; ".join(parts) or Message("gate.nothing-lost" if reported else "gate.nothing-changed")


def with_servers(check: SelectorCheck, servers: Sequence[CapturedServer]) -> SelectorCheck:
    """The check with the servers that were not queried among its reasons; inconclusive where one is outdated.

    Args:
        check: over the tools as captured.
        servers: of the dataset's agent that were not queried.
    """
    if not servers:
        return check
    reasons = tuple(server_reasons(servers))
    if not any(server.outdated for server in servers) or check.verdict not in (Verdict.SAME, Verdict.BETTER):
        return replace(check, reasons=(*check.reasons, *reasons), servers=tuple(servers))
    verdict = str(check.verdict)
    unless = tuple(Message("gate.verdict-as-captured", verdict=verdict, reason=reason) for reason in check.reasons)
    return replace(check, verdict=Verdict.INCONCLUSIVE, reasons=(*reasons, *unless), servers=tuple(servers))


def server_reasons(servers: Sequence[CapturedServer]) -> Iterator[str]:
    """Messages on servers that were not queried: one for each outdated or absent server, then one for each date."""
    for server in servers:
        values = {"server": server.name, "day": _day(server)}
        if server.error:
            why = server.error.splitlines()[0].partition("; its last lines")[0]  # the output of a program is not quoted
            yield Message("gate.server-failed", why=why, **values)
        elif server.absent:
            yield Message(
                "gate.server-absent-outdated" if server.outdated else "gate.server-absent", server=server.name
            )
        elif server.changed:
            yield Message("gate.server-changed", files=first_ids(server.changed), **values)
        elif server.unverified:
            yield Message("gate.server-unverified", files=first_ids(server.unverified), **values)
    by = group_pairs(
        ((_day(server), server.verified), server.name) for server in servers if not (server.outdated or server.absent)
    )
    yield from (
        Message("gate.servers-captured" if verified else "gate.servers-captured-unverified", names=names, day=day)
        for (day, verified), names in by.items()
    )


def _day(server: CapturedServer) -> str:
    return server.captured[:10] or "an unknown day"


def unmet_requirements(
    base: SelectorSnapshot, head: SelectorSnapshot, comparability: Comparability
) -> tuple[UnmetRequirement, ...]:
    """Find requirements that could be met at the base and cannot be met at the head by any selector.

    They count even if no selector offered the item: it is then not lost, and no other part of the check shows it.

    Args:
        base, head: the two.
        comparability: the queries to compare, and renamed items.

    Returns:
        One for each set of alternatives (of one item, mostly), in the order of the queries.
    """
    if head.items is base.items:
        return ()  # nothing has changed
    old = {new: name for name, new in comparability.renamed.items()}
    unmet: dict[tuple[str, ...], list[str]] = {}
    for query in comparability.queries:
        for group in head.queries[query].required:
            if _can_be_met(group, head, query) or not _can_be_met([old.get(name, name) for name in group], base, query):
                continue
            unmet.setdefault(
                tuple(name for name in group if old.get(name, name) in base.items) or tuple(group), []
            ).append(query)
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


def unmet_text(unmet: Sequence[UnmetRequirement], key: str = "gate.unmet") -> Message:
    """All unmet requirements as one message.

    Args:
        unmet: at least one.
        key: of the message.
    """
    items = [*dict.fromkeys(item for requirement in unmet for item in requirement.items)]
    queries = [*dict.fromkeys(query for requirement in unmet for query in requirement.queries)]
    why = " or ".join(dict.fromkeys(requirement.why for requirement in unmet))
    names = {"items": first_ids(items), "queries": first_ids(queries)}
    return Message(key, n=len(queries), before=sum(requirement.before for requirement in unmet), why=why, **names)


def _can_be_met(group: Sequence[str], side: SelectorSnapshot, query: str) -> bool:
    """Whether one of some alternatives can be offered, or is in the session."""
    fact = side.queries[query]
    may_be_found = any(item in side.items and not exclusion_reason(item, fact, side.items[item]) for item in group)
    return may_be_found or not {*group}.isdisjoint(offered_ids(side.answers, query))


def _item_reason(item: str, head: SelectorSnapshot) -> str:
    fact = head.items.get(item)
    if fact is not None and fact.row is not None and fact.row.get("include") == "manual":
        return "include mode manual"
    return absence_text(item, head)
