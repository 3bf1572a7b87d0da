"""Run an experiment into a run folder, resuming where it stopped; latency of warm requests."""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import group_pairs
from ctxbench.evaluation.answers import Labels, Part, Slice, StoredAnswers, select_answers
from ctxbench.evaluation.experiment import code_hash, git_commit, machine, versions
from ctxbench.evaluation.inputs import Prepared, count_tokens
from ctxbench.evaluation.metric_kernels import Joined
from ctxbench.evaluation.metrics import FORBIDDEN_OFFERED, Metric, evaluate, forbidden_counts, unavailable
from ctxbench.evaluation.run_folder import FORMAT, MEANING, RunFolder, content_key, estimate_dict
from ctxbench.evaluation.statistics import estimate
from ctxbench.io.cache import refuse_unwritable
from ctxbench.io.console import ProgressListener, silent
from ctxbench.io.errors import Message, ParameterError, StorageError, UserError
from ctxbench.model.arrays import Evidence, FloatArray, IntArray
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch, Request, with_own_vectors
from ctxbench.model.resources import INDEX, Resources
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import Embedder
from ctxbench.search.resources import ExactSearch, LocalResources
from ctxbench.selectors.definitions import SelectorSpec
from ctxbench.selectors.external import External, FileSelector
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

        def report(more: int = 0) -> None:
            self._done = min(self._done + more, end)  # a selector may be asked repeatedly
            self._progress(f"{self._dataset}, {name}", self._done, self._total)

        report()
        with selector.watched(partial(report, 1)) if isinstance(selector, External) else nullcontext():
            yield
        report(n)


class DatasetRun:
    """All selectors of an experiment on one dataset; slices of queries go through all of them side by side.

    Answers are kept as long as nothing that decides them changes; other metrics or another token counter only have
    them measured again, and of a part with failures only the failed queries are asked again.
    """

    def __init__(
        self, prepared: Prepared, resources: LocalResources, store: RunFolder, *, name: str, commit: str | None
    ) -> None:
        self.prepared = prepared
        self.resources = resources
        self.store = store
        self.name = name
        self.commit = commit
        self.dataset: Dataset = prepared.datasets[name].measured()
        self.memo: dict[str, Any] = {}
        self.selectors = prepared.experiment.make_selectors(resources, self.memo, required=self.dataset.required)
        external = {spec.name: spec.external for spec in prepared.experiment.selectors}
        self.keys = {n: self._key(selector, external[n]) for n, selector in self.selectors.items()}
        self.metrics = with_forbidden(prepared.metrics, self.dataset)
        self.values_key = content_key(
            [str(metric) for metric in self.metrics],
            prepared.experiment.groups,
            *filter(None, [self.dataset.judged_as]),
            prepared.counter.name,
            code_hash(),
        )
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

    def unfinished(self, *, fresh: bool) -> list[str]:
        """The selectors whose part is missing, has other keys, or holds failures."""
        return [
            name
            for name, key in self.keys.items()
            if fresh
            or not self.store.has(self.name, name, key, self.values_key)
            or self.store.error_count(self.name, name)
        ]

    def finish(
        self, names: Sequence[str], progress: ProgressListener, *, fresh: bool
    ) -> Iterator[tuple[str, StoredAnswers]]:
        """Ask the missing queries of some parts and save them; yields name and answers of each."""
        stored = {name: None if fresh else self.store.answers(self.name, name, self.keys[name]) for name in names}
        self._ask([name for name in names if stored[name] is None], progress, fresh=fresh)
        for name in sorted(names, key=self._takes_sizes):
            finished = stored[name]
            answers = self.store.slices(self.name, name) if finished is None else self._retry_failed(name, finished)
            self.store.save(self._part(name, answers), self.dataset.catalog)
            self._offered_by.pop(name, None)
            yield name, answers

    def _ask(self, names: Sequence[str], progress: ProgressListener, *, fresh: bool) -> None:
        """Ask for every missing slice; selectors that copy another's sizes come after it."""
        if not names:
            return
        requests = self.dataset.requests()
        have: dict[str, set[int]] = {}
        sizes = {name: self._size(name) for name in sorted(names, key=self._takes_sizes)}
        for name, size in sizes.items():
            ids = [
                [request.id for request in requests[first : first + size]] for first in range(0, len(requests), size)
            ]
            have[name] = self.store.slice_numbers(self.name, name, self.keys[name], queries=ids, fresh=fresh)
        likes = {selector.like.name for selector in map(self.selectors.get, names) if isinstance(selector, SizeMatched)}
        n_missing = sum(
            min(size, len(requests) - start)
            for name, size in sizes.items()
            for start in range(0, len(requests), size)
            if start // size not in have[name]
        )
        counted = _AnswerCount(self.name, n_missing, progress)
        for first in range(0, len(requests), SLICE):
            part = requests[first : first + SLICE]
            missing = [
                (name, start, size)
                for name, size in sizes.items()
                for start in range(first, first + len(part), size)
                if start // size not in have[name]
            ]
            batch = Batch.of(self.dataset.catalog, part if missing else ())
            by_name: dict[str, list[Slice]] = {}
            for name, start, size in missing:
                several = requests[start : start + size]
                slice_batch = batch if len(several) == len(part) else Batch.of(self.dataset.catalog, several)
                with counted.answers_of(name, self.selectors[name], len(several)):
                    answers = self._answered(name, slice_batch, by_name)
                self.store.add_slice(self.name, name, self.keys[name], number=start // size, answers=answers)
                if name in likes:
                    by_name.setdefault(name, []).append(answers)
            self.memo.clear()

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
        request = {request.id: request for request in self.dataset.requests()}
        key = f"{self.keys[name]} fixed"
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

    def _answered(self, name: str, batch: Batch, by_name: Mapping[str, Sequence[Slice]]) -> Slice:
        """The answers of a selector. If it copies another's sizes, that one is not asked again.

        Args:
            name: of the selector.
            batch: what is asked.
            by_name: what other selectors have just answered to it.
        """
        selector = self.selectors[name]
        if not isinstance(selector, SizeMatched):
            return answered(selector, batch)
        like = selector.like.name
        if (stored := select_answers(by_name.get(like, ()), batch.ids)) is None:
            source = self._offered_by.get(like) or self.store.stored(self.name, like, self.keys[like])
            stored = None if source is None else source.select_queries(batch.ids)
            if source is not None and source.stamp is not None:  # an unfinished part still grows
                self._offered_by[like] = source
        return answered(selector, batch, like=stored)

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

    def _part(self, name: str, answers: StoredAnswers) -> Part:
        values, reasons, forbidden = self._measured(answers)
        return Part(
            dataset=self.name,
            selector=name,
            key=self.keys[name],
            values_key=self.values_key,
            answers=answers,
            made_by={"versions": versions(), "git": self.commit},
            metrics={str(metric): value for metric, value in values.items()},
            unavailable={str(metric): reason for metric, reason in reasons.items()},
            notes=self._notes(name, answers),
            forbidden={
                self.dataset.catalog.ids[item]: int(forbidden[item]) for item in np.flatnonzero(forbidden).tolist()
            },
        )

    def _measured(self, answers: StoredAnswers) -> tuple[dict[Metric, FloatArray], dict[Metric, str], IntArray]:
        """Metrics by query, a block at a time, why others could not be computed, and `forbidden_counts`."""
        metrics, first = self.metrics, 0
        values: dict[Metric, list[FloatArray]] = {}
        reasons: dict[Metric, str] = {}
        forbidden = np.zeros(len(self.dataset.catalog), dtype=np.int64)
        for block in answers.blocks():
            self._count_offered(block)
            evidence = self.labels.evidence(block, first=first)
            joined = Joined(evidence)
            for metric, column in measured(metrics, evidence, block, joined=joined).items():
                values.setdefault(metric, []).append(column)
            reasons = unavailable(metrics, evidence)
            if FORBIDDEN_OFFERED in metrics:
                forbidden += forbidden_counts(joined, len(forbidden))
            first += len(block.queries)
        if first != len(self.labels.ids):
            raise StorageError(f"{answers.path} has answers to {first} of {len(self.labels.ids)} queries; run again")
        return {metric: np.concatenate(blocks) for metric, blocks in values.items()}, reasons, forbidden

    def _notes(self, name: str, answers: StoredAnswers) -> dict[str, Any]:
        """The notes of a selector on the run, and answers that belong to no query of the dataset."""
        notes = dict(answers.notes)
        selector = self.selectors[name]
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
        found, exact = (step.call(query, source) for source in (resources, ExactSearch(resources)))
        best = [
            [set(table.item[table.start[row] : table.start[row + 1]][:k].tolist()) for row in range(len(batch))]
            for table in (found, exact)
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
    values = evaluate(metrics, evidence, joined=joined)
    failed = np.array([query in answers.errors for query in answers.queries], dtype=np.bool_)
    masked = {metric: np.where(failed, np.nan, values[metric]) for metric in values if str(metric) in NOT_OF_FAILED}
    return values | masked


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


_log = logging.getLogger(__name__)


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


def run(prepared: Prepared, folder: Path, *, progress: ProgressListener = silent, fresh: bool = False) -> RunReport:
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

    Raises:
        UserError: a selector of ours fails, or the folder cannot be written. Queries that a selector of the
            user's fails on are errors in the run instead.
    """
    store = RunFolder(folder)
    _refuse_foreign(store, prepared)
    resources = prepared.resources(progress=lambda done, total: progress("embedding texts", done, total))
    timings: dict[str, dict[str, Any]] = {}
    commit = git_commit(prepared.experiment.base)
    n_made = reused = 0
    errors: dict[str, int] = {}
    reused_selectors: dict[str, None] = {}
    selectors: Mapping[str, Selector] = {}
    with (
        store.locked(lambda: progress(Message("evaluation.waiting-for-run", folder=folder), 0, 1)),
        ExitStack() as end,
    ):
        for name in prepared.datasets:
            work = DatasetRun(prepared, resources, store, name=name, commit=commit)
            selectors = work.selectors
            for selector in selectors.values():  # external ones are the same objects for every dataset
                if hasattr(selector, "close"):
                    end.callback(selector.close)
            unfinished = work.unfinished(fresh=fresh)
            reused += len(work.selectors) - len(unfinished)
            n_made += len(unfinished)
            reused_selectors |= {
                name: None
                for name, selector in work.selectors.items()
                if name not in unfinished and _is_asked(selector)
            }
            for made_now, answers in work.finish(unfinished, progress, fresh=fresh):
                if row := _timing(answers):
                    timings.setdefault(name, {})[made_now] = row
            errors |= {f"{name}, {s}": n for s in work.selectors if (n := store.error_count(name, s))}
        _save_timings(store, timings, made=n_made > 0, experiment_folder=prepared.experiment.base)
        described_run = manifest(prepared, selectors, commit=commit)
        for name, entry in described_run["selectors"].items() if prepared.experiment.index.ann else ():
            recalls = {dataset: store.notes(dataset, name).get("index_recall") for dataset in prepared.datasets}
            entry["index_recall"] = {dataset: recall for dataset, recall in recalls.items() if recall}
        store.write("manifest.json", described_run)
    return RunReport(
        folder=folder,
        made=n_made,
        reused=reused,
        kept=(*reused_selectors,),
        embedded=resources.stats.embedded,
        errors=errors,
    )


def _is_asked(selector: Selector) -> bool:
    """Whether it is one of the user's that runs, not a file of answers."""
    return isinstance(selector, External) and not isinstance(selector, FileSelector)


def _refuse_foreign(store: RunFolder, prepared: Prepared) -> None:
    """A run must not be mixed with another experiment's, nor with anything else.

    Raises:
        ParameterError: the folder holds that.
        StorageError: it cannot be written.
    """
    refuse_unwritable(store.path, folder="a run")
    if (store.path / "dataset.yaml").exists():
        raise ParameterError(f"{store.path} is the folder of a dataset; name another folder for the run")
    if store.is_foreign():
        raise ParameterError(f"{store.path} is there and is no run; name a new folder")
    if (earlier := store.experiment()) is not None and earlier != prepared.experiment.name:
        raise ParameterError(
            f"{store.path} holds a run of experiment {earlier!r}, not of {prepared.experiment.name!r}; "
            "name another folder, or delete it"
        )


def _timing(answers: StoredAnswers) -> dict[str, Any]:
    """The times of a part; empty where no query was timed."""
    seconds = answers.seconds[~np.isnan(answers.seconds)]
    if not len(seconds):
        return {}
    p50, p95 = np.percentile(seconds, [50, 95]).tolist()
    row = {"queries": len(seconds), "seconds": float(seconds.sum()), "p50_s": p50, "p95_s": p95}
    return {**row, "processor": machine()["processor"]}  # a row may be of an earlier call, on another machine


def _save_timings(
    store: RunFolder, times: Mapping[str, Mapping[str, Any]], *, made: bool, experiment_folder: Path
) -> None:
    """Write the times of parts, with those of earlier calls, into a separate file, since they never repeat.

    `made` says whether this call made any part; else the date of the run stays.
    """
    day = "" if made else store.date()
    try:
        earlier = store.read("timings.json")["parts"]
    except (UserError, KeyError) as error:
        earlier = {}
        if (store.path / "timings.json").exists():
            _log.warning(Message("evaluation.timings-lost", error=error))
    store.write(
        "timings.json",
        {
            "machine": machine(),
            "date": day or datetime.now(UTC).date().isoformat(),
            "experiment_folder": os.path.relpath(experiment_folder, store.path),
            "note": Message("evaluation.timings-note"),
            "parts": {name: {**earlier.get(name, {}), **times.get(name, {})} for name in {**earlier, **times}},
        },
    )


def manifest(prepared: Prepared, selectors: Mapping[str, Selector], *, commit: str | None) -> dict[str, Any]:
    """The manifest: everything that the results depend on, and nothing of the time or the machine."""
    experiment = prepared.experiment
    specs = {spec.name: spec for spec in experiment.selectors}
    return {
        "format": FORMAT,
        "experiment": {
            "name": experiment.name,
            "about": experiment.about,
            "compare_to": experiment.compare_to,
            "split": experiment.split,
            "sample": experiment.sample,
            "seed": experiment.seed,
            "metrics": [str(metric) for metric in prepared.metrics],
            "metrics_named": experiment.metrics_named,
            **({"groups": dict(experiment.groups)} if experiment.groups else {}),
            **({"judged": experiment.judged} if experiment.judged else {}),
        },
        "datasets": {
            name: {
                "reference": prepared.references[name],
                "version": dataset.version,
                "hash": dataset.hash,
                "queries": len(dataset.measured()),
                "of": prepared.measured[name],
                "unlabelled": len(dataset.unlabelled) - len(dataset.only_negatives),
                "only_negatives": len(dataset.only_negatives),
                "drawn": prepared.drawn[name],
                "items": len(dataset.catalog),
                "scopes": _scopes(dataset),
            }
            for name, dataset in prepared.datasets.items()
        },
        "selectors": {name: described(specs[name], selector) for name, selector in selectors.items()},
        "embedder": prepared.embedder.identity.as_dict(),
        "tokens": prepared.counter.name,
        "versions": versions(),
        "git": commit,
    }


def _scopes(dataset: Dataset) -> dict[str, list[int]]:
    """The positions of the measured queries of each named scope."""
    queries = dataset.measured().queries
    pairs = ((query.scope, index) for index, query in enumerate(queries) if query.scope is not None)
    return dict(sorted(group_pairs(pairs).items()))


def described(spec: SelectorSpec, selector: Selector) -> dict[str, Any]:
    """A selector of an experiment as the manifest has it."""
    return {
        "about": spec.about,
        "values": dict(spec.values),
        "like": spec.like,
        "external": spec.external,
        "shipped": spec.shipped,
        "description": selector.describe(),
    }


@dataclass(frozen=True, slots=True)
class Quantiles:
    """The distribution of some times.

    Attributes:
        n: how many times.
        p50, p95, p99: quantiles in seconds, interpolated between the two nearest times.
    """

    n: int
    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, nanoseconds: Sequence[int]) -> Quantiles:
        """The quantiles of at least one time."""
        p50, p95, p99 = (np.quantile(nanoseconds, (0.5, 0.95, 0.99)) / 1e9).tolist()
        return cls(len(nanoseconds), p50, p95, p99)


def requests_like(catalog: Catalog, n: int = 40) -> tuple[Request, ...]:
    """Make at most `n` requests from different descriptions of items, spread over the catalog.

    An item without a description lends its name.
    """
    texts = list(dict.fromkeys(item.description or item.name for item in catalog))
    n = min(n, len(texts))
    return tuple(Request(id=f"like-{index}", text=texts[index * len(texts) // n]) for index in range(n))


def time_requests(
    pipelines: Mapping[str, Pipeline],
    catalog: Catalog,
    requests: Sequence[Request],
    *,
    new_resources: Callable[[], Resources],
    seconds: float = 60.0,
    progress: ProgressListener = silent,
) -> dict[str, Quantiles]:
    """Time requests from their resolution to their prompt, all pipelines in turn, each with a separate index.

    Each pipeline first answers all requests untimed, so that indexes are made and all vectors stored.

    Args:
        pipelines: by name.
        catalog: what all requests are over.
        requests: at least one; asked over and over.
        new_resources: makes the resources of one pipeline, which share nothing but stored vectors with the others.
        seconds: how long all pipelines together are timed; each is asked one request at least.
        progress: called with what is done.

    Raises:
        ParameterError: there is no request.
    """
    if not requests:
        raise ParameterError("there is no request to time; the catalog needs at least one item")
    resources = {name: new_resources() for name in pipelines}
    for number, (name, pipeline) in enumerate(pipelines.items()):
        progress(f"preparing {name}", number, len(pipelines))
        for request in requests:
            _ask(pipeline, catalog, request, resources[name])
    times: dict[str, list[int]] = {name: [] for name in pipelines}
    start = time.perf_counter()
    for request in itertools.cycle(requests):
        for name, pipeline in pipelines.items():
            begin = time.perf_counter_ns()
            _ask(pipeline, catalog, request, resources[name])
            times[name].append(time.perf_counter_ns() - begin)
        elapsed = time.perf_counter() - start
        progress("seconds", int(elapsed), int(seconds))
        if elapsed >= seconds:
            break
    return {name: Quantiles.of(nanoseconds) for name, nanoseconds in times.items()}


def time_embedding(embedder: Embedder, texts: Sequence[str]) -> Quantiles:
    """Time the embedding of each of some texts, the model loaded; at least one text."""
    embedder.embed(texts[:1])
    times = []
    for text in texts:
        begin = time.perf_counter_ns()
        embedder.embed([text])
        times.append(time.perf_counter_ns() - begin)
    return Quantiles.of(times)


def _ask(pipeline: Pipeline, catalog: Catalog, request: Request, resources: Resources) -> None:
    pipeline.prompts(pipeline.run(Batch.of(catalog, (request,)), resources), resources)
