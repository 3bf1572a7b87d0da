"""Features of a request as a whole: those of the item that scores best, and the largest or least of some over all."""

from __future__ import annotations

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.features.columns import feature_rows
from ctxbench.features.request import Items, RequestText, Slots
from ctxbench.features.shared_words import Words

_BEST = (
    "retrieved.score",
    *(f"words.{column}" for column in Words.columns),
    *(f"item.{column}" for column in Items.columns),
    *(f"request.{column}" for column in RequestText.columns),
    *(f"slots.{column}" for column in Slots.columns),
)
_MOST = ("words.query_in_item", "words.bm25", "words.body_in_query", "slots.filled")
_LEAST = ("slots.lacking",)
REQUEST = (
    *(f"best.{name}" for name in _BEST),
    *(f"most.{name}" for name in _MOST),
    *(f"least.{name}" for name in _LEAST),
)
"""Their names."""


def request_features(query: Query, table: Candidates, resources: Resources) -> tuple[IntArray, FloatArray]:
    """The features of every request for which anything was found.

    Returns:
        The requests, rising, and their features, shape (n, len(REQUEST)).
    """
    found, features = feature_rows(table, _BEST, query, resources, expanded=False)
    first = found.start[:-1][found.asking]
    best = features[first]
    most, least = (features[:, [_BEST.index(name) for name in names]] for names in (_MOST, _LEAST))
    if len(first):
        most, least = np.maximum.reduceat(most, first, axis=0), np.minimum.reduceat(least, first, axis=0)
    return found.asking.astype(np.int64), np.concatenate([best, most, least], axis=1)


def request_vectors(query: Query, requests: IntArray, resources: Resources) -> FloatArray:
    """The mean vector of the chunks of each of `requests`, shape (n, n_dimensions); zeros for one without chunks.

    Where none of them has a chunk, nothing is embedded, and n_dimensions is 0.
    """
    chunks = [np.arange(query.start[request], query.start[request + 1]) for request in requests.tolist()]
    wanted = np.concatenate([np.empty(0, np.int64), *chunks])
    if not len(wanted):
        return np.zeros((len(requests), 0), dtype=np.float64)
    vectors = resources.vectors([query.text[chunk] for chunk in wanted]).astype(np.float64)
    ends = np.cumsum([len(own) for own in chunks])
    means = np.zeros((len(requests), vectors.shape[1]), dtype=np.float64)
    for row, (own, end) in enumerate(zip(chunks, ends.tolist(), strict=True)):
        for vector in vectors[end - len(own) : end]:  # one after the other: the sum of some never depends on others
            means[row] += vector
        means[row] /= max(len(own), 1)
    return means
