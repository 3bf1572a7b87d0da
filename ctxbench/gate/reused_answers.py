"""Reuses the answers of a baseline where nothing that decides them has changed since it was accepted.

That is so where a dataset's files are the same byte for byte, the same of its queries are asked, the selector is one of
ctxbench and says the same of itself (steps, parameters, contents of files that it reads, model), and Python, ctxbench
with its code, and the libraries are the same. Such a selector gives the same answers, but for the noise of another
machine's arithmetic, which is no change. That goes for all selectors of a gate file, or all are computed: as
they are where one is outside, takes its sizes from another, or has steps or a model of a plugin, and where a dataset
goes by its name, whose place may change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from ctxbench.bench.experiment_file import Experiment
from ctxbench.bench.provenance import versions
from ctxbench.core.errors import StorageError, UserError
from ctxbench.core.registry import foreign_code
from ctxbench.data.datasets.layout import files_hash
from ctxbench.data.datasets.lookup import dataset_reference, user_folder
from ctxbench.embedding.embedder_names import open_embedder
from ctxbench.gate.gate_file import GateFile
from ctxbench.gate.plugins import plugin_steps
from ctxbench.gate.snapshots import Identity, SelectorSnapshot, content_hash
from ctxbench.index.resources import local_resources
from ctxbench.io.cache import cache_dir
from ctxbench.io.json_files import dump_json
from ctxbench.text.tokens import open_counter

if TYPE_CHECKING:
    from ctxbench.data.datasets.dataset import Dataset
    from ctxbench.gate.stored_vectors import GateResources


class GateAnswers(NamedTuple):
    """The answers of all selectors of a gate file.

    Attributes:
        snapshots: by dataset, then by selector, in the order of the experiment.
        references: by dataset, what opens it from the gate file's folder: its folder, or its name.
        resources: what they worked with; None where none was asked.
    """

    snapshots: list[SelectorSnapshot]
    references: Mapping[str, str]
    resources: GateResources | None = None


def inputs_of(experiment: Experiment, dataset: str) -> str:
    """Hash of the files of a dataset and of which of its queries an experiment asks; `SHORT` hex digits.

    Empty for a dataset that is no folder, or whose files cannot be read.
    """
    folder = user_folder(dataset, experiment.base)
    if folder is None:
        return ""
    try:
        files = files_hash(folder)
    except StorageError:
        return ""
    chosen = [experiment.split, experiment.sample, experiment.seed if experiment.sample else 0]
    return content_hash([files, *chosen])


def reuse_answers(file: GateFile, bases: Sequence[SelectorSnapshot]) -> GateAnswers | None:
    """Take the answers of the baseline, if nothing that decides them has changed.

    Args:
        file: without faults.
        bases: the snapshots of its baseline.

    Returns:
        The answers of the baseline; None where anything that decides one has changed, or may have.
    """
    named = {snapshot.inputs: snapshot.dataset for snapshot in bases if snapshot.inputs}
    datasets = [named.get(inputs_of(file.experiment, reference)) for reference in file.experiment.datasets]
    if None in datasets or len(set(datasets)) < len(datasets):
        return None
    by_name = {(snapshot.dataset, snapshot.selector): snapshot for snapshot in bases}
    pairs = list(product(datasets, [spec.name for spec in file.experiment.selectors]))
    snapshots = [by_name[pair] for pair in pairs if pair in by_name]
    if len(snapshots) < len(pairs) or not _selectors_unchanged(file, snapshots):
        return None
    pinned = {pin.query for pin in file.settings.pins if pin.query}.difference(
        *(snapshot.queries for snapshot in snapshots)
    )
    if pinned and any(query.id in pinned for _, drawn in _drawn(file, bases) for query in drawn.queries):
        return None  # a pin names a query that was not asked for its labels
    references = {
        dataset: dataset_reference(text, file.experiment.base)
        for dataset, text in zip(datasets, file.experiment.datasets, strict=True)
        if dataset is not None
    }
    shipped = {spec.name: spec.shipped for spec in file.experiment.selectors}
    heads = [
        replace(
            snapshot,
            source="this run",
            reused=True,
            identity=replace(snapshot.identity, shipped=shipped[snapshot.selector]),
        )
        for snapshot in snapshots
    ]
    return GateAnswers(heads, references)


def with_unasked(
    file: GateFile, heads: Sequence[SelectorSnapshot], bases: Sequence[SelectorSnapshot]
) -> list[SelectorSnapshot]:
    """Snapshots with the queries of their datasets that are not asked, which a baseline does not have.

    Args:
        file: without faults.
        heads: as `reuse_answers` gives them.
        bases: the snapshots of its baseline.
    """
    from ctxbench.gate.comparability import unasked

    pinned = {pin.query for pin in file.settings.pins}
    skipped = {dataset.name: unasked(dataset, drawn.measured(also=pinned)) for dataset, drawn in _drawn(file, bases)}
    return [replace(snapshot, unasked=skipped[snapshot.dataset]) for snapshot in heads]


def _drawn(file: GateFile, bases: Sequence[SelectorSnapshot]) -> Iterator[tuple[Dataset, Dataset]]:
    """Every dataset of a gate file, and its split or sample that is asked."""
    from ctxbench.data.datasets.dataset import select_queries  # most checks need no dataset
    from ctxbench.gate.edited_dataset import open_edited

    experiment = file.experiment
    for reference in experiment.datasets:
        dataset = open_edited(reference, bases=bases, base=experiment.base)
        yield dataset, select_queries(dataset, split=experiment.split, sample=experiment.sample, seed=experiment.seed)


def _selectors_unchanged(file: GateFile, bases: Sequence[SelectorSnapshot]) -> bool:
    """Whether selectors, versions and metrics are those of the baseline."""
    experiment = file.experiment
    parts = {part for metric in file.settings.metrics for part in metric.parts}
    if any(spec.outside or spec.like is not None for spec in experiment.selectors):
        return False
    current_versions = versions()
    if not all(
        snapshot.identity.versions == current_versions and parts <= snapshot.metrics.keys() for snapshot in bases
    ):
        return False
    try:
        embedder = open_embedder(experiment.embedder)
        counter = open_counter(experiment.tokens, cache=cache_dir())
        selectors = experiment.make_selectors(local_resources(embedder, counter), {})
        described = {name: selector.describe() for name, selector in selectors.items()}
    except UserError:
        return False  # computing it says what is wrong
    if foreign_code(type(embedder)) or any(map(plugin_steps, described.values())):
        return False
    values = {spec.name: dict(spec.values) for spec in experiment.selectors}
    return all(
        _same_description(snapshot.identity, described[snapshot.selector], values[snapshot.selector], counter.name)
        for snapshot in bases
    )


def _same_description(
    before: Identity, description: Mapping[str, Any], values: Mapping[str, Any], counter: str
) -> bool:
    """Whether a selector describes itself as it did in the baseline."""
    current = json.loads(dump_json([description, values]))
    return not before.outside and before.tokens == counter and current == [before.selector, before.values]
