"""External selectors: anything that answers requests, by file, Python callable, command or HTTP."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from ctxbench.core.errors import ParameterError, SelectorError, UserError, check_range, suggest
from ctxbench.core.query import Query
from ctxbench.core.registry import check_type
from ctxbench.core.requests import Batch
from ctxbench.io.cache import cache_dir
from ctxbench.selectors.answer_cache import AnswerCache
from ctxbench.selectors.answers import Answer, AnswerReader, table
from ctxbench.selectors.answers_file import FileSource
from ctxbench.selectors.callable import CallableSource, load_callable
from ctxbench.selectors.patience import Patience
from ctxbench.selectors.protocol import VERSION, RawAnswer, Source, schema
from ctxbench.selectors.selector import EXTERNAL_KINDS as KINDS
from ctxbench.selectors.selector import Answers
from ctxbench.text.original_rules import js_trim
from ctxbench.text.secrets import shown_arguments, shown_url

if TYPE_CHECKING:
    from ctxbench.selectors.command import CommandOptions
    from ctxbench.selectors.http_options import HttpOptions

__all__ = ["KINDS", "External", "FileSelector", "external_from_config", "schema"]

MOST_REPEATS = 100
_OPTIONS: dict[str, dict[str, Any]] = {  # besides the name, and the fields of `_settings`
    "answers": {"answers": str},
    "callable": {"callable": str, "repeats": int, "send": str, "batch": bool},
    "command": {"command": list | str, "repeats": int},
    "url": {"url": str, "repeats": int, "cache": bool},
}


class External:
    """An external selector.

    A failure, a time-out or an answer that is none is an error of its query (`Answers.errors`) and never stops the
    rest; where several queries in a row get no answer at all, the rest is not asked (`CircuitBreaker`). Use it in a
    `with` block, or `close` it, to end processes and connections.

    Attributes:
        name: the name in tables.
        notes: what a person should know of the answers so far, as JSON.
        first_unranked: the first query so far whose answer had no ranking; empty where none had none.
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
        self._counts: dict[str, int] = {}
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
            notes |= {name: self._counts.get(name, 0) for name in ("unstable", "unstable_items")}
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
        reader = AnswerReader(batch)
        first, replies = self._ask(batch, rows, reader, repeat=time * self._repeats)
        answers = {row: answer for row, answer in first.items() if isinstance(answer, Answer)}
        if time == 0:
            self._repeat(batch, reader, answers)
        unranked = [row for row, answer in answers.items() if not answer.ranked]
        if unranked and not self.first_unranked:
            self.first_unranked = batch.requests[min(unranked)].id
        for answer in answers.values():
            self._count("without_ranking", not answer.ranked)
            self._count("without_scores", bool(answer.item) and answer.score is None)
            self._count("session_items_named", answer.n_in_session)
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

    def close(self) -> None:
        """End processes and connections; may be called twice."""
        self._source.close()

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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
        self._count("from_cache", len(replies) if repeat == 0 else 0)
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
        self._count("unstable", len(unstable))
        self._count("unstable_items", len(unstable_items))

    def _count(self, name: str, amount: int) -> None:
        self._counts[name] = self._counts.get(name, 0) + int(amount)


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


def external_from_config(config: Mapping[str, Any], *, base: Path) -> External:
    """Make a selector from its block in an experiment.

    Args:
        config: exactly one of `answers` (a path), `callable` (`module:function` or `file.py:function`), `command` (a
            list, or one text that is split into words) and `url`; with it `name`, and for all but `answers`
            `repeats`; for `callable` `send` and `batch`; for `command` the fields of `CommandOptions`; for `url` those
            of `HttpOptions`, and `cache` (default true: keep answers under the build id that the endpoint reports).
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
    allowed = _options(kind)
    wrong = []
    options: dict[str, Any] = {}
    for key, value in config.items():
        if key not in allowed:
            wrong.append(f"a selector by {kind} has no option {key!r}{suggest(str(key), allowed)}")
            continue
        try:
            check_type(key, value, allowed[key])
            options[key] = value
        except ParameterError as error:
            wrong.append(str(error))
    return kind, options, wrong


def _kind(config: Mapping[str, Any]) -> str:
    kinds = [kind for kind in KINDS if kind in config]
    if len(kinds) != 1:
        got = ", ".join(kinds) or (f"none, only {', '.join(map(str, config))}" if config else "none")
        raise ParameterError(f"a selector of your own needs exactly one of {', '.join(KINDS)}; got {got}")
    return kinds[0]


def _options(kind: str) -> dict[str, Any]:
    """The options of a kind, with their types."""
    settings = _settings(kind)
    setting_types = {} if settings is None else typing.get_type_hints(settings)
    return {"name": str, **_OPTIONS[kind], **setting_types}


def _settings(kind: str) -> type[CommandOptions | HttpOptions] | None:
    """The class whose fields are options of a kind; processes and sockets take a while to import."""
    if kind == "command":
        from ctxbench.selectors.command import CommandOptions

        return CommandOptions
    if kind == "url":
        from ctxbench.selectors.http_options import HttpOptions

        return HttpOptions
    return None


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
        from ctxbench.selectors.command import CommandOptions, CommandSource

        source = CommandSource(block["command"], options=CommandOptions(**options), base=base)
    else:
        from ctxbench.selectors.http import HttpSource
        from ctxbench.selectors.http_options import HttpOptions

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
    if kind == "url":
        return urlsplit(shown_url(value)).netloc
    return Path(value).stem


def _offer(answer: Answer) -> tuple[Any, ...]:
    """The parts of an answer that repeats are compared by: rows, scores, choice."""
    return (answer.item, answer.score, answer.chosen, answer.ranked)
