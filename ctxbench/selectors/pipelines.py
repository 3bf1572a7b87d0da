"""Selectors of this package: pipelines over shared resources, and random draws of another selector's size."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ctxbench.arrays import FloatArray
from ctxbench.candidates import Origin
from ctxbench.pipeline import Pipeline, Resources
from ctxbench.requests import Batch
from ctxbench.selectors.base import Answers, Selector
from ctxbench.steps.cut import place_among


@dataclass(frozen=True, eq=False)
class PipelineSelector:
    """A pipeline as a selector.

    Attributes:
        name: what tables call it.
        pipeline: its steps.
        resources: what they use.
        memo: outputs of steps shared with other pipelines; see `Pipeline.run`.
    """

    name: str
    pipeline: Pipeline
    resources: Resources
    memo: MutableMapping[str, Any] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """Every step with its parameters, and the identities of the resources that the steps use."""
        steps = (self.pipeline.analyse, self.pipeline.retrieve, *self.pipeline.refine, self.pipeline.format)
        uses = sorted({use for step in steps for use in step.uses})
        identities = {use: self.resources.identity(use) for use in uses}
        return {"pipeline": self.pipeline.describe(), "identities": identities}

    def select(self, batch: Batch) -> Answers:
        """Run the pipeline."""
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
        """Both selectors."""
        return {"ranking": self.ranking.describe(), "as many as": self.like.describe()}

    def select(self, batch: Batch) -> Answers:
        """Cut the one to the size of the other; a request that the other fails on fails here too."""
        like = self.like.select(batch)
        answers = self.ranking.select(batch)
        sizes = offered_sizes(like)
        table = replace(answers.candidates, out=np.zeros(len(answers.candidates), dtype=np.int64))
        found = table.origin != Origin.SESSION
        beyond = found & (place_among(table, found) >= sizes[table.request])
        table = table.marked(beyond, f"beyond as many items as {self.like.name} offers")
        return replace(answers, candidates=table, errors={**like.errors, **answers.errors})


def offered_sizes(answers: Answers) -> FloatArray:
    """How many items each request was offered beyond its session, shape (n_requests,)."""
    table = answers.candidates
    rows = table.chosen & (table.origin != Origin.SESSION)
    return np.bincount(table.request[rows], minlength=table.n_requests).astype(np.float64)
