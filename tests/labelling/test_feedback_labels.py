"""Labels made of feedback on served contexts."""

from __future__ import annotations

import pytest

from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.datasets.layout import NOT_SUFFICIENT, read_exposures, write_exposures
from ctxbench.io.errors import ParameterError
from ctxbench.labelling.pools import Offers, Pool, Predictor
from ctxbench.memory.memories import Event, Memory
from ctxbench.memory.stores import feedback_dataset
from ctxbench.model.items import ItemKey
from tests.memory.service_world import WORKSPACE, filled, service_over

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
    dataset, exposures = feedback_dataset(store, WORKSPACE, name="mine")
    assert exposures == ()
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
    (query,) = feedback_dataset(store, WORKSPACE, name="mine")[0].queries
    assert query.request.explicit == built.request.explicit
    assert [key.name for key in query.request.explicit] == ["a.md@1"]


def test_what_is_said_of_a_context_is_no_use_that_its_query_knows_of(service, store):
    service.feedback("memory:pump%401", useful=True, user="ana")
    built = service.build("flat tyre?", user="ana")  # its time is rounded up, mostly behind what is said next
    for item in ("tyre", "bread"):
        service.feedback(f"memory:{item}%401", useful=True, user="ana", context=built.id)
    (query,) = feedback_dataset(store, WORKSPACE, name="mine")[0].queries
    assert query.request.uses == built.request.uses
    assert [(key.name, count) for key, count in query.request.uses] == [("pump@1", 1)]


def test_what_was_deleted_since_has_no_label(service, store):
    built = service.build("flat tyre?", time=NOW)
    for item in ("tyre", "pump"):
        service.feedback(f"memory:{item}%401", useful=True, context=built.id)
    store.delete(WORKSPACE, "tyre")
    assert graded(feedback_dataset(store, WORKSPACE, name="mine")[0]) == {(built.id, "memory:pump%401"): 2}


def ids(context):
    return [one["id"] for one in context.as_dict()["data"]["items"]]


def judged(service, context, useful, user):
    """Each item of a context is judged: some are useful, the others not."""
    for item in ids(context):
        service.feedback(item, useful=item in useful, user=user, context=context.id)


def test_what_was_sufficient_and_judged_item_by_item_is_labelled_in_full(service, store):
    some, none = service.build("flat tyre?", user="ana", time=NOW), service.build("tea?", user="ben", time=NOW)
    judged(service, some, ["memory:tyre%401"], "ana")
    judged(service, none, [], "ben")
    for context, user in ((some, "ana"), (none, "ben")):
        service.sufficient(context.id, True, user=user)
    dataset, exposures = feedback_dataset(store, WORKSPACE, name="mine")
    first, second = dataset.queries
    assert [(one.partly_labelled, one.needs_nothing, one.tags) for one in (first, second)] == [
        (False, False, ("sufficient",)),
        (False, True, ("sufficient",)),
    ]
    assert dataset.unlabelled == ()
    assert {key: grade for key, grade in graded(dataset).items() if grade} == {(some.id, "memory:tyre%401"): 2}
    assert len(dataset.labels) == len(ids(some)) + len(ids(none))  # nothing of what was not offered
    assert [key.id for key in exposures[0].called] == ["memory:tyre%401"]
    assert {key.id for key in exposures[0].offered} == set(ids(some))


def test_what_was_sufficient_but_not_judged_item_by_item_stays_labelled_in_part(service, store):
    built = service.build("flat tyre?", user="ana", time=NOW)
    service.feedback("memory:tyre%401", useful=True, user="ana", context=built.id)
    service.sufficient(built.id, True, user="ana")
    dataset, (exposure,) = feedback_dataset(store, WORKSPACE, name="mine")
    (query,) = dataset.queries
    assert (query.partly_labelled, query.needs_nothing, query.tags) == (True, False, ("sufficient",))
    assert graded(dataset) == {(built.id, "memory:tyre%401"): 2}
    assert exposure.signals == ()


def test_what_lacked_something_is_a_sign_of_a_miss_and_the_last_word_counts(service, store, tmp_path):
    built = service.build("flat tyre?", user="ana", time=NOW)
    judged(service, built, ["memory:tyre%401"], "ana")
    service.sufficient(built.id, True, user="ana")
    service.sufficient(built.id, False, user="ana")
    dataset, exposures = feedback_dataset(store, WORKSPACE, name="mine")
    (query,) = dataset.queries
    assert (query.partly_labelled, query.tags) == (True, (NOT_SUFFICIENT,))
    assert dataset.unlabelled == (built.id,)
    write_exposures(exposures, tmp_path)
    assert read_exposures(tmp_path)[built.id].signals == (NOT_SUFFICIENT,)
    service.sufficient(built.id, True, user="ana")
    assert not feedback_dataset(store, WORKSPACE, name="mine")[0].queries[0].partly_labelled


def test_what_lacked_something_is_guessed_to_need_more(service, store):
    """The sign raises the chance of what was not offered, and so what a session asks first where it has many."""
    built = service.build("flat tyre?", user="ana", time=NOW)
    store.insert(Memory(id="kit", workspace=WORKSPACE, content="The flat tyre kit is blue.", created="2026-03-01"))
    chances = []
    for enough in (True, False):
        service.sufficient(built.id, enough, user="ana")
        dataset, exposures = feedback_dataset(store, WORKSPACE, name="mine")
        kit = dataset.catalog.position(ItemKey.parse("memory:kit%401"))
        ranking = (*(place for place in range(len(dataset.catalog)) if place != kit), kit)
        scores = tuple(1.0 / rank for rank in range(1, len(ranking) + 1))
        offers = Offers(name="all", offered=(frozenset(ranking),), ranking=(ranking,), scores=(scores,))
        pool = Pool(dataset=dataset, offers=(offers,), exposures={built.id: exposures[0]})
        chances.append(Predictor(pool).guess(built.id).probabilities[kit])
    assert chances[1] > chances[0]


def test_what_is_said_of_a_context_goes_with_what_was_in_it(service, store):
    built = service.build("flat tyre?", user="ana", time=NOW)
    judged(service, built, ["memory:tyre%401"], "ana")
    service.sufficient(built.id, True, user="ana")
    store.delete(WORKSPACE, "tyre")
    dataset, exposures = feedback_dataset(store, WORKSPACE, name="mine")
    assert (dataset.queries[0].partly_labelled, dataset.queries[0].tags, exposures) == (True, (), ())


def test_without_feedback_that_names_its_context_there_is_no_dataset(service, store):
    with pytest.raises(ParameterError, match="has no feedback; labels need feedback with a `contextId`"):
        feedback_dataset(store, WORKSPACE, name="mine")
    service.feedback("memory:tyre%401", useful=True)
    with pytest.raises(ParameterError, match="has 1 judgements without a context"):
        feedback_dataset(store, WORKSPACE, name="mine")
    with pytest.raises(ParameterError, match="unknown workspace 'gone'"):
        feedback_dataset(store, "gone", name="mine")
