"""BM25 beside bm25s at the same words. Run with `--benchmark-only -s`.

Bar: index and queries take at most 1.3 times the CPU time of bm25s. Both take turns in one test, since machines change
their speed within a minute; asserted is only that the best scores are equal.

`whole` splits the texts by the rule on both sides. `from words` gives bm25s lists of words, and us the same words with
blanks between them.
"""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path

import bm25s
import numpy as np
import pytest

import ctxbench
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.strategies.retrieve import Bm25
from ctxbench.testing import mock_resources

ITEMS, QUERIES, LINES, ROUNDS, SLICE, DEPTH = 20_000, 2_000, 12, 3, 64, 100
PLAIN = {"words": "plain", "stop": False, "stem": False}


def code() -> tuple[list[str], list[str]]:
    """Texts and queries of lines of this package, drawn from a seed."""
    draw = random.Random(4)
    paths = sorted(Path(ctxbench.__file__).parent.rglob("*.py"))
    lines = [line for path in paths for line in path.read_text("utf-8").splitlines() if line.strip()]
    texts = []
    for n in range(ITEMS):
        first = draw.randrange(len(lines) - LINES)
        texts.append("\n".join([*lines[first : first + LINES], f"value_{n} = call{draw.randrange(5_000)}()"]))
    return texts, [" ".join(draw.choices(lines, k=2)) for _ in range(QUERIES)]


def asked(texts: list[str], queries: list[str]) -> Query:
    """The queries over items with these texts."""
    catalog = Catalog([Item(type="file", name=f"f{n}", text=text) for n, text in enumerate(texts)])
    batch = Batch.of(catalog, [Request(id=f"q{n}", text=text) for n, text in enumerate(queries)])
    return Query.of_chunks(batch, [[text] for text in queries])


def ours(query: Query, **options) -> list[np.ndarray]:
    """The best scores of each query, with a new index."""
    step, resources, scores = Bm25(**options), mock_resources(), []
    for first in range(0, QUERIES, SLICE):
        part = step(query.select_requests(np.arange(first, min(first + SLICE, QUERIES))), resources)
        scores += np.split(part.score, part.start[1:-1])
    return scores


def split(query: Query, **options) -> tuple[list[list[str]], list[list[str]]]:
    """The words of the items and of the queries."""
    rule, batch = Bm25(**options).word_rule, query.batch
    return [rule.words(item.search_text) for item in batch.catalog], [rule.words(row.text) for row in batch.requests]


def theirs(words: list[list[str]], queries: list[list[str]]) -> list[np.ndarray]:
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75, dtype="float64")
    index.index(words, show_progress=False)
    return list(index.retrieve(queries, k=DEPTH, show_progress=False, n_threads=0).scores)


@pytest.mark.parametrize("options", [{}, PLAIN], ids=["default", "plain"])
def test_bm25_beside_bm25s(benchmark, monkeypatch, tmp_path, options):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "none" / "file"))
    (tmp_path / "none").touch()  # nothing is kept from one round to the next
    query = asked(*code())
    joined = asked(*([" ".join(row) for row in part] for part in split(query, **options)))
    words = split(joined, **PLAIN)
    runs = {
        "ours whole": lambda: ours(query, **options),
        "bm25s whole": lambda: theirs(*split(query, **options)),
        "ours from words": lambda: ours(joined, **PLAIN),
        "bm25s from words": lambda: theirs(*words),
    }
    taken, scores = {name: [] for name in runs}, {}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            began = time.process_time()
            scores[name] = run()
            taken[name].append(time.process_time() - began)
    benchmark.pedantic(runs["ours whole"], rounds=1)
    seconds = {name: statistics.median(values) for name, values in taken.items()}
    ratios = {part: seconds[f"ours {part}"] / seconds[f"bm25s {part}"] for part in ("whole", "from words")}
    benchmark.extra_info.update(seconds | ratios)
    print(  # noqa: T201 - figures for who runs it with -s
        f"\n{ITEMS:,} items, {QUERIES:,} queries, CPU s: "
        + ", ".join(f"{name} {value:.2f}" for name, value in seconds.items())
        + "; ratios (bar 1.3): "
        + ", ".join(f"{part} {ratio:.2f}" for part, ratio in ratios.items())
    )
    for part in ("whole", "from words"):
        for mine, other in zip(scores[f"ours {part}"], scores[f"bm25s {part}"], strict=True):
            assert np.allclose(np.sort(mine), other[: len(mine)][::-1], rtol=1e-9)
