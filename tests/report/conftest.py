"""A run of three selectors on two small datasets, made by hand, with texts that strangers might write."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.answers import Part, Slice
from ctxbench.evaluation.run_folder import FORMAT, RunFolder
from ctxbench.model.arrays import IntArray
from ctxbench.model.candidates import Candidates, Mode, Origin, Rule
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Message, Request
from ctxbench.report.run_page import write_report

CHROMIUM = os.environ.get("CTXBENCH_CHROMIUM") or shutil.which("chromium")
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)

SCRIPT = "<script>alert(1)</script>"
HOSTILE = f"{SCRIPT}</script><!-- <img src=x onerror=alert(2)> \"'&\u2028\u202e\u05e9\u05dc\u05d5\u05dd"
OWN = "my <b>own</b>\u202e selector"  # a selector's name

ITEMS = (
    Item(type="rule", name="Zebra rule", text="Never.", priority=2, include="always"),
    Item(type="rule", name="Authentication", text="Always log in.", priority=1, include="manual"),
    Item(type="rule", name="Unranked", text="Perhaps.\n\nPerhaps not.", description="A rule without a level"),
    Item(type="reference", name="Schema", text="Tables.", priority=12, description="The tables of the database"),
    Item(type="reference", name="API", text="Routes.", priority=3),
    Item(type="tool", server="tracker", name="create_issue", description="Opens an issue"),
    Item(type="tool", server="database", name="query", description="Runs a query"),
    Item(type="tool", server="database", name="drop", description="Drops a table"),
    Item(type="tool", name="weather", description="The weather"),
    Item(type="tool", name=HOSTILE, description=HOSTILE),
    Item(type="tool", name="hidden", description="Off", enabled=False),
)
AT = {item.name: position for position, item in enumerate(ITEMS)}
TOKENS = np.arange(10, 10 + len(ITEMS), dtype=np.int64)  # item i costs 10 + i tokens

RULES = (None, Rule.of("topN", topN=2, includeScore=0.7))
DENSE = {"step": "retrieve:dense", "chunks": "paragraphs", "split_tools": False}
CUT = {"step": "cut:standard", "version": 1, "topK": 20, "topN": 2, "includeScore": 0.7}
METRICS = ("completeness", "tokens", "items", "Comp@5", "same_server_confusions", "abstention", "recall")


@dataclass
class Rows:
    """Candidates of queries, row by row: (query, item, score, mode, origin, out, query chunk, item chunk)."""

    rows: list[tuple[int, int, float, int, int, int, int, int]] = field(default_factory=list)

    def session(self, query: int, *names: str) -> Rows:
        for name in names:
            mode = Mode.ALWAYS if ITEMS[AT[name]].include == "always" else Mode.MANUAL
            self.rows.append((query, AT[name], np.nan, mode, Origin.SESSION, 0, -1, -1))
        return self

    def found(self, query: int, name: str, score: float, *, out: int = 0, pair: tuple[int, int] = (0, 0)) -> Rows:
        self.rows.append((query, AT[name], score, Mode.AGENT, Origin.SEARCH, out, *pair))
        return self

    def table(self, n_queries: int) -> Candidates:
        rows = sorted(self.rows, key=lambda row: row[0])
        query, item, score, *rest = (list(column) for column in zip(*rows, strict=True))
        names = ("mode", "origin", "out", "query_chunk", "item_chunk")
        given = {name: np.array(column, dtype=np.int64) for name, column in zip(names, rest, strict=True)}
        built = Candidates.build(n_queries, np.array(query), np.array(item), score=np.array(score), **given)
        return replace(built, rules=RULES)


def key(name: str) -> ItemKey:
    return ITEMS[AT[name]].key


def desk() -> Dataset:
    """Six queries: complete, missed, hostile, rightly without, falsely included, failing."""
    database = (key("query"), key("drop"), key("weather"))
    requests = (
        Request(id="q1", text="Open an issue. Then look at the schema.", history=(Message("user", "Hello"),)),
        Request(id="q2", text="Run a query on the database"),
        Request(id="q3", text=HOSTILE),
        Request(id="q4", text="Say hello", available=database),
        Request(id="q5", text="Tell a joke", available=database),
        Request(id="q6", text="What is the weather?"),
    )
    nothing = {"q4", "q5"}
    queries = tuple(
        DatasetQuery(request=r, split="tuning", tags=("desk",), needs_nothing=r.id in nothing) for r in requests
    )
    labels = (
        Label("q1", key("create_issue"), 2),
        Label("q1", key("Schema"), 2, alternatives="docs"),
        Label("q1", key("API"), 2, alternatives="docs"),
        Label("q2", key("query"), 2),
        Label("q2", key("hidden"), 1),
        Label("q2", key("drop"), 1),
        Label("q3", key(HOSTILE), 2),
        Label("q6", key("weather"), 2),
    )
    return Dataset(name="desk", version="1", catalog=Catalog(ITEMS), queries=queries, labels=labels)


def small() -> Dataset:
    """One query over one tool."""
    query = DatasetQuery(request=Request(id="only/one", text="Weather, please"), split="test")
    label = Label("only/one", key("weather"), 2)
    catalog = Catalog([ITEMS[AT["weather"]]])
    return Dataset(name="small", version="2", catalog=catalog, queries=(query,), labels=(label,))


def _semantic() -> tuple[Candidates, tuple[tuple[str, ...], ...]]:
    rows = Rows()
    for query in (0, 1, 2, 5):
        rows.session(query, "Zebra rule")
    rows.session(0, "Authentication")
    rows.found(0, "create_issue", 0.9).found(0, "Schema", 0.716, pair=(1, 0)).found(0, "Unranked", 0.7, pair=(1, 1))
    rows.found(0, "weather", 0.3, out=1)
    rows.found(1, "drop", 0.65).found(1, "create_issue", 0.6).found(1, "query", 0.55, out=1)
    rows.found(2, HOSTILE, 0.81).found(2, "weather", 0.2)
    rows.found(4, "weather", 0.4).found(4, "drop", 0.1, out=1)
    chunks = [(query.request.text,) for query in desk().queries]
    chunks[0] = ("Open an issue.", "Then look at the schema.")
    return rows.table(6), tuple(chunks)


def _part(dataset: str, selector: str, table: Candidates, values: Mapping[str, Any], **given: Any) -> Part:
    queries = given.pop("queries")
    lacking = {name: "the selector returns no ranking" for name in METRICS if name not in values}
    answers = Slice(
        queries=queries,
        chunks=given.pop("chunks"),
        candidates=table,
        ranked=given.pop("ranked", True),
        scored=given.pop("scored", True),
        errors=given.pop("errors", {}),
        seconds=np.full(len(queries), np.nan),
    )
    arrays = {name: np.array(found, dtype=np.float64) for name, found in values.items()}
    return Part(dataset=dataset, selector=selector, key="0", answers=answers, metrics=arrays, unavailable=lacking)


def desk_parts() -> list[Part]:
    """The answers of the three selectors on `desk`; values by query follow from them and the labels."""
    data, nan = desk(), np.nan
    ids = tuple(query.id for query in data.queries)
    table, chunks = _semantic()
    texts = tuple((query.request.text,) for query in data.queries)
    semantic = {
        "completeness": [1, 0, 1, nan, nan, 0],
        "tokens": [15 + 13 + 12, 17 + 15, 19 + 18, 0, 18, 0],
        "items": [3, 2, 2, 0, 1, 0],
        "Comp@5": [1, 0, 1, nan, nan, 0],
        "same_server_confusions": [0, 1, 0, nan, nan, 0],
        "abstention": [nan, nan, nan, 1, 0, nan],
        "recall": [1, 0, 1, nan, nan, 0],
    }
    everything = Rows()
    for query, request in enumerate(data.requests()):
        held = [name for name, at in AT.items() if ITEMS[at].enabled and ITEMS[at].include == "agent"]
        if request.available is None:
            everything.session(query, "Zebra rule")
        else:
            held = [name for name in held if key(name) in request.available]
        for name in held:
            everything.found(query, name, 0.0, pair=(-1, -1))
    all_items = {
        "completeness": [1, 1, 1, nan, nan, 1],
        "tokens": [124, 124, 124, 51, 51, 124],  # items 2 to 9 cost 12 to 19; the three of q4 and q5 16, 17, 18
        "items": [8, 8, 8, 3, 3, 8],
        "same_server_confusions": [0, 1, 0, nan, nan, 0],
        "abstention": [nan, nan, nan, 0, 0, nan],
        "recall": [1, 1, 1, nan, nan, 1],
    }
    failing = Rows().found(0, "create_issue", 3.5, pair=(-1, -1)).found(1, "query", 2.25, pair=(-1, -1))
    outside = {
        "completeness": [0, 1, 0, nan, nan, 0],
        "tokens": [15, 16, 0, 0, 0, 0],
        "items": [1, 1, 0, 0, 0, 0],
        "Comp@5": [0, 1, 0, nan, nan, 0],
        "same_server_confusions": [0, 0, 0, nan, nan, 0],
        "abstention": [nan, nan, nan, 1, 1, nan],
        "recall": [0.5, 1, 0, nan, nan, 0],
    }
    return [
        _part("desk", "semantic/normal", table, semantic, queries=ids, chunks=chunks),
        _part(
            "desk", "everything", everything.table(6), all_items, queries=ids, chunks=texts, ranked=False, scored=False
        ),
        _part("desk", OWN, failing.table(6), outside, queries=ids, chunks=texts, errors={"q6": f"timed out {SCRIPT}"}),
    ]


def small_parts() -> list[Part]:
    values = {
        "completeness": [1],
        "tokens": [18],
        "items": [1],
        "same_server_confusions": [0],
        "recall": [1],
        "Comp@5": [1],
    }
    values |= {"abstention": [np.nan]}  # type: ignore[dict-item]
    one = replace(
        Candidates.build(1, np.array([0]), np.array([0]), score=np.array([0.5]), item_chunk=np.array([0])),
        query_chunk=np.array([0]),
    )
    return [
        _part("small", name, one, values, queries=("only/one",), chunks=(("Weather, please",),))
        for name in ("semantic/normal", "everything", OWN)
    ]


@dataclass(frozen=True)
class MadeRun:
    """A run folder and what a page needs beside it."""

    folder: RunFolder
    datasets: dict[str, Dataset]
    tokens: dict[str, IntArray]

    def write(self) -> Path:
        return write_report(self.folder, self.datasets, tokens=self.tokens)


def manifest(datasets: Mapping[str, Dataset]) -> dict[str, Any]:
    """A manifest as the runner writes it."""
    values = {"contextTopK": 20, "contextTopN": 2, "contextIncludeScore": 0.7}
    return {
        "format": FORMAT,
        "experiment": {
            "name": f"trial {SCRIPT}",
            "about": f"What is offered. {HOSTILE} \ud800",
            "compare_to": "semantic/normal",
            "seed": 0,
            "metrics": list(METRICS),
        },
        "datasets": {
            name: {
                "name": name,
                "version": one.version,
                "hash": one.hash,
                "queries": len(one),
                "items": len(one.catalog),
            }
            for name, one in datasets.items()
        },
        "selectors": {
            "semantic/normal": {
                "about": "a first guess, not tuned",
                "values": values,
                "external": False,
                "description": {"pipeline": {"retrieve": DENSE, "refine": [CUT]}},
            },
            "everything": {"about": "All. A comparator.", "values": {}, "external": False},
            OWN: {"about": SCRIPT, "values": {}, "external": True},
        },
        "embedder": {"model": "hashing"},
        "tokens": "o200k_base",
        "versions": {"ctxbench": "0.1.0", "python": "3.11"},
        "git": None,
    }


def make_run(path: Path, *, crowd: int = 3) -> MadeRun:
    """Write the run folder; of a crowd all but the first are like the first, with a long name and a few tokens more."""
    folder = RunFolder(path)
    datasets = {"desk": desk(), "small": small()}
    described, parts = manifest(datasets), [*desk_parts(), *small_parts()]
    if crowd > 3:
        first = described["selectors"]["semantic/normal"]
        names = [f"{'a rather long name of a team, ' * (n % 3)}learned/conservative-{n}" for n in range(1, crowd)]
        described["selectors"] = {"semantic/normal": first, **dict.fromkeys(names, first)}
        parts = [part for part in parts if part.selector == "semantic/normal"]
        for part in list(parts):
            for n, name in enumerate(names, start=1):
                metrics = {**part.metrics, "tokens": part.metrics["tokens"] + n % 5}
                parts.append(replace(part, selector=name, metrics=metrics))
    for part in parts:
        folder.save(part, datasets[part.dataset].catalog)
    folder.write("manifest.json", described)
    tokens = {"desk": TOKENS, "small": np.array([18], dtype=np.int64)}
    return MadeRun(folder, datasets, tokens)


@pytest.fixture(scope="session")
def made_run(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def hostile() -> str:
    return HOSTILE


def lacking(reason: str) -> None:
    """In CI what is missing is a failure."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        lacking("no Chromium: install Debian's package chromium, or name its program in CTXBENCH_CHROMIUM")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("no playwright: install the extra `dev`")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS.split())
        yield started
        started.close()


@pytest.fixture(scope="module")
def page_with(browser: Any) -> Iterator[Callable[..., Any]]:
    """An empty page by the options of its context: one that is there opens a file in a third of the time of a new one.

    Whoever listens to it stops when a test ends.
    """
    pages: dict[str, Any] = {}

    def empty(**options: Any) -> Any:
        key = repr(sorted(options.items()))
        if key not in pages:
            pages[key] = browser.new_context(**options).new_page()
        pages[key].emulate_media(media="null")
        pages[key].goto("about:blank")
        return pages[key]

    yield empty
    for page in pages.values():
        page.context.close()


OPEN = "document.querySelectorAll('details').forEach((part) => { part.open = true; })"
TEXTS = """() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), texts = [];
    const page = { left: 0, right: Infinity };
    while (walker.nextNode()) {
        const node = walker.currentNode, parent = node.parentElement, text = node.textContent.trim();
        if (!text || parent.closest(".skip, .panes, title, select")) continue;
        const frame = parent.closest(".drawing, .scroll"), edge = frame ? frame.getBoundingClientRect() : page;
        const range = document.createRange();
        range.selectNodeContents(node);
        for (const box of range.getClientRects()) {
            const [left, right] = [Math.max(box.left, edge.left), Math.min(box.right, edge.right)];
            const isLabel = Boolean(parent.closest("svg"));
            if (right > left) texts.push([text, isLabel, left, box.top, right, box.bottom]);
        }
    }
    return texts;
}"""
"""The box of each line of text that is seen, but for the explorer's panes, which scroll: text, in a chart, sides."""


def overprinted(page: Any) -> list[tuple[str, str]]:
    """Pairs of texts that lie on each other: a label of a chart, and another one or a text of the page."""
    boxes = page.evaluate(TEXTS)
    labels = [box for box in boxes if box[1]]
    assert labels
    return [
        (a[0], b[0])
        for a in labels
        for b in boxes
        if a is not b and a[2] + 1 < b[4] and b[2] + 1 < a[4] and a[3] + 3 < b[5] and b[3] + 3 < a[5]
    ]
