"""One request asked of a selector outside ctxbench: all that is known of its answer."""

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
    """What a selector outside ctxbench answered to one request.

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
    """What a selector outside ctxbench offered. Its `left_out` are the items that it ranked and did not choose.

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
        told = super().as_dict(near=near)
        del told["chunks"]  # what it searched with, if it searched, it alone knows
        time_ = {"seconds": round(self.seconds, 6), "with_start": not self.timed}
        return {**told, "not_named": self.not_named, **time_, "notes": dict(self.notes)}


def ask_own(selector: Selector, batch: Batch, resources: Resources) -> OwnAnswer:
    """Ask a selector outside ctxbench for a batch of one request.

    Raises:
        SelectorError: it failed, or answered something that is no answer.
    """
    if isinstance(selector, FileSelector):
        what = "is a file of answers, which answers no new request"
        raise SelectorError(f"selector {selector.name} {what}; name what wrote it: a command, a callable or a url")
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
    """Ask a selector outside ctxbench for a batch of one request, and tell all that is known of its answer.

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
    named = sum(one.offered.origin != "session" for one in answer.chosen) + len(answer.left_out)
    return OwnExplanation(
        selection=answer.selection,
        text=request.text,
        chunks=(),
        chosen=answer.chosen,
        left_out=answer.left_out,
        prompt=form.prompt(request, [one.item for one in answer.chosen], [one.offered.span for one in answer.chosen]),
        prompt_tokens=sum(one.tokens for one in answer.chosen if one.offered.origin != "session"),
        total_tokens=sum(one.tokens for one in answer.chosen),
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
        tuple([replace(one, score=None) for one in rows]) for rows in (selection.chosen, selection.left_out)
    )
    return replace(selection, chosen=chosen, left_out=left_out)


def _with_items(batch: Batch, rows: Sequence[Offered], resources: Resources) -> tuple[Explained, ...]:
    places = [batch.catalog.position(one.id) for one in rows]
    tokens = resources.tokens(batch.catalog, np.array(places, dtype=np.int64)).tolist()
    return tuple(
        Explained(
            offered=one,
            item=batch.catalog[place],
            tokens=tokens[place] if one.tokens is None else one.tokens,
            query_chunk="",
            item_chunk="",
        )
        for one, place in zip(rows, places, strict=True)
    )
