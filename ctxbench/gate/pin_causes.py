"""Explains why pins do not hold: by the causes of changes, or because they did not hold at the base either."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from ctxbench.gate.check_settings import Pin
from ctxbench.gate.model import Cause, Change, PinFailure, Remedy
from ctxbench.gate.pins import ITEMS, TOKENS, pin_failures
from ctxbench.gate.remedies import find_remedy
from ctxbench.gate.snapshot_pair import SnapshotPair

_MAX_NAMED = 3


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
    return _PinExplainer(pair, changes, queries).failures(pins)


class _PinExplainer:
    """Explains the pins of one selector on one dataset."""

    def __init__(self, pair: SnapshotPair, changes: Sequence[Change], queries: Collection[str]) -> None:
        self.pair = pair
        self.queries = frozenset(queries)
        self.changes: dict[str, dict[str, Change]] = {}
        for one in changes:
            self.changes.setdefault(one.query, {})[self.pair.head_id(one.item)] = one

    def failures(self, pins: Sequence[Pin]) -> tuple[PinFailure, ...]:
        found = []
        for pin in pins:
            now = pin_failures([pin], self.pair.head, renamed=self.pair.renamed, before=self.pair.base)
            if now:
                failures = pin_failures([self._with_base_ids(pin)], self.pair.base)
                before = {(one.query, one.about) for one in failures}
                found += [self._explain(one, before) for one in now]
        return tuple(found)

    def _with_base_ids(self, pin: Pin) -> Pin:
        """The pin with the ids that items had at the base."""
        include, exclude = (
            tuple(self.pair.base_ids.get(one, one) for one in items)
            for items in (pin.must_include, pin.must_not_include)
        )
        return replace(pin, must_include=include, must_not_include=exclude)

    def _explain(self, one: PinFailure, before: Collection[tuple[str, str]]) -> PinFailure:
        if one.query not in self.queries or not one.about:
            return one
        change = self._change(one)
        said = "; ".join([one.message, *self._rename_text(one), *self._reasons(one, before)])
        return replace(
            one,
            message=said,
            cause=None if change is None else change.cause,
            remedy=Remedy() if change is None else self._remedy(change),
        )

    def _rename_text(self, one: PinFailure) -> Iterator[str]:
        """A notice for a pin that names a renamed item by its old id."""
        if (new := self.pair.renamed.get(one.about)) is not None:
            there = any(offered.id == new for offered in self.pair.head.answers[one.query].offered)
            yield f"{one.about} is {new} now, which the pin is to name{', and is offered' if there else ''}"

    def _reasons(self, one: PinFailure, before: Collection[tuple[str, str]]) -> Iterator[str]:
        change = self._change(one)
        if change is not None:
            yield _cause_text(change.cause, self.pair.head_id(change.item))
            return  # all that there is to say of an item
        if (one.query, self.pair.base_ids.get(one.about, one.about)) in before:
            yield "it did not hold in the baseline either"
        if one.about in (ITEMS, TOKENS):
            yield from self._added_text(one.query)
        if one.about == TOKENS:
            yield from self._grown_text(one.query)

    def _added_text(self, query: str) -> Iterator[str]:
        """The items that came in, each with its cause."""
        came = [(name, change) for name, change in self.changes.get(query, {}).items() if not change.lost]
        if came:
            yield f"came in: {_first_few([f'{name} ({_cause_text(change.cause, name)})' for name, change in came])}"

    def _grown_text(self, query: str) -> Iterator[str]:
        """The items that were offered before and take more tokens now."""
        before, after = self.pair.candidates(query)
        both = [name for name in after.offered if name in before.offered and after.offered[name].origin != "session"]
        more = {name: after.rows[name].tokens - before.rows[name].tokens for name in both}
        grew = sorted((name for name in both if more[name] > 0), key=lambda name: -more[name])
        if grew:
            yield f"longer now: {_first_few([f'{name} ({more[name]:+,} tokens)' for name in grew])}"

    def _change(self, one: PinFailure) -> Change | None:
        """The change of the item that a failure is about; None if there is none."""
        return self.changes.get(one.query, {}).get(self.pair.renamed.get(one.about, one.about))

    def _remedy(self, change: Change) -> Remedy:
        """The remedy for a pinned item, which is wanted back whether or not it is labelled."""
        return find_remedy(replace(change, required=True), change.cause, self.pair)


def _cause_text(cause: Cause, item: str) -> str:
    """`item edited: text edited`, with what the cause names unless that is the item itself."""
    others = [one for one in cause.subjects if one != item and one not in cause.detail]
    named = _first_few(others)
    said = f"{named} ({cause.detail})" if named and cause.detail else named or cause.detail
    return cause.told(said)


def _first_few(said: Sequence[str]) -> str:
    more = f" and {len(said) - _MAX_NAMED} more" if len(said) > _MAX_NAMED else ""
    return f"{', '.join(said[:_MAX_NAMED])}{more}"
