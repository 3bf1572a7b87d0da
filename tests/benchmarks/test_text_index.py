"""Scores by text index beside the bare FTS5 query for the same words, over 10,000 files of this project's words.

Bars: asked for words of which most were asked before (`warm`), the 95th percentile takes at most 2.5 times
that of `SELECT rowid, bm25(t) ... MATCH 'a OR b'`; asked for new words (`cold`) it is printed. All take turns in one
test. Asserted is only that the same rows are found. Run with `--benchmark-only -s`.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from ctxbench.model.items import Item
from ctxbench.search.text_index import Fts5Index, _quoted
from ctxbench.search.words import phrases

FILES, ROUNDS = 10_000, 200
ROOT = Path(__file__).parents[2]


def timed(call):
    began = time.perf_counter()
    made = call()
    return 1000 * (time.perf_counter() - began), made


@pytest.fixture(scope="module")
def files():
    """Files of 7.5 KB, of lines of this project's own."""
    generator = random.Random(7)
    paths = sorted(path for folder in ("ctxbench", "tests") for path in (ROOT / folder).rglob("*.py"))
    lines = [line for path in paths for line in path.read_text("utf-8").splitlines() if line.strip()]
    return [
        Item(type="file", name=f"{generator.choice(paths).relative_to(ROOT)}/{n}", text="\n".join(chosen))
        for n in range(FILES)
        for first in [generator.randrange(len(lines) - 150)]
        for chosen in [lines[first : first + 150]]
    ]


def test_scores_beside_the_bare_query(benchmark, files):
    index, generator = Fts5Index(), random.Random(8)
    spent, rows = timed(lambda: index.rows(files))
    print(f"\n{FILES:,} files, {sum(len(one.text) for one in files) / 1e6:.0f} MB, indexed in {spent / 1000:.1f} s")  # noqa: T201
    sentences = [one.split() for one in (generator.choice(files).text.splitlines()[3] for _ in range(5 * ROUNDS))]
    sentences = [words[:12] for words in sentences if phrases(words)]
    for words in sentences[ROUNDS:]:  # what was asked before
        index.scores(words, rows, match_all=False)
    taken: dict[str, list[float]] = {"bare": [], "warm": [], "cold": []}
    query = "SELECT rowid, bm25(files, 10.0, 1.0) FROM files WHERE files MATCH ?"
    for words in sentences[:ROUNDS]:
        asked = " OR ".join(map(_quoted, phrases(words)))
        spent, bare = timed(lambda: index._db.execute(query, (asked,)).fetchall())  # noqa: B023 - run at once
        taken["bare"].append(spent)
        spent, scores = timed(lambda: index.scores(words, rows, match_all=False))  # noqa: B023
        taken["warm"].append(spent)
        assert np.flatnonzero(scores > 0).tolist() == sorted(row for row, _ in bare)
        held, index._postings = index._postings, OrderedDict()
        n_held, index._n_rows = index._n_rows, 0
        taken["cold"].append(timed(lambda: index.scores(words, rows, match_all=False))[0])  # noqa: B023
        index._postings, index._n_rows = held, n_held
    benchmark.pedantic(lambda: index.scores(words, rows, match_all=False), rounds=3)
    for name, times in taken.items():
        for share in (0.5, 0.95):
            value, bare = np.quantile(times, share), np.quantile(taken["bare"], share)
            benchmark.extra_info[f"{name}_p{100 * share:.0f}_ratio"] = value / bare
            print(f"{name} p{100 * share:.0f} {value:.1f} ms, ratio {value / bare:.2f}, n {len(times)}")  # noqa: T201
