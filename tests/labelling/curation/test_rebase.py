"""Carrying a dataset to a changed catalog: what moves, what is lost, and that all of it is said."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.datasets.queries import Label
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.labelling.rebase import LostLabel, LostMention, rebase_dataset
from ctxbench.model.items import Catalog
from ctxbench.model.requests import SessionItem


def test_the_same_catalog_changes_nothing(tiny):
    found = rebase_dataset(tiny, tiny.catalog, version=tiny.version)
    assert found.dataset.hash == tiny.hash
    assert found.dataset.about["notes"][-1] == (
        f"Carried from tiny 1 {tiny.hash[:12]} to another catalog: 0 items renamed, 0 gone, 0 new, 0 changed; "
        "0 labels lost."
    )
    assert not any((found.renamed, found.gone, found.added, found.changed, found.lost_labels, found.lost_mentions))
    assert (found.open_queries, found.now_unlabelled) == (0, ())


def test_a_gone_item_leaves_its_queries_unlabelled_partly_labelled_or_without_an_alternative(make):
    data = make.dataset(
        ["gone", "a", "b"],
        [make.query(f"q{i}") for i in range(1, 7)] + [make.query("q7", needs_nothing=True)],
        [
            ("q1", "gone", 2),
            *[("q2", "gone", 2), ("q2", "a", 2)],
            *[Label("q3", make.key(n), 2, alternatives="x") for n in ("gone", "a", "b")],
            *[Label("q4", make.key(n), 2, alternatives="x") for n in ("gone", "a")],
            *[("q5", "gone", 1), ("q5", "a", 2)],
            ("q6", "b", 2),
            ("q7", "gone", 0),
        ],
    )
    found = rebase_dataset(data, Catalog([make.tool("a"), make.tool("b")]))
    assert found.gone == ("tool:s:gone",)
    assert found.lost_labels == (
        LostLabel("q1", "tool:s:gone", 2, "gone", "unlabelled"),
        LostLabel("q2", "tool:s:gone", 2, "gone", "partly labelled"),
        LostLabel("q3", "tool:s:gone", 2, "gone", "alternative lost"),
        LostLabel("q4", "tool:s:gone", 2, "gone", "alternative lost"),
        LostLabel("q5", "tool:s:gone", 1, "gone", "dropped"),
        LostLabel("q7", "tool:s:gone", 0, "gone", "dropped"),
    )
    assert found.now_unlabelled == found.dataset.unlabelled == ("q1", "q2")
    assert [q.id for q in found.dataset.queries if q.partly_labelled] == ["q2"]
    alternatives = {i.alternatives for i in found.dataset.labels_of("q3")}
    assert alternatives == {"x"}
    assert [i.alternatives for i in found.dataset.labels_of("q4")] == [""]  # one is left: it stands alone
    assert found.dataset.version == f"1+{found.dataset.catalog.hash[:8]}"
    assert "1 gone" in found.dataset.about["notes"][-1]


def test_a_rename_carries_everything_over(make):
    old, new = make.key("old"), make.key("new", "other")
    request = {"session": (SessionItem(old),), "explicit": (old,), "recent": (old,), "uses": ((old, 2),)}
    data = make.dataset(
        ["old", "a"],
        [
            make.query("q1", **request),
            make.query("q2", removed=(old,)),
            make.query("q3", available=(old,)),
            make.query("q4", scope="s", available=(old, make.key("a"))),
        ],
        [("q1", "old", 2), ("q2", "a", 2), ("q3", "old", 2), ("q4", "old", 2)],
        scopes={"s": (old, make.key("a"))},
    )
    catalog = Catalog([make.tool("new", server="other"), make.tool("a")])
    found = rebase_dataset(data, catalog, renames={old: new})
    q1, q2, q3, q4 = (query.request for query in found.dataset.queries)
    assert q1.session == (SessionItem(new),)
    assert (q1.explicit, q2.removed, q3.available) == ((new,), (new,), (new,))
    assert (q1.recent, q1.uses) == ((new,), ((new, 2),))
    assert q4.available == found.dataset.scopes["s"] == (new, make.key("a"))
    assert [label.item for label in found.dataset.labels if label.item.name == "new"] == [new] * 3
    assert [(one.old, one.new, one.how) for one in found.renamed] == [(old, new, "given")]
    assert not any((found.gone, found.added, found.changed, found.lost_labels, found.lost_mentions))


def test_the_card_says_what_was_renamed_over_several_times(make, tmp_path):
    data = make.dataset([make.tool("a", "Old."), "b"], [make.query("q")], [("q", "a", 2)])
    assert "renames" not in rebase_dataset(data, data.catalog).dataset.card
    for old, new, recorded in (
        ("a", "c", {"a": "c"}),
        ("c", "d", {"a": "d", "c": "d"}),
        ("d", "a", {"c": "a", "d": "a"}),
    ):
        catalog = Catalog([make.tool(new, f"New, as {new}."), make.tool("b")])
        moved = rebase_dataset(data, catalog, renames={make.key(old): make.key(new)}).dataset
        write_dataset(moved, tmp_path / "d")
        data = read_dataset(tmp_path / "d")
        assert data.renames == {make.key(one): make.key(other) for one, other in recorded.items()}
    write_dataset(rebase_dataset(data, Catalog([make.tool("a")])).dataset, tmp_path / "d")
    assert read_dataset(tmp_path / "d").renames == data.renames


def test_what_is_named_and_gone_is_listed_place_by_place(make):
    gone = make.key("gone")
    data = make.dataset(
        ["gone", "a"],
        [
            make.query("q1", session=(SessionItem(gone),), explicit=(gone,), recent=(gone,), uses=((gone, 1),)),
            make.query("q2", available=(gone, make.key("a"))),
            make.query("q3", scope="s", available=(gone,)),
        ],
        [("q1", "a", 2), ("q2", "a", 2)],
        scopes={"s": (gone,)},
    )
    found = rebase_dataset(data, Catalog([make.tool("a")]))
    assert found.lost_mentions == (
        LostMention("scope s", "tool:s:gone", "gone"),
        LostMention("query q1, session", "tool:s:gone", "gone"),
        *(LostMention(f"query q1, {what}", "tool:s:gone", "gone") for what in ("explicit", "recent", "uses")),
        LostMention("query q2, available", "tool:s:gone", "gone"),
    )
    assert found.dataset.queries[2].request.available == ()


@pytest.mark.parametrize(("change", "why"), [({"enabled": False}, "disabled"), ({"include": "manual"}, "by hand only")])
def test_what_no_selector_can_offer_any_more_is_no_label(make, change, why):
    data = make.dataset(["a", "b"], [make.query("q")], [("q", "a", 2), ("q", "b", 2)])
    found = rebase_dataset(data, Catalog([make.tool("a", **change), make.tool("b")]))
    assert found.lost_labels == (LostLabel("q", "tool:s:a", 2, why, "partly labelled"),)
    assert [one.id for one in found.changed] == ["tool:s:a"]


def test_the_same_content_elsewhere_is_proposed_and_followed_only_if_accepted(make):
    data = make.dataset(
        [make.tool("open", "Opens a ticket."), make.tool("close", "Closes it."), make.tool("bare")],
        [make.query("q1"), make.query("q2"), make.query("q3")],
        [("q1", "open", 2), ("q2", "close", 2), ("q3", "bare", 2)],
    )
    catalog = Catalog(
        [
            make.tool("open", "Opens a ticket.", server="new"),
            make.tool("end", "Closes it."),
            make.tool("bare", server="n"),
        ]
    )
    found = rebase_dataset(data, catalog)
    assert [(one.old.name, one.new.id, one.how) for one in found.proposed] == [
        ("open", "tool:new:open", "same content on another server"),
        ("close", "tool:s:end", "same content under another name"),
    ]
    assert found.dataset.unlabelled == ("q1", "q2", "q3")
    assert found.gone == ("tool:s:open", "tool:s:close", "tool:s:bare")
    taken = rebase_dataset(data, catalog, accept=True)
    assert taken.dataset.unlabelled == ("q3",)  # a name alone is no content
    assert (taken.gone, taken.added) == (("tool:s:bare",), ("tool:n:bare",))
    assert taken.proposed == ()


def test_several_successors_are_a_doubt(make):
    data = make.dataset([make.tool("open", "Opens.")], [make.query("q")], [("q", "open", 2)])
    catalog = Catalog([make.tool("open", "Opens.", server=s) for s in ("one", "two")])
    found = rebase_dataset(data, catalog, accept=True)
    assert [[key.id for key in doubt.candidates] for doubt in found.ambiguous] == [["tool:one:open", "tool:two:open"]]
    assert found.gone == ("tool:s:open",)


def test_new_items_are_counted_by_the_queries_that_may_get_them(make):
    data = make.dataset(
        [make.tool("open_ticket", "Opens a ticket in the tracker."), make.tool("rain")],
        [make.query("q1"), make.query("q2"), make.query("q3", available=(make.key("open_ticket"),))],
        [("q1", "open_ticket", 2), ("q2", "rain", 2), ("q3", "open_ticket", 2)],
    )
    twin = make.tool("open_ticket", "Opens a ticket in the tracker, now.", server="new")
    found = rebase_dataset(data, Catalog([*data.catalog, twin]))
    assert (found.added, found.open_queries) == (("tool:new:open_ticket",), 2)
    assert [(one.query, one.new) for one in found.to_review] == [("q1", "tool:new:open_ticket")]
    assert found.dataset.unlabelled == ()  # queries stay judged
    off = rebase_dataset(data, Catalog([*data.catalog, replace(twin, enabled=False)]))
    assert (off.open_queries, off.to_review) == (0, ())


def test_renames_that_cannot_be_are_refused_at_once(make):
    data = make.dataset(["a", "b", "c"], [make.query("q")], [("q", "a", 2)])
    catalog = Catalog([make.tool("b"), make.tool("x")])
    renames = {
        make.key("a"): make.key("b"),  # b is there, and would be two
        make.key("z"): make.key("x"),  # no z
        make.key("c"): make.key("y"),  # no y
    }
    with pytest.raises(InputError) as caught:
        rebase_dataset(data, catalog, renames=renames)
    assert len(caught.value.faults) == 3
    with pytest.raises(InputError, match="rename them to different items"):
        rebase_dataset(data, catalog, renames={make.key("a"): make.key("x"), make.key("c"): make.key("x")})
    with pytest.raises(ParameterError, match="the new catalog is empty"):
        rebase_dataset(data, Catalog([]))


def test_two_items_may_swap_names(make):
    data = make.dataset(["a", "b"], [make.query("q")], [("q", "a", 2)])
    swap = {make.key("a"): make.key("b"), make.key("b"): make.key("a")}
    found = rebase_dataset(data, data.catalog, renames=swap)
    assert [label.item for label in found.dataset.labels] == [make.key("b")]


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_dropped_that_is_not_listed_and_the_result_is_valid(make, tiny, tmp_path, seed):
    rng = random.Random(seed)
    items = [item for item in tiny.catalog if rng.random() < 0.7]
    items = [
        replace(item, enabled=rng.random() < 0.9, include=rng.choice(["agent", "agent", "manual"])) for item in items
    ]
    items += [make.tool("new", "Opens an issue in the tracker.")]
    found = rebase_dataset(tiny, Catalog(items))
    lost = {(one.query, one.item) for one in found.lost_labels}
    kept = {(label.query, label.item.id) for label in found.dataset.labels}
    assert kept | lost == {(label.query, label.item.id) for label in tiny.labels}
    assert not kept & lost
    assert {query.id for query in found.dataset.queries} == {query.id for query in tiny.queries}
    write_dataset(found.dataset, tmp_path / "d")
    assert read_dataset(tmp_path / "d").hash == found.dataset.hash
    found.dataset.batch()  # every request can be resolved


def test_a_new_item_under_the_name_of_a_renamed_one_is_new(make):
    data = make.dataset(
        [make.tool("a", "Opens an issue."), make.tool("c")],
        [make.query("q1"), make.query("q2", available=(make.key("a"),))],
        [("q1", "a", 2), ("q2", "a", 2)],
    )
    catalog = Catalog([make.tool("a", "Deletes it all."), make.tool("b", "Opens an issue."), make.tool("c")])
    found = rebase_dataset(data, catalog, renames={make.key("a"): make.key("b")})
    assert (found.added, found.open_queries) == (("tool:s:a",), 1)  # q2 may get `b` alone
    assert (found.gone, found.changed) == ((), ())
    assert [label.item for label in found.dataset.labels] == [make.key("b")] * 2
    swapped = Catalog([make.tool("c"), make.tool("a", "Opens an issue.")])
    both = rebase_dataset(data, swapped, renames={make.key("a"): make.key("c"), make.key("c"): make.key("a")})
    assert both.added == ()


def test_another_order_of_the_catalog_is_reported(make):
    data = make.dataset(["a", "b", "c"], [make.query("q")], [("q", "a", 2)])
    for names, reordered in (("abc", False), ("cab", True), ("xaybz", False), ("ca", True)):
        found = rebase_dataset(data, Catalog([make.tool(name) for name in names]))
        assert found.reordered is found.as_dict()["items"]["reordered"] is reordered
    renames = {make.key("a"): make.key("z")}
    assert not rebase_dataset(data, Catalog([make.tool(n) for n in "zbc"]), renames=renames).reordered
    assert rebase_dataset(data, Catalog([make.tool(n) for n in "bcz"]), renames=renames).reordered


@pytest.mark.parametrize("after", [{"y": {}, "x": {"default": 1}}, {"x": {"default": True}, "y": {}}])
def test_an_item_whose_schema_differs_in_order_or_in_1_against_true_is_changed(make, after):
    old = make.tool("a", schema={"x": {"default": 1}, "y": {}})
    data = make.dataset([old], [make.query("q")], [("q", "a", 2)])
    found = rebase_dataset(data, Catalog([replace(old, schema=after)]))
    assert [(one.id, one.fields) for one in found.changed] == [("tool:s:a", ("schema",))]


@pytest.mark.parametrize("seed", range(20))
def test_every_item_of_either_catalog_is_accounted_for(make, tiny, seed):
    rng = random.Random(seed)
    items = list(tiny.catalog)
    left = [*rng.sample(items, 8), *(make.tool(f"new{i}") for i in range(3))]
    used = {item.key for item in left}
    renames = {item.key: make.key(f"new{i}") for i, item in enumerate(rng.sample(items, 2))}  # some are there still
    found = rebase_dataset(tiny, Catalog(left), renames=renames)
    new = {one.new.id for one in found.renamed}
    same = {item.id for item in items if item.key in used and item.key not in renames}
    assert {*found.added, *new, *same} == {item.id for item in left}
    assert {*found.gone, *(one.old.id for one in found.renamed), *same} == {item.id for item in items}
    assert len(found.added) + len(new) + len(same) == len(left)


def test_a_rename_with_one_mistake_is_one_fault(make):
    data = make.dataset(["a"], [make.query("q")], [("q", "a", 2)])
    with pytest.raises(InputError) as caught:
        rebase_dataset(data, Catalog([make.tool("a")]), renames={make.key("z"): make.key("a")})
    (fault,) = caught.value.faults
    assert "the dataset has no " in fault.message


def test_queries_whose_label_followed_one_part_of_a_split_item_are_listed(make):
    whole = "Refund a deposit within fourteen days. Managers approve larger payments beforehand."
    first, second = (f"{text}." for text in whole.rstrip(".").split(". "))
    data = make.dataset(
        [make.tool("refund", whole), make.tool("b", "Something else entirely")],
        [make.query("q1"), make.query("q2"), make.query("q3")],
        [("q1", "refund", 2), ("q2", "b", 2), ("q3", "refund", 1)],
    )
    parts = [make.tool("late", second), make.tool("c", "Weather of tomorrow"), data.catalog[1]]
    (found,) = rebase_dataset(data, Catalog([make.tool("refund", first), *parts])).split
    assert (found.query, found.item, found.other) == ("q1", "tool:s:refund", "tool:s:late")
    assert found.share == 1.0
    renamed = rebase_dataset(
        data, Catalog([make.tool("early", first), *parts]), renames={make.key("refund"): make.key("early")}
    )
    assert [(one.query, one.item, one.other) for one in renamed.split] == [("q1", "tool:s:early", "tool:s:late")]
    assert not rebase_dataset(data, Catalog([make.tool("refund", whole), *parts])).split
