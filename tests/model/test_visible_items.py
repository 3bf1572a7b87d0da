"""Who sees what: masks by request, and pipelines that never offer what a request may not see."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.io.errors import InputError, SelectorError
from ctxbench.io.rows import instant
from ctxbench.model import registry
from ctxbench.model.candidates import Candidates, Mode, Origin, add_expanded
from ctxbench.model.items import ITEM_TYPES, Catalog, Item
from ctxbench.model.requests import Batch, Filter, Request, SessionItem
from ctxbench.model.selection import selections
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.selectors.explain import explain

PROPERTY = settings(max_examples=60, deadline=None)
WORDS = ["refund", "order", "paid", "late", "parcel", "tracking", "invoice", "address"]
whose = st.sampled_from([None, "one", "two", "three"])
days = st.sampled_from([None, "2026-01-01", "2026-01-02", "2026-01-03"])


@st.composite
def items(draw, name: str) -> Item:
    created, until = draw(days), draw(days)
    if created is not None and until is not None and until < created:
        created, until = until, created
    return Item(
        type=draw(st.sampled_from(["memory", "tool", "rule"])),
        name=name,
        description=" ".join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))),
        include=draw(st.sampled_from(["agent", "agent", "always"])),
        workspace=draw(whose),
        user=draw(whose),
        created=created,
        until=until,
        confidence=draw(st.sampled_from([None, 0.2, 0.8])),
        conversation=draw(st.sampled_from([None, "k"])),
    )


@st.composite
def worlds(draw) -> Batch:
    catalog = Catalog([draw(items(f"item {place}")) for place in range(draw(st.integers(0, 12)))])
    requests = []
    for number in range(draw(st.integers(0, 5))):
        kinds = draw(st.sampled_from([(), ("memory",), ("tool", "rule")]))
        least = draw(st.sampled_from([None, 0.5]))
        only = draw(
            st.sampled_from([None, Filter(types=kinds, confidence=least), Filter(since="2026-01-02", types=kinds)])
        )
        places = st.lists(st.integers(0, max(len(catalog) - 1, 0)), unique=True)
        listed = draw(st.one_of(st.none(), places)) if len(catalog) else None
        available = None if listed is None else tuple(catalog[place].key for place in listed)
        request = Request(
            id=f"q{number}",
            text=" ".join(draw(st.lists(st.sampled_from(WORDS), max_size=3))),
            workspace=draw(whose),
            user=draw(whose),
            time=draw(days),
            available=available,
            only=only,
        )
        own = [item for item in catalog if sees(request, item)]
        if own and draw(st.booleans()):
            request = replace(request, session=(SessionItem(draw(st.sampled_from(own)).key),))
        requests.append(request)
    return Batch.of(catalog, requests)


def sees(request: Request, item: Item) -> bool:
    """What the contract says, item by item."""
    if item.workspace not in (None, request.workspace) or item.user not in (None, request.user):
        return False
    if request.time is None:
        return item.until is None
    time = instant(request.time)
    begun = item.created is None or instant(item.created) <= time
    return begun and (item.until is None or time < instant(item.until))


def may_get(batch: Batch, row: int, item: Item) -> bool:
    request, only = batch.requests[row], batch.requests[row].only or Filter()
    held = {
        batch.catalog[one].key for one in batch.session_item[batch.session_start[row] : batch.session_start[row + 1]]
    }
    return (
        sees(request, item)
        and item.include == "agent"
        and item.key not in held
        and (request.available is None or item.key in request.available)
        and (not only.types or item.type in only.types)
        and (only.since is None or (item.created is not None and item.created >= only.since))
        and (only.confidence is None or (item.confidence is not None and item.confidence >= only.confidence))
    )


@PROPERTY
@given(worlds(), st.data())
def test_masks_are_what_is_said_of_each_item(batch, data):
    shape = (len(batch), len(batch.catalog))
    visible = np.array([[sees(r, i) for i in batch.catalog] for r in batch.requests], dtype=np.bool_).reshape(shape)
    eligible = np.array(
        [[may_get(batch, row, i) for i in batch.catalog] for row in range(len(batch))], dtype=np.bool_
    ).reshape(shape)
    for masks, wanted in ((batch.visible, visible), (batch.eligible, eligible)):
        assert masks.shape == shape
        assert masks[:].tolist() == wanted.tolist()
        assert [row.tolist() for row in masks] == wanted.tolist()
        assert masks.counts().tolist() == wanted.sum(axis=1).tolist()
        assert masks.any().tolist() == wanted.any(axis=0).tolist()
        some = np.array(data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch))), dtype=np.bool_)
        assert masks.any(some).tolist() == wanted[some].any(axis=0).tolist()
        request, item = np.nonzero(np.ones(shape, dtype=np.bool_))
        assert masks.cells(request, item).tolist() == wanted.ravel().tolist()
        half = np.arange(len(batch.catalog)) % 2 == 0
        assert masks.within(half)[:].tolist() == (wanted & half).tolist()


PIPELINES = [
    {"retrieve": "everything"},
    {"retrieve": "random", "refine": [{"first": {"n": 3}}]},
    {"retrieve": "bm25", "refine": ["standard", {"expansion": {"threshold": 0.0, "topN": 20, "depth": 2}}]},
    {
        "retrieve": "dense",
        "refine": [{"first": {"n": 2}}, {"expansion": {"by": "graph", "graph_threshold": 0.0}}, "rrf"],
    },
    {"retrieve": {"merge": ["dense", "bm25f", "fuzzy"]}, "refine": ["weighted", {"per_chunk": {"minimum": 1}}]},
    {"retrieve": "dense", "refine": [{"by_domain": {"tool": [{"first": {"n": 1}}, "expansion"], "*": ["standard"]}}]},
    {
        "retrieve": {"merge": ["dense", "bm25"]},
        "refine": ["features", "probability", "price", {"margin": {"margin": 5.0}}],
    },
]


@PROPERTY
@given(worlds(), st.sampled_from(PIPELINES))
def test_no_pipeline_offers_or_explains_what_a_request_may_not_see(batch, spec):
    pipeline, resources = Pipeline.of(spec), testing.mock_resources()
    outcome = pipeline.run(batch, resources)
    chosen = selections(outcome.query, outcome.candidates)
    for request, selection in zip(batch.requests, chosen, strict=True):
        hidden = {item.id for item in batch.catalog if not sees(request, item)}
        told = {one.id for one in (*selection.chosen, *selection.left_out)}
        told |= {one.via for one in (*selection.chosen, *selection.left_out) if one.via is not None}
        assert told.isdisjoint(hidden)
        explained = json.dumps(explain(pipeline, batch.catalog, request, resources).as_dict(near=100))
        assert not [name for name in hidden if json.dumps(name) in explained]


SECRET = Item(type="memory", name="the secret of two", workspace="two")
SHARED = Item(type="memory", name="shared")


def asked(**given) -> Batch:
    return Batch.of(Catalog([SECRET, SHARED]), [Request(id="q7", text="secret", workspace="one", **given)])


@dataclass(frozen=True)
class Cheat:
    """Retrieves everything, whoever asks."""

    ranks: ClassVar[bool] = True

    def __call__(self, query, resources):
        n = len(query.batch.catalog)
        request = np.repeat(np.arange(len(query.batch)), n)
        return Candidates.build(
            len(query.batch), request, np.tile(np.arange(n), len(query.batch)), score=np.ones(len(request))
        )


@dataclass(frozen=True)
class CheatingExpansion:
    """Brings in the item at `item`, or the visible one by way of it."""

    via: bool = False

    def __call__(self, query, candidates, resources):
        own = np.array([1 if self.via else 0])
        return add_expanded(
            candidates,
            np.array([0]),
            own,
            score=np.array([0.5]),
            origin=np.array([int(Origin.EXPANSION)]),
            mode=np.array([int(Mode.EXPANSION)]),
            via_item=np.array([0 if self.via else 1]),
        )


@dataclass(frozen=True)
class OtherBatch:
    """Answers more requests than were asked."""

    ranks: ClassVar[bool] = True

    def __call__(self, query, resources):
        return Candidates.empty(len(query.batch) + 1)


@dataclass(frozen=True)
class NoItem:
    """Finds an item that the catalog does not have."""

    ranks: ClassVar[bool] = True

    def __call__(self, query, resources):
        return Candidates.build(1, np.array([0]), np.array([99]), score=np.array([1.0]))


@pytest.fixture
def cheats(monkeypatch):
    names = {"cheat": "Cheat", "other": "OtherBatch", "no_item": "NoItem"}
    for kind, known in (("retrieve", names), ("expand", {"cheating": "CheatingExpansion"})):
        added = {name: f"{__name__}:{target}" for name, target in known.items()}
        monkeypatch.setitem(registry._BUILT_IN, kind, {**registry._BUILT_IN[kind], **added})
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])


@pytest.mark.parametrize(
    ("spec", "step"),
    [
        ({"retrieve": "cheat"}, "cheat"),
        ({"retrieve": {"merge": ["cheat", "bm25"]}}, "merge of cheat, bm25"),
        ({"retrieve": "bm25", "refine": [{"first": {"n": 0}}, "cheating"]}, "cheating"),
        ({"retrieve": "bm25", "refine": [{"first": {"n": 0}}, {"cheating": {"via": True}}]}, "cheating"),
        ({"retrieve": "bm25", "refine": [{"by_domain": {"*": [{"first": {"n": 0}}, "cheating"]}}]}, "by_domain"),
    ],
)
def test_a_step_that_cheats_is_refused_and_the_item_is_not_named(cheats, spec, step):
    with pytest.raises(
        SelectorError, match=f"^{step}: .* of query 'q7' is an item that this request may not"
    ) as caught:
        Pipeline.of(spec).run(asked(), testing.mock_resources())
    assert "two" not in str(caught.value)


def test_the_same_step_may_offer_it_to_those_who_see_it(cheats):
    batch = Batch.of(Catalog([SECRET, SHARED]), [Request(id="q", text="secret", workspace="two")])
    found = Pipeline.of({"retrieve": "cheat"}).run(batch, testing.mock_resources()).candidates
    assert found.item.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("other", "candidates of different requests cannot be put together"),
        ("no_item", "no_item: a row of query .q7. is an item .* or none of the catalog"),
    ],
)
def test_rows_of_another_request_or_of_no_item_are_refused(cheats, name, said):
    with pytest.raises(SelectorError, match=said):
        Pipeline.of({"retrieve": name}).run(asked(), testing.mock_resources())


@pytest.mark.parametrize("what", ["session", "explicit", "removed", "recent", "uses"])
def test_what_a_request_may_not_see_it_cannot_name(what):
    given = {"session": (SessionItem(SECRET.key),)} if what == "session" else {what: (SECRET.key,)}
    given = {"uses": ((SECRET.key, 1),)} if what == "uses" else given
    with pytest.raises(
        InputError, match=f"query 'q7': {what} names 'memory:the%20secret%20of%20two', which the catalog does"
    ):
        asked(**given)


def test_a_list_of_available_items_opens_nothing():
    assert not asked(available=(SECRET.key, SHARED.key)).eligible[0, 0]


@pytest.mark.parametrize(
    ("only", "left"),
    [
        (Filter(types=("memory",)), [0, 1, 2]),
        (Filter(since="2026-01-02"), [2]),
        (Filter(before="2026-01-02"), [1]),
        (Filter(confidence=0.5), [1]),
        (Filter(conversation="k"), [2]),
        (Filter(conversation="other"), []),
        (Filter(kinds=("fact", "other")), [1]),
        (Filter(kinds=("fact", "note")), [1, 2]),
        (Filter(kinds=("other",)), []),
        (Filter(types=("memory",), kinds=("note",), conversation="k"), [2]),
        (Filter(since="2026-01-01", before="2026-01-03", types=("rule",)), []),
    ],
)
def test_a_search_may_be_restricted(only, left):
    kept = [
        Item(type="memory", name="plain"),
        Item(type="memory", name="early", kind="fact", created="2026-01-01", confidence=0.5),
        Item(type="memory", name="late", kind="note", created="2026-01-02", confidence=0.4, conversation="k"),
        Item(type="rule", name="rule"),
    ]
    batch = Batch.of(Catalog(kept), [Request(id="q", text="x", only=only)])
    assert np.flatnonzero(batch.eligible[0]).tolist() == left
    assert batch.visible[0].all()
    assert batch.requests[0].as_dict()["only"] == only.as_dict()


def test_every_type_can_be_asked_for():
    assert Filter(types=ITEM_TYPES).as_dict() == {"types": list(ITEM_TYPES)}
