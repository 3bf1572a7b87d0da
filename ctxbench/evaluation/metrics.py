"""Declarations of all metrics, and metrics by name: values by query and means."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ctxbench.evaluation import metric_kernels
from ctxbench.evaluation.metric_kernels import Joined, RolledUp
from ctxbench.io.errors import Fault, Message, ParameterError, UnknownNameError, raise_faults, raise_first
from ctxbench.model import registry
from ctxbench.model.arrays import Evidence, FloatArray, IntArray, Via

Scale: TypeAlias = Literal["yes/no", "share", "amount", "bits"]
Need: TypeAlias = Literal["rankings", "item_tokens", "body_tokens", "kinship", "pool", "model_use"]
Compute: TypeAlias = Callable[[Joined, int], FloatArray]
MOST_RANKS = 1000  # the largest cutoff
WHOLE = np.iinfo(np.int64).max  # the cutoff of a metric that reads the whole ranking


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One metric.

    Attributes:
        name: the name in tables, without cutoff.
        title: its long name.
        description: what it measures, in one sentence.
        empty: its value where nothing is needed, and where nothing is offered or ranked.
        better: whether higher or lower is better.
        scale: yes/no = 0 or 1 by query; share = in [0, 1]; amount = at least 0; bits = any number.
        unit: what an amount counts; empty otherwise.
        cutoff: whether `@k` must, may or must not follow the name.
        partial: whether it also applies to queries of which not all required items are known.
        needs: the parts of `Evidence` that it reads besides labels and offered items; without them it is unavailable.
        compute: gives the values by query; None if only a mean makes sense, which is then made of `parts`.
        parts: names of the metrics whose means make this one.
        ir_measures: the measure of ir-measures that it equals, without cutoff.
        source: where the formula is from.
    """

    name: str
    title: str
    description: str
    empty: str
    better: Literal["higher", "lower"] = "higher"
    scale: Scale = "share"
    unit: str = ""
    cutoff: Literal["none", "optional", "required"] = "none"
    partial: bool = False
    needs: tuple[Need, ...] = ()
    compute: Compute | None = None
    parts: tuple[str, ...] = ()
    ir_measures: str | None = None
    source: str = "ours"


def _set(kernel: Callable[[Joined], FloatArray]) -> Compute:
    """A set metric reads no cutoff."""
    return lambda joined, _k: kernel(joined)


def _full_ranking(kernel: Compute) -> Compute:
    """A metric with an optional cutoff reads the whole ranking without one."""
    return lambda joined, k: kernel(joined, k or WHOLE)


_of_required = partial(
    Declaration,
    empty="NaN where nothing is required, so that the mean leaves the query out; 0 where something is required and "
    "neither offered nor in the session. 1 where the session holds all that is required.",
)
_amount_added = partial(
    Declaration,
    empty="0 where nothing was added, whether or not something is needed; NaN where the selector failed.",
    better="lower",
    scale="amount",
)
_of_ranking = partial(
    Declaration,
    empty="NaN where nothing is required, so that the mean leaves the query out, and where no ranking was given; 0 for "
    "an empty ranking where the session holds nothing that is required. 1 where it holds all that is required.",
    cutoff="required",
    needs=("rankings",),
)
_of_open_ranking = partial(
    Declaration,
    empty="NaN where nothing is required beyond the session's items, and where no ranking was given; 0 for an empty "
    "ranking.",
    needs=("rankings",),
)

_SETS = (
    _of_required(
        name="completeness",
        title="Completeness",
        description="Share of queries with every required item in the prompt; one of several alternatives is enough.",
        scale="yes/no",
        compute=_set(metric_kernels.completeness),
    ),
    _of_required(
        name="recall",
        title="Recall",
        description="Share of the required items of a query in the prompt; alternatives count once.",
        compute=_set(metric_kernels.recall),
    ),
    Declaration(
        name="direct_recall",
        title="Recall of what is needed directly",
        description="Recall over the required items that are needed for themselves.",
        empty="NaN where nothing is needed directly; 0 where something is and nothing is in the prompt.",
        compute=_set(partial(metric_kernels.recall_via, via=Via.DIRECT)),
    ),
    Declaration(
        name="dependency_recall",
        title="Recall of dependencies",
        description="Recall over the required items that are needed only because another one leans on them.",
        empty="NaN where there are no dependencies; 0 where there are and nothing is in the prompt.",
        compute=_set(partial(metric_kernels.recall_via, via=Via.DEPENDENCY)),
    ),
    Declaration(
        name="precision",
        title="Precision",
        description="Share of the items added to a query that are required or helpful; an unlabelled one counts as "
        "neither.",
        empty="NaN where nothing is required, so that the mean leaves the query out; 0 where nothing was added though "
        "something is required beyond the session's items, NaN where nothing was added because the session holds it "
        "all.",
        compute=_set(metric_kernels.precision),
    ),
    Declaration(
        name="precision_upper",
        title="Precision, upper bound",
        description="Precision if every unlabelled item were relevant; `precision` is the lower bound.",
        empty="As precision.",
        compute=_set(partial(metric_kernels.precision, lowest=-1)),
    ),
    _amount_added(
        name="unlabelled",
        title="Unlabelled items",
        description="How many of the items added have no label; what precision does not know.",
        unit="items",
        compute=_set(metric_kernels.unlabelled),
    ),
    _amount_added(
        name="items",
        title="Items added",
        description="How many items the selector added, by search or expansion; the session's are not counted.",
        unit="items",
        compute=_set(lambda joined: joined.n_added),
    ),
    _amount_added(
        name="tokens",
        title="Prompt tokens",
        description="Prompt tokens of the items that the selector added.",
        unit="tokens",
        needs=("item_tokens",),
        compute=_set(metric_kernels.tokens),
    ),
    Declaration(
        name="total_tokens",
        title="Prompt tokens with the session's",
        description="Prompt tokens of all items in the prompt, those that the session held included.",
        empty="0 where the prompt holds no item.",
        better="lower",
        scale="amount",
        unit="tokens",
        needs=("item_tokens",),
        compute=_set(lambda joined: metric_kernels.tokens(joined, np.ones(len(joined.added), dtype=np.bool_))),
    ),
    _amount_added(
        name="loaded_tokens",
        title="Prompt tokens with the bodies of skills",
        description="Prompt tokens of the items that the selector added, and of the bodies of the required skills "
        "among them, which the model loads.",
        unit="tokens",
        needs=("item_tokens", "body_tokens"),
        compute=_set(metric_kernels.loaded_tokens),
    ),
    Declaration(
        name="model_tokens",
        title="Tokens of the selector's own model",
        description="Tokens that the selector itself sent to a language model and got from it to choose the items, as "
        "the server counts them.",
        empty="0 where no model was asked.",
        better="lower",
        scale="amount",
        unit="tokens",
        needs=("model_use",),
        compute=_set(partial(metric_kernels.model_use, row=0)),
    ),
    Declaration(
        name="model_seconds",
        title="Seconds of the selector's own model",
        description="Seconds that the selector waited for a language model to choose the items, when the model was "
        "asked.",
        empty="0 where no model was asked.",
        better="lower",
        scale="amount",
        unit="seconds",
        needs=("model_use",),
        compute=_set(partial(metric_kernels.model_use, row=1)),
    ),
    Declaration(
        name="same_server_confusions",
        title="Same-server confusions",
        description="How many items added are irrelevant or unlabelled but share with a required item the type and the "
        "server, the type and the stem of the name (on any server), or a near-duplicate group.",
        empty="NaN where nothing is required, so that the mean leaves the query out; 0 where nothing was added.",
        better="lower",
        scale="amount",
        unit="items",
        needs=("kinship",),
        compute=_set(metric_kernels.same_server_confusions),
    ),
    Declaration(
        name="abstention",
        title="Empty when nothing is needed",
        description="Share of the queries that need nothing to which nothing was added.",
        empty="NaN where something is required, so that the mean is over the queries that need nothing; 1 where "
        "nothing was added.",
        scale="yes/no",
        compute=_set(metric_kernels.abstention),
    ),
    Declaration(
        name="false_inclusion",
        title="False inclusion",
        description="Share of the queries that need nothing to which an item was added that is not even helpful.",
        empty="NaN where something is required, so that the mean is over the queries that need nothing; 0 where "
        "nothing was added.",
        better="lower",
        scale="yes/no",
        compute=_set(metric_kernels.false_inclusion),
    ),
    Declaration(
        name="false_items",
        title="Items falsely included",
        description="How many items that are not even helpful were added to a query that needs nothing.",
        empty="NaN where something is required, so that the mean is over the queries that need nothing; 0 where "
        "nothing was added.",
        better="lower",
        scale="amount",
        unit="items",
        compute=_set(metric_kernels.false_items),
    ),
    Declaration(
        name="forbidden_offered",
        title="Forbidden items offered",
        description="Share of the queries with a forbidden item (labelled irrelevant) to which the selector added one.",
        empty="NaN where no item is labelled irrelevant, so that the mean leaves the query out; 0 where nothing was "
        "added.",
        better="lower",
        scale="yes/no",
        partial=True,
        compute=_set(metric_kernels.forbidden_offered),
    ),
)

_RANKINGS = (
    Declaration(
        name="nDCG",
        title="Normalized discounted cumulative gain",
        description="Sum of grade / log2(rank + 1) over the same sum of the best ranking; each alternative has its "
        "own gain.",
        empty="NaN where no item is required or helpful beyond the session's, and where no ranking was given; 0 for "
        "an empty ranking. A query with helpful items only has a value if it is labelled as one that needs nothing.",
        cutoff="optional",
        needs=("rankings",),
        compute=_full_ranking(metric_kernels.ndcg),
        ir_measures="nDCG",
        source="Järvelin and Kekäläinen, TOIS 2002",  # Cumulated gain-based evaluation of IR techniques, 20(4)
    ),
    _of_ranking(
        name="R",
        title="Recall at k",
        description="Share of the required items that are in the first k ranks or in the session; alternatives count "
        "once.",
        compute=metric_kernels.recall_at,
        ir_measures="R(rel=2)",
    ),
    _of_ranking(
        name="Comp",
        title="Completeness at k",
        description="Share of queries with every required item in the first k ranks or in the session.",
        scale="yes/no",
        compute=metric_kernels.comp_at,
    ),
    _of_open_ranking(
        name="P",
        title="Precision at k",
        description="Required or helpful items in the first k ranks, over k, however short the ranking is.",
        cutoff="required",
        compute=metric_kernels.precision_at,
        ir_measures="P",
    ),
    _of_open_ranking(
        name="RR",
        title="Reciprocal rank",
        description="1 / the rank of the first required item, 0 if none is ranked.",
        cutoff="optional",
        compute=_full_ranking(metric_kernels.reciprocal_rank),
        ir_measures="RR(rel=2)",
        source="Kantor and Voorhees, TREC 1996",  # The TREC-5 confusion track
    ),
    _of_open_ranking(
        name="AP",
        title="Average precision",
        description="Mean over the required items of the precision at the rank of each, 0 for those not ranked; "
        "alternatives count once, at the first.",
        cutoff="optional",
        compute=_full_ranking(metric_kernels.average_precision),
        ir_measures="AP(rel=2)",
        source="Harman, IPM 28(4), 1992",  # Evaluation issues in information retrieval
    ),
    _of_open_ranking(
        name="Success",
        title="Success at k",
        description="Share of queries with at least one required item in the first k ranks.",
        scale="yes/no",
        cutoff="required",
        compute=metric_kernels.success_at,
        ir_measures="Success(rel=2)",
    ),
    Declaration(
        name="Chance",
        title="Chance of success at k",
        description="The chance that k items drawn at random from those available hold a required one.",
        empty="NaN where nothing is required beyond the session's items, and where no ranking was given; it does not "
        "depend on what is ranked.",
        cutoff="required",
        needs=("rankings", "pool"),
        compute=metric_kernels.chance_at,
        source="the hypergeometric distribution",
    ),
    Declaration(
        name="BoR",
        title="Bits over random at k",
        description="log2 of mean Success@k over mean Chance@k: how many halvings of the pool the ranking is worth.",
        empty="NaN if no query requires anything; minus infinity if no query succeeds; 0 or less at k >= the pool.",
        scale="bits",
        cutoff="required",
        needs=("rankings", "pool"),
        parts=("Success", "Chance"),
        source="Bits-over-Random, arXiv:2605.18857",
    ),
)

METRICS: dict[str, Declaration] = {declared.name: declared for declared in (*_SETS, *_RANKINGS)}
ALIASES = {"COMP": "Comp", "recall_all": "Comp"}
OTHER_NAMES = {  # in other programs, in small letters
    **dict.fromkeys(("mrr", "recip_rank"), "RR"),
    **dict.fromkeys(("hit", "hits", "hit_rate"), "Success"),
    "recall": "R",
    "precision": "P",
    "map": "AP",
}


@cache
def find_metric(name: str) -> Declaration:
    """The declaration of a metric, here or by a package (an entry point of the group `ctxbench.metric`).

    Raises:
        UnknownNameError: there is none.
        ParameterError: the entry point of this name is no declaration of it.
    """
    if name in METRICS:
        return METRICS[name]
    if name not in registry.names("metric"):
        raise UnknownNameError("metric", name, metric_names())
    declaration = registry.find("metric", name)
    if isinstance(declaration, Declaration):
        if declaration.name == name:
            return declaration
        declared = f"the Declaration of {declaration.name!r}"
    else:
        declared = f"{declaration!r:.80}, no Declaration"
    raise ParameterError(Message("evaluation.metric-entry-point", name=name, declared=declared))


def metric_names() -> tuple[str, ...]:
    """The names of all metrics, those of packages last."""
    return (*METRICS, *registry.names("metric"))


_LIKE = re.compile(r"([\w-]+:)?([A-Za-z_]+?)(?:_cut)?[@_]?([0-9]+)?")
_FORM = re.compile(r"(?:([\w-]+):)?([A-Za-z_]+)(?:@([0-9]+))?")


@dataclass(frozen=True, order=True)
class Metric:
    """A metric with its cutoff. Equal, hashed and ordered by name, cutoff and group.

    Attributes:
        name: of a declaration, ours or a package's.
        k: how many ranks are read, 1 to `MOST_RANKS`; 0 = the whole ranking, or no ranking metric.
        group: the name of the groups of items that are ranked in place of items (see `RolledUp`); empty = items.

    Raises:
        UnknownNameError: no metric has this name.
        ParameterError: the cutoff is missing, not taken, or out of range, or the metric reads more than rankings and
            has a group.
    """

    name: str
    k: int = 0
    group: str = ""

    def __post_init__(self) -> None:
        cutoff = self.declaration.cutoff
        raise_first(
            (self.k == 0 and cutoff == "required", f"metric {self.name!r} needs a cutoff, as in '{self.name}@5'"),
            (self.k != 0 and cutoff == "none", f"metric {self.name!r} takes no cutoff, got @{self.k}"),
            (not 0 <= self.k <= MOST_RANKS, f"the cutoff of {self.name!r} must be 1 to {MOST_RANKS}, got {self.k}"),
        )
        if self.group and self.declaration.needs != ("rankings",):
            names = ", ".join(name for name, declared in METRICS.items() if declared.needs == ("rankings",))
            raise ParameterError(f"metric {self.name!r} has no figures of groups; those of rankings have: {names}")

    def __str__(self) -> str:
        return f"{self.group}{':' * bool(self.group)}{self.name}{f'@{self.k}' * bool(self.k)}"

    @property
    def declaration(self) -> Declaration:
        """The declaration of the metric."""
        return find_metric(self.name)

    @property
    def parts(self) -> tuple[Metric, ...]:
        """The metrics whose values by query this one is made of: itself, or others if only a mean makes sense."""
        return tuple(Metric(name, self.k, self.group) for name in self.declaration.parts) or (self,)

    @property
    def ir_measures(self) -> str | None:
        """The name of the equal measure of ir-measures 0.4 where no alternatives are labelled; None = has none.

        Of groups it is that over the qrels and the run of groups. Where labels are judged as trec_eval does, the
        measure that is called as the metric is equal, with alternatives, too.
        """
        form = self.declaration.ir_measures
        return f"{form}@{self.k}" if form and self.k else form


FORBIDDEN_OFFERED = Metric("forbidden_offered")  # measured without being named wherever a query has forbidden items


def parse_metric(text: str) -> Metric:
    """Read a metric by its name (`nDCG@10`, `session:R@5`) or by an alias (`COMP@5`, `recall_all@5`).

    Raises:
        UnknownNameError: no metric has this name; the message has the closest ones.
        ParameterError: the cutoff is missing, not taken, or out of range.
    """
    if not isinstance(text, str):
        raise ParameterError(Message("evaluation.metric-form", got=text))
    if (match := _FORM.fullmatch(text.strip())) is None:
        raise UnknownNameError("metric", text, _written_names(), hint=_hint(text))
    group, written, k = match.groups(default="")
    if (name := ALIASES.get(written, written)) not in METRICS and name not in metric_names():
        raise UnknownNameError("metric", text, _written_names(), hint=_hint(text))
    if k and METRICS.get(name) and METRICS[name].cutoff == "none" and (hint := _hint(text)):
        raise ParameterError(f"metric {name!r} takes no cutoff, got @{k}{hint}")
    if k and int(k) == 0:
        raise ParameterError(f"the cutoff of {name!r} must be 1 to {MOST_RANKS}, got {k}")
    return Metric(name, int(k or 0), group)


def _hint(text: str) -> str:
    """The name that one of another program means, such as `mrr@10`, `recall@5`, `P5` or `ndcg_cut_10`; may be empty."""
    if (match := _LIKE.fullmatch(text.strip())) is None:
        return ""
    group, name, k = match.groups(default="")
    spelt = OTHER_NAMES.get(name.lower()) or next((m for m in METRICS if m.lower() == name.lower()), "")
    if not spelt or METRICS[spelt].cutoff == ("none" if k else "required"):
        return ""
    return Message("selectors.did-you-mean", name=f"{group}{spelt}{f'@{k}' * bool(k)}")


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
    """The names of all metrics, with `@k` if a cutoff is required."""
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
    """The metrics that cannot be computed from the evidence, with the reason."""
    reasons = {
        "rankings": "evaluation.no-rankings",
        "item_tokens": "evaluation.no-item-tokens",
        "body_tokens": "evaluation.no-body-tokens",
        "kinship": "evaluation.no-kinship",
        "pool": "evaluation.no-pool",
        "model_use": "evaluation.no-model-use",
    }
    absent = {name: Message(reason) for name, reason in reasons.items() if getattr(evidence, name) is None}
    missing = {
        metric: [
            *(absent[name] for name in metric.declaration.needs if name in absent),
            *[Message("evaluation.no-groups", group=metric.group)] * (metric.group not in ("", *evidence.groups)),
        ]
        for metric in metrics
    }
    return {metric: "; ".join(texts) for metric, texts in missing.items() if texts}


def evaluate(
    metrics: Iterable[Metric], evidence: Evidence, *, joined: Joined | None = None
) -> dict[Metric, FloatArray]:
    """Compute metrics by query.

    Args:
        metrics: which.
        evidence: what they are computed from.
        joined: the joined evidence, if there is one already; it keeps what metrics share.

    Returns:
        For each metric, in the order asked, its values: shape (n_queries,), NaN where it does not apply to the
        query: of a query whose labels are not complete, only metrics that are declared `partial` are known. A metric
        that has `parts` is replaced by them; one that `unavailable` names is left out.
    """
    requested = list(metrics)
    missing = unavailable(requested, evidence)
    joined = Joined(evidence) if joined is None else joined
    groups = {metric.group for metric in requested if metric.group and metric not in missing}
    by_group = {"": joined, **{group: RolledUp(joined, evidence.groups[group]) for group in groups}}
    values: dict[Metric, FloatArray] = {}
    for metric in (part for combined in requested if combined not in missing for part in combined.parts):
        if (compute := metric.declaration.compute) is not None and metric not in values:
            value, complete = compute(by_group[metric.group], metric.k), evidence.judgments.complete
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
    worst = min(large, key=lambda group: (sign * group.mean.value, -group.mean.n, group.group), default=None)
    return worst if len(large) > 1 else None
