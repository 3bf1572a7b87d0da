"""reports/ablations.md (`make ablations`): every strategy against the specification's defaults at equal tokens."""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))

from dots import dot_picture, gain_cell, mean_gain, points
from pages import Page, Tables, run_page

import ctxbench
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.comparisons import AtTokens, at_equal_tokens
from ctxbench.evaluation.inputs import Prepared, open_experiment
from ctxbench.evaluation.statistics import correct
from ctxbench.model.requests import Batch
from ctxbench.model.selection import stacked
from ctxbench.pipelines.fits import files_of_fits
from ctxbench.search.resources import local_resources
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.tuning.tuner import first_items_curve

ROOT = Path(__file__).parents[2]
PLAINLY = {"cut/probability 0.1": "a probability fitted to your labels", "retrieval/hybrid": "`hybrid`"}
TIMED, REQUESTS, ROUNDS = "workbench", 40, 5


def measure(
    experiment: Path = ROOT / "experiments" / "ablations.yaml",
    *,
    out: Path | None = ROOT / "runs" / "ablations",
    timed: str = TIMED,
    rounds: int = ROUNDS,
) -> Tables:
    """Gains by dataset and strategy, and times by strategy; an interrupted run goes on."""
    prepared, results = open_experiment(experiment), ctxbench.run(experiment, out=out)
    rows = [row for name in results.datasets for row in _gains(prepared, results, name)]
    return {"": pd.DataFrame(rows), "time": _times(prepared, timed, rounds)}


def _gains(prepared: Prepared, results: ctxbench.Results, dataset: str) -> list[dict[str, Any]]:
    """Each strategy against the first items of the base for as many tokens, tested by group, corrected together."""
    base, queries = results.summary.compare_to, results.datasets[dataset].queries
    blocks = [block.candidates for block in results.run.load(dataset, base).answers.blocks()]
    table = stacked(blocks)
    labels = Labels.of(results.datasets[dataset], prepared.item_tokens[dataset])
    curve = first_items_curve(replace(table, out=np.zeros(len(table), dtype=np.int64)), labels)
    groups = np.unique([query.group or query.id for query in queries], return_inverse=True)[1]
    compared: dict[str, AtTokens] = {}
    for name in results.selectors:
        if name != base:
            values = results.run.load(dataset, name).metrics
            compared[name] = at_equal_tokens(values["completeness"], values["tokens"], curve, groups=groups)
    tested = correct(
        {name: replace(at.comparison, p=at.p_groups) for name, at in compared.items() if at.comparison is not None}
    )
    fields = {"dataset": dataset, "queries": len(queries), "groups": int(groups.max()) + 1}
    return [fields | {"strategy": name} | _row(at, tested.get(name)) for name, at in compared.items()]


def _row(at: AtTokens, tested: Any) -> dict[str, Any]:
    gain = {"difference": np.nan, "low": np.nan, "high": np.nan, "p": np.nan, "significant": False}
    if tested is not None:
        low, high = tested.interval.low, tested.interval.high
        gain = {"difference": tested.difference, "low": low, "high": high, "p": tested.p_holm}
        gain["significant"] = bool(tested.significant)
    return {"tokens": at.tokens, "completeness": at.complete, "base": at.base, **gain}


def _times(prepared: Prepared, dataset: str, rounds: int) -> pd.DataFrame:
    """Median milliseconds of processor time of a warm request by strategy, and whether it reads a fit.

    Processor time is what a machine takes that has nothing else to do, also where others use this one.
    """
    data = prepared.datasets[dataset]
    selectors = prepared.experiment.make_selectors(prepared.resources(), {})
    pipelines = {name: item.pipeline for name, item in selectors.items() if isinstance(item, PipelineSelector)}
    resources = {name: local_resources(prepared.embedder, prepared.counter) for name in pipelines}
    requests = data.judged().requests()
    batches = [Batch.of(data.catalog, (request,)) for request in requests[:: max(len(requests) // REQUESTS, 1)]]
    times: dict[str, list[float]] = {name: [] for name in pipelines}
    for _, batch, (name, pipeline) in itertools.product(range(rounds + 1), batches[:REQUESTS], pipelines.items()):
        began = time.process_time_ns()
        pipeline.prompts(pipeline.run(batch, resources[name]), resources[name])
        times[name].append((time.process_time_ns() - began) / 1e6)
    warm = {name: taken[len(taken) // (rounds + 1) :] for name, taken in times.items()}
    return pd.DataFrame(
        {"strategy": name, "fitted": bool(files_of_fits(selectors[name].describe())), "ms": statistics.median(taken)}
        for name, taken in warm.items()
    )


def page(tables: Tables) -> Page:
    """The strategies, the best first."""
    gains, times = tables[""], tables["time"].set_index("strategy")
    means = {name: mean_gain(rows) for name, rows in gains.groupby("strategy", sort=False)}
    order = sorted(means, key=lambda name: -means[name]["difference"])
    plain = next(name for name in order if not times.loc[name, "fitted"])
    best, datasets = order[0], gains["dataset"].nunique()
    [base] = set(times.index) - set(means)
    few = gains[gains["groups"] < 10].drop_duplicates("dataset")
    sizes = ", ".join(f"{row.dataset} {row.queries}" for row in gains.drop_duplicates("dataset").itertuples())
    return Page(
        title="Ablations: which strategy pays",
        answer=f"At equal tokens, {_plainly(best)} gains most: {points(means[best]['difference'])} points of "
        f"completeness; of what needs no fit, {_plainly(plain)}: {points(means[plain]['difference'])}.",
        picture=dot_picture(
            {name: {"": means[name]} for name in order},
            x=f"points of completeness at equal tokens, mean of {datasets} datasets",
            alt="Gain in completeness over the specification's defaults at equal tokens, by strategy, with intervals",
        ),
        table=[
            {"strategy": f"`{name}`"}
            | _figures(gains[gains["strategy"] == name], means[name])
            | {"time": f"{times.loc[name, 'ms'] / times.loc[base, 'ms']:.1f} x"}
            for name in order
        ],
        notes=(
            (
                f"A strategy changes one thing of `{base}`, the specification's defaults; *experiments/ablations.yaml* "
                "has each. Points are of completeness at equal tokens: the base offers as many of its first items as "
                "cost the same on average. Better on, worse on: datasets with a significant difference."
            ),
            (
                f"Time: of a warm request of `{TIMED}`, as a multiple of the base's {times.loc[base, 'ms']:.1f} ms "
                "of processor time (median of one core). A new text is embedded besides ([embedders](embedders.md)). "
                "`learned/normal`, and what is fitted, have seen the tuning splits of these datasets; "
                "[learned](learned.md) has other catalogs."
            ),
        ),
        made=f"`make ablations`, from *experiments/ablations.yaml*. Test splits, of which nothing was chosen: {sizes} "
        "queries, groups whole. Means count each dataset once. p is by group (sign flips), Holm-corrected over the "
        "strategies of a dataset; intervals are by query, each for itself."
        + "".join(
            f" `{row.dataset}` has {row.groups} groups, so nothing is significant there." for row in few.itertuples()
        )
        + " The best of many flatters: expect somewhat less.",
    )


def _figures(rows: pd.DataFrame, mean: Mapping[str, float]) -> dict[str, str]:
    significant = rows[rows["significant"]]
    return {
        "points, mean": gain_cell(mean),
        "least": points(rows["difference"].min()),
        "most": points(rows["difference"].max()),
        "better on": str(int((significant["difference"] > 0).sum())),
        "worse on": str(int((significant["difference"] < 0).sum())),
    }


def _plainly(strategy: str) -> str:
    return PLAINLY.get(strategy, f"`{strategy}`")


if __name__ == "__main__":
    run_page("ablations", measure, page, about=__doc__)
