"""Selectors of this package: pipelines over shared resources, random draws of another's size, and the oracle."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ctxbench.core.arrays import IntArray
from ctxbench.core.candidate_tables import concatenated, session_rows
from ctxbench.core.candidates import Candidates, Origin, place_among
from ctxbench.core.errors import ParameterError, SelectorError
from ctxbench.core.items import Catalog, ItemKey
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.query import Query
from ctxbench.core.requests import Batch
from ctxbench.core.rules import AS_MANY_AS, Rule
from ctxbench.core.stages import CHAT, FORMAT, OLLAMA, Resources, kind_of
from ctxbench.selectors.selector import Answers, Selector
from ctxbench.text.original_rules import js_trim

ORACLE = "oracle"
ABOUT = "Exactly what is required, of alternatives the cheapest: the floor of the price. It knows the labels."
NEEDS_LABELS = (
    "selector 'oracle' offers what the labels require, so it answers only in an experiment over labelled "
    "datasets; name it under `selectors` there, and start `ctxbench run`"
)

Required: TypeAlias = Mapping[str, Sequence[Sequence[ItemKey]]]
"""By query id, groups of required items: of each group one is needed."""


def check_fits(pipeline: Pipeline, catalog: Catalog) -> None:
    """Check that the fitted steps of a pipeline suit it and a catalog; without any, nothing is imported for it.

    Raises:
        ParameterError: a step was fitted for another catalog, or behind other steps.
    """
    if pipeline.fitted:
        from ctxbench.features.stored_fits import require_matching_fits

        require_matching_fits(pipeline, catalog)


@dataclass(frozen=True, eq=False)
class PipelineSelector:
    """A pipeline as a selector.

    Attributes:
        name: the name in tables.
        pipeline: its steps.
        resources: what they use.
        memo: outputs of steps shared with other pipelines, or None; see `Pipeline.run`. Whoever passes one empties it.
    """

    name: str
    pipeline: Pipeline
    resources: Resources
    memo: MutableMapping[str, Any] | None = None

    def describe(self) -> dict[str, Any]:
        """Every step with its parameters, and the identities of the resources that the steps use."""
        identities = {use: self.resources.identity(use) for use in self._uses}
        return {"pipeline": self.pipeline.describe(), "identities": identities}

    @property
    def _uses(self) -> list[str]:
        """The resources of all steps, but for the format, which the pipeline describes itself."""
        steps = (self.pipeline.analyse, self.pipeline.retrieve, *self.pipeline.refine, self.pipeline.format)
        return sorted({use for step in steps for use in step.uses} - {FORMAT})

    def take_notes(self) -> dict[str, Any]:
        """Use of language models by steps since the last call: how often, and how many tokens."""
        all_notes = [self.resources.get(use).take_notes() for use in self._uses if kind_of(use) in (CHAT, OLLAMA)]
        return {name: sum(entry.get(name, 0) for entry in all_notes) for notes in all_notes for name in notes}

    @property
    def depths(self) -> tuple[int, ...]:
        """How many items each retriever ranks, of those that say so."""
        return self.pipeline.retrieve.depths

    def select(self, batch: Batch) -> Answers:
        """Run the pipeline.

        Raises:
            ParameterError: a step was fitted for another catalog, or behind other steps.
        """
        check_fits(self.pipeline, batch.catalog)
        outcome = self.pipeline.run(batch, self.resources, memo=self.memo)
        return Answers(
            query=outcome.query, candidates=outcome.candidates, ranked=self.pipeline.ranks, scored=self.pipeline.ranks
        )


@dataclass(frozen=True, eq=False)
class SizeMatched:
    """Another selector's ranking, cut for each request to as many items as a second selector offers there.

    With a random ranking this is the comparator "random at equal size".

    Attributes:
        name: the name in tables.
        ranking: whose ranking is cut.
        like: whose sizes are taken.
    """

    name: str
    ranking: Selector
    like: Selector

    def describe(self) -> dict[str, Any]:
        """The descriptions of both selectors."""
        return {"ranking": self.ranking.describe(), "as many as": self.like.describe()}

    def select(self, batch: Batch) -> Answers:
        """Cut the ranking to the sizes of `like`; a request that `like` fails on fails here too."""
        like = self.like.select(batch)
        return self.sized(batch, offered_sizes(like.candidates), like.errors)

    def sized(self, batch: Batch, sizes: IntArray, errors: Mapping[int, str]) -> Answers:
        """Cut the ranking to given sizes.

        Args:
            batch: the requests.
            sizes: how many items `like` offers each, shape (n_requests,).
            errors: what went wrong there, by row of the batch.

        Raises:
            SelectorError: `like` offers more items than are ranked here, so that the sizes would differ.
        """
        answers = self.ranking.select(batch)
        table = replace(answers.candidates, out=np.zeros(len(answers.candidates), dtype=np.int64))
        searched = table.origin != Origin.SESSION
        ranked = np.bincount(table.request[searched], minlength=table.n_requests)
        depth = min(getattr(self.ranking, "depths", ()), default=0)
        short = np.flatnonzero((sizes > ranked) & (ranked >= depth) & (depth > 0))
        if len(short):
            row = int(short[0])
            raise SelectorError(
                f"{self.name} cannot offer as many items as {self.like.name}: that offers {sizes[row]} for "
                f"query {batch.ids[row]!r}, and only the best {depth} are ranked; set depth higher, or leave "
                f"`like` out"
            )
        beyond = searched & (place_among(table, searched) >= sizes[table.request])
        table = table.exclude(beyond, Rule.of(AS_MANY_AS, selector=self.like.name))
        errors = {**errors, **answers.errors}
        answered = ~np.isin(table.request, list(errors))
        return replace(answers, candidates=table.select_rows(answered | ~searched), errors=errors)


def offered_sizes(table: Candidates) -> IntArray:
    """How many items each request was offered beyond its session, shape (n_requests,)."""
    rows = table.chosen & (table.origin != Origin.SESSION)
    return np.bincount(table.request[rows], minlength=table.n_requests).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Oracle:
    """The required items of each request: the lower bound of tokens, and the upper bound of completeness.

    Of a group of alternatives it offers the cheapest by prompt tokens, of equals the first in the catalog; none where
    the session holds one of them. What a request may not get is not offered, so that it can be incomplete.

    Attributes:
        name: the name in tables.
        resources: count prompt tokens.
        required: what is required, by query id; None until an experiment gives it.
    """

    name: str
    resources: Resources
    required: Required | None = None

    def describe(self) -> dict[str, Any]:
        """That it is the oracle, and what counts its tokens. The labels are those of the dataset that is run."""
        return {"oracle": ABOUT, "identities": {"tokens": self.resources.identity("tokens")}}

    def select(self, batch: Batch) -> Answers:
        """Offer what is required of every request, each with score 1; a request that needs nothing gets nothing.

        Raises:
            ParameterError: it has no labels, or none of a request.
        """
        if self.required is None:
            raise ParameterError(NEEDS_LABELS)
        tokens = self.resources.tokens(batch.catalog)
        request: list[int] = []
        item: list[int] = []
        for row, query in enumerate(batch.requests):
            if query.id not in self.required:
                raise ParameterError(
                    f"the oracle has no labels of query {query.id!r}; ask it for queries of its dataset"
                )
            in_session = set(batch.session_item[batch.session_start[row] : batch.session_start[row + 1]].tolist())
            for group in self.required[query.id]:
                positions = {position for key in group if (position := batch.catalog.find(key)) is not None}
                offered = [position for position in positions if batch.eligible[row, position]]
                if offered and not positions & in_session:
                    request.append(row)
                    item.append(min(offered, key=lambda position: (tokens[position], position)))
        rows, items = np.array(request, dtype=np.int64), np.array(item, dtype=np.int64)
        required = Candidates.build(len(batch), rows, items, score=np.ones(len(items)))
        return Answers(
            query=Query.of_chunks(batch, [[query.text] if js_trim(query.text) else [] for query in batch.requests]),
            candidates=concatenated([session_rows(batch), required]),
            ranked=True,
            scored=True,
        )
