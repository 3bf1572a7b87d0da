"""Repositories as catalogs, at their size. Run with `pytest tests/benchmarks/test_codebase.py --benchmark-only -s`.

A repository of 5,000 files and 80 MB is drawn from a seed, in some hundred commits. Each test prints what it found
beside its bar; what is compared takes turns in one test. What a fresh process takes is measured in one.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import bm25s
import numpy as np
import pytest
import rank_bm25

from ctxbench.catalogs.git_trees import TreeName, open_tree
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request
from ctxbench.search import word_index
from ctxbench.search.embedders import HashingEmbedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.search.word_index import Bm25Index
from ctxbench.search.words import WordRule
from ctxbench.selectors.definitions import find_definition
from tests.benchmarks.scale import WATCH
from tests.checkout import Checkout

FILES, SIZE, COMMITS = 5_000, 16_000, 300  # characters of a file
RULE = WordRule(split=True, stop=True, stem=True)
ASKED = "Fix how the parser reads values when an option of a command is missing"
WORDS = 20_000


def drawn_words(draw: random.Random) -> tuple[list[str], list[float]]:
    """Identifiers, of which few are drawn often and most seldom."""
    parts = [
        f"{draw.choice('bcdfglmnprstv')}{draw.choice('aeiou')}{draw.choice('lnrst')}{draw.choice('aeiou')}"
        for _ in range(2_000)
    ]
    parts += ASKED.lower().split()
    names = ["_".join(draw.choices(parts, k=draw.choice([1, 1, 2, 3]))) for _ in range(WORDS)]
    total, often = 0.0, []
    for place in range(WORDS):
        total += 1 / (place + 5)
        often.append(total)
    return names, often


def drawn_text(draw: random.Random, names: list[str], often: list[float], size: int) -> str:
    words = draw.choices(names, cum_weights=often, k=size // 11)
    lines = [f"    {words[n]} = {words[n + 1]}({', '.join(words[n + 2 : n + 6])})" for n in range(0, len(words) - 6, 6)]
    return "\n".join(lines)[:size] + "\n"


def made_repository(folder: Path, *, files: int, size: int = SIZE, commits: int = COMMITS) -> Path:
    """A repository of drawn files in folders of 50, added in 50 commits and changed in the others, three files each."""
    draw = random.Random(5)
    names, often = drawn_words(draw)
    paths = [Path(f"part_{n // 50}", f"{draw.choice(names)}_{n}.py") for n in range(files)]
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(drawn_text(draw, names, often, size), "utf-8")
    checkout = Checkout(folder)
    for n in range(50):
        some = paths[n::50]
        checkout.run("add", "--", *map(str, some))
        checkout.run("commit", "-q", "-m", f"Add {some[0].stem} and others")
    for _ in range(commits - 50):
        some = draw.sample(paths, 3)
        for path in some:
            with (folder / path).open("a", encoding="utf-8") as file:
                file.write(drawn_text(draw, names, often, 100))
        checkout.run("commit", "-q", "-a", "-m", f"Fix {some[0].stem} in {' and '.join(draw.choices(names, k=4))}")
    return folder


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return made_repository(tmp_path_factory.mktemp("big"), files=FILES)


def told(benchmark, title: str, **figures: float) -> None:
    benchmark.extra_info.update(figures)
    print(f"\n{title}: " + ", ".join(f"{name} {value:.3g}" for name, value in figures.items()))  # noqa: T201 - with -s


def seconds(run) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def used() -> float:
    """Seconds of the processor that processes took which ended, those of git among them."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def fresh(folder: Path, cache: Path) -> None:
    """Ask once, with modules that are compiled, as an installed package's are."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    places = {"CTXBENCH_CACHE": str(cache), "PYTHONPYCACHEPREFIX": str(cache.with_name("compiled"))}
    command = [sys.executable, "-m", "ctxbench", "select", ASKED, "--catalog", str(folder)]
    subprocess.run(command, check=True, timeout=600, stdout=subprocess.PIPE, env=kept | places)


def test_a_fresh_process_with_one_file_changed(benchmark, repository, tmp_path):
    cold = seconds(lambda: fresh(repository, tmp_path / "cache"))
    changed = sorted(repository.glob("part_*/*.py"))[7]
    took, before = [], used()
    for n in range(5):
        with changed.open("a", encoding="utf-8") as file:
            file.write(f"changed_{n}()\n")
        took.append(seconds(lambda: fresh(repository, tmp_path / "cache")))
    cpu = (used() - before) / 5
    benchmark.pedantic(lambda: fresh(repository, tmp_path / "cache"), rounds=3)
    told(
        benchmark,
        f"select over {FILES:,} files of {SIZE:,} characters, a process each; bars 60 s and 2 s",
        cold_s=cold,
        one_changed_s=statistics.median(took),
        least_s=min(took),
        cpu_s=cpu,
    )
    assert min(took) < cold


def test_words_kept_beside_words_split(benchmark, repository, tmp_path, monkeypatch):
    """Beside: rank-bm25 and bm25s, with the words split before their time is taken."""
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path))
    catalog = open_tree(TreeName(repository))
    least = word_index.LEAST

    def index(kept: bool) -> Bm25Index:
        monkeypatch.setattr(word_index, "LEAST", least if kept else 10**12)
        return Bm25Index(catalog, k1=1.5, b=0.75, rule=RULE)

    first = seconds(lambda: index(True))
    split, kept = [], []
    for _ in range(3):
        split.append(seconds(lambda: index(False)))
        kept.append(seconds(lambda: index(True)))
    texts = [RULE.words(item.search_text) for item in catalog]
    outside = {
        "rank_bm25_s": seconds(lambda: rank_bm25.BM25Okapi(texts)),
        "bm25s_s": seconds(lambda: bm25s.BM25().index(texts, show_progress=False)),
    }
    benchmark.pedantic(lambda: index(True), rounds=3)
    assert np.array_equal(index(True).scores(ASKED), index(False).scores(ASKED))
    mine, none = statistics.median(kept), statistics.median(split)
    megabytes = sum(one.stat().st_size for one in (tmp_path / "words-1").iterdir()) / 1e6
    told(
        benchmark,
        f"BM25 of {len(catalog):,} items",
        split_s=none,
        written_s=first,
        kept_s=mine,
        ratio=none / mine,
        file_mb=megabytes,
        **outside,
    )


@pytest.mark.parametrize("size", [100_000, 300_000, 1_000_000, 3_000_000])
def test_from_which_size_on_words_are_worth_a_file(benchmark, size, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    draw = random.Random(8)
    texts = [drawn_text(draw, *drawn_words(draw), SIZE) for _ in range(max(size // SIZE, 1))]
    catalog = Catalog(Item(type="file", name=f"f{n}.py", text=text) for n, text in enumerate(texts))

    def index(least: int) -> None:
        monkeypatch.setattr(word_index, "LEAST", least)
        Bm25Index(catalog, k1=1.5, b=0.75, rule=RULE)

    written = seconds(lambda: index(1))
    split, kept = zip(*[(seconds(lambda: index(10**12)), seconds(lambda: index(1))) for _ in range(7)], strict=True)
    benchmark.pedantic(lambda: index(1), rounds=3)
    none, mine = statistics.median(split), statistics.median(kept)
    told(benchmark, f"{size:,} characters", split_ms=1000 * none, kept_ms=1000 * mine, written_ms=1000 * written)


@pytest.mark.parametrize(("files", "bar"), [(500, 0.3), (FILES, 1.0)])
def test_queries_of_a_process_that_stays(benchmark, repository, tmp_path, monkeypatch, files, bar):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    folder = repository if files == FILES else made_repository(tmp_path / "made", files=files)
    catalog, draw = open_tree(TreeName(folder)), random.Random(6)
    resources = local_resources(HashingEmbedder(), open_counter("o200k", cache=tmp_path / "cache"))
    definition, _ = find_definition("codebase", None)
    pipeline, (names, _) = definition.pipeline(definition.values(None, {})), drawn_words(draw)

    def ask() -> None:
        text = " ".join(draw.choices(names, k=12))
        pipeline.run(Batch.of(catalog, [Request(id="q", text=text)]), resources)

    ask()
    at_first = sorted(seconds(ask) for _ in range(60))  # tokens are counted of what no query found before
    resources.tokens(catalog)
    took = sorted(seconds(ask) for _ in range(60))
    benchmark.pedantic(ask, rounds=5)
    figures = {"p50_s": took[30], "p95_s": took[57], "bar_s": bar, "uncounted_p95_s": at_first[57]}
    told(benchmark, f"a query over {files:,} files", **figures)


OPEN = """
import sys, time
from pathlib import Path
before = time.perf_counter()
from ctxbench.model.requests import Batch
from ctxbench.datasets.lookup import open_dataset
dataset = open_dataset(Path(sys.argv[1]))
opened = time.perf_counter()
batch = Batch.of(dataset.catalog, [query.request for query in dataset.queries])
seen = [int(row.sum()) for row in batch.visible]
done = time.perf_counter()
print(opened - before, done - opened, *sorted(set(seen)))
"""


def write_history(folder: Path, *, alive: int, commits: int, size: int) -> Path:
    """A dataset as `ctxbench data from-git` makes it: file versions, commits, and a query before each commit."""
    draw = random.Random(7)
    names, often = drawn_words(draw)
    (folder / "qrels").mkdir(parents=True)

    def at(second: int) -> str:
        return datetime.fromtimestamp(1_600_000_000 + second, UTC).isoformat()

    def version(place: int, number: int) -> dict[str, str]:
        path, digest = f"part_{place // 50}/f{place}.py", f"{number:06x}{place:06x}"
        named = {"_id": f"file:{path.replace('/', '%2F')}%40{digest}", "title": path, "name": f"{path}@{digest}"}
        return {**named, "type": "file", "kind": "python", "created": at(60 * number)}

    versions = [version(place, 0) for place in range(alive)]
    now, messages, queries, labels = dict(enumerate(versions)), [], [], []
    for n in range(1, commits + 1):
        asked = {"_id": f"c{n}", "text": " ".join(draw.choices(names, k=9)), "split": "test", "time": at(60 * n - 1)}
        queries.append(asked)
        some = sorted(draw.sample(range(alive), 3))
        for place in some:
            labels.append(f"c{n}\t{now[place]['_id']}\t2\n")
            now[place]["until"] = at(60 * n)
            now[place] = version(place, n)
            versions.append(now[place])
        name, links = f"commit-{n:012x}", [{"type": "changes", "item": now[place]["_id"]} for place in some]
        commit = {"_id": f"message:{name}", "text": asked["text"], "type": "message", "name": name, "kind": "commit"}
        messages.append({**commit, "include": "manual", "created": at(60 * n), "links": links})
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for row in versions:
            text = f"{row['title']}\n\n{drawn_text(draw, names, often, size)}"
            file.write(json.dumps({**row, "text": text}) + "\n")
        file.writelines(json.dumps(row) + "\n" for row in messages)
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries), "utf-8")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(labels), "utf-8")
    card = "format: 1\nname: made\nversion: '1'\nlicence: Apache-2.0\nsource: drawn at random\nlabelling: by the draw\n"
    (folder / "dataset.yaml").write_text(card, "utf-8")
    return folder


def test_a_thousand_trees_of_twenty_thousand_items(benchmark, tmp_path):
    """The tree before each commit holds as many files; the commits before are seen as well."""
    folder = write_history(tmp_path / "made", alive=20_000, commits=1_000, size=4_000)

    def opened() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", WATCH, sys.executable, "-c", OPEN, str(folder)],
            check=True,
            timeout=600,
            stdout=subprocess.PIPE,
            text=True,
        )
        return done.stdout.split()

    found = opened()
    benchmark.pedantic(opened, rounds=2)
    told(
        benchmark,
        "1,000 trees of 20,000 items; bars 10 s and 1,000 MB",
        open_s=float(found[0]),
        masks_s=float(found[1]),
        peak_mb=int(found[-1]) / 1024,
    )
    assert list(map(int, found[2:-1])) == list(range(20_000, 21_000))
