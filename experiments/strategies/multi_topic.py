"""reports/multi-topic.md (`make multi-topic`): requests of several topics: splitting, a minimum per chunk, pooling."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))

from dots import dot_picture, gain_cell, local, points
from pages import Page, Tables, run_page

from ctxbench.datasets.dataset import Dataset, select_queries
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.comparisons import LENGTHS, AtTokens, Curve, at_equal_tokens
from ctxbench.evaluation.inputs import count_tokens
from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.evaluation.runner import answered
from ctxbench.evaluation.statistics import correct
from ctxbench.model.resources import Resources
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.tokens import TokenCounter
from ctxbench.selectors.selector import PipelineSelector

ROOT = Path(__file__).parents[2]
SEVERAL = ("topics-2", "topics-3", "topics-4")
DATASETS: Mapping[str, Sequence[str]] = {"metatool-multi": (), "workbench": SEVERAL, "freight": SEVERAL}
SINGLE: Mapping[str, Sequence[str]] = {"metatool-single": (), "workbench": ("topics-1",), "freight": ("topics-1",)}
SAMPLE = 500
METRICS = COMPLETE, RECALL, TOKENS = tuple(parse_metric(name) for name in ("completeness", "recall", "tokens"))
SIZE = 5  # items that the specification's default offers
BASE = "sentences"
ANALYSES: dict[str, Any] = {
    BASE: "sentences",
    "whole": "whole",
    "marked": {"sentences": {"rule": "marked"}},
    "clauses": "clauses",
    **{f"windows {n}/{m}": {"windows": {"size": n, "overlap": m}} for n, m in ((4, 2), (6, 4), (8, 4), (12, 4))},
}
BESIDE: dict[str, tuple[Any, dict[str, Any]]] = {  # a refining step, and how a score is pooled over the chunks
    "1 a chunk in place": ({"per_chunk": {"displace": True}}, {}),
    "1 a chunk on top": ("per_chunk", {}),
    "mean": (None, {"over_queries": "mean"}),
    "best 2": (None, {"over_queries": "top", "top": 2}),
}


@dataclass(frozen=True)
class Arm:
    """How requests are split, and what is done beside it: a minimum per chunk, a pooling, or nothing."""

    analysis: str
    beside: str = ""

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.analysis}, {self.beside}" if self.beside else self.analysis

    @property
    def base(self) -> Arm:
        """What it is compared with: the same splitting with nothing beside it; a splitting, with the default's."""
        return Arm(self.analysis) if self.beside else Arm(BASE)

    def pipeline(self, n: int) -> Pipeline:
        """The first n of its ranking, and what a minimum makes of them."""
        step, pooling = BESIDE.get(self.beside, (None, {}))
        refine = [{"first": {"n": n}}, *([step] if step else [])]
        return Pipeline.of({"analyse": ANALYSES[self.analysis], "retrieve": {"dense": pooling}, "refine": refine})


class Trial:
    """Runs arms on the requests of one dataset and split, each once."""

    def __init__(self, dataset: Dataset, resources: Resources, counter: TokenCounter) -> None:
        self.dataset, self._resources = dataset, resources
        self._labels = Labels.of(dataset, count_tokens(counter, dataset.catalog))
        self._memo: dict[str, Any] = {}
        self._values: dict[tuple[Arm, int], Mapping[Any, Any]] = {}
        self._groups = np.unique([query.group or query.id for query in dataset.queries], return_inverse=True)[1]

    def values(self, arm: Arm, n: int) -> Mapping[Any, Any]:
        """The metrics by query of an arm at a size."""
        if (arm, n) not in self._values:
            selector = PipelineSelector(arm.name, arm.pipeline(n), self._resources, self._memo)
            answers = answered(selector, self.dataset.batch())
            self._values[arm, n] = evaluate(METRICS, self._labels.evidence(answers))
        return self._values[arm, n]

    def against_base(self, arm: Arm, metric: Any) -> AtTokens:
        """An arm at the default's size against its base at as many tokens."""
        curve = [self.values(arm.base, n) for n in LENGTHS]
        values = self.values(arm, SIZE)
        of_base = Curve(*(np.stack([point[part] for point in curve]) for part in (metric, TOKENS)))
        return at_equal_tokens(values[metric], values[TOKENS], of_base, groups=self._groups)


def best(trials: Sequence[Trial]) -> Arm:
    """The splitting with the largest mean gain in recall over the datasets."""

    def gain(arm: Arm) -> float:
        compared = [trial.against_base(arm, RECALL).comparison for trial in trials]
        return sum(gained.difference for gained in compared if gained is not None)

    return max((Arm(analysis) for analysis in ANALYSES if analysis != BASE), key=gain)


def opened(name: str, tags: Sequence[str], split: str) -> Dataset:
    """The labelled requests of a split that carry one of the tags (all, where there are none), a sample of many."""
    folder = ROOT / "datasets" / name
    dataset = open_dataset(str(folder) if folder.is_dir() else name, base=ROOT).split(split).judged()
    tagged = [query.id for query in dataset.queries if not tags or set(tags) & set(query.tags)]
    return select_queries(dataset.take(tagged), sample=SAMPLE)


def measure(datasets: Mapping[str, Sequence[str]] = DATASETS, single: Mapping[str, Sequence[str]] = SINGLE) -> Tables:
    """Gains of each arm on the test split, the splitting chosen on the tuning split; and those on one topic."""
    resources, counter = local()

    def trials(of: Mapping[str, Sequence[str]], split: str) -> dict[str, Trial]:
        return {name: Trial(opened(name, tags, split), resources, counter) for name, tags in of.items()}

    splitting = best(list(trials(datasets, "tuning").values()))
    beside = [Arm(analysis, way) for analysis in (BASE, splitting.analysis) for way in BESIDE]
    arms = list(dict.fromkeys([Arm("whole"), splitting, *beside]))
    return {
        "": pd.DataFrame(_rows(trials(datasets, "test"), arms)),
        "one-topic": pd.DataFrame(_rows(trials(single, "test"), [splitting])),
    }


def _rows(trials: Mapping[str, Trial], arms: Sequence[Arm]) -> Iterator[dict[str, Any]]:
    """A row for each arm, dataset and metric, all comparisons corrected together."""
    compared = {
        (arm, name, metric): trial.against_base(arm, metric)
        for arm in arms
        for name, trial in trials.items()
        for metric in (COMPLETE, RECALL)
    }
    tested = correct(
        {key: replace(at.comparison, p=at.p_groups) for key, at in compared.items() if at.comparison is not None}
    )
    for (arm, name, metric), at in compared.items():
        row = {"arm": arm.name, "base": arm.base.name, "dataset": name, "requests": len(trials[name].dataset)}
        row |= {"metric": str(metric), "tokens": at.tokens, "value": at.complete, "base value": at.base}
        gain = tested.get((arm, name, metric))
        ends = (gain.difference, gain.interval.low, gain.interval.high, gain.p_holm) if gain else (np.nan,) * 4
        row |= dict(zip(("difference", "low", "high", "p"), ends, strict=True))
        yield row | {"significant": bool(gain and gain.significant)}


def page(tables: Tables) -> Page:
    """A row an arm, a column a dataset."""
    complete = tables[""][tables[""]["metric"] == "completeness"]
    gains = complete.set_index(["arm", "dataset"])
    arms, datasets = (list(dict.fromkeys(complete[name])) for name in ("arm", "dataset"))
    splitting = tables["one-topic"]["arm"].iloc[0]
    better = [name for name in datasets if gains.loc[(splitting, name), "significant"]]
    worth = ", ".join(f"{points(gains.loc[(splitting, name), 'difference'])} points on `{name}`" for name in better)
    beside = complete[complete["arm"].str.contains(", ")]
    helps = int((beside["significant"] & (beside["difference"] > 0)).sum())
    harms = int((beside["significant"] & (beside["difference"] < 0)).sum())
    single = tables["one-topic"]
    cost = "; ".join(
        f"{row.dataset} {gain_cell(row._asdict())}" for row in single[single["metric"] == "recall"].itertuples()
    )
    sizes = ", ".join(f"{row.dataset} {row.requests}" for row in complete[complete["arm"] == splitting].itertuples())
    return Page(
        title="Requests of several topics",
        answer=f"Split by {splitting} only where requests join short tasks ({worth or 'no significant gain'}); "
        f"minima and poolings help significantly in {helps} of {len(beside)} comparisons.",
        picture=dot_picture(
            {name: {dataset: gains.loc[name, dataset] for dataset in datasets} for name in arms},
            x="points of completeness at equal tokens",
            alt="Gains in completeness at equal tokens, by way of splitting and dataset, with intervals",
        ),
        table=[
            {
                "arm": name,
                "compared with": gains.loc[(name, datasets[0]), "base"],
                **{dataset: gain_cell(gains.loc[name, dataset]) for dataset in datasets},
            }
            for name in arms
        ],
        notes=(
            (
                "Points of completeness, the share of requests that were offered all that they require, at equal "
                "prompt tokens; bold is significant. A request is split into chunks, each of which is searched. *1 a "
                "chunk* adds the best item of each chunk that has none, on top of the others or in place of the last. "
                f"*Mean* and *best 2* pool an item's scores over the chunks; the default takes the best. {harms} of "
                "these are worse."
            ),
            f"Requests of one topic lose recall by {splitting}, if anything: {cost}.",
        ),
        made=f"`make multi-topic`. Dense retrieval that offers the first {SIZE}, against its base with as many of its "
        f"first items as cost the same. The splitting, of {len(ANALYSES) - 1}, was chosen on the tuning splits by mean "
        f"gain in recall. Test splits: {sizes} requests; those of `workbench` and `freight` are tagged with two topics "
        "or more. p by group of queries (sign flips), Holm-corrected over all comparisons of completeness and recall.",
    )


if __name__ == "__main__":
    run_page("multi-topic", measure, page, about=__doc__)
