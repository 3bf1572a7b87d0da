"""A cache of the vectors of queries."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ctxbench.core.errors import check_range
from ctxbench.embedding.embedder import Embedder
from ctxbench.embedding.vectors import Vectors
from ctxbench.io.process_lock import ProcessLock


@dataclass
class QueryVectors:
    """The vectors of the latest queries by text, in memory. Thread-safe.

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
    _cached: dict[str, tuple[float, tuple[float, ...]]] = field(
        default_factory=dict
    )  # when it was made; last used last

    _lock: ProcessLock = field(default_factory=ProcessLock, repr=False)  # not held while one is made

    def __post_init__(self) -> None:
        check_range("size", self.size, 0)
        check_range("seconds", self.seconds, 0)

    @property
    def hit_rate(self) -> float:
        """The share of queries whose vector was cached, 0 to 1; 0 before the first query."""
        n_requests = self.hits + self.misses
        return self.hits / n_requests if n_requests else 0.0

    def get(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """The vectors of texts, each of unit length.

        Raises:
            EmbeddingError: a text cannot be embedded, or there is no model; nothing of the call is kept.
        """
        time = self.clock()
        with self._lock:
            cached = {text: self._cached.get(text, (-math.inf, ())) for text in texts}
            missing = [text for text, (created, _) in cached.items() if time - created >= self.seconds]
            self.hits += len(texts) - len(missing)
            self.misses += len(missing)
        if missing:
            rows = Vectors(self.embedder, None).get(missing)
            cached |= {text: (time, tuple(map(float, row))) for text, row in zip(missing, rows, strict=True)}
        with self._lock:
            for text, entry in cached.items():
                self._cached.pop(text, None)
                self._cached[text] = entry
            while len(self._cached) > self.size:
                del self._cached[next(iter(self._cached))]
        return [cached[text][1] for text in texts]

    def clear(self) -> None:
        """Empty the cache."""
        with self._lock:
            self._cached.clear()
