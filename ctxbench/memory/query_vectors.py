"""Vectors of queries, kept for a while: the same question asked again is not embedded again."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ctxbench.core.errors import check_range
from ctxbench.embedding.embedder import Embedder
from ctxbench.embedding.vectors import Vectors, text_hash


@dataclass
class QueryVectors:
    """The vectors of the queries asked last, by text; in memory alone.

    Attributes:
        embedder: makes what is not there.
        size: how many are kept, 0 or more; the one used longest ago goes first.
        seconds: how long one is kept after it was made, 0 or more.
        clock: tells seconds; for tests.
        hits, misses: how often one was there, and was not.
    """

    embedder: Embedder
    size: int = 1000
    seconds: float = 3600.0
    clock: Callable[[], float] = time.monotonic
    hits: int = 0
    misses: int = 0
    _kept: OrderedDict[bytes, tuple[float, tuple[float, ...]]] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        check_range("size", self.size, 0)
        check_range("seconds", self.seconds, 0)

    @property
    def hit_rate(self) -> float:
        """The share of queries whose vector was there, 0 to 1; 0 before the first."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0

    def get(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """The vectors of texts, each of unit length.

        Raises:
            EmbeddingError: a text cannot be embedded, or there is no model; nothing of the call is kept.
        """
        now = self.clock()
        found = {text: self._look_up(text, now) for text in dict.fromkeys(texts)}
        missing = [text for text, vector in found.items() if vector is None]
        self.hits += len(texts) - len(missing)
        self.misses += len(missing)
        if missing:
            rows = Vectors(self.embedder, None).get(missing)
            made = {text: tuple(map(float, row)) for text, row in zip(missing, rows, strict=True)}
            found |= made
            self._kept |= {text_hash(text): (now, vector) for text, vector in made.items()}
        while len(self._kept) > self.size:
            self._kept.popitem(last=False)
        return [vector for text in texts if (vector := found[text]) is not None]

    def clear(self) -> None:
        """Forget all of them."""
        self._kept.clear()

    def _look_up(self, text: str, now: float) -> tuple[float, ...] | None:
        key = text_hash(text)
        made, vector = self._kept.get(key, (now, None))
        if vector is None or now - made >= self.seconds:
            self._kept.pop(key, None)
            return None
        self._kept.move_to_end(key)
        return vector
