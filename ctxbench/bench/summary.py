"""What a finished run says: estimates with intervals, and paired comparisons with one selector. Prints nothing.

Everything here is computed again from the values by query; no mean is ever stored alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ctxbench.bench.metrics import FORBIDDEN_OFFERED, GroupMean, Metric, parse_metric, worst_group
from ctxbench.bench.results import RunFolder
from ctxbench.bench.stats import Comparison, Estimate, compare_metric, correct, estimates
from ctxbench.core.arrays import FloatArray

SCOPE_QUERIES = 10  # of many small scopes the worst is often only the unluckiest
HEADLINE = ("completeness", "tokens")  # the pair that is compared and corrected for; either alone can be gamed


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectorSummary:
    """One selector on one dataset.

    Attributes:
        selector: its name.
        estimates: mean and interval by metric name, in the order asked.
        unavailable: why a metric has no estimate, by name.
        errors: queries that it failed on; they count as nothing offered.
        queries: how many were asked.
        against: comparison with the run's `compare_to` on each headline metric, Holm-corrected over the dataset's
            selectors and headline metrics; empty for `compare_to` itself.
        notes: what the selector says of this run.
        worst_scope: the named scope of least completeness, of those with at least `SCOPE_QUERIES` queries that need
            something; None where there are fewer than two such scopes.
        forbidden: to how many queries an item was added that their labels call irrelevant, by its id, most often first.
    """

    selector: str
    estimates: Mapping[str, Estimate]
    unavailable: Mapping[str, str]
    errors: int
    queries: int
    against: Mapping[str, Comparison]
    notes: Mapping[str, Any]
    worst_scope: GroupMean | None = None
    forbidden: Mapping[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON; what is not a finite number is null."""
        return {
            "queries": self.queries,
            "errors": self.errors,
            "metrics": {name: estimate_dict(estimate) for name, estimate in self.estimates.items()},
            "unavailable": dict(self.unavailable),
            "against": {name: comparison_dict(comparison) for name, comparison in self.against.items()},
            "notes": dict(self.notes),
            "worst_scope": None
            if self.worst_scope is None
            else {
                "scope": self.worst_scope.group,
                "completeness": self.worst_scope.mean.value,
                "n": self.worst_scope.mean.n,
            },
            "forbidden": dict(self.forbidden),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class DatasetSummary:
    """All selectors of a run on one dataset, in the order of the experiment.

    Attributes:
        dataset: its name.
        queries: those asked, which are those that are labelled or need nothing, or have forbidden items.
        unlabelled: those left out because nobody has judged them.
        only_negatives: those asked of which not all required items are known; forbidden items alone are measured.
        items: in the catalog.
        of: how many could have been asked; more than `queries` where a sample was.
        drawn: how many of the queries a label queue drew; they stand for different numbers of queries. 0 where all
            queries of the dataset are labelled.
        selectors: one summary each.
    """

    dataset: str
    queries: int
    unlabelled: int
    items: int
    selectors: tuple[SelectorSummary, ...]
    of: int = 0
    drawn: int = 0
    only_negatives: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class RunSummary:
    """A finished run.

    Attributes:
        manifest: what was run.
        datasets: in the order of the experiment.
    """

    manifest: Mapping[str, Any]
    datasets: tuple[DatasetSummary, ...]

    @property
    def compare_to(self) -> str:
        """The selector that the others are compared with."""
        return str(self.manifest["experiment"]["compare_to"])

    @property
    def metrics_named(self) -> bool:
        """Whether the user named the metrics, so that every one of them is shown."""
        return bool(self.manifest["experiment"].get("metrics_named"))

    def metrics(self, dataset: DatasetSummary) -> tuple[Metric, ...]:
        """The metrics of the experiment, in order, then what was measured on a dataset without being named."""
        named = [parse_metric(name) for name in self.manifest["experiment"]["metrics"]]
        measured = any(str(FORBIDDEN_OFFERED) in selector.estimates for selector in dataset.selectors)
        return tuple(dict.fromkeys([*named, *[FORBIDDEN_OFFERED] * measured]))

    @property
    def metric_names(self) -> list[str]:
        """The names of all metrics that were measured on any dataset: those named first, in order."""
        return list(dict.fromkeys(str(metric) for dataset in self.datasets for metric in self.metrics(dataset)))

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON; what is not a finite number is null."""
        datasets = {
            dataset.dataset: {
                "queries": dataset.queries,
                "unlabelled": dataset.unlabelled,
                "only_negatives": dataset.only_negatives,
                "items": dataset.items,
                "of": dataset.of,
                "drawn": dataset.drawn,
                "selectors": {summary.selector: summary.as_dict() for summary in dataset.selectors},
            }
            for dataset in self.datasets
        }
        return {
            "experiment": self.manifest["experiment"],
            "tokens": self.manifest["tokens"],
            "datasets": datasets,
        }


def summarise_run(folder: RunFolder) -> RunSummary:
    """Summarise a run folder.

    Raises:
        StorageError: it holds no finished run, or is damaged.
    """
    manifest = folder.read("manifest.json")
    named = [parse_metric(name) for name in manifest["experiment"]["metrics"]]
    metrics = list(dict.fromkeys([*named, FORBIDDEN_OFFERED]))  # those without values are left out
    seed = int(manifest["experiment"]["seed"])
    datasets = []
    for dataset, about in manifest["datasets"].items():
        parts = {selector: folder.load(dataset, selector) for selector in manifest["selectors"]}
        values = {name: {parse_metric(m): v for m, v in part.metrics.items()} for name, part in parts.items()}
        against = _comparisons(values, str(manifest["experiment"]["compare_to"]), seed)
        datasets.append(
            DatasetSummary(
                dataset=dataset,
                queries=int(about["queries"]),
                unlabelled=int(about.get("unlabelled", 0)),
                items=int(about["items"]),
                of=int(about.get("of", about["queries"])),
                drawn=int(about.get("drawn", 0)),
                only_negatives=int(about.get("only_negatives", 0)),
                selectors=tuple(
                    SelectorSummary(
                        selector=name,
                        estimates={
                            str(metric): estimate
                            for metric, estimate in estimates(metrics, values[name], seed=seed).items()
                        },
                        unavailable=part.unavailable,
                        errors=len(part.answers.errors),
                        queries=len(part.answers.queries),
                        against={
                            metric: comparison for (selector, metric), comparison in against.items() if selector == name
                        },
                        notes=part.notes,
                        worst_scope=_worst_scope(values[name], about.get("scopes", {})),
                        forbidden=dict(sorted(part.forbidden.items(), key=lambda pair: (-pair[1], pair[0]))),
                    )
                    for name, part in parts.items()
                ),
            )
        )
    return RunSummary(manifest=manifest, datasets=tuple(datasets))


def _worst_scope(values: Mapping[Metric, FloatArray], scopes: Mapping[str, list[int]]) -> GroupMean | None:
    metric = parse_metric(HEADLINE[0])
    if metric not in values:
        return None
    groups = {scope: np.array(positions, dtype=np.int64) for scope, positions in scopes.items()}
    return worst_group(metric, values[metric], groups, min_n=SCOPE_QUERIES)


def _comparisons(
    values: Mapping[str, Mapping[Metric, FloatArray]], base: str, seed: int
) -> dict[tuple[str, str], Comparison]:
    """Every selector against `base` on the headline metrics, corrected together."""
    comparisons = {}
    for name in HEADLINE:
        metric = parse_metric(name)
        for selector, by_metric in values.items():
            if selector != base and metric in by_metric and metric in values[base]:
                comparisons[selector, name] = compare_metric(metric, values[base], by_metric, seed=seed)
    return correct({key: comparison for key, comparison in comparisons.items() if comparison.n > 0})


def estimate_dict(estimate: Estimate) -> dict[str, Any]:
    """A mean with its interval as JSON."""
    return {
        "value": finite(estimate.value),
        "low": finite(estimate.interval.low),
        "high": finite(estimate.interval.high),
        "level": estimate.interval.level,
        "method": estimate.interval.method,
        "holds": estimate.interval.holds,
        "n": estimate.n,
        "left_out": estimate.left_out,
    }


def comparison_dict(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON."""
    return {
        "difference": finite(comparison.difference),
        "low": finite(comparison.interval.low),
        "high": finite(comparison.interval.high),
        "p": finite(comparison.p),
        "p_floor": comparison.p_floor or None,
        "p_holm": finite(comparison.p_holm),
        "p_holm_at_floor": comparison.p_holm_at_floor,
        "test": comparison.test,
        "distinguishable": bool(comparison.distinguishable),
        "better_on": comparison.higher,
        "worse_on": comparison.lower,
        "needed": comparison.needed,
        "n": comparison.n,
    }


def finite(value: float) -> float | None:
    """The number, or None where JSON has none for it."""
    number = float(np.asarray(value))
    return number if math.isfinite(number) else None
