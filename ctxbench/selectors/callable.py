"""A Python callable as a selector: a function of the request and the items that returns ids or an answer."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import json
import secrets
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ctxbench.core.errors import ParameterError, check_choice
from ctxbench.core.requests import Batch
from ctxbench.io.files import read_bytes
from ctxbench.selectors.callable_results import NotAnAnswerError, batch_answers, one_answer
from ctxbench.selectors.protocol import (
    SENDS,
    RawAnswer,
    Source,
    Waiting,
    by_catalog,
    catalog_items,
    quoted,
    request_body,
    shown_path,
)
from ctxbench.selectors.user_code import EndedError, confined, signature_fault


class CallableSource(Source):
    """Calls `function(request, items)` once a request, or `function(requests, items)` once a batch.

    `request` is a fresh dict (`request_body`). `items` is what the request may see: the same list at every call for
    requests that see the same, one after the other, so that an index of it can be kept. It must not be changed, and a
    change makes every query that was asked with it an error. What
    the function prints goes to standard error. It returns the ids chosen, best first (or rows of id and score), or
    an answer as a dict, in which `query` may be left out. There is no time limit: use a command for that.
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
                A callable that is neither (a partial object, an instance, a lambda) is described as no other,
                because what is in it cannot be: its answers are never taken for those of another run.
            send: what it is called with besides the request: `items`, `ids`, or `nothing` (then `function(request)`).
            batch: call it once for several requests; it returns a list in their order, or a dict by query id.
            base: what paths are shown relative to.

        Raises:
            ParameterError: it cannot be called so.
        """
        check_choice("send", send, SENDS)
        if not callable(function) or inspect.isclass(function):
            raise ParameterError(f"callable must be a function or an object that can be called, got {function!r}")
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise ParameterError("callable must be a plain function, got an async one; wrap it in asyncio.run")
        self._function = function
        self._send, self._batch = send, batch
        self._base = Path.cwd() if base is None else base
        self._source = _source_of(function)
        self._description = _described(function, spec or _spec_of(function), self._source, self._base)
        self._catalog = ""
        self._items: list[Any] | None = None
        self._items_hash = ""
        self._waiting: Waiting | None = None

    def describe(self) -> dict[str, Any]:
        """The name, and the SHA-256 of the named file and of the modules imported from its folder, by their names.

        As they were when this object was made. Of a callable without a name there is `unnamed`, which no other has.
        """
        return {**self._description, "send": self._send, "batch": self._batch}

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
            # Through JSON, so that the function never holds a part of the catalog itself.
            self._items = json.loads(json.dumps(catalog_items(batch, rows[0], self._send)))
            self._items_hash = _hash(self._items)
            self._catalog = catalog
        replies = self._ask_all(batch, rows) if self._batch else [self._ask_one(batch, row) for row in rows]
        if _hash(self._items) != self._items_hash:
            self._catalog = ""
            return [RawAnswer(error="the callable changed the items that it was given; let it work on a copy")] * len(
                rows
            )
        return replies

    def _ask_one(self, batch: Batch, row: int) -> RawAnswer:
        request = batch.requests[row]
        began = time.perf_counter()
        reply = self._call(request_body(batch, row, self._send), lambda result: one_answer(request.id, result))
        if reply.error:
            return reply
        return RawAnswer(answer=reply.answer, seconds=time.perf_counter() - began)

    def _ask_all(self, batch: Batch, rows: Sequence[int]) -> list[RawAnswer]:
        ids = [batch.requests[row].id for row in rows]
        bodies = [request_body(batch, row, self._send) for row in rows]
        called = self._call(bodies, lambda result: batch_answers(ids, result))
        if called.error:
            return [called] * len(rows)
        return cast("list[RawAnswer]", called.answer)

    def _call(self, argument: Any, use: Callable[[Any], Any]) -> RawAnswer:
        """Call the function and make something of the result; both run the user's code."""
        arguments = (argument,) if self._items is None else (argument, self._items)
        first = argument[0] if self._batch else argument
        self._waiting = Waiting(first["id"], time.perf_counter(), "a callable has no time limit, Ctrl-C stops it")
        try:
            with confined():
                return RawAnswer(answer=use(self._function(*arguments)))
        except (NotAnAnswerError, EndedError) as error:
            return RawAnswer(error=str(error))
        except KeyboardInterrupt as error:
            error.add_note(f"the callable was stopped{_location(error, self._source, self._base)}")
            raise
        except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is its query's error
            if isinstance(error, TypeError) and (
                fault := signature_fault(self._function, arguments, batch=self._batch, base=self._base)
            ):
                return RawAnswer(error=fault)
            where = "" if isinstance(error, SyntaxError) else _location(error, self._source, self._base)
            return RawAnswer(error=f"the callable raised {_message(error)}{where}")
        finally:
            self._waiting = None


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
    path = _file_of(target, base)
    if path is not None and not path.is_file():
        raise ParameterError(f"callable {spec!r}: there is no file {target}")
    _importable(base if path is None else path.parent)
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
    name = f"{_PREFIX}{digest[:16]}"
    if name in sys.modules:
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
    modules = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("__main__", "ctxbench") or (name.startswith(_PREFIX) and not include_selectors):
            continue
        origin = getattr(module, "__file__", None)
        file = _real(origin) if isinstance(origin, str) else ""
        if not file.startswith(below) or file.startswith(installed):
            continue
        path = Path(file)
        if path.is_file():
            modules[name] = (path, hashlib.sha256(read_bytes(path)).hexdigest())
    return modules


@functools.cache  # there are thousands of modules, whose files stay where they are
def _real(path: str) -> str:
    """The real path with a separator at the end: paths below it begin with that."""
    return str(Path(path).resolve() / "_")[:-1]


def _importable(folder: Path) -> None:
    """Let modules of `folder` be found, behind everything that is installed."""
    name = str(folder.absolute())
    if name not in sys.path:
        sys.path.append(name)


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
    for part in name.split("."):
        value = getattr(value, part, None)
    return f"{module}:{name}" if value is function else None


def _described(function: Callable[..., Any], spec: str | None, source: Path | None, base: Path) -> dict[str, Any]:
    """What decides the answers of a callable, as far as it can be known."""
    target, _, name = (spec or "").rpartition(":")
    file = _file_of(target, base)
    if spec is not None and file is None:
        module_file = getattr(sys.modules.get(target), "__file__", None)
        file = Path(module_file) if module_file else None
    if file is None or not file.is_file():
        named = function if hasattr(function, "__qualname__") else type(function)
        return {
            "callable": f"{getattr(named, '__module__', None) or ''}:{named.__qualname__}",
            "unnamed": f"{secrets.token_hex(8)}: cannot be told from others; name a function as module:function",
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
    message = str(error)
    return f"{type(error).__name__}: {message[:500]}" if message else type(error).__name__


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
    if imported:
        user_frames = [frame for frame in frames if not _installed(frame.filename)]
    else:
        user_frames = [frame for frame in frames if source is not None and Path(frame.filename) == source]
    relevant = user_frames or ([] if imported and isinstance(error, ModuleNotFoundError) else frames)
    return f" ({shown_path(Path(relevant[-1].filename), base)}, line {relevant[-1].lineno})" if relevant else ""


def _installed(file: str) -> bool:
    roots = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return file.startswith("<") or any(map(Path(file).is_relative_to, roots))


def _hash(items: list[Any] | None) -> str:
    return hashlib.sha256(json.dumps(items, sort_keys=True, default=repr).encode()).hexdigest()
