from __future__ import annotations

import pytest

from ctxbench.bench.latency import (
    LatencyResult,
    Timings,
    Trial,
    needed_for,
    summarise,
)


def test_a_percentile_needs_a_sample_beyond_it() -> None:
    assert [needed_for(p) for p in (50, 90, 95, 99, 99.9)] == [1, 10, 20, 100, 1000]


@pytest.mark.parametrize(
    ("n", "p95", "p99"),
    [(1, False, False), (19, False, False), (20, True, False), (99, True, False), (100, True, True)],
)
def test_percentiles_are_shown_from_as_many_samples_as_they_need(n: int, p95: bool, p99: bool) -> None:
    found = summarise([[1.0] * n])
    assert found is not None
    assert (found.n, found.p50, found.p95 is not None, found.p99 is not None) == (n, 1.0, p95, p99)


def test_percentiles_interpolate_between_neighbours() -> None:
    found = summarise([[float(value) for value in range(101)]])  # 0 to 100: the p-th percentile is p
    assert found is not None
    assert (found.p50, found.p95, found.p99) == (50.0, 95.0, 99.0)


def test_rounds_are_pooled_and_their_medians_kept() -> None:
    found = summarise([[1.0, 2.0, 30.0], [], [4.0]])
    assert found is not None
    assert (found.n, found.rounds, found.p50, found.low, found.high) == (4, 2, 3.0, 2.0, 4.0)
    assert found.p95 is None


def test_no_samples_have_no_summary() -> None:
    assert summarise([]) is None
    assert summarise([[], []]) is None


def trial(job: str, size: int, turn: int, **values: object) -> Trial:
    given = {"order": 0, "ready_s": 0.2, "catalog_s": 0.01, "model_load_s": None, "index_s": None, "indexed": 0}
    return Trial(job=job, size=size, round=turn, **{**given, "peak_mib": 100.0, "states": {}, **values})  # type: ignore[arg-type]


def result_of(*trials: Trial, sizes: tuple[int, ...]) -> LatencyResult:
    return LatencyResult(
        name="made", pipeline={}, embedder={}, catalog={"items": 100, "hash": "0" * 64}, requests={},
        reference=sizes[0], sizes=sizes, settings={}, machine={}, started="", trials=trials,
    )  # fmt: skip


def test_the_documents_figures_stand_beside_ours() -> None:
    whole = {"cold": Timings(("q",), {"whole": (0.5,)})}
    warm = {"new": Timings(("q", "r", "s"), {"whole": (0.004, 0.006, 0.02)})}
    found = result_of(
        trial("cold", 100, 0, model_load_s=0.1, index_s=0.3, indexed=100, states=whole),
        trial("cold", 100, 1, model_load_s=0.2, index_s=0.5, indexed=100, states=whole),
        trial("cold", 1000, 0, index_s=9.0, indexed=1000),
        trial("warm", 1000, 0, states=warm),
        sizes=(100, 1000),
    )
    rows = {row.what: (row.documents_s, row.ours and round(row.ours.p50, 9), row.note) for row in found.beside()}
    assert rows == {
        "load the model": (0.1, 0.15, ""),
        "index one chunk": (0.0045, 0.004, "from 100 chunks"),  # the median of 3 ms and 5 ms; 100 is nearest to 151
        "index 151 chunks": (0.69, 0.604, "151 times the row above"),
        "first search, 100 items": (0.8, 0.5, ""),
        "later search, 100 items": (0.01, None, "query new"),
        "later search, 1,000 items": (0.1, 0.006, "query new"),
    }


def test_the_documents_figures_stand_alone_where_nothing_of_ours_compares() -> None:
    rows = result_of(trial("cold", 10, 0), sizes=(10,)).beside()
    assert [row.ours for row in rows] == [None] * 4
