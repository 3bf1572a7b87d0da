"""WordLlama: a table of vectors of word pieces, and their mean. Tens of times as fast as MiniLM, and coarser."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.core.arrays import Float32Array
from ctxbench.core.installation import install_command
from ctxbench.embedding.embedder import EmbedderIdentity, ModelError, OnDone, well_formed
from ctxbench.embedding.model_files import model_sha256, package_files
from ctxbench.embedding.onnx_graph import read_header

_MODEL = "dleemiller/word-llama-l2-supercat"
_TABLE = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_TENSOR = "embedding.weight"
_DIMENSIONS = 256
_WINDOW = 256  # texts that are tokenised before the next ones are looked at
_BLOCK = 4096  # word pieces that are added up at a time, so that a long text needs no more memory than a short one
_EXTRA = "wordllama"


class WordLlama:
    """The model `l2_supercat` with 256 dimensions, as the package wordllama ships it.

    Only the two files in the package are read, by tokenizers and numpy: the package is not imported, its code is not
    run (it sets up logging, and fetches the tokeniser although that lies beside it), and nothing is downloaded. A
    vector is the mean over a text's word pieces, which are looked up in a table: the order of words does not count, and
    no text is too long. An empty text has the vector of a blank.

    Licences: the package and its weights are MIT. The table was trained from the token embeddings of Llama 2 70B and
    Phi 3 medium, so look at Meta's licence of Llama 2, too, before you ship what is made with it.
    """

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._identity: EmbedderIdentity | None = None
        self._lock = threading.Lock()
        self._loaded: tuple[Float32Array, Any] | None = None

    @property
    def identity(self) -> EmbedderIdentity:
        """Who made the vectors. The two files are hashed, once (`file_sha256`).

        Raises:
            ModelError: the package is not installed, or holds other files.
        """
        if self._identity is None:
            hashes = "".join(model_sha256(path) for path in package_files(_EXTRA, "0.4", [_TABLE, _TOKENIZER]))
            self._identity = EmbedderIdentity(
                model=_MODEL,
                revision="files-" + hashlib.sha256(hashes.encode()).hexdigest()[:12],
                backend="ctxbench-mean1",  # counts up when the code below changes a vector
                quantisation="float16",
                dimensions=_DIMENSIONS,
            )
        return self._identity

    def embed(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Float32Array:
        """Embed texts; see `Embedder.embed`. Lone surrogates count as U+FFFD."""
        vectors = np.empty((len(texts), _DIMENSIONS), dtype=np.float32)
        for start in range(0, len(texts), _WINDOW):
            table, tokenizer = self._load()
            window = [well_formed(text) or " " for text in texts[start : start + _WINDOW]]
            for position, pieces in enumerate(tokenizer.encode_batch(window, add_special_tokens=False), start):
                vectors[position] = _mean(table, pieces.ids)
                if on_done is not None:
                    on_done(position, vectors[position])
        return vectors

    def _load(self) -> tuple[Float32Array, Any]:
        """Return (table, tokenizer), loading them the first time."""
        with self._lock:
            if self._loaded is None:
                table, tokenizer = package_files(_EXTRA, "0.4", [_TABLE, _TOKENIZER])
                self._loaded = _read_table(table), _read_tokenizer(tokenizer)
            return self._loaded


def _read_table(path: Path) -> Float32Array:
    """The vectors of all word pieces, shape (n_pieces, 256)."""
    wrong = f"{path} is no table of F16 vectors of {_DIMENSIONS} numbers; install it again: {_install_hint()}"
    try:
        tensor = read_header(path)[_TENSOR]
        table = np.fromfile(path, dtype="<f2", count=tensor.length // 2, offset=tensor.offset).reshape(tensor.shape)
    except Exception as error:  # a damaged header fails in many ways
        raise ModelError(wrong) from error
    if tensor.dtype != "F16" or table.shape[1:] != (_DIMENSIONS,) or not np.isfinite(table).all():
        raise ModelError(wrong)
    return table.astype(np.float32)


def _read_tokenizer(path: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        raise ModelError(
            f"{path} cannot be read as a tokeniser ({error}); install it again: {_install_hint()}"
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _mean(table: Float32Array, pieces: Sequence[int]) -> Float32Array:
    """The mean of word pieces in unit length; the first axis if they cancel out."""
    rows = np.minimum(np.array(pieces, dtype=np.intp), len(table) - 1)  # a piece without a row has the last, as theirs
    total = np.zeros(table.shape[1], dtype=np.float64)
    for start in range(0, len(rows), _BLOCK):
        total += table[rows[start : start + _BLOCK]].sum(axis=0, dtype=np.float64)
    length = float(np.sqrt(np.add.reduce(total * total)))
    if length == 0.0:
        total[0] = length = 1.0
    return (total / length).astype(np.float32)


def _install_hint() -> str:
    """The command that replaces damaged files of the package."""
    return install_command(_EXTRA, reinstall=True)
