"""What an item that is gone may be called now."""

from __future__ import annotations

from ctxbench.labelling.rebase import likely_successors
from ctxbench.model.items import Item


def found(gone, new, **options):
    pairs = likely_successors(gone, new, **options)
    return [(one.old.name, one.new.name, one.how.split(" ")[-1]) for one in pairs]


def tool(name, description=""):
    return Item(type="tool", name=name, description=description)


def test_a_name_or_a_description_much_like_its_own_makes_a_successor():
    gone = [tool("track_parcel"), tool("pay", "Pay an open invoice by card")]
    new = [tool("settle", "Pay an open invoice by transfer"), tool("track_parcels"), tool("zebra")]
    pairs = [("track_parcel", "track_parcels", "name"), ("pay", "settle", "description")]
    assert found(gone, new) == pairs
    assert found(gone, new[::-1]) == pairs
    assert found(gone[::-1], new) == pairs[::-1]


def test_another_type_is_none_and_a_new_item_is_taken_once():
    assert found([tool("refunds")], [Item(type="rule", name="refunds")]) == []
    assert found([tool("parcel_1"), tool("parcel_2")], [tool("parcel_2b"), tool("zebra")]) == [
        ("parcel_2", "parcel_2b", "name")
    ]


def test_the_only_one_that_is_gone_may_be_the_only_new_one_of_its_type():
    assert found([tool("a")], [tool("zebra")]) == [("a", "zebra", "new")]
    assert found([tool("a")], [tool("zebra")], alone=False) == []
    assert found([tool("a")], [tool("zebra"), tool("yak")]) == []
    assert found([tool("a"), tool("b")], [tool("zebra")]) == []
    assert found([], [tool("zebra")]) == found([tool("a")], []) == []


def test_where_a_whole_catalog_is_another_nothing_is_guessed():
    many = [tool(f"name_{number}") for number in range(400)]
    assert found(many, [tool(f"{one.name}_x") for one in many]) == []
