"""`ctxbench run`, `score`, `report` and `latency`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ctxbench.cli.progress import progress
from ctxbench.cli.select import print_json
from ctxbench.errors import ParameterError

if TYPE_CHECKING:
    from ctxbench.evaluation.datasets.dataset import Dataset
    from ctxbench.evaluation.results import RunFolder
    from ctxbench.evaluation.runner import Prepared
    from ctxbench.tokens import TokenCounter


def run_experiment(path: Path, *, out: Path | None, fresh: bool, as_json: bool) -> None:
    """Run an experiment, print its table, write its page."""
    from ctxbench.evaluation.runner import open_experiment

    with progress() as shown:
        prepared = open_experiment(path, notify=shown.say)
    _run(prepared, out or Path("runs") / prepared.experiment.name, fresh=fresh, as_json=as_json)


def score_answers(
    answers: Path, *, dataset: str, beside: list[str], out: Path | None, tokens: str, as_json: bool
) -> None:
    """Score a file of answers, beside shipped selectors if asked."""
    from ctxbench.config import scoring
    from ctxbench.evaluation.runner import prepare

    with progress() as shown:
        prepared = prepare(scoring(answers, dataset=dataset, beside=beside, tokens=tokens), notify=shown.say)
    if out is not None:
        _run(prepared, out, fresh=False, as_json=as_json)
        return
    with tempfile.TemporaryDirectory(prefix="ctxbench-") as folder:
        _run(prepared, Path(folder), fresh=False, as_json=as_json, page=False)


def report_run(path: Path, *, as_json: bool) -> None:
    """Show a finished run again.

    Raises:
        StorageError: it is no finished run.
        ParameterError: a dataset has changed since.
    """
    from ctxbench.cache import cache_dir
    from ctxbench.evaluation.datasets.store import open_dataset
    from ctxbench.evaluation.results import RunFolder
    from ctxbench.tokens import open_counter

    folder = RunFolder(path)
    manifest = folder.read("manifest.json")
    base = path / str(folder.read("timings.json").get("experiment_folder", "."))
    datasets = {name: open_dataset(one["reference"], base=base) for name, one in manifest["datasets"].items()}
    for name, dataset in datasets.items():
        wanted = manifest["datasets"][name]["hash"]
        if dataset.hash != wanted:
            raise ParameterError(
                f"dataset {name} has changed since {path} was made (hash {dataset.hash[:12]}, the run's is "
                f"{wanted[:12]}); run the experiment again, or bring the old dataset back"
            )
    _report(folder, datasets, open_counter(manifest["tokens"], cache=cache_dir()), as_json=as_json, page=True)


def _run(prepared: Prepared, path: Path, *, fresh: bool, as_json: bool, page: bool = True) -> None:
    from ctxbench.evaluation.results import RunFolder
    from ctxbench.evaluation.runner import run

    with progress() as shown:
        done = run(prepared, path, progress=shown, fresh=fresh)
        for where, n in done.errors.items():
            shown.say(f"warning: {where}: {n} queries failed and count as nothing offered; see selections.jsonl")
        model = "" if done.embedded else ", no model loaded"
        shown.say(
            f"{done.made} selector runs made, {done.reused} found finished; {done.embedded:,} texts embedded{model}"
        )
    _report(RunFolder(path), prepared.datasets, prepared.counter, as_json=as_json, page=page)


def _report(
    folder: RunFolder, datasets: Mapping[str, Dataset], counter: TokenCounter, *, as_json: bool, page: bool
) -> None:
    """Print the summary of a finished run and write its page."""
    from ctxbench.evaluation.summary import summarise_run

    summary = summarise_run(folder)
    folder.write("summary.json", summary.as_dict())
    if as_json:
        print_json(summary.as_dict())
    else:
        from ctxbench.reporting.console import print_summary

        print_summary(summary, sys.stdout)
    if page:
        from ctxbench.reporting.page import write_report

        tokens = {
            name: counter.count(dataset.catalog.ids, [item.prompt_text for item in dataset.catalog])
            for name, dataset in datasets.items()
        }
        where = write_report(folder, datasets, tokens=tokens)
        print(f"report: {where} (open it in a browser)", file=sys.stderr)  # noqa: T201


def measure_latency(subject: str, catalog: str, *, embedder: str, full: bool, out: Path | None, as_json: bool) -> None:
    """Measure latency and print it."""
    from ctxbench.evaluation.latency import LatencySettings, measure
    from ctxbench.reporting.latency import latency_json, print_latency, write_latency
    from ctxbench.sources.catalogs import read_catalog

    settings = LatencySettings(embedder=embedder)
    with progress() as shown:
        result = measure(subject, read_catalog(catalog), settings=settings.full() if full else settings, progress=shown)
    if out is not None:
        write_latency(result, out)
    if as_json:
        typer.echo(latency_json(result), nl=False)
    else:
        print_latency(result, sys.stdout)
