"""Run units of work in processes of this machine or of a cluster, through joblib's backends.

`open_pool` gives a `Pool`; `Pool.run` yields the results of units as they finish. Data that many units need, such as a
dataset, is published once by its SHA-256, and units open it as a file: workers of this machine find it in the cache,
others get it from a folder or object store that all see, or else together with a unit from this process.

A worker that is lost costs the units that it worked on: they run again, so a unit must be a function of its arguments
and its content alone. Before its first unit a worker compares its versions with those of this process.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import re
import signal
import socket
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ctxbench.io.errors import (
    Message,
    StorageError,
    UserError,
    check_range,
    first_few,
    install_command,
    raise_first,
)
from ctxbench.io.files import Closing, cache_dir, sweep_folder, write_atomic

U = TypeVar("U")
R = TypeVar("R")
Versions = Mapping[str, str]

SECONDS = 2.0  # of work that pay for the start of a process
_FOLDER = "work-1"  # of published content, in the cache folder
_AT_ONCE = 16  # units of each process whose arguments are made at once
_RESTARTS = 2  # without a result in between
_UNUSED = 172_800.0  # seconds after which content that nobody used is removed
_MOST_JOBS = 1024  # processes of one machine: more are a typing error
_LAST_PORT = 65535
_CONNECT = 10.0  # seconds within which a scheduler answers and has workers
_ON = re.compile(r"(dask|ray)(://[^\s/]+:\d{1,5})?")


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Where units of work run.

    Attributes:
        jobs: processes of this machine; None = as many as have 2 seconds of work each, 1 = in this process.
        on: `dask` or `ray`: a cluster of `jobs` workers on this machine, one for each core if `jobs` is None.
            `dask://HOST:PORT` or `ray://HOST:PORT`: all workers of that cluster. Empty: processes without a cluster.
        store: a folder, or a URL such as `s3://bucket/prefix`, that all workers see; empty = they get content from
            this process.

    Raises:
        ParameterError: a value is out of range, or `jobs` is set for a cluster that runs already.
    """

    jobs: int | None = None
    on: str = ""
    store: str = ""

    def __post_init__(self) -> None:
        if self.jobs is not None:
            check_range("jobs", self.jobs, 1, _MOST_JOBS)
        port = self.address.rpartition(":")[2] or 0
        raise_first(
            (self.on and (not _ON.fullmatch(self.on) or int(port) > _LAST_PORT), Message("io.workers-on", on=self.on)),
            (self.address and self.jobs is not None, Message("io.workers-jobs", on=self.on)),
        )

    @property
    def cluster(self) -> str:
        """The kind of cluster: `dask`, `ray`, or empty."""
        return self.on.partition(":")[0]

    @property
    def address(self) -> str:
        """HOST:PORT of a cluster that runs already; empty without one."""
        return self.on.partition("://")[2]

    def processes(self, seconds: float) -> int:
        """The number of workers for so many seconds of estimated work; 1 = do it in this process.

        With a cluster it does not depend on the work, and says nothing of the size of one that runs already.
        """
        if self.on and self.jobs is None:
            return max(2, cores())
        if self.jobs is not None or seconds < 2 * SECONDS:
            return self.jobs or 1
        return min(cores(), int(seconds / SECONDS))


def cores() -> int:
    """Processors that this process may use, by its affinity and the limits of its container."""
    import joblib

    return int(joblib.cpu_count())


def open_pool(workers: Workers, versions: Callable[[], Versions] = dict) -> Pool:
    """Start processes or a cluster, or connect to one; close the pool at the end.

    Args:
        workers: one for each core if `jobs` is None.
        versions: what decides results, such as `{"python": "3.11.7", "numpy": "2.4.0"}`. Each worker calls it as well,
            and is refused where an entry differs. Of Python's version major and minor count.

    Raises:
        UserError: the extra is not installed, no scheduler answers, or it has no workers or other versions.
    """
    pool = {"dask": _DaskPool, "ray": _RayPool}.get(workers.cluster, Pool)(workers, versions)
    try:
        pool.open()
    except ImportError as error:
        command = install_command(workers.cluster)
        raise UserError(Message("io.workers-extra", on=workers.on, why=error, command=command)) from error
    except BaseException:
        pool.close()
        raise
    return pool


class OptionalPool(Closing):
    """A pool that is opened with the first work that is worth it, and then takes all work.

    Args:
        workers: where units run; by default in this process.
        versions: as for `open_pool`.
    """

    def __init__(self, workers: Workers | None = None, versions: Callable[[], Versions] = dict) -> None:
        self._workers, self._versions = workers or Workers(jobs=1), versions
        self._pool: Pool | None = None

    def for_work(self, seconds: float) -> Pool | None:
        """The pool for so many seconds of estimated work; None = do it in this process."""
        workers = self._workers
        jobs = workers.jobs if workers.on else workers.processes(seconds)
        if self._pool is None and (workers.on or jobs != 1):
            self._pool = open_pool(replace(workers, jobs=jobs), self._versions)
        return self._pool

    def map(
        self, function: Callable[[Any], R], units: Sequence[U], *, make: Callable[[U], Any] = lambda unit: unit
    ) -> Iterator[R]:
        """Yield the function's result for each unit, in order.

        Units run in this process until those that remain, if they take as long, are worth a pool.

        Args:
            function, units: as for `Pool.run`.
            make: makes the function's argument of a unit, in this process, such as by reading files; few arguments
                are in memory at a time.

        Raises:
            UserError: as `Pool.run`.
        """
        spent = 0.0
        for n in range(len(units)):
            pool = self.for_work(spent / n * (len(units) - n) if n else 0.0)
            if pool is not None:
                size = _AT_ONCE * pool.size
                for first in range(n, len(units), size):
                    yield from _in_order(pool.run(function, [make(unit) for unit in units[first : first + size]]))
                return
            start = time.perf_counter()
            result = function(make(units[n]))
            spent += time.perf_counter() - start
            yield result

    def close(self) -> None:
        """End the processes, if there are any."""
        if self._pool is not None:
            self._pool.close()


def _in_order(outcomes: Iterator[tuple[int, R]]) -> Iterator[R]:
    """The results of `Pool.run` by their index, each as soon as those before it are there."""
    early: dict[int, R] = {}
    n = 0
    for index, result in outcomes:
        early[index] = result
        while n in early:
            yield early.pop(n)
            n += 1


class Pool(Closing):
    """Processes of this machine.

    Attributes:
        size: workers when it was opened.
    """

    _starting: threading.Thread | None = None

    def __init__(self, workers: Workers, versions: Callable[[], Versions]) -> None:
        self._workers = workers
        self._terms = _Terms(versions, dict(versions()), workers.store, platform.node())
        self._published: dict[str, None] = {}
        self.size = workers.jobs or cores()

    def open(self) -> None:
        """Start the cluster, or connect to it. Processes of this machine start and import modules in the background."""
        import joblib  # noqa: F401 - its modules import one another, so one thread imports them

        self._starting = threading.Thread(target=self._start_processes, daemon=True)
        self._starting.start()

    def _start_processes(self) -> None:
        from multiprocessing import resource_tracker as tracker

        from joblib.externals.loky.backend import resource_tracker

        with suppress(Exception):  # the first unit raises it again
            tracker.ensure_running()  # the start of a tracker unblocks signals
            resource_tracker.ensure_running()
            if hasattr(signal, "pthread_sigmask"):  # workers inherit it: a terminal sends Ctrl-C to them, too
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            list(self._outcomes(self._calls(int, [(index, "0") for index in range(self.size)], {}, {})))

    def close(self) -> None:
        """End the processes, also those that are just being started."""
        if self._starting is None or self._starting.ident is None:
            return  # Ctrl-C came first, perhaps in an import of joblib, which then fails when it is imported again
        self._starting.join()
        if self.size > 1:
            from joblib.externals.loky import get_reusable_executor

            get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)

    def publish(self, data: bytes) -> str:
        """Store data for units, which get its path by `content` and the key that is returned.

        Raises:
            StorageError: it cannot be written to the cache or the store.
        """
        if not self._published:
            _remove_unused()
        key = hashlib.sha256(data).hexdigest()
        if key not in self._published:
            _write_content(key, data)
            if self._workers.store:
                _write_stored(self._workers.store, key, data)
        self._published[key] = None
        return key

    def run(self, function: Callable[[U], R], units: Sequence[U]) -> Iterator[tuple[int, R]]:
        """Yield the index of each unit and the function's result, as units finish.

        Ctrl-C and closing the iterator end all work.

        Args:
            function: importable, or picklable by cloudpickle. It may run again for a unit, if a worker is lost.
            units: its arguments, picklable.

        Raises:
            UserError: a unit raised it; workers are lost again and again; a worker has other versions.
        """
        if self._starting is not None:
            self._starting.join()
        remaining, restarts = dict.fromkeys(range(len(units))), 0
        sent: dict[str, None] = {}  # content that workers lacked: as many units as there are workers carry it
        while remaining:
            lacked: dict[str, None] = {}
            calls = self._calls(function, [(index, units[index]) for index in remaining], sent, lacked)
            try:
                with warnings.catch_warnings(), closing(self._outcomes(calls)) as outcomes:
                    warnings.simplefilter("ignore")  # joblib warns of results that nobody takes
                    for index, result, lack, error in outcomes:
                        if lack:
                            lacked[lack] = None
                            continue
                        if error is not None:
                            raise error
                        restarts = 0
                        del remaining[index]
                        yield index, result
            except self._lost() as error:
                if (restarts := restarts + 1) > _RESTARTS:
                    raise UserError(Message("io.workers-lost", n=restarts, why=_reason(error))) from error
                self._renew(error)
            sent |= lacked

    def _calls(
        self,
        function: Callable[[U], R],
        units: Iterable[tuple[int, U]],
        sent: Mapping[str, None],
        lacked: Mapping[str, None],
    ) -> Iterator[Any]:
        """The calls for joblib; none after a worker was found to lack content, so that units need not travel twice."""
        from joblib import delayed

        for n, (index, unit) in enumerate(units):
            if lacked:
                return
            data = {key: _read_content(key) for key in sent} if n < self.size else {}
            yield delayed(_outcome)(function, unit, index, self._terms, data)

    def _outcomes(self, calls: Iterator[Any]) -> Generator[_Outcome, None, None]:
        """Run calls of `_outcome`, and yield what they return in any order."""
        from joblib import Parallel

        yield from Parallel(self.size, batch_size=1, return_as="generator_unordered", **self._backend())(calls)

    def _backend(self) -> dict[str, Any]:
        """Joblib's backend, and its options."""
        return {"backend": "loky", "initializer": _end_with_parent, "initargs": (os.getpid(),)}

    def _lost(self) -> tuple[type[Exception], ...]:
        """What is raised where a worker was lost."""
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        return (TerminatedWorkerError,)

    def _renew(self, error: Exception) -> None:
        """Replace lost workers after an error; loky and Ray do it when they are called again."""


def _end_with_parent(parent: int) -> None:
    """In a worker of loky: end when the process that started it is gone; a killed one cannot end its workers."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# For workers of Dask: they are ended by their parent, Ctrl-C or not, and say nothing of what they cannot close.
_QUIET = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.unraisablehook = lambda _: None
"""


class _DaskPool(Pool):
    """A cluster of Dask."""

    _client: Any = None
    _cluster: Any = None

    def open(self) -> None:
        import distributed

        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what it says is raised as well
        if not self._workers.address:
            self._start()
            return
        _require_listener(self._workers)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of versions, which are compared below
                self._client = distributed.Client(
                    f"tcp://{self._workers.address}", timeout=_CONNECT, set_as_default=False
                )
            self._client.wait_for_workers(1, timeout=_CONNECT)
        except (OSError, ValueError) as error:  # Dask's time limits are OSErrors
            raise UserError(Message("io.no-scheduler", on=self._workers.on, why=_reason(error))) from error
        self._check()
        self.size = sum(self._client.nthreads().values())

    def _check(self) -> None:
        """Refuse a scheduler or workers that could not read a unit.

        Raises:
            UserError: one has another Python, no ctxbench, or several threads.
        """
        here = {"python": platform.python_version(), "ctxbench": "installed"}
        hosts = self._client.get_versions(packages=["ctxbench"])
        for host, facts in {"scheduler": hosts["scheduler"], **hosts["workers"]}.items():
            package = "installed" if facts["packages"]["ctxbench"] else "not installed"
            _compare(host, {"python": facts["host"]["python"], "ctxbench": package}, here)
        for host, n in self._client.nthreads().items():
            if n > 1:
                raise UserError(Message("io.worker-threads", host=host, n=n))

    def _start(self) -> None:
        """Start a cluster on this machine."""
        import dask
        import distributed

        with dask.config.set({"distributed.scheduler.no-workers-timeout": f"{2 * _CONNECT} s"}):
            self._cluster = distributed.LocalCluster(
                n_workers=self.size,
                threads_per_worker=1,
                memory_limit=0,  # mapped files count as memory, for which it would kill workers
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
                preload=[_QUIET],
            )
        self._client = distributed.Client(self._cluster, set_as_default=False)

    def _renew(self, error: Exception) -> None:
        """Start the cluster of this machine anew if it has no workers; one that was killed is replaced by Dask."""
        from distributed import KilledWorker

        if self._cluster is not None and not isinstance(error, KilledWorker):
            self.close()
            self._start()

    def close(self) -> None:
        """End the connection, and the cluster if it was started here."""
        for opened in filter(None, (self._client, self._cluster)):
            opened.close()

    def _outcomes(self, calls: Iterator[Any]) -> Generator[_Outcome, None, None]:
        from concurrent.futures import CancelledError

        try:
            yield from super()._outcomes(calls)
        except CancelledError as error:
            raise UserError(Message("io.scheduler-lost", on=self._workers.on, why=_reason(error))) from error
        except ImportError as error:  # of a worker that came later, and cannot read a unit
            raise UserError(Message("io.worker-error", host=self._workers.on, why=error)) from error

    def _backend(self) -> dict[str, Any]:
        from joblib._dask import DaskDistributedBackend

        class Backend(DaskDistributedBackend):  # type: ignore[misc]
            """Joblib's, which waits for ever for a task that failed outside of its function, as by lost workers.

            It also does in this process what is for a cluster of one worker; others may join it.
            """

            def effective_n_jobs(self, n_jobs: int) -> int:
                return max(2, int(super().effective_n_jobs(n_jobs)))

            def submit(self, func: Any, callback: Any = None) -> Any:
                future = super().submit(func, callback)
                future.add_done_callback(lambda done: done.exception() and callback(done.exception()))
                return future

        return {"backend": Backend(client=self._client)}

    def _lost(self) -> tuple[type[Exception], ...]:
        from distributed import KilledWorker
        from distributed.scheduler import NoWorkerError

        return (KilledWorker, NoWorkerError, TimeoutError)


class _RayPool(Pool):
    """A cluster of Ray."""

    def open(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else a cluster that is started reports its use
        import ray

        quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        try:
            if self._workers.address:
                _require_listener(self._workers)
                ray.init(self._workers.on, **quiet)
                self.size = int(ray.cluster_resources().get("CPU", 0))
            else:
                ray.init("local", num_cpus=self.size, include_dashboard=False, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(Message("io.no-scheduler", on=self._workers.on, why=_reason(error))) from error
        if not self.size:
            raise UserError(Message("io.no-scheduler", on=self._workers.on, why=Message("io.no-workers")))

    def close(self) -> None:
        """End the connection, and the cluster if it was started here."""
        if "ray" not in sys.modules:
            return  # Ctrl-C came while it was imported
        import ray
        from ray.util.multiprocessing.pool import ResultThread

        for thread in threading.enumerate():  # one that is left would start a cluster of its own
            if isinstance(thread, ResultThread):
                thread.join(_CONNECT)
        ray.shutdown()

    def _backend(self) -> dict[str, Any]:
        from ray.util.joblib.ray_backend import RayBackend

        class Backend(RayBackend):  # type: ignore[misc]
            """Ray's, which calls back as results come, so that they can be had one by one.

            Joblib says that it cannot, since after an interruption late results reach the next call; each of ours has
            a backend of its own.
            """

            supports_return_generator = True

        return {"backend": Backend()}

    def _lost(self) -> tuple[type[Exception], ...]:
        from ray.exceptions import RayError

        return (RayError,)


def _require_listener(workers: Workers) -> None:
    """Check that a server listens at the address of a cluster.

    Raises:
        UserError: nothing does, or it waits for the client to begin, which no scheduler does.
    """
    host, _, port = workers.address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT) as connection:
            connection.recv(1)
    except (OSError, OverflowError) as error:
        raise UserError(Message("io.no-scheduler", on=workers.on, why=error)) from error


@dataclass(frozen=True)
class _Terms:
    """What a worker must know to run units.

    Attributes:
        versions, expected: the function, and what it gave in the process that opened the pool.
        store: where workers find content.
        host: that of the process that opened the pool.
    """

    versions: Callable[[], Versions]
    expected: Versions
    store: str
    host: str


_Outcome: TypeAlias = tuple[int, Any, str, UserError | None]  # index, result, key of content that is lacking, error


class _LackError(StorageError):
    """Published content is not on this machine."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(Message("io.content-missing", key=key, folder=_path(key).parent))


_stores: list[str] = []  # in a worker: where it finds content


def _outcome(function: Callable[[U], R], unit: U, index: int, terms: _Terms, data: Mapping[str, bytes]) -> _Outcome:
    """In a worker: run a unit."""
    host = platform.node()
    _stores[:] = [terms.store] if terms.store else []
    try:
        _compare(host, terms.versions(), terms.expected)
        for key, content_bytes in data.items():
            _write_content(key, content_bytes)
        return index, function(unit), "", None
    except _LackError as error:
        return index, None, error.key, None
    except (UserError, ImportError) as error:
        if host != terms.host:
            return index, None, "", UserError(Message("io.worker-error", host=host, why=error))
        if isinstance(error, ImportError):
            raise
        return index, None, "", error


def _compare(host: str, there: Versions, here: Versions) -> None:
    """Compare the versions of a worker with those of the process that opened the pool.

    Raises:
        UserError: they differ.
    """
    if differences := [
        Message("io.worker-version", name=name, there=there.get(name, "-"), here=here.get(name, "-"))
        for name in {**here, **there}
        if _relevant(name, there.get(name)) != _relevant(name, here.get(name))
    ]:
        raise UserError(Message("io.worker-differs", host=host, differences=first_few(differences)))


def _relevant(name: str, version: str | None) -> str | list[str] | None:
    return version.split(".")[:2] if name == "python" and version else version


def content(key: str) -> Path:
    """The file with published content, to be read only; where a worker lacks it, the unit runs again with it.

    Raises:
        StorageError: it is not there, or cannot be read from the store.
    """
    try:
        os.utime(_path(key))
    except FileNotFoundError as error:
        if not _stores:
            raise _LackError(key) from error
        _write_content(key, _read_stored(_stores[0], key))
    return _path(key)


def _path(key: str) -> Path:
    return cache_dir() / _FOLDER / key


def _write_content(key: str, data: bytes) -> None:
    """Write content to the cache, unless it is there.

    Raises:
        StorageError: it cannot be written, or is not what the key says.
    """
    path = _path(key)
    if not path.exists():
        if hashlib.sha256(data).hexdigest() != key:
            raise StorageError(Message("io.content-damaged", key=key))
        write_atomic(path, data, durable=False, private=True)
    os.utime(path)


def _read_content(key: str) -> bytes:
    """Read content that this process published.

    Raises:
        StorageError: it was removed.
    """
    try:
        return _path(key).read_bytes()
    except OSError as error:
        raise _LackError(key) from error


def _write_stored(store: str, key: str, data: bytes) -> None:
    """Write content to a store, unless it is there.

    Raises:
        StorageError: it cannot be written.
    """
    try:
        files, path = _stored_file(store, key)
        if not files.exists(path):
            if "file" in files.protocol:
                write_atomic(path, data, durable=False)
            else:
                files.pipe_file(path, data)
    except Exception as error:  # file systems of fsspec raise errors of their own libraries
        raise StorageError(Message("io.store-unwritable", store=store, why=_reason(error))) from error


def _read_stored(store: str, key: str) -> bytes:
    """Read content from a store.

    Raises:
        StorageError: it is not there, or cannot be read.
    """
    try:
        files, path = _stored_file(store, key)
        return bytes(files.cat_file(path))
    except Exception as error:
        raise StorageError(Message("io.store-unreadable", store=store, key=key, why=_reason(error))) from error


def _stored_file(store: str, key: str) -> tuple[Any, str]:
    """The file system of a folder or URL, and the path of content in it."""
    import fsspec

    files, folder = fsspec.core.url_to_fs(store)
    return files, f"{str(folder).rstrip('/')}/{key}"


def _reason(error: BaseException) -> str:
    """An error as a part of a line: the longest have a traceback of a worker."""
    text = textwrap.shorten(str(error), 200, placeholder=" ...") or type(error).__name__
    return f"{text} ({install_command('store')})" if isinstance(error, ImportError) and "s3fs" in text else text


def _remove_unused() -> None:
    """Remove published content that nobody has used for long, and what killed processes left."""
    sweep_folder(folder := cache_dir() / _FOLDER)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if time.time() - entry.stat().st_mtime > _UNUSED:
                Path(entry.path).unlink()
