from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxbench.core.errors import InputError, ParameterError
from ctxbench.core.items import ITEM_TYPES, Catalog, Item, ItemKey

PROPERTY = settings(max_examples=100, deadline=None, database=None, derandomize=True)
NAMES = st.text(st.characters(), min_size=1, max_size=8)


def tool(name: str, **given) -> Item:
    return Item(type="tool", server="s", name=name, **given)


class TestItemKey:
    @pytest.mark.parametrize(
        ("key", "text"),
        [
            (ItemKey("tool", "tracker", "create_issue"), "tool:tracker:create_issue"),
            (ItemKey("rule", None, "code review"), "rule:code%20review"),
            (ItemKey("tool", "a:b", "c"), "tool:a%3Ab:c"),
            (ItemKey("tool", "a", "b:c"), "tool:a:b%3Ac"),
            (ItemKey("file", None, "src/ä.py\t"), "file:src%2F%C3%A4.py%09"),
            (ItemKey("rule", None, "100%"), "rule:100%25"),
            (ItemKey("rule", None, "a.b_c-d~e"), "rule:a.b_c-d~e"),
        ],
    )
    def test_ids_are_percent_encoded(self, key, text):
        assert key.id == text
        assert ItemKey.parse(text) == key

    @PROPERTY
    @given(st.sampled_from(ITEM_TYPES), st.none() | NAMES, NAMES)
    def test_any_key_survives_its_id(self, kind, server, name):
        key = ItemKey(kind, server, name)
        assert ItemKey.parse(key.id) == key
        assert not set(key.id) & set(" \t\n/")

    def test_half_a_character_survives_too(self):
        key = ItemKey("rule", None, "x\ud83d")
        assert ItemKey.parse(key.id) == key

    @PROPERTY
    @given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
    def test_different_keys_have_different_ids(self, one, other):
        ids = {ItemKey("tool", *one).id, ItemKey("tool", *other).id}
        assert len(ids) == (1 if one == other else 2)

    @pytest.mark.parametrize("text", ["", "tool", "tool:", "tool::x", ":x", "tool:a:b:c", "tool:%FF", "tool:%ED%A0"])
    def test_what_is_no_id_is_named(self, text):
        with pytest.raises(ParameterError, match="is no item id"):
            ItemKey.parse(text)


class TestItem:
    def test_search_text_leaves_empty_parts_out_with_their_separators(self):
        assert Item(type="rule", name="n", description="d", text="t").search_text == "n: d\n\nt"
        assert Item(type="rule", name="n", text="t").search_text == "n\n\nt"
        assert Item(type="reference", name="n", description="d").search_text == "n: d"
        assert Item(type="rule", name="n").search_text == "n"

    def test_search_text_of_a_tool_has_no_body(self):
        assert tool("n", description="d", text="t", schema={"type": "object"}).search_text == "n: d"

    def test_prompt_text_of_a_tool_is_its_definition(self):
        item = tool("n", description="ä \n", schema={"type": "object"})
        assert item.prompt_text == '{"name":"n","description":"ä \\n","inputSchema":{"type":"object"}}'
        assert tool("n").prompt_text == '{"name":"n","description":"","inputSchema":{}}'

    def test_prompt_text_of_rules_and_references_is_their_message(self):
        assert Item(type="rule", name="n", description="d", text="t").prompt_text == "Rule: t"
        assert Item(type="reference", name="n", text="t").prompt_text == "Reference: t"
        assert Item(type="file", name="n", text="t").prompt_text == "t"

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"type": "rules", "name": "x"}, "item type must be one of rule, reference, .*, got 'rules'"),
            ({"type": "rule", "name": ""}, "needs a name"),
            ({"type": "rule", "name": "x", "include": "auto"}, r"always, manual, agent, got 'auto' \(item rule:x\)"),
        ],
    )
    def test_what_makes_no_item_is_named(self, given, message):
        with pytest.raises(ParameterError, match=message):
            Item(**given)

    def test_an_empty_server_is_none(self):
        assert Item(type="tool", server="", name="x").key == ItemKey("tool", None, "x")

    def test_a_row_holds_what_is_not_the_default(self):
        assert Item(type="rule", name="x").as_row() == {
            "_id": "rule:x", "title": "x", "text": "", "type": "rule", "name": "x",
        }  # fmt: skip
        full = tool("x", title="T", text="b", description="d", schema={}, include="always", enabled=False, priority=0)
        assert full.as_row() == {
            "_id": "tool:s:x", "title": "T", "text": "b", "type": "tool", "name": "x", "server": "s",
            "description": "d", "schema": {}, "include": "always", "enabled": False, "priority": 0,
        }  # fmt: skip


class TestCatalog:
    def test_positions_are_found_by_key_and_by_id(self):
        catalog = Catalog([tool("a"), tool("b")])
        assert len(catalog) == 2
        assert catalog.ids == ("tool:s:a", "tool:s:b")
        assert catalog.position("tool:s:b") == catalog.position(ItemKey("tool", "s", "b")) == 1
        assert catalog.find("tool:s:c") is None
        assert [item.name for item in catalog[:1]] == ["a"]

    def test_an_unknown_item_names_the_closest(self):
        with pytest.raises(ParameterError, match="no item 'tool:s:lost' in the catalog; did you mean 'tool:s:list'"):
            Catalog([tool("list")]).position("tool:s:lost")

    def test_all_items_that_stand_twice_are_named_at_once(self):
        with pytest.raises(InputError) as caught:
            Catalog([tool("a"), tool("b"), tool("a", description="other"), tool("b"), tool("a")])
        assert [fault.message for fault in caught.value.faults] == [
            "item tool:s:a stands at positions 0 and 2; identities must differ",
            "item tool:s:b stands at positions 1 and 3; identities must differ",
            "item tool:s:a stands at positions 0 and 4; identities must differ",
        ]

    def test_names_with_colons_stay_apart(self):
        one, other = Item(type="tool", server="a:b", name="c"), Item(type="tool", server="a", name="b:c")
        assert Catalog([one, other]).position(other.key) == 1

    def test_an_empty_catalog_has_a_hash(self):
        assert len(Catalog([])) == 0
        assert len(Catalog([]).hash) == 64

    @pytest.mark.parametrize(
        "changed",
        [
            tool("b"), tool("a", description="d"), tool("a", text="t"), tool("a", title="T"), tool("a", schema={}),
            tool("a", include="always"), tool("a", enabled=False), tool("a", priority=1), tool("a", metadata={"k": 1}),
        ],
    )  # fmt: skip
    def test_the_hash_sees_every_field(self, changed):
        assert Catalog([changed]).hash != Catalog([tool("a")]).hash

    def test_the_hash_sees_the_order_of_items_and_of_a_schemas_keys(self):
        assert Catalog([tool("a"), tool("b")]).hash != Catalog([tool("b"), tool("a")]).hash
        left, right = tool("a", schema={"x": 1, "y": 2}), tool("a", schema={"y": 2, "x": 1})
        assert left.prompt_text != right.prompt_text  # so they may cost another number of tokens
        assert Catalog([left]).hash != Catalog([right]).hash
