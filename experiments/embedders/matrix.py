"""What one search finds with several embedders, and how fast each is: reports/embedders.md (`make embedders`).

Reads the run of experiments/embedders.yaml, whose selectors have the names of their embedders, or makes it. The times
are taken of the same texts, with each embedder in turns.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from page import figure, page

import ctxbench
from ctxbench.cli.common import run_script
from ctxbench.datasets.dataset import Dataset
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.experiment import machine
from ctxbench.evaluation.inputs import Prepared, open_experiment
from ctxbench.io.files import write_atomic
from ctxbench.model.selection import stacked
from ctxbench.search.chunking import DOCUMENTS
from ctxbench.search.embedders import Embedder, open_embedder
from ctxbench.tuning.tuner import first_items_curve

if TYPE_CHECKING:
    import pandas as pd

ROOT = Path(__file__).parents[2]
METRIC = "R@5"
TEXTS = 25  # of each dataset, in the measurement of speed
ROUNDS = 5
SECONDS = 1.0  # that a turn takes at least: fast embedders are timed over several passes
FOREIGN = 0.1  # more of a request's letters are outside of ASCII: it is not in English
FEW = 10  # such requests, below which a dataset says nothing of them


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """All that the page says.

    Attributes:
        res: the results.
        frame: means and intervals of every metric by (dataset, embedder).
        told: `METRIC` beside the default's, one row a dataset, by embedder; tested by group.
        at_tokens: completeness by (dataset, embedder) for as many tokens as the default's first five cost.
        foreign: `METRIC` by query, one column an embedder, of requests in another language than English, by dataset.
        speed: texts a second of processor time, a number a round, by embedder.
        texts: that were timed.
        where: the machine.
    """

    res: ctxbench.Results
    frame: pd.DataFrame
    told: dict[str, pd.DataFrame]
    at_tokens: dict[tuple[str, str], float]
    foreign: dict[str, pd.DataFrame]
    speed: dict[str, list[float]]
    texts: list[str]
    where: dict[str, Any]

    @property
    def default(self) -> str:
        """The embedder that the others are compared with."""
        return self.res.summary.compare_to

    def times(self, name: str) -> float:
        """How many times as many texts a second as the default."""
        return statistics.median(self.speed[name]) / statistics.median(self.speed[self.default])


def measure(experiment: Path, out: Path, *, rounds: int = ROUNDS, seconds: float = SECONDS) -> Matrix:
    """Take the times, then run the experiment or read its finished run."""
    import pandas as pd

    prepared = open_experiment(experiment)
    texts = some_texts(prepared.datasets.values())
    where = machine()
    speed = speeds([one.name for one in prepared.experiment.selectors], texts, rounds=rounds, seconds=seconds)
    res = ctxbench.run(experiment, out=out)
    frame = res.to_frame(intervals=True)
    if len(res.datasets) == 1:
        frame = pd.concat({next(iter(res.datasets)): frame})
    others = [name for name in res.selectors if name != res.summary.compare_to]
    return Matrix(
        res=res,
        frame=frame,
        told={name: res.compare(name, metrics=[METRIC], by_group=True).set_index("dataset") for name in others},
        at_tokens=at_equal_tokens(prepared, res, frame),
        foreign=foreign(res),
        speed=speed,
        texts=texts,
        where=where,
    )


def some_texts(datasets: Iterable[Dataset]) -> list[str]:
    """Of every dataset `TEXTS` of what a search embeds, requests and chunks of items, evenly from their order."""
    found: dict[str, None] = {}
    for dataset in datasets:
        texts = {chunk for item in dataset.current_catalog for chunk in DOCUMENTS(item)}
        ordered = sorted(texts | {request.text for request in dataset.requests()})
        found |= dict.fromkeys(ordered[:: max(len(ordered) // TEXTS, 1)][:TEXTS])
    return list(found)


def speeds(names: Sequence[str], texts: Sequence[str], *, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Texts a second of processor time on one core, each embedder in turns, without stored vectors.

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
    opened: Mapping[str, Embedder], texts: Sequence[str], *, rounds: int, seconds: float
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in opened}
    for embedder in opened.values():
        embedder.embed(texts[:1])  # loads the model
    for _ in range(rounds):
        for name, embedder in opened.items():
            passes, began = 0, time.process_time()
            while not passes or time.process_time() - began < seconds:
                embedder.embed(texts)
                passes += 1
            found[name].append(passes * len(texts) / (time.process_time() - began))
    return found


def at_equal_tokens(prepared: Prepared, res: ctxbench.Results, frame: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Completeness where an embedder's first items cost as many tokens as the default's first five."""
    found = {}
    for dataset, asked in res.datasets.items():
        labels = Labels.of(asked, prepared.item_tokens[dataset])
        spent = frame.loc[(dataset, res.summary.compare_to), "tokens"]
        for name in res.selectors:
            table = stacked([block.candidates for block in res.run.load(dataset, name).answers.blocks()])
            full_ranking = replace(table, out=np.zeros(len(table), dtype=np.int64))
            tokens, complete = first_items_curve(full_ranking, labels).means()
            found[dataset, name] = float(np.interp(spent, tokens, complete))
    return found


def foreign(res: ctxbench.Results) -> dict[str, pd.DataFrame]:
    """`METRIC` of requests in another language than English, by their letters, where there are at least `FEW`."""
    values = res.per_query().pivot_table(index=["dataset", "query"], columns="selector", values=METRIC)
    found = {}
    for name, dataset in res.datasets.items():
        asked = [(name, query.id) for query in dataset.queries if _share_foreign(query.request.text) > FOREIGN]
        own = values[values.index.isin(asked)]
        if len(own) >= FEW:
            found[name] = own
    return found


def _share_foreign(text: str) -> float:
    letters = [letter for letter in text if letter.isalpha()]
    return sum(not letter.isascii() for letter in letters) / max(len(letters), 1)


def main() -> None:
    """Measure, and write the page and its figure."""
    found = measure(ROOT / "experiments" / "embedders.yaml", ROOT / "runs" / "embedders")
    write_atomic(ROOT / "reports" / "embedders.md", page(found))
    figure(found, ROOT / "reports" / "embedders.svg")


if __name__ == "__main__":
    run_script(main)
