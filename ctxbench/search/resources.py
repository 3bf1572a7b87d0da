"""Resources that strategies use: vectors, token counts, text indexes, language models and plugins."""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
import queue
import re
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, cast

import numpy as np

from ctxbench.io.cache import read_sealed, write_sealed
from ctxbench.io.errors import Message, ParameterError, UnknownNameError, raise_first
from ctxbench.io.files import cache_dir
from ctxbench.io.http import OpenAIServer, RefusedError, ServerError
from ctxbench.model import registry
from ctxbench.model.arrays import BoolArray, Float32Array, IntArray
from ctxbench.model.items import TEXT_FIELDS, Catalog, Item
from ctxbench.model.resources import (
    EMBEDDER,
    INDEX,
    IndexFields,
    Resources,
    TextKind,
    WithinResources,
    kind_of,
    row_over,
)
from ctxbench.search.dense import DenseIndex
from ctxbench.search.embedders import (
    Embedder,
    Vectors,
    VectorStats,
    VectorStore,
    open_embedder,
    open_vectors,
    text_hash,
)
from ctxbench.search.tokens import FileCounter, TokenCounter
from ctxbench.search.vector_files import BYTES, AnnIndex, DeviceProducts, Proposer, VectorFiles, ann_identity
from ctxbench.search.words import TextIndex

T = TypeVar("T")


class TextVectors:
    """The resource `embedder`: a function from texts and their kind to unit vectors, shape (n_texts, n_dimensions)."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._lock = threading.Lock()  # `Vectors` is for one thread at a time

    @property
    def identity(self) -> str:
        """Model, revision, backend, quantisation and prompts."""
        return self._vectors.identity.key

    @property
    def dimensions(self) -> int:
        """Length of a vector; known without loading the model."""
        return self._vectors.identity.dimensions

    @property
    def folder(self) -> Path | None:
        """Where files of many vectors are kept; see `Vectors.folder`."""
        return self._vectors.folder

    def value(self, texts: Sequence[str], *, kind: TextKind = "query") -> Float32Array:
        """See `Vectors.get`; from several threads one waits for the other."""
        with self._lock:
            return self._vectors.get(texts, kind=kind)


class _Itself:
    """A resource that is its own value."""

    @property
    def value(self) -> Self:
        """Itself."""
        return self


class TokenCounts(_Itself):
    """The resource `tokens`: a function from a catalog to the prompt tokens of its items, shape (n_items,).

    What is counted is carried on where a catalog is extended. A file of counts is asked for all items at once, so that
    what it lacks is reported whichever are needed first.
    """

    def __init__(self, counter: TokenCounter, resources: Resources) -> None:
        self._counter, self._resources = counter, resources

    @property
    def identity(self) -> str:
        """The name of the counter."""
        return self._counter.name

    def texts(self, texts: Sequence[str]) -> IntArray:
        """See `Resources.text_tokens`."""
        if self._counter.name.startswith(FileCounter.prefix):
            raise ParameterError(
                f"{self._counter.name} counts whole items only; a step that shows parts of items, or counts a whole "
                "prompt, needs a counter of texts: o200k, cl100k or chars/4"
            )
        return np.array(self._counter.count(["" for _ in texts], texts))

    def __call__(self, catalog: Catalog, items: IntArray | None = None) -> IntArray:
        """See `Resources.tokens`; read-only."""
        required = None if self._counter.name.startswith(FileCounter.prefix) else items
        return row_over(catalog, self._resources, "tokens", over=TEXT_FIELDS, make=self._count, items=required)

    def _count(self, items: Sequence[Item]) -> IntArray:
        return np.array(self._counter.count([item.id for item in items], [item.prompt_text for item in items]))


class TextIndexes:
    """The resource `text_index:NAME`, a `TextIndex`: `fts5`, in this process, or `postgres` (`CTXBENCH_POSTGRES`)."""

    def __init__(self, _resources: Resources, model: str = "") -> None:
        if model not in ("fts5", "postgres"):
            raise UnknownNameError("text index", model, ("fts5", "postgres"))
        self.identity = model  # rows follow from the items, wherever they are stored

    @property
    def value(self) -> TextIndex:
        """The index, opened.

        Raises:
            TextIndexError: it cannot be had; says why, and what to do.
        """
        from ctxbench.search.text_index import Fts5Index, PostgresIndex

        return Fts5Index() if self.identity == "fts5" else PostgresIndex()


class IndexSearch(_Itself):
    """The resource `index`: proposes chunks to a search by best pairs, as an experiment's `index` says.

    Attributes:
        identity: library, version and parameters of an approximate index; empty where search is exact, on any device.
        approximate: whether it is.
    """

    def __init__(self, fields: IndexFields) -> None:
        """Take the fields; nothing is built.

        Raises:
            ParameterError: a library is not installed, or there is no GPU.
        """
        self._library, self._device = fields.ann, "cuda" if fields.device == "cuda" else ""
        self.approximate = bool(fields.ann)
        self.identity = ann_identity(fields.ann) if fields.ann else ""
        raise_first(
            (fields.ann and self._device, Message("search.ann-on-device", library=fields.ann)),
            (self._device and not _sees_gpu(), Message("search.no-gpu")),
        )

    def proposer(self, index: DenseIndex) -> Proposer | None:
        """What proposes chunks of a dense index, made once; None where all are compared by NumPy."""
        if self._library:
            return index.get_or_compute(INDEX, lambda matrix: AnnIndex.of(matrix, self._library))
        return (
            index.get_or_compute(INDEX, lambda matrix: DeviceProducts(matrix, self._device)) if self._device else None
        )


def _sees_gpu() -> bool:
    """Whether PyTorch is installed and sees a GPU."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


class ExactSearch(WithinResources):
    """Resources without an approximate index: what its answers are compared with."""

    def get(self, name: str) -> Any:
        """As `Resources.get`."""
        return IndexSearch(IndexFields()) if name == INDEX else super().get(name)


class LocalResources(Resources):
    """Resources of one process: everything is made at first use and kept as long as this object lives.

    `embedder` is the one that it is made with; `embedder:NAME` is the one that `open_embedder` knows by that name.

    Attributes:
        mapped_from: bytes of vectors of one catalog from which they are kept in files; where no `index` is given, and
            so what is stored may have to be forgotten, all are in memory.
    """

    def __init__(self, vectors: Vectors, counter: TokenCounter, *, index: IndexFields | None = None) -> None:
        self.index = index or IndexFields()
        self.mapped_from = math.inf if index is None else BYTES
        self._vectors = [vectors]
        self._values: dict[Hashable, Any] = {}
        self._lock = threading.Lock()
        self._making: dict[Hashable, Any] = {}  # a lock for each value, so that one waits for no other
        self._named: dict[str, Any] = {
            "embedder": TextVectors(vectors),
            INDEX: IndexSearch(self.index),
            "tokens": TokenCounts(counter, self),
        }

    @property
    def stats(self) -> VectorStats:
        """How many texts were embedded and how many found in the store, by whatever embedder."""
        return sum((vectors.stats for vectors in self._vectors), VectorStats())

    def note_texts(self) -> None:
        """From now on, note of what texts vectors are taken, for `noted_vectors`."""
        for vectors in self._vectors:
            vectors.noted = set()

    def noted_vectors(self, queries: Sequence[str]) -> bytes:
        """The stored vectors of noted texts and of `queries`, by every embedder; nothing is noted any more."""
        parts = []
        for vectors in self._vectors:
            noted, vectors.noted = vectors.noted or set(), None
            texts = sorted({*noted, *vectors.identity.stored_texts(queries, "query")})
            is_stored, rows = vectors.look_up(texts)
            parts.append((vectors.identity, list(itertools.compress(texts, is_stored)), rows[is_stored]))
        return pickle.dumps(parts)

    def stored_vectors(self, texts: Sequence[str]) -> BoolArray:
        """Of which texts of items there are vectors, shape (n_texts,); nothing is embedded."""
        return self._vectors[0].stored(texts, kind="item")

    def get(self, name: str) -> Any:
        """The value of a resource, made at the first call; see `Resources.get`."""
        resource = self._resource(name)
        with registry.of_plugin("resource", kind_of(name), "made"):
            return self.get_or_create(("resource", name), lambda: resource.value)

    def identity(self, name: str) -> str:
        """What a resource is; see `Resources.identity`."""
        resource = self._resource(name)
        with registry.of_plugin("resource", kind_of(name), "asked for its identity"):
            return str(resource.identity)

    def vector_files(self, embedder: str) -> VectorFiles | None:
        """Where many vectors are kept; see `Resources.vector_files`."""
        resource = self._resource(embedder)
        if self.mapped_from == math.inf or not isinstance(resource, TextVectors) or resource.folder is None:
            return None
        n_in_memory = int(self.mapped_from // (4 * resource.dimensions))
        return VectorFiles(resource.folder, resource.identity, self.index.vectors, n_in_memory)

    def get_or_create(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what was made under `key`, making it at the first call; other threads wait for what one makes."""
        if key not in self._values:
            with self._lock:
                making = self._making.setdefault(key, threading.RLock())
            with making:
                if key not in self._values:
                    self._values[key] = make()
        return cast("T", self._values[key])

    def _resource(self, name: str) -> Any:
        if name not in self._named and name != EMBEDDER == kind_of(name):
            model = open_embedder(name.partition(":")[2])
            self._vectors.append(open_vectors(model, progress=self._vectors[0].progress))
            self._named[name] = TextVectors(self._vectors[-1])
        elif name not in self._named:
            kind, _, argument = name.partition(":")
            factory = registry.find("resource", kind)
            with registry.of_plugin("resource", kind, "made"):
                self._named[name] = factory(self, argument) if argument else factory(self)
        return self._named[name]


def add_vectors(data: bytes) -> None:
    """Add what `LocalResources.noted_vectors` gave to the stores of this machine, where it lacks them."""
    for identity, texts, vectors in pickle.loads(data):  # noqa: S301 - published by the caller
        with VectorStore(identity) as store:
            is_missing = ~store.look_up(texts)[0]
            if store.writable and is_missing.any():
                store.add(list(itertools.compress(texts, is_missing)), vectors[is_missing])


def local_resources(
    embedder: Embedder,
    counter: TokenCounter,
    *,
    progress: Callable[[int, int], None] | None = None,
    index: IndexFields | None = None,
) -> LocalResources:
    """Resources over the vector store of this machine; no model is loaded."""
    return LocalResources(open_vectors(embedder, progress=progress), counter, index=index)


ChatMessage: TypeAlias = Mapping[str, str]  # role and content


AT_ONCE = 4  # requests on their way at one time
_MOST_TOKENS = 10**9  # of one exchange
FAILURES = 3  # after which a server is taken to be gone


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a model replied.

    Attributes:
        text: its message; empty where it gave none.
        sent, received: tokens of what it was sent and of what it replied, as the server counts them; NaN where the
            server does not say.
        seconds: how long the exchange took when the model was asked.
    """

    text: str
    sent: float
    received: float
    seconds: float


class ChatModel(_Itself):
    """The resource `chat:MODEL`: a model behind `POST <address>/chat/completions`.

    `OpenAIServer` describes how the server is found and asked. Up to `AT_ONCE` requests are on their way at one time.
    Every usable reply is kept in the cache under a hash of address, model and messages, and is used again, so that a
    run can be stopped, goes on, and repeats; to ask anew, delete the folder `chat` in the cache. No reply has the key.

    Args:
        model: as the server calls it, such as `gpt-5-mini`.
        timeout: seconds for an exchange.
        tries: of a request, >= 1.
        pause: seconds before the second try, doubled each time.

    Raises:
        ParameterError: the address is none.
    """

    def __init__(
        self, _resources: Resources, model: str, *, timeout: float = 120.0, tries: int = 6, pause: float = 0.5
    ) -> None:
        self._model, self._pause = model, pause
        self._server = self._opened(timeout, tries)
        self._counts: dict[str, float] = {}
        self._lock = threading.Lock()

    @property
    def identity(self) -> str:
        """The model and where it is asked."""
        return (
            f"{self._model} at {self._server.address.display} ({text_hash(self._server.address.endpoint).hex()[:12]})"
        )

    def limited(self, *, seconds: float, tries: int) -> ChatModel:
        """The same model, with other limits of an exchange; what is asked of it counts here."""
        model = copy.copy(self)
        model._server = self._opened(seconds, tries)  # noqa: SLF001 - of its own class
        return model

    def __call__(
        self,
        conversations: Sequence[Sequence[ChatMessage]],
        *,
        schema: Mapping[str, Any] | None = None,
        alone: bool = False,
        is_usable: Callable[[int, str], bool] = lambda _, __: True,
    ) -> list[ModelReply | ServerError]:
        """Ask for the next message of each conversation.

        Args:
            conversations: the messages of each so far.
            schema: of JSON, to which a server that can holds the reply; OpenAI-compatible ones are not told, as they
                differ in it.
            alone: what fails is returned as a refusal is, and fails no other; after `FAILURES` of them the others are
                not asked, but given the last one.
            is_usable: whether the text of a reply to the conversation at an index is an answer. Another one is
                returned, but not kept; if it is in the cache, the server is asked again.

        Returns:
            In their order, a reply or why the server refused this one; empty in, empty out.

        Raises:
            ServerError: there is no answer, whatever is asked, or one that cannot be read. Replies that came before
                are kept.
        """
        paths = [self._path(conversation, schema) for conversation in conversations]
        index_of = {path: index for index, path in enumerate(paths)}  # equal ones are asked once, as one after another
        replies: dict[Path, ModelReply | ServerError] = {
            path: stored
            for path, index in index_of.items()
            if (stored := _stored_reply(path)) is not None and is_usable(index, stored.text)
        }
        missing = [path for path in index_of if path not in replies]
        self._count(model_replies_kept=len(paths) - len(missing))
        failed: list[ServerError] = []

        def ask(position: int) -> ModelReply | ServerError:
            if len(failed) >= FAILURES:
                return failed[-1]
            try:
                index = index_of[missing[position]]
                reply = self._send(self._body(conversations[index], schema))
            except ServerError as error:
                if not alone:
                    raise
                failed.append(error)
                return error
            if isinstance(reply, ModelReply) and is_usable(index, reply.text):
                write_sealed(missing[position], json.dumps(asdict(reply)).encode())
            return reply

        replies |= {missing[index]: reply for index, reply in _ask_in_threads(range(len(missing)), ask)}
        return [replies[path] for path in paths]

    def take_notes(self) -> dict[str, Any]:
        """What was asked since the last call, as whole numbers; empty if nothing was."""
        with self._lock:
            counts = dict(self._counts)
            self._counts.clear()  # of its copies, too
        return {name: round(value) for name, value in counts.items() if value}

    def _count(self, **values: float) -> None:
        with self._lock:
            for name, value in values.items():
                self._counts[name] = self._counts.get(name, 0.0) + (0.0 if math.isnan(value) else value)

    def _opened(self, timeout: float, tries: int) -> OpenAIServer:
        """The server that is asked."""
        return OpenAIServer(
            self._model, "chat/completions", returns="replies", timeout=timeout, tries=tries, pause=self._pause
        )

    def _body(self, conversation: Sequence[ChatMessage], schema: Mapping[str, Any] | None) -> dict[str, Any]:  # noqa: ARG002
        """What is posted for a conversation."""
        return {"model": self._model, "messages": [dict(message) for message in conversation]}

    def _path(self, conversation: Sequence[ChatMessage], schema: Mapping[str, Any] | None) -> Path:
        """Where a reply is kept."""
        parts = [self._server.address.endpoint, self._model, [dict(message) for message in conversation]]
        name = text_hash(json.dumps(parts if schema is None else [*parts, schema], sort_keys=True)).hex()
        return cache_dir() / "chat" / name[:2] / f"{name}.json"

    def _send(self, body: Mapping[str, Any]) -> ModelReply | RefusedError:
        begin = time.perf_counter()
        try:
            answer = self._server.post(body)
        except RefusedError as error:
            self._count(model_requests=1, model_requests_refused=1)
            return error
        seconds = time.perf_counter() - begin
        reply = ModelReply(self._server.hide(self._text(answer)), *self._usage(answer), seconds)
        self._count(
            model_requests=1,
            model_tokens_sent=reply.sent,
            model_tokens_received=reply.received,
            model_milliseconds=1000 * seconds,
        )
        return reply

    def _text(self, body: Any) -> str:
        """The text of the first choice; a refusal of the model's own has none."""
        try:
            content = body["choices"][0]["message"].get("content")
        except (LookupError, TypeError, AttributeError):
            raise ServerError(
                f"{self._server.who} returned no message; expected {{choices: [{{message: ...}}]}}, got "
                f"{self._server.error_text(body)}"
            ) from None
        parts = content if isinstance(content, list) else [content]
        texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
        return "".join(text for text in texts if isinstance(text, str))

    def _usage(self, body: Any) -> tuple[float, float]:
        """Tokens sent and received, as the server says."""
        counts = usage if isinstance(usage := body.get("usage"), dict) else {}
        return token_count(counts.get("prompt_tokens")), token_count(counts.get("completion_tokens"))


def _stored_reply(path: Path) -> ModelReply | None:
    """The reply that is in the cache; None where there is none, or what is there is none."""
    try:
        reply = ModelReply(**json.loads(read_sealed(path) or b"null"))
    except (TypeError, ValueError, RecursionError):
        return None
    numbers = (reply.sent, reply.received, reply.seconds)
    return reply if isinstance(reply.text, str) and all(type(number) is float for number in numbers) else None


def _ask_in_threads(indices: Sequence[int], ask: Callable[[int], T]) -> Iterator[tuple[int, T]]:
    """Yield (place, what it returns) as it comes, several asked at once; an error ends all that has not begun.

    The threads end with the process: one that waits for a server holds nothing up.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
    stop = threading.Event()
    for index in indices:
        waiting.put(index)

    def work() -> None:
        while not stop.is_set():
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((index, ask(index), None))
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                done.put((index, None, error))

    for _ in range(min(AT_ONCE, len(indices))):
        threading.Thread(target=work, name="ctxbench-chat", daemon=True).start()
    try:
        for _ in indices:
            index, value, error = done.get()
            if error is not None:
                raise error
            yield index, value
    finally:
        stop.set()


def token_count(value: Any) -> float:
    """A number of tokens, as a server says; NaN where it says none that can be."""
    return float(value) if type(value) is int and 0 <= value <= _MOST_TOKENS else math.nan


_PORT = 11434


class OllamaServer(OpenAIServer):
    """Posts to `<address>/<path>` as `OpenAIServer` does.

    The address is `OLLAMA_HOST`, which may leave out `http://` and the port; the key is `OLLAMA_API_KEY`, which a
    server of your own does not need.
    """

    variable: ClassVar[str] = "OLLAMA_HOST"
    key: ClassVar[str] = "OLLAMA_API_KEY"
    default: ClassVar[str] = f"http://localhost:{_PORT}"
    kind: ClassVar[str] = "an Ollama server"
    ends: ClassVar[str] = "without its /api"

    @classmethod
    def base(cls) -> str:
        """What the environment says, with the `http://` and the port that Ollama itself does not ask for."""
        body = super().base()
        port = "" if "://" in body or re.search(r":\d+(?:/|$)", body) else f":{_PORT}"
        return body if "://" in body else f"http://{body.rstrip('/')}{port}"


class OllamaModel(ChatModel):
    """The resource `ollama:MODEL`: a model behind `POST <address>/api/chat`, at temperature 0, not streamed.

    As `ChatModel` in all else; a schema is sent as `format`, and the server holds the reply to it.
    """

    def _opened(self, timeout: float, tries: int) -> OpenAIServer:
        return OllamaServer(self._model, "api/chat", returns="replies", timeout=timeout, tries=tries, pause=self._pause)

    def _body(self, conversation: Sequence[ChatMessage], schema: Mapping[str, Any] | None) -> dict[str, Any]:
        plain = {**super()._body(conversation, schema), "stream": False, "options": {"temperature": 0}}
        return plain if schema is None else {**plain, "format": schema}

    def _text(self, body: Any) -> str:
        message = body.get("message") if isinstance(body, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, str):
            raise ServerError(
                f"{self._server.who} returned no message; expected {{message: {{content: ...}}}}, got "
                f"{self._server.error_text(body)}"
            )
        return content

    def _usage(self, body: Any) -> tuple[float, float]:
        return token_count(body.get("prompt_eval_count")), token_count(body.get("eval_count"))
