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
from ctxbench.evaluation.comparisons import LENGTHS, AtTokens, Curve, at_equal_tokens
from ctxbench.evaluation.inputs import count_tokens
from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.evaluation.runner import answered
from ctxbench.evaluation.statistics import correct
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
TOPK = 100  # chunk matches, so high that they do not limit
TYPES = ["rule", "reference"]
COMPARED: dict[str, dict[str, Any]] = {
    "all chunks": {"threshold": 0.0},
    "first chunks": {"threshold": 0.0, "heads": True},
    "graph, mean": {"by": "graph", "graph_threshold": 0.0, "similarity": "mean", "neighbours": 500},
    "graph, centroid": {"by": "graph", "graph_threshold": 0.0, "similarity": "centroid", "neighbours": 500},
}
DEFAULT, CONTROL = "specification's default", "control: the request alone"
TUNED = {"tuned for dependencies": DEPENDENCY, "tuned for completeness": COMPLETE}


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


def grid() -> Iterator[Arm]:
    """Everything that is tried: topN, what is compared, how many are added, the request's share, the types."""
    for n, how, added, share, types in itertools.product(SIZES, COMPARED, (5, 8), (0.0, 0.5, 0.7), (TYPES, None)):
        limit = "graph_topN" if how.startswith("graph") else "topN"
        yield Arm(n, COMPARED[how] | {limit: added, "query_weight": share} | ({"types": types} if types else {}))


class Trial:
    """Runs arms on the requests of one dataset and split, each once."""

    def __init__(self, dataset: Dataset, resources: Resources, counter: TokenCounter) -> None:
        self._resources, self._batch = resources, dataset.batch()
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


Trials = Mapping[str, Trial]


def gain(trials: Sequence[tuple[Trial, Arm]], metric: Any) -> AtTokens:
    """An arm of each trial against the search alone with as many tokens, over the queries of all."""

    def joined(arms: Sequence[Arm], of: Any) -> FloatArray:
        return np.concatenate([trial.values(arm)[of] for (trial, _), arm in zip(trials, arms, strict=True)])

    arms = [arm for _, arm in trials]
    plain = [[Arm(n)] * len(trials) for n in LENGTHS]
    curve = Curve(*(np.stack([joined(some, of) for some in plain]) for of in (metric, TOKENS)))
    groups = np.unique([name for trial, _ in trials for name in trial.groups], return_inverse=True)[1]
    return at_equal_tokens(joined(arms, metric), joined(arms, TOKENS), curve, groups=groups)


def chosen(trials: Trials, metric: Any) -> Arm:
    """The arm with the surest gain: the largest over the width of its interval, on the dataset where that is least."""

    def strength(arm: Arm) -> float:
        gains = [gain([(trial, arm)], metric).comparison for trial in trials.values()]
        widths = [one.difference / max(one.interval.high - one.interval.low, 1e-9) for one in gains if one is not None]
        return min(widths, default=-np.inf)

    return max(grid(), key=strength)


def measure(datasets: Sequence[str] = DATASETS) -> Tables:
    """Gains of each arm on all requests, each under a setting chosen on the other split; and these settings."""
    resources, counter = local()
    trials: dict[str, dict[str, Trial]] = {split: {} for split in SPLITS}
    for split, name in itertools.product(SPLITS, datasets):
        dataset = open_dataset(str(ROOT / "datasets" / name)).split(split).judged()
        trials[split][name] = Trial(dataset, resources, counter)
    default = Arm(5, {"threshold": 0.75, "topN": 3})
    arms: dict[str, dict[str, Arm]] = {DEFAULT: dict.fromkeys(SPLITS, default)}
    for name, metric in TUNED.items():
        arms[name] = {split: chosen(trials[other], metric) for split, other in SPLITS.items()}
    first = arms[next(iter(TUNED))]
    arms[CONTROL] = {
        split: replace(arm, expansion={**arm.expansion, "query_weight": 1.0}) for split, arm in first.items()
    }
    compared = {
        (name, arm, metric): gain([(trials[split][name], settings[split]) for split in SPLITS], metric)
        for name in datasets
        for arm, settings in arms.items()
        for metric in (DEPENDENCY, COMPLETE)
    }
    tested = correct(
        {key: replace(at.comparison, p=at.p_groups) for key, at in compared.items() if at.comparison is not None}
    )
    rows = []
    for key, at in compared.items():
        name, arm, metric = key
        items = np.concatenate([trials[split][name].values(arms[arm][split])[ITEMS] for split in SPLITS])
        row = {"dataset": name, "arm": arm, "metric": str(metric), "items": float(np.nanmean(items))}
        row |= {"tokens": at.tokens, "value": at.complete, "base value": at.base}
        gained = tested[key]
        row |= {"difference": gained.difference, "low": gained.interval.low, "high": gained.interval.high}
        rows.append(row | {"p": gained.p_holm, "significant": gained.significant})
    settings = [
        {
            "arm": name,
            "requests of": split,
            "topN": arms[name][split].topN,
            "expansion": str(arms[name][split].expansion),
        }
        for name in TUNED
        for split in SPLITS
    ]
    return {"": pd.DataFrame(rows), "settings": pd.DataFrame(settings)}


def page(tables: Tables) -> Page:
    """Off or on, and every arm on both datasets."""
    rows = tables[""].set_index(["metric", "arm", "dataset"]).sort_index()
    dependency, complete = rows.loc["dependency_recall"], rows.loc["completeness"]
    datasets, arms = (list(dict.fromkeys(tables[""][column])) for column in ("dataset", "arm"))
    _for_dependencies, for_completeness = TUNED
    best = complete.loc[for_completeness]
    pays = bool((best["significant"] & (best["difference"] > 0)).all())
    default, tuned = (
        " and ".join(points(complete.loc[(arm, name), "difference"]) for name in datasets)
        for arm in (DEFAULT, for_completeness)
    )
    keys = [(name, arm) for name in datasets for arm in arms]
    return Page(
        title="Expansion",
        answer=f"{'On' if pays else 'Off'}. Against a larger topN of as many tokens, completeness changes by {default} "
        f"points with the specification's default, {tuned} when tuned.",
        picture=dot_picture(
            {
                f"{name}, {arm.partition(':')[0]}": {
                    "dependency recall": dependency.loc[arm, name],
                    "completeness": complete.loc[arm, name],
                }
                for name, arm in keys
            },
            x="points, against the search alone with as many tokens",
            alt="Gains in dependency recall and completeness over a larger topN, by expansion and dataset",
        ),
        table=[
            {
                "dataset": name,
                "expansion": arm,
                "items": f"{dependency.loc[(arm, name), 'items']:.1f}",
                "tokens": f"{dependency.loc[(arm, name), 'tokens']:,.0f}",
                "dependency recall, %": f"{100 * dependency.loc[(arm, name), 'value']:.1f}",
                "gain": gain_cell(dependency.loc[arm, name]),
                "completeness, %": f"{100 * complete.loc[(arm, name), 'value']:.1f}",
                "gain in completeness": gain_cell(complete.loc[arm, name]),
            }
            for name, arm in keys
        ],
        notes=(
            (
                "A request seldom names the rules and references that the tools it needs depend on: its "
                "*dependencies*. *Dependency recall* is the share of them that was offered, *completeness* the share "
                "of requests that got all that they require. Gains are in points; bold is significant."
            ),
            (
                "The specification's default adds up to 3 items above 0.75 to the first 5. *Control* is the first "
                "tuned setting with what it adds ordered by similarity with the request alone."
            ),
        ),
        made=f"`make expansion`. Both splits of {' and '.join(f'`{name}`' for name in datasets)}, which label what is "
        "needed because another item needs it. A setting adds 5 or 8 items without a threshold behind the first 5 or "
        "12: by all chunks, first chunks, or a graph by mean or centroid; with the request's share in their order; of "
        "all types or rules and references. Of 96, each request is measured under the one with the surest gain on the "
        "other split. Gains are at equal prompt tokens; p is by group of paraphrases, Holm-corrected over the table.",
    )


if __name__ == "__main__":
    run_page("expansion", measure, page, about=__doc__)
