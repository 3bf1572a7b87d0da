"""The table of metrics in the manual says what the metrics themselves do."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctxbench.evaluation.metrics import METRICS

MANUAL = Path(__file__).parents[2] / "experiments" / "metrics.md"
CUTOFFS = {"none": "`{0}`", "optional": "`{0}`, `{0}@k`", "required": "`{0}@k`"}


@pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))
def test_the_manual_has_a_row_for_every_metric(metric):
    row = f"| {CUTOFFS[metric.cutoff].format(metric.name)} | {metric.description} | {metric.better} |"
    assert row in MANUAL.read_text("utf-8").splitlines()
