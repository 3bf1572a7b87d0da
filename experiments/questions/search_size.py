"""To what size a search that compares every vector serves: reports/search-size.md (`make questions`).

Catalogs of made vectors (384 numbers, length 1), one chunk an item, searched through the pipeline that `dense` is.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

import ctxbench
from ctxbench.evaluation.experiment import machine
from ctxbench.io.files import write_atomic

ROOT = Path(__file__).parents[2]
SIZES = (100, 1_000, 10_000, 100_000)
DIMENSIONS = 384
REQUESTS = 60
PER_100 = 10.0  # milliseconds: what document 001 says a search costs for each 100 items
SLOW = 100.0  # milliseconds: a person begins to notice


def vectors(texts: Sequence[str]) -> np.ndarray:
    """A made vector for each text: the same for the same text."""
    made = np.stack([np.random.default_rng(crc32(text.encode())).standard_normal(DIMENSIONS) for text in texts])
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def measured(size: int) -> list[float]:
    """Milliseconds of each request, asked one at a time after the first."""
    catalog = ctxbench.catalog([{"type": "tool", "name": f"n{n}", "description": f"item {n}"} for n in range(size)])
    search = ctxbench.pipeline(retrieve={"dense": {"embedder": vectors}}, refine=[{"first": {"n": 5}}])
    ctxbench.select("item 1", catalog, selector=search)
    times = []
    for n in range(REQUESTS):
        began = time.perf_counter()
        ctxbench.select(f"request {n}", catalog, selector=search)
        times.append(1e3 * (time.perf_counter() - began))
    return times


def main() -> None:
    """Measure each size and write the page."""
    write_atomic(ROOT / "reports" / "search-size.md", page({size: measured(size) for size in SIZES}, machine()))


def page(times: dict[int, list[float]], where: dict[str, Any]) -> str:
    """The page: the answer, the table, how it was made."""
    middle = {size: statistics.median(found) for size, found in times.items()}
    serves = max((size for size, value in middle.items() if value <= SLOW), default=0)
    tried = ", the most that were tried" if serves == max(times) else ""
    answer = (
        f"Comparing every vector serves up to {serves:,} items{tried}: a request takes {middle[serves]:.1f} ms there "
        f"(median), under the {SLOW:g} ms that a person notices."
        if serves
        else f"Comparing every vector takes more than {SLOW:g} ms even for {min(times):,} items."
    )
    rows = [
        f"| {size:,} | {middle[size]:.1f} | {sorted(found)[int(0.95 * len(found))]:.1f} | {PER_100 * size / 100:,.0f} |"
        for size, found in times.items()
    ]
    head = ["| items | median, ms | 95th percentile, ms | document 001, ms |", "| ---: | ---: | ---: | ---: |"]
    about = (
        f"Made by `make questions`: {REQUESTS} requests a size, one at a time, each new. Vectors are made up "
        f"({DIMENSIONS} numbers), so that no time goes into embedding; your model's time for a new request comes on "
        "top (`embedders.md`). Timed is the whole answer from Python, explained item by item. The document's "
        f"figure is 10 ms for each 100 items. {where['processor']}, {where['usable_cores']} cores, "
        f"load {where['load']}."
    )
    return "\n".join(["# To what size brute force serves", "", f"**{answer}**", "", *head, *rows, "", about, ""])


if __name__ == "__main__":
    main()
