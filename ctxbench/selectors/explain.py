"""One request explained: every item in with its winning pair of chunks, every candidate out with its rule."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog, Item
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.requests import Batch, Only, Request
from ctxbench.core.selection import Offered, Prompt, Selection, selections
from ctxbench.core.stages import Resources, Step
from ctxbench.selectors.pair_texts import Chunkings, refining_steps
from ctxbench.selectors.pipelines import check_fits
from ctxbench.steps.calibrated import PROBABILITY_COLUMN, Probability
from ctxbench.steps.retrieve import Nothing

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
        probability: that it is required, where the score is a price made of one; else None.
        loads: tokens of what the model loads on demand, the body of a skill; None where there is none, or it cannot be
            counted.
    """

    offered: Offered
    item: Item
    tokens: int
    query_chunk: str
    item_chunk: str
    probability: float | None = None
    loads: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The candidate as JSON."""
        told = {name: value for name, value in self.offered.as_dict().items() if name != "pair"}
        pair = {"query_chunk": self.query_chunk, "item_chunk": self.item_chunk} if self.item_chunk else None
        row = {**told, "tokens": self.tokens, "probability": self.probability, "loads": self.loads, "pair": pair}
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
        not_searched: why items are neither in the session nor searched, with how many.
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
    not_searched: Mapping[str, int]
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
            "items": [one.as_dict() for one in self.chosen],
            "left_out": [one.as_dict() for one in self.left_out[:near]],
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.total_tokens,
            "not_searched": dict(self.not_searched),
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
    outcome = pipeline.run(batch, resources, live=live)
    table = outcome.candidates
    (selection,) = selections(outcome.query, table)
    searched = not (isinstance(pipeline.retrieve, Step) and isinstance(pipeline.retrieve.call, Nothing))
    chunks = outcome.query.chunks(0) if searched else ()
    explained = _Explainer(pipeline, catalog, chunks, outcome.candidates, resources)
    chosen = tuple(map(explained, selection.chosen))
    fitted = [step.call for step in refining_steps(pipeline.refine) if isinstance(step.call, Probability)]
    return Explanation(
        selection=selection,
        text=request.text,
        chunks=chunks,
        chosen=chosen,
        left_out=tuple(map(explained, selection.left_out)),
        prompt=pipeline.prompts(outcome, resources)[0],
        prompt_tokens=sum(one.tokens for one in chosen if one.offered.origin != "session"),
        total_tokens=sum(one.tokens for one in chosen),
        not_searched=_not_searched(batch, searched=searched),
        eligible=int(batch.eligible.counts().sum()) if searched else 0,
        catalog=catalog,
        outside=max((step.outside(table, catalog, resources) for step in fitted), default=0.0),
        search_off=not searched,
    )


def _not_searched(batch: Batch, *, searched: bool) -> dict[str, int]:
    """Why items of a batch of one are neither in the session nor searched, with how many."""
    held, eligible, seen = set(batch.session_item.tolist()), batch.eligible[0], batch.visible[0]
    removed = {batch.catalog.find(key) for key in batch.requests[0].removed}
    only = (batch.requests[0].only or Only()).of(batch.catalog)
    reasons: Counter[str] = Counter()
    for position, item in enumerate(batch.catalog):
        if position in held or not seen[position] or (eligible[position] and searched):
            continue
        whys = (
            (SEARCH_OFF, eligible[position]),
            ("not enabled", not item.enabled),
            ("removed from the session", position in removed),
            (f"include mode {item.include}", item.include != "agent"),
            ("outside of what this request is restricted to", not only[position]),
            ("not available to this request", True),
        )
        reasons[next(why for why, holds in whys if holds)] += 1
    return dict(reasons)


class _Explainer:
    """Finds the texts of the candidates of a batch of one."""

    def __init__(
        self, pipeline: Pipeline, catalog: Catalog, chunks: tuple[str, ...], table: Candidates, resources: Resources
    ) -> None:
        self._catalog = catalog
        self._chunks = chunks
        self._table = table
        self._resources = resources
        self._chunkings = Chunkings.of(pipeline)
        self._tokens = table.prices(resources.tokens(catalog)).tolist()
        self._probability = table.columns.get(PROBABILITY_COLUMN, np.full(len(table), np.nan)).tolist()
        self._row = {item: row for row, item in enumerate(table.item.tolist())}

    def __call__(self, offered: Offered) -> Explained:
        """Add its texts to a candidate."""
        position = self._catalog.position(offered.id)
        probability = self._probability[self._row[position]]
        query_chunk, item_chunk = self._chunkings.pair(self._catalog, self._chunks, self._table, self._row[position])
        return Explained(
            offered=offered,
            item=self._catalog[position],
            tokens=self._tokens[self._row[position]],
            query_chunk=query_chunk,
            item_chunk=item_chunk,
            probability=None if math.isnan(probability) else probability,
            loads=self._loads(self._catalog[position]),
        )

    def _loads(self, item: Item) -> int | None:
        if not item.body:
            return None
        try:
            return int(self._resources.text_tokens([item.body])[0])
        except ParameterError:  # counts from a file, of whole items only
            return None
