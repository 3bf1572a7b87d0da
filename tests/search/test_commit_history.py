"""The commits of a catalog: what they changed, and which votes count."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ctxbench.model.items import Catalog, Item, Link
from ctxbench.model.requests import Batch
from ctxbench.search.code_index import LARGEST, CommitHistory
from tests.code_history import history, request

TREE = history(
    ("Start", {"a.py": "1", "b.py": "1"}), ("Fix a", {"a.py": "2"}), ("Drop", {"b.py": None}), ("Again", {"b.py": "2"})
)


def votes(past, *weight, catalog=TREE):
    """The votes for each version of a file, by name."""
    found = past.votes(np.array(weight, dtype=np.float64))
    return {catalog[n].path + catalog[n].name[-1]: v for n, v in enumerate(found.tolist()) if catalog[n].is_file}


def test_every_version_has_the_votes_of_its_path_a_deletion_too():
    past = CommitHistory.of(TREE)
    assert past.files.tolist() == [2, 1, 1, 1]
    assert votes(past, 1, 10, 100, 1000) == {"a.py1": 11.0, "b.py1": 1101.0, "a.py2": 11.0, "b.py4": 1101.0}


def test_commits_are_in_the_order_of_time_whatever_that_of_the_catalog():
    past, turned = CommitHistory.of(TREE), Catalog(reversed(tuple(TREE)))
    other = CommitHistory.of(turned)
    assert [turned[one].name for one in other.commit] == [TREE[one].name for one in past.commit]
    assert votes(other, 1, 10, 100, 1000, catalog=turned) == votes(past, 1, 10, 100, 1000)


def test_a_message_without_the_kind_is_no_commit():
    items = [replace(item, kind="note") if item.name.endswith("2") and item.links else item for item in TREE]
    assert len(CommitHistory.of(Catalog(items)).commit) == 3


def test_of_equal_likeness_the_latest_vote():
    catalog = history(*((f"Fix it {'again' if n > 8 else ''}", {f"{n}.py": "x"}) for n in range(5)))
    past = CommitHistory.of(catalog)
    seen = past.visible_commits(Batch.of(catalog, [request("fix", 4)]), 0)
    voices = past.voices(["fix"], [1.0], seen, limit=2, spread=0.0)
    assert (voices > 0).tolist() == [False, False, True, True, False]


def test_a_commit_that_says_nothing_is_like_nothing_and_moves_no_score():
    said = ("Commit the session", {"a.py": "1"}), ("Close it", {"b.py": "1"})
    silent = history(*said, ("", {"c.py": "1"}), ("", {"c.py": "2"}))
    likeness = [
        CommitHistory.of(one).likeness(["commit 000000000003"], [1.0], np.ones(n, dtype=bool))
        for one, n in ((silent, 4), (history(*said), 2))
    ]
    assert likeness[1][0] > 0
    assert likeness[0].tolist() == [*likeness[1].tolist(), 0.0, 0.0]


def test_files_change_together_by_the_share_of_commits_but_for_large_ones():
    many = {f"{n}.py": "x" for n in range(LARGEST - 1)}
    catalog = history(
        ("Large", {"a.py": "1", "b.py": "1", **many}),
        ("Both", {"a.py": "2", "b.py": "2"}),
        ("One", {"a.py": "3"}),
        ("Later", {"a.py": "4", "b.py": "4"}),
    )
    past, batch = CommitHistory.of(catalog), Batch.of(catalog, [request("x", 3)])
    now = {catalog[n].path: n for n in np.flatnonzero(batch.eligible[0]).tolist()}
    share = past.together(now["a.py"], past.visible_commits(batch, 0))
    assert {path: share[at] for path, at in now.items() if share[at]} == {"b.py": 1 / (2 + 2)}
    assert past.together(now["b.py"], past.visible_commits(batch, 0))[now["a.py"]] == 1 / (1 + 2)


def test_no_commits_give_no_votes():
    catalog = Catalog([Item(type="file", name="a.py", text="x")])
    past = CommitHistory.of(catalog)
    assert past.votes(past.voices(["x"], [1.0], np.zeros(0, dtype=bool), limit=3, spread=1.0)).tolist() == [0.0]


def test_what_was_renamed_has_the_votes_of_its_older_names_too():
    older, newer = history(("One", {"a.py": "1"})), history(("", {}), ("Two", {"b.py": "2"}), ("Three", {"c.py": "3"}))
    b, c = (item for item in newer if item.is_file)
    chunk = {"type": "chunk", "text": "x"}
    named = {
        b.name: replace(b, links=(Link("renamed_from", older[0].key),)),
        c.name: replace(c, links=(Link("renamed_from", b.key),)),
    }
    items = [*older, *(named.get(item.name, item) for item in newer if item.name != "commit-000000000001")]
    one = next(item for item in items if item.text == "One")
    items[items.index(one)] = replace(one, links=(*one.links, Link("changes", Item(name="a.py::f@1", **chunk).key)))
    items += [Item(name=f"{path}::f@1", title=path, **chunk) for path in ("a.py", "c.py")]
    catalog = Catalog(items)
    past = CommitHistory.of(catalog)
    found = dict(zip([item.name for item in catalog], past.votes(np.array([1.0, 10.0, 100.0])).tolist(), strict=True))
    assert [found[f"{path}@{n:012d}"] for n, path in enumerate(("a.py", "b.py", "c.py"), 1)] == [1.0, 11.0, 111.0]
    assert [found["a.py::f@1"], found["c.py::f@1"]] == [1.0, 0.0]  # b.py has no f, so that there is no way


def test_a_commit_says_how_many_files_it_changed():
    items = [replace(item, metadata={"files": 7}) if item.name == "commit-000000000001" else item for item in TREE]
    assert CommitHistory.of(Catalog(items)).files.tolist() == [7, 1, 1, 1]
