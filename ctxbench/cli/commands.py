"""`ctxbench run`, `score`, `report` and `latency`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.cli.read_files import dataset_inputs, selector_inputs
from ctxbench.cli.select import find_catalog
from ctxbench.core.errors import SHOWN, ParameterError, SelectorError, StorageError, UnknownNameError
from ctxbench.io.console import say
from ctxbench.io.files import temporary_folder, write_atomic
from ctxbench.io.output_paths import line_from, refuse_outputs

if TYPE_CHECKING:
    from ctxbench.bench.experiment_file import Experiment
    from ctxbench.bench.prepared import Prepared
    from ctxbench.bench.results import RunFolder
    from ctxbench.bench.summary import RunSummary
    from ctxbench.data.datasets.dataset import Dataset
    from ctxbench.text.tokens import TokenCounter


@dataclass(frozen=True, kw_only=True)
class ReportTargets:
    """Where a run is reported apart from its page: a Markdown file, a CSV file, and JSON in place of the table."""

    markdown: Path | None = None
    csv: Path | None = None
    json: bool = False

    def refuse(self, inputs: Mapping[str, Sequence[Path]]) -> None:
        """Check where the files will go, before the work.

        Raises:
            UserError: as `refuse_outputs`.
        """
        signatures = {"--csv": line_from("dataset,selector,")}
        refuse_outputs({"--csv": self.csv, "--markdown": self.markdown}, inputs, may_replace=signatures)


def run_experiment(
    path: Path, *, out: Path | None, selectors: Sequence[str], limit: int | None, fresh: bool, targets: ReportTargets
) -> None:
    """Run an experiment or a part of it, print its table, write its page and the other outputs.

    Args:
        path: the experiment's file.
        out: the run folder; None = `runs/<name>`, of a part `runs/<name>-part`.
        selectors: names; empty = all.
        limit: at most so many queries per dataset; None = as the experiment says.
        fresh: compute every answer again.
        targets: where it is reported.

    Raises:
        UnknownNameError: the experiment has no such selector.
    """
    from ctxbench.bench.experiment_file import examine
    from ctxbench.bench.prepared import prepare

    with progress() as bar:
        experiment, faults = examine(path)
        targets.refuse({"the experiment": [path], **dataset_inputs(*experiment.datasets, base=experiment.base)})
        named = {spec.name for spec in experiment.selectors}
        if not (faults and set(selectors) - named):  # else one that is named may be among what cannot be read
            experiment = _part_of(experiment, selectors, limit)
        prepared = prepare(experiment, faults=faults, notify=bar.say)
    name = f"{experiment.name}-part" if selectors or limit is not None else experiment.name
    _run(prepared, out or Path("runs") / name, fresh=fresh, targets=targets)


def _part_of(experiment: Experiment, selectors: Sequence[str], limit: int | None) -> Experiment:
    """The experiment with some of its selectors, those that they take sizes from, and fewer queries."""
    specs = {spec.name: spec for spec in experiment.selectors}
    if unknown := [name for name in selectors if name not in specs]:
        raise UnknownNameError("selector of the experiment", unknown[0], specs)
    if selectors:
        names = {*selectors, *(specs[name].like for name in selectors)}
        chosen = tuple(spec for spec in experiment.selectors if spec.name in names)
        base = experiment.compare_to if experiment.compare_to in names else chosen[0].name
        experiment = replace(experiment, selectors=chosen, compare_to=base)
    if limit is not None:
        experiment = replace(experiment, sample=min(limit, experiment.sample or limit))
    return experiment


def score_answers(
    answers: Path, *, dataset: str, selectors: list[str], out: Path | None, tokens: str, targets: ReportTargets
) -> None:
    """Score a file of answers, and shipped selectors to compare with, if any."""
    from ctxbench.bench.experiment_file import scoring
    from ctxbench.bench.prepared import prepare

    targets.refuse({"the answers": [answers], **dataset_inputs(dataset), **selector_inputs(*selectors)})
    with progress() as bar:
        prepared = prepare(scoring(answers, dataset=dataset, compare_with=selectors, tokens=tokens), notify=bar.say)
    if out is not None:
        _run(prepared, out, fresh=False, targets=targets)
        return
    with ExitStack() as end:
        try:
            folder = end.enter_context(temporary_folder(Path(tempfile.gettempdir(), "ctxbench")))
        except OSError as error:
            raise StorageError(f"no temporary folder can be made ({error}); name one with --out") from error
        _run(prepared, folder, fresh=False, targets=targets, page=False)


def report_run(path: Path, targets: ReportTargets) -> None:
    """Show a finished run again.

    Raises:
        StorageError: it is no finished run.
        ParameterError: a dataset has changed since.
    """
    from ctxbench.bench.results import RunFolder
    from ctxbench.data.datasets.dataset import select_queries
    from ctxbench.data.datasets.lookup import open_dataset
    from ctxbench.io.cache import cache_dir
    from ctxbench.text.tokens import open_counter

    folder = RunFolder(path)
    manifest = folder.read("manifest.json")
    base = path / str(folder.read("timings.json").get("experiment_folder", "."))
    recorded = {name: (entry["reference"], entry["hash"]) for name, entry in manifest["datasets"].items()}
    experiment = manifest["experiment"]
    split, sample = str(experiment.get("split", "")), int(experiment.get("sample", 0))
    targets.refuse(dataset_inputs(*(reference for reference, _ in recorded.values()), base=base))
    opened = {name: open_dataset(reference, base=base) for name, (reference, _) in recorded.items()}
    datasets = {
        n: select_queries(d, split=split, sample=sample, seed=int(experiment["seed"])) for n, d in opened.items()
    }
    for name, dataset in datasets.items():
        if dataset.hash != recorded[name][1]:
            raise ParameterError(
                f"dataset {name} has changed since {path} was made (hash {dataset.hash[:12]}, the run's is "
                f"{recorded[name][1][:12]}); run the experiment again, or bring the old dataset back"
            )
    counter = open_counter(manifest["tokens"], cache=cache_dir())
    _report(folder, datasets, counter, targets=targets)


def _run(prepared: Prepared, path: Path, *, fresh: bool, targets: ReportTargets, page: bool = True) -> None:
    from ctxbench.bench.results import RunFolder
    from ctxbench.bench.runner import run

    with _goes_on(resumable=page):
        with progress() as bar:
            done = run(prepared, path, progress=bar, fresh=fresh)
            for line in _failures(prepared, RunFolder(path), persistent=page):
                bar.say(line)
            text = f"{done.made} selector run{'' if done.made == 1 else 's'} made, {done.reused} found finished"
            if done.kept:
                names = ", ".join(done.kept)
                bar.say(f"not asked again, since no source file of it has changed: {names}; --fresh asks again")
            bar.say(f"{text}; {done.embedded:,} texts embedded{'' if done.embedded else ', no model loaded'}")
            if prepared.experiment.path is None:
                for line in _all_empty(prepared, RunFolder(path)):
                    bar.say(line)
        _report(RunFolder(path), prepared.datasets, prepared.counter, targets=targets, page=page)
    _refuse_silence(prepared, RunFolder(path))


def _refuse_silence(prepared: Prepared, folder: RunFolder) -> None:
    """Refuse a run in which a selector failed on more than half of the queries: it was not measured.

    Raises:
        SelectorError: there is one.
    """
    silent, mostly = [], []
    for name, dataset in prepared.datasets.items():
        n = len(dataset.measured())
        for selector in prepared.experiment.selectors:
            failed = folder.error_count(name, selector.name)
            if n and failed == n:
                silent.append(f"{selector.name} on {name}")
            elif 2 * failed > n:
                mostly.append(f"{selector.name} on {name} ({failed:,} of {n:,})")
    problems = [f"no query was answered by {', '.join(silent)}"] if silent else []
    problems += [f"more than half of the queries failed of {', '.join(mostly)}"] if mostly else []
    if problems:
        raise SelectorError(f"{'; '.join(problems)}; the first failure of each is named above")


@contextmanager
def _goes_on(*, resumable: bool) -> Iterator[None]:
    """Add to Ctrl-C, where the run is kept, that the same command continues it."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        if resumable:
            stopped.add_note("the same command goes on from here")
        raise


def _all_empty(prepared: Prepared, folder: RunFolder) -> Iterator[str]:
    """A warning where the answers that are scored, those of the first selector, offer nothing for any query."""
    from ctxbench.selectors.answers_file import all_empty
    from ctxbench.selectors.pipelines import offered_sizes

    name = prepared.experiment.selectors[0].name
    for dataset in prepared.datasets:
        part = folder.load(dataset, name)
        items = part.metrics.get("items")  # NaN where not all labels are known
        none = items is not None and len(items) and not np.nan_to_num(items).any()
        if none and not any(offered_sizes(block.candidates).any() for block in part.answers.blocks()):
            yield f"warning: {all_empty(name, dataset)}"


def _failures(prepared: Prepared, folder: RunFolder, *, persistent: bool) -> Iterator[str]:
    """A warning for each selector that failed on queries, with up to 50 reasons; if persistent, all are in the folder.

    Then, if persistent and any failed, that they are asked again.
    """
    from ctxbench.bench.failures import failures_told

    failed = 0
    for dataset in prepared.datasets:
        for selector in prepared.experiment.selectors:
            n = folder.error_count(dataset, selector.name)
            if n == 0:
                continue
            failed += n
            summary, details = failures_told(dataset, selector.name, folder.load(dataset, selector.name).answers.errors)
            where = folder.part_path(dataset, selector.name) / "selections.jsonl"
            pointer = f"; all: {where}" if persistent else "; --out keeps a folder with all of them"
            yield f"warning: {summary}{pointer if n > 1 else ''}"
            yield from (f"  {detail}" for detail in details[: SHOWN - 1])
            if len(details) >= SHOWN:
                yield f"  and {len(details) - SHOWN + 1:,} more"
    if failed and persistent:
        subject = "the failed query is" if failed == 1 else "failed queries are"
        yield f"{subject} asked again by the next call of the same command"


def _report(
    folder: RunFolder,
    datasets: Mapping[str, Dataset],
    counter: TokenCounter,
    *,
    targets: ReportTargets,
    page: bool = True,
) -> None:
    """Write the summary and the page of a finished run, then print: whoever reads may leave before the end."""
    from ctxbench.bench.summary import summarise_run
    from ctxbench.io.json_files import dump_json

    summary = summarise_run(folder)
    write_atomic(folder.path / "summary.json", dump_json(summary.as_dict(), indent=2))
    if targets.csv is not None:
        from ctxbench.report.figures_csv import figures_csv

        write_atomic(targets.csv, figures_csv(summary))
    if targets.markdown is not None:
        from ctxbench.report.pages import titles, write_parted
        from ctxbench.report.run_markdown import markdown_report

        text = markdown_report(summary, datasets)
        for path in write_parted(targets.markdown, text, titles(text) if len(summary.datasets) > 1 else ()):
            say(f"report: {path}", err=True)
    where = None
    if page:
        from ctxbench.report.run_page import write_report

        tokens = {
            name: counter.count(dataset.catalog.ids, [item.prompt_text for item in dataset.catalog])
            for name, dataset in datasets.items()
        }
        where = write_report(folder, datasets, tokens=tokens, summary=summary)
    try:
        _print(summary, as_json=targets.json)
    finally:
        if where is not None:
            say(f"report: {where} (open it in a browser)", err=True)


def _print(summary: RunSummary, *, as_json: bool) -> None:
    if as_json:
        print_json(summary.as_dict())
    else:
        from ctxbench.report.run_console import print_summary

        print_summary(summary)


def measure_latency(selectors: Sequence[str], catalog: str, *, embedder: str, seconds: float, as_json: bool) -> None:
    """Time selectors side by side, by default an agent's own, and print their quantiles."""
    from ctxbench.bench.latency import requests_like, time_embedding, time_requests
    from ctxbench.bench.machine import machine
    from ctxbench.core.stages import EMBEDDER, kind_of
    from ctxbench.embedding.embedder_names import open_embedder
    from ctxbench.index.resources import local_resources
    from ctxbench.io.cache import cache_dir
    from ctxbench.report.latency_table import print_latency
    from ctxbench.selectors.definitions import find_definition
    from ctxbench.sources.agent_file import is_agent_file
    from ctxbench.text.tokens import open_counter

    pipelines = {}
    for name in selectors or [catalog if is_agent_file(catalog) else "semantic/documents"]:
        definition, preset = find_definition(name)
        pipelines[name] = definition.pipeline(definition.values(preset))
    model, items = open_embedder(embedder), find_catalog(catalog)
    requests = requests_like(items)
    new_resources = partial(local_resources, model, open_counter("o200k", cache=cache_dir()))
    with progress() as bar:
        times = time_requests(pipelines, items, requests, new_resources=new_resources, seconds=seconds, progress=bar)
        steps = [step for pipeline in pipelines.values() for step in (pipeline.retrieve, *pipeline.refine)]
        embeds = any(kind_of(use) == EMBEDDER for step in steps for use in step.uses)
        embedding = time_embedding(model, [request.text for request in requests]) if embeds else None
    if as_json:
        print_json(
            {
                "catalog": {"items": len(items), "hash": items.hash},
                "embedder": model.identity.as_dict(),
                "requests": len(requests),
                "machine": machine(),
                "unit": "seconds",
                "selectors": {name: asdict(quantiles) for name, quantiles in times.items()},
                "embedding": None if embedding is None else asdict(embedding),
            }
        )
    else:
        print_latency(times, embedding)
