"""Room and time of a dataset that is open, beside the rows of its file as `json.loads` gives them.

Each is read in a process of its own. Run with `--benchmark-only -s`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.scale import write_dataset

ITEMS = 50_000
READ = """
import json, sys, time
from pathlib import Path
from ctxbench.datasets.files import read_dataset

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

kind, folder = sys.argv[1], Path(sys.argv[2])
read_dataset(sys.argv[3]).batch()  # loads what is loaded at first use
room, begin = resident(), time.process_time()
if kind == "rows":
    content = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
else:
    content = read_dataset(folder)
    content.hash, content.batch()
print(json.dumps([resident() - room, time.process_time() - begin]))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
def test_a_dataset_beside_the_rows_of_its_file(benchmark, tmp_path):
    folder = write_dataset(tmp_path / "dataset", items=ITEMS, queries=100)
    few, figures = write_dataset(tmp_path / "few", items=10, queries=1), {}
    for kind in ("rows", "dataset"):
        command = [sys.executable, "-c", READ, kind, str(folder), str(few)]
        room, seconds = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600).stdout
        )
        figures[kind] = round(room / ITEMS), seconds * 100_000 / ITEMS
    benchmark.pedantic(lambda: None)
    benchmark.extra_info.update(
        {
            f"{kind} {name}": value
            for kind, row in figures.items()
            for name, value in zip(("bytes", "s"), row, strict=True)
        }
    )
    (row_bytes, row_seconds), (bytes_each, seconds) = figures["rows"], figures["dataset"]
    print(  # noqa: T201 - figures for who runs it with -s
        f"\n{ITEMS:,} items: a dataset {bytes_each:,} bytes per item and {seconds:.2f} s per 100,000 items; rows by "
        f"json.loads {row_bytes:,} and {row_seconds:.2f} ({bytes_each / row_bytes:.2f} and "
        f"{seconds / row_seconds:.1f} times)"
    )
