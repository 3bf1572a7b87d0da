"""Any other model, by the library sentence-transformers (an extra, with PyTorch)."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.core.arrays import Float32Array
from ctxbench.core.installation import install_command
from ctxbench.embedding.embedder import EmbedderIdentity, ModelError, OnDone, well_formed
from ctxbench.embedding.model_files import file_sha256
from ctxbench.net.http_connection import offline

_EXTRA = "sentence-transformers"


class SentenceTransformerEmbedder:
    """A sentence-transformers model on the processor, in the precision of its weights.

    Texts are embedded one at a time by one thread, because padding and PyTorch's division of work among threads both
    change last bits. That is slower than the library's own batches; each text is embedded once and then stored.

    Args:
        model_name: folder of a model, or its name on the Hugging Face Hub; a name without owner is looked for under
            `sentence-transformers/`, as the library does.
        revision: branch, tag or commit on the Hub; None: what the Hub's cache holds, else the newest. The identity
            always has the commit.
    """

    def __init__(self, model_name: str, revision: str | None = None) -> None:
        local = Path(model_name).is_dir()
        self._name = model_name if local or "/" in model_name else f"sentence-transformers/{model_name}"
        self._local = Path(model_name).resolve() if local else None
        self._revision = revision
        self._identity: EmbedderIdentity | None = None
        self._model: Any = None

    @property
    def identity(self) -> EmbedderIdentity:
        """Who made the vectors. Read from the model's small files; its weights are not loaded.

        A local model is known by its folder's name and the content of its files, which are read once (`file_sha256`).

        Raises:
            ModelError: sentence-transformers is not installed, or there is no such model here and it cannot be fetched.
        """
        if self._identity is None:
            if importlib.util.find_spec("sentence_transformers") is None:
                raise ModelError(
                    f"the embedder 'st:{self._name}' needs sentence-transformers: {install_command(_EXTRA)}"
                )
            config = self._file("config.json")
            self._identity = EmbedderIdentity(
                model=self._local.name if self._local else self._name,
                revision=_fingerprint(self._local) if self._local else config.parent.name,
                backend="sentence-transformers",
                quantisation=str(_read(config).get("torch_dtype") or "float32"),
                dimensions=self._dimensions(),
            )
        return self._identity

    def embed(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Float32Array:
        """Embed texts; see `Embedder.embed`. Lone surrogates count as U+FFFD."""
        dimensions = self.identity.dimensions
        vectors = np.empty((len(texts), dimensions), dtype=np.float32)
        if not texts:
            return vectors
        model = self._load()
        with _one_thread():
            for position, text in enumerate(texts):
                vector = model.encode(well_formed(text), show_progress_bar=False).astype(np.float64)
                if vector.shape != (dimensions,):
                    raise ModelError(f"{self._name} makes vectors of {len(vector)} numbers, its files say {dimensions}")
                with np.errstate(invalid="ignore"):  # a zero vector becomes NaN, which is refused where it is stored
                    vectors[position] = vector / np.sqrt(vector @ vector)
                if on_done is not None:
                    on_done(position, vectors[position])
        return vectors

    def _load(self) -> Any:
        if self._model is None:
            folder = self._local or self._name
            revision = None if self._local else self.identity.revision
            from sentence_transformers import SentenceTransformer

            try:
                self._model = SentenceTransformer(
                    str(folder), revision=revision, device="cpu", local_files_only=offline()
                )
            except Exception as error:
                raise ModelError(f"{folder} cannot be loaded by sentence-transformers: {error}") from error
        return self._model

    def _dimensions(self) -> int:
        """Length of a vector: of the last dense layer if there is one, else the network's width."""
        width = _read(self._file("config.json")).get("hidden_size")
        modules = _read(self._file("modules.json"))
        for module in modules if isinstance(modules, list) else ():
            if str(module.get("type", "")).endswith(".Dense"):
                width = _read(self._file(f"{module['path']}/config.json")).get("out_features")
        if not isinstance(width, int):
            raise ModelError(f"{self._name} does not say how long its vectors are (hidden_size in its config.json)")
        return width

    def _file(self, name: str) -> Path:
        """Place of one small file of the model, fetched if need be."""
        if self._local:
            if not (self._local / name).is_file():
                raise ModelError(f"{self._local} is not the folder of a sentence-transformers model: no {name} in it")
            return self._local / name
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import LocalEntryNotFoundError

        try:
            with contextlib.suppress(LocalEntryNotFoundError):
                return Path(hf_hub_download(self._name, name, revision=self._revision, local_files_only=True))
            return Path(hf_hub_download(self._name, name, revision=self._revision, local_files_only=offline()))
        except Exception as error:
            raise ModelError(
                f"no {name} of the model {self._name!r} on this machine, and it could not be fetched: {error}. "
                "Give the name of a sentence-transformers model on the Hugging Face Hub, or its folder"
            ) from error


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is not JSON: {error}") from error


def _fingerprint(folder: Path) -> str:
    """The beginning of a hash over names and contents of the files of a local model, hidden ones left out."""
    try:
        files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        hashes = sorted((name, file_sha256(path)) for name, path in files.items() if "/." not in f"/{name}")
    except OSError as error:
        raise ModelError(f"the model in {folder} cannot be read: {error}") from error
    return "files-" + hashlib.sha256(json.dumps(hashes).encode()).hexdigest()[:12]


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let PyTorch calculate with one thread, and give it back its number of threads afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
