"""All selectors of an experiment on one dataset: asks what is missing, measures, saves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ctxbench.bench.answer_rows import Part
from ctxbench.bench.labels import Labels
from ctxbench.bench.metrics import FORBIDDEN_OFFERED, Evidence, Metric, evaluate, forbidden_counts, unavailable
from ctxbench.bench.metrics.joined import Joined
from ctxbench.bench.prepared import Prepared
from ctxbench.bench.progress_listener import Progress
from ctxbench.bench.provenance import code_hash, versions
from ctxbench.bench.results import MEANING, RunFolder, content_key
from ctxbench.bench.slices import Slice
from ctxbench.bench.stored_answers import StoredAnswers, select_answers
from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.errors import StorageError
from ctxbench.core.requests import Batch
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.index.resources import LocalResources
from ctxbench.selectors.external import FileSelector
from ctxbench.selectors.pipelines import PipelineSelector, SizeMatched, offered_sizes
from ctxbench.selectors.selector import Selector

NOT_OF_FAILED = {  # to fail is not to abstain, and not to be cheap
    *("abstention", "false_inclusion", "false_items", "forbidden_offered"),
    *("tokens", "total_tokens", "loaded_tokens", "items", "unlabelled", "wrong_siblings"),
    *("model_tokens", "model_seconds"),
}
SLICE = 64  # queries between two checkpoints, at most
ROWS = 2_000_000  # candidates of a slice, at most: what offers the whole catalog is asked about fewer queries at once


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
        outside = {spec.name: spec.outside for spec in prepared.experiment.selectors}
        self.keys = {n: self._key(selector, outside[n]) for n, selector in self.selectors.items()}
        self.metrics = with_forbidden(prepared.metrics, self.dataset)
        metrics = [str(metric) for metric in self.metrics]
        self.values_key = content_key(metrics, prepared.counter.name, prepared.item_tokens[name].tolist(), code_hash())
        self._offered_by: dict[str, StoredAnswers] = {}  # finished parts whose sizes others take

    def _key(self, selector: Selector, outside: bool) -> str:
        """Hash of everything that decides a selector's answers; for ours, code and libraries among it."""
        return content_key(
            MEANING,
            self.dataset.hash,
            [query.id for query in self.dataset.queries],  # the hash is the same in any order, answers are not
            selector.describe(),
            None if outside else [code_hash(), versions()],
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

    def finish(self, names: Sequence[str], progress: Progress, *, fresh: bool) -> Iterator[tuple[str, StoredAnswers]]:
        """Ask what is missing of some parts and save them; yields name and answers of each."""
        stored = {name: None if fresh else self.store.answers(self.name, name, self.keys[name]) for name in names}
        missing = [name for name in names if stored[name] is None]
        self._ask(missing, progress, fresh=fresh)
        for name in sorted(names, key=self._takes_sizes):
            finished = stored[name]
            answers = self.store.slices(self.name, name) if finished is None else self._retry_failed(name, finished)
            self.store.save(self._part(name, answers), self.dataset.catalog)
            self._offered_by.pop(name, None)
            yield name, answers

    def _ask(self, names: Sequence[str], progress: Progress, *, fresh: bool) -> None:
        """Ask for every slice that is missing; those that take another's sizes come after it."""
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
                answers = self._answered(name, slice_batch, by_name)
                self.store.add_slice(self.name, name, self.keys[name], number=start // size, answers=answers)
                if name in likes:
                    by_name.setdefault(name, []).append(answers)
            self.memo.clear()
            progress(self.name, first + len(part), len(requests))

    def _size(self, name: str) -> int:
        """Queries of a slice of a selector: `SLICE`, or of what may offer the whole catalog a part of it."""
        selector, size = self.selectors[name], SLICE
        if isinstance(selector, PipelineSelector) and selector.pipeline.retrieve.unlimited:
            while size % 2 == 0 and size * len(self.dataset.catalog) > ROWS:
                size //= 2
        return size

    def _retry_failed(self, name: str, stored: StoredAnswers) -> StoredAnswers:
        """Answers that are there, with the failed queries asked again; stopped, the next call goes on."""
        if not stored.errors:
            return stored
        request = {request.id: request for request in self.dataset.requests()}
        key = f"{self.keys[name]} mended"
        have = self.store.slice_numbers(self.name, name, key, queries=stored.parts)
        missing = [number for number in range(len(stored.parts)) if number not in have]
        for number, block in zip(missing, stored.blocks(set(missing)), strict=True):
            merged = replace(block, notes={} if number else stored.notes)
            failed = [query for query in block.queries if query in block.errors]
            if failed:
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
        """The answers of a selector. Where it takes another's sizes, that one is not asked a second time.

        Args:
            name: of the selector.
            batch: what is asked.
            by_name: what other selectors have just answered to it.
        """
        selector = self.selectors[name]
        if not isinstance(selector, SizeMatched):
            return answered(selector, batch)
        like = selector.like.name
        stored = select_answers(by_name.get(like, ()), batch.ids)
        if stored is None:
            source = self._offered_by.get(like) or self.store.stored(self.name, like, self.keys[like])
            stored = None if source is None else source.select_queries(batch.ids)
            if source is not None and source.stamp is not None:  # an unfinished part still grows
                self._offered_by[like] = source
        return answered(selector, batch, like=stored)

    @cached_property
    def labels(self) -> Labels:
        """The labels that every selector's answers are compared with; made once."""
        return Labels.of(self.dataset, self.prepared.item_tokens[self.name], self.resources.text_tokens)

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
