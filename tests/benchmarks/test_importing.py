"""Importing public datasets whole: seconds and peak memory of a fresh process, beside reading the files alone.

Bars: MetaTool and ToolLens each in under 10 s and 500 MB. Run with `--benchmark-only -s`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"
IMPORT = """
import resource, sys
from pathlib import Path
from ctxbench.datasets.lookup import import_dataset
dataset = import_dataset(sys.argv[1], source=Path(sys.argv[2]))
print(len(dataset), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
READ = """
import csv, json, sys
from pathlib import Path
for path in Path(sys.argv[1]).rglob("*"):
    if path.suffix == ".csv":
        list(csv.reader(path.open(encoding="utf-8", newline="")))
    elif path.suffix == ".json":
        json.loads(path.read_bytes())
    elif path.suffix in (".jsonl", ".tsv"):
        [json.loads(line) if path.suffix == ".jsonl" else line.split(b"\\t") for line in path.open("rb")]
"""


@pytest.mark.parametrize(("name", "queries"), [("metatool-single", 20_542), ("toollens", 18_770)])
def test_a_public_dataset_is_imported_whole(benchmark, name, queries, tmp_path):
    if not benchmark.enabled:
        pytest.skip("timings are taken with --benchmark-only")
    folder = SHARED / name.split("-")[0]
    if not folder.is_dir():
        pytest.skip(f"the published files are not in {folder.name} beside the checkout")
    environment = {**os.environ, "CTXBENCH_CACHE": str(tmp_path)}

    def run(code, *arguments):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
            timeout=120,
        )
        return done.stdout

    said = benchmark.pedantic(run, args=(IMPORT, name, str(folder)), rounds=5, warmup_rounds=1)
    n, megabytes = map(int, said.split())
    assert n == queries
    benchmark.extra_info["peak_mb"] = megabytes
    print(f"\n{name}: {benchmark.stats.stats.median:.2f} s, {megabytes} MB (bars 10 s, 500 MB)")  # noqa: T201


@pytest.mark.parametrize("name", ["metatool", "toollens"])
def test_the_same_files_read_and_nothing_made_of_them(benchmark, name):
    if not benchmark.enabled:
        pytest.skip("timings are taken with --benchmark-only")
    if not (SHARED / name).is_dir():
        pytest.skip(f"the published files are not in {name} beside the checkout")
    benchmark.pedantic(
        subprocess.run, args=([sys.executable, "-c", READ, str(SHARED / name)],), kwargs={"check": True}, rounds=5
    )
    print(f"\n{name}: read alone {benchmark.stats.stats.median:.2f} s")  # noqa: T201
