"""Weights of queries that a label queue drew: how many each stands for. Beside the dataset, for whoever measures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ctxbench.core.errors import Fault, raise_faults
from ctxbench.io.files import write_atomic
from ctxbench.io.json_files import dump_jsonl, iter_jsonl

WEIGHTS = Path("labelling", "weights.jsonl")  # in the dataset's folder


def read_weights(folder: Path) -> dict[str, float]:
    """How many queries each drawn one stands for, by id; none if no queue has drawn any.

    Raises:
        StorageError: the file cannot be read.
        InputError: a line is not what `write_weights` wrote; all faults.
    """
    path = folder / WEIGHTS
    if not path.is_file():
        return {}
    faults: list[Fault] = []
    found = {}
    for line, row in iter_jsonl(path, faults):
        query, weight = row.get("query"), row.get("weight")
        if isinstance(query, str) and isinstance(weight, int | float) and weight > 0:
            found[query] = float(weight)
        else:
            faults.append(
                Fault("expected a query and its weight above 0; the next `data label` writes it anew", path, line)
            )
    raise_faults(faults, subject=str(path))
    return found


def write_weights(folder: Path, weights: Mapping[str, float], strata: Mapping[str, int]) -> None:
    """Write the weights, whole or not at all.

    Raises:
        StorageError: the file cannot be written.
    """
    rows = ({"query": query, "stratum": strata[query], "weight": weights[query]} for query in sorted(weights))
    write_atomic(folder / WEIGHTS, dump_jsonl(rows))
