"""How far one machine carries, and what larger work takes: reports/scale.md (`make scale`).

`ctxbench run` on made datasets with stored vectors of 384 numbers, each run in a process of its own. What this version
or this machine lacks (`--jobs`, `--on`, `index:`, Dask, Ray) is left out. `LARGEST` limits the items for a quick try,
to 10,000 at least: `LARGEST=10000 python experiments/scale/measure.py`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from pages import Page, Picture, Tables, run_page

from ctxbench.cli.app import run_command
from ctxbench.evaluation.experiment import ExperimentFile, machine
from ctxbench.report.charts import COLOURS, mark_numbers
from tests.benchmarks.scale import measure as measure_run, store_vectors, write_dataset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST = int(os.environ.get("LARGEST", "1000000"))
SELECTORS = ("bm25", "dense", "semantic")
GRID = {  # items: queries
    1_000: (1_000, 4_000),
    10_000: (250, 1_000, 4_000),
    100_000: (1_000, 4_000),
    1_000_000: (1_000,),
}
SHARED = 100_000  # items of the runs by several processes
WAYS = {  # options of `ctxbench run`, and the module that it needs
    "1 process": (("--jobs", "1"), ""),
    "2 processes": (("--jobs", "2"), "joblib"),
    "Dask, 3 workers": (("--on", "dask", "--jobs", "3"), "dask.distributed"),
    "Ray, 2 workers": (("--on", "ray", "--jobs", "2"), "ray"),
}
WARMED = 50_000  # items from which on vectors are kept in files
DRAWN = 1_000  # queries of the runs in the picture
DIMENSIONS = 384
TERMS = ("start", "item", "query", "pair")
ITEMS, QUERIES = 10**7, 10**6  # of the plan
MACHINES, CORES, TERAFLOPS, GIGABYTES = (
    (8, 64),
    16,
    20.0,
    1.0,
)  # of the plan: machines, each one's cores, a GPU, network


def measure() -> Tables:
    """Every run, the cost model of each selector, and the plan."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for items, queries in GRID.items():
            if items <= LARGEST:
                rows += _runs_of_size(Path(folder) / str(items), items, queries)
    about = machine()
    runs = pd.DataFrame(rows).assign(
        **{name: about[name] for name in ("processor", "usable_cores", "memory_mib", "load")}
    )
    models = pd.DataFrame([_model(runs, selector) for selector in SELECTORS])
    return {"": runs, "model": models, "plan": pd.DataFrame(_plan(runs, models))}


def _runs_of_size(folder: Path, items: int, queries: Sequence[int]) -> Iterator[dict[str, Any]]:
    """All runs over so many items; runs of fewer queries take a part of those that are there."""
    dataset = write_dataset(folder / "dataset", items=items, queries=max(queries))
    store_vectors(dataset, folder / "cache")
    one_process = WAYS["1 process"][0] if _has_option("jobs") else ()

    def run(selectors: str, n: int, way: str, options: Sequence[str] = one_process, more: str = "") -> dict[str, Any]:
        figures = measure_run(
            folder / "run",
            selectors.split("+"),
            dataset=dataset,
            embedder="minilm",
            options=("--limit", str(n), *options),
            more=more,
            cache=folder / "cache",
        )
        row = {"selector": selectors, "items": items, "queries": n, "way": way, **figures, "same": float("nan")}
        sys.stderr.write(f"{row}\n")
        return row

    if items >= WARMED:
        run("dense", 1, "not measured")  # writes the files of vectors that later runs map
    for selector in SELECTORS if items < max(GRID) else SELECTORS[:2]:  # `semantic` searches as `dense` does
        for n in queries:
            yield run(selector, n, "1 process")
        if selector == "dense" and items == min(LARGEST, max(GRID)) and "index" in ExperimentFile.model_fields:
            exact = _offered(folder)
            row = run(selector, queries[-1], "float16", more="index: {vectors: float16}")
            yield {**row, "same": float(np.mean([x == y for x, y in zip(exact, _offered(folder), strict=True)]))}
    if items == min(SHARED, LARGEST):
        for way, (options, module) in {**WAYS, "1 process": (one_process, "")}.items():
            if all(_has_option(name.removeprefix("--")) for name in options[::2]) and _installed(module):
                yield run("+".join(SELECTORS), queries[-1], way, options)


def _has_option(name: str) -> bool:
    """Whether `ctxbench run` of this version has an option."""
    return name in run_command.__annotations__


def _installed(module: str) -> bool:
    try:
        return not module or find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _offered(folder: Path) -> list[list[str]]:
    """The items that each query of the last run was offered, best first."""
    (path,) = (folder / "run" / "run").rglob("selections.jsonl")
    return [[item["id"] for item in json.loads(line)["items"]] for line in path.read_text().splitlines()]


def _terms(items: np.ndarray, queries: np.ndarray) -> np.ndarray:
    return np.stack([np.ones(len(items)), items, queries, items * queries], axis=1).astype(float)


def _fitted(rows: pd.DataFrame) -> np.ndarray:
    """Seconds of processor time for each term: none negative, least squares of relative errors."""
    from scipy.optimize import nnls

    terms, seconds = _terms(rows["items"].to_numpy(), rows["queries"].to_numpy()), rows["cpu_seconds"].to_numpy()
    scaled = terms / seconds[:, None]
    size = np.linalg.norm(scaled, axis=0)  # else a term of 1e9 would hide one of 1
    return nnls(scaled / size, np.ones(len(rows)))[0] / size


def _model(runs: pd.DataFrame, selector: str) -> dict[str, Any]:
    """The cost of each term, the relative error of each run left out, and of the largest catalog from smaller ones."""
    rows = runs[(runs.selector == selector) & (runs.way == "1 process")].reset_index(drop=True)
    errors = [_error(rows.drop(index=[index]), rows.loc[[index]]) for index in rows.index]
    largest = rows["items"] == rows["items"].max()
    return {
        "selector": selector,
        **dict(zip(TERMS, _fitted(rows), strict=True)),
        "left_out_median": float(np.median(np.abs(errors))),
        "left_out_worst": float(np.max(np.abs(errors))),
        "largest_from_smaller": float(np.max(np.abs(_error(rows[~largest], rows[largest])))),
    }


def _error(rows: pd.DataFrame, left_out: pd.DataFrame) -> float:
    predicted = _terms(left_out["items"].to_numpy(), left_out["queries"].to_numpy()) @ _fitted(rows)
    return float((predicted / left_out["cpu_seconds"].to_numpy() - 1.0)[0])


def _plan(runs: pd.DataFrame, models: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Seconds of the plan by selector and number of machines; of exact search by vectors on one GPU, too."""
    efficiency = _efficiency(runs, models)
    for model in models.to_dict("records"):
        if model["selector"] == "semantic":
            continue
        prepared = model["start"] + model["item"] * ITEMS
        sent = ITEMS * (2 * DIMENSIONS + 200) / (GIGABYTES * 1e9)
        work = model["query"] * QUERIES + model["pair"] * ITEMS * QUERIES
        for machines in MACHINES:
            spent = work / (machines * CORES * efficiency)
            yield {
                "selector": model["selector"],
                "on": f"{machines} machines",
                "prepared": prepared,
                "sent": sent,
                "work": spent,
            }
        if model["selector"] == "dense":
            products = 2.0 * ITEMS * QUERIES * DIMENSIONS / (TERAFLOPS * 1e12)
            spent = products + model["query"] * QUERIES / (CORES * efficiency)
            yield {"selector": "dense", "on": "1 GPU", "prepared": prepared, "sent": sent, "work": spent}


def _efficiency(runs: pd.DataFrame, models: pd.DataFrame) -> float:
    """The speed of each of two processes, as a share of that of one alone; 1 where it was not measured."""
    shared = runs[runs.selector == "+".join(SELECTORS)].set_index("way")
    if not {"1 process", "2 processes"} <= set(shared.index):
        return 1.0
    apart = float(models["start"].max() + models["item"].max() * shared["items"].iloc[0])
    one, two = (shared["seconds"][way] for way in ("1 process", "2 processes"))
    return float(np.clip((one - apart) / max(two - apart, 1e-9) / 2, 0.1, 1.0))


def page(tables: Tables) -> Page:
    """The page of these runs."""
    runs, models, plan = tables[""], tables["model"], tables["plan"]
    took = {(row.selector, row.on): row.prepared + row.sent + row.work for row in plan.itertuples()}
    first = runs.iloc[0]
    return Page(
        title="What does a larger catalog take?",
        answer=(
            f"{ITEMS:,} items by {QUERIES:,} queries: about {_duration(took['dense', '8 machines'])} on 8 machines, "
            f"{_duration(took['dense', '64 machines'])} on 64. A plan from a fitted cost model, not a measurement."
        ),
        picture=Picture(
            draw=partial(draw, tables),
            alt="Processor seconds by number of items, measured and as the model has them; seconds by workers",
            width=760,
            height=330,
        ),
        table=[
            {
                "selector": row.selector.replace("+", ", "),
                "items": f"{row.items:,}",
                "queries": f"{row.queries:,}",
                "by": row.way,
                "seconds": f"{row.seconds:,.1f}",
                "processor seconds": f"{row.cpu_seconds:,.1f}",
                "peak, MB": f"{row.peak_mb:,.0f}",
            }
            for row in _shown(runs).itertuples()
        ],
        notes=[_about_runs(runs), _about_models(models), *_about_plan(runs, plan, models)],
        made=(
            "`make scale`: tools of twelve words drawn at random; queries of words of the two tools that they need. "
            f"Vectors of {DIMENSIONS} numbers are stored before, so that no model is asked. A run is a new process of "
            "`ctxbench run` with its report; memory that processes share counts once. `semantic` is `semantic/spec`. "
            f"{first['processor']}, {first['usable_cores']} cores, {first['memory_mib'] / 1024:.0f} GB, "
            f"load {first['load']:g}."
        ),
    )


def _shown(runs: pd.DataFrame) -> pd.DataFrame:
    """The most queries of each size, and all that was not done by one process."""
    most = runs.groupby(["selector", "items"])["queries"].transform("max")
    return runs[(runs["queries"] == most) | (runs["way"] != "1 process")]


def _about_runs(runs: pd.DataFrame) -> str:
    shared = runs[runs.selector == "+".join(SELECTORS)].set_index("way")["seconds"]
    parts = [f"{way} {shared.iloc[0] / seconds:.2f} times" for way, seconds in shared.items() if way != shared.index[0]]
    text = f"Speed compared with one process: {', '.join(parts)}. " if parts else ""
    text += (
        "One process multiplies vectors on both cores already, and every process opens the catalog and its indexes, so "
        "several pay where there are more queries for each item (`tests/benchmarks/test_jobs.py`). "
    )
    float16 = runs[runs.way == "float16"]
    if len(float16):
        same = float(np.average(float16["same"], weights=float16["queries"]))
        text += f"With float16 vectors {100 * same:.2f}% of queries are offered the same items in the same order. "
    lacking = [way for way in WAYS if way != "1 process" and way not in shared.index]
    return text + (f"Not measured here: {', '.join(lacking)}." if lacking else "")


def _about_models(models: pd.DataFrame) -> str:
    lines = [
        f"* `{row.selector}`: {row.start:.1f} s + {1e6 * row.item:.0f} µs for each item + {1e3 * row.query:.2f} ms for "
        f"each query + {1e9 * row.pair:.1f} ns for each item and query; a run that is left out is met within "
        f"{100 * row.left_out_median:.0f}% (median; worst {100 * row.left_out_worst:.0f}%), the largest catalog, from "
        f"smaller ones, within {100 * row.largest_from_smaller:.0f}%"
        for row in models.itertuples()
    ]
    return "Processor seconds of one process, by least squares of relative errors, no term below 0:\n" + "\n".join(
        lines
    )


def _about_plan(runs: pd.DataFrame, plan: pd.DataFrame, models: pd.DataFrame) -> tuple[str, str]:
    lines = [
        f"* `{row.selector}` on {row.on}: {_duration(row.prepared)} to read and index, {_duration(row.sent)} to send, "
        f"{_duration(row.work)} of search"
        for row in plan.itertuples()
    ]
    efficiency = _efficiency(runs, models)
    measured = f"each at {100 * efficiency:.0f}% of the speed of one alone, as the second process here"
    plan_lines = f"The plan for {ITEMS:,} items and {QUERIES:,} queries, from the model:\n" + "\n".join(lines)
    gigabytes, operations = ITEMS * 2 * DIMENSIONS / 1e9, 2 * ITEMS * QUERIES * DIMENSIONS
    assumptions = [
        f"a machine has {CORES} cores as fast as one here, {measured if efficiency < 1 else 'all of which add up'}",
        f"costs go on growing as up to {runs['items'].max():,} items",
        "one process reads and indexes the catalog, before any search",
        f"all machines get the catalog and float16 vectors ({gigabytes:.1f} GB) at {GIGABYTES:g} GB per second each",
        f"a GPU does the {operations:.1e} operations of float32 products at {TERAFLOPS:g} TFLOP per second",
        f"choosing the best is part of that, and {CORES} cores beside the GPU do what belongs to queries",
    ]
    return plan_lines, "The plan assumes:\n" + "\n".join(f"* {assumption}" for assumption in assumptions)


def _duration(seconds: float) -> str:
    return (
        f"{seconds / 3600:.1f} h"
        if seconds >= 5400
        else f"{seconds / 60:.0f} min"
        if seconds >= 90
        else f"{seconds:.0f} s"
    )


def draw(tables: Tables, figure: Figure) -> None:
    """Processor seconds over items, points and the model's lines; seconds of each way to run in parallel."""
    runs, models = tables[""], tables["model"].set_index("selector")
    figure.set_layout_engine("constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    sizes = np.geomspace(runs["items"].min(), runs["items"].max(), 60)
    for colour, selector in zip(COLOURS, SELECTORS, strict=False):
        rows = runs[(runs.selector == selector) & (runs.way == "1 process") & (runs["queries"] == DRAWN)]
        terms = _terms(sizes, np.full(len(sizes), DRAWN))
        left.plot(rows["items"], rows["cpu_seconds"], "o", color=colour, label=selector)
        left.plot(sizes, terms @ models.loc[selector, list(TERMS)].to_numpy(float), color=colour, linewidth=1.2)
    left.set(xscale="log", yscale="log", xlabel="items", ylabel=f"processor seconds, {DRAWN:,} queries")
    for axis in (left.xaxis, left.yaxis):
        mark_numbers(axis, log=True)
    left.legend(frameon=False)
    shared = runs[runs.selector == "+".join(SELECTORS)]
    right.barh(shared["way"], shared["seconds"], color=COLOURS[0])
    right.invert_yaxis()
    right.set_xlabel("seconds, all three selectors")


if __name__ == "__main__":
    run_page("scale", measure, page, about=(__doc__ or "").splitlines()[0])
