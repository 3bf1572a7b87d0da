"""Opens what an experiment names, and finds everything that is wrong with it before anything is embedded."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ctxbench.bench.experiment_file import Experiment, examine
from ctxbench.bench.metrics import Metric, parse_metric, parse_metrics
from ctxbench.bench.progress_listener import nothing_said
from ctxbench.bench.results import LONGEST_NAME
from ctxbench.core.arrays import IntArray
from ctxbench.core.errors import Fault, InputError, UserError
from ctxbench.core.items import Catalog
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.stages import Analyses, Merge, PerType, Step
from ctxbench.data.datasets.changed_source import changed_sources
from ctxbench.data.datasets.dataset import Dataset, select_queries
from ctxbench.data.datasets.lookup import dataset_folder, dataset_reference, open_dataset
from ctxbench.data.labelling.query_files import read_weights
from ctxbench.embedding.embedder import Embedder
from ctxbench.embedding.embedder_names import open_embedder
from ctxbench.features.stored_fits import calibration_faults, fit_notices
from ctxbench.index.resources import LocalResources, local_resources
from ctxbench.io.cache import cache_dir
from ctxbench.io.files import file_name
from ctxbench.io.json_files import dump_json
from ctxbench.io.yaml_form import YamlForm
from ctxbench.selectors.pipelines import PipelineSelector
from ctxbench.text.original_rules import js_trim
from ctxbench.text.tokens import TokenCounter, open_counter


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared:
    """An experiment that was checked whole: datasets are open, nothing is embedded and no model is loaded.

    Attributes:
        experiment: as read.
        datasets: by name, in order; what of them is asked.
        opened: the same, with the queries of other splits and outside of the sample.
        references: what the experiment calls each, by name: the name itself, or a folder.
        measured: by dataset, how many queries of the split could be asked; a sample are fewer.
        drawn: by dataset, how many of its labelled queries a label queue drew, which are no random sample of all; 0
            where all are labelled.
        metrics: parsed.
        embedder: not loaded yet.
        counter: counts prompt tokens.
        item_tokens: prompt tokens of every item that is there by dataset, each of shape (n_items,).
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
    item_tokens: Mapping[str, IntArray]

    def resources(self, *, progress: Callable[[int, int], None] | None = None) -> LocalResources:
        """Resources over the vector store of this machine."""
        return local_resources(self.embedder, self.counter, progress=progress)


def open_experiment(path: Path, *, notify: Callable[[str], None] = nothing_said) -> Prepared:
    """Read an experiment and open what it names; nothing is embedded, and no model is loaded.

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
        notify: told what takes a moment.
        counting: makes of the counter that the experiment names the one that counts, which has its name.
        opening: opens a dataset, called as `open_dataset(name, base=..., notify=...)`.

    Raises:
        InputError: a dataset, metric, embedder or token counter is unknown or broken, or a step of a selector does
            not suit a dataset; all faults at once.
    """
    form = _ExperimentForm(experiment.path, experiment.lines, list(faults), experiment)
    open_one = partial(opening, base=experiment.base, notify=notify)
    opened: dict[str, _OpenDataset] = {}
    for place, name in enumerate(experiment.datasets):
        one = form.dataset(place, name, open_one)
        if one is not None and one.asked.name in opened:
            form.fault(f"two datasets are called {one.asked.name!r}; rename one", "datasets", place)
        elif one is not None:
            opened[one.asked.name] = one
    datasets = {name: one.asked for name, one in opened.items()}
    for place, text in enumerate(experiment.metrics):
        form.attempt(partial(parse_metric, text), "metrics", place)
    embedder = form.attempt(lambda: open_embedder(experiment.embedder), "embedder")
    counter = form.attempt(lambda: counting(open_counter(experiment.tokens, cache=cache_dir())), "tokens")
    counted = {
        name: form.attempt(partial(count_tokens, counter, one.current_catalog), "tokens")
        for name, one in datasets.items()
        if counter is not None
    }
    form.check_names()
    if embedder is not None and counter is not None:
        form.faults += _unsuited(experiment, datasets, local_resources(embedder, counter))
    if form.faults or embedder is None or counter is None:
        raise InputError(form.in_order())
    for changed in changed_sources(experiment.datasets, experiment.base):
        notify(f"notice: {changed}")
    for notice in _notices(experiment, datasets, local_resources(embedder, counter)):
        notify(f"notice: {notice}")
    return Prepared(
        experiment=experiment,
        datasets=datasets,
        opened={name: one.whole for name, one in opened.items()},
        references={name: one.reference for name, one in opened.items()},
        measured={name: one.measured for name, one in opened.items()},
        drawn={name: one.drawn for name, one in opened.items()},
        metrics=parse_metrics(experiment.metrics),
        embedder=embedder,
        counter=counter,
        item_tokens={name: counts for name, counts in counted.items() if counts is not None},
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _OpenDataset:
    """A dataset of an experiment; the fields are those of `Prepared`, of one.

    Attributes:
        asked: what of it is asked.
        whole: it, with the queries of other splits and outside of the sample.
        reference, measured, drawn: see there.
    """

    asked: Dataset
    whole: Dataset
    reference: str
    measured: int
    drawn: int


@dataclass
class _ExperimentForm(YamlForm):
    """Opens what an experiment names, and collects what is wrong.

    Attributes:
        experiment: as read.
    """

    experiment: Experiment

    def dataset(self, place: int, name: str, opening: Callable[[str], Dataset]) -> _OpenDataset | None:
        """One of the datasets, cut to the split and the sample."""
        experiment, where = self.experiment, ("datasets", place)
        whole = found = self.attempt(partial(opening, name), *where)
        if found is not None and experiment.split:
            found = self.attempt(partial(found.split, experiment.split), "split")
        of_split = found
        if found is not None and experiment.sample:
            draw = partial(select_queries, found, sample=experiment.sample, seed=experiment.seed)
            found = self.attempt(draw, "sample")
        if whole is None or of_split is None or found is None:
            return None
        if not len(found.measured()):
            what = f"dataset {found.name} has no query that is labelled or needs nothing"
            self.fault(f"{what}; label some with `{shlex.join(['ctxbench', 'data', 'label', name])}`", *where)
        return _OpenDataset(
            asked=found,
            whole=whole,
            reference=dataset_reference(name, experiment.base),
            measured=len(of_split.measured()),
            drawn=self.attempt(partial(_drawn, found, whole, experiment.base / name), *where) or 0,
        )

    def check_names(self) -> None:
        """Names of selectors become those of folders."""
        for spec in self.experiment.selectors:
            if len(file_name(spec.name)) > LONGEST_NAME:
                what = f"selector name {spec.name[:40]!r}... is too long for a folder; give it a shorter `name`"
                self.faults.append(Fault(what, self.experiment.path, spec.line))

    def in_order(self) -> list[Fault]:
        """What is wrong in the experiment by line, then the rest."""
        own = sorted((one for one in self.faults if one.path == self.experiment.path), key=lambda one: one.line)
        return [*own, *(one for one in self.faults if one.path != self.experiment.path)]


def _unsuited(experiment: Experiment, datasets: Mapping[str, Dataset], resources: LocalResources) -> Iterator[Fault]:
    """What the steps of our selectors say against the datasets."""
    checks = StepChecks(resources)
    for spec in experiment.selectors:
        made = spec.make(resources, {})
        pipelines = [made.pipeline] if isinstance(made, PipelineSelector) else []
        try:
            for step in itertools.chain.from_iterable(map(_steps, pipelines)):
                step.describe()
        except UserError as error:  # a file that a step names is missing or damaged
            yield Fault(f"selector {spec.name!r}: {error}", experiment.path, spec.line)
            continue
        for pipeline, dataset in itertools.product(pipelines, datasets.values()):
            for message in checks.faults(pipeline, dataset):
                what = f"selector {spec.name!r} on dataset {dataset.name}: {message}"
                yield Fault(what, experiment.path, spec.line)


def _notices(experiment: Experiment, datasets: Mapping[str, Dataset], resources: LocalResources) -> Iterator[str]:
    """What a user should know of the fits that our selectors read, each once."""
    pipelines = [
        made.pipeline for spec in experiment.selectors if isinstance(made := spec.make(resources, {}), PipelineSelector)
    ]
    fitted = [pipeline for pipeline in pipelines if pipeline.fitted]
    said = (
        f"{name}: {notice}"
        for pipeline in fitted
        for name, dataset in datasets.items()
        for notice in fit_notices(pipeline, dataset.current_catalog, resources)
    )
    yield from dict.fromkeys(said)


class StepChecks:
    """What the steps of pipelines say against running on a dataset, as far as it can be told without a model.

    A step that has a method `check(catalog, resources)` is asked; it raises a `UserError` where it cannot work over
    that catalog, for example with a graph of another one. A step that was fitted must stand behind what it was fitted
    behind. And an analysis must make a chunk of some request. No step is asked twice about a dataset, however many
    pipelines share it.

    Args:
        resources: passed to the steps, which must not use here what would load a model.
    """

    def __init__(self, resources: LocalResources) -> None:
        self.resources = resources
        self._said: dict[tuple[str, str], str | None] = {}

    def faults(self, pipeline: Pipeline, dataset: Dataset) -> list[str]:
        """What is wrong with running a pipeline on a dataset."""
        asked = [(step, self._objection) for step in _steps(pipeline)]
        found = [self._once(step, dataset, ask) for step, ask in [*asked, (pipeline.analyse, self._no_chunk)]]
        found += calibration_faults(pipeline, dataset.current_catalog)
        return [message for message in dict.fromkeys(found) if message is not None]

    def _once(self, step: Any, dataset: Dataset, ask: Callable[[Any, Dataset], str | None]) -> str | None:
        key = (dataset.name, f"{ask.__name__} {dump_json(step.describe())}")
        if key not in self._said:
            self._said[key] = ask(step, dataset)
        return self._said[key]

    def _objection(self, step: Step, dataset: Dataset) -> str | None:
        try:
            step.declared("check")(dataset.current_catalog, self.resources)
        except UserError as error:
            return f"{step.name}: {error}"
        return None

    def _no_chunk(self, analyse: Step | Analyses, dataset: Dataset) -> str | None:
        batch = dataset.measured().batch()
        if analyse.uses or not any(js_trim(request.text) for request in batch.requests):
            return None  # it may need a model, or there is nothing to analyse
        if analyse.call(batch, self.resources).text:
            return None
        steps = analyse.steps if isinstance(analyse, Analyses) else (analyse,)
        names = ", ".join(step.name for step in steps)
        return (
            f"the analysis ({names}) makes no chunk of any of the {len(batch)} requests, so that nothing would be "
            "searched for; put another beside it, for example `analyse: [sentences, ...]`"
        )


def _steps(pipeline: Pipeline) -> Iterator[Step]:
    """Every step of a pipeline, those inside combinators as well."""
    waiting: list[Any] = [pipeline.analyse, pipeline.retrieve, *pipeline.refine, pipeline.format]
    for one in waiting:  # combinators append what they hold
        if isinstance(one, Analyses):
            waiting += one.steps
        elif isinstance(one, Merge):
            waiting += one.sources.values()
        elif isinstance(one, PerType):
            waiting += [step for steps in one.domains.values() for step in steps]
        else:
            yield one


def _drawn(asked: Dataset, whole: Dataset, folder: Path) -> int:
    """How many of the queries that are measured with a label queue drew; 0 where all that it drew from are labelled.

    Args:
        asked: what of the dataset is asked.
        whole: all of it.
        folder: where the weights stand: how many queries each drawn one stands for.
    """
    weights = read_weights(folder if folder.is_dir() else dataset_folder(folder.name))
    if not whole.unlabelled:
        stand_for = sum(weights.get(query.id, 0.0) for query in whole.queries)
        if round(stand_for, 6) <= len(whole.queries):  # more: it was made of a larger one, whose others are not here
            return 0
    return sum(query.id in weights for query in asked.judged().queries)


def count_tokens(counter: TokenCounter, catalog: Catalog) -> IntArray:
    """Prompt tokens of every item, shape (n_items,).

    Raises:
        UserError: the counter has no count for an item.
    """
    return counter.count(catalog.ids, [item.prompt_text for item in catalog])
