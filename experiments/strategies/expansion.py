"""reports/expansion.md (`make expansion`): does expansion find more than a larger topN does?"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))

from dots import dot_picture, gain_cell, local, points
from pages import Page, Tables, run_page

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.comparisons import grouped_compare
from ctxbench.evaluation.inputs import count_tokens
from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.evaluation.runner import answered
from ctxbench.evaluation.statistics import Comparison, correct
from ctxbench.model.arrays import FloatArray
from ctxbench.model.resources import Resources
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.tokens import TokenCounter
from ctxbench.selectors.selector import PipelineSelector

ROOT = Path(__file__).parents[2]
DATASETS = ("workbench", "freight")
SPLITS = {"tuning": "test", "test": "tuning"}  # the other of each
DEPENDENCY, COMPLETE, ITEMS, TOKENS = METRICS = tuple(
    parse_metric(name) for name in ("dependency_recall", "completeness", "items", "tokens")
)
SIZES = (5, 12)  # of what the search offers before the expansion adds to it
TOPK, MOST = 100, 60  # chunk matches, so high that they do not limit; the largest topN that is compared with
TYPES = ["rule", "reference"]
COMPARED: dict[str, dict[str, Any]] = {
    "all chunks": {"threshold": 0.0},
    "first chunks": {"threshold": 0.0, "heads": True},
    "graph, mean": {"by": "graph", "graph_threshold": 0.0, "similarity": "mean", "neighbours": 500},
    "graph, centroid": {"by": "graph", "graph_threshold": 0.0, "similarity": "centroid", "neighbours": 500},
}
DEFAULT, TUNED, ANY, CONTROL = "specification's default", "tuned", "tuned, any type", "control: the query alone"


@dataclass(frozen=True)
class Arm:
    """The first topN of the search, and what an expansion adds."""

    topN: int
    expansion: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pipeline(self) -> Pipeline:
        """The default pipeline with a higher topK, and the expansion if there is one."""
        expand = [{"expansion": dict(self.expansion)}] if self.expansion else []
        return Pipeline.of({"retrieve": "dense", "refine": [{"standard": {"topK": TOPK, "topN": self.topN}}, *expand]})

    def sizes(self) -> list[Arm]:
        """The expansion behind every size of the search."""
        return [replace(self, topN=n) for n in SIZES]

    def but(self, **changes: Any) -> Arm:
        """With other parameters of the expansion; None takes one away."""
        merged = {**self.expansion, **changes}
        return replace(self, expansion={key: value for key, value in merged.items() if value is not None})


def grid() -> Iterator[Arm]:
    """Everything that is tried: what is compared, how many items are added, and the query's share in their order."""
    for how, added, share in itertools.product(COMPARED, (5, 8), (0.0, 0.5, 0.7)):
        limit = "graph_topN" if how.startswith("graph") else "topN"
        yield Arm(SIZES[0], {**COMPARED[how], limit: added, "query_weight": share, "types": TYPES})


class Trial:
    """Runs arms on the requests of one dataset and split, each once."""

    def __init__(self, dataset: Dataset, resources: Resources, counter: TokenCounter) -> None:
        self.dataset, self._resources, self._batch = dataset, resources, dataset.batch()
        self._labels = Labels.of(dataset, count_tokens(counter, dataset.catalog))
        self._searched: dict[str, Any] = {}  # shared by all arms
        Pipeline.of({"retrieve": "dense"}).run(self._batch, resources, memo=self._searched)
        self._values: dict[str, Mapping[Any, FloatArray]] = {}
        self.groups = [query.group or query.id for query in dataset.queries]

    def values(self, arm: Arm) -> Mapping[Any, FloatArray]:
        """The metrics by query."""
        key = f"{arm.topN} {sorted(arm.expansion.items())}"
        if key not in self._values:
            selector = PipelineSelector("arm", arm.pipeline, self._resources, dict(self._searched))
            self._values[key] = evaluate(METRICS, self._labels.evidence(answered(selector, self._batch)))
        return self._values[key]

    def raised(self, arm: Arm) -> Arm:
        """The search alone with the smallest topN whose mean size is at least that of an arm."""
        items = np.nanmean(self.values(arm)[ITEMS])
        sizes = (Arm(n) for n in range(1, MOST + 1))
        return next(plain for plain in sizes if np.nanmean(self.values(plain)[ITEMS]) >= items - 1e-9)

    def pair(self, arms: Sequence[Arm], metric: Any) -> tuple[FloatArray, FloatArray]:
        """By query, the search alone of at least the arms' size, and the arms, each averaged over the arms."""
        base = np.mean([self.values(self.raised(arm))[metric] for arm in arms], axis=0)
        return base, np.mean([self.values(arm)[metric] for arm in arms], axis=0)


Trials = Mapping[str, Trial]


def gain(trials: Sequence[tuple[Trial, Sequence[Arm]]], metric: Any) -> Comparison:
    """The arms of each trial against the search alone, over the queries of all, by group."""
    pairs = [trial.pair(arms, metric) for trial, arms in trials]
    base, other = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return grouped_compare(base, other, [name for trial, _ in trials for name in trial.groups], scale="share")


def chosen(trials: Trials) -> Arm:
    """The arm whose gain in dependency recall, over its standard error, is largest where that is smallest."""

    def strength(arm: Arm) -> float:
        gains = [gain([(trial, arm.sizes())], DEPENDENCY) for trial in trials.values()]
        return min(one.difference / max(one.interval.high - one.interval.low, 1e-9) for one in gains)

    return max(grid(), key=strength)


def measure(datasets: Sequence[str] = DATASETS) -> Tables:
    """Gains of each arm on all requests, each under a setting chosen on the other split; and these settings."""
    resources, counter = local()
    trials: dict[str, dict[str, Trial]] = {split: {} for split in SPLITS}
    for split, name in itertools.product(SPLITS, datasets):
        dataset = open_dataset(str(ROOT / "datasets" / name)).split(split).judged()
        trials[split][name] = Trial(dataset, resources, counter)
    tuned = {split: chosen(trials[other]) for split, other in SPLITS.items()}
    arms = {
        split: {
            DEFAULT: [Arm(5, {"threshold": 0.75, "topN": 3})],
            TUNED: arm.sizes(),
            ANY: arm.but(types=None).sizes(),
            CONTROL: arm.but(query_weight=1.0).sizes(),
        }
        for split, arm in tuned.items()
    }
    keys = [(name, arm) for name in datasets for arm in (DEFAULT, TUNED, ANY, CONTROL)]
    compared = {
        (name, arm, metric): gain([(trials[split][name], arms[split][arm]) for split in SPLITS], metric)
        for name, arm in keys
        for metric in (DEPENDENCY, COMPLETE)
    }
    tested = correct(compared)
    rows = []
    for name, arm in keys:
        sizes = [(trials[split][name], each) for split in SPLITS for each in arms[split][arm]]
        counts = {
            key: np.mean([np.nanmean(trial.values(plain(trial, each))[metric]) for trial, each in sizes])
            for key, metric, plain in (
                ("items", ITEMS, _itself),
                ("tokens", TOKENS, _itself),
                ("tokens_topN", TOKENS, Trial.raised),
            )
        }
        for metric in (DEPENDENCY, COMPLETE):
            rows.append(
                {"dataset": name, "arm": arm, "metric": str(metric), **counts} | _row(tested[name, arm, metric])
            )
    settings = [{"requests of": split, "setting": str(dict(arm.expansion))} for split, arm in tuned.items()]
    return {"": pd.DataFrame(rows), "settings": pd.DataFrame(settings)}


def _itself(_: Trial, arm: Arm) -> Arm:
    return arm


def _row(compared: Comparison) -> dict[str, Any]:
    return {
        "n": compared.n,
        "value": compared.other,
        "difference": compared.difference,
        "low": compared.interval.low,
        "high": compared.interval.high,
        "p": compared.p_holm,
        "significant": compared.significant,
    }


def page(tables: Tables) -> Page:
    """Off or on, and every arm on both datasets."""
    rows = tables[""].set_index(["metric", "arm", "dataset"]).sort_index()
    dependency, complete = rows.loc["dependency_recall"], rows.loc["completeness"]
    datasets = list(dict.fromkeys(tables[""]["dataset"]))
    pays = bool((complete.loc[TUNED, "significant"] & (complete.loc[TUNED, "difference"] > 0)).all())
    default, tuned, completed = (
        " and ".join(points(part.loc[(arm, name), "difference"]) for name in datasets)
        for part, arm in ((dependency, DEFAULT), (dependency, TUNED), (complete, TUNED))
    )
    keys = [(name, arm) for name in datasets for arm in (DEFAULT, TUNED, ANY, CONTROL)]
    found = f"the default finds {default} points of dependencies; tuned, {tuned}, at {completed} of completeness"
    return Page(
        title="Expansion",
        answer=f"{'On' if pays else 'Off'}. Against a larger topN, {found}.",
        picture=dot_picture(
            {
                f"{name}, {arm.partition(':')[0]}": {
                    "dependency recall": dependency.loc[arm, name],
                    "completeness": complete.loc[arm, name],
                }
                for name, arm in keys
            },
            x="points, against the search alone with as many items",
            alt="Gains in dependency recall and completeness over a larger topN, by expansion and dataset",
        ),
        table=[
            {
                "dataset": name,
                "expansion": arm,
                "items": f"{dependency.loc[(arm, name), 'items']:.1f}",
                "tokens": f"{dependency.loc[(arm, name), 'tokens']:,.0f}",
                "tokens, topN": f"{dependency.loc[(arm, name), 'tokens_topN']:,.0f}",
                "dependency recall, %": f"{100 * dependency.loc[(arm, name), 'value']:.1f}",
                "gain": gain_cell(dependency.loc[arm, name]),
                "gain, completeness": gain_cell(complete.loc[arm, name]),
            }
            for name, arm in keys
        ],
        notes=(
            (
                "A request seldom names the rules and references that the tools it needs depend on: its "
                "*dependencies*. *Dependency recall* is the share of them that was offered. Gains, in points, are over "
                "the search alone with a topN that offers as many items; bold is significant."
            ),
            (
                "The specification's default adds up to 3 items above 0.75 to the first 5. *Control*: the same number "
                "of rules and references, in the order of their similarity with the request. *Any type*: tools, too."
            ),
        ),
        made=f"`make expansion`. Both splits of {' and '.join(f'`{name}`' for name in datasets)} "
        f"({' and '.join(str(dependency.loc[(TUNED, name), 'n']) for name in datasets)} requests with dependencies), "
        "which label what is needed because another item needs it. *Tuned* adds 5 or 8 rules and references, without "
        "a threshold, behind the first 5 and 12 items (means); each request is measured under the setting, of 24, that "
        "is best on the other split. Intervals and p by group of paraphrases; p is Holm-corrected over the table.",
    )


if __name__ == "__main__":
    run_page("expansion", measure, page, about=__doc__)
