"""Labels made of feedback on served contexts."""

from __future__ import annotations

import pytest

from ctxbench.core.errors import ParameterError
from ctxbench.data.datasets.reader import read_dataset
from ctxbench.data.datasets.writer import write_dataset
from ctxbench.data.feedback_labels import feedback_dataset
from ctxbench.stores.events import Event
from ctxbench.stores.memories import Memory
from tests.server.service_world import WORKSPACE, filled, service_over

NOW = "2026-03-10T09:00:05Z"


@pytest.fixture
def store():
    return filled()


@pytest.fixture
def service(store):
    return service_over(store)


def graded(dataset):
    return {(label.query, label.item.id): label.grade for label in dataset.labels}


def test_each_context_is_a_query_with_what_was_said_of_its_items(service, store, tmp_path):
    one = service.build("flat tyre?", user="ana", thread="t", time=NOW)
    other = service.build("tea?", user="ben", time=NOW)
    for item, useful in (("tyre", False), ("pump", True), ("tyre", True)):
        service.feedback(f"memory:{item}%401", useful=useful, user="ana", context=one.id)
    service.feedback("memory:bread%401", useful=False, user="ben", context=other.id)
    service.feedback("memory:tea%401", useful=True, user="ben")  # of no context
    dataset = feedback_dataset(store, WORKSPACE, name="mine")
    assert graded(dataset) == {
        (one.id, "memory:tyre%401"): 2,  # the last word
        (one.id, "memory:pump%401"): 2,
        (other.id, "memory:bread%401"): 0,
    }
    first, second = dataset.queries
    assert (first.id, first.request.text, first.request.user, first.group) == (one.id, "flat tyre?", "ana", "t")
    assert (first.request.time, first.request.uses, first.partly_labelled) == ("2026-03-10 09:00:30", (), True)
    assert (second.request.user, second.group) == ("ben", "ben")
    assert dataset.catalog is store.catalog(WORKSPACE)
    write_dataset(dataset, tmp_path / "mine")
    read = read_dataset(tmp_path / "mine")
    assert graded(read) == graded(dataset)
    assert read.hash == dataset.hash


def test_a_query_has_the_references_and_uses_of_its_time(service, store):
    store.insert(Memory(id="a.md", workspace=WORKSPACE, content="tyre", type="file", created="2026-03-05"))
    given = {"workspace": WORKSPACE, "user": "ana", "conversation": "t"}
    store.record(Event(kind="reference", id="a.md", at="2026-03-06", **given))
    built = service.build("flat tyre?", user="ana", thread="t", time=NOW)
    store.record(Event(kind="unreference", id="a.md", at="2026-03-11", **given))
    service.feedback("memory:tyre%401", useful=True, user="ana", context=built.id)
    (query,) = feedback_dataset(store, WORKSPACE, name="mine").queries
    assert query.request.explicit == built.request.explicit
    assert [key.name for key in query.request.explicit] == ["a.md@1"]


def test_what_is_said_of_a_context_is_no_use_that_its_query_knows_of(service, store):
    service.feedback("memory:pump%401", useful=True, user="ana")
    built = service.build("flat tyre?", user="ana")  # its time is rounded up, mostly behind what is said next
    for item in ("tyre", "bread"):
        service.feedback(f"memory:{item}%401", useful=True, user="ana", context=built.id)
    (query,) = feedback_dataset(store, WORKSPACE, name="mine").queries
    assert query.request.uses == built.request.uses
    assert [(key.name, count) for key, count in query.request.uses] == [("pump@1", 1)]


def test_what_was_deleted_since_has_no_label(service, store):
    built = service.build("flat tyre?", time=NOW)
    for item in ("tyre", "pump"):
        service.feedback(f"memory:{item}%401", useful=True, context=built.id)
    store.delete(WORKSPACE, "tyre")
    assert graded(feedback_dataset(store, WORKSPACE, name="mine")) == {(built.id, "memory:pump%401"): 2}


def test_without_feedback_that_names_its_context_there_is_no_dataset(service, store):
    with pytest.raises(ParameterError, match="has no feedback; feedback that names `contextId` makes labels"):
        feedback_dataset(store, WORKSPACE, name="mine")
    service.feedback("memory:tyre%401", useful=True)
    with pytest.raises(ParameterError, match="has 1 judgements without a context"):
        feedback_dataset(store, WORKSPACE, name="mine")
    with pytest.raises(ParameterError, match="unknown workspace 'gone'"):
        feedback_dataset(store, "gone", name="mine")
