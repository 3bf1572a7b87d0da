"""Facts of items: what they may be, and the arrays of a catalog that they become."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from ctxbench.io.errors import InputError, ParameterError
from ctxbench.io.rows import instant
from ctxbench.model.arrays import EARLIEST, LATEST
from ctxbench.model.items import Catalog, Item, ItemKey, Link


def memory(name: str, **given) -> Item:
    return Item(type="memory", name=name, text=f"about {name}", **given)


ITEMS = (
    memory("a", workspace="w", user="ann", created="2026-01-01", until="2026-02-01", confidence=0.5),
    memory("b", workspace="w", conversation="k", created="2026-01-01T12:00:00+02:00"),
    memory("c", links=(Link("after", ItemKey("memory", None, "a")), Link("about", ItemKey("memory", None, "b")))),
    memory("d", workspace="v", user="bob", kind="fact"),
)
DAY = 86_400_000_000


def test_facts_are_arrays():
    facts = Catalog(ITEMS).facts
    assert (facts.workspace.names, facts.workspace.code.tolist()) == (("w", "v"), [0, 0, -1, 1])
    assert (facts.conversation.names, facts.conversation.code.tolist()) == (("k",), [-1, 0, -1, -1])
    assert (facts.kind.names, facts.kind.code.tolist()) == (("fact",), [-1, -1, -1, 0])
    assert (facts.type.names, facts.type.code.tolist()) == (("memory",), [0, 0, 0, 0])
    first = instant("2026-01-01")
    assert facts.created.tolist() == [first, first + DAY * 10 // 24, EARLIEST, EARLIEST]
    assert facts.until.tolist() == [first + 31 * DAY, LATEST, LATEST, LATEST]
    np.testing.assert_equal(facts.confidence, [0.5, np.nan, np.nan, np.nan])
    assert facts.linked(2) == [("after", 0), ("about", 1)]
    assert facts.linked(0) == []
    start, origin, kind = facts.incoming
    assert (start.tolist(), origin.tolist()) == ([0, 1, 2, 2, 2], [2, 2])
    assert [facts.link_types[one] for one in kind] == ["after", "about"]
    assert (facts.private, facts.timed, facts.hidden) == (True, True, True)


def test_items_can_be_asked_for_by_their_texts():
    facts = Catalog(ITEMS).facts
    assert facts.workspace.are_any(("w", "no such")).tolist() == [True, True, False, False]
    assert facts.workspace.are_any(()).tolist() == [False] * 4
    assert [facts.workspace.are(text).tolist() for text in ("v", "no such", None)] == [
        [False, False, False, True],
        [False] * 4,
        [False] * 4,
    ]
    assert facts.workspace.open_to(None).tolist() == [False, False, True, False]
    assert Catalog([memory("x")]).facts.workspace.open_to("w").tolist() == [True]


def test_a_catalog_without_facts_hides_nothing():
    facts = Catalog([memory("x")]).facts
    assert (facts.private, facts.timed, facts.hidden) == (False, False, False)
    assert not Catalog([]).facts.hidden
    assert [one.tolist() for one in facts.incoming] == [[0, 0], [], []]


@pytest.mark.parametrize(
    ("workspace", "user", "seen"),
    [
        (None, None, [False, False, True, False]),
        ("w", None, [False, True, True, False]),
        ("w", "ann", [True, True, True, False]),
        ("v", "ann", [False, False, True, False]),
        ("v", "bob", [False, False, True, True]),
        ("no such", "bob", [False, False, True, False]),
    ],
)
def test_items_are_open_to_their_workspace_and_user(workspace, user, seen):
    assert Catalog(ITEMS).facts.open_to(workspace, user).tolist() == seen


@pytest.mark.parametrize(
    ("time", "there"),
    [
        ("2025-12-31T23:59:59.999999", [False, False, True, True]),
        ("2026-01-01", [True, False, True, True]),
        ("2026-01-01T10:00:00Z", [True, True, True, True]),
        ("2026-01-31T23:59:59.999999", [True, True, True, True]),
        ("2026-02-01", [False, True, True, True]),
    ],
)
def test_items_are_there_from_their_creation_on_and_before_their_end(time, there):
    assert Catalog(ITEMS).facts.at(instant(time)).tolist() == there


def test_a_request_without_a_time_sees_what_has_no_end():
    assert Catalog(ITEMS).facts.at(LATEST).tolist() == [False, True, True, True]


def test_what_is_empty_is_in_no_row_so_that_hashes_stay():
    plain = Item(type="tool", name="t", description="d")
    assert set(plain.as_row()) == {"_id", "title", "text", "type", "name", "description"}
    row = b'{"_id":"tool:t","title":"t","text":"","type":"tool","name":"t","description":"d"}\n'
    assert Catalog([plain]).hash == hashlib.sha256(row).hexdigest()
    assert ITEMS[2].as_row()["links"] == [
        {"type": "after", "item": "memory:a"},
        {"type": "about", "item": "memory:b"},
    ]
    different = ({}, {"user": "u"}, {"confidence": 0.5}, {"kind": "fact"}, {"kind": "note"})
    assert len({Catalog([memory("a", **given)]).hash for given in different}) == 5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"created": "2026-02-01", "until": "2026-01-01"}, r"until \(2026-01-01\) is before created \(2026-02-01\)"),
        ({"created": "yesterday"}, "created must be ISO 8601, such as .*, got 'yesterday'"),
        ({"until": "2026-13-01"}, "until must be ISO 8601"),
        ({"confidence": 1.5}, "confidence must be 0 to 1, got 1.5"),
        ({"confidence": float("nan")}, "confidence must be 0 to 1"),
    ],
)
def test_what_cannot_be_names_the_item(given, said):
    with pytest.raises(ParameterError, match=f"{said}.*memory:x"):
        memory("x", **given)


def test_a_link_to_nothing_names_both_ends():
    lost = ItemKey("memory", None, "lost")
    catalog = Catalog([memory("a", links=(Link("after", lost),)), memory("b", links=(Link("about", lost),))])
    with pytest.raises(InputError) as caught:
        _ = catalog.facts
    assert [fault.message for fault in caught.value.faults] == [
        f"item 'memory:{name}': its link '{kind}' leads to 'memory:lost', which the catalog does not hold; add that "
        "item, or remove the link"
        for name, kind in (("a", "after"), ("b", "about"))
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2026-01-01", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00", "2026-01-01T00:00:00+00:00"),
        ("2026-01-01T02:00:00+02:00", "2026-01-01"),
    ],
)
def test_times_without_an_offset_are_utc(one, other):
    assert instant(one) == instant(other)


def test_times_are_exact_to_the_microsecond_before_1970_too():
    assert instant("1969-12-31T23:59:59.999999") == -1
    assert instant("0001-01-01") < instant("9999-12-31T23:59:59.999999") < LATEST


def test_facts_that_all_items_share_take_no_room_for_each() -> None:
    facts = Catalog([Item(type="tool", name=f"t{n}") for n in range(1_000)]).facts
    arrays = (facts.type.code, facts.workspace.code, facts.created, facts.until, facts.confidence)
    assert {array.strides for array in arrays} == {(0,)}
    assert not any(array.flags.writeable for array in arrays)
    added = facts.extended([Item(type="tool", name="new", created="2026-01-01", confidence=0.5)], lambda key: None)
    assert (len(added.created), np.isnan(added.confidence).sum()) == (1_001, 1_000)
