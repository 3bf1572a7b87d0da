"""An embedder without a model: words and character n-grams, hashed. For tests and for trying things offline."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ctxbench.core.arrays import Float32Array
from ctxbench.core.errors import check_range
from ctxbench.embedding.embedder import EmbedderIdentity, OnDone, well_formed

_WORD = re.compile(r"\w+")
_WORD_WEIGHT = 4  # a shared word says more than a shared trigram, of which a word has several


class HashingEmbedder:
    """Hashed words and character trigrams: texts that share words are near each other, nothing more.

    Deterministic across processes and platforms: features are hashed by BLAKE2b and summed as integers.

    Args:
        dimensions: length of a vector, 8 to 4096.
    """

    def __init__(self, dimensions: int = 256) -> None:
        check_range("dimensions", dimensions, 8, 4096)
        self._identity = EmbedderIdentity("hashing", "1", "ctxbench", "float32", dimensions)

    @property
    def identity(self) -> EmbedderIdentity:
        """Who made the vectors."""
        return self._identity

    def embed(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Float32Array:
        """Embed texts; see `Embedder.embed`. A text without a word has the vector of one fixed feature."""
        vectors = np.zeros((len(texts), self._identity.dimensions), dtype=np.float32)
        for position, text in enumerate(texts):
            vectors[position] = self._embed(text)
            if on_done is not None:
                on_done(position, vectors[position])
        return vectors

    def _embed(self, text: str) -> Float32Array:
        total = np.zeros(self._identity.dimensions, dtype=np.float64)
        for feature, weight in _features(text).items():
            digest = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "little")
            total[(digest >> 1) % len(total)] += weight if digest & 1 else -weight
        length = float(np.sqrt(total @ total))
        if length == 0.0:  # no feature at all, or all cancelled out
            total[0] = length = 1.0
        return (total / length).astype(np.float32)


def _features(text: str) -> Counter[str]:
    """Words, and trigrams of words between marks, with their weights."""
    counts: Counter[str] = Counter()
    for word in _WORD.findall(well_formed(text).lower()):
        counts[f"w:{word}"] += _WORD_WEIGHT
        marked = f"<{word}>"
        counts.update(f"g:{marked[start : start + 3]}" for start in range(len(marked) - 2))
    return counts
