"""One request, asked and explained: of our selectors by `explain`, of outside ones by what they answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ctxbench.bench.provenance import code_hash
from ctxbench.core.errors import SelectorError
from ctxbench.core.requests import Batch, Request
from ctxbench.core.selection import Offered, Selection, selections
from ctxbench.gate.snapshots import content_hash
from ctxbench.pytest_plugin.setup import OpenSetup
from ctxbench.selectors.explain import Explained, explain
from ctxbench.selectors.pipelines import PipelineSelector


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

    @property
    def kept_out(self) -> dict[str, Explained]:
        """Candidates that a rule kept out, by id."""
        return {one.offered.id: one for one in self.left_out}

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

    @property
    def score_of(self) -> dict[str, float]:
        """Scores by item id."""
        return {one.offered.id: one.offered.score for one in self.ranking if one.offered.score is not None}

    @cached_property
    def _decisive(self) -> str:
        """Hash of all that decides the answer but for ties: selector, model, code, items in any order, request."""
        catalog = self.opened.catalog
        items = self.opened.resources.kept(
            ("items in any order", catalog.hash),
            lambda: content_hash(sorted(content_hash(item.as_row()) for item in catalog)),
        )
        about = [self.opened.selector.describe(), self.opened.embedder, code_hash(), items]
        return content_hash([*about, self.request.as_dict()])

    def decided_by(self, offered: Iterable[str]) -> str:
        """Hash of all that decides the answer, and of the ids of an answer, in any order."""
        return content_hash([self._decisive, sorted(offered)])


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
        answers = opened.selector.select(batch)
        opened.memo.clear()
        if answers.errors:
            raise SelectorError(f"selector {opened.label} gave no answer to {request.text!r}: {answers.errors[0]}")
        (selection,) = selections(answers.query, answers.candidates)
        if not answers.scored:  # those of the table are made up of the order
            selection = _without_scores(selection)
        chosen, left_out = _with_items(opened, selection.chosen), _with_items(opened, selection.left_out)
    return ExplainedAnswer(
        opened=opened, request=request, selection=selection, chosen=chosen, left_out=left_out, batch=batch
    )


def _without_scores(selection: Selection) -> Selection:
    chosen, left_out = (
        tuple([replace(one, score=None) for one in rows]) for rows in (selection.chosen, selection.left_out)
    )
    return replace(selection, chosen=chosen, left_out=left_out)


def _with_items(opened: OpenSetup, rows: Sequence[Offered]) -> tuple[Explained, ...]:
    tokens = opened.resources.tokens(opened.catalog).tolist()
    places = [opened.catalog.position(one.id) for one in rows]
    return tuple(
        Explained(
            offered=one,
            item=opened.catalog[place],
            tokens=tokens[place] if one.tokens is None else one.tokens,
            query_chunk="",
            item_chunk="",
        )
        for one, place in zip(rows, places, strict=True)
    )
