from __future__ import annotations

import numpy as np
import pytest

from ctxbench.io.errors import InputError, ParameterError
from ctxbench.model.candidates import Mode
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Batch, Message, Request, SessionItem

A, B, C, D, E = (ItemKey("rule", None, name) for name in "abcde")
CATALOG = Catalog(
    [
        Item(type="rule", name="a"),
        Item(type="rule", name="b", include="always"),
        Item(type="rule", name="c", include="manual"),
        Item(type="rule", name="d", enabled=False),
        Item(type="rule", name="e"),
    ]
)
FULL = Request(
    id="q1",
    text="ask",
    history=(Message("user", "before"),),
    session=(SessionItem(A), SessionItem(B, "always")),
    explicit=(C,),
    recent=(E, A),
    uses=((A, 3), (E, 0)),
    available=(A, E),
    tool_results=(("list", "[]"),),
    user="ann",
    workspace="w",
    conversation="k",
    turn=0,
    time="2026-01-31T09:30:00Z",
)


def one(**given) -> Batch:
    return Batch.of(CATALOG, [Request(id="q", text="x", **given)])


def session_of(batch: Batch) -> list[tuple[int, int]]:
    return list(zip(batch.session_item.tolist(), batch.session_mode.tolist(), strict=True))


def test_a_search_may_offer_enabled_agent_items_only():
    assert one().eligible[:].tolist() == [[True, False, False, False, True]]


def test_a_new_session_holds_the_enabled_always_items():
    assert session_of(one()) == [(1, Mode.ALWAYS)]
    assert session_of(one(available=(A, E))) == []
    assert session_of(one(session=())) == []


def test_what_the_session_holds_is_not_searched():
    batch = one(session=(SessionItem(E), SessionItem(C), SessionItem(B, "always")))
    assert session_of(batch) == [(4, Mode.MANUAL), (2, Mode.MANUAL), (1, Mode.ALWAYS)]
    assert batch.eligible[:].tolist() == [[True, False, False, False, False]]


def test_an_item_that_a_session_names_twice_is_held_once():
    assert session_of(one(session=(SessionItem(A), SessionItem(E), SessionItem(A)))) == [(0, 1), (4, 1)]


def test_a_scope_limits_what_may_be_offered():
    assert one(available=(E, B)).eligible[:].tolist() == [[False, False, False, False, True]]
    assert not one(available=()).eligible.any().any()


def test_requests_that_share_a_scope_do_not_share_their_masks():
    requests = [
        Request(id="1", text="", available=(A, E), session=(SessionItem(A),)),
        Request(id="2", text="", available=(A, E)),
    ]
    assert Batch.of(CATALOG, requests).eligible[:][:, [0, 4]].tolist() == [[False, True], [True, True]]


def test_no_request_and_no_item_have_shapes_too():
    none = Batch.of(CATALOG, [])
    assert none.eligible.shape == (0, 5)
    assert none.session_start.tolist() == [0]
    assert Batch.of(Catalog([]), [Request(id="q", text="x")]).eligible.shape == (1, 0)


def test_everything_wrong_is_said_at_once():
    lost = ItemKey("rule", None, "lost")
    with pytest.raises(InputError) as caught:
        Batch.of(
            CATALOG,
            [
                Request(id="q", text="", available=(lost,)),
                Request(id="q", text="", session=(SessionItem(lost), SessionItem(A)), explicit=(lost,)),
                Request(id="r", text="", recent=(A, lost), uses=((A, 1), (lost, 2))),
            ],
        )
    assert [fault.message for fault in caught.value.faults] == [
        "query 'q': available names 'rule:lost', which the catalog does not hold",
        "query id 'q' occurs twice; ids must differ",
        "query 'q': session names 'rule:lost', which the catalog does not hold",
        "query 'q': explicit names 'rule:lost', which the catalog does not hold",
        "query 'r': recent names 'rule:lost', which the catalog does not hold",
        "query 'r': uses names 'rule:lost', which the catalog does not hold",
    ]


@pytest.mark.parametrize("count", [-1, 1.5, True, "2", None])
def test_a_count_of_uses_is_a_whole_number(count):
    with pytest.raises(ParameterError, match=r"query 'q': how often 'rule:a' was useful must be a whole number"):
        one(uses=((A, count),))


def test_uses_count_each_item_once():
    with pytest.raises(ParameterError, match=r"query 'q': uses counts an item twice"):
        one(uses=((A, 1), (A, 1)))


def test_a_batch_cannot_be_changed():
    for name in ("session_start", "session_item", "session_mode"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(one(), name)[...] = 0
    for masks in (one().eligible, one().visible, one(removed=(A,)).eligible):
        with pytest.raises(ValueError, match="read-only"):
            masks[0][...] = False


def test_a_part_of_a_batch_is_as_if_it_had_been_asked_alone():
    requests = [Request(id=str(n), text="", session=(SessionItem(key),)) for n, key in enumerate((A, B, C))]
    part = Batch.of(CATALOG, requests).take([2, 0])
    alone = Batch.of(CATALOG, [requests[2], requests[0]])
    assert part.ids == ("2", "0")
    assert session_of(part) == session_of(alone) == [(2, 1), (0, 1)]
    assert np.array_equal(part.eligible[:], alone.eligible[:])


def test_a_session_item_is_always_or_manual():
    with pytest.raises(ParameterError, match=r"always or manual, got 'agent' \(rule:a\)"):
        SessionItem(A, "agent")


def test_the_json_of_a_request_leaves_out_what_is_not_given():
    assert Request(id="q", text="x").as_dict() == {"id": "q", "text": "x"}


def test_the_json_tells_no_scope_from_an_empty_one():
    empty = Request(id="q", text="x", available=(), session=())
    assert empty.as_dict() == {"id": "q", "text": "x", "session": [], "available": []}


def test_the_json_of_a_request_holds_all_that_it_has():
    assert FULL.as_dict() == {
        "id": "q1", "text": "ask", "history": [{"role": "user", "content": "before"}],
        "session": [{"id": "rule:a", "mode": "manual"}, {"id": "rule:b", "mode": "always"}],
        "explicit": ["rule:c"], "recent": ["rule:e", "rule:a"], "uses": {"rule:a": 3, "rule:e": 0},
        "available": ["rule:a", "rule:e"],
        "tool_results": [{"tool": "list", "text": "[]"}], "user": "ann", "workspace": "w",
        "conversation": "k", "turn": 0, "time": "2026-01-31T09:30:00Z",
    }  # fmt: skip


def test_what_was_removed_is_neither_searched_nor_in_a_new_session():
    batch = one(removed=(A, B))
    assert batch.eligible[:].tolist() == [[False, False, False, False, True]]
    assert batch.session_item.tolist() == []
    assert batch.key != one().key


def test_an_item_cannot_be_in_the_session_and_removed_from_it():
    with pytest.raises(InputError, match=r"'rule:a' is in the session and removed from it"):
        one(session=(SessionItem(A),), removed=(A,))
