"""The dataset `diary`: its facts agree with each other, and no selector shows what is over, to come, or another's."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import read_dataset
from ctxbench.io.rows import instant
from ctxbench.model.items import Item
from ctxbench.model.requests import Request
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.selector import PipelineSelector

TAGS = {
    *("alternatives", "as-of", "confidence", "contradiction", "linked", "multi", "nothing", "paraphrase", "people"),
    *("private", "recall", "superseded", "trap"),
}


@pytest.fixture(scope="module")
def diary() -> Dataset:
    return read_dataset(Path(__file__).parents[1] / "datasets" / "diary")


def over(item: Item, request: Request) -> bool:
    """Whether the item's time was over when the request was asked: a later version was there."""
    return item.until is not None and instant(item.until) <= instant(request.time or "")


def to_come(item: Item, request: Request) -> bool:
    """Whether the item was created only after the request."""
    return instant(item.created or "") > instant(request.time or "")


def foreign(item: Item, request: Request) -> bool:
    """Whether the item is of another workspace or user than the request."""
    return item.workspace != request.workspace or item.user not in (None, request.user)


def versions(diary: Dataset) -> dict[str, list[Item]]:
    """The versions of each memory, in order."""
    found = defaultdict(dict)
    for item in diary.catalog:
        name, _, version = item.name.partition("@")
        found[name][int(version)] = item
    return {name: [by_version[v] for v in range(1, len(by_version) + 1)] for name, by_version in found.items()}


def test_it_is_as_large_as_it_claims(diary):
    assert len(diary.catalog) >= 250
    assert len(diary) >= 150
    assert {item.type for item in diary.catalog} == {"memory"}
    assert {item.kind for item in diary.catalog} == {"fact", "decision", "preference", "event", "task"}
    assert {query.request.workspace for query in diary.queries} == {item.workspace for item in diary.catalog}
    assert len({item.workspace for item in diary.catalog}) >= 3
    assert sum(query.needs_nothing for query in diary.queries) >= 15
    assert 0.4 < sum(query.split == "tuning" for query in diary.queries) / len(diary) < 0.6


def test_a_version_ends_when_the_next_begins(diary):
    several = [items for items in versions(diary).values() if len(items) > 1]
    assert len(several) >= 40
    for items in several:
        assert [item.until for item in items] == [*(item.created for item in items[1:]), None]
        assert len({(item.workspace, item.user, item.kind) for item in items}) == 1
        for earlier, later in pairwise(items):
            assert ("supersedes", earlier.key) in {(link.type, link.item) for link in later.links}


def test_links_stay_in_their_workspace_and_conversations_too(diary):
    items = {item.key: item for item in diary.catalog}
    by_type = Counter(link.type for item in diary.catalog for link in item.links)
    assert set(by_type) == {"contradicts", "follows", "part_of", "supersedes"}
    for item in diary.catalog:
        assert all(items[link.item].workspace == item.workspace for link in item.links)
        assert (item.conversation or "").startswith(f"{item.workspace}/")


def test_every_label_is_of_an_item_of_the_querys_own_that_was_there(diary):
    items = {item.key: item for item in diary.catalog}
    for query in diary.queries:
        for label in diary.labels_of(query.id):
            item = items[label.item]
            assert not foreign(item, query.request)
            assert not to_come(item, query.request)
            assert label.grade == 0 or not over(item, query.request)


def test_tags_say_what_a_query_tests(diary):
    items = {item.key: item for item in diary.catalog}
    for query in diary.queries:
        labels = diary.labels_of(query.id)
        required = [items[label.item] for label in labels if label.grade == 2]
        needed = {label.alternatives or label.item.id for label in labels if label.grade == 2}
        assert set(query.tags) <= TAGS
        assert ("nothing" in query.tags) == query.needs_nothing
        assert ("multi" in query.tags) == (len(needed) > 1)
        assert ("alternatives" in query.tags) == any(label.alternatives for label in labels)
        assert "private" in query.tags or not any(item.user for item in required)
        assert len(needed) <= 8


@pytest.mark.parametrize("name", ["bm25", "everything", "random"])
def test_nothing_that_is_over_or_to_come_or_of_others_is_offered(diary, name):
    embedder = open_embedder("hashing")
    resources = LocalResources(Vectors(embedder, VectorStore(embedder.identity)), open_counter("chars/4"))
    shipped = definition(name)
    pipeline = shipped.pipeline(shipped.values(None, {} if name == "everything" else {"n": 100}))
    table = PipelineSelector(name, pipeline, resources).select(diary.batch()).candidates
    offered = [
        (diary.catalog[int(position)], query.request)
        for row, query in enumerate(diary.queries)
        for position in table.item[table.rows(row)][table.chosen[table.rows(row)]]
    ]
    assert len(offered) > 5 * len(diary)
    counted = Counter(why.__name__ for pair in offered for why in (over, to_come, foreign) if why(*pair))
    assert counted == {}


def test_such_memories_are_there_to_be_shown_by_mistake(diary):
    pairs = [(item, query.request) for query in diary.queries for item in diary.catalog]
    assert min(sum(why(*pair) for pair in pairs) for why in (over, to_come, foreign)) > 1_000
