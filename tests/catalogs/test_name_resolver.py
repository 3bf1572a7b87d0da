"""Which item the name in a log is."""

from __future__ import annotations

from collections import Counter

import pytest

from ctxbench.labelling.record_files import NameResolver, named, unresolved
from ctxbench.model.items import Catalog, Item, ItemKey

SUM = ItemKey("tool", "b", "sum")
LONG = "read_the_current_position_of_every_robot_arm"
ITEMS = [
    ("tracker", "create_issue"),
    ("tracker", "search_issues"),
    ("forge", "create_issue"),
    ("My Files", "Read File"),
    ("a_b", "c"),
    ("a", "b_c"),
    ("factory-floor-controller", LONG),
    ("factory-floor-controller", LONG + "_and_its_speed"),
    (None, "sum"),
]


@pytest.fixture
def names():
    tools = [Item(type="tool", server=server, name=name) for server, name in ITEMS]
    return NameResolver(Catalog([*tools, Item(type="rule", name="create_issue"), Item(type="rule", name="no secrets")]))


@pytest.mark.parametrize(
    ("name", "item", "rule"),
    [
        ("tool:tracker:create_issue", "tool:tracker:create_issue", "id"),
        ("rule:no%20secrets", "rule:no%20secrets", "id"),
        ("search_issues", "tool:tracker:search_issues", "name"),
        ("sum", "tool:sum", "name"),
        ("mcp__tracker__create_issue", "tool:tracker:create_issue", "joined"),
        ("tracker__create_issue", "tool:tracker:create_issue", "joined"),
        ("tracker.create_issue", "tool:tracker:create_issue", "joined"),
        ("tracker/create_issue", "tool:tracker:create_issue", "joined"),
        ("tracker:create_issue", "tool:tracker:create_issue", "joined"),
        ("functions.tracker.create_issue", "tool:tracker:create_issue", "joined"),
        ("mcp__my_files__read_file", "tool:My%20Files:Read%20File", "joined"),
        ("a_b__c", "tool:a_b:c", "joined"),
        ("mcp__a__b_c", "tool:a:b_c", "joined"),
        ("tool:my_files:Read File", "tool:My%20Files:Read%20File", "joined"),
        ("tracker_create_issue", "tool:tracker:create_issue", "cleaned"),
        ("Tracker-Create-Issue", "tool:tracker:create_issue", "cleaned"),
        ("searchIssues", None, "unknown"),
        ("search-issues", "tool:tracker:search_issues", "cleaned"),
        ("mcp_tracker_create_issue", "tool:tracker:create_issue", "joined"),
        ("functions.sum", "tool:sum", "cleaned"),
        ("create_issue", None, "ambiguous"),
        ("a_b_c", None, "ambiguous"),
        ("no secrets", None, "unknown"),
        ("bash", None, "unknown"),
        ("mcp__tracker__delete_issue", None, "unknown"),
        ("::", None, "unknown"),
        ("%FF", None, "unknown"),
    ],
)
def test_names_are_resolved_by_rule(names, name, item, rule):
    found = names.resolve(name)
    assert (found.key.id if found.key else None, found.rule) == (item, rule)


def test_an_item_that_was_renamed_goes_by_its_names_before_too():
    old, new = ItemKey("tool", "tracker", "file_bug"), ItemKey("tool", "tracker", "create_issue")
    catalog = Catalog([Item(type="tool", server=server, name=name) for server, name in ITEMS])
    renames = {old: new, ItemKey("tool", "forge", "create_issue"): new}  # the second is still there, and itself
    names = NameResolver(catalog, renames)
    for name in ("tool:tracker:file_bug", "file_bug", "mcp__tracker__file_bug", "tracker-file-bug"):
        assert names.resolve(name).key == new, name
    assert names.resolve("tool:forge:create_issue").key == ItemKey("tool", "forge", "create_issue")
    moved = NameResolver(Catalog([Item(type="tool", server="b", name="sum")]), {ItemKey("tool", "a", "sum"): SUM})
    assert [moved.resolve(name).key for name in ("sum", "a.sum", "b.sum")] == [SUM] * 3


def test_a_name_that_was_cut_is_found_by_its_start(names):
    joined = f"mcp__factory_floor_controller__{LONG}_and_its_speed"
    assert len(joined) > 64
    plain = joined[:45]
    assert names.resolve(plain).rule == "unknown"  # too short to have been cut
    both = f"{joined[:54]}_1f3a9c0d"  # both tools start so
    assert len(both) == 63
    found = names.resolve(both)
    assert (found.key, found.rule, len(found.candidates)) == (None, "ambiguous", 2)


def test_a_name_that_was_cut_is_found_where_one_item_starts_so():
    tool = Item(type="tool", server="factory-floor-controller", name=LONG + "_and_its_speed")
    names = NameResolver(Catalog([tool]))
    joined = f"mcp__factory_floor_controller__{LONG}"
    for cut in (joined[:64], f"{joined[:57]}_1f3a9c", f"{joined[:55]}-1f3a9c0d"):
        assert (names.resolve(cut).key, names.resolve(cut).rule) == (tool.key, "cut")


def test_ambiguous_names_say_what_they_may_mean(names):
    assert [key.id for key in names.resolve("create_issue").candidates] == [
        "tool:tracker:create_issue",
        "tool:forge:create_issue",
    ]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("x", "x"),
        ({"server": "tracker", "name": "create_issue"}, "tool:tracker:create_issue"),
        ({"tool": "a.b", "status": "ok"}, "a.b"),
        ({"id": "tool:a:b"}, "tool:a:b"),
        ({"id": "toolu_1", "type": "tool_use", "name": "a__b"}, "a__b"),
        ({"name": "a", "inputSchema": {}}, "a"),
        ({"type": "function", "function": {"name": "a"}}, "a"),
    ],
)
def test_names_come_as_texts_objects_and_definitions(value, name):
    assert named(value) == name


@pytest.mark.parametrize("value", [None, 3, "", " ", {}, {"name": 3}, ["a"]])
def test_what_names_nothing_is_an_error(value):
    with pytest.raises(TypeError):
        named(value)


def test_unresolved_names_are_ordered_by_how_often_they_stand_there(names):
    for name in ("x", "y", "sum", "z"):
        names.resolve(name)
    assert list(unresolved(names.resolved_names(), Counter(x=1, y=5, z=1), "unknown").items()) == [
        ("y", 5),
        ("x", 1),
        ("z", 1),
    ]
