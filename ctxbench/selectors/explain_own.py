"""Explains the answer of an external selector to one request."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ctxbench.core.errors import SelectorError
from ctxbench.core.requests import Batch
from ctxbench.core.selection import Offered, Selection, selections
from ctxbench.core.stages import Resources
from ctxbench.selectors.explain import Explained, Explanation, not_searched
from ctxbench.selectors.external import FileSelector
from ctxbench.selectors.selector import Selector
from ctxbench.steps.format import Messages


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnAnswer:
    """What an external selector answered to one request.

    Attributes:
        selection: as the run would store it; without scores where the selector gave none.
        chosen, left_out: with their items and tokens, in the one order; they have no pair of texts.
        seconds: from the call to the answer.
        timed: whether that is the answer alone; False where the start of a process may be in it.
    """

    selection: Selection
    chosen: tuple[Explained, ...]
    left_out: tuple[Explained, ...]
    seconds: float
    timed: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnExplanation(Explanation):
    """What an external selector offered. Its `left_out` are the items that it ranked and did not choose.

    Attributes:
        not_named: how many items it might have offered and did not name.
        seconds, timed: as of `OwnAnswer`.
        notes: what it says of its answer, see `External.notes`.
    """

    not_named: int
    seconds: float
    timed: bool
    notes: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self, *, near: int) -> dict[str, Any]:
        """The explanation as JSON, with the `near` best of what it ranked and did not choose."""
        document = super().as_dict(near=near)
        del document["chunks"]  # what it searched with, if it searched, it alone knows
        time_ = {"seconds": round(self.seconds, 6), "with_start": not self.timed}
        return {**document, "not_named": self.not_named, **time_, "notes": dict(self.notes)}


def ask_own(selector: Selector, batch: Batch, resources: Resources) -> OwnAnswer:
    """Ask an external selector for a batch of one request.

    Raises:
        SelectorError: it failed, or answered something that is no answer.
    """
    if isinstance(selector, FileSelector):
        reason = "is a file of answers, which answers no new request"
        raise SelectorError(f"selector {selector.name} {reason}; name what wrote it: a command, a callable or a url")
    began = time.perf_counter()
    answers = selector.select(batch)
    seconds = time.perf_counter() - began
    if answers.errors:
        raise SelectorError(
            f"selector {selector.name} gave no answer to {batch.requests[0].text!r}: {answers.errors[0]}"
        )
    (selection,) = selections(answers.query, answers.candidates)
    if not answers.scored:  # those of the table are made up of the order
        selection = _without_scores(selection)
    timed = answers.seconds is not None and not math.isnan(answers.seconds[0])
    if timed and answers.seconds is not None:
        seconds = float(answers.seconds[0])
    return OwnAnswer(
        selection=selection,
        chosen=_with_items(batch, selection.chosen, resources),
        left_out=_with_items(batch, selection.left_out, resources),
        seconds=seconds,
        timed=timed,
    )


def explain_own(selector: Selector, batch: Batch, resources: Resources, *, form: Messages) -> OwnExplanation:
    """Ask an external selector for a batch of one request, and explain its answer.

    Args:
        selector: whom to ask.
        batch: the request alone.
        resources: what counts tokens.
        form: what puts the offered items into what the model is sent.

    Raises:
        SelectorError: it failed, or answered something that is no answer.
    """
    answer, request = ask_own(selector, batch, resources), batch.requests[0]
    eligible = int(batch.eligible.counts().sum())
    named = sum(entry.offered.origin != "session" for entry in answer.chosen) + len(answer.left_out)
    return OwnExplanation(
        selection=answer.selection,
        text=request.text,
        chunks=(),
        chosen=answer.chosen,
        left_out=answer.left_out,
        prompt=form.prompt(
            request, [entry.item for entry in answer.chosen], [entry.offered.span for entry in answer.chosen]
        ),
        prompt_tokens=sum(entry.tokens for entry in answer.chosen if entry.offered.origin != "session"),
        total_tokens=sum(entry.tokens for entry in answer.chosen),
        not_searched=not_searched(batch, searched=True),
        eligible=eligible,
        catalog=batch.catalog,
        not_named=eligible - named,
        seconds=answer.seconds,
        timed=answer.timed,
        notes=getattr(selector, "notes", {}),
    )


def _without_scores(selection: Selection) -> Selection:
    chosen, left_out = (
        tuple([replace(row, score=None) for row in rows]) for rows in (selection.chosen, selection.left_out)
    )
    return replace(selection, chosen=chosen, left_out=left_out)


def _with_items(batch: Batch, rows: Sequence[Offered], resources: Resources) -> tuple[Explained, ...]:
    positions = [batch.catalog.position(row.id) for row in rows]
    tokens = resources.tokens(batch.catalog, np.array(positions, dtype=np.int64)).tolist()
    return tuple(
        Explained(
            offered=row,
            item=batch.catalog[position],
            tokens=tokens[position] if row.tokens is None else row.tokens,
            query_chunk="",
            item_chunk="",
        )
        for row, position in zip(rows, positions, strict=True)
    )
