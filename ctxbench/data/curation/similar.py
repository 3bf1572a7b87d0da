"""Find items whose texts are nearly the same: by words, or by vectors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.core.arrays import Float32Array, FloatArray, IntArray
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog
from ctxbench.data.datasets.row_groups import connected_rows, group_pairs
from ctxbench.index.dense import chunks_of
from ctxbench.index.words import words

WORDS = "how alike the words are, 0 to 1 (cosine of TF-IDF)"
VECTORS = "how alike the texts are by meaning, up to 1 (cosine of mean vectors)"
WORDS_THRESHOLD = 0.7
VECTORS_THRESHOLD = 0.85
_BLOCK = 4_000_000  # cells of a product held at once


@dataclass(frozen=True, slots=True)
class SimilarPair:
    """Two items whose texts are nearly the same.

    Attributes:
        first, second: catalog positions, first < second.
        similarity: 0 to 1.
    """

    first: int
    second: int
    similarity: float


def similar_by_words(
    texts: Sequence[str],
    *,
    threshold: float = WORDS_THRESHOLD,
    rows: Iterable[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[SimilarPair, ...]:
    """Find the pairs of texts with nearly the same words.

    A word weighs (1 + ln tf) ln(1 + n / df), with tf its count in the text, df the texts that hold it and n all
    texts; similarity is the cosine of these weights. Words are those of the BM25 index.

    Args:
        texts: n texts. One without a word is near nothing.
        threshold: least similarity, above 0, at most 1.
        rows: only pairs with one of these texts; None = all.
        progress: called with (texts compared, texts to compare).

    Returns:
        Each pair once, most similar first, then by position. A pair does not depend on the order of the texts.

    Raises:
        ParameterError: the threshold is out of range.
    """
    _check(threshold)
    counted = [Counter(words(text)) for text in texts]
    weights = _weights(counted)
    texts_by_word = group_pairs((word, position) for position, row in enumerate(weights) for word in row)
    postings = {
        word: (np.array(positions, dtype=np.int64), np.array([weights[position][word] for position in positions]))
        for word, positions in texts_by_word.items()
    }
    included = set(range(len(texts)) if rows is None else rows)
    pairs: list[SimilarPair] = []
    for done, row in enumerate(sorted(included)):
        if progress is not None:
            progress(done, len(included))
        score = np.zeros(len(texts), dtype=np.float64)
        for word, weight in weights[row].items():
            at, theirs = postings[word]
            score[at] += weight * theirs
        pairs += _pairs_of(row, score, threshold, included)
    return _ordered(pairs)


def similar_by_vectors(
    catalog: Catalog,
    embed: Callable[[Sequence[str]], Float32Array],
    *,
    threshold: float = VECTORS_THRESHOLD,
) -> tuple[SimilarPair, ...]:
    """Find the pairs of items whose mean chunk vectors point nearly the same way.

    Args:
        catalog: the items, chunked as the selectors do.
        embed: makes unit vectors of texts, shape (n_texts, n_dimensions).
        threshold: least cosine, above 0, at most 1.

    Returns:
        Each pair once, most similar first, then by position.

    Raises:
        ParameterError: the threshold is out of range.
        EmbeddingError: there is no model, or a text could not be embedded.
    """
    _check(threshold)
    chunks = [chunks_of(item) for item in catalog]
    if len(chunks) < 2:
        return ()
    means = mean_vectors(
        embed([text for row in chunks for text in row]), np.cumsum([0, *(len(row) for row in chunks[:-1])])
    )
    included = set(range(len(chunks)))
    step = max(1, _BLOCK // len(chunks))
    pairs: list[SimilarPair] = []
    for begin in range(0, len(chunks), step):
        product = means[begin : begin + step] @ means.T
        for index, score in enumerate(product):
            pairs += _pairs_of(begin + index, score, threshold, included)
    return _ordered(pairs)


def mean_vectors(vectors: Float32Array, first: IntArray) -> FloatArray:
    """The mean direction of each item's chunk vectors, shape (n_items, n_dimensions).

    Args:
        vectors: those of all chunks, item by item, shape (n_chunks, n_dimensions).
        first: the first row of each item, shape (n_items,).
    """
    means: FloatArray = np.add.reduceat(vectors.astype(np.float64), first, axis=0)
    means /= np.maximum(np.sqrt((means * means).sum(axis=1, keepdims=True)), np.finfo(np.float64).tiny)
    return means


def connected_groups(pairs: Iterable[SimilarPair]) -> tuple[tuple[int, ...], ...]:
    """The positions that pairs connect, directly or over others: each group and the groups in catalog order."""
    positions = [(pair.first, pair.second) for pair in pairs]
    groups = ({position for row in rows for position in positions[row]} for rows in connected_rows(positions))
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def _weights(counted: Sequence[Counter[str]]) -> list[dict[str, float]]:
    """Unit TF-IDF weights by word, words sorted so that sums come out alike in any order of texts."""
    frequency = Counter(word for row in counted for word in row)
    idf = {word: math.log(1 + len(counted) / count) for word, count in frequency.items()}
    out = []
    for row in counted:
        raw = {word: (1 + math.log(row[word])) * idf[word] for word in sorted(row)}
        length = math.sqrt(sum(value * value for value in raw.values()))
        out.append({word: value / length for word, value in raw.items()})
    return out


def _pairs_of(first: int, score: FloatArray, threshold: float, included: set[int]) -> list[SimilarPair]:
    """The pairs of one text, without those that a wanted text before it has."""
    close: IntArray = np.flatnonzero(score >= threshold - 1e-9)
    return [
        SimilarPair(min(first, second), max(first, second), min(1.0, float(score[second])))
        for second in close.tolist()
        if second != first and not (second in included and second < first)
    ]


def _ordered(pairs: list[SimilarPair]) -> tuple[SimilarPair, ...]:
    return tuple(sorted(pairs, key=lambda pair: (-round(pair.similarity, 12), pair.first, pair.second)))


def _check(threshold: float) -> None:
    if not 0 < threshold <= 1:
        raise ParameterError(f"the threshold of similarity is above 0 and at most 1, got {threshold}")
