"""Vectors and token counts from a baseline, so that unchanged texts need neither a model nor a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ctxbench.core.arrays import BoolArray, Float32Array, IntArray
from ctxbench.core.errors import InputError, StorageError
from ctxbench.embedding.embedder import Embedder, EmbedderIdentity, ModelError
from ctxbench.embedding.vectors import Store, Vectors, VectorStore
from ctxbench.gate.baseline_layout import MANIFEST, VECTORS, accept_command, file_hash
from ctxbench.gate.baseline_reader import read_manifest
from ctxbench.gate.snapshots import SelectorSnapshot, content_hash
from ctxbench.gate.vectors_file import StoredVectors, damaged, read_vectors
from ctxbench.index.resources import LocalResources
from ctxbench.io.files import read_bytes
from ctxbench.text.tokens import TokenCounter

if TYPE_CHECKING:
    from ctxbench.bench.prepared import Prepared  # slow to import


class BaselineStore:
    """The vectors of a baseline over this machine's store, which is opened only for texts that the baseline lacks.

    Args:
        first: of the baseline.
        then: this machine's; new vectors go there.

    Raises:
        ValueError: the two are of different embedders, or of vectors of different lengths.
    """

    def __init__(self, first: StoredVectors, then: Store) -> None:
        lengths = first.vectors.shape[1], then.identity.dimensions
        if first.embedder != then.identity.key or lengths[0] != lengths[1]:
            of = f"{first.embedder} ({lengths[0]} numbers)"
            raise ValueError(f"vectors of {of} cannot stand over those of {then.identity.key} ({lengths[1]} numbers)")
        self._first = first
        self._then = then

    @property
    def identity(self) -> EmbedderIdentity:
        """The identity of the embedder."""
        return self._then.identity

    @property
    def path(self) -> Path:
        """The path of this machine's store."""
        return self._then.path

    @property
    def writable(self) -> bool:
        """Whether this machine's store can be written."""
        return self._then.writable

    def look_up(self, texts: Sequence[str]) -> tuple[BoolArray, Float32Array]:
        """See `Store.look_up`."""
        found, vectors = self._first.look_up(texts)
        missing = np.flatnonzero(~found).tolist()
        if missing:
            found[missing], vectors[missing] = self._then.look_up([texts[place] for place in missing])
        return found, vectors

    def add(self, texts: Sequence[str], vectors: Float32Array) -> None:
        """See `Store.add`."""
        self._then.add(texts, vectors)


class GateVectors(Vectors):
    """Vectors that keep those asked for, and explain what to do where a text is new and no model is there.

    Args:
        embedder, store, progress: as for `Vectors`.
        lacking: why a baseline has no vector of a text, for messages.
        last: vectors to take where neither the store nor the model has any.
    """

    def __init__(
        self,
        embedder: Embedder,
        store: Store,
        *,
        lacking: str,
        last: StoredVectors | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        super().__init__(embedder, store, progress=progress)
        self.vectors_by_text: dict[str, Float32Array] = {}
        self._lacking = lacking
        self._last = last

    def get(self, texts: Sequence[str]) -> Float32Array:
        """See `Vectors.get`."""
        try:
            vectors = super().get(texts)
        except ModelError as error:
            if self._last is not None:
                last, self._last = self._last, None
                self._memory.update((key, last.vectors[row]) for key, row in last.rows.items())
                return self.get(texts)
            distinct = list(dict.fromkeys(texts))
            new = len(distinct) - int(self._look_up(distinct)[0].sum())
            what = f"{new} text{'s have' if new > 1 else ' has'} no vector ({self._lacking})"
            raise ModelError(
                f"{what}, and the model that would make them cannot be used: {error}. "
                f"Write the vectors on a machine that has the model ({accept_command('--vectors')}) and commit them, "
                "or install the model here"
            ) from error
        self.vectors_by_text.update(zip(texts, vectors, strict=True))
        return vectors


class GateResources(LocalResources):
    """The resources of a check: vectors and token counts.

    Attributes:
        vectors_by_text: the vectors that were asked for so far: what `write_baseline` stores.
    """

    def __init__(self, vectors: GateVectors, counter: TokenCounter) -> None:
        super().__init__(vectors, counter)
        self.vectors_by_text: Mapping[str, Float32Array] = vectors.vectors_by_text


def gate_resources(
    prepared: Prepared,
    folder: Path,
    *,
    accepting: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> GateResources:
    """Make resources whose vectors come from a baseline, then from this machine's store, then from the model.

    Where a baseline is accepted, they come from this machine's store or the model, and from the baseline so far only
    where neither is there: what someone else put beside it would else go on unseen.

    Vectors of another model than the experiment's are not used: a model is under test like anything else.

    Args:
        prepared: the experiment.
        folder: of the baseline; neither it nor vectors in it need be there.
        accepting: the baseline is about to be written anew: its vectors come last, and are passed over where they
            cannot be used.
        progress: as for `Vectors`.

    Raises:
        StorageError: the vectors are damaged, or not those that were accepted.
        InputError: `baseline.json` beside them is damaged.
    """
    own = VectorStore(prepared.embedder.identity)
    stored = _usable_vectors(folder, own.identity, accepting=accepting)
    store: Store = own
    last: StoredVectors | None = None
    if stored is None:
        lacking = f"{folder} has no {VECTORS}"
    elif stored.embedder != own.identity.key:
        lacking = f"{folder / VECTORS} is of {stored.embedder}, the experiment's model is {own.identity.key}"
    else:
        if accepting:
            last = stored
        else:
            store = BaselineStore(stored, own)
        lacking = f"new since {folder / VECTORS} was written"
    vectors = GateVectors(prepared.embedder, store, lacking=lacking, last=last, progress=progress)
    return GateResources(vectors, prepared.counter)


def _usable_vectors(folder: Path, identity: EmbedderIdentity, *, accepting: bool) -> StoredVectors | None:
    path = folder / VECTORS
    if not path.exists():
        return None
    try:
        stored = accepted_vectors(folder)
        length = stored.vectors.shape[1]
        if stored.embedder == identity.key and length != identity.dimensions:
            raise damaged(path, f"vectors of {length} numbers, the model's have {identity.dimensions}")
    except (StorageError, InputError):
        if accepting:
            return None
        raise
    return stored


def accepted_vectors(folder: Path) -> StoredVectors:
    """The vectors beside a baseline, which must be those that were accepted with it.

    Args:
        folder: of the baseline, with a file of vectors.

    Raises:
        StorageError: they are damaged, or others than those whose hash `baseline.json` has.
        InputError: `baseline.json` is damaged.
    """
    path = folder / VECTORS
    stored = read_vectors(path)
    if read_manifest(folder).get("vectors") != file_hash(read_bytes(path)):
        what = f"{path} is not the file that was accepted: {MANIFEST} has another hash of it, or none"
        raise StorageError(f"{what}; bring both back from git, or accept again ({accept_command('--vectors')})")
    return stored


class BaselineCounter:
    """A token counter that counts only what has no count in a baseline.

    Args:
        counter: counts the rest.
        counts: tokens by (item id, hash of its prompt text), by this counter.
    """

    def __init__(self, counter: TokenCounter, counts: Mapping[tuple[str, str], int]) -> None:
        self._counter = counter
        self._counts = counts

    @property
    def name(self) -> str:
        """The name of the counter."""
        return self._counter.name

    def count(self, ids: Sequence[str], texts: Sequence[str]) -> IntArray:
        """Count; see `TokenCounter.count`."""
        if len(ids) != len(texts):
            raise ValueError(f"as many ids as texts are needed, got {len(ids)} and {len(texts)}")
        known = [self._counts.get((name, content_hash(text)), -1) for name, text in zip(ids, texts, strict=True)]
        found = np.array(known, dtype=np.int64)
        missing = np.flatnonzero(found < 0).tolist()
        if missing:
            found[missing] = self._counter.count([ids[place] for place in missing], [texts[place] for place in missing])
        return found


def baseline_counts(snapshots: Iterable[SelectorSnapshot]) -> Callable[[TokenCounter], TokenCounter]:
    """Make the argument `counting` of `prepare`: a counter that takes counts of items from the baseline."""
    by_counter: dict[str, dict[tuple[str, str], int]] = {}
    for one in snapshots:
        counts = by_counter.setdefault(one.identity.tokens, {})
        held = (*one.items.values(), *one.disabled.values())
        counts.update(((item.id, item.prompt), item.tokens) for item in held if item.prompt)

    def counting(counter: TokenCounter) -> TokenCounter:
        counts = by_counter.get(counter.name)
        return BaselineCounter(counter, counts) if counts else counter

    return counting
