"""The meaning of the columns of a comparison, as a line below it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ctxbench.bench.metrics import Metric

_WORDS = {
    "completeness": "share of queries whose required items were all offered, or in the session",
    "tokens": "what the items cost that were added to the prompt",
    "total_tokens": "prompt tokens with what the session holds",
    "loaded_tokens": "prompt tokens with the bodies of the required skills among them, which the model loads",
    "model_tokens": "what the selector itself sent to a language model, and got from it, to choose",
    "forbidden_offered": "share of the queries with forbidden items (labelled irrelevant) that were offered one",
    "items": "how many items were added to the prompt",
    "Comp": "share of queries whose required items are all among the first {k} ranks, or in the session",
    "wrong_siblings": "offered items not needed that resemble a required one (same server, or like name)",
    "abstention": "share of the requests that need nothing to which nothing was offered",
}


def column_words(columns: Iterable[tuple[str, Metric]]) -> str:
    """One sentence per column, one for all k of the same metric; empty without columns.

    Args:
        columns: titles with their metrics, in order.
    """
    by_name: dict[str, list[tuple[str, Metric]]] = {}
    for title, metric in columns:
        by_name.setdefault(metric.name, []).append((title, metric))
    return " ".join(_sentence(group) for group in by_name.values())


def _sentence(columns: list[tuple[str, Metric]]) -> str:
    title, metric = columns[0]
    k = str(metric.k)
    if len(columns) > 1:
        title, k = f"{metric.name}@k", "k"
    general = metric.declaration.text.rstrip(".").replace("first k ", "first {k} ")
    words = _WORDS.get(metric.name, general).replace("{k}", k)
    plain = re.fullmatch("[a-z ]+", title)  # no name of a metric that is spelt so
    return f"{title[0].upper() + title[1:] if plain else title}: {words}."
