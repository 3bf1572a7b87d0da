"""Every metric, declared as data: tables, help and manual are made from these entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal, TypeAlias

import numpy as np

import ctxbench.bench.metrics.kernels as kernels
from ctxbench.bench.metrics.inputs import DEPTH, Via
from ctxbench.bench.metrics.joined import Joined
from ctxbench.core import registry
from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import ParameterError, UnknownNameError

Scale: TypeAlias = Literal["yes/no", "share", "amount", "bits"]
Need: TypeAlias = Literal["rankings", "item_tokens", "body_tokens", "kinship", "pool", "model_use"]
Compute: TypeAlias = Callable[[Joined, int], FloatArray]


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One metric.

    Attributes:
        name: as it is printed, without cutoff.
        title: its long name.
        text: what it says, in one sentence.
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
    text: str
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
    """A metric with an optional cutoff reads down to `DEPTH` without one."""
    return lambda joined, k: kernel(joined, k or DEPTH)


_LEFT_OUT = "NaN where nothing is required, so that the mean leaves the query out"
_SET = f"{_LEFT_OUT}; 0 where something is required and neither offered nor in the session."
_RANKED = f"{_LEFT_OUT}, and where no ranking was given; 0 for an empty ranking."
_OPEN = (
    "NaN where nothing is required beyond the session's items, and where no ranking was given; 0 for an empty ranking."
)
_ALWAYS = "0 where nothing was added, whether or not something is needed."
_NOTHING = "NaN where something is required, so that the mean is over the queries that need nothing"

_SETS = (
    Declaration(
        name="completeness",
        title="Completeness",
        text="Share of queries with every required item in the prompt; one of several alternatives is enough.",
        empty=f"{_SET} 1 where the session holds all that is required.",
        scale="yes/no",
        compute=_set(kernels.completeness),
    ),
    Declaration(
        name="recall",
        title="Recall",
        text="Share of the required items of a query in the prompt; alternatives count once.",
        empty=f"{_SET} 1 where the session holds all that is required.",
        compute=_set(kernels.recall),
    ),
    Declaration(
        name="direct_recall",
        title="Recall of what is needed directly",
        text="Recall over the required items that are needed for themselves.",
        empty="NaN where nothing is needed directly; 0 where something is and nothing is in the prompt.",
        compute=_set(partial(kernels.recall_via, via=Via.DIRECT)),
    ),
    Declaration(
        name="dependency_recall",
        title="Recall of dependencies",
        text="Recall over the required items that are needed only because another one leans on them.",
        empty="NaN where there are no dependencies; 0 where there are and nothing is in the prompt.",
        compute=_set(partial(kernels.recall_via, via=Via.DEPENDENCY)),
    ),
    Declaration(
        name="precision",
        title="Precision",
        text="Share of the items added to a query that are required or helpful; an unlabelled one counts as neither.",
        empty=f"{_LEFT_OUT}; 0 where nothing was added though something is required beyond the session's items, NaN "
        "where nothing was added because the session holds it all.",
        compute=_set(kernels.precision),
    ),
    Declaration(
        name="precision_upper",
        title="Precision, upper bound",
        text="Precision if every unlabelled item were relevant; `precision` is the lower bound.",
        empty="As precision.",
        compute=_set(partial(kernels.precision, lowest=-1)),
    ),
    Declaration(
        name="unlabelled",
        title="Unlabelled items",
        text="How many of the items added have no label; what precision does not know.",
        empty=_ALWAYS,
        better="lower",
        scale="amount",
        unit="items",
        compute=_set(kernels.unlabelled),
    ),
    Declaration(
        name="items",
        title="Items added",
        text="How many items the selector added, by search or expansion; the session's are not counted.",
        empty=_ALWAYS,
        better="lower",
        scale="amount",
        unit="items",
        compute=_set(lambda joined: joined.n_added),
    ),
    Declaration(
        name="tokens",
        title="Prompt tokens",
        text="Prompt tokens of the items that the selector added.",
        empty=_ALWAYS,
        better="lower",
        scale="amount",
        unit="tokens",
        needs=("item_tokens",),
        compute=_set(kernels.tokens),
    ),
    Declaration(
        name="total_tokens",
        title="Prompt tokens with the session's",
        text="Prompt tokens of all items in the prompt, those that the session held included.",
        empty="0 where the prompt holds no item.",
        better="lower",
        scale="amount",
        unit="tokens",
        needs=("item_tokens",),
        compute=_set(lambda joined: kernels.tokens(joined, np.ones(len(joined.added), dtype=np.bool_))),
    ),
    Declaration(
        name="loaded_tokens",
        title="Prompt tokens with the bodies of skills",
        text="Prompt tokens of the items that the selector added, and of the bodies of the required skills among them, "
        "which the model loads.",
        empty=_ALWAYS,
        better="lower",
        scale="amount",
        unit="tokens",
        needs=("item_tokens", "body_tokens"),
        compute=_set(kernels.loaded_tokens),
    ),
    Declaration(
        name="model_tokens",
        title="Tokens of the selector's own model",
        text="Tokens that the selector itself sent to a language model and got from it to choose the items, as the "
        "server counts them.",
        empty="0 where no model was asked.",
        better="lower",
        scale="amount",
        unit="tokens",
        needs=("model_use",),
        compute=_set(partial(kernels.model_use, row=0)),
    ),
    Declaration(
        name="model_seconds",
        title="Seconds of the selector's own model",
        text="Seconds that the selector waited for a language model to choose the items, when the model was asked.",
        empty="0 where no model was asked.",
        better="lower",
        scale="amount",
        unit="seconds",
        needs=("model_use",),
        compute=_set(partial(kernels.model_use, row=1)),
    ),
    Declaration(
        name="wrong_siblings",
        title="Wrong siblings offered",
        text="How many items added are irrelevant or unlabelled but share with a required item the type and the "
        "server, the type and the stem of the name (on any server), or a near-duplicate group.",
        empty=f"{_LEFT_OUT}; 0 where nothing was added.",
        better="lower",
        scale="amount",
        unit="items",
        needs=("kinship",),
        compute=_set(kernels.wrong_siblings),
    ),
    Declaration(
        name="abstention",
        title="Empty when nothing is needed",
        text="Share of the queries that need nothing to which nothing was added.",
        empty=f"{_NOTHING}; 1 where nothing was added.",
        scale="yes/no",
        compute=_set(kernels.abstention),
    ),
    Declaration(
        name="false_inclusion",
        title="False inclusion",
        text="Share of the queries that need nothing to which an item was added that is not even helpful.",
        empty=f"{_NOTHING}; 0 where nothing was added.",
        better="lower",
        scale="yes/no",
        compute=_set(kernels.false_inclusion),
    ),
    Declaration(
        name="false_items",
        title="Items falsely included",
        text="How many items that are not even helpful were added to a query that needs nothing.",
        empty=f"{_NOTHING}; 0 where nothing was added.",
        better="lower",
        scale="amount",
        unit="items",
        compute=_set(kernels.false_items),
    ),
    Declaration(
        name="forbidden_offered",
        title="Forbidden items offered",
        text="Share of the queries with a forbidden item (labelled irrelevant) to which the selector added one.",
        empty="NaN where no item is labelled irrelevant, so that the mean leaves the query out; 0 where nothing was "
        "added.",
        better="lower",
        scale="yes/no",
        partial=True,
        compute=_set(kernels.forbidden_offered),
    ),
)

_RANKINGS = (
    Declaration(
        name="nDCG",
        title="Normalized discounted cumulative gain",
        text="Sum of grade / log2(rank + 1) over the same sum of the best ranking; each alternative has its own gain.",
        empty="NaN where no item is required or helpful beyond the session's, and where no ranking was given; 0 for "
        "an empty ranking.",
        cutoff="optional",
        needs=("rankings",),
        compute=_full_ranking(kernels.ndcg),
        ir_measures="nDCG",
        source="Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, ACM TOIS 20(4), 2002",
    ),
    Declaration(
        name="R",
        title="Recall at k",
        text="Share of the required items that are in the first k ranks or in the session; alternatives count once.",
        empty=_RANKED,
        cutoff="required",
        needs=("rankings",),
        compute=kernels.recall_at,
        ir_measures="R(rel=2)",
    ),
    Declaration(
        name="Comp",
        title="Completeness at k",
        text="Share of queries with every required item in the first k ranks or in the session.",
        empty=_RANKED,
        scale="yes/no",
        cutoff="required",
        needs=("rankings",),
        compute=kernels.comp_at,
    ),
    Declaration(
        name="P",
        title="Precision at k",
        text="Required or helpful items in the first k ranks, over k, however short the ranking is.",
        empty=_OPEN,
        cutoff="required",
        needs=("rankings",),
        compute=kernels.precision_at,
        ir_measures="P",
    ),
    Declaration(
        name="RR",
        title="Reciprocal rank",
        text="1 / the rank of the first required item, 0 if none is ranked.",
        empty=_OPEN,
        cutoff="optional",
        needs=("rankings",),
        compute=_full_ranking(kernels.reciprocal_rank),
        ir_measures="RR(rel=2)",
        source="Kantor and Voorhees, The TREC-5 confusion track, TREC 1996",
    ),
    Declaration(
        name="AP",
        title="Average precision",
        text="Mean over the required items of the precision at the rank of each, 0 for those not ranked; alternatives "
        "count once, at the first.",
        empty=_OPEN,
        cutoff="optional",
        needs=("rankings",),
        compute=_full_ranking(kernels.average_precision),
        ir_measures="AP(rel=2)",
        source="Harman, Evaluation issues in information retrieval, IPM 28(4), 1992",
    ),
    Declaration(
        name="Success",
        title="Success at k",
        text="Share of queries with at least one required item in the first k ranks.",
        empty=_OPEN,
        scale="yes/no",
        cutoff="required",
        needs=("rankings",),
        compute=kernels.success_at,
        ir_measures="Success(rel=2)",
    ),
    Declaration(
        name="Chance",
        title="Chance of success at k",
        text="The chance that k items drawn at random from those available hold a required one.",
        empty="NaN where nothing is required beyond the session's items, and where no ranking was given; it does not "
        "depend on what is ranked.",
        cutoff="required",
        needs=("rankings", "pool"),
        compute=kernels.chance_at,
        source="the hypergeometric distribution",
    ),
    Declaration(
        name="BoR",
        title="Bits over random at k",
        text="log2 of mean Success@k over mean Chance@k: how many halvings of the pool the ranking is worth.",
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


@cache
def find_metric(name: str) -> Declaration:
    """The declaration of a metric, here or by a package (an entry point of the group `ctxbench.metric`).

    Raises:
        UnknownNameError: nothing is.
        ParameterError: what the package has under the name is no declaration of it.
    """
    if name in METRICS:
        return METRICS[name]
    if name not in registry.names("metric"):
        raise UnknownNameError("metric", name, metric_names())
    declaration = registry.find("metric", name)
    if not isinstance(declaration, Declaration) or declaration.name != name:
        raise ParameterError(
            f"the entry point {name!r} of ctxbench.metric gives {declaration!r:.80}, no Declaration of it"
        )
    return declaration


def metric_names() -> tuple[str, ...]:
    """The names of all metrics, those of packages last."""
    return (*METRICS, *registry.names("metric"))
