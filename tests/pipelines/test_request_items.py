from __future__ import annotations

import pytest

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Mode, Origin
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Batch, Filter, Request, SessionItem
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.retrieve import ConversationMessages, RecentFiles


def message(name, day, conversation="t", **said):
    said = {"created": None if day is None else f"2026-03-0{day}", **said}
    return Item(type="message", name=name, text=f"text of {name}", conversation=conversation, **said)


def file(name, **said):
    return Item(type="file", name=name, text=f"text of {name}", **said)


ITEMS = [
    file("a"),
    file("b", include="manual"),
    file("off", enabled=False),
    file("fixed", include="always"),
    file("adas", user="ada"),
    file("c"),
    message("m0", None),
    message("m3", 3),
    message("m1", 1),
    message("other", 4, "else"),
    message("m3 too", 3),
    message("late", 9),
    message("bens", 2, user="ben"),
    Item(type="memory", name="fact", text="of t", conversation="t", created="2026-03-05"),
]
CATALOG = Catalog(ITEMS)
KEY = {item.name: item.key for item in ITEMS}


def keys(*names):
    return tuple(KEY[name] for name in names)


def found(retrieve, *requests, catalog=CATALOG):
    """Names, scores and modes of what is found, by request and in order."""
    given = [Request(**{"id": str(n), "text": "", "session": (), **one}) for n, one in enumerate(requests)]
    table = Pipeline.of({"retrieve": retrieve}).run(Batch.of(catalog, given), testing.mock_resources()).candidates
    out = [[] for _ in given]
    for row in (table.origin != Origin.SESSION).nonzero()[0]:
        told = catalog[table.item[row]].name, table.score[row], Mode(table.mode[row]).name
        out[table.request[row]].append(told)
    return out


def names(retrieve, *requests, **given):
    return [[name for name, _, _ in row] for row in found(retrieve, *requests, **given)]


def test_what_is_named_is_offered_in_its_order_also_by_hand():
    (row,) = found("explicit", {"explicit": keys("c", "b", "a", "c")})
    assert row == [("c", 1.0, "EXPLICIT"), ("b", 1 / 2, "EXPLICIT"), ("a", 1 / 3, "EXPLICIT")]


@pytest.mark.parametrize(
    ("request_", "left"),
    [
        ({}, ["a", "b"]),
        ({"removed": keys("b")}, ["a"]),
        ({"session": (SessionItem(KEY["a"]),)}, ["b"]),
        ({"available": keys("b", "c")}, ["b"]),
        ({"available": ()}, []),
        ({"only": Filter(types=("message",))}, ["a", "b"]),  # which restricts a search, and this is none
    ],
)
def test_what_is_named_must_be_there_for_the_request(request_, left):
    assert names("explicit", {"explicit": keys("off", "fixed", "a", "b"), **request_}) == [left]


def test_what_is_another_users_cannot_be_named_and_ones_own_can():
    assert names("explicit", {"explicit": keys("adas"), "user": "ada"}) == [["adas"]]


def test_no_other_retriever_offers_what_is_by_hand():
    assert "b" not in names("everything", {"explicit": keys("b")})[0]
    assert names("recent", {"recent": keys("b", "a")}) == [["a"]]


def test_the_last_messages_of_the_conversation_are_found_the_latest_first():
    asked = {"conversation": "t", "time": "2026-03-08"}
    (row,) = found({"thread": {"n": 3}}, asked)
    assert row == [("m3 too", 1.0, "AGENT"), ("m3", 1 / 2, "AGENT"), ("m1", 1 / 3, "AGENT")]
    assert names("thread", asked, {**asked, "user": "ben"}, {"conversation": "gone"}, {}) == [
        ["m3 too", "m3", "m1", "m0"], ["m3 too", "m3", "bens", "m1", "m0"], [], [],
    ]  # fmt: skip


def test_the_order_of_messages_of_several_moments_is_not_that_of_the_catalog():
    turned = Catalog(reversed(ITEMS))
    asked = {"conversation": "t", "time": "2026-03-08"}
    assert names("thread", asked, catalog=turned) == [["m3", "m3 too", "m1", "m0"]]  # of one moment the later place


def test_files_that_were_opened_last_are_found_in_their_order():
    (row,) = found("recent", {"recent": keys("c", "m1", "a", "c")})
    assert row == [("c", 1.0, "AGENT"), ("a", 1 / 2, "AGENT")]
    assert names({"recent": {"types": []}}, {"recent": keys("c", "m1", "a")}) == [["c", "m1", "a"]]
    assert names({"recent": {"n": 1}}, {"recent": keys("off", "a", "c")}, {}) == [["a"], []]  # `off` takes no place


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda: ConversationMessages(n=-1), "n must be 0 or more, got -1"),
        (lambda: RecentFiles(n=-1), "n must be 0 or more, got -1"),
        (lambda: RecentFiles(types=("fil",)), "each of types must be one of rule, .*, got 'fil'"),
    ],
)
def test_wrong_parameters_are_said(step, said):
    with pytest.raises(ParameterError, match=said):
        step()


@pytest.mark.parametrize("names_", [["explicit", "recent"], ["recent", "explicit"]])
def test_what_was_named_stays_explicit_where_another_source_finds_it_too(names_):
    (row,) = found({"merge": names_}, {"explicit": keys("c", "a"), "recent": keys("a", "c")})
    assert row == [("a", 1.0, "EXPLICIT"), ("c", 1.0, "EXPLICIT")]
    (row,) = found({"merge": names_}, {"explicit": keys("c"), "recent": keys("a", "c")})
    assert row == [("a", 1.0, "AGENT"), ("c", 1.0, "EXPLICIT")]


def test_the_suite_lets_naming_open_what_is_named_and_nothing_else():
    from ctxbench.testing.contract import table_faults

    batch = Batch.of(CATALOG, [Request(id="q", text="", session=(), explicit=keys("b", "off"))])
    pipeline = Pipeline.of({"retrieve": "explicit"})
    outcome = pipeline.run(batch, testing.mock_resources())
    assert list(table_faults(outcome.query, outcome.candidates)) == []
    other = Batch.of(CATALOG, [Request(id="q", text="", session=())])
    told = list(table_faults(pipeline.run(other, testing.mock_resources()).query, outcome.candidates))
    assert told[0].startswith("an item that the request may not get, or that the session holds, is offered")


def test_an_unknown_item_cannot_be_named():
    with pytest.raises(Exception, match="explicit names 'file:gone', which the catalog does not hold"):
        names("explicit", {"explicit": (ItemKey("file", None, "gone"),)})
