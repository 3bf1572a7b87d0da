"""Metrics by name, their values by query from evidence, and means of these. Declarations are in `declared.py`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ctxbench.bench.metrics.declared import ALIASES, METRICS, Declaration, find_metric, metric_names
from ctxbench.bench.metrics.inputs import DEPTH, Evidence
from ctxbench.bench.metrics.joined import Joined
from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.errors import Fault, ParameterError, UnknownNameError, raise_faults

_FORM = re.compile(r"([A-Za-z_]+)(?:@([0-9]+))?")


@dataclass(frozen=True, order=True)
class Metric:
    """A metric with its cutoff. Equal, hashed and ordered by name and cutoff.

    Attributes:
        name: of a declaration, ours or a package's.
        k: how many ranks are read, 1 to `DEPTH`; 0 = the whole ranking, or no ranking metric.

    Raises:
        UnknownNameError: no metric has this name.
        ParameterError: the cutoff is missing, not taken, or out of range.
    """

    name: str
    k: int = 0

    def __post_init__(self) -> None:
        cutoff = self.declaration.cutoff
        if self.k == 0 and cutoff == "required":
            raise ParameterError(f"metric {self.name!r} needs a cutoff, as in '{self.name}@5'")
        if self.k != 0 and cutoff == "none":
            raise ParameterError(f"metric {self.name!r} takes no cutoff, got @{self.k}")
        if not 0 <= self.k <= DEPTH:
            raise ParameterError(f"the cutoff of metric {self.name!r} must be 1 to {DEPTH}, got {self.k}")

    def __str__(self) -> str:
        return f"{self.name}@{self.k}" if self.k else self.name

    @property
    def declaration(self) -> Declaration:
        """The declaration of the metric."""
        return find_metric(self.name)

    @property
    def parts(self) -> tuple[Metric, ...]:
        """The metrics whose values by query this one is made of: itself, or others if only a mean makes sense."""
        return tuple(Metric(name, self.k) for name in self.declaration.parts) or (self,)

    @property
    def ir_measures(self) -> str | None:
        """The name of the equal measure of ir-measures 0.4 where no alternatives are labelled; None = has none."""
        form = self.declaration.ir_measures
        if form is None:
            return None
        return f"{form}@{self.k}" if self.k else form


FORBIDDEN_OFFERED = Metric("forbidden_offered")  # measured without being named wherever a query has forbidden items


def parse_metric(text: str) -> Metric:
    """Read a metric as it is printed (`nDCG@10`, `completeness`) or by an alias (`COMP@5`, `recall_all@5`).

    Raises:
        UnknownNameError: no metric has this name; the message has the closest ones.
        ParameterError: the cutoff is missing, not taken, or out of range.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise UnknownNameError("metric", text, _written_names())
    name = ALIASES.get(match[1], match[1])
    if name not in METRICS and name not in metric_names():
        cased = [metric for metric in METRICS if metric.lower() == name.lower()]
        where = f"; did you mean {text.strip().replace(match[1], cased[0])!r}?" if cased else ""
        raise UnknownNameError("metric", text, _written_names(), where=where)
    if match[2] is not None and int(match[2]) == 0:
        raise ParameterError(f"the cutoff of metric {name!r} must be 1 to {DEPTH}, got {match[2]}")
    return Metric(name, int(match[2] or 0))


def parse_metrics(texts: Sequence[str]) -> tuple[Metric, ...]:
    """Read several metrics, in order, one named twice (an alias counts) only once.

    Raises:
        InputError: with one fault for each text that is no metric.
    """
    metrics: dict[Metric, None] = {}
    faults = []
    for text in texts:
        try:
            metrics[parse_metric(text)] = None
        except (UnknownNameError, ParameterError) as error:
            faults.append(Fault(str(error)))
    raise_faults(faults, subject="metrics")
    return tuple(metrics)


def _written_names() -> list[str]:
    """Every metric's name as it is written, `@k` where it needs a cutoff."""
    shipped = [f"{name}@k" if METRICS[name].cutoff == "required" else name for name in METRICS]
    return [*shipped, *metric_names()[len(METRICS) :]]


@dataclass(frozen=True)
class Mean:
    """A mean over the queries that a metric applies to.

    Attributes:
        value: the mean; NaN if `n` is 0.
        n: how many queries it is over.
        left_out: how many the metric does not apply to.
    """

    value: float
    n: int
    left_out: int


@dataclass(frozen=True)
class GroupMean:
    """The mean of one scope, tag or other group of queries."""

    group: str
    mean: Mean


def unavailable(metrics: Iterable[Metric], evidence: Evidence) -> dict[Metric, str]:
    """The metrics that the evidence does not allow, with what it lacks; empty if all can be computed."""
    reasons = {
        "rankings": "the selector returns no ranking",
        "item_tokens": "the items' tokens were not counted",
        "body_tokens": "the bodies of skills were not counted, which a file of counts cannot do",
        "kinship": "it is not known which items are siblings",
        "pool": "it is not known how many items the rankings were made from",
        "model_use": "no step of the selector asks a language model",
    }
    absent = {name: reason for name, reason in reasons.items() if getattr(evidence, name) is None}
    missing = {metric: [absent[name] for name in metric.declaration.needs if name in absent] for metric in metrics}
    return {metric: "; ".join(texts) for metric, texts in missing.items() if texts}


def evaluate(
    metrics: Iterable[Metric], evidence: Evidence, *, joined: Joined | None = None
) -> dict[Metric, FloatArray]:
    """Compute metrics by query.

    Args:
        metrics: which.
        evidence: what they are computed from.
        joined: the same, where it is at hand; it keeps what metrics share.

    Returns:
        For each metric, in the order asked, its values: shape (n_queries,), NaN where it does not apply to the
        query: of a query whose labels are not complete, only metrics that are declared `partial` are known. A metric
        that has `parts` is replaced by them; one that `unavailable` names is left out.
    """
    requested = list(metrics)
    missing = unavailable(requested, evidence)
    joined = Joined(evidence) if joined is None else joined
    values: dict[Metric, FloatArray] = {}
    for metric in (part for combined in requested if combined not in missing for part in combined.parts):
        compute = metric.declaration.compute
        if compute is not None and metric not in values:
            value, complete = compute(joined, metric.k), evidence.judgments.complete
            if complete is not None and not metric.declaration.partial:
                value = np.where(complete, value, np.nan)
            values[metric] = value
    return values


def forbidden_counts(joined: Joined, n_items: int) -> IntArray:
    """To how many queries each item of a catalog was added although their labels call it irrelevant, (n_items,)."""
    return np.bincount(joined.evidence.offered.item[joined.forbidden], minlength=n_items).astype(np.int64)


def mean(values: npt.ArrayLike) -> Mean:
    """Average values by query, NaN left out and counted. Nothing to average: NaN with n = 0.

    The sum is exact before it is rounded once, so that the order of the queries cannot show in the last digit.
    """
    values = np.asarray(values, dtype=np.float64)
    applies = values[~np.isnan(values)]
    n = len(applies)
    return Mean(math.fsum(applies.tolist()) / n if n else math.nan, n, len(values) - n)


def bits_over_random(success: Mean, chance: Mean) -> Mean:
    """log2(mean Success@k / mean Chance@k), over the same queries.

    NaN if there are no queries; minus infinity if none succeeds. The chance is above 0 wherever something is
    required and k >= 1, so it is never divided by 0.
    """
    if success.n != chance.n:
        raise ParameterError(f"success is over {success.n} queries and chance over {chance.n}; expected the same")
    if success.n == 0:
        return Mean(math.nan, 0, success.left_out)
    ratio = success.value / chance.value
    return Mean(math.log2(ratio) if ratio > 0 else -math.inf, success.n, success.left_out)


def summarise(metrics: Iterable[Metric], values: Mapping[Metric, FloatArray]) -> dict[Metric, Mean]:
    """Average metrics from values by query, as `evaluate` gives them or a results file holds them.

    Returns:
        For each metric, in the order asked, its mean; metrics whose values (or whose parts') are not there are
        left out.
    """
    computable = [metric for metric in metrics if all(part in values for part in metric.parts)]
    means = {metric: [mean(values[part]) for part in metric.parts] for metric in computable}
    return {
        metric: bits_over_random(*parts) if metric.declaration.parts else parts[0] for metric, parts in means.items()
    }


def group_means(values: FloatArray, groups: Mapping[str, npt.NDArray[np.int64]]) -> list[GroupMean]:
    """Average over groups of queries, sorted by name.

    Args:
        values: shape (n_queries,), NaN where the metric does not apply.
        groups: the positions of each group's queries; a query may be in several or in none.
    """
    return [GroupMean(name, mean(values[groups[name]])) for name in sorted(groups)]


def worst_group(
    metric: Metric, values: FloatArray, groups: Mapping[str, npt.NDArray[np.int64]], *, min_n: int = 1
) -> GroupMean | None:
    """The group whose mean is worst for this metric; of equals the larger, then the first by name.

    Of many small groups the worst is often only the unluckiest: `min_n` leaves out those with fewer queries that
    the metric applies to. None if fewer than two groups have as many.
    """
    if min_n < 1:
        raise ParameterError(f"min_n must be at least 1, got {min_n}")
    sign = 1.0 if metric.declaration.better == "higher" else -1.0
    large = [group for group in group_means(values, groups) if group.mean.n >= min_n]
    if len(large) < 2:
        return None
    return min(large, key=lambda group: (sign * group.mean.value, -group.mean.n, group.group))
