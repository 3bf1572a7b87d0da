"""Questions asked alike, whatever became of the items that they name: renamed, gone, new, in and out of scopes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.gate.baseline import write_baseline
from ctxbench.gate.baseline_reader import read_baseline
from ctxbench.gate.baseline_rows import RowError, item_from_row, item_row, query_from_row, query_row
from ctxbench.gate.comparability import assess_comparability, scopes_of
from ctxbench.gate.settings import CheckSettings
from ctxbench.model.items import Item
from ctxbench.model.requests import SessionItem
from tests.gate.gate_cases import item, item_id, offered, snapshot

PROPERTY = settings(max_examples=200, deadline=None, database=None, derandomize=True)
NAMES = "abcd"
ITEMS = {name: f"What {name} does." for name in NAMES}


def one(items, scopes=None, **fields):
    """A snapshot with a query `q`, and one `r` that names nothing."""
    return snapshot({"q": [], "r": []}, items=items, queries={"q": fields}, scopes=scopes or {})


def scoped(items=NAMES, members=NAMES, scope="team", **given):
    return one({name: ITEMS[name] for name in items}, {scope: list(members), "other": []}, scope=scope, **given)


def compared(base, head, **given):
    """Which queries are compared, after the base went through its files."""
    with TemporaryDirectory() as folder:
        write_baseline(Path(folder), [base], **given)
        (read,) = read_baseline(Path(folder))
    return assess_comparability(replace(read, source="gate.baseline"), head, CheckSettings(allow_removed=True))


def alike(base, head):
    found = compared(base, head)
    assert "r" in found.queries
    return "q" in found.queries


# ---------------------------------------------------------------------------------------------- scopes


def test_a_baseline_tells_what_scopes_hold():
    made = scoped(members="ac")
    assert scopes_of(made) == {"team": {item_id("a"), item_id("c")}}
    assert [item_row(fact).get("scopes") for fact in made.items.values()] == [["team"], None, ["team"], None]
    assert query_row(made.queries["q"])["scope"] == "team"
    assert [item_from_row(item_row(fact)) for fact in made.items.values()] == list(made.items.values())
    assert [query_from_row(query_row(fact)) for fact in made.queries.values()] == list(made.queries.values())


def test_a_scope_in_another_order_is_the_same():
    assert alike(scoped(members="abc"), scoped(members="cab"))


def test_a_scope_that_lost_what_is_gone_from_the_catalog_is_the_same():
    assert alike(scoped(), scoped(items="abc", members="abc"))


def test_a_scope_that_gained_what_is_new_in_the_catalog_is_the_same():
    assert alike(scoped(items="abc", members="abc"), scoped())


def test_a_scope_that_lost_or_gained_what_is_disabled_on_either_side_is_the_same():
    items = [item("a", ITEMS["a"]), item("b", ITEMS["b"], enabled=False)]
    off = one(items, {"team": ["a"]}, scope="team")
    assert alike(scoped(items="ab", members="ab"), off)
    assert alike(off, scoped(items="ab", members="ab"))


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ("abc", "ab", "scope team lost tool:s:c"),
        ("ab", "abcd", "scope team gained tool:s:c, tool:s:d"),
        ("abcd", "", "scope team lost tool:s:a, tool:s:b, tool:s:c, ..."),
        ("ab", "bc", "scope team lost tool:s:a and gained tool:s:c"),
    ],
)
def test_a_scope_that_lost_or_gained_what_both_catalogs_have_asks_otherwise(before, now, text):
    found = compared(scoped(members=before), scoped(members=now))
    assert (found.queries, found.left_out, found.reasons) == (("r",), {"changed": ("q",)}, ())
    assert found.notices == (f"changed: 1 query of gate.baseline (q; {text}), left out",)


def test_what_scopes_lost_is_the_reason_where_nothing_may_be_left_out():
    reasons = assess_comparability(
        replace(scoped(), judged=None, source="b"), scoped(members="abc"), CheckSettings()
    ).reasons
    what = "changed: 1 query of b (q; scope team lost tool:s:d)"
    assert reasons == (f"{what}; accept a new baseline (--accept), or leave them out with --allow-removed",)


def test_how_a_scope_is_called_and_whether_it_is_a_list_does_not_matter():
    keys = tuple(item(name).key for name in "abc")
    listed = one(ITEMS, available=keys)
    assert alike(scoped(members="abc"), scoped(members="abc", scope="crew"))
    assert alike(scoped(members="abc"), listed)
    assert alike(listed, scoped(members="cba"))
    assert not alike(scoped(members="ab"), scoped(members="abc", scope="crew"))
    assert not alike(scoped(members="ab"), listed)


def test_the_whole_catalog_is_another_question_than_a_list_of_all_of_it():
    everything = one(ITEMS)
    assert not alike(scoped(), everything)
    assert not alike(everything, scoped())
    assert not alike(one(ITEMS, available=tuple(item(name).key for name in NAMES)), everything)


def test_a_scope_of_a_query_with_another_text_is_not_said_to_have_changed():
    found = compared(scoped(), scoped(text="other"))
    assert found.notices == ("changed: 1 query of gate.baseline (q), left out",)


def test_a_scope_holds_a_renamed_item_under_its_new_name():
    items = {"z" if name == "a" else name: text for name, text in ITEMS.items()}
    assert alike(scoped(members="ab"), one(items, {"team": ["b", "z"]}, scope="team"))
    assert not alike(scoped(members="ab"), one(items, {"team": ["b"]}, scope="team"))


def test_scopes_are_told_without_texts_too():
    found = compared(scoped(), scoped(members="abc"), texts=False)
    assert found.left_out == {"changed": ("q",)}


@given(st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)), st.data())
@PROPERTY
def test_a_scope_asks_alike_if_it_holds_the_same_of_what_both_catalogs_have(before, now, data):
    has = data.draw(st.sets(st.sampled_from(NAMES), min_size=1).map(sorted))
    had = data.draw(st.sets(st.sampled_from(NAMES), min_size=1).map(sorted))
    base, head = scoped(had, sorted(before & {*had})), scoped(has, sorted(now & {*has}))
    both = {*had} & {*has}
    found = assess_comparability(replace(base, judged=None), head, CheckSettings(allow_removed=True))
    assert ("q" in found.queries) == (before & both == now & both)


# ---------------------------------------------------------------------------------------------- renames

FIELDS = {
    "session": lambda key: (SessionItem(key), SessionItem(item("d").key, "always")),
    "removed": lambda key: (item("c").key, key),
    "explicit": lambda key: (key, item("c").key),
    "recent": lambda key: (key, item("c").key),
    "uses": lambda key: ((key, 2), (item("c").key, 1)),
    "available": lambda key: (key, item("c").key),
    "result by name": lambda key: ((key.name, "7"), ("else", "8")),
    "result by server and name": lambda key: ((f"{key.server}/{key.name}", "7"),),
    "result by id": lambda key: ((key.id, "7"),),
}  # fmt: skip


def naming(field, name, items=ITEMS):
    """A query that names an item in a field; what its session holds is offered."""
    value = FIELDS[field](item(name).key)
    made = one(items, **{"tool_results" if field.startswith("result") else field: value})
    if field == "session":
        held = [offered(one.key.name, mode=one.mode) for one in value]
        made = snapshot({"q": held, "r": []}, items=items, queries={"q": {"session": value}})
    return made


def with_new_name():
    return {"z" if name == "a" else name: text for name, text in ITEMS.items()}


@pytest.mark.parametrize("field", FIELDS)
def test_a_renamed_item_is_the_same_wherever_a_query_names_it(field):
    assert alike(naming(field, "a"), naming(field, "z", with_new_name()))


@pytest.mark.parametrize("field", FIELDS)
def test_another_item_is_another_question_wherever_a_query_names_it(field):
    assert not alike(naming(field, "a"), naming(field, "b"))
    assert not alike(naming(field, "a"), naming(field, "b", with_new_name()))


@pytest.mark.parametrize("field", ["session", "removed", "explicit", "recent", "available"])
def test_a_list_that_lost_what_is_gone_is_the_same_and_one_that_lost_what_is_there_is_not(field):
    left = {name: text for name, text in ITEMS.items() if name != "a"}
    base, value = naming(field, "a"), FIELDS[field](item("a").key)
    rest = tuple(one for one in value if getattr(one, "key", one) != item("a").key)
    held = [offered(one.key.name, mode=one.mode) for one in rest] if field == "session" else []
    assert alike(base, snapshot({"q": held, "r": []}, items=left, queries={"q": {field: rest}}))
    assert not alike(base, snapshot({"q": held, "r": []}, items=ITEMS, queries={"q": {field: rest}}))


@pytest.mark.parametrize("names", ["dab", "bad", "adb"])
def test_a_session_in_another_order_is_the_same_also_without_what_is_gone(names):
    def holding(names, items):
        value = tuple(SessionItem(item(name).key, "always" if name == "d" else "manual") for name in names)
        held = [offered(one.key.name, mode=one.mode) for one in sorted(value, key=lambda one: one.key.id)]
        return snapshot({"q": held, "r": []}, items=items, queries={"q": {"session": value}})

    left = {name: text for name, text in ITEMS.items() if name != "a"}
    for written in (names, "abd"):
        assert alike(holding(names, ITEMS), holding(written, ITEMS))
        assert alike(holding(names, ITEMS), holding(written.replace("a", ""), left))
        assert not alike(holding(names, ITEMS), holding(written.replace("a", ""), ITEMS))


@pytest.mark.parametrize("field", ["session", "removed", "explicit"])
def test_a_list_that_gained_what_is_new_asks_otherwise(field):
    few = {name: text for name, text in ITEMS.items() if name != "a"}
    keys = (item("c").key, item("d").key)
    value = tuple(map(SessionItem, keys)) if field == "session" else keys
    more = (*value, SessionItem(item("a").key) if field == "session" else item("a").key)
    assert not alike(one(few, **{field: value}), one(ITEMS, **{field: more}))


def test_a_result_of_another_tool_of_the_new_name_stays_what_it_was():
    """`a` of server s is `find` now, the name that a tool of server t has had all along."""

    def asked(name):
        own = Item(type="tool", server="s", name=name, description="What a does.")
        other = Item(type="tool", server="t", name="find", description="Finds.")
        return one([own, other], tool_results=(("find", "7"),), session=(SessionItem(own.key),))

    base, head = asked("a"), asked("find")
    held = {side: offered(f"tool:s:{name}", mode="manual") for side, name in ((base, "a"), (head, "find"))}
    base, head = (replace(side, answers=snapshot({"q": [held[side]], "r": []}).answers) for side in (base, head))
    assert alike(base, head)


def test_labels_and_questions_are_held_against_each_other_each_alone():
    """The label follows the renamed item, the question names a tool of its new name all along."""

    def asked(name):
        own = Item(type="tool", server="s", name=name, description="What a does.")
        other = Item(type="tool", server="t", name="find", description="Finds.")
        results = {"q": {"tool_results": (("find", "7"),)}}
        return snapshot({"q": [], "r": []}, items=[own, other], queries=results, required={"q": [f"tool:s:{name}"]})

    assert alike(asked("a"), asked("find"))


# ---------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"scope": 7}, "scope must be a text, got 7"),
        ({"available": "tool:s:a"}, "available must be a list, got 'tool:s:a'"),
        ({"removed": [7]}, r"removed\[0\] must be a text, got 7"),
        ({"explicit": ["a"]}, "'a' is no item id"),
    ],
)
def test_a_line_of_a_query_that_is_none_is_damaged(change, text):
    row = query_row(scoped().queries["q"])
    with pytest.raises(RowError, match=text):
        query_from_row({**row, **change})


def test_a_line_of_an_item_with_scopes_that_are_none_is_damaged():
    with pytest.raises(RowError, match="scopes must be a list, got 'team'"):
        item_from_row({**item_row(scoped().items[item_id("a")]), "scopes": "team"})
