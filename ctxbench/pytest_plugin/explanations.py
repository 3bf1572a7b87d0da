"""Explained answers to one request, and messages of failed assertions: missing items, rules, suggested fixes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ctxbench.cli.select import candidate_lines, winning_pair
from ctxbench.gate.snapshots import first_few
from ctxbench.io.errors import joined
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch, Request
from ctxbench.model.selection import Selection
from ctxbench.search.resources import LocalResources
from ctxbench.selectors.explain import Explained, Explanation, OwnAnswer, ask_own, explain
from ctxbench.selectors.selector import PipelineSelector, Selector

_IN_FRONT = 5  # items that are named of those that stand in front of a missing one
_NEAR = 3  # candidates that stayed out that are shown


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenSetup:
    """A setup whose files are read. The model is loaded when a text is first embedded.

    Attributes:
        label: what messages call the selector.
        catalog_name: what messages call the catalog.
        catalog: the items.
        selector: ours or outside.
        resources: what ours use.
        memo: outputs of steps that selectors of a gate file share; emptied after each request.
        close: ends processes and connections of external selectors.
    """

    label: str
    catalog_name: str
    catalog: Catalog
    selector: Selector
    resources: LocalResources
    memo: dict[str, Any]
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, eq=False, kw_only=True)
class ExplainedAnswer:
    """What a request was offered, and why.

    Attributes:
        opened: the setup that answered.
        request: what was asked.
        selection: the answer.
        chosen, left_out: with their texts, in the one order; the texts of an external selector's pairs are empty.
        batch: the request alone.
    """

    opened: OpenSetup
    request: Request
    selection: Selection
    chosen: tuple[Explained, ...]
    left_out: tuple[Explained, ...]
    batch: Batch

    @property
    def ours(self) -> bool:
        """Whether the selector is a pipeline, which answers alike each time."""
        return isinstance(self.opened.selector, PipelineSelector)

    @property
    def added(self) -> tuple[Explained, ...]:
        """What the selector added to what the session holds."""
        return tuple(explained for explained in self.chosen if explained.offered.origin != "session")

    @property
    def offered(self) -> dict[str, Explained]:
        """What is offered, the session's items among it, by id."""
        return {explained.offered.id: explained for explained in self.chosen}

    @cached_property
    def ranking(self) -> tuple[Explained, ...]:
        """Everything that has a score, chosen or not, by score, ties in catalog order.

        Of a selector that gives an order and no scores, everything in that order, what it chose first.
        """
        position = self.opened.catalog.position
        candidates = (*self.added, *self.left_out)
        if not (scored := [explained for explained in candidates if explained.offered.score is not None]):
            return candidates
        return tuple(
            sorted(scored, key=lambda explained: (-(explained.offered.score or 0.0), position(explained.offered.id)))
        )


def ask(opened: OpenSetup, request: Request) -> ExplainedAnswer:
    """Ask for one request.

    Raises:
        SelectorError: an external selector failed, or answered something that is no answer.
        UserError: the request names items that the catalog lacks, or a text cannot be embedded.
    """
    batch = Batch.of(opened.catalog, [request])
    if isinstance(opened.selector, PipelineSelector):
        answer: Explanation | OwnAnswer = explain(opened.selector.pipeline, opened.catalog, request, opened.resources)
    else:
        try:
            answer = ask_own(opened.selector, batch, opened.resources)
        finally:
            opened.memo.clear()
    return ExplainedAnswer(
        opened=opened,
        request=request,
        selection=answer.selection,
        chosen=answer.chosen,
        left_out=answer.left_out,
        batch=batch,
    )


def report(head: str, answer: ExplainedAnswer, findings: Iterable[Sequence[str]]) -> str:
    """A message: what was asked of whom, each finding with its lines, and all that was offered."""
    text = " ".join(answer.request.text.split())
    lines = [
        f"{head}: {answer.opened.label} on {answer.opened.catalog_name}, asked “{text}”",
        *(f"  {note}" for note in answer.selection.trace),
    ]
    for first, *rest in findings:
        lines += ["", f"  {first}", *(f"      {line}" for line in rest)]
    n, n_in_session = len(answer.added), len(answer.chosen) - len(answer.added)
    suffix = f" beside {n_in_session} in the session" if n_in_session else ""
    near = answer.left_out[:_NEAR]
    lines += [
        "",
        f"  {n} item{'' if n == 1 else 's'} offered{suffix}:" if answer.chosen else "  nothing is offered",
        *(f"    {line}" for line in candidate_lines(answer.chosen, pairs=False)),
        *([f"  nearest that stayed out ({len(near)} of {len(answer.left_out)} candidates):"] if near else []),
        *(f"    {line}" for line in candidate_lines(near, pairs=False)),
    ]
    return joined(lines)


def absence_lines(label: str, item: str, answer: ExplainedAnswer) -> list[str]:
    """Why an item is not offered: its rank, score, rule, the missing score, the items in front, a suggested fix.

    Args:
        label: what the line begins with, such as `missing`.
        item: id of an item of the catalog that is not offered.
        answer: the answer.
    """
    explained = next((candidate for candidate in answer.left_out if candidate.offered.id == item), None)
    if explained is None:
        return [f"{label}: {item}", *_no_candidate(item, answer)]
    scores = [rival.offered.score for rival in answer.added if rival.offered.score is not None]
    missed = min(scores) - explained.offered.score if scores and explained.offered.score is not None else 0.0
    pair = winning_pair(explained)
    rank = answer.ranking.index(explained) if explained in answer.ranking else 0
    front = [f"{rival.offered.id}{_scored(' ', rival)}" for rival in answer.ranking[:rank]]
    is_short = 0 < len(front) <= 2 * _IN_FRONT
    crowd = "; or merge, reword or disable the items ranked above it" if is_short else ""
    reword = f"say in {_words_of(explained)} what such a request asks for"
    return [
        f"{label}: {item}",
        f"{_standing(explained, answer)}; kept out by the rule: {explained.offered.rule}",
        *([f"{missed:.3g} below the lowest score that is offered, {min(scores):.3f}"] if missed > 0 else []),
        *([f"its best pair: {pair}"] if pair else []),
        *([f"in front of it: {first_few(front, _IN_FRONT)}"] if front else []),
        f"to fix it: {reword}{crowd}; or loosen the setting in the rule",
    ]


def presence_lines(label: str, item: str, answer: ExplainedAnswer) -> list[str]:
    """Why an item is offered: its rank, score, and the pair that brought it in.

    Args:
        label: what the line begins with, such as `unwanted`.
        item: id of an item that is offered.
        answer: the answer.
    """
    explained = answer.offered[item]
    if explained.offered.origin == "session":
        is_always = explained.offered.mode == "always"
        fix = f"set `include` of {item} to agent or manual" if is_always else f"leave {item} out of the session"
        return [f"{label}: {item}", f"the session holds it ({explained.offered.mode})", f"to fix it: {fix}"]
    pair = winning_pair(explained)
    return [
        f"{label}: {item}",
        _standing(explained, answer),
        *([f"brought in by: {pair}"] if pair else []),
        f"to fix it: take the words that such a request uses out of {_words_of(explained)}; or tighten the cut",
    ]


def too_many(answer: ExplainedAnswer, at_most: int) -> list[str]:
    """That more items were added than wanted, and which come last."""
    last = [explained.offered.id for explained in answer.added[at_most:]]
    return [
        f"too many items: {len(answer.added)} are offered, at most {at_most} wanted",
        f"the last {len(last)}: {', '.join(last)}",
        "to fix it: tighten the cut; or merge or disable what is not needed",
    ]


def too_long(answer: ExplainedAnswer, at_most: int) -> list[str]:
    """That what was added has more tokens than wanted, and which items cost most."""
    total = sum(explained.tokens for explained in answer.added)
    costly = sorted(answer.added, key=lambda explained: -explained.tokens)[:_IN_FRONT]
    costs = ", ".join(f"{explained.offered.id} {explained.tokens:,}" for explained in costly)
    counter = answer.opened.resources.identity("tokens")
    return [
        f"too many tokens: {total:,} ({counter}) are offered, at most {at_most:,} wanted",
        f"most cost: {costs}",
        "to fix it: shorten these; or tighten the cut",
    ]


def _standing(explained: Explained, answer: ExplainedAnswer) -> str:
    if explained not in answer.ranking:
        return f"no score ({explained.offered.mode})"
    by = "" if explained.offered.origin == "search" else f", by {explained.offered.origin}"
    return (
        f"rank {answer.ranking.index(explained) + 1} of {len(answer.ranking)} found{_scored(', score ', explained)}{by}"
    )


def _scored(before: str, explained: Explained) -> str:
    """A score after a prefix; empty where the selector gives none."""
    return "" if explained.offered.score is None else f"{before}{explained.offered.score:.3f}"


def _words_of(explained: Explained) -> str:
    return "its description" if explained.item.type == "tool" else "its description or text"


def _no_candidate(item: str, answer: ExplainedAnswer) -> list[str]:
    """Why an item of the catalog is no candidate, and a suggested fix."""
    position = answer.opened.catalog.position(item)
    entry = answer.opened.catalog[position]
    restriction, available = answer.request.only, answer.request.available
    reasons = (
        (
            not answer.batch.visible[0, position],  # whose it is, and what else is so of it, is not said
            "this request does not see it",
            "ask in the workspace, as the user and at the time of the item",
        ),
        (not entry.enabled, "it is not enabled", "set `enabled` to true"),
        (entry.key in answer.request.removed, "it was removed from the session", "do not remove it"),
        (
            available is not None and entry.key not in available,
            "it is not available to this request",
            "put it into the request's `available`",
        ),
        (
            entry.include == "manual",
            "its include mode is manual, so no search brings it in",
            "set `include` to agent",
        ),
        (
            entry.include == "always",
            "its include mode is always, and the session of this request is given without it",
            "",
        ),
        (
            restriction is not None and not answer.batch.eligible[0, position],
            "it is outside of what this request is restricted to",
            "loosen the request's `only`",
        ),
        (not answer.ours, "the selector did not answer it", ""),
        (not answer.batch.requests[0].text.strip(), "the request has no text, so nothing is searched", ""),
        (
            True,
            "the search did not find it: nothing in it matches, or too much matches better",
            f"say in its description what such a request asks for ({len(answer.ranking)} were found)",
        ),
    )
    why, fix = next((why, fix) for applies, why, fix in reasons if applies)
    return [why, f"to fix it: {fix}"] if fix else [why]
