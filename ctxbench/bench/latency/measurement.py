"""Measuring latency: which configurations there are, in which order they run in child processes, what comes of it."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from ctxbench.bench.latency.latency_results import STATES, LatencyResult, Timings, Trial
from ctxbench.bench.latency.trial_inputs import Job, grown, requests_like, write_items
from ctxbench.bench.machine import machine
from ctxbench.bench.progress_listener import Progress, silent
from ctxbench.bench.provenance import versions
from ctxbench.core.errors import ParameterError, UserError, check_range
from ctxbench.core.items import Catalog
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.requests import Request
from ctxbench.core.stages import EMBEDDER, kind_of
from ctxbench.core.stored_pipelines import pipelines_in
from ctxbench.embedding.embedder_names import open_embedder
from ctxbench.io.cache import cache_dir
from ctxbench.io.files import temporary_folder
from ctxbench.selectors.definitions import find_definition
from ctxbench.text.tokens import open_counter

_MAX_SIZE = 1_000_000
_LAST_LINES = 3  # of the standard error of a child that failed
_SAID = {"cold": "an empty store", "restart": "a new process", "warm": "a warm process"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySettings:
    """How much is measured.

    Attributes:
        sizes: numbers of items, 1 to 1,000,000; the catalog's own size is added where it is below the largest.
        repeats: rounds, >= 1; each runs every configuration once in a fresh process.
        requests: requests at most in each warm pass, >= 1. p99 needs 100 samples over all rounds, p95 20.
        embedder, tokens: names, as `open_embedder` and `open_counter` read them.
        time_limit_s: for one process, > 0.

    Raises:
        ParameterError: a value is out of range.
    """

    sizes: tuple[int, ...] = (10, 100, 1_000)
    repeats: int = 5
    requests: int = 40
    embedder: str = "minilm"
    tokens: str = "o200k"
    time_limit_s: float = 900.0

    def __post_init__(self) -> None:
        if not self.sizes or not all(1 <= size <= _MAX_SIZE for size in self.sizes):
            raise ParameterError(
                f"sizes must be one or more numbers of items from 1 to {_MAX_SIZE:,}, got {self.sizes}"
            )
        for name in ("repeats", "requests"):
            check_range(name, getattr(self, name), 1)
        if not self.time_limit_s > 0:
            raise ParameterError(f"time_limit_s must be above 0, got {self.time_limit_s}")

    def full(self) -> LatencySettings:
        """The same with 10,000 items as well."""
        return replace(self, sizes=tuple(sorted({*self.sizes, 10_000})))


def measure(
    subject: str | Pipeline,
    catalog: Catalog,
    requests: Sequence[Request] | None = None,
    *,
    settings: LatencySettings | None = None,
    name: str | None = None,
    progress: Progress = silent,
) -> LatencyResult:
    """Measure how long single requests take.

    Every configuration (a size, and an empty store, a restart or a warm process) runs in a fresh child process,
    `repeats` times, in turns: one round of all configurations after the other, every second one backwards, so
    that drift of the machine hits all alike. Requests are asked one at a time, each over the whole catalog (a
    list of available items is dropped: the subject is time over a catalog of a size); items that a
    smaller catalog lacks are dropped as well. The first request with a text is the one that is asked
    first in a process (of a restart with a new query, the next with another text); all but the first make the
    warm passes.

    The system's own file cache is not emptied: "cold" is a new process with nothing stored, on a machine that
    has read the model's files before.

    Args:
        subject: a shipped selector, `semantic`, or with a preset, `semantic/normal`; or a pipeline.
        catalog: at least one item; other sizes are its first items, or `grown` from it.
        requests: at least one; from two on there are warm passes. None = `requests_like` the catalog's items.
        settings: None = the short profile, up to 1,000 items.
        name: what tables call it; None = `subject`, or `pipeline`.
        progress: told (what runs, trials done, trials in all) before each trial and at the end.

    Raises:
        UserError: a name or value is wrong, there is no model, or a child process failed. Children are ended and
            temporary files removed on every way out.
    """
    settings = settings or LatencySettings()
    asked = requests_like(catalog, settings.requests + 1) if requests is None else requests
    pipeline = subject if isinstance(subject, Pipeline) else named_pipeline(subject)
    embedder = open_embedder(settings.embedder)
    uses = {use for step in (pipeline.retrieve, *pipeline.refine) for use in step.uses}
    if own := sorted(use for use in uses if kind_of(use) == EMBEDDER != use):
        names = ", ".join(use.partition(":")[2] for use in own)
        raise ParameterError(
            f"a step names an embedder of its own ({names}); latency is timed with one: give it as the embedder, and "
            "leave `embedder` out of the step"
        )
    open_counter(settings.tokens)
    started, host = datetime.now(UTC).isoformat(timespec="seconds"), machine()
    with _own_folder() as folder:
        bench = _Bench(pipeline, catalog, asked, settings=settings, folder=folder)
        plan = bench.plan()
        for order, (turn, job, size) in enumerate(plan):
            progress(f"{_SAID[job]}, {size:,} items, round {turn + 1} of {settings.repeats}", order, len(plan))
            bench.run(job, size, turn=turn)
        progress("done", len(plan), len(plan))
    return LatencyResult(
        name=name or (subject if isinstance(subject, str) else "pipeline"),
        pipeline=pipeline.describe(),
        embedder=embedder.identity.as_dict(),
        catalog={"items": len(catalog), "hash": catalog.hash},
        reference=bench.reference,
        sizes=bench.sizes,
        settings=dataclasses.asdict(settings),
        requests={"from": "items" if requests is None else "given", "n": len(asked)},
        machine={**host, "blas": bench.blas, "versions": versions()},
        started=started,
        trials=tuple(bench.trials),
    )


def named_pipeline(name: str) -> Pipeline:
    """The pipeline of a selector: a shipped one, `semantic`, one of its presets, `semantic/normal`, or a YAML file.

    Raises:
        UserError: there is no such selector or preset, or the file is missing or faulty.
    """
    found, preset = find_definition(name)
    return found.pipeline(found.values(preset))


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A folder on the disk that vectors are kept on in real use, or where that cannot be, the system's."""
    with ExitStack() as end:
        try:
            folder = end.enter_context(temporary_folder(cache_dir() / "latency"))
        except OSError:
            folder = end.enter_context(temporary_folder(Path(tempfile.gettempdir(), "ctxbench-latency")))
        yield folder


class _Bench:
    """Runs trials in a folder and collects them."""

    def __init__(
        self,
        pipeline: Pipeline,
        catalog: Catalog,
        requests: Sequence[Request],
        *,
        settings: LatencySettings,
        folder: Path,
    ) -> None:
        """Make the catalogs of all sizes and choose the requests.

        Raises:
            ParameterError: there is no item, or no request.
        """
        if not requests:
            raise ParameterError("there is no request; latency needs at least one, better 101 or more")
        self.settings = settings
        self.folder = folder
        self.reference = min(len(catalog), max(settings.sizes))
        self.sizes = tuple(sorted({*settings.sizes, max(self.reference, 1)}))
        self.catalogs = {size: grown(catalog, size) for size in self.sizes}
        for size, one in self.catalogs.items():
            write_items(one, folder / f"items-{size}.jsonl")
        first = next((place for place, request in enumerate(requests) if request.text.strip()), 0)
        self.first = requests[first]
        self.second = next((r for r in requests if r.text.strip() and r.text != self.first.text), None)
        self.others = [request for place, request in enumerate(requests) if place != first][: settings.requests]
        self.spec = next(pipelines_in({"pipeline": pipeline.describe()})).specification()
        self.stores = any("embedder" in step.uses for step in (pipeline.retrieve, *pipeline.refine))
        self.trials: list[Trial] = []
        self.blas: list[dict[str, Any]] = []

    def plan(self) -> list[tuple[int, str, int]]:
        """(round, job, size) of every trial in order; the first round makes each store before it is used."""
        one: list[tuple[str, int]] = []
        for size in self.sizes:
            one.append(("cold", size))
            if size == self.reference and self.second is not None and self.stores:
                one.append(("restart", size))
            one.append(("warm", size))
        turns = range(self.settings.repeats)
        return [(turn, job, size) for turn in turns for job, size in (one if turn % 2 == 0 else reversed(one))]

    def run(self, job: str, size: int, *, turn: int) -> None:
        """Run one trial, in a folder of its own that is removed afterwards.

        Raises:
            UserError: the child failed.
        """
        order = len(self.trials)
        place = self.folder / f"trial-{order}"
        place.mkdir()
        filled = self.folder / f"filled-{size}"
        store = place / "vectors"
        if job != "cold" and filled.exists():
            shutil.copytree(filled, store)
        first = self.second if job == "restart" and self.second is not None else self.first
        asked = Job(
            job=job,
            pipeline=self.spec,
            embedder=self.settings.embedder,
            tokens=self.settings.tokens,
            items=str(self.folder / f"items-{size}.jsonl"),
            store=str(store),
            first=self._fitted(first, size).as_dict(),
            others=[self._fitted(request, size).as_dict() for request in self.others if job == "warm"],
        )
        what = f"{_SAID[job]} at {size} items"
        made = run_child(asked, place, what=what, limit_s=self.settings.time_limit_s)
        if job == "cold" and store.exists() and not filled.exists():
            store.rename(filled)
        shutil.rmtree(place, ignore_errors=True)
        self.blas = made.pop("blas")
        states = {
            state: Timings(
                tuple(made["states"][state]["requests"]),
                {part: tuple(values) for part, values in made["states"][state]["seconds"].items()},
            )
            for state in STATES
            if state in made["states"]
        }
        self.trials.append(Trial(job=job, size=size, round=turn, order=order, **{**made, "states": states}))

    def _fitted(self, request: Request, size: int) -> Request:
        """The request over the whole of a catalog, without what the catalog lacks."""
        catalog = self.catalogs[size]
        session = request.session
        return replace(
            request,
            available=None,
            session=None if session is None else tuple(s for s in session if catalog.find(s.key) is not None),
            explicit=tuple(key for key in request.explicit if catalog.find(key) is not None),
            recent=tuple(key for key in request.recent if catalog.find(key) is not None),
            uses=tuple(one for one in request.uses if catalog.find(one[0]) is not None),
        )


def run_child(job: Job, folder: Path, *, what: str, limit_s: float) -> dict[str, Any]:
    """Do a job in a fresh process.

    Args:
        job: the job.
        folder: an empty folder for the job and the child's output.
        what: how messages call it.
        limit_s: seconds after which the child is ended.

    Returns:
        What `worker.work` returned.

    Raises:
        UserError: the child failed (with the last lines of its standard error), or took too long.
    """
    path = folder / "job.json"
    job.write(path)
    with (folder / "stdout").open("w+b") as out, (folder / "stderr").open("w+b") as err:
        code = _ended(_command(path), out=out, err=err, limit_s=limit_s, what=what)
        answer, words = _read(out), _read(err)
    if code != 0:
        raise UserError(f"measuring {what} failed: {_fate(code, words)}")
    try:
        made: dict[str, Any] = json.loads(answer)
    except ValueError as error:
        raise UserError(f"measuring {what} failed: the process answered {answer[:80]!r}, which is no JSON") from error
    return made


def _command(path: Path) -> list[str]:
    # -P: the folder that the user happens to be in does not go before the installed modules.
    return [sys.executable, "-P", "-m", "ctxbench.bench.latency.worker", str(path), str(time.monotonic_ns())]


def _ended(command: list[str], *, out: IO[bytes], err: IO[bytes], limit_s: float, what: str) -> int:
    """Run a command to its end and return its exit code; on any exception, Ctrl-C included, it is ended first."""
    # Its standard input stays open as long as this process lives: the child ends when it closes.
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=err)  # noqa: S603 - our own module
    try:
        return child.wait(limit_s)
    except subprocess.TimeoutExpired as error:
        raise UserError(
            f"measuring {what} took more than {limit_s:g} s and was ended; raise the time limit, or lower the sizes"
        ) from error
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        if child.stdin is not None:
            child.stdin.close()


def _read(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", "replace").strip()


def _fate(code: int, words: str) -> str:
    """Why a child ended: its own message, or how it ended with its last words."""
    if code == UserError.exit_code and words:
        return words
    how = f"the process ended with exit code {code}" if code > 0 else f"the process was ended by signal {-code}"
    lines = [line.strip() for line in words.splitlines() if line.strip()][-_LAST_LINES:]
    return f"{how}; its standard error ends: {' | '.join(lines)}" if lines else f"{how} without a word"
