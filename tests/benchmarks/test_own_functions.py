"""A function over the history of a repository, beside the function alone. Run with `--benchmark-only -s`.

Bar: an evaluation takes at most 1.1 times the function that compares the words of all files. Of a function that does
nothing the seconds per query are shown. Both take turns in one test, since machines change their speed within a minute;
asserted is only that the answers are the same.
"""

from __future__ import annotations

import random
import statistics
import time

import pytest

import ctxbench
from ctxbench.api.inputs import Data
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from tests.code_history import history, request

FILES, COMMITS, CHANGED, WORDS, ROUNDS = 1_000, 28, 4, 800, 3
OPTIONS = {"metrics": ["completeness", "tokens", "items"], "embedder": "hashing"}


def repository() -> Data:
    """A history of 1,000 files, of which each commit changes 4; each commit but the first is a query."""
    draw = random.Random(3)
    names = [f"word{n}" for n in range(3_000)]

    def content(path: str) -> str:
        return f"{path}\n" + "\n".join(" ".join(draw.choices(names, k=8)) for _ in range(WORDS // 8))

    paths = [f"src/part{n % 20}/file{n}.py" for n in range(FILES)]
    changes = [paths, *(draw.sample(paths, CHANGED) for _ in range(COMMITS))]
    messages = [" ".join(draw.choices(names, k=6)) for _ in changes]
    catalog = history(
        *((message, {path: content(path) for path in part}) for message, part in zip(messages, changes, strict=True))
    )
    queries = [DatasetQuery(request=request(messages[n], n), split="test") for n in range(1, COMMITS + 1)]
    labels = [
        Label(query.id, item.key, 2)
        for n, query in enumerate(queries, 1)
        for item in catalog
        if item.title in changes[n]
        and item.type == "file"
        and (item.until or query.request.time) >= query.request.time >= item.created
    ]
    return Data(Dataset(name="history", version="1", catalog=catalog, queries=tuple(queries), labels=tuple(labels)))


def tools(n_items: int, n_queries: int) -> Data:
    """Queries over one catalog, each of which needs a tool."""
    items = [Item(type="tool", server="s", name=f"tool{n}", description=f"does {n}") for n in range(n_items)]
    queries = [DatasetQuery(request=Request(id=f"q{n}", text=f"do {n}"), split="test") for n in range(n_queries)]
    labels = [Label(query.id, items[n].key, 2) for n, query in enumerate(queries)]
    return Data(Dataset(name="t", version="1", catalog=Catalog(items), queries=tuple(queries), labels=tuple(labels)))


def first_item(_request, items):
    return [items[0]["_id"]]


def shared_words(request, items):
    words = set(request["text"].split())
    files = [item for item in items if item["type"] == "file"]
    ranked = sorted(files, key=lambda item: -len(words & set(f"{item['title']} {item['text']}".split())))
    return [item["_id"] for item in ranked[:5]]


@pytest.mark.parametrize("function", [first_item, shared_words])
def test_a_function_over_a_history_beside_the_function_alone(benchmark, function):
    data, seen = repository(), []
    ctxbench.evaluate(data, {"mine": lambda *sent: seen.append(sent) or function(*sent)}, **OPTIONS)
    alone, whole = [], []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        answers = [function(*sent) for sent in seen]
        alone.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        results = ctxbench.evaluate(data, {"mine": function}, **OPTIONS)
        whole.append(time.perf_counter() - begin)
    benchmark.pedantic(lambda: ctxbench.evaluate(data, {"mine": function}, **OPTIONS), rounds=2)
    bare, ours = statistics.median(alone), statistics.median(whole)
    figures = {"alone_s": bare, "evaluate_s": ours, "ratio": ours / bare, "query_ms": 1000 * (ours - bare) / len(seen)}
    benchmark.extra_info.update(figures)
    bar = " (bar 1.1)" if function is shared_words else ""
    print(  # noqa: T201 - figures for who runs it with -s
        f"\n{function.__name__}, {len(seen)} queries over {FILES:,} files each: alone {bare:.3f} s, evaluate "
        f"{ours:.3f} s, ratio {ours / bare:.2f}{bar}; {figures['query_ms']:.1f} ms more per query"
    )
    assert results.per_query()["items"].tolist() == [len(answer) for answer in answers]


@pytest.mark.parametrize("n_answers", [5, 100])
def test_a_function_over_one_catalog(benchmark, n_answers):
    """Twice as many queries over the same items, so that what is done once for the catalog is not counted."""

    def function(_request, items):
        return [item["_id"] for item in items[:n_answers]]

    def seconds(n_queries: int) -> float:
        data = tools(20_000, n_queries)
        begin = time.process_time()
        results = ctxbench.evaluate(data, {"mine": function}, **OPTIONS)
        assert results.per_query()["items"].tolist() == [n_answers] * n_queries
        return time.process_time() - begin

    pairs = [(seconds(1_000), seconds(2_000)) for _ in range(ROUNDS)]
    benchmark.pedantic(lambda: seconds(1_000), rounds=1)
    more = statistics.median(double - single for single, double in pairs)
    benchmark.extra_info.update({"query_ms": more})
    print(f"\n{n_answers} answers of 20,000 items: {more:.2f} CPU ms per query")  # noqa: T201 - for who runs it with -s
