"""Items that a search takes for one another: found without labels, with what a change would do."""

from __future__ import annotations

import numpy as np
import pytest

from ctxbench.labelling.overlap import NamesAlike, merge_items, overlap, similar_names
from ctxbench.model.items import Catalog, Item
from ctxbench.search.chunking import query_chunks
from ctxbench.search.dense import chunks_of
from ctxbench.search.embedders import HashingEmbedder
from ctxbench.search.tokens import open_counter
from tests.labelling.curation.conftest import tool

COUNTER = open_counter("chars/4")


def embed(texts, *, kind):
    return HashingEmbedder().embed(texts, kind=kind)


def found(items, **given):
    return overlap(Catalog(items), embed, COUNTER, **given)


LOST = [
    tool("fetch_a", "Read the ledger of a client. Slow, and only for accounts of the old book, by their number."),
    tool("ledger", "Read the ledger of a client."),
    tool("mail", "Send a letter by post."),
]


def test_an_item_for_which_another_comes_first_is_listed_with_what_was_searched_for():
    result = found(LOST)
    (pair,) = result.pairs
    assert pair.items == ("tool:s:fetch_a", "tool:s:ledger")
    first, second = pair.asked
    assert (first.text, first.place) == ("Read the ledger of a client", 2)
    assert first.other > first.score
    assert (second.place, pair.margin) == (1, pytest.approx(first.score - first.other))
    assert (result.asked, result.first, result.among) == (3, 2, 3)
    assert result.tokens == COUNTER.count(["a"] * 3, [item.prompt_text for item in LOST]).sum()


def test_places_are_those_of_a_search_over_all_items():
    rng = np.random.default_rng(3)
    words = ["ledger", "client", "letter", "post", "issue", "board", "team", "rate", "port", "hold"]
    items = [
        tool(f"t{n}", " ".join(rng.choice(words, 4)) + ". " + " ".join(rng.choice(words, 6))) for n in range(60)
    ] + [Item(type="rule", name=f"r{n}", text=" ".join(rng.choice(words, 5))) for n in range(30)]
    result = found(items, threshold=1.0, changed=None)
    expected = {}
    for item in items:
        (question,) = embed([query_chunks(item.description or item.text)[0]], kind="query")
        scores = {
            other.id: (embed(chunks_of(other), kind="item") @ question).max()
            for other in items
            if other.type == item.type
        }
        expected[item.id] = 1 + sum(score > scores[item.id] + 1e-6 for score in scores.values())
    assert result.first == sum(place == 1 for place in expected.values())
    assert result.among == sum(place <= 5 for place in expected.values())
    asked = {one.item: one.place for pair in result.pairs for one in pair.asked}
    assert asked
    assert asked == {item: expected[item] for item in asked}
    assert {item for item, place in expected.items() if place > 1} <= set(asked)


def test_what_a_change_would_do_is_what_the_changed_catalog_gives():
    items = [
        *LOST,
        tool("ledger_of_client", "Read the ledger of one client.", schema={"properties": {"id": {}}}),
        tool("parcel", "Send mail abroad. Works on any day of the week, also at night."),
        tool("send", "Send mail to persons."),
        tool("close", "Shut the books of a year. Archived books stay shut, for good, and nobody opens them again."),
        tool("shut", "Shut the books of a year, archived."),
        tool("a", "Open a ticket of a customer for the help desk."),
        tool("b", "Open a ticket of a customer. Works for tickets of a customer that were closed, too."),
    ]
    result = found(items, threshold=0.7, changed=None)
    by_id = {item.id: item for item in items}
    tried = [(pair, change) for pair in result.pairs for change in pair.changes]
    assert {change.what for _, change in tried} == {"merge", "rename"}
    for pair, change in tried:
        if change.what == "rename":
            kept = {**by_id, change.item: tool(change.name, by_id[change.item].description)}
            then = found([*kept.values()])
            assert change.first == then.first > result.first
            assert change.tokens == then.tokens - result.tokens
        else:
            one = merge_items(*(by_id[id_] for id_ in pair.items))
            assert change.name == one.name
            then = found([one, *(item for id_, item in by_id.items() if id_ not in pair.items)])
            assert change.tokens == then.tokens - result.tokens


def test_a_merged_item_is_found_by_the_words_of_either():
    said = "Store a row of a table in the data base of the team."
    twins = [tool("put", said), tool("store", f"{said} Twice if asked."), tool("mail", "Send a letter.")]
    result = found(twins, threshold=0.7, changed=None)
    (change,) = (change for pair in result.pairs for change in pair.changes if change.what == "merge")
    assert change.first == result.asked == 3


def test_a_rule_is_no_rival_of_the_tool_that_it_is_about():
    rule = Item(type="rule", name="Ledgers", description="Read the ledger of a client.", text="Ask first.")
    result = found([LOST[0], rule])
    assert result.pairs == ()
    assert result.items == {"rule": 1, "tool": 1}


def test_what_no_search_finds_is_left_out_and_what_says_nothing_is_named():
    off = tool("off", "Read the ledger of a client.", enabled=False)
    by_hand = Item(type="rule", name="hand", text="Read.", include="manual")
    mute = tool("mute")
    result = found([LOST[0], off, by_hand, mute])
    assert (result.left_out, result.mute, result.asked, result.first) == (2, ("tool:s:mute",), 1, 1)
    assert result.pairs == ()


def test_an_empty_catalog_and_one_without_descriptions_are_no_error():
    assert found([]).pairs == ()
    assert (found([]).asked, found([]).tokens) == (0, 0)
    assert found([tool("a"), tool("b")]).first == 0


def test_changes_are_tried_for_so_many_pairs():
    items = [tool(f"t{n}", "Read the ledger of a client.") for n in range(4)]
    result = found(items, changed=2)
    assert len(result.pairs) == 6
    assert [bool(pair.changes) for pair in result.pairs] == [True, True, False, False, False, False]
    assert result.tried == 2


def test_a_merged_item_says_each_thing_once_and_takes_the_arguments_of_both():
    first = tool(
        "search_all",
        "Search the wiki. Slow.",
        schema={"type": "object", "properties": {"q": {}, "page": {}}, "required": ["q", "page"]},
    )
    second = tool(
        "search", "Search the wiki. By title.", schema={"properties": {"q": {"type": "string"}}, "required": ["q"]}
    )
    one = merge_items(first, second)
    assert (one.name, one.description) == ("search", "Search the wiki. By title. Slow.")
    assert one.schema == {
        "type": "object",
        "properties": {"q": {"type": "string"}, "page": {}},
        "required": ["q"],
    }
    assert merge_items(tool("ab", schema={"properties": {}}), tool("a")).schema == {"properties": {}}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["search", "search"], [("same name", 2)]),
        (["create_issue", "createIssue", "create-issue"], [("same name", 3)]),
        (["search", "search_v2"], [("suffix", 2)]),
        (["search", "search2"], [("suffix", 2)]),
        (["get_user", "get_users"], [("suffix", 2)]),
        (["get_page", "get_page_history"], [("suffix", 2)]),
        (["get", "get_page"], []),
        (["get_page", "get_page_of_history"], []),
        (["class", "clas_"], [("suffix", 2)]),
        (["is", "i"], []),
        (["删除", "删除"], [("same name", 2)]),
    ],
)
def test_names_that_are_hard_to_tell_apart(names, expected):
    items = [tool(name, server=f"s{n}") for n, name in enumerate(names)]
    assert [(one.why, len(one.items)) for one in similar_names(Catalog(items))] == expected


def test_names_of_two_types_are_told_apart():
    rule = Item(type="rule", name="search", text="How.")
    assert list(similar_names(Catalog([tool("search"), rule]))) == []
    assert list(similar_names(Catalog([tool("a", server="x"), tool("a", server="y")]))) == [
        NamesAlike("same name", ("tool:x:a", "tool:y:a"))
    ]
