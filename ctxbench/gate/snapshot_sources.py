"""Take snapshots from an experiment or from a finished run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import numpy as np

from ctxbench.catalogs.agent_file import AbsentServer, AgentFile, read_agent
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.lookup import user_folder
from ctxbench.evaluation.answers import Labels, Slice, enough_shown, joined_slices
from ctxbench.evaluation.experiment import versions
from ctxbench.evaluation.inputs import Prepared, count_tokens, datasets_of_run, prepare
from ctxbench.evaluation.metrics import Metric, mean as mean_of, parse_metric
from ctxbench.evaluation.run_folder import RunFolder
from ctxbench.evaluation.runner import SLICE, answered, measured, with_forbidden
from ctxbench.gate.baseline import GateAnswers, inputs_of
from ctxbench.gate.baseline_reader import baseline_counts, gate_resources
from ctxbench.gate.comparability import open_edited, unasked
from ctxbench.gate.settings import GateFile, guard_plugins, plugin_steps
from ctxbench.gate.snapshots import (
    Identity,
    ItemFact,
    QueryFact,
    SelectorSnapshot,
    TableAnswers,
    by_state,
    facts_of,
)
from ctxbench.io.console import Notify, ProgressListener, silent
from ctxbench.io.documents import dump_json
from ctxbench.io.errors import Fault, ParameterError, StorageError
from ctxbench.io.files import cache_dir
from ctxbench.model.arrays import FloatArray
from ctxbench.model.candidates import SHOWN_TOO_LITTLE
from ctxbench.model.requests import Batch
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import SelectorSpec
from ctxbench.selectors.external import External, FileSelector, ask_anew
from ctxbench.selectors.protocol import shown_path
from ctxbench.selectors.selector import Selector, SizeMatched

_Facts: TypeAlias = tuple[Mapping[str, ItemFact], Mapping[str, QueryFact]]


def take(
    prepared: Prepared,
    *,
    repeats: int = 1,
    resources: LocalResources | None = None,
    pinned: Collection[str] = (),
    progress: ProgressListener = silent,
) -> list[SelectorSnapshot]:
    """Ask every selector of an experiment on every dataset, in memory; no run folder is written.

    Args:
        prepared: the experiment; its metrics are those that the snapshots have.
        repeats: how often each query is put to external selectors, 1 to 100; selectors of ctxbench and files of answers
            answer once.
        resources: over this machine's vector store if not given.
        pinned: ids of queries that are used even if no metric applies to them.
        progress: called with every slice of queries.

    Returns:
        By dataset, then by selector, in the order of the experiment.

    Raises:
        UserError: a selector of ctxbench fails. Failures of external selectors are errors in the snapshot.
    """
    if resources is None:
        resources = prepared.resources(progress=lambda done, total: progress("embedding texts", done, total))
    with ExitStack() as end:
        return [
            snapshot
            for name in prepared.datasets
            for snapshot in _Taking(prepared, resources, name, pinned).snapshots(repeats, progress, end)
        ]


class _Taking:
    """All selectors of an experiment on one dataset: its measured queries, and those of pins."""

    def __init__(self, prepared: Prepared, resources: LocalResources, name: str, pinned: Collection[str]) -> None:
        self.prepared = prepared
        self.name = name
        self.dataset = prepared.datasets[name].measured(also=pinned)
        self.metrics = with_forbidden(prepared.metrics, self.dataset)
        tokens = np.pad(prepared.item_tokens[name], (0, self.dataset.gone))  # removed items are never offered
        self.labels = Labels.of(self.dataset, tokens, resources.text_tokens)
        self.memo: dict[str, Any] = {}
        self.selectors = prepared.experiment.make_selectors(resources, self.memo, required=self.dataset.required)
        ask_anew(self.selectors.values())
        self.specs: dict[str, SelectorSpec] = {spec.name: spec for spec in prepared.experiment.selectors}

    @cached_property
    def described(self) -> dict[str, dict[str, Any]]:
        """The description of every selector."""
        return {name: _as_json(selector.describe()) for name, selector in self.selectors.items()}

    @cached_property
    def agent(self) -> AgentFile | None:
        """The agent of the dataset, if it has one."""
        path = self.dataset.about.get("agent")
        return None if path is None else read_agent(Path(path))

    @cached_property
    def absent_servers(self) -> dict[str, AbsentServer]:
        """The servers of the dataset's agent without tools in its catalog."""
        return {} if self.agent is None else self.agent.absent_servers()

    @property
    def reference(self) -> str:
        """What opens the dataset in a command."""
        reference = self.prepared.references[self.name]
        folder = user_folder(reference, self.prepared.experiment.base)
        return reference if folder is None else str(folder)

    @cached_property
    def server_files(self) -> frozenset[str]:
        """The files of the agent's servers, relative to the folders that selectors may run in."""
        if self.agent is None:
            return frozenset()
        folders = [Path(self.dataset.about["agent"]).absolute().parent, self.prepared.experiment.base.absolute()]
        return frozenset(shown_path(path, folder) for path in self.agent.server_files() for folder in folders)

    def snapshots(self, repeats: int, progress: ProgressListener, end: ExitStack) -> list[SelectorSnapshot]:
        for selector in self.selectors.values():
            end.callback(getattr(selector, "close", lambda: None))
        rounds = self._ask_all(repeats, progress)
        facts = facts_of(self.dataset, self.prepared.item_tokens[self.name].tolist())
        return [self._snapshot(name, rounds[name], facts) for name in self.selectors]

    def _ask_all(self, repeats: int, progress: ProgressListener) -> dict[str, list[Slice]]:
        """The answers of every selector, a slice of all queries for each repeat."""
        requests = self.dataset.requests()
        in_turn = sorted(self.selectors, key=lambda name: isinstance(self.selectors[name], SizeMatched))
        answers: dict[str, list[list[Slice]]] = {
            name: [[] for _ in range(self._times(name, repeats))] for name in in_turn
        }
        for first in range(0, len(requests), SLICE):
            batch = Batch.of(self.dataset.current_catalog, requests[first : first + SLICE])
            for name in in_turn:
                for time, slices in enumerate(answers[name]):
                    selector, foreign = self._select(name, time), plugin_steps(self.selectors[name])
                    like = answers[selector.like.name][time][-1] if isinstance(selector, SizeMatched) else None
                    with guard_plugins(selector.name, foreign, on=f"queries {batch.ids[0]} to {batch.ids[-1]}"):
                        slices.append(answered(selector, batch, like=like))
            self.memo.clear()
            progress(self.name, min(first + SLICE, len(requests)), len(requests))
        return {name: [joined_slices(slices) for slices in times] for name, times in answers.items()}

    def _worth(self, answers: Slice) -> Slice:
        """The answers without items of which too little is shown to be useful; a rule excludes these."""
        table = answers.candidates
        return replace(answers, candidates=table.exclude(~enough_shown(self.dataset, table), SHOWN_TOO_LITTLE))

    def _times(self, name: str, repeats: int) -> int:
        """The number of repeats: more than one only for selectors whose answers may differ."""
        selector = self.selectors[name]
        if isinstance(selector, SizeMatched):
            return self._times(selector.like.name, repeats)
        return repeats if isinstance(selector, External) and not isinstance(selector, FileSelector) else 1

    def _select(self, name: str, time: int) -> Selector:
        """The selector for one repeat; an external one without its cached answers."""
        selector = self.selectors[name]
        if not time or not isinstance(selector, External):
            return selector
        repeated = SimpleNamespace(name=name, describe=selector.describe, select=partial(selector.select, time=time))
        return cast("Selector", repeated)

    def _snapshot(self, name: str, times: Sequence[Slice], facts: _Facts) -> SelectorSnapshot:
        values = [measured(self.metrics, self.labels.evidence(answers), answers) for answers in times]
        errors = {query: text for answers in reversed(times) for query, text in answers.errors.items()}
        description, spec = self.described[name], self.specs[name]
        items, disabled = by_state(facts[0])
        return SelectorSnapshot(
            dataset=self.name,
            selector=name,
            items=items,
            disabled=disabled,
            queries=facts[1],
            answers=TableAnswers(self.dataset.catalog, self._worth(times[0]), errors=errors),
            metrics={metric: np.mean([row[metric] for row in values], axis=0) for metric in values[0]},
            identity=Identity(
                selector=description,
                values=_as_json(dict(spec.values)),
                parameters=spec.parameters,
                embedder=_embedder(description),
                tokens=self.prepared.counter.name,
                versions=versions(),
                external=spec.external,
                shipped=spec.shipped,
            ),
            repeats=len(times),
            spread=_spread(values),
            nondeterministic=_nondeterministic(times),
            judged=self.dataset,
            unasked=unasked(self.prepared.opened[self.name], self.dataset),
            absent_servers=self.absent_servers,
            server_files=self.server_files if spec.external else frozenset(),
            reference=self.reference,
        )


def _spread(values: Sequence[Mapping[Metric, FloatArray]]) -> dict[str, float]:
    """The standard deviation of every metric's mean over repeats; empty without repeats."""
    if len(values) < 2:
        return {}
    means = {metric: [mean_of(row[metric]).value for row in values] for metric in values[0]}
    return {str(metric): float(np.std(column, ddof=1)) for metric, column in means.items()}


def _nondeterministic(times: Sequence[Slice]) -> tuple[str, ...]:
    """The queries whose offer differs between times."""
    offers = [_offers(answers) for answers in times]
    return tuple(
        query for row, query in enumerate(times[0].queries) if any(offer[row] != offers[0][row] for offer in offers)
    )


def _offers(answers: Slice) -> list[frozenset[int]]:
    table = answers.candidates
    start, items = table.starts_of(table.chosen).tolist(), table.item[table.chosen].tolist()
    return [frozenset(items[first:end]) for first, end in itertools.pairwise(start)]


def _embedder(description: Any) -> str:
    """The key of the embedder in a selector's description, at any depth; empty if none."""
    if isinstance(description, Mapping):
        identities = description.get("identities")
        if isinstance(identities, Mapping) and "embedder" in identities:
            return str(identities["embedder"])
        return next((key for value in description.values() if (key := _embedder(value))), "")
    return ""


def _as_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """As a file has it: lists for tuples."""
    return dict(json.loads(dump_json(value)))


def of_run(folder: Path, opened: Mapping[str, Dataset] | None = None) -> list[SelectorSnapshot]:
    """Read the snapshots of a finished run, of `ctxbench run` or `ctxbench score`.

    Answers and values are the run's; items, queries and labels are those of its datasets, which must be as they were.

    Args:
        folder: of the run.
        opened: datasets that need not be opened, whole, by name.

    Returns:
        By dataset, then by selector, in the order of the experiment.

    Raises:
        StorageError: there is no such folder, it holds no finished run, or is damaged.
        ParameterError: a dataset has changed since, or cannot be found: all of them.
    """
    if not folder.is_dir():
        message = f"{folder} is a file" if folder.exists() else f"there is no folder {folder}"
        raise StorageError(f"{message}; expected the folder of a finished run (`ctxbench run`)")
    store = RunFolder(folder)
    manifest = store.read("manifest.json")
    datasets = datasets_of_run(folder, opened or {})
    if datasets.faults:
        raise ParameterError(
            f"{'; '.join(datasets.faults)}; two runs can be compared only on unchanged datasets: restore the datasets, "
            f"or run both again. To compare across an edit, accept a baseline before it (`ctxbench check --accept`)"
        )
    counter = open_counter(manifest["tokens"], cache=cache_dir())
    snapshots = []
    for name, run_dataset in datasets.asked.items():
        dataset = run_dataset.measured()
        left_out = unasked(datasets.opened[name], dataset)
        facts = facts_of(dataset, count_tokens(counter, dataset.catalog).tolist())
        parts = [_of_part(store, manifest, dataset, selector, facts) for selector in manifest["selectors"]]
        snapshots += [replace(part, unasked=left_out) for part in parts]
    return snapshots


def _of_part(
    store: RunFolder, manifest: Mapping[str, Any], dataset: Dataset, selector: str, facts: _Facts
) -> SelectorSnapshot:
    """The snapshot of one selector on one dataset of a run."""
    part = store.load(dataset.name, selector)
    items, disabled = by_state(facts[0])
    query_facts = facts[1]
    if set(part.answers.queries) != set(query_facts):
        where = store.part_path(dataset.name, selector)
        raise StorageError(f"{where} answers other queries than dataset {dataset.name} has; run again")
    queries = {
        query: query_facts[query] for query in part.answers.queries
    }  # their order is no part of a dataset's hash
    about = manifest["selectors"][selector]
    return SelectorSnapshot(
        dataset=dataset.name,
        selector=selector,
        items=items,
        disabled=disabled,
        queries=queries,
        answers=TableAnswers(dataset.catalog, part.answers.joined(), errors=part.answers.errors),
        metrics={parse_metric(name): values for name, values in part.metrics.items()},
        identity=Identity(
            selector=about["description"],
            values=about["values"],
            embedder=_embedder(about["description"]),
            tokens=manifest["tokens"],
            versions=part.made_by.get("versions", {}),
            external=bool(about["external"]),
            shipped=about.get("shipped", ""),
        ),
        source=str(store.path),
        judged=dataset,
    )


def ask(
    file: GateFile,
    *,
    faults: Sequence[Fault] = (),
    bases: Sequence[SelectorSnapshot] | None = None,
    notify: Notify,
    progress: ProgressListener,
) -> GateAnswers:
    """Ask every selector on every dataset.

    Args:
        file: the gate file.
        faults: its faults so far, to be reported with others.
        bases: the snapshots of its baseline, whose labels, vectors and token counts are used; None = a baseline is to
            be accepted: datasets must be valid, and the current baseline is not used.
        notify: called with slow steps.
        progress: called with every slice of queries.

    Raises:
        InputError: anything is wrong in the gate file or in what it names: all faults, with their lines.
        UserError: a selector of ours fails, or vectors of the baseline are damaged.
    """
    counting = {} if bases is None else {"counting": baseline_counts(bases)}
    before = [] if bases is not None else _input_hashes(file)
    prepared = prepare(
        file.experiment, faults=faults, notify=notify, opening=partial(open_edited, bases=bases or ()), **counting
    )
    resources = gate_resources(
        prepared, file.baseline, accepting=bases is None, progress=partial(progress, "embedding texts")
    )
    snapshots = take(
        prepared,
        repeats=file.settings.repeats,
        resources=resources,
        pinned={pin.query for pin in file.settings.pins},
        progress=progress,
    )
    if bases is None:
        hashes = zip(prepared.datasets, before, _input_hashes(file), strict=True)
        inputs = {name: new if new == old else "" for name, old, new in hashes}  # empty for files written to meanwhile
        snapshots = [replace(snapshot, inputs=inputs[snapshot.dataset]) for snapshot in snapshots]
    return GateAnswers(snapshots, prepared.references, resources)


def _input_hashes(file: GateFile) -> list[str]:
    return [inputs_of(file.experiment, dataset) for dataset in file.experiment.datasets]
