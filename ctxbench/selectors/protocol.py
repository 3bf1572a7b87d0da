"""JSON messages between ctxbench and external selectors, and candidates from their answers.

Messages to a selector: a catalog (before the first request over it), a request, and over HTTP a POST of several
requests. The catalog of a request is what it may see, so requests with different visible items have different catalogs.
Messages from it: an answer to one query, `AnswerRow`. `external_schema.json` defines the others.
`schema()` returns all.
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
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import ConfigDict, Field

from ctxbench.io.errors import Message, SelectorError, suggest
from ctxbench.io.rows import instant
from ctxbench.model.arrays import BoolArray, owners
from ctxbench.model.candidates import NOT_CHOSEN, Candidates, Rule
from ctxbench.model.formats import FileModel, Texts, field_names
from ctxbench.model.items import Item, suggest_items
from ctxbench.model.requests import Batch, Filter
from ctxbench.model.selection import concatenated, session_rows

if TYPE_CHECKING:
    from ctxbench.datasets.dataset import Dataset

VERSION = 1  # the value of "ctxbench" in every message; raised when a message changes its meaning
QUOTED = 200  # characters of a foreign text that an error quotes
NO_ANSWER = "the process wrote no answer"  # how the error begins that quotes such a line
NOT_AWAITED = "the process answered query "  # and the error that names an answer to another request
SENDS = ("items", "ids", "nothing")  # what a selector gets of a catalog
MOST_REPEATS = 100
LONGEST_WAIT_S = 30.0  # before a retry over HTTP
# One slow query, or one that a selector dies on, is no reason to give up, and seldom are several of them neighbours.
# Each costs a time limit, by default a minute or two: a dead selector is found out in minutes, not in hours.
SILENT_AT_MOST = 5
NOT_ASKED = "not asked: "  # how the error of a query begins that was given up on


def _without_default(field: dict[str, Any]) -> None:
    """Leave a default out of the JSON Schema."""
    del field["default"]


class ItemRow(FileModel):
    """An item of an answer."""

    noun = "an item of an answer"
    id: str = Field(min_length=1, description="The _id of an item of the catalog: type:name or type:server:name.")
    score: float = Field(
        0.0,
        description="Higher is better; finite. All rows of a list have one, or none has.",
        json_schema_extra=_without_default,
    )


_WITH_ITEMS_OR_ERROR: dict[str, Any] = {
    "anyOf": [{"required": ["items"]}, {"required": ["error"], "properties": {"error": {"type": "string"}}}]
}


class AnswerRow(FileModel):
    """What a selector offers for one query."""

    model_config = ConfigDict(json_schema_extra=_WITH_ITEMS_OR_ERROR)
    noun = "an answer"
    ctxbench: Literal[1] = Field(1, description="The version of this protocol.")
    query: str = Field(description="The id of the query.")
    items: Texts[ItemRow] = Field(
        (),
        description="The items chosen, best first; empty where nothing is needed. Rows with scores are ordered by "
        "score. An item must have include = agent and be available to the request; one that the session holds may be "
        "named, and is not counted.",
    )
    ranking: Texts[ItemRow] | None = Field(
        None,
        description="All items that the selector ranked, best first; it holds every chosen item. Without it there are "
        "no ranking metrics.",
    )
    error: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="Why there is no answer; then items may be left out."
    )
    build: Annotated[str, Field(min_length=1)] | None = Field(None, description="What answered: a version, a commit.")
    metadata: Any = Field(None, description="Anything; ignored.")


ANSWER_KEYS = field_names(AnswerRow)
_ROW_KEYS = frozenset(("id", "score"))


def schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of every message; `$defs` holds one entry per message.

    Its root describes an answer, so `jsonschema.validate(answer, schema())` checks one.
    """
    document: dict[str, Any] = json.loads(Path(__file__).with_name("external_schema.json").read_text("utf-8"))
    answer = AnswerRow.model_json_schema(ref_template="#/$defs/{model}")
    document["$defs"] |= {**answer.pop("$defs"), "answer": answer}
    return document


Send: TypeAlias = Literal["items", "ids", "nothing"]


class AnswersBlock(FileModel):
    """A file of answers as a selector."""

    noun = "a selector by answers"
    name: str = Field("", min_length=1, description="The name in tables; by default one from the source.")
    answers: str = Field(description="The file: one answer per line.")


class _AskedBlock(FileModel):
    """What the blocks of selectors that are asked have in common."""

    name: str = Field("", min_length=1, description="The name in tables; by default one from the source.")
    repeats: int = Field(
        1, ge=1, le=MOST_REPEATS, description="How often each query is asked; the first answer counts."
    )


class CallableBlock(_AskedBlock):
    """A Python callable as a selector."""

    noun = "a selector by callable"
    callable: str = Field(description="`module:function` or `file.py:function`.")
    send: Send = Field("items", description="What it gets besides the request: `items`, `ids`, or `nothing`.")
    batch: bool = Field(False, description="Whether it is called with several requests at once.")


class CommandOptions(FileModel):
    """How a command is asked."""

    noun = "a selector by command"
    send: Send = Field("items", description="What its catalog line holds: `items`, `ids`, or `nothing` (no such line).")
    timeout: float = Field(60.0, gt=0, description="Seconds for an answer; a process that takes longer is ended.")
    start_timeout: float = Field(60.0, ge=0, description="Additional seconds for the first answer of a process.")
    concurrency: int = Field(1, ge=1, le=64, description="Processes that run at the same time.")
    in_flight: int = Field(1, ge=1, le=1000, description="Requests that a process is sent before it has answered.")
    source: Texts[str] | str | None = Field(
        None, description="Files and folders of its code; by default the source code next to the named files."
    )


class CommandBlock(CommandOptions, _AskedBlock):
    """A command as a selector."""

    command: Texts[Any] | str = Field(description="The program and its arguments: a list, or one text.")


class HttpOptions(FileModel):
    """How an endpoint is asked."""

    noun = "a selector by url"
    send: Send = Field("items", description="What it gets when it asks for the catalog: `items`, `ids`, or `nothing`.")
    timeout: float = Field(60.0, gt=0, description="Seconds for one POST; a time-out is not retried.")
    batch: int = Field(1, ge=1, le=1000, description="Requests in a POST; each is answered as if it came alone.")
    concurrency: int = Field(1, ge=1, le=64, description="POSTs at the same time.")
    retries: int = Field(2, ge=0, le=10, description="Retries after a failed connection or status 429 or 503.")
    backoff: float = Field(
        0.5, ge=0, le=LONGEST_WAIT_S, description="Seconds before the first retry, doubled for each other one."
    )
    authorization_env: str | None = Field(
        None, description="The environment variable with the value of the Authorization header."
    )


class UrlBlock(HttpOptions, _AskedBlock):
    """An HTTP endpoint as a selector."""

    url: str = Field(description="The URL that requests are posted to; `${NAME}` in it is an environment variable.")
    cache: bool = Field(True, description="Whether answers are kept under the build id that the endpoint reports.")


ExternalBlock: TypeAlias = AnswersBlock | CallableBlock | CommandBlock | UrlBlock
EXTERNAL_BLOCKS: dict[str, type[FileModel]] = {
    "answers": AnswersBlock,
    "callable": CallableBlock,
    "command": CommandBlock,
    "url": UrlBlock,
}


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
        since: when it was asked, by `time.perf_counter`.
        limit: the time limit, in words.
    """

    query: str
    since: float
    limit: str


class Source(ABC):
    """A way in: asks an external selector. Processes and connections live until `close`.

    Attributes:
        on_answer: if set, called after each answer, by sources whose answers come singly.
    """

    on_answer: Callable[[], None] | None = None

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
    """Counts questions in a row without an answer, and gives up on a selector that has too many.

    With several questions at a time the limit is that many times as high, so that giving up takes as long. A selector
    that was given up on is not asked again about this catalog until it is closed. Thread-safe.
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
        self.refusal = ""  # why nothing more is asked; empty while it is

    def begin(self, catalog: str) -> None:
        """Requests over the catalog of this hash come next; over another catalog it is counted anew."""
        with self._lock:
            if catalog != self._catalog:
                self._catalog, self._failures, self.refusal = catalog, 0, ""

    def succeeded(self) -> None:
        """Count an answer, whatever it says."""
        with self._lock:
            self._failures = 0

    def failed(self, why: str) -> None:
        """Count a question without an answer; `why` says what happened."""
        with self._lock:
            self._failures += 1
            if self._failures >= self._max_failures and not self.refusal:
                values = {"start": NOT_ASKED, "noun": self._noun, "reason": why}
                self.refusal = Message("selectors.too-many-unanswered", n=self._failures, **values)

    def reset(self) -> None:
        """Set the count back to 0."""
        self.begin("")


def catalog_hash(batch: Batch, row: int) -> str:
    """The hash of the catalog of one request: that of all items, or of those that the request may see."""
    if (visible := _visible_items(batch, row)) is None:
        return batch.catalog.hash
    return hashlib.sha256(batch.catalog.hash.encode() + np.packbits(visible).tobytes()).hexdigest()


def by_catalog(batch: Batch, rows: Iterable[int]) -> dict[str, list[int]]:
    """Some requests by their `catalog_hash`, each once, in the order in which they come."""
    out: dict[str, list[int]] = {}
    for row in dict.fromkeys(rows):
        out.setdefault(catalog_hash(batch, row), []).append(row)
    return out


def item_row(item: Item) -> dict[str, Any]:
    """What an external selector gets of an item: its row without metadata, which a dataset may keep its labels in."""
    return {key: value for key, value in item.as_row().items() if key != "metadata"}


def catalog_items(
    batch: Batch, row: int, send: str, *, row_of: Callable[[Item], dict[str, Any]] = item_row
) -> list[Any] | None:
    """What an external selector gets of the catalog of one request; the same for all of one `catalog_hash`.

    Args:
        batch: the requests and the items. Those that are not enabled are left out, nobody may offer them; those that
            the request may not see, too, and the links that lead to them.
        row: of the request.
        send: `items` for rows as in `corpus.jsonl`, `ids` for the ids alone, `nothing` for None.
        row_of: makes the row of an item. It may return a dict that others have, too: none is changed here.
    """
    if send == "nothing":
        return None
    visible, catalog, facts = _visible_items(batch, row), batch.catalog, batch.catalog.facts
    positions = range(len(catalog)) if visible is None else np.flatnonzero(visible).tolist()
    enabled: dict[int, Item] = {position: item for position in positions if (item := catalog[position]).enabled}
    if send == "ids":
        return [item.id for item in enabled.values()]
    rows = list(map(row_of, enabled.values()))
    if visible is None:
        return rows
    partly_linked = set(owners(facts.link_start)[~visible[facts.link_item]].tolist())
    is_visible, start = visible[facts.link_item].tolist(), facts.link_start.tolist()
    return [
        _with_links(entry, is_visible[start[position] : start[position + 1]]) if position in partly_linked else entry
        for position, entry in zip(enabled, rows, strict=True)
    ]


def _with_links(entry: dict[str, Any], is_visible: Sequence[bool]) -> dict[str, Any]:
    """A copy of an item's row with some of its links."""
    row = entry.copy()
    if links := list(compress(row.pop("links"), is_visible)):
        row["links"] = links
    return row


def catalog_message(batch: Batch, row: int, send: str) -> dict[str, Any] | None:
    """The message with the catalog of one request, with `items` or `ids`; None where nothing is sent."""
    items = catalog_items(batch, row, send)
    return None if items is None else {"ctxbench": VERSION, "catalog": catalog_hash(batch, row), send: items}


def request_body(batch: Batch, row: int, send: str) -> dict[str, Any]:
    """One request as JSON, without items that it may not see.

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


def request_rows(dataset: Dataset, *, may_offer: bool = False) -> Iterator[dict[str, Any]]:
    """The input of an external command: a catalog, then its requests, one per line.

    Args:
        dataset: any.
        may_offer: add to each request `may_offer` (the ids of all items that may be offered, in catalog order) and
            perhaps `session` (the ids of items in the session).

    Yields:
        One message with the catalog, then one per query, in the order of the dataset. Queries with other items follow
        another catalog.
    """
    batch, ids = dataset.batch(), dataset.current_catalog.ids
    last = ""
    for row, message in request_messages(batch, range(len(batch)), "items"):
        if message["catalog"] != last:
            last = message["catalog"]
            yield catalog_message(batch, row, "items") or {}
        fields: dict[str, Any] = {}
        if may_offer:
            session = batch.session_item[batch.session_start[row] : batch.session_start[row + 1]]
            fields = {"may_offer": [ids[position] for position in np.flatnonzero(batch.eligible[row])]}
            fields |= {"session": [ids[position] for position in session]} if len(session) else {}
        yield {**message, **fields}


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


def is_json(value: Any) -> bool:
    """Whether a value comes back from JSON as it was."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError):
        return False


class MalformedError(ValueError):
    """A text is no JSON; says what is wrong, and the 1-based column (0 = unknown)."""

    def __init__(self, message: str, column: int = 0) -> None:
        super().__init__(message)
        self.column = column


def loads(text: bytes | str) -> Any:
    """Read one JSON value that a selector wrote.

    Unlike `ctxbench.io.documents.parse_json` it lets NaN and infinities through: the check of the answer names them,
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
        return Message("selectors.value-nested-too-deep", type=type(text).__name__)
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


@dataclass(frozen=True, slots=True)
class Answer:
    """A checked answer.

    Attributes:
        item: catalog positions of all rows, ranked or chosen, in the order given; none of them in the session.
        score: by row, finite; None where the selector gave only an order (or nothing).
        chosen: the positions that are offered; a subset of `item`.
        ranked: the selector gave a ranking, be it empty.
        build: what the selector says answered, or None.
        n_in_session: how many items it offered that the session holds already; they are not counted twice.
    """

    item: tuple[int, ...]
    score: tuple[float, ...] | None
    chosen: frozenset[int]
    ranked: bool
    build: str | None
    n_in_session: int


class AnswerReader:
    """Checks the answers for one batch.

    A selector may offer what any search may (`Batch.eligible`): items of include mode `agent` that are enabled and
    available to the request. What the session holds may be named too; it is counted and offered once, by the session.
    """

    def __init__(self, batch: Batch, *, previous: AnswerReader | None = None) -> None:
        """Read the answers for a batch.

        Args:
            batch: the requests.
            previous: the reader of another batch; over the same catalog, ids need not be looked through again.
        """
        self._batch = batch
        if previous is not None and previous._batch.catalog is batch.catalog:  # noqa: SLF001 - of this class
            self._position: dict[str, int] = previous._position  # noqa: SLF001
        else:
            self._position = {name: position for position, name in enumerate(batch.catalog.ids)}

    def read(self, row: int, reply: RawAnswer) -> Answer:
        """Check the answer to one request of the batch.

        Raises:
            SelectorError: there is no answer, or it is none; says the query, what is wrong and what was expected.
        """
        try:
            return self._read(row, reply)
        except SelectorError as error:
            location = f" ({reply.where})" if reply.where else ""
            raise SelectorError(f"query {self._batch.requests[row].id!r}: {error}{location}") from error

    def _read(self, row: int, reply: RawAnswer) -> Answer:
        if reply.error:
            raise SelectorError(reply.error)
        answer = reply.answer
        self._check_shape(row, answer)
        start = self._batch.session_start
        in_session = frozenset(self._batch.session_item[start[row] : start[row + 1]].tolist())
        items = self._rows("items", answer["items"], row, in_session)
        if (ranking := answer.get("ranking")) is None:
            rows = items.without(in_session)
            chosen = rows.item
        else:
            rows = self._rows("ranking", ranking, row, in_session).without(in_session)
            chosen = items.without(in_session).item
            self._check_chosen(items.without(in_session), rows)
        return Answer(
            item=rows.item,
            score=rows.score,
            chosen=frozenset(chosen),
            ranked=ranking is not None,
            build=answer.get("build"),
            n_in_session=len(items.item) - len(chosen),
        )

    def _check_shape(self, row: int, answer: Any) -> None:
        if not isinstance(answer, Mapping):
            raise SelectorError(f"an answer must be an object with query and items, got {quoted(answer)}")
        if unknown := [key for key in answer if key not in ANSWER_KEYS]:
            raise SelectorError(f"an answer has no key {quoted(unknown[0])}{suggest(str(unknown[0]), ANSWER_KEYS)}")
        if (version := answer.get("ctxbench", VERSION)) != VERSION or isinstance(version, bool):
            raise SelectorError(f"ctxbench must be {VERSION}, the version of the protocol, got {quoted(version)}")
        if answer.get("query") != self._batch.requests[row].id:
            raise SelectorError(f"the answer is for query {quoted(answer.get('query'))}")
        for key in ("error", "build"):
            if (text := answer.get(key)) is not None and not (isinstance(text, str) and text):
                raise SelectorError(f"{key} must be a text that is not empty, or be left out, got {quoted(text)}")
        if answer.get("error") is not None:
            raise SelectorError(f"the selector reported an error: {answer['error'][:1000]}")
        if "items" not in answer:
            raise SelectorError("the answer has no items; choose nothing with an empty list")

    def _check_chosen(self, items: _Rows, ranking: _Rows) -> None:
        ranked_row = {item: row for row, item in enumerate(ranking.item)}
        for row, item in enumerate(items.item):
            name = self._batch.catalog.ids[item]
            if item not in ranked_row:
                raise SelectorError(f"item {name!r} is chosen but is not in ranking; a ranking holds all chosen items")
            if items.score is None:
                continue
            if ranking.score is None:
                raise SelectorError("items have scores and ranking has none; give ranking the scores too")
            if items.score[row] != ranking.score[ranked_row[item]]:
                raise SelectorError(
                    f"item {name!r} has score {items.score[row]!r} in items and "
                    f"{ranking.score[ranked_row[item]]!r} in ranking; expected the same"
                )

    def _rows(self, key: str, rows: Any, row: int, in_session: frozenset[int]) -> _Rows:
        """Check the rows of `items` or `ranking` of one request."""
        if not isinstance(rows, Sequence) or isinstance(rows, str | bytes):
            raise SelectorError(f"{key} must be a list of {{id, score}}, got {quoted(rows)}")
        if len(rows) > len(self._batch.catalog):
            raise SelectorError(f"{key} has {len(rows)} rows, but the catalog has {len(self._batch.catalog)} items")
        positions: dict[int, int] = {}
        scores: list[float] = []
        eligible: BoolArray = self._batch.eligible[row]
        for index, named in enumerate(rows):
            position = self._position_of(key, index, named)
            if not eligible[position] and position not in in_session:
                raise SelectorError(f"{key}[{index}] names {self._why_not(row, position)}")
            if (first := positions.setdefault(position, index)) != index:
                raise SelectorError(
                    f"{key}[{first}] and {key}[{index}] are the same item {named['id']!r}; name an item once"
                )
            if "score" in named:
                scores.append(_score(f"{key}[{index}] ({named['id']!r})", named["score"]))
            if len(scores) not in (0, index + 1):
                raise SelectorError(
                    f"{key} mixes rows with and without a score ({key}[0] and {key}[{index}]); give all of them one, "
                    "or none"
                )
        return _Rows(tuple(positions), tuple(scores) if scores else None)

    def _position_of(self, key: str, index: int, row: Any) -> int:
        """The position of the item that a row names."""
        if (
            type(row) is dict
            and row.keys() <= _ROW_KEYS
            and type(name := row.get("id")) is str
            and name in self._position
        ):
            return self._position[name]
        where = f"{key}[{index}]"
        if not isinstance(row, Mapping):
            raise SelectorError(f"{where} must be an object with id, and score if there is one, got {quoted(row)}")
        if unknown := [key for key in row if key not in _ROW_KEYS]:
            raise SelectorError(f"{where} has an unknown key{suggest(str(unknown[0]), ('id', 'score'))}")
        name = row.get("id")
        if not isinstance(name, str):
            raise SelectorError(f"{where} needs the id of an item, got {quoted(name)}")
        if (position := self._position.get(name)) is None:
            raise SelectorError(f"{where} has id {quoted(name)}, which the catalog does not hold{self._hint(name)}")
        return position

    def _why_not(self, row: int, position: int) -> str:
        """The id of an item that a search may not offer to a request, and why."""
        item, request = self._batch.catalog[position], self._batch.requests[row]
        available, mode = request.available, item.include
        allowed = (request.only or Filter()).of(self._batch.catalog)
        whys = (
            (self._unseen(row, position), not self._batch.visible[row, position]),
            (Message("selectors.item-not-enabled"), not item.enabled),
            (Message("selectors.item-not-available"), available is not None and item.key not in available),
            (Message("selectors.item-removed"), item.key in request.removed),
            (Message("selectors.item-not-in-filter"), not allowed[position]),
            (Message("selectors.item-of-include-mode", mode=mode), True),
        )
        return f"{item.id!r}, {next(why for why, applies in whys if applies)}"

    def _unseen(self, row: int, position: int) -> str:
        """Why a request may not see an item."""
        item, request = self._batch.catalog[position], self._batch.requests[row]
        for attribute in ("workspace", "user"):
            its, of_request = getattr(item, attribute), getattr(request, attribute)
            if its not in (None, of_request):
                return Message("selectors.item-of-another", attribute=attribute, item=its, request=of_request)
        if request.time is None:
            return Message("selectors.item-ends", until=item.until)
        if item.created is not None and instant(item.created) > instant(request.time):
            return Message("selectors.item-not-yet-created", created=item.created, time=request.time)
        return Message("selectors.item-ended", until=item.until, time=request.time)

    def _hint(self, name: str) -> str:
        """The id that was probably meant, or an example of an id."""
        catalog = self._batch.catalog
        if catalog.facts.hidden:  # a suggested name may be of an item that this request may not see
            return ""
        if likely := self._by_name.get(name.casefold()):
            return Message("selectors.did-you-mean", name=likely)
        if close := suggest_items(name, catalog.ids) if ":" in name else "":
            return close
        return Message("selectors.item-id-form", id=catalog.ids[0]) if catalog.ids else "; it is empty"

    @cached_property
    def _by_name(self) -> dict[str, str]:
        """Ids by other forms that people write: the name, server:name, and the id not encoded."""
        forms: dict[str, str] = {}
        for item in self._batch.catalog:
            plain = ":".join(part for part in item.key if part is not None)
            for form in (item.name, f"{item.server}:{item.name}", f"{item.server}.{item.name}", plain, item.id):
                forms.setdefault(form.casefold(), item.id)
        return forms


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of `items` or `ranking`: positions and scores, in the order given."""

    item: tuple[int, ...]
    score: tuple[float, ...] | None

    def without(self, in_session: frozenset[int]) -> _Rows:
        if in_session.isdisjoint(self.item):
            return self
        keep = [row for row, item in enumerate(self.item) if item not in in_session]
        score = None if self.score is None else tuple(self.score[row] for row in keep)
        return _Rows(tuple(self.item[row] for row in keep), score or None)


def _score(where: str, value: Any) -> float:
    if value is None:
        raise SelectorError(
            f"the score of {where} is null; expected a finite number, or no score (JavaScript writes NaN as null)"
        )
    if isinstance(value, bool) or not isinstance(value, Real):
        raise SelectorError(f"the score of {where} is {quoted(value)}; expected a finite number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SelectorError(f"the score of {where} is {number}; expected a finite number")
    return number


def table(batch: Batch, answers: Mapping[int, Answer]) -> Candidates:
    """Put answers into candidates, behind what the session holds.

    Args:
        batch: the requests.
        answers: by row of the batch; a request without one has its session rows only.

    Returns:
        Rows of origin search and mode agent; ranked rows that are not chosen are out by `NOT_CHOSEN`. The score is
        the selector's, or -1, -2, ... in the order given; equal scores are in catalog order.
    """
    rows = [(row, answer) for row, answer in sorted(answers.items()) if answer.item]
    request = np.repeat(
        np.array([row for row, _ in rows], dtype=np.int64),
        np.array([len(answer.item) for _, answer in rows], dtype=np.int64),
    )
    item = np.array([position for _, answer in rows for position in answer.item], dtype=np.int64)
    score = np.array([score for _, answer in rows for score in _scores(answer)], dtype=np.float64)
    left = np.array([position not in answer.chosen for _, answer in rows for position in answer.item], dtype=np.int64)
    candidates = Candidates.build(len(batch), request, item, score=score, out=left)
    return concatenated([session_rows(batch), replace(candidates, rules=(None, Rule.of(NOT_CHOSEN)))])


def _scores(answer: Answer) -> Sequence[float]:
    return answer.score if answer.score is not None else [-float(rank) for rank in range(1, len(answer.item) + 1)]
