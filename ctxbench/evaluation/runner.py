"""Run an experiment into a run folder, resuming where it stopped; latency of warm requests, and how it grows."""

from __future__ import annotations

import itertools
import pickle
import time
from collections import Counter
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import group_pairs
from ctxbench.evaluation.answers import Labels, Measures, Packed, Part, Slice, StoredAnswers, select_answers
from ctxbench.evaluation.experiment import code_hash, git_commit, versions
from ctxbench.evaluation.inputs import Prepared, count_tokens, manifest
from ctxbench.evaluation.metric_kernels import Joined
from ctxbench.evaluation.metrics import FORBIDDEN_OFFERED, Metric, evaluate, forbidden_counts, unavailable
from ctxbench.evaluation.run_folder import MEANING, RunFolder, content_key, estimate_dict, timing
from ctxbench.evaluation.statistics import estimate
from ctxbench.io.console import ProgressListener, silent
from ctxbench.io.errors import Message, StorageError
from ctxbench.io.workers import Workers, content, open_pool
from ctxbench.model.arrays import Evidence, FloatArray
from ctxbench.model.requests import Batch, with_own_vectors
from ctxbench.model.resources import EMBEDDER, INDEX
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.dense import chunks_of
from ctxbench.search.resources import ExactSearch, LocalResources, add_vectors
from ctxbench.search.vector_files import ann_identity
from ctxbench.selectors.external import External, FileSelector, ask_anew, is_ours, is_sendable
from ctxbench.selectors.selector import PipelineSelector, Selector, SizeMatched, offered_sizes

NOT_OF_FAILED = {  # to fail is not to abstain, and not to be cheap
    *("abstention", "false_inclusion", "false_items", "forbidden_offered"),
    *("tokens", "total_tokens", "loaded_tokens", "items", "unlabelled", "same_server_confusions"),
    *("model_tokens", "model_seconds"),
}
SLICE = 64  # queries between two checkpoints, at most
ROWS = 2_000_000  # candidates of a slice, at most: what offers the whole catalog is asked about fewer queries at once


class _AnswerCount:
    """Counts the answers of all selectors to the queries of a dataset, and tells a listener."""

    def __init__(self, dataset: str, total: int, progress: ProgressListener) -> None:
        self._dataset, self._total, self._progress = dataset, total, progress
        self._done = 0

    @contextmanager
    def answers_of(self, name: str, selector: Selector, n: int) -> Iterator[None]:
        """Count `n` answers when the block ends; of external selectors each when it comes, where they come singly."""
        end = self._done + n

        def report(n_new: int = 0) -> None:
            self.add(name, min(n_new, end - self._done))  # a selector may be asked repeatedly

        report()
        with selector.watched(partial(report, 1)) if isinstance(selector, External) else nullcontext():
            yield
        report(n)

    def add(self, name: str, n: int) -> None:
        """Count `n` answers of a selector or of several processes."""
        self._done += n
        self._progress(f"{self._dataset}, {name}", self._done, self._total)


class Missing(NamedTuple):
    """A slice that is not there yet: the queries from `start` to `stop` of a dataset, asked of a selector."""

    selector: str
    start: int
    stop: int


class Span(NamedTuple):
    """Queries of a dataset, from `start` to `stop`, with the slices of them that are missing, of all selectors."""

    start: int
    stop: int
    missing: tuple[Missing, ...]

    @property
    def n_answers(self) -> int:
        """How many answers are missing."""
        return sum(entry.stop - entry.start for entry in self.missing)

    def of_selectors(self, names: Container[str]) -> Span:
        """What is missing of some selectors."""
        return self._replace(missing=tuple(entry for entry in self.missing if entry.selector in names))


class DatasetSelectors:
    """Selectors on one dataset: asks them and measures what they answer, in this process or in a worker."""

    def __init__(self, prepared: Prepared, dataset: Dataset, resources: LocalResources) -> None:
        """Make the selectors.

        Args:
            prepared: the experiment.
            dataset: one of its datasets, with the queries that are measured.
            resources: what the selectors use.
        """
        self.prepared, self.resources = prepared, resources
        self.dataset, self.name = dataset, dataset.name
        self.memo: dict[str, Any] = {}
        self.selectors = prepared.experiment.make_selectors(resources, self.memo, required=dataset.required)
        self.metrics = with_forbidden(prepared.metrics, dataset)
        self._likes = {selector.like.name for selector in self.selectors.values() if isinstance(selector, SizeMatched)}

    def ask(
        self, span: Span, watching: Callable[[str, Selector, int], AbstractContextManager[None]] | None = None
    ) -> Iterator[tuple[Missing, Slice]]:
        """Answer what is missing of a span, all selectors side by side, so that they share the outputs of steps.

        Args:
            span: whose missing slices are in the order of the selectors, those that take another's sizes last.
            watching: called with a selector's name, the selector and the number of queries; entered while it is asked.
        """
        requests = self.dataset.requests()
        batch = Batch.of(self.dataset.catalog, requests[span.start : span.stop])
        by_name: dict[str, list[Slice]] = {}
        for missing in span.missing:
            name, several = missing.selector, requests[missing.start : missing.stop]
            slice_batch = batch if len(several) == len(batch) else Batch.of(self.dataset.catalog, several)
            with nullcontext() if watching is None else watching(name, self.selectors[name], len(several)):
                answers = self._answered(name, slice_batch, by_name)
            if name in self._likes:
                by_name.setdefault(name, []).append(answers)
            yield missing, answers
        self.memo.clear()

    def _answered(self, name: str, batch: Batch, by_name: Mapping[str, Sequence[Slice]]) -> Slice:
        """The answers of a selector. If it copies another's sizes, that one is not asked again.

        Args:
            name: of the selector.
            batch: what is asked.
            by_name: what other selectors have just answered to it.
        """
        selector, stored = self.selectors[name], None
        if isinstance(selector, SizeMatched):
            like = selector.like.name
            stored = select_answers(by_name.get(like, ()), batch.ids) or self._stored(like, batch.ids)
        return answered(selector, batch, like=stored)

    def _stored(self, name: str, queries: Sequence[str]) -> Slice | None:  # noqa: ARG002 - a worker stores nothing
        """Answers of a selector that are stored already; None if there are none."""
        return None

    @cached_property
    def labels(self) -> Labels:
        """The labels that every selector's answers are compared with; made once.

        Token counts are those of `_count_offered` so far.
        """
        counts = self.prepared.counted.get(self.name, np.full(len(self.dataset.catalog), -1, dtype=np.int64))
        labels = Labels.of(self.dataset, counts, self.resources.text_tokens)
        return replace(labels, groups=self.prepared.groups[self.name])

    def _count_offered(self, answers: Slice) -> None:
        """Count the tokens of the items that answers offer, each once."""
        counts, candidates = self.labels.item_tokens, answers.candidates
        offered = np.unique(candidates.item[candidates.chosen])
        new = offered[counts[offered] < 0]
        counts[new] = count_tokens(self.prepared.counter, [self.dataset.catalog[item] for item in new.tolist()])

    def measure(self, block: Slice, first: int) -> Measures:
        """Measure answers to queries that follow each other, the first of them at index `first` of the dataset."""
        self._count_offered(block)
        evidence = self.labels.evidence(block, first=first)
        joined, n_items = Joined(evidence), len(self.dataset.catalog)
        return Measures(
            values={
                str(metric): column for metric, column in measured(self.metrics, evidence, block, joined=joined).items()
            },
            unavailable={str(metric): why for metric, why in unavailable(self.metrics, evidence).items()},
            forbidden=forbidden_counts(joined, n_items)
            if FORBIDDEN_OFFERED in self.metrics
            else np.zeros(n_items, dtype=np.int64),
        )


class DatasetRun(DatasetSelectors):
    """All selectors of an experiment on one dataset; slices of queries go through all of them side by side.

    Answers are kept as long as nothing that decides them changes; other metrics or another token counter only have
    them measured again, and of a part with failures only the failed queries are asked again.

    Attributes:
        unfinished: the selectors whose part is missing, has other keys, or holds failures.
        spans: what is missing of them, in order; what is asked elsewhere is taken out.
    """

    def __init__(
        self, prepared: Prepared, resources: LocalResources, store: RunFolder, *, name: str, commit: str | None
    ) -> None:
        super().__init__(prepared, prepared.datasets[name].measured(), resources)
        self.store, self.commit = store, commit
        external = {spec.name: spec.external for spec in prepared.experiment.selectors}
        self.keys = {n: self._key(selector, external[n]) for n, selector in self.selectors.items()}
        self.values_key = content_key(
            [str(metric) for metric in self.metrics],
            prepared.experiment.groups,
            *filter(None, [self.dataset.judged_as]),
            prepared.counter.name,
            code_hash(),
        )
        self.unfinished: list[str] = []
        self.spans: list[Span] = []
        self._finished: dict[str, StoredAnswers | None] = {}  # answers of parts that are to be measured again
        self._packed: dict[str, dict[int, Packed]] = {}  # what workers have sent, by selector and number of the slice
        self._offered_by: dict[str, StoredAnswers] = {}  # finished parts whose sizes others take

    def _key(self, selector: Selector, external: bool) -> str:
        """Hash of everything that decides a selector's answers; for ours, code and libraries among it."""
        return content_key(
            MEANING,
            self.dataset.hash,
            [query.id for query in self.dataset.queries],  # the hash is the same in any order, answers are not
            *filter(None, [self.dataset.judged_as]),  # the oracle answers by what is required
            selector.describe(),
            None if external else [code_hash(), versions()],
        )

    def look_up(self, progress: ProgressListener, *, fresh: bool) -> None:
        """Find out what is missing; `fresh` = everything."""
        self.unfinished = [
            name
            for name, key in self.keys.items()
            if fresh
            or not self.store.has(self.name, name, key, self.values_key)
            or self.store.error_count(self.name, name)
        ]
        for name in self.keys.keys() - set(self.unfinished):
            self.store.drop_slices(self.name, name)  # a process that was killed behind its last write left them
        self._finished = {
            name: None if fresh else self.store.answers(self.name, name, self.keys[name]) for name in self.unfinished
        }
        unanswered = [name for name in self.unfinished if self._finished[name] is None]
        slices, n = list[Missing](), len(self.dataset)
        for name in sorted(unanswered, key=self._takes_sizes):
            size = self._size(name)
            entries = [Missing(name, start, min(start + size, n)) for start in range(0, n, size)]
            ids = [[query.id for query in self.dataset.queries[entry.start : entry.stop]] for entry in entries]
            have = self.store.slice_numbers(self.name, name, self.keys[name], queries=ids, fresh=fresh)
            slices += [entry for number, entry in enumerate(entries) if number not in have]
        by_span = group_pairs((entry.start // SLICE * SLICE, entry) for entry in slices)
        self.spans = [Span(start, min(start + SLICE, n), tuple(by_span[start])) for start in sorted(by_span)]
        self.count = _AnswerCount(self.name, sum(span.n_answers for span in self.spans), progress)

    def finish(self, work: Workload) -> Iterator[tuple[str, StoredAnswers]]:
        """Ask the missing queries of the unfinished parts and save them; yields name and answers of each.

        Args:
            work: takes queries that are asked elsewhere.
        """
        self._ask_missing(work)
        work.collect(self)
        self._ask_missing(work)  # those that take sizes of what was asked elsewhere
        for name in sorted(self.unfinished, key=self._takes_sizes):
            finished = self._finished[name]
            answers = self.store.slices(self.name, name) if finished is None else self._retry_failed(name, finished)
            self.store.save(self._part(name, answers), self.dataset.catalog)
            self._offered_by.pop(name, None)
            yield name, answers

    def _ask_missing(self, work: Workload) -> None:
        """Ask for every missing slice that can be answered here and now."""
        later: list[Span] = []
        while self.spans:
            span = self.spans.pop(0)
            waiting = {name for name in self.selectors if work.awaits(self, name)}
            if rest := span.of_selectors(waiting).missing:
                later.append(span._replace(missing=rest))
            work.consider(self, self.answer(span.of_selectors(self.selectors.keys() - waiting)))
        self.spans = later

    def answer(self, span: Span) -> dict[str, float]:
        """Answer what is missing of a span here, and store it; seconds per answer, by selector."""
        seconds = {}
        for missing, answers in self.ask(span, self.count.answers_of):
            seconds[missing.selector] = float(np.nan_to_num(answers.seconds).mean())
            self.add(missing, answers)
        return seconds

    def lacks_vectors(self) -> bool:
        """Whether a pipeline compares vectors of items, and of a sample of them most are not stored."""
        if not any(EMBEDDER in pipeline.uses for pipeline in self._pipelines):
            return False
        sample = self.dataset.catalog[:: len(self.dataset.catalog) // 100 + 1]
        stored = self.resources.stored_vectors([text for item in sample for text in chunks_of(item)])
        return bool(2 * np.count_nonzero(stored) < len(stored))  # those that are never offered have none

    def vectors(self) -> bytes:
        """The vectors that are stored of what was noted in a first span and of all queries, for `add_vectors`."""
        batch, analyses = self.dataset.batch(), [pipeline.analyse for pipeline in self._pipelines]
        queries = {text for step in analyses if not step.uses for text in step.call(batch, self.resources).text}
        return self.resources.noted_vectors(sorted(queries))

    @property
    def _pipelines(self) -> list[Pipeline]:
        return [entry.pipeline for entry in self.selectors.values() if isinstance(entry, PipelineSelector)]

    def add(self, missing: Missing, answers: Slice | Packed) -> None:
        """Store a slice that was answered here, or by a worker."""
        name, number = missing.selector, missing.start // self._size(missing.selector)
        if isinstance(answers, Packed):
            self._packed.setdefault(name, {})[number] = replace(answers, slice=b"")
        stored = answers.slice if isinstance(answers, Packed) else answers
        self.store.add_slice(self.name, name, self.keys[name], number=number, answers=stored)

    def _size(self, name: str) -> int:
        """Queries per slice: `SLICE`, or fewer for a selector that may offer the whole catalog."""
        selector, size = self.selectors[name], SLICE
        if isinstance(selector, PipelineSelector) and selector.pipeline.retrieve.unlimited:
            while size % 2 == 0 and size * len(self.dataset.catalog) > ROWS:
                size //= 2
        return size

    def _retry_failed(self, name: str, stored: StoredAnswers) -> StoredAnswers:
        """The stored answers, with failed queries asked again; the next call continues after a stop."""
        if not stored.errors:
            return stored
        request, key = {request.id: request for request in self.dataset.requests()}, f"{self.keys[name]} fixed"
        have = self.store.slice_numbers(self.name, name, key, queries=stored.parts)
        missing = [number for number in range(len(stored.parts)) if number not in have]
        for number, block in zip(missing, stored.blocks(set(missing)), strict=True):
            merged = replace(block, notes={} if number else stored.notes)
            if failed := [query for query in block.queries if query in block.errors]:
                succeeded = merged.select_queries(
                    [index for index, query in enumerate(block.queries) if query not in block.errors]
                )
                batch = Batch.of(self.dataset.catalog, [request[query] for query in failed])
                merged = select_answers([succeeded, self._answered(name, batch, {})], block.queries) or merged
                self.memo.clear()
            self.store.add_slice(self.name, name, key, number=number, answers=merged)
        return self.store.slices(self.name, name)

    def _takes_sizes(self, name: str) -> bool:
        return isinstance(self.selectors[name], SizeMatched)

    def _stored(self, name: str, queries: Sequence[str]) -> Slice | None:
        """See `DatasetSelectors`; of an unfinished part, those that are there."""
        source = self._offered_by.get(name) or self.store.stored(self.name, name, self.keys[name])
        if source is not None and source.stamp is not None:  # an unfinished part still grows
            self._offered_by[name] = source
        return None if source is None else source.select_queries(queries)

    def _part(self, name: str, answers: StoredAnswers) -> Part:
        packed = {
            number: block
            for number, block in self._packed.pop(name, {}).items()
            if (block.ranked, block.scored) == (answers.ranked, answers.scored)
        }
        measures, ids = self._measures(answers, packed), self.dataset.catalog.ids
        forbidden = sum((entry.forbidden for entry in measures), np.zeros(len(ids), dtype=np.int64))
        return Part(
            dataset=self.name,
            selector=name,
            key=self.keys[name],
            values_key=self.values_key,
            answers=answers,
            made_by={"versions": versions(), "git": self.commit},
            metrics={
                metric: np.concatenate([entry.values[metric] for entry in measures])
                for metric in (measures[0].values if measures else ())
            },
            unavailable=measures[-1].unavailable if measures else {},
            notes=self._notes(name, answers),
            forbidden={ids[item]: int(forbidden[item]) for item in np.flatnonzero(forbidden).tolist()},
            packed=packed,
        )

    def _measures(self, answers: StoredAnswers, packed: Mapping[int, Packed]) -> list[Measures]:
        """The metrics of every block, in order; of those that are packed, they are there."""
        if answers.queries != self.labels.ids:
            n = len(answers.queries)
            raise StorageError(f"{answers.path} has answers to {n} of {len(self.labels.ids)} queries; run again")
        first = [0, *itertools.accumulate(map(len, answers.parts))]
        blocks = answers.blocks(set(range(len(answers.parts))) - packed.keys())
        return [
            packed[number].measures if number in packed else self.measure(next(blocks), first[number])
            for number in range(len(answers.parts))
        ]

    def _notes(self, name: str, answers: StoredAnswers) -> dict[str, Any]:
        """The notes of a selector on the run, and answers that belong to no query of the dataset."""
        notes, selector = dict(answers.notes), self.selectors[name]
        ranking = selector.ranking if isinstance(selector, SizeMatched) else selector
        if isinstance(ranking, PipelineSelector) and self.resources.index.ann and "index_recall" not in notes:
            notes["index_recall"] = index_recall(ranking, self.dataset, seed=self.prepared.experiment.seed)
        if isinstance(selector, FileSelector):  # a slice alone cannot tell
            notes |= self._not_measured(selector.unknown([query.id for query in self.dataset.queries]))
        return {key: value for key, value in notes.items() if value}

    def _not_measured(self, queries: Sequence[str]) -> dict[str, Any]:
        """How many answers are not measured, by reason, and the first ten of their queries."""
        dataset = self.prepared.opened[self.name]
        unlabelled, dataset_ids = set(dataset.unlabelled), {query.id for query in dataset.queries}
        sampled_out = dataset_ids - unlabelled
        reasons = {
            "not_asked_for": [query for query in queries if query not in dataset_ids],
            "unlabelled": [query for query in queries if query in unlabelled],
            "not_in_sample": [query for query in queries if query in sampled_out],
        }
        counts = {f"answers_{reason}": len(ids) for reason, ids in reasons.items()}
        return counts | {f"first_{reason}": ids[:10] for reason, ids in reasons.items()}


class Unit(NamedTuple):
    """Work for a worker: spans of one dataset, asked of selectors that share steps, or of one external selector.

    Attributes:
        dataset: its name.
        keys: of published content: a pickled `Prepared.part` with the dataset, and vectors if the worker may lack them.
        spans: what is missing of these selectors.
    """

    dataset: str
    keys: tuple[str, ...]
    spans: tuple[Span, ...]


def answer_unit(unit: Unit) -> tuple[list[tuple[Missing, Packed]], int]:
    """In a worker: answer the spans of a unit and measure the answers.

    Returns:
        Every missing slice, and how many texts were embedded.
    """
    selectors = _opened(*unit.keys)
    before = selectors.resources.stats.embedded
    packed = [
        (missing, Packed.of(answers, selectors.dataset.catalog, selectors.measure(answers, missing.start)))
        for span in unit.spans
        for missing, answers in selectors.ask(span)
    ]
    return packed, selectors.resources.stats.embedded - before


@lru_cache(maxsize=2)
def _opened(selectors: str, vectors: str = "") -> DatasetSelectors:
    """What the units of some selectors on one dataset share, opened once in a worker."""
    if vectors:
        add_vectors(content(vectors).read_bytes())
    prepared, dataset = pickle.loads(content(selectors).read_bytes())  # noqa: S301 - published by the caller
    return DatasetSelectors(prepared, dataset, prepared.resources())


UNIT = 8  # spans of a unit, at most
UNITS = 8  # of each process, at least, where there are so many spans: they end at about the same time
MEASURING = 1.8  # times the seconds of answering: with measuring and packing


class Workload:
    """Shares what is missing of a run with workers, as soon as that pays; see `is_sendable`.

    Attributes:
        embedded: texts that workers embedded.
    """

    def __init__(self, runs: Sequence[DatasetRun], workers: Workers, end: ExitStack) -> None:
        """Start workers at once if their number or a cluster is named; `end` closes the pool."""
        self.embedded = 0
        self._runs = {run.name: run for run in runs}
        self._workers, self._end = workers, end
        self._units: list[Unit] = []
        self._left: Counter[str] = Counter()  # units by dataset
        self._awaited: dict[str, set[str]] = {}  # selectors that workers are asked, by dataset
        self._results: Iterator[tuple[int, Any]] = iter(())
        self._begun: set[str] = set()
        self._is_open = workers.jobs is None and not workers.on  # whether to start is still open
        self._label = ""
        if workers.on or (workers.jobs or 1) > 1:
            self._start(workers)

    def consider(self, run: DatasetRun, seconds: Mapping[str, float]) -> None:
        """Start processes if what is missing takes long enough.

        Args:
            run: the dataset that a span was just answered of; its first one also makes indexes and loads models.
            seconds: per answer, by selector.
        """
        if self._is_open and run.name in self._begun:
            rates = {name: rate for name, rate in seconds.items() if self._is_sendable(run, name)}
            missing = [entry for run in self._runs.values() for span in run.spans for entry in span.missing]
            estimate = sum(rates.get(entry.selector, 0.0) * (entry.stop - entry.start) for entry in missing)
            if (n := self._workers.processes(MEASURING * estimate)) > 1:
                self._start(replace(self._workers, jobs=n))
        self._begun.add(run.name)

    def awaits(self, run: DatasetRun, name: str) -> bool:
        """Whether a selector takes the sizes of one that workers are asked and whose answers are not all there."""
        selector = run.selectors[name]
        return isinstance(selector, SizeMatched) and selector.like.name in self._awaited.get(run.name, ())

    def collect(self, run: DatasetRun) -> None:
        """Wait for all answers to the queries of a dataset; those of others that come meanwhile are stored as well."""
        while self._left[run.name]:
            index, (packed, embedded) = next(self._results)
            source = self._runs[(unit := self._units[index]).dataset]
            for missing, answers in packed:
                source.add(missing, answers)
            source.count.add(self._label, sum(span.n_answers for span in unit.spans))
            self._left[unit.dataset] -= 1
            self.embedded += embedded
        self._awaited.pop(run.name, None)

    def _is_sendable(self, run: DatasetRun, name: str) -> bool:
        return is_sendable(run.selectors[name], run.prepared.experiment.embedder)

    def _groups(self, run: DatasetRun) -> list[tuple[set[str], bytes]]:
        """Selectors that workers are asked together, with what they need: all of ours, and each external one."""
        import cloudpickle

        groups = []
        missing = {entry.selector for span in run.spans for entry in span.missing}
        names = {name for name in run.selectors if self._is_sendable(run, name)}
        ours = {name for name in names if is_ours(run.selectors[name])}
        for group in (ours, *({name} for name in names - ours)):
            if not missing.isdisjoint(group):
                with suppress(Exception):  # whatever pickling raises: it is asked in this process
                    groups.append((group, cloudpickle.dumps((run.prepared.part(run.name, group), run.dataset))))
        return groups

    def _start(self, workers: Workers) -> None:
        """Open the pool and give it everything that can be sent."""
        self._is_open = False
        vectors = {}
        for run in self._runs.values():
            if run.spans and (workers.on or run.lacks_vectors()):  # else every worker would embed the same items
                run.resources.note_texts()
                run.answer(run.spans.pop(0))
                vectors[run.name] = run.vectors() if workers.on else b""
        groups = [(run, *group) for run in self._runs.values() for group in self._groups(run)]
        n_spans = sum(len(run.spans) for run, _, _ in groups)
        if not workers.on:
            workers = replace(workers, jobs=max(1, min(workers.jobs or 1, n_spans)))
        if not groups or (workers.jobs == 1 and not workers.on):
            return
        (library,) = {run.prepared.experiment.index.ann for run in self._runs.values()}
        pool = self._end.enter_context(open_pool(workers, partial(shared_versions, library)))
        self._label = Message("evaluation.processes", n=pool.size)
        size = max(1, min(UNIT, n_spans // (UNITS * pool.size)))
        for run, names, data in groups:
            keys = tuple(pool.publish(part) for part in (data, vectors.get(run.name, b"")) if part)
            spans = [part for span in run.spans if (part := span.of_selectors(names)).missing]
            run.spans = [
                part for span in run.spans if (part := span.of_selectors(run.selectors.keys() - names)).missing
            ]
            parts = [tuple(spans[first : first + size]) for first in range(0, len(spans), size)]
            self._units += [Unit(run.name, keys, part) for part in parts]
            self._left[run.name] += len(parts)
            self._awaited.setdefault(run.name, set()).update(names)
        self._results = results = cast("Generator[tuple[int, Any]]", pool.run(answer_unit, self._units))
        self._end.callback(results.close)


def shared_versions(library: str) -> dict[str, str]:
    """The versions that workers must have, that of an approximate index among them; empty `library` = there is none."""
    return {**versions(), **({library: ann_identity(library)} if library else {})}


RECALL_AT = 20  # items of a query that an approximate index is compared with exact search on, at most
RECALL_QUERIES = 200  # on how many queries, at most


def index_recall(selector: PipelineSelector, dataset: Dataset, *, seed: int) -> dict[str, Any]:
    """Measure how much of what exact search finds a selector's approximate index finds.

    Args:
        selector: a pipeline over resources with an approximate index.
        dataset: whose requests are searched for.
        seed: of the sample of `RECALL_QUERIES` requests.

    Returns:
        `index`, the library; `k`, the smaller of `RECALL_AT` and the depth of the search; and the mean over requests of
        the share of exact search's best k items that are among the best k found, with its interval, as `estimate_dict`.
        Of several searches in the pipeline the worst. Empty where none uses the index.
    """
    requests, resources = dataset.requests(), selector.resources
    sample = np.sort(np.random.default_rng(seed).permutation(len(requests))[:RECALL_QUERIES])
    steps = [step for step in selector.pipeline.steps() if INDEX in step.uses and step.kind == "retrieve"]
    if not steps:
        return {}
    batch = Batch.of(dataset.catalog, [requests[row] for row in sample.tolist()])
    query = with_own_vectors(selector.pipeline.analyse.call(batch, resources))
    measured_steps = []
    for step in steps:
        k = min(RECALL_AT, *step.depths)
        approximate, exact = (step.call(query, source) for source in (resources, ExactSearch(resources)))
        best = [
            [set(table.item[table.start[row] : table.start[row + 1]][:k].tolist()) for row in range(len(batch))]
            for table in (approximate, exact)
        ]
        shares = [len(near & nearest) / len(nearest) for near, nearest in zip(*best, strict=True) if nearest]
        measured_steps.append({"index": resources.index.ann, "k": k, **estimate_dict(estimate(shares, scale="share"))})
    return min(measured_steps, key=lambda entry: entry["value"] or 0.0)


def with_forbidden(metrics: Sequence[Metric], dataset: Dataset) -> tuple[Metric, ...]:
    """Add `forbidden_offered` to some metrics where queries of a dataset have forbidden items."""
    return tuple(dict.fromkeys([*metrics, FORBIDDEN_OFFERED])) if dataset.forbidden else tuple(metrics)


def measured(
    metrics: Sequence[Metric], evidence: Evidence, answers: Slice, *, joined: Joined | None = None
) -> dict[Metric, FloatArray]:
    """Metrics by query, shape (n_queries,) each; NaN where a failed query would count as abstention or few tokens."""
    failed = np.array([query in answers.errors for query in answers.queries], dtype=np.bool_)
    return {
        metric: np.where(failed, np.nan, values) if str(metric) in NOT_OF_FAILED else values
        for metric, values in evaluate(metrics, evidence, joined=joined).items()
    }


def answered(selector: Selector, batch: Batch, *, like: Slice | None = None) -> Slice:
    """Ask a selector; where it does not time requests itself, each takes its share of the batch.

    Args:
        selector: what is asked.
        batch: the requests.
        like: to the same requests, the answers of the selector whose sizes an `SizeMatched` takes; None = it is asked.
    """
    begin = time.perf_counter()
    if like is not None and isinstance(selector, SizeMatched):
        errors = {row: like.errors[query] for row, query in enumerate(batch.ids) if query in like.errors}
        answers = selector.sized(batch, offered_sizes(like.candidates), errors)
    else:
        answers = selector.select(batch)
    share = np.full(len(batch), (time.perf_counter() - begin) / max(len(batch), 1))
    return Slice(
        queries=batch.ids,
        chunks=tuple(answers.query.chunks(row) for row in range(len(batch))),
        candidates=answers.candidates,
        ranked=answers.ranked,
        scored=answers.scored,
        errors={batch.ids[row]: text for row, text in sorted(answers.errors.items())},
        seconds=share if answers.seconds is None else answers.seconds,
        notes=getattr(selector, "take_notes", dict)(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Summary of what a run computed and reused.

    Attributes:
        folder: where the results are.
        made, reused: how many parts (dataset and selector) were computed now, and were finished before.
        kept: names of the user's selectors that were not asked on some dataset, since their answers were found.
        embedded: texts that were embedded; 0 means that no model was loaded.
        errors: queries that a selector failed on, by "dataset, selector".
    """

    folder: Path
    made: int
    reused: int
    kept: tuple[str, ...]
    embedded: int
    errors: Mapping[str, int]


def run(
    prepared: Prepared,
    folder: Path,
    *,
    progress: ProgressListener = silent,
    fresh: bool = False,
    workers: Workers = Workers(jobs=1),  # noqa: B008 - it cannot be changed
) -> RunReport:
    """Run an experiment, or its missing parts, into `folder`.

    Answers made from the same dataset and selector are kept; where only metrics or token counts differ they are
    measured again, and queries that failed are asked again. The manifest is written last. Interrupted at any point,
    the same call goes on and ends with the same selections and metrics, byte for byte.

    Args:
        prepared: the experiment.
        folder: the run folder; made if it is missing.
        progress: called with dataset and selector, and with how many of the answers to all missing queries there are:
            before and after every slice of queries, and after each answer of a function.
        fresh: compute everything again (vectors stay in their store).
        workers: where queries are answered and measured; see `Workload`. The results are the same, byte for byte.

    Raises:
        UserError: a selector of ours fails, or the folder cannot be written. Queries that a selector of the
            user's fails on are errors in the run instead.
    """
    store = RunFolder(folder)
    store.refuse_foreign(prepared.experiment.name)
    resources = prepared.resources(progress=lambda done, total: progress("embedding texts", done, total))
    timings: dict[str, dict[str, Any]] = {}
    commit = git_commit(prepared.experiment.base)
    errors: dict[str, int] = {}
    reused_selectors: dict[str, None] = {}
    selectors: Mapping[str, Selector] = {}
    with (
        store.locked(lambda: progress(Message("evaluation.waiting-for-run", folder=folder), 0, 1)),
        ExitStack() as end,
    ):
        runs = []
        for name in prepared.datasets:
            runs.append(work := DatasetRun(prepared, resources, store, name=name, commit=commit))
            for selector in work.selectors.values():  # external ones are the same objects for every dataset
                if hasattr(selector, "close"):
                    end.callback(selector.close)
            if fresh:
                ask_anew(work.selectors.values())
            work.look_up(progress, fresh=fresh)
        n_made = sum(len(work.unfinished) for work in runs)
        workload = Workload(runs, workers, end)
        for work in runs:
            name, selectors = work.name, work.selectors
            reused_selectors |= {
                name: None
                for name, selector in selectors.items()
                if name not in work.unfinished and _is_asked(selector)
            }
            for made_now, answers in work.finish(workload):
                if row := timing(answers):
                    timings.setdefault(name, {})[made_now] = row
            errors |= {f"{name}, {s}": n for s in selectors if (n := store.error_count(name, s))}
        store.save_timings(timings, made=n_made > 0, experiment_folder=prepared.experiment.base)
        described_run = manifest(prepared, selectors, commit=commit)
        for name, entry in described_run["selectors"].items() if prepared.experiment.index.ann else ():
            recalls = {dataset: store.notes(dataset, name).get("index_recall") for dataset in prepared.datasets}
            entry["index_recall"] = {dataset: recall for dataset, recall in recalls.items() if recall}
        store.write("manifest.json", described_run)
    return RunReport(
        folder=folder,
        made=n_made,
        reused=sum(len(work.selectors) for work in runs) - n_made,
        kept=(*reused_selectors,),
        embedded=resources.stats.embedded + workload.embedded,
        errors=errors,
    )


def _is_asked(selector: Selector) -> bool:
    """Whether it is one of the user's that runs, not a file of answers."""
    return isinstance(selector, External) and not isinstance(selector, FileSelector)
