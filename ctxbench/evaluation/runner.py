"""Runs an experiment: every selector on every dataset, resumable, into a run folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from ctxbench.cache import cache_dir
from ctxbench.config import Experiment, examine
from ctxbench.embedding.base import Embedder
from ctxbench.embedding.names import open_embedder
from ctxbench.embedding.store import VectorStore
from ctxbench.embedding.vectors import Vectors
from ctxbench.errors import Fault, InputError, UserError
from ctxbench.evaluation.datasets.dataset import Dataset
from ctxbench.evaluation.datasets.store import open_dataset
from ctxbench.evaluation.evidence import Labels
from ctxbench.evaluation.machine import machine
from ctxbench.evaluation.metrics import (
    Metric,
    evaluate,
    parse_metric,
    parse_metrics,
    unavailable,
)
from ctxbench.evaluation.provenance import code_hash, described, git_commit, versions
from ctxbench.evaluation.results import FORMAT, Part, RunFolder, content_key
from ctxbench.evaluation.slices import Slice
from ctxbench.index.resources import LocalResources
from ctxbench.jsonio import line_of
from ctxbench.requests import Batch
from ctxbench.selectors.base import Answers, Selector
from ctxbench.selectors.external import FileSelector
from ctxbench.selectors.pipelines import AsManyAs, offered_sizes
from ctxbench.tokens import TokenCounter, open_counter

T = TypeVar("T")
_OF_NOTHING = {"abstention", "false_inclusion", "false_items"}  # to fail is not to abstain
SLICE = 64  # queries between two checkpoints


class Progress(Protocol):
    """Told how far a run is; on a terminal a progress bar."""

    def __call__(self, text: str, done: int, total: int) -> None:
        """`done` of `total` queries of the dataset and selector in `text` are answered."""
        ...


def silent(text: str, done: int, total: int) -> None:
    """Tell nobody."""


def nothing_said(_message: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared:
    """An experiment that was checked whole: datasets are open, nothing is embedded and no model is loaded.

    Attributes:
        experiment: as read.
        datasets: by name, in order.
        references: what the experiment calls each, by name: the name itself, or a folder.
        metrics: parsed.
        embedder: not loaded yet.
        counter: counts prompt tokens.
    """

    experiment: Experiment
    datasets: Mapping[str, Dataset]
    references: Mapping[str, str]
    metrics: tuple[Metric, ...]
    embedder: Embedder
    counter: TokenCounter

    def resources(self, *, progress: Callable[[int, int], None] | None = None) -> LocalResources:
        """Resources over the vector store of this machine."""
        store = VectorStore(self.embedder.identity)
        return LocalResources(Vectors(self.embedder, store, progress=progress), self.counter)


def open_experiment(path: Path, *, notify: Callable[[str], None] = nothing_said) -> Prepared:
    """Read an experiment and open what it names; nothing is embedded, and no model is loaded.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: anything is wrong in it or in what it names: all faults, with their lines.
    """
    experiment, faults = examine(path)
    return prepare(experiment, faults=faults, notify=notify)


def prepare(
    experiment: Experiment, *, faults: Sequence[Fault] = (), notify: Callable[[str], None] = nothing_said
) -> Prepared:
    """Open what an experiment names.

    Args:
        experiment: as read.
        faults: what is wrong in it already, to be reported with the rest.
        notify: told what takes a moment.

    Raises:
        InputError: a dataset, metric, embedder or token counter is unknown or broken; all faults at once.
    """
    faults = list(faults)

    def attempt(what: Callable[[], T], *where: str | int) -> T | None:
        try:
            return what()
        except InputError as error:
            faults.extend(error.faults)
        except UserError as error:
            faults.append(Fault(str(error), experiment.path, line_of(experiment.lines, where)))
        return None

    datasets: dict[str, Dataset] = {}
    references: dict[str, str] = {}
    for place, name in enumerate(experiment.datasets):
        where = ("datasets", place)
        dataset = attempt(partial(open_dataset, name, base=experiment.path.parent, notify=notify), *where)
        if dataset is not None and dataset.name in datasets:
            line = line_of(experiment.lines, where)
            faults.append(Fault(f"two datasets are called {dataset.name!r}; rename one", experiment.path, line))
        elif dataset is not None:
            datasets[dataset.name] = dataset
            references[dataset.name] = name
    for place, text in enumerate(experiment.metrics):
        attempt(partial(parse_metric, text), "metrics", place)
    embedder = attempt(lambda: open_embedder(experiment.embedder), "embedder")
    counter = attempt(lambda: open_counter(experiment.tokens, cache=cache_dir()), "tokens")
    if faults or embedder is None or counter is None:
        own = sorted((fault for fault in faults if fault.path == experiment.path), key=lambda fault: fault.line)
        raise InputError([*own, *(fault for fault in faults if fault.path != experiment.path)])
    return Prepared(
        experiment=experiment,
        datasets=datasets,
        references=references,
        metrics=parse_metrics(experiment.metrics),
        embedder=embedder,
        counter=counter,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a run did.

    Attributes:
        folder: where the results are.
        made, reused: parts (dataset and selector) computed now, and found finished.
        embedded: texts that were embedded; 0 means that no model was loaded.
        errors: queries that a selector failed on, by "dataset, selector".
    """

    folder: Path
    made: int
    reused: int
    embedded: int
    errors: Mapping[str, int]


def run(prepared: Prepared, folder: Path, *, progress: Progress = silent, fresh: bool = False) -> RunReport:
    """Run an experiment, or what is missing of it, into `folder`.

    Parts made from the same dataset, selector, metrics and token counter are kept; the manifest is written last.
    Interrupted at any point, the same call goes on and ends with the same selections and metrics, byte for byte.

    Args:
        prepared: the experiment.
        folder: the run folder; made if it is missing.
        progress: told about every slice of queries.
        fresh: compute everything again (vectors stay in their store).

    Raises:
        UserError: a selector of ours fails, or the folder cannot be written. Queries that a selector of the
            user's fails on are errors in the run instead.
    """
    store = RunFolder(folder)
    resources = prepared.resources(progress=lambda done, total: progress("embedding texts", done, total))
    timings = _Timings(store, experiment_folder=prepared.experiment.path.parent)
    made = reused = 0
    errors: dict[str, int] = {}
    with (
        store.locked(lambda: progress(f"waiting for another process that runs into {folder}", 0, 1)),
        ExitStack() as end,
    ):
        for name, dataset in prepared.datasets.items():
            work = _DatasetRun(prepared, resources, store, name=name, dataset=dataset)
            for selector in work.selectors.values():  # those outside are the same objects for every dataset
                end.callback(getattr(selector, "close", _nothing))
            wanted = [s for s in work.selectors if fresh or not store.has(name, s, work.keys[s])]
            reused += len(work.selectors) - len(wanted)
            made += len(wanted)
            for made_now, answers in work.finish(wanted, progress, fresh=fresh):
                timings.add(name, made_now, answers)
            errors |= {f"{name}, {s}": n for s in work.selectors if (n := store.error_count(name, s))}
        timings.save()
        store.write("manifest.json", manifest(prepared, resources))
    return RunReport(folder=folder, made=made, reused=reused, embedded=resources.stats.embedded, errors=errors)


def _nothing() -> None:
    """What ends a selector that holds nothing."""


class _Timings:
    """Times of parts, beside those of earlier calls; in a file of their own, since they never repeat."""

    def __init__(self, store: RunFolder, *, experiment_folder: Path) -> None:
        self._store = store
        self._folder = os.path.relpath(experiment_folder, store.path)
        self._parts: dict[str, Any] = {}

    def add(self, dataset: str, selector: str, answers: Slice) -> None:
        seconds = answers.seconds[~np.isnan(answers.seconds)]
        if len(seconds):
            p50, p95 = np.percentile(seconds, [50, 95]).tolist()
            row = {"queries": len(seconds), "seconds": float(seconds.sum()), "p50_s": p50, "p95_s": p95}
            self._parts.setdefault(dataset, {})[selector] = row

    def save(self) -> None:
        try:
            known = self._store.read("timings.json")["parts"]
        except (UserError, KeyError):
            known = {}  # there is no earlier file, or one that says nothing
        parts = {name: {**known.get(name, {}), **self._parts.get(name, {})} for name in {**known, **self._parts}}
        note = "steps that selectors share count for the first that needs them; `ctxbench latency` measures for itself"
        self._store.write(
            "timings.json", {"machine": machine(), "experiment_folder": self._folder, "note": note, "parts": parts}
        )


class _DatasetRun:
    """All selectors of an experiment on one dataset; slices of queries go through all of them side by side."""

    def __init__(
        self, prepared: Prepared, resources: LocalResources, store: RunFolder, *, name: str, dataset: Dataset
    ) -> None:
        self.prepared = prepared
        self.resources = resources
        self.store = store
        self.name = name
        self.dataset = dataset.judged()
        self.memo: dict[str, Any] = {}
        self.selectors = prepared.experiment.make_selectors(resources, self.memo)
        self.keys = {n: self._key(selector) for n, selector in self.selectors.items()}

    def _key(self, selector: Selector) -> str:
        """Hash of everything that decides a part."""
        return content_key(
            FORMAT,
            code_hash(),
            self.dataset.hash,
            [query.id for query in self.dataset.queries],  # the hash is the same in any order, answers are not
            selector.describe(),
            [str(metric) for metric in self.prepared.metrics],
            self.prepared.counter.name,
        )

    def finish(self, wanted: Sequence[str], progress: Progress, *, fresh: bool) -> Iterator[tuple[str, Slice]]:
        """Answer what is missing of the wanted parts and save them; yields name and answers of each."""
        if not wanted:
            return
        requests = self.dataset.requests()
        total = len(requests)
        parts = [requests[first : first + SLICE] for first in range(0, total, SLICE)]
        ids = [[request.id for request in part] for part in parts]
        have = {
            name: self.store.slice_numbers(self.name, name, self.keys[name], queries=ids, fresh=fresh)
            for name in wanted
        }
        in_turn = sorted(wanted, key=lambda name: isinstance(self.selectors[name], AsManyAs))
        for number, part in enumerate(parts):
            missing = [name for name in in_turn if number not in have[name]]
            if missing:
                batch = Batch.of(self.dataset.catalog, part)
                for name in missing:
                    answers = answered(self._select(name, number, have), batch)
                    self.store.add_slice(self.name, name, self.keys[name], number=number, answers=answers)
                    have[name].add(number)
            self.memo.clear()
            progress(self.name, number * SLICE + len(part), total)
        for name in wanted:
            answers = self.store.slices(self.name, name)
            self.store.save(self._part(name, answers), self.dataset.catalog)
            yield name, answers

    def _select(self, name: str, number: int, have: Mapping[str, set[int]]) -> Selector:
        """The selector for one slice. Where it takes another's sizes, that one is not asked a second time."""
        selector = self.selectors[name]
        if isinstance(selector, AsManyAs) and number in have.get(selector.like.name, ()):
            return _Sized(selector, self.store.slice(self.name, selector.like.name, number))
        return selector

    @cached_property
    def labels(self) -> Labels:
        """What every selector's answers are held against; made once."""
        return Labels.of(self.dataset, self.resources.tokens(self.dataset.catalog))

    def _part(self, name: str, answers: Slice) -> Part:
        evidence = self.labels.evidence(answers)
        values = evaluate(self.prepared.metrics, evidence)
        failed = np.array([query in answers.errors for query in answers.queries], dtype=np.bool_)
        for metric in _OF_NOTHING & {str(metric) for metric in values}:
            found = values[parse_metric(metric)]
            values[parse_metric(metric)] = np.where(failed, np.nan, found)
        lacking = unavailable(self.prepared.metrics, evidence)
        return Part(
            dataset=self.name,
            selector=name,
            key=self.keys[name],
            answers=answers,
            metrics={str(metric): value for metric, value in values.items()},
            unavailable={str(metric): reason for metric, reason in lacking.items()},
            notes=self._notes(name, answers),
        )

    def _notes(self, name: str, answers: Slice) -> dict[str, Any]:
        """What the selector says of the run, and answers that belong to no query of the dataset."""
        notes = dict(answers.notes)
        selector = self.selectors[name]
        if isinstance(selector, FileSelector):  # a slice alone cannot tell
            unknown = selector.unknown([query.id for query in self.dataset.queries])
            notes |= {"answers_not_asked_for": len(unknown), "first_not_asked_for": list(unknown[:10])}
        return {key: value for key, value in notes.items() if value}


@dataclass(frozen=True, eq=False)
class _Sized:
    """`AsManyAs` over answers of the other selector that are stored."""

    selector: AsManyAs
    like: Slice

    @property
    def name(self) -> str:
        return self.selector.name

    def describe(self) -> dict[str, Any]:
        return self.selector.describe()

    def select(self, batch: Batch) -> Answers:
        row = {query: place for place, query in enumerate(self.like.queries)}
        errors = {row[query]: text for query, text in self.like.errors.items()}
        return self.selector.sized(batch, offered_sizes(self.like), errors)


def answered(selector: Selector, batch: Batch) -> Slice:
    """Ask a selector; where it does not time requests itself, each takes its share of the batch."""
    begin = time.perf_counter()
    answers = selector.select(batch)
    seconds = time.perf_counter() - begin
    share = np.full(len(batch), seconds / max(len(batch), 1))
    take_notes = getattr(selector, "take_notes", dict)
    return Slice(
        queries=batch.ids,
        chunks=tuple(answers.query.chunks(row) for row in range(len(batch))),
        candidates=answers.candidates,
        ranked=answers.ranked,
        scored=answers.scored,
        errors={batch.ids[row]: text for row, text in sorted(answers.errors.items())},
        seconds=share if answers.seconds is None else answers.seconds,
        notes=take_notes(),
    )


def manifest(prepared: Prepared, resources: LocalResources) -> dict[str, Any]:
    """What was run: everything that decides the results, nothing that depends on the moment or the machine."""
    experiment = prepared.experiment
    selectors = experiment.make_selectors(resources, {})
    specs = {spec.name: spec for spec in experiment.selectors}
    return {
        "format": FORMAT,
        "experiment": {
            "name": experiment.name,
            "about": experiment.about,
            "compare_to": experiment.compare_to,
            "seed": experiment.seed,
            "metrics": [str(metric) for metric in prepared.metrics],
        },
        "datasets": {
            name: {
                "reference": prepared.references[name],
                "version": dataset.version,
                "hash": dataset.hash,
                "queries": len(dataset.judged()),
                "unlabelled": len(dataset.unlabelled),
                "items": len(dataset.catalog),
                "scopes": _scopes(dataset),
            }
            for name, dataset in prepared.datasets.items()
        },
        "selectors": {name: described(specs[name], selector) for name, selector in selectors.items()},
        "embedder": prepared.embedder.identity.as_dict(),
        "tokens": prepared.counter.name,
        "versions": versions(),
        "git": git_commit(experiment.path.parent),
    }


def _scopes(dataset: Dataset) -> dict[str, list[int]]:
    """The positions of the judged queries of each named scope."""
    found: dict[str, list[int]] = {}
    for position, query in enumerate(dataset.judged().queries):
        if query.scope is not None:
            found.setdefault(query.scope, []).append(position)
    return dict(sorted(found.items()))
