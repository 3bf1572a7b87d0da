"""The datasets that the shipped ranking is fitted on, what it sees of them, and what a fit offers there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from pooled import fit_pooled

from ctxbench.datasets.dataset import Dataset, select_queries
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.metrics import Metric, evaluate, parse_metric
from ctxbench.io.files import cache_dir
from ctxbench.model.arrays import FloatArray
from ctxbench.model.candidates import Candidates
from ctxbench.pipelines.features import TEXT, Logistic
from ctxbench.pipelines.fits import PROBABILITY, Fit, in_front
from ctxbench.pipelines.pipeline import Outcome, Pipeline
from ctxbench.pipelines.strategies.rank import Probability
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.tuning.fit_examples import Examples, make_examples
from ctxbench.tuning.preset_files import Prices
from ctxbench.tuning.query_fits import columns_of
from ctxbench.tuning.results import QuerySet, rank_with_pipeline

ROOT = Path(__file__).parents[2]
FAMILIES = {
    "bfcl": ("bfcl-simple", "bfcl-live", "bfcl-live-listed"),
    "livemcpbench": ("livemcpbench",),
    "locomo": ("locomo", "locomo-observations"),
    "metatool": ("metatool-single", "metatool-multi"),
    "toollens": ("toollens",),
    "workbench": ("datasets/workbench",),
    "freight": ("datasets/freight",),
    "skills": ("datasets/skills",),
    "diary": ("datasets/diary",),
}
"""Datasets by family: those of one share items or an author's way of writing, and are left out together."""

TUNING, TEST = "tuning", "test"
SAMPLE = 500  # queries a split at most
_SEEDS = {TUNING: 1, TEST: 0}
COMPLETE, TOKENS = parse_metric("completeness"), parse_metric("tokens")
METRICS: tuple[Metric, ...] = (COMPLETE, TOKENS)


def resources(name: str = "minilm") -> LocalResources:
    """Vectors of an embedder, tokens of o200k."""
    embedder = open_embedder(name)
    return LocalResources(Vectors(embedder, VectorStore(embedder.identity)), open_counter("o200k", cache=cache_dir()))


def learned() -> Pipeline:
    """The shipped selector with its defaults."""
    return definition("learned").pipeline(definition("learned").values())


def fitted(families: Iterable[str], opened: LocalResources) -> Fit:
    """One fit on the tuning splits of the datasets of some families, at most `SAMPLE` queries each."""
    datasets = {
        family: [
            select_queries(open_dataset(name, base=ROOT), split=TUNING, sample=SAMPLE, seed=_SEEDS[TUNING])
            for name in FAMILIES[family]
        ]
        for family in families
    }
    return fit_pooled(datasets, learned(), opened)


@dataclass(frozen=True)
class Fixed(Probability):
    """The step `probability` with a regression that stands in no file."""

    known: Logistic | None = None

    def model(self, *_: object) -> Logistic:
        """The regression."""
        if self.known is None:
            raise RuntimeError("no regression is given")
        return self.known


@dataclass(frozen=True, eq=False)
class Half:
    """One split of a dataset.

    Attributes:
        name, family: of the dataset.
        side: its queries and labels.
    """

    name: str
    family: str
    side: QuerySet

    @cached_property
    def front(self) -> Outcome:
        """What the ranking is made of: what was found, with its features."""
        return in_front(learned(), PROBABILITY).run(self.side.batch, self.side.resources)

    @cached_property
    def made(self) -> Examples:
        """Features and labels."""
        return self.examples(TEXT)

    @cached_property
    def labelled(self) -> Examples:
        """The same, with what similar labelled requests needed."""
        return self.examples(columns_of(requests=True))

    def examples(self, columns: Sequence[str]) -> Examples:
        """Features of other columns, and labels."""
        return make_examples(
            PROBABILITY, self.side.dataset, in_front(learned(), PROBABILITY), self.side.resources, columns=columns
        )

    def scored(self, model: Logistic) -> Candidates:
        """What was found, with probabilities by a regression."""
        return Fixed(known=model)(self.front.query, self.front.candidates, self.side.resources)

    def ranked(self, model: Logistic) -> Candidates:
        """What was found, in the order of log odds less log price by a regression."""
        price, *_ = learned().refine[-2:]
        return price.call(self.front.query, self.scored(model), self.side.resources)

    def measured(self, table: Candidates) -> tuple[FloatArray, FloatArray]:
        """Completeness (NaN where nothing is needed) and tokens by query."""
        answers = replace(self.found, candidates=table)
        values = evaluate([COMPLETE, TOKENS], self.side.labels.evidence(answers))
        return values[COMPLETE], values[TOKENS]

    @cached_property
    def found(self):
        """Answers with nothing cut."""
        return rank_with_pipeline(Pipeline.of({"retrieve": "dense"}), self.side).answers

    @cached_property
    def default(self) -> tuple[FloatArray, FloatArray]:
        """Completeness and tokens by query of the specification's defaults."""
        pipeline = definition("semantic").pipeline(definition("semantic").values("spec"))
        answers = self.side.answers(PipelineSelector("spec", pipeline, self.side.resources))
        values = evaluate(METRICS, self.side.labels.evidence(answers))
        return values[COMPLETE], values[TOKENS]

    @property
    def default_tokens(self) -> float:
        """The mean of the latter."""
        return mean(self.default[1])

    def within(self, table: Candidates, tokens: float) -> tuple[FloatArray, FloatArray]:
        """Completeness and tokens of a ranking cut to a mean number of tokens (see `tune --unlabelled`)."""
        prices = Prices.of_table(table, self.side.resources.tokens(self.side.batch.catalog))
        most, threshold = prices.setting_within(tokens)
        return self.measured(cut(table, self, threshold=threshold, at_most=most))


def cut(table: Candidates, half: Half, *, threshold: float, at_most: int) -> Candidates:
    """What the selector offers of a ranking."""
    steps = definition("learned").pipeline(
        {**definition("learned").values(), "threshold": threshold, "at_most": at_most}
    )
    return steps.refine[-1].call(half.front.query, table, half.side.resources)


def halves(split: str, opened: LocalResources, told: Callable[[str], None]) -> list[Half]:
    """One split of every dataset, at most `SAMPLE` queries each."""
    found = []
    for family, names in FAMILIES.items():
        for name in names:
            told(f"{name}, {split}")
            found.append(half(open_dataset(name, base=ROOT), family, split, opened))
    return found


def half(dataset: Dataset, family: str, split: str, opened: LocalResources, *, sample: int = SAMPLE) -> Half:
    """One split of a dataset, at most `sample` queries."""
    part = select_queries(dataset, split=split, sample=sample, seed=_SEEDS[split]).judged()
    return Half(dataset.name, family, QuerySet(part, split, opened.tokens(part.catalog), opened))


def mean(values: FloatArray) -> float:
    """The mean over the queries that a metric applies to."""
    return float(np.nanmean(values))
