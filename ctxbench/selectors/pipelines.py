"""Selectors of this package: pipelines over shared resources, and random draws of another selector's size."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ctxbench.core.arrays import IntArray
from ctxbench.core.candidates import Candidates, Origin, place_among
from ctxbench.core.errors import SelectorError
from ctxbench.core.items import Catalog
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.requests import Batch
from ctxbench.core.rules import AS_MANY_AS, Rule
from ctxbench.core.stages import CHAT, FORMAT, Resources, kind_of
from ctxbench.selectors.selector import Answers, Selector


def check_fits(pipeline: Pipeline, catalog: Catalog) -> None:
    """Check that the fitted steps of a pipeline suit it and a catalog; without any, nothing is imported for it.

    Raises:
        ParameterError: a step was fitted for another catalog, or behind other steps.
    """
    if pipeline.fitted:
        from ctxbench.features.stored_fits import hold_to_fits

        hold_to_fits(pipeline, catalog)


@dataclass(frozen=True, eq=False)
class PipelineSelector:
    """A pipeline as a selector.

    Attributes:
        name: what tables call it.
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
        """What language models that steps asked say of it since the last call: how often, and how many tokens."""
        asked = [self.resources.get(use).take_notes() for use in self._uses if kind_of(use) == CHAT]
        return {name: sum(one.get(name, 0) for one in asked) for notes in asked for name in notes}

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
            query=outcome.query,
            candidates=outcome.candidates,
            ranked=self.pipeline.ranks,
            scored=self.pipeline.ranks,
        )


@dataclass(frozen=True, eq=False)
class AsManyAs:
    """Another selector's ranking, cut for each request to as many items as a second selector offers there.

    With a random ranking this is the comparator "random at equal size".

    Attributes:
        name: what tables call it.
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
        """Cut the one to the size of the other; a request that the other fails on fails here too."""
        like = self.like.select(batch)
        return self.sized(batch, offered_sizes(like), like.errors)

    def sized(self, batch: Batch, sizes: IntArray, errors: Mapping[int, str]) -> Answers:
        """Cut to the size of answers that the other has given already.

        Args:
            batch: the requests.
            sizes: how many items the other offers each, shape (n_requests,).
            errors: what went wrong there, by row of the batch.

        Raises:
            SelectorError: the other offers more items than are ranked here, so that the sizes would differ.
        """
        answers = self.ranking.select(batch)
        table = replace(answers.candidates, out=np.zeros(len(answers.candidates), dtype=np.int64))
        found = table.origin != Origin.SESSION
        ranked = np.bincount(table.request[found], minlength=table.n_requests)
        depth = min(getattr(self.ranking, "depths", ()), default=0)
        short = np.flatnonzero((sizes > ranked) & (ranked >= depth) & (depth > 0))
        if len(short):
            row = int(short[0])
            raise SelectorError(
                f"{self.name} cannot offer as many items as {self.like.name}: that offers {sizes[row]} for query "
                f"{batch.ids[row]!r}, and only the best {depth} are ranked; set depth higher, or leave `like` out"
            )
        beyond = found & (place_among(table, found) >= sizes[table.request])
        table = table.marked(beyond, Rule.of(AS_MANY_AS, selector=self.like.name))
        errors = {**errors, **answers.errors}
        answered = ~np.isin(table.request, list(errors))
        return replace(answers, candidates=table.taken(answered | ~found), errors=errors)


class HasCandidates(Protocol):
    """Answers, as given or as stored."""

    @property
    def candidates(self) -> Candidates:
        """The candidates, by request."""


def offered_sizes(answers: HasCandidates) -> IntArray:
    """How many items each request was offered beyond its session, shape (n_requests,)."""
    table = answers.candidates
    rows = table.chosen & (table.origin != Origin.SESSION)
    return np.bincount(table.request[rows], minlength=table.n_requests).astype(np.int64)
