"""What the ablations need fitted on labels: `python experiments/strategies/fit.py` (part of `make ablations`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ctxbench.cli.common import run_script
from ctxbench.datasets.dataset import Dataset, select_queries
from ctxbench.datasets.lookup import open_dataset
from ctxbench.io.documents import load_yaml
from ctxbench.io.files import cache_dir
from ctxbench.pipelines.fits import ABSTENTION, PROBABILITY, WEIGHTS, write_calibrations
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.tuning.query_fits import fit

HERE = Path(__file__).parents[1]
BEHIND: dict[str, dict[str, Any]] = {
    PROBABILITY: {"retrieve": "dense"},
    ABSTENTION: {"retrieve": "dense"},
    WEIGHTS: {"retrieve": {"merge": ["dense", "bm25"]}, "refine": ["weighted"]},
}
SEED = 1  # the sample that is measured has seed 0: of a large dataset, other queries


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit everything anew.

    At most `sample` tuning queries a dataset are used. Of datasets with the same catalog the first is fitted on;
    abstention only where some queries need nothing, as it cannot be learned elsewhere.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiment", type=Path, default=HERE / "ablations.yaml", help="names the datasets")
    parser.add_argument("--also", nargs="*", default=[], help="datasets besides those of the experiment")
    parser.add_argument("--out", type=Path, default=HERE / "calibrations.json", help="the file of fits")
    options = parser.parse_args(arguments)
    plan, _ = load_yaml(options.experiment)
    embedder = open_embedder(plan.get("embedder", "minilm"))
    counter = open_counter(plan.get("tokens", "o200k"), cache=cache_dir())
    resources = LocalResources(Vectors(embedder, VectorStore(embedder.identity)), counter)
    datasets: dict[str, Dataset] = {}
    for name in [*plan["datasets"], *options.also]:
        whole = open_dataset(name, base=options.experiment.parent)
        part = select_queries(whole, split="tuning", sample=plan.get("sample", 0), seed=SEED)
        datasets.setdefault(part.catalog.hash, part)
    fits = []
    for kind, spec in BEHIND.items():
        pipeline = Pipeline.of(spec)
        for part in datasets.values():
            if kind != ABSTENTION or any(query.needs_nothing for query in part.queries):
                fits.append(fit(kind, part, pipeline, resources, requests=False))  # public texts are not ours to keep
                print(f"{kind}, {part.name}: {fits[-1].queries} queries", file=sys.stderr)  # noqa: T201
    options.out.unlink(missing_ok=True)
    write_calibrations(options.out, fits)


if __name__ == "__main__":
    run_script(main, sys.argv[1:])
