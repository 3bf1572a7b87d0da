"""The dataset `threads`: as large as it claims, labels in their words, and each request as of its own time and user."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import read_dataset
from ctxbench.io.rows import instant
from ctxbench.model.candidates import quoted
from ctxbench.model.items import Item
from ctxbench.model.requests import Request
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.selector import PipelineSelector

JUDGED = {"names-file", "vague", "follow-up", "trap", "paraphrase"}
DERIVED = {"reference", "recent", "message", "private", "code", "docs", "multi", "alternatives", "nothing"}


@pytest.fixture(scope="module")
def threads() -> Dataset:
    return read_dataset(Path(__file__).parents[1] / "datasets" / "threads")


def request(threads: Dataset, id_: str) -> Request:
    return next(query.request for query in threads.queries if query.id == id_)


def foreign(item: Item, one: Request) -> bool:
    """Whether the item is another user's."""
    return item.user not in (None, one.user)


def to_come(item: Item, one: Request) -> bool:
    """Whether the item was created only after the request."""
    return instant(item.created or "") > instant(one.time or "")


def test_it_is_as_large_as_it_claims(threads):
    by_thread = defaultdict(list)
    for query in threads.queries:
        by_thread[query.group].append(query)
    assert len(by_thread) >= 30
    assert len(threads) >= 150
    assert min(len(turns) for turns in by_thread.values()) >= 5
    assert {query.request.user for query in threads.queries} == {"mira", "jonas", "tess"}
    files = [item for item in threads.catalog if item.type == "file"]
    assert 250 < len(files) < 400
    assert sum(len(item.text.encode()) for item in files) < 2_100_000
    assert {item.user for item in files} == {None, "mira", "jonas", "tess"}
    assert sum(query.needs_nothing for query in threads.queries) >= 10


def test_every_tag_is_tried_and_none_is_unknown(threads):
    assert {tag for query in threads.queries for tag in query.tags} == JUDGED | DERIVED


def test_what_is_required_is_quoted_in_the_words_of_its_item(threads):
    items = {item.key: item for item in threads.catalog}
    for label in threads.labels:
        if label.grade == 2 or label.quote:
            assert label.quote
            assert quoted(items[label.item].prompt_text, label.quote)


def test_no_label_is_of_anothers_item_or_of_one_to_come(threads):
    items = {item.key: item for item in threads.catalog}
    for query in threads.queries:
        for label in threads.labels_of(query.id):
            assert not foreign(items[label.item], query.request)
            assert not to_come(items[label.item], query.request)


def test_threads_of_tuning_begin_before_those_of_test(threads):
    begun = {}
    for query in threads.queries:
        begun.setdefault((query.split, query.group), instant(query.request.time or ""))
    last = max(time for (split, _), time in begun.items() if split == "tuning")
    assert last < min(time for (split, _), time in begun.items() if split == "test")
    assert len({group for _, group in begun}) == len(begun)


def test_references_accesses_and_uses_are_those_before_the_request(threads):
    """Worked by hand from written/t02.yaml, of the user whose first thread it is."""
    turns = {number: request(threads, f"t02-{number}") for number in range(1, 7)}
    assert {n: [key.name for key in one.explicit] for n, one in turns.items() if one.explicit} == {
        3: ["experiments/gate/gate.yaml"]  # attached before the third turn, taken off before the fourth
    }
    gate, page = "experiments/gate/gate.yaml", "experiments/gate/README.md"
    assert [[key.name for key in one.recent] for one in turns.values()] == [[], [page], *[[gate, page]] * 4]
    assert [{key.name: count for key, count in one.uses} for one in turns.values()] == [
        {},
        {page: 1},
        {page: 1},
        {page: 2, gate: 1},
        {page: 2, gate: 1, "notes/jonas/gate-rollout.md": 1},
        {page: 2, gate: 1, "notes/jonas/gate-rollout.md": 1},
    ]


def test_a_request_sees_the_messages_of_the_turns_before_it_alone(threads):
    asked = request(threads, "t01-3")
    (row,) = [threads.batch().visible[n] for n, query in enumerate(threads.queries) if query.id == asked.id]
    seen = [item for item, there in zip(threads.catalog, row, strict=True) if there and item.type == "message"]
    assert [item.name for item in seen] == ["t01-1a", "t01-1b", "t01-2a", "t01-2b"]
    assert {item.kind for item in seen} == {"user", "assistant"}


@pytest.mark.essential
def test_nothing_of_others_and_nothing_to_come_is_offered(threads):
    embedder = open_embedder("hashing")
    resources = LocalResources(Vectors(embedder, VectorStore(embedder.identity)), open_counter("chars/4"))
    shipped = definition("bm25")
    pipeline = shipped.pipeline(shipped.values(None, {"n": 100}))
    table = PipelineSelector("bm25", pipeline, resources).select(threads.batch()).candidates
    offered = [
        (threads.catalog[int(position)], query.request)
        for row, query in enumerate(threads.queries)
        for position in table.item[table.rows(row)][table.chosen[table.rows(row)]]
    ]
    assert len(offered) > 20 * len(threads)
    assert [why.__name__ for pair in offered for why in (foreign, to_come) if why(*pair)] == []


def test_there_is_something_of_others_and_to_come_to_be_shown_by_mistake(threads):
    pairs = [(item, query.request) for query in threads.queries for item in threads.catalog]
    assert min(sum(why(*pair) for pair in pairs) for why in (foreign, to_come)) > 1_000
