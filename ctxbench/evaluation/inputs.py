"""Open the datasets, embedders and counters of an experiment, with all faults at once; manifests."""

from __future__ import annotations

import itertools
import logging
import os.path
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ctxbench.datasets.dataset import Dataset, select_queries
from ctxbench.datasets.layout import read_weights
from ctxbench.datasets.lookup import changed_sources, dataset_folder, dataset_reference, open_dataset
from ctxbench.datasets.queries import group_pairs
from ctxbench.evaluation.experiment import Experiment, examine, versions
from ctxbench.evaluation.metrics import Metric, parse_metric, parse_metrics
from ctxbench.evaluation.run_folder import FORMAT, LONGEST_NAME, RunFolder
from ctxbench.io.console import nothing_said
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, UnknownNameError, UserError, suggest
from ctxbench.io.files import cache_dir, file_name
from ctxbench.io.rows import YamlForm
from ctxbench.model.arrays import FactCodes, Grade, IntArray
from ctxbench.model.items import Item
from ctxbench.model.strategies import Analyses, Step
from ctxbench.pipelines.fits import calibration_faults, fit_notices
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.chunking import js_trim
from ctxbench.search.embedders import Embedder, open_embedder
from ctxbench.search.resources import IndexSearch, LocalResources, local_resources
from ctxbench.search.tokens import Cl100kCounter, O200kCounter, TokenCounter, open_counter
from ctxbench.selectors.definitions import SelectorSpec
from ctxbench.selectors.selector import ExternalRun, Selector

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared:
    """A checked experiment: datasets are open, but nothing is embedded and no model is loaded.

    Attributes:
        experiment: as read.
        datasets: by name, in order, with the queries that are asked.
        opened: the same datasets, with the queries of other splits and outside of the sample.
        references: by dataset, its name or folder in the experiment.
        measured: by dataset, the number of queries in the split; a sample has fewer.
        drawn: by dataset, how many of its labelled queries a label queue drew, which are no random sample; 0 if all
            queries are labelled.
        metrics: parsed.
        embedder: not loaded yet.
        counter: counts prompt tokens.
        counted: prompt tokens of every item that is there by dataset, each of shape (n_items,); empty where the counter
            takes long and can count any item: then those that are offered are counted in time.
        groups: by dataset and name, the number of the group of every item, each of shape (n_items,).
    """

    experiment: Experiment
    datasets: Mapping[str, Dataset]
    opened: Mapping[str, Dataset]
    references: Mapping[str, str]
    measured: Mapping[str, int]
    drawn: Mapping[str, int]
    metrics: tuple[Metric, ...]
    embedder: Embedder
    counter: TokenCounter
    counted: Mapping[str, IntArray]
    groups: Mapping[str, Mapping[str, IntArray]]

    @cached_property
    def item_tokens(self) -> Mapping[str, IntArray]:
        """Prompt tokens of every item that is there by dataset, each of shape (n_items,)."""
        catalogs = {name: dataset.current_catalog for name, dataset in self.datasets.items()}
        return self.counted or {name: count_tokens(self.counter, catalog) for name, catalog in catalogs.items()}

    def part(self, dataset: str, selectors: Collection[str]) -> Prepared:
        """What answering one dataset by some selectors needs, without the dataset itself: what is sent to workers.

        It can be pickled if the selectors can. The embedder and, unless it is a file, the token counter are opened
        again by their names.
        """
        specs = tuple(spec for spec in self.experiment.selectors if spec.name in selectors)
        return replace(
            self,
            experiment=replace(self.experiment, selectors=specs, lines={}),
            datasets={},
            opened={},
            references={},
            measured={},
            drawn={},
            counted={name: counts for name, counts in self.counted.items() if name == dataset},
            groups={dataset: self.groups[dataset]},
        )

    def __getstate__(self) -> dict[str, Any]:
        counter = None if isinstance(self.counter, O200kCounter | Cl100kCounter) else self.counter
        return {**self.__dict__, "embedder": None, "counter": counter}

    def __setstate__(self, state: dict[str, Any]) -> None:
        experiment: Experiment = state["experiment"]
        counter = state["counter"] or open_counter(experiment.tokens, cache=cache_dir())
        self.__dict__.update({**state, "embedder": open_embedder(experiment.embedder), "counter": counter})

    def resources(self, *, progress: Callable[[int, int], None] | None = None) -> LocalResources:
        """Resources over the vector store of this machine."""
        return local_resources(self.embedder, self.counter, progress=progress, index=self.experiment.index)


def open_experiment(path: Path, *, notify: Callable[[str], None] = nothing_said) -> Prepared:
    """Read an experiment and open its datasets and selectors; nothing is embedded, and no model is loaded.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: anything is wrong in it or in what it names: all faults, with their lines.
    """
    experiment, faults = examine(path)
    return prepare(experiment, faults=faults, notify=notify)


def prepare(
    experiment: Experiment,
    *,
    faults: Sequence[Fault] = (),
    notify: Callable[[str], None] = nothing_said,
    counting: Callable[[TokenCounter], TokenCounter] = lambda counter: counter,
    opening: Callable[..., Dataset] = open_dataset,
) -> Prepared:
    """Open what an experiment names.

    Args:
        experiment: as read.
        faults: what is wrong in it already, to be reported with the rest.
        notify: called with a message about what takes a moment.
        counting: wraps the token counter of the experiment; the name stays.
        opening: opens a dataset, called as `open_dataset(name, base=..., notify=...)`.

    Raises:
        InputError: a dataset, metric, embedder or token counter is unknown or broken, or a step of a selector does
            not suit a dataset; all faults at once.
    """
    form = _ExperimentForm(experiment.path, experiment.lines, list(faults), experiment)
    open_one = partial(opening, base=experiment.base, notify=notify)
    opened: dict[str, _OpenDataset] = {}
    for index, name in enumerate(experiment.datasets):
        if (entry := form.dataset(index, name, open_one)) is not None and entry.selected.name in opened:
            form.fault(Message("evaluation.dataset-name-repeated", name=entry.selected.name), "datasets", index)
        elif entry is not None:
            opened[entry.selected.name] = entry
    datasets = {name: entry.selected for name, entry in opened.items()}
    for index, text in enumerate(experiment.metrics):
        form.attempt(partial(_metric_of, text, experiment.groups), "metrics", index)
    embedder = form.attempt(lambda: open_embedder(experiment.embedder), "embedder")
    form.attempt(lambda: IndexSearch(experiment.index), "index")
    counter = form.attempt(lambda: counting(open_counter(experiment.tokens, cache=cache_dir())), "tokens")
    counted = {
        name: form.attempt(partial(count_tokens, counter, dataset.current_catalog), "tokens")
        for name, dataset in datasets.items()
        if counter is not None and not isinstance(counter, O200kCounter | Cl100kCounter)
    }
    groups = {
        name: {
            group: codes
            for group, field in experiment.groups.items()
            if (codes := form.attempt(partial(item_groups, dataset, field), "groups")) is not None
        }
        for name, dataset in datasets.items()
    }
    form.check_names()
    if embedder is not None and counter is not None:
        form.faults += _unsuited(experiment, datasets, local_resources(embedder, counter))
    if form.faults or embedder is None or counter is None:
        raise InputError(_told_once(form.in_order()))
    for warning in _unmatched_queries(experiment, datasets, (entry.full for entry in opened.values())):
        _log.warning(warning)
    notices = _notices(experiment, datasets, local_resources(embedder, counter))
    for notice in itertools.chain(changed_sources(experiment.datasets, experiment.base), notices):
        notify(f"notice: {notice}")
    return Prepared(
        experiment=experiment,
        datasets=datasets,
        opened={name: entry.full for name, entry in opened.items()},
        references={name: entry.reference for name, entry in opened.items()},
        measured={name: entry.measured for name, entry in opened.items()},
        drawn={name: entry.drawn for name, entry in opened.items()},
        metrics=with_groups(parse_metrics(experiment.metrics), experiment.groups),
        embedder=embedder,
        counter=counter,
        counted={name: counts for name, counts in counted.items() if counts is not None},
        groups=groups,
    )


class RunDatasets(NamedTuple):
    """The datasets of a finished run.

    Attributes:
        asked: by name, with the queries of the run: those of its split or its sample.
        opened: the same whole, by name.
        faults: what is wrong, a message for each dataset that cannot be read or has changed since.
    """

    asked: dict[str, Dataset]
    opened: dict[str, Dataset]
    faults: list[Message]


def datasets_of_run(folder: Path, opened: Mapping[str, Dataset] = MappingProxyType({})) -> RunDatasets:
    """Open the datasets of a finished run, as it was asked them.

    Args:
        folder: of the run.
        opened: datasets that need not be opened, whole, by name.

    Raises:
        StorageError: the folder holds no finished run, or is damaged.
    """
    store, result = RunFolder(folder), RunDatasets({}, {}, [])
    manifest = store.read("manifest.json")
    base = _short(folder / str(store.read("timings.json").get("experiment_folder", ".")))
    for name, about in manifest["datasets"].items():
        try:
            dataset = opened[name] if name in opened else open_dataset(str(about["reference"]), base=base)
            result.asked[name] = asked_queries(dataset, manifest)
        except UserError as error:
            values: dict[str, Any] = {"dataset": name, "run": folder}
            is_gone = isinstance(error, UnknownNameError) and error.what == "dataset"
            gone = Message("gate.run-dataset-not-saved", folder=str(base / str(about["reference"])), **values)
            result.faults.append(gone if is_gone else Message("gate.run-dataset-unreadable", error=error, **values))
            continue
        result.opened[name] = dataset.judged_by(str(manifest["experiment"].get("judged", "")))
        if (current_hash := result.asked[name].hash) != about["hash"]:
            hashes = {"hash": current_hash[:12], "run_hash": str(about["hash"])[:12]}
            result.faults.append(Message("gate.run-dataset-changed", dataset=name, run=folder, **hashes))
    return result


def asked_queries(dataset: Dataset, manifest: Mapping[str, Any]) -> Dataset:
    """A dataset with the queries of a run: those of its split or its sample.

    Raises:
        UserError: the dataset has no such split, or a sample of it is too small.
    """
    experiment = manifest["experiment"]
    split, sample = str(experiment.get("split", "")), int(experiment.get("sample", 0))
    judged = dataset.judged_by(str(experiment.get("judged", "")))
    return select_queries(judged, split=split, sample=sample, seed=int(experiment["seed"]))


def _short(path: Path) -> Path:
    """The same folder without `..`, for messages; unchanged if a link makes that another folder."""
    short = Path(os.path.normpath(path))
    with suppress(OSError):
        return short if short.samefile(path) else path
    return path


GROUP_METRICS = ("R@5", "R@10", "nDCG@10")  # of groups of which no metric is named


def with_groups(metrics: Sequence[Metric], groups: Iterable[str]) -> tuple[Metric, ...]:
    """Add `GROUP_METRICS` to some metrics for each group of items that none of them is of."""
    named = {metric.group for metric in metrics}
    added = [parse_metric(f"{group}:{name}") for group in groups if group not in named for name in GROUP_METRICS]
    return (*metrics, *added)


def _metric_of(text: str, groups: Collection[str]) -> Metric:
    """A metric of items, or of these groups of items.

    Raises:
        UnknownNameError, ParameterError: it is none.
    """
    metric = parse_metric(text)
    if metric.group not in ("", *groups):
        hint = suggest(metric.group, groups) if groups else ""
        raise ParameterError(Message("evaluation.metric-group", metric=metric, group=metric.group, hint=hint))
    return metric


def item_groups(dataset: Dataset, field: str) -> IntArray:
    """The number of each item's group, items of one value of a field being a group; shape (n_items,).

    Args:
        dataset: whose items.
        field: an attribute of items, or a member of their metadata such as `metadata.document`; its value is a text or
            number. `path` is that of a file, or of the file that a chunk is of.

    Raises:
        ParameterError: items have no such value; names the first of them.
    """
    codes = FactCodes.of(_group_of(item, field) for item in dataset.catalog).code
    if without := [dataset.catalog.ids[position] for position in np.flatnonzero(codes < 0).tolist()]:
        raise ParameterError(
            Message(
                "evaluation.items-without-group", dataset=dataset.name, n=len(without), first=without[:3], field=field
            )
        )
    return codes


def _group_of(item: Item, field: str) -> str | None:
    """The value of a field as text; None where it has none."""
    first, *members = field.split(".")
    value: Any = getattr(item, first) if field != "path" or item.is_file else None
    for member in members:
        value = value.get(member) if isinstance(value, Mapping) else None
    return str(value) if isinstance(value, str | int | float) and value != "" else None


def _told_once(faults: Sequence[Fault]) -> list[Fault]:
    """Leave out faults that only repeat another one with its place: of a file that datasets and selectors name."""
    located = {str(fault) for fault in faults if str(fault) != fault.message}
    return [fault for fault in faults if fault.message not in located]


@dataclass(frozen=True, eq=False, kw_only=True)
class _OpenDataset:
    """A dataset of an experiment; the fields are those of `Prepared`, of one.

    Attributes:
        selected: its queries of the split and the sample.
        full: the dataset, with the queries of other splits and outside of the sample.
        reference, measured, drawn: see there.
    """

    selected: Dataset
    full: Dataset
    reference: str
    measured: int
    drawn: int


@dataclass
class _ExperimentForm(YamlForm):
    """Opens the datasets and selectors of an experiment, and collects faults.

    Attributes:
        experiment: as read.
    """

    experiment: Experiment

    def dataset(self, index: int, name: str, opening: Callable[[str], Dataset]) -> _OpenDataset | None:
        """One of the datasets, cut to the split and the sample."""
        experiment, where = self.experiment, ("datasets", index)
        full = self.attempt(partial(opening, name), *where)
        full = selected = None if full is None else full.judged_by(experiment.judged)
        if selected is not None and experiment.split:
            selected = self.attempt(partial(selected.split, experiment.split), "split")
        of_split = selected
        if selected is not None and experiment.sample:
            draw = partial(select_queries, selected, sample=experiment.sample, seed=experiment.seed)
            selected = self.attempt(draw, "sample")
        if full is None or of_split is None or selected is None:
            return None
        if not len(selected.measured()):
            command = shlex.join(["ctxbench", "data", "label", name])
            message = Message("evaluation.dataset-without-labels", dataset=selected.name, command=command)
            if any(label.grade == Grade.HELPFUL for label in selected.labels):
                message = Message("evaluation.dataset-only-helpful", dataset=selected.name)
            self.fault(message, *where)
        return _OpenDataset(
            selected=selected,
            full=full,
            reference=dataset_reference(name, experiment.base),
            measured=len(of_split.measured()),
            drawn=self.attempt(partial(_drawn, selected, full, experiment.base / name), *where) or 0,
        )

    def check_names(self) -> None:
        """Check that the names of selectors are short enough for folders."""
        for spec in self.experiment.selectors:
            if len(file_name(spec.name)) > LONGEST_NAME:
                message = Message("evaluation.selector-name-too-long", name=spec.name[:40])
                self.faults.append(Fault(message, self.experiment.path, spec.line))

    def in_order(self) -> list[Fault]:
        """The faults of the experiment by line, then the others."""
        path = self.experiment.path
        return sorted(self.faults, key=lambda fault: (fault.path != path, fault.line if fault.path == path else 0))


def _unsuited(experiment: Experiment, datasets: Mapping[str, Dataset], resources: LocalResources) -> Iterator[Fault]:
    """Faults of the steps of our selectors on the datasets."""
    checks = StepChecks(resources)
    for spec in experiment.selectors:
        if spec.pipeline is None:
            continue
        try:
            for step in spec.pipeline.steps():
                step.key  # noqa: B018 - reads the files that a step names
        except UserError as error:  # a file that a step names is missing or damaged
            yield Fault(f"selector {spec.name!r}: {error}", experiment.path, spec.line)
            continue
        for dataset in datasets.values():
            for message in checks.faults(spec.pipeline, dataset):
                text = Message(
                    "evaluation.selector-on-dataset", selector=spec.name, dataset=dataset.name, message=message
                )
                yield Fault(text, experiment.path, spec.line)


def _unmatched_queries(
    experiment: Experiment, datasets: Mapping[str, Dataset], full: Iterable[Dataset]
) -> Iterator[str]:
    """Warnings of queries that a run of another program lacks, by dataset, and of those that are in no dataset."""
    hint = "" if experiment.split else "; measure a run of one split with `split`"
    known_queries = {query.id for dataset in full for query in dataset.queries}
    for spec in experiment.selectors:
        steps = spec.pipeline.steps() if spec.pipeline else ()
        for run in (step.call for step in steps if isinstance(step.call, ExternalRun)):
            if unknown := [query for query in run.rankings if query not in known_queries]:
                names = {"selector": spec.name, "queries": unknown[:3]}
                yield Message("evaluation.run-queries-unknown", n=len(unknown), of=len(run.rankings), **names)
            for dataset in datasets.values():
                queries = [query.id for query in dataset.measured().queries]
                if missing := [query for query in queries if query not in run.rankings]:
                    names = {"selector": spec.name, "dataset": dataset.name, "first": missing[0], "hint": hint}
                    yield Message("evaluation.run-lacks-queries", n=len(missing), of=len(queries), **names)


def _notices(experiment: Experiment, datasets: Mapping[str, Dataset], resources: LocalResources) -> Iterator[str]:
    """Notices about the fits that selectors read, each once."""
    yield from dict.fromkeys(
        f"{name}: {notice}"
        for pipeline in (spec.pipeline for spec in experiment.selectors)
        if pipeline is not None and pipeline.fitted
        for name, dataset in datasets.items()
        for notice in fit_notices(pipeline, dataset.current_catalog, resources)
    )


class StepChecks:
    """Checks whether the steps of pipelines can run on a dataset, without loading a model.

    * A step with a method `check(catalog, resources)` raises a `UserError` if it cannot work with the catalog, for
      example because its graph is of another one.
    * A fitted step must follow the steps that it was fitted with.
    * An analysis must make a chunk of at least one request.

    Each step is checked once per dataset, however many pipelines share it.

    Args:
        resources: passed to the steps, which must not load a model here.
    """

    def __init__(self, resources: LocalResources) -> None:
        self.resources = resources
        self._messages: dict[tuple[str, str], str | None] = {}

    def faults(self, pipeline: Pipeline, dataset: Dataset) -> list[str]:
        """The faults of running a pipeline on a dataset."""
        checks = [(step, self._objection) for step in pipeline.steps()]
        messages = [self._check(step, dataset, ask) for step, ask in [*checks, (pipeline.analyse, self._no_chunk)]]
        messages += calibration_faults(pipeline, dataset.current_catalog)
        return [message for message in dict.fromkeys(messages) if message is not None]

    def _check(self, step: Any, dataset: Dataset, ask: Callable[[Any, Dataset], str | None]) -> str | None:
        if (key := (dataset.name, f"{ask.__name__} {step.key}")) not in self._messages:
            self._messages[key] = ask(step, dataset)
        return self._messages[key]

    def _objection(self, step: Step, dataset: Dataset) -> str | None:
        try:
            step.declared("check")(dataset.current_catalog, self.resources)
            if isinstance(step.call, ExternalRun):
                step.call.check_queries([query.id for query in dataset.queries], dataset.name)
        except InputError as error:
            return f"{step.name}: {'; '.join(map(str, error.faults))}"
        except UserError as error:
            return f"{step.name}: {error}"
        return None

    def _no_chunk(self, analyse: Step | Analyses, dataset: Dataset) -> str | None:
        batch = dataset.measured().batch()
        if analyse.uses or not any(js_trim(request.text) for request in batch.requests):
            return None  # it may need a model, or there is nothing to analyse
        steps = [step.name for step in analyse.steps()]
        has_chunks = bool(analyse.call(batch, self.resources).text)
        return None if has_chunks else Message("evaluation.analysis-without-chunks", steps=steps, n=len(batch))


def _drawn(selected: Dataset, full: Dataset, folder: Path) -> int:
    """How many of the measured queries a label queue drew; 0 if all queries that it drew from are labelled.

    Args:
        selected: the queries of the dataset that are asked.
        full: all of it.
        folder: holds the weights: how many queries each drawn one represents.
    """
    weights = read_weights(folder if folder.is_dir() else dataset_folder(folder.name))
    stand_for = sum(weights.get(query.id, 0.0) for query in full.queries)
    if not full.unlabelled and round(stand_for, 6) <= len(full.queries):
        return 0  # where they stand for more, it was made of a larger one, whose others are not here
    return sum(query.id in weights for query in selected.judged().queries)


def count_tokens(counter: TokenCounter, items: Sequence[Item]) -> IntArray:
    """Prompt tokens of items, shape (n_items,).

    Raises:
        UserError: the counter has no count for an item.
    """
    return counter.count([item.id for item in items], [item.prompt_text for item in items])


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
