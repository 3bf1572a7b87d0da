"""Metrics: what a selection is worth, by query and on average. Plain arrays in, plain arrays out."""

from ctxbench.bench.metrics.declared import ALIASES, METRICS, Declaration
from ctxbench.bench.metrics.inputs import (
    DEPTH,
    SESSION,
    Evidence,
    Grade,
    Judgments,
    Kinship,
    OfferedItems,
    Rankings,
    Via,
    name_stem,
)
from ctxbench.bench.metrics.metric_names import Metric, parse_metric, parse_metrics
from ctxbench.bench.metrics.values_by_query import (
    GroupMean,
    Mean,
    bits_over_random,
    evaluate,
    group_means,
    mean,
    summarise,
    unavailable,
    worst_group,
)

__all__ = [
    "ALIASES",
    "DEPTH",
    "METRICS",
    "SESSION",
    "Declaration",
    "Evidence",
    "Grade",
    "GroupMean",
    "Judgments",
    "Kinship",
    "Mean",
    "Metric",
    "OfferedItems",
    "Rankings",
    "Via",
    "bits_over_random",
    "evaluate",
    "group_means",
    "mean",
    "name_stem",
    "parse_metric",
    "parse_metrics",
    "summarise",
    "unavailable",
    "worst_group",
]
