"""Requests of several topics: what splitting, a minimum per chunk and pooling bring at equal prompt tokens.

Writes reports/multi-topic.md and reports/multi-topic.svg. Run from the project's folder with the public datasets
imported: `python experiments/strategies/multi_topic.py`. Nothing is chosen on the test split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from multi_topic_page import TRIED, Row, page_text, recall_figure

from ctxbench.cli.common import run_script
from ctxbench.datasets.dataset import Dataset, select_queries
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.comparisons import AtTokens, Curve, at_equal_tokens
from ctxbench.evaluation.inputs import count_tokens
from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.evaluation.runner import answered
from ctxbench.evaluation.statistics import Comparison, correct
from ctxbench.io.files import cache_dir, write_atomic
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.report.pages import write_parted
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import TokenCounter, open_counter
from ctxbench.selectors.selector import PipelineSelector

ROOT = Path(__file__).parents[2]
SEVERAL = ("topics-2", "topics-3", "topics-4")
DATASETS = {"metatool-multi": (), "workbench": SEVERAL, "freight": SEVERAL}
SINGLE = {"metatool-single": (), "workbench": ("topics-1",), "freight": ("topics-1",)}
SAMPLE = 500  # of metatool-single
COMPLETE, RECALL, TOKENS = METRICS = tuple(parse_metric(name) for name in ("completeness", "recall", "tokens"))
SIZE = 5  # items that the specification's default offers
SIZES = (*range(31), 40, 50, 75, 100)

ANALYSES: dict[str, Any] = {
    "sentences": "sentences",
    "whole": "whole",
    "marked": {"sentences": {"rule": "marked"}},
    "clauses": "clauses",
    **{
        f"windows {n}/{m}": {"windows": {"size": n, "overlap": m}}
        for n, m in ((4, 2), (6, 4), (8, 4), (12, 4), (16, 8))
    },
    "clauses + whole": ["clauses", "whole"],
    "windows 8/4 + whole": [{"windows": {"size": 8, "overlap": 4}}, "whole"],
}
MINIMA: dict[str, Any] = {"1 a chunk in place": {"per_chunk": {"displace": True}}, "1 a chunk on top": "per_chunk"}
POOLINGS: dict[str, Any] = {
    "mean": {"over_queries": "mean"},
    "best 2": {"over_queries": "top", "top": 2},
    "best 3": {"over_queries": "top", "top": 3},
}


@dataclass(frozen=True)
class Arm:
    """How requests are split, and what is done beside it: a minimum per chunk or a pooling, or nothing."""

    analysis: str
    beside: str = ""

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.analysis}, {self.beside}" if self.beside else self.analysis

    @property
    def base(self) -> Arm:
        """What it is compared with: the same splitting with nothing beside it; a splitting, against the default's."""
        return Arm(self.analysis) if self.beside else Arm("sentences")

    def pipeline(self, n: int) -> Pipeline:
        """The first n of its ranking, and what the minimum makes of them."""
        refine = [{"first": {"n": n}}, *([MINIMA[self.beside]] if self.beside in MINIMA else [])]
        retrieve = {"dense": POOLINGS.get(self.beside, {})}
        return Pipeline.of({"analyse": ANALYSES[self.analysis], "retrieve": retrieve, "refine": refine})


SPLITTINGS = [Arm(analysis) for analysis in ANALYSES if analysis != "sentences"]
FAMILIES = {
    "Splitting the request": SPLITTINGS,
    "Minimum per chunk": [Arm(analysis, way) for analysis in ANALYSES if analysis != "whole" for way in MINIMA],
    "Pooling over the request's chunks": [Arm(a, way) for a in ANALYSES if a != "whole" for way in POOLINGS],
}
FIGURES = {"completeness": COMPLETE, "recall": RECALL}


class Trial:
    """Runs arms on the requests of one dataset and split, each once."""

    def __init__(self, dataset: Dataset, resources: LocalResources, counter: TokenCounter) -> None:
        self.dataset = dataset
        self._labels = Labels.of(dataset, count_tokens(counter, dataset.catalog))
        self._resources = resources
        self._memo: dict[str, Any] = {}
        self._values: dict[tuple[Arm, int], Mapping[Any, Any]] = {}

    def values(self, arm: Arm, n: int) -> Mapping[Any, Any]:
        """The metrics by query of an arm at a size."""
        if (arm, n) not in self._values:
            selector = PipelineSelector(arm.name, arm.pipeline(n), self._resources, self._memo)
            answers = answered(selector, self.dataset.batch())
            self._values[arm, n] = evaluate(METRICS, self._labels.evidence(answers))
        return self._values[arm, n]

    def curve(self, arm: Arm, metric: Any) -> Curve:
        """A metric over tokens, for the first 0 to 100."""
        points = [self.values(arm, n) for n in SIZES]
        return Curve(np.stack([one[metric] for one in points]), np.stack([one[TOKENS] for one in points]))

    def chunks_a_request(self, arm: Arm) -> float:
        """How many chunks a request is split into on average."""
        batch = self.dataset.batch()
        return len(arm.pipeline(1).analyse.call(batch, self._resources).text) / len(batch)

    def against_base(self, arm: Arm, metric: Any) -> AtTokens:
        """An arm at the default's size against its base at as many tokens."""
        own = self.values(arm, SIZE)
        return at_equal_tokens(own[metric], own[TOKENS], self.curve(arm.base, metric))


def best(trials: Mapping[str, Trial], arms: Sequence[Arm]) -> Arm:
    """The arm with the largest mean gain in recall over the datasets; of equals the first."""
    return max(arms, key=lambda arm: sum(gain(trial.against_base(arm, RECALL)) for trial in trials.values()))


def gain(found: AtTokens) -> float:
    """By how much an arm beats its base at its tokens; nothing where the base has no so many."""
    return found.comparison.difference if found.comparison is not None else 0.0


def several(name: str, tags: Sequence[str], split: str) -> Dataset:
    """The labelled requests of a split that carry one of the tags (all, where none is asked for)."""
    own = ROOT / "datasets" / name
    dataset = open_dataset(str(own) if own.is_dir() else name, base=ROOT).split(split).judged()
    if name == "metatool-single":
        return select_queries(dataset, sample=SAMPLE)
    wanted = [query.id for query in dataset.queries if not tags or set(tags) & set(query.tags)]
    return dataset.take(wanted)


def rows_of(trials: Mapping[str, Trial], arms: Sequence[Arm]) -> list[Row]:
    """A row an arm and dataset; the comparisons of all of them are corrected together."""
    found: dict[tuple[Arm, str, str], AtTokens] = {
        (arm, name, label): trial.against_base(arm, metric)
        for name, trial in trials.items()
        for arm in arms
        for label, metric in FIGURES.items()
    }
    tested: dict[tuple[Arm, str, str], Comparison] = correct(
        {key: one.comparison for key, one in found.items() if one.comparison is not None and key[0] != key[0].base}
    )
    return [
        Row(
            dataset=name,
            arm=arm.name,
            base="" if arm == arm.base else arm.base.name,
            tokens=found[arm, name, "completeness"].tokens,
            values={label: found[arm, name, label].complete for label in FIGURES},
            gains={label: tested.get((arm, name, label)) for label in FIGURES},
        )
        for name in trials
        for arm in arms
    ]


def chunk_counts(trials: Mapping[str, Trial]) -> dict[str, list[float]]:
    """Mean chunks a request by splitting, in the order of the datasets."""
    return {analysis: [trial.chunks_a_request(Arm(analysis)) for trial in trials.values()] for analysis in ANALYSES}


def lines_of(trials: Mapping[str, Trial], arms: Sequence[Arm]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Mean tokens and recall of the first 1 to 20, by dataset and arm."""
    out: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for name, trial in trials.items():
        title = f"{name}, {len(trial.dataset)} requests"
        values = {arm.name: [trial.values(arm, n) for n in range(1, 21)] for arm in arms}
        out[title] = {
            arm: [(float(one[TOKENS].mean()), float(np.nanmean(one[RECALL]))) for one in row]
            for arm, row in values.items()
        }
    return out


def main() -> None:
    """Write the page and its figure."""
    embedder, counter = open_embedder("minilm"), open_counter("o200k", cache=cache_dir())
    resources = LocalResources(Vectors(embedder, VectorStore(embedder.identity)), counter)

    def trials(datasets: Mapping[str, Sequence[str]], split: str) -> dict[str, Trial]:
        return {name: Trial(several(name, tags, split), resources, counter) for name, tags in datasets.items()}

    tuning, test, single = trials(DATASETS, "tuning"), trials(DATASETS, "test"), trials(SINGLE, "test")
    chosen = {family: best(tuning, arms) for family, arms in FAMILIES.items()}
    splitting, minimum, pooling = chosen.values()
    minima = {way: [Arm("sentences", way), Arm(splitting.analysis, way)] for way in MINIMA}
    asked_about = [Arm("whole"), splitting, *minima["1 a chunk in place"], *minima["1 a chunk on top"]]
    final = [Arm("sentences"), *asked_about, minimum, pooling, Arm(splitting.analysis, pooling.beside)]
    text = page_text(
        sizes={split: {name: len(trial.dataset) for name, trial in of.items()}
               for split, of in (("tuning", tuning), ("test", test))},
        chosen={family: arm.name for family, arm in chosen.items()},
        final=rows_of(test, list(dict.fromkeys(final))),
        single=rows_of(single, [Arm("sentences"), splitting]),
        tried={family: rows_of(tuning, [*([Arm("sentences")] if arms is SPLITTINGS else []), *arms])
               for family, arms in FAMILIES.items()},
        chunks=chunk_counts(tuning),
    )  # fmt: skip
    drawn = [Arm("whole"), Arm("sentences"), splitting, Arm(splitting.analysis, "1 a chunk on top")]
    write_atomic(ROOT / "reports" / "multi-topic.svg", recall_figure(lines_of(test, drawn)))
    write_parted(ROOT / "reports" / "multi-topic.md", text, [TRIED])


if __name__ == "__main__":
    run_script(main)
