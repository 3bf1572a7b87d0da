"""What offers cost, where a side does not say so."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ctxbench.evaluation.gate.settings import PRICES
from ctxbench.evaluation.gate.snapshots import AnswerFact, Snapshot
from ctxbench.evaluation.metrics import parse_metric


def priced(side: Snapshot) -> Snapshot:
    """The snapshot with what its offers cost, where it does not say so: an older baseline, or a run of other metrics.

    One that was asked repeatedly stays as it is: its values are means, and its answers those of one time.
    """
    lacking = [metric for metric in map(parse_metric, PRICES) if metric not in side.metrics]
    if not lacking or side.repeats > 1:
        return side
    answers = [side.answers.get(query) for query in side.queries]
    added = {
        metric: np.array([_cost(one, side, session=metric.name == "total_tokens") for one in answers], dtype=np.float64)
        for metric in lacking
    }
    return replace(side, metrics={**side.metrics, **added})


def _cost(answer: AnswerFact | None, side: Snapshot, *, session: bool) -> float:
    """Prompt tokens of an offer; NaN where there is none."""
    if answer is None or answer.error:
        return math.nan
    there = [one.id for one in answer.offered if session or one.origin != "session"]
    return float(sum(side.items[one].tokens for one in there if one in side.items))
