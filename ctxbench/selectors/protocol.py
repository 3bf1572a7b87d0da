"""The messages between ctxbench and an external selector: JSON of a published, versioned schema.

Three messages go out: a catalog (before the first request over it), a request, and over HTTP a POST of several
requests. The catalog of a request is what it may see: nothing of other workspaces and users, nothing later or ended, so
that requests which see different items have different catalogs. One message comes back: an answer for one query.
`external_schema.json` beside this file defines them; `schema()` returns it. What asks is a `Source`, which is given up
on by a `CircuitBreaker`.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from ctxbench.core.arrays import BoolArray
from ctxbench.core.errors import SelectorError
from ctxbench.core.requests import Batch

VERSION = 1  # the value of "ctxbench" in every message; raised when a message changes its meaning
QUOTED = 200  # characters of a foreign text that an error quotes
ANSWER_KEYS = ("ctxbench", "query", "items", "ranking", "error", "build", "metadata")
NO_ANSWER = "the process wrote a line that is no answer"  # how the error begins that quotes such a line
NOT_AWAITED = "the process answered query "  # and the error that names an answer to another request
SENDS = ("items", "ids", "nothing")  # what a selector gets of a catalog
# One slow query, or one that a selector dies on, is no reason to give up, and seldom are several of them neighbours.
# Each costs a time limit, by default a minute or two: a dead selector is found out in minutes, not in hours.
SILENT_AT_MOST = 5
NOT_ASKED = "not asked: "  # how the error of a query begins that was given up on


def schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of every message; `$defs` holds one entry a message.

    Its root describes an answer, so `jsonschema.validate(answer, schema())` checks one.
    """
    text = Path(__file__).with_name("external_schema.json").read_text("utf-8")
    return cast("dict[str, Any]", json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class RawAnswer:
    """What came back for one request.

    Attributes:
        answer: the answer as JSON, not checked yet.
        error: why there is no answer; empty if there is one.
        seconds: how long the request took; NaN where that is not known by request.
        where: file and line of the answer, for messages; may be empty.
    """

    answer: Any = None
    error: str = ""
    seconds: float = math.nan
    where: str = ""


class Waiting(NamedTuple):
    """A query that a selector has been asked and has not answered.

    Attributes:
        query: its id; of several the one that was asked first.
        since: when it was asked, as `time.perf_counter` tells it.
        limit: how long it is waited for at most, in words.
    """

    query: str
    since: float
    limit: str


class Source(ABC):
    """A way in: asks an external selector. Processes and connections live until `close`."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Everything that decides the answers, as JSON, without secrets and absolute paths."""

    def kept_under(self) -> str | None:
        """What answers may be kept under: all that decides them, a build id among it; None if there is none."""
        return None

    @abstractmethod
    def ask(self, batch: Batch, rows: Sequence[int]) -> list[RawAnswer]:
        """Ask for some requests of a batch; one reply for each of `rows`, in their order."""

    def waiting_for(self) -> Waiting | None:
        """The query that is waited for now; None where there is none, or it is not known. Thread-safe."""
        return None

    def notes(self) -> dict[str, Any]:
        """Events so far that a user should know (restarts, late answers), as JSON; empty if there are none."""
        return {}

    def forget_notes(self) -> None:  # noqa: B027 - most have none
        """Reset `notes`."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """End processes and connections; may be called twice."""


class CircuitBreaker:
    """Counts questions in a row without an answer, in the order in which they end.

    Where several are asked at a time, as many times as many may be lost, so that to give up takes as long. Once given
    up, a selector stays so over this catalog, until it is closed; what is asked already may still be answered.
    Several threads may use it.
    """

    def __init__(self, *, noun: str = "queries", at_a_time: int = 1) -> None:
        """Start with a count of 0.

        Args:
            noun: what is asked, in the plural, for messages.
            at_a_time: how many are asked side by side, >= 1.
        """
        self._noun = noun
        self._max_failures = SILENT_AT_MOST * at_a_time
        self._lock = threading.Lock()
        self._catalog = ""
        self._failures = 0
        self._refusal = ""

    def begin(self, catalog: str) -> None:
        """Requests over the catalog of this hash come next; over another catalog it is counted anew."""
        with self._lock:
            if catalog != self._catalog:
                self._catalog, self._failures, self._refusal = catalog, 0, ""

    def succeeded(self) -> None:
        """Count an answer, whatever it says."""
        with self._lock:
            self._failures = 0

    def failed(self, why: str) -> None:
        """Count a question without an answer; `why` says what happened."""
        with self._lock:
            self._failures += 1
            if self._failures >= self._max_failures and not self._refusal:
                self._refusal = f"{NOT_ASKED}{self._failures} {self._noun} in a row had no answer; the last: {why}"

    @property
    def refusal(self) -> str:
        """Why nothing more is asked; empty while it is."""
        return self._refusal

    def reset(self) -> None:
        """Set the count back to 0."""
        self.begin("")


def catalog_hash(batch: Batch, row: int) -> str:
    """The hash of the catalog of one request: that of all items, or of those that the request may see."""
    visible = _visible_items(batch, row)
    if visible is None:
        return batch.catalog.hash
    return hashlib.sha256(batch.catalog.hash.encode() + np.packbits(visible).tobytes()).hexdigest()


def by_catalog(batch: Batch, rows: Iterable[int]) -> dict[str, list[int]]:
    """Some requests by their `catalog_hash`, each once, in the order in which they come."""
    out: dict[str, list[int]] = {}
    for row in dict.fromkeys(rows):
        out.setdefault(catalog_hash(batch, row), []).append(row)
    return out


def catalog_items(batch: Batch, row: int, send: str) -> list[Any] | None:
    """What an external selector gets of the catalog of one request; the same for all of one `catalog_hash`.

    Args:
        batch: the requests and the items. Those that are not enabled are left out, nobody may offer them; those that
            the request may not see, too, and the links that lead to them.
        row: of the request.
        send: `items` for rows as in `corpus.jsonl` (without metadata, which a dataset may keep its labels in),
            `ids` for the ids alone, `nothing` for None.
    """
    if send == "nothing":
        return None
    visible = _visible_items(batch, row)
    positions = range(len(batch.catalog)) if visible is None else np.flatnonzero(visible).tolist()
    items = [batch.catalog[position] for position in positions if batch.catalog[position].enabled]
    if send == "ids":
        return [item.id for item in items]
    rows = [{key: value for key, value in item.as_row().items() if key != "metadata"} for item in items]
    if visible is not None:
        ids = {batch.catalog.ids[position] for position in positions}
        for entry in rows:
            if links := [link for link in entry.pop("links", ()) if link["item"] in ids]:
                entry["links"] = links
    return rows


def catalog_message(batch: Batch, row: int, send: str) -> dict[str, Any] | None:
    """The message with the catalog of one request, with `items` or `ids`; None where nothing is sent."""
    items = catalog_items(batch, row, send)
    return None if items is None else {"ctxbench": VERSION, "catalog": catalog_hash(batch, row), send: items}


def request_body(batch: Batch, row: int, send: str) -> dict[str, Any]:
    """One request as it is sent, without what it may not see.

    Where no catalog is sent, `available` says what it may see, unless that is all.
    """
    request, visible = batch.requests[row], _visible_items(batch, row)
    body = request.as_dict()
    if visible is None:
        return body
    if request.available is not None:
        body["available"] = [key.id for key in request.available if visible[batch.catalog.position(key)]]
    elif send == "nothing":
        positions = np.flatnonzero(visible).tolist()
        body["available"] = [batch.catalog.ids[position] for position in positions if batch.catalog[position].enabled]
    return body


def request_messages(batch: Batch, rows: Iterable[int], send: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The messages that ask some requests, each with its row, in the order of `by_catalog`."""
    for catalog, catalog_rows in by_catalog(batch, rows).items():
        for row in catalog_rows:
            body = {"query": batch.requests[row].id, "request": request_body(batch, row, send)}
            yield row, {"ctxbench": VERSION, "catalog": catalog, **body}


def _visible_items(batch: Batch, row: int) -> BoolArray | None:
    """Which items a request may see, shape (n_items,); None where it may see all."""
    if not batch.catalog.facts.hidden:
        return None
    visible: BoolArray = batch.visible[row]
    return None if visible.all() else visible


def dumps(message: Mapping[str, Any]) -> str:
    """One line of ASCII JSON, so that no selector's decoding or line splitting can go wrong.

    Raises:
        SelectorError: a number in it is NaN or infinite, which JSON cannot hold.
    """
    try:
        return json.dumps(message, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise SelectorError(
            f"the catalog or a request holds a number that JSON has not (NaN or infinite): {error}; correct the dataset"
        ) from error


class MalformedError(ValueError):
    """A text is no JSON; says what is wrong, and the 1-based column (0 = unknown)."""

    def __init__(self, message: str, column: int = 0) -> None:
        super().__init__(message)
        self.column = column


def loads(text: bytes | str) -> Any:
    """Read one JSON value that a selector wrote.

    Unlike `ctxbench.io.json_files.parse_json` it lets NaN and infinities through: the check of the answer names them,
    so that they are the error of one query and not of all that came in the same POST or file.

    Raises:
        MalformedError: it is not UTF-8, not JSON, nested too deep, or an object holds a key twice.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return json.loads(text, object_pairs_hook=_unique_keys)
    except UnicodeDecodeError as error:
        raise MalformedError(f"not UTF-8 (byte {error.start + 1})", error.start + 1) from error
    except json.JSONDecodeError as error:
        raise MalformedError(f"not JSON: {error.msg}", error.colno) from error
    except RecursionError as error:
        raise MalformedError("not JSON that can be read: nested too deep") from error
    except MalformedError:
        raise
    except ValueError as error:  # Python's own words are for programmers
        limit = sys.get_int_max_str_digits()
        raise MalformedError(f"not JSON that can be read: a number has more than {limit} digits") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        twice = min(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise MalformedError(f"an object holds the key {quoted(twice)} twice")
    return out


def quoted(text: object, *, hide: Callable[[str], str] = str) -> str:
    """`repr` of a foreign text or value, cut to `QUOTED` characters once `hide` has taken out what is secret."""
    if isinstance(text, str):
        text = hide(text)
    try:
        representation = repr(text)
    except RecursionError:
        return f"a {type(text).__name__} that is nested too deep to be shown"
    representation = representation if isinstance(text, str) else hide(representation)
    if len(representation) <= QUOTED + 2:
        return representation
    if isinstance(text, str):
        return f"{text[:QUOTED]!r} and {len(text) - QUOTED} characters more"
    return f"{representation[:QUOTED]} ..."


def shown_path(path: Path, base: Path) -> str:
    """A path as manifests may hold it: relative to `base` if it lies below, else the file's name."""
    absolute = (base / path).absolute()
    try:
        return absolute.relative_to(base.absolute()).as_posix()
    except ValueError:
        return path.name
