"""Runs an experiment: every selector on every dataset, resumable, into a run folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.bench.dataset_run import DatasetRun
from ctxbench.bench.machine import machine
from ctxbench.bench.prepared import Prepared
from ctxbench.bench.progress_listener import Progress, silent
from ctxbench.bench.provenance import git_commit, versions
from ctxbench.bench.results import FORMAT, RunFolder
from ctxbench.bench.selector_specs import SelectorSpec
from ctxbench.bench.stored_answers import StoredAnswers
from ctxbench.core.errors import ParameterError, UserError
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.index.resources import LocalResources
from ctxbench.io.output_paths import refuse_unwritable
from ctxbench.selectors.external import External, FileSelector
from ctxbench.selectors.selector import Selector

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


def run(prepared: Prepared, folder: Path, *, progress: Progress = silent, fresh: bool = False) -> RunReport:
    """Run an experiment, or what is missing of it, into `folder`.

    Answers made from the same dataset and selector are kept; where only metrics or token counts differ they are
    measured again, and queries that failed are asked again. The manifest is written last. Interrupted at any point,
    the same call goes on and ends with the same selections and metrics, byte for byte.

    Args:
        prepared: the experiment.
        folder: the run folder; made if it is missing.
        progress: called for every slice of queries.
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
    with (
        store.locked(lambda: progress(f"waiting for another process that runs into {folder}", 0, 1)),
        ExitStack() as end,
    ):
        for name in prepared.datasets:
            work = DatasetRun(prepared, resources, store, name=name, commit=commit)
            for selector in work.selectors.values():  # those outside are the same objects for every dataset
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
        _save_timings(store, timings, experiment_folder=prepared.experiment.base)
        store.write("manifest.json", manifest(prepared, resources, commit=commit))
    embedded = resources.stats.embedded
    return RunReport(
        folder=folder, made=n_made, reused=reused, kept=(*reused_selectors,), embedded=embedded, errors=errors
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
    earlier = store.experiment()
    if earlier is not None and earlier != prepared.experiment.name:
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


def _save_timings(store: RunFolder, times: Mapping[str, Mapping[str, Any]], *, experiment_folder: Path) -> None:
    """Write the times of parts, with those of earlier calls, into a separate file, since they never repeat."""
    try:
        earlier = store.read("timings.json")["parts"]
    except (UserError, KeyError) as error:
        earlier = {}
        if (store.path / "timings.json").exists():
            _log.warning("times of earlier runs are lost: %s", error)
    parts = {name: {**earlier.get(name, {}), **times.get(name, {})} for name in {**earlier, **times}}
    folder = os.path.relpath(experiment_folder, store.path)
    note = "steps that selectors share count for the first that needs them; `ctxbench latency` measures for itself"
    store.write("timings.json", {"machine": machine(), "experiment_folder": folder, "note": note, "parts": parts})


def manifest(prepared: Prepared, resources: LocalResources, *, commit: str | None) -> dict[str, Any]:
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
            "split": experiment.split,
            "sample": experiment.sample,
            "seed": experiment.seed,
            "metrics": [str(metric) for metric in prepared.metrics],
            "metrics_named": experiment.metrics_named,
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
    by_scope: dict[str, list[int]] = {}
    for position, query in enumerate(dataset.measured().queries):
        if query.scope is not None:
            by_scope.setdefault(query.scope, []).append(position)
    return dict(sorted(by_scope.items()))


def described(spec: SelectorSpec, selector: Selector) -> dict[str, Any]:
    """A selector of an experiment as the manifest has it."""
    return {
        "about": spec.about,
        "values": dict(spec.values),
        "like": spec.like,
        "outside": spec.outside,
        "shipped": spec.shipped,
        "description": selector.describe(),
    }
