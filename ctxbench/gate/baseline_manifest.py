"""Makes `baseline.json`: what made the answers, the means of their metrics, and the hashes of the other files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctxbench.bench.metrics import Metric, summarise
from ctxbench.bench.stats import Estimate, estimates, grouped_estimate
from ctxbench.core.arrays import IntArray
from ctxbench.core.rules import Rule
from ctxbench.gate.baseline_layout import (
    FORMAT,
    ITEMS,
    QUERIES,
    SESSIONS,
    VECTORS,
    answers_file,
    dataset_file,
    file_hash,
    manifest_hash,
)
from ctxbench.gate.snapshots import SelectorSnapshot
from ctxbench.io.json_files import dump_json

OWN_VERSIONS = ("ctxbench", "code")  # the same on all machines of a team; those of Python and libraries are not
_DIGITS = 6  # of means and intervals, which are for reading: a check computes them from the values by query


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedFigures:
    """A few numbers on the answers of a selector on a dataset, for whoever accepts them.

    Attributes:
        dataset, selector: names.
        queries: how many.
        offered: items added over all of them; 0 = it offers nothing to any.
        metrics: means of those judged; NaN where one applies to no query.
    """

    dataset: str
    selector: str
    queries: int
    offered: int
    metrics: Mapping[Metric, float]


def summarise_selector(one: SelectorSnapshot, metrics: Sequence[Metric]) -> AcceptedFigures:
    """Summarise what is accepted; a metric that cannot be computed is left out.

    Args:
        one: as it is written.
        metrics: what a check judges.
    """
    means = summarise(list(metrics), one.metrics)
    return AcceptedFigures(
        dataset=one.dataset,
        selector=one.selector,
        queries=len(one.queries),
        offered=sum(item.origin != "session" for answer in one.answers.values() for item in answer.offered),
        metrics={metric: found.value for metric, found in means.items()},
    )


def manifest(
    snapshots: Sequence[SelectorSnapshot], files: Mapping[str, bytes], *, libraries: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Make the content of `baseline.json`.

    Args:
        snapshots: at least one, as they are written.
        files: the other files by their path in the folder.
        libraries: versions of Python and libraries that take the place of the snapshots' own.
    """
    versions = _versions(snapshots[0], libraries)
    datasets: dict[str, Any] = {}
    for one in snapshots:
        if one.dataset not in datasets:
            named = {"items": ITEMS, "queries": QUERIES, "sessions": SESSIONS}
            paths = {what: dataset_file(one.dataset, name) for what, name in named.items()}
            hashes = {what: file_hash(files[path]) for what, path in paths.items() if path in files}
            counts = {"items": len(one.items) + len(one.disabled), "queries": len(one.queries)}
            inputs = {"inputs": one.inputs} if one.inputs else {}
            datasets[one.dataset] = {**counts, **inputs, "files": hashes, "selectors": {}}
        about = _selector_row(one, file_hash(files[dataset_file(one.dataset, answers_file(one.selector))]))
        own = _versions(one, libraries)
        datasets[one.dataset]["selectors"][one.selector] = about if own == versions else {**about, "versions": own}
    stored = {"vectors": file_hash(files[VECTORS])} if VECTORS in files else {}
    out = {"format": FORMAT, "versions": versions, **stored, "datasets": datasets}
    return {**out, "hash": manifest_hash(out)}


def rules_of(snapshot: SelectorSnapshot) -> list[Rule | None]:
    """The rules that keep candidates of a snapshot out, by their numbers; the first is None.

    In the order of what is written of them: numbers then change with the rules only, and not with who meets which
    first.
    """
    found = {one.rule for answer in snapshot.answers.values() for one in answer.near if one.rule is not None}
    return [None, *sorted(found, key=lambda rule: dump_json(rule.as_dict()))]


def _versions(one: SelectorSnapshot, libraries: Mapping[str, str] | None) -> dict[str, str]:
    versions = dict(one.identity.versions)
    if libraries is None:
        return versions
    return {**libraries, **{name: value for name, value in versions.items() if name in OWN_VERSIONS}}


def _selector_row(one: SelectorSnapshot, digest: str) -> dict[str, Any]:
    """The entry of a selector on a dataset: its description, and the means of its metrics."""
    identity = one.identity
    out: dict[str, Any] = {
        "outside": identity.outside,
        "embedder": identity.embedder,
        "tokens": identity.tokens,
        "values": dict(identity.values),
        "description": dict(identity.selector),
    }
    if one.repeats > 1:
        out |= {"repeats": one.repeats, "spread": dict(one.spread), "unsteady": list(one.unsteady)}
    number: dict[str, int] = {}
    groups: IntArray = np.array(
        [number.setdefault(query.group, len(number)) for query in one.queries.values()], dtype=np.int64
    )
    worth = _mean_estimates(one, groups) if len(groups) else {}
    out["metrics"] = {str(metric): _estimate_row(worth.get(metric)) for metric in one.metrics}
    out["rules"] = {str(place): rule.as_dict() for place, rule in enumerate(rules_of(one)) if rule is not None}
    out["file"] = digest
    return out


def _mean_estimates(one: SelectorSnapshot, groups: IntArray) -> Mapping[Metric, Estimate]:
    """Means with intervals. Of a selector that was asked repeatedly, yes/no values are means over repeats: shares."""
    if one.repeats == 1:
        return estimates(one.metrics, one.metrics, groups=groups)
    scales = {metric: metric.declaration.scale for metric in one.metrics}
    return {
        metric: grouped_estimate(values, groups, scale="amount" if scales[metric] == "amount" else "share")
        for metric, values in one.metrics.items()
        if scales[metric] != "bits"
    }


def _estimate_row(one: Estimate | None) -> dict[str, Any]:
    """A mean with its interval; null where the values say nothing."""
    if one is None:
        return {"n": 0}
    numbers = {"mean": one.value, "low": one.interval.low, "high": one.interval.high}
    out: dict[str, Any] = {name: _rounded(value) for name, value in numbers.items()}
    out |= {"level": one.interval.level, "n": one.n}
    return out if one.interval.holds else {**out, "holds": False}


def _rounded(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
