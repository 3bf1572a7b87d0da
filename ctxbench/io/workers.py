"""Run units of work in processes of this machine, through joblib.

`open_pool` gives a `Pool`; `Pool.run` yields the results of units as they finish. Data that many units need, such as a
dataset, is published once by its SHA-256, and units open it as a file. A worker that is lost costs the units that it
worked on: they run again, so a unit must be a function of its arguments and content alone.
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ctxbench.io.errors import Message, StorageError, UserError, check_range
from ctxbench.io.files import Closing, cache_dir, write_atomic

U = TypeVar("U")
R = TypeVar("R")

SECONDS = 2.0  # of work that pay for the start of a process
_FOLDER = "work-1"  # of published content, in the cache folder
_RESTARTS = 3  # without a result in between
_UNUSED = 172_800.0  # seconds after which published content is removed


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Where units of work run.

    Attributes:
        jobs: processes; None = as many as have 2 seconds of work each, 1 = in this process.
        on: a cluster; empty = this machine.
        store: a folder or URL that all workers see; empty = they get content from this process.

    Raises:
        ParameterError: a value is out of range.
    """

    jobs: int | None = None
    on: str = ""
    store: str = ""

    def __post_init__(self) -> None:
        if self.jobs is not None:
            check_range("jobs", self.jobs, 1)

    def processes(self, seconds: float) -> int:
        """The number of processes for so many seconds of estimated work; 1 = do it in this process."""
        if self.jobs is not None or seconds < 2 * SECONDS:
            return self.jobs or 1
        return min(cores(), int(seconds / SECONDS))


def cores() -> int:
    """Processors that this process may use, by its affinity and the limits of its container."""
    import joblib

    return int(joblib.cpu_count())


def open_pool(workers: Workers) -> Pool:
    """Open a pool of `workers.jobs` processes, one for each core if it is None; close it at the end."""
    return Pool(workers)


class OptionalPool(Closing):
    """A pool that is opened with the first work that is worth it, and then takes all work.

    Args:
        workers: where units run; by default in this process.
    """

    def __init__(self, workers: Workers = Workers(jobs=1)) -> None:
        self._workers = workers
        self._pool: Pool | None = None

    def for_work(self, seconds: float) -> Pool | None:
        """The pool for so many seconds of estimated work; None = do it in this process."""
        workers = self._workers
        if self._pool is None and (workers.on or workers.processes(seconds) > 1):
            self._pool = open_pool(workers if workers.on else replace(workers, jobs=workers.processes(seconds)))
        return self._pool

    def map(self, function: Callable[[U], R], units: Sequence[U], *, seconds: float) -> list[R]:
        """The function's results for all units, in order.

        Args:
            function, units: as for `Pool.run`.
            seconds: that one process needs for all of them, about.

        Raises:
            UserError: as `Pool.run`.
        """
        pool = self.for_work(seconds)
        if pool is None:
            return [function(unit) for unit in units]
        results = dict(pool.run(function, units))
        return [results[index] for index in range(len(units))]

    def close(self) -> None:
        """End the processes, if there are any."""
        if self._pool is not None:
            self._pool.close()


class Pool(Closing):
    """Processes that run units of work.

    Attributes:
        size: workers at the start.
    """

    def __init__(self, workers: Workers) -> None:
        self.size = workers.jobs or cores()

    def close(self) -> None:
        """End the processes."""
        if self.size > 1:
            from joblib.externals.loky import get_reusable_executor

            get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)

    def publish(self, data: bytes) -> str:
        """Store data for units, which get its path by `content` and the key that is returned.

        Raises:
            StorageError: it cannot be written.
        """
        _remove_unused()
        key = hashlib.sha256(data).hexdigest()
        if not _path(key).exists():
            write_atomic(_path(key), data, durable=False, private=True)
        os.utime(_path(key))
        return key

    def run(self, function: Callable[[U], R], units: Sequence[U]) -> Iterator[tuple[int, R]]:
        """Yield the index of each unit and the function's result, as units finish.

        Ctrl-C and closing the iterator end all work.

        Args:
            function: importable, or picklable by cloudpickle. It may run again for a unit, if a worker is lost.
            units: its arguments, picklable.

        Raises:
            UserError: a unit raised it, or workers are lost again and again.
        """
        remaining = dict.fromkeys(range(len(units)))
        restarts = 0
        while remaining:
            try:
                with warnings.catch_warnings(), closing(self._outcomes(function, units, [*remaining])) as outcomes:
                    warnings.simplefilter("ignore")  # joblib warns of results that nobody takes
                    for index, outcome in outcomes:
                        if isinstance(outcome, _Failure):
                            raise outcome.error
                        restarts = 0
                        del remaining[index]
                        yield index, outcome
            except self._lost() as error:
                restarts += 1
                if restarts > _RESTARTS:
                    raise UserError(Message("io.workers-lost", n=restarts, why=str(error).split("\n")[0])) from error

    def _lost(self) -> tuple[type[Exception], ...]:
        """What is raised where a worker was lost."""
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        return (TerminatedWorkerError,)

    def _outcomes(
        self, function: Callable[[U], R], units: Sequence[U], indices: Sequence[int]
    ) -> Generator[tuple[int, R | _Failure], None, None]:
        """Run the units with these indices."""
        from joblib import Parallel, delayed

        run = Parallel(self.size, backend="loky", batch_size=1, return_as="generator_unordered")
        yield from run(delayed(_outcome)(function, units[index], index) for index in indices)


@dataclass(frozen=True)
class _Failure:
    """The error that a unit raised."""

    error: UserError


def _outcome(function: Callable[[U], R], unit: U, index: int) -> tuple[int, R | _Failure]:
    """In a worker: run a unit."""
    try:
        return index, function(unit)
    except UserError as error:
        return index, _Failure(error)


def content(key: str) -> Path:
    """The file with published content, to be read only.

    Raises:
        StorageError: it is not there.
    """
    path = _path(key)
    try:
        os.utime(path)
    except OSError as error:
        raise StorageError(Message("io.content-missing", key=key, folder=path.parent)) from error
    return path


def _path(key: str) -> Path:
    return cache_dir() / _FOLDER / key


def _remove_unused() -> None:
    """Remove published content that nobody has used for long."""
    with suppress(OSError), os.scandir(cache_dir() / _FOLDER) as entries:
        for entry in entries:
            if time.time() - entry.stat().st_mtime > _UNUSED:
                Path(entry.path).unlink()
