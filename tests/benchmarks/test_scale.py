"""A run's memory beside a run of four times the queries: it is kept by blocks, so it should hardly grow.

Figures are printed and stored. `python tests/benchmarks/scale.py` measures larger ones. Run with `--benchmark-only -s`.
"""

from __future__ import annotations

import pytest

from tests.benchmarks.scale import measure, write_dataset

ITEMS, QUERIES = 4_000, 1_000


@pytest.mark.parametrize("selectors", [["bm25", "dense"], ["everything", "bm25"]])
def test_memory_beside_that_of_fewer_queries(benchmark, selectors, tmp_path):
    found = {}
    for queries in (QUERIES, 4 * QUERIES):
        folder = tmp_path / str(queries)
        dataset = write_dataset(folder / "dataset", items=ITEMS, queries=queries)
        found[queries] = measure(folder, selectors, dataset=dataset)
    benchmark.pedantic(lambda: None)
    benchmark.extra_info.update({f"{name} of {n}": value for n, one in found.items() for name, value in one.items()})
    few, many = found.values()
    print(  # noqa: T201 - figures for who runs it with -s
        f"\n{' and '.join(selectors)}, {ITEMS:,} items: {QUERIES:,} queries {few['peak_mb']:,} MB in "
        f"{few['seconds']:.1f} s, {4 * QUERIES:,} queries {many['peak_mb']:,} MB in {many['seconds']:.1f} s"
    )
    assert many["run_mb"] < 5 * few["run_mb"]
