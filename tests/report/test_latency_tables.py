from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from ctxbench.bench.latency import LatencyResult, Timings, Trial
from ctxbench.core.errors import StorageError
from ctxbench.report.latency_tables import latency_sections, print_latency, write_latency

MACHINE = {
    "processor": "A Processor", "architecture": "x86_64", "cores": 2, "usable_cores": 1, "memory_mib": 24152,
    "system": "Linux 6", "load": 0.21, "blas": [{"internal_api": "openblas", "num_threads": 2}],
    "versions": {"ctxbench": "0.1.0", "numpy": "2.4.6"},
}  # fmt: skip


def trial(job: str, size: int, states: dict[str, Timings], **values: float) -> Trial:
    given = {"ready_s": 0.2, "catalog_s": 0.01, "model_load_s": None, "index_s": None, "indexed": 0, "peak_mib": 181.6}
    return Trial(job=job, size=size, round=0, order=0, states=states, **{**given, **values})  # type: ignore[arg-type]


def timings(whole: tuple[float, ...], **inside: tuple[float, ...]) -> Timings:
    ids = tuple(f"q{place}" for place in range(len(whole)))
    steps = {f"retrieve:dense / {part.replace('_', ' ')}": values for part, values in inside.items()}
    return Timings(ids, {"resolve": (0.0001,) * len(ids), "retrieve:dense": whole, **steps, "whole": whole})


@pytest.fixture
def result() -> LatencyResult:
    cold = {"cold": timings((0.61234,), embed_items=(0.5,), model_load=(0.0974,))}
    warm = {
        "restarted_cached": timings((0.0184,)),
        "new": timings(tuple(0.001 * n for n in range(1, 22)), embed_query=(0.001,) * 21),
        "cached": timings((0.0011, 0.0013)),
    }
    return LatencyResult(
        name="semantic/[bold]", pipeline={}, embedder={"model": "some-model"},
        catalog={"items": 100, "hash": "abcdef0123456789"}, requests={"from": "items", "n": 22},
        reference=100, sizes=(100, 1000), settings={"repeats": 1}, machine=MACHINE, started="2026-03-23T09:30:00+00:00",
        trials=(
            trial("cold", 100, cold, model_load_s=0.0974, index_s=0.54, indexed=100),
            trial("warm", 100, warm),
            trial("cold", 1000, {"cold": timings((6.954,))}, index_s=6.8, indexed=1000, peak_mib=219.1),
        ),
    )  # fmt: skip


def rows(result: LatencyResult, place: int) -> dict[str, tuple[str, ...]]:
    section = latency_sections(result)[place]
    assert all(len(row) == len(section.columns) for row in section.rows)
    return {row[0]: row[1:] for row in section.rows}


def test_one_request_shows_percentiles_only_where_the_samples_carry_them(result: LatencyResult) -> None:
    assert rows(result, 0) == {
        "new process, nothing stored": ("1", "612", "-", "-", "-", "822"),  # 612.34 + 200 + 10
        "new process, items and query stored": ("1", "18.4", "-", "-", "-", "228"),
        "warm process, query new": ("21", "11.0", "20.0", "-", "-", "-"),  # 1 to 21 ms: p95 is the 20th
        "warm process, query stored": ("2", "1.20", "-", "-", "-", "-"),
    }


def test_steps_stand_with_their_insides_below_them(result: LatencyResult) -> None:
    found = rows(result, 1)
    assert list(found) == [
        "resolve",
        "retrieve:dense",
        "  model load",
        "  embed items",
        "  embed query",
        "whole request",
    ]
    assert found["  embed items"] == ("500", "-", "-", "-", "-")
    assert found["  embed query"] == ("-", "-", "1.00", "-", "1.00")
    assert found["resolve"] == ("0.10",) * 5


def test_growth_and_indexing_have_a_row_a_size(result: LatencyResult) -> None:
    assert rows(result, 2) == {
        "100 items": ("612", "18.4", "11.0", "1.20", "182"),
        "1,000 items": ("6,954", "-", "-", "-", "-"),
    }
    assert rows(result, 3) == {
        "100 items": ("100", "5.40", "185", "540", "612", "182"),
        "1,000 items": ("1,000", "6.80", "147", "6,800", "6,954", "219"),
    }


def test_a_size_above_the_catalogs_is_said_to_be_made(result: LatencyResult) -> None:
    assert "variations of its items" in latency_sections(result)[2].notes[0]


def test_the_documents_figures_stand_beside_ours(result: LatencyResult) -> None:
    assert rows(result, 4) == {
        "load the model": ("100", "97.4", "1", "0.97"),
        "index one chunk (from 100 chunks)": ("4.50", "5.40", "1", "1.20"),
        "index 151 chunks (151 times the row above)": ("690", "815", "1", "1.18"),
        "first search, 100 items": ("800", "612", "1", "0.77"),
        "later search, 100 items (query new)": ("10.0", "11.0", "21", "1.10"),
        "later search, 1,000 items (query new)": ("100", "-", "-", "-"),
    }


@pytest.mark.parametrize("width", [80, 120])
def test_what_is_printed_fits_the_width_and_names_machine_and_versions(result: LatencyResult, width: int) -> None:
    out = io.StringIO()
    print_latency(result, out, width=width)
    text = out.getvalue()
    assert max(len(line) for line in text.splitlines()) <= width
    flat = f"{text} {' '.join(text.split())}"
    for part in (
        "Latency of semantic/[bold], some-model, catalog of 100 items (abcdef012345), 22 requests made from",
        "A Processor, 1 of 2 cores, 24,152 MiB, Linux 6",
        "ctxbench 0.1.0, numpy 2.4.6, openblas 2 threads",
        "1 round of all configurations in turns",
        "started 2026-03-23T09:30:00+00:00 at a load of 0.2",
        "One request, 100 items, ms",
        " 822 ",
        "  embed query",
        "p95 from 20 samples, p99 from 100",
    ):
        assert part in flat


def test_the_file_holds_every_sample(result: LatencyResult, tmp_path: Path) -> None:
    write_latency(result, tmp_path / "deep" / "latency.json")
    data = json.loads((tmp_path / "deep" / "latency.json").read_text("utf-8"))
    assert data == json.loads(json.dumps(result.as_dict()))
    assert data["trials"][1]["states"]["cached"]["seconds"]["whole"] == [0.0011, 0.0013]


def test_a_file_that_cannot_be_written_is_an_error(result: LatencyResult, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write"):
        write_latency(result, tmp_path)
