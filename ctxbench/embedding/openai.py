"""Any model behind an OpenAI-compatible address: the one of OpenAI, of another provider, or of a server of your own."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ctxbench.core.arrays import Float32Array, FloatArray
from ctxbench.core.errors import EmbeddingError
from ctxbench.embedding.embedder import EmbedderIdentity, ModelError, OnDone, well_formed
from ctxbench.io.cache import cache_dir, read_sealed, write_sealed
from ctxbench.net.openai_server import OpenAIServer, RefusedError, ServerError

_TEXTS = 64  # of a request, at most
_CHARACTERS = 60_000  # of a request of more than one text
_FIRST = "dimensions"  # the text by which the length of vectors is learned


class OpenAIEmbedder:
    """A model behind `POST <address>/embeddings`.

    How the server is found and asked is told by `OpenAIServer`. Texts go out in requests of at most 64, one after the
    other; of fewer where the server refuses so many.

    Other embedders promise that a row depends on its text alone, bit for bit. A server need not keep that: it computes
    texts in company, and may change its machines. Runs repeat all the same, because each text is embedded once and its
    vector stored. A server that puts another model behind the same name is not noticed as long as the length of
    vectors stays: give it another name, or delete its folder under `vectors` in the cache.

    An empty text, which some servers refuse, is sent as a blank. A text that is too long for the model is an error or
    cut, as the server likes.

    Args:
        model: as the server calls it, such as `text-embedding-3-small`.
        timeout: seconds for an exchange, from the first byte sent to the last received.
        tries: of a request, >= 1.
        pause: seconds before the second try, doubled each time.

    Raises:
        ParameterError: the address is none, or holds a user, a password or a query.
    """

    def __init__(self, model: str, *, timeout: float = 60.0, tries: int = 6, pause: float = 0.5) -> None:
        self._model = model
        self._server = OpenAIServer(model, "embeddings", returns="vectors", timeout=timeout, tries=tries, pause=pause)
        self._who = self._server.who
        self._identity: EmbedderIdentity | None = None
        self._lock = threading.RLock()

    @property
    def identity(self) -> EmbedderIdentity:
        """Who made the vectors. Their length is learned by one request and remembered in the cache.

        Raises:
            ModelError: it is not known yet, and the server gives no vector.
        """
        with self._lock:
            if self._identity is None:
                self._identity = EmbedderIdentity(
                    model=self._model,
                    revision=f"address-{_digest(self._server.address.endpoint)}",
                    backend=f"openai-compatible {self._server.address.display.partition('://')[2]}",
                    quantisation="unknown",
                    dimensions=self._dimensions(),
                )
            return self._identity

    def embed(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Float32Array:
        """Embed texts; see `Embedder.embed`. Lone surrogates count as U+FFFD."""
        dimensions = self.identity.dimensions
        vectors = np.empty((len(texts), dimensions), dtype=np.float32)
        with self._lock:
            for start, rows in self._computed([well_formed(text) or " " for text in texts]):
                if rows.shape[1] != dimensions:
                    raise ModelError(
                        f"{self._who} returned vectors of {rows.shape[1]} numbers; expected {dimensions}, as at first. "
                        f"Another model answers to its name now: delete {self._remembered} to begin anew"
                    )
                for position, row in enumerate(rows, start):
                    vectors[position] = row
                    if on_done is not None:
                        on_done(position, vectors[position])
        return vectors

    @property
    def _remembered(self) -> Path:
        """The file that keeps the length of vectors."""
        return cache_dir() / "openai" / f"{_digest(self._server.address.endpoint, self._model)}.json"

    def _dimensions(self) -> int:
        """The length of a vector, remembered or learned."""
        identity = {"place": _digest(self._server.address.endpoint), "model": self._model}
        stored = json.loads(read_sealed(self._remembered) or b"{}")
        if {**stored, **identity} == stored:
            return int(stored["dimensions"])
        try:
            dimensions = int(self._rows([_FIRST]).shape[1])
        except EmbeddingError as error:  # of any text, so it is not that one's fault
            raise ModelError(str(error)) from error
        write_sealed(self._remembered, json.dumps({**identity, "dimensions": dimensions}).encode())
        return dimensions

    def _computed(self, texts: Sequence[str]) -> Iterator[tuple[int, Float32Array]]:
        """Yield (position of the first text, vectors) of each request."""
        start, batch_size = 0, _TEXTS
        while start < len(texts):
            batch = texts[start : start + _size(texts[start : start + batch_size])]
            try:
                rows = self._rows(batch)
            except EmbeddingError as error:
                if isinstance(error, ModelError) or len(batch) == 1:
                    raise
                batch_size = len(batch) // 2  # so many may be too many; else this leads to the text that is at fault
                continue
            yield start, rows
            start += len(batch)

    def _rows(self, texts: Sequence[str]) -> Float32Array:
        """The vectors of one request, in the order of its texts.

        Raises:
            ModelError: no text is at fault.
            EmbeddingError: one of the texts may be, or their number.
        """
        message = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        try:
            body = self._server.post(message)
        except RefusedError as error:
            raise EmbeddingError(str(error)) from error
        except ServerError as error:
            raise ModelError(str(error)) from error
        data = body.get("data") if isinstance(body, dict) else None
        if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
            raise ModelError(
                f"{self._who} returned no list of embeddings; expected {{data: [...]}}, "
                f"got {self._server.error_text(body)}"
            )
        if len(data) != len(texts):
            raise ModelError(f"{self._who} returned {len(data)} vectors for {len(texts)} texts; expected one for each")
        rows: list[FloatArray | None] = [None] * len(texts)
        for row, entry in enumerate(data):
            index = entry.get("index", row)
            if type(index) is not int or not 0 <= index < len(texts) or rows[index] is not None:
                raise ModelError(
                    f"{self._who} returned a vector with the index {self._server.quoted(repr(index))}; expected "
                    f"each of 0 to {len(texts) - 1} once"
                )
            rows[index] = self._vector(entry.get("embedding"), index)
        lengths = sorted({len(row) for row in rows if row is not None})
        if len(lengths) != 1:
            raise ModelError(f"{self._who} returned vectors of different lengths: {', '.join(map(str, lengths))}")
        return np.array(rows, dtype=np.float32)

    def _vector(self, value: object, index: int) -> FloatArray:
        """One vector in unit length, shape (dimensions,), from a list of numbers or float32 in base64."""
        try:
            if isinstance(value, str):
                vector = np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float64)
            else:
                vector = np.array(value, dtype=np.float64) if _numbers(value) else np.empty(0)
        except (ValueError, OverflowError, binascii.Error):
            vector = np.empty(0)
        if not len(vector):
            got = repr(value) if not isinstance(value, list) else f"a list that begins with {value[:3]!r}"
            raise ModelError(
                f"{self._who} returned no vector in row {index}; expected numbers, or float32 in base64, got "
                f"{self._server.quoted(got)}"
            )
        largest = float(np.abs(vector).max())
        if not (np.isfinite(largest) and largest > 0.0):
            problem = "of zeros only" if largest == 0.0 else "with NaN or infinite numbers in it"
            raise EmbeddingError(f"{self._who} returned a vector {problem}")
        vector /= largest  # so that no square is too large or too small
        vector /= np.sqrt(np.add.reduce(vector * vector))
        return vector


def _size(texts: Sequence[str]) -> int:
    """How many of the texts go into one request, at least one."""
    characters = 0
    for size, text in enumerate(texts):
        characters += len(text)
        if size and characters > _CHARACTERS:
            return size
    return len(texts)


def _digest(*parts: str) -> str:
    """The beginning of a hash over texts, which gives none of them away."""
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _numbers(value: object) -> bool:
    """Whether a JSON value is a list of numbers, of which `true` is none."""
    return isinstance(value, list) and all(type(number) in (float, int) for number in value)
