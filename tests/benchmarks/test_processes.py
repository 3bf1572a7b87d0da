"""Whole processes of the command line beside the least that could do their work. Run with `--benchmark-only -s`.

Both take turns in one test, since machines change their speed within a minute; the test prints and stores figures,
and asserts only that both did their work.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

import pytest

from ctxbench.search.minilm import find_weights, minilm_graph, read_header

ROUNDS = 20
WARM_UP = 2

# What any program must do that embeds a text with this model and runtime.
BARE = """
import sys
from pathlib import Path
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

graph, weights, tokenizer, query = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
options.add_session_config_entry("session.model_external_initializers_file_folder_path", weights)
session = onnxruntime.InferenceSession(Path(graph).read_bytes(), options, providers=["CPUExecutionProvider"])
ids = Tokenizer.from_file(tokenizer).encode(query).ids
(hidden,) = session.run(None, {"ids": np.array([ids], dtype=np.int64)})
vector = hidden[0].mean(axis=0)
print((vector / np.linalg.norm(vector)).shape)
"""


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    """A cache of its own, no network, and compiled modules, as an installed program has them."""
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "compiled"))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)


def timed(command):
    """Seconds of a whole process, and what it printed."""
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return time.perf_counter() - begin, done.stdout


def in_turns(benchmark, *makers):
    """Median seconds of each command, taken in turns; a maker gives the command of a round."""
    taken = [[] for _ in makers]
    rounds = iter(range(-WARM_UP, ROUNDS))

    def turn():
        number = next(rounds)
        for times, make in zip(taken, makers, strict=True):
            seconds, out = timed(make(number))
            assert out
            if number >= 0:
                times.append(seconds)

    for _ in range(WARM_UP):
        turn()
    benchmark.pedantic(turn, rounds=ROUNDS, iterations=1)
    return [statistics.median(times) for times in taken], taken


def report(benchmark, figures):
    benchmark.extra_info.update(figures)
    print("", *(f"{name}: {value}" for name, value in figures.items()), sep="\n  ")  # noqa: T201  for who runs it


def paired(ours, theirs):
    """The median of the ratios of single rounds."""
    return round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 2)


def test_help_beside_importing_typer(benchmark):
    (ours, theirs), taken = in_turns(
        benchmark,
        lambda _: [sys.executable, "-m", "ctxbench", "--help"],
        lambda _: [sys.executable, "-c", "import typer; print(1)"],
    )
    figures = {
        "ctxbench --help s": round(ours, 3),
        "import typer s": round(theirs, 3),
        "ratio (bar 1.5)": round(ours / theirs, 2),
        "median ratio of a round": paired(*taken),
        "load": round(os.getloadavg()[0], 1),
    }
    report(benchmark, figures)


def test_importing_ctxbench_beside_importing_nothing(benchmark):
    (ours, theirs), _ = in_turns(
        benchmark,
        lambda _: [sys.executable, "-c", "import ctxbench; print(1)"],
        lambda _: [sys.executable, "-c", "print(1)"],
    )
    figures = {
        "import ctxbench ms": round(1000 * ours, 1),
        "nothing ms": round(1000 * theirs, 1),
        "difference ms (bar 8)": round(1000 * (ours - theirs), 1),
        "load": round(os.getloadavg()[0], 1),
    }
    report(benchmark, figures)


def test_select_beside_a_bare_script(benchmark, tmp_path):
    if importlib.util.find_spec("bfcl_eval") is None:
        pytest.skip("the catalog bfcl-simple comes with the wheel bfcl-eval")
    weights = find_weights()
    graph = tmp_path / "graph.onnx"
    graph.write_bytes(minilm_graph(read_header(weights.model), location=weights.model.name))
    select = [sys.executable, "-m", "ctxbench", "select", "--catalog", "bfcl-simple", "--preset", "normal", "--json"]
    bare = [sys.executable, "-c", BARE, str(graph), str(weights.model.parent), str(weights.tokenizer)]
    _, out = timed([*select, "area of a triangle"])  # imports the catalog and embeds its items
    assert json.loads(out)["eligible"] == 370
    (new, cached, theirs), taken = in_turns(
        benchmark,
        lambda number: [*select, f"convert {number + WARM_UP} miles to kilometres"],
        lambda _: [*select, "area of a triangle"],
        lambda number: [*bare, f"convert {number + WARM_UP} miles to kilometres"],
    )
    figures = {
        "select, new query s": round(new, 3),
        "select, query cached s": round(cached, 3),
        "bare script s": round(theirs, 3),
        "ratio, new query (bar 2.0)": round(new / theirs, 2),
        "median ratio of a round": paired(taken[0], taken[2]),
        "ratio, query cached": round(cached / theirs, 2),
        "load": round(os.getloadavg()[0], 1),
    }
    report(benchmark, figures)
