from __future__ import annotations

import pytest

from ctxbench.bench.latency import (
    grown,
    requests_like,
)
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog, Item

CATALOG = Catalog(
    [
        Item(type="tool", name="get_weather", description="Tells the weather of a city.", schema={"type": "object"}),
        Item(type="tool", name="send_mail", server="post", description="Sends a letter to one person."),
        Item(type="rule", name="tone", description="How to write.", text="Be brief.\n\nBe kind to all readers."),
    ]
)


def test_a_grown_catalog_starts_with_the_catalogs_own_items() -> None:
    assert tuple(grown(CATALOG, 2)) == tuple(CATALOG[:2])
    assert grown(CATALOG, 3).hash == CATALOG.hash


def test_a_grown_catalog_is_the_same_each_time_and_has_unique_identities_and_texts() -> None:
    one = grown(CATALOG, 50)
    assert one.hash == grown(CATALOG, 50).hash
    assert len({item.key for item in one}) == 50
    assert len({item.search_text for item in one}) == 50
    assert grown(CATALOG, 20).hash == Catalog(one[:20]).hash


def test_a_variation_takes_every_second_word_from_another_item_and_keeps_the_shape() -> None:
    made = grown(CATALOG, 6)[3:]
    assert made[0].name == "get_weather_v1"
    # get_weather's words with those of the item one place further, send_mail, in every second place
    assert made[0].description == "Tells Sends weather a a letter"
    assert made[0].schema == {"type": "object"}
    assert made[1].server == "post"
    assert made[2].text == "Be Tells\n\nBe the to weather readers."


def test_a_name_that_is_taken_gets_more_underscores() -> None:
    catalog = Catalog([Item(type="tool", name="a"), Item(type="tool", name="a_v1")])
    assert [item.name for item in grown(catalog, 4)] == ["a", "a_v1", "a__v1", "a_v1_v1"]


def test_a_single_item_grows() -> None:
    assert len({item.search_text for item in grown(Catalog(CATALOG[:1]), 9)}) == 9


def test_nothing_cannot_grow() -> None:
    with pytest.raises(ParameterError, match="the catalog is empty"):
        grown(Catalog([]), 5)
    with pytest.raises(ParameterError, match="1 or more, got 0"):
        grown(CATALOG, 0)


def test_requests_are_made_of_different_descriptions() -> None:
    made = requests_like(CATALOG, 2)
    assert [request.text for request in made] == ["Tells the weather of a city.", "Sends a letter to one person."]
    assert len(requests_like(CATALOG)) == 3
    assert requests_like(Catalog([Item(type="tool", name="a")]))[0].text == "a"
    assert requests_like(Catalog([])) == ()
