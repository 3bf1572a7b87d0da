"""Opens what an experiment names, and finds everything that is wrong with it before anything is embedded."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ctxbench.arrays import IntArray
from ctxbench.cache import cache_dir
from ctxbench.calibrations import calibration_faults
from ctxbench.config import Experiment, examine
from ctxbench.embedding.base import Embedder
from ctxbench.embedding.names import open_embedder
from ctxbench.embedding.store import VectorStore
from ctxbench.embedding.vectors import Vectors
from ctxbench.errors import Fault, InputError, UserError
from ctxbench.evaluation.datasets.dataset import Dataset
from ctxbench.evaluation.datasets.sampling import asked
from ctxbench.evaluation.datasets.store import dataset_folder, dataset_reference, open_dataset
from ctxbench.evaluation.labelling.weights import read_weights
from ctxbench.evaluation.metrics import Metric, parse_metric, parse_metrics
from ctxbench.evaluation.results import LONGEST_NAME, file_name
from ctxbench.index.resources import LocalResources
from ctxbench.items import Catalog
from ctxbench.jsonio import dump_json
from ctxbench.pipeline import Pipeline
from ctxbench.selectors.pipelines import PipelineSelector
from ctxbench.stages import Analyses, ByDomain, Merge, Step
from ctxbench.text import js_trim
from ctxbench.tokens import TokenCounter, open_counter
from ctxbench.yamlio import line_of

T = TypeVar("T")


def nothing_said(_message: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared:
    """An experiment that was checked whole: datasets are open, nothing is embedded and no model is loaded.

    Attributes:
        experiment: as read.
        datasets: by name, in order; what of them is asked.
        opened: the same, with the queries of other splits and outside of the sample.
        references: what the experiment calls each, by name: the name itself, or a folder.
        measured: by dataset, how many queries of the split could be asked; a sample are fewer.
        drawn: by dataset, how many of its labelled queries a label queue drew, which are no random sample of all.
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


def local_resources(
    embedder: Embedder, counter: TokenCounter, *, progress: Callable[[int, int], None] | None = None
) -> LocalResources:
    """Resources over the vector store of this machine; no model is loaded."""
    return LocalResources(Vectors(embedder, VectorStore(embedder.identity), progress=progress), counter)


def open_experiment(path: Path, *, notify: Callable[[str], None] = nothing_said) -> Prepared:
    """Read an experiment and open what it names; nothing is embedded, and no model is loaded.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: anything is wrong in it or in what it names: all faults, with their lines.
    """
    experiment, faults = examine(path)
    return prepare(experiment, faults=faults, notify=notify)


def as_it_is(counter: TokenCounter) -> TokenCounter:
    """The counter itself."""
    return counter


def prepare(
    experiment: Experiment,
    *,
    faults: Sequence[Fault] = (),
    notify: Callable[[str], None] = nothing_said,
    counting: Callable[[TokenCounter], TokenCounter] = as_it_is,
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
    opened: dict[str, Dataset] = {}
    references: dict[str, str] = {}
    drawn: dict[str, int] = {}
    measured: dict[str, int] = {}
    for place, name in enumerate(experiment.datasets):
        where = ("datasets", place)
        dataset = found = attempt(partial(opening, name, base=experiment.base, notify=notify), *where)
        if dataset is not None and experiment.split:
            dataset = attempt(partial(dataset.split, experiment.split), "split")
        whole = dataset
        if dataset is not None and experiment.sample:
            dataset = attempt(partial(asked, dataset, sample=experiment.sample, seed=experiment.seed), "sample")
        if dataset is not None and dataset.name in datasets:
            line = line_of(experiment.lines, where)
            faults.append(Fault(f"two datasets are called {dataset.name!r}; rename one", experiment.path, line))
        elif dataset is not None and found is not None:
            datasets[dataset.name] = dataset
            opened[dataset.name] = found
            measured[dataset.name] = len(whole.judged()) if whole is not None else 0
            references[dataset.name] = dataset_reference(name, experiment.base)
            drawn[dataset.name] = attempt(partial(_drawn, dataset, experiment.base / name), *where) or 0
            if not len(dataset.judged()):
                what = f"dataset {dataset.name} has no query that is labelled or needs nothing; nothing can be measured"
                faults.append(Fault(what, experiment.path, line_of(experiment.lines, where)))
    for place, text in enumerate(experiment.metrics):
        attempt(partial(parse_metric, text), "metrics", place)
    embedder = attempt(lambda: open_embedder(experiment.embedder), "embedder")
    counter = attempt(lambda: counting(open_counter(experiment.tokens, cache=cache_dir())), "tokens")
    counted = {
        name: attempt(partial(count_tokens, counter, d.there), "tokens") for name, d in datasets.items() if counter
    }
    for spec in experiment.selectors:
        if len(file_name(spec.name)) > LONGEST_NAME:
            what = f"selector name {spec.name[:40]!r}... is too long for a folder; give it a shorter `name`"
            faults.append(Fault(what, experiment.path, spec.line))
    if embedder is not None and counter is not None:
        faults += _unsuited(experiment, datasets, local_resources(embedder, counter))
    if faults or embedder is None or counter is None:
        own = sorted((fault for fault in faults if fault.path == experiment.path), key=lambda fault: fault.line)
        raise InputError([*own, *(fault for fault in faults if fault.path != experiment.path)])
    return Prepared(
        experiment=experiment,
        datasets=datasets,
        opened=opened,
        references=references,
        measured=measured,
        drawn=drawn,
        metrics=parse_metrics(experiment.metrics),
        embedder=embedder,
        counter=counter,
        item_tokens={name: counts for name, counts in counted.items() if counts is not None},
    )


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
        found += calibration_faults(pipeline, dataset.there)
        return [message for message in dict.fromkeys(found) if message is not None]

    def _once(self, step: Any, dataset: Dataset, ask: Callable[[Any, Dataset], str | None]) -> str | None:
        key = (dataset.name, f"{ask.__name__} {dump_json(step.describe())}")
        if key not in self._said:
            self._said[key] = ask(step, dataset)
        return self._said[key]

    def _objection(self, step: Step, dataset: Dataset) -> str | None:
        check = getattr(step.call, "check", None)
        if check is not None:
            try:
                check(dataset.there, self.resources)
            except UserError as error:
                return f"{step.name}: {error}"
        return None

    def _no_chunk(self, analyse: Step | Analyses, dataset: Dataset) -> str | None:
        batch = dataset.judged().batch()
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
        elif isinstance(one, ByDomain):
            waiting += [step for steps in one.domains.values() for step in steps]
        else:
            yield one


def _drawn(dataset: Dataset, folder: Path) -> int:
    """How many of the queries that are measured with a label queue drew."""
    weights = read_weights(folder if folder.is_dir() else dataset_folder(folder.name))
    return sum(query.id in weights for query in dataset.judged().queries)


def count_tokens(counter: TokenCounter, catalog: Catalog) -> IntArray:
    """Prompt tokens of every item, shape (n_items,).

    Raises:
        UserError: the counter has no count for an item.
    """
    return counter.count(catalog.ids, [item.prompt_text for item in catalog])
