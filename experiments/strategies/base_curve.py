"""The curve of a base, a search with one standard cut, from its stored answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ctxbench.evaluation.answers import Labels, Slice
from ctxbench.evaluation.comparisons import LENGTHS, Curve, refining
from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.io.errors import ParameterError
from ctxbench.model.registry import StoredPipeline, StoredStep
from ctxbench.model.requests import Query
from ctxbench.model.resources import Resources
from ctxbench.pipelines.strategies.cut import Standard
from ctxbench.search.dense import DEPTH

_METRICS = (parse_metric("completeness"), parse_metric("tokens"))


def standard_cut(description: Mapping[str, Any]) -> Standard:
    """The standard cut of a described pipeline.

    Args:
        description: as a run's manifest has it for a selector.

    Raises:
        ParameterError: it is no pipeline that ends with its one standard cut, so that it has no curve.
    """
    pipeline = StoredPipeline.of(description)
    steps = () if pipeline is None else refining(pipeline.refine)
    cut = steps[0].build() if len(steps) == 1 and isinstance(steps[0], StoredStep) else None
    if not isinstance(cut, Standard):
        raise ParameterError("the selector that all are compared with must be a search with one standard cut")
    return cut


def own_curve(answers: Slice, cut: Standard, labels: Labels, resources: Resources) -> Curve:
    """The curve of a selector with a standard cut, from its stored answers: nothing, then `LENGTHS` as topN.

    topK grows with topN in the proportion that the cut has, up to the depth of the search, and includeScore stays.
    At the cut's own topN this is what the selector offers.

    Args:
        answers: to every query, with what the cut kept out.
        cut: what they were cut with; topN >= 1.
        labels: of the same queries.
        resources: passed to the cut, which uses none.
    """
    if cut.topN < 1:
        raise ParameterError("a curve in topN needs a cut with topN 1 or more")
    query = Query.of_chunks(labels.dataset.batch(), answers.chunks)
    whole = replace(answers.candidates, out=np.zeros(len(answers.candidates), dtype=np.int64))
    complete, tokens = [], []
    for length in (-1, *LENGTHS):
        if length < 0:
            one = Standard(topK=0, topN=0)
        else:
            reach = max(cut.topK, min(math.ceil(cut.topK / cut.topN * length), DEPTH))
            one = replace(cut, topK=reach, topN=length)
        values = evaluate(_METRICS, labels.evidence(replace(answers, candidates=one(query, whole, resources))))
        complete.append(values[_METRICS[0]])
        tokens.append(values[_METRICS[1]])
    return Curve(np.stack(complete), np.stack(tokens))
