from __future__ import annotations

import copy
import hashlib
import pickle
from dataclasses import replace
from urllib.parse import quote

import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import InputError, ParameterError
from ctxbench.model import items
from ctxbench.model.items import ITEM_TYPES, TEXT_FIELDS, Catalog, Item, ItemKey, ItemsByKey, Link
from ctxbench.model.requests import Batch
from ctxbench.search.words import field_words
from ctxbench.selectors.protocol import catalog_hash
from tests.code_history import history, request

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

    def test_every_character_is_encoded_as_by_the_standard_library(self):
        every = "".join(map(chr, range(128)))
        for name in (every, f"{every}é", "src/a b.py::C.d@0f"):
            assert ItemKey("file", None, name).id == f"file:{quote(name, safe='')}"

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

    @pytest.mark.parametrize("kind", ["message", "memory"])
    def test_of_messages_and_memories_the_text_alone_is_searched(self, kind):
        assert Item(type=kind, name="n", description="d", text="t").search_text == "t"
        assert Item(type=kind, name="n", description="d").search_text == "n: d"

    @pytest.mark.parametrize("kind", ["file", "chunk"])
    def test_a_file_is_searched_by_its_path_once_and_not_by_the_name_of_a_version(self, kind):
        version = Item(type=kind, name="a/b.py@1f", title="a/b.py", text="x = 1")
        assert [version.path, version.search_text] == ["a/b.py", "a/b.py\n\nx = 1"]
        said = Item(type=kind, name="a/b.py@1f", title="a/b.py", text="a/b.py\n\nx = 1")
        assert [said.search_text, said.prompt_text] == [said.text] * 2
        assert Item(type=kind, name="a/b.py", text="x = 1").search_text == "a/b.py\n\nx = 1"
        assert [dict(field_words(one))["name"] for one in (version, said)] == [["a", "b", "py", "abpy"]] * 2
        assert [dict(field_words(one))["text"] for one in (version, said)] == [["x", "1"]] * 2
        assert Item(type="rule", name="n", title="other").search_text == "n"

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

    def test_the_digest_of_a_text_is_made_once_and_is_of_no_copy(self):
        item, text = Item(type="file", name="f", text="größe \ud800"), "größe \ud800".encode("utf-8", "surrogatepass")
        assert item.text_digest == hashlib.sha256(text).digest()
        assert item.text_digest is item.text_digest
        for same in (pickle.loads(pickle.dumps(item)), copy.copy(item), copy.deepcopy(item)):
            assert (same, same.text_digest) == (item, item.text_digest)
        assert replace(item, text="x").text_digest == hashlib.sha256(b"x").digest()

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

    def test_only_a_text_or_a_whole_number_in_the_metadata_names_an_item(self):
        values = ["a7", 0, {"a": 1}, True, None, 1.5, "x1"]
        catalog = Catalog([tool(f"x{position}", metadata={"id": value}) for position, value in enumerate(values)])
        named = catalog.named.keys() - {*catalog.ids} - {item.name for item in catalog}
        assert named == {"a7", "0"}
        assert catalog.named["x1"] == 1

    def test_an_unknown_item_names_the_closest(self):
        with pytest.raises(ParameterError, match="no item 'tool:s:lost' in the catalog; did you mean 'tool:s:list'"):
            Catalog([tool("list")]).position("tool:s:lost")

    def test_all_items_that_stand_twice_are_named_at_once(self):
        with pytest.raises(InputError) as caught:
            Catalog([tool("a"), tool("b"), tool("a", description="other"), tool("b"), tool("a")])
        assert [fault.message for fault in caught.value.faults] == [
            "item tool:s:a is at positions 0 and 2; identities must differ",
            "item tool:s:b is at positions 1 and 3; identities must differ",
            "item tool:s:a is at positions 0 and 4; identities must differ",
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

    def test_the_hash_stays_from_one_version_to_the_next(self):  # run folders and baselines hold it
        catalog = history(("first", {"a.py": "one"}), ("second", {"a.py": "two"}))
        assert catalog.hash == "d087e6796c12a2d48dc704b69a62df18c0e69899b8f4934d8781ba10329943c3"
        batch = Batch.of(catalog, [request("x", 1), request("y", 2), request("z", 2, id="again")])
        first, second, third = (catalog_hash(batch, row) for row in range(3))
        assert first == "3f8eaecb869dc624624180f40c8089c62062682b5ab816b63714c452dc85cf92"
        assert first != second == third

    def test_the_hash_sees_the_order_of_items_and_of_a_schemas_keys(self):
        assert Catalog([tool("a"), tool("b")]).hash != Catalog([tool("b"), tool("a")]).hash
        left, right = tool("a", schema={"x": 1, "y": 2}), tool("a", schema={"y": 2, "x": 1})
        assert left.prompt_text != right.prompt_text  # so they may cost another number of tokens
        assert Catalog([left]).hash != Catalog([right]).hash


FIELDS = ("search_text", "include")
WORDS = st.sampled_from(["", "one", "two words", "\ud83d", "ä"])


@st.composite
def grown(draw) -> list[list[Item]]:
    """Lists of items that stand behind one another, with identities that differ."""
    sizes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    numbers = iter(range(sum(sizes)))
    return [
        [
            tool(
                f"t{next(numbers)}",
                description=draw(WORDS),
                priority=draw(st.none() | st.just(1)),
                workspace=draw(st.sampled_from([None, "w", "v"])),
                user=draw(st.sampled_from([None, "u"])),
                created=draw(st.sampled_from([None, "2024-01-01"])),
                confidence=draw(st.sampled_from([None, 0.5])),
                kind=draw(st.sampled_from([None, "k", "l"])),
                include=draw(st.sampled_from(["agent", "always"])),
                links=tuple(Link(draw(st.sampled_from("xy")), tool("t0").key) for _ in range(draw(st.integers(0, 2)))),
            )
            for _ in range(size)
        ]
        for size in sizes
    ]


def facts_of(catalog: Catalog) -> dict:
    """The facts of a catalog, as plain values."""
    facts = catalog.facts
    named = {name: getattr(facts, name) for name in ("type", "workspace", "user", "conversation", "kind")}
    rows = {name: (one.code.tolist(), one.names) for name, one in named.items()} | {"links": facts.link_types}
    arrays = ("searchable", "always_offered", "created", "until", "confidence", "link_start", "link_item", "link_type")
    return rows | {name: getattr(facts, name).tobytes() for name in arrays}


class TestExtended:
    @PROPERTY
    @given(grown(), st.sets(st.sampled_from(["hash", "some", "ids", "facts"])))
    def test_an_extended_catalog_is_one_made_anew_whatever_was_asked_before(self, parts, asked):
        catalog = Catalog([])
        for part in parts:
            for name in asked:
                _ = catalog.hash_of(*FIELDS) if name == "some" else getattr(catalog, name)
            catalog = catalog.extended(part)
        anew = Catalog(item for part in parts for item in part)
        assert list(catalog) == list(anew)
        assert (catalog.hash, catalog.hash_of(*FIELDS), catalog.ids) == (anew.hash, anew.hash_of(*FIELDS), anew.ids)
        assert [catalog.position(item.key) for item in anew] == list(range(len(anew)))
        assert facts_of(catalog) == facts_of(anew)

    @PROPERTY
    @given(grown(), st.sets(st.sampled_from(["hash", "some", "until", "ids", "facts"])), st.data())
    def test_so_is_one_whose_items_ended(self, parts, asked, data):
        catalog, anew = Catalog([]), []
        for part in parts:
            for name in data.draw(st.sets(st.sampled_from(sorted(asked)))) if asked else ():
                hashed = {"some": FIELDS, "until": ("name", "until")}.get(name)
                _ = catalog.hash_of(*hashed) if hashed else getattr(catalog, name)
            days = st.sampled_from(["2024-02-01", "2025-01-01"])
            ends = data.draw(st.dictionaries(st.integers(0, len(anew) - 1), days, max_size=3)) if anew else {}
            before, rows = catalog, list(catalog)
            anew = [replace(item, until=ends.get(place, item.until)) for place, item in enumerate(anew)] + part
            catalog = catalog.extended(part, ends=ends)
            assert list(before) == rows
            assert before.facts.until.tolist() == Catalog(rows).facts.until.tolist()
        other = Catalog(anew)
        assert list(catalog) == anew
        for names in (FIELDS, ("name", "until")):
            assert catalog.hash_of(*names) == other.hash_of(*names)
        assert (catalog.hash, catalog.ids) == (other.hash, other.ids)
        assert facts_of(catalog) == facts_of(other)

    def test_of_what_ended_only_the_hashes_over_its_end_start_anew(self):
        catalog = Catalog([tool("a"), tool("b")])
        known = catalog.hash_of("name")
        _ = catalog.hash, catalog.hash_of("name", "until")
        ended = catalog.extended([tool("c")], ends={0: "2025-01-01"})
        assert [item.until for item in ended] == ["2025-01-01", None, None]
        assert list(ended.prefixes("name")) == [(2, known)]
        assert list(ended.prefixes("name", "until")) == []
        assert catalog.extended([], ends={}) is catalog
        assert catalog.extended([], ends={1: "2025-01-01"})[1].until == "2025-01-01"

    def test_what_was_computed_is_carried_on_and_not_computed_again(self):
        read = []

        class Told(Item):
            __slots__ = ()

            def as_row(self):
                read.append(self.name)
                return super().as_row()

        catalog = Catalog([Told(type="rule", name="a"), Told(type="rule", name="b")])
        assert catalog.hash
        extended = catalog.extended([Told(type="rule", name="c")])
        assert extended.hash == Catalog(extended).hash
        assert read == ["a", "b", "c", *"abc"]

    def test_a_catalog_is_extended_while_another_thread_asks_for_a_hash(self, monkeypatch):
        catalog = Catalog([tool("a")])
        assert catalog.hash
        hashed = items.hashed

        def meanwhile(*given, **more):
            monkeypatch.setattr(items, "hashed", hashed)
            catalog.hash_of("name")  # as another thread would, between two hashes
            return hashed(*given, **more)

        monkeypatch.setattr(items, "hashed", meanwhile)
        assert catalog.extended([tool("b")]).hash == Catalog([tool("a"), tool("b")]).hash

    def test_a_catalog_stays_as_it_is_and_can_be_extended_in_several_ways(self):
        catalog = Catalog([tool("a")])
        before = catalog.hash
        one, other = catalog.extended([tool("b")]), catalog.extended([tool("c")])
        assert (len(catalog), catalog.hash, catalog.find(tool("b").key)) == (1, before, None)
        assert [item.name for item in one] == ["a", "b"]
        assert [item.name for item in other] == ["a", "c"]
        assert other.hash == Catalog([tool("a"), tool("c")]).hash
        assert one.find(tool("c").key) is None

    def test_a_link_may_lead_to_what_was_there_before_or_to_what_comes_with_it(self):
        catalog = Catalog([tool("a")])
        _ = catalog.facts
        extended = catalog.extended([tool("b", links=(Link("x", tool("a").key), Link("y", tool("c").key))), tool("c")])
        assert extended.facts.linked(1) == [("x", 0), ("y", 2)]
        with pytest.raises(InputError, match="leads to 'tool:s:d', which the catalog does not hold"):
            _ = catalog.extended([tool("b", links=(Link("x", tool("d").key),))]).facts

    def test_no_items_are_the_catalog_itself(self):
        catalog = Catalog([tool("a")])
        assert catalog.extended([]) is catalog

    def test_identities_that_are_there_are_faults_all_at_once_and_nothing_is_made(self):
        catalog = Catalog([tool("a"), tool("b")])
        with pytest.raises(InputError) as caught:
            catalog.extended([tool("c"), tool("b"), tool("c"), tool("d")])
        with pytest.raises(InputError) as anew:
            Catalog([*catalog, tool("c"), tool("b"), tool("c"), tool("d")])
        assert [fault.message for fault in caught.value.faults] == [fault.message for fault in anew.value.faults]
        assert "item tool:s:b is at positions 1 and 3" in str(caught.value)
        assert (len(catalog), catalog.find(tool("c").key), catalog.extended([tool("c")]).position("tool:s:c")) == (
            2, None, 2,
        )  # fmt: skip

    def test_the_hash_of_a_shared_catalog_is_made_once_for_all_that_extend_it(self):
        base = Catalog([tool("a")])
        first, second = (base.extended([tool(name)], shares=True).extended([tool("c")]) for name in "bd")
        assert list(first.prefixes("name")) == list(second.prefixes("name")) == [(1, base.hash_of("name"))]
        anew = Catalog([tool("a"), tool("b"), tool("c")])
        assert (first.hash, first.hash_of("name")) == (anew.hash, anew.hash_of("name"))
        ended = first.extended([], ends={0: "2026-03-01"})
        assert list(ended.prefixes("until")) == []
        assert ended.hash == Catalog(ended).hash

    def test_prefixes_are_those_whose_hash_was_asked_for_and_what_extends_them(self):
        first = Catalog([tool("a")])
        unasked = first.extended([tool("b")])
        assert list(unasked.prefixes("name")) == []
        known = first.hash_of("name")
        second = first.extended([tool("b")])
        third = second.extended([tool("c"), tool("d")])
        assert list(third.prefixes("name")) == [(2, second.hash_of("name")), (1, known)]
        assert list(third.prefixes("text")) == []

    def test_a_hash_of_some_attributes_does_not_see_the_others(self):
        one, other = Catalog([tool("a", priority=1)]), Catalog([tool("a", include="manual", enabled=False)])
        assert one.hash != other.hash
        assert one.hash_of("search_text") == other.hash_of("search_text") != other.hash_of("include")
        assert Catalog([tool("a"), tool("b")]).hash_of("name") != Catalog([tool("b"), tool("a")]).hash_of("name")
        with pytest.raises(ParameterError, match="needs the name of an attribute"):
            one.hash_of()

    @pytest.mark.parametrize("kind", ITEM_TYPES)
    def test_all_texts_of_an_item_are_made_of_the_fields_of_texts(self, kind):
        server = "s" if kind == "tool" else None
        texts = {
            "server": server,
            "name": "n",
            "description": "d",
            "text": "t",
            "schema": {"type": "object"},
            "title": "T",
        }
        others = {"include": "manual", "enabled": False, "priority": 100, "metadata": {"a": 1}}
        facts = {"workspace": "w", "user": "u", "conversation": "c", "kind": "k", "created": "2026-01-01"}
        plain, full = (
            Item(type=kind, **texts),
            Item(type=kind, **texts, **others, **facts, until="2027-01-01", confidence=0.5),
        )
        assert {"type", *texts} == set(TEXT_FIELDS)
        for name in ("id", "search_text", "prompt_text", "body"):
            assert getattr(plain, name) == getattr(full, name)

    def test_a_catalog_can_be_pickled(self):
        catalog = Catalog([tool("a")])
        extended = catalog.extended([tool("b")])
        assert extended.hash == pickle.loads(pickle.dumps(extended)).hash != catalog.hash


def test_items_by_key_are_those_of_a_dict_of_their_first() -> None:
    items = [Item(type="tool", server=f"s{n % 3}", name=f"t{n % 400}") for n in range(1_000)]
    by_key = ItemsByKey(items)
    expected = {item.key: item for item in reversed(items)}
    first = {key: items.index(item) for key, item in expected.items()}
    assert by_key == expected
    assert all(by_key[key] is item for key, item in expected.items())
    assert by_key.repeats == [(first[item.key], n) for n, item in enumerate(items) if first[item.key] != n]
    absent = ItemKey("tool", None, "t1")
    assert (by_key.find(absent), by_key.get(absent), absent in by_key) == (None, None, False)
    assert len(ItemsByKey([])) == 0
    assert absent not in ItemsByKey([])


def test_the_table_of_keys_grows_with_a_catalog_and_leaves_the_old_one_alone() -> None:
    catalogs = [Catalog(())]
    for n in range(70):
        catalogs.append(catalogs[-1].extended([Item(type="rule", name=f"r{n}")]))
    for size, catalog in enumerate(catalogs):
        assert [catalog.find(ItemKey("rule", None, f"r{n}")) for n in range(71)] == [
            n if n < size else None for n in range(71)
        ]
