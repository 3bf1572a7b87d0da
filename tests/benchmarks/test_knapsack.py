"""The exact filling of a budget beside the greedy one: time, and how much relevance the greedy one loses.

Figures are printed and stored, and asserted is only that the exact one is never worse. Run with `--benchmark-only -s`.
"""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from ctxbench.pipelines.strategies.pack import Greedy, best_filling
from tests.benchmarks.test_growing_catalogs import timed


@pytest.mark.parametrize(("n", "room", "most"), [(50, 3_500, 400), (200, 128_000, 3_000)])
def test_exact_beside_greedy(benchmark, n, room, most):
    draw, steps = np.random.default_rng(n), {"greedy": Greedy(), "density": Greedy(type_share=None, stop_share=None)}
    taken, lost = {name: [] for name in ("exact", *steps)}, {name: [] for name in steps}
    kind = (np.arange(n) % 5 > 2).astype(np.int64)  # three of five are files, two messages
    for _ in range(30):
        score, price = draw.beta(2, 4, n), draw.integers(5, most, n)
        spent, exact = timed(lambda score=score, price=price: best_filling(score, price, room))
        taken["exact"].append(spent)
        for name, step in steps.items():
            spent, out = timed(lambda step=step, score=score, price=price: step._filled(score, price, kind, room))
            taken[name].append(spent)
            lost[name].append(1 - score[out == 0].sum() / score[exact].sum())
    benchmark.pedantic(lambda: best_filling(score, price, room), rounds=5)
    figures = {name: statistics.median(times) for name, times in taken.items()}
    benchmark.extra_info.update(figures)
    print(  # noqa: T201 - figures for who runs it with -s
        f"\n{n} items, {room:,} tokens: "
        + ", ".join(f"{name} {time:.2f} ms" for name, time in figures.items())
        + "; lost "
        + ", ".join(f"{name} {statistics.median(shares):.2%}" for name, shares in lost.items())
    )
    assert min(min(shares) for shares in lost.values()) >= -1e-9
