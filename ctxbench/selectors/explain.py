"""Explain one request: every candidate with its scores, chunks and exclusion rule."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ctxbench.io.errors import Message, ParameterError, SelectorError
from ctxbench.model.arrays import FloatArray
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Filter, Request
from ctxbench.model.resources import Resources
from ctxbench.model.selection import Offered, Prompt, Selection, selections
from ctxbench.model.strategies import Merge, PerType, Step
from ctxbench.pipelines.fits import PROBABILITY, all_steps
from ctxbench.pipelines.pipeline import Chunkings, Outcome, Pipeline
from ctxbench.pipelines.strategies.files import KIND_FACTOR
from ctxbench.pipelines.strategies.format import Messages
from ctxbench.pipelines.strategies.rank import PROBABILITY_COLUMN, WAIVED
from ctxbench.selectors.external import FileSelector
from ctxbench.selectors.selector import Selector, check_fits

SEARCH_OFF = "the search is off"
"""Why items are not searched that a search could choose from."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Explained:
    """One candidate with its texts.

    Attributes:
        offered: the candidate.
        item: the item itself.
        tokens: of what is shown of its prompt text.
        query_chunk, item_chunk: the winning pair of texts; empty where there is none. Where another item led here
            (`offered.via`), the first is a chunk of that item.
        probability: that it is required, if the score was computed from one; else None.
        price_waived: True for the item that is first whatever it costs (`sure` of the step `price`); else None.
        loads: tokens of what the model loads on demand, the body of a skill; None where there is none, or it cannot be
            counted.
        shares: of the score, by source or feature, highest first; empty where the score is no sum.
        words: of the request that the item holds, with their shares of what the search by words gives, highest first.
        factor: what the score was multiplied with for what the file is for; 1 = nothing.
    """

    offered: Offered
    item: Item
    tokens: int
    query_chunk: str
    item_chunk: str
    probability: float | None = None
    price_waived: bool | None = None
    loads: int | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, float] = field(default_factory=dict)
    factor: float = 1.0

    def as_dict(self) -> dict[str, Any]:
        """The candidate as JSON."""
        offered = {name: value for name, value in self.offered.as_dict().items() if name != "pair"}
        pair = {"query_chunk": self.query_chunk, "item_chunk": self.item_chunk} if self.item_chunk else None
        row = {
            **offered,
            "type": self.item.type,
            "name": self.item.name,
            "tokens": self.tokens,
            "probability": self.probability,
            "price_waived": self.price_waived,
            "loads": self.loads,
            "shares": dict(self.shares) or None,
            "words": dict(self.words) or None,
            "factor": None if self.factor == 1.0 else self.factor,
            "pair": pair,
        }
        return {name: value for name, value in row.items() if value is not None}


@dataclass(frozen=True, eq=False, kw_only=True)
class Explanation:
    """What a request was offered, and why.

    Attributes:
        selection: as the run would store it.
        text: of the request.
        chunks: what the request was searched with.
        chosen, left_out: with their texts, in the one order.
        prompt: what the model would be sent.
        prompt_tokens: of the items that the selector added.
        total_tokens: of all items in the prompt, those that the session held included.
        not_searched: why items are neither in the session nor searched, with their ids.
        eligible: how many items the search could choose from.
        catalog: the items.
        outside: share of the items offered whose features lie outside of what the selector's fit has seen.
        search_off: whether a setting of the selector switches its search off.
    """

    selection: Selection
    text: str
    chunks: tuple[str, ...]
    chosen: tuple[Explained, ...]
    left_out: tuple[Explained, ...]
    prompt: Prompt
    prompt_tokens: int
    total_tokens: int
    not_searched: Mapping[str, Sequence[str]]
    eligible: int
    catalog: Catalog
    outside: float = 0.0
    search_off: bool = False

    def as_dict(self, *, near: int) -> dict[str, Any]:
        """The explanation as JSON, with the `near` best of what stayed out."""
        return {
            "query": self.selection.query,
            "chunks": list(self.chunks),
            "eligible": self.eligible,
            "items": [entry.as_dict() for entry in self.chosen],
            "left_out": [entry.as_dict() for entry in self.left_out[:near]],
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.total_tokens,
            "not_searched": {reason: len(ids) for reason, ids in self.not_searched.items()},
            **({"trace": [note.as_dict() for note in self.selection.trace]} if self.selection.trace else {}),
            "request_context": self.selection.request_context(self.catalog),
        }


def explain(
    pipeline: Pipeline, catalog: Catalog, request: Request, resources: Resources, *, live: bool = False
) -> Explanation:
    """Select for one request and explain it; `live` as in `Pipeline.run`.

    Raises:
        UserError: the request names items that the catalog lacks, or the selection itself fails.
    """
    batch = Batch.of(catalog, [request])
    check_fits(pipeline, catalog)
    return explain_outcome(pipeline, pipeline.run(batch, resources, live=live), resources)


def explain_outcome(
    pipeline: Pipeline, outcome: Outcome, resources: Resources, *, near: int | None = None
) -> Explanation:
    """Explain what a pipeline selected for a batch of one request.

    Args:
        pipeline: that of the outcome.
        outcome: of its run.
        resources: what it ran with.
        near: how many items that stayed out are in the explanation; None = all. Each takes time.
    """
    batch, catalog = outcome.query.batch, outcome.query.batch.catalog
    table = outcome.candidates
    (selection,) = selections(outcome.query, table)
    searched = not isinstance(pipeline.retrieve, Step) or bool(pipeline.retrieve.declared("searches"))
    chunks = outcome.query.chunks(0) if searched else ()
    explained = _Explainer(pipeline, chunks, outcome, resources)
    chosen = tuple(map(explained, selection.chosen))
    fitted: list[Any] = [step.call for step in all_steps(pipeline.refine) if step.declared("calibrated") == PROBABILITY]
    return Explanation(
        selection=selection,
        text=batch.requests[0].text,
        chunks=chunks,
        chosen=chosen,
        left_out=tuple(map(explained, selection.left_out[:near])),
        prompt=pipeline.prompts(outcome, resources)[0],
        prompt_tokens=sum(entry.tokens for entry in chosen if entry.offered.origin != "session"),
        total_tokens=sum(entry.tokens for entry in chosen),
        not_searched=not_searched(batch, searched=searched),
        eligible=int(batch.eligible.counts().sum()) if searched else 0,
        catalog=catalog,
        outside=max((step.outside(table, catalog, resources) for step in fitted), default=0.0),
        search_off=not searched,
    )


def not_searched(batch: Batch, *, searched: bool) -> dict[str, list[str]]:
    """Why items of a batch of one are neither in the session nor searched, with their ids."""
    in_session, eligible, visible = set(batch.session_item.tolist()), batch.eligible[0], batch.visible[0]
    removed = {batch.catalog.find(key) for key in batch.requests[0].removed}
    allowed = (batch.requests[0].only or Filter()).of(batch.catalog)
    reasons: dict[str, list[str]] = {}
    for position, item in enumerate(batch.catalog):
        if position in in_session or not visible[position] or (eligible[position] and searched):
            continue
        whys = (
            (SEARCH_OFF, eligible[position]),
            ("not enabled", not item.enabled),
            ("removed from the session", position in removed),
            (f"include mode {item.include}", item.include != "agent"),
            (Message("selectors.not-in-filter"), not allowed[position]),
            ("not available to this request", True),
        )
        reasons.setdefault(next(why for why, applies in whys if applies), []).append(item.id)
    return reasons


class _Explainer:
    """Finds the texts of the candidates of a batch of one."""

    def __init__(self, pipeline: Pipeline, chunks: tuple[str, ...], outcome: Outcome, resources: Resources) -> None:
        self._catalog = catalog = outcome.query.batch.catalog
        self._chunks = chunks
        self._table = table = outcome.candidates
        self._resources = resources
        self._parts = _score_parts(pipeline, table)
        self._words = _word_parts(pipeline, outcome, resources)
        self._chunkings = Chunkings.of(pipeline)
        self._used = self._chunkings.used(table)
        self._tokens = table.prices(resources.tokens(catalog, table.item)).tolist()
        unknown = np.full(len(table), np.nan)
        self._factor = table.columns.get(KIND_FACTOR, unknown)
        self._probability = table.columns.get(PROBABILITY_COLUMN, unknown).tolist()
        self._waived = table.columns.get(WAIVED, unknown) == 1
        self._row = {item: row for row, item in enumerate(table.item.tolist())}

    def __call__(self, offered: Offered) -> Explained:
        """Add its texts to a candidate."""
        position = self._catalog.position(offered.id)
        row = self._row[position]
        probability, factor = self._probability[row], float(self._factor[row])
        query_chunk, item_chunk = self._chunkings.pair(self._catalog, self._chunks, self._table, row, self._used)
        parts = {} if offered.score is None else {name: float(part[row]) for name, part in self._parts.items()}
        return Explained(
            offered=offered,
            item=self._catalog[position],
            tokens=self._tokens[row],
            query_chunk=query_chunk,
            item_chunk=item_chunk,
            probability=None if math.isnan(probability) else probability,
            price_waived=bool(self._waived[row]) or None,
            loads=self._loads(self._catalog[position]),
            shares=_shares(parts),
            words=_shares(self._words[row]) if self._words and offered.score is not None else {},
            factor=1.0 if math.isnan(factor) else factor,
        )

    def _loads(self, item: Item) -> int | None:
        if not item.body:
            return None
        try:
            return int(self._resources.text_tokens([item.body])[0])
        except ParameterError:  # counts from a file, of whole items only
            return None


def _score_parts(pipeline: Pipeline, table: Candidates) -> Mapping[str, FloatArray]:
    """What each source or feature gives to the scores of the last step that makes an order; empty if it is no sum."""
    for step in reversed(pipeline.refine):
        if isinstance(step, PerType):
            return {}
        if parts := {} if step.off else step.declared("score_parts")(table):
            return parts
        if step.declared("orders"):
            return {}
    return {}


def _word_parts(pipeline: Pipeline, outcome: Outcome, resources: Resources) -> Sequence[Mapping[str, float]]:
    """What each word adds in every row, by the first retriever that searches by words; empty if none does."""
    retrieve = pipeline.retrieve
    for step in retrieve.sources.values() if isinstance(retrieve, Merge) else (retrieve,):
        parts: Sequence[Mapping[str, float]] = step.declared("word_parts")(
            outcome.query, 0, outcome.candidates.item, resources
        )
        if parts:
            return parts
    return ()


def _shares(parts: Mapping[str, float]) -> dict[str, float]:
    """Parts of a score as shares of the sum of their sizes, largest first; without those that are 0."""
    total = math.fsum(map(abs, parts.values()))
    return {name: value / total for name, value in sorted(parts.items(), key=lambda part: -abs(part[1])) if value}


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
        raise SelectorError(
            f"selector {selector.name} is a file of answers, which answers no new request; name what wrote it: a "
            "command, a callable or a url"
        )
    began = time.perf_counter()
    answers = selector.select(batch)
    seconds = time.perf_counter() - began
    if answers.errors:
        raise SelectorError(
            f"selector {selector.name} gave no answer to {batch.requests[0].text!r}: {answers.errors[0]}"
        )
    (selection,) = selections(answers.query, answers.candidates)
    if not answers.scored:  # those of the table are made up of the order
        chosen, left_out = (
            tuple(replace(row, score=None) for row in rows) for rows in (selection.chosen, selection.left_out)
        )
        selection = replace(selection, chosen=chosen, left_out=left_out)
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
