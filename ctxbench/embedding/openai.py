"""Any model behind an OpenAI-compatible address: the one of OpenAI, of another provider, or of a server of your own."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from ctxbench.cache import cache_dir, read_sealed, write_sealed
from ctxbench.core.arrays import Float32Array, FloatArray
from ctxbench.core.errors import EmbeddingError, ParameterError
from ctxbench.embedding.base import EmbedderIdentity, ModelError, OnDone, well_formed
from ctxbench.embedding.weights import offline
from ctxbench.http_connection import (
    Connection,
    LogFilter,
    Response,
    TooLongError,
    environment_fault,
    is_this_machine,
    seconds_asked,
)
from ctxbench.httpio import BODY_LIMIT
from ctxbench.secrets import Secrets, secrets_in_url, shown_text, shown_url
from ctxbench.visible import one_line

ADDRESS = "https://api.openai.com/v1"
_ADDRESS, _KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"
_TEXTS = 64  # of a request, at most
_CHARACTERS = 60_000  # of a request of more than one text
_LONGEST_WAIT_S = 60.0
_TRY_AGAIN = (408, 409, 425, 429)  # and all from 500 on
_REFUSED = (400, 413, 422)  # a text, or so many texts at once
_SHOWN = 200  # characters of what a server says
_FIRST = "dimensions"  # the text by which the length of vectors is learned
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is asked.

    Attributes:
        url: to which texts are posted.
        shown: the base as a message may show it: without what looks like a key in its path.
        host: its host.
        place: host, port and path, which tell servers apart.
    """

    url: str
    shown: str
    host: str
    place: str


class OpenAIEmbedder:
    """A model behind `POST <address>/embeddings`.

    The address is `OPENAI_BASE_URL` (https://api.openai.com/v1 by default), the key `OPENAI_API_KEY`, which a server of
    your own may not need. The key is sent to that address and nowhere else; it stands in no message, log, identity or
    file. The environment's proxies are used for all but this machine. Where `CTXBENCH_OFFLINE` or `HF_HUB_OFFLINE`
    forbids the network, only a server on this machine is asked.

    Texts go out in requests of at most 64, one after the other; of fewer where the server refuses so many. A request
    that fails for the moment (408, 409, 425, 429, 5xx, no connection, no answer in time) is tried again, after a pause
    that doubles, or that the server asks for; where it asks for more than a minute, that is an error.

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
        self._timeout, self._tries, self._pause = timeout, tries, pause
        self._address = _address(os.environ.get(_ADDRESS, "").strip() or ADDRESS)
        self._identity: EmbedderIdentity | None = None
        self._connection: Connection | None = None
        self._secrets: Secrets | None = None
        self._has_key = False
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
                    revision=f"address-{_digest(self._address.place)}",
                    backend=f"openai-compatible {self._address.shown.partition('://')[2]}",
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
    def _who(self) -> str:
        """Model and address as a message names them."""
        return f"model {one_line(self._model)!r} at {self._address.shown}"

    @property
    def _remembered(self) -> Path:
        """The file that keeps the length of vectors."""
        return cache_dir() / "openai" / f"{_digest(self._address.place, self._model)}.json"

    def _dimensions(self) -> int:
        """The length of a vector, remembered or learned."""
        told = {"place": _digest(self._address.place), "model": self._model}
        known = json.loads(read_sealed(self._remembered) or b"{}")
        if {**known, **told} == known:
            return int(known["dimensions"])
        try:
            dimensions = int(self._rows([_FIRST]).shape[1])
        except EmbeddingError as error:  # of any text, so it is not that one's fault
            raise ModelError(str(error)) from error
        write_sealed(self._remembered, json.dumps({**told, "dimensions": dimensions}).encode())
        return dimensions

    def _computed(self, texts: Sequence[str]) -> Iterator[tuple[int, Float32Array]]:
        """Yield (position of the first text, vectors) of each request."""
        start, most = 0, _TEXTS
        while start < len(texts):
            batch = texts[start : start + _size(texts[start : start + most])]
            try:
                rows = self._rows(batch)
            except EmbeddingError as error:
                if isinstance(error, ModelError) or len(batch) == 1:
                    raise
                most = len(batch) // 2  # so many may be too many; else this leads to the text that is at fault
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
        response = self._exchange(json.dumps(message).encode("ascii"))
        if response.compression:
            raise ModelError(
                f"{self._who} answered in the encoding {self._quoted(response.compression)}; expected the body as it "
                "is, as it was asked for (Accept-Encoding: identity): turn compression off"
            )
        try:
            body = json.loads(response.body)
        except (ValueError, RecursionError) as error:
            raise ModelError(
                f"{self._who} answered with what is no JSON: {self._quoted(response.body)}; is {_ADDRESS} the address "
                "of an OpenAI-compatible server, up to and with its /v1?"
            ) from error
        data = body.get("data") if isinstance(body, dict) else None
        if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
            raise ModelError(
                f"{self._who} returned no list of embeddings; expected {{data: [...]}}, got {self._told(response)}"
            )
        if len(data) != len(texts):
            raise ModelError(f"{self._who} returned {len(data)} vectors for {len(texts)} texts; expected one for each")
        rows: list[FloatArray | None] = [None] * len(texts)
        for place, entry in enumerate(data):
            index = entry.get("index", place)
            if type(index) is not int or not 0 <= index < len(texts) or rows[index] is not None:
                raise ModelError(
                    f"{self._who} returned a vector with the index {self._quoted(repr(index))}; expected each of "
                    f"0 to {len(texts) - 1} once"
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
                found = np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float64)
            else:
                found = np.array(value, dtype=np.float64) if _numbers(value) else np.empty(0)
        except (ValueError, OverflowError, binascii.Error):
            found = np.empty(0)
        if not len(found):
            got = repr(value) if not isinstance(value, list) else f"a list that begins with {value[:3]!r}"
            raise ModelError(
                f"{self._who} returned no vector in row {index}; expected numbers, or float32 in base64, got "
                f"{self._quoted(got)}"
            )
        largest = float(np.abs(found).max())
        if not (np.isfinite(largest) and largest > 0.0):
            what = "of zeros only" if largest == 0.0 else "with NaN or infinite numbers in it"
            raise EmbeddingError(f"{self._who} returned a vector {what}")
        found /= largest  # so that no square is too large or too small
        found /= np.sqrt(np.add.reduce(found * found))
        return found

    def _exchange(self, content: bytes) -> Response:
        """Post, and try again where that may help; the response is a good one.

        Raises:
            ModelError: there is none.
            EmbeddingError: the server refuses these texts.
        """
        import httpx

        try:
            url = str(httpx.URL(self._address.url))
        except (httpx.InvalidURL, UnicodeError) as error:
            raise ModelError(
                f"{_ADDRESS} {self._address.shown!r} cannot be read; expected a URL such as {ADDRESS}"
            ) from error
        connection = self._connected()
        wait = self._pause
        log = LogFilter(url, f"{self._address.shown}/embeddings")
        for left in range(self._tries - 1, -1, -1):
            seconds = wait
            try:
                log.begin()
                response = connection.send("POST", url, content)
            except httpx.TimeoutException:
                why = f"no answer within {self._timeout:g} s"
            except httpx.TransportError as error:
                lost = "no connection" if isinstance(error, httpx.ConnectError) else "no whole answer"
                why = f"{lost}: {type(error).__name__} {self._quoted(str(error))}"
            except TooLongError as error:
                raise ModelError(f"{self._who} returned more than {BODY_LIMIT // 2**20} MiB") from error
            else:
                if 200 <= response.status < 300:
                    return response
                again = response.status in _TRY_AGAIN or response.status >= 500
                if not again or _is_spent(response):
                    raise self._refusal(response)
                why = f"status {response.status}: {self._told(response)}"
                seconds = seconds_asked(response.retry_after, wait)
                if seconds > _LONGEST_WAIT_S:
                    raise ModelError(f"{self._who} asks for a pause of {seconds:.0f} s ({why}); try again after it")
            finally:
                log.end()
            if left:
                if left == self._tries - 1:
                    _log.warning("%s: %s; trying again in %g s", self._who, why, seconds)
                time.sleep(seconds)
                wait *= 2
        raise ModelError(
            f"{self._who} gave no vectors in {self._tries} tries; the last one: {why}. Check that the server is "
            f"there ({_ADDRESS}), or try again later: texts that have a vector are not sent again"
        )

    def _refusal(self, response: Response) -> EmbeddingError:
        """What to say of a status that another try would not change."""
        status = response.status
        if status in (401, 403):  # what a server says of a key may hold a part of it
            have = f"the value of {_KEY}" if self._has_key else f"a request without a key, for {_KEY} is not set"
            return ModelError(
                f"{self._who} refused {have} (status {status}); set {_KEY} to a key that may use this model, and "
                f"{_ADDRESS} to the address that the key is for"
            )
        if status == 404:
            return ModelError(
                f"there is no {self._who} (status 404: {self._told(response)}); check the model's name, and that "
                f"{_ADDRESS} is the address up to and with its /v1"
            )
        message = f"{self._who} refused (status {status}): {self._told(response)}"
        if status in _REFUSED:
            return EmbeddingError(message)
        if 300 <= status < 400:
            message += f"; redirects are not followed: set {_ADDRESS} to where it leads"
        return ModelError(message)

    def _connected(self) -> Connection:
        """The connection, made at first.

        Raises:
            ModelError: the network is forbidden, or key, proxies or certificates cannot be used.
        """
        if self._connection is not None:
            return self._connection
        import httpx

        here = is_this_machine(self._address.host)
        if offline() and not here:
            raise ModelError(
                f"{self._who} cannot be asked: CTXBENCH_OFFLINE or HF_HUB_OFFLINE forbids the network; unset it, or "
                f"set {_ADDRESS} to a server on this machine"
            )
        key = os.environ.get(_KEY, "").strip()
        if not (key.isascii() and key.isprintable()):
            raise ModelError(f"the value of {_KEY} cannot stand in a header; expected printable ASCII")
        headers = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "ctxbench"}
        hidden = secrets_in_url(self._address.url)
        if key:
            headers["Authorization"] = f"Bearer {key}"
            hidden.append(("Authorization", key))
        self._has_key, self._secrets = bool(key), Secrets(hidden)
        try:
            context = httpx.create_ssl_context(trust_env=not here)
            connection = Connection(timeout=self._timeout, headers=headers, context=context, proxies=not here)
        except (ValueError, ImportError, OSError, httpx.InvalidURL) as error:
            raise ModelError(environment_fault(error)) from error
        weakref.finalize(self, connection.close)
        self._connection = connection
        return connection

    def _told(self, response: Response) -> str:
        """What a server says in its body, as a message may show it."""
        if response.compression:
            return f"a body in the encoding {self._quoted(response.compression)}, which was not read"
        try:
            error = json.loads(response.body)["error"]
            said = error["message"] if isinstance(error, dict) else error
        except (ValueError, RecursionError, LookupError, TypeError):
            said = response.body
        return self._quoted(said if isinstance(said, str | bytes) else response.body)

    def _quoted(self, said: str | bytes) -> str:
        """The beginning of what came from outside, on one line, without the key."""
        text = said[:20_000].decode("utf-8", "replace") if isinstance(said, bytes) else said[:20_000]
        text = shown_text(self._secrets.hide(text) if self._secrets else text)
        line = one_line(" ".join(text.split()))
        return "nothing" if not line else line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."


def _address(base: str) -> Address:
    """The address that a variable or the default names.

    Raises:
        ParameterError: it is none, or has parts that it must not have.
    """
    shown = one_line(shown_url(base)).rstrip("/")
    try:
        parts = urlsplit(base)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ParameterError(f"{_ADDRESS} {shown!r} cannot be read; expected a URL such as {ADDRESS}") from error
    if parts.scheme not in ("http", "https") or not host or any(char.isspace() for char in base):
        raise ParameterError(f"{_ADDRESS} must start with http:// or https:// and name a host, got {shown!r}")
    if parts.username is not None or parts.password is not None:
        raise ParameterError(f"{_ADDRESS} must hold no user or password; put the key into {_KEY}")
    if parts.query or parts.fragment:
        raise ParameterError(f"{_ADDRESS} must hold no query or fragment (?... or #...), got one behind {shown!r}")
    path = parts.path.rstrip("/")
    if port == {"http": 80, "https": 443}[parts.scheme]:
        port = None
    named = f"[{host}]" if ":" in host else host
    place = f"{named}{'' if port is None else f':{port}'}{path}"
    url = f"{parts.scheme}://{place}"
    return Address(f"{url}/embeddings", one_line(shown_url(url)), host, place)


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
    return isinstance(value, list) and all(type(one) in (float, int) for one in value)


def _is_spent(response: Response) -> bool:
    """Whether a 429 says that the account has nothing left, which no waiting changes."""
    return response.status == 429 and b'"insufficient_quota"' in response.body
