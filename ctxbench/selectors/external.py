"""External selectors by file of answers, callable, command or HTTP, with cached answers; steps by functions."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, cast
from urllib.parse import urlsplit

import numpy as np

from ctxbench.catalogs.agent_file import expects
from ctxbench.io.cache import checksum
from ctxbench.io.documents import iter_records
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    SelectorError,
    UserError,
    check_range,
    merge_equal_faults,
    raise_faults,
)
from ctxbench.io.files import Closing, cache_dir, make_folder, read_bytes, readable
from ctxbench.io.secrets import shown_arguments, shown_url
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray, firsts
from ctxbench.model.candidates import BY_FUNCTION, Candidates, Rule, reranked
from ctxbench.model.formats import Source as Origin, validate
from ctxbench.model.requests import Batch, Query
from ctxbench.model.resources import CHAT, EMBEDDER, OLLAMA, Resources, kind_of
from ctxbench.model.strategies import Strategy, later
from ctxbench.pipelines.features import RETRIEVED
from ctxbench.search.chunking import js_trim
from ctxbench.search.dense import DEPTH, ranked_by
from ctxbench.search.embedders import PYTHON
from ctxbench.selectors.callable import CallableSource, function_code, function_name, load_callable
from ctxbench.selectors.protocol import (
    EXTERNAL_BLOCKS,
    MOST_REPEATS,
    VERSION,
    Answer,
    AnswerReader,
    CommandOptions,
    HttpOptions,
    MalformedError,
    RawAnswer,
    Source,
    catalog_hash,
    loads,
    quoted,
    shown_path,
    table,
)
from ctxbench.selectors.selector import (
    EXTERNAL_KINDS as KINDS,
    Answers,
    Oracle,
    PipelineSelector,
    Selector,
    SizeMatched,
)

_log = logging.getLogger(__name__)


class AnswerCache:
    """Answers by catalog, request and repeat, in a file of JSON lines that only grows.

    Each record starts with the checksum of the rest of its line; one that does not fit is ignored and reported. How
    many were reported is a record, too, so that each is reported once.
    A record is written with one system call behind a line end of its own, so that a process that is killed spoils
    no record but the one that it is writing. Several processes may write at once.
    """

    def __init__(self, path: Path) -> None:
        """Read what is there; a missing file is an empty cache, and `unwritable` says why another cannot be read."""
        self._path = path
        self.unwritable = ""
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            lines = []
        except OSError as error:
            lines = []
            self.unwritable = error.strerror or type(error).__name__
        written = [line for line in lines[:-1] if line]  # behind the last line end somebody may be writing
        records = [record for line in written if (record := self._record(line)) is not None]
        answer_records = [record for record in records if "said" not in record]
        self._answers: dict[str, Any] = {
            record["key"]: record["answer"] for record in answer_records
        }  # the last one of a key
        failed = len(written) - len(records)
        if failed > max((record["said"] for record in records if "said" in record), default=0):
            n = failed + len(answer_records)
            _log.warning(Message("selectors.answers-damaged", failed=failed, n=n, path=path))
            self._append({"said": failed})

    @classmethod
    def of(cls, folder: Path, identity: str) -> AnswerCache:
        """The cache of one selector and build.

        Args:
            folder: where such caches are, `cache_dir() / "answers"`.
            identity: everything that decides the answers; only its SHA-256 is used.
        """
        return cls(folder / f"{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()}-2.jsonl")

    def forget(self) -> None:
        """Use no answer that was read from the file; those that are put in their place are written behind them."""
        self._answers.clear()

    def get(self, batch: Batch, row: int, repeat: int) -> Any:
        """The answer kept for a request, or None."""
        return self._answers.get(_key(batch, row, repeat))

    def put(self, batch: Batch, row: int, repeat: int, answer: Any) -> None:
        """Keep an answer. If the disk is full or read-only, `unwritable` says so, and no more is written."""
        key = _key(batch, row, repeat)
        if self.unwritable or key in self._answers:
            return
        self._answers[key] = answer
        self._append({"key": key, "answer": answer})

    def _append(self, record: dict[str, Any]) -> None:
        rest = json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode("ascii")[1:]
        try:
            make_folder(self._path.parent)
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, b"\n" + self._start(rest) + rest + b"\n")
            finally:
                os.close(handle)
        except OSError as error:
            self.unwritable = error.strerror or type(error).__name__

    def _record(self, line: bytes) -> dict[str, Any] | None:
        """What a line holds; None if it is not as it was written, or nested too deep to be read."""
        start = len(self._start(b""))
        if line[:start] != self._start(line[start:]):
            return None
        try:
            return cast("dict[str, Any]", loads(line))
        except MalformedError:
            return None

    def _start(self, rest: bytes) -> bytes:
        """What the line of a record starts with: a checksum of the rest, and of whose answers the file holds."""
        return b'{"checksum":"%s",' % checksum(self._path.name, rest).encode()


def _key(batch: Batch, row: int, repeat: int) -> str:
    parts = [catalog_hash(batch, row), batch.requests[row].as_dict(), repeat]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()


_ANSWERING = ("items", "ranking", "error")  # an answer has one of them


class FileSource(Source):
    """Answers from a file, read whole when the object is made.

    Every query asked for must be answered in it; a query without an answer is an error of that query.
    """

    def __init__(self, path: Path | str, *, base: Path | None = None) -> None:
        """Read the file.

        Args:
            path: JSON lines, or a list of answers; blank lines are ignored.
            base: what a relative path is relative to, and what the path is shown relative to; default: the
                working directory.

        Raises:
            StorageError: the file is missing or cannot be read.
            InputError: the file is empty; no line is an answer; lines that are no JSON object with a query id, or
                queries that are answered twice: all of them, with line and column, equal ones once.
        """
        base = Path.cwd() if base is None else base
        self._path = readable(base / path, repeatedly=True)  # for each time that a selector is made
        self._display_path = shown_path(Path(path), base)
        self._sha256 = hashlib.sha256(read_bytes(self._path)).hexdigest()
        self._lines, self._answers = _read(self._path)
        self._requested: set[str] = set()

    def describe(self) -> dict[str, Any]:
        """The file and its SHA-256 (without a byte order mark)."""
        return {"answers": self._display_path, "sha256": self._sha256}

    def ask(self, batch: Batch, rows: Sequence[int]) -> list[RawAnswer]:
        """The answers that the file holds for some requests."""
        replies = []
        for row in rows:
            query = batch.requests[row].id
            self._requested.add(query)
            if query in self._answers:
                replies.append(
                    RawAnswer(answer=self._answers[query], where=f"{self._display_path}, line {self._lines[query]}")
                )
            else:
                message = Message("selectors.file-without-query", file=self._display_path, n=len(self._answers))
                replies.append(RawAnswer(error=message))
        return replies

    def unknown(self, queries: Iterable[str]) -> tuple[str, ...]:
        """The queries that the file answers and that are not among `queries`, in file order."""
        ids = set(queries)
        return tuple(query for query in self._answers if query not in ids)

    def notes(self) -> dict[str, Any]:
        """How many of the answers no request has asked for yet, and the first ten of their queries."""
        left = self.unknown(self._requested)
        return {"answers_not_asked_for": len(left), "first_not_asked_for": list(left[:10])} if left else {}

    def forget_notes(self) -> None:
        """Forget which answers were asked for."""
        self._requested.clear()


def _read(path: Path) -> tuple[dict[str, int], dict[str, Any]]:
    """Line and answer by query id."""
    faults: list[Fault] = []
    lines: dict[str, int] = {}
    answers: dict[str, Any] = {}
    objects: list[Mapping[str, Any]] = []
    for number, text in iter_records(path, faults):
        try:
            answer = loads(text)
        except MalformedError as error:
            message = Message("selectors.malformed-answer-line", error=error)
            faults.append(Fault(message, path, number, error.column))
            continue
        if not isinstance(answer, dict):
            faults.append(Fault(Message("selectors.answer-malformed", got=quoted(answer)), path, number, 1))
            continue
        objects.append(answer)
        query = answer.get("query")
        if not isinstance(query, str):
            faults.append(Fault(Message("selectors.query-malformed", got=quoted(query)), path, number, 1))
        elif query in lines:
            message = Message("selectors.query-answered-twice", query=query, line=lines[query])
            faults.append(Fault(message, path, number))
        else:
            lines[query] = number
            answers[query] = answer
    if not objects and not faults:
        raise InputError([Fault(Message("selectors.answers-empty"), path)])
    if objects and not any(name in answer for answer in objects for name in _ANSWERING):
        names = list(dict.fromkeys(quoted(name) for answer in objects for name in answer))[:8]
        key = "selectors.evals-not-answers" if expects(objects) else "selectors.no-answers"
        raise InputError([Fault(Message(key, names=names), path)])
    raise_faults(merge_equal_faults(sorted(faults, key=lambda fault: fault.line)), subject="answers")
    return lines, answers


def ask_anew(selectors: Iterable[Selector]) -> None:
    """Let external selectors use no answers that were kept before, as a service may change under one build id."""
    for selector in selectors:
        if isinstance(selector, External):
            selector.anew = True


def all_empty(name: str, dataset: str) -> str:
    """The warning that a selector offers nothing for any query of a dataset."""
    return Message("selectors.all-answers-empty", selector=name, dataset=dataset)


_SILENCE = 15.0  # seconds without an answer until it is logged
_AGAIN = 60.0  # seconds until the next message, also about another query
_LOOK = 1.0  # seconds between two checks


class Patience:
    """Watches what a source waits for, and logs it at most once per minute."""

    def __init__(self, name: str, source: Source) -> None:
        """Watch a source.

        Args:
            name: what the selector is called.
            source: whose `waiting_for` is looked at, from another thread.
        """
        self._name = name
        self._source = source
        self._logged_at = -math.inf

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Log what is waited for while the block runs."""
        done = threading.Event()
        threading.Thread(target=self._watch, args=(done,), daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def _watch(self, done: threading.Event) -> None:
        while not done.wait(min(_LOOK, _SILENCE)):
            waits = self._source.waiting_for()
            current = time.perf_counter()
            if waits is None or current - waits.since < _SILENCE or current - self._logged_at < _AGAIN:
                continue
            self._logged_at = current
            values = {"selector": quoted(self._name), "query": quoted(waits.query), "limit": waits.limit}
            _log.warning(Message("selectors.no-answer-yet", **values, seconds=current - waits.since))


class External(Closing):
    """An external selector.

    A failure, a time-out or an answer that is none is an error of its query (`Answers.errors`) and never stops the
    rest; where several queries in a row get no answer at all, the rest is not asked (`CircuitBreaker`). Use it in a
    `with` block, or `close` it, to end processes and connections.

    Attributes:
        name: the name in tables.
        notes: what a person should know of the answers so far, as JSON.
        first_unranked: the first query so far whose answer had no ranking; empty where none had none.
        anew: whether answers that were kept before the first request are not used; new ones replace them.
    """

    def __init__(self, source: Source, *, name: str, repeats: int = 1, cache: Path | None = None) -> None:
        """Make a selector from a source.

        Args:
            source: asks the selector; closed with this object.
            name: not empty.
            repeats: how often each query is asked, 1 to 100. The first answer is used; queries whose answers
                differ are counted in `notes`.
            cache: the folder that answers are kept in under the build id that the source reports; None keeps none.

        Raises:
            ParameterError: name or repeats are out of range.
        """
        if not name:
            raise ParameterError("name must be a text that is not empty")
        check_range("repeats", repeats, 1, MOST_REPEATS)
        self.name = name
        self.first_unranked = ""
        self._source = source
        self._patience = Patience(name, source)
        self._repeats = repeats
        self._folder = cache
        self._cache: AnswerCache | None = None
        self.anew = False
        self._reader: AnswerReader | None = None
        self._counts: Counter[str] = Counter()
        self._builds: set[str] = set()

    def describe(self) -> dict[str, Any]:
        """The protocol's version and what the source says of itself; no secrets, no absolute paths.

        Raises:
            SelectorError: a source that must be asked for its build id cannot be reached.
        """
        return {"protocol": VERSION, **self._source.describe(), "repeats": self._repeats}

    @property
    def notes(self) -> dict[str, Any]:
        """What a user should know of the answers so far, as JSON; empty if there is nothing.

        Counts of queries: `unstable` (repeats differ in anything), `unstable_items` (in the items chosen),
        `without_ranking`, `without_scores`, `from_cache`; `session_items_named`: items offered that the session
        holds already. `builds`: all that answered. Beside them the notes of the source.
        """
        notes: dict[str, Any] = {name: count for name, count in self._counts.items() if count}
        if self._repeats > 1:
            notes |= {name: self._counts[name] for name in ("unstable", "unstable_items")}
            notes["repeats"] = self._repeats
        if self._builds:
            notes["builds"] = sorted(self._builds)
        if self._cache is not None and self._cache.unwritable:
            notes["cache_not_written"] = self._cache.unwritable
        return {**notes, **self._source.notes()}

    def take_notes(self) -> dict[str, Any]:
        """Return `notes` and reset them: for a runner that stores them by dataset."""
        notes = self.notes
        self._counts.clear()
        self._builds.clear()
        self._source.forget_notes()
        return notes

    @contextmanager
    def watched(self, on_answer: Callable[[], None]) -> Iterator[None]:
        """Call a function after each answer inside the block, if the answers come singly."""
        self._source.on_answer = on_answer
        try:
            yield
        finally:
            self._source.on_answer = None

    def select(self, batch: Batch, *, time: int = 0) -> Answers:
        """Ask for every request of the batch.

        Args:
            batch: the requests.
            time: how often they were asked before; an answer kept from one time is not given at another.

        The answers to each request are those of the request alone. `ranked` is True if every request that was
        answered got a ranking; `scored` if every one that got items got scores. The query's chunks are the whole
        texts; a blank request has none.
        """
        rows = range(len(batch))
        self._reader = reader = AnswerReader(batch, previous=self._reader)
        first, replies = self._ask(batch, rows, reader, repeat=time * self._repeats)
        answers = {row: answer for row, answer in first.items() if isinstance(answer, Answer)}
        if time == 0:
            self._repeat(batch, reader, answers)
        unranked = [row for row, answer in answers.items() if not answer.ranked]
        if unranked and not self.first_unranked:
            self.first_unranked = batch.requests[min(unranked)].id
        for answer in answers.values():
            self._counts["without_ranking"] += not answer.ranked
            self._counts["without_scores"] += bool(answer.item) and answer.score is None
            self._counts["session_items_named"] += answer.n_in_session
            if answer.build is not None:
                self._builds.add(answer.build)
        return Answers(
            query=Query.of_chunks(batch, [[r.text] if js_trim(r.text) else [] for r in batch.requests]),
            candidates=table(batch, answers),
            ranked=all(answer.ranked for answer in answers.values()),
            scored=all(answer.score is not None for answer in answers.values() if answer.item),
            errors={row: answer for row, answer in first.items() if isinstance(answer, str)},
            seconds=np.array([replies[row].seconds for row in rows], dtype=np.float64),
        )

    @property
    def keeps_answers(self) -> bool:
        """Whether an answer may be one that was kept, of an earlier call."""
        return self._folder is not None

    @property
    def function(self) -> CallableSource | None:
        """The function that it calls; None if it is no callable."""
        return self._source if isinstance(self._source, CallableSource) else None

    def bound(self, values: Mapping[str, Any]) -> External:
        """The same selector, with values of the parameters of its function; itself if there are none."""
        if self.function is None or not values:
            return self
        return External(self.function.bound(values), name=self.name, repeats=self._repeats)

    def close(self) -> None:
        """End processes and connections; may be called twice."""
        self._source.close()

    def _ask(
        self, batch: Batch, rows: Sequence[int], reader: AnswerReader, *, repeat: int
    ) -> tuple[dict[int, Answer | str], dict[int, RawAnswer]]:
        """Answers or errors by row, from the cache or the source, and the replies that they were read from."""
        if not rows:
            return {}, {}
        try:
            cache = self._opened()
        except SelectorError as error:
            replies = {row: RawAnswer(error=str(error)) for row in rows}
            return {row: self._read(reader, row, replies[row]) for row in rows}, replies
        cached = {row: cache.get(batch, row, repeat) for row in rows} if cache is not None else {}
        replies = {row: RawAnswer(answer=answer) for row, answer in cached.items() if answer is not None}
        self._counts["from_cache"] += len(replies) if repeat == 0 else 0
        missing = [row for row in rows if row not in replies]
        with self._patience.watching() if missing else nullcontext():
            fresh = dict(zip(missing, self._source.ask(batch, missing), strict=True)) if missing else {}
        replies |= fresh
        read = {row: self._read(reader, row, replies[row]) for row in rows}
        if cache is not None:
            for row in missing:
                if isinstance(read[row], Answer):
                    cache.put(batch, row, repeat, fresh[row].answer)
        return read, replies

    def _read(self, reader: AnswerReader, row: int, reply: RawAnswer) -> Answer | str:
        try:
            return reader.read(row, reply)
        except SelectorError as error:
            return str(error)

    def _opened(self) -> AnswerCache | None:
        if self._cache is None and self._folder is not None:
            identity = self._source.kept_under()
            if identity is not None:
                self._cache = AnswerCache.of(self._folder, f"{VERSION}\n{identity}")
                if self.anew:
                    self._cache.forget()
        return self._cache

    def _repeat(self, batch: Batch, reader: AnswerReader, answers: Mapping[int, Answer]) -> None:
        """Ask again what was answered, and count the queries that are answered differently."""
        unstable: set[int] = set()
        unstable_items: set[int] = set()
        for repeat in range(1, self._repeats):
            repeated, _ = self._ask(batch, sorted(answers), reader, repeat=repeat)
            for row, answer in answers.items():
                repeated_answer = repeated[row]
                offer, chosen = (
                    (_offer(repeated_answer), repeated_answer.chosen)
                    if isinstance(repeated_answer, Answer)
                    else (None, None)
                )
                unstable |= {row} if offer != _offer(answer) else set()
                unstable_items |= {row} if chosen != answer.chosen else set()
        self._counts["unstable"] += len(unstable)
        self._counts["unstable_items"] += len(unstable_items)


class FileSelector(External):
    """A file of answers; `FileSource` says what it must hold."""

    def __init__(self, path: Path | str, *, name: str | None = None, base: Path | None = None) -> None:
        """Read the file, whole.

        Args:
            path: JSON lines of answers.
            name: default: the file's name without its ending.
            base: what a relative path is relative to, and is shown relative to; default: the working directory.

        Raises:
            StorageError: it is missing or cannot be read.
            InputError: lines are malformed, or a query is answered twice; all such lines.
        """
        source = FileSource(path, base=base)
        super().__init__(source, name=name or Path(path).stem)
        self._file = source

    def unknown(self, queries: Iterable[str]) -> tuple[str, ...]:
        """The queries that the file answers and that are not among `queries`, in file order."""
        return self._file.unknown(queries)


def is_ours(selector: Selector) -> bool:
    """Whether a selector runs pipelines, or takes what the labels require; those on one dataset share steps."""
    if isinstance(selector, SizeMatched):
        return is_ours(selector.like) and is_ours(selector.ranking)
    return isinstance(selector, PipelineSelector | Oracle)


def is_sendable(selector: Selector, embedder: str) -> bool:
    """Whether a worker process may be asked in place of this one, if the selector can be pickled.

    Not so are commands and HTTP selectors, which ask several queries at a time themselves, pipelines that ask a
    language model, what uses an embedder that was given in Python, and what takes the sizes of an external selector.

    Args:
        selector: any.
        embedder: that of the resource `embedder`.
    """
    if isinstance(selector, SizeMatched):
        return is_ours(selector) and all(is_sendable(entry, embedder) for entry in (selector.like, selector.ranking))
    if isinstance(selector, PipelineSelector):
        models = [embedder if use == EMBEDDER else use.partition(":")[2] for use in selector.pipeline.uses]
        of_python = any(model.startswith(f"{PYTHON}:") for model in models)
        return not of_python and not any(kind_of(use) in (CHAT, OLLAMA) for use in selector.pipeline.uses)
    return not isinstance(selector, External) or isinstance(selector, FileSelector) or selector.function is not None


def external_from_config(config: Mapping[str, Any], *, base: Path) -> External:
    """Make a selector from its block in an experiment.

    Args:
        config: exactly one of `answers` (a path), `callable` (`module:function` or `file.py:function`), `command` (a
            list, or one text that is split into words) and `url`; with it the fields of `AnswersBlock`,
            `CallableBlock`, `CommandBlock` or `UrlBlock`.
        base: the folder that paths are relative to, and that a command runs in.

    Raises:
        ParameterError: options are unknown, missing, of the wrong type or out of range; all of them.
        StorageError, InputError: the file of answers is missing, or malformed.
    """
    kind, options, wrong = checked_options(config)
    if not wrong:
        return _make_external(kind, options, base)
    if kind in options:
        try:
            _make_external(kind, options, base).close()
        except UserError as error:
            wrong.append(str(error))
    raise ParameterError("; ".join(wrong))


def checked_options(config: Mapping[str, Any]) -> tuple[str, dict[str, Any], list[str]]:
    """The kind of a selector's block, the options of it that are right in form, and what is wrong with the others.

    Raises:
        ParameterError: it has none or several of the kinds.
    """
    kind = _kind(config)
    content, faults = validate(EXTERNAL_BLOCKS[kind], config, Origin(), partial=True)
    valid = set() if content is None else content.model_fields_set
    options = {key: value for key, value in config.items() if key in valid}
    return kind, options, [fault.message for fault in faults]


def _kind(config: Mapping[str, Any]) -> str:
    kinds = [kind for kind in KINDS if kind in config]
    if len(kinds) != 1:
        got = ", ".join(kinds) or (f"none, only {', '.join(map(str, config))}" if config else "none")
        raise ParameterError(f"a selector of your own needs exactly one of {', '.join(KINDS)}; got {got}")
    return kinds[0]


def _make_external(kind: str, block: Mapping[str, Any], base: Path) -> External:
    if kind == "answers":
        return FileSelector(block["answers"], name=external_name(kind, block), base=base)
    options = {key: value for key, value in block.items() if key not in (kind, "name", "repeats", "cache")}
    source: Source
    cache = None
    if kind == "callable":
        function = load_callable(block["callable"], base=base)
        source = CallableSource(function, spec=block["callable"], base=base, **options)
    elif kind == "command":
        from ctxbench.selectors.command import CommandSource

        source = CommandSource(block["command"], options=CommandOptions(**options), base=base)
    else:
        from ctxbench.selectors.http import HttpSource

        source = HttpSource(block["url"], options=HttpOptions(**options))
        cache = cache_dir() / "answers" if block.get("cache", True) else None
    return External(source, name=external_name(kind, block), repeats=block.get("repeats", 1), cache=cache)


def external_name(kind: str, block: Mapping[str, Any]) -> str:
    """The name in the block, or else one from the file, function, program or host."""
    if "name" in block:
        return str(block["name"])
    value = block[kind]
    if kind == "command":
        parts = shown_arguments(value.split() if isinstance(value, str) else value)
        value = next((part for part in parts[1:] if Path(part).suffix and not part.startswith("-")), parts[0])
    if kind == "callable":
        return str(value).rpartition(":")[2]
    return urlsplit(shown_url(value)).netloc or shown_url(value) if kind == "url" else Path(value).stem


def _offer(answer: Answer) -> tuple[Any, ...]:
    """The parts of an answer that repeats are compared by: rows, scores, choice."""
    return (answer.item, answer.score, answer.chosen, answer.ranked)


ResultsOf: TypeAlias = Callable[[Query, Candidates, int], Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class ByFunction(Strategy):
    """What steps share that a function of Python decides: it is called once per request.

    Attributes:
        function: the function; descriptions have its name, and in `code` a hash of its file.
    """

    function: Callable[..., Any] = field(metadata={"written": function_name})

    @cached_property
    def code(self) -> str:
        """The name of the function and a hash of its file; see `function_code`."""
        return function_code(self.function)

    def ask(self, query: Query, request: int, read: Callable[[Any, Any], Any], *arguments: Any) -> Any:
        """What the function returns for a request.

        Args:
            query, request: of which request.
            read: makes an array of it; called with what the function returns, and its last argument.
            arguments: of the function, which gets copies.

        Raises:
            SelectorError: it fails, or `read` does; names the query.
        """
        try:
            return read(self.function(*map(copy, arguments)), arguments[-1])
        except Exception as error:
            reason = error if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            values = {"function": function_name(self.function), "query": query.batch.ids[request], "reason": reason}
            raise SelectorError(Message("selectors.function-failed", **values)) from error


def _numbers(answer: Any, results: Sized, *, skip: bool = False) -> FloatArray:
    """Finite numbers, one per result, shape (n_results,).

    Raises:
        ParameterError: it is something else; with `skip`, None and NaN are NaN.
    """
    values = np.asarray(answer, dtype=np.float64)
    wrong = np.isinf(values) if skip else ~np.isfinite(values)
    if values.shape != (len(results),):
        raise ParameterError(Message("selectors.function-shape", n=len(results), shape=values.shape))
    for index in np.flatnonzero(wrong).tolist():
        raise ParameterError(Message("selectors.function-number", value=values[index], n=index + 1))
    return values


def _by_order(answer: Any, results: Sequence[Any]) -> FloatArray:
    """The numbers of a `Ranker`, or those of the order that it returns, shape (n_results,)."""
    answer = list(answer)
    order = {id(result): -index for index, result in enumerate(answer)}
    reordered = order.keys() == set(map(id, results))
    return _numbers([order[id(result)] for result in results] if reordered else answer, results)


def _offered(answer: Any, scores: Sized) -> BoolArray:
    """Which of the candidates are offered, shape (n,), from their number or a mask.

    Raises:
        ParameterError: it is neither.
    """
    offered = np.asarray(answer)
    if offered.shape == () and offered.dtype.kind in "iu" and offered >= 0:
        offered = np.arange(len(scores)) < offered
    if offered.shape != (len(scores),) or offered.dtype.kind != "b":
        raise ParameterError(Message("selectors.function-cut", n=len(scores), got=answer))
    return offered


@dataclass(frozen=True)
class Rerank(ByFunction):
    """Orders what is offered to a request by the scores of a function; what it does not score comes behind.

    Attributes:
        top: how many it scores, the first ones; 0 = all.
        keeps: the column that keeps the scores before.
        results: for a `Ranker`, from query, candidates and the index of a request to its results, one per offered row,
            in order; None = the function takes texts.
    """

    top: int = 0
    keeps: str = later(RETRIEVED)
    results: ResultsOf | None = field(default=None, metadata={"later": True})
    orders: ClassVar[bool] = True
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"top": (0, math.inf)}

    def __call__(self, query: Query, candidates: Candidates, _: Resources) -> Candidates:
        """Replace the scores by those of the function."""
        score, searched = candidates.score.copy(), candidates.tier > 0
        all_rows = candidates.by_request(searched)
        for request, offered in candidates.by_request(candidates.chosen & searched).items():
            rows = offered[: self.top or None]
            score[rows] = scores = self._scores(query, candidates, request, rows)
            rest = np.setdiff1d(all_rows[request], rows)
            ranks = np.cumsum(firsts(candidates.tier[rest], candidates.score[rest]))  # equal ones stay equal
            score[rest] = scores.min() - max(1.0, abs(scores.min())) * ranks / len(all_rows[request])
        before = candidates.columns.get(self.keeps, candidates.score)
        return reranked(candidates.with_columns(**{self.keeps: before}), score)

    def _scores(self, query: Query, candidates: Candidates, request: int, rows: IntArray) -> FloatArray:
        """The scores of some offered rows of a request, shape (n_rows,)."""
        if self.results is not None:
            return cast("FloatArray", self.ask(query, request, _by_order, self.results(query, candidates, request)))
        texts = tuple(query.batch.catalog[item].search_text for item in candidates.item[rows].tolist())
        return cast("FloatArray", self.ask(query, request, _numbers, query.batch.requests[request].text, texts))


@dataclass(frozen=True)
class RetrieveByFunction(ByFunction):
    """Finds the items to which a function gives a score.

    Attributes:
        depth: how many items are found for a request, >= 1.
    """

    depth: int = DEPTH
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"depth": (1, math.inf)}

    def __call__(self, query: Query, _: Resources) -> Candidates:
        """Score what each request may get."""
        batch = query.batch
        texts = [item.search_text for item in batch.catalog]
        scores = np.full((len(batch), len(texts)), np.nan)
        for request, mask in enumerate(batch.eligible):
            if mask.any():
                texts_allowed = tuple(text for text, allowed in zip(texts, mask.tolist(), strict=True) if allowed)
                scores[request, mask] = self.ask(
                    query, request, partial(_numbers, skip=True), batch.requests[request].text, texts_allowed
                )
        return ranked_by(list(scores), ~np.isnan(scores), depth=self.depth)


@dataclass(frozen=True)
class CutByFunction(ByFunction):
    """Offers as many items of a ranking, or those of them, as a function of their scores says."""

    def __call__(self, query: Query, candidates: Candidates, _: Resources) -> Candidates:
        """Exclude the others."""
        out = np.zeros(len(candidates), dtype=np.bool_)
        for request, rows in candidates.by_request(candidates.chosen & candidates.ranked).items():
            out[rows] = ~self.ask(query, request, _offered, candidates.score[rows])
        return candidates.exclude(out, Rule.of(BY_FUNCTION, function=function_name(self.function)))
