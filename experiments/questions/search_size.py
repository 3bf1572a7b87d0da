"""Up to how many items an exact search is fast enough: reports/search-size.md (`make questions`).

Catalogs of made vectors (384 numbers, length 1), one chunk per item, searched through the pipeline that `dense` is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from pages import Page, Picture, Tables, constrained_axes, run_page

import ctxbench
from ctxbench.evaluation.experiment import machine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (100, 1_000, 10_000, 100_000)
DIMENSIONS = 384
REQUESTS = 60
PER_ITEM = 0.1  # milliseconds: what the specification says a search costs for each item
SLOW = 100.0  # milliseconds: a person begins to notice


def vectors(texts: Sequence[str]) -> np.ndarray:
    """A made vector for each text: the same for the same text."""
    made = np.stack([np.random.default_rng(crc32(text.encode())).standard_normal(DIMENSIONS) for text in texts])
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def request_times(size: int) -> list[float]:
    """Milliseconds of each request, sent one at a time after the first."""
    catalog = ctxbench.catalog([{"type": "tool", "name": f"n{n}", "description": f"item {n}"} for n in range(size)])
    search = ctxbench.pipeline(retrieve={"dense": {"embedder": vectors}}, refine=[{"first": {"n": 5}}])
    ctxbench.select("item 1", catalog, selector=search)
    times = []
    for n in range(REQUESTS):
        began = time.perf_counter()
        ctxbench.select(f"request {n}", catalog, selector=search)
        times.append(1e3 * (time.perf_counter() - began))
    return times


def measure() -> Tables:
    """Median and 95th percentile of each size, in milliseconds, with the machine that took them."""
    about = machine()
    rows = []
    for size in SIZES:
        times = request_times(size)
        median, slow = np.quantile(times, [0.5, 0.95])
        row = {"items": size, "median_ms": median, "p95_ms": slow, "specification_ms": PER_ITEM * size}
        rows.append({**row, "processor": about["processor"], "cores": about["usable_cores"], "load": about["load"]})
    return {"": pd.DataFrame(rows)}


def page(tables: Tables) -> Page:
    """The page of these times."""
    times = tables[""]
    fast = times[times["median_ms"] <= SLOW]
    answer = f"No size is fast enough: {times['items'].min():,} items take over {SLOW:g} ms."
    if len(fast):
        last = fast.iloc[-1]
        most = ", the most tried" if last["items"] == times["items"].max() else ""
        answer = (
            f"Up to {last['items']:,} items{most}: an exact search takes {last['median_ms']:.1f} ms there, under the "
            f"{SLOW:g} ms that a person notices."
        )
    first = times.iloc[0]
    return Page(
        title="Up to how many items is an exact search fast enough?",
        answer=answer,
        picture=Picture(
            draw=partial(draw, times),
            alt="Time of a request by number of items, measured and as the specification estimates it",
            width=520,
            height=300,
        ),
        table=[
            {
                "items": f"{row.items:,}",
                "median, ms": f"{row.median_ms:.1f}",
                "95th percentile, ms": f"{row.p95_ms:.1f}",
                "specification, ms": f"{row.specification_ms:,.0f}",
            }
            for row in times.rename(columns=str).itertuples(index=False)
        ],
        made=(
            f"`make questions`: {REQUESTS} new requests of each size, one at a time. Vectors are made up, so that no "
            "time goes into embedding: your model's time for a new request comes on top ([embedders](embedders.md)). "
            "Timed is the whole answer from Python, every item explained. "
            f"{first['processor']}, {first['cores']} cores, load {first['load']:g}."
        ),
    )


def draw(times: pd.DataFrame, figure: Figure) -> None:
    """Lines over the number of items, both axes logarithmic."""
    axes = constrained_axes(figure)
    lines = (("median_ms", "measured", "C0"), ("specification_ms", "specification", "0.6"))
    for column, label, colour in lines:
        axes.plot(times["items"], times[column], marker="o", color=colour, label=label)
    axes.axhline(SLOW, color="0.8", linestyle="--", zorder=0)
    axes.set(xscale="log", yscale="log", xlabel="items", ylabel="ms per request")
    axes.set_xticks(times["items"], [f"{size:,}" for size in times["items"]])
    axes.set_yticks([10, 100, 1_000, 10_000], ["10", "100", "1,000", "10,000"])
    axes.minorticks_off()
    axes.legend(frameon=False)


if __name__ == "__main__":
    run_page("search-size", measure, page, about=__doc__.splitlines()[0])
