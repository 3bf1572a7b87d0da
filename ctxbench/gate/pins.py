"""Checks pins, what must hold for a query or for every query with a tag, and explains why some do not hold."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ctxbench.core.errors import Fault, suggest
from ctxbench.core.item_suggestions import suggest_items
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.gate.answer_prices import answer_tokens
from ctxbench.gate.cause_texts import phrase_cause
from ctxbench.gate.check_settings import Pin
from ctxbench.gate.model import Cause, Change, PinFailure
from ctxbench.gate.snapshots import AnswerFact, ItemFact, QueryFact, SelectorSnapshot, Unasked
from ctxbench.gate.value_texts import first_few
from ctxbench.io.visible import count

if TYPE_CHECKING:
    from ctxbench.gate.snapshot_pair import SnapshotPair

ITEMS, TOKENS = "items", "tokens"  # what a failure is about that is about no single item


def pin_failures(
    pins: Iterable[Pin],
    snapshot: SelectorSnapshot,
    *,
    renamed: Mapping[str, str] = MappingProxyType({}),
    before: SelectorSnapshot | None = None,
) -> tuple[PinFailure, ...]:
    """Find the pins that do not hold in a snapshot, in the order of the pins, then of the queries.

    An item that must not be offered must not be under its new name (`renamed`, new id by old) either, nor as a copy
    that is new; one that must be offered is to be named as it is called. A pin of a tag is about the queries that had
    it `before`, too: tags are no part of what is compared, and who takes one off would else take the pin off.

    What a session holds is offered, too, but counts neither as an item nor by its tokens. A pin that the snapshot's
    dataset or selector is not meant by, or whose query or tag it lacks, says nothing here (see `unknown_pins`).
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
            off = "" if pin.query or pin.tag in snapshot.queries[query].tags else "; it had the tag in the baseline"
            failures += [
                PinFailure(pin=pin_text(pin), line=pin.line, query=query, message=f"{message}{off}", about=about)
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
    """Find datasets, selectors, queries, tags and items that pins name and that do not exist or are not asked.

    A query or tag must be known to the head, or its pin would hold for ever; unless its dataset or selector is not
    there at all any more, which is no check that could pass. All else may be known to either side.

    Args:
        pins: in any order.
        bases, heads: both sides of a check.
        path: the file that they stand in.
        folders: those of datasets, by name, as far as they are the user's own.
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
    from ctxbench.data.curation.renames import item_content  # most checks find no new item
    from ctxbench.gate.comparability import items_of

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
    for item in pin.must_include:
        if item not in offered:
            yield item, f"{item} is not offered: {_absence_reason(item, fact, snapshot)}"
    for item in pin.must_not_include:
        for candidate in (offered[name] for name in (item, *aliases.get(item, ())) if name in offered):
            how = (
                "held by the session"
                if candidate.origin == "session"
                else f"offered ({candidate.origin}{_score_text(candidate.score)})"
            )
            yield item, f"{candidate.id} is {how}"
    added = [candidate.id for candidate in fact.offered if candidate.origin != "session"]
    if pin.at_most_items is not None and len(added) > pin.at_most_items:
        yield ITEMS, f"{count(len(added), 'item')} offered, {len(added) - pin.at_most_items} too many"
    if pin.at_most_tokens is not None:
        tokens = answer_tokens(fact, snapshot)
        if tokens > pin.at_most_tokens:
            yield TOKENS, f"{count(tokens, 'token')} offered, {tokens - pin.at_most_tokens:,} too many"


def _absence_reason(item: str, fact: AnswerFact, snapshot: SelectorSnapshot) -> str:
    if item not in snapshot.items:
        return "it is disabled" if item in snapshot.disabled else "it is not in the catalog"
    for candidate in fact.near:
        if candidate.id == item:
            return f"{candidate.rule or 'it stayed out'}{_score_text(candidate.score)}"
    return exclusion_reason(item, snapshot.queries[fact.query], snapshot.items[item]) or "the selector did not find it"


def exclusion_reason(item: str, query: QueryFact, fact: ItemFact) -> str:
    """Why no search for a query may offer an item; empty if it may, or if that is not known."""
    listed = query.lists.get("available", [item])
    reasons = (
        (item in query.lists.get("removed", ()), f"the user removed it from the session of query {query.id}"),
        (
            bool(query.scope) and query.scope not in fact.scopes,
            f"it is not among what query {query.id} may get (scope {query.scope})",
        ),
        (
            not query.scope and item not in listed,
            f"it is not among what query {query.id} may get (its own list of available items)",
        ),
        (
            fact.row is not None and fact.row.get("include") == "manual",
            "its include mode is manual, so that no search brings it in",
        ),
    )
    return next((why for applies, why in reasons if applies), "")


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
            yield f"no dataset {pin.dataset!r} in this check{self._closest(pin, 'dataset', pin.dataset, datasets)}"
            return
        if pin.selector and pin.selector not in selectors:
            yield f"no selector {pin.selector!r} in this check{self._closest(pin, 'selector', pin.selector, selectors)}"
            return
        matching = [
            snapshot
            for snapshot in snapshots
            if pin.dataset in ("", snapshot.dataset) and pin.selector in ("", snapshot.selector)
        ]
        if not matching:
            yield f"selector {pin.selector!r} is not checked on dataset {pin.dataset!r}"
        elif (
            wrong := self._unasked_target(pin, matching)
            or self._missing_target(pin, matching)
            or self._lost_target(pin)
        ):
            yield wrong
        else:
            items = {name for snapshot in matching if _pin_queries(pin, snapshot) for name in snapshot.all_items}
            where = f" in dataset {pin.dataset}" if pin.dataset else ""
            for item in (*pin.must_include, *pin.must_not_include):
                if item not in items:
                    yield f"no item {item!r} in catalog or baseline{where}{suggest_items(item, items)}"

    def _closest(self, pin: Pin, kind: str, name: str, names: Iterable[str]) -> str:
        first = (kind, pin.dataset) not in self.listed
        self.listed.add((kind, pin.dataset))
        return suggest(name, names, listed=first)

    def _unasked_target(self, pin: Pin, matching: Sequence[SelectorSnapshot]) -> str:
        """Why a query or tag of a dataset is in no query that is asked now; empty if it is, or if it is not there."""
        heads = [snapshot for snapshot in self.heads if snapshot in matching]
        if any(_pin_queries(pin, snapshot) for snapshot in heads):
            return ""
        for head in heads:
            if matches := [
                (name, query) for name, query in head.unasked.items() if name == pin.query or pin.tag in query.tags
            ]:
                name, query = matches[0]
                have = "has" if len(matches) == 2 else "have"
                suffix = f", as {len(matches) - 1:,} more that {have} it" if len(matches) > 1 else ""
                prefix = "" if pin.query else f"no query that is asked has the tag {pin.tag}: "
                message = f"{prefix}query {name} is in dataset {head.dataset}, but {query.why}{suffix}"
                return f"{message}; {self._mend(head.dataset, query)}, or take the pin out"
        return ""

    def _mend(self, dataset: str, query: Unasked) -> str:
        if query.labelled:
            return "have the gate file ask it (`split`, `sample`)"
        folder = self.folders.get(dataset)
        command = "" if folder is None else shlex.join(["ctxbench", "data", "label", str(folder)])
        return f"label it (`{command}`)" if command else "label it"

    def _missing_target(self, pin: Pin, matching: Sequence[SelectorSnapshot]) -> str:
        """That no side has the query or tag; empty if one has."""
        if any(_pin_queries(pin, snapshot) for snapshot in matching):
            return ""
        where = f" in dataset {pin.dataset}" if pin.dataset else ""
        if pin.query:
            names = {name for snapshot in matching for name in (*snapshot.queries, *snapshot.unasked)}
            return f"no query {pin.query!r}{where or ' in this check'}{self._closest(pin, 'query', pin.query, names)}"
        tags = {tag for snapshot in matching for query in snapshot.queries.values() for tag in query.tags}
        tags |= {tag for snapshot in matching for query in snapshot.unasked.values() for tag in query.tags}
        return f"no query has the tag {pin.tag!r}{where}{self._closest(pin, 'tag', pin.tag, tags)}"

    def _lost_target(self, pin: Pin) -> str:
        """What only the base knows of the query or tag of a pin, and what to do; empty if there is nothing."""
        pairs = {(snapshot.dataset, snapshot.selector) for snapshot in self.heads}
        former = [
            snapshot
            for snapshot in self.bases
            if (snapshot.dataset, snapshot.selector) in pairs and _pin_queries(pin, snapshot)
        ]
        if not former or any(_pin_queries(pin, snapshot) for snapshot in self.heads):
            return ""
        if not pin.query:
            return f"no query that is asked now has the tag {pin.tag}; take the pin out, or put the tag back"
        return f"query {pin.query} is no longer in the dataset; take the pin out, or put the query back"


def explain_pins(
    pins: Sequence[Pin], pair: SnapshotPair, changes: Sequence[Change], *, queries: Collection[str]
) -> tuple[PinFailure, ...]:
    """Find the pins that do not hold at the head, as `pin_failures` does, and say why each does not.

    Args:
        pins: of the gate file.
        pair: base and head.
        changes: explained.
        queries: ids of those that were compared; of others nothing more is said.
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
    return replace(pin, must_include=include, must_not_include=exclude)


class _PinExplainer:
    """Explains the pins of one selector on one dataset."""

    def __init__(self, pair: SnapshotPair, changes: Sequence[Change], queries: Collection[str]) -> None:
        self.pair = pair
        self.queries = frozenset(queries)
        self.changes: dict[str, dict[str, Change]] = {}
        for change in changes:
            self.changes.setdefault(change.query, {})[self.pair.head_id(change.item)] = change

    def explain(self, failure: PinFailure, before: Collection[tuple[str, str]]) -> PinFailure:
        """The failure with its reasons; a pinned item is wanted back whether or not it is labelled."""
        if failure.query not in self.queries or not failure.about:
            return failure
        change = self.changes.get(failure.query, {}).get(self.pair.renamed.get(failure.about, failure.about))
        message = "; ".join([failure.message, *self._reasons(failure, change, before)])
        if change is None:
            return replace(failure, message=message)
        from ctxbench.gate.remedies import find_remedy  # slow to import; most pins hold

        remedy = find_remedy(replace(change, required=True), change.cause, self.pair)
        return replace(failure, message=message, cause=change.cause, remedy=remedy)

    def _reasons(
        self, failure: PinFailure, change: Change | None, before: Collection[tuple[str, str]]
    ) -> Iterator[str]:
        if (new := self.pair.renamed.get(failure.about)) is not None:
            is_offered = any(offered.id == new for offered in self.pair.head.answers[failure.query].offered)
            yield f"{failure.about} is {new} now, which the pin is to name{', and is offered' if is_offered else ''}"
        if change is not None:
            yield _cause_text(change.cause, self.pair.head_id(change.item))
            return  # all that there is to say of an item
        if (failure.query, self.pair.base_ids.get(failure.about, failure.about)) in before:
            yield "it did not hold in the baseline either"
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
    subjects = [subject for subject in cause.subjects if subject != item and subject not in cause.detail]
    named = first_few(subjects)
    text = f"{named} ({cause.detail})" if named and cause.detail else named or cause.detail
    return phrase_cause(cause, text)
