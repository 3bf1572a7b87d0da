"""Embedders given in Python: a function from texts to vectors, or an object that is an embedder, under a name."""

from __future__ import annotations

import inspect
import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from ctxbench.core.arrays import BoolArray, Float32Array
from ctxbench.core.errors import ParameterError, suggest
from ctxbench.embedding.embedder import Embedder, EmbedderIdentity, ModelError, OnDone
from ctxbench.embedding.vectors import Store, text_hash

KIND = "python"  # as `open_embedder` knows them
BATCH = 256  # texts of one call

Function: TypeAlias = Callable[[Sequence[str]], Any]
_PROBE = "ctxbench"  # a text that every function is asked for
_SAME = 1e-3  # between numbers of two unit vectors, as servers that calculate in half precision give them
_LIMIT = 500_000_000  # bytes of vectors over all functions
_registered: dict[str, tuple[object, Embedder]] = {}
_lock = threading.RLock()


def named(embedder: Function | Embedder) -> str:
    """The name under which a function or an object is an embedder as long as the process lives, `python:...`.

    The same one has the same name at every call; the vectors of a function are kept in memory. It is called with one
    text, to learn how many dimensions its vectors have.

    Raises:
        ParameterError: it is neither a function nor an embedder.
        ModelError: the function fails, or what it returns is no vector.
    """
    with _lock:
        return _named(embedder)


def _named(embedder: Function | Embedder) -> str:
    for name, (registered, _) in _registered.items():
        if registered is embedder or (
            inspect.ismethod(embedder) and registered == embedder
        ):  # `model.encode` is another object each time
            return name
    qualified_name = getattr(embedder, "__qualname__", None) or type(embedder).__qualname__
    plain = qualified_name.rpartition(".")[2].strip("<>")
    name = f"{KIND}:{plain}"
    number = 1
    while name in _registered:
        number += 1
        name = f"{KIND}:{plain}-{number}"
    if isinstance(getattr(embedder, "identity", None), EmbedderIdentity) and hasattr(embedder, "embed"):
        _registered[name] = embedder, cast("Embedder", embedder)
    elif callable(embedder) and not isinstance(embedder, type):
        _registered[name] = embedder, FunctionEmbedder(embedder, name)
    else:
        raise ParameterError(
            "an embedder is a name such as minilm, a function from texts to vectors, or an object with `identity` (an "
            "`EmbedderIdentity`) and `embed`; got "
            f"{f'the class {embedder.__name__}' if isinstance(embedder, type) else type(embedder).__name__}"
        )
    return name


def find(name: str) -> Embedder:
    """The embedder of a name behind `python:`; a function that gives other vectors by now is another embedder.

    Raises:
        ParameterError: none was given under it.
        ModelError: the function fails.
    """
    full_name = f"{KIND}:{name}"
    if full_name not in _registered:
        raise ParameterError(
            f"no embedder {full_name!r} was given in this process{suggest(full_name, _registered)}; "
            "give the function itself to ctxbench.pipeline, evaluate or select"
        )
    embedder = _registered[full_name][1]
    if isinstance(embedder, FunctionEmbedder):
        embedder.look_again()
    return embedder


class FunctionEmbedder:
    """A function as an embedder: `function(texts)` returns an array of shape (n_texts, n_dimensions).

    It is called with lists of at most `BATCH` texts. Vectors are brought to unit length; one that is 0, NaN or
    infinite is an error that names its text.

    Attributes:
        store: its vectors, in memory: nobody knows whether the function of another process is the same.
    """

    def __init__(self, function: Function, name: str) -> None:
        self._function = function
        self._name = name
        self._begin()

    def _begin(self) -> None:
        """Forget what the function gave before."""
        self._dimensions = 0
        self._probe = self._called([_PROBE])[0]
        self._dimensions = len(self._probe)
        # another revision each time: answers that a run folder keeps may be of another function of this name
        self.identity = EmbedderIdentity(self._name, secrets.token_hex(8), "python", "float32", self._dimensions)
        self.store: Store = _MemoryStore(self.identity)

    def look_again(self) -> None:
        """Begin anew where the function gives another vector than before, as a model does that was trained further."""
        before, self._dimensions = self._dimensions, 0
        vector = self._called([_PROBE])[0]
        self._dimensions = before
        if vector.shape != self._probe.shape or np.abs(vector - self._probe).max() > _SAME:
            self._begin()

    def embed(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Float32Array:
        """Embed texts; see `Embedder.embed`. That a row depends on its text alone is up to the function."""
        vectors = np.zeros((len(texts), self._dimensions), dtype=np.float32)
        for first in range(0, len(texts), BATCH):
            part = list(texts[first : first + BATCH])
            part_vectors = self._called(part)
            for position, vector in enumerate(part_vectors, first):
                vectors[position] = vector
                if on_done is not None:
                    on_done(position, vectors[position])
        return vectors

    def _called(self, texts: list[str]) -> Float32Array:
        """Unit vectors of texts.

        Raises:
            ModelError: the function raises, or returns something else.
        """
        n = len(texts)
        expected = f"(n_texts, {self._dimensions or 'n_dimensions'}), here ({n}, {self._dimensions or '...'})"
        try:
            vectors = np.asarray(self._function(list(texts)), dtype=np.float64)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            message = f"embedder {self._name!r} failed on {n} texts, the first {texts[0]!r:.60}: {reason}"
            raise ModelError(f"{message}; it must return an array of numbers of shape {expected}") from error
        if (
            vectors.ndim != 2
            or len(vectors) != n
            or not vectors.shape[1]
            or vectors.shape[1] != (self._dimensions or vectors.shape[1])
        ):
            raise ModelError(
                f"embedder {self._name!r} returned an array of shape {vectors.shape} for {n} texts; expected {expected}"
            )
        length = np.linalg.norm(vectors, axis=1)
        wrong = np.flatnonzero(~(np.isfinite(length) & (length > 0)))
        if len(wrong):
            position = int(wrong[0])
            message = "has no length" if length[position] == 0 else "holds NaN or infinity"
            raise ModelError(f"embedder {self._name!r}: the vector of text {texts[position]!r:.60} {message}")
        return np.asarray(vectors / length[:, None], dtype=np.float32)


class _MemoryStore:
    """Vectors in memory; see `Store`."""

    writable = True
    path = Path("memory")

    def __init__(self, identity: EmbedderIdentity) -> None:
        self.identity = identity
        self._vectors: dict[bytes, Float32Array] = {}

    def look_up(self, texts: Sequence[str]) -> tuple[BoolArray, Float32Array]:
        """See `Store.look_up`."""
        stored = [self._vectors.get(text_hash(text)) for text in texts]
        is_stored = np.array([vector is not None for vector in stored], dtype=np.bool_)
        vectors = np.zeros((len(texts), self.identity.dimensions), dtype=np.float32)
        for row, vector in enumerate(stored):
            if vector is not None:
                vectors[row] = vector
        return is_stored, vectors

    def add(self, texts: Sequence[str], vectors: Float32Array) -> None:
        """See `Store.add`; of all functions, those that were given first forget theirs where there are too many."""
        self._vectors.update((text_hash(text), row.copy()) for text, row in zip(texts, vectors, strict=True))
        with _lock:
            stores = [embedder.store for _, embedder in _registered.values() if isinstance(embedder, FunctionEmbedder)]
            for store in stores:
                if store is not self and sum(map(_size, stores)) > _LIMIT:
                    cast("_MemoryStore", store).forget()

    def forget(self) -> None:
        """Drop all vectors; they are made again where they are needed."""
        self._vectors = {}

    def __len__(self) -> int:
        return len(self._vectors)


def _size(store: Store) -> int:
    """The bytes of the vectors in memory."""
    return 4 * store.identity.dimensions * len(cast("_MemoryStore", store))
