"""Statistics: intervals that say where they hold, and paired comparisons. numpy and the standard library only."""

from ctxbench.evaluation.stats.by_metric import compare_metric, estimates
from ctxbench.evaluation.stats.intervals import (
    LEVEL,
    Estimate,
    Interval,
    Scale,
    amount_interval,
    bootstrap_interval,
    critical,
    estimate,
    share_interval,
    student_critical,
    wilson,
    wilson_bounds,
)
from ctxbench.evaluation.stats.paired import (
    Comparison,
    compare,
    correct,
    difference_interval,
    holm,
    mcnemar_exact,
    needed_n,
    sign_flip,
    standardised_difference,
)

__all__ = [
    "LEVEL",
    "Comparison",
    "Estimate",
    "Interval",
    "Scale",
    "amount_interval",
    "bootstrap_interval",
    "compare",
    "compare_metric",
    "correct",
    "critical",
    "difference_interval",
    "estimate",
    "estimates",
    "holm",
    "mcnemar_exact",
    "needed_n",
    "share_interval",
    "sign_flip",
    "standardised_difference",
    "student_critical",
    "wilson",
    "wilson_bounds",
]
