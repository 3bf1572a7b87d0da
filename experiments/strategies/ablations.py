"""The pages reports/ablations.md, its tables and reports/ablations-latency.md from finished runs: `make ablations`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ablation import Ablation, ablate
from ablation_latency import latency_report
from ablation_report import ablation_report, long_sections
from overview import overview
from warm_requests import time_warm_requests

from ctxbench.cli.common import run_script
from ctxbench.evaluation.experiment import blas, machine
from ctxbench.evaluation.inputs import Prepared, open_experiment
from ctxbench.evaluation.run_folder import RunFolder
from ctxbench.io.files import write_atomic
from ctxbench.report.pages import write_parted
from ctxbench.selectors.selector import PipelineSelector

HERE = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the runs, measure latency if asked, and write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuning", type=Path, default=HERE / "ablations.yaml", help="the experiment of all strategies")
    parser.add_argument("--test", type=Path, help="the experiment of the chosen ones on the test split")
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="experiments told in sections of their own")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the finished runs are")
    parser.add_argument("--reports", type=Path, default=Path("reports"), help="where the pages go")
    parser.add_argument("--latency", metavar="DATASET", help="measure latency on a dataset of the experiment")
    parser.add_argument("--requests", type=int, default=40, help="requests that latency is measured with")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long latency is measured")
    given = parser.parse_args(arguments)
    prepared, tuning = read(given.tuning, given.runs)
    test = None if given.test is None else read(given.test, given.runs)[1]
    write_atomic(given.reports / "ablations.svg", overview(tuning))
    also = [read(path, given.runs)[1] for path in given.also]
    report = ablation_report(tuning, test, also=also, figure="ablations.svg")
    write_parted(given.reports / "ablations.md", report, long_sections(report))
    if given.latency:
        page = measured(prepared, tuning, dataset=given.latency, requests=given.requests, seconds=given.seconds)
        write_atomic(given.reports / "ablations-latency.md", page)


def read(path: Path, runs: Path) -> tuple[Prepared, Ablation]:
    """An experiment and its finished run."""
    prepared = open_experiment(path)
    return prepared, ablate(RunFolder(runs / prepared.experiment.name), prepared)


def measured(prepared: Prepared, ablation: Ablation, *, dataset: str, requests: int, seconds: float) -> str:
    """The page on latency, measured now."""
    host = machine()
    data = prepared.datasets[dataset]
    made = prepared.experiment.make_selectors(prepared.resources(), {})
    pipelines = {name: one.pipeline for name, one in made.items() if isinstance(one, PipelineSelector)}
    asked = data.judged().requests()[:: max(len(data.judged()) // requests, 1)][:requests]
    found = time_warm_requests(
        pipelines, data.catalog, asked, embedder=prepared.embedder, counter=prepared.counter, seconds=seconds
    )
    return latency_report(ablation, found, dataset=dataset, requests=len(asked), machine=host, blas=blas())


if __name__ == "__main__":
    run_script(main, sys.argv[1:])
