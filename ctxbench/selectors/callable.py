"""A Python callable as a selector, run so that its code cannot end or disturb the process."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import secrets
import signal
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from numbers import Integral, Real
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any, BinaryIO, NamedTuple, NoReturn, TextIO, cast

from ctxbench.io.errors import Message, ParameterError, check_all_known, check_choice, raise_first
from ctxbench.io.files import read_bytes
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch
from ctxbench.selectors.protocol import (
    SENDS,
    RawAnswer,
    Source,
    Waiting,
    by_catalog,
    catalog_items,
    is_json,
    item_row,
    quoted,
    request_body,
    shown_path,
)

_LINE = " ({}, line {})"  # file and line, as they follow a message
_STREAMS = ("stdout", "stderr", "__stdout__", "__stderr__")


class EndedError(SystemExit):
    """`os._exit` was called by code of others; the message says where."""


@contextlib.contextmanager
def confined() -> Iterator[None]:
    """Run code of others: `exit_held`, `stdout_to_stderr`, and no Ctrl-C is lost.

    Raises:
        EndedError: as `exit_held`.
        KeyboardInterrupt: Ctrl-C was pressed inside, also if it was caught there; the second ends the process.
    """
    _EXIT.was_used = True
    with _InterruptGuard(), exit_held(), stdout_to_stderr():
        yield


def leave() -> None:
    """Let this process end with our code and our data, if code of others ran in it; else do nothing.

    Threads of theirs, and what they registered to run at the end, run on: they may have processes and folders to clean
    up. But from now on `os._exit` is held, and what they print goes to standard error.
    """
    if not _EXIT.was_used:
        return
    _EXIT.hold()
    to = 2
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):  # nobody reads it any more, or it is closed: what is left goes nowhere
        to = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError):  # standard error is closed
        os.dup2(to, 1)


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send what is written to standard output inside to standard error: by `print`, by C code, by child processes.

    Standard output is for our data. The redirection holds for the whole process while it lasts. What is closed or
    replaced inside, of `sys.stdout`, `sys.stderr` and their descriptors, is as it was afterwards.
    """
    streams = {name: getattr(sys, name) for name in _STREAMS}
    for stream in filter(None, (sys.stdout, sys.stderr)):  # a program without a console has none
        stream.flush()
    copies = {descriptor: copy for descriptor in (1, 2) if (copy := _copied(descriptor)) is not None}
    lent = None if sys.stderr is None else _StreamProxy(sys.stderr)
    try:
        if len(copies) == 2:
            os.dup2(2, 1)
        for name in _STREAMS:
            setattr(sys, name, lent)
        yield
    finally:
        for name, stream in streams.items():
            setattr(sys, name, stream)
        for descriptor, copy in copies.items():
            os.dup2(copy, descriptor)
            os.close(copy)
        if lent is not None:
            lent.flush()


def _copied(descriptor: int) -> int | None:
    """A copy of a file descriptor; None if it is not open."""
    try:
        return os.dup(descriptor)
    except OSError:
        return None


class _StreamProxy:
    """A stream, lent to code of others, which may write to it; what else they do to it does nothing to the stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bytes: BinaryIO | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> BinaryIO:
        """A separate buffer: a text stream that wraps it closes it when the stream is gone."""
        if self._bytes is None or self._bytes.closed:
            try:
                self._bytes = open(self._stream.fileno(), "wb", closefd=False)  # noqa: SIM115 - it is lent
            except OSError:  # a stream in memory
                return self._stream.buffer
        return self._bytes

    def detach(self) -> BinaryIO:
        """The buffer; the stream keeps its own."""
        return self.buffer

    def flush(self) -> None:
        """Flush the stream and its buffer."""
        self._stream.flush()
        if self._bytes is not None and not self._bytes.closed:
            self._bytes.flush()

    def close(self) -> None:
        """What was written is flushed; the stream is not ours to close."""
        self.flush()


class _ExitGuard:
    """Replaces `os._exit` of this process while user code runs, or until `leave` if that code has called it.

    Attributes:
        was_used: whether any ran.
    """

    def __init__(self) -> None:
        self.was_used = False
        self._lock, self._inside = threading.Lock(), 0
        self._process = os.getpid()
        self._real: Callable[[int], NoReturn] = os._exit  # a child's own way out
        self._called: str = ""
        self._stays = False  # they may call it again

    @contextlib.contextmanager
    def replacing(self) -> Iterator[None]:
        """Take the place of `os._exit`; the last to leave puts it back, unless a thread may call it again."""
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._process = os.getpid()
                self._put(self._refuse)
        try:
            yield
        finally:
            with self._lock:
                called, self._called = self._called, ""
                self._inside -= 1
                self._stays = self._stays or (bool(called) and _own_process())
                if not self._inside and not self._stays:
                    self._put(self._real)
        if called:  # in another thread, or it was caught
            raise EndedError(called)

    def hold(self) -> None:
        """Take the place of `os._exit` for good."""
        with self._lock:
            self._inside += 1
            self._process = os.getpid()
            self._put(self._refuse)

    def _put(self, function: Callable[[int], NoReturn]) -> None:
        for module in filter(None, map(sys.modules.get, ("os", os.name))):  # `posix` or `nt` has it, too
            vars(module)["_exit"] = function

    def end(self, status: int, message: str) -> NoReturn:
        """End this process, with a last message on standard error."""
        with contextlib.suppress(Exception):  # it may be closed, or in the midst of a write
            sys.stderr.flush()
        with contextlib.suppress(OSError):
            os.write(2, message.encode())
        self._real(status)

    def _refuse(self, status: int) -> NoReturn:
        if os.getpid() != self._process:
            self._real(status)
        location = _code_location(cast(FrameType, inspect.currentframe()).f_back)
        # no Message: the catalogue may be unreadable while the process ends
        self._called = f"os._exit({status!r}) was called{location}, which would have ended ctxbench"
        raise EndedError(self._called)


class _InterruptGuard:
    """Notes Ctrl-C while code of others runs, which may catch the KeyboardInterrupt and go on.

    On leaving it is raised again, with the lines where it came; at a second Ctrl-C the process ends at once, with 130.
    Only in the main thread, where signals arrive, and only where Python's own handler is in place: a program around
    us that handles or ignores Ctrl-C goes on to do so, and the outermost of several notes for all.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._installed = False
        self._noted: KeyboardInterrupt | None = None

    def __enter__(self) -> None:
        """Take the place of Python's own handler."""
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._installed = True
            signal.signal(signal.SIGINT, self._note)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the handler, whatever is there now, and raise what was noted."""
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._noted is not None and not isinstance(error, KeyboardInterrupt):
            raise self._noted from None

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a child does as it always does
            raise KeyboardInterrupt
        if self._noted is not None:
            _EXIT.end(130, "stopped at once (second Ctrl-C)\n")
        self._noted = KeyboardInterrupt()
        raise self._noted


def _own_process() -> bool:
    """Whether `ctxbench` was started, and not a program that uses this package: it ends by `leave`."""
    started = getattr(sys.modules.get("__main__"), "__spec__", None)
    return "ctxbench.__main__" in sys.modules or getattr(started, "name", "") == "ctxbench.__main__"


def _code_location(frame: FrameType | None) -> str:
    """File and line of a call, in brackets; without folders, which messages of runs must not hold."""
    return "" if frame is None else _LINE.format(Path(frame.f_code.co_filename).name, frame.f_lineno)


_EXIT = _ExitGuard()
exit_held = _EXIT.replacing
"""A context manager: inside, `os._exit` raises an `EndedError` in place of ending the process.

A process that ends so ends with the exit code that was asked for, and 0 would be read as our verdict. May be nested. In
child processes `os._exit` does what it always does. What ends the process from C, by a signal, or by putting another
program in its place, is not held. The error comes in whatever thread it was called, also if whoever called it went on.
"""


def signature_fault(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    batch: bool,
    base: Path,
    values: Mapping[str, Any] | None = None,
) -> str:
    """Why a function cannot be called with these arguments, and where it is; empty if it can.

    Args:
        function: that was called.
        arguments: the request, or requests, and the items where any are sent.
        batch: several requests at once.
        base: what its file is shown relative to.
        values: of its own parameters.
    """
    try:
        inspect.signature(function).bind(*arguments, **(values or {}))
    except TypeError as error:
        why = str(error)
    except ValueError:  # it tells no signature
        return ""
    else:
        return ""
    named, first = inspect.unwrap(function), "requests" if batch else "request"
    code = getattr(named, "__code__", None)
    return Message(
        "selectors.callable-signature",
        name=getattr(named, "__name__", type(named).__name__),
        call=f"({first}, items)" if len(arguments) > 1 else f"({first})",
        error=why,
        first=first,
        location=_LINE.format(shown_path(Path(code.co_filename), base), code.co_firstlineno) if code else "",
    )


class NotAnAnswerError(Exception):
    """The function returned something that is no answer."""


def one_answer(query: str, result: Any) -> Any:
    """Ids, rows or an answer, as an answer."""
    if isinstance(result, Mapping):
        return _plain({"query": query, **result})
    if isinstance(result, str | bytes | set | frozenset) or not isinstance(result, Iterable):
        raise NotAnAnswerError(f"the callable returned {quoted(result)}; expected a list of ids, or an answer as dict")
    items = [{"id": _plain(row)} if isinstance(row, str) else _plain(row) for row in result]
    return {"query": query, "items": items}


_PLAIN = (str, int, float, bool, type(None))


class _Shown:
    """A placeholder for a value that JSON does not have; its `repr` looks like the value."""

    def __init__(self, value: Any) -> None:
        self._text = quoted(value)

    def __repr__(self) -> str:
        return self._text


def _plain(value: Any) -> Any:
    """A value as JSON would hold it, so that to read it later runs none of the user's code."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, dict | Mapping):
        return {  # without a call for each text: rows of items have little else
            key if type(key) is str else _plain(key) if isinstance(key, _PLAIN) else _Shown(key): entry
            if type(entry) is str
            else _plain(entry)
            for key, entry in value.items()
        }
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_plain(entry) for entry in value]
    return _Shown(value)


def batch_answers(ids: Sequence[str], result: Any) -> list[RawAnswer]:
    """The results of a batch, as replies in the order of `ids`."""
    if isinstance(result, Mapping):
        if extra := [key for key in result if key not in ids]:
            raise NotAnAnswerError(f"the callable answered query {quoted(extra[0])}, which it was not asked")
        return [
            RawAnswer(answer=one_answer(query, result[query]))
            if query in result
            else RawAnswer(error=Message("selectors.callable-skipped-query"))
            for query in ids
        ]
    if not isinstance(result, Sequence) or isinstance(result, str | bytes):
        raise NotAnAnswerError(f"the callable returned {quoted(result)}; expected a list of answers, or a dict by id")
    if len(result) != len(ids):
        raise NotAnAnswerError(f"the callable returned {len(result)} answers to {len(ids)} requests; expected as many")
    return [RawAnswer(answer=one_answer(query, entry)) for query, entry in zip(ids, result, strict=True)]


class CallableSource(Source):
    """Calls `function(request, items)` once per request, or `function(requests, items)` once per batch.

    `request` is a fresh dict (`request_body`). `items` is what the request may see: the same list at every call for
    requests that see the same, one after the other, so that an index of it can be kept. An item may be the same dict in
    several lists. Neither may be changed, and a change makes every query that was asked with that list an error. What
    the function prints goes to standard error. It returns the ids chosen, best first (or rows of id and score), or an
    answer as a dict, in which `query` may be left out. There is no time limit: use a command for that.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        spec: str | None = None,
        send: str = "items",
        batch: bool = False,
        base: Path | None = None,
    ) -> None:
        """Wrap a function; `load_callable` finds one by name.

        Args:
            function: any callable but a class or a coroutine function.
            spec: where `load_callable` found it; default: its own module and name, if it is a function of a module.
                Of a partial object with JSON values as keyword arguments it is that of its function, beside its values.
                Any other callable (an instance, a lambda) is described as no other: its answers are never reused.
            send: what it is called with besides the request: `items`, `ids`, or `nothing` (then `function(request)`).
            batch: call it once for several requests; it returns a list in their order, or a dict by query id.
            base: what paths are shown relative to.

        Raises:
            ParameterError: it cannot be called so.
        """
        check_choice("send", send, SENDS)
        check_function(function)
        self._values: dict[str, Any] = {}
        if isinstance(function, functools.partial) and not function.args and is_json(function.keywords):
            self._values, function = dict(function.keywords), function.func
        self._function, self._spec, self._send, self._batch = function, spec, send, batch
        self._base = Path.cwd() if base is None else base
        self._source = _source_of(function)
        self._description = _described(function, spec or _spec_of(function), self._source, self._base)
        self._catalog, self._rows = "", _ItemRows()
        self._items: list[Any] | None = None
        self._waiting: Waiting | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what was made for a catalog, and without a function that can be loaded again by its name."""
        emptied = {"_catalog": "", "_items": None, "_rows": _ItemRows(), "on_answer": None}
        return {**self.__dict__, **emptied, **({} if self._spec is None else {"_function": None})}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load the function again.

        Raises:
            ParameterError: it cannot be loaded, or its file is another one here.
        """
        self.__dict__.update(state)
        if self._spec is not None:
            self._function = load_callable(self._spec, base=self._base)
            description = _described(self._function, self._spec, self._source, self._base)
            if description.get("sha256") != self._description.get("sha256"):
                raise ParameterError(Message("selectors.callable-other-file", callable=self._spec, folder=self._base))

    def describe(self) -> dict[str, Any]:
        """The name, and the SHA-256 of the named file and of the modules imported from its folder, by their names.

        As they were when this object was made. Of a callable without a name there is `unnamed`, which no other has.
        """
        values = {"values": dict(self._values)} if self._values else {}
        return {**self._description, "send": self._send, "batch": self._batch, **values}

    def defaults(self, names: Iterable[str]) -> dict[str, Any]:
        """The defaults of some of its parameters behind the request and the items; those without one are left out.

        Raises:
            ParameterError: it does not take one of them.
        """
        signature = list(inspect.signature(self._function).parameters.values())
        named = {
            entry.name: entry
            for entry in signature[1 if self._send == "nothing" else 2 :]
            if entry.kind in (entry.POSITIONAL_OR_KEYWORD, entry.KEYWORD_ONLY)
        }
        if not any(entry.kind == entry.VAR_KEYWORD for entry in signature):
            check_all_known(f"parameter of {self._description['callable'].rpartition(':')[2]}", names, named)
        defaults = {name: named[name].default for name in names if name in named}
        return {name: value for name, value in defaults.items() if value is not inspect.Parameter.empty} | self._values

    def bound(self, values: Mapping[str, Any]) -> CallableSource:
        """The same function, called with these values of its own parameters as keyword arguments."""
        bound = object.__new__(CallableSource)  # `copy.copy` would load the function again
        bound.__dict__.update({**self.__dict__, "_values": {**self._values, **values}})
        return bound

    def waiting_for(self) -> Waiting | None:
        """As of `Source`."""
        return self._waiting

    def ask(self, batch: Batch, rows: Sequence[int]) -> list[RawAnswer]:
        """Call the function; what it raises is an error of the query."""
        replies: dict[int, RawAnswer] = {}
        for catalog, catalog_rows in by_catalog(batch, rows).items():
            replies |= zip(catalog_rows, self._ask_with(catalog, batch, catalog_rows), strict=True)
        return [replies[row] for row in rows]

    def _ask_with(self, catalog: str, batch: Batch, rows: Sequence[int]) -> list[RawAnswer]:
        """Ask one or more requests that get the same catalog, of this hash."""
        if self._catalog != catalog:
            self._items = self._rows.of_request(batch, rows[0], self._send)
            self._catalog = catalog
        replies = self._ask_all(batch, rows) if self._batch else [self._ask_one(batch, row) for row in rows]
        if not self._rows.unchanged(self._items):
            self._catalog, self._rows = "", _ItemRows()
            return [RawAnswer(error=Message("selectors.callable-changed-items"))] * len(rows)
        return replies

    def _ask_one(self, batch: Batch, row: int) -> RawAnswer:
        request, began = batch.requests[row], time.perf_counter()
        reply = self._call(request_body(batch, row, self._send), lambda result: one_answer(request.id, result))
        seconds = time.perf_counter() - began
        if self.on_answer is not None:
            self.on_answer()
        return reply if reply.error else RawAnswer(answer=reply.answer, seconds=seconds)

    def _ask_all(self, batch: Batch, rows: Sequence[int]) -> list[RawAnswer]:
        ids = [batch.requests[row].id for row in rows]
        bodies = [request_body(batch, row, self._send) for row in rows]
        called = self._call(bodies, lambda result: batch_answers(ids, result))
        return [called] * len(rows) if called.error else cast("list[RawAnswer]", called.answer)

    def _call(self, argument: Any, use: Callable[[Any], Any]) -> RawAnswer:
        """Call the function and make something of the result; both run the user's code."""
        arguments = (argument,) if self._items is None else (argument, self._items)
        first = argument[0] if self._batch else argument
        self._waiting = Waiting(first["id"], time.perf_counter(), Message("selectors.callable-without-limit"))
        try:
            with confined():
                return RawAnswer(answer=use(self._function(*arguments, **self._values)))
        except (NotAnAnswerError, EndedError) as error:
            return RawAnswer(error=str(error))
        except KeyboardInterrupt as error:
            error.add_note(f"the callable was stopped{_location(error, self._source, self._base)}")
            raise
        except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is its query's error
            if isinstance(error, TypeError) and (
                fault := signature_fault(
                    self._function, arguments, batch=self._batch, base=self._base, values=self._values
                )
            ):
                return RawAnswer(error=fault)
            where = "" if isinstance(error, SyntaxError) else _location(error, self._source, self._base)
            return RawAnswer(error=f"the callable raised {_message(error)}{where}")
        finally:
            self._waiting = None


class _Row(NamedTuple):
    """An item as a function gets it, and an equal dict that it does not get, by which a change is seen."""

    item: Item
    shown: dict[str, Any]
    copy: dict[str, Any]


class _ItemRows:
    """The items of catalogs that differ by little, as a function gets them: each is made a dict once.

    To compare lists of dicts with their copies costs less than a thousandth of a hash over them, since both hold the
    same text objects.
    """

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._rows: dict[int, _Row] = {}  # by the id of the item's object, which lives as long as its row
        self._copies: list[Any] | None = None

    def of_request(self, batch: Batch, row: int, send: str) -> list[Any] | None:
        """What the function gets of the catalog of a request."""
        if self._catalog is not batch.catalog:
            self._catalog = batch.catalog
            present = set(map(id, batch.catalog))
            self._rows = {key: row for key, row in self._rows.items() if key in present}
        self._copies = catalog_items(batch, row, send, row_of=lambda item: self._row(item).copy)
        return catalog_items(batch, row, send, row_of=lambda item: self._row(item).shown)

    def _row(self, item: Item) -> _Row:
        if id(item) not in self._rows:
            copy = _plain(item_row(item))
            self._rows[id(item)] = _Row(item, shown=_plain(copy), copy=copy)
        return self._rows[id(item)]

    def unchanged(self, items: list[Any] | None) -> bool:
        """Whether the list that `of_request` returned last is as it was."""
        try:
            return bool(items == self._copies)
        except Exception:  # noqa: BLE001 - of a value that the function put there
            return False


_PREFIX = "ctxbench_selector_"


def load_callable(spec: str, *, base: Path | None = None) -> Callable[..., Any]:
    """Import `module:name` or `file.py:name`; `name` may be dotted.

    Args:
        spec: what to import. A file is relative to `base`, and imports its neighbours.
        base: a folder that modules are looked for in too; default: the working directory.

    Raises:
        ParameterError: it cannot be found, or importing it failed (says where).
    """
    base = Path.cwd() if base is None else base
    target, _, name = spec.rpartition(":")
    if not target or not name:
        raise ParameterError(f"callable must be module:function or file.py:function, got {spec!r}")
    if (path := _file_of(target, base)) is not None and not path.is_file():
        raise ParameterError(f"callable {spec!r}: there is no file {target}")
    if (folder := str((base if path is None else path.parent).absolute())) not in sys.path:
        sys.path.append(folder)  # behind everything that is installed
    try:
        with confined():
            loaded: Any = importlib.import_module(target) if path is None else _module_of(path)
    except EndedError as error:
        raise ParameterError(f"callable {spec!r}: while {target} was imported, {error}") from error
    except KeyboardInterrupt as error:
        error.add_note(f"{target} was being imported{_location(error, path, base, imported=True)}")
        raise
    except BaseException as error:
        where = _location(error, path, base, imported=True)
        if isinstance(error, ModuleNotFoundError) and not where:
            raise ParameterError(f"callable {spec!r}: {error.msg}") from error  # it is the named module that is missing
        raised = f"{_message(error)}{'' if isinstance(error, SyntaxError) else where}"
        raise ParameterError(f"callable {spec!r}: importing {target} raised {raised}") from error
    for part in name.split("."):
        if not hasattr(loaded, part):
            raise ParameterError(f"callable {spec!r}: {target} has no {name!r}")
        loaded = getattr(loaded, part)
    if not callable(loaded):
        raise ParameterError(f"callable {spec!r}: {name} is not callable, it is {quoted(loaded)}")
    return cast("Callable[..., Any]", loaded)


def _file_of(target: str, base: Path) -> Path | None:
    """The file that the first part of a specification names; None if it names a module."""
    return base / target if target.endswith(".py") else None


class _AsWritten(SourceFileLoader):
    """Compiles a file each time: stored bytecode is out of date where an edit keeps the size and the second."""

    def path_stats(self, path: str) -> Mapping[str, Any]:  # noqa: ARG002 - as in the base class
        raise OSError


def _module_of(path: Path) -> ModuleType:
    _forget_edited(path.parent)
    digest = hashlib.sha256(str(path.absolute()).encode("utf-8", "surrogatepass") + read_bytes(path)).hexdigest()
    if (name := f"{_PREFIX}{digest[:16]}") in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path, loader=_AsWritten(name, str(path)))
    if spec is None or spec.loader is None:
        raise ParameterError(f"{path.name} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up while it is imported
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    for neighbour, (_, sha256) in _neighbours(path.parent).items():
        _AS_IMPORTED.setdefault(neighbour, sha256)
    return module


_AS_IMPORTED: dict[str, str] = {}  # SHA-256 by module name, of the neighbours of selectors when they were imported


def _forget_edited(folder: Path) -> None:
    """Let the modules of a folder be imported anew if one of them was edited since."""
    neighbours = _neighbours(folder, include_selectors=True)
    if any(_AS_IMPORTED.get(name, sha256) != sha256 for name, (_, sha256) in neighbours.items()):
        for name in neighbours:
            del sys.modules[name]
            _AS_IMPORTED.pop(name, None)


def _neighbours(folder: Path, *, include_selectors: bool = False) -> dict[str, tuple[Path, str]]:
    """File and SHA-256, by name, of the modules that were imported from a folder or from below it.

    Not among them: what is installed below it (an environment in a project's folder), ctxbench, the program that
    runs, and the files that selectors were named in (unless `own`).
    """
    below = _real(str(folder))
    roots = {_real(path) for path in sysconfig.get_paths().values()} - {below}
    installed = tuple(root for root in roots if root.startswith(below))
    origins = {
        name: getattr(module, "__file__", None)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] not in ("__main__", "ctxbench")
        and (include_selectors or not name.startswith(_PREFIX))
    }
    files = {name: _real(origin) for name, origin in origins.items() if isinstance(origin, str)}
    return {
        name: (path, hashlib.sha256(read_bytes(path)).hexdigest())
        for name, file in files.items()
        if file.startswith(below) and not file.startswith(installed) and (path := Path(file)).is_file()
    }


@functools.cache  # there are thousands of modules, whose files stay where they are
def _real(path: str) -> str:
    """The real path with a separator at the end: paths below it begin with that."""
    return str(Path(path).resolve() / "_")[:-1]


def check_function(function: object) -> None:
    """Check that something can be called as a plain function.

    Raises:
        ParameterError: it is none, or a class or a coroutine function.
    """
    raise_first(
        (
            not callable(function) or inspect.isclass(function),
            f"callable must be a function or an object that can be called, got {function!r}",
        ),
        (
            inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function),
            "callable must be a plain function, got an async one; wrap it in asyncio.run",
        ),
    )


def function_name(function: Callable[..., Any]) -> str:
    """Module and name of a function, of that of a partial object, or of the class of an object that can be called."""
    function = function.func if isinstance(function, functools.partial) else function
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', None) or ''}:{named.__qualname__}"


def function_code(function: Callable[..., Any]) -> str:
    """The name of a function, and a hash of its file and of the modules that were imported from beside it.

    Each call gives another hash for a function that no module holds by its name: what is in it cannot be known.
    """
    description = _described(function, _spec_of(function), _source_of(function), Path.cwd())
    digest = hashlib.sha256(json.dumps(description, sort_keys=True, default=repr).encode()).hexdigest()
    return f"{description['callable']} {digest[:16]}"


def _source_of(function: Callable[..., Any]) -> Path | None:
    named = inspect.unwrap(function)
    try:
        file = inspect.getsourcefile(named if hasattr(named, "__code__") else type(named))
    except TypeError:
        return None
    return Path(file) if file is not None and Path(file).is_file() else None


def _spec_of(function: Callable[..., Any]) -> str | None:
    """`module:name` of a function that a module holds by that name; None for any other callable."""
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None) or ""
    if not inspect.isfunction(function) or module not in sys.modules:
        return None
    value: Any = sys.modules[module]
    value = functools.reduce(lambda owner, part: getattr(owner, part, None), name.split("."), value)
    return f"{module}:{name}" if value is function else None


def _described(function: Callable[..., Any], spec: str | None, source: Path | None, base: Path) -> dict[str, Any]:
    """What decides the answers of a callable, as far as it can be known."""
    target, _, name = (spec or "").rpartition(":")
    file = _file_of(target, base)
    if spec is not None and file is None and (module_file := getattr(sys.modules.get(target), "__file__", None)):
        file = Path(module_file)
    if file is None or not file.is_file():
        return {
            "callable": function_name(function),
            "unnamed": Message("selectors.callable-without-name", id=secrets.token_hex(8)),
        }
    if target.startswith(_PREFIX) or target.endswith(".py"):
        target = shown_path(file, base)
    modules = {name: sha256 for name, (path, sha256) in _neighbours(file.parent).items() if path != file.resolve()}
    if source is not None and source.resolve() != file.resolve():  # imported into the named file from elsewhere
        modules.setdefault(function.__module__, hashlib.sha256(read_bytes(source)).hexdigest())
    return {
        "callable": f"{target}:{name}",
        "sha256": hashlib.sha256(read_bytes(file)).hexdigest(),
        "modules": dict(sorted(modules.items())),
    }


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {error!s:.500}" if str(error) else type(error).__name__


def _location(error: BaseException, source: Path | None, base: Path, *, imported: bool = False) -> str:
    """The deepest line of the user's file that led to an error, in brackets; empty if there is none.

    Args:
        error: what was raised.
        source: the file that is named; where the error comes from no line of it, any file but ours will do.
        base: what paths are shown relative to.
        imported: it was raised by an import, so that any file of the user's is as good as the one that is named.
    """
    skipped = (str(Path(__file__).parent), "<frozen")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(skipped)]
    user_frames = [
        frame
        for frame in frames
        if (not _installed(frame.filename) if imported else source is not None and Path(frame.filename) == source)
    ]
    relevant = user_frames or ([] if imported and isinstance(error, ModuleNotFoundError) else frames)
    return _LINE.format(shown_path(Path(relevant[-1].filename), base), relevant[-1].lineno) if relevant else ""


def _installed(file: str) -> bool:
    roots = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return file.startswith("<") or any(map(Path(file).is_relative_to, roots))
