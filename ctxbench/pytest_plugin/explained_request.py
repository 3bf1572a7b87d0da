"""One request, asked and explained, and what a failed assertion says: what is missing, by which rule, what mends it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ctxbench.cli.candidate_lines import candidate_lines, winning_pair
from ctxbench.core.errors import UserError
from ctxbench.core.requests import Batch, Request
from ctxbench.core.selection import Selection
from ctxbench.gate.value_texts import first_few
from ctxbench.io.visible import joined, message_lines
from ctxbench.pytest_plugin.setup import OpenSetup
from ctxbench.selectors.explain import Explained, explain
from ctxbench.selectors.explain_own import ask_own
from ctxbench.selectors.pipelines import PipelineSelector

_IN_FRONT = 5  # items that are named of those that stand in front of a missing one
_NEAR = 3  # candidates that stayed out that are shown


@dataclass(frozen=True, eq=False, kw_only=True)
class ExplainedAnswer:
    """What a request was offered, and why.

    Attributes:
        opened: whom it was asked of.
        request: what was asked.
        selection: the answer.
        chosen, left_out: with their texts, in the one order; the texts of an outside selector's pairs are empty.
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
        return tuple(one for one in self.chosen if one.offered.origin != "session")

    @property
    def offered(self) -> dict[str, Explained]:
        """What is offered, the session's items among it, by id."""
        return {one.offered.id: one for one in self.chosen}

    @cached_property
    def ranking(self) -> tuple[Explained, ...]:
        """Everything that has a score, chosen or not, by score, ties in catalog order.

        Of a selector that gives an order and no scores, everything in that order, what it chose first.
        """
        position = self.opened.catalog.position
        found = (*self.added, *self.left_out)
        scored = [one for one in found if one.offered.score is not None]
        if not scored:
            return found
        return tuple(sorted(scored, key=lambda one: (-(one.offered.score or 0.0), position(one.offered.id))))


def ask(opened: OpenSetup, request: Request) -> ExplainedAnswer:
    """Ask for one request.

    Raises:
        SelectorError: an outside selector failed, or answered something that is no answer.
        UserError: the request names items that the catalog lacks, or a text cannot be embedded.
    """
    batch = Batch.of(opened.catalog, [request])
    if isinstance(opened.selector, PipelineSelector):
        explanation = explain(opened.selector.pipeline, opened.catalog, request, opened.resources)
        selection, chosen, left_out = explanation.selection, explanation.chosen, explanation.left_out
    else:
        try:
            answer = ask_own(opened.selector, batch, opened.resources)
        finally:
            opened.memo.clear()
        selection, chosen, left_out = answer.selection, answer.chosen, answer.left_out
    return ExplainedAnswer(
        opened=opened, request=request, selection=selection, chosen=chosen, left_out=left_out, batch=batch
    )


def report(head: str, asked: ExplainedAnswer, findings: Iterable[Sequence[str]]) -> str:
    """A message: what was asked of whom, each finding with its lines, and all that was offered."""
    text = " ".join(asked.request.text.split())
    lines = [f"{head}: {asked.opened.label} on {asked.opened.place}, asked “{text}”"]
    lines += [f"  {note}" for note in asked.selection.trace]
    for first, *rest in findings:
        lines += ["", f"  {first}", *(f"      {line}" for line in rest)]
    n, held = len(asked.added), len(asked.chosen) - len(asked.added)
    beside = f" beside {held} in the session" if held else ""
    lines += ["", f"  {n} item{'' if n == 1 else 's'} offered{beside}:" if asked.chosen else "  nothing is offered"]
    lines += [f"    {line}" for line in candidate_lines(asked.chosen, pairs=False)]
    if near := asked.left_out[:_NEAR]:
        lines += [f"  nearest that stayed out ({len(near)} of {len(asked.left_out)} candidates):"]
        lines += [f"    {line}" for line in candidate_lines(near, pairs=False)]
    return joined(lines)


def fit_to_print(error: UserError) -> UserError:
    """The error with a message that pytest can print as it stands, and no traceback."""
    error.args = (joined(message_lines(str(error))),)
    return error.with_traceback(None)


def absence_lines(what: str, item: str, asked: ExplainedAnswer) -> list[str]:
    """Why an item is not offered: its rank, score, rule, by how much it misses, what is in front, what would mend it.

    Args:
        what: what the line begins with, such as `missing`.
        item: id of an item of the catalog that is not offered.
        asked: the answer.
    """
    one = next((one for one in asked.left_out if one.offered.id == item), None)
    if one is None:
        return [f"{what}: {item}", *_no_candidate(item, asked)]
    lines = [f"{what}: {item}", f"{_standing(one, asked)}; kept out by the rule: {one.offered.rule}"]
    scores = [other.offered.score for other in asked.added if other.offered.score is not None]
    missed = min(scores) - one.offered.score if scores and one.offered.score is not None else 0.0
    if missed > 0:
        lines.append(f"{missed:.3g} below the lowest score that is offered, {min(scores):.3f}")
    if pair := winning_pair(one):
        lines.append(f"its best pair: {pair}")
    place = asked.ranking.index(one) if one in asked.ranking else 0
    if front := [f"{other.offered.id}{_scored(' ', other)}" for other in asked.ranking[:place]]:
        lines.append(f"in front of it: {first_few(front, _IN_FRONT)}")
    few = 0 < len(front) <= 2 * _IN_FRONT
    crowd = "; or merge, reword or disable what stands in front of it" if few else ""
    reword = f"say in {_words_of(one)} what such a request asks for"
    lines.append(f"to mend it: {reword}{crowd}; or loosen the setting in the rule")
    return lines


def presence_lines(what: str, item: str, asked: ExplainedAnswer) -> list[str]:
    """Why an item is offered: its rank, score, and the pair that brought it in.

    Args:
        what: what the line begins with, such as `unwanted`.
        item: id of an item that is offered.
        asked: the answer.
    """
    one = asked.offered[item]
    if one.offered.origin == "session":
        always = one.offered.mode == "always"
        mend = f"set `include` of {item} to agent or manual" if always else f"leave {item} out of the session"
        return [f"{what}: {item}", f"the session holds it ({one.offered.mode})", f"to mend it: {mend}"]
    lines = [f"{what}: {item}", _standing(one, asked)]
    if pair := winning_pair(one):
        lines.append(f"brought in by: {pair}")
    lines.append(f"to mend it: take the words that such a request uses out of {_words_of(one)}; or tighten the cut")
    return lines


def too_many(asked: ExplainedAnswer, at_most: int) -> list[str]:
    """That more items were added than wanted, and which come last."""
    last = [one.offered.id for one in asked.added[at_most:]]
    return [
        f"too many items: {len(asked.added)} are offered, at most {at_most} wanted",
        f"the last {len(last)}: {', '.join(last)}",
        "to mend it: tighten the cut; or merge or disable what is not needed",
    ]


def too_long(asked: ExplainedAnswer, at_most: int) -> list[str]:
    """That what was added has more tokens than wanted, and which items cost most."""
    total = sum(one.tokens for one in asked.added)
    costly = sorted(asked.added, key=lambda one: -one.tokens)[:_IN_FRONT]
    costs = ", ".join(f"{one.offered.id} {one.tokens:,}" for one in costly)
    counter = asked.opened.resources.identity("tokens")
    return [
        f"too many tokens: {total:,} ({counter}) are offered, at most {at_most:,} wanted",
        f"most cost: {costs}",
        "to mend it: shorten these; or tighten the cut",
    ]


def _standing(one: Explained, asked: ExplainedAnswer) -> str:
    if one not in asked.ranking:
        return f"no score ({one.offered.mode})"
    by = "" if one.offered.origin == "search" else f", by {one.offered.origin}"
    return f"rank {asked.ranking.index(one) + 1} of {len(asked.ranking)} found{_scored(', score ', one)}{by}"


def _scored(before: str, one: Explained) -> str:
    """A score behind some words; empty where the selector gives none."""
    return "" if one.offered.score is None else f"{before}{one.offered.score:.3f}"


def _words_of(one: Explained) -> str:
    return "its description" if one.item.type == "tool" else "its description or text"


def _no_candidate(item: str, asked: ExplainedAnswer) -> list[str]:
    """Why an item of the catalog is no candidate, and what would mend it."""
    place = asked.opened.catalog.position(item)
    found = asked.opened.catalog[place]
    only, available = asked.request.only, asked.request.available
    reasons = (
        (
            not asked.batch.visible[0, place],  # whose it is, and what else is so of it, is not said
            "this request does not see it",
            "ask in the workspace, as the user and at the time of the item",
        ),
        (not found.enabled, "it is not enabled", "set `enabled` to true"),
        (found.key in asked.request.removed, "it was removed from the session", "do not remove it"),
        (
            available is not None and found.key not in available,
            "it is not available to this request",
            "put it into the request's `available`",
        ),
        (
            found.include == "manual",
            "its include mode is manual, so no search brings it in",
            "set `include` to agent",
        ),
        (
            found.include == "always",
            "its include mode is always, and the session of this request is given without it",
            "",
        ),
        (
            only is not None and not asked.batch.eligible[0, place],
            "it is outside of what this request is restricted to",
            "loosen the request's `only`",
        ),
        (not asked.ours, "the selector did not answer it", ""),
        (not asked.batch.requests[0].text.strip(), "the request has no text, so nothing is searched", ""),
        (
            True,
            "the search did not find it: nothing in it matches, or too much matches better",
            f"say in its description what such a request asks for ({len(asked.ranking)} were found)",
        ),
    )
    why, mend = next((why, mend) for applies, why, mend in reasons if applies)
    return [why, f"to mend it: {mend}"] if mend else [why]
